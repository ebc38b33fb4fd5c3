"""A white-box attack on a JAX network: gradients and activations beside plain outputs.

The target learns its records by heart. The attacker trains four networks like it on records of its
own and learns from them how members look: from outputs alone, then from the inside as well.
Run it with ``python examples/white_box_jax.py`` (it needs ``dpassay[lab]``). With the folder of
data sets in DPASSAY_DATA it attacks Location-30, without it a made-up table of the same kind.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpassay.attacks import attack, train_shadows
from dpassay.datasets import DatasetMissing, load_location30, made_up_profiles


def load():
    """Rows of bits and their classes."""
    try:
        data, scale = load_location30(), 446
    except DatasetMissing:
        data, scale = made_up_profiles(1600, 60, 5), 60
    X, y = np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    order = np.random.default_rng(0).permutation(len(y))
    return (X[order] * scale**0.5).astype(np.float32), y[order]


def hidden(p, x):
    return jax.nn.relu(x @ p["w1"] + p["b1"])


def loss(p, x, label):
    return -jax.nn.log_softmax(hidden(p, x) @ p["w2"] + p["b2"])[label]


@jax.jit
def fitted(p, X, labels):
    """Gradient descent with momentum, 300 steps."""

    def mean_loss(p):
        return jax.vmap(loss, (None, 0, 0))(p, X, labels).mean()

    def step(state, _):
        p, speed = state
        gradient = jax.grad(mean_loss)(p)
        speed = jax.tree.map(lambda v, g: 0.9 * v - 0.1 * g, speed, gradient)
        return (jax.tree.map(jnp.add, p, speed), speed), None

    return jax.lax.scan(step, (p, jax.tree.map(jnp.zeros_like, p)), length=300)[0][0]


class Network:
    """What the attacks need of a target: ``classes_`` and ``predict_proba``."""

    def __init__(self, parameters, classes):
        self.parameters, self.classes_ = parameters, classes

    def predict_proba(self, X):
        p = self.parameters
        scores = np.asarray(hidden(p, X) @ p["w2"] + p["b2"], dtype=float)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)


def train(X, y, rng):
    classes, labels = np.unique(y, return_inverse=True)
    sizes = {"w1": (X.shape[1], 64), "b1": (64,), "w2": (64, len(classes)), "b2": (len(classes),)}
    start = {name: 0.1 * rng.normal(size=size) for name, size in sizes.items()}
    start = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), start)
    return Network(fitted(start, jnp.asarray(X), jnp.asarray(labels)), classes)


@jax.jit
def inside(p, X, labels):
    def of_record(x, label):
        gradients = jax.grad(loss)(p, x, label)
        norms = jnp.stack([jnp.linalg.norm(g) for g in jax.tree.leaves(gradients)])
        return jnp.concatenate([jnp.log(norms + 1e-30), -jnp.sort(-hidden(p, x))])

    return jax.lax.map(lambda record: of_record(*record), (X, labels), batch_size=100)


def features(model, X, y):
    """Per record: the gradient norm of every parameter, and the sorted hidden layer.

    Neurons of different networks have no common order: norms and sorting do without one.
    """
    labels = jnp.asarray(np.searchsorted(model.classes_, y))
    return np.asarray(inside(model.parameters, jnp.asarray(X), labels))


X, y = load()
n = len(X) // 4
target = train(X[:n], y[:n], np.random.default_rng(0))
members, others = (X[:n], y[:n]), (X[n : 2 * n], y[n : 2 * n])
shadows = train_shadows(train, (X[2 * n :], y[2 * n :]), n_shadows=4, features=features)
black = attack(target, members, others, method="shadow", shadows=shadows)
white = attack(target, members, others, method="white-box", shadows=shadows, features=features)
print("black box: AUC", black.auc)
print("white box: AUC", white.auc)
print("at least as good within its interval:", white.auc.upper >= black.auc.value)
