"""DualQuery and DQRS: their laws by enumeration, their rounds, their errors on tiny problems."""

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
from dpassay.synth import DQRS, DualQuery, Schema, Workload, compare, load
from dpassay.synth.methods.dual_query import (
    carried_event,
    draws_event,
    keep_probability,
    most_redraws,
    slack,
)
from dpassay.synth.methods.games import Rounds, SignedQueries, affordable, draw, most_rounds
from dpassay.synth.models import Records
from rates import assert_rate
from synth.games_by_hand import ORDERS, Toy, first_best, softmax, worst
from synth.tables_by_hand import copying_bits, with_impossible_cells

RELATIONS = ("add-remove", "replace-one")
BITS = Schema({f"b{j}": [0, 1] for j in range(10)})
TRIPLES = Workload.all_marginals(BITS, 3)


# Laws, by hand: paths of everything that is drawn, with their probability.


def dual_query_law(toy, counts, n, rate, samples, rounds, shift=0.0):
    """Paths of all draws; ``shift`` is a mutant that answers complements by 1 - q(D)."""
    truth = toy.answers(counts, n)
    truth[toy.size :] += shift * (1 - sum(counts) / n)
    paths = {}
    for path in itertools.product(
        itertools.product(range(2 * toy.size), repeat=samples), repeat=rounds
    ):
        chance, behind = 1.0, np.zeros(2 * toy.size)
        for picks in path:
            chance *= np.prod(softmax(rate * behind)[list(picks)])
            behind = behind + truth - toy.values[:, toy.reply(picks)]
        paths[path] = chance
    return paths


def carried_law(toy, counts, n, rate, samples, rounds, changes):
    """Paths of first draws, coins and redraws of DQRS."""
    truth = toy.answers(counts, n)
    paths = {}

    def go(path, picks, chance, behind, t):
        if t == rounds:
            paths[path] = chance
            return
        advantage = truth - toy.values[:, toy.reply(picks)]
        behind = behind + advantage
        gamma = slack(t, changes)
        keep = np.exp(-gamma + rate * (np.minimum(advantage, 1) - 1))[list(picks)]
        cap, weights = most_redraws(samples, rate, gamma), softmax(rate * behind)
        for coins in itertools.product((True, False), repeat=samples):
            coin = np.prod(np.where(coins, keep, 1 - keep))
            out = [i for i in range(samples) if not coins[i]][:cap]
            for drawn in itertools.product(range(2 * toy.size), repeat=len(out)):
                now = list(picks)
                for slot, query in zip(out, drawn, strict=True):
                    now[slot] = query
                more = chance * coin * np.prod(weights[list(drawn)])
                go((*path, coins, drawn), tuple(now), more, behind, t + 1)

    for picks in itertools.product(range(2 * toy.size), repeat=samples):
        start = (2 * toy.size) ** -samples
        go((picks,), picks, start, np.zeros(2 * toy.size), 1)
    return paths


def replies(toy, law):
    """The law of the records, from that of DualQuery's draws."""
    found = {}
    for path, chance in law.items():
        key = tuple(toy.reply(picks) for picks in path)
        found[key] = found.get(key, 0.0) + chance
    return found


def carried_replies(toy, law):
    found = {}
    for path, chance in law.items():
        picks = path[0]
        key = [toy.reply(picks)]
        for coins, drawn in zip(path[1::2], path[2::2], strict=True):
            now, fresh = list(picks), list(drawn)
            for i in range(len(picks)):
                if not coins[i] and fresh:
                    now[i] = fresh.pop(0)
            picks = tuple(now)
            key.append(toy.reply(picks))
        found[tuple(key)] = found.get(tuple(key), 0.0) + chance
    return found


def stated(event):
    """The pure epsilon and the Rényi divergences that an event allows."""
    return account(event, "basic").epsilon(0.0), divergences(flatten(event), ORDERS)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("size", "samples", "rounds"), [(2, 1, 3), (3, 1, 2), (2, 2, 2)])
def test_dual_query_has_the_privacy_that_it_states(relation, size, samples, rounds):
    """All draws, over all data sets of 3 records and all their neighbours."""
    toy, n, rate = Toy(size), 3, 1.5
    event = draws_event(rounds, rate, samples, n, budget(1.0, 0.0, relation))
    arguments = (n, rate, samples, rounds)
    pairs = list(toy.neighbours(n, relation))
    laws = [[dual_query_law(toy, c, *arguments) for c in pair] for pair in pairs]
    ratio, divergence = worst(laws)
    pure, renyi = stated(event)
    assert 0.3 * pure < ratio <= pure + 1e-12
    assert (divergence <= renyi + 1e-12).all()
    assert (divergence > 0.2 * renyi)[:3].all()


def test_complements_that_are_answered_by_one_minus_q_would_cost_more():
    """The mutant: with 1 - q(D) the range of a draw is twice what add-remove is charged for."""
    toy, n, rate = Toy(2), 3, 1.5
    pairs = list(toy.neighbours(n, "add-remove"))
    spans = {}
    for shift in (0.0, 1.0):
        span = 0.0
        for pair in pairs:
            p, q = (dual_query_law(toy, c, n, rate, 1, 2, shift) for c in pair)
            for first in range(4):  # the second draw, given the first
                loss = [math.log(p[path] / q[path]) for path in p if path[0] == (first,)]
                span = max(span, max(loss) - min(loss))
        spans[shift] = span
    assert spans[0.0] == pytest.approx(rate / n)
    assert spans[1.0] == pytest.approx(2 * rate / n)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("size", "samples", "rounds"), [(2, 1, 3), (3, 1, 2), (2, 2, 2)])
def test_dqrs_has_the_privacy_that_it_states(relation, size, samples, rounds):
    """All first draws, coins and redraws, over all data sets of 2 records and their neighbours."""
    toy, n, rate = Toy(size), 2, 0.7
    allowed = budget(1.0, 0.0, relation)
    event = carried_event(rounds, rate, samples, n, allowed)
    arguments = (n, rate, samples, rounds, allowed.record_changes)
    pairs = list(toy.neighbours(n, relation))
    laws = [[carried_law(toy, c, *arguments) for c in pair] for pair in pairs]
    ratio, divergence = worst(laws)
    pure, renyi = stated(event)
    assert 0.3 * pure < ratio <= pure + 1e-12
    assert (divergence <= renyi + 1e-12).all()


@pytest.mark.parametrize("relation", RELATIONS)
def test_each_part_of_dqrs_needs_its_charge(relation):
    """The ranges of coin and redraw, given the first query, against what is charged for each.

    The range of a redraw is attained, so that any less would be too little; that of a coin is
    attained where an advantage is 1, which this data set has none of.
    """
    toy, n, rate = Toy(2), 2, 0.7
    changes = budget(1.0, 0.0, relation).record_changes
    coin_range = redraw_range = 0.0
    for pair in toy.neighbours(n, relation):
        p, q = (carried_law(toy, c, n, rate, 1, 2, changes) for c in pair)
        for first in range(4):
            kept = [4 * law[(first,), (True,), ()] for law in (p, q)]
            logits = [math.log(a / (1 - a)) for a in kept]
            coin_range = max(coin_range, abs(logits[0] - logits[1]))
            drawn = [((first,), (False,), (query,)) for query in range(4)]
            loss = [math.log(p[path] / q[path]) for path in drawn]
            redraw_range = max(redraw_range, max(loss) - min(loss))
    event = carried_event(2, rate, 1, n, budget(1.0, 0.0, relation))
    (coins, _), (redraws, _) = flatten(event).items()
    assert 0.5 * coins.epsilon < coin_range <= coins.epsilon + 1e-12
    assert redraw_range == pytest.approx(redraws.epsilon)


@pytest.mark.parametrize("gamma", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_the_range_of_a_coin(gamma, rate):
    """Change of logit a for all advantages, against the bound; attained where A is 1."""
    step = 1 / 50
    advantage = np.linspace(-1, 1 + step, 400)
    a = keep_probability(advantage, rate, gamma)
    b = keep_probability(advantage - step, rate, gamma)
    change = np.abs(np.log(a / (1 - a)) - np.log(b / (1 - b)))
    bound = rate * step / -math.expm1(-gamma)
    assert change.max() <= bound + 1e-12
    assert change.max() > 0.4 * bound
    assert a.max() <= math.exp(-gamma)
    assert a.min() >= math.exp(-gamma - 2 * rate) - 1e-15


def test_kept_and_redrawn_queries_have_the_new_weights():
    """Rejection sampling by enumeration: P_t a + (1 - acceptance) P_(t+1) is P_(t+1)."""
    rng = np.random.default_rng(0)
    behind, advantage = rng.normal(size=12), rng.uniform(-1, 1, 12)
    rate, gamma = 0.8, 0.2
    old, new = softmax(rate * behind), softmax(rate * (behind + advantage))
    kept = old * keep_probability(advantage, rate, gamma)
    np.testing.assert_allclose(kept + (1 - kept.sum()) * new, new)
    assert most_redraws(100, rate, gamma) == math.ceil(100 * (1 - math.exp(-gamma - 2 * rate)))
    assert most_redraws(3, 50.0, gamma) == 3


def laws_of_records(cls, toy, counts, n, rate):
    if cls is DualQuery:
        return replies(toy, dual_query_law(toy, counts, n, rate, 1, 3))
    return carried_replies(toy, carried_law(toy, counts, n, rate, 1, 3, 1))


@pytest.mark.parametrize("cls", [DualQuery, DQRS])
def test_records_follow_the_law(cls):
    """Three rounds on one column of 2 codes: all sequences of records, seen against computed.

    The mutant: the law of a rate half as large again.
    """
    toy, n, rate, counts, runs = Toy(2), 5, 2.0, (2, 3), 2000
    fitted = cls(toy.schema, toy.workload)
    plan = Rounds(3, rate, 1, Pure(1.0), 1, first_best)
    chosen = Source("reproducible", np.random.default_rng(0))
    drawn = [tuple(fitted._run(toy.data(counts, n), plan, chosen).codes[:, 0]) for _ in range(runs)]

    def check(law):
        assert sum(law.values()) == pytest.approx(1)
        for key, chance in law.items():
            assert_rate(drawn.count(key), runs, chance)

    check(laws_of_records(cls, toy, counts, n, rate))
    with pytest.raises(AssertionError, match="chance"):
        check(laws_of_records(cls, toy, counts, n, 1.5 * rate))


@pytest.mark.parametrize("make", [draws_event, carried_event])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-8])
def test_never_a_round_past_the_budget(make, relation, delta):
    allowed = budget(0.7, delta, relation)

    def event(count, rate):
        return make(count, rate, 10, 1500, allowed)

    count = most_rounds(event, 0.3, allowed, 2)
    assert account(event(count, 0.3)).epsilon(delta) <= 0.7
    assert count >= 2
    assert not affordable(event(count + 1, 0.3), allowed)


def test_the_price_in_closed_form():
    """c² s η² T (T - 1)(2T - 1)/(48 n²), from the module; four times the page's for c = 2."""
    allowed = budget(1.0, 1e-6, "replace-one")
    curve = account(draws_event(40, 0.4, 7, 900, allowed), "zcdp")
    assert curve.rho == pytest.approx(7 * 0.4**2 * 40 * 39 * 79 / (12 * 900**2))
    curve = account(draws_event(40, 0.4, 7, 900, budget(1.0, 1e-6, "add-remove")), "zcdp")
    assert curve.rho == pytest.approx(7 * 0.4**2 * 40 * 39 * 79 / (48 * 900**2))


@pytest.mark.parametrize("cls", [DualQuery, DQRS])
@pytest.mark.parametrize("delta", [0.0, None])
def test_stated_rounds_spend_the_budget(cls, delta):
    codes = copying_bits(400)
    fitted = cls(BITS, epsilon=1.5, delta=delta, rounds=12, samples=3, rng=0).fit(codes)
    at = 400**-2 if delta is None else delta
    assert len(fitted.model_.codes) == 12
    assert 1.5 * 0.99 < fitted.privacy_.epsilon(at) <= 1.5 * (1 + 1e-9)
    assert fitted.event_.neighbouring == "add-remove"
    assert 0 <= fitted.gap_ < 1e-9  # enumerated


@pytest.mark.parametrize(("cls", "limit"), [(DualQuery, 0.075), (DQRS, 0.065)])
def test_errors_on_a_tiny_universe(cls, limit):
    """Uniform is off by .31, Laplace noise on all by .16."""
    codes = copying_bits()
    fitted = cls(BITS, TRIPLES, epsilon=1.0, rng=0).fit(codes)
    assert compare(Records(BITS, codes), fitted.model_, TRIPLES).max_error < limit
    assert 0.97 < account(fitted.event_, "zcdp").epsilon(1e-8) <= 1.0


def test_carrying_queries_affords_a_smaller_rate_for_more_rounds():
    allowed = budget(1.0, 1e-8, "add-remove")
    many, few = (
        most_rounds(lambda c, r, make=make: make(c, r, 25, 10_000, allowed), 0.1, allowed, 2)
        for make in (carried_event, draws_event)
    )
    assert many > 1.4 * few


def test_a_large_universe_by_local_search_and_files(tmp_path):
    """12 columns of 7 codes: 1e10 cells, of which one in a pair of columns is frequent."""
    schema = Schema({f"c{j}": range(7) for j in range(12)})
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((4000, 12)) < 0.7, 3, rng.integers(0, 7, (4000, 12)))
    workload = Workload.all_marginals(schema, 2)
    fitted = DualQuery(schema, workload, epsilon=1.0, rounds=60, rng=0).fit(codes)
    truth = Records(schema, codes)
    assert compare(truth, fitted.model_, workload).max_error < 0.2  # uniform: .53
    assert 0 <= fitted.gap_ <= 1
    again = load(fitted.save(tmp_path / "fitted"))
    np.testing.assert_array_equal(again.answer(workload), fitted.answer(workload))
    assert again.privacy_.epsilon(1e-7) == fitted.privacy_.epsilon(1e-7)


def test_queries_that_are_no_marginals_and_impossible_cells():
    schema, frame, workload = with_impossible_cells()
    fitted = DualQuery(schema, workload, epsilon=2.0, rng=0).fit(frame)
    assert schema.possible(fitted.model_.codes).all()
    truth = workload.answers(Records(schema, schema.encode(frame)))
    assert np.abs(fitted.answer(workload) - truth).max() < 0.1


def test_answers_of_signed_queries():
    """Sums over the public n for the data, also for complements; both ways of summing agree."""
    codes = copying_bits(30)
    data = Records(BITS, codes, 40)
    marginals = SignedQueries(TRIPLES, data)
    mixed = SignedQueries(TRIPLES + Workload.parities([("b0", "b1")]), data)
    k = len(marginals.truth) // 2
    np.testing.assert_allclose(marginals.truth[:k] + marginals.truth[k:], 30 / 40)
    some = copying_bits(7, seed=1)
    plain = TRIPLES.answers(Records(BITS, some))
    np.testing.assert_allclose(marginals.answers(some), [*plain, *(1 - plain)])
    np.testing.assert_allclose(mixed.answers(some)[:k], plain)


def test_draws_follow_their_weights():
    logits = np.array([0.0, -800.0, 2.0, 1.0, -800.0])
    picks = draw(logits, 20_000, np.random.default_rng(0))
    for index, chance in enumerate(softmax(logits)):
        assert_rate(int((picks == index).sum()), 20_000, chance)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rounds": 1}, "rounds=1"),
        ({"samples": 0}, "samples=0"),
        ({"rate": math.nan}, "rate=nan"),
        ({"oracle": "delphi", "rate": 0.1}, "oracle='delphi'"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"rate": 500.0}, "too small for [12] rounds"),
        ({"rate": 0.5, "rounds": 10_000}, "too small for 10000 rounds"),
        ({"epsilon": 1e-4}, "too small"),
        ({"epsilon": 1e-2, "rounds": 5}, "not even one that is off by 1"),
    ],
)
@pytest.mark.parametrize("cls", [DualQuery, DQRS])
def test_arguments_that_are_none(cls, arguments, match):
    with pytest.raises(InvalidArgument, match=match):
        cls(BITS, TRIPLES, **arguments).fit(copying_bits(50))
