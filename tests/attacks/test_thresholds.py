import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import beta

from attacks.planted import Planted, outputs
from dpassay.attacks import Shadows, attack, sorted_half_accuracy
from dpassay.attacks.thresholds import best_cut, rates
from dpassay.errors import InvalidArgument
from rates import assert_rate_at_most

LOSSES = np.random.default_rng(5).exponential([[1.0], [2.0]], (2, 300))


def test_the_median_rule_is_the_printed_algorithm_put_right():
    found = attack(None, *LOSSES, threshold="median")
    assert found.accuracy.value == pytest.approx(sorted_half_accuracy(*LOSSES))
    scores = np.concatenate([found.scores_in, found.scores_out])
    assert (scores >= found.cut.value).sum() == 300


def test_mean_training_loss():
    """Yeom et al. 2018: a member where the loss is at most the mean over the training set."""
    found = attack(None, *LOSSES, threshold="mean-training-loss")
    mean = LOSSES[0].mean()
    assert found.tpr.value == (LOSSES[0] <= mean).mean()
    assert found.fpr.value == (LOSSES[1] <= mean).mean()
    assert "mean training loss" in found.knows


def test_mean_of_both_is_an_oracle_and_says_so():
    case = Planted(n=100)
    found = attack(None, *case.sides(), method="entropy", threshold="mean-of-both")
    middle = (found.scores_in.mean() + found.scores_out.mean()) / 2
    assert found.cut.value == pytest.approx(middle)
    assert found.cut.oracle
    assert "split that it looks for" in found.knows
    assert not attack(None, *LOSSES).cut.oracle


def test_a_threshold_of_ones_own_is_fixed():
    found = attack(None, *LOSSES, threshold=-1.5)
    assert found.fpr.value == (LOSSES[1] <= 1.5).mean()
    assert found.accuracy.method == "clopper-pearson"
    k = int((LOSSES[0] <= 1.5).sum())
    level = 0.05 / 7
    assert found.tpr.lower == pytest.approx(beta.ppf(level / 2, k, 300 - k + 1))
    assert found.tpr.upper == pytest.approx(beta.ppf(1 - level / 2, k + 1, 300 - k))


def test_fitted_on_shadows():
    case = Planted(n=3000, n_shadows=8)
    found = attack(None, *case.sides(), threshold="shadow", shadows=case.shadows())
    best = ndtr(0.75)  # the cut in the middle between the two Gaussians
    assert found.accuracy.lower < best < found.accuracy.upper
    assert not found.cut.chosen_here


def test_per_class_thresholds_are_fitted_per_class():
    """Classes with different means: one cut for all loses, one for each does not."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 6000)
    means = np.where(labels == 0, -2.0, 2.0)
    phi = means + 1.5 * (np.arange(6000) < 3000) + rng.normal(size=6000)
    inside = np.arange(4)[:, None] < 2 + np.zeros(6000)
    shadows = Shadows(outputs(means + 1.5 * inside + rng.normal(size=(4, 6000)), labels), inside)
    seen = outputs(phi, labels).vectors
    sides = (seen[:3000], labels[:3000]), (seen[3000:], labels[3000:])
    one = attack(None, *sides, threshold="shadow", shadows=shadows)
    each = attack(None, *sides, threshold="shadow-per-class", shadows=shadows)
    assert each.accuracy.lower < ndtr(0.75) < each.accuracy.upper
    assert one.accuracy.upper < each.accuracy.lower
    cuts = np.log1p(np.exp(-(np.array([-2.0, 2.0]) + 0.75)))
    np.testing.assert_allclose(each.cut.value, -cuts, atol=0.35)


def test_a_class_without_shadows_is_named():
    case = Planted(n=50, n_shadows=2)
    shadows = case.shadows()
    inside = np.where(case.labels == 2, -1, case.inside)
    with pytest.raises(InvalidArgument, match="class 2 has no members"):
        attack(
            None,
            *case.sides(),
            threshold="shadow-per-class",
            shadows=Shadows(shadows.outputs, inside),
        )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threshold": "shadow"}, "needs shadows="),
        ({"threshold": "mean"}, "threshold='mean'"),
        ({"threshold": np.nan}, "threshold=nan"),
        ({"method": "confidence", "threshold": "mean-training-loss"}, "method='loss'"),
        ({"threshold": "shadow-per-class"}, "needs shadows="),
    ],
)
def test_rules_that_do_not_apply(given, said):
    with pytest.raises(InvalidArgument, match=said):
        attack(None, *Planted(n=20).sides(), **given)


def test_best_cut_is_the_best():
    rng = np.random.default_rng(1)
    inside, outside = rng.normal(0.5, 1, 80).round(1), rng.normal(0, 1, 90).round(1)
    cut = best_cut(inside, outside)

    def gain(t):
        return (inside >= t).mean() - (outside >= t).mean()

    assert gain(cut) == max(gain(t) for t in np.concatenate([inside, outside]))


LEVEL, N, REPEATS = 0.1, 40, 400


def misses(chosen_here):
    """How often the interval of accuracy misses 1/2, at the cut that looks best on noise."""
    rng = np.random.default_rng(11)
    missed = 0
    for _ in range(REPEATS):
        a, b = rng.normal(size=(2, N))
        cut = best_cut(a, b)
        found = rates(a - cut, b - cut, chosen_here, LEVEL).accuracy
        missed += not found.lower <= 0.5 <= found.upper
    return missed


def test_a_cut_that_was_chosen_is_paid_for():
    assert_rate_at_most(misses(chosen_here=True), REPEATS, LEVEL)


def test_the_mutant_that_does_not_pay_is_caught():
    with pytest.raises(AssertionError, match="chance"):
        assert_rate_at_most(misses(chosen_here=False), REPEATS, LEVEL)


@pytest.mark.parametrize("chosen_here", [True, False])
def test_rates_at_a_fixed_cut_cover(chosen_here):
    """Unequal sides, so that right guesses are coins of two kinds."""
    rng = np.random.default_rng(2)
    truth = {
        "tpr": ndtr(1.0),
        "fpr": ndtr(-0.5),
        "accuracy": (60 * ndtr(1.0) + 30 * ndtr(0.5)) / 90,
    }
    missed = dict.fromkeys(truth, 0)
    for _ in range(REPEATS):
        found = rates(rng.normal(1, 1, 60), rng.normal(-0.5, 1, 30), chosen_here, LEVEL)
        for name, value in truth.items():
            interval = getattr(found, name)
            missed[name] += not interval.lower <= value <= interval.upper
    for k in missed.values():
        assert_rate_at_most(k, REPEATS, LEVEL)
