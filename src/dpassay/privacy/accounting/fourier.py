"""The Fourier accountant: many Gaussian releases on random samples, as cheap as a hundred of them.

It is for losses with a density; lattices, as pure events have them, stay with the PLD.
"""

from dpassay.errors import UnsupportedEvent
from dpassay.privacy import events
from dpassay.privacy.accounting.leaves import Leaves, check_amplified
from dpassay.privacy.curves import Curve
from dpassay.privacy.fourier import price_gaussians

_LEAST_STEPS = 100  # below, a PLD is as fast and tighter
_LEAST_NOISE = 0.02  # with less noise most losses are so large that they count as infinite
_LEAST_LOSS = 1e-100  # of a usual step, its rate over its noise: squares of less may underflow


def price(leaves: Leaves) -> Curve:
    """An upper bound within about 1e-4 of epsilon, for at least a hundred sampled Gaussian steps.

    Plain Gaussian releases may be among the steps; they add exactly.
    """
    gaussian = 0.0
    steps: list[tuple[float, float, int]] = []
    for leaf, count in leaves.items():
        inner, rate = _gaussian(leaf)
        if rate < 1 and not rate / inner.noise_multiplier >= _LEAST_LOSS:
            raise UnsupportedEvent(
                f"method='fourier' has no price for {leaf!r}: its losses are too small, about "
                f"{rate / inner.noise_multiplier:g}. See method='best'."
            )
        if rate < 1:
            steps.append((inner.noise_multiplier, rate, count))
        else:
            gaussian += count / inner.noise_multiplier / inner.noise_multiplier
    if sum(count for _, _, count in steps) < _LEAST_STEPS:
        raise UnsupportedEvent(
            f"method='fourier' takes {_LEAST_STEPS} sampled Gaussian steps or more; for fewer, "
            "method='pld' is as fast and tighter."
        )
    replace = any(leaf.neighbouring == "replace-one" for leaf in leaves)
    return price_gaussians(steps, gaussian, replace=replace)


def _gaussian(leaf: events.Event) -> tuple[events.Gaussian, float]:
    """The Gaussian release that the leaf is, and its sampling rate."""
    rate, inner = 1.0, leaf
    if isinstance(leaf, events.Sampled):
        check_amplified(leaf)
        rate, inner = leaf.sampling_rate, leaf.event
    if not isinstance(inner, events.Gaussian) or not inner.noise_multiplier >= _LEAST_NOISE:
        raise UnsupportedEvent(
            f"method='fourier' has no price for {leaf!r}. It takes Gaussian noise of "
            f"{_LEAST_NOISE} or more, sampled or not; for the rest see method='best'."
        )
    return inner, rate
