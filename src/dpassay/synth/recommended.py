"""One call for the recommended synthesizer, and one for any synthesizer on a measured domain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from dpassay import _check, _rng
from dpassay._lazy import renamed_arguments
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.privacy.budget import DEFAULT_EPSILON, budget
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.privacy.ledger import Ledger, spending
from dpassay.privacy.risk import Risk
from dpassay.synth.base import Synthesizer, default_delta
from dpassay.synth.methods.product_mixture import ProductMixture
from dpassay.synth.methods.stages import RESOLUTION
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.columns import Column
from dpassay.synth.tables.domains import (
    DOMAIN_DELTA,
    MeasuredDomain,
    Undeclared,
    measure_domain,
    price_domain,
    read_columns,
)
from dpassay.synth.tables.remainder import Remainder, split_budget
from dpassay.synth.tables.schema import Schema
from dpassay.synth.tables.times import TimeOfDay
from dpassay.types import Neighbouring

S = TypeVar("S", bound=Synthesizer)


@renamed_arguments(frame="table")
def fit(
    table: Any,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    domain_epsilon: float | None = None,
    workload: Workload | None = None,
    target: str | None = None,
    resolution: float | None = RESOLUTION,
    epsilon: float = DEFAULT_EPSILON,
    delta: float | None = None,
    risk: Risk | None = None,
    neighbouring: Neighbouring = "add-remove",
    n_records: int | None = None,
    reader_share: float = 0.0,
    ledger: Ledger | None = None,
    rng: RngLike = None,
) -> ProductMixture:
    """The recommended synthesizer, fitted: a private model to sample from and to ask.

    Args:
        table: a frame, or an array with the columns in the schema's order.
        schema: the public domain of the table. With ``domain_epsilon``, what is known of the
            columns (see :func:`~dpassay.synth.measure_domain`), or None.
        domain_epsilon: the part of epsilon that may be spent on measuring domains that are not
            declared; None measures none, and refuses a table whose domain is not declared.
        workload: the queries that should come out right; None takes all pairs of columns.
        target: a column that is to be predicted from the others, if there is one.
        resolution: how coarse the cells are on which pairs are measured, in units of their noise;
            see :class:`~dpassay.synth.ProductMixture`.
        epsilon: the privacy parameter, of all that is done.
        delta: the probability that may escape epsilon; None takes 1/n² of the public n.
        risk: what an attacker may gain at most, in place of epsilon, where all domains are
            declared; see :class:`~dpassay.synth.Synthesizer`.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records; None takes that of the table.
        reader_share: what of the squared budget is for telling readers how close the synthetic
            table is: ``reader_`` then may be published.
        ledger: where all that is spent is charged, before the table is touched.
        rng: None for secure noise; a seed for noise that can be replayed (not private).

    Raises:
        InvalidArgument: the table does not fit the schema, or epsilon is too small to do anything;
            nothing is released then.

    """
    rest: dict[str, Any] = {
        "workload": workload,
        "target": target,
        "resolution": resolution,
        "epsilon": epsilon,
        "delta": delta,
        "risk": risk,
        "neighbouring": neighbouring,
        "n_records": n_records,
        "reader_share": reader_share,
        "ledger": ledger,
        "rng": rng,
    }
    if domain_epsilon is None:
        return ProductMixture(cast(Schema, schema), **rest).fit(table)  # it refuses all else
    if isinstance(schema, Schema):
        raise InvalidArgument(
            f"domain_epsilon={domain_epsilon} is not needed: the schema declares every domain."
        )
    return fit_with_domain(ProductMixture, table, schema, domain_epsilon=domain_epsilon, **rest)


def fit_with_domain(
    method: type[S],
    table: Any,
    columns: Mapping[str, Any] | None = None,
    *,
    domain_epsilon: float,
    rules: Sequence[str] = (),
    workload: Workload | Callable[[tuple[str, ...]], Workload] | None = None,
    epsilon: float = 1.0,
    delta: float | None = None,
    neighbouring: Neighbouring = "add-remove",
    n_records: int | None = None,
    ledger: Ledger | None = None,
    rng: RngLike = None,
    **options: Any,
) -> S:
    """A synthesizer fitted on a domain that is measured first; both together are (epsilon, delta).

    Args:
        method: a class such as :class:`~dpassay.synth.ProductMixture`.
        table: a frame; or an array, if ``columns`` names its columns.
        columns: what is known of them; see :func:`measure_domain`.
        domain_epsilon: the part of epsilon that the domain may cost. Gaussian noise composes by
            squares: if the domain takes a third of epsilon, about 94 % are left for a synthesizer
            that adds only Gaussian noise (:class:`~dpassay.synth.ProductMixture` on pairs).
        rules: what every record is known to meet; see :class:`~dpassay.synth.Schema`.
        workload: see :func:`~dpassay.synth.fit`, as for the others; or a function that makes it
            from the names of the columns once they are known. Queries about columns that are left
            out are left out too.
        epsilon: what domain and synthesizer may cost together.
        delta: the delta of both together; None takes 1/n² of the public n.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records.
        ledger: where domain and synthesizer are charged, as one entry and before either is begun:
            if there is no room for both, nothing is spent.
        rng: None for secure noise.
        options: further arguments of the method.

    Raises:
        InvalidArgument: as :func:`measure_domain` and the method do; nothing is released then.

    """
    if not (isinstance(method, type) and issubclass(method, Synthesizer)):
        raise InvalidArgument(
            f"method={_check.shown(method)} must be a class, such as dpassay.synth.FEM: its domain "
            "is measured before there is a synthesizer."
        )
    if options.get("risk") is not None:
        raise InvalidArgument(
            f"risk={options['risk']!r} goes with a declared schema. Where domains are measured, on "
            "which a part of epsilon is spent first, pass epsilon."
        )
    if not hasattr(table, "__len__"):
        raise InvalidArgument(f"table={_check.shown(table)} must be a frame or an array.")
    n = len(table) if n_records is None else _check.count("n_records", n_records)
    if not n:
        raise InvalidArgument("the table is empty: it has no records to learn from.")
    allowed = budget(epsilon, default_delta(n) if delta is None else delta, neighbouring)
    _check.number(
        "domain_epsilon",
        domain_epsilon,
        low=0,
        low_open=True,
        high=allowed.epsilon,
        high_open=True,
        remedy="It is the part of epsilon that the domain may cost.",
    )
    _, known, measured = read_columns(table, columns, rules)
    apart = budget(domain_epsilon, DOMAIN_DELTA * allowed.delta, neighbouring)
    event = price_domain(measured, apart)
    # A method that is purely epsilon-DP takes no delta; the domain has one all the same.
    given = {} if method.is_pure else {"delta": allowed.delta}
    common = {"epsilon": allowed.epsilon, "neighbouring": neighbouring, "n_records": n}
    common |= given | options
    # Made once on a domain of the same columns, to know what it will do before anything is spent.
    rehearsed = method(_stand_in(known), _make_workload(workload, known), **common)
    rehearsed.state_privacy(n)  # what is wrong with its options is said now
    gaussian = rehearsed.adds_gaussian_noise_only
    left, promise = split_budget(allowed, domain_epsilon, event, gaussian=gaussian)
    seeds, what = _seeds(rng), f"domain and {method.__name__}"
    with spending(ledger, EventSequence((event, promise)), what=what, n_records=n):
        domain = measure_domain(
            table,
            columns,
            epsilon=apart.epsilon,
            delta=apart.delta,
            neighbouring=neighbouring,
            n_records=n,
            rules=rules,
            rng=seeds[0],
        )
        fitted = _fit_workload(workload, domain)
        synthesizer = method(domain.schema, fitted, rng=seeds[1], **common)
        remainder = Remainder(domain, allowed, left, promise)
        kept = _without(table, columns, domain.dropped)
        return synthesizer.fit_remainder(kept, remainder)


def _stand_in(known: Mapping[str, Column | Undeclared]) -> Schema:
    """A schema with the columns that a domain will have, each of two values."""
    names = [
        name
        for given, one in known.items()
        for name in (given, f"{given} time")[: 1 + (one.kind == "timestamp")]
    ]
    return Schema(dict.fromkeys(names, (0, 1)))


def _make_workload(
    workload: Workload | Callable[[tuple[str, ...]], Workload] | None, known: Mapping[str, Any]
) -> Workload | None:
    return workload(_stand_in(known).names) if callable(workload) else workload


def _fit_workload(
    workload: Workload | Callable[[tuple[str, ...]], Workload] | None, domain: MeasuredDomain
) -> Workload | None:
    """What is left of a workload on a domain: no column that was dropped, every time with its day.

    A target that was dropped is an error of the method, which knows its columns.
    """
    columns = domain.schema.columns
    if workload is None:
        return None
    if not isinstance(workload, Workload):
        return workload(tuple(columns))
    lost = set(domain.dropped)
    blocks = tuple(block for block in workload.blocks if not lost & {*block.columns})
    times = [(c.of, name) for name, c in columns.items() if isinstance(c, TimeOfDay)]
    if not blocks and not times:
        return None
    return Workload(blocks + (Workload.marginals(times).blocks if times else ()))


def _without(table: Any, columns: Mapping[str, Any] | None, dropped: Sequence[str]) -> Any:
    """The table without some of its columns; an array has those that ``columns`` names."""
    if not dropped:
        return table
    if hasattr(table, "drop"):
        return table.drop(columns=list(dropped))
    kept = [i for i, name in enumerate(columns or ()) if str(name) not in dropped]
    return np.asarray(table)[:, kept]


def _seeds(rng: RngLike) -> list[Any]:
    """Two generators for two independent parts, or None twice."""
    return [None, None] if rng is None else list(_rng.generator(rng).spawn(2))
