"""Ranks of many scores at once are those of one at a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpassay.bounds.wealth import _balanced_rank, balanced_ranks

SCORES = st.sampled_from([-np.inf, -2.0, -1.0, 0.0, 0.5, 1.0, 3.0, 1e308, -1e308, np.inf])
SOME = st.lists(SCORES, min_size=1, max_size=6).map(sorted)


@given(SOME, SOME, st.lists(SCORES | st.floats(-4, 4), min_size=1, max_size=8))
def test_ranks_of_many_are_those_of_one(a, b, scores):
    many = balanced_ranks(np.array(a), np.array(b), np.array(scores))
    np.testing.assert_allclose(many, [_balanced_rank(a, b, x) for x in scores], rtol=0, atol=1e-15)
