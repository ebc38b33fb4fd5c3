"""Losses of linear models: gradients, constants, rows that are never densified."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dpassay.errors import InvalidArgument
from dpassay.optim.losses import (
    Huber,
    Logistic,
    Multinomial,
    Rows,
    Squared,
    lipschitz,
    mean_gradient,
    mean_loss,
    smoothness,
)

LOSSES = [Squared(), Huber(0.7), Logistic(), Multinomial(4)]


def problem(loss, rng, n=7, p=3):
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    targets = {
        Squared: rng.normal(size=n),
        Huber: rng.normal(size=n),
        Logistic: rng.integers(0, 2, n).astype(float),
        Multinomial: rng.integers(0, loss.n_scores, n),
    }[type(loss)]
    return X, targets, rng.normal(size=(p + 1, loss.n_scores))


def by_name(loss):
    return type(loss).__name__


@pytest.mark.parametrize("center", [None, "some"])
@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_gradient_against_finite_differences(loss, center):
    rng = np.random.default_rng(0)
    X, targets, W = problem(loss, rng)
    rows = Rows(X, 0.5, None if center is None else rng.normal(size=3))
    gradient = mean_gradient(loss, rows, targets, W, n_records=7)
    for index in np.ndindex(*W.shape):
        step = np.zeros_like(W)
        step[index] = 1e-6
        up, down = (mean_loss(loss, rows, targets, W + s, n_records=7) for s in (step, -step))
        assert gradient[index] == pytest.approx((up - down) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("center", [None, "some"])
@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_sparse_rows_equal_dense_ones(loss, center):
    rng = np.random.default_rng(1)
    X, targets, W = problem(loss, rng)
    center = None if center is None else rng.normal(size=3)
    dense, thin = Rows(X, 1.0, center), Rows(sparse.csr_matrix(X), 1.0, center)
    gradients = [mean_gradient(loss, rows, targets, W, n_records=7) for rows in (dense, thin)]
    np.testing.assert_allclose(*gradients, atol=1e-14)
    for order in (1, 2):
        np.testing.assert_allclose(dense.norms(order), thin.norms(order), rtol=1e-12)
    some = np.array([4, 0])
    np.testing.assert_allclose(dense.take(some).scores(W), thin.take(some).scores(W), atol=1e-14)


@pytest.mark.parametrize("order", [1, 2, math.inf])
def test_norms_are_those_of_the_extended_rows(order):
    rng = np.random.default_rng(2)
    X, center = rng.normal(size=(5, 3)), rng.normal(size=3)
    extended = np.column_stack([np.full(5, -0.5), X - center])
    expected = np.linalg.norm(extended, ord=order, axis=1)
    np.testing.assert_allclose(Rows(X, -0.5, center).norms(order), expected, rtol=1e-12)


def test_norms_never_fall_below_the_truth_in_single_precision():
    rng = np.random.default_rng(3)
    center = rng.normal(size=400)
    X = (center + 1e-3 * rng.normal(size=(50, 400))).astype(np.float32)
    truth = np.linalg.norm(X.astype(float) - center, axis=1)
    assert (Rows(X, 0.0, center).norms() >= truth).all()


@pytest.mark.parametrize("loss", [Huber(0.7), Logistic(), Multinomial(4)], ids=by_name)
@pytest.mark.parametrize("order", [1, 2, math.inf])
def test_lipschitz_constant_is_a_bound_and_is_approached(loss, order):
    rng = np.random.default_rng(4)
    X, targets, _ = problem(loss, rng, n=400)
    rows = Rows(X)
    W = 50 * rng.normal(size=(4, loss.n_scores))  # far out, residuals reach their bound
    residuals = loss.residual(rows.scores(W), targets)
    gradients = [np.outer([1, *x], r).ravel() for x, r in zip(X, residuals, strict=True)]
    sizes = np.linalg.norm(gradients, ord=order, axis=1)
    bounds = [lipschitz(loss, norm, order) for norm in rows.norms(order)]
    ratio = sizes / bounds
    assert ratio.max() <= 1 + 1e-12
    assert ratio.max() > 0.99


@given(seed=st.integers(0, 10**6), far=st.floats(0.01, 3))
@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_smoothness_bounds_how_fast_gradients_change(loss, seed, far):
    rng = np.random.default_rng(seed)
    X, targets, W = problem(loss, rng, n=1)
    rows = Rows(X)
    V = W + far * rng.normal(size=W.shape)
    at = [mean_gradient(loss, rows, targets, point, n_records=1) for point in (V, W)]
    change = at[0] - at[1]
    most = smoothness(loss, rows.norms()[0]) * np.linalg.norm(V - W)
    assert np.linalg.norm(change) <= most * (1 + 1e-12)
    most = smoothness(loss, rows.norms(math.inf)[0], order=1) * np.abs(V - W).sum()
    assert np.abs(change).max() <= most * (1 + 1e-12)


@pytest.mark.golden
def test_constants_of_the_corrected_document():
    # By hand: L0 = Rinf for logistic and multinomial, (C1 Rinf + Y) Rinf for the
    # squared loss, with Rinf = max(1, ||x||_inf).
    radius, target, rinf = 3.0, 2.0, 1.5
    assert lipschitz(Logistic(), rinf, math.inf) == rinf
    assert lipschitz(Multinomial(5), rinf, math.inf) == rinf
    squared = Squared(radius * rinf + target)
    assert lipschitz(squared, rinf, math.inf) == (radius * rinf + target) * rinf


def test_means_are_over_the_number_that_is_stated():
    """Not over the rows at hand: without its first record a mean of 4 is still over 4."""
    rows, targets, W = Rows(np.ones((4, 1)), 0.0), np.zeros(4), np.full((2, 1), 2.0)
    part = rows.take(slice(1, None))
    assert mean_loss(Squared(), rows, targets, W, n_records=4) == 2
    assert mean_loss(Squared(), part, targets[1:], W, n_records=4) == 1.5
    assert mean_gradient(Squared(), part, targets[1:], W, n_records=4)[1, 0] == 1.5


def test_huber_is_squared_inside():
    scores, targets = np.array([[0.5], [3.0]]), np.zeros(2)
    np.testing.assert_allclose(Huber(1.0).value(scores, targets), [0.125, 2.5])
    np.testing.assert_allclose(Huber(1.0).residual(scores, targets)[:, 0], [0.5, 1.0])


def test_large_scores_stay_finite():
    scores = np.array([[1e4, -1e4]])
    assert np.isfinite(Multinomial(2).residual(scores, np.array([1]))).all()
    assert Logistic().value(np.array([[1e4]]), np.array([0.0]))[0] == 1e4


@pytest.mark.parametrize(
    "make",
    [
        lambda: Huber(math.nan),
        lambda: Huber(0),
        lambda: Squared(-1),
        lambda: Multinomial(1),
        lambda: lipschitz(Logistic(), math.nan),
        lambda: smoothness(Logistic(), 1.0, order=3),
        lambda: Rows(np.zeros((1, 1))).norms(3),
        lambda: mean_loss(
            Logistic(), Rows(np.zeros((1, 1))), np.zeros(1), np.zeros((2, 1)), n_records=0
        ),
        lambda: Rows(sparse.csr_matrix((1, 1)), 1.0, np.ones(1)).norms(math.inf),
    ],
)
def test_misuse_is_named(make):
    with pytest.raises(InvalidArgument, match=r"=|order"):
        make()
