"""Sensitivities by brute force: upper bounds over all tiny neighbouring data sets, and attained."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import (
    clipped_sum_sensitivity,
    count_sensitivity,
    histogram_sensitivity,
    mean_sensitivity,
    sum_sensitivity,
)

RELATIONS = ("add-remove", "replace-one")
NORMS = ("l1", "l2")


def neighbours(records, relation, size=2):
    """All pairs of neighbouring data sets of (about) this size over the possible records."""
    for rest in combinations_with_replacement(records, size - 1):
        for one in records:
            if relation == "add-remove":
                yield list(rest), [*rest, one]
            else:
                yield from ([[*rest, one], [*rest, other]] for other in records)


def largest_change(statistic, records, relation, norm):
    order = {"l1": 1, "l2": 2}[norm]
    return max(
        np.linalg.norm(np.atleast_1d(statistic(a) - statistic(b)), order)
        for a, b in neighbours(records, relation)
    )


def assert_attained(bound, brute_force):
    assert brute_force <= bound * (1 + 1e-15)
    assert brute_force == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
class TestAgainstBruteForce:
    """Each bound is the largest change over all pairs of neighbours."""

    def test_count(self, relation):
        change = largest_change(
            lambda data: np.float64(sum(x > 1 for x in data)), [0, 1, 2], relation, "l1"
        )
        assert_attained(count_sensitivity(relation), change)

    @pytest.mark.parametrize("bounds", [(0, 5), (-2, 1), (-3, -1), (2, 4)])
    def test_sum_and_mean(self, relation, bounds):
        records = np.linspace(*bounds, 4)
        total = largest_change(lambda data: np.float64(sum(data)), records, relation, "l1")
        assert_attained(sum_sensitivity(*bounds, neighbouring=relation), total)
        # The public n divides, also in the neighbour that has one record more.
        mean = largest_change(lambda data: np.float64(sum(data)) / 2, records, relation, "l1")
        assert_attained(mean_sensitivity(*bounds, n_records=2, neighbouring=relation), mean)

    @pytest.mark.parametrize("norm", NORMS)
    def test_columns(self, relation, norm):
        low, high = [-1.0, 0.0, 2.0], [3.0, 0.5, 2.5]
        records = [np.array(r) for r in product(*zip(low, high, strict=True))]

        def total(data):
            return np.sum(data, axis=0) if data else np.zeros(3)

        change = largest_change(total, records, relation, norm)
        assert_attained(sum_sensitivity(low, high, norm=norm, neighbouring=relation), change)
        mean = mean_sensitivity(low, high, n_records=10, norm=norm, neighbouring=relation)
        assert_attained(mean, change / 10)

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("n_marginals", [1, 2])
    def test_histogram(self, relation, norm, n_marginals):
        records = list(product(range(3), repeat=n_marginals))

        def counts(data):
            cells = [np.bincount([r[j] for r in data], minlength=3) for j in range(n_marginals)]
            return np.concatenate(cells).astype(float)

        change = largest_change(counts, records, relation, norm)
        bound = histogram_sensitivity(n_marginals=n_marginals, norm=norm, neighbouring=relation)
        assert_attained(bound, change)

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("clipped_in", NORMS)
    def test_clipped_sum(self, relation, norm, clipped_in):
        order, clip = {"l1": 1, "l2": 2}[clipped_in], 0.7
        grid = [np.array(g) for g in product((-1.0, -0.3, 0.0, 0.3, 1.0), repeat=3) if any(g)]
        records = [g * min(1.0, clip / np.linalg.norm(g, order)) for g in grid]
        records = [r for r in records if np.linalg.norm(r, order) > 0.69]
        others = records if relation == "replace-one" else [np.zeros(3)]
        changes = [a - b for a in records for b in others]
        change = np.linalg.norm(changes, {"l1": 1, "l2": 2}[norm], axis=1).max()
        bound = clipped_sum_sensitivity(
            clip, clipped_in=clipped_in, norm=norm, n_entries=3, neighbouring=relation
        )
        assert_attained(bound, change)


@given(
    bounds=st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).filter(any), min_size=1, max_size=5
    ),
    norm=st.sampled_from(NORMS),
)
def test_rounding_is_upward(bounds, norm):
    low, high = np.sort(bounds, axis=1).T
    largest = [max(abs(Fraction(a)), abs(Fraction(b))) for a, b in zip(low, high, strict=True)]
    bound = Fraction(sum_sensitivity(low, high, norm=norm))
    if norm == "l1":
        assert bound >= sum(largest)
        assert bound <= sum(largest) * (1 + Fraction(1, 2**51)) + Fraction(1, 10**300)
    else:
        assert bound**2 >= sum(x * x for x in largest)


def test_scalar_bounds_serve_all_columns():
    assert sum_sensitivity(-1, [2, 3], norm="l1") == 5
    assert sum_sensitivity([-4, 0], 3, norm="l2") == 5


@pytest.mark.parametrize(
    ("function", "arguments", "match"),
    [
        (count_sensitivity, {"neighbouring": "both"}, "neighbouring="),
        (histogram_sensitivity, {"n_marginals": 0}, "n_marginals="),
        (histogram_sensitivity, {"n_marginals": 1.5}, "n_marginals="),
        (histogram_sensitivity, {"norm": "linf"}, "norm="),
        (sum_sensitivity, {"low": math.nan, "high": 1}, "low="),
        (sum_sensitivity, {"low": 0, "high": math.inf}, "high="),
        (sum_sensitivity, {"low": 2, "high": 1}, "low=2 must not be above high=1"),
        (sum_sensitivity, {"low": [0, 0], "high": [1, 1, 1]}, "one number per column"),
        (sum_sensitivity, {"low": [[0]], "high": 1}, "one number per column"),
        (sum_sensitivity, {"low": 0, "high": 0}, "no change at all"),
        (sum_sensitivity, {"low": [], "high": 1}, "no change at all"),
        (mean_sensitivity, {"low": 0, "high": 1, "n_records": 0}, "n_records="),
        (mean_sensitivity, {"low": 0, "high": 1, "n_records": math.nan}, "n_records="),
        (clipped_sum_sensitivity, {"clip_norm": 0}, "clip_norm="),
        (clipped_sum_sensitivity, {"clip_norm": math.nan}, "clip_norm="),
        (clipped_sum_sensitivity, {"clip_norm": 1, "norm": "l1"}, "n_entries=None"),
        (clipped_sum_sensitivity, {"clip_norm": 1, "norm": "l1", "n_entries": 0}, "n_entries="),
        (clipped_sum_sensitivity, {"clip_norm": 1, "clipped_in": "l0"}, "clipped_in="),
    ],
)
def test_misuse(function, arguments, match):
    with pytest.raises(InvalidArgument, match=match):
        function(**arguments)
