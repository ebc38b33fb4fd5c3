"""Verdicts of every kind that a report may be asked for, made by hand so that none is played."""

import math

import numpy as np

from dpassay.privacy import GDP, RDP, ZCDP, ApproxDP, PureDP, account, dp_sgd_event
from dpassay.types import Evidence, LowerBound, Verdict


def verdict(
    scores_in=(),
    scores_out=(),
    claim=None,
    *,
    epsilon=0.5,
    delta=1e-5,
    refuted=False,
    trials=None,
    ended="",
    path=None,
    **rest,
):
    """A verdict on these scores, in an order that mixes the worlds."""
    scores = np.concatenate([np.asarray(scores_in, float), np.asarray(scores_out, float)])
    worlds = np.repeat([1, 0], [len(scores_in), len(scores_out)])
    order = np.random.default_rng(0).permutation(scores.size)
    n_failed = int(np.sum(scores == -np.inf))
    evidence = Evidence(worlds[order], scores[order], run="ab12" * 16, seed=7, n_failed=n_failed)
    bound = {"ceiling": 4.0, "selection": "all of them, paid for", "threshold": 0.123456789}
    bound |= rest.pop("bound", {})
    return Verdict(
        claim=claim or ApproxDP(1.0, delta),
        bound=LowerBound(epsilon, delta, 0.95, "sequential", **bound),
        refuted=refuted,
        confidence=0.95,
        trials=(scores.size if trials is None else trials) + 50,
        ended=ended or ("refuted" if refuted else "budget spent"),
        evidence=evidence,
        attack=rest.pop("attack", "a threshold on the output"),
        replay="dpassay audit train.py:train",
        n_learning=50,
        n_deaths=1,
        wealth_needed=3.0,
        log_wealth=None if path is None else np.asarray(path, float),
        **rest,
    )


def _normal(n_in, n_out, shift):
    rng = np.random.default_rng(n_in + 3 * n_out)
    return rng.normal(shift, 1.0, n_in), rng.normal(0.0, 1.0, n_out)


def _some(shift=1.0, n=150, **settings):
    inside, outside = _normal(n, n, shift)
    path = np.linspace(0.0, 2.0, 2 * n)
    return verdict(inside, outside, **{"path": path} | settings)


def _fails(scores, share):
    return np.where(np.random.default_rng(1).random(scores.size) < share, -np.inf, scores)


CASES = {
    "refuted": lambda: _some(3.0, epsilon=1.4, refuted=True, path=np.linspace(0, 4, 300)),
    "refuted elsewhere": lambda: _some(3.0, epsilon=0.2, refuted=True),
    "standing": lambda: _some(0.4, epsilon=0.12),
    "bound above, standing": lambda: _some(2.0, epsilon=1.2),
    "interrupted": lambda: _some(0.4, ended="interrupted"),
    "one run": lambda: verdict(
        *_normal(90, 110, 1.0),
        trials=1,
        kind="one run",
        bound={"threshold": (40, 40)},
        attack="200 canaries",
    ),
    "one run, a curve": lambda: verdict(
        *_normal(90, 110, 1.0), GDP(1.0), trials=1, kind="one run", refuted=True
    ),
    "gaussian": lambda: _some(
        claim=GDP(1.0, n_records=200), bound={"assumption": "Gaussian trade-off"}
    ),
    "pld": lambda: _some(claim=account(dp_sgd_event(1.1, 0.01, 50), "pld")),
    "rdp": lambda: _some(claim=RDP(orders=[2, 8], epsilons=[0.1, 0.4])),
    "zcdp": lambda: _some(claim=ZCDP(0.1)),
    "best": lambda: _some(claim=account(dp_sgd_event(2.0, 1.0, 3), "best")),
    "estimate": lambda: _some(claim=GDP(0.5, kind="estimate", method="gdp-clt")),
    "pure": lambda: _some(claim=PureDP(1.0), delta=0.0),
    "epsilon 0": lambda: _some(claim=PureDP(0.0), delta=0.0, epsilon=0.0),
    "epsilon 0, delta": lambda: _some(claim=ApproxDP(0.0, 1e-5), epsilon=0.0),
    "epsilon inf": lambda: _some(claim=ApproxDP(math.inf, 1e-5)),
    "pure inf": lambda: _some(claim=PureDP(math.inf), delta=0.0),
    "mu inf": lambda: _some(claim=GDP(math.inf)),
    "large epsilon": lambda: _some(claim=ApproxDP(50.0, 1e-5), epsilon=12.0),
    "infinite at delta 0": lambda: _some(claim=GDP(1.0), delta=0.0),
    "infinite ceiling": lambda: _some(bound={"ceiling": math.inf}),
    "failing trials": lambda: verdict(*(_fails(x, 0.08) for x in _normal(100, 100, 1.0))),
    "only failures": lambda: verdict([-math.inf] * 5, [-math.inf] * 6, path=[0.0] * 11),
    "infinite scores": lambda: verdict([math.inf, 1.0, 2.0], [-math.inf, 0.0, 1.0]),
    "huge scores": lambda: verdict([1.7e308, 1e300, -1e308], [-1.7e308, 0.0]),
    "tiny scores": lambda: verdict([5e-324, 1e-310], [0.0, -5e-324]),
    "constant scores": lambda: verdict([0.5] * 40, [0.5] * 40, path=np.zeros(80)),
    "discrete scores": lambda: verdict([0, 1, 1, 1, 0], [0, 0, 0, 1]),
    "one world": lambda: verdict([0.1, 0.2, 0.3], []),
    "one trial": lambda: verdict([], [0.3], path=[0.0]),
    "nothing": lambda: verdict(path=[], ended="interrupted", epsilon=0.0),
    "million": lambda: verdict(
        *_normal(500_000, 500_000, 0.5), claim=PureDP(2.0), delta=0.0, path=np.zeros(20_000)
    ),
}  # fmt: skip
