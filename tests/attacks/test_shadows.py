from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dpassay.attacks import Outputs, Shadows, attack, log_odds, train_shadows
from dpassay.attacks.shadows import KEEP, as_losses, assign
from dpassay.errors import AuditStopped, InvalidArgument
from rates import assert_rate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
Y = (X[:, 0] + RNG.normal(size=120) > 0).astype(int)


class Memory:
    """Says 0.9 for the class of a record that it was trained on, 0.6 for class 0 of others."""

    classes_ = np.array([0, 1])

    def __init__(self, X, y):
        self.known = {row.tobytes(): label for row, label in zip(np.asarray(X), y, strict=True)}

    def predict_proba(self, X):
        p = [self.known.get(row.tobytes()) for row in np.asarray(X)]
        return np.array([[0.6, 0.4] if c is None else np.eye(2)[c] * 0.8 + 0.1 for c in p])


def remember(X, y, rng):
    return Memory(X, y)


def noisy(X, y, rng):
    return lambda X, y: rng.normal(size=len(y))


def fit(X, y, rng):
    return LogisticRegression().fit(X, y)


def test_halves_put_every_record_into_half_of_the_shadows():
    inside = assign(1000, 9, "halves", seed=3)
    assert inside.shape == (9, 1000)
    assert (inside[:8].sum(axis=0) == 4).all()
    assert (inside[0] + inside[1] == 1).all()
    assert_rate(int(inside[0].sum()), 1000, 0.5)
    assert_rate(int((inside[0] == inside[2]).sum()), 1000, 0.5)  # other pairs, other coins
    np.testing.assert_array_equal(inside[:4], assign(1000, 4, "halves", seed=3))
    assert abs(np.corrcoef(inside[:, :500].ravel(), inside[:, 500:].ravel())[0, 1]) < 0.1
    assert not np.array_equal(inside, assign(1000, 9, "halves", seed=4))


def test_disjoint_sets_share_no_record():
    """Seed 004, section 2.2.1: training and test sets of the shadows are disjoint."""
    inside = assign(103, 5, "disjoint", seed=0)
    assert set(np.unique(inside)) == {-1, 0, 1}
    assert ((inside >= 0).sum(axis=0) == 1).all()
    sizes = [(inside[i] == w).sum() for i in range(5) for w in (0, 1)]
    assert max(sizes) - min(sizes) <= 1


def test_shadows_know_their_own():
    shadows = train_shadows(remember, (X, Y), n_shadows=6)
    assert len(shadows) == 6
    np.testing.assert_array_equal(shadows.outputs.labels, Y)
    np.testing.assert_allclose(shadows.outputs.of_label[shadows.inside == 1], 0.9)
    expected = np.broadcast_to(np.where(Y == 0, 0.6, 0.4), (6, 120))[shadows.inside == 0]
    np.testing.assert_allclose(shadows.outputs.of_label[shadows.inside == 0], expected)


def test_observed_elsewhere_all_are_outside():
    shadows = train_shadows(remember, (X[:80], Y[:80]), n_shadows=4, observed=(X[80:], Y[80:]))
    assert shadows.inside.shape == (4, 40)
    assert not shadows.inside.any()
    assert not (shadows.outputs.of_label == 0.9).any()


@pytest.mark.parametrize("kind", [pd.DataFrame, sparse.csr_array])
def test_frames_and_sparse_records(kind):
    plain = train_shadows(fit, (X, Y), n_shadows=2)
    other = train_shadows(fit, (kind(X), Y), n_shadows=2)
    np.testing.assert_allclose(other.outputs.vectors, plain.outputs.vectors, atol=1e-6)


def test_losses_and_features_are_kept():
    features = lambda model, X, y: np.column_stack([np.asarray(X)[:, 0], y])  # noqa: E731
    shadows = train_shadows(noisy, (X, Y), n_shadows=3, features=features)
    assert shadows.outputs.losses.shape == (3, 120)
    np.testing.assert_array_equal(shadows.features[2, :, 1], Y)


def test_kept_shadows_are_not_trained_again_and_stale_ones_never_used(tmp_path):
    store = tmp_path / "shadows.db"
    calls, counter = [], str(tmp_path / "calls")

    def train(X, y, rng):
        with open(counter, "a") as file:
            file.write("trained\n")
        return Memory(X, y)

    def trained():
        return len(Path(counter).read_text().split()) if Path(counter).exists() else 0

    def played(**changed):
        before = trained()
        given = {"data": (X, Y), "n_shadows": 4} | changed
        shadows = train_shadows(train, **given, store=store)
        calls.append(trained() - before)
        return shadows

    first, again = played(), played()
    np.testing.assert_array_equal(first.outputs.vectors, again.outputs.vectors)
    played(data=(X, 1 - Y))  # other data
    played(rng=1)  # another design
    more = played(n_shadows=6)  # the first four are there
    np.testing.assert_array_equal(more.outputs.vectors[:4], first.outputs.vectors)
    played(design="disjoint", n_shadows=3)
    played(design="disjoint", n_shadows=4)
    assert calls == [4, 0, 4, 4, 2, 3, 4]


def test_losses_are_enough_for_likelihood_ratios():
    """Confident shadows too: 1 - p is far below the digits of p."""
    phi = np.array([[0.3, 2.0, 40.0, -50.0], [1.0, 90.0, -3.0, 0.0]])
    p = np.stack([expit(phi), expit(-phi)], axis=-1)
    seen = Outputs(probabilities=p, labels=np.zeros(4, int))
    np.testing.assert_allclose(log_odds(as_losses(seen)), log_odds(seen), rtol=1e-9)
    members, others = (X[:60], Y[:60]), (X[60:], Y[60:])
    target = fit(*members, None)
    shadows = [train_shadows(fit, (X, Y), n_shadows=6, keep=keep) for keep in KEEP]
    assert shadows[1].outputs.values.size * 2 == shadows[0].outputs.values.size
    for method in ("lira", "rmia-offline"):
        both = [attack(target, members, others, method=method, shadows=s) for s in shadows]
        np.testing.assert_allclose(both[0].scores_in, both[1].scores_in, rtol=1e-6, atol=1e-9)


def test_outputs_that_are_too_large_to_keep():
    class Wide:
        classes_ = np.arange(3000)

        def predict_proba(self, X):
            return np.full((len(X), 3000), 1 / 3000)

    many = np.zeros((800, 1)), np.zeros(800, int)
    with pytest.raises(AuditStopped, match="Pass keep='losses'"):
        train_shadows(lambda X, y, rng: Wide(), many, n_shadows=2)


def test_an_executor_trains_the_same():
    alone = train_shadows(noisy, (X, Y), n_shadows=3)
    with ThreadPoolExecutor(2) as executor:
        together = train_shadows(noisy, (X, Y), n_shadows=3, executor=executor)
    np.testing.assert_array_equal(alone.outputs.losses, together.outputs.losses)


def failing(X, y, rng):
    raise ValueError("no convergence")


def test_failures_are_told():
    with pytest.raises(AuditStopped, match=r"ValueError(.|\n)*test_shadows.py"):
        train_shadows(failing, (X, Y), n_shadows=2)
    rare = np.where(np.arange(120) == 0, 7, Y)
    with pytest.raises(AuditStopped, match=r"are missing in|never learned"):
        train_shadows(fit, (X, rare), n_shadows=4)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n_shadows": 1}, "n_shadows=1"),
        ({"design": "thirds"}, "design='thirds'"),
        ({"keep": "all"}, "keep='all'"),
        ({"data": X}, "data must be a pair"),
        ({"data": (X, Y[:5])}, "one label"),
        ({"observed": (X[:0], Y[:0])}, "observed has 0 records"),
        ({"train": "fit"}, "train='fit'"),
        ({"rng": -1}, "rng=-1"),
    ],
)
def test_bad_arguments(changed, said):
    given = {"train": remember, "data": (X, Y), "n_shadows": 4} | changed
    with pytest.raises(InvalidArgument, match=said):
        train_shadows(given.pop("train"), given.pop("data"), **given)


def test_bad_shadows():
    losses = Outputs(losses=np.zeros((2, 3)))
    with pytest.raises(InvalidArgument, match=r"inside has shape \(3,\)"):
        Shadows(losses, np.zeros(3))
    with pytest.raises(InvalidArgument, match=r"1 \(trained on\), 0"):
        Shadows(losses, np.full((2, 3), 2))


def test_shadows_at_other_records_are_refused():
    shadows = train_shadows(remember, (X, Y), n_shadows=4)
    target = remember(X[:60], Y[:60], None)
    members, others = (X[:60], Y[:60]), (X[60:], Y[60:])
    assert attack(target, members, others, method="rmia", shadows=shadows).auc.value > 0.9
    frames = [(pd.DataFrame(X), y) for X, y in (members, others)]
    joined = pd.concat([frames[0][0], frames[1][0]])  # with an index that starts anew
    again = train_shadows(fit, (joined, Y), n_shadows=2)
    target_of_frames = fit(*frames[0], None)
    assert attack(target_of_frames, *frames, method="rmia", shadows=again).method == "rmia"
    thin = [(sparse.csr_array(X), y) for X, y in (members, others)]
    again = train_shadows(fit, (sparse.csr_array(X), Y), n_shadows=2)
    assert attack(target_of_frames, *thin, method="rmia", shadows=again).method == "rmia"
    with pytest.raises(InvalidArgument, match="other records, or in another order"):
        attack(target, others, members, method="rmia", shadows=shadows)
    with pytest.raises(InvalidArgument, match="shadows are missing"):
        attack(target, members, others, method="lira")
