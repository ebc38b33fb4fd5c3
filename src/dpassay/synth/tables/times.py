"""The time of day of a column of days, as a column of its own beside it.

A moment is two columns of the model: its day, in bins as long as the budget allows, and its time of
day, in fixed cells that need no measurement. They are joined again in every table that is sampled.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.synth.tables.columns import Codes, Column

DAY = 86_400  # seconds
CELLS = 24
# The time of day in the text of a moment; the time zone behind it is not converted.
_CLOCK = r"[T ](?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d))?)?"


@dataclass(frozen=True)
class TimeOfDay(Column):
    """The time of day of another column, as it is written there; uniform inside its cell.

    Args:
        of: the column of days.
        cells: of equal length, into which the day is divided.
        nullable: as for the column of days.

    >>> TimeOfDay("arrived").size
    24

    """

    of: str
    cells: int = CELLS
    kind: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count("cells", self.cells, high=DAY)

    @property
    def n_values(self) -> int:
        """How many codes stand for values."""
        return self.cells

    def domain_in_words(self) -> str:
        """The domain, for messages."""
        return f"the times of day of {self.of!r}"

    def _domain(self) -> dict[str, Any]:
        return {"of": self.of, "cells": self.cells}

    def _encode(self, values: Any) -> Codes:
        return as_seconds(values) * self.cells // DAY

    def _decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        first = -(-codes * DAY // self.cells)  # of the cell: the smallest second that is in it
        end = -(-(codes + 1) * DAY // self.cells)
        return rng.integers(first, end).astype("timedelta64[s]")


def as_seconds(values: Any) -> NDArray[np.int64]:
    """The seconds since midnight of a pandas series, 0 where no time of day is written."""
    if values.dtype.kind == "M":
        moments = values.dt.tz_localize(None)
        return (moments - moments.dt.normalize()).dt.total_seconds().to_numpy().astype(np.int64)
    parts = values.astype(str).str.extract(_CLOCK).fillna("0").astype(np.int64)
    seconds = 3600 * parts["hour"] + 60 * parts["minute"] + parts["second"]
    return seconds.to_numpy().clip(0, DAY - 1)
