"""FEM and SepFEM: the law of their selections by enumeration, their rounds, their errors."""

import itertools
import math

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Source
from dpassay.privacy import Pure, account
from dpassay.privacy.accounting import flatten
from dpassay.privacy.accounting.rdp import divergences
from dpassay.privacy.budget import budget
from dpassay.synth import FEM, Schema, SepFEM, Workload, compare
from dpassay.synth.methods.fem import selections_event
from dpassay.synth.methods.games import Rounds, affordable, most_rounds
from dpassay.synth.models import Records
from rates import assert_rate
from synth.games_by_hand import ORDERS, Toy, first_best, softmax, worst
from synth.tables_by_hand import copying_bits

BITS = Schema({f"b{j}": [0, 1] for j in range(10)})
TRIPLES = Workload.all_marginals(BITS, 3)


def law(toy, counts, n, rate, rounds):
    """Paths of the first record, which is uniform, and of all selections, with one sample."""
    truth, paths = toy.answers(counts, n), {}
    signed = range(2 * toy.size)
    for start, *picks in itertools.product(range(toy.size), *[signed] * rounds):
        chance, code = 1 / toy.size, start
        for t, pick in enumerate(picks):
            chance *= softmax(rate * n * (truth - toy.values[:, code]))[pick]
            code = toy.reply(picks[: t + 1])
        paths[start, *picks] = chance
    return paths


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("size", "rounds"), [(2, 2), (3, 2), (2, 3)])
def test_selections_have_the_privacy_that_they_state(relation, size, rounds):
    """Over all data sets of 3 records and all their neighbours; one round attains its range."""
    toy, n, rate = Toy(size), 3, 0.4
    allowed = budget(1.0, 0.0, relation)
    event = selections_event(rounds, rate, allowed)
    pairs = list(toy.neighbours(n, relation))
    ratio, divergence = worst([[law(toy, c, n, rate, rounds) for c in pair] for pair in pairs])
    pure, renyi = account(event, "basic").epsilon(0.0), divergences(flatten(event), ORDERS)
    assert 0.4 * pure < ratio <= pure + 1e-12
    assert (divergence <= renyi + 1e-12).all()
    span = 0.0
    for pair in pairs:
        p, q = (law(toy, c, n, rate, 1) for c in pair)
        for start in range(size):
            loss = [math.log(p[path] / q[path]) for path in p if path[0] == start]
            span = max(span, max(loss) - min(loss))
    assert span == pytest.approx(allowed.record_changes * rate)


def test_records_follow_the_law():
    """Two rounds with one sample; the mutant is the law of a rate half as large again."""
    toy, n, rate, counts, runs = Toy(2), 5, 0.4, (1, 4), 2000
    plan = Rounds(2, rate, 1, Pure(1.0), 1, first_best)
    chosen = Source("reproducible", np.random.default_rng(0))
    fitted, data = FEM(toy.schema, toy.workload), toy.data(counts, n)
    drawn = [tuple(fitted._run(data, plan, chosen).codes[:, 0]) for _ in range(runs)]

    def check(with_rate):
        records = {}
        for (_, *picks), chance in law(toy, counts, n, with_rate, 2).items():
            key = tuple(toy.reply(picks[: t + 1]) for t in range(2))
            records[key] = records.get(key, 0.0) + chance
        for key, chance in records.items():
            assert_rate(drawn.count(key), runs, chance)

    check(rate)
    with pytest.raises(AssertionError, match="chance"):
        check(1.5 * rate)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("delta", [0.0, 1e-8])
def test_never_a_round_past_the_budget(relation, delta):
    allowed = budget(0.7, delta, relation)

    def event(count, rate):
        return selections_event(count, rate, allowed)

    count = most_rounds(event, 0.01, allowed, 1)
    assert account(event(count, 0.01)).epsilon(delta) <= 0.7
    assert not affordable(event(count + 1, 0.01), allowed)


@pytest.mark.parametrize("delta", [0.0, None])
def test_stated_rounds_spend_the_budget(delta):
    fitted = FEM(BITS, epsilon=1.5, delta=delta, rounds=4, samples=3, rng=0).fit(copying_bits(400))
    assert len(fitted.model_.codes) == 12
    at = 400**-2 if delta is None else delta
    assert 1.5 * 0.98 < fitted.privacy_.epsilon(at) <= 1.5 * (1 + 1e-9)


@pytest.mark.parametrize("cls", [FEM, SepFEM])
def test_errors_on_a_tiny_universe(cls):
    """Uniform is off by .31, Laplace noise on all by .16."""
    codes = copying_bits()
    fitted = cls(BITS, TRIPLES, epsilon=1.0, rounds=120, rng=0).fit(codes)
    assert compare(Records(BITS, codes), fitted.model_, TRIPLES).max_error < 0.08
    assert 0 <= fitted.gap_ < 1e-9  # enumerated


def test_prices_have_their_laws():
    """Exponential prices have mean and deviation b, Laplace ones mean 0 and deviation b √2."""
    rng = np.random.default_rng(0)
    fem, sep = (cls(BITS)._prices(2.0, (50_000,), rng) for cls in (FEM, SepFEM))
    assert (fem > 0).all()
    for prices, share in ((fem, math.exp(-1)), (np.abs(sep), math.exp(-1))):
        assert_rate(int((prices > 2).sum()), 50_000, share)
    assert_rate(int((sep > 0).sum()), 50_000, 0.5)


def test_without_prices_the_records_of_a_round_are_the_leader():
    """Records of a round differ by their prices alone; with none and no ties they are one."""
    schema = Schema({"x": range(5)})
    frame = np.array([[3]] * 400 + [[1]] * 100)
    fitted = FEM(schema, epsilon=5.0, rounds=1, samples=8, perturbation=0.0, rng=0).fit(frame)
    # One query, "x is 3" most likely: its best record is the only one.
    assert len(np.unique(fitted.model_.codes)) == 1


def test_a_large_universe_by_local_search():
    schema = Schema({f"c{j}": range(7) for j in range(12)})
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((4000, 12)) < 0.7, 3, rng.integers(0, 7, (4000, 12)))
    workload = Workload.all_marginals(schema, 2)
    fitted = FEM(schema, workload, epsilon=1.0, rounds=30, samples=30, rng=0).fit(codes)
    assert compare(Records(schema, codes), fitted.model_, workload).max_error < 0.25  # uniform: .53
    assert fitted.gap_ >= 0
    assert len(fitted.sample(10, rng=0)) == 10


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rounds": 0}, "rounds=0"),
        ({"samples": 0}, "samples=0"),
        ({"rate": -1.0}, "rate=-1"),
        ({"perturbation": math.nan}, "perturbation=nan"),
        ({"oracle": "delphi", "rate": 0.01}, "oracle='delphi'"),
        ({"rate": 500.0}, "too small for [12] rounds"),
        ({"epsilon": 1e-4}, "too small"),
        ({"epsilon": 1e-2, "rounds": 5}, "not even one that is off by 1"),
    ],
)
def test_arguments_that_are_none(arguments, match):
    with pytest.raises(InvalidArgument, match=match):
        FEM(BITS, TRIPLES, **arguments).fit(copying_bits(50))
