"""A picture of what was spent on what: one bar per entry of a ledger, and all of them together."""

from typing import Any

from dpassay.report.figures import BLACK, BLUE, ORANGE, RED, Picture, house_style, panels, svg_of

_COLOURS = {"done": BLUE, "failed": ORANGE, "reserved": "#999999"}
_LONGEST = 40  # characters of a name


def draw_spending(data: dict[str, Any]) -> Picture:
    """The picture of a ledger.

    Args:
        data: what ``dpassay ledger show --json`` prints.

    """
    entries = data["entries"]
    names = [f"{e['number']}. {e['what'][:_LONGEST]}" for e in entries] + ["all together"]
    epsilons = [e["epsilon_alone"] for e in entries] + [data["spent"]]
    colours = [_COLOURS[e["state"]] for e in entries] + [BLACK]
    with house_style():
        figure, (ax,) = panels(1, width=7.0, height=1.2 + 0.3 * len(names))
        ax.barh(range(len(names)), epsilons, color=colours)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel(f"epsilon at delta = {data['delta']:g}")
        if data["budgets"]:
            limit = data["budgets"][-1]["epsilon"]
            ax.axvline(limit, color=RED, linestyle="--")
            ax.set_title(f"the dashed line is the budget, epsilon = {limit:g}", loc="left")
    caption = (
        "Each bar is what an entry of the ledger costs by itself, the last one what all cost "
        "together. Blue: done; orange: failed; grey: reserved. All are charged."
    )
    return Picture("spent", "What was spent on what", caption, figure)


def spending_svg(data: dict[str, Any]) -> str:
    """The picture of a ledger, as SVG; see :func:`draw_spending`."""
    return svg_of(draw_spending(data))
