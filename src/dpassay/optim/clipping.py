"""Clipping in closed form, and what rounding adds to a sum of clipped gradients."""

import numpy as np

from dpassay.optim.losses import Rows
from dpassay.optim.products import BLOCK, most_rows, sum_error
from dpassay.types import FloatArray

_NEAREST = 1 / 16  # how near to the center a row may be taken to stand, as a share of both lengths


def lengths(rows: Rows, order: float = 2) -> FloatArray:
    """Upper bounds on the norms of the rows, none of a row that all but cancels with the center.

    A sum over centred rows is taken as a sum over rows and one over centers, each of which is
    rounded in proportion to itself; :func:`rounding` counts on their not being much longer.
    """
    if rows.center is None:
        return rows.norms(order)
    apart = Rows(rows.X, rows.constant).norms(order) + np.linalg.norm(rows.center, order)
    return np.maximum(rows.norms(order), _NEAREST * apart)


def clip_factors(
    residuals: FloatArray, row_norms: FloatArray, clip: float, order: float = 2
) -> FloatArray:
    """The factor per record that brings its gradient to norm ``clip`` at most, in closed form.

    The gradient is an outer product, so its entrywise norm of order 1, 2 or inf is the product of
    the residual's and the row's. In double precision: in single, factors of long gradients vanish.
    A record so long that its factor, or its residual after clipping, comes near the smallest number
    there is gets 0: such numbers are rounded by up to their own size.

    >>> clip_factors(np.array([[3.0, 4.0]]), np.array([2.0]), clip=5.0)
    array([0.5])

    """
    with np.errstate(over="ignore"):
        sizes = _residual_norms(residuals, order)
        sizes *= row_norms
        too_long = row_norms > clip / (64 * float(np.finfo(residuals.dtype).tiny))
        too_long |= sizes > clip * 2.0**1000
    return np.where(too_long, 0.0, clip / np.maximum(sizes, clip))


def _residual_norms(residuals: FloatArray, order: float) -> FloatArray:
    if residuals.shape[1] == 1:
        return np.abs(residuals[:, 0], dtype=np.float64)
    sizes = np.linalg.norm(residuals.astype(np.float64, copy=False), ord=order, axis=1)
    sizes += 2.0**-500  # the most that is lost where squares vanish
    return sizes


def rounding(single: bool, n_records: float = 0) -> float:
    """An upper bound on what rounding adds to the change of a sum by one record, over ``clip``.

    Gradients are clipped to C = clip/(1 + rounding), so that ``clip`` bounds the change of the sum
    *as computed*, and noise and event need no word about it. The bound is public: it depends on no
    record, and not on their number n but for the public one (``n_records``): it is for up to 2²²
    of them, or twice the public number.

    What a record adds before summation, its clipped residual times its row, is a function of the
    record and the weights, bit for bit (:func:`dpassay.optim.products.row_products`, and operations
    on single entries). Exact sums of neighbours therefore differ by C. The errors of computed ones:

    *Double precision*: :func:`dpassay.optim.products.sum_error`, 4.8e-6 for n = 2²². Rows with
    a center are multiplied and the center's share is subtracted: row and center are at most 16
    times as long as their difference is taken to be, which makes it 16 times as much and a little.
    It is taken 20 times; the rest of at least 1e-5 is for what follows.

    *Blocks in single precision*, u = 2^-24, m = 64 rows each (batches of dense rows without a
    center). A Poisson batch is in uniformly random order. Let S be one in order π, and z the record
    that its neighbour has in addition. Draw a place j of the |S| + 1 at random, put z there, and
    whoever stood there to the end: every order of S and z arises from exactly one π and j, so the
    neighbour's is uniformly random as well. Given π and j, all blocks but two, that of j and the
    last, hold the same numbers in the same places, so that their products are the same bits. Those
    two are off by m C γ_m each in either sum, by 4 m γ_m C = 2^-10 C together. Outputs with and
    without z are mixtures over (S, π, j) with the same weights, z being sampled within each part,
    and mixtures are not easier to tell apart than their parts (hockey-stick divergences are jointly
    convex). So C (1 + 2^-10), and the sum of blocks in double precision, is the sensitivity. Under
    replace-one the places are the same and one block differs. Full batches in a random order that
    is drawn once are the same: given π and j, all but two blocks agree in every step, so that the
    steps together are a mixture of compositions of that sensitivity. What vanishes below 2^-126 is
    less than 1e-5 of a clip of 2^-60, the least that single precision is used for.

    *Clipping itself*: norms are upper bounds, and factors and sizes are off by a few 2^-53; a
    residual that is stored in single precision by 2^-24, never being among the smallest numbers.

    >>> [round(rounding(single), 6) for single in (False, True)], round(rounding(False, 10**8), 3)
    ([9.6e-05, 0.001072], 0.047)

    """
    blocks = 4 * BLOCK * BLOCK * 2.0**-24 * (1 + 1e-5) if single else 0.0
    return 20 * sum_error(most_rows(n_records)) + blocks
