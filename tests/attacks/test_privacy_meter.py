"""RMIA beside ML Privacy Meter's, the tool of its authors, on arrays small enough for loops.

Written from its documentation (documentation/mia.md of privacytrustlab/ml_privacy_meter) and what
its modules/mia/attacks/rmia.py computes: the signal is the probability of the true class; offline
p(x) = (1 + a)/2 mean + (1 - a)/2 over the reference models without x; the score is the share of
population records z with p(x | target)/p(x) > p(z | target)/p(z).
"""

import numpy as np
import pytest
from scipy.special import expit

from attacks.planted import outputs
from dpassay.attacks import Shadows, rmia_scores

N, N_POPULATION, MODELS = 14, 9, 6


class Case:
    """What a target and reference models say about candidates and about a population."""

    def __init__(self, seed, n=N, models=MODELS):
        rng = np.random.default_rng(seed)
        self.target, self.population = rng.normal(1, 2, n), rng.normal(1, 2, N_POPULATION)
        self.references = rng.normal(1, 2, (models, n))
        self.of_population = rng.normal(1, 2, (models, N_POPULATION))
        halves = rng.random((models, n)).argsort(axis=0) < models // 2  # each in half of them
        self.inside = halves.astype(np.int8)

    def ours(self, inside, **options):
        none = np.zeros(self.of_population.shape, np.int8)
        population = outputs(self.population), Shadows(outputs(self.of_population), none)
        shadows = Shadows(outputs(self.references), inside)
        return rmia_scores(outputs(self.target), shadows, population=population, **options)


def theirs(case, inside, a):
    """Offline scores, one pair of records after another."""

    def gain(said, references, trained_on):
        without = [expit(r) for r, t in zip(references, trained_on, strict=True) if not t]
        average = (1 + a) / 2 * sum(without) / len(without) + (1 - a) / 2
        return expit(said) / average

    never = [0] * len(case.references)
    z = [gain(said, case.of_population[:, j], never) for j, said in enumerate(case.population)]
    x = [gain(said, case.references[:, i], inside[:, i]) for i, said in enumerate(case.target)]
    return [sum(one / other > 1.0 for other in z) / len(z) for one in x]


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_offline_scores_are_the_same(seed, a):
    case = Case(seed)
    found = case.ours(case.inside, online=False, offline_slope=a)
    np.testing.assert_allclose(found, theirs(case, case.inside, a), atol=1e-12)


def test_one_reference_model_is_enough():
    case = Case(4, models=1)
    outside = np.zeros((1, N), np.int8)
    np.testing.assert_allclose(case.ours(outside), theirs(case, outside, 0.3), atol=1e-12)


def test_the_mutant_that_averages_over_all_models_is_caught():
    case = Case(5)
    everywhere = np.zeros_like(case.inside)
    found = case.ours(everywhere, offline_slope=0.3)
    assert np.abs(found - theirs(case, case.inside, 0.3)).max() > 0.1


def test_for_one_target_the_population_does_not_change_the_order():
    """Said by an author in issue 139: thresholds on p(x | target)/p(x) then do as well."""
    case = Case(6, n=200)
    against_population = case.ours(case.inside, online=False)
    alone = rmia_scores(
        outputs(case.target), Shadows(outputs(case.references), case.inside), online=False
    )
    order = np.argsort(alone)
    assert (np.diff(against_population[order]) >= 0).all()
