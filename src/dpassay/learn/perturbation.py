"""Output and objective perturbation of a regularised loss: the classic private minimisers.

Both minimise J(W) = sum_i l_i(W) + (penalty/2) ||W||², intercept included, where every l_i is
convex with ||grad l_i|| <= L and second derivatives of at most beta and rank at most k (1 for two
classes, else K). J is then penalty-strongly convex. No solver finds the minimiser; ours stops where
the gradient measures g at most, which is within g/penalty of it, and that distance is charged.

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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from dpassay.learn.logistic_plans import Setting, Solution, targets_of
from dpassay.mechanisms.additive import gaussian_multiplier
from dpassay.mechanisms.noise import Rng, source
from dpassay.optim.losses import Loss, Rows, lipschitz, smoothness
from dpassay.privacy import Approx, Event, Gaussian, Sequence
from dpassay.types import FloatArray

_STOP = 1e-6  # g over L
_NORM = 5.0  # the norm of a good W times the row bound, for the default penalties
_CLEANING = 0.01  # share of epsilon and delta that covers the solver's inexactness
_CURVATURE_SHARE = 0.25  # of epsilon, that the determinant takes
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class _Perturbation:
    setting: Setting

    steps = 1

    @property
    def lipschitz(self) -> float:
        """L."""
        return lipschitz(self.setting.loss, self.setting.full_bound)

    @property
    def stop(self) -> float:
        """The solver's gradient norm, g."""
        return _STOP * self.lipschitz

    def _minimum(self, X: Any, codes: FloatArray, linear: FloatArray, penalty: float) -> FloatArray:
        setting = self.setting
        rows = Rows(X.astype(np.float64, copy=False), setting.constant)
        targets = targets_of(codes, setting.loss, np.float64)
        return minimiser(rows, targets, setting.loss, penalty, self.stop, linear)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.setting.n_features + 1, self.setting.loss.n_scores

    def _solution(self, W: FloatArray, deviation: float, rng: Any, level: Any) -> Solution:
        W = W + deviation * rng.standard_normal(W.shape)
        return Solution(W[1:].T, self.setting.constant * W[0], level)


@dataclass(frozen=True)
class OutputPerturbation(_Perturbation):
    """The regularised minimiser plus Gaussian noise; see the module."""

    @property
    def noise_multiplier(self) -> float:
        """Of the one release."""
        return 1 / self.setting.mu

    @property
    def event(self) -> Event:
        """One Gaussian."""
        return Gaussian(self.noise_multiplier, self.setting.budget.neighbouring)

    @property
    def penalty(self) -> float:
        """Beside the sum of losses; by default where bias and noise balance.

        Shrinking costs about penalty B²/2 and noise of deviation d = L/(penalty mu) costs n beta
        d²/2 in the sum, which is least where penalty³ = 2 n beta (L/mu)²/B², B = 5/row_bound.
        """
        setting = self.setting
        if setting.penalty is not None:
            return setting.penalty
        beta = smoothness(setting.loss, setting.full_bound)
        noise = setting.budget.record_changes * self.lipschitz / setting.mu
        size = _NORM / setting.row_bound
        return (2 * setting.n_records * beta * (noise / size) ** 2) ** (1 / 3)

    @property
    def sensitivity(self) -> float:
        """The most that one record moves what the solver returns."""
        moved = self.setting.budget.record_changes * self.lipschitz + 2 * self.stop
        return moved / self.penalty * _ROUNDING

    def solve(self, X: Any, codes: FloatArray, rng: Rng) -> Solution:
        """Minimise, add noise."""
        noise = source(rng, 1, limit=0)
        W = self._minimum(X, codes, np.zeros(self._shape), self.penalty)
        deviation = self.noise_multiplier * self.sensitivity
        return self._solution(W, deviation, noise.generator, noise.level)


@dataclass(frozen=True)
class ObjectivePerturbation(_Perturbation):
    """The minimiser of a randomly tilted objective; see the module."""

    @cached_property
    def _exact(self) -> tuple[float, float]:
        """(epsilon, delta) of the exact minimiser's release."""
        budget = self.setting.budget
        return budget.epsilon * (1 - _CLEANING), budget.delta * (1 - _CLEANING)

    @cached_property
    def cleaning(self) -> float:
        """The noise multiplier that covers the solver's inexactness."""
        budget = self.setting.budget
        return gaussian_multiplier(
            epsilon=_CLEANING * budget.epsilon, delta=_CLEANING * budget.delta
        )

    @property
    def event(self) -> Event:
        """The exact minimiser, and the noise on what the solver found."""
        relation = self.setting.budget.neighbouring
        return Sequence((Approx(*self._exact, relation), Gaussian(self.cleaning, relation)))

    @cached_property
    def noise_multiplier(self) -> float:
        """Deviation s of the linear term over the change of the gradient."""
        loss, budget = self.setting.loss, self.setting.budget
        epsilon = self._exact[0] * (1 - _CURVATURE_SHARE)
        tail = self._exact[1] / budget.record_changes
        t = math.sqrt(2 * special.gammainccinv(loss.n_scores / 2, tail))
        # The positive root s/L of e' s/L - L/(2s) = t.
        return (t + math.sqrt(t * t + 2 * epsilon)) / (2 * epsilon) * _ROUNDING

    @property
    def deviation(self) -> float:
        """The deviation s of the linear term."""
        changes = self.setting.budget.record_changes
        return self.noise_multiplier * changes * self.lipschitz

    @property
    def penalty(self) -> float:
        """Beside the sum of losses: never below what the determinant needs."""
        setting = self.setting
        beta, rank = smoothness(setting.loss, setting.full_bound), setting.loss.n_scores
        least = beta / math.expm1(self._exact[0] * _CURVATURE_SHARE / rank) * _ROUNDING
        length = self.deviation * math.sqrt((setting.n_features + 1) * rank)
        wanted = setting.penalty or length * setting.row_bound / (4 * _NORM)
        return max(least, wanted)

    def solve(self, X: Any, codes: FloatArray, rng: Rng) -> Solution:
        """Tilt, minimise, cover the rest."""
        noise = source(rng, 1, limit=0)
        assert noise.generator is not None
        tilt = self.deviation * noise.generator.standard_normal(self._shape)
        if not self.setting.fit_intercept:
            tilt[0] = 0.0
        W = self._minimum(X, codes, tilt, self.penalty)
        deviation = self.cleaning * 2 * self.stop / self.penalty * _ROUNDING
        return self._solution(W, deviation, noise.generator, noise.level)


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
    cannot see in values it sees in gradients). Should both end early, gradient steps of
    1/smoothness, which converge at a linear rate for certain, do the rest: the bound on the
    gradient holds whatever the data are.
    """
    from scipy.optimize import minimize

    linear = np.zeros((rows.shape[1], loss.n_scores)) if linear is None else linear
    objective = _Objective(rows, targets, loss, penalty, linear)
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 0.0, "gtol": stop / 2 / linear.size**0.5}
    start = np.zeros(linear.size)
    w = minimize(objective.both, start, jac=True, method="L-BFGS-B", options=options).x
    w = _newton(objective, w, stop)
    steepest = penalty + loss.curvature * float(np.square(rows.norms()).sum())
    gradient = objective.both(w)[1]
    while not np.linalg.norm(gradient) <= stop:
        w = w - gradient / steepest
        gradient = objective.both(w)[1]
    return w.reshape(linear.shape)


@dataclass(frozen=True, eq=False)
class _Objective:
    rows: Rows
    targets: FloatArray
    loss: Loss
    penalty: float
    linear: FloatArray

    def both(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        W = w.reshape(self.linear.shape)
        scores = self.rows.scores(W)
        value = self.loss.value(scores, self.targets).sum() + (self.linear * W).sum()
        residuals = self.loss.residual(scores, self.targets)
        gradient = self.rows.adjoint(residuals) + self.linear + self.penalty * W
        return float(value + self.penalty / 2 * (W * W).sum()), gradient.ravel()


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
