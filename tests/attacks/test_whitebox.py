import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpassay.attacks import full_vector, white_box_features
from dpassay.attacks.whitebox import dense_layers
from dpassay.errors import InvalidArgument

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 4))
Y3, Y2 = np.array(list("abc" * 4)), np.array([5, 7] * 6)
TARGET = X @ [1.0, -2.0, 0.5, 0.0]


def mlp(activation, y, hidden=(5, 3), kind=MLPClassifier):
    model = kind(hidden_layer_sizes=hidden, activation=activation, random_state=1, solver="sgd")
    more = {"classes": np.unique(y)} if kind is MLPClassifier else {}
    return model.partial_fit(X, y, **more)


MODELS = {
    "softmax": (LogisticRegression().fit(X, Y3), Y3),
    "logistic": (LogisticRegression().fit(X, Y2), Y2),
    "no intercept": (LogisticRegression(fit_intercept=False).fit(X, Y3), Y3),
    "least squares": (LinearRegression().fit(X, TARGET), TARGET),
    "ridge": (Ridge().fit(X, TARGET), TARGET),
    "relu": (mlp("relu", Y3), Y3),
    "tanh": (mlp("tanh", Y3), Y3),
    "sigmoid, two classes": (mlp("logistic", Y2, (4,)), Y2),
    "regression": (mlp("tanh", TARGET, (3,), MLPRegressor), TARGET),
}


def losses(model, y):
    if not hasattr(model, "predict_proba"):
        return (model.predict(X).ravel() - y) ** 2 / 2
    p = model.predict_proba(X)
    return -np.log(p[np.arange(len(y)), np.searchsorted(model.classes_, y)])


def parameters(model):
    """The arrays of the model, layer by layer: weights (inputs by outputs), intercepts."""
    if hasattr(model, "coefs_"):
        return list(zip(model.coefs_, model.intercepts_, strict=True))
    model.coef_ = np.atleast_1d(model.coef_).astype(float)
    model.intercept_ = np.array(np.atleast_1d(model.intercept_), dtype=float)
    return [(np.atleast_2d(model.coef_).T, model.intercept_)]


def numeric(model, y, array, index, step=1e-6):
    keep = array[index]
    ends = []
    for sign in (1, -1):
        array[index] = keep + sign * step
        ends.append(losses(model, y))
    array[index] = keep
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_derivatives_of_the_loss(name):
    model, y = MODELS[name]
    for layer, (w, b) in zip(dense_layers(model, X, y), parameters(model), strict=True):
        found = layer.gradients
        assert found.shape == (12, w.size + b.size if "no" not in name else w.size + w.shape[1])
        for flat in range(w.size):
            index = np.unravel_index(flat, w.shape)
            np.testing.assert_allclose(found[:, flat], numeric(model, y, w, index), atol=1e-7)
        if "no intercept" not in name:
            for i in range(b.size):
                np.testing.assert_allclose(found[:, w.size + i], numeric(model, y, b, i), atol=1e-7)
        np.testing.assert_allclose(layer.gradient_norms, np.linalg.norm(found, axis=1))


@pytest.mark.parametrize("name", ["softmax", "relu", "sigmoid, two classes"])
def test_the_last_activation_is_the_output(name):
    model, y = MODELS[name]
    p = model.predict_proba(X)
    last = dense_layers(model, X, y)[-1].activations
    np.testing.assert_allclose(last, p if last.shape[1] > 1 else p[:, 1:], rtol=1e-6)


def test_the_printed_vector_has_all_its_parts():
    """Seed 004, section 2.2.3: per layer gradient and activation, then the output."""
    model, y = MODELS["relu"]
    first, second, last = dense_layers(model, X, y)
    v = full_vector(model, X, y)
    assert v.shape == (12, (25 + 5) + (18 + 3) + (12 + 3) + 3)
    np.testing.assert_array_equal(v[:, :25], first.gradients)
    np.testing.assert_array_equal(v[:, 25:30], first.activations)
    np.testing.assert_array_equal(v[:, 30:48], second.gradients)
    np.testing.assert_allclose(v[:, -3:], model.predict_proba(X))
    np.testing.assert_array_equal(v[:, -6:-3], last.activations)


def test_features_do_not_depend_on_the_order_of_neurons():
    model, y = MODELS["relu"]
    before = white_box_features(model, X, y)
    order = [2, 0, 4, 1, 3]
    keep = model.coefs_, model.intercepts_
    model.coefs_ = [keep[0][0][:, order], keep[0][1][order], keep[0][2]]
    model.intercepts_ = [keep[1][0][order], *keep[1][1:]]
    after = white_box_features(model, X, y)
    model.coefs_, model.intercepts_ = keep
    np.testing.assert_allclose(after, before, atol=1e-10)
    assert before.shape == (12, (1 + 5 + 5) + (1 + 3 + 3) + (1 + 3 + 3) + 1 + 3)


def test_a_pipeline_is_its_last_step():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y3)
    inner = white_box_features(pipeline[-1], pipeline[:-1].transform(X), Y3)
    np.testing.assert_allclose(white_box_features(pipeline, X, Y3), inner)


def test_a_regression_ends_with_its_loss():
    model, y = MODELS["ridge"]
    np.testing.assert_allclose(white_box_features(model, X, y)[:, -1], losses(model, y))


def test_other_models_need_features_of_their_own():
    with pytest.raises(InvalidArgument, match="Pass features="):
        white_box_features(object(), X, Y3)
    with pytest.raises(InvalidArgument, match=r"y\[0\] is a class that the model never learned"):
        white_box_features(MODELS["softmax"][0], X, np.array(["z"] * 12))
