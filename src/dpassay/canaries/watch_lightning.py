"""A Lightning callback that watches one training (needs ``lightning`` when it is used)."""

from typing import Any

from dpassay.canaries.watch_trainer import TrainerWatch

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:
    Callback = None  # Asked for when a callback is made.

_BASE: Any = object if Callback is None else Callback


class LightningWatch(TrainerWatch, _BASE):
    """Puts canaries into the gradients of a fit and judges it at its end; see ``TrainerWatch``."""

    missing = "lightning" if Callback is None else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach the watch to the private optimizer."""
        self.attach(trainer.optimizers)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Judge, and tell the loggers."""
        numbers = self.conclude(first_process=trainer.is_global_zero)
        for logger in trainer.loggers if numbers else ():
            logger.log_metrics(numbers, step=trainer.global_step)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return self.save() or {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.saved = dict(state_dict) or None
