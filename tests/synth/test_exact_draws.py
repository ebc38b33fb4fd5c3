"""Secure noise of synthesizers: exact, and of the law that the seeded path has."""

import math

import numpy as np
import pytest
from scipy import special

from dpassay.mechanisms import noise
from dpassay.synth import (
    BLR,
    DQRS,
    FEM,
    MWEM,
    DualQuery,
    FrankWolfe,
    ProductMixture,
    Schema,
)
from dpassay.synth.methods import blr, games, mwem, product_mixture
from dpassay.synth.methods.dual_query import keep_probability, log_keep_probability
from dpassay.synth.queries.workload import Workload
from rates import assert_rate

SCHEMA = Schema({"a": range(2), "b": range(3)})
TABLE = np.array([[0, 0], [0, 1], [1, 2]] * 100)
LOGITS = np.array([0.0, -1.0, 0.7, -3.0])
N = 3000


@pytest.mark.parametrize(
    "method",
    [
        lambda **rest: BLR(SCHEMA, size=4, epsilon=2.0, **rest),
        lambda **rest: BLR(SCHEMA, size=4, candidates=50, epsilon=2.0, **rest),
        lambda **rest: MWEM(SCHEMA, epsilon=2.0, delta=0.0, rounds=3, **rest),
        lambda **rest: MWEM(SCHEMA, epsilon=2.0, delta=1e-6, rounds=3, **rest),
        lambda **rest: DualQuery(SCHEMA, epsilon=2.0, rounds=3, **rest),
        lambda **rest: DQRS(SCHEMA, epsilon=2.0, rounds=3, **rest),
        lambda **rest: FEM(SCHEMA, epsilon=2.0, rounds=3, **rest),
        lambda **rest: FrankWolfe(SCHEMA, epsilon=2.0, delta=1e-6, steps=3, **rest),
        lambda **rest: ProductMixture(SCHEMA, epsilon=2.0, delta=1e-6, steps=5, **rest),
    ],
)
def test_levels(method):
    fitted = method(rng=None).fit(TABLE)
    assert fitted.noise_ == "exact"
    assert np.isfinite(fitted.answer(Workload.marginals([("a", "b")]))).all()
    assert method(rng=0).fit(TABLE).noise_ == "reproducible"


def test_draws():
    picks = games.draw(LOGITS, N, noise.secure_generator()).tolist()
    for i, p in enumerate(special.softmax(LOGITS)):
        assert_rate(picks.count(i), N, p)


def test_peeling_is_the_exponential_mechanism_without_replacement():
    generator = noise.secure_generator()
    pairs = [tuple(product_mixture._peel(LOGITS, 2, generator)) for _ in range(N)]
    p = special.softmax(LOGITS)
    assert all(first != second for first, second in pairs)
    for pair in ((2, 0), (0, 2), (1, 3)):
        first, second = pair
        assert_rate(pairs.count(pair), N, p[first] * p[second] / (1 - p[first]))


def test_queries_that_are_done_are_not_picked_again():
    chosen = noise.source(None)
    picks = [mwem._pick_query(LOGITS.copy(), [2], chosen) for _ in range(N)]
    left = special.softmax(LOGITS[[0, 1, 3]])
    for i, p in zip((0, 1, 3), left, strict=True):
        assert_rate(picks.count(i), N, p)
    assert 2 not in picks


@pytest.mark.parametrize("gaussian", [False, True])
def test_noise_on_a_count(gaussian):
    plan = mwem.MWEMPlan(1, 1.0, 5.0, gaussian, None)
    chosen = noise.source(None)
    errors = [100 * (mwem._measure_share(0.3, 100, plan, chosen) - 0.3) / 5 for _ in range(N)]
    beyond = np.sum(np.abs(errors) > 1)
    p = 2 * special.ndtr(-1) if gaussian else math.exp(-1)
    assert_rate(beyond, N, p)
    with pytest.raises(AssertionError):  # noise that is three tenths too small
        shorter = np.sum(0.7 * np.abs(errors) > 1)
        assert_rate(shorter, N, p)


def test_tables_are_made_again():
    """In chunks of two, by the index that was drawn, with its weight."""
    rows = np.arange(4)[:, None]

    def tables(rng):
        del rng
        yield rows[:2]
        yield rows[2:]

    chosen = noise.source(None)
    picks = [
        int(blr._choose_exactly(tables, lambda chunk: LOGITS[chunk[:, 0]], chosen)[0])
        for _ in range(N)
    ]
    for i, p in enumerate(special.softmax(LOGITS)):
        assert_rate(picks.count(i), N, p)


def test_kept_queries_have_the_stated_chance():
    advantage = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    logs = log_keep_probability(advantage, 0.3, 0.1)
    assert (logs < 0).all()
    np.testing.assert_allclose(np.exp(logs), keep_probability(advantage, 0.3, 0.1))
