"""What a person declares about a release: what no program can see, so that it is asked for.

The fields follow the reporting recommendations of NIST SP 800-226 (2025) and of Ponomareva et al.
2023, "How to DP-fy ML", section 5.3: setting, data accesses covered, what is released, unit,
neighbouring relation, accounting and its assumptions, openness.
"""

import datetime
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dpassay import _check, _handed
from dpassay.errors import InvalidArgument

SETTINGS = ("central", "local", "distributed", "shuffled")
SAMPLINGS = ("full batch", "poisson", "without replacement", "with replacement", "shuffled")
NOISES = ("exact", "cryptographic", "reproducible")
RETENTIONS = ("deleted", "restricted", "unrestricted")


@dataclass(frozen=True)
class Disclosure:
    """What was declared about a release; None is "not said", and is shown as such.

    Attributes:
        target: what is released, in words.
        data: the data it was made from, in one line; never a record.
        n_records: how many records these are; a public number.
        unit: whom or what the guarantee protects: "person", "record", "household", ...
        records_per_person: the most records that one person has in the data.
        setting: who is trusted: "central" (a curator sees the data), "local", "distributed" or
            "shuffled".
        view: what the attacker of the audit was shown, in words.
        proof_neighbouring: the relation that the proof speaks of.
        sampling_accounted: the sampling that the proof assumes: "full batch", "poisson",
            "without replacement", "with replacement" or "shuffled".
        sampling_used: the sampling that the code does, one of the same.
        search_accounted: whether the guarantee covers the search for hyper-parameters (true also
            if there was none on these data).
        bounds_from_data: whether bounds, norms or the domain were read off the private data.
        noise: of the release: "exact", "cryptographic" or "reproducible"; what
            :class:`dpassay.Release` and the learners' ``noise_`` say.
        checkpoints_released: whether intermediate models leave the house too.
        checkpoints_accounted: whether the guarantee covers them.
        metrics_released: whether numbers computed on the private data (accuracy, loss curves)
            leave the house too.
        metrics_accounted: whether the guarantee covers them.
        raw_data_retention: what becomes of the data: "deleted", "restricted" (kept for a stated
            time, few have access) or "unrestricted".
        code: where the code can be read.
        contact: whom to ask.
        date: of the release or of this report, as it shall be printed.

    """

    target: str | None = None
    data: str | None = None
    n_records: int | None = None
    unit: str | None = None
    records_per_person: int | None = None
    setting: str | None = None
    view: str | None = None
    proof_neighbouring: str | None = None
    sampling_accounted: str | None = None
    sampling_used: str | None = None
    search_accounted: bool | None = None
    bounds_from_data: bool | None = None
    noise: str | None = None
    checkpoints_released: bool | None = None
    checkpoints_accounted: bool | None = None
    metrics_released: bool | None = None
    metrics_accounted: bool | None = None
    raw_data_retention: str | None = None
    code: str | None = None
    contact: str | None = None
    date: str | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None:
                _CHECKS.get(name, _text)(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(
            f"{name}={_check.shown(value)} must be text. Leave it out if there is none."
        )
    return value


def _flag(name: str, value: Any) -> bool:
    return _check.instance(name, value, bool, "true or false. Leave it out if it is not known.")


def _one_of(options: tuple[str, ...]) -> Callable[[str, Any], str]:
    return lambda name, value: _check.choice(name, value, options)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "n_records": _check.count,
    "records_per_person": _check.count,
    "setting": _one_of(SETTINGS),
    "proof_neighbouring": _one_of(_check.NEIGHBOURING),
    "sampling_accounted": _one_of(SAMPLINGS),
    "sampling_used": _one_of(SAMPLINGS),
    "search_accounted": _flag,
    "bounds_from_data": _flag,
    "noise": _one_of(NOISES),
    "checkpoints_released": _flag,
    "checkpoints_accounted": _flag,
    "metrics_released": _flag,
    "metrics_accounted": _flag,
    "raw_data_retention": _one_of(RETENTIONS),
}


def read_disclosure(path: str | Path) -> Disclosure:
    """The disclosure in a TOML file with the fields of :class:`Disclosure`, all of them optional.

    Raises:
        InvalidArgument: the file cannot be read, is no TOML, or has an unknown or wrong field.

    """
    given = _handed.load_toml("about", path)
    known = [field.name for field in fields(Disclosure)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InvalidArgument(
            f"{path}: {', '.join(unknown)}: no such field. The fields are {', '.join(known)}."
        )
    try:
        return Disclosure(**{name: _plain(value) for name, value in given.items()})
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from None


def _plain(value: Any) -> Any:
    """A TOML value as JSON has it: TOML has a type of its own for dates."""
    return value.isoformat() if isinstance(value, datetime.date) else value
