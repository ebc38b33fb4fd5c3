"""Following draws through JAX, inside ``jit`` and ``scan`` too.

``jax.random.normal`` and its cousins return a wrapper. Scaling it scales its law; an array plus a
wrapper becomes an ordered callback to the host, which writes the primitive down and, on a replay,
returns the value of the first tape. Compiled code keeps its callbacks, so the caches are cleared
before the first run of a check and after the last.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from dpassay.errors import InvalidTarget
from dpassay.replay.draws import Draw, add_primitive, strip
from dpassay.replay.generator import draw_coin, draw_indices
from dpassay.replay.sites import Site, here
from dpassay.replay.tape import Tape, play_on, stop

_ADVICE = (
    "a draw of jax.random is passed to a function of JAX, where a check cannot follow it. Scale it "
    "by * and add it by + or -: q + noise instead of jnp.add(q, noise); or pass an array, noise[:]."
)


_MAPPED = (
    "jax.random is called inside vmap or pmap, where a check cannot follow it. Draw the noise of "
    "all entries at once, outside: jax.random.normal(key, (n, d))."
)
_OTHERS = (
    "ball", "beta", "binomial", "categorical", "chisquare", "choice", "dirichlet",
    "double_sided_maxwell", "f", "gamma", "generalized_normal", "geometric", "loggamma",
    "lognormal", "maxwell", "multivariate_normal", "orthogonal", "pareto", "poisson", "rademacher",
    "randint", "rayleigh", "t", "triangular", "truncated_normal", "wald", "weibull_min",
)  # fmt: skip


class _State:
    """The tape that callbacks write on: they run on threads of the runtime."""

    tape: Tape | None = None
    warm = False


def _on_tape(work: Callable[[Tape], Any], otherwise: Any) -> Any:
    tape = _State.tape
    if tape is None:
        return np.asarray(otherwise)
    token = play_on(tape)
    try:
        return np.asarray(work(tape))
    finally:
        stop(token)


class Noise:
    """A draw of ``jax.random``: noise until something is added to it."""

    __array_priority__ = 1000
    __array_ufunc__ = None  # NumPy's operators defer to those below

    def __init__(self, value: Any, law: str, scale: Any, site: Site) -> None:
        self.value, self.law, self.scale, self.site = value, law, scale, site

    def _scale(self, value: Any, factor: Any) -> Any:
        if jnp.shape(value) != jnp.shape(self.value) or self.law == "uniform":
            return self._lose(value)
        return Noise(value, self.law, self.scale * jnp.abs(factor), self.site)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Noise):
            return self._lose(self.value) * other._lose(other.value)
        return self._scale(self.value * other, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._scale(self.value / other, 1 / other)

    def __neg__(self) -> "Noise":
        return Noise(-self.value, self.law, self.scale, self.site)

    def __add__(self, other: Any) -> Any:
        return self._add(other, self.value + _plain(other), 1.0)

    def __radd__(self, other: Any) -> Any:
        return self._add(other, other + self.value, 1.0)

    def __sub__(self, other: Any) -> Any:
        return self._add(other, self.value - _plain(other), -1.0)

    def __rsub__(self, other: Any) -> Any:
        return self._add(other, other - self.value, 1.0)

    def _add(self, other: Any, value: Any, sign: float) -> Any:
        if isinstance(other, Noise) or self.law == "uniform":
            return self._lose(value)
        query = jnp.broadcast_to(sign * jnp.asarray(other, value.dtype), value.shape)
        noise = jnp.broadcast_to(self.value, value.shape)
        scale = jnp.broadcast_to(jnp.asarray(self.scale, value.dtype), value.shape)
        law, drawn, site = self.law, self.site, here()

        def on_host(query: Any, noise: Any, scale: Any, value: Any) -> Any:
            def keep(tape: Tape) -> Any:
                return _keep_sum(tape, law, drawn, site, query, noise, scale, value)

            return _on_tape(keep, value)

        shape = jax.ShapeDtypeStruct(value.shape, value.dtype)
        return io_callback(on_host, shape, query, noise, scale, value, ordered=True)

    def _compare(self, limit: Any, value: Any, below: bool) -> Any:
        if self.law != "uniform":
            return self._lose(value)
        chance = jnp.clip(jnp.asarray(limit, self.value.dtype), 0, 1)
        return _coins(chance if below else 1 - chance, value)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, self.value < other, True)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, self.value <= other, True)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, self.value > other, False)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, self.value >= other, False)

    def _lose(self, value: Any) -> Any:
        """The value, which is not followed any further: the tape learns of it when it is drawn."""
        law, site = self.law, self.site

        def on_host(value: Any) -> Any:
            return _on_tape(lambda tape: _keep_lost(tape, law, site, value), value)

        value = jnp.asarray(value)
        shape = jax.ShapeDtypeStruct(value.shape, value.dtype)
        return io_callback(on_host, shape, value, ordered=True)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size"):
            return getattr(self.value, name)
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._lose(self.value), name)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and key == slice(None):
            return self._lose(self.value)
        scale = jnp.broadcast_to(jnp.asarray(self.scale), self.value.shape)[key]
        return Noise(self.value[key], self.law, scale, self.site)

    def __matmul__(self, other: Any) -> Any:
        return self._lose(self.value) @ other

    def __rmatmul__(self, other: Any) -> Any:
        return other @ self._lose(self.value)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self._lose(self.value))


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Noise) else value


def _keep_sum(
    tape: Tape, law: str, drawn: Site, site: Site, query: Any, noise: Any, scale: Any, value: Any
) -> Any:
    raw = tape.keep_draw(law, np.array(noise), drawn)
    mark = Draw(law, np.array(scale, dtype=np.float64), raw.ids, frozenset({raw.number}))
    out = strip(add_primitive(tape, np.asarray(query), mark, np.array(value), site))
    return np.asarray(out, dtype=np.asarray(value).dtype)


def _keep_lost(tape: Tape, law: str, site: Site, value: Any) -> Any:
    served = tape.expect(f"{law} of JAX", np.shape(value))
    tape.keep_draw(f"{law} of JAX", np.array(value) if served is None else served, site)
    return np.asarray(value if served is None else served, dtype=np.asarray(value).dtype)


def _coins(chance: Any, value: Any) -> Any:
    """Coins with one entry per record are aligned by record on the host."""

    def on_host(chance: Any, value: Any) -> Any:
        taken = np.asarray(value)
        return _on_tape(lambda tape: draw_coin(np.asarray(chance), taken.shape, lambda: taken),
                        value)  # fmt: skip

    shape = jax.ShapeDtypeStruct(value.shape, value.dtype)
    return io_callback(on_host, shape, chance, value, ordered=True)


def _indices(n: int, value: Any) -> Any:
    def on_host(value: Any) -> Any:
        drawn = np.asarray(value)
        kind = drawn.dtype
        return _on_tape(
            lambda tape: np.asarray(
                draw_indices("permutation", n, None, lambda: drawn), dtype=kind
            ),
            value,
        )

    return io_callback(on_host, jax.ShapeDtypeStruct(value.shape, value.dtype), value, ordered=True)


def _replacements() -> dict[str, Callable[..., Any]]:
    plain = {name: getattr(jax.random, name) for name in dir(jax.random)}

    def noise(name: str, law: str) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            return Noise(plain[name](*args, **kwargs), law, 1.0, here())

        return draw

    def uniform(key: Any, shape: Any = (), dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
        value = plain["uniform"](key, shape, dtype, *args, **kwargs)
        interval = bool(args or kwargs.keys() & {"minval", "maxval"})
        return Noise(value, "uniform in an interval" if interval else "uniform", 1.0, here())

    def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, **kwargs: Any) -> Any:
        return _coins(jnp.asarray(p), plain["bernoulli"](key, p, shape, **kwargs))

    def permutation(key: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        if jnp.ndim(x) == 0:
            return _indices(int(x), plain["permutation"](key, x, *args, **kwargs))
        order = _indices(len(x), plain["permutation"](key, len(x)))
        return jnp.take(jnp.asarray(x), order, axis=0)

    def other(name: str) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            value = plain[name](*args, **kwargs)
            return Noise(value, name, 1.0, here())._lose(value)

        return draw

    located = {name: noise(name, name) for name in ("normal", "laplace", "gumbel", "exponential",
                                                    "cauchy", "logistic")}  # fmt: skip
    others = {name: other(name) for name in _OTHERS if name in plain}
    return others | located | {
        "uniform": uniform, "bernoulli": bernoulli, "permutation": permutation,
    }  # fmt: skip


@contextlib.contextmanager
def following(tape: Tape) -> Iterator[None]:
    """Follow the draws of ``jax.random`` until the end."""
    if not _State.warm:
        jax.clear_caches()  # compiled code has no callbacks
        _State.warm = True
    with contextlib.ExitStack() as stack:
        for name, made in _replacements().items():
            stack.callback(setattr, jax.random, name, getattr(jax.random, name))
            setattr(jax.random, name, made)
        stack.callback(setattr, _State, "tape", _State.tape)
        _State.tape = tape
        try:
            yield
        except TypeError as error:  # no __jax_array__: arrays would then not defer to the wrapper
            if Noise.__module__ in str(error) or "Noise" in str(error):
                raise InvalidTarget(_ADVICE) from error
            raise
        except ValueError as error:
            if "ordered IO callback" in str(error):
                raise InvalidTarget(_MAPPED) from error
            raise
        jax.effects_barrier()


def finish() -> None:
    """Forget compiled code with callbacks; called when a check is over."""
    if _State.warm:
        _State.warm = False
        jax.clear_caches()
