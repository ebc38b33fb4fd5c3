"""Attempts to make one record count for more than is charged for it, or for a fit to say less."""

import numpy as np
import pytest
from scipy import sparse

from dpassay.learn.base import bounded_features, row_norms


def in_parts(k):
    """A row (k, 0), as k entries of 1 in the same place."""
    return sparse.csr_matrix((np.ones(k), np.zeros(k, int), np.array([0, k])), (1, 2))


@pytest.mark.parametrize("kind", ["l2", "inf"])
@pytest.mark.parametrize("declared", [(1.0, None), (None, (-1, 1))])
def test_an_entry_in_parts_is_clipped_as_a_whole(kind, declared):
    given = in_parts(100)
    features = bounded_features(given, *declared, kind)
    assert abs(features.values.toarray()).max() <= 1
    assert given.nnz == 100, "the caller's matrix stays as it is"


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("norm", [1.0, 0.7, 1e-3])
def test_rounding_keeps_clipped_rows_inside(form, norm):
    rng = np.random.default_rng(0)
    X = (10 ** rng.uniform(-4, 2, (20, 3000))).astype(np.float32)
    for kind, order in (("l2", 2), ("inf", np.inf)):
        values = bounded_features(form(X), norm, None, kind).values
        values = values.toarray() if sparse.issparse(values) else values
        assert values.dtype == np.float32
        sizes = np.linalg.norm(values.astype(float), ord=order, axis=1)
        assert sizes.max() <= norm
        assert sizes.min() > norm * (1 - 2e-6)
    np.testing.assert_allclose(row_norms(X), np.linalg.norm(X.astype(float), axis=1), rtol=1e-14)
