"""Run keys: they change with whatever can change an outcome, and with nothing else."""

import dataclasses
import enum
import functools
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpassay
from dpassay.errors import InvalidArgument
from dpassay.runs import fingerprint, run_key

PROGRAM = """
import contextlib, dataclasses, functools, threading
import numpy as np
from dpassay._rng import generator

LEVEL = 3
WEIGHTS = np.array([1.0, 2.0])
lock = threading.Lock()

def helper(x):
    return x + LEVEL

def unrelated(x):
    return x - 1

@contextlib.contextmanager
def room():
    yield helper(1)

@functools.lru_cache
def cached(x):
    return x * 2

@dataclasses.dataclass(frozen=True)
class Scale:
    factor: float = 2.0
    names: list = dataclasses.field(default_factory=list)
    def apply(self, x):
        return self.factor * helper(x)
    @property
    def half(self):
        return self.factor / 2
    @staticmethod
    def plain(x):
        return x + 4

def train(data, rng, size=5):
    with room() as r:
        return [cached(helper(x)) * WEIGHTS.sum() * r for x in data], generator(0), Scale().apply(1)

def guarded(data):
    with lock:
        return data
"""


def load(tmp_path, text=PROGRAM, name="program"):
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def program(tmp_path):
    """A function that loads the program with some text replaced."""
    versions = iter(range(100))

    def loaded(old="", new=""):
        assert not old or old in PROGRAM
        folder = tmp_path / str(next(versions))
        folder.mkdir()
        return load(folder, PROGRAM.replace(old, new) if old else PROGRAM)

    yield loaded
    sys.modules.pop("program", None)


def key_of(*code):
    return run_key({}, code=code)


# ------------------------------------------------------------------------------- code


def test_same_code_in_another_place(program):
    assert key_of(program().train) == key_of(program().train)
    assert key_of(program().train) != key_of(program().helper)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return [cached", "return [1 + cached"),  # the function itself
        ("size=5", "size=6"),  # a default
        ("x + LEVEL", "x + LEVEL + 1"),  # a function it calls
        ("LEVEL = 3", "LEVEL = 4"),  # a value that such a function reads
        ("np.array([1.0, 2.0])", "np.array([1.0, 2.5])"),
        ("yield helper(1)", "yield helper(2)"),  # behind a decorator of the standard library
        ("x * 2", "x * 3"),  # behind a cache
        ("self.factor * helper(x)", "self.factor + helper(x)"),  # a method
        ("self.factor / 2", "self.factor / 3"),  # a property
        ("x + 4", "x + 5"),  # a static method
        ("factor: float = 2.0", "factor: float = 2.5"),  # a field
        ("default_factory=list", "default_factory=tuple"),
    ],
)
def test_changes_that_matter(program, old, new):
    assert key_of(program().train) != key_of(program(old, new).train)


@pytest.mark.parametrize(
    ("old", "new"),
    [("x - 1", "x - 2"), ("def unrelated", "# a remark\ndef unrelated"), ("\n\n", "\n\n\n")],
)
def test_changes_that_do_not_matter(program, old, new):
    assert key_of(program().train) == key_of(program(old, new).train)


def test_what_has_no_fingerprint_in_a_module_brings_in_the_whole_file(program):
    assert key_of(program().guarded) == key_of(program().guarded)
    assert key_of(program().guarded) != key_of(program("x - 1", "x - 2").guarded)


def test_modules_that_a_module_imports(tmp_path):
    def key(inner):
        load(tmp_path, f"def f(): return {inner}", "inner")
        load(tmp_path, "import inner\ndef g(): return inner.f()", "middle")
        outer = load(tmp_path, "import middle\ndef h(): return middle.g()", "outer")
        return key_of(outer.h)

    assert key(1) == key(1)
    assert key(1) != key(2)
    for name in ("inner", "middle", "outer"):
        del sys.modules[name]


def maker(value, default=0):
    def made(x, y=default, *, z=default):
        return x + value + y + z

    return made


def test_closures_and_defaults():
    assert key_of(maker(1)) == key_of(maker(1))
    assert len({key_of(maker(1)), key_of(maker(2)), key_of(maker(1, default=5))}) == 3
    data = np.arange(3.0)
    assert key_of(maker(data)) == key_of(maker(data.copy()))
    assert key_of(maker(data)) != key_of(maker(data + 1))


def test_lambdas_on_one_line():
    one, two, three = lambda x: x + 1, lambda x: x + 2, lambda x: x + 1
    assert key_of(one) != key_of(two)
    assert key_of(one) == key_of(three)


def test_partials_methods_and_callable_objects():
    class Model:
        def __init__(self, weight):
            self.weight = weight

        def __call__(self, x):
            return self.weight * x

        def other(self, x):
            return x

    made = [
        functools.partial(maker, 1),
        functools.partial(maker, 2),
        functools.partial(maker, 1, default=2),
        Model(1.0),
        Model(2.0),
        Model(1.0).other,
        Model(2.0).other,
        Model,
    ]
    assert len({key_of(item) for item in made}) == len(made)
    assert key_of(functools.partial(maker, 1)) == key_of(functools.partial(maker, 1))
    assert key_of(Model(1.0)) == key_of(Model(1.0))


def test_wrappers_do_not_hide_what_they_do():
    def plus(amount):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(x):
                return function(x) + amount

            return wrapper

        return decorate

    def target(x):
        return x

    assert key_of(plus(1)(target)) != key_of(plus(2)(target))
    assert key_of(plus(1)(target)) != key_of(target)


def test_code_without_source():
    made = {}
    exec("def f(x): return x + 1\ndef g(x): return x + 2\ndef h(x): return x + 1", made)
    assert key_of(made["f"]) != key_of(made["g"])
    assert key_of(made["f"]) == key_of(made["h"])  # only their names differ


def test_recursion():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert key_of(even) == key_of(even)
    assert key_of(even) != key_of(odd)


def test_installed_code_goes_by_name_and_version(monkeypatch):
    functions = [np.sum, np.exp, np.linalg.norm, len, sorted, os.path.join, np.ndarray, str.upper]
    assert len({key_of(function) for function in functions}) == len(functions)
    before = key_of(np.linalg.norm)
    monkeypatch.setattr(np, "__version__", "99")
    assert key_of(np.linalg.norm) != before


def test_files(tmp_path):
    path = tmp_path / "train.py"
    path.write_bytes(b"a = 1\nb = 2\n")
    key = key_of(path)
    assert key_of(str(path)) == key
    path.write_bytes(b"a = 1\r\nb = 2\r\n")
    assert key_of(path) == key
    path.write_bytes(b"a = 1\nb = 3\n")
    assert key_of(path) != key
    with pytest.raises(InvalidArgument, match=r"code\[0\]='.*nowhere\.py' cannot be read"):
        key_of(tmp_path / "nowhere.py")
    assert run_key({"out": tmp_path / "nowhere.py"})  # a setting: not read


# ------------------------------------------------------------------------------- values

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_copies_have_the_same_fingerprint(value):
    copy = eval(repr(value), {"nan": float("nan"), "inf": float("inf")})
    assert fingerprint(copy) == fingerprint(value)


@given(values, values)
def test_different_values_have_different_fingerprints(one, two):
    assert (fingerprint(one) == fingerprint(two)) == (plain(one) == plain(two))


def plain(value):
    if isinstance(value, dict):
        return str(sorted((key, plain(item)) for key, item in value.items())) + "by name"
    return str([plain(item) for item in value]) if isinstance(value, list) else repr(value)


def test_kinds_of_values_are_told_apart():
    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    @dataclasses.dataclass
    class Point:
        x: float
        y: float = 0.0

    shared = [1, 2]
    loop = []
    loop.append(loop)
    different = [
        *(None, 0, 0.0, -0.0, False, "0", b"0", 0j, [], {}, set(), [0], [[0]], [0, 0], {"a": 0}),
        *(np.zeros(2), np.zeros(2, np.float32), np.zeros((2, 1)), np.zeros(3), -np.zeros(2)),
        *(np.array(["a", None], object), np.array(["a", "b"], object), np.array(["a", "b"])),
        *(Colour.RED, Colour.BLUE, Point(1.0), Point(2.0), Point(1.0, 1.0), Fraction(1, 2)),
        *(np.random.default_rng(0), np.random.default_rng(1), np.random.RandomState(0)),
        *(Path("a"), Path("b"), loop, [shared, shared, 1], {1: "a"}, {"1": "a"}, ..., range(3)),
        *(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]}), pd.DataFrame({"a": [1, 3]})),
        *(pd.DataFrame({"a": [1, 2]}, index=[5, 6]), pd.DataFrame({"a": ["x", "y"]})),
        *(pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")),
    ]
    assert len({fingerprint(value) for value in different}) == len(different)


def test_values_that_are_the_same():
    array = np.arange(6.0).reshape(2, 3)
    same = [
        ([1, 2], (1, 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({3, 1, 2}, {1, 2, 3}),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (array, np.asfortranarray(array)),
        (array, array.astype(">f8")),
        ([array, array], [array, array.copy()]),  # sharing is no property of a value
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1], "b": [2]}).drop(columns="b")),
    ]
    for one, two in same:
        assert fingerprint(one) == fingerprint(two)


def test_what_cannot_be_told_apart_is_refused():
    lock = threading.Lock()

    def uses(x):
        with lock:
            return x

    with pytest.raises(InvalidArgument, match=r"code\[0\], in .*uses\(\), lock: a lock has no"):
        key_of(uses)
    with pytest.raises(InvalidArgument, match=r"configuration\['lock'\]: a lock has no"):
        run_key({"lock": lock})
    with pytest.raises(InvalidArgument, match=r"data\[1\]: a generator has no"):
        run_key({}, data=[1, (x for x in [1])])


# ------------------------------------------------------------------------------- the whole key


def test_every_part_counts(monkeypatch):
    key = run_key({"seed": 1}, code=[maker], data=[np.zeros(2)])
    assert len(key) == 64
    assert int(key, 16) >= 0
    others = [
        run_key({"seed": 2}, code=[maker], data=[np.zeros(2)]),
        run_key({"seed": 1}, code=[fingerprint], data=[np.zeros(2)]),
        run_key({"seed": 1}, code=[maker], data=[np.ones(2)]),
        run_key({"seed": 1}, code=[maker]),
    ]
    assert len({key, *others}) == 5
    monkeypatch.setattr(dpassay, "__version__", "9.9")
    assert run_key({"seed": 1}, code=[maker], data=[np.zeros(2)]) != key


def test_same_key_in_every_process(tmp_path):
    """Whatever the seed of Python's hashes, and wherever objects lie in memory."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    script = textwrap.dedent("""
        import sys; sys.path.insert(0, sys.argv[1])
        import numpy as np
        import program
        from dpassay.runs import run_key
        settings = {"set": set(sys.argv[2]), "seed": 1, "scale": program.Scale(3.0)}
        settings = dict(sorted(settings.items(), reverse=sys.argv[2] == "abc"))
        print(run_key(settings, code=[program.train, program.Scale], data=[np.arange(3)]))
    """)
    keys = set()
    for seed, letters in (("0", "abc"), ("1", "cab"), ("2", "bca")):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path), letters],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        keys.add(done.stdout.strip())
    sys.modules.pop("program", None)
    module = load(tmp_path, PROGRAM)
    settings = {"seed": 1, "scale": module.Scale(3.0), "set": {"c", "b", "a"}}
    keys.add(run_key(settings, code=[module.train, module.Scale], data=[np.arange(3)]))
    del sys.modules["program"]
    assert len(keys) == 1


def test_types_of_arrays_are_no_arrays():
    """A module that names such a type, as many do, must have a fingerprint."""
    floats, whole = (np.ndarray[tuple[int, ...], np.dtype[kind]] for kind in (np.float64, np.int64))
    assert fingerprint(floats) == fingerprint(np.ndarray[tuple[int, ...], np.dtype[np.float64]])
    assert fingerprint(floats) != fingerprint(whole)


def test_a_key_is_the_same_when_it_is_asked_for_again():
    """To describe an object writes __slotnames__ into its class, which others may refer to."""

    @dataclasses.dataclass
    class Inner:
        size: int

    @dataclasses.dataclass
    class Outer:
        inner: Inner

        def __call__(self):
            return Inner(self.inner.size)

    first, again = (run_key({}, code=[Outer(Inner(3))]) for _ in range(2))
    assert first == again
