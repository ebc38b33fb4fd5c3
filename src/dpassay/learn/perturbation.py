"""Output and objective perturbation of a regularised loss: the classic private minimisers.

Both minimise J(W) = sum_i l_i(W) + (penalty/2) ||W||², intercept included, where every l_i is
convex with ||grad l_i|| <= L and second derivatives of at most beta and rank at most k (1 for two
classes, else K). J is then penalty-strongly convex. No solver finds the minimiser; ours stops where
the gradient measures g at most, which is within g/penalty of it, and that distance is charged. What
the solver sees is a computed gradient, so that g is its tolerance and what rounding may hide:

* a sum of n products is off by n γ_k L (:func:`~dpassay.optim.products.sum_error` is twice that);
* a score is off by (p + 4) u R ||W||, u = 2^-53, R the bound on [c, x], which moves a residual by
  as much times the curvature; the residual itself is off by a few u for every class;
* the value at W = 0 bounds the length of the minimiser: penalty ||W||²/2 - ||b|| ||W|| <= n log K,
  so ||W|| <= 2 ||b||/penalty + sqrt(2 n log K/penalty); b, of d entries, is longer than
  s (sqrt(d) + 40) with probability e^-800.

**Output** (Chaudhuri, Monteleoni and Sarwate 2011). One record more changes the gradient by L, so
the minimiser moves by L/penalty at most, and what the solver returns by (L + 2g)/penalty. Gaussian
noise of that sensitivity: one Gaussian event, exact. Under replace-one (2L + 2g)/penalty.

**Objective** (Kifer, Smith and Thakurta 2012; approximate minima as in Iyengar et al. 2019). A
linear term <b, W> is added, b normal with deviation s. The minimiser W determines b = -grad J(W),
so its density is that of b times |det of the second derivative|. Adding a record z

* multiplies the determinant by a factor in [1, (1 + beta/penalty)^k]: all eigenvalues are at least
  the penalty, and k of them grow by beta at most. Exchanging one record for another keeps the ratio
  within that factor and its inverse.
* moves b by v = grad l_z(W) = x r(W)', which depends on W. The log ratio of the normal densities is
  at most (||v||² + 2 |<b, v>|)/(2 s²), and |<b, v>| = |r(W)'(b'x)| <= ||r|| ||b'x||, in which b'x
  is s||x|| times a standard normal vector of K entries *whatever r is*. So the log ratio exceeds e'
  with probability at most P(chi_K > e' s/L - L/(2s)) = d, and the release of the exact minimiser is
  (e' + k log(1 + beta/penalty), d)-DP. Under replace-one with 2L for L, and twice the probability,
  for two records.

Given the exact minimiser, what the solver returns differs by at most 2g/penalty between neighbours;
Gaussian noise on it composes with the above, and costs a hundredth of the budget.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpassay._rng import RngLike
from dpassay._special.quantiles import gamma_upper
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.learn.logistic_facts import LogisticFacts, targets_of
from dpassay.learn.plans import ROUNDING, SMALLEST_PENALTY, Solution
from dpassay.mechanisms import gaussian, gaussian_multiplier
from dpassay.mechanisms.noise import training_source
from dpassay.optim.losses import Loss, Rows, lipschitz, smoothness
from dpassay.optim.products import FEW, most_rows, refuse_more_rows, sum_error
from dpassay.privacy import Approx, Event, Gaussian, Sequence
from dpassay.types import FloatArray, Release

_STOP = 1e-6  # the solver's tolerance over L
_NORM = 5.0  # the norm of a good W times the row bound, for the default penalties
_CLEANING = 0.01  # share of epsilon and delta that covers the solver's inexactness
_CURVATURE_SHARE = 0.25  # of epsilon, that the determinant takes


@dataclass(frozen=True)
class _Perturbation:
    facts: LogisticFacts

    steps = 1

    @property
    def lipschitz(self) -> float:
        """The largest gradient norm of one record, L in the module."""
        return lipschitz(self.facts.loss, self.facts.full_bound)

    @property
    def stop(self) -> float:
        """The computed gradient norm at which the solver stops."""
        return _STOP * self.lipschitz

    def _inexactness(self, penalty: float, deviation: float = 0.0) -> float:
        """The most that the gradient measures there, g; see the module."""
        facts, loss = self.facts, self.facts.loss
        n, classes = most_rows(facts.n_records, FEW), facts.n_classes
        tilt = deviation * (math.sqrt(math.prod(self._shape)) + 40)
        size = 2 * tilt / penalty + math.sqrt(2 * n * math.log(classes) / penalty)
        scores = (facts.n_features + 4) * facts.full_bound * size * loss.curvature
        residuals = 2.0**-53 * (scores + 4 * (classes + 4))
        sums = sum_error(n) / 2 * self.lipschitz
        return self.stop + 2 * (sums + n * facts.full_bound * residuals)

    def _minimum(self, X: Any, codes: FloatArray, linear: FloatArray, penalty: float) -> FloatArray:
        facts = self.facts
        refuse_more_rows(X.shape[0], facts.n_records, FEW)
        rows = Rows(X.astype(np.float64, copy=False), facts.constant)
        targets = targets_of(codes, facts.loss, np.float64)
        return minimiser(rows, targets, facts.loss, penalty, self.stop, linear)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.facts.n_features + 1, self.facts.loss.n_scores

    @property
    def _least_penalty(self) -> float:
        """The least at which the solver never fails, whatever the data: failing would leak."""
        return SMALLEST_PENALTY * self.facts.n_records * self.facts.full_bound**2

    def _solution(self, W: FloatArray, level: Any) -> Solution:
        return Solution(W[1:].T, self.facts.constant * W[0], level)


@dataclass(frozen=True)
class OutputPerturbation(_Perturbation):
    """The regularised minimiser plus Gaussian noise; see the module."""

    @property
    def noise_multiplier(self) -> float:
        """The noise of the only release over its sensitivity."""
        return 1 / self.facts.mu

    @property
    def event(self) -> Event:
        """One Gaussian release."""
        return Gaussian(self.noise_multiplier, self.facts.budget.neighbouring)

    @property
    def penalty(self) -> float:
        """Beside the sum of losses; by default where bias and noise balance.

        Shrinking costs about penalty B²/2 and noise of deviation d = L/(penalty mu) costs n beta
        d²/2 in the sum, which is least where penalty³ = 2 n beta (L/mu)²/B², B = 5/row_bound.
        """
        facts = self.facts
        if facts.penalty is not None:
            return self._solvable(facts.penalty)
        beta = smoothness(facts.loss, facts.full_bound)
        noise = facts.budget.record_changes * self.lipschitz / facts.mu
        size = _NORM / facts.row_bound
        balanced = (2 * facts.n_records * beta * (noise / size) ** 2) ** (1 / 3)
        return max(balanced, self._least_penalty)

    def _solvable(self, penalty: float) -> float:
        if not penalty >= self._least_penalty:
            raise InvalidArgument(
                f"penalty={penalty:g} must be at least {self._least_penalty:.3g}, 1e-8 times n and "
                "the squared row bound: below that rounding may keep the solver from its "
                "tolerance, depending on the data. Leave it None for the rule."
            )
        return penalty

    @property
    def sensitivity(self) -> float:
        """The most that one record moves what the solver returns."""
        inexact = 2 * self._inexactness(self.penalty)
        moved = self.facts.budget.record_changes * self.lipschitz + inexact
        return moved / self.penalty * ROUNDING

    def solve(self, X: Any, codes: FloatArray, rng: RngLike) -> Solution:
        """Minimise the regularised loss and add noise to the minimiser."""
        W = self._minimum(X, codes, np.zeros(self._shape), self.penalty)
        release: Release[Any] = gaussian(
            W, sensitivity=self.sensitivity, mu=1 / self.noise_multiplier, rng=rng
        )
        return self._solution(release.value, release.noise)


@dataclass(frozen=True)
class ObjectivePerturbation(_Perturbation):
    """The minimiser of a randomly tilted objective; see the module."""

    @cached_property
    def _exact(self) -> tuple[float, float]:
        """(epsilon, delta) of the exact minimiser's release."""
        budget = self.facts.budget
        return budget.epsilon * (1 - _CLEANING), budget.delta * (1 - _CLEANING)

    @cached_property
    def cleaning(self) -> float:
        """The noise multiplier that covers the solver's inexactness."""
        budget = self.facts.budget
        return gaussian_multiplier(
            epsilon=_CLEANING * budget.epsilon, delta=_CLEANING * budget.delta
        )

    @property
    def event(self) -> Event:
        """The exact minimiser, and the noise on what the solver found."""
        relation = self.facts.budget.neighbouring
        return Sequence((Approx(*self._exact, relation), Gaussian(self.cleaning, relation)))

    @cached_property
    def noise_multiplier(self) -> float:
        """Deviation s of the linear term over the change of the gradient."""
        loss, budget = self.facts.loss, self.facts.budget
        epsilon = self._exact[0] * (1 - _CURVATURE_SHARE)
        tail = self._exact[1] / budget.record_changes
        t = math.sqrt(2 * float(gamma_upper(loss.n_scores / 2, tail)))
        # The positive root s/L of e' s/L - L/(2s) = t.
        return (t + math.sqrt(t * t + 2 * epsilon)) / (2 * epsilon) * ROUNDING

    @property
    def deviation(self) -> float:
        """The deviation s of the linear term."""
        changes = self.facts.budget.record_changes
        return self.noise_multiplier * changes * self.lipschitz

    @property
    def penalty(self) -> float:
        """Beside the sum of losses: never below what the determinant needs."""
        facts = self.facts
        beta, rank = smoothness(facts.loss, facts.full_bound), facts.loss.n_scores
        share = min(self._exact[0] * _CURVATURE_SHARE / rank, 700.0)  # e^709 is the end of floats
        least = beta / math.expm1(share) * ROUNDING
        length = self.deviation * math.sqrt((facts.n_features + 1) * rank)
        wanted = facts.penalty or length * facts.row_bound / (4 * _NORM)
        return max(least, wanted, self._least_penalty)

    def solve(self, X: Any, codes: FloatArray, rng: RngLike) -> Solution:
        """Tilt the objective, minimise it, and add noise that covers the solver's inexactness."""
        noise = training_source(rng)
        tilt = self.deviation * noise.generator.standard_normal(self._shape)
        if not self.facts.fit_intercept:
            tilt[0] = 0.0
        W = self._minimum(X, codes, tilt, self.penalty)
        inexact = self._inexactness(self.penalty, self.deviation)
        moved = 2 * inexact / self.penalty * ROUNDING
        # Secure noise is exact here, so that the lowest bits are those of a lattice; the tilt is
        # never seen and is a float: that is the level of the whole.
        clean: Release[Any] = gaussian(
            W, sensitivity=moved, mu=1 / self.cleaning, rng=noise.generator
        )
        return self._solution(clean.value, noise.level)


def minimiser(
    rows: Rows,
    targets: FloatArray,
    loss: Loss,
    penalty: float,
    stop: float,
    linear: FloatArray | None = None,
) -> FloatArray:
    """A point where the gradient of sum loss + <linear, W> + (penalty/2) ||W||² measures <= stop.

    By L-BFGS, then Newton steps (by conjugate gradients on differences of gradients: what L-BFGS
    cannot see in values it sees in gradients). Should both end early, accelerated gradient steps
    do the rest, as many as suffice whatever the data are.

    Raises:
        DpassayError: rounding keeps the gradient above ``stop``; nothing was released.

    """
    from scipy.optimize import minimize

    linear = np.zeros((rows.shape[1], loss.n_scores)) if linear is None else linear
    objective = _Objective(rows, targets, loss, penalty, linear)
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 0.0, "gtol": stop / 2 / linear.size**0.5}
    start = np.zeros(linear.size)
    w = minimize(objective.both, start, jac=True, method="L-BFGS-B", options=options).x
    w = _newton(objective, w, stop)
    steepest = penalty + loss.curvature * float(np.square(rows.norms()).sum())
    return descend_accelerated(objective.gradient, w, penalty, steepest, stop).reshape(linear.shape)


def descend_accelerated(
    gradient: Callable[[FloatArray], FloatArray],
    w: FloatArray,
    convexity: float,
    steepest: float,
    stop: float,
) -> FloatArray:
    """A point where the gradient of a strongly convex function measures ``stop`` at most.

    Nesterov (2018, theorem 2.2.3): with q = sqrt(convexity/steepest) the value is after k steps
    within (1 - q)^k steepest ||w - w*||² of the least, ||w - w*|| <= ||g||/convexity, and the
    squared gradient is at most 2 steepest times that. So k = (2/q) log(sqrt(2) ||g||/(q² stop))
    steps suffice.

    Raises:
        DpassayError: they did not, because of rounding; nothing was released.

    """
    size = float(np.linalg.norm(gradient(w)))
    q = math.sqrt(convexity / steepest)
    enough = math.ceil(2 / q * math.log(max(1.0, math.sqrt(2) * size / (q * q * stop)))) + 1
    ahead = w
    for _ in range(enough):
        g = gradient(w)
        if float(np.linalg.norm(g)) <= stop:
            return w
        there = ahead - gradient(ahead) / steepest
        ahead, w = there + (1 - q) / (1 + q) * (there - w), there
    raise DpassayError(
        f"the solver stopped at a gradient of norm {np.linalg.norm(gradient(w)):.2e}, above the "
        f"{stop:.2e} that its sensitivity allows for. Nothing was released; a larger penalty makes "
        "the problem easier."
    )


@dataclass(frozen=True, eq=False)
class _Objective:
    rows: Rows
    targets: FloatArray
    loss: Loss
    penalty: float
    linear: FloatArray

    def both(self, w: FloatArray) -> tuple[float, FloatArray]:
        """The perturbed objective at w, and its gradient there."""
        W = w.reshape(self.linear.shape)
        scores = self.rows.scores(W)
        value = self.loss.value(scores, self.targets).sum() + (self.linear * W).sum()
        residuals = self.loss.residual(scores, self.targets)
        gradient = self.rows.adjoint(residuals) + self.linear + self.penalty * W
        return float(value + self.penalty / 2 * (W * W).sum()), gradient.ravel()

    def gradient(self, w: FloatArray) -> FloatArray:
        """The gradient of the perturbed objective at w."""
        return self.both(w)[1]


def _newton(objective: _Objective, w: FloatArray, stop: float, most: int = 20) -> FloatArray:
    """Newton steps, as long as they shorten the gradient."""
    from scipy.sparse.linalg import LinearOperator, cg

    gradient = objective.both(w)[1]
    for _ in range(most):
        size = float(np.linalg.norm(gradient))
        if size <= stop:
            break

        def product(
            v: FloatArray, w: FloatArray = w, gradient: FloatArray = gradient
        ) -> FloatArray:
            h = 1e-6 / max(float(np.linalg.norm(v)), 1e-300)
            return (objective.both(w + h * v.ravel())[1] - gradient) / h

        operator = LinearOperator((w.size, w.size), matvec=product, dtype=np.float64)  # type: ignore[call-arg]
        there = w - cg(operator, gradient, rtol=1e-3, maxiter=200)[0]
        closer = objective.both(there)[1]
        if not np.linalg.norm(closer) < size:
            break
        w, gradient = there, closer
    return w
