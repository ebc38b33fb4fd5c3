"""Errors along n, epsilon, the number of queries and of bits: measured slopes and the theorems'."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from dpassay.report.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED
from dpassay.synth import query_error_upper
from dpassay.synth.theorems import RATES
from dpassay.types import FloatArray
from dpassay_reproduce.claims import (
    CHANCE,
    FAILS,
    Claim,
    Estimate,
    Verdict,
    decide,
    estimate,
    estimate_log_ratio,
    judge_above,
    judge_all,
    judge_below,
    judge_within,
)
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

QUICK = Size(records=(500, 1000, 2000), budgets=(0.25, 0.5, 1.0), dimensions=(5, 7, 10))


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


def slopes(found: Sequence[Curve]) -> dict[str, Estimate]:
    """The slopes of several curves along one quantity; all intervals hold together at 99 %.

    The scatter around the lines is taken for one. Lines through two points have none: nothing is
    known of their slopes.
    """
    lines = {curve.method: curve.line() for curve in found}
    freedom = sum(line.freedom for line in lines.values())
    if freedom == 0:
        return {name: Estimate(line.slope, -math.inf, math.inf) for name, line in lines.items()}
    scatter = sum(line.rest for line in lines.values()) / freedom
    limit = -float(special.stdtrit(freedom, CHANCE / (2 * len(lines))))
    reach = {name: limit * math.sqrt(scatter / line.spread) for name, line in lines.items()}
    return {
        name: Estimate(line.slope, line.slope - reach[name], line.slope + reach[name])
        for name, line in lines.items()
    }


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

_ROUNDING = 1e-9  # of a slope


def slope_claim(along: str, found: Sequence[Curve], exponent: Callable[[Any], float]) -> Claim:
    """Whether no error falls more slowly, or grows faster, than its theorem."""
    lines = {name: line for name, line in slopes(found).items() if not math.isnan(line.value)}
    theory = {name: exponent(RATES[name]) for name in lines}
    verdicts: dict[str, Verdict] = {
        name: judge_below(line, theory[name] + _ROUNDING) for name, line in lines.items()
    }
    said = ", ".join(f"{name} {line} (theorem {theory[name]:.2f})" for name, line in lines.items())
    worse = [name for name, verdict in verdicts.items() if verdict == FAILS]
    return Claim(
        f"along {along}, no error falls more slowly or grows faster than its rate.",
        "every slope is at most the theorem's, with its interval; fails if one is above.",
        judge_all(verdicts.values()),
        f"slopes are {said}." + (f" Above: {', '.join(worse)}." if worse else ""),
    )


def printed_claim(found: Sequence[Curve]) -> Claim:
    """Whether dual Frank-Wolfe falls like (epsilon n)^(-2/5), which table 5.1 prints."""
    slope, printed = slopes(found)["FrankWolfe"], -PRINTED["FrankWolfe"].signal
    return Claim(
        "the document's own method has the slope -2/5 that its table prints.",
        "the slope is within 0.05 of it, with its interval; fails if the interval is outside.",
        judge_within(slope, printed - 0.05, printed + 0.05),
        f"it is {slope}; the corrected proof has -1/2.",
    )


def best_claim(found: Sequence[Curve]) -> Claim:
    """Whether dual Frank-Wolfe is below DualQuery and DQRS, as the table orders them."""
    by = {curve.method: curve.errors for curve in found}
    ratios = {n: estimate_log_ratio(by[n], by["FrankWolfe"]) for n in ("DualQuery", "DQRS")}
    said = " and ".join(f"{ratio} ({name})" for name, ratio in ratios.items())
    return Claim(
        "dual Frank-Wolfe answers better than DualQuery and DQRS.",
        "averaged over n and seeds, the logarithms of their errors over its own are above 0, with "
        "their intervals; fails if one is below.",
        judge_all(map(judge_above, ratios.values())),
        f"they are {said}.",
    )


def bound_claim(found: Sequence[Curve], proved: dict[str, FloatArray]) -> Claim:
    """Whether every measured error is below the bound that is proved for its method."""
    shares = {c.method: c.errors / proved[c.method][:, None] for c in found if c.method in proved}
    most = {method: float(np.nanmax(share)) for method, share in shares.items()}
    rows = [row for share in shares.values() for row in share]
    above = [estimate(row, among=len(rows)).low > 1 for row in rows]
    over = [method for method, share in most.items() if share > 1]
    return Claim(
        "errors are below the bound that is proved for the method's best settings.",
        "every measured error is; fails if the interval of a mean over seeds is above.",
        decide(not over, any(above)),
        f"the largest is {max(most.values()):.2f} of its bound."
        + (f" Above: {', '.join(over)}." if over else ""),
    )
