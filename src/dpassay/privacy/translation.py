"""Events of dp-accounting from ours, and ours from them, where one says what the other does."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay.errors import UnsupportedEvent
from dpassay.privacy.events import (
    MOST_RECORDS,
    Event,
    Gaussian,
    Laplace,
    MatrixMechanism,
    NonPrivate,
    Pure,
    RandomizedResponse,
    Repeated,
    Sampled,
    SampledUser,
    Sequence,
    ZeroConcentrated,
)
from dpassay.types import Neighbouring


def to_dp_accounting(event: Event) -> Any:
    """The dp-accounting event that says the same, for use with jax-privacy or TensorFlow Privacy.

    Raises UnsupportedEvent where dp-accounting has no such word (pure epsilon, (epsilon, delta),
    the exponential mechanism, sampling without replacement of a share).
    """
    import dp_accounting as dpa

    if isinstance(event, Repeated):
        return dpa.SelfComposedDpEvent(to_dp_accounting(event.event), event.count)
    if isinstance(event, Sequence):
        return dpa.ComposedDpEvent([to_dp_accounting(part) for part in event.events])
    if isinstance(event, Sampled) and event.scheme == "poisson" and not event.is_restated:
        return dpa.PoissonSampledDpEvent(event.sampling_rate, to_dp_accounting(event.event))
    words: dict[type[Event], Callable[[Any], Any]] = {
        Gaussian: lambda e: dpa.GaussianDpEvent(e.noise_multiplier),
        Laplace: lambda e: dpa.LaplaceDpEvent(e.noise_multiplier),
        ZeroConcentrated: lambda e: dpa.ZCDpEvent(e.rho),
        RandomizedResponse: lambda e: dpa.RandomizedResponseDpEvent(
            e.noise_probability, e.n_categories
        ),
        NonPrivate: lambda e: dpa.NonPrivateDpEvent(),
    }
    if type(event) not in words:
        raise UnsupportedEvent(f"dp-accounting has no event for {event!r}.")
    return words[type(event)](event)


def from_dp_accounting(event: Any, neighbouring: Neighbouring = "add-remove") -> Event:
    """Our event for a dp-accounting one; its noise is checked here, dp-accounting's is not.

    Raises UnsupportedEvent for what cannot be translated without loss.
    """
    import dp_accounting as dpa

    def inner(part: Any) -> Event:
        return from_dp_accounting(part, neighbouring)

    if isinstance(event, dpa.SelfComposedDpEvent):
        return Repeated(inner(event.event), event.count)
    if isinstance(event, dpa.ComposedDpEvent):
        return Sequence(tuple(inner(part) for part in event.events))
    if isinstance(event, dpa.PoissonSampledDpEvent):
        return Sampled(inner(event.event), event.sampling_probability)
    if isinstance(event, dpa.SampledWithoutReplacementDpEvent):
        rate = event.sample_size / event.source_dataset_size
        return Sampled(inner(event.event), rate, "without-replacement")
    words: dict[type, Callable[[Any], Event]] = {
        dpa.GaussianDpEvent: lambda e: Gaussian(e.noise_multiplier, neighbouring),
        dpa.LaplaceDpEvent: lambda e: Laplace(e.noise_multiplier, neighbouring),
        dpa.ZCDpEvent: lambda e: ZeroConcentrated(e.rho, neighbouring),
        dpa.RandomizedResponseDpEvent: lambda e: RandomizedResponse(
            e.noise_parameter, e.num_buckets
        ),
        dpa.NonPrivateDpEvent: lambda e: NonPrivate(neighbouring),
        dpa.SingleEpochTreeAggregationDpEvent: lambda e: _tree(e, neighbouring),
        dpa.dp_event.MixtureOfGaussiansDpEvent: _mixture,
        dpa.NoOpDpEvent: lambda e: Pure(0.0, neighbouring),
    }
    if type(event) not in words:
        raise UnsupportedEvent(f"{event!r} has no translation into dpassay's events.")
    return words[type(event)](event)


def _tree(event: Any, neighbouring: Neighbouring) -> MatrixMechanism:
    """A record is in one leaf, and in the nodes from there to the root of the largest tree."""
    steps = max(np.atleast_1d(event.step_counts).tolist())
    levels = (int(steps) - 1).bit_length() + 1
    return MatrixMechanism(
        event.noise_multiplier, math.nextafter(math.sqrt(levels), math.inf), neighbouring
    )


def _mixture(event: Any) -> SampledUser:
    """A user's batch: what is added is a multiple of what one record adds, with its probability.

    It is priced by our own code: dp-accounting's price can lie below the truth.
    """
    moves = [float(move) for move in event.sensitivities]
    unit = min((move for move in moves if move > 0), default=math.nan)
    records = [move / unit for move in moves]
    if not all(0 <= n <= MOST_RECORDS and n == int(n) for n in records):
        raise UnsupportedEvent(
            f"{event!r} has no translation: its sensitivities must be multiples of the least one "
            f"above 0, up to {MOST_RECORDS} times it."
        )
    law = [0.0] * (int(max(records)) + 1)
    for n, p in zip(records, event.sampling_probs, strict=True):
        law[int(n)] += float(p)
    return SampledUser(math.nextafter(event.standard_deviation / unit, 0.0), tuple(law))
