"""``dpassay synth``: a private synthetic table from a CSV file and its public schema."""

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay import _files
from dpassay.cli.options import Json, LedgerPath, Neighbours, NoiseSeed, open_ledger
from dpassay.cli.output import emit, say, table, working
from dpassay.cli.synth_facts import (
    describe_domain,
    describe_quality,
    read_quality,
    state_promise,
)
from dpassay.cli.tables import FREE_TEXT, UNIQUE, csv_text, read_known, read_table
from dpassay.errors import InvalidArgument
from dpassay.report.synthetic import (
    COLUMN_NUMBERS,
    OWNERS_EYES,
    number,
    page_of,
    promise_in_words,
)

if TYPE_CHECKING:
    from dpassay.synth import Fitted, Synthesizer, Workload

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
    reader_share: Annotated[
        float, typer.Option(help="Of the squared budget, to tell readers how close the table is.")
    ] = 0.0,
    target: Annotated[
        str | None, typer.Option(help="A column that is to be predicted from the others.")
    ] = None,
    resolution: Annotated[
        float | None,
        typer.Option(help="Least mean count of a cell of two columns, in units of its noise."),
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
        "reader_share": reader_share,
        "ledger": open_ledger(ledger),
        "rng": seed,
    }
    options |= _read_options(method, target=target, resolution=resolution)
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
    found = _compare(fitted, true, drawn, target) if quality else None
    attacked = _attack(make, fitted, drawn, true, holdout, options) if attack else None
    if attacked is not None and attacked["refuted"]:
        _refuse(attacked, as_json)
    files = {out: csv_text(drawn)}
    promise, domain = state_promise(fitted), describe_domain(fitted)
    told = None if fitted.reader_ is None else read_quality(fitted.reader_)
    if report is not None:
        shown = None if attacked is None else _page_part(attacked)
        files[report] = page_of(promise, domain, told, found, shown)
    _write(files, fitted, model)
    data = {"rows": len(drawn), "files": [str(path) for path in places]} | promise
    data |= {"left_out": left_out, "dropped": domain["dropped"]}
    if told is not None:
        data["quality_for_readers"] = told
    data["share_given_up"] = fitted.share_given_up()
    if {FREE_TEXT, UNIQUE} & set(left_out.values()):  # that was seen in the texts
        data["public"].append("which columns hold free text or identifiers")
    if as_json:
        beside = {} if attacked is None else {"attack_not_private": attacked}
        beside |= {} if found is None else {"quality_not_private": found}
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


def _page_part(attacked: dict[str, Any]) -> str:
    """What attacks found, for the owner's page."""
    from dpassay.cli.synth_attack import REHEARSED
    from dpassay.report.page import paragraphs
    from dpassay.report.released import describe_attack

    what = REHEARSED if attacked["rehearsal"] else "This table was attacked."
    return paragraphs(what) + describe_attack(attacked)


def _show_attack(attacked: dict[str, Any]) -> None:
    from dpassay.cli.attack_table import show_attack
    from dpassay.cli.synth_attack import REHEARSED

    if attacked["rehearsal"]:
        say(REHEARSED)
    show_attack(attacked)


def _read_options(method: str, **given: Any) -> dict[str, Any]:
    """Options of the recommended method that were given; an error for any other method."""
    said = {name: value for name, value in given.items() if value is not None}
    if said and METHODS.get(method) != "ProductMixture":
        raise InvalidArgument(f"--{next(iter(said))} goes with --method recommended.")
    return said


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
    import warnings

    from dpassay.synth import DomainWarning, fit_with_domain

    true, known, left_out, rules = read_known(source, schema, drop)
    _workload(tuple(known), **wanted)  # what is wrong with it is said before anything is spent
    asked = {"domain_epsilon": cost, "rules": rules}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DomainWarning)  # it is said with the rest, below
        fitted = fit_with_domain(
            make, true, known, workload=lambda names: _workload(names, **wanted), **asked, **options
        )
    return fitted, true, left_out


def _workload(names: tuple[str, ...], ways: int, marginal: list[str] | None) -> "Workload":
    from dpassay import _check
    from dpassay.synth import Workload

    if marginal:
        sets = [tuple(listed.split(",")) for listed in marginal]
        return Workload.marginals(sets)
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


def _compare(fitted: "Synthesizer", true: Any, drawn: Any, target: str | None) -> dict[str, Any]:
    """The owner's numbers: errors of the workload's answers, and the two tables side by side."""
    from dpassay.synth import compare_tables, quality

    errors = quality(
        fitted, true[[c for c in true.columns if c in fitted.schema.columns]], fitted.workload
    )
    both = compare_tables(true, drawn, schema=fitted.schema, target=target)
    return describe_quality(errors, both)


def _show(data: dict[str, Any], found: dict[str, Any] | None) -> None:
    say(f"{data['rows']} synthetic records by {data['method']}.")
    say(promise_in_words(data), style="bold")
    for name in data["dropped"]:
        say(
            f"DROPPED: column {name!r}. Nothing of it stood out from the noise, which was paid for."
            " Declare its domain in a schema, which is free, or raise --domain-epsilon.",
            style="bold",
        )
    if "quality_for_readers" in data:
        _show_readers(data["quality_for_readers"])
    if found is not None:
        _show_owners(found)
    if data["share_given_up"] > 0:
        say(
            f"Rules: about {data['share_given_up']:.2%} of what the model draws broke one and was "
            "drawn anew."
        )
    for name, why in data["left_out"].items():
        say(f"Left out: column {name!r}, {why}. Declare it in a schema to keep it.")
    for path in data["files"]:
        say(f"Written: {path}")


def _show_readers(told: dict[str, Any]) -> None:
    rows = [
        (column["column"], column["words"], f"{column['missing']:.3f}", f"{column['outside']:.3f}")
        for column in told["columns"]
    ]
    table("For readers, paid for", ("column", "distance", "missing", "outside"), rows)
    say(f"Shares are known to {told['resolution']:.2g}; below '<' nothing is known.")


def _show_owners(found: dict[str, Any]) -> None:
    head = ("column", "distance", "mean", "synthetic", "deviation", "synthetic", "outside")
    rows = [
        (
            row["column"],
            f"{row['distance']:.3f}",
            *(number(row[key]) for key in COLUMN_NUMBERS),
            f"{row['outside']:.3f}",
        )
        for row in found["columns"]
    ]
    table("True beside synthetic", head, rows)
    worst = sorted(found["by_columns"], key=lambda row: -row["largest error"])[:10]
    rows = [
        (f"{row['largest error']:.4f}", f"{row['total variation']:.4f}", row["queries"])
        for row in worst
    ]
    table("Errors of the model's answers", ("largest", "total variation", "columns"), rows)
    for fault in found["faults"]:
        say(f"BAD: {fault}.", style="bold")
    say(OWNERS_EYES, style="bold")
