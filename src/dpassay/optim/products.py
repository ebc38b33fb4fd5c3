"""Matrix products of which it is known what rounding does to them.

Two things that a plain product does not give, and that sensitivities rest on: scores that are a
function of their own record (:func:`row_products`), and sums over records with an error that is
known whatever their number (:func:`sum_of_pieces` of :func:`product_in_double` or
:func:`product_by_blocks`; the bounds are in :func:`dpassay.optim.clipping.rounding`).
"""

from collections.abc import Callable
from functools import lru_cache, reduce
from operator import iadd
from typing import Any

import numpy as np

from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

BLOCK = 64
"""Records per product: few enough for the kernels that do without packing, in twice the speed."""
PIECE = 4096
"""Records per sum in double precision, before it is added to those of the others."""
MANY, FEW = 2**22, 4096
"""Records that are allowed for whatever number of them is public: the second where it is dear."""
_COLUMNS = 32  # of wider products, OpenBLAS gives the last of 64 rows other bits than the first
_ENTRIES = 2**15  # of a block in double precision: it stays in the cache


def is_sparse(X: Any) -> bool:
    """Whether it is a matrix by rows of entries (CSR)."""
    return hasattr(X, "indptr")


def sum_of_pieces(term: Callable[[slice], FloatArray], n_records: int) -> FloatArray:
    """The sum of ``term`` over slices of the records, 4096 of them at a time.

    The first term, which must be in double precision, is added to in place. Of no records it is
    that of an empty slice.
    """
    parts = (slice(first, first + PIECE) for first in range(0, max(n_records, 1), PIECE))
    return reduce(iadd, map(term, parts))


def most_rows(n_records: float, least: int = MANY) -> float:
    """How many rows rounding is charged for, where this is the public number of records."""
    return max(least, 2 * n_records)


def refuse_more_rows(n_rows: int, n_records: float, least: int = MANY) -> None:
    """Raise where there are more rows than rounding is charged for."""
    if n_rows > most_rows(n_records, least):
        raise InvalidArgument(
            f"n_records={n_records:g} is less than half of the {n_rows} rows that there are; what "
            "rounding adds to a sum is charged for up to twice the public number of records. "
            "Declare a larger one."
        )


def sum_error(n_rows: float) -> float:
    """An upper bound on what rounding adds to the change of a sum by one row, over its largest.

    In double precision, u = 2^-53: a sum of k products has an error of at most γ_k Σ |r||x|,
    γ_k = ku/(1 - ku), entry by entry, in whatever order it is taken, fused or not (Higham 2002,
    section 3.1); in norm that is γ_k times the number of terms times the largest. A sum of n comes
    in pieces of 4096, whose sums are added up: k = 4096 + n/4096 and a few more. Twice, for either
    neighbour: 2 n γ_k.

    >>> f"{sum_error(2**22):.1e} {sum_error(1e8):.1e}"
    '4.8e-06 6.3e-04'

    """
    return 2 * n_rows * (PIECE + n_rows / PIECE + 16) * 2.0**-53 * (1 + 1e-6)


def some_rows(X: Any, part: slice) -> Any:
    """The rows of a slice; of a CSR matrix without a copy, in a fifth of the time of indexing."""
    if not is_sparse(X):
        return X[part]
    first, last, _ = part.indices(X.shape[0])
    start, stop = X.indptr[first], X.indptr[last]
    entries = X.data[start:stop], X.indices[start:stop], X.indptr[first : last + 1] - start
    return type(X)(entries, (last - first, X.shape[1]))


def row_products(X: Any, W: FloatArray) -> FloatArray:
    """X W, every row of which is a function of that row of X and of W, bit for bit.

    A matrix product is not: how a library adds up a row may depend on where the row stands and on
    how many there are. Where terms cancel, the last bits of a score decide about a whole gradient,
    so that taking out one record would change the gradients of others. Here every product is of 64
    rows and a few columns, short ones filled up, and for its shape it is tried out once whether all
    places give the same bits. Where they do not, rows are multiplied one by one. It is taken for
    granted that what a library does to a row depends on shapes, not on values, and that the number
    of threads stays what it was when it was tried out.
    """
    if is_sparse(X):
        return X @ W  # row by row
    if W.shape[1] > _COLUMNS:
        parts = range(0, W.shape[1], _COLUMNS)
        return np.hstack([row_products(X, W[:, first : first + _COLUMNS]) for first in parts])
    if W.shape[1] == 1 and _places_are_alike(X.dtype.str, W.dtype.str, (W.shape[0], 2)):
        # A second column makes it a matrix product, in half the time of products row by row.
        return np.ascontiguousarray(_products_of_blocks(X, np.pad(W, ((0, 0), (0, 1))))[:, :1])
    if W.shape[1] == 1 or not _places_are_alike(X.dtype.str, W.dtype.str, W.shape):
        return np.vecdot(X[:, None, :], np.ascontiguousarray(W.T))
    return _products_of_blocks(X, W)


def _products_of_blocks(X: FloatArray, W: FloatArray) -> FloatArray:
    W = np.asfortranarray(W)  # one layout for all, the faster one
    n, whole = len(X), len(X) // BLOCK * BLOCK
    products = np.empty((n, W.shape[1]), np.result_type(X, W))
    blocks = X[:whole].reshape(-1, BLOCK, X.shape[1])
    np.matmul(blocks, W, out=products[:whole].reshape(-1, BLOCK, W.shape[1]))
    if whole < n:
        last = X[-BLOCK:] if whole else np.pad(X, ((0, BLOCK - n), (0, 0)))
        rest = slice(whole - n, None) if whole else slice(n)
        products[whole:] = (last @ W)[rest]
    return products


@lru_cache(maxsize=256)
def _places_are_alike(rows: str, weights: str, shape: tuple[int, int]) -> bool:
    """Whether equal rows have equal products in all places of a block, for some random ones."""
    rng = np.random.default_rng(0)
    W = np.asfortranarray(rng.standard_normal(shape).astype(weights))
    for row in rng.standard_normal((4, shape[0])).astype(rows):
        products = np.tile(row, (BLOCK, 1)) @ W
        if (products != products[0]).any():
            return False
    return True


def product_in_double(X: Any, residuals: FloatArray) -> FloatArray:
    """X'residuals in double precision, without a copy of all of a dense X."""
    residuals = residuals.astype(np.float64, copy=False)
    if is_sparse(X) or X.dtype == np.float64:
        return X.T @ residuals if is_sparse(X) else (residuals.T @ X).T
    product, block = np.zeros((residuals.shape[1], X.shape[1])), _ENTRIES // max(X.shape[1], 1) + 1
    for first in range(0, X.shape[0], block):
        part = slice(first, first + block)
        # Thin on the left is what matrix products are fastest for: half the time of X'residuals.
        product += residuals[part].T @ X[part].astype(np.float64)
    return product.T


def product_by_blocks(X: FloatArray, residuals: FloatArray) -> FloatArray:
    """X'residuals, a block of rows at a time in their own precision, added up in double."""
    whole = len(X) // BLOCK * BLOCK
    blocks = X[:whole].reshape(-1, BLOCK, X.shape[1])
    thin = residuals[:whole].reshape(-1, BLOCK, residuals.shape[1]).swapaxes(1, 2)
    product = (thin @ blocks).sum(axis=0, dtype=np.float64)
    if whole < len(X):
        product += residuals[whole:].T @ X[whole:]
    return product.T
