"""Noisy gradient descent and DP-SGD for linear models.

Every step sums the gradients of a batch, each clipped to norm ``clip``, adds noise and moves. The
gradient of a record is the outer product of a residual and a row (:mod:`dpassay.optim.losses`), so
its norm is the product of two and clipping is a factor per record.

What one record changes in the sum: under add-remove at most ``clip``; under replace-one, where a
clipped gradient is exchanged for another, at most twice that. Gradients are clipped to slightly
less, so that this includes rounding (:func:`dpassay.optim.clipping.rounding`). The number of
records that the sum is divided by is *public*: ``sampling_rate`` times ``n_records``, whatever the
batch turned out to be.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import training_source
from dpassay.optim.clipping import clip_factors, lengths, rounding
from dpassay.optim.losses import Loss, Rows
from dpassay.optim.products import refuse_more_rows
from dpassay.privacy import events
from dpassay.types import FloatArray, Neighbouring, Release

Projection = Callable[[FloatArray], FloatArray]
_ORDER = {"l2": 2, "l1": 1}
_LEAF = {"l2": events.Gaussian, "l1": events.Laplace}
_SCHEME: dict[str, events.Scheme] = {"add-remove": "poisson", "replace-one": "without-replacement"}


def noisy_gradient_descent(
    rows: Rows,
    targets: FloatArray,
    loss: Loss,
    *,
    steps: int,
    learning_rate: ArrayLike,
    clip: float,
    noise_multiplier: float,
    sampling_rate: float = 1.0,
    n_records: int | None = None,
    norm: Literal["l2", "l1"] = "l2",
    neighbouring: Neighbouring = "add-remove",
    penalty: float = 0.0,
    momentum: float = 0.0,
    average: float = 0.0,
    project: Projection | None = None,
    start: FloatArray | None = None,
    weights: FloatArray | None = None,
    shuffled: bool = False,
    rng: RngLike = None,
) -> Release[FloatArray]:
    """The weights of a linear model after noisy gradient steps, as a release with its event.

    Full batches for ``sampling_rate=1`` (noisy gradient descent); else every step draws a batch
    (DP-SGD, Abadi et al. 2016): a Poisson batch under add-remove, and under replace-one a subset of
    a fixed size, sampling_rate · n rounded down, for which amplification is proved there.

    Args:
        rows: the records, n of them.
        targets: one per record, as the loss takes them.
        loss: the loss of one record.
        steps: how many, at least 1.
        learning_rate: a number, or one per step, for the *mean* of the clipped gradients.
        clip: the most that one record's gradient may measure; a positive number in the units of
            the gradient.
        noise_multiplier: the noise over the sensitivity of the sum (a deviation for l2, a scale for
            l1); 0 adds none, and the event says NonPrivate.
        sampling_rate: the probability with which a record is in a batch; the share of the
            records, rounded down to whole ones, under replace-one.
        n_records: the public number of records that enters the divisor; none takes that of
            ``rows`` as public, as two data sets of different sizes then have different divisors.
        norm: "l2" clips in l2 and adds Gaussian noise, "l1" clips in l1 and adds Laplace noise.
        neighbouring: "add-remove" (sensitivity ``clip``) or "replace-one" (twice that).
        penalty: of the squared l2 norm of all weights but the first row, penalty ||w||²/2, added to
            the mean loss; its gradient is public and not clipped.
        momentum: share of the last step's direction that is kept, in [0, 1); post-processing.
        average: the share of the last iterates that are averaged, in [0, 1]; 0 gives the last one.
            All iterates are covered by the event, so that averaging is free.
        project: maps weights to the nearest ones in a convex set; see :func:`onto_ball`.
        start: public weights to begin with; zeros if none.
        weights: of the records, one each in [0, 1], which multiply their clipped gradients and so
            leave the sensitivity as it is; None for 1.
        shuffled: whether the rows are in a uniformly random order that nobody knows, drawn
            independently of them: full batches in single precision are then summed faster
            (:func:`~dpassay.optim.clipping.rounding`).
        rng: None for secure noise and secure batches (AES under a key of the operating
            system); a seed or generator for a run that can be replayed and is not private.

    Returns:
        A release of weights of shape (1 + p, K), the first row belonging to the constant feature.

    """
    _check.choice("norm", norm, tuple(_ORDER))
    _check.neighbouring(neighbouring)
    plan = _plan(rows, targets, loss, clip, noise_multiplier, sampling_rate, n_records)
    plan = plan if weights is None else replace(plan, weights=_weights(weights, plan))
    plan = replace(plan, shuffled=bool(shuffled))
    plan = plan if neighbouring == "add-remove" else plan.with_subsets()
    steps = _check.count("steps", steps, remedy="It is the number of updates.")
    rates = _rates(learning_rate, steps)
    penalty = _check.number("penalty", penalty, low=0)
    momentum = _check.number("momentum", momentum, low=0, high=1, high_open=True)
    average = _check.number("average", average, low=0, high=1)
    noise = training_source(rng)
    sensitivity = clip * (1 if neighbouring == "add-remove" else 2)
    directions = _Directions(plan, norm, noise_multiplier * sensitivity, penalty, noise.generator)
    W = _walk(directions, _start(start, plan), rates, momentum, average, project)
    event = step_event(norm, noise_multiplier, plan.sampling_rate, steps, neighbouring)
    # Steps in floats: the event is that of the training for real numbers, not of these bits.
    of_release = None if noise.level == "cryptographic" else event
    return Release(W, of_release, sensitivity, noise.level)


def step_event(
    norm: str, noise_multiplier: float, sampling_rate: float, steps: int, neighbouring: Neighbouring
) -> events.Event:
    """What ``steps`` noisy steps do to the data."""
    if noise_multiplier == 0:
        return events.NonPrivate(neighbouring)
    step: events.Event = _LEAF[norm](noise_multiplier, neighbouring)
    if sampling_rate < 1:
        step = events.Sampled(step, sampling_rate, _SCHEME[neighbouring])
    return events.Repeated(step, steps)


@dataclass(frozen=True)
class _Shared:
    """What the steps share: the data, the clipping norm and the public divisor."""

    rows: Rows
    targets: FloatArray
    loss: Loss
    clip: float
    sampling_rate: float
    divisor: float
    n_records: int
    batch_size: int | None = None  # none for Poisson batches
    weights: FloatArray | None = None
    shuffled: bool = False

    def with_subsets(self) -> "_Shared":
        """Batches of a fixed size, which the sampling rate is rounded down to.

        Down, because a plan that was priced at the rate asked for must cover what is done.
        """
        n = self.rows.shape[0]
        size = math.floor(self.sampling_rate * n * (1 + 1e-12))
        if size < 1:
            raise InvalidArgument(
                f"sampling_rate={self.sampling_rate:g} of {n} records is less than one record. "
                "Under replace-one a batch has a fixed size; take a larger share."
            )
        scale = size / (n * self.sampling_rate)
        return replace(self, sampling_rate=size / n, divisor=self.divisor * scale, batch_size=size)

    def batch(self, rng: np.random.Generator) -> Any:
        """The numbers of the records of one batch; of a Poisson batch in random order.

        The order matters to :func:`~dpassay.optim.clipping.rounding`.
        """
        if self.batch_size is None:
            return rng.permutation(poisson_batch(len(self.targets), self.sampling_rate, rng))
        return rng.choice(len(self.targets), self.batch_size, replace=False, shuffle=False)

    @property
    def single(self) -> bool:
        """Whether blocks of a sum are in single precision: where it is charged for, and faster.

        Not where the rows of a block could overflow or vanish in it, which is up to ``clip``.
        """
        dense = isinstance(self.rows.X, np.ndarray) and self.rows.center is None
        random = self.sampling_rate < 1 or self.shuffled
        return (
            dense
            and random
            and self.rows.X.dtype == np.float32
            and 2.0**-60 <= self.clip <= 2.0**60
        )


def _plan(
    rows: Rows,
    targets: FloatArray,
    loss: Loss,
    clip: float,
    noise_multiplier: float,
    sampling_rate: float,
    n_records: int | None,
) -> _Shared:
    clip = _check.number("clip", clip, low=0, low_open=True, remedy=_CLIP)
    _check.number("noise_multiplier", noise_multiplier, low=0, remedy=_NOISE)
    rate = _check.sampling_rate(sampling_rate)
    if len(targets) != rows.shape[0]:
        raise InvalidArgument(
            f"targets has {len(targets)} entries for {rows.shape[0]} records; pass one each."
        )
    n = rows.shape[0] if n_records is None else _check.count("n_records", n_records)
    refuse_more_rows(rows.shape[0], n)
    return _Shared(rows, targets, loss, clip, rate, rate * n, n)


_CLIP = "It bounds the norm of one record's gradient, to which the noise is scaled."
_NOISE = "It is the noise in units of the sensitivity; 0 adds none."


def _weights(weights: FloatArray, plan: _Shared) -> FloatArray:
    weights = np.asarray(weights, np.float64)
    if weights.shape != (plan.rows.shape[0],) or not ((weights >= 0) & (weights <= 1)).all():
        raise InvalidArgument(
            "weights must be one number in [0, 1] per record; divide them by the largest that a "
            "record may have."
        )
    return weights


def _rates(learning_rate: ArrayLike, steps: int) -> FloatArray:
    rates = _check.array("learning_rate", learning_rate, low=0, low_open=True)
    if rates.ndim and rates.shape != (steps,):
        raise InvalidArgument(
            f"learning_rate has shape {rates.shape}; it must be one number, or steps={steps}."
        )
    return np.broadcast_to(rates, (steps,))


def _start(start: FloatArray | None, plan: _Shared) -> FloatArray:
    shape = (plan.rows.shape[1], plan.loss.n_scores)
    dtype = np.result_type(plan.rows.X.dtype, np.float32)
    # Column by column, as sums over records come: steps then never turn a matrix over.
    W = np.zeros(shape, dtype, order="F") if start is None else np.array(start, dtype, order="F")
    if W.shape != shape:
        raise InvalidArgument(f"start has shape {W.shape}; the weights have shape {shape}.")
    return W


class _Directions:
    """The noisy means of clipped gradients; each call looks at the data once."""

    def __init__(self, plan: _Shared, norm: str, scale: float, penalty: float, rng: Any) -> None:
        self.plan, self.rng, self.scale, self.penalty = plan, rng, scale, penalty
        self.order = _ORDER[norm]
        self.clip = plan.clip / (1 + rounding(plan.single, plan.n_records))
        # Of every row once, or of a batch's rows when it is drawn: a run may not see the others.
        self.norms = lengths(plan.rows, self.order) if plan.sampling_rate == 1 else None
        self.draw = rng.standard_normal if norm == "l2" else rng.laplace

    def __call__(self, W: FloatArray) -> FloatArray:
        plan = self.plan
        rows, targets, norms, weights = plan.rows, plan.targets, self.norms, plan.weights
        if norms is None:
            batch = plan.batch(self.rng)
            rows, targets = rows.take(batch), targets[batch]
            norms = lengths(rows, self.order)
            weights = None if weights is None else weights[batch]
        residuals = plan.loss.residual(rows.scores(W), targets)
        with np.errstate(invalid="ignore"):
            factors = clip_factors(residuals, norms, self.clip, self.order)
            if weights is not None:
                factors *= weights
            residuals *= factors[:, None]
        finite = np.isfinite(residuals)
        if not finite.all():  # where weights diverged: one record's NaN would be the sum's
            residuals[~finite.all(axis=1)] = 0
        total = rows.adjoint(residuals, single=plan.single)
        if not np.isfinite(total).all():  # clipped gradients of finite rows have a finite sum
            raise InvalidArgument("rows must be finite; a NaN in one of them would be the result.")
        if self.scale:
            total += self.scale * self.draw(size=total.shape[::-1]).T
        total /= plan.divisor
        if self.penalty:
            total[1:] += self.penalty * W[1:]
        return total


def poisson_batch(n_records: int, sampling_rate: float, rng: np.random.Generator) -> Any:
    """Which records are in: each with probability ``sampling_rate``, independently; ascending.

    The gaps between them are geometric, and the whole part of an exponential variable of rate
    -log(1 - q) is geometric with parameter q: P(floor(E/rate) >= k) = (1-q)^k. It takes as many
    draws as the batch has records, in double precision.
    """
    if sampling_rate == 1:
        return np.arange(n_records)
    rate = -math.log1p(-sampling_rate)
    expected = n_records * sampling_rate
    chunk = int(expected + 6 * math.sqrt(expected) + 8)
    position, found = -1.0, []
    while position < n_records:
        gaps = np.floor(rng.standard_exponential(chunk) / rate) + 1
        places = position + np.cumsum(gaps)
        found.append(places[places < n_records])
        position = places[-1]
    return np.concatenate(found).astype(np.intp)


def _walk(
    directions: Callable[[FloatArray], FloatArray],
    W: FloatArray,
    rates: FloatArray,
    momentum: float,
    average: float,
    project: Projection | None,
) -> FloatArray:
    velocity = np.zeros_like(W)
    first = len(rates) - max(1, round(average * len(rates)))
    kept = np.zeros_like(W, np.float64)
    for t, rate in enumerate(rates):
        direction = directions(W).astype(W.dtype, copy=False)
        velocity = momentum * velocity + direction if momentum else direction
        W = W - W.dtype.type(rate) * velocity
        if project is not None:
            W = project(W)
        if t >= first:
            kept += W
    return np.ascontiguousarray(kept / (len(rates) - first))


def onto_ball(radius: float, norm: Literal["l2", "l1"] = "l2") -> Projection:
    """The projection onto the ball of that radius, in the Euclidean sense, of all entries of W.

    For l1 by sorting (Duchi et al. 2008).

    >>> onto_ball(1.0, "l1")(np.array([[3.0], [-1.0]]))
    array([[1.], [0.]])

    """
    radius = _check.number("radius", radius, low=0, low_open=True)
    _check.choice("norm", norm, tuple(_ORDER))
    return lambda W: _onto_l2(W, radius) if norm == "l2" else _onto_l1(W, radius)


def _onto_l2(W: FloatArray, radius: float) -> FloatArray:
    return W * (radius / max(float(np.linalg.norm(W)), radius))


def _onto_l1(W: FloatArray, radius: float) -> FloatArray:
    sizes = np.abs(W)
    if sizes.sum() <= radius:
        return W
    descending = np.sort(sizes, axis=None)[::-1]
    thresholds = (np.cumsum(descending) - radius) / np.arange(1, W.size + 1)
    threshold = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    return np.sign(W) * np.maximum(sizes - threshold, 0) + 0.0
