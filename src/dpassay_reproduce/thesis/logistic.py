"""Micali 2022, sections 4.2 and 4.3: the entropy attack on logistic regression (4.9 to 4.20).

N = 300 records in two boxes (:mod:`~dpassay_reproduce.thesis.boxes`). What the document leaves
open: p is 2 in all figures that do not name it (4.9 draws the plane), the "slightly higher overlap"
of 4.16 is 30 %, and the balls have radius 10. The document's 4.17 repeats the panels of 4.18; here
it shows the three ways to choose tau side by side.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay_reproduce.claims import claim_exactly
from dpassay_reproduce.thesis import band, captions, drawing
from dpassay_reproduce.thesis.boxes import Boxes
from dpassay_reproduce.thesis.entropy import (
    LEARNERS,
    Experiment,
    Played,
    accuracies,
    play,
)
from dpassay_reproduce.thesis.frame import BAND, Accuracies, Claim, Picture, Setting

Seen = list[Accuracies]
Claims = Callable[[Setting, Played, Seen], list[Claim]]
SLIGHTLY_HIGHER = 0.3
MANY = 10_000


def _play(setting: Setting, shared: float, p: int = 2, rerun: int = 0) -> tuple[Played, Seen]:
    """An experiment and its attacks, with the document's tau."""
    played = play(Experiment(Boxes(shared, p), rerun=rerun), setting)
    return played, [accuracies(played, name) for name in LEARNERS]


def _words(played: Played) -> str:
    boxes = played.experiment.boxes
    return (
        f"N = {played.experiment.n_records}, p = {boxes.n_features}, boxes share "
        f"{_percent(boxes.shared)} of their side."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def figure_4_9(setting: Setting) -> Picture:
    """Both attacks, the data with classifiers, and the target accuracy, at 20 % overlap."""
    played, (fw, sgd) = _play(setting, 0.2)
    curves, facts = drawing.numbers(played, [fw, sgd])
    claims = [
        captions.look_alike("The two graphs look similar.", fw, sgd),
        captions.settles_sooner("SGD seems to stabilise a bit quicker.", sgd, fw),
        captions.is_above(
            "FW guarantees more privacy.",
            "the attack on DP-SGD less that on DP-FW is",
            (sgd.values - fw.values).mean(axis=0),
        ),
        captions.mostly_below_plain(
            "Most of the points are below the not private attack with DP-FW.", fw
        ),
        captions.is_within(
            "We did not get below 48 %.",
            "averages are",
            np.concatenate([fw.values, sgd.values]),
            0.5 - BAND,
            1.0,
        ),
    ]
    return drawing.picture(
        "4.9",
        "the entropy attack at 20 % overlap",
        f"{_words(played)} {drawing.in_words(facts)} Target accuracies are of fresh records.",
        [
            drawing.attack_panel(fw, extremes=False, fit=False),
            drawing.attack_panel(sgd, extremes=False, fit=False),
            drawing.plane_panel(played, (0.5, 1.0)),
            drawing.target_panel(played),
        ],
        setting=setting,
        curves=curves | {"plane": drawing.plane_numbers(played, (0.5, 1.0))},
        facts=facts,
        claims=claims,
        width=3.6,
    )


def _both(
    name: str,
    title: str,
    setting: Setting,
    claims: Claims,
    *,
    shared: float,
    p: int = 2,
    rerun: int = 0,
    fit: bool = False,
    note: str = "",
) -> Picture:
    """Averages with highest and lowest for both learners, and the target accuracy."""
    played, seen = _play(setting, shared, p, rerun)
    curves, facts = drawing.numbers(played, seen)
    return drawing.picture(
        name,
        title,
        f"{_words(played)} {drawing.in_words(facts)}{note}",
        [*(drawing.attack_panel(each, fit=fit) for each in seen), drawing.target_panel(played)],
        setting=setting,
        curves=curves,
        facts=facts,
        claims=claims(setting, played, seen),
    )


def figure_4_10(setting: Setting) -> Picture:
    """The highest and lowest at p = 11."""
    return _both("4.10", "the same in 11 dimensions", setting, _of_4_10, shared=0.2, p=11, rerun=1)


def _of_4_10(_setting: Setting, _play: Played, seen: Seen) -> list[Claim]:
    fw, sgd = seen
    return [
        captions.is_above(
            "DP-SGD has stronger privacy guarantees.",
            "the attack on DP-FW less that on DP-SGD is",
            (fw.values - sgd.values).mean(axis=0),
        ),
        captions.wider_at_small(
            "Results are meaningless for ε in (0, 0.2]: highest and lowest are farther apart.", seen
        ),
    ]


def figure_4_11(setting: Setting) -> Picture:
    """The attack where the boxes overlap by 40 %."""
    return _both("4.11", "40 % overlap", setting, _of_4_11, shared=0.4)


def _of_4_11(setting: Setting, played: Played, seen: Seen) -> list[Claim]:
    return _less_effective(setting, played, seen, less=0.2)


def figure_4_12(setting: Setting) -> Picture:
    """The attack where the boxes overlap by 60 %."""
    return _both("4.12", "60 % overlap", setting, _of_4_12, shared=0.6)


def _of_4_12(setting: Setting, played: Played, seen: Seen) -> list[Claim]:
    right = np.concatenate([played.targets[name].T for name in LEARNERS])
    chance = captions.is_within(
        "Private learning completely fails at 60 % overlap: its classifiers guess at every ε, "
        "50 ± 10 %.",
        "target accuracies are",
        right,
        0.4,
        0.6,
    )
    return [*_less_effective(setting, played, seen, less=0.4), chance]


def _less_effective(setting: Setting, played: Played, seen: Seen, less: float) -> list[Claim]:
    """Both readings of "private learning gets less effective": as a defence and as learning."""
    before, defended = _play(setting, less)
    lost = [before.targets[name] - played.targets[name] for name in LEARNERS]
    text = f"Private learning gets less effective than at {_percent(less)} overlap"
    return [
        captions.is_above(
            f"{text}: it lowers the attack by less.",
            "the difference is",
            captions.protection(*defended) - captions.protection(*seen),
        ),
        captions.is_above(
            f"{text}: it classifies worse.",
            "target accuracies lose",
            np.mean(lost, axis=(0, 2)),
        ),
    ]


def figure_4_13(setting: Setting) -> Picture:
    """20 % overlap with logarithmic fits."""
    return _with_fit("4.13", setting, 0.2, _straighter(0.2, 0.4))


def figure_4_14(setting: Setting) -> Picture:
    """40 % overlap with logarithmic fits."""
    return _with_fit("4.14", setting, 0.4, _straighter(0.4, 0.6))


def figure_4_15(setting: Setting) -> Picture:
    """60 % overlap with logarithmic fits."""
    return _with_fit("4.15", setting, 0.6, _straighter(0.2, 0.6))


def _with_fit(name: str, setting: Setting, shared: float, claims: Claims) -> Picture:
    title = f"{_percent(shared)} overlap with logarithmic fits"
    return _both(name, title, setting, claims, shared=shared, rerun=2, fit=True)


def _straighter(less: float, more: float) -> Claims:
    """That fits get more "log-like" from one overlap to another."""

    def claims(setting: Setting, _played_here: Played, _seen: Seen) -> list[Claim]:
        text = f"The fit is straighter at {_percent(less)}, more log-like at {_percent(more)}."
        flat, steep = (_play(setting, shared, rerun=2)[1] for shared in (less, more))
        return [captions.is_straighter(text, *pair) for pair in zip(flat, steep, strict=True)]

    return claims


# Section 4.3: the threshold.


def figure_4_16(setting: Setting) -> Picture:
    """A slightly higher overlap: the attack is a guess."""

    def claims(_setting: Setting, _played_here: Played, seen: Seen) -> list[Claim]:
        text = "There are no meaningful differences with a random guess"
        plain = seen[0].non_private
        return [
            captions.guesses(f"{text}, for private models.", seen),
            captions.is_within(f"{text}, without privacy.", "it is", plain, 0.5 - BAND, 0.5 + BAND),
        ]

    title = f"{_percent(SLIGHTLY_HIGHER)} overlap"
    return _both("4.16", title, setting, claims, shared=SLIGHTLY_HIGHER, rerun=3)


_WAYS = {"mean": "mean of all candidates", "shadow": "fitted on shadows", "max": "maximum"}


def figure_4_17(setting: Setting) -> Picture:
    """Tau chosen in three ways, against DP-FW, and the target accuracy."""
    played, _ = _play(setting, SLIGHTLY_HIGHER, rerun=3)
    seen = {way: accuracies(played, "DP-FW", way) for way in _WAYS}
    curves, facts = drawing.numbers(played, [seen["mean"]])
    best = max(("mean", "shadow"), key=lambda way: seen[way].mean.mean())
    claims = [
        captions.is_above(
            "The quality of the attack strongly depends on τ: the document's beats one that makes "
            "it a guess by more than 2 %.",
            "accuracies gain",
            (seen["mean"].values - seen["max"].values).mean(axis=0),
            least=BAND,
        ),
        captions.is_above(
            "τ needs the average entropy of both sets, which a black-box attacker may lack: one "
            "fitted on shadow models does worse.",
            "accuracies lose",
            (seen["mean"].values - seen["shadow"].values).mean(axis=0),
        ),
    ]
    return drawing.picture(
        "4.17",
        f"three ways to choose τ at {_percent(SLIGHTLY_HIGHER)} overlap",
        f"{_words(played)} The attack on DP-FW with τ by the {', the '.join(_WAYS.values())}; and "
        f"the target accuracy of DP-FW. The best is the {_WAYS[best]}.",
        [
            *(_way_panel(each, _WAYS[way]) for way, each in seen.items()),
            drawing.target_panel(played, LEARNERS[:1]),
        ],
        setting=setting,
        curves=curves | {f"DP-FW, {way}": each.curves() for way, each in seen.items()},
        facts=facts | {f"attack {way}": float(each.mean.mean()) for way, each in seen.items()},
        claims=claims,
        width=3.6,
    )


def _way_panel(seen: Accuracies, title: str) -> drawing.Panel:
    def draw(ax: Any) -> None:
        drawing.attack_panel(seen, fit=False)(ax)
        ax.set_title(f"τ: {title}")

    return draw


def figure_4_18(setting: Setting) -> Picture:
    """Tau at its maximum: exactly 50 %."""
    played, _ = _play(setting, SLIGHTLY_HIGHER, rerun=3)
    seen = [accuracies(played, name, "max") for name in LEARNERS]
    curves, facts = drawing.numbers(played, seen)
    values = np.concatenate([part.ravel() for s in seen for part in (s.values, s.non_private)])
    claim = claim_exactly(
        "With τ = max H every point is called a member and only half of the guesses are right.",
        "every attack is right exactly half of the time.",
        bool((values == 0.5).all()),
        f"{np.count_nonzero(values == 0.5)} of {values.size} attacks are right exactly half of the "
        "time.",
    )
    return drawing.picture(
        "4.18",
        "τ at its maximum",
        f"{_words(played)} All are called members.",
        [
            *(drawing.attack_panel(each, fit=False) for each in seen),
            drawing.target_panel(played, LEARNERS[:1]),
        ],
        setting=setting,
        curves=curves,
        facts=facts,
        claims=[claim],
    )


# The dimension.


def figure_4_19(setting: Setting) -> Picture:
    """The attack on models of ten features."""
    return _both("4.19", "p = 10", setting, _of_4_19, shared=0.2, p=10)


def _of_4_19(_setting: Setting, played: Played, _seen: Seen) -> list[Claim]:
    return [_classifies_worse(played)]


def _classifies_worse(played: Played) -> Claim:
    return captions.is_above(
        "SGD performs a worse classification than FW.",
        "target accuracies of DP-FW less those of DP-SGD are",
        (played.targets["DP-FW"] - played.targets["DP-SGD"]).mean(axis=1),
    )


def figure_4_20(setting: Setting) -> Picture:
    """The attack on models of ten thousand features."""
    note = (
        " As many weights as these memorise records, and the model that minimises the loss betrays "
        "them: the one figure of the section in which there is something to protect."
    )
    return _both("4.20", f"p = {MANY}", setting, _of_4_20, shared=0.2, p=MANY, note=note)


def _of_4_20(setting: Setting, played: Played, seen: Seen) -> list[Claim]:
    fw, sgd = seen
    few = _play(setting, 0.2, 10)[1]
    right = played.targets["DP-SGD"].mean(axis=1)
    return [
        captions.guesses("On average the attack on DP-SGD is a guess, 50 ± 2 %.", [sgd]),
        captions.is_within(
            "The classification of DP-SGD is nearly a random guess on average, 50 ± 10 %.",
            "over all ε the target accuracy is",
            right,
            0.4,
            0.6,
        ),
        *(
            captions.spreads_more(
                f"Highest and lowest of {name} are significantly farther apart than at p = 10.",
                many,
                less,
            )
            for name, many, less in zip(LEARNERS, seen, few, strict=True)
        ),
        captions.spreads_more(
            "DP-FW is more stable than DP-SGD: highest and lowest of DP-SGD are farther apart.",
            sgd,
            fw,
        ),
        _classifies_worse(played),
        captions.guesses("On average the attack on DP-FW is a guess, 50 ± 2 %.", [fw]),
    ]


FIGURES: dict[str, Callable[[Setting], Picture]] = {
    "4.9": figure_4_9,
    "4.10": figure_4_10,
    "4.11": figure_4_11,
    "4.12": figure_4_12,
    "4.13": figure_4_13,
    "4.14": figure_4_14,
    "4.15": figure_4_15,
    "4.3-band": band.figure_band,
    "4.16": figure_4_16,
    "4.17": figure_4_17,
    "4.18": figure_4_18,
    "4.19": figure_4_19,
    "4.20": figure_4_20,
}
