"""Audit one fit of a scikit-learn classifier: sixty canaries among the rows, and a verdict.

The table has a hundred columns of words, of which the newest sixty occur in no row yet: each canary
has a direction of its own there. Half of them, as fair coins say, keep their label, the others get
the other one, so that the number of rows is the same; the claim is about replacing a row.

``python examples/one_training_sklearn.py`` audits a private fit, and one whose author forgot the
noise.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import dpassay as da

EPSILON = 1.0
rng = np.random.default_rng(0)
words = rng.random((400, 100)) < 0.1
words[:, 40:] = False
X = words / np.sqrt(np.maximum(words.sum(axis=1, keepdims=True), 1))  # rows of norm 1 at most
y = (X[:, 0] + X[:, 1] > X[:, 2]).astype(int)

private = da.learn.PrivateLogisticRegression(EPSILON, data_norm=1.0, neighbouring="replace-one")
for name, model in {"private": private, "no noise": LogisticRegression(C=1e3)}.items():
    canaries = da.canaries.for_rows(X, y, n=60, unused=range(40, 100), norm=1.0)
    model.fit(*canaries.insert((X, y)))
    verdict = canaries.judge(
        lambda x, label, model=model: model.decision_function(x) * (2 * label - 1),
        claim=da.PureDP(EPSILON, neighbouring="replace-one"),
    )
    print(f"{name}: {verdict}")
