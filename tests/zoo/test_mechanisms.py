"""The laws of the zoo's mechanisms, against what they are said to be."""

import itertools
import math

import numpy as np
import pytest

from dpassay.attacks import lowest_bit
from dpassay.auditing.referee import claimed_delta
from dpassay.zoo import mechanisms as zoo
from dpassay.zoo.catalogue import DRAWS, SUBJECTS, TRAININGS
from rates import assert_rate

SIZE = 40_000


def drawn(mechanism, data, size=SIZE, seed=0):
    return mechanism(np.array(data, float), np.random.default_rng(seed), size)


@pytest.mark.parametrize("subject", DRAWS, ids=lambda s: s.name)
def test_outputs_are_rows(subject):
    for data in subject.pair():
        values = subject.mechanism(data, np.random.default_rng(0), 7)
        assert values.shape[0] == 7
        again = subject.mechanism(data, np.random.default_rng(0), 7)
        np.testing.assert_array_equal(values, again)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_a_claim_is_broken_exactly_if_the_truth_is_above_it(subject):
    truth = subject.epsilon_worst if subject.epsilon_worst is not None else subject.epsilon_true
    if truth is not None:
        claim = subject.claim()
        claimed = claim.epsilon(claimed_delta(claim, None))
        assert subject.broken == (truth > claimed * (1 + 1e-12))
    assert subject.about.endswith(".") or subject in TRAININGS


def test_names_are_unique():
    names = [subject.name for subject in SUBJECTS]
    assert len(set(names)) == len(names)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("key", "seed", "value"),
    # The published test vectors of MurmurHash3_x86_32 (as unsigned numbers).
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"test", 0, 0xBA6BD213),
        (b"Hello, world!", 0, 0xC0363E43),
    ],
)
def test_murmur3(key, seed, value):
    assert zoo.murmur3(key, seed) % 2**32 == value


@pytest.mark.golden
@pytest.mark.parametrize(("a", "b", "bits"), [(1, 0, 6), (4, 5, 8)])
def test_bits_that_differ(a, b, bits):
    assert np.abs(zoo.bloom_filter(a) - zoo.bloom_filter(b)).sum() == bits


@pytest.mark.parametrize(
    ("mechanism", "high", "low"), [(zoo.rappor, 0.5125, 0.4875), (zoo.rappor_once, 0.525, 0.475)]
)
def test_rappor_reports_bits_at_its_rates(mechanism, high, low):
    counts = mechanism(3, np.random.default_rng(0), SIZE).sum(axis=0).astype(int)
    for count, bit in zip(counts, zoo.bloom_filter(3), strict=True):
        assert_rate(count, SIZE, high if bit else low)


def test_the_geometric_sampler_has_the_epsilon_that_is_said():
    """Enumerated: the worst ratio of two neighbouring counts is 9/8."""
    laws = [np.diff(zoo._geometric_steps(count, 3, 5), prepend=0) for count in range(6)]
    assert all((law > 0).all() and law.sum() == laws[0].sum() for law in laws)
    ratios = [np.log(a / b) for a, b in itertools.pairwise(laws)]
    assert np.abs(ratios).max() == pytest.approx(math.log(9 / 8), rel=1e-12)


@pytest.mark.parametrize("count", [0, 2, 5])
def test_the_geometric_sampler_draws_its_law(count):
    law = np.diff(zoo._geometric_steps(count, 3, 5), prepend=0)
    values = zoo.truncated_geometric(count, np.random.default_rng(0), SIZE)
    for value, weight in enumerate(law):
        assert_rate(int((values == value).sum()), SIZE, float(weight / law.sum()))


def test_events_whose_probability_is_known():
    """Those that the true losses of the catalogue rest on."""
    assert_rate(int((drawn(zoo.noisy_max_laplace, [0] * 5) <= 0).sum()), SIZE, 1 / 32)
    p = (0.5 * math.exp(-1 / 20)) ** 5
    assert_rate(int((drawn(zoo.noisy_max_laplace, [1] * 5) <= 0).sum()), SIZE, p)
    assert_rate(int((drawn(zoo.histogram_inverted_scale, [0] * 5)[:, 0] <= 0).sum()), SIZE, 0.5)
    assert drawn(zoo.noisy_max_exponential, [2] * 5).min() >= 2
    p = (1 - math.exp(-0.1)) ** 5
    assert_rate(int((drawn(zoo.noisy_max_exponential, [0] * 5) <= 2).sum()), SIZE, p)
    assert_rate(int((drawn(zoo.laplace, [1]) >= 11).sum()), SIZE, 0.5 * math.exp(-1))
    p = 0.5 * math.exp(-1 / 200)
    assert_rate(int((drawn(zoo.laplace_in_parallel, [0])[:, 7] >= 1).sum()), SIZE, p)


def laplace_tail(x, scale):
    """P(Laplace >= x)."""
    return np.where(x > 0, 0.5 * np.exp(-abs(x) / scale), 1 - 0.5 * np.exp(-abs(x) / scale))


@pytest.mark.parametrize(
    ("mechanism", "threshold", "limit", "answer"),
    [
        (zoo.sparse_vector_1, 0.5, 20, 40),
        (zoo.sparse_vector_2, 1.0, 20, 40),
        (zoo.sparse_vector_3, 1.0, 20, 20),
        (zoo.sparse_vector_4, 1.0, 40, 40 / 3),
        (zoo.sparse_vector_6, 1.0, 20, 20),
        (zoo.sparse_vector_numerical, 1.0, 30, 120),
    ],
)
def test_the_first_answer_is_above_as_often_as_the_noise_says(mechanism, threshold, limit, answer):
    """Integrated over the threshold's noise: nothing of it is drawn here."""
    grid = np.linspace(-40 * limit, 40 * limit, 400_001)
    weights = np.exp(-np.abs(grid) / limit) / (2 * limit) * (grid[1] - grid[0])
    p = float((weights * laplace_tail(threshold + grid - 1.0, answer)).sum())
    first = drawn(mechanism, [1] * 10)[:, 0]
    above = ~np.isin(first, [0.0, zoo.BELOW])
    assert_rate(int(above.sum()), SIZE, p)


def test_one_threshold_holds_for_all_answers():
    """Where the technique stops, integrated over the noise that all answers share."""
    grid = np.linspace(-800, 800, 100_001)
    weights = np.exp(-np.abs(grid) / 20) / 40 * (grid[1] - grid[0])
    data = [30.0, -20.0, 0.0]
    below = [1 - laplace_tail(0.5 + grid - answer, 40) for answer in data]
    rows = drawn(zoo.sparse_vector_1, data)
    for place in range(3):
        p = float((weights * np.prod(below[:place], axis=0) * (1 - below[place])).sum())
        assert_rate(int((rows[:, place] == 1).sum()), SIZE, p)


def test_the_technique_stops():
    rows = drawn(zoo.sparse_vector_1, [1] * 10, 5000)
    for row in rows:
        hits = np.flatnonzero(row == 1)
        assert len(hits) <= 1
        if len(hits):
            assert (row[hits[0] + 1 :] == zoo.ABORTED).all()
    numbers = drawn(zoo.sparse_vector_numerical, [1] * 10, 5000)
    released = ~np.isin(numbers, [0.0, zoo.BELOW])
    assert released.sum(axis=1).max() == 2


def test_without_noise_in_the_answers_order_is_certain():
    """Answers of 2 are above whenever those of 0 are: the other pattern never occurs."""
    rows = drawn(zoo.sparse_vector_5, [2] * 5 + [0] * 5)
    assert (rows[:, 0] >= rows[:, 9]).all()
    assert (rows[:, 0] > rows[:, 9]).any()


def test_snapping_stays_on_its_grid():
    values = zoo.snapping(3.0, np.random.default_rng(0), SIZE)
    assert np.isin(values, [*np.arange(-96, 97, 16.0), -100.0, 100.0]).all()


def test_the_textbook_draw_tells_the_answer_by_its_last_bits():
    """No draw with the answer 1 lies between multiples of 2^-53; many with the answer 0 do."""
    ones, zeros = (lowest_bit(drawn(zoo.laplace_by_inversion, [a])) for a in (1, 0))
    assert ones.min() >= -53
    assert (zeros < -53).mean() > 0.01


def test_gumbel_noise_is_the_exponential_mechanism():
    answers = np.array([0, 2, 2, 2, 2.0])
    weights = np.exp(answers * zoo.EPSILON / 2)
    values = drawn(zoo.noisy_argmax_gumbel, answers)
    for place, weight in enumerate(weights / weights.sum()):
        assert_rate(int((values == place).sum()), SIZE, float(weight))


def test_a_replaced_record_moves_the_gradient_by_two_clipping_norms():
    subject = next(s for s in DRAWS if s.name == "one gradient step, sensitivity halved")
    a, b = (subject.mechanism(data, np.random.default_rng(0), 5) for data in subject.pair())
    assert np.linalg.norm(a - b, axis=1) == pytest.approx(2.0)
    deviations = subject.mechanism(subject.pair()[0], np.random.default_rng(1), SIZE).std(axis=0)
    assert deviations == pytest.approx(zoo.STEP_NOISE, rel=0.03)
