"""Metric scores: one number per record from the target's output on it; higher says "member".

All are black box and need no training: the attacker sees outputs and knows the true label (entropy
and confidence do without). Correctness and the loss threshold are due to Yeom et al. (2018),
confidence to Salem et al. (2019), modified entropy to Song and Mittal (2021).
"""

from collections.abc import Callable

import numpy as np

from dpassay import _check
from dpassay.attacks.outputs import Outputs
from dpassay.types import FloatArray

FLOOR = 1e-45  # of probabilities inside logarithms, as in Carlini et al. (2022)


def _log(p: FloatArray) -> FloatArray:
    return np.log(np.maximum(p, FLOOR))


def log_odds(outputs: Outputs) -> FloatArray:
    """Log p_y - log sum of the other probabilities: nearly Gaussian over trainings.

    The statistic of Carlini et al. (2022). The others are summed, not subtracted from one: that
    keeps the digits of confident models. From losses that are never negative, taken for
    cross-entropy, it is -log(e^loss - 1); other losses are negated.
    """
    if outputs.probabilities is None:
        losses = outputs.values
        if np.any(losses < 0):
            return -losses
        small = np.log(np.maximum(np.expm1(np.minimum(losses, 30.0)), FLOOR))
        return -np.where(losses > 30, losses, small)
    others = outputs.vectors * ~_is_label(outputs)
    return _log(outputs.of_label) - _log(others.sum(axis=-1))


def _is_label(outputs: Outputs) -> FloatArray:
    return outputs.classes[:, None] == np.arange(outputs.vectors.shape[-1])


def _correctness(outputs: Outputs) -> FloatArray:
    """1 where the true class is the most likely one (the first of equals), else 0."""
    return (outputs.vectors.argmax(axis=-1) == outputs.labels).astype(float)


def _loss(outputs: Outputs) -> FloatArray:
    """Minus the loss; from probabilities, the logarithm of that of the true class."""
    return _log(outputs.of_label) if outputs.losses is None else -outputs.losses


def _confidence(outputs: Outputs) -> FloatArray:
    """The probability of the label that the model finds most likely."""
    return outputs.vectors.max(axis=-1)


def _entropy(outputs: Outputs) -> FloatArray:
    """Minus the entropy, in bits."""
    p = outputs.vectors
    return (p * _log(p)).sum(axis=-1) / np.log(2)


def _modified_entropy(outputs: Outputs) -> FloatArray:
    """(1 - p_y) log p_y + sum over the others of p log(1 - p): entropy that knows the label."""
    p = outputs.vectors
    others = np.where(_is_label(outputs), 0.0, p * _log(1 - p)).sum(axis=-1)
    return (1 - outputs.of_label) * _log(outputs.of_label) + others


METRICS: dict[str, Callable[[Outputs], FloatArray]] = {
    "loss": _loss,
    "correctness": _correctness,
    "confidence": _confidence,
    "entropy": _entropy,
    "modified-entropy": _modified_entropy,
}


def metric_scores(outputs: Outputs, metric: str = "loss") -> FloatArray:
    """One score per record, higher for those that look like members; an attack, not a bound.

    Args:
        outputs: what the target says; all metrics but "loss" need probabilities.
        metric: "loss", "correctness", "confidence", "entropy" or "modified-entropy".

    >>> seen = Outputs(probabilities=[[0.9, 0.1], [0.5, 0.5]], labels=[0, 1])
    >>> metric_scores(seen, "entropy").round(3).tolist()
    [-0.469, -1.0]

    """
    _check.choice("metric", metric, tuple(METRICS))
    return METRICS[metric](outputs)
