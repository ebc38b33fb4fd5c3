import numpy as np
import pytest

from dpassay.zoo.training_bugs import CASES
from dpassay_reproduce import debugging


@pytest.mark.golden
def test_the_papers_counts():
    # Tramèr et al. 2022: "more than 2.79" at 1 - 1e-10, from 4922 and 174 of 100 000.
    bound = debugging.paper_bound()
    assert bound.epsilon == pytest.approx(2.7950, abs=5e-5)
    assert bound.details["fnr_upper"] == pytest.approx(0.955082, abs=1e-6)
    assert bound.details["fpr_upper"] == pytest.approx(0.0027445, abs=1e-7)


def test_the_least_number_of_trainings():
    right = (np.exp(0.21) + 1e-5) / (1 + np.exp(0.21))
    assert right**23 > 1e-6 > right**24
    assert debugging.least_trainings() == 24


def test_thresholds_are_picked_with_the_fewest_errors():
    assert debugging.pick_threshold(np.array([3.0, 4.0]), np.array([0.0, 1.0])) == 2.0
    assert debugging.pick_threshold(np.array([1.0, 4.0, 5.0]), np.array([0.0, 2.0])) in (0.5, 3.0)


def test_the_figure_of_losses():
    picture = debugging.losses_picture(models=50)
    facts = picture.facts
    assert facts["broken_bound"] == facts["broken_ceiling"] > 0
    assert facts["fixed_bound"] == 0
    assert "2.7950" in picture.caption
    assert np.all(picture.curves["broken_in"] < picture.curves["broken_cut"])


def test_an_audit_that_is_kept_is_not_played_again(tmp_path):
    case = CASES["private n"]
    options = {"broken": True, "trials": 40, "store": tmp_path / "trials.db"}
    first = debugging.verdict(case, **options)
    again = debugging.verdict(case, **options)
    assert first.refuted
    assert (first.trials, first.bound) == (again.trials, again.bound)
    assert first.trials <= 36
