"""A private training with a bug; ``dpassay check examples/train_with_a_bug.py`` names its line.

A logistic regression on two of scikit-learn's digits by DP-SGD, in plain torch. It claims what its
accountant says: noise 1, rate 0.1, 20 steps. The three lines with ``probe`` do nothing in an
ordinary run, ``python examples/train_with_a_bug.py`` (it needs ``dpassay[torch]``).
"""

import torch
from sklearn.datasets import load_digits

from dpassay import probe

CLIP, NOISE, RATE, STEPS, BATCH = 1.0, 1.0, 0.1, 20, 30

digits = load_digits(n_class=2)
X = torch.tensor(digits.data[:300] / 16)
y = torch.tensor(digits.target[:300], dtype=torch.float64)
X, y = probe.data((X, y))

weights = torch.zeros(64, dtype=torch.float64)
for _ in range(STEPS):
    batch = torch.rand(len(X)) < RATE
    errors = torch.sigmoid(X[batch] @ weights) - y[batch]
    gradients = errors[:, None] * X[batch]
    gradients = gradients * (CLIP / gradients.norm(dim=1, keepdim=True)).clamp(max=1.0)
    total = gradients.sum(dim=0)
    total = total + NOISE * CLIP / BATCH * torch.randn(64, dtype=torch.float64)
    weights = weights - 2.0 * total / BATCH

probe.release(weights)
accuracy = ((X @ weights > 0) == (y > 0)).double().mean()
print(f"accuracy {accuracy:.2f}")
