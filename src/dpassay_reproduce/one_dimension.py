"""The theoretical justification of Nasr notes, as an exact experiment: one dimension is tight.

An adversary that controls gradients sees, along its canary, N(0, σ²) in steps without it and
N(C, σ²) in steps with it; other coordinates are noise that is the same in both worlds. So one
coordinate is all, whatever the dimension, and the likelihood ratio of T numbers is the best that
any attack can do. Its error rates are drawn here, in thousands of trainings, beside what the
accountant allows. What remains between the attack and a published ε is then not the attack's: it is
Rényi DP's conversion to (ε, δ).
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dpassay.attacks.trajectories import LikelihoodRatio, along
from dpassay.bounds.bands import common_level
from dpassay.bounds.scores import limits_at_cuts, sort_scores
from dpassay.privacy import ApproxDP, account, calibrate, dp_sgd_event
from dpassay.privacy.accounting import AccountMethod
from dpassay.report.figures import BLACK, BLUE, ORANGE, RED, house_style, panels, save_all
from dpassay.types import FloatArray, PrivacyCurve
from dpassay_reproduce.claims import Claim, Picture, claim_exactly

DELTA, RATE, STEPS = 1e-5, 0.05, 100
EPSILONS = (1.0, 2.0, 4.0, 8.0)
TRAININGS = 20_000  # of each world
_CHUNK = 2000

TITLE = "DP-SGD in one dimension: the attack meets the accountant"
INTRODUCTION = (
    f"{STEPS} steps on Poisson batches of rate {RATE}, noise calibrated by privacy-loss "
    f"distributions to ε at δ = {DELTA:g}. Every training is one draw of {STEPS} noisy sums along "
    "the canary, scored by its exact likelihood ratio. The plotted numbers are in numbers.json."
)


@lru_cache(maxsize=8)
def noise_multiplier(epsilon: float) -> float:
    """The least noise that is proved to meet (epsilon, 1e-5)-DP."""
    return calibrate(
        lambda noise: dp_sgd_event(noise, RATE, STEPS), target=ApproxDP(epsilon, DELTA)
    )


@lru_cache(maxsize=16)
def curve(epsilon: float, method: AccountMethod) -> PrivacyCurve:
    """The privacy curve of the training with that noise, by one method of accounting."""
    return account(dp_sgd_event(noise_multiplier(epsilon), RATE, STEPS), method)


def losses(
    epsilon: float, trainings: int, seed: int = 0, dimension: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Log-likelihood ratios of trainings with the canary, and without it.

    In more than one dimension the canary is one coordinate of the gradient, and the sums are
    projected onto it.
    """
    noise, rng = noise_multiplier(epsilon), np.random.default_rng([seed, dimension])
    ratio = LikelihoodRatio(noise, RATE)
    canary = np.eye(dimension)[0]

    def scores(world: int) -> FloatArray:
        parts = []
        for start in range(0, trainings, _CHUNK):
            n = min(_CHUNK, trainings - start)
            present = world * (rng.random((n, STEPS)) < RATE)
            sums = noise * rng.normal(size=(n, STEPS, dimension))
            parts.append(ratio(along(sums + present[..., None] * canary, canary)))
        return np.concatenate(parts)

    return scores(1), scores(0)


def delta_of_losses(inside: FloatArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """δ(ε) = E (1 - e^(ε - L))+ over trainings with the canary, and the error of that mean.

    The accountant does not enter: it is the same quantity by another way.
    """
    values = -np.expm1(np.minimum(epsilon[:, None] - inside, 0.0))
    return values.mean(axis=1), values.std(axis=1) / np.sqrt(inside.size)


def rates_upper(
    inside: FloatArray, outside: FloatArray, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Upper limits on both error rates of the attack, at all thresholds together."""
    scores = sort_scores(inside, outside)
    level = common_level("dkw", *scores.sizes, 1 - confidence)
    _, fpr, fnr = limits_at_cuts(scores, "dkw", level)
    order = np.argsort(fpr)
    return fpr[order], np.minimum.accumulate(fnr[order])


def tradeoff_picture(epsilon: float = 4.0, trainings: int = TRAININGS) -> Picture:
    """Error rates of the attack, as seen and as proved, beside what two accountants allow."""
    inside, outside = losses(epsilon, trainings)
    cuts = np.quantile(np.concatenate([inside, outside]), np.linspace(0.001, 0.999, 200))
    seen = (outside[:, None] >= cuts).mean(axis=0), (inside[:, None] < cuts).mean(axis=0)
    fpr = np.linspace(0, 1, 201)
    allowed = {name: np.asarray(curve(epsilon, name).tradeoff(fpr)) for name in ("pld", "rdp")}
    proved = rates_upper(inside, outside)
    grid = np.linspace(0, 6, 61)
    drawn, error = delta_of_losses(inside, grid)
    exact = {name: np.asarray(curve(epsilon, name).delta(grid)) for name in ("pld", "rdp")}
    many = exact["pld"] * trainings > 100  # where a mean and its error say something
    facts = {
        "noise_multiplier": noise_multiplier(epsilon),
        "largest_gap_to_pld_in_errors": float(
            np.max(np.abs(drawn - exact["pld"])[many] / error[many])
        ),
        "area_pld": float(np.trapezoid(allowed["pld"], fpr)),
        "area_rdp": float(np.trapezoid(allowed["rdp"], fpr)),
        "area_seen": float(np.trapezoid(np.interp(fpr, seen[0][::-1], seen[1][::-1]), fpr)),
    }
    with house_style():
        figure, (left, right) = panels(2, width=5.0, height=4.2)
        _draw_tradeoff(left, fpr, allowed, seen, proved)
        _draw_deltas(right, grid, exact, drawn, error)
    curves = {"fpr": fpr, **allowed, "seen": seen, "epsilon": grid, "drawn": drawn}
    return Picture(
        "tradeoff",
        "The likelihood ratio meets the accountant's curve",
        "Left: no attack gets below the blue line, which is what privacy-loss distributions allow; "
        "the likelihood ratio of drawn trainings (dots) lies on it (and a little above on the "
        "right: the line allows for both orders of the worlds), and what these prove with 95 % "
        "confidence (orange) is near it. The line that Rényi DP allows is lower: there is no "
        "attack that reaches it. Right: δ(ε) as the mean of (1 - e^(ε - L))+ over the same "
        f"trainings is within {facts['largest_gap_to_pld_in_errors']:.1f} standard errors of the "
        "accountant wherever δ is seen a hundred times.",
        figure,
        facts,
        curves,
        (
            claim_exactly(
                "In one dimension the leakage is tight, analytically and empirically.",
                "δ(ε) of the drawn likelihood ratios is within 4 standard errors of the "
                "accountant's wherever it is seen a hundred times.",
                facts["largest_gap_to_pld_in_errors"] <= 4,
                f"within {facts['largest_gap_to_pld_in_errors']:.1f}.",
            ),
        ),
    )


def _draw_tradeoff(ax: Any, fpr: FloatArray, allowed: Any, seen: Any, proved: Any) -> None:
    ax.plot(fpr, allowed["pld"], color=BLUE, label="allowed, by loss distributions")
    ax.plot(fpr, allowed["rdp"], color=RED, ls="--", label="allowed, by Rényi DP")
    ax.plot(seen[0][::8], seen[1][::8], "o", ms=3, color=BLACK, label="likelihood ratio, drawn")
    ax.plot(*proved, color=ORANGE, lw=1, label="proved by it, 95 %")
    ax.set(xlabel="false-positive rate", ylabel="false-negative rate", title="Trade-off")
    ax.legend()


def _draw_deltas(ax: Any, grid: FloatArray, exact: Any, drawn: FloatArray, error: Any) -> None:
    ax.plot(grid, exact["pld"], color=BLUE, label="loss distributions")
    ax.plot(grid, exact["rdp"], color=RED, ls="--", label="Rényi DP")
    ax.errorbar(
        grid[::4], drawn[::4], 2 * error[::4], fmt="o", ms=3, color=BLACK, label="drawn, 2 errors"
    )
    ax.set(xlabel="ε", ylabel="δ", yscale="log", ylim=(1e-5, 1), title="Privacy curve")
    ax.legend()


def published_epsilons(epsilon: float) -> dict[str, float]:
    """What several accountants would publish for a training whose true epsilon is this."""
    renyi: Any = curve(epsilon, "rdp")
    orders, divergences = np.asarray(renyi.orders), np.asarray(renyi.epsilons)
    classic = float(np.min(divergences + np.log(1 / DELTA) / (orders - 1)))
    return {
        "loss distributions": float(curve(epsilon, "pld").epsilon(DELTA)),
        "Rényi, best conversion": float(renyi.epsilon(DELTA)),
        "Rényi, first conversion": classic,
    }


def gap_picture(trainings: int = TRAININGS, dimensions: tuple[int, ...] = (1, 10, 100)) -> Picture:
    """The epsilon that each accountant publishes, and the attack in more dimensions."""
    rows = {epsilon: published_epsilons(epsilon) for epsilon in EPSILONS}
    names = list(rows[EPSILONS[0]])
    facts = {f"{name} at {e:g}": value for e, row in rows.items() for name, value in row.items()}
    few = max(trainings // 20, 200)
    advantages = {d: _advantage(*losses(4.0, few, 1, d)) for d in dimensions}
    bound = float(curve(4.0, "pld").delta(0.0))
    with house_style():
        figure, (left, right) = panels(2, width=5.0, height=4.2)
        for name, colour in zip(names, (BLUE, ORANGE, RED), strict=True):
            left.plot(
                EPSILONS, [rows[e][name] / e for e in EPSILONS], "o-", color=colour, label=name
            )
        left.set(xscale="log", xlabel="true ε", ylabel="published ε over it")
        left.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        left.minorticks_off()
        left.legend()
        means, spread = np.array(list(advantages.values())).T
        right.errorbar(dimensions, means, 2 * spread, fmt="o", color=BLACK, label="drawn, 2 errors")
        right.axhline(bound, color=BLUE, label="the most that is possible")
        right.set(xscale="log", xlabel="dimension", ylabel="advantage, TPR - FPR", ylim=(0, None))
        right.legend()
    caption = (
        "Left: the gap between attack and accountant is the conversion of Rényi DP. Where the "
        f"truth is 4, its best conversion publishes {facts['Rényi, best conversion at 4']:.2f}, "
        f"the first one {facts['Rényi, first conversion at 4']:.2f}. Right: the canary on one "
        "coordinate is as plain in a hundred dimensions as in one."
    )
    facts["advantage_possible"] = bound
    curves = {"epsilons": EPSILONS, "published": rows, "advantages": advantages}
    claims = (_claim_conversion(facts), _claim_dimensions(advantages, bound))
    return Picture("gap", "Where the gap comes from", caption, figure, facts, curves, claims)


def _claim_conversion(facts: dict[str, float]) -> Claim:
    ratios = [facts[f"Rényi, best conversion at {e:g}"] / e for e in EPSILONS]
    return claim_exactly(
        "The conversion from RDP to differential privacy is tight within constant factors.",
        "at every ε its best form is at most twice the truth.",
        max(ratios) <= 2,
        f"it is {min(ratios):.2f} to {max(ratios):.2f} times the truth: tight is not exact.",
    )


def _claim_dimensions(advantages: dict[int, tuple[float, float]], bound: float) -> Claim:
    off = {d: abs(mean - bound) / error for d, (mean, error) in advantages.items()}
    said = ", ".join(f"{value:.1f} in {d}" for d, value in off.items())
    return claim_exactly(
        "The problem in high dimension can be reduced to one dimension.",
        "in every dimension the advantage of the canary on one coordinate is within 4 standard "
        "errors of the most that is possible.",
        max(off.values()) <= 4,
        f"errors away: {said}.",
    )


def _advantage(inside: FloatArray, outside: FloatArray) -> tuple[float, float]:
    """TPR - FPR where the ratio favours the canary, which is the best threshold, and its error."""
    tpr, fpr = (inside > 0).mean(), (outside > 0).mean()
    error = np.sqrt((tpr * (1 - tpr) + fpr * (1 - fpr)) / inside.size)
    return float(tpr - fpr), float(error)


def run(folder: Path, *, image_format: str = "svg", trainings: int = TRAININGS) -> list[Path]:
    """The files written: two figures, ``numbers.json`` and ``index.html``."""
    folder.mkdir(parents=True, exist_ok=True)  # first: a folder that cannot be is said at once
    pictures = [tradeoff_picture(trainings=trainings), gap_picture(trainings)]
    return save_all(
        pictures, folder, title=TITLE, introduction=INTRODUCTION, image_format=image_format
    )
