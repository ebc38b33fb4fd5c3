"""A watch on a private optimizer of Opacus: what its step hook adds and reads."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.canaries.watch import Watch, Where
from dpassay.canaries.watch_layout import Layout, find_trained
from dpassay.canaries.watch_verdict import History
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

_LOUD = 100.0  # norm of a canary before clipping, in units of the clipping norm
_ROOM = 2**24  # numbers in the rows of canaries that are clipped at once
_BY_LAYER = (
    "with clipping per layer a canary of the whole norm would be longer in its layers than a "
    "record may be"
)
_REFUSED = {
    "AdaClipDPOptimizer": "adaptive clipping tells all canaries' norms in one noisy count, which "
    "they share",
    "DPPerLayerOptimizer": _BY_LAYER,
    "DistributedPerLayerOptimizer": _BY_LAYER,
    "FSDPOptimizerFastGradientClipping": "with FSDP each process holds a part of the parameters "
    "only",
}


def watch_opacus(
    optimizer: Any,
    canaries: int,
    rng: RngLike,
    where: Where,
    accountant: Any,
    sampling_rate: float | None,
) -> Watch:
    """A watch on what Opacus' ``make_private`` returned; see :func:`dpassay.probe.optimizer`."""
    name = type(optimizer).__name__
    for kind in type(optimizer).__mro__:
        if kind.__name__ in _REFUSED:
            raise InvalidArgument(f"optimizer is a {name}: {_REFUSED[kind.__name__]}. Not covered.")
    if where == "clipping" and "FastGradientClipping" in name:
        raise InvalidArgument(
            f"where='clipping' needs rows of per-example gradients, which {name} never makes. Pass "
            "where='noise'."
        )
    parameters = find_trained(optimizer)
    watch = Watch(sum(p.numel() for p in parameters), canaries, rng, where)
    told = _Told(optimizer, accountant, sampling_rate)
    watch.accounted = told.history
    _OpacusSteps(optimizer, watch, Layout(parameters, watch), told).attach()
    return watch


class _Told:
    """Noise multiplier and sampling rate of each step, as the accountant is told."""

    def __init__(self, optimizer: Any, accountant: Any, sampling_rate: float | None) -> None:
        if isinstance(getattr(optimizer.step_hook, "__self__", None), _OpacusSteps):
            raise InvalidArgument(
                "optimizer is watched already: a second watch would take the canaries of the first "
                "for noise. Use the watch that is there, or call its detach() first."
            )
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

    def __init__(self, optimizer: Any, watch: Watch, layout: Layout, told: _Told) -> None:
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
