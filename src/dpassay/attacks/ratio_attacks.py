"""Likelihood-ratio attacks: is this output typical of models trained with the record, or without?

LiRA (Carlini et al. 2022) compares the target's log odds on a record with those of shadows trained
with and without it. RMIA (Zarifzadeh, Liu and Shokri 2024) compares the record's gain in
probability over shadows with that of other records. The attacker must know the training and have
data like the target's; the online forms need shadows trained on the candidates themselves.
"""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import special

from dpassay import _check
from dpassay.attacks.outputs import Outputs
from dpassay.attacks.scores import FLOOR, log_odds
from dpassay.attacks.shadows import Shadows
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

Variance = Literal["shrunk", "record", "pooled"]
VARIANCES: tuple[Variance, ...] = get_args(Variance)
SLOPES = np.linspace(0, 1, 11)
_NEARLY_NORMAL = 1e6  # degrees of freedom
_UNRESOLVED = -math.log(FLOOR) - 0.02  # probabilities sum to one but for a hundredth


class Predictive(NamedTuple):
    """A law for the log odds of each record: Student's t; Gaussian if ``freedom`` is infinite.

    ``variance`` is that of a value, ``error`` that of the mean, as far as it counts.
    """

    mean: FloatArray
    variance: FloatArray
    error: FloatArray
    freedom: FloatArray

    @property
    def scale(self) -> FloatArray:
        """The scale of a new value, the mean being uncertain."""
        return np.sqrt(self.variance + self.error)

    def log_density(self, x: FloatArray) -> FloatArray:
        """The logarithm of the density at x."""
        z = (x - self.mean) / self.scale
        nu = np.minimum(self.freedom, _NEARLY_NORMAL)
        tail = -(nu + 1) / 2 * np.log1p(z**2 / nu)
        norm = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) - np.log(np.pi * nu) / 2
        gauss = -(z**2) / 2 - math.log(2 * math.pi) / 2
        return np.where(self.freedom > _NEARLY_NORMAL, gauss, norm + tail) - np.log(self.scale)

    def surprise(self, x: FloatArray) -> FloatArray:
        """-log P(value > x): large where x is above what the law expects."""
        z = (x - self.mean) / self.scale
        nu = np.minimum(self.freedom, _NEARLY_NORMAL)
        student = -np.log(np.maximum(special.stdtr(nu, -z), np.finfo(float).tiny))
        return np.where(self.freedom > _NEARLY_NORMAL, -special.log_ndtr(-z), student)


def lira_scores(
    outputs: Outputs, shadows: Shadows, *, online: bool | None = None, variance: Variance = "shrunk"
) -> FloatArray:
    """The log likelihood ratio of member against non-member for each record; an attack, no bound.

    Online: log of the density of the target's log odds under the shadows trained with the record,
    minus that under the others. Offline: -log P(a shadow trained without it has larger log odds),
    an order of the records that is that of 1 - P in the paper, but without its ties near 1. What a
    model cannot resolve (votes of trees that are all the same) is put next to what it can.

    Args:
        outputs: what the target says about the candidates.
        shadows: what the shadows say about the same records in the same order.
        online: None is online if every record has a shadow trained with it.
        variance: "record": the variance of each record's shadows by itself, Gaussian law (the
            paper, for many shadows). "pooled": one variance for all (the paper, for few).
            "shrunk": a Student-t predictive law whose variance lies between these, by the
            empirical Bayes weights of Smyth (2004): nearly pooled for few shadows, nearly each
            record's own for many. Online, what training on the record adds is likewise drawn to
            what it adds for records like it. One law for all numbers of shadows; the default.

    Raises:
        InvalidArgument: shadows of other records, or too few of them: a variance needs two.

    """
    _check.choice("variance", variance, VARIANCES)
    phi, seen = resolve(log_odds(outputs), log_odds(shadows.outputs))
    if phi.ndim != 1 or seen.shape[1:] != phi.shape:
        raise InvalidArgument(
            f"the shadows were observed at {seen.shape[1]} records, the target at {phi.size}. "
            "Observe them at the same records in the same order."
        )
    if online is None:
        online = bool((shadows.inside == 1).any(axis=0).all())
    inside, floor = shadows.inside, _floor(seen, shadows.inside)
    without = _predictive(seen, inside == 0, variance, floor, "not trained on")
    if not online:
        return without.surprise(phi)
    within = _predictive(seen, inside == 1, variance, floor, "trained on")
    if variance == "shrunk":
        within, without = with_common_shift(within, without)
    return within.log_density(phi) - without.log_density(phi)


def resolve(phi: FloatArray, seen: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log odds of target and shadows, those of probability 0 or 1 next to the farthest others.

    A tree counts records and a forest votes: their 0 means "fewer than I can say", not 1e-45. That
    floor would put such records a hundred away from all others, and they alone would make up the
    variances. Half of the smallest probability that was said takes its place: log 2 beyond the
    largest log odds that were resolved by any of the models. Nothing changes where all were.
    """
    sizes = np.abs(np.concatenate([phi.ravel(), seen.ravel()]))
    if sizes.max(initial=0.0) < _UNRESOLVED:
        return phi, seen
    most = sizes[sizes < _UNRESOLVED].max(initial=0.0) + math.log(2)
    return np.clip(phi, -most, most), np.clip(seen, -most, most)


def _floor(values: FloatArray, inside: FloatArray) -> float:
    """The smallest variance to believe in: that of outputs known to a thousandth of their noise.

    Shadows that all say the same to the last digit (trees do) would else rule out all other values.
    """
    noise = 0.0
    for world in (0, 1):
        used = inside == world
        n = np.maximum(used.sum(axis=0), 1)
        squares = _squares(values, used, np.where(used, values, 0.0).sum(axis=0) / n)
        noise += float(squares.sum() / max((n - 1).sum(), 1))
    return max(1e-6 * noise, (1e-6 * float(np.abs(values).max())) ** 2, np.finfo(float).tiny)


def _predictive(
    values: FloatArray, used: FloatArray, variance: str, floor: float, words: str
) -> Predictive:
    """The law of a new value of each column, from the values used."""
    n = used.sum(axis=0)
    least = 2 if variance == "record" else 1
    if n.min() < least or n.max() < 2:
        i = int(n.argmin())
        raise InvalidArgument(
            f"record {i} has {n[i]} shadow(s) {words} it; variance={variance!r} needs {least} for "
            "every record and 2 for some. Train more shadows (4 in halves), pass online=False, or "
            "use method='rmia'."
        )
    mean = np.where(used, values, 0.0).sum(axis=0) / n
    squares = _squares(values, used, mean)
    pooled = max(float(squares.sum() / (n - 1).sum()), floor)
    certain, normal = np.zeros(mean.shape), np.full(mean.shape, np.inf)
    if variance == "pooled":
        return Predictive(mean, np.full(mean.shape, pooled), certain, normal)
    own = squares / np.maximum(n - 1, 1)
    if variance == "record":
        return Predictive(mean, np.maximum(own, floor), certain, normal)
    prior, center = shrinkage(squares, n - 1)
    freedom = n - 1 + prior
    share = 0.0 if math.isinf(prior) else (n - 1) / freedom
    shrunk = np.maximum(share * own + (1 - share) * center, floor)
    return Predictive(mean, shrunk, shrunk / n, freedom)


def _squares(values: FloatArray, used: FloatArray, mean: FloatArray) -> FloatArray:
    """Sums of squares about the mean of each column; what is rounding alone is zero."""
    squares = np.where(used, (values - mean) ** 2, 0.0).sum(axis=0)
    return np.where(squares > (1e-12 * np.abs(values).max()) ** 2, squares, 0.0)


def with_common_shift(within: Predictive, without: Predictive) -> tuple[Predictive, Predictive]:
    """Both laws, the difference of their means drawn to that of records like each.

    With few shadows the difference d of a record's two means is mostly noise, of variance
    e = e1 + e0, and often of the wrong sign. That noise is independent of the one in the center
    c = (e0 m1 + e1 m0) / e. Over records let d be a + b c up to a variance t: a and b by least
    squares, t by what is left beside noise. Then d is, given what was seen, Gaussian with
    mean w d + (1 - w)(a + b c) and variance w e, w = t / (t + e) (Efron and Morris 1973), and
    m1 = c + d e1 / e, m0 = c - d e0 / e have variances e1 - (1 - w) e1^2 / e and likewise e0.
    """
    error = within.error + without.error
    parts = within.error / error, without.error / error
    d = within.mean - without.mean
    counts = 1 / (error + error.mean())  # what is known better counts more
    usual = _line(within.mean - parts[0] * d, d, counts)
    noise = max(float(np.average((d - usual) ** 2 - error, weights=counts)), 0.0)
    weight = noise / (noise + error)
    excess = (1 - weight) * (d - usual)
    moved = zip((within, without), parts, (-1, 1), strict=True)
    first, second = (
        law._replace(
            mean=law.mean + sign * part * excess,
            error=law.error * (1 - (1 - weight) * part),
        )
        for law, part, sign in moved
    )
    return first, second


def _line(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted least-squares line through the points, at each x."""
    middle = np.average(x, weights=weights), np.average(y, weights=weights)
    away = x - middle[0]
    spread = float(weights @ away**2)
    slope = float((weights * away) @ (y - middle[1])) / max(spread, np.finfo(float).tiny)
    return middle[1] + slope * away


def shrinkage(squares: FloatArray, freedom: FloatArray) -> tuple[float, float]:
    """Degrees of freedom and variance of the prior that makes these sums of squares likely.

    If variances are center * prior / chi2(prior) and s^2 = sigma^2 chi2(d) / d, then log s^2 has
    variance trigamma(d / 2) + trigamma(prior / 2); its mean then gives the center (Smyth 2004,
    section 6.2). An infinite prior says that one variance explains all. Records with no degree of
    freedom or no variation say nothing.
    """
    use = (freedom > 0) & (squares > 0)
    if not use.any():
        return math.inf, float(np.finfo(float).tiny)
    d = freedom[use].astype(float)
    log_s2 = np.log(squares[use] / d) - special.digamma(d / 2) + np.log(d / 2)
    spread = float(np.var(log_s2, ddof=1)) if d.size > 1 else 0.0
    excess = spread - float(special.polygamma(1, d / 2).mean())
    if excess <= 1e-4:
        return math.inf, float(np.exp(log_s2.mean()))
    prior = 2 * _inverse_trigamma(excess)
    center = log_s2.mean() + special.digamma(prior / 2) - math.log(prior / 2)
    return prior, float(np.exp(center))


def _inverse_trigamma(y: float) -> float:
    """The x > 0 with trigamma(x) = y, by Newton's method on 1 / trigamma, which is convex."""
    x = 0.5 + 1 / y
    for _ in range(50):
        value = float(special.polygamma(1, x))
        step = value * (1 - value / y) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def rmia_scores(
    outputs: Outputs,
    shadows: Shadows,
    *,
    gamma: float = 1.0,
    online: bool | None = None,
    offline_slope: float = 0.3,
    population: tuple[Outputs, Shadows] | None = None,
) -> FloatArray:
    """The share of other records whose gain in probability this one's exceeds; an attack, no bound.

    With r(x) = p(x | target) / p(x), p(x) the average over models with and without x, the score is
    the share of population records z with r(x) / r(z) > gamma. Works with one or two shadows.
    (With one population for all records it orders them as r(x) does; gamma and the population
    then matter for thresholds, not for the order.)

    Args:
        outputs: what the target says about the candidates.
        shadows: what the shadows say about the same records in the same order.
        gamma: how much larger; positive.
        online: None is online if every record has a shadow trained with it. Offline, p(x) is
            ((1 + a) mean + 1 - a) / 2 of the shadows without it, since with it is larger.
        offline_slope: that a, in [0, 1]; 0.3 is the authors' choice, tuned on a pair of models.
            :func:`tune_offline_slope` tunes it on the attacker's own.
        population: what target and shadows say about other records; None takes the candidates.

    """
    gamma = _check.number("gamma", gamma, low=0, low_open=True)
    slope = _check.number("offline_slope", offline_slope, low=0, high=1)
    gains = _gain(outputs, shadows, online, slope)
    others = gains if population is None else _gain(*population, online, slope)
    return np.searchsorted(np.sort(others), gains / gamma) / others.size


def tune_offline_slope(shadows: Shadows) -> float:
    """The slope with which offline RMIA tells best who was in each of these shadows; an estimate.

    As ML Privacy Meter chooses it, on models whose members the attacker knows: its own. Every
    shadow is attacked in turn with the others as references, for slopes 0, 0.1, ..., 1; the one
    with the largest mean AUC is returned: near 1 where training on a record adds little to its
    probability, near 0 where it makes all probabilities large.

    Args:
        shadows: at least 4, observed at the records that they were trained on, design "halves".

    Raises:
        InvalidArgument: no shadow has records of both kinds that others were trained without.

    """
    p, found = shadows.outputs.of_label, []
    for i, inside in enumerate(shadows.inside):
        rest = np.arange(len(shadows)) != i
        without = _mean_where(p[rest], shadows.inside[rest] == 0)
        sides = [(inside == world) & ~np.isnan(without) for world in (1, 0)]
        if all(side.any() for side in sides):
            found.append([_auc(p[i] / _offline(without, slope), *sides) for slope in SLOPES])
    if not found:
        raise InvalidArgument(
            "no shadow has members and others that further shadows were trained without. Train 4 "
            "or more with train_shadows(..., design='halves'), and observe them at their own data."
        )
    return float(SLOPES[np.mean(found, axis=0).argmax()])


def _offline(without: FloatArray, slope: float) -> FloatArray:
    """The average over models with and without the record, from those without."""
    return np.maximum(((1 + slope) * without + 1 - slope) / 2, np.finfo(float).tiny)


def _auc(scores: FloatArray, inside: FloatArray, outside: FloatArray) -> float:
    others = np.sort(scores[outside])
    below, upto = (np.searchsorted(others, scores[inside], side) for side in ("left", "right"))
    return float((below + upto).mean() / 2 / others.size)


def _gain(outputs: Outputs, shadows: Shadows, online: bool | None, slope: float) -> FloatArray:
    p, q = outputs.of_label, shadows.outputs.of_label
    if p.ndim != 1 or q.shape[1:] != p.shape:
        raise InvalidArgument(
            f"the shadows were observed at {q.shape[1]} records, the target at {p.size}. "
            "Observe them at the same records in the same order."
        )
    within, without = _mean_where(q, shadows.inside == 1), _mean_where(q, shadows.inside == 0)
    if online is None:
        online = not np.isnan(within).any()
    if np.isnan(without).any() or (online and np.isnan(within).any()):
        raise InvalidArgument(
            "a record has no shadow trained without it, or, for online=True, none with it. Train "
            "more shadows, or pass online=False."
        )
    if not online:
        return p / _offline(without, slope)
    return p / np.maximum((within + without) / 2, np.finfo(float).tiny)


def _mean_where(values: FloatArray, used: FloatArray) -> FloatArray:
    """Means of columns over the values used; NaN where there are none."""
    n = used.sum(axis=0)
    total = np.where(used, values, 0.0).sum(axis=0)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)
