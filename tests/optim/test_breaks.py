"""Attempts to make one record count for more than is charged for it."""

import numpy as np
import pytest
from scipy import sparse

from dpassay.optim.conditioning import column_sizes
from dpassay.optim.losses import Rows


class Silent:
    """A generator of no noise."""

    def standard_normal(self, shape=None):
        return np.zeros(shape)


# Single precision. Between 2^10 and 2^11 a float32 is a multiple of 2^-13, below 2^10 of 2^-14: a
# record that decides on which side a sum is decides how everything after it is rounded.


def crossing(step, n_after):
    """Ones that add up to 2^10 + 1, the first of which may be taken out, then many small steps."""
    return np.r_[np.ones(1025), np.full(n_after, step)].astype(np.float32)


def moved_by_the_first(total, n):
    return abs(total(slice(0, n)) - total(slice(1, n)))


def test_one_record_moves_a_column_by_itself_in_single_precision():
    column = crossing(1.02 * 2.0**-14, 16384)[1:]
    X = np.column_stack([column, 0 * column])

    def total(part):
        center, _, _ = column_sizes(X[part], 1.0, 1, 0.0, Silent())  # type: ignore[arg-type]
        return center[0]

    assert moved_by_the_first(lambda part: X[part].sum(axis=0)[0], len(X)) == 2
    assert moved_by_the_first(total, len(X)) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_one_record_moves_a_gradient_by_itself_in_single_precision(form):
    column = crossing(-0.8 * 2.0**-14, 200_000)
    residuals = np.column_stack([column, 0 * column])
    X = np.zeros((len(column), 2), np.float32)
    X[:, 0] = 1

    assert moved_by_the_first(lambda part: residuals[part].sum(axis=0)[0], len(X)) > 10
    for weight in (0, 1):  # the intercept's and the first feature's
        rows = Rows(form(X))
        moved = moved_by_the_first(
            lambda part, rows=rows, weight=weight: rows.take(part).adjoint(residuals[part])[
                weight, 0
            ],
            len(X),
        )
        assert moved == pytest.approx(1, abs=1e-9)


# Sparse matrices may hold an entry in several parts.


def in_parts(k):
    """A row (k, 0), as k entries of 1 in the same place."""
    return sparse.csr_matrix((np.ones(k), np.zeros(k, int), np.array([0, k])), (1, 2))


@pytest.mark.parametrize("order", [1, 2, np.inf])
def test_a_row_in_parts_measures_what_the_row_does(order):
    given = in_parts(9)
    assert Rows(given, 0.0).norms(order) == 9
    assert given.nnz == 9, "the caller's matrix stays as it is"
