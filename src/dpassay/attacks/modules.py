"""A torch module as a target: what its outputs say of each class."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpassay import _check
from dpassay.types import FloatArray

_AT_ONCE = 1024  # records in one forward pass, so that memory stays bounded
_SUM_TOLERANCE = 1e-4  # by which rows of probabilities in single precision may miss 1


def is_module(target: Any) -> bool:
    """Whether this is a torch module; torch is not imported for the question."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(target, torch.nn.Module)


def margins_of_module(module: Any, X: Any) -> FloatArray:
    """What the module says in evaluation mode, as logits in double precision.

    Rows that are not negative and sum to one are probabilities, and their logarithms are taken:
    a softmax gives them back. One column is the log odds of the second class.
    """
    import torch

    like = next(module.parameters(), torch.zeros(1))
    values = torch.as_tensor(np.asarray(X))
    values = values.to(like.device, like.dtype if values.is_floating_point() else None)
    with _evaluating(module), torch.no_grad():
        parts = [module(part).cpu().double().numpy() for part in values.split(_AT_ONCE)]
    remedy = "A module that is attacked must return finite numbers, one row for each record."
    z = _check.array("target(X)", np.concatenate(parts), remedy=remedy)
    if z.ndim == 2 and z.shape[1] == 1:
        return z[:, 0]
    if z.ndim == 2 and np.all(z >= 0) and np.all(np.abs(z.sum(axis=1) - 1) <= _SUM_TOLERANCE):
        return np.log(np.maximum(z, np.finfo(float).tiny))
    return z


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Without dropout and with the running averages of batch norms; afterwards as before."""
    training = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was in training:
            part.training = was
