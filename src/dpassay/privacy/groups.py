"""The price of replacing a record, from the price of adding or removing one.

Replacing is removing and then adding: a group of two changes. It costs more than either, and the
other way there is no bound at all: a mechanism may treat every data set of n records alike and tell
n from n + 1.
"""

from dataclasses import replace

import numpy as np

from dpassay.errors import InvalidArgument
from dpassay.privacy.curves import GDP, ZCDP, Curve, Numeric, PureDP
from dpassay.privacy.margins import TINY, up
from dpassay.types import FloatArray, PrivacyCurve

_SPLITS = np.linspace(0.0, 1.0, 129)


def replace_one_from_add_remove(curve: PrivacyCurve) -> Curve:
    """An upper bound under replace-one from a curve under add-remove.

    For any u in [0, x], P(S) <= e^u M(S) + delta(u) and M(S) <= e^(x-u) Q(S) + delta(x - u), where
    M is the law without the record; so delta(x) is at most delta(u) + e^u delta(x - u). The least
    over a grid of u is taken. In closed form: 2 epsilon for pure DP, 2 mu for GDP, 4 rho for zCDP
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
    grouped = _grouped(curve)
    return replace(
        grouped, neighbouring="replace-one", method=curve.method, assumptions=curve.assumptions
    )


def _grouped(curve: PrivacyCurve) -> Curve:
    if isinstance(curve, GDP):
        return GDP(2 * curve.mu, kind="upper bound")
    if isinstance(curve, PureDP):
        return PureDP(2 * curve.epsilon_upper, kind="upper bound")
    if isinstance(curve, ZCDP):
        return ZCDP(up(4 * curve.rho))

    def delta_at(epsilon: FloatArray) -> FloatArray:
        finite = np.isfinite(epsilon)
        x = np.where(finite, epsilon, 0.0)
        first = np.multiply.outer(x, _SPLITS)
        second = np.maximum(x[:, None] - first, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            rest = np.asarray(curve.delta(second.ravel())).reshape(first.shape)
            rest = np.where(rest > 0, np.exp(first) * rest, 0.0)
        total = np.asarray(curve.delta(first.ravel())).reshape(first.shape) + rest
        least = np.minimum(np.maximum(up(total), TINY * (total > 0)).min(axis=1), 1.0)
        # Nothing finite times delta(inf) bounds what is left there, unless it is 0.
        return np.where(finite, least, 1.0 * (np.asarray(curve.delta(epsilon)) > 0))

    return Numeric(f"group of two of {curve!r}", delta_at=delta_at)
