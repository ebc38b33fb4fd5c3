"""What is measured of a column whose domain nobody declared, kind by kind.

- **Categories.** Every value that occurs has its count plus Gaussian noise of deviation σ; values
  whose noisy count is above T = 1 + σ z are released, in their natural order. All other texts are
  read as "other", all other numbers as missing. (Korolova et al. 2009; with Gaussian noise: Gopi et
  al. 2020.)
- **Numbers**, in stages that share the column's budget (:data:`SHARES`):

  1. *Atoms*: exact values, as categories; each that is released gets a code of its own, and only
     the other numbers are looked at from here on.
  2. *Octaves*: the cells 0, ±[2^k, 2^(k+1)) are fixed, so all of them are counted, and the missing
     values with them. Bounds are the ends of the outermost cells whose noisy count is above a
     threshold that an empty column passes anywhere with probability :data:`FALSE_CELL`; if no cell
     is, those of the run of 2 to 8 cells that stands out most, if it does. (Wilson et al. 2020.)
     Cells beside them are taken in if they are above :data:`BESIDE` deviations of the noise.
     If none stands out, all numbers go to the nearest atom.
  3. *Tree*: cells with many records are divided where they are not even
     (:mod:`dpassay.synth.tables.tree`), if n µ is at least :data:`FINE`; below that, and where a
     number of bins is given, the bounds are divided into bins of equal width, and the octaves get
     the tree's share.
  4. *Decimals*: how many of them numbers beside the atoms have, up to 6; sampled values are rounded
     to the most that stand out, or else to what most numbers seem to have.

- **Days.** Octaves with calendar years for cells.
- **Timestamps.** The same for the day; the time of day has fixed cells and is not measured.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpassay._special.quantiles import normal_lower
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Source
from dpassay.synth.tables.columns import (
    Categorical,
    Column,
    Date,
    Numeric,
    as_days,
    as_numbers,
)
from dpassay.synth.tables.counts import noisy_counts
from dpassay.synth.tables.tree import Leaves, grow
from dpassay.types import FloatArray, Neighbouring

BINS = 32
FALSE_CELL = 1e-3
"""The probability that a column of numbers or days gets a bound from noise alone."""
SMALLEST, LARGEST = -32, 52  # exponents of the cells of numbers; whole numbers begin at 0
YEARS = (1678, 2261)  # whole ones that a time in nanoseconds can hold
LONGEST_RUN = 8
BESIDE = 2.5  # deviations: a cell beside those that stand out needs no more to be taken in
MOST_DECIMALS = 6
DECIMALS_OUT = 3.5  # deviations of the noise above which a number of decimals stands out
FINE, FINEST = 100, 400
"""Records over the noise of a column, n µ: from the first on there is a tree of one level, from the
second on of five."""
LEVELS = 5
SHARES = {
    0: {"atoms": 0.20, "octaves": 0.75, "tree": 0.0, "decimals": 0.05},
    1: {"atoms": 0.20, "octaves": 0.45, "tree": 0.30, "decimals": 0.05},
    LEVELS: {"atoms": 0.20, "octaves": 0.25, "tree": 0.50, "decimals": 0.05},
}
"""By the levels of the tree: what of a column's squared budget each stage gets."""


class Said(Protocol):
    """What is known of a column beside its values."""

    @property
    def bins(self) -> int | None: ...
    @property
    def nullable(self) -> bool: ...
    @property
    def decimals(self) -> int | None: ...
    @property
    def other(self) -> str: ...


class Counted(NamedTuple):
    """Noisy counts of the codes of a column, and their deviations: infinite if not counted."""

    counts: FloatArray
    deviations: FloatArray


class Found(NamedTuple):
    """A measured column, and what was counted of it."""

    column: Column
    counted: Counted


class ColumnNoise(NamedTuple):
    """The noise of one column.

    Attributes:
        sigma: the deviation of the noise that costs all of the column's budget.
        z: how many deviations a value of one record is below the threshold of a list.
        source: where noise comes from.
        neighbouring: what neighbours are.
        n_records: the public number of records.

    """

    sigma: float
    z: float
    source: Source
    neighbouring: Neighbouring
    n_records: int

    def part(self, share: float) -> "ColumnNoise":
        """The noise of a stage with this share of the squared budget."""
        return self._replace(sigma=self.sigma / math.sqrt(share))

    def add(self, counts: Any) -> FloatArray:
        """Add the noise to counts, and return them."""
        counts = np.asarray(counts, float)
        # The deviation was rounded, perhaps down: a little more noise than the event states.
        sigma = self.sigma * (1 + 2.0**-50) if self.source.is_exact else self.sigma
        return noisy_counts(counts, sigma, self.source, self.neighbouring)

    @property
    def threshold(self) -> float:
        """What the noisy count of a listed value must exceed."""
        # The tail of a lattice law exceeds the normal one by a share of about 1e-13, which would
        # let a value that occurs once pass too often: a threshold that is a little higher.
        margin = 1e-9 * self.sigma if self.source.is_exact else 0.0
        return 1 + self.sigma * self.z + margin


# Categories.


def find_categories(values: Any, noise: ColumnNoise, given: Said) -> Found | None:
    """The values that many records have."""
    listed = _count_values(values)
    n_missing = float(values.isna().sum())
    noisy = noise.add([*listed.values(), n_missing])
    released = {v: c for v, c in zip(listed, noisy, strict=False) if c > noise.threshold}
    if not released:
        return None
    order = sorted(released)
    texts = all(isinstance(value, str) for value in order)
    # A number cannot be called "other": rare ones are read as missing, which then must be possible.
    nullable, outside = (given.nullable, "other") if texts else (True, "missing")
    column = Categorical(tuple(order), given.other, nullable=nullable, outside=outside)
    known = {i: (released[value], noise.sigma) for i, value in enumerate(order)}
    if given.nullable and texts:  # else rare values are among the missing, which were not counted
        known[column.n_values] = (float(noisy[-1]), noise.sigma)
    return Found(column, _count_codes(column, known))


def _count_codes(column: Column, known: Mapping[int, tuple[float, float]]) -> Counted:
    counted = Counted(np.zeros(column.size), np.full(column.size, np.inf))
    for code, (count, sigma) in known.items():
        counted.counts[code], counted.deviations[code] = count, sigma
    return counted


def _count_values(values: Any) -> dict[Any, int]:
    """How often each value occurs; the same value is the same object, whoever has it.

    Python's 1, 1.0 and True are equal: which of them is written must not depend on the records.
    """
    import pandas as pd

    present = values[values.notna()].astype(object)
    type_ = pd.api.types.infer_dtype(present)
    if type_ not in ("string", "boolean", "integer", "floating", "mixed-integer-float", "empty"):
        raise InvalidArgument(
            f"column {values.name!r} holds values of the type {type_!r}, whose domain is not "
            "measured. Make them texts or numbers, or declare the domain."
        )
    counts = present.value_counts()
    plain = (v.item() if isinstance(v, np.generic) else v for v in counts.index)
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in plain)
    return dict(zip(whole, counts.tolist(), strict=True))


# Numbers.


def find_numbers(values: Any, noise: ColumnNoise, given: Said) -> Found | None:
    """Atoms, and bins of the other numbers."""
    return _find_numbers(values, noise, given, integer=False)


def find_whole_numbers(values: Any, noise: ColumnNoise, given: Said) -> Found | None:
    """The same for whole numbers, whose decimals need no measurement."""
    return _find_numbers(values, noise, given, integer=True)


def _find_numbers(values: Any, noise: ColumnNoise, given: Said, *, integer: bool) -> Found | None:
    reach = noise.n_records / noise.sigma
    blind = reach < FINE or given.bins is not None
    levels = 0 if blind else 1 if reach < FINEST else LEVELS
    shares = _share_out(levels, skip_decimals=integer or given.decimals is not None)
    x = as_numbers(values)
    n_missing, x = int(np.isnan(x).sum()), x[~np.isnan(x)]
    atoms = _find_atoms(x, noise.part(shares["atoms"]))
    rest = x[~np.isin(x, list(atoms))].clip(-(2.0**LARGEST), 2.0**LARGEST)
    smallest = 0 if integer else SMALLEST
    octaves = noise.part(shares["octaves"])
    cells = _octaves(rest, smallest)
    *noisy, missing = octaves.add([*cells.values(), n_missing])
    run = outermost(dict(zip(cells, noisy, strict=True)), octaves.sigma)
    if run is None and not atoms:
        return None
    decimals = given.decimals
    if "decimals" in shares:
        decimals = _find_decimals(rest, noise.part(shares["decimals"]))
    leaves = Leaves(np.array([]), np.array([]), np.array([]))
    if run is not None and levels:
        start = _leaves(run, smallest, dict(zip(cells, noisy, strict=True)), octaves.sigma)
        leaves = grow(rest, start, noise.part(shares["tree"] / levels), levels, integer=integer)
    elif run is not None:
        edges = _blind_edges(run, smallest, given.bins or BINS)
        leaves = Leaves(edges, np.zeros(len(edges) - 1), np.full(len(edges) - 1, np.inf))
    own = tuple(sorted(atoms))
    rule = {"nullable": given.nullable, "outside": "nearest"}
    column = Numeric(tuple(leaves.edges), integer, own, decimals, **rule)
    listed = noise.part(shares["atoms"]).sigma
    known = [(atoms[atom], listed) for atom in own]
    known += [(missing, octaves.sigma)] * given.nullable
    counts = np.concatenate([leaves.counts, [count for count, _ in known]])
    deviations = np.concatenate([leaves.deviations, [sigma for _, sigma in known]])
    return Found(column, Counted(counts, deviations))


def _share_out(levels: int, *, skip_decimals: bool) -> dict[str, float]:
    """The shares of the stages; what is not measured leaves its share to the octaves."""
    shares = dict(SHARES[levels])
    if skip_decimals:
        shares["octaves"] += shares.pop("decimals")
    return shares


def _find_atoms(x: FloatArray, noise: ColumnNoise) -> dict[float, float]:
    """Exact values that many records have, with their noisy counts."""
    finite = x[np.abs(x) <= 2.0**LARGEST] + 0.0  # -0.0 is 0.0
    values, counts = np.unique(finite, return_counts=True)
    noisy = noise.add(counts)
    good = noisy > noise.threshold
    return dict(zip(values[good].tolist(), noisy[good].tolist(), strict=True))


def _octaves(x: FloatArray, smallest: int) -> dict[int, int]:
    """Counts of the cells -k, ..., 0, ..., k: cell c > 0 is [2^(c-1), 2^c) times 2^smallest."""
    reach = LARGEST - smallest + 1
    cells = np.sign(x) * (np.frexp(x)[1] - smallest).clip(0, reach)
    counts = np.bincount(cells.astype(np.int64) + reach, minlength=2 * reach + 1)
    return dict(zip(range(-reach, reach + 1), counts.tolist(), strict=True))


def outermost(noisy: Mapping[int, float], sigma: float) -> tuple[int, int] | None:
    """The first and the last of fixed cells that stand out; else the best run of cells, if any.

    Cells beside them that seem to hold something are taken in.
    """
    cells, counts = list(noisy), np.array(list(noisy.values()))
    single = -sigma * float(normal_lower(FALSE_CELL / 2 / len(cells)))
    found = np.flatnonzero(counts > single)
    run = (int(found[0]), int(found[-1])) if len(found) else _best_run(counts, sigma)
    if run is None:
        return None
    first, last = run
    while first > 0 and counts[first - 1] > BESIDE * sigma:
        first -= 1
    while last < len(cells) - 1 and counts[last + 1] > BESIDE * sigma:
        last += 1
    return cells[first], cells[last]


def _best_run(counts: FloatArray, sigma: float) -> tuple[int, int] | None:
    """The first and the last place of the run of cells that stands out most, if any does."""
    best, run = -float(normal_lower(FALSE_CELL / 2 / (LONGEST_RUN * len(counts)))), None
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    for length in range(2, LONGEST_RUN + 1):
        z = (sums[length:] - sums[:-length]) / (sigma * math.sqrt(length))
        at = int(np.argmax(z))
        if z[at] > best:
            best, run = z[at], (at, at + length - 1)
    return run


def _lower(cell: int, smallest: int) -> float:
    """The lower end of a cell; its upper one is minus the lower end of the cell opposite."""
    if cell == 0:
        return 0.0
    return 2.0 ** (cell - 1 + smallest) if cell > 0 else -(2.0 ** (smallest - cell))


def _ends(run: tuple[int, int], smallest: int) -> tuple[float, float]:
    """The bounds of a run of cells; whole numbers end before the upper one."""
    low, high = run
    if smallest == 0:
        return _lower(low, 0) + (low < 0), -_lower(-high, 0) + (high <= 0)
    if low == high == 0:
        return 0.0, 2.0**smallest
    return _lower(low, smallest), -_lower(-high, smallest)


def _blind_edges(run: tuple[int, int], smallest: int, bins: int) -> FloatArray:
    between = Numeric.between(*_ends(run, smallest), bins=bins, integer=smallest == 0)
    return np.array(between.edges, float)


def _leaves(
    run: tuple[int, int], smallest: int, noisy: Mapping[int, float], sigma: float
) -> Leaves:
    """The cells of a run, side by side; a cell without a width is joined to the one before."""
    ends = [_ends((cell, cell), smallest) for cell in range(run[0], run[1] + 1)]
    edges, counts = [_ends(run, smallest)[0]], list[float]()
    for cell, (_, end) in zip(range(run[0], run[1] + 1), ends, strict=True):
        if end > edges[-1]:
            edges.append(end)
            counts.append(noisy[cell])
        elif counts:
            counts[-1] += noisy[cell]
    return Leaves(np.array(edges), np.array(counts), np.full(len(counts), sigma))


def _find_decimals(x: FloatArray, noise: ColumnNoise) -> int | None:
    """The largest number of decimals that stands out, else the likeliest; None if more than 6."""
    least = np.full(len(x), MOST_DECIMALS + 1)
    for k in range(MOST_DECIMALS, -1, -1):
        least[np.round(x, k) == x] = k
    noisy = noise.add(np.bincount(least, minlength=MOST_DECIMALS + 2))
    out = np.flatnonzero(noisy > DECIMALS_OUT * noise.sigma)
    found = int(out[-1]) if len(out) else int(np.argmax(noisy))
    return None if found > MOST_DECIMALS else found


# Days.


def find_dates(values: Any, noise: ColumnNoise, given: Said) -> Found | None:
    """Calendar years of days, divided into bins."""
    days, known = as_days(values)
    years = days[known].astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    counts = np.bincount(years.clip(*YEARS) - YEARS[0], minlength=YEARS[1] - YEARS[0] + 1)
    *noisy, missing = noise.add([*counts, np.sum(~known)])
    run = outermost(dict(zip(range(YEARS[0], YEARS[1] + 1), noisy, strict=True)), noise.sigma)
    if run is None:
        return None
    rule = {"nullable": given.nullable, "outside": "nearest"}
    column = Date.between(f"{run[0]}-01-01", f"{run[1] + 1}-01-01", bins=given.bins or BINS, **rule)
    gaps = {column.n_values: (float(missing), noise.sigma)} if given.nullable else {}
    return Found(column, _count_codes(column, gaps))


MEASURES: dict[str, Callable[[Any, ColumnNoise, Said], Found | None]] = {
    "categorical": find_categories,
    "numeric": find_numbers,
    "integer": find_whole_numbers,
    "date": find_dates,
    "timestamp": find_dates,
}
LISTED = ("categorical", "numeric", "integer")
"""The kinds of which single values are released, if enough records have them."""
