"""``dpassay attack --table``: membership attacks on one released table, and three risks."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpassay.cli.output import say, table
from dpassay.errors import InvalidArgument

if TYPE_CHECKING:
    from dpassay.attacks.tables import Risk, TableAttack
    from dpassay.types import PrivacyCurve

EXAMPLE = "dpassay attack --table synthetic.csv --data original.csv --holdout holdout.csv"
_MOST_SHOWN = 10  # risks of inference, the largest first


def read_csv(name: str, path: Path | None) -> Any:
    """A CSV file as a frame of texts, in which an empty field is missing."""
    from dpassay._handed import load_csv

    if path is None:
        raise InvalidArgument(
            f"--{name} is missing. An attack on a table needs the table, the data it was made "
            f"from, and records that were not used: {EXAMPLE}."
        )
    return load_csv(name, path, dtype=str, keep_default_na=False, na_values=[""])


def split_by_coins(data: Any, column: str) -> tuple[Any, Any]:
    """Candidates whose coin put them in, and the others; the column of the coins is left out."""
    if column not in data.columns:
        raise InvalidArgument(f"coins={column!r} is not a column of --data.")
    coins = data[column].str.strip()
    if not coins.isin(["0", "1"]).all():
        raise InvalidArgument(f"coins={column!r} must be 1 (put in) or 0 (left out) in every row.")
    rest = data.drop(columns=column)
    put_in, left_out = (rest[coins == v].reset_index(drop=True) for v in ("1", "0"))
    return put_in, left_out


def drop_columns(tables: Sequence[Any], drop: Sequence[str]) -> list[Any]:
    """The tables without some columns, each of which one of them must have."""
    for name in drop:
        if not any(name in t.columns for t in tables):
            raise InvalidArgument(f"drop={name!r} is not a column of any of the tables.")
    return [t.drop(columns=[n for n in drop if n in t.columns]) for t in tables]


def attack_released(
    released: Any,
    members: Any,
    holdout: Any,
    reference: Any = None,
    *,
    claim: "PrivacyCurve | None",
    risks: bool,
    secrets: Sequence[str] | None,
    confidence: float,
    seed: int,
    **more: Any,
) -> dict[str, Any]:
    """All that is said of one released table, as plain data: no record is in it."""
    from dpassay import _check
    from dpassay.attacks.tables import KINDS, attack_table, measure_risks

    # Half of the error probability for membership, half for the three risks, if they are asked for.
    level = 1 - (1 - _check.confidence(confidence)) / (2 if risks else 1)
    found = attack_table(
        released,
        members,
        holdout,
        reference=reference,
        claim=claim,
        confidence=level,
        rng=seed,
        **more,
    )
    extra = {"secrets": secrets, "confidence": level, "rng": seed}
    # In one column there is nothing to link or to guess from.
    kinds = KINDS if len(found.columns) > 1 else KINDS[:1]
    measured = (
        measure_risks(released, members, holdout, risks=kinds, columns=found.columns, **extra)
        if risks
        else []
    )
    return facts_of(found, measured, claim, confidence)


def facts_of(
    found: "TableAttack", risks: "Sequence[Risk]", claim: "PrivacyCurve | None", confidence: float
) -> dict[str, Any]:
    """The numbers of the attacks and the sentences that belong to them."""
    from dpassay.attacks.tables import COPYING, NO_EPSILON, SCORES
    from dpassay.attacks.tables.released import describe_drift

    bound = found.bound
    return {
        "records": {
            "members": found.n_members,
            "others": found.n_others,
            "reference": found.n_reference,
            "released": found.n_released,
            "shared": found.n_shared,
        },
        "columns": list(found.columns),
        "ignored_columns": list(found.ignored),
        "membership": found.membership,
        "confidence": confidence,
        "fpr": next(iter(found.results[0].tpr_at)),
        "significant": [r.method for r in found.results if r.significant],
        "attacks": {
            r.method: {
                "auc": asdict(r.auc),
                "advantage": asdict(r.advantage),
                "tpr_at": {f"{fpr:g}": asdict(rate) for fpr, rate in r.tpr_at.items()},
                "significant": r.significant,
                "epsilon_lower": None if r.bound is None else r.bound.epsilon,
                "knows": r.knows,
                "source": r.source,
                "finds": SCORES[r.method].finds,
            }
            for r in found.results
        },
        "skipped": found.skipped,
        "drift": None if found.drift is None else asdict(found.drift),
        "drifted": found.drifted,
        "drift_in_words": describe_drift(found.drift) if found.drift is not None else "",
        "risks": [asdict(risk) | {"found": risk.found} for risk in risks],
        "epsilon_lower": None if bound is None else bound.epsilon,
        "delta": None if bound is None else bound.delta,
        "epsilon_in_words": NO_EPSILON if bound is None else f"{bound}.",
        "refuted": claim is not None and found.refutes(claim),
        "copying": COPYING,
    }


def show_attack(data: dict[str, Any], claim: str | None = None) -> None:
    """Print what was found, and what that does not show."""
    from dpassay.report.released import OWNERS_EYES, interval

    n = data["records"]
    rows = [
        (
            name,
            interval(found["auc"]),
            interval(next(iter(found["tpr_at"].values()))),
            "yes" if found["significant"] else "no",
        )
        for name, found in data["attacks"].items()
    ]
    title = f"{n['members']} members, {n['others']} others, {n['released']} released rows"
    table(title, ("attack", "AUC", f"TPR at FPR {data['fpr']:g}", "found"), rows)
    for name, why in data["skipped"].items():
        say(f"{name} was not tried, {why}.")
    _show_risks(data["risks"])
    say(
        f"All intervals hold together with confidence {data['confidence']:.10g}, for this table. "
        "Found: better than a coin by more than chance."
    )
    for sentence in _remarks(data, claim):
        say(sentence)
    say(OWNERS_EYES, style="bold")


def _show_risks(risks: list[dict[str, Any]]) -> None:
    from dpassay.report.released import interval

    if not risks:
        return
    first = [r for r in risks if not r["secret"]]
    guessed = sorted((r for r in risks if r["secret"]), key=lambda r: -r["risk"]["lower"])
    rows = [
        (
            r["name"] + (f" of {r['secret']}" if r["secret"] else ""),
            interval(r["risk"], signed=True),
            f"{r['attack']['value']:.3f}",
            f"{r['control']['value']:.3f}",
        )
        for r in first + guessed[:_MOST_SHOWN]
    ]
    more = len(guessed) - _MOST_SHOWN
    table(
        "Risks, against the control group", ("risk", "added by the data", "data", "control"), rows
    )
    if more > 0:
        say(f"{more} more columns were guessed, with smaller risks; --json has them all.")


def _remarks(data: dict[str, Any], claim: str | None) -> list[str]:
    """What must be read with the numbers."""
    n, said = data["records"], []
    if data["ignored_columns"]:
        said.append(f"Not in all tables, so not looked at: {', '.join(data['ignored_columns'])}.")
    if n["shared"]:
        said.append(
            f"{n['shared']} of the {n['others']} others equal a record of the data: a released row "
            "like these is no sign of a member."
        )
    if data["drifted"]:
        said.append(data["drift_in_words"])
    said.append(data["epsilon_in_words"])
    if claim is not None and data["epsilon_lower"] is not None:
        said.append(f"The claim {claim} is {'refuted' if data['refuted'] else 'not refuted'}.")
    return [*said, data["copying"]]
