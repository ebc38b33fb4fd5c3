"""One run has one alpha, however often it is asked and extended."""

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import judge
from dpassay.auditing.account import Account
from dpassay.auditing.question import Question, keep_account
from dpassay.auditing.referee import Referee, Rules
from dpassay.errors import InvalidArgument, LogError
from dpassay.runs import MemoryLog, SqliteLog, merge
from rates import assert_rate_at_most

PAIR = (1.0, 0.0)


def laplace(scale):
    return lambda data, rng: data + rng.laplace(scale=scale)


def many_laplace(data, rng, size):
    return data + rng.laplace(scale=1.0, size=size)


def account_in(log):
    return Account.from_json(log.runs()[-1].description["account"])


def test_shares_never_exceed_one_and_counts_never_overlap():
    for account in (
        Account.begin(1000, True),
        Account.begin(1000, False),
        Account.begin(50_000, True),
    ):
        for budget in (50_000, 60_000, 60_000, 200_000, 10**7):
            account = account.order(budget)
        spent = account.betting + sum(share for *_, share in account.list_counts(10**9))
        assert spent <= 1
        ends = [0]
        for first, end in account.counts:
            assert ends[-1] <= first < end
            ends.append(end)
        assert len(account.counts) == (0 if account.betting == 1 else 4)
        assert Account.from_json(account.to_json()) == account


def test_what_a_run_begins_with():
    assert Account.begin(20_000, True) == Account(1.0, None)
    assert Account.begin(20_001, True) == Account(0.2, 20_000)
    assert Account.begin(20_001, False) == Account(0.0, 0)
    assert Account.begin(100_000, True).order(100_000).list_counts(100_000) == [
        (20_000, 100_000, pytest.approx(0.64))
    ]


def test_extending_a_finished_log_counts_new_trials_with_what_is_left(tmp_path):
    options = {"claim": da.PureDP(1.0), "score": float, "sequential": False}
    store, mechanism = tmp_path / "run.db", laplace(0.5)
    found = [
        da.audit(mechanism, PAIR, trials=n, store=store, **options) for n in (300, 300, 900, 2000)
    ]
    assert [v.trials for v in found] == [300, 300, 900, 2000]
    assert found[0].bound == found[1].bound
    again = judge(store)
    assert (again.refuted, again.bound, again.fell_at) == (
        found[-1].refuted,
        found[-1].bound,
        found[-1].fell_at,
    )
    from dpassay.runs import open_log

    log = open_log(store)
    assert account_in(log).counts == ((60, 300), (300, 900), (900, 2000))
    log.close()


def test_a_smaller_question_is_answered_from_what_was_counted():
    log, options = MemoryLog(), {"claim": da.PureDP(1.0), "score": float, "sequential": False}
    mechanism = laplace(0.5)
    first = da.audit(mechanism, PAIR, trials=300, store=log, **options)
    da.audit(mechanism, PAIR, trials=900, store=log, **options)
    smaller = da.audit(mechanism, PAIR, trials=500, store=log, **options)
    assert smaller.bound == first.bound
    assert len(account_in(log).counts) == 2


def test_the_count_is_in_the_log_before_its_result_is_shown(monkeypatch):
    """Killed in between, the same command finds the count in the log and orders no other."""
    log, mechanism = MemoryLog(), laplace(0.5)
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 200, "sequential": False}

    def killed(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
        patch.setattr(Question, "verdict", killed)
        da.audit(mechanism, PAIR, store=log, **options)
    assert account_in(log).counts == ((40, 200),)
    assert "writer" in log.runs()[-1].description
    verdict = da.audit(mechanism, PAIR, store=log, **options)
    assert account_in(log).counts == ((40, 200),)
    assert judge(log).bound == verdict.bound


def test_bets_leave_nothing_for_a_count():
    log, mechanism = MemoryLog(), laplace(1.0)
    options = {"claim": da.PureDP(1.0), "score": float, "store": log}
    da.audit(mechanism, PAIR, trials=60, **options)
    with pytest.raises(InvalidArgument, match="sequential=False asks for a count, but run"):
        da.audit(mechanism, PAIR, trials=60, sequential=False, **options)
    more = da.audit(mechanism, PAIR, trials=90, **options)
    assert (more.trials, account_in(log).counts) == (90, ())


def test_a_run_that_only_counts_is_not_bet_on_later():
    log, mechanism = MemoryLog(), laplace(0.2)
    options = {"claim": da.PureDP(1.0), "score": float, "store": log, "trials": 200}
    counted = da.audit(mechanism, PAIR, sequential=False, **options)
    again = da.audit(mechanism, PAIR, sequential=True, **options)
    assert (again.bound, again.log_wealth) == (counted.bound, None)
    assert account_in(log).counts == ((40, 200),)


@pytest.mark.parametrize(
    ("mechanism", "score"), [(laplace(1.0), None), (many_laplace, float), (many_laplace, None)]
)
def test_more_trials_go_on_with_the_same_run(mechanism, score):
    """Another number of learning trials or of draws at once would play the same seeds again."""
    log = MemoryLog()
    options = {"claim": da.PureDP(1.0), "score": score, "store": log, "sequential": False}
    first = da.audit(mechanism, PAIR, trials=240, **options)
    second = da.audit(mechanism, PAIR, trials=480, **options)
    assert first.evidence.run == second.evidence.run
    assert len(log.runs()) == 1
    np.testing.assert_array_equal(second.evidence.scores[: first.n_counted], first.evidence.scores)


def test_a_question_smaller_than_what_was_learned_from_is_refused():
    log, mechanism = MemoryLog(), laplace(1.0)
    options = {"claim": da.PureDP(1.0), "store": log, "sequential": False}
    da.audit(mechanism, PAIR, trials=600, **options)
    with pytest.raises(InvalidArgument, match=r"trials=130 .*learned a score from the first"):
        da.audit(mechanism, PAIR, trials=130, **options)


def test_a_run_that_learns_while_it_bets_goes_on_so_whatever_is_asked(monkeypatch):
    """A split for learning would play the same seeds as another run, with another alpha."""
    monkeypatch.setattr("dpassay.auditing.account.BETTING_LIMIT", 400)
    log, mechanism = MemoryLog(), laplace(1.0)
    options = {"claim": da.PureDP(1.0), "store": log}
    first = da.audit(mechanism, PAIR, trials=60, **options)
    with pytest.raises(InvalidArgument, match="sequential=False asks for a count, but run"):
        da.audit(mechanism, PAIR, trials=200, sequential=False, **options)
    longer = da.audit(many_laplace, PAIR, trials=200, **options)
    longest = da.audit(many_laplace, PAIR, trials=800, **options)
    assert len(log.runs()) == 2
    assert longest.evidence.run == longer.evidence.run != first.evidence.run
    assert longest.n_learning == 0


def test_logs_from_before_accounts_are_taken_as_counted_once():
    log, mechanism = MemoryLog(), laplace(0.5)
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 200, "sequential": False}
    verdict = da.audit(mechanism, PAIR, store=log, **options)
    (record,) = log.runs()
    about = {name: value for name, value in record.description.items() if name != "account"}
    log.begin(record.key, record.configuration, about)
    assert judge(log).bound == verdict.bound
    da.audit(mechanism, PAIR, store=log, **options | {"trials": 500})
    assert account_in(log).counts == ((40, 200), (200, 500))


def flipped(rng, n, epsilon):
    """Randomized response at exactly epsilon: worlds, and bits that tell them with e^epsilon."""
    worlds = rng.integers(0, 2, n)
    lies = rng.random(n) < 1 / (1 + np.exp(epsilon))
    return worlds, np.where(lies, 1 - worlds, worlds).astype(float)


def pair_errors(n_audits, alpha, budgets=(150, 450, 1350), epsilon=1.0):
    """Audits of a true claim, extended twice: how many ever refuted it or exceeded the truth."""
    wrong = 0
    for seed in range(n_audits):
        played = flipped(np.random.default_rng(seed), budgets[-1], epsilon)
        account = Account.begin(budgets[0], sequential=False)
        erred = False
        for budget in budgets:
            account = account.order(budget)
            referee = Referee(Rules(da.PureDP(epsilon), 0.0, 1 - alpha, True, account))
            referee.take(*(part[:budget] for part in played))
            refuted, bound, _ = referee.statement()
            erred |= refuted or bound.epsilon > epsilon
        wrong += erred
    return wrong


def test_the_pair_of_verdict_and_bound_errs_with_alpha_at_most_over_all_extensions(monkeypatch):
    """At level 0.2, where errors are many; the mutant gives the whole level to every count."""
    assert_rate_at_most(pair_errors(400, 0.2), 400, 0.2)
    monkeypatch.setattr(Account, "share", lambda self, count: 1.0)
    with pytest.raises(AssertionError):
        assert_rate_at_most(pair_errors(400, 0.2), 400, 0.2)


def test_merging_logs_forgets_no_count():
    """The count that a copy of the log ordered is spent in the joined log too."""
    options = {"claim": da.PureDP(1.0), "score": float, "sequential": False}
    first, copy, third = MemoryLog(), MemoryLog(), MemoryLog()
    da.audit(laplace(1.0), PAIR, trials=100, store=first, **options)
    merge(copy, first)
    merge(third, first)
    da.audit(laplace(1.0), PAIR, trials=300, store=copy, **options)
    assert merge(first, copy) == 200
    assert account_in(first).counts == account_in(copy).counts == ((20, 100), (100, 300))
    assert merge(copy, first) == 0
    da.audit(laplace(1.0), PAIR, trials=200, store=third, **options)
    with pytest.raises(LogError, match="asked in both logs"):
        merge(first, third)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_two_who_ask_one_run_at_once_spend_alpha_once(tmp_path, kind):
    stored = tmp_path / "run.db"
    one = SqliteLog(stored) if kind == "file" else MemoryLog()
    other = SqliteLog(stored) if kind == "file" else one
    fresh = Account.begin(50_000, True)
    about = {"trials": 50_000, "account": fresh.to_json()}
    one.begin("k", {}, about)
    # Both have read the account before either has spent; the larger budget comes second.
    assert keep_account(one, "k", fresh, 50_000).counts == ((20_000, 50_000),)
    other.begin("k", {}, about | {"trials": 90_000})
    assert keep_account(other, "k", fresh, 90_000).counts == ((20_000, 50_000), (50_000, 90_000))
    assert keep_account(one, "k", fresh, 50_000).list_counts(50_000)[-1][:2] == (20_000, 50_000)
    assert account_in(one).counts == ((20_000, 50_000), (50_000, 90_000))
    assert one.runs()[0].description["trials"] == 90_000
    with pytest.raises(InvalidArgument, match="at the same time by another process"):
        keep_account(other, "k", Account.begin(10, True), 10)
    one.close(), other.close()
