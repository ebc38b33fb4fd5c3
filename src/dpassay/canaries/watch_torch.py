"""A watch on an optimizer of torch: Opacus' private ones, and loops that add noise themselves."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.canaries.watch import Watch, Where
from dpassay.canaries.watch_blocks import Blocks
from dpassay.canaries.watch_verdict import History
from dpassay.errors import InvalidArgument, InvalidTarget
from dpassay.types import FloatArray

_LOUD = 100.0  # norm of a canary before clipping, in units of the clipping norm
_ROOM = 2**24  # numbers in the rows of canaries that are clipped at once
_REFUSED = {
    "AdaClipDPOptimizer": "adaptive clipping tells all canaries' norms in one noisy count, which "
    "they share",
    "DPPerLayerOptimizer": "with clipping per layer a canary of the whole norm would be longer in "
    "its layers than a record may be",
    "SimpleDistributedPerLayerOptimizer": "with clipping per layer a canary of the whole norm "
    "would be longer in its layers than a record may be",
    "FSDPOptimizerFastGradientClipping": "with FSDP each process holds a part of the parameters "
    "only",
}


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
) -> Watch:
    """A watch on an optimizer of torch; see :func:`dpassay.probe.optimizer`."""
    optimizer = _unwrap(optimizer)
    if _is_private(optimizer):
        return _watch_opacus(optimizer, canaries, rng, where, accountant, sampling_rate)
    stated = {
        "noise_multiplier": noise_multiplier,
        "sampling_rate": sampling_rate,
        "clip": clip,
        "divisor": divisor,
    }
    return _watch_plain(optimizer, canaries, rng, where, stated)


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


class _Layout:
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
        """One vector of all of them, in double precision."""
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


def _trained(optimizer: Any) -> list[Any]:
    parameters = [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    ]
    if not parameters:
        raise InvalidArgument("optimizer has no parameters that are trained; nothing to watch.")
    return parameters


# ------------------------------------------------------------------------- Opacus


def _watch_opacus(
    optimizer: Any,
    canaries: int,
    rng: RngLike,
    where: Where,
    accountant: Any,
    sampling_rate: float | None,
) -> Watch:
    name = type(optimizer).__name__
    for kind in type(optimizer).__mro__:
        if kind.__name__ in _REFUSED:
            raise InvalidArgument(f"optimizer is a {name}: {_REFUSED[kind.__name__]}. Not covered.")
    if where == "clipping" and "FastGradientClipping" in name:
        raise InvalidArgument(
            f"where='clipping' needs rows of per-example gradients, which {name} never makes. Pass "
            "where='noise'."
        )
    parameters = _trained(optimizer)
    watch = Watch(sum(p.numel() for p in parameters), canaries, rng, where)
    told = _Told(optimizer, accountant, sampling_rate)
    watch.accounted = told.history
    _OpacusSteps(optimizer, watch, _Layout(parameters, watch), told).attach()
    return watch


class _Told:
    """Noise multiplier and sampling rate of each step, as the accountant is told."""

    def __init__(self, optimizer: Any, accountant: Any, sampling_rate: float | None) -> None:
        found = _closure(optimizer.step_hook)
        self.accountant: Any = found.get("self") if accountant is None else accountant
        self.rate = found.get("sample_rate") if sampling_rate is None else sampling_rate
        if self.rate is None and not hasattr(self.accountant, "history"):
            raise InvalidArgument(
                "sampling_rate is missing: the optimizer has no accountant's hook to read it from. "
                "Call probe.optimizer after make_private, or pass accountant= or sampling_rate=."
            )
        if self.rate is not None:
            _check.sampling_rate(self.rate)
        self.has_history = hasattr(self.accountant, "history")
        self.n_before = _steps(self.history()) if self.has_history else 0

    def history(self) -> History:
        """All that the accountant was told."""
        told = self.accountant.history if self.has_history else []
        return [(float(noise), float(rate), int(steps)) for noise, rate, steps in told]

    def now(self, optimizer: Any) -> tuple[float, float]:
        """Of the step that was just taken: the last entry, if the accountant was told of it."""
        history = self.history()
        if _steps(history) > self.n_before:
            self.n_before = _steps(history)
            return history[-1][:2]
        rate = 1.0 if self.rate is None else float(self.rate)
        return float(optimizer.noise_multiplier), rate * optimizer.accumulated_iterations


def _steps(history: History) -> int:
    return sum(steps for _, _, steps in history)


def _closure(hook: Any) -> dict[str, Any]:
    """What the hook of an accountant of Opacus holds: the accountant and its sampling rate."""
    code, cells = getattr(hook, "__code__", None), getattr(hook, "__closure__", None)
    if code is None or cells is None:
        return {}
    return {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}


class _OpacusSteps:
    """The hook that Opacus calls once per real step, when gradients are clipped and noised."""

    def __init__(self, optimizer: Any, watch: Watch, layout: _Layout, told: _Told) -> None:
        self.optimizer, self.watch, self.layout, self.told = optimizer, watch, layout, told
        self.before = optimizer.step_hook
        self.drawn: FloatArray | None = None
        self.data: Any = None

    def attach(self) -> None:
        """Put the hook behind the one that is there; before the noise too, to test clipping."""
        optimizer = self.optimizer
        optimizer.attach_step_hook(self.step)
        if self.watch.where == "clipping":
            original = optimizer.add_noise
            optimizer.add_noise = lambda: self.add_rows(original)

        def detach() -> None:
            optimizer.attach_step_hook(self.before)
            optimizer.__dict__.pop("add_noise", None)

        self.watch.detach = detach

    def is_first_rank(self) -> bool:
        """Whether noise is added here: by one process alone, where several share the data."""
        return getattr(self.optimizer, "rank", 0) == 0

    def add_rows(self, add_noise: Callable[[], None]) -> None:
        """Send the canaries of this step through clipping, as rows of their own."""
        if self.is_first_rank():
            self.layout.follow(self.watch)
            self.data = self.layout.flat([p.summed_grad for p in self.layout.parameters])
            self.drawn = self.watch.draw(self._rate())
            self._clip(self.drawn * float(self.optimizer.max_grad_norm) * _LOUD)
        add_noise()

    def _rate(self) -> float:
        """Before the accountant is told of the step: what it will be told."""
        if self.told.rate is None:
            raise InvalidArgument(
                "sampling_rate is missing: where='clipping' has to know it before the step. Pass "
                "sampling_rate= to probe.optimizer."
            )
        return float(self.told.rate) * self.optimizer.accumulated_iterations

    def _clip(self, weights: FloatArray) -> None:
        """Let the optimizer clip the rows and add them to its sums, so many at a time."""
        parameters, chosen = self.layout.parameters, np.flatnonzero(weights)
        own = [parameter.grad_sample for parameter in parameters]
        size = max(_ROOM // sum(self.layout.sizes), 1)
        for first in range(0, len(chosen), size):
            part = np.zeros_like(weights)
            part[chosen[first : first + size]] = weights[chosen[first : first + size]]
            rows = self.layout.rows(part)
            pieces = rows.split(self.layout.sizes, dim=1)
            for parameter, piece in zip(parameters, pieces, strict=True):
                piece = piece.reshape(len(rows), *parameter.shape)
                parameter.grad_sample = piece.to(parameter)
            self.optimizer.clip_and_accumulate()
        for parameter, rows in zip(parameters, own, strict=True):
            parameter.grad_sample = rows

    def step(self, optimizer: Any) -> None:
        """Add the canaries, unless they are there, and read what the step shows of them."""
        if self.before is not None:
            self.before(optimizer)
        if not self.is_first_rank():
            return
        layout, watch = self.layout, self.watch
        layout.follow(watch)
        noise, rate = self.told.now(optimizer)
        clip, divisor = float(optimizer.max_grad_norm), 1.0
        if optimizer.loss_reduction == "mean":
            divisor = float(optimizer.expected_batch_size * optimizer.accumulated_iterations)
        drawn, data = self.drawn, self.data
        if drawn is None:
            drawn = watch.draw(rate)
            data = layout.flat([p.summed_grad for p in layout.parameters])
            layout.add(drawn * (clip / divisor))
        released = layout.flat([p.grad for p in layout.parameters]) * divisor
        self.drawn = self.data = None
        watch.take(
            layout.project(released) / clip,
            drawn,
            noise,
            rate,
            known=layout.project(released - data) / clip,
        )


# ------------------------------------------------------------------------- a loop of one's own


def _watch_plain(
    optimizer: Any, canaries: int, rng: RngLike, where: Where, stated: dict[str, float | None]
) -> Watch:
    if not hasattr(optimizer, "register_step_pre_hook") or not hasattr(optimizer, "param_groups"):
        raise InvalidArgument(
            f"optimizer is a {type(optimizer).__qualname__}; it must be what Opacus' make_private "
            "returned, or an optimizer of torch. For JAX see dpassay.canaries.transformation."
        )
    missing = [name for name, value in stated.items() if value is None]
    if missing:
        raise InvalidArgument(
            f"{', '.join(missing)} missing: {type(optimizer).__qualname__} is not private by "
            "itself. Pass the optimizer that make_private returned; for a loop that clips and adds "
            "noise itself state noise_multiplier=, sampling_rate=, clip= and divisor= (by which "
            "the noisy sum is divided)."
        )
    if where == "clipping":
        raise InvalidArgument(
            "where='clipping' needs per-example gradients of Opacus. Pass where='noise'."
        )
    _refuse_many_processes()
    parameters = _trained(optimizer)
    watch = Watch(sum(p.numel() for p in parameters), canaries, rng, where)
    steps = _PlainSteps(watch, _Layout(parameters, watch), stated)
    handle = optimizer.register_step_pre_hook(steps.step)
    watch.before_noise, watch.detach = steps.note_sum, handle.remove
    return watch


def _refuse_many_processes() -> None:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        n_processes = distributed.get_world_size()
        if n_processes > 1:
            raise InvalidArgument(
                f"torch.distributed runs {n_processes} processes: canaries in one of them would "
                "set its copy of the model apart. Use Opacus' distributed optimizer, which adds "
                "noise on rank 0, or watch a run of one process."
            )


class _PlainSteps:
    """The hook that torch calls before an optimizer moves."""

    def __init__(self, watch: Watch, layout: _Layout, stated: dict[str, float | None]) -> None:
        numbers = {name: float(value or 0) for name, value in stated.items()}
        self.watch, self.layout = watch, layout
        self.noise = _check.number("noise_multiplier", numbers["noise_multiplier"], low=0)
        self.rate = _check.sampling_rate(numbers["sampling_rate"])
        self.clip = _check.number("clip", numbers["clip"], low=0, low_open=True)
        self.divisor = _check.number("divisor", numbers["divisor"], low=0, low_open=True)
        self.data: Any = None

    def note_sum(self, divisor: float = 1.0) -> None:
        """Note the clipped gradients in ``p.grad``; call it right before the noise is added.

        What is noted is subtracted in the scores, which then see more. It must not hold noise yet.

        Args:
            divisor: by which the gradients are still divided between here and the step.

        """
        _check.number("divisor", divisor, low=0, low_open=True)
        self.data = self.layout.flat(self._gradients()) / divisor

    def _gradients(self) -> list[Any]:
        gradients = [parameter.grad for parameter in self.layout.parameters]
        empty = [number for number, gradient in enumerate(gradients) if gradient is None]
        if empty:
            raise InvalidTarget(
                f"parameter {empty[0]} of the optimizer has no gradient in this step, so that no "
                "noise was added there. Freeze parameters that are not used: "
                "requires_grad_(False), before probe.optimizer."
            )
        return gradients

    def step(self, optimizer: Any, *unused: Any) -> None:
        """Add the canaries of this step to the noisy gradients and read what these show."""
        layout, watch = self.layout, self.watch
        layout.follow(watch)
        gradients, drawn = self._gradients(), watch.draw(self.rate)
        layout.add(drawn * (self.clip / self.divisor))
        scale = self.divisor / self.clip
        released = layout.flat(gradients) * scale
        known = None if self.data is None else layout.project(released - self.data * scale)
        self.data = None
        watch.take(layout.project(released), drawn, self.noise, self.rate, known=known)
