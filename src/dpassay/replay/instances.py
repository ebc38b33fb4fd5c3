"""Generators of the old kinds that a program makes itself: ``RandomState`` and ``random.Random``.

While a tape is current their classes are replaced by these, so that their draws are followed like
those of ``np.random`` and ``random``. The stream of bits is the same. Every draw is made by a twin,
since the methods of these classes call each other.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay.replay.generator import (
    LOCATED,
    SCALED,
    STANDARD,
    UNPRICED,
    Methods,
    SameKind,
    draw_other,
)

Functions = dict[str, Callable[..., Any]]


def legacy_functions(plain: Callable[[str], Callable[..., Any]]) -> Functions:
    """Functions of ``np.random``, or methods of a ``RandomState``, that write on the tape.

    Args:
        plain: gives the function of a name that really draws.

    """
    methods, made = Methods(plain), Functions()
    for kind, names in {"located": LOCATED, "scaled": SCALED, "standard": STANDARD}.items():
        for name in names:
            made[name] = _bind_name(getattr(methods, kind), name)
    for name in ("random", "random_sample"):
        made[name] = _bind_name(methods.random, name)
    for name in (
        "uniform",
        "geometric",
        "binomial",
        "choice",
        "permutation",
        "shuffle",
        "multivariate_normal",
    ):
        made[name] = getattr(methods, name)
    made["randint"] = _bind_name(methods.integers, "randint")
    made["randn"] = lambda *shape: methods.standard("standard_normal", shape or None)
    made["rand"] = lambda *shape: methods.random("random_sample", shape or None)
    for name in UNPRICED:
        if hasattr(np.random, name) and hasattr(np.random.RandomState, name):
            made[name] = _through_other(name, plain(name))
    return made


def _bind_name(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(name, *args, **kwargs)


def _through_other(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: draw_other(name, args, kwargs, draw)


def random_state_class(fresh: Callable[[], Any]) -> type:
    """A ``RandomState`` whose draws are followed; without a seed it takes one from ``fresh``."""
    original = np.random.RandomState

    class RandomState(original, metaclass=SameKind):  # type: ignore[misc]
        def __init__(self, seed: Any = None) -> None:
            if isinstance(seed, original):  # not for users: the state that np.random shares
                twin, seed = seed, seed._bit_generator
                super().__init__(seed)
            else:
                super().__init__(np.random.MT19937(fresh()) if seed is None else seed)
                twin = original(self._bit_generator)
            own = {name: getattr(twin, name) for name in ("seed", "get_state", "set_state")}
            vars(self).update(own | legacy_functions(lambda name: getattr(twin, name)))

        def __reduce__(self) -> Any:
            return restore_state, (self.get_state(legacy=False),)

    RandomState.original = original
    return RandomState


def random_class(make: Callable[[Functions], Functions], fresh: Callable[[], Any]) -> type:
    """A ``random.Random`` whose draws are followed; ``make`` makes its functions of plain ones."""
    original = random.Random

    class Random(original, metaclass=SameKind):
        def __init__(self, x: Any = None) -> None:
            twin = original(int(fresh().generate_state(2, np.uint64)[0]) if x is None else x)
            plain = {name: getattr(twin, name) for name in dir(twin) if name[0] != "_"}
            super().__init__(0)
            vars(self).update(plain | make(plain))

        def __reduce__(self) -> Any:
            return restore_random, (self.getstate(),)

    Random.original = original
    return Random


def restore_state(state: Any) -> Any:
    """A copy of a ``RandomState``, followed while a tape is current."""
    made = np.random.RandomState()
    made.set_state(state)
    return made


def restore_random(state: Any) -> random.Random:
    """A copy of a ``random.Random``, followed while a tape is current."""
    made = random.Random()
    made.setstate(state)
    return made
