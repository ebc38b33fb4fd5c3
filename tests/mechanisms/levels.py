"""What the tests of mechanisms share: noise of each level, and the laws of noisy-max rules."""

from itertools import permutations
from math import factorial

import numpy as np
from scipy.stats import expon, gumbel_r, laplace

LEVELS = ("exact", "reproducible")
DENSITIES = {"laplace": laplace, "exponential": expon, "gumbel": gumbel_r}
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def rng_of(level):
    """The rng argument that gives this level; the reproducible one has a fixed seed."""
    return {
        "exact": lambda: None,
        "reproducible": lambda: np.random.default_rng(20),
    }[level]()


def win_probability(kind, scores, scale, i):
    """P(candidate i has the largest score plus noise), by quadrature of its density."""
    law = DENSITIES[kind]
    lead = (scores[i] - np.delete(np.asarray(scores, float), i)) / scale
    # Pieces between the kinks, no wider than the noise, out to where the density is below 1e-17.
    edges = np.unique(np.concatenate([-lead, np.arange(-40, 41)]))
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (_NODES + 1)
    integrand = law.pdf(x) * np.prod(law.cdf(x[..., None] + lead), axis=-1)
    return float(np.sum(half * _WEIGHTS * integrand))


def law_by_quadrature(kind, scores, scale):
    return np.array([win_probability(kind, scores, scale, i) for i in range(len(scores))])


def softmax_law(scores, scale):
    weights = np.exp((np.asarray(scores, float) - np.max(scores)) / scale)
    return weights / weights.sum()


def permute_and_flip_law(scores, scale):
    """By its definition: all orders, and a coin for each candidate until one comes up."""
    coins = np.exp((np.asarray(scores, float) - np.max(scores)) / scale)
    law = np.zeros(len(coins))
    for order in permutations(range(len(coins))):
        alive = 1.0
        for i in order:
            law[i] += alive * coins[i]
            alive *= 1 - coins[i]
    return law / factorial(len(coins))
