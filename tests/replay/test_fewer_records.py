"""What a check says of faults that show on few records, and of pairs on which nothing moved."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

import dpassay as da

ALIKE = ["the"] * 30 + ["and"] * 25  # no word is so rare that one more would tell


def drop_rare_words(words, rng):
    counted = sorted(Counter(words).items())
    return {word: n + rng.laplace() for word, n in counted if n >= 2}


def test_a_fault_on_few_equal_records_shows_where_n_is_fixed():
    """D cut to [the] and [the, the]; of two records the second decides as well."""
    found = da.check(drop_rare_words, ALIKE, "1.0,1e-5")
    assert [finding.rule for finding in found.findings] == ["DPA101"]
    assert not found.warnings


def test_data_of_one_value_cannot_be_compared_where_n_is_fixed():
    found = da.check(drop_rare_words, ["the"] * 30, "1.0,1e-5")
    assert found.findings == ()
    (warning,) = found.warnings
    assert "not seen on D itself" in warning.message
    assert "n is fixed" not in warning.message


def test_what_depends_on_n_alone_is_a_warning():
    values = np.linspace(0, 1, 30)

    def release(x, rng):
        times = 2 if len(x) < 3 else 1
        return [fill_in(x).sum() + rng.laplace(scale=2.0) for _ in range(times)]

    found = da.check(release, values, "1.0")
    assert found.findings == ()
    (warning,) = found.warnings
    assert "It was not seen on D itself, nor with one record replaced" in warning.message


def fill_in(x):
    return np.clip(np.nan_to_num(x), 0, 1)


def start_from_noise(x, rng):
    """The array of noise is changed in place, which is not followed."""
    counts = rng.laplace(size=5)
    for value in fill_in(x):
        counts[min(int(value * 5), 4)] += 1
    return counts


def count_with_scipy(x, rng):
    return len(x) + stats.dlaplace.rvs(1.0, random_state=rng)


@pytest.mark.parametrize("release", [start_from_noise, count_with_scipy])
def test_records_that_are_not_finite_are_not_blamed_for_what_others_show(release):
    found = da.check(release, np.linspace(0, 1, 20), "1.0")
    assert found.findings == ()
    assert found.undecided
    assert "DPA601" not in {warning.rule for warning in found.warnings}
    assert not any("no query moved" in part.message for part in found.not_checked)


def test_a_question_ends_with_its_own_mark():
    found = da.check(lambda x, rng: 0.0 + rng.laplace(), np.linspace(0, 1, 20), "1.0")
    assert "used at all?\n" in str(found)
    assert "?." not in str(found)


def rate_of_its_own(x, rng):
    """The rate is made of n, so that few records are all in every batch."""
    steps = int(np.ceil(len(x) / 5))
    w = 0.0
    for _ in range(steps):
        batch = x[rng.random(len(x)) < 1 / steps]
        w -= (np.clip(w - batch, -1, 1).sum() + rng.normal(0, 0.3)) / 20
    return w


def test_a_price_is_shrunk_only_where_the_same_is_played():
    found = da.check(rate_of_its_own, np.linspace(0, 1, 18), da.dp_sgd_event(1.0, 0.25, 4))
    first = found.findings[0]
    assert first.rule == "DPA202"
    assert first.n_records > 15
