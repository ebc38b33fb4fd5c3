import pickle

import numpy as np
import pytest

from dpassay.attacks import features, learn_distinguisher
from dpassay.errors import InvalidArgument

N = 600


def play(draw, seed=0, n=N):
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, n)
    return [features(draw(w, rng)) for w in worlds], worlds


def auc(learned, draw):
    rows, worlds = play(draw, seed=1)
    score = learned(rows)
    inside, outside = score[worlds == 1], score[worlds == 0]
    wins = np.sign(inside[:, None] - outside).mean()
    return (1 + wins) / 2


SUBJECTS = {
    "shift": (lambda w, rng: w + rng.normal(), "histogram", 0.76),
    "scale": (lambda w, rng: (1 + 3 * w) * rng.normal(), "histogram", 0.80),
    "discrete": (lambda w, rng: int(rng.random() < (0.9 if w else 0.2)), "histogram", 0.85),
    "pair": (
        lambda w, rng: (int(rng.integers(2)), int(rng.random() < 0.2 + 0.7 * w)),
        "table",
        0.85,
    ),
    "vector": (lambda w, rng: rng.normal(size=6) + w * np.eye(6)[2] * 2, "logistic", 0.92),
    "variance of a vector": (lambda w, rng: rng.normal(size=4) * (1 + 2 * w), None, 0.95),
    "text": (lambda w, rng: "ab"[int(rng.random() < (0.8 if w else 0.3))], "histogram", 0.75),
    "length": (lambda w, rng: rng.normal(size=3 + w), None, 0.99),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_it_learns_what_there_is(name):
    draw, learner, expected = SUBJECTS[name]
    learned = learn_distinguisher(*play(draw))
    if learner:
        assert learned.name == learner
    assert auc(learned, draw) > expected - 0.06


@pytest.mark.parametrize("n", [60, 64, 120])
def test_a_few_trials_of_a_continuous_output_are_not_a_table(n):
    draw = SUBJECTS["vector"][0]
    learned = learn_distinguisher(*play(lambda w, rng: draw(3 * w, rng), n=n))
    assert learned.name in ("logistic", "boosting")
    assert auc(learned, lambda w, rng: draw(3 * w, rng)) > 0.95


def test_nothing_to_learn():
    learned = learn_distinguisher(*play(lambda w, rng: 4.0))
    assert learned.name == "constant"
    np.testing.assert_array_equal(learned([features(4.0), features(9.0)]), [0, 0])


def test_scores_are_reproducible_and_travel():
    rows, worlds = play(SUBJECTS["vector"][0])
    one, two = learn_distinguisher(rows, worlds), learn_distinguisher(rows, worlds)
    np.testing.assert_array_equal(one(rows), two(rows))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one))(rows), one(rows))


def test_strange_rows_are_scored():
    rows, worlds = play(SUBJECTS["vector"][0])
    learned = learn_distinguisher(rows, worlds)
    score = learned([features([np.nan] * 6), features([1.0]), features(np.arange(40.0)), rows[0]])
    assert not np.isnan(score).any()


def test_too_few_trials():
    rows, worlds = play(SUBJECTS["shift"][0], n=12)
    with pytest.raises(InvalidArgument, match="score="):
        learn_distinguisher(rows, worlds)
