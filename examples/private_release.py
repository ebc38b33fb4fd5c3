"""Release a count, a histogram and a choice from one table, and say what it cost together.

The noise is secure: run it twice and it differs.
Run it with ``python examples/private_release.py``.
"""

import numpy as np

import dpassay as da
from dpassay import mechanisms
from dpassay.privacy import Sequence
from dpassay.report.numbers import up

AGES = np.random.default_rng(0).integers(0, 100, 500)  # a table that is not public
CUISINES = ("thai", "greek", "mexican")
VOTES = np.array([210.0, 190.0, 100.0])


def main() -> None:
    adults = mechanisms.laplace(
        int(np.sum(AGES >= 18)), sensitivity=mechanisms.count_sensitivity(), epsilon=0.5
    )
    error = mechanisms.laplace_accuracy(0.05, sensitivity=1.0, epsilon=0.5)
    print(f"adults: {adults.value:.0f}, within {error:.1f} with probability 0.95")

    decades = np.bincount(AGES // 10, minlength=10).astype(float)
    l2 = mechanisms.histogram_sensitivity(norm="l2")
    histogram = mechanisms.gaussian(decades, sensitivity=l2, rho=0.05)
    print("by decade:", histogram.map(lambda counts: np.maximum(counts, 0).round()).value)

    winner = mechanisms.exponential(VOTES, sensitivity=1.0, epsilon=0.3, monotone=True)
    print("favourite:", CUISINES[winner.value])

    spent = da.account(Sequence((adults.event, histogram.event, winner.event)))
    print(f"together: ({up(spent.epsilon(1e-6))}, 1e-06)-DP, {spent.kind}, {spent.neighbouring}")
    print("noise:", *sorted({adults.noise, histogram.noise, winner.noise}))


if __name__ == "__main__":
    main()
