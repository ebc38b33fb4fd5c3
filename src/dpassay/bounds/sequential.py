"""Audits that are watched trial by trial, and may stop whenever they have seen enough.

:class:`SequentialTest` bets against one claim, a whole privacy curve; :class:`ConfidenceSequence`
bets against a nested family of them and gives a lower bound on epsilon that holds at all times
together. Both take trials in the order of their numbers; results are the same, bit for bit, however
the trials are split into updates. The mathematics is in :mod:`dpassay.bounds.betting` (which bets
are valid) and :mod:`dpassay.bounds.wealth` (why wealth is evidence).
"""

import functools
import math
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay.bounds.betting import FORMS, FormName
from dpassay.bounds.families import FAMILIES, Family, check_curve
from dpassay.bounds.ladder import Ladder
from dpassay.bounds.watch import Ranked, Shares, Watch
from dpassay.bounds.wealth import Book
from dpassay.errors import InvalidArgument
from dpassay.privacy.curves import GDP, ApproxDP, Curve, PureDP
from dpassay.types import FloatArray, LowerBound, PrivacyCurve


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
        book = _book(self.claim, form)
        self._ranked = Ranked(book.form, both_ways)
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


class _Itself:
    """A claim as a key that no other claim is equal to."""

    def __init__(self, claim: PrivacyCurve) -> None:
        self.claim = claim

    def __hash__(self) -> int:
        return id(self.claim)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.claim is other.claim


def _book(claim: PrivacyCurve, form: str) -> Book:
    """The book on one claim; an accountant's curve is slow, and an audit asks for it twice."""
    form = _check.choice("form", form, tuple(FORMS))
    slow = isinstance(claim, Curve) and not isinstance(claim, PureDP | ApproxDP | GDP)
    # A curve of someone else might change, and is read anew.
    return _keep_book(_Itself(claim), form) if slow else Book.of([claim], FORMS[form])


@functools.lru_cache(maxsize=32)
def _keep_book(key: _Itself, form: str) -> Book:
    return Book.of([key.claim], FORMS[form])


def _check_family(family: Any) -> Family:
    if not isinstance(family, Family):
        raise InvalidArgument(f"family={family!r} must be a Family, such as Family.gdp(1e-5).")
    return family


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
        self.family = _check_family(family)
        confidence = _check.confidence(confidence)
        _check.choice("form", form, tuple(FORMS))
        self._both_ways = both_ways
        self._ranked = Ranked(FORMS[form], both_ways)
        chosen = self._ranked.shares if shares is None else shares
        self._ladder = Ladder(family, form, confidence, chosen)
        self._worlds: list[NDArray[Any]] = []

    def update(self, worlds: ArrayLike, scores: ArrayLike) -> float:
        """Take the next trials, in the order of their numbers; the lower bound after them.

        The arguments are those of :meth:`SequentialTest.update`.
        """
        return self.take(self._ranked.play(worlds, scores), worlds)

    def take(self, streams: NDArray[np.intp], worlds: ArrayLike) -> float:
        """Take trials that were already ranked; see :meth:`SequentialTest.take`."""
        self._ladder.take(streams)
        self._worlds.append(np.atleast_1d(np.asarray(worlds, dtype=float)))
        return self.epsilon

    @property
    def trials(self) -> int:
        """The number of trials taken."""
        return sum(worlds.size for worlds in self._worlds)

    @property
    def refuted_at(self) -> NDArray[np.int64]:
        """For each member the number of trials after which it was first refuted, 0 if it stands."""
        return np.concatenate([watch.refuted_at for watch in self._ladder.groups()])

    def all_refuted_at(self, n: int) -> int | None:
        """The number of trials after which the n smallest members had fallen; None if one stands.

        Unlike ``refuted_at`` this does not bet against larger members.
        """
        return self._ladder.all_refuted_at(n)

    @property
    def n_refuted(self) -> int:
        """The number of members, from the smallest on, that were all refuted."""
        return self._ladder.n_refuted()

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon(delta) now; it never falls."""
        return self._ladder.epsilon()

    def bound(self) -> LowerBound:
        """The lower bound and what it rests on; its ceiling is the bound of a perfect attack."""
        return LowerBound(
            epsilon=self.epsilon,
            delta=self.family.delta,
            confidence=self._ladder.confidence,
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
        """The bound that a perfect attack would have got on the same worlds."""
        worlds = np.concatenate([np.empty(0), *self._worlds])
        own = self._ladder
        ranked = Ranked(FORMS[own.form], self._both_ways)
        perfect = Ladder(self.family, own.form, own.confidence, ranked.shares)
        perfect.take(ranked.play(worlds, worlds))
        return perfect.epsilon()


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
