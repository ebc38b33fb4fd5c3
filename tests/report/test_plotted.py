import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from dpassay.bounds import lower_bound_from_counts, one_run
from dpassay.privacy import GDP, ApproxDP, PureDP
from dpassay.report import plotted
from dpassay.types import Evidence
from rates import assert_rate_at_most
from report.verdicts import CASES, verdict

N, SHIFT, CONFIDENCE, RUNS = 60, 1.0, 0.8, 400


def evidence_of(scores_in, scores_out):
    worlds = np.repeat([1, 0], [len(scores_in), len(scores_out)])
    return Evidence(worlds, np.concatenate([scores_in, scores_out]))


def n_missed():
    """How often the band does not hold the true ROC curve of two normal laws."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(RUNS):
        inside, outside = rng.normal(SHIFT, 1, N), rng.normal(0, 1, N)
        band = plotted.roc_band(evidence_of(inside, outside), CONFIDENCE)
        fpr, low, high = (np.array(band[k]) for k in ("fpr", "tpr_lower", "tpr_upper"))
        truth = special.ndtr(special.ndtri(fpr) + SHIFT)
        missed += bool(np.any(low > truth + 1e-6) or np.any(high < truth - 1e-6))
    return missed


def test_the_band_holds_everywhere_at_once():
    assert_rate_at_most(n_missed(), RUNS, 1 - CONFIDENCE)


def test_a_band_that_does_not_pay_for_thresholds_is_caught(monkeypatch):
    """The limits of one threshold at a time, drawn at all of them."""
    monkeypatch.setattr(plotted, "common_level", lambda kind, n_in, n_out, alpha: alpha)
    with pytest.raises(AssertionError):
        assert_rate_at_most(n_missed(), RUNS, 1 - CONFIDENCE)


scores = st.lists(
    st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, -math.inf]), min_size=1, max_size=30
)


@given(scores, scores)
def test_any_scores_can_be_drawn(inside, outside):
    seen = evidence_of(np.array(inside), np.array(outside))
    curve, band = plotted.roc(seen), plotted.roc_band(seen, 0.9)
    fpr, tpr = np.array(curve["fpr"]), np.array(curve["tpr"])
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(fpr) >= 0)
    assert np.all(np.diff(tpr) >= 0)
    assert np.all(np.array(band["tpr_lower"]) <= np.array(band["tpr_upper"]) + 1e-12)
    found = plotted.histogram(seen)
    for name, side in (("in", inside), ("out", outside)):
        apart = found[f"n_{name}_lowest"] + found[f"n_{name}_highest"]
        assert sum(found[f"n_{name}"]) + apart == len(side)
    assert np.all(np.diff(found["edges"]) > 0)
    assert np.all(np.isfinite(plotted.thresholds(seen, 1e-5, 0.9)["epsilon"]))


def test_the_roc_curve_goes_through_its_points():
    curve = plotted.roc(evidence_of([3.0, 2.0, 2.0, 0.0], [2.0, 1.0, -math.inf, -math.inf]))
    assert curve == {
        "fpr": [0, 0, 0.25, 0.5, 0.5, 1],
        "tpr": [0, 0.25, 0.75, 0.75, 1, 1],
    }


def test_a_million_trials_are_thinned():
    rng = np.random.default_rng(0)
    curve = plotted.roc(evidence_of(rng.normal(1, 1, 500_000), rng.normal(0, 1, 500_000)))
    fpr, tpr = np.array(curve["fpr"]), np.array(curve["tpr"])
    assert len(fpr) <= 2 * plotted.POINTS + 2
    np.testing.assert_allclose(tpr, special.ndtr(special.ndtri(fpr) + 1), atol=0.005)
    assert fpr[1] < 1e-4  # dense where it matters


def test_a_threshold_by_itself_has_the_bound_of_its_counts():
    """Either way round."""
    rng = np.random.default_rng(3)
    inside, outside = rng.normal(2, 1, 200), rng.normal(0, 1, 300)
    for sign in (1, -1):
        found = plotted.thresholds(evidence_of(sign * inside, sign * outside), 1e-5, 0.95)
        for i in range(40, 160, 20):
            cut = found["threshold"][i]
            called = [np.sum(sign * x >= cut) for x in (inside, outside)]
            tp, fp = (int(k) for k in called)
            counts = {"tp": tp, "fn": 200 - tp, "fp": fp, "tn": 300 - fp}
            opposite = {"tp": 200 - tp, "fn": tp, "fp": 300 - fp, "tn": fp}
            best = max(lower_bound_from_counts(**c, delta=1e-5).epsilon for c in (counts, opposite))
            assert found["epsilon"][i] == pytest.approx(best, rel=1e-5, abs=1e-9)


def test_a_number_of_guesses_by_itself_has_its_bound():
    found = CASES["one run"]()
    shown = plotted.guesses(found.evidence, 1e-5, 0.95)
    at = shown["guesses"].index(200)
    members = found.evidence.worlds == 1
    bound = one_run(found.evidence.scores, members, delta=1e-5, guesses=200)
    assert shown["epsilon"][at] == pytest.approx(bound.epsilon, rel=1e-5)


def test_the_path_keeps_its_height_and_its_end():
    path = np.random.default_rng(1).normal(size=5000).cumsum()
    shown = plotted.wealth(verdict([0.0], [1.0], path=path))
    assert max(shown["log_wealth"]) == pytest.approx(path.max(), rel=1e-5)
    assert (shown["trial"][0], shown["trial"][-1]) == (0, 5000)
    assert shown["log_wealth"][-1] == pytest.approx(path[-1], rel=1e-5)
    assert len(path) > len(shown["trial"])
    assert shown["needed"] == 3.0


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(2.0, 1e-3), GDP(1.0)])
def test_what_is_allowed_is_the_claim(claim):
    region = {name: np.array(values) for name, values in plotted.allowed_region(claim).items()}
    np.testing.assert_allclose(1 - region["tpr_most"], claim.tradeoff(region["fpr"]), atol=2e-5)
    # The opposite guess of an attack at the lower edge lies at the upper one.
    mirrored = np.interp(1 - region["fpr"], region["fpr"], region["tpr_most"])
    np.testing.assert_allclose(1 - mirrored, region["tpr_least"], atol=2e-3)
    profile = plotted.privacy_profile(claim)
    np.testing.assert_allclose(profile["delta"], claim.delta(profile["epsilon"]), atol=1e-5)
    assert profile["delta"][0] == pytest.approx(claim.delta(0.0), rel=1e-5)


def test_edges_are_round_numbers():
    edges = np.array(plotted.histogram(evidence_of([0.123456789, 3.987654321], [1.5]))["edges"])
    np.testing.assert_allclose(edges, np.round(edges, 1), atol=1e-12)
