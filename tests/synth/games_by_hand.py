"""Exact laws of small games: shared by the tests of DualQuery, DQRS and FEM."""

import itertools

import numpy as np

from dpassay.synth import Schema, Workload
from dpassay.synth.models import Records, universe
from dpassay.synth.oracles import Found

ORDERS = np.array([1.5, 2.0, 4.0, 16.0, 64.0])


def first_best(goal, noise, rng):
    """An oracle without noise or chance: the first of the best cells."""
    cells = universe(goal.schema, 100)
    values = goal.values(cells)
    best = int(np.flatnonzero(values > values.max() - 1e-9)[0])
    return Found(cells[[best] * len(noise)], values[[best] * len(noise)], np.zeros(len(noise)))


class Toy:
    """One column: signed queries are "is it c?" and "is it not c?" of each code c."""

    def __init__(self, size):
        self.size = size
        self.schema = Schema({"x": range(size)})
        self.workload = Workload.marginals([("x",)])
        self.values = np.concatenate([np.eye(size), 1 - np.eye(size)])  # of query, code

    def answers(self, counts, n):
        """Of all signed queries; sums over records, over the public n."""
        return self.values @ np.asarray(counts, float) / n

    def reply(self, picks):
        """The code that ``first_best`` gives for these queries."""
        total = self.values[list(picks)].sum(axis=0)
        return int(np.flatnonzero(total > total.max() - 1e-9)[0])

    def data(self, counts, n):
        return Records(self.schema, np.repeat(np.arange(self.size), counts)[:, None], n)

    def neighbours(self, n, relation):
        """Pairs of all counts of n records and their neighbours."""
        for counts in itertools.product(range(n + 1), repeat=self.size):
            if sum(counts) != n:
                continue
            for i, j in itertools.product(range(self.size), repeat=2):
                other = list(counts)
                if relation == "add-remove":
                    other[i] += 1
                    if j == 0:
                        yield counts, tuple(other)
                elif i != j and counts[i]:
                    other[i] -= 1
                    other[j] += 1
                    yield counts, tuple(other)


def softmax(logits):
    weights = np.exp(logits - np.max(logits))
    return weights / weights.sum()


def worst(laws):
    """The largest log-ratio and Rényi divergences over pairs of laws, in both directions."""
    ratio, divergence = 0.0, np.zeros(len(ORDERS))
    for p, q in laws:
        a, b = np.array([p[key] for key in p]), np.array([q[key] for key in p])
        assert abs(a.sum() - 1) < 1e-9
        assert abs(b.sum() - 1) < 1e-9
        loss = np.log(a / b)
        ratio = max(ratio, np.abs(loss).max())
        for weights, sign in ((a, 1), (b, -1)):
            moments = np.exp(np.outer(ORDERS - 1, sign * loss)) @ weights
            divergence = np.maximum(divergence, np.log(moments) / (ORDERS - 1))
    return ratio, divergence
