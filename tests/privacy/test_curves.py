import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpassay as da
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import Best, Gaussian, Repeated, Sampled, accounting, events
from dpassay.privacy.tradeoff import Tradeoff

ORDERS = np.array([1.5, 2, 4, 8, 16, 64, np.inf])
CURVES = {
    "pure": da.PureDP(epsilon=1.0),
    "pure-zero": da.PureDP(epsilon=0.0),
    "approx": da.ApproxDP(epsilon=0.7, delta=1e-3),
    "gdp": da.GDP(mu=1.0),
    "zcdp": da.ZCDP(rho=0.1),
    "rdp": da.RDP(orders=ORDERS, epsilons=np.array([0.1, 0.13, 0.26, 0.5, 1.0, 3.0, 6.0])),
    "pld": da.account(Repeated(Sampled(Gaussian(1.0), 0.05), 50), "pld"),
    "best": Best((da.GDP(mu=1.0), da.ZCDP(rho=0.4))),
}
EPSILONS = np.array([0, 1e-3, 0.1, 0.5, 0.9, 1.0, 1.5, 3.0, 10.0])


@pytest.fixture(params=CURVES, name="curve")
def any_curve(request):
    return CURVES[request.param]


def test_curves_satisfy_the_protocol(curve):
    assert isinstance(curve, da.PrivacyCurve)
    assert curve.kind in ("exact", "upper bound", "estimate")
    assert curve.neighbouring == "add-remove"
    assert "add-remove" in curve.describe()


def test_delta_falls_and_is_convex_in_the_exponential(curve):
    delta = curve.delta(EPSILONS)
    assert np.all(np.diff(delta) <= 1e-12)
    assert np.all((delta >= 0) & (delta <= 1))
    if curve.kind == "exact":
        slope = np.diff(delta) / np.diff(np.exp(EPSILONS))
        assert np.all(np.diff(slope) >= -1e-9)


def test_epsilon_inverts_delta(curve):
    deltas = curve.delta(EPSILONS)
    back = curve.epsilon(deltas)
    reached = np.isfinite(back)
    assert np.all(back[reached] <= EPSILONS[reached] * (1 + 1e-9) + 1e-9)
    assert np.all(curve.delta(back[reached]) <= deltas[reached] * (1 + 1e-9) + 1e-15)


def test_tradeoff_says_the_same_as_delta(curve):
    """1 - delta - e^epsilon x supports f from below, and f gives delta back."""
    fpr = np.linspace(0, 1, 101)
    fnr = curve.tradeoff(fpr)
    for epsilon, delta in zip(EPSILONS, curve.delta(EPSILONS), strict=True):
        assert np.all(fnr >= 1 - delta - np.exp(epsilon) * fpr - 1e-6)
        assert np.all(fnr >= np.exp(-epsilon) * (1 - delta - fpr) - 1e-6)
    back, stated = Tradeoff.sample(curve.tradeoff).delta(EPSILONS), curve.delta(EPSILONS)
    assert np.all(back <= stated + 2e-5)  # the lines below f are finitely many
    if curve.kind == "exact":  # a minimum of bounds is not convex, so less than it may come back
        np.testing.assert_allclose(back, stated, atol=1e-4)


def test_scalars_in_scalars_out_arrays_in_arrays_out(curve):
    assert isinstance(curve.delta(0.5), float)
    assert isinstance(curve.epsilon(1e-3), float)
    assert isinstance(curve.tradeoff(0.1), float)
    grid = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert (
        curve.delta(grid).shape == curve.tradeoff(grid).shape == curve.epsilon(grid).shape == (2, 2)
    )
    assert curve.delta(0.3) == curve.delta(grid)[1, 0]


def test_curves_can_be_copied_and_pickled(curve):
    for twin in (copy.deepcopy(curve), pickle.loads(pickle.dumps(curve))):
        assert twin.delta(0.4) == curve.delta(0.4)


def test_curves_are_frozen():
    with pytest.raises(AttributeError):
        da.GDP(mu=1.0).mu = 2.0


@pytest.mark.golden
def test_worked_example_of_the_debugging_case():
    # Tramèr et al. 2022: claimed (0.21, 1e-5), seen FNR 0.95078.
    assert da.ApproxDP(0.21, 1e-5).tradeoff(0.95078) == pytest.approx(0.0398888507, abs=5e-11)


def test_pure_dp_limits_delta_below_epsilon():
    e = 1.3
    x = np.linspace(0, 2, 41)
    truth = np.maximum(np.exp(e) - np.exp(x), 0) / (np.exp(e) + 1)  # of randomized response
    np.testing.assert_allclose(da.PureDP(e).delta(x), truth, atol=1e-15)
    assert da.PureDP(e).epsilon(0.0) == e
    assert da.ApproxDP(e, 0.0).delta(x) == pytest.approx(da.PureDP(e).delta(x))


def test_approx_dp_is_randomized_response_that_sometimes_tells_all():
    e, d = 0.8, 0.05
    p = np.array([d, (1 - d) / (1 + np.exp(-e)), (1 - d) / (1 + np.exp(e)), 0])
    q = p[::-1]
    for x in EPSILONS:
        truth = np.maximum(p - np.exp(x) * q, 0).sum()
        assert da.ApproxDP(e, d).delta(x) == pytest.approx(truth, abs=1e-14)
    assert da.ApproxDP(e, d).epsilon(d / 2) == np.inf


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [
        (0.1, 1e-6, 0.000321048),
        (0.5, 1e-6, 0.006641524),
        (1, 1e-6, 0.024355970),
        (1, 1e-5, 0.030556595),
        (2, 1e-6, 0.088152688),
        (4, 1e-6, 0.311064955),
        (8, 1e-6, 1.052358005),
    ],
)
def test_tight_conversion_of_zcdp(epsilon, delta, rho):
    # Canonne, Kamath and Steinke 2020, evaluated on a fine grid of orders.
    assert da.ZCDP(rho).epsilon(delta) == pytest.approx(epsilon, rel=2e-6)
    assert da.ZCDP(rho).delta(epsilon) == pytest.approx(delta, rel=2e-5)


@given(st.floats(1e-4, 5), st.floats(0.01, 8))
def test_zcdp_is_the_minimum_over_all_orders(rho, epsilon):
    order = 1 + np.geomspace(1e-4, 1e5, 4000)
    log_delta = (
        (order - 1) * (order * rho - epsilon) + order * np.log1p(-1 / order) - np.log(order - 1)
    )
    best = min(np.exp(np.minimum(log_delta, 0)).min(), np.sqrt(rho / 2), np.sqrt(-np.expm1(-rho)))
    value = da.ZCDP(rho).delta(epsilon)
    assert value <= best * (1 + 1e-9) + 1e-307
    assert value >= best * 0.999


@given(st.floats(0.05, 3))
def test_zcdp_and_rdp_bound_the_gaussian_mechanism(mu):
    exact, rho = da.GDP(mu), mu**2 / 2
    orders = np.linspace(1.1, 60, 50)
    for bound in (da.ZCDP(rho), da.RDP(orders, rho * orders)):
        assert np.all(bound.delta(EPSILONS) >= exact.delta(EPSILONS) - 1e-15)
        assert np.all(
            bound.tradeoff(np.array([0.01, 0.3])) <= exact.tradeoff(np.array([0.01, 0.3]))
        )


def test_rdp_agrees_with_dp_accounting():
    from dp_accounting.rdp import compute_epsilon

    curve = CURVES["rdp"]
    finite = np.isfinite(ORDERS)
    theirs = compute_epsilon(ORDERS[finite], curve.epsilons[finite], 1e-5)[0]
    assert da.RDP(ORDERS[finite], curve.epsilons[finite]).epsilon(1e-5) == pytest.approx(theirs)


def test_best_is_the_smallest_of_its_parts():
    best, parts = CURVES["best"], CURVES["best"].curves
    for part in parts:
        assert np.all(best.delta(EPSILONS) <= part.delta(EPSILONS))
        assert np.all(best.tradeoff(np.linspace(0, 1, 9)) >= part.tradeoff(np.linspace(0, 1, 9)))


def test_infinite_epsilon_is_no_privacy():
    curve = da.PureDP(np.inf)
    assert curve.delta(100.0) == 1
    assert curve.epsilon(0.5) == np.inf
    assert curve.tradeoff(0.2) == 0


def test_large_epsilon_does_not_overflow():
    for curve in (da.PureDP(500.0), da.ApproxDP(500.0, 1e-300), da.GDP(100.0), da.ZCDP(5000.0)):
        assert np.all(np.isfinite(curve.delta(np.array([0.0, 499.0, 501.0]))))
        assert np.isfinite(curve.epsilon(1e-290))
        assert 0 <= curve.tradeoff(1e-3) <= 1


def test_plot_draws_on_the_axes_it_is_given(curve):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    assert curve.plot(ax=ax) is ax
    assert len(ax.lines) == 1
    assert ax.get_xlabel()
    plt.close(figure)


@pytest.mark.parametrize("bad", [-1e-9, np.nan, "much"])
def test_bad_arguments_of_the_methods(curve, bad):
    for method in (curve.delta, curve.epsilon, curve.tradeoff):
        with pytest.raises(InvalidArgument):
            method(bad)
    with pytest.raises(InvalidArgument, match=r"delta=1\.5"):
        curve.epsilon(1.5)


def test_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError, match="colour"):
        da.PureDP(1.0, colour="red")


@pytest.mark.parametrize(
    ("event", "floor"),
    [
        (events.NonPrivate(), 1.0),
        (events.Approx(1.0, 0.1), 0.1),
        (events.Sequence((events.Approx(1.0, 0.05), events.Gaussian(1.0))), 0.05),
        (events.Sampled(events.Approx(1.0, 1e-3), 0.01), 1e-5),
    ],
)
def test_delta_at_infinity_is_the_limit_and_not_zero(event, floor):
    """An infinite loss has its probability whatever epsilon is, also by searched inverses."""
    for method in accounting.METHODS:
        try:
            curve = accounting.account(event, method)
        except UnsupportedEvent:
            continue
        assert curve.delta(np.inf) >= floor * (1 - 1e-9), method
        assert curve.delta(np.inf) >= curve.delta(1e6) * (1 - 1e-9), method


@pytest.mark.parametrize("epsilon", [701.0, 720.0, 1000.0, 1e300])
def test_a_huge_epsilon_leaves_no_error_at_the_smallest_rates(epsilon):
    """e^epsilon times the rate is above 1 although the power overflows."""
    rate = max(np.exp(1 - epsilon), 1e-306)
    for claim in (da.PureDP(epsilon), da.ApproxDP(epsilon, 1e-5)):
        np.testing.assert_array_equal(claim.tradeoff([rate, 0.5]) < 1e-300, True)
        assert claim.tradeoff(0.0) >= 1 - 1e-4


@pytest.mark.parametrize(
    "curve",
    [da.GDP(1e300), da.ZCDP(1.0), da.ZCDP(1e-300), da.ZCDP(1e300), da.RDP([2, 64], [1, 9])],
    ids=repr,
)
def test_the_ends_of_the_floats_give_numbers_and_no_warnings(curve):
    for values in (curve.delta([0, 1, 1e300, np.inf]), curve.epsilon([0, 1e-300, 0.5, 1])):
        assert not np.isnan(values).any()
        assert np.all(values[:-1] >= values[1:])


def test_curves_are_equal_only_if_they_say_the_same():
    """What is kept by a curve, such as prepared bets, must not be taken for another one's."""
    one, other = (da.account(da.dp_sgd_event(noise, 0.01, 20), "pld") for noise in (1.0, 2.0))
    assert one != other
    assert one == one
    assert da.PureDP(1.0) == da.PureDP(1.0) != da.PureDP(2.0)
    assert da.PureDP(1.0) != da.PureDP(1.0, neighbouring="replace-one")
    orders = [2.0, 3.0]
    assert da.RDP(orders, [0.1, 0.2]) != da.RDP(orders, [0.3, 0.4])
