"""Private ways to fit a logistic regression: each is a plan made of public quantities.

A plan states its event before any data are touched. What the rules use: n and p, the number of
classes K, the declared bound on rows, and mu, the Gaussian privacy that the budget is worth. The
*signal* u = n mu (halved under replace-one) is how many records stand against a unit of noise.

**The rule of gradient descent** (:class:`GradientDescent`). A seventh of mu² goes to three small
releases that make rows even, of typical norm 1 (:mod:`dpassay.optim.conditioning`); the rest to T
full-batch steps with gradients clipped to C:

* kappa = sqrt(p K)/u is the noise over the length of a clipped mean gradient;
* C = .02/sqrt(kappa), kept in [.2, 1]: small clipping norms make directions of gradients, which say
  which side of the boundary a record is on; the more noise is bearable, the more of the true loss
  is kept, so that probabilities become honest as n grows;
* the walk is shrunk by empirical Bayes after every step (:mod:`dpassay.learn.logistic_shrinkage`),
  which is free: noise is known, and weights that stand out of it are kept;
* the path, T · rate · C, is 40 u'/sqrt(K): the noise of T steps, a random walk, has then a
  deviation of 40/sqrt(K) in the score of a row before it is shrunk, whatever p, n, T and C are. A
  longer path is noise, a shorter one is not there yet. Here 1/u'² = 1/u² + .36/(n p): where records
  are so few that their own sampling noise is above that of privacy, a longer path would fit it;
* T = 150, up to 300 where kappa is below .002: more steps only cost time;
* steps are at most 4/(curvature · second moment · C), beyond which they oscillate; where that is
  less than the path needs, momentum up to .9 makes up for it;
* the last half of the iterates is averaged, and columns are evened less as noise grows;
* probabilities are calibrated with 6 % of mu² (:mod:`dpassay.learn.calibration`).

The constants of path, shrinkage, steps and averaging were chosen on held-out parts of the training
records of Adult, digits and MNIST, on wine, breast cancer, Location-30 and generated tables, not on
the test records that ``docs/learners.md`` reports.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.learn.calibration import Calibration, Calibrator, Spread, moderate
from dpassay.learn.logistic_facts import LogisticFacts, LogisticPlan, targets_of
from dpassay.learn.logistic_frank_wolfe import FrankWolfe
from dpassay.learn.logistic_shrinkage import Shrinkage
from dpassay.learn.logistic_whitened import WhitenedDescent, is_better
from dpassay.learn.perturbation import ObjectivePerturbation, OutputPerturbation
from dpassay.learn.plans import Solution
from dpassay.mechanisms.noise import training_source
from dpassay.optim.conditioning import Conditioned, condition_rows
from dpassay.optim.gradient import noisy_gradient_descent, step_event
from dpassay.privacy import Event, Gaussian, Sequence, calibrate
from dpassay.types import FloatArray

_SHARES = (0.1, 0.02, 0.01)  # of mu²: columns, norms, second moment
_PATH, _AVERAGE, _STEPS, _MOMENTUM, _STABLE = 40.0, 0.5, 150, 0.9, 4.0
_EVENNESS = 5.0
_SAMPLING = 0.6
_PASSES, _SMALLEST_RATE, _SMALLEST_BATCH = 8, 0.02, 512


# Gradient steps.


@dataclass(frozen=True)
class GradientDescent:
    """Full-batch noisy gradient descent on conditioned rows, by the rule of this module.

    All its releases are Gaussian, so that their composition is exact: the squares of mu add.
    """

    facts: LogisticFacts

    @property
    def steps(self) -> int:
        """The number of steps: as given, or 150, and up to 300 where there is little noise."""
        facts = self.facts
        kappa = math.sqrt(facts.n_features * facts.loss.n_scores) / facts.signal
        return facts.max_iter or round(_STEPS * min(2.0, max(1.0, math.sqrt(0.002 / kappa))))

    @property
    def sampling_rate(self) -> float:
        """The share of the records that a step looks at."""
        return 1.0

    @property
    def preparation(self) -> tuple[float, float, float]:
        """The noise multipliers of the three releases that condition the rows."""
        columns, norms, moment = (1 / (self.facts.mu * math.sqrt(share)) for share in _SHARES)
        return columns, norms, moment

    @cached_property
    def noise_multiplier(self) -> float:
        """The noise of each step over its sensitivity."""
        spent = sum(_SHARES) + (sum(self.calibrator.shares) if self.facts.calibrated else 0.0)
        return math.sqrt(self.steps / (1 - spent)) / self.facts.mu

    @property
    def calibrator(self) -> Calibrator:
        """The releases that calibrate probabilities."""
        facts = self.facts
        return Calibrator(facts.mu, facts.n_records, facts.n_classes, facts.budget.neighbouring)

    @property
    def event(self) -> Event:
        """The releases that condition the rows, the noisy steps, and those that calibrate."""
        return self._event(self.noise_multiplier)

    def _event(self, noise_multiplier: float) -> Event:
        relation = self.facts.budget.neighbouring
        first = (Gaussian(noise, relation) for noise in self.preparation)
        steps = step_event("l2", noise_multiplier, self.sampling_rate, self.steps, relation)
        last = self.calibrator.events if self.facts.calibrated else ()
        return Sequence((*first, steps, *last))

    @property
    def signal(self) -> float:
        """The scale u: records against the noise of all steps together."""
        facts = self.facts
        worth = self.sampling_rate * math.sqrt(self.steps) / self.noise_multiplier
        return facts.n_records * worth / facts.budget.record_changes

    @property
    def kappa(self) -> float:
        """The length of the noise over that of a clipped mean gradient."""
        return math.sqrt(self.facts.n_features * self.facts.loss.n_scores) / self.signal

    @property
    def clip(self) -> float:
        """The norm that gradients are clipped to, C, in units of a typical row."""
        return min(1.0, max(0.2, 0.02 / math.sqrt(self.kappa)))

    def pace(self, second_moment: float) -> tuple[float, float]:
        """The learning rate and the momentum, from public numbers and the noisy second moment."""
        n, p = self.facts.n_records, self.facts.n_features
        # Noise of privacy and of sampling add in squares: without privacy the path stays finite.
        signal = 1 / math.hypot(1 / self.signal, _SAMPLING / math.sqrt(n * p))
        path = _PATH * signal / math.sqrt(self.facts.n_classes)
        wanted = path / (self.steps * self.clip)
        stable = _STABLE / (self.facts.loss.curvature * max(second_moment, 1e-12) * self.clip)
        # Where the stable rate is too small for the wanted path, momentum makes up for it.
        momentum = min(_MOMENTUM, 1 - min(wanted, stable) / wanted)
        return min(stable, wanted * (1 - momentum)), momentum

    def solve(
        self, X: Any, codes: FloatArray, rng: RngLike, weights: FloatArray | None = None
    ) -> Solution:
        """Condition, descend, calibrate, and go back to the units of X."""
        noise = training_source(rng)
        even = self._condition(X, noise.generator)
        rate, momentum = self.pace(even.second_moment)
        shrinkage = Shrinkage(rate, momentum, self._deviation)
        release = noisy_gradient_descent(
            even.rows,
            targets_of(codes, self.facts.loss, X.dtype),
            self.facts.loss,
            steps=self.steps,
            learning_rate=rate,
            clip=self.clip,
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.sampling_rate,
            n_records=self.facts.n_records,
            neighbouring=self.facts.budget.neighbouring,
            momentum=momentum,
            average=_AVERAGE,
            project=shrinkage,
            weights=weights,
            rng=noise.generator,
        )
        coef, intercept = even.restore(release.value)
        if not self.facts.calibrated:
            return Solution(coef, intercept, noise.level)
        scores = even.rows.scores(release.value)
        first = Calibration(_spread_of(even, shrinkage))
        usual = _usual_scores(even, release.value, shrinkage) if scores.shape[1] == 1 else None
        slope, offsets = self.calibrator.fit(
            first(X, scores), codes, weights, noise.generator, usual
        )
        return Solution(coef, intercept, noise.level, replace(first, slope=slope, offsets=offsets))

    @property
    def _deviation(self) -> float:
        """The standard deviation of the noise in each entry of a step's mean gradient."""
        noise = self.clip * self.noise_multiplier * self.facts.budget.record_changes
        return noise / (self.sampling_rate * self.facts.n_records)

    def _condition(self, X: Any, rng: np.random.Generator) -> Conditioned:
        changes = self.facts.budget.record_changes
        columns, norms, moment = self.preparation
        return condition_rows(
            X,
            norm_bound=self.facts.row_bound,
            n_records=self.facts.n_records,
            noise=(changes * columns, changes * norms, changes * moment),
            evenness=_EVENNESS * self.kappa,
            intercept=self.facts.fit_intercept,
            rng=rng,
        )


def _usual_scores(even: Conditioned, W: FloatArray, shrinkage: Shrinkage) -> tuple[float, float]:
    """Mean and deviation of moderated scores, for centred rows of norm 1 and all directions."""
    middle, size = even.rows.constant * float(W[0, 0]), math.sqrt(float(np.mean(W[1:] ** 2)))
    left = shrinkage.posterior_variances()
    if left is None:
        return middle, size
    variance = even.rows.constant**2 * float(left[0, 0]) + float(left[1:].mean())
    return float(moderate(middle, variance)), float(moderate(size, variance))


def _spread_of(even: Conditioned, shrinkage: Shrinkage) -> Spread | None:
    """The variance of scores that is left of the noise, for rows of X."""
    left = shrinkage.posterior_variances()
    if left is None:
        return None
    by = (left[1:] * np.square(even.scale)[:, None]).T
    return Spread(even.rows.constant**2 * left[0], by, even.center)


@dataclass(frozen=True)
class StochasticGradient(GradientDescent):
    """The same on random batches: DP-SGD, its noise by the privacy-loss distribution.

    Poisson batches under add-remove, of a fixed size under replace-one. Batches of 2 % of the
    records (512 at least) and eight passes, unless told otherwise. It takes fewer looks at the data
    than full batches and needs more noise for the same accuracy.
    """

    @property
    def sampling_rate(self) -> float:
        """The share of the records in a batch."""
        n = self.facts.n_records
        size = self.facts.batch_size or max(_SMALLEST_BATCH, round(_SMALLEST_RATE * n))
        return min(1.0, size / n)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.facts.max_iter or max(_STEPS, round(_PASSES / self.sampling_rate))

    @cached_property
    def noise_multiplier(self) -> float:
        """The least noise of a step with which steps and preparation together meet the target."""
        return calibrate(self._event, self.facts.budget.target)


# Each makes a LogisticPlan; to type checkers a cached property is no property.
PLANS: dict[str, Callable[[LogisticFacts], Any]] = {
    "gd": GradientDescent,
    "whitened": WhitenedDescent,
    "sgd": StochasticGradient,
    "frank-wolfe": FrankWolfe,
    "output": OutputPerturbation,
    "objective": ObjectivePerturbation,
}


def choose_solver(facts: LogisticFacts) -> str:
    """What ``solver="auto"`` takes: full-batch gradient descent, whitened where noise is small.

    Without delta there is no Gaussian noise to compare: :func:`plan_for` refuses either.
    """
    return "whitened" if facts.budget.delta > 0 and is_better(facts) else "gd"


def plan_for(solver: str, facts: LogisticFacts) -> LogisticPlan:
    """The plan of a solver.

    Raises:
        InvalidArgument: delta is 0, and the noise of this solver is Gaussian.

    """
    if solver != "frank-wolfe":
        remedy = f"solver={solver!r} has Gaussian noise; only 'frank-wolfe' is purely epsilon-DP."
        _check.number("delta", facts.budget.delta, low=0, high=1, low_open=True, remedy=remedy)
    return PLANS[solver](facts)
