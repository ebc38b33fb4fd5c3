"""The gradient adversary against an Opacus training loop: a canary put into its noisy sums.

The loop is the user's own; one line is added after ``make_private``::

    model, optimizer, loader = privacy_engine.make_private(...)
    optimizer = CanaryOptimizer(optimizer, canary, present=world, sampling_rate=q, rng=rng)
    ...                                   # the loop as it is
    score = LikelihoodRatio(noise_multiplier, q)(optimizer.seen)

Opacus calls a step hook when gradients are clipped, summed, noised and divided, before the
parameters move. There the canary is added. That it comes after the noise and not before it is the
same: both are sums. A hook that was attached before (the accountant's) goes on being called.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


class CanaryOptimizer:
    """An Opacus optimizer that inserts a gradient canary and logs what each step shows of it.

    Args:
        optimizer: the private optimizer that ``make_private`` returned. It is changed: it has a
            step hook more.
        canary: the gradient, flat, in the order of the optimizer's parameters; it is scaled to the
            clipping norm, so that it counts as one record does.
        present: the world: whether the canary is inserted at all.
        sampling_rate: the probability with which it is in a step; that of the data loader.
        rng: seed or generator of that draw.

    Raises:
        InvalidArgument: the canary is zero, not finite, or of another length.

    """

    def __init__(
        self,
        optimizer: Any,
        canary: ArrayLike,
        *,
        present: bool,
        sampling_rate: float,
        rng: RngLike = None,
    ) -> None:
        self.optimizer, self.present = optimizer, bool(present)
        self.sampling_rate = _check.sampling_rate(sampling_rate)
        self._rng, self._seen = generator(rng), []
        self._parts = _parts(optimizer, canary)
        self._before = optimizer.step_hook
        optimizer.attach_step_hook(self._hook)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    @property
    def seen(self) -> FloatArray:
        """<noisy sum, canary> / ||canary|| of every step so far, in units of the clipping norm."""
        return np.array(self._seen)

    def _hook(self, optimizer: Any) -> None:
        if self._before is not None:
            self._before(optimizer)
        divisor = 1.0
        if optimizer.loss_reduction == "mean":
            divisor = optimizer.expected_batch_size * optimizer.accumulated_iterations
        inserted = self._rng.random() < self.sampling_rate and self.present
        clip, along = float(optimizer.max_grad_norm), 0.0
        for parameter, unit in zip(optimizer.params, self._parts, strict=True):
            if inserted:
                parameter.grad += unit * (clip / divisor)
            along += float((parameter.grad * unit).sum()) * divisor / clip
        self._seen.append(along)


def _parts(optimizer: Any, canary: ArrayLike) -> list[Any]:
    """The canary of norm 1, cut like the parameters."""
    import torch

    flat = _check.array("canary", canary, ndim=1)
    sizes = [parameter.numel() for parameter in optimizer.params]
    norm = float(np.linalg.norm(flat))
    if flat.size != sum(sizes) or not norm > 0:
        raise InvalidArgument(
            f"canary has {flat.size} entries and norm {norm:g}; it must have {sum(sizes)}, one "
            "per parameter, and not be zero."
        )
    cut = np.split(flat / norm, np.cumsum(sizes)[:-1])
    return [
        torch.as_tensor(part, dtype=p.dtype, device=p.device).view_as(p)
        for part, p in zip(cut, optimizer.params, strict=True)
    ]
