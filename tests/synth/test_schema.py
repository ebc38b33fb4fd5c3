"""Schemas: domains in, codes and values out, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpassay.errors import InvalidArgument
from dpassay.synth.tables.columns import Categorical, Date, Numeric, Ordinal
from dpassay.synth.tables.form import Form
from dpassay.synth.tables.schema import Schema


def mixed(nullable=True):
    return Schema(
        {
            "age": range(0, 5),
            "sex": Categorical(("F", "M"), nullable=nullable),
            "pay": Numeric.between(0, 10, bins=4, nullable=nullable),
            "children": Numeric((0, 1, 3, 10), integer=True),
            "since": Date.between("2020-01-01", "2021-01-01", bins=12),
        }
    )


def table(**changes):
    columns = {
        "age": [0, 4, 2],
        "sex": ["F", None, "M"],
        "pay": [0.0, 10.0, np.nan],
        "children": [0, 2, 9],
        "since": pd.to_datetime(["2020-01-01", "2020-12-31", "2020-06-15"]) + pd.Timedelta("23h"),
    }
    return pd.DataFrame({**columns, **changes})


def test_codes_by_hand():
    codes = mixed().encode(table())
    assert codes.tolist() == [[0, 0, 0, 0, 0], [4, 2, 3, 1, 11], [2, 1, 4, 2, 5]]


@pytest.mark.parametrize(
    "other",
    [
        "2020-01-01T00:00:00.123456789",
        pd.Timestamp("2020-01-01T00:00:00.123456789"),
        "2020-01-01T00:30:00-05:00",
        pd.Timestamp("2020-01-01T00:30", tz="Asia/Tokyo"),
        "2020-01-01 00:30 +01:00",
        "2020-01-01T24:99 o'clock",
    ],
)
def test_the_day_of_a_record_does_not_depend_on_how_another_is_written(other):
    """Or one record would change the codes of many, and the privacy of none would hold."""
    own = ["9999-12-31", "2020-05-01T23:30+02:00", "2020-05-02T00:30Z", "2020-05-03", "20200504"]
    column = Date.between("2020-01-01", "2021-01-01", bins=366, nullable=True, outside="nearest")
    alone = [int(column.encode("x", pd.Series([v], dtype=object))[0]) for v in own]
    assert alone == [365, 121, 122, 123, 124]
    codes = column.encode("x", pd.Series([*own, other], dtype=object))
    assert codes.tolist() == [*alone, 366 if "clock" in str(other) else 0]


def test_sizes_count_the_missing_value():
    assert mixed().sizes == (5, 3, 5, 3, 12)
    assert mixed(nullable=False).sizes == (5, 2, 4, 3, 12)


def test_decoded_values_have_their_codes():
    schema = mixed()
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 500) for size in schema.sizes], axis=1)
    assert (schema.encode(schema.decode(codes, rng)) == codes).all()


def test_sampled_values_spread_over_their_bin():
    column = Numeric((0, 10, 30), integer=True)
    values, missing = column.decode(np.ones(4000, np.int64), np.random.default_rng(1))
    assert set(values) == set(range(10, 30))
    assert not missing.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"age": [0, 5, 2]}, "column 'age' has a value outside"),
        ({"age": [0, 1.5, 2]}, "column 'age' has a value outside"),
        ({"pay": [0.0, 10.1, 3.0]}, r"column 'pay' has a value outside \[0, 10\]"),
        ({"pay": ["x", "1", "2"]}, "column 'pay' has a value outside"),
        ({"children": [0, 10, 1]}, r"whole numbers of \[0, 10\)"),
        ({"children": [0, None, 1]}, "'children' has missing values, but is not declared nullable"),
        ({"since": ["2020-01-01", "2021-01-01", "2020-05-05"]}, "outside the days from 2020-01-01"),
        ({"since": ["2020-01-01", "never", "2020-05-05"]}, "column 'since' has a value outside"),
        ({"more": [1, 2, 3]}, "column 'more' of the table is not in the schema"),
    ],
)
def test_values_outside_the_domain_are_refused(changes, message):
    with pytest.raises(InvalidArgument, match=message):
        mixed().encode(table(**changes))


def test_missing_columns_and_empty_tables_are_refused():
    with pytest.raises(InvalidArgument, match="'sex' of the schema is not in the table"):
        mixed().encode(table().drop(columns="sex"))
    with pytest.raises(InvalidArgument, match="empty"):
        mixed().encode(table().iloc[:0])
    with pytest.raises(InvalidArgument, match="shape"):
        mixed().encode(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ([], "is empty"),
        (["a", "a"], "a value twice"),
        (["a", None], "missing value"),
        ({"kind": "numeric", "edges": [0, 0]}, "increasing"),
        ({"kind": "numeric", "edges": [0, float("nan")]}, "edges"),
        ({"kind": "numeric", "edges": [0, 0.5, 1], "integer": True}, "whole numbers"),
        ({"kind": "numeric", "low": 1, "high": 1}, "high"),
        ({"kind": "numeric", "low": 0, "high": 1, "bins": 0}, "bins"),
        ({"kind": "numeric", "values": [1]}, "decimals, edges, integer or atoms, bins"),
        ({"kind": "colour"}, "kind of column 'x'"),
        ({"kind": "date", "first": "soon", "end": "2020-01-01"}, "ISO dates"),
        ("abc", "has the domain 'abc'"),
        (3, "has the domain 3"),
    ],
)
def test_domains_that_are_none(domain, message):
    with pytest.raises(InvalidArgument, match=message):
        Schema({"x": domain})


def test_no_columns():
    with pytest.raises(InvalidArgument, match="must be a mapping"):
        Schema({})


def test_files_round_trip(tmp_path):
    schema = Schema(mixed().columns, impossible=[{"sex": "F", "age": [0, 1]}])
    path = tmp_path / "s.json"
    path.write_text(json.dumps(schema.as_dict()))
    assert Schema.read(path) == schema
    assert hash(Schema.read(path)) == hash(schema)


def test_toml(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        '[columns.age]\nkind = "numeric"\nlow = 0\nhigh = 120\nbins = 12\ninteger = true\n'
        '[columns.sex]\nvalues = ["F", "M"]\nnullable = true\n'
        '[[impossible]]\nage = 3\nsex = "M"\n'
    )
    schema = Schema.read(path)
    assert schema.sizes == (12, 3)
    assert schema.possible(np.array([[0, 1], [1, 1], [0, 0]])).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [("columns = [", "is not TOML"), ("x = 1", "needs a table `columns`")],
)
def test_files_that_are_none(tmp_path, text, message):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        Schema.read(path)
    with pytest.raises(InvalidArgument, match="is not a file"):
        Schema.read(tmp_path / "none.toml")


def test_impossible_cells_and_rows_agree():
    schema = Schema(
        {"a": range(3), "b": range(2), "c": range(2)},
        impossible=[{"a": [0, 1], "b": 1}, {"c": 0, "a": 2}],
    )
    codes = np.indices(schema.sizes).reshape(3, -1).T
    assert (schema.possible(codes) == schema.possible_cells().reshape(-1)).all()
    by_hand = [not ((a in (0, 1) and b == 1) or (c == 0 and a == 2)) for a, b, c in codes]
    assert schema.possible(codes).tolist() == by_hand
    assert schema.encode(np.array([[0, 1, 0]])).tolist() == [[0, 1, 0]]  # an error would tell of it
    with pytest.raises(InvalidArgument, match="empty rule"):
        Schema({"a": range(3)}, impossible=[{}])


COLUMNS = st.one_of(
    st.builds(
        Categorical,
        st.lists(st.text("abcxyz", min_size=1), min_size=1, max_size=4, unique=True).map(tuple),
        nullable=st.booleans(),
    ),
    st.builds(
        Ordinal,
        st.lists(st.integers(-50, 50), min_size=1, max_size=5, unique=True).map(tuple),
        nullable=st.booleans(),
    ),
    st.builds(
        Numeric,
        st.lists(st.integers(-99, 99), min_size=2, max_size=5, unique=True).map(
            lambda edges: tuple(sorted(edges))
        ),
        st.booleans(),
        nullable=st.booleans(),
    ),
    st.builds(
        lambda days, nullable: Date(
            tuple(str(np.datetime64("2000-01-01") + day) for day in sorted(days)),
            nullable=nullable,
        ),
        st.lists(st.integers(0, 9000), min_size=2, max_size=5, unique=True),
        nullable=st.booleans(),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(COLUMNS, min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_tables_keep_types_order_and_missing_values(columns, seed):
    """Encoding what was decoded and shaped like the table gives the same codes and types."""
    schema = Schema({f"c{i}": column for i, column in enumerate(columns)})
    assert Schema.from_dict(json.loads(json.dumps(schema.as_dict()))) == schema
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, 40) for size in schema.sizes], axis=1)
    frame = schema.decode(codes, rng)[list(reversed(schema.names))].infer_objects()
    form = Form.of(frame, schema)
    form = Form.from_dict(json.loads(json.dumps(form.as_dict())))
    again = form.apply(schema.decode(codes, rng), schema)
    assert list(again.columns) == list(frame.columns)
    for name, column in schema.columns.items():
        if not column.nullable:
            assert again[name].dtype == frame[name].dtype
    assert (schema.encode(again) == codes).all()
    assert (again.isna().to_numpy() == frame.isna().to_numpy()).all()


def test_a_missing_value_in_a_type_that_has_none_widens_it():
    schema = Schema({"n": Ordinal((1, 2), nullable=True), "b": Categorical((True, False))})
    form = Form.of(pd.DataFrame({"n": [1, 2], "b": [True, False]}), schema)
    shaped = form.apply(schema.decode(np.array([[2, 0], [0, 1]]), np.random.default_rng(0)), schema)
    assert [str(dtype) for dtype in shaped.dtypes] == ["Int64", "bool"]
    assert shaped["n"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("column", "common", "rare"),
    [
        (Ordinal((1, 2), nullable=True), 1, None),
        (Categorical((True, False), nullable=True), True, None),
        (Numeric((0, 5, 9), integer=True, nullable=True), 3, None),
        (Numeric((0, 5, 9), nullable=True), 3, None),
        (Numeric((0, 5, 9)), 3, 4.5),
        (Categorical((1, 2.5)), 1, 2.5),
        (Categorical((1, "u")), 1, "u"),
        (Categorical(("x", "longer")), "x", "longer"),
    ],
)
@pytest.mark.parametrize("container", [pd.DataFrame, np.array])
def test_one_record_does_not_change_the_form(column, common, rare, container):
    """Types picked by the values that occur: with and without one rare value they are the same."""
    schema = Schema({"a": column})
    plain, other = ([[common]] * 3, [[common], [common], [rare]])
    if container is pd.DataFrame:
        tables = [pd.DataFrame({"a": [row[0] for row in rows]}) for rows in (plain, other)]
    else:
        tables = [np.array(rows) for rows in (plain, other)]
    forms = [Form.of(table, schema) for table in tables]
    assert forms[0] == forms[1]
    codes = np.arange(column.size)[:, None]
    shaped = forms[0].apply(schema.decode(codes, np.random.default_rng(0)), schema)
    assert (schema.encode(shaped) == codes).all()  # no value is cut, rounded or lost


def test_categories_and_arrays_keep_their_form():
    schema = Schema({"g": Ordinal(("low", "high")), "h": range(2)})
    frame = pd.DataFrame(
        {"g": pd.Categorical(["low", "high"], ["low", "high"], ordered=True), "h": [0, 1]}
    )
    again = Form.of(frame, schema).apply(
        schema.decode(schema.encode(frame), np.random.default_rng(0)), schema
    )
    pd.testing.assert_frame_equal(again, frame)
    numbers = Schema({"g": range(3), "h": range(2)})
    array = np.array([[2, 1], [0, 0]])
    back = Form.of(array, numbers).apply(
        numbers.decode(numbers.encode(array), np.random.default_rng(0)), numbers
    )
    assert isinstance(back, np.ndarray)
    assert back.dtype == array.dtype
    assert (back == array).all()


# Values outside.


@pytest.mark.parametrize(
    ("column", "values", "codes"),
    [
        (
            Numeric((0, 1, 5), outside="nearest"),
            [-7, 0, 5, 5.1, np.inf, -np.inf],
            [0, 0, 1, 1, 1, 0],
        ),
        (Numeric((0, 2, 5), integer=True, outside="nearest"), [-1, 1.5, 5, 9], [0, 0, 1, 1]),
        (Numeric((0, 1, 5), outside="missing", nullable=True), [-7, 0, None, "x"], [2, 0, 2, 2]),
        (Numeric((0, 1, 5), outside="nearest", nullable=True), [9, "x", None], [1, 2, 2]),
        (
            Date(("2020-01-01", "2020-06-01", "2021-01-01"), outside="nearest"),
            ["1999-01-01", "2020-12-31", "2021-01-01", "2200-01-01"],
            [0, 1, 1, 1],
        ),
        (Categorical(("a", "b"), outside="missing", nullable=True), ["b", "c", None], [1, 2, 2]),
    ],
)
def test_values_outside_go_where_the_column_says(column, values, codes):
    schema = Schema({"x": column})
    found = schema.encode(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert found[:, 0].tolist() == codes
    assert Schema.from_dict(json.loads(json.dumps(schema.as_dict()))) == schema


def test_values_outside_that_have_no_place_are_refused():
    column = Numeric((0, 1), outside="nearest")
    with pytest.raises(InvalidArgument, match="column 'x' has a value outside"):
        Schema({"x": column}).encode(pd.DataFrame({"x": ["0", "x"]}))
    with pytest.raises(InvalidArgument, match="column 'x' has a value outside"):
        Schema({"x": column}).conditions({"x": 7})
    with pytest.raises(InvalidArgument, match="needs a column with nullable=True"):
        Categorical(("a",), outside="missing")
    with pytest.raises(InvalidArgument, match="outside='nearest' must be one of"):
        Categorical(("a",), outside="nearest")


def test_whole_numbers_may_be_called_integer():
    given = {"kind": "integer", "low": 0, "high": 120, "bins": 12}
    column = Schema({"age": given}).columns["age"]
    assert column == Numeric.between(0, 120, bins=12, integer=True)


@pytest.mark.parametrize("kind", ["integer", "numeric", "date", "timestamp", "categorical"])
def test_a_kind_without_a_domain_says_what_is_missing(kind):
    with pytest.raises(
        InvalidArgument, match=r"column 'x' has a kind, .* and no domain. .*--domain"
    ):
        Schema({"x": {"kind": kind, "nullable": True}})
