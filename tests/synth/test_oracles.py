"""Oracles: against each other, against records one by one, and their stated gaps."""

import sys

import numpy as np
import pytest

from dpassay.errors import InvalidArgument, MissingDependency
from dpassay.synth import Categorical, Schema, Workload
from dpassay.synth.models import Records, universe
from dpassay.synth.oracles import (
    Enumeration,
    IntegerProgram,
    LocalSearch,
    oracle_for,
)
from dpassay.synth.queries.terms import Terms
from extras import needs

SCHEMA = Schema(
    {"a": range(3), "b": range(4), "c": Categorical(("x", "y"), nullable=True), "d": range(5)},
    impossible=[{"a": 0, "b": 1}, {"c": "y", "d": [2, 3]}],
)
WORKLOAD = (
    Workload.all_marginals(SCHEMA, 3)
    + Workload.prefixes([("d", "a")])
    + Workload.parities([("a", "c", "d")])
    + Workload.conjunctions([{"b": [1, 3], "d": 4}])
    + Workload.predicates([(("a", "b"), lambda frame: (frame["a"] + frame["b"]) / 5)])
)
K = WORKLOAD.n_queries(SCHEMA)
CELLS = universe(SCHEMA, 1000)


def problem(seed):
    """Signed queries, some twice, with weights; noise for two records."""
    rng = np.random.default_rng(seed)
    # The last queries are those that are no marginal cells: they must come often.
    queries = np.where(
        rng.random(30) < 0.3, rng.integers(K - 18, K, 30), rng.integers(0, K, 30)
    ) + K * rng.integers(0, 2, 30)
    weights = rng.integers(1, 4, 30).astype(float)
    noise = rng.exponential(seed % 3, (2, sum(SCHEMA.sizes)))
    return queries, weights, noise, rng


def by_hand(queries, weights, noise):
    """The value of every cell, by the answers of a table of that one record."""
    values = np.zeros((len(noise), len(CELLS)))
    onehot = [np.eye(size) for size in SCHEMA.sizes]
    for i, cell in enumerate(CELLS):
        plain = WORKLOAD.answers(Records(SCHEMA, cell[None]))
        signed = np.concatenate([plain, 1 - plain])
        coded = np.concatenate([onehot[j][code] for j, code in enumerate(cell)])
        values[:, i] = weights @ signed[queries] - noise @ coded
    return values


@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_single_records(seed):
    queries, weights, noise, rng = problem(seed)
    goal = Terms.of(SCHEMA, WORKLOAD, queries, weights)
    truth = by_hand(queries, weights, noise)
    possible = SCHEMA.possible(CELLS)
    free = by_hand(queries, weights, 0 * noise)[0]
    np.testing.assert_allclose(goal.values(CELLS)[possible], free[possible], atol=1e-9)
    assert (goal.values(CELLS)[~possible] < -1e11).all()
    best = truth[:, possible].max(axis=1)
    for oracle in (Enumeration(), IntegerProgram()):
        found = oracle(goal, noise, rng)
        np.testing.assert_allclose(found.values, best, atol=1e-9)
        np.testing.assert_allclose(found.gaps, 0, atol=1e-6)
        assert SCHEMA.possible(found.codes).all()
    assert (goal.upper(noise) >= best).all()


@pytest.mark.parametrize("seed", range(4))
def test_clauses_agree_with_enumeration(seed):
    needs("ortools.sat.python.cp_model", extra="cp-sat")
    queries, weights, noise, rng = problem(seed)
    goal = Terms.of(SCHEMA, WORKLOAD, queries, weights)
    found = oracle_for("cp-sat", SCHEMA)(goal, noise, rng)
    np.testing.assert_allclose(found.values, Enumeration()(goal, noise, rng).values, atol=1e-9)
    np.testing.assert_allclose(found.gaps, 0, atol=1e-9)
    assert SCHEMA.possible(found.codes).all()


def test_clauses_see_that_nothing_is_possible_and_stop_in_time():
    clauses = needs("dpassay.synth.oracles.clauses")
    needs("ortools.sat.python.cp_model", extra="cp-sat")
    schema = Schema({"a": range(2), "b": range(2)}, impossible=[{"a": [0, 1]}])
    goal = Terms.of(schema, Workload.all_marginals(schema, 2), np.array([0, 5]))
    with pytest.raises(InvalidArgument, match="rules out every record"):
        clauses.Clauses()(goal, np.zeros((1, 4)), np.random.default_rng(0))
    queries, weights, noise, rng = problem(1)
    goal = Terms.of(SCHEMA, WORKLOAD, queries, weights)
    found = clauses.Clauses(seconds=1e-9)(goal, noise, rng)  # at least what local search has
    best = Enumeration()(goal, noise, rng).values
    assert (found.values + found.gaps >= best - 1e-9).all()


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(MissingDependency, match=r"pip install 'dpassay\[cp-sat\]'"):
        oracle_for("cp-sat", SCHEMA)


def test_local_search_is_near_the_best_and_says_how_far_it_may_be():
    optimal = 0
    for seed in range(60):
        queries, weights, noise, rng = problem(seed)
        goal = Terms.of(SCHEMA, WORKLOAD, queries, weights)
        best = Enumeration()(goal, noise, rng).values
        found = LocalSearch()(goal, noise, rng)
        assert (found.values <= best + 1e-9).all()
        assert (found.values + found.gaps >= best - 1e-9).all()
        assert (found.values >= best - 2).all()
        optimal += int((found.values > best - 1e-9).sum())
    assert optimal >= 115  # of 120: a search that never restarts or never climbs finds far fewer


def test_one_restart_is_worse_than_many():
    rng = np.random.default_rng(0)
    schema = Schema({f"c{j}": range(6) for j in range(12)})  # 2e9 cells: none of them enumerated
    workload = Workload.all_marginals(schema, 3)
    values = {1: 0.0, 80: 0.0}
    for _ in range(10):
        queries = rng.integers(0, workload.n_queries(schema), 200)
        goal = Terms.of(schema, workload, queries)
        for restarts in values:
            found = LocalSearch(restarts)(goal, np.zeros((1, 72)), rng)
            values[restarts] += found.values[0]
            np.testing.assert_allclose(found.values, goal.values(found.codes))
    assert values[80] > 1.1 * values[1]


def test_the_integer_programme_agrees_with_the_search_on_a_large_universe():
    rng = np.random.default_rng(1)
    schema = Schema({f"c{j}": range(4) for j in range(12)})
    workload = Workload.all_marginals(schema, 2)
    queries = rng.integers(0, 2 * workload.n_queries(schema), 40)
    noise = rng.exponential(1.0, (1, 48))
    goal = Terms.of(schema, workload, queries)
    exact, found = IntegerProgram()(goal, noise, rng), LocalSearch()(goal, noise, rng)
    assert exact.gaps[0] < 1e-6
    assert found.values[0] <= exact.values[0] + 1e-9
    assert found.values[0] + found.gaps[0] >= exact.values[0] - 1e-9
    assert found.values[0] > exact.values[0] - 1


def test_ties_are_broken_at_random_and_nothing_asked_gives_any_record():
    rng = np.random.default_rng(0)
    schema = Schema({"a": range(2), "b": range(2)})
    nothing = Terms.of(schema, Workload.marginals([("a",)]), np.zeros(0, np.int64))
    for oracle in (Enumeration(), LocalSearch(1)):
        seen = {tuple(oracle(nothing, np.zeros((1, 4)), rng).codes[0]) for _ in range(60)}
        assert len(seen) == 4


def test_a_programme_that_runs_out_of_time_still_answers():
    queries, weights, noise, rng = problem(1)
    goal = Terms.of(SCHEMA, WORKLOAD, queries, weights)
    found = IntegerProgram(seconds=1e-9)(goal, noise, rng)
    best = Enumeration()(goal, noise, rng).values
    assert SCHEMA.possible(found.codes).all()
    assert (found.values + found.gaps >= best - 1e-6).all()


def test_a_schema_without_a_possible_record():
    schema = Schema({"a": range(2), "b": range(2)}, impossible=[{"a": 0}, {"a": 1}])
    goal = Terms.of(schema, Workload.marginals([("b",)]), np.array([0]))
    for oracle in (Enumeration(), LocalSearch(), IntegerProgram()):
        with pytest.raises(InvalidArgument, match="impossible"):
            oracle(goal, np.zeros((1, 4)), np.random.default_rng(0))


def test_oracles_by_name():
    large = Schema({f"c{j}": range(10) for j in range(8)})
    assert oracle_for("auto", SCHEMA) == Enumeration()
    assert oracle_for("auto", large) == LocalSearch()
    assert oracle_for("exact", large) == IntegerProgram()
    assert oracle_for(LocalSearch(3), large) == LocalSearch(3)
    with pytest.raises(InvalidArgument, match="oracle='delphi'"):
        oracle_for("delphi", large)
    with pytest.raises(InvalidArgument, match="restarts=0"):
        LocalSearch(0)
    with pytest.raises(InvalidArgument, match="seconds"):
        IntegerProgram(float("nan"))
    with pytest.raises(InvalidArgument, match="enumerated"):
        Enumeration()(
            Terms.of(large, Workload.marginals([("c0",)]), np.array([0])),
            np.zeros((1, 80)),
            np.random.default_rng(0),
        )
