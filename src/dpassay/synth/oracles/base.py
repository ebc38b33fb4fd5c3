"""What every oracle takes and returns."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpassay.errors import InvalidArgument
from dpassay.synth.queries.terms import Terms, starts
from dpassay.synth.tables.columns import Codes
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray


@dataclass(frozen=True, eq=False)
class Found:
    """What an oracle came up with, one row per row of noise.

    Attributes:
        codes: the records that were found.
        values: their values, noise included.
        gaps: upper bounds on how much better the best record is; 0 where the record is proved to
            be the best.

    """

    codes: Codes
    values: FloatArray
    gaps: FloatArray


class Oracle(Protocol):
    """Whatever finds records of high value; ``noise`` has a row of the one-hot width for each."""

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found: ...


def state_found(goal: Terms, noise: FloatArray, codes: Codes, upper: FloatArray) -> Found:
    """What an oracle returns: records, their values, and gaps to an upper bound on every value."""
    if not goal.schema.possible(codes).all():
        raise InvalidArgument(
            "the oracle found no possible record: `impossible` rules out nearly all. Use "
            "oracle='exact', which takes the rules as constraints."
        )
    values = goal.values(codes) - price(goal.schema, noise, codes)
    return Found(codes, values, np.maximum(upper - values, 0.0))


def price(schema: Schema, noise: FloatArray, codes: Codes) -> FloatArray:
    """<noise, onehot(x)> of each record with its own row of noise."""
    return np.take_along_axis(noise, codes + starts(schema), axis=1).sum(axis=1)
