"""Where the canaries are in the parameters of a torch model."""

from typing import Any

import numpy as np

from dpassay.canaries.watch import Watch
from dpassay.canaries.watch_blocks import Blocks
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


class Layout:
    """The canaries' places in the parameters of a model, on its device."""

    def __init__(self, parameters: list[Any], watch: Watch) -> None:
        import torch

        self.torch, self.parameters = torch, parameters
        self.sizes = [parameter.numel() for parameter in parameters]
        self.device = parameters[0].device
        self._load(watch.blocks)

    def _load(self, blocks: Blocks) -> None:
        as_tensor = self.torch.as_tensor
        self.blocks, self.scale = blocks, blocks.width**-0.5
        self.places = as_tensor(blocks.places, device=self.device)
        self.signs = as_tensor(blocks.signs, device=self.device)

    def follow(self, watch: Watch) -> None:
        """Take the blocks of a watch that was loaded from a checkpoint."""
        if self.blocks is not watch.blocks:
            self._load(watch.blocks)

    def flat(self, tensors: list[Any]) -> Any:
        """All parameters as one vector, in double precision."""
        parts = [part.detach().reshape(-1).to(self.device).double() for part in tensors]
        return self.torch.cat(parts)

    def project(self, flat: Any) -> FloatArray:
        """The component along each canary's direction."""
        along = (flat[self.places] * self.signs).sum(dim=1) * self.scale
        return along.cpu().numpy()

    def rows(self, weights: Any) -> Any:
        """One row per canary with a weight that is not 0: its gradient, flat."""
        chosen = np.flatnonzero(weights)
        rows = self.torch.zeros(len(chosen), sum(self.sizes), device=self.device)
        index = self.torch.as_tensor(chosen, device=self.device)
        values = self.signs[index] * self.torch.as_tensor(
            weights[chosen] * self.scale, device=self.device
        ).unsqueeze(1)
        return rows.scatter_(1, self.places[index], values.to(rows.dtype))

    def add(self, weights: FloatArray) -> None:
        """Add the sum of the canaries' directions, each with its weight, to the gradients."""
        vector = self.torch.zeros(sum(self.sizes), dtype=self.torch.double, device=self.device)
        scaled = self.torch.as_tensor(weights * self.scale, device=self.device).unsqueeze(1)
        vector[self.places] = self.signs * scaled
        for parameter, part in zip(self.parameters, vector.split(self.sizes), strict=True):
            parameter.grad += part.view_as(parameter).to(parameter.grad)


def find_trained(optimizer: Any) -> list[Any]:
    """The parameters that an optimizer moves.

    Raises:
        InvalidArgument: there are none.

    """
    parameters = [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    ]
    if not parameters:
        raise InvalidArgument("optimizer has no parameters that are trained; nothing to watch.")
    return parameters
