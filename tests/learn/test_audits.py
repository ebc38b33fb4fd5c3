"""Every private solver, fitted as a user fits it: not refuted as it is, refuted with less noise.

Each case has a pair of data sets on which one record moves what is released by (nearly) all that
its noise was scaled to. Where a proof has slack on every pair that we know, the exact law in one
dimension says how much noise that pair needs, and the audit cuts below that; the docstring says so.
An honest fit is refuted with probability 1e-6 at most, over seeds; here seeds are fixed. One with
less noise has to fall at .999, which takes it half as many trials.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, ndtr
from sklearn.base import BaseEstimator, RegressorMixin

import dpassay as da
from dpassay.errors import DpassayError
from dpassay.learn import (
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateSearchCV,
    search,
)
from dpassay.learn.base import Budget, PrivateMixin
from dpassay.learn.logistic_facts import LogisticFacts
from dpassay.learn.logistic_plans import GradientDescent, StochasticGradient
from dpassay.learn.perturbation import ObjectivePerturbation, OutputPerturbation
from dpassay.learn.plans import PublicFacts
from dpassay.learn.ridge_plans import SufficientStatistics
from dpassay.learn.search_price import plan_search
from dpassay.mechanisms import gaussian, gaussian_multiplier
from dpassay.optim import frank_wolfe
from dpassay.privacy import Gaussian

SHARES = pytest.mark.parametrize("honest", [True, False], ids=["as it is", "less noise"])


def audited(mechanism, pair, claim, honest, score=float):
    trials, confidence = (300, 1 - 1e-6) if honest else (3000, 0.999)
    options = {"score": score, "trials": trials, "confidence": confidence, "rng": 1}
    return da.audit(mechanism, pair, claim=claim, **options)


def scaled(monkeypatch, owner, name, share):
    """Make a property of a class a share of what it is."""
    kept = vars(owner)[name]
    honest = getattr(kept, "fget", None) or kept.func
    monkeypatch.setattr(owner, name, property(lambda self: share * honest(self)))


def classifier(solver, epsilon, delta, **options):
    given = {"data_norm": 1.0, "fit_intercept": False, "classes": [0, 1]} | options

    def fit(data, rng):
        model = PrivateLogisticRegression(epsilon, delta, solver=solver, random_state=rng, **given)
        return model.fit(*data)

    return fit


def coefficient(fit):
    return lambda data, rng: float(np.ravel(fit(data, rng).coef_)[0])


# Perturbation. Tiny rows of label 1 push the weight up with a constant force, half a row each, and
# hardly any curvature; a row at its bound with label 0 then has a residual of nearly 1.


def pushed(size, n):
    X, y = np.full((n, 1), size), np.ones(n, int)
    return (np.vstack([X, [[1.0]]]), np.append(y, 0)), (X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_record_can_move_the_minimiser_by_the_sensitivity(n_classes):
    """Within 7 %, so that noise cut to 70 % is too little: the bound of the proof is attained."""
    with_it, without = pushed(0.02, 700) if n_classes == 2 else pushed(0.01, 1400)
    n = len(with_it[1])
    facts = LogisticFacts(n, 1, n_classes, 1.0, Budget(2.0, 1e-3, "add-remove"), False, penalty=1.0)
    plan = OutputPerturbation(facts)
    start = np.zeros((2, facts.loss.n_scores))
    W, V = (plan._minimum(*data, start, 1.0) for data in (with_it, without))
    assert 0.92 < np.linalg.norm(W - V) / plan.sensitivity <= 1


@SHARES
def test_output_perturbation(honest, monkeypatch):
    pair = pushed(0.02, 700)
    fit = classifier("output", 8.0, 1e-5, penalty=1.0, n_records=701)
    claim = fit(pair[0], 0).privacy_
    if not honest:
        scaled(monkeypatch, OutputPerturbation, "sensitivity", 0.7)
    verdict = audited(lambda data, rng: -fit(data, rng).coef_[0, 0], pair, claim, honest)
    assert verdict.refuted is not honest, str(verdict)


class Tilted:
    """The exact law of objective perturbation on :func:`pushed`, in one dimension.

    With J the objective, W <= w where b >= -J'(w), so that P(W <= w) = Phi(J'(w)/s).
    """

    def __init__(self, epsilon, delta, size, n, share):
        budget = Budget(epsilon, delta, "add-remove")
        self.plan = ObjectivePerturbation(LogisticFacts(n, 1, 2, 1.0, budget, False, penalty=1e-9))
        self.penalty, self.s = self.plan.penalty, share * self.plan.deviation
        self.size, self.n = size, n

    def slopes(self, w):
        """J' with the record and without."""
        without = self.penalty * w - self.n * self.size * expit(-self.size * w)
        return without + expit(w), without

    def delta(self, epsilons):
        """Never above the truth: what cells of a grid show, all of the line."""
        far = (self.n * self.size / 2 + 12 * self.s + 2) / self.penalty
        w = np.unique(np.concatenate([np.linspace(-far, far, 4001), np.linspace(-30, 30, 4001)]))
        p, q = (self._cells(slope / self.s) for slope in self.slopes(w))
        factor = np.exp(np.asarray(epsilons))[:, None]
        return np.maximum(
            np.maximum(p - factor * q, 0).sum(axis=1), np.maximum(q - factor * p, 0).sum(axis=1)
        )

    @staticmethod
    def _cells(z):
        low, high = z[:-1], z[1:]
        return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))

    def log_ratio(self, w):
        (a, b), p = self.slopes(w), expit(-self.size * w)
        bend = self.penalty + self.n * self.size**2 * p * (1 - p)
        return float((b * b - a * a) / (2 * self.s**2) + np.log1p(expit(w) * expit(-w) / bend))


# epsilon, delta, rows, and a share at which this pair breaks the claim: the proof adds the
# tails of both signs and the determinant's whole quarter, which weighs less as epsilon grows.
TILTS = {
    "epsilon 30": (30.0, 0.05, 240, 0.7),
    "epsilon 20": (20.0, 0.05, 240, 0.7),
    "epsilon 1": (1.0, 0.05, 1300, 0.4),
}


@pytest.mark.parametrize("name", TILTS)
def test_objective_perturbation_by_its_exact_law(name):
    """Not above its claim at any epsilon; above it at the share of its noise that is listed."""
    epsilon, delta, n, share = TILTS[name]
    epsilons = np.linspace(0, epsilon, 31)
    claim = da.account(Tilted(epsilon, delta, 0.01, n, 1.0).plan.event)
    allowed = np.array([float(claim.delta(float(e))) for e in epsilons])
    for rows in (0, n // 2, n, 2 * n):
        assert (Tilted(epsilon, delta, 0.01, rows, 1.0).delta(epsilons) <= allowed).all()
    assert (Tilted(epsilon, delta, 0.01, n, share).delta(epsilons) > 1.04 * allowed).any()


@SHARES
def test_objective_perturbation(honest, monkeypatch):
    """Cut to 30 %: here 40 % breaks the claim (above), by too little for few trials.

    At the large epsilons where 70 % does, no audit can see it: it would have to tell e^-20 from 0.
    """
    pair, law = pushed(0.01, 1300), Tilted(1.0, 0.05, 0.01, 1300, 0.3)
    fit = classifier("objective", 1.0, 0.05, penalty=1e-9, n_records=2)
    claim = fit(pair[0], 0).privacy_
    if not honest:
        scaled(monkeypatch, ObjectivePerturbation, "deviation", 0.3)
    verdict = audited(coefficient(fit), pair, claim, honest, law.log_ratio)
    assert verdict.refuted is not honest, str(verdict)


# Gradient steps: a long record across a crowd whose gradients cancel. The fitted weight is divided
# by the scale that the preparation drew, an inner value that the event covers.


def across_a_crowd():
    i = np.arange(40)
    crowd, labels = np.column_stack([0 * i, np.where(i % 2, 0.8, -0.8)]), i // 2 % 2
    return (np.vstack([crowd, [1.0, 0.0]]), np.append(labels, 0)), (crowd, labels)


# The share of the noise, epsilon, options. With batches the record is missing from some, the
# crowd's own gradients no longer cancel, and the preparation, which costs an eighth, shows nothing:
# a cut to half is seen. (Steps by themselves are audited at 70 %, in tests/optim.)
FIT = {"n_records": 41, "max_iter": 1}
DESCENTS = {
    "gd": (0.7, 8.0, {}),
    "sgd": (0.5, 6.0, {"batch_size": 33}),
}


@SHARES
@pytest.mark.parametrize("solver", DESCENTS)
def test_gradient_steps(solver, honest, monkeypatch):
    share, epsilon, options = DESCENTS[solver]
    drawn, prepare = {}, GradientDescent._condition

    def spy(self, X, rng):
        drawn["last"] = prepare(self, X, rng)
        return drawn["last"]

    pair, fit = across_a_crowd(), classifier(solver, epsilon, 1e-5, **FIT, **options)
    fitted = fit(pair[0], 0)
    claim, noise = fitted.privacy_, fitted.noise_multiplier_
    monkeypatch.setattr(GradientDescent, "_condition", spy)
    if not honest:
        scaled(monkeypatch, PublicFacts, "mu", 1 / share)  # of preparation and of full steps
    if solver == "sgd":  # its calibration takes a second
        monkeypatch.setattr(
            StochasticGradient, "noise_multiplier", noise * (1 if honest else share)
        )

    def weight(data, rng):
        return -fit(data, rng).coef_[0, 0] / drawn["last"].scale[0]

    verdict = audited(weight, pair, claim, honest)
    assert verdict.refuted is not honest, str(verdict)


# Selections. One feature, so that there are two vertices, and one record or two.


def less_noise_in_selections(monkeypatch, share):
    honest = frank_wolfe.score_sensitivity
    monkeypatch.setattr(frank_wolfe, "score_sensitivity", lambda *a: share * honest(*a))


@SHARES
def test_frank_wolfe_of_a_logistic_loss(honest, monkeypatch):
    """Of one row with label 0 or 1: cut to 20 %, as at any w it moves half of the sensitivity.

    The residuals sigmoid(z) and sigmoid(z) - 1 differ by 1, and by the row times that the
    gradients; the sensitivity is for two residuals of 1, both saturated, which no w gives one row.
    By the exact law of three steps 35 % breaks the claim, too little of which shows in few trials.
    """
    pair = (np.array([[1.0]]), np.array([1])), (np.array([[1.0]]), np.array([0]))
    options = {"max_iter": 3, "radius": 0.1, "neighbouring": "replace-one"}
    fit = classifier("frank-wolfe", 4.0, 1e-3, **options)
    claim = fit(pair[0], 0).privacy_
    if not honest:
        less_noise_in_selections(monkeypatch, 0.2)
    verdict = audited(coefficient(fit), pair, claim, honest)
    assert verdict.refuted is not honest, str(verdict)


# How vertices are chosen, the form of the data, how many records push one way (the last one is
# replaced), and the share of the noise that is refuted. The odds of two Gumbel noises move by
# exp(epsilon) whatever the rest; permute-and-flip attains it where the scores go from a tie to a
# gap; the sum of two Laplace noises, with its factor 1 + gap/4, from far gaps only: from a tie
# exp(epsilon)/(1 + epsilon/2), which breaks the claim of epsilon 2 at 69 % of the noise, by little.
SELECTIONS = {
    "gumbel": ("gumbel", "huber", np.asarray, 0, 0.7),
    "gumbel, squared loss": ("gumbel", "clipped squared", np.asarray, 0, 0.7),
    "gumbel, sparse": ("gumbel", "huber", sparse.csr_matrix, 0, 0.7),
    "permute-and-flip": ("permute-and-flip", "huber", np.asarray, 1, 0.7),
    "laplace": ("laplace", "huber", np.asarray, 1, 0.5),
}


@SHARES
@pytest.mark.parametrize("name", SELECTIONS)
def test_lasso(name, honest, monkeypatch):
    selection, loss, form, base, share = SELECTIONS[name]
    rows = form(np.ones((base + 1, 1)))
    pair = tuple((rows, np.append(np.full(base, 9.0), end)) for end in (9.0, -9.0))

    def fit(data, rng):
        return PrivateLasso(
            2.0, 0.0, radius=0.5, loss=loss, residual_bound=1.0, selection=selection, steps=1,
            data_norm=1.0, target_bound=9.0, fit_intercept=False, neighbouring="replace-one",
            random_state=rng,
        ).fit(*data)  # fmt: skip

    claim = fit(pair[0], 0).privacy_
    if not honest:
        less_noise_in_selections(monkeypatch, share)
    verdict = audited(coefficient(fit), pair, claim, honest)
    assert verdict.refuted is not honest, str(verdict)


# Sufficient statistics.


@SHARES
def test_adassp(honest, monkeypatch):
    """A whole fit, seen through the three noisy statistics that all of it is made of.

    The coefficients say less: their numerator has 45 % of the budget, two thirds of mu.
    """
    with_it = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    pair = with_it, (with_it[0][:1], with_it[1][:1])
    seen, release = {}, SufficientStatistics.releases

    def spy(self, *given):
        seen["values"] = release(self, *given)
        return seen["values"]

    monkeypatch.setattr(SufficientStatistics, "releases", spy)

    def statistics(data, rng):
        PrivateRidge(
            4.0, 1e-5, solver="adassp", data_norm=1.0, target_bound=1.0, fit_intercept=False,
            n_records=2, random_state=rng,
        ).fit(*data)  # fmt: skip
        values = np.concatenate([np.ravel(release.value) for release in seen["values"]])
        # The log-likelihood ratio up to constants: each moves by 1, with precision as its share.
        return float(values @ [0.1, 0.45, 0.45])

    model = PrivateRidge(4.0, 1e-5, solver="adassp", data_norm=1.0, target_bound=1.0)
    claim = model.set_params(fit_intercept=False, random_state=0).fit(*with_it).privacy_
    if not honest:
        kept = SufficientStatistics.sensitivities.fget
        less = property(lambda self: tuple(0.7 * s for s in kept(self)))
        monkeypatch.setattr(SufficientStatistics, "sensitivities", less)
    verdict = audited(statistics, pair, claim, honest)
    assert verdict.refuted is not honest, str(verdict)


# Search. A hostile score picks the largest noisy sum: the best of K runs has the law G(F), with G
# the generating function of K and F the law of one sum.


class NoisySum(PrivateMixin, RegressorMixin, BaseEstimator):
    """Releases the noisy sum of its targets, which are at most 1."""

    def __init__(
        self, epsilon=1.0, delta=1e-5, *, tag=0, neighbouring="add-remove", n_records=None,
        ledger=None, random_state=None,
    ):  # fmt: skip
        self.epsilon, self.delta, self.tag, self.neighbouring = epsilon, delta, tag, neighbouring
        self.n_records, self.ledger, self.random_state = n_records, ledger, random_state

    def fit(self, X, y):
        noise = gaussian_multiplier(epsilon=self.epsilon, delta=self.delta) * (1 + 1e-9)
        with self._spending(Gaussian(noise, self.neighbouring), self._public_records(X)):
            release = gaussian(y.sum(), sensitivity=1.0, mu=1 / noise, rng=self._rng())
        self.sum_, self.noise_ = release.value, release.noise
        return self


def by_the_sum(model, X, y):
    return np.full(X.shape[0], expit(model.sum_))


SEARCH = {"epsilon": 1.0, "delta": 0.01, "n_runs": 2.0}


def best_sum_delta(noise, epsilons):
    """The exact delta of the largest of a Poisson number of sums, 1 against 0: cells of a grid."""
    z = np.linspace(-10 * noise, 10 * noise + 1, 8001)
    below = [np.concatenate([[0.0], ndtr((z - mean) / noise), [1.0]]) for mean in (1, 0)]
    none = math.exp(-SEARCH["n_runs"])
    p, q = (np.append(none, np.diff(np.exp(SEARCH["n_runs"] * (F - 1)))) for F in below)
    factor = np.exp(np.asarray(epsilons))[:, None]
    return np.maximum(
        np.maximum(p - factor * q, 0).sum(axis=1), np.maximum(q - factor * p, 0).sum(axis=1)
    )


def test_a_search_breaks_its_claim_at_70_percent_by_its_exact_law():
    epsilons = np.linspace(0, 1, 21)
    plan = plan_search(Budget(1.0, 0.01, "add-remove"), 2.0, "poisson", 1.0)
    event, noise = plan.event, plan.run_noise
    claim = da.account(event)
    allowed = np.array([float(claim.delta(float(e))) for e in epsilons])
    assert (best_sum_delta(noise, epsilons) <= allowed).all()
    assert (best_sum_delta(0.7 * noise, epsilons) > 1.2 * allowed).any()


@SHARES
def test_search(honest, monkeypatch):
    """Cut to 35 %: with 70 % (above) delta is .0123 for .01, which takes too many trials."""

    def chosen(data, rng):
        hostile = PrivateSearchCV(
            NoisySum(), {"tag": [0]}, validation_share=0.1, scoring=by_the_sum, n_records=400,
            search_share=1.0, random_state=rng, **SEARCH,
        )  # fmt: skip
        try:
            return hostile.fit(*data)
        except DpassayError:  # no run was drawn, which is an output
            return None

    def best(data, rng):
        found = chosen(data, rng)
        return -99.0 if found is None else found.best_estimator_.sum_

    X, y = np.zeros((400, 1)), np.zeros(400)
    y[-1] = 1.0
    pair = (X, y), (X[:-1], y[:-1])
    claim = chosen(pair[0], 0).privacy_
    if not honest:
        monkeypatch.setattr(search, "plan_search", lambda *a: less_noise(plan_search(*a)))
    verdict = audited(best, pair, claim, honest)
    assert verdict.refuted is not honest, str(verdict)


def less_noise(plan):
    return replace(plan, run_noise=0.35 * plan.run_noise)
