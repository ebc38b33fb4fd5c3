"""Empirical Bayes shrinkage of a walk of noisy gradient steps, which costs no privacy.

Every weight of a walk is what the gradients summed up to plus Gaussian noise, whose variance v is
known: it follows from the steps alone. Most weights are small beside it and some are not, and which
is which shows in the weights themselves. So they are read as u = w + sqrt(v) z with w drawn from
a mixture of normal laws of variances 0 to 1000 v, the shares of the mixture are fitted to all
weights at once (expectation-maximisation; Stephens 2017, "False discovery rates: a new deal"),
and the walk goes on from the posterior means. Where all weights are alike this is linear shrinkage
(James and Stein 1961), where few stand out it lets those through and takes the others out: a walk
may then be longer, and reach weights that must be large, without drowning in the noise of the
others. It is a function of the released noisy gradients and public numbers, so post-processing.

The posterior mean is u times a factor that depends on u²/v alone. It is fitted and tabulated on a
grid of that ratio: the cost is one pass over the weights, whatever the number of components. The
factor is taken to the power .7, which is a measured compromise: where every weight drowns in noise,
labels are still told better by many weak weights than by none.
"""

import numpy as np

from dpassay.types import FloatArray

_VARIANCES = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])  # over v
_FACTORS = _VARIANCES / (1 + _VARIANCES)  # a posterior mean over u, by component
_RATIOS = np.linspace(np.log(1e-2), np.log(1e5), 162)  # log u²/v
_STEP = float(_RATIOS[1] - _RATIOS[0])
_FEW = 0.1  # a share of a weight in every component: none is ever given up
_ROUNDS = 2
_POWER = 0.7


def _likelihoods() -> FloatArray:
    """The density of u by ratio and component, over its largest in every row."""
    logs = np.exp(_RATIOS)[:, None] * _FACTORS / 2 - np.log1p(_VARIANCES) / 2
    return np.exp(logs - logs.max(axis=1, keepdims=True))


_LIKELIHOODS = _likelihoods()


class Shrinkage:
    """The map from a walk to its posterior means; as ``project`` of gradient steps.

    It keeps the walk itself, to which the steps are added, and the variance of its noise.

    Args:
        rate: the learning rate.
        momentum: the momentum of the steps.
        deviation: of the noise in every entry of a (mean) gradient; 0 shrinks nothing.

    """

    def __init__(self, rate: float, momentum: float, deviation: float) -> None:
        self.rate, self.momentum, self.deviation = rate, momentum, deviation
        self.walk: FloatArray | None = None
        self.last: FloatArray | None = None
        self.shares = np.full(_VARIANCES.shape, 1 / len(_VARIANCES))
        self.factors: FloatArray | None = None
        self.noise = np.zeros((2, 2))  # covariance of the noise in one entry of (velocity, walk)

    def __call__(self, W: FloatArray) -> FloatArray:
        """The posterior mean of the walk, which has moved from the last one to W."""
        before = np.zeros_like(W) if self.last is None else self.last
        moved = W.astype(np.float64) - before
        self.walk = moved if self.walk is None else self.walk + moved
        self._add_noise()
        if self.variance > 0:
            factors, self.shares = shrink_factors(np.square(self.walk) / self.variance, self.shares)
            W = (self.walk * factors).astype(W.dtype)
            self.factors = factors
        self.last = W
        return W

    @property
    def variance(self) -> float:
        """The variance of the noise in one entry of the walk, v in the module."""
        return float(self.noise[1, 1])

    def posterior_variances(self) -> FloatArray | None:
        """The variance of each weight that is left of the noise; None where there is none.

        A posterior variance in the mixture is about v times the factor of the posterior mean. The
        mean of the last half of a random walk has two thirds of the variance at its end.
        """
        if self.factors is None:
            return None
        return 2 / 3 * self.variance * self.factors ** (1 / _POWER)

    def _add_noise(self) -> None:
        """One step: velocity m V + g, walk U - rate (m V + g)."""
        m, r = self.momentum, self.rate
        step, entry = np.array([[m, 0], [-r * m, 1]]), np.array([1, -r]) * self.deviation
        self.noise = step @ self.noise @ step.T + np.outer(entry, entry)


def shrink_factors(ratios: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The factors that make weights posterior means, shaped as ``ratios``, and the fitted shares.

    Args:
        ratios: u²/v of every weight.
        shares: the shares of the components that the fit starts from.

    """
    with np.errstate(divide="ignore"):
        places = np.clip((np.log(ratios) - _RATIOS[0]) / _STEP, 0, len(_RATIOS) - 1)
    counts = np.bincount(np.rint(places).astype(np.intp).ravel(), minlength=len(_RATIOS))
    for _ in range(_ROUNDS):
        shares = counts @ _posterior(shares) + _FEW
        shares = shares / shares.sum()
    table = (_posterior(shares) @ _FACTORS) ** _POWER
    return np.interp(places, np.arange(len(_RATIOS)), table), shares


def _posterior(shares: FloatArray) -> FloatArray:
    """The probability of every component, by ratio."""
    joint = _LIKELIHOODS * shares
    return joint / joint.sum(axis=1, keepdims=True)
