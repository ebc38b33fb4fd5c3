"""Lower bounds on the epsilon of a whole training from what single steps showed (few trainings).

One training of T steps says little about itself: a run is one trial. But T steps are T trials of
*a step*. Nasr et al. (2023) put a canary into steps, look at the noisy sum along it, bound the mu
of the step, and compose what the attack cannot afford to see: T steps, each on a Poisson batch
(here from below, :mod:`dpassay.bounds.composed`: an accountant errs upwards). Ten trainings, or
one, then say as much as thousands, and rest on more: that the steps are alike, and that batches are
Poisson as stated.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.bounds.composed import epsilon_lower
from dpassay.bounds.counts import epsilon_of_mu
from dpassay.bounds.location import lower_bound_gaussian_location, positive_delta
from dpassay.bounds.pooled import lower_bound_pooled
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.types import FloatArray, LowerBound

_SMALLEST_MU = 1e-4  # of a step; below it no number of steps that can be run shows anything


def lower_bound_from_steps(
    seen_in: ArrayLike,
    seen_out: ArrayLike,
    *,
    sampling_rate: float,
    steps: int,
    delta: float,
    confidence: float = 0.95,
    estimator: Literal["threshold", "location"] = "threshold",
    threshold: str | float = "split",
    sigma: float | None = None,
) -> LowerBound:
    """A lower bound on epsilon(delta) of DP-SGD from observations of single steps.

    The canary is put into some steps *for certain*, not by the sampling; what is seen of a step is
    its noisy sum of clipped gradients along the canary. Then mu of a step, (clipping norm) /
    (deviation), is bounded from below, and epsilon is that of ``dp_sgd_event(1 / mu,
    sampling_rate, steps)``, which grows with mu. The result states what is taken on trust: that
    every step has this trade-off, and that a training is Poisson samples of such steps, composed.

    Args:
        seen_in: one number for each step that had the canary, of any number of trainings and of
            any shape; higher says "with".
        seen_out: one for each step that did not have it.
        sampling_rate: the probability with which training puts a record into a step; in (0, 1].
        steps: the number of steps of a training.
        delta: where on the privacy curve the bound is stated; in (0, 1).
        confidence: the probability that the bound holds; in [0.75, 1), for "location" in [0.5, 1).
        estimator: "threshold" counts errors and assumes a Gaussian trade-off
            (:func:`lower_bound_pooled`); "location" uses the whole observations and assumes that
            they are Gaussian (:func:`lower_bound_gaussian_location`).
        threshold: for "threshold", "split" or a number fixed in advance, such as half the clipping
            norm.
        sigma: for "location", the deviation of what is seen, known from the mechanism (noise
            multiplier times clipping norm), in the units of what is seen; None estimates it.

    Returns:
        The bound; ``mu_lower`` of a step is in its ``details``. Steps are composed from below
        (``dpassay.bounds.composed``), since an accountant errs upwards.

    Raises:
        InvalidArgument: for NaN, an empty side, or a value out of range.

    >>> import numpy as np
    >>> from scipy import special
    >>> noise = special.ndtri(np.linspace(0.0001, 0.9999, 9999))
    >>> bound = lower_bound_from_steps(
    ...     noise + 1,
    ...     noise,
    ...     sampling_rate=250 / 60_000,
    ...     steps=2400,
    ...     delta=1e-5,
    ...     threshold=0.5,
    ... )
    >>> bound.epsilon, bound.details["mu_lower"]  # 1.0845 and 1 are the truth
    (1.0195, 0.969)

    """
    _check.choice("estimator", estimator, tuple(_ESTIMATORS))
    sampling_rate = _check.sampling_rate(sampling_rate)
    steps = _check.count("steps", steps, remedy="It is the number of updates of a training.")
    positive_delta(delta)
    seen = [
        _check.array(name, values, finite=False, empty=False).ravel()
        for name, values in (("seen_in", seen_in), ("seen_out", seen_out))
    ]
    options: dict[str, Any] = {"threshold": threshold, "sigma": sigma}
    step = _ESTIMATORS[estimator](*seen, options, delta=delta, confidence=confidence)
    assert step.mu_lower is not None  # both estimators assume a Gaussian trade-off
    # What was shown may exceed the ceiling's mu by rounding alone.
    most = max(mu_of_epsilon(step.ceiling, delta), step.mu_lower)
    return replace(
        step,
        epsilon=epsilon_of_steps(step.mu_lower, sampling_rate, steps, delta),
        method=f"steps by {step.method}",
        assumption=f"{step.assumption} in every step; a training is {steps} such steps, each on "
        f"a Poisson batch of rate {sampling_rate:.6g}, composed from below",
        ceiling=epsilon_of_steps(most, sampling_rate, steps, delta),
        details=(step.details or {}) | {"sampling_rate": sampling_rate, "steps": float(steps)},
        mu_lower=None,  # that of a step is not that of the training
    )


def _by_threshold(x: FloatArray, y: FloatArray, options: Any, **stated: Any) -> LowerBound:
    if options["sigma"] is not None:
        raise InvalidArgument(
            f"sigma={options['sigma']!r} must be None for estimator='threshold', which does not "
            "use it. Pass estimator='location'."
        )
    return lower_bound_pooled(x, y, threshold=options["threshold"], **stated)


def _by_location(x: FloatArray, y: FloatArray, options: Any, **stated: Any) -> LowerBound:
    return lower_bound_gaussian_location(x, y, sigma=options["sigma"], **stated)


_ESTIMATORS: dict[str, Callable[..., LowerBound]] = {
    "threshold": _by_threshold,
    "location": _by_location,
}


def mu_of_epsilon(epsilon: float, delta: float) -> float:
    """The mu of a step whose epsilon is known; infinite where that is."""
    return float(gaussian.mu_of(epsilon, delta)) if epsilon < math.inf else math.inf


def epsilon_of_steps(mu: float, sampling_rate: float, steps: int, delta: float) -> float:
    """A lower bound on epsilon(delta) of DP-SGD whose steps are mu-GDP before sampling."""
    if mu == math.inf:
        return math.inf
    if sampling_rate == 1:
        return epsilon_of_mu(mu * math.sqrt(steps), delta)
    if mu < _SMALLEST_MU:
        return 0.0
    return epsilon_lower(mu, sampling_rate, steps, delta)
