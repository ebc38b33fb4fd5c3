import functools
import math

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing.plan import plan
from dpassay.bounds import check_claim
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from rates import assert_rate


@functools.cache
def by_method(claim, true, **options):
    return {p.method: p for p in plan(claim, true, **options)}


@pytest.mark.golden
def test_orders_of_magnitude():
    # Simulated pairs for 80 % power: 744 and 17 400 for Clopper-Pearson with the best threshold
    # against (1, 1e-5) and (2, 1e-5) at a true epsilon of 4; 75 ideal pairs for the curve 4 v 2.
    one = by_method(da.ApproxDP(1, 1e-5), 4)
    assert 744 / 2 < one["clopper-pearson"].to_refute / 2 < 744 * 2
    two = by_method(da.ApproxDP(2, 1e-5), 4)
    assert 17_400 / 2 < two["clopper-pearson"].to_refute / 2 < 17_400 * 2
    curve = by_method(da.GDP(0.5015517), 4)
    assert curve["whole curve, sequential"].to_refute == pytest.approx(150, rel=0.1)
    assert 320 < curve["whole curve, fixed size"].to_refute / 2 < 320 * 1.3


def test_the_planned_number_has_the_stated_power():
    """Of the very test that an audit of a fixed size makes; a quarter of the trials has not.

    The planner's own draws put 80 % within 3 points (a standard deviation).
    """
    claim, true = da.GDP(0.5), 4
    planned = int(by_method(claim, true)["whole curve, fixed size"].to_refute) // 2
    mu, rng = float(gaussian.mu_of(true, 1e-5)), np.random.default_rng(4)

    def refuted(n, times):
        audits = [(mu + rng.normal(size=n), rng.normal(size=n)) for _ in range(times)]
        return sum(check_claim(claim, *sides, band="band").refuted for sides in audits)

    assert_rate(refuted(planned, 40), 40, 0.83)
    with pytest.raises(AssertionError):
        assert_rate(refuted(planned // 4, 40), 40, 0.83)


def test_the_gaussian_method_needs_thousands_of_times_fewer_to_come_close():
    rows = by_method(da.ApproxDP(1, 1e-5), 4)
    ratio = rows["clopper-pearson"].to_come_close / rows["gdp"].to_come_close
    assert ratio > 1000


def test_more_confidence_and_smaller_gaps_need_more():
    easy, sure = (by_method(da.GDP(0.5), 6, confidence=c) for c in (0.9, 0.9999))
    near = by_method(da.GDP(0.5), 2.5)
    for method, row in easy.items():
        assert row.to_refute <= sure[method].to_refute
        assert row.to_refute <= near[method].to_refute


def test_a_bound_can_reach_what_was_planned():
    for p in by_method(da.GDP(0.5), 4).values():
        assert p.to_refute == math.inf or p.ceiling > 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"true_epsilon": 0.5}, "true_epsilon"),
        ({"true_epsilon": math.nan}, "true_epsilon"),
        ({"true_epsilon": 4, "delta": 0}, "delta"),
        ({"true_epsilon": 4, "confidence": 1}, "confidence"),
        ({"true_epsilon": 4, "power": 1}, "power"),
        ({"true_epsilon": 4, "closeness": 0}, "closeness"),
    ],
)
def test_bad_values(options, name):
    with pytest.raises(InvalidArgument, match=name):
        plan(da.ApproxDP(1, 1e-5), **options)
