"""A watch on an optimizer of torch: Opacus' private ones, and loops that add noise themselves."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from dpassay._rng import RngLike
from dpassay.canaries.watch import Watch, Where
from dpassay.canaries.watch_file import WatchFile, follow
from dpassay.canaries.watch_opacus import watch_opacus
from dpassay.canaries.watch_plain import watch_plain
from dpassay.errors import InvalidTarget


def watch_optimizer(
    optimizer: Any,
    *,
    canaries: int = 5000,
    rng: RngLike = 0,
    where: Where = "noise",
    accountant: Any = None,
    noise_multiplier: float | None = None,
    sampling_rate: float | None = None,
    clip: float | None = None,
    divisor: float | None = None,
    keep: str | os.PathLike[str] | None = None,
) -> Watch:
    """A watch on an optimizer of torch; see :func:`dpassay.probe.optimizer`."""
    file = None if keep is None else WatchFile(keep)
    optimizer = _unwrap(optimizer)
    if _is_private(optimizer):
        watch = watch_opacus(optimizer, canaries, rng, where, accountant, sampling_rate)
        return follow(watch, file)
    stated = {
        "noise_multiplier": noise_multiplier,
        "sampling_rate": sampling_rate,
        "clip": clip,
        "divisor": divisor,
    }
    return follow(watch_plain(optimizer, canaries, rng, where, stated), file)


def find_optimizer(optimizers: Sequence[Any]) -> Any:
    """The one private optimizer among those of a trainer.

    Raises:
        InvalidTarget: there is none, or more than one.

    """
    private = [found for found in map(_unwrap, optimizers) if _is_private(found)]
    if len(private) != 1:
        raise InvalidTarget(
            f"the trainer has {len(private)} private optimizers; it must have one, made by Opacus' "
            "make_private before the training starts."
        )
    return private[0]


def _unwrap(optimizer: Any) -> Any:
    """The optimizer that a framework's wrapper calls (accelerate's, Lightning's)."""
    inner = optimizer
    while not _is_private(inner):
        found = getattr(inner, "optimizer", None) or getattr(inner, "_optimizer", None)
        if found is None:
            return optimizer
        inner = found
    return inner


def _is_private(optimizer: Any) -> bool:
    opacus = sys.modules.get("opacus.optimizers")
    return opacus is not None and isinstance(optimizer, opacus.DPOptimizer)
