"""Bounds of features can be given for all, by feature or by name; nothing is guessed."""

import numpy as np
import pandas as pd
import pytest

from dpassay.errors import InvalidArgument
from dpassay.learn import PrivateLasso, PrivateLogisticRegression, PrivateRidge

RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.uniform(0, 120, 80), "weight": RNG.uniform(-1, 1, 80)})
Y = (X["age"] > 50).astype(float)


def fit(bounds, data=X, kind=PrivateRidge):
    options = {} if kind is PrivateLogisticRegression else {"target_bound": 1.0}
    return kind(1.0, bounds=bounds, random_state=0, **options).fit(data, Y)


@pytest.mark.parametrize("kind", [PrivateRidge, PrivateLasso, PrivateLogisticRegression])
def test_every_way_to_say_it_gives_the_same_fit(kind):
    plain = fit((np.array([0, -1]), np.array([120, 1])), kind=kind)
    for bounds in ([(0, 120), (-1, 1)], {"weight": (-1, 1), "age": (0, 120)}):
        assert np.array_equal(fit(bounds, kind=kind).coef_, plain.coef_)


def test_a_list_of_pairs_is_not_lows_and_highs():
    pairs = fit([(-1, 1), (0, 100)])
    ends = fit((np.array([-1, 0]), np.array([1, 100])))
    assert np.array_equal(pairs.coef_, ends.coef_)


@pytest.mark.parametrize(
    ("bounds", "data", "words"),
    [
        ({"age": (0, 120)}, X, "bounds for column 'weight' are missing"),
        ({"age": (0, 120), "weight": (0, 1), "x": (0, 1)}, X, "names 'x', which is no column"),
        ({"age": (0, 120), "weight": 3}, X, r"bounds\['weight'\] must be a pair"),
        ({"age": (0, 120), "weight": (0, 1)}, X.to_numpy(), "X has no names"),
        ([(0, 120)], X, "1 pairs for 2 features"),
        (((0, 120), (-1, 1)), X, "could be a feature or an end"),
        ([(0, 120), (1, -1)], X, "low < high"),
    ],
)
def test_what_is_not_clear_is_refused(bounds, data, words):
    with pytest.raises(InvalidArgument, match=words):
        fit(bounds, data)


def test_one_pair_for_all_is_still_one_pair():
    assert np.array_equal(fit((-1, 120)).coef_, fit([-1, 120]).coef_)
