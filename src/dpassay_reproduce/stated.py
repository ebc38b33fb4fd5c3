"""What the Nasr notes state of the six adversaries, each judged by what was played.

The notes give single numbers from 1000 trainings a world. Numbers that follow from counts are
computed again; orders are judged by areas under ROC curves, which need far fewer trainings than
bounds do; and of 3.6 at epsilon = 4 it is simulated what can give it.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from scipy import special

from dpassay.adversaries import ADVERSARIES, PlayedGame
from dpassay.bounds import auc, lower_bound_from_counts
from dpassay.privacy import ApproxDP, calibrate
from dpassay.privacy.events import Gaussian
from dpassay.types import FloatArray
from dpassay_reproduce.claims import (
    CHANCE,
    UNDECIDED,
    Claim,
    Estimate,
    claim_exactly,
    decide,
    judge_above,
    judge_within,
)

Games = Mapping[tuple[str, float], PlayedGame]
DELTA, TRIALS, RUNS = 1e-5, 1000, 4000
COIN = 0.02  # around an area of 0.5


def claim_orders(games: Games) -> tuple[Claim, ...]:
    """Whether each adversary tells more than the one before it, on the mean over epsilon.

    Areas under the ROC curve with DeLong's deviations; all intervals hold together at 99 %.
    (Adversaries play with the same coins, and the second and third look at the same trainings:
    differences are known better than is taken here.)
    """
    pairs = list(pairwise(ADVERSARIES))
    return tuple(_claim_order(games, *pair, among=len(pairs)) for pair in pairs)


def _claim_order(games: Games, weak: str, strong: str, among: int = 1) -> Claim:
    low, high = (estimate_area(games, name) for name in (weak, strong))
    more = compare_areas(games, weak, strong, among)
    return Claim(
        f"{strong} shows more than {weak}.",
        "the difference of their areas under the ROC curve, averaged over ε, is above 0, with its "
        "interval; fails if it is below.",
        judge_above(more),
        f"{high.value:.3f} against {low.value:.3f}, more by {more}.",
    )


def compare_areas(games: Games, weak: str, strong: str, among: int = 1) -> Estimate:
    """By how much the area of one adversary is above that of another, averaged over epsilon."""
    low, high = (estimate_area(games, name, among) for name in (weak, strong))
    reach = math.hypot(low.high - low.value, high.high - high.value)
    value = high.value - low.value
    return Estimate(value, value - reach, value + reach)


def estimate_area(games: Games, name: str, among: int = 1) -> Estimate:
    """The area under an adversary's ROC curve, averaged over epsilon; 0.5 is a coin."""
    row = [
        auc(*game.evidence.sides(), confidence=0.6827, method="delong")  # one deviation
        for (who, _), game in games.items()
        if who == name
    ]
    value = float(np.mean([area.value for area in row]))
    deviation = math.hypot(*((area.upper - area.lower) / 2 for area in row)) / len(row)
    reach = -float(special.ndtri(CHANCE / (2 * among))) * deviation
    return Estimate(value, value - reach, value + reach)


def claim_results(games: Games, bounds: Mapping[tuple[str, float], float]) -> tuple[Claim, ...]:
    """The results of the notes beside those of the same adversaries here.

    Args:
        games: by adversary and epsilon.
        bounds: the lower bounds that assume nothing, likewise.

    """
    return (
        _claim_chance(games),
        _claim_order(games, "static poison", "adaptive poison"),
        _claim_marginal(games),
        _claim_number(bounds, "gradient", 1.0, 0.3),
        _claim_number(bounds, "intermediate poison", 2.0, 0.25),
        _claim_number(bounds, "adaptive poison", 2.0, 0.37),
        _claim_number(bounds, "malicious data", 4.0, 3.6),
        _claim_choice(games),
        claim_counts(),
        claim_malicious(),
    )


def _claim_chance(games: Games) -> Claim:
    area = estimate_area(games, "API access")
    return Claim(
        "On MNIST the adversary with API access does not fare better than a random guess.",
        f"its area under the ROC curve, averaged over ε, is 0.5 ± {COIN:g}, with its interval; "
        "fails if the interval is outside.",
        judge_within(area, 0.5 - COIN, 0.5 + COIN),
        f"it is {area}.",
    )


def _claim_marginal(games: Games) -> Claim:
    more = compare_areas(games, "gradient", "malicious data")
    least = compare_areas(games, "adaptive poison", "gradient")
    return Claim(
        "A malicious data set is only marginally more effective than a malicious gradient.",
        "it adds less to the area under the ROC curve than the gradient adds to adaptive poison, "
        "intervals apart; fails if it adds more.",
        decide(more.high < least.low, more.low > least.high),
        f"the data set adds {more}, the gradient {least}.",
    )


def _claim_number(
    bounds: Mapping[tuple[str, float], float], name: str, epsilon: float, stated: float
) -> Claim:
    found = bounds.get((name, epsilon))
    verdict = UNDECIDED if found is None else decide(found >= stated, False)
    said = "it was not played" if found is None else f"it shows {found:.2f}"
    return Claim(
        f"At ε = {epsilon:g} the adversary of {name} shows {stated:g}.",
        "its lower bound here, which assumes nothing, is that or more; a smaller one decides "
        "nothing, as more trainings may show more.",
        verdict,
        f"{said}.",
    )


def _claim_choice(games: Games) -> Claim:
    """The second half of the third adversary's choosing: which of the two did better."""
    chosen = {e: g.distinguisher for (name, e), g in games.items() if name == "intermediate poison"}
    as_stated = [("max" in how) == (e <= 2) for e, how in chosen.items()]
    said = ", ".join(f"{how} at ε = {e:g}" for e, how in chosen.items())
    return Claim(
        "Of all models' losses the maximum works better for ε up to 2, the mean above.",
        "the better one of trials made to choose is as stated at every ε; fails if at none.",
        decide(all(as_stated), not any(as_stated)),
        f"chosen were {said}.",
    )


def claim_counts() -> Claim:
    """The notes' 0.31 from a true-positive rate of .017 and a false-positive rate of .002."""
    found = lower_bound_from_counts(tp=17, fn=983, fp=2, tn=998, delta=DELTA).epsilon
    return claim_exactly(
        "17 and 2 of 1000 guessed to be members show ε = 0.31 at 95 %.",
        "Clopper-Pearson at 95 % gives it within 0.02.",
        abs(found - 0.31) <= 0.02,
        f"it gives {found:.3f}.",
    )


def claim_malicious() -> Claim:
    """Whether 3.6 at epsilon = 4 is within what 1000 trials of a Gaussian trade-off can show."""
    gauss, coin = simulate_gaussian(4.0), simulate_response(4.0)
    share = float((gauss >= 3.6).mean())
    return Claim(
        "At ε = 4 the last adversary shows 3.6 with 1000 trials in each world.",
        f"of {RUNS} simulated audits of a Gaussian trade-off of (4, 1e-5), DP-SGD's limit, with "
        "the best fixed threshold and Clopper-Pearson at 95 %, one in a hundred or more reach 3.6; "
        "fails if none does.",
        decide(share >= CHANCE, share == 0),
        f"{100 * share:.2g} % do: their mean is {gauss.mean():.2f} and the largest "
        f"{gauss.max():.2f}. Randomised response at ε = 4 would give it: {coin.mean():.2f} on "
        "average.",
    )


def simulate_gaussian(epsilon: float, seed: int = 0) -> FloatArray:
    """Bounds of audits of the Gaussian mechanism at (epsilon, 1e-5), with the best threshold."""
    noise = calibrate(Gaussian, target=ApproxDP(epsilon, DELTA))
    shift, rng = 1 / noise, np.random.default_rng(seed)

    def play(threshold: float, runs: int) -> FloatArray:
        rates = special.ndtr(shift - threshold), special.ndtr(-threshold)
        return _bound(*(rng.binomial(TRIALS, rate, runs) for rate in rates))

    best = max(np.linspace(-4, 4 + shift, 161), key=lambda t: float(play(t, 400).mean()))
    return play(float(best), RUNS)


def simulate_response(epsilon: float, seed: int = 0) -> FloatArray:
    """Bounds of audits of randomised response at epsilon."""
    rng, truth = np.random.default_rng(seed), float(special.expit(epsilon))
    return _bound(rng.binomial(TRIALS, truth, RUNS), rng.binomial(TRIALS, 1 - truth, RUNS))


def _bound(tp: FloatArray, fp: FloatArray) -> FloatArray:
    """Clopper-Pearson's lower bounds at 95 %, half of the error for each of both rates."""
    level = 0.05 / 2
    tpr = np.where(tp > 0, special.betaincinv(np.maximum(tp, 1), TRIALS - tp + 1, level), 0)
    rest = np.maximum(TRIALS - fp, 1)
    fpr = np.where(fp < TRIALS, special.betaincinv(fp + 1, rest, 1 - level), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = np.log((tpr - DELTA) / fpr), np.log((1 - fpr - DELTA) / (1 - tpr))
    return np.fmax(np.fmax(one, other), 0)  # NaN where a rate leaves nothing
