"""OpenDP: its measurements are primitives, whose price is their own proved privacy map."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.privacy import events
from dpassay.replay.draws import strip
from dpassay.replay.stated import keep_stated, quietly
from dpassay.replay.tape import current


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Write down every measurement that is invoked, until the end.

    Queries of the Context API do not pass here: their data lies in a queryable.
    """
    import opendp.core  # only where it is used, since not everybody has it

    original = opendp.core.measurement_invoke
    opendp.core.measurement_invoke = _around(original)
    try:
        yield
    finally:
        opendp.core.measurement_invoke = original


def _around(original: Callable[..., Any]) -> Callable[..., Any]:
    def invoke(this: Any, arg: Any) -> Any:
        tape = current()
        if tape is None:
            return original(this, arg)
        plain = strip(arg)
        out = quietly(lambda: original(this, plain))
        made = Measured(this, plain)
        return keep_stated(tape, made, out, made.unit)

    return invoke


@dataclass(frozen=True)
class Measured:
    """One invocation of a measurement."""

    measurement: Any
    arg: Any

    @property
    def unit(self) -> float:
        """What a distance of 1 costs: two measurements with other noise differ in it."""
        cost = self.cost(1.0)
        return float(getattr(cost, "epsilon", getattr(cost, "rho", 1.0)))

    def distance(self, other: "Measured") -> float | None:
        """Between the arguments, by the input metric."""
        metric = str(self.measurement.input_metric).partition("(")[0]
        rule = _DISTANCES.get(metric)
        return None if rule is None else rule(self.arg, other.arg)

    def cost(self, distance: float) -> Any:
        """What the privacy map says about this distance."""
        measure = str(self.measurement.output_measure)
        if measure not in _EVENTS:
            return f"measurements with the output measure {measure}"
        try:
            loss = self.measurement.map(_as_type(self.measurement, distance))
        except Exception as error:  # a map may refuse a distance
            return f"measurements whose map raises {type(error).__name__}"
        return _EVENTS[measure](loss)


def _as_type(measurement: Any, distance: float) -> Any:
    """Distances of integers must be integers."""
    whole = any(f"{kind}{bits}" in str(measurement.input_metric) for kind in "iu"
                for bits in (8, 16, 32, 64))  # fmt: skip
    counted = "(" not in str(measurement.input_metric).replace("()", "")
    return int(distance) if whole or counted else float(distance)


def _symmetric(left: Any, right: Any) -> float | None:
    """How many records must be added or taken out."""
    try:
        a, b = Counter(list(left)), Counter(list(right))
    except TypeError:  # records that cannot be counted
        return None
    return float(sum((a - b).values()) + sum((b - a).values()))


def _change_one(left: Any, right: Any) -> float | None:
    if len(left) != len(right):
        return None
    both = _symmetric(left, right)
    return None if both is None else both / 2


def _norm(order: float) -> Callable[[Any, Any], float | None]:
    def distance(left: Any, right: Any) -> float | None:
        a, b = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in (left, right))
        return float(np.linalg.norm(a - b, order)) if a.shape == b.shape else None

    return distance


_DISTANCES: dict[str, Callable[[Any, Any], float | None]] = {
    "AbsoluteDistance": _norm(1),
    "L1Distance": _norm(1),
    "L2Distance": _norm(2),
    "LInfDistance": _norm(np.inf),
    "SymmetricDistance": _symmetric,
    "InsertDeleteDistance": _symmetric,
    "ChangeOneDistance": _change_one,
    "HammingDistance": _change_one,
}
_EVENTS: dict[str, Callable[[Any], events.Event]] = {
    "MaxDivergence": events.Pure,
    "ZeroConcentratedDivergence": events.ZeroConcentrated,
    "Approximate(MaxDivergence)": lambda loss: events.Approx(*loss),
}
