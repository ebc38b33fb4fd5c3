"""What Opacus says about its steps: the noise and norm of its optimizers, its accountants' history.

Its noise is followed like any other (:mod:`dpassay.replay.torch`). Here the steps are marked, the
noise that was really added is measured, and what an accountant was told is written down.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import opacus
import opacus.accountants
import opacus.optimizers
import torch

from dpassay.replay.entries import Entry, Step, Told
from dpassay.replay.sites import here
from dpassay.replay.tape import Tape, current
from dpassay.replay.tensors import array_of, fill


def _classes(root: type) -> list[type]:
    """A class and all that are derived from it, the user's too."""
    return [root, *(one for child in root.__subclasses__() for one in _classes(child))]


@contextlib.contextmanager
def watching(tape: Tape) -> Iterator[None]:
    """Write down steps and what accountants are told until the end."""
    wrapped = [
        *((one, "add_noise", _add_noise) for one in _classes(opacus.optimizers.DPOptimizer)),
        *((one, "step", _tell_tape) for one in _classes(opacus.accountants.IAccountant)),
    ]
    with _wrapping(wrapped):
        yield


@contextlib.contextmanager
def hearing(hear: Callable[[float, float], None]) -> Iterator[None]:
    """Hand the noise multiplier and the rate of every step that an accountant is told of."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(self: Any, *, noise_multiplier: float, sample_rate: float) -> Any:
            hear(float(noise_multiplier), float(sample_rate))
            return original(self, noise_multiplier=noise_multiplier, sample_rate=sample_rate)

        return step

    owners = _classes(opacus.accountants.IAccountant)
    with _wrapping([(one, "step", around) for one in owners]):
        yield


@contextlib.contextmanager
def _wrapping(wrapped: Iterable[tuple[type, str, Callable[..., Any]]]) -> Iterator[None]:
    """Methods of classes that have them, wrapped until the end."""
    with contextlib.ExitStack() as stack:
        for owner, name, around in wrapped:
            original = owner.__dict__.get(name)
            if original is not None:
                stack.callback(setattr, owner, name, original)
                setattr(owner, name, around(original))
        yield


def _tell_tape(original: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Any, *, noise_multiplier: float, sample_rate: float) -> Any:
        tape = current()
        if tape is not None:
            tape.told.append(Told(float(noise_multiplier), float(sample_rate), here()))
        return original(self, noise_multiplier=noise_multiplier, sample_rate=sample_rate)

    return step


def _add_noise(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_noise(self: Any) -> Any:
        tape = current()
        if tape is None or tape.step is not None:  # none, or called by that of a derived class
            return original(self)
        sums = [parameter.summed_grad for parameter in self.params]
        queries = [None if part is None else array_of(part).copy() for part in sums]
        n_before, tape.step = len(tape.entries), len(tape.steps)
        try:
            result = original(self)
            with torch._C.DisableTorchFunction():
                _finish(tape, self, queries, n_before)
        finally:
            tape.step = None
        return result

    return add_noise


def _finish(tape: Tape, optimizer: Any, queries: list[Any], n_before: int) -> None:
    """Write the step down; noise that nobody followed becomes a primitive of the stated law."""
    noise, norm = float(optimizer.noise_multiplier), float(optimizer.max_grad_norm)
    pairs = [
        (parameter.grad, query)
        for parameter, query in zip(optimizer.params, queries, strict=True)
        if parameter.grad is not None and query is not None
    ]
    scale = noise * norm
    drawn = [(array_of(out).reshape(query.shape) - query) / scale for out, query in pairs if scale]
    followed = any(entry.kind == "add" for entry in tape.entries[n_before:])
    if scale and not followed and any(np.any(part) for part in drawn):
        for out, query in pairs:
            _keep(tape, out, query, scale)
    squares = float(sum(np.sum(np.asarray(part, dtype=np.float64) ** 2) for part in drawn))
    size = sum(part.size for part in drawn)
    tape.steps.append(Step(noise, norm, squares, size, here()))


def _keep(tape: Tape, out: Any, query: Any, scale: float) -> None:
    shape = tuple(out.shape)
    entry = Entry(
        number=len(tape.entries),
        kind="add",
        law="normal",
        scale=np.broadcast_to(scale, shape),
        query=np.array(query, dtype=np.float64).reshape(shape),
        out=array_of(out).copy(),
        ids=tape.new_ids(shape),
        draws=frozenset(),
        site=here(),
        chain=tape.next_chain,
    )
    fill(out, tape.keep(entry).out)
