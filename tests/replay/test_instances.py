# ruff: noqa: NPY002  (generators of the old kind are what is tested)
"""Generators that a program makes itself, and draws in other threads."""

import _random
import copy
import multiprocessing
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import dpassay as da
from dpassay.auditing.replayed import audit_by_replay
from dpassay.errors import AuditStopped
from dpassay.replay.outputs import first_difference
from dpassay.replay.playing import Player

DATA = np.linspace(0, 1, 20)
CLAIM = da.ApproxDP(1.0, 1e-5)


def total(x):
    return float(np.clip(x, 0, 1).sum())


def checked(mechanism):
    return da.check(mechanism, DATA, CLAIM, bounds=(0, 1), limit=6)


def every_draw_of_a_state(data):
    state = np.random.RandomState(5)
    return (
        data.sum() + state.laplace(scale=2.0),
        data[:3] + state.randn(3),
        data[:2] + state.normal(0, 3, 2),
        state.rand(4) < 0.5,
        state.randint(7),
        state.permutation(5),
        state.choice(5, 2, replace=False),
        state.standard_t(3) + 1,
        state.uniform(),
        state.get_state()[1][:3],
    )


def every_draw_of_a_random(data):
    state = random.Random(5)
    return (
        state.gauss(0, 1) + 2,
        state.random() < 0.5,
        state.sample(range(9), 3),
        state.choice([1, 2, 3]),
        state.randint(1, 9),
        state.betavariate(1, 2),
        state.getrandbits(8),
    )


@pytest.mark.parametrize("mechanism", [every_draw_of_a_state, every_draw_of_a_random])
def test_generators_made_inside_have_the_same_bits(mechanism):
    recorded = Player(mechanism, 1).record(DATA, len(DATA)).output
    assert first_difference(recorded, mechanism(DATA)) is None


def test_a_generator_seeded_later_has_the_bits_of_its_seed():
    def release(data):
        old, new = np.random.RandomState(), random.Random()
        old.seed(3)
        new.seed(3)
        return old.normal() + 1, new.gauss(0, 1) + 1

    assert first_difference(Player(release, 1).record(DATA, 20).output, release(DATA)) is None


def test_they_are_instances_of_their_classes():
    def release(data):
        old, new = np.random.RandomState(1), random.Random(1)
        assert isinstance(old, np.random.RandomState)
        assert isinstance(np.random.mtrand._rand, np.random.RandomState)
        assert isinstance(new, random.Random)
        assert isinstance(random.SystemRandom(), random.Random)
        return pickle.loads(pickle.dumps(old)).normal(), pickle.loads(pickle.dumps(new)).random()

    plain = release(DATA)
    assert Player(release, 1).record(DATA, 20).output == plain
    assert type(np.random.RandomState(1)) is np.random.mtrand.RandomState
    assert type(random.Random(1)).__module__ == "random"


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: lambda x: total(x) + np.random.RandomState().laplace(scale=scale),
        lambda scale: lambda x: total(x) + random.Random().gauss(0, 5.0 * scale),
        lambda scale: (
            lambda x, rng: total(x) + random.Random(int(rng.integers(2**32))).gauss(0, 5.0 * scale)
        ),
        lambda scale: lambda x, rng: total(x) + copy.deepcopy(rng).laplace(scale=scale),
        lambda scale: (
            lambda x: total(x) + copy.deepcopy(np.random.RandomState()).laplace(scale=scale)
        ),
        lambda scale: (
            lambda x, rng: (
                total(x) + np.random.RandomState(rng.integers(2**31)).laplace(scale=scale)
            )
        ),
    ],
)
def test_noise_of_generators_made_inside_is_followed(make):
    honest = checked(make(1.0))
    assert honest.findings == ()
    assert honest.decided
    assert [finding.rule for finding in checked(make(0.5)).findings] == ["DPA202"]


MADE_BEFORE = np.random.default_rng()
STATE = np.random.RandomState()


def of_the_module(scale):
    return lambda x: total(x) + MADE_BEFORE.laplace(scale=scale)


def of_the_closure(scale):
    rng = np.random.default_rng()
    return lambda x: total(x) + rng.laplace(scale=scale)


@pytest.mark.parametrize(
    "make",
    [
        of_the_module,
        of_the_closure,
        lambda scale: lambda x: total(x) + STATE.laplace(scale=scale),
        lambda scale: lambda x: total(x) + stats.laplace.rvs(scale=scale),
        lambda scale: lambda x: total(x) + np.random.mtrand._rand.laplace(scale=scale),
        lambda scale: (
            lambda x: total(x) + np.random.Generator(np.random.PCG64()).laplace(scale=scale)
        ),
    ],
)
def test_noise_of_generators_made_before_and_of_libraries_is_followed(make):
    assert checked(make(1.0)).decided
    assert [finding.rule for finding in checked(make(0.5)).findings] == ["DPA202"]
    assert type(MADE_BEFORE) is np.random.Generator
    assert type(STATE) is np.random.RandomState


def of_raw_bits(x, rng):
    return total(x) + float(stats.laplace.ppf((rng.bit_generator.random_raw() + 0.5) / 2**64))


def draw(_):
    return np.random.laplace()


def of_another_process(x):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return total(x) + pool.apply(draw, (0,))


def seeded_elsewhere(x, rng):
    """Stands for compiled code: a generator that no patch reaches, seeded from one that is seen."""
    made = _random.Random(int(rng.integers(2**32)))
    return total(x) + float(stats.laplace.ppf(made.random()))


def of_torch_in_a_thread(x):
    torch = pytest.importorskip("torch")
    with ThreadPoolExecutor(1) as pool:
        return total(x) + 5 * pool.submit(lambda: torch.randn(())).result().item()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize(
    "mechanism", [of_raw_bits, of_another_process, seeded_elsewhere, of_torch_in_a_thread]
)
def test_noise_that_nobody_sees_is_no_finding(mechanism):
    found = checked(mechanism)
    assert found.findings == ()
    assert not found.decided
    assert any("not followed" in entry.message for entry in found.not_checked)


def test_evidence_needs_all_randomness():
    def release(x, rng):
        shift = _random.Random(int(rng.integers(2**32))).random()
        return total(x) + shift + rng.laplace(scale=0.5)

    with pytest.raises(AuditStopped, match="not followed"):
        audit_by_replay(release, (DATA, DATA[1:]), claim=CLAIM, trials=5)


def test_a_price_counts_beside_randomness_that_is_not_followed():
    def release(x, rng):
        order = _random.Random(int(rng.integers(2**32))).random()
        return total(x) + rng.laplace(scale=0.5), order

    assert [finding.rule for finding in checked(release).findings] == ["DPA202"]


def test_a_state_of_a_fixed_seed_is_named():
    found = checked(lambda x: total(x) + np.random.RandomState(3).laplace(scale=1.0))
    assert [finding.rule for finding in found.findings] == ["DPA403"]


def in_a_thread(x, rng):
    out = []
    worker = threading.Thread(target=lambda: out.append(total(x) + rng.laplace()))
    worker.start()
    worker.join()
    return out[0]


def in_a_pool(x):
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda part: total(part) + np.random.laplace(), np.array_split(x, 3)))


def drawn_in_a_thread(x, rng):
    with ThreadPoolExecutor(1) as pool:
        return total(x) + pool.submit(rng.laplace).result()


def of_own_generators(x, rng):
    with ThreadPoolExecutor(2) as pool:
        parts = zip(np.array_split(x, 3), rng.spawn(3), strict=True)
        return sum(pool.map(lambda part: total(part[0]) + part[1].laplace(), parts))


@pytest.mark.parametrize(
    "mechanism", [in_a_thread, in_a_pool, drawn_in_a_thread, of_own_generators]
)
def test_draws_in_threads_leave_the_check_undecided(mechanism):
    found = checked(mechanism)
    assert found.findings == ()
    assert not found.decided
    assert any("thread" in entry.message for entry in found.not_checked)


def test_queries_computed_in_threads_are_checked():
    def release(x, rng):
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(total, np.array_split(x, 3))) + rng.laplace()

    assert checked(release).decided
