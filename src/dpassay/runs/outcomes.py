"""What trials end with: one :class:`Outcome` for a trial, :class:`Outcomes` for many, in columns.

An outcome is *done* (a score, a payload, or both) or *failed* (with its error). Both are outcomes:
a trial that raises, runs out of time or returns NaN is never dropped and never played again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay.errors import InvalidArgument
from dpassay.runs.blobs import Blobs, join_blobs
from dpassay.types import FloatArray

PAYLOAD_MAX = 2**24  # bytes of one trial
NO_WORLD = -1
RETURNED_NAN = "the task returned NaN"


class Outcome(NamedTuple):
    """What one trial ends with; a task may return it instead of a bare float or bytes.

    Attributes:
        score: the score, or None if there is only a payload. NaN makes the trial a failed one.
        world: a small whole number that the caller gives a meaning (0 ... 127), or None.
        payload: bytes to keep with the trial, at most ``PAYLOAD_MAX``.
        error: given by a task that caught a failure itself; it makes the trial a failed one.
        features: bytes that describe the output beside its score, so that another score can be
            made of them later without playing again; at most ``PAYLOAD_MAX``.

    """

    score: float | None = None
    world: int | None = None
    payload: bytes | None = None
    error: str | None = None
    features: bytes | None = None


class Task(Protocol):
    """What is played: trial numbers in, one result for each out.

    A result is a float, bytes or an :class:`Outcome`; all floats at once may be an array, and all
    of them an :class:`Outcomes`. It must depend on the trial's number alone, so that trials can be
    handed out in any order and any portion: draw from ``dpassay._rng.for_trial(seed, trial)``.
    """

    def __call__(self, trials: Sequence[int], /) -> Any: ...


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of several trials, one column each, in the order of ``trials``.

    Attributes:
        trials: trial numbers.
        failed: whether each failed; the others are done.
        worlds: int8, ``NO_WORLD`` where none was given.
        scores: float64, NaN where there is none.
        seconds: how long each took; an equal share of its call if it was played with others.
        payloads: bytes by trial number, of those that have them.
        errors: texts by trial number, of those that failed.
        features: bytes by trial number, of those that keep them beside their score.

    """

    trials: NDArray[np.int64]
    failed: NDArray[np.bool_]
    worlds: NDArray[np.int8]
    scores: FloatArray
    seconds: FloatArray
    payloads: Mapping[int, bytes] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)
    features: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        trials: ArrayLike,
        scores: ArrayLike,
        *,
        worlds: ArrayLike | None = None,
        seconds: ArrayLike = 0.0,
        payloads: Mapping[int, bytes] | None = None,
        errors: Mapping[int, str] | None = None,
        features: Mapping[int, bytes] | None = None,
    ) -> "Outcomes":
        """Columns from arrays: a trial failed if it has an error, or neither score nor payload."""
        numbers = np.asarray(trials, dtype=np.int64)
        values = np.asarray(scores, dtype=np.float64)
        shared = np.asarray(NO_WORLD if worlds is None else worlds, dtype=np.int8)
        if values.shape != numbers.shape or shared.shape not in ((), numbers.shape):
            raise InvalidArgument(
                f"scores has shape {values.shape} and worlds {shared.shape} for {numbers.size} "
                "trials; give one of each per trial."
            )
        payloads, errors = dict(payloads or {}), dict(errors or {})
        for trial in numbers[np.isnan(values)].tolist():
            if trial not in payloads:
                errors.setdefault(trial, RETURNED_NAN)
        return cls(
            trials=numbers,
            failed=_among(numbers, errors),
            worlds=np.broadcast_to(shared, numbers.shape),
            scores=values,
            seconds=np.broadcast_to(np.asarray(seconds, dtype=np.float64), numbers.shape),
            payloads=payloads,
            errors=errors,
            features=features if isinstance(features, Blobs) else dict(features or {}),
        )

    def __len__(self) -> int:
        return self.trials.size

    def __getitem__(self, rows: slice | NDArray[Any]) -> "Outcomes":
        trials = self.trials[rows]
        return Outcomes(
            trials,
            self.failed[rows],
            self.worlds[rows],
            self.scores[rows],
            self.seconds[rows],
            _part(self.payloads, trials),
            _part(self.errors, trials),
            _part(self.features, trials),
        )

    @property
    def n_failed(self) -> int:
        """The number of trials that raised, hung or returned NaN."""
        return int(np.count_nonzero(self.failed))

    @property
    def n_bytes(self) -> int:
        """The size of all payloads and features."""
        return sum(map(_size, (self.payloads, self.features)))


def nothing() -> Outcomes:
    """An empty set of outcomes, to which others can be added."""
    return Outcomes.of([], [])


def failures(errors: Mapping[int, str]) -> Outcomes:
    """Outcomes of trials that failed, each with its error."""
    return Outcomes.of(list(errors), [np.nan] * len(errors), errors=errors)


def join(parts: Iterable[Outcomes]) -> Outcomes:
    """The outcomes of all these batches, one after the other."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return nothing()
    payloads: dict[int, bytes] = {}
    errors: dict[int, str] = {}
    for part in parts:
        payloads.update(part.payloads)
        errors.update(part.errors)
    return Outcomes(
        np.concatenate([part.trials for part in parts]),
        np.concatenate([part.failed for part in parts]),
        np.concatenate([part.worlds for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.seconds for part in parts]),
        payloads,
        errors,
        join_blobs([part.features for part in parts]),
    )


def _size(blobs: Mapping[int, bytes]) -> int:
    if isinstance(blobs, Blobs):
        return blobs.rows.size
    return sum(map(len, blobs.values()))


def _among(trials: NDArray[np.int64], known: Mapping[int, Any]) -> NDArray[np.bool_]:
    if not known:
        return np.zeros(trials.shape, dtype=bool)
    return np.isin(trials, np.fromiter(known, dtype=np.int64, count=len(known)))


def _part(by_trial: Mapping[int, Any], trials: NDArray[np.int64]) -> Mapping[int, Any]:
    if not by_trial:
        return by_trial
    if isinstance(by_trial, Blobs):
        return by_trial.of(trials)
    if trials.size > len(by_trial):
        here = set(trials.tolist())
        return {trial: kept for trial, kept in by_trial.items() if trial in here}
    return {trial: by_trial[trial] for trial in trials.tolist() if trial in by_trial}
