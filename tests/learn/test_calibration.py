"""Calibrated probabilities: what they cost, what one record changes, what they gain."""

import math

import numpy as np
import pytest
from scipy import sparse, special
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from dpassay.learn import PrivateLogisticRegression
from dpassay.learn.calibration import (
    _TEN,
    LEAST,
    MOST,
    Calibration,
    Calibrator,
    Spread,
    _bias_of_more,
    _bias_of_two,
    _Labelled,
    _PlattFit,
)
from dpassay.privacy import gaussian_noise_multiplier
from rates import assert_rate

RELATIONS = ["add-remove", "replace-one"]
# Of the bias and of the histogram, derived in the module: by relation and number of classes.
SENSITIVITIES = {
    ("add-remove", 2): (1.0, 1.0),
    ("replace-one", 2): (2.0, math.sqrt(2)),
    ("add-remove", 3): (math.sqrt(3), 1.0),
    ("replace-one", 3): (math.sqrt(10), math.sqrt(2)),
}


def table(n, rate=0.2, p=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    z = 6 * X[:, 0] - 4 * X[:, 1] + 2 * X[:, 2]
    z -= np.quantile(z + rng.logistic(size=n), 1 - rate)
    return X, (rng.random(n) < special.expit(z)).astype(int)


# Moderation.


@pytest.mark.golden
def test_the_mean_of_the_last_half_of_a_walk_has_two_thirds_of_its_variance():
    """The factor of posterior variances; exactly, by the covariance min(s, t) of a walk."""
    steps = 2000
    half = np.arange(steps // 2, steps) + 1.0
    assert np.minimum.outer(half, half).mean() / steps == pytest.approx(2 / 3, abs=1e-3)


def test_moderation_is_the_mean_of_the_sigmoid():
    """Against quadrature, within what MacKay's approximation is known for."""
    nodes, by = np.polynomial.hermite_e.hermegauss(80)
    for eta in (-4.0, -1.0, 0.3, 2.0):
        for variance in (0.5, 3.0, 20.0):
            mean = special.expit(eta + math.sqrt(variance) * nodes) @ by / by.sum()
            spread = Spread(np.array([variance]), np.zeros((1, 1)), np.zeros(1))
            t = spread.moderate(np.zeros((1, 1)), np.array([[eta]]))
            assert special.expit(t[0, 0]) == pytest.approx(mean, abs=0.02)


def test_the_spread_is_that_of_random_weights_and_follows_the_units():
    rng = np.random.default_rng(0)
    by, point, at = rng.uniform(0, 1, (2, 3)), rng.normal(size=3), np.array([0.5, 0.0])
    X, scores = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    spread = Spread(at, by, point)
    exact = at + ((X - point)[:, None, :] ** 2 * by).sum(axis=2)
    expected = scores / np.sqrt(1 + math.pi / 8 * exact)
    np.testing.assert_allclose(spread.moderate(X, scores), expected)
    np.testing.assert_allclose(spread.moderate(sparse.csr_matrix(X), scores), expected)
    scale, centre = np.array([2.0, 0.1, 5.0]), rng.normal(size=3)
    moved = spread.rescale(scale, centre).moderate(X * scale + centre, scores)
    np.testing.assert_allclose(moved, expected)


# What it costs.


@pytest.mark.parametrize(("relation", "n_classes"), SENSITIVITIES)
def test_sensitivities_by_brute_force(relation, n_classes):
    """No pair of weighted records exceeds them, and some pair comes near."""
    rng, k = np.random.default_rng(1), 1 if n_classes == 2 else n_classes
    size = 40_000
    scores = rng.choice([1e-3, 1.0, 30.0], (size, k)) * rng.normal(size=(size, k))
    codes = rng.integers(0, n_classes, size)
    weights = rng.choice([1.0, 1.0, 0.0, 0.4], size)
    term = _bias_of_two if k == 1 else _bias_of_more
    vectors = term(scores, codes) * weights[:, None]
    cells = np.array(
        [
            _Labelled(s[None], c[None], w[None]).count(s[:1], c[None] > 0, _TEN.edges).ravel()
            for s, c, w in zip(scores[:2000], codes, weights, strict=False)
        ]
    )
    for found, stated in zip((vectors, cells), SENSITIVITIES[relation, n_classes], strict=True):
        if relation == "replace-one":
            found = found - found[rng.permutation(len(found))]
        worst = np.linalg.norm(found, axis=1).max()
        assert 0.9 * stated < worst <= stated * (1 + 1e-12)
    plan = Calibrator(0.1, 1000, n_classes, relation)
    assert plan.sensitivities == pytest.approx(SENSITIVITIES[relation, n_classes], rel=2e-4)
    assert (np.array(plan.sensitivities) > SENSITIVITIES[relation, n_classes]).all()  # rounding


@pytest.mark.parametrize(("relation", "n_classes"), SENSITIVITIES)
@pytest.mark.parametrize("part", [0, 1])
def test_the_noise_that_is_drawn_is_that_of_the_event(relation, n_classes, part, monkeypatch):
    """Sums are caught before and after their noise, on the way through a whole calibration."""
    plan, seen = Calibrator(0.2, 500, n_classes, relation), {0: [], 1: []}
    draw = Calibrator._noisy

    def spy(self, sums, which, rng):
        noisy = draw(self, sums, which, rng)
        seen[which].extend(np.ravel(noisy - sums))
        return noisy

    monkeypatch.setattr(Calibrator, "_noisy", spy)
    monkeypatch.setattr(Calibrator, "_posterior_mean", lambda *_, **__: (1.0, 0.0))
    rng, k = np.random.default_rng(2), 1 if n_classes == 2 else n_classes
    scores, codes = rng.normal(size=(50, k)), rng.integers(0, n_classes, 50)
    while len(seen[part]) < 5000:
        plan.fit(scores, codes, None, rng)
    stated = plan.events[part].noise_multiplier * SENSITIVITIES[relation, n_classes][part]
    z = np.abs(seen[part]) / stated
    assert_rate(int((z <= 1).sum()), z.size, 0.682689)
    with pytest.raises(AssertionError):
        assert_rate(int((0.9 * z <= 1).sum()), z.size, 0.682689)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("solver", ["gd", "sgd"])
def test_a_calibrated_fit_spends_what_it_was_given(relation, n_classes, solver):
    X = np.random.default_rng(3).uniform(-1, 1, (200, 3))
    options = {"bounds": (-1, 1), "random_state": 0, "neighbouring": relation, "solver": solver}
    model = PrivateLogisticRegression(0.7, 1e-6, **options).fit(X, np.arange(200) % n_classes)
    assert 0.7 * (1 - 1e-4) < model.privacy_.epsilon(1e-6) <= 0.7
    calibrates = model.event_.events[-2:]
    mus = [1 / event.noise_multiplier for event in calibrates]
    first = [1 / event.noise_multiplier for event in model.event_.events[:3]]
    shares = Calibrator(1 / gaussian_noise_multiplier(0.7, 1e-6), 200, n_classes, relation).shares
    assert np.square(mus).sum() / np.square(first).sum() == pytest.approx(
        sum(shares) / 0.13, rel=0.02
    )
    linear = PrivateLogisticRegression(0.7, 1e-6, calibrated=False, **options)
    assert len(linear.fit(X, np.arange(200) % n_classes).event_.events) == 4


# What it finds.


@pytest.mark.golden
def test_without_noise_it_is_a_logistic_regression_on_the_centres_of_the_ranges():
    t, truth = _TEN.centres, (0.6, -1.3)
    sizes = np.linspace(2e5, 9e5, len(t))
    hits = sizes * special.expit(truth[0] * t + truth[1])
    counts = np.stack([sizes - hits, hits])
    bias = float((hits - sizes * special.expit(t)).sum())
    fit = _PlattFit(counts, bias, (1e-6, 1e-6), 0.0, int(sizes.sum()), int(sizes.sum()), _TEN)
    slope, offset = fit.posterior_mean()
    plain = LogisticRegression(C=np.inf, tol=1e-10)
    X, y = np.repeat(t, 2)[:, None], np.tile([0, 1], len(t))
    plain.fit(X, y, counts.T.ravel())
    assert (slope, offset) == pytest.approx((plain.coef_[0, 0], plain.intercept_[0]), abs=2e-3)
    assert (slope, offset) == pytest.approx(truth, abs=2e-3)


def test_noise_that_says_nothing_leaves_scores_as_they_are():
    rng = np.random.default_rng(4)
    slope, offsets = Calibrator(1e-4, 300, 2, "add-remove").fit(
        rng.normal(size=(300, 1)), rng.integers(0, 2, 300), None, rng
    )
    assert 0.8 < slope < 1.25
    assert abs(offsets[0]) < 0.6


def test_few_records_buy_more_of_the_base_rate_and_two_classes_only():
    shares = [Calibrator(0.03, n, 2, "add-remove").shares for n in (300, 1000, 3000, 30_000)]
    assert shares[0] == MOST
    assert shares[1] == pytest.approx((0.25, 0.2))  # (15/30)²
    assert shares[2] == shares[3] == LEAST
    assert Calibrator(0.03, 300, 3, "add-remove").shares == LEAST
    assert Calibrator(0.06, 500, 2, "replace-one").shares == MOST  # a record counts half


def test_where_next_to_nothing_is_learned_a_constant_is_not_clearly_better():
    """500 records of which 12 % have the label, labels at random, epsilon .2: n mu is 28.

    A constant that spends all of epsilon is off by n/28 records: 6 % of log loss here.
    """
    rng = np.random.default_rng(8)
    X, y = rng.uniform(-1, 1, (500, 30)), (np.arange(500) % 8 == 0).astype(int)
    truth = 1 / 8
    constant = special.entr([truth, 1 - truth]).sum()
    losses = []
    for seed in range(12):
        model = PrivateLogisticRegression(0.2, 1e-5, bounds=(-1, 1), random_state=seed).fit(X, y)
        p = model.predict_proba(X)[:, 1]
        losses.append(-np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))
    assert np.mean(losses) < constant + 0.06


def test_probabilities_are_better_than_a_constant_where_scores_were_not():
    X, y = table(8000, p=40)
    train, test = slice(3000), slice(3000, None)
    constant = log_loss(y[test], np.full(5000, y[train].mean()))
    losses, areas = np.zeros((3, 2)), np.zeros((3, 2))
    for seed, calibrated in np.ndindex(3, 2):
        model = PrivateLogisticRegression(
            0.1, 1e-5, bounds=(-1, 1), calibrated=bool(calibrated), random_state=seed
        ).fit(X[train], y[train])
        p = model.predict_proba(X[test])[:, 1]
        losses[seed, calibrated] = log_loss(y[test], p)
        areas[seed, calibrated] = roc_auc_score(y[test], p)
    assert (losses[:, 1] < constant).all()
    assert losses[:, 0].mean() > constant
    assert areas[:, 1].mean() > areas[:, 0].mean() - 0.01


def test_more_classes_are_calibrated_too():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (4000, 10))
    z = X[:, :3] * 5 + [0.0, -1.0, -3.0]
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    losses = []
    for calibrated in (False, True):
        model = PrivateLogisticRegression(
            0.2, 1e-5, bounds=(-1, 1), calibrated=calibrated, random_state=0
        ).fit(X[:2000], y[:2000])
        losses.append(log_loss(y[2000:], model.predict_proba(X[2000:])))
    assert losses[1] < 0.9 * losses[0]


def test_scores_of_a_row_do_not_depend_on_its_company():
    X, y = table(500)
    model = PrivateLogisticRegression(1.0, 1e-5, bounds=(-1, 1), random_state=0).fit(X, y)
    whole = model.decision_function(X)
    for part in (slice(1), slice(3, 170), slice(None, None, 2)):
        np.testing.assert_array_equal(model.decision_function(X[part]), whole[part])
    np.testing.assert_array_equal(model.predict(X), (model.predict_proba(X)[:, 1] > 0.5))


def test_calibration_follows_the_bounds_that_rows_were_scaled_by():
    X, y = table(2000)
    wide = PrivateLogisticRegression(1.0, 1e-5, bounds=(-1, 1), random_state=0).fit(X, y)
    moved = PrivateLogisticRegression(1.0, 1e-5, bounds=(6.0, 10.0), random_state=0)
    moved.fit(2 * X + 8, y)
    np.testing.assert_allclose(
        moved.decision_function(2 * X + 8), wide.decision_function(X), rtol=1e-6, atol=1e-8
    )
    assert isinstance(wide.calibration_, Calibration)
