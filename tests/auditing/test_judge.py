"""Logged trials judged again: the same question has the same verdict, bit for bit."""

import sqlite3

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import AuditStopped, judge
from dpassay.auditing.claims import claim_text, parse_claim
from dpassay.errors import InvalidArgument
from dpassay.runs import LogError, MemoryLog, Outcomes, merge, open_log
from rates import assert_rate_at_most

PAIR = (1.0, 0.0)


def laplace(scale):
    return lambda data, rng: data + rng.laplace(scale=scale)


def many_laplace(data, rng, size):
    return data + rng.laplace(scale=0.9, size=size)


def sometimes_fails(data, rng):
    return 1 / 0 if rng.random() < 0.05 else data + rng.laplace(scale=0.5)


def secure(data, rng):
    assert rng is None
    return data + np.random.default_rng(1).laplace()


def assert_same(one, other):
    """Every field, arrays by their bits."""
    assert one.claim == other.claim
    assert one.bound == other.bound
    names = ("refuted", "confidence", "trials", "ended", "attack", "replay", "fell_at")
    names += ("kind", "n_learning", "n_deaths", "p_value", "wealth_needed", "power", "next_step")
    for name in names:
        assert getattr(one, name) == getattr(other, name), name
    paths = [None if v.log_wealth is None else v.log_wealth.tobytes() for v in (one, other)]
    assert paths[0] == paths[1]
    for name in ("run", "seed", "n_failed"):
        assert getattr(one.evidence, name) == getattr(other.evidence, name), name
    assert one.evidence.worlds.tobytes() == other.evidence.worlds.tobytes()
    assert one.evidence.scores.tobytes() == other.evidence.scores.tobytes()


CASES = {
    "refuted": (laplace(0.2), {"claim": da.PureDP(1.0), "score": float, "trials": 120}),
    "learned": (laplace(1.0), {"claim": da.ApproxDP(1.0, 1e-6), "trials": 160, "rng": 3}),
    "fixed": (
        laplace(0.5),
        {"claim": da.ZCDP(0.5), "score": float, "trials": 90, "sequential": False, "delta": 1e-3},
    ),
    "blocks": (many_laplace, {"claim": da.PureDP(1.0), "score": float, "trials": 25_000}),
    "learned blocks": (many_laplace, {"claim": da.PureDP(0.6), "trials": 4000}),
    "failures": (
        sometimes_fails,
        {"claim": da.PureDP(1.0), "score": float, "trials": 200, "confidence": 0.99},
    ),
    "secure": (
        secure,
        {
            "claim": da.PureDP(1.0),
            "score": float,
            "trials": 50,
            "rng": None,
            "fixed_seed": "leak",
        },
    ),
    "assumptions": (
        laplace(1.0),
        {
            "claim": da.GDP(0.7, neighbouring="replace-one", assumptions=("n=3",)),
            "score": float,
            "trials": 40,
            "replay": "make audit",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_question_has_the_same_verdict(name, tmp_path):
    mechanism, options = CASES[name]
    played = da.audit(mechanism, PAIR, **options, store=tmp_path / "run.db")
    assert_same(judge(tmp_path / "run.db"), played)
    assert played.evidence.n_failed == np.isneginf(played.evidence.scores).sum()


def test_an_interrupted_audit_is_judged_up_to_the_first_gap():
    calls = []

    def stops(data, rng):
        calls.append(data)
        if len(calls) == 33:
            raise KeyboardInterrupt
        return data + rng.laplace()

    log = MemoryLog()
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 100, "store": log}
    early = da.audit(stops, PAIR, **options)
    assert early.ended == "interrupted"
    assert 0 < early.trials == len(log.outcomes(early.evidence.run)) <= 33
    assert_same(judge(log), early)


class InterruptedBetween(MemoryLog):
    """A log at which Ctrl-C comes after the first trial, when the next part of the run begins."""

    def begin(self, key, configuration, description):
        if len(self.outcomes(key)):
            raise KeyboardInterrupt
        super().begin(key, configuration, description)


def test_an_audit_interrupted_between_two_parts_is_judged_too():
    log = InterruptedBetween()
    early = da.audit(
        laplace(1.0), PAIR, claim=da.PureDP(1.0), score=float, trials=25_000, store=log
    )
    assert early.ended == "interrupted"
    assert_same(judge(log), early)


def test_trials_after_a_gap_do_not_count():
    log, gappy = MemoryLog(), MemoryLog()
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 60}
    whole = da.audit(laplace(0.8), PAIR, **options, store=log)
    (record,) = log.runs()
    gappy.begin(record.key, record.configuration, record.description)
    outcomes = log.outcomes(record.key)
    gappy.add(record.key, outcomes[outcomes.trials != 31])
    found = judge(gappy)
    assert (found.trials, found.ended) == (31, "interrupted")
    np.testing.assert_array_equal(found.evidence.scores, whole.evidence.scores[:31])


def test_one_run(tmp_path):
    rng = np.random.default_rng(0)
    canaries = rng.normal(size=(120, 400))

    def train(records, rng):
        return records.sum(axis=0) + rng.normal(0.0, 5.0, 400)

    options = {"score": lambda model, points: points @ model, "store": tmp_path / "run.db"}
    claims = (da.ApproxDP(0.5, 1e-5), da.GDP(0.3))
    for claim in claims:
        played = da.audit_one_run(
            train, np.zeros((1, 400)), canaries, claim=claim, guesses=(20, 20), **options
        )
        assert_same(judge(tmp_path / "run.db"), played)
    assert_same(judge(tmp_path / "run.db", claim=claims[1]), played)
    assert judge(tmp_path / "run.db", claim=claims[0]).claim == claims[0]


def test_the_latest_question_stands(tmp_path):
    """The claim is no part of the key: the same trials, another question."""
    options = {"score": float, "trials": 80, "store": tmp_path / "run.db"}
    mechanism = laplace(0.4)
    first = da.audit(mechanism, PAIR, claim=da.PureDP(3.0), **options)
    second = da.audit(mechanism, PAIR, claim=da.PureDP(1.0), confidence=0.9, **options)
    assert first.evidence.run == second.evidence.run
    assert_same(judge(tmp_path / "run.db"), second)
    again = judge(tmp_path / "run.db", claim=da.PureDP(3.0), confidence=0.95)
    assert (again.refuted, again.bound) == (first.refuted, first.bound)
    assert again.claim != judge(tmp_path / "run.db").claim


def test_another_claim_is_tested_at_its_own_level():
    """Each statement holds by itself: a true claim that the audit did not ask about, 5 % at most.

    The mutant takes the audit's own question for an answer: its claim of 0.05 always falls.
    """
    fallen = wrong = 0
    for seed in range(20):
        log = MemoryLog()
        options = {"claim": da.PureDP(0.05), "score": float, "trials": 300, "sequential": False}
        wrong += da.audit(laplace(1.0), PAIR, rng=seed, store=log, **options).refuted
        fallen += judge(log, claim=da.PureDP(1.0)).refuted
    assert_rate_at_most(fallen, 20, 0.05)
    with pytest.raises(AssertionError):
        assert_rate_at_most(wrong, 20, 0.05)


def test_other_levels_and_deltas(tmp_path):
    da.audit(
        laplace(0.3), PAIR, claim=da.PureDP(1.0), score=float, trials=100, store=tmp_path / "run.db"
    )
    bounds = [judge(tmp_path / "run.db", confidence=c).bound.epsilon for c in (0.8, 0.95, 0.999)]
    assert bounds == sorted(bounds, reverse=True)
    found = judge(tmp_path / "run.db", delta=1e-3)
    assert found.bound.delta == 1e-3
    for change in ({"confidence": 1.0}, {"delta": 1.0}, {"delta": float("nan")}):
        with pytest.raises(InvalidArgument, match=next(iter(change))):
            judge(tmp_path / "run.db", **change)


def test_runs_by_the_beginning_of_their_key(tmp_path):
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 10, "store": tmp_path / "run.db"}
    first, second = (da.audit(laplace(1.0), PAIR, rng=seed, **options) for seed in (1, 2))
    keys = [v.evidence.run for v in (first, second)]
    assert judge(tmp_path / "run.db").evidence.run == keys[1]
    assert judge(tmp_path / "run.db", keys[0][:10]).evidence.run == keys[0]
    with pytest.raises(
        InvalidArgument, match=r"run='x' is the beginning of no run.*" + keys[0][:12]
    ):
        judge(tmp_path / "run.db", "x")
    log = open_log(tmp_path / "run.db")
    log.begin(keys[0][:5] + "other", {})
    log.close()
    with pytest.raises(InvalidArgument, match="2 runs"):
        judge(tmp_path / "run.db", keys[0][:5])


def test_what_cannot_be_judged(tmp_path):
    with pytest.raises(LogError, match=r"run\.db"):
        judge(tmp_path / "run.db")
    assert not (tmp_path / "run.db").exists()
    log = MemoryLog()
    with pytest.raises(InvalidArgument, match="no runs yet"):
        judge(log)
    log.begin("k", {"seed": 1})
    with pytest.raises(InvalidArgument, match="not written by an audit"):
        judge(log)


def test_a_claim_without_a_text_must_be_given():
    claim = da.account(da.dp_sgd_event(1.0, 0.1, 5), "pld")
    log = MemoryLog()
    played = da.audit(laplace(50.0), PAIR, claim=claim, score=float, trials=30, store=log)
    with pytest.raises(InvalidArgument, match="claim is missing"):
        judge(log)
    assert_same(judge(log, claim=claim), played)
    with pytest.raises(InvalidArgument, match="replace-one"):
        judge(log, claim=da.PureDP(1.0, neighbouring="replace-one"))


def test_too_many_failures_stop_the_judge_too():
    def fails(data, rng):
        raise RuntimeError("the disk is on fire")

    for score in (float, None):
        log = MemoryLog()
        options = {"claim": da.PureDP(1.0), "score": score, "trials": 150, "store": log}
        with pytest.raises(AuditStopped, match=r"RuntimeError(.|\n)*test_judge.py") as stopped:
            da.audit(fails, PAIR, **options)
        with pytest.raises(AuditStopped) as again:
            judge(log)
        assert str(again.value) == str(stopped.value)


def test_what_a_log_says_of_an_audit(tmp_path):
    path = tmp_path / "run.db"
    da.audit(
        laplace(1.0),
        PAIR,
        claim=da.PureDP(1.0),
        trials=120,
        sequential=False,  # With bets alone the score is learned while they go on.
        store=path,
        description={"target": "mine.py:f"},
    )
    log = open_log(path)
    (run,) = log.runs()
    assert run.configuration.keys() == {"seed", "block", "n_learning", "sklearn"}
    about = run.description
    assert (about["target"], about["claim"], about["trials"]) == ("mine.py:f", "1.0", 120)
    assert about["learned"] is True
    assert about["distinguisher"] in ("logistic", "boosting", "histogram")
    assert about["writer"]["n_logged"] == 60  # the learning trials, when the test began
    copy = MemoryLog()
    assert merge(copy, log) == 120
    assert copy.runs()[0].description == about
    assert_same(judge(copy), judge(log))
    log.begin(run.key, {}, about | {"confidence": 0.5})
    assert merge(copy, log) == 0
    assert copy.runs()[0].description == about  # merging never overwrites
    log.close()


def test_logs_from_before_descriptions(tmp_path):
    """They are read, and say what is missing."""
    path = tmp_path / "run.db"
    log = open_log(path)
    log.begin("k", {"seed": 0, "block": 0, "n_learning": 0})
    log.add("k", Outcomes.of([0, 1], [1.0, 2.0]))
    log.close()
    connection = sqlite3.connect(path)
    assert "description" not in connection.execute("SELECT configuration FROM runs").fetchone()[0]
    connection.close()
    with pytest.raises(InvalidArgument, match="does not say what was asked"):
        judge(path)


@pytest.mark.parametrize(
    "claim",
    [
        da.PureDP(1 / 3),
        da.ApproxDP(2, 1e-5),
        da.GDP(np.float64(0.1), neighbouring="replace-one"),
        da.ZCDP(0.1, assumptions=("n=5", "labels")),
    ],
)
def test_claims_and_their_texts(claim):
    text = claim_text(claim)
    same = parse_claim(text, neighbouring=claim.neighbouring, assumptions=claim.assumptions)
    assert same == claim
    other = da.GDP(0.5, kind="estimate")
    assert claim_text(other) is None


def test_numbers_that_were_details_are_fields():
    found = da.audit(laplace(1.0), PAIR, claim=da.PureDP(1.0), trials=120, sequential=False)
    with pytest.warns(DeprecationWarning, match="n_learning"):
        assert found.details["learning_trials"] == found.n_learning == 60
