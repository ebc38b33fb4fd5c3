"""A watch on a plain optimizer of torch, in a loop that clips and adds noise itself."""

from typing import Any

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.canaries.watch import Watch, Where
from dpassay.canaries.watch_layout import Layout, find_trained
from dpassay.errors import InvalidArgument, InvalidTarget


def watch_plain(
    optimizer: Any, canaries: int, rng: RngLike, where: Where, stated: dict[str, float | None]
) -> Watch:
    """A watch on a plain optimizer, with what its loop states of itself by name."""
    if not hasattr(optimizer, "register_step_pre_hook") or not hasattr(optimizer, "param_groups"):
        raise InvalidArgument(
            f"optimizer is a {type(optimizer).__qualname__}; it must be what Opacus' make_private "
            "returned, or an optimizer of torch. For JAX see dpassay.canaries.watch_gradients."
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
    parameters = find_trained(optimizer)
    watch = Watch(sum(p.numel() for p in parameters), canaries, rng, where)
    steps = _PlainSteps(watch, Layout(parameters, watch), stated)
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

    def __init__(self, watch: Watch, layout: Layout, stated: dict[str, float | None]) -> None:
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
        self.layout.follow(self.watch)
        self.data = self.layout.flat(self._gradients()) / divisor

    def _gradients(self) -> list[Any]:
        parameters = self.layout.parameters
        gradients = [parameter.grad for parameter in parameters]
        empty = [
            number
            for number, parameter in enumerate(parameters)
            if parameter.grad is None and parameter.requires_grad
        ]
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
