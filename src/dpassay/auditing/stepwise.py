"""What is asked of the single steps of few trainings, each with a fair coin of its own."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._rng import for_trial
from dpassay.auditing.power import with_power
from dpassay.auditing.question import Change, describe
from dpassay.auditing.reading import COIN, steps_of
from dpassay.bounds import lower_bound_from_steps
from dpassay.runs import Played, RunRecord, TrialLog, read_run
from dpassay.types import Evidence, FloatArray, LowerBound, PrivacyCurve, Verdict

STEPS: Final = "single steps"


def step_coins(seed: int, trial: int, stream: int, steps: int) -> NDArray[Any]:
    """1 for every step of a training that has the gradient, 0 for the others."""
    return for_trial(seed, trial, COIN, stream).integers(2, size=steps)


@dataclass(frozen=True)
class StepsQuestion:
    """What is asked of trainings whose steps were seen, with and without a gradient.

    Attributes:
        key: of the run.
        seed: of coins and trainings.
        stream: that the trainings were drawn from.
        trainings: how many.
        sampling_rate: the rate of the Poisson batches of a training.
        steps: of a training.
        claim: the curve to be tested.
        delta: where the bound is stated.
        confidence: of the bound.
        estimator: of :func:`dpassay.bounds.lower_bound_from_steps`.
        threshold: what counts as "with", for the estimator "threshold".
        sigma: the deviation of what a step shows, for the estimator "location".
        attacker: who made the gradient.
        claim_text: what stands for the claim in a log, if it cannot be written itself.

    """

    key: str
    seed: int
    stream: int
    trainings: int
    sampling_rate: float
    steps: int
    claim: PrivacyCurve
    delta: float
    confidence: float
    estimator: str
    threshold: float
    sigma: float
    attacker: str = ""
    claim_text: str | None = None

    def read(self, run: Played) -> tuple[NDArray[Any], FloatArray]:
        """The coins of all steps and what they showed.

        Raises:
            AuditStopped: a training failed. Its steps cannot be made up: where it broke off may
                depend on its coins.

        """
        run.require_whole(self.trainings, "trainings")
        numbers = range(self.trainings)
        coins = [step_coins(self.seed, k, self.stream, self.steps) for k in numbers]
        return (
            np.concatenate(coins),
            np.concatenate([steps_of(run.outcomes.payloads[k]) for k in numbers]),
        )

    def bound(self, run: Played) -> LowerBound:
        """The lower bound on epsilon of the whole training."""
        coins, seen = self.read(run)
        known: dict[str, dict[str, float]] = {
            "threshold": {"threshold": self.threshold},
            "location": {"sigma": self.sigma},
        }
        estimator: Any = _check.choice("estimator", self.estimator, tuple(known))
        return lower_bound_from_steps(
            seen[coins == 1],
            seen[coins == 0],
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            delta=self.delta,
            confidence=self.confidence,
            estimator=estimator,
            **known[estimator],  # type: ignore[arg-type]
        )

    def judge(self, log: TrialLog) -> Verdict:
        """The verdict on the trainings in a log; nothing is played."""
        return self.verdict(read_run(self.trainings, key=self.key, store=log))

    def verdict(self, run: Played) -> Verdict:
        """The claim is refuted where the bound is above it: one statement, at one level."""
        bound, (coins, seen) = self.bound(run), self.read(run)
        claimed = float(self.claim.epsilon(self.delta))
        refuted = bound.epsilon > claimed
        verdict = Verdict(
            claim=self.claim,
            bound=bound,
            refuted=refuted,
            confidence=self.confidence,
            trials=self.trainings,
            ended="refuted" if refuted else "budget spent",
            evidence=Evidence(coins, seen, self.key, self.seed),
            attack=f"{self.attacker}, by the {self.steps} steps of each training",
            kind=STEPS,
            n_deaths=run.n_deaths,
        )
        vacuous = not refuted and bound.ceiling <= claimed
        return with_power(verdict, vacuous=vacuous, both_ways=False)

    def description(self) -> dict[str, Any]:
        """The question as plain JSON, for the log."""
        return describe(self.claim, self.delta, self.confidence, self.claim_text) | {
            "audit": STEPS,
            "trials": self.trainings,
            "stream": self.stream,
            "sampling_rate": self.sampling_rate,
            "steps": self.steps,
            "estimator": self.estimator,
            "threshold": self.threshold,
            "sigma": self.sigma,
            "attacker": self.attacker,
        }


def steps_question_of(record: RunRecord, change: Change) -> StepsQuestion:
    """The question that a log describes, or a changed one."""
    about = record.description
    claim, delta, confidence = change.of(record)
    names = ("stream", "sampling_rate", "steps", "estimator", "threshold", "sigma", "attacker")
    return StepsQuestion(
        key=record.key,
        seed=record.configuration["seed"],
        trainings=about["trials"],
        claim=claim,
        delta=delta,
        confidence=confidence,
        **{name: about[name] for name in names},
    )
