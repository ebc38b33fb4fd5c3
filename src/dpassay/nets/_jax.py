"""JAX, imported when it is first used: the rest of dpassay does without it."""

import importlib
from typing import Any

from dpassay.errors import MissingDependency


class Late:
    """A module that is imported at the first use of one of its names."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Introspection (inspect, doctest, copy) asks any object for these; it must hear "no"
            # rather than import JAX, or fail where JAX is not installed.
            raise AttributeError(name)
        try:
            return getattr(importlib.import_module(self._module), name)
        except ModuleNotFoundError as error:
            raise MissingDependency(
                f"{self._module} is missing; networks need JAX: pip install 'dpassay[lab]'."
            ) from error


jax: Any = Late("jax")
jnp: Any = Late("jax.numpy")
