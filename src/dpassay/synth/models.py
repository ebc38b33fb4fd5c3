"""What a synthesizer ends with: records, a distribution over all cells, or a mixture of products.

All three have marginal tables (of sum 1), sample records, also under a condition, and are written
as arrays. So do the data: :class:`Records` of the true table is what answers are compared with.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpassay.errors import InvalidArgument
from dpassay.synth.tables.columns import Codes
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

Condition = Mapping[int, NDArray[np.bool_]]
Groups = tuple[NDArray[np.int64], ...]
"""For each column of a marginal, the group of each of its codes: 0, 1, ..., none of them empty."""
MOST_REJECTIONS = 1000  # rounds of drawing anew before a condition counts as impossible


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """Base of all models; use one of its kinds."""

    schema: Schema
    kind: ClassVar[str] = ""

    def marginals(self, columns: Sequence[tuple[str, ...]]) -> list[FloatArray]:
        """The marginal tables of several sets of columns."""
        return [self.marginal(names) for names in columns]

    @abstractmethod
    def marginal(self, columns: Sequence[str]) -> FloatArray:
        """The marginal table of some columns; its shape is that of their sizes, its sum 1."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator, where: Condition | None = None) -> Codes:
        """Codes of n records, each possible and inside the condition."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is written of it, beside the schema."""

    def check(self) -> None:
        """Raise unless the arrays, which may come from a file, are those of such a model."""
        if not self._is_sound():
            raise InvalidArgument(f"the arrays of a {self.kind} do not fit its schema: damaged.")

    @abstractmethod
    def _is_sound(self) -> bool: ...

    @classmethod
    def from_arrays(cls, schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> "Model":
        """The model whose ``arrays`` these are."""
        return cls(schema, **arrays)


@dataclass(frozen=True, eq=False)
class Records(Model):
    """A table of codes; ``n`` is the public number that counts are divided by.

    With add-remove neighbours the number of records is itself private, so counts of the true data
    are divided by a public constant; None divides by the number of rows.
    """

    codes: Codes
    n: int | None = None
    kind: ClassVar[str] = "records"

    def marginal(self, columns: Sequence[str]) -> FloatArray:
        """The counts of a marginal over the public number of records."""
        return self.counts(columns) / (len(self.codes) if self.n is None else self.n)

    def counts(self, columns: Sequence[str], groups: Groups | None = None) -> FloatArray:
        """How many records fall into each cell; into each cell of groups, where values are merged.

        A record falls into one cell in either case.
        """
        shape = self.schema.shape(columns)
        codes = [self.codes[:, place] for place in self.schema.positions(columns)]
        if groups is not None:
            shape = tuple(int(own.max()) + 1 for own in groups)
            codes = [own[column] for own, column in zip(groups, codes, strict=True)]
        cells = np.ravel_multi_index(tuple(codes), shape)
        n_cells = int(np.prod(shape, dtype=np.int64))
        return np.bincount(cells, minlength=n_cells).reshape(shape).astype(float)

    def sample(self, n: int, rng: np.random.Generator, where: Condition | None = None) -> Codes:
        """Rows of the table, drawn with replacement."""
        fine = self.schema.possible(self.codes) & _inside(self.codes, where or {})
        if not fine.any():
            raise InvalidArgument("no record of the model meets the condition of `where`.")
        return self.codes[fine][rng.integers(0, fine.sum(), n)]

    def _is_sound(self) -> bool:
        codes, sizes = self.codes, self.schema.sizes
        whole = codes.dtype.kind in "iu" and codes.ndim == 2 and codes.shape[1] == len(sizes)
        return bool(whole and len(codes) and ((codes >= 0) & (codes < np.array(sizes))).all())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The codes of the records."""
        return {"codes": self.codes}


@dataclass(frozen=True, eq=False)
class Distribution(Model):
    """A probability for every cell of the universe, as an array of the shape of the sizes."""

    probabilities: FloatArray
    kind: ClassVar[str] = "distribution"

    def marginal(self, columns: Sequence[str]) -> FloatArray:
        """Sums over the other columns."""
        return self.marginals([tuple(columns)])[0]

    def marginals(self, columns: Sequence[tuple[str, ...]]) -> list[FloatArray]:
        """Sums over the other columns, each shared by all marginals that need it.

        One column after the other is either kept or summed over; the sets that agree so far share
        the work. All 1140 triples of 20 bits cost as much as some 25 passes over the universe.
        """
        places = [self.schema.positions(names) for names in columns]
        found: dict[frozenset[int], FloatArray] = {}
        wanted = [frozenset(chosen) for chosen in places]
        _sum_out(self.probabilities, (), 0, len(self.schema.sizes), wanted, found)
        return [
            np.transpose(found[frozenset(chosen)], np.argsort(np.argsort(chosen)))
            for chosen in places
        ]

    def sample(self, n: int, rng: np.random.Generator, where: Condition | None = None) -> Codes:
        """Cells drawn by their probability, given the condition."""
        weights = np.where(self.schema.possible_cells(), self.probabilities, 0.0)
        for place, allowed in (where or {}).items():
            shape = [-1 if j == place else 1 for j in range(weights.ndim)]
            weights = weights * allowed.reshape(shape)
        total = weights.sum()
        if not total > 0:
            raise InvalidArgument("no cell of the model meets the condition of `where`.")
        cells = rng.choice(weights.size, n, p=weights.reshape(-1) / total)
        return np.stack(np.unravel_index(cells, weights.shape), axis=1).astype(np.int64)

    def _is_sound(self) -> bool:
        return self.probabilities.shape == self.schema.sizes and _sums_to_one(self.probabilities)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved: the probability of every cell."""
        return {"probabilities": self.probabilities}


@dataclass(frozen=True, eq=False)
class Mixture(Model):
    """A mixture of product distributions: component k has weight w_k and independent columns.

    Attributes:
        weights: the probabilities of the components.
        factors: all columns side by side, shape (components, sum of sizes); the part of a column
            holds its probabilities in every component.

    """

    weights: FloatArray
    factors: FloatArray
    kind: ClassVar[str] = "mixture"

    def part(self, place: int) -> FloatArray:
        """The probabilities of one column, (components, size)."""
        start = sum(self.schema.sizes[:place])
        return self.factors[:, start : start + self.schema.sizes[place]]

    def marginal(self, columns: Sequence[str]) -> FloatArray:
        """Sum over components of the outer products."""
        parts = [self.part(place) for place in self.schema.positions(columns)]
        last = np.ones((len(self.weights), 1))
        for part in parts[1:]:
            last = (last[:, :, None] * part[:, None, :]).reshape(len(last), -1)
        table = (self.weights[:, None] * parts[0]).T @ last
        return table.reshape(self.schema.shape(columns))

    def sample(self, n: int, rng: np.random.Generator, where: Condition | None = None) -> Codes:
        """A component, then each column independently; impossible records are drawn anew.

        Every record follows the model, but records are not independent of each other: the count of
        each component, and of each value inside a component, is its expected number rounded up or
        down. A table is then closer to the model than independent draws would be.
        """
        weights, parts = self._condition_on(where or {})
        codes = np.empty((n, len(parts)), np.int64)
        left = np.arange(n)
        for _ in range(MOST_REJECTIONS):
            components = _draw(weights[None], np.zeros(len(left), np.int64), rng)
            for place, part in enumerate(parts):
                codes[left, place] = _draw(part, components, rng)
            left = left[~self.schema.possible(codes[left])]
            if not len(left):
                return codes
        raise InvalidArgument(
            f"{len(left)} of {n} records were impossible {MOST_REJECTIONS} times in a row: "
            "`impossible` leaves the model next to nothing."
        )

    def _condition_on(self, where: Condition) -> tuple[FloatArray, list[FloatArray]]:
        """Weights and factors, given that the columns are inside the condition."""
        weights = self.weights
        parts = [self.part(place) for place in range(len(self.schema.sizes))]
        for place, allowed in where.items():
            kept = parts[place] * allowed
            mass = kept.sum(axis=1)
            weights = weights * mass
            parts[place] = kept / np.where(mass > 0, mass, 1.0)[:, None]
        if not weights.sum() > 0:
            raise InvalidArgument("no component of the model meets the condition of `where`.")
        return weights / weights.sum(), parts

    def _is_sound(self) -> bool:
        shape = (len(self.weights), sum(self.schema.sizes))
        if self.weights.ndim != 1 or self.factors.shape != shape or not _sums_to_one(self.weights):
            return False
        places = range(len(self.schema.sizes))
        return all(_sums_to_one(row) for place in places for row in self.part(place))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved: the weight of every component, and its factors."""
        return {"weights": self.weights, "factors": self.factors}


@dataclass(frozen=True, eq=False)
class Tables(Model):
    """Answers and nothing else: one table for each measured set of columns."""

    tables: dict[tuple[str, ...], FloatArray]
    kind: ClassVar[str] = "tables"

    def marginal(self, columns: Sequence[str]) -> FloatArray:
        """The table that was measured, or a margin of one that was."""
        wanted = tuple(columns)
        for names, table in self.tables.items():
            if set(wanted) <= set(names):
                others = tuple(j for j, name in enumerate(names) if name not in wanted)
                left = [name for name in names if name in wanted]
                return np.transpose(table.sum(axis=others), [left.index(name) for name in wanted])
        raise InvalidArgument(
            f"columns={wanted} were not measured. Put them into the workload before fitting."
        )

    def sample(self, n: int, rng: np.random.Generator, where: Condition | None = None) -> Codes:
        """Raise: there is no joint model to sample from."""
        raise InvalidArgument(
            "noisy marginals only answer queries: they are no model of records. Fit another "
            "method to sample a table."
        )

    def _is_sound(self) -> bool:
        return all(
            table.dtype.kind == "f"
            and table.shape == self.schema.shape(names)
            and np.isfinite(table).all()
            for names, table in self.tables.items()
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The tables, named by their columns."""
        return {"\t".join(names): table for names, table in self.tables.items()}

    @classmethod
    def from_arrays(cls, schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> "Tables":
        """The model whose ``arrays`` these are."""
        return cls(schema, {tuple(names.split("\t")): table for names, table in arrays.items()})


def _sums_to_one(shares: FloatArray) -> bool:
    """Whether these are probabilities, up to rounding."""
    sound = shares.dtype.kind == "f" and np.isfinite(shares).all() and (shares >= -1e-9).all()
    return bool(sound and abs(float(shares.sum()) - 1) < 1e-6)


MODELS: dict[str, type[Any]] = {cls.kind: cls for cls in (Records, Distribution, Mixture, Tables)}


def universe(schema: Schema, most_cells: int) -> Codes:
    """The codes of every cell, in row-major order; too many are an error."""
    if schema.n_cells > most_cells:
        raise InvalidArgument(
            f"the universe has {schema.n_cells:.3g} cells, more than the {most_cells:.3g} that are "
            "enumerated. Use fewer or coarser columns, or a method that needs no universe."
        )
    cells = np.indices(schema.sizes).reshape(len(schema.sizes), -1)
    return np.ascontiguousarray(cells.T, dtype=np.int64)


def _sum_out(
    table: FloatArray,
    kept: tuple[int, ...],
    place: int,
    end: int,
    wanted: Sequence[frozenset[int]],
    found: dict[frozenset[int], FloatArray],
) -> None:
    """Fill ``found``: axes of ``table`` are the kept columns, then those from ``place`` on."""
    if place == end:
        found[frozenset(kept)] = table
        return
    having = [chosen for chosen in wanted if place in chosen]
    without = [chosen for chosen in wanted if place not in chosen]
    if having:
        _sum_out(table, (*kept, place), place + 1, end, having, found)
    if without:
        _sum_out(table.sum(axis=len(kept)), kept, place + 1, end, without, found)


def _inside(codes: Codes, where: Condition) -> NDArray[np.bool_]:
    fine = np.ones(len(codes), bool)
    for place, allowed in where.items():
        fine &= allowed[codes[:, place]]
    return fine


def _draw(part: FloatArray, components: Codes, rng: np.random.Generator) -> Codes:
    """One code per row by the probabilities of its component: the inverse of the cumulated sums."""
    cumulated = np.cumsum(part, axis=1)
    cumulated /= cumulated[:, -1:]
    # Component k's sums lie in (k, k + 1], so that one search in one sorted array serves them all.
    ladder = (cumulated + np.arange(len(part))[:, None]).reshape(-1)
    steps = np.searchsorted(ladder, components + _evenly(components, rng), side="right")
    return (steps - components * part.shape[1]).clip(0, part.shape[1] - 1)


def _evenly(groups: Codes, rng: np.random.Generator) -> FloatArray:
    """A uniform number for each entry; the m numbers of a group are 1/m apart, in random order."""
    order = np.lexsort((rng.random(len(groups)), groups))
    counts = np.bincount(groups)
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - (np.cumsum(counts) - counts)[groups[order]]
    return (ranks + rng.random(len(counts))[groups]) / counts[groups]
