"""What a pair of executions costs: the event that was really played.

Along the frozen transcript a primitive costs what its query moved by, in units of its noise:

============================ =================================================================
Gaussian noise               mu = ||movement||_2 / sigma; all of them together sqrt(sum mu²)
Laplace, two-sided geometric ||movement||_1 / scale
argmax of noisy values       (largest - smallest movement) / scale: it ignores a common shift
one comparison               the log ratio of the two distribution functions, exactly
a coin, a choice             the log ratio of the probabilities, or (:func:`by_range`) their range
answers of a sparse vector   :mod:`dpassay.replay.thresholds`
============================ =================================================================

The supremum over what the noise may show is taken, so that nothing depends on the seed. Other laws
and uses have no price here, and are named. Noise that is used twice is a leak where the two queries
move differently, because the difference of the outputs then shows their movements bare; where they
move alike it is paid once.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpassay.privacy import events
from dpassay.replay.entries import Array, Entry
from dpassay.replay.sites import Site
from dpassay.replay.tape import Tape
from dpassay.replay.thresholds import price_answers
from dpassay.types import Neighbouring

ALIKE = 1e-7  # movements over noise that differ by less are equal; rounding is below 1e-12
ROUNDING = 1e-9  # and so is what a sum over n instead of n + 1 records may change, relatively
# In single precision: of the movement, and of the largest entry of the query. Sums over n and n + 1
# records were seen to differ by up to 2e-6 of them.
SINGLE_MOVE, SINGLE_QUERY = 1e-4, 1e-5
RESPONSE = "randomized response"


@dataclass(frozen=True)
class Part:
    """The price of one primitive: ``mu`` of Gaussian noise, ``epsilon`` of all else."""

    entry: Entry
    mu: float = 0.0
    epsilon: float = 0.0
    law: str = ""
    event: events.Event | None = None  # what a library says that it costs
    is_bound: bool = False  # such an event is that of a larger movement: the price may be less
    count: int = 1  # of independent draws that cost this each
    span: float | None = None  # of log ratios, where it is another bound on what a draw costs

    @property
    def rounding(self) -> float:
        """By how much ``mu`` or ``epsilon`` may be too large because sums were rounded."""
        move, query = rounding_of(self.entry)
        units = float(np.max(_ratio(np.abs(self.entry.query), self.entry.scale), initial=0.0))
        size = 1 if self.law == "normal" else self.entry.query.size
        total = self.mu + self.epsilon
        return move * total + query * units * size if np.isfinite(total) else 0.0


def rounding_of(entry: Entry) -> tuple[float, float]:
    """The relative rounding of movements and of queries, by the precision of the output."""
    values = entry.query if entry.kind == "choice" else entry.out
    single = values.dtype.itemsize <= 4 and values.dtype.kind == "f"
    if entry.kind in ("add", "choice") and single:
        return SINGLE_MOVE, SINGLE_QUERY
    return ROUNDING, ROUNDING


@dataclass
class Bill:
    """What one pair costs.

    Attributes:
        parts: the primitives that moved and have a price.
        unpriced: primitives that moved and have none, with the reason.
        reused: pairs of primitives with one noise and different movements.
        moved: lines whose query moved.

    """

    parts: list[Part] = field(default_factory=list)
    unpriced: list[tuple[Entry, str]] = field(default_factory=list)
    reused: list[tuple[Entry, Entry]] = field(default_factory=list)
    moved: set[Site] = field(default_factory=set)


def movement(then: Entry, now: Entry) -> Array:
    """How far the query moved, in units of the noise, entry by entry.

    Equal infinities are no movement: a selection leaves candidates out by a score of -inf.
    """
    same = (now.query == then.query) | (np.isnan(now.query) & np.isnan(then.query))
    with np.errstate(all="ignore"):
        shift = np.where(same, 0.0, now.query - then.query)
        units = np.where(shift == 0, 0.0, np.abs(shift) / np.where(shift == 0, 1.0, then.scale))
        return np.where(np.isnan(units), np.inf, np.sign(np.nan_to_num(shift, nan=1.0)) * units)


def find_untouched(tape: Tape) -> dict[int, Array]:
    """Places of noisy values that no use was seen of, by the number of the primitive.

    They may leave all the same: not every way out of a library is seen.
    """
    found = {}
    for entry in tape.entries:
        if is_sum(entry) and entry.stated is None and entry.shown is None and entry.out.size:
            none = entry.touched.shape != entry.out.shape
            free = np.ones(entry.out.shape, bool) if none else ~entry.touched
            if free.any():
                found[entry.number] = free
    return found


def price(tape: Tape, unused: Mapping[int, Array] | None = None) -> Bill:
    """The bill of a replay, beside the tape that it replays.

    Args:
        tape: that of the replay.
        unused: places of noisy values of D that are known not to be used, by primitive.

    """
    bill = Bill()
    lost = bool(tape.lost)
    entangled = {entry.number for entry in tape.find_entangled()}
    pairs = [pair for pair in tape.pairs() if pair[0].query.shape == pair[1].query.shape]
    seen = _Seen()
    answers = price_answers(tape)
    paid = {number for part in answers for number in part.entries}
    bill.parts += [Part(a.entry, epsilon=a.epsilon, law="threshold") for a in answers if a.epsilon]
    for then, now in sorted(pairs, key=_strength):
        if now.stated is not None and then.stated is not None:
            _price_stated(bill, then, now)
            continue
        if then.kind in ("coin", "choice"):
            if not np.array_equal(then.query, now.query):
                bill.moved.add(now.site)
            _price_probabilities(bill, then, now)
            continue
        moves = movement(then, now)
        if np.any(moves != 0):
            bill.moved.add(now.site)
        if now.number in paid:
            continue
        if now.number in entangled:
            if np.any(moves != 0):
                bill.unpriced.append((now, "sums of draws that other noisy values share"))
        else:
            _price_noise(bill, seen, then, now, moves, _may_be_released(then, now, unused or {}))
    return replace(bill, unpriced=[*bill.unpriced, *_of_one_side(bill)],
                   parts=[part for part in bill.parts if part.law != "one-sided"]
                   ) if lost else bill  # fmt: skip


def _of_one_side(bill: Bill) -> list[tuple[Entry, str]]:
    """Noise that may have two sides: a sign that was drawn elsewhere is not seen."""
    text = "one-sided noise beside a draw that was not followed, which may be its sign"
    return [(part.entry, text) for part in bill.parts if part.law == "one-sided"]


def _may_be_released(then: Entry, now: Entry, unused: Mapping[int, Array]) -> Array:
    """Which places may be released: all but those that are used neither on D nor on D'."""
    free = unused.get(then.number)
    if free is None or free.shape != now.out.shape:
        return np.ones(now.out.shape, bool)
    if now.touched.shape != free.shape:
        return ~free
    known = then.touched if then.touched.shape == free.shape else np.zeros(free.shape, bool)
    return ~free | (now.touched & ~known)


def uses_of(then: Entry, now: Entry) -> set[str]:
    """How the value was used on either side."""
    return {*then.uses, *now.uses}


def _strength(pair: tuple[Entry, Entry]) -> tuple[int, int]:
    """Values come first: noise that was released and compared is paid as released."""
    then, now = pair
    only = then.kind == "compare" or (
        bool(uses_of(then, now)) and "value" not in uses_of(then, now)
    )
    return (int(only), then.number)


class _Seen:
    """By which movement every entry of noise was first used, and by whom."""

    def __init__(self) -> None:
        self._first = np.zeros(0)
        self._user = np.zeros(0, dtype=int)
        self._entries: list[Entry] = []

    def enter(self, entry: Entry, moves: Array, counted: Array) -> tuple[Array, Entry | None, bool]:
        """Which places are new, an earlier user of the noise that moved otherwise, any repeats.

        Places that are not counted are left out.
        """
        ids = np.broadcast_to(entry.ids, moves.shape).ravel()
        flat, fresh = moves.ravel(), np.zeros(moves.size, bool)
        counted = np.broadcast_to(counted, moves.shape).ravel()
        self._grow(ids)
        known = (self._user[ids] >= 0) & counted
        places = np.flatnonzero(~known & counted)
        fresh[places[np.unique(ids[places], return_index=True)[1]]] = True
        self._first[ids[fresh]] = flat[fresh]
        self._user[ids[fresh]] = len(self._entries)
        self._entries.append(entry)
        wrong = np.flatnonzero(self._differs(entry, ids, moves) & counted)
        other = self._entries[self._user[ids[wrong[0]]]] if wrong.size else None
        return fresh.reshape(moves.shape), other, bool(known.any())

    def _grow(self, ids: Array) -> None:
        missing = int(ids.max(initial=-1)) + 1 - self._user.size
        if missing > 0:
            self._first = np.concatenate([self._first, np.zeros(missing)])
            self._user = np.concatenate([self._user, np.full(missing, -1)])

    def _differs(self, entry: Entry, ids: Array, moves: Array) -> Array:
        move, query = rounding_of(entry)
        tolerance = ALIKE + query * _ratio(np.abs(entry.query), entry.scale)
        slack = np.broadcast_to(tolerance, moves.shape).ravel()
        first, flat = self._first[ids], moves.ravel()
        with np.errstate(invalid="ignore"):  # two infinite movements are equal
            near = np.abs(flat - first) <= slack + max(ALIKE, move) * np.abs(first)
        return ~((flat == first) | near)


def _ratio(top: Array, bottom: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.nan_to_num(top / bottom, nan=0.0, posinf=0.0)


def _price_noise(
    bill: Bill, seen: _Seen, then: Entry, now: Entry, moves: Array, counted: Array
) -> None:
    fresh, other, again = seen.enter(now, moves, counted)
    if other is not None:
        bill.reused.append((other, now))
    new = moves[fresh]
    if not np.any(new != 0):
        return
    uses = uses_of(then, now)
    if then.kind == "compare":
        rule = _COMPARED if moves.size == 1 and not again else _VALUES
    elif "value" in uses or not uses:
        rule = _VALUES
    elif uses == {"argmax"}:
        rule, new = _SELECTED, moves
    else:
        bill.unpriced.append((now, f"noisy values are used by {_words(uses)}"))
        return
    if then.law not in rule:
        what = "selection by" if rule is _SELECTED else "noise of"
        bill.unpriced.append((now, f"{what} the law {then.law!r}"))
        return
    bill.parts.append(rule[then.law](then, now, new))


def _price_stated(bill: Bill, then: Entry, now: Entry) -> None:
    """What a library has proved about a call, at the distance of its two arguments."""
    assert then.stated is not None
    far = then.stated.distance(now.stated)
    if far == 0:
        return
    bill.moved.add(now.site)
    cost = "arguments whose distance is not known" if far is None else then.stated.cost(far)
    if isinstance(cost, str):
        bill.unpriced.append((now, cost))
        return
    size = getattr(cost, "epsilon", getattr(cost, "rho", np.inf))
    limit = 0.0 if now.declared is None else now.declared
    less = far is not None and far < limit * (1 - ROUNDING)
    bill.parts.append(Part(now, epsilon=float(size), law="stated", event=cost, is_bound=less))


def _words(uses: Iterable[str]) -> str:
    return " and ".join(sorted(uses))


def _gaussian(then: Entry, now: Entry, moves: Array) -> Part:
    return Part(now, mu=float(np.linalg.norm(moves)), law="normal")


def _laplace(then: Entry, now: Entry, moves: Array) -> Part:
    return Part(now, epsilon=float(np.abs(moves).sum()), law="laplace")


def _response(then: Entry, now: Entry, moves: Array) -> Part:
    # An answer costs the same whichever it changes to; its scale is one over that.
    each = 1 / float(then.scale.ravel()[0])
    return Part(now, epsilon=int(np.count_nonzero(moves)) * each, law="answer")


def _one_sided(then: Entry, now: Entry, moves: Array) -> Part:
    return Part(now, epsilon=np.inf, law="one-sided")  # values below the query are impossible


def _price_selection(law: str) -> Callable[[Entry, Entry, Array], Part]:
    def price(then: Entry, now: Entry, moves: Array) -> Part:
        # A common shift changes no winner, so the sup norm around the middle counts, twice.
        axis = then.axis if moves.ndim > 1 else None
        span = np.ptp(moves, axis=axis) if np.all(np.isfinite(moves)) else np.inf
        return Part(now, epsilon=float(np.sum(span)), law=law)

    return price


def _price_comparison(upper: Callable[[Array], Array]) -> Callable[[Entry, Entry, Array], Part]:
    """The two probabilities of one bit; ``upper`` is the log of the noise's survival function."""

    def price(then: Entry, now: Entry, moves: Array) -> Part:
        scale = float(then.scale.ravel()[0])
        a, b = (float(entry.query.ravel()[0]) / scale for entry in (then, now))
        # query + noise > 0 with the chance that the noise exceeds -query; the laws are symmetric.
        above = abs(float(upper(np.asarray(-a)) - upper(np.asarray(-b))))
        below = abs(float(upper(np.asarray(a)) - upper(np.asarray(b))))
        return Part(now, epsilon=max(above, below), law="comparison")

    return price


def _log_laplace(x: Array) -> Array:
    return np.where(x > 0, np.log(0.5) - x, np.log1p(-0.5 * np.exp(np.minimum(x, 0.0))))


def _log_normal(x: Array) -> Array:
    from scipy.special import log_ndtr

    return log_ndtr(-x)


_VALUES = {
    "normal": _gaussian,
    "laplace": _laplace,
    "two-sided geometric": _laplace,
    # What a library clips or folds after the noise costs no more; it has no density here.
    "laplace, then bounded": _laplace,
    "two-sided geometric, then bounded": _laplace,
    RESPONSE: _response,
    "exponential": _one_sided,
    "geometric": _one_sided,
}
_SELECTED = {
    "gumbel": _price_selection("gumbel"),
    "laplace": _price_selection("selection"),
    "exponential": _price_selection("selection"),
}
_COMPARED = {"laplace": _price_comparison(_log_laplace), "normal": _price_comparison(_log_normal)}


def _price_probabilities(bill: Bill, then: Entry, now: Entry) -> None:
    if np.array_equal(then.query, now.query):
        return
    p, q = then.query, now.query
    with np.errstate(all="ignore"):
        yes = np.where(p == q, 0.0, np.abs(np.log(p) - np.log(q)))
        no = np.where(p == q, 0.0, np.abs(np.log1p(-p) - np.log1p(-q)))
    if then.kind == "choice":
        bill.parts.append(_price_choice(then, now))
        return
    cost = float(np.sum(np.maximum(yes, no)))
    bill.parts.append(Part(now, epsilon=cost, law=then.kind))


def _price_choice(then: Entry, now: Entry) -> Part:
    """What the draws of a choice cost: by the largest log ratio, and by the range of them all."""
    p, q = (entry.query.astype(np.float64) for entry in (then, now))
    with np.errstate(all="ignore"):
        ratios = np.where(p == q, 0.0, np.log(p) - np.log(q))
        largest, span = float(np.max(np.abs(ratios))), float(np.ptp(ratios))
    count = max(then.out.size, 1)
    return Part(now, epsilon=largest, law="choice", count=count, span=span)


# From prices to events


def round_down(bill: Bill) -> Bill:
    """The bill without what rounding may have added to it."""
    parts = []
    for part in bill.parts:
        less = part.rounding
        mu, epsilon = max(part.mu - less, 0.0), max(part.epsilon - less, 0.0)
        span = None if part.span is None else max(part.span - 2 * less, 0.0)
        parts.append(replace(part, mu=mu, epsilon=epsilon, span=span))
    return replace(bill, parts=[part for part in parts if part.mu or part.epsilon])


def by_range(bill: Bill) -> Bill:
    """The bill with choices priced by the range of their log ratios instead of the largest one.

    Of an exponential mechanism the ratios lie in an interval of length r, and many draws cost no
    more than so many of bounded range r (Durfee and Rogers 2019). Both prices are upper bounds.
    """
    parts = [
        part if part.span is None else replace(part, epsilon=part.span, law="gumbel")
        for part in bill.parts
    ]
    return replace(bill, parts=parts)


def is_no_dearer(event: events.Event, known: events.Event) -> bool:
    """Whether an event surely costs no more than another: the same with at least as much noise."""
    if isinstance(event, events.Repeated) and isinstance(known, events.Repeated):
        return event.count <= known.count and is_no_dearer(event.event, known.event)
    if isinstance(event, events.Sampled) and isinstance(known, events.Sampled):
        same = (event.sampling_rate, event.scheme) == (known.sampling_rate, known.scheme)
        return same and is_no_dearer(event.event, known.event)
    noisy = events.Gaussian | events.Laplace
    if isinstance(event, noisy) and type(event) is type(known):
        # In single precision equal movements differ in the seventh digit.
        return event.noise_multiplier >= known.noise_multiplier * (1 - 1e-6)  # type: ignore[union-attr]
    return event == known


def event_of(bill: Bill, tape: Tape, neighbouring: Neighbouring) -> events.Event | None:
    """The event that the bill describes; None where nothing that has a price moved."""
    steps: dict[tuple[int, int] | None, list[Part]] = {}
    for part in bill.parts:
        steps.setdefault(_step_of(part, tape), []).append(part)
    found = [event for part in steps.pop(None, []) for event in _plain_events([part], neighbouring)]
    found = _merge_gaussians(found, neighbouring)
    by_rate: dict[float, list[list[Part]]] = {}
    for number, parts in steps.items():
        assert number is not None
        by_rate.setdefault(float(tape.coins[number[0]].rate.max()), []).append(parts)
    for rate, groups in by_rate.items():
        found.append(_join_sampled(groups, rate, neighbouring))
    if not found:
        return None
    return found[0] if len(found) == 1 else events.Sequence(tuple(found))


def _step_of(part: Part, tape: Tape) -> tuple[int, int] | None:
    """The batch that a primitive belongs to, None where all records are in.

    Where the coins of several batches were drawn at once, every primitive counts as a step.
    """
    number = part.entry.sampled
    if number is None or part.law not in ("normal", "laplace"):
        return None
    rate = tape.coins[number].rate
    uniform = rate.size > 0 and float(rate.min()) == float(rate.max())
    if not uniform or not 0 < float(rate.max()) < 1:
        return None
    if part.entry.step is not None:  # coins of later batches may be drawn ahead
        return number, part.entry.step
    if tape.coins[number].rows > 1:
        return number, part.entry.chain
    return number, _place_ahead(part.entry, tape)


def _place_ahead(entry: Entry, tape: Tape) -> int:
    """The batch of a primitive where the coins of several batches were drawn one after another.

    The primitives that follow are shared out among them in their order; where that does not come
    out even, every one counts as a step. Else all belong to the batch that was drawn last: 0.
    """
    ahead = tape.count_drawn_ahead(entry)
    if ahead == 1:
        return 0
    chains = [part.chain for part in tape.entries if part.sampled == entry.sampled and is_sum(part)]
    chains = list(dict.fromkeys(chains))
    each = len(chains) // ahead if len(chains) % ahead == 0 else 1
    return chains.index(entry.chain) // each


def is_sum(entry: Entry) -> bool:
    """Whether noise was added to a query, and the sum was seen."""
    return entry.kind == "add" and entry.counts


def _plain_events(parts: list[Part], neighbouring: Neighbouring) -> list[events.Event]:
    return [_event_of_part(part, neighbouring) for part in parts if part.mu or part.epsilon]


def _event_of_part(part: Part, neighbouring: Neighbouring) -> events.Event:
    if part.count > 1 and np.isfinite(part.epsilon):
        return events.Repeated(_event_of_part(replace(part, count=1), neighbouring), part.count)
    size = part.mu or part.epsilon
    if part.event is not None:
        return replace(part.event, neighbouring=neighbouring)  # type: ignore[type-var]
    if not np.isfinite(size) or not np.isfinite(1 / size):
        return events.NonPrivate(neighbouring)
    if part.law == "normal":
        return events.Gaussian(1 / size, neighbouring)
    if part.law == "laplace":
        return events.Laplace(1 / size, neighbouring)
    if part.law == "gumbel":
        return events.BoundedRange(size, neighbouring)
    return events.Pure(size, neighbouring)


def _merge_gaussians(found: list[events.Event], neighbouring: Neighbouring) -> list[events.Event]:
    """Gaussian primitives one after another are one Gaussian of mu = sqrt(sum mu²)."""
    sizes = [1 / event.noise_multiplier for event in found if isinstance(event, events.Gaussian)]
    rest = [event for event in found if not isinstance(event, events.Gaussian)]
    if not sizes:
        return rest
    return [events.Gaussian(1 / float(np.linalg.norm(sizes)), neighbouring), *rest]


def _schedule(groups: list[list[Part]]) -> dict[float, int]:
    """How many steps have which noise multiplier; empty where that cannot be told."""
    scales: list[float] = []
    far = 0.0
    for parts in groups:
        found = {float(scale) for part in parts for scale in np.unique(part.entry.scale)}
        if len(found) != 1 or any(part.epsilon or not np.isfinite(part.mu) for part in parts):
            return {}
        scales.append(found.pop())
        far = max(far, scales[-1] * float(np.linalg.norm([part.mu for part in parts])))
    if not far > 0:
        return {}
    return {scale / far: scales.count(scale) for scale in dict.fromkeys(scales)}


def _join_sampled(
    groups: list[list[Part]], rate: float, neighbouring: Neighbouring
) -> events.Event:
    """So many steps on Poisson batches, each as if its query moved as far as any that was seen.

    Steps of different noise are told apart, as a schedule has them.
    """
    schedule = _schedule(groups)
    if len(schedule) > 1:
        parts = [
            events.Repeated(events.Sampled(events.Gaussian(noise, neighbouring), rate), count)
            for noise, count in schedule.items()
        ]
        return events.Sequence(tuple(parts))
    mu = max(float(np.linalg.norm([part.mu for part in parts])) for parts in groups)
    epsilon = max(sum(part.epsilon for part in parts) for parts in groups)
    if not np.isfinite(mu + epsilon):
        return events.NonPrivate(neighbouring)
    made: list[Any] = []
    if mu > 0:
        step = events.Sampled(events.Gaussian(1 / mu, neighbouring), rate)
        made.append(events.Repeated(step, len(groups)))
    if epsilon > 0:
        step = events.Sampled(events.Laplace(1 / epsilon, neighbouring), rate)
        made.append(events.Repeated(step, len(groups)))
    if not made:
        return events.Pure(0.0, neighbouring)
    return made[0] if len(made) == 1 else events.Sequence(tuple(made))
