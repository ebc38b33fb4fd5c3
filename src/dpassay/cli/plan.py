"""``dpassay plan``: how many trainings, or canaries, an audit needs, before any is played."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpassay import _files
from dpassay.cli.options import Json, option
from dpassay.cli.output import emit, say, table, working
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.auditing.plan import TrialForecast
    from dpassay.bounds.onerun.planning import OneRunForecast
    from dpassay.types import PrivacyCurve

_TIMES = (1.25, 1.5, 2, 4, 8)  # of the claimed epsilon: the rungs of the ladder


EXAMPLE = "dpassay plan --claim 1,1e-5 --true 4"


def plan(
    claim: Annotated[str | None, option("The claim: 1,1e-5 or gdp:0.5 or dp-sgd:...")] = None,
    true: Annotated[
        float | None, option("The epsilon that you suppose it really has; without it, a ladder.")
    ] = None,
    delta: Annotated[float, option("Compare epsilons at this delta.")] = 1e-5,
    confidence: Annotated[float, option("How sure the verdict must be, in (0, 1).")] = 0.95,
    power: Annotated[float, option("Chance that the audit succeeds.")] = 0.8,
    svg: Annotated[Path | None, option("Draw it into this file.")] = None,
    one_run: Annotated[
        bool, option("Plan a single training with many canaries.", "--one-run")
    ] = False,
    epsilon: Annotated[float | None, option("One run: the epsilon of the training.")] = None,
    share: Annotated[
        float | None, option("One run: the part of epsilon to show; 0.8 by default.")
    ] = None,
    canaries: Annotated[
        int | None, option("One run: how many canaries, instead of a share.")
    ] = None,
    parameters: Annotated[int | None, option("One run: trainable parameters of the model.")] = None,
    as_json: Json = False,
) -> None:
    """How many trainings it takes to refute a claim, or to come within 5 % of the truth.

    Without --true: how many for each of several true epsilons. With --one-run --epsilon 4: how
    many canaries a single training needs to show 80 % of that.
    """
    given = {"epsilon": epsilon, "share": share, "canaries": canaries, "parameters": parameters}
    if one_run:
        other = {"--claim": claim, "--true": true, "--svg": svg}
        _plan_one_run(given, other, delta=delta, confidence=confidence, as_json=as_json)
        return
    _refuse_options(given, "only with --one-run.")
    if claim is None:
        raise InvalidArgument(
            "--claim is missing: give what is to be tested, such as --claim 1,1e-5; or "
            "--one-run --epsilon 4 for a single training."
        )
    from dpassay.auditing.claims import parse_claim
    from dpassay.auditing.plan import as_rows
    from dpassay.auditing.plan import plan as make_plan

    curve = parse_claim(claim)
    options = {"delta": delta, "confidence": confidence, "power": power}
    with working("planning"):
        rungs = _rungs(curve, delta) if true is None else [true]
        ladder = {epsilon: make_plan(curve, epsilon, **options) for epsilon in rungs}
    if svg is not None:
        middle = rungs[len(rungs) // 2]
        _files.write(svg, _drawing(ladder[middle], claim, middle))
    if as_json:
        about = {"claim": claim, "delta": delta}
        each = [{"true_epsilon": e, "plans": as_rows(plans)} for e, plans in ladder.items()]
        emit(about | ({"ladder": each} if true is None else each[0]))
    elif true is None:
        _show_ladder(claim, delta, ladder)
    else:
        _show(claim, delta, true, ladder[true])
    if not as_json:
        _say_how(power)


def _refuse_options(options: Mapping[str, Any], why: str) -> None:
    """Options that were given but do not belong here."""
    names = [f"--{name.lstrip('-')}" for name, value in options.items() if value is not None]
    if names:
        raise InvalidArgument(f"{', '.join(names)}: {why}")


def _plan_one_run(
    given: dict[str, Any],
    other: Mapping[str, Any],
    *,
    delta: float,
    confidence: float,
    as_json: bool,
) -> None:
    """Print how many canaries one training needs, or what a number of them shows."""
    from dpassay.bounds.onerun.planning import forecast

    _refuse_options(other, "not with --one-run, which plans by --epsilon.")
    if given["epsilon"] is None:
        raise InvalidArgument("--epsilon is missing: give that of the training, such as 4.")
    if given["share"] is not None and given["canaries"] is not None:
        raise InvalidArgument("--share and --canaries say the same twice; give one of them.")
    found = forecast(**given, delta=delta, confidence=confidence)
    if as_json:
        shares = {"share": found.share, "share_none": found.share_none}
        emit(asdict(found) | shares | {"reachable": found.reachable})
    else:
        _show_one_run(found)


def _show_one_run(found: "OneRunForecast") -> None:
    rows = [
        ("DP-SGD form", f"{found.epsilon_form:.3g}", f"{found.share:.0%}", "all, weighted"),
        ("none", f"{found.epsilon_none:.3g}", f"{found.share_none:.0%}", _count(found.guesses)),
    ]
    title = (
        f"One training with {_count(found.canaries)} canaries, "
        f"if epsilon is {found.epsilon:g} at delta={found.delta:g}"
    )
    table(title, ("assumption", "bound", "share", "guesses"), rows)
    if not found.reachable:
        say(
            f"DP-SGD form not reachable: needs m > d. {_count(found.canaries)} canaries cannot be "
            f"orthogonal in {_count(found.parameters or 0)} parameters; "
            f"--canaries {found.parameters} shows what so many can."
        )
    say(
        "Estimates for planning: scores are taken to be Gaussian, as those of white-box canaries "
        "are. The DP-SGD form believes in spherical noise of one fixed scale and orthogonal "
        "canaries; examples as canaries show less."
    )


def _rungs(curve: "PrivacyCurve", delta: float) -> list[float]:
    """True epsilons to plan for, as multiples of the claimed one."""
    claimed = float(curve.epsilon(delta))
    if not 0 < claimed < math.inf:
        raise InvalidArgument(
            f"claim: its epsilon at delta={delta:g} is {claimed:g}, which has no multiples. Pass "
            "--true, the epsilon that you suppose."
        )
    return [float(f"{times * claimed:.3g}") for times in _TIMES]


def _show(claim: str, delta: float, true: float, plans: "list[TrialForecast]") -> None:
    rows = [
        (p.method, _count(p.to_refute), _count(p.to_come_close), _ceiling(p.ceiling), p.assumption)
        for p in plans
    ]
    title = f"Trainings against the claim {claim}, if epsilon is really {true:g} at delta={delta:g}"
    table(title, ("method", "to refute", "within 5 %", "ceiling", "assumption"), rows)


def _show_ladder(claim: str, delta: float, ladder: "dict[float, list[TrialForecast]]") -> None:
    rows = [
        (f"{true:g}", *(_count(forecast.to_refute) for forecast in plans))
        for true, plans in ladder.items()
    ]
    methods = [forecast.method for forecast in next(iter(ladder.values()))]
    title = f"Trainings to refute the claim {claim}, by what epsilon really is at delta={delta:g}"
    table(title, ("really", *methods), rows)


def _say_how(power: float) -> None:
    say(
        "Estimates for planning: the truth is taken to be Gaussian and, for bounds from counts, "
        "the best threshold known. "
        f"Tests of a fixed size succeed with a chance of {power:g}; the sequential number is what "
        "the best bets need on average, and real ones take about a third more."
    )


def _count(trainings: float) -> str:
    if math.isnan(trainings):
        return "-"
    return f"{int(trainings):,}".replace(",", " ") if math.isfinite(trainings) else "over 10^9"


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
