"""The coins of many trials at once are those of their generators."""

import numpy as np
import pytest

from dpassay import _rng

TRIALS = np.concatenate([np.arange(64), [2**31 - 1, 2**31, 2**32 - 1, 123_456_789]])


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**33 + 5, 2**62, 2**128 + 1, 2**200 + 9])
@pytest.mark.parametrize("stream", [0, 1, 7])
def test_first_coins_are_those_of_each_generator(seed, stream):
    one_by_one = [int(_rng.for_trial(seed, int(t), stream).integers(0, 2)) for t in TRIALS]
    assert _rng.first_coins(seed, TRIALS, stream).tolist() == one_by_one
    assert _rng._is_as_before()


def test_other_numbers_and_another_numpy_are_drawn_one_by_one(monkeypatch):
    far = TRIALS + 2**32
    expected = [int(_rng.for_trial(3, int(t), 0).integers(0, 2)) for t in far]
    assert _rng.first_coins(3, far, 0).tolist() == expected
    near = _rng.first_coins(3, TRIALS, 0).tolist()
    monkeypatch.setattr(_rng, "_is_as_before", lambda: False)
    assert _rng.first_coins(3, TRIALS, 0).tolist() == near
    assert _rng.first_coins(3, TRIALS[:0], 0).size == 0
