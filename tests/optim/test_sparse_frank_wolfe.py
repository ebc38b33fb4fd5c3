"""The sparse solver: its scores are the dense solver's, or stale ones of the same sensitivity."""

import math

import numpy as np
import pytest
from scipy import sparse

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.optim import frank_wolfe as fw
from dpassay.optim import sparse_frank_wolfe as solver
from dpassay.optim.losses import (
    Huber,
    Logistic,
    Multinomial,
    Rows,
    Squared,
    lipschitz,
    mean_gradient,
)
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball
from dpassay.privacy import account, events

N, P, RADIUS = 60, 40, 8.0
LOSSES = {"squared": Squared(RADIUS + 1), "logistic": Logistic(), "huber": Huber(0.8)}


def table(n=N, p=P, density=0.1, seed=0):
    """Columns of unequal length, among them an empty and a full one; entries in [-1, 1]."""
    rng = np.random.default_rng(seed)
    share = density * 2 * rng.random(p)
    share[:2] = 0, 1
    X = np.where(rng.random((n, p)) < share, rng.uniform(-1, 1, (n, p)), 0)
    return sparse.csr_matrix(X), (X.sum(axis=1) > 0).astype(float)


def keeper_of(X, y, loss, scale=0.05, n_records=N, kind=None):
    kind = kind or (solver._Exact if isinstance(loss, Squared) else solver._Stale)
    keeper = kind(solver._Columns(X, 0.0), y, loss, RADIUS / (n_records * scale))
    keeper.off = 0.01
    return keeper


def played(keeper, history):
    """The keeper after a given history of vertices."""
    for t, (j, sign) in enumerate(history):
        gamma = 2 / (t + 2)
        keeper.move(j, sign * gamma * RADIUS, 1 - gamma)
    return keeper


def exponents(keeper):
    return np.array([keeper.exponent(j) for j in range(keeper.data.n_columns)])


def history_of(steps, seed=0):
    rng = np.random.default_rng(seed)
    return list(zip(rng.integers(0, P, steps), rng.choice([-1, 1], steps), strict=True))


def dense_exponents(X, y, loss, w, scale=0.05):
    W = np.append(0.0, w)[:, None]
    gradient = mean_gradient(loss, Rows(X, constant=0.0), y, W, n_records=N)
    return -RADIUS * gradient[1:, 0] / scale


# Scores.


@pytest.mark.parametrize("cheap", [None, True, False])
def test_squared_scores_are_exact(cheap, monkeypatch):
    """Whether they are updated, computed anew, or now this and now that."""
    if cheap is not None:
        monkeypatch.setattr(solver._Columns, "is_cheap", lambda self, rows: cheap)
    X, y = table()
    for steps in (1, 2, 3, 10, 60):
        keeper = played(keeper_of(X, y, LOSSES["squared"]), history_of(steps))
        x = exponents(keeper)
        np.testing.assert_allclose(
            x, dense_exponents(X, y, LOSSES["squared"], keeper.a * keeper.w), rtol=0, atol=1e-9
        )
        assert (keeper.sampler._bounds >= np.abs(x)).all()


@pytest.mark.parametrize("name", ["logistic", "huber"])
def test_stale_scores_are_near(name):
    """A residual is off by what a refresh leaves, and a window of its margin; and some are off."""
    X, y = table()
    loss = LOSSES[name]
    keeper = played(keeper_of(X, y, loss), history_of(60))
    now = keeper.present(slice(None))
    off = np.abs(now - keeper.residuals)
    window = (
        loss.curvature * solver._WINDOW / (1 - solver._WINDOW) * np.abs(keeper.a * keeper.margins)
    )
    assert (off <= window + keeper.off + 1e-9).all()
    assert off.max() > 0
    np.testing.assert_allclose(
        exponents(keeper), -keeper.rate * (X.T @ keeper.residuals), rtol=0, atol=1e-9
    )
    assert (keeper.sampler._bounds >= np.abs(exponents(keeper)) * (1 - 1e-12)).all()


@pytest.mark.parametrize("name", ["logistic", "huber"])
def test_how_scores_are_computed_changes_nothing(name, monkeypatch):
    X, y = table()
    seen = []
    for cheap in (True, False):
        monkeypatch.setattr(solver._Columns, "is_cheap", lambda self, rows, cheap=cheap: cheap)
        seen.append(exponents(played(keeper_of(X, y, LOSSES[name]), history_of(40))))
    np.testing.assert_allclose(*seen, rtol=0, atol=1e-9)


# Sensitivity, given the same history.


def worst_change(name, neighbouring, kind=None):
    """The most that a score changes, over pairs whose record has all features, each of size 1.

    It is touched at every step; its replacement has the opposite features where w is not 0, so that
    their residuals are opposite and their gradients agree elsewhere.
    """
    loss, worst = LOSSES[name], 0.0
    for seed in range(25):
        X, y = table(seed=seed)
        rng = np.random.default_rng(seed)
        history = [(j % (P // 2), sign) for j, sign in history_of(10 + seed, seed)]
        record = rng.choice([-1.0, 1.0], P)
        other = np.where(np.arange(P) < P // 2, -record, record)
        first = sparse.vstack([sparse.csr_matrix(record), X[1:]], format="csr"), y
        if neighbouring == "add-remove":
            second = X[1:], y[1:]
        else:
            second = sparse.vstack([sparse.csr_matrix(other), X[1:]], format="csr"), y.copy()
            second[1][0] = 1 - y[0]
        a, b = (
            exponents(played(keeper_of(*data, loss, kind=kind), history))
            for data in (first, second)
        )
        worst = max(worst, np.abs(a - b).max())
    return worst * 0.05


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_sensitivity_of_the_scores_in_use(name, neighbouring):
    bound = fw.score_sensitivity(lipschitz(LOSSES[name], 1.0, math.inf), RADIUS, N, neighbouring)
    worst = worst_change(name, neighbouring)
    assert 0.2 * bound < worst <= bound * (1 + 1e-9)


def test_refreshing_when_the_data_say_so_breaks_it():
    """The mutant that the module warns of: one record decides when all others are refreshed."""

    class Mutant(solver._Stale):
        def follow(self, rows, change, refresh):
            super().follow(rows, change, self.data.lengths[rows].sum() > P)

    bound = fw.score_sensitivity(1.0, RADIUS, N, "add-remove")
    assert worst_change("logistic", "add-remove", Mutant) > 1.05 * bound


# The whole solver.


def selection_for(loss, epsilon=3.0, n=N, steps=50, radius=RADIUS):
    sensitivity = fw.score_sensitivity(lipschitz(loss, 1.0, math.inf), radius, n)
    return fw.calibrate_selection(
        "gumbel", sensitivity=sensitivity, steps=steps, epsilon=epsilon, delta=1e-5
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("step", [None, 0.1, 0.9, 1.0])
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_the_weights_are_those_of_the_vertices(name, step, constant):
    """Also after 300 steps of .9, which shrink a weight to 1e-300, and with steps of 1."""
    X, y = table()
    loss = LOSSES[name]
    options = {"radius": RADIUS, "n_records": N, "steps": 300, "constant": constant, "step": step}
    selection = selection_for(loss)
    done = solver.sparse_frank_wolfe(X, y, loss, selection=selection, rng=0, **options)
    ball, rule = L1Ball(P + (constant > 0), RADIUS), fw.step_rule(step)
    w = ball.start()
    for t, vertex in enumerate(done.vertices):
        ball.move(w, int(vertex), rule(t))
    np.testing.assert_allclose(done.w, w, atol=1e-9)
    assert done.event == events.Repeated(selection.event, 300)
    assert done.noise == "reproducible"


def test_secure_noise_is_cryptographic():
    X, y = table()
    options = {"radius": RADIUS, "n_records": N, "steps": 3}
    done = solver.sparse_frank_wolfe(
        X, y, Logistic(), selection=selection_for(Logistic()), **options
    )
    assert done.noise == "cryptographic"


@pytest.mark.parametrize("name", LOSSES)
def test_loss_is_within_one_per_cent_of_the_dense_solver(name):
    """Means over 20 seeds of the objective; the deviation of each mean is below .3 %."""
    X, y = table(1500, 300, 0.05, seed=1)
    loss, steps, radius = LOSSES[name], 80, 10.0
    loss = Squared(radius + 1) if name == "squared" else loss
    epsilon = 300.0 if name == "squared" else 3.0  # its gradients are 11 times as large
    selection = selection_for(loss, epsilon, 1500, steps, radius)
    objective = LinearObjective(loss, Rows(X, constant=0.0), y, 1500)
    options = {"steps": steps, "selection": selection}
    ball, sparse_options = L1Ball(300, radius), {"radius": radius, "n_records": 1500}
    dense, ours = [], []
    for seed in range(20):
        run = fw.frank_wolfe(objective, ball, **options, rng=seed)
        dense.append(objective.value(run.w))
        run = solver.sparse_frank_wolfe(X, y, loss, **options, **sparse_options, rng=seed)
        ours.append(objective.value(run.w))
    assert np.mean(ours) == pytest.approx(np.mean(dense), rel=0.01)
    assert np.mean(ours) < 0.98 * objective.value(np.zeros(300))  # something was learned


# The audit: one record that pushes its score as far as it may, at every step.

STEPS, STEP_EPSILON, TARGET = 4, 2.0, 99.0
PUSHES = {"exact": Squared(TARGET + 1), "stale": Huber(1.0)}


def push(loss, noise):
    """One feature, N = 1; the residual is at its bound, or within 2 % of it, wherever w is."""

    def mechanism(data, rng):
        bound = lipschitz(loss, 1.0, math.inf)
        sensitivity = noise * fw.score_sensitivity(bound, 1.0, 1, "replace-one")
        selection = fw.Selection("gumbel", sensitivity, STEP_EPSILON, "replace-one")
        options = {"radius": 1.0, "n_records": 1, "steps": STEPS, "selection": selection}
        X = sparse.csr_matrix(data[:, :1])
        return solver.sparse_frank_wolfe(X, data[:, 1], loss, **options, rng=rng).vertices

    return mechanism


@pytest.mark.parametrize("name", PUSHES)
def test_audit(name):
    """As stated it is not refuted; with 70 % of its noise it is."""
    pair = np.array([[1.0, TARGET]]), np.array([[1.0, -TARGET]])
    claim = account(events.Repeated(events.BoundedRange(STEP_EPSILON, "replace-one"), STEPS))
    options = {
        "claim": claim,
        "score": lambda vertices: float((vertices == 0).sum()),
    }
    honest, broken = push(PUSHES[name], 1.0), push(PUSHES[name], 0.7)
    assert not da.audit(honest, pair, trials=300, confidence=1 - 1e-6, **options).refuted
    assert da.audit(broken, pair, trials=2000, confidence=0.999, **options).refuted


def test_loose_windows_are_tightened():
    """Exponents in the thousands: no window of 30 % accepts, and the choice is still the best."""
    X, y = table()
    selection = fw.Selection("gumbel", 1e-6, 1.0)
    options = {"radius": RADIUS, "steps": 40, "selection": selection}
    loss = LOSSES["squared"]
    done = solver.sparse_frank_wolfe(X, y, loss, n_records=N, rng=0, **options)
    objective = LinearObjective(loss, Rows(X, constant=0.0), y, N)
    best = fw.frank_wolfe(objective, L1Ball(P, RADIUS), steps=40)
    assert done.vertices.tolist() == best.vertices.tolist()


def test_the_caller_keeps_the_matrix():
    """Duplicates are summed in a copy, and mean their sum."""
    X = sparse.csr_matrix((np.full(4, 0.25), np.array([1, 1, 0, 2]), np.array([0, 2, 4])), (2, 3))
    kept = X.copy()
    options = {"radius": 1.0, "n_records": 2, "steps": 20, "rng": 0}
    y, selection = np.array([1.0, 0.0]), fw.Selection("gumbel", 1.0, 50.0)
    done = solver.sparse_frank_wolfe(X, y, Logistic(), selection=selection, **options)
    assert X.nnz == kept.nnz == 4
    clean = sparse.csr_matrix(X.toarray())
    again = solver.sparse_frank_wolfe(clean, y, Logistic(), selection=selection, **options)
    assert done.vertices.tolist() == again.vertices.tolist()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"X": np.eye(2)}, "X"),
        ({"loss": Multinomial(3)}, "loss"),
        ({"selection": fw.Selection("laplace", 1.0, 1.0)}, "kind"),
        ({"steps": 0}, "steps"),
        ({"radius": math.nan}, "radius"),
        ({"n_records": 0}, "n_records"),
    ],
)
def test_misuse_is_named(change, name):
    fine = {
        "X": sparse.csr_matrix(np.eye(2)),
        "targets": np.array([0.0, 1.0]),
        "loss": Logistic(),
        "radius": 1.0,
        "n_records": 2,
        "steps": 2,
        "selection": fw.Selection("gumbel", 1.0, 1.0),
    }
    with pytest.raises(InvalidArgument, match=name):
        solver.sparse_frank_wolfe(**fine | change)
