"""Statistical assertions with a stated false-alarm rate."""

from scipy.stats import binom


def assert_rate(k, n, p, alpha=1e-9):
    """k of n must be plausible at probability p; over all seeds it errs at most alpha of the time.

    Doubling the smaller exact tail is conservative.
    """
    tail = 2 * min(binom.cdf(k, n, p), binom.sf(k - 1, n, p))
    assert tail >= alpha, f"{k} of {n} against p={p:.4f}: chance {tail:.1e} is below {alpha:.0e}"


def assert_rate_at_most(k, n, p, alpha=1e-9):
    """k of n must be plausible at a probability of at most p."""
    tail = binom.sf(k - 1, n, p)
    assert tail >= alpha, f"{k} of {n} against p<={p:.4f}: chance {tail:.1e} is below {alpha:.0e}"
