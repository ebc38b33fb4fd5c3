"""Errors along n, epsilon, the number of queries and of bits: measured slopes and the theorems'."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from dpassay.report.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, Claim
from dpassay.synth import query_error_upper
from dpassay.synth.theorems import RATES
from dpassay.types import FloatArray
from dpassay_reproduce.printed.rates import PRINTED
from dpassay_reproduce.synth.cells import Cell, Kept, Progress

TABLE: tuple[str, ...] = ("MWEM", "DualQuery", "SepFEM", "DQRS", "FrankWolfe", "FEM")
COLOURS: dict[str, str] = dict(zip(TABLE, (BLUE, ORANGE, GREEN, RED, PURPLE, BLACK), strict=True))


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        records: values of n.
        budgets: values of epsilon, at the usual n.
        sets: numbers of sets of three columns; None for all.
        dimensions: numbers of bits, with ten sets.
        seeds: of the noise.
        adult_fem: the largest epsilon at which FEM runs on Adult.
        adult_seeds: of the noise there.

    """

    records: tuple[int, ...] = (500, 1000, 2000, 4000)
    budgets: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    sets: tuple[int | None, ...] = (3, 12, 40, None)
    dimensions: tuple[int, ...] = (5, 7, 10, 14)
    seeds: int = 1
    adult_fem: float = 0.25
    adult_seeds: int = 1


FULL = Size(
    records=(500, 1000, 2000, 4000, 8000, 16_000),
    budgets=(0.25, 0.5, 1.0, 2.0, 4.0),
    seeds=4,
    adult_fem=1.0,
    adult_seeds=3,
)


@dataclass(frozen=True, eq=False)
class Curve:
    """Errors of one method along one quantity.

    Attributes:
        method: whose.
        x: the quantity, as the theorem has it: log|Q| rather than |Q|.
        errors: one row per value of x, one column per seed; NaN where the method refused.

    """

    method: str
    x: FloatArray
    errors: FloatArray

    @property
    def means(self) -> FloatArray:
        """The means over the seeds."""
        return self.errors.mean(axis=1)

    def line(self) -> "Line":
        """The line of least squares through the logarithms."""
        x, y = np.broadcast_arrays(np.log(self.x)[:, None], np.log(self.errors))
        seen = np.isfinite(y)
        return fit_line(x[seen], y[seen])


@dataclass(frozen=True)
class Line:
    """A line of least squares.

    Attributes:
        slope: NaN with fewer than two points.
        spread: the sum of squares of x around its mean.
        rest: the sum of squares of y around the line.
        freedom: points less two, at least 0.

    """

    slope: float
    spread: float
    rest: float
    freedom: int


def fit_line(x: FloatArray, y: FloatArray) -> Line:
    """The line of least squares.

    >>> fit_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.0, -1.0]))
    Line(slope=-1.0, spread=2.0, rest=0.0, freedom=1)

    """
    if len(x) < 2 or np.ptp(x) == 0:
        return Line(float("nan"), float("nan"), 0.0, 0)
    off = x - x.mean()
    spread = float(off @ off)
    slope = float(off @ y) / spread
    rest = y - y.mean() - slope * off
    return Line(slope, spread, float(rest @ rest), len(x) - 2)


@dataclass(frozen=True)
class Slopes:
    """Slopes with standard errors, by method; the scatter around the lines is taken for one.

    Attributes:
        values: by method.
        errors: by method.
        limit: how many errors none of them is off by, with probability 0.95: Student's quantile at
            a level that all share.

    """

    values: dict[str, float]
    errors: dict[str, float]
    limit: float


def slopes(found: Sequence[Curve]) -> Slopes:
    """The slopes of several curves along one quantity."""
    lines = {curve.method: curve.line() for curve in found}
    freedom = sum(line.freedom for line in lines.values())
    scatter = sum(line.rest for line in lines.values()) / max(freedom, 1)
    errors = {name: float(np.sqrt(scatter / line.spread)) for name, line in lines.items()}
    limit = float(special.stdtrit(max(freedom, 1), 1 - 0.05 / len(lines)))
    return Slopes({name: line.slope for name, line in lines.items()}, errors, limit)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Which quantity is moved, how the theorems name it, and what it is called in print."""

    name: str
    label: str
    cells: tuple[Cell, ...]
    x: Callable[[Cell], float]
    exponent: Callable[[Any], float]


def sweeps(size: Size) -> dict[str, Sweep]:
    """All that are measured; the method of their cells is still to be set."""
    base = Cell("")
    n = tuple(replace(base, n=n) for n in size.records)

    def by_n(cell: Cell) -> float:
        return cell.n

    found = [
        Sweep("n", "records n", n, by_n, lambda r: -r.signal),
        Sweep(
            "n, parities",
            "records n",
            tuple(replace(cell, queries="parities") for cell in n),
            by_n,
            lambda r: -r.signal,
        ),
        Sweep(
            "epsilon",
            "ε",
            tuple(replace(base, epsilon=e) for e in size.budgets),
            lambda cell: cell.epsilon,
            lambda r: -r.signal,
        ),
        Sweep(
            "queries",
            "log|Q|",
            tuple(replace(base, sets=sets) for sets in size.sets),
            lambda cell: float(np.log(cell.n_queries)),
            lambda r: r.queries,
        ),
        Sweep(
            "dimension",
            "bits d",
            tuple(replace(base, d=d, sets=10) for d in size.dimensions),
            lambda cell: cell.d,
            lambda r: r.cells,
        ),
    ]
    return {sweep.name: sweep for sweep in found}


def curves(sweep: Sweep, size: Size, kept: Kept, progress: Progress) -> list[Curve]:
    """Every method of the table along a sweep."""
    x, found = np.array([sweep.x(cell) for cell in sweep.cells], float), []
    for method in TABLE:
        rows = []
        for cell in sweep.cells:
            seeds = [replace(cell, method=method, seed=seed) for seed in range(size.seeds)]
            rows.append([number(one, kept, progress) for one in seeds])
        found.append(Curve(method, x, np.array(rows)))
    return found


def number(cell: Cell, kept: Kept, progress: Progress) -> float:
    """The largest error of a cell; NaN if the method refused."""
    progress(f"{cell.method}, n = {cell.n}, ε = {cell.epsilon:g}, {cell.d} bits")
    found = kept.get(cell.key, cell.measure)
    return float("nan") if found is None else found[0]


def bounds(sweep: Sweep) -> dict[str, FloatArray]:
    """The proved bounds along a sweep, of the methods that have one."""
    found = {}
    for method in TABLE:
        if method != "DQRS":
            found[method] = np.array([_bound(method, cell) for cell in sweep.cells])
    return found


def _bound(method: str, cell: Cell) -> float:
    return query_error_upper(
        method,
        n_records=cell.n,
        epsilon=cell.epsilon,
        delta=1 / cell.n**2,
        n_queries=cell.n_queries,
        sizes=[2] * cell.d,
    ).error


def log_axes(ax: Any, ticks: Iterable[float]) -> None:
    """Logarithmic axes with plain numbers, these along x."""
    log_errors(ax)
    ax.set(xscale="log")
    ax.set_xticks(list(ticks), [f"{round(tick, 2):g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def log_errors(ax: Any) -> None:
    """A logarithmic axis of errors, with 1, 2 and 5 of every decade as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set(yscale="log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.yaxis.set_minor_locator(NullLocator())


# Claims.


def slope_claim(along: str, found: Sequence[Curve], exponent: Callable[[Any], float]) -> Claim:
    """Whether no error falls more slowly, or grows faster, than its theorem, beyond chance."""
    lines, said, worse = slopes(found), [], []
    for method, slope in lines.values.items():
        theory, error = exponent(RATES[method]), lines.errors[method]
        said.append(f"{method} {slope:.2f} ± {error:.2f} (theorem {theory:.2f})")
        if slope - lines.limit * error > theory:
            worse.append(method)
    measured = ", ".join(said) + "."
    measured += f" Beyond chance ({lines.limit:.1f} errors): {', '.join(worse)}." if worse else ""
    text = f"along {along}, no error falls more slowly or grows faster than its rate."
    return Claim(text, not worse, measured)


def printed_claim(found: Sequence[Curve]) -> Claim:
    """Whether dual Frank-Wolfe falls no faster than (epsilon n)^(-2/5), which table 5.1 prints."""
    lines = slopes(found)
    slope, error = lines.values["FrankWolfe"], lines.errors["FrankWolfe"]
    printed = -PRINTED["FrankWolfe"].signal
    text = "the document's own method has the slope -2/5 that its table prints, not a steeper one."
    measured = f"{slope:.2f} ± {error:.2f}; the corrected proof has -1/2."
    return Claim(text, not slope + lines.limit * error < printed, measured)


def best_claim(found: Sequence[Curve]) -> Claim:
    """Whether dual Frank-Wolfe is below DualQuery and DQRS at every n, as the table orders them."""
    by = {curve.method: curve.means for curve in found}
    own, others = by["FrankWolfe"], {name: by[name] for name in ("DualQuery", "DQRS")}
    behind = [name for name, means in others.items() if not (own < means).all()]
    ratios = {name: np.median(means / own) for name, means in others.items()}
    measured = "their errors are, in the median over n, " + " and ".join(
        f"{ratio:.2f} times its own ({name})" for name, ratio in ratios.items()
    )
    measured += "." + "".join(f" Not below {name} everywhere." for name in behind)
    text = "dual Frank-Wolfe answers better than DualQuery and DQRS at every n."
    return Claim(text, not behind, measured)


def bound_claim(found: Sequence[Curve], proved: dict[str, FloatArray]) -> Claim:
    """Whether every measured error is below the bound that is proved for its method."""
    above, closest = [], np.inf
    for curve in found:
        if curve.method in proved:
            ratio = proved[curve.method] / curve.means
            closest = min(closest, float(np.nanmin(ratio)))
            above += [curve.method] * bool((ratio < 1).any())
    text = "every measured error is below the bound that is proved for the method's best settings."
    measured = f"the bounds are {closest:.1f} times the errors or more."
    measured += f" Above: {', '.join(above)}." if above else ""
    return Claim(text, not above, measured)
