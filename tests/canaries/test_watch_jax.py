"""The watch in JAX: as a gradient transformation, and on trainings of ``dpassay.nets``."""

import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument, InvalidTarget
from extras import needs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TOLD = {"noise_multiplier": 3.0, "sampling_rate": 1.0, "clip": 0.5, "divisor": 20.0}
PARAMETERS = {"w": np.zeros((30, 12), np.float32), "b": np.zeros(40, np.float32)}


@pytest.fixture(autouse=True)
def _jax():
    needs("jax", "lab")


def play(watch, *, added=1.0, steps=16, seed=0):
    """Steps of noise alone: as the mean over a batch, in the form of the parameters."""
    import jax

    random = np.random.default_rng(seed)
    state, update = watch.init(PARAMETERS), jax.jit(watch.update)
    for _ in range(steps):
        noise = {
            name: added * 3.0 * 0.5 / 20.0 * random.standard_normal(value.shape)
            for name, value in PARAMETERS.items()
        }
        updates, state = update({k: v.astype(np.float32) for k, v in noise.items()}, state)
    return updates, state


@pytest.mark.parametrize("added", [1.0, 0.5])
def test_a_transformation_judges_the_state_of_an_optimizer(added):
    watch = da.canaries.watch_gradients(rng=1, **TOLD)
    updates, state = play(watch, added=added)
    assert {name: value.shape for name, value in updates.items()} == {"w": (30, 12), "b": (40,)}
    verdict = watch.judge(("another state", {"nested": state}), delta=1e-5)
    assert verdict.refuted == (added < 1)
    assert verdict.evidence.scores.size == 400
    assert (verdict.one_training.steps, verdict.one_training.noise_multiplier) == (16, 3.0)


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_it_adds_gradients_of_the_clipping_norm_as_often_as_stated(rate):
    import jax

    watch = da.canaries.watch_gradients(canaries=80, **(TOLD | {"sampling_rate": rate}))
    state, seen = watch.init(PARAMETERS), []
    update = jax.jit(watch.update)
    for _ in range(40):
        updates, state = update(PARAMETERS, state)
        flat = np.concatenate([np.ravel(updates["b"]), np.ravel(updates["w"])])  # sorted names
        along = (flat[state.places] * np.asarray(state.signs)).sum(axis=1) / np.sqrt(5)
        seen.append(along * 20 / 0.5)
    seen, inside = np.array(seen), np.asarray(state.coins) > 0
    assert np.all(np.isclose(seen, 0, atol=1e-5) | np.isclose(seen, 1, atol=1e-5))
    assert not seen[:, ~inside].any()
    spread = np.sqrt(rate * (1 - rate) / seen[:, inside].size)
    assert abs(seen[:, inside].mean() - rate) <= 6 * spread + 1e-6


def test_its_scores_are_those_of_the_watch():
    from dpassay.canaries.watch_jax import _score
    from dpassay.canaries.watch_sums import estimate_noise, score_step

    seen = np.random.default_rng(0).standard_normal(300) * 1.5 + 0.3
    for noise, rate in ((1.0, 0.1), (2.0, 1.0), (0.4, 0.5)):
        expected = score_step(seen, estimate_noise(seen, noise, rate), rate)
        np.testing.assert_allclose(
            np.asarray(_score(seen.astype(np.float32), noise, rate)), expected, rtol=2e-3, atol=2e-4
        )
    assert np.isinf(_score(seen.astype(np.float32), 0.0, 1.0)).all()


def test_data_that_are_handed_over_are_subtracted():
    """The same draws and noise, with and without large gradients of other records."""
    import jax

    data = {k: np.ones_like(v) for k, v in PARAMETERS.items()}
    scores = []
    for other in (None, data):
        watch = da.canaries.watch_gradients(canaries=80, rng=1, **TOLD)
        state = watch.init(PARAMETERS)
        total = PARAMETERS if other is None else other
        _, state = watch.update(total, state, data=total)
        assert int(state.known) == 1
        scores.append(np.asarray(state.sums))
    np.testing.assert_allclose(*scores, rtol=1e-3, atol=1e-3)
    assert jax.tree.leaves(state)[0] == 1


def test_what_cannot_be_judged():
    watch = da.canaries.watch_gradients(**TOLD)
    with pytest.raises(InvalidTarget, match="saw no step"):
        watch.judge(watch.init(PARAMETERS))
    with pytest.raises(InvalidArgument, match="holds 0 watches"):
        watch.judge(())
    for name in ("sampling_rate", "clip", "divisor"):
        with pytest.raises(InvalidArgument, match=name):
            da.canaries.watch_gradients(**(TOLD | {name: -1.0}))


def test_optax_chains_it():
    optax = pytest.importorskip("optax")
    watch = da.canaries.watch_gradients(**TOLD)
    optimizer = optax.chain(watch, optax.sgd(0.1))
    state = optimizer.init(PARAMETERS)
    moved, state = optimizer.update(PARAMETERS, state)
    assert np.abs(moved["w"]).max() > 0
    assert watch.judge(state, claim=(100.0, 1e-5)).one_training.steps == 1


def test_a_chain_of_optax_can_subtract_the_data():
    """Data of a hundred times the noise hide the canaries, unless they are handed over."""
    optax = pytest.importorskip("optax")
    random = np.random.default_rng(4)
    told = {"noise_multiplier": 1.0, "sampling_rate": 1.0, "clip": 1.0, "divisor": 1.0}
    large = {"w": 100 * random.normal(size=2000)}
    noise = optax.GradientTransformation(
        lambda params: optax.EmptyState(),
        lambda updates, state, params=None: (
            {"w": updates["w"] + random.normal(size=2000)},
            state,
        ),
    )
    bounds = []
    for given in ({}, {"data": large}):
        watch = da.canaries.watch_gradients(**told, canaries=2000)
        optimizer = optax.chain(noise, watch, optax.sgd(0.1))
        state = optimizer.init(large)
        for _ in range(3):
            _, state = optimizer.update(large, state, large, **given)
        verdict = watch.judge(state, delta=1e-5)
        assert ("the other data known" in verdict.one_training.view) == bool(given)
        bounds.append(verdict.tightness)
    assert bounds[0] < 0.2
    assert bounds[1] > 0.7


# ------------------------------------------------------------------------- dpassay.nets


def train(noise, rate=1.0, steps=12, canaries=5000):
    random = np.random.default_rng(0)
    training = da.nets.Training(
        da.nets.mlp([20, 12, 3]), steps, 0.5, noise, 0.1, sampling_rate=rate, momentum=0.9
    )
    records = da.nets.Records(random.random((50, 20)), np.arange(50) % 3)
    return da.canaries.watch_network(training, records, canaries=canaries, rng=1, training_rng=3)


def test_without_noise_a_network_shows_its_canaries():
    _, watch = train(0.0, rate=0.4, canaries=30)
    assert watch.history == [(0.0, 0.4, 12)]
    scores = watch.scores()
    assert (scores[watch.coins] == np.inf).mean() > 0.9  # but for those that were never drawn
    assert not (scores[~watch.coins] == np.inf).any()


def test_a_network_is_judged():
    trained, watch = train(2.5)
    assert watch.n_canaries == trained.parameters.size == 291
    verdict = watch.judge(delta=1e-5)
    assert not verdict.refuted
    assert verdict.bound.epsilon > 0.4 * verdict.claim.epsilon(1e-5)
    assert verdict.one_training.residuals.variance == pytest.approx(1, abs=0.12)
    assert watch.judge(claim=(1.0, 1e-5)).refuted


def test_two_kinds_of_inserted_gradients_are_refused():
    with pytest.raises(InvalidArgument, match="added and gradient"):
        da.nets.Hooks(gradient=lambda before: 0, added=lambda before: 0)
