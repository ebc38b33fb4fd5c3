"""Tiny universes: table 5.1 as curves, six problems side by side, and BLR where it can be run."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from dpassay.report.figures import BLUE, RED, house_style, panels
from dpassay.synth import blr_error_upper, query_error_upper
from dpassay.synth.theorems import RATES
from dpassay_reproduce.claims import (
    Claim,
    Picture,
    decide,
    estimate_rows,
    judge_all,
    judge_below,
)
from dpassay_reproduce.synth.cells import KINDS, QUERIES, Cell, Kept, Progress
from dpassay_reproduce.synth.curves import (
    COLOURS,
    TABLE,
    Curve,
    Size,
    Sweep,
    best_claim,
    bound_claim,
    bounds,
    curves,
    log_axes,
    log_errors,
    number,
    printed_claim,
    slope_claim,
    slopes,
    sweeps,
)

OTHERS: tuple[str, ...] = ("ProductMixture", "NoisyMarginals", "Independent")


def _slopes(found: Sequence[Curve], along: str) -> dict[str, float]:
    facts = {}
    for method, slope in slopes(found).items():
        facts |= {f"{method}, slope in {along}": slope.value}
        facts |= {f"{method}, at most in {along}": slope.high}
    return facts


def _draw(ax: Any, found: Sequence[Curve], sweep: Sweep, title: str) -> None:
    """Measured curves, and dotted the slope of the theorem through the middle of each."""
    for curve in found:
        colour, seen = COLOURS[curve.method], np.isfinite(curve.means)
        if not seen.any():
            continue
        x, y = curve.x[seen], curve.means[seen]
        ax.plot(x, y, "o-", ms=4, color=colour, label=curve.method)
        power = (x / np.exp(np.log(x).mean())) ** sweep.exponent(RATES[curve.method])
        ax.plot(x, np.exp(np.log(y).mean()) * power, ":", lw=1, color=colour)
    ax.set(xlabel=sweep.label, title=title)
    log_axes(ax, [sweep.x(cell) for cell in sweep.cells])


def records_picture(size: Size, kept: Kept, progress: Progress) -> Picture:
    """Errors against n for marginals and for parities, and the bounds with constants."""
    every = sweeps(size)
    both = [every["n"], every["n, parities"]]
    found = [curves(sweep, size, kept, progress) for sweep in both]
    proved, facts = bounds(both[0]), dict[str, float]()
    for sweep, some in zip(both, found, strict=True):
        facts |= _slopes(some, sweep.name)
    with house_style():
        figure, axes = panels(3, height=4.4)
        titles = ("all 960 cells of three bits", "all 120 parities of three bits")
        for ax, some, sweep, title in zip(axes[:2], found, both, titles, strict=True):
            _draw(ax, some, sweep, title)
        for method, values in proved.items():
            axes[2].plot(found[0][0].x, values, "--", color=COLOURS[method], label=method)
        axes[2].set(xlabel="records n", title="proved, 960 cells")
        log_axes(axes[2], found[0][0].x)
        axes[2].legend()
        axes[0].set(ylabel="largest error")
        axes[0].legend()
    caption = (
        "Ten bits, a mixture of three products, ε = 1, δ = 1/n²; every method with its own "
        f"settings; means of {size.seeds} seed(s). Dotted: the slope of the theorem, at the height "
        "of the curve. Right: the bounds that are proved with all constants, for any data."
    )
    claims = (
        slope_claim("n", found[0], both[0].exponent),
        slope_claim("n for parities", found[1], both[1].exponent),
        printed_claim(found[0]),
        best_claim(found[0]),
        bound_claim(found[0], proved),
    )
    numbers = {
        sweep.name: {"x": some[0].x, **{c.method: c.errors for c in some}}
        for sweep, some in zip(both, found, strict=True)
    }
    title = "Error against the number of records"
    return Picture("records", title, caption, figure, facts, numbers | {"proved": proved}, claims)


def others_picture(size: Size, kept: Kept, progress: Progress) -> Picture:
    """Errors against epsilon, the number of queries and the number of bits."""
    every = sweeps(size)
    chosen = [every[name] for name in ("epsilon", "queries", "dimension")]
    found = [curves(sweep, size, kept, progress) for sweep in chosen]
    facts: dict[str, float] = {}
    for sweep, some in zip(chosen, found, strict=True):
        facts |= _slopes(some, sweep.name)
    with house_style():
        figure, axes = panels(3, height=4.4)
        titles = ("960 cells of ten bits", "24 to 960 cells of ten bits", "80 cells of d bits")
        for ax, some, sweep, title in zip(axes, found, chosen, titles, strict=True):
            _draw(ax, some, sweep, title)
        axes[0].set(ylabel="largest error")
        axes[0].legend()
    caption = (
        "n = 2000, otherwise as before. ε and n enter the theorems as their product. Queries are "
        "sets of three columns, drawn once; where bits are added, ten sets are kept, so that most "
        "of the universe is of no interest to any query. Dotted: the slopes of the theorems. A "
        "rate is an upper bound: a curve that grows faster over a short range does not refute it, "
        "but the rate does not describe the method there."
    )
    claims = tuple(
        slope_claim(sweep.label, some, sweep.exponent)
        for sweep, some in zip(chosen, found, strict=True)
    )
    numbers = {
        sweep.name: {"x": some[0].x, **{c.method: c.errors for c in some}}
        for sweep, some in zip(chosen, found, strict=True)
    }
    title = "Error against budget, queries and dimension"
    return Picture("others", title, caption, figure, facts, numbers, claims)


def problems_picture(size: Size, kept: Kept, progress: Progress) -> Picture:
    """The six tiny problems, all methods side by side."""
    methods, where = (*TABLE, *OTHERS), list(product(KINDS, QUERIES))
    found: dict[str, list[float]] = {}
    for method in methods:
        cells = [Cell(method, kind, queries) for kind, queries in where]
        found[method] = [
            float(np.mean([number(replace(c, seed=s), kept, progress) for s in range(size.seeds)]))
            for c in cells
        ]
    with house_style():
        figure, (ax,) = panels(1, width=8.0, height=4.6)
        marks = dict(zip(OTHERS, ("*", "s", "x"), strict=True))
        for method in methods:
            style = {"color": COLOURS.get(method, "#777777"), "marker": marks.get(method, "o")}
            ax.plot(range(len(where)), found[method], ls="", label=method, **style)
        ax.set_xticks(range(len(where)), [f"{kind}\n{queries}" for kind, queries in where])
        ax.set(ylabel="largest error")
        log_errors(ax)
        ax.legend(ncols=2, fontsize=8)
    facts = {
        f"{method}, {kind}, {queries}": value
        for method in methods
        for (kind, queries), value in zip(where, found[method], strict=True)
    }
    rivals = [method for method in methods if method != "Independent"]
    least = [rivals[i] for i in np.nanargmin([found[method] for method in rivals], axis=0)]
    wins = least.count("ProductMixture")
    text = "the recommended method has the least error on each problem, independent columns aside."
    claim = Claim(
        text,
        "it has on all six; fails if on three or fewer.",
        decide(wins == len(where), 2 * wins <= len(where)),
        f"on {wins} of 6; the least are {', '.join(least)}.",
    )
    caption = (
        "Ten bits, n = 2000, ε = 1, δ = 1/n². Star: what synth.fit does, which needs no universe. "
        "Square: Gaussian noise on every table and no model. Cross: every column by itself, which "
        "is the truth about a product."
    )
    title = "Six tiny problems"
    return Picture("problems", title, caption, figure, facts, {"least": least}, (claim,))


BLR_RECORDS = (50, 100, 200, 400)
BLR_MOST = 14  # records of a table: 116 280 tables of 8 cells


def blr_picture(size: Size, kept: Kept, progress: Progress) -> Picture:
    """BLR on three bits, beside its bound and the rate n^(-1/3)."""
    seeds, rows, proved, sizes = 3 * size.seeds, [], [], []
    for n in BLR_RECORDS:
        args: dict[str, Any] = {"n_records": n, "epsilon": 1.0, "n_queries": 8, "sizes": [2] * 3}
        best = query_error_upper("BLR", delta=0.0, **args)
        sizes.append(min(best.settings["size"], BLR_MOST))
        proved.append(blr_error_upper(sizes[-1], **args))
        cell = Cell("BLR", n=n, d=3, size=sizes[-1])
        rows.append([number(replace(cell, seed=s), kept, progress) for s in range(seeds)])
    x = np.array(BLR_RECORDS, float)
    curve = Curve("BLR", x, np.array(rows))
    with house_style():
        figure, (ax,) = panels(1, width=6.0, height=4.2)
        ax.plot(x, curve.means, "o-", color=BLUE, label="measured")
        rate = (x / x[0]) ** -RATES["BLR"].signal
        ax.plot(x, curve.means[0] * rate, ":", color=BLUE, label="slope -1/3")
        ax.plot(x, proved, "--", color=RED, label="proved, with these sizes")
        ax.set(xlabel="records n", ylabel="largest error")
        log_axes(ax, BLR_RECORDS)
        ax.legend()
    shares = estimate_rows(curve.errors / np.array(proved)[:, None])
    claims = (
        slope_claim("n", [curve], lambda r: -r.signal),
        Claim(
            "the expected largest error of BLR is below its bound.",
            "at every n the mean over seeds is, with its interval; fails if one is above.",
            judge_all(judge_below(share, 1.0) for share in shares),
            f"the mean is {max(share.value for share in shares):.2f} of the bound or less.",
        ),
    )
    facts = _slopes([curve], "n") | {
        f"records of a table at n = {n}": float(m) for n, m in zip(BLR_RECORDS, sizes, strict=True)
    }
    caption = (
        "Three bits, all eight cells, pure ε = 1: all tables of a few records are enumerated, and "
        f"one is drawn; {seeds} seeds."
    )
    numbers = {"x": x, "errors": curve.errors, "proved": proved}
    title = "BLR, where it can be enumerated"
    return Picture("blr", title, caption, figure, facts, numbers, claims)
