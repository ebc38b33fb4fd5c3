"""A mixture of products fitted to noisy marginals: a penalised likelihood, by gradient descent.

All of it is post-processing of the measurements. With noise of deviation s_i on the shares y_i of a
marginal whose table under the model is M_i, and the component Z that a record comes from,

    sum_i ||M_i - y_i||²/(2 s_i²)  +  sum_j λ_j I(Z; X_j)

is minimised over the weights and the factors of the components: the first sum is minus the
logarithm of the likelihood, which alone would fit the noise (a mixture has as many parameters as
one likes). The mutual information of the component and column j is 0 if all components agree on
the column, so that the penalty draws the model to independent columns, and only what stands out
from the noise draws it away.

**How strong.** By the logarithm of the factor P_ka, component k's probability of value a, the
likelihood's gradient has noise of variance (w_k P_ka)² sum_i c_i/s_i² over the marginals that have
column j, where c_i, the sum of squares of the product of component k's other factors, is how much
of the noise is averaged away; the penalty's gradient is λ_j w_k P_ka log(P_ka/m_a), with m the
mixture's own share of a. The weight and the share cancel. So λ_j is ``penalty`` times the root of
sum_i c_i/s_i² (with the pooled columns for c_i), and one deviation of noise moves no factor by more
than about exp(1/penalty) from its mean, whatever the budget, the workload and the component.

**Twice.** The penalty also draws back what does stand out: a small group that shares two values
comes out too small. So the fit goes on with every component held to its own factors of the first
round instead of the mixture's, which takes most of that bias away and lets in little noise
(twicing; Tukey 1977). On Adult's 64 triples at epsilon .1 and .25 this lowered the largest error by
a third at the same total variation.

**Merged values.** Where a marginal was measured on groups of values, M_i is computed from factors
that are summed over the groups. Inside a group the likelihood says nothing, and the penalty makes
every component follow the mixture's own shape there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.synth.measurements import Measurement, on_simplex
from dpassay.synth.models import Mixture
from dpassay.synth.tables.schema import Schema
from dpassay.types import FloatArray

RATES = (0.3, 0.1)  # of the two rounds: the first and largest step of a logit
SPREAD = 0.1  # deviation of the logits at the start, without which all components stay alike
DECAYS = (0.9, 0.99)  # of Adam's means of gradients and of their squares (Kingma and Ba 2015)
_TINY = 1e-12  # below any share that matters, and its logarithm is an ordinary single


@dataclass(frozen=True, eq=False)
class Target:
    """A noisy marginal as the fit reads it.

    In single precision: its rounding, some 1e-7 of a share, is far below the noise of the
    measurements, and products of single numbers take half the time and memory.

    Attributes:
        places: of its columns, the one of most cells first.
        shares: the noisy table, as a matrix of the first column by all others.
        precision: 1/deviation², of all cells or of each.
        groups: of the codes of each of its columns; None for a column whose values are not merged.

    """

    places: tuple[int, ...]
    shares: FloatArray
    precision: Any
    groups: tuple[Any, ...]

    @classmethod
    def of(cls, schema: Schema, measured: Measurement) -> "Target":
        """The largest column first: the others' products are then the least work."""
        places, shape = schema.positions(measured.columns), measured.shares.shape
        order = sorted(range(len(places)), key=lambda i: -shape[i])
        table = np.transpose(measured.shares, order).reshape(shape[order[0]], -1)
        # Single precision: its 1e-7 is far below the noise of any measurement, in half the time.
        shares = np.ascontiguousarray(table, np.float32)
        merged = [None] * len(places)
        if measured.groups is not None:
            sizes = schema.shape(measured.columns)
            merged = [
                own if k < size else None
                for own, k, size in zip(measured.groups, shape, sizes, strict=True)
            ]
        groups = tuple(merged[i] for i in order)
        precision = np.float32(measured.deviation**-2)
        if measured.weights is not None:
            each = np.transpose(measured.weights, order).reshape(shares.shape)
            precision = precision * each.astype(np.float32)
        return cls(tuple(places[i] for i in order), shares, precision, groups)


def fit_mixture(
    schema: Schema,
    measurements: Sequence[Measurement],
    *,
    components: int,
    steps: int,
    penalty: float,
    hold: float,
    rng: np.random.Generator,
    start: Mixture | None = None,
) -> Mixture:
    """The mixture that fits the measurements, among which is every column by itself.

    Args:
        schema: the columns and their sizes.
        measurements: noisy marginals; equal columns may come more than once.
        components: how many products.
        steps: of gradient descent in the first round; the second takes a third of it.
        penalty: how strongly components are held together; see the module.
        hold: the strength of the second round's penalty, in units of the first's.
        rng: draws the starting point.
        start: a mixture to go on from; None for the columns' own shares, spread by ``rng``.

    """
    pooled = column_shares(schema, measurements)
    scale = [penalty * math.sqrt(known) for known in information(schema, measurements, pooled)]
    logits, weights = _begin(pooled, components, rng, start)
    descent = _Descent(
        schema.sizes,
        [Target.of(schema, measured) for measured in measurements],
        np.repeat(scale, schema.sizes).astype(np.float32),
    )
    descent.reference, _ = descent.run(logits, weights, steps, RATES[0])
    descent.scale *= hold
    factors, shares = descent.run(logits, weights, math.ceil(steps / 3), RATES[1])
    # Back to doubles: a sum of many single-precision shares is 1 only to about 1e-6, which the
    # check of a saved model would notice.
    factors, shares = factors.astype(float), shares.astype(float) / shares.sum(dtype=float)
    # A column that no joint marginal reads is related to none: all components have its shares.
    alone = np.repeat(np.array(scale) == 0, schema.sizes)
    factors[:, alone] = (shares @ factors)[alone]
    factors /= np.repeat(np.add.reduceat(factors, descent.starts, axis=1), schema.sizes, axis=1)
    return Mixture(schema, shares, factors)


def column_shares(schema: Schema, measurements: Sequence[Measurement]) -> list[FloatArray]:
    """The shares of every column by itself, none of them 0."""
    single = {name: [m for m in measurements if m.columns == (name,)] for name in schema.names}
    found = [on_simplex(_average(single[name])) for name in schema.names]
    return [(shares + 0.1 / len(shares)) / 1.1 for shares in found]


def _average(measured: Sequence[Measurement]) -> FloatArray:
    """The shares of one column, each measurement by its precision; one knows all of them."""
    weights = [np.ones_like(m.shares) if m.weights is None else m.weights for m in measured]
    total = sum(w / m.deviation**2 for w, m in zip(weights, measured, strict=True))
    parts = [m.shares * w / m.deviation**2 for w, m in zip(weights, measured, strict=True)]
    return np.asarray(sum(parts) / total)


def information(
    schema: Schema, measurements: Sequence[Measurement], pooled: Sequence[FloatArray]
) -> FloatArray:
    """For every column, the sum over its joint marginals of c_i/s_i²; see the module."""
    found = np.zeros(len(schema.sizes))
    for measured in measurements:
        places = schema.positions(measured.columns)
        if len(places) > 1:
            groups = measured.groups or (None,) * len(places)
            repeats = [_repeats(pooled[p], own) for p, own in zip(places, groups, strict=True)]
            for i, place in enumerate(places):
                others = math.prod(repeats[:i] + repeats[i + 1 :])
                found[place] += others / measured.deviation**2
    return found


def _repeats(shares: FloatArray, groups: Any) -> float:
    """The chance that two records agree on a column, or on the group of its value."""
    merged = shares if groups is None else np.bincount(groups, weights=shares)
    return float(np.square(merged).sum())


def _begin(
    pooled: Sequence[FloatArray],
    components: int,
    rng: np.random.Generator,
    start: Mixture | None,
) -> tuple[Any, Any]:
    """Logits of the factors and of the weights, from the columns' shares or from a mixture."""
    if start is not None:
        return _logs(start.factors), _logs(start.weights)
    logits = np.log(np.concatenate(pooled))
    logits = logits + SPREAD * rng.standard_normal((components, len(logits)))
    return logits.astype(np.float32), np.zeros(components, np.float32)


def _logs(values: FloatArray) -> Any:
    return np.log(np.maximum(values, _TINY)).astype(np.float32)


class _Descent:
    """Adam on the logits of factors (components, all columns' values) and weights.

    ``reference`` is what the factors are held to; None for the mixture's own columns.
    """

    reference: Any = None

    def __init__(self, sizes: Sequence[int], targets: Sequence[Target], scale: Any) -> None:
        self.sizes, self.targets, self.scale = sizes, targets, scale
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.parts = [
            slice(int(a), int(a) + size) for a, size in zip(self.starts, sizes, strict=True)
        ]
        self.views = _Views(self.parts, targets)

    def run(self, logits: Any, weights: Any, steps: int, first: float) -> tuple[Any, Any]:
        """Factors and weights after so many steps from these logits, which are changed.

        The rate falls from ``first`` to a hundredth of it along a cosine.
        """
        adams = [_Adam(logits), _Adam(weights)]
        for t in range(1, steps + 1):
            factors, shares = self.probabilities(logits, weights)
            slopes = self.by_logits(factors, shares, *self.gradient(factors, shares))
            rate = first * (0.01 + 0.99 * (1 + math.cos(math.pi * t / steps)) / 2)
            for adam, slope in zip(adams, slopes, strict=True):
                adam.step(slope, rate, t)
        return self.probabilities(logits, weights)

    def probabilities(self, logits: Any, weights: Any) -> tuple[Any, Any]:
        """The softmax, column by column, and that of the weights."""
        factors = np.empty_like(logits)
        for part in self.parts:
            factors[:, part] = _softmax(logits[:, part])
        return factors, _softmax(weights)

    def by_logits(self, factors: Any, shares: Any, slope: Any, pull: Any) -> tuple[Any, Any]:
        """The chain rule through the softmax: p (g - <p, g>)."""
        slope = factors * slope
        inner = np.repeat(np.add.reduceat(slope, self.starts, axis=1), self.sizes, axis=1)
        return slope - factors * inner, shares * (pull - shares @ pull)

    def gradient(self, factors: Any, shares: Any) -> tuple[Any, Any]:
        """The gradient of the objective in the factors and in the weights, each taken as free."""
        centre = shares @ factors if self.reference is None else self.reference
        # A share that has underflowed to 0 has no logarithm; the least one bounds its pull back.
        ratio = self.scale * np.log(np.maximum(factors, _TINY) / np.maximum(centre, _TINY))
        pull = np.einsum("kd,kd->k", factors, ratio)
        wide = self.views.widen(factors)
        slope = np.zeros_like(wide)
        for target, parts in zip(self.targets, self.views.parts, strict=True):
            self._add(target, parts, wide, shares, slope, pull)
        return shares[:, None] * ratio + self.views.narrow(slope), pull

    def _add(
        self, target: Target, parts: Any, factors: Any, shares: Any, slope: Any, pull: Any
    ) -> None:
        """Add a marginal's part: M = (w A)' R, with R the products of the columns after A."""
        first, *rest = parts
        A = factors[:, first]
        weighted = shares[:, None] * A
        R = _products([factors[:, part] for part in rest], len(shares))
        error = weighted.T @ R - target.shares
        error *= target.precision
        by_first = R @ error.T
        slope[:, first] += shares[:, None] * by_first
        pull += np.einsum("ka,ka->k", A, by_first)
        if rest:
            _add_products(
                [factors[:, p] for p in rest], [slope[:, p] for p in rest], weighted @ error
            )


class _Views:
    """Factors with merged values, side by side behind those of all values.

    All merges of a column are one product with a matrix of zeros and ones.

    Attributes:
        parts: for every target, where the factors of its columns stand.

    """

    def __init__(self, parts: Sequence[slice], targets: Sequence[Target]) -> None:
        self.columns, self.width = parts, parts[-1].stop
        merges = self._find_merges(targets)
        self.parts = [
            tuple(
                parts[place] if own is None else merges[place, own.tobytes()]
                for place, own in zip(target.places, target.groups, strict=True)
            )
            for target in targets
        ]

    def _find_merges(self, targets: Sequence[Target]) -> dict[tuple[int, bytes], slice]:
        """Where every merge of every column stands; equal ones stand there once."""
        listed: dict[tuple[int, bytes], Any] = {}
        for target in targets:
            for place, own in zip(target.places, target.groups, strict=True):
                if own is not None:
                    listed[place, own.tobytes()] = own
        found, self.merged = {}, []
        for place in sorted({place for place, _ in listed}):
            mine = {key: own for key, own in listed.items() if key[0] == place}
            start = self.width
            for key, own in mine.items():
                found[key] = slice(self.width, self.width + int(own.max()) + 1)
                self.width = found[key].stop
            matrix = np.concatenate([_indicator(own) for own in mine.values()], axis=1)
            self.merged.append((self.columns[place], slice(start, self.width), matrix))
        return found

    def widen(self, factors: Any) -> Any:
        """The factors, and behind them those of merged values."""
        if not self.merged:
            return factors
        wide = np.empty((len(factors), self.width), factors.dtype)
        wide[:, : factors.shape[1]] = factors
        for column, part, matrix in self.merged:
            wide[:, part] = factors[:, column] @ matrix
        return wide

    def narrow(self, slope: Any) -> Any:
        """The gradient in the factors, from that in the wide ones."""
        own = slope[:, : self.columns[-1].stop]
        for column, part, matrix in self.merged:
            own[:, column] += slope[:, part] @ matrix.T
        return own


def _indicator(groups: Any) -> Any:
    return (groups[:, None] == np.arange(int(groups.max()) + 1)).astype(np.float32)


class _Adam:
    """Steps of like size for every logit, whatever the scale of its gradient."""

    def __init__(self, at: Any) -> None:
        self.at, self.mean, self.square = at, np.zeros_like(at), np.zeros_like(at)

    def step(self, slope: Any, rate: float, t: int) -> None:
        """The t-th step, t = 1, 2, ..."""
        a, b = DECAYS
        self.mean += (1 - a) * (slope - self.mean)
        self.square += (1 - b) * (slope * slope - self.square)
        # Both means start at 0: dividing by 1 - decay^t takes that bias away.
        size = np.sqrt(self.square / (1 - b**t)) + _TINY
        self.at -= rate / (1 - a**t) * self.mean / size


def _softmax(logits: Any) -> Any:
    # Relative to the largest logit, so that no exponential overflows.
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _products(parts: Sequence[Any], components: int) -> Any:
    """All products of one value per column, (components, product of sizes)."""
    found = np.ones((components, 1), np.float32) if not parts else parts[0]
    for part in parts[1:]:
        found = (found[:, :, None] * part[:, None, :]).reshape(components, -1)
    return found


def _add_products(parts: Sequence[Any], slopes: Sequence[Any], by_products: Any) -> None:
    """Add to the slopes of every column what comes through the products, last column first."""
    for i in range(len(parts) - 1, 0, -1):
        before = _products(parts[:i], len(by_products))
        by_both = by_products.reshape(len(before), before.shape[1], -1)
        slopes[i][...] += np.matmul(before[:, None, :], by_both)[:, 0]
        by_products = np.matmul(by_both, parts[i][:, :, None])[:, :, 0]
    slopes[0][...] += by_products
