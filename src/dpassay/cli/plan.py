"""``dpassay plan``: how many trainings an audit needs, before any is played."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay import _files
from dpassay.cli.options import Json
from dpassay.cli.output import emit, say, table, working

if TYPE_CHECKING:
    from dpassay.auditing.plan import TrialForecast


EXAMPLE = "dpassay plan --claim 1,1e-5 --true 4"


def plan(
    claim: Annotated[str, typer.Option(help="The claim: 1,1e-5 or gdp:0.5 or dp-sgd:...")],
    true: Annotated[float, typer.Option(help="The epsilon that you suppose it really has.")],
    delta: Annotated[float, typer.Option(help="Where epsilons are compared.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Of the verdict.")] = 0.95,
    power: Annotated[float, typer.Option(help="Chance that the audit succeeds.")] = 0.8,
    svg: Annotated[Path | None, typer.Option(help="Draw it into this file.")] = None,
    as_json: Json = False,
) -> None:
    """How many trainings it takes to refute a claim, or to come within 5 % of the truth."""
    from dpassay.auditing.claims import parse_claim
    from dpassay.auditing.plan import as_rows
    from dpassay.auditing.plan import plan as make_plan

    curve = parse_claim(claim)
    with working("planning"):
        plans = make_plan(curve, true, delta=delta, confidence=confidence, power=power)
    if svg is not None:
        _files.write(svg, _drawing(plans, claim, true))
    if as_json:
        emit({"claim": claim, "true_epsilon": true, "delta": delta, "plans": as_rows(plans)})
        return
    rows = [
        (p.method, _count(p.to_refute), _count(p.to_come_close), _ceiling(p.ceiling), p.assumption)
        for p in plans
    ]
    title = f"Trainings against the claim {claim}, if epsilon is really {true:g} at delta={delta:g}"
    table(title, ("method", "to refute", "within 5 %", "ceiling", "assumption"), rows)
    say(
        "Estimates for planning: the truth is taken to be Gaussian and, for bounds from counts, "
        "the best threshold known. "
        f"Tests of a fixed size succeed with a chance of {power:g}; the sequential number is what "
        "the best bets need on average, and real ones take about a third more."
    )


def _count(trainings: float) -> str:
    if math.isnan(trainings):
        return "-"
    return f"{int(trainings):,}".replace(",", " ") if math.isfinite(trainings) else "never"


def _ceiling(epsilon: float) -> str:
    return f"{epsilon:.3g}" if math.isfinite(epsilon) else "-"


def _drawing(plans: list["TrialForecast"], claim: str, true: float) -> str:
    """Bars on a logarithmic scale."""
    from dpassay.report.figures import BLUE, ORANGE, Picture, house_style, panels, svg_of

    with house_style():
        figure, (ax,) = panels(1, width=7.5, height=3.2)
        names = [p.method for p in plans]
        for shift, colour, label, values in (
            (-0.2, BLUE, "to refute", [p.to_refute for p in plans]),
            (0.2, ORANGE, "to come within 5 %", [p.to_come_close for p in plans]),
        ):
            shown: list[Any] = [v if math.isfinite(v) else 0 for v in values]
            places = [i + shift for i in range(len(names))]
            ax.barh(places, shown, height=0.36, color=colour, label=label)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xscale("log")
        ax.set(xlabel="trainings", title=f"Trainings against {claim} if epsilon is {true:g}")
        ax.legend(loc="lower right")
    caption = "; ".join(f"{p.method}: {_count(p.to_refute)} to refute" for p in plans)
    return svg_of(Picture("plan", "Trainings that an audit needs", caption, figure))
