"""Membership attacks on an overfitted network on Location-30: AUC, TPR at 1 % FPR, lower bound.

Run with ``python -m benchmarks.location30`` (``--quick``: fewer shadows). The folder of data sets
is in DPASSAY_DATA (location30/location30.csv.gz in it: 5010 check-in profiles of 446 bits, 30
classes). 2000 candidates are put into the training set by a fair coin each; another 2000 records
are the attacker's own; the rest are non-members that it knows. The network (one hidden layer of
128) is trained until it has learned its records by heart. LiRA and RMIA are given k shadows, online
on the candidates, offline on the attacker's own records; black and white box learn from shadows on
its own records. A few CPU minutes.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpassay.attacks import (
    AttackResult,
    Outputs,
    Shadows,
    attack,
    train_shadows,
    white_box_features,
)
from dpassay.attacks.scores import METRICS

N_CANDIDATES, N_OWN, N_SHADOWS, N_LEARNED = 2000, 2000, 16, 4
DELTA, FPR = 1e-4, 0.01


def load() -> tuple[Any, Any]:
    """The records and their classes, shuffled."""
    folder = os.environ.get("DPASSAY_DATA")
    if folder is None:
        raise SystemExit("set DPASSAY_DATA to the folder that holds location30/location30.csv.gz")
    path = Path(folder, "location30", "location30.csv.gz")
    table = np.loadtxt(path, delimiter=",", quotechar='"')
    table = table[np.random.default_rng(0).permutation(len(table))]
    return table[:, 1:], table[:, 0].astype(int) - 1


def train(X: Any, y: Any, rng: np.random.Generator) -> Any:
    """A network that learns its records by heart."""
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    seed = int(rng.integers(2**31))
    model = MLPClassifier((128,), alpha=0.0, max_iter=40, batch_size=64, random_state=seed)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it could go on
        return model.fit(X, y)


def first(shadows: Shadows, k: int) -> Shadows:
    """The first k of the shadows."""
    seen = Outputs(probabilities=shadows.outputs.vectors[:k], labels=shadows.outputs.labels)
    return Shadows(seen, shadows.inside[:k], None, shadows.records)


class Setting:
    """The split, the target, and its shadows."""

    def __init__(self, n_shadows: int) -> None:
        X, y = load()
        coins = np.random.default_rng(1).integers(0, 2, N_CANDIDATES) == 1
        order = np.argsort(~coins, kind="stable")  # members first
        candidates = X[:N_CANDIDATES][order], y[:N_CANDIDATES][order]
        n_in = int(coins.sum())
        self.members = candidates[0][:n_in], candidates[1][:n_in]
        self.others = candidates[0][n_in:], candidates[1][n_in:]
        middle = N_CANDIDATES + N_OWN
        own = X[N_CANDIDATES:middle], y[N_CANDIDATES:middle]
        self.reference = X[middle:], y[middle:]
        self.target = train(*self.members, np.random.default_rng(2))
        self.online = train_shadows(train, candidates, n_shadows=n_shadows)
        self.offline = train_shadows(train, own, n_shadows=n_shadows, observed=candidates, rng=1)
        self.learned = train_shadows(
            train, own, n_shadows=N_LEARNED, features=white_box_features, rng=2
        )

    def attacks(self, n_shadows: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each attack with what it is given."""
        for metric in METRICS:
            yield metric, {"method": metric}
        yield "quantile", {"method": "quantile", "reference": self.reference, "alpha": 0.05}
        for learner in ("boosting", "mlp"):
            for method in ("shadow", "white-box"):
                given = {"method": method, "learner": learner, "shadows": self.learned}
                yield f"{method}, {learner}, k={N_LEARNED}", given
        for k in (2, 4, 8, 16):
            if k > n_shadows:
                break
            for method in ("lira", "rmia"):
                if (method, k) != ("lira", 2):  # one shadow with the record has no variance
                    yield f"{method}, k={k}", {"method": method, "shadows": first(self.online, k)}
                offline = {"method": f"{method}-offline", "shadows": first(self.offline, k)}
                yield f"{method} offline, k={k}", offline

    def played(self, given: dict[str, Any]) -> AttackResult:
        """The result of one attack; all bounds and intervals are for it alone."""
        return attack(
            self.target,
            self.members,
            self.others,
            membership="randomised",
            delta=DELTA,
            fprs=(FPR,),
            **given,
        )


def run(quick: bool = False) -> list[dict[str, Any]]:
    """One row per attack: AUC and TPR with their intervals, and the lower bound on epsilon."""
    n_shadows = 4 if quick else N_SHADOWS
    setting = Setting(n_shadows)
    rows = [_accuracy(setting)]
    for name, given in setting.attacks(n_shadows):
        found = setting.played(given)
        rows.append(
            {
                "case": name,
                "auc": found.auc,
                "tpr": found.tpr_at[FPR],
                "epsilon": found.bound.epsilon if found.bound else 0.0,
            }
        )
    return rows


def _accuracy(setting: Setting) -> dict[str, Any]:
    sides = {"members": setting.members, "others": setting.others}
    scores = {name: setting.target.score(*side) for name, side in sides.items()}
    return {"case": "the target's accuracy"} | scores


def main(quick: bool = False) -> None:
    head, *rows = run(quick or "--quick" in sys.argv)
    print(f"{head['case']}: {head['members']:.3f} on members, {head['others']:.3f} on others")
    for row in rows:
        auc, tpr = (
            f"{x.value:.3f} [{x.lower:.3f}, {x.upper:.3f}]" for x in (row["auc"], row["tpr"])
        )
        print(f"{row['case']:26s} AUC {auc}  TPR {tpr}  epsilon >= {row['epsilon']:.2f}")


if __name__ == "__main__":
    main()
