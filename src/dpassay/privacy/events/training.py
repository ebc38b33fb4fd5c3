"""The events of trainings: DP-SGD with sampled, allocated and shuffled batches, BandMF."""

from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._special.margins import up
from dpassay.errors import InvalidArgument
from dpassay.privacy.events.base import MOST_STEPS, Event
from dpassay.privacy.events.batches import Allocated, Sampled, Scheme, Shuffled, sample_group
from dpassay.privacy.events.composed import Repeated
from dpassay.privacy.events.releases import Gaussian
from dpassay.privacy.strategies import check_bands
from dpassay.types import Neighbouring


def dp_sgd_event(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    *,
    neighbouring: Neighbouring = "add-remove",
    scheme: Scheme = "poisson",
    group_size: int = 1,
) -> Repeated:
    """The event of DP-SGD: ``steps`` Gaussian releases, each on a random batch.

    Args:
        noise_multiplier: deviation of the noise over the sensitivity of the sum of clipped
            gradients: over the clipping norm under add-remove, over *twice* it under replace-one,
            where one gradient is exchanged for another.
        sampling_rate: probability that a record is in a batch, in (0, 1].
        steps: number of updates, at least 1.
        neighbouring: "add-remove" or "replace-one".
        scheme: how batches are drawn, "poisson" or "without-replacement".
        group_size: the records of one user, who is added or removed as a whole; Poisson sampling.

    >>> dp_sgd_event(noise_multiplier=1.1, sampling_rate=0.01, steps=1000).count
    1000

    """
    steps = _check.count("steps", steps, high=MOST_STEPS, remedy="It is the number of updates.")
    _check.sampling_rate(sampling_rate)
    step: Event = Gaussian(noise_multiplier, neighbouring)
    if group_size != 1:
        if (neighbouring, scheme) != ("add-remove", "poisson"):
            raise InvalidArgument(
                f"group_size={group_size!r} must be 1 unless records are added or removed and "
                "sampled by scheme='poisson'."
            )
        step = sample_group(noise_multiplier, sampling_rate, group_size)
    elif sampling_rate < 1 and (neighbouring, scheme) == ("replace-one", "poisson"):
        # Priced from the noise over what one record adds, which is half of what replacing moves.
        step = Sampled(Gaussian(2 * noise_multiplier), sampling_rate, neighbouring="replace-one")
    elif sampling_rate < 1:
        step = Sampled(step, sampling_rate, scheme)
    return Repeated(step, steps)


def bandmf_event(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    bands: int,
    *,
    strategy: ArrayLike | None = None,
) -> Repeated:
    """The event of a banded matrix mechanism with sampled batches (BandMF).

    The records are split into ``bands`` groups that take turns, and each step samples from its
    group alone, with ``bands`` times the rate: Repeated(Sampled(Gaussian, bands · rate), steps /
    bands) (Choquette-Choo et al. 2023, theorem 4). To price the steps with the rate over all data
    is the usual mistake.

    Args:
        noise_multiplier: deviation of the noise over the clipping norm.
        sampling_rate: the size of a batch over the number of *all* records.
        steps: number of updates.
        bands: of the strategy, which has columns of norm 1.
        strategy: the matrix, if it is to be checked.

    Raises:
        InvalidArgument: ``bands · sampling_rate`` exceeds 1: a group has fewer records than a
            batch. Or the strategy is not such a matrix.

    >>> bandmf_event(1.0, 0.005, 2000, 10).event.sampling_rate
    0.05

    """
    _check.sampling_rate(sampling_rate)
    bands = _check.count("bands", bands, high=MOST_STEPS)
    if strategy is not None:
        check_bands(strategy, bands)
    rate = up(bands * sampling_rate)
    if bands * sampling_rate > 1:
        raise InvalidArgument(
            f"bands={bands} times sampling_rate={sampling_rate:g} is above 1: a batch would be "
            "larger than the group that it is drawn from. Use fewer bands or smaller batches."
        )
    return dp_sgd_event(noise_multiplier, min(rate, 1.0), -(-steps // bands))


def allocation_event(noise_multiplier: float, steps: int, epochs: int = 1, k: int = 1) -> Repeated:
    """The event of DP-SGD whose batches are filled by random allocation (balls in bins).

    Args:
        noise_multiplier: deviation of the noise over the clipping norm.
        steps: updates per epoch; each record takes part in ``k`` of them, uniform.
        epochs: how often, with a new allocation each time.
        k: the steps of an epoch with the same record.

    >>> allocation_event(1.0, steps=100, epochs=10).event.of
    100

    """
    epochs = _check.count("epochs", epochs, high=MOST_STEPS)
    return Repeated(Allocated(Gaussian(noise_multiplier), k=k, of=steps), epochs)


def shuffled_event(
    noise_multiplier: float,
    steps: int,
    epochs: int = 1,
    *,
    neighbouring: Neighbouring = "add-remove",
) -> Repeated:
    """The event of DP-SGD whose batches are cut from a shuffled list, or always the same.

    The batches of the others must not depend on a record: see :class:`Shuffled`, which says what
    that means under add-remove.

    Args:
        noise_multiplier: deviation of the noise over the clipping norm; over twice it under
            replace-one.
        steps: updates per epoch.
        epochs: how often each record takes part.
        neighbouring: "add-remove" or "replace-one".

    >>> shuffled_event(1.0, steps=100, epochs=10).count
    10

    """
    epochs = _check.count("epochs", epochs, high=MOST_STEPS)
    return Repeated(Shuffled(Gaussian(noise_multiplier, neighbouring), steps), epochs)
