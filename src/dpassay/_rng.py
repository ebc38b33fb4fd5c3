"""Generators: integers become generators here and nowhere else."""

import numpy as np

from dpassay.errors import InvalidArgument

__all__ = ["RngLike", "for_trial", "generator"]

RngLike = int | np.random.SeedSequence | np.random.Generator | None
"""What is taken wherever randomness is asked for: a seed, a seed sequence, a generator or None."""


def generator(rng: RngLike) -> np.random.Generator:
    """A NumPy generator from a seed, a seed sequence or a generator (returned as it is).

    None gives a generator seeded by the operating system: fine for attacks and sampling, but
    privacy noise has its own sources (:mod:`dpassay.mechanisms`).
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not (
        rng is None or isinstance(rng, int | np.integer | np.random.SeedSequence)
    ):
        raise InvalidArgument(
            f"rng is a {type(rng).__qualname__}; it must be an int, a SeedSequence, a numpy "
            "Generator or None. Pass rng=0 for a reproducible run."
        )
    if isinstance(rng, int | np.integer) and rng < 0:
        raise InvalidArgument(f"rng={rng} must lie in [0, inf). Seeds are not negative.")
    return np.random.default_rng(rng)


def for_trial(seed: int, trial: int, *stream: int) -> np.random.Generator:
    """The generator of one trial: it depends on the seed, the trial's number and the stream alone.

    Not on which worker plays the trial, in what order or in what batch.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(trial, *stream)))
