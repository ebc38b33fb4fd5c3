"""Where proof and attack meet: of several audits, what was proved, promised and shown."""

from collections.abc import Mapping
from typing import Any

from dpassay.report import numbers
from dpassay.report.figures import BLUE, ORANGE, RED, Picture
from dpassay.types import LowerBound, PrivacyCurve, Verdict

_LEFT = 0.1  # the axis is logarithmic, and begins here
_CAPTION = (
    "Blue: what the claim allows, up to its epsilon. Triangles: the most that the noise that is "
    "really added allows, by proof. Dots: the epsilon that the attack showed, at least. The truth "
    "lies between dot and triangle; a dot beyond the blue refutes the claim."
)
_WHOLE = " The ring is a bound from whole scores, which assumes that they are Gaussian."


def proof_and_attack(
    verdicts: Mapping[str, Verdict],
    proofs: Mapping[str, PrivacyCurve],
    severe: Mapping[str, LowerBound],
) -> Picture:
    """A line for each audit, on one axis: its claim, what is proved, and what the attack showed.

    Args:
        verdicts: of the audits, by name.
        proofs: upper bounds on what each leaks.
        severe: further lower bounds, that assume more and show more.

    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 1.1 + 0.8 * len(verdicts)))
    ax = figure.add_axes((0.12, 0.26, 0.84, 0.66))
    for row, (name, verdict) in enumerate(verdicts.items()):
        _draw_row(ax, row, verdict, proofs[name], severe.get(name))
    ax.set_yticks(range(len(verdicts)), list(verdicts))
    ax.set_ylim(len(verdicts) - 0.4, -0.6)
    ax.set_xscale("log")
    highest = max(float(proofs[name].epsilon(v.bound.delta)) for name, v in verdicts.items())
    ax.set_xlim(_LEFT, 10 * highest)
    ax.set_xlabel("epsilon")
    return Picture("meeting", "Proof and attack", _CAPTION + (_WHOLE if severe else ""), figure)


def _draw_row(
    ax: Any, row: int, verdict: Verdict, proof: PrivacyCurve, more: LowerBound | None
) -> None:
    delta, low = verdict.bound.delta, max(verdict.bound.epsilon, _LEFT)
    claimed, proved = float(verdict.claim.epsilon(delta)), float(proof.epsilon(delta))
    colour = RED if verdict.refuted else ORANGE
    highest = low if more is None else max(low, more.epsilon)
    bar = {"linewidth": 6, "alpha": 0.35, "solid_capstyle": "butt"}
    ax.plot([_LEFT, claimed], [row, row], color=BLUE, **bar)
    ax.plot([claimed] * 2, [row - 0.2, row + 0.2], color=BLUE, linewidth=2)
    ax.plot([highest, proved], [row, row], color="0.4", linewidth=1)
    ax.plot([proved], [row], marker=8, color="0.2", markersize=9)
    ax.plot([low], [row], "o", color=colour)
    marks = [(claimed, 0.36, f"claimed {numbers.up(claimed, 4)}", BLUE, "center")]
    marks += [(low, -0.2, f"shown {numbers.down(low, 4)}", colour, "right")]
    marks += [(proved, -0.2, f"proved {numbers.up(proved, 4)}", "0.2", "left")]
    if more is not None:
        ax.plot([more.epsilon], [row], "o", color=colour, fillstyle="none")
        words = f"shown, if Gaussian, {numbers.down(more.epsilon, 4)}"
        marks.append((more.epsilon, 0.36, words, colour, "center"))
    for x, shift, words, shade, side in marks:
        ax.text(x, row + shift, words, color=shade, ha=side, fontsize=8)
