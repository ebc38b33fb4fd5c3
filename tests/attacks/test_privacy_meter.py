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
from dpassay.attacks import Shadows, rmia_scores, tune_offline_slope
from dpassay.errors import InvalidArgument

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


def slope_by_loops(phi, inside):
    """Each model attacked with the others, for every slope of the grid; the best on average."""
    p, models = expit(phi), range(len(phi))
    best = []
    for a in np.arange(0, 1.05, 0.1):
        areas = []
        for i in models:
            gains = {0: [], 1: []}
            for x in range(phi.shape[1]):
                without = [p[j, x] for j in models if j != i and not inside[j, x]]
                if without:
                    average = (1 + a) / 2 * np.mean(without) + (1 - a) / 2
                    gains[inside[i, x]].append(p[i, x] / average)
            wins = [(u > v) + (u == v) / 2 for u in gains[1] for v in gains[0]]
            areas.append(np.mean(wins))
        best.append(np.mean(areas))
    return 0.1 * int(np.argmax(best))


@pytest.mark.parametrize("shift", [0.3, 4.0])
def test_the_slope_is_the_best_of_the_grid(shift):
    rng = np.random.default_rng(7)
    coins = rng.integers(0, 2, (3, 60))
    inside = np.concatenate([coins, 1 - coins]).astype(np.int8)
    phi = rng.normal(-1, 1.5, 60) + shift * inside + 0.3 * rng.normal(size=inside.shape)
    found = tune_offline_slope(Shadows(outputs(phi), inside))
    assert found == pytest.approx(slope_by_loops(phi, inside))


def test_little_leakage_has_a_slope_near_one():
    """Members of memorising models have a probability near 1 whatever it would be without them."""
    rng = np.random.default_rng(8)
    coins = rng.integers(0, 2, (3, 2000))
    inside = np.concatenate([coins, 1 - coins]).astype(np.int8)
    usual, noise = rng.normal(-1, 2, 2000), 0.3 * rng.normal(size=inside.shape)
    little, much = usual + 0.2 * inside + noise, np.where(inside, 5.0, usual) + noise
    slopes = [tune_offline_slope(Shadows(outputs(phi), inside)) for phi in (little, much)]
    assert slopes[0] >= 0.9
    assert slopes[1] <= 0.5


def test_a_slope_needs_members_and_others():
    with pytest.raises(InvalidArgument, match="Train 4 or more"):
        tune_offline_slope(Shadows(outputs(np.zeros((4, 5))), np.zeros((4, 5), np.int8)))
