"""Every log that dpassay can write can be judged, merged, shown and reported.

Those of games against DP-SGD need JAX: ``adversaries/test_logs.py``.
"""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dpassay as da
from dpassay.attacks import train_shadows
from dpassay.auditing import judge, judging
from dpassay.auditing.shadow_runs import match
from dpassay.auditing.stepwise import STEPS
from dpassay.canaries.script import audit_script
from dpassay.cli.program import app
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.runs import MemoryLog, merge, opened
from dpassay.types import Verdict
from rates import assert_rate

SCRIPT = """
import numpy as np
import dpassay

data = [np.zeros(64) for _ in range(20)]
canaries = dpassay.canaries.for_rows(data, n=60, norm=1.0, public=np.zeros((1, 64)))
data = canaries.insert(data)
total = sum(data) + 10 * np.random.normal(size=64)
canaries.judge(lambda x: x @ total, claim="1,1e-5")
"""
CLAIM = da.ApproxDP(3.0, 1e-5)


def noisy_sum(data, rng):
    return float(np.sum(data) + rng.laplace())


def respond(X, y, rng, epsilon=1.0):
    """A model that says of each record whether it was trained on it, and lies as often as allowed.

    Its loss is -1 or 1: randomised response of each record's membership, epsilon-DP for add-remove.
    """
    known = set(np.asarray(X)[:, 0].tolist())
    lies = rng.random(10_000) < 1 / (1 + np.exp(epsilon))

    def loss(X, y):
        said = np.array([(x in known) != lies[int(x)] for x in np.asarray(X)[:, 0]])
        return np.where(said, -1.0, 1.0)

    return loss


def tell(X, y, rng):
    return respond(X, y, rng, epsilon=9.0)


def points(n):
    return np.arange(n, dtype=float)[:, None], np.arange(n) % 2


def write_audit(path):
    return da.audit(
        noisy_sum, ([1.0, 1.0], [1.0]), claim=(1, 0), score=float, trials=40, store=path
    )


def write_learning_audit(path):
    return da.audit(noisy_sum, ([1.0, 1.0], [1.0]), claim=(1, 0), trials=40, store=path)


def write_searching_audit(path):
    return da.audit(
        noisy_sum, data=da.inputs.vector(2, low=0, high=1), claim=(1, 0), trials=40, store=path
    )


def write_table_audit(path):
    table = pd.DataFrame({"v": [1.0, 2.0] * 5})

    def copy(table, rng):
        return pd.DataFrame({"v": rng.integers(1, 3, len(table)).astype(float)})

    given = {"claim": (1, 1e-5), "data": table, "views": ["rows"], "rows": 5}
    return da.audit_table(copy, trials=6, store=path, **given).parts[-1].verdict


def write_one_run(path):
    return da.audit_one_run(
        lambda data, rng: np.sum(data, axis=0) + rng.normal(size=8),
        np.zeros((3, 8)),
        np.eye(8),
        claim=(2, 1e-5),
        score=lambda model, canary: float(model @ canary),
        store=path,
    )


def write_shadows(path, design="halves"):
    train_shadows(respond, points(60), n_shadows=6, design=design, store=path)


def write_disjoint_shadows(path):
    write_shadows(path, "disjoint")


def write_script(path):
    script = path.with_name("train.py")
    script.write_text(SCRIPT)
    (verdict,) = audit_script(script, store=path)
    return verdict


WRITERS = (
    write_audit,
    write_learning_audit,
    write_searching_audit,
    write_table_audit,
    write_one_run,
    write_shadows,
    write_disjoint_shadows,
    write_script,
)
KINDS = set()


def statement(verdict):
    scores = verdict.evidence.scores.tobytes(), verdict.evidence.worlds.tobytes()
    return verdict.bound, verdict.refuted, verdict.confidence, verdict.attack, scores


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("write", WRITERS, ids=lambda w: w.__name__.removeprefix("write_"))
def test_a_log_is_judged_merged_shown_and_reported(write, tmp_path):
    path = tmp_path / "run.db"
    verdict = write(path)
    asked = ["--claim", "3,1e-5"] if "shadows" in write.__name__ else []
    claim = asked[1] if asked else None
    found = judge(path, claim=claim)
    if isinstance(verdict, Verdict):  # What it said when it was played, by its bits.
        assert statement(found) == statement(verdict)
    assert statement(judge(path, claim="9,1e-5"))[1] is False
    with opened(path) as log:
        whole = MemoryLog()
        assert merge(whole, log) == sum(record.n_done for record in log.runs())
        assert merge(whole, log) == 0
        KINDS.add(judging.find_run(log).description["audit"])
    assert statement(judge(whole, claim=claim)) == statement(found)
    state = json.loads(run("status", path, "--json"))["runs"][-1]
    assert state["state"] == "finished"
    assert (state["epsilon_lower"] is None) == bool(asked)
    assert not asked or "--claim 3,1e-5" in state["note"]
    if write in (write_learning_audit, write_searching_audit):
        return  # Their reports are those of any audit, and drawing takes its time.
    page = tmp_path / "page.html"
    run("report", path, "-o", page, *asked)
    assert "not refuted" in page.read_text(encoding="utf-8").lower()


def test_every_kind_of_log_was_tried():
    if len(KINDS) < 2:
        pytest.skip("the test before it did not run in this process")
    assert set(judging._QUESTIONS) - {STEPS} == KINDS


# What a shadow farm proves.


@pytest.mark.parametrize("design", ["halves", "disjoint"])
def test_shadows_that_tell_are_refuted(design):
    log = MemoryLog()
    train_shadows(tell, points(480), n_shadows=2, design=design, store=log)
    found = judge(log, claim=CLAIM if design == "halves" else "3,1e-5")
    assert found.refuted
    relation = "add-remove" if design == "halves" else "replace-one"
    assert (found.claim.neighbouring, found.kind, found.trials) == (relation, "one run", 1)
    assert found.evidence.scores.size == (480 if design == "halves" else 120)


def test_shadows_at_the_limit_of_their_claim_are_refuted_with_the_level_at_most():
    """Randomised response of every membership has exactly its epsilon: nothing is to spare."""
    refuted = 0
    for seed in range(24):
        log = MemoryLog()
        train_shadows(respond, points(40), n_shadows=6, rng=seed, store=log)
        refuted += judge(log, claim=(1.0, 0.0), confidence=0.9).refuted
    assert refuted <= 13  # of 24 at 0.1: more has probability below 1e-8


def test_the_shadow_that_was_trained_on_the_rest_is_no_reference():
    """It gives the coins away: what shadow 1 says must not matter."""
    logs = MemoryLog(), MemoryLog()
    for log, second in zip(logs, (1.0, -1.0), strict=True):
        calls = []

        def train(X, y, rng, second=second, calls=calls):
            model, trick = respond(X, y, rng), second if len(calls) == 1 else 1.0
            calls.append(1)
            return lambda X, y: trick * model(X, y)

        train_shadows(train, points(40), n_shadows=6, store=log)
    both = [judge(log, claim=CLAIM) for log in logs]
    assert statement(both[0])[4] == statement(both[1])[4]
    assert "with 4 others" in both[0].attack


def test_couples_are_fair_coins_whatever_the_scores():
    """All scores known, members not: over random partitions a coin agrees with no rule."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        inside = (rng.permutation(20) % 2).astype(np.int8)
        gaps, coins = match(np.arange(20.0), inside, np.random.default_rng(seed + 1000))
        assert coins.size == 10
        hits += int(((gaps > 0) == coins).sum())
    assert_rate(hits, 2000, 0.5)


def test_what_shadows_cannot_say(tmp_path):
    log = MemoryLog()
    train_shadows(respond, points(20), n_shadows=2, store=log)
    with pytest.raises(InvalidArgument, match="claim is missing"):
        judge(log)
    with pytest.raises(InvalidArgument, match="must be that of the data sets"):
        judge(log, claim=da.ApproxDP(1.0, 1e-5, neighbouring="replace-one"))
    train_shadows(respond, points(20), n_shadows=2, observed=points(9), store=log)
    with pytest.raises(InvalidArgument, match="without observed="):
        judge(log, claim=CLAIM)


def test_a_first_shadow_that_failed_stops():
    def fail(X, y, rng):
        raise ValueError

    log = MemoryLog()
    with pytest.raises(AuditStopped):
        train_shadows(fail, points(20), n_shadows=2, store=log)
    with pytest.raises(AuditStopped, match="failed"):
        judge(log, claim=CLAIM)


def test_of_several_verdicts_of_a_script_the_strongest_at_its_share_of_the_level(tmp_path):
    script, log = tmp_path / "train.py", MemoryLog()
    script.write_text(SCRIPT + SCRIPT.replace("10 *", "0.01 *"))
    verdicts = audit_script(script, store=log)
    assert [verdict.refuted for verdict in verdicts] == [False, True]
    found = judge(log)
    assert (found.refuted, found.confidence, found.bound.confidence) == (True, 0.95, 0.95)
    assert found.bound.epsilon < verdicts[1].bound.epsilon


def test_a_script_that_judged_nothing_has_no_verdict(tmp_path):
    script, log = tmp_path / "train.py", MemoryLog()
    script.write_text("raise ValueError")
    with pytest.raises(AuditStopped):
        audit_script(script, store=log)
    with pytest.raises(AuditStopped, match="before it had judged anything"):
        judge(log)
