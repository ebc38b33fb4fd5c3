"""Training: against a plain loop, to the last bit elsewhere, its noise, and what hooks see."""

import hashlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2, norm

import dpassay as da
from dpassay import nets
from dpassay._rng import for_trial
from dpassay.errors import InvalidArgument, MissingDependency
from dpassay.nets import feeding
from dpassay.nets._jax import Late, jax, jnp
from dpassay.nets.sampling import capacity, poisson_batches
from dpassay.privacy import events
from rates import assert_rate

NETWORK = nets.mlp([6, 5, 3])
SIZE = NETWORK.n_parameters


def records(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return nets.Records(rng.normal(size=(n, 6)), rng.integers(0, 3, n))


def training(**changes):
    plain = {"steps": 7, "clip": 0.8, "noise_multiplier": 1.3, "learning_rate": 0.5}
    return nets.Training(**({"network": NETWORK} | plain | changes))


def all_sums(seen):
    return seen.released


def all_models(seen):
    return {"before": seen.parameters, "after": seen.updated, "step": seen.step}


SUMS, MODELS = nets.Hooks(observe=all_sums), nets.Hooks(observe=all_models)


# A plain loop that forms every gradient, in double precision.


def plain_loop(plan, data, members, seed):
    rng = np.random.default_rng(seed)
    parameters = plan.network.start(rng).astype(float)
    rng.random(plan.steps)  # whether a canary is in
    rows = capacity(len(data), plan.sampling_rate)
    batches = poisson_batches(len(data), plan.sampling_rate, plan.steps, rows, rng)
    noise = rng.standard_normal((plan.steps, len(parameters)))
    loss = lambda p, x, y: plan.network.losses(p, x[None], y[None])[0]  # noqa: E731
    gradients = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    direction = np.zeros_like(parameters)
    for t, rate in enumerate(plan.learning_rate):
        of_all = np.asarray(gradients(jnp.asarray(parameters, jnp.float32), data.X, data.y), float)
        of_all *= np.minimum(1, plan.clip / np.linalg.norm(of_all, axis=1))[:, None]
        inside = np.zeros(len(data))
        inside[batches.index[t][batches.taken[t]]] = 1
        total = (inside * members) @ of_all + plan.clip * plan.noise_multiplier * noise[t]
        direction = plan.momentum * direction + total / (plan.sampling_rate * plan.n_records)
        parameters = parameters - rate * direction
    return parameters


def test_training_is_the_plain_loop():
    rates = tuple(np.linspace(1.0, 0.1, 7))
    plan = training(sampling_rate=0.4, momentum=0.7, learning_rate=rates, n_records=50)
    # The first record is there: padding that counted would count it.
    data, members = records(), np.arange(40) % 5 != 1
    found = nets.train(plan, data, rng=3, members=members).parameters
    wanted = plain_loop(plan, data, members, 3)
    np.testing.assert_allclose(found, wanted, atol=2e-4)
    mutant = plain_loop(plan, data, np.ones(40), 3)
    assert abs(found - mutant).max() > 5e-3


def test_full_batches_are_every_record_once():
    plan = training(noise_multiplier=0.0, steps=1, learning_rate=1.0, n_records=8)
    data, start = records(), NETWORK.start(np.random.default_rng(0))
    moved = start - nets.train(plan, data, rng=0, start=start).parameters
    total = jax.jit(NETWORK.clipped_sum)(start, data.X, data.y, np.ones(40), 0.8)
    np.testing.assert_allclose(8 * moved, total, atol=1e-5)


def test_the_divisor_is_public():
    """Who is there changes the sum by a clipped gradient, never what it is divided by."""
    plan = training(noise_multiplier=0.0, steps=1, learning_rate=1.0, sampling_rate=0.5)
    start = NETWORK.start(np.random.default_rng(0))
    moved = {}
    for n in (39, 40):
        trained = nets.train(plan, records(), rng=1, start=start, members=np.arange(40) < n)
        moved[n] = start - trained.parameters
    assert np.linalg.norm(moved[40] - moved[39]) <= 0.8 / (0.5 * 40) * (1 + 1e-4)


# The same trial wherever it is played.

SCRIPT = """
import hashlib
import numpy as np
from dpassay import nets
from dpassay._rng import for_trial
rng = np.random.default_rng(0)
data = nets.Records(rng.normal(size=(300, 40)), rng.integers(0, 3, 300))
plan = nets.Training(nets.mlp([40, 30, 3]), 5, 1.0, 1.0, 0.5, 0.5)
def digest(trial):
    parameters = nets.train(plan, data, rng=for_trial(0, trial)).parameters
    return hashlib.sha256(parameters.tobytes()).hexdigest()
"""


def test_a_trial_is_the_same_to_the_last_bit_in_another_process_and_order():
    space = {}
    exec(SCRIPT, space)
    here = [space["digest"](trial) for trial in (0, 1, 2)]
    code = SCRIPT + "print(*[digest(trial) for trial in (2, 0)])"
    env = os.environ | {"NPROC": "1"}  # XLA's number of threads
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.split() == [here[2], here[0]]
    assert len(set(here)) == 3


def test_one_compilation_for_all_settings():
    traces = []

    def observe(seen):
        traces.append(1)
        return seen.released @ seen.context

    hooks = nets.Hooks(observe=observe)
    for clip, noise, rate in ((1.0, 1.0, 0.1), (2.0, 0.0, 0.2)):
        plan = training(clip=clip, noise_multiplier=noise, learning_rate=rate, sampling_rate=0.5)
        for canary in (True, False):
            context = np.full(SIZE, clip, np.float32)
            nets.train(plan, records(), rng=0, hooks=hooks, context=context, canary=canary)
    assert len(traces) == 1


def test_portions_do_not_show(monkeypatch):
    """Steps are fed in portions; the last is filled up, which changes nothing."""
    plan = training(noise_multiplier=0.0, momentum=0.5)
    start = NETWORK.start(np.random.default_rng(0))
    whole = nets.train(plan, records(), rng=0, start=start, hooks=MODELS)
    monkeypatch.setattr(feeding, "_PORTION", 4 * SIZE * 3)  # 7 steps in three portions of three
    cut = nets.train(plan, records(), rng=0, start=start, hooks=MODELS)
    np.testing.assert_allclose(cut.parameters, whole.parameters, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(cut.observations["step"], np.arange(7))
    np.testing.assert_array_equal(cut.observations["after"][-1], cut.parameters)


def test_room_does_not_show(monkeypatch):
    """Batches are padded to the usual size where they fit; all that changes is the padding."""
    plan = training(sampling_rate=0.1)
    found = {}
    for rooms in ((32, 16), (32, 32), (32, 2)):  # usual, ample, and one in which nothing fits
        monkeypatch.setattr(feeding, "rooms", lambda *_, rooms=rooms: rooms)
        found[rooms[1]] = nets.train(plan, records(), rng=0).parameters
    np.testing.assert_allclose(found[16], found[32], atol=1e-6)
    np.testing.assert_array_equal(found[2], found[32])


def test_models_follow_each_other():
    trained = nets.train(training(), records(), rng=0, hooks=MODELS)
    seen = trained.observations
    np.testing.assert_array_equal(seen["before"][1:], seen["after"][:-1])
    np.testing.assert_array_equal(seen["after"][-1], trained.parameters)


# The noise.


def nobody(plan, rng):
    """What is released where nobody is there: the noise."""
    members = np.zeros(40, bool)
    return nets.train(plan, records(), rng=rng, members=members, hooks=SUMS).observations


def chance(noise, deviation):
    """The two-sided probability that the sum of squares of so many normal draws is so far off."""
    total, n = (np.asarray(noise, float) ** 2).sum() / deviation**2, noise.size
    return 2 * min(chi2.cdf(total, n), chi2.sf(total, n))


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_noise_has_its_deviation(rate):
    noise = nobody(training(steps=300, sampling_rate=rate), rng=5)
    assert chance(noise, 1.3 * 0.8) > 1e-9
    assert chance(noise, 0.9 * 1.3 * 0.8) < 1e-9  # a tenth less is noticed
    beyond = (abs(noise) > 2 * 1.3 * 0.8).sum()
    assert_rate(beyond, noise.size, 2 * norm.sf(2))


def test_secure_noise_is_the_default():
    one, other = (nobody(training(steps=100), rng=None) for _ in range(2))
    assert chance(one, 1.3 * 0.8) > 1e-9
    assert (one != other).mean() > 0.99
    trained = nets.train(training(), records())
    assert trained.release.noise == "cryptographic"
    assert trained.release.event is None
    assert trained.event == training().event()
    assert nets.train(training(), records(), rng=0).release.noise == "reproducible"
    assert trained.release.sensitivity == 0.8


def test_event():
    plan = training(sampling_rate=0.1)
    assert plan.event() == da.dp_sgd_event(1.3, 0.1, 7)
    assert nets.train(plan, records(), rng=0).release.event == plan.event()
    assert training(noise_multiplier=0.0).event() == events.NonPrivate()


# What an adversary inserts.


def along(seen):
    return seen.released @ seen.context


def direction(before):
    return 10 * before.context


def broken(before):
    return jnp.full(SIZE, jnp.nan)


GRADIENT = nets.Hooks(gradient=direction, observe=along)
UNIT = np.eye(SIZE, dtype=np.float32)[4]


def test_a_canary_gradient_is_clipped_and_shifts_the_sum():
    """Along its direction the released sum is N(clip, s²) with it and N(0, s²) without: exact."""
    plan, steps = training(steps=4000), 4000
    absent, scale = np.zeros(40, bool), 1.3 / 4000**0.5
    for canary in (True, False):
        trained = nets.train(
            plan, records(), rng=2, members=absent, hooks=GRADIENT, canary=canary, context=UNIT
        )
        seen = trained.observations / 0.8
        assert seen.shape == (steps,)
        assert abs(seen.mean() - canary) < norm.isf(5e-10) * scale
        assert chance(seen - canary, 1.3) > 1e-9
        assert chance(seen - canary, 0.9 * 1.3) < 1e-9


@pytest.mark.parametrize(("rate", "wanted"), [(None, 0.2), (0.7, 0.7), (1.0, 1.0)])
def test_the_canary_is_in_with_its_probability(rate, wanted):
    plan = training(steps=4000, noise_multiplier=0.0, sampling_rate=0.2)
    hooks = nets.Hooks(gradient=direction, observe=along, rate=rate)
    options = {"members": np.zeros(40, bool), "hooks": hooks, "context": UNIT}
    seen = nets.train(plan, records(), rng=0, **options).observations
    inside = seen > 0.4
    np.testing.assert_allclose(seen, 0.8 * inside, rtol=1e-5)
    assert_rate(inside.sum(), 4000, wanted)
    assert not nets.train(plan, records(), rng=0, canary=False, **options).observations.any()


def test_an_audit_lets_the_event_stand_and_refutes_less():
    """Four full batches of noise 1 are 2-GDP, exactly, against a canary of full norm."""
    plan, data = training(steps=4, noise_multiplier=1.0), records()
    options = {"members": np.zeros(40, bool), "hooks": GRADIENT, "context": UNIT}

    def mechanism(canary, rng):
        trained = nets.train(plan, data, rng=rng, canary=bool(canary), **options)
        return trained.observations.sum()

    claims = {"true": da.account(plan.event()), "false": da.GDP(1.4)}
    verdicts = {
        name: da.audit(mechanism, (1.0, 0.0), claim=claim, score=float, trials=300)
        for name, claim in claims.items()
    }
    assert verdicts["false"].refuted
    assert not verdicts["true"].refuted


def context_example(before):
    return before.context


def test_a_crafted_example_counts_like_a_record():
    plan = training(noise_multiplier=0.0, n_records=40)
    start = NETWORK.start(np.random.default_rng(0))
    x, y = np.full(6, 3.0, np.float32), np.int32(2)
    hooks = nets.Hooks(example=context_example)
    more = records().with_examples(x, y)
    assert len(more) == 41
    for world in (True, False):
        crafted = nets.train(
            plan, records(), rng=0, start=start, hooks=hooks, canary=world, context=(x, y)
        )
        members = np.append(np.ones(40, bool), world)
        fixed = nets.train(plan, more, rng=0, start=start, members=members)
        np.testing.assert_allclose(crafted.parameters, fixed.parameters, atol=1e-5)
    without = nets.train(plan, records(), rng=0, start=start).parameters
    np.testing.assert_allclose(fixed.parameters, without, atol=1e-5)


def own_weights(before):
    return before.parameters[:6], before.step + 1


def test_an_example_is_crafted_from_the_current_parameters():
    hooks = nets.Hooks(example=own_weights, observe=all_models)
    plan = training(noise_multiplier=0.0, steps=2, n_records=40)
    seen = nets.train(plan, records(), rng=0, hooks=hooks).observations
    plan = training(noise_multiplier=0.0, steps=1, n_records=40)
    for step in (0, 1):
        start = seen["before"][step]
        more = records().with_examples(start[:6], step + 1)
        found = nets.train(plan, more, rng=0, start=start).parameters
        np.testing.assert_allclose(found, seen["after"][step], atol=1e-5)


@pytest.mark.parametrize("hook", ["gradient", "example"])
def test_a_canary_that_is_not_a_number_does_not_show(hook):
    nan = {"gradient": broken, "example": lambda before: (jnp.full(6, jnp.nan), 0)}[hook]
    hooks = nets.Hooks(**{hook: nan})
    trained = nets.train(training(), records(), rng=0, hooks=hooks)
    assert np.isfinite(trained.parameters).all()


def test_learning_rates_that_diverge_stay_finite():
    plan = training(learning_rate=1e10, steps=50, noise_multiplier=1e10)
    assert np.isfinite(nets.train(plan, records(), rng=0).parameters).all()


# It learns, and it travels.


def test_digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    plan = nets.Training(
        nets.mlp([64, 32, 10]),
        steps=150,
        clip=1.0,
        noise_multiplier=1.0,
        learning_rate=1.0,
        sampling_rate=0.1,
        momentum=0.5,
    )
    trained = nets.train(plan, nets.Records(X[:1300], y[:1300]), rng=0)
    assert (plan.network.predict(trained.parameters, X[1300:]) == y[1300:]).mean() > 0.8


def test_records_travel_without_what_is_on_the_device():
    data = records()
    assert data.on_device is data.on_device
    again = pickle.loads(pickle.dumps(data))
    assert "on_device" not in vars(again)
    np.testing.assert_array_equal(again.X, data.X)


def trial(number):
    context = np.roll(UNIT, number)
    return nets.Trial(for_trial(0, number), canary=number % 2 == 0, context=context)


def test_trainings_side_by_side():
    """As one after another, whatever they run beside; to the last bit for one number of them."""
    plan = training(sampling_rate=0.4)
    alone = list(nets.train_many(plan, records(), map(trial, range(5)), hooks=GRADIENT))
    beside = list(
        nets.train_many(plan, records(), map(trial, range(5)), hooks=GRADIENT, together=3)
    )
    others = list(nets.train_many(plan, records(), [trial(4)], hooks=GRADIENT, together=3))
    assert len(alone) == len(beside) == 5
    for one, other in zip(alone, beside, strict=True):
        np.testing.assert_allclose(one.parameters, other.parameters, atol=1e-5)
        np.testing.assert_allclose(one.observations, other.observations, atol=1e-4)
    np.testing.assert_array_equal(others[0].parameters, beside[4].parameters)
    assert abs(alone[0].parameters - alone[1].parameters).max() > 0.01


def test_generators_of_trials_are_taken():
    one, other = (nets.train(training(), records(), rng=for_trial(1, t)) for t in (0, 1))
    digests = {hashlib.sha256(t.parameters.tobytes()).hexdigest() for t in (one, other)}
    assert len(digests) == 2


def test_without_jax_the_error_says_what_to_install():
    with pytest.raises(MissingDependency, match=r"dpassay\[lab\]"):
        Late("no_such_module").jit  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"network": None}, "network=None"),
        ({"steps": 0}, "steps=0"),
        ({"clip": 0.0}, "clip=0"),
        ({"clip": float("nan")}, "clip=nan"),
        ({"noise_multiplier": -1.0}, "noise_multiplier=-1"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier=nan"),
        ({"learning_rate": (0.1, 0.2)}, r"learning_rate has shape \(2,\)"),
        ({"learning_rate": float("inf")}, "learning_rate=inf"),
        ({"sampling_rate": 0.0}, "sampling_rate=0"),
        ({"momentum": 1.0}, "momentum=1"),
        ({"n_records": 0}, "n_records=0"),
    ],
)
def test_trainings_refused(changes, named):
    with pytest.raises(InvalidArgument, match=named):
        training(**changes)


@pytest.mark.parametrize(
    ("X", "y", "named"),
    [
        (np.ones(3), [0, 1, 2], "X has shape"),
        (np.ones((3, 2)), [0, 1], "y"),
        (np.ones((0, 2)), [], "X has shape"),
        (np.full((3, 2), np.nan), [0, 1, 2], "finite"),
        (np.full((3, 2), 1e7), [0, 1, 2], "scale it"),
        (np.ones((3, 2)), [0.0, 1.0, 2.0], "integers"),
        (np.ones((3, 2)), [0, -1, 2], "from 0 on"),
    ],
)
def test_records_refused(X, y, named):
    with pytest.raises(InvalidArgument, match=named):
        nets.Records(X, y)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"records": (np.ones((3, 6)), [0, 1, 2])}, "records must be"),
        ({"records": nets.Records(np.ones((3, 5)), np.arange(3))}, r"examples of shape \(5,\)"),
        ({"records": nets.Records(np.ones((3, 6)), np.arange(1, 4))}, "class 3"),
        ({"members": np.ones(39)}, r"members of shape \(39,\)"),
        ({"members": np.full(40, 0.5)}, "members"),
        ({"start": np.ones(3)}, r"start has shape \(3,\)"),
        ({"start": np.full(SIZE, np.nan)}, "start"),
        ({"start": np.full(SIZE, 1e39)}, r"start\[0\] must"),
        ({"canary": 5.0}, "canary=5.0 must be"),
        ({"canary": float("nan")}, "canary=nan must be"),
    ],
)
def test_arguments_refused(changes, named):
    arguments = {"training": training(), "records": records(), "rng": 0} | changes
    with pytest.raises(InvalidArgument, match=named):
        nets.train(**arguments)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gradient": 3}, "gradient=3"),
        ({"gradient": direction, "example": context_example}, "both"),
        ({"rate": 0.0}, "rate=0"),
        ({"rate": float("nan")}, "rate=nan"),
    ],
)
def test_hooks_refused(changes, named):
    with pytest.raises(InvalidArgument, match=named):
        nets.Hooks(**changes)
