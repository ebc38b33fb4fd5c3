"""A long run is asked again: nothing is bet on twice, and nothing else changes."""

import contextlib
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from dpassay.auditing import answering, audit, judge, remembered
from dpassay.auditing.account import Account
from dpassay.auditing.referee import Referee, Rules
from dpassay.bounds.sequential import ConfidenceSequence, SequentialTest
from dpassay.privacy import PureDP
from dpassay.runs import answers, open_log
from dpassay.runs.answers import count_first, find_answer

BETTING, TRIALS = 200, 500
RULES = Rules(PureDP(1.0), 0.0, 0.95, True, Account(0.2, BETTING))


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr("dpassay.auditing.account.BETTING_LIMIT", BETTING)
    for module in (answers, answering):
        monkeypatch.setattr(module, "LONG", BETTING)


def noisy(data, rng):
    return len(data) + rng.laplace(scale=1.2)


def ask(store, trials=TRIALS, claim=None):
    game = noisy, ([1, 2], [1])
    return audit(*game, claim=claim or PureDP(1.0), score=float, trials=trials, store=store)


@pytest.fixture
def no_bets(monkeypatch):
    """Whoever bets now fails."""

    def refuse(*_):
        raise AssertionError("a trial was bet on")

    return lambda: [
        monkeypatch.setattr(kind, "take", refuse) for kind in (SequentialTest, ConfidenceSequence)
    ]


def trials():
    rng = np.random.default_rng(3)
    worlds = rng.integers(0, 2, TRIALS)
    return worlds, worlds + rng.laplace(scale=1.2, size=TRIALS)


def referee_after(memory=None, change=None, portion=30):
    worlds, scores = trials()
    if change is not None:
        scores[change] += 1e-12
    referee = Referee(RULES, memory)
    for start in range(0, TRIALS, portion):
        referee.take(worlds[start : start + portion], scores[start : start + portion])
    return referee


def test_a_memory_says_what_the_bets_said(no_bets):
    first = referee_after()
    bound = first.bound()
    memory = first.memory()
    kept = remembered.Memory.from_bytes(memory.to_bytes("q"), "q")
    assert remembered.Memory.from_bytes(memory.to_bytes("q"), "another") is None
    no_bets()
    for portion in (1, 30, TRIALS):
        again = referee_after(kept, portion=portion)
        assert again.bound() == bound
        assert np.array_equal(again.wealth_path(), first.wealth_path())
        assert again.memory().to_bytes("q") == memory.to_bytes("q")


@pytest.mark.parametrize("change", [0, 150, BETTING - 1])
def test_from_the_first_other_trial_on_everything_is_bet_on(change):
    first = referee_after()
    first.bound()
    memory = first.memory()
    other, alone = referee_after(memory, change), referee_after(None, change)
    assert np.array_equal(other.wealth_path(), alone.wealth_path())
    assert other.bound() == alone.bound()


def test_what_was_refuted_is_not_remembered():
    rules = replace(RULES, claim=PureDP(0.01))
    referee = Referee(rules)
    worlds, _ = trials()
    assert referee.take(worlds, worlds.astype(float))
    assert referee.memory() is None


def test_resuming_bets_on_nothing_twice(tmp_path, no_bets):
    store = tmp_path / "run.db"
    alone = ask(None)
    first = ask(store)
    no_bets()
    again, judged = ask(store), judge(store)
    for verdict in (first, again, judged):
        assert (verdict.refuted, verdict.bound) == (alone.refuted, alone.bound)
        assert np.array_equal(verdict.log_wealth, alone.log_wealth)


def test_another_question_is_bet_on_anew(tmp_path):
    store = tmp_path / "run.db"
    ask(store)
    other = judge(store, claim=PureDP(0.8))
    assert other.bound == ask(None, claim=PureDP(0.8)).bound


def test_a_memory_that_cannot_be_read_is_no_memory(tmp_path):
    with contextlib.closing(open_log(tmp_path / "run.db")) as log:
        verdict = ask(log)
        key = log.runs()[0].key
        log.note(key, "bets", b"no memory")
        assert ask(log).bound == verdict.bound


# ------------------------------------------------------------------------------- answers


def record_of(log):
    return log.runs()[0]


def test_the_answer_is_that_of_the_verdict(tmp_path):
    with contextlib.closing(open_log(tmp_path / "run.db")) as log:
        verdict = ask(log)
        answer = find_answer(log, record_of(log))
        assert (answer.refuted, answer.epsilon_lower) == (verdict.refuted, verdict.bound.epsilon)
        assert (answer.tested, answer.over, answer.settled) == (TRIALS, True, False)
        # Somebody asks for more: the question is another one.
        log.redescribe(record_of(log).key, lambda run: run.description | {"trials": 2 * TRIALS})
        assert find_answer(log, record_of(log)) is None


def test_an_answer_before_the_count_holds_while_trials_come_in(tmp_path):
    """Beyond the bets nothing changes until the last trial; a gap ends what is tested."""
    whole = open_log(tmp_path / "whole.db")
    ask(whole)
    key = record_of(whole).key
    rows = whole.outcomes(key)
    with contextlib.closing(open_log(tmp_path / "part.db")) as log:
        about = record_of(whole).description | {"account": Account(0.2, BETTING).to_json()}
        log.begin(key, record_of(whole).configuration, about)
        log.add(key, rows[:300])
        answer = answering.answer_run(log, record_of(log))
        assert answer.settled
        assert (answer.tested, answer.over) == (300, False)
        log.add(key, rows[300:350])
        log.add(key, rows[400:450])
        assert count_first(log, key) == 350
        now = find_answer(log, record_of(log))
        assert now == replace(answer, tested=350)
        assert now.epsilon_lower == judge(log).bound.epsilon
        log.add(key, rows)
        assert find_answer(log, record_of(log)) is None  # it has ended, and must be judged
    whole.close()


def test_short_runs_keep_no_answer(tmp_path):
    store = tmp_path / "run.db"
    ask(store, trials=BETTING - 1)
    with contextlib.closing(sqlite3.connect(store)) as file:
        names = {name for (name,) in file.execute("SELECT name FROM notes")}
    assert not names & {"answer", "bets"}
