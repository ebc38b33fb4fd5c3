"""Noisy gradient descent: sensitivity, divisor, batches, noise, and what an audit sees."""

import math

import numpy as np
import pytest
from scipy import sparse

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.optim.clipping import clip_factors
from dpassay.optim.gradient import (
    noisy_gradient_descent,
    onto_ball,
    poisson_batch,
    step_event,
)
from dpassay.optim.losses import Logistic, Multinomial, Rows, Squared, mean_gradient
from dpassay.privacy import events
from rates import assert_rate

ORDER = {"l2": 2, "l1": 1}


def clipped_sum(rows, targets, loss, W, clip, norm):
    """One step of length one without noise from W shows the sum (with divisor 1)."""
    release = noisy_gradient_descent(
        rows,
        targets,
        loss,
        steps=1,
        learning_rate=1.0,
        clip=clip,
        noise_multiplier=0.0,
        n_records=1,
        norm=norm,
        start=W,
        rng=0,
    )
    return W - release.value


def random_problem(rng, loss, n=6, p=4, size=1.0):
    X = size * rng.standard_cauchy((n, p))
    if loss.n_scores > 1:
        targets = rng.integers(0, loss.n_scores, n)
    else:
        targets = rng.integers(0, 2, n).astype(float)
    return X, targets, 3 * rng.normal(size=(p + 1, loss.n_scores))


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3), Squared()], ids=str)
def test_sensitivity_of_the_clipped_sum_by_brute_force(loss, norm):
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(150):
        clip = 10.0 ** rng.uniform(-3, 1)
        X, targets, W = random_problem(rng, loss, size=10.0 ** rng.uniform(-2, 2))
        rows = Rows(X, constant=rng.choice([0.0, 0.3, 1.0]))
        whole = clipped_sum(rows, targets, loss, W, clip, norm)
        for i in range(len(X)):
            keep = np.arange(len(X)) != i
            part = clipped_sum(rows.take(keep), targets[keep], loss, W, clip, norm)
            ratios.append(np.linalg.norm((whole - part).ravel(), ORDER[norm]) / clip)
    assert max(ratios) <= 1 + 1e-9
    assert max(ratios) > 0.999  # and it is attained, so that nothing smaller would do


def test_replacing_a_record_doubles_it_and_the_noise():
    # Two opposite records that are both clipped: the worst case.
    X, targets = np.array([[5.0]]), np.array([0.0])
    W = np.zeros((2, 1))
    sums = [clipped_sum(Rows(sign * X, 0.0), targets, Logistic(), W, 1.0, "l2") for sign in (1, -1)]
    assert np.linalg.norm(sums[0] - sums[1]) == pytest.approx(2, rel=2e-4)
    releases = {
        relation: noisy_gradient_descent(
            Rows(X),
            targets,
            Logistic(),
            steps=1,
            learning_rate=1.0,
            clip=1.0,
            noise_multiplier=3.0,
            neighbouring=relation,
            rng=0,
        )
        for relation in ("add-remove", "replace-one")
    }
    assert [r.sensitivity for r in releases.values()] == [1.0, 2.0]
    assert releases["replace-one"].event == events.Repeated(events.Gaussian(3.0, "replace-one"), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipping_leaves_small_gradients_alone(dtype):
    rng = np.random.default_rng(1)
    X, targets, W = random_problem(rng, Multinomial(3), size=0.1)
    rows, W = Rows(X.astype(dtype)), W.astype(dtype)
    sum_of_all = mean_gradient(Multinomial(3), rows, targets, W, n_records=1)
    big = clipped_sum(rows, targets, Multinomial(3), W, 1e6, "l2")
    np.testing.assert_allclose(big, sum_of_all, rtol=1e-4, atol=1e-5)
    sizes = np.array([[0.5], [2.0]])
    np.testing.assert_allclose(clip_factors(sizes, np.ones(2), 1.0), [1.0, 0.5], rtol=1e-5)


def test_sparse_input_gives_the_same_weights():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.4)
    y = rng.integers(0, 2, 40).astype(float)
    options = {"steps": 5, "learning_rate": 1.0, "clip": 0.5, "noise_multiplier": 1.0}
    weights = [
        noisy_gradient_descent(
            Rows(kind(X)), y, Logistic(), sampling_rate=0.5, rng=3, **options
        ).value
        for kind in (np.asarray, sparse.csr_matrix)
    ]
    np.testing.assert_allclose(*weights, atol=1e-13)


def test_divisor_is_public_and_no_function_of_the_batch():
    """With equal gradients the step is (size of the batch)/(q n), so that it shows the size."""
    n, q = 200, 0.1
    rows, y = Rows(np.ones((n, 1)), 0.0), np.zeros(n)

    def step(rng, n_records=n):
        return noisy_gradient_descent(
            rows,
            y,
            Logistic(),
            steps=1,
            learning_rate=1.0,
            clip=10.0,
            noise_multiplier=0.0,
            sampling_rate=q,
            n_records=n_records,
            rng=rng,
        ).value[1, 0]

    for seed in range(5):
        size = len(poisson_batch(n, q, np.random.default_rng(seed)))
        assert step(seed) == pytest.approx(-0.5 * size / (q * n), rel=1e-6)
    assert step(0, n_records=2 * n) == pytest.approx(step(0) / 2)


def test_poisson_batches_are_bernoulli():
    rng = np.random.default_rng(4)
    n, q, draws = 50, 0.13, 4000
    counts, both = np.zeros(n), 0
    for _ in range(draws):
        batch = poisson_batch(n, q, rng)
        assert (np.diff(batch) > 0).all()
        counts[batch] += 1
        both += np.isin([0, 1], batch).all()
    for k in (counts[0], counts[1], counts[-1]):
        assert_rate(int(k), draws, q)
    assert_rate(int(counts.sum()), n * draws, q)
    assert_rate(int(both), draws, q * q)
    with pytest.raises(AssertionError):
        assert_rate(int(counts.sum()), n * draws, q * 1.05)  # a rate that is 5 % off is seen


def test_tiny_rates_and_full_batches():
    assert len(poisson_batch(5, 1.0, np.random.default_rng(0))) == 5
    assert len(poisson_batch(10, 1e-15, np.random.default_rng(0))) == 0


@pytest.mark.parametrize(("norm", "share"), [("l2", 0.682689), ("l1", 0.632121)])
def test_noise_is_what_the_event_says(norm, share):
    """Of a step on no gradient, the share of entries within one scale: erf(1/√2) or 1 - 1/e."""
    rows = Rows(np.zeros((10, 20_000), np.float32), 0.0)
    release = noisy_gradient_descent(
        rows,
        np.zeros(10),
        Logistic(),
        steps=1,
        learning_rate=1.0,
        clip=0.5,
        noise_multiplier=3.0,
        norm=norm,
        rng=5,
    )
    noise = release.value[1:, 0] * 10  # the divisor is 10
    assert_rate(int((np.abs(noise) <= 1.5).sum()), noise.size, share)
    with pytest.raises(AssertionError):
        assert_rate(int((np.abs(noise) <= 1.35).sum()), noise.size, share)  # 10 % too small
    leaf = {"l2": events.Gaussian, "l1": events.Laplace}[norm]
    assert release.event == events.Repeated(leaf(3.0), 1)


def test_levels_of_noise():
    run = lambda rng: noisy_gradient_descent(  # noqa: E731
        Rows(np.ones((3, 2))),
        np.zeros(3),
        Logistic(),
        steps=2,
        learning_rate=0.1,
        clip=1.0,
        noise_multiplier=1.0,
        sampling_rate=0.5,
        rng=rng,
    )
    assert run(0).noise == "reproducible"
    np.testing.assert_array_equal(run(0).value, run(0).value)
    assert run(None).noise == "cryptographic"
    assert run(None).event is None  # floats: the promise is not kept by these bits
    assert not np.array_equal(run(None).value, run(None).value)
    assert run(0).event == da.dp_sgd_event(1.0, 0.5, 2)


def test_without_noise_it_finds_the_minimum():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, -2.0] + 0.5
    release = noisy_gradient_descent(
        Rows(X), y, Squared(), steps=200, learning_rate=0.3, clip=1e6, noise_multiplier=0.0, rng=0
    )
    np.testing.assert_allclose(release.value[:, 0], [0.5, 1.0, -2.0], atol=1e-6)
    assert release.event == events.NonPrivate()
    fast = noisy_gradient_descent(
        Rows(X),
        y,
        Squared(),
        steps=60,
        learning_rate=0.3,
        clip=1e6,
        noise_multiplier=0.0,
        momentum=0.5,
        rng=0,
    )
    np.testing.assert_allclose(fast.value, release.value, atol=1e-5)


def test_average_and_penalty():
    rows, y = Rows(np.ones((1, 1)), 0.0), np.ones(1)
    common = {"learning_rate": 0.5, "clip": 100.0, "noise_multiplier": 0.0, "rng": 0}
    iterates = [
        noisy_gradient_descent(rows, y, Squared(), steps=t, **common).value for t in range(1, 5)
    ]
    averaged = noisy_gradient_descent(rows, y, Squared(), steps=4, average=0.5, **common).value
    np.testing.assert_allclose(averaged, (iterates[2] + iterates[3]) / 2)
    shrunk = noisy_gradient_descent(rows, y, Squared(), steps=200, penalty=1.0, **common).value
    assert shrunk[1, 0] == pytest.approx(0.5)  # minimises (w-1)²/2 + w²/2


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_projection_is_the_nearest_point(norm):
    rng = np.random.default_rng(7)
    project = onto_ball(1.5, norm)
    for _ in range(50):
        W = 2 * rng.normal(size=(3, 2))
        P = project(W)
        assert np.linalg.norm(P.ravel(), ORDER[norm]) <= 1.5 * (1 + 1e-12)
        # Variational inequality: <W - P, V - P> <= 0 for every V of the ball.
        V = rng.normal(size=(200, 6))
        V *= 1.5 / np.linalg.norm(V, ORDER[norm], axis=1)[:, None]
        assert ((V - P.ravel()) @ (W - P).ravel()).max() <= 1e-9
    inside = np.full((2, 1), 0.1)
    np.testing.assert_array_equal(project(inside), inside)


def test_projected_descent_stays_in_the_ball():
    release = noisy_gradient_descent(
        Rows(np.eye(3)),
        np.ones(3),
        Logistic(),
        steps=20,
        learning_rate=5.0,
        clip=1.0,
        noise_multiplier=2.0,
        project=onto_ball(0.7, "l1"),
        rng=0,
    )
    assert np.abs(release.value).sum() <= 0.7 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("learning_rate", math.nan),
        ("learning_rate", [1.0, 2.0, 3.0]),
        ("clip", 0.0),
        ("clip", math.nan),
        ("noise_multiplier", -1.0),
        ("noise_multiplier", math.nan),
        ("sampling_rate", 1.2),
        ("n_records", 0),
        ("norm", "l3"),
        ("neighbouring", "both"),
        ("penalty", -1.0),
        ("momentum", 1.0),
        ("average", 2.0),
        ("start", np.zeros((2, 2))),
        ("targets", np.zeros(2)),
    ],
)
def test_misuse_is_named(name, value):
    good = {
        "targets": np.zeros(3),
        "steps": 2,
        "learning_rate": 1.0,
        "clip": 1.0,
        "noise_multiplier": 1.0,
    }
    with pytest.raises(InvalidArgument, match=name):
        noisy_gradient_descent(Rows(np.ones((3, 1))), loss=Logistic(), **{**good, name: value})


def test_replace_one_batches_have_a_fixed_size():
    n = 40
    release = noisy_gradient_descent(
        Rows(np.ones((n, 1)), 0.0),
        np.zeros(n),
        Logistic(),
        steps=1,
        learning_rate=1.0,
        clip=10.0,
        noise_multiplier=0.0,
        sampling_rate=0.26,
        neighbouring="replace-one",
        rng=0,
    )
    assert release.value[1, 0] == pytest.approx(-0.5, rel=1e-6)  # 10 of 40, divided by 10


# Audits: a record whose gradient is clipped at every step, against its absence. Steps are so small
# that the weights stay where they are; the weight over the step is the sum of the noisy gradients,
# which is all that there is to know.


def mechanism(share, **options):
    options["noise_multiplier"] *= share

    def descend(data, rng):
        X, y = data
        release = noisy_gradient_descent(
            Rows(X, 0.0),
            y,
            Logistic(),
            learning_rate=1e-9,
            clip=1.0,
            n_records=1,
            rng=rng,
            **options,
        )
        return release.value[1, 0] * 1e9

    return descend


AUDITED = {
    "gd": ({"steps": 4, "noise_multiplier": 1.0}, 1000),
    "sgd": ({"steps": 3, "noise_multiplier": 0.6, "sampling_rate": 0.5}, 6000),
    "laplace": ({"steps": 1, "noise_multiplier": 0.5, "norm": "l1"}, 2000),
}


@pytest.mark.parametrize("name", AUDITED)
@pytest.mark.parametrize(("share", "refuted"), [(1.0, False), (0.7, True)])
def test_audit_refutes_noise_that_is_cut_to_70_percent(name, share, refuted):
    options, trials = AUDITED[name]
    rate, norm = options.get("sampling_rate", 1.0), options.get("norm", "l2")
    event = step_event(norm, options["noise_multiplier"], rate, options["steps"], "add-remove")
    X = np.array([[9.0], [0.0]])
    verdict = da.audit(
        mechanism(share, **options),
        ((X, np.ones(2)), (X[1:], np.ones(1))),
        claim=da.account(event),
        score=float,
        trials=trials if refuted else 300,
        confidence=0.999 if refuted else 1 - 1e-6,
        rng=1,
    )
    assert verdict.refuted == refuted


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_noise_that_is_drawn_is_the_noise_that_is_stated(norm, neighbouring):
    """Rows of zeros leave the noise alone; two per cent less of it would be five deviations."""
    release = noisy_gradient_descent(
        Rows(np.zeros((3, 40_000)), constant=0.0),
        np.zeros(3),
        Logistic(),
        steps=1,
        learning_rate=1.0,
        clip=0.5,
        noise_multiplier=2.0,
        n_records=10,
        norm=norm,
        neighbouring=neighbouring,
        rng=0,
    )
    sensitivity = {"add-remove": 0.5, "replace-one": 1.0}[neighbouring]
    seen = release.value[1:].ravel() * 10 / (2.0 * sensitivity)  # in units of the stated scale
    spread = {"l2": np.square(seen).mean(), "l1": np.abs(seen).mean()}[norm]  # both expect 1
    assert spread == pytest.approx(1.0, abs={"l2": 0.036, "l1": 0.025}[norm])
