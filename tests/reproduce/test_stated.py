"""The numbers of the Nasr notes: what follows from counts, and what 1000 trials can show."""

import numpy as np
import pytest

from dpassay.bounds import lower_bound_from_counts
from dpassay_reproduce import stated


def test_simulated_bounds_are_those_of_the_library():
    tp, fp = np.array([0, 17, 500, 1000]), np.array([1000, 2, 100, 0])
    for found, t, f in zip(stated._bound(tp, fp), tp.tolist(), fp.tolist(), strict=True):
        bound = lower_bound_from_counts(tp=t, fn=1000 - t, fp=f, tn=1000 - f, delta=stated.DELTA)
        assert found == pytest.approx(bound.epsilon, abs=1e-7)


def test_what_the_counts_show():
    assert stated.claim_counts().holds
    assert "0.320" in stated.claim_counts().measured


def test_a_gaussian_trade_off_does_not_reach_3_6():
    claim = stated.claim_malicious()
    assert claim.fails
    gauss, coin = stated.simulate_gaussian(4.0, seed=1), stated.simulate_response(4.0, seed=1)
    assert gauss.mean() == pytest.approx(1.30, abs=0.05)
    assert 1.9 < gauss.max() < 2.5
    assert coin.mean() == pytest.approx(3.66, abs=0.03)
