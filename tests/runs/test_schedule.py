"""Laws of the schedule and the board: nothing is lost, nobody is blamed for another."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.runs.board import Board
from dpassay.runs.outcomes import Outcomes, join
from dpassay.runs.schedule import (
    DEATHS_ALONE,
    DEATHS_TOGETHER,
    GROWTH,
    PORTION_BYTES,
    PORTION_SECONDS,
    Schedule,
)


def done(trials, seconds=1e-3, payloads=None):
    return Outcomes.of(trials, np.zeros(len(trials)), seconds=seconds, payloads=payloads)


def simulate(schedule, width, killers, rng):
    """Play with a pool that loses all that is under way when one of the killers is played."""
    finished, given_up, under_way = [], [], []
    alone = Counter()
    while True:
        while len(under_way) < 2 * width and (portion := schedule.next(len(under_way))):
            under_way.append(portion)
        if not under_way:
            return finished, given_up, alone
        playing = under_way[:width]
        portion = playing[rng.integers(len(playing))]
        if killers & set(portion):
            if [portion] == under_way and len(portion) == 1:
                alone[portion[0]] += 1
            given_up += schedule.note_deaths([trial for lost in under_way for trial in lost])
            under_way = []
        else:
            under_way.remove(portion)
            finished += portion
            schedule.learn_from(done(portion, seconds=rng.choice([1e-5, 1e-2, 1.0])))


@given(
    n=st.integers(0, 120),
    width=st.integers(1, 4),
    killers=st.sets(st.integers(0, 119), max_size=4),
    seed=st.integers(0, 999),
)
def test_every_trial_ends_once_and_only_killers_are_given_up(n, width, killers, seed):
    schedule = Schedule(np.arange(n), width)
    rng = np.random.default_rng(seed)
    finished, given_up, alone = simulate(schedule, width, killers, rng)
    assert sorted(finished + given_up) == list(range(n))
    assert set(given_up) == {trial for trial in killers if trial < n}
    assert all(alone[trial] >= DEATHS_ALONE for trial in given_up)


def test_an_accident_costs_one_replay_in_company():
    schedule = Schedule(np.arange(10), width=2)
    first, second = schedule.next(0), schedule.next(1)
    assert schedule.note_deaths(first + second) == []
    assert [schedule.next(0), schedule.next(1)] == [[0], [1]]


def test_second_deaths_are_played_alone():
    schedule = Schedule(np.arange(10), width=2)
    for _ in range(DEATHS_TOGETHER):
        schedule.note_deaths(schedule.next(0) + schedule.next(1))
    assert schedule.next(1) == []  # others must end first
    assert schedule.next(0) == [0]
    assert schedule.next(1) == []
    assert schedule.next(0) == [1]


def test_dask_reports_several_deaths_at_once():
    schedule = Schedule(np.arange(10), width=2)
    assert schedule.note_deaths(schedule.next(0), deaths=4) == []
    assert schedule.next(1) == []
    assert schedule.note_deaths(schedule.next(0), deaths=4) == [0]


def test_portions_grow_to_their_time():
    schedule = Schedule(np.arange(10**6), width=2)
    sizes = []
    for _ in range(8):
        portion = schedule.next(0)
        sizes.append(len(portion))
        schedule.learn_from(done(portion, seconds=2**-10))
    assert sizes == [1, GROWTH, GROWTH**2, GROWTH**3, *[int(PORTION_SECONDS * 2**10)] * 4]


def test_portions_shrink_again_and_to_their_bytes():
    schedule = Schedule(np.arange(10**6), width=2)
    schedule.learn_from(done(range(1000), seconds=1e-6))
    assert len(schedule.next(0)) == 4000
    large = {trial: bytes(PORTION_BYTES // 8) for trial in range(8)}
    schedule.learn_from(done(range(8), seconds=1e-6, payloads=large))
    assert len(schedule.next(0)) == 8
    schedule.learn_from(done(range(8), seconds=10.0))
    assert len(schedule.next(0)) == 1


def test_last_portions_are_shared_out():
    schedule = Schedule(np.arange(100), width=5)
    schedule.learn_from(done(range(1000), seconds=1e-9))
    assert len(schedule.next(0)) == 10


def test_at_most():
    schedule = Schedule(np.arange(100), width=1, most=3)
    schedule.learn_from(done(range(1000), seconds=1e-9))
    assert schedule.next(0) == [0, 1, 2]


def test_put_back():
    schedule = Schedule(np.arange(3), width=1)
    schedule.put_back(schedule.next(0))
    assert [schedule.next(0) for _ in range(4)] == [[0], [1], [2], []]


# ------------------------------------------------------------------------------- the board


def outcomes_of(n, seed):
    rng = np.random.default_rng(seed)
    return Outcomes.of(np.arange(n), np.where(rng.random(n) < 0.1, np.nan, rng.random(n)))


@given(
    n=st.integers(1, 60),
    every=st.integers(1, 9),
    stop_at=st.integers(0, 80),
    share=st.sampled_from([0.0, 0.1, 1.0]),
    cuts=st.integers(1, 8),
    seed=st.integers(0, 999),
)
def test_where_a_run_ends_does_not_depend_on_the_order_of_ending(
    n, every, stop_at, share, cuts, seed
):
    outcomes, rng = outcomes_of(n, seed), np.random.default_rng(seed)

    def run(parts):
        seen = []

        def stop(block):
            seen.append(block.trials.tolist())
            return stop_at in seen[-1]

        board, ended = Board(np.arange(n), stop, every, share), None
        for part in parts:
            board.put(outcomes[np.sort(part)])
            ended = board.advance()
            if ended is not None:
                break
        return ended, seen, board.gather_consumed().scores.tobytes()

    in_order = run([np.arange(n)])
    assert run(np.array_split(rng.permutation(n), cuts)) == in_order
    assert run([[trial] for trial in rng.permutation(n)]) == in_order
    ended, seen, _ = in_order
    assert ended in ("done", "stopped", "too many failures")
    assert [*itertools.chain(*seen)] == list(range(sum(map(len, seen))))
    assert all(len(block) == every for block in seen[:-1])


@pytest.mark.parametrize("with_stop", [True, False])
def test_failures_are_counted_in_order(with_stop):
    """21 failures in a row after 100 good trials: one more than 10 + 0.1 x 110."""
    scores = np.zeros(1000)
    scores[100:200] = np.nan
    board = Board(np.arange(1000), (lambda seen: False) if with_stop else None, 1, 0.1)
    board.put(Outcomes.of(np.arange(1000), scores))
    assert board.advance() == "too many failures"
    n = board.n_consumed
    assert n - 100 > 10 + 0.1 * n
    assert n - 101 <= 10 + 0.1 * (n - 1)


def test_trials_of_others_are_left_out():
    board = Board(np.array([3, 5, 8]), None, 1, 1.0)
    board.put(Outcomes.of([0, 3, 4, 8, 9], [0.0, 3.0, 4.0, 8.0, 9.0]))
    assert board.list_unfinished().tolist() == [5]
    assert board.advance() is None
    board.put(Outcomes.of([5], [5.0]))
    assert board.advance() == "done"
    assert board.gather_consumed().scores.tolist() == [3.0, 5.0, 8.0]


def test_columns_keep_texts_and_bytes_with_their_trials():
    first = Outcomes.of([1, 2], [np.nan, 0.5], errors={1: "a"}, payloads={2: b"x"})
    second = Outcomes.of([7], [np.nan], payloads={7: b"y"})
    whole = join([first, second])
    assert whole.failed.tolist() == [True, False, False]
    part = whole[np.array([False, True, True])]
    assert (part.payloads, part.errors) == ({2: b"x", 7: b"y"}, {})
    assert len(join([])) == 0
