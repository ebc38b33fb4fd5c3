from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from dpassay.attacks.features import MAX_FEATURES, describe, features, stack


@pytest.mark.parametrize(
    ("output", "row"),
    [
        (3, [1, 3]),
        (2.5, [1, 2.5]),
        (True, [1, 1]),
        (1 + 2j, [2, 1, 2]),
        ([1, [2, 3]], [3, 1, 2, 3]),
        ((np.eye(2), 7), [5, 1, 0, 0, 1, 7]),
        ({"b": 2, "a": [1]}, [2, 1, 2]),
        (np.array([[True, False]]), [2, 1, 0]),
        ([], [0]),
        (pd.DataFrame({"x": [1, 2], "y": [3, 4]}), [4, 1, 3, 2, 4]),
        (float("inf"), [1, np.inf]),
    ],
)
def test_flattening(output, row):
    np.testing.assert_array_equal(features(output), row)


def test_texts_are_equal_only_to_themselves():
    a, b = features("yes"), features("no")
    assert a[1] != b[1]
    np.testing.assert_array_equal(a, features("yes"))
    assert features(b"yes")[1] == a[1]
    assert np.isnan(features(None)[1])


def test_models_by_what_they_learned():
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
    np.testing.assert_allclose(features(model), [2, 2.0, 1.0])


def test_long_outputs_are_cut_evenly():
    row = features(np.arange(10 * MAX_FEATURES))
    assert row[0] == 10 * MAX_FEATURES
    assert row.size == MAX_FEATURES + 1
    assert row[1] == 0
    assert row[-1] == 10 * MAX_FEATURES - 1


def test_rows_of_different_lengths():
    table = stack([np.array([1.0]), np.array([2.0, 3.0])])
    np.testing.assert_array_equal(table, [[1, np.nan], [2, 3]])
    assert stack([]).shape == (0, 0)
    assert describe(features([1, 2])) == "2 number(s)"


def test_models_by_their_parts():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    for model in (
        make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)),
        RandomForestClassifier(2, random_state=0),
        SVC(),
    ):
        row, again = features(model.fit(X, y)), features(model.fit(X, y))
        other = features(model.fit(X + rng.normal(size=X.shape), y))
        assert row[0] > 10
        np.testing.assert_array_equal(row, again)
        assert not np.array_equal(row, other)


def test_dataclasses():
    @dataclass
    class Parameters:
        weights: np.ndarray
        bias: float

    assert features(Parameters(np.array([1.0, 2.0]), 3.0)).tolist() == [3, 1, 2, 3]
