import pytest

from dpassay.errors import InvalidArgument
from dpassay.zoo.catalogue import SUBJECTS
from dpassay.zoo.tour import find_subjects, walk


def judged(name, draws, **options):
    (one,) = walk([s for s in SUBJECTS if s.name == name], draws=draws, **options)
    return one


@pytest.mark.parametrize(
    "name",
    [
        "noisy histogram, inverted scale",
        "noisy histogram, occupied bins only",
        "sparse vector 5",
        "mean, true counts",
        "prefix sums",
    ],
)
def test_gross_bugs_are_caught_at_one_in_a_million(name):
    one = judged(name, 60_000)
    assert one.outcome == "caught", str(one.verdict)


@pytest.mark.parametrize("name", ["laplace", "noisy argmax, Laplace", "mean"])
def test_honest_ones_are_let_through(name):
    one = judged(name, 60_000)
    assert one.outcome == "let through", str(one.verdict)
    # A bound above the truth would be wrong with probability 1e-6 at most.
    assert one.verdict.bound.epsilon <= one.subject.epsilon_worst


def test_the_bound_is_below_the_truth_and_comes_near_it():
    one = judged("noisy max, Laplace", 400_000, confidence=0.95)
    assert 0.12 < one.verdict.bound.epsilon < 0.25


def test_subjects_are_found_by_parts_of_their_names():
    assert find_subjects() == SUBJECTS
    assert all("sparse" in s.name for s in find_subjects(["SPARSE"]))
    with pytest.raises(InvalidArgument, match="only='unicorn' is in no name"):
        find_subjects(["unicorn"])
