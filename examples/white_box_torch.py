"""A white-box attack on a PyTorch network: gradients and activations beside plain outputs.

The target learns its records by heart. The attacker trains four networks like it on records of its
own and learns from them how members look: from outputs alone, then from the inside as well.
Run it with ``python examples/white_box_torch.py`` (it needs ``dpassay[torch]``). With the folder of
data sets in DPASSAY_DATA it attacks Location-30, without it a made-up table of the same kind.
"""

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from dpassay.attacks import attack, train_shadows
from dpassay.datasets import DatasetMissing, load_location30, made_up_profiles

torch.set_num_threads(1)


def load():
    """Rows of bits and their classes."""
    try:
        data, scale = load_location30(), 446
    except DatasetMissing:
        data, scale = made_up_profiles(1600, 60, 5), 60
    X, y = np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    order = np.random.default_rng(0).permutation(len(y))
    return (X[order] * scale**0.5).astype(np.float32), y[order]


class Network:
    """What the attacks need of a target: ``classes_`` and ``predict_proba``."""

    def __init__(self, n_features, classes):
        self.classes_ = classes
        layers = torch.nn.Linear(n_features, 64), torch.nn.ReLU(), torch.nn.Linear(64, len(classes))
        self.net = torch.nn.Sequential(*layers)

    def predict_proba(self, X):
        with torch.no_grad():
            return torch.softmax(self.net(torch.tensor(X)).double(), dim=1).numpy()


def train(X, y, rng):
    torch.manual_seed(int(rng.integers(2**31)))
    classes, labels = np.unique(y, return_inverse=True)
    model = Network(X.shape[1], classes)
    inputs, targets = torch.tensor(X), torch.tensor(labels)
    optimizer = torch.optim.Adam(model.net.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model.net(inputs), targets).backward()
        optimizer.step()
    return model


def features(model, X, y):
    """Per record: the gradient norm of every parameter, and the sorted hidden layer.

    Neurons of different networks have no common order: norms and sorting do without one.
    """
    parameters = {name: p.detach() for name, p in model.net.named_parameters()}

    def norms(x, label):
        def loss(p):
            return torch.nn.functional.cross_entropy(functional_call(model.net, p, x), label)

        gradients = grad(loss)(parameters)
        return torch.log(torch.stack([g.norm() for g in gradients.values()]) + 1e-30)

    inputs, labels = torch.tensor(X), torch.tensor(np.searchsorted(model.classes_, y))
    inside = vmap(norms, chunk_size=100)(inputs, labels)
    with torch.no_grad():
        hidden = model.net[1](model.net[0](inputs)).sort(dim=1, descending=True).values
    return np.hstack([inside.numpy(), hidden.numpy()])


X, y = load()
n = len(X) // 4
target = train(X[:n], y[:n], np.random.default_rng(0))
members, others = (X[:n], y[:n]), (X[n : 2 * n], y[n : 2 * n])
shadows = train_shadows(train, (X[2 * n :], y[2 * n :]), n_shadows=4, features=features)
black = attack(target, members, others, method="shadow", shadows=shadows)
white = attack(target, members, others, method="white-box", shadows=shadows, features=features)
print("black box: AUC", black.auc)
print("white box: AUC", white.auc)
print("at least as good within its interval:", white.auc.upper >= black.auc.value)
