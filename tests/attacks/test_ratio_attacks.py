import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, ndtr, polygamma
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from attacks.planted import Planted, outputs
from dpassay.attacks import (
    Outputs,
    Shadows,
    attack,
    lira_scores,
    log_odds,
    rmia_scores,
    train_shadows,
)
from dpassay.attacks.ratio_attacks import (
    Predictive,
    _inverse_trigamma,
    resolve,
    shrinkage,
    with_common_shift,
)
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


def uneven(n=40):
    """Shadows whose deviations differ between records, which makes the prior finite."""
    rng = np.random.default_rng(0)
    deviation = np.exp(rng.normal(size=n))
    seen = deviation * rng.normal(size=(12, n))
    inside = (np.arange(12)[:, None] < 6) * np.ones((1, n), np.int8)
    return deviation * rng.normal(size=n), seen, inside


def student_laws(seen, inside):
    """Mean, variance and degrees of freedom of each world, by the formulas of Smyth (2004)."""
    for world in (1, 0):
        values = seen[inside[:, 0] == world]
        squares = 5 * values.var(axis=0, ddof=1)
        prior, center = shrinkage(squares, np.full(squares.size, 5))
        assert 0.5 < prior < 20
        yield values.mean(axis=0), (squares + prior * center) / (5 + prior), 5 + prior


def test_shrunk_variance_is_a_student_law():
    phi, seen, inside = uneven()
    found = lira_scores(outputs(phi), Shadows(outputs(seen), inside))
    laws = [
        Predictive(m, s2, s2 / 6, np.full(m.size, nu)) for m, s2, nu in student_laws(seen, inside)
    ]
    expected = np.zeros(40)
    for law, sign in zip(with_common_shift(*laws), (1, -1), strict=True):
        scale = np.sqrt(law.variance + law.error)
        expected += sign * stats.t(law.freedom, law.mean, scale).logpdf(phi)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def posterior(m1, m0, e1, e0, usual, t):
    """Means and variances of the true means, by linear algebra on the joint Gaussian.

    The unknowns are (m0, d), flat in m0 and d ~ N(usual, t); seen are m0 + d and m0.
    """
    design = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    precision = np.diag(1 / np.array([e1, e0, t]))
    covariance = np.linalg.inv(design.T @ precision @ design)
    mean = covariance @ design.T @ precision @ [m1, m0, usual]
    both = np.array([[1.0, 1.0], [1.0, 0.0]])
    return both @ mean, np.diag(both @ covariance @ both.T)


def test_the_common_shift_is_a_posterior_mean():
    rng = np.random.default_rng(1)
    n = 3000
    center, e = rng.normal(scale=3.0, size=n), rng.uniform(0.2, 2.0, (2, n))
    d = 1.0 + 0.5 * center + rng.normal(scale=0.7, size=n)
    m0 = center - 0.5 * d
    means = np.stack([m0 + d, m0]) + np.sqrt(e) * rng.normal(size=(2, n))
    laws = [Predictive(m, np.ones(n), v, np.full(n, np.inf)) for m, v in zip(means, e, strict=True)]
    found = with_common_shift(*laws)
    c = (e[1] * means[0] + e[0] * means[1]) / e.sum(axis=0)
    w = 1 / (e.sum(axis=0) + e.sum(axis=0).mean())
    slope, intercept = np.polyfit(c, means[0] - means[1], 1, w=np.sqrt(w))
    usual = intercept + slope * c
    t = np.average((means[0] - means[1] - usual) ** 2 - e.sum(axis=0), weights=w)
    assert t == pytest.approx(0.49, rel=0.5)
    for i in range(20):
        mean, error = posterior(*means[:, i], *e[:, i], usual[i], t)
        np.testing.assert_allclose([law.mean[i] for law in found], mean, rtol=1e-9)
        np.testing.assert_allclose([law.error[i] for law in found], error, rtol=1e-9)
    moved = np.mean((found[0].mean - found[1].mean - d) ** 2)
    assert moved < np.mean((means[0] - means[1] - d) ** 2) / 2  # it is nearer to the truth


def test_few_shadows_are_enough_to_see_a_small_shift():
    """Two shadows with and two without: a shift known to all records is like one that is given.

    The log odds less the mean of four shadows: a difference of normals. Means of two each, on
    their own, have the wrong sign for a third of the records.
    """
    case = Planted(n=4000, n_shadows=4, spread=3.0, shift=0.5, seed=11)
    given = {"method": "lira", "shadows": case.shadows(), "confidence": 1 - 1e-9}
    shrunk, alone = (
        attack(None, *case.sides(), variance=variance, **given).auc
        for variance in ("shrunk", "pooled")
    )
    theory = ndtr(0.5 / np.sqrt(2 * (1 + 1 / 4)))
    assert shrunk.lower < theory < shrunk.upper
    assert alone.upper < theory  # what the mutant that takes each mean for itself would reach


def test_what_trees_cannot_resolve_is_next_to_what_they_can():
    p = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    phi = log_odds(Outputs(probabilities=p, labels=[0, 0, 0]))
    seen = log_odds(Outputs(probabilities=[[[0.95, 0.05], [0.5, 0.5], [1.0, 0.0]]], labels=[0] * 3))
    found, others = resolve(phi, seen)
    most = np.log(19) + np.log(2)
    np.testing.assert_allclose(found, [most, np.log(9), -most])
    np.testing.assert_allclose(others, [[np.log(19), 0, most]], atol=1e-12)
    votes = resolve(phi[[0, 2]], phi[None, [2, 0]])
    np.testing.assert_allclose(votes[0], [np.log(2), -np.log(2)])
    far = np.array([90.0, -100.0])  # small, but said
    assert resolve(far, far[None])[0] is far


def trees(X, y, rng):
    return DecisionTreeClassifier(min_samples_leaf=3, random_state=int(rng.integers(99))).fit(X, y)


def forest(X, y, rng):
    return RandomForestClassifier(10, random_state=int(rng.integers(99))).fit(X, y)


@pytest.mark.parametrize(("train", "gain"), [(trees, 0.02), (forest, 0.05)])
def test_lira_is_stronger_than_the_loss_for_trees(train, gain):
    """Zeros taken for 1e-45 gave 0.704 and 0.733, the loss gives 0.698 and 0.809 (AUC)."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(800, 6))
    y = np.digitize(X[:, 0] + 0.8 * rng.normal(size=800), [-0.6, 0.6])
    shadows = train_shadows(train, (X, y), n_shadows=8)
    target = train(X[:400], y[:400], rng)
    sides = (X[:400], y[:400]), (X[400:], y[400:])
    loss, lira = (
        attack(target, *sides, method=method, shadows=shadows).auc.value
        for method in ("loss", "lira")
    )
    assert lira > loss + gain


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


def test_rounding_is_no_variance():
    """Sums of equal numbers are not always equal: the difference must not set the prior."""
    rng = np.random.default_rng(3)
    seen = np.where(rng.random(60) < 0.5, 0.1, 3.0 * rng.normal(size=(6, 60)))
    inside = np.arange(6)[:, None] % 2 * np.ones((1, 60), np.int8)
    exact = lira_scores(outputs(seen[0]), Shadows(outputs(seen), inside))
    jittered = seen * (1 + 1e-15 * rng.normal(size=seen.shape))
    again = lira_scores(outputs(seen[0]), Shadows(outputs(jittered), inside))
    np.testing.assert_allclose(again, exact, atol=1e-6)


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
