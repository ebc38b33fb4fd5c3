"""A JAX training function as a mechanism."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import generator
from dpassay.errors import InvalidArgument, MissingDependency


@dataclass(frozen=True)
class JaxTraining:
    """A function ``train(data, key)`` as ``mechanism(data, rng)``; made by :func:`from_jax`.

    Attributes:
        train: returns a tree of arrays.
        output: what of it is published; None for all of it.

    """

    train: Callable[[Any, Any], Any]
    output: Callable[[Any], Any] | None = None

    def __call__(self, data: Any, rng: np.random.Generator | None) -> Any:
        try:
            import jax
        except ModuleNotFoundError as error:
            raise MissingDependency("from_jax needs JAX: pip install 'dpassay[lab]'.") from error
        # 64 bits: a seed would be cut to 32 unless 64-bit types are enabled.
        words = generator(rng).integers(2**32, size=2, dtype=np.uint32)
        trained = self.train(
            data, jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")
        )
        published = trained if self.output is None else self.output(trained)
        return jax.device_get(published)


def from_jax(
    train: Callable[[Any, Any], Any], *, output: Callable[[Any], Any] | None = None
) -> JaxTraining:
    """A JAX training function as a mechanism; its key is derived from the trial's generator.

    Args:
        train: ``train(data, key)`` returns a tree of arrays (parameters, a state); compiled or not.
            Arrays of the two worlds have different lengths: a compiled function is compiled once
            for each.
        output: a function of that tree that says what is published; None publishes all of it.

    Returns:
        ``mechanism(data, rng)``, which returns a tree of NumPy arrays. With ``rng=None`` the key
        comes from the operating system: the same noise as ever, but not replayable.

    Raises:
        InvalidArgument: not a function. MissingDependency: when played without JAX.

    """
    for name, value in (("train", train), ("output", output)):
        if not (callable(value) or (name == "output" and value is None)):
            raise InvalidArgument(
                f"{name}={_check.shown(value)} must be a function: train(data, key)."
            )
    return JaxTraining(train, output)
