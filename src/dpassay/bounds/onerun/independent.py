"""The bound for independent canaries: which guesses are made, and which family is searched."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpassay.bounds.labels import epsilon_label
from dpassay.bounds.onerun import fdp
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.bounds.onerun.dpsgd import DPSGDForm, certainty_of_event
from dpassay.bounds.onerun.guesses import Audit, Candidates
from dpassay.bounds.onerun.product import LARGEST, FixedCount, Member
from dpassay.bounds.onerun.ranking import IntArray, rank
from dpassay.bounds.onerun.weighted import WeightedCount, cut_ranks, draws_for, weigh
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP
from dpassay.privacy.events import Event
from dpassay.types import NO_ASSUMPTION, FloatArray, LowerBound, PrivacyCurve

INDEPENDENT = "canaries independent given their coins"
_SMALLEST_LEVEL = 1e-3  # below it null laws are not drawn: half of the canaries are guessed instead
_ROUGH = 1e-3  # how closely a ceiling is found

AnyFamily = str | fdp.Family | DPSGDForm
AnyClaim = PrivacyCurve | Event | None


@dataclass(frozen=True)
class Nested:
    """A nested family: a member for every positive number, larger ones less private.

    Attributes:
        member: how certain guesses can be under a member.
        epsilon: epsilon(delta) of a member, from below; 0 for 0.
        assumption: what a bound believes.
        most: the largest number.

    """

    member: Member
    epsilon: Callable[[float], float]
    assumption: str
    most: float = LARGEST


@dataclass(frozen=True)
class Counted:
    """Guesses that were made, with the test that goes with them.

    Attributes:
        count: the wrong ones.
        perfect: the same had no guess been wrong that need not be.
        guesses: how many were made.
        correct: how many of them are right.
        threshold: how many of the highest and of the lowest scores, where that was given.
        selection: how the guesses were chosen.

    """

    count: FixedCount | WeightedCount
    perfect: FixedCount
    guesses: int
    correct: int
    threshold: tuple[int, int] | None
    selection: str


def find_bound(
    audit: Audit,
    numbers: int | tuple[int, int] | None,
    family: AnyFamily,
    claim: AnyClaim,
    centre: float | None,
) -> LowerBound:
    """The largest member of the family that is refuted, as an epsilon, and the claim's p-value.

    Args:
        audit: scores, coins and level.
        numbers: how many guesses, or how many of the highest and the lowest scores; None for all
            canaries, weighted.
        family: see :func:`dpassay.one_run`.
        claim: see there.
        centre: where scores say nothing; None for the median.

    """
    seed = int(audit.rng.integers(2**32))
    # Whoever drew the coins by the same seed must not find them again in how ties are broken.
    audit = replace(audit, rng=np.random.default_rng([seed, *b"ties"]))
    sides = _sides(audit, numbers)
    nested = _nest(family, audit.delta, sides)
    tested = _certainty_claimed(family, claim, sides, nested)
    weighted_by = tested or nested.member(min(1.0, nested.most))
    counted = _count(audit, numbers, centre, weighted_by, seed)
    place = _place(family, claim)
    theta = counted.count.largest_refuted(nested.member, audit.level, nested.most)
    p_value = None
    if tested is not None:
        p_value = counted.count.p_value(tested, searched=place is not None)
    if p_value is not None and place is not None:
        # Draws differ between members; the bound and the test of a member say the same.
        theta = min(theta, place) if p_value > audit.level else max(theta, place)
    most = counted.perfect.largest_refuted(nested.member, audit.level, nested.most, _ROUGH)
    return _state(audit, counted, nested, theta, max(most, theta), p_value, family)


def _state(
    audit: Audit,
    counted: Counted,
    nested: Nested,
    theta: float,
    most: float,
    p_value: float | None,
    family: AnyFamily,
) -> LowerBound:
    count = counted.count
    details = {
        "canaries": float(audit.canaries),
        "guesses": float(counted.guesses),
        "correct": float(counted.correct),
        "level": audit.level,
    }
    if isinstance(count, WeightedCount):
        details |= {"simulations": float(count.draws), "seed": float(count.seed)}
    if isinstance(family, DPSGDForm):
        details |= family.describe(theta)
    epsilon = nested.epsilon(theta)
    return LowerBound(
        epsilon=epsilon,
        delta=audit.delta,
        confidence=1 - audit.level,
        method="product",
        assumption=nested.assumption,
        ceiling=max(nested.epsilon(most), epsilon),
        threshold=counted.threshold,
        selection=counted.selection,
        details=details,
        p_value=p_value,
        mu_lower=theta if _is_gdp(family) else None,
    )


def _is_gdp(family: AnyFamily) -> bool:
    return family == "gdp" or family is GDP


def _nest(family: AnyFamily, delta: float, sides: str) -> Nested:
    """The family as what a search needs; its members are kept, since some take long to make."""
    if delta == 0 and (_is_gdp(family) or isinstance(family, DPSGDForm)):
        raise InvalidArgument(
            "delta=0 gives Gaussian noise of every scale an infinite epsilon. Pass delta > 0, such "
            "as 1e-5, or family=PureDP."
        )
    if isinstance(family, DPSGDForm):
        form = family
        return Nested(
            functools.cache(functools.partial(form.certainty, sides=sides)),
            functools.cache(functools.partial(form.epsilon_lower, delta=delta)),
            form.assumption,
            form.most,
        )
    curve, assumption = fdp.family_member("gdp" if _is_gdp(family) else family, delta)

    def member(theta: float) -> Certainty:
        return Certainty.of_curve(curve(theta), sides)

    return Nested(
        functools.cache(member),
        lambda theta: epsilon_label(curve(theta), delta) if theta > 0 else 0.0,
        INDEPENDENT if assumption == NO_ASSUMPTION else f"{assumption}, {INDEPENDENT}",
    )


def _certainty_claimed(
    family: AnyFamily, claim: AnyClaim, sides: str, nested: Nested
) -> Certainty | None:
    """How certain guesses can be under the claim; that of a form of DP-SGD is itself."""
    if isinstance(claim, Event):
        return certainty_of_event(claim, sides)
    if claim is not None:
        return Certainty.of_curve(claim, sides)
    return nested.member(1.0) if isinstance(family, DPSGDForm) else None


def _place(family: AnyFamily, claim: AnyClaim) -> float | None:
    """The parameter of a claim that is a member of the family."""
    if isinstance(family, DPSGDForm):
        return 1.0 if claim is None else None
    return claim.mu if _is_gdp(family) and isinstance(claim, GDP) else None


def _sides(audit: Audit, numbers: int | tuple[int, int] | None) -> str:
    """Which kinds of guess are made: by two given numbers, else as asked."""
    if not isinstance(numbers, tuple):
        return audit.sides
    return "both" if all(numbers) else ("top" if numbers[0] else "bottom")


def _count(
    audit: Audit,
    numbers: int | tuple[int, int] | None,
    centre: float | None,
    certainty: Certainty,
    seed: int,
) -> Counted:
    """The guesses and the test; weights are taken from the certainty, null laws from the seed."""
    if isinstance(numbers, tuple):
        return _count_ends(audit, *numbers)
    distance, says_in = _guess(audit, centre)
    wrong, m = says_in != audit.members, audit.canaries
    if numbers is None and audit.level >= _SMALLEST_LEVEL:
        return _count_all(audit, distance, wrong, weigh(certainty, cut_ranks(m)), seed)
    guesses = max(m // 2, 1) if numbers is None else numbers
    errors = int(rank(distance, wrong, [guesses], audit.rng).members_among[guesses])
    text = f"the {guesses} most certain, their number fixed in advance"
    tests = FixedCount(m, guesses, errors), FixedCount(m, guesses, 0)
    return Counted(*tests, guesses, guesses - errors, None, text)


def _count_all(
    audit: Audit, distance: FloatArray, wrong: NDArray[np.bool_], weights: IntArray, seed: int
) -> Counted:
    """All canaries, weighted by group."""
    m, cuts = audit.canaries, cut_ranks(audit.canaries)
    among = rank(distance, wrong, cuts.tolist(), audit.rng).members_among[cuts]
    seen = int(np.diff(among, prepend=0) @ weights)
    count = WeightedCount(cuts, weights, seen, seed, draws_for(audit.level))
    text = f"all canaries in {cuts.size} groups of certainty, weighted; no number to choose"
    return Counted(count, FixedCount(m, m, 0), m, m - int(among[-1]), None, text)


def _count_ends(audit: Audit, top: int, bottom: int) -> Counted:
    """The highest scores are guessed in, the lowest out."""
    candidates = Candidates(np.array([top]), np.array([bottom]))
    ranking, guesses = audit.rank(candidates), top + bottom
    correct, most = (
        int(count(candidates.top, candidates.bottom)[0])
        for count in (ranking.correct, ranking.perfect)
    )
    tests = [FixedCount(audit.canaries, guesses, guesses - right) for right in (correct, most)]
    return Counted(tests[0], tests[1], guesses, correct, (top, bottom), "fixed in advance")


def _guess(audit: Audit, centre: float | None) -> tuple[FloatArray, NDArray[np.bool_]]:
    """How certain each guess is, and whether it says "in"; from the scores alone."""
    scores = audit.scores
    if audit.sides != "both":
        says_in = audit.sides == "top"
        return (scores if says_in else -scores), np.full(scores.size, says_in)
    centre = float(np.median(scores)) if centre is None else centre
    with np.errstate(invalid="ignore"):
        away = np.nan_to_num(scores - centre, nan=0.0, posinf=np.inf, neginf=-np.inf)
    by_coin = audit.rng.random(scores.size) < 0.5
    return np.abs(away), np.where(away == 0, by_coin, away > 0)
