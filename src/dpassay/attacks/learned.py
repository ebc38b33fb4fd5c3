"""Attack models: a classifier learns from shadows how members look, then looks at the target.

Shokri et al. (2017) for the black box, Nasr, Shokri and Houmansadr (2019) for the white box. The
attacker must know how the target was trained and have data like the target's; its shadow sets and
test sets need not contain any candidate (``design="disjoint"`` keeps all of them apart).
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay._threads import limit_learner_threads
from dpassay.attacks.outputs import Outputs
from dpassay.attacks.scores import log_odds
from dpassay.attacks.shadows import Shadows
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

MOST_ROWS = 20_000  # to learn from; more add time, not power
_FEWEST = 10  # of either kind


def black_box_features(outputs: Outputs, *, sort: bool = True) -> FloatArray:
    """(..., n, k + 1): the log odds of the true class and the output vector, by default sorted.

    Sorted, vectors of different classes are comparable; per class the plain ones say more.
    """
    p = outputs.vectors
    vector = -np.sort(-p, axis=-1) if sort else p
    return np.concatenate([log_odds(outputs)[..., None], vector], axis=-1)


def shadow_scores(
    outputs: Outputs,
    shadows: Shadows,
    *,
    learner: Literal["boosting", "mlp"] = "boosting",
    per_class: bool = False,
    features: FloatArray | None = None,
    rng: RngLike = 0,
) -> FloatArray:
    """The log odds of "member" by a classifier learned from the shadows; an attack, no bound.

    Args:
        outputs: what the target says about the candidates.
        shadows: what the shadows say about their own records; these may be others.
        learner: "boosting" (histogram gradient boosting) or "mlp" (one hidden layer of 64).
        per_class: an attack model for each class, on the output vector as it is (Shokri et al.);
            False learns one for all, on sorted vectors.
        features: (n, d) white-box features of the target on the candidates; the shadows must hold
            theirs. They are joined to those of the black box.
        rng: seed of the learner, and of choosing rows if there are more than 20 000.

    Raises:
        InvalidArgument: classes that the shadows do not have, or too few records of one to learn.

    """
    _check.choice("learner", learner, tuple(LEARNERS))
    if outputs.n_classes != shadows.outputs.n_classes:
        raise InvalidArgument(
            f"the target has {outputs.n_classes} classes, the shadows "
            f"{shadows.outputs.n_classes}. Train the shadows on data with the same classes."
        )
    if features is not None and shadows.features is None:
        raise InvalidArgument(
            "the shadows hold no white-box features. Pass features= to train_shadows too."
        )
    inner = None if features is None else shadows.features
    known = _join(black_box_features(shadows.outputs, sort=not per_class), inner)
    asked = _join(black_box_features(outputs, sort=not per_class), features)
    if asked.shape[-1] != known.shape[-1]:
        raise InvalidArgument(
            f"the target has {asked.shape[-1]} features, the shadows {known.shape[-1]}. The models "
            "must have the same layers."
        )
    used = shadows.inside >= 0
    labels = np.broadcast_to(shadows.outputs.classes, used.shape)
    table = known[used], shadows.inside[used], labels[used]
    random = generator(rng)
    if not per_class:
        return _learn(*table[:2], learner, random, "the shadows")(asked)
    return _per_class(table, asked, outputs.labels, learner, random)


def _join(vectors: FloatArray, more: FloatArray | None) -> FloatArray:
    return vectors if more is None else np.concatenate([vectors, more], axis=-1)


def _per_class(
    table: tuple[Any, Any, Any],
    asked: FloatArray,
    labels: Any,
    learner: str,
    rng: np.random.Generator,
) -> FloatArray:
    rows, inside, classes = table
    scores = np.empty(len(asked))
    for label in np.unique(labels):
        mine, theirs = classes == label, labels == label
        fitted = _learn(rows[mine], inside[mine], learner, rng, f"class {label} of the shadows")
        scores[theirs] = fitted(asked[theirs])
    return scores


def _learn(
    rows: FloatArray, inside: Any, learner: str, rng: np.random.Generator, where: str
) -> Callable[[FloatArray], FloatArray]:
    """A fitted attack model: rows of features in, log odds out."""
    fewest = int(min((inside == 1).sum(), (inside == 0).sum()))
    if fewest < _FEWEST:
        raise InvalidArgument(
            f"{where} has {fewest} records of one kind; learning needs {_FEWEST} members and "
            "non-members. Train more shadows, or pass per_class=False."
        )
    if len(rows) > MOST_ROWS:
        chosen = rng.choice(len(rows), MOST_ROWS, replace=False)
        rows, inside = rows[chosen], inside[chosen]
    model = LEARNERS[learner](int(rng.integers(2**31)))
    with limit_learner_threads(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Stochastic Optimizer: Maximum iterations")
        model.fit(rows, inside)
    return lambda asked: _log_odds_of(model, asked)


def _log_odds_of(model: Any, rows: FloatArray) -> FloatArray:
    with limit_learner_threads():
        p = np.clip(model.predict_proba(rows)[:, 1], 1e-15, 1 - 1e-15)
    return np.log(p) - np.log1p(-p)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=100, max_leaf_nodes=15, learning_rate=0.08, min_samples_leaf=10, random_state=seed
    )


def _mlp(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPClassifier((64,), alpha=1e-3, max_iter=40, random_state=seed)
    return make_pipeline(StandardScaler(), network)


LEARNERS: dict[str, Callable[[int], Any]] = {"boosting": _boosting, "mlp": _mlp}
