"""Attempts to make one record count for more than is charged for it."""

import numpy as np
import pytest
from scipy import sparse

from dpassay.errors import InvalidArgument
from dpassay.optim import objectives
from dpassay.optim.conditioning import column_sizes
from dpassay.optim.frank_wolfe import frank_wolfe
from dpassay.optim.gradient import noisy_gradient_descent
from dpassay.optim.losses import Logistic, Multinomial, Rows, Squared
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import Hull, L1Ball, Simplex
from dpassay.optim.stochastic_frank_wolfe import (
    StochasticPlan,
    stochastic_frank_wolfe,
    stochastic_plan,
)


class Silent:
    """A generator of no noise."""

    def standard_normal(self, shape=None):
        return np.zeros(shape)


# Single precision. Between 2^10 and 2^11 a float32 is a multiple of 2^-13, below 2^10 of 2^-14: a
# record that decides on which side a sum is decides how everything after it is rounded.


def crossing(step, n_after):
    """Ones that add up to 2^10 + 1, the first of which may be taken out, then many small steps."""
    return np.r_[np.ones(1025), np.full(n_after, step)].astype(np.float32)


def moved_by_the_first(total, n):
    return abs(total(slice(0, n)) - total(slice(1, n)))


def test_one_record_moves_a_column_by_itself_in_single_precision():
    column = crossing(1.02 * 2.0**-14, 16384)[1:]
    X = np.column_stack([column, 0 * column])

    def total(part):
        center, _, _ = column_sizes(X[part], 1.0, 1, 0.0, Silent())  # type: ignore[arg-type]
        return center[0]

    assert moved_by_the_first(lambda part: X[part].sum(axis=0)[0], len(X)) == 2
    assert moved_by_the_first(total, len(X)) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_one_record_moves_a_gradient_by_itself_in_single_precision(form):
    column = crossing(-0.8 * 2.0**-14, 200_000)
    residuals = np.column_stack([column, 0 * column])
    X = np.zeros((len(column), 2), np.float32)
    X[:, 0] = 1

    assert moved_by_the_first(lambda part: residuals[part].sum(axis=0)[0], len(X)) > 10
    for weight in (0, 1):  # the intercept's and the first feature's
        rows = Rows(form(X))
        moved = moved_by_the_first(
            lambda part, rows=rows, weight=weight: rows.take(part).adjoint(residuals[part])[
                weight, 0
            ],
            len(X),
        )
        assert moved == pytest.approx(1, abs=1e-9)


# Sparse matrices may hold an entry in several parts.


def in_parts(k):
    """A row (k, 0), as k entries of 1 in the same place."""
    return sparse.csr_matrix((np.ones(k), np.zeros(k, int), np.array([0, k])), (1, 2))


@pytest.mark.parametrize("order", [1, 2, np.inf])
def test_a_row_in_parts_measures_what_the_row_does(order):
    given = in_parts(9)
    assert Rows(given, 0.0).norms(order) == 9
    assert given.nnz == 9, "the caller's matrix stays as it is"


# Overflow. Weights are public given the past; a record must not turn the sum into a NaN.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", [Squared(), Multinomial(2)])
def test_a_record_whose_score_overflows_is_no_louder_than_others(dtype, loss):
    X = np.array([[0.1], [0.1], [8.0]], dtype)
    start = np.zeros((2, loss.n_scores))
    start[1, 0] = np.finfo(dtype).max / 4
    options = {"steps": 1, "learning_rate": 1.0, "clip": 1.0, "noise_multiplier": 1.0}
    targets = np.zeros(3, dtype if loss.n_scores == 1 else int)
    with np.errstate(over="ignore", invalid="ignore"):
        release = noisy_gradient_descent(
            Rows(X, 0.0), targets, loss, n_records=3, start=start, rng=0, **options
        )
    assert np.isfinite(release.value).all()


# Batches of a fixed size. What is done must not be more than a plan was priced for.


@pytest.mark.parametrize("n", [11, 29, 501])
def test_a_batch_is_never_a_larger_share_than_asked_for(n):
    asked = 1.6 / n
    options = {"steps": 1, "learning_rate": 1.0, "clip": 1.0, "noise_multiplier": 1.0}
    release = noisy_gradient_descent(
        Rows(np.ones((n, 1))), np.zeros(n), Logistic(), sampling_rate=asked,
        neighbouring="replace-one", rng=0, **options,
    )  # fmt: skip
    assert release.event.event.sampling_rate <= asked
    with pytest.raises(InvalidArgument, match="less than one record"):
        noisy_gradient_descent(
            Rows(np.ones((n, 1))), np.zeros(n), Logistic(), sampling_rate=0.6 / n,
            neighbouring="replace-one", rng=0, **options,
        )  # fmt: skip


def test_a_stochastic_plan_is_for_the_share_that_it_states():
    ball = L1Ball(2, 1.0)
    plan = stochastic_plan(
        ball, scheme="without-replacement", steps=3, n_records=100, lipschitz=1.0, epsilon=1.0,
        delta=0.0, batch_size=5, neighbouring="replace-one",
    )  # fmt: skip
    rows = Rows(np.ones((20, 1)))
    objective = LinearObjective(Logistic(), rows, np.zeros(20), 100)
    with pytest.raises(InvalidArgument, match="n_rows=20"):
        stochastic_frank_wolfe(objective, ball, plan, n_rows=20, rng=0)
    with pytest.raises(InvalidArgument, match=r"batch_size=1\.5"):
        StochasticPlan("without-replacement", 3, 100, 1.5, plan.selection)


@pytest.mark.parametrize("size", [-0.1, 1.5, np.nan])
def test_a_step_out_of_the_polytope_is_refused(size):
    """The bound on residuals, and with it the sensitivity, holds inside."""
    objective = LinearObjective(Logistic(), Rows(np.ones((3, 1))), np.zeros(3), 3)
    with pytest.raises(InvalidArgument, match="step="):
        frank_wolfe(objective, L1Ball(2, 1.0), steps=2, step=lambda t: size)


HULL = Hull(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))


@pytest.mark.parametrize(
    ("polytope", "inside", "outside"),
    [
        (L1Ball(2, 1.0), [[0.3, -0.7], [0.1, 0.0], [1.0, 0.0]], [[0.6, -0.6], [1 + 1e-9, 0.0]]),
        (Simplex(2, 2.0), [[0.5, 1.5], [0.0, 2.0]], [[0.5, 1.4], [-0.1, 2.1]]),
        (HULL, [[0.5, 0.5], [2.0, 0.0], [1.0, 0.5]], [[1.1, 0.5], [-1e-6, 0.0]]),
    ],
)
def test_a_start_out_of_the_polytope_is_refused(polytope, inside, outside):
    objective = LinearObjective(Logistic(), Rows(np.ones((3, 1))), np.zeros(3), 3)
    plan = StochasticPlan("independent", 2, 3, 3, None)
    for start in inside:
        kept = np.array(start)
        frank_wolfe(objective, polytope, steps=2, step=0.5, start=kept)
        stochastic_frank_wolfe(objective, polytope, plan, n_rows=3, start=kept, rng=0)
        np.testing.assert_array_equal(kept, start)
    for start in [*outside, [np.nan, 0.0], [0.5]]:
        with pytest.raises(InvalidArgument, match="start"):
            frank_wolfe(objective, polytope, steps=2, start=np.array(start))
        with pytest.raises(InvalidArgument, match="start"):
            stochastic_frank_wolfe(objective, polytope, plan, n_rows=3, start=np.array(start))


# Numbers next to the smallest one are multiples of it: what is half of it is rounded up to it.


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 120), (np.float64, 1000)])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_records_of_any_length_count_for_no_more_than_the_clip(norm, dtype, far):
    rng = np.random.default_rng(0)
    shares = []
    for length, small, target in zip(*rng.uniform(0, far, (3, 300)), strict=True):
        clip = 2.0 ** (-small)
        step = noisy_gradient_descent(
            Rows(np.array([[2.0**length]], dtype), 0.0), np.array([2.0 ** (target / 9)], dtype),
            Squared(), steps=1, learning_rate=1.0, clip=clip, noise_multiplier=0.0, norm=norm,
            n_records=1, rng=0,
        )  # fmt: skip
        shares.append(abs(step.value[1, 0]) / clip)
    assert max(shares) <= 1
    assert np.mean(np.array(shares) > 0.99) > 0.2


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_row_that_is_not_finite_is_refused(form, value):
    X = np.ones((5, 2))
    X[3, 0] = value
    refused = pytest.raises(InvalidArgument, match="rows must be finite")
    with refused, np.errstate(invalid="ignore"):
        noisy_gradient_descent(
            Rows(form(X)), np.ones(5), Logistic(), steps=1, learning_rate=1.0, clip=1.0,
            noise_multiplier=1.0, rng=0,
        )  # fmt: skip


def test_a_score_as_computed_moves_by_no_more_than_its_sensitivity(monkeypatch):
    """A million equal records in front of which one more is put: all that follows is rounded anew.

    Without what is charged for it, the change is above the sensitivity by 1e-10 of itself.
    """
    n, excess = 2**20, {True: [], False: []}
    sizes = [0.8, 0.5321072186560956, 0.8395907665106825, 0.55, 0.6, 0.7, 0.9]

    def total(X):
        objective = LinearObjective(Squared(1.0), Rows(X, 0.0), np.full(len(X), -1.0), n)
        return objective.gradient(np.zeros(1))[0] * n

    for charged in (True, False):
        if not charged:
            monkeypatch.setattr(objectives, "sum_error", lambda n: 0.0)
        for size in sizes:
            X = np.full((n, 1), size)
            X[0] = 1
            excess[charged].append(total(X) - total(X[1:]) - 1)
    assert max(excess[True]) <= 0 < max(excess[False]) < 1e-6


def test_an_objective_of_more_records_than_it_charges_for_is_refused():
    n = 2**22 + 1
    with pytest.raises(InvalidArgument, match="n_records=100 is less than half"):
        LinearObjective(Logistic(), Rows(np.zeros((n, 1))), np.zeros(n), 100)
