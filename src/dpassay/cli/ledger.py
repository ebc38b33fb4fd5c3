"""``dpassay ledger``: make, show and amend the record of what was spent on one data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay import _files
from dpassay.cli.options import Json, Neighbours, group, option
from dpassay.cli.output import emit, example, say, table, working
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.privacy import ApproxDP
    from dpassay.privacy.ledger import Entry, Ledger

NEW = "dpassay ledger new project.db --epsilon 3 --delta 1e-6"
SHOW = "dpassay ledger show project.db --svg spent.svg"
AMEND = "dpassay ledger amend project.db --epsilon 4 --delta 1e-6 --reason 'second release agreed'"
app = group(
    "ledger", "What all releases of one data set cost together, and the most that they may.", NEW
)
At = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of the ledger.")]
Known = Annotated[
    Path,
    typer.Argument(metavar="LEDGER", help="The file of the ledger.", envvar="DPASSAY_LEDGER"),
]
Epsilon = Annotated[float, option("The most that may be spent in all.")]
Delta = Annotated[float, option("The delta of the budget; 0 takes pure releases alone.")]
_BAR = 30  # characters


@app.command("new", epilog=example(NEW))
def new(
    path: At,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    unit: Annotated[
        str, option("What is protected: record, or what it stands for, e.g. patient.")
    ] = "record",
    adaptive: Annotated[
        str | None,
        option("renyi or gaussian, if what is spent later may depend on earlier results."),
    ] = None,
    neighbouring: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """Make a ledger with its budget, which is then in the file."""
    from dpassay.privacy import Ledger

    budget = _budget(epsilon, delta, neighbouring)
    if path.exists():
        raise InvalidArgument(
            f"path={str(path)!r} is there already. Look at it with dpassay ledger show {path}."
        )
    ledger = Ledger(path, budget=budget, unit=unit, adaptive=adaptive)  # type: ignore[arg-type]
    if as_json:
        emit(_data(ledger, delta))
        return
    say(f"{path}: epsilon {epsilon:g} at delta {delta:g} for every {unit}. Pass it to commands by")
    say(f"--ledger {path}, or set DPASSAY_LEDGER.")


@app.command("show", epilog=example(SHOW))
def show(
    path: Known,
    delta: Annotated[
        float | None, option("State epsilons at this delta; else the budget's.")
    ] = None,
    svg: Annotated[
        Path | None, option("Write a picture of what was spent here.", dir_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what was spent on what, together and of which budget."""
    from dpassay.privacy import Ledger

    ledger = Ledger.open(path)
    at = _delta(ledger, delta)
    with working("adding up"):
        data = _data(ledger, at)
    if svg is not None:
        from dpassay.report.spending import spending_svg

        _files.write(svg, spending_svg(data))
    if as_json:
        emit(data)
        return
    _print(data)
    if svg is not None:
        say(f"The picture is in {svg}.")


@app.command("amend", epilog=example(AMEND))
def amend(
    path: Known,
    epsilon: Epsilon,
    reason: Annotated[str, option("Why; it stays in the ledger.")],
    delta: Delta = 0.0,
    as_json: Json = False,
) -> None:
    """Change the budget on record: the old one and the reason stay in the ledger."""
    from dpassay.privacy import Ledger

    ledger = Ledger.open(path)
    before = ledger.budget
    relation = "add-remove" if before is None else before.neighbouring
    ledger.amend(_budget(epsilon, delta, relation), reason=reason)
    if as_json:
        emit(_data(ledger, delta))
        return
    say(f"{path}: the budget is now epsilon {epsilon:g} at delta {delta:g}. Reason: {reason}")


def _budget(epsilon: float, delta: float, neighbouring: str) -> "ApproxDP":
    from dpassay import _check
    from dpassay.privacy import ApproxDP

    _check.epsilon(epsilon, finite=True)
    return ApproxDP(epsilon, delta, neighbouring=neighbouring)  # type: ignore[arg-type]


def _delta(ledger: "Ledger", asked: float | None) -> float:
    from dpassay import _check

    if asked is not None:
        return _check.delta(asked)
    budget = ledger.budget
    if budget is None:
        raise InvalidArgument(
            "delta is missing: this ledger has no budget. Pass --delta 1e-6, say."
        )
    return budget.delta_upper


def _data(ledger: "Ledger", delta: float) -> dict[str, Any]:
    """What ``show`` prints: numbers of events, never of the data."""
    budgets = [
        {
            "epsilon": change.budget.epsilon_upper,
            "delta": change.budget.delta_upper,
            "since": change.moment.isoformat(),
            "reason": change.reason,
        }
        for change in ledger.budgets()
    ]
    return {
        "path": str(ledger.path),
        "unit": ledger.unit,
        "adaptive": ledger.adaptive,
        "budgets": budgets,
        "delta": delta,
        "spent": ledger.spent(delta),
        "entries": [_entry(entry, delta) for entry in ledger.entries()],
    }


def _entry(entry: "Entry", delta: float) -> dict[str, Any]:
    from dpassay.privacy import account

    return {
        "number": entry.number,
        "moment": entry.moment.isoformat(timespec="seconds"),
        "what": entry.what,
        "n_records": entry.n_records,
        "event": entry.event.as_dict(),
        "state": entry.state,
        "owner": entry.owner,
        "epsilon_alone": float(account(entry.event).epsilon(delta)),
    }


def _print(data: dict[str, Any]) -> None:
    from dpassay.report.numbers import up

    rows = [
        (str(e["number"]), e["moment"][:16].replace("T", " "), e["what"], e["state"],
         up(e["epsilon_alone"]))
        for e in data["entries"]
    ]  # fmt: skip
    table(f"Spent on {data['path']}", ("no.", "when (UTC)", "what", "state", "epsilon alone"), rows)
    together = f"Together: epsilon {up(data['spent'])} at delta {data['delta']:g}"
    if data["budgets"]:
        limit = data["budgets"][-1]["epsilon"]
        together += f" of {limit:g}, for every {data['unit']}  {_bar(data['spent'], limit)}"
    say(together, style="bold")
    for change in data["budgets"][1:]:
        say(f"Amended {change['since'][:10]} to epsilon {change['epsilon']:g}: {change['reason']}")
    if any(e["state"] != "done" for e in data["entries"]):
        say("What failed, or was reserved by a process that died, is charged like the rest.")


def _bar(spent: float, limit: float) -> str:
    full = _BAR if not limit > 0 else min(_BAR, round(_BAR * spent / limit))
    return "█" * full + "░" * (_BAR - full)
