"""Every synthesizer draws the noise that its event states: 10 % less of it fails here.

Gaussian noise is seen in a fit of many cells, which know its deviation to a per cent. Choices are
seen without chance: a generator gives the Gumbel noise that the test chose, and the choice flips
where the score's lead is made up for, exactly. Draws of the games are seen by their logits, whose
change between neighbours must span the range that is stated.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpassay.mechanisms.noise import Source
from dpassay.privacy import BoundedRange, Gaussian, Laplace
from dpassay.privacy.budget import budget
from dpassay.privacy.events import Repeated, Sequence
from dpassay.synth import (
    BLR,
    DQRS,
    FEM,
    MWEM,
    DualQuery,
    FrankWolfe,
    Independent,
    NoisyMarginals,
    ProductMixture,
    Schema,
    Workload,
)
from dpassay.synth.measurements import SENSITIVITY, measure
from dpassay.synth.methods import baselines, dual_query, fem, frank_wolfe, mwem, product_mixture
from dpassay.synth.methods.descent import column_shares
from dpassay.synth.models import Mixture, Records
from synth.games_by_hand import Toy, first_best

RELATIONS = ("add-remove", "replace-one")


class Chosen(np.random.Generator):
    """A generator whose standard draws are given: these Gumbel or uniform ones, and 1 else."""

    def __init__(self, gumbels=()):
        super().__init__(np.random.PCG64(0))
        self.gumbels = np.asarray(gumbels, float)

    def gumbel(self, loc=0.0, scale=1.0, size=None):
        return loc + scale * self.gumbels

    def random(self, size=None):
        return self.gumbels

    def normal(self, loc=0.0, scale=1.0, size=None):
        return loc + scale

    def laplace(self, loc=0.0, scale=1.0, size=None):
        return loc + scale


def flip(choice, high=1e6):
    """The least Gumbel noise for which ``choice(noise)`` is not what it is at 0, by bisection."""
    first, low = choice(0.0), 0.0
    assert choice(high) != first
    while high - low > 1e-9 * max(high, 1):
        middle = (low + high) / 2
        low, high = (middle, high) if choice(middle) == first else (low, middle)
    return high


def stated(event, kind):
    """The different events of a kind, in the order in which they are listed."""
    if isinstance(event, Repeated):
        return stated(event.event, kind)
    if isinstance(event, Sequence):
        return list(dict.fromkeys(leaf for part in event.events for leaf in stated(part, kind)))
    return [event] if isinstance(event, kind) else []


# Gaussian noise.


def less(share):
    """``measure`` with that share of the noise."""
    return lambda data, columns, sigmas, *rest: measure(
        data, columns, [share * sigma for sigma in sigmas], *rest
    )


def assert_deviation(noise, stated, share):
    """Within 6 deviations of the estimate, which 10 % are not."""
    noise = np.concatenate([part.reshape(-1) for part in noise])
    near = 6 / math.sqrt(2 * noise.size)
    assert near < 0.06
    assert (abs(noise.std() / stated - 1) < near) == (share == 1)


@pytest.mark.parametrize("share", [1, 0.9])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rng", [1, None])
@pytest.mark.parametrize("method", [Independent, NoisyMarginals])
def test_baselines(method, rng, relation, share, monkeypatch):
    monkeypatch.setattr(baselines, "on_simplex", lambda shares: shares)
    monkeypatch.setattr(baselines, "measure", less(share))
    schema = Schema({"a": range(20_000)})
    fitted = method(schema, delta=1e-6, neighbouring=relation, rng=rng).fit(np.zeros((90, 1), int))
    (event,) = stated(fitted.event_, Gaussian)
    noise = 90 * fitted.answer(Workload.marginals([("a",)]))[1:]
    assert_deviation([noise], event.noise_multiplier * SENSITIVITY[relation], share)


@pytest.mark.parametrize("share", [1, 0.9])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("picks", [None, 1])
def test_mixtures(picks, relation, share, monkeypatch):
    """Pairs and triples, the latter measured at once or after they were selected."""
    seen = []

    def kept(schema, found, **rest):
        seen[:] = found
        return Mixture(schema, np.ones(1), np.concatenate(column_shares(schema, found))[None])

    monkeypatch.setattr(product_mixture, "fit_mixture", kept)
    monkeypatch.setattr(product_mixture, "measure", less(share))
    schema = Schema({"a": range(70), "b": range(70), "c": range(6)})
    codes, workload = np.zeros((900, 3), int), Workload.all_marginals(schema, 3)
    options = {"epsilon": 2.0, "delta": 1e-6, "neighbouring": relation, "picks": picks, "rng": 1}
    fitted = ProductMixture(schema, workload, **options).fit(codes)
    events = stated(fitted.event_, Gaussian)
    assert len(events) == 3
    for size, event in zip((1, 2, 3), events, strict=True):
        noise = [900 * m.shares.reshape(-1)[1:] for m in seen if len(m.columns) == size]
        if size > 1:
            assert_deviation(noise, event.noise_multiplier * SENSITIVITY[relation], share)


@pytest.mark.parametrize("share", [1, 0.9])
@pytest.mark.parametrize("relation", RELATIONS)
def test_columns_of_a_followed_universe(relation, share, monkeypatch):
    class Stop(Exception):
        pass

    def stop(schema, workload, truth, base, **rest):
        raise Stop(base)

    monkeypatch.setattr(frank_wolfe, "on_simplex", lambda shares: shares)
    monkeypatch.setattr(frank_wolfe, "measure", less(share))
    monkeypatch.setattr(frank_wolfe, "Particles", stop)
    schema = Schema({"a": range(20_000), "b": range(2)})
    workload = Workload.marginals([("b",)])
    fitted = FrankWolfe(schema, workload, neighbouring=relation, universe="followed", steps=3)
    plan = fitted._plan(budget(1.0, 1e-6, relation), 90)
    (selection,) = stated(plan.event, BoundedRange)
    assert plan.selection.scale == pytest.approx(2 / (90 * selection.epsilon))
    data = Records(schema, np.zeros((90, 2), int), 90)
    with pytest.raises(Stop) as found:
        fitted._run(data, plan, Source("reproducible", np.random.default_rng(1)))
    (event,) = stated(plan.event, Gaussian)
    noise = 90 * found.value.args[0][0][1:]
    assert_deviation([noise], event.noise_multiplier * SENSITIVITY[relation], share)


# Choices.

BIT = Schema({"x": range(2)})
X = Workload.marginals([("x",)])


@pytest.mark.parametrize("relation", RELATIONS)
def test_selected_sets(relation):
    """One record moves a score by 1, or by 2 where it is replaced: noise of 2 such over epsilon."""
    schema = Schema({name: range(2) for name in "abcd"})
    workload = Workload.marginals([("a", "b", "c"), ("b", "c", "d")])
    plan = product_mixture.plan_mixture(schema, workload, budget(1.0, 1e-6, relation), 1)
    data = Records(schema, np.array([[0, 0, 0, 0]] * 7 + [[1, 0, 0, 0]] * 5), 12)
    model = Mixture(schema, np.ones(1), np.full((1, 8), 0.5))
    scores = [np.abs(data.counts(c) - 12 * model.marginal(c)).sum() for c in plan.candidates]
    (event,) = stated(plan.event, BoundedRange)
    worse = int(np.argmin(scores))

    def choice(noise):
        gumbels = np.where(np.arange(2) == worse, noise, 0)
        return product_mixture.select_sets(
            data, model, plan, relation, Source("reproducible", Chosen(gumbels))
        )

    lead = max(scores) - min(scores)
    moved = {"add-remove": 1, "replace-one": 2}[relation]
    assert flip(choice) == pytest.approx(lead * event.epsilon / (2 * moved))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", RELATIONS)
def test_mwem(delta, relation, monkeypatch):
    """One round on two bits: the choice, and one deviation of the noise on a count of 200."""
    schema = Schema({"x": range(2), "y": range(2)})
    workload = Workload.conjunctions([{"x": 1}, {"y": 1}])
    data = Records(schema, np.array([[1, 0]] * 80 + [[0, 1]] * 30 + [[0, 0]] * 90), 200)
    fitted = MWEM(schema, workload, replays=0)
    plan = mwem.plan_rounds(1, budget(1.0, delta, relation))
    moved = []
    monkeypatch.setattr(mwem.Weights, "update", lambda self, *pair: moved.append(pair) or 0.0)

    def choice(noise):
        fitted._run(data, plan, Source("reproducible", Chosen([noise, 0.0])))
        return moved[-1][0]

    (selection,) = stated(plan.event, BoundedRange)
    lead = abs(30 / 200 - 0.5) * 200 - abs(80 / 200 - 0.5) * 200
    assert flip(choice) == pytest.approx(lead * selection.epsilon / 2)
    choice(0.0)
    (noise,) = stated(plan.event, (Gaussian, Laplace))
    assert moved[-1][1] * 200 - 30 == pytest.approx(noise.noise_multiplier)


@pytest.mark.parametrize("relation", RELATIONS)
def test_blr(relation):
    """Tables of one record: 0 is off by .3, 1 by .7."""
    data = Records(BIT, np.array([[0]] * 7 + [[1]] * 3), 10)
    fitted = BLR(BIT, X, size=1, neighbouring=relation)
    plan = fitted._plan(budget(0.8, 0.0, relation), 10)

    def choice(noise):
        found = fitted._run(data, plan, Source("reproducible", Chosen([0.0, noise])))
        return int(found.codes[0, 0])

    (event,) = stated(plan.event, BoundedRange)
    assert flip(choice) == pytest.approx((0.7 - 0.3) * 10 * event.epsilon / 2)


@pytest.mark.parametrize("batches", ["full", "disjoint"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_frank_wolfe(relation, batches):
    """The first step from the uniform distribution: "x is 0" is short by .2, "x is 1" long."""
    data = Records(BIT, np.array([[0]] * 7 + [[1]] * 3), 10)
    fitted = FrankWolfe(BIT, X, steps=1, alpha=1.0, batches=batches, neighbouring=relation)
    plan = fitted._plan(budget(1.0, 1e-6, relation), 10)

    def choice(noise):
        fitted._run(data, plan, Source("reproducible", Chosen([0.0, noise, 0.0, -1e9])))
        return tuple(np.sign(fitted.potential_))

    (event,) = stated(plan.event, BoundedRange)
    assert flip(choice) == pytest.approx((0.2 + 0.2) * 10 * event.epsilon / 2)


# Draws of the games.


def logits_of(module, cls, toy, counts, n, plan, patch):
    """What is drawn from in every round, where every draw gives query 0."""
    seen = []

    def first(logits, size, rng):
        seen.append(np.array(logits))
        return np.zeros(size, np.int64)

    patch.setattr(module, "draw", first)
    fitted = (
        cls(toy.schema, toy.workload, perturbation=0.0)
        if cls is FEM
        else cls(toy.schema, toy.workload)
    )
    fitted._run(toy.data(counts, n), plan, Source("reproducible", np.random.default_rng(0)))
    return np.array(seen)


@pytest.mark.parametrize(
    ("module", "cls"), [(dual_query, DualQuery), (dual_query, DQRS), (fem, FEM)]
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_games(module, cls, relation, monkeypatch):
    """Over all neighbours of 3 records, in every round: the stated range, which is attained."""
    toy, n, allowed = Toy(3), 3, budget(1.0, 1e-6, relation)
    fitted = cls(toy.schema, toy.workload, rounds=4, samples=2, rate=0.05)
    plan = replace(fitted._plan(allowed, n), ask=first_best)
    ranges = [part.epsilon for part in stated(plan.event, BoundedRange)]
    ranges = ranges[1::2] if cls is DQRS else ranges  # every other one is of the coins
    spans = []
    for pair in toy.neighbours(n, relation):
        ours, theirs = (logits_of(module, cls, toy, c, n, plan, monkeypatch) for c in pair)
        change = (theirs - ours)[-plan.count if cls is FEM else 1 :]
        spans.append(change.max(axis=1) - change.min(axis=1))
    expected = ranges if len(ranges) > 1 else ranges * plan.count
    np.testing.assert_allclose(np.max(spans, axis=0), expected, rtol=1e-9)


def test_coins_of_dqrs(monkeypatch):
    """A query is kept with the probability whose range the coin is charged for."""
    monkeypatch.setattr(dual_query, "draw", lambda logits, size, rng: np.ones(size, np.int64))
    plan = dual_query.Rounds(3, 0.7, 1, BoundedRange(1.0), 1, first_best)
    advantage, toy = np.array([0.4, 0.0, 0.0, 0.0]), Toy(2)
    fitted = DQRS(toy.schema, toy.workload)

    def choice(uniform):
        picks = np.zeros(1, np.int64)
        return int(fitted._next(picks, advantage, advantage, 2, plan, Chosen([uniform]))[0])

    gamma = dual_query.slack(2, 1)
    assert flip(choice, 1.0) == pytest.approx(math.exp(-gamma + 0.7 * (0.4 - 1)))
