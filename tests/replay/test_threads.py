"""Noise that is drawn in threads is not followed: what it may protect is undecided, not broken."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dpassay as da

DATA = np.linspace(0, 1, 12)


def in_a_pool(x, rng):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: x.sum() + np.random.default_rng().laplace()).result()


def by_the_generator_that_was_passed(x, rng):
    with ThreadPoolExecutor(1) as pool:
        return x.sum() + pool.submit(rng.laplace).result()


def by_a_state_of_its_own(x, rng):
    found = []

    def work():
        found.append(x.sum() + np.random.RandomState().laplace())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    "mechanism", [in_a_pool, by_the_generator_that_was_passed, by_a_state_of_its_own]
)
def test_noise_of_threads_is_undecided(mechanism):
    found = da.check(mechanism, DATA, "1", bounds=(0, 1), limit=4)
    assert found.findings == ()
    assert not found.decided
    assert any("in a thread" in part.message for part in found.not_checked)


def test_a_thread_without_noise_excuses_nothing():
    def release(x, rng):
        with ThreadPoolExecutor(1) as pool:
            return x.sum() + rng.laplace(), pool.submit(x.max).result()

    found = da.check(release, DATA, "1", bounds=(0, 1), limit=6)
    assert [finding.rule for finding in found.findings] == ["DPA301"]


@pytest.mark.parametrize(("scale", "rules"), [(1.0, []), (0.5, ["DPA202"])])
def test_a_state_made_inside_is_followed(scale, rules):
    def release(x, rng):
        return x.sum() + np.random.RandomState().laplace(scale=scale)

    found = da.check(release, DATA, "1", bounds=(0, 1), limit=6)
    assert [finding.rule for finding in found.findings] == rules
    assert found.decided
