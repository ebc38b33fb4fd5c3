"""Signs that a mechanism fixes its seed, adds no noise, or repeats what it did before.

A mechanism that ignores its generator returns the same output in every trial. A perfect attack then
"refutes" any claim, while the fault may be one line, ``torch.manual_seed(42)``, that makes trials
equal and not the training. So no verdict is given where *both* worlds are constant and differ. One
constant world alone is a leak that the claim must answer for, and it is judged.

Outputs that come back must come back at random. If trials are independent, equal outputs are as
likely in neighbouring trials as in distant ones, whatever the outputs are: numbers on a lattice,
clipped values, a finite set of answers. Seeds that go round (0, 1, ..., 99, 0, 1, ...) give no
equal outputs nearby and all of them at one distance, and seeds from the clock give all of them
nearby. Then trials depend on each other, and every bound on them is void.

What is compared are prints of the whole outputs (:mod:`dpassay.auditing.prints`).
"""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpassay.auditing.prints import BYTES, cut, is_continuous
from dpassay.auditing.reading import coins, coins_of
from dpassay.errors import AuditStopped
from dpassay.runs import Outcomes
from dpassay.runs.blobs import Blobs

FixedSeed = Literal["stop", "leak"]
_FAILED = b""
_FILLED = b"\xff"  # what shorter prints are filled up with; no flag has this value
_NO_PRINT = BYTES * _FILLED
_PRINT = np.dtype(f"V{BYTES}")
_FEWEST = 8
_CALLS = 32  # calls of each world whose outputs are compared: one seed shows in the first few
_WINDOWS = (16, 64, 256)
_EXPECTED = 30.0  # equal pairs nearby, from which their number is telling
_FACTOR = 4.0
_NONE = 8.0  # equal pairs nearby, from which it is telling that there are none
_COMPARED = 2000  # outputs, the first ones, that are compared at every distance
_BY_CHANCE = 1e-4  # of stopping an audit whose outputs come back at random, about

FIXED_SEED = (
    "every output was the same in each of the two worlds: your code fixes its seed, or adds no "
    "noise. Take the seed out (torch.manual_seed, np.random.seed, random_state=) or draw from the "
    'generator that is passed. If the seed is known to an attacker, pass fixed_seed="leak" '
    "(--fixed-seed-is-a-leak): then such outputs are judged."
)
SAME_BLOCKS = (
    "every call with size= returned the same outputs: your code fixes its seed. Draw from the "
    'generator that is passed. If the seed is known to an attacker, pass fixed_seed="leak" '
    "(--fixed-seed-is-a-leak): then such outputs are judged."
)
NOT_INDEPENDENT = (
    "outputs came back bit for bit, and not at random: trials are not independent, so that no "
    "bound on them would hold. Look for a seed that is used again (a counter, the time) or a cache."
)


class _Side:
    """What was seen in one world: how many prints, and whether all are one and the same."""

    def __init__(self) -> None:
        self.total = 0
        self.first: bytes | None = None
        self.varied = False

    def take(self, prints: NDArray[np.void]) -> None:
        self.total += prints.size
        if self.varied or not prints.size:
            return
        if self.first is None:
            self.first = prints[0].tobytes()
        self.varied = prints[0].tobytes() != self.first or bool(np.any(prints != prints[0]))


class Prints:
    """Collects fingerprints in trial order and sees outputs that are not random.

    Args:
        coin_seed: of the worlds.
        block: outputs per call; 0 for one at a time.
        fewest: outputs of each world, before anything is said of them.

    """

    def __init__(self, coin_seed: int, block: int, fewest: int = _FEWEST) -> None:
        self._coin_seed, self._block, self._fewest = coin_seed, block, fewest
        self._prints: list[NDArray[np.void]] = []
        self._sides = (_Side(), _Side())
        self._calls: tuple[list[tuple[bytes, ...]], list[tuple[bytes, ...]]] = ([], [])
        self._known = True  # whether every trial so far has prints

    def take(self, outcomes: Outcomes) -> bool:
        """Take more trials; whether they must end here."""
        if self._block:
            for trial, failed in zip(outcomes.trials.tolist(), outcomes.failed, strict=True):
                self._add_call(trial, outcomes.features.get(trial), bool(failed))
        elif len(outcomes):
            prints, known = _prints_in(outcomes)
            self._known = self._known and bool(known.all())
            self._add(prints[known], coins_of(self._coin_seed, outcomes.trials[known], 0))
        return self.fault(at_the_end=False) is not None

    def _add_call(self, trial: int, prints: bytes | None, failed: bool) -> None:
        """Take the prints of one call that draws many outputs."""
        if prints is None and not failed:
            self._known = False  # a log from before prints were kept
            return
        parts = [_FAILED] if prints is None else cut(prints)
        worlds = coins(self._coin_seed, trial, self._block)[: len(parts)]
        self._add(_rows_of(parts), worlds)
        for world, calls in enumerate(self._calls):
            mine = tuple(p for p, w in zip(parts, worlds.tolist(), strict=True) if w == world)
            if mine and len(calls) < _CALLS:
                calls.append(mine)

    def _add(self, prints: NDArray[np.void], worlds: NDArray[Any]) -> None:
        self._prints.append(prints)
        for world, side in enumerate(self._sides):
            side.take(prints[worlds == world])

    @property
    def same(self) -> bool:
        """Whether all outputs of both worlds were one and the same: nothing can be told."""
        zero, one = self._sides
        alike = not (zero.varied or one.varied) and zero.first == one.first
        return self._known and self._enough() and alike

    def refuse(self, at_the_end: bool) -> None:
        """Raise AuditStopped if something is wrong with what was taken."""
        fault = self.fault(at_the_end)
        if fault is not None:
            raise AuditStopped(fault)

    def fault(self, at_the_end: bool) -> str | None:
        """What is wrong, in words. Discrete outputs may be constant for long; they can wait."""
        if not self._known:
            return None
        if self._constant(at_the_end):
            return FIXED_SEED
        if any(map(_same_calls, self._calls)):
            return SAME_BLOCKS
        return NOT_INDEPENDENT if at_the_end and self._come_back() else None

    def _enough(self) -> bool:
        return min(side.total for side in self._sides) >= self._fewest

    def _constant(self, at_the_end: bool) -> bool:
        if not self._enough() or any(side.varied for side in self._sides):
            return False
        first, second = (side.first or _NO_PRINT for side in self._sides)
        noisy = is_continuous(first) or is_continuous(second)
        return first != second and _NO_PRINT not in (first, second) and (at_the_end or noisy)

    def _come_back(self) -> bool:
        """Whether equal continuous outputs are too near or too far from each other for chance."""
        if self._block or not self._prints:
            return False  # of blocks there are only a few of the outputs
        self._prints = [np.concatenate(self._prints)]
        rows = self._prints[0].view(np.uint8).reshape(-1, BYTES)
        hashes = np.ascontiguousarray(rows[rows[:, -1] == 1, :-1]).view(np.uint64)[:, 0]
        _, codes = np.unique(hashes, return_inverse=True)
        n, equal = codes.size, _count_equal(codes)
        if not equal:
            return False
        rate = equal / (n * (n - 1) / 2)
        near = any(_unlikely(codes, window, rate) for window in _WINDOWS if 4 * window <= n)
        return near or _keep_a_distance(codes[:_COMPARED])


def _prints_in(outcomes: Outcomes) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """A print for each trial, and whether it is known; that of a trial that failed is empty."""
    kept = outcomes.features
    if isinstance(kept, Blobs) and kept.width == BYTES and len(kept) == len(outcomes):
        return np.ascontiguousarray(kept.rows).view(_PRINT)[:, 0], np.ones(len(kept), bool)
    found = [kept.get(trial) for trial in outcomes.trials.tolist()]
    known = np.array([p is not None for p in found], bool) | outcomes.failed
    return _rows_of([p or _FAILED for p in found]), known


def _rows_of(prints: list[bytes]) -> NDArray[np.void]:
    whole = b"".join(p[:BYTES].ljust(BYTES, _FILLED) for p in prints)
    return np.frombuffer(whole, _PRINT)


def _same_calls(calls: list[tuple[bytes, ...]]) -> bool:
    """Whether calls begin with the same different continuous outputs, as of one seed."""
    if len(calls) < 2:
        return False
    together = list(zip(*calls, strict=False))  # as far as the shortest goes
    varied = len({position[0] for position in together}) > 1
    return varied and all(len(set(p)) == 1 and is_continuous(p[0]) for p in together)


def _count_equal(codes: NDArray[np.intp]) -> float:
    """How many pairs are equal."""
    counts = np.unique(codes, return_counts=True)[1].astype(float)
    return float((counts * (counts - 1) / 2).sum())


def _unlikely(codes: NDArray[np.intp], window: int, rate: float) -> bool:
    """Whether the windows hold far fewer or far more equal pairs than the whole does."""
    parts = codes[: codes.size // window * window].reshape(-1, window)
    near = _count_equal(parts + (int(codes.max()) + 1) * np.arange(len(parts))[:, None])
    expected = rate * len(parts) * window * (window - 1) / 2
    many = near >= _EXPECTED and near > _FACTOR * expected
    few = expected >= _EXPECTED and near < expected / _FACTOR
    # Copies of a value fall into windows like birthdays into days: that no two meet has a
    # probability of at most exp(-expected).
    return many or few or (near == 0 and expected >= _NONE)


def _keep_a_distance(codes: NDArray[np.intp]) -> bool:
    """Whether far more equal pairs lie at one distance than at the others.

    Of independent trials all distances d have the same rate of equal pairs, and the number of those
    at one of them exceeds x > m with probability exp(m - x - x log(x / m)) or less about its mean m
    (Chernoff's bound of a Poisson number). The mean is taken twice as large as the rate says.
    """
    n = len(codes)
    found = np.array([np.count_nonzero(codes[d:] == codes[:-d]) for d in range(1, n)])
    rate = found.sum() / (n * (n - 1) / 2)
    mean = np.minimum(2 * rate, 1.0) * np.arange(n - 1, 0, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = np.where(found > mean, found * np.log(found / mean) - found + mean, 0.0)
    return bool(surprise.max(initial=0.0) > math.log(n / _BY_CHANCE))
