"""The six adversaries against DP-SGD (Nasr et al. 2021), and others of the same parts.

They differ in three things alone: what they may see (access), what they may change (manipulation),
and whose the other records are (data set). Each is put together from a crafter, a trainer and a
distinguisher; :func:`dpassay.adversaries.play` plays any of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from dpassay.adversaries.crafters import (
    AdaptivePoison,
    ClipBKD,
    Crafted,
    Crafter,
    FromTrainedStart,
    GradientCanary,
    MaliciousData,
    NaturalExample,
    StaticPoison,
)
from dpassay.adversaries.trainers import Trainer, at_once, by_epochs
from dpassay.attacks.trajectories import LikelihoodRatio, LossScore
from dpassay.nets import Training
from dpassay.types import FloatArray

Score = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Adversary:
    """Who plays: capabilities in words, and the parts that have them.

    Attributes:
        name: for tables.
        access: what is seen.
        manipulation: what is changed.
        data_set: whose the other records are.
        craft: ``craft(training, data, rng)``, once, before the trials.
        distinguish: ``distinguish(training, crafted)`` returns scores by name; each takes what
            trainings showed, steps in the last dimension. Of several the best is chosen on trials
            that do not count.
        train: ``train(training, crafted, world, rng)`` plays one trial.

    """

    name: str
    access: str
    manipulation: str
    data_set: str
    craft: Crafter
    distinguish: Callable[[Training, Crafted], Mapping[str, Score]]
    train: Trainer = at_once


# Distinguishers.


def last_loss(training: Training, crafted: Crafted) -> dict[str, Score]:
    """The loss of the query under the last model."""
    return {"last loss": LossScore("last")}


def all_losses(training: Training, crafted: Crafted) -> dict[str, Score]:
    """The query's losses under all models: their mean, their maximum, or the last."""
    return {f"{over} loss": LossScore(over) for over in ("mean", "max", "last")}


def likelihood_ratio(training: Training, crafted: Crafted) -> dict[str, Score]:
    """The likelihood ratio of all noisy sums along the gradient; exact if nobody interferes."""
    ratio = LikelihoodRatio(
        training.noise_multiplier,
        training.sampling_rate,
        training.clip,
        interference=crafted.interference,
    )
    return {"likelihood ratio": ratio}


_SIX = (
    Adversary(
        "API access",
        "last model, by the loss of the query",
        "none: a natural example",
        "natural",
        NaturalExample(),
        last_loss,
    ),
    Adversary(
        "static poison",
        "last model, by the loss of the query",
        "one example, made beforehand",
        "natural",
        StaticPoison(),
        last_loss,
    ),
    Adversary(
        "intermediate poison",
        "all models, by the loss of the query",
        "one example, made beforehand",
        "natural",
        StaticPoison(),
        all_losses,
    ),
    Adversary(
        "adaptive poison",
        "all models, by the loss of the query",
        "a fresh example at every step",
        "natural",
        AdaptivePoison(),
        all_losses,
    ),
    Adversary(
        "gradient",
        "all models",
        "the gradient of one record",
        "natural",
        GradientCanary(),
        likelihood_ratio,
    ),
    Adversary(
        "malicious data",
        "all models",
        "the gradient of one record",
        "chosen by the adversary",
        MaliciousData(),
        likelihood_ratio,
    ),
)
ADVERSARIES: dict[str, Adversary] = {adversary.name: adversary for adversary in _SIX}
"""The six of Nasr et al. (2021), from the weakest to the strongest."""

VARIANTS: dict[str, Adversary] = {
    adversary.name: adversary
    for adversary in (
        replace(
            ADVERSARIES["adaptive poison"],
            name="adaptive poison, by epochs",
            manipulation="a fresh example in every epoch",
            train=by_epochs,
        ),
        replace(
            ADVERSARIES["static poison"],
            name="ClipBKD",
            manipulation="one example, the data's least direction",
            craft=ClipBKD(),
        ),
        replace(
            ADVERSARIES["static poison"],
            name="ClipBKD, trained start",
            manipulation="one example, and the initial weights",
            craft=FromTrainedStart(ClipBKD()),
        ),
        replace(
            ADVERSARIES["gradient"],
            name="gradient, dirac",
            craft=GradientCanary("dirac"),
        ),
        replace(
            ADVERSARIES["gradient"],
            name="gradient, random",
            craft=GradientCanary("random"),
        ),
    )
}
"""Others, of the same parts."""


def capabilities(adversaries: Iterable[Adversary] = _SIX) -> str:
    """A table of what each adversary may see and change.

    >>> print(capabilities([ADVERSARIES["gradient"]]))
    adversary  access      manipulation                data set
    gradient   all models  the gradient of one record  natural

    """
    rows = [("adversary", "access", "manipulation", "data set")]
    rows += [(a.name, a.access, a.manipulation, a.data_set) for a in adversaries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)
