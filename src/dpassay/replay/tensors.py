"""Tensors of torch as arrays and back, and what the rules of its draws need of the mode."""

from typing import Any, Protocol

import numpy as np
import torch

from dpassay.replay.draws import Mark, strip
from dpassay.replay.entries import Array
from dpassay.replay.tape import Tape


class Mode(Protocol):
    """What keeps marks beside tensors: :class:`dpassay.replay.torch.Following`."""

    tape: Tape

    def __enter__(self) -> Any: ...
    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any: ...
    def remember(self, tensor: Any, mark: Mark | None) -> Any: ...
    def remember_zeros(self, tensor: Any) -> None: ...
    def settle(self, tensor: Any, result: Any) -> Any: ...
    def note_weights(self, tensor: Any) -> None: ...


def array_of(tensor: Any) -> Array:
    """A NumPy view of a tensor where that is possible, else a copy."""
    plain = tensor.detach().cpu()
    if plain.dtype in (torch.bfloat16, torch.float16):
        plain = plain.float()
    return plain.resolve_conj().resolve_neg().numpy()


def fill(tensor: Any, value: Any) -> None:
    """Put a frozen value into a tensor; its place in a graph of derivatives stays."""
    wide = np.array(np.broadcast_to(np.asarray(strip(value)), tuple(tensor.shape)), order="C")
    tensor.data.copy_(torch.from_numpy(wide))


def is_inside_transform(value: Any) -> bool:
    """Whether a tensor belongs to vmap or grad: its values cannot be read."""
    return torch._C._functorch.is_functorch_wrapped_tensor(value)  # type: ignore[attr-defined]


def is_weights(tensor: Any) -> bool:
    """Whether a tensor is a parameter to be trained."""
    return isinstance(tensor, torch.nn.Parameter) or (tensor.requires_grad and tensor.is_leaf)
