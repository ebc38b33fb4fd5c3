"""Tails of beta distributions by mpmath, for whole and half shapes up to a billion."""

import mpmath

mpmath.mp.dps = 30


def tails(a, b, x):
    """P(Beta(a, b) <= x) and P(Beta(a, b) > x), to 15 digits of the smaller one."""
    x = mpmath.mpf(x)
    if x <= 0 or x >= 1:
        return (mpmath.mpf(0), mpmath.mpf(1)) if x <= 0 else (mpmath.mpf(1), mpmath.mpf(0))
    if x * (mpmath.mpf(a) + b + 2) < a + 1:
        below = _fraction(a, b, x)
        return below, 1 - below
    above = _fraction(b, a, 1 - x)
    return 1 - above, above


def _fraction(a, b, x):
    """The lower tail below the mean by its continued fraction (DLMF 8.17.22, Lentz's method)."""
    a, b, one = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(1)
    log_beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
    front = mpmath.exp(a * mpmath.log(x) + b * mpmath.log(1 - x) - log_beta) / a
    c, d = one, 1 / (1 - (a + b) * x / (a + 1))
    value, m = d, 0
    while True:
        m += 1
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / (1 + step * d), 1 + step / c
            value *= c * d
        if abs(c * d - 1) < mpmath.mpf(10) ** -18:
            return front * value
