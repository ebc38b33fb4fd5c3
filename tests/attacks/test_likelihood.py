import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, polygamma

from attacks.planted import Planted, outputs
from dpassay.attacks import Outputs, Shadows, lira_scores, rmia_scores
from dpassay.attacks.likelihood import _inverse_trigamma, shrinkage
from dpassay.errors import InvalidArgument

SMALL = Planted(n=6, n_shadows=10, spread=2.0, seed=4)


def sides(i, case=SMALL):
    seen, inside = case.shadow_phi[:, i], case.inside[:, i]
    return seen[inside == 1], seen[inside == 0]


def test_record_variance_is_two_gaussians():
    """Carlini et al. 2022, equation 4, against scipy, record by record."""
    found = lira_scores(SMALL.outputs(), SMALL.shadows(), variance="record")
    for i, phi in enumerate(SMALL.phi):
        laws = [stats.norm(x.mean(), x.std(ddof=1)) for x in sides(i)]
        assert found[i] == pytest.approx(laws[0].logpdf(phi) - laws[1].logpdf(phi), rel=1e-8)


def test_pooled_variance_is_one_for_all_records():
    found = lira_scores(SMALL.outputs(), SMALL.shadows(), variance="pooled")
    squares = [[((x - x.mean()) ** 2).sum() for x in sides(i)] for i in range(12)]
    scale = np.sqrt(np.sum(squares, axis=0) / (12 * 4))
    for i, phi in enumerate(SMALL.phi):
        laws = [stats.norm(x.mean(), s) for x, s in zip(sides(i), scale, strict=True)]
        assert found[i] == pytest.approx(laws[0].logpdf(phi) - laws[1].logpdf(phi), rel=1e-8)


def test_shrunk_variance_is_a_student_law():
    """Deviations that differ between records make the prior finite."""
    rng = np.random.default_rng(0)
    deviation = np.exp(rng.normal(size=40))
    seen = deviation * rng.normal(size=(12, 40))
    inside = (np.arange(12)[:, None] < 6) * np.ones((1, 40), np.int8)
    phi = deviation * rng.normal(size=40)
    found = lira_scores(outputs(phi), Shadows(outputs(seen), inside))
    expected = np.zeros(40)
    for world, sign in ((1, 1), (0, -1)):
        values = seen[inside[:, 0] == world]
        squares = 5 * values.var(axis=0, ddof=1)
        prior, center = shrinkage(squares, np.full(40, 5))
        assert 0.5 < prior < 20
        freedom = 5 + prior
        scale = np.sqrt((squares + prior * center) / freedom * (1 + 1 / 6))
        expected += sign * stats.t(freedom, values.mean(axis=0), scale).logpdf(phi)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("prior", [2.0, 6.0, 30.0])
def test_shrinkage_finds_the_prior(prior):
    rng = np.random.default_rng(1)
    variances = 3.0 * prior / rng.chisquare(prior, 200_000)
    found, center = shrinkage(variances * rng.chisquare(7, 200_000), np.full(200_000, 7))
    assert found == pytest.approx(prior, rel=0.1)
    assert center == pytest.approx(3.0, rel=0.03)


def test_equal_variances_are_pooled():
    rng = np.random.default_rng(2)
    found, center = shrinkage(2.0 * rng.chisquare(3, 5000), np.full(5000, 3))
    assert found > 60
    assert center == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("x", [1e-3, 0.4, 3.0, 700.0])
def test_inverse_trigamma(x):
    assert _inverse_trigamma(float(polygamma(1, x))) == pytest.approx(x, rel=1e-8)


@pytest.mark.parametrize("variance", ["record", "pooled"])
def test_offline_is_the_order_of_the_paper(variance):
    """1 - P(out > phi), equation 4 of the paper's offline attack; we keep -log of the P."""
    found = lira_scores(SMALL.outputs(), SMALL.shadows(), online=False, variance=variance)
    scale = np.sqrt(np.mean([sides(i)[1].var(ddof=1) for i in range(12)]))
    for i, phi in enumerate(SMALL.phi):
        out = sides(i)[1]
        law = stats.norm(out.mean(), out.std(ddof=1) if variance == "record" else scale)
        assert found[i] == pytest.approx(-law.logsf(phi), rel=1e-6)


def test_offline_has_no_ties_where_the_paper_has():
    shadows = Shadows(outputs(np.array([[0.0, 0.0], [1.0, 1.0]])), np.zeros((2, 2)))
    found = lira_scores(outputs(np.array([60.0, 70.0])), shadows, variance="pooled")
    assert 1000 < found[0] < found[1]


def test_shrunk_offline_against_student():
    found = lira_scores(SMALL.outputs(), SMALL.shadows(), online=False)
    squares = np.array([4 * sides(i)[1].var(ddof=1) for i in range(12)])
    prior, center = shrinkage(squares, np.full(12, 4))
    assert np.isinf(prior) or prior > 0
    for i, phi in enumerate(SMALL.phi):
        s2 = center if np.isinf(prior) else (squares[i] + prior * center) / (4 + prior)
        law = stats.t(4 + prior) if np.isfinite(prior) else stats.norm()
        z = (phi - sides(i)[1].mean()) / np.sqrt(s2 * 1.2)
        assert found[i] == pytest.approx(-law.logsf(z), rel=1e-6)


def test_shadows_that_agree_to_the_last_digit_do_no_harm():
    seen = np.ones((4, 3)) * [[1.0, 2.0, 3.0]]
    seen[:, 2] += [0.1, 0.0, 0.2, 0.3]
    inside = np.array([[1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0]])
    for variance in ("shrunk", "record", "pooled"):
        shadows = Shadows(outputs(seen), inside)
        found = lira_scores(outputs(np.array([1.0, 2.5, 3.0])), shadows, variance=variance)
        assert np.isfinite(found).all()


def test_too_few_shadows_are_named():
    shadows = Shadows(outputs(np.zeros((2, 3))), np.array([[1, 0, 1], [0, 1, 0]]))
    with pytest.raises(InvalidArgument, match="record 0 has 1 shadow"):
        lira_scores(outputs(np.zeros(3)), shadows)
    with pytest.raises(InvalidArgument, match="record 0 has 0 shadow"):
        lira_scores(SMALL.outputs(), Shadows(SMALL.shadows().outputs, np.ones((10, 12))))
    with pytest.raises(InvalidArgument, match="3 records, the target at 12"):
        lira_scores(SMALL.outputs(), shadows)
    with pytest.raises(InvalidArgument, match="3 records, the target at 12"):
        rmia_scores(SMALL.outputs(), shadows)
    with pytest.raises(InvalidArgument, match="variance='mean'"):
        lira_scores(SMALL.outputs(), SMALL.shadows(), variance="mean")


def rmia_by_loops(case, gamma, online, a=0.3):
    """Definition of Zarifzadeh, Liu and Shokri 2024, one pair of records after the other."""

    def gain(i):
        within, without = (expit(x).mean() for x in sides(i, case))
        average = (within + without) / 2 if online else ((1 + a) * without + 1 - a) / 2
        return expit(case.phi[i]) / average

    gains = [gain(i) for i in range(case.phi.size)]
    return [np.mean([x / z > gamma for z in gains]) for x in gains]


@pytest.mark.parametrize("gamma", [0.8, 1.0, 1.7])
@pytest.mark.parametrize("online", [True, False])
def test_rmia_against_loops(gamma, online):
    found = rmia_scores(SMALL.outputs(), SMALL.shadows(), gamma=gamma, online=online)
    np.testing.assert_allclose(found, rmia_by_loops(SMALL, gamma, online), atol=1e-12)


def test_rmia_against_another_population():
    case, other = SMALL, Planted(n=3, n_shadows=10, seed=9)
    population = other.outputs(), other.shadows()
    found = rmia_scores(case.outputs(), case.shadows(), population=population)
    assert set(np.round(found * 6, 9)) <= set(range(7))
    assert found.max() > found.min()


def test_rmia_works_with_one_shadow_offline():
    shadows = Shadows(Outputs(losses=[[1.0, 2.0, 0.5]]), np.zeros((1, 3)))
    found = rmia_scores(Outputs(losses=[0.1, 2.0, 2.0]), shadows)
    assert found.tolist() == [2 / 3, 1 / 3, 0]
    with pytest.raises(InvalidArgument, match="no shadow trained without it"):
        rmia_scores(Outputs(losses=[0.1, 2.0, 2.0]), shadows, online=True)
    with pytest.raises(InvalidArgument, match="gamma=0"):
        rmia_scores(Outputs(losses=[0.1, 2.0, 2.0]), shadows, gamma=0)
