import pytest

from dpassay.privacy import account, dp_sgd_event

TARGET = "--epsilon 2 --delta 1e-5 --sampling-rate .01 --steps 1000"


@pytest.mark.golden
def test_dp_sgd(dpassay):
    """Issue 2: 0.9591; and never above the target by the same accountant."""
    data = dpassay(f"calibrate dp-sgd {TARGET} --json").data
    noise = data["noise_multiplier"]
    assert noise == pytest.approx(0.9591, abs=5e-5)
    assert account(dp_sgd_event(noise, 0.01, 1000)).epsilon(1e-5) <= 2
    assert data["epsilon"] <= 2
    assert data["target"] == {"epsilon": 2, "delta": 1e-5}
    assert data["kind"] == "upper bound"


@pytest.mark.golden
def test_gaussian(dpassay):
    """Computed apart from this code: mu = .2367044 for (1, 1e-6)."""
    one = dpassay("calibrate gaussian --epsilon 1 --delta 1e-6 --json").data["noise_multiplier"]
    assert 1 / one == pytest.approx(0.2367044, abs=1e-7)
    four = dpassay("calibrate gaussian --epsilon 1 --delta 1e-6 --count 4 --json").data
    assert four["noise_multiplier"] == pytest.approx(2 * one, rel=1e-9)


def test_laplace_is_one_over_epsilon(dpassay):
    data = dpassay("calibrate laplace --epsilon 2 --count 3 --json").data
    assert data["noise_multiplier"] == pytest.approx(1.5, rel=1e-9)
    relaxed = dpassay("calibrate laplace --epsilon 2 --count 30 --delta 1e-6 --json").data
    assert relaxed["noise_multiplier"] < 15  # composition pays once delta is allowed


def test_another_method_needs_more_noise(dpassay):
    data = dpassay(f"calibrate dp-sgd {TARGET} --method rdp --json").data
    assert data["method"] == "rdp"
    assert data["noise_multiplier"] > 0.96


def test_the_answer_in_words(dpassay):
    words = dpassay("calibrate laplace --epsilon 2").words
    assert "A noise multiplier of 0.5 is enough for (2, 0)-DP" in words
    assert "one record added or removed" in words


def test_a_target_that_cannot_be_met(dpassay):
    result = dpassay("calibrate laplace --epsilon 0")
    assert result.code == 2
    assert "no noise up to 1e12" in result.err


def test_batches_and_epochs_are_rate_and_steps(dpassay):
    """15 epochs of 60 000 records in batches of 256 are 3515.6 steps, and 3516 have their price."""
    sizes = "--batch-size 256 --n 60000"
    whole = dpassay(
        f"account dp-sgd --noise-multiplier 1.1 {sizes} --epochs 15 --delta 1e-5 --json"
    )
    event = dp_sgd_event(1.1, 256 / 60_000, 3516)
    assert whole.data["event"] == repr(event)
    by_rate = "--sampling-rate .01 --epochs 10"
    one, other = (
        dpassay(f"calibrate dp-sgd --epsilon 2 --delta 1e-5 {given} --json").data
        for given in (by_rate, "--sampling-rate .01 --steps 1000")
    )
    assert one == other


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("--steps 5", "pass --sampling-rate, or both --batch-size and --n"),
        ("--batch-size 5 --steps 5", "pass --sampling-rate, or both --batch-size and --n"),
        ("--batch-size 5 --n 50 --sampling-rate .1 --steps 5", "pass --sampling-rate, or both"),
        ("--batch-size 5 --n 3 --steps 5", "batch_size=5 must lie in [1, 3]"),
        ("--sampling-rate .1", "steps=None and epochs=None: exactly one"),
        ("--sampling-rate .1 --steps 5 --epochs 1", "steps=5 and epochs=1.0: exactly one"),
        ("--sampling-rate .1 --epochs -1", "epochs=-1 must lie in (0, inf)"),
        ("--sampling-rate 1e-300 --epochs 1", "Pass --steps instead."),
    ],
)
def test_a_schedule_is_given_in_one_way(dpassay, given, says):
    result = dpassay(f"account dp-sgd --noise-multiplier 1 --delta 1e-5 {given}")
    assert result.code == 2
    assert says in result.err


def test_allocation_and_bandmf(dpassay):
    data = dpassay("calibrate allocation --epsilon 2 --delta 1e-5 --steps 8 --json").data
    assert 1.99 <= data["epsilon"] <= 2
    options = "--advantage .2 --sampling-rate .01 --steps 1000 --bands 5 --json"
    data = dpassay(f"calibrate bandmf {options}").data
    assert 0.199 <= data["reached"] <= 0.2
