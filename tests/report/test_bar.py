import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpassay.report.bar import epsilon_bar

SPACE = "{http://www.w3.org/2000/svg}"
values = st.floats(0, 1e6) | st.just(math.inf)


def drawn(proved=None, claimed=1.0, measured=0.5, ceiling=4.0):
    epsilon = {"delta": 1e-5, "proved_upper": proved, "claimed": claimed}
    return ET.fromstring(epsilon_bar(epsilon | {"measured_lower": measured, "ceiling": ceiling}))


def tips(root):
    """Where the bars end, in per cent of the width, from top to bottom."""
    inner = [s for s in root.iter(f"{SPACE}svg") if s is not root]
    return [float(s.get("x").rstrip("%")) for s in inner]


@given(st.none() | values, values, values, values)
def test_any_values_fit(proved, claimed, measured, ceiling):
    root = drawn(proved, claimed, measured, ceiling)
    ends = tips(root)
    assert len(ends) == (3 if proved is None else 4)
    assert all(0 <= end <= 99 for end in ends)
    given_values = [x for x in (proved, claimed, measured) if x is not None]
    shown = dict(zip(given_values, ends, strict=False))
    ordered = [shown[x] for x in sorted(shown)]
    assert ordered == sorted(ordered)
    labels = [
        float(t.text) for t in root.iter(f"{SPACE}text") if t.get("font-size") and t.text != "ε"
    ]
    assert labels[0] == 0
    assert 2 <= len(labels) <= 12


def test_lengths_are_in_proportion():
    start = 0.5
    proved, claimed, measured, ceiling = (x - start for x in tips(drawn(2.0, 1.0, 0.5, 4.0)))
    assert proved == pytest.approx(2 * claimed, abs=0.01)
    assert claimed == pytest.approx(2 * measured, abs=0.01)
    assert ceiling == pytest.approx(2 * proved, abs=0.01)


def test_what_is_missing_or_endless_is_said():
    text = "".join(drawn(None, math.inf, 0.0, math.inf).itertext())
    assert "no proof was given" in text
    assert "ε = ∞" in text
    assert "no limit" in text


def test_bounds_are_rounded_to_their_side():
    text = "".join(drawn(1.00001001, 1.00001001, 1.99999999, 2.0).itertext())
    assert re.search(r"Proved, at most: ε ≤ 1\.0001\b", text)
    assert re.search(r"Measured, at least: ε ≥ 1\.9999\b", text)
