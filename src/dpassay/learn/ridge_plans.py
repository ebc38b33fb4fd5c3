"""Private ways to fit a ridge: each is a plan made of public quantities, which states its event.

All of them see rows [c, x] with ||x|| <= R and a constant c = R/4 for the intercept (0 without), so
that a row measures at most R̄ = sqrt(R² + c²), and centred targets |y| <= Y. The constant is small
because it takes its share of every gradient's norm: with c = R the intercept, one number that many
records agree on, would eat half of what the p coefficients need.

**One scale decides.** With total Gaussian privacy mu, the mean of n records of norm 1 is known up
to noise of deviation 1/u, u = n mu (u = n mu / 2 under replace-one). Every rule below is a function
of u alone; n, epsilon, delta and the declared bounds are public, nothing is read off the data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.learn.declared import multiply_rows
from dpassay.learn.huber import gram_matrix, huber_ridge, products_with
from dpassay.learn.plans import (
    ROOM,
    ROUNDING,
    SMALLEST_PENALTY,
    LearnerPlan,
    PublicFacts,
    Solution,
)
from dpassay.mechanisms import gaussian, gaussian_multiplier
from dpassay.optim.products import FEW, most_rows, refuse_more_rows, sum_error
from dpassay.privacy import Event, Gaussian, Repeated, Sequence
from dpassay.privacy.budget import Budget
from dpassay.types import FloatArray, NoiseLevel, Release

_CONSTANT = 0.25
_WEAKEST_FIRST = ("reproducible", "cryptographic", "exact")


@dataclass(frozen=True)
class RidgeFacts(PublicFacts):
    """The public facts of a ridge regression; None leaves a choice to the plan's rule."""

    n_records: int
    n_features: int
    row_bound: float
    target_bound: float
    budget: Budget
    fit_intercept: bool = True
    alpha: float | None = None
    residual_bound: float | None = None
    rho: float | None = None

    @cached_property
    def mu(self) -> float:
        """The Gaussian privacy to spend: of the budget, or of rho where it is the target.

        Gaussian noise of mu costs exactly mu²/2 of zero-concentrated privacy, at any number of
        steps, as both add.
        """
        return super().mu if self.rho is None else ROOM * math.sqrt(2 * self.rho)

    @property
    def constant(self) -> float:
        """c: the value of the feature that carries the intercept."""
        return _CONSTANT * self.row_bound if self.fit_intercept else 0.0

    @property
    def full_bound(self) -> float:
        """R̄: the bound on ||[c, x]||."""
        return math.hypot(self.row_bound, self.constant)

    @property
    def dimension(self) -> int:
        """How many weights there are."""
        return self.n_features + self.fit_intercept

    @property
    def clip(self) -> float:
        """Where residuals are clipped, as a share of Y: small, and less so as u grows.

        A residual beyond it still says its sign. Clipping at a tenth of the declared bound costs
        some bias and saves nine tenths of the noise; the more noise is bearable, the less bias is.
        """
        return 0.1 * max(1.0, (self.signal / 100) ** (1 / 3))


# Output perturbation.


def _solvable(alpha: float, scale: float) -> float:
    """The penalty; refused where the solver might fail on some data, for failing would leak."""
    if not alpha >= SMALLEST_PENALTY * scale:
        raise InvalidArgument(
            f"alpha={alpha:g} must be at least {SMALLEST_PENALTY * scale:.3g}, 1e-8 times n "
            "and the squared row bound: below that rounding may keep the solver from its "
            "tolerance, depending on the data. Leave it None for the rule."
        )
    return alpha


@dataclass(frozen=True)
class OutputPerturbation:
    """The minimiser of a Huberised ridge, plus Gaussian noise.

    F(w) = sum_i h(x_i'w - y_i) + alpha ||w||², with h(r) = r² for |r| <= M and 2M|r| - M² beyond: a
    ridge that no residual can pull by more than M. The gradient of one term measures at most 2MR̄
    and F is 2 alpha-strongly convex, so that adding or removing a record moves the minimiser by at
    most 2MR̄/(2 alpha) = MR̄/alpha, and replacing one by twice that, *whatever the residuals are*.
    (For the plain ridge the same number would need residuals of at most M on every data set, which
    clipping x and y does not give.) The solver stops where
    the gradient measures at most g; by strong convexity it is then within g/(2 alpha) of the
    minimiser, and twice that is added to the sensitivity. So is what rounding hides from the
    solver, for the gradient that it sees is a computed one: residuals are off by at most
    (d + 4)u(R̄||w|| + Y), clipping does not enlarge that, sums are off by
    :func:`~dpassay.optim.products.sum_error`, and alpha w by a few u. Where w has a small gradient
    it is next to the minimiser, at which F is at most F(0) <= nY² and the pull of the records at
    most 2nMR̄: ||w|| <= min(Y sqrt(n/alpha), nMR̄/alpha) and hardly more.

    By default M = clip · Y, and alpha = a n R̄² with a = sqrt(clip/u)/4. The noise in the prediction
    for a row of norm R̄ is M R̄²/(alpha mu), or clip/(a u) of Y, and the share by which the penalty
    shrinks what the data say grows with a: the geometric middle makes both fall with u, and the
    quarter is for data that vary by less than their declared bound.
    """

    facts: RidgeFacts

    @property
    def threshold(self) -> float:
        """Where residuals are clipped, M in the class."""
        s = self.facts
        return s.clip * s.target_bound if s.residual_bound is None else s.residual_bound

    @property
    def alpha(self) -> float:
        """The factor of ||w||² beside the sum of losses."""
        s = self.facts
        if s.alpha is not None:
            return _solvable(s.alpha, s.n_records * s.full_bound**2)
        # The geometric middle of noise, which falls with alpha, and shrinkage, which grows with it.
        balance = math.sqrt(self.threshold / (s.target_bound * s.signal))
        return 0.25 * s.n_records * balance * s.full_bound**2

    @property
    def tolerance(self) -> float:
        """g: the norm of the gradient at which the solver stops, a millionth of one record's."""
        return 1e-6 * self.threshold * self.facts.full_bound

    @property
    def _hidden(self) -> float:
        """The most that rounding hides of the gradient that the solver sees."""
        s, n = self.facts, most_rows(self.facts.n_records, FEW)
        pull = self.threshold * s.full_bound
        size = 1.01 * min(s.target_bound * math.sqrt(n / self.alpha), n * pull / self.alpha)
        residuals = (s.dimension + 4) * (s.full_bound * size + s.target_bound) * 2.0**-53
        sums = sum_error(n) / 2 * pull + n * s.full_bound * residuals
        return 2 * (sums + 4 * self.alpha * size * 2.0**-53)

    @property
    def sensitivity(self) -> float:
        """An upper bound on how far one record moves what the solver returns, in l2."""
        s = self.facts
        moved = s.budget.record_changes * self.threshold * s.full_bound
        return (moved + self.tolerance + self._hidden) / self.alpha * ROUNDING

    @property
    def event(self) -> Event:
        """One Gaussian release."""
        return Gaussian(gaussian_multiplier(mu=self.facts.mu), self.facts.budget.neighbouring)

    def minimiser(self, A: Any, y: FloatArray) -> FloatArray:
        """The weights that noise is added to."""
        return huber_ridge(A, y, self.alpha, self.threshold, self.tolerance)

    def solve(self, X: Any, y: FloatArray, rng: RngLike) -> Solution:
        """The exact minimiser plus Gaussian noise."""
        s = self.facts
        refuse_more_rows(X.shape[0], s.n_records, FEW)
        weights = self.minimiser(with_constant(X, s.constant), y)
        release = gaussian(
            weights,
            sensitivity=self.sensitivity,
            mu=s.mu,
            rng=rng,
            neighbouring=s.budget.neighbouring,
        )
        return _split(np.asarray(release.value), s, release.noise)


# Sufficient statistics.


_SHARES = (0.1, 0.45, 0.45)  # of mu², for the smallest eigenvalue, X'X and X'y


@dataclass(frozen=True)
class SufficientStatistics:
    """Noisy X'X and X'y, solved with a penalty that adapts to them: AdaSSP (Wang 2018).

    What one record [c, x] changes, with z z' for a record that it replaces:

    =========== ==================== ===========================================================
    statistic   add or remove        replace
    =========== ==================== ===========================================================
    smallest    R̄² (Weyl)            R̄², since the change lies between -zz' and xx'
    eigenvalue
    X'X         ||xx'||_F = R̄²       ||xx' - zz'||_F <= sqrt(2) R̄², since <xx', zz'> >= 0
    X'y         R̄ Y                  2 R̄ Y
    =========== ==================== ===========================================================

    X'X is released as the vector of its diagonal and sqrt(2) times its upper triangle, which has
    the Frobenius norm of the matrix: the noise is that of the Gaussian orthogonal ensemble, with
    half the variance off the diagonal, and its norm is close to w = s sqrt(2d) for noise s on the
    diagonal. The penalty is w less what the smallest eigenvalue is known to have (95 %); the paper
    has sqrt(d log(2d²/0.05)) for sqrt(2d), and the classic noise for each of three equal parts.

    To each is added what rounding may add: to the sums :func:`~dpassay.optim.products.sum_error` of
    a record's share (entry by entry, so in every norm), to the eigenvalue as much by Weyl, and
    twice 8 d u times the norm of X'X for its computation, the modest multiple of the backward error
    that LAPACK's users' guide states for symmetric matrices.
    """

    facts: RidgeFacts

    @property
    def _mus(self) -> tuple[float, ...]:
        return tuple(self.facts.mu * math.sqrt(share) for share in _SHARES)

    @property
    def sensitivities(self) -> tuple[float, float, float]:
        """The sensitivities of the three statistics, in the order of the table."""
        s = self.facts
        square, changes = s.full_bound**2 * ROUNDING, s.budget.record_changes
        n = most_rows(s.n_records, FEW)
        sums, eigenvalue = sum_error(n), 16 * s.dimension * n * 2.0**-53
        cross = (changes + sums) * s.full_bound * s.target_bound * ROUNDING
        return (1 + sums + eigenvalue) * square, (math.sqrt(changes) + sums) * square, cross

    @property
    def event(self) -> Event:
        """Three Gaussian releases."""
        relation = self.facts.budget.neighbouring
        parts = [Gaussian(gaussian_multiplier(mu=mu), relation) for mu in self._mus]
        return Sequence(tuple(parts))

    @property
    def width(self) -> float:
        """The norm that the noise in X'X is expected to have."""
        noise = self.sensitivities[1] / self._mus[1]
        return noise * math.sqrt(2 * self.facts.dimension)

    def statistics(
        self, X: Any, y: FloatArray, weights: FloatArray | None = None
    ) -> tuple[float, FloatArray, FloatArray]:
        """The smallest eigenvalue, X'X as a vector, and X'y; not private.

        Weights of at most 1 shorten rows and targets by their roots, so that both bounds hold.
        """
        refuse_more_rows(X.shape[0], self.facts.n_records, FEW)
        A = with_constant(X, self.facts.constant)
        if weights is not None:
            roots = np.sqrt(weights)
            A, y = multiply_rows(A, roots), y * roots
        gram = gram_matrix(A)
        return float(np.linalg.eigvalsh(gram)[0]), _as_vector(gram), products_with(A, y)

    def releases(
        self, X: Any, y: FloatArray, rng: RngLike, weights: FloatArray | None = None
    ) -> list[Release[Any]]:
        """The three noisy statistics; all else is made of them."""
        parts = zip(self.statistics(X, y, weights), self.sensitivities, self._mus, strict=True)
        relation = self.facts.budget.neighbouring
        return [
            gaussian(value, sensitivity=by, mu=mu, rng=rng, neighbouring=relation)
            for value, by, mu in parts
        ]

    def solve(
        self, X: Any, y: FloatArray, rng: RngLike, weights: FloatArray | None = None
    ) -> Solution:
        """The solution of the noisy normal equations."""
        s = self.facts
        releases = self.releases(X, y, rng, weights)
        smallest, gram, cross = (release.value for release in releases)
        smallest = max(0.0, smallest - 1.645 * self.sensitivities[0] / self._mus[0])
        penalty = max(0.0, self.width - smallest, s.alpha or 0.0)
        values, vectors = np.linalg.eigh(_as_matrix(gram, s.dimension))
        # The noise may have made an eigenvalue negative in spite of the penalty. Dividing by a
        # number near 0 would blow that direction up: it gets the size that noise alone has.
        values = np.maximum(values + penalty, 0.3 * self.width)
        weights = vectors @ ((vectors.T @ cross) / values)
        level = min((release.noise for release in releases), key=_WEAKEST_FIRST.index)
        return _split(weights, s, level)  # type: ignore[arg-type]


def _as_vector(gram: FloatArray) -> FloatArray:
    """Diagonal and sqrt(2) times the upper triangle: the same norm."""
    upper = np.triu_indices(len(gram), 1)
    return np.concatenate([np.diag(gram), math.sqrt(2) * gram[upper]])


def _as_matrix(vector: FloatArray, d: int) -> FloatArray:
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d, 1)] = vector[d:] / math.sqrt(2)
    return matrix + matrix.T + np.diag(vector[:d])


# Noisy gradient descent.


_MOMENTUM = 0.9
_STEPS = (100, 300)
_LONGEST = 2.0  # over R̄²; heavy-ball steps are stable up to 2 (1 + momentum) = 3.8


@dataclass(frozen=True)
class GradientDescent:
    """Full-batch descent on the squared loss; clipped gradients, noise in each, momentum.

    Let gradients be clipped to C = clip · R̄Y and T steps with effective rate e (rate over
    1 - momentum) take the *time* t = e T. In directions that the data hardly bend, noise of
    deviation sqrt(T) C/u per step adds up to t C/u, however t is divided into steps: so time is
    what matters, and T is as many as keep a step stable (rate <= 2/R̄², where R̄² bounds the
    curvature), between 100 and 300. Time plays the part of the inverse of a penalty, n/alpha. The
    rule is t C R̄/u = Y/2: the noise in the prediction for a row of the largest norm is half of what
    targets can be. The mean of the last half of the iterates is returned, which is free.
    """

    facts: RidgeFacts

    @property
    def clip(self) -> float:
        """C: the bound on the gradient of one record."""
        s = self.facts
        bound = s.clip * s.target_bound if s.residual_bound is None else s.residual_bound
        return bound * s.full_bound

    @property
    def _wanted_steps(self) -> float:
        """Time over the longest stable step."""
        s = self.facts
        time = 0.5 * s.signal * s.target_bound / (self.clip * s.full_bound)
        return time * (1 - _MOMENTUM) * s.full_bound**2 / _LONGEST

    @property
    def steps(self) -> int:
        """The number of steps."""
        return min(max(math.ceil(self._wanted_steps), _STEPS[0]), _STEPS[1])

    @property
    def learning_rate(self) -> float:
        """The rate before momentum, which multiplies it by 10; stable with the penalty too."""
        s = self.facts
        wanted = min(self._wanted_steps / self.steps, 1.0) / s.full_bound**2
        return _LONGEST * min(wanted, 1 / (s.full_bound**2 + (s.alpha or 0.0) / s.n_records))

    @property
    def longest_time(self) -> float:
        """What the largest number of steps amounts to; n over it is the least penalty."""
        return _LONGEST * _STEPS[1] / (1 - _MOMENTUM) / self.facts.full_bound**2

    @property
    def noise_multiplier(self) -> float:
        """The noise of each step over its sensitivity."""
        return gaussian_multiplier(mu=self.facts.mu / math.sqrt(self.steps))

    @property
    def event(self) -> Event:
        """One Gaussian release per step."""
        step = Gaussian(self.noise_multiplier, self.facts.budget.neighbouring)
        return Repeated(step, self.steps)

    def solve(
        self, X: Any, y: FloatArray, rng: RngLike, weights: FloatArray | None = None
    ) -> Solution:
        """The mean of the last iterates."""
        from dpassay.optim.gradient import noisy_gradient_descent
        from dpassay.optim.losses import Rows, Squared

        s = self.facts
        release = noisy_gradient_descent(
            Rows(X, s.constant),
            y,
            Squared(),
            steps=self.steps,
            learning_rate=self.learning_rate,
            clip=self.clip,
            noise_multiplier=self.noise_multiplier,
            n_records=s.n_records,
            neighbouring=s.budget.neighbouring,
            momentum=_MOMENTUM,
            average=0.5,
            penalty=(s.alpha or 0.0) / s.n_records,
            weights=weights,
            rng=rng,
        )
        weights = release.value[:, 0]
        return _split(weights if s.fit_intercept else weights[1:], s, release.noise)


PLANS: dict[str, Callable[[RidgeFacts], LearnerPlan]] = {
    "gd": GradientDescent,
    "adassp": SufficientStatistics,
    "output": OutputPerturbation,
}


def choose_solver(facts: RidgeFacts) -> str:
    """The solver that "auto" takes, from public quantities.

    Gradient descent, unless the noise that AdaSSP adds to X'X is half of the penalty that the
    longest descent amounts to: then the data are so many that a descent would be stopped before
    they are used up, and the normal equations know more.
    """
    least_penalty = facts.n_records / GradientDescent(facts).longest_time
    return "adassp" if 2 * SufficientStatistics(facts).width < least_penalty else "gd"


def _split(weights: FloatArray, facts: RidgeFacts, noise: NoiseLevel) -> Solution:
    if not facts.fit_intercept:
        return Solution(weights, 0.0, noise)
    return Solution(weights[1:], float(facts.constant * weights[0]), noise)


def with_constant(X: Any, constant: float) -> Any:
    """[c, x] for every row, dense or CSR; X itself for c = 0."""
    if constant == 0:
        return X
    column = np.full((X.shape[0], 1), constant)
    return (
        sparse.hstack([column, X], format="csr") if sparse.issparse(X) else np.hstack([column, X])
    )
