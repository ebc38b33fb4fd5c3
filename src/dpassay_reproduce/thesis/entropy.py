"""Micali 2022's algorithm 6, the entropy attack, played over repetitions and epsilons.

Records whose prediction has an entropy of at most tau are called members; right guesses are counted
over all 2N candidates (the document divides by N, by which a coin gets 100 %). Every repetition
draws a training set and as many other records, and trains by DP-FW and DP-SGD at every epsilon, and
without privacy. Repetitions are independent; the epsilons of one share its data.

**Threshold.** The document's tau is the mean of the two mean entropies, of members and of others,
which it takes to need the split that is looked for. As both are equally many, it is the mean over
all candidates and needs no split. Beside it stand a tau fitted on shadow models (the same training
on other data from the same boxes) and the maximum, by which all are called members.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpassay.attacks.counters import below_threshold_accuracy
from dpassay.attacks.outputs import Outputs
from dpassay.attacks.scores import metric_scores
from dpassay.attacks.thresholds import best_cut
from dpassay.bounds.metrics import auc
from dpassay.report.figures import BLUE, ORANGE, PURPLE
from dpassay.types import FloatArray
from dpassay_reproduce.thesis.boxes import Boxes
from dpassay_reproduce.thesis.classifiers import (
    RADIUS,
    Records,
    Softmax,
    frank_wolfe,
    sgd,
    without_privacy,
)
from dpassay_reproduce.thesis.frame import Accuracies, Setting
from dpassay_reproduce.thesis.noise import (
    SELECTION,
    gradient_deviations,
    selection_scales,
    step_counts,
)

N_RECORDS = 300
EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
TO_SIX = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
LEARNERS = ("DP-FW", "DP-SGD")
PLAIN = "without privacy"
COLOURS = {"DP-FW": BLUE, "DP-SGD": ORANGE, PLAIN: PURPLE}
_BLOCK = 4_000_000  # entries of data that are held at a time
_SHADOWS = 1000  # the rerun that shadow models come from


@dataclass(frozen=True)
class Experiment:
    """What is drawn, learned and attacked.

    Attributes:
        boxes: the data.
        epsilons: ascending.
        reference: whether the last class has score 0 (:class:`Softmax`).
        rerun: another number draws data and noise anew, as "rerunning the same attack" does.
        n_records: N.
        noise_factor: of all noise; 1 is what privacy takes.

    """

    boxes: Boxes
    epsilons: tuple[float, ...] = EPSILONS
    reference: bool = True
    rerun: int = 0
    n_records: int = N_RECORDS
    noise_factor: float = 1.0

    @property
    def model(self) -> Softmax:
        """The model that is learned."""
        return Softmax(self.boxes.n_classes, self.reference)


@dataclass(frozen=True, eq=False)
class Played:
    """What came out of an experiment, by learner; without privacy there is one epsilon, inf.

    Attributes:
        experiment: what was played.
        setting: how.
        entropies: in bits, of members and of others, (2, repetitions, epsilons, n).
        targets: shares of the others that are classified rightly, (repetitions, epsilons).
        sample: the features of the first repetition's members, (n, p), and their classes; in more
            than two dimensions the first two.
        weights: of the first repetition, (scores, epsilons, 1 + p); in two dimensions.

    """

    experiment: Experiment
    setting: Setting
    entropies: dict[str, FloatArray]
    targets: dict[str, FloatArray]
    sample: tuple[FloatArray, NDArray[np.intp]]
    weights: dict[str, FloatArray]


@functools.lru_cache(maxsize=32)
def play(experiment: Experiment, setting: Setting) -> Played:
    """Every training of the experiment, attacked; figures that share an experiment run it once."""
    blocks = list(_blocks(experiment, setting))
    names = (*LEARNERS, PLAIN)
    return replace(
        blocks[0],
        entropies={name: np.concatenate([b.entropies[name] for b in blocks], 1) for name in names},
        targets={name: np.concatenate([b.targets[name] for b in blocks]) for name in names},
    )


def _blocks(experiment: Experiment, setting: Setting) -> Iterator[Played]:
    """Repetitions, as many at a time as should be held in memory: one of them at p = 10 000."""
    size = max(1, _BLOCK // (experiment.n_records * experiment.boxes.n_features))
    for block, start in enumerate(range(0, setting.repetitions, size)):
        repetitions = min(size, setting.repetitions - start)
        yield _block(experiment, setting, repetitions, setting.rng(4, experiment.rerun, block))


def _block(
    experiment: Experiment, setting: Setting, repetitions: int, rng: np.random.Generator
) -> Played:
    boxes, model, n = experiment.boxes, experiment.model, experiment.n_records
    inside, outside = (
        Records.of(*boxes.draw(n, rng, repetitions), model) for _ in ("members", "others")
    )
    trained = _train(experiment, setting, inside, rng)
    flat = boxes.n_features == 2
    return Played(
        experiment,
        setting,
        {
            name: np.stack([entropies(side, W) for side in (inside, outside)])
            for name, W in trained.items()
        },
        {name: outside.right(W) for name, W in trained.items()},
        (inside.rows[0, :, 1:3], inside.labels),
        {name: W[:, 0] for name, W in trained.items()} if flat else {},
    )


def _train(
    experiment: Experiment, setting: Setting, records: Records, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Weights (scores, repetitions, epsilons, 1 + p) by learner."""
    n, epsilons, weights = experiment.n_records, experiment.epsilons, records.rows.shape[2]
    steps = step_counts(epsilons, n)
    factor = experiment.noise_factor
    scales = factor * selection_scales(setting, epsilons, n, lipschitz=1.0, radius=RADIUS)
    size = experiment.model.lipschitz(weights)
    deviations = factor * gradient_deviations(setting, epsilons, n, lipschitz=size)
    return {
        "DP-FW": frank_wolfe(records, steps, scales, SELECTION[setting.literal], rng),
        "DP-SGD": sgd(records, steps, deviations, rng),
        PLAIN: without_privacy(records, 2000 if weights < 1000 else 300),
    }


def entropies(records: Records, W: FloatArray) -> FloatArray:
    """The entropies of the predictions, in bits; (repetitions, epsilons, n)."""
    p = np.moveaxis(records.probabilities(W), 0, -1)
    outputs = Outputs(probabilities=p.reshape(-1, *p.shape[2:]), labels=records.labels)
    return -metric_scores(outputs, "entropy").reshape(p.shape[:3])


# The attack.


def threshold_mean(inside: FloatArray, outside: FloatArray) -> float:
    """The mean of both mean entropies: the document's."""
    return float(inside.mean() + outside.mean()) / 2


def threshold_max(inside: FloatArray, outside: FloatArray) -> float:
    """The largest entropy: all are called members."""
    return float(max(inside.max(), outside.max()))


def threshold_best(inside: FloatArray, outside: FloatArray) -> float:
    """The one with the most right guesses: for shadows, whose guesses do not count."""
    return -best_cut(-inside, -outside)


THRESHOLDS = {"mean": threshold_mean, "shadow": threshold_best, "max": threshold_max}


def attack_entropy(played: Played, learner: str, threshold: str = "mean") -> FloatArray:
    """The accuracy of the entropy attack, (epsilons, repetitions).

    Args:
        played: the experiment.
        learner: "DP-FW", "DP-SGD" or "without privacy".
        threshold: "mean", "max", or "shadow": fitted on a rerun of the same experiment.

    """
    seen = fitted = played.entropies[learner]
    if threshold == "shadow":
        other = replace(played.experiment, rerun=played.experiment.rerun + _SHADOWS)
        fitted = play(other, played.setting).entropies[learner]
    return np.array(
        [
            [_right(seen[:, r, e], fitted[:, r, e], threshold) for r in range(seen.shape[1])]
            for e in range(seen.shape[2])
        ]
    )


def _right(seen: FloatArray, fitted: FloatArray, threshold: str) -> float:
    """The share of right guesses on entropies (2, n), at a threshold read off others."""
    inside, outside = seen
    return below_threshold_accuracy(inside, outside, THRESHOLDS[threshold](*fitted))


def area(played: Played, learner: str) -> float:
    """The area under the attack's ROC curve at the largest epsilon, averaged over repetitions.

    It needs no threshold; 0.5 is a guess.
    """
    inside, outside = -played.entropies[learner][:, :, -1]
    return float(np.mean([auc(a, b).value for a, b in zip(inside, outside, strict=True)]))


def accuracies(played: Played, learner: str, threshold: str = "mean") -> Accuracies:
    """The same as it is drawn, beside the attack on models without privacy."""
    experiment, setting = played.experiment, played.setting
    ceilings = [setting.ceiling(e, experiment.n_records) for e in experiment.epsilons]
    return Accuracies(
        learner,
        np.array(experiment.epsilons),
        attack_entropy(played, learner, threshold),
        attack_entropy(played, PLAIN, threshold)[0],
        np.array(ceilings),
    )
