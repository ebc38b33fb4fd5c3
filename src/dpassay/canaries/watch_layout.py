"""Where the canaries are in the parameters of a torch model."""

from typing import Any

import numpy as np

from dpassay.canaries.watch import Watch
from dpassay.canaries.watch_blocks import Blocks
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


class Layout:
    """The canaries' places in the parameters of a model, on its device.

    A parameter that is frozen on the way (``requires_grad_(False)``) is released no more and gets
    no noise. Canaries leave it: what is left of a block has its norm again, so that nothing else
    changes; a block of which nothing is left shows nothing. The proof allows it, since directions
    may depend on all that happened before the step.
    """

    def __init__(self, parameters: list[Any], watch: Watch) -> None:
        import torch

        self.torch, self.parameters = torch, parameters
        self.sizes = [parameter.numel() for parameter in parameters]
        self.device = parameters[0].device
        self._load(watch.blocks)

    def _load(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.places = self.torch.as_tensor(blocks.places, device=self.device)
        self._leave_frozen()

    def _leave_frozen(self) -> None:
        """Signs that are 0 in frozen parameters, and lengths of what is left of each block."""
        torch = self.torch
        self.trained = [parameter.requires_grad for parameter in self.parameters]
        signs = torch.as_tensor(self.blocks.signs, device=self.device)
        if not all(self.trained):
            each = zip(self.sizes, self.trained, strict=True)
            moved = torch.cat([torch.full((size,), is_trained) for size, is_trained in each])
            signs = signs * moved.to(self.device)[self.places]
        self.signs = signs
        left = signs.abs().sum(dim=1, dtype=torch.double)
        self.scale = left.clamp(min=1).rsqrt()
        self.gone = (left == 0).cpu().numpy()

    def follow(self, watch: Watch) -> None:
        """Take the blocks of a watch that was loaded from a checkpoint; leave what is frozen."""
        if self.blocks is not watch.blocks:
            self._load(watch.blocks)
        elif self.trained != [parameter.requires_grad for parameter in self.parameters]:
            self._leave_frozen()

    def flat(self, tensors: list[Any]) -> Any:
        """The tensors of all parameters as one vector, in double precision; 0 for frozen ones."""
        torch = self.torch
        parts = [
            tensor.detach().reshape(-1).to(self.device).double()
            if is_trained
            else torch.zeros(size, dtype=torch.double, device=self.device)
            for tensor, size, is_trained in zip(tensors, self.sizes, self.trained, strict=True)
        ]
        return torch.cat(parts)

    def project(self, flat: Any) -> FloatArray:
        """The component along each canary's direction; nan where nothing is left of it."""
        along = (flat[self.places] * self.signs).sum(dim=1) * self.scale
        return np.where(self.gone, np.nan, along.cpu().numpy())

    def rows(self, weights: Any) -> Any:
        """One row per canary with a weight that is not 0: its gradient, flat."""
        chosen = np.flatnonzero(weights)
        rows = self.torch.zeros(len(chosen), sum(self.sizes), device=self.device)
        index = self.torch.as_tensor(chosen, device=self.device)
        values = self.signs[index] * (
            self.torch.as_tensor(weights[chosen], device=self.device) * self.scale[index]
        ).unsqueeze(1)
        return rows.scatter_(1, self.places[index], values.to(rows.dtype))

    def add(self, weights: FloatArray) -> None:
        """Add the sum of the canaries' directions, each with its weight, to the gradients."""
        vector = self.torch.zeros(sum(self.sizes), dtype=self.torch.double, device=self.device)
        scaled = self.torch.as_tensor(weights, device=self.device) * self.scale
        vector[self.places] = self.signs * scaled.unsqueeze(1)
        parts = zip(self.parameters, vector.split(self.sizes), self.trained, strict=True)
        for parameter, part, is_trained in parts:
            if is_trained:
                parameter.grad += part.view_as(parameter).to(parameter.grad)


def find_trained(optimizer: Any) -> list[Any]:
    """The parameters that an optimizer moves, each once.

    Raises:
        InvalidArgument: there are none.

    """
    found = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    # A parameter that is listed twice has one gradient: two canaries there would overlap.
    once = {id(parameter): parameter for parameter in found if parameter.requires_grad}
    parameters = list(once.values())
    if not parameters:
        raise InvalidArgument("optimizer has no parameters that are trained; nothing to watch.")
    return parameters
