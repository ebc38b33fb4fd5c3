"""Functions of one's own as noise primitives: the way out where draws cannot be followed."""

import contextlib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.replay.draws import Draw, add_primitive, strip
from dpassay.replay.entries import Step
from dpassay.replay.sites import here
from dpassay.replay.tape import Tape, current, play_on, stop

LAWS = ("normal", "laplace")


@dataclass(frozen=True)
class Primitive:
    """A function that adds noise of a known law to a value.

    Attributes:
        function: where it is, "package.module:name" or "package.module:Class.method".
        value: the name of its parameter that noise is added to.
        scale: the name of its parameter that holds the deviation ("normal") or the scale
            ("laplace"), or that number itself.
        law: "normal" or "laplace". That the noise has this scale is tested, at 1e-9.

    """

    function: str
    value: str
    scale: str | float
    law: str = "normal"

    def __post_init__(self) -> None:
        _check.choice("law", self.law, LAWS)
        if ":" not in self.function:
            raise InvalidArgument(
                f"function={self.function!r} must be package.module:name, such as my.noise:add."
            )

    def replace(self, stack: contextlib.ExitStack) -> None:
        """Stand in for the function until the stack is left."""
        module, _, path = self.function.partition(":")
        owner: Any = importlib.import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        original = inspect.getattr_static(owner, name, None)
        if not callable(original):
            raise InvalidArgument(
                f"function={self.function!r} is not a function that can be found."
            )
        stack.callback(setattr, owner, name, original)
        setattr(owner, name, self._around(original))

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            tape = current()
            if tape is None:
                return original(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            token = play_on(None)  # what it draws is not followed: it is one primitive
            try:
                out = original(*args, **kwargs)
            finally:
                stop(token)
            scale = bound.arguments[self.scale] if isinstance(self.scale, str) else self.scale
            return self._keep(tape, bound.arguments[self.value], float(scale), out)

        return call

    def _keep(self, tape: Tape, value: Any, scale: float, out: Any) -> Any:
        query, shown = np.asarray(strip(value), dtype=np.float64), np.asarray(out)
        note_noise(tape, self.law, query, scale, shown)
        mark = Draw(self.law, np.broadcast_to(scale, shown.shape), tape.new_ids(shown.shape),
                    frozenset())  # fmt: skip
        return strip(add_primitive(tape, query, mark, out if np.ndim(out) else shown.item()))


def note_noise(tape: Tape, law: str, query: Any, scale: float, out: Any) -> None:
    """Write down the noise that was seen, to compare it with its stated scale."""
    if not scale > 0:
        return
    drawn = np.abs((np.asarray(out) - np.asarray(query)) / scale)
    # Of Laplace noise, 2 |z| / b is chi-squared with two degrees of freedom.
    squares, size = (drawn**2, 1) if law == "normal" else (2 * drawn, 2)
    tape.noise_seen.append(Step(1.0, scale, float(np.sum(squares)), size * drawn.size, here()))
