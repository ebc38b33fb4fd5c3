"""Idioms of honest code that once were flagged, and of broken code that once was open."""

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument

RNG = np.random.default_rng(5)
VALUES = np.clip(RNG.normal(5, 2, 60), 0, 10)
CODES = RNG.integers(0, 3, 40)
PEOPLE = pd.DataFrame({"age": RNG.integers(0, 100, 50), "vote": RNG.integers(0, 2, 50)})
GRID = np.linspace(0, 10, 12)
ONE = da.PureDP(1.0)


def rules_of(mechanism, data, claim=ONE, **options):
    return [finding.rule for finding in da.check(mechanism, data, claim, **options).findings]


# Exponential mechanisms


def by_choice(p, rng):
    return int(rng.choice(len(p), p=p / p.sum()))


def by_looking_up(p, rng):
    return int(np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right"))


def by_looking_up_many(p, rng):
    return np.searchsorted(np.cumsum(p / p.sum()), rng.random(1)).tolist()


def by_noise(p, rng):
    return int(np.argmax(np.log(p) + rng.gumbel(size=len(p))))


def selecting(select, epsilon, times):
    def release(data, rng):
        counts = np.array([np.sum(np.abs(data - value) < 1) for value in GRID], float)
        return [select(np.exp(epsilon * (counts - counts.max())), rng) for _ in range(times)]

    return release


WAYS = (by_choice, by_looking_up, by_looking_up_many, by_noise)


@pytest.mark.parametrize("select", [by_choice, by_looking_up])
def test_many_selections_cost_what_bounded_range_says(select):
    """Each is epsilon²/8-zCDP (Cesar 2021), a quarter of what its largest ratio would cost."""
    claim = da.ZCDP(rho=20 * 0.5**2 / 8)
    found = da.check(selecting(select, 0.5, 20), VALUES[:20], claim, limit=3)
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(claim.epsilon(1e-5), rel=1e-3)
    assert rules_of(selecting(select, 0.55, 20), VALUES[:20], claim, limit=3) == ["DPA202"]


@pytest.mark.parametrize("select", WAYS)
def test_one_selection_costs_its_largest_ratio(select):
    found = da.check(selecting(select, 0.5, 1), VALUES, da.PureDP(0.5), limit=12)
    assert found.findings == ()
    assert found.epsilon_seen <= 0.5 * (1 + 1e-6)
    assert rules_of(selecting(select, 0.5, 1), VALUES, da.PureDP(0.4), limit=12) == ["DPA202"]


def test_what_is_looked_up_is_evidence():
    """The outcome of a choice is in the release, so that its ratio refutes a claim."""

    def one_of_two(epsilon):
        def release(data, rng):
            counts = np.array([np.sum(data <= 5), np.sum(data > 5)])
            return by_looking_up_many(np.exp(epsilon * (counts - counts.max())), rng)

        return release

    few = np.array([1.0, 1.0, 9.0])
    options = {"claim": da.PureDP(0.5), "neighbours": [np.append(few, 9.0)]}
    assert da.check(one_of_two(4.0), few, **options).evidence(60).refuted
    assert not da.check(one_of_two(0.5), few, **options).evidence(20).refuted


def test_draws_of_one_call_are_composed():
    """A hundred draws at once cost no more than a hundred calls."""

    def release(data, rng):
        p = np.exp(0.1 * np.histogram(data, 4, (0, 10))[0])
        return rng.choice(4, size=100, p=p / p.sum())

    claim = da.ZCDP(rho=100 * 0.1**2 / 8)
    assert rules_of(release, VALUES, claim, limit=12) == []


def test_candidates_taken_from_the_data_are_found():
    def median(data, rng):
        grid = np.unique(np.round(data, 2))
        score = -np.abs(np.searchsorted(np.sort(data), grid) - len(data) / 2)
        p = np.exp((score - score.max()) / 2)
        return float(rng.choice(grid, p=p / p.sum()))

    assert rules_of(median, VALUES) == ["DPA103"]


def test_intervals_between_records_are_no_finding():
    """An exponential mechanism over all points: a random point of a random interval."""

    def median(data, rng):
        x = np.concatenate([[0.0], np.sort(np.clip(data, 0, 10)), [10.0]])
        score = -np.abs(np.arange(len(x) - 1) - len(data) / 2) / 2
        p = np.maximum(np.diff(x), 1e-300) * np.exp(score - score.max())
        i = rng.choice(len(p), p=p / p.sum())
        return rng.uniform(x[i], x[i + 1])

    assert rules_of(median, VALUES) == []


def test_uniform_numbers_of_another_range_are_coins():
    def answer(data, rng, p=75):
        return [v > 5 if 100 * rng.random() < p else v <= 5 for v in data.tolist()]

    claim = da.PureDP(np.log(3), neighbouring="replace-one")
    assert rules_of(answer, VALUES, claim, limit=6) == []
    worse = da.check(lambda d, rng: answer(d, rng, 90), VALUES, claim, limit=6)
    assert [finding.rule for finding in worse.findings] == ["DPA202"]


# Codes, flags and ranges


def histogram(codes, rng):
    counts = np.bincount(codes, minlength=3)
    return counts + rng.laplace(size=len(counts))


def test_a_code_beyond_the_declared_ones_is_a_warning():
    found = da.check(histogram, CODES, ONE)
    assert found.findings == ()
    assert found.decided
    assert "DPA103" in {warning.rule for warning in found.warnings}


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "cells",
    [np.unique, lambda codes: range(max(codes.tolist(), default=0) + 1)],
    ids=["those that occur", "up to the largest"],
)
def test_cells_taken_from_the_data_are_found(cells, neighbouring):
    def release(codes, rng):
        return [int(np.sum(codes == cell)) + rng.laplace(scale=2) for cell in cells(codes)]

    found = da.check(release, CODES, da.PureDP(1.0, neighbouring=neighbouring))
    assert [finding.rule for finding in found.findings] == ["DPA101"]
    assert found.findings[0].execution <= 20


@pytest.mark.parametrize("flags", [np.array([0, 1, 1, 0, 1]), [0, 1, 1, 0, 1]], ids=type)
def test_flags_have_no_values_beyond(flags):
    assert rules_of(lambda x, rng: sum(x) + rng.laplace(), flags) == []
    assert rules_of(lambda x, rng: sum(x) + rng.laplace(scale=0.9), flags) == ["DPA202"]


def total_age(people, rng):
    return people["age"].sum() + rng.laplace(scale=100)


def test_columns_have_ranges_of_their_own():
    assert rules_of(total_age, PEOPLE) == ["DPA202"]
    assert rules_of(total_age, PEOPLE, bounds={"age": (0, 100)}) == []
    assert rules_of(total_age, PEOPLE, bounds=([0, 0], [100, 1])) == []
    assert rules_of(total_age, PEOPLE, bounds=(0, 101)) == ["DPA202"]
    found = da.check(total_age, PEOPLE, ONE, bounds={"age": (0, 120)})
    assert found.epsilon_seen == pytest.approx(1.2)


def test_rows_of_an_array_have_ranges_by_column():
    rows = PEOPLE.to_numpy(float)

    def release(x, rng):
        return x.sum(axis=0) + rng.laplace(scale=[100, 1])

    bounds = [0, 0], [100, 1]
    assert rules_of(release, rows, da.PureDP(2.0), bounds=bounds) == []
    found = da.check(release, rows, da.PureDP(1.9), bounds=bounds)
    assert found.findings[0].rule == "DPA202"
    assert found.epsilon_seen == pytest.approx(2.0)


def test_the_ends_of_a_range_are_tried():
    def release(x, rng):
        return np.clip(x, 0, 5000).sum() + rng.laplace(scale=1000)

    assert rules_of(release, VALUES, bounds=(0, 5000)) == ["DPA202"]
    assert rules_of(release, VALUES, bounds=(0, 1000)) == []


@pytest.mark.parametrize(
    "bounds", [(1, 0), (0,), 3, ([0, 0, 0], [1, 1, 1]), {"agee": (0, 1)}, (0, float("nan")),
               ("a", "b"), {"age": 3}]
)  # fmt: skip
def test_bad_ranges_are_refused(bounds):
    with pytest.raises(InvalidArgument, match="bounds"):
        da.check(total_age, PEOPLE, ONE, bounds=bounds)


def test_one_record_may_hold_all_words():
    texts = ["red green", "blue", "red", "green", "yellow red"] * 4
    vocabulary = ("red", "green", "blue", "yellow")

    def count(most):
        def release(data, rng):
            per = [[w for w in vocabulary if w in text.split()][:most] for text in data]
            return [sum(w in words for words in per) + rng.laplace(scale=2) for w in vocabulary]

        return release

    assert rules_of(count(2), texts) == []
    assert rules_of(count(4), texts) == ["DPA202"]


# Sums of draws


@pytest.mark.parametrize(
    "noise",
    [lambda rng: np.mean(rng.normal(0, 1, 10)), lambda rng: rng.normal(0, 1, (4, 10)).mean(axis=1),
     lambda rng: np.sum(rng.normal(0, 0.1, 10))],
    ids=["mean", "means of rows", "sum"],
)  # fmt: skip
def test_sums_and_means_of_normal_draws_are_thinner(noise):
    def release(x, rng):
        return np.clip(x, 0, 1).sum() / 2 + noise(rng)

    size = 10**0.5 / 2 * (2 if np.size(noise(np.random.default_rng(0))) == 4 else 1)
    assert rules_of(release, VALUES, da.GDP(mu=size * 1.001), limit=8) == []
    found = da.check(release, VALUES, da.GDP(mu=size * 0.999), limit=8)
    assert [finding.rule for finding in found.findings] == ["DPA202"]


def test_arrays_of_another_layout_keep_their_mark():
    def release(x, rng):
        noise = np.asfortranarray(np.ascontiguousarray(rng.laplace(size=(1, 2))))
        return np.clip(x, 0, 1).sum() / 2 + noise

    assert rules_of(release, VALUES, limit=8) == []
    assert rules_of(release, VALUES, da.PureDP(0.9), limit=8) == ["DPA202"]


# dpassay's own answers


def respond(data, rng, epsilon=1.0):
    codes = (np.asarray(data) > 5).astype(int)
    return da.mechanisms.randomized_response(codes, n_categories=2, epsilon=epsilon, rng=rng)


@pytest.mark.parametrize("secure", [True, False])
def test_own_randomized_answers_have_a_price(secure):
    claim = da.PureDP(1.0, neighbouring="replace-one")

    def release(epsilon):
        return lambda data, rng: respond(data, None if secure else rng, epsilon).value

    found = da.check(release(1.0), VALUES, claim, limit=6)
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(1.0)
    assert rules_of(release(1.5), VALUES, claim, limit=6) == ["DPA202"]


def test_a_sum_of_own_answers_may_cost_less():
    """Shuffling amplifies: what the answers cost one by one is no finding about their number."""

    def release(data, rng):
        return da.mechanisms.estimate_frequencies(respond(data, rng, 2.0)).frequencies

    found = da.check(release, VALUES, da.ApproxDP(1.0, 1e-5, neighbouring="replace-one"), limit=6)
    assert found.findings == ()
    assert found.undecided
