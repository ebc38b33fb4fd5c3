"""Pairs of neighbours: how they are made, and which one is found."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.auditing import inputs, judge
from dpassay.auditing.inputs import Pair, as_input, parse_input
from dpassay.auditing.neighbours import check_neighbours
from dpassay.auditing.pairs import Found, adjust_pair, follow_steps, search_pair
from dpassay.errors import InvalidArgument
from dpassay.runs import opened
from dpassay.synth import Numeric, Schema

TABLE = np.random.default_rng(0).uniform(size=(30, 2))


# How they are made.


@pytest.mark.parametrize("moves", ["one", "all"])
@pytest.mark.parametrize("n", [1, 2, 10])
def test_answers_move_by_what_a_record_can_do_and_stay_in_range(n, moves):
    pairs = inputs.vector(n, low=-1, high=4, moves=moves, by=0.5).pairs("add-remove")
    assert pairs
    for pair in pairs:
        moved = np.abs(pair.data - pair.data_prime)
        assert 0 < moved.max() <= 0.5
        assert np.count_nonzero(moved) == 1 or moves == "all"
        assert min(pair.data.min(), pair.data_prime.min()) >= -1
        assert max(pair.data.max(), pair.data_prime.max()) <= 4


def test_no_pair_comes_twice_in_whatever_order():
    pairs = inputs.vector(4, low=0, high=1, moves="all").pairs("add-remove")
    keys = [frozenset((p.data.tobytes(), p.data_prime.tobytes())) for p in pairs]
    assert len(keys) == len(set(keys))
    assert all(len(key) == 2 for key in keys)
    assert len({p.name for p in pairs}) == len(pairs)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE[:, 0].tolist(),
        (TABLE, np.arange(30) % 2),
        pd.DataFrame(TABLE, columns=["a", "b"]),
    ],
    ids=["array", "list", "labelled", "frame"],
)
def test_data_sets_that_are_made_are_neighbours_in_the_claims_relation(data, relation):
    pairs = as_input(data).pairs(relation)
    assert len(pairs) >= 4
    for pair in pairs:
        assert check_neighbours(pair.data, pair.data_prime, relation)


def test_names_say_nothing_of_a_record():
    secret = np.full((5, 2), 123.456)
    assert not [p.name for p in as_input(secret).pairs("add-remove") if "123" in p.name]


def test_values_are_neighbours_if_they_are_near_enough():
    assert all(
        abs(p.data - p.data_prime) == 1 for p in inputs.value(0, 9, by=1).pairs("add-remove")
    )
    assert max(abs(p.data - p.data_prime) for p in inputs.value(0, 9).pairs("add-remove")) == 9


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("vector:10", inputs.vector(10)),
        (
            "vector:3,moves=all,low=0,high=2,by=.5",
            inputs.vector(3, moves="all", low=0, high=2, by=0.5),
        ),
        ("value:0,100", inputs.value(0, 100)),
    ],
)
def test_inputs_of_the_command_line(text, known):
    assert parse_input(text) == known


@pytest.mark.parametrize(
    "text",
    ["", "vector", "vector:x", "vector:3,up=1", "vector:0", "value:5", "graph:3", "vector:3,low=a"],
)
def test_an_input_that_is_none_is_an_error_that_says_what_one_is(text):
    with pytest.raises(InvalidArgument, match="must"):
        parse_input(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vector:3,low=2,high=1", "low=2"),
        ("vector:3,moves=some", "moves='some'"),
        ("vector:0", "n=0"),
    ],
)
def test_an_input_that_is_wrong_is_told_what_is_wrong_with_it(text, said):
    with pytest.raises(InvalidArgument, match=said):
        parse_input(text)


@pytest.mark.parametrize("data", [3.0, [], "text", {"a": 1}])
def test_data_without_records_is_refused(data):
    with pytest.raises(InvalidArgument, match="record"):
        as_input(data)


# Which one is found.


class Arms:
    """Pairs of numbers, told apart by how much a judge gives for them."""

    trusted = True

    def __init__(self, values):
        self.values = values

    def pairs(self, neighbouring):
        return [Pair(str(i), i, i + 0.5) for i in range(len(self.values))]


def searched(values, budget=10_000, noise=0.0):
    rng, played = np.random.default_rng(0), []

    def trials(pair, n):
        played.append(n)
        return pair.data, n

    def judge_by(number, n):
        return values[number] + noise * rng.normal() / np.sqrt(n)

    found = search_pair(
        Arms(values), "add-remove", trials, judge_by, budget=budget, fewest=10, most=5000
    )
    return found, played


def test_halving_finds_the_best_within_its_budget():
    values = [0.1] * 13 + [1.0] + [0.2] * 6
    found, _ = searched(values, noise=2.0)
    assert found.pair.name == "13"
    assert found.tried == 20
    assert found.trials <= 10_000


def test_a_small_budget_tries_fewer_pairs():
    found, _ = searched([0.0] * 20, budget=200)
    assert 1 < found.tried < 8
    assert found.trials <= 200


def test_of_two_that_show_the_same_the_simpler_is_taken():
    found, _ = searched([1.0, 1.05])
    assert found.pair.name == "0"
    assert searched([1.0, 2.0])[0].pair.name == "1"


# Pairs that are made simpler, or better.


DESCRIBED = [
    inputs.vector(5, low=0, high=6, moves="all"),
    inputs.vector(3, moves="one", by=0.1),
    inputs.value(0, 50),
    inputs.value(0, 50, by=2),
]


@pytest.mark.parametrize("source", DESCRIBED, ids=repr)
def test_adjusted_answers_and_values_are_neighbours_with_names_of_their_own(source):
    by = np.inf if source.by is None else source.by
    named = {}
    for pair in source.pairs("add-remove"):
        made = [*pair.simpler(), *pair.nearby()]
        assert pair.name not in [other.name for other in made]
        for other in made:
            both = np.array([other.data, other.data_prime])
            assert 0 < np.abs(both[0] - both[1]).max() <= by + 1e-9
            assert both.min() >= source.low
            assert both.max() <= source.high
            assert named.setdefault(other.name, both.tolist()) == both.tolist()


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_adjusted_data_sets_are_neighbours_of_other_sizes(relation):
    frame = pd.DataFrame(TABLE, columns=["a", "b"])
    for source in (TABLE, TABLE[:, 0].tolist(), (TABLE, np.arange(30) % 2), frame):
        for pair in as_input(source).pairs(relation)[:6]:
            made = [*pair.simpler(), *pair.nearby()]
            assert len({other.name for other in made}) == len(made)
            assert all(check_neighbours(o.data, o.data_prime, relation) for o in made)


def adjusted(pair, shows, value=2.0, goal=1.0, kept=0.5, budget=100):
    """What adjusting a pair of numbers comes to, where a judge says what each shows."""
    played = []

    def trials(pair, n):
        played.append(pair.name)
        return pair, n

    found = Found(pair, value, tried=3, trials=40)
    options = {"goal": goal, "kept": kept, "size": 10, "budget": budget}
    return adjust_pair(found, trials, lambda pair, n: shows(pair), **options), played


def test_a_pair_that_refutes_is_shrunk_to_the_simplest_that_does():
    pair = inputs.value(0, 50).pairs("add-remove")[5]
    assert pair.name == "0 and 50"
    found, _ = adjusted(pair, lambda p: 3.0)
    assert (found.pair.name, found.before) == ("0 and 1", "0 and 50")
    assert follow_steps(pair, found.steps).name == found.pair.name
    assert (found.trials, found.tried) == (50, 4)


def test_a_simpler_pair_that_shows_too_little_is_not_taken():
    pair = inputs.value(0, 50).pairs("add-remove")[5]
    found, played = adjusted(pair, lambda p: 1.4)
    assert (found.pair, found.before, found.steps) == (pair, "", ())
    assert played
    assert adjusted(pair, lambda p: 1.4, kept=0.3)[0].steps


def test_a_pair_that_does_not_refute_is_exchanged_for_a_better_one_nearby():
    pair = inputs.value(0, 50).pairs("add-remove")[0]
    found, _ = adjusted(pair, lambda p: p.data / 10, value=0.0)
    assert found.pair.data == found.pair.data_prime - 1 > 5
    assert found.before == "0 and 1"
    assert found.trials <= 140
    assert follow_steps(pair, found.steps).name == found.pair.name


def test_adjusting_ends_with_its_budget():
    pair = inputs.value(0, 50).pairs("add-remove")[0]
    assert adjusted(pair, lambda p: p.data, value=0.0, budget=9)[1] == []


# Audits that are given no pair.


def noisy_max(data, rng, size):
    """The maximum itself, with noise that is scaled for its place only."""
    return (np.asarray(data) + rng.laplace(scale=2.0, size=(size, len(data)))).max(axis=1)


def test_a_pair_is_found_for_cheap_draws():
    verdict = da.audit(
        noisy_max,
        data=inputs.vector(6, moves="all", low=0, high=2),
        claim=(1.0, 0.0),
        trials=60_000,
    )
    assert verdict.refuted
    assert "all answers move" in (verdict.pair_before or verdict.pair)
    assert verdict.neighbours == "trusted"


def narrow(data, rng, size):
    """Every answer has a third of the noise that it needs for epsilon = 1."""
    return np.asarray(data) + rng.laplace(scale=1 / 3, size=(size, len(data)))


def test_what_is_shown_is_shrunk_and_the_log_remembers_it(tmp_path):
    options = {"data": inputs.vector(6, moves="all"), "claim": (1.0, 0.0), "trials": 60_000}
    verdict = da.audit(narrow, **options, store=tmp_path / "a.db")
    assert verdict.refuted
    assert verdict.pair in [f"answer 0 of 6 moves {way} from 0" for way in ("up", "down")]
    assert "from 1" in verdict.pair_before
    again = da.audit(narrow, **options, store=tmp_path / "a.db")
    names = ("pair", "pair_before", "trials", "bound")
    assert [getattr(again, n) for n in names] == [getattr(verdict, n) for n in names]
    judged = judge(tmp_path / "a.db")
    assert [getattr(judged, n) for n in names] == [getattr(verdict, n) for n in names]
    assert f"found as: {verdict.pair_before}" in verdict._repr_html_()


def test_how_bad_it_is_is_not_shrunk_away():
    options = {"data": inputs.vector(6, moves="all"), "claim": (1.0, 0.0), "trials": 60_000}
    verdict = da.audit(narrow, **options, measure=True)
    assert verdict.refuted
    assert "of 6 moves" not in verdict.pair  # one answer shows 3, six of them 18


def leaky_mean(data, rng):
    """The noise forgets that one record may move the mean of few records far."""
    return float(np.mean(data)) + rng.laplace(scale=0.05)


def test_a_pair_is_found_in_a_data_set_and_the_same_call_goes_on_from_the_log(tmp_path):
    options = {"data": TABLE[:, 0], "claim": (1.0, 0.0), "trials": 800, "store": tmp_path / "a.db"}
    verdict = da.audit(leaky_mean, **options)
    assert verdict.refuted
    assert verdict.pair.startswith(("1 record", "2 record"))
    again = da.audit(leaky_mean, **options)
    assert (again.bound, again.pair, again.trials) == (verdict.bound, verdict.pair, verdict.trials)
    judged = judge(tmp_path / "a.db")
    assert (judged.bound, judged.pair) == (verdict.bound, verdict.pair)


def test_the_search_is_logged_and_played_once(tmp_path):
    with opened(tmp_path / "a.db") as log:
        da.audit(leaky_mean, data=TABLE[:, 0], claim=(1.0, 0.0), trials=600, store=log)
        first = {run.key: log.counts(run.key) for run in log.runs()}
        da.audit(leaky_mean, data=TABLE[:, 0], claim=(1.0, 0.0), trials=600, store=log)
        assert {run.key: log.counts(run.key) for run in log.runs()} == first


def test_a_pair_or_data_but_not_both():
    for options in ({}, {"pair": ([1], []), "data": [1]}):
        with pytest.raises(InvalidArgument, match="give one of them"):
            da.audit(leaky_mean, **options, claim=(1.0, 0.0))


# --- Tables of a schema.


SCHEMA = Schema(
    {"age": range(100), "town": ["a", "b", "c"], "income": Numeric.between(0, 10, bins=5)},
    impossible=[{"age": [0], "town": ["a"]}],
)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_tables_of_a_schema_are_neighbours_that_it_allows(relation):
    pairs = as_input(SCHEMA).pairs(relation)
    assert len({pair.name for pair in pairs}) == len(pairs) > 10
    for pair in pairs:
        both = (pair.data, pair.data_prime)
        one, other = (Counter(map(tuple, table.to_numpy().tolist())) for table in both)
        only_one, only_other = (one - other).total(), (other - one).total()
        assert (only_one, only_other) == ((0, 1) if relation == "add-remove" else (1, 1))
        SCHEMA.encode(pair.data)
        SCHEMA.encode(pair.data_prime)


def test_a_schema_that_allows_next_to_nothing_is_refused():
    schema = Schema({"a": range(5000)}, impossible=[{"a": list(range(1, 5000))}])
    with pytest.raises(InvalidArgument, match="nearly all records are impossible"):
        as_input(schema).pairs("add-remove")


@pytest.mark.parametrize("leaks", [True, False])
def test_what_forgets_absent_values_is_found_from_a_schema(leaks):
    def counts(table, rng):
        counted = [(table["town"] == town).sum() for town in "abc"]
        return [-99.0 if leaks and n == 0 else n + rng.laplace() for n in counted]

    verdict = da.audit(counts, data=SCHEMA, claim="1", trials=900, confidence=0.999)
    assert verdict.refuted == leaks
    assert verdict.neighbours == "checked"


def test_a_promise_that_does_not_hold_on_more_trials_shrinks_nothing():
    """The first trials of a simpler pair were lucky, the next ones are not."""
    simple = Pair("simple", 0, 1)
    found = Found(Pair("found", 0, 2, simpler=lambda: [simple]), 5.0, 1, 0)

    def play(pair, n):
        return np.zeros(n), np.arange(n, dtype=float)[:, None]

    def judge(worlds, table):
        return 4.0 if table[0, 0] == 0 else 0.5

    options = {"goal": 1.0, "kept": 0.1, "size": 10, "budget": 100}
    once = adjust_pair(found, play, judge, **options)
    twice = adjust_pair(found, play, judge, **options, twice=True)
    assert (once.pair.name, once.trials) == ("simple", 10)
    assert (twice.pair.name, twice.trials) == ("found", 20)
    short = adjust_pair(found, play, judge, **options | {"budget": 15}, twice=True)
    assert (short.pair.name, short.trials) == ("found", 10)
