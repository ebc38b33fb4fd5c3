import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.privacy import Pure, Repeated, composition
from dpassay.privacy.tradeoff import Tradeoff


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "count", "bound", "exact"),
    [
        (0.1, 100, 4.2165, 3.1156),
        (0.1, 1000, 16.7498, 14.0445),
        (1, 100, 83.381, 71.448),
        (2, 100, 200, 187.199),
    ],
)
def test_advanced_and_exact_composition(epsilon, count, bound, exact):
    # delta' = 1e-3; the exact values by composing randomized response.
    value, delta = composition.advanced([epsilon], counts=[count], slack=1e-3)
    assert value == pytest.approx(bound, abs=6e-4)
    assert delta == pytest.approx(1e-3)
    assert composition.optimal(epsilon, count)(np.array([exact]))[0] == pytest.approx(
        1e-3, rel=5e-4
    )


def test_the_form_that_lost_a_factor_is_not_a_bound():
    """e √(2k log(1/d)) + k (exp(e) - 1)/(exp(e) + 1), as printed on a slide."""
    wrong = 2 * math.sqrt(200 * math.log(1000)) + 100 * math.tanh(1)
    assert wrong == pytest.approx(150.498, abs=1e-3)
    assert composition.optimal(2.0, 100)(np.array([wrong]))[0] == pytest.approx(0.558, abs=1e-3)


@given(st.floats(0.01, 2), st.integers(1, 7), st.floats(0, 4))
def test_exact_composition_by_enumeration(epsilon, count, x):
    p = 1 / (1 + math.exp(-epsilon))
    total = 0.0
    for outcome in itertools.product((1, 0), repeat=count):
        k = sum(outcome)
        a, b = p**k * (1 - p) ** (count - k), p ** (count - k) * (1 - p) ** k
        total += max(a - math.exp(x) * b, 0)
    assert composition.optimal(epsilon, count)(np.array([x]))[0] == pytest.approx(total, abs=1e-12)


@given(st.floats(0.01, 3), st.integers(1, 300), st.floats(-9, -1))
def test_advanced_is_above_the_exact_and_not_above_the_basic(epsilon, count, exponent):
    delta = 10.0**exponent
    bound, _ = composition.advanced([epsilon], counts=[count], slack=delta)
    assert bound <= count * epsilon * (1 + 1e-12)
    assert composition.optimal(epsilon, count)(np.array([bound]))[0] <= delta * (1 + 1e-9) + 1e-15


def test_listing_is_counting():
    listed = composition.advanced([0.1, 0.1, 0.2], [0, 0, 1e-6], slack=1e-5)
    counted = composition.advanced([0.1, 0.2], [0, 1e-6], slack=1e-5, counts=[2, 1])
    assert listed == pytest.approx(counted)
    assert composition.basic([0.1, 0.2], [1e-6, 1e-6]) == pytest.approx((0.3, 2e-6))


@pytest.mark.golden
@pytest.mark.parametrize(
    ("epsilon", "expected"), [(0.1, 0.00105116), (1, 0.01703686), (2, 0.06193253), (4, 0.42916959)]
)
def test_amplification(epsilon, expected):
    assert composition.amplify(epsilon, 1e-5, 0.01) == pytest.approx((expected, 1e-7), abs=5e-9)


def test_amplification_is_sharp_for_randomized_response():
    """Poisson sampling of one record, answered at random: the pair's own epsilon."""
    epsilon, q = 1.5, 0.3
    p = 1 / (1 + math.exp(-epsilon))
    with_record, without = np.array([p, 1 - p]), np.array([1 - p, p])
    mixture = q * with_record + (1 - q) * without
    assert np.max(np.log(mixture / without)) == pytest.approx(composition.amplify(epsilon, 0, q)[0])


@pytest.mark.golden
def test_central_limits():
    # Dong, Roth and Su 2022, with the corrections noted in the docstrings.
    assert composition.clt_mu(Tradeoff.sample(da.GDP(0.8).tradeoff), 50) == pytest.approx(
        math.sqrt(50) * 0.8, rel=1e-5
    )
    assert composition.clt_mu(Tradeoff.sample(da.PureDP(0.5).tradeoff), 50) == pytest.approx(
        2 * math.sqrt(50) * math.sinh(0.25), rel=2e-4
    )
    assert composition.clt_mu_uniform(1.0, 1e-3, 10**6) == pytest.approx(1.710142, abs=1e-6)
    assert composition.clt_mu_poisson(1.0, 1e-3, 10**6) == pytest.approx(1.310832, abs=1e-6)
    # Small noise shift: both reduce to q √k mu.
    assert composition.clt_mu_uniform(1e3, 0.01, 100) == pytest.approx(0.1 * 1e-3, rel=1e-3)


def test_the_uniform_limit_is_that_of_the_subsampled_tradeoff():
    f = Tradeoff.sample(da.GDP(1.0).tradeoff, points=20001).subsample(0.01)
    assert composition.clt_mu(f, 10**4) == pytest.approx(1.6725, abs=2e-3)


def test_a_tradeoff_with_a_flat_part_has_no_limit():
    with pytest.raises(InvalidArgument, match="flat"):
        composition.clt_mu(Tradeoff.sample(da.ApproxDP(0.5, 1e-2).tradeoff), 10)


BAD = [
    (lambda v: composition.basic([v]), "epsilons", [-1, np.nan]),
    (lambda v: composition.basic(v), "epsilons", [[]]),
    (lambda v: composition.basic([1.0], [v]), "deltas", [-1, 1, np.nan]),
    (lambda v: composition.basic([1.0], v), "deltas", [[0.1, 0.1]]),
    (lambda v: composition.advanced([1.0], slack=v), "slack", [0, 1, np.nan]),
    (lambda v: composition.advanced([1.0], slack=0.1, counts=v), "counts", [[0], [1, 2], [1.5]]),
    (lambda v: composition.optimal(v, 3), "epsilon", [-1, np.nan, np.inf]),
    (lambda v: composition.optimal(1.0, v), "count", [0, 2.5]),
    (lambda v: composition.amplify(1.0, 0, v), "sampling_rate", [0, 1.2, np.nan]),
    (lambda v: composition.amplify(v, 0, 0.1), "epsilon", [-1, np.nan]),
    (lambda v: composition.amplify(1.0, v, 0.1), "delta", [-1, 1]),
    (lambda v: composition.clt_mu_uniform(v, 0.1, 10), "noise_multiplier", [0, -1, np.nan, np.inf]),
    (lambda v: composition.clt_mu_poisson(1.0, v, 10), "sampling_rate", [0, 1.2]),
    (lambda v: composition.clt_mu_poisson(1.0, 0.1, v), "steps", [0, 1.5]),
]


@pytest.mark.parametrize(("call", "name", "value"), [(c, n, v) for c, n, vs in BAD for v in vs])
def test_bad_values_are_named(call, name, value):
    with pytest.raises(InvalidArgument, match=name):
        call(value)


@pytest.mark.parametrize(
    ("epsilon", "count"), [(0.1, 10), (4.376905410278519, 21), (1.0221195527864941e-10, 37)]
)
def test_delta_is_positive_up_to_the_real_sum_of_the_epsilons(epsilon, count):
    """The float product of the two lies below it: the outputs that exceed it have some mass."""
    product = count * epsilon
    assert Fraction(product) < count * Fraction(epsilon)
    top = (1 + np.exp(-epsilon)) ** -count  # the chance of the largest loss
    gap = float(count * Fraction(epsilon) - Fraction(product))
    for method in ("optimal", "best"):
        curve = da.account(Repeated(Pure(epsilon), count), method)
        assert curve.delta(product) >= 0.999 * top * gap
        assert Fraction(curve.epsilon(0.0)) >= count * Fraction(epsilon)
