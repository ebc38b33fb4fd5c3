"""The tape of one execution: every random draw and every noise primitive, in order.

A tape is written while a mechanism runs on D. A second tape, made with ``of=`` the first, is
written while the mechanism runs on a neighbour D': it serves the draws of the first one by number
and *freezes* every primitive, that is, returns the noisy value that was seen on D. Whatever still
differs between the two runs is not protected by noise. A tape knows nothing of privacy.
"""

import contextlib
import contextvars
import hashlib
import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dpassay.replay.entries import Array, Coins, Comparison, Edit, Entry, RawDraw, Step, Told
from dpassay.replay.sites import Place, Site, here

CONTINUOUS = frozenset({"laplace", "normal", "gumbel", "exponential", "logistic", "cauchy"})
_MET_SIZE = 4096
_FORCED = {"uniform": 0, "coin": 1}  # a uniform of 0 is below every rate
_SEEDS = 2**16  # a single whole number below so large a bound is a seed
SAMPLERS = frozenset({"permutation", "subset", "integers"})


class Tape:
    """What one execution did; see the module.

    Args:
        n: the number of records of the data that is played.
        of: the tape of D, to be replayed; None while recording.
        edit: how the data of this run differs from that of ``of``.
        located: lines where the location of a draw is a query even if it is zero.
        public_lines: calls whose draws are taken as public: they are served, and not followed.
        stages: of every chain the number of its stages on D', where that is known from an earlier
            replay: the last stage then shows the last value.
        forced: a record whose coins are all forced in, -1 for none.
        hidden_seed: another seed for all that nobody follows, None for the same as on D. What
            differs then was drawn somewhere that is not seen.
        shifts: what is added to frozen values, by the number of their primitive on D: whatever
            uses them then differs.

    """

    def __init__(
        self,
        n: int | None,
        *,
        of: "Tape | None" = None,
        edit: Edit | None = None,
        located: frozenset[tuple[str, int]] = frozenset(),
        public_lines: frozenset[Place] = frozenset(),
        stages: dict[int, int] | None = None,
        forced: int = -1,
        hidden_seed: int | None = None,
        shifts: Mapping[int, Array] | None = None,
    ) -> None:
        self.n = n
        self.shifts = shifts or {}
        self.hidden_seed = hidden_seed
        self.forced = forced
        self.of = of
        self.edit = edit
        self.located = located
        self.public_lines = public_lines
        self.entries: list[Entry] = []
        self.draws: list[RawDraw] = []
        self.coins: list[Coins] = []
        self.comparisons: list[Comparison] = []  # of noisy values with noisy thresholds
        self.steps: list[Step] = []
        self.told: list[Told] = []
        self.batch_sizes: list[int] = []  # of loaders that were made
        self.notes: list[tuple[str, Site]] = []  # what was played in another way, and where
        self.unseen: list[Site] = []  # draws of other threads, which are not followed
        self.reads: dict[Site, list[int]] = {}  # plain values that left the library, one hash each
        self.noise_seen: list[Step] = []  # of functions that are said to add noise
        self.met: list[int] = []  # what noisy values met, one hash per operation
        self.met_at: Site | None = None  # the first line where that differs from D
        self.step: int | None = None  # the optimizer step that is being taken
        self.followed: set[int] = set()
        self.public: set[int] = set()
        self.located_draws: set[int] = set()  # draws whose location was a query
        self.moved_locations: set[tuple[str, int]] = set()
        self.shifted: RawDraw | None = None  # the first draw that has no counterpart on D
        self._stages = stages
        self._by_value: dict[bytes, Array] = {}
        self._n_ids = 0
        self._merged: list[tuple[int, int]] = []
        self._sums: dict[tuple[Any, ...], Array] = {}
        self._chains: list[list[Entry]] = []
        self._then = [] if of is None else of._chains

    # Draws

    def expect(self, law: str, shape: tuple[int, ...]) -> Any:
        """The value to serve for the next draw of a replay, None if it must be drawn."""
        if self.of is None or len(self.draws) >= len(self.of.draws):
            return None
        then = self.of.draws[len(self.draws)]
        if then.law != law:
            return None
        value = then.value
        if np.shape(value) == shape:
            return self._force(value, law) if isinstance(value, np.ndarray) else value
        return self.align(np.asarray(value), law, shape)

    def _force(self, value: Array, law: str) -> Array:
        """A copy of a draw in which the coin of the forced record is in."""
        value = value.copy()
        if self.forced >= 0 and law in _FORCED and value.shape == (self.n,):
            value[self.forced] = _FORCED[law]
        return value

    def align(self, value: Array, law: str, shape: tuple[int, ...]) -> Array | None:
        """A draw with one entry per record, with the entry of the changed record put in or out.

        The coin of an added record is forced in: a uniform of 0 is below every rate.
        """
        edit = self.edit
        if edit is None or value.ndim != len(shape):
            return None
        axes = [i for i in range(value.ndim) if value.shape[i] != shape[i]]
        if len(axes) != 1:
            return None
        if (value.shape[axes[0]], shape[axes[0]]) != (edit.n, edit.n_prime):
            return self._align_batch(value, shape, axes[0])
        if edit.kind == "remove":
            return np.delete(value, edit.index, axis=axes[0])
        forced = _FORCED.get(law)
        fill = forced if forced is not None else value.take([0], axis=axes[0]).squeeze(axes[0])
        return np.insert(value, edit.index, fill, axis=axes[0])

    def _align_batch(self, value: Array, shape: tuple[int, ...], axis: int) -> Array | None:
        """A draw with one entry per record of a batch, such as the mask of a dropout layer.

        Every record keeps its entry; that of a record that is new takes the first one.
        """
        assert self.of is not None
        assert self.edit is not None
        batch = self.of.draws[len(self.draws)].batch
        if batch is None or not self.coins:
            return None
        then, now = self.of.coins[batch], self.coins[-1]
        sizes = value.shape[axis], shape[axis]
        if then.rows != 1 or now.rows != 1 or sizes != (then.n_in, now.n_in) or not then.n_in:
            return None
        place = {record: i for i, record in enumerate(np.flatnonzero(then.taken).tolist())}
        rows = [place.get(self._number_on_d(i), 0) for i in np.flatnonzero(now.taken).tolist()]
        return value.take(rows, axis=axis)

    def _number_on_d(self, record: int) -> int:
        """The number that a record of D' has on D; -1 for the one that was added."""
        edit = self.edit
        if edit is None or edit.kind not in ("add", "remove") or record < edit.index:
            return record
        if edit.kind == "remove":
            return record + 1
        return -1 if record == edit.index else record - 1

    def keep_draw(self, law: str, value: Any, site: Site, settings: str = "") -> RawDraw:
        """Write a draw down; returns it with its number and ids."""
        plain = np.asarray(value)
        number = len(self.draws)
        batch = len(self.coins) - 1 if self.coins else None
        raw = RawDraw(number, law, _copy(value), self._ids(law, plain), site, settings, batch)
        self.draws.append(raw)
        if self.of is not None and self.shifted is None:
            then = self.of.draws[number] if number < len(self.of.draws) else None
            if then is None or then.law != law:
                self.shifted = raw
        return raw

    def _ids(self, law: str, value: Array) -> Array:
        # Two equal draws of a continuous law come from one seed; of a discrete law, from chance.
        known = law in CONTINUOUS and is_telling(value)
        key = hashlib.blake2b(law.encode() + value.tobytes()).digest() if known else None
        if key is not None and key in self._by_value:
            return self._by_value[key].reshape(value.shape)
        ids = np.arange(self._n_ids, self._n_ids + value.size).reshape(value.shape)
        self._n_ids += value.size
        if key is not None:
            self._by_value[key] = ids
        return ids

    def new_ids(self, shape: tuple[int, ...], made_of: tuple[Any, ...] | None = None) -> Array:
        """Ids for noise that was merged from several draws.

        ``made_of`` says of which ones, and how: the same sum of the same draws is the same noise.
        """
        if made_of is not None and made_of in self._sums:
            return self._sums[made_of]
        begin = self._n_ids
        ids = self._ids("merged", np.empty(shape))
        self._merged.append((begin, self._n_ids))
        if made_of is not None:
            self._sums[made_of] = ids
        return ids

    def find_entangled(self) -> list[Entry]:
        """Primitives that share a draw with another one through a sum of draws.

        Their noises are neither equal nor independent: y + z and y' + z' - z, for example.
        """
        users: dict[int, set[int]] = {}
        counted = [entry for entry in self.entries if entry.counts]
        for entry in counted:
            for draw in entry.draws:
                users.setdefault(draw, set()).add(entry.chain)
        merged = {entry.chain for entry in counted if self._is_merged(entry)}
        bad = {
            chain
            for chains in users.values()
            if len(chains) > 1 and chains & merged
            for chain in chains
        }
        return [entry for entry in counted if entry.chain in bad]

    def _is_merged(self, entry: Entry) -> bool:
        ids = entry.ids.ravel()[:1]
        return any(low <= i < high for i in ids.tolist() for low, high in self._merged)

    def meet(self, value: Any) -> None:
        """Write down a plain operand of a noisy value; it serves to name a line, never to decide.

        Values with an entry per record meet noisy weights in every honest step: they are left out.
        """
        plain = np.asarray(value)
        if plain.size > _MET_SIZE or plain.dtype == object or self._has_records(plain.shape):
            return
        self.met.append(hash(plain.tobytes()))
        then = [] if self.of is None else self.of.met
        at = len(self.met) - 1
        if self.met_at is None and at < len(then) and then[at] != self.met[at]:
            self.met_at = here()

    def read(self, value: Any) -> None:
        """Write down a plain value that the user's code takes out of a library, to print it say."""
        self.reads.setdefault(here(), []).append(hash(np.asarray(value).tobytes()))

    @property
    def private_reads(self) -> list[Site]:
        """Lines of a replay that took a value out which is another one on D."""
        then = {} if self.of is None else self.of.reads
        return [site for site, found in self.reads.items() if then.get(site, found) != found]

    def note(self, text: str, site: Site) -> None:
        """Write down that something was played in another way than it was asked for."""
        if (text, site) not in self.notes:
            self.notes.append((text, site))

    def _has_records(self, shape: tuple[int, ...]) -> bool:
        sizes = {self.n, self.edit.n if self.edit is not None else None}
        return any(size in sizes for size in shape)

    @property
    def drawn_record(self) -> int:
        """The number of a record that was in a batch; 0 where no batch was drawn."""
        for draw in self.draws:
            if draw.law in SAMPLERS and draw.settings == str(self.n) and np.size(draw.value):
                return int(np.ravel(draw.value)[0])
        for entry in self.entries:
            if entry.kind == "coin" and entry.axis is not None and entry.out.ndim == 1:
                return int(np.argmax(entry.out))
        return 0

    @property
    def shown(self) -> list[int]:
        """Numbers that decide how records become batches: sizes of batches, and how many.

        Of coins of rate 1 / k these are k, and the size of a batch, which was rounded to k of them.
        """
        sizes = list(self.batch_sizes)
        for draw in self.draws:
            if draw.law in SAMPLERS and draw.settings == str(self.n):
                sizes.append(int(np.size(draw.value)))
        for coins in self.coins[:1]:
            rate = float(np.max(coins.rate, initial=0.0))
            if 0 < rate < 1:
                sizes += [math.ceil(coins.n // coins.rows * rate), round(1 / rate)]
        sizes.append(len(self.coins))
        return list(dict.fromkeys(size for size in sizes if size > 1))

    @property
    def lost(self) -> list[RawDraw]:
        """Draws that were never followed to a primitive: one of them may have been the noise."""
        return [
            draw
            for draw in self.draws
            if draw.number not in self.followed and not self._is_sampler(draw)
        ]

    def _is_sampler(self, draw: RawDraw) -> bool:
        """Whether a draw takes records, or seeds a generator, rather than hides an answer.

        Whole numbers below a small bound may be randomized answers, so that only those that can be
        numbers of records count: below n, or below the size of a part of 64 records or more.
        """
        if draw.law not in SAMPLERS:
            return False
        bound, n = int(draw.settings), self.n or 0
        if draw.law == "permutation" or bound == n:
            return True
        return is_seed(draw.value, bound) or (64 <= bound <= n <= 2 * bound)

    @property
    def compared_often(self) -> set[Place]:
        """Calls whose uniform draws are compared with several values.

        Such a number is no coin, but a random threshold for all records, or the search of an
        inverse distribution function: the comparisons are not independent, and have no price.
        """
        first: dict[int, Array] = {}
        found: set[Place] = set()
        for entry in self.entries:
            if entry.kind != "coin" or not entry.ids.size or not entry.draws:
                continue
            draw = self.draws[min(entry.draws)]
            known = first.setdefault(int(entry.ids.flat[0]), entry.query)
            shared = np.unique(entry.ids).size < entry.out.size
            if draw.law == "uniform" and (shared or not _is_same_coin(known, entry.query)):
                found.add(draw.site.exact)
        return found

    # Primitives

    def keep_coins(self, number: int, rate: Any, taken: Any, site: Site) -> None:
        """Write down a row of coins with one entry per record."""
        taken = np.asarray(taken)
        rows = taken.size // max(self.n or 1, 1)
        n_in = int(taken.sum())
        coins = Coins(number, np.asarray(rate), n_in, taken.size, site, rows, taken.copy())
        self.coins.append(coins)

    def keep(self, entry: Entry) -> Entry:
        """Write a primitive down; on a replay its output is replaced by that of the first tape."""
        entry.sampled = len(self.coins) - 1 if self.coins else None
        entry.step = self.step
        self.entries.append(entry)
        self.followed |= entry.draws
        if entry.stage == 0:
            self._chains.append([entry])
        else:
            self._chains[entry.chain].append(entry)
        then = self._counterpart(entry)
        forced = self.forced >= 0 and entry.kind == "coin" and entry.axis is not None
        if then is not None and then.out.shape == entry.out.shape and not forced:
            entry.out = then.out
            if then.number in self.shifts:
                entry.out = (then.out + self.shifts[then.number]).astype(then.out.dtype)
        return entry

    def count_drawn_ahead(self, entry: Entry) -> int:
        """How many batches were drawn one after another, before the noise of the first of them."""
        last = entry.sampled
        if last is None:
            return 0
        used = {other.sampled for other in self.entries if other.kind != "coin"}
        first = last
        while first > 0 and first - 1 not in used and self.coins[first - 1].rows == 1:
            first -= 1
        return last - first + 1

    @property
    def next_chain(self) -> int:
        """The number of the next chain."""
        return len(self._chains)

    def _counterpart(self, entry: Entry) -> Entry | None:
        """The primitive of D that this one of D' stands for."""
        if entry.chain >= len(self._then):
            return None
        stages = self._then[entry.chain]
        if stages[0].law != entry.law and stages[0].kind != entry.kind:
            return None
        at = min(entry.stage, len(stages) - 1)
        if self._stages is not None and entry.stage == self._stages.get(entry.chain, 0) - 1:
            at = len(stages) - 1
        return stages[at]

    def counterpart_of(self, entry: Entry) -> Entry | None:
        """The primitive of D that one of D' stands for, None on the tape of D."""
        return self._counterpart(entry)

    def pairs(self) -> list[tuple[Entry, Entry]]:
        """The primitives of D beside those of D', as far as both have them."""
        found = []
        for then, now in zip(self._then, self._chains, strict=False):
            found += _match(then, now)
        return found

    @property
    def n_stages(self) -> dict[int, int]:
        """The number of stages of every chain."""
        return {i: len(chain) for i, chain in enumerate(self._chains)}

    @property
    def chains(self) -> list[list[Entry]]:
        """The primitives, stage by stage."""
        return self._chains


def _match(then: list[Entry], now: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Stages that count, first with first; the last with the last."""
    left = [entry for entry in then if entry.counts]
    right = [entry for entry in now if entry.counts]
    if not left or not right:
        return []
    return [*zip(left[:-1], right[:-1], strict=False), (left[-1], right[-1])]


def is_telling(value: Array) -> bool:
    """Whether two equal draws of this size cannot be chance: they hold 52 random bits or more.

    A normal draw in single precision has about 24 of them, and trainings draw thousands.
    """
    return value.size * {2: 8, 4: 22}.get(value.dtype.itemsize, 52) >= 52


def _is_same_coin(chance: Array, other: Array) -> bool:
    """Whether two probabilities are the same, or those of the two sides of one coin."""
    if chance.shape != other.shape:
        return False
    return bool(np.all(chance == other) or np.allclose(chance, 1 - other, rtol=0, atol=1e-12))


def is_seed(value: Any, bound: int) -> bool:
    """Whether a whole number below a bound seeds another generator; -1 is no bound."""
    return np.size(value) == 1 and (bound < 0 or bound >= _SEEDS)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


_current: contextvars.ContextVar[Tape | None] = contextvars.ContextVar("tape", default=None)
_recorded: list[tuple[Tape, int]] = []  # with the thread of each


def current() -> Tape | None:
    """The tape of the execution that is running in this context.

    Threads have contexts of their own: what is drawn in them is not followed, and the tape of the
    thread that made the recording is told so.
    """
    tape = _current.get()
    if tape is None:
        for other, thread in _recorded:
            if thread != threading.get_ident():
                other.unseen.append(here())
    return tape


@contextlib.contextmanager
def watch_threads(tape: Tape) -> Iterator[None]:
    """While a tape is recorded, draws of other threads are noted on it."""
    entry = tape, threading.get_ident()
    _recorded.append(entry)
    try:
        yield
    finally:
        _recorded.remove(entry)


def play_on(tape: Tape | None) -> contextvars.Token[Tape | None]:
    """Make a tape the current one; give the token to :func:`stop`."""
    return _current.set(tape)


def stop(token: contextvars.Token[Tape | None]) -> None:
    """Go back to the tape of before."""
    _current.reset(token)
