"""What crafters make is what they say: losses that are high, gradients of the norm, silence."""

from dataclasses import replace

import numpy as np
import pytest

from adversaries.small import BLANK, DATA, NETWORK, training
from dpassay import nets
from dpassay.adversaries import (
    AdaptivePoison,
    ClipBKD,
    Data,
    FromTrainedStart,
    GradientCanary,
    MaliciousData,
    NaturalExample,
    StaticPoison,
)
from dpassay.adversaries.crafters import radius_of, shadow_models
from dpassay.adversaries.insertions import FreshExample, loss_of
from dpassay.errors import InvalidArgument
from dpassay.nets._jax import jax, jnp
from extras import needs

PLAN = training()


@pytest.fixture(autouse=True)
def _jax():
    needs("jax", "lab")


def crafted(craft, plan=PLAN, seed=0):
    return craft(plan, DATA, np.random.default_rng(seed))


def losses(models, x, y):
    return np.array([float(loss_of(NETWORK, m, jnp.asarray(x), y)) for m in models])


def test_a_natural_example_is_one_of_the_others_and_stays():
    made, again, other = (crafted(NaturalExample(), seed=s).context for s in (0, 0, 1))
    place = np.flatnonzero((made["x"] == DATA.others.X).all(axis=1))
    assert DATA.others.y[place] == made["y"]
    np.testing.assert_array_equal(made["query_x"], again["query_x"])
    assert (made["x"] != other["x"]).any()


def test_a_static_poison_has_a_high_loss_in_models_it_has_not_seen():
    made = crafted(StaticPoison()).context
    assert np.linalg.norm(made["x"]) <= radius_of(DATA.others) * (1 + 1e-5)
    models = shadow_models(
        training(noise_multiplier=0.0, steps=40), DATA, 3, np.random.default_rng(9)
    )
    natural = [losses(models, x, y) for x, y in zip(DATA.others.X, DATA.others.y, strict=True)]
    own = np.array(natural)[DATA.others.y == made["y"]]
    assert losses(models, made["x"], made["y"]).mean() > np.quantile(own.mean(axis=1), 0.9)


def test_a_fresh_example_is_better_than_any_that_is_drawn():
    """Double back-propagation finds what lowers the query's loss most, in the ball."""
    made = crafted(AdaptivePoison(shadows=2, moves=30))
    insert = made.hooks.example
    assert isinstance(insert, FreshExample)
    parameters = NETWORK.start(np.random.default_rng(4))
    before = nets.Before(np.int32(0), jnp.asarray(parameters), made.context)
    x, y = jax.jit(insert)(before)
    assert np.linalg.norm(x) <= insert.radius * (1 + 1e-5)
    drawn = np.random.default_rng(5).normal(size=(300, 6))
    drawn *= insert.radius / np.linalg.norm(drawn, axis=1, keepdims=True)
    after = jax.jit(jax.vmap(lambda v: insert._loss_after(v, y, before)))(jnp.stack([x, *drawn]))
    without = float(loss_of(NETWORK, parameters, made.context["query_x"], made.context["query_y"]))
    assert after[0] < without  # with the poison the query's loss falls
    assert after[0] <= min(after[1:]) + 1e-5


def test_simulated_updates_are_those_of_the_training():
    """A step on the fresh example alone, without noise, gives the simulated loss."""
    plan = training(noise_multiplier=0.0, steps=1)
    made = crafted(AdaptivePoison(), plan)
    start = NETWORK.start(np.random.default_rng(4))
    nobody = np.zeros(len(DATA.records), bool)
    options = {"start": start, "members": nobody, "hooks": made.hooks, "context": made.context}
    seen = nets.train(plan, DATA.records, rng=0, **options).observations
    before = nets.Before(np.int32(0), jnp.asarray(start), made.context)
    insert = made.hooks.example
    assert seen[0] == pytest.approx(float(insert._loss_after(*insert(before), before)), rel=1e-5)
    mutant = before._replace(context=made.context | {"rate": np.float32(10)})
    assert seen[0] != pytest.approx(float(insert._loss_after(*insert(before), mutant)), rel=1e-3)


def test_clipbkd_lies_where_the_data_do_not():
    made = crafted(ClipBKD()).context
    direction = made["x"] / np.linalg.norm(made["x"])
    assert (DATA.others.X @ direction).var() < 1e-12  # two inputs are blank
    models = shadow_models(PLAN, DATA, 4, np.random.default_rng(0))
    by_label = [losses(models, made["x"], y).mean() for y in range(3)]
    assert made["y"] == np.argmax(by_label)


# Gradients.


def of_blank_inputs(gradient):
    weights, bias = NETWORK.parts(gradient)[0]
    rest = np.delete(weights, BLANK, axis=1)
    return not rest.any() and not bias.any()


def test_alternating_gradients_sit_where_nothing_moves():
    made = crafted(GradientCanary(pairs=2))
    g = made.context["gradient"]
    assert of_blank_inputs(g)
    assert made.interference == 0
    assert sorted(g[g != 0]) == pytest.approx([-0.25, -0.25, 0.25, 0.25])  # C / sqrt(4)
    assert np.linalg.norm(g) == pytest.approx(PLAN.clip)


def test_a_dirac_is_one_coordinate_and_a_random_direction_all():
    dirac, random = (crafted(GradientCanary(p)) for p in ("dirac", "random"))
    assert np.count_nonzero(dirac.context["gradient"]) == 1
    assert of_blank_inputs(dirac.context["gradient"])
    assert np.count_nonzero(random.context["gradient"]) == NETWORK.n_parameters
    assert random.interference > 0
    for made in (dirac, random):
        assert np.linalg.norm(made.context["gradient"]) == pytest.approx(PLAN.clip)


def all_sums(seen):
    return seen.released


@pytest.mark.parametrize("network", [NETWORK, nets.mlp([6, 5, 3])])
def test_malicious_data_are_silent(network):
    """No gradient at all, at the start and after noise has moved the model."""
    plan = training(network=network, noise_multiplier=5.0, n_records=40)
    made = MaliciousData()(plan, DATA, np.random.default_rng(0))
    assert len(made.records) == len(DATA.records)
    np.testing.assert_array_equal(network.predict(made.start, made.records.X), made.records.y)
    moved = nets.train(plan, made.records, rng=0, start=made.start).parameters
    quiet = replace(plan, noise_multiplier=0.0)
    hooks = nets.Hooks(observe=all_sums)
    for start in (made.start, moved):
        assert not nets.train(
            quiet, made.records, rng=0, start=start, hooks=hooks
        ).observations.any()
    natural = nets.train(quiet, DATA.records, rng=0, hooks=hooks).observations
    assert abs(natural).max() > 0.1


def test_a_trained_start_leaves_the_data_little_to_say():
    made = crafted(FromTrainedStart(NaturalExample()))
    plan, hooks = training(noise_multiplier=0.0, steps=1), nets.Hooks(observe=all_sums)
    sums = [
        nets.train(plan, DATA.records, rng=0, start=start, hooks=hooks).observations
        for start in (made.start, None)
    ]
    assert np.linalg.norm(sums[0]) < np.linalg.norm(sums[1]) / 3


def test_values_out_of_range_are_refused():
    with pytest.raises(InvalidArgument, match="pattern='zigzag'"):
        GradientCanary("zigzag")
    with pytest.raises(InvalidArgument, match="others must be Records"):
        Data(DATA.records, None)
