"""Private search: what a run sees, what the whole costs, what is chosen."""

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpassay as da
from dpassay.errors import BudgetExceeded, DpassayError, InvalidArgument
from dpassay.learn import Ledger, PrivateRidge, PrivateSearchCV
from dpassay.learn import search as search_module
from dpassay.learn.base import PrivateMixin
from dpassay.learn.search import _number_of_runs
from dpassay.mechanisms import gaussian, gaussian_multiplier
from dpassay.privacy import Approx, Gaussian, Selected
from rates import assert_rate

RIDGE = PrivateRidge(data_norm=2.0, target_bound=3.0, solver="output")
GRID = {"alpha": [1e-3, 20.0, 1e9]}


def regression(n=4000, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    return X, X @ np.linspace(-1, 1, p) + 0.1 * rng.normal(size=n)


def search(**parameters):
    given = {"estimator": RIDGE, "param_grid": GRID, "random_state": 0, "search_share": 1.0}
    return PrivateSearchCV(**given | parameters)


@parametrize_with_checks(
    [
        PrivateSearchCV(
            PrivateRidge(data_norm=10.0, target_bound=10.0, solver="output"),
            {"alpha": [1.0, 10.0]},
            law="negative-binomial",
            n_runs=3.0,
        )
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class Recorder(PrivateMixin, RegressorMixin, BaseEstimator):
    """Releases the noisy sum of its targets; scores by it; remembers what it was shown."""

    seen: list = []  # noqa: RUF012

    def __init__(
        self, epsilon=1.0, delta=1e-5, *, target_bound=1.0, event=None, tag=0,
        neighbouring="add-remove", n_records=None, ledger=None, random_state=None,
    ):  # fmt: skip
        self.epsilon, self.delta, self.target_bound = epsilon, delta, target_bound
        self.event, self.tag, self.neighbouring = event, tag, neighbouring
        self.n_records, self.ledger, self.random_state = n_records, ledger, random_state

    def fit(self, X, y):
        budget = self._budget()
        self.seen.append((self.tag, "fit", X[:, 0].copy()))
        if not budget.is_private:
            self._spend_nothing_private(budget, self._public_records(X))
            self.sum_ = y.sum()
            return self
        noise = gaussian_multiplier(epsilon=budget.epsilon, delta=budget.delta)
        noise *= 1 + 1e-9
        event = self.event or Gaussian(noise, budget.neighbouring)
        with self._spending(event, self._public_records(X)):
            release = gaussian(y.sum(), sensitivity=1.0, mu=1 / noise, rng=self._rng())
        self.sum_, self.noise_ = release.value, release.noise
        return self

    def predict(self, X):
        self.seen.append((self.tag, "predict", X[:, 0].copy()))
        return np.full(X.shape[0], self.sum_)


def by_the_sum(model, X, y):
    """A score that prefers large sums: what an adversary would choose."""
    return np.full(X.shape[0], 1 / (1 + math.exp(-model.sum_ / 2)))


# What is seen.


def test_fits_and_scores_see_different_records_and_every_run_the_same():
    X = np.arange(200.0)[:, None]
    Recorder.seen = []
    search(estimator=Recorder(), param_grid={"tag": [0, 1]}, validation_share=0.3).fit(X, X[:, 0])
    made_up, fits = [], []
    for _, what, rows in Recorder.seen:
        if what == "fit":
            (made_up if (rows == 0.5).all() else fits).append(rows)
    assert len(made_up) == 2, "one per setting, to learn its price"
    scores = [rows for _, what, rows in Recorder.seen if what == "predict"]
    assert len(fits) == len(scores) > 1
    for rows in fits:
        np.testing.assert_array_equal(rows, fits[0])
    for rows in scores:
        np.testing.assert_array_equal(rows, scores[0])
    assert sorted([*fits[0], *scores[0]]) == list(X[:, 0])
    assert_rate(len(scores[0]), 200, 0.3)


def test_divisors_are_public():
    X, y = np.zeros((40, 1)), np.zeros(40)
    found = search(estimator=Recorder(), param_grid={"tag": [0]}, n_records=1000)
    assert found.fit(X, y).best_estimator_.n_records == 750
    assert found.assumptions_ == ("n=1000",)


def test_every_run_has_noise_of_its_own():
    sums = []

    def scoring(model, X, y):
        sums.append(model.sum_)
        return np.zeros(X.shape[0])

    X, y = np.zeros((40, 1)), np.zeros(40)
    search(estimator=Recorder(), param_grid={"tag": [0]}, scoring=scoring).fit(X, y)
    assert len(set(sums)) == len(sums) > 1
    sums.clear()
    search(estimator=Recorder(), param_grid={"tag": [0]}, scoring=scoring, random_state=None).fit(
        X, y
    )
    assert len(set(sums)) == len(sums) > 1


def test_scores_are_clipped_whatever_comes():
    """Else one record could move the mean by more than was paid for."""
    X, y = np.zeros((400, 1)), np.zeros(400)
    for value, low, high in ((math.nan, -1, 1), (math.inf, 0, 2), (-9.0, -1, 1), (9.0, 0, 2)):
        found = search(
            estimator=Recorder(), param_grid={"tag": [0]}, epsilon=1e3,
            scoring=lambda model, X, y, value=value: np.full(X.shape[0], value),
        )  # fmt: skip
        assert low < found.fit(X, y).best_score_ < high


def test_scoring_must_give_a_number_per_record():
    with pytest.raises(InvalidArgument, match="one number per record"):
        search(scoring=lambda model, X, y: 0.5).fit(*regression(100))


def test_nothing_but_the_best_is_kept():
    found = search().fit(*regression(400))
    learned = {name for name in vars(found) if name.endswith("_")}
    assert learned == {
        "best_estimator_", "best_params_", "best_score_", "event_", "assumptions_", "noise_",
        "n_features_in_", "n_records_", "score_deviation_",
    }  # fmt: skip


# What it costs.


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("law", ["poisson", "negative-binomial"])
def test_the_budget_is_kept_and_used(law, relation):
    model = clone(RIDGE).set_params(neighbouring=relation)
    found = search(estimator=model, law=law, epsilon=2.0).fit(*regression(400))
    assert isinstance(found.event_, Selected)
    assert found.event_.law == law
    assert 0.999 * 2 < found.privacy_.epsilon(1e-5) <= 2.0
    assert found.privacy_.neighbouring == relation
    assert found.best_estimator_.event_ == found.event_
    # The same fit by itself: no order of it costs more than the run that was paid for.
    alone = clone(found.best_estimator_).fit(*regression(400))
    assert alone.privacy_.epsilon(1e-5) < 2.0
    fit = da.account(alone.event_, "rdp").epsilons
    assert (fit <= da.account(found.event_.event, "rdp").epsilons * (1 + 1e-9)).all()


def test_a_fit_that_costs_more_at_some_order_is_refused():
    dear = Recorder(event=Gaussian(0.1))
    with pytest.raises(InvalidArgument, match="dearer than a Gaussian"):
        search(estimator=dear, param_grid={"tag": [0]}).fit(*regression(50))
    with pytest.raises(DpassayError, match="Approx"):
        unknown = Recorder(event=Approx(0.01, 1e-9))
        search(estimator=unknown, param_grid={"tag": [0]}).fit(*regression(50))


def test_one_entry_in_the_ledger_or_none(tmp_path):
    ledger = Ledger(tmp_path / "spent.db", budget=da.ApproxDP(1.5, 1e-5))
    found = search(ledger=ledger).fit(*regression(400))
    (entry,) = ledger.entries()
    assert (entry.what, entry.event) == ("PrivateSearchCV", found.event_)
    with pytest.raises(BudgetExceeded):
        found.fit(*regression(400))


@pytest.mark.parametrize(
    ("law", "shape"), [("poisson", 0), ("negative-binomial", 0), ("negative-binomial", 2)]
)
def test_the_number_of_runs_has_its_law(law, shape):
    rng = np.random.default_rng(0)
    drawn = np.array([_number_of_runs(3.0, law, shape, rng) for _ in range(5000)])
    # Six deviations of the mean.
    assert abs(drawn.mean() - 3.0) < 6 * drawn.std() / math.sqrt(drawn.size)
    if law == "poisson":
        assert_rate(int((drawn == 0).sum()), drawn.size, math.exp(-3))
    elif shape == 0:
        gamma = da.privacy.selection.gamma_of(3.0, 0.0)
        assert_rate(int((drawn == 1).sum()), drawn.size, (1 - gamma) / -math.log(gamma))
    else:
        gamma = da.privacy.selection.gamma_of(3.0, 2.0)
        assert_rate(int((drawn == 1).sum()), drawn.size, 2 * (1 - gamma) / (gamma**-2 - 1))


def test_no_run_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(search_module, "_number_of_runs", lambda *_: 0)
    with pytest.raises(DpassayError, match=r"no run was drawn, as happens with probability 5e-05"):
        search().fit(*regression(100))


# What is chosen.


def test_it_finds_the_good_setting():
    X, y = regression()
    chosen = [
        search(epsilon=3.0, random_state=i).fit(X, y).best_params_["alpha"] for i in range(12)
    ]
    # The other two give noise, or zero. A run in three draws the good one; none of ten misses it
    # with probability 0.017, and then the choice is between the other two.
    assert chosen.count(20.0) >= 9
    found = search(epsilon=3.0, random_state=0).fit(X, y)
    assert found.score(X, y) > 0.9
    assert found.best_score_ == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(found.predict(X), found.best_estimator_.predict(X))


def test_without_privacy_it_is_a_search():
    X, y = regression(400)
    found = search(epsilon=math.inf).fit(X, y)
    assert found.privacy_.epsilon(1e-5) == math.inf
    assert found.best_params_["alpha"] != 1e9
    assert found.best_score_ < 1.2  # a mean of scores over the expected size, no noise
    assert found.best_estimator_.solver_ == "ridge"
    assert not isinstance(found.best_estimator_, Ridge)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": Ridge()}, "private estimator"),
        ({"param_grid": {"epsilon": [1, 2]}}, "'epsilon'"),
        ({"n_runs": 1.0}, "mean=1"),
        ({"n_runs": math.nan}, "mean=nan"),
        ({"law": "fixed"}, "law='fixed'"),
        ({"validation_share": 1.0}, "validation_share=1"),
        ({"epsilon": 0.0}, "epsilon=0"),
        ({"delta": 0.0}, "delta=0"),
        ({"n_records": -1}, "n_records=-1"),
    ],
)
def test_misuse(parameters, message):
    with pytest.raises(InvalidArgument, match=message):
        search(**parameters).fit(*regression(50))


def test_the_ledger_of_the_estimator_would_count_twice(tmp_path):
    model = clone(RIDGE).set_params(ledger=Ledger(tmp_path / "spent.db"))
    with pytest.raises(InvalidArgument, match="Pass ledger= to the search"):
        search(estimator=model).fit(*regression(50))


# Audit.


@pytest.mark.parametrize("honest", [True, False], ids=["honest", "the price of one run"])
def test_audit_of_a_hostile_selection(honest):
    """The largest of ten noisy sums says more than one does: claiming one run's price is caught."""

    def chosen(data, rng):
        hostile = PrivateSearchCV(
            Recorder(), {"tag": [0]}, epsilon=16.0, n_runs=10.0, validation_share=0.05,
            scoring=by_the_sum, n_records=1000, search_share=1.0, random_state=rng,
        )  # fmt: skip
        return hostile.fit(*data)

    X, y = np.zeros((1000, 1)), np.zeros(1000)
    y[-1] = 1.0
    pair = (X, y), (X[:-1], y[:-1])
    fitted = chosen(pair[0], 0)
    run = da.GDP(1 / fitted.event_.event.noise_multiplier)
    verdict = da.audit(
        lambda data, rng: chosen(data, rng).best_estimator_.sum_,
        pair,
        claim=fitted.privacy_ if honest else run,
        score=float,
        trials=300 if honest else 1200,
        confidence=1 - 1e-6 if honest else 0.999,
    )
    assert verdict.refuted is not honest, str(verdict)
