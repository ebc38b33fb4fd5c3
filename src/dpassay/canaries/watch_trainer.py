"""What the callbacks of trainers share: a watch that is made when a training starts, and asked."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar

from dpassay.auditing.claims import Claim
from dpassay.canaries.watch import Watch, Where
from dpassay.canaries.watch_torch import find_optimizer, watch_optimizer
from dpassay.errors import MissingDependency
from dpassay.types import Verdict


class TrainerWatch:
    """Puts canaries into the gradients of a trainer's one training and judges it at its end.

    The arguments are those of :func:`dpassay.probe.optimizer` and of ``Watch.judge``.

    Attributes:
        watch: from the start of the training on.
        verdict: after its end, on the process that adds the noise; None elsewhere.
        saved: what a checkpoint held of an earlier watch, which this one goes on with.
        missing: the name of the package that a callback cannot do without, where it is missing.

    """

    missing: ClassVar[str | None] = None

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
        keep: str | os.PathLike[str] | None = None,
    ) -> None:
        if self.missing is not None:
            raise MissingDependency(f"{self.missing} is missing: pip install {self.missing}.")
        super().__init__()
        self.watch: Watch | None = None
        self.verdict: Verdict | None = None
        self.saved: dict[str, Any] | None = None
        self._made: dict[str, Any] = {"canaries": canaries, "rng": rng, "where": where}
        place = None if keep is None else os.fspath(keep)  # plain text for checkpoints
        self._made |= {"sampling_rate": sampling_rate, "keep": place}
        self._asked: dict[str, Any] = {"delta": delta, "claim": claim, "confidence": confidence}

    def attach(self, optimizers: Sequence[Any]) -> None:
        """Watch the private one of these optimizers; go on with coins that a checkpoint had."""
        self.watch = watch_optimizer(find_optimizer(optimizers), **self._made)
        if self.saved is not None:
            self.watch.load_state_dict(self.saved)

    def conclude(self, *, first_process: bool) -> dict[str, float]:
        """Judge, and return what a log of numbers takes; nothing on other processes."""
        if self.watch is None or not first_process:
            return {}
        self.verdict = self.watch.judge(**self._asked)
        return {
            "dpassay/epsilon_lower": self.verdict.bound.epsilon,
            "dpassay/refuted": float(self.verdict.refuted),
        }

    def save(self) -> dict[str, Any] | None:
        """Coins, sums and generator for a checkpoint: what is resumed tosses no new coins."""
        return self.saved if self.watch is None else self.watch.state_dict()
