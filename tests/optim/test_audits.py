"""Frank-Wolfe: the noise that chooses vertices has the scale that is priced; batches audited."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

import dpassay as da
from dpassay.optim import frank_wolfe as fw
from dpassay.optim import stochastic_frank_wolfe as sfw
from dpassay.optim.losses import Huber, Rows
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball
from dpassay.optim.sparse_frank_wolfe import sparse_frank_wolfe
from rates import assert_rate

# The scale of the noise. One record of one feature among DIMENSION, its residual at the bound
# wherever w is: at every step vertex 0 has a score of 1, its opposite -1, all others 0. With x the
# score over the scale, vertex 0 is chosen with chance e^x/(e^x + e^-x + 2 DIMENSION - 2). Where
# that is a half, x is log(2 DIMENSION): noise ten per cent too small makes it .63.

DIMENSION, STEPS = 75, 4000
ROW = np.eye(1, DIMENSION)
X_OF_ONE_HALF = math.log(2 * DIMENSION - 2)


def chance(x):
    return math.exp(x) / (math.exp(x) + math.exp(-x) + 2 * DIMENSION - 2)


def selection(share):
    """Score 1 is half the sensitivity of two records; epsilon makes it x scales of the noise."""
    sensitivity = fw.score_sensitivity(1.0, 1.0, 1, "replace-one")
    assert sensitivity == 2.0
    epsilon = 2 * sensitivity * X_OF_ONE_HALF / share
    return fw.Selection("gumbel", sensitivity, epsilon, "replace-one")


def dense(chosen):
    objective = LinearObjective(Huber(1.0), Rows(ROW, 0.0), np.array([9.0]), 1)
    ball = L1Ball(DIMENSION, 1.0)
    return fw.frank_wolfe(objective, ball, steps=STEPS, selection=chosen, rng=0).vertices


def by_columns(chosen):
    X, y = sparse.csr_matrix(ROW), np.array([9.0])
    options = {"radius": 1.0, "n_records": 1, "steps": STEPS, "selection": chosen, "rng": 0}
    return sparse_frank_wolfe(X, y, Huber(1.0), **options).vertices


def in_batches(chosen):
    objective = LinearObjective(Huber(1.0), Rows(ROW, 0.0), np.array([9.0]), 1)
    plan = sfw.StochasticPlan("without-replacement", STEPS, 1, 1, chosen)
    ball = L1Ball(DIMENSION, 1.0)
    return sfw.stochastic_frank_wolfe(objective, ball, plan, n_rows=1, rng=0).vertices


@pytest.mark.parametrize("solver", [dense, by_columns, in_batches])
def test_the_noise_that_chooses_has_the_scale_that_is_priced(solver):
    expected = chance(X_OF_ONE_HALF)
    assert expected == pytest.approx(0.5, abs=1e-4)
    assert_rate(int((solver(selection(1.0)) == 0).sum()), STEPS, expected)
    for share in (0.9, 1.1):  # mutants: ten per cent too little, and too much
        with pytest.raises(AssertionError, match="chance"):
            assert_rate(int((solver(selection(share)) == 0).sum()), STEPS, expected)


@pytest.mark.parametrize(("kind", "law"), [("permute-and-flip", 0), ("laplace", 1)])
def test_so_have_the_other_kinds(kind, law):
    """Two vertices with a gap of x scales: the worse is chosen with e^-x/2 (1 + law · x/2)."""

    def worse(share):
        objective = LinearObjective(Huber(1.0), Rows(np.ones((1, 1)), 0.0), np.array([9.0]), 1)
        # The scores are 1 and -1, a gap of 2; the scale is 2 · 1/epsilon.
        chosen = fw.Selection(kind, 1.0, 2.0 / share)
        options = {"steps": 8000, "selection": chosen, "rng": 0}
        return int(fw.frank_wolfe(objective, L1Ball(1, 1.0), **options).vertices.sum())

    expected = math.exp(-2) / 2 * (1 + law)
    assert_rate(worse(1.0), 8000, expected)
    with pytest.raises(AssertionError, match="chance"):
        assert_rate(worse(0.8), 8000, expected)


# Stochastic Frank-Wolfe, exactly. One record on a segment: in its own batch "up" has chance
# 1/(1 + e^(-epsilon/2)), in the others 1/2, and nobody is told which batch was its own.


def disjoint_laws(epsilon, steps, share):
    up = 1 / (1 + math.exp(-epsilon / 2 / share))
    outcomes = np.array(list(itertools.product((0, 1), repeat=steps)))
    p = np.where(outcomes, up, 1 - up).mean(axis=1) * 0.5 ** (steps - 1)
    q = np.where(outcomes, 1 - up, up).mean(axis=1) * 0.5 ** (steps - 1)
    return p, q


def exceeds(p, q, claim):
    losses = np.linspace(0, 8, 161)
    found = np.maximum(p - np.exp(losses)[:, None] * q, 0).sum(axis=1)
    return bool((found > np.asarray(claim.delta(losses)) + 1e-12).any())


@pytest.mark.parametrize(("steps", "breaks", "holds"), [(1, 0.95, 1.0), (2, 0.6, 0.65)])
def test_what_the_hidden_batch_is_worth(steps, breaks, holds):
    """One batch: any cut is too much. Two: the other batch blurs, and 60 % is what breaks it."""
    claim = da.account(fw.Selection("gumbel", 1.0, 2.0).event)
    assert exceeds(*disjoint_laws(2.0, steps, breaks), claim)
    assert not exceeds(*disjoint_laws(2.0, steps, holds), claim)


PAIR = (np.array([[1.0, 9.0]]), np.array([[1.0, -9.0]]))
# The scheme, steps, expected size of a batch, and the share that an audit refutes: 70 % of the
# noise for a single batch, less where other steps blur.
SCHEMES = {
    "disjoint, one": ("disjoint", 1, 1.0, 0.7),
    "disjoint, two": ("disjoint", 2, 0.5, 0.4),
    "without-replacement": ("without-replacement", 2, 1.0, 0.7),
}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("honest", [True, False], ids=["as it is", "less noise"])
def test_stochastic_frank_wolfe(name, honest):
    scheme, steps, size, share = SCHEMES[name]
    line = L1Ball(1, 1.0)
    plan = sfw.stochastic_plan(
        line, scheme=scheme, steps=steps, n_records=1, lipschitz=1.0, epsilon=2.0, delta=0.0,
        batch_size=None if scheme == "disjoint" else size, neighbouring="replace-one",
    )  # fmt: skip
    chosen = plan.selection
    less = fw.Selection(
        "gumbel", chosen.sensitivity * (1 if honest else share), chosen.epsilon, "replace-one"
    )
    played = sfw.StochasticPlan(scheme, steps, 1, size, less)

    def ups(data, rng):
        objective = LinearObjective(Huber(1.0), Rows(data[:, :1], 0.0), data[:, 1], 1)
        done = sfw.stochastic_frank_wolfe(objective, line, played, n_rows=1, rng=rng)
        return float((done.vertices == 0).sum())

    verdict = da.audit(
        ups, PAIR, claim=da.account(plan.event), score=float, trials=300 if honest else 3000,
        confidence=1 - 1e-6 if honest else 0.999, rng=1,
    )  # fmt: skip
    assert verdict.refuted is not honest, str(verdict)
