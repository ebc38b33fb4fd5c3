"""What an audit could have seen: separations allowed, vacuous audits, next steps."""

import math

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import judge
from dpassay.auditing.power import auc_allowed, least_trials
from dpassay.errors import VacuousAudit

PAIR = ([1, 2, 3], [1, 2])


def count(scale):
    return lambda data, rng: len(data) + rng.laplace(scale=scale)


@pytest.mark.parametrize(
    ("claim", "area", "variation"),
    [
        (da.PureDP(0.1), 0.52498, 0.0500),
        (da.PureDP(1.0), 0.73106, 0.4621),
        (da.PureDP(2.0), 0.88080, 0.7616),
        (da.PureDP(4.0), 0.98201, 0.9640),
        (da.ApproxDP(1.0, 0.1), 0.78216, None),
        (da.GDP(1.0), 0.76025, 0.3829),
    ],
)
def test_the_most_that_a_claim_allows(claim, area, variation):
    assert auc_allowed(claim) == pytest.approx(area, abs=6e-6)
    if variation is not None:
        assert claim.delta(0.0) == pytest.approx(variation, abs=6e-5)
    fpr = np.linspace(0, 1, 200_001)
    assert auc_allowed(claim) == pytest.approx(1 - np.trapezoid(claim.tradeoff(fpr), fpr), abs=1e-6)


def test_other_curves_are_bounded_from_above():
    claim = da.ZCDP(0.5)
    fpr = np.linspace(0, 1, 20_001)
    exact = 1 - np.trapezoid(claim.tradeoff(fpr), fpr)
    assert exact <= auc_allowed(claim) <= exact + 1e-3


@pytest.mark.parametrize(("epsilon", "trials"), [(0.1, 5), (1.0, 10), (2.0, 24), (4.0, 166)])
def test_least_trials(epsilon, trials):
    assert least_trials(da.PureDP(epsilon), 0.05) == trials
    assert least_trials(da.PureDP(800.0), 0.05) == math.inf


def perfect(data, rng):
    return (len(data) == 3) + 1e-9 * rng.random()


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("claim", [da.PureDP(2.0), da.ZCDP(0.5)])
def test_vacuous_audits_are_those_that_a_perfect_attack_does_not_win(claim, sequential):
    options = {"claim": claim, "score": float, "sequential": sequential}
    with pytest.warns(VacuousAudit, match="this audit is vacuous.*Play at least") as said:
        verdict = da.audit(perfect, PAIR, trials=8, **options)
    assert not verdict.refuted
    assert verdict.power.vacuous
    assert "vacuous" in str(verdict)
    would_do = int(str(said[0].message).split("at least ")[1].split()[0])
    enough = da.audit(perfect, PAIR, trials=would_do + 10, **options)
    assert enough.refuted
    assert not enough.power.vacuous


def test_a_vacuous_claim():
    with pytest.warns(VacuousAudit, match="No number of trials would do"):
        verdict = da.audit(count(1.0), PAIR, claim=da.PureDP(800.0), score=float, trials=30)
    assert verdict.power.vacuous


def test_the_same_output_in_both_worlds_shows_nothing():
    verdict = da.audit(lambda data, rng: 5.0, PAIR, claim=da.PureDP(1.0), score=float, trials=100)
    assert not verdict.refuted
    assert verdict.power.vacuous
    assert verdict.power.auc == 0.5


def test_power_is_set_and_printed(tmp_path):
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 400}
    log = tmp_path / "run.db"
    verdict = da.audit(count(1.0), PAIR, **options, store=log)
    assert verdict.power.auc_allowed == pytest.approx(0.73106, abs=1e-5)
    assert verdict.power.ceiling == verdict.bound.ceiling
    # Laplace noise of scale 1, shifted by 1: P(in > out) = 1 - (1 + 1/2) e^-1 / 2.
    exact = 1 - 0.75 * math.exp(-1)
    assert verdict.power.auc_lower < exact < verdict.power.auc_upper
    assert f"AUC {verdict.power.auc:.3g} where the claim allows 0.731" in str(verdict)
    again = judge(log)
    assert (again.power, again.next_step) == (verdict.power, verdict.next_step)


@pytest.mark.parametrize(
    ("mechanism", "claim", "trials", "step"),
    [
        (count(0.1), da.PureDP(1.0), 400, "Look for the fault"),
        (
            count(1.0),
            da.PureDP(3.0),
            20,
            "Play more trials, 154 at least, or state a smaller claim",
        ),
        (lambda data, rng: 5.0, da.PureDP(1.0), 100, "Every output was the same, in both worlds"),
        (count(1e6), da.PureDP(1.0), 200, "The attack saw nothing"),
        (count(2.5), da.PureDP(5.0), 1500, "The attack used"),
        (count(1.0), da.ApproxDP(1.0, 1e-5), 300, "If an accountant gave this pair"),
        (count(1.0), da.PureDP(1.0), 200, "Play more trials, 800 for example"),
    ],
)
def test_next_steps(mechanism, claim, trials, step):
    options = {"claim": claim, "score": float, "trials": trials, "rng": 2}
    assert da.audit(mechanism, PAIR, **options).next_step.startswith(step)
