"""Answers have the sensitivity that they are noised for, the error they state, and a charge."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.errors import BudgetExceeded, InvalidArgument
from dpassay.mechanisms import queries
from dpassay.mechanisms.queries import Terms
from rates import assert_rate

CELLS = [None, "x", 3.0, -7.5, 1e9, math.inf, -math.inf, 0.1]
TABLES = [
    pd.DataFrame({"v": list(values)}, dtype=object)
    for n in range(3)
    for values in itertools.product(CELLS, repeat=n)
]


def exact_of(ask, monkeypatch):
    """The whole numbers that an answer adds noise to, and their declared sensitivity."""
    seen = []

    def keep(value, *, sensitivity, **options):
        seen.append((np.array(value), sensitivity))
        return da.mechanisms.laplace(value, sensitivity=sensitivity, epsilon=1.0, rng=0)

    monkeypatch.setattr(queries, "laplace", keep)
    ask()
    return seen[-1]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", ["count", "total", "histogram"])
def test_no_neighbour_moves_an_answer_by_more_than_its_sensitivity(kind, relation, monkeypatch):
    terms = Terms(1.0, neighbouring=relation, rng=0)
    ask = {
        "count": lambda table: queries.count(table, terms, "v > 0"),
        "total": lambda table: queries.total(table, terms, "v", -2.0, 5.3),
        "histogram": lambda table: queries.histogram(table, terms, "v", ["x", "3.0"]),
    }[kind]
    found = {}
    for table in TABLES:
        values, sensitivity = exact_of(lambda table=table: ask(table), monkeypatch)
        found[tuple(map(str, table["v"]))] = values
    moved = 0
    for a, b in itertools.product(found, repeat=2):
        same_size = len(a) == len(b) == 2 and a[0] == b[0]
        one_more = len(a) + 1 == len(b) and b[: len(a)] == a
        if same_size if relation == "replace-one" else one_more:
            moved = max(moved, np.abs(found[a] - found[b]).sum())
    assert moved == sensitivity  # and it is reached: nothing is wasted


def test_the_margin_holds_as_often_as_it_says():
    table = pd.DataFrame({"v": np.arange(40)})
    for terms in (Terms(0.5, confidence=0.9), Terms(0.5, 1e-6, confidence=0.9)):
        inside = 0
        for seed in range(400):
            kept = Terms(terms.epsilon, terms.delta, confidence=0.9, rng=seed)
            answer = queries.histogram(table, kept, "v", ["1", "2", "99"])
            inside += np.abs(np.array(answer.values) - [1, 1, 0]).max() <= answer.margin
        assert_rate(inside, 400, 0.9)


def test_sums_and_means_are_those_of_the_clipped_values():
    table = pd.DataFrame({"v": ["1.25", "9", "", None, "-4", "text"], "sex": list("FFFFMM")})
    terms = Terms(1e6, rng=0)
    total = queries.total(table, terms, "v", -2.0, 5.0)
    assert total.values[0] == pytest.approx(1.25 + 5 - 2, abs=1e-3)
    mean = queries.mean(table, terms, "v", -2.0, 5.0, 4, where="sex == 'F'")
    assert mean.values[0] == pytest.approx(6.25 / 4, abs=1e-3)
    assert mean.question == "sum of v with sex == 'F' over 4 records"


def test_what_is_charged_is_what_was_released(tmp_path):
    ledger = da.Ledger(tmp_path / "spent.db", budget=da.ApproxDP(1.0, 1e-6))
    table = pd.DataFrame({"v": [1, 2]})
    answers = [
        queries.count(table, Terms(0.3, ledger=ledger)),
        queries.count(table, Terms(0.1, 1e-7, "add-remove", 0.95, ledger)),
    ]
    assert [entry.event for entry in ledger.entries()] == [a.release.event for a in answers]
    assert {answer.release.noise for answer in answers} == {"exact"}
    with pytest.raises(BudgetExceeded, match="'records with v > 1' would bring the total"):
        queries.count(table, Terms(0.9, ledger=ledger), "v > 1")
    with pytest.raises(InvalidArgument, match="no column 'w'"):
        queries.count(table, Terms(0.1, ledger=ledger), "w > 1")
    assert len(ledger.entries()) == 2


def test_misuse():
    table, terms = pd.DataFrame({"v": [1, 2]}), Terms(1.0)
    with pytest.raises(InvalidArgument, match="epsilon=inf"):
        queries.count(table, Terms(math.inf))
    with pytest.raises(InvalidArgument, match="must be below high"):
        queries.total(table, terms, "v", 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="column='w'"):
        queries.total(table, terms, "w", 0.0, 1.0)
    with pytest.raises(InvalidArgument, match="none of them twice"):
        queries.histogram(table, terms, "v", ["1", "1"])
    with pytest.raises(InvalidArgument, match="confidence"):
        queries.count(table, Terms(1.0, confidence=1.0))
