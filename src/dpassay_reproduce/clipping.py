"""CSCI 699's question: L1 clipping with Laplace noise beside L2 with Gaussian noise.

Both descend on the full batch, or on single records as the slide has it, and meet the same (ε, δ)
under add-remove, each by the least noise that :func:`~dpassay.privacy.calibrate` finds by the best
method. What decides is the noise of a
coordinate against the gradient that is left after clipping. At clipping norms that cut equally
much it is √2 b ‖g‖₁ for Laplace noise of scale b, and σ ‖g‖₂ for Gaussian noise: a ratio of

    (√2 b/σ) · ‖g‖₁/‖g‖₂,

of which the first factor depends on ε and the number of steps alone (0.38 for one step at ε = 1,
1.4 for many) and the second on the gradients alone (from 1 for a single entry to √p).
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import special

from dpassay.optim.gradient import noisy_gradient_descent, step_event
from dpassay.optim.losses import Logistic, Multinomial, Rows
from dpassay.privacy import ApproxDP, account, calibrate
from dpassay.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    house_style,
    panels,
    save_all,
)
from dpassay.types import FloatArray
from dpassay_reproduce.claims import (
    Claim,
    Picture,
    claim_exactly,
    estimate,
    judge_above,
    judge_all,
    judge_below,
)

Norm = Literal["l2", "l1"]
Sample = tuple[FloatArray, FloatArray]
Problem = Callable[[int], tuple[Sample, Sample]]  # seed -> records to train on, and to test on

DELTA = 1e-5
NORMS: dict[Norm, tuple[str, str]] = {
    "l2": ("L2 clipping, Gaussian noise", BLUE),
    "l1": ("L1 clipping, Laplace noise", ORANGE),
}
CLIPS = (0.1, 1.0)  # in units of the mean norm of a row
RATES = (3.0, 10.0, 30.0, 100.0)
STYLES = {1: "--", 10: "-"}

TITLE = "L1 clipping with Laplace noise beside L2 clipping with Gaussian noise"
INTRODUCTION = (
    "CSCI 699 asks what one observes. Logistic models by noisy gradient descent on full batches, "
    "and on single records in the last figure, δ = 1e-5, each with the least noise that is proved "
    "to meet ε. Each point is the mean test accuracy over seeds, the band one deviation of that "
    "mean, at the best of eight pairs of clipping norm and learning rate (two for single records); "
    "both choose among the same. That choice, and the mean norm of a row in which clipping norms "
    "are measured, are not paid for. Rows have L2 norm 1, Gaussian ones on average. The plotted "
    "numbers are in numbers.json."
)


@functools.cache
def noise_multiplier(norm: Norm, steps: int, epsilon: float, rate: float = 1.0) -> float:
    """The least noise over the sensitivity that meets (epsilon, 1e-5)-DP; σ for l2, b for l1."""
    target = ApproxDP(epsilon, DELTA)
    return calibrate(lambda noise: step_event(norm, noise, rate, steps, "add-remove"), target)


def noise_ratio(steps: int, epsilon: float, rate: float = 1.0) -> float:
    """The deviation of the Laplace noise over that of the Gaussian noise, at equal norms."""
    laplace, gaussian = (noise_multiplier(norm, steps, epsilon, rate) for norm in ("l1", "l2"))
    return math.sqrt(2) * laplace / gaussian


def norm_ratio(n_features: Any) -> FloatArray:
    """E‖x‖₁/E‖x‖₂ of a standard Gaussian x: p √(2/π) over √2 Γ((p+1)/2)/Γ(p/2), about √(2p/π)."""
    p = np.asarray(n_features, float)
    return p / math.sqrt(math.pi) * np.exp(special.gammaln(p / 2) - special.gammaln((p + 1) / 2))


# Data.


def digits(seed: int) -> tuple[Sample, Sample]:
    """The bundled digits, rows of L2 norm 1; a random 500 of the 1797 are for testing."""
    from sklearn.datasets import load_digits

    X, y = (np.asarray(part, float) for part in load_digits(return_X_y=True))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[500:], order[:500]
    return (X[train], y[train]), (X[test], y[test])


def generate(n_records: int, n_features: int, *, one_entry: bool = False) -> Problem:
    """Logistic data whose best accuracy does not depend on the dimension.

    Rows are Gaussian with entries of variance 1/p, or have a single entry, a 1 at random.
    """

    def draw(seed: int) -> tuple[Sample, Sample]:
        rng, n, p = np.random.default_rng(seed), n_records + 2000, n_features
        if one_entry:
            X, w = np.eye(p)[rng.integers(0, p, n)], 4.0 * rng.choice([-1.0, 1.0], p)
        else:
            X, w = rng.normal(size=(n, p)) / math.sqrt(p), rng.normal(size=p)
            w *= 3 * math.sqrt(p) / np.linalg.norm(w)
        y = (rng.random(n) < 1 / (1 + np.exp(-X @ w))).astype(float)
        return (X[:n_records], y[:n_records]), (X[n_records:], y[n_records:])

    return draw


# Training.


@dataclass(frozen=True)
class ClippingSetting:
    """What is learned and at what price; ``x`` is where it is drawn.

    ``clips`` and ``rates`` are the pairs that both norms choose among.
    """

    x: float
    problem: Problem
    epsilon: float
    steps: int
    classes: int = 2
    seeds: int = 10
    sampling_rate: float = 1.0
    clips: tuple[float, ...] = CLIPS
    rates: tuple[float, ...] = RATES


def accuracies(setting: ClippingSetting) -> dict[str, FloatArray]:
    """Test accuracies per seed by norm, at the pair of clipping norm and rate of the best mean."""
    seen = {
        norm: np.array([_grid(setting, norm, seed) for seed in range(setting.seeds)])
        for norm in NORMS
    }
    return {norm: table[:, table.mean(axis=0).argmax()] for norm, table in seen.items()}


def _grid(setting: ClippingSetting, norm: Norm, seed: int) -> list[float]:
    (X, y), test = setting.problem(seed)
    rows = Rows(X, constant=0.0)
    size = float(rows.norms({"l2": 2, "l1": 1}[norm]).mean())
    loss = Logistic() if setting.classes == 2 else Multinomial(setting.classes)
    noise = noise_multiplier(norm, setting.steps, setting.epsilon, setting.sampling_rate)
    return [
        _accuracy(
            noisy_gradient_descent(
                rows,
                y,
                loss,
                steps=setting.steps,
                learning_rate=rate / clip,
                clip=clip * size,
                noise_multiplier=noise,
                sampling_rate=setting.sampling_rate,
                norm=norm,
                average=0.5,
                rng=np.random.default_rng((seed, number)),
            ).value,
            *test,
        )
        for number, (clip, rate) in enumerate(itertools.product(setting.clips, setting.rates))
    ]


def _accuracy(W: FloatArray, X: FloatArray, y: FloatArray) -> float:
    scores = Rows(X, constant=0.0).scores(W)
    guesses = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float((guesses == y).mean())


def sweep(settings: list[ClippingSetting]) -> dict[str, Any]:
    """Where points are drawn, and accuracies [setting, seed] by norm."""
    found = [accuracies(setting) for setting in settings]
    drawn: dict[str, Any] = {"x": np.array([setting.x for setting in settings])}
    return drawn | {norm: np.array([each[norm] for each in found]) for norm in NORMS}


# Figures.

EPSILONS = (0.3, 1.0, 3.0, 10.0)
SMALL_EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.5)
DIMENSIONS = (2, 8, 32, 128, 512)


def _draw(ax: Any, drawn: dict[str, Any], style: str = "-", note: str = "") -> None:
    for norm, (label, colour) in NORMS.items():
        mean = drawn[norm].mean(axis=1)
        error = drawn[norm].std(axis=1) / math.sqrt(drawn[norm].shape[1])
        ax.fill_between(drawn["x"], mean - error, mean + error, color=colour, alpha=0.2, lw=0)
        ax.plot(drawn["x"], mean, f"o{style}", color=colour, ms=4, label=label + note)
    ax.set(xscale="log", ylabel="test accuracy", ylim=(0, 1))
    _ticks(ax, drawn["x"])


def _ticks(ax: Any, points: FloatArray) -> None:
    ax.set_xticks(points, [f"{x:g}" for x in points])
    ax.set_xticks([], minor=True)


def against_epsilon(seeds: int = 10) -> Picture:
    """Accuracy against epsilon: 640 weights and 20 steps, and 2 weights and one step."""
    image = [ClippingSetting(e, digits, e, 20, 10, seeds) for e in EPSILONS]
    tiny = [ClippingSetting(e, generate(200, 2), e, 1, 2, 20 * seeds) for e in SMALL_EPSILONS]
    drawn = {"digits": sweep(image), "two_features": sweep(tiny)}
    figure, (left, right) = panels(2)
    _draw(left, drawn["digits"])
    left.set(title="Digits: 640 weights, n = 1297, 20 steps", xlabel="ε")
    left.axhline(0.1, color=BLACK, lw=1, ls=":", label="guessing")
    _draw(right, drawn["two_features"])
    right.set(title="Generated: n = 200, p = 2, one step", xlabel="ε", ylim=(0.45, 0.9))
    left.legend(loc="lower right", bbox_to_anchor=(1, 0.12))
    facts = _facts(drawn["digits"], "digits", EPSILONS)
    facts |= _facts(drawn["two_features"], "two_features", SMALL_EPSILONS)
    facts |= {"ratio_20_steps_epsilon_1": noise_ratio(20, 1.0)}
    facts |= {"ratio_one_step_epsilon_0.1": noise_ratio(1, 0.1)}
    return Picture("epsilon", "Accuracy against ε", _say_of_epsilon(facts), figure, facts, drawn)


def _say_of_epsilon(facts: dict[str, float]) -> str:
    return (
        f"On digits L2 with Gaussian noise is ahead at every ε: {facts['digits_l2_1']:.2f} against "
        f"{facts['digits_l1_1']:.2f} at ε = 1, and still {facts['digits_l2_10']:.2f} against "
        f"{facts['digits_l1_10']:.2f} at ε = 10. "
        "With two weights and one step it is the other way round: "
        f"{facts['two_features_l1_0.1']:.2f} for Laplace noise against "
        f"{facts['two_features_l2_0.1']:.2f} at ε = 0.1. At equal norms the deviation of Laplace "
        f"noise is {facts['ratio_20_steps_epsilon_1']:.2f} times that of Gaussian noise for 20 "
        f"steps (ε = 1), but {facts['ratio_one_step_epsilon_0.1']:.2f} times for one (ε = 0.1), "
        "where the Gaussian tail must be paid for down to δ."
    )


def _facts(drawn: dict[str, Any], name: str, points: tuple[float, ...]) -> dict[str, float]:
    return {
        f"{name}_{norm}_{x:g}": float(values.mean())
        for norm in NORMS
        for x, values in zip(points, drawn[norm], strict=True)
    }


def against_dimension(seeds: int = 10) -> Picture:
    """Accuracy against the dimension for two kinds of rows, and the ratio that explains it."""
    drawn: dict[str, Any] = {}
    facts: dict[str, float] = {}
    for kind, one_entry in (("dense", False), ("one_entry", True)):
        for steps in STYLES:
            settings = [
                ClippingSetting(p, generate(1000, p, one_entry=one_entry), 1.0, steps, 2, seeds)
                for p in DIMENSIONS
            ]
            name = f"{kind}_{steps}"
            drawn[name] = sweep(settings)
            facts |= _facts(drawn[name], name, DIMENSIONS)
    facts |= {f"ratio_{steps}": noise_ratio(steps, 1.0) for steps in (1, 10, 100)}
    facts["crossover_1"] = float((facts["ratio_1"] * norm_ratio(np.arange(1, 1000)) < 1).sum())
    drawn["ratio"] = {"p": np.array(DIMENSIONS)} | {
        f"dense_{steps}": facts[f"ratio_{steps}"] * norm_ratio(np.array(DIMENSIONS))
        for steps in (1, 10, 100)
    }
    figure = _draw_dimension(drawn, facts)
    caption = _say_of_dimension(facts, DIMENSIONS[-1])
    return Picture("dimension", "Accuracy against the dimension", caption, figure, facts, drawn)


def _draw_dimension(drawn: dict[str, Any], facts: dict[str, float]) -> Any:
    figure, (left, middle, right) = panels(3, width=4.2, height=4.2)
    titles = {"dense": "Dense rows", "one_entry": "Rows of one entry"}
    for ax, (kind, title) in zip((left, middle), titles.items(), strict=True):
        for steps, style in STYLES.items():
            _draw(ax, drawn[f"{kind}_{steps}"], style, f", T = {steps}")
        ax.set(title=f"{title}, n = 1000, ε = 1", xlabel="features p", ylim=(0.45, 1))
    ratio = drawn["ratio"]
    for steps, colour in ((1, GREEN), (10, PURPLE), (100, BLACK)):
        right.plot(ratio["p"], ratio[f"dense_{steps}"], color=colour, label=f"T = {steps}")
        right.axhline(facts[f"ratio_{steps}"], color=colour, ls=":", lw=1)
    right.axhline(1, color=BLACK, lw=0.6)
    right.set(xscale="log", yscale="log", xlabel="features p", ylabel="Laplace over Gaussian")
    right.set_title("Noise: dense rows (lines), one entry (dots)")
    right.yaxis.set_major_formatter("{x:g}")
    _ticks(right, ratio["p"])
    right.legend()
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _say_of_dimension(facts: dict[str, float], p: int) -> str:
    def pair(name: str) -> str:
        return f"{facts[f'{name}_l1_{p}']:.2f} against {facts[f'{name}_l2_{p}']:.2f}"

    return (
        "The noise relative to what clipping leaves of a gradient, Laplace over Gaussian, is √2 "
        "b/σ times the ratio of the gradients' norms, ‖g‖₁/‖g‖₂ (right). For dense rows that is "
        "about √(2p/π), so L1 with Laplace noise falls behind as p grows (left): "
        f"{pair('dense_10')} after 10 steps at p = {p}. It is not the dimension as such: where "
        "each gradient has one entry, the ratio does not grow with p (middle). With one step "
        f"Laplace noise is then ahead, {pair('one_entry_1')} at p = {p}, and with 10 slightly "
        f"behind, {pair('one_entry_10')}. At equal norms the ratio is {facts['ratio_1']:.2f}, "
        f"{facts['ratio_10']:.2f} and {facts['ratio_100']:.2f} for 1, 10 and 100 steps: dense rows "
        f"of more than {facts['crossover_1']:.0f} features want Gaussian noise even for a single "
        "step, and any rows do for many."
    )


# Single records, as the slide has it.

SINGLE, SINGLE_DIMENSIONS = 1000, (2, 8, 32)  # records, of which a step takes one on average
SINGLE_RATES = (0.01, 0.1)


def slide_epsilon(epsilon: float, n_records: int, steps: int) -> float:
    """The slide's (ε/n) √(k ln(1/δ)) for k rounds at q = 1/n, with unit constant: not a bound."""
    return epsilon / n_records * math.sqrt(steps * math.log(1 / DELTA))


def priced_epsilon(epsilon: float, n_records: int, steps: int) -> float:
    """What the same rounds cost: Lap(2τ/ε) on a gradient of l1 norm τ, one record replaced."""
    event = step_event("l1", 1 / epsilon, 1 / n_records, steps, "replace-one")
    return float(account(event).epsilon(DELTA))


def single_records(seeds: int = 10) -> Picture:
    """Accuracy against the dimension where a step takes one record of n on average, for n steps."""
    settings = [
        ClippingSetting(
            p,
            generate(SINGLE, p),
            1.0,
            SINGLE,
            seeds=seeds,
            sampling_rate=1 / SINGLE,
            clips=(0.3,),
            rates=SINGLE_RATES,
        )
        for p in SINGLE_DIMENSIONS
    ]
    drawn = sweep(settings)
    facts = _facts(drawn, "single", SINGLE_DIMENSIONS)
    facts["ratio"] = noise_ratio(SINGLE, 1.0, 1 / SINGLE)
    facts["ratio_full"] = noise_ratio(SINGLE, 1.0)
    facts["crossover"] = float((facts["ratio"] * norm_ratio(np.arange(1, 1000)) < 1).sum())
    for k in (250, 1000):
        facts |= {f"slide_{k}": slide_epsilon(1.0, 1000, k)}
        facts |= {f"priced_{k}": priced_epsilon(1.0, 1000, k)}
    figure, (ax,) = panels(1, width=6.4, height=4.2)
    _draw(ax, drawn)
    ax.set(title=f"q = 1/n, n = k = {SINGLE}, ε = 1", xlabel="features p", ylim=(0.45, 0.9))
    ax.legend()
    caption = _say_of_single(facts)
    title = "Single records, q = 1/n"
    return Picture("single", title, caption, figure, facts, drawn, _single_claims(drawn, facts))


def _say_of_single(facts: dict[str, float]) -> str:
    return (
        f"One record of {SINGLE} in a step on average, {SINGLE} steps, dense rows. Sampling helps "
        "Laplace noise: at equal norms its deviation is "
        f"{facts['ratio']:.2f} times the Gaussian one, against {facts['ratio_full']:.2f} for as "
        "many full batches. So L1 clipping is ahead up to about "
        f"{facts['crossover']:.0f} dense features. The slide's rounds with Lap(2τ) on gradients of "
        f"l1 norm τ, n = 1000, δ = 1e-5: 250 cost {facts['priced_250']:.4f} where (ε/n)√(k "
        f"ln(1/δ)) says {facts['slide_250']:.4f}, 1000 cost {facts['priced_1000']:.4f} where it "
        f"says {facts['slide_1000']:.4f}."
    )


def _single_claims(drawn: dict[str, Any], facts: dict[str, float]) -> tuple[Claim, ...]:
    ahead = [
        estimate(two - one, among=2) for one, two in zip(drawn["l1"], drawn["l2"], strict=True)
    ]
    below = all(facts[f"priced_{k}"] <= facts[f"slide_{k}"] for k in (250, 1000))
    return (
        Claim(
            "(The slide's question.) With q = 1/n, L2 clipping with Gaussian noise learns better "
            "in high dimension, L1 clipping with Laplace noise in low.",
            f"the mean difference of accuracies is above 0 at p = {SINGLE_DIMENSIONS[-1]} and "
            f"below 0 at p = {SINGLE_DIMENSIONS[0]}, with intervals; fails if one is the other "
            "way round.",
            judge_all([judge_above(ahead[-1]), judge_below(ahead[0])]),
            f"L2 less L1: {ahead[-1]} and {ahead[0]}.",
        ),
        claim_exactly(
            "With q = 1/n, k rounds satisfy (O(ε/n √(k ln(1/δ))), δ)-DP.",
            "with the constant 1 it is no less than what 250 and 1000 rounds cost at n = 1000, "
            "ε = 1.",
            below,
            f"{facts['priced_250']:.4f} against {facts['slide_250']:.4f} and "
            f"{facts['priced_1000']:.4f} against {facts['slide_1000']:.4f}: a rate, not a bound.",
        ),
    )


def run(
    folder: Path, *, image_format: str = "svg", quick: bool = False, seeds: int | None = None
) -> list[Path]:
    """The files written: three figures, ``numbers.json`` and ``index.html``.

    Args:
        folder: where to.
        image_format: "svg" or "png".
        quick: half as many seeds.
        seeds: of data and noise; None for 10, or 5.

    """
    folder.mkdir(parents=True, exist_ok=True)  # first: a folder that cannot be is said at once
    n = seeds or (5 if quick else 10)
    with house_style():
        pictures = [against_epsilon(n), against_dimension(n), single_records(2 * n)]
    return save_all(
        pictures, folder, title=TITLE, introduction=INTRODUCTION, image_format=image_format
    )
