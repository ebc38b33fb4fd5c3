"""Generators that write their draws on the current tape.

A :class:`Recorder` is a NumPy generator with the same stream of bits. Without a current tape it
draws as ever.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay.replay.draws import (
    Draw,
    add_primitive,
    choose,
    mark_of,
    note,
    strip,
    toss,
    wrap,
)
from dpassay.replay.entries import Array, RawDraw
from dpassay.replay.sites import here
from dpassay.replay.tape import Tape, current, is_seed

LOCATED = ("laplace", "normal", "gumbel", "logistic")
SCALED = ("exponential",)
STANDARD = {"standard_normal": "normal", "standard_exponential": "exponential"}
UNPRICED = (
    "standard_cauchy", "standard_t", "standard_gamma", "gamma", "beta", "chisquare", "dirichlet",
    "f", "hypergeometric", "lognormal", "logseries", "multinomial", "multivariate_hypergeometric",
    "negative_binomial", "noncentral_chisquare", "noncentral_f", "pareto",
    "poisson", "power", "rayleigh", "triangular", "vonmises", "wald", "weibull", "zipf",
)  # fmt: skip


def plain_of(value: Any) -> Any:
    """The value without a mark, which counts as used."""
    note(mark_of(value))
    return strip(value)


def _shape_of(size: Any, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(np.shape(part) for part in parameters))
    return (int(size),) if np.ndim(size) == 0 else tuple(int(part) for part in size)


def _keep(
    tape: Tape, law: str, shape: tuple[int, ...], draw: Callable[[], Any], settings: str = ""
) -> RawDraw:
    """The next draw of the tape: from the stream, or as it was on D."""
    served = tape.expect(law, shape)
    return tape.keep_draw(law, draw() if served is None else served, here(), settings)


def _draw_of(raw: RawDraw, law: str, scale: Any) -> Draw:
    shape = np.shape(raw.value)
    # A copy, since the user may change the array of scales afterwards.
    wide = np.broadcast_to(np.array(scale, dtype=np.float64), shape)
    return Draw(law, wide, raw.ids, frozenset({raw.number}))


def draw_noise(law: str, scale: Any, size: Any, draw: Callable[[], Any], loc: Any = 0) -> Any:
    """Noise of a law with location and scale; a location that is not zero is a query."""
    tape = current()
    if tape is None:
        return draw()
    raw = _keep(tape, law, _shape_of(size, loc, scale), draw)
    if not np.any(np.asarray(scale) != 0):  # no noise at all: a plain number
        tape.followed.add(raw.number)
        return raw.value
    if raw.site.exact in tape.public_lines:
        return raw.value.copy() if isinstance(raw.value, np.ndarray) else raw.value
    mark = _draw_of(raw, law, scale)
    value = raw.value.copy() if isinstance(raw.value, np.ndarray) else raw.value
    if not _is_query(tape, raw, loc):
        return wrap(value, mark)
    tape.located_draws.add(raw.number)
    return add_primitive(tape, loc, mark, value)


def _is_query(tape: Tape, raw: RawDraw, loc: Any) -> bool:
    """Whether the location of a draw is a query; one that is zero on D alone is found on D'."""
    place = (raw.site.file, raw.site.line)
    if place in tape.located:
        return True
    if tape.of is not None and raw.number in tape.of.located_draws:
        return True
    moved = bool(np.any(np.asarray(loc) != 0))
    if moved and tape.of is not None:
        tape.moved_locations.add(place)
    return moved


def draw_coin(chance: Any, size: Any, draw: Callable[[], Any]) -> Any:
    """Coins of a probability; one row per record is a batch."""
    tape = current()
    if tape is None:
        return draw()
    raw = _keep(tape, "coin", _shape_of(size, chance), draw)
    tape.followed.add(raw.number)
    return toss(tape, _draw_of(raw, "coin", 1.0), np.asarray(chance, dtype=np.float64), raw.value)


def _is_coin(values: Array, size: Any) -> bool:
    """Whether one of two values, yes and no, is drawn for every record."""
    tape = current()
    each = tape is not None and size is not None and tape.n in _shape_of(size)
    return each and values.shape == (2,) and {*values.tolist()} == {0, 1}


def draw_choice(chances: Any, size: Any, draw: Callable[[], Any]) -> Any:
    """A choice with given probabilities: the query is the vector of probabilities."""
    tape = current()
    if tape is None:
        return draw()
    raw = _keep(tape, "choice", _shape_of(size), draw)
    mark = Draw("choice", np.ones(()), raw.ids, frozenset({raw.number}))
    return choose(tape, mark, chances, raw.value)


def draw_indices(law: str, n: int, size: Any, draw: Callable[[], Any]) -> Any:
    """Indices of records or of anything else: served, with the changed record put in or out."""
    tape = current()
    if tape is None:
        return draw()
    value, edit = draw(), tape.edit
    anew = tape.hidden_seed is not None and is_seed(value, n)  # it may seed what nobody follows
    if tape.of is not None and len(tape.draws) < len(tape.of.draws) and not anew:
        then = tape.of.draws[len(tape.draws)]
        if then.law == law and then.settings == str(n):
            value = _serve(tape, then.value, value, law)
        elif (
            then.law == law
            and edit is not None
            and (str(edit.n), edit.n_prime)
            == (
                then.settings,
                n,
            )
        ):
            value = _renumber(np.asarray(then.value), edit.kind, edit.index, n, law)
    tape.keep_draw(law, value, here(), str(n))
    return value.copy() if isinstance(value, np.ndarray) else value


def _serve(tape: Tape, then: Any, drawn: Any, law: str) -> Any:
    """The draw of D again; if it has an entry per record, D' gets one entry more or less."""
    if np.shape(then) == np.shape(drawn):
        return then
    aligned = tape.align(np.asarray(then), law, np.shape(drawn))
    return drawn if aligned is None else aligned


def _renumber(then: Array, kind: str, index: int, n: int, law: str) -> Array:
    """The same records under their new numbers; a permutation gets or loses the changed one."""
    if kind == "add":
        moved = then + (then >= index)
        return np.insert(moved, 0, index) if law == "permutation" else moved
    kept = then[then != index]
    if law == "permutation":
        return kept - (kept > index)
    free = np.setdiff1d(np.arange(n + 1), then)
    fill = free[: then.size - kept.size] if free.size else kept[:1].repeat(then.size - kept.size)
    moved = np.where(then == index, np.resize(fill, then.shape), then) if fill.size else then
    return moved - (moved > index)


def draw_other(name: str, args: Any, kwargs: Any, draw: Callable[..., Any]) -> Any:
    """A law that has no price: it is followed and frozen, but not accounted."""
    args = tuple(plain_of(part) for part in args)
    kwargs = {key: plain_of(part) for key, part in kwargs.items()}
    tape = current()
    if tape is None:
        return draw(*args, **kwargs)
    value = draw(*args, **kwargs)
    served = tape.expect(name, np.shape(value))
    raw = tape.keep_draw(name, value if served is None else served, here())
    kept = raw.value.copy() if isinstance(raw.value, np.ndarray) else raw.value
    if raw.site.exact in tape.public_lines:
        return kept
    return wrap(kept, _draw_of(raw, name, np.ones(np.shape(kept))))


class Methods:
    """The draws of a generator, old or new, in terms of the functions above.

    ``plain(name)`` is the method that really draws: NumPy's methods call each other through
    ``self``, so they belong to a twin on the same bits.
    """

    def __init__(self, plain: Callable[[str], Callable[..., Any]]) -> None:
        self.plain = plain

    def located(self, name: str, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        loc, scale, size = plain_of(loc), plain_of(scale), plain_of(size)
        return draw_noise(name, scale, size, lambda: self.plain(name)(loc, scale, size), loc)

    def scaled(self, name: str, scale: Any = 1.0, size: Any = None) -> Any:
        scale, size = plain_of(scale), plain_of(size)
        return draw_noise(name, scale, size, lambda: self.plain(name)(scale, size))

    def standard(self, name: str, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            return draw_other(f"{name} into an array", (size, *args), kwargs, self.plain(name))
        size = plain_of(size)
        return draw_noise(
            STANDARD[name], 1.0, size, lambda: self.plain(name)(size, *args, **kwargs)
        )

    def random(self, name: str, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        return draw_noise("uniform", 1.0, size, lambda: self.plain(name)(size, *args, **kwargs))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        draw = self.plain("uniform")
        if np.ndim(low) == np.ndim(high) == 0 and (low, high) == (0, 1):
            return draw_noise("uniform", 1.0, size, lambda: draw(low, high, size))
        return draw_other("uniform in an interval", (low, high, size), {}, draw)

    def geometric(self, p: Any, size: Any = None) -> Any:
        p, size = plain_of(p), plain_of(size)
        with np.errstate(divide="ignore"):
            scale = -1.0 / np.log1p(-np.asarray(p, dtype=np.float64))
        return draw_noise("geometric", scale, size, lambda: self.plain("geometric")(p, size))

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None, **kwargs: Any) -> Any:
        """Independent noise has the deviation of each coordinate; other noise has no price here."""
        mean, cov = plain_of(np.asarray(mean)), plain_of(np.asarray(cov))
        draw = self.plain("multivariate_normal")
        diagonal = np.diagonal(cov)
        if kwargs or cov.ndim != 2 or np.any(cov - np.diag(diagonal)) or np.any(diagonal < 0):
            return draw_other("multivariate_normal", (mean, cov, size), kwargs, draw)
        shape = (*(_shape_of(size) if size is not None else ()), mean.size)
        return draw_noise("normal", np.sqrt(diagonal), shape, lambda: draw(mean, cov, size), mean)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        n, p = plain_of(n), plain_of(p)
        draw = self.plain("binomial")
        if np.ndim(n) == 0 and n == 1:
            return draw_coin(p, size, lambda: draw(n, p, size))
        return draw_other("binomial", (n, p, size), {}, draw)

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        a, p = plain_of(a), plain_of(p)
        n = int(a) if np.ndim(a) == 0 else len(a)
        draw = self.plain("choice")
        values = np.arange(n) if np.ndim(a) == 0 else np.asarray(a)
        if p is not None and _is_coin(values, size):  # who is in a batch: aligned by record
            chance = np.asarray(p, dtype=np.float64)[values == 1][0]
            coins = draw_coin(chance, size, lambda: values[draw(2, size, replace, p, *args,
                              **kwargs)].astype(np.int64))  # fmt: skip
            return coins.astype(values.dtype)
        if p is None:
            found = draw_indices("subset" if size is not None else "integers", n, size,
                             lambda: draw(n, size, replace, None, *args, **kwargs))  # fmt: skip
        else:
            found = draw_choice(p, size, lambda: draw(n, size, replace, p, *args, **kwargs))
        return found if np.ndim(a) == 0 else values[found]

    def integers(self, name: str, low: Any, high: Any = None, *args: Any, **kwargs: Any) -> Any:
        size = args[0] if args else kwargs.get("size")
        bound = high if high is not None else low
        n = int(bound) if np.ndim(bound) == 0 else -1
        return draw_indices(
            "integers", n, size, lambda: self.plain(name)(low, high, *args, **kwargs)
        )

    def permutation(self, x: Any, axis: int = 0) -> Any:
        draw = self.plain("permutation")
        if np.ndim(x) == 0:
            return draw_indices("permutation", int(x), None, lambda: draw(x))
        n = np.shape(x)[axis]
        order = draw_indices("permutation", n, None, lambda: draw(n))
        return np.take(plain_of(np.asarray(x)), order, axis=axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if axis != 0 or current() is None:
            self.plain("shuffle")(x, *((axis,) if axis else ()))
            return
        order = np.arange(len(x))

        def draw() -> Array:
            self.plain("shuffle")(order)
            return order

        places = draw_indices("permutation", len(x), None, draw)
        if isinstance(x, np.ndarray):
            strip(x)[...] = strip(x)[places]
        else:
            x[:] = [x[i] for i in places]


class SameKind(type):
    """A class that counts every instance of what it stands for as its own."""

    original: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.original)


class Recorder(np.random.Generator, metaclass=SameKind):
    """A NumPy generator whose draws are followed while a tape is current; its bits are the same."""

    original = np.random.Generator

    def __init__(self, bit_generator: Any) -> None:
        super().__init__(bit_generator)
        twin = Recorder.original(bit_generator)
        self._methods = Methods(lambda name: getattr(twin, name))

    def __reduce__(self) -> Any:
        return Recorder, (self.bit_generator,)  # a copy is followed too

    def random(self, *args: Any, **kwargs: Any) -> Any:
        return self._methods.random("random", *args, **kwargs)

    def integers(self, *args: Any, **kwargs: Any) -> Any:
        return self._methods.integers("integers", *args, **kwargs)


def _bound(kind: str, name: str) -> Callable[..., Any]:
    def method(self: Recorder, *args: Any, **kwargs: Any) -> Any:
        function = getattr(self._methods, kind)
        return function(*(() if kind == name else (name,)), *args, **kwargs)

    method.__name__ = name
    return method


def _bound_other(name: str) -> Callable[..., Any]:
    def method(self: Recorder, *args: Any, **kwargs: Any) -> Any:
        return draw_other(name, args, kwargs, self._methods.plain(name))

    method.__name__ = name
    return method


for _kind, _names in {
    "located": LOCATED,
    "scaled": SCALED,
    "standard": tuple(STANDARD),
    **{name: (name,) for name in ("uniform", "geometric", "binomial", "choice", "permutation",
                                  "shuffle", "multivariate_normal")},
}.items():  # fmt: skip
    for _name in _names:
        setattr(Recorder, _name, _bound(_kind, _name))
for _name in UNPRICED:
    setattr(Recorder, _name, _bound_other(_name))


def recorder(seed: Any) -> Recorder:
    """A recorder with the bits of ``np.random.default_rng(seed)``."""
    return Recorder(_default_rng(seed).bit_generator)


_default_rng = np.random.default_rng
