"""One check from the first recording to its result: pairs are played, obligations judged."""

import contextlib
import functools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from dpassay import _rng
from dpassay.auditing import checking_lines as lines
from dpassay.auditing import checking_published as published
from dpassay.auditing import checking_smaller as smaller
from dpassay.auditing import checking_unused as unused
from dpassay.auditing.checking_answers import price_answer
from dpassay.auditing.checking_excuses import UNFOLLOWED, excuse
from dpassay.auditing.checking_redrawn import find_redrawn
from dpassay.auditing.checking_smaller import epsilon_of
from dpassay.auditing.findings import Check, Finding, Open, Pair
from dpassay.errors import DpassayError, InvalidTarget
from dpassay.privacy import account, events
from dpassay.replay import neighbours as nearby
from dpassay.replay import obligations, prices
from dpassay.replay.entries import Array
from dpassay.replay.neighbours import Neighbour
from dpassay.replay.obligations import HIDDEN, Broken
from dpassay.replay.outputs import first_difference, is_discrete, is_rearranged
from dpassay.replay.playing import Played, Player
from dpassay.replay.ranges import Bounds
from dpassay.replay.sites import Place, Site
from dpassay.replay.tape import SAMPLERS, Tape
from dpassay.types import Neighbouring, PrivacyCurve

EXACT, DISCRETISED = 1 + 1e-6, 1 + 1e-3
"""By how much the price may exceed the claim: rounding of exact curves, the grid of a PLD."""

_BY_NOISE = frozenset({"DPA101", "DPA103", "DPA202", "DPA402", "DPA403"})
"""Rules that a public draw breaks where it is taken for noise."""
_BY_DOMAIN = frozenset({"DPA101", "DPA103"})
"""Rules that a value beyond the declared ones breaks where each has a place of its own."""
_CLEAR, _MORE_IF_CLEAR, _MORE = 2.0, 5, 10  # pairs after a price above, or far above, the claim
_BEFORE_EMPTY_BATCHES = 5  # pairs that are played before the one on which batches are empty
_STATE = "it seems that the mechanism keeps state between runs, such as a ledger or a counter"
_NOT_STEADY = "it does not show each time, so that something random was not followed"


@dataclass(frozen=True)
class Question:
    """What is checked, on what data, against which claim; see :func:`dpassay.check`."""

    mechanism: Callable[..., Any]
    data: Any
    rebuild: Callable[[Any], Any]
    claim: PrivacyCurve | None
    neighbouring: Neighbouring
    rate: float | None
    sensitivity: float | None
    bounds: Bounds | None
    given: Sequence[Any] | None
    delta: float
    limit: int
    seed: int
    own: Any = None

    @property
    def n(self) -> int | None:
        if self.given is not None:
            return nearby.n_records_or_none(self.data)
        return nearby.n_records(self.data)

    def candidates(self, drawn: int) -> Iterator[Neighbour]:
        if self.given is not None:
            return nearby.align_given(self.data, list(self.given))
        rng = _rng.for_trial(self.seed, 0, 3)
        return nearby.candidates(self.data, self.neighbouring, rng, self.bounds, drawn, self.own)

    @functools.cached_property
    def claimed(self) -> float | None:
        return None if self.claim is None else float(self.claim.epsilon(self.delta))


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
class Seen:
    """What one pair showed."""

    neighbour: Neighbour
    broken: tuple[Broken, ...]
    bill: prices.Bill
    event: events.Event | None
    event_low: events.Event | None  # the same, less what rounding may have added
    blind: tuple[Site, ...]  # lost draws and public coins: findings of some rules do not count
    per_record: bool  # a noisy value has one entry per record, and the outputs are equal
    in_parts: bool  # the same draws are added, in other parts
    reordered: bool  # the same numbers are released, in another order
    thresholded: bool  # noisy values of the first call that differs are compared
    skips_empty: bool  # calls differ because no noise is drawn for an empty batch
    execution: int


class Session:
    """One check from the first recording to the result.

    A ``brief`` one only asks whether anything breaks: the first finding ends it.
    """

    def __init__(self, question: Question, player: Player, *, brief: bool = False) -> None:
        self.brief = brief
        self.question = question
        self.player = player
        self.findings: list[Finding] = []
        self.warnings: list[Finding] = []
        self.undecided: list[Open] = []
        self.not_checked: list[Open] = []
        self.moved: set[Site] = set()
        self.waiting: list[tuple[Seen, Broken]] = []  # output differs, but a line never moved
        self.dearest: tuple[float, Seen] | None = None
        self.too_dear_at: int | None = None  # the first execution that cost more than was claimed
        self.smooth: list[Broken] = []  # scales that differ by little
        self.reads: dict[Site, None] = {}  # lines that read private values, in order
        self.pairs = 0
        self.pairs_since = 0  # that were played after the price was first above the claim
        self.drawn = 0  # a record that was in a batch
        self.unfollowed = False  # something random is not seen; it may protect what differs
        self.whole: Tape | None = None  # of D
        self.random_queries = False  # what is not seen enters queries: a batch, or more noise
        self.unused: dict[int, Array] | None = None  # noisy values that D never uses, once known
        self.summed_answers: Site | None = None  # randomized answers of which a sum is published
        self.cut_to: set[int] = set()  # sizes of cut data sets that were played
        self._disturbed = 0  # how often D was played with another seed for it

    def run(self) -> Check:
        question, player = self.question, self.player
        player.record(question.data, question.n)  # a rehearsal: caches must not keep marked values
        with _hinting_at_state():
            first = player.record(question.data, question.n)
            second = player.record(question.data, question.n, question.seed + 1)
        self.drawn = first.tape.drawn_record
        if self._replay_itself(first, self._next_seed()) is not None:
            again = self._replay_itself(first)
            if again is not None:
                self.not_checked.append(again)
                return self._result()
            self.unfollowed = True
        self.whole = first.tape
        self._judge_alone(first, second)
        if not self.findings:
            self._search(first)
        self._note_unfollowed(first)
        if not self.brief:
            smaller.shrink(self)
        return self._result()

    @property
    def suspects(self) -> list[Place]:
        """Calls whose draws were taken for the noise of what broke, if others draw noise too.

        A draw that only meets data on its way to the real noise may be one of them.
        """
        if (
            self.whole is None
            or self.whole.steps
            or any(f.rule not in _BY_NOISE for f in self.findings)
        ):
            return []
        sites = {site for f in self.findings for site in (f.site, *f.related)}
        mixed = [entry for entry in self.whole.entries if entry.site in sites]
        numbers = {number for entry in mixed for number in entry.draws}
        numbers |= {draw.number for draw in self.whole.draws if draw.site in sites}
        found = [d.site.exact for d in self.whole.draws if d.number in numbers]
        batches = {coins.number for coins in self.whole.coins}
        noise = [d for d in self.whole.draws if d.law not in SAMPLERS and d.number not in batches]
        drawn = {d.site.exact for d in noise}
        return [*dict.fromkeys(found)] if len(drawn) > 1 else []

    def _next_seed(self) -> int:
        self._disturbed += 1
        return self.question.seed + 1 + self._disturbed

    def _replay_itself(self, first: Played, hidden_seed: int | None = None) -> Open | None:
        """The reason why a replay of D on D is not exact, None if it is.

        With another seed for all that nobody follows it is exact only if there is no such thing.
        """
        again = self.player.replay_itself(first, hidden_seed)
        if again.error is not None:
            return Open(
                f"not deterministic: another run on the same data raised {again.error}; {_STATE}"
            )
        where = first_difference(first.output, again.output)
        broken = next(obligations.calls(again.tape), None)
        if hidden_seed is not None and not unused.asks_the_same(again.tape):
            self.random_queries = True
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
            *obligations.seeds(first.tape, second.tape),
            *obligations.accounting(first.tape),
            *obligations.sampling(first.tape, self.question.rate),
        ]
        pair = Pair(self.question.data, self.question.data, "D alone")
        for broken in alone:
            self.findings.append(self.finding_of(broken, pair))

    def _search(self, first: Played) -> None:
        adding = obligations.adding_lines(first.tape)
        for neighbour in islice(self.question.candidates(self.drawn), self.question.limit):
            known = self.findings or self.undecided or self.waiting or self.too_dear_at
            if not neighbour.finite and known:
                break
            seen = self._see_used(first, neighbour)
            self.pairs += 1
            if not neighbour.finite or (not neighbour.occurs and _is_nan(seen)):
                self._warn(self.with_price(seen), "DPA601")
                continue
            self.moved |= seen.bill.moved
            self._take(seen, first)
            if self.waiting and adding <= self.moved:
                self._accept_waiting(first)
            if self.pairs == _BEFORE_EMPTY_BATCHES:
                smaller.search_empty_batches(self, first)
            if any(finding.rule != "DPA202" for finding in self.findings) or self._knows_enough():
                break
        self._judge_price(first)
        if not (self.findings or self.undecided or self.waiting or self.smooth):
            smaller.search(self, first)
        if not (self.findings or self.undecided or self.brief):
            self._ask_for_redrawn_noise(first)
        if not self.findings:
            for broken in self.smooth[:1]:
                self._open(broken, "the noise may be scaled to a smooth bound of the sensitivity, "
                           "which is not priced here")  # fmt: skip
        if adding and not (self.moved or self.findings or self.undecided or self.waiting):
            self._leave_out("no query moved on any pair: is the data that was varied used at all?",
                            None)  # fmt: skip
        for _, broken in self.waiting[:1]:
            still = sorted(adding - self.moved, key=str)
            self._open(broken, f"the query at {still[0]} never moved, so its noise may protect it")

    def _ask_for_redrawn_noise(self, first: Played) -> None:
        site = find_redrawn(self.player, first)
        if site is not None:
            text = "Noise is drawn again where the noisy value is not accepted."
            self._open(Broken("DPA202", site, text), "what noise that is cut off in this way "
                       "protects is not known here")  # fmt: skip

    def _knows_enough(self) -> bool:
        """Whether a price was above the claim some pairs ago, or a brief check met anything.

        The first pair that is too dear is rarely the worst, and other rules may name the cause; so
        some more are played, fewer where the price is far above the claim.
        """
        if self.brief:
            known = self.findings or self.undecided or self.waiting or self.smooth
            return bool(known) or self.too_dear_at is not None
        if self.too_dear_at is None or self.dearest is None or self.question.claimed is None:
            return False
        self.pairs_since += 1
        clear = self.dearest[0] >= _CLEAR * self.question.claimed
        return self.pairs_since > (_MORE_IF_CLEAR if clear else _MORE)

    def _see_used(self, first: Played, neighbour: Neighbour) -> Seen:
        """What a pair shows; before a price is held against anyone, what it counts is tried."""
        seen = self.see(first, neighbour)
        cost = 0.0 if seen.event is None else epsilon_of(seen.event, self.question.delta)
        if self.unused is not None or not (seen.bill.reused or self.exceeds(seen, cost)):
            return seen
        self.unused = unused.places(self.player, first)
        return self.see(first, neighbour) if self.unused else seen

    def see(self, first: Played, neighbour: Neighbour) -> Seen:
        played = self.player.replay(first, neighbour.data, neighbour.edit)
        tape = played.tape
        self.reads |= dict.fromkeys(tape.private_reads)
        calls = [*obligations.calls(tape), *obligations.shapes(tape)]
        broken = [*obligations.rates(tape), *calls]
        bill = prices.Bill()
        if played.error is not None:
            text = f"The mechanism raises {played.error} on D', and not on D."
            broken = [Broken("DPA302", None, text)]
        elif not calls:
            broken += obligations.scales(tape)
            where = first_difference(first.output, played.output)
            if where is not None:
                text = f"{where} differs, although all noisy values are as on D."
                site = lines.find_released(first, played)
                broken.append(Broken("DPA301", site, text[0].upper() + text[1:]))
            bill = prices.price(tape, self.unused)
            broken += obligations.reuse(bill)
            broken += self._too_far(bill)
            broken += obligations.norms(tape, self.question.neighbouring)
            broken += obligations.sensitivities(tape)
            broken = self._price_answers(first, played, neighbour, bill, broken)
        event, low = (self._event_of(part, tape) for part in (bill, prices.round_down(bill)))
        return Seen(
            neighbour, tuple(broken), bill, event, low, self._blind(first, played),
            self._is_per_record(first, played), obligations.is_in_parts(tape),
            is_rearranged(first.output, played.output),
            obligations.is_thresholded(tape, broken[0].site if broken else None),
            bool(calls) and obligations.skips_empty_batches(tape),
            self.player.executions,
        )  # fmt: skip

    def _event_of(self, bill: prices.Bill, tape: Tape) -> events.Event | None:
        """What a bill describes: of two descriptions that both hold, the one that costs less."""
        neighbouring, delta = self.question.neighbouring, self.question.delta
        event = prices.event_of(bill, tape, neighbouring)
        if event is None or all(part.span is None for part in bill.parts):
            return event
        other = prices.event_of(prices.by_range(bill), tape, neighbouring)
        either = [known for known in (event, other) if known is not None]
        return min(either, key=lambda known: epsilon_of(known, delta))

    def _price_answers(
        self,
        first: Played,
        played: Played,
        near: Neighbour,
        bill: prices.Bill,
        broken: list[Broken],
    ) -> list[Broken]:
        """What is left broken where the answer that differs is randomized by a coin."""
        lost = [*first.tape.lost, *played.tape.lost, *first.tape.unseen, *played.tape.unseen]
        by_output = [part for part in broken if part.rule == "DPA301"]
        if self.question.rate is not None or lost or not by_output or self.unfollowed:
            return broken
        answer = price_answer(self.player, first, played, near.data)
        if answer is None:
            return broken
        rest = [part for part in broken if part.rule != "DPA301"]
        if not np.isfinite(answer.epsilon):
            if not (near.ordinary and near.occurs):
                self._leave_out("answers are randomized here; what becomes of values that do not "
                                "occur in the data", answer.entry.site)  # fmt: skip
                return rest
            if not answer.alone:
                return broken
        bill.moved.add(answer.entry.site)
        bill.parts.append(prices.Part(answer.entry, epsilon=answer.epsilon, law="answer"))
        self.summed_answers = None if answer.alone else answer.entry.site
        return rest

    def _is_per_record(self, first: Played, played: Played) -> bool:
        same = first_difference(first.output, played.output) is None
        return played.error is None and same and obligations.is_per_record(played.tape)

    def _blind(self, first: Played, played: Played) -> tuple[Site, ...]:
        tapes = first.tape, played.tape
        if lines.is_length_private(first, played):
            return ()  # how many values there are was known before any of these draws
        lost = [draw.site for tape in tapes for draw in tape.lost]
        lost += [site for tape in tapes for site in tape.unseen]
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

    def _take(self, seen: Seen, first: Played) -> None:
        for broken in seen.broken:
            if broken.rule == "DPA302" and self._replay_itself(first) is not None:
                self._open(broken, f"D itself cannot be played again; {_STATE}")
            elif broken.rule == "DPA302" and not seen.neighbour.ordinary:
                self._warn(replace(seen, broken=(broken,)), broken.rule)
            elif broken.rule == "DPA102" and self.may_be_smooth(broken):
                self.smooth.append(broken)
            elif why := self.excuse_of(seen, broken):
                self._open(broken, why)
            elif broken.rule == "DPA301":
                self.waiting.append((seen, broken))
            elif broken.rule in HIDDEN and not self.is_steady(first, seen, broken):
                self._open(broken, _NOT_STEADY)
            elif broken.rule in _BY_DOMAIN and self._may_be_undeclared(seen.neighbour):
                self._take_undeclared(seen, broken)
            else:
                self.findings.append(self.finding_of(broken, self.pair_of(seen), seen))
        for entry, reason in seen.bill.unpriced:
            self._leave_out(f"{reason}; their price is not known here", entry.site)
        if seen.event is not None and not self._is_covered(seen.event):
            cost = epsilon_of(seen.event, self.question.delta)
            if self.dearest is None or cost > self.dearest[0]:
                self.dearest = (cost, seen)
            if self.too_dear_at is None and self.exceeds(seen, cost):
                self.too_dear_at = seen.execution

    def _may_be_undeclared(self, near: Neighbour) -> bool:
        """Whether a record is a code or a text that does not occur, where others could show it."""
        question = self.question
        if near.ordinary or question.given is not None:
            return False
        return any(True for _ in nearby.without_a_value(question.data, question.neighbouring))

    def _take_undeclared(self, seen: Seen, broken: Broken) -> None:
        """A finding if a value that occurs shows the same; else a warning: it may be impossible."""
        found = smaller.find_within(self, broken)
        if found is not None:
            self.findings.append(found)
            return
        text = f"{broken.text} No value that occurs in D shows it: is this one possible at all?"
        self._warn(replace(seen, broken=(replace(broken, text=text),)), broken.rule)

    def excuse_of(self, seen: Seen, broken: Broken) -> str:
        """Why what broke may be protected all the same, empty if nothing speaks for it."""
        return excuse(seen, broken, delta=self.question.delta, unfollowed=self.unfollowed)

    def may_be_smooth(self, broken: Broken) -> bool:
        """Whether a scale changes by no more than smooth sensitivity allows (Nissim 2007).

        Laplace noise of a scale that neighbours change by e^b at most keeps a claim of epsilon and
        delta for b = epsilon / (2 log(2 / delta)).
        """
        claimed, delta = self.question.claimed, self.question.delta
        if claimed is None or not 0 < delta < 1:
            return False
        return broken.size <= claimed / (2 * math.log(2 / delta)) * EXACT

    def _is_covered(self, event: events.Event) -> bool:
        """Whether the dearest pair so far costs at least as much; accounting takes time."""
        known = None if self.dearest is None else self.dearest[1].event
        return known is not None and prices.is_no_dearer(event, known)

    def _accept_waiting(self, first: Played) -> None:
        seen, broken = self.waiting[0]
        self.waiting.clear()
        if self.is_steady(first, seen, broken):
            self.findings.append(self.finding_of(broken, self.pair_of(seen), seen))
        else:
            self._open(broken, _NOT_STEADY)

    def is_steady(self, first: Played, seen: Seen, broken: Broken) -> bool:
        """Whether the same shows each time: noise that nobody follows may differ by chance.

        In outputs with many digits it would have shown when D was played again; few whole numbers
        or words may have agreed there, so that D and D' are played four times more.
        """
        for _ in range(4 if is_discrete(first.output) else 0):
            again = self.with_price(self.see(first, seen.neighbour)).broken
            if broken.rule not in {b.rule for b in again}:
                return False
            if self._replay_itself(first, self._next_seed()):
                return False
        return True

    def _judge_price(self, first: Played) -> None:
        """DPA202: the dearest pair costs no more than was claimed."""
        claimed = self.question.claimed
        if self.dearest is None or claimed is None:
            return
        cost, seen = self.dearest
        if seen.event is None or not self.exceeds(seen, cost):
            return
        part = max(seen.bill.parts, key=lambda part: (part.mu, part.epsilon))
        why = self._why_unpriced(first, seen)
        if why:
            text = f"The price may be above the claim (epsilon {cost:.4g}, claimed {claimed:.4g})."
            self._open(Broken("DPA202", part.entry.site, text), why)
            return
        sampler = self.unpriced_sampler(first)
        if sampler is not None:
            self._leave_out(
                f"the price: batches are drawn here by a {sampler[0]}, whose amplification is not "
                f"priced (without it: epsilon {cost:.4g}, claimed {claimed:.4g})",
                sampler[1],
            )
            return
        text = f"{_say_movement(part)} {_say_cost(seen.event, cost, self.question.delta, claimed)}"
        if not seen.neighbour.occurs:
            text += " If no such value can occur, declare those that can as categories of a frame."
        elif not seen.neighbour.ordinary:
            text += (
                " If no record can be so large, declare it: bounds=(low, high), or one such pair "
                "for each column."
            )
        finding = self.finding_of(Broken("DPA202", part.entry.site, text), self.pair_of(seen), seen)
        self.findings.append(
            replace(
                finding,
                epsilon_seen=cost,
                epsilon_claimed=claimed,
                delta=self.question.delta,
                execution=self.too_dear_at or seen.execution,
            )
        )

    def _why_unpriced(self, first: Played, seen: Seen) -> str:
        """Why the price of all noisy values may not be that of the release; empty if it is."""
        if self.random_queries:
            return "something random that is not followed enters a query"
        if any(part.is_bound for part in seen.bill.parts):
            return "what a library states for a larger movement was counted, which may be more"
        if self.summed_answers is not None:
            return (
                f"the answers that are randomized at {self.summed_answers} are not published one "
                "by one, and their sum may cost less"
            )
        n = first.tape.n if self.question.neighbouring == "replace-one" else 0
        sites = {part.entry.site for part in seen.bill.parts}
        hidden = unused.find_unpublished(self.player, first, sites, n or 0, self.unused or {})
        if hidden is None:
            entries = [e for e in first.tape.entries if e.site in sites and prices.is_sum(e)]
            entries = [e for e in entries if e.number not in (self.unused or {})]
            summed = published.find_summed(self.player, first, entries)
            hidden = None if summed is None else summed.site
        if hidden is None:
            return ""
        return (
            f"the noisy values of {hidden} are not published as they are, and what is made of "
            "them may cost less"
        )

    def exceeds(self, seen: Seen, cost: float) -> bool:
        """Whether a price is above the claim by more than its own rounding."""
        claimed, event = self.question.claimed, seen.event
        if claimed is None or event is None:
            return False
        slack = claimed * (EXACT if _is_exact(event) else DISCRETISED) + 1e-12
        if cost <= slack:
            return False
        low = seen.event_low
        return low is not None and not epsilon_of(low, self.question.delta) <= slack

    def with_price(self, seen: Seen) -> Seen:
        """The same, with a price above the claim among what is broken."""
        claimed = self.question.claimed
        if seen.event is None or claimed is None or seen.broken:
            return seen
        if not self.exceeds(seen, epsilon_of(seen.event, self.question.delta)):
            return seen
        part = max(seen.bill.parts, key=lambda part: (part.mu, part.epsilon))
        return replace(seen, broken=(Broken("DPA202", part.entry.site, _say_movement(part)),))

    def unpriced_sampler(self, first: Played) -> tuple[str, Site] | None:
        """How batches are drawn, and where, if that amplifies in a way that has no price here."""
        n = str(first.tape.n)
        for draw in first.tape.draws:
            if draw.law in SAMPLERS and draw.settings == n:
                return draw.law, draw.site
        for entry in first.tape.entries:
            if entry.kind == "choice" and first.tape.n in entry.out.shape:
                return "weighted choice", entry.site
        return None

    def _warn(self, seen: Seen, rule: str) -> None:
        """A finding that does not count: the record is not finite, or far from all others."""
        for broken in seen.broken[:1]:
            known = {warning.rule for warning in self.warnings}
            if rule not in known:
                text = broken.text if rule == broken.rule else f"{broken.text} ({broken.rule})"
                finding = self.finding_of(replace(broken, rule=rule, text=text), self.pair_of(seen),
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
        if self.unfollowed:
            self._leave_out(UNFOLLOWED, None)
        for text, site in tape.notes:
            self._leave_out(text, site)
        for site in dict.fromkeys(tape.unseen):
            self._leave_out("a draw in a thread is not followed", site)
        for site in self.reads:
            self._leave_out("a value that depends on private data is read here; if it is printed "
                            "or logged, it is published without noise", site)  # fmt: skip
        for draw in tape.lost:
            public = draw.number in tape.public
            word = "assumed to be public randomness" if public else "not followed to an addition"
            article = "an" if draw.law[0] in "aeio" else "a"
            self._leave_out(f"{article} {draw.law} draw is {word}", draw.site)

    def finding_of(self, broken: Broken, pair: Pair, seen: Seen | None = None) -> Finding:
        message = broken.text if seen is None else f"On D' = {pair.how}: {broken.text}"
        return Finding(
            broken.rule, broken.site or _definition(self.question.mechanism), message, pair,
            n_records=self.question.n, related=broken.related, execution=self.player.executions
            if seen is None else seen.execution,
        )  # fmt: skip

    def pair_of(self, seen: Seen) -> Pair:
        return Pair(self.question.data, seen.neighbour.data, str(seen.neighbour))

    def _result(self) -> Check:
        dearest = self.dearest
        event = None if dearest is None else dearest[1].event
        pair = self.findings[0].pair if self.findings else None
        if pair is None and dearest is not None:
            pair = self.pair_of(dearest[1])
        return Check(
            claim=self.question.claim,
            findings=tuple(self._in_its_kind(finding) for finding in self.findings),
            warnings=tuple(self._in_its_kind(finding) for finding in self.warnings),
            undecided=tuple(self.undecided) if not self.findings else (),
            not_checked=tuple(self.not_checked),
            event=event,
            privacy=None if event is None else account(event),
            pair=None if pair is None else self._rebuilt(pair),
            epsilon_seen=None if dearest is None else dearest[0],
            delta=self.question.delta,
            executions=self.player.executions,
            pairs=self.pairs,
            mechanism=self.question.mechanism,
        )

    def _rebuilt(self, pair: Pair) -> Pair:
        """The pair as data of the kind that the mechanism takes."""
        rebuild = self.question.rebuild
        return replace(pair, data=rebuild(pair.data), data_prime=rebuild(pair.data_prime))

    def _in_its_kind(self, finding: Finding) -> Finding:
        return replace(finding, pair=self._rebuilt(finding.pair))


@contextlib.contextmanager
def _hinting_at_state() -> Generator[None, None, None]:
    """An error on data on which the mechanism has run before becomes one that says so."""
    try:
        yield
    except DpassayError:
        raise
    except Exception as error:
        raise InvalidTarget(
            f"the mechanism ran once on the data, and raised {type(error).__name__} when it was "
            f"run again; {_STATE}. A check runs it many times: make what it remembers inside of "
            "it, so that every run begins anew."
        ) from error


def _definition(mechanism: Any) -> Site | None:
    """The line where a function is defined."""
    code = getattr(mechanism, "__code__", None)
    return None if code is None else Site(code.co_filename, code.co_firstlineno, code.co_name)


def _is_nan(seen: Seen) -> bool:
    """Whether a query became NaN: a value that nobody declared was mapped to it."""
    return any(np.isnan(part.entry.query).any() for part in seen.bill.parts)


def _say_movement(part: prices.Part) -> str:
    if part.law in ("normal", "laplace"):
        scale = float(np.max(part.entry.scale))
        if float(np.min(part.entry.scale)) < scale:
            return f"The query moves by {part.mu or part.epsilon:.4g} times its noise."
        far = (part.mu or part.epsilon) * scale
        noise = "deviation" if part.law == "normal" else "scale"
        return f"The query moves by {far:.4g}; its noise has {noise} {scale:.4g}."
    if part.law in ("coin", "choice"):
        return f"The probabilities change by a factor of {np.exp(min(part.epsilon, 700)):.4g}."
    if part.law == "answer":
        return (
            f"The answers of D and D' differ by a factor of {np.exp(min(part.epsilon, 700)):.4g}."
        )
    return f"The noisy values move by {part.epsilon:.4g} times their noise."


def _say_cost(event: events.Event, cost: float, delta: float, claimed: float) -> str:
    how = ""
    if isinstance(event, events.Repeated) and isinstance(event.event, events.Sampled):
        step = event.event
        noise = getattr(step.event, "noise_multiplier", float("nan"))
        how = f" ({event.count} steps, noise multiplier {noise:.4g}, rate {step.sampling_rate:.4g})"
    return (
        f"Accounted from what was seen: epsilon {cost:.4g} at delta {delta:g}{how}; "
        f"claimed {claimed:.4g}."
    )
