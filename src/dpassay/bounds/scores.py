"""Lower bounds on epsilon from scores: choose a threshold, pay for the choice, then count.

The threshold that looks best on the very scores that are then counted is biased towards luck; the
bound at it is not valid (measured: up to three times the nominal error with the Gaussian method).
Each rule here pays in its own way, and says so in the ``selection`` of the result.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check, _rng
from dpassay._rng import RngLike
from dpassay._special.quantiles import binomial_upper
from dpassay.bounds.bands import BANDS, common_level
from dpassay.bounds.counts import (
    METHODS,
    CountMethod,
    Counts,
    assumption,
    bound_at,
    epsilon_of_mu,
    epsilon_of_rates,
    mu_of_rates,
)
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray, LowerBound

ThresholdRule = Literal["auto", "split", "kfold", "band", "bonferroni", "dkw"]
RULES: tuple[ThresholdRule, ...] = get_args(ThresholdRule)
FOLDS = 5
CHOOSING = 0.25  # of the scores choose the threshold; a larger part leaves too few to test it
_WITH_BANDS = ("clopper-pearson", "gdp")


class Scores(NamedTuple):
    """The scores of both worlds, each in ascending order."""

    inside: FloatArray
    outside: FloatArray

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of trials with and without the canary."""
        return self.inside.size, self.outside.size

    def counts(self, threshold: Any) -> tuple[Any, Any]:
        """False positives and false negatives of the guess "in where score >= threshold"."""
        below = cast(Any, np.searchsorted(self.outside, threshold))
        missed = cast(Any, np.searchsorted(self.inside, threshold))
        return self.outside.size - below, missed

    def cuts(self, ranks: Callable[[int], FloatArray]) -> FloatArray:
        """Thresholds worth trying: the best for each of these numbers of errors in either world.

        Just above the (r+1)-th largest score outside at most r are false positives, and a lower
        threshold has more; at the (r+1)-th smallest score inside at most r are false negatives.
        """
        n_in, n_out = self.sizes
        above = self.outside[n_out - 1 - ranks(n_out).astype(int)]
        return np.concatenate([np.nextafter(above, np.inf), self.inside[ranks(n_in).astype(int)]])


def check_scores(
    scores_in: ArrayLike, scores_out: ArrayLike, at_least: int = 1
) -> list[FloatArray]:
    """Both arrays of scores, refused if they hold NaN or too few; infinities are scores."""
    remedy = "A trial that failed is an output too: give it a fixed score below all others (-inf)."
    arrays: list[FloatArray] = []
    for name, values in (("scores_in", scores_in), ("scores_out", scores_out)):
        x = _check.array(name, values, finite=False, ndim=1, empty=False, remedy=remedy)
        if x.size < at_least:
            raise InvalidArgument(
                f"{name} holds {x.size} score(s); this rule needs at least {at_least}. "
                "Play more trials or pass threshold='band'."
            )
        arrays.append(x)
    return arrays


def sort_scores(scores_in: ArrayLike, scores_out: ArrayLike) -> Scores:
    """Both arrays of scores, checked and in ascending order."""
    return Scores(*(np.sort(x) for x in check_scores(scores_in, scores_out)))


def lower_bound(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    method: CountMethod = "clopper-pearson",
    threshold: ThresholdRule | float = "auto",
    rng: RngLike = 0,
) -> LowerBound:
    """A lower bound on epsilon(delta) from the scores of trials with and without the canary.

    Args:
        scores_in: one score per independent trial with the canary; higher says "with".
        scores_out: one score per independent trial without it. Infinities are scores, NaN is not.
        delta: where on the privacy curve the bound is stated; in [0, 1).
        confidence: the probability that the bound holds; in (0, 1).
        method: as for :func:`dpassay.lower_bound_from_counts`; all but "clopper-pearson" carry
            an assumption.
        threshold: how the guess "in" where score >= threshold is chosen and paid for:
            a number is one fixed before the trials;
            "split" chooses on a random quarter of the scores and tests once on the rest;
            "kfold" does so with each fifth in turn at a fifth of the level and keeps the best;
            "dkw", "bonferroni" and "band" limit all thresholds at once and take the best
            (:mod:`dpassay.bounds.bands`; for "clopper-pearson" and "gdp");
            "auto" is "band" where it exists, else "split".
        rng: the seed of the random parts of "split" and "kfold"; the others draw nothing.

    Returns:
        The bound; its ceiling is what a perfect attack would have shown in as many trials.

    Raises:
        InvalidArgument: for NaN scores, an empty side, a level out of range, or a method that the
            rule cannot be combined with.

    >>> scores_in, scores_out = np.arange(300) + 200, np.arange(300)
    >>> print(lower_bound(scores_in, scores_out, delta=1e-5))
    epsilon >= 3.187 at delta=1e-05 (confidence 0.95, clopper-pearson; ceiling 3.716)

    """
    _check.choice("method", method, METHODS)
    delta, confidence = _check.delta(delta), _check.confidence(confidence)
    statement = _Statement(delta, confidence, method)
    if not isinstance(threshold, str):
        remedy = f"Or pass one of {', '.join(map(repr, RULES))}."
        fixed = _check.number("threshold", threshold, finite=False, remedy=remedy)
        return _at_fixed(sort_scores(scores_in, scores_out), fixed, statement)
    rule = _check.choice("threshold", threshold, RULES, remedy="Or pass a number.")
    if rule == "auto":
        rule = "band" if method in _WITH_BANDS else "split"
    if rule in BANDS:
        return _at_any(sort_scores(scores_in, scores_out), rule, statement)
    arrays = check_scores(scores_in, scores_out, at_least=2 if rule == "split" else FOLDS)
    return _BY_PARTS[rule](arrays, statement, _rng.generator(rng))


class _Statement(NamedTuple):
    """Where a bound is stated, its confidence and its method."""

    delta: float
    confidence: float
    method: str

    def statistic(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """What the best threshold maximises: mu for the Gaussian method, else epsilon."""
        if self.method == "gdp":
            return mu_of_rates(fpr, fnr)
        return epsilon_of_rates(fpr, fnr, self.delta)


def _at_fixed(scores: Scores, threshold: float, statement: _Statement, **paid: Any) -> LowerBound:
    fp, fn = (int(k) for k in scores.counts(threshold))
    n_in, n_out = scores.sizes
    counts = Counts(tp=n_in - fn, fn=fn, fp=fp, tn=n_out - fp)
    return bound_at(counts, threshold=threshold, **paid, **statement._asdict())


def _at_any(scores: Scores, kind: str, statement: _Statement) -> LowerBound:
    """The best threshold under limits that hold at all of them."""
    delta, confidence, method = statement
    if method not in _WITH_BANDS:
        raise InvalidArgument(
            f"method={method!r} has no limits that hold at every threshold, as threshold={kind!r} "
            "needs. Pass threshold='split' or 'kfold', or method='clopper-pearson' or 'gdp'."
        )
    n_in, n_out = scores.sizes
    level = common_level(kind, n_in, n_out, 1 - confidence)
    cuts, fpr, fnr = limits_at_cuts(scores, kind, level)
    values = statement.statistic(fpr, fnr)
    best = int(np.argmax(values))
    perfect = [BANDS[kind].limits(np.zeros(1), n, level) for n in (n_out, n_in)]
    value, most = float(values[best]), float(statement.statistic(*perfect)[0])
    numbers = {"fpr_upper": fpr[best], "fnr_upper": fnr[best], "level": level}
    mu = value if method == "gdp" else None
    if mu is not None:
        numbers["mu_lower"] = mu
        value, most = epsilon_of_mu(value, delta), epsilon_of_mu(most, delta)
    return LowerBound(
        epsilon=value,
        delta=delta,
        confidence=confidence,
        method="dkw" if kind == "dkw" and method == "clopper-pearson" else method,
        assumption=assumption(method),
        ceiling=most,
        threshold=float(cuts[best]),
        selection=f"the best of all thresholds; {BANDS[kind].words}",
        details={name: float(x) for name, x in numbers.items()},
        mu_lower=mu,
    )


def limits_at_cuts(
    scores: Scores, kind: str, level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Thresholds, and upper limits on both error rates that hold at all of them together."""
    band, (n_in, n_out) = BANDS[kind], scores.sizes
    cuts = scores.cuts(band.ranks)
    fp, fn = scores.counts(cuts)
    return cuts, band.limits(fp, n_out, level), band.limits(fn, n_in, level)


def _choose(scores: Scores, statement: _Statement, alpha: float) -> float:
    """The threshold with the best bound on the choosing part, moved to the middle of its gap.

    Limits rather than rates are compared, so that a threshold without errors by luck does not win.
    mu hardly depends on the threshold, so that luck would decide: its limits are more cautious.
    """
    level = alpha / 2 * (0.01 if statement.method == "gdp" else 1.0)
    cuts = scores.cuts(BANDS["band"].ranks)
    (n_in, n_out), (fp, fn) = scores.sizes, scores.counts(cuts)
    limits = binomial_upper(fp, n_out, level), binomial_upper(fn, n_in, level)
    value = statement.statistic(*limits)
    if not value.max() > 0:
        value = -(fp / n_out + fn / n_in)
    return _middle_of_gap(scores, float(cuts[np.argmax(value)]))


def _middle_of_gap(scores: Scores, threshold: float) -> float:
    """A threshold with the same counts, as far as can be from the scores on either side."""
    below: list[float] = []
    above: list[float] = []
    for x in scores:
        i = int(np.searchsorted(x, threshold))
        below += [float(x[i - 1])] if i > 0 else []
        above += [float(x[i])] if i < x.size else []
    if not below or not above:
        return threshold
    largest = float(np.finfo(float).max)
    low, high = max(max(below), -largest), min(min(above), largest)
    middle = float(low / 2 + high / 2)
    return middle if max(below) < middle <= min(above) else threshold


def _test(
    choosing: list[FloatArray],
    testing: list[FloatArray],
    statement: _Statement,
    *,
    share: float = 1.0,
    selection: str,
) -> LowerBound:
    """Choose on one part, test once on the other, which knows nothing of the choice."""
    alpha = (1 - statement.confidence) * share
    chosen = _choose(Scores(*map(np.sort, choosing)), statement, alpha)
    tested = Scores(*map(np.sort, testing))
    return _at_fixed(tested, chosen, statement, share=share, selection=selection)


def _by_split(
    arrays: list[FloatArray], statement: _Statement, rng: np.random.Generator
) -> LowerBound:
    orders = [rng.permutation(x.size) for x in arrays]
    sizes = [max(1, int(CHOOSING * x.size)) for x in arrays]
    choosing = [x[order[:k]] for x, order, k in zip(arrays, orders, sizes, strict=True)]
    testing = [x[order[k:]] for x, order, k in zip(arrays, orders, sizes, strict=True)]
    words = f"chosen on a random {CHOOSING:.0%} of the scores, tested once on the rest"
    return _test(choosing, testing, statement, selection=words)


def _by_folds(
    arrays: list[FloatArray], statement: _Statement, rng: np.random.Generator
) -> LowerBound:
    """Union over folds: each errs with alpha / FOLDS at most, so the best errs with alpha."""
    folds = [rng.permutation(x.size) % FOLDS for x in arrays]
    words = (
        f"chosen on each of {FOLDS} folds, tested on the rest at 1/{FOLDS} of the level, best kept"
    )
    bounds: list[LowerBound] = []
    for i in range(FOLDS):
        choosing = [x[fold == i] for x, fold in zip(arrays, folds, strict=True)]
        testing = [x[fold != i] for x, fold in zip(arrays, folds, strict=True)]
        bounds.append(_test(choosing, testing, statement, share=1 / FOLDS, selection=words))
    best = max(bounds, key=lambda bound: bound.epsilon)
    return replace(best, ceiling=max(bound.ceiling for bound in bounds))


_BY_PARTS = {"split": _by_split, "kfold": _by_folds}
