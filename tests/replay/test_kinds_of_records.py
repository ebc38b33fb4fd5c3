"""Records that are not rows of numbers: texts, categories, dates, fields of dicts and classes."""

import dataclasses
import datetime
from collections import Counter, namedtuple

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.replay.neighbours import candidates

TOWNS = ["a"] * 40
TOWNS[20] = "b"
FRAME = pd.DataFrame({"town": TOWNS, "value": np.linspace(0, 1, 40)})


@dataclasses.dataclass
class Person:  # with __eq__ and without __hash__
    age: int
    town: str


Row = namedtuple("Row", ["age", "town"])


def rules_of(release, data, claim="1.0", **options):
    return [finding.rule for finding in da.check(release, data, claim, **options).findings]


def neighbours_of(data, relation="add-remove"):
    return [*candidates(data, relation, np.random.default_rng(0))]


def count_known(column):
    def release(frame, rng):
        sizes = frame.groupby(column, observed=False).size().reindex(["a", "b"], fill_value=0)
        return sizes + rng.laplace(scale=1.0, size=2)

    return release


def publish_keys(column):
    def release(frame, rng):
        sizes = frame.groupby(column).size()
        return sizes + rng.laplace(size=len(sizes))

    return release


@pytest.mark.parametrize("kind", ["object", "string"])
def test_groups_that_occur_are_found_in_a_frame(kind):
    frame = FRAME.astype({"town": kind})
    assert rules_of(count_known("town"), frame) == []
    found = da.check(publish_keys("town"), frame, "1.0")
    assert [finding.rule for finding in found.findings] == ["DPA103"]
    assert found.findings[0].execution <= 20


def test_the_row_of_the_rarest_value_is_taken_out():
    gone = [part for part in neighbours_of(FRAME) if part.edit.kind == "remove"]
    assert any(set(part.data["town"]) == {"a"} for part in gone)


def test_every_text_column_is_varied():
    wide = pd.DataFrame(dict.fromkeys("pqrstu", TOWNS))
    added = [part.data.iloc[-1] for part in neighbours_of(wide) if part.edit.kind == "add"]
    for name in wide:
        assert {row[name] for row in added} >= {"a", "b", "\u2020"}
    assert len(added) < 12


def test_a_declared_category_that_does_not_occur_is_tried():
    towns = pd.Categorical(TOWNS, categories=["a", "b", "c"])
    frame = FRAME.assign(town=towns)
    added = [part.data for part in neighbours_of(frame) if part.edit.kind == "add"]
    assert {data["town"].iloc[-1] for data in added} == {"a", "b", "c"}
    assert all(data["town"].dtype == frame["town"].dtype for data in added)

    def dropped(frame, rng):
        return publish_keys("town")(frame.assign(town=frame["town"].astype(str)), rng)

    assert rules_of(dropped, frame) == ["DPA103"]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_dates_outside_the_range_seen(relation):
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-03"] * 5, dtype="datetime64[D]")

    def by_range(days, rng):
        first = days.min()
        length = int((days.max() - first).astype(int)) + 1
        return np.bincount((days - first).astype(int)) + rng.laplace(scale=2.0, size=length)

    claim = da.PureDP(1.0, neighbouring=relation)
    assert rules_of(by_range, days, claim) == ["DPA103"]
    assert rules_of(lambda d, rng: by_range(d["day"].to_numpy().astype("datetime64[D]"), rng),
                    pd.DataFrame({"day": days}), claim) == ["DPA103"]  # fmt: skip


def weigh(scale, read):
    """Records of town b count three times."""

    def release(people, rng):
        return sum(3 if read(p) == "b" else 1 for p in people) + rng.laplace(scale=scale)

    return release


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (lambda age, town: {"age": age, "town": town}, lambda r: r["town"]),
        (lambda age, town: (age, town), lambda r: r[1]),
        (lambda age, town: [age, town], lambda r: r[1]),
        (Person, lambda r: r.town),
        (Row, lambda r: r.town),
    ],
    ids=["dict", "tuple", "list", "dataclass", "namedtuple"],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_fields_of_records_are_varied(kind, read, relation):
    people = [kind(30 + i, town) for i, town in enumerate(TOWNS)]
    claim = da.PureDP(1.0, neighbouring=relation)
    assert rules_of(weigh(3.0, read), people, claim) == []
    assert rules_of(weigh(1.0, read), people, claim) == ["DPA202"]
    assert {type(part.data[-1]) for part in neighbours_of(people)} == {type(people[0])}


def test_numbers_in_fields_are_varied():
    people = [{"age": 30.0 + i, "town": town} for i, town in enumerate(TOWNS)]

    def total(people, rng):
        return sum(p["age"] for p in people) + rng.laplace(scale=50.0)

    assert rules_of(total, people, "1.4", bounds=(0.0, 70.0)) == []
    assert rules_of(total, people, "1.4") == ["DPA202"]


def test_a_value_that_a_class_refuses_is_no_record():
    @dataclasses.dataclass(frozen=True)
    class Checked:
        town: str

        def __post_init__(self):
            if self.town not in ("a", "b"):
                raise ValueError("no such town")

    people = [Checked(town) for town in TOWNS]
    assert {p.town for part in neighbours_of(people) for p in part.data} == {"a", "b"}
    assert rules_of(weigh(1.0, lambda p: p.town), people) == ["DPA202"]


def test_fields_of_a_structured_array():
    people = np.array([*enumerate(TOWNS)], dtype=[("age", "f8"), ("town", "U3")])
    assert rules_of(weigh(3.0, lambda p: p["town"]), people) == []
    assert rules_of(weigh(1.0, lambda p: p["town"]), people) == ["DPA202"]


@pytest.mark.parametrize(
    "data",
    [
        [{"a", "b"}, {"b"}, {"c", "a"}, set()],
        [[1], [1, 2, 3], [], [4, 4]],
        [np.zeros(2), np.zeros(3), np.ones(1)],
        [Person(30, "a"), Person(31, "b")],
        [None, 1.0, 2.0],
        [{"a": 1}, {"b": 2}, {}],
        [[1, 2], [3, {"x"}]],
    ],
    ids=["sets", "lists", "arrays", "dataclasses", "missing", "keys", "unhashable"],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_records_of_all_kinds_can_be_varied(data, relation):
    def release(data, rng):
        return len(data) + rng.laplace()

    found = da.check(release, data, da.PureDP(1.0, neighbouring=relation))
    assert found.findings == ()
    assert found.pairs >= 2


def test_pairs_of_token_lists_and_labels():
    def release(data, rng):
        texts, labels = data
        return sum(len(t) > 1 for t in texts) + sum(labels) + rng.laplace(scale=2.0)

    data = ([[1], [1, 2, 3], [], [4, 4]], [0, 1, 1, 0])
    assert rules_of(release, data) == []
    assert rules_of(release, data, "0.4") == ["DPA202"]


def test_a_longer_record_moves_more():
    def all_tokens(records, rng):
        return sum(map(len, records)) + rng.laplace(scale=2.0)

    assert rules_of(all_tokens, [[1], [1, 2], [], [4, 4, 4]], "1.4") == ["DPA202"]


WORDS = ["the"] * 30 + ["and"] * 25 + ["privacy"] * 18 + ["zeugma"] + ["noise"] * 3


def test_words_that_are_dropped_by_their_true_count():
    def release(words, rng):
        counted = sorted(Counter(words).items())
        return {word: n + rng.laplace() for word, n in counted if n >= 2}

    for data in (WORDS, np.array(WORDS), pd.Series(WORDS)):
        found = da.check(release, data, "1.0,1e-5")
        assert [finding.rule for finding in found.findings] == ["DPA101"]
        assert found.findings[0].execution <= 7


def test_no_record_is_quoted():
    secrets = [f"secret{i}" for i in range(6)]
    frame = pd.DataFrame({"name": secrets, "value": range(6)})
    for part in (*neighbours_of(frame), *neighbours_of(secrets)):
        assert "secret" not in str(part)


def test_the_row_of_the_rarest_value_is_replaced():
    """Where n is fixed, the only row of a category goes when another record takes its place."""
    known = [set(part.data["town"]) for part in neighbours_of(FRAME, "replace-one")]
    assert {"a"} in known
    claim = da.PureDP(1.0, neighbouring="replace-one")
    towns = FRAME.assign(town=pd.Categorical(TOWNS))  # no other category is declared

    def release(frame, rng):
        sizes = frame["town"].astype(str).value_counts().sort_index()
        return sizes + rng.laplace(scale=2.0, size=len(sizes))

    assert rules_of(release, towns, claim) == ["DPA103"]


def test_a_value_that_no_code_is_declared_for_is_a_warning():
    """Outside of the declared domain NaN enters the sum, which an honest program may refuse."""
    frame = pd.DataFrame({"sex": ["m", "f"] * 10})

    def release(frame, rng):
        return frame["sex"].map({"m": 0.0, "f": 1.0}).to_numpy().sum() + rng.laplace()

    found = da.check(release, frame, "1.0")
    assert found.findings == ()
    assert [warning.rule for warning in found.warnings] == ["DPA601"]
    declared = frame.astype({"sex": "category"})
    assert da.check(release, declared, "1.0").warnings == ()


def test_how_to_declare_the_values_of_a_column_is_said():
    def release(frame, rng):
        return frame["sex"].map({"m": 0.0, "f": 1.0}).fillna(5.0).sum() + rng.laplace()

    found = da.check(release, pd.DataFrame({"sex": ["m", "f"] * 10}), "1.0")
    assert "declare those that can as categories" in found.findings[0].message


DAY = datetime.date(2024, 1, 1)


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"empty": [None, None], "x": ["a", None]}),
        pd.DataFrame({"t": pd.to_datetime(["2024-01-01", None]).tz_localize("UTC")}),
        pd.DataFrame({"x": ["a", "b", "b"]}, index=[7, 7, 7]),
        pd.DataFrame({"s": [{1}, {2}], "flag": [True, True]}),
        np.array([["a", "b"], ["c", "b"]]),
        np.array([["2024-01-01"], ["2024-01-03"]], dtype="datetime64[D]"),
        np.array(["2024", "NaT"], dtype="datetime64[Y]"),
        [{"day": DAY, "n": 1}, {"day": DAY, "n": 1.5}, {"day": DAY, "n": None}],
        [np.int64(3), np.int64(4)],
        [DAY, None],
        (pd.DataFrame({"x": ["a", "b"], "v": [1.0, 2.0]}), np.array([0, 1])),
        (["a", "b", "b"], [0, 1, 1]),
        pd.Series(["a", "b", None], dtype="category"),
    ],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_unusual_tables_can_be_varied(data, relation):
    found = neighbours_of(data, relation)
    assert len(found) >= 2
    for part in found:
        other = part.data if not isinstance(data, tuple) else part.data[0]
        assert type(other) is type(data if not isinstance(data, tuple) else data[0])
