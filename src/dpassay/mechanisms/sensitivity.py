"""How much one record can change a statistic: upper bounds that are attained.

"add-remove": one record more or less, the number of records a public constant where it divides.
"replace-one": one record is another one. ``norm`` says how the change of several entries is
measured: "l1" for Laplace noise, "l2" for Gaussian noise. The default is the larger one, "l1".

The bounds hold for exact arithmetic. A sum of n floats is off by its rounding, which another record
can shift (Casacuberta et al. 2022): sum integers, or use :func:`math.fsum`, where that matters.
"""

from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.mechanisms._rounding import at_least, root_at_least
from dpassay.types import Neighbouring

Norm = Literal["l1", "l2"]
NORMS: tuple[Norm, ...] = get_args(Norm)


def count_sensitivity(neighbouring: Neighbouring = "add-remove") -> float:
    """The sensitivity of the number of records with some property: 1 under either relation."""
    _check.neighbouring(neighbouring)
    return 1.0


def histogram_sensitivity(
    *,
    n_marginals: int = 1,
    norm: Norm = "l1",
    neighbouring: Neighbouring = "add-remove",
) -> float:
    """The sensitivity of the counts of all cells, each record in one cell of every marginal.

    A record more changes one cell of each of m marginals by one: m in l1, sqrt(m) in l2. A record
    replaced changes up to two cells of each: 2m and sqrt(2m).

    Args:
        n_marginals: how many histograms of the same records are released together.
        norm: "l1" or "l2".
        neighbouring: "add-remove" or "replace-one".

    >>> histogram_sensitivity(norm="l2", neighbouring="replace-one")
    1.4142135623730951

    """
    cells = _check.count("n_marginals", n_marginals)
    cells *= 2 if _check.neighbouring(neighbouring) == "replace-one" else 1
    return _norm_of([Fraction(1)], norm, copies=cells)


def sum_sensitivity(
    low: ArrayLike,
    high: ArrayLike,
    *,
    norm: Norm = "l1",
    neighbouring: Neighbouring = "add-remove",
) -> float:
    """The sensitivity of the sum of records whose every column is clipped to [low, high].

    A record more changes column j by at most max(|low_j|, |high_j|), a record replaced by at most
    high_j - low_j; the columns can do so all at once, so their changes add up in the norm.

    Args:
        low: the declared lower bound, or one per column.
        high: the declared upper bound, or one per column; not below low, and the bounds not all 0.
        norm: "l1" or "l2"; the same for a single column.
        neighbouring: "add-remove" or "replace-one".

    >>> sum_sensitivity(0, 120), sum_sensitivity(-1, 3, neighbouring="replace-one")
    (120.0, 4.0)

    """
    return _norm_of(_column_changes(low, high, neighbouring), norm)


def mean_sensitivity(
    low: ArrayLike,
    high: ArrayLike,
    *,
    n_records: int,
    norm: Norm = "l1",
    neighbouring: Neighbouring = "add-remove",
) -> float:
    """The sensitivity of the sum over a *public* number of records, clipped to [low, high].

    The divisor is a constant that does not change when a record comes or goes; dividing by the
    data's own number of records is another statistic, with another sensitivity. Other arguments are
    those of :func:`sum_sensitivity`.

    >>> mean_sensitivity(0, 1, n_records=1000)
    0.001

    """
    n = _check.count("n_records", n_records)
    changes = _column_changes(low, high, neighbouring)
    return _norm_of([change / n for change in changes], norm)


def clipped_sum_sensitivity(
    clip_norm: float,
    *,
    clipped_in: Norm = "l2",
    norm: Norm = "l2",
    n_entries: int | None = None,
    neighbouring: Neighbouring = "add-remove",
) -> float:
    """The sensitivity of a sum of vectors (per-example gradients), each clipped to ``clip_norm``.

    A vector more changes the sum by that vector, a vector replaced by the difference of two, which
    is largest when they are opposite: twice as much. A vector clipped in l2 has an l1 norm of up to
    sqrt(n_entries)·clip_norm; one clipped in l1 has an l2 norm of up to clip_norm.

    Args:
        clip_norm: the largest norm of one vector, positive.
        clipped_in: the norm that vectors are clipped in, "l2" or "l1".
        norm: the norm of the sensitivity, "l2" or "l1".
        n_entries: the length of a vector; needed for the l1 sensitivity of l2 clipping.
        neighbouring: "add-remove" or "replace-one".

    >>> clipped_sum_sensitivity(0.5, neighbouring="replace-one")
    1.0

    """
    clip_norm = _check.number(
        "clip_norm", clip_norm, low=0, low_open=True, remedy="It is the largest norm of one vector."
    )
    _check.choice("clipped_in", clipped_in, NORMS)
    _check.choice("norm", norm, NORMS)
    largest = Fraction(clip_norm) * (2 if _check.neighbouring(neighbouring) == "replace-one" else 1)
    if (clipped_in, norm) != ("l2", "l1"):
        return at_least(largest)
    if n_entries is None:
        raise InvalidArgument(
            "n_entries=None must be the length of a vector. Clipping in l2 does not bound the l1 "
            "norm by itself; pass n_entries, or clip in l1."
        )
    return root_at_least(largest**2 * _check.count("n_entries", n_entries))


def _column_changes(low: ArrayLike, high: ArrayLike, neighbouring: Neighbouring) -> list[Fraction]:
    bounds = _column_bounds(low, high)
    if _check.neighbouring(neighbouring) == "replace-one":
        return [b - a for a, b in bounds]
    return [max(abs(a), abs(b)) for a, b in bounds]


def _column_bounds(low: ArrayLike, high: ArrayLike) -> list[tuple[Fraction, Fraction]]:
    remedy = "Declare the bounds that the records are clipped to."
    lows = _check.array("low", low, remedy=remedy)
    highs = _check.array("high", high, remedy=remedy)
    shapes = {x.shape for x in (lows, highs) if x.ndim}
    if len(shapes) > 1 or any(len(shape) > 1 for shape in shapes):
        raise InvalidArgument(
            f"low and high have the shapes {lows.shape} and {highs.shape}; they must be numbers "
            "or hold one number per column."
        )
    pairs = [(Fraction(a), Fraction(b)) for a, b in np.broadcast(lows, highs)]
    for a, b in pairs:
        if a > b:
            raise InvalidArgument(f"low={float(a):g} must not be above high={float(b):g}. {remedy}")
    return pairs


def _norm_of(changes: list[Fraction], norm: str, copies: int = 1) -> float:
    """The norm of the changes, each occurring ``copies`` times; never rounded down."""
    _check.choice("norm", norm, NORMS)
    if not any(changes):
        raise InvalidArgument(
            "low and high allow no change at all, so the statistic is a public constant. Publish "
            "it without noise, or declare wider bounds."
        )
    if norm == "l1" or len(changes) * copies == 1:
        return at_least(copies * sum(changes, Fraction(0)))
    return root_at_least(copies * sum((change**2 for change in changes), Fraction(0)))
