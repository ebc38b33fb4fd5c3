import os
from pathlib import Path

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import AuditStopped
from dpassay.auditing.game import fresh
from dpassay.errors import InvalidArgument
from dpassay.runs import Workers
from dpassay.zoo import learners


def laplace(scale):
    def mechanism(data, rng):
        return data + rng.laplace(scale=scale)

    return mechanism


def many_laplace(scale):
    def mechanism(data, rng, size):
        return data + rng.laplace(scale=scale, size=size)

    return mechanism


PAIR = (1.0, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_the_bundled_learners(seed):
    """At confidence 1 - 1e-6 the honest one stands and the broken one falls.

    A true claim falls in one of these 6 audits with probability 6e-6 at most. The honest learner
    has fewer trials than in the demo, which costs a third; more could not help the broken one.
    """
    options = {"claim": learners.claim(), "confidence": 1 - 1e-6, "rng": seed}
    good = da.audit(learners.honest, learners.neighbours(), trials=160, **options)
    bad = da.audit(learners.broken, learners.neighbours(), trials=120, **options)
    assert not good.refuted
    assert good.ended == "budget spent"
    assert bad.refuted
    assert bad.ended == "refuted"
    assert bad.n_counted < 60
    assert bad.bound.epsilon >= 0.99 * learners.claim().epsilon(1e-5)
    assert 0.99 < bad.tightness < 1.2
    assert "refuted: epsilon >=" in str(bad)


def test_given_scores_may_point_either_way():
    for score in (float, lambda x: -x):
        assert da.audit(laplace(0.3), PAIR, claim=da.PureDP(1.0), score=score).refuted


def test_many_draws_at_once():
    claim = da.PureDP(1.0)
    honest = da.audit(many_laplace(1.0), PAIR, claim=claim, trials=60_000)
    assert not honest.refuted
    assert honest.trials <= 60_000
    assert 0.7 < honest.bound.epsilon <= 1.0
    weak = da.audit(many_laplace(0.9), PAIR, claim=claim, trials=60_000)
    assert weak.refuted
    assert 1.0 < weak.bound.epsilon <= 1 / 0.9
    assert "entry 0" in weak.attack


def test_outcomes_do_not_depend_on_workers_or_store(tmp_path):
    options = {"claim": da.PureDP(1.0), "score": abs, "trials": 120, "rng": 5}
    here = da.audit(laplace(0.8), PAIR, **options)
    stored = da.audit(laplace(0.8), PAIR, **options, store=tmp_path / "run.db")
    again = da.audit(laplace(0.8), PAIR, **options, store=tmp_path / "run.db")
    spread = da.audit(laplace(0.8), PAIR, **options, workers=2)
    for other in (stored, again, spread):
        np.testing.assert_array_equal(here.evidence.scores, other.evidence.scores)
        np.testing.assert_array_equal(here.evidence.worlds, other.evidence.worlds)
        assert here.bound == other.bound
    assert here.evidence.run == stored.evidence.run


def test_a_stored_audit_is_not_played_again(tmp_path):
    calls = str(tmp_path / "calls")

    def counted(data, rng):
        with open(calls, "a") as file:
            file.write("x")
        return data + rng.laplace(scale=1.0)

    def n_calls():
        return Path(calls).read_text().count("x")

    options = {"claim": da.PureDP(1.0), "score": float, "store": tmp_path / "run.db"}
    first = da.audit(counted, PAIR, trials=40, **options)
    assert n_calls() == 40
    more = da.audit(counted, PAIR, trials=60, **options)
    assert n_calls() == 60
    np.testing.assert_array_equal(more.evidence.scores[:40], first.evidence.scores)


def test_the_secure_path_is_audited():
    def release(data, rng):
        return da.mechanisms.laplace(data, sensitivity=1.0, epsilon=1.0, rng=rng).value

    verdict = da.audit(release, PAIR, claim=da.PureDP(1.0), score=float, trials=100, rng=None)
    assert verdict.evidence.seed is None
    assert verdict.evidence.trials == 100
    broken = da.audit(release, PAIR, claim=da.PureDP(0.05), score=float, trials=3000, rng=None)
    assert broken.refuted


def test_failures_are_outputs():
    """A mechanism that dies in one world only gives itself away by that."""

    def dies(data, rng):
        if data == 0 and rng.random() < 0.9:
            raise RuntimeError("no data")
        return 5.0

    def dies_often(data, rng):
        return 1 / 0 if rng.random() < 0.4 else 5.0

    options = {"claim": da.PureDP(1.0), "score": float}
    with pytest.raises(AuditStopped, match=r"ZeroDivisionError(.|\n)*test_audit.py"):
        da.audit(dies_often, PAIR, **options)
    assert not da.audit(dies_often, PAIR, **options, trials=200, max_failed_share=1.0).refuted
    verdict = da.audit(dies, PAIR, **options, max_failed_share=1.0)
    assert verdict.refuted
    assert verdict.evidence.n_failed > 0

    def sometimes_nan(data, rng):
        return float("nan") if rng.random() < 0.05 else data + rng.laplace(scale=1.0)

    honest = da.audit(sometimes_nan, PAIR, claim=da.PureDP(1.0), score=float, trials=300)
    assert not honest.refuted
    assert honest.evidence.n_failed > 0
    assert np.isneginf(honest.evidence.scores).sum() == honest.evidence.n_failed


def test_neighbours_are_checked():
    X = np.arange(10.0).reshape(5, 2)

    def mean(data, rng):
        return data.mean(axis=0) + rng.normal(size=2)

    with pytest.raises(InvalidArgument, match="neighbours"):
        da.audit(mean, (X, X[:-2]), claim=da.GDP(1.0))
    replaced = X.copy()
    replaced[0] = 0
    claim = da.GDP(5.0, neighbouring="replace-one")
    assert not da.audit(mean, (X, replaced), claim=claim, trials=200).refuted


def test_a_claim_of_another_kind_and_a_delta():
    claim = da.account(da.dp_sgd_event(1.0, 0.1, 5), "pld")
    verdict = da.audit(laplace(50.0), PAIR, claim=claim, score=float, trials=50, delta=1e-6)
    assert not verdict.refuted
    assert verdict.bound.delta == 1e-6
    assert verdict.claim is claim


def test_fixed_size():
    verdict = da.audit(
        laplace(0.3), PAIR, claim=da.PureDP(1.0), score=float, trials=400, sequential=False
    )
    assert verdict.refuted
    assert verdict.trials == 400


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"mechanism": 3}, "mechanism"),
        ({"pair": (1.0,)}, "pair"),
        ({"score": "high"}, "score"),
        ({"trials": 0}, "trials"),
        ({"trials": 50, "score": None, "sequential": False}, "trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"rng": -1}, "rng"),
        ({"delta": 1.0}, "delta"),
        ({"claim": 1}, "claim=1 must be a privacy curve"),
        ({"claim": None}, "claim=None"),
        ({"timeout": 0}, "timeout"),
        ({"max_failed_share": 2}, "max_failed_share"),
        ({"workers": 0}, "workers"),
    ],
)
def test_bad_values(change, name):
    options = {"mechanism": laplace(1.0), "pair": PAIR, "claim": da.PureDP(1.0), "score": float}
    options |= {"trials": 20} | change
    with pytest.raises(InvalidArgument, match=name):
        da.audit(options.pop("mechanism"), options.pop("pair"), **options)


def test_a_mechanism_may_change_its_data(tmp_path):
    """Outcomes depend on the number alone, and the caller's arrays stay as they were."""

    def shuffles(data, rng):
        data *= 0.5
        rng.shuffle(data)
        return float(data[0] + rng.normal())

    pair = np.arange(5.0), np.arange(4.0)
    options = {"claim": da.GDP(1.0), "score": float, "trials": 60}
    whole = da.audit(shuffles, pair, **options)
    np.testing.assert_array_equal(pair[0], np.arange(5.0))
    part = {**options, "trials": 25, "store": tmp_path / "run.db"}
    da.audit(shuffles, pair, **part)
    again = da.audit(shuffles, pair, **{**part, "trials": 60})
    np.testing.assert_array_equal(again.evidence.scores, whole.evidence.scores)
    assert again.evidence.run == whole.evidence.run


def test_copies_are_of_what_can_be_changed():
    table, word = np.zeros(3), object()
    copied = fresh((table, [table, {"a": table}], word, [1, 2]))
    table += 1
    assert copied[0].sum() == copied[1][0].sum() == copied[1][1]["a"].sum() == 0
    assert copied[2] is word
    assert copied[3] == [1, 2]


@pytest.mark.parametrize("score", [None, float])
def test_nothing_but_nan_is_a_failure_with_and_without_a_score(score):
    with pytest.raises(AuditStopped, match="NaN"):
        da.audit(lambda d, rng: np.nan, ([1], []), claim=da.PureDP(1.0), score=score, trials=200)


def test_to_say_nothing_is_an_output():
    """A release that refuses by chance, as propose-test-release does, is audited like others."""

    def silent(data, rng):
        return None if rng.random() < 0.5 else len(data) + rng.laplace(scale=1.0)

    verdict = da.audit(silent, ([1], []), claim=da.PureDP(1.0), trials=200)
    assert not verdict.refuted
    assert verdict.evidence.n_failed == 0


@pytest.mark.parametrize(("rng", "fail"), [(0, False), (None, True)])
def test_a_death_is_an_output_where_noise_cannot_be_replayed(tmp_path, rng, fail):
    """Drawn anew, a trial would have lost an output for what it was."""
    calls = str(tmp_path / "calls")

    def dies_every_other_time(data, rng):
        with open(calls, "a") as file:
            file.write(".")
        if os.path.getsize(calls) % 2:
            os._exit(9)
        return 0.0

    with Workers(1, separate=True) as crew:
        verdict = da.audit(
            dies_every_other_time,
            ([1, 2], [1]),
            claim=da.PureDP(1.0),
            score=float,
            trials=6,
            rng=rng,
            executor=crew,
            max_failed_share=1.0,
        )
    assert (verdict.evidence.n_failed >= 3) is fail
