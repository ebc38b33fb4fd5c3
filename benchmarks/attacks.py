"""Scoring members: CPU seconds for 64 shadows and 10 000 records, once the outputs exist.

Run with ``python -m benchmarks.attacks`` (``--quick``: a tenth of the records). The goal is one
second per attack. ``loop`` is LiRA record by record with scipy.stats, the way published code does
it, on a hundredth of the records and scaled up. ``attack`` has the intervals in it, and learns
where the attack does.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import softmax

from dpassay.attacks import (
    Outputs,
    Shadows,
    attack,
    lira_scores,
    metric_scores,
    rmia_scores,
)
from dpassay.attacks.scores import METRICS, log_odds
from dpassay.types import FloatArray

GOAL, N_SHADOWS, N_CLASSES = 1.0, 64, 10


def planted(n: int) -> tuple[Outputs, Shadows]:
    """What a target and its shadows say about n records, the first half members of the target."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, N_CLASSES, n)
    right = np.eye(N_CLASSES)[labels]
    inside = (rng.random((N_SHADOWS, n)).argsort(axis=0) < N_SHADOWS // 2).astype(np.int8)
    center = rng.normal(3.0, 2.0, n)

    def outputs(member: FloatArray) -> FloatArray:
        noise = rng.normal(size=(*member.shape, N_CLASSES))
        return softmax(noise + (center + 1.5 * member)[..., None] * right, axis=-1)

    target = Outputs(probabilities=outputs(np.arange(n) < n // 2), labels=labels)
    return target, Shadows(Outputs(probabilities=outputs(inside), labels=labels), inside)


def by_loop(target: Outputs, shadows: Shadows, n: int) -> FloatArray:
    """The log likelihood ratios of the first n records, one after the other."""
    phi, seen = log_odds(target), log_odds(shadows.outputs)
    found = []
    for i in range(n):
        sides = [seen[shadows.inside[:, i] == world, i] for world in (1, 0)]
        laws = [stats.norm(x.mean(), x.std(ddof=1)) for x in sides]
        found.append(laws[0].logpdf(phi[i]) - laws[1].logpdf(phi[i]))
    return np.array(found)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """One row per attack: CPU seconds, and for LiRA how much faster than the loop."""
    n = 1000 if quick else 10_000
    target, shadows = planted(n)
    few = max(n // 100, 50)
    alone, looped = _timed(lambda: by_loop(target, shadows, few))
    rows = [{"case": "LiRA by loop", "seconds": alone * n / few}]
    for variance in ("record", "pooled", "shrunk"):
        seconds, found = _timed(lambda v=variance: lira_scores(target, shadows, variance=v))
        rows.append({"case": f"LiRA, {variance}", "seconds": seconds, "faster": rows[0]["seconds"]})
        rows[-1]["faster"] /= seconds
        if variance == "record":
            np.testing.assert_allclose(found[:few], looped, rtol=1e-6)
    cases: dict[str, Callable[[], Any]] = {
        "LiRA, offline": lambda: lira_scores(target, shadows, online=False),
        "RMIA": lambda: rmia_scores(target, shadows),
        "all metrics": lambda: [metric_scores(target, metric) for metric in METRICS],
    }
    half = n // 2
    parts = [
        Outputs(probabilities=target.vectors[part], labels=target.classes[part])
        for part in (slice(half), slice(half, None))
    ]
    for method in ("loss", "lira", "rmia", "shadow"):
        cases[f"attack, {method}"] = lambda m=method: attack(
            None, *parts, method=m, shadows=shadows
        )
    rows += [{"case": name, "seconds": _timed(call)[0]} for name, call in cases.items()]
    return rows


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def main(quick: bool = False) -> None:
    for row in run(quick or "--quick" in sys.argv):
        missed = row["seconds"] > GOAL and "loop" not in row["case"] and "attack" not in row["case"]
        times = f", {row['faster']:.0f} times faster than the loop" if "faster" in row else ""
        print(f"{row['case']:16s} {row['seconds']:.3f} s{times}{' MISSED' if missed else ''}")


if __name__ == "__main__":
    main()
