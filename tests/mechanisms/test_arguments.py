"""Every argument of every mechanism: NaN, infinities, zero and negative values are refused."""

import math

import pytest

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import (
    exponential,
    exponential_accuracy,
    gaussian,
    gaussian_accuracy,
    laplace,
    laplace_accuracy,
    permute_and_flip,
    randomized_response,
    report_noisy_max,
)
from dpassay.types import Release

GOOD = {
    laplace: {"value": 1.0, "sensitivity": 1.0, "epsilon": 1.0},
    gaussian: {"value": 1.0, "sensitivity": 1.0, "epsilon": 1.0, "delta": 1e-6},
    exponential: {"scores": [1.0, 2.0], "sensitivity": 1.0, "epsilon": 1.0},
    permute_and_flip: {"scores": [1.0, 2.0], "sensitivity": 1.0, "epsilon": 1.0},
    report_noisy_max: {"scores": [1.0, 2.0], "sensitivity": 1.0, "epsilon": 1.0},
    randomized_response: {"values": [0, 1], "n_categories": 2, "epsilon": 1.0},
    laplace_accuracy: {"beta": 0.1, "sensitivity": 1.0, "epsilon": 1.0, "n_queries": 3},
    gaussian_accuracy: {"beta": 0.1, "sensitivity": 1.0, "mu": 1.0, "n_queries": 3},
    exponential_accuracy: {"beta": 0.1, "sensitivity": 1.0, "epsilon": 1.0, "n_candidates": 3},
}
POSITIVE = ("sensitivity", "epsilon", "delta", "rho", "mu", "n_queries", "n_candidates")
NOT_POSITIVE = (math.nan, math.inf, -math.inf, 0.0, -1.0, None, "one")


@pytest.mark.parametrize(
    ("function", "name"),
    [(function, name) for function, good in GOOD.items() for name in POSITIVE if name in good],
)
@pytest.mark.parametrize("bad", NOT_POSITIVE)
def test_positive_arguments(function, name, bad):
    good = GOOD[function]
    with pytest.raises(InvalidArgument, match=name):
        function(**{**good, name: bad})


@pytest.mark.parametrize("name", ["rho", "mu"])
@pytest.mark.parametrize("bad", NOT_POSITIVE)
def test_other_statements_of_gaussian_noise(name, bad):
    for function, first in ((gaussian, {"value": 1.0}), (gaussian_accuracy, {"beta": 0.1})):
        with pytest.raises(InvalidArgument, match=name):
            function(**first, sensitivity=1.0, **{name: bad})


@pytest.mark.parametrize("mechanism", [laplace, gaussian])
@pytest.mark.parametrize("bad", [math.nan, math.inf, [1.0, -math.inf], [[math.nan]], "one", None])
def test_values_are_finite(mechanism, bad):
    with pytest.raises(InvalidArgument, match="value"):
        mechanism(**{**GOOD[mechanism], "value": bad})


@pytest.mark.parametrize("mechanism", [exponential, permute_and_flip, report_noisy_max])
@pytest.mark.parametrize("bad", [[], 1.0, [[1.0, 2.0]], [math.nan], [math.inf, 0.0], ["one"]])
def test_scores_are_a_finite_list(mechanism, bad):
    with pytest.raises(InvalidArgument, match="scores"):
        mechanism(**{**GOOD[mechanism], "scores": bad})


@pytest.mark.parametrize("mechanism", [laplace, gaussian, exponential, permute_and_flip])
@pytest.mark.parametrize(("name", "bad"), [("neighbouring", "both"), ("rng", -1), ("rng", "x")])
def test_relation_and_generator(mechanism, name, bad):
    with pytest.raises(InvalidArgument, match=f"{name}="):
        mechanism(**{**GOOD[mechanism], name: bad})


@pytest.mark.parametrize("bad", [0, 1, -3, 2.5, math.nan, math.inf, True])
def test_at_least_two_categories(bad):
    with pytest.raises(InvalidArgument, match="n_categories="):
        randomized_response([0], n_categories=bad, epsilon=1.0)


def test_delta_below_one():
    with pytest.raises(InvalidArgument, match="delta="):
        gaussian(1.0, sensitivity=1.0, epsilon=1.0, delta=1.0)


def test_names_of_noise_and_method():
    with pytest.raises(InvalidArgument, match="noise='normal'"):
        report_noisy_max([1.0], sensitivity=1.0, epsilon=1.0, noise="normal")
    with pytest.raises(InvalidArgument, match="method='chernoff'"):
        laplace_accuracy(0.1, sensitivity=1.0, epsilon=1.0, method="chernoff")


@pytest.mark.parametrize("function", GOOD)
def test_the_good_arguments_are_good(function):
    result = function(**GOOD[function])
    assert result.noise == "exact" if isinstance(result, Release) else result > 0
