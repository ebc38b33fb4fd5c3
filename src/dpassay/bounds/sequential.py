"""Audits that are watched trial by trial, and may stop whenever they have seen enough.

:class:`SequentialTest` bets against one claim, a whole privacy curve; :class:`ConfidenceSequence`
bets against a nested family of them and gives a lower bound on epsilon that holds at all times
together. Both take trials in the order of their numbers; results are the same, bit for bit, however
the trials are split into updates. The mathematics is in :mod:`dpassay.bounds.betting` (which bets
are valid) and :mod:`dpassay.bounds.wealth` (why wealth is evidence).
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, NUMERICAL, down, round_up
from dpassay.bounds.betting import FORMS, Form, Lines, dearer
from dpassay.bounds.labels import epsilon_label
from dpassay.bounds.wealth import Bettor, Book, Rounds
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.privacy.curves import GDP, ApproxDP, Curve, PureDP, check_same_relation
from dpassay.types import FloatArray, LowerBound, PrivacyCurve

FormName = Literal["coin", "pairs", "shared-seed"]
Shares = Sequence[float]
EPSILONS = tuple(float(epsilon) for epsilon in np.geomspace(0.1, 12, 40))
_GROUP = 8  # members that are bet against together
_GDP_DELTA = "Gaussian noise has no finite epsilon at delta=0; a common value is 1e-5."
_SCORES = "A trial that failed is an output as well: give it the score -inf."
_WORLDS = "1 is a trial with the canary, 0 one without."


class _Watch:
    """Bets by a book on one or several streams of outcomes, and notes when each claim is refuted.

    Every stream is one way to see the same trials, bet on with a share of the wealth that is fixed
    in advance: a mixture of supermartingales is one. It costs -log(share) of the log wealth at
    most.
    """

    def __init__(self, book: Book, confidence: float, rest: bool, shares: Shares = (1.0,)) -> None:
        self.book, self.confidence, self.trials = book, confidence, 0
        # log(1 / alpha), rounded up. Rounding of the wealth itself is in the prices of the bets.
        self.enough = round_up(-math.log1p(-confidence), ARITHMETIC, size=1.0)
        self.shares = tuple(shares)
        rests = [self.enough - math.log(share) if rest else math.inf for share in shares]
        self.bettor = Bettor(book, rests)
        self.refuted_at = np.zeros(len(book.pays), dtype=np.int64)
        # The largest surplus of log wealth over what is needed, per trial; 0 while a claim stands.
        self.surplus = np.zeros(len(book.pays))
        self.log_wealth = np.zeros(len(book.pays))

    def take(self, streams: NDArray[np.intp], trials: int) -> FloatArray:
        """Log wealth [m, t] against every claim after each of these rounds, all streams mixed."""
        before, per_round = self.bettor.rounds, self.book.form.trials
        # Shares in units of the largest: two equal halves then lose log 2 and no bit to rounding.
        largest = max(self.shares)
        parts = np.log(np.array(self.shares) / largest)[:, None, None]
        paths = self.bettor.play(streams) + parts
        path = np.logaddexp.reduce(paths, axis=0) + math.log(largest)
        self.trials += trials
        if path.size:
            rounds = before + 1 + np.arange(int(path.shape[1]), dtype=np.int64)
            self._note(path, per_round * rounds)
        return path

    def _note(self, path: FloatArray, trials: NDArray[np.int64]) -> None:
        """Keep what the path after so many trials shows."""
        self.log_wealth = path[:, -1].copy()
        reached = path >= self.enough
        new = reached.any(axis=1) & (self.refuted_at == 0)
        self.refuted_at = np.where(new, trials[reached.argmax(axis=1)], self.refuted_at)
        self.surplus = np.maximum(self.surplus, ((path - self.enough) / trials).max(axis=1))


class _Ranked:
    """Streams of outcomes from scores: one, or with ``both_ways`` a second of their negatives."""

    def __init__(self, form: Form, both_ways: bool) -> None:
        self._form = form
        self._signs = (1, -1) if both_ways else (1,)
        self._rounds = [Rounds(form) for _ in self._signs]
        self.shares = tuple(1 / len(self._signs) for _ in self._signs)

    def play(self, worlds: ArrayLike, scores: ArrayLike) -> NDArray[np.intp]:
        """The outcomes of the rounds that these trials complete, a row for each stream."""
        drawn, seen = _trials(worlds, scores)
        if self._form.trials == 2:
            _check_pairs(drawn, self._rounds[0].waiting_world())
        signed = [seen if sign == 1 else [-score for score in seen] for sign in self._signs]
        both = zip(self._rounds, signed, strict=True)
        return np.stack([rounds.play(drawn, values) for rounds, values in both])


def _trials(worlds: ArrayLike, scores: ArrayLike) -> tuple[list[int], list[float]]:
    """Checked worlds and scores as lists; one trial may come as two numbers."""
    w = np.atleast_1d(_check.array("worlds", worlds, low=0, high=1, remedy=_WORLDS))
    x = np.atleast_1d(_check.array("scores", scores, finite=False, remedy=_SCORES))
    if w.ndim != 1 or w.shape != x.shape:
        raise InvalidArgument(
            f"worlds has shape {w.shape}, scores {x.shape}; give one world and one score per trial."
        )
    if not np.isin(w, (0, 1)).all():
        raise InvalidArgument(f"worlds={w[~np.isin(w, (0, 1))][0]:g} must be 0 or 1. {_WORLDS}")
    return w.astype(int).tolist(), x.tolist()


def _check_pairs(worlds: list[int], waiting: int | None) -> None:
    row = worlds if waiting is None else [waiting, *worlds]
    for i in range(0, len(row) - 1, 2):
        if row[i] == row[i + 1]:
            raise InvalidArgument(
                f"worlds has a pair with twice world {row[i]}. With form='pairs' or 'shared-seed' "
                "trials 2k and 2k+1 are a pair, one with and one without the canary; for worlds "
                "drawn by a coin use form='coin'."
            )


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
        self.claim = _curve("claim", claim)
        confidence = _check.confidence(confidence)
        book = _book(self.claim, form)
        self._ranked = _Ranked(book.form, both_ways)
        chosen = self._ranked.shares if shares is None else shares
        self._watch = _Watch(book, confidence, rest=False, shares=chosen)
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
    return _kept_book(_Itself(claim), form) if slow else Book.of([claim], FORMS[form])


@functools.lru_cache(maxsize=32)
def _kept_book(key: _Itself, form: str) -> Book:
    return Book.of([key.claim], FORMS[form])


def _curve(name: str, value: Any) -> PrivacyCurve:
    if not isinstance(value, PrivacyCurve):
        raise InvalidArgument(
            f"{name}={_check.shown(value)} must be a privacy curve, such as "
            "ApproxDP(epsilon=1, delta=1e-5)."
        )
    return value


@dataclass(frozen=True, eq=False)
class Family:
    """Privacy curves from strong to weak, each allowing all that the one before it does.

    Attributes:
        curves: the members.
        epsilons: epsilon(delta) of each; increasing.
        delta: where they are compared.
        assumption: what turns "is none of these" into a bound on epsilon(delta); "none" if nothing.
        member: for families with a member at every value of a parameter: the curve at a value; a
            larger value is less private everywhere. None if there are only ``curves``.
        parameters: the value of each of the ``curves``.

    """

    curves: tuple[PrivacyCurve, ...]
    epsilons: tuple[float, ...]
    delta: float
    assumption: str = "none"
    member: Callable[[float], PrivacyCurve] | None = None
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check.delta(self.delta)
        for i, curve in enumerate(self.curves):
            _curve(f"curves[{i}]", curve)
        epsilons = _check.array("epsilons", self.epsilons, low=0, ndim=1, empty=False)
        if len(self.curves) != epsilons.size or np.any(np.diff(epsilons) <= 0):
            raise InvalidArgument(
                f"epsilons={self.epsilons} must increase, one for each of {len(self.curves)} "
                "curves. Leave out members that are alike."
            )
        check_same_relation("curves[0]", self.curves[0].neighbouring, "curves", self.curves)
        self._check_labels(epsilons)
        middle = float(np.median(epsilons))
        deltas = [(curve.delta(0.0), curve.delta(middle)) for curve in self.curves]
        if np.any(np.diff(deltas, axis=0) < -NUMERICAL):
            raise InvalidArgument(
                "curves are not nested: delta falls from one to the next. Order them by loss."
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> "Family":
        return self  # nothing in it changes, and the books on its members are kept for this object

    def _check_labels(self, epsilons: FloatArray) -> None:
        """A refuted member must speak for its epsilon, and for all algorithms if it says so."""
        labels: list[float] = epsilons.tolist()
        for label, curve in zip(labels, self.curves, strict=True):
            # Where more than delta leaks just below the label, epsilon(delta) is not smaller. This
            # is asked first: a curve's delta is cheaper than its inverse.
            leaks = curve.delta(label * (1 - ARITHMETIC)) > self.delta
            if not leaks and not label <= round_up(float(curve.epsilon(self.delta))):
                raise InvalidArgument(
                    f"epsilons={label:g} must not exceed epsilon(delta={self.delta:g}) of its "
                    f"curve, {curve!r}."
                )
        points = all(
            (isinstance(c, ApproxDP) and c.delta_upper == self.delta)
            or (isinstance(c, PureDP) and self.delta == 0)
            for c in self.curves
        )
        if self.assumption == "none" and not points:
            raise InvalidArgument(
                "assumption='none' must be more unless all members are (epsilon, delta)-DP: say "
                "what turns a refuted curve into a bound, such as 'Gaussian trade-off'."
            )

    @classmethod
    def approx_dp(cls, delta: float, epsilons: Iterable[float] = EPSILONS) -> "Family":
        """(epsilon, delta)-DP for each epsilon: the bound then assumes nothing."""
        values = tuple(epsilons)
        member = functools.partial(ApproxDP, delta=delta)
        return cls(tuple(map(member, values)), values, delta, member=member, parameters=values)

    @classmethod
    def gdp(cls, delta: float, epsilons: Iterable[float] = EPSILONS) -> "Family":
        """Gaussian DP with each epsilon at delta > 0: larger bounds, for Gaussian mechanisms."""
        delta = _check.number("delta", delta, low=0, high=1, low_open=True, remedy=_GDP_DELTA)
        values = _check.array("epsilons", tuple(epsilons), low=0, low_open=True, ndim=1)
        curves = tuple(GDP(float(mu)) for mu in gaussian.mu_of(values, np.float64(delta)))
        # mu was rounded down, so that its epsilon is a little below what was asked for.
        below = tuple(float(e) for e in down(values, ARITHMETIC))
        return cls(curves, below, delta, "Gaussian trade-off", GDP, tuple(c.mu for c in curves))

    @classmethod
    def of(
        cls,
        curves: Iterable[PrivacyCurve] | Callable[[float], PrivacyCurve],
        *,
        delta: float,
        noise_multipliers: Iterable[float] | None = None,
        epsilons: Iterable[float] | None = None,
        assumption: str = "privacy curve of the family",
    ) -> "Family":
        """Any curves, or those of a mechanism at several noise levels, sorted by epsilon(delta).

        ``epsilons`` are lower bounds on epsilon(delta), one for each curve. They may be left out
        where curves are exact. An accountant's curve is an upper bound, whose own epsilon would
        label a refuted member too high: without ``epsilons`` it is refused. For DP-SGD, with
        ``noise = np.geomspace(4, 0.5, 40)``: ``Family.of(lambda sigma: account(dp_sgd_event(sigma,
        0.01, 1000), "pld"), noise_multipliers=noise, epsilons=[epsilon_of_steps(1 / sigma, 0.01,
        1000, 1e-5) for sigma in noise], delta=1e-5)``, by ``dpassay.bounds.steps``.
        """
        delta = _check.delta(delta)
        if callable(curves):
            levels = noise_multipliers if noise_multipliers is not None else ()
            members = [curves(_check.noise_multiplier(level)) for level in levels]
        else:
            members = list(curves)
        members = [_curve("curves", member) for member in members]
        labels = (
            [epsilon_label(member, delta) for member in members]
            if epsilons is None
            else _check.array("epsilons", tuple(epsilons), low=0, ndim=1).tolist()
        )
        if len(labels) != len(members):
            raise InvalidArgument(
                f"epsilons has {len(labels)} entries for {len(members)} curves; give one for each."
            )
        labelled = sorted((label, i) for i, label in enumerate(labels))
        ordered = tuple(members[i] for _, i in labelled)
        return cls(ordered, tuple(epsilon for epsilon, _ in labelled), delta, assumption)


@functools.lru_cache(maxsize=16)
def _family_lines(family: Family) -> tuple[Lines, ...]:
    return tuple(Lines.of(curve) for curve in family.curves)


@functools.lru_cache(maxsize=128)
def _group_book(family: Family, form: FormName, first: int) -> Book:
    """The book on one group of members, which takes a while to prepare and does not change."""
    lines = _family_lines(family)
    # As many assets as any member has: a portfolio then does not depend on how members are grouped.
    n_assets = max(line.pays.shape[1] for line in lines)
    return Book.on(lines[first : first + _GROUP], FORMS[form], n_assets)


def _checked_family(family: Any) -> Family:
    if not isinstance(family, Family):
        raise InvalidArgument(f"family={family!r} must be a Family, such as Family.gdp(1e-5).")
    return family


class _Ladder:
    """Bets against the members of a family, group by group from the smallest on.

    A bound needs only the members below the first that stands, so a group is played when all
    members before it have fallen, and then from the first trial on. Its bets are the same, bit for
    bit, as if it had been played all the time.
    """

    def __init__(self, family: Family, form: FormName, confidence: float, shares: Shares) -> None:
        self.family, self.confidence = family, confidence
        self.form: FormName = form
        self._shares = shares
        self._parts: list[NDArray[np.intp]] = []
        self._watches: list[_Watch] = []
        self._seen: list[int] = []  # how many of the parts each group has been played on

    def take(self, streams: NDArray[np.intp]) -> None:
        """Take outcomes of the next rounds, a row for each stream."""
        self._parts.append(streams)

    def group(self, number: int) -> _Watch:
        """The bets against one group of members, after all rounds so far."""
        while number >= len(self._watches):
            book = _group_book(self.family, self.form, len(self._watches) * _GROUP)
            self._watches.append(_Watch(book, self.confidence, rest=True, shares=self._shares))
            self._seen.append(0)
        watch, new = self._watches[number], self._parts[self._seen[number] :]
        if new:
            watch.take(np.concatenate(new, axis=1), 0)
            self._seen[number] = len(self._parts)
        return watch

    def groups(self) -> Iterator[_Watch]:
        """All groups, each played when it is asked for."""
        return map(self.group, range(math.ceil(len(self.family.curves) / _GROUP)))

    def n_refuted(self) -> int:
        """The number of members, from the smallest on, that were all refuted."""
        leading = 0
        for watch in self.groups():
            fallen = watch.refuted_at > 0
            leading += int(np.logical_and.accumulate(fallen).sum())
            if not fallen.all():
                break
        return leading

    def epsilon(self) -> float:
        """The largest epsilon at and below which everything is refuted; 0 if nothing is."""
        last = self.n_refuted() - 1
        if last < 0:
            return 0.0
        watch, place = self.group(last // _GROUP), last % _GROUP
        return _moved_up(self.family, last, watch.book.pays[place], float(watch.surplus[place]))


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
        _check.choice("form", form, tuple(FORMS))
        self._both_ways = both_ways
        self._ranked = _Ranked(FORMS[form], both_ways)
        chosen = self._ranked.shares if shares is None else shares
        self._ladder = _Ladder(family, form, confidence, chosen)
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
        if self.n_refuted < n:
            return None
        fell = [self._ladder.group(number).refuted_at for number in range(math.ceil(n / _GROUP))]
        return int(np.concatenate(fell)[:n].max())

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
        """The bound of the same audit, had every score been its world."""
        worlds = np.concatenate([np.empty(0), *self._worlds])
        own = self._ladder
        ranked = _Ranked(FORMS[own.form], self._both_ways)
        perfect = _Ladder(self.family, own.form, own.confidence, ranked.shares)
        perfect.take(ranked.play(worlds, worlds))
        return perfect.epsilon()


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


def sequential_test(
    worlds: ArrayLike,
    scores: ArrayLike,
    *,
    claim: PrivacyCurve,
    confidence: float = 0.95,
    form: FormName = "coin",
) -> SequentialTest:
    """The :class:`SequentialTest` of a claim after these trials; more can follow.

    Args:
        worlds: 1 for trials with the canary, 0 without, in the order of their numbers.
        scores: a score each; higher says "with".
        claim: any privacy curve.
        confidence: the probability that a true claim is never refuted, in (0, 1).
        form: "coin", "pairs" or "shared-seed".

    """
    test = SequentialTest(claim, confidence=confidence, form=form)
    test.update(worlds, scores)
    return test


FAMILIES = {"approx-dp": Family.approx_dp, "gdp": Family.gdp}


def sequential_bound(
    worlds: ArrayLike,
    scores: ArrayLike,
    *,
    delta: float,
    family: str | Family = "approx-dp",
    confidence: float = 0.95,
    form: FormName = "coin",
) -> LowerBound:
    """A lower bound on epsilon(delta) that would hold at any time these trials could have stopped.

    Args:
        worlds: 1 for trials with the canary, 0 without, in the order of their numbers.
        scores: a score each; higher says "with".
        delta: where on the privacy curve the bound is stated; in [0, 1).
        family: "approx-dp" (assumes nothing), "gdp" (assumes a Gaussian trade-off) or a
            :class:`Family` at this delta.
        confidence: in (0, 1).
        form: "coin", "pairs" or "shared-seed".

    """
    if isinstance(family, str):
        family = FAMILIES[_check.choice("family", family, tuple(FAMILIES))](_check.delta(delta))
    if family.delta != delta:
        raise InvalidArgument(f"delta={delta!r} must be that of the family, {family.delta!r}.")
    sequence = ConfidenceSequence(family, confidence=confidence, form=form)
    sequence.update(worlds, scores)
    return sequence.bound()
