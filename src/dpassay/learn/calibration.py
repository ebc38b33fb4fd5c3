"""Probabilities that mean what they say: known noise is taken out, the rest is measured and paid.

A private classifier is too sure of itself for two reasons. Its weights carry noise, which makes
scores too large; and clipping holds back the large gradients, which are those of the rarer class,
so that its probability comes out too small. The first is known and undone for nothing
(:class:`Spread`); the second is measured by two small Gaussian releases (:class:`Calibrator`).

**Moderation** (MacKay 1992). If the score of a row is normal around eta with variance V, the
expected probability is close to sigmoid(eta / sqrt(1 + pi V / 8)). Post-processing.

**Offset and slope, two classes.** Let t be the moderated score of a training record and
p = sigmoid(t). Released are (i) the *bias*, the sum of y - p, and (ii) a histogram of records by
ranges of t and by label. The calibrated score is a t + b, with (a, b) the posterior mean under
normal noise and normal priors of log a and b: where noise says nothing the moderated score stays
as it is, and where it says little the bias alone moves the offset. How many records each range has
is expected to be as for a normal score, whose mean and deviation follow from the released weights
and from what the rows were conditioned to.

*Few records.* Where n mu is small, 3 % of mu² for each release would leave the base rate unknown,
and a model that hardly knows anything would be worse than a constant. There the shares grow as
(15/(n mu))², which keeps the noise at a fifteenth of the records, up to 40 % and 20 %; below
n mu = 120 the histogram has two ranges, the halves of the expected law, which are all that can be
told apart; and the slope is expected to be a half, give or take a factor of e, as most scores there
are noise. These numbers were chosen on generated tables, digits and breast cancer, with the table
``attrition`` of the benchmark in view.

**More classes.** Released are (i) the sums of (1[y = c] - p_c) and of 1[y = c], which give each
class the offset log(labels / predicted), held back by the noise; and (ii) the histogram of the
likeliest class's probability by whether it is right, which gives a common slope in the same way.

**Sensitivities.** t is a function of released weights and of the record alone, bit for bit, so that
a record touches its own terms only; its weight w is at most 1.

=========================== ============= =====================================================
statistic                   add or remove replace
=========================== ============= =====================================================
sum of w (y - p)            1             2, since each term lies in [-1, 1]
histogram                   1             sqrt(2): one cell loses w, another gains w'; in the same
                                          cell it is |w - w'| <= 1
sums of w (1[y] - p, 1[y])  sqrt(3)       sqrt(10): |e_y - p|² <= 2, hence twice that length, and
                                          |w e_y - w' e_y'|² <= 2
=========================== ============= =====================================================

The first part is released before the second is computed, which uses it; the squares of mu add.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpassay.optim.clipping import rounding
from dpassay.optim.products import PIECE, row_products, some_rows, sum_of_pieces
from dpassay.privacy import Event, Gaussian
from dpassay.types import FloatArray, Neighbouring

LEAST, MOST = (0.03, 0.03), (0.4, 0.2)
"""The least and the largest shares of mu² of the two releases, bias and histogram."""
_KNOWN = 15.0  # records over the noise of a release, where its share is between those two
_FEW = 120.0  # records over all noise, n mu, below which scores have two ranges
_EDGES = np.array([0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8])
_ENDS = np.concatenate([[0.0], _EDGES, [1.0]])
_HALF = math.sqrt(2 / math.pi)  # how far the mean of half a normal law is from the middle
_SLOPE, _FLAT = (0.0, 0.7), (-0.7, 1.0)  # priors of log a: mean, deviation
_OFFSET = 2.0  # deviation of the prior of b
_POINTS, _ZOOMS = 41, 5


def moderate(scores: Any, variances: Any) -> Any:
    """Scores whose sigmoid is close to the mean of the sigmoid of normal ones.

    >>> round(float(special.expit(moderate(2.0, 8 / math.pi))), 4)
    0.8044

    """
    return scores / np.sqrt(1 + math.pi / 8 * variances)


@dataclass(frozen=True, eq=False)
class Spread:
    """The variance of a row's scores that noise in the weights makes: at + sum by (x - m)².

    Attributes:
        at: the variance at the point m, one per score.
        by: its growth with each squared distance from m, of shape (scores, p).
        point: m, of shape (p,).

    """

    at: FloatArray
    by: FloatArray
    point: FloatArray

    def rescale(self, scale: FloatArray, centre: FloatArray) -> "Spread":
        """The same for rows x · scale + centre."""
        return Spread(self.at, self.by / np.square(scale), self.point * scale + centre)

    def moderate(self, X: Any, scores: FloatArray) -> FloatArray:
        """Moderated scores (n, K); those of a row are a function of the row, bit for bit."""
        parts = (slice(i, i + 16 * PIECE) for i in range(0, X.shape[0], 16 * PIECE))
        variances = np.concatenate([self._variances(some_rows(X, part)) for part in parts])
        return moderate(scores, variances)

    def _variances(self, X: Any) -> FloatArray:
        if not isinstance(X, np.ndarray):
            along = row_products(X, 2 * (self.by * self.point).T)
            still = self.at + self.by @ np.square(self.point)
            # Squares that are taken apart may come out below zero by rounding.
            return np.maximum(row_products(X.multiply(X).tocsr(), self.by.T) - along + still, 0.0)
        return row_products(np.square(X - self.point), np.ascontiguousarray(self.by.T)) + self.at


@dataclass(frozen=True, eq=False)
class Calibration:
    """What makes calibrated scores of raw ones: moderation, then slope · score + offsets.

    Attributes:
        spread: of the raw scores; None where noise is too small to matter.
        slope: common to all scores.
        offsets: one per score.

    """

    spread: Spread | None = None
    slope: float = 1.0
    offsets: FloatArray | float = 0.0

    def __call__(self, X: Any, scores: FloatArray) -> FloatArray:
        """Calibrated scores (n, K) of the rows."""
        if self.spread is not None:
            scores = self.spread.moderate(X, scores)
        return self.slope * scores + self.offsets

    def rescale(self, scale: FloatArray, centre: FloatArray) -> "Calibration":
        """The same for rows x · scale + centre."""
        spread = self.spread and self.spread.rescale(scale, centre)
        return Calibration(spread, self.slope, self.offsets)


@dataclass(frozen=True, eq=False)
class _Ranges:
    """Ranges of scores, and what is expected before anything is counted.

    Attributes:
        edges: between the ranges.
        centres: the scores that stand for them.
        masses: the shares of the records.
        slope: mean and deviation of the prior of log a.

    """

    edges: FloatArray
    centres: FloatArray
    masses: FloatArray
    slope: tuple[float, float] = _SLOPE


_TEN = _Ranges(special.logit(_EDGES), special.logit((_ENDS[1:] + _ENDS[:-1]) / 2), np.full(10, 0.1))


def _ten_ranges(mean: float, deviation: float) -> _Ranges:
    """The fixed ranges, with the shares of a normal score."""
    ends = (_TEN.edges - mean) / max(deviation, 1e-300)
    masses = np.diff(np.concatenate([[0.0], special.ndtr(ends), [1.0]]))
    return _Ranges(_TEN.edges, _TEN.centres, masses)


def _two_ranges(mean: float, deviation: float) -> _Ranges:
    """The two halves of a normal score."""
    far = _HALF * deviation
    return _Ranges(np.array([mean]), np.array([mean - far, mean + far]), np.full(2, 0.5), _FLAT)


@dataclass(frozen=True)
class Calibrator:
    """The two releases that calibrate scores, decided from public quantities.

    Args:
        mu: the Gaussian privacy of the whole fit, of whose square they take their shares.
        n_records: the public number of records.
        n_classes: the number of labels.
        neighbouring: the relation.

    """

    mu: float
    n_records: int
    n_classes: int
    neighbouring: Neighbouring

    @property
    def signal(self) -> float:
        """Records over noise: n mu, halved where a record is replaced."""
        return self.n_records * self.mu / (1 if self.neighbouring == "add-remove" else 2)

    @property
    def shares(self) -> tuple[float, float]:
        """What of mu² the two releases take."""
        if self.n_classes > 2:
            return LEAST
        wanted = (_KNOWN / self.signal) ** 2
        bias, bins = (min(b, max(a, wanted)) for a, b in zip(LEAST, MOST, strict=True))
        return bias, bins

    @property
    def noise_multipliers(self) -> tuple[float, float]:
        """The noise of the two releases over their sensitivities."""
        bias, bins = (1 / (self.mu * math.sqrt(share)) for share in self.shares)
        return bias, bins

    @property
    def events(self) -> tuple[Event, ...]:
        """What is done to the data: two Gaussian releases."""
        return tuple(Gaussian(noise, self.neighbouring) for noise in self.noise_multipliers)

    @property
    def sensitivities(self) -> tuple[float, float]:
        """Those of the bias and of the histogram, as the module derives them, and rounding."""
        two, alone = self.n_classes == 2, self.neighbouring == "add-remove"
        bias = (1.0 if alone else 2.0) if two else math.sqrt(3 if alone else 10)
        more = 1 + rounding(False, self.n_records)
        return bias * more, (1.0 if alone else math.sqrt(2)) * more

    @property
    def deviations(self) -> tuple[float, float]:
        """The deviations of the noise in the bias and in every cell of the histogram."""
        pairs = zip(self.noise_multipliers, self.sensitivities, strict=True)
        bias, bins = (noise * by for noise, by in pairs)
        return bias, bins

    def fit(
        self,
        scores: FloatArray,
        codes: FloatArray,
        weights: FloatArray | None,
        rng: np.random.Generator,
        usual: tuple[float, float] | None = None,
    ) -> tuple[float, FloatArray]:
        """Slope and offsets, from moderated scores (n, K) of the training records.

        Args:
            scores: of every record, a function of released numbers and the record alone.
            codes: the places of the labels.
            weights: of the records, in [0, 1]; None for 1.
            rng: draws the noise.
            usual: mean and deviation that scores of two classes are expected to have.

        """
        records = _Labelled(scores, codes, weights)
        if scores.shape[1] == 1:
            return self._fit_two(records, self._ranges(usual), rng)
        return self._fit_more(records, rng)

    def _ranges(self, usual: tuple[float, float] | None) -> _Ranges:
        if usual is None:
            return _TEN
        return _two_ranges(*usual) if self.signal < _FEW else _ten_ranges(*usual)

    def _fit_two(
        self, records: "_Labelled", ranges: _Ranges, rng: np.random.Generator
    ) -> tuple[float, FloatArray]:
        bias = self._noisy(records.sum(_bias_of_two), 0, rng)
        t, hit = records.scores[:, 0], records.codes > 0
        cells = self._noisy(records.count(t, hit, ranges.edges), 1, rng)
        total = records.total(self.n_records)
        slope, offset = self._posterior_mean(cells, float(bias[0]), total, ranges)
        return slope, np.array([offset])

    def _fit_more(self, records: "_Labelled", rng: np.random.Generator) -> tuple[float, FloatArray]:
        k = self.n_classes
        sums = self._noisy(records.sum(_bias_of_more), 0, rng)
        held, labels = 2 * self.deviations[0], np.maximum(sums[k:], 0.0)
        predicted = np.maximum(labels - sums[:k], 0.0)
        offsets = np.log((labels + held) / (predicted + held))
        shifted = records.scores + offsets
        top = shifted.argmax(axis=1)
        others = special.logsumexp(shifted, axis=1, b=_all_but(top, k))
        margin = np.take_along_axis(shifted, top[:, None], axis=1)[:, 0] - others
        cells = self._noisy(records.count(margin, top == records.codes, _TEN.edges), 1, rng)
        total = records.total(self.n_records)
        slope, _ = self._posterior_mean(cells, None, total, _TEN, math.log(k - 1))
        return slope, slope * offsets

    def _noisy(self, sums: FloatArray, part: int, rng: np.random.Generator) -> FloatArray:
        return sums + self.deviations[part] * rng.standard_normal(sums.shape)

    def _posterior_mean(
        self,
        cells: FloatArray,
        bias: float | None,
        total: int | None,
        ranges: _Ranges,
        spread: float = 0.0,
    ) -> tuple[float, float]:
        """Slope and offset under the priors; the offset is -``spread`` where no bias is given."""
        if total is not None:
            cells = cells + (total - cells.sum()) / cells.size  # noise in the sum is known
        rest = (spread, self.n_records, total, ranges)
        return _PlattFit(cells, bias, self.deviations, *rest).posterior_mean()


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Records as calibration sees them: scores, label, weight."""

    scores: FloatArray
    codes: FloatArray
    weights: FloatArray | None

    def total(self, n_records: int) -> int | None:
        """The sum of all cells of a histogram, which is public unless records have weights."""
        return n_records if self.weights is None else None

    def sum(self, term: Any) -> FloatArray:
        """The weighted sum of a vector per record."""

        def of(part: slice) -> FloatArray:
            vectors = term(self.scores[part], self.codes[part])
            if self.weights is not None:
                vectors = vectors * self.weights[part][:, None]
            return vectors.sum(axis=0, dtype=np.float64)

        return sum_of_pieces(of, len(self.scores))

    def count(self, t: FloatArray, hit: Any, edges: FloatArray) -> FloatArray:
        """The weight in each range of t and label: of shape (2, ranges), misses first."""
        n_ranges = len(edges) + 1
        places = np.searchsorted(edges, t, side="right") + n_ranges * hit

        def of(part: slice) -> FloatArray:
            by = None if self.weights is None else self.weights[part]
            found = np.bincount(places[part], by, 2 * n_ranges)
            return found.astype(np.float64)

        return sum_of_pieces(of, len(t)).reshape(2, -1)


def _bias_of_two(scores: FloatArray, codes: FloatArray) -> FloatArray:
    return codes[:, None] - special.expit(scores.astype(np.float64, copy=False))


def _bias_of_more(scores: FloatArray, codes: FloatArray) -> FloatArray:
    label = (codes[:, None] == np.arange(scores.shape[1])).astype(np.float64)
    return np.hstack([label - special.softmax(scores.astype(np.float64), axis=1), label])


def _all_but(top: Any, n_classes: int) -> FloatArray:
    return (top[:, None] != np.arange(n_classes)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _PlattFit:
    """The posterior of slope and offset, given noisy counts by range and label, and the bias."""

    counts: FloatArray
    bias: float | None
    deviations: tuple[float, float]
    spread: float
    n_records: int
    total: int | None
    ranges: _Ranges

    def posterior_mean(self) -> tuple[float, float]:
        """By quadrature on grids that close in on where the mass is."""
        usual, far = self.ranges.slope
        middle, reach = np.array([usual, 0.0]), 4 * np.array([far, _OFFSET])
        low, high = middle - reach, middle + reach
        for _ in range(_ZOOMS):
            log_a, b = (np.linspace(*ends, _POINTS) for ends in zip(low, high, strict=True))
            if self.bias is None:
                b = np.array([-self.spread])
            grid = np.stack(np.broadcast_arrays(log_a[:, None], b), axis=-1)
            logs = self._log_posterior(grid[..., 0], grid[..., 1])
            mass = np.exp(logs - logs.max())[..., None]
            mean = (grid * mass).sum(axis=(0, 1)) / mass.sum()
            far = np.sqrt((np.square(grid - mean) * mass).sum(axis=(0, 1)) / mass.sum())
            far = np.maximum(6 * far, 2 * (high - low) / _POINTS)
            low, high = np.maximum(mean - far, low), np.minimum(mean + far, high)
        return math.exp(mean[0]), float(mean[1])

    def _log_posterior(self, log_a: FloatArray, b: FloatArray) -> FloatArray:
        t = self.ranges.centres + self.spread
        q = special.expit(np.exp(log_a)[..., None] * t + b[..., None])
        s_bias, s_cell = self.deviations
        sizes, own = self._sizes(), q * (1 - q)
        logs = self._log_likelihood(q, sizes * own).sum(axis=-1)
        logs -= (
            np.square((log_a - self.ranges.slope[0]) / self.ranges.slope[1]) / 2
            + np.square((b + self.spread) / _OFFSET) / 2
        )
        if self.bias is not None:
            moved = q - special.expit(self.ranges.centres)
            variance = s_bias**2 + (sizes * own + 2 * s_cell**2 * moved**2).sum(axis=-1)
            gap = self.bias - (sizes * moved).sum(axis=-1)
            logs -= (np.square(gap) / variance + np.log(variance)) / 2
        return logs

    def _log_likelihood(self, q: FloatArray, sampling: FloatArray) -> FloatArray:
        """Of each range's counts, of mean m(q, 1 - q) with m ~ N(usual, (n/3)²) unknown.

        In the axes along that direction, d = (q, 1 - q), and across it they are independent. Where
        the noise is above n, both have the same variance whatever q is: nothing is learned.
        """
        misses, hits = self.counts
        square, noise = q**2 + (1 - q) ** 2, self.deviations[1] ** 2
        across = np.square(hits * (1 - q) - misses * q) / square
        sides = noise + sampling / square
        along = hits * q + misses * (1 - q) - self._expected * square
        length = noise + (self.n_records / 3) ** 2 * square
        off = across / sides + np.square(along) / square / length
        return -(off + np.log(sides) + np.log(length)) / 2

    def _sizes(self) -> FloatArray:
        """How many records each range has: what is expected, moved by the counts that are known."""
        counted, noise = self.counts.sum(axis=0), 2 * self.deviations[1] ** 2
        prior = np.square(np.maximum(self._expected, self.n_records / 20))
        sizes = np.maximum((counted * prior + self._expected * noise) / (prior + noise), 0.0)
        return sizes if self.total is None else sizes * (self.total / max(sizes.sum(), 1e-300))

    @property
    def _expected(self) -> FloatArray:
        return self.n_records * self.ranges.masses
