"""Which canaries are guessed: the highest scores are guessed "in", the lowest "out"."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay.types import FloatArray

IntArray = NDArray[np.int64]
_SORT_FROM = 64  # cuts; for fewer, selection is faster than sorting


@dataclass(frozen=True)
class Ranking:
    """How many of the highest-scored canaries are members, and of the lowest not.

    Attributes:
        members_among: entry k counts the members among the k highest scores; exact at the cuts
            that the ranking was made for.

    """

    members_among: IntArray

    @property
    def canaries(self) -> int:
        """The number of canaries."""
        return self.members_among.size - 1

    def correct(self, top: IntArray, bottom: IntArray) -> IntArray:
        """The right guesses if the ``top`` highest are said to be in, the ``bottom`` lowest out."""
        n = self.members_among
        return n[top] + bottom - (n[-1] - n[self.canaries - bottom])

    def perfect(self, top: IntArray, bottom: IntArray) -> IntArray:
        """The right guesses that a perfect attack would have had with these coins."""
        members = self.members_among[-1]
        return np.minimum(top, members) + np.minimum(bottom, self.canaries - members)


def rank(
    scores: FloatArray,
    members: NDArray[np.bool_],
    cuts: Iterable[int] | None,
    rng: np.random.Generator,
) -> Ranking:
    """The ranking from the highest score down, right at the given cuts (None: everywhere).

    Canaries of equal score come in random order where a cut parts them. It must not depend on
    membership, and the order in which they were passed may: people write the members first.
    """
    inner = None if cuts is None else sorted({int(c) for c in cuts if 0 < c < scores.size})
    order = _order(scores, inner)
    if _parts_equals(scores[order], inner):
        shuffled = rng.permutation(scores.size)
        # Stable: other sorts break ties by the instructions that the processor has.
        order = shuffled[np.argsort(-scores[shuffled], kind="stable")]
    counts = np.zeros(scores.size + 1, np.int64)
    np.cumsum(members[order], out=counts[1:])
    return Ranking(counts)


def _order(scores: FloatArray, cuts: list[int] | None) -> IntArray:
    """Places from the highest score down, in order at the cuts, or everywhere."""
    if cuts is None or len(cuts) > _SORT_FROM:
        return np.argsort(-scores)
    return np.argpartition(-scores, cuts) if cuts else np.arange(scores.size)


def _parts_equals(falling: FloatArray, cuts: list[int] | None) -> bool:
    """Whether two equal scores lie on both sides of a cut; by parts they fall."""
    if cuts is None or len(cuts) > _SORT_FROM:
        return bool(np.any(falling[1:] == falling[:-1]))
    if not cuts:
        return False
    least_above = np.minimum.reduceat(falling[: cuts[-1]], [0, *cuts[:-1]])
    return bool(np.any(least_above == falling[cuts]))
