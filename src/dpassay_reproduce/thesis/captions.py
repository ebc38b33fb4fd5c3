"""Sentences of Micali 2022 about its figures, made precise and held against the numbers.

Averages over ten repetitions of 600 guesses have a standard error of about .6 %, so "A is above B"
is taken to hold if the mean difference over repetitions exceeds three of its standard errors (by
chance that happens to fewer than one in a hundred), and "A is B" if they differ by less than two
per cent, the document's red band.
"""

import math
from collections.abc import Sequence

import numpy as np

from dpassay.types import FloatArray
from dpassay_reproduce.thesis.frame import BAND, Accuracies, Claim

_SURE = 3  # standard errors; one-sided, with ten repetitions: .75 %
SMALL = 0.2  # epsilons up to this are "meaningless" in the document


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """The mean of independent values and its standard error; infinite for a single one."""
    if len(values) < 2:
        return float(np.mean(values)), math.inf
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def is_above(text: str, what: str, differences: FloatArray, least: float = 0.0) -> Claim:
    """That differences, one for each repetition, are above ``least`` on average."""
    mean, error = mean_and_error(differences)
    return Claim(text, mean - least > _SURE * error, f"{what} {100 * mean:+.1f} %{_within(error)}.")


def _within(*errors: float) -> str:
    """Standard errors, in brackets; nothing where one repetition gives none."""
    if math.inf in errors:
        return ""
    shown = " and ".join(f"{100 * error:.2g} %" for error in errors)
    return f" (standard error{'s' if len(errors) > 1 else ''} {shown})"


def is_within(text: str, what: str, values: FloatArray, low: float, high: float) -> Claim:
    """That all values, averages over repetitions, lie in [low, high]."""
    least, most = float(np.min(values)), float(np.max(values))
    span = f"{100 * least:.1f} %" + (f" to {100 * most:.1f} %" if most > least else "")
    return Claim(text, low <= least and most <= high, f"{what} {span}.")


def guesses(text: str, seen: Sequence[Accuracies]) -> Claim:
    """That every average is within 50 ± 2 %."""
    averages = np.concatenate([each.mean for each in seen])
    return is_within(text, "averages are", averages, 0.5 - BAND, 0.5 + BAND)


def look_alike(text: str, one: Accuracies, other: Accuracies) -> Claim:
    """That two learners' averages differ by less than 2 %, on average over epsilon."""
    apart = float(np.abs(one.mean - other.mean).mean())
    return Claim(text, apart < BAND, f"the averages are {100 * apart:.1f} % apart on average.")


def protection(*seen: Accuracies) -> FloatArray:
    """By how much the attack without privacy is better, over all epsilons; for each repetition."""
    return np.mean([each.non_private - each.values for each in seen], axis=(0, 1))


def mostly_below_plain(text: str, seen: Accuracies) -> Claim:
    """That more than half of the averages are below the attack without privacy, not by chance."""
    share = float((seen.mean < seen.non_private.mean()).mean())
    mean, error = mean_and_error(protection(seen))
    found = (
        f"{100 * share:.0f} % of {seen.label}'s averages are below {_percent(seen.non_private)}, "
        f"by {100 * mean:.1f} % on average{_within(error)}."
    )
    return Claim(text, share > 0.5 and mean > _SURE * error, found)


def _percent(values: FloatArray) -> str:
    return f"{100 * float(np.mean(values)):.1f} %"


def find_settling(seen: Accuracies) -> float:
    """The least epsilon from which on all averages are within 2 % of the last one."""
    away = np.flatnonzero(np.abs(seen.mean - seen.mean[-1]) > BAND)
    return float(seen.epsilons[away[-1] + 1] if away.size else seen.epsilons[0])


def settles_sooner(text: str, one: Accuracies, other: Accuracies) -> Claim:
    """That one learner's averages stay near their last one from a smaller epsilon on."""
    first, second = find_settling(one), find_settling(other)
    found = (
        f"{one.label} is within 2 % of its last average from ε = {first:g} on, {other.label} from "
        f"{second:g} on."
    )
    return Claim(text, first < second, found)


def wider_at_small(text: str, seen: Sequence[Accuracies]) -> Claim:
    """That highest and lowest are a quarter farther apart for epsilon up to .2 than above."""
    pairs = [
        (each.spread[each.epsilons <= SMALL].mean(), each.spread[each.epsilons > SMALL].mean())
        for each in seen
    ]
    found = "; ".join(
        f"{each.label} {100 * small:.1f} % against {100 * large:.1f} %"
        for each, (small, large) in zip(seen, pairs, strict=True)
    )
    return Claim(text, all(small > 1.25 * large for small, large in pairs), f"{found}.")


def slopes(seen: Accuracies) -> FloatArray:
    """B of the fit a + b log(epsilon), of every repetition."""
    return np.polyfit(np.log(seen.epsilons), seen.values, 1)[0]


def is_straighter(text: str, flat: Accuracies, steep: Accuracies) -> Claim:
    """That the logarithmic fit of one experiment is flatter than that of another."""
    (b, error), (c, other) = (mean_and_error(slopes(each)) for each in (flat, steep))
    found = (
        f"{flat.label}'s slopes in log ε are {100 * b:+.2f} % and {100 * c:+.2f} %"
        f"{_within(error, other)}."
    )
    return Claim(text, abs(c) - abs(b) > _SURE * math.hypot(error, other), found)
