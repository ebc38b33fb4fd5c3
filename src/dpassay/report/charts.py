"""The figures of a report, drawn from its data alone."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay.report.figures import BLACK, BLUE, ORANGE, RED, Picture, house_style
from dpassay.report.words import one_in
from dpassay.types import FloatArray

Audit = dict[str, Any]  # the data of one audit, as the JSON twin of a report has them
Chart = Callable[[Audit], Picture | None]
SIZE = (4.2, 3.5)
AXES = (0.175, 0.14, 0.795, 0.7)  # left, bottom, width, height; fixed, which draws twice as fast
GREY = "#666666"
DEPENDS = (
    "The band would hold for a number of trials fixed in advance; the verdict does not rest on it."
)


def numbers(values: list[Any]) -> FloatArray:
    """An array from JSON: infinities are strings there, NaN is null."""
    return np.array([np.nan if x is None else float(x) for x in values])


def _empty() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE)
    return figure, figure.add_axes(AXES)


def _legend(figure: Any) -> None:
    """Put the legend above the axes, where it hides nothing."""
    place = {"loc": "lower left", "bbox_to_anchor": (AXES[0] - 0.03, AXES[1] + AXES[3])}
    figure.legend(**place, ncols=2, borderaxespad=0.3)


def pictures(audit: dict[str, Any]) -> list[Picture]:
    """Those figures that there are data for."""
    with house_style():
        drawn = [draw(audit) for draw in _FIGURES]
    return [picture for picture in drawn if picture is not None]


def profile(audit: dict[str, Any]) -> Picture:
    """Delta against epsilon, of the claim and of the proof."""
    figure, ax = _empty()
    epsilon = audit["epsilon"]
    curves = [
        ("claimed", audit["claim"], BLUE, "-"),
        ("proved at most", audit["proof"], BLACK, "--"),
    ]
    for label, curve, colour, style in curves:
        if curve is not None:
            delta = numbers(curve["profile"]["delta"])
            shown = np.where(delta > 0, delta, np.nan)
            ax.plot(numbers(curve["profile"]["epsilon"]), shown, style, color=colour, label=label)
    at, stated = float(epsilon["claimed"]), float(epsilon["delta"])
    if np.isfinite(at) and stated > 0:
        ax.plot([at], [stated], "o", color=BLUE, label="where it is stated")
    ax.set(xlabel="ε", ylabel="δ", yscale="log", ylim=(1e-10, 1.5))
    ax.yaxis.set_major_formatter(lambda x, _: f"1e{math.log10(x):.0f}")
    _legend(figure)
    caption = "For every ε the δ that goes with it. One pair (ε, δ) is one point of this curve."
    return Picture("profile", "The whole claim, δ against ε", caption, figure)


def _if_seen(name: str) -> Callable[[Callable[[Audit, Any], Picture]], Chart]:
    """Make a chart of one kind of evidence; there is none where an audit has none of that kind."""

    def decorate(draw: Callable[[Audit, Any], Picture]) -> Chart:
        @functools.wraps(draw)
        def chart(audit: Audit) -> Picture | None:
            found = audit["evidence"][name]
            return None if found is None else draw(audit, found)

        return chart

    return decorate


def roc(audit: dict[str, Any]) -> Picture | None:
    """True against false positives, the region that the claim allows, and the band."""
    curve, band = audit["evidence"]["roc"], audit["evidence"]["roc_band"]
    if curve is None:
        return None
    figure, ax = _empty()
    allowed = {name: numbers(values) for name, values in audit["claim"]["allowed"].items()}
    edges = allowed["fpr"], allowed["tpr_least"], allowed["tpr_most"]
    ax.fill_between(*edges, color=BLUE, alpha=0.13, lw=0, label="allowed by the claim")
    for edge in edges[1:]:
        ax.plot(edges[0], edge, color=BLUE, lw=1)
    if band is not None:
        at, low, high = (numbers(band[name]) for name in ("fpr", "tpr_lower", "tpr_upper"))
        percent = f"{100 * band['confidence']:.10g} %"
        ax.fill_between(
            at, low, high, step="post", facecolor="none", edgecolor="#9a9a9a", hatch="////", lw=0.6,
            label=f"band, {percent}",
        )  # fmt: skip
    ax.plot(numbers(curve["fpr"]), numbers(curve["tpr"]), color=RED, lw=1.8, label="the attack")
    ax.plot([0, 1], [0, 1], ":", color=BLACK, lw=1, label="guessing")
    ax.set(xlabel="false-positive rate", ylabel="true-positive rate", xlim=(0, 1), ylim=(0, 1.01))
    _legend(figure)
    return Picture("roc", "What the attack got right (ROC)", _roc_caption(audit), figure)


def _roc_caption(audit: dict[str, Any]) -> str:
    band, attack = audit["evidence"]["roc_band"], audit["attack"]
    counts = f"From {attack['n_in']} with and {attack['n_out']} without the canary."
    if band is None:
        return (
            f"{counts} The claim limits the expected rates. Canaries of one training depend on "
            "each other, so that there is no band."
        )
    outside = "A band that lies outside of what the claim allows is evidence against it."
    depends = f" {DEPENDS}" if audit["evidence"]["wealth"] is not None else ""
    return (
        f"{counts} The band holds at all thresholds together: {band['words']}. {outside}{depends}"
    )


@_if_seen("histogram")
def histogram(audit: dict[str, Any], found: Any) -> Picture:
    """The scores of both worlds."""
    figure, ax = _empty()
    edges = numbers(found["edges"])
    for name, label, colour, hatch in (
        ("in", "with", ORANGE, "//"),
        ("out", "without", BLUE, ""),
    ):
        total = max(audit["attack"][f"n_{name}"], 1)
        share = numbers(found[f"n_{name}"]) / total
        face = "none" if hatch else f"{colour}59"  # the last two digits make it translucent
        style: dict[str, Any] = {"facecolor": face, "edgecolor": colour, "hatch": hatch}
        ax.stairs(share, edges, fill=True, lw=1.2, label=label, **style)
    ax.set(xlabel="score of the attack", ylabel="share of its world")
    ax.set_ylim(bottom=0)
    _legend(figure)
    return Picture("scores", "Scores with and without the canary", _score_caption(found), figure)


def _score_caption(found: dict[str, Any]) -> str:
    said = ["The less the two overlap, the more the output tells. End bars take in what is beyond."]
    for end, words in (("lowest", "failed trials, lowest score"), ("highest", "infinite scores")):
        n_in, n_out = found[f"n_in_{end}"], found[f"n_out_{end}"]
        if n_in or n_out:
            said.append(f"Not drawn: {n_in} with and {n_out} without ({words}).")
    return " ".join(said)


@_if_seen("thresholds")
def thresholds(audit: dict[str, Any], found: Any) -> Picture:
    """The bound at each threshold by itself, and the one that was paid for."""
    figure, ax = _empty()
    _bounds(ax, numbers(found["threshold"]), numbers(found["epsilon"]), audit["epsilon"])
    ax.set_xlabel("threshold on the score")
    _legend(figure)
    caption = _explain_payment("threshold", "trials", audit)
    return Picture("thresholds", "Lower bound against threshold", caption, figure)


@_if_seen("guesses")
def guesses(audit: dict[str, Any], found: Any) -> Picture:
    """The same for the number of guesses in one training."""
    figure, ax = _empty()
    _bounds(ax, numbers(found["guesses"]), numbers(found["epsilon"]), audit["epsilon"])
    ax.set(xlabel="number of guesses", xscale="log")
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    _legend(figure)
    caption = _explain_payment("number of guesses", "training", audit)
    return Picture("guesses", "Lower bound against number of guesses", caption, figure)


def _bounds(ax: Any, at: FloatArray, values: FloatArray, epsilon: dict[str, Any]) -> None:
    paid, claimed = float(epsilon["measured_lower"]), float(epsilon["claimed"])
    ax.plot(at, values, color=GREY, lw=1.2, label="each by itself")
    ax.axhline(paid, color=RED, lw=2, label="measured, paid for")
    if claimed <= 3 * max(paid, float(np.nanmax(values)), 1.0):
        ax.axhline(claimed, color=BLUE, ls="--", label="claimed")
    ax.set(ylabel="lower bound on ε", xlim=(at[0], max(at[-1], at[0] + 1e-9)))
    ax.set_ylim(bottom=0)


def _explain_payment(choice: str, played: str, audit: dict[str, Any]) -> str:
    return (
        f"Each point of the grey curve is a bound only if that {choice} had been fixed before the "
        f"{played}: its maximum is not a bound. The red line is, its choice is paid for: "
        f"{audit['bound']['selection']}."
    )


@_if_seen("wealth")
def wealth(audit: dict[str, Any], found: Any) -> Picture:
    """The bettor's wealth over the trials."""
    figure, ax = _empty()
    path, needed = numbers(found["log_wealth"]), float(found["needed"])
    ax.plot(numbers(found["trial"]), path, color=BLACK, lw=1.2, label="wealth")
    ax.axhline(needed, color=RED, ls="--", label="refuted from here on")
    ax.axhline(0, color=GREY, lw=0.8, ls=":")
    low = max(float(np.nanmin(path)), -3 * needed)
    ax.set(xlabel="trial", ylabel="log of the wealth", ylim=(1.1 * min(low, -1), 1.15 * needed))
    _legend(figure)
    caption = (
        "Someone bets against the claim, trial by trial, at odds that are fair or worse if it is "
        f"true. Then a stake ever grows to the dashed line with a chance of at most "
        f"{one_in(math.exp(-needed))}."
    )
    if audit["verdict"]["trials"] > found["n_bet"]:
        caption += f" The first {found['n_bet']} trials are bet on, the others tested at the end."
    return Picture("wealth", "Evidence over the trials", caption, figure)


_FIGURES: tuple[Chart, ...] = (
    profile,
    roc,
    histogram,
    thresholds,
    guesses,
    wealth,
)
