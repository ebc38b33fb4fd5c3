import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.report.numbers import as_json, down, up

positive = st.floats(min_value=1e-300, max_value=1e300)


@given(positive, st.integers(2, 8))
def test_printed_bounds_stay_bounds(x, digits):
    """Up to the noise of floats, and within one unit of the last digit."""
    upper, lower = float(up(x, digits)), float(down(x, digits))
    assert lower <= x * (1 + 2e-9)
    assert upper >= x * (1 - 2e-9)
    assert upper <= x * (1 + 10.0 ** (1 - digits) + 1e-8)
    assert lower >= x * (1 - 10.0 ** (1 - digits) - 1e-8)


def test_printed_numbers():
    assert up(1.82824365) == "1.8283"
    assert down(1.82824365) == "1.8282"
    assert (up(0.0), down(0.0), up(math.inf)) == ("0", "0", "inf")
    assert up(1e-5) == "1e-05"


def test_json_is_strict():
    data = {"a": np.float64(math.inf), "b": np.array([1.0, -math.inf, math.nan]), "c": (1, True)}
    text = as_json(data)
    assert json.loads(text) == {"a": "inf", "b": [1.0, "-inf", None], "c": [1, True]}
    assert "Infinity" not in text
    assert "NaN" not in text


def test_json_refuses_what_it_cannot_say():
    with pytest.raises(TypeError):
        as_json({"a": object()})
