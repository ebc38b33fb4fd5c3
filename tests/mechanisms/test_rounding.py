"""Rounding is upward, by no more than it must, from the smallest to the largest float."""

import math
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from dpassay.mechanisms._rounding import at_least, root_at_least

positive = st.floats(5e-324, 1.7e308)


@given(a=positive, b=positive)
@example(a=1.0, b=3.0)
@example(a=5e-324, b=1.7e308)
def test_at_least(a, b):
    exact = Fraction(a) / Fraction(b)
    x = at_least(exact)
    assert x >= exact
    assert math.isinf(x) or Fraction(math.nextafter(x, 0)) < exact
    assert x < math.inf or exact > Fraction(math.nextafter(math.inf, 0))


@given(a=positive, b=positive)
@example(a=2.0, b=1.0)
@example(a=1.7e308, b=5e-324)
@example(a=5e-324, b=1.7e308)
def test_root_at_least(a, b):
    square = Fraction(a) / Fraction(b)
    x = root_at_least(square)
    assert math.isinf(x) or Fraction(x) ** 2 >= square
    below = math.nextafter(math.nextafter(x, 0), 0)
    assert Fraction(below) ** 2 < square


@given(a=positive)
def test_exact_values_stay(a):
    assert at_least(Fraction(a)) == a
    assert root_at_least(Fraction(a) ** 2) == a


def test_beyond_floats():
    assert at_least(Fraction(10) ** 400) == math.inf
    assert root_at_least(Fraction(10) ** 800) == math.inf
