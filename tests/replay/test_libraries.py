"""Calls of libraries that keep their noise to themselves: frozen whole, priced as they promise."""

import importlib.util
from dataclasses import dataclass

import numpy as np
import pytest

import dpassay as da
from dpassay.privacy import events
from dpassay.replay.stated import keep_stated, quietly
from dpassay.replay.tape import current
from extras import needs

VALUES = np.linspace(0, 1, 30)
RANGE = {"lower": 0.0, "upper": 30.0}


def total(x):
    return float(np.clip(x, 0, 1).sum())


# The way in which a library is registered, without a library


@dataclass(frozen=True)
class Call:
    value: float
    epsilon: float

    def distance(self, other):
        return abs(self.value - other.value)

    def cost(self, distance):
        return events.Pure(self.epsilon * distance) if distance <= 2 else "calls so far apart"


def noisy(value, epsilon, scale=1.0, declared=None):
    """A library that draws from a generator of its own."""
    tape = current()
    out = quietly(lambda: value + np.random.default_rng().laplace(scale=1 / epsilon))
    return (
        out
        if tape is None
        else keep_stated(tape, Call(value, epsilon), out, scale, declared=declared)
    )


def test_a_call_that_states_its_price_is_frozen_and_priced():
    honest = da.check(lambda x: noisy(total(x), 1.0), VALUES, "1")
    assert honest.findings == honest.undecided == honest.not_checked == ()
    assert honest.epsilon_seen == pytest.approx(1.0)
    broken = da.check(lambda x: noisy(total(x), 2.0), VALUES, "1")
    assert (broken.findings[0].rule, broken.epsilon_seen) == ("DPA202", pytest.approx(2.0))


@pytest.mark.parametrize(
    ("release", "rule"),
    [
        (lambda x: (noisy(total(x), 1.0), len(x)), "DPA301"),
        (lambda x: noisy(total(x), 1.0, declared=0.5), "DPA201"),
        (lambda x: noisy(total(x), 1.0, scale=1 / len(x)), "DPA102"),
        (lambda x: [noisy(total(x), 0.5) for _ in range(len(x) - 28)], "DPA101"),
    ],
)
def test_what_such_calls_can_break(release, rule):
    assert da.check(release, VALUES, "9").findings[0].rule == rule


def test_a_distance_without_a_price_is_not_checked():
    found = da.check(lambda x: noisy(5 * total(x), 1.0), VALUES, "1")
    assert found.findings == ()
    assert "calls so far apart" in found.not_checked[0].message
    with pytest.raises(da.DpassayError):
        da.check(lambda x: noisy(total(x), 1.0), VALUES, "1").evidence(2)  # no density


# OpenDP


@pytest.fixture(scope="module")
def dp():
    if importlib.util.find_spec("opendp") is None:
        pytest.skip("needs opendp: pip install 'dpassay[bench]'")
    found = needs("opendp.prelude", "bench")
    found.enable_features("contrib")
    return found


def test_opendp(dp):
    number = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    records = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    laplace = dp.m.make_laplace(*number, scale=1.0)
    chain = records >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum() >> dp.m.then_laplace(1.0)
    gauss = dp.m.make_gaussian(*number, scale=1.0)
    for release, claim, seen in (
        (lambda x: laplace(total(x)), "1", 1.0),
        (lambda x: chain([*map(float, x)]), "1.001", 1.0),
        (lambda x: gauss(total(x)), da.ZCDP(0.5), da.ZCDP(0.5).epsilon(1e-5)),
    ):
        honest = da.check(release, VALUES, claim, limit=4)
        assert honest.findings == honest.undecided == honest.not_checked == ()
        assert honest.epsilon_seen == pytest.approx(seen, rel=1e-6)
    twice = da.check(lambda x: chain([*map(float, x)] * 2), VALUES, "1.001", limit=4)
    assert (twice.findings[0].rule, twice.findings[0].site.file) == ("DPA202", __file__)
    leak = da.check(lambda x: (laplace(total(x)), len(x)), VALUES, "1", limit=4)
    assert leak.findings[0].rule == "DPA301"
    scaled = da.check(
        lambda x: dp.m.make_laplace(*number, scale=1.0 + 1 / len(x))(total(x)), VALUES, "1", limit=4
    )
    assert scaled.findings[0].rule == "DPA102"


# diffprivlib


@pytest.fixture(scope="module")
def mechanisms():
    if importlib.util.find_spec("diffprivlib") is None:
        pytest.skip("diffprivlib is no part of any extra")
    import diffprivlib.mechanisms

    return diffprivlib.mechanisms


def test_diffprivlib(mechanisms):
    half = {"epsilon": 2.0, "sensitivity": 1.0}
    whole = {"epsilon": 1.0, "sensitivity": 1.0}
    for kind, more in ((mechanisms.Laplace, {}), (mechanisms.LaplaceTruncated, RANGE),
                       (mechanisms.Staircase, {}), (mechanisms.Snapping, RANGE)):  # fmt: skip
        honest = da.check(lambda x: kind(**whole, **more).randomise(total(x)), VALUES, "1")  # noqa: B023
        assert honest.findings == honest.undecided == honest.not_checked == ()
        broken = da.check(lambda x: kind(**half, **more).randomise(total(x)), VALUES, "1")  # noqa: B023
        assert broken.findings[0].rule == "DPA202"
    small = da.check(
        lambda x: mechanisms.Laplace(epsilon=0.5, sensitivity=0.5).randomise(total(x)), VALUES, "1"
    )
    assert (small.findings[0].rule, small.findings[0].site.file) == ("DPA201", __file__)


def test_nothing_stays_replaced_after_ctrl_c():
    from dpassay.mechanisms import choosing, exact

    owners = [(exact, "add_noise"), (choosing, "choose")]
    if importlib.util.find_spec("opendp") is not None:
        owners.append((importlib.import_module("opendp.core"), "measurement_invoke"))
    before = [getattr(owner, name) for owner, name in owners]

    def release(x):
        assert all(getattr(o, n) is not known for (o, n), known in zip(owners, before, strict=True))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        da.check(release, VALUES)
    assert [getattr(owner, name) for owner, name in owners] == before
    assert current() is None
