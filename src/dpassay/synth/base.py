"""What every synthesizer shares: budget, public quantities, statement of privacy, sampling, files.

A synthesizer is a class with two methods of its own::

    class Mine(Synthesizer):
        def _plan(self, allowed, n_records):      # from public quantities alone
            return MyPlan(event, ...)             # a dpassay.privacy.budget.Plan
        def _run(self, data, plan, chosen):       # the only one that computes from the data
            return Mixture(...)

``fit`` encodes the table, plans, states the event, and only then computes from the data. What it
leaves is a :class:`Fitted`: everything after that is post-processing of a private release.
"""

import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from dpassay import _check, _files, _handed, _rng
from dpassay._rng import RngLike
from dpassay._threads import limit_threads
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.mechanisms.noise import Source, source
from dpassay.privacy import Event, Gaussian, account, from_dict
from dpassay.privacy.budget import DEFAULT_EPSILON, Budget, Plan, budget, keep_risk
from dpassay.privacy.events import Sequence as EventSequence
from dpassay.privacy.gaussian import epsilon_of, mu_of
from dpassay.privacy.ledger import Ledger, spending
from dpassay.privacy.risk import Risk
from dpassay.synth.measurements import Measurement
from dpassay.synth.models import MODELS, MOST_REJECTIONS, Groups, Model, Records
from dpassay.synth.queries.workload import Workload
from dpassay.synth.readers import ReaderQuality, measure_quality
from dpassay.synth.tables.domains import MeasuredDomain
from dpassay.synth.tables.form import Form
from dpassay.synth.tables.remainder import Remainder
from dpassay.synth.tables.schema import Schema, as_frame
from dpassay.types import FloatArray, Neighbouring, NoiseLevel, PrivacyCurve

FORMAT = 1
"""The version of saved files; a reader takes its own and older ones."""
MOST_CELLS = 10**9  # of a sampled table; more would need tens of gigabytes


class Fitted:
    """A private model of a table: it answers queries and samples records at no further cost.

    Attributes:
        schema: the public domain.
        model_: the records, distribution or mixture that was learned.
        event_: what was done to the data.
        assumptions_: what was taken as public.
        noise_: "exact", or "reproducible", which is not private.
        method_: which algorithm learned it.
        domain_: the domain that was measured first and its price, which ``event_`` has in it; None
            where all was declared, and in a model that was read back.
        reader_: how close the sampled tables are, for readers, which ``event_`` has in it; None
            unless it was asked for, and in a model that was read back.

    """

    schema: Schema
    model_: Model
    event_: Event
    assumptions_: tuple[str, ...]
    noise_: NoiseLevel
    method_: str
    form_: Form
    n_records_: int
    domain_: MeasuredDomain | None = None
    reader_: ReaderQuality | None = None

    @property
    def privacy_(self) -> PrivacyCurve:
        """The privacy curve of the fit: an upper bound, with what it takes as public."""
        self._check_fitted()
        return account(self.event_, assumptions=self.assumptions_, n_records=self.n_records_)

    def sample(
        self, n: int | None = None, rng: RngLike = None, *, where: Mapping[str, Any] | None = None
    ) -> Any:
        """A synthetic table in the form of the one that was fitted.

        Args:
            n: how many records; None gives as many as the public number of the fitted table.
            rng: None draws from the operating system; a seed or a generator makes it replay.
            where: a condition, column to a value or to a list of values; records are drawn given
                it. For columns in bins, all values of the bin of a given value are allowed.

        Raises:
            InvalidArgument: an unknown column or value; a condition that the model rules out.

        """
        self._check_fitted()
        if where is not None and not isinstance(where, Mapping):
            raise InvalidArgument(
                f"where={_check.shown(where)} must be a mapping from columns to values, e.g. "
                "{'sex': 'F', 'age': [30, 31]}."
            )
        remedy = f"A table of {len(self.schema.names)} columns has {MOST_CELLS:g} cells at most."
        most = MOST_CELLS // len(self.schema.names)
        n = self.n_records_ if n is None else _check.count("n", n, high=most, remedy=remedy)
        generator = np.random.default_rng() if rng is None else _rng.generator(rng)
        drawn, _ = self._draw(n, generator, where or {})
        return self.form_.apply(drawn, self.schema)

    def _draw(self, n: int, rng: np.random.Generator, where: Mapping[str, Any]) -> tuple[Any, int]:
        """Records that meet the schema's rules, and how many were drawn for that.

        Those that break a rule are drawn anew, as a whole: what is left has the law of the model
        given the rules, exactly, inside of bins too.
        """
        import pandas as pd

        condition = self.schema.conditions(where)
        kept: list[Any] = []
        left, n_drawn = np.arange(n), 0
        for _ in range(MOST_REJECTIONS):
            codes = self.model_.sample(len(left), rng, condition)
            drawn, n_drawn = self.schema.decode(codes, rng), n_drawn + len(left)
            fine = self.schema.keeps_rules(drawn)
            kept.append(drawn[fine].set_axis(left[fine]))
            left = left[~fine]
            if not len(left):
                return (pd.concat(kept).sort_index() if kept[1:] else drawn), n_drawn
        raise InvalidArgument(
            f"{len(left)} of {n} records broke a rule {MOST_REJECTIONS} times in a row: `rules` "
            "leave the model next to nothing."
        )

    def share_given_up(self, n: int = 10_000, rng: RngLike = 0) -> float:
        """The share of the model's records that the schema's rules rule out; an estimate.

        It is how far, in total variation, the records that are sampled are from the model that
        answers queries.
        """
        self._check_fitted()
        if not self.schema.rules:
            return 0.0
        _, n_drawn = self._draw(n, _rng.generator(rng), {})
        return 1 - n / n_drawn

    def answer(self, workload: Workload) -> FloatArray:
        """The model's own answers, one per query: without the error of sampling records."""
        self._check_fitted()
        return _check_workload(workload).answers(self.model_)

    def save(self, path: str | Path) -> Path:
        """Write what was learned to one file (JSON and NPZ, no pickle); :func:`load` reads it.

        The file is complete or not there: it is written beside its place and then moved.
        """
        try:
            return _files.write(path, self.to_bytes())
        except OSError as error:
            raise InvalidArgument(f"path={str(path)!r} cannot be written: {error}.") from None

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes to a file."""
        self._check_fitted()
        header = {
            "format": FORMAT,
            "method": self.method_,
            "model": self.model_.kind,
            "schema": self.schema.as_dict(),
            "form": self.form_.as_dict(),
            "event": self.event_.as_dict(),
            "assumptions": list(self.assumptions_),
            "noise": self.noise_,
            "n_records": self.n_records_,
        }
        buffer = io.BytesIO()
        text = np.frombuffer(json.dumps(header, default=_plain).encode(), np.uint8)
        arrays: dict[str, Any] = {"header": text, **self.model_.arrays()}
        np.savez_compressed(buffer, **arrays)
        return buffer.getvalue()

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise InvalidArgument(f"{type(self).__name__} is not fitted yet. Call fit(table).")


def load(path: str | Path) -> Fitted:
    """What :meth:`Fitted.save` wrote, ready to sample and to answer.

    Raises:
        InvalidArgument: the file is missing, damaged, or of a newer format.

    """
    shown = f"path={str(path)!r}"
    arrays = _handed.load_npz("path", path)
    try:
        header = _handed.parse_json(shown, arrays.pop("header").tobytes(), infinite=True)
        if header["format"] > FORMAT:
            raise InvalidArgument(
                f"{shown} has format {_check.shown(header['format'])}, newer than {FORMAT}. "
                "Upgrade dpassay."
            )
        fitted = _restore(header, arrays)
        fitted.model_.check()
        return fitted
    except DpassayError:
        raise
    except Exception as error:  # a header of other types than were written
        raise InvalidArgument(
            f"{shown} is not a saved synthesizer, or damaged ({type(error).__name__})."
        ) from None


def _restore(header: Mapping[str, Any], arrays: dict[str, Any]) -> Fitted:
    fitted = Fitted()
    fitted.schema = Schema.from_dict(header["schema"])
    fitted.model_ = MODELS[header["model"]].from_arrays(fitted.schema, arrays)
    fitted.event_ = from_dict(header["event"])
    fitted.assumptions_ = tuple(header["assumptions"])
    fitted.noise_ = header["noise"]
    fitted.method_ = header["method"]
    fitted.form_ = Form.from_dict(header["form"])
    fitted.n_records_ = int(header["n_records"])
    return fitted


def _check_workload(workload: Any) -> Workload:
    must_be = "a Workload, e.g. Workload.marginals([('age', 'sex')])."
    return _check.instance("workload", workload, Workload, must_be)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return sorted(value) if isinstance(value, set) else list(value)


class CommonWithoutDelta(TypedDict, total=False):
    """What every synthesizer takes beside its schema and workload; see :class:`Synthesizer`."""

    epsilon: float
    risk: Risk | None
    neighbouring: Neighbouring
    n_records: int | None
    reader_share: float
    ledger: Ledger | None
    rng: RngLike


class Common(CommonWithoutDelta, total=False):
    """The same, with the delta of those that can use one."""

    delta: float | None


class Synthesizer(Fitted, ABC):
    """A private algorithm that learns a model of a table; use one of its kinds.

    Args:
        schema: the public domain of the table.
        workload: the queries that should come out right; None takes all pairs of columns.
        epsilon: the privacy parameter.
        delta: the probability that may escape epsilon; None takes 1/n² of the public n.
        risk: what an attacker may gain at most, in place of epsilon: an
            :class:`~dpassay.privacy.Advantage`, AttackRate or BayesError. The fit takes the largest
            epsilon, at this delta, whose event keeps it.
        neighbouring: "add-remove" or "replace-one".
        n_records: the public number of records; None takes that of the table, and the claim says
            so.
        reader_share: what of the squared budget is for telling readers how close the synthetic
            table is (``reader_``), with noise; for methods that add Gaussian noise only.
        ledger: where the fit is charged, before the table is touched.
        rng: None for secure noise; a seed for noise that can be replayed (not private).

    Attributes:
        budget_: what the fit was allowed to spend, a measured domain included.

    """

    is_pure: ClassVar[bool] = False
    """Whether the method is purely epsilon-DP and takes no delta."""
    budget_: Budget
    _paid_before: tuple[Measurement, ...] = ()  # noisy columns, from the measured domain

    def __init__(
        self,
        schema: Schema,
        workload: Workload | None = None,
        *,
        epsilon: float = DEFAULT_EPSILON,
        delta: float | None = None,
        risk: Risk | None = None,
        neighbouring: Neighbouring = "add-remove",
        n_records: int | None = None,
        reader_share: float = 0.0,
        ledger: Ledger | None = None,
        rng: RngLike = None,
    ) -> None:
        must_be = (
            "a Schema. Reading the domain from the data would leak it; declare it, e.g. "
            "Schema({'age': range(0, 120)}), or pay for it: fit(table, domain_epsilon=0.1), or "
            "fit_with_domain for other methods."
        )
        schema = _check.instance("schema", schema, Schema, must_be)
        if workload is None:
            workload = Workload.all_marginals(schema, min(2, len(schema.names)))
        self.schema = schema
        self.workload = _check_workload(workload).check(schema)
        self.epsilon = epsilon
        self.delta = delta
        self.risk = risk
        self.neighbouring: Neighbouring = neighbouring
        self.n_records = n_records
        self.reader_share = reader_share
        self.ledger = ledger
        self.rng = rng

    def fit(self, table: Any) -> Self:
        """Learn a private model of the table (frame, or array with the columns in order).

        Raises:
            InvalidArgument: the table does not fit the schema, or epsilon is too small for the
                method to do anything; nothing is released then.
            BudgetExceeded: the ledger refused; nothing was computed.

        """
        return self._fit(table, None)

    def fit_remainder(self, table: Any, remainder: Remainder) -> Self:
        """Learn from what a measured domain left; :func:`~dpassay.synth.fit_with_domain` calls it.

        ``event_`` is then that of domain and synthesizer together.
        """
        return self._fit(table, remainder)

    def _fit(self, table: Any, remainder: Remainder | None) -> Self:
        """Decide from public quantities, state the event, then compute from the data."""
        codes = self.schema.encode(table)
        n = len(codes) if self.n_records is None else _check.count("n_records", self.n_records)
        whole = self._budget(n) if remainder is None else remainder.budget
        plan, reader, event = self._decide(whole, n)
        due, public = event, ("the schema", "the types of the columns")
        if remainder is not None:
            whole = remainder.whole
            event = remainder.state(event, type(self).__name__)
            due = remainder.promise  # the domain was charged when it was measured
            public = remainder.domain.assumptions
        self._paid_before = () if remainder is None else _read_counts(remainder.domain, n)
        chosen = source(self.rng)
        with (
            spending(self.ledger, due, what=type(self).__name__, n_records=n),
            limit_threads(),  # thousands of products, none of them large
        ):
            self.model_ = self._run(Records(self.schema, codes, n), plan, chosen)
            self.reader_ = None if reader is None else self._tell(table, reader, chosen, n)
        self.event_, self.noise_, self.budget_ = event, chosen.level, whole
        self.assumptions_ = (f"n={n}", *public)
        self.form_, self.n_records_ = Form.of(table, self.schema), n
        self.domain_ = None if remainder is None else remainder.domain
        self.method_ = type(self).__name__
        return self

    def _decide(self, whole: Budget, n: int) -> tuple[Plan, Gaussian | None, Event]:
        """What will be done, the noise of what readers are told, and the event of both."""
        allowed, reader = self._split_for_readers(whole)
        plan = self._plan(allowed, n)
        return plan, reader, plan.event if reader is None else EventSequence((plan.event, reader))

    def _split_for_readers(self, whole: Budget) -> tuple[Budget, Gaussian | None]:
        """What the method may spend, and the noise of what readers are told; µ adds by squares."""
        share = _check.number("reader_share", self.reader_share, low=0, high=1, high_open=True)
        if not share:
            return whole, None
        if not self.adds_gaussian_noise_only:
            raise InvalidArgument(
                f"reader_share={share:g} goes with methods that add Gaussian noise and nothing "
                "else, such as ProductMixture on pairs of columns."
            )
        mu = float(mu_of(whole.epsilon, whole.delta)) * (1 - 1e-9)  # room for rounding
        epsilon = float(epsilon_of(whole.delta, mu * math.sqrt(1 - share)))
        event = Gaussian(1 / (mu * math.sqrt(share)), whole.neighbouring)
        return Budget(epsilon, whole.delta, whole.neighbouring), event

    def _tell(self, table: Any, event: Gaussian, chosen: Source, n: int) -> ReaderQuality:
        drawn, _ = self._draw(n, chosen.generator, {})
        frame = as_frame(table, self.schema.names)
        return measure_quality(self.schema, frame, drawn, event, chosen, n)

    @property
    def adds_gaussian_noise_only(self) -> bool:
        """Whether the event is Gaussian noise that just meets the budget, for any domain."""
        return False

    def _budget(self, n_records: int) -> Budget:
        delta = default_delta(n_records) if self.delta is None else self.delta
        allowed = budget(self.epsilon, delta, self.neighbouring, self.risk)
        if not allowed.is_private:
            raise InvalidArgument("epsilon=inf asks for no privacy; release the table itself.")
        return keep_risk(self.risk, allowed, lambda tried: self._decide(tried, n_records)[2])

    def state_privacy(self, n_records: int) -> PrivacyCurve:
        """The curve that a fit of so many records will state: from public quantities alone."""
        event = self._plan(self._budget(n_records), n_records).event
        return account(event, assumptions=(f"n={n_records}",), n_records=n_records)

    def measure(self, table: Any, times: int = 1) -> list[list[Measurement]]:
        """The noisy marginals that a fit would take of this table, so many times anew, no fit.

        It is what an audit looks at (:func:`dpassay.audit_table`), charged to no ledger: each is a
        release of its own.

        Raises:
            InvalidArgument: the method takes none, or the table does not fit the schema.

        """
        codes = self.schema.encode(table)
        n = len(codes) if self.n_records is None else _check.count("n_records", self.n_records)
        plan, data = self._plan(self._budget(n), n), _CountedOnce(self.schema, codes, n)
        chosen = source(self.rng)
        return [self._measure(data, plan, chosen) for _ in range(times)]

    def _measure(self, data: Records, plan: Any, chosen: Source) -> list[Measurement]:
        """What ``_run`` measures before it fits anything, for methods that do."""
        del data, plan, chosen
        raise InvalidArgument(
            f"{type(self).__name__} measures no marginals before it fits. Audit its answers or "
            "its rows."
        )

    @property
    def measures_first(self) -> bool:
        """Whether there is anything that :meth:`measure` can show."""
        return type(self)._measure is not Synthesizer._measure

    @abstractmethod
    def _plan(self, allowed: Budget, n_records: int) -> Plan:
        """What will be done, decided from public quantities alone."""

    @abstractmethod
    def _run(self, data: Records, plan: Any, chosen: Source) -> Model:
        """The model, learned as planned. ``plan`` is what ``_plan`` returned."""


class _CountedOnce(Records):
    """Records that are measured many times: each marginal is counted when it is first asked for."""

    @cached_property
    def _known(self) -> dict[tuple[str, ...], FloatArray]:
        return {}

    def counts(self, columns: Sequence[str], groups: Groups | None = None) -> FloatArray:
        """The counts of a marginal; not to be written into."""
        names = tuple(columns)
        if groups is not None:  # merged cells are few, and other ones each time
            return super().counts(names, groups)
        if names not in self._known:
            self._known[names] = super().counts(names)
        return self._known[names]


def _read_counts(domain: MeasuredDomain, n_records: int) -> tuple[Measurement, ...]:
    """What was counted of columns while their domains were measured."""
    found = (
        Measurement.of_counts(name, *counted, n_records) for name, counted in domain.counted.items()
    )
    return tuple(one for one in found if one is not None)


def default_delta(n_records: int) -> float:
    """The delta of a fit that names none: 1/n², of the public n."""
    return 1.0 / n_records**2
