"""BLR: goldens computed apart from it, exact probabilities, and its privacy by enumeration."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from dpassay.errors import InvalidArgument
from dpassay.synth import BLR, Schema, Workload, blr_accuracy
from dpassay.synth.methods.blr import (
    all_multisets,
    largest_size,
    log_candidates,
    log_orderings,
    query_values,
    size_for,
)
from dpassay.synth.models import Records, universe
from rates import assert_rate, assert_rate_at_most

SCHEMA = Schema({"x0": [0, 1], "x1": [0, 1]})
QUERIES = Workload.conjunctions([{"x0": 1}, {"x1": 1}, {"x0": 1, "x1": 1}])
COUNTS = (9, 2, 3, 6)  # of the cells 00, 01, 10, 11


def table(counts=COUNTS):
    cells = [(0, 0), (0, 1), (1, 0), (1, 1)]
    rows = [cell for cell, count in zip(cells, counts, strict=True) for _ in range(count)]
    return pd.DataFrame(rows, columns=["x0", "x1"])


@pytest.mark.parametrize("size", [1, 2, 15, 16, 40, 1000, 3000])
@pytest.mark.parametrize("cells", [1, 2, 3, 15, 17, 500, 4096, 10**7, 10**12, 10**18, 10**400])
def test_tables_are_counted_as_whole_numbers_are(size, cells):
    """Also where log gamma(1e18 + 1000) - log gamma(1e18) is wrong by a tenth."""
    exact = math.log(math.comb(cells + size - 1, size))
    assert log_candidates(size, cells, "multisets") == pytest.approx(exact, rel=1e-12, abs=1e-13)


def test_accuracy_holds_in_large_universes():
    found = blr_accuracy(1000, 10**18, 10**5, 1.0)
    tables = math.log(math.comb(10**18 + found.size - 1, found.size))
    assert found.alpha * 10**5 / 4 >= (tables + math.log(20)) * (1 - 1e-12)


def law(counts, counting, epsilon=1.0, size=3, n=20):
    """The probabilities of all multisets, by a loop over them."""
    cells = universe(SCHEMA, 10)
    truth = QUERIES.answers(Records(SCHEMA, np.repeat(cells, counts, axis=0), n))
    weights = {}
    for multiset in itertools.combinations_with_replacement(range(4), size):
        answers = QUERIES.answers(Records(SCHEMA, cells[list(multiset)]))
        weight = math.exp(-np.abs(answers - truth).max() * n * epsilon / 2)
        if counting == "sequences":
            weight *= len(set(itertools.permutations(multiset)))
        weights[multiset] = weight
    total = sum(weights.values())
    return {multiset: weight / total for multiset, weight in weights.items()}


@pytest.mark.parametrize(
    ("counting", "golden"),
    [
        ("sequences", (0.277706, 0.204325, 0.123929)),
        ("multisets", (0.374996, 0.137953, 0.083673)),
    ],
)
def test_golden_probabilities(counting, golden):
    """Computed apart from this code: cells 00, 01, 10, 11 with counts 9, 2, 3, 6; m = 3."""
    probabilities = law(COUNTS, counting)
    found = [probabilities[m] for m in ((0, 0, 3), (0, 2, 3), (1, 2, 3))]
    np.testing.assert_allclose(found, golden, atol=5e-7)


@pytest.mark.parametrize("counting", ["sequences", "multisets"])
def test_draws_follow_the_law(counting):
    probabilities = law(COUNTS, counting)
    draws = 600
    seen = dict.fromkeys(probabilities, 0)
    for seed in range(draws):
        fitted = BLR(SCHEMA, QUERIES, epsilon=1.0, size=3, counting=counting, rng=seed)
        codes = fitted.fit(table()).model_.codes
        seen[tuple(sorted(2 * codes[:, 0] + codes[:, 1]))] += 1
    for multiset, probability in probabilities.items():
        assert_rate(seen[multiset], draws, probability)


@pytest.mark.parametrize("counting", ["sequences", "multisets"])
def test_no_neighbour_changes_a_probability_by_more_than_epsilon(counting):
    """All data sets of 4 records with all neighbours, by the exact law: replace, add, remove."""
    epsilon, largest = 1.0, 0.0
    compositions = [c for c in itertools.product(range(5), repeat=4) if sum(c) == 4]
    for counts in compositions:
        base = law(counts, counting, epsilon, size=2, n=4)
        neighbours = []
        for i, j in itertools.permutations(range(4), 2):
            if counts[i]:
                moved = list(counts)
                moved[i] -= 1
                neighbours.append(tuple(moved))
                moved[j] += 1
                neighbours.append(tuple(moved))
        for other in neighbours:
            found = law(other, counting, epsilon, size=2, n=4)
            ratios = [math.log(base[m] / found[m]) for m in base]
            largest = max(largest, *(abs(r) for r in ratios))
            assert max(ratios) - min(ratios) <= epsilon + 1e-12  # bounded range
    assert 0.5 < largest <= epsilon + 1e-12


@pytest.mark.parametrize(
    ("k", "d", "n", "sequences", "multisets"),
    [
        (10, 3, 1000, (0.3733, 43), (0.1390, 311)),
        (10, 3, 10_000, (0.1714, 204), (0.0237, 10_624)),
        (100, 5, 10_000, (0.2454, 176), (0.0665, 2395)),
    ],
)
def test_golden_accuracies(k, d, n, sequences, multisets):
    """Computed apart from this code: smallest alpha and its m."""
    for counting, (alpha, size) in (("sequences", sequences), ("multisets", multisets)):
        found = blr_accuracy(k, 2**d, n, 1.0, 0.05, counting)
        assert found.alpha == pytest.approx(alpha, abs=6e-5)
        assert found.size == size


@pytest.mark.parametrize(("alpha", "size"), [(0.1, 600), (0.25, 96), (0.5, 24)])
def test_golden_sizes(alpha, size):
    """Computed apart from this code: m for k = 10, strictly above 2 log(2k)/alpha²."""
    assert size_for(alpha, 10) == size


def test_enumeration_is_complete_and_weights_count_orders():
    rows = np.concatenate(list(all_multisets(3, 4)))
    assert len(rows) == round(math.exp(log_candidates(4, 3, "multisets"))) == 15
    orders = np.exp(log_orderings(rows))
    assert orders.sum() == pytest.approx(3**4)
    assert [round(x) for x in orders] == [len(set(itertools.permutations(row))) for row in rows]


def test_query_values_by_hand():
    values = query_values(QUERIES, Records(SCHEMA, np.zeros((1, 2), int)), universe(SCHEMA, 10))
    assert values.tolist() == [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]]


def test_random_candidates_are_uniform_multisets():
    from dpassay.synth.methods.blr import _random_tables

    rng = np.random.default_rng(0)
    rows = np.concatenate(list(_random_tables(3, 2, 6000, "multisets", rng)))
    for multiset in itertools.combinations_with_replacement(range(3), 2):
        assert_rate(int((rows == multiset).all(axis=1).sum()), 6000, 1 / 6)


def test_a_random_subset_is_private_and_close():
    fitted = BLR(SCHEMA, QUERIES, epsilon=2.0, size=40, candidates=2000, rng=0).fit(table())
    assert fitted.privacy_.epsilon(0.0) == 2.0
    assert len(fitted.model_.codes) == 40
    assert np.abs(fitted.answer(QUERIES) - np.array([0.45, 0.4, 0.3])).max() < 0.2


def test_accuracy_holds_as_often_as_it_says():
    """One bit, n = 300, epsilon = 1: the answer is within alpha in at least 95 % of the fits."""
    schema, workload = Schema({"x": [0, 1]}), Workload.conjunctions([{"x": 1}])
    proved = blr_accuracy(1, 2, 300, 1.0)
    assert proved.size < 200  # all tables are enumerated
    frame = pd.DataFrame({"x": [0] * 190 + [1] * 110})
    answers = [BLR(schema, workload, rng=seed).fit(frame).answer(workload) for seed in range(200)]
    errors = np.abs(np.array(answers) - 110 / 300)
    assert_rate_at_most(int((errors > proved.alpha).sum()), 200, 0.05)
    assert_rate_at_most(int((errors <= proved.alpha / 200).sum()), 200, 0.2)  # yet it is random


def test_sizes_that_cannot_be_enumerated():
    assert largest_size(16) == 10
    assert largest_size(8) == 25
    assert largest_size(32) == 6
    schema = Schema({name: [0, 1] for name in "abcde"})
    frame = pd.DataFrame(np.zeros((30, 5), int), columns=list("abcde"))
    with pytest.raises(InvalidArgument, match="Sizes up to 6 can be"):
        BLR(schema, size=24).fit(frame)
    big = Schema({name: [0, 1] for name in "abcdefghijklm"})
    with pytest.raises(InvalidArgument, match="at most 4096"):
        BLR(big).fit(pd.DataFrame(np.zeros((3, 13), int), columns=list("abcdefghijklm")))


@pytest.mark.parametrize(
    "arguments",
    [
        {"size": 0},
        {"counting": "heaps"},
        {"candidates": 1},
        {"epsilon": -1},
        {"beta": 0},
        {"delta": 1e-6},
        {"delta": math.nan},
    ],
)
def test_arguments_that_are_none(arguments):
    with pytest.raises(InvalidArgument):
        BLR(SCHEMA, QUERIES, **arguments).fit(table())
