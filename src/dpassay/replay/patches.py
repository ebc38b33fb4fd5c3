"""What is replaced while a tape is current: functions of ``np.random`` and ``random``.

``np.random.default_rng`` gives recorders, and the functions of NumPy that would drop the mark of a
noisy value keep it. Everything is put back whatever happens.
"""

import contextlib
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpassay.replay.draws import look_up, mark_of, note, strip, wrap
from dpassay.replay.entries import Array
from dpassay.replay.generator import (
    Recorder,
    draw_indices,
    draw_noise,
    draw_other,
    plain_of,
    recorder,
)
from dpassay.replay.instances import Functions, legacy_functions, random_class, random_state_class
from dpassay.replay.primitives import Primitive
from dpassay.replay.tape import Tape, play_on, stop, watch_threads
from dpassay.replay.traced import TracedArray, gather


def _legacy() -> Functions:
    """Replacements for the functions of ``np.random``, which share one hidden generator."""
    originals = {name: getattr(np.random, name) for name in dir(np.random)}
    made = legacy_functions(originals.__getitem__)
    for name in ("ranf", "sample"):
        made[name] = made["random_sample"]
    return made


def _standard_library(plain: Functions) -> Functions:
    """Replacements for the functions of ``random``, or methods of an instance, by their names."""

    def gauss(mu: float = 0.0, sigma: float = 1.0) -> Any:
        mu, sigma = plain_of(mu), plain_of(sigma)
        return draw_noise("normal", sigma, None, lambda: plain["gauss"](mu, sigma), mu)

    def normalvariate(mu: float = 0.0, sigma: float = 1.0) -> Any:
        mu, sigma = plain_of(mu), plain_of(sigma)
        return draw_noise("normal", sigma, None, lambda: plain["normalvariate"](mu, sigma), mu)

    def expovariate(lambd: float = 1.0) -> Any:
        return draw_noise("exponential", 1 / lambd, None, lambda: plain["expovariate"](lambd))

    def uniform_of(a: float, b: float) -> Any:
        if (a, b) == (0, 1):
            return draw_noise("uniform", 1.0, None, lambda: plain["uniform"](a, b))
        return draw_other("uniform in an interval", (a, b), {}, plain["uniform"])

    def draw_unit() -> Any:
        return draw_noise("uniform", 1.0, None, plain["random"])

    def shuffle(x: Any) -> None:
        order = list(range(len(x)))

        def draw() -> Array:
            plain["shuffle"](order)
            return np.array(order)

        x[:] = [x[i] for i in draw_indices("permutation", len(x), None, draw)]

    def sample(population: Any, k: int, **kwargs: Any) -> Any:
        n = len(population)
        found = draw_indices(
            "subset", n, k, lambda: np.array(plain["sample"](range(n), k, **kwargs), dtype=int)
        )
        return [population[i] for i in found]

    def choice(seq: Any) -> Any:
        return seq[
            draw_indices("integers", len(seq), None, lambda: plain["choice"](range(len(seq))))
        ]

    def randrange(*args: int) -> Any:
        size = len(range(*args))
        return draw_indices("integers", size, None, lambda: plain["randrange"](*args))

    def randint(a: int, b: int) -> Any:
        return randrange(a, b + 1)

    def getrandbits(k: int) -> Any:
        return draw_indices("integers", 2**k, None, lambda: plain["getrandbits"](k))

    def choices(population: Any, weights: Any = None, *, k: int = 1, **more: Any) -> Any:
        n = len(population)
        law = "integers" if weights is None and not more else "weighted choice"
        found = draw_indices(
            law, n, k, lambda: np.array(plain["choices"](range(n), weights, k=k, **more), dtype=int)
        )
        return [population[i] for i in found]

    return {
        "gauss": gauss, "normalvariate": normalvariate, "expovariate": expovariate,
        "uniform": uniform_of, "random": draw_unit, "shuffle": shuffle, "sample": sample,
        "choice": choice, "choices": choices, "randrange": randrange, "randint": randint,
        "getrandbits": getrandbits,
    }  # fmt: skip


_KEEPING = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")


def _array_makers() -> dict[str, Callable[..., Any]]:
    """Functions that take a list of noisy numbers, or would drop the mark of an array."""

    def gathering(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a, *args, **kwargs: function(gather(a), *args, **kwargs)

    def keeping(function: Callable[..., Any]) -> Callable[..., Any]:
        copies = function is np.array

        def make(a: Any, *args: Any, **kwargs: Any) -> Any:
            a = gather(a)
            mark = mark_of(a)
            value = function(strip(a), *args, **kwargs)
            if mark is None or np.shape(value) != np.shape(strip(a)):
                return value
            if not np.issubdtype(value.dtype, np.floating):
                note(mark)
                return value
            if value is strip(a) and not copies and isinstance(a, TracedArray):
                return a
            return wrap(value, mark if np.ndim(value) or isinstance(value, np.ndarray) else None)

        return make

    find = np.searchsorted

    def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
        if sorter is not None or mark_of(a) is not None or mark_of(v) is None:
            return find(a, v, side, sorter)  # type: ignore[call-overload]
        return look_up(a, v, find(strip(a), strip(v), side))  # type: ignore[call-overload]

    return {
        "searchsorted": searchsorted,
        **{name: gathering(getattr(np, name)) for name in ("argmax", "argmin", "argsort")},
        **{name: keeping(getattr(np, name)) for name in _KEEPING},
    }


@contextlib.contextmanager
def recording(
    tape: Tape, seed: int, function: Any = None, primitives: Sequence[Primitive] = ()
) -> Iterator[None]:
    """Make a tape current: what is drawn until the end is written on it.

    Args:
        tape: the tape.
        seed: of the hidden generators of ``np.random`` and ``random`` and of generators that are
            made without a seed; their states are put back at the end.
        function: whose module may have imported names of ``np.random`` or ``random`` before.
        primitives: functions of the user's that add noise.

    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    fresh = np.random.SeedSequence(seed, spawn_key=(17,))

    def default_rng(given: Any = None) -> np.random.Generator:
        if isinstance(given, np.random.Generator):
            return given
        return recorder(fresh.spawn(1)[0] if given is None else given)

    with contextlib.ExitStack() as stack:
        token = play_on(tape)
        stack.callback(stop, token)
        stack.enter_context(watch_threads(tape))
        stack.callback(np.random.set_state, states[1])
        stack.callback(random.setstate, states[0])
        replaced: dict[int, tuple[Any, Any]] = {}
        plain = {name: getattr(random, name) for name in dir(random)}
        shared = np.random.mtrand._rand
        states_class = random_state_class(lambda: fresh.spawn(1)[0])
        patches: dict[Any, Functions] = {
            np.random: {
                **_legacy(),
                "default_rng": default_rng,
                "Generator": Recorder,
                "RandomState": states_class,
            },
            np.random.mtrand: {"_rand": states_class(shared)},
            random: {
                **_standard_library(plain),
                "Random": random_class(_standard_library, lambda: fresh.spawn(1)[0]),
            },
            np: _array_makers(),
        }
        for module, names in patches.items():
            for name, made in names.items():
                original = getattr(module, name)
                replaced[id(original)] = (original, made)
                stack.callback(setattr, module, name, original)
                setattr(module, name, made)
        if "scipy.stats" in sys.modules:
            _patch_scipy(stack, *replaced[id(shared)])
        _patch_imports(stack, function, replaced)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        _follow_libraries(stack, tape, seed)
        for primitive in primitives:
            primitive.replace(stack)
        yield


def disturb(tape: Tape) -> None:
    """Seed the hidden generators anew, where the tape asks for it."""
    if tape.hidden_seed is None:
        return
    random.seed(tape.hidden_seed)
    np.random.seed(tape.hidden_seed % 2**32)  # noqa: NPY002
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(tape.hidden_seed)


def _patch_scipy(stack: contextlib.ExitStack, shared: Any, followed: Any) -> None:
    """Distributions of SciPy keep the state of ``np.random`` from when they were made."""
    owner: Any = sys.modules["scipy.stats"].rv_continuous.__mro__[1]
    original = owner.rvs

    def rvs(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("random_state") is None and self._random_state is shared:
            kwargs["random_state"] = followed
        return original(self, *args, **kwargs)

    stack.callback(setattr, owner, "rvs", original)
    owner.rvs = rvs


def _follow_libraries(stack: contextlib.ExitStack, tape: Tape, seed: int) -> None:
    """Libraries that are loaded; what a mechanism imports itself is followed from its next run."""
    if "torch" in sys.modules:
        from dpassay.replay.torch import following

        stack.enter_context(following(tape, seed))
    if "jax" in sys.modules:
        from dpassay.replay.jax import following as following_jax

        stack.enter_context(following_jax(tape))
    if "dpassay.mechanisms" in sys.modules:
        from dpassay.replay.own import watching as watching_own

        stack.enter_context(watching_own())
    if "opendp.core" in sys.modules:
        from dpassay.replay.opendp import watching as watching_opendp

        stack.enter_context(watching_opendp())
    if "diffprivlib.mechanisms" in sys.modules:
        from dpassay.replay.diffprivlib import watching as watching_diffprivlib

        stack.enter_context(watching_diffprivlib())
    if "opacus" in sys.modules:
        from dpassay.replay.opacus import watching

        stack.enter_context(watching(tape))


def finish() -> None:
    """What must be undone when a check is over: compiled code that calls back."""
    adapter = sys.modules.get("dpassay.replay.jax")
    if adapter is not None:
        adapter.finish()


def _patch_imports(stack: contextlib.ExitStack, function: Any, replaced: dict[int, Any]) -> None:
    """Names such as ``from numpy.random import laplace`` in the module of the mechanism.

    Generators that were made there, or around it, are followed too.
    """
    function = inspect.unwrap(function) if callable(function) else None
    names = getattr(function, "__globals__", {})
    for name, value in list(names.items()):
        made = _stand_in(value, replaced)
        if made is not None:
            stack.callback(names.__setitem__, name, value)
            names[name] = made
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a cell that is still empty
            made = _stand_in(cell.cell_contents, replaced)
            if made is not None:
                stack.callback(setattr, cell, "cell_contents", cell.cell_contents)
                cell.cell_contents = made


def _stand_in(value: Any, replaced: dict[int, Any]) -> Any:
    """What stands for a value while a tape is current, None if it stays."""
    original, made = replaced.get(id(value), (None, None))
    if original is value and made is not None:
        return made
    if type(value) is Recorder.original:
        return Recorder(value.bit_generator)
    if type(value) is np.random.mtrand.RandomState:
        following: Any = np.random.RandomState  # the class that stands in for it
        return following(value)
    return None
