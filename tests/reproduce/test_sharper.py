"""The optimal number of steps, table 3.2 and the sparse problem."""

import numpy as np
import pytest

from dpassay.attacks.counters import share_in_lower_half, sorted_half_accuracy
from dpassay_reproduce.thesis import sharper
from dpassay_reproduce.thesis.frame import Setting


def test_equal_losses_are_no_attack():
    """They are, if members are counted first: a model of zeros would be attacked with success."""
    assert sorted_half_accuracy(np.zeros(7), np.zeros(7)) == 0.5
    assert share_in_lower_half(np.zeros((2, 8))) == pytest.approx(0.5)
    assert sorted_half_accuracy([0, 1, 1, 1], [1, 1, 2, 2]) == pytest.approx((1 + 3 * 3 / 5) / 4)


def test_rate_at_low_false_alarms():
    losses = np.concatenate([[0.0, 0.5, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0]])
    assert sharper.rate_at_low(losses, 0.01) == 0.5
    assert sharper.rate_at_low(losses[::-1], 0.01) == 0.0


def test_the_optimal_number_of_steps_grows_as_its_rate():
    """As (N epsilon)^(2/3): 8 times the records, 4 times the steps."""
    few, many = (sharper.plan_steps(1.0, n).steps for n in (10_000, 80_000))
    assert many / few == pytest.approx(4, rel=0.05)


def test_table_3_2():
    one, two = (sharper.rates_of_table_3_2(1000, p) for p in (10, 1000))
    assert two["DP-SGD"] / one["DP-SGD"] == pytest.approx(10, rel=0.1)
    assert two["DP-FW"] / one["DP-FW"] == pytest.approx(np.log(2000) / np.log(20))


def test_the_figure_of_steps():
    picture = sharper.figure_steps(Setting(repetitions=3))
    assert [c.verdict in ("holds", "fails", "not decided") for c in picture.claims] == [True] * 3
    assert picture.facts["optimal T at 1"] == sharper.plan_steps(1.0, 1000).steps
    assert 0.45 < picture.facts["without privacy, accuracy"] < 0.6


def test_risks_with_the_optimal_steps_are_smaller():
    found = sharper.measure_risks(Setting(repetitions=4), 1000, 8)
    assert found["DP-FW, optimal T"].mean() < found["DP-FW"].mean() < found["DP-SGD"].mean()


def test_the_sparse_problem():
    picture = sharper.figure_sparse(Setting(repetitions=3), 600, 4000)
    assert picture.facts["attack at none"] > 0.55
    assert abs(picture.facts["attack at 1"] - 0.5) < 0.05


def test_only_a_factor_n_explains_figure_4_23():
    picture = sharper.figure_noise(Setting())
    facts = picture.facts
    assert picture.claims[0].verdict == "fails"
    for learner in ("DP-FW", "DP-SGD"):
        assert facts[f"{learner}, as printed, ε = 6"] < 0.6
        assert facts[f"{learner}, a sixteenth, ε = 6"] < 0.7
        assert facts[f"{learner}, for a sum of N losses, ε = 6"] > 0.8
