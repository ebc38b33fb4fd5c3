"""What the data of a report must look like before a page is made of them.

A report file may come from anywhere. Every field that the page reads is checked for its type and
range; fields that are not known here are left alone, since later versions may add some.
"""

import math
from collections.abc import Callable
from typing import Any

from dpassay.errors import InvalidArgument
from dpassay.report.words import KINDS, RELATIONS, UNITS
from dpassay.types import NO_ASSUMPTION

MOST_AUDITS = 1000
MOST_POINTS = 100_000  # of a drawn curve
STATUSES = ("pass", "fail", "not checked")

Check = Callable[[Any, str], None]


class Misfit(InvalidArgument):
    """A field of a report is missing, of a wrong type or out of range; the message names it."""


def check_shape(data: dict[str, Any]) -> None:
    """Raise :class:`Misfit` at the first field that is not what it must be."""
    _REPORT(data, "")


def _refuse(where: str, what: str) -> Misfit:
    return Misfit(f"{where or 'the report'} is not {what}")


# ------------------------------------------------------------------------------- the grammar


def _text(value: Any, where: str) -> None:
    if not isinstance(value, str):
        raise _refuse(where, "a text")


def _flag(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise _refuse(where, "true or false")


def _plain(value: Any, where: str) -> None:
    if not isinstance(value, str | int | float):
        raise _refuse(where, "a text or a number")


def _one_of(*options: str) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or value not in options:
            raise _refuse(where, f"one of {', '.join(options)}")

    return check


def _number(low: float = -math.inf, high: float = math.inf, whole: bool = False) -> Check:
    """A number; infinities are written as texts, see :func:`dpassay.report.numbers.as_json`."""

    def check(value: Any, where: str) -> None:
        infinite = value in ("inf", "-inf") if isinstance(value, str) else False
        kinds = int if whole else (int, float)
        if isinstance(value, bool) or not (infinite or isinstance(value, kinds)):
            raise _refuse(where, "a whole number" if whole else "a number")
        number: Any = float(value) if infinite else value
        if not low <= number <= high:
            raise _refuse(where, f"between {low:g} and {high:g}")

    return check


def _maybe(inner: Check) -> Check:
    return lambda value, where: None if value is None else inner(value, where)


def _list(inner: Check, least: int = 0, most: int = MOST_POINTS) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise _refuse(where, f"a list of {least} to {most} entries")
        for place, entry in enumerate(value):
            inner(entry, f"{where}[{place}]")

    return check


def _table_of(inner: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _refuse(where, "a mapping")
        for entry in value.values():
            inner(entry, f"an entry of {where}")

    return check


def _fields(**inner: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _refuse(where, "a mapping")
        for name, check_field in inner.items():
            if name not in value:
                raise _refuse(where, f"whole: it has no {name}")
            check_field(value[name], f"{where}.{name}".removeprefix("."))

    return check


def _fields_if_there(**inner: Check) -> Check:
    """Fields that reports of before do not have; where they are, they are checked."""

    def check(value: Any, where: str) -> None:
        for name in inner.keys() & value.keys():
            inner[name](value[name], f"{where}.{name}")

    return check


def _all_of(*checks: Check) -> Check:
    def check(value: Any, where: str) -> None:
        for one in checks:
            one(value, where)

    return check


def _curves(*names: str, extra: dict[str, Check] | None = None, longer: str = "") -> Check:
    """Columns of numbers of one length; ``longer`` names one that has an entry more."""
    points = _list(_maybe(_number()), 1)
    fields = _fields(**dict.fromkeys(names, points), **(extra or {}))

    def check(value: Any, where: str) -> None:
        fields(value, where)
        if len({len(value[name]) - (name == longer) for name in names}) > 1:
            raise _refuse(where, f"whole: {', '.join(names)} do not belong together")

    return check


# ------------------------------------------------------------------------------- the fields

_share, _some, _count = _number(0, 1), _number(0), _number(0, 2.0**53, whole=True)
_CURVE = _fields(
    statement=_text,
    curve=_text,
    epsilon=_some,
    delta=_share,
    mu=_maybe(_some),
    neighbouring=_one_of(*RELATIONS),
    method=_text,
    kind=_one_of(*KINDS),
    assumptions=_list(_text),
    n_records=_maybe(_count),
    profile=_curves("epsilon", "delta"),
    table=_list(_fields(epsilon=_some, delta=_share)),
    allowed=_curves("fpr", "tpr_least", "tpr_most"),
)
_BAND = {"confidence": _share, "words": _text}
_ENDS = {f"n_{side}_{end}": _count for side in ("in", "out") for end in ("lowest", "highest")}
_EVIDENCE = _fields(
    roc=_maybe(_curves("fpr", "tpr")),
    roc_band=_maybe(_curves("fpr", "tpr_lower", "tpr_upper", extra=_BAND)),
    histogram=_maybe(_curves("edges", "n_in", "n_out", extra=_ENDS, longer="edges")),
    thresholds=_maybe(_curves("threshold", "epsilon")),
    guesses=_maybe(_curves("guesses", "epsilon")),
    wealth=_maybe(_curves("trial", "log_wealth", extra={"needed": _some, "n_bet": _count})),
)
_DECLARED = (
    "target", "data", "n_records", "unit", "records_per_person", "setting", "code", "contact",
    "date",
)  # fmt: skip
_ONE_TRAINING = _fields(
    canaries=_text,
    view=_text,
    unit=_one_of("record", "user"),
    records_per_unit=_count,
    exercised=_list(_text),
    not_exercised=_list(_text),
    bounds=_list(
        _fields(assumption=_text, assumes_nothing=_flag, epsilon=_some, ceiling=_some, method=_text)
    ),
    draws=_maybe(_some),
    kappa=_maybe(_some),
    noise_multiplier=_maybe(_some),
    sampling_rate=_maybe(_share),
    steps=_maybe(_count),
    residuals=_maybe(
        _fields(
            mean=_number(),
            variance=_some,
            kurtosis=_some,
            largest_correlation=_maybe(_number(-1, 1)),
        )
    ),
    notes=_list(_text),
)
_AUDIT_OF_VERSION_2 = _fields(
    title=_text,
    verdict=_fields(
        refuted=_flag,
        headline=_text,
        sentence=_text,
        remarks=_list(_text),
        ended=_text,
        kind=_one_of(*UNITS),
        trials=_count,
        n_learning=_count,
        n_deaths=_maybe(_count),
        p_value=_maybe(_share),
        fell_at=_maybe(_fields(epsilon=_some, delta_seen=_share, delta_allowed=_share)),
        power=_maybe(_fields(auc=_share, auc_allowed=_share, vacuous=_flag)),
        next_step=_text,
    ),
    epsilon=_fields(
        delta=_share,
        proved_upper=_maybe(_some),
        claimed=_some,
        measured_lower=_some,
        ceiling=_some,
    ),
    odds=_list(_fields(if_out=_share, if_in=_share, what=_text), 1, 100),
    claim=_CURVE,
    proof=_maybe(_CURVE),
    bound=_fields(
        method=_text, selection=_text, assumption=_text, assumes_nothing=_flag, valid=_flag
    ),
    attack=_fields(n_in=_count, n_out=_count, rows=_list(_list(_text, 2, 2))),
    evidence=_EVIDENCE,
    disclosure=_fields(**dict.fromkeys(_DECLARED, _maybe(_plain))),
    hazards=_list(_fields(name=_text, status=_one_of(*STATUSES), why=_text, grounds=_text)),
    limits=_list(_text),
    replay=_fields(
        command=_text, run=_maybe(_text), seed=_maybe(_plain), versions=_table_of(_text)
    ),
)
_CHECKED = _fields(
    broken=_flag,
    decided=_flag,
    findings=_list(
        _fields(
            kind=_one_of("broken", "warning"),
            **dict.fromkeys(("rule", "title", "place", "source", "message", "help"), _text),
        )
    ),
    open=_list(_text),
    epsilon_seen=_maybe(_some),
    epsilon_claimed=_maybe(_some),
    delta=_share,
    executions=_count,
    pairs=_count,
    note=_text,
)
_BESIDE = _fields_if_there(one_training=_maybe(_ONE_TRAINING), check=_maybe(_CHECKED))
_AUDIT = _all_of(_AUDIT_OF_VERSION_2, _BESIDE)
_REPORT = _fields(title=_text, introduction=_text, audits=_list(_AUDIT, 1, MOST_AUDITS))


# ------------------------------------------------------------------------------- before


def from_version_1(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a report of version 1, with the fields that version 2 added.

    What version 1 did not know is left empty: nothing is made up.
    """
    audits = data.get("audits")
    if not isinstance(audits, list):
        raise _refuse("audits", "a list")
    for place, audit in enumerate(audits):
        _OLD_AUDIT(audit, f"audits[{place}]")
    return data | {"schema_version": 2, "audits": [_from_version_1(audit) for audit in audits]}


_OLD_CURVE = _fields(assumptions=_list(_text))
_OLD_AUDIT = _fields(
    verdict=_fields(one_run=_flag),
    claim=_OLD_CURVE,
    proof=_maybe(_OLD_CURVE),
    bound=_fields(assumption=_text),
    attack=_fields(n_learning=_count),
)


def _from_version_1(audit: dict[str, Any]) -> dict[str, Any]:
    verdict, n_learning = audit["verdict"], audit["attack"]["n_learning"]
    new = {
        "kind": "one run" if verdict["one_run"] else "many trials",
        "trials": verdict.get("trials", 0) + n_learning,  # They were left out before.
        "n_learning": n_learning,
        "n_deaths": None,  # It was not kept.
        "p_value": None,
        "fell_at": None,
        "power": None,
        "next_step": "",
    }
    curves = {
        name: audit[name] and audit[name] | {"n_records": None} for name in ("claim", "proof")
    }
    bound = audit["bound"]
    bound |= {
        "assumes_nothing": bound["assumption"] == NO_ASSUMPTION,
        "valid": True,
        "p_value": None,
    }
    return audit | curves | {"verdict": verdict | new, "bound": bound}
