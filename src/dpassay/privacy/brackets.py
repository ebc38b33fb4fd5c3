"""How far an upper bound can be from the truth: epsilon from below and from above.

**From below.** An adversary who may choose one of several pairs (P, Q) at each step, after seeing
what came before, has the profile

    V_k(x) = max over pairs of E_P V_{k-1}(x - L),      V_0(x) = (1 - e^x)⁺,

L the loss of the pair: what is left to be found after a loss of L is found by who needs x - L. Any
family of pairs that the event allows gives a lower bound; so does an adversary who chooses for
blocks of steps only. Losses are rounded down to a grid, values outside of it count as 0, the
rounding of each convolution is subtracted, and V_0, which V_k is never below, is put where it is
more.

**Which pairs.**
- A batch without replacement, a record replaced, noise over what that moves: the other records all
  at -r and the record at r or -r, in either data set. The sum is shifted if the record is in the
  batch: a sampled Gaussian, in both directions.
- Shuffled batches: the record's batch alone is shifted, by one clipping norm if a record is added
  (others at 0), by two if it is replaced (others at -r): random allocation, in both directions.
- Random allocation of one step: itself.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpassay import _check
from dpassay._special.margins import UNIT
from dpassay.errors import UnsupportedEvent
from dpassay.privacy.accounting import account
from dpassay.privacy.allocation import FARTHEST, LEAST_NOISE, MOST_NOISE, AllocatedLosses
from dpassay.privacy.events import Allocated, Event, Gaussian, Repeated, Sampled, Shuffled
from dpassay.privacy.loss_pmf import LossPmf
from dpassay.types import FloatArray

RoundDown = Callable[[bool, float], LossPmf]
_BLOCKS = 16  # of steps for which the adversary chooses at once
_MOST_CELLS = FARTHEST
_LOST = 0.001  # of epsilon, by rounding down


@dataclass(frozen=True)
class Bracket:
    """Epsilon at a delta: not below ``lower``, not above ``upper``.

    Attributes:
        lower: what some data sets and adversary reach; 0 says that nothing is known.
        upper: what is proved of all.
        delta: at which.

    """

    lower: float
    upper: float
    delta: float


def bracket(event: Event, delta: float) -> Bracket:
    """Bounds on epsilon at ``delta`` from below and from above, for what is not priced exactly.

    Batches without replacement, shuffled batches (uniform ones: of fixed batches the upper bound is
    exact), random allocation of one step per epoch; Gaussian noise, and repeated as a whole.

    Raises:
        UnsupportedEvent: no lower bound is known for such an event.

    >>> from dpassay.privacy.events import shuffled_event
    >>> found = bracket(shuffled_event(1.0, steps=10, epochs=2), delta=1e-5)
    >>> found.lower, found.upper
    (2.826, 6.573)

    """
    delta = _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
    upper = float(account(event).epsilon(delta))
    one, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
    if upper == 0 or not math.isfinite(upper):
        return Bracket(0.0, upper, delta)
    lower = _reach(_choose_pairs(one), count, upper, delta)
    return Bracket(min(lower, upper), upper, delta)


def _choose_pairs(event: Event) -> RoundDown:
    """The pairs that an adversary may choose from, in both directions, rounded down to a grid."""
    noise = _gaussian_noise(event)
    if noise is not None and LEAST_NOISE <= noise <= MOST_NOISE:
        if isinstance(event, Shuffled):
            return AllocatedLosses(noise, event.steps).round_down
        if isinstance(event, Allocated) and event.k == 1:
            return AllocatedLosses(noise, event.of).round_down
        if isinstance(event, Sampled) and event.scheme == "without-replacement":
            return SampledPair(noise, event.sampling_rate).round_down
    raise UnsupportedEvent(
        f"{event!r}: no lower bound is known. Brackets are for Gaussian noise from {LEAST_NOISE} "
        f"to {MOST_NOISE:g} on batches without replacement, shuffled or allocated ones (k=1)."
    )


def _gaussian_noise(event: Event) -> float | None:
    inner = event.event if isinstance(event, Shuffled | Allocated | Sampled) else None
    return inner.noise_multiplier if isinstance(inner, Gaussian) else None


@dataclass(frozen=True)
class SampledPair:
    """(1-q) N(0, s²) + q N(1, s²) against N(0, s²)."""

    noise_multiplier: float
    sampling_rate: float

    def round_down(self, add: bool, interval: float) -> LossPmf:
        """Masses on a grid whose profile is not above the truth: losses are rounded down."""
        m, q = 1 / self.noise_multiplier, self.sampling_rate
        ends = np.array([-12.0, 12.0 + m])
        reached = _sampled_loss(ends, m, q)
        low, high = (-reached[1], -reached[0]) if add else (reached[0], reached[1])
        # Steps of the grid, a little above them: what lies between two counts as the lower one.
        low, high = (min(max(end / interval, -FARTHEST), FARTHEST) for end in (low, high))
        places: FloatArray = np.arange(math.floor(low), math.ceil(high) + 1, dtype=float)
        losses = places * interval + 8 * UNIT * (1 + np.abs(places) * interval)
        z = _output_at(-losses if add else losses, m, q)
        masses = self._mass_above(z, add, m)
        probs = np.append(-np.diff(masses), masses[-1]) - 16 * UNIT * masses
        return LossPmf(interval, int(places[0]), np.maximum(probs, 0.0), 0.0)

    def _mass_above(self, z: FloatArray, add: bool, m: float) -> FloatArray:
        """The chance of an output beyond z, where losses are larger; decreasing."""
        if add:
            return special.ndtr(z)
        q = self.sampling_rate
        return (1 - q) * special.ndtr(-z) + q * special.ndtr(m - z)


def _sampled_loss(z: FloatArray, m: float, q: float) -> FloatArray:
    return np.logaddexp(math.log1p(-q) if q < 1 else -math.inf, math.log(q) + m * z - m * m / 2)


def _output_at(loss: FloatArray, m: float, q: float) -> FloatArray:
    """The output over the deviation with this loss; -inf where all have larger ones."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inside = (np.expm1(loss) + q) / q
        above = np.log(np.maximum(inside, 0.0))
        large = loss - math.log(q) + np.log1p(-(1 - q) * np.exp(-loss))
    return (np.where(loss > 1, large, above) + m * m / 2) / m


def _reach(pairs: RoundDown, count: int, upper: float, delta: float) -> float:
    """The largest epsilon on a grid at which the adversary's profile is above ``delta``."""
    width = 1.5 * upper + 1
    interval = max(_LOST * upper / count, 2 * width / _MOST_CELLS)
    half = math.ceil(width / interval)
    x = np.arange(-half, half + 1) * interval
    blocks = [count // _BLOCKS + (i < count % _BLOCKS) for i in range(_BLOCKS)]
    steps = [n for n in blocks if n]
    families = {
        n: [_power(pairs(add, interval), n, half) for add in (False, True)] for n in set(steps)
    }
    least = -np.expm1(np.minimum(x, 0.0)) * (1 - 4 * UNIT)
    value = least
    for n in steps:
        value = np.maximum(least, _play(families[n], value))
    reached = np.flatnonzero(value >= delta)
    return max(float(x[reached[-1]]), 0.0) * (1 - 4 * UNIT) if reached.size else 0.0


def _play(family: Sequence[LossPmf], value: FloatArray) -> FloatArray:
    """The best of the pairs, at every place of the grid."""
    return np.max([_convolve(p.probs, value, p.first, value.size) for p in family], axis=0)


def _convolve(probs: FloatArray, value: FloatArray, first: int, size: int) -> FloatArray:
    """(p * v)(i - first) for i below size, less a bound on its rounding; 0 outside."""
    total = probs.size + value.size - 1
    n = 2 ** total.bit_length()
    product = np.fft.irfft(np.fft.rfft(probs, n) * np.fft.rfft(value, n), n)[:total]
    # The error of a convolution by FFT is of so many units of both norms in every place.
    error = 16 * UNIT * math.log2(n) * float(np.linalg.norm(probs) * np.linalg.norm(value))
    found = np.zeros(size)
    start, stop = max(first, 0), min(first + product.size, size)
    if start < stop:
        found[start:stop] = product[start - first : stop - first] - error
    return np.maximum(found, 0.0)


def _power(pmf: LossPmf, n: int, half: int) -> LossPmf:
    """The n-fold sum from below; losses beyond the grid are left out."""
    result = one = _crop(pmf, half)
    for bit in bin(n)[3:]:
        result = _add(result, result, half)
        if bit == "1":
            result = _add(result, one, half)
    return result


def _add(a: LossPmf, b: LossPmf, half: int) -> LossPmf:
    probs = _convolve(a.probs, b.probs, 0, a.probs.size + b.probs.size - 1)
    return _crop(LossPmf(a.interval, a.first + b.first, probs, 0.0), half)


def _crop(pmf: LossPmf, half: int) -> LossPmf:
    """The losses up to the ends of the grid: larger ones count as the largest, smaller as none."""
    low, high = -2 * half, 2 * half
    last = pmf.first + pmf.probs.size - 1
    probs = pmf.probs
    if last > high:
        keep = max(high - pmf.first + 1, 1)
        probs = np.append(probs[: keep - 1], probs[keep - 1 :].sum() * (1 - probs.size * UNIT))
    skip = max(low - pmf.first, 0)
    return LossPmf(pmf.interval, pmf.first + skip, probs[skip:], 0.0)
