"""HW3, part 2: auditing a Gaussian sum in one run, as its questions 2.1 to 2.3 ask.

D = {0}; m canaries uniform on the unit sphere of R^d, each put in by a fair coin; the release is
θ = (sum of those that are in) + N(0, σ² I); canary i scores x_i·θ. If it is in, the score has mean
1 and variance σ² + (n⁺ - 1)/d, if not mean 0 and variance σ² + n⁺/d, with n⁺ the number that are
in: the noise and the interference of the others. This one line explains all three trends.

The document asks for the largest of the 95 % bounds over the number of guesses. That is no 95 %
bound (it errs up to 32 % of the time); it is drawn beside valid ones.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpassay import _files
from dpassay.bounds import one_run
from dpassay.privacy import gaussian_noise_multiplier
from dpassay.report import figures
from dpassay.report.figures import house_style, panels, save_all
from dpassay.types import FloatArray, LowerBound
from dpassay_reproduce.claims import (
    Claim,
    Picture,
    claim_exactly,
    estimate,
    estimate_share,
    judge_above,
    judge_all,
)
from dpassay_reproduce.printed.one_run import naive_one_run

DELTA = 1e-6
SEEDS = 5
_CHUNK = 4_000_000  # entries of canaries held at a time: 16 MB of float32

TITLE = "One-run audit of a Gaussian sum"
INTRODUCTION = (
    "Questions 2.1 to 2.3 of HW3: the lower bound from one run against the theoretical ε, "
    "the number of canaries and the dimension. Lines are means over seeds, bands reach from the "
    "lowest to the highest. δ = 1e-6. The plotted numbers are in numbers.json."
)

# What is drawn: how it is computed, and with which colour.
METHODS: dict[str, tuple[Callable[..., LowerBound], str]] = {
    "naive maximum, as asked (not valid)": (partial(naive_one_run, delta=0.0), figures.RED),
    "valid at δ = 0, all numbers of guesses": (
        partial(one_run, delta=0.0, guesses="uniform", max_guesses=1000),
        figures.ORANGE,
    ),
    "valid at δ = 1e-6, all numbers of guesses": (partial(one_run, delta=DELTA), figures.BLUE),
    "valid at δ = 1e-6, if Gaussian (f-DP)": (
        partial(one_run, delta=DELTA, method="fdp"),
        figures.GREEN,
    ),
}


def noise_multipliers(epsilon: float) -> dict[str, float]:
    """The document's σ, and the smallest that is really (ε, 1e-6)-DP."""
    return {
        "classic": math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon,
        "analytic": gaussian_noise_multiplier(epsilon, DELTA),
    }


@dataclass(frozen=True, eq=False)
class Run:
    """One draw of canaries, coins and noise; scores are ``signal + sigma * noise``."""

    members: NDArray[np.bool_]
    signal: FloatArray
    noise: FloatArray

    def scores(self, sigma: float) -> FloatArray:
        """x_i·θ for every canary."""
        return self.signal + sigma * self.noise


def draw(canaries: int, dimension: int, seed: int) -> Run:
    """A run whose canaries are generated twice, in chunks, instead of being stored.

    m = 2^14 canaries in 10^4 dimensions would take 655 MB; this takes a few chunks of 16 MB.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    members = rng.random(canaries) < 0.5
    direction = rng.standard_normal(dimension, dtype=np.float32)
    total = np.zeros(dimension, np.float64)
    for start, rows in _canaries(canaries, dimension, seed):
        total += rows[members[start : start + len(rows)]].sum(axis=0, dtype=np.float64)
    signal, noise = np.empty(canaries), np.empty(canaries)
    for start, rows in _canaries(canaries, dimension, seed):
        here = slice(start, start + len(rows))
        signal[here] = rows @ total.astype(np.float32)
        noise[here] = rows @ direction
    return Run(members, signal, noise)


def _canaries(canaries: int, dimension: int, seed: int) -> Iterator[tuple[int, Any]]:
    """Rows uniform on the sphere, chunk by chunk, the same at every call."""
    rows = max(1, _CHUNK // dimension)
    for chunk, start in enumerate(range(0, canaries, rows)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, chunk)))
        x = rng.standard_normal((min(rows, canaries - start), dimension), dtype=np.float32)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        yield start, x


def bounds(run: Run, sigma: float) -> dict[str, float]:
    """Every method's bound for one run."""
    scores = run.scores(sigma)
    return {name: bound(scores, run.members).epsilon for name, (bound, _) in METHODS.items()}


def sweep(settings: list[tuple[float, int, int]], seeds: int) -> dict[str, dict[str, FloatArray]]:
    """Bounds [setting, seed] by calibration and method; a setting is (epsilon, canaries, d)."""
    shape = (len(settings), seeds)
    table = {kind: {name: np.empty(shape) for name in METHODS} for kind in ("classic", "analytic")}
    for seed in range(seeds):
        runs: dict[tuple[int, int], Run] = {}
        for i, (epsilon, canaries, dimension) in enumerate(settings):
            if (canaries, dimension) not in runs:
                runs = {(canaries, dimension): draw(canaries, dimension, seed)}
            for kind, sigma in noise_multipliers(epsilon).items():
                found = bounds(runs[canaries, dimension], sigma)
                for name, value in found.items():
                    table[kind][name][i, seed] = value
    return table


QUESTIONS = {
    "q2.1": (
        "Q 2.1: the bound against the theoretical ε",
        "theoretical ε",
        "The bound rises with ε, since σ falls and the scores of members, mean 1, stand out of the "
        "noise of variance σ² + m/(2d). It stays far below ε: one run of 1000 canaries shows at "
        "most 5.8, and most guesses are about canaries whose scores overlap.",
    ),
    "q2.2": (
        "Q 2.2: the bound against the number of canaries",
        "number of canaries m",
        "First it rises: more canaries, more guesses, and a higher ceiling. Then it falls: each "
        "canary adds variance 1/d to the scores of all others, and at m = 2^14 this interference, "
        "m/(2d) = 0.82, outweighs the noise, σ² = 0.11.",
    ),
    "q2.3": (
        "Q 2.3: the bound against the dimension",
        "dimension d",
        "Membership gets easier with d: random canaries become orthogonal, and the interference "
        "m/(2d) falls from 50 at d = 10 to 0.005 at d = 10^5, where only the noise is left and the "
        "bound saturates.",
    ),
}
SETTINGS: dict[str, list[tuple[float, int, int]]] = {
    "q2.1": [(epsilon, 1000, 10_000) for epsilon in (1.0, 2.0, 4.0, 8.0, 16.0)],
    "q2.2": [(16.0, 2**k, 10_000) for k in (6, 8, 10, 12, 14)],
    "q2.3": [(16.0, 1000, 10**k) for k in (1, 2, 3, 4, 5)],
}
_VARIED = {"q2.1": 0, "q2.2": 1, "q2.3": 2}


def picture(name: str, seeds: int = SEEDS) -> Picture:
    """The figure of one question, with its numbers."""
    title, label, caption = QUESTIONS[name]
    settings = SETTINGS[name]
    x = np.array([setting[_VARIED[name]] for setting in settings], float)
    table = sweep(settings, seeds)
    with house_style():
        figure, axes = panels(2, width=5.2, height=4.2)
        for ax, (kind, methods) in zip(axes, table.items(), strict=True):
            _draw_panel(ax, x, methods, f"{kind} σ", label)
            if name == "q2.1":
                ax.plot(x, x, color=figures.BLACK, lw=1, ls=":", label="ε itself")
                ax.set_ylim(0, 8)
            else:
                ax.set_xscale("log", base=2 if name == "q2.2" else 10)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    curves = {
        kind: {method: values.tolist() for method, values in methods.items()}
        for kind, methods in table.items()
    }
    drawn = {"x": x.tolist(), **curves}
    return Picture(name, title, caption, figure, {}, drawn, judge(name, table["analytic"]))


def judge(name: str, methods: dict[str, FloatArray]) -> tuple[Claim, ...]:
    """The trend that a question asks for, by the valid bound, and whether the asked one is valid.

    Rows of the tables are settings, columns seeds.
    """
    naive, _, valid, _ = methods.values()
    trend = {"q2.1": _claim_rise, "q2.2": _claim_hill, "q2.3": _claim_rise}[name](valid, name)
    if name != "q2.1":
        return (trend,)
    wrong = chance_of_naive()
    return trend, claim_exactly(
        "The largest bound over the number of guesses holds with probability 0.95.",
        "canaries without any signal exceed ε = 0 in at most 5 % of 2000 simulated audits, or in "
        "no more than chance allows at 99 %.",
        estimate_share(round(2000 * wrong), 2000).low <= 0.05,
        f"they do in {100 * wrong:.1f} % (exactly 31.65 %); on average it shows "
        f"{naive.mean() - valid.mean():.2f} more than the valid bound.",
    )


def _claim_rise(values: FloatArray, name: str) -> Claim:
    more = estimate(values[-1] - values[0])
    what = {"q2.1": "theoretical ε", "q2.3": "dimension"}[name]
    return Claim(
        f"The bound grows with the {what} (hint of the question).",
        "the valid bound at the largest is above that at the smallest, with its interval; fails if "
        "below.",
        judge_above(more),
        f"it is more by {more}.",
    )


def _claim_hill(values: FloatArray, name: str) -> Claim:
    del name
    best = int(values.mean(axis=1).argmax())
    sides = [estimate(values[best] - values[i], among=2) for i in (0, -1)]
    return Claim(
        "There is a trade-off in the number of canaries (hint of the question).",
        "the valid bound at its best number is above those at the smallest and the largest, with "
        "intervals; fails if below one.",
        judge_all(map(judge_above, sides)),
        f"it is more by {sides[0]} and {sides[1]}.",
    )


def chance_of_naive(runs: int = 2000, guesses: int = 500, seed: int = 0) -> float:
    """How often the largest of the 95 % bounds over 1 to 500 pairs of guesses is above 0 = ε."""
    right = np.random.default_rng(seed).binomial(2, 0.5, (runs, guesses)).cumsum(axis=1)
    total = 2 * np.arange(1, guesses + 1)
    return float((binom.sf(right - 1, total, 0.5) < 0.05).any(axis=1).mean())


def _draw_panel(
    ax: Any, x: FloatArray, methods: dict[str, FloatArray], title: str, label: str
) -> None:
    for method, values in methods.items():
        colour = METHODS[method][1]
        style = "--" if "not valid" in method else "-"
        ax.fill_between(x, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.15, lw=0)
        ax.plot(x, values.mean(axis=1), style, color=colour, marker="o", ms=4, label=method)
    ax.set(title=title, xlabel=label, ylabel="lower bound on ε", ylim=(0, None))


def run(folder: Path, *, image_format: str = "svg", seeds: int = SEEDS) -> list[Path]:
    """The files written: a figure per question, ``numbers.json``, ``table.txt``, ``index.html``."""
    folder.mkdir(parents=True, exist_ok=True)  # first: a folder that cannot be is said at once
    pictures = [picture(name, seeds) for name in QUESTIONS]
    files = save_all(
        pictures, folder, title=TITLE, introduction=INTRODUCTION, image_format=image_format
    )
    return [*files, _files.write(folder / "table.txt", text_table(pictures) + "\n")]


def text_table(pictures: list[Picture]) -> str:
    """The means over seeds, one line per method and calibration."""
    lines = []
    for shown in pictures:
        lines.append(f"{shown.title} (means over seeds)")
        lines.append(f"{'':>54}" + "".join(f"{x:>10g}" for x in shown.curves["x"]))
        for kind in ("classic", "analytic"):
            for method, values in shown.curves[kind].items():
                means = np.mean(values, axis=1)
                cells = "".join(f"{value:10.3f}" for value in means)
                lines.append(f"{kind + ', ' + method:>54}{cells}")
        lines.append("")
    return "\n".join(lines)
