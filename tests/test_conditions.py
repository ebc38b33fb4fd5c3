"""A condition is decided record by record, whatever the other records are."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpassay._conditions import read_condition
from dpassay.errors import InvalidArgument

TABLE = pd.DataFrame(
    {
        "age": ["70", "20", None, "old"],
        "height": [170.0, 120.0, np.nan, 180.0],
        "sex": ["F", "M", "F", None],
        "day seen": ["2024-01-05", "2023-12-31", "2024-02-01", None],
        "limit": [65, 65, 65, 65],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age >= 60", [1, 0, 0, 0]),
        ("60 <= age", [1, 0, 0, 0]),
        ("18 < age < 65", [0, 1, 0, 0]),
        ("age != 70", [0, 1, 0, 0]),
        ("not age == 70", [0, 1, 1, 1]),
        ("sex == 'F' and height > 150", [1, 0, 0, 0]),
        ("sex == 'F' or height > 150", [1, 0, 1, 1]),
        ("sex in ['F', 'X']", [1, 0, 1, 0]),
        ("sex not in ['F']", [0, 1, 0, 0]),
        ("age in [20, 70]", [1, 1, 0, 0]),
        ("`day seen` >= '2024-01-01'", [1, 0, 1, 0]),
        ("age > limit", [1, 0, 0, 0]),
        ("age == 'old'", [0, 0, 0, 1]),
        ("height > -1.5", [1, 1, 0, 1]),
    ],
)
def test_what_conditions_mean(text, expected):
    assert read_condition(text).holds(TABLE).tolist() == [bool(e) for e in expected]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must be a condition"),
        ("age >", "no expression"),
        ("age", "no comparison"),
        ("1 < 2", "names no column"),
        ("age + 1 > 3", "neither a column nor a number"),
        ("age > -'3'", "no number"),
        ("__import__('os').system('true') == 0", "neither a column"),
        ("age.real > 1", "neither a column"),
        ("age is 3", "comparisons are"),
        ("3 in age", "`in` stands between"),
        ("age == True", "neither a column"),
        ("(" * 5000 + "age" + ")" * 5000, "must be|no expression"),
    ],
)
def test_what_is_not_understood_is_named(text, why):
    with pytest.raises(InvalidArgument, match=why):
        read_condition(text)


def test_a_column_that_is_not_there():
    with pytest.raises(InvalidArgument, match="no column 'weight'"):
        read_condition("weight > 3").holds(TABLE)


def test_moments_are_compared_to_the_second_and_may_be_missing():
    early, late = "2024-05-01 09:00:00", "2024-05-01 10:00:00"
    table = pd.DataFrame({"start": [early, late, early, None], "end": [late, early, None, late]})
    table = table.apply(pd.to_datetime)
    assert read_condition("start < end").holds(table).tolist() == [True, False, False, False]
    assert read_condition("start != end").holds(table).tolist() == [True, True, False, False]
    assert read_condition("start == '2024-05-01'").holds(table).tolist() == [True] * 3 + [False]
    zoned = table.assign(end=table["end"].dt.tz_localize("UTC"))
    assert read_condition("start < end").holds(zoned).tolist() == [True, False, False, False]
    words = table.assign(end=["2024-05-02", "2024", "x", "y"])
    assert read_condition("start < end").holds(words).tolist() == [True, False, True, False]


CELLS = st.one_of(st.none(), st.sampled_from(["1", "2.5", "x", "", "-3", "nan", "1e400"]))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5), st.tuples(CELLS, CELLS))
def test_no_record_changes_what_is_said_of_another(records, other):
    for text in ("a > 2", "a == 'x'", "a <= b", "a in [1, 2.5]", "not a != b"):
        condition = read_condition(text)
        alone = condition.holds(pd.DataFrame(records, columns=["a", "b"], dtype=object))
        beside = condition.holds(pd.DataFrame([*records, other], columns=["a", "b"], dtype=object))
        assert alone.tolist() == beside.tolist()[:-1]
