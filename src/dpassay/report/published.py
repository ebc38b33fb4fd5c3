"""The picture of a published claim that an audit refuted, which the tour and the slides show."""

from typing import Any

import numpy as np

from dpassay._special.quantiles import binomial_upper
from dpassay.bounds.counts import epsilon_of_rates
from dpassay.privacy import ApproxDP
from dpassay.report.figures import GREEN, PURPLE, RED, Picture, panels
from dpassay.report.numbers import down
from dpassay.types import FloatArray

__all__ = ["published_claim"]

Numbers = dict[str, Any]

TITLE = "A published claim of (0.21, 1e-5)-DP, refuted"
CAPTION = (
    "100 000 trainings with and as many without a canary (Tramèr et al. 2022): FPR 0.174 %, "
    "FNR 95.078 %. At that FNR the claim needs an FPR of at least 3.98 %. The box holds the "
    "true rates with confidence 1 - 2e-10; its upper right corner bounds both with 1 - 1e-10 "
    "and needs ε of at least 2.7949. A bug was found and the paper withdrawn."
)


def published_claim() -> Picture:
    """The attack of Tramèr et al. 2022 on backpropagation clipping, against the claimed region."""
    claim, facts = ApproxDP(0.21, 1e-5), _facts()
    figure, (left, right) = panels(2, width=4.8, height=4.4)
    _draw_region(left, claim, np.linspace(0, 1, 401))
    left.plot([facts["fpr"]], [facts["fnr"]], "o", color=RED, label="the attack", clip_on=False)
    left.set(title="The claim: (0.21, 1e-5)-DP", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _draw_region(right, claim, np.linspace(0, 0.06, 401))
    _draw_box(right, facts)
    right.set(title="Its corner", xlim=(0, 0.06), ylim=(0.925, 1.0))
    for ax in (left, right):
        ax.set(xlabel="false-positive rate", ylabel="false-negative rate")
        ax.legend(loc="upper right")
    x = np.linspace(0, 1, 201)
    return Picture(
        "debugging", TITLE, CAPTION, figure, facts, {"fpr": x, "claim": claim.tradeoff(x)}
    )


def _facts() -> Numbers:
    trials, delta, level = 100_000, 1e-5, 5e-11  # of each limit
    facts: Numbers = {"claimed_epsilon": 0.21, "delta": delta}
    for name, errors in (("fpr", 174), ("fnr", 95_078)):
        facts[name] = errors / trials
        facts[f"{name}_upper"] = float(binomial_upper(errors, trials, level))
        facts[f"{name}_lower"] = 1 - float(binomial_upper(trials - errors, trials, level))
    facts["least_fpr"] = ApproxDP(0.21, delta).tradeoff(facts["fnr"])
    facts["epsilon_lower"] = float(epsilon_of_rates(facts["fpr_upper"], facts["fnr_upper"], delta))
    return facts


def _draw_box(ax: Any, facts: Numbers) -> None:
    fits = ApproxDP(facts["epsilon_lower"], facts["delta"])
    fits.plot(ax, color=PURPLE, ls="--", label=f"least that fits: ε = {facts['epsilon_lower']:.3f}")
    left, right = facts["fpr_lower"], facts["fpr_upper"]
    low, high = facts["fnr_lower"], facts["fnr_upper"]
    box = [left, right, right, left], [low, low, high, high]
    ax.fill(*box, color=RED, alpha=0.35, lw=0, label="Clopper-Pearson box")
    ax.plot([facts["fpr"]], [facts["fnr"]], "o", color=RED, ms=4)
    end = (facts["least_fpr"], facts["fnr"])
    ax.annotate("", end, (right, facts["fnr"]), arrowprops={"arrowstyle": "<->"})
    words = f"the claim needs FPR ≥ {down(facts['least_fpr'], 4)}"
    ax.text(0.022, facts["fnr"] - 0.0012, words, ha="center", va="top")


def _draw_region(ax: Any, claim: ApproxDP, x: FloatArray) -> None:
    ax.fill_between(x, claim.tradeoff(x), 1, color=GREEN, alpha=0.15, lw=0)
    ax.plot(x, claim.tradeoff(x), color=GREEN, label="allowed: on or above this line")
