"""A ledger counts whatever holds its path, and refuses before it writes."""

import contextlib
import copy
import json
import math
import pickle
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import dpassay as da
from dpassay.errors import BudgetExceeded, InvalidArgument, UnsupportedEvent
from dpassay.learn import Ledger, PrivateRidge
from dpassay.privacy import Gaussian, Laplace, NonPrivate, Pure, Repeated, Sampled, Sequence


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spent.db"


def spend(ledger, _=None):
    """Whether the ledger let one more event in."""
    try:
        ledger.record(Gaussian(10.0), what="count")
    except BudgetExceeded:
        return False
    return True


def test_it_adds_up_as_the_accountant_does(path):
    ledger = Ledger(path)
    events = (Gaussian(3.0), Laplace(5.0), Repeated(Sampled(Gaussian(2.0), 0.1), 10))
    for event in events:
        ledger.record(event, what="test", n_records=7)
    assert ledger.spent(1e-5) == da.account(Sequence(events)).epsilon(1e-5)
    assert tuple(entry.event for entry in ledger.entries()) == events


def test_entries_say_when_and_what_but_hold_no_data(path):
    before = datetime.now(UTC)
    Ledger(path).record(Gaussian(3.0), what="PrivateRidge", n_records=7)
    (entry,) = Ledger(path).entries()
    assert before <= entry.moment <= datetime.now(UTC)
    assert (entry.what, entry.n_records, entry.event) == ("PrivateRidge", 7, Gaussian(3.0))


def test_nothing_spent(path):
    ledger = Ledger(path)
    assert ledger.spent(1e-5) == 0
    assert ledger.privacy() is None
    assert ledger.entries() == []
    assert not path.exists()


def test_copies_write_to_the_same_record(path):
    ledger = Ledger(path)
    model = PrivateRidge(ledger=ledger)
    shared = (
        ledger,
        copy.deepcopy(ledger),
        pickle.loads(pickle.dumps(ledger)),
        clone(model).ledger,
        clone(clone(model)).ledger,
    )
    for held in shared:
        spend(held)
    assert len(ledger.entries()) == 5
    assert repr(shared[1]) == repr(ledger)


def test_a_relative_path_follows_no_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("spent.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    spend(ledger)
    assert (tmp_path / "spent.db").exists()


def test_cross_validation_in_other_processes_is_counted(path):
    X, y = np.eye(8), np.ones(8)
    model = PrivateRidge(0.1, data_norm=1, target_bound=1, solver="output", ledger=Ledger(path))
    cross_val_score(model, X, y, cv=4, n_jobs=2, scoring="neg_mean_squared_error")
    assert [entry.n_records for entry in Ledger(path).entries()] == [6] * 4


# The budget.


def allowed(budget):
    """How many Gaussian(10.0) events fit, by the exact curve: k of them have mu = sqrt(k)/10."""
    k = 0
    while da.GDP(math.sqrt(k + 1) / 10).epsilon(budget.delta_upper) <= budget.epsilon_upper:
        k += 1
    return k


def test_exactly_what_fits_is_let_in_whoever_comes_first(path):
    budget = da.ApproxDP(1.0, 1e-5)
    ledgers = [Ledger(path, budget=budget) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        let_in = list(pool.map(spend, ledgers * 4))
    assert 2 < allowed(budget) < 16
    assert sum(let_in) == allowed(budget) == len(ledgers[0].entries())
    assert ledgers[0].spent(1e-5) <= 1.0


def test_a_refusal_leaves_no_entry_and_names_the_numbers(path):
    ledger = Ledger(path, budget=da.ApproxDP(0.5, 1e-5))
    spend(ledger)
    with pytest.raises(
        BudgetExceeded, match=r"epsilon=4\.\d+ at delta=1e-05, above .* 0\.5; 1 entr"
    ):
        ledger.record(Gaussian(1.0), what="too much")
    with pytest.raises(BudgetExceeded, match="epsilon=inf"):
        ledger.record(NonPrivate(), what="far too much")
    assert len(ledger.entries()) == 1
    assert spend(ledger)


def test_one_neighbouring_relation_per_ledger(path):
    ledger = Ledger(path)
    spend(ledger)
    with pytest.raises(InvalidArgument, match="neighbouring"):
        ledger.record(Gaussian(10.0, "replace-one"), what="count")
    assert len(ledger.entries()) == 1
    with pytest.raises(InvalidArgument, match="one relation per ledger"):
        Ledger(path.with_name("other"), budget=da.ApproxDP(1.0, 0.0)).record(
            Pure(0.1, "replace-one"), what="count"
        )


def test_misuse(path):
    with pytest.raises(InvalidArgument, match="budget=1"):
        Ledger(path, budget=1.0)


def test_a_file_that_is_something_else_is_not_overwritten(path):
    path.write_text("not a ledger, but somebody's notes " * 50)
    with pytest.raises(InvalidArgument, match="cannot be used as a ledger"):
        spend(Ledger(path))
    assert path.read_text().startswith("not a ledger")


def test_a_path_is_no_ledger():
    model = PrivateRidge(data_norm=1.0, target_bound=1.0, ledger="spent.db")
    with pytest.raises(InvalidArgument, match=r"ledger='spent\.db' must be a Ledger"):
        model.fit(np.ones((5, 1)), np.ones(5))


# The budget is in the file.


def test_the_next_opener_finds_the_budget(path):
    Ledger(path, budget=da.ApproxDP(0.5, 1e-5), unit="patient")
    found = Ledger(path)
    assert (found.budget, found.unit) == (da.ApproxDP(0.5, 1e-5), "patient")
    with pytest.raises(BudgetExceeded):
        found.record(Gaussian(1.0), what="too much")


def test_another_budget_unit_or_rule_is_refused(path):
    Ledger(path, budget=da.ApproxDP(0.5, 1e-5))
    Ledger(path, budget=da.ApproxDP(0.5, 1e-5))
    with pytest.raises(InvalidArgument, match=r"budget=ApproxDP\(.*is not the one in"):
        Ledger(path, budget=da.ApproxDP(5.0, 1e-5))
    with pytest.raises(InvalidArgument, match=r"unit='user' is not that of the ledger"):
        Ledger(path, unit="user")
    with pytest.raises(InvalidArgument, match=r"adaptive='renyi' is not that of the ledger"):
        Ledger(path, budget=da.ApproxDP(0.5, 1e-5), adaptive="renyi")


def test_an_amendment_is_on_record(path):
    ledger = Ledger(path, budget=da.ApproxDP(0.5, 1e-5))
    with pytest.raises(InvalidArgument, match="reason=''"):
        ledger.amend(da.ApproxDP(9.0, 1e-5), reason=" ")
    with pytest.raises(InvalidArgument, match="cannot be taken away"):
        ledger.amend(None, reason="never mind")
    ledger.amend(da.ApproxDP(9.0, 1e-5), reason="the board agreed")
    ledger.record(Gaussian(1.0), what="more")
    assert [change.budget.epsilon_upper for change in Ledger(path).budgets()] == [0.5, 9.0]
    assert Ledger(path).budgets()[1].reason == "the board agreed"


def test_a_pure_budget_adds_epsilons(path):
    ledger = Ledger(path, budget=da.PureDP(1.0))
    ledger.record(Pure(0.5), what="a")
    ledger.record(Pure(0.5), what="b")
    with pytest.raises(BudgetExceeded):
        ledger.record(Pure(1e-9), what="c")
    with pytest.raises(BudgetExceeded):
        ledger.record(Gaussian(1e6), what="d")


# The file.


def test_a_ledger_that_is_removed_or_replaced_is_noticed(path):
    ledger = Ledger(path, budget=da.ApproxDP(1.0, 1e-5))
    spend(ledger)
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(InvalidArgument, match="was there and is gone"):
        spend(ledger)
    assert not path.exists()
    Ledger(path, budget=da.ApproxDP(1.0, 1e-5))
    with pytest.raises(InvalidArgument, match="another ledger than the one"):
        spend(pickle.loads(pickle.dumps(ledger)))
    path.write_bytes(kept)
    assert spend(ledger)


def test_only_ledgers_are_opened(path):
    with pytest.raises(InvalidArgument, match="there is no ledger"):
        Ledger.open(path)
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE trials (number INTEGER)")
    with pytest.raises(InvalidArgument, match="a data base of another program"):
        Ledger(path)
    newer = path.with_name("newer.db")
    Ledger(newer, budget=da.ApproxDP(1.0, 1e-5))
    with sqlite3.connect(newer) as file:
        file.execute("PRAGMA user_version = 3")
    with pytest.raises(InvalidArgument, match="version 3, newer than 2"):
        Ledger(newer)


def write_version_1(path):
    with sqlite3.connect(path) as file:
        file.execute(
            "CREATE TABLE spending (number INTEGER PRIMARY KEY, moment TEXT NOT NULL, what TEXT "
            "NOT NULL, n_records INTEGER, event TEXT NOT NULL)"
        )
        for noise in (10.0, 20.0):
            file.execute(
                "INSERT INTO spending (moment, what, n_records, event) VALUES (?, ?, ?, ?)",
                ("2026-01-01T00:00:00+00:00", "count", 7, json.dumps(Gaussian(noise).as_dict())),
            )


def test_ledgers_of_version_1_are_brought_up_and_closed_to_old_programs(path):
    write_version_1(path)
    ledger = Ledger(path, budget=da.ApproxDP(0.5, 1e-5))
    assert [entry.event for entry in ledger.entries()] == [Gaussian(10.0), Gaussian(20.0)]
    assert {entry.state for entry in ledger.entries()} == {"done"}
    assert "already" in ledger.budgets()[0].reason
    with pytest.raises(BudgetExceeded, match="2 entries"):
        ledger.record(Gaussian(5.0), what="too much")
    with sqlite3.connect(path) as file:
        assert len(file.execute("SELECT event FROM spending").fetchall()) == 2
        with pytest.raises(sqlite3.OperationalError, match="view"):
            file.execute("INSERT INTO spending (moment, what, event) VALUES ('', '', '')")


# Reservations.


def test_whatever_touched_the_data_is_charged(path):
    ledger = Ledger(path, budget=da.ApproxDP(1.0, 1e-5))
    with ledger.reserve(Gaussian(10.0), what="count", n_records=3) as entry:
        assert ledger.entries()[0].state == "reserved"
        assert entry.number == 1
    with pytest.raises(ZeroDivisionError), ledger.reserve(Gaussian(10.0), what="mean"):
        raise ZeroDivisionError
    assert [entry.state for entry in ledger.entries()] == ["done", "failed"]
    both = da.GDP(math.sqrt(2) / 10).epsilon(1e-5)
    assert ledger.spent(1e-5) == pytest.approx(both, rel=1e-14)
    with pytest.raises(BudgetExceeded), ledger.reserve(NonPrivate(), what="all"):
        raise AssertionError("the data were touched")


KILLED = """
import os, signal, sys
import dpassay as da
from dpassay.privacy import Gaussian
with da.Ledger(sys.argv[1]).reserve(Gaussian(10.0), what="count"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_reserved_stays_charged(path):
    ledger = Ledger(path, budget=da.ApproxDP(0.4, 1e-5))
    process = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    assert not spend(ledger)  # there was room for one


RACE = """
import sys, time
import dpassay as da
from dpassay.privacy import Gaussian
ledger = da.Ledger(sys.argv[1])
time.sleep(max(0.0, float(sys.argv[2]) - time.time()))
with ledger.reserve(Gaussian(10.0), what="count"):
    time.sleep(0.2)
"""


def test_of_two_processes_with_room_for_one_one_is_refused(path):
    Ledger(path, budget=da.ApproxDP(0.4, 1e-5))
    command = [sys.executable, "-c", RACE, str(path), str(time.time() + 4)]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1]
    assert sum(b"BudgetExceeded" in error for error in errors) == 1
    assert [entry.state for entry in Ledger(path).entries()] == ["done"]


def test_a_fit_that_fails_is_charged(path, monkeypatch):
    ledger = Ledger(path, budget=da.ApproxDP(9.0, 1e-5))
    model = PrivateRidge(1.0, data_norm=1, target_bound=1, ledger=ledger)
    monkeypatch.setattr("dpassay.learn.base.limit_threads", lambda n: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(np.eye(8), np.ones(8))
    assert [entry.state for entry in ledger.entries()] == ["failed"]


# Synthesizers and domains.

TABLE = pd.DataFrame({"sex": ["F", "M"] * 100, "city": ["Ulm", "Bonn"] * 100})


def test_synthesizers_and_domains_are_charged_what_they_state(path):
    ledger = Ledger(path, budget=da.ApproxDP(2.1, 1e-6))
    fitted = da.synth.fit(TABLE, domain_epsilon=0.4, epsilon=1.0, delta=1e-7, ledger=ledger, rng=0)
    (entry,) = ledger.entries()
    assert (entry.what, entry.event) == ("domain and ProductMixture", fitted.event_)
    schema = da.synth.Schema({"sex": ["F", "M"], "city": ["Ulm", "Bonn"]})
    again = da.synth.MWEM(schema, epsilon=0.5, delta=1e-7, ledger=ledger, rng=0).fit(TABLE)
    assert ledger.entries()[1].event == again.event_
    with pytest.raises(BudgetExceeded):
        da.synth.MWEM(schema, epsilon=5.0, delta=1e-7, ledger=ledger, rng=0).fit(TABLE)
    assert len(ledger.entries()) == 2


def test_a_domain_of_which_nothing_stood_out_is_charged(path):
    ledger = Ledger(path)
    with pytest.warns(da.synth.DomainWarning), pytest.raises(InvalidArgument):
        da.synth.measure_domain(TABLE.head(2), epsilon=0.1, delta=1e-9, ledger=ledger, rng=0)
    assert [entry.state for entry in ledger.entries()] == ["done"]


# Amounts that depend on results.


def test_the_gaussian_filter_lets_in_what_the_accountant_does(path):
    budget = da.ApproxDP(1.0, 1e-5)
    ledger = Ledger(path, budget=budget, adaptive="gaussian")
    assert sum(spend(ledger) for _ in range(20)) == allowed(budget)
    assert ledger.spent(1e-5) == pytest.approx(
        da.GDP(math.sqrt(allowed(budget)) / 10).epsilon(1e-5)
    )
    with pytest.raises(UnsupportedEvent):
        ledger.record(Laplace(1e6), what="other noise")


@pytest.mark.parametrize("budget", [da.ApproxDP(1.0, 1e-5), da.ApproxDP(8.0, 1e-9)])
def test_the_renyi_filter_keeps_to_one_order_and_to_the_budget(path, budget):
    ledger = Ledger(path, budget=budget, adaptive="renyi")
    kept = Ledger(path)._filter()
    events = (Gaussian(8.0), Laplace(9.0), Repeated(Sampled(Gaussian(2.0), 0.05), 100))
    let_in = []
    for event in events * 12 if budget.epsilon_upper == 1 else [Gaussian(1.5), *events] * 12:
        with contextlib.suppress(BudgetExceeded):
            ledger.record(event, what="next")
            let_in.append(event)
    priced = [da.account(event, "rdp") for event in let_in]
    at = list(priced[0].orders).index(kept.order)
    exact = da.RDP([kept.order], [sum(curve.epsilons[at] for curve in priced)])
    total = exact.epsilon(budget.delta_upper)
    assert total == pytest.approx(ledger.spent(budget.delta_upper), rel=1e-9)
    assert 0.7 * budget.epsilon_upper < total <= budget.epsilon_upper
    assert da.account(Sequence(tuple(let_in))).epsilon(budget.delta_upper) <= total


def test_filters_need_a_delta(path):
    with pytest.raises(InvalidArgument, match="needs a budget with delta above 0"):
        Ledger(path, budget=da.PureDP(1.0), adaptive="renyi")
    with pytest.raises(InvalidArgument, match="adaptive='pure' must be"):
        Ledger(path, budget=da.ApproxDP(1.0, 1e-5), adaptive="pure")
    assert not path.exists()
