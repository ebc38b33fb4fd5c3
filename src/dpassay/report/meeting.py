"""Where proof and attack meet: of several audits, what was promised and what was shown."""

from collections.abc import Mapping

from dpassay.report.figures import BLUE, ORANGE, RED, Picture
from dpassay.types import Verdict


def proof_and_attack(verdicts: Mapping[str, Verdict]) -> Picture:
    """A line for each audit: its claim, and the epsilon that the attack showed, on one axis.

    The truth lies to the right of what was shown; the claim says that it is not to the right of it.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.75 + 0.55 * len(verdicts)))
    ax = figure.add_axes((0.16, 0.3, 0.8, 0.5))
    shown = [verdict.bound.epsilon for verdict in verdicts.values()]
    claims = [float(v.claim.epsilon(v.bound.delta)) for v in verdicts.values()]
    far = 1.25 * max(*shown, *claims, 1e-3)
    for row, (verdict, low, claimed) in enumerate(
        zip(verdicts.values(), shown, claims, strict=True)
    ):
        ax.plot(
            [0, claimed], [row, row], color=BLUE, linewidth=6, alpha=0.35, solid_capstyle="butt"
        )
        ax.plot([claimed] * 2, [row - 0.3, row + 0.3], color=BLUE, linewidth=2)
        colour = RED if verdict.refuted else ORANGE
        ax.annotate("", (far, row), (low, row), arrowprops={"arrowstyle": "->", "color": colour})
        ax.plot([low], [row], "o", color=colour)
        ax.text(low, row - 0.22, f"shown: {low:.3g}", color=colour, ha="center", fontsize=8)
    ax.set_yticks(range(len(verdicts)), list(verdicts))
    ax.set_ylim(len(verdicts) - 0.4, -0.6)
    ax.set_xlim(0, far)
    ax.set_xlabel("epsilon")
    caption = (
        "Blue: what the claim allows, up to its epsilon. Dots: the epsilon that the attack showed; "
        "the truth lies to the right of the dot. A dot beyond the blue refutes the claim."
    )
    return Picture("meeting", "Proof and attack", caption, figure)
