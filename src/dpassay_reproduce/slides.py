"""The pictures of CSCI 699 (slides) and of chapter 1 of Micali 2022, from our own functions.

Each figure has a function that draws it and returns it with its numbers. Where a document prints a
formula that does not hold, the printed one is drawn beside the right one, so that the difference is
seen.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from dpassay.privacy import GDP, ApproxDP, account, composition, events
from dpassay.privacy.accounting import AccountMethod
from dpassay.privacy.loss_variables import GaussianLoss, LaplaceLoss
from dpassay.privacy.tradeoff import Tradeoff
from dpassay.report import figures
from dpassay.report.figures import house_style, panels, save_all
from dpassay.report.published import published_claim
from dpassay.types import FloatArray
from dpassay_reproduce.claims import Claim, Picture, claim_exactly

Numbers = dict[str, Any]

TITLE = "Composition, privacy loss, trade-off curves and a refuted claim"
INTRODUCTION = (
    "The pictures of the slides on Gaussian differential privacy and auditing (CSCI 699) and "
    "of chapter 1 of the thesis (Micali 2022), computed anew. The plotted numbers are in "
    "numbers.json."
)
TEXTS = {
    "composition": (
        "Composition: kε, advanced and exact",
        "Advanced composition beats kε only from the crossover on (middle); exact composition of "
        "pure events is never above either. The slides print the drift as k tanh(ε/2) instead of "
        "kε tanh(ε/2): too loose below ε = 1, and too small above, where it falls below the truth "
        "(right).",
    ),
    "loss-laplace": (
        "Privacy loss of Laplace noise (figure 1.1)",
        "The log-ratio of the two densities lies between -ε and ε for every output: Laplace noise "
        "is ε-DP. Its mean, the KL divergence, is ε + e^-ε - 1, about ε²/2.",
    ),
    "loss-gaussian": (
        "Privacy loss of Gaussian noise (figure 1.2)",
        "The log-ratio is a line, so that no ε bounds it: outputs far enough to the left exceed "
        "any ε. Gaussian noise is (ε, δ)-DP, never pure.",
    ),
    "loss-over-cdf": (
        "Privacy loss over the cdf of the output, with ε and δ (figure 1.3)",
        "With the horizontal axis scaled by the cdf, widths are probabilities. The width over "
        "which the loss exceeds ε is P(loss ≥ ε), which both documents take for δ. It is only an "
        "upper bound: the exact δ is the area under 1 - exp(ε - loss) over that width.",
    ),
    "tradeoff": (
        "Trade-off curves of (ε, δ)-DP and μ-GDP",
        "No attack reaches below the curve. (ε, δ)-DP is two lines and a floor; μ-GDP is the pair "
        "N(0, 1), N(μ, 1). A curve is the highest of the (ε, δ(ε)) statements that it implies "
        "(right).",
    ),
    "subsampling": (
        "The subsampling operator, before and after convexification",
        "Sampling mixes f with the diagonal (f_p, blue), in one direction; the other direction is "
        "its inverse. What holds for both is their minimum, which is not convex; C_p(f) is the "
        "largest convex function below it (the difference is shaded).",
    ),
    "clt": (
        "Where the central limit theorem under-reports",
        "For Poisson batches the limit lies below the privacy-loss distribution, which is a proof, "
        "at every number of steps shown. Discretisation is not the reason: a distribution rounded "
        "downwards (dp-accounting, interval 1e-5) also lies above the limit, with 3.8917 at k = "
        "10 000. Never use the limit for a guarantee.",
    ),
}


def run(folder: Path, *, image_format: str = "svg") -> list[Path]:
    """The files written: one per figure, ``numbers.json`` and ``index.html``."""
    folder.mkdir(parents=True, exist_ok=True)  # first: a folder that cannot be is said at once
    with house_style():
        pictures = [draw() for draw in FIGURES]
    return save_all(
        pictures, folder, title=TITLE, introduction=INTRODUCTION, image_format=image_format
    )


def _picture(name: str, figure: Any, facts: Numbers, curves: Numbers) -> Picture:
    claims = CLAIMS[name](facts) if name in CLAIMS else ()
    return Picture(name, *TEXTS[name], figure, facts, curves, claims)


def _claim_composition(facts: Numbers) -> tuple[Claim, ...]:
    return (
        claim_exactly(
            "Advanced composition: ε√(2k ln(1/δ')) + k(e^ε - 1)/(e^ε + 1).",
            "it is no less than the exact ε of 100 randomized responses of ε = 2 at δ' = 1e-3.",
            facts["epsilon_2_printed_100"] >= facts["epsilon_2_exact_100"],
            f"{facts['epsilon_2_printed_100']:.1f} against {facts['epsilon_2_exact_100']:.1f}: a "
            "factor ε was lost.",
        ),
        claim_exactly(
            "Advanced composition is too loose.",
            "for 1000 mechanisms of ε = 0.1 the right form is above the exact ε.",
            facts["advanced_1000"] > facts["exact_1000"],
            f"{facts['advanced_1000']:.2f} against {facts['exact_1000']:.2f} (printed: "
            f"{facts['printed_1000']:.2f}).",
        ),
    )


def _claim_tail(facts: Numbers) -> tuple[Claim, ...]:
    return (
        claim_exactly(
            "A is (ε, δ)-DP if and only if P(loss ≥ ε) ≤ δ.",
            "for the Gaussian mechanism of μ = 1 at ε = 1 the least δ is that probability.",
            abs(facts["delta"] - facts["tail"]) < 1e-6,
            f"{facts['delta']:.3f} against {facts['tail']:.3f}: only if.",
        ),
    )


def _claim_clt(facts: Numbers) -> tuple[Claim, ...]:
    return (
        claim_exactly(
            "The central limit theorem sometimes underestimates.",
            "for DP-SGD with q = 0.01, σ = 1.3 and 10 000 steps it gives less than a proof that is "
            "known to be tight.",
            facts["clt_10000"] < facts["pld_10000"],
            f"{facts['clt_10000']:.4f} against {facts['pld_10000']:.4f}.",
        ),
    )


def refuted_claim() -> Picture:
    """The published claim that was refuted, as every report can show it, and judged."""
    shown = published_claim()
    parts = shown.name, shown.title, shown.caption, shown.figure, shown.facts, shown.curves
    return Picture(*parts, _claim_published(shown.facts))


def _claim_published(facts: Numbers) -> tuple[Claim, ...]:
    return (
        claim_exactly(
            "4.922 % and 0.174 % of 100 000 are not possible under (0.21, 1e-5)-DP.",
            "the upper limit of the false-positive rate at 1 - 1e-10 is below the least that the "
            "claim allows.",
            facts["fpr_upper"] < facts["least_fpr"],
            f"{facts['fpr_upper']:.5f} against {facts['least_fpr']:.5f}; ε is at least "
            f"{facts['epsilon_lower']:.2f}.",
        ),
    )


CLAIMS: dict[str, Callable[[Numbers], tuple[Claim, ...]]] = {
    "composition": _claim_composition,
    "loss-gaussian": _claim_tail,
    "clt": _claim_clt,
}


# Composition.

SLACK = 1e-3


def printed_advanced(epsilon: float, count: FloatArray) -> FloatArray:
    """Advanced composition as the slides print it; *not* a bound for epsilon > 1."""
    return epsilon * np.sqrt(2 * count * math.log(1 / SLACK)) + count * math.tanh(epsilon / 2)


def _compose(epsilon: float, count: FloatArray) -> Numbers:
    """Total epsilon at delta = SLACK by each rule, for each number of compositions."""
    whole = [int(k) for k in count]
    pure = events.Pure(epsilon)
    exact = [account(events.Repeated(pure, k), "optimal").epsilon(SLACK) for k in whole]
    advanced = [composition.advanced([epsilon], counts=[k], slack=SLACK)[0] for k in whole]
    return {
        "count": count,
        "basic": epsilon * count,
        "printed": printed_advanced(epsilon, count),
        "advanced": np.array(advanced),
        "exact": np.array(exact),
    }


def _draw_composition(ax: Any, drawn: Numbers, title: str) -> None:
    k = drawn["count"]
    ax.plot(k, drawn["basic"], color=figures.BLACK, label="basic: kε")
    ax.plot(k, drawn["printed"], color=figures.ORANGE, ls="--", label="advanced, as printed")
    ax.plot(k, drawn["advanced"], color=figures.BLUE, label="advanced, corrected")
    ax.plot(k, drawn["exact"], color=figures.GREEN, label="exact (optimal)")
    ax.set(xlabel="number of compositions k", ylabel="total ε", title=title, xlim=(0, k[-1]))
    ax.set_ylim(0, 1.02 * drawn["basic"][-1])


def composition_figure() -> Picture:
    """Basic against advanced and exact composition, with the crossover."""
    many = _compose(0.1, np.unique(np.geomspace(1, 1500, 60).astype(int)).astype(float))
    few, large = _compose(0.1, np.arange(1.0, 61.0)), _compose(2.0, np.arange(1.0, 101.0))
    crossover = float(few["count"][np.argmax(few["advanced"] < few["basic"])])
    figure, (left, middle, right) = panels(3, width=4.0)
    _draw_composition(left, many, "ε = 0.1 each, δ = 0.001")
    _draw_composition(middle, few, "the same, at the start")
    _draw_composition(right, large, "ε = 2 each, δ = 0.001")
    middle.axvline(crossover, color=figures.BLUE, lw=1, ls=":")
    middle.text(crossover + 1, 0.3, f"crossover: k = {crossover:.0f}", color=figures.BLUE)
    wrong = {"color": figures.RED, "alpha": 0.25, "lw": 0, "label": "printed form below the truth"}
    below = large["printed"] < large["exact"]
    right.fill_between(large["count"], large["printed"], large["exact"], where=below, **wrong)
    left.legend(loc="upper left")
    right.legend(handles=right.collections, loc="lower right")
    facts = {"crossover": crossover} | _composition_facts(large)
    curves = {"epsilon_0.1": many, "epsilon_0.1_start": few, "epsilon_2": large}
    return _picture("composition", figure, facts, curves)


def _composition_facts(large: Numbers) -> Numbers:
    at = _compose(0.1, np.array([100.0, 1000.0]))
    facts = {
        f"{rule}_{k:.0f}": float(value)
        for rule in ("printed", "advanced", "exact")
        for k, value in zip(at["count"], at[rule], strict=True)
    }
    printed = large["printed"][-1:]
    return facts | {
        "epsilon_2_printed_100": float(printed[0]),
        "epsilon_2_exact_100": float(large["exact"][-1]),
        "epsilon_2_true_delta_at_printed_100": float(composition.optimal(2.0, 100)(printed)[0]),
    }


# Privacy loss (figures 1.1 to 1.3 of Micali 2022): Y is centred at 0, Z at 1, t is drawn from Y.

EPSILON, MU = 1.0, 1.0


def _draw_densities(ax: Any, drawn: Numbers, title: str) -> None:
    ax.plot(drawn["output"], drawn["density_y"], color=figures.BLUE, label="Y: without")
    ax.plot(drawn["output"], drawn["density_z"], color=figures.ORANGE, label="Z: with")
    ax.set(xlabel="output t", ylabel="density", title=title)
    ax.set_ylim(0, 1.25 * drawn["density_y"].max())
    ax.legend(loc="upper right", ncols=2)


def laplace_loss() -> Picture:
    """Figure 1.1: two Laplace densities and their privacy loss, which is bounded."""
    t = np.linspace(-4, 5, 181)
    y, z = (EPSILON / 2 * np.exp(-EPSILON * np.abs(t - centre)) for centre in (0, 1))
    drawn = {"output": t, "density_y": y, "density_z": z, "loss": np.log(y / z)}
    figure, (left, right) = panels(2)
    _draw_densities(left, drawn, "Laplace noise of scale 1/ε, ε = 1")
    right.plot(t, drawn["loss"], color=figures.BLUE)
    for sign, label, side in ((1, "ε", "bottom"), (-1, "-ε", "top")):
        right.axhline(sign * EPSILON, color=figures.RED, ls="--", lw=1)
        right.text(
            5, sign * (EPSILON + 0.06), label, color=figures.RED, ha="right", va=side, fontsize=12
        )
    right.set(xlabel="output t", ylabel="privacy loss", ylim=(-1.6, 1.6))
    right.set_title("Its privacy loss never exceeds ε")
    facts = {"epsilon": EPSILON, "largest_loss": float(drawn["loss"].max())}
    return _picture("loss-laplace", figure, facts | {"kl": LaplaceLoss(EPSILON).mean()}, drawn)


def gaussian_loss() -> Picture:
    """Figure 1.2: two Gaussian densities and their privacy loss, a line."""
    t, edge = np.linspace(-4, 5, 181), MU / 2 - EPSILON / MU
    y, z = (np.exp(-np.square(t - c) / 2) / math.sqrt(2 * math.pi) for c in (0, MU))
    drawn = {"output": t, "density_y": y, "density_z": z, "loss": np.log(y / z)}
    figure, (left, right) = panels(2)
    _draw_densities(left, drawn, "Gaussian noise, μ = 1")
    left.fill_between(t, y, where=t <= edge, color=figures.RED, alpha=0.3, lw=0)
    arrow = {"arrowstyle": "->", "color": figures.RED}
    left.annotate("P(loss ≥ ε)", (-0.9, 0.12), (-3.8, 0.25), color=figures.RED, arrowprops=arrow)
    right.plot(t, drawn["loss"], color=figures.BLUE)
    right.axhline(EPSILON, color=figures.RED, ls="--", lw=1)
    right.axvspan(t[0], edge, color=figures.RED, alpha=0.12, lw=0)
    right.text(4.9, EPSILON + 0.1, "ε = 1", color=figures.RED, ha="right", va="bottom")
    right.text(
        t[0] + 0.15, -4.2, f"loss above ε\nfor t below {edge:g}", color=figures.RED, va="bottom"
    )
    right.set(xlabel="output t", ylabel="privacy loss", xlim=(t[0], t[-1]))
    right.set_title("Its privacy loss is unbounded")
    return _picture("loss-gaussian", figure, _gaussian_facts() | {"edge": edge}, drawn)


def _gaussian_facts() -> Numbers:
    law = GaussianLoss(MU)
    tail, delta = float(law.delta_tail_bound(EPSILON)), float(law.delta(EPSILON))
    return {"mu": MU, "epsilon": EPSILON, "kl": law.mean(), "tail": tail, "delta": delta}


def loss_over_cdf() -> Picture:
    """Figure 1.3: the loss over the cdf of the output; where epsilon and delta are."""
    facts, drawn = _gaussian_facts(), _losses_over_cdf()
    figure, (left, middle, right) = panels(3, width=4.0)
    _draw_loss_over_cdf(left, drawn, "laplace", "Laplace, ε = 1")
    left.text(
        1, EPSILON + 0.06, "ε: never above it, δ = 0", color=figures.RED, ha="right", va="bottom"
    )
    left.set_ylim(-1.6, 1.6)
    _draw_loss_over_cdf(middle, drawn, "gaussian", "Gaussian, μ = 1")
    middle.text(1, EPSILON + 0.1, "ε = 1", color=figures.RED, ha="right", va="bottom")
    words = f"width: P(loss ≥ ε) = {facts['tail']:.4f}\nnot yet δ"
    middle.text(facts["tail"] + 0.03, 3.0, words, va="center")
    for ax in (middle, right):
        ax.axvspan(0, facts["tail"], color=figures.ORANGE, alpha=0.25, lw=0, zorder=0)
    right.fill_between(drawn["cdf"], drawn["gain"], color="#8fbcd9", lw=0)
    right.plot(drawn["cdf"], drawn["gain"], color=figures.BLUE)
    words = f"blue area: δ = {facts['delta']:.4f}\norange width: {facts['tail']:.4f}"
    right.text(facts["tail"] + 0.03, 0.55, words)
    right.set(title="Where δ is", xlabel="cdf of the output", ylim=(0, 1))
    right.set_ylabel("1 - exp(ε - loss), if above 0")
    area = float(np.trapezoid(drawn["gain"], drawn["cdf"]))
    return _picture("loss-over-cdf", figure, facts | {"area": area}, drawn)


def _losses_over_cdf() -> Numbers:
    u = np.linspace(0, 1, 2001)[1:-1]
    t = np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u))) / EPSILON
    gaussian = MU * MU / 2 - MU * special.ndtri(u)
    return {
        "cdf": u,
        "laplace": EPSILON * (np.abs(t - 1) - np.abs(t)),
        "gaussian": gaussian,
        "gain": -np.expm1(np.minimum(EPSILON - gaussian, 0.0)),
    }


def _draw_loss_over_cdf(ax: Any, drawn: Numbers, noise: str, title: str) -> None:
    ax.plot(drawn["cdf"], drawn[noise], color=figures.BLUE)
    ax.axhline(EPSILON, color=figures.RED, ls="--", lw=1)
    ax.set(title=title, xlabel="cdf of the output", ylabel="privacy loss")


# Trade-off curves.


def _square(ax: Any, title: str) -> None:
    ax.plot([0, 1], [1, 0], color=figures.BLACK, lw=1, ls=":", label="perfect privacy")
    ax.set(title=title, xlabel="false-positive rate", ylabel="least false-negative rate")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.legend(loc="upper right")


def tradeoff_curves() -> Picture:
    """Trade-off curves of (epsilon, delta)-DP and mu-GDP, and how the second contains the first."""
    claims = [ApproxDP(e, d) for e, d in ((0.5, 0), (1, 0), (1, 0.1), (2, 0))]
    labels = [f"ε = {c.epsilon_upper:g}, δ = {c.delta_upper:g}" for c in claims]
    shifts = [GDP(mu) for mu in (0.5, 1.0, 2.0, 3.0)]
    figure, (left, middle, right) = panels(3, width=4.0, height=4.2)
    for claim, label in zip(claims, labels, strict=True):
        claim.plot(left, label=label)
    for curve in shifts:
        curve.plot(middle, label=f"μ = {curve.mu:g}")
    for e in (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0):
        ApproxDP(e, GDP(1.0).delta(e)).plot(right, color=figures.ORANGE, lw=0.8, label=None)
    right.plot([], [], color=figures.ORANGE, label="(ε, δ(ε))-DP")
    GDP(1.0).plot(right, color=figures.BLUE, lw=2, label="μ = 1")
    titles = ("(ε, δ)-DP", "μ-Gaussian DP", "μ = 1 is all its (ε, δ(ε)) at once")
    for ax, title in zip((left, middle, right), titles, strict=True):
        _square(ax, title)
    fpr = np.linspace(0, 1, 201)
    curves = {repr(curve): curve.tradeoff(fpr) for curve in (*claims, *shifts)}
    facts = {f"delta_of_mu_1_at_{e:g}": GDP(1.0).delta(e) for e in (0, 0.5, 1, 2, 4)}
    return _picture("tradeoff", figure, facts, {"fpr": fpr} | curves)


def subsampling() -> Picture:
    """The subsampling operator C_p(f) = min(f_p, f_p^-1)** before and after convexification."""
    mu, p = 1.8, 0.35
    f = Tradeoff.sample(GDP(mu).tradeoff)
    one = f.mix(p)
    least = one.minimum(one.inverse())
    x = np.linspace(0, 1, 401)
    drawn = {"fpr": x, "f": f(x), "f_p": one(x), "inverse": one.inverse()(x)}
    drawn |= {"minimum": least(x), "c_p": f.subsample(p)(x)}
    figure, (left, right) = panels(2, width=4.6, height=4.4)
    left.plot(x, drawn["f"], color=figures.GREEN, label=f"f: μ = {mu:g}")
    for ax in (left, right):
        _draw_operator(ax, drawn)
    _square(left, f"Sampling rate p = {p:g}")
    right.set(title="Where the minimum is not convex", xlim=(0.15, 0.55), ylim=(0.22, 0.62))
    right.set(xlabel="false-positive rate", ylabel="least false-negative rate")
    gap = drawn["minimum"] - drawn["c_p"]
    facts = {"mu": mu, "sampling_rate": p, "largest_gap": float(gap.max())}
    return _picture("subsampling", figure, facts | {"gap_at": float(x[np.argmax(gap)])}, drawn)


def _draw_operator(ax: Any, drawn: Numbers) -> None:
    x = drawn["fpr"]
    ax.fill_between(x, drawn["c_p"], drawn["minimum"], color=figures.RED, alpha=0.25, lw=0)
    ax.plot(x, drawn["f_p"], color=figures.BLUE, label="f_p")
    ax.plot(x, drawn["inverse"], color=figures.ORANGE, label="inverse of f_p")
    label = "C_p(f): their minimum, convexified"
    ax.plot(x, drawn["c_p"], color=figures.RED, lw=2, ls="--", label=label)


# The central limit theorem.


def clt_underreports() -> Picture:
    """Where the central limit theorem gives less epsilon than there is."""
    noise, q, delta = 1.3, 0.01, 1e-5
    steps = np.array([10, 30, 100, 300, 1000, 3000, 10_000])
    made = [events.dp_sgd_event(noise, q, int(k)) for k in steps]
    methods: dict[str, AccountMethod] = {"pld": "pld", "clt": "gdp-clt"}
    drawn: Numbers = {"steps": steps} | {
        name: np.array([account(event, method).epsilon(delta) for event in made])
        for name, method in methods.items()
    }
    at = list(steps).index(10_000)
    facts = {"noise_multiplier": noise, "sampling_rate": q, "delta": delta}
    facts |= {f"{name}_10000": float(drawn[name][at]) for name in methods}
    figure, axes = panels(2)
    _draw_clt(axes, drawn, facts)
    return _picture("clt", figure, facts, drawn)


def _draw_clt(axes: list[Any], drawn: Numbers, facts: Numbers) -> None:
    left, right = axes
    steps, missing = drawn["steps"], 100 * (1 - drawn["clt"] / drawn["pld"])
    left.plot(steps, drawn["pld"], "o-", color=figures.BLUE, label="PLD: a proof")
    left.plot(
        steps, drawn["clt"], "s--", color=figures.ORANGE, label="central limit theorem: an estimate"
    )
    left.set(yscale="log", ylabel="ε at δ = 1e-5", title="DP-SGD, q = 0.01, σ = 1.3")
    left.yaxis.set_major_formatter("{x:g}")
    left.legend()
    right.plot(steps, missing, "o-", color=figures.RED)
    right.set(ylabel="missing from the estimate, %", ylim=(0, None))
    right.set_title("How much the estimate leaves out")
    words = f"k = 10 000: {facts['clt_10000']:.4f} instead of {facts['pld_10000']:.4f}"
    point = (10_000, missing[list(steps).index(10_000)])
    where = {"textcoords": "axes fraction", "ha": "right", "arrowprops": {"arrowstyle": "->"}}
    right.annotate(words, point, (0.98, 0.7), **where)
    for ax in axes:
        ax.set(xscale="log", xlabel="steps k")
        ax.xaxis.set_major_formatter("{x:g}")


FIGURES: tuple[Callable[[], Picture], ...] = (
    composition_figure,
    laplace_loss,
    gaussian_loss,
    loss_over_cdf,
    tradeoff_curves,
    subsampling,
    clt_underreports,
    refuted_claim,
)
