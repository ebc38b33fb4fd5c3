"""Checksums of what a log holds: they find accidents and careless edits.

Every trial has a checksum of 64 bits over all that is kept of it, and over the key of its run, so
that a row that moves to another run is found too. The digest of a run is the sum of the checksums
of its trials, modulo 2^64. A sum does not depend on the order of its terms: several processes may
write, in any order, and each adds the terms of what it wrote.

Anybody can compute these numbers. They show that something has happened to a file; they are no
seal, and a forger can make a log that passes.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.runs.blobs import Blobs
from dpassay.runs.outcomes import Outcomes

Words = NDArray[np.uint64]


def row_checksums(
    key: str, outcomes: Outcomes, parts: Mapping[int, str] | str | None = None
) -> NDArray[np.int64]:
    """One checksum per trial, as signed integers, which is what SQLite stores.

    Args:
        key: of the run.
        outcomes: the trials.
        parts: the part of the run that they were played for, one for all or by trial number; None
            if it was not played in parts.

    """
    state = np.full(len(outcomes), _word(key.encode()), dtype=np.uint64)
    flags = outcomes.failed.astype(np.int64) << 8 | (outcomes.worlds.astype(np.int64) + 1)
    columns = (outcomes.trials, flags, outcomes.scores, outcomes.seconds)
    for column in (*map(_bits, columns), _rare(outcomes), _parts(outcomes, parts)):
        state = _mix(state ^ column)
    return state.view(np.int64)


def _mix(x: Words) -> Words:
    """The finishing steps of SplitMix64 (Steele, Lea and Flood 2014): a bit flips half of them.

    It is a bijection, so that two states that differ stay different until the next column.
    """
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _bits(column: NDArray[Any]) -> Words:
    """The bits of each entry. All NaNs are one, since a log keeps them as NULL."""
    if column.dtype.kind == "f":
        column = np.where(np.isnan(column), np.nan, column)
    return np.ascontiguousarray(column).view(np.uint64)


def _rare(outcomes: Outcomes) -> Words:
    """A word per trial for what most do not have: payload, features, error."""
    words = np.zeros(len(outcomes), dtype=np.uint64)
    blobs = (outcomes.payloads, outcomes.features, outcomes.errors)
    features = outcomes.features
    if isinstance(features, Blobs) and len(features) == len(outcomes) and not any(blobs[::2]):
        # A million of them are not looked up one by one.
        order = np.argsort(outcomes.trials, kind="stable")
        words[order] = [_word(b"-%s-" % _frame(row.tobytes())) for row in features.rows]
    elif any(blobs):
        for row, trial in enumerate(outcomes.trials.tolist()):
            kept = [blob.get(trial) for blob in blobs]
            if any(one is not None for one in kept):
                words[row] = _word(b"".join(map(_frame, kept)))
    return words


def _parts(outcomes: Outcomes, parts: Mapping[int, str] | str | None) -> Words:
    words = np.zeros(len(outcomes), dtype=np.uint64)
    if isinstance(parts, str):
        words[:] = _word(parts.encode())
    elif parts:
        known = {part: _word(part.encode()) for part in set(parts.values())}
        numbers = outcomes.trials.tolist()
        words[:] = [known[parts[trial]] if trial in parts else 0 for trial in numbers]
    return words


def _frame(one: bytes | str | None) -> bytes:
    """The bytes behind their length: no two sequences of texts become the same bytes."""
    if one is None:
        return b"-"
    kind, raw = (
        (b"b", one) if isinstance(one, bytes) else (b"t", str(one).encode("utf-8", "replace"))
    )
    return b"%s%d:" % (kind, len(raw)) + raw


def _word(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def text_checksum(*texts: str | bytes) -> int:
    """A signed checksum of 64 bits over texts, in their order."""
    return to_signed(_word(b"".join(map(_frame, texts))))


def add_to_digest(digest: int, checksums: NDArray[np.int64]) -> int:
    """The digest with these trials added; all numbers are signed, as SQLite stores them."""
    total = int(np.sum(checksums.view(np.uint64), dtype=np.uint64))  # wraps around, as it should
    return to_signed(digest + total)


def to_signed(number: int) -> int:
    """The number modulo 2^64, between -2^63 and 2^63 - 1."""
    return (number + 2**63) % 2**64 - 2**63
