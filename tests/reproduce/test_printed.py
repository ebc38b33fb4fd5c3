"""What documents print and the library does otherwise: as printed, and how far off it is."""

import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dpassay as da
from dpassay.bounds.onerun.pvalues import Steinke, largest_epsilon, pure_epsilon
from dpassay.errors import InvalidArgument
from dpassay.learn import Ledger, PrivateLasso
from dpassay.learn.base import Budget
from dpassay.learn.ridge_plans import RidgeFacts
from dpassay.optim import frank_wolfe as fw
from dpassay.optim.losses import Logistic, Rows
from dpassay.optim.polytopes import L1Ball
from dpassay.privacy import account
from dpassay_reproduce.printed import frank_wolfe as printed_fw
from dpassay_reproduce.printed.frank_wolfe import PrintedLasso, noise_scale
from dpassay_reproduce.printed.one_run import ASSUMED, naive_one_run
from dpassay_reproduce.printed.ridge import PrintedPerturbation, PrintedRidge
from dpassay_reproduce.printed.sgd import PrintedLogisticRegression, bst14_noise, bst14_sgd
from rates import assert_rate, assert_rate_at_most

# The largest one-run bound.


def draw(canaries, mu, rng):
    members = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + mu * members, members


def test_naive_maximum_is_caught():
    """The exact probability that it claims too much is .3165 at epsilon = 0."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(250):
        scores, members = draw(1000, 0.0, rng)
        wrong += naive_one_run(scores, members, delta=0.0, rng=rng).epsilon > 0
    assert_rate(wrong, 250, 0.3165)
    with pytest.raises(AssertionError):
        assert_rate_at_most(wrong, 250, 0.05)


def test_naive_maximum_is_the_largest_of_the_pure_bounds():
    scores, members = draw(300, 1.0, np.random.default_rng(2))
    order = np.argsort(-scores)
    k = np.arange(1, 51)
    right = np.cumsum(members[order])[k - 1] + np.cumsum(~members[order[::-1]])[k - 1]
    best = pure_epsilon(2 * k, right, 0.05)
    bound = naive_one_run(scores, members, delta=0, max_guesses=100)
    assert bound.epsilon == pytest.approx(best.max(), abs=1e-8)
    assert bound.threshold == (k[best.argmax()], k[best.argmax()])
    assert bound.assumption == ASSUMED
    assert not bound.valid
    assert str(bound).startswith("NOT A BOUND")
    assert bound.details["correct"] == right[best.argmax()]
    assert naive_one_run(scores, members, delta=0).details["looks"] == 150


def test_naive_maximum_with_a_delta_is_that_of_the_published_p_values():
    scores, members = draw(300, 1.5, np.random.default_rng(3))
    bound = naive_one_run(scores, members, delta=1e-4, max_guesses=40)
    order = np.argsort(-scores)
    k = np.arange(1, 21)
    right = np.cumsum(members[order])[k - 1] + np.cumsum(~members[order[::-1]])[k - 1]
    pairs = zip(2 * k, right, strict=True)
    each = [largest_epsilon(Steinke(300, 1e-4), n, v, 0.05)[0] for n, v in pairs]
    assert bound.epsilon == pytest.approx(max(each), abs=1e-8)
    assert bound.epsilon <= bound.ceiling


def test_naive_stops_at_500_of_each_kind():
    scores, members = draw(1500, 1.0, np.random.default_rng(2))
    assert naive_one_run(scores, members, delta=0).details["looks"] == 500
    assert naive_one_run(scores, members, delta=0, max_guesses=64).details["looks"] == 32


# Ridge regression by output perturbation.


def regression(n, p=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    X *= np.minimum(1, 2 / np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.clip(X @ np.arange(1.0, p + 1) / p, -3, 3)


def test_the_printed_ridge_is_an_estimate_and_keeps_out_of_ledgers(tmp_path):
    X, y = regression(100)
    model = PrintedRidge(data_norm=2, target_bound=3, alpha=5.0, random_state=0)
    curve = model.fit(X, y).privacy_
    assert curve.kind == "estimate"
    assert "all residuals of all data sets within the bound" in curve.assumptions
    assert curve.epsilon(1e-5) == pytest.approx(1.0)
    assert da.account(model.event_).epsilon(1e-5) == math.inf, "what is priced is what is proved"
    with pytest.raises(InvalidArgument, match="no guarantee"):
        model.set_params(ledger=Ledger(tmp_path / "spent.db")).fit(X, y)
    with pytest.raises(InvalidArgument, match="estimate"):
        da.calibrate(da.privacy.Gaussian, curve)


def test_the_printed_ridge_is_the_ridge_plus_noise():
    X, y = regression(100)
    means = np.mean(
        [
            PrintedRidge(
                50.0, data_norm=2, target_bound=3, alpha=50.0,
                fit_intercept=False, random_state=i,
            ).fit(X, y).coef_
            for i in range(200)
        ],
        axis=0,
    )  # fmt: skip
    expected = Ridge(alpha=50.0, fit_intercept=False).fit(X, y).coef_
    plan = PrintedPerturbation(
        RidgeFacts(100, 4, 2.0, 3.0, Budget(50.0, 1e-5, "add-remove"), False, alpha=50.0)
    )
    np.testing.assert_allclose(
        means, expected, atol=6 * plan.sensitivity / plan.facts.mu / math.sqrt(200)
    )


# Frank-Wolfe with Laplace noise.

SETTING = {"n_records": 1000, "lipschitz": 1.0, "radius": 1.0, "epsilon": 1.0, "delta": 1e-6}
BUDGET = {"n_records": 1000, "lipschitz": 1.0, "smoothness": 1.0, "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.golden
@pytest.mark.parametrize(("form", "value"), [(16, 0.841043), (8, 0.420522)])
def test_printed_scale(form, value):
    assert noise_scale(steps=100, **SETTING, form=form) == pytest.approx(value, rel=2e-6)


@pytest.mark.golden
def test_printed_scale_with_its_own_delta_grows_with_epsilon():
    """delta = exp(-epsilon³ N), T = epsilon N: 16 √2 L0 C1 epsilon, whatever N."""
    for epsilon in (0.2, 0.3):
        facts = SETTING | {"epsilon": epsilon, "delta": math.exp(-(epsilon**3) * 1000)}
        steps = round(epsilon * 1000)
        scale = noise_scale(steps=steps, **facts)
        assert scale == pytest.approx(16 * math.sqrt(2) * epsilon, rel=1e-9)


@pytest.mark.golden
@pytest.mark.parametrize(("form", "ratio", "real"), [(16, 9.281, 0.1775), (8, 4.641, 0.3719)])
def test_printed_noise_against_what_it_takes(form, ratio, real):
    """Replace-one, L0 = C1 = 1, N = 1000, T = 100; ``real`` is what the printed noise spends."""
    options = {"steps": 100, "neighbouring": "replace-one"}
    tight = fw.plan(L1Ball(11, 1.0), **BUDGET, **options).selection.scale
    assert tight == pytest.approx(0.090618, rel=1e-5)
    plan = printed_fw.plan(L1Ball(11, 1.0), **BUDGET, **options, form=form)
    assert plan.selection.scale / tight == pytest.approx(ratio, rel=1e-4)
    assert account(plan.event, "optimal").epsilon(1e-6) == pytest.approx(real, abs=2e-4)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: noise_scale(steps=1, **SETTING | {"delta": 0.0}), "delta"),
        (lambda: noise_scale(steps=1, **SETTING, form=4), "form"),
        (lambda: printed_fw.plan(L1Ball(2, 1.0), **BUDGET | {"epsilon": 200.0}), "epsilon"),
        (lambda: printed_fw.plan(L1Ball(2, 1.0), **BUDGET | {"delta": 0.0}), "delta=0 must be"),
    ],
)
def test_printed_noise_refuses_what_its_theorem_does_not_cover(call, name):
    with pytest.raises(InvalidArgument, match=name):
        call()


def test_printed_lasso():
    X, y = regression(500)
    options = {"radius": 2.0, "data_norm": 2.0, "target_bound": 3.0, "random_state": 0}
    options |= {"steps": 10, "neighbouring": "replace-one"}
    tight, printed = (
        kind(1.0, 1e-6, **options).fit(X, y).selection_ for kind in (PrivateLasso, PrintedLasso)
    )
    assert printed.kind == "laplace"
    assert printed.scale / tight.scale == pytest.approx(9.281, rel=1e-3)


# Logistic regression.


def labelled(n):
    X = np.random.default_rng(0).uniform(-0.7, 0.7, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


def printed_logistic(**parameters):
    settings = {"data_norm": 1.0, "solver": "sgd", "neighbouring": "replace-one"} | parameters
    return PrintedLogisticRegression(random_state=0, **settings)


def test_printed_descent_spends_little():
    model = printed_logistic(epsilon=1.0, delta=1e-5, max_iter=50).fit(*labelled(3000))
    assert model.privacy_.epsilon(1e-5) < 0.1  # fifty of its nine million steps


def test_printed_frank_wolfe_takes_dense_steps_and_no_unit():
    X, y = labelled(100)
    model = printed_logistic(solver="frank-wolfe", max_iter=5).fit(X, y)
    assert model.event_.count == model.n_iter_ == 5
    assert model.solver_ == "frank-wolfe"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"max_iter": 10, "n_records": 10**6}, "n_records=1000000"),
        ({"epsilon": 3.0, "max_iter": 10**6}, "above epsilon"),
        ({"epsilon": 100.0}, "above epsilon"),
        ({"solver": "frank-wolfe", "delta": 0.0}, "delta=0 must be positive"),
        ({"neighbouring": "add-remove"}, "replace-one"),
        ({"solver": "gd"}, "solver='gd'"),
    ],
)
def test_printed_noise_is_refused_where_it_does_not_suffice(parameters, words):
    with pytest.raises(InvalidArgument, match=words):
        printed_logistic(**parameters).fit(*labelled(100))


@pytest.mark.golden
def test_noise_of_bst14_is_corrected():
    # Computed apart: N = 1000, T = N², eps = 1, delta = 1e-6: 95.72 L on the raw gradient.
    # Of table 3.2 (T = N): 10.5 L costs .0101 by dp-accounting (a coarser grid), .70 L costs .978.
    assert bst14_noise(1000, 1.0, 1.0, 1e-6) == pytest.approx(95.72, abs=5e-3)
    spent = [da.account(da.dp_sgd_event(s, 1e-3, 1000)).epsilon(1e-6) for s in (10.5, 0.70)]
    assert 0.009 < spent[0] <= 0.0101
    assert spent[1] == pytest.approx(0.978, abs=1e-3)


def test_bst14_states_its_event_and_stays_in_the_ball():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(30, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X[:, 0] > 0).astype(float)
    release = bst14_sgd(
        Rows(X),
        y,
        Logistic(),
        epsilon=1.0,
        delta=1e-5,
        radius=2.0,
        row_bound=math.sqrt(2),
        steps=50,
        rng=0,
    )
    step = release.event.event
    assert step.scheme == "without-replacement"
    assert step.sampling_rate == 1 / 30
    noise = bst14_noise(30, math.sqrt(2), 1.0, 1e-5)
    assert step.event.noise_multiplier == pytest.approx(noise / (2 * math.sqrt(2)))
    assert np.linalg.norm(release.value) <= 2 * (1 + 1e-9)
    assert da.account(release.event).epsilon(1e-5) < 1.0  # the paper's calibration is generous
