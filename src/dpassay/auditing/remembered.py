"""Bets that were made before: a long run is asked again without betting on its beginning anew.

A run of more than ``account.BETTING_LIMIT`` trials bets on the first of them alone. What came of
that is kept in the log: the trials that were bet on, the wealth after each of them, and the bound.
Whoever judges the run again compares the trials with those of the log as they come in. As long as
they are the same, bit for bit, the wealth is the remembered one; from the first that differs on
everything is bet on anew. So a memory can save time and change nothing. It is good for one question
and one version of dpassay.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpassay import __version__
from dpassay.bounds.sequential import SequentialTest
from dpassay.errors import DpassayError
from dpassay.runs import TrialLog
from dpassay.types import FloatArray, LowerBound

if TYPE_CHECKING:
    from dpassay.auditing.referee import Rules

_NOTE = "bets"


@dataclass(frozen=True, eq=False)
class Memory:
    """Trials that were bet on, none of which refuted the claim.

    Attributes:
        worlds: of the trials, in number order.
        scores: of the trials.
        path: log wealth after each.
        bound: the bound of the bets on all of them; None if nobody asked for it.

    """

    worlds: NDArray[np.intp]
    scores: FloatArray
    path: FloatArray
    bound: LowerBound | None

    def __len__(self) -> int:
        return self.path.size

    def holds(self, start: int, worlds: NDArray[Any], scores: FloatArray) -> bool:
        """Whether these are the trials from ``start`` on, bit for bit."""
        some = slice(start, start + worlds.size)
        mine, theirs = self.scores[some], np.ascontiguousarray(scores, float)
        return np.array_equal(self.worlds[some], worlds) and mine.tobytes() == theirs.tobytes()

    def to_bytes(self, question: str) -> bytes:
        """For the log: a line of JSON, and the columns."""
        bound = None if self.bound is None else asdict(self.bound)
        head = json.dumps({"question": question, "trials": len(self), "bound": bound})
        columns = (self.worlds.astype(np.int8), self.scores, self.path)
        return head.encode() + b"\n" + b"".join(column.tobytes() for column in columns)

    @classmethod
    def from_bytes(cls, kept: bytes, question: str) -> "Memory | None":
        """What a log remembers of this question; None if it is another one."""
        line, _, rest = kept.partition(b"\n")
        head = json.loads(line)
        if head["question"] != question:
            return None
        n = int(head["trials"])
        columns = np.frombuffer(rest, np.int8, n), np.frombuffer(rest, float, 2 * n, offset=n)
        bound = None if head["bound"] is None else LowerBound(**head["bound"])
        return cls(columns[0].astype(np.intp), columns[1][:n], columns[1][n:], bound)


class RememberedTest:
    """A :class:`~dpassay.bounds.SequentialTest` that need not bet on trials that it remembers."""

    def __init__(self, memory: Memory, make: Callable[[], SequentialTest]) -> None:
        self._memory, self._make = memory, make
        self._n = 0
        self._test: SequentialTest | None = None

    def update(self, worlds: NDArray[np.intp], scores: FloatArray) -> bool:
        """Take the next trials; true once the claim is refuted."""
        if self._test is None:
            if self._memory.holds(self._n, worlds, scores):
                self._n += worlds.size
                return False
            self._test = self._make()
            self._test.update(self._memory.worlds[: self._n], self._memory.scores[: self._n])
        return self._test.update(worlds, scores)

    @property
    def refuted_at(self) -> int | None:
        """As of a test; none of the remembered trials refuted the claim."""
        return None if self._test is None else self._test.refuted_at

    @property
    def wealth_path(self) -> FloatArray:
        """Log wealth after every trial."""
        return self._memory.path[: self._n] if self._test is None else self._test.wealth_path

    @property
    def memory(self) -> Memory | None:
        """What is remembered, if these are all the trials that were taken."""
        return self._memory if self._test is None and self._n == len(self._memory) else None


def name_question(rules: "Rules", claim: str | None) -> str | None:
    """What a memory is good for, as a text; None where nothing can be remembered.

    The claim must have a text, there must be an end to the betting, and scores to compare.
    """
    if claim is None or rules.online or rules.measure or not rules.account.n_betting:
        return None
    account = rules.account.betting, rules.account.n_betting
    facts = (claim, rules.claim.neighbouring, rules.delta, rules.confidence, rules.both_ways)
    return hashlib.sha256(repr((*facts, *account, __version__)).encode()).hexdigest()


def read_memory(log: TrialLog, key: str, question: str | None) -> Memory | None:
    """What a log remembers of a question."""
    kept = None if question is None else log.read_note(key, _NOTE)
    if not isinstance(kept, bytes) or question is None:
        return None
    try:
        return Memory.from_bytes(kept, question)
    except (ValueError, LookupError, TypeError):
        return None


def keep_memory(log: TrialLog, key: str, question: str | None, memory: Memory | None) -> None:
    """Write a memory into a log, if it may be written; nothing depends on it."""
    if question is None or memory is None:
        return
    before = read_memory(log, key, question)
    if before is not None and (before.bound is not None or memory.bound is None):
        return
    try:
        log.note(key, _NOTE, memory.to_bytes(question))
    except DpassayError:  # read-only, or locked by others for long
        return
