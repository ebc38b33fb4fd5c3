"""A callback of Hugging Face's Trainer that watches one training (needs ``transformers``)."""

from typing import Any

from dpassay.auditing.claims import Claim
from dpassay.canaries.watch import Watch, Where
from dpassay.canaries.watch_torch import find_optimizer, watch_optimizer
from dpassay.errors import MissingDependency
from dpassay.types import Verdict

try:
    from transformers import TrainerCallback
    from transformers.trainer_callback import ExportableState
except ModuleNotFoundError:
    TrainerCallback = ExportableState = None  # Asked for when a callback is made.

_BASES: Any = (object,) if TrainerCallback is None else (TrainerCallback, ExportableState)


class TransformersWatch(*_BASES):
    """Puts canaries into the gradients of ``Trainer.train`` and judges it at its end.

    Attributes:
        watch: from the start of the training on.
        verdict: after its end; None on processes that add no noise.

    """

    def __init__(
        self,
        *,
        canaries: int = 5000,
        rng: int = 0,
        where: Where = "noise",
        delta: float | None = None,
        claim: Claim | None = None,
        confidence: float = 0.95,
        sampling_rate: float | None = None,
    ) -> None:
        if TrainerCallback is None:
            raise MissingDependency("transformers is missing: pip install transformers.")
        super().__init__()
        self.watch: Watch | None = None
        self.verdict: Verdict | None = None
        self.saved: dict[str, Any] | None = None
        self._made = {"canaries": canaries, "rng": rng, "where": where}
        self._made |= {"sampling_rate": sampling_rate}
        self._asked = {"delta": delta, "claim": claim, "confidence": confidence}

    def on_train_begin(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any
    ) -> None:
        """Attach the watch to the private optimizer; go on with coins that a checkpoint had."""
        self.watch = watch_optimizer(find_optimizer([optimizer]), **self._made)
        if self.saved is not None:
            self.watch.load_state_dict(self.saved)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Judge, and write both numbers into the trainer's history."""
        if self.watch is None or not state.is_world_process_zero:
            return
        self.verdict = self.watch.judge(**self._asked)
        numbers = {
            "dpassay/epsilon_lower": self.verdict.bound.epsilon,
            "dpassay/refuted": float(self.verdict.refuted),
        }
        state.log_history.append(numbers | {"step": state.global_step})

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: how the watch was made, its coins, sums and generator."""
        saved = None if self.watch is None else self.watch.state_dict()
        return {"args": self._made | self._asked, "attributes": {"saved": saved}}
