"""Ghost norms against gradients that were formed, in our own network and in Opacus."""

from itertools import pairwise

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.nets import Conv, Dense, Flatten, Network, Relu, cnn, mlp, softmax
from dpassay.nets._jax import jax, jnp
from dpassay.nets.layers import LARGE
from extras import needs

NETWORKS = {
    "softmax": softmax(7, 3),
    "mlp": mlp([7, 6, 5, 3]),
    "tanh": mlp([7, 6, 3], activation="tanh"),
    "cnn": cnn((9, 8, 2), (3, 4), size=3, stride=2, padding=1, hidden=5, n_classes=3),
    # Few places and many channels: norms come from places, not from gradients.
    "wide": Network((4, 4, 3), (Conv(12, 3), Relu(), Conv(16, 2), Relu(), Flatten(), Dense(3))),
}
each_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def batch(network, n=10, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    x = size * rng.normal(size=(n, *network.input_shape)).astype(np.float32)
    return jnp.asarray(x), jnp.asarray(rng.integers(0, network.n_classes, n)), network.start(rng)


def formed(network, parameters, x, y):
    """Every example's gradient, by automatic differentiation."""
    loss = lambda p, x, y: network.losses(p, x[None], y[None])[0]  # noqa: E731
    gradients = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))(jnp.asarray(parameters), x, y)
    return np.asarray(gradients, dtype=float)


def clipped(gradients, clip):
    return gradients * np.minimum(1, clip / np.linalg.norm(gradients, axis=1, keepdims=True))


@each_network
def test_ghost_sums_are_those_of_formed_gradients(network):
    x, y, parameters = batch(network)
    gradients = formed(network, parameters, x, y)
    middle = float(np.median(np.linalg.norm(gradients, axis=1)))  # clips half of them
    weights = np.array([1, 1, 0, 1, 1, 1, 0, 1, 1, 1], np.float32)
    sum_of = jax.jit(network.clipped_sum)
    for clip in (1e-3, middle, 1e3):
        found = np.asarray(sum_of(jnp.asarray(parameters), x, y, weights, clip))
        wanted = weights @ clipped(gradients, clip)
        np.testing.assert_allclose(found, wanted, atol=5e-5 * np.linalg.norm(wanted))
        mutant = weights @ gradients if clip < 1 else np.ones(10) @ clipped(gradients, clip)
        assert np.linalg.norm(found - mutant) > 0.01 * np.linalg.norm(wanted)


@each_network
def test_one_example_moves_the_sum_by_clip_at_most(network):
    x, y, parameters = batch(network, n=40, size=30.0)
    sum_of = jax.jit(lambda w: network.clipped_sum(jnp.asarray(parameters), x, y, w, 0.5))
    alone = np.array([np.asarray(sum_of(row), float) for row in np.eye(40, dtype=np.float32)])
    norms = np.linalg.norm(alone, axis=1)
    assert 0.4999 < norms.max() <= 0.5


def test_what_is_left_out_may_be_anything():
    """A padded row has weight 0: neither its numbers nor its class show."""
    network = NETWORKS["cnn"]
    x, y, parameters = batch(network)
    weights = jnp.arange(10) < 6
    sum_of = jax.jit(network.clipped_sum)
    one = sum_of(parameters, x, y, weights, 1.0)
    other = sum_of(parameters, x.at[6:].set(LARGE), y.at[6:].set(0), weights, 1.0)
    np.testing.assert_array_equal(one, other)


@each_network
def test_diverged_weights_make_no_nan(network):
    x, y, parameters = batch(network, size=1e3)
    sum_of = jax.jit(network.clipped_sum)
    for size in (1e3, 1e12, 1e30):
        total = sum_of(np.float32(size) * parameters, x, y, jnp.ones(10), 1.0)
        assert np.linalg.norm(np.asarray(total, float)) <= 10


def test_sums_that_overflow_on_both_sides_make_no_nan():
    """A row of +inf and -inf is a NaN, which would tell that its record is in the batch."""
    network = softmax(4000, 2)
    weights = np.zeros(network.n_parameters, np.float32)
    weights[:4000] = np.tile([1e30, -1e30], 2000)
    x = jnp.full((1, 4000), LARGE)
    total = jax.jit(network.clipped_sum)(weights, x, jnp.zeros(1, int), jnp.ones(1), 1.0)
    assert np.linalg.norm(np.asarray(total, float)) <= 1


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e6])
def test_gradients_of_places_that_cancel_are_clipped(size):
    """Where all patches are one and signals nearly cancel, a norm from places is all rounding."""
    network = Network((3, 3, 8), (Conv(64, 2), Flatten(), Dense(2)))
    sum_of = jax.jit(network.clipped_sum)
    x, rng = jnp.full((1, 3, 3, 8), size), np.random.default_rng(0)
    for left in np.geomspace(1e-5, 1e-2, 12):
        parameters = np.zeros(network.n_parameters, np.float32)
        outgoing = network.parts(parameters)[2][0]
        outgoing[0] = np.outer([1, -1, 1, -1 + left], rng.normal(size=64)).ravel()
        total = sum_of(parameters, x, jnp.zeros(1, int), jnp.ones(1), 1.0)
        assert np.linalg.norm(np.asarray(total, float)) <= 1 + 1e-4


def test_start_has_the_law_of_pytorch():
    weights, bias = mlp([400, 50, 3]).parts(mlp([400, 50, 3]).start(np.random.default_rng(0)))[0]
    assert abs(weights).max() <= 0.05
    assert abs(bias).max() <= 0.05
    np.testing.assert_allclose(weights.std(), 0.05 / 3**0.5, rtol=0.02)


def test_parts_are_a_partition():
    network = NETWORKS["cnn"]
    parts = network.parts(np.arange(network.n_parameters))
    joined = np.concatenate([part.ravel() for layer in parts for part in layer])
    np.testing.assert_array_equal(joined, np.arange(network.n_parameters))
    assert [len(layer) for layer in parts] == [2, 0, 2, 0, 0, 2, 0, 2]


# Opacus, the reference implementation in PyTorch.


def torch_twin(kind):
    """A network of ours, the same in PyTorch, and how its parameters become our flat vector."""
    from torch import nn

    if kind == "cnn":
        ours = cnn((12, 12, 1), (4, 6), hidden=8, n_classes=3)
        convolutions = [nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 4, 2, 1), nn.ReLU()]
        return ours, nn.Sequential(*convolutions, nn.Flatten(), *dense([54, 8, 3])), 6
    sizes = [9, 3] if kind == "softmax" else [9, 8, 3]
    return mlp(sizes), nn.Sequential(*dense(sizes)), None


def dense(sizes):
    from torch import nn

    layers = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return layers[:-1]


def flat(tensors, last_channels):
    """Tensors in the order of PyTorch as a flat vector of ours: channels come last here."""
    rows = []
    for tensor in tensors:
        value = tensor.detach().numpy()
        if value.ndim == 4:
            value = value.transpose(0, 2, 3, 1)
        elif last_channels and value.ndim == 2 and value.shape[1] == last_channels * 9:
            value = value.reshape(-1, last_channels, 9).transpose(0, 2, 1)
        rows.append(value.ravel())
    return np.concatenate(rows)


@pytest.mark.parametrize("kind", ["softmax", "mlp", "cnn"])
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_opacus_clipped_and_unclipped(kind):
    torch = needs("torch", "torch")
    from opacus import GradSampleModule

    torch.manual_seed(0)
    ours, theirs, channels = torch_twin(kind)
    shape = (1, 12, 12) if kind == "cnn" else (9,)
    x, y = torch.randn(20, *shape), torch.randint(0, 3, (20,))
    parameters = flat(theirs.parameters(), channels)
    module = GradSampleModule(theirs, loss_reduction="sum")
    torch.nn.functional.cross_entropy(module(x), y, reduction="sum").backward()
    samples = [p.grad_sample for p in theirs.parameters()]
    gradients = np.array([flat([s[i] for s in samples], channels) for i in range(20)], float)
    norms = np.linalg.norm(gradients, axis=1)
    pixels = np.moveaxis(x.numpy(), 1, -1) if kind == "cnn" else x.numpy()
    sum_of = jax.jit(ours.clipped_sum)
    for clip in (0.5 * norms.min(), np.median(norms), 2 * norms.max()):
        found = sum_of(parameters, pixels, y.numpy(), np.ones(20, np.float32), clip)
        wanted = clipped(gradients, clip).mean(axis=0)
        assert np.linalg.norm(np.asarray(found) / 20 - wanted) < 1e-4 * np.linalg.norm(wanted)


# What is refused.


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Dense(0), "units=0"),
        (lambda: Conv(3, 0), "size=0"),
        (lambda: Conv(3, 2, padding=-1), "padding=-1"),
        (lambda: Network((4, 4, 1), (Dense(3),)), "Flatten"),
        (lambda: Network((4,), (Conv(3, 2),)), "images"),
        (lambda: Network((4, 4, 1), (Conv(3, 5),)), "size=5"),
        (lambda: Network((4, 4, 1), (Conv(3, 2),)), "score per class"),
        (lambda: Network((4,), (Relu(),)), "score per class"),
        (lambda: mlp([4]), "sizes"),
        (lambda: mlp([4, 2], activation="sine"), "activation='sine'"),
    ],
)
def test_refused(make, named):
    with pytest.raises(InvalidArgument, match=named):
        make()
