"""Where noise comes from: three levels, by what the noise is for and what the caller passes.

=========================== ================== ====================================================
noise                       level              what it is
=========================== ================== ====================================================
of a released value,        ``exact``          integers times the step of a lattice, from bits of
``rng=None`` or a                              AES-128 in counter mode under a key of the operating
:class:`SecureGenerator`                       system, by exact arithmetic at any size. The stated
                                               guarantee holds for the bits that are released.
inside a training,          ``cryptographic``  floating-point noise from the same bits. Nobody
``rng=None`` or a                              predicts it, but the lowest bits of a sum of floats
:class:`SecureGenerator`                       say something about its terms (Mironov 2012): such
                                               sums are not released, and have no event of their
                                               own. The training has one, which is priced for real
                                               numbers.
a seed or a generator       ``reproducible``   floating-point noise that whoever knows the seed can
                                               subtract: for research and tests, not private.
=========================== ================== ====================================================

No level hides how long the sampling took: exact samplers reject, and some of them the more often
the closer the scores are.
"""

import os
import secrets
import weakref
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpassay import _rng
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.types import NoiseLevel

Rng = RngLike


class SecureGenerator(np.random.Generator):
    """A NumPy generator on AES-128 in counter mode, keyed by the operating system.

    The cipher (FIPS 197) encrypts 0, 1, 2, ... under 128 bits of :mod:`secrets`; ChaCha20 takes
    twice the time where processors have instructions for AES, which is nearly everywhere.

    Two processes that add the same noise give it away, so no two generators share a key: a copy or
    a child by :meth:`spawn` gets a key of its own, so does the copy that a fork of the process
    makes, and a pickle is refused.
    """

    def __init__(self) -> None:
        from randomgen import AESCounter

        # As key, which is taken as it is; a seed would be hashed, and not by a cipher.
        super().__init__(AESCounter(key=secrets.randbits(128)))  # type: ignore[arg-type]
        _ALIVE.add(self)

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            "a secure generator must not be pickled: its key would be stored, or two processes "
            "would draw the same noise. Pass rng=None, or make it in the process that uses it."
        )

    def __copy__(self) -> "SecureGenerator":
        return SecureGenerator()

    def __deepcopy__(self, memo: dict[int, Any]) -> "SecureGenerator":
        return SecureGenerator()

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Secure generators with keys of their own."""
        return [SecureGenerator() for _ in range(n_children)]


_ALIVE: "weakref.WeakSet[SecureGenerator]" = weakref.WeakSet()


def _rekey_after_fork() -> None:
    # A new cipher, not a new state of the old one: its lock may be held by a thread that the fork
    # did not take along.
    for generator in list(_ALIVE):
        generator.__init__()


if hasattr(os, "register_at_fork"):  # systems without it have no fork
    os.register_at_fork(after_in_child=_rekey_after_fork)


def secure_generator() -> SecureGenerator:
    """A fresh generator on bits of a cipher that the operating system keys.

    As ``rng`` of a mechanism it gives exact noise, as ``None`` does; what it draws by itself is
    floating-point noise, for sums inside a training that are never released.
    """
    return SecureGenerator()


@dataclass(frozen=True)
class Source:
    """The level of the noise, and the generator to draw it from."""

    level: NoiseLevel
    generator: np.random.Generator

    @property
    def is_exact(self) -> bool:
        """Whether integers are to be drawn, not floats."""
        return self.level == "exact"

    def words(self, n_words: int) -> NDArray[np.uint64]:
        """Uniform 64-bit integers, for samplers that work on integers."""
        return self.generator.integers(0, 2**64 - 1, n_words, dtype=np.uint64, endpoint=True)


def is_secure(generator: np.random.Generator) -> bool:
    """Whether it is keyed by the operating system: releases then get exact noise."""
    return isinstance(generator, SecureGenerator)


def source(rng: Rng) -> Source:
    """The source of noise for what is released: exact, unless a seed or generator is passed."""
    return _source(rng, "exact")


def training_source(rng: Rng) -> Source:
    """The source of noise for sums inside a training that are never released: floating point."""
    return _source(rng, "cryptographic")


def _source(rng: Rng, secure: NoiseLevel) -> Source:
    generator = secure_generator() if rng is None else _rng.generator(rng)
    return Source(secure if is_secure(generator) else "reproducible", generator)
