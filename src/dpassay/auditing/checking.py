"""``check``: which obligation of a privacy proof a mechanism breaks, on which line.

A mechanism is played on D and recorded; then it is played on neighbours D' with all noisy values
as they were on D (:mod:`dpassay.replay`). Whatever still differs is not protected by noise, and how
far the queries moved prices what was really played. A handful of executions, no statistics.

A check never says "private": it sees finitely many pairs. It says broken, undecided, not checked,
or that nothing broke on so many pairs.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from dpassay import _check, _rng
from dpassay.auditing.claims import check_curve, parse_claim
from dpassay.auditing.referee import claimed_delta
from dpassay.errors import InvalidArgument
from dpassay.privacy import ApproxDP, account, events
from dpassay.privacy.curves import Curve
from dpassay.replay import neighbours as nearby
from dpassay.replay import obligations, prices
from dpassay.replay.neighbours import Neighbour
from dpassay.replay.obligations import ORDER, RULES, Broken
from dpassay.replay.outputs import first_difference
from dpassay.replay.playing import Played, Player, Relocated
from dpassay.replay.tape import SAMPLERS, Edit, Site
from dpassay.types import Neighbouring, PrivacyCurve

EXACT, DISCRETISED = 1 + 1e-6, 1 + 1e-3
"""By how much the price may exceed the claim: rounding of exact curves, the grid of a PLD."""

_HIDDEN = frozenset({"DPA101", "DPA102", "DPA103", "DPA104", "DPA301", "DPA302"})
"""Rules whose findings do not count where a draw was lost: it may have been the noise."""


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets; records are kept here and never printed."""

    data: Any = field(repr=False)
    data_prime: Any = field(repr=False)
    how: str


@dataclass(frozen=True)
class Finding:
    """An obligation of the proof that a pair of executions broke.

    Attributes:
        rule: its number, "DPA202" for example; :data:`dpassay.replay.obligations.RULES` has texts.
        site: the line, None if only the output is known.
        message: what was seen.
        pair: the data sets, shrunk where that was possible.
        n_records: how many records the data set D of the pair has.
        level: "error", or "warning" for records that an honest program may refuse to treat.
        epsilon_seen: accounted from what was played on the worst pair, None where that is not
            what broke.
        epsilon_claimed: the claim at the same delta.
        delta: where both are stated.
        related: other lines that matter.
        execution: after how many executions it was found.

    """

    rule: str
    site: Site | None
    message: str
    pair: Pair
    n_records: int | None = None
    level: str = "error"
    epsilon_seen: float | None = None
    epsilon_claimed: float | None = None
    delta: float | None = None
    related: tuple[Site, ...] = ()
    execution: int = 0

    @property
    def title(self) -> str:
        """The rule in words."""
        return RULES[self.rule].text


@dataclass(frozen=True)
class Open:
    """Something that a check could not decide, with the line and the reason."""

    message: str
    site: Site | None = None
    rule: str | None = None


@dataclass(frozen=True)
class Check:
    """What a check found; see :func:`check`.

    Attributes:
        claim: the curve that was checked, None if there was none.
        findings: broken obligations, the likely cause first.
        warnings: findings on records that are not finite, or that no honest input needs to cover.
        undecided: differences that may be protected by noise that was not followed.
        not_checked: what has no price here, or could not be played.
        event: what was really played on the worst pair, None if nothing that has a price moved.
        privacy: the curve of that event, an upper bound on what the *pair* costs.
        pair: the pair to audit: that of the first finding, else the dearest.
        epsilon_seen: the epsilon of ``privacy`` at ``delta``.
        delta: the claim's delta.
        executions: how often the mechanism was played.
        pairs: how many neighbours were tried.

    """

    claim: PrivacyCurve | None
    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    undecided: tuple[Open, ...]
    not_checked: tuple[Open, ...]
    event: events.Event | None
    privacy: Curve | None
    pair: Pair | None
    epsilon_seen: float | None
    delta: float
    executions: int
    pairs: int

    @property
    def broken(self) -> bool:
        """Whether an obligation broke."""
        return bool(self.findings)

    @property
    def decided(self) -> bool:
        """Whether anything could be said: broken, or primitives were checked and none is open."""
        return self.broken or (self.event is not None and not self.undecided)

    def __str__(self) -> str:
        from dpassay.auditing.checking_text import text

        return text(self)


def check(
    mechanism: Callable[..., Any],
    data: Any,
    claim: "PrivacyCurve | events.Event | str | tuple[float, float] | None" = None,
    *,
    neighbours: Sequence[Any] | None = None,
    neighbouring: Neighbouring | None = None,
    bounds: tuple[float, float] | None = None,
    sampling_rate: float | None = None,
    sensitivity: float | None = None,
    delta: float | None = None,
    limit: int = 24,
    rng: int = 0,
) -> Check:
    """Broken obligations of a mechanism's privacy proof, found by recording and replaying it.

    Args:
        mechanism: ``mechanism(data, rng)`` or ``mechanism(data)``; returns what is released.
        data: one data set: an array with a record per row, a list, a frame or a pair (X, y).
        claim: what is promised: a curve, an event (whose sampling is then checked too), a text
            such as "3,1e-5", or (epsilon, delta). Without one nothing is compared with the price.
        neighbours: data sets to play instead of searched ones, for data of another kind.
        neighbouring: "add-remove" or "replace-one"; the claim's by default.
        bounds: the declared range of all values; searched records stay in it.
        sampling_rate: declares that batches are Poisson samples of this rate.
        sensitivity: the most that one record may move any query in the l2 norm, if declared.
        delta: where epsilon is stated; the claim's own by default.
        limit: the most neighbours that are tried.
        rng: the seed.

    Returns:
        A :class:`Check`. A finding is a counterexample to the proof of the claim, not by itself
        a refutation: hand ``check.pair`` to :func:`dpassay.audit` for that.

    Raises:
        InvalidArgument: no records can be seen in the data, or an argument is out of range.

    Whatever the mechanism raises on ``data`` itself is passed on. The method is that of
    Re:cord-play (Cebere et al. 2026); draws are followed to the first addition, not declared.

    """
    curve, rate = _claim(claim, neighbouring)
    relation: Neighbouring = neighbouring or (curve.neighbouring if curve else "add-remove")
    _check.neighbouring(relation)
    if sampling_rate is not None:
        rate = _check.sampling_rate(sampling_rate)
    if sensitivity is not None:
        _check.sensitivity(sensitivity)
    question = _Question(
        mechanism, data, curve, relation, rate, sensitivity, bounds, neighbours,
        0.0 if curve is None and delta is None else claimed_delta(curve, delta),  # type: ignore[arg-type]
        _check.count("limit", limit), _check.count("rng", rng, low=0),
    )  # fmt: skip
    located: frozenset[tuple[str, int]] = frozenset()
    played = 0
    while True:
        session = _Session(question, Player(mechanism, question.seed, located, played))
        try:
            return session.run()
        except Relocated as more:
            located, played = located | more.places, session.player.executions


def _claim(claim: Any, neighbouring: str | None) -> tuple[PrivacyCurve | None, float | None]:
    """The curve of a claim, and the sampling rate where an event states one."""
    relation = neighbouring or "add-remove"
    if claim is None:
        return None, None
    if isinstance(claim, events.Event):
        return account(claim), _stated_rate(claim)
    if isinstance(claim, str):
        return parse_claim(claim, neighbouring=relation), None
    if isinstance(claim, tuple):
        return ApproxDP(*claim, neighbouring=relation), None  # type: ignore[arg-type]
    check_curve(claim)
    if neighbouring is not None and claim.neighbouring != neighbouring:
        raise InvalidArgument(
            f"neighbouring={neighbouring!r} but the claim is about {claim.neighbouring!r}. "
            "Leave it out, or state the claim under that relation."
        )
    return claim, None


def _stated_rate(event: events.Event) -> float | None:
    if isinstance(event, events.Sampled):
        return event.sampling_rate if event.scheme == "poisson" else None
    if isinstance(event, events.Repeated | events.Selected):
        return _stated_rate(event.event)
    if isinstance(event, events.Sequence):
        return next((rate for part in event.events if (rate := _stated_rate(part))), None)
    return None


@dataclass(frozen=True)
class _Question:
    mechanism: Callable[..., Any]
    data: Any
    claim: PrivacyCurve | None
    neighbouring: Neighbouring
    rate: float | None
    sensitivity: float | None
    bounds: tuple[float, float] | None
    given: Sequence[Any] | None
    delta: float
    limit: int
    seed: int

    @property
    def n(self) -> int | None:
        return None if self.given is not None else nearby.n_records(self.data)

    def candidates(self, drawn: int) -> Iterator[Neighbour]:
        if self.given is not None:
            return nearby.given(self.data, list(self.given))
        rng = _rng.for_trial(self.seed, 0, 3)
        return nearby.candidates(self.data, self.neighbouring, rng, self.bounds, drawn)

    @property
    def claimed(self) -> float | None:
        return None if self.claim is None else float(self.claim.epsilon(self.delta))


@functools.lru_cache(maxsize=256)
def _epsilon(event: events.Event, delta: float) -> float:
    return float(account(event).epsilon(delta))


def _is_exact(event: events.Event) -> bool:
    """Whether the curve of an event comes without a grid."""
    parts = event.events if isinstance(event, events.Sequence) else (event,)
    kinds = {type(part) for part in parts}
    return kinds == {events.Gaussian} or (
        events.Gaussian not in kinds
        and not kinds
        & {
            events.Repeated,
            events.Sampled,
        }
    )


@dataclass(frozen=True)
class _Seen:
    """What one pair showed."""

    neighbour: Neighbour
    broken: tuple[Broken, ...]
    bill: prices.Bill
    event: events.Event | None
    blind: tuple[Site, ...]  # lost draws and public coins: findings of some rules do not count
    thresholded: bool  # noisy values of the first call that differs are compared
    execution: int


class _Session:
    """One check from the first recording to the result."""

    def __init__(self, question: _Question, player: Player) -> None:
        self.question = question
        self.player = player
        self.findings: list[Finding] = []
        self.warnings: list[Finding] = []
        self.undecided: list[Open] = []
        self.not_checked: list[Open] = []
        self.moved: set[Site] = set()
        self.waiting: list[tuple[_Seen, Broken]] = []  # output differs, but a line never moved
        self.dearest: tuple[float, _Seen] | None = None
        self.too_dear_at: int | None = None  # the first execution that cost more than was claimed
        self.pairs = 0
        self.drawn = 0  # a record that was in a batch

    def run(self) -> Check:
        question, player = self.question, self.player
        player.record(question.data, question.n)  # a rehearsal: caches must not keep marked values
        first = player.record(question.data, question.n)
        self.drawn = first.tape.drawn_record
        second = player.record(question.data, question.n, question.seed + 1)
        again = self._replay_itself(first)
        if again is not None:
            self.not_checked.append(again)
            return self._result()
        self._judge_alone(first, second)
        if not self.findings:
            self._search(first)
        self._note_unfollowed(first)
        self._shrink()
        return self._result()

    def _replay_itself(self, first: Played) -> Open | None:
        """The reason why a replay of D on D is not exact, None if it is."""
        n = self.question.n
        size = -1 if n is None else n
        again = self.player.replay(first, self.question.data, Edit("same", -1, size, size))
        if again.error is not None:
            return Open(f"not deterministic: a second run on the same data raised {again.error}")
        where = first_difference(first.output, again.output)
        broken = next(obligations.calls(again.tape), None)
        if where is None and broken is None:
            return None
        text = f"not deterministic: {where or 'the calls'} differs when D is played again"
        return Open(
            f"{text}; noise that is not drawn by NumPy or random is not seen here",
            broken.site if broken else None,
        )

    def _judge_alone(self, first: Played, second: Played) -> None:
        """Rules that need no neighbour."""
        alone = [
            *obligations.fixed_seed(first.tape, second.tape),
            *obligations.sampling(first.tape, self.question.rate),
        ]
        pair = Pair(self.question.data, self.question.data, "D alone")
        for broken in alone:
            self.findings.append(self._finding(broken, pair))

    def _search(self, first: Played) -> None:
        lines = obligations.adding_lines(first.tape)
        for neighbour in islice(self.question.candidates(self.drawn), self.question.limit):
            if not neighbour.finite and (self.findings or self.undecided or self.too_dear_at):
                break
            seen = self._see(first, neighbour)
            self.pairs += 1
            if not neighbour.finite:
                self._warn(self._with_price(seen), "DPA601")
                continue
            self.moved |= seen.bill.moved
            self._take(seen, first)
            if self.waiting and lines <= self.moved:
                self._accept_waiting()
            if any(finding.rule != "DPA202" for finding in self.findings):
                break
        self._judge_price(first)
        for _, broken in self.waiting[:1]:
            still = sorted(lines - self.moved, key=str)
            self._open(broken, f"the query at {still[0]} never moved, so its noise may protect it")

    def _see(self, first: Played, neighbour: Neighbour) -> _Seen:
        played = self.player.replay(first, neighbour.data, neighbour.edit)
        tape = played.tape
        broken = [*obligations.calls(tape), *obligations.shapes(tape)]
        bill = prices.Bill()
        if played.error is not None:
            text = f"The mechanism raises {played.error} on D', and not on D."
            broken = [Broken("DPA302", None, text)]
        elif not broken:
            broken += [*obligations.scales(tape), *obligations.rates(tape)]
            where = first_difference(first.output, played.output)
            if where is not None:
                text = f"{where} differs, although all noisy values are as on D."
                broken.append(Broken("DPA301", None, text[0].upper() + text[1:]))
            bill = prices.price(tape)
            broken += obligations.reuse(bill)
            broken += self._too_far(bill)
        event = prices.event_of(bill, tape, self.question.neighbouring)
        return _Seen(
            neighbour, tuple(broken), bill, event, self._blind(first, played),
            obligations.is_thresholded(tape, broken[0].site if broken else None),
            self.player.executions,
        )  # fmt: skip

    def _blind(self, first: Played, played: Played) -> tuple[Site, ...]:
        lost = [draw.site for tape in (first.tape, played.tape) for draw in tape.lost]
        coins = obligations.public_coins(played.tape) if self.question.rate is None else []
        return tuple(dict.fromkeys([*lost, *(entry.site for entry in coins)]))

    def _too_far(self, bill: prices.Bill) -> Iterator[Broken]:
        """DPA201: the declared sensitivity bounds what every query moves by."""
        most = self.question.sensitivity
        for part in bill.parts:
            if most is None:
                return
            scale = float(np.max(part.entry.scale))
            moved = (part.mu or part.epsilon) * scale
            rounding = prices.ROUNDING * (1 + float(np.max(np.abs(part.entry.query))))
            if part.law in ("normal", "laplace") and not moved <= most * EXACT + rounding:
                text = f"The query moves by {moved:.4g}; its declared sensitivity is {most:g}."
                yield Broken("DPA201", part.entry.site, text)
                return

    def _take(self, seen: _Seen, first: Played) -> None:
        for broken in seen.broken:
            if broken.rule == "DPA101" and self.question.delta > 0 and seen.thresholded:
                self._open(broken, "noisy values are compared with a threshold there, which may "
                           "hide the calls at a price in delta that is not known here")  # fmt: skip
            elif broken.rule in _HIDDEN and seen.blind:
                self._open(broken, f"the draw at {seen.blind[0]} was not followed to what it "
                           "protects; it may be the noise of this")  # fmt: skip
            elif broken.rule == "DPA302" and not seen.neighbour.ordinary:
                self._warn(replace(seen, broken=(broken,)), broken.rule)
            elif broken.rule == "DPA301":
                self.waiting.append((seen, broken))
            else:
                self.findings.append(self._finding(broken, self._pair(seen), seen))
        for entry, reason in seen.bill.unpriced:
            self._leave_out(f"{reason}; their price is not known here", entry.site)
        if seen.event is not None and not self._is_covered(seen.event):
            cost = _epsilon(seen.event, self.question.delta)
            if self.dearest is None or cost > self.dearest[0]:
                self.dearest = (cost, seen)
            if self.too_dear_at is None and self._exceeds(seen.event, cost):
                self.too_dear_at = seen.execution

    def _is_covered(self, event: events.Event) -> bool:
        """Whether the dearest pair so far costs at least as much; accounting takes time."""
        known = None if self.dearest is None else self.dearest[1].event
        return known is not None and prices.is_no_dearer(event, known)

    def _accept_waiting(self) -> None:
        seen, broken = self.waiting[0]
        self.waiting.clear()
        self.findings.append(self._finding(broken, self._pair(seen), seen))

    def _judge_price(self, first: Played) -> None:
        """DPA202: the dearest pair costs no more than was claimed."""
        claimed = self.question.claimed
        if self.dearest is None or claimed is None:
            return
        cost, seen = self.dearest
        if seen.event is None or not self._exceeds(seen.event, cost):
            return
        sampler = self._unpriced_sampler(first)
        if sampler is not None:
            self._leave_out(
                f"the price: batches are drawn here by a {sampler[0]}, whose amplification is not "
                f"priced (without it: epsilon {cost:.4g}, claimed {claimed:.4g})",
                sampler[1],
            )
            return
        part = max(seen.bill.parts, key=lambda part: (part.mu, part.epsilon))
        text = f"{_moved(part)} {_accounted(seen.event, cost, self.question.delta, claimed)}"
        if not seen.neighbour.ordinary:
            text += " If no record can be so large, declare it: bounds=(low, high)."
        finding = self._finding(Broken("DPA202", part.entry.site, text), self._pair(seen), seen)
        self.findings.append(
            replace(
                finding,
                epsilon_seen=cost,
                epsilon_claimed=claimed,
                delta=self.question.delta,
                execution=self.too_dear_at or seen.execution,
            )
        )

    def _exceeds(self, event: events.Event, cost: float) -> bool:
        """Whether a price is above the claim by more than its own rounding."""
        claimed = self.question.claimed
        slack = EXACT if _is_exact(event) else DISCRETISED
        return claimed is not None and not cost <= claimed * slack + 1e-12

    def _with_price(self, seen: _Seen) -> _Seen:
        """The same, with a price above the claim among what is broken."""
        claimed = self.question.claimed
        if seen.event is None or claimed is None or seen.broken:
            return seen
        if _epsilon(seen.event, self.question.delta) <= claimed * DISCRETISED:
            return seen
        part = max(seen.bill.parts, key=lambda part: (part.mu, part.epsilon))
        return replace(seen, broken=(Broken("DPA202", part.entry.site, _moved(part)),))

    def _unpriced_sampler(self, first: Played) -> tuple[str, Site] | None:
        n = str(first.tape.n)
        for draw in first.tape.draws:
            if draw.law in SAMPLERS and draw.settings == n:
                return draw.law, draw.site
        return None

    def _warn(self, seen: _Seen, rule: str) -> None:
        """A finding that does not count: the record is not finite, or far from all others."""
        for broken in seen.broken[:1]:
            known = {warning.rule for warning in self.warnings}
            if rule not in known:
                text = broken.text if rule == broken.rule else f"{broken.text} ({broken.rule})"
                finding = self._finding(replace(broken, rule=rule, text=text), self._pair(seen),
                                        seen)  # fmt: skip
                self.warnings.append(replace(finding, level="warning"))

    def _open(self, broken: Broken, why: str) -> None:
        entry = Open(f"{broken.text} Undecided: {why}.", broken.site, broken.rule)
        if entry.rule not in {known.rule for known in self.undecided}:
            self.undecided.append(entry)

    def _leave_out(self, text: str, site: Site | None) -> None:
        if (text, site) not in {(known.message, known.site) for known in self.not_checked}:
            self.not_checked.append(Open(text, site))

    def _note_unfollowed(self, first: Played) -> None:
        tape = first.tape
        if not tape.entries:
            self._leave_out("no noise primitive was seen", None)
        for draw in tape.lost:
            public = draw.number in tape.public
            word = "assumed to be public randomness" if public else "not followed to an addition"
            self._leave_out(f"a {draw.law} draw is {word}", draw.site)

    def _finding(self, broken: Broken, pair: Pair, seen: _Seen | None = None) -> Finding:
        message = broken.text if seen is None else f"On D' = {pair.how}: {broken.text}"
        return Finding(
            broken.rule, broken.site or _definition(self.question.mechanism), message, pair,
            n_records=self.question.n, related=broken.related, execution=self.player.executions
            if seen is None else seen.execution,
        )  # fmt: skip

    def _pair(self, seen: _Seen) -> Pair:
        return Pair(self.question.data, seen.neighbour.data, str(seen.neighbour))

    # Smaller data

    def _shrink(self) -> None:
        """Replace the pair of the first finding by the smallest one that shows the same rule."""
        self.findings.sort(key=lambda finding: ORDER.index(finding.rule))
        if not self.findings or self.question.given is not None:
            return
        finding = self.findings[0]
        found = next((n for n in self._neighbour_of(finding)), None)
        if found is None:
            return
        data, smaller = nearby.shrink(
            self.question.data, found, functools.partial(self._shows, finding.rule), limit=7
        )
        self.findings[0] = replace(
            finding,
            pair=replace(finding.pair, data=data, data_prime=smaller.data),
            n_records=nearby.n_records(data),
        )

    def _neighbour_of(self, finding: Finding) -> Iterable[Neighbour]:
        prime = finding.pair.data_prime
        if prime is self.question.data:
            return []
        return (n for n in self.question.candidates(self.drawn) if str(n) == finding.pair.how)

    def _shows(self, rule: str, data: Any, neighbour: Neighbour) -> bool:
        try:
            first = self.player.record(data, nearby.n_records(data))
            seen = self._see(first, neighbour)
        except Exception:  # a mechanism may refuse so few records
            return False
        if rule != "DPA202":
            return any(broken.rule == rule for broken in seen.broken)
        claimed = self.question.claimed
        cost = 0.0 if seen.event is None else _epsilon(seen.event, self.question.delta)
        return claimed is not None and cost > claimed * DISCRETISED

    def _result(self) -> Check:
        dearest = self.dearest
        event = None if dearest is None else dearest[1].event
        pair = self.findings[0].pair if self.findings else None
        if pair is None and dearest is not None:
            pair = self._pair(dearest[1])
        return Check(
            claim=self.question.claim,
            findings=tuple(self.findings),
            warnings=tuple(self.warnings),
            undecided=tuple(self.undecided) if not self.findings else (),
            not_checked=tuple(self.not_checked),
            event=event,
            privacy=None if event is None else account(event),
            pair=pair,
            epsilon_seen=None if dearest is None else dearest[0],
            delta=self.question.delta,
            executions=self.player.executions,
            pairs=self.pairs,
        )


def _definition(mechanism: Any) -> Site | None:
    """The line where a function is defined."""
    code = getattr(mechanism, "__code__", None)
    return None if code is None else Site(code.co_filename, code.co_firstlineno, code.co_name)


def _moved(part: prices.Part) -> str:
    if part.law in ("normal", "laplace"):
        scale = float(np.max(part.entry.scale))
        far = (part.mu or part.epsilon) * scale
        noise = "deviation" if part.law == "normal" else "scale"
        return f"The query moves by {far:.4g}; its noise has {noise} {scale:.4g}."
    if part.law in ("coin", "choice"):
        return f"The probabilities change by a factor of {np.exp(min(part.epsilon, 700)):.4g}."
    return f"The noisy values move by {part.epsilon:.4g} times their noise."


def _accounted(event: events.Event, cost: float, delta: float, claimed: float) -> str:
    how = ""
    if isinstance(event, events.Repeated) and isinstance(event.event, events.Sampled):
        step = event.event
        noise = getattr(step.event, "noise_multiplier", float("nan"))
        how = f" ({event.count} steps, noise multiplier {noise:.4g}, rate {step.sampling_rate:.4g})"
    return (
        f"Accounted from what was seen: epsilon {cost:.4g} at delta {delta:g}{how}; "
        f"claimed {claimed:.4g}."
    )
