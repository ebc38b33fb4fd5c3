"""Micali 2022, 4.4: three classes, with and without a reference class."""

import numpy as np
import pytest

from dpassay_reproduce.claims import FAILS, HOLDS, UNDECIDED
from dpassay_reproduce.thesis import multinomial
from dpassay_reproduce.thesis.entropy import LEARNERS, TO_SIX
from dpassay_reproduce.thesis.frame import Setting


@pytest.fixture(scope="module")
def literal():
    setting = Setting(literal=True, repetitions=3)
    return {name: figure(setting) for name, figure in multinomial.FIGURES.items()}


def test_figures_with_their_numbers_and_claims(literal):
    assert list(literal) == ["4.21", "4.22", "4.23", "4.24", "4.25"]
    for name, picture in literal.items():
        assert picture.name == name
        assert name in picture.title
        assert picture.claims
        for learner in LEARNERS:
            accuracy = picture.curves[learner]["accuracy"]
            assert accuracy.shape == (len(picture.curves[learner]["epsilon"]), 3)
            assert np.all((accuracy > 0.35) & (accuracy < 0.65))
    assert tuple(literal["4.25"].curves["DP-FW"]["epsilon"]) == TO_SIX


def test_the_document_learns_against_a_reference_class_and_we_do_not(literal):
    assert "a reference class" in literal["4.21"].caption
    for choice, scores in ((True, 2), (False, 3)):
        played, _ = multinomial._play(Setting(choice, 1), "no", (0.5, 1.0))
        assert played.weights["DP-FW"].shape == (scores, 2, 3)


def test_classes_apart_are_learned_and_overlap_costs_target_accuracy():
    """Without privacy .99 apart, .85 overlapping, a third where all are one."""
    setting = Setting(repetitions=3)
    apart, slight, complete = (
        multinomial._play(setting, overlap, (0.5, 6.0))[0].targets
        for overlap in multinomial.OVERLAPS
    )
    assert apart["without privacy"].mean() > 0.98
    assert apart["DP-FW"][:, 1].mean() > 0.95
    assert 0.8 < slight["without privacy"].mean() < 0.9
    assert complete["without privacy"].mean() == pytest.approx(1 / 3, abs=0.07)


def test_drawn_classifiers_can_be_drawn_again(literal):
    """The weights in the numbers classify the drawn points as the model did without privacy."""
    plane = literal["4.23"].curves["plane"]
    rows = np.stack([np.ones(300), plane["x"], plane["y"]])
    assert set(plane["weights"]) >= {"DP-FW, ε = 0.5", "DP-SGD, ε = 6", "without privacy"}
    scores = np.vstack([plane["weights"]["without privacy"] @ rows, np.zeros(300)])
    assert (scores.argmax(axis=0) == plane["class"]).mean() > 0.95


def test_a_rerun_draws_anew(literal):
    one, other = (literal[name].curves["DP-FW"]["accuracy"] for name in ("4.21", "4.22"))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(("drop", "verdict"), [(0.1, HOLDS), (0.02, FAILS), (0.15, UNDECIDED)])
def test_a_drop_of_ten_per_cent(drop, verdict):
    before = 0.6 + 0.001 * np.arange(5)
    assert multinomial._drop("it", before, before - drop).verdict == verdict
