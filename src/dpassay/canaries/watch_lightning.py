"""A Lightning callback that watches one training (needs ``lightning`` when it is used)."""

from typing import Any

from dpassay._rng import RngLike
from dpassay.auditing.claims import Claim
from dpassay.canaries.watch import Watch, Where
from dpassay.canaries.watch_torch import find_optimizer, watch_optimizer
from dpassay.errors import MissingDependency
from dpassay.types import Verdict

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:
    Callback = None  # Asked for when a callback is made.

_BASE: Any = object if Callback is None else Callback


class LightningWatch(_BASE):
    """Puts canaries into the gradients of a fit and judges it at its end.

    Attributes:
        watch: from the start of the training on.
        verdict: after its end, on the process that adds the noise; None elsewhere.

    """

    def __init__(
        self,
        *,
        canaries: int = 5000,
        rng: RngLike = 0,
        where: Where = "noise",
        delta: float | None = None,
        claim: Claim | None = None,
        confidence: float = 0.95,
        sampling_rate: float | None = None,
    ) -> None:
        if Callback is None:
            raise MissingDependency("lightning is missing: pip install lightning.")
        super().__init__()
        self.watch: Watch | None = None
        self.verdict: Verdict | None = None
        self._made = {"canaries": canaries, "rng": rng, "where": where}
        self._made |= {"sampling_rate": sampling_rate}
        self._asked = {"delta": delta, "claim": claim, "confidence": confidence}
        self._saved: dict[str, Any] | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach the watch to the private optimizer; go on with coins that a checkpoint had."""
        self.watch = watch_optimizer(find_optimizer(trainer.optimizers), **self._made)
        if self._saved is not None:
            self.watch.load_state_dict(self._saved)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Judge, and tell the logger."""
        if self.watch is None or not trainer.is_global_zero:
            return
        self.verdict = self.watch.judge(**self._asked)
        numbers = {
            "dpassay/epsilon_lower": self.verdict.bound.epsilon,
            "dpassay/refuted": float(self.verdict.refuted),
        }
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)

    def state_dict(self) -> dict[str, Any]:
        """Coins, sums and generator of the watch: a fit that is resumed draws no new coins."""
        return {} if self.watch is None else self.watch.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._saved = dict(state_dict) or None
