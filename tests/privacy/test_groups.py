import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.privacy import Best, Gaussian, Laplace, account, calibrate, dp_sgd_event
from dpassay.privacy import replace_one_from_add_remove as grouped


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
