import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.auditing import judge
from dpassay.auditing.neighbours import check_neighbours
from dpassay.errors import InvalidArgument
from dpassay.report import audit_report

X = np.arange(12.0).reshape(6, 2)
y = np.arange(6)
other = X.copy()
other[3] = -1
frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})


@pytest.mark.parametrize(
    ("data", "prime", "relation"),
    [
        (X, X[:-1], "add-remove"),
        (X[1:], X, "add-remove"),
        (X, X[::-1][:-1], "add-remove"),
        (X, other, "replace-one"),
        ((X, y), (X[1:], y[1:]), "add-remove"),
        ((X, y), (X, np.array([0, 1, 2, 3, 4, 9])), "replace-one"),
        (frame, frame.iloc[:2], "add-remove"),
        (frame.iloc[::-1], frame.assign(b=["x", "y", "longer"]), "replace-one"),
        (frame.assign(b=["x", "y", "longer"]), frame.iloc[:2], "add-remove"),
        ([1, 2, 3], [1, 2], "add-remove"),
        ([1, 2, 3], np.array([3.0, 1.0]), "add-remove"),
        ([1, 2], [3, 1], "replace-one"),
        ([1], [], "add-remove"),
        ([1, 2, "a"], [1, 2], "add-remove"),
        ([[1, 2], [3]], [[1, 2]], "add-remove"),
        ([2**60, 2**60 + 1, 5], [5, 2**60], "add-remove"),
        ([np.nan, 0.0, 1.0], [np.nan, -0.0], "add-remove"),
        ([{"a": 1}, {"a": 2}], [{"a": 2}], "add-remove"),
        ([(1, "x"), (2, "y")], [(1, "x")], "add-remove"),
        (((1, 2), (3, 4), (5, 6)), ((1, 2), (5, 6)), "add-remove"),
        (np.zeros(3), np.zeros(4), "add-remove"),
        (np.zeros((3, 2, 2)), np.zeros((4, 2, 2)), "add-remove"),
        (pd.Series([1, 2, 3]), pd.Series([1, 3]), "add-remove"),
        ("banana", "banan", "add-remove"),
        ({"ann": 3, "bob": 4}, {"bob": 4}, "add-remove"),
        ({"ann": 3, "bob": 4}, {"ann": 5, "bob": 4}, "replace-one"),
        ({"X": X, "y": y}, {"X": X[1:], "y": y[1:]}, "add-remove"),
        ({"ann": X[0], "bob": X[1]}, {"ann": X[0]}, "add-remove"),
        (([1, 2, 3], ["a", "b", "c"]), ([1, 3], ["a", "c"]), "add-remove"),
        ({1, 2, 3}, {1, 2}, "add-remove"),
    ],
)
def test_neighbours_pass(data, prime, relation):
    assert check_neighbours(data, prime, relation)


@pytest.mark.parametrize("data", [5.0, None, object(), np.float64(3.0), (X, y[:3])])
def test_no_records_to_be_seen(data):
    assert not check_neighbours(data, data, "add-remove")


def test_tensors():
    torch = pytest.importorskip("torch")
    table = torch.tensor(X, requires_grad=True)
    assert check_neighbours(table, table[1:], "add-remove")
    assert check_neighbours((table, torch.tensor(y)), (X[1:], y[1:]), "add-remove")
    with pytest.raises(InvalidArgument, match="5 record"):
        check_neighbours(table, table[:1], "add-remove")


@pytest.mark.parametrize(
    ("data", "prime", "relation"),
    [
        (X, X, "add-remove"),
        (X, X[:-2], "add-remove"),
        (X, other, "add-remove"),
        (X, X[:-1], "replace-one"),
        ((X, y), (X, y + 1), "replace-one"),
        (frame, frame.assign(b="q"), "replace-one"),
        ([1, 2], [3, 4, 5], "add-remove"),
        ([1, 2, 3, 4, 5, 6], [1], "add-remove"),
        ([1, 2, 3], [1, 2, 4], "add-remove"),
        (np.zeros(3), np.ones(4), "replace-one"),
        (np.arange(3.0), np.arange(3.0) + 1, "add-remove"),
        (["ann", "bob", "eve"], ["ann"], "add-remove"),
        ("banana", "ban", "add-remove"),
        ({"ann": 3, "bob": 4}, {"ann": 4, "bob": 3}, "replace-one"),
        ({1, 2, 3}, {1}, "add-remove"),
        ([X[0], X[1]], [X[2]], "replace-one"),
    ],
)
def test_strangers_are_refused(data, prime, relation):
    with pytest.raises(InvalidArgument, match="data"):
        check_neighbours(data, prime, relation)


def test_groups():
    check_neighbours(X, X[:-2], "add-remove", group=2)
    with pytest.raises(InvalidArgument, match="neighbours"):
        check_neighbours(X, X[:-3], "add-remove", group=2)
    with pytest.raises(InvalidArgument, match="group"):
        check_neighbours(X, X[:-1], "add-remove", group=0)


def noisy_count(data, rng):
    return len(data) + rng.laplace()


def test_an_honest_count_is_not_refuted_by_strangers():
    strangers = ([1, 2, 3, 4, 5, 6], [1])
    with pytest.raises(InvalidArgument, match=r"5 record.*neighbours=\"trusted\""):
        da.audit(noisy_count, strangers, claim=da.PureDP(1.0), score=float)
    with pytest.raises(InvalidArgument, match="neighbours='maybe'"):
        da.audit(noisy_count, strangers, claim=da.PureDP(1.0), neighbours="maybe")  # type: ignore[arg-type]


def shown(verdict):
    report = audit_report(verdict, title="t")
    return dict(report.data["audits"][0]["attack"]["rows"])["Neighbouring data sets"]


@pytest.mark.parametrize(
    ("pair", "neighbours", "seen", "sentence"),
    [
        (([1, 2], [1]), "checked", "checked", "checked: the two data sets are neighbours"),
        (([1, 2], [7]), "trusted", "trusted", "nobody checked: they were trusted"),
        (("ab", "a"), "checked", "checked", "checked"),
        ((range(2), range(1)), "checked", "unseen", "nobody checked: what a record is"),
    ],
)
def test_the_verdict_says_who_checked(pair, neighbours, seen, sentence, tmp_path):
    log = tmp_path / "run.db"
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 30, "neighbours": neighbours}
    verdict = da.audit(noisy_count, pair, **options, store=log)
    assert verdict.neighbours == judge(log).neighbours == seen
    assert shown(verdict).startswith(sentence)
