import numpy as np
import pytest

from dpassay import _rng
from dpassay.auditing.neighbours import check_neighbours
from dpassay.bounds.sequential import SequentialTest
from dpassay.privacy import ZCDP, account, shuffled_event
from dpassay.privacy.allocation import AllocatedLosses
from dpassay.zoo import training_bugs
from dpassay.zoo.training_bugs import CASES, digits

FAST = [name for name, case in CASES.items() if case.trials <= 60]


def refuted_after(case, train, trials, confidence):
    """The number of trainings, in worlds drawn by coins, after which the claim falls; or None."""
    worlds = np.random.default_rng(7).integers(0, 2, trials)
    pair = case.pair()
    scores = [
        case.score(train(pair[1 - world], _rng.for_trial(3, trial)))
        for trial, world in enumerate(worlds)
    ]
    test = SequentialTest(case.claim(), confidence=confidence)
    test.update(worlds, scores)
    return test.refuted_at


@pytest.mark.parametrize("name", FAST)
def test_the_bug_is_caught(name):
    case = CASES[name]
    assert refuted_after(case, case.broken, 50, 1 - 1e-6) is not None


@pytest.mark.parametrize("name", FAST)
def test_the_honest_version_is_let_through(name):
    # A true claim falls with probability 1e-6 at most, whatever the seed.
    case = CASES[name]
    assert refuted_after(case, case.honest, 40, 1 - 1e-6) is None


def test_shuffling_is_caught():
    case = CASES["shuffling"]
    assert refuted_after(case, case.broken, 250, 0.999) is not None
    assert refuted_after(case, case.honest, 250, 1 - 1e-6) is None


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_pairs_are_neighbours(case):
    check_neighbours(*case.pair(), case.claim().neighbouring)


def test_three_pixels_are_blank():
    X, _ = digits()
    assert np.flatnonzero(X.max(axis=0) == 0).tolist() == list(training_bugs._BLANK)


def test_the_published_claim_holds_for_the_fixed_noise():
    assert ZCDP(training_bugs.RHO).epsilon(1e-5) <= training_bugs.backpropagation_claim().epsilon(
        1e-5
    )


def moves(case, train):
    """How far two first steps lie apart when the same noise is added, with and without."""
    one, other = (train(data, np.random.default_rng(0)) for data in case.pair())
    return np.linalg.norm(one[1] - other[1]) / training_bugs._LEARNING_RATE


def test_the_canary_moves_a_sum_by_the_clipping_norm_at_most():
    case = CASES["batch clipping"]
    records = training_bugs.CLIPPED["records"]
    assert moves(case, case.honest) * records == pytest.approx(1.0)
    assert moves(case, case.broken) * records > 100


def test_the_networks_canary_moves_a_gradient_by_the_sensitivity_at_most(monkeypatch):
    monkeypatch.setattr(training_bugs, "EPOCHS", 1)
    monkeypatch.setattr(training_bugs, "BATCH", training_bugs.RECORDS)
    case = CASES["batch size"]
    one, other = (case.broken(data, np.random.default_rng(0)) for data in case.pair())
    stated = training_bugs.INPUT_CLIP * training_bugs.SIGNAL_CLIP
    for a, b in zip(one, other, strict=True):
        moved = np.linalg.norm(a - b) / training_bugs.RATE
        assert stated / training_bugs.BATCH < moved <= 2 * stated


def test_shuffling_is_beyond_the_poisson_curve_and_within_its_own():
    """Without a game: the truth is above Poisson's delta at 0 and below that of its event."""
    noise, steps = training_bugs.SHUFFLED["noise"], int(training_bugs.SHUFFLED["steps"])
    truth = AllocatedLosses(noise, steps).delta(np.zeros(1), False, "lower")[0]
    assert truth > training_bugs.shuffling_claim().delta_upper * 1.1
    assert account(shuffled_event(noise, steps)).delta(0.0) >= truth
