"""Pairs at the resolution that the budget allows: grids, merges, strengths, stages, their price."""

import math

import numpy as np
import pytest

from dpassay import synth
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Source
from dpassay.privacy import Gaussian, account, gaussian_noise_multiplier
from dpassay.privacy.budget import budget
from dpassay.synth import Categorical, Numeric, Ordinal, ProductMixture, Schema, Workload, compare
from dpassay.synth.measurements import SENSITIVITY, Measurement, measure
from dpassay.synth.methods import stages
from dpassay.synth.methods.product_mixture import _count_components
from dpassay.synth.methods.resolution import Strength, choose_grid, find_strength, merge_values
from dpassay.synth.methods.stages import choose_pairs, choose_triples, plan_stages
from dpassay.synth.models import Records

RELATIONS = ("add-remove", "replace-one")
SCHEMA = Schema({"a": range(30), "b": range(30), "c": range(3), "d": range(20)})
PAIRS = tuple(names for names in Workload.all_marginals(SCHEMA, 2).column_sets())


def table(n=3000, seed=0, related=True):
    """Columns a and b go together, if they are to; c and d go their own way."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    if related:
        z[:, 1] = 0.8 * z[:, 0] + 0.6 * z[:, 1]
    codes = np.floor((z + 3) / 6 * np.array(SCHEMA.sizes)).astype(int)
    return codes.clip(0, np.array(SCHEMA.sizes) - 1)


# Grids and merges.


@pytest.mark.parametrize(
    ("sizes", "most", "grid"),
    [
        ((20, 20), 3340 / (1.5 * 52), (6, 7)),
        ((2, 87), 611, (2, 87)),
        ((87, 2), 20, (10, 2)),
        ((5, 5), 1.3, (2, 2)),
        ((1, 9), 4, (1, 4)),
        ((10, 10), 100, (10, 10)),
    ],
)
def test_grids(sizes, most, grid):
    assert choose_grid(sizes, most) == grid


def test_noise_of_a_pair_of_fourteen_columns():
    """91 pairs at full resolution with 90 % of the budget: what the grids are measured against."""
    schema = Schema({f"c{j}": range(20) for j in range(14)})
    workload = Workload.all_marginals(schema, 2)
    for epsilon, sigma in ((0.1, 365.1), (1.0, 42.5), (10.0, 5.44)):
        plan = ProductMixture(schema, workload, resolution=None)._plan(
            budget(epsilon, 1e-6, "add-remove"), 4454
        )
        assert plan.sigmas[-1] == pytest.approx(sigma, rel=2e-3)


def test_values_are_merged_to_runs_of_like_shares():
    shares = np.array([0.83, 0.05, 0.04, 0.04, 0.04])
    assert merge_values(Ordinal(range(5)), shares, 3).tolist() == [0, 1, 1, 2, 2]
    assert merge_values(Ordinal(range(5)), shares[::-1], 3).tolist() == [0, 0, 1, 1, 2]
    even = merge_values(Numeric.between(0, 1, bins=20), np.full(20, 0.05), 5)
    assert np.bincount(even).tolist() == [4] * 5
    between = merge_values(Ordinal(range(5)), np.array([0.1, 0.1, 0.6, 0.1, 0.1]), 3)
    assert between.tolist() == [0, 0, 1, 2, 2]
    negative = merge_values(Ordinal(range(4)), np.array([-0.2, 0.0, -0.1, 0.0]), 2)
    assert set(negative) == {0, 1}


def test_without_an_order_the_frequent_stand_alone_and_missing_always_does():
    column = Categorical(tuple("abcde"), nullable=True)
    found = merge_values(column, np.array([0.1, 0.4, 0.05, 0.3, 0.05, 0.1]), 3)
    assert found.tolist() == [2, 0, 2, 1, 2, 3]
    gaps = Numeric.between(0, 1, bins=6, nullable=True)
    assert merge_values(gaps, np.full(7, 1 / 7), 2).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert merge_values(gaps, np.full(7, 1 / 7), 6).tolist() == list(range(7))


def test_merged_counts_are_sums_of_counts():
    codes = table(500)
    data, groups = Records(SCHEMA, codes, 500), (np.arange(30) // 7, np.arange(3) // 2)
    merged, full = data.counts(("a", "c"), groups), data.counts(("a", "c"))
    expected = np.zeros_like(merged)
    np.add.at(expected, np.ix_(*groups), full)
    np.testing.assert_array_equal(merged, expected)


# Strengths.


def draw_pair(rng, joint, s):
    """A noisy pair on groups, and its noisy columns, whose noise is as large."""
    a, b = joint.sum(axis=1), joint.sum(axis=0)
    groups = np.arange(12) // 2, np.arange(12) // 3
    merged = np.zeros((6, 4))
    np.add.at(merged, np.ix_(*groups), joint)
    pair = Measurement(("a", "b"), merged + s * rng.normal(size=(6, 4)), s, groups)
    ones = [Measurement((k,), p + s * rng.normal(size=12), s) for k, p in (("a", a), ("b", b))]
    return pair, ones


def test_independent_columns_have_strength_zero_on_average():
    """200 draws, skewed shares: the mean of the estimates within 3 of its deviations."""
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(12)), np.array([0.7] + [0.3 / 11] * 11)
    found = [find_strength(*draw_pair(rng, np.outer(a, b), 0.01)) for _ in range(200)]
    squares = np.array([one.square for one in found])
    assert abs(squares.mean()) < 3 * squares.std() / math.sqrt(200)
    assert sum(one.stands_out for one in found) <= 20


def test_related_columns_stand_out_by_their_distance_from_independence():
    rng = np.random.default_rng(1)
    joint = 0.5 * np.eye(12) / 12 + 0.5 / 144
    found = [find_strength(*draw_pair(rng, joint, 0.002)) for _ in range(50)]
    merged = np.zeros((6, 4))
    np.add.at(merged, np.ix_(np.arange(12) // 2, np.arange(12) // 3), joint)
    exact = np.square(merged - 1 / 24).sum()
    assert all(one.stands_out for one in found)
    assert np.mean([one.square for one in found]) == pytest.approx(exact, rel=0.05)


def test_the_strongest_are_measured_again_and_none_is_all():
    weak, strong = Strength(0.1, 0.2), {k: Strength(float(k), 0.5) for k in (1, 4, 9)}
    given = {("a", "b"): strong[4], ("a", "c"): weak, ("b", "c"): strong[9], ("c", "d"): strong[1]}
    assert choose_pairs(given, 2) == {("b", "c"): 3.0, ("a", "b"): 2.0}
    assert choose_pairs(dict.fromkeys(given, weak), 2) == dict.fromkeys(given, 1.0)
    assert choose_triples(given, "c") == (("b", "d", "c"), ("b", "a", "c"), ("d", "a", "c"))


# What is spent.


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("target", [None, "c"])
def test_the_event_meets_the_budget_whatever_was_picked(relation, target):
    events, picks = [], []
    for related in (True, False):
        fitted = ProductMixture(
            SCHEMA, epsilon=1.0, delta=1e-6, neighbouring=relation, target=target, steps=1, rng=0
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stages, "measure", lambda *args: picks.append(args[1]) or measure(*args))
            events.append(fitted.fit(table(related=related)).event_)
    assert events[0] == events[1]
    assert picks[2] != picks[len(picks) // 2 + 2]
    assert account(events[0]).epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    assert account(events[0]).epsilon(1e-6) <= 1.0
    assert events[0].neighbouring == relation


@pytest.mark.parametrize("related", [True, False])
@pytest.mark.parametrize("target", [None, "c"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_stage_costs_what_it_is_charged(relation, target, related):
    """The squares of 1/σ of all that a stage measures, against that of its event."""
    plan = plan_stages(SCHEMA, PAIRS, budget(1.0, 1e-6, relation), 3000, target=target)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "measure", lambda *args: seen.append(args[2]) or measure(*args))
        data = Records(SCHEMA, table(related=related), 3000)
        stages.measure_in_stages(data, plan, Source("reproducible", np.random.default_rng(0)))
    first, *later = plan.event.events
    charged = [sum(e.noise_multiplier**-2 for e in first.events)]
    charged += [event.noise_multiplier**-2 for event in later]
    spent = [SENSITIVITY[relation] ** 2 * sum(s**-2 for s in sigmas) for sigmas in seen]
    spent = [spent[0] + spent[1], *spent[2:]]
    assert len(spent) == len(charged) == (3 if target else 2)
    np.testing.assert_allclose(spent, charged, rtol=1e-9)
    assert all(s <= c * (1 + 1e-15) for s, c in zip(spent[1:], charged[1:], strict=True))
    assert sum(charged) == pytest.approx(gaussian_noise_multiplier(1.0, 1e-6) ** -2)


@pytest.mark.parametrize("share", [1, 0.9])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_that_is_drawn_is_the_noise_that_is_stated(secure, relation, share, monkeypatch):
    """Noise of all stages over what the event says of each; 10 % less of it is noticed."""
    from dpassay.mechanisms.noise import source

    monkeypatch.setattr(
        stages,
        "measure",
        lambda data, sets, sigmas, *rest: measure(data, sets, [share * s for s in sigmas], *rest),
    )
    schema = Schema({name: range(60) for name in "abcd"})
    pairs = Workload.all_marginals(schema, 2).column_sets()
    allowed = budget(9.0, 1e-6, relation)
    plan = plan_stages(schema, pairs, allowed, 10**6, resolution=0.1, target="d")
    data = Records(schema, np.zeros((900, 4), int), 10**6)
    found = stages.measure_in_stages(data, plan, source(None if secure else 1))
    first, *later = plan.event.events
    stated = [event.noise_multiplier * SENSITIVITY[relation] for event in first.events]
    rest = found[len(stated) :]
    stated += [_even(later, len(one.columns), rest) * SENSITIVITY[relation] for one in rest]
    parts = [one.shares.reshape(-1)[1:] * 10**6 / s for one, s in zip(found, stated, strict=True)]
    by_size = [
        [p for p, m in zip(parts, found, strict=True) if len(m.columns) == k] for k in (2, 3)
    ]
    for noise in map(np.concatenate, by_size):
        near = 6 / math.sqrt(2 * noise.size)
        assert near < 0.06
        assert (abs(noise.std() - 1) < near) == (share == 1)


def _even(later, size, rest):
    """The noise multiplier of a table of a late stage, whose tables all have the same weight.

    Nothing is related in a table of equal records: all pairs are measured again, alike.
    """
    event = later[size - 2]
    assert isinstance(event, Gaussian)
    return event.noise_multiplier * math.sqrt(sum(len(one.columns) == size for one in rest))


# How close it comes.


def test_a_relation_of_fine_columns_comes_through():
    """Thirty by thirty values, 3000 records: at full resolution every cell is below its noise."""
    codes, found = table(), {}
    for resolution in (None, 1.0):
        fitted = ProductMixture(
            SCHEMA, epsilon=1.0, delta=1e-6, resolution=resolution, steps=300, rng=0
        ).fit(codes)
        rows = fitted.model_.sample(20_000, np.random.default_rng(0))
        found[resolution] = np.corrcoef(rows.T)[0, 1]
    assert np.corrcoef(codes.T)[0, 1] > 0.75
    assert found[None] < 0.3
    assert found[1.0] > 0.5


def test_a_target_depends_on_two_columns_at_once():
    """y is the parity of a and b: no pair says anything, a triple with the target does."""
    rng = np.random.default_rng(0)
    schema = Schema({name: range(2) for name in "abcy"})
    codes = rng.integers(0, 2, (20_000, 4))
    codes[:, 3] = codes[:, 0] ^ codes[:, 1]
    errors = []
    for target in (None, "y"):
        fitted = synth.fit(codes, schema=schema, target=target, delta=1e-8, rng=0)
        workload = Workload.marginals([("a", "b", "y")])
        errors.append(compare(Records(schema, codes), fitted.model_, workload).max_error)
    assert errors[0] > 0.1
    assert errors[1] < 0.03


def test_components_grow_with_categories_alone():
    assert _count_components(Schema({"a": range(500)})) == 100
    assert _count_components(Schema({"a": [str(i) for i in range(87)]})) == 261
    assert _count_components(Schema({"a": [str(i) for i in range(500)]})) == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolution": 0.0}, "resolution=0"),
        ({"resolution": math.nan}, "resolution=nan"),
        ({"target": "z"}, "target='z' must be one of"),
        ({"target": "c", "resolution": None}, "target='c' goes with pairs"),
        ({"target": "c", "workload": Workload.marginals([("a", "b", "c")])}, "goes with pairs"),
        ({"delta": 0.0}, "delta=0 must be positive"),
    ],
)
def test_bad_options(options, message):
    given = {"workload": None, "delta": 1e-6} | options
    with pytest.raises(InvalidArgument, match=message):
        ProductMixture(SCHEMA, given.pop("workload"), rng=0, **given).fit(table(50))
