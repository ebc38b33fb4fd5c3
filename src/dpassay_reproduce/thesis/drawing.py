"""The panels that figures 4.9 to 4.25 of Micali 2022 share, and how a picture is put together."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpassay.report.figures import BLACK, GREEN, PURPLE, RED, house_style, panels
from dpassay_reproduce.thesis.entropy import COLOURS, LEARNERS, PLAIN, Played, area
from dpassay_reproduce.thesis.frame import (
    Accuracies,
    Claim,
    Picture,
    Setting,
    draw_accuracies,
)

Panel = Callable[[Any], None]
_CLASSES = ((GREEN, "o"), (PURPLE, "s"), (RED, "^"))
_STYLES = ("--", "-")


def attack_panel(*seen: Accuracies, **shown: bool) -> Panel:
    """The accuracy of the attack against epsilon."""

    def draw(ax: Any) -> None:
        draw_accuracies(ax, *seen, **shown)
        ax.set_title(f"Attack on {' and '.join(each.label for each in seen)}")

    return draw


def target_panel(played: Played, learners: Sequence[str] = LEARNERS) -> Panel:
    """The share of fresh records that the learners classify rightly, against epsilon."""

    def draw(ax: Any) -> None:
        x = played.experiment.epsilons
        for name in learners:
            values = 100 * played.targets[name]
            low, high = values.min(axis=0), values.max(axis=0)
            ax.fill_between(x, low, high, color=COLOURS[name], alpha=0.15, lw=0)
            ax.plot(x, values.mean(axis=0), "o-", ms=3, color=COLOURS[name], label=name)
        line = 100 * played.targets[PLAIN].mean()
        ax.axhline(line, color=COLOURS[PLAIN], lw=1.2, ls="-.", label=PLAIN)
        ax.set(title="Target accuracy", xlabel="ε", ylabel="classified rightly, %", xlim=(0, None))

    return draw


def plane_panel(played: Played, epsilons: Sequence[float]) -> Panel:
    """The members of one repetition and where classifiers change their mind, two epsilons each."""

    def draw(ax: Any) -> None:
        X, labels = played.sample
        for label in range(played.experiment.boxes.n_classes):
            colour, marker = _CLASSES[label]
            ax.plot(*X[labels == label].T, marker, color=colour, ms=2.5, alpha=0.5)
        for name in LEARNERS:
            for epsilon, style in zip(epsilons, _STYLES, strict=False):
                at = played.experiment.epsilons.index(epsilon)
                _boundary(ax, played, name, at, style, f"{name}, ε = {epsilon:g}")
        _boundary(ax, played, PLAIN, 0, "-.", PLAIN)
        ax.set(title="Members and classifiers", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))

    return draw


def plane_numbers(played: Played, epsilons: Sequence[float]) -> dict[str, Any]:
    """What :func:`plane_panel` draws: points with classes, and weights (scores, [1, x, y])."""
    X, labels = played.sample
    at = {epsilon: played.experiment.epsilons.index(epsilon) for epsilon in epsilons}
    weights = {
        f"{name}, ε = {epsilon:g}": played.weights[name][:, place]
        for name in LEARNERS
        for epsilon, place in at.items()
    }
    weights[PLAIN] = played.weights[PLAIN][:, 0]
    return {"x": X[:, 0], "y": X[:, 1], "class": labels, "weights": weights}


def _boundary(ax: Any, played: Played, name: str, at: int, style: str, label: str) -> None:
    colour = BLACK if name == PLAIN else COLOURS[name]
    side = np.linspace(-1.05, 1.05, 211)
    x, y = np.meshgrid(side, side)
    rows = np.stack([np.ones_like(x), x, y])
    scores = np.tensordot(played.weights[name][:, at], rows, 1)
    chosen = played.experiment.model.probabilities(scores).argmax(axis=0)
    if np.ptp(chosen):
        levels = np.arange(chosen.max()) + 0.5
        ax.contour(x, y, chosen, levels, colors=[colour], linestyles=[style], linewidths=1.2)
    ax.plot([], [], color=colour, ls=style, label=label)


def picture(
    name: str,
    title: str,
    caption: str,
    drawn: Sequence[Panel],
    *,
    setting: Setting,
    curves: dict[str, Any],
    facts: dict[str, float],
    claims: Sequence[Claim],
    width: float = 4.2,
) -> Picture:
    """The picture of one of the document's figures, panel by panel."""
    with house_style():
        figure, axes = panels(len(drawn), width=width)
        for ax, draw in zip(axes, drawn, strict=True):
            draw(ax)
        named = {
            label: handle
            for ax in axes
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            list(named.values()), list(named), loc="outside lower center", ncols=min(len(named), 5)
        )
    said = f"{caption} {_NOISE[setting.literal]}"
    return Picture(name, f"Figure {name}: {title}", said, figure, facts, curves, tuple(claims))


_NOISE = {
    False: "δ = 1e-6, with the least noise that is proved.",
    True: "δ = exp(-ε³N), with the document's noise, which grows with ε.",
}


def in_words(facts: dict[str, float]) -> str:
    """How the attack did, from the numbers of an experiment."""
    private = ", ".join(f"on {name} {100 * facts[f'attack {name}']:.1f} %" for name in LEARNERS)
    return (
        f"Without privacy the attack is right {100 * facts[f'attack {PLAIN}']:.1f} % of the time "
        f"(AUC {facts[f'auc {PLAIN}']:.2f}), {private} on average over ε."
    )


def numbers(played: Played, seen: Sequence[Accuracies]) -> tuple[dict[str, Any], dict[str, float]]:
    """The plotted arrays and the single numbers of an experiment, for ``numbers.json``."""
    curves: dict[str, Any] = {each.label: each.curves() for each in seen}
    curves["target"] = {"epsilon": played.experiment.epsilons} | {
        name: values.T for name, values in played.targets.items()
    }
    facts = {f"attack {PLAIN}": float(seen[0].non_private.mean())}
    facts |= {f"attack {each.label}": float(each.mean.mean()) for each in seen}
    facts |= {f"auc {name}": area(played, name) for name in played.targets}
    facts |= {f"slope {each.label}": each.fit[1] for each in seen}
    facts |= {f"target {name}": float(v[:, -1].mean()) for name, v in played.targets.items()}
    return curves, facts
