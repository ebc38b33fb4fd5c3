"""Audits of synthesizers: planted bugs fall, honest code stands, logs are those of any audit."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.auditing import judge
from dpassay.auditing.table_bench import Asked, prepare
from dpassay.auditing.table_pairs import Likeness, make_pair, pair_of
from dpassay.auditing.table_plays import CANNOT_SEE, column_sets
from dpassay.auditing.table_subjects import as_subject
from dpassay.errors import AuditStopped, InvalidArgument
from dpassay.privacy import gaussian_noise_multiplier
from dpassay.report import audit_report
from dpassay.runs import opened
from dpassay.synth import MWEM, Independent, ProductMixture, Schema, Workload

SCHEMA = Schema({name: ["x", "y", "z"] for name in "abc"})
LIGHT = {"components": 3, "steps": 15}


class LessNoise(ProductMixture):
    """States its event and adds 60 % of the noise that the event has."""

    def _plan(self, allowed, n_records):
        mu = 1 / gaussian_noise_multiplier(allowed.epsilon, allowed.delta)
        wrong = float(da.GDP(mu / 0.6).epsilon(allowed.delta))
        plan = super()._plan(dataclasses.replace(allowed, epsilon=wrong), n_records)
        return dataclasses.replace(plan, event=super()._plan(allowed, n_records).event)


class DomainFromData(ProductMixture):
    """Reads the values of every column off the table."""

    def _fit(self, table, remainder):
        self.schema = Schema({name: sorted(table[name].unique()) for name in table.columns})
        self.workload = Workload.all_marginals(self.schema, 2)
        return super()._fit(table, remainder)


class Foreign:
    """Somebody else's synthesizer: fit returns nothing, sample takes n; it may leak."""

    def __init__(self, leaks):
        self.leaks, self.random_state = leaks, None

    def fit(self, table):
        rng = np.random.default_rng(self.random_state)
        self.rows = pd.DataFrame({"v": rng.choice(["p", "q"], 20), "w": rng.normal(size=20)})
        if self.leaks:
            self.rows.loc[:4, "v"] = table["v"].iloc[-5:].to_numpy()

    def sample(self, n):
        return self.rows.iloc[np.arange(n) % len(self.rows)]


TABLE = pd.DataFrame({"v": ["p", "q"] * 30 + ["rare"], "w": np.arange(61.0)})


# What is played.


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("base", ["filled", "empty"])
def test_pairs_are_neighbours_with_one_target(relation, base):
    pair = make_pair(SCHEMA, base, 60, relation, seed=0)
    sizes = len(pair.with_target), len(pair.without)
    assert sizes == ((61, 60) if relation == "add-remove" else (60, 60))
    like = Likeness.of(pair.target, pair.without)
    shares = like.to(pair.without).mean(axis=0)
    if base == "empty":
        assert (shares == 0).all()
        return
    assert shares == pytest.approx(0.5, abs=0.02)
    rest = pair.without[:59]
    assert like.counts(rest)[3:] == pytest.approx(59 / 4, abs=6)  # pairs of values are filled too


def test_a_pair_of_a_users_table():
    pair = pair_of(TABLE, None, "empty", "add-remove")
    assert pair.target["v"].item() == "rare"
    assert len(pair.without) == 60
    own = pair_of(TABLE, {"v": "p", "w": 3.5}, "filled", "add-remove")
    assert (len(own.with_target), len(own.without)) == (62, 61)
    with pytest.raises(InvalidArgument, match="0 to 60"):
        pair_of(TABLE, 61, "filled", "add-remove")
    with pytest.raises(InvalidArgument, match="'w'"):
        pair_of(TABLE, {"v": "p"}, "filled", "add-remove")


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_measurements_show_all_that_the_curve_allows(relation):
    """The score is the likelihood ratio: its worlds are as far apart as those of the claim's GDP.

    The distance over the deviation is at most mu, 1/noise multiplier, whatever the relation. It is
    somewhat less, because the grids and weights of the later stages differ from play to play.
    """
    made = ProductMixture(SCHEMA, epsilon=4.0, delta=1e-5, neighbouring=relation)
    bench = prepare(
        Asked(as_subject(made), None, "filled", None, None, None, None, None), "measurements"
    )
    pair, rng = bench.pair, np.random.default_rng(0)
    scores = [bench.play(data, rng, 3000) for data in (pair.with_target, pair.without)]
    apart = (scores[0].mean() - scores[1].mean()) / np.sqrt(np.mean([s.var() for s in scores]))
    mu = 1 / gaussian_noise_multiplier(4.0, 1e-5)
    assert 0.75 * mu < apart < mu + 0.13


def test_sets_are_in_the_order_of_the_counts():
    like = Likeness(("a", "b", "c"), ("x", "x", "y"), (None, None, None))
    rows = pd.DataFrame({"a": ["x", "x"], "b": ["x", "z"], "c": ["y", "y"]})
    assert dict(zip(column_sets(3), like.counts(rows), strict=True)) == {
        (0,): 2,
        (1,): 1,
        (2,): 2,
        (0, 1): 1,
        (0, 2): 2,
        (1, 2): 1,
    }


# Verdicts.


def test_too_little_noise_falls():
    found = da.audit_table(
        LessNoise(SCHEMA, epsilon=8.0, delta=1e-5), views=["measurements"], trials=4000
    )
    assert found.refuted
    assert found.verdict.confidence == pytest.approx(1 - 1e-6)


@pytest.mark.parametrize(
    ("relation", "trials"),
    [
        ("add-remove", {"support": 40, "measurements": 2000, "rows": 20}),
        ("replace-one", {"measurements": 1000, "answers": 20}),
    ],
)
def test_honest_code_stands(relation, trials):
    """Light fits; a hundred audits are played by benchmarks/table_audits.py."""
    made = ProductMixture(SCHEMA, epsilon=8.0, delta=1e-5, neighbouring=relation, **LIGHT)
    found = da.audit_table(made, views=list(trials), trials=trials, n_records=100, rows=100)
    assert not found.refuted
    assert [part.view for part in found.parts] == list(trials)
    for part in found.parts:
        claimed = part.verdict.claim.epsilon(part.verdict.bound.delta)
        assert part.verdict.bound.epsilon <= claimed
        assert part.cannot_see[: len(CANNOT_SEE[part.view])] == CANNOT_SEE[part.view]
        assert all(fault in str(found) for fault in part.cannot_see)


def test_a_domain_from_the_data_falls_and_ends_the_audit():
    made = DomainFromData(SCHEMA, epsilon=1.0, delta=1e-5, **LIGHT)
    found = da.audit_table(made, trials={"support": 50})
    assert found.refuted
    assert [part.view for part in found.parts] == ["support"]
    assert found.verdict.trials <= 50
    assert float(found.verdict.claim.epsilon(1e-5)) == pytest.approx(0.1)
    assert "measurements" in found.not_played


def test_somebody_elses_synthesizer():
    """Rows that show the last record; without the leak nothing is seen."""
    leaky = da.audit_table(Foreign(True), claim=(0.5, 1e-5), data=TABLE, trials=120)
    assert leaky.refuted
    assert leaky.parts[0].view == "support"
    honest = da.audit_table(Foreign(False), claim=(0.5, 1e-5), data=TABLE, trials=40)
    assert not honest.refuted
    assert [part.view for part in honest.parts] == ["support", "rows"]


def forget_the_noise(table):
    """The first half of the table, without any noise."""
    return table.sort_values("v")[len(table) // 2 :]


def test_a_fixed_seed_ends_the_audit():
    with pytest.raises(AuditStopped, match="fixes its seed"):
        da.audit_table(forget_the_noise, claim=(0.5, 1e-5), data=TABLE, trials=40)


def release_as_is(table, rng):
    """No privacy at all, in random order: a function of the table."""
    return table.iloc[rng.permutation(len(table))]


def test_a_function_of_the_table():
    found = da.audit_table(
        release_as_is, claim=da.PureDP(0.5, neighbouring="replace-one"), data=TABLE, trials=150
    )
    assert found.refuted


def read_share(fitted):
    return [(fitted.rows["v"] == "rare").mean()]


def test_answers_of_others_are_learned_from():
    found = da.audit_table(
        Foreign(True),
        claim=(0.5, 1e-5),
        data=TABLE,
        views=["answers"],
        answers=read_share,
        trials=150,
        confidence=0.99,
    )
    assert found.refuted


# Logs and pages.


def test_a_log_is_judged_resumed_and_reported(tmp_path):
    made = Independent(SCHEMA, epsilon=2.0, delta=1e-5)
    store = tmp_path / "audit.db"
    given = {"views": ["measurements"], "trials": 600}
    found = da.audit_table(made, store=store, **given)
    again = da.audit_table(made, store=store, **given)
    assert again.verdict.bound == found.verdict.bound
    with opened(store) as log:
        assert len(log.runs()) == 1
    judged = judge(store)
    assert judged.bound.epsilon == found.verdict.bound.epsilon
    assert judged.cannot_see == found.parts[0].cannot_see
    page = audit_report(judged).html()
    assert "cannot see" in page
    assert "filled base of" in judged.pair


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: da.audit_table(ProductMixture), "is a class"),
        (lambda: da.audit_table(3), "must be an object"),
        (lambda: da.audit_table(Foreign(False), data=TABLE), "claim is missing"),
        (lambda: da.audit_table(Foreign(False), claim=(1, 1e-5)), "data is missing"),
        (lambda: da.audit_table(Foreign(False), claim=(1, 1e-5), views=["answers"]), "answers="),
        (
            lambda: da.audit_table(MWEM(SCHEMA, epsilon=1.0), views=["measurements"]),
            "no measurements",
        ),
        (lambda: da.audit_table(Independent(SCHEMA), views=["row"]), "must be one of"),
        (lambda: da.audit_table(Independent(SCHEMA), views=[]), "must be a list"),
        (lambda: da.audit_table(Independent(SCHEMA), base="full"), "must be one of"),
    ],
)
def test_misuse(call, message):
    with pytest.raises(InvalidArgument, match=message):
        call()
