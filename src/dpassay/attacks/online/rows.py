"""Outputs as comparable numbers: what the experts of an online attack learn from.

Rows of features come with columns of any scale, with NaN where an output was shorter or a trial
failed, and with columns that never change. Each refit looks at the past rows once and fixes how
columns are scaled; later rows are scaled in the same way until the next refit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpassay.types import FloatArray

# Entries farther out say no more: one outlier must not decide a least-squares fit.
_FARTHEST = 6.0
# A median absolute deviation of Gaussian noise times this is its standard deviation.
_GAUSSIAN = 1.4826


@dataclass(frozen=True, eq=False)
class Scaling:
    """Which columns are used, and where and how wide they are."""

    columns: NDArray[np.intp]
    centres: FloatArray
    widths: FloatArray
    gaps: NDArray[np.intp]

    @classmethod
    def of(cls, table: FloatArray) -> "Scaling":
        """The scaling of past rows: each column that changes by its median and deviation."""
        missing = np.isnan(table)
        gaps = np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0))
        filled = np.where(missing, np.nan, np.clip(table, -1e300, 1e300))  # infinities are far out
        seen = ~missing.all(axis=0)
        low = np.where(seen, np.min(np.where(missing, np.inf, filled), axis=0), 0.0)
        high = np.where(seen, np.max(np.where(missing, -np.inf, filled), axis=0), 0.0)
        columns = np.flatnonzero(low < high)
        centres, widths = _centres_and_widths(filled[:, columns])
        return cls(columns, centres, widths, gaps)

    @property
    def n_columns(self) -> int:
        """How many numbers a scaled row has."""
        return self.columns.size + self.gaps.size

    def apply(self, table: FloatArray) -> FloatArray:
        """Rows in units of each column's deviation, then a flag for each column with gaps."""
        width = int(max(self.columns.max(initial=-1), self.gaps.max(initial=-1))) + 1
        if table.shape[1] < width:
            table = np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=np.nan)
        chosen = np.clip(table[:, self.columns], -1e300, 1e300)
        with np.errstate(over="ignore"):
            scaled = (chosen - self.centres) / self.widths
        flags = np.isnan(table[:, self.gaps]).astype(float)
        near = np.clip(scaled, -1e12, 1e12)
        return np.hstack([np.where(np.isnan(near), 0.0, near), flags])


def _centres_and_widths(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Medians, and deviations that are positive: a column of mostly one value has MAD 0."""
    if not table.size:
        return np.empty(table.shape[1]), np.ones(table.shape[1])
    # Those that leave NaN out take several times as long.
    gaps = bool(np.isnan(table).any())
    median, mean = (np.nanmedian, np.nanmean) if gaps else (np.median, np.mean)
    centres = median(table, axis=0)
    with np.errstate(over="ignore"):
        away = np.abs(table - centres)
        widths = _GAUSSIAN * median(away, axis=0)
        spread = mean(np.minimum(away, 1e300), axis=0)
    # Where more than half of a column is one value up to rounding, the others set its width.
    widths = np.where(widths > 1e-6 * spread, widths, spread)
    return centres, np.where((widths > 0) & np.isfinite(widths), widths, 1.0)


def clip(scaled: FloatArray) -> FloatArray:
    """Scaled rows with what is far out brought near."""
    return np.clip(scaled, -_FARTHEST, _FARTHEST)
