"""Micali 2022, section 4.3: the band of high entropy around the margin, in one dimension."""

from typing import Any

import numpy as np
from scipy import special

from dpassay.attacks.counters import below_threshold_accuracy
from dpassay.report.figures import BLACK, BLUE, ORANGE, house_style, panels
from dpassay.types import FloatArray
from dpassay_reproduce.claims import claim_exactly
from dpassay_reproduce.thesis.boxes import Boxes
from dpassay_reproduce.thesis.classifiers import Records, Softmax, without_privacy
from dpassay_reproduce.thesis.entropy import N_RECORDS, THRESHOLDS, entropies
from dpassay_reproduce.thesis.frame import Claim, Picture, Setting

Line = tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
_LINES = {"classes apart": -0.5, "20 % overlap": 0.2}
_SLOPE = 4.0
_X = np.linspace(-1, 1, 401)
_TAUS = np.linspace(0.01, 1, 100)
_BANDS = (0.8, 0.4)


def figure_band(setting: Setting) -> Picture:
    """The entropy band of section 4.3 in one dimension, and the attack against tau."""
    drawn = {name: _line(setting, shared) for name, shared in _LINES.items()}
    curve = {"x": _X, "entropy": _binary_entropy(_SLOPE * _X)}
    accuracy = {"threshold": _TAUS} | {
        name: [below_threshold_accuracy(*sides, tau) for tau in _TAUS.tolist()]
        for name, (_, sides) in drawn.items()
    }
    with house_style():
        figure, (left, right) = panels(2)
        _draw_band(left, curve, drawn)
        for name in drawn:
            right.plot(_TAUS, 100 * np.array(accuracy[name]), label=name)
        right.axhline(50, color=BLACK, lw=1, ls=":")
        right.set(title="The attack, without privacy", xlabel="τ, bits", ylabel="accuracy, %")
        right.legend()
    points = {name: {"x": X, "entropy": H} for name, ((X, H), _) in drawn.items()}
    return Picture(
        "4.3-band",
        "Section 4.3: the entropy band in one dimension",
        f"σ({_SLOPE:g} x): points whose prediction has an entropy of at least τ are a band around "
        "the margin x = 0 (left, for two τ; ticks are data). The attack calls the points outside "
        "members, and is right as often as a coin, up to chance, at any τ (right, one draw).",
        figure,
        {f"half_width_{tau:g}": _half_width(tau) for tau in _BANDS},
        {"curve": curve, "points": points, "accuracy": accuracy},
        _of_the_band(drawn["classes apart"]),
    )


def _line(setting: Setting, shared: float) -> Line:
    """Members of a one-dimensional experiment with their entropies, and those of both sides."""
    rng = setting.rng(43)
    inside, outside = (
        Records.of(*Boxes(shared, 1).draw(N_RECORDS, rng), Softmax()) for _ in range(2)
    )
    W = without_privacy(inside)
    sides = entropies(inside, W)[0, 0], entropies(outside, W)[0, 0]
    margins = inside.rows[0] @ W[0, 0, 0] / W[0, 0, 0, 1]
    return (margins, sides[0]), sides


def _binary_entropy(scores: FloatArray) -> FloatArray:
    p = special.expit(scores)
    return (special.entr(p) + special.entr(1 - p)) / np.log(2)


def _half_width(tau: float) -> float:
    """Where the entropy of sigma(slope x) falls below tau, on the grid that is drawn."""
    return float(np.abs(_X[_binary_entropy(_SLOPE * _X) >= tau]).max())


def _draw_band(ax: Any, curve: dict[str, FloatArray], drawn: dict[str, Line]) -> None:
    ax.plot(curve["x"], curve["entropy"], color=BLACK)
    for tau, colour in zip(_BANDS, (BLUE, ORANGE), strict=True):
        width = _half_width(tau)
        ax.axhline(tau, color=colour, lw=1, ls="--", label=f"τ = {tau:g}")
        ax.axvspan(-width, width, color=colour, alpha=0.12, lw=0)
    for height, (name, ((x, _), _)) in zip((-0.05, -0.12), drawn.items(), strict=True):
        ax.plot(x, np.full_like(x, height), "|", ms=5, alpha=0.5, label=name)
    ax.set(title="Entropy and band", xlabel="x", ylabel="entropy, bits", xlim=(-1, 1))
    ax.legend(loc="upper right", fontsize=7)


def _of_the_band(apart: Line) -> tuple[Claim, ...]:
    (x, H), sides = apart
    far = np.abs(x)
    falls = bool(np.all(np.diff(H[np.argsort(far)]) <= 1e-12))
    called = THRESHOLDS["mean"](*sides) >= H
    outer, inner = far[called].mean(), far[~called].mean()
    wide, narrow = _half_width(_BANDS[1]), _half_width(_BANDS[0])
    highest = max(float(side.max()) for side in sides)
    return (
        claim_exactly(
            "Points with a higher entropy are those close to the margin.",
            "no point farther from it has a higher entropy.",
            falls,
            f"over {len(x)} points entropy {'falls' if falls else 'does not fall'} with distance.",
        ),
        claim_exactly(
            "Points with H <= τ, declared members, are the ones close to the margin.",
            "they are nearer to it on average than the others.",
            bool(outer < inner),
            f"they are {outer:.2f} away on average, the others {inner:.2f}: it is the other way "
            "round.",
        ),
        claim_exactly(
            "The smaller τ is, the smaller becomes the region of entropy at least τ.",
            f"it is narrower at τ = {_BANDS[1]:g} than at {_BANDS[0]:g}.",
            wide < narrow,
            f"its half-width is {narrow:.2f} at τ = {_BANDS[0]:g} and {wide:.2f} at τ = "
            f"{_BANDS[1]:g}: it grows.",
        ),
        claim_exactly(
            "With separable classes and τ close to 1 the band holds no points, all are called "
            "members, and exactly 50 % of the guesses are right.",
            "all entropies are below 1, and at the highest of them half of the guesses are right.",
            highest < 1 and below_threshold_accuracy(*sides, highest) == 0.5,
            f"entropies end at {highest:.2g} bits, and from there on it is "
            f"{below_threshold_accuracy(*sides, highest):.1%}.",
        ),
    )
