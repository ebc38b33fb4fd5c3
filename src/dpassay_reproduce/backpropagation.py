"""Back-propagation clipping of a convolutional network, as published and put right (CSCI 699).

Stevens et al. 2022 clip, for each example and layer, what comes in and the signal that comes back:
the example's gradient is their product, no longer than the product of the two norms. So noise for
that product on every layer's sum gives DP without any per-example gradient. The published code
divided the sensitivity by the batch size once more, as its signals were those of the mean loss.

One convolution, means over squares of 2 x 2, and classes; full batches, so that neighbouring data
sets (one record more) differ by that record's product alone; weights that start from the same
public values in every training. All of it in NumPy: a training on 60 000 images of MNIST takes
tens of seconds of one core.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.privacy import ApproxDP, calibrate
from dpassay.privacy.events import Gaussian, Repeated
from dpassay.types import FloatArray

__all__ = ["CLAIM", "ClippedCNN", "Weights", "noise_multiplier"]

EPSILON, DELTA = 0.21, 1e-5
CLAIM = ApproxDP(EPSILON, DELTA)
CLASSES, LAYERS = 10, 2
Data = tuple[FloatArray, NDArray[np.int64]]  # images as rows of pixels, and labels
Weights = tuple[FloatArray, FloatArray]


@functools.cache
def noise_multiplier(steps: int) -> float:
    """The least noise over the sensitivity of a layer's sum that meets the claim."""
    # A claim of its own: what a curve remembers of its use would change the key of an audit.
    target = ApproxDP(EPSILON, DELTA)
    return calibrate(lambda noise: Repeated(Gaussian(noise), LAYERS * steps), target)


@dataclass(frozen=True)
class ClippedCNN:
    """How a network is trained.

    Attributes:
        side: pixels along each side of an image; even after the convolution.
        n_records: the public number that steps are divided by, and the batch size of the bug.
        size: of the square that the convolution looks at.
        stride: of the convolution.
        channels: of the convolution.
        steps: full batches.
        rates: learning rates of the two layers, for the mean of the clipped products.
        input_clips: the most that what comes into a layer may measure, for one example.
        signal_clips: the most that the signal that comes back to it may measure.
        momentum: the share of the last step that is taken again.
        broken: whether the sensitivity is divided by the batch size.
        chunk: examples that are looked at together.

    """

    side: int = 28
    n_records: int = 60_000
    size: int = 6
    stride: int = 2
    channels: int = 8
    steps: int = 20
    rates: tuple[float, float] = (1.0, 60.0)
    input_clips: tuple[float, float] = (2.5, 1.0)
    signal_clips: tuple[float, float] = (0.1, 1.0)
    momentum: float = 0.8
    broken: bool = False
    chunk: int = 2000

    @property
    def places(self) -> int:
        """Places along each side that the convolution looks at."""
        return (self.side - self.size) // self.stride + 1

    @property
    def deviations(self) -> tuple[float, float]:
        """Of the noise on the sums of both layers."""
        noise = noise_multiplier(self.steps) / (self.n_records if self.broken else 1)
        first, second = (
            noise * i * s for i, s in zip(self.input_clips, self.signal_clips, strict=True)
        )
        return first, second

    def start(self) -> Weights:
        """The public weights that every training starts from."""
        rng = np.random.default_rng(0)
        first = rng.normal(size=(self.size**2, self.channels)) * math.sqrt(2) / self.size
        features = self.channels * (self.places // 2) ** 2
        return first, np.zeros((features, CLASSES))

    def train(self, data: Data, rng: np.random.Generator) -> Weights:
        """The weights after all steps; one record moves each layer's sum by its clips' product."""
        first, second = self.start()
        steps = [np.zeros_like(first), np.zeros_like(second)]
        for _ in range(self.steps):
            sums = [np.zeros_like(first), np.zeros_like(second)]
            for images, labels in self._chunks(data):
                for total, part in zip(
                    sums, self._products(images, labels, first, second), strict=True
                ):
                    total += part
            for i, (total, deviation) in enumerate(zip(sums, self.deviations, strict=True)):
                noisy = (total + deviation * rng.normal(size=total.shape)) / self.n_records
                steps[i] = self.momentum * steps[i] - self.rates[i] * noisy
            first, second = first + steps[0], second + steps[1]
        return first, second

    def predict(self, weights: Weights, X: FloatArray) -> FloatArray:
        """The probabilities of the classes."""
        parts = []
        for images, _ in self._chunks((X, np.zeros(len(X), np.int64))):
            _, _, hidden = self._forward(images, weights[0])
            parts.append(_softmax(hidden @ weights[1].astype(np.float32)))
        return np.concatenate(parts).astype(float)

    def accuracy(self, weights: Weights, data: Data) -> float:
        """The share of records whose likeliest class is their label."""
        return float((self.predict(weights, data[0]).argmax(axis=1) == data[1]).mean())

    def loss(self, weights: Weights, image: FloatArray, label: int) -> float:
        """The loss of one record."""
        return -math.log(max(float(self.predict(weights, image[None])[0, label]), 1e-300))

    def _chunks(self, data: Data) -> Iterator[tuple[FloatArray, NDArray[np.int64]]]:
        X, y = data
        for begin in range(0, len(X), self.chunk):
            rows = np.asarray(X[begin : begin + self.chunk], np.float32)
            yield rows.reshape(-1, self.side, self.side), y[begin : begin + self.chunk]

    def _forward(
        self, images: FloatArray, first: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Clipped patches, which units are active, and the clipped means over 2 x 2 places."""
        windows = np.lib.stride_tricks.sliding_window_view(images, (self.size,) * 2, axis=(1, 2))
        chosen = windows[:, :: self.stride, :: self.stride]
        patches = chosen.reshape(len(images), self.places**2, self.size**2)
        patches = _clip(patches, self.input_clips[0])
        active = patches @ first.astype(np.float32)
        half = self.places // 2
        blocks = np.maximum(active, 0).reshape(len(images), half, 2, half, 2, self.channels)
        hidden = blocks.mean(axis=(2, 4)).reshape(len(images), -1)
        return patches, active, _clip(hidden, self.input_clips[1])

    def _products(
        self, images: FloatArray, labels: Any, first: FloatArray, second: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The sums over examples of clipped inputs times clipped signals, layer by layer."""
        patches, active, hidden = self._forward(images, first)
        weights = second.astype(np.float32)
        signal = _softmax(hidden @ weights)
        signal[np.arange(len(labels)), labels] -= 1
        signal = _clip(signal, self.signal_clips[1])
        half = self.places // 2
        back = (signal @ weights.T / 4).reshape(len(images), half, 1, half, 1, self.channels)
        back = np.broadcast_to(back, (len(images), half, 2, half, 2, self.channels))
        back = back.reshape(active.shape) * (active > 0)
        back = _clip(back, self.signal_clips[0])
        flat = patches.reshape(-1, self.size**2), back.reshape(-1, self.channels)
        return flat[0].T @ flat[1], hidden.T @ signal


def _clip(rows: FloatArray, norm: float) -> FloatArray:
    """Every example of the first axis shortened to the norm, over all other axes."""
    flat = rows.reshape(len(rows), -1)
    lengths = np.linalg.norm(flat, axis=1)
    factors = np.minimum(1, norm / np.maximum(lengths, 1e-30)).astype(rows.dtype)
    return rows * factors.reshape(-1, *(1,) * (rows.ndim - 1))


def _softmax(scores: FloatArray) -> FloatArray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
