"""How often a training touches the data: rate and steps, or batch size, records and epochs."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from dpassay.cli.options import option
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.privacy.events import Event

SamplingRate = Annotated[
    float | None,
    option("Probability that a record is in a batch, in (0, 1]; or --batch-size, --n."),
]
Steps = Annotated[int | None, option("Number of updates; or --epochs.")]
BatchSize = Annotated[int | None, option("Records in a batch on average; needs --n.")]
Records = Annotated[int | None, option("Number of training records.", "--n")]
Epochs = Annotated[float | None, option("Passes over the data, instead of --steps.")]

GroupSize = Annotated[
    int, option("Records of one user, who is added or removed as a whole; Poisson batches.")
]

_SMALLEST = 1e-15  # of a rate; below, epochs would be more steps than can be counted


def rate_and_steps(
    sampling_rate: float | None,
    steps: int | None,
    batch_size: int | None,
    n: int | None,
    epochs: float | None,
) -> tuple[float, int]:
    """The sampling rate and the number of steps, from what was given.

    Part of a step is counted as a whole one, and rates are rounded up, so that the price stays an
    upper bound.

    >>> rate_and_steps(None, None, 256, 60_000, 15)
    (0.004266666666666667, 3516)
    >>> rate_and_steps(0.01, None, None, None, 10)
    (0.01, 1000)

    """
    from dpassay import _check

    rate = _rate(sampling_rate, batch_size, n)
    if (steps is None) == (epochs is None):
        raise InvalidArgument(
            f"steps={steps} and epochs={epochs}: exactly one must be given. Pass --steps, the "
            "number of updates, or --epochs, the number of passes over the data."
        )
    if steps is not None:
        return _round_up(rate), steps
    _check.number("epochs", epochs, low=0, low_open=True)
    _check.number("sampling_rate", float(rate), low=_SMALLEST, remedy="Pass --steps instead.")
    return _round_up(rate), math.ceil(_as_written(epochs) / rate)


def dp_sgd_of(
    schedule: tuple[float, int], scheme: str, neighbouring: str, group_size: int = 1
) -> "Callable[[float], Event]":
    """The event of DP-SGD with this rate and steps, as a function of its noise multiplier."""
    from dpassay import _check
    from dpassay.privacy.events import SCHEMES, dp_sgd_event

    relation: Any = neighbouring
    batches = _check.choice("scheme", scheme, SCHEMES)
    return lambda noise: dp_sgd_event(
        noise, *schedule, neighbouring=relation, scheme=batches, group_size=group_size
    )


def _rate(sampling_rate: float | None, batch_size: int | None, n: int | None) -> Fraction:
    from dpassay import _check

    sizes = batch_size is not None and n is not None
    if (sampling_rate is None) != sizes or (batch_size is None) != (n is None):
        raise InvalidArgument(
            f"sampling_rate={sampling_rate}, batch_size={batch_size} and n={n}: pass "
            "--sampling-rate, or both --batch-size and --n instead."
        )
    if sampling_rate is not None:
        _check.number("sampling_rate", sampling_rate, low=0, high=1, low_open=True)
        return _as_written(sampling_rate)
    n = _check.count("n", n)
    return Fraction(_check.count("batch_size", batch_size, high=n), n)


def _as_written(number: float | None) -> Fraction:
    """The decimal number that was typed: ten epochs at a rate of .01 are 1000 steps, not 1001."""
    return Fraction(repr(float(number or 0)))


def _round_up(rate: Fraction) -> float:
    nearest = float(rate)
    return nearest if nearest >= rate else math.nextafter(nearest, 1)
