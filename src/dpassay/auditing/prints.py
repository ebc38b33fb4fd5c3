"""Prints of whole outputs: a hash, and whether the output is continuous.

They are kept in the log beside the score, which may be equal where outputs are not. An output is
continuous if it has floats with many digits in it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpassay.attacks.features import features
from dpassay.types import FloatArray

OF_A_BLOCK = 16  # prints kept of the outputs that are drawn at once, the first ones
BYTES = 9  # of a print: a hash and a flag
_DIGITS = 40  # significant bits in all, from which an output is continuous


def print_of(output: Any) -> bytes:
    """A short fingerprint of one output, to see outputs that come back bit for bit."""
    row = features(output) + 0.0  # -0.0 and 0.0 are equal
    digest = hashlib.blake2b(row.tobytes(), digest_size=BYTES - 1).digest()
    return digest + bytes([_has_floats(output) and _bits(row[1:17]) >= _DIGITS])


def prints_of(outputs: Any, block: bool) -> bytes | None:
    """The prints of a trial's outputs; of a block, those of the first ones.

    None where an output cannot be read as numbers: a score of it may still be had.
    """
    try:
        return b"".join(print_of(output) for output in outputs[: OF_A_BLOCK if block else 1])
    except Exception:
        return None


def _has_floats(output: Any) -> bool:
    """Whether entries may be continuous; texts are not, though they become floats as features."""
    parts: Any = output
    if isinstance(output, list | tuple):
        return any(_has_floats(part) for part in parts[:16])
    if isinstance(output, Mapping):
        return any(_has_floats(part) for part in parts.values())
    if isinstance(output, float) or hasattr(output, "state_dict") or hasattr(output, "coef_"):
        return True
    return "float" in str(getattr(output, "dtype", ""))


def _bits(values: FloatArray) -> int:
    """The significant bits of all values together that are no whole numbers."""
    parts = values[np.isfinite(values) & (values != np.floor(values))]
    whole = (np.abs(np.frexp(parts)[0]) * 2.0**53).astype(np.int64)
    return int((53 - np.log2(whole & -whole)).sum())


def cut(prints: bytes) -> list[bytes]:
    """The prints of single outputs, from those of a block written one after the other."""
    return [prints[i : i + BYTES] for i in range(0, len(prints), BYTES)]


def is_continuous(a_print: bytes) -> bool:
    """Whether a fingerprint is that of an output with continuous noise."""
    return bool(a_print) and a_print[-1] == 1
