"""CSCI 699's case: a claim of (0.21, 1e-5)-DP, debugged by training (Tramèr et al. 2022).

Back-propagation clipping was published with its sensitivity divided by the batch size. The paper
that found it trained 200 000 models, half of them with a canary (a checkerboard in a corner and a
wrong label), and counted how often the canary's loss was below a threshold that had been picked on
other models. Here: its arithmetic, the same test on models of ours, the same with a sequential test
that needs a few dozen, four other bugs of training loops, and the case from canaries to verdicts on
a convolutional network (:mod:`dpassay_reproduce.debugging_cnn`).
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _files, _rng
from dpassay.auditing import audit
from dpassay.bounds import lower_bound_from_counts
from dpassay.report import figures
from dpassay.report.figures import Picture, house_style, panels, save_all
from dpassay.types import FloatArray, LowerBound, Verdict
from dpassay.zoo.training_bugs import CASES, Case
from dpassay_reproduce import debugging_cnn
from dpassay_reproduce.debugging_cnn import count_errors, pick_threshold

DELTA, CLAIMED = 1e-5, 0.21
PAPER_CONFIDENCE = 1 - 1e-10
CONFIDENCE = 1 - 1e-6
MODELS = 60  # of each world, to count errors on; a quarter as many more to pick the threshold

Progress = Callable[[str], None]

TITLE = "Debugging a privacy claim"
INTRODUCTION = (
    "The claim (0.21, 1e-5) of back-propagation clipping whose sensitivity was divided by the "
    "batch size, and four other bugs of training loops, on scikit-learn's digits (on MNIST with "
    "--full, where DPASSAY_DATA has it). The fixed "
    "versions are put to the same tests. The plotted numbers are in numbers.json."
)


def paper_bound() -> LowerBound:
    """The published bound from the published counts: 2.7950, half of 1e-10 for each rate."""
    return lower_bound_from_counts(
        tp=4922, fn=95_078, fp=174, tn=99_826, delta=DELTA, confidence=PAPER_CONFIDENCE
    )


def scores(case: Case, models: int, seed: int, *, broken: bool = True) -> tuple[FloatArray, ...]:
    """Scores of as many trainings with the canary, and as many without."""
    train = case.broken if broken else case.honest
    return tuple(
        np.array(
            [case.score(train(data, _rng.for_trial(seed, trial, world))) for trial in range(models)]
        )
        for world, data in enumerate(case.pair())
    )


def verdict(case: Case, *, broken: bool, seed: int = 0, **options: Any) -> Verdict:
    """The audit of one version of a case; store= and the like are those of ``audit``."""
    settings = {"trials": case.trials, "confidence": CONFIDENCE}
    return audit(
        case.broken if broken else case.honest,
        case.pair(),
        claim=case.claim(),
        score=case.score,
        rng=seed,
        **(settings | options),
    )


def detection(seed: int) -> int:
    """How many trainings refute the batch-size bug at 1 - 1e-6, with one seed."""
    found = verdict(CASES["batch size"], broken=True, seed=seed)
    return found.trials if found.refuted else 10**9


def least_trainings() -> int:
    """How many guesses must be right, all of them, to refute the claim at 1 - 1e-6.

    Under it a guess is right with probability (1 + delta(0)) / 2 at most, by the best of attacks.
    """
    right = (1 + float(CASES["batch size"].claim().delta(0.0))) / 2
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(right))


# Pictures.


def losses_picture(models: int = MODELS) -> Picture:
    """The canary's losses in both versions, and what Clopper-Pearson says at a frozen threshold."""
    case = CASES["batch size"]
    facts = {"paper": paper_bound().epsilon, "claimed": CLAIMED}
    curves: dict[str, Any] = {}
    with house_style():
        figure, axes = panels(2, width=5.0)
        for ax, broken in zip(axes, (True, False), strict=True):
            name = "broken" if broken else "fixed"
            threshold = pick_threshold(*scores(case, max(models // 4, 2), 1, broken=broken))
            inside, outside = scores(case, models, 2, broken=broken)
            bound = count_errors(inside, outside, threshold, PAPER_CONFIDENCE)
            facts |= {f"{name}_bound": bound.epsilon, f"{name}_ceiling": bound.ceiling}
            curves |= {f"{name}_in": -inside, f"{name}_out": -outside, f"{name}_cut": -threshold}
            _draw_losses(ax, -inside, -outside, -threshold, f"{name}: ε ≥ {bound.epsilon:.2f}")
    return Picture(
        "losses", "The loss of the canary, and a frozen threshold", _say(facts, models), figure,
        facts, curves,
    )  # fmt: skip


def _draw_losses(ax: Any, inside: FloatArray, outside: FloatArray, cut: float, title: str) -> None:
    edges = np.linspace(min(inside.min(), outside.min()), max(inside.max(), outside.max()), 31)
    ax.hist(inside, edges, color=figures.ORANGE, alpha=0.6, label="trained with the canary")
    ax.hist(outside, edges, color=figures.BLUE, alpha=0.6, label="without")
    ax.axvline(cut, color=figures.BLACK, ls=":", label="threshold, from other models")
    ax.set(title=title, xlabel="loss of the canary", ylabel="models")
    ax.legend()


def _say(facts: dict[str, float], models: int) -> str:
    return (
        f"The paper's counts, 4922 of 100 000 models with and 174 without the canary, give ε ≥ "
        f"{facts['paper']:.4f} by Clopper-Pearson at 1 - 1e-10, against {CLAIMED} claimed. "
        f"On {models} models of each world of ours the bug shows ε ≥ {facts['broken_bound']:.2f} "
        f"at the same confidence (a perfect attack could show {facts['broken_ceiling']:.2f}); with "
        f"the sensitivity put right it is {facts['fixed_bound']:.2f}. The weights start from the "
        "same values in all models, which the paper's did not: its attack saw more randomness."
    )


def wealth_picture(options: dict[str, Any] | None = None) -> Picture:
    """The evidence against the claim after each training, all but the slowest case."""
    chosen = {name: case for name, case in CASES.items() if case.trials <= 60}
    found = {
        (name, broken): verdict(case, broken=broken, **(options or {}))
        for name, case in chosen.items()
        for broken in (True, False)
    }
    facts = {
        f"{name}, {'broken' if broken else 'honest'}": float(v.trials if v.refuted else np.inf)
        for (name, broken), v in found.items()
    }
    with house_style():
        figure, (ax,) = panels(1, width=7.0, height=4.2)
        colours = dict(
            zip(chosen, (figures.RED, figures.ORANGE, figures.GREEN, figures.PURPLE), strict=True)
        )
        for (name, broken), v in found.items():
            path = np.concatenate([[0.0], v.log_wealth if v.log_wealth is not None else []])
            label = f"{name}: {v.trials} trainings" if broken else None
            ax.plot(path, color=colours[name], ls="-" if broken else ":", label=label)
        ax.axhline(
            -np.log(1 - CONFIDENCE), color=figures.BLACK, lw=0.8, label="refuted at 1 - 1e-6"
        )
        ax.set(xlabel="trainings", ylabel="evidence against the claim (nats)", ylim=(-10, 18))
        ax.legend(loc="lower right")
    caption = (
        "Bets against the claim after each training, a coin deciding whether it has the canary. "
        "Solid: the broken versions, refuted at 1 - 1e-6 where the line ends; "
        f"{least_trainings()} trainings are the least that any attack could need against "
        "(0.21, 1e-5). Dotted: the honest versions, on which the same bets lose."
    )
    curves = {
        f"{name}, {'broken' if broken else 'honest'}": v.log_wealth
        for (name, broken), v in found.items()
    }
    title = "Trainings that it takes to refute"
    return Picture("wealth", title, caption, figure, facts, curves)


def table(options: dict[str, Any] | None = None) -> str:
    """All five cases, both versions: refuted or not, and after how many trainings."""
    lines = [f"{'case':<16}{'broken version':<32}{'honest version':<32}"]
    for name, case in CASES.items():
        cells = []
        for broken in (True, False):
            found = verdict(case, broken=broken, confidence=0.999, **(options or {}))
            said = "refuted" if found.refuted else "not refuted"
            cells.append(f"{said}, {found.trials} trainings")
        lines.append(f"{name:<16}" + "".join(f"{cell:<32}" for cell in cells))
        lines += [f"    {case.bug}", f"    source: {case.source}; truth: {case.truth}"]
    return "\n".join(lines)


def run(
    folder: Path,
    *,
    image_format: str = "svg",
    full: bool = False,
    quick: bool = False,
    models: int = MODELS,
    progress: Progress | None = None,
) -> list[Path]:
    """The files written: figures, ``numbers.json``, ``table.txt`` and ``index.html``.

    Args:
        folder: where to; it also keeps the trainings, so that the same command goes on.
        image_format: "svg" or "png".
        full: the convolutional network on MNIST too, for hours, where DPASSAY_DATA has it.
        quick: without the table of all five cases, whose slowest takes most of the time.
        models: of each world, for the first figure.
        progress: called with what is trained next.

    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {"store": folder / "trials.db"}  # killed, it goes on where it was
    say = progress or (lambda _: None)
    pictures = [losses_picture(models), wealth_picture(kept)]
    for size in (False, True) if full else (False,):
        pictures.append(debugging_cnn.picture(debugging_cnn.study(size), folder, say))
    files = save_all(
        pictures, folder, title=TITLE, introduction=INTRODUCTION, image_format=image_format
    )
    if quick:
        return files
    return [*files, _files.write(folder / "table.txt", table(kept) + "\n")]
