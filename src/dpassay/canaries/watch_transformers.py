"""A callback of Hugging Face's Trainer that watches one training (needs ``transformers``)."""

from typing import Any

from dpassay.canaries.watch_trainer import TrainerWatch

try:
    from transformers import TrainerCallback
    from transformers.trainer_callback import ExportableState
except ModuleNotFoundError:
    TrainerCallback = ExportableState = None  # Asked for when a callback is made.

_BASES: Any = () if TrainerCallback is None else (TrainerCallback, ExportableState)


class TransformersWatch(TrainerWatch, *_BASES):
    """Puts canaries into the gradients of ``Trainer.train`` and judges it at its end."""

    missing = "transformers" if TrainerCallback is None else None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any
    ) -> None:
        """Attach the watch to the private optimizer."""
        self.attach([optimizer])

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Judge, and write both numbers into the trainer's history."""
        numbers = self.conclude(first_process=state.is_world_process_zero)
        if numbers:
            state.log_history.append(numbers | {"step": state.global_step})

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: how the watch was made, its coins, sums and generator."""
        return {"args": self._made | self._asked, "attributes": {"saved": self.save()}}
