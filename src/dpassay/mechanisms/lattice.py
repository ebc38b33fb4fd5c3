"""Integer noise without rounding error, many draws at once: discrete Laplace and Gaussian laws.

A draw is ±(u + t·v) with u uniform below t and v from a small table; it is kept with a probability
that turns the proposal into the wanted law (t is the scale, in steps of the lattice):

========= ============================ ==================== ======================= =====
law       P(z) proportional to         P(v) proportional to kept with probability   kept
========= ============================ ==================== ======================= =====
laplace   exp(-|z|/t)                  exp(-v)              exp(-u/t)               63 %
gaussian  exp(-z²/(2t²))               exp(-v²/2)           exp(-(2uvt + u²)/(2t²)) 71 %
========= ============================ ==================== ======================= =====

The two columns multiply to the wanted weight of |z| = u + t·v (Karney 2016 for the Gaussian). The
sign is a fair bit, and a negative zero is thrown away, so that zero is not drawn twice as often.

**Nothing is rounded.** Every choice above asks whether a uniform real number U lies below some
number p. The first 31 or 32 binary digits of U and a floating-point p decide nearly always: they do
if they differ by more than ``MARGIN``, which is far more than the two are off. Otherwise
(chance below 2^-29) more digits of U are drawn, and bounds on p in integer arithmetic are made
finer, until they decide (:class:`Uniform`). So each law is exact, given uniform bits.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[Any]
"""An array of int64, or of Python's integers where a draw does not fit into one."""

MARGIN = 2.0**-31
"""A digit string of 32 bits and a float decide if they differ by more than this."""

_CHUNK = 2**14  # candidates at a time: their arrays stay in the cache
_V_BITS, _U_BITS = 31, 32  # binary digits of the uniform numbers that choose v and keep or not
_INDEX_BITS = 12  # the first digits of v's uniform number look v up, nearly always

Bounds = Callable[[int], tuple[int, int]]
"""Given b, integers (low, high) with low <= p·2^b <= high, a few units apart."""


def draw(law: str, scale: int, size: int, generator: np.random.Generator) -> Integers:
    """Independent draws of a discrete law of this scale, exactly, given uniform bits.

    Args:
        law: "laplace" or "gaussian"; see the table of this module.
        scale: t, an integer in [1, 2^60].
        size: how many.
        generator: whose bits are used; secure ones for privacy.

    """
    parts, missing = [np.empty(0, np.int64)], size
    while missing > 0:
        kept = _keep_some(law, scale, min(_CHUNK, missing * 8 // 5 + 16), generator)[:missing]
        parts.append(kept)
        missing -= len(kept)
    return np.concatenate(parts)


def _keep_some(law: str, scale: int, n: int, generator: np.random.Generator) -> Integers:
    """What is kept of n candidates, in order."""
    u = generator.integers(0, scale, n)  # Lemire's method: exactly uniform
    words = _words(generator, n)
    v = _table(law).look_up((words >> np.uint64(_U_BITS + 1)).astype(np.int64), generator)
    negative = (words >> np.uint64(_U_BITS)).astype(np.uint8) & 1 == 1
    x = u / scale
    p = np.exp(-x if law == "laplace" else -x * (v + 0.5 * x))
    keep = is_below(
        words.astype(np.uint32), p, lambda i: _chance(law, scale, u[i], v[i]), generator
    )
    keep &= ~(negative & (u == 0) & (v == 0))
    u, v, negative = u[keep], v[keep], negative[keep]
    if v.max(initial=0) >= 2**62 // scale:  # never seen; then Python's integers, not an overflow
        u, v = u.astype(object), v.astype(object)
    magnitude = u + scale * v
    return np.where(negative, -magnitude, magnitude)


def _words(generator: np.random.Generator, n: int) -> NDArray[np.uint64]:
    return generator.integers(0, 2**64 - 1, n, dtype=np.uint64, endpoint=True)


def _chance(law: str, scale: int, u: int, v: int) -> Bounds:
    """The chance to keep a candidate."""
    u, v = int(u), int(v)
    if law == "laplace":
        return lambda bits: exp_bounds(u, scale, bits)
    return lambda bits: exp_bounds(u * (2 * v * scale + u), 2 * scale * scale, bits)


def is_below(
    digits: NDArray[np.uint32],
    p: NDArray[Any],
    bounds: Callable[[int], Bounds],
    generator: np.random.Generator,
) -> NDArray[np.bool_]:
    """Whether uniform numbers with these first 32 binary digits lie below p, exactly.

    Args:
        digits: the first digits of every uniform number.
        p: floats, off by 2^-33 at most.
        bounds: of the exact p, for the i-th entry.
        generator: of the digits that follow, where the first ones do not decide.

    """
    # U lies in [w, w + 2^-32] for the digits w. Is p - w above 2^-31, less errors of 2^-33, then
    # U < p; is it below -2^-31, then U > p.
    ahead = p - digits * 2.0**-_U_BITS
    below = ahead > 0
    for i in np.flatnonzero(np.abs(ahead) <= MARGIN):
        below[i] = Uniform(int(digits[i]), _U_BITS, generator).is_below(bounds(int(i)))
    return below


class Uniform:
    """A uniform number in [0, 1], of which more binary digits are drawn as they are needed."""

    def __init__(self, digits: int, n_digits: int, generator: np.random.Generator) -> None:
        self.digits, self.n_digits, self.generator = digits, n_digits, generator

    def is_below(self, bounds: Bounds) -> bool:
        """Whether it lies below a number, of which bounds are known at any precision."""
        while True:
            # Eight digits more, so that bounds a few units apart seldom straddle an end of U.
            low, high = bounds(self.n_digits + 8)
            if (self.digits + 1) << 8 <= low:
                return True
            if self.digits << 8 >= high:
                return False
            self._extend()

    def _extend(self) -> None:
        self.digits = self.digits << 64 | int(_words(self.generator, 1)[0])
        self.n_digits += 64


class _Table:
    """The law of v: which v a uniform number stands for.

    v is the number of j >= 1 with U < P(v >= j). With the first 31 digits r of U that is the number
    of j with r < c_j, where c_j = floor(2^31 P(v >= j)), unless r equals one of the c_j.
    """

    def __init__(self, tail: Callable[[int], Bounds]) -> None:
        self.tail = tail
        ends = list(self._ends())
        self.ends = np.array(ends[::-1])  # rising; the first is 0, beyond which more may follow
        first = np.arange(2**_INDEX_BITS) << (_V_BITS - _INDEX_BITS)
        last = first + 2 ** (_V_BITS - _INDEX_BITS) - 1
        low, high = self._count(last), self._count(first)
        ambiguous = (low != high) | np.isin(first, self.ends) | np.isin(last, self.ends)
        self.first_look = np.where(ambiguous, -1, low)

    def _ends(self) -> Iterator[int]:
        j, end = 1, 1
        while end:
            low, high = self.tail(j)(_V_BITS + 64)
            end = low >> 64
            assert end == high >> 64
            yield end
            j += 1

    def _count(self, r: Integers) -> Integers:
        return len(self.ends) - np.searchsorted(self.ends, r, side="right")

    def look_up(self, r: Integers, generator: np.random.Generator) -> Integers:
        """The v of uniform numbers with these first 31 digits."""
        v = self.first_look[r >> (_V_BITS - _INDEX_BITS)]
        for i in self._look_closer(r, v):
            v[i] = self.settle(Uniform(int(r[i]), _V_BITS, generator))
        return v

    def _look_closer(self, r: Integers, v: Integers) -> Integers:
        """Fill in what the first look left open; where that takes more digits is returned."""
        unsure = np.flatnonzero(v < 0)
        if not unsure.size:
            return unsure
        v[unsure] = self._count(r[unsure])
        return unsure[np.isin(r[unsure], self.ends)]

    def settle(self, uniform: Uniform) -> int:
        """The v of a uniform number, by as many digits as it takes."""
        v = 0
        while uniform.is_below(self.tail(v + 1)):
            v += 1
        return v


@lru_cache(maxsize=2)
def _table(law: str) -> _Table:
    if law == "laplace":
        return _Table(lambda j: lambda bits: exp_bounds(j, 1, bits))
    return _Table(lambda j: lambda bits: half_normal_bounds(j, bits))


def half_normal_bounds(j: int, bits: int) -> tuple[int, int]:
    """Bounds on 2^bits times the share of the terms from j on in sum_{v >= 0} exp(-v²/2)."""
    finer = bits + 32
    # Terms beyond are below 2^-finer, all of them together below twice that.
    n = max(j, math.isqrt(2 * finer)) + 2
    terms = [exp_bounds(v * v, 2, finer) for v in range(n)]
    tail_low, tail_high = (sum(term[k] for term in terms[j:]) for k in (0, 1))
    head_low, head_high = (sum(term[k] for term in terms[:j]) for k in (0, 1))
    tail_high += 2
    # x/(x + y) rises with x and falls with y.
    low = (tail_low << bits) // (tail_low + head_high)
    high = -(-(tail_high << bits) // (tail_high + head_low))
    return low, high


def exp_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^bits · exp(-numerator/denominator) <= high.

    With x = numerator/denominator, exp(-x) = y^(2^k), y = exp(-x/2^k) and x/2^k below 1/2: y by
    Taylor's series, in which sums of successive terms are bounds by turns, and each square rounded
    down for the lower bound and up for the upper.
    """
    if numerator > denominator * (bits + 1):  # then exp(-x) < 2^-bits
        return 0, 1
    halvings = max(0, (numerator // denominator).bit_length() + 1)
    one = bits + 2 * halvings + 16
    denominator <<= halvings
    low, high = _series(numerator, denominator, one)
    for _ in range(halvings):
        low, high = low * low >> one, -(-high * high >> one)
    return low >> one - bits, -(-high >> one - bits)


def _series(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Bounds on 2^bits exp(-x) for x = numerator/denominator in [0, 1/2]."""
    term_low = term_high = total_low = total_high = 1 << bits
    k, low, high = 1, 0, 1 << bits
    while term_high > 1:
        term_low = term_low * numerator // (denominator * k)
        term_high = -(-term_high * numerator // (denominator * k))
        if k % 2:  # a subtracted term: the sum falls below exp(-x)
            total_low, total_high = total_low - term_high, total_high - term_low
            low = total_low
        else:
            total_low, total_high = total_low + term_low, total_high + term_high
            high = total_high
        k += 1
    return max(low, 0), high
