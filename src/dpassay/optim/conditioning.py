"""Rows of even size in every direction, by statistics of the data that are released and paid for.

Gradient steps on raw features waste their noise: columns of different sizes need different steps,
and a common offset makes every gradient longer than what it says. Three small Gaussian releases
(:func:`condition_rows`) give a centre, a scale per column, a unit of length and a size of the
second moment, after which one rule of steps fits data of any kind. Each statistic is a sum over
records, divided by a public number; everything after the noise is post-processing.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dpassay import _check
from dpassay.optim.clipping import lengths, rounding
from dpassay.optim.losses import Rows
from dpassay.optim.products import some_rows, sum_of_pieces
from dpassay.types import FloatArray

CONSTANT = 0.25
"""The intercept's feature, in units of a typical row: small, for it is in every gradient."""
_PER_OCTAVE, _OCTAVES = 2, 10
_PROBES, _LONGEST = 20, 1.5


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Centred and scaled rows, and how to get back.

    Attributes:
        rows: (x - center) · scale, of typical norm 1, with a constant feature of :data:`CONSTANT`.
        center, scale: one per column of X.
        second_moment: the Frobenius norm of the mean of [c, x][c, x]', never below its largest
            eigenvalue but for noise, one deviation of which is added.

    """

    rows: Rows
    center: FloatArray
    scale: FloatArray
    second_moment: float

    def restore(self, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients (K, p) and intercepts (K,) for X, from weights (1 + p, K) for the rows."""
        coef = (W[1:] * self.scale[:, None]).T
        return coef, self.rows.constant * W[0] - coef @ self.center


def condition_rows(
    X: Any,
    *,
    norm_bound: float,
    n_records: int,
    noise: tuple[float, float, float],
    evenness: float,
    intercept: bool,
    rng: np.random.Generator,
) -> Conditioned:
    """The rows of X made even, by three Gaussian releases.

    Args:
        X: (n, p), dense or CSR (which stays sparse), every row of l2 norm ``norm_bound`` at most.
        norm_bound: the bound on the l2 norm of every row.
        n_records: the public number of records that sums are divided by.
        noise: deviations over add-remove sensitivities of: the sums of columns, the histogram of
            norms, the size of the second moment. For replace-one pass twice the deviation.
        evenness: which share of the mean column size is added to every column's before it is
            divided by; large values leave the columns as they are.
        intercept: whether rows get a constant feature; without it they are not centred either,
            for that would be an intercept when it is undone.
        rng: draws the noise.

    """
    n_records = _check.count("n_records", n_records)
    center, sizes, error = column_sizes(X, norm_bound, n_records, noise[0], rng)
    center = center if intercept else np.zeros_like(center)
    scale = 1 / np.sqrt(sizes + error + evenness * max(float(sizes.mean()), 1e-12 * norm_bound))
    scale /= math.sqrt(float(np.mean(scale**2)))
    norms = _move(X, center, scale, 0.0).norms()
    scale = scale / typical_norm(norms, norm_bound, noise[1], rng)
    rows = _move(X, center, scale, CONSTANT if intercept else 0.0)
    moment = second_moment(rows, n_records, noise[2], rng)
    return Conditioned(rows, center, scale, moment)


def _move(X: Any, center: FloatArray, scale: FloatArray, constant: float) -> Rows:
    scale = scale.astype(X.dtype)
    if sparse.issparse(X):
        return Rows((X @ sparse.diags_array(scale)).tocsr(), constant, center * scale)
    rows = X - center.astype(X.dtype)
    rows *= scale
    return Rows(rows, constant)


def column_sizes(
    X: Any, norm_bound: float, n_records: int, deviation: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, float]:
    """Noisy means of the columns and of their absolute values, and the noise's deviation.

    What is released is the sum of (x+, x-), the positive and negative parts: 2p numbers, but
    ||(x+, x-)||_2 = ||x||_2, so that one record moves them by ``norm_bound`` and both means come at
    the price of one. Each half is then shrunk towards 0 (James and Stein 1961).
    """
    error = deviation * norm_bound * (1 + rounding(False, n_records)) / n_records
    positive, negative = (
        _shrink(_sums_of_positive_parts(X, sign) / n_records, error, rng) for sign in (1, -1)
    )
    return positive - negative, np.maximum(positive + negative, 0.0), error


def _sums_of_positive_parts(X: Any, sign: int) -> FloatArray:
    """In double precision and in pieces, as :func:`dpassay.optim.clipping.rounding` asks for."""

    def of(part: slice) -> FloatArray:
        rows = some_rows(X, part) if sign > 0 else -some_rows(X, part)
        rows = rows.maximum(0) if sparse.issparse(X) else np.maximum(rows, 0)
        return np.asarray(rows.sum(axis=0, dtype=float)).ravel()

    return sum_of_pieces(of, X.shape[0])


def _shrink(mean: FloatArray, error: float, rng: np.random.Generator) -> FloatArray:
    noisy = mean + error * rng.standard_normal(mean.shape)
    energy = float(noisy @ noisy)
    return noisy * max(0.0, 1 - mean.size * error**2 / energy) if energy > 0 else noisy


def typical_norm(
    norms: FloatArray, norm_bound: float, deviation: float, rng: np.random.Generator
) -> float:
    """The median of the norms, from a noisy histogram on a grid of ratio sqrt(2).

    A record is in one bin, so the histogram's l2 sensitivity is 1 under add-remove (and at most 2
    under replace-one). Bins below three deviations are taken as empty.
    """
    places = np.arange(-_PER_OCTAVE * _OCTAVES, _PER_OCTAVE * _OCTAVES + 1) / _PER_OCTAVE
    edges = norm_bound * 2.0**places
    bins = np.clip(np.searchsorted(edges, norms, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(bins, minlength=len(edges) - 1).astype(float)
    counts += deviation * rng.standard_normal(counts.shape)
    counts[(counts < 3 * deviation) & (counts < counts.max())] = 0
    counts = np.maximum(counts, 1e-300)
    shares = np.cumsum(counts) / counts.sum()
    return float(2.0 ** np.interp(0.5, np.concatenate([[0.0], shares]), np.log2(edges)))


def second_moment(rows: Rows, n_records: int, deviation: float, rng: np.random.Generator) -> float:
    """The Frobenius norm of the mean of aa', a = [c, x], plus noise and one deviation of it.

    Through a public sketch: for G of independent normal entries, k columns, ||A G||_F / sqrt(k)
    estimates ||A||_F. A record adds w a (a'G) to A G, whose norm is w ||a|| ||a'G||; the weight
    w = min(1, B/||a||) min(1, B sqrt(k)/||a'G||) brings it to B² sqrt(k) at most, so that (by the
    triangle inequality) one record changes the estimate by B²/n_records, B = 1.5. Two products
    with the data, as many columns as a gradient step of k classes.
    """
    probes = rng.standard_normal((rows.shape[1], _PROBES)).astype(rows.X.dtype)
    images = rows.scores(probes)
    sizes = np.linalg.norm(images.astype(float), axis=1) / math.sqrt(_PROBES)
    weights = _LONGEST / np.maximum(lengths(rows), _LONGEST)
    weights *= _LONGEST / np.maximum(sizes, _LONGEST)
    total = rows.adjoint((images * weights[:, None]).astype(rows.X.dtype))
    size = float(np.linalg.norm(total.astype(float))) / math.sqrt(_PROBES) / n_records
    error = deviation * _LONGEST**2 * (1 + rounding(False, n_records)) / n_records
    return max(float(size + error * rng.standard_normal()), 0.0) + error
