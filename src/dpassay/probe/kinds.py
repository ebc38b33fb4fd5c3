"""What is a tensor, a model, a data set of torch, without loading torch."""

import sys
from typing import Any


def torch_class(name: str) -> Any:
    """A class of torch, if it is loaded: nothing can be of that class before."""
    found: Any = sys.modules.get("torch")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found or ()


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch."""
    return isinstance(value, torch_class("Tensor"))


def is_model(value: Any) -> bool:
    """Whether it is a model of torch."""
    return isinstance(value, torch_class("nn.Module"))
