"""Rounding: a record's part is its own, bit for bit, and sums move by no more than is charged."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from dpassay.errors import InvalidArgument
from dpassay.optim import gradient, products
from dpassay.optim.clipping import clip_factors, rounding
from dpassay.optim.gradient import noisy_gradient_descent
from dpassay.optim.losses import Huber, Logistic, Multinomial, Rows, Squared
from dpassay.optim.products import row_products
from rates import assert_rate

DTYPES = (np.float32, np.float64)


def cancelling(rng, n, p, k, dtype):
    """Rows and weights whose products are all rounding: rows at right angles to the weights."""
    W = rng.standard_normal((p, k)).astype(dtype)
    basis = np.linalg.qr(W.astype(float))[0]
    X = rng.standard_normal((n, p)) / np.finfo(dtype).eps
    return (X - (X @ basis) @ basis.T).astype(dtype), W


def is_alone(function, n, rng):
    """Whether function(numbers of records) gives each its own bits in any company and order."""
    whole = function(np.arange(n))
    sizes = (1, 2, 3, 7, 16, 63, 64, 65, 127, 129)
    chosen = [rng.permutation(n)[:size] for size in sizes] + [np.arange(1, n)]
    return all(np.array_equal(function(some), whole[some]) for some in chosen)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("p", "k"), [(3, 2), (50, 10), (784, 1), (784, 10), (100, 33), (90, 100)])
def test_a_product_with_a_row_is_a_function_of_the_row(dtype, p, k):
    rng = np.random.default_rng(0)
    X, W = cancelling(rng, 200, p, min(k, p - 1), dtype)
    W = np.pad(W, ((0, 0), (0, max(k - W.shape[1], 0))), mode="wrap")
    assert is_alone(lambda some: row_products(X[some], W), len(X), rng)
    assert is_alone(lambda some: row_products(X[some], np.asfortranarray(W)), len(X), rng)
    exact = X.astype(np.longdouble) @ W.astype(np.longdouble)
    scale = np.abs(X).astype(float) @ np.abs(W).astype(float)
    assert (np.abs(row_products(X, W) - exact) <= p * np.finfo(dtype).eps * scale).all()


def test_a_product_that_depends_on_company_is_noticed():
    rng = np.random.default_rng(0)
    X, W = cancelling(rng, 200, 50, 10, np.float32)

    def careless(some):  # the last rows of an odd number are added up from behind
        whole = row_products(X[some], W)
        if len(some) % 2:
            whole[-1] = row_products(X[some[-1:], ::-1], W[::-1])[0]
        return whole

    assert not is_alone(careless, len(X), rng)


def test_places_that_differ_are_found_and_avoided(monkeypatch):
    X, W = cancelling(np.random.default_rng(0), 70, 30, 5, np.float64)
    asked = []
    monkeypatch.setattr(products, "_places_are_alike", lambda *key: bool(asked.append(key)))
    found = row_products(X, W)
    assert len(asked) == 1
    for i in (0, 63, 69):  # one dot product each
        np.testing.assert_array_equal(found[i], [np.vecdot(X[i], w) for w in W.T.copy()])

    class Careless(np.ndarray):
        def __matmul__(self, other):
            product = np.array(self) @ np.array(other)
            product[-1] = np.nextafter(product[-1], 0)
            return product

    monkeypatch.undo()
    real = np.tile
    monkeypatch.setattr(np, "tile", lambda *args: real(*args).view(Careless))
    assert not products._places_are_alike.__wrapped__("<f8", "<f8", (30, 5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", [Squared(), Huber(0.7), Logistic(), Multinomial(10)], ids=str)
def test_a_clipped_residual_is_a_function_of_the_record(loss, dtype):
    rng = np.random.default_rng(1)
    X = (3 * rng.standard_normal((200, 20))).astype(dtype)
    W = rng.standard_normal((21, loss.n_scores)).astype(dtype)
    many = loss.n_scores > 1
    targets = rng.integers(0, 10, 200) if many else rng.random(200).astype(dtype)

    def clipped(some, order=2):
        rows = Rows(X[some], 0.5)
        residuals = loss.residual(rows.scores(W), targets[some])
        return residuals * clip_factors(residuals, rows.norms(order), 0.3, order)[:, None]

    assert is_alone(lambda some: loss.residual(Rows(X[some]).scores(W), targets[some]), 200, rng)
    for order in (1, 2):
        assert is_alone(lambda some, o=order: Rows(X[some]).norms(o), 200, rng)
    # Sizes of residuals are sums of a few squares in double precision: last bits may differ there.
    whole = clipped(np.arange(200))
    np.testing.assert_allclose(clipped(np.array([3])), whole[[3]], rtol=4e-16)
    np.testing.assert_array_equal(clipped(np.arange(2, 199)), whole[2:199])


# Sums in blocks of single precision. A batch in order, and its neighbour: the new record takes a
# place, and whoever stood there goes to the end.


def with_record(order, z, place):
    """The neighbour's order: z at the place, who was there at the end."""
    longer = np.append(order, z)
    longer[[place, -1]] = longer[[-1, place]]
    return longer


def moved(total, n, places):
    """How far the last of n records moves the sum, at most, over places that it may take."""
    without = total(np.arange(n - 1))
    apart = (total(with_record(np.arange(n - 1), n - 1, j)) - without for j in places)
    return max(np.linalg.norm(change) for change in apart)


def block_sum(X, residuals, order):
    return Rows(X[order], 0.0).adjoint(residuals[order], single=True)


def at_the_bound(rng, n, kind):
    """Rows and residuals in single precision, the products of whose norms are 1 at most."""
    sizes = {
        "even": np.ones(n),
        "crossing": np.where(np.arange(n) % 64 < 33, 1, -0.8 * 2.0**-19),
        "cancelling": rng.choice([-1.0, 1.0], n),
        "scattered": 2.0 ** rng.integers(-30, 1, n) * rng.choice([-1.0, 1.0], n),
        "denormal": np.where(rng.random(n) < 0.5, 1.0, 1e-40),
    }[kind]
    X = np.abs(rng.standard_normal((n, 3))) * 10.0 ** rng.integers(-12, 12, (n, 1))
    X = np.column_stack([X, X[:, :1] * 1e-20]).astype(np.float32)
    R = np.abs(rng.standard_normal((n, 2)))
    R *= (sizes / np.linalg.norm(R, axis=1) / np.linalg.norm(X.astype(float), axis=1))[:, None]
    return X, (R * (1 - 1e-7)).astype(np.float32)


@pytest.mark.parametrize("kind", ["even", "crossing", "cancelling", "scattered", "denormal"])
def test_blocks_in_single_precision_move_by_no_more_than_is_charged(kind):
    rng = np.random.default_rng(2)
    largest = 0.0
    for n in (1, 2, 63, 64, 65, 66, 128, 129, 191, 193, 300):
        for _ in range(6):
            X, R = at_the_bound(rng, n, kind)
            places = rng.integers(0, n, 8)
            total = partial(block_sum, X, R)
            largest = max(largest, moved(total, n, places))
    assert 0.99 < largest <= 1 + rounding(single=True)


def test_rounding_is_there_to_be_charged_for():
    """Blocks do not move by the record exactly, and sums without blocks by much more.

    Sums in [32, 64) lose what is below half of 2^-18, sums below 32 round it up to 2^-19.
    """
    column = np.r_[np.ones(32), np.full(31, -0.8 * 2.0**-19), 1].astype(np.float32)
    X, residuals = np.zeros((64, 16), np.float32), np.zeros((64, 16), np.float32)
    X[:, 0], residuals[:, 0] = 1, column

    def careless(order):
        return np.cumsum(np.r_[column[order], np.full(10**5, column[40])], dtype=np.float32)[-1:]

    # Which way depends on the order in which this machine's kernels add.
    blocks = moved(partial(block_sum, X, residuals), 64, range(64))
    assert blocks != 1
    assert 1 - rounding(single=True) < blocks < 1 + rounding(single=True)
    assert moved(careless, 64, [32]) > 1.1


def test_blocks_of_a_long_sum_do_not_add_up_their_errors():
    """A sum in single precision moves by more than ten here: all that is added later is rounded."""
    column = np.r_[np.ones(1024), np.full(200_000, -0.8 * 2.0**-14), 1].astype(np.float32)
    X, residuals = np.zeros((2, len(column), 2), np.float32)
    X[:, 0], residuals[:, 0] = 1, column
    places = [0, 1024, len(column) - 1]

    def careless(order):
        return np.cumsum(column[order])[-1:]

    assert moved(careless, len(column), places) > 10
    most = 1 + rounding(single=True)
    assert moved(partial(block_sum, X, residuals), len(column), places) <= most


def one_step(X, targets, **options):
    """The sum of the clipped gradients of the squared loss at 0, less what W in X's type loses."""
    step = noisy_gradient_descent(
        Rows(X, 0.0), targets, Squared(), steps=1, learning_rate=1.0, clip=1.0,
        noise_multiplier=0.0, n_records=1, rng=0, **options,
    )  # fmt: skip
    return -step.value[1:].astype(float)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rate", [1.0, 1 - 1e-12])
def test_gradients_are_clipped_to_what_rounding_leaves(dtype, rate):
    X, targets = np.full((1, 3), 5, dtype), np.ones(1, dtype)
    single = dtype == np.float32 and rate < 1
    found = np.linalg.norm(one_step(X, targets, sampling_rate=rate))
    assert found == pytest.approx(1 / (1 + rounding(single=single)), rel=1e-6)


def test_gradients_of_any_length_are_clipped():
    """In single precision the factor of 1e-45 would be rounded to 1.4e-45, and the clip with it."""
    for length in 10.0 ** np.linspace(0, 18, 37):
        for target in 10.0 ** np.linspace(30, 38.5, 18):
            X, targets = np.full((1, 1), length, np.float32), np.full(1, target, np.float32)
            assert 0.999 < np.abs(one_step(X, targets)).max() <= 1


@pytest.mark.parametrize(
    ("size", "loss", "least"),
    [(1.0, Multinomial(3), 0.99), (1e17, Multinomial(3), 0.99), (1e-25, Squared(), 1e-7)],
    ids=str,
)
def test_steps_on_batches_move_by_no_more_than_the_clip(monkeypatch, size, loss, least):
    """From end to end: scores that cancel, rows of all sizes, any place of the record."""
    rng = np.random.default_rng(3)
    n, p, clip, sums = 150, 40, 0.7, []
    X, W = cancelling(rng, n, p, loss.n_scores, np.float32)
    X = (X * (size / 1e7) * 10.0 ** rng.integers(-2, 2, (n, 1))).astype(np.float32)
    X[-1] = 10 * size  # is clipped
    start = np.pad(W, ((1, 0), (0, 0)))
    targets = rng.integers(0, 3, n) if loss.n_scores > 1 else np.full(n, 1e30, np.float32)
    targets[-1] = targets[-1] if loss.n_scores == 1 else (X[-1] @ W).argmin()
    real = Rows.adjoint
    monkeypatch.setattr(
        Rows, "adjoint", lambda self, r, **how: sums.append(real(self, r, **how)) or sums[-1]
    )

    def total(order):
        monkeypatch.setattr(gradient._Shared, "batch", lambda self, rng: order)
        noisy_gradient_descent(
            Rows(X, 0.0), targets, loss, steps=1, learning_rate=1.0, clip=clip,
            noise_multiplier=0.0, sampling_rate=0.5, n_records=2, start=start, rng=0,
        )  # fmt: skip
        return sums.pop()

    assert least * clip < moved(total, n, rng.integers(0, n, 25)) <= clip


def test_batches_come_in_random_order():
    """Of batches of three, the least is first in a third; in ascending order always."""
    plan = gradient._plan(Rows(np.ones((5, 1))), np.zeros(5), Logistic(), 1.0, 1.0, 0.6, None)
    rng = np.random.default_rng(4)
    batches = [batch for batch in (plan.batch(rng) for _ in range(4000)) if len(batch) == 3]
    for place in range(3):
        assert_rate(sum(batch.argmin() == place for batch in batches), len(batches), 1 / 3)


@pytest.mark.parametrize(
    ("rows", "options", "single"),
    [
        (Rows(np.ones((9, 2), np.float32)), {}, True),
        (Rows(np.ones((9, 2))), {}, False),
        (Rows(sparse.csr_matrix(np.ones((9, 2), np.float32))), {}, False),
        (Rows(np.ones((9, 2), np.float32), 1.0, np.ones(2)), {}, False),
        (Rows(np.ones((9, 2), np.float32)), {"sampling_rate": 1.0}, False),  # in the given order
        (Rows(np.ones((9, 2), np.float32)), {"clip": 1e30}, False),
        (Rows(np.ones((9, 2), np.float32)), {"clip": 1e-30}, False),
    ],
)
def test_single_precision_is_used_where_it_is_charged_for(monkeypatch, rows, options, single):
    used = []
    real = Rows.adjoint
    monkeypatch.setattr(
        Rows, "adjoint", lambda self, r, single: used.append(single) or real(self, r, single=single)
    )
    settings = {"clip": 1.0, "sampling_rate": 0.5, "steps": 1, "learning_rate": 1.0} | options
    noisy_gradient_descent(rows, np.zeros(9), Logistic(), noise_multiplier=1.0, rng=0, **settings)
    assert used == [single]


# Sums in double precision.


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_rows_next_to_the_center_count_for_no_more_than_the_clip(form, norm):
    rng = np.random.default_rng(5)
    center = rng.standard_normal(6)
    X = center + 10.0 ** rng.uniform(-17, -7, (400, 1)) * rng.standard_normal((400, 6))

    def total(part):
        return noisy_gradient_descent(
            Rows(form(X[part]), 0.0, center), np.full(len(X[part]), 1e30), Squared(), steps=1,
            learning_rate=1.0, clip=1.0, noise_multiplier=0.0, norm=norm, n_records=1, rng=0,
        ).value  # fmt: skip

    order = {"l2": 2, "l1": 1}[norm]
    for first in range(5):
        change = total(slice(first, 400)) - total(slice(first + 1, 400))
        assert np.linalg.norm(change.ravel(), order) <= 1


def test_pieces_add_up():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((2 * products.PIECE + 77, 3))
    R = rng.standard_normal((len(X), 2))
    expected = np.column_stack([np.full(len(X), 0.5), X]).T @ R
    for form, single in ((np.asarray, False), (sparse.csr_matrix, False), (np.asarray, True)):
        np.testing.assert_allclose(Rows(form(X), 0.5).adjoint(R, single=single), expected, 1e-9)
    thin = Rows(X.astype(np.float32), 0.5)
    np.testing.assert_allclose(thin.adjoint(R), expected, atol=1e-4)
    np.testing.assert_allclose(thin.adjoint(R.astype(np.float32), single=True), expected, atol=1e-2)


@pytest.mark.parametrize("n_records", [None, 2**22])
def test_more_records_are_charged_for(n_records):
    """Of 2²² + 1 equal records every one is clipped to what is left of the clip for so many."""
    n = 2**22 + 1
    step = noisy_gradient_descent(
        Rows(np.ones((n, 1), np.float32), 0.0), np.ones(n, np.float32), Logistic(), steps=1,
        learning_rate=1.0, clip=2.0**-10, noise_multiplier=0.0, n_records=n_records, rng=0,
    ).value[1, 0]  # fmt: skip
    moved = step / n * (n_records or n)
    expected = 2.0**-10 / (1 + rounding(False, n))
    assert moved == pytest.approx(expected, rel=1e-6)
    assert rounding(False, n) > 2 * rounding(False)


def test_more_records_than_are_charged_for_are_refused():
    n = 2**22 + 1
    with pytest.raises(InvalidArgument, match="n_records=1000 is less than half of the 4194305"):
        noisy_gradient_descent(
            Rows(np.zeros((n, 1), np.float32)), np.zeros(n, np.float32), Logistic(), steps=1,
            learning_rate=1.0, clip=1.0, noise_multiplier=1.0, n_records=1000,
        )  # fmt: skip


@pytest.mark.parametrize("n", [1, 4096, 4097, 2**22, 10**7, 10**9])
def test_the_error_of_sums_is_that_of_their_proof(n):
    """2 n γ_k in exact numbers, k = 4096 of a piece, and as many more as there are pieces."""
    u, k = Fraction(1, 2**53), 4096 + -(-n // 4096) + 8
    assert 2 * n * k * u / (1 - k * u) <= products.sum_error(n) < 1.01 * float(2 * n * k * u)
    assert 16.5 * products.sum_error(n) + 1e-5 <= rounding(False, n)  # with a center
