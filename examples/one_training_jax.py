"""One training in JAX: a gradient transformation behind the noise.

DP-SGD by hand, with full batches: per-example gradients by ``vmap``, clipped and summed, noise, the
mean. The watch has the form of optax' transformations (``optax.chain(watch, optax.sgd(...))``),
but needs no optax. Its coins and sums are part of its state. ``data=`` hands over the gradients
without noise: an adversary who knows all other records knows them.

``python examples/one_training_jax.py`` (it needs ``dpassay[lab]``).
"""

import jax
import jax.numpy as jnp
from sklearn.datasets import load_digits

import dpassay as da

CLIP, NOISE, RECORDS, STEPS = 1.0, 4.0, 200, 16
images, labels = load_digits(return_X_y=True)
X, y = jnp.asarray(images[:RECORDS] / 16), jnp.asarray(labels[:RECORDS])


def loss(parameters, x, label):
    weights, biases = parameters
    return -jax.nn.log_softmax(x @ weights + biases)[label]


def clip(gradient):
    norm = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(gradient)))
    return jax.tree.map(lambda part: part * jnp.minimum(1, CLIP / norm), gradient)


def add_noise(total, key):
    leaves, form = jax.tree.flatten(total)
    keys = jax.random.split(key, len(leaves))
    noisy = [
        leaf + NOISE * CLIP * jax.random.normal(k, leaf.shape)
        for leaf, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(form, noisy)


watch = da.canaries.watch_gradients(
    noise_multiplier=NOISE, sampling_rate=1.0, clip=CLIP, divisor=RECORDS
)


@jax.jit
def step(parameters, state, key):
    rows = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, X, y)
    total = jax.tree.map(lambda part: part.sum(axis=0), jax.vmap(clip)(rows))
    mean = jax.tree.map(lambda part: part / RECORDS, total)
    noisy = jax.tree.map(lambda part: part / RECORDS, add_noise(total, key))
    noisy, state = watch.update(noisy, state, data=mean)  # the added line
    return jax.tree.map(lambda p, g: p - 0.5 * g, parameters, noisy), state


parameters = (jnp.zeros((64, 10)), jnp.zeros(10))
state = watch.init(parameters)
for key in jax.random.split(jax.random.PRNGKey(0), STEPS):
    parameters, state = step(parameters, state, key)
print(watch.judge(state, delta=1e-5))
