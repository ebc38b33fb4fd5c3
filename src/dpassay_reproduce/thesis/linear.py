"""Micali 2022, section 4.1: attacks on linear regression on the l1 ball, figures 4.1 to 4.8.

A repetition has its own training and test set, N records each, the same at every epsilon and for
the attack on the minimiser without privacy. The attack calls the N of 2N points with the lowest
losses members (algorithm 5, counted as it should be). What the document leaves open is in
:mod:`~dpassay_reproduce.thesis.regression`.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.attacks.counters import share_in_lower_half
from dpassay.privacy import excess_risk
from dpassay.report.figures import BLACK, GREEN, PURPLE, RED, house_style, panels
from dpassay.types import FloatArray
from dpassay_reproduce.claims import (
    FAILS,
    HOLDS,
    Verdict,
    compare_deviations,
    estimate,
    estimate_difference,
    estimate_rows,
    judge_above,
    judge_all,
    judge_below,
    judge_most,
    judge_within,
)
from dpassay_reproduce.printed.counters import printed_sorted_half
from dpassay_reproduce.thesis.captions import SEVERAL, mostly_below_plain
from dpassay_reproduce.thesis.frame import (
    BAND,
    Accuracies,
    Claim,
    Picture,
    Setting,
    draw_accuracies,
)
from dpassay_reproduce.thesis.noise import (
    SELECTION,
    gradient_deviations,
    selection_scales,
    step_counts,
)
from dpassay_reproduce.thesis.regression import (
    FEATURES,
    L0,
    L2,
    RADIUS,
    Sample,
    frank_wolfe,
    sample,
    sgd,
    without_privacy,
)

NAMES = {"sgd": "DP-SGD", "fw": "DP-FW"}


# Experiments.


@dataclass(frozen=True, eq=False)
class Experiment:
    """What one algorithm did at every epsilon; arrays are (epsilons, repetitions).

    Attributes:
        seen: the accuracies of the attack.
        excess: training loss less its minimum on the ball.
        distance: ||w - w*||_2.
        bound: the theorem's upper bound on the expected excess, (epsilons,).
        untrained: the excess of w = 0, averaged over repetitions.
        printed: the average of what algorithm 5 prints, if the setting is literal, else NaN.

    """

    seen: Accuracies
    excess: FloatArray
    distance: FloatArray
    bound: FloatArray
    untrained: float
    printed: float

    def curves(self) -> dict[str, Any]:
        """The plotted numbers, for ``numbers.json``."""
        return self.seen.curves() | {
            "excess_loss": self.excess,
            "distance": self.distance,
            "bound": self.bound,
        }


@functools.cache
def experiment(
    setting: Setting, algorithm: str, n_records: int, top: float, points: int, rerun: int = 0
) -> Experiment:
    """Train at epsilons top/points, 2 top/points, … top, and attack; computed once."""
    epsilons = top * np.arange(1, points + 1) / points
    steps = step_counts(epsilons.tolist(), n_records)
    data = sample(setting, n_records, rerun)
    rng = setting.rng(n_records, rerun, list(NAMES).index(algorithm) + 1, points)
    W, bound = _TRAIN[algorithm](setting, data, epsilons, steps, rng)
    best = without_privacy(data)
    seen = Accuracies(
        NAMES[algorithm],
        epsilons,
        share_in_lower_half(data.losses(W)).T,
        share_in_lower_half(data.losses(best))[:, 0],
        np.array([setting.ceiling(e, n_records) for e in epsilons.tolist()]),
    )
    least = data.training_losses(best)
    excess = data.training_losses(W) - least
    untrained = float((data.training_losses(np.zeros_like(best)) - least).mean())
    distance = np.linalg.norm(W - data.truth, axis=2)
    printed = _average_printed(data.losses(W)) if setting.literal else math.nan
    return Experiment(seen, excess.T, distance.T, bound, untrained, printed)


def _by_sgd(
    setting: Setting, data: Sample, epsilons: FloatArray, steps: Any, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The weights, and the bound of theorem 3."""
    deviations = gradient_deviations(setting, epsilons, data.n_records, lipschitz=L2)
    known = {"lipschitz": L2, "n_features": 1 + FEATURES, "diameter": 2 * RADIUS}
    bound = [
        excess_risk.sgd_excess_risk(T, noise=float(sigma), **known)
        for T, sigma in zip(steps.tolist(), deviations, strict=True)
    ]
    return sgd(data, steps, deviations, rng), np.array(bound)


def _by_frank_wolfe(
    setting: Setting, data: Sample, epsilons: FloatArray, steps: Any, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The weights, and the bound of theorem 27."""
    noise = SELECTION[setting.literal]
    scales = selection_scales(setting, epsilons, data.n_records, lipschitz=L0, radius=RADIUS)
    errors = [excess_risk.selection_error(noise, float(s), 2 * (1 + FEATURES)) for s in scales]
    bound = [
        excess_risk.frank_wolfe_excess_risk(
            T, selection_error=error, smoothness=1.0, diameter=2 * RADIUS
        )
        for T, error in zip(steps.tolist(), errors, strict=True)
    ]
    return frank_wolfe(data, steps, scales, noise, rng), np.array(bound)


_TRAIN = {"sgd": _by_sgd, "fw": _by_frank_wolfe}


def _average_printed(losses: FloatArray) -> float:
    """The average of algorithm 5's counter over N, as it is printed; no accuracy."""
    n = losses.shape[-1] // 2
    rows = losses.reshape(-1, 2 * n)
    return float(np.mean([printed_sorted_half(r[:n], r[n:]) for r in rows]))


# Figures.


def figure_1(setting: Setting) -> Picture:
    """DP-SGD, N = 1000: averages; highest and lowest; losses and the theorem's bound."""
    found = experiment(setting, "sgd", 1000, 1.0, 20)
    with house_style():
        figure, (left, middle, right) = panels(3, width=4.2, height=4.0)
        draw_accuracies(left, found.seen, extremes=False, fit=False)
        draw_accuracies(middle, found.seen, averages=False, fit=False)
        _draw_losses(right, found)
        left.set_title("Averages")
        middle.set_title("Highest and lowest")
        _legend_below(figure, left)
    claims = (_most_in_band(found), _most_below(found), _below_bound(found))
    return _picture("4.1", "DP-SGD, N = 1000, ε up to 1", figure, claims, {"sgd": found})


def figure_2(setting: Setting) -> Picture:
    """Figure 4.1 in one panel, with the log fit."""
    found = experiment(setting, "sgd", 1000, 1.0, 20)
    claims = (_log_trend(found),)
    title = "DP-SGD, N = 1000, with highest, lowest and log fit"
    return _picture("4.2", title, _one_panel(found), claims, {"sgd": found})


def figure_3(setting: Setting) -> Picture:
    """DP-SGD with N = 10 000: accuracies and losses."""
    found = experiment(setting, "sgd", 10_000, 1.0, 20)
    fewer = experiment(setting, "sgd", 1000, 1.0, 20)
    figure = _with_losses(found)
    claims = (_claim_shrinkage(found, fewer), _below_bound(found))
    return _picture("4.3", "DP-SGD, N = 10 000, ε up to 1", figure, claims, {"sgd": found})


def figure_4(setting: Setting) -> Picture:
    """Figure 4.3 with the log fit. (The caption says N = 1000, the text N = 10 000.)"""
    found = experiment(setting, "sgd", 10_000, 1.0, 20)
    title = "DP-SGD, N = 10 000, with highest, lowest and log fit"
    return _picture("4.4", title, _one_panel(found), (_converges(found),), {"sgd": found})


def figure_5(setting: Setting) -> Picture:
    """DP-FW with N = 1000: accuracies and losses."""
    found = experiment(setting, "fw", 1000, 1.0, 20)
    other = experiment(setting, "sgd", 1000, 1.0, 20)
    figure = _with_losses(found, other)
    claims = (
        _fluctuates(found, 0.2, "The attack seems to be stable, except for small ε."),
        _slower(found, other),
        _below_bound(found),
    )
    drawn = {"fw": found, "sgd": other}
    return _picture("4.5", "DP-FW, N = 1000, ε up to 1", figure, claims, drawn)


def figure_6(setting: Setting) -> Picture:
    """DP-FW up to epsilon = 5."""
    found = experiment(setting, "fw", 1000, 5.0, 25)
    claims = (_level(found, 3.0),)
    return _picture("4.6", "DP-FW, N = 1000, ε up to 5", _one_panel(found), claims, {"fw": found})


def figure_7(setting: Setting) -> Picture:
    """DP-FW up to epsilon = 10."""
    found = experiment(setting, "fw", 1000, 10.0, 50)
    claims = (
        _level(found, 5.5),
        _fluctuates(found, 1.0, "Small values of ε yield larger fluctuations."),
    )
    return _picture("4.7", "DP-FW, N = 1000, ε up to 10", _one_panel(found), claims, {"fw": found})


def figure_8(setting: Setting) -> Picture:
    """Figure 4.6 once more, with other data and noise."""
    found = experiment(setting, "fw", 1000, 5.0, 25, 1)
    before = experiment(setting, "fw", 1000, 5.0, 25)
    claims = (_less_evident(found, before), _most_below(found))
    title = "DP-FW, N = 1000, ε up to 5, run again"
    return _picture("4.8", title, _one_panel(found), claims, {"fw": found})


FIGURES: dict[str, Callable[[Setting], Picture]] = {
    "4.1": figure_1,
    "4.2": figure_2,
    "4.3": figure_3,
    "4.4": figure_4,
    "4.5": figure_5,
    "4.6": figure_6,
    "4.7": figure_7,
    "4.8": figure_8,
}


def _picture(
    number: str,
    title: str,
    figure: Any,
    claims: tuple[Claim, ...],
    drawn: dict[str, Experiment],
) -> Picture:
    found = next(iter(drawn.values()))
    facts = {
        "non_private": float(found.seen.non_private.mean()),
        "mean_accuracy": float(found.seen.mean.mean()),
        "log_fit_a": found.seen.fit[0],
        "log_fit_b": found.seen.fit[1],
        "mean_excess_at_last": float(found.excess[-1].mean()),
        "excess_of_zero": found.untrained,
    }
    if not math.isnan(found.printed):
        facts["printed_counter"] = found.printed
    curves = {name: each.curves() for name, each in drawn.items()}
    return Picture(number, f"Figure {number}: {title}", _say(found), figure, facts, curves, claims)


def _say(found: Experiment) -> str:
    seen = found.seen
    text = (
        f"The attack on {seen.label} is right {_percent(seen.mean.mean())} of the time on average "
        f"over ε, on the minimiser without privacy {_percent(seen.non_private.mean())}. The excess "
        f"loss at ε = {seen.epsilons[-1]:g} is {found.excess[-1].mean():.3g}, that of w = 0, which "
        f"learned nothing, {found.untrained:.3g}."
    )
    if math.isnan(found.printed):
        return text
    return f"{text} Algorithm 5's counter as printed gives {_percent(found.printed)}."


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _one_panel(found: Experiment) -> Any:
    with house_style():
        figure, (ax,) = panels(1, width=7.0, height=4.2)
        draw_accuracies(ax, found.seen)
        _legend_below(figure, ax)
    return figure


def _with_losses(found: Experiment, other: Experiment | None = None) -> Any:
    with house_style():
        figure, (left, right) = panels(2, width=5.2, height=4.2)
        draw_accuracies(left, found.seen)
        _draw_losses(right, found, other)
        _legend_below(figure, left)
    return figure


def _legend_below(figure: Any, ax: Any) -> None:
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower left", ncols=5)


def _draw_losses(ax: Any, found: Experiment, other: Experiment | None = None) -> None:
    x = found.seen.epsilons
    lines = {
        "theorem's bound": (found.bound, RED),
        "excess loss": (found.excess.mean(axis=1), GREEN),
        "‖w - w*‖": (found.distance.mean(axis=1), PURPLE),
    }
    for label, (y, colour) in lines.items():
        ax.plot(x, y, "o-", color=colour, ms=3, lw=1, label=label)
    if other is not None:
        label = f"excess loss of {other.seen.label}"
        ax.plot(x, other.excess.mean(axis=1), "s:", color=BLACK, ms=3, lw=1, label=label)
    ax.axhline(found.untrained, color=GREEN, lw=1, ls="--", label="excess loss of w = 0")
    ax.set(yscale="log", xlabel="ε", title=f"Losses of {found.seen.label}", xlim=(0, None))
    ax.legend(loc="center right", bbox_to_anchor=(1, 0.63))


# What the captions claim. Each says what was measured, whichever way it went.


def _most_in_band(found: Experiment) -> Claim:
    inside: list[Verdict] = [
        judge_within(e, 0.5 - BAND, 0.5 + BAND) for e in map(estimate, found.seen.values)
    ]
    return Claim(
        f"Most averages lie within 50 ± {100 * BAND:g} %.",
        f"more than half of the averages are within, with their intervals; {SEVERAL}",
        judge_most(inside),
        f"{_counts(inside, 'inside', 'outside')}.",
    )


def _counts(verdicts: list[Verdict], holds: str, fails: str) -> str:
    n = len(verdicts)
    return (
        f"{verdicts.count(HOLDS)} of {n} are {holds} and {verdicts.count(FAILS)} {fails}, "
        "intervals included"
    )


def _most_below(found: Experiment) -> Claim:
    return mostly_below_plain(
        "Most averages are below the attack on the model without privacy.", found.seen
    )


def _below_bound(found: Experiment) -> Claim:
    ratio = estimate_rows(found.excess / found.bound[:, None])
    values = [each.value for each in ratio]
    return Claim(
        "The computed loss is below the theoretical bound.",
        "at every ε the interval of the expected excess loss is below; fails if one is above.",
        judge_all(judge_below(each, 1.0) for each in ratio),
        f"the average excess loss is {min(values):.2g} to {max(values):.2g} of the bound.",
    )


def _log_trend(found: Experiment) -> Claim:
    b = estimate(found.seen.slopes)
    return Claim(
        "The accuracy rises with ε like a logarithm.",
        "the interval of b in a + b log(ε) is above 0; fails if it is below.",
        judge_above(b),
        f"b is {b.percent(2)}.",
    )


def _claim_shrinkage(found: Experiment, fewer: Experiment) -> Claim:
    here, there = found.seen.spread.mean(), fewer.seen.spread.mean()
    less = compare_deviations(fewer.seen.values, found.seen.values)
    return Claim(
        "With more points the accuracies are shrunk towards 50 %.",
        "repetitions deviate less from their averages than at N = 1000; fails if more.",
        judge_above(less),
        f"highest less lowest is {_percent(here)} on average, against {_percent(there)} for "
        f"N = 1000; mean deviations fall by {less.percent(2)}.",
    )


def _converges(found: Experiment) -> Claim:
    """Distances are signed by their averages, so that those of repetitions average to them."""
    seen, x = found.seen, np.log(found.seen.epsilons[[0, -1]])
    b, a = np.polyfit(np.log(seen.epsilons), seen.values, 1)
    gaps = seen.non_private - (a + b * x[:, None])
    gaps *= np.sign(gaps.mean(axis=1, keepdims=True))
    nearer = estimate(gaps[0] - gaps[1])
    first, last = gaps.mean(axis=1)
    return Claim(
        "The log fit converges to the attack without privacy as ε gets larger.",
        "it is nearer at the largest ε than at the smallest; fails if it is farther.",
        judge_above(nearer),
        f"it is {_percent(first)} away at ε = {seen.epsilons[0]:g} and {_percent(last)} at "
        f"ε = {seen.epsilons[-1]:g}, nearer by {nearer.percent(2)}.",
    )


def _fluctuates(found: Experiment, small: float, text: str) -> Claim:
    """Deviations of single trainings, the average of their repetition (its data) taken off."""
    seen = found.seen
    low = seen.epsilons <= small * (1 + 1e-9)
    luck = seen.values - seen.values.mean(axis=0)
    more = compare_deviations(luck[low], luck[~low])
    return Claim(
        text,
        f"trainings deviate more up to ε = {small:g} than above, on the same data; fails if less.",
        judge_above(more),
        f"they deviate by {_percent(luck[low].std())} up to ε = {small:g} and by "
        f"{_percent(luck[~low].std())} above; the mean deviation is larger by {more.percent(2)}.",
    )


def _slower(found: Experiment, other: Experiment) -> Claim:
    falls = [1 - e.excess[-1] / e.excess[0] for e in (found, other)]
    less = estimate(falls[1] - falls[0])
    return Claim(
        "The loss does not decrease as fast as it did with DP-SGD.",
        "from the smallest to the largest ε it falls by a smaller share, on the same data; fails "
        "if by a larger one.",
        judge_above(less),
        f"it falls by {_percent(falls[0].mean())}, with DP-SGD by {_percent(falls[1].mean())}; "
        f"the difference is {less.percent(2)}.",
    )


def _level(found: Experiment, middle: float) -> Claim:
    """Repetitions share their data over epsilon: the change of each is free of their luck."""
    x, values = found.seen.epsilons, found.seen.values
    early = (x > 1 + 1e-9) & (x <= middle + 1e-9)
    late = x > middle + 1e-9
    change = estimate(values[late].mean(axis=0) - values[early].mean(axis=0))
    return Claim(
        "The attack is stable from ε = 1 on.",
        f"from ε in (1, {middle:g}] to ({middle:g}, {x[-1]:g}] the accuracy changes by half a per "
        "cent at most; fails if by more.",
        judge_within(change, -0.005, 0.005),
        f"it changes by {change.percent(2)}.",
    )


def _less_evident(found: Experiment, before: Experiment) -> Claim:
    here = estimate(found.seen.slopes)
    less = estimate_difference(before.seen.slopes, found.seen.slopes)
    return Claim(
        "The log-trend is still visible, but less evident than in figure 4.6.",
        "b in a + b log(ε) is above 0 and below that of figure 4.6; fails if one of both is not.",
        judge_all([judge_above(here), judge_above(less)]),
        f"b is {here.percent(2)} here, and smaller than there by {less.percent(2)}.",
    )
