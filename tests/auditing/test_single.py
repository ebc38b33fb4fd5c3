from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.auditing import AuditStopped
from dpassay.errors import InvalidArgument

M, D = 400, 2000


def canaries(seed=0):
    x = np.random.default_rng(seed).normal(size=(M, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def noisy_sum(sigma):
    def train(data, rng):
        return data.sum(axis=0) + sigma * rng.normal(size=D)

    return train


def dot(model, records):
    return records @ model


def test_an_honest_sum_stands_and_a_weak_one_falls():
    sigma = da.privacy.gaussian_noise_multiplier(1.0, 1e-5)
    claim = da.ApproxDP(1.0, 1e-5)
    data = np.zeros((1, D))
    honest = da.audit_one_run(noisy_sum(sigma), data, canaries(), claim=claim, score=dot)
    assert not honest.refuted
    assert honest.bound.epsilon < 1.0
    weak = da.audit_one_run(noisy_sum(sigma / 20), data, canaries(), claim=claim, score=dot)
    assert weak.refuted
    assert weak.bound.epsilon > 1.0
    assert weak.trials == 1
    assert weak.evidence.trials == M


def test_a_curve_is_tested_as_a_whole():
    data = np.zeros((1, D))
    options = {"claim": da.GDP(1.0), "score": dot}
    honest = da.audit_one_run(noisy_sum(1.0), data, canaries(), **options)
    weak = da.audit_one_run(noisy_sum(0.2), data, canaries(), **options)
    assert not honest.refuted
    assert weak.refuted
    assert weak.p_value <= 0.05 < honest.p_value


def test_forms_of_records():
    """Frames, lists and pairs; scores for all canaries at once or one at a time."""

    def count(data, rng):
        return len(data[0]) if isinstance(data, tuple) else len(data)

    x, y = np.zeros((5, 2)), np.arange(5)
    more_x, more_y = np.ones((30, 2)), np.ones(30)
    cases = [
        ((x, y), (more_x, more_y), lambda model, c: float(c[1])),
        (pd.DataFrame(x), pd.DataFrame(more_x), lambda model, c: 0.0),
        ([1, 2], list(range(30)), lambda model, c: float(c) if np.isscalar(c) else 1 / 0),
        (np.empty((0, 2)), more_x, lambda model, c: c.sum(axis=-1)),
    ]
    for data, records, score in cases[:2] + cases[3:]:
        verdict = da.audit_one_run(count, data, records, claim=da.PureDP(1.0), score=score)
        assert not verdict.refuted
        assert verdict.evidence.trials == 30


def test_a_stored_run_does_not_train_again(tmp_path):
    calls = str(tmp_path / "calls")

    def train(data, rng):
        with open(calls, "a") as file:
            file.write("x")
        return data.sum(axis=0)

    options = {"claim": da.PureDP(9.0), "score": dot, "store": tmp_path / "run.db"}
    first = da.audit_one_run(train, np.zeros((1, D)), canaries(), **options)
    second = da.audit_one_run(train, np.zeros((1, D)), canaries(), **options)
    assert Path(calls).read_text() == "x"
    assert first.bound == second.bound


def test_failures_and_misuse():
    def fails(data, rng):
        raise RuntimeError("out of cheese")

    claim = da.PureDP(1.0)
    # The kind and the place of the error; its words could quote a record.
    with pytest.raises(AuditStopped, match=r"RuntimeError(.|\n)*test_single.py") as raised:
        da.audit_one_run(fails, np.zeros((1, D)), canaries(), claim=claim, score=dot)
    assert "out of cheese" not in str(raised.value)
    for data, records, name in (
        (np.zeros((1, 3)), canaries(), "records of shape"),
        (np.zeros((1, D)), np.zeros((0, D)), "canaries"),
        (np.zeros((1, D)), 7, "canaries"),
        (np.zeros((1, D)), (np.zeros((3, 2)), np.zeros(4)), "canaries"),
    ):
        with pytest.raises((InvalidArgument, AuditStopped), match=name):
            da.audit_one_run(noisy_sum(1.0), data, records, claim=claim, score=dot)
    with pytest.raises(InvalidArgument, match="claim=3 must be a privacy curve"):
        da.audit_one_run(noisy_sum(1.0), np.zeros((1, D)), canaries(), claim=3, score=dot)
    with pytest.raises(InvalidArgument, match="confidence"):
        da.audit_one_run(
            noisy_sum(1.0), np.zeros((1, D)), canaries(), claim=claim, score=dot, confidence=2
        )


def test_a_claim_for_another_relation_is_refused():
    claim = da.PureDP(1.0, neighbouring="replace-one")
    with pytest.raises(InvalidArgument, match="add-remove"):
        da.audit_one_run(sum, [1.0], [2.0], claim=claim, score=lambda m, c: c)
