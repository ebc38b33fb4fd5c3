"""How many trials the sequential test needs, how often it errs, and what it costs.

Run with ``python -m benchmarks.sequential`` (about two hours of one core; ``--quick``: five
minutes).

- power: rounds (pairs of trainings, or single trainings for "coin") until a false claim is refuted,
  median and 80 % quantile over seeds, at alpha = 0.05 and 1e-6, beside goals set from a prototype.
- nulls: of simulated audits of mechanisms that just meet their claim, watched after every trial,
  how many are refuted at 0.05, with a 99 % interval for the rate.
- bounds: the median lower bound on epsilon after some trials, and how often it reaches the truth.
- cost: CPU microseconds per trial, for one claim and for a family of 40.
"""

import copy
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from dpassay.bounds.families import Family
from dpassay.bounds.sequential import ConfidenceSequence, SequentialTest
from dpassay.privacy import GDP, ApproxDP, PureDP, gaussian
from dpassay.types import PrivacyCurve

Score = Callable[[np.random.Generator, np.ndarray], np.ndarray]
DELTA = 1e-5
ALPHAS = (0.05, 1e-6)


def mu(epsilon: float) -> float:
    return float(np.ravel(gaussian.mu_of(np.array([epsilon]), np.array([DELTA])))[0])


def normal(shift: float) -> Score:
    return lambda rng, worlds: rng.normal(size=worlds.size) + shift * worlds


def laplace(epsilon: float) -> Score:
    return lambda rng, worlds: rng.laplace(size=worlds.size) / epsilon + worlds


def perfect(rng: np.random.Generator, worlds: np.ndarray) -> np.ndarray:
    return rng.normal(size=worlds.size) + 100 * worlds


def leaky(share: float, shift: float) -> Score:
    def score(rng: np.random.Generator, worlds: np.ndarray) -> np.ndarray:
        seen = rng.random(worlds.size) < share
        return rng.normal(size=worlds.size) + shift * worlds + 100 * worlds * seen

    return score


def response(epsilon: float, delta: float = 0.0) -> Score:
    """Randomized response, with probability delta the truth for all to see."""

    def score(rng: np.random.Generator, worlds: np.ndarray) -> np.ndarray:
        honest = rng.random(worlds.size) < special.expit(epsilon)
        answers = np.where(honest, worlds, 1 - worlds).astype(float)
        seen = rng.random(worlds.size) < delta
        return np.where(seen, np.where(worlds == 1, np.inf, -np.inf), answers)

    return score


# What is attacked, what is claimed, the longest audit in pairs, and goals in pairs: median and
# 80 % quantile at 0.05, then at 1e-6. For coins they are doubled, since a pair is two trainings.
FALSE: dict[str, tuple[Score, PrivacyCurve, int, tuple[float, ...]]] = {
    "epsilon 4 against 2": (normal(mu(4)), GDP(mu(2)), 2000, (115, 195, 440, 570)),
    "epsilon 8 against 4": (normal(mu(8)), GDP(mu(4)), 1000, (52, 82, 180, 240)),
    "epsilon 4 against 1": (normal(mu(4)), GDP(mu(1)), 1000, (56, 82, 185, 240)),
    "epsilon 2 against 1": (normal(mu(2)), GDP(mu(1)), 4000, (290, 530, 1350, 1750)),
    "perfect against (0.21, 1e-5)": (perfect, ApproxDP(0.21, DELTA), 100, (7, np.inf, 17, np.inf)),
    "perfect against pure 1": (perfect, PureDP(1.0), 100, (10, np.inf, 29, np.inf)),
    "Laplace 2 against pure 1": (laplace(2.0), PureDP(1.0), 1000, (60, 95, 220, 280)),
    "10 % leak on claimed 2": (leaky(0.1, mu(2)), GDP(mu(2)), 3000, (np.inf,) * 4),
    "epsilon 4 against (1, 1e-5)": (normal(mu(4)), ApproxDP(1.0, DELTA), 3000, (np.inf,) * 4),
}
TRUE: dict[str, tuple[Score, PrivacyCurve]] = {
    "Gaussian 1": (normal(mu(1)), GDP(mu(1))),
    "Gaussian 2": (normal(mu(2)), GDP(mu(2))),
    "Gaussian 4": (normal(mu(4)), GDP(mu(4))),
    "Laplace, pure 1": (laplace(1.0), PureDP(1.0)),
    "response, pure 1": (response(1.0), PureDP(1.0)),
    "response, (0.21, 1e-5)": (response(0.21, DELTA), ApproxDP(0.21, DELTA)),
}


def worlds_of(rng: np.random.Generator, form: str, trials: int) -> np.ndarray:
    return rng.integers(0, 2, trials) if form == "coin" else np.arange(trials) % 2


def stopping_rounds(fresh: SequentialTest, score: Score, form: str, pairs: int, seed: int) -> list:
    """The first round at which wealth reaches 1/alpha, for each alpha; infinite if it never does.

    Seeds and streams are those of this file, not those that the method was tuned on.
    """
    rng, test = np.random.default_rng([seed, 171]), copy.deepcopy(fresh)
    while test.trials < 2 * pairs and not test.refuted:
        worlds = worlds_of(rng, form, 100)
        test.update(worlds, score(rng, worlds))
    path = test.wealth_path
    reached = [np.flatnonzero(path >= -np.log(alpha)) for alpha in ALPHAS]
    return [first[0] + 1 if first.size else np.inf for first in reached]


def power(form: str, seeds: int) -> list[dict[str, Any]]:
    """One row per false claim: quantiles of the rounds needed, beside the goals."""
    rows = []
    for name, (score, claim, pairs, goals) in FALSE.items():
        fresh = SequentialTest(claim, confidence=1 - ALPHAS[1], form=form)  # type: ignore[arg-type]
        rounds = np.array([stopping_rounds(fresh, score, form, pairs, s) for s in range(seeds)])
        quantiles = np.quantile(rounds, [0.5, 0.8], axis=0, method="inverted_cdf").T.ravel()
        scale = 2 if form == "coin" else 1
        row = {"form": form, "case": name, "rounds": quantiles, "goals": scale * np.array(goals)}
        rows.append(row | {"met": bool(np.all(quantiles <= row["goals"]))})
        print(_show(row), "" if rows[-1]["met"] else "MISSED", flush=True)
    return rows


def _show(row: dict[str, Any]) -> str:
    pairs = zip(row["rounds"], row["goals"], strict=True)
    cells = [f"{r:6.0f} ({g:4.0f})" if np.isfinite(g) else f"{r:6.0f}       " for r, g in pairs]
    return f"{row['form']:12}{row['case']:30}" + " ".join(cells)


def false_refutations(name: str, form: str, streams: range, trials: int = 2000) -> int:
    """How many of these simulated honest audits are ever refuted at 0.05."""
    score, claim = TRUE[name]
    fresh, refuted = SequentialTest(claim, form=form), 0  # type: ignore[arg-type]
    for stream in streams:
        rng, test = np.random.default_rng([stream, 72]), copy.deepcopy(fresh)
        worlds = worlds_of(rng, form, trials)
        refuted += test.update(worlds, score(rng, worlds))
    return refuted


def nulls(form: str, streams: int) -> list[dict[str, Any]]:
    """One row per honest mechanism: how many of its audits were refuted, nominal 5 %."""
    rows = []
    for name in TRUE:
        k = false_refutations(name, form, range(streams))
        interval = _interval(k, streams)
        rows.append({"form": form, "case": name, "refuted": k, "of": streams, "99 %": interval})
        low, high = interval
        print(f"{form:12}{name:26}{k:6} of {streams}, rate {low:.4f} to {high:.4f}", flush=True)
    return rows


def _interval(k: int, n: int) -> tuple[float, float]:
    low = special.betaincinv(k, n - k + 1, 0.005) if k else 0.0
    return float(low), float(special.betaincinv(k + 1, n - k, 0.995))


def bounds(seeds: int, streams: int) -> list[dict[str, Any]]:
    """The Gaussian family on a mechanism whose epsilon is 4: medians, then errors."""
    fresh, looks = ConfidenceSequence(Family.gdp(DELTA)), (100, 200, 500, 1000, 2000, 4000)
    trails = np.array([_trail(fresh, seed, looks) for seed in range(seeds)])
    medians = np.median(trails, axis=0)
    shown = [f"{n}: {m:.2f}" for n, m in zip(looks, medians, strict=True)]
    print("epsilon 4, lower bounds after", ", ".join(shown))
    # One member is the truth itself; the bound errs when it reaches that.
    close = ConfidenceSequence(Family.gdp(DELTA, 4 * np.geomspace(0.5, 2, 41)))
    wrong = sum(_trail(close, 10**6 + s, (2000,))[-1] > 3.999 for s in range(streams))
    low, high = _interval(wrong, streams)
    print(f"above the truth: {wrong} of {streams}, rate {low:.4f} to {high:.4f}", flush=True)
    return [{"looks": looks, "medians": medians, "wrong": wrong, "of": streams}]


def _trail(fresh: ConfidenceSequence, seed: int, looks: tuple[int, ...]) -> list[float]:
    rng, sequence = np.random.default_rng([seed, 73]), copy.deepcopy(fresh)
    worlds = worlds_of(rng, "coin", looks[-1])
    scores = normal(mu(4))(rng, worlds)
    cuts = looks[:-1]
    parts = zip(np.split(worlds, cuts), np.split(scores, cuts), strict=True)
    return [sequence.update(w, x) for w, x in parts]


def cost(trials: int = 10_000) -> list[dict[str, Any]]:
    """CPU time to start and per trial, for one claim and for 40."""
    rows = []
    for form in ("coin", "pairs", "shared-seed"):
        rng = np.random.default_rng(5)
        worlds = worlds_of(rng, form, trials)
        scores = normal(mu(4))(rng, worlds)
        for n, make in ((1, _one_claim), (40, _family)):
            start = time.process_time()
            audit = make(form)
            ready = time.process_time()
            audit.update(worlds, scores)
            spent = 1e6 * (time.process_time() - ready) / trials
            row = {"form": form, "claims": n, "start_ms": 1e3 * (ready - start), "us": spent}
            rows.append(row)
            print(
                f"{form:12}{n:3} claims: {row['start_ms']:6.0f} ms to start, {spent:.1f} us a trial"
            )
    return rows


def _one_claim(form: Any) -> SequentialTest:
    return SequentialTest(GDP(mu(2)), form=form)


def _family(form: Any) -> ConfidenceSequence:
    return ConfidenceSequence(Family.gdp(DELTA), form=form)


def run(quick: bool = False) -> dict[str, list[dict[str, Any]]]:
    """All rows: power, false refutations, cost."""
    seeds, streams = (40, 500) if quick else (200, 10_000)
    forms = ("pairs", "coin")
    return {
        "cost": cost(),
        "power": [row for form in forms for row in power(form, seeds)],
        "bounds": bounds(seeds, 100 if quick else 1000),
        "nulls": [row for form in forms for row in nulls(form, streams)],
    }


def main() -> None:
    run(quick="--quick" in sys.argv)


if __name__ == "__main__":
    main()
