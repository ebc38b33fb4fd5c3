"""Noise and selection: value in, :class:`~dpassay.types.Release` out; ``rng=None`` is secure."""

from dpassay.mechanisms import noise
from dpassay.mechanisms.accuracy import exponential_accuracy, gaussian_accuracy, laplace_accuracy
from dpassay.mechanisms.additive import gaussian, gaussian_multiplier, laplace
from dpassay.mechanisms.noise import secure_generator
from dpassay.mechanisms.response import (
    FrequencyEstimate,
    estimate_frequencies,
    frequency_variance,
    randomized_response,
)
from dpassay.mechanisms.selection import exponential, permute_and_flip, report_noisy_max
from dpassay.mechanisms.sensitivity import (
    clipped_sum_sensitivity,
    count_sensitivity,
    histogram_sensitivity,
    mean_sensitivity,
    sum_sensitivity,
)

__all__ = [
    "FrequencyEstimate",
    "clipped_sum_sensitivity",
    "count_sensitivity",
    "estimate_frequencies",
    "exponential",
    "exponential_accuracy",
    "frequency_variance",
    "gaussian",
    "gaussian_accuracy",
    "gaussian_multiplier",
    "histogram_sensitivity",
    "laplace",
    "laplace_accuracy",
    "mean_sensitivity",
    "noise",
    "permute_and_flip",
    "randomized_response",
    "report_noisy_max",
    "secure_generator",
    "sum_sensitivity",
]
