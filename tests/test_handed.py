"""Files that are handed to us, damaged in every way: a named error and nothing else."""

import contextlib
import io
import json
import os
import tomllib
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpassay import _handed
from dpassay.errors import DpassayError, InvalidArgument
from dpassay.learn import Ledger
from dpassay.privacy import Gaussian
from dpassay.report import audit_report, load_report, write_report
from dpassay.runs import open_log
from dpassay.synth import Independent, Schema, load
from report.verdicts import CASES


def _write_scores(path):
    path.write_text("score,world\n" + "".join(f"{i / 7:.3f},{i % 2}\n" for i in range(20)))


def _write_arrays(path):
    np.savez_compressed(path, data=np.arange(12.0).reshape(4, 3), names=np.array(["a", "bc"]))


def _write_array(path):
    np.save(path, np.asfortranarray(np.arange(12).reshape(4, 3)))


def _write_schema(path):
    path.write_text('[columns.sex]\nvalues = ["F", "M"]\n[columns.age]\nlow = 0\nhigh = 9\n')


def _write_page(path):
    data = audit_report(CASES["standing"]()).data
    path.write_text(json.dumps(data))


def _write_model(path):
    schema = Schema({"sex": ["F", "M"], "age": range(4)})
    codes = np.array([["F", 1], ["M", 3]] * 20, object)
    Independent(schema, epsilon=1.0, rng=0).fit(codes).save(path)


def _write_log(path):
    with open_log(path) as log:
        log.begin("k", {"a": 1}, {"trials": 3})


def _write_ledger(path):
    Ledger(path).record(Gaussian(3.0), what="count")


FORMATS = {
    "t.csv": (_write_scores, lambda path: _handed.load_csv("t", path)),
    "a.npz": (_write_arrays, lambda path: _handed.load_npz("a", path)),
    "a.npy": (_write_array, lambda path: _handed.load_npy("a", path)),
    "s.toml": (_write_schema, Schema.read),
    "r.json": (_write_page, lambda path: load_report(path).html()),
    "m.npz": (_write_model, lambda path: load(path).sample(5, rng=0)),
    "l.db": (_write_ledger, lambda path: Ledger(path).spent(1e-5)),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Sound files, as bytes by name."""
    folder = tmp_path_factory.mktemp("whole")
    for name, (write, read) in FORMATS.items():
        write(folder / name)
        read(folder / name)
    return {name: (folder / name).read_bytes() for name in FORMATS}


def _damages(data, rng, n):
    """Copies with bytes flipped, cut out, doubled, or ends lost."""
    for _ in range(n):
        copy = bytearray(data)
        a, b = sorted(rng.integers(0, len(copy), 2).tolist())
        kind = rng.integers(4)
        if kind == 0:
            for place in rng.integers(0, len(copy), rng.integers(1, 4)):
                copy[place] ^= int(rng.integers(1, 256))
        elif kind == 1:
            del copy[a : min(b, a + 30)]
        elif kind == 2:
            copy[a:a] = copy[a : min(b, a + 30)]
        else:
            del copy[a:]
        yield bytes(copy)


def _refused(read, path):
    """What the refusal says, or None if the file was read."""
    try:
        read(path)
    except DpassayError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_bytes_are_read_or_refused_by_name(whole, name, tmp_path):
    rng = np.random.default_rng(7)
    read = FORMATS[name][1]
    refused = 0
    n = 12 if name == "r.json" else 120  # a page that is read is drawn
    for place, data in enumerate(_damages(whole[name], rng, n)):
        path = tmp_path / f"{place}{name}"
        path.write_bytes(data)
        before = set(os.listdir(tmp_path))
        words = _refused(read, path)
        refused += words is not None
        assert words is None or any(part in words for part in (str(path), "column", "schema"))
        assert {n.removesuffix("-journal") for n in os.listdir(tmp_path)} <= before
    assert refused > 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["columns", "a", "kind", "values", "low", "high", "edges", "bins"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=100)
def test_any_value_is_a_schema_or_refused(value):
    for given_value in (value, {"columns": {"age": value}}, {"columns": {"age": 1}, "x": value}):
        with contextlib.suppress(InvalidArgument):
            Schema.from_dict(given_value)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_array_or_refused(data):
    assert _handed._array(bytearray(data)) is None


@given(VALUES, st.data())
@settings(max_examples=60)
def test_any_part_of_a_report_may_be_wrong(page, value, data):
    """Whatever stands in the place of one part: refused by name, or of the right type."""
    from dpassay.report.shape import Misfit, check_shape

    changed = json.loads(json.dumps(page))
    at = changed
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = value
    try:
        check_shape(changed)
    except Misfit:
        return


@pytest.fixture(scope="module")
def page():
    return audit_report(CASES["standing"]()).data


# ------------------------------------------------------------------------------- limits


def _refusal(read, *args):
    with pytest.raises(InvalidArgument) as caught:
        read(*args)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.parametrize("place", ["folder", "pipe", "device"])
def test_only_regular_files_are_read(tmp_path, place):
    path = {"folder": tmp_path, "pipe": tmp_path / "p", "device": "/dev/zero"}[place]
    if place == "pipe":
        os.mkfifo(path)
    assert f"is not a file but a {place}" in _refusal(_handed.read_bytes, "x", path)


def test_a_file_that_is_too_long_is_not_read(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2**41)
    assert "has more than 4,294,967,296 bytes" in _refusal(_handed.load_npz, "x", tmp_path / "x")
    (tmp_path / "y").write_bytes(b"12345")
    assert "more than 4 bytes" in _refusal(lambda: _handed.read_bytes("y", tmp_path / "y", most=4))
    assert _handed.read_bytes("y", tmp_path / "y", most=5) == b"12345"


def test_nesting_is_bounded(tmp_path):
    deep = "[" * 64 + "]" * 64
    (tmp_path / "x.json").write_text(deep)
    assert len(_handed.load_json("x", tmp_path / "x.json")) == 1
    (tmp_path / "x.json").write_text(f"[{deep}]")
    assert "nested more than 64 deep" in _refusal(_handed.load_json, "x", tmp_path / "x.json")
    (tmp_path / "x.toml").write_text(".".join("a" * 200) + " = 1")
    assert "too many dots" in _refusal(_handed.load_toml, "x", tmp_path / "x.toml")
    text = "[project]\nversion = '1.2.3'\nurl = 'https://a.b.c/d.e'\na.b.c.d = 1\n"
    (tmp_path / "x.toml").write_text(text)
    assert _handed.load_toml("x", tmp_path / "x.toml") == tomllib.loads(text)


def test_an_archive_that_unpacks_to_more_than_it_says_is_refused(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000,)}".ljust(117) + b"\n"
    body = b"\x93NUMPY\x01\x00\x76\x00" + header
    for length in (0, 8 * 1_000_000 - 1, 8 * 1_000_000 + 1):
        with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data.npy", body + b"\0" * length)
        assert "is not an array" in _refusal(_handed.load_npz, "x", tmp_path / "b.npz")
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", body + b"\0" * 8_000_000)
    assert _handed.load_npz("x", tmp_path / "b.npz")["data"].shape == (1_000_000,)


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.array(3.5),
    np.empty((0, 4)),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array(["2020-01-01"], "M8[D]"),
    np.arange(3, dtype=">i4"),
    np.array([1 + 2j]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_are_read_as_numpy_reads_them(array, tmp_path):
    np.savez(tmp_path / "a.npz", a=array)
    np.save(tmp_path / "a.npy", array)
    for found in (
        _handed.load_npz("x", tmp_path / "a.npz")["a"],
        _handed.load_npy("x", tmp_path / "a.npy"),
    ):
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)
        assert found.flags.writeable


def test_objects_are_never_unpickled(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], object), allow_pickle=True)
    (tmp_path / "o.npy").write_bytes(buffer.getvalue())
    assert "is not an array" in _refusal(_handed.load_npy, "x", tmp_path / "o.npy")


# ------------------------------------------------------------------------------- what is shown

EVIL = "</p><script>alert(1)</script>&\"'"


def test_every_text_of_a_report_file_is_escaped(page, tmp_path):
    """A text in any place of the data is text on the page, never markup."""
    marked = 0

    def spoil(value, key=""):
        nonlocal marked
        if isinstance(value, dict):
            return {name: spoil(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [spoil(part, key) for part in value]
        fixed = ("schema", "status", "neighbouring", "kind", "ended")
        if isinstance(value, str) and key not in fixed and value not in ("inf", "-inf"):
            marked += 1
            return value + EVIL
        return value

    path = tmp_path / "r.json"
    path.write_text(json.dumps(spoil(page)))
    html = load_report(path).html()
    assert marked > 50
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    files = write_report(load_report(path), tmp_path / "again.html")
    assert "<script" not in files[0].read_text(encoding="utf-8")
