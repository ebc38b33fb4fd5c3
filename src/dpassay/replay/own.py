"""dpassay's own exact samplers: they draw integers from a cipher, which cannot be followed.

Noise on a lattice costs what continuous noise of the same scale does: a shift by k steps changes
the discrete Laplace law by exp(k / t) at most, as it changes the continuous one. So both samplers
are primitives here, with what they are given as the query. So are randomized answers: with
probability p of a uniform one of k, an answer that changes costs log((1 - p + p/k) / (p/k)).
"""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpassay.replay.draws import strip
from dpassay.replay.prices import RESPONSE
from dpassay.replay.stated import keep_entry, quietly
from dpassay.replay.tape import current

_LAWS = {"laplace": "laplace", "gaussian": "normal"}


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Write down exact noise and exact choices, until the end; modules are those that are loaded.

    Nothing is imported from there: the recorder stands to the left of all mechanisms.
    """
    wrapped = (
        ("dpassay.mechanisms.exact", "add_noise", _adding),
        ("dpassay.mechanisms.choosing", "choose", _choosing),
        ("dpassay.mechanisms.response", "randomize", _responding),
    )
    with contextlib.ExitStack() as stack:
        for module, name, around in wrapped:
            owner = sys.modules.get(module)
            if owner is not None:
                original = getattr(owner, name)
                stack.callback(setattr, owner, name, original)
                setattr(owner, name, around(original, owner))
        yield


def _adding(original: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    def add_noise(values: Any, where: Any, generator: Any) -> Any:
        tape = current()
        if tape is None:
            return original(values, where, generator)
        plain = np.asarray(strip(values))
        out = quietly(lambda: original(plain, where, generator))
        query = owner.on_lattice(plain.astype(np.float64), where.step)
        scale = where.step * where.scale
        return np.array(keep_entry(tape, query, out, _LAWS[where.law], scale=scale).out)

    return add_noise


def _choosing(original: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    def choose(kind: str, scores: Any, scale: float, moved: Any, generator: Any) -> int:
        tape = current()
        if tape is None:
            return original(kind, scores, scale, moved, generator)
        plain = np.asarray(strip(scores), dtype=np.float64)
        index = quietly(lambda: original(kind, plain, scale, moved, generator))
        winner = (np.arange(plain.size) == index).astype(np.float64)
        entry = keep_entry(tape, plain, winner, kind, scale=scale)
        entry.uses["argmax"] += 1
        return int(np.argmax(entry.out))

    return choose


def _responding(original: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    def randomize(codes: Any, probability: float, n_categories: int, noise: Any) -> Any:
        tape = current()
        if tape is None:
            return original(codes, probability, n_categories, noise)
        plain = np.asarray(strip(codes))
        out = quietly(lambda: original(plain, probability, n_categories, noise))
        cost = math.log1p((1 - probability) * n_categories / probability)
        scale = 1 / cost if cost > 0 else np.inf
        entry = keep_entry(tape, plain, out, RESPONSE, scale=scale, shown=None)
        return np.array(entry.out)

    return randomize
