"""Verdicts on canaries: scores keyed by canary, units, relations, and what is said to users."""

import numpy as np
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument, InvalidTarget
from extras import needs
from rates import assert_rate_at_most

SIZE, CANARIES = 64, 60
ZEROS = [np.zeros(SIZE) for _ in range(20)]


def noisy_sum(rows, noise, rng):
    return np.sum(list(rows), axis=0) + noise * rng.normal(size=SIZE)


def play(seed, *, noise, claim, n=CANARIES, **how):
    """One 'training' of vectors: their noisy sum, each canary scored by its own direction."""
    rng = np.random.default_rng([seed, 1])
    with da.canaries.audit(rng=seed) as session:
        canaries = da.canaries.for_rows(ZEROS, n=n, rng=seed, norm=1.0, public=np.zeros((1, SIZE)))
        total = noisy_sum(canaries.insert(ZEROS), noise, rng)
        verdict = canaries.judge(lambda x: x @ total, claim=claim, **how)
    assert session.verdicts == [verdict]
    return verdict


def test_a_leak_is_refuted_and_a_true_claim_stands():
    assert play(0, noise=1e-3, claim="1,1e-5").refuted
    verdict = play(0, noise=1.0, claim=da.GDP(1.0), delta=1e-5)
    assert not verdict.refuted
    assert verdict.bound.assumption == "none"
    assert verdict.kind == "one run"
    assert verdict.evidence.trials == CANARIES


def test_a_true_claim_is_refuted_as_seldom_as_stated():
    """At the exact null of Gaussian noise; a tenth of the noise is refuted each time."""
    claim = da.ApproxDP(da.GDP(0.3).epsilon(1e-5), 1e-5)
    refuted = sum(play(seed, noise=1 / 0.3, claim=claim).refuted for seed in range(60))
    assert_rate_at_most(refuted, 60, 0.05)
    assert all(play(seed, noise=0.1 / 0.3, claim=claim).refuted for seed in range(10))


def test_scores_are_keyed_by_canary_whatever_order_they_are_asked_in():
    with da.canaries.audit():
        canaries = da.canaries.for_rows(ZEROS, n=10, norm=1.0)
        own = np.asarray(canaries.made.parts)
        asked = []

        def score(x):
            asked.append(x)
            return x @ np.arange(SIZE)

        np.testing.assert_allclose(canaries.measure(score), own @ np.arange(SIZE))
        assert asked[0].shape == (10, SIZE)
        assert not np.array_equal(asked[0], own)  # another order than that of the coins
        single = canaries.measure(lambda x: np.mean(x @ np.arange(SIZE)))  # a mean: one by one
        np.testing.assert_allclose(single, own @ np.arange(SIZE))
        with pytest.raises(InvalidArgument, match=r"shape \(10, 2\) for 10 records"):
            canaries.measure(lambda x: np.zeros((10, 2)))


def test_scores_may_be_tensors_and_lost_ones_count():
    torch = needs("torch", "torch")
    data = torch.utils.data.TensorDataset(torch.zeros(9, 8), torch.arange(9) % 3)
    with da.canaries.audit():
        canaries = da.canaries.for_rows(data, n=8)
        canaries.insert(data)

        def score(x, y):
            assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
            made = x.sum(dim=1).requires_grad_() * 1.0
            return torch.where(torch.arange(8) < 3, torch.nan, made)

        verdict = canaries.judge(score, claim="1,1e-5")
    assert verdict.evidence.n_failed == 3
    assert np.isneginf(verdict.evidence.scores).sum() == 3


def test_a_baseline_is_taken_off():
    verdicts = []
    for baseline in (None, np.arange(30.0)):
        with da.canaries.audit(rng=1):
            canaries = da.canaries.for_rows(ZEROS, n=30)
            canaries.insert(ZEROS)
            coins = canaries._inserted.coins
            order = {tuple(row): i for i, row in enumerate(np.asarray(canaries.made.parts))}

            def score(x, order=order, coins=coins):
                ids = np.array([order[tuple(row)] for row in x])
                return ids + 0.5 * coins[ids]

            verdicts.append(canaries.judge(score, claim="1,1e-5", baseline=baseline))
            with pytest.raises(InvalidArgument, match="2 scores for 30 canaries"):
                canaries.judge(score, claim="1", baseline=[0.0, 1.0])
    assert not verdicts[0].refuted
    assert verdicts[1].refuted


def test_users_are_the_unit():
    rng = np.random.default_rng(0)
    with da.canaries.audit():
        canaries = da.canaries.for_rows(ZEROS, n=40, records_per_user=3, norm=1.0)
        total = noisy_sum(canaries.insert(ZEROS), 0.3, rng)
        verdict = canaries.judge(lambda x: x @ total, claim="1,1e-5")
    assert verdict.refuted
    assert verdict.evidence.trials == 40  # a coin per user, not per record
    facts = verdict.one_training
    assert (facts.unit, facts.records_per_unit) == ("user", 3)
    assert verdict.bound.assumption == "none"
    assert "user of 3 records" in verdict.attack
    # Only what assumes nothing is offered: records of a user share their coin.
    with pytest.raises(InvalidArgument, match="method='fdp' must be one of"):
        canaries.judge(lambda x: x @ total, claim="1,1e-5", method="fdp")


def test_the_claim_must_be_about_what_a_coin_changes():
    X, y = np.zeros((20, 10)), np.arange(20) % 2
    with da.canaries.audit():
        canaries = da.canaries.for_rows(X, y, n=10)
        canaries.insert((X, y))
        with pytest.raises(InvalidArgument, match="replaced by another record"):
            canaries.judge(lambda x, y: y, claim="1,1e-5")
        same = canaries.judge(
            lambda x, y: y, claim=da.ApproxDP(1.0, 1e-5, neighbouring="replace-one")
        )
        assert same.claim.epsilon(1e-5) == 1
        twice = canaries.judge(lambda x, y: y, claim=da.GDP(1.0))
        assert twice.claim == da.privacy.groups.replace_one_from_add_remove(da.GDP(1.0))
        assert "replacing a record" in same.one_training.notes[0]
    with da.canaries.audit():
        canaries = da.canaries.for_rows(ZEROS, n=10)
        canaries.insert(ZEROS)
        with pytest.raises(InvalidArgument, match="which is add-remove"):
            canaries.judge(lambda x: x[:, 0], claim=da.GDP(1.0, neighbouring="replace-one"))
        with pytest.raises(InvalidArgument, match="claim is missing"):
            canaries.judge(lambda x: x[:, 0])
    with da.canaries.audit(claim="1,1e-5"):  # known before the training, so it is said before it
        canaries = da.canaries.for_rows(X, y, n=10)
        with pytest.raises(InvalidArgument, match="replaced by another record"):
            canaries.insert((X, y))


def test_canaries_of_another_audit_are_not_judged():
    canaries = da.canaries.for_rows(ZEROS, n=10)
    with da.canaries.audit():
        canaries.insert(ZEROS)
    assert canaries.judge(lambda x: x[:, 0], claim="1,1e-5").trials == 1  # after it has ended
    with da.canaries.audit(), pytest.raises(InvalidTarget, match="never called in this audit"):
        canaries.judge(lambda x: x[:, 0], claim="1,1e-5")


def test_the_audit_may_state_claim_and_confidence():
    with da.canaries.audit(claim="0.5,1e-6", confidence=0.9):
        canaries = da.canaries.for_rows(ZEROS, n=10)
        canaries.insert(ZEROS)
        verdict = canaries.judge(lambda x: x[:, 0], claim="3,1e-5", confidence=0.99)
    assert verdict.claim == da.ApproxDP(0.5, 1e-6)
    assert verdict.confidence == verdict.bound.confidence == 0.9


# ------------------------------------------------------------------------------ what is said


def judge_nothing(canaries, dataset, reads, claim="2,1e-5"):
    """The verdict of a model that learned nothing, which read every record so many times."""
    data = canaries.insert(dataset)
    for _ in range(reads):
        data.__getitems__(range(len(data)))
    return canaries.judge(lambda *batch: np.arange(len(batch[0])) % 7, claim=claim)


def test_users_are_told_when_canaries_cannot_show_anything():
    records = [(np.random.default_rng(i).normal(size=9), i % 3) for i in range(400)]
    with da.canaries.audit():
        canaries = da.canaries.mislabelled(records, n=400)
        verdict = judge_nothing(canaries, records, reads=3)
    assert verdict.one_training.draws == 3
    said = (
        "These canaries (records with wrong labels) could hardly have shown anything: each was "
        "drawn about 3 times and they share their gradients with other records, so that the model "
        "does not learn them, with or without noise."
    )
    assert verdict.one_training.notes == (said,)
    assert verdict.next_step.startswith(f"{said} Use canaries with a direction")
    assert "probe.optimizer" in verdict.next_step


def test_nothing_of_the_kind_is_said_of_canaries_that_were_drawn_often():
    images = [(np.zeros((6, 6)), i % 3) for i in range(40)]
    with da.canaries.audit():
        verdict = judge_nothing(da.canaries.for_images(images, n=30), images, reads=20)
    assert verdict.one_training.notes == ()
    assert verdict.next_step.startswith("Insert more canaries")
    with da.canaries.audit():
        verdict = judge_nothing(da.canaries.for_images(images, n=30), images, 20, claim="8,1e-5")
    assert verdict.power.vacuous
    assert "insert 8,931 or more" in verdict.next_step
