"""Fits with a fixed seed keep their numbers: one of every solver, as first released.

Whoever changes one of these changes what users' seeds mean: say so in CHANGELOG.md.
"""

import numpy as np
import pytest
from scipy import sparse

from dpassay.learn import PrivateLasso, PrivateLogisticRegression, PrivateRidge, PrivateSearchCV

RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (300, 4))
Y = X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * RNG.normal(size=300)
LABELS = np.digitize(Y, [-0.3, 0.3])
COMMON = {"neighbouring": "replace-one", "random_state": 0}
LINEAR = {"data_norm": 1.0, "calibrated": False}
TARGETS = {"target_bound": 3, "data_norm": 1.0}

# Estimator, its arguments, its first two coefficients.
GOLDEN = [
    (PrivateRidge, TARGETS | {"solver": "gd"}, [1.260373036, -1.227028863]),
    (PrivateRidge, TARGETS | {"solver": "adassp"}, [1.006179483, -0.8455367098]),
    (PrivateRidge, TARGETS | {"solver": "output"}, [1.09517369, -0.8392102982]),
    (PrivateRidge, {"bounds": (-1, 1), "target_bound": (-2, 3)}, [1.052647607, -0.9982924847]),
    (PrivateLogisticRegression, LINEAR | {"solver": "gd"}, [-3.871195381, 13.18154879]),
    (
        PrivateLogisticRegression,
        {"data_norm": 1.0, "solver": "frank-wolfe"},
        [-0.9090909091, 2.192513369],
    ),
    (
        PrivateLogisticRegression,
        {"data_norm": 1.0, "solver": "output"},
        [-1.231972846, 2.024744289],
    ),
    (
        PrivateLogisticRegression,
        {"data_norm": 1.0, "solver": "objective"},
        [-1.741100567, -0.5014856368],
    ),
    (
        PrivateLogisticRegression,
        {"bounds": (-1, 1), "solver": "sgd", "batch_size": 60, "max_iter": 20, "calibrated": False},
        [-6.396440696, 11.29675931],
    ),
    (PrivateLogisticRegression, {"data_norm": 1.0}, [-3.821320681, 13.13514965]),
    (PrivateLasso, TARGETS | {"radius": 2}, [0.8888888889, -0.4444444444]),
    (
        PrivateLasso,
        TARGETS | {"radius": 2, "loss": "clipped squared", "selection": "laplace"},
        [0.0, -0.6666666667],
    ),
    (
        PrivateLasso,
        {"bounds": (-1, 1), "target_bound": 3, "selection": "permute-and-flip"},
        [0.6666666667, -0.3333333333],
    ),
]


@pytest.mark.parametrize(("estimator", "options", "coefficients"), GOLDEN)
def test_a_fit_keeps_its_numbers(estimator, options, coefficients):
    model = estimator(2.0, 1e-6, **COMMON, **options)
    y = LABELS if estimator is PrivateLogisticRegression else Y
    model.fit(X if options.get("bounds") else sparse.csr_matrix(X), y)
    assert np.ravel(model.coef_)[:2] == pytest.approx(coefficients, rel=1e-6)
    assert model.privacy_.epsilon(1e-6) <= 2.0


def test_a_search_keeps_its_numbers():
    ridge = PrivateRidge(**TARGETS, neighbouring="replace-one")
    search = PrivateSearchCV(
        ridge,
        {"alpha": [0.1, 10.0]},
        epsilon=2.0,
        delta=1e-6,
        search_share=1,
        n_runs=3,
        random_state=1,
    ).fit(X, Y)
    found = [search.best_score_, search.best_params_["alpha"], *search.best_estimator_.coef_[:2]]
    assert found == pytest.approx([0.9990334309, 0.1, 1.230071929, -1.123125503], rel=1e-6)
