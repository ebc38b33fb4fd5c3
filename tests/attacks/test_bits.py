import math

import numpy as np

from dpassay.attacks import lowest_bit


def test_the_last_bit_of_numbers():
    values = np.array([1.0, -6.0, 0.75, 5e-324, 2.0**52 + 1, 1e308, 0.0])
    expected = [0, 1, -2, -1074, 0, None, 2000]
    for found, want, value in zip(lowest_bit(values), expected, values, strict=True):
        if want is None:  # by the exact fraction: a whole number with so many factors of two
            want = (int(value) & -int(value)).bit_length() - 1
        assert found == want


def test_of_a_row_the_finest_grid_counts():
    rows = np.array([[1.0, 0.5], [8.0, 0.0], [math.nan, 1.0]])
    found = lowest_bit(rows)
    assert found[:2].tolist() == [-1, 3]
    assert math.isnan(found[2])
    assert lowest_bit(3.0) == 0
