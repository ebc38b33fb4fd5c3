"""Audits that are watched trial by trial, and may stop whenever they have seen enough.

:class:`SequentialTest` bets against one claim, a whole privacy curve; :class:`ConfidenceSequence`
bets against a nested family of them and gives a lower bound on epsilon that holds at all times
together. Both take trials in the order of their numbers; results are the same, bit for bit, however
the trials are split into updates. The mathematics is in :mod:`dpassay.bounds.betting` (which bets
are valid) and :mod:`dpassay.bounds.wealth` (why wealth is evidence).
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, down
from dpassay.bounds.betting import FORMS, dearer
from dpassay.bounds.families import FAMILIES, Family, check_curve
from dpassay.bounds.watch import Ranked, Shares, Watch
from dpassay.bounds.wealth import Book
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray, LowerBound, PrivacyCurve

FormName = Literal["coin", "pairs", "shared-seed"]


class SequentialTest:
    """A test of one claim, valid at all times: refuted once the wealth won by betting is 1/alpha.

    If the claim holds, ``refuted`` ever becomes true with probability at most alpha =
    1 - confidence, over all trials together. A claim that is not refuted is not thereby true.

    Args:
        claim: any privacy curve; its delta values are taken as upper bounds.
        confidence: in (0, 1).
        form: "coin": the world of every trial is a fair coin, independent of all before; worlds
            that were dealt out in equal numbers are no coins. "pairs": trials 2k and 2k+1 are one
            with and one without the canary, *independent* of each other; dependence can refute a
            true claim. "shared-seed": such pairs with any dependence, for example the same seed;
            each half must by itself be a fresh run of the mechanism.
        both_ways: whether a lower score may say "with" just as well as a higher one.
        shares: of the wealth on each stream that :meth:`take` gets; they sum to 1. None for tests
            that rank scores themselves.

    >>> from dpassay.privacy import PureDP
    >>> test = SequentialTest(PureDP(epsilon=1.0))
    >>> worlds = [1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0]
    >>> test.update(worlds, [float(w) for w in worlds])  # an attack that never errs
    True
    >>> test.refuted_at
    19

    """

    def __init__(
        self,
        claim: PrivacyCurve,
        *,
        confidence: float = 0.95,
        form: FormName = "coin",
        both_ways: bool = False,
        shares: Shares | None = None,
    ) -> None:
        self.claim = check_curve("claim", claim)
        confidence = _check.confidence(confidence)
        book = _book([claim], form)
        self._ranked = Ranked(book, both_ways)
        chosen = self._ranked.shares if shares is None else shares
        self._watch = Watch(book, confidence, rest=False, shares=chosen)
        self._paths: list[FloatArray] = [np.empty(0)]

    def update(self, worlds: ArrayLike, scores: ArrayLike) -> bool:
        """Take the next trials, in the order of their numbers; true once the claim is refuted.

        Args:
            worlds: 1 for trials with the canary, 0 without; one number or an array.
            scores: a score each, higher says "with"; may be infinite, not NaN.

        Raises:
            InvalidArgument: for bad values; nothing is taken then.

        """
        return self.take(self._ranked.play(worlds, scores), worlds)

    def take(self, streams: NDArray[np.intp], worlds: ArrayLike) -> bool:
        """Take trials that were already ranked, one stream of outcomes for each of the shares.

        An outcome is world * 40 + bin of a rank that was fixed by the trials before, or 80 for no
        bet; see :mod:`dpassay.attacks.online`.
        """
        self._paths.append(self._watch.take(streams, np.size(worlds))[0])
        return self.refuted

    @property
    def confidence(self) -> float:
        """The probability that a true claim is never refuted, at least."""
        return self._watch.confidence

    @property
    def trials(self) -> int:
        """The number of trials taken."""
        return self._watch.trials

    @property
    def log_wealth(self) -> float:
        """The log of the wealth now; that of a true claim's opponent does not grow on average."""
        return float(self._watch.log_wealth[0])

    @property
    def e_value(self) -> float:
        """The wealth now: under a true claim its mean is at most 1, whenever one looks."""
        return math.exp(min(self.log_wealth, 709.0))

    @property
    def refuted(self) -> bool:
        """Whether wealth has reached 1 / (1 - confidence) at some time."""
        return bool(self._watch.refuted_at[0])

    @property
    def refuted_at(self) -> int | None:
        """The number of trials after which the claim was first refuted."""
        return int(self._watch.refuted_at[0]) or None

    @property
    def wealth_path(self) -> FloatArray:
        """Log wealth after every round: every trial, or every pair."""
        self._paths = [np.concatenate(self._paths)]
        return self._paths[0].copy()


def _book(claims: Sequence[PrivacyCurve], form: str) -> Book:
    return Book.of(claims, FORMS[_check.choice("form", form, tuple(FORMS))])


@functools.lru_cache(maxsize=16)
def _family_book(family: Family, form: str) -> Book:
    """The book on all members, which takes a second to prepare and does not change."""
    return _book(family.curves, form)


def _checked_family(family: Any) -> Family:
    if not isinstance(family, Family):
        raise InvalidArgument(f"family={family!r} must be a Family, such as Family.gdp(1e-5).")
    return family


def _leading(watch: Watch) -> int:
    """The number of members, from the smallest on, that were all refuted."""
    return int(np.logical_and.accumulate(watch.refuted_at > 0).sum())


class ConfidenceSequence:
    """A lower bound on epsilon(delta) that holds at all times together, with ``confidence``.

    Every member of the family has a test of its own. The bound is the last member such that it *and
    all smaller ones* have been refuted at some time. *Proof.* Let m be the smallest member that
    holds. A bound of epsilon_m or more requires that m was refuted, which happens with probability
    at most 1 - confidence, over all times. (The largest refuted member would be no valid bound:
    each of the true members above m would get its own chance to err.)

    **Between two members** of a family that has one at every epsilon, the test is by the bets
    against the smaller of the two, at the prices of the member that is tested. After t trials this
    wealth is at least e^(-t c) times that against the smaller one, c the price of the step
    (``dpassay.bounds.betting.dearer``); so a surplus of log wealth of t c or more, at any time,
    refutes it too, and the bound moves up by that step. So every epsilon has one test, of level
    1 - confidence, and the proof above holds for all of them. A refuted member's bound thus lies
    strictly above its epsilon.

    Args:
        family: members from strong to weak, :class:`Family`.
        confidence: in (0, 1).
        form: as in :class:`SequentialTest`.
        both_ways: as in :class:`SequentialTest`.
        shares: as in :class:`SequentialTest`.

    """

    def __init__(
        self,
        family: Family,
        *,
        confidence: float = 0.95,
        form: FormName = "coin",
        both_ways: bool = False,
        shares: Shares | None = None,
    ) -> None:
        self.family = _checked_family(family)
        confidence = _check.confidence(confidence)
        book = _family_book(family, form)
        self._both_ways = both_ways
        self._ranked = Ranked(book, both_ways)
        chosen = self._ranked.shares if shares is None else shares
        self._watch = Watch(book, confidence, rest=True, shares=chosen)
        self._worlds: list[NDArray[Any]] = []

    def update(self, worlds: ArrayLike, scores: ArrayLike) -> float:
        """Take the next trials, in the order of their numbers; the lower bound after them.

        The arguments are those of :meth:`SequentialTest.update`.
        """
        return self.take(self._ranked.play(worlds, scores), worlds)

    def take(self, streams: NDArray[np.intp], worlds: ArrayLike) -> float:
        """Take trials that were already ranked; see :meth:`SequentialTest.take`."""
        self._watch.take(streams, np.size(worlds))
        self._worlds.append(np.atleast_1d(np.asarray(worlds, dtype=float)))
        return self.epsilon

    @property
    def trials(self) -> int:
        """The number of trials taken."""
        return self._watch.trials

    @property
    def refuted_at(self) -> NDArray[np.int64]:
        """For each member the number of trials after which it was first refuted, 0 if it stands."""
        return self._watch.refuted_at.copy()

    @property
    def n_refuted(self) -> int:
        """The number of members, from the smallest on, that were all refuted."""
        return _leading(self._watch)

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon(delta) now; it never falls."""
        return self._epsilon_of(self._watch)

    def _epsilon_of(self, watch: Watch) -> float:
        n_refuted = _leading(watch)
        if n_refuted == 0:
            return 0.0
        last = n_refuted - 1
        return _moved_up(self.family, last, watch.book.pays[last], float(watch.surplus[last]))

    def bound(self) -> LowerBound:
        """The lower bound and what it rests on; its ceiling is the bound of a perfect attack."""
        return LowerBound(
            epsilon=self.epsilon,
            delta=self.family.delta,
            confidence=self._watch.confidence,
            method="sequential",
            assumption=self.family.assumption,
            ceiling=self._ceiling(),
            selection="all thresholds and all times, paid for by betting (Ville's inequality)",
            details={
                "trials": float(self.trials),
                "members": float(len(self.family.curves)),
                "refuted": float(self.n_refuted),
            },
        )

    def _ceiling(self) -> float:
        """The bound of the same audit, had every score been its world."""
        worlds = np.concatenate([np.empty(0), *self._worlds])
        watch = self._watch
        ranked = Ranked(watch.book, self._both_ways)
        perfect = Watch(watch.book, watch.confidence, rest=True, shares=ranked.shares)
        perfect.take(ranked.play(worlds, worlds), worlds.size)
        return self._epsilon_of(perfect)


def _moved_up(family: Family, last: int, pays: FloatArray, surplus: float) -> float:
    """The largest epsilon up to the next member that the surplus per trial pays for, from below.

    It is above the refuted member's own epsilon, by one float at least, so that "refuted" and "the
    bound is above it" are one statement. That float is paid for: every bet is priced ``ARITHMETIC``
    too high (``Lines``), which is a thousand times what e^epsilon gains in one float.
    """
    if family.member is None:
        return family.epsilons[last]
    start = math.nextafter(family.epsilons[last], math.inf)
    if not surplus > 2 * ARITHMETIC:  # the least that a step costs, see ``dearer``
        return start
    low = family.parameters[last]
    high = family.parameters[last + 1] if last + 1 < len(family.parameters) else 2 * low or 1.0
    if dearer(pays, family.member(high)) <= surplus:
        low = high
    for _ in range(30):
        middle = (low + high) / 2
        paid = dearer(pays, family.member(middle)) <= surplus
        low, high = (middle, high) if paid else (low, middle)
    return max(start, down(float(family.member(low).epsilon(family.delta)), ARITHMETIC))


class Betting(TypedDict, total=False):
    """The options of a test by betting that :func:`sequential_test` and its kin hand on."""

    confidence: float
    """The probability that a true claim is never refuted, in (0, 1); 0.95 unless told."""
    form: FormName
    """How worlds are drawn: "coin" (unless told), "pairs" or "shared-seed"."""


def sequential_test(
    worlds: ArrayLike, scores: ArrayLike, *, claim: PrivacyCurve, **betting: Unpack[Betting]
) -> SequentialTest:
    """The :class:`SequentialTest` of a claim after these trials; more can follow.

    Args:
        worlds: 1 for trials with the canary, 0 without, in the order of their numbers.
        scores: a score each; higher says "with".
        claim: any privacy curve.
        betting: ``confidence``, in (0, 1), and ``form``: "coin", "pairs" or "shared-seed".

    """
    test = SequentialTest(claim, **betting)
    test.update(worlds, scores)
    return test


def sequential_bound(
    worlds: ArrayLike,
    scores: ArrayLike,
    *,
    delta: float,
    family: str | Family = "approx-dp",
    **betting: Unpack[Betting],
) -> LowerBound:
    """A lower bound on epsilon(delta) that would hold at any time these trials could have stopped.

    Args:
        worlds: 1 for trials with the canary, 0 without, in the order of their numbers.
        scores: a score each; higher says "with".
        delta: where on the privacy curve the bound is stated; in [0, 1).
        family: "approx-dp" (assumes nothing), "gdp" (assumes a Gaussian trade-off) or a
            :class:`Family` at this delta.
        betting: ``confidence``, in (0, 1), and ``form``: "coin", "pairs" or "shared-seed".

    """
    if isinstance(family, str):
        family = FAMILIES[_check.choice("family", family, tuple(FAMILIES))](_check.delta(delta))
    if family.delta != delta:
        raise InvalidArgument(f"delta={delta!r} must be that of the family, {family.delta!r}.")
    sequence = ConfidenceSequence(family, **betting)
    sequence.update(worlds, scores)
    return sequence.bound()
