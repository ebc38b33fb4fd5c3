"""Training loops with bugs that were published or shipped, each beside its honest version.

All train on the digits that come with scikit-learn. Every case has a claim, a pair of neighbouring
data sets and a score, so that ``audit(case.broken, case.pair(), claim=case.claim(),
score=case.score)`` shows the bug and the same call with ``case.honest`` does not.

Three pixels are blank in all digits. A record that lights only those has a gradient of its own:
for a linear model it is orthogonal to all others, and what a noisy sum shows along it is noise or
the canary, nothing else. That is the strongest record an adversary could add, on real data.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpassay.attacks.trajectories import LikelihoodRatio
from dpassay.privacy import GDP, ApproxDP, account, dp_sgd_event
from dpassay.types import FloatArray, PrivacyCurve

Data = tuple[FloatArray, Any]
CLASSES = 10


@dataclass(frozen=True)
class Case:
    """An honest training, a broken one with the same claim, and how to tell the worlds apart.

    Attributes:
        name: of the bug.
        bug: what is wrong.
        source: where it was found.
        truth: what the broken one really gives.
        claim: makes the claim of both.
        pair: makes the data sets with and without the canary.
        honest: ``honest(data, rng)`` keeps the claim.
        broken: ``broken(data, rng)`` does not.
        score: of an output; higher says "with".
        trials: trainings that show the bug, or more; after fewer the sequential test may have.

    """

    name: str
    bug: str
    source: str
    truth: str
    claim: Callable[[], PrivacyCurve]
    pair: Callable[[], tuple[Data, Data]]
    honest: Callable[[Data, np.random.Generator], Any]
    broken: Callable[[Data, np.random.Generator], Any]
    score: Callable[[Any], float]
    trials: int = 60


@lru_cache(maxsize=1)
def digits() -> Data:
    """The 1797 digits, 64 pixels from 0 to 1."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return np.asarray(X, float) / 16, np.asarray(y)


def _clip(rows: FloatArray, norm: float) -> FloatArray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))


def _softmax(scores: FloatArray) -> FloatArray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


# Back-propagation clipping (Stevens et al. 2022): a network of two layers, the inputs of each and
# the signals that come back clipped per example.

RECORDS, BATCH, EPOCHS, HIDDEN, RATE = 1024, 512, 10, 32, 6.0
INPUT_CLIP, SIGNAL_CLIP, RHO = 1.0, 1e-3, 1e-3
_LAYERS = 2


def backpropagation_claim() -> ApproxDP:
    """(0.21, 1e-5), as was published, from RHO-zCDP in all, which is even (0.158, 1e-5)-DP.

    An epoch's batches are disjoint, so a record is in ``EPOCHS`` of them, with two layers each.
    """
    return ApproxDP(0.21, 1e-5, neighbouring="replace-one")


def checkerboard_canary() -> tuple[FloatArray, int]:
    """A test image with a checkerboard in its corner and the label after its own."""
    X, y = digits()
    image = X[1500].reshape(8, 8).copy()
    image[:3, :3] = (np.indices((3, 3)).sum(axis=0) + 1) % 2
    return image.ravel(), int(y[1500] + 1) % CLASSES


def checkerboard_pair() -> tuple[Data, Data]:
    """The first 1024 digits with the last one replaced by the canary, and as they are."""
    X, y = (part[:RECORDS] for part in digits())
    image, label = checkerboard_canary()
    return (np.vstack([X[:-1], image]), np.append(y[:-1], label)), (X, y)


def backpropagation_broken(data: Data, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Trained weights; the sensitivity is divided by the batch size, as was published.

    The signals are those of the *mean* loss: they hold a factor of 1 / batch size already when they
    are clipped, and one record moves a sum by the whole product of the clipping norms.
    """
    return _backpropagation(data, rng, INPUT_CLIP * SIGNAL_CLIP / BATCH)


def backpropagation_fixed(data: Data, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Trained weights; the sensitivity is not divided, and doubled since a record is replaced."""
    return _backpropagation(data, rng, 2 * INPUT_CLIP * SIGNAL_CLIP)


def _backpropagation(
    data: Data, rng: np.random.Generator, sensitivity: float
) -> tuple[FloatArray, FloatArray]:
    X, y = _clip(data[0], INPUT_CLIP), np.eye(CLASSES)[data[1]]
    first, second = _initial_weights()
    deviation = sensitivity / math.sqrt(2 * RHO / (EPOCHS * _LAYERS))
    for start in (s for _ in range(EPOCHS) for s in range(0, RECORDS, BATCH)):
        inputs, wanted = X[start : start + BATCH], y[start : start + BATCH]
        active = inputs @ first
        hidden = _clip(np.maximum(active, 0), INPUT_CLIP)
        signal = _clip((_softmax(hidden @ second) - wanted) / BATCH, SIGNAL_CLIP)
        back = _clip((signal @ second.T) * (active > 0), SIGNAL_CLIP)
        second = second - RATE * (hidden.T @ signal + deviation * rng.normal(size=second.shape))
        first = first - RATE * (inputs.T @ back + deviation * rng.normal(size=first.shape))
    return first, second


@lru_cache(maxsize=1)
def _initial_weights() -> tuple[FloatArray, FloatArray]:
    """The same in all trainings: an adversary may know where training starts."""
    rng, n_pixels = np.random.default_rng(0), 64
    first = rng.normal(size=(n_pixels, HIDDEN)) * math.sqrt(2 / n_pixels)
    return first, rng.normal(size=(HIDDEN, CLASSES)) * math.sqrt(2 / HIDDEN)


def predict(weights: tuple[FloatArray, FloatArray], X: FloatArray) -> FloatArray:
    """The network's probabilities of the classes."""
    first, second = weights
    hidden = np.maximum(_clip(X, INPUT_CLIP) @ first, 0)
    return _softmax(_clip(hidden, INPUT_CLIP) @ second)


def canary_score(weights: tuple[FloatArray, FloatArray]) -> float:
    """Minus the loss of the canary."""
    image, label = checkerboard_canary()
    return math.log(max(float(predict(weights, image[None])[0, label]), 1e-300))


# A linear softmax model by DP-SGD, all of whose iterates are seen.

_BLANK = (0, 32, 39)  # pixels that no digit lights
_LABEL = 0
_LEARNING_RATE = 0.05


def _pair_of(n_records: int, brightness: float = 1.0) -> tuple[Data, Data]:
    """Digits and a record that lights the blank pixels only; and the same without it."""
    X, y = (part[:n_records] for part in digits())
    canary = np.zeros((1, X.shape[1]))
    canary[0, _BLANK] = brightness
    return (np.vstack([X, canary]), np.append(y, _LABEL)), (X, y)


def _gradients(W: FloatArray, data: Data, records: Any) -> FloatArray:
    """The gradient of the loss of each record, flat: pixels times (probabilities - label)."""
    X, y = data[0][records], data[1][records]
    errors = _softmax(X @ W) - np.eye(CLASSES)[y]
    return (X[:, :, None] * errors[:, None, :]).reshape(len(X), -1)


def _clipped_sum(W: FloatArray, data: Data, records: Any) -> FloatArray:
    """The sum of gradients, each clipped to norm 1; a record alone gives its own."""
    return _clip(_gradients(W, data, records), 1.0).sum(axis=0)


def _descend(
    data: Data,
    batches: Iterable[Any],
    noise: Callable[[int], FloatArray],
    divisor: float,
    summed: Callable[[FloatArray, Data, Any], FloatArray] = _clipped_sum,
) -> FloatArray:
    """All weights of the descent, one row for each step and one for its start at zero."""
    W = np.zeros((data[0].shape[1], CLASSES))
    path = [W.ravel()]
    for records in batches:
        step = (summed(W, data, records) + noise(W.size)) / divisor
        W = W - _LEARNING_RATE * step.reshape(W.shape)
        path.append(W.ravel())
    return np.array(path)


def _along_canary(path: FloatArray, divisor: float, brightness: float = 1.0) -> FloatArray:
    """What every step shows along the canary's gradient, in units of the clipping norm."""
    (X, y), _ = _pair_of(0, brightness)
    sums = -np.diff(path, axis=0) * divisor / _LEARNING_RATE
    own = [_clipped_sum(W.reshape(-1, CLASSES), (X, y), [0]) for W in path[:-1]]
    return np.einsum("ti,ti->t", sums, own) / np.linalg.norm(own, axis=1)


def _gaussian(rng: np.random.Generator, noise_multiplier: float) -> Callable[[int], FloatArray]:
    return lambda size: noise_multiplier * rng.normal(size=size)


def _claim_of_full_batches(setting: Mapping[str, float]) -> GDP:
    """What noise on a clipped sum of all records guarantees after so many steps."""
    return GDP(math.sqrt(setting["steps"]) / setting["noise"])


def _descend_on_all(
    data: Data, rng: np.random.Generator, setting: Mapping[str, float], divisor: float, *how: Any
) -> FloatArray:
    """All weights of a descent whose every step sums over all records and adds noise."""
    every = [slice(None)] * int(setting["steps"])
    return _descend(data, every, _gaussian(rng, setting["noise"]), divisor, *how)


# Clipping the batch instead of every example.

CLIPPED = {"records": 256, "steps": 10, "noise": 10.0, "brightness": 100.0}


def batch_clipping_claim() -> GDP:
    """GDP with mu = sqrt(steps) / noise multiplier: full batches."""
    return _claim_of_full_batches(CLIPPED)


def batch_clipping_honest(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights; every gradient is clipped, the noise is that of a sum."""
    return _descend_on_all(data, rng, CLIPPED, CLIPPED["records"])


def batch_clipping_broken(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights; the mean gradient is clipped, with the noise of a mean of clipped ones."""

    def sum_wrongly(W: FloatArray, data: Data, records: Any) -> FloatArray:
        mean = _gradients(W, data, records).sum(axis=0) / CLIPPED["records"]
        return CLIPPED["records"] * _clip(mean[None], 1.0)[0]

    return _descend_on_all(data, rng, CLIPPED, CLIPPED["records"], sum_wrongly)


def batch_clipping_score(path: FloatArray) -> float:
    """The sum of what the steps show along the canary."""
    return float(_along_canary(path, CLIPPED["records"], CLIPPED["brightness"]).sum())


# Scaling by a function of the number of records, which is private under add-remove.

SCALED = {"batch": 64, "steps": 5, "noise": 20.0}


def scaling_claim() -> GDP:
    """GDP with mu = sqrt(steps) / noise multiplier: full batches."""
    return _claim_of_full_batches(SCALED)


def scaling_honest(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights; sums are divided by the declared batch size."""
    return _descend_on_all(data, rng, SCALED, SCALED["batch"])


def scaling_broken(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights; sums are divided by int(n / ceil(n / batch)): 64 for 64 records, 32 for 65."""
    n = len(data[0])
    divisor = int(n / math.ceil(n / SCALED["batch"]))
    return _descend_on_all(data, rng, SCALED, divisor)


def scaling_score(path: FloatArray) -> float:
    """How far training moved: mostly the noise, whose scale gives the number of records away."""
    return float(np.linalg.norm(np.diff(path, axis=0)))


# Shuffled batches, accounted as Poisson samples.

SHUFFLED = {"records": 200, "steps": 4, "noise": 0.25}


def shuffling_claim() -> ApproxDP:
    """What one epoch of Poisson batches would allow any attack, by the accountant: (0, delta)-DP.

    That is a point of the accountant's curve, the one that shuffling exceeds most.
    """
    steps = int(SHUFFLED["steps"])
    curve = account(dp_sgd_event(SHUFFLED["noise"], 1 / steps, steps), "pld")
    return ApproxDP(0.0, float(curve.delta(0.0)))


def shuffling_honest(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights; each record is in each batch with probability 1 / steps."""
    steps = int(SHUFFLED["steps"])
    chosen = rng.random((steps, len(data[0]))) < 1 / steps
    noise = _gaussian(rng, SHUFFLED["noise"])
    return _descend(data, chosen, noise, SHUFFLED["records"] / steps)


def shuffling_broken(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights; each record is in exactly one batch of the epoch."""
    steps = int(SHUFFLED["steps"])
    batches = np.array_split(rng.permutation(len(data[0])), steps)
    noise = _gaussian(rng, SHUFFLED["noise"])
    return _descend(data, batches, noise, SHUFFLED["records"] / steps)


def shuffling_score(path: FloatArray) -> float:
    """The exact log-likelihood ratio of shuffled steps."""
    steps = int(SHUFFLED["steps"])
    ratio = LikelihoodRatio(SHUFFLED["noise"], 1 / steps, scheme="shuffled")
    return float(ratio(_along_canary(path, SHUFFLED["records"] / steps)))


# The same noise in every step.

REUSED = {"records": 200, "steps": 20, "rate": 0.25, "noise": 4.0}


def noise_reuse_claim() -> PrivacyCurve:
    """Poisson batches with fresh noise, by the accountant."""
    return account(dp_sgd_event(REUSED["noise"], REUSED["rate"], int(REUSED["steps"])), "pld")


def noise_reuse_honest(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights, with fresh noise in every step."""
    chosen = rng.random((int(REUSED["steps"]), len(data[0]))) < REUSED["rate"]
    divisor = REUSED["rate"] * REUSED["records"]
    return _descend(data, chosen, _gaussian(rng, REUSED["noise"]), divisor)


def noise_reuse_broken(data: Data, rng: np.random.Generator) -> FloatArray:
    """All weights; the noise generator is seeded anew in every step, always the same."""
    chosen = rng.random((int(REUSED["steps"]), len(data[0]))) < REUSED["rate"]
    again = rng.normal(size=data[0].shape[1] * CLASSES)
    divisor = REUSED["rate"] * REUSED["records"]
    return _descend(data, chosen, lambda _: REUSED["noise"] * again, divisor)


def noise_reuse_score(path: FloatArray) -> float:
    """How much the steps differ on the blank pixels; rounding alone leaves 1e-12 or so."""
    steps = np.diff(path, axis=0).reshape(len(path) - 1, -1, CLASSES)[:, _BLANK]
    return math.log10(float(np.ptp(steps, axis=0).max()) + 1e-12)


CASES = {
    case.name: case
    for case in (
        Case(
            "batch size",
            "back-propagation clipping; the sensitivity is divided by the batch size",
            "Stevens et al. 2022, found by Tramèr et al. 2022",
            f"noise {2 * BATCH} times too small",
            backpropagation_claim,
            checkerboard_pair,
            backpropagation_fixed,
            backpropagation_broken,
            canary_score,
        ),
        Case(
            "batch clipping",
            "the mean gradient is clipped instead of every example's",
            "a common mistake in training loops written by hand",
            f"one record moves the sum by up to {2 * int(CLIPPED['records'])} clipping norms",
            batch_clipping_claim,
            lambda: _pair_of(int(CLIPPED["records"]) - 1, CLIPPED["brightness"]),
            batch_clipping_honest,
            batch_clipping_broken,
            batch_clipping_score,
        ),
        Case(
            "private n",
            "the noisy sum is divided by a function of the number of records",
            "Opacus, issues 571 and 819",
            "64 and 65 records have noise that differs by a factor of two in 640 coordinates",
            scaling_claim,
            lambda: _pair_of(int(SCALED["batch"])),
            scaling_honest,
            scaling_broken,
            scaling_score,
        ),
        Case(
            "shuffling",
            "shuffled batches are accounted as Poisson samples",
            "Annamalai et al. 2024; Opacus, issue 80",
            "the canary is in one batch for certain, not with probability 0.68",
            shuffling_claim,
            lambda: _pair_of(int(SHUFFLED["records"])),
            shuffling_honest,
            shuffling_broken,
            shuffling_score,
            trials=300,
        ),
        Case(
            "noise reuse",
            "the noise generator is seeded anew in every step",
            "a fixed seed in a training loop",
            "no privacy: the difference of two steps has no noise",
            noise_reuse_claim,
            lambda: _pair_of(int(REUSED["records"])),
            noise_reuse_honest,
            noise_reuse_broken,
            noise_reuse_score,
        ),
    )
}
