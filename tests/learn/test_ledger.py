"""A ledger counts whatever holds its path, and refuses before it writes."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import dpassay as da
from dpassay.errors import BudgetExceeded, InvalidArgument
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
