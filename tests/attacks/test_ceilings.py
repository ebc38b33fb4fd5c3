import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpassay import GDP, ApproxDP, PureDP
from dpassay.attacks.ceilings import ceilings
from dpassay.privacy.membership import attack_limits

FPRS = (0.001, 0.01)


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(2.0, 1e-3), GDP(0.7)])
def test_a_coin_meets_the_claim_itself(claim):
    found = ceilings(claim, membership="randomised", share=0.5, fprs=FPRS)
    limits = attack_limits(claim, 0.01)
    assert 0 <= found.accuracy - limits.accuracy < 2e-4
    assert 0 <= found.advantage - limits.advantage < 2e-4
    assert found.tpr_at[0.01] == pytest.approx(limits.tpr)
    assert found.relation == "add-remove"


@pytest.mark.golden
def test_one_printed_number():
    """Accuracy at most (e^eps + delta)/(1 + e^eps), .7311 at 1."""
    found = ceilings(PureDP(1.0), membership="randomised", share=0.5, fprs=())
    assert found.accuracy == pytest.approx(0.7311, abs=2e-4)


def test_a_fixed_size_replaces_a_record():
    """Adding one and removing another: Gaussian with twice the mean, in closed form."""
    mu = 0.6
    two = ceilings(GDP(mu), membership="fixed", share=0.5, fprs=FPRS)
    assert two.advantage == pytest.approx(2 * ndtr(mu) - 1, abs=3e-4)
    assert two.auc == pytest.approx(ndtr(2 * mu / np.sqrt(2)), abs=3e-4)
    assert two.tpr_at[0.01] == pytest.approx(ndtr(ndtri(0.01) + 2 * mu), rel=1e-6)
    assert two.relation == "one record added and another removed"
    one = ceilings(GDP(mu, neighbouring="replace-one"), membership="fixed", share=0.5, fprs=FPRS)
    assert one.advantage == pytest.approx(2 * ndtr(mu / 2) - 1, abs=3e-4)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_accuracy_for_any_share_of_members(share):
    """Neyman-Pearson for two unit Gaussians: the best of all cuts, by brute force."""
    found = ceilings(GDP(1.5), membership="randomised", share=share, fprs=())
    cuts = np.linspace(-10, 12, 100_001)
    best = (share * ndtr(1.5 - cuts) + (1 - share) * ndtr(cuts)).max()
    assert 0 <= found.accuracy - best < 2e-4
    assert found.accuracy >= max(share, 1 - share)


def test_no_privacy_allows_everything():
    found = ceilings(PureDP(np.inf), membership="fixed", share=0.5, fprs=FPRS)
    assert (found.accuracy, found.auc, found.advantage) == (1, 1, 1)
