"""The price of replacing a record, from the price of adding or removing one.

Replacing is removing and then adding: a group of two changes. It costs more than either, and the
other way there is no bound at all: a mechanism may treat every data set of n records alike and tell
n from n + 1.
"""

from dataclasses import replace

import numpy as np

from dpassay._special.margins import LEAST, up
from dpassay.errors import InvalidArgument
from dpassay.privacy.combined import Numeric
from dpassay.privacy.curves import GDP, ZCDP, ApproxDP, Curve, PureDP
from dpassay.types import FloatArray, PrivacyCurve

_SPLITS = np.linspace(0.0, 1.0, 129)
_FIXED = np.geomspace(1e-3, 64.0, 96)


def replace_one_from_add_remove(curve: PrivacyCurve) -> Curve:
    """An upper bound under replace-one from a curve under add-remove.

    For any u in [0, x], P(S) <= e^u M(S) + delta(u) and M(S) <= e^(x-u) Q(S) + delta(x - u), where
    M is the law without the record; so delta(x) is at most delta(u) + e^u delta(x - u). The least
    over some u is taken. In closed form: 2 epsilon for pure DP, 2 mu for GDP, 4 rho for zCDP
    (Bun and Steinke 2016, proposition 27).

    Raises:
        InvalidArgument: the curve is not about add-remove; or it is an estimate.

    >>> from dpassay.privacy import Gaussian, account
    >>> replace_one_from_add_remove(account(Gaussian(8.449358))).epsilon(1e-6)
    1.0

    """
    if curve.neighbouring != "add-remove":
        raise InvalidArgument(
            f"curve.neighbouring={curve.neighbouring!r} must be 'add-remove'. A replace-one curve "
            "says nothing of data sets of different sizes."
        )
    if curve.kind == "estimate":
        raise InvalidArgument(f"curve={curve!r} is an estimate; a group price must be a bound.")
    grouped = _group(curve)
    return replace(
        grouped, neighbouring="replace-one", method=curve.method, assumptions=curve.assumptions
    )


def _group(curve: PrivacyCurve) -> Curve:
    if isinstance(curve, GDP):
        return GDP(2 * curve.mu, kind="upper bound")
    if isinstance(curve, PureDP):
        return PureDP(2 * curve.epsilon_upper, kind="upper bound")
    if isinstance(curve, ZCDP):
        return ZCDP(up(4 * curve.rho))

    # Shares of x are too coarse where x is large: there a fixed u does, which makes delta(u) small.
    fixed = np.append(_FIXED, curve.epsilon_upper) if isinstance(curve, ApproxDP) else _FIXED

    def delta_at(epsilon: FloatArray) -> FloatArray:
        x = epsilon[:, None]
        shares = np.where(np.isfinite(x), x, 0.0) * _SPLITS
        first = np.concatenate([shares, np.minimum(fixed, x)], axis=1)
        second = _rest_down(x, first)
        with np.errstate(over="ignore", invalid="ignore"):
            rest = np.asarray(curve.delta(second.ravel())).reshape(first.shape)
            rest = np.where(rest > 0, np.exp(first) * rest, 0.0)
        total = np.asarray(curve.delta(first.ravel())).reshape(first.shape) + rest
        least = np.minimum(np.maximum(up(total), LEAST * (total > 0)).min(axis=1), 1.0)
        # Where nothing is left at infinity, u may go there as well.
        nothing = np.isinf(epsilon) & (np.asarray(curve.delta(epsilon)) == 0)
        return np.where(nothing, 0.0, least)

    return Numeric(f"group of two of {curve!r}", delta_at=delta_at)


def _rest_down(x: FloatArray, first: FloatArray) -> FloatArray:
    """The difference x - first >= 0, rounded down: both parts together must not exceed x."""
    rest = x - first
    with np.errstate(invalid="ignore"):
        back = rest - x
        error = (x - (rest - back)) - (first + back)  # of the difference, exactly (Knuth 1969)
    return np.maximum(np.where(error < 0, np.nextafter(rest, 0.0), rest), 0.0)
