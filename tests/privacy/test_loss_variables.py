import numpy as np
import pytest
from scipy import integrate, stats

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.privacy.events import Gaussian, Laplace, Pure, dp_sgd_event
from dpassay.privacy.loss_variables import DiscreteLoss, GaussianLoss, LaplaceLoss

EPSILONS = np.linspace(0, 2, 9)


@pytest.mark.golden
def test_the_tail_is_not_delta():
    # mu = 1, epsilon = 1: P(L >= epsilon) = .308538, exact delta = .126937.
    loss = GaussianLoss(1.0)
    assert loss.delta_tail_bound(1.0) == pytest.approx(0.308538, abs=5e-7)
    assert loss.delta(1.0) == pytest.approx(0.126937, abs=5e-7)


LAWS = [
    (GaussianLoss(0.8), stats.norm(0.8), stats.norm(0)),
    (LaplaceLoss(1.2), stats.laplace(1, 1 / 1.2), stats.laplace(0, 1 / 1.2)),
]


@pytest.mark.parametrize(("loss", "p", "q"), LAWS)
def test_law_against_the_pair_itself(loss, p, q):
    t = p.ppf((np.arange(200_000) + 0.5) / 200_000)  # equally likely outputs
    seen = np.sort(p.logpdf(t) - q.logpdf(t))
    assert loss.mean() == pytest.approx(seen.mean(), abs=2e-4)
    for x in (-0.9, -0.2, 0.3, 1.0):
        assert loss.cdf(x) == pytest.approx(np.searchsorted(seen, x, "right") / seen.size, abs=2e-5)
    for x in EPSILONS:
        exact = np.maximum(-np.expm1(x - seen), 0).mean()
        assert loss.delta(x) == pytest.approx(exact, abs=2e-5)
        tail = 1 - np.searchsorted(seen, x - 1e-9) / seen.size
        assert loss.delta_tail_bound(x) == pytest.approx(tail, abs=2e-5)
        assert loss.delta(x) <= loss.delta_tail_bound(x) + 1e-15


@pytest.mark.parametrize(("loss", "p", "q"), LAWS)
def test_density_is_the_slope_of_the_cdf(loss, p, q):
    low, high = -1.0, 1.0
    mass = integrate.quad(loss.density, low, high)[0]
    assert mass == pytest.approx(float(loss.cdf(high) - loss.cdf(low)), abs=1e-9)


def test_kl_of_laplace_is_quadratic():
    assert LaplaceLoss(0.1).mean() == pytest.approx(0.00483742, abs=5e-9)  # not O(epsilon)


@pytest.mark.parametrize(
    ("event", "loss"),
    [(Gaussian(1 / 0.8), GaussianLoss(0.8)), (Laplace(1 / 1.2), LaplaceLoss(1.2))],
)
def test_discretised_loss(event, loss):
    here = DiscreteLoss(da.account(event, "pld"))
    assert here.mean() == pytest.approx(loss.mean(), abs=1e-4)
    x = np.array([-0.8, -0.3, 0.0, 0.4, 1.0])
    np.testing.assert_allclose(here.cdf(x), loss.cdf(x), atol=2e-4)
    np.testing.assert_allclose(here.density(x + 5e-5), loss.density(x), rtol=2e-3)
    np.testing.assert_allclose(here.delta(EPSILONS), loss.delta(EPSILONS), atol=1e-6)
    np.testing.assert_allclose(
        here.delta_tail_bound(EPSILONS), loss.delta_tail_bound(EPSILONS), atol=2e-4
    )


def test_directions_of_a_sampled_event():
    curve = da.account(dp_sgd_event(1.0, 0.1, 5), "pld")
    remove, add = DiscreteLoss(curve, 0), DiscreteLoss(curve, 1)
    assert remove.delta(0.5) > add.delta(0.5)
    assert max(remove.delta(0.5), add.delta(0.5)) == curve.delta(0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: GaussianLoss(0.0),
        lambda: GaussianLoss(float("nan")),
        lambda: LaplaceLoss(-1.0),
        lambda: GaussianLoss(1.0).delta(-0.1),
        lambda: LaplaceLoss(1.0).cdf(float("nan")),
        lambda: DiscreteLoss(da.GDP(1.0)),
        lambda: DiscreteLoss(da.account(Pure(1.0), "pld"), 1),
    ],
)
def test_bad_values(call):
    with pytest.raises(InvalidArgument):
        call()
