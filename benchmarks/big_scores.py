"""Bounds on ten million scores: CPU seconds and peak memory.

Run with ``python -m benchmarks.big_scores`` (``--quick``: a tenth of the scores). Each case runs in
a process of its own, so that its peak memory is its own; the scores themselves take 8 bytes each.
"""

import multiprocessing
import resource
import sys
import time
from typing import Any

import numpy as np

from dpassay.bounds import advantage, auc, check_claim, lower_bound, tpr_at_fpr
from dpassay.privacy import GDP

CASES = {
    "clopper-pearson, band": lambda x, y: lower_bound(x, y, delta=1e-5).epsilon,
    "clopper-pearson, split": lambda x, y: lower_bound(x, y, delta=1e-5, threshold="split").epsilon,
    "clopper-pearson, kfold": lambda x, y: lower_bound(x, y, delta=1e-5, threshold="kfold").epsilon,
    "clopper-pearson, dkw": lambda x, y: lower_bound(x, y, delta=1e-5, threshold="dkw").epsilon,
    "gdp, band": lambda x, y: lower_bound(x, y, delta=1e-5, method="gdp").epsilon,
    "bayes, split": lambda x, y: lower_bound(x, y, delta=1e-5, method="bayes").epsilon,
    "whole curve, p-value": lambda x, y: check_claim(GDP(mu=0.99), x, y).p_value,
    "auc": lambda x, y: auc(x, y).value,
    "advantage": lambda x, y: advantage(x, y).value,
    "tpr at fpr 1e-3": lambda x, y: tpr_at_fpr(x, y, fpr=1e-3).value,
}


def run(quick: bool = False) -> list[dict[str, Any]]:
    """One row per case: the value, CPU seconds and peak megabytes (scores and Python included)."""
    n = 500_000 if quick else 5_000_000
    rows = []
    context = multiprocessing.get_context("spawn")
    for name in CASES:
        with context.Pool(1) as pool:
            rows.append({"case": name, "scores": 2 * n} | pool.apply(_measure, (name, n)))
    return rows


def _measure(name: str, n: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 1, n), rng.normal(0, 1, n)
    before, start = _peak(), time.process_time()
    value = CASES[name](x, y)
    seconds = time.process_time() - start
    return {"value": float(value), "seconds": seconds, "peak_mb": _peak(), "before_mb": before}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    for row in run(quick="--quick" in sys.argv):
        print(
            f"{row['case']:26s} {row['scores']:.0e} scores: {row['value']:.5g}, "
            f"{row['seconds']:.2f} s, peak {row['peak_mb']:.0f} MB "
            f"({row['before_mb']:.0f} MB before)"
        )


if __name__ == "__main__":
    main()
