"""Singling out, linkability and inference: three risks of a released table, with a control group.

The attacks are those of Giomi et al. 2023 (Anonymeter), for readers who must answer the three
questions of European guidance on anonymisation (Opinion 05/2014):

- *singling out*: a condition on a few columns, made from one released row, that exactly one record
  of the data meets;
- *linkability*: somebody knows some columns of a person, somebody else other columns; the released
  row nearest to the one is that nearest to the other;
- *inference*: an unknown value is guessed to be that of the nearest released row.

Rates alone mean little: a table of the population has them too. Each attack is therefore made on
the control group, records of the same law that were not in the data, and the risk is what the data
add,

    risk = (attack - control) / (1 - control).

**Its interval keeps the sign.** Clopper-Pearson limits for both rates, with half of the error
probability each, give limits for the risk since it rises with the one rate and falls with the
other: no normal approximation, whatever the two have in common. Cut at 0, as usual, risks of
harmless tables would be positive on average.

**What it does not show**: these attacks detect copying, not leaking. A synthesizer without any
privacy that copies no row passes all three.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay._special.quantiles import binomial_lower, binomial_upper
from dpassay.attacks.tables.coding import Coded, Coding, harmonise, learn_coding
from dpassay.attacks.tables.distances import find_nearest
from dpassay.attacks.tables.released import LEAST
from dpassay.bounds import Interval
from dpassay.errors import InvalidArgument

Kind = Literal["singling-out", "linkability", "inference"]
KINDS: tuple[Kind, ...] = ("singling-out", "linkability", "inference")
N_ATTACKS, N_COLUMNS, TOLERANCE = 1000, 4, 0.05
MOST_RECORDS = 20_000  # in which conditions are counted
_TRIES = 20  # released rows per condition that is wanted: most conditions hold for several rows


@dataclass(frozen=True)
class Risk:
    """One risk of a released table.

    Attributes:
        name: "singling-out", "linkability" or "inference".
        secret: the column that was guessed; empty for the other two.
        attack: the rate of success on records of the data.
        control: the same on the control group.
        risk: (attack - control)/(1 - control); its interval is signed.
        n_attacks: how many were made on each of the two.
        confidence: of all three intervals together.

    """

    name: str
    secret: str
    attack: Interval
    control: Interval
    risk: Interval
    n_attacks: int
    confidence: float

    @property
    def found(self) -> bool:
        """Whether the data are at more risk than the control group, by more than chance."""
        return self.risk.lower > 0

    def __str__(self) -> str:
        what = f"{self.name} of {self.secret}" if self.secret else self.name
        r = self.risk
        return (
            f"{what}: risk {r.value:+.3f} [{r.lower:+.3f}, {r.upper:+.3f}] (attack "
            f"{self.attack.value:.3f}, control {self.control.value:.3f}, {self.n_attacks} attacks)"
        )


def state_risk(
    name: str, successes: tuple[int, int], n: tuple[int, int], confidence: float, secret: str = ""
) -> Risk:
    """The risk from successes on the data and on the control group, of so many attacks each.

    >>> print(state_risk("inference", (60, 20), (100, 100), 0.95))
    inference: risk +0.500 [+0.256, +0.670] (attack 0.600, control 0.200, 100 attacks)

    """
    alpha = (1 - confidence) / 4  # two rates, two sides
    rates = [
        Interval(
            k / of,
            float(binomial_lower(k, of, alpha)),
            float(binomial_upper(k, of, alpha)),
            confidence,
            "clopper-pearson",
        )
        for k, of in zip(successes, n, strict=True)
    ]
    hit, base = rates
    ends = _excess(hit.lower, base.upper), _excess(hit.upper, base.lower)
    risk = Interval(_excess(hit.value, base.value), *ends, confidence, "clopper-pearson")
    return Risk(name, secret, hit, base, risk, n[0], confidence)


def _excess(attack: float, control: float) -> float:
    """The share of the control's failures that the data turn into successes, or its limit."""
    if control < 1:
        return (attack - control) / (1 - control)
    return 0.0 if attack >= 1 else -math.inf


@dataclass(frozen=True, eq=False)
class _Scene:
    coding: Coding
    coded: list[Coded]
    frames: tuple[Any, Any, Any]
    n_attacks: int
    rng: np.random.Generator


def measure_risks(
    released: Any,
    data: Any,
    control: Any,
    *,
    risks: Sequence[Kind] = KINDS,
    columns: Sequence[str] | None = None,
    known: tuple[Sequence[str], Sequence[str]] | None = None,
    secrets: Sequence[str] | None = None,
    n_attacks: int = N_ATTACKS,
    n_columns: int = N_COLUMNS,
    confidence: float = 0.95,
    rng: RngLike = 0,
) -> list[Risk]:
    """The risks of singling out, linking and inference, each with a signed interval.

    Args:
        released: the table that is to go out, as a frame; from any synthesizer.
        data: what it was made from.
        control: records of the same law that were not used.
        risks: which of the three.
        columns: which to look at; None takes all that the tables have in common.
        known: the columns that two parties know, for linkability; None takes every other one.
        secrets: columns that are guessed from all others; None takes each of them in turn.
        n_attacks: how many attacks of each kind, at most.
        n_columns: how many columns a condition that singles out is about.
        confidence: of all intervals together, over all risks and secrets.
        rng: seed of the draws.

    Raises:
        InvalidArgument: tables without a common column or with too few rows; unknown columns.

    """
    for name in risks:
        _check.choice("risk", name, KINDS)
    tables = harmonise([released, data, control], columns)
    for what, table in zip(("released table", "data", "control"), tables, strict=True):
        if len(table) < LEAST:
            raise InvalidArgument(f"the {what} has {len(table)} rows; {LEAST} are needed.")
    n_attacks = _check.count("n_attacks", n_attacks, low=LEAST)
    coding = learn_coding(tables[0], tables[0])
    frames = tables[0], tables[1], tables[2]
    coded = [coding.apply(t) for t in frames]
    scene = _Scene(coding, coded, frames, n_attacks, generator(rng))
    asked: list[tuple[str, str]] = []
    for name in risks:
        wanted = _secrets(coding, secrets) if name == "inference" else [""]
        asked += [(name, secret) for secret in wanted]
    level = 1 - (1 - _check.confidence(confidence)) / len(asked)
    found = []
    for name, secret in asked:
        successes, n = _attack(scene, name, secret, known, n_columns)
        if min(n):
            found.append(state_risk(name, successes, n, level, secret))
    return found


def _secrets(coding: Coding, secrets: Sequence[str] | None) -> list[str]:
    chosen = list(coding.names if secrets is None else secrets)
    unknown = [name for name in chosen if name not in coding.names]
    if unknown:
        raise InvalidArgument(f"secrets: {unknown[0]!r} is not a common column of the tables.")
    return chosen if len(coding.names) > 1 else []


def _attack(
    scene: _Scene, name: str, secret: str, known: Any, n_columns: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Successes on the data and on the control group, and of how many."""
    if name == "singling-out":
        return _single_out(scene, n_columns)
    attack: Callable[[NDArray[np.int64], int], NDArray[np.bool_]]
    if name == "linkability":
        halves = _halves(scene.coding, known)
        attack = lambda rows, side: _link(scene, scene.coded[side].take(rows), halves)  # noqa: E731
    else:
        attack = lambda rows, side: _infer(scene, rows, side, secret)  # noqa: E731
    n = [min(scene.n_attacks, len(scene.coded[side])) for side in (1, 2)]
    hits = [
        int(attack(scene.rng.permutation(len(scene.coded[side]))[: n[side - 1]], side).sum())
        for side in (1, 2)
    ]
    return (hits[0], hits[1]), (n[0], n[1])


# Linkability.


def _halves(coding: Coding, known: Any) -> tuple[list[str], list[str]]:
    names = list(coding.names)
    if known is None:
        first, second = names[::2], names[1::2]
    else:
        first, second = (list(side) for side in known)
    unknown = [n for n in (*first, *second) if n not in names]
    if unknown:
        raise InvalidArgument(f"known: {unknown[0]!r} is not a common column of the tables.")
    if not first or not second or set(first) & set(second):
        raise InvalidArgument(
            "linkability needs two groups of columns without a common one; name them by known=, "
            "or leave it out for tables of one column."
        )
    return first, second


def _link(scene: _Scene, records: Coded, halves: tuple[list[str], list[str]]) -> NDArray[np.bool_]:
    """Whether both parties find the same released row."""
    rows = [
        find_nearest(records, scene.coded[0], *scene.coding.places(names)).rows for names in halves
    ]
    return rows[0] == rows[1]


# Inference.


def _infer(scene: _Scene, rows: NDArray[np.int64], side: int, secret: str) -> NDArray[np.bool_]:
    """Whether the nearest released row, by all other columns, has the secret."""
    known = [name for name in scene.coding.names if name != secret]
    part = scene.coded[side].take(rows)
    near = find_nearest(part, scene.coded[0], *scene.coding.places(known)).rows
    guess = scene.frames[0][secret].iloc[near].to_numpy()
    truth = scene.frames[side][secret].iloc[rows].to_numpy()
    return is_guessed(guess, truth)


def is_guessed(guess: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Equal texts; numbers within a twentieth of the truth; a missing value is one of its own.

    >>> is_guessed(np.array([1.04, np.nan, 3.0]), np.array([1.0, np.nan, 1.0])).tolist()
    [True, True, False]

    """
    if guess.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            near = np.abs(guess - truth) <= TOLERANCE * np.abs(truth)
        return near | (np.isnan(guess) & np.isnan(truth))
    missing = [np.array([v is None or v != v for v in side.tolist()]) for side in (guess, truth)]
    return (guess == truth) | (missing[0] & missing[1])


# Singling out.


def _single_out(scene: _Scene, n_columns: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Conditions that hold for one released row, and for one record each of data and control.

    Both groups are cut to one size: how many records meet a condition depends on how many there
    are.
    """
    size = min(*map(len, scene.frames[1:]), MOST_RECORDS)
    groups = [
        _Group.of(scene.frames[i].iloc[scene.rng.permutation(len(scene.frames[i]))[:size]])
        for i in (1, 2)
    ]
    released = _Group.of(
        scene.frames[0].iloc[scene.rng.permutation(len(scene.frames[0]))[:MOST_RECORDS]]
    )
    width = min(_check.count("n_columns", n_columns), len(scene.coding.names))
    hits, n = [0, 0], 0
    for _ in range(_TRIES * scene.n_attacks):
        row = int(scene.rng.integers(released.size))
        names = scene.rng.choice(len(scene.coding.names), width, replace=False)
        condition = released.condition(row, names)
        if released.count(condition) != 1:
            continue
        n += 1
        for i, group in enumerate(groups):
            hits[i] += group.count(condition) == 1
        if n == scene.n_attacks:
            break
    return (hits[0], hits[1]), (n, n)


Condition = list[tuple[int, str, Any]]


@dataclass(frozen=True, eq=False)
class _Group:
    """Columns of a table in which conditions are counted."""

    columns: tuple[NDArray[Any], ...]
    medians: tuple[float | None, ...]
    size: int

    @classmethod
    def of(cls, frame: Any) -> "_Group":
        columns = tuple(frame[name].to_numpy() for name in frame.columns)
        medians = tuple(
            float(np.nanmedian(c)) if c.dtype.kind == "f" and not np.isnan(c).all() else None
            for c in columns
        )
        return cls(columns, medians, len(frame))

    def condition(self, row: int, places: Any) -> Condition:
        """What one row meets: its texts, and its numbers as a bound on the side of the tail."""
        found: Condition = []
        for place in places:
            value, median = self.columns[place][row], self.medians[place]
            if value is None or value != value:
                found.append((int(place), "missing", None))
            elif median is None:
                found.append((int(place), "==", value))
            else:
                found.append((int(place), ">=" if value >= median else "<=", value))
        return found

    def count(self, condition: Condition) -> int:
        """How many records meet it."""
        fine = np.ones(self.size, bool)
        for place, sign, value in condition:
            fine &= _MEETS[sign](self.columns[place], value)
        return int(fine.sum())


def _is_missing(column: NDArray[Any], value: Any) -> NDArray[np.bool_]:
    del value
    if column.dtype.kind == "f":
        return np.isnan(column)
    return np.array([v is None or v != v for v in column.tolist()])


_MEETS: dict[str, Callable[[NDArray[Any], Any], NDArray[np.bool_]]] = {
    "==": lambda column, value: column == value,
    ">=": lambda column, value: column >= value,
    "<=": lambda column, value: column <= value,
    "missing": _is_missing,
}
