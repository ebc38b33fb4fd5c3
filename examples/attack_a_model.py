"""Who was in the training set? Attacks on a model that has learned its records by heart.

Writes losses.csv, what ``dpassay attack losses.csv`` reads. Run: python examples/attack_a_model.py
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from dpassay.attacks import attack, observe, train_shadows

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 6))
y = np.digitize(X[:, 0] + 0.8 * rng.normal(size=600), [-0.6, 0.6])
member = rng.integers(0, 2, 600) == 1  # a fair coin for every record


def train(X, y, rng):
    forest = RandomForestClassifier(
        20, min_samples_leaf=3, max_depth=6, random_state=int(rng.integers(2**31))
    )
    return forest.fit(X, y)


model = train(X[member], y[member], rng)
members, others = (X[member], y[member]), (X[~member], y[~member])
candidates = np.vstack([members[0], others[0]]), np.concatenate([members[1], others[1]])
shadows = train_shadows(train, candidates, n_shadows=8)

for method in ("loss", "lira", "rmia"):
    found = attack(
        model, members, others, method=method, shadows=shadows, membership="randomised", delta=1e-3
    )
    print(found, end="\n\n")

seen = observe(model, X, y)
loss = -np.log(np.maximum(seen.of_label, 1e-3))
table = np.column_stack([member, y, loss, seen.vectors])
head = "member,label,loss,p0,p1,p2"
np.savetxt("losses.csv", table, "%d,%d,%.4f,%.4f,%.4f,%.4f", header=head, comments="")
