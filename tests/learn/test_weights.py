"""Weights of records and classes: bounded, public, inside the sensitivity."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from dpassay.errors import InvalidArgument
from dpassay.learn import PrivateLogisticRegression, PrivateRidge
from dpassay.learn.base import Budget
from dpassay.learn.ridge_plans import RidgeFacts, SufficientStatistics
from dpassay.optim.gradient import noisy_gradient_descent
from dpassay.optim.losses import Logistic, Rows, Squared

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (3000, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.1 * RNG.normal(size=3000)
LABELS = np.where(Y + 0.5 * RNG.normal(size=3000) > 0.9, "yes", "no")
WEIGHTS = RNG.uniform(0, 4, 3000)


def classifier(**options):
    return PrivateLogisticRegression(1.0, 1e-6, bounds=(-1, 1), random_state=0, **options)


def regressor(**options):
    return PrivateRidge(3.0, 1e-6, bounds=(-1, 1), target_bound=3, random_state=0, **options)


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=str)
def test_a_weighted_record_moves_the_sum_by_its_weight_times_the_clip_at_most(loss):
    """One step from zero, without noise: what one record adds is the whole sum."""
    rows = 10 * RNG.normal(size=(40, 3))
    for weight in (0.0, 0.3, 1.0):
        moves = [
            noisy_gradient_descent(
                Rows(row[None]),
                np.array([1.0]),
                loss,
                steps=1,
                learning_rate=1.0,
                clip=0.5,
                noise_multiplier=0.0,
                n_records=1,
                weights=np.array([weight]),
            ).value
            for row in rows
        ]
        longest = max(np.linalg.norm(move) for move in moves)
        assert longest == pytest.approx(0.5 * weight, rel=1e-3)
        assert longest <= 0.5 * weight


@pytest.mark.parametrize("bad", [[2.0], [-0.1], [np.nan], [1.0, 1.0]])
def test_steps_refuse_weights_above_one(bad):
    with pytest.raises(InvalidArgument, match="one number in"):
        noisy_gradient_descent(
            Rows(np.ones((1, 2))),
            np.array([1.0]),
            Logistic(),
            steps=1,
            learning_rate=1.0,
            clip=1.0,
            noise_multiplier=1.0,
            weights=np.array(bad),
        )


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_statistics_of_weighted_rows_keep_their_sensitivity(relation):
    facts = RidgeFacts(50, 3, 1.0, 2.0, Budget(1.0, 1e-6, relation))
    plan, rng = SufficientStatistics(facts), np.random.default_rng(1)
    worst = np.zeros(3)
    for _ in range(300):
        A = rng.normal(size=(6, 3))
        A /= np.maximum(1, np.linalg.norm(A, axis=1, keepdims=True))
        y, w = rng.choice([-2.0, 2.0], 6), rng.choice([0.0, 0.5, 1.0, 1.0], 6)
        here = plan.statistics(A, y, w)
        if relation == "add-remove":
            there = plan.statistics(A[1:], y[1:], w[1:])
        else:
            there = plan.statistics(A, np.append(-y[0], y[1:]), np.append(rng.choice(w), w[1:]))
        moved = [np.linalg.norm(a - b) for a, b in zip(here, there, strict=True)]
        worst = np.maximum(worst, np.array(moved) / plan.sensitivities)
    assert (worst <= 1).all()
    assert worst[2] > 0.8


def test_a_weight_of_zero_is_as_if_the_record_were_not_there():
    """With the number of records declared, and the same noise."""
    keep = np.arange(3000) % 3 > 0
    weighted = classifier(n_records=3000, weight_bound=1.0).fit(X, LABELS, keep.astype(float))
    hidden = LABELS.copy()
    hidden[~keep] = np.where(LABELS[~keep] == "yes", "no", "yes")
    other = classifier(n_records=3000, weight_bound=1.0).fit(X, hidden, keep.astype(float))
    np.testing.assert_array_equal(weighted.coef_, other.coef_)
    np.testing.assert_array_equal(weighted.calibration_.offsets, other.calibration_.offsets)


def test_weights_are_in_units_of_their_bound():
    one = classifier(weight_bound=4.0).fit(X, LABELS, WEIGHTS)
    two = classifier(weight_bound=8.0).fit(X, LABELS, 2 * WEIGHTS)
    np.testing.assert_allclose(one.coef_, two.coef_)
    over = classifier(weight_bound=4.0).fit(X, LABELS, np.where(WEIGHTS > 3.5, 99.0, WEIGHTS))
    cut = classifier(weight_bound=4.0).fit(X, LABELS, np.where(WEIGHTS > 3.5, 4.0, WEIGHTS))
    np.testing.assert_array_equal(over.coef_, cut.coef_)


def test_class_weights_move_probabilities_as_in_scikit_learn():
    """A rare class of weight 5: the mean probability is that of the weighted records."""
    weight = {"yes": 5.0}
    model = classifier(class_weight=weight).fit(X, LABELS)
    plain = LogisticRegression(class_weight=weight | {"no": 1.0}).fit(X, LABELS)
    seen, expected = (m.predict_proba(X)[:, 1].mean() for m in (model, plain))
    assert seen == pytest.approx(expected, abs=0.05)
    assert classifier().fit(X, LABELS).predict_proba(X)[:, 1].mean() < 0.7 * expected
    assert model.privacy_.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize("solver", ["gd", "adassp"])
def test_weighted_ridge_is_near_the_plain_one(solver):
    sides = np.where(X[:, 0] > 0, 4.0, 0.2)  # two lines; the weights choose one
    target = np.where(X[:, 0] > 0, X[:, 1], -X[:, 1])
    model = regressor(solver=solver, weight_bound=4.0).fit(X, target, sides)
    plain = Ridge().fit(X, target, sides)
    assert model.coef_[1] == pytest.approx(plain.coef_[1], abs=0.1)
    free = PrivateRidge(np.inf, target_bound=3, weight_bound=4.0).fit(X, target, sides)
    assert free.coef_[1] == pytest.approx(plain.coef_[1], abs=0.02)


@pytest.mark.parametrize(
    ("options", "weights", "match"),
    [
        ({"class_weight": "balanced"}, None, "one record would change those of all others"),
        ({"class_weight": [1.0, 2.0]}, None, "must map labels"),
        ({"class_weight": {"maybe": 2.0}}, None, "'maybe', which is not among the 2 labels"),
        ({"class_weight": {"yes": 0.0}}, None, r"class_weight\['yes'\]=0"),
        ({}, WEIGHTS, "weight_bound=None: the bound on sample_weight is missing"),
        ({"weight_bound": 1.0}, -WEIGHTS, "0 or more"),
        ({"weight_bound": 1.0}, WEIGHTS[:5], "one number per record"),
        ({"weight_bound": 0.0}, WEIGHTS, "weight_bound=0"),
        ({"weight_bound": 4.0, "solver": "output"}, WEIGHTS, "takes no weights"),
    ],
)
def test_what_is_wrong_with_weights_is_said(options, weights, match):
    with pytest.raises(InvalidArgument, match=match):
        classifier(**options).fit(X, LABELS, weights)
