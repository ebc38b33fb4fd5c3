"""``dpassay query``: one noisy answer about a table, with its error and its price."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.options import Json, LedgerPath, Neighbours, NoiseSeed, open_ledger, option
from dpassay.cli.output import emit, say, table
from dpassay.cli.tables import read_texts
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.mechanisms.queries import Answer, Terms

EXAMPLE = 'dpassay query patients.csv --count --where "age >= 60" --epsilon .1 --ledger project.db'


def query(
    source: Annotated[Path, typer.Argument(metavar="TABLE", help="The table, as CSV.")],
    epsilon: Annotated[float, typer.Option(help="The privacy parameter of this answer.")],
    count: Annotated[bool, typer.Option("--count", help="How many records there are.")] = False,
    total: Annotated[str | None, option("The sum of a column.", "--sum", metavar="COLUMN")] = None,
    mean: Annotated[str | None, option("A sum over --records.", metavar="COLUMN")] = None,
    histogram: Annotated[str | None, option("How often --values occur.", metavar="COLUMN")] = None,
    where: Annotated[str | None, option('Of these records alone, e.g. "age >= 60".')] = None,
    low: Annotated[float | None, option("Of a sum or mean: smaller values count as this.")] = None,
    high: Annotated[float | None, option("Of a sum or mean: larger values count as this.")] = None,
    values: Annotated[str | None, option("Of a histogram: the values to count, as a,b,c.")] = None,
    records: Annotated[int | None, option("Of a mean: the public number of records.")] = None,
    delta: Annotated[float, option("0 adds Laplace noise; above 0, Gaussian noise.")] = 0.0,
    confidence: Annotated[float, option("Chance that the stated error holds.")] = 0.95,
    ledger: LedgerPath = None,
    neighbouring: Neighbours = "add-remove",
    seed: NoiseSeed = None,
    as_json: Json = False,
) -> None:
    """Answer one question about a table with noise, and say how far off the answer can be.

    Bounds and values are declared, never read off the table. With --ledger the answer is charged
    before the table is touched, and refused if the budget has no room for it.
    """
    from dpassay.mechanisms.queries import Terms

    asked = {"--count": count or None, "--sum": total, "--mean": mean, "--histogram": histogram}
    chosen = [name for name, given in asked.items() if given is not None]
    if len(chosen) != 1:
        raise InvalidArgument("exactly one of --count, --sum, --mean and --histogram is needed.")
    options = {"--low": low, "--high": high, "--values": values, "--records": records}
    _check_needed(chosen[0], options)
    kept = open_ledger(ledger)
    terms = Terms(epsilon, delta, neighbouring, confidence, kept, seed)  # type: ignore[arg-type]
    answer = _ask(chosen[0], asked[chosen[0]], read_texts(source), terms, where, options)
    data = _data(answer, terms)
    if as_json:
        emit(data)
        return
    _show(answer, data)


_NEEDED = {
    "--count": (),
    "--sum": ("--low", "--high"),
    "--mean": ("--low", "--high", "--records"),
    "--histogram": ("--values",),
}
_WHY = {
    "--low": "it bounds what one record can add; the table must not set it",
    "--high": "it bounds what one record can add; the table must not set it",
    "--values": "which values occur would tell about single records",
    "--records": "it divides the sum, so it must be public",
}


def _check_needed(question: str, options: dict[str, Any]) -> None:
    for name, given in options.items():
        needed = name in _NEEDED[question]
        if needed and given is None:
            raise InvalidArgument(f"{name} is missing: {question} needs it, since {_WHY[name]}.")
        if not needed and given is not None:
            raise InvalidArgument(f"{name} does not go with {question}. Leave it out.")


def _ask(
    question: str,
    column: Any,
    frame: Any,
    terms: "Terms",
    where: str | None,
    options: dict[str, Any],
) -> "Answer":
    from dpassay.mechanisms import queries

    if question == "--count":
        return queries.count(frame, terms, where)
    if question == "--histogram":
        return queries.histogram(frame, terms, column, options["--values"].split(","), where)
    low, high = options["--low"], options["--high"]
    if question == "--sum":
        return queries.total(frame, terms, column, low, high, where)
    return queries.mean(frame, terms, column, low, high, options["--records"], where)


def _data(answer: "Answer", terms: "Terms") -> dict[str, Any]:
    spent = None if terms.ledger is None else terms.ledger.budget
    left: dict[str, Any] = {}
    if terms.ledger is not None and spent is not None:
        at = spent.delta_upper
        total = terms.ledger.spent(at)
        left = {"spent": total, "budget": spent.epsilon_upper, "budget_delta": at}
    return {
        "question": answer.question,
        "answers": dict(zip(answer.names, answer.values, strict=True)),
        "margin": answer.margin,
        "confidence": answer.confidence,
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "neighbouring": terms.neighbouring,
        "private": answer.release.noise != "reproducible",
        "ledger": left or None,
    }


def _show(answer: "Answer", data: dict[str, Any]) -> None:
    from dpassay.report.numbers import up

    if len(answer.values) == 1:
        say(f"{answer.question}: {answer.values[0]:.6g}", style="bold")
    else:
        rows = [(name, f"{value:.6g}") for name, value in data["answers"].items()]
        table(answer.question, ("value", "records"), rows)
    every = "It is" if len(answer.values) == 1 else "All of them are"
    say(
        f"{every} within {up(answer.margin)} of the truth with probability {answer.confidence:g}, "
        "whatever the truth is: this is the noise, which is public."
    )
    if data["private"]:
        say(
            f"({data['epsilon']:g}, {data['delta']:g})-DP for neighbours by {data['neighbouring']}."
        )
    else:
        say("NOT private: a seed was given, so that whoever knows it can take the noise off.")
    if data["ledger"] is not None:
        kept = data["ledger"]
        say(
            f"Spent in all: epsilon {up(kept['spent'])} of {kept['budget']:g} at delta "
            f"{kept['budget_delta']:g}."
        )
