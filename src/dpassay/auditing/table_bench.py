"""What is played in one part of an audit of a synthesizer: on which tables, against which claim."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dpassay import _check
from dpassay.auditing.table_pairs import Base, Likeness, TablePair, make_pair, pair_of
from dpassay.auditing.table_plays import (
    CANNOT_SEE,
    SIZE_IS_PUBLIC,
    Answers,
    Measured,
    Rows,
    Support,
    View,
    WeightedSum,
    as_is,
    weigh,
)
from dpassay.auditing.table_subjects import Stated, Subject
from dpassay.errors import InvalidArgument
from dpassay.privacy.curves import GDP
from dpassay.types import Neighbouring, PrivacyCurve

SMALL_EPSILON = 0.1  # support is looked at here: a perfect attack refutes it in some 30 fits
N_RECORDS, MOST_RECORDS = 300, 20_000


@dataclass(frozen=True, eq=False)
class Asked:
    """What an audit was asked to play; see :func:`dpassay.audit_table`."""

    subject: Subject
    claim: PrivacyCurve | None
    base: Base
    data: Any
    record: int | Mapping[str, Any] | None
    n_records: int | None
    n_rows: int | None
    answers: Callable[[Any], Any] | None


@dataclass(frozen=True, eq=False)
class Bench:
    """What is played in one part, on which tables, against which claim."""

    view: View
    pair: TablePair
    claim: PrivacyCurve
    play: Any
    score: Any

    @property
    def cannot_see(self) -> tuple[str, ...]:
        adds = self.claim.neighbouring == "add-remove"
        return (*CANNOT_SEE[self.view], *((SIZE_IS_PUBLIC,) if adds else ()))

    def describe(self) -> dict[str, Any]:
        """What the log says of it beside its question."""
        return {
            "target": type(self.play.subject.synthesizer).__name__,
            "view": self.view,
            "pair": f"{self.view} of a synthesizer, {self.pair.describe()}",
            "cannot_see": list(self.cannot_see),
        }


def prepare(asked: Asked, view: View) -> Bench:
    """The tables, the claim and the plays of a view."""
    claim = asked.claim
    small = SMALL_EPSILON if view == "support" and claim is None else None
    subject = asked.subject.with_public_size(1, small)
    pair = _make_tables(asked, subject, view, _relation(subject, claim))
    n = len(pair.without)
    subject = subject.with_public_size(n, small)
    if claim is None:
        claim = _as_written(cast(Stated, subject.synthesizer).state_privacy(n))
    n_rows = 5 * n if asked.n_rows is None else _check.count("rows", asked.n_rows)
    play, score = _choose_play(subject, view, pair, n_rows, asked.answers)
    return Bench(view, pair, claim, play, score)


def _as_written(claim: PrivacyCurve) -> PrivacyCurve:
    """The claim in a form that a log can hold, so that the log can be judged without the code.

    An accountant's Gaussian curve names its method, which a text cannot.
    """
    if not isinstance(claim, GDP):
        return claim
    return GDP(
        claim.mu,
        neighbouring=claim.neighbouring,
        assumptions=claim.assumptions,
        n_records=claim.n_records,
    )


def _relation(subject: Subject, claim: PrivacyCurve | None) -> Neighbouring:
    if claim is not None:
        return claim.neighbouring
    if isinstance(subject.synthesizer, Stated):
        return subject.synthesizer.neighbouring
    raise InvalidArgument(
        "claim is missing: this synthesizer does not state one. Pass claim=(1.0, 1e-5), or a curve "
        "such as dpassay.GDP(0.3)."
    )


def _make_tables(asked: Asked, subject: Subject, view: View, relation: Neighbouring) -> TablePair:
    """The two tables: of the user's own, or made from the public domain."""
    import pandas as pd

    base: Base = "empty" if view == "support" else asked.base
    if asked.data is not None:
        if not isinstance(asked.data, pd.DataFrame):
            raise InvalidArgument("data must be a frame with named columns.")
        return pair_of(asked.data, asked.record, base, relation)
    schema = getattr(subject.synthesizer, "schema", None)
    if schema is None or not hasattr(schema, "decode"):
        raise InvalidArgument(
            "data is missing: this synthesizer has no public schema to make a table from. Pass a "
            "table that it can be fitted on."
        )
    if asked.n_records is None:
        n = _find_size(subject, view != "support")
    else:
        n = _check.count("n_records", asked.n_records, low=3)
    return make_pair(schema, base, n, relation, seed=0)


def _find_size(subject: Subject, above_noise: bool) -> int:
    """300 records, or as many as the plan needs; as eight deviations of the noise, if asked for."""
    n = N_RECORDS
    while n < MOST_RECORDS:
        try:
            model: Any = subject.with_public_size(n).with_seed(np.random.default_rng(0))
            table = make_pair(model.schema, "filled", n, "add-remove", seed=0).without
            model.state_privacy(n)
            found: list[Any] = (
                model.measure(table)[0] if above_noise and model.measures_first else []
            )
        except InvalidArgument:  # too little budget for so few records
            n *= 2
            continue
        needed = max((8 * n * m.deviation for m in found), default=0.0)
        return int(min(max(n, needed), MOST_RECORDS))
    return MOST_RECORDS


def _choose_play(subject: Subject, view: View, pair: TablePair, n_rows: int, answers: Any) -> Any:
    """The mechanism of a view, and its score."""
    records = [pair.target] + ([] if pair.other is None else [pair.other])
    if view == "measurements" or (view == "answers" and answers is None):
        schema = subject.synthesizer.schema
        cells = tuple(tuple(schema.encode(r)[0].tolist()) for r in records)
        if view == "measurements":
            return Measured(subject, cells), as_is
        return Answers(subject, cells), WeightedSum(weigh(subject, pair.without))
    if view == "answers":
        return Answers(subject, (), answers), None
    like = tuple(Likeness.of(r, pair.without) for r in records)
    if view == "support":
        alone = tuple(not column.any() for column in like[0].to(pair.without).T)
        return Support(subject, like[0], alone, n_rows), WeightedSum()
    return Rows(subject, like, n_rows), WeightedSum(weigh(subject, pair.without))
