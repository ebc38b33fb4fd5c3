"""The Bayesian bound on epsilon beside privacy-estimates', in CPU seconds and in value.

Run with ``python -m benchmarks.bayes`` (``--quick``: the slow peer gets 100 trials only). The peer
is ``pip install privacy-estimates``; without it, its rows say so.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from dpassay.bounds import lower_bound_from_counts
from dpassay.bounds.bayes import _Posterior

DELTA, CONFIDENCE = 1e-5, 0.95
HINT = "not installed: pip install privacy-estimates"


def counts_of(n: int, fnr: float, fpr: float) -> dict[str, int]:
    fn, fp = round(n * fnr), round(n * fpr)
    return {"tp": n - fn, "fn": fn, "fp": fp, "tn": n - fp}


def cases(quick: bool) -> list[tuple[dict[str, int], bool]]:
    """Counts, and whether the peer is tried on them."""
    tramer = {"tp": 4922, "fn": 95078, "fp": 174, "tn": 99826}
    small = [(counts_of(100, 0.03, 0.02), True), (counts_of(1000, 0.03, 0.02), not quick)]
    return [*small, (tramer, not quick), (counts_of(10**9, 0.1, 0.01), False)]


def run(quick: bool = False) -> list[dict[str, Any]]:
    """One row per case: our bound and its time, the peer's, the ratio, and the error of ours."""
    return [_row(counts, peer) for counts, peer in cases(quick)]


def _row(counts: dict[str, int], with_peer: bool) -> dict[str, Any]:
    seconds, bound = _best_of(5, lambda: _ours(counts))
    row = {
        "trials": counts["tp"] + counts["fn"],
        "epsilon_lower": bound,
        "seconds": seconds,
        "mass_error": _mass_error(counts, bound),
        "peer": "not tried",
    }
    return row | (_peer_row(counts, seconds) if with_peer else {})


def _ours(counts: dict[str, int]) -> float:
    return lower_bound_from_counts(
        **counts, delta=DELTA, confidence=CONFIDENCE, method="bayes"
    ).epsilon


def _peer_row(counts: dict[str, int], seconds: float) -> dict[str, Any]:
    try:
        from privacy_estimates import AttackResults, compute_eps_lo
    except ImportError:
        return {"peer": HINT}
    results = AttackResults(**{name.upper(): value for name, value in counts.items()})
    try:
        spent, value = _best_of(
            1, lambda: compute_eps_lo(results, DELTA, 1 - CONFIDENCE, "joint-beta")
        )
    except ValueError as error:
        return {"peer": f"ValueError: {error}"}
    return {"peer": float(value), "peer_seconds": spent, "ratio": spent / seconds}


def _mass_error(counts: dict[str, int], bound: float, points: int = 3000) -> float:
    """The posterior mass above the bound, ours minus that counted on a grid of both rates."""
    levels, others = ((np.arange(n) + 0.5) / n for n in (points, points + 9))
    tp, fn, fp, tn = (counts[name] + 0.5 for name in ("tp", "fn", "fp", "tn"))
    fnr, fpr = special.betaincinv(fn, tp, levels)[:, None], special.betaincinv(fp, tn, others)
    growth = np.exp(bound)
    low = np.maximum(1 - DELTA - growth * fnr, (1 - DELTA - fnr) / growth)
    high = np.minimum(1 + (DELTA - fnr) / growth, DELTA + growth * (1 - fnr))
    counted = np.mean((fpr < low) | (fpr > high))
    return _Posterior(**counts, delta=DELTA).above(bound) - float(counted)


def _best_of(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU time of several calls, and the value."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        value = call()
        spent.append(time.process_time() - start)
    return min(spent), value


def main() -> None:
    for row in run(quick="--quick" in sys.argv):
        print(", ".join(f"{name} {_shown(value)}" for name, value in row.items()))


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
