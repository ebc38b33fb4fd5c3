"""Wang 2021, lecture 12: how many counting queries can be answered, and how well.

The lecture's point is a picture that it does not draw. Laplace noise on each of k answers grows
with k, so that nothing is left of them at k = n; the exponential mechanism over small data sets
(BLR) answers all of them at once and pays for log k. Its closing question, whether the bound
α ~ n^(-1/3) is the best, is answered there by "a better mechanism, α ~ 1/√n": the slope of MWEM.

Queries are sets of cells, drawn at random without repetition, each set beside no complement of its
own: of 8 cells there are 127, more than the 100 records.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import synth
from dpassay.mechanisms import laplace
from dpassay.report.figures import BLACK, BLUE, GREEN, ORANGE, house_style, panels, save_all
from dpassay.synth import Workload, blr_error_upper, compare
from dpassay.synth.models import Records
from dpassay.types import FloatArray
from dpassay_reproduce.claims import (
    Claim,
    Picture,
    claim_exactly,
    decide,
    estimate,
    estimate_rows,
    judge_above,
    judge_all,
    judge_below,
    judge_order,
)
from dpassay_reproduce.synth.cells import bits, tiny
from dpassay_reproduce.synth.curves import Curve, log_axes, slopes

EPSILON = 1.0
N_RECORDS, COUNTS = 100, (2, 8, 32, 100, 127)
SIZE = 8  # records of BLR's tables: 6435 tables of 8 cells
RECORDS, N_QUERIES = (250, 500, 1000, 2000, 4000), 200
NEAR = 0.1  # of a slope

TITLE = "How many queries, and how well"
INTRODUCTION = (
    "Wang 2021, lecture 12, on generated bits: largest errors over k counting queries, each a "
    "random set of cells of the universe; ε = 1, purely, but for the second figure's MWEM, whose "
    "δ is 1/n². The plotted numbers are in numbers.json."
)


@dataclass(frozen=True)
class InCells:
    """The query "is the record in one of these cells?", cells in row-major order."""

    cells: tuple[bool, ...]

    def __call__(self, frame: Any) -> FloatArray:
        """1 for rows that are."""
        del frame
        return np.array(self.cells, float)


def draw_queries(d: int, k: int, seed: int = 0) -> Workload:
    """So many different sets of cells of d bits, none empty or the complement of another."""
    rng, found = np.random.default_rng(seed), dict[tuple[bool, ...], None]()
    while len(found) < k:
        cells = rng.integers(0, 2, 1 << d).astype(bool)
        cells ^= cells[0]  # the first cell is outside: one of a set and its complement
        if cells.any():
            found[tuple(cells.tolist())] = None
    names = bits(d).names
    return Workload.predicates((names, InCells(cells)) for cells in found)


def answer_with_laplace(
    data: Records, workload: Workload, epsilon: float, rng: np.random.Generator
) -> FloatArray:
    """Every answer with Laplace noise: one record moves each of k by 1/n, and so all by k/n."""
    truth = workload.answers(data)
    n = len(data.codes)
    return np.asarray(laplace(truth, sensitivity=len(truth) / n, epsilon=epsilon, rng=rng).value)


def laplace_error(data: Records, workload: Workload, seed: int) -> float:
    """The largest error of Laplace answers, each held to [0, 1]."""
    found = answer_with_laplace(data, workload, EPSILON, np.random.default_rng(seed))
    return float(np.abs(np.clip(found, 0, 1) - workload.answers(data)).max())


def synthetic_error(
    method: str, data: Records, workload: Workload, seed: int, **rest: Any
) -> float:
    """The largest error of a synthesizer's answers."""
    made = getattr(synth, method)(data.schema, workload, epsilon=EPSILON, rng=seed, **rest)
    return compare(data, made.fit(data.codes).model_, workload).max_error


def _laplace(data: Records, workload: Workload, seed: int) -> float:
    return laplace_error(data, workload, seed)


def _blr(data: Records, workload: Workload, seed: int) -> float:
    return synthetic_error("BLR", data, workload, seed, size=SIZE)


def _mwem(data: Records, workload: Workload, seed: int) -> float:
    return synthetic_error("MWEM", data, workload, seed, delta=0.0)


def _mwem_approximate(data: Records, workload: Workload, seed: int) -> float:
    return synthetic_error("MWEM", data, workload, seed, delta=1 / len(data.codes) ** 2)


Measure = Callable[[Records, Workload, int], float]
METHODS: dict[str, tuple[Measure, str]] = {
    "Laplace": (_laplace, ORANGE),
    "BLR": (_blr, BLUE),
    "MWEM": (_mwem, GREEN),
}


def queries_picture(seeds: int = 10) -> Picture:
    """The largest error against the number of queries, up to and beyond n."""
    data = Records(bits(3), tiny("mixture", 0, N_RECORDS, 3))
    loads, x = [draw_queries(3, k) for k in COUNTS], np.array(COUNTS, float)
    found = {
        name: np.array([[measure(data, load, s) for s in range(seeds)] for load in loads])
        for name, (measure, _) in METHODS.items()
    }
    public = {"n_records": N_RECORDS, "epsilon": EPSILON, "sizes": [2] * 3}
    proved = np.array([blr_error_upper(SIZE, n_queries=k, **public) for k in COUNTS])
    with house_style():
        figure, (ax,) = panels(1, width=6.4, height=4.2)
        for name, (_, colour) in METHODS.items():
            ax.plot(x, found[name].mean(axis=1), "o-", color=colour, label=name)
        ax.plot(x, proved, "--", color=BLUE, label="proved for BLR")
        ax.axvline(N_RECORDS, color=BLACK, lw=0.8, ls=":", label="k = n")
        ax.set(xlabel="queries k", ylabel="largest error")
        log_axes(ax, COUNTS)
        ax.legend()
    facts = {
        f"{name} at k = {k}": float(row.mean())
        for name, table in found.items()
        for k, row in zip(COUNTS, table, strict=True)
    }
    caption = (
        f"Eight cells, n = {N_RECORDS}, ε = 1, means of {seeds} seeds; answers are held to [0, 1]. "
        "Laplace noise on every answer has deviation √2 k/(nε), which is more than any answer from "
        f"k = n/√2 on. BLR chooses one of the {math.comb(SIZE + 7, SIZE)} tables of {SIZE} records "
        "and MWEM asks a few queries: both pay for log k. One query is better answered by noise."
    )
    return Picture(
        "queries",
        "Error against the number of queries",
        caption,
        figure,
        facts,
        {"x": x, "proved": proved, **found},
        queries_claims(found, proved),
    )


def queries_claims(found: dict[str, FloatArray], proved: FloatArray) -> tuple[Claim, ...]:
    """What the lecture says of many queries."""
    last = {name: estimate(table[-1], among=3) for name, table in found.items()}
    first = {name: estimate(table[0], among=3) for name, table in found.items()}
    shares = estimate_rows(found["BLR"] / proved[:, None])
    growth = estimate(found["BLR"][-1] / found["BLR"][0].mean())
    return (
        Claim(
            "With Laplace noise and constant ε only k = O(n) queries can be answered.",
            "at k > n the mean of its largest errors is above 1/2, which guessing 1/2 never is, "
            "with its interval; fails if it is below.",
            judge_above(last["Laplace"], 0.5),
            f"at k = {COUNTS[-1]}, n = {N_RECORDS} it is {last['Laplace']}; at k = {COUNTS[0]} "
            f"{first['Laplace']}.",
        ),
        Claim(
            "BLR answers more queries than there are records.",
            "at k > n its mean error is below that of Laplace answers, intervals apart; fails if "
            "above.",
            judge_order(last["Laplace"], last["BLR"]),
            f"{last['BLR']} against {last['Laplace']}; MWEM {last['MWEM']}.",
        ),
        Claim(
            "BLR's error grows with log k, not with k.",
            f"from k = {COUNTS[0]} to {COUNTS[-1]} it grows by less than log(2k) does, "
            f"{_log_growth():.2f} times, with its interval; fails if by more.",
            judge_below(growth, _log_growth()),
            f"it grows {growth} times, as log(2k) to the power "
            f"{math.log(growth.value) / math.log(_log_growth()):.2f} (the theorem's is 1/3, at the "
            f"best size of tables for each k); k itself grows {COUNTS[-1] / COUNTS[0]:.0f} times.",
        ),
        Claim(
            "BLR is as accurate as is proved (theorem 12.7, with all constants).",
            "at every k the mean of its largest errors is below the bound, with its interval; "
            "fails if one is above.",
            judge_all(judge_below(share, 1.0) for share in shares),
            f"the means are {min(s.value for s in shares):.2f} to "
            f"{max(s.value for s in shares):.2f} of it.",
        ),
    )


def _log_growth() -> float:
    return math.log(2 * COUNTS[-1]) / math.log(2 * COUNTS[0])


def records_picture(seeds: int = 5) -> Picture:
    """Errors against n for 200 queries of 32 cells: which mechanism has the slope -1/2."""
    load, x = draw_queries(5, N_QUERIES), np.array(RECORDS, float)
    tables = {n: Records(bits(5), tiny("mixture", 0, n, 5)) for n in RECORDS}
    measures = {"Laplace": _laplace, "MWEM": _mwem, "MWEM, δ = 1/n²": _mwem_approximate}
    colours = {"Laplace": ORANGE, "MWEM": GREEN, "MWEM, δ = 1/n²": BLACK}
    found = [
        Curve(name, x, np.array([[go(tables[n], load, s) for s in range(seeds)] for n in RECORDS]))
        for name, go in measures.items()
    ]
    with house_style():
        figure, (ax,) = panels(1, width=6.4, height=4.2)
        for curve in found:
            ax.plot(x, curve.means, "o-", color=colours[curve.method], label=curve.method)
        for power, style in ((-1 / 2, "--"), (-1 / 3, ":")):
            height = found[-1].means[0] * (x / x[0]) ** power
            ax.plot(x, height, style, color=BLACK, lw=1, label=f"slope {power:.2g}")
        ax.set(xlabel="records n", ylabel="largest error")
        log_axes(ax, RECORDS)
        ax.legend()
    lines = slopes(found)
    facts = {f"{name}, slope": line.value for name, line in lines.items()}
    caption = (
        f"{N_QUERIES} queries of 32 cells, ε = 1; means of {seeds} seeds. BLR's slope of -1/3 is "
        "its theorem's (reproduce synth measures it on eight cells); the lecturer's better "
        "mechanism has -1/2."
    )
    return Picture(
        "records",
        "Error against the number of records: a better mechanism",
        caption,
        figure,
        facts,
        {"x": x, **{c.method: c.errors for c in found}},
        (_claim_slope(lines["MWEM, δ = 1/n²"]), claim_size()),
    )


def _claim_slope(line: Any) -> Claim:
    return Claim(
        "There is a better mechanism, α ~ 1/√n.",
        f"MWEM's slope in n is -1/2 ± {NEAR:g}, or steeper, with its interval; fails if it is "
        "flatter.",
        decide(line.high <= -0.5 + NEAR, line.low > -0.5 + NEAR),
        f"it is {line}.",
    )


def claim_size() -> Claim:
    """Whether m = 2 log(2k)/(2α²) records are enough for the union bound of the proof."""
    k, alpha = 10, 0.25
    halved = math.log(2 * k) / alpha**2
    left = 2 * k * math.exp(-(alpha**2) * halved / 2)
    return claim_exactly(
        "A good data set of m = 2 log(2k)/(2α²) records exists (second m of the proof).",
        "the union bound 2k exp(-α² m/2) is below 1.",
        left < 1,
        f"it is √(2k) = {left:.2f} at k = {k}; with m > 2 log(2k)/α², as in the algorithm, it is.",
    )


def run(
    folder: Path, *, image_format: str = "svg", quick: bool = False, seeds: int | None = None
) -> list[Path]:
    """The files written: both figures, ``numbers.json`` and ``index.html``.

    Args:
        folder: where to.
        image_format: "svg" or "png".
        quick: half as many seeds.
        seeds: of the noise in the first figure, half of them in the second; None for 40, or 20.

    """
    folder.mkdir(parents=True, exist_ok=True)  # first: a folder that cannot be is said at once
    n = seeds or (20 if quick else 40)
    pictures = [queries_picture(n), records_picture(max(n // 2, 3))]
    return save_all(
        pictures, folder, title=TITLE, introduction=INTRODUCTION, image_format=image_format
    )
