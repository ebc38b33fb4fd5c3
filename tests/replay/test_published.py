"""Noisy values that the release does not show as they are: no refutation, and no false price."""

import math

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing.checking_published import examine, find_shown
from dpassay.auditing.replayed import audit_by_replay
from dpassay.errors import AuditStopped
from dpassay.replay.likelihood import NoLikelihood
from dpassay.replay.playing import Player

DATA = np.random.default_rng(0).random(20)
ONE_MORE = np.append(DATA, 0.9)


def total(x):
    return np.clip(x, 0, 1).sum()


def counts(x):
    return np.histogram(np.clip(x, 0, 0.999), bins=4, range=(0, 1))[0].astype(float)


def parts(x):
    """Four sums; a new record is in the first of them alone."""
    share = np.arange(len(x)) % 4
    return np.array([np.clip(x[share == i], 0, 1).sum() for i in range(4)])


def vectorized(x, rng):
    return np.vectorize(lambda count: count + rng.laplace())(counts(x))


def vectorized_and_rounded(x, rng):
    return np.vectorize(lambda count: float(round(count + rng.laplace())))(counts(x))


def one_too_many(x, rng):
    noisy = [total(x) + rng.laplace() for _ in range(2)]
    return float(noisy[0])


def rounded(x, rng):
    return round(total(x) + rng.laplace(), 1)


def clipped(x, rng):
    return float(np.clip(total(x) + rng.laplace(), 0, 20))


def folded(x, rng):
    return abs(total(x) + rng.laplace())


def in_order(x, rng):
    return np.sort(counts(x) + rng.laplace(size=4))


def largest_first(x, rng):
    noisy = counts(x) + rng.laplace(size=4)
    return sorted(noisy.tolist(), reverse=True)


def shuffled(x, rng):
    return rng.permutation(counts(x) + rng.laplace(size=4))


def the_three_largest(x, rng):
    return sorted((counts(x) + rng.laplace(size=4)).tolist())[1:]


def exact_in_order(x):
    made = [da.mechanisms.laplace(c, sensitivity=1, epsilon=1.0).value for c in counts(x)]
    return sorted(float(value) for value in made)


def as_text(x, rng):
    return f"{total(x) + rng.laplace():.2f}"


def shares(x, rng):
    return sum(float(part + rng.normal(0, 0.5)) for part in parts(x))


def shares_at_once(x, rng):
    return (parts(x) + rng.normal(0, 0.5, 4)).sum()


def weighted_shares(x, rng):
    a, b = (part + rng.normal() for part in parts(x)[:2])
    return a + 2 * b


def training_by_shares(x, rng):
    w = 0.0
    for _ in range(3):
        w += sum(float(part + rng.normal(0, 0.5)) for part in parts(x - w)) / 50
    return w


def half_of_a_choice(x, rng):
    weights = np.exp(counts(x) / 2)
    return int(rng.choice(4, p=weights / weights.sum()) > 1)


def half_of_a_winner(x, rng):
    return int(np.argmax(counts(x) + rng.gumbel(size=4)) > 1)


def sum_of_answers(x, rng):
    return int((rng.random(len(x)) < np.where(x > 0.5, 0.7, 0.3)).sum())


HIDDEN = [
    vectorized, vectorized_and_rounded, one_too_many, rounded, clipped, folded, as_text,
    in_order, largest_first, shuffled, the_three_largest, exact_in_order, shares,
    shares_at_once, weighted_shares, training_by_shares, half_of_a_choice, half_of_a_winner,
]  # fmt: skip


@pytest.mark.parametrize("mechanism", HIDDEN, ids=lambda f: f.__name__)
def test_what_is_not_published_as_it_is_refutes_nothing(mechanism):
    with pytest.raises(
        AuditStopped,
        match=r"not published|which value is which|never released|not seen in the release",
    ):
        audit_by_replay(mechanism, (DATA, ONE_MORE), claim="0.01", trials=5)


def test_answers_of_which_a_sum_is_published_refute_nothing():
    other = np.where(np.arange(20) == 3, 1 - np.rint(DATA), DATA)
    claim = da.PureDP(0.01, neighbouring="replace-one")
    with pytest.raises(AuditStopped, match="not published as they are"):
        audit_by_replay(sum_of_answers, (DATA, other), claim=claim, trials=5)


def as_they_are(x, rng):
    return {"counts": list(counts(x) + rng.laplace(size=4)), "mean": (total(x) + rng.laplace()) / 9}


def winner(x, rng):
    return int(np.argmax(counts(x) + rng.gumbel(scale=0.1, size=4)))


def descent(x, rng):
    w = np.zeros(3)
    for _ in range(4):
        batch = x[rng.random(len(x)) < 0.5]
        gradients = np.tanh(batch[:, None] - w)
        w = w + (gradients.sum(axis=0) + rng.normal(0, 0.2, 3)) / 30
    return w


def two_layers(x, rng):
    w, b = np.zeros(2), 0.0
    for _ in range(3):
        moved = np.tanh(x[:, None] - w - b)
        w = w + (moved.sum(axis=0) + rng.normal(0, 0.1, 2)) / 40
        b = b + float(moved[:, 0].sum() + rng.normal(0, 0.1)) / 40
    return {"w": w, "b": b}


@pytest.mark.parametrize("mechanism", [as_they_are, winner, descent, two_layers])
def test_what_is_published_or_a_step_of_a_training_refutes(mechanism):
    assert audit_by_replay(mechanism, (DATA, ONE_MORE), claim="0.01", trials=30).refuted


def test_a_scaled_value_is_published_and_a_multiple_of_zero_is_not():
    for factor, seen in ((0.25, {0}), (0.0, set())):
        player = Player(lambda x, rng, factor=factor: factor * (total(x) + rng.laplace()), 0)
        assert find_shown(player.record(DATA, 20)) == seen


def test_a_value_that_is_clipped_far_away_alone_is_noticed():
    player = Player(lambda x, rng: np.minimum(total(x) + rng.laplace(), 25.0), 0)
    first = player.record(DATA, 20)
    assert find_shown(first) == {0}
    with pytest.raises(NoLikelihood, match="not published"):
        examine(player, first)
    with pytest.raises(AuditStopped, match="more than one value"):  # released, and compared
        audit_by_replay(lambda x, rng: min(total(x) + rng.laplace(), 25.0), (DATA, ONE_MORE),
                        claim="0.01", trials=5)  # fmt: skip


@pytest.mark.parametrize("mechanism", [vectorized, vectorized_and_rounded, one_too_many])
def test_values_that_are_dropped_cost_nothing(mechanism):
    found = da.check(mechanism, DATA, "1", bounds=(0, 1))
    assert found.findings == ()
    assert found.epsilon_seen == pytest.approx(1.0)
    assert da.check(mechanism, DATA, "0.9", bounds=(0, 1)).findings[0].rule == "DPA202"


@pytest.mark.parametrize("mechanism", [shares, shares_at_once, training_by_shares])
def test_noise_in_shares_is_undecided(mechanism):
    claim = da.GDP(math.sqrt(3.0)) if mechanism is training_by_shares else da.GDP(1.0)
    found = da.check(mechanism, DATA, claim, bounds=(0, 1), limit=4)
    assert found.findings == ()
    assert found.decided or "not published as they are" in found.undecided[0].message


# Noise that is drawn again, and batches that are skipped


def redrawn(x, rng):
    noisy = -1.0
    while noisy < 0:
        noisy = total(x) + rng.laplace()
    return noisy


def stopped(x, rng):
    shown = []
    for limit in range(5):
        shown.append((x > limit / 5).sum() + rng.laplace(scale=5))
        if shown[-1] < 3:
            break
    return shown


def test_noise_that_is_drawn_until_it_is_accepted_is_undecided():
    found = da.check(redrawn, DATA, "1", bounds=(0, 1), limit=4)
    assert found.findings == ()
    assert not found.decided
    assert "drawn again" in found.undecided[0].message
    assert da.check(stopped, DATA, "1", bounds=(0, 1), limit=4).decided


def batches(skip):
    def train(x, rng):
        w = 0.0
        for _ in range(10):
            batch = x[rng.random(len(x)) < 0.2]
            if skip and not len(batch):
                continue
            w -= (np.clip(w - batch, -1, 1).sum() + rng.normal(0, 2.0)) / 40
        return w

    return train


@pytest.mark.parametrize("claim", [da.dp_sgd_event(2.0, 0.2, 10), "3,1e-5"])
def test_noise_that_empty_batches_skip_is_found(claim):
    found = da.check(batches(True), DATA, claim, bounds=(0, 1))
    assert [finding.rule for finding in found.findings] == ["DPA101"]
    assert "empty batch" in found.findings[0].message
    assert found.findings[0].execution <= 20
    assert da.check(batches(False), DATA, claim, bounds=(0, 1)).findings == ()


def test_a_value_that_nobody_uses_does_not_hide_its_neighbour_on_the_line():
    def two(x, rng):
        kept, _ = total(x) + rng.normal(0, 0.5), total(x) + rng.normal(0, 0.1)
        return kept

    found = da.check(two, DATA, da.GDP(1.0), bounds=(0, 1))
    assert [finding.rule for finding in found.findings] == ["DPA202"]
    assert found.epsilon_seen == pytest.approx(da.GDP(2.0).epsilon(1e-5))
    assert da.check(two, DATA, da.GDP(2.0), bounds=(0, 1)).findings == ()


WEIGHTS = np.array([0.5, 0.3, 0.2])


def weighed(x, rng, scale):
    return float(WEIGHTS @ (total(x) + rng.normal(scale=scale, size=3)))


def averaged(x, rng, scale):
    shares = [total(x) + rng.normal(scale=scale) for _ in range(3)]
    return np.average(shares, weights=WEIGHTS)


@pytest.mark.parametrize("release", [weighed, averaged])
def test_weighted_shares_of_noise_are_not_held_against_their_sum(release):
    """The noise of the sum has deviation 0.616 of each: 1.63 keeps mu = 1, the parts cost 1.06."""
    found = da.check(lambda x, rng: release(x, rng, 1.63), DATA, da.GDP(1.0), bounds=(0, 1))
    assert found.findings == ()
    assert "not published as they are" in found.undecided[0].message


@pytest.mark.parametrize("rest", [0.0, 1.0])
def test_shares_that_are_released_themselves_are_priced(rest):
    def release(x, rng):
        shares = [total(x) + rng.normal(scale=0.5) for _ in range(2)]
        return shares[0] + 2 * shares[1], shares[0] * (2 + rest)

    found = da.check(release, DATA, da.GDP(1.0), bounds=(0, 1))
    assert [finding.rule for finding in found.findings] == ["DPA202"]
