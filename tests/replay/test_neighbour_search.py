"""Records whose coordinates differ: neither all small nor all large shows every fault."""

import numpy as np
import pandas as pd
import pytest

import dpassay as da

RNG = np.random.default_rng(0)
PLACES = RNG.integers(0, 8, 40)
TABLE = np.stack([PLACES, RNG.random(40)], axis=1)
FRAME = pd.DataFrame({"place": PLACES, "value": TABLE[:, 1]})


def prefix_sums(place, value, rng, scale):
    """A record at an early place is in more of the sums."""
    leaves = np.bincount(place, weights=np.clip(value, 0, 1), minlength=8)[:8]
    return np.cumsum(leaves) + rng.laplace(scale=scale, size=8)


def of_rows(scale):
    def release(x, rng):
        return prefix_sums(np.clip(x[:, 0], 0, 7).astype(int), x[:, 1], rng, scale)

    return release


def of_columns(scale):
    def release(frame, rng):
        place = np.clip(frame["place"].to_numpy(), 0, 7)
        return prefix_sums(place, frame["value"].to_numpy(), rng, scale)

    return release


def of_labels(scale):
    def release(data, rng):
        x, _ = data
        return prefix_sums(np.clip(x[:, 0], 0, 7).astype(int), x[:, 1], rng, scale)

    return release


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (of_rows, TABLE),
        (of_columns, FRAME),
        (of_labels, (TABLE, PLACES % 2)),
    ],
    ids=["rows", "columns", "labels"],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_tree_with_too_little_noise(make, data, relation):
    claim = da.PureDP(1.0, neighbouring=relation)
    assert da.check(make(8.0), data, claim).findings == ()
    found = da.check(make(6.0), data, claim)  # three quarters of the noise
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert found.epsilon_seen <= 8 / 6 + 1e-9
