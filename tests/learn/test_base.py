"""The base of private estimators, through the smallest one there can be."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from dpassay.errors import InvalidArgument
from dpassay.learn import PrivateLasso, PrivateRidge
from dpassay.learn.base import PrivateMixin, generator_of, noise_level
from dpassay.learn.declared import bound_features, bound_targets, label_set, row_norms
from dpassay.mechanisms import gaussian
from dpassay.privacy import Gaussian, gaussian_noise_multiplier


class PrivateMean(PrivateMixin, RegressorMixin, BaseEstimator):
    """Predicts the noisy mean of the targets: as little as an estimator can do."""

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        data_norm=None,
        target_bound=None,
        neighbouring="add-remove",
        n_records=None,
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_bound = target_bound
        self.neighbouring = neighbouring
        self.n_records = n_records
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X, y):
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        budget = self._budget()
        bound_features(X, self.data_norm, None)
        targets = bound_targets(y, self.target_bound)
        n = self._public_records(X)
        if not budget.is_private:
            self._spend_nothing_private(budget, n)
            self.mean_ = targets.values.sum() / n + targets.centre
            return self
        event = Gaussian(
            gaussian_noise_multiplier(budget.epsilon, budget.delta), budget.neighbouring
        )
        with self._spending(event, n):
            release = gaussian(
                targets.values.sum(),
                sensitivity=budget.record_changes * targets.bound,
                mu=1 / event.noise_multiplier,
                rng=self._rng(),
            )
        self.noise_ = release.noise
        self.mean_ = release.value / n + targets.centre
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        return np.full(X.shape[0], self.mean_)


@parametrize_with_checks([PrivateMean(data_norm=10.0, target_bound=10.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


X = np.random.default_rng(0).normal(size=(50, 3))
y = X[:, 0] + 2


def fitted(**settings):
    return PrivateMean(**({"data_norm": 1.0, "target_bound": (0, 4)} | settings)).fit(X, y)


# What a fit says about itself.


def test_a_fit_states_its_privacy():
    model = fitted(epsilon=0.7, random_state=0)
    assert model.privacy_.epsilon(1e-5) == pytest.approx(0.7)
    assert model.privacy_.kind == "exact"
    assert model.privacy_.assumptions == ("n=50",)
    assert model.privacy_.neighbouring == "add-remove"
    assert fitted(neighbouring="replace-one").privacy_.neighbouring == "replace-one"
    assert fitted(n_records=40).privacy_.assumptions == ("n=40",)


def test_without_privacy():
    model = fitted(epsilon=math.inf)
    assert model.mean_ == pytest.approx(np.clip(y, 0, 4).mean())
    assert model.privacy_.epsilon(1e-5) == math.inf
    assert "no privacy" in model.privacy_.assumptions[1]


def test_noise_is_secure_unless_seeded():
    assert fitted().noise_ == "exact"
    assert fitted(random_state=3).noise_ == "reproducible"
    assert fitted().mean_ != fitted().mean_
    assert fitted(random_state=3).mean_ == fitted(random_state=3).mean_
    assert fitted(random_state=3).mean_ != fitted(random_state=4).mean_
    assert noise_level(None) == "cryptographic"


def test_random_states():
    legacy = np.random.RandomState(5)
    first, second = generator_of(legacy).normal(), generator_of(legacy).normal()
    assert first != second
    generator = np.random.default_rng(0)
    assert generator_of(generator) is generator
    for wrong in (-1, 1.5, "seed", True):
        with pytest.raises(InvalidArgument, match="random_state="):
            generator_of(wrong)


def test_an_unfitted_one_claims_nothing():
    assert not hasattr(PrivateMean(), "privacy_")


def test_frames_pickles_clones():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PrivateMean(data_norm=1.0, target_bound=4, random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    again = pickle.loads(pickle.dumps(model))
    assert again.mean_ == model.mean_
    assert again.event_ == model.event_
    assert not hasattr(clone(model), "event_")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"delta": math.nan}, "delta=nan"),
        ({"delta": 1.0}, "delta=1"),
        ({"neighbouring": "next-door"}, "neighbouring='next-door'"),
        ({"n_records": 0}, "n_records=0"),
        ({"data_norm": None}, "would leak the largest record"),
        ({"data_norm": math.nan}, "data_norm=nan"),
        ({"target_bound": None}, "would leak the largest target"),
        ({"target_bound": (1, 1)}, "span an interval"),
        ({"target_bound": (1, 2, 3)}, "span an interval"),
        ({"target_bound": 0.0}, "span an interval"),
        ({"target_bound": math.nan}, "target_bound"),
    ],
)
def test_misuse_names_the_argument(setting, message):
    with pytest.raises(InvalidArgument, match=message):
        fitted(**setting)


# Features.


def test_rows_beyond_the_norm_are_clipped_and_others_left():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e200, -1e200]])
    features = bound_features(rows, 1.0, None)
    np.testing.assert_allclose(features.values[:3], [[0.6, 0.8], [0.3, 0.4], [0, 0]])
    assert row_norms(features.values).max() <= 1 + 1e-15
    assert features.norm == 1.0


def test_the_infinity_norm_clips_entries():
    rows = np.array([[3.0, -0.5], [-2.0, 0.4]])
    features = bound_features(rows, 1.0, None, "inf")
    np.testing.assert_array_equal(features.values, [[1.0, -0.5], [-1.0, 0.4]])
    again = bound_features(sparse.csr_matrix(rows), 1.0, None, "inf")
    np.testing.assert_array_equal(again.values.toarray(), features.values)


def test_input_is_not_modified():
    for rows in (np.full((2, 2), 9.0), sparse.csr_matrix(np.full((2, 2), 9.0))):
        bound_features(rows, 1.0, None)
        bound_features(rows, 1.0, (-1, 1))
        assert rows.max() == 9.0


def test_bounds_centre_and_scale():
    rows = np.array([[0.0, 10.0], [5.0, 30.0], [20.0, 20.0]])
    features = bound_features(rows, None, ([0, 10], [10, 30]))
    np.testing.assert_array_equal(features.values, [[-1, -1], [0, 1], [1, 0]])
    assert features.norm == math.sqrt(2)
    assert bound_features(rows, None, (0, 10), "inf").norm == 1.0
    assert bound_features(rows, 0.5, (0, 10)).norm == 0.5
    assert bound_features(rows, 9.0, (0, 10)).norm == math.sqrt(2)


@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(["l2", "inf"]))
def test_every_row_ends_inside(seed, is_sparse, kind):
    rng = np.random.default_rng(seed)
    rows = rng.standard_cauchy((6, 4)) * 10 ** rng.uniform(-3, 3)
    norm = 10 ** rng.uniform(-2, 2)
    bounds = (-rng.uniform(0.1, 3, 4), rng.uniform(0.1, 3, 4)) if seed % 2 else None
    features = bound_features(sparse.csr_matrix(rows) if is_sparse else rows, norm, bounds, kind)
    values = features.values.toarray() if is_sparse else features.values
    assert features.norm <= norm
    order = 2 if kind == "l2" else np.inf
    assert np.linalg.norm(values, order, axis=1).max() <= features.norm * (1 + 1e-12)


def test_coefficients_return_to_the_units_of_the_data():
    rng = np.random.default_rng(1)
    rows = rng.uniform(0, 10, (5, 3))
    coef, intercept = rng.normal(size=(2, 3)), rng.normal(size=2)
    for data in (rows, sparse.csr_matrix(rows)):
        features = bound_features(data, None, (0, 10))
        own_coef, own_intercept = features.restore(coef, intercept)
        seen = rows @ own_coef.T + own_intercept
        np.testing.assert_allclose(seen, features.values @ coef.T + intercept)


def test_sparse_stays_sparse_and_uncentred():
    rows = sparse.random(20, 30, 0.1, "csr", rng=np.random.default_rng(0)) * 5
    features = bound_features(rows, 0.5, ([-1] * 30, 2))
    assert features.values.nnz == rows.nnz
    assert not features.centre.any()
    with pytest.raises(InvalidArgument, match="contain 0"):
        bound_features(rows, None, (1, 2))


@pytest.mark.parametrize(
    "bounds", [3, (0,), (0, 0), (1, 0), (math.nan, 1), (0, math.inf), ([0, 0], 1), (0, "a")]
)
def test_wrong_bounds(bounds):
    with pytest.raises(InvalidArgument, match="bounds"):
        bound_features(X, None, bounds)


# Targets and labels.


def test_targets_are_clipped_and_centred():
    targets = bound_targets(np.array([-1.0, 3.0, 9.0]), (2, 6))
    np.testing.assert_array_equal(targets.values, [-2, -1, 2])
    assert (targets.bound, targets.centre) == (2.0, 4.0)
    assert bound_targets(np.array([5.0]), 3).values == [3.0]


def test_declared_labels():
    labels, codes, assumptions = label_set(["b", "a", "b"], ["c", "a", "b"])
    assert list(labels) == ["a", "b", "c"]
    assert list(codes) == [1, 0, 1]
    assert assumptions == ()


def test_undeclared_labels_are_an_assumption():
    labels, codes, assumptions = label_set([3, 1], None)
    assert list(labels) == [1, 3]
    assert list(codes) == [1, 0]
    assert assumptions == ("the label set, 2 classes",)


def test_wrong_labels():
    with pytest.raises(InvalidArgument, match="lacks a label that a record has"):
        label_set(["a", "z"], ["a", "b"])
    with pytest.raises(InvalidArgument, match="one class"):
        label_set(["a", "a"], None)


@pytest.mark.parametrize("model", [PrivateRidge, PrivateLasso])
def test_targets_that_are_no_numbers_are_refused(model):
    with pytest.raises(InvalidArgument, match="y must hold numbers"):
        model(data_norm=1.0, target_bound=1.0).fit(np.eye(3), ["a", "b", "c"])


@pytest.mark.parametrize("loss", ["huber", "clipped squared"])
def test_a_residual_bound_that_is_none_is_named(loss):
    model = PrivateLasso(data_norm=1.0, target_bound=1.0, loss=loss, residual_bound=-1.0)
    with pytest.raises(InvalidArgument, match="residual_bound=-1 must lie in"):
        model.fit(np.eye(3), np.ones(3))


def test_a_ridge_without_delta_is_referred_to_the_lasso():
    with pytest.raises(InvalidArgument, match=r"delta=0 must lie in.*PrivateLasso"):
        PrivateRidge(1.0, 0.0, data_norm=1.0, target_bound=1.0).fit(np.eye(3), np.ones(3))
