"""Sentences of Micali 2022 about its figures, made precise and held against the numbers.

Repetitions are independent and have their own data; so what is compared is one number for each of
them, with Student's interval (:mod:`dpassay_reproduce.claims`). "A is B" means that they differ by
less than two per cent, the document's red band.
"""

from collections.abc import Sequence

import numpy as np

from dpassay.types import FloatArray
from dpassay_reproduce.claims import (
    FEWEST,
    UNDECIDED,
    Claim,
    Estimate,
    Verdict,
    compare_deviations,
    decide,
    estimate,
    estimate_difference,
    estimate_rows,
    judge_above,
    judge_all,
    judge_within,
)
from dpassay_reproduce.thesis.frame import BAND, Accuracies

SMALL = 0.2  # epsilons up to this are "meaningless" in the document
SEVERAL = "fails if half or more are not."


def is_above(text: str, what: str, differences: FloatArray, least: float = 0.0) -> Claim:
    """That differences, one for each repetition, are above ``least`` on average."""
    seen = estimate(differences)
    criterion = f"this is above {100 * least:g} %, with its interval; fails if it is not above."
    return Claim(text, criterion, judge_above(seen, least), f"{what} {seen.percent()}.")


def is_within(text: str, what: str, rows: FloatArray, low: float, high: float) -> Claim:
    """That the averages of all rows, whose columns are repetitions, lie in [low, high]."""
    seen = estimate_rows(np.atleast_2d(rows))
    criterion = (
        f"every average is within {100 * low:.3g} and {100 * high:.3g} %, with its interval; "
        "fails if one is outside."
    )
    verdict = judge_all(judge_within(each, low, high) for each in seen)
    return Claim(text, criterion, verdict, f"{what} {_span(seen)}.")


def _span(seen: Sequence[Estimate]) -> str:
    least, most = (pick(seen, key=lambda e: e.value) for pick in (min, max))
    return least.percent() if len(seen) == 1 else f"{least.percent()} to {most.percent()}"


def guesses(text: str, seen: Sequence[Accuracies]) -> Claim:
    """That every average is within 50 ± 2 %."""
    rows = np.concatenate([each.values for each in seen])
    return is_within(text, "averages are", rows, 0.5 - BAND, 0.5 + BAND)


def look_alike(text: str, one: Accuracies, other: Accuracies) -> Claim:
    """That two learners' averages over epsilon differ by less than 2 %."""
    apart = estimate((one.values - other.values).mean(axis=0))
    criterion = "averaged over ε, the accuracies differ by less than 2 %; fails if by more."
    verdict = judge_within(apart, -BAND, BAND)
    return Claim(text, criterion, verdict, f"they differ by {apart.percent()}.")


def protection(*seen: Accuracies) -> FloatArray:
    """By how much the attack without privacy is better, over all epsilons; for each repetition."""
    return np.mean([each.non_private - each.values for each in seen], axis=(0, 1))


def mostly_below_plain(text: str, seen: Accuracies) -> Claim:
    """That more than half of the averages are below the attack without privacy, not by chance."""
    share = float((seen.mean < seen.non_private.mean()).mean())
    below = estimate(protection(seen))
    found = (
        f"{100 * share:.0f} % of {seen.label}'s averages are below "
        f"{100 * seen.non_private.mean():.1f} %, by {below.percent()} on average."
    )
    criterion = (
        "more than half are below, and their mean over ε is, with its interval; fails if half or "
        "more are not, and their mean is not below."
    )
    verdict = decide(share > 0.5 and below.low > 0, share <= 0.5 and below.high <= 0)
    return Claim(text, criterion, verdict, found)


def find_settling(seen: Accuracies) -> float:
    """The least epsilon from which on all averages are within 2 % of the last one."""
    return _settling(seen.epsilons, seen.mean)


def _settling(epsilons: FloatArray, mean: FloatArray) -> float:
    away = np.flatnonzero(np.abs(mean - mean[-1]) > BAND)
    return float(epsilons[away[-1] + 1] if away.size else epsilons[0])


def settles_sooner(text: str, one: Accuracies, other: Accuracies) -> Claim:
    """That one learner's averages stay near their last one from a smaller epsilon on."""
    first, second = find_settling(one), find_settling(other)
    criterion = (
        "its averages stay within 2 % of the last from a smaller ε on, whichever repetition is "
        "left out; fails if they do not, whichever is."
    )
    found = (
        f"{one.label} is within 2 % of its last average from ε = {first:g} on, {other.label} from "
        f"{second:g} on."
    )
    return Claim(text, criterion, _judge_sooner(one, other), found)


def _judge_sooner(one: Accuracies, other: Accuracies) -> Verdict:
    """Chance by leaving out: what one repetition can turn round is not decided."""
    columns = range(one.values.shape[1])
    if len(columns) < FEWEST:
        return UNDECIDED
    sooner = [
        _settling(one.epsilons, np.delete(one.values, r, axis=1).mean(axis=1))
        < _settling(other.epsilons, np.delete(other.values, r, axis=1).mean(axis=1))
        for r in columns
    ]
    return decide(all(sooner), not any(sooner))


def wider_at_small(text: str, seen: Sequence[Accuracies]) -> Claim:
    """That highest and lowest are farther apart for epsilon up to .2 than above."""
    more = [
        compare_deviations(each.values[each.epsilons <= SMALL], each.values[each.epsilons > SMALL])
        for each in seen
    ]
    found = "; ".join(
        f"{each.label} {100 * each.spread[each.epsilons <= SMALL].mean():.1f} % against "
        f"{100 * each.spread[each.epsilons > SMALL].mean():.1f} %, the mean deviation more by "
        f"{one.percent()}"
        for each, one in zip(seen, more, strict=True)
    )
    criterion = (
        "for both, repetitions deviate more from their averages up to ε = 0.2 than above; fails if "
        "those of one deviate less."
    )
    return Claim(text, criterion, judge_all(map(judge_above, more)), f"{found}.")


def spreads_more(text: str, one: Accuracies, other: Accuracies) -> Claim:
    """That repetitions of one experiment are farther from their averages than another's."""
    more = compare_deviations(one.values, other.values)
    found = (
        f"highest less lowest is {100 * one.spread.mean():.1f} % on average against "
        f"{100 * other.spread.mean():.1f} %; mean deviations are larger by {more.percent()}."
    )
    criterion = "repetitions deviate more from their averages; fails if they deviate less."
    return Claim(text, criterion, judge_above(more), found)


def is_straighter(text: str, flat: Accuracies, steep: Accuracies) -> Claim:
    """That the logarithmic fit of one experiment is flatter than that of another."""
    sizes = [each.slopes * np.sign(each.slopes.mean()) for each in (flat, steep)]
    more = estimate_difference(sizes[1], sizes[0])
    found = (
        f"{flat.label}'s slopes in log ε are {_percents(flat.slopes.mean(), steep.slopes.mean())}; "
        f"the second is steeper by {more.percent(2)}."
    )
    criterion = "the second slope in log ε is larger in size; fails if it is smaller."
    return Claim(text, criterion, judge_above(more), found)


def _percents(*values: float) -> str:
    return " and ".join(f"{100 * value:+.2f} %" for value in values)


def drops_by(text: str, low: float, high: float, before: FloatArray, after: FloatArray) -> Claim:
    """That a quantity, known by independent repetitions, drops by an amount in [low, high]."""
    drop = estimate_difference(before, after)
    criterion = (
        f"the drop is {100 * low:g} to {100 * high:g} %, with its interval; fails if the interval "
        "is outside."
    )
    return Claim(text, criterion, judge_within(drop, low, high), f"it drops by {drop.percent()}.")
