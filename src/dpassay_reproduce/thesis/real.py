"""Membership attacks on real data, where they bite: Location-30 and MNIST, with and without DP.

Every candidate is put into the training set of the target by a fair coin of its own, so that each
attack also proves a lower bound on epsilon. The attacker trains shadows like the target, on the
candidates (online) or on as many records of its own (offline), and knows some other records. The
targets: a network that learns its records by heart, and the library's private training at
epsilon 8 and 1. Micali 2022 has no such figures; the claims below them are ours.

Where a data set is missing, one of the same kind stands in and the caption says so.
"""

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import datasets
from dpassay.attacks import (
    AttackResult,
    Outputs,
    Shadows,
    attack,
    train_shadows,
    tune_offline_slope,
    white_box_features,
)
from dpassay.report.figures import BLUE, GREEN, ORANGE, house_style, panels
from dpassay.types import FloatArray
from dpassay_reproduce.claims import (
    Claim,
    Estimate,
    Picture,
    Verdict,
    claim_exactly,
    judge_all,
    judge_order,
)
from dpassay_reproduce.thesis.frame import Setting

Records = tuple[FloatArray, Any]
Training = Callable[[FloatArray, Any, np.random.Generator], Any]
FPR, DELTA, HIDDEN = 0.01, 1e-4, 128
N_ONLINE, N_OFFLINE, N_LEARNED = 16, 8, 4  # shadows
PLAIN = "no privacy"
EPSILONS = {"ε = 8": 8.0, "ε = 1": 1.0}
COLOURS = {PLAIN: ORANGE, "ε = 8": BLUE, "ε = 1": GREEN}


@dataclass(frozen=True, eq=False)
class Table:
    """Records with a declared bound on their norm; ``about`` says where they are from."""

    name: str
    X: FloatArray
    y: Any
    data_norm: float
    n_classes: int
    about: str


def location30() -> Table:
    """Location-30 as bits, shuffled; made-up profiles where it is missing."""
    try:
        data, about = datasets.load_location30(), "Location-30"
    except datasets.DatasetMissing:
        data, about = datasets.made_up_profiles(), "made-up profiles, as Location-30 is missing"
    X = np.vstack([data.X_train, data.X_test])
    scale = math.sqrt(X.shape[1])
    y = np.concatenate([data.y_train, data.y_test])
    order = np.random.default_rng(0).permutation(len(y))
    return Table("Location-30", X[order] * scale, y[order], scale, len(data.classes), about)


def mnist() -> Table:
    """MNIST's training images, of norm 10; scikit-learn's 1797 digits where it is missing."""
    try:
        data, about = datasets.load_mnist(), "MNIST"
        X, y = data.X_train[:5000].astype(float), data.y_train[:5000]
    except datasets.DatasetMissing:
        from sklearn.datasets import load_digits

        (X, y), about = load_digits(return_X_y=True), "scikit-learn's digits, as MNIST is missing"
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return Table("MNIST", 10 * X, y, 10.0, 10, about)


@dataclass(frozen=True, eq=False)
class Split:
    """Candidates, members first, of which a coin each decided; the attacker's own records."""

    members: Records
    others: Records
    own: Records
    reference: Records

    @property
    def candidates(self) -> Records:
        """The members, then the others."""
        X, y = zip(self.members, self.others, strict=True)
        return np.concatenate(X), np.concatenate(y)


def deal(table: Table, n_candidates: int, seed: int = 0) -> Split:
    """The first records as candidates, as many for the attacker, the rest known non-members."""
    coins = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))).integers(
        0, 2, n_candidates
    )
    numbers = np.arange(len(table.y))
    first, second = numbers[:n_candidates], numbers[n_candidates : 2 * n_candidates]
    parts = first[coins == 1], first[coins == 0], second, numbers[2 * n_candidates :]
    return Split(*((table.X[part], table.y[part]) for part in parts))


# How targets and shadows are trained.


@dataclass(frozen=True)
class Network:
    """One hidden layer, trained until its records are known by heart; no privacy."""

    hidden: int = HIDDEN
    epochs: int = 40

    def __call__(self, X: FloatArray, y: Any, rng: np.random.Generator) -> Any:
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits

        options: dict[str, Any] = {"alpha": 0.0, "batch_size": 64, "max_iter": self.epochs}
        model = MLPClassifier((self.hidden,), **options, random_state=int(rng.integers(2**31)))
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Stochastic Optimizer: Maximum iterations")
            return model.fit(X, y)


@dataclass(frozen=True)
class Private:
    """Private logistic regression; its divisors are public, whatever the coins say."""

    epsilon: float
    delta: float
    data_norm: float
    n_classes: int
    n_records: int

    def __call__(self, X: FloatArray, y: Any, rng: np.random.Generator) -> Any:
        from threadpoolctl import threadpool_limits

        from dpassay.learn import PrivateLogisticRegression

        model = PrivateLogisticRegression(
            self.epsilon,
            self.delta,
            data_norm=self.data_norm,
            classes=np.arange(self.n_classes),
            n_records=self.n_records,
            random_state=int(rng.integers(2**31)),
        )
        with threadpool_limits(1):
            return model.fit(X, y)


def trainings(table: Table, n_candidates: int) -> dict[str, Training]:
    """The trainings to attack, by name."""
    rest = DELTA, table.data_norm, table.n_classes, n_candidates // 2
    return {PLAIN: Network()} | {name: Private(e, *rest) for name, e in EPSILONS.items()}


# The attacks.


@dataclass(frozen=True, eq=False)
class Target:
    """A trained model, its game, and the shadows of it."""

    game: Split
    model: Any
    online: Shadows
    offline: Shadows
    learned: Shadows

    def attack(self, **given: Any) -> AttackResult:
        """The result of one attack; intervals and bound are for it alone."""
        return attack(
            self.model,
            self.game.members,
            self.game.others,
            membership="randomised",
            claim=getattr(self.model, "privacy_", None),
            delta=DELTA,
            fprs=(FPR,),
            **given,
        )

    @functools.cached_property
    def offline_slope(self) -> float:
        """The offline slope of RMIA, tuned on the attacker's own shadows."""
        return tune_offline_slope(self.learned)

    @property
    def accuracies(self) -> tuple[float, float]:
        """How often the model is right about members, and about others."""
        sides = self.game.members, self.game.others
        first, second = (float(np.mean(self.model.predict(X) == y)) for X, y in sides)
        return first, second


def prepare(
    game: Split,
    train: Training,
    *,
    online: int = N_ONLINE,
    offline: int = N_OFFLINE,
    learned: int = N_LEARNED,
    seed: int = 0,
    store: str | Path | None = None,
) -> Target:
    """A target on the members, with these numbers of shadows; a store keeps the shadows."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    model = train(*game.members, rng)
    at = game.candidates

    def shadows(data: Records, n: int, rng: int, **more: Any) -> Shadows:
        return train_shadows(train, data, n_shadows=n, rng=rng, store=store, **more)

    return Target(
        game,
        model,
        online=shadows(at, online, 3 * seed),
        offline=shadows(game.own, offline, 3 * seed + 1, observed=at),
        learned=shadows(game.own, learned, 3 * seed + 2, features=white_box_features),
    )


def first(shadows: Shadows, k: int) -> Shadows:
    """The first k of the shadows."""
    seen = Outputs(probabilities=shadows.outputs.vectors[:k], labels=shadows.outputs.labels)
    return Shadows(seen, shadows.inside[:k], None, shadows.records)


def attacks(target: Target) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each attack of the figure with what it is given; k is the number of shadows."""
    yield "loss", {"method": "loss"}
    yield "modified entropy", {"method": "modified-entropy"}
    yield "quantile", {"method": "quantile", "reference": target.game.reference}
    for name, method in (("black box", "shadow"), ("white box", "white-box")):
        given = {"method": method, "shadows": target.learned}
        yield f"{name}, k = {len(target.learned)}", given
    for k in sorted({2, 4, len(target.offline)} & set(range(len(target.offline) + 1))):
        given = {"shadows": first(target.offline, k)}
        slope = {"offline_slope": target.offline_slope}
        yield f"RMIA offline, k = {k}", {"method": "rmia-offline"} | slope | given
        yield f"LiRA offline, k = {k}", {"method": "lira-offline"} | given
    for k in sorted({4, len(target.online)}):
        for name in ("RMIA", "LiRA"):
            given = {"method": name.lower(), "shadows": first(target.online, k)}
            yield f"{name}, k = {k}", given


Results = dict[str, dict[str, AttackResult]]


def play_all(
    table: Table, n_candidates: int, seed: int = 0, **numbers: Any
) -> tuple[Results, dict[str, float]]:
    """The results by training and attack, and the accuracies of the targets."""
    game, results, facts = deal(table, n_candidates, seed), {}, {}
    for name, train in trainings(table, n_candidates).items():
        target = prepare(game, train, seed=seed, **numbers)
        results[name] = {what: target.attack(**given) for what, given in attacks(target)}
        inside, outside = target.accuracies
        facts |= {f"{name}: accuracy on members": inside, f"{name}: on others": outside}
    return results, facts


# The claims and the picture.


def claims(results: Results) -> tuple[Claim, ...]:
    """What the attacks must and must not reach, checked."""
    return _white_box(results), _likelihood(results[PLAIN]), _holds(results)


def _white_box(results: Results) -> Claim:
    said: list[str] = []
    verdicts: list[Verdict] = []
    for training, found in results.items():
        black, white = (_area(_name(found, box)[0]) for box in ("black box", "white box"))
        verdicts.append(judge_order(white, black))
        said.append(f"{training}: {white.value:.3f} and {black.value:.3f}")
    text = "the white box tells more than the black box, for every training."
    criterion = "the interval of its AUC is above; fails if one of them is below."
    return Claim(text, criterion, judge_all(verdicts), "; ".join(said) + ".")


def _area(result: AttackResult) -> Estimate:
    """Its AUC, with an interval at 95 %."""
    return Estimate(result.auc.value, result.auc.lower, result.auc.upper)


def _likelihood(found: dict[str, AttackResult]) -> Claim:
    best, loss = _area(_name(found, "LiRA,")[-1]), _area(found["loss"])
    text = "without privacy LiRA tells members better than the loss does."
    criterion = "the intervals of their AUCs are apart, LiRA's above; fails if it is below."
    return Claim(text, criterion, judge_order(best, loss), f"{best} against {loss}.")


def _holds(results: Results) -> Claim:
    """Each bound holds with its own confidence; a single one that is too large decides."""
    text = "no attack shows more than private training allows, neither an epsilon nor an AUC."
    criterion = "no lower bound is above what is promised; fails if one is."
    seen = [(EPSILONS[name], r) for name in EPSILONS for r in results[name].values()]
    holds = all(
        _epsilon(r) <= epsilon and (r.ceilings is None or r.auc.lower <= r.ceilings.auc)
        for epsilon, r in seen
    )
    tops = {name: max(map(_epsilon, found.values())) for name, found in results.items()}
    said = "; ".join(f"{name}: ε ≥ {value:.2f}" for name, value in tops.items())
    said += f" (the largest bound of {len(results[PLAIN])} attacks each)."
    return claim_exactly(text, criterion, holds, said)


def _name(found: dict[str, AttackResult], start: str) -> list[AttackResult]:
    return [result for name, result in found.items() if name.startswith(start)]


def _epsilon(result: AttackResult) -> float:
    return result.bound.epsilon if result.bound else 0.0


def picture(name: str, table: Table, n_candidates: int, seed: int = 0, **numbers: Any) -> Picture:
    """AUC, true-positive rate and lower bound of each attack, for each training."""
    results, facts = play_all(table, n_candidates, seed, **numbers)
    with house_style():
        figure, axes = panels(3, width=4.0, height=4.6)
        for i, (training, found) in enumerate(results.items()):
            _draw(axes, found, i, training)
        _label(axes, list(results[PLAIN]))
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    caption = (
        f"Data: {table.about}. {n_candidates} candidates, each put into the training set by a fair "
        f"coin; k is the number of shadows. A network with {HIDDEN} hidden units without privacy, "
        "logistic regression with it (add-remove). Bars are intervals that hold together for an "
        f"attack with confidence 0.95; bounds are at δ = {DELTA:g}, each with confidence 0.95; "
        "dashed is what was promised."
    )
    title = f"{table.name}: what attacks find without privacy, and at ε = 8 and 1"
    return Picture(name, title, caption, figure, facts, curves(results), claims(results))


def curves(results: Results) -> dict[str, Any]:
    """The drawn numbers: by training, one entry for each attack."""
    return {
        training: {
            "attack": list(found),
            "auc": [_triple(r.auc) for r in found.values()],
            "tpr": [_triple(r.tpr_at[FPR]) for r in found.values()],
            "epsilon": [_epsilon(r) for r in found.values()],
        }
        for training, found in results.items()
    }


def _triple(interval: Any) -> list[float]:
    return [interval.lower, interval.value, interval.upper]


def _draw(axes: list[Any], found: dict[str, AttackResult], i: int, training: str) -> None:
    heights = np.arange(len(found)) + 0.22 * (i - 1)
    colour = COLOURS[training]
    for ax, pick in zip(axes, (lambda r: r.auc, lambda r: r.tpr_at[FPR]), strict=False):
        ends = np.array([_triple(pick(r)) for r in found.values()])
        bars = np.abs(ends[:, [0, 2]] - ends[:, [1]]).T
        ax.errorbar(ends[:, 1], heights, xerr=bars, fmt="o", ms=4, color=colour, label=training)
    axes[2].plot([_epsilon(r) for r in found.values()], heights, "o", ms=4, color=colour)
    if training in EPSILONS:
        axes[2].axvline(EPSILONS[training], color=colour, lw=1, ls="--")


def _label(axes: list[Any], names: list[str]) -> None:
    axes[0].set(xlabel="AUC", yticks=range(len(names)), yticklabels=names)
    axes[0].axvline(0.5, color="0.5", lw=1, ls=":")
    axes[1].set(xlabel="TPR at FPR 0.01", yticks=range(len(names)), yticklabels=[])
    axes[2].set(xlabel="ε is at least", yticks=range(len(names)), yticklabels=[])
    for ax in axes:
        ax.invert_yaxis()


@functools.cache
def _location30(setting: Setting) -> Picture:
    return picture("location30", location30(), 2000, setting.seed)


@functools.cache
def _mnist(setting: Setting) -> Picture:
    table = mnist()
    return picture("mnist", table, min(1000, len(table.y) * 2 // 5), setting.seed)


FIGURES: dict[str, Callable[[Setting], Picture]] = {"location30": _location30, "mnist": _mnist}
