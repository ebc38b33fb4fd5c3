"""DP-SGD with the noise of Bassily, Smith and Thakurta (2014), which Micali 2022 takes over."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.learn import PrivateLogisticRegression
from dpassay.learn.logistic_facts import LogisticFacts, LogisticPlan, targets_of
from dpassay.learn.plans import Solution
from dpassay.optim.gradient import noisy_gradient_descent, onto_ball, step_event
from dpassay.optim.losses import Loss, Rows
from dpassay.privacy import Event, account
from dpassay.types import FloatArray, Release
from dpassay_reproduce.printed.frank_wolfe import PrintedFrankWolfe

__all__ = [
    "PrintedLogisticRegression",
    "PrintedStochasticGradient",
    "bst14_noise",
    "bst14_sgd",
]


class PrintedLogisticRegression(PrivateLogisticRegression):
    """:class:`dpassay.learn.PrivateLogisticRegression` with the printed noise.

    ``solver`` is "sgd" (under replace-one) or "frank-wolfe".
    """

    def _make_plan(self, facts: LogisticFacts) -> LogisticPlan:
        plans = {"sgd": PrintedStochasticGradient, "frank-wolfe": PrintedFrankWolfe}
        self.solver_ = _check.choice("solver", self.solver, tuple(plans))
        return plans[self.solver_](facts)


@dataclass(frozen=True)
class PrintedStochasticGradient:
    """The plan of a fit by :func:`bst14_sgd`; its noise was derived under replace-one."""

    facts: LogisticFacts

    def __post_init__(self) -> None:
        _refuse_add_remove(self.facts)
        budget = self.facts.budget
        spent = float(account(self.event).epsilon(budget.delta))
        if not spent <= budget.epsilon:
            raise InvalidArgument(
                f"max_iter={self.steps}: so many steps with the printed noise cost epsilon="
                f"{spent:.4g}, above epsilon={budget.epsilon:g}. It is for at most n² steps and a "
                "moderate epsilon."
            )

    @property
    def steps(self) -> int:
        """The number of steps; n² in the thesis, whatever that costs."""
        return self.facts.max_iter or self.facts.n_records**2

    @property
    def noise_multiplier(self) -> float:
        """The deviation of the noise, divided by the sensitivity 2L."""
        budget = self.facts.budget
        return bst14_noise(self.facts.n_records, 1.0, budget.epsilon, budget.delta) / 2

    @property
    def event(self) -> Event:
        """What is done to the data: every step looks at one record."""
        rate = 1 / self.facts.n_records
        return step_event("l2", self.noise_multiplier, rate, self.steps, "replace-one")

    def solve(self, X: Any, codes: FloatArray, rng: RngLike) -> Solution:
        """Projected steps in an l2 ball."""
        facts = self.facts
        if X.shape[0] != facts.n_records:
            raise InvalidArgument(
                f"n_records={facts.n_records} must be the number of rows, {X.shape[0]}, with "
                "the printed noise: a step takes one of them. Under replace-one it is no secret."
            )
        release = bst14_sgd(
            Rows(X, facts.constant),
            targets_of(codes, facts.loss, X.dtype),
            facts.loss,
            epsilon=facts.budget.epsilon,
            delta=facts.budget.delta,
            radius=facts.radius or default_radius(facts),
            row_bound=facts.full_bound,
            steps=self.steps,
            rng=rng,
        )
        W = release.value
        return Solution(W[1:].T, facts.constant * W[0], release.noise)


def _refuse_add_remove(facts: LogisticFacts) -> None:
    if facts.budget.neighbouring != "replace-one":
        raise InvalidArgument(
            f"neighbouring={facts.budget.neighbouring!r} must be 'replace-one' for "
            "the printed noise: that is what it was derived for."
        )


def default_radius(facts: LogisticFacts) -> float:
    """A radius at which scores of up to 10 can be reached by rows at their bound."""
    return 10 / facts.row_bound


def bst14_sgd(
    rows: Rows,
    targets: FloatArray,
    loss: Loss,
    *,
    epsilon: float,
    delta: float,
    radius: float,
    row_bound: float,
    steps: int | None = None,
    rng: RngLike = None,
) -> Release[FloatArray]:
    """DP-SGD as Bassily, Smith and Thakurta (2014) have it: one record and a projection per step.

    Algorithm 1 of Micali 2022 with the noise that its source has: the raw gradient of one uniform
    record plus N(0, sigma²) in every entry, sigma = L sqrt(32 log(n/delta) log(1/delta))/epsilon
    (:func:`bst14_noise`; the thesis prints its square times n², without L). The step is
    gamma_t = 2 radius/(G sqrt(t)), G² = L² + d sigma² (theorem 3: diameter over G sqrt(t)), and the
    last iterate is returned. By today's accounting this is far too much noise; the event says how
    little was spent.

    Args:
        rows: the records, n of them; every [c, x] of l2 norm ``row_bound`` at most (longer ones are
            clipped to the same Lipschitz constant).
        targets: one per record.
        loss: of one record, with a bounded residual.
        epsilon: the noise is calibrated to it as in the paper.
        delta: likewise; positive.
        radius: of the l2 ball that is optimised over.
        row_bound: see rows.
        steps: T; None takes n², as the thesis does.
        rng: None for secure noise; a seed or generator can be replayed and is not private.

    """
    n = rows.shape[0]
    steps = n * n if steps is None else _check.count("steps", steps)
    lipschitz = loss.residual_bound[2] * _check.number("row_bound", row_bound, low=0, low_open=True)
    if not lipschitz < math.inf:
        raise InvalidArgument(f"loss={loss!r} must have a bounded residual; use Huber(bound).")
    deviation = bst14_noise(n, lipschitz, epsilon, delta)
    size = math.sqrt(lipschitz**2 + rows.shape[1] * loss.n_scores * deviation**2)
    return noisy_gradient_descent(
        rows,
        targets,
        loss,
        steps=steps,
        learning_rate=2 * radius / (size * np.sqrt(np.arange(1, steps + 1))),
        clip=lipschitz,
        noise_multiplier=deviation / (2 * lipschitz),
        sampling_rate=1 / n,
        neighbouring="replace-one",
        project=onto_ball(radius),
        rng=rng,
    )


def bst14_noise(n_records: int, lipschitz: float, epsilon: float, delta: float) -> float:
    """The deviation that BST14 add to the gradient of one record, L sqrt(32 log(n/d) log(1/d))/eps.

    >>> round(bst14_noise(1000, 1.0, 1.0, 1e-6), 2)
    95.72

    """
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    delta = _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
    n_records = _check.count("n_records", n_records)
    return lipschitz * math.sqrt(32 * math.log(n_records / delta) * math.log(1 / delta)) / epsilon
