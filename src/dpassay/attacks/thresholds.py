"""From scores to guesses: where to cut, what the attacker must know for it, and what it costs.

A cut that was fixed before the scores were seen is counted exactly. One that was read off the
scores themselves is paid for by bands that hold at every cut at once
(:mod:`dpassay.bounds.bands`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay._special.quantiles import binomial_lower, binomial_upper
from dpassay.attacks.outputs import Outputs
from dpassay.attacks.scores import METRICS, metric_scores
from dpassay.attacks.shadows import Shadows
from dpassay.bounds import Interval
from dpassay.bounds.bands import BANDS, common_level
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


@dataclass(frozen=True, eq=False)
class Cut:
    """Where scores are cut: at ``value``, for all records or for each class.

    ``knows`` is what the attacker must know for it; an ``oracle`` knows what is to be found out.
    ``chosen_here`` says that it was read off the scores that are then counted.
    """

    rule: str
    value: float | FloatArray
    knows: str
    oracle: bool = False
    chosen_here: bool = True

    def at(self, labels: Any) -> Any:
        """The threshold that applies to each record."""
        return self.value[labels] if isinstance(self.value, np.ndarray) else self.value


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of members, then of non-members, with what a rule may look at besides."""

    scores: FloatArray
    n_in: int
    method: str
    outputs: Outputs
    shadows: Shadows | None

    @property
    def sides(self) -> tuple[FloatArray, FloatArray]:
        """The scores of members and of non-members."""
        return self.scores[: self.n_in], self.scores[self.n_in :]


def _median(scored: Scored) -> Cut:
    """The cut at which as many records are called members as there are."""
    ordered = np.sort(scored.scores)
    value = float(ordered[ordered.size - scored.n_in])
    return Cut("median", value, "how many candidates are members")


def _mean_training_loss(scored: Scored) -> Cut:
    if scored.method != "loss":
        raise InvalidArgument(
            f"threshold='mean-training-loss' goes with method='loss', not {scored.method!r}."
        )
    knows = "the mean training loss (Yeom et al. 2018)"
    return Cut("mean-training-loss", float(scored.sides[0].mean()), knows)


def _mean_of_both(scored: Scored) -> Cut:
    means = [float(side.mean()) for side in scored.sides]
    knows = "the mean score of members and of non-members: it uses the split that it looks for"
    return Cut("mean-of-both", sum(means) / 2, knows, oracle=True)


def _on_shadows(scored: Scored) -> Cut:
    scores, inside, _ = _shadow_scores(scored)
    knows = "a threshold fitted on shadow models"
    value = best_cut(scores[inside == 1], scores[inside == 0])
    return Cut("shadow", value, knows, chosen_here=False)


def _on_shadows_per_class(scored: Scored) -> Cut:
    scores, inside, labels = _shadow_scores(scored)
    wanted = np.unique(scored.outputs.classes)
    values = np.full(int(labels.max()) + 1, np.nan)
    for label in np.unique(labels):
        sides = [scores[(labels == label) & (inside == world)] for world in (1, 0)]
        if min(map(len, sides)) > 0:
            values[label] = best_cut(*sides)
    missing = [c for c in wanted.tolist() if c >= values.size or np.isnan(values[c])]
    if missing:
        raise InvalidArgument(
            f"class {missing[0]} has no members or no non-members among the shadows. Train more "
            "shadows, or pass threshold='shadow'."
        )
    knows = "a threshold per class fitted on shadow models (Song and Mittal 2021)"
    return Cut("shadow-per-class", values, knows, chosen_here=False)


RULES: dict[str, Callable[[Scored], Cut]] = {
    "median": _median,
    "mean-training-loss": _mean_training_loss,
    "mean-of-both": _mean_of_both,
    "shadow": _on_shadows,
    "shadow-per-class": _on_shadows_per_class,
}


def _shadow_scores(scored: Scored) -> tuple[FloatArray, Any, Any]:
    if scored.shadows is None or scored.method not in METRICS:
        raise InvalidArgument(
            f"a threshold fitted on shadows needs shadows= and a metric (one of "
            f"{', '.join(METRICS)}), not method={scored.method!r}."
        )
    outputs, inside = scored.shadows.outputs, scored.shadows.inside
    used = inside >= 0
    labels = np.broadcast_to(0 if outputs.labels is None else outputs.labels, used.shape)
    return metric_scores(outputs, scored.method)[used], inside[used], labels[used]


def best_cut(scores_in: FloatArray, scores_out: FloatArray) -> float:
    """The threshold with the largest TPR - FPR on these scores: for scores that do not count."""
    if min(scores_in.size, scores_out.size) == 0:
        raise InvalidArgument("the shadows hold no members or no non-members to fit a threshold.")
    cuts = np.unique(scores_in)
    missed = np.searchsorted(np.sort(scores_in), cuts) / scores_in.size
    right = np.searchsorted(np.sort(scores_out), cuts) / scores_out.size
    return float(cuts[np.argmax(right - missed)])


@dataclass(frozen=True)
class Rates:
    """Accuracy over all records, true- and false-positive rate of the guesses, as intervals."""

    accuracy: Interval
    tpr: Interval
    fpr: Interval


def rates(
    margins_in: FloatArray, margins_out: FloatArray, chosen_here: bool, level: float
) -> Rates:
    """The rates of "member where the margin is not negative"; each interval errs ``level`` at most.

    Fixed cuts: Clopper-Pearson. The number of right guesses among all records is a sum of
    independent coins that are not all alike; beyond its mean such a sum has lighter tails than the
    binomial of the same mean (Hoeffding 1956), so that the interval for accuracy holds too. So
    does that for members drawn from the training set without replacement: a hypergeometric count
    is such a sum (Vatutin and Mikhailov 1982). Cuts read off these scores: bands on all four rates
    of being right and wrong, which hold together and at every cut.
    """
    n_in, n_out = margins_in.size, margins_out.size
    tp, fp = int((margins_in >= 0).sum()), int((margins_out >= 0).sum())
    if chosen_here:
        return _by_bands(tp, fp, n_in, n_out, level)
    return Rates(
        _exact(tp + n_out - fp, n_in + n_out, level),
        _exact(tp, n_in, level),
        _exact(fp, n_out, level),
    )


def _exact(k: int, n: int, level: float) -> Interval:
    lower = float(binomial_lower(k, n, level / 2))
    upper = float(binomial_upper(k, n, level / 2))
    return Interval(k / n, lower, upper, 1 - level, "clopper-pearson")


def _by_bands(tp: int, fp: int, n_in: int, n_out: int, level: float) -> Rates:
    """Three intervals from one set of bands, which may err three times the level."""
    each = common_level("band", n_in, n_out, 3 * level / 2)

    def between(k: int, n: int) -> Interval:
        ends = (float(BANDS["band"].limits(np.array([float(x)]), n, each)[0]) for x in (n - k, k))
        return Interval(k / n, 1 - next(ends), next(ends), 1 - level, "band")

    tpr, fpr = between(tp, n_in), between(fp, n_out)
    share = n_in / (n_in + n_out)
    value, lower, upper = (
        share * t + (1 - share) * (1 - f)
        for t, f in ((tpr.value, fpr.value), (tpr.lower, fpr.upper), (tpr.upper, fpr.lower))
    )
    return Rates(Interval(value, lower, upper, 1 - level, "band"), tpr, fpr)
