"""Selection: the law of every rule at every level, and what one record can do to it."""

import numpy as np
import pytest

from dpassay.mechanisms import exponential, permute_and_flip, report_noisy_max
from dpassay.privacy import events
from mechanisms.levels import (
    LEVELS,
    law_by_quadrature,
    permute_and_flip_law,
    rng_of,
    softmax_law,
    win_probability,
)
from rates import assert_rate

LAWS = {
    "laplace": lambda scores, scale: law_by_quadrature("laplace", scores, scale),
    "exponential": permute_and_flip_law,
    "gumbel": softmax_law,
}
SCORES = [0.0, -1.0, -3.0, -1.5]
N = 6000


def assert_picks(picks, law):
    """Every candidate's count must be plausible; false alarm 1e-9 for each."""
    for i, p in enumerate(law):
        assert_rate(picks.count(i), len(picks), p)


def picks_of(level, kind, *, sensitivity=1.0, monotone=False, n=N):
    rng = rng_of(level)

    def pick():
        release = report_noisy_max(
            SCORES, sensitivity=sensitivity, epsilon=2.0, noise=kind, monotone=monotone, rng=rng
        )
        assert release.noise == level
        return release.value

    return [pick() for _ in range(n)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", LAWS)
class TestLaw:
    """epsilon = 2 and sensitivity 1: noise of scale 1, or 1/2 if monotone."""

    def test_general(self, kind, level):
        assert_picks(picks_of(level, kind), LAWS[kind](SCORES, 1.0))

    def test_half_the_noise_is_noticed(self, kind, level):
        with pytest.raises(AssertionError):
            assert_picks(picks_of(level, kind, sensitivity=0.5), LAWS[kind](SCORES, 1.0))

    def test_monotone(self, kind, level):
        picks = picks_of(level, kind, monotone=True, n=2000)
        assert_picks(picks, LAWS[kind](SCORES, 0.5))


@pytest.mark.parametrize("scores", [SCORES, [0.0, 0.0], [5.0, 1.0, 1.0, -2.0, 4.0]])
def test_laws_agree_with_quadrature(scores):
    """Gumbel noise is the exponential mechanism; exponential noise is permute-and-flip."""
    for kind in ("gumbel", "exponential"):
        assert LAWS[kind](scores, 1.7) == pytest.approx(
            law_by_quadrature(kind, scores, 1.7), abs=1e-9
        )


@pytest.mark.golden
@pytest.mark.parametrize("level", LEVELS)
def test_exponential_mechanism_golden(level):
    # u = (0, -1, -3) with weights exp(u/.5), computed independently.
    golden = [0.87887824, 0.11894324, 0.00217852]
    assert softmax_law([0, -1, -3], 0.5) == pytest.approx(golden, abs=6e-9)
    rng = rng_of(level)
    picks = [
        exponential([0, -1, -3], sensitivity=1.0, epsilon=4.0, rng=rng).value for _ in range(N)
    ]
    assert_picks(picks, golden)


def test_named_rules_are_noisy_max_rules():
    for seed in range(50):
        rest = {"sensitivity": 1.0, "epsilon": 1.0, "rng": seed}
        assert exponential(SCORES, **rest) == report_noisy_max(SCORES, noise="gumbel", **rest)
        assert permute_and_flip(SCORES, **rest) == report_noisy_max(
            SCORES, noise="exponential", **rest
        )


def test_events():
    rest = {"sensitivity": 2.0, "epsilon": 0.7, "rng": 0, "neighbouring": "replace-one"}
    for monotone in (False, True):
        expected = events.BoundedRange(0.7, "replace-one")
        assert exponential(SCORES, monotone=monotone, **rest).event == expected
        flipped = permute_and_flip(SCORES, monotone=monotone, **rest).event
        assert flipped == events.NoisyMax(0.7, "replace-one")
    release = report_noisy_max(SCORES, **rest)
    assert (release.event, release.sensitivity) == (events.Pure(0.7, "replace-one"), 2.0)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("level", LEVELS)
def test_far_apart_scores(kind, level):
    scores = [-1e308, 3.0, 1e308, -1e-320]
    release = report_noisy_max(scores, sensitivity=1.0, epsilon=1.0, noise=kind, rng=rng_of(level))
    assert release.value == 2
    assert type(release.value) is int


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("level", LEVELS)
def test_one_candidate(kind, level):
    rest = {"sensitivity": 1.0, "epsilon": 1.0, "rng": rng_of(level)}
    assert report_noisy_max([-7.0], noise=kind, **rest).value == 0


def loss_of_favourite(k, scale, rises):
    """Log ratio of P(the last wins), 10 behind k - 1 others, when they fall by 1 and it rises."""
    scores = np.append(np.zeros(k - 1), -10.0)
    moved = scores + np.append(-np.ones(k - 1), rises)
    before, after = (win_probability("laplace", s, scale, k - 1) for s in (scores, moved))
    return np.log(after / before)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("k", "right", "half"), [(2, 0.3822, 0.8458), (5, 0.49996, 0.99999988), (20, 0.5, 1.0)]
)
def test_noisy_max_needs_twice_the_sensitivity(k, right, half):
    """By quadrature, at epsilon = .5; published forms with half the scale are 2 epsilon-DP."""
    epsilon = 0.5
    with_right, with_half = (loss_of_favourite(k, c / epsilon, rises=1.0) for c in (2, 1))
    assert with_right == pytest.approx(right, abs=5e-5)
    assert with_half == pytest.approx(half, abs=5e-5)
    assert with_right <= epsilon + 1e-12
    assert with_half > 1.5 * epsilon
    # Monotone: they all fall or stay, and half the scale is enough.
    assert 0.4 < loss_of_favourite(k, 1 / epsilon, rises=0.0) <= epsilon + 1e-12


def random_neighbours(rng, k, monotone):
    scores = rng.normal(scale=2.0, size=k)
    if monotone:
        return scores, scores + rng.choice([0.0, 1.0, rng.random()], size=k)
    return scores, scores + rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=k)


def losses(law, scale, n=400, *, monotone):
    rng = np.random.default_rng(8)
    for _ in range(n):
        u, v = random_neighbours(rng, rng.integers(2, 6), monotone)
        yield np.log(law(u, scale) / law(v, scale))


@pytest.mark.parametrize("monotone", [False, True])
def test_exponential_mechanism_has_bounded_range(monotone):
    epsilon = 0.8
    widths = [
        np.ptp(loss)
        for loss in losses(softmax_law, (1 if monotone else 2) / epsilon, monotone=monotone)
    ]
    assert max(widths) <= epsilon + 1e-12
    assert max(widths) > 0.999 * epsilon


@pytest.mark.parametrize("monotone", [False, True])
def test_permute_and_flip_is_pure_but_has_no_bounded_range(monotone):
    epsilon = 0.8
    scale = (1 if monotone else 2) / epsilon
    seen = list(losses(permute_and_flip_law, scale, monotone=monotone))
    assert max(np.abs(loss).max() for loss in seen) <= epsilon + 1e-12
    assert max(np.ptp(loss) for loss in seen) > 1.05 * epsilon


@pytest.mark.parametrize("law", [softmax_law, permute_and_flip_law])
def test_monotone_noise_is_not_enough_for_scores_that_move_both_ways(law):
    epsilon = 0.8
    assert max(np.abs(loss).max() for loss in losses(law, 1 / epsilon, monotone=False)) > epsilon
