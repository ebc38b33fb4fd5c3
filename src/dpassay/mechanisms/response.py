"""Randomized response: every respondent's answer is randomized; shares are estimated unbiased."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Rng, Source, source
from dpassay.privacy import events
from dpassay.types import FloatArray, Release

_BITS = 53


def randomized_response(
    values: ArrayLike,
    *,
    n_categories: int | None = None,
    categories: Sequence[Any] | None = None,
    epsilon: float,
    rng: Rng = None,
) -> Release[Any]:
    """Every value, or with a certain probability a uniformly drawn category instead: epsilon-DP.

    A uniform category is reported with probability k/(e^epsilon + k - 1), k the number of
    categories (Warner 1965 for k = 2; Kairouz, Bonawitz and Ramage 2016). The probability is
    rounded up to a multiple of 2^-53 and drawn with integers: the noise is exact at any size.

    Args:
        values: the answer of every respondent, a single one or an array of any shape: integers in
            [0, n_categories), or members of ``categories``.
        n_categories: the number of categories, at least 2; or
        categories: the categories themselves, all different, at least 2.
        epsilon: the privacy parameter of one respondent, positive and finite.
        rng: None for secure noise; a seed or generator gives a release that is not private.

    Returns:
        A release with the reports in the shape and type of the values. Its event is *one*
        ``RandomizedResponse``, for a neighbour (replace-one) differs in one respondent. True
        frequencies are estimated by :func:`estimate_frequencies`.

    Raises:
        InvalidArgument: a value that is no category, or not exactly one of the two declarations.

    >>> release = randomized_response([0, 1, 1, 2], n_categories=3, epsilon=2.0, rng=0)
    >>> release.value.shape, release.event.n_categories
    ((4,), 3)

    """
    labels = _labels(n_categories, categories)
    codes = _codes(values, labels)
    probability = noise_probability(epsilon, len(labels))
    noise = source(rng)
    reports = randomize(codes, probability, len(labels), noise)
    event = events.RandomizedResponse(probability, len(labels))
    value = labels[reports] if reports.ndim else labels[reports].item()
    return Release(value, event, 1.0, noise.level)


def noise_probability(epsilon: float, n_categories: int = 2) -> float:
    """The least probability of a uniform report that is epsilon-DP, rounded up to the 2^-53 grid.

    With probability p of a uniform report the likelihoods are 1 - p + p/k and p/k; their ratio
    1 + (1 - p) k/p is e^epsilon at p = k/(e^epsilon - 1 + k).

    >>> round(noise_probability(math.log(3), 2), 12)
    0.5

    """
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    k = _check.count("n_categories", n_categories, low=2)
    # The quotient is off by at most three last bits, so four more keep it from being too small.
    p = k / (math.expm1(min(epsilon, 700.0)) + k) * (1 + 2.0**-50)
    return min(math.ceil(p * 2.0**_BITS) / 2.0**_BITS, 1.0)


def _labels(n_categories: int | None, categories: Sequence[Any] | None) -> NDArray[Any]:
    if (n_categories is None) == (categories is None):
        raise InvalidArgument(
            f"n_categories={n_categories!r} and categories={categories!r}: pass exactly one. The "
            "categories are declared, not read from the data, which would leak who is in it."
        )
    if categories is None:
        return np.arange(_check.count("n_categories", n_categories, low=2))
    labels = np.asarray(categories)
    if labels.ndim != 1 or len(labels) < 2 or len(np.unique(labels)) < len(labels):
        raise InvalidArgument(
            f"categories={list(categories)!r} must be at least two different categories."
        )
    return labels


def _codes(values: ArrayLike, labels: NDArray[Any]) -> NDArray[np.int64]:
    """The place of every value among the categories."""
    x = np.asarray(values)
    order = np.argsort(labels)
    try:
        place = np.minimum(np.searchsorted(labels, x, sorter=order), len(labels) - 1)
    except TypeError:
        raise InvalidArgument(f"values of type {x.dtype} cannot be categories.") from None
    codes = order[place]
    foreign = labels[codes] != x
    if np.any(foreign):
        raise InvalidArgument(
            "values contain an answer that is none of the "
            "declared categories. Map it to one of them, or declare one for all others."
        )
    return np.asarray(codes)


def randomize(
    codes: NDArray[np.int64], probability: float, n_categories: int, noise: Source
) -> NDArray[np.int64]:
    """Every code, or with this probability a uniformly drawn one instead."""
    threshold = np.uint64(int(probability * 2**_BITS))
    uniform = noise.words(codes.size) >> np.uint64(64 - _BITS) < threshold
    drawn = _uniform_below(n_categories, codes.size, noise)
    return np.where(uniform.reshape(codes.shape), drawn.reshape(codes.shape), codes)


def _uniform_below(n: int, size: int, noise: Source) -> NDArray[np.int64]:
    """Exactly uniform integers in [0, n): words beyond the last full multiple of n are redrawn."""
    last = 2**64 - 2**64 % n - 1
    words = noise.words(size).copy()
    while (late := words > np.uint64(last)).any():
        words[late] = noise.words(int(late.sum()))
    return (words % np.uint64(n)).astype(np.int64)


@dataclass(frozen=True)
class FrequencyEstimate:
    """Estimated shares of the categories among the respondents.

    Attributes:
        frequencies: unbiased estimates of the true shares, one per category. They sum to one, but
            one of them can be negative: clip for display, not before averaging.
        variances: unbiased estimates of their variances, over the randomization alone (the
            respondents and their true answers are fixed).

    """

    frequencies: FloatArray
    variances: FloatArray


def estimate_frequencies(
    release: Release[Any], categories: Sequence[Any] | None = None
) -> FrequencyEstimate:
    """Unbiased estimates of the true shares from a release of :func:`randomized_response`.

    A category of true share f is reported with expected share f·(1 - p) + p/k, which is solved for
    f. The variance is linear in f, so that putting the estimate in for f leaves it unbiased.

    Args:
        release: what :func:`randomized_response` returned, with at least one report.
        categories: the categories, where they were declared by name.

    """
    event = release.event
    if not isinstance(event, events.RandomizedResponse):
        raise InvalidArgument(f"release has the event {event!r}; it must be RandomizedResponse.")
    labels = _labels(event.n_categories if categories is None else None, categories)
    codes = _codes(release.value, labels)
    if len(labels) != event.n_categories or not codes.size:
        raise InvalidArgument(
            f"release has {codes.size} report(s) of {event.n_categories} categories and "
            f"{len(labels)} were named. Pass the categories of the release and at least one report."
        )
    p, k = _informative(event), event.n_categories
    reported = np.bincount(codes.ravel(), minlength=k) / codes.size
    frequencies = (reported - p / k) / (1 - p)
    return FrequencyEstimate(frequencies, frequency_variance(frequencies, codes.size, event))


def frequency_variance(
    frequency: ArrayLike, n_reports: int, event: events.RandomizedResponse
) -> FloatArray:
    """The exact variance of an estimated share whose true value is ``frequency``.

    It is [f t(1 - t) + (1 - f) q(1 - q)] / (n (1 - p)²), q = p/k the probability that another
    category is reported as this one, t = 1 - p + q that this one is. For two categories and
    e^epsilon = (1/2 + g)/(1/2 - g) it is (1/4 - g²)/(4 g² n), whatever f is.
    """
    n_reports = _check.count("n_reports", n_reports)
    p = _informative(event)
    q = p / event.n_categories
    t = 1 - p + q
    f = np.asarray(frequency, dtype=np.float64)
    return (f * t * (1 - t) + (1 - f) * q * (1 - q)) / (n_reports * (1 - p) ** 2)


def _informative(event: events.RandomizedResponse) -> float:
    if event.noise_probability == 1:
        raise InvalidArgument(
            "noise_probability=1 must be below 1. All reports are uniform and say nothing about "
            "the truth; use a larger epsilon."
        )
    return event.noise_probability
