"""A trial log in memory."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import __version__
from dpassay.errors import InvalidArgument
from dpassay.runs.outcomes import Outcomes, join, nothing
from dpassay.runs.protocol import RunRecord, Words, keep_spent, now, only, plain_json


@dataclass
class _Kept:
    record: RunRecord
    batches: list[Outcomes] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    parts: dict[int, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


class MemoryLog:
    """A trial log that lives as long as the object: for audits without a store, and for tests."""

    def __init__(self) -> None:
        self._runs: dict[str, _Kept] = {}

    def begin(self, key: str, configuration: Words, description: Words | None = None) -> None:
        plain = json.loads(plain_json("configuration", dict(configuration)))
        record = RunRecord(key, plain, now(), __version__, 0, 0)
        kept = self._runs.setdefault(key, _Kept(record))
        if description is not None:
            about = keep_spent(kept.record.description, description)
            self.redescribe(key, lambda _: about)

    def redescribe(self, key: str, change: Callable[[RunRecord], dict[str, Any]]) -> None:
        kept = self._find(key)
        about = json.loads(plain_json("description", change(kept.record)))
        kept.record = replace(kept.record, description=about)

    def add(self, key: str, outcomes: Outcomes, part: str | None = None) -> Outcomes:
        kept, before = self._find(key), len(self._find(key).seen)
        numbers = outcomes.trials.tolist()
        fresh = outcomes
        if not kept.seen.isdisjoint(numbers):
            fresh = outcomes[np.array([number not in kept.seen for number in numbers])]
        kept.batches.append(fresh)
        kept.seen.update(numbers)
        if part is not None:
            kept.parts |= dict.fromkeys(fresh.trials.tolist(), part)
        complete = len(kept.seen) - before == len(outcomes)
        return outcomes if complete else only(self.outcomes(key), outcomes)

    def outcomes(self, key: str) -> Outcomes:
        kept = self._runs.get(key)
        if kept is None:
            return nothing()
        whole = join(kept.batches)
        if np.any(np.diff(whole.trials) <= 0):
            whole = whole[np.unique(whole.trials, return_index=True)[1]]
        kept.batches[:] = [whole]
        return whole

    def trials(self, key: str) -> NDArray[np.int64]:
        return self.outcomes(key).trials

    def parts(self, key: str) -> dict[int, str]:
        return dict(self._runs[key].parts) if key in self._runs else {}

    def counts(self, key: str) -> dict[str, int]:
        outcomes = self.outcomes(key)
        return {"done": len(outcomes) - outcomes.n_failed, "failed": outcomes.n_failed}

    def runs(self) -> list[RunRecord]:
        return [self._record(kept.record) for kept in self._runs.values()]

    def note(self, key: str, name: str, value: Any) -> None:
        self.revise(key, name, lambda _: value)

    def read_note(self, key: str, name: str, default: Any = None) -> Any:
        return self.notes(key).get(name, default)

    def revise(self, key: str, name: str, change: Callable[[Any], Any]) -> Any:
        notes = self._find(key).notes
        value = change(notes.get(name))
        plain = value if isinstance(value, bytes) else json.loads(plain_json(name, value))
        notes[name] = plain
        return plain

    def notes(self, key: str) -> dict[str, Any]:
        return dict(self._runs[key].notes) if key in self._runs else {}

    def _find(self, key: str) -> _Kept:
        if key not in self._runs:
            raise InvalidArgument(f"key={key!r} is not a run of this log; begin it first.")
        return self._runs[key]

    def _record(self, empty: RunRecord) -> RunRecord:
        counts = self.counts(empty.key)
        return replace(empty, n_done=counts["done"], n_failed=counts["failed"])

    def close(self) -> None:
        pass
