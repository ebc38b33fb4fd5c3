"""Micali 2022, section 4.4: the entropy attack on regression with three classes (4.21 to 4.25).

N = 300 records in three squares of the plane (:mod:`~dpassay_reproduce.thesis.boxes`): a gap of a
fifth of the side for "no overlap", a fifth shared for "slightly", all of it for "completely". The
document learns the scores of two classes against the third, whose score is 0; so does ``literal``.
By default all three have scores: no class is treated unlike the others.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpassay.types import FloatArray
from dpassay_reproduce.thesis import captions, drawing
from dpassay_reproduce.thesis.boxes import Boxes
from dpassay_reproduce.thesis.entropy import (
    EPSILONS,
    LEARNERS,
    PLAIN,
    TO_SIX,
    Experiment,
    Played,
    accuracies,
    play,
)
from dpassay_reproduce.thesis.frame import BAND, Accuracies, Claim, Picture, Setting

OVERLAPS = {"no": -0.2, "slight": 0.2, "complete": 1.0}
Seen = list[Accuracies]


def _play(
    setting: Setting, overlap: str, epsilons: tuple[float, ...], rerun: int = 0
) -> tuple[Played, Seen]:
    boxes = Boxes(OVERLAPS[overlap], 2, 3)
    played = play(Experiment(boxes, epsilons, setting.literal, rerun), setting)
    return played, [accuracies(played, name) for name in LEARNERS]


def _picture(
    name: str,
    title: str,
    setting: Setting,
    overlap: str,
    epsilons: tuple[float, ...],
    claims: Callable[[Setting, Played, Seen], list[Claim]],
    *,
    rerun: int = 0,
    extremes: bool = True,
    note: str = "",
) -> Picture:
    """Both attacks, one training set with classifiers, and the target accuracy."""
    played, seen = _play(setting, overlap, epsilons, rerun)
    curves, facts = drawing.numbers(played, seen)
    shown = (0.5, epsilons[-1])
    model = "a reference class" if setting.literal else "a score for every class"
    return drawing.picture(
        name,
        title,
        f"Three classes, N = {played.experiment.n_records}, p = 2, {overlap} overlap, {model}. "
        f"{drawing.in_words(facts)}{note}",
        [
            *(drawing.attack_panel(each, extremes=extremes, fit=False) for each in seen),
            drawing.plane_panel(played, shown),
            drawing.target_panel(played),
        ],
        setting=setting,
        curves=curves | {"plane": drawing.plane_numbers(played, shown)},
        facts=facts,
        claims=claims(setting, played, seen),
        width=3.6,
    )


HIGH = 0.6


def figure_4_21(setting: Setting) -> Picture:
    """No overlap, epsilon up to 1: averages."""
    title = "three classes that do not overlap"
    note = (
        " A handful of weights cannot memorise 300 records: members and others get the same kind "
        "of predictions, and there is nothing for privacy to lower."
    )
    return _picture("4.21", title, setting, "no", EPSILONS, _of_4_21, extremes=False, note=note)


def _of_4_21(_setting: Setting, _played_here: Played, seen: Seen) -> list[Claim]:
    fw, sgd = seen
    lowered = fw.non_private - np.mean([fw.values, sgd.values], axis=(0, 1))
    return [
        captions.is_above(
            "The not private attack has a very high accuracy: above 60 %.",
            "it differs from 60 % by",
            fw.non_private - HIGH,
        ),
        captions.is_above(
            "Differential privacy lowers the accuracy of the attack.", "it lowers it by", lowered
        ),
        captions.is_within(
            "With it the attack drops to between 50 % and 55 % (2 % more or less).",
            "averages are",
            np.concatenate([fw.values, sgd.values]),
            0.5 - BAND,
            0.55 + BAND,
        ),
    ]


def figure_4_22(setting: Setting) -> Picture:
    """The same again with the highest and the lowest."""
    title = "the same again, with the highest and the lowest"
    return _picture("4.22", title, setting, "no", EPSILONS, _of_4_22, rerun=1)


def _of_4_22(setting: Setting, played: Played, seen: Seen) -> list[Claim]:
    fw, sgd = seen
    again = [
        replace(claim, text=f"It is not just a lucky outcome. {claim.text}")
        for claim in _of_4_21(setting, played, seen)[:2]
    ]
    return [
        *again,
        captions.settles_sooner("SGD stabilises quicker than FW.", sgd, fw),
        captions.wider_at_small(
            "Both do not provide consistent results for ε in (0, 0.2]: highest and lowest are "
            "farther apart.",
            seen,
        ),
    ]


def figure_4_23(setting: Setting) -> Picture:
    """The attack for epsilons up to 6."""
    return _picture("4.23", "ε up to 6", setting, "no", TO_SIX, _of_4_23)


def _of_4_23(_setting: Setting, played: Played, seen: Seen) -> list[Claim]:
    last = np.array([played.targets[name][:, -1] for name in LEARNERS])
    ends = [(each.values - each.values[-1])[each.epsilons >= 3][:-1] for each in seen]
    return [
        captions.is_within(
            "The behaviour at ε = 1 is asymptotic: from ε = 3 on averages stay within 2 % of the "
            "last.",
            "differences from it are",
            np.concatenate(ends),
            -BAND,
            BAND,
        ),
        captions.is_within(
            "Both reach a target accuracy of nearly 100 %: 95 % or more.",
            f"at ε = {TO_SIX[-1]:g} it is",
            last,
            0.95,
            1.0,
        ),
    ]


def figure_4_24(setting: Setting) -> Picture:
    """Slightly overlapping classes."""
    return _picture("4.24", "slightly overlapping classes", setting, "slight", TO_SIX, _of_4_24)


def _of_4_24(setting: Setting, played: Played, seen: Seen) -> list[Claim]:
    before, attacked = _play(setting, "no", TO_SIX)
    return [
        _drop("the DP attack", *(np.mean([s.values for s in x], (0, 1)) for x in (attacked, seen))),
        _drop("the NOT DP attack", attacked[0].non_private, seen[0].non_private),
        *(
            _drop(
                f"the target accuracy at the largest ε ({name})",
                before.targets[name][:, -1],
                played.targets[name][:, -1],
            )
            for name in (*LEARNERS, PLAIN)
        ),
    ]


def _drop(what: str, before: FloatArray, after: FloatArray) -> Claim:
    text = f"A slight overlap of two classes results in a drop of 10 ± 5 % of {what}."
    return captions.drops_by(text, 0.05, 0.15, before, after)


def figure_4_25(setting: Setting) -> Picture:
    """Completely overlapping classes."""
    return _picture("4.25", "completely overlapping classes", setting, "complete", TO_SIX, _of_4_25)


def _of_4_25(_setting: Setting, played: Played, seen: Seen) -> list[Claim]:
    right = np.concatenate([played.targets[name].T for name in LEARNERS])
    return [
        captions.guesses("With complete overlap the attack is a guess, 50 ± 2 %.", seen),
        captions.is_within(
            "With complete overlap so is the classification, 33 ± 4 %.",
            "target accuracies are",
            right,
            1 / 3 - 0.04,
            1 / 3 + 0.04,
        ),
    ]


FIGURES: dict[str, Callable[[Setting], Picture]] = {
    "4.21": figure_4_21,
    "4.22": figure_4_22,
    "4.23": figure_4_23,
    "4.24": figure_4_24,
    "4.25": figure_4_25,
}
