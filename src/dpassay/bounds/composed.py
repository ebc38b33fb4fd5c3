"""A lower bound on the epsilon of many sampled Gaussian steps: the accountant's mirror image.

An accountant errs upwards, and by how much it does not say. To compose what an attack has shown one
needs the other side. Take one direction, P = (1-q) N(0,1) + q N(mu,1) against Q = N(0,1), for which

    delta(epsilon) = E (1 - e^(epsilon - L))⁺,      L the sum of T losses drawn under P,

and round every loss down to a multiple of h. L is then the rounded sum plus a sum of T independent
remainders in [0, h), of which all but a share eta exceeds c = T (mean remainder) -
h sqrt(T log(1/eta) / 2) (Hoeffding 1963). The bracket rises in L, so that

    delta(epsilon) >= delta_rounded(epsilon - c) - eta.

(Gopi, Lee and Wutschitz 2021 bound both sides this way.) Nothing in it is an estimate but for the
rounding of double precision, for which there is a margin.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from dpassay._special.margins import NUMERICAL, TINY
from dpassay._special.quantiles import normal_lower
from dpassay._special.search import last_below
from dpassay.privacy.loss_distribution import Composition
from dpassay.privacy.loss_pmf import LossPmf
from dpassay.types import FloatArray

MOST_MU = 20.0  # beyond it the noise is below 5 % of the clipping norm: as good as none
_MOST_RATE = 1 - 1e-9
_CELLS = 1 << 20
_FINE = 1e-3  # the interval of the grid, in deviations of one loss
_FAR = 12.0  # deviations of the noise beyond which a mean has nothing to gain
_ETA = 1e-3  # the share of delta that is given up, see below
_MARGIN = 100 * NUMERICAL  # of delta: transforms err relative to the largest cell

Phase = tuple[float, float, int]
"""A number of like steps: (mu or noise multiplier, sampling rate, how many)."""


def epsilon_lower(mu: float, sampling_rate: float, steps: int, delta: float) -> float:
    """A lower bound on epsilon(delta) of DP-SGD whose steps are mu-GDP before sampling.

    Args:
        mu: clipping norm over deviation; positive and at most 20 or so.
        sampling_rate: in (0, 1).
        steps: how many.
        delta: in (0, 1).

    """
    return epsilon_of_phases([(mu, sampling_rate, steps)], delta)


def epsilon_of_phases(
    phases: Sequence[Phase], delta: float, within: float = NUMERICAL, coarser: float = 1.0
) -> float:
    """A lower bound on epsilon(delta) of several kinds of steps, composed.

    It is ``within`` that of the best one on its grid, which may be made ``coarser``: both take less
    time, and both err downwards. Four times as coarse costs .1 or .2 % of epsilon.

    Larger mu and rates that are 1 are lowered to what a grid holds: privacy only grows by that.
    """
    phases = [(min(mu, MOST_MU), min(rate, _MOST_RATE), steps) for mu, rate, steps in phases]
    draws = sum(rate * steps for _, rate, steps in phases)
    # Losses beyond this many deviations are rounded down to it; they are worth 1e-6 of delta.
    reach = -float(normal_lower(max(min(1e-6 * delta / draws, 0.1), TINY)))
    interval = _interval(phases, reach, coarser)
    rounded = [round_down_loss(mu, rate, interval, reach) for mu, rate, _ in phases]
    each = list(zip(rounded, (steps for _, _, steps in phases), strict=True))
    composed = Composition([(pmf, steps) for (pmf, _), steps in each])
    n_steps = sum(steps for _, steps in each)
    spread = interval * math.sqrt(n_steps * math.log(1 / (_ETA * delta)) / 2)
    shift = max(sum(steps * remainder for (_, remainder), steps in each) - spread, 0.0)
    needed = delta * (1 + _MARGIN + (_ETA if shift > 0 else 0.0))

    @functools.cache  # the ends of the bracket are asked for several times
    def height(epsilon: float) -> float:
        return math.log(needed / max(composed.delta_lower(epsilon - shift), TINY))

    # Chernoff's answer is close: walk down from it, since every other place costs a transform.
    low = high = float(composed.reach(np.array(delta))) + shift
    step = composed.deviation / 2
    while low > 0 and height(low) > 0:
        low, high, step = max(low - step, 0.0), low, 2 * step
    return last_below(height, low, high, within) if height(low) <= 0 else 0.0


def round_down_loss(
    mu: float, sampling_rate: float, interval: float, reach: float
) -> tuple[LossPmf, float]:
    """The law of one loss under P rounded down, and the mean of what that took off, from below.

    The loss log(1 - q + q e^(mu x - mu²/2)) rises in x, so that cells of losses are cells of x.
    """
    top = float(_loss(np.array([mu + reach]), mu, sampling_rate)[0])
    first = math.floor(math.log1p(-sampling_rate) / interval)
    index = np.arange(first, math.floor(top / interval) + 1)
    edges = _place(index * interval, mu, sampling_rate)
    above = np.append(_upper_tail(edges, mu, sampling_rate), 0.0)
    below = np.append(_lower_tail(edges, mu, sampling_rate), 1.0)
    # The smaller of the two tails has the more accurate differences.
    probs = np.where(edges > mu / 2, above[:-1] - above[1:], below[1:] - below[:-1])
    mean_rounded = interval * (first + float(above[1:].sum()))
    mean = _mean_loss(mu, sampling_rate, (index[-1] + 1) * interval)
    remainder = min(max(mean - mean_rounded - 1e-6 * interval, 0.0), interval)
    return LossPmf(interval, first, np.maximum(probs, 0.0), 0.0), remainder


def _interval(phases: Sequence[Phase], reach: float, coarser: float) -> float:
    """The width of a cell: fine enough for one loss, within the cells that the sum may have."""
    deviations, widths = zip(*(_scale(mu, rate, reach) for mu, rate, _ in phases), strict=True)
    variance = sum(d**2 * steps for d, (_, _, steps) in zip(deviations, phases, strict=True))
    least = max(*widths, 20 * math.sqrt(variance)) / _CELLS
    return max(coarser * _FINE * min(deviations), least)


def _scale(mu: float, sampling_rate: float, reach: float) -> tuple[float, float]:
    """The deviation of one loss, and from its least value to the largest that is kept."""
    x, density = _nodes(mu, sampling_rate)
    loss = _loss(x, mu, sampling_rate)
    deviation = math.sqrt(max(float(density @ loss**2) - float(density @ loss) ** 2, 0.0))
    width = float(_loss(np.array([mu + reach]), mu, sampling_rate)[0])
    return deviation, width - math.log1p(-sampling_rate)


def _loss(x: FloatArray, mu: float, q: float) -> FloatArray:
    # Beyond e^700 losses are lowered: that is near the largest float.
    return np.log1p(q * np.expm1(np.minimum(mu * x - mu**2 / 2, 700.0)))


def _place(loss: FloatArray, mu: float, q: float) -> FloatArray:
    """Where the loss has this value; -inf below the least."""
    odds = np.expm1(loss) + q
    with np.errstate(divide="ignore"):
        return (np.log(np.maximum(odds, 0.0) / q) + mu**2 / 2) / mu


def _upper_tail(x: FloatArray, mu: float, q: float) -> FloatArray:
    return (1 - q) * special.ndtr(-x) + q * special.ndtr(mu - x)


def _lower_tail(x: FloatArray, mu: float, q: float) -> FloatArray:
    return (1 - q) * special.ndtr(x) + q * special.ndtr(x - mu)


def _nodes(mu: float, q: float) -> tuple[FloatArray, FloatArray]:
    """Points and their weights under P: both densities are smooth and gone at the ends."""
    x = np.linspace(-_FAR, mu + _FAR, 20_001)
    density = (1 - q) * np.exp(-(x**2) / 2) + q * np.exp(-((x - mu) ** 2) / 2)
    return x, density * (x[1] - x[0]) / math.sqrt(2 * math.pi)


def _mean_loss(mu: float, q: float, cap: float) -> float:
    """The mean of one loss, those beyond the cap lowered to it."""
    x, density = _nodes(mu, q)
    return float(density @ np.minimum(_loss(x, mu, q), cap))
