"""Audit a JAX training: noisy gradient descent that clips every gradient, or only their mean.

Clipping the mean looks like clipping and trains as well, but then one record may move the mean as
far as the norm allows, n times as far as the noise was made for.
Run it with ``python examples/jax_training.py`` (it needs ``dpassay[lab]``).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import dpassay as da

PUBLIC_N, STEPS, RATE, NOISE = 200, 16, 1.0, 8.0
CLAIM = da.GDP(STEPS**0.5 / NOISE)  # each step is 1/NOISE-GDP, of one record added or removed


def loss(w, x, y):
    return jnp.logaddexp(0.0, -y * (x @ w))


def clipped(gradient):
    return gradient / jnp.maximum(1.0, jnp.linalg.norm(gradient))


@partial(jax.jit, static_argnames="clip_each")
def train(data, key, clip_each=True):
    X, y = data

    def step(w, key):
        gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(w, X, y)
        if clip_each:
            mean = jax.vmap(clipped)(gradients).sum(axis=0) / PUBLIC_N
        else:
            mean = clipped(gradients.sum(axis=0) / PUBLIC_N)
        noise = NOISE / PUBLIC_N * jax.random.normal(key, w.shape)
        return w - RATE * (mean + noise), None

    return jax.lax.scan(step, jnp.zeros(X.shape[1]), jax.random.split(key, STEPS))[0]


def broken(data, key):
    return train(data, key, clip_each=False)


def neighbours() -> tuple:
    """A table with a canary at its end that no other record resembles, and without it."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(PUBLIC_N - 1, 5)) * [1, 1, 1, 1, 0], [[0, 0, 0, 0, 100.0]]])
    y = np.append(np.sign(X[:-1, 0]), 1.0)
    return (X, y), (X[:-1], y[:-1])


def main() -> None:
    for name, function in (("honest", train), ("broken", broken)):
        mechanism = da.auditing.from_jax(function)
        verdict = da.audit(mechanism, neighbours(), claim=CLAIM, score=lambda w: w[4], trials=150)
        print(f"{name}: {verdict}")


if __name__ == "__main__":
    main()
