"""diffprivlib: ``randomise`` of its mechanisms is a primitive.

They make noise of uniform numbers, which cannot be followed; but what a mechanism is given, its
scale and its sensitivity are known. Laplace, Gaussian and geometric noise and the choices of the
exponential mechanism are priced by what moved; other mechanisms cost what they state, if what they
are given moves by no more than their sensitivity.
"""

import contextlib
import functools
import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from dpassay.privacy import events
from dpassay.replay.draws import strip
from dpassay.replay.primitives import note_noise
from dpassay.replay.sites import here
from dpassay.replay.stated import keep_entry, keep_stated, quietly
from dpassay.replay.tape import Tape, current


def _library(part: str = "") -> Any:
    """The package, which is only imported where it is used."""
    return importlib.import_module(f"diffprivlib.mechanisms{part}")


def _classes(root: type) -> list[type]:
    return [root, *(one for child in root.__subclasses__() for one in _classes(child))]


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Write down what mechanisms are given and return, until the end."""
    with contextlib.ExitStack() as stack:
        owner: Any
        for owner in dict.fromkeys(_classes(_library(".base").DPMechanism)):
            original = owner.__dict__.get("randomise")
            if original is not None:
                stack.callback(setattr, owner, "randomise", original)
                owner.randomise = _around(original)
        yield


def _around(original: Callable[..., Any]) -> Callable[..., Any]:
    def randomise(self: Any, value: Any = None) -> Any:
        tape = current()
        if tape is None:
            return original(self, value)
        plain = strip(value)
        out = quietly(lambda: original(self, plain))
        rules = _rules()
        rule = next((rules[kind] for kind in type(self).__mro__ if kind in rules), _keep_other)
        return rule(tape, self, plain, out)

    return randomise


def _keep_laplace(tape: Tape, mechanism: Any, value: Any, out: Any) -> Any:
    scale = mechanism.sensitivity / (mechanism.epsilon - math.log1p(-mechanism.delta))
    bounded = type(mechanism) is not _library().Laplace
    if not bounded:
        note_noise(tape, "laplace", value, scale, out)
    law = "laplace, then bounded" if bounded else "laplace"
    return _freeze(tape, mechanism, value, out, law, scale)


def _keep_gaussian(tape: Tape, mechanism: Any, value: Any, out: Any) -> Any:
    note_noise(tape, "normal", value, mechanism._scale, out)
    return _freeze(tape, mechanism, value, out, "normal", mechanism._scale)


def _keep_geometric(tape: Tape, mechanism: Any, value: Any, out: Any) -> Any:
    bounded = type(mechanism) is not _library().Geometric
    law = "two-sided geometric, then bounded" if bounded else "two-sided geometric"
    return _freeze(tape, mechanism, value, out, law, mechanism.sensitivity / mechanism.epsilon)


def _freeze(tape: Tape, mechanism: Any, value: Any, out: Any, law: str, scale: float) -> Any:
    entry = keep_entry(tape, value, out, law, scale=scale, declared=mechanism.sensitivity)
    return entry.shown


def _keep_choice(tape: Tape, mechanism: Any, value: Any, out: Any) -> Any:
    if mechanism.measure is not None:  # a choice of intervals: their ends belong to the outcome
        return _lose(tape, mechanism, out)
    number = mechanism.candidates.index(out) if mechanism.candidates else out
    chances = np.diff(mechanism._probabilities, prepend=0.0)
    chosen = keep_entry(tape, chances, number, "choice", kind="choice").shown
    return mechanism.candidates[chosen] if mechanism.candidates else chosen


def _keep_other(tape: Tape, mechanism: Any, value: Any, out: Any) -> Any:
    if not isinstance(out, Real | str | np.ndarray):
        return _lose(tape, mechanism, out)
    declared = getattr(mechanism, "sensitivity", None)
    unit = (1.0 if declared is None else declared) / (mechanism.epsilon or 1.0)
    return keep_stated(tape, Randomised(mechanism, value), out, unit, declared=declared)


def _lose(tape: Tape, mechanism: Any, out: Any) -> Any:
    """What a mechanism returned cannot be frozen: its noise is not followed."""
    tape.keep_draw(f"{type(mechanism).__name__} mechanism", 0.0, here())
    return out


@dataclass(frozen=True)
class Randomised:
    """One call of a mechanism that has no price of its own here."""

    mechanism: Any
    value: Any

    def distance(self, other: "Randomised") -> float | None:
        """The distance between the values, or the utilities, that the two calls were given."""
        left, right = (_input_of(part) for part in (self, other))
        if isinstance(left, str) or isinstance(right, str):
            return float(left != right)
        try:
            a, b = (np.asarray(part, dtype=np.float64) for part in (left, right))
        except (TypeError, ValueError):
            return None
        return float(np.max(np.abs(a - b), initial=0.0)) if a.shape == b.shape else None

    def cost(self, distance: float) -> Any:
        """The epsilon and delta that the mechanism states, within its sensitivity."""
        name = type(self.mechanism).__name__
        limit = getattr(self.mechanism, "sensitivity", math.inf)
        if isinstance(self.value, np.ndarray) or not distance <= limit * (1 + 1e-9):
            return f"{name} mechanisms on arrays, or beyond their sensitivity"
        return events.Approx(float(self.mechanism.epsilon), float(self.mechanism.delta))


def _input_of(call: Randomised) -> Any:
    return call.value if call.value is not None else getattr(call.mechanism, "utility", None)


@functools.cache
def _rules() -> dict[type, Callable[..., Any]]:
    """How calls of each class are kept; those of a class count for its children."""
    mechanisms = _library()
    return {
        mechanisms.LaplaceBoundedDomain: _keep_other,
        mechanisms.LaplaceBoundedNoise: _keep_other,
        mechanisms.Staircase: _keep_other,
        mechanisms.Snapping: _keep_other,
        mechanisms.Laplace: _keep_laplace,
        mechanisms.Gaussian: _keep_gaussian,
        mechanisms.Geometric: _keep_geometric,
        mechanisms.PermuteAndFlip: _keep_other,
        mechanisms.Exponential: _keep_choice,
    }
