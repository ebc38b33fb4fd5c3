"""What a trial log is, wherever it keeps its rows; and how two of them are joined."""

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpassay.errors import InvalidArgument, LogError
from dpassay.runs.outcomes import Outcomes

Words = Mapping[str, Any]
"""What a run is configured or described by: names with values that JSON can hold."""


@dataclass(frozen=True)
class RunRecord:
    """A run in a log: its key, its configuration, when and by which dpassay, and its trials.

    The description says what was asked last; unlike the configuration it is no part of the key.
    """

    key: str
    configuration: dict[str, Any]
    created: str
    version: str
    n_done: int
    n_failed: int
    description: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class TrialLog(Protocol):
    """Keeps outcomes by run key and trial number; of two outcomes of a trial the first stays."""

    def begin(self, key: str, configuration: Words, description: Words | None = None) -> None:
        """Enter a run; of a known run only the description is replaced, if one is given."""
        ...

    def add(self, key: str, outcomes: Outcomes, part: str | None = None) -> Outcomes:
        """Keep these; returns what the log now holds for their trials, durably.

        ``part`` names the shard or range of the run that they were played for.
        """
        ...

    def outcomes(self, key: str) -> Outcomes:
        """All outcomes of a run, in number order; LogDamaged if they are not what was written."""
        ...

    def trials(self, key: str) -> NDArray[np.int64]:
        """The numbers of a run's trials that have an outcome, in order."""
        ...

    def parts(self, key: str) -> dict[int, str]:
        """The part that each trial was played for, by trial number, of those that have one."""
        ...

    def counts(self, key: str) -> dict[str, int]:
        """The number of trials by state: {"done": ..., "failed": ...}."""
        ...

    def runs(self) -> list[RunRecord]:
        """All runs, oldest first."""
        ...

    def redescribe(self, key: str, change: Callable[[RunRecord], dict[str, Any]]) -> None:
        """Replace the description of a run by ``change(record)``, in one step as :meth:`revise`."""
        ...

    def note(self, key: str, name: str, value: Any) -> None:
        """Keep a fact about a run: plain JSON, or bytes; it replaces the one of this name."""
        ...

    def read_note(self, key: str, name: str, default: Any = None) -> Any:
        """The fact of this name, or the default."""
        ...

    def revise(self, key: str, name: str, change: Callable[[Any], Any]) -> Any:
        """Replace a fact by ``change(fact)``, with None for one that is not there; returns it.

        It is one step: no other process reads or writes the log in between.
        """
        ...

    def notes(self, key: str) -> dict[str, Any]:
        """All facts about a run, by name."""
        ...

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        ...


def merge(
    into: TrialLog,
    other: TrialLog,
    *,
    names: tuple[str, str] = ("the log", "the other"),
    notes: bool = True,
) -> int:
    """Add the runs and trials of another log; returns how many trials were new.

    Doing it again adds nothing. A trial that both hold must have the same outcome in both, but for
    its seconds and the words of an error. The description of a run that both hold stays as it is.
    So does a fact about a run, but of two numbers the larger one stands: what counts upwards must
    not be forgotten. For the same reason the account in a description is the one that goes on from
    the other. ``names`` are those of the logs, for messages; ``notes=False`` leaves facts out.

    Raises:
        LogError: the logs hold different outcomes of a trial, or each has an account of its own of
            a run; nothing is added then.

    """
    added, known = 0, {run.key: run.description for run in into.runs()}
    described = {run.key: _join_descriptions(run, known.get(run.key)) for run in other.runs()}
    for run in other.runs():
        if run.key in known:
            _refuse_conflicts(run.key, into.outcomes(run.key), other.outcomes(run.key), names)
    for run in other.runs():
        into.begin(run.key, run.configuration, described[run.key])
        before = sum(into.counts(run.key).values())
        _add_parts(into, other, run.key)
        added += sum(into.counts(run.key).values()) - before
        for name, value in other.notes(run.key).items() if notes else ():
            into.revise(run.key, name, lambda mine, theirs=value: _larger(mine, theirs))
    return added


def _refuse_conflicts(key: str, mine: Outcomes, theirs: Outcomes, names: tuple[str, str]) -> None:
    """Raise LogError if two logs have different outcomes of the same trials."""
    trials, at, there = np.intersect1d(
        mine.trials, theirs.trials, assume_unique=True, return_indices=True
    )
    a, b = mine[at], theirs[there]
    bits = [np.where(part.failed, 0.0, part.scores).view(np.int64) for part in (a, b)]
    differ = (a.failed != b.failed) | (a.worlds != b.worlds) | (bits[0] != bits[1])
    for i, trial in enumerate(trials.tolist() if a.payloads or b.payloads else ()):
        differ[i] |= a.payloads.get(trial) != b.payloads.get(trial)
    wrong = trials[differ].tolist()
    if wrong:
        few = ", ".join(map(str, wrong[:8])) + (", …" if len(wrong) > 8 else "")
        raise LogError(
            f"run {key[:12]}: {names[0]} and {names[1]} have different outcomes of "
            f"{len(wrong)} trial{'s' * (len(wrong) > 1)} ({few}). They were played twice, with "
            "secure noise or by different code or machines: keep one of the logs alone."
        )


def _join_descriptions(run: RunRecord, mine: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a run's description becomes beside the one that is there; None leaves that one."""
    if mine is None:
        return run.description
    account, theirs = mine.get("account"), run.description.get("account")
    if theirs is None or _goes_on(account, theirs):
        return None
    if account is not None and not _goes_on(theirs, account):
        raise LogError(
            f"run {run.key[:12]} was asked in both logs, of different trials: together they would "
            "spend its error probability twice. Keep the logs apart, or audit with another rng=."
        )
    return mine | {"account": theirs}


def keep_spent(before: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """A new description of a run, with the account that its log has unless the new one goes on.

    Two processes may ask the same run at once. What one of them has spent meanwhile stands in the
    log; the other, who began earlier and does not know of it, must not wipe it out.
    """
    account = before.get("account")
    if account is None or _goes_on(about.get("account"), account):
        return dict(about)
    return dict(about) | {"account": account}


def _goes_on(account: Any, before: Any) -> bool:
    """Whether an account is another one, or that one with more counts after it."""
    if not isinstance(account, dict) or not isinstance(before, dict):
        return False
    now, then = account.get("counts"), before.get("counts")
    if not isinstance(now, list) or not isinstance(then, list):
        return False
    return account | {"counts": then} == before and now[: len(then)] == then


def _add_parts(into: TrialLog, other: TrialLog, key: str) -> None:
    """Add the trials of a run, each with the part that it was played for."""
    outcomes, parts = other.outcomes(key), other.parts(key)
    if not parts:
        into.add(key, outcomes)
        return
    named = np.array([parts.get(trial, "") for trial in outcomes.trials.tolist()])
    for part in sorted(set(named.tolist())):
        into.add(key, outcomes[named == part], part or None)


def _larger(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, int | float) and isinstance(theirs, int | float):
        return max(mine, theirs)
    return theirs if mine is None else mine


def only(whole: Outcomes, wanted: Outcomes) -> Outcomes:
    """The outcomes of the trials that are wanted."""
    return whole[np.isin(whole.trials, wanted.trials)]


def plain_json(name: str, settings: Any) -> str:
    """Plain JSON, the same for the same settings."""
    try:
        return json.dumps(settings, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{name}={settings!r} must be plain JSON ({error}); "
            "give names and numbers, and data by its fingerprint."
        ) from None


def now() -> str:
    """The time, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
