"""Tables made ready by what was declared; what a fit says of the calls around it."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpassay as da
from dpassay.errors import BudgetExceeded, InvalidArgument, UnpaidSearch
from dpassay.learn import PrivateLogisticRegression, PrivatePreprocessor, PrivateRidge
from dpassay.learn import preprocess as module
from rates import assert_rate

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, 2000),
        "debt": np.where(RNG.random(2000) < 0.5, 0.0, RNG.lognormal(6, 1, 2000)),
        "job": RNG.choice(["cook", "judge", "spy"], 2000),
    }
)
LABELS = ((TABLE.age > 50) ^ (TABLE.job == "cook")).astype(int)
DECLARED = {"bounds": {"age": (0, 120), "debt": (0, 5000)}, "categories": {"job": ["cook", "spy"]}}


@parametrize_with_checks([PrivatePreprocessor((-10.0, 10.0))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_looks_at_nothing_that_was_not_paid_for():
    """Fitted on other data, or on one record, it does the same."""
    other = pd.DataFrame({"age": [5], "debt": [1e9], "job": ["spy"]})
    ready = [PrivatePreprocessor(**DECLARED).fit(data) for data in (TABLE, other)]
    found = [each.transform(TABLE) for each in ready]
    np.testing.assert_array_equal(*found)
    assert ready[0].privacy_ is None
    alone = np.vstack([ready[0].transform(TABLE[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(alone, found[0][:20])


def test_missing_strange_and_far_values():
    odd = pd.DataFrame(
        {"age": [None, "x", 500, np.inf], "debt": [0, 5000, -1, 2500], "job": ["spy", None, "?", 3]}
    )
    seen = PrivatePreprocessor(**DECLARED).fit(TABLE).transform(odd)
    expected = [[0, -1, 0, 1], [0, 1, 0, 0], [1, -1, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_array_equal(seen, expected)


def test_names_and_norm():
    ready = PrivatePreprocessor(**DECLARED).fit(TABLE)
    assert list(ready.get_feature_names_out()) == ["age", "debt", "job=cook", "job=spy"]
    assert np.linalg.norm(ready.transform(TABLE), axis=1).max() <= ready.row_norm == math.sqrt(3)
    by_place = PrivatePreprocessor({0: (0, 120), 1: (0, 5000)}, {2: ["cook", "spy"]})
    np.testing.assert_array_equal(
        by_place.fit_transform(TABLE.to_numpy(object)), ready.transform(TABLE)
    )


def test_the_norm_of_declared_columns_is_known_before_the_fit():
    ready = PrivatePreprocessor(**DECLARED)
    assert ready.row_norm == math.sqrt(3)
    assert ready.fit(TABLE).row_norm == math.sqrt(3)
    with pytest.raises(InvalidArgument, match="before the fit"):
        PrivatePreprocessor((0.0, 1.0)).row_norm  # noqa: B018


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "column 'age' has neither bounds nor categories"),
        (DECLARED | {"bounds": {"age": (0, 120)}}, "column 'debt' has neither"),
        (DECLARED | {"epsilon": 1.0}, "no bounds are to be measured"),
        (DECLARED | {"bounds": {"age": (3, 3), "debt": (0, 1)}}, "low < high"),
        (DECLARED | {"bounds": DECLARED["bounds"] | {"pay": (0, 1)}}, "'pay' is declared"),
        (DECLARED | {"categories": {"job": "cook"}}, "must list different values"),
        (DECLARED | {"bounds": {"age": None, "debt": (0, 1)}}, "epsilon=0"),
    ],
)
def test_what_is_missing_is_said(options, match):
    with pytest.raises(InvalidArgument, match=match):
        PrivatePreprocessor(**options).fit(TABLE)


# Paid bounds.


def paid(**options):
    bounds = {"age": None, "debt": None}
    return PrivatePreprocessor(bounds, DECLARED["categories"], random_state=0, **options)


def test_measured_bounds_cover_the_column_and_are_charged(tmp_path):
    ledger = da.Ledger(tmp_path / "spent.db", budget=da.ApproxDP(1.0, 1e-6))
    ready = paid(epsilon=0.8, ledger=ledger).fit(TABLE)
    assert ready.bounds_["age"] == (16.0, 128.0)
    assert ready.bounds_["debt"][1] == 4096.0
    assert ready.privacy_.epsilon(1e-6) == pytest.approx(0.8, rel=1e-6)
    assert [entry.what for entry in ledger.entries()] == ["PrivatePreprocessor"]
    with pytest.raises(BudgetExceeded):
        paid(epsilon=0.8, ledger=ledger).fit(TABLE)


def test_a_column_of_which_nothing_stands_out_is_said_to_be_lost():
    with pytest.warns(UserWarning, match="nothing of 'age', 'debt' stood out"):
        ready = paid(epsilon=0.01).fit(TABLE)
    assert (ready.transform(TABLE)[:, :2] == 0).all()


@pytest.mark.parametrize(("relation", "moved"), [("add-remove", 2**0.5), ("replace-one", 2.0)])
def test_the_noise_of_measured_bounds_is_that_of_the_event(relation, moved, monkeypatch):
    seen = []

    def spy(value, **options):
        release = gaussian(value, **options)
        seen.extend(np.ravel(release.value - value))
        return release

    gaussian = module.gaussian
    monkeypatch.setattr(module, "gaussian", spy)
    ready = paid(epsilon=1.0, neighbouring=relation)
    rng = np.random.default_rng(1)
    for _ in range(20):
        ready.set_params(random_state=rng).fit(TABLE)
    z = np.abs(seen) / (ready.event_.noise_multiplier * moved)
    assert_rate(int((z <= 1).sum()), z.size, 0.682689)
    with pytest.raises(AssertionError):
        assert_rate(int((0.9 * z <= 1).sum()), z.size, 0.682689)


def test_one_record_moves_one_cell_of_a_column():
    values = np.array([0.0, 1.0, -1.0, 3.0, 1e-300, 1e300, np.inf, -np.inf, np.nan, 2.0**-32])
    counts = [module._octave_counts(values[i : i + 1]) for i in range(len(values))]
    assert [c.sum() for c in counts] == [1.0] * 8 + [0.0, 1.0]
    for value, count in zip(values, counts, strict=True):
        if np.isfinite(value) and 2.0**-32 <= abs(value) < 2.0**32:
            low, high = module._cell_ends(int(count.argmax()) - 64)
            assert low <= value <= high


# Inside pipelines.


def test_a_column_transformer_of_declared_parts_has_no_further_assumption():
    numbers = PrivatePreprocessor(DECLARED["bounds"])
    jobs = PrivatePreprocessor(categories=DECLARED["categories"])
    ready = ColumnTransformer([("n", numbers, ["age", "debt"]), ("j", jobs, ["job"])])
    model = PrivateLogisticRegression(2.0, 1e-6, data_norm=math.sqrt(3), random_state=0)
    fitted = make_pipeline(ready, model).fit(TABLE, LABELS)
    assert fitted[-1].privacy_.assumptions == ("n=2000", "the label set, 2 classes")
    assert fitted.score(TABLE, LABELS) > 0.6


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (StandardScaler(), "StandardScaler"),
        (make_union(FunctionTransformer(), SimpleImputer()), "FeatureUnion"),
        (ColumnTransformer([("s", StandardScaler(), [0])], remainder="drop"), "ColumnTransformer"),
        (Pipeline([("s", StandardScaler())]), "Pipeline"),
    ],
)
def test_what_learned_from_the_same_data_is_said(step, name):
    X = TABLE[["age", "debt"]].to_numpy(float)
    model = PrivateRidge(data_norm=3.0, target_bound=1.0, random_state=0)
    fitted = make_pipeline(step, model).fit(X, LABELS)
    said = [text for text in fitted[-1].privacy_.assumptions if name in text]
    assert len(said) == 1
    assert "which the claim does not cover" in said[0]
    alone = PrivateRidge(data_norm=3.0, target_bound=1.0, random_state=0).fit(X, LABELS)
    assert alone.privacy_.assumptions == ("n=2000",)


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_a_search_without_a_ledger_is_warned_of(n_jobs, tmp_path):
    X = TABLE[["age"]].to_numpy(float) / 100
    model = PrivateRidge(data_norm=1.0, target_bound=1.0)
    grid = {"alpha": [1.0, 10.0]}
    with pytest.warns(UnpaidSearch, match="Use PrivateSearchCV"):
        found = GridSearchCV(model, grid, cv=2, n_jobs=n_jobs).fit(X, LABELS)
    assert "the choice among the fits" in found.best_estimator_.privacy_.assumptions[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_val_score(model, X, LABELS, cv=2)
        model.set_params(ledger=da.Ledger(tmp_path / "spent.db"))
        GridSearchCV(model, grid, cv=2).fit(X, LABELS)
    assert len(model.ledger.entries()) == 5


def test_what_measured_bounds_cost_is_said_by_the_estimator_behind_them():
    table = pd.DataFrame({"age": [20.0, 60.0] * 500, "fee": [3.0, 5.0] * 500})
    options = {"epsilon": 0.5, "delta": 1e-6, "random_state": 0}
    step = PrivatePreprocessor({"age": (0, 120), "fee": None}, **options)
    last = PrivateLogisticRegression(1.0, 1e-6, data_norm=step.row_norm, random_state=0)
    fitted = make_pipeline(step, last).fit(table, table.age > 40)
    said = [text for text in fitted[-1].privacy_.assumptions if "comes on top" in text]
    assert len(said) == 1
    assert fitted[0].privacy_.assumptions == ("n=1000",)
    free = PrivatePreprocessor({"age": (0, 120), "fee": (0, 10)})
    fitted = make_pipeline(free, last).fit(table, table.age > 40)
    assert not any("comes on top" in text for text in fitted[-1].privacy_.assumptions)
