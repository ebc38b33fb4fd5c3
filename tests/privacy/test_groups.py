from fractions import Fraction

import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.privacy import Best, Gaussian, Laplace, account, calibrate, dp_sgd_event
from dpassay.privacy import replace_one_from_add_remove as grouped
from dpassay.privacy.groups import _rest_down


@pytest.mark.golden
def test_a_gaussian():
    curve = grouped(account(Gaussian(8.449358)))
    assert curve.neighbouring == "replace-one"
    assert curve.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


def test_other_curves_in_closed_form():
    assert grouped(da.PureDP(0.5)).epsilon(0.0) == 1.0
    assert grouped(da.ZCDP(0.1)).rho == pytest.approx(0.4)


def test_a_stated_point_becomes_the_point_of_a_group():
    curve = grouped(da.ApproxDP(0.5, 1e-5))
    assert curve.delta(1.0) == pytest.approx(1e-5 * (1 + np.exp(0.5)), rel=1e-3)
    assert curve.delta(1.0) >= 1e-5


def test_a_numeric_group_is_never_below_the_exact_one():
    # Laplace noise of scale b under replace-one, where the query moves by 2, is that of scale b/2.
    curve = grouped(account(Laplace(2.0), "pld"))
    x = np.linspace(0, 1.2, 13)
    assert np.all(curve.delta(x) >= account(Laplace(1.0)).delta(x) * (1 - 1e-9))


def test_the_group_of_dp_sgd_costs_more_than_one_change():
    one = account(dp_sgd_event(2.0, 0.1, 100), "rdp")
    assert 3 * one.epsilon(1e-5) > grouped(one).epsilon(1e-5) > 2 * one.epsilon(1e-5)


@pytest.mark.parametrize(
    ("curve", "match"),
    [
        (da.GDP(1.0, neighbouring="replace-one"), "must be 'add-remove'"),
        (account(Gaussian(1.0), "gdp-clt"), "estimate"),
    ],
)
def test_what_has_no_group_price(curve, match):
    with pytest.raises(InvalidArgument, match=match):
        grouped(curve)


# The relation is compared wherever two statements meet.


@pytest.mark.parametrize(
    ("event", "target"), [("add-remove", "replace-one"), ("replace-one", "add-remove")]
)
@pytest.mark.parametrize("method", ["best", "zcdp", "rdp"])
def test_calibrate_refuses_another_relation(event, target, method):
    with pytest.raises(InvalidArgument, match=f"'{event}' must be that of the target, '{target}'"):
        calibrate(
            lambda s: Gaussian(s, event), da.ApproxDP(1, 1e-6, neighbouring=target), method=method
        )
    with pytest.raises(InvalidArgument, match="must be that of the target"):
        calibrate(lambda s: Gaussian(s, event), da.ZCDP(0.1, neighbouring=target))


def test_calibrate_looks_at_every_event():
    def switching(noise):
        return Gaussian(noise, "add-remove" if noise < 2 else "replace-one")

    with pytest.raises(InvalidArgument, match="'replace-one' must be that of the target"):
        calibrate(switching, da.ApproxDP(1.0, 1e-6))


def test_best_refuses_curves_of_two_relations():
    with pytest.raises(InvalidArgument, match=r"curves\[1\].neighbouring='replace-one' must be"):
        Best((da.PureDP(1.0), da.GDP(1.0, neighbouring="replace-one")))


def test_the_group_price_falls_and_is_of_use_at_large_epsilons():
    """A share of x as the only split gave 0.46 at x = 800, and an infinite epsilon."""
    curve = grouped(da.ApproxDP(1.0, 1e-3))
    exact = 1e-3 * (1 + np.e)
    assert np.all(np.diff(curve.delta([0, 1, 2, 3, 50, 800, 1e5, np.inf])) <= 1e-15)
    assert exact <= curve.delta(np.inf) <= exact * (1 + 1e-12)
    assert 1.9 < curve.epsilon(exact * (1 + 1e-9)) < 2.001


def test_the_two_parts_of_a_group_do_not_exceed_the_whole():
    """At (0.2, 1e-300) a rest that is rounded up to 0.2 would hide a delta of 1e-17."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, (2000, 1))
    first = np.minimum(rng.uniform(0, 3, (2000, 3)), x)
    rest = _rest_down(x, first)
    exact = [Fraction(a[0]) - Fraction(b) for a, row in zip(x, first, strict=True) for b in row]
    pairs = list(zip(exact, rest.ravel(), strict=True))
    assert all(0 <= Fraction(r) <= e for e, r in pairs)
    assert any(float(e) > r for e, r in pairs)
