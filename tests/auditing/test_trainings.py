"""What a training states of itself, and the curve that is named to claim instead of a pair."""

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import from_estimator, judge, parse_claim
from dpassay.auditing.next_steps import advise_curve
from dpassay.auditing.trainings import listen, text_of
from dpassay.learn import PrivateLogisticRegression, PrivateRidge
from dpassay.privacy import events

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) / 3
Y = (X[:, 0] > 0).astype(int)
PAIR = ((X, Y), (X[:-1], Y[:-1]))
DP_SGD = "dp-sgd:noise_multiplier=1.5,sampling_rate=0.25,steps=8"


def gaussian_ridge(data, rng):
    """What is published is no model: nobody sees the event but who listens."""
    model = PrivateRidge(
        epsilon=1.0,
        delta=1e-5,
        data_norm=3.0,
        target_bound=1.0,
        n_records=40,
        random_state=int(rng.integers(2**31)),
    )
    return model.fit(*data).coef_


# --- Texts of events.


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (events.dp_sgd_event(1.5, 0.25, 8), DP_SGD),
        (events.dp_sgd_event(2.0, 1.0, 16), "gdp:2.0"),
        (events.Gaussian(4.0), "gdp:0.25"),
        (events.Sequence((events.Gaussian(2.0), events.Pure(1.0))), ""),
        (events.Gaussian(4.0, "replace-one"), ""),
    ],
    ids=repr,
)
def test_the_text_is_that_of_the_events_curve(event, text):
    assert text_of(event, "add-remove") == text
    if text:
        assert parse_claim(text).delta(0.7) == pytest.approx(da.account(event).delta(0.7), rel=1e-3)


# --- Listening.


def test_learners_are_heard_whatever_they_publish():
    event = listen(lambda: gaussian_ridge(PAIR[0], np.random.default_rng(0)))
    assert event is not None
    assert float(da.account(event).epsilon(1e-5)) <= 1.0


def test_two_fits_state_nothing_together():
    rng = np.random.default_rng(0)
    assert listen(lambda: [gaussian_ridge(PAIR[0], rng) for _ in range(2)]) is None


def test_nobody_is_heard_where_nobody_speaks():
    assert listen(lambda: 3.0) is None


def test_accountants_of_opacus_are_heard():
    opacus = pytest.importorskip("opacus")
    steps = [(1.5, 0.25)] * 8

    def train(told):
        accountant = opacus.accountants.RDPAccountant()
        for noise, rate in told:
            accountant.step(noise_multiplier=noise, sample_rate=rate)

    assert listen(lambda: train(steps)) == events.dp_sgd_event(1.5, 0.25, 8)
    assert listen(lambda: train([*steps, (1.0, 0.25)])) is None
    before = opacus.accountants.RDPAccountant.step
    listen(lambda: train(steps))
    assert opacus.accountants.RDPAccountant.step is before


# --- What is said.


def test_a_pair_is_told_what_its_curve_would_gain():
    claim = da.ApproxDP(float(parse_claim(DP_SGD).epsilon(1e-5)), 1e-5)
    advice = advise_curve(claim, DP_SGD, 0.95)
    assert f"state its curve, --claim {DP_SGD}. Had it half the noise" in advice
    few, many = (int(part.split()[0]) for part in advice.split("about ")[1:])
    assert 5 < few < many / 10


def test_a_claim_below_what_the_training_states_is_told_so():
    advice = advise_curve(da.ApproxDP(0.5, 1e-5), DP_SGD, 0.95)
    assert advice.startswith("The training itself states epsilon")
    assert "more than the claimed 0.5" in advice


def test_an_audit_of_a_pair_names_the_curve_and_the_log_remembers_it(tmp_path):
    solver = PrivateLogisticRegression(
        epsilon=4.0, delta=1e-5, data_norm=2.0, n_records=40, classes=[0, 1], solver="gd"
    )
    options = {"claim": (4.0, 1e-5), "trials": 100, "max_failed_share": 0.5}
    log = tmp_path / "a.db"
    verdict = da.audit(from_estimator(solver), PAIR, **options, store=log)
    assert not verdict.refuted
    assert verdict.curve.startswith("gdp:")
    assert f"--claim {verdict.curve}" in verdict.next_step
    assert float(parse_claim(verdict.curve).epsilon(1e-5)) <= 4.0 + 1e-6
    judged = judge(log)
    assert (judged.curve, judged.next_step) == (verdict.curve, verdict.next_step)
