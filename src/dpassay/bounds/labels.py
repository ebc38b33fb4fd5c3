"""The epsilon that a refuted curve stands for: a lower bound has to be labelled from below."""

import numpy as np

from dpassay._special.margins import ARITHMETIC, round_down
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.privacy.curves import GDP
from dpassay.types import PrivacyCurve


def epsilon_label(curve: PrivacyCurve, delta: float) -> float:
    """The epsilon(delta) of an exact curve, rounded down.

    A curve that is only an upper bound, as an accountant's, has an epsilon(delta) above the truth:
    refuting it refutes what it bounds, but its own epsilon would be no lower bound.

    Raises:
        InvalidArgument: the curve is not exact.

    """
    if curve.kind != "exact":
        raise InvalidArgument(
            f"{curve!r} is of kind {curve.kind!r}: its epsilon is no lower bound. Give exact "
            "curves, such as GDP, or state a lower epsilon for each member (epsilons=); for DP-SGD "
            "see dpassay.adversaries.lower_bound_in_noise."
        )
    if isinstance(curve, GDP):
        return float(gaussian.epsilon_lower(np.float64(delta), np.float64(curve.mu)))
    epsilon, most = float(curve.epsilon(delta)), float(curve.epsilon(0.0))
    stated = getattr(curve, "epsilon_upper", None)
    if epsilon == stated or not np.isfinite(epsilon):
        return epsilon  # a stated number, which no arithmetic has touched
    # Far below the stated epsilon it is a difference, rounded in units of the larger number. The
    # margin is more than that by which exact curves round their epsilon up.
    size = max(epsilon, stated or 0.0, most if np.isfinite(most) else 0.0)
    return max(round_down(epsilon, ARITHMETIC, size=size), 0.0)
