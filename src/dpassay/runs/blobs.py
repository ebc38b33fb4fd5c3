"""Short bytes of the same length by trial number, in one array instead of a million objects."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST = 64  # bytes each
FEWEST = 1000  # trials from which an array is worth it


class Blobs(Mapping[int, bytes]):
    """Bytes of one length by trial number; as a mapping it is like the dict of the same items.

    Args:
        trials: increasing.
        rows: uint8, [trial, byte].

    """

    def __init__(self, trials: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        self.trials, self.rows = trials, rows

    @property
    def width(self) -> int:
        """The length of each."""
        return int(self.rows.shape[1])

    def __len__(self) -> int:
        return self.trials.size

    def __iter__(self) -> Iterator[int]:
        return iter(self.trials.tolist())

    def __getitem__(self, trial: int) -> bytes:
        at = int(np.searchsorted(self.trials, trial))
        if at == self.trials.size or self.trials[at] != trial:
            raise KeyError(trial)
        return self.rows[at].tobytes()

    def of(self, trials: NDArray[np.int64]) -> "Blobs":
        """Those of some trials, which may be in any order."""
        at = np.searchsorted(self.trials, trials)
        here = at < self.trials.size
        here[here] = self.trials[at[here]] == trials[here]
        at = np.sort(at[here])
        if at.size and at[-1] - at[0] == at.size - 1:  # a stretch: a view will do
            return Blobs(self.trials[at[0] : at[-1] + 1], self.rows[at[0] : at[-1] + 1])
        return Blobs(self.trials[at], self.rows[at])


def compact(by_trial: Mapping[int, bytes]) -> Mapping[int, bytes]:
    """The same bytes in one array, if there are many of one length."""
    if isinstance(by_trial, Blobs) or len(by_trial) < FEWEST:
        return by_trial
    width = len(next(iter(by_trial.values())))
    if not 0 < width <= LONGEST or any(len(blob) != width for blob in by_trial.values()):
        return by_trial
    trials = np.fromiter(by_trial, np.int64, len(by_trial))
    rows = np.frombuffer(b"".join(by_trial.values()), np.uint8).reshape(-1, width)
    return _sorted(trials, rows)


def join_blobs(parts: Sequence[Mapping[int, bytes]]) -> Mapping[int, bytes]:
    """All of these in one mapping; of two for the same trial the later one."""
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return parts[0] if parts else {}
    blobs = [part for part in map(compact, parts) if isinstance(part, Blobs)]
    if blobs and len(blobs) == len(parts) and len({part.width for part in blobs}) == 1:
        trials = np.concatenate([part.trials for part in blobs])
        return _sorted(trials, np.concatenate([part.rows for part in blobs]))
    joined: dict[int, bytes] = {}
    for part in parts:
        joined.update(part)
    return joined


def _sorted(trials: NDArray[np.int64], rows: NDArray[np.uint8]) -> Blobs:
    if not np.any(trials[1:] <= trials[:-1]):
        return Blobs(trials, rows)
    # The last of equal numbers: the first one of the reversed order.
    found, at = np.unique(trials[::-1], return_index=True)
    return Blobs(found, rows[trials.size - 1 - at])
