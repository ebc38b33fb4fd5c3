"""The tables of the page on coverage: python docs/coverage_tables.py (ten minutes of one core).

Pools the quick form of the two coverage benchmarks over algorithms, true epsilons and sizes, and
plays jax_privacy's bounds beside ours where it is installed.
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import special

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import coverage_one_run, coverage_two_world

from dpassay.bounds import lower_bound, one_run

LEVEL = 0.05


def interval(wrong, repeats):
    """The 95 % Clopper-Pearson interval of a rate."""
    low = special.betaincinv(wrong, repeats - wrong + 1, 0.025) if wrong else 0.0
    high = special.betaincinv(wrong + 1, repeats - wrong, 0.975) if wrong < repeats else 1.0
    return float(low), float(high)


def line(name, wrong, repeats, extra=""):
    low, high = interval(wrong, repeats)
    rate = f"{wrong / repeats:.3f} [{low:.3f}, {high:.3f}]"
    caught = " above 0.05" if low > LEVEL else ""
    print(f"{name:38} {wrong:5} of {repeats:<5} {rate}{extra}{caught}", flush=True)


def pooled(rows):
    """Wrong bounds and repeats by method and rule; a number of any size is "fixed"."""
    found = defaultdict(lambda: [0, 0])
    for row in rows:
        rule = row["rule"] if isinstance(row["rule"], str) else "fixed"
        found[f"{row['method']}, {rule}"][0] += row["wrong"]
        found[f"{row['method']}, {rule}"][1] += row["repeats"]
    for name, (wrong, repeats) in found.items():
        line(name, wrong, repeats)


def unpaid(repeats=400):
    """The best threshold, counted as if it had been fixed, beside the default rule; Gaussians."""
    draw, delta = coverage_two_world.PAIRS["gaussian"]
    bounds = {
        "paid": lambda x, y: lower_bound(x, y, delta=delta, method="gdp").epsilon,
        "unpaid": lambda x, y: coverage_two_world.unpaid(x, y, "gdp", delta),
    }
    for size in (1000, 10_000):
        rng = np.random.default_rng([7, size])
        draws = [draw(rng, 3.0, size // 2) for _ in range(repeats)]
        for name, bound in bounds.items():
            wrong = sum(bound(x, y) > 3.0 for x, y in draws)
            line(f"gdp, {name}, N {size}", wrong, repeats)


def two_worlds(auditor, repeats=300):
    """Gaussian scores of known epsilon, N = 1000: our default rules and the peer's."""
    draw, delta = coverage_two_world.PAIRS["gaussian"]
    bounds = {
        "dpassay, clopper-pearson": lambda x, y: lower_bound(x, y, delta=delta).epsilon,
        "dpassay, gdp": lambda x, y: lower_bound(x, y, delta=delta, method="gdp").epsilon,
    }
    if auditor:
        bounds |= {
            "jax_privacy, clopper-pearson": lambda x, y: auditor(x, y).epsilon_clopper_pearson(
                LEVEL, delta
            ),
            "jax_privacy, from_gdp": lambda x, y: auditor(x, y).epsilon_from_gdp(LEVEL, delta),
        }
    for epsilon in (0.0, 1.0, 3.0):
        rng = np.random.default_rng([9, int(10 * epsilon)])
        draws = [draw(rng, epsilon, 500) for _ in range(repeats)]
        for name, bound in bounds.items():
            found = np.array([float(bound(x, y)) for x, y in draws])
            wrong = int(np.sum(found > epsilon + 1e-6))
            line(f"{name}, truth {epsilon:g}", wrong, repeats, f", mean {found.mean():.2f}")


def one_runs(auditor, canaries=1000, repeats=1000):
    """Scores that say nothing, a fair coin per canary: how often a bound is above 0."""
    rng = np.random.default_rng(3)
    draws = [(rng.normal(size=canaries), rng.random(canaries) < 0.5) for _ in range(repeats)]
    bounds = {"dpassay, one-run": lambda s, m: one_run(s, m, delta=1e-5).epsilon}
    if auditor:
        bounds["jax_privacy, one-run"] = lambda s, m: auditor(s[m], s[~m]).epsilon_one_run(
            LEVEL, 1e-5
        )
    for name, bound in bounds.items():
        line(f"{name}, truth 0", sum(float(bound(s, m)) > 0 for s, m in draws), repeats)


def peer():
    try:
        from jax_privacy.auditing import CanaryScoreAuditor
    except ImportError:
        print("jax_privacy is not installed: pip install jax-privacy")
        return None
    return CanaryScoreAuditor


def main():
    print("-- two worlds, pooled")
    pooled(coverage_two_world.coverage(quick=True))
    print("-- one run, pooled")
    pooled(coverage_one_run.run(quick=True))
    print("-- what the price of the threshold is for")
    unpaid()
    print("-- beside the peer")
    two_worlds(peer())
    one_runs(peer())


if __name__ == "__main__":
    main()
