"""Plain arrays say what the models say, missing entries included."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from dpassay.attacks.compiled import compile_trees
from dpassay.attacks.distinguisher import _fit_boosting, _fit_logistic


def rows(n, d=5, missing=0.1, seed=0):
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, n)
    table = rng.normal(size=(n, d)) + 0.7 * worlds[:, None]
    table[rng.random((n, d)) < missing] = np.nan
    return table, worlds


@pytest.mark.parametrize("fit", [_fit_boosting, _fit_logistic])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_single_rows_get_the_model_s_scores(fit, missing):
    learned = fit(*rows(400, missing=missing), 0)
    assert learned.single is not None
    fresh = rows(300, missing=missing, seed=1)[0]
    alone = np.concatenate([learned(row[None]) for row in fresh])
    np.testing.assert_allclose(alone, learned(fresh), rtol=0, atol=1e-11)


@pytest.mark.parametrize("leaves", [2, 8, 31, 60])
def test_trees_of_any_size(leaves):
    table, worlds = rows(3000, seed=2)
    model = HistGradientBoostingClassifier(max_iter=12, max_leaf_nodes=leaves, random_state=0)
    trees = compile_trees(model.fit(table, worlds))
    fresh = rows(300, seed=3)[0]
    alone = [trees.score(row) for row in fresh]
    np.testing.assert_allclose(alone, model.decision_function(fresh), rtol=0, atol=1e-11)


def test_what_cannot_be_compiled_is_left_to_the_model():
    table, worlds = rows(3000, seed=2)
    model = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=100, min_samples_leaf=2)
    assert compile_trees(model.fit(table, worlds)) is None
    assert compile_trees(object()) is None


def test_wrong_arrays_would_not_be_used(monkeypatch):
    from dpassay.attacks import distinguisher

    monkeypatch.setattr(distinguisher, "_FARTHEST", 0.1)  # where the pipeline clips, it does too
    assert _fit_logistic(*rows(300), 0).single is not None
    real = distinguisher.compile_trees
    monkeypatch.setattr(distinguisher, "compile_trees", lambda model: shifted(real(model)))
    assert _fit_boosting(*rows(300), 0).single is None


def shifted(trees):
    from dataclasses import replace

    return replace(trees, base=trees.base + 1)
