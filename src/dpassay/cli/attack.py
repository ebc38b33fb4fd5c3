"""``dpassay attack``: who was in the training set? All attacks that a file of outputs allows.

With ``--table`` the target is a released table instead: see :mod:`dpassay.cli.attack_table`.
"""

import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpassay.cli.attack_table import (
    attack_released,
    drop_columns,
    read_csv,
    show_attack,
    split_by_coins,
)
from dpassay.cli.options import Json
from dpassay.cli.output import emit, say, table, working
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.attacks import AttackResult, Shadows
    from dpassay.types import PrivacyCurve

REFUTED, DEFAULT_DELTA = 1, 1e-5
NO_BOUND = (
    "Nothing follows for epsilon: records of one model are not independent trials. Put each "
    "candidate in by a fair coin of its own and pass --randomised, or play dpassay audit."
)
LAYOUT = (
    "A CSV needs the column 'member' (1 was in the training set, 0 was not) with 'loss', or with "
    "'p0', 'p1', ... (probabilities) and 'label' (which p is right); an NPZ the arrays members and "
    "losses, or probabilities and labels; and for shadows shadow_losses or shadow_probabilities "
    "(shadows first) with shadow_inside."
)
WITH_SHADOWS = ("lira", "lira-offline", "rmia", "rmia-offline", "shadow")


EXAMPLE = (
    "dpassay attack losses.csv --fpr .01, or dpassay attack --table synthetic.csv --data "
    "original.csv --holdout holdout.csv"
)


def attack(
    losses: Annotated[
        Path | None,
        typer.Argument(
            help="CSV with columns member and loss, or member, label and p0, p1, ...; or NPZ, "
            "which may hold shadows too. Not with --table.",
            show_default=False,
        ),
    ] = None,
    released: Annotated[
        Path | None, typer.Option("--table", help="Instead: a released table, as CSV.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The data that the table was made from.")
    ] = None,
    holdout: Annotated[
        Path | None, typer.Option(help="Records of the same kind that were not used.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="More of these, to compare with; else part of the holdout.")
    ] = None,
    coins: Annotated[
        str | None,
        typer.Option(
            help="A column of --data, 1 put in, 0 left out, by a fair coin for each: then ε is "
            "bounded, and no holdout is needed."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column not to look at; may be given repeatedly.")
    ] = None,
    risks: Annotated[
        bool, typer.Option(help="Also singling out, linkability and inference.")
    ] = True,
    secret: Annotated[
        list[str] | None,
        typer.Option(help="A column that is inferred; may be given repeatedly. Else each."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", help="Also write a page about the table.")
    ] = None,
    claim: Annotated[
        str | None, typer.Option(help="What was promised, such as 3,1e-5 or gdp:0.5.")
    ] = None,
    randomised: Annotated[
        bool,
        typer.Option(
            "--randomised",
            "--randomized",
            help="Each candidate was put in by a fair coin of its own: only then ε is bounded.",
        ),
    ] = False,
    delta: Annotated[
        float | None,
        typer.Option(help="Where epsilon is bounded.", show_default="that of the claim, or 1e-5"),
    ] = None,
    fpr: Annotated[float, typer.Option(help="Where the true-positive rate is shown.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Of the whole table together.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of learners and of breaking ties.")] = 0,
    as_json: Json = False,
) -> None:
    """Membership attacks on losses or probabilities, or on a released table: rates with intervals.

    Exit code 1 if a claim is refuted, which takes --randomised (or --coins).
    """
    from dpassay import _check
    from dpassay.auditing import parse_claim

    curve = None if claim is None else parse_claim(claim)
    of_tables = {"data": data, "holdout": holdout, "reference": reference, "coins": coins}
    of_tables |= {"drop": drop, "secret": secret, "report": page}
    if released is not None:
        if losses is not None:
            raise InvalidArgument("give losses or --table, not both: they are two targets.")
        found = _attack_table(
            released,
            of_tables,
            risks,
            curve,
            randomised,
            _delta(curve, delta),
            fpr,
            confidence,
            seed,
        )
        if as_json:
            emit(found | {"claim": claim})
        else:
            show_attack(found, claim)
        raise typer.Exit(REFUTED if found["refuted"] else 0)
    alone = [name for name, value in of_tables.items() if value]
    if alone:
        raise InvalidArgument(f"--{alone[0]} goes with --table, the released table.")
    if losses is None:
        raise InvalidArgument(f"losses or --table is missing. For example: {EXAMPLE}.")
    candidates = read(losses)
    methods = candidates.methods()
    level = (1 - _check.confidence(confidence)) / len(methods)
    given = {
        "membership": "randomised" if randomised else "fixed",
        "claim": curve,
        "delta": _delta(curve, delta),
        "fprs": (fpr,),
        "confidence": 1 - level,
        "rng": seed,
    }
    with working("attacking"):
        results = [candidates.attack(method, given) for method in methods]
    refuted = curve is not None and any(_refutes(r, curve) for r in results)
    head = {"records": candidates.sizes, "confidence": confidence, "claim": claim, "fpr": fpr}
    if as_json:
        emit(head | {"refuted": refuted, "membership": given["membership"], **_json(results)})
    else:
        _show(results, head, refuted)
    raise typer.Exit(REFUTED if refuted else 0)


def _attack_table(
    released: Path,
    given: dict[str, Any],
    risks: bool,
    claim: "PrivacyCurve | None",
    randomised: bool,
    delta: float,
    fpr: float,
    confidence: float,
    seed: int,
) -> dict[str, Any]:
    """What is found of a released table; the page is written if one was asked for."""
    from dpassay import _files
    from dpassay.report.released import page_of_attack

    table, data = read_csv("table", released), read_csv("data", given["data"])
    if given["coins"] is not None:
        if given["holdout"] is not None:
            raise InvalidArgument("--holdout and --coins: with coins, --data holds all candidates.")
        data, holdout = split_by_coins(data, given["coins"])
    else:
        holdout = read_csv("holdout", given["holdout"])
    tables = [table, data, holdout]
    if given["reference"] is not None:
        tables.append(read_csv("reference", given["reference"]))
    with working("attacking"):
        found = attack_released(
            *drop_columns(tables, given["drop"] or ()),
            claim=claim,
            risks=risks,
            secrets=given["secret"],
            confidence=confidence,
            seed=seed,
            membership="randomised" if randomised or given["coins"] is not None else "fixed",
            delta=delta,
            fprs=(fpr,),
        )
    if given["report"] is not None:
        try:
            _files.write(given["report"], page_of_attack(found))
        except OSError as error:
            raise InvalidArgument(
                f"report={str(given['report'])!r} cannot be written: {error.strerror}."
            ) from None
    return found


def _delta(claim: "PrivacyCurve | None", delta: float | None) -> float:
    from dpassay import _check
    from dpassay.auditing.referee import claimed_delta

    if claim is not None:
        return claimed_delta(claim, delta)
    return DEFAULT_DELTA if delta is None else _check.delta(delta)


def _refutes(result: "AttackResult", claim: "PrivacyCurve") -> bool:
    bound = result.bound
    return bound is not None and bound.epsilon > float(claim.epsilon(bound.delta))


@dataclass(frozen=True)
class Candidates:
    """Outputs on members, then on non-members: losses, probabilities with labels, shadows."""

    n_members: int
    losses: Any
    probabilities: Any
    labels: Any
    shadows: "Shadows | None"

    @property
    def sizes(self) -> dict[str, int]:
        """How many members and non-members there are."""
        n = len(self.losses if self.probabilities is None else self.probabilities)
        return {"members": self.n_members, "non_members": n - self.n_members}

    def methods(self) -> list[str]:
        """The attacks that these outputs allow."""
        from dpassay.attacks.scores import METRICS

        found = ["loss"] if self.probabilities is None else list(METRICS)
        if self.shadows is None:
            return found
        within, without = ((self.shadows.inside == w).sum(axis=0).min() for w in (1, 0))
        allowed = {
            "lira": within > 1 and without > 1,
            "lira-offline": without > 1,
            "rmia": within > 0 and without > 0,
            "rmia-offline": without > 0,
            "shadow": self.probabilities is not None and self.shadows.outputs.n_classes is not None,
        }
        return found + [name for name in WITH_SHADOWS if allowed[name]]

    def attack(self, method: str, given: dict[str, Any]) -> "AttackResult":
        """The result of one attack; losses that were given are taken for the loss."""
        from dpassay.attacks import Outputs, attack

        by_loss = self.probabilities is None or (method == "loss" and self.losses is not None)
        k = self.n_members
        taken: dict[str, Any] = {"labels": self.labels} if self.labels is not None else {}
        taken |= {"losses": self.losses} if by_loss else {"probabilities": self.probabilities}
        sides = [
            Outputs(**{name: values[part] for name, values in taken.items()})
            for part in (slice(k), slice(k, None))
        ]
        return attack(None, *sides, method=method, shadows=self.shadows, **given)


def read(path: Path) -> Candidates:
    """What a file holds, members first; misfits are named."""
    import numpy as np

    from dpassay import _check
    from dpassay._handed import list_names
    from dpassay.cli.scores import read_columns

    columns = read_columns(path, "losses", LAYOUT)
    members = _first(columns, "member", "members")
    if members is None:
        raise InvalidArgument(f"{path} has no 'member' but {list_names(columns)}. {LAYOUT}")
    member = _check.array("member", members, low=0, high=1, ndim=1, empty=False, remedy=LAYOUT)
    if not np.isin(member, (0, 1)).all() or len(set(member.tolist())) < 2:
        raise InvalidArgument(f"member must be 0 or 1, with both kinds in the file. {LAYOUT}")
    order = np.argsort(member == 0, kind="stable")
    losses = _first(columns, "loss", "losses")
    probabilities, labels = _probabilities(columns)
    if losses is None and probabilities is None:
        raise InvalidArgument(
            f"{path} has no 'loss' and no 'p0' but {list_names(columns)}. {LAYOUT}"
        )
    arrays = {"loss": losses, "probabilities": probabilities, "label": labels}
    for name, values in arrays.items():
        if values is not None and np.shape(values)[:1] != (len(member),):
            raise InvalidArgument(
                f"{name} has shape {np.shape(values)} for {len(member)} members. {LAYOUT}"
            )
    loss, p, label = (None if v is None else np.asarray(v)[order] for v in arrays.values())
    return Candidates(int(member.sum()), loss, p, label, _shadows(columns, label, order))


def _first(columns: dict[str, Any], *names: str) -> Any:
    return next((columns[name] for name in names if name in columns), None)


def _probabilities(columns: dict[str, Any]) -> tuple[Any, Any]:
    """The matrix and the column of each label; columns p1, p4, ... are the classes 1, 4, ..."""
    import numpy as np

    labels = _first(columns, "label", "labels")
    if "probabilities" in columns:
        return columns["probabilities"], labels
    numbers = sorted(int(m[1]) for name in columns if (m := re.fullmatch(r"p_?(\d+)", name)))
    if not numbers:
        return None, labels
    if labels is None:
        raise InvalidArgument(f"label is missing: which of the probabilities is right? {LAYOUT}")
    wrong = np.flatnonzero(~np.isin(labels, numbers))
    if wrong.size:
        raise InvalidArgument(
            f"label[{wrong[0]}] has no column of its own among p{numbers[0]}, ... {LAYOUT}"
        )
    matrix = np.column_stack([_first(columns, f"p{i}", f"p_{i}") for i in numbers])
    return matrix, np.searchsorted(numbers, labels)


def _shadows(columns: dict[str, Any], labels: Any, order: Any) -> "Shadows | None":
    import numpy as np

    from dpassay.attacks import Outputs, Shadows

    inside = columns.get("shadow_inside")
    names = ("shadow_losses", "shadow_probabilities")
    given = {name.removeprefix("shadow_"): columns[name] for name in names if name in columns}
    if inside is None and not given:
        return None
    if inside is None or len(given) != 1:
        raise InvalidArgument(f"shadows need shadow_inside and one kind of outputs. {LAYOUT}")
    for name, values in (("shadow_inside", inside), *given.items()):
        if np.ndim(values) < 2 or np.shape(values)[1] != len(order):
            raise InvalidArgument(
                f"{name} has shape {np.shape(values)}; it needs a row for each shadow and a column "
                f"for each of {len(order)} records. {LAYOUT}"
            )
    given = {name: np.asarray(values)[:, order] for name, values in given.items()}
    return Shadows(Outputs(**given, labels=labels), np.asarray(inside)[:, order])


def _json(results: "list[AttackResult]") -> dict[str, Any]:
    """Every attack's numbers, without a word on single records."""
    attacks = {
        r.method: {
            "accuracy": asdict(r.accuracy),
            "auc": asdict(r.auc),
            "advantage": asdict(r.advantage),
            "tpr": asdict(r.tpr),
            "fpr": asdict(r.fpr),
            "tpr_at": {f"{fpr:g}": asdict(found) for fpr, found in r.tpr_at.items()},
            "threshold": r.cut.rule,
            "knows": r.knows,
            "source": r.source,
            "significant": r.significant,
            "epsilon_lower": None if r.bound is None else r.bound.epsilon,
        }
        for r in results
    }
    first = results[0]
    return {
        "significant": [r.method for r in results if r.significant],
        "attacks": attacks,
        "ceilings": None if first.ceilings is None else asdict(first.ceilings),
        "about": first.about,
    }


def _show(results: "list[AttackResult]", head: dict[str, Any], refuted: bool) -> None:
    from dpassay.report.numbers import down

    fpr = head["fpr"]
    rows: list[tuple[str, ...]] = [
        (
            r.method,
            _short(r.accuracy.value),
            _interval(r.auc),
            _interval(r.tpr_at[fpr]),
            "-" if r.bound is None else down(r.bound.epsilon),
            "yes" if r.significant else "no",
        )
        for r in results
    ]
    tops = results[0].ceilings
    if tops is not None:
        allowed = (f"<= {_short(x)}" for x in (tops.accuracy, tops.auc, tops.tpr_at[fpr]))
        rows.append((f"claim {head['claim']}", *allowed, "", ""))
    counts = head["records"]
    title = f"{counts['members']} members, {counts['non_members']} non-members"
    table(title, ("attack", "accuracy", "AUC", f"TPR at FPR {fpr:g}", "ε ≥", "found"), rows)
    say(
        f"All intervals hold together with confidence {head['confidence']:.10g}, for "
        f"{results[0].about}. Found: better than a coin by more than chance."
    )
    if results[0].bound is None:
        say(NO_BOUND)
    elif head["claim"]:
        say(f"The claim {head['claim']} is {'refuted' if refuted else 'not refuted'}.")


def _interval(found: Any) -> str:
    """The value, and the ends rounded outwards: what is read still holds."""
    lower, upper = math.floor(100 * found.lower) / 100, math.ceil(100 * found.upper) / 100
    return f"{_short(found.value)} [{_short(lower, 2)}, {_short(upper, 2)}]"


def _short(x: float, digits: int = 3) -> str:
    return f"{x:.{digits}f}".removeprefix("0")
