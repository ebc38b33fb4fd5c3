"""The results that a task returns, checked against its contract and turned into columns."""

from numbers import Real
from typing import Any

import numpy as np

from dpassay.errors import TaskError
from dpassay.runs.outcomes import (
    NO_WORLD,
    PAYLOAD_MAX,
    RETURNED_NAN,
    Outcome,
    Outcomes,
    join,
)

WORLD_MAX = 127


class Results:
    """Collects the outcomes of a portion as its trials end.

    Those of single trials are gathered in lists, because arrays of one element are slow.
    """

    def __init__(self) -> None:
        self._columns: list[Outcomes] = []
        self._trials: list[int] = []
        self._scores: list[float] = []
        self._worlds: list[int] = []
        self._seconds: list[float] = []
        self._payloads: dict[int, bytes] = {}
        self._errors: dict[int, str] = {}
        self._features: dict[int, bytes] = {}

    def add(self, trials: list[int], results: Any, seconds: float) -> None:
        """Take what a call with these trials returned; each took so many seconds.

        Raises:
            TaskError: it is not one result per trial, or of the wrong kind.

        """
        if isinstance(results, Outcomes):
            if not np.array_equal(results.trials, trials):
                raise TaskError(f"the task returned outcomes of other trials than {_few(trials)}.")
            self._columns.append(results)
            return
        _check_number(results, trials)
        if isinstance(results, np.ndarray) and results.ndim == 1 and results.dtype.kind in "fiub":
            self._columns.append(Outcomes.of(trials, results, seconds=seconds))
            return
        for trial, result in zip(trials, results, strict=True):
            self.add_one(trial, _outcome(trial, result), seconds)

    def add_one(self, trial: int, outcome: Outcome, seconds: float) -> None:
        """Take the outcome of one trial."""
        self._trials.append(trial)
        self._scores.append(np.nan if outcome.score is None else outcome.score)
        self._worlds.append(NO_WORLD if outcome.world is None else outcome.world)
        self._seconds.append(seconds)
        if outcome.payload is not None:
            self._payloads[trial] = outcome.payload
        if outcome.error is not None:
            self._errors[trial] = outcome.error
        if outcome.features is not None:
            self._features[trial] = outcome.features

    def outcomes(self) -> Outcomes:
        """All of them, in any order."""
        singles = Outcomes.of(
            self._trials,
            self._scores,
            worlds=self._worlds,
            seconds=self._seconds,
            payloads=self._payloads,
            errors=self._errors,
            features=self._features,
        )
        return join([*self._columns, singles] if self._trials else self._columns)


def _check_number(results: Any, trials: list[int]) -> None:
    try:
        number = None if isinstance(results, bytes | str | dict) else len(results)
    except TypeError:
        number = None
    if number != len(trials):
        got = type(results).__name__ if number is None else f"{number} results"
        raise TaskError(
            f"the task returned {got} for {len(trials)} trials ({_few(trials)}); it must return "
            "one result per trial, in their order: task([7, 8]) -> [score of 7, score of 8]."
        )


def _outcome(trial: int, result: Any) -> Outcome:
    if isinstance(result, float):
        return Outcome(float(result))
    if isinstance(result, bytes):
        result = Outcome(payload=result)
    if isinstance(result, Outcome):
        return _check_outcome(trial, result)
    if isinstance(result, Real) or (isinstance(result, np.ndarray) and result.ndim == 0):
        return Outcome(float(result))
    raise TaskError(
        f"the result of trial {trial} is {_short(result)}; it must be a float, bytes or an Outcome."
    )


def _check_outcome(trial: int, outcome: Outcome) -> Outcome:
    score, world, payload, error, features = outcome
    if score is None and payload is None and error is None:
        raise TaskError(f"the outcome of trial {trial} is empty; give a score, payload or error.")
    _check_bytes("payload", trial, payload)
    _check_bytes("features", trial, features)
    if world is not None and not 0 <= world <= WORLD_MAX:
        raise TaskError(f"world={world} of trial {trial} must lie in [0, {WORLD_MAX}].")
    if score is not None and np.isnan(score) and error is None:
        error = RETURNED_NAN
    return Outcome(None if score is None else float(score), world, payload, error, features)


def _check_bytes(name: str, trial: int, value: Any) -> None:
    if value is None or (isinstance(value, bytes) and len(value) <= PAYLOAD_MAX):
        return
    size = f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
    raise TaskError(
        f"the {name} of trial {trial} is {size}; it must be at most {PAYLOAD_MAX} bytes. "
        "Keep a summary of it instead."
    )


def _few(trials: list[int]) -> str:
    return f"trial {trials[0]}" if len(trials) == 1 else f"trials {trials[0]} ... {trials[-1]}"


def _short(value: Any) -> str:
    """The type alone: a result may be computed from records, without noise."""
    return f"a {type(value).__name__}"
