import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpassay.bounds import lower_bound, lower_bound_pooled
from dpassay.bounds.pooled import bayes_risk, mu_of_errors
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from rates import assert_rate_at_most

TRIALS = 500


@pytest.mark.parametrize("share", [0.5, 0.2, 0.93])
@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_bayes_risk_is_the_least_mean_error(mu, share):
    def risk(c):
        return share * special.ndtr(c - mu) + (1 - share) * special.ndtr(-c)

    cuts = np.linspace(-60, 60, 120_001)
    start = cuts[np.argmin(risk(cuts))]
    least = optimize.minimize_scalar(risk, bracket=(start - 0.1, start + 0.1)).fun
    assert float(bayes_risk(mu, share)) == pytest.approx(min(least, share, 1 - share), abs=1e-9)


def exact_error_rate(mu, n_in, n_out, cut, alpha=0.05):
    """The probability that the limit exceeds mu, from the two binomials."""
    fnr, fpr = special.ndtr(cut - mu), special.ndtr(-cut)
    law = np.convolve(
        stats.binom.pmf(np.arange(n_in + 1), n_in, fnr),
        stats.binom.pmf(np.arange(n_out + 1), n_out, fpr),
    )
    wrong = [mu_of_errors(k, n_in, n_out, alpha) > mu for k in range(n_in + n_out + 1)]
    return law[wrong].sum()


@pytest.mark.parametrize("mu", [0.0, 0.4, 1.0, 2.5])
@pytest.mark.parametrize("sizes", [(20, 20), (5, 60), (60, 5), (1, 1), (80, 70)])
@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.6])
def test_it_is_valid_at_every_threshold(mu, sizes, shift):
    for alpha in (0.25, 0.05, 1e-4):
        assert exact_error_rate(mu, *sizes, mu / 2 + shift, alpha) <= alpha


def test_a_level_that_is_not_kept_is_noticed():
    assert exact_error_rate(1.0, 80, 70, 0.5, alpha=0.1) > 0.05


def test_the_split_pays_for_the_threshold(monkeypatch):
    rng = np.random.default_rng(1)
    mu = 1.0
    monkeypatch.setattr("dpassay.bounds.pooled.epsilon_of_mu", lambda mu, _: mu)
    pairs = ((rng.normal(mu, 1, 60), rng.normal(0, 1, 60)) for _ in range(TRIALS))
    bounds = (lower_bound_pooled(x, y, delta=1e-5, rng=i) for i, (x, y) in enumerate(pairs))
    wrong = sum(bound.epsilon > mu for bound in bounds)
    assert_rate_at_most(wrong, TRIALS, 0.05)


def test_it_is_tighter_than_limits_on_each_rate():
    mu = float(gaussian.mu_of(4.0, 1e-5))
    y = special.ndtri((np.arange(1000) + 0.5) / 1000)
    apart = lower_bound(y + mu, y, delta=1e-5, method="gdp", threshold=mu / 2)
    pooled = lower_bound_pooled(y + mu, y, delta=1e-5, threshold=mu / 2)
    assert apart.epsilon == pytest.approx(3.195, abs=0.002)
    assert pooled.epsilon == pytest.approx(3.518, abs=0.002)
    assert pooled.assumption == "Gaussian trade-off"
    assert pooled.ceiling > 20


def test_failed_trials_are_scores():
    bound = lower_bound_pooled([-math.inf, 1.0, 1.0], [0.0, 0.0], delta=1e-5, threshold=0.5)
    assert bound.details["fn"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": "best"}, "threshold='best'"),
        ({"threshold": math.nan}, "threshold=nan"),
        ({"confidence": 0.6}, "confidence=0.6"),
        ({"delta": 0.0}, "delta=0"),
    ],
)
def test_misuse(change, message):
    with pytest.raises(InvalidArgument, match=message):
        lower_bound_pooled([1.0, 2.0], [0.0, 0.5], **({"delta": 1e-5} | change))
