"""Fits use one BLAS thread, and leave the number of threads as they found it."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dpassay import _threads
from dpassay.learn.ridge_plans import SufficientStatistics
from dpassay.synth import Independent, Schema


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_small_problems_have_one_thread_and_large_ones_keep_theirs(two_threads):
    with _threads.limit_threads():
        assert blas_threads() == {1}
    with _threads.limit_threads(_threads.LARGE):
        assert blas_threads() == {2}
    assert blas_threads() == {2}


def spy_on(monkeypatch, owner, name):
    real, seen = getattr(owner, name), []

    def spy(*args, **kwargs):
        seen.append(blas_threads())
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, spy)
    return seen


def test_synthesizers(two_threads, monkeypatch):
    seen = spy_on(monkeypatch, Independent, "_run")
    Independent(Schema({"a": [0, 1]}), delta=1e-5, rng=0).fit(np.zeros((50, 1), int))
    assert seen == [{1}]


def test_learners(two_threads, monkeypatch):
    from dpassay.learn import PrivateRidge

    seen = spy_on(monkeypatch, SufficientStatistics, "solve")
    model = PrivateRidge(solver="adassp", data_norm=1.0, target_bound=1.0, random_state=0)
    model.fit(np.ones((50, 2)), np.ones(50))
    assert seen == [{1}]
