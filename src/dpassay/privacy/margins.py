"""The policy for rounding: every number that is given out as an upper bound carries its own margin.

"Best" takes the minimum of several upper bounds. The minimum is one as well only if each *float*
in it is one: a single value that was rounded below the truth is the one that wins. Hence

1. Formulas are written so that nothing cancels: sums of positive terms, ``expm1`` and ``log1p``
   instead of differences from 1, a subtraction only of numbers that are themselves exact.
2. What is left is bounded where it arises. One operation errs by a relative ``UNIT`` = 2^-53, a
   library function (exp, log, erfcx) by a few of them; ``CLOSED_FORM`` covers a formula of some
   thirty operations that does not cancel. Where an exponent is large, or a difference is taken, the
   margin is computed beside the formula, from the sizes of its terms.
3. The margin is added before the number leaves the function that computed it: ``value * (1 +
   relative) + absolute`` for deltas, epsilons, divergences and rhos; lower bounds subtract it.
   Nobody downstream adds a margin for what happened upstream.
4. A positive number never becomes 0 by underflow: it is at least ``TINY``. A true 0 stays 0.
5. An inverse (epsilon at a given delta) is right if putting it back into the *rounded-up* forward
   function gives at most the delta that was asked for. A delta that is the sum of stated ones is
   met to a relative ``REQUEST``, since three times 1e-7 and 3e-7 are different floats.
6. Monotone functions of an uncertain argument are evaluated at its unfavourable end.
"""

from typing import Any

import numpy as np

UNIT = 2.0**-53
CLOSED_FORM = 64 * UNIT
REQUEST = 8 * UNIT
TINY = float(np.finfo(float).tiny)


def up(value: Any, relative: Any = CLOSED_FORM) -> Any:
    """The value, raised by its relative margin; 0 and infinity stay."""
    return value * (1 + relative)


def down(value: Any, relative: Any = CLOSED_FORM) -> Any:
    """The value, lowered by its relative margin."""
    return value * (1 - relative)


def exp_up(log_value: Any, error: Any = 0.0) -> Any:
    """Upper bound on e to a number known up to ``error``; 0 only for minus infinity."""
    log_value = np.asarray(log_value, float)
    with np.errstate(under="ignore", over="ignore"):
        value = up(np.exp(log_value + error))
    return np.where(log_value == -np.inf, 0.0, np.maximum(value, TINY))


def exp_down(log_value: Any, error: Any = 0.0) -> Any:
    """Lower bound on e to a number known up to ``error``."""
    with np.errstate(under="ignore"):
        return down(np.exp(np.asarray(log_value, float) - error))


def met(delta: Any) -> Any:
    """The largest delta that a request for this one may be answered with."""
    return np.minimum(delta * (1 + REQUEST), 1.0)


def product_up(count: float, value: float) -> float:
    """The product with a number that is at least 0, rounded up; positive if both are."""
    if count == 1:
        return value
    return max(up(float(count) * value), TINY) if count > 0 and value > 0 else 0.0
