"""``dpassay synth``: a private synthetic table from a CSV file and its public schema."""

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay import _files
from dpassay.cli.options import Json, LedgerPath, Neighbours, NoiseSeed, open_ledger
from dpassay.cli.output import emit, say, table, working
from dpassay.cli.tables import FREE_TEXT, UNIQUE, csv_text, read_known, read_table
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.synth import Fitted, Quality, Synthesizer, Workload

METHODS = {
    "recommended": "ProductMixture",
    "mixture": "ProductMixture",
    "frank-wolfe": "FrankWolfe",
    "mwem": "MWEM",
    "dual-query": "DualQuery",
    "dqrs": "DQRS",
    "fem": "FEM",
    "sep-fem": "SepFEM",
    "blr": "BLR",
    "independent": "Independent",
}
"""What ``--method`` takes, and the class of ``dpassay.synth`` that it names."""
OWNERS_EYES = (
    "Not private: these errors were computed from the true table without noise. For the owner's "
    "eyes; do not publish them with the synthetic table."
)


EXAMPLE = "dpassay synth table.csv --schema s.toml --epsilon 1 -o out.csv"


def synth(
    source: Annotated[Path, typer.Argument(metavar="TABLE", help="The true table, as CSV.")],
    epsilon: Annotated[float, typer.Option(help="The privacy parameter, of all that is done.")],
    schema: Annotated[
        Path | None,
        typer.Option(help="Its public domain, as TOML or JSON: a table columns.age and so on."),
    ] = None,
    domain_epsilon: Annotated[
        float | None,
        typer.Option(help="What of epsilon may be spent on measuring domains not in a schema."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The synthetic table to write.")] = Path(
        "synthetic.csv"
    ),
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "recommended",
    delta: Annotated[
        float | None, typer.Option(help="Else 1/n², with n the public number of records.")
    ] = None,
    ways: Annotated[
        int, typer.Option(help="All sets of so many columns should come out right.")
    ] = 2,
    marginal: Annotated[
        list[str] | None,
        typer.Option(help="Instead: a set of columns, as a,b,c; may be given more than once."),
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="The public number of records; else that of the table.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many to write; else as many.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Also save the model, to sample from again.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a page about it.")] = None,
    quality: Annotated[
        bool, typer.Option("--quality", help="Compare with the true table. NOT private.")
    ] = False,
    attack: Annotated[
        bool,
        typer.Option("--attack", help="Attack it before it is written; for the owner's eyes."),
    ] = False,
    holdout: Annotated[
        Path | None, typer.Option(help="Records that were not used, to attack the table with.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="A column to leave out, with --domain-epsilon; may be given repeatedly."),
    ] = None,
    ledger: LedgerPath = None,
    neighbouring: Neighbours = "add-remove",
    seed: NoiseSeed = None,
    as_json: Json = False,
) -> None:
    """Write a synthetic table that is private in every record of the true one.

    The domain of every column is declared in the schema, or measured with noise and paid for out
    of epsilon; it is never just read off the data. If anything is wrong, nothing is written, nor
    if an attack refutes what is promised (exit code 1).
    """
    if holdout is not None and not attack:
        raise InvalidArgument("--holdout goes with --attack.")
    if drop and domain_epsilon is None:
        raise InvalidArgument("--drop goes with --domain-epsilon: a schema names what is kept.")
    places = [path for path in (out, report, model) if path is not None]
    _check_places(places, source, *([] if schema is None else [schema]))
    options: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "neighbouring": neighbouring,
        "n_records": records,
        "ledger": open_ledger(ledger),
        "rng": seed,
    }
    wanted = {"ways": ways, "marginal": marginal}
    make = _synthesizer(method)
    with working("fitting"):
        if domain_epsilon is None:
            fitted, true = _fit_declared(make, source, schema, wanted, options)
            left_out: dict[str, str] = {}
        else:
            cost = domain_epsilon, drop or []
            fitted, true, left_out = _fit_measured(make, source, schema, wanted, options, *cost)
        drawn = fitted.sample(rows, rng=seed)
    found = _quality(fitted, true, fitted.workload) if quality else None
    attacked = _attack(make, fitted, drawn, true, holdout, options) if attack else None
    if attacked is not None and attacked["refuted"]:
        _refuse(attacked, as_json)
    files = {out: csv_text(drawn)}
    if report is not None:
        files[report] = page_of(fitted, found, attacked)
    _write(files, fitted, model)
    data = {"rows": len(drawn), "files": [str(path) for path in places]} | _statement(fitted)
    data["left_out"] = left_out
    data["share_given_up"] = fitted.share_given_up()
    if {FREE_TEXT, UNIQUE} & set(left_out.values()):  # that was seen in the texts
        data["public"].append("which columns hold free text or identifiers")
    if as_json:
        beside = {} if attacked is None else {"attack_not_private": attacked}
        beside |= {} if found is None else {"quality_not_private": _errors(found)}
        emit(data | beside)
        return
    _show(data, found)
    if attacked is not None:
        _show_attack(attacked)


def _attack(
    make: Any, fitted: Any, drawn: Any, true: Any, holdout: Path | None, options: dict[str, Any]
) -> dict[str, Any]:
    """What attacks find of the table before it goes out; see :mod:`dpassay.cli.synth_attack`."""
    from dpassay.cli.synth_attack import attack_before_release

    def refit(part: Any, n: int) -> Any:
        again = options | {"ledger": None, "n_records": n, "delta": fitted.budget_.delta}
        return make(fitted.schema, fitted.workload, **again).fit(part)

    with working("attacking"):
        return attack_before_release(fitted, drawn, true, holdout, refit)


def _refuse(attacked: dict[str, Any], as_json: bool) -> None:
    """Say what an attack refuted, and end: nothing is written."""
    if as_json:
        emit({"files": [], "attack_not_private": attacked})
    else:
        _show_attack(attacked)
        say("Refuted: the attack found more than was promised. Nothing was written.", style="bold")
    raise typer.Exit(1)


def _show_attack(attacked: dict[str, Any]) -> None:
    from dpassay.cli.attack_table import show_attack
    from dpassay.cli.synth_attack import REHEARSED

    if attacked["rehearsal"]:
        say(REHEARSED)
    show_attack(attacked)


def _fit_declared(
    make: Any, source: Path, schema: Path | None, wanted: Any, options: dict[str, Any]
) -> tuple[Any, Any]:
    """The synthesizer fitted on the domain of a schema, and the true table."""
    from dpassay.synth import Schema

    if schema is None:
        raise InvalidArgument(
            "the domain of the columns is not declared. Reading it from the data would leak it: "
            "declare it by --schema, or pay for it, e.g. by --domain-epsilon 0.1."
        )
    domain = Schema.read(schema)
    synthesizer = make(domain, _workload(domain.names, **wanted), **options)
    true = read_table(source, domain.columns)
    return synthesizer.fit(true), true


def _fit_measured(
    make: Any,
    source: Path,
    schema: Path | None,
    wanted: Any,
    options: dict[str, Any],
    cost: float,
    drop: list[str],
) -> tuple[Any, Any, dict[str, str]]:
    """The synthesizer fitted on a domain that is measured where the schema declares none."""
    from dpassay.synth import fit_with_domain

    true, known, left_out, rules = read_known(source, schema, drop)
    workload = _workload(tuple(known), **wanted)
    asked = {"domain_epsilon": cost, "rules": rules, "workload": workload}
    fitted = fit_with_domain(make, true, known, **asked, **options)
    return fitted, true, left_out


def _workload(names: tuple[str, ...], ways: int, marginal: list[str] | None) -> "Workload":
    from dpassay import _check
    from dpassay.synth import Workload

    if marginal:
        return Workload.marginals(tuple(listed.split(",")) for listed in marginal)
    k = min(_check.count("ways", ways), len(names))
    return Workload.marginals(itertools.combinations(names, k))


def _synthesizer(method: str) -> Any:
    from dpassay import _check, synth

    return getattr(synth, METHODS[_check.choice("method", method, tuple(METHODS))])


# The files.


def _check_places(places: list[Path], *read: Path) -> None:
    """Refuse, before the data are read, what cannot be written or would replace what is read."""
    seen = {Path(os.path.realpath(path)) for path in read}
    for path in places:
        if not path.parent.is_dir():
            raise InvalidArgument(f"{str(path)!r} cannot be written: its folder is not there.")
        place = _files.output_place(path)
        if place in seen:
            raise InvalidArgument(f"{str(path)!r} is named twice. Every file needs its own name.")
        seen.add(place)


def _write(texts: dict[Path, str], fitted: "Fitted", model: Path | None) -> None:
    """All files or none: they are moved into place once all of them are complete."""
    kept = {} if model is None else {model: fitted.to_bytes()}
    try:
        _files.write_all({**texts, **kept})
    except OSError as error:
        reason = error.strerror or str(error)  # of the disk, not of the data
        raise InvalidArgument(f"the files cannot be written: {reason}.") from None


# What is said of it.


def _statement(fitted: "Synthesizer") -> dict[str, Any]:
    """What was promised, from the event alone."""
    curve = fitted.privacy_
    delta = fitted.budget_.delta
    return {
        "method": fitted.method_,
        "epsilon": float(curve.epsilon(delta)),
        "delta": delta,
        "neighbouring": curve.neighbouring,
        "public": list(fitted.assumptions_),
        "noise": fitted.noise_,
        "private": fitted.noise_ != "reproducible",
    }


def _quality(fitted: "Fitted", true: Any, wanted: "Workload") -> "Quality":
    from dpassay.synth import quality

    return quality(fitted, true, wanted)


def _errors(found: "Quality") -> dict[str, Any]:
    return {
        "max_error": found.max_error,
        "mean_total_variation": found.mean_total_variation,
        "by_columns": found.table().to_dict(orient="records"),
    }


def _promise(data: dict[str, Any]) -> str:
    from dpassay.report.numbers import up

    if not data["private"]:
        return "NOT private: a seed was given, so that whoever knows it can take the noise off."
    return (
        f"({up(data['epsilon'])}, {data['delta']:.3g})-DP for neighbours by {data['neighbouring']}"
        f"; taken as public: {', '.join(data['public'])}."
    )


def _show(data: dict[str, Any], found: "Quality | None") -> None:
    say(f"{data['rows']} synthetic records by {data['method']}.")
    say(_promise(data), style="bold")
    if found is not None:
        worst = found.table().sort_values("largest error", ascending=False).head(10)
        rows = [
            (f"{row[1]:.4f}", f"{row[3]:.4f}", str(row[0]))
            for row in worst.itertuples(index=False, name=None)
        ]
        table("Errors of the model's answers", ("largest", "total variation", "columns"), rows)
        say(OWNERS_EYES, style="bold")
    if data["share_given_up"] > 0:
        say(
            f"Rules: about {data['share_given_up']:.2%} of what the model draws broke one and was "
            "drawn anew."
        )
    for name, why in data["left_out"].items():
        say(f"Left out: column {name!r}, {why}. Declare it in a schema to keep it.")
    for path in data["files"]:
        say(f"Written: {path}")


def page_of(
    fitted: "Synthesizer", found: "Quality | None", attacked: dict[str, Any] | None = None
) -> str:
    """One page of HTML on what was promised and, if asked for, how close the model came."""
    from dpassay.privacy import ApproxDP, PureDP
    from dpassay.report import odds
    from dpassay.report.page import NOTHING_FETCHED, document, figure, inline, paragraphs
    from dpassay.report.page import table as html_table

    data = _statement(fitted)
    epsilon, delta = data["epsilon"], data["delta"]
    claim = ApproxDP(epsilon, delta) if delta > 0 else PureDP(epsilon)
    facts = [
        ("method", data["method"]),
        ("noise", data["noise"]),
        ("neighbours", data["neighbouring"]),
        ("taken as public", ", ".join(data["public"])),
    ]
    parts = [
        paragraphs(_promise(data)),
        html_table(facts),
        "<h2>What that means for one person</h2>",
        figure(
            inline(odds.icons_svg(odds.explain(claim)), "odds"),
            "The most that the promise allows, if a person took part and if not.",
        ),
        "<h2>The domain</h2>",
        _domain(fitted, data),
    ]
    if found is not None:
        parts += ["<h2>How close it is (not private)</h2>", paragraphs(OWNERS_EYES), _near(found)]
    if attacked is not None:
        from dpassay.cli.synth_attack import REHEARSED
        from dpassay.report.released import describe_attack

        what = REHEARSED if attacked["rehearsal"] else "This table was attacked."
        parts += ["<h2>Attacked (not private)</h2>", paragraphs(what), describe_attack(attacked)]
    title = "A private synthetic table" if data["private"] else "A synthetic table, NOT private"
    return document(title, "\n".join(parts), head=NOTHING_FETCHED)


def _domain(fitted: "Fitted", data: dict[str, Any]) -> str:
    """The columns with their kinds, and what was paid for domains that nobody declared."""
    from dpassay.report.numbers import up
    from dpassay.report.page import paragraphs
    from dpassay.report.page import table as html_table

    measured = () if fitted.domain_ is None else fitted.domain_.measured
    rows = [
        (name, c.kind, str(c.size), "measured with noise" if name in measured else "declared")
        for name, c in fitted.schema.columns.items()
    ]
    table = html_table(rows, head=("column", "kind", "values", "domain"))
    if fitted.domain_ is None or not data["private"]:
        return table
    price = up(float(fitted.domain_.privacy.epsilon(data["delta"])))
    return table + paragraphs(
        f"Measuring domains alone costs epsilon = {price} at delta = {data['delta']:.3g}; the "
        "promise above includes it. Values that few records have are not in a measured domain: "
        "they count as missing, or as the nearest number or day."
    )


def _near(found: "Quality") -> str:
    from dpassay.report.page import table as html_table

    rows = [
        (str(row[0]), f"{row[1]:.4f}", f"{row[3]:.4f}")
        for row in found.table().itertuples(index=False, name=None)
    ]
    caption = (
        f"Largest error {found.max_error:.4f}, mean total variation "
        f"{found.mean_total_variation:.4f}, as shares of the records."
    )
    head = ("columns", "largest error", "total variation")
    return html_table(rows, head=head, caption=caption)
