"""The one-run bounds beside jax_privacy's: CPU time, value, and how often each is wrong.

Run with ``python -m benchmarks.onerun`` (six minutes; ``--quick``: one). The peer is
``pip install jax-privacy``; without it, its columns say so. Scores are Gaussian: N(mu, 1) for
members, N(0, 1) for the others, exactly half of each as in the peer's own tests (which no theorem
covers), or with the fair coins that the theorems ask for.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay.bounds import one_run
from dpassay.bounds.onerun import fdp
from dpassay.bounds.onerun.pvalues import Exact, Steinke, largest_epsilon
from dpassay.privacy import GDP

DELTA, LEVEL = 1e-5, 0.05
HINT = "not installed: pip install jax-privacy"
RULES = [("steinke", "auto"), ("steinke", "split"), ("exact", "split"), ("exact", "grid")]
RULES += [("fdp", "auto"), ("betting", "auto")]


def gaussian(canaries: int, mu: float, rng: np.random.Generator, fair: bool = True) -> Any:
    """Scores and coins."""
    members = rng.random(canaries) < 0.5 if fair else np.arange(canaries) < canaries // 2
    return rng.normal(size=canaries) + mu * members, members


def auditor(scores: Any, members: Any) -> Any:
    """The peer's, or None."""
    try:
        from jax_privacy import auditing
    except ImportError:
        return None
    return auditing.CanaryScoreAuditor(scores[members], scores[~members])


def cpu(call: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The least CPU time of several calls, and the value."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        value = call()
        spent.append(time.process_time() - start)
    return min(spent), value


def speed(quick: bool = False) -> list[dict[str, Any]]:
    """Same thresholds, same level, same p-value: how long each takes, and that they agree."""
    rows = []
    for mu in (1.0, 3.0):
        for canaries in (10_000, 100_000):
            scores, members = gaussian(canaries, mu, np.random.default_rng(0), fair=False)
            peer = auditor(scores, members)
            rows += _speed_rows(mu, canaries, scores, members, peer)
    return rows


def _speed_rows(mu: float, m: int, scores: Any, members: Any, peer: Any) -> list[dict[str, Any]]:
    about = {"mu": mu, "canaries": m}
    if peer is None:
        return [about | {"peer": HINT}]
    # What the peer tries: the corners of the hull of its ROC curve.
    right = peer._fn_counts[-1] - peer._fn_counts
    guesses = right + peer._tn_counts[-1] - peer._tn_counts
    level = LEVEL / right.size
    n, v = guesses[guesses > 0], right[guesses > 0]
    calls = {
        "one-run, its thresholds": (
            lambda: largest_epsilon(Steinke(m, DELTA), n, v, level)[0],
            lambda: peer.epsilon_one_run(LEVEL, DELTA),
        ),
        "f-DP, its thresholds": (
            lambda: _gdp(n, v, m, level),
            lambda: peer.epsilon_one_run_fdp(LEVEL, DELTA),
        ),
    }
    cut = mu / 2 + 1.5
    r, k = int((scores >= cut).sum()), int((scores[members] >= cut).sum())
    fixed = _explicit(cut)
    calls |= {
        "one-run, one threshold": (
            lambda: largest_epsilon(Steinke(m, DELTA), r, k, LEVEL)[0],
            lambda: peer.epsilon_one_run(LEVEL, DELTA, threshold_strategy=fixed),
        ),
        "f-DP, one threshold": (
            lambda: _gdp(np.array([r]), np.array([k]), m, LEVEL),
            lambda: peer.epsilon_one_run_fdp(LEVEL, DELTA, threshold_strategy=fixed),
        ),
    }
    rows = []
    for name, (ours, theirs) in calls.items():
        (seconds, value), (spent, other) = cpu(ours, 5), cpu(theirs, 2)
        row = {"what": name, "epsilon": value, "peer": float(other), "apart": abs(value - other)}
        rows.append(about | row | {"seconds": seconds, "peer_s": spent, "ratio": spent / seconds})
    return rows


def _explicit(threshold: float) -> Any:
    from jax_privacy import auditing

    return auditing.Explicit(threshold)


def _gdp(n: Any, v: Any, canaries: float, level: float) -> float:
    mu, _ = fdp.largest_refuted(n, v, canaries, level, lambda mu: GDP(mu=mu))
    return fdp.epsilon_lower(GDP(mu=mu), DELTA) if mu > 0 else 0.0


def defaults(quick: bool = False) -> list[dict[str, Any]]:
    """Mean bounds as they come out of the box, for fair coins and for exact halves."""
    rows = []
    for mu in (1.0, 3.0):
        for canaries in (1000, 10_000, 100_000):
            for fair in (True, False):
                rng = np.random.default_rng([int(mu), canaries, fair])
                repeats = 3 if quick else 10
                draws = [gaussian(canaries, mu, rng, fair) for _ in range(repeats)]
                rows.append(_default_row(mu, canaries, fair, draws))
    return rows


def _default_row(mu: float, canaries: int, fair: bool, draws: list[Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"mu": mu, "canaries": canaries, "coins": "fair" if fair else "halves"}
    row["truth"] = GDP(mu=mu).epsilon(DELTA)
    for method, rule in RULES:
        found = [one_run(*draw, delta=DELTA, method=method, guesses=rule).epsilon for draw in draws]
        row[f"{method} {rule}"] = float(np.mean(found))
    row["oracle exact"] = float(np.mean([_oracle(*draw) for draw in draws]))
    peers = [peer for draw in draws[:3] if (peer := auditor(*draw)) is not None]
    row["peer one-run"] = (
        float(np.mean([p.epsilon_one_run(LEVEL, DELTA) for p in peers])) if peers else HINT
    )
    row["peer f-DP"] = (
        float(np.mean([p.epsilon_one_run_fdp(LEVEL, DELTA) for p in peers])) if peers else HINT
    )
    return row


def _oracle(scores: Any, members: Any) -> float:
    """The largest exact bound over the number of guesses, unpaid: beyond the reach of any rule."""
    falling = members[np.argsort(-scores)]
    k = np.unique(np.geomspace(1, falling.size // 2, 300).astype(int))
    right = np.cumsum(falling)[k - 1] + np.cumsum(~falling[::-1])[k - 1]
    return largest_epsilon(Exact(falling.size * DELTA), 2 * k, right, LEVEL)[0]


def errors(quick: bool = False) -> list[dict[str, Any]]:
    """How often a bound is above 0 when the scores say nothing (nominal 5 %)."""
    sizes = {1000: 100, 10_000: 30} if quick else {1000: 1000, 10_000: 500}
    return [_errors(m, repeats, fair) for m, repeats in sizes.items() for fair in (True, False)]


def _errors(canaries: int, repeats: int, fair: bool) -> dict[str, Any]:
    rng = np.random.default_rng([canaries, fair])
    draws = [gaussian(canaries, 0.0, rng, fair) for _ in range(repeats)]
    ours = np.mean([one_run(*draw, delta=DELTA).epsilon > 0 for draw in draws])
    peers = [peer for draw in draws if (peer := auditor(*draw)) is not None]
    theirs = np.mean([peer.epsilon_one_run(LEVEL, DELTA) > 0 for peer in peers]) if peers else HINT
    coins = "fair" if fair else "halves"
    row = {"canaries": canaries, "coins": coins, "repeats": repeats}
    return row | {"ours": float(ours), "peer": theirs}


def run(quick: bool = False) -> dict[str, list[dict[str, Any]]]:
    """All three tables."""
    return {"speed": speed(quick), "defaults": defaults(quick), "errors": errors(quick)}


def main(quick: bool = False) -> None:
    for name, rows in run(quick).items():
        print(f"-- {name}")
        for row in rows:
            print(", ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)


def _shown(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
