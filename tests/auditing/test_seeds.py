"""Fixed seeds, no noise, and outputs that come back: no verdict, but a sentence."""

import itertools

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import AuditStopped, from_script, judge
from dpassay.auditing.prints import is_continuous, print_of
from dpassay.auditing.seeds import _keep_a_distance

PAIR = ([1, 2, 3], [1, 2])
OPTIONS = {"claim": da.PureDP(1.0), "score": float, "trials": 200}
SEED = "your code fixes its seed"


def fixed(data, rng):
    return len(data) + np.random.default_rng(42).laplace()


def fixed_many(data, rng, size):
    return len(data) + np.random.default_rng(42).laplace(size=size)


def no_noise(data, rng):
    return len(data)


def no_noise_many(data, rng, size):
    return np.full(size, float(len(data)))


@pytest.mark.parametrize("mechanism", [fixed, fixed_many, no_noise, no_noise_many])
@pytest.mark.parametrize("score", [float, None], ids=["given", "learned"])
def test_a_fixed_seed_is_no_verdict(mechanism, score, tmp_path):
    options = OPTIONS | {"score": score, "store": tmp_path / "run.db", "trials": 400}
    with pytest.raises(AuditStopped, match=SEED):
        da.audit(mechanism, PAIR, **options)
    with pytest.raises(AuditStopped, match=SEED):
        judge(tmp_path / "run.db")
    with pytest.raises(AuditStopped, match=SEED):
        da.audit(mechanism, PAIR, **options)


@pytest.mark.parametrize("mechanism", [fixed, fixed_many, no_noise, no_noise_many])
def test_unless_it_is_said_to_be_a_leak(mechanism, tmp_path):
    options = OPTIONS | {"fixed_seed": "leak", "store": tmp_path / "run.db", "trials": 400}
    verdict = da.audit(mechanism, PAIR, **options)
    assert verdict.refuted or mechanism is fixed_many  # one seed for all is no world of its own
    assert judge(tmp_path / "run.db").refuted == verdict.refuted


def test_one_constant_world_is_a_leak():
    def leaks(data, rng):
        return 0.123456789 if len(data) == 3 else rng.laplace()

    assert da.audit(leaks, PAIR, **OPTIONS).refuted


def test_discrete_outputs_may_be_constant_for_long():
    def respond(data, rng):  # randomized response that tells the truth in 97 of 100 cases
        return float((len(data) == 3) ^ (rng.random() < 0.03))

    verdict = da.audit(respond, PAIR, **OPTIONS | {"claim": da.PureDP(3.5), "trials": 400})
    assert not verdict.refuted


def cycling(period, spell=1):
    """Seeds that go round, or that last for a while as those from a clock do."""
    count = itertools.count()

    def mechanism(data, rng):
        seed = next(count) // spell % period
        return len(data) + np.random.default_rng(seed).laplace()

    return mechanism


@pytest.mark.parametrize(("period", "spell"), [(20, 1), (100, 1), (300, 1), (10**9, 10)])
def test_seeds_that_are_used_again(period, spell):
    with pytest.raises(AuditStopped, match="trials are not independent"):
        da.audit(cycling(period, spell), PAIR, **OPTIONS | {"trials": 1000})


@pytest.mark.parametrize("period", [10, 20, 50])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_seeds_that_are_used_again_do_not_refute_in_few_trials(period, epsilon):
    with pytest.raises(AuditStopped, match="trials are not independent"):
        da.audit(cycling(period), PAIR, claim=da.PureDP(epsilon), trials=400)


@pytest.mark.parametrize("n_values", [2, 20, 200, 2000])
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_values_drawn_at_random_keep_no_distance(n_values, share):
    rng = np.random.default_rng(0)
    for n in (30, 100, 600):
        drawn = rng.integers(n_values, size=(20, n))
        alone = rng.integers(10**9, size=(20, n)) + n_values
        rows = np.where(rng.random((20, n)) < share, drawn, alone)
        assert not any(_keep_a_distance([b"%d" % value for value in row]) for row in rows)


def clipped(data, rng):
    return float(np.clip(len(data) - 2.5 + rng.laplace(), -1.1, 1.1))


def chosen(data, rng):
    """One of 150 values with many digits."""
    return float(np.sqrt(rng.integers(2, 152)))


@pytest.mark.parametrize("mechanism", [clipped, chosen])
def test_outputs_may_come_back_at_random(mechanism):
    assert not da.audit(mechanism, PAIR, **OPTIONS | {"trials": 1500}).refuted


def test_prints():
    assert is_continuous(print_of(np.pi))
    assert is_continuous(print_of({"a": [np.pi, 1]}))
    assert is_continuous(print_of(np.sqrt(np.arange(2, 9, dtype=np.float32))))
    for discrete in (3, 3.0, 0.375, "yes", None, True, np.arange(3), ["a", "b"]):
        assert not is_continuous(print_of(discrete))
    assert print_of(0.0) == print_of(-0.0) != print_of(1e-300)


SCRIPT = """
import numpy as np
import torch
from dpassay import probe

torch.manual_seed(42)
x = probe.data(torch.arange(20.0), canary=25.0)
noise = torch.distributions.Laplace(0.0, 25.0).sample()  # enough for one record of at most 25
probe.release(float(x.clamp(0, 25).sum() + noise))
"""


def test_an_honest_script_with_a_fixed_seed(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    script = from_script(path)
    with pytest.raises(AuditStopped, match=SEED):
        da.audit(script, script.worlds, **OPTIONS)
    path.write_text(SCRIPT.replace("torch.manual_seed(42)", ""))
    assert not da.audit(from_script(path), script.worlds, **OPTIONS | {"trials": 40}).refuted
