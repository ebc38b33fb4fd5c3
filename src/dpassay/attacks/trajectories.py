"""Scores of trainings whose steps were seen; a higher score says "with the canary".

If all noisy sums of DP-SGD are seen, nothing beats their likelihood ratio (Neyman and Pearson).
Noise is independent in all directions, and the canary moves one of them: with w the canary's
clipped gradient, of norm C, and d = <sum, w> / C, the sum of a step has density

    without   phi(d / sigma) / sigma      times what is orthogonal to w, the same in both worlds,
    with      phi((d - C) / sigma) / sigma,

so that its log-likelihood ratio is (C d - C²/2) / sigma², in any dimension. If the canary is in a
step with probability q only, it is log(1 - q + q exp(that)); steps add. (The density printed in the
literature for this distinguisher mixes two statistics and integrates to 1/sqrt(2n).)

Where only models are seen, the loss of the canary is the score.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

Scheme = Literal["poisson", "shuffled"]


def along(sums: ArrayLike, canary: ArrayLike) -> FloatArray:
    """The component of noisy sums along the canary's gradient, <sum, canary> / ||canary||.

    Args:
        sums: noisy sums of clipped gradients, of shape (..., d); the step that the optimiser took,
            divided by its learning rate and times its divisor. What is known of the other records'
            gradients is to be subtracted first.
        canary: the gradient, of shape (d,), or one for each step, (..., d).

    Raises:
        InvalidArgument: for NaN, shapes that do not fit, or a canary that is zero.

    """
    g, w = _check.array("sums", sums), _check.array("canary", canary)
    if not g.ndim or not w.ndim or g.shape[-1] != w.shape[-1]:
        raise InvalidArgument(
            f"sums has shape {g.shape}, canary {w.shape}; their last dimensions must be the same."
        )
    norm = np.linalg.norm(w, axis=-1)
    if not np.all(norm > 0):
        raise InvalidArgument("canary is zero; a record without a gradient leaves no trace.")
    return np.einsum("...i,...i->...", g, w) / norm


@dataclass(frozen=True)
class LikelihoodRatio:
    """The exact log-likelihood ratio of a training whose every step was seen along the canary.

    Attributes:
        noise_multiplier: deviation of the noise over the clipping norm.
        sampling_rate: the probability that the canary is in a step; in (0, 1].
        clip: the clipping norm.
        size: of the canary's clipped gradient; by default the clipping norm.
        interference: the deviation that the other records add along the canary, if they are taken
            as Gaussian noise of mean 0; with it the ratio is a model, no longer exact.
        scheme: "poisson", or "shuffled": of every 1 / sampling_rate steps the canary is in exactly
            one, which one being uniform; the ratio of these is the mean of those of each step.

    >>> score = LikelihoodRatio(noise_multiplier=1.0, sampling_rate=0.5)
    >>> float(score([0.5, 1.5]))  # the first says nothing, the second log(1/2 + e/2)
    0.62011

    """

    noise_multiplier: float
    sampling_rate: float = 1.0
    clip: float = 1.0
    size: float | None = None
    interference: float = 0.0
    scheme: Scheme = "poisson"

    def __post_init__(self) -> None:
        _check.noise_multiplier(self.noise_multiplier)
        _check.sampling_rate(self.sampling_rate)
        _check.number("clip", self.clip, low=0, low_open=True, remedy="It is a norm.")
        _check.number("interference", self.interference, low=0, remedy="It is a deviation.")
        _check.choice("scheme", self.scheme, ("poisson", "shuffled"))
        if self.size is not None:
            remedy = "A clipped gradient is not longer than the clipping norm."
            _check.number("size", self.size, low=0, high=self.clip, low_open=True, remedy=remedy)
        if self.scheme == "shuffled" and abs(1 / self.sampling_rate - self._epoch) > 1e-6:
            raise InvalidArgument(
                f"sampling_rate={self.sampling_rate:g} must be 1 over a whole number for "
                "scheme='shuffled': an epoch is that many steps."
            )

    @property
    def _epoch(self) -> int:
        return round(1 / self.sampling_rate)

    def if_present(self, seen: ArrayLike) -> FloatArray:
        """The log-likelihood ratio of each step, had the canary been in it for certain."""
        d = _check.array("seen", seen)
        size = self.clip if self.size is None else self.size
        variance = (self.noise_multiplier * self.clip) ** 2 + self.interference**2
        return (size * d - size**2 / 2) / variance

    def __call__(self, seen: ArrayLike) -> FloatArray:
        """The log-likelihood ratio of whole trainings.

        Args:
            seen: what the steps showed along the canary (:func:`along`), steps in the last
                dimension.

        Returns:
            One score for each training; a scalar array for one.

        """
        ratio = self.if_present(seen)
        if not ratio.ndim:
            raise InvalidArgument("seen must have one entry per step. Pass an array.")
        if self.scheme == "shuffled":
            return self._log_ratio_shuffled(ratio)
        if self.sampling_rate < 1:
            ratio = np.logaddexp(np.log1p(-self.sampling_rate), np.log(self.sampling_rate) + ratio)
        return ratio.sum(axis=-1)

    def _log_ratio_shuffled(self, ratio: FloatArray) -> FloatArray:
        steps = self._epoch
        if ratio.shape[-1] % steps:
            raise InvalidArgument(
                f"seen has {ratio.shape[-1]} steps; with scheme='shuffled' they must be whole "
                f"epochs of {steps}."
            )
        epochs = ratio.reshape(*ratio.shape[:-1], -1, steps)
        return (special.logsumexp(epochs, axis=-1) - np.log(steps)).sum(axis=-1)


@dataclass(frozen=True)
class LossScore:
    """Minus the loss of the canary: of the last model, or over all that were seen.

    Nasr et al. (2021) take the mean over steps for epsilon above 2 and the maximum below.

    Attributes:
        over: "last", "mean" or "max", of the losses of a training in the last dimension.

    """

    over: Literal["last", "mean", "max"] = "last"

    def __post_init__(self) -> None:
        _check.choice("over", self.over, ("last", "mean", "max"))

    def __call__(self, losses: ArrayLike) -> FloatArray:
        """One score for each training; an infinite loss is a score of -inf."""
        values = _check.array("losses", losses, finite=False, empty=False)
        if not values.ndim:
            return -values
        reduced = {"last": values[..., -1], "mean": values.mean(-1), "max": values.max(-1)}
        return -reduced[self.over]


_BY_NAME: dict[str, type[LikelihoodRatio] | type[LossScore]] = {
    "likelihood ratio": LikelihoodRatio,
    "loss": LossScore,
}


def score_to_json(score: Any) -> dict[str, Any] | None:
    """A score as plain JSON, for a log; None for a function that is not one of these.

    >>> score_to_json(LossScore("mean"))
    {'name': 'loss', 'over': 'mean'}

    """
    for name, kind in _BY_NAME.items():
        if type(score) is kind:
            return {"name": name} | asdict(score)
    return None


def score_from_json(kept: Mapping[str, Any]) -> LikelihoodRatio | LossScore:
    """The score that :func:`score_to_json` wrote."""
    fields = dict(kept)
    return _BY_NAME[fields.pop("name")](**fields)
