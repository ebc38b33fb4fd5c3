# ruff: noqa: NPY002  (functions of np.random are what is tested)
"""Planted privacy bugs, each with its honest twin; the line to be named ends in ``# here``."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import dpassay as da

_RNG = np.random.default_rng(20)
X = _RNG.normal(size=(60, 3)) / 2
LABELS = (X[:, 0] + 0.3 * _RNG.normal(size=60) > 0).astype(int) * 2 - 1
TABLE = (X, LABELS)
VALUES = _RNG.random(60)
CODES = np.arange(60) % 4
STEPS, SIGMA, LR = 6, 2.0, 0.5
TRAINED = da.GDP(math.sqrt(STEPS) / SIGMA)
POISSON = da.dp_sgd_event(SIGMA, 0.3, STEPS)


@dataclass(frozen=True)
class Program:
    """A broken mechanism, its twin, and which rules may find the bug (empty: it stays open)."""

    broken: Callable[..., Any]
    honest: Callable[..., Any]
    rules: tuple[str, ...]
    data: Any
    claim: Any
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.broken.__name__


PROGRAMS: list[Program] = []


def planted(rules, data, claim, honest, **options):
    def keep(broken):
        rule_set = tuple(rules.split()) if rules else ()
        PROGRAMS.append(Program(broken, honest, rule_set, data, claim, options))
        return broken

    return keep


# Training


def gradients(w, X, y):
    return -(y / (1 + np.exp(np.clip(y * (X @ w), -50, 50))))[:, None] * X


def clipped(g):
    norms = np.linalg.norm(g, axis=1, keepdims=True)
    return g / np.maximum(norms, 1.0)


def sgd(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + SIGMA * rng.standard_normal(w.size)) / 60
    return w


def poisson_sgd(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        batch = rng.random(len(X)) < 0.3
        total = clipped(gradients(w, X[batch], y[batch])).sum(axis=0)
        w -= LR * (total + rng.normal(0, SIGMA, w.size)) / 18
    return w


@planted("DPA202", TABLE, TRAINED, sgd)
def half_noise(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + SIGMA / 2 * rng.standard_normal(w.size)) / 60  # here
    return w


@planted("DPA202", TABLE, POISSON, poisson_sgd)
def half_noise_poisson(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        batch = rng.random(len(X)) < 0.3
        total = clipped(gradients(w, X[batch], y[batch])).sum(axis=0)
        w -= LR * (total + rng.normal(0, SIGMA / 2, w.size)) / 18  # here
    return w


@planted("DPA202", TABLE, TRAINED, sgd)
def batch_clipped(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        mean = gradients(w, X, y).mean(axis=0)
        mean = mean / max(np.linalg.norm(mean), 1.0)
        w = w - LR * (60 * mean + SIGMA * rng.standard_normal(w.size)) / 60  # here
    return w


@planted("DPA202", TABLE, TRAINED, sgd)
def not_clipped(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = gradients(w, X, y).sum(axis=0)
        w = w - LR * (total + SIGMA * rng.standard_normal(w.size)) / 60  # here
    return w


@planted("DPA202", TABLE, TRAINED, sgd)
def centred_by_batch(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X - X.mean(axis=0), y)).sum(axis=0)
        w = w - LR * (total + SIGMA * rng.standard_normal(w.size)) / 60  # here
    return w


@planted("DPA202", TABLE, TRAINED, sgd)
def normalised_by_data(data, rng):
    X, y = data
    X = X / np.abs(X).max()
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(5 * gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + SIGMA * rng.standard_normal(w.size)) / 60  # here
    return w


def fixed_stop(data, rng):
    return sgd(data, rng)


@planted("DPA101", TABLE, TRAINED, fixed_stop)
def early_stopping(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + SIGMA * rng.standard_normal(w.size)) / 60  # here
        if np.mean(np.logaddexp(0, -y * (X @ w))) > 0.9:
            break
    return w


@planted("DPA202", TABLE, TRAINED, sgd)
def never_zeroed(data, rng):
    X, y = data
    w, total = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = total + clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + SIGMA * rng.standard_normal(w.size)) / 60  # here
    return w


@planted("DPA301", TABLE, TRAINED, sgd)
def update_before_noise(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        noisy = total + SIGMA * rng.standard_normal(w.size)
        w = w - LR * total / 60
    return w, noisy


@planted("DPA402", TABLE, TRAINED, sgd)
def noise_object_reused(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    noise = SIGMA * rng.standard_normal(w.size)
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + noise) / 60  # here
    return w


@planted("DPA402", TABLE, TRAINED, sgd)
def seeded_anew(data, rng):
    X, y = data
    w, seed = np.zeros(X.shape[1]), int(rng.integers(2**31))
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        noise = np.random.default_rng(seed).normal(0, SIGMA, w.size)
        w = w - LR * (total + noise) / 60  # here
    return w


@planted("DPA403", TABLE, TRAINED, sgd)
def seed_fixed(data, rng):
    X, y = data
    w, rng = np.zeros(X.shape[1]), np.random.default_rng(7)
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + rng.normal(0, SIGMA, w.size)) / 60  # here
    return w


def _unseeded(data, rng):
    X, y = data
    w, rng = np.zeros(X.shape[1]), np.random.default_rng()
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + rng.normal(0, SIGMA, w.size)) / 60
    return w


@planted("DPA202", TABLE, TRAINED, _unseeded)
def half_noise_of_own_generator(data, rng):
    X, y = data
    w, rng = np.zeros(X.shape[1]), np.random.default_rng()
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + rng.normal(0, SIGMA / 2, w.size)) / 60  # here
    return w


@planted("DPA202", TABLE, TRAINED, sgd)
def divided_twice(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + SIGMA / 60 * rng.standard_normal(w.size)) / 60  # here
    return w


@planted("DPA301", TABLE, TRAINED, sgd)
def divided_by_n(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        w = w - LR * (total + SIGMA * rng.standard_normal(w.size)) / len(X)  # here
    return w


@planted("DPA301", TABLE, TRAINED, sgd)
def rate_from_private_loss(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        total = clipped(gradients(w, X, y)).sum(axis=0)
        step = LR / (1 + np.mean(np.logaddexp(0, -y * (X @ w))))
        w = w - step * (total + SIGMA * rng.standard_normal(w.size)) / 60  # here
    return w


@planted("DPA501", TABLE, POISSON, poisson_sgd)
def shuffled(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    order = rng.permutation(len(X))  # here
    for batch in np.array_split(order, STEPS):
        total = clipped(gradients(w, X[batch], y[batch])).sum(axis=0)
        w -= LR * (total + rng.normal(0, SIGMA, w.size)) / 18
    return w


@planted("DPA501", TABLE, POISSON, poisson_sgd)
def fixed_size(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        batch = rng.choice(len(X), 18, replace=False)  # here
        total = clipped(gradients(w, X[batch], y[batch])).sum(axis=0)
        w -= LR * (total + rng.normal(0, SIGMA, w.size)) / 18
    return w


@planted("DPA501 DPA202", TABLE, POISSON, poisson_sgd)
def twice_the_rate(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        batch = rng.random(len(X)) < 0.6  # here
        total = clipped(gradients(w, X[batch], y[batch])).sum(axis=0)
        w -= LR * (total + rng.normal(0, SIGMA, w.size)) / 18
    return w


@planted("DPA104", TABLE, POISSON, poisson_sgd)
def rate_from_n(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        batch = rng.random(len(X)) < 18 / len(X)  # here
        total = clipped(gradients(w, X[batch], y[batch])).sum(axis=0)
        w -= LR * (total + rng.normal(0, SIGMA, w.size)) / 18
    return w


@planted("DPA102", TABLE, TRAINED, sgd)
def clip_norm_from_data(data, rng):
    X, y = data
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        g = gradients(w, X, y)
        limit = np.median(np.linalg.norm(g, axis=1))
        g = g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True) / limit, 1.0)
        w = w - LR * (g.sum(axis=0) + limit * SIGMA * rng.standard_normal(w.size)) / 60  # here
    return w


def _finite_sgd(data, rng):
    X, y = data
    X = np.where(np.isfinite(X).all(axis=1, keepdims=True), X, 0.0)
    return sgd((X, y), rng)


# Statistics


def mean(x, rng):
    total = np.clip(x, 0, 1).sum() + rng.laplace(scale=2.0)
    count = len(x) + rng.laplace(scale=2.0)
    return total / max(count, 1.0)


@planted("DPA301", VALUES, da.PureDP(1.0), mean)
def mean_by_true_count(x, rng):
    total = np.clip(x, 0, 1).sum() + rng.laplace(scale=1.0)
    return total / len(x)  # here


def total(x, rng):
    return np.clip(x, 0, 1).sum() + rng.laplace(scale=1.0)


@planted("DPA102", VALUES, da.PureDP(1.0), total)
def range_from_data(x, rng):
    low, high = x.min(), x.max()
    return np.clip(x, low, high).sum() + rng.laplace(scale=max(abs(low), abs(high)))  # here


@planted("DPA102", VALUES, da.PureDP(1.0), total)
def scale_from_deviation(x, rng):
    return x.sum() + rng.laplace(scale=3 * x.std())  # here


def two_releases(x, rng):
    x = np.clip(x, 0, 1)
    return x.sum() + rng.laplace(scale=2.0), (x**2).sum() + rng.laplace(scale=2.0)


@planted("DPA402", VALUES, da.PureDP(1.0), two_releases)
def one_noise_for_two(x, rng):
    x, noise = np.clip(x, 0, 1), rng.laplace(scale=2.0)
    first = x.sum() + noise
    second = (x**2).sum() + noise  # here
    return first, second


@planted("DPA202", VALUES, da.PureDP(1.0), two_releases)
def budget_spent_twice(x, rng):
    x = np.clip(x, 0, 1)
    first = x.sum() + rng.laplace(scale=1.0)  # here
    return first, (x**2).sum() + rng.laplace(scale=1.0)  # here


def fixed_bins(x, rng):
    counts, _ = np.histogram(np.clip(x, 0, 1), bins=4, range=(0, 1))
    return counts + rng.laplace(size=4)


@planted("DPA301 DPA202", VALUES, da.PureDP(1.0), fixed_bins)
def bins_from_data(x, rng):
    counts, edges = np.histogram(x, bins=4)
    return counts + rng.laplace(size=4), edges


def declared_categories(codes, rng):
    return {k: (codes == k).sum() + rng.laplace() for k in range(6)}


@planted("DPA101 DPA103 DPA301", CODES, da.PureDP(1.0), declared_categories)
def categories_from_data(codes, rng):
    return {k: (codes == k).sum() + rng.laplace() for k in sorted(set(codes.tolist()))}  # here


CELLS = np.array([0] * 40 + [1] * 18 + [2] + [3])


def all_cells(codes, rng):
    return np.bincount(np.clip(codes, 0, 3), minlength=4) + rng.laplace(size=4)


@planted("DPA301", CELLS, da.PureDP(1.0), all_cells)
def empty_cells_hidden(codes, rng):
    counts = np.bincount(np.clip(codes, 0, 3), minlength=4)
    noisy = counts + rng.laplace(size=4)
    return {i: noisy[i] for i in range(4) if counts[i] > 0}


@planted("DPA103", CELLS, da.PureDP(1.0), all_cells)
def noise_on_occupied_cells(codes, rng):
    counts = np.bincount(np.clip(codes, 0, 3), minlength=4)
    occupied = counts[counts > 0]
    return occupied + rng.laplace(size=occupied.size)  # here


# Selection and answers


def votes(codes):
    return np.bincount(np.clip(codes, 0, 3), minlength=4).astype(float)


def noisy_max(codes, rng):
    return int(np.argmax(votes(codes) + rng.laplace(scale=1.0, size=4)))


@planted("DPA202", CODES, da.PureDP(1.0), noisy_max)
def noisy_max_with_value(codes, rng):
    noisy = votes(codes) + rng.laplace(scale=0.5, size=4)  # here
    return int(np.argmax(noisy)), noisy.max()


@planted("DPA202", CODES, da.PureDP(1.0, neighbouring="replace-one"), lambda codes, rng: int(
    np.argmax([v + rng.laplace(scale=2.0) for v in votes(codes)])))  # fmt: skip
def noisy_max_by_list(codes, rng):
    return int(np.argmax([v + rng.laplace(scale=1.0) for v in votes(codes)]))  # here


def exponential(codes, rng):
    weights = np.exp(votes(codes) / 2)
    return int(rng.choice(4, p=weights / weights.sum()))


@planted("DPA202", CODES, da.PureDP(1.0), exponential)
def exponential_factor_forgotten(codes, rng):
    weights = np.exp(2 * votes(codes))
    return int(rng.choice(4, p=weights / weights.sum()))  # here


def gumbel(codes, rng):
    return int((votes(codes) + rng.gumbel(scale=2.0, size=4)).argmax())


@planted("DPA202", CODES, da.PureDP(1.0, neighbouring="replace-one"), gumbel)
def gumbel_factor_forgotten(codes, rng):
    return int((votes(codes) + rng.gumbel(scale=0.5, size=4)).argmax())  # here


ANSWERS = np.arange(60) % 2


def answers_given_at_random(bits, rng):
    return rng.random(len(bits)) < np.where(bits > 0, 0.73, 0.27)


@planted("DPA202", ANSWERS, da.PureDP(1.0, neighbouring="replace-one"), answers_given_at_random)
def answers_nearly_true(bits, rng):
    return rng.random(len(bits)) < np.where(bits > 0, 0.9, 0.1)  # here


def count_geometric(codes, rng):
    return int((codes > 1).sum()) + rng.geometric(0.63) - rng.geometric(0.63)


@planted("DPA202", CODES, da.PureDP(1.0), count_geometric)
def geometric_too_narrow(codes, rng):
    return int((codes > 1).sum()) + rng.geometric(0.9) - rng.geometric(0.9)  # here


def queries(codes):
    return [(codes == k).sum() for k in range(4)] * 2


def sparse_vector(codes, rng):
    limit = 14 + rng.laplace(scale=2.0)
    answers = []
    for q in queries(codes):
        answers.append(bool(q + rng.laplace(scale=4.0) > limit))
        if answers[-1]:
            break
    return answers


@planted("DPA402", CODES, da.PureDP(1.0), sparse_vector)
def sparse_vector_without_query_noise(codes, rng):
    limit = 14 + rng.laplace(scale=1.0)
    return [bool(q > limit) for q in queries(codes)]  # here


def above_threshold_once(codes, rng):
    return bool((codes > 1).sum() + rng.laplace(scale=1.0) > 20)


@planted("DPA202", np.array([3] * 20), da.PureDP(1.0), above_threshold_once)
def above_threshold_too_sharp(codes, rng):
    return bool((codes > 1).sum() + rng.laplace(scale=0.3) > 20)  # here


# Styles of drawing


@planted("DPA202", VALUES, da.PureDP(1.0), lambda x: np.clip(x, 0, 1).sum() + np.random.laplace())
def legacy_function(x):
    return np.clip(x, 0, 1).sum() + np.random.laplace(scale=0.5)  # here


@planted("DPA202", VALUES, da.GDP(1.0), lambda x: sum(np.clip(x, 0, 1)) + random.gauss(0, 1))
def standard_library(x):
    return sum(np.clip(x, 0, 1)) + random.gauss(0, 0.5)  # here


@planted("DPA202", VALUES, da.GDP(1.0), lambda x, rng: rng.normal(np.clip(x, 0, 1).sum(), 1.0))
def drawn_around_the_query(x, rng):
    return rng.normal(np.clip(x, 0, 1).sum(), 0.5)  # here


def in_place(x, rng):
    counts = np.histogram(np.clip(x, 0, 1), bins=4, range=(0, 1))[0].astype(float)
    counts += rng.laplace(size=4)
    return counts


@planted("DPA202", VALUES, da.PureDP(1.0), in_place)
def in_place_half(x, rng):
    counts = np.histogram(np.clip(x, 0, 1), bins=4, range=(0, 1))[0].astype(float)
    counts += 0.5 * rng.laplace(size=4)  # here
    return counts


def one_by_one(x, rng):
    tot = rng.laplace()
    for value in x:
        tot += min(max(value, 0.0), 1.0)
    return float(tot)


@planted("DPA202", VALUES, da.PureDP(1.0), one_by_one)
def one_by_one_half(x, rng):
    tot = rng.laplace(scale=0.5)
    for value in x:
        tot += min(max(value, 0.0), 1.0)  # here
    return float(tot)


FRAME = pd.DataFrame({"group": CODES, "value": VALUES})


def by_group(frame, rng):
    counts = frame["group"].value_counts().reindex(range(4), fill_value=0)
    return counts + rng.laplace(size=4)


@planted("DPA202", FRAME, da.PureDP(1.0), by_group)
def by_group_half(frame, rng):
    counts = frame["group"].value_counts().reindex(range(4), fill_value=0)
    return counts + rng.laplace(scale=0.5, size=4)  # here


def from_scipy(x, rng):
    from scipy import stats

    return np.clip(x, 0, 1).sum() + stats.laplace.rvs(scale=1.0, random_state=rng)


@planted("DPA202", VALUES, da.PureDP(1.0), from_scipy)
def from_scipy_half(x, rng):
    from scipy import stats

    return np.clip(x, 0, 1).sum() + stats.laplace.rvs(scale=0.5, random_state=rng)  # here


# What cannot be followed stays open: the broken one and its twin look alike.


def _box_muller(scale):
    def release(x, rng):
        u, v = rng.random(), rng.random()
        z = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        return np.clip(x, 0, 1).sum() + scale * z

    return release


def _inverse(scale):
    def release(x, rng):
        u = rng.random() - 0.5
        return np.clip(x, 0, 1).sum() - scale * np.sign(u) * np.log(1 - 2 * abs(u))

    return release


box_muller, inverse_cdf = _box_muller(0.5), _inverse(0.5)
box_muller.__name__, inverse_cdf.__name__ = "box_muller", "inverse_cdf"
planted("", VALUES, da.GDP(1.0), _box_muller(1.0))(box_muller)
planted("", VALUES, da.PureDP(1.0), _inverse(1.0))(inverse_cdf)
