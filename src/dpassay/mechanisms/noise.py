"""Where noise comes from: three levels, decided by what the caller passes.

========================== ================== =====================================================
passed                     level              what it is
========================== ================== =====================================================
``rng=None``, small output ``exact``          exact arithmetic on randomness of the operating
                                              system: OpenDP's samplers, or integers from
                                              :mod:`secrets`. The stated guarantee holds for the
                                              bits that are released.
``rng=None``, large output ``cryptographic``  floating-point noise from AES-128 in counter mode,
                                              under a key of the operating system. Nobody predicts
                                              it, but the lowest bits of a sum of floats say
                                              something about its terms (Mironov 2012): keep such
                                              outputs inside a training run, or release few of them.
a seed or a generator      ``reproducible``   floating-point noise that whoever knows the seed can
                                              subtract: for research and tests, not private.
========================== ================== =====================================================

No level hides how long the sampling took: exact samplers reject, and how often depends on the data.
"""

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _rng
from dpassay._rng import RngLike
from dpassay.types import NoiseLevel

Rng = RngLike

EXACT_LIMIT = 1024
"""Outputs of up to this many entries get exact noise: 25 ms of Laplace, 60 ms of Gaussian noise."""


class SecureGenerator(np.random.Generator):
    """A NumPy generator on AES-128 in counter mode, keyed by the operating system.

    The cipher (FIPS 197) encrypts 0, 1, 2, ... under 128 bits of :mod:`secrets`; ChaCha20 takes
    twice the time where processors have instructions for AES, which is nearly everywhere.

    Its key is never stored: a copy, a pickle or a child by :meth:`spawn` gets a key of its own,
    because two processes that add the same noise give it away. Make it in the process that uses it;
    a fork of the process copies the stream.
    """

    def __init__(self) -> None:
        from randomgen import AESCounter

        # As key, which is taken as it is; a seed would be hashed, and not by a cipher.
        super().__init__(AESCounter(key=secrets.randbits(128)))  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return SecureGenerator, ()

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Secure generators with keys of their own."""
        return [SecureGenerator() for _ in range(n_children)]


def secure_generator() -> SecureGenerator:
    """A fresh generator of ``cryptographic`` noise, for the large vectors of training."""
    return SecureGenerator()


@dataclass(frozen=True)
class Source:
    """The level of the noise, and the generator to draw it from (None for exact noise)."""

    level: NoiseLevel
    generator: np.random.Generator | None

    def words(self, n_words: int) -> NDArray[np.uint64]:
        """Uniform 64-bit integers, for samplers that work on integers."""
        if self.generator is None:
            return np.frombuffer(secrets.token_bytes(8 * n_words), dtype=np.uint64)
        return self.generator.integers(0, 2**64 - 1, n_words, dtype=np.uint64, endpoint=True)


def source(rng: Rng, size: float, limit: float = EXACT_LIMIT) -> Source:
    """The source of noise for an output of ``size`` entries; see the table of this module.

    Args:
        rng: None for secure noise; a seed or a generator for noise that can be replayed. A
            :class:`SecureGenerator` is taken as what it is.
        size: how many entries are released.
        limit: up to which size noise is exact; inf for samplers that are always exact.

    """
    if rng is None and size <= limit:
        return Source("exact", None)
    if rng is None:
        return Source("cryptographic", secure_generator())
    generator = _rng.generator(rng)
    secure = isinstance(generator, SecureGenerator)
    return Source("cryptographic" if secure else "reproducible", generator)
