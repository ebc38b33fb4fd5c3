"""Estimators and JAX functions as mechanisms."""

import cloudpickle
import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpassay._rng import for_trial
from dpassay.attacks.features import features
from dpassay.auditing import from_estimator, from_jax
from dpassay.errors import InvalidArgument
from dpassay.runs import run_key
from extras import needs

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


class Noisy(BaseEstimator):
    """Publishes a draw of its own, and what it was given."""

    def __init__(self, random_state=None, inner=None):
        self.random_state = random_state
        self.inner = inner

    def fit(self, X, y=None):
        self.draw_ = np.random.default_rng(self.random_state).normal()
        return self


@pytest.mark.parametrize(
    "estimator",
    [
        Noisy(),
        Noisy(random_state=0),
        make_pipeline(StandardScaler(), SGDClassifier(max_iter=5, tol=None)),
        BaggingClassifier(SGDClassifier(max_iter=5, tol=None), n_estimators=2),
        RandomForestClassifier(2),
    ],
)
def test_noise_comes_from_the_trial(estimator):
    mechanism = from_estimator(estimator)
    rows = [features(mechanism((X, Y), for_trial(0, trial))) for trial in (1, 2, 1)]
    np.testing.assert_array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], rows[1])


def test_every_seed_is_set_and_each_is_its_own():
    mechanism = from_estimator(Noisy(random_state=0, inner=Noisy(random_state=0)))
    model = mechanism((X, Y), for_trial(0, 0))
    assert 0 != model.random_state != model.inner.random_state != 0
    assert mechanism.estimator.random_state == 0
    assert mechanism.estimator.inner.random_state == 0


def test_without_a_generator_it_stays_as_it_is():
    mechanism = from_estimator(Noisy())
    assert mechanism((X, Y), None).random_state is None
    assert mechanism((X, Y), None).draw_ != mechanism((X, Y), None).draw_
    assert from_estimator(Noisy(random_state=7))((X, Y), None).random_state == 7


def test_what_is_published():
    plain = LinearRegression()
    mechanism = from_estimator(plain, output=lambda model: model.predict(X[:1])[0])
    assert mechanism((X, X[:, 0]), for_trial(0, 0)) == pytest.approx(X[0, 0])
    assert not hasattr(plain, "coef_")
    clusters = from_estimator(KMeans(2, n_init=1))(X, for_trial(0, 0))
    assert clusters.cluster_centers_.shape == (2, 3)


def test_estimators_are_sent_and_keyed():
    mechanism = from_estimator(LogisticRegression(C=2.0))
    again = cloudpickle.loads(cloudpickle.dumps(mechanism))
    np.testing.assert_array_equal(
        mechanism((X, Y), for_trial(0, 0)).coef_, again((X, Y), for_trial(0, 0)).coef_
    )

    def key(estimator):
        return run_key({}, code=[from_estimator(estimator)])

    assert key(LogisticRegression(C=2.0)) == key(LogisticRegression(C=2.0))
    assert key(LogisticRegression(C=2.0)) != key(LogisticRegression(C=3.0))


@pytest.mark.parametrize(
    ("estimator", "output", "named"),
    [
        (LogisticRegression, None, "estimator"),
        (3, None, "estimator"),
        (LogisticRegression(), "predict", "output"),
    ],
)
def test_no_estimator(estimator, output, named):
    with pytest.raises(InvalidArgument, match=named):
        from_estimator(estimator, output=output)


# ------------------------------------------------------------------------------------- JAX


def trained(data, key):
    import jax

    keys = jax.random.split(key)
    return {"w": data.sum(axis=0) + jax.random.normal(keys[0], (2,)), "b": (keys[1].shape, [1.0])}


def test_jax_functions():
    jax = needs("jax", "lab")
    mechanism = from_jax(trained)
    data = np.ones((3, 2))
    trees = [mechanism(data, for_trial(0, trial)) for trial in (1, 2, 1)]
    assert isinstance(trees[0]["w"], np.ndarray)
    assert features(trees[0])[0] == 3.0
    np.testing.assert_array_equal(features(trees[0]), features(trees[2]))
    assert trees[0]["w"][0] != trees[1]["w"][0]
    assert mechanism(data, None)["w"][0] != mechanism(data, None)["w"][0]
    compiled = from_jax(jax.jit(lambda data, key: trained(data, key)["w"]), output=lambda w: w[0])
    np.testing.assert_allclose(compiled(data, for_trial(0, 1)), trees[0]["w"][0], rtol=1e-6)


def test_keys_of_all_trials_differ():
    """Seeds of 32 bits would meet after some 10^5 trials."""
    jax = needs("jax", "lab")
    mechanism = from_jax(lambda data, key: jax.random.key_data(key))
    keys = np.array([mechanism(None, for_trial(0, trial)) for trial in range(50)])
    assert keys.dtype == np.uint32
    assert len(np.unique(keys[:, 0])) > 45
    assert len(np.unique(keys[:, 1])) > 45


def test_jax_functions_are_sent_and_keyed():
    jax = needs("jax", "lab")
    compiled = jax.jit(lambda data, key: data * 2.0)
    again = cloudpickle.loads(cloudpickle.dumps(from_jax(compiled)))
    assert again(np.ones(2), for_trial(0, 0)).tolist() == [2.0, 2.0]

    def key(function):
        return run_key({}, code=[from_jax(function)])

    assert key(compiled) == key(compiled) != key(jax.jit(lambda data, key: data * 3.0))


def test_no_function():
    with pytest.raises(InvalidArgument, match="train=3"):
        from_jax(3)
    with pytest.raises(InvalidArgument, match="output=3"):
        from_jax(trained, output=3)
