"""Sums that ridges are made of: what rounding does to them stays inside what is charged for it."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from dpassay.learn.huber import gram_matrix, products_with
from dpassay.learn.ridge_plans import OutputPerturbation, RidgeFacts, SufficientStatistics
from dpassay.optim.products import sum_error
from dpassay.privacy.budget import Budget


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_sums_in_pieces_are_those_of_exact_arithmetic(kind):
    rng = np.random.default_rng(0)
    n = 9000  # three pieces
    A = rng.uniform(-1, 1, (n, 2))
    y = rng.uniform(-1, 1, n)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        terms = (Fraction(a) * Fraction(b) for a, b in zip(A[:, i], A[:, j], strict=True))
        exact = float(sum(terms, Fraction(0)))
        assert abs(gram_matrix(kind(A))[i, j] - exact) <= sum_error(n) / 2
    for j in range(2):
        exact = float(sum((Fraction(a) * Fraction(b) for a, b in zip(A[:, j], y, strict=True))))
        assert abs(products_with(kind(A), y)[j] - exact) <= sum_error(n) / 2


def facts(n, alpha=None):
    budget = Budget(1.0, 1e-6, "add-remove")
    return RidgeFacts(n, 3, 1.0, 1.0, budget, alpha=alpha)


def test_rounding_is_charged_by_the_public_number():
    """Nothing to speak of for few records; for 10^7 the bound, 1 + 2 n (4096 + n/4096) u."""
    few, many = (SufficientStatistics(facts(n)).sensitivities for n in (1000, 10**7))
    square = facts(1000).full_bound ** 2
    assert few[1] == pytest.approx(square, rel=2e-8)
    assert many[1] / few[1] - 1 == pytest.approx(sum_error(2e7), rel=1e-3)
    assert many[0] > many[1]  # the eigenvalue's own computation
    outputs = [OutputPerturbation(facts(n, alpha=float(n))) for n in (1000, 10**7)]
    excess = [plan.sensitivity * plan.alpha / (plan.threshold * plan.facts.full_bound) - 1
              for plan in outputs]  # fmt: skip
    assert 1e-6 <= excess[0] < 2e-6  # the solver's tolerance
    assert excess[1] > sum_error(2e7)


@pytest.mark.parametrize("plan", [SufficientStatistics, OutputPerturbation])
def test_more_rows_than_are_charged_for_are_refused(plan):
    X, y = np.zeros((9000, 3)), np.zeros(9000)
    with pytest.raises(ValueError, match="n_records=100 is less than half"):
        plan(facts(100)).solve(X, y, 0)
