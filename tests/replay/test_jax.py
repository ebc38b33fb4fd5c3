# ruff: noqa: E402  (skipped where the library is not installed)
"""Draws of JAX are followed inside ``jit`` and ``scan``."""

import os
import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax import numpy as jnp

import dpassay as da
from dpassay.errors import InvalidTarget
from dpassay.replay.jax import Noise, _State
from dpassay.replay.playing import Player

X = np.random.default_rng(2).normal(size=(30, 3)).astype(np.float32)
Y = np.sign(X[:, 0]).astype(np.float32)
STEPS, SIGMA = 6, 4.0
CLAIM = da.GDP(STEPS**0.5 / SIGMA)


def gradients(w, x, y):
    return jax.vmap(jax.grad(lambda w, x, y: jnp.logaddexp(0.0, -y * (x @ w))), (None, 0, 0))(
        w, x, y
    )


def training(clip):
    @jax.jit
    def run(x, y, key):
        def step(w, key):
            g = gradients(w, x, y)
            if clip:
                g = g / jnp.maximum(1.0, jnp.linalg.norm(g, axis=1, keepdims=True))
            noisy = g.sum(axis=0) + SIGMA * jax.random.normal(key, w.shape)  # here
            return w - 0.05 * noisy, None

        return jax.lax.scan(step, jnp.zeros(3), jax.random.split(key, STEPS))[0]

    def train(data, rng):
        return run(*map(jnp.asarray, data), jax.random.key(int(rng.integers(2**31))))

    return train


def test_clipped_and_unclipped_training_in_jit_and_scan():
    honest = da.check(training(clip=True), (X, Y), CLAIM, limit=4)
    assert honest.findings == honest.undecided == honest.not_checked == ()
    assert honest.epsilon_seen == pytest.approx(CLAIM.epsilon(honest.delta), rel=1e-3)
    broken = da.check(training(clip=False), (X, Y), CLAIM, limit=2)
    assert broken.findings[0].rule == "DPA202"
    assert "# here" in broken.findings[0].site.source


def test_recording_changes_nothing_and_leaves_nothing():
    train = training(clip=True)
    recorded = Player(train, 3).record((X, Y), 30).output
    names = {name: getattr(jax.random, name) for name in dir(jax.random)}
    da.check(train, (X, Y), CLAIM, limit=1)
    assert {name: getattr(jax.random, name) for name in dir(jax.random)} == names
    assert _State.tape is None
    # Up to rounding: see the next test.
    np.testing.assert_allclose(train((X, Y), np.random.default_rng(3)), recorded, rtol=2e-6)


BITS = """
import numpy as np
from dpassay.replay.playing import Player
from replay.test_jax import X, Y, training

for seed in range(5):
    train = training(clip=True)
    recorded = Player(train, seed).record((X, Y), 30).output
    import dpassay.replay.jax
    dpassay.replay.jax.finish()
    np.testing.assert_array_equal(train((X, Y), np.random.default_rng(seed)), recorded)
print("the same bits")
"""


def test_inside_of_jit_only_fused_products_change_a_bit():
    """Where the processor rounds a product and a sum in one instruction, recording parts them.

    Without that instruction recorded trainings have the bits of plain ones.
    """
    flags = {"XLA_FLAGS": "--xla_cpu_max_isa=AVX", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", BITS], env={**os.environ, **flags}, text=True,
                           capture_output=True, check=False)  # fmt: skip
    assert found.stdout == "the same bits\n", found.stderr[-2000:]


def test_outside_of_jit_recording_changes_no_bit():
    def release(data, rng):
        key = jax.random.key(int(rng.integers(2**31)))
        return jnp.asarray(data).sum(axis=0) / 7 + 0.3 * jax.random.normal(key, (3,))

    for seed in range(5):
        recorded = Player(release, seed).record(X, 30).output
        plain = np.asarray(release(X, np.random.default_rng(seed)))
        np.testing.assert_array_equal(plain, recorded)


def test_coins_are_aligned_by_record():
    event = da.dp_sgd_event(2.0, 0.25, 3)

    def train(rate):
        def run(data, rng):
            x, key = jnp.asarray(data), jax.random.key(int(rng.integers(2**31)))
            w = jnp.zeros(())
            for one in jax.random.split(key, 3):
                coin, noise = jax.random.split(one)
                batch = jax.random.bernoulli(coin, rate, (len(x),))
                total = jnp.sum(jnp.clip(x - w, -1, 1) * batch)
                w = w + (total + 2.0 * jax.random.normal(noise)) / 10
            return w

        return run

    values = np.linspace(0, 1, 20, dtype=np.float32)
    honest = da.check(train(0.25), values, event, limit=2)
    assert honest.findings == honest.undecided == ()
    assert honest.event.event.sampling_rate == 0.25
    assert da.check(train(0.75), values, event, limit=2).findings


def test_fixed_keys_and_lost_draws_are_named():
    def fixed(data, rng):
        return jnp.clip(jnp.asarray(data), 0, 1).sum() + jax.random.normal(jax.random.key(7), (3,))

    values = np.linspace(0, 1, 9)
    assert da.check(fixed, values, da.GDP(1.0)).findings[0].rule == "DPA403"

    def lost(data, rng):
        key = jax.random.key(int(rng.integers(2**31)))
        return jnp.asarray(data).sum() + jnp.sqrt(-2 * jnp.log(jax.random.uniform(key)[:]))

    found = da.check(lost, values, da.GDP(1.0))
    assert found.findings == ()
    assert found.undecided


def test_a_draw_that_cannot_be_followed_is_refused_with_advice():
    def added(data, rng):
        key = jax.random.key(int(rng.integers(2**31)))
        return jnp.add(jnp.asarray(data).sum(), jax.random.normal(key))

    with pytest.raises(InvalidTarget, match="q \\+ noise"):
        da.check(added, np.linspace(0, 1, 9), da.GDP(1.0))


def test_noise_inside_vmap_is_refused_with_advice():
    def mapped(data, rng):
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), 3)
        return jax.vmap(lambda key: jnp.sum(jnp.asarray(data)) + jax.random.normal(key))(keys)

    with pytest.raises(InvalidTarget, match="inside vmap"):
        da.check(mapped, np.linspace(0, 1, 9), da.GDP(1.0))


def test_other_draws_of_jax_are_named_and_leave_it_undecided():
    def release(data, rng):
        key = jax.random.key(int(rng.integers(2**31)))
        return jnp.clip(jnp.asarray(data), 0, 1).sum() + jax.random.t(key, 3.0, ())

    found = da.check(release, np.linspace(0, 1, 9), da.GDP(1.0), limit=3)
    assert found.findings == ()
    assert found.undecided


def test_without_a_check_nothing_is_wrapped():
    assert not isinstance(jax.random.normal(jax.random.key(0)), Noise)
