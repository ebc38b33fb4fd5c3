import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from dpassay.attacks import Outputs, attack, observe
from dpassay.errors import InvalidArgument
from extras import needs

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]])


class Target:
    """Says what it is told to say."""

    def __init__(self, p, classes=None):
        self.p = np.asarray(p, float)
        if classes is not None:
            self.classes_ = np.asarray(classes)

    def predict_proba(self, X):
        return self.p[: len(X)]


def test_a_classifier_is_asked_for_probabilities():
    seen = observe(Target(P, ["a", "b", "c"]), np.zeros((3, 1)), ["c", "c", "a"])
    np.testing.assert_array_equal(seen.probabilities, P)
    np.testing.assert_array_equal(seen.labels, [2, 2, 0])
    np.testing.assert_array_equal(seen.of_label, [0.1, 0.8, 0.3])
    assert (len(seen), seen.n_classes) == (3, 3)


def test_without_names_labels_are_columns():
    np.testing.assert_array_equal(observe(Target(P), np.zeros((3, 1)), [0, 1, 2]).labels, [0, 1, 2])


def test_margins_are_taken_for_logits():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    model = LogisticRegression().fit(X, y)

    class Margins:
        classes_ = model.classes_
        decision_function = staticmethod(model.decision_function)

    by_margins, by_probabilities = observe(Margins(), X, y), observe(model, X, y)
    np.testing.assert_allclose(by_margins.of_label, by_probabilities.of_label, rtol=1e-10)
    three = LinearSVC().fit(X, rng.integers(0, 3, 60))
    seen = observe(three, X, np.zeros(60))
    assert seen.n_classes == 3
    np.testing.assert_array_equal(seen.vectors.argmax(axis=1), three.predict(X))


def test_a_loss_is_called():
    X, y = np.arange(4.0), np.ones(4)
    np.testing.assert_array_equal(observe(lambda X, y: (X - y) ** 2, X, y).losses, [1, 0, 1, 4])


def test_one_against_one_margins_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), np.arange(80) % 4
    with pytest.raises(InvalidArgument, match="one column per class"):
        observe(SVC(decision_function_shape="ovo").fit(X, y), X, y)


BAD = [
    ({"probabilities": P * 2, "labels": [0, 1, 2]}, r"probabilities\[0, 0\] must"),
    ({"probabilities": P * 0.9, "labels": [0, 1, 2]}, r"probabilities\[0\] do not sum to 1"),
    ({"probabilities": -P, "labels": [0, 1, 2]}, r"probabilities\[0, 0\] must"),
    ({"probabilities": np.where(P == 0.8, np.nan, P), "labels": [0, 1, 2]}, r"\[1, 2\]=nan"),
    ({"probabilities": P}, "labels are missing"),
    ({"probabilities": P, "labels": [0, 1]}, r"shape \(2,\) for 3 records"),
    ({"probabilities": P, "labels": [0, 1, 3]}, r"labels\[2\] must"),
    ({"probabilities": P, "labels": [0, 1, 0.5]}, "whole number"),
    ({"probabilities": P[:, :1], "labels": [0, 0, 0]}, "two columns"),
    ({"probabilities": np.empty((0, 3)), "labels": []}, "probabilities is empty"),
    ({"losses": [1.0, np.nan]}, r"losses\[1\]=nan"),
    ({"losses": [1.0, np.inf]}, r"losses\[1\]=inf"),
    ({"losses": 1.0}, "one loss per record"),
    ({"losses": []}, "losses is empty"),
    ({"losses": [1.0], "probabilities": P}, "either probabilities or losses"),
    ({}, "either probabilities or losses"),
]


@pytest.mark.parametrize(("given", "said"), BAD)
def test_what_is_no_output_is_refused(given, said):
    with pytest.raises(InvalidArgument, match=said):
        Outputs(**given)


X3 = np.zeros((3, 1))
BAD_TARGETS = [
    (
        Target(P, ["a", "b", "c"]),
        X3,
        ["a", "d", "a"],
        r"y\[1\] is a class that the target never learned",
    ),
    (Target(P[:2]), X3, [0, 1, 2], r"shape \(2, 3\) for 3 records"),
    (Target(P, ["a", "b"]), X3, ["a", "b", "a"], "3 columns for classes_"),
    (lambda X, y: np.zeros(2), X3, [0, 1, 2], r"shape \(2,\) for 3 records"),
    ("model.pkl", X3, [0, 1, 2], "target=str cannot be attacked"),
    (Target(P), X3, [[0], [1], [2]], "one label for each record"),
    (Target(P), X3, [], "one label for each record"),
]


@pytest.mark.parametrize(("target", "X", "y", "said"), BAD_TARGETS)
def test_what_is_no_target_is_refused(target, X, y, said):
    with pytest.raises(InvalidArgument, match=said):
        observe(target, X, y)


def test_losses_that_are_no_cross_entropy_have_no_probability():
    with pytest.raises(InvalidArgument, match=r"losses\[1\] must lie in"):
        _ = Outputs(losses=[1.0, -1.0]).of_label
    np.testing.assert_allclose(Outputs(losses=[0.0, np.log(2)]).of_label, [1, 0.5])


@pytest.mark.parametrize(
    ("target", "members", "non_members", "said"),
    [
        (None, [1.0, 1.0], [1.0], "says the same"),
        (Target(np.tile(P[:1], (3, 1))), (X3, [0, 1, 2]), (X3, [0, 1, 2]), "says the same"),
        (None, [1.0, np.nan], [1.0], r"members\[1\]=nan"),
        (None, [1.0, 2.0], [], "non_members is empty"),
        (None, [[1.0, 2.0]], [1.0], "pair"),
        (None, (P, [0, 1, 2]), [1.0], "members have 3 probabilities each"),
        (None, (P, [0, 1, 2]), (P[:, :2] / P[:, :2].sum(1, keepdims=True), [0, 1, 0]), "2 prob"),
        (Target(P), X3, (X3, [0, 1, 2]), r"members must be a pair \(X, y\)"),
        (Target(P), (X3, [0, 1]), (X3, [0, 1, 2]), "members has 3 records"),
        (Target(P), (X3, [0, 1, 2]), (X3[:0], []), "non_members has 0 records"),
    ],
)
def test_attack_refuses_bad_targets(target, members, non_members, said):
    with pytest.raises(InvalidArgument, match=said):
        attack(target, members, non_members)


def test_a_torch_module_says_what_its_numbers_say():
    """Logits, probabilities and log odds; in evaluation mode, without a trace in the module."""
    needs("torch")
    import torch

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2050, 3)), rng.integers(0, 4, 2050)
    linear = torch.nn.Linear(3, 4)
    logits = X.astype(np.float32) @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), linear)
    model[1].eval()
    for target in (model, torch.nn.Sequential(model, torch.nn.Softmax(1))):
        seen = observe(target, X, y)
        np.testing.assert_allclose(seen.vectors, special.softmax(logits, axis=1), rtol=1e-4)
    assert model[0].training
    assert not model[1].training
    assert all(p.grad is None for p in model.parameters())
    odds = torch.nn.Linear(3, 1)
    two = observe(odds, X.tolist(), y % 2).vectors
    expected = odds(torch.as_tensor(X, dtype=torch.float32)).detach().numpy()[:, 0]
    np.testing.assert_allclose(special.logit(two[:, 1]), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(InvalidArgument, match=r"y\[.*never learned"):
        observe(odds, X, y)
