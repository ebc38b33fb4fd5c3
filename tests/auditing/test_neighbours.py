import numpy as np
import pandas as pd
import pytest

from dpassay.auditing.neighbours import check_neighbours
from dpassay.errors import InvalidArgument

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
        (5.0, 7.0, "add-remove"),
        ([1, 2], [3, 4, 5], "add-remove"),
        (np.zeros(3), np.ones(4), "replace-one"),
    ],
)
def test_neighbours_pass(data, prime, relation):
    check_neighbours(data, prime, relation)


@pytest.mark.parametrize(
    ("data", "prime", "relation"),
    [
        (X, X, "add-remove"),
        (X, X[:-2], "add-remove"),
        (X, other, "add-remove"),
        (X, X[:-1], "replace-one"),
        ((X, y), (X, y + 1), "replace-one"),
        (frame, frame.assign(b="q"), "replace-one"),
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
