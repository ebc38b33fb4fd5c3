"""Targets and shadows whose leakage is known in closed form.

The log odds of a record are Gaussian over trainings: mean m without it, m + SHIFT with it,
deviation 1. Outputs are made from log odds, so that every attack can be laid beside its theory.
"""

import numpy as np
from scipy.special import expit, ndtr

from dpassay.attacks import Outputs, Shadows

SHIFT = 1.5
AUC = float(ndtr(SHIFT / np.sqrt(2)))  # of log odds, if all m are equal


def vectors(phi, labels, k=3):
    """Probabilities with these log odds of the true class; the others share the rest evenly."""
    p = np.repeat((expit(-phi) / (k - 1))[..., None], k, axis=-1)
    index = np.broadcast_to(labels, phi.shape)[..., None]
    np.put_along_axis(p, index, expit(phi)[..., None], -1)
    return p


def outputs(phi, labels=None, k=3):
    labels = np.zeros(phi.shape[-1], int) if labels is None else labels
    return Outputs(probabilities=vectors(phi, labels, k), labels=labels)


class Planted:
    """n members, n non-members, their shadows; ``spread`` is that of m over records."""

    def __init__(self, n=4000, n_shadows=16, spread=0.0, shift=SHIFT, mean=1.0, seed=0, k=3):
        rng = np.random.default_rng(seed)
        self.m = mean + spread * rng.normal(size=2 * n)
        self.labels = rng.integers(0, k, 2 * n)
        self.member = np.arange(2 * n) < n
        self.phi = self.m + shift * self.member + rng.normal(size=2 * n)
        order = rng.random((n_shadows, 2 * n)).argsort(axis=0)
        self.inside = (order < n_shadows // 2).astype(np.int8)
        self.shadow_phi = self.m + shift * self.inside + rng.normal(size=self.inside.shape)
        self.n, self.k = n, k

    def sides(self):
        """What attack(None, ...) takes."""
        p = vectors(self.phi, self.labels, self.k)
        return (p[: self.n], self.labels[: self.n]), (p[self.n :], self.labels[self.n :])

    def outputs(self):
        return outputs(self.phi, self.labels, self.k)

    def shadows(self):
        return Shadows(outputs(self.shadow_phi, self.labels, self.k), self.inside)
