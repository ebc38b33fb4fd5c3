"""Who makes a table: a synthesizer of this library, of anybody else, or a plain function.

Nothing here knows :mod:`dpassay.synth`: a synthesizer is what has ``fit`` and ``sample``. Those
that state their privacy before a fit, and that measure noisy marginals first, are asked for both.
"""

import copy
import inspect
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.types import PrivacyCurve

Kind = Literal["stated", "object", "function"]
_SEEDS = ("rng", "random_state", "seed")  # what an object may call the source of its noise


@runtime_checkable
class Stated(Protocol):
    """A synthesizer that says, from public quantities alone, what a fit will cost."""

    schema: Any
    epsilon: float
    neighbouring: Any
    n_records: int | None
    ledger: Any
    rng: Any

    def state_privacy(self, n_records: int) -> PrivacyCurve:
        """The curve that a fit of so many records will state."""
        ...

    @property
    def measures_first(self) -> bool:
        """Whether it takes noisy marginals before it fits anything."""
        ...


@dataclass(frozen=True)
class Subject:
    """A synthesizer of any kind, as what the plays of an audit need of it.

    Attributes:
        synthesizer: with ``fit(table)`` and ``sample(n)``, or a function of the table.
        kind: "stated", "object" or "function".

    """

    synthesizer: Any
    kind: Kind

    def fit(self, table: Any, rng: np.random.Generator | None) -> Any:
        """A fresh copy, fitted on this table with noise from ``rng``; a function's table as is."""
        if self.kind == "function":
            takes_rng = _takes(self.synthesizer, "rng") or _n_positional(self.synthesizer) > 1
            return self.synthesizer(table, rng) if takes_rng else self.synthesizer(table)
        model = self.with_seed(rng)
        fitted = model.fit(table)
        return fitted if hasattr(fitted, "sample") else model

    def with_seed(self, rng: np.random.Generator | None) -> Any:
        """A copy that draws from ``rng``, and charges nobody; with None it draws as it would."""
        if isinstance(self.synthesizer, Stated):
            model: Any = copy.copy(self.synthesizer)
            model.rng, model.ledger = rng, None
            return model
        model = copy.deepcopy(self.synthesizer)
        if rng is not None:
            for name in filter(lambda name: hasattr(model, name), _SEEDS):
                setattr(model, name, rng if name == "rng" else rng.integers(2**31 - 1).item())
        return model

    def sample(self, fitted: Any, n: int, rng: np.random.Generator | None) -> Any:
        """At most n rows as a frame: how many a function returns is not looked at."""
        import pandas as pd

        rows: Any
        if self.kind == "function":
            rows = fitted
        elif rng is not None and _takes(fitted.sample, "rng"):
            rows = fitted.sample(n, rng=rng)
        else:
            rows = fitted.sample(n)
        table: Any = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(np.asarray(rows))
        return table[:n]

    def with_public_size(self, n_records: int, epsilon: float | None = None) -> "Subject":
        """The same with this public number of records, and another epsilon if one is given.

        Only a synthesizer that states its privacy takes them; another stays what it is.
        """
        if not isinstance(self.synthesizer, Stated):
            return self
        model: Any = copy.copy(self.synthesizer)
        model.n_records = n_records
        if epsilon is not None:
            model.epsilon = epsilon
        return Subject(model, self.kind)


def as_subject(synthesizer: Any) -> Subject:
    """What is to be audited, if it is one of the three kinds.

    Raises:
        InvalidArgument: a class, or something that neither fits nor can be called.

    """
    wanted = "an object with fit(table) and sample(n), or a function table -> table"
    if isinstance(synthesizer, type):
        raise InvalidArgument(
            f"synthesizer={synthesizer.__name__} is a class; pass {wanted}, e.g. "
            f"{synthesizer.__name__}(...)."
        )
    if callable(getattr(synthesizer, "fit", None)) and callable(
        getattr(synthesizer, "sample", None)
    ):
        stated = isinstance(synthesizer, Stated)
        return Subject(synthesizer, "stated" if stated else "object")
    if callable(synthesizer):
        return Subject(synthesizer, "function")
    raise InvalidArgument(f"synthesizer={_check.shown(synthesizer)} must be {wanted}.")


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _n_positional(function: Any) -> int:
    """How many arguments a function takes that have no default."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in found)
