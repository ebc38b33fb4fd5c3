"""The summary of Nasr notes: what six adversaries can prove against the same DP-SGD, and its ε.

Every adversary plays against trainings calibrated to ε in {1, 2, 4, 10} at δ = 1e-5: a softmax
model, one with a hidden layer and, if it is asked for, a convolutional one; on MNIST where it is
there (DPASSAY_DATA), else on scikit-learn's digits, or on another data set by its name. Beside the
six: what few trainings show by their single steps, what each restriction is worth, other queries of
the first adversary, and what one training with many canaries shows.

Trainings are kept in the folder: stopped, the same command goes on; with ``full`` it adds to them.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import special

from dpassay import _check, _files, nets
from dpassay.adversaries import (
    ADVERSARIES,
    Data,
    PlayedGame,
    capabilities,
    dirac_canaries,
    mislabelled_canaries,
    play,
    steps_bound,
)
from dpassay.adversaries.game import craft_for
from dpassay.bounds import auc
from dpassay.datasets import (
    VARIABLE,
    Dataset,
    load_adult,
    load_cifar10,
    load_location30,
    load_mnist,
    load_purchase100,
)
from dpassay.errors import InvalidArgument
from dpassay.privacy import GDP, ApproxDP, account, calibrate, dp_sgd_event
from dpassay.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    RED,
    house_style,
    panels,
    save_all,
)
from dpassay.runs import Players, hire
from dpassay.types import FloatArray, LowerBound, PrivacyCurve
from dpassay_reproduce import stated
from dpassay_reproduce.claims import (
    Claim,
    Picture,
    claim_exactly,
    decide,
    estimate_share,
    judge_below,
)

DELTA, RATE, STEPS, CLIP, LEARNING_RATE = 1e-5, 0.125, 80, 1.0, 2.0
LENGTH = 10.0  # of rows on average, so that the model learns: pixels between 0 and about 1
Hidden = int | Literal["cnn"]  # units between input and output; 0 is a softmax model
HIDDEN: tuple[Hidden, ...] = (0, 32)
EPSILONS = (1.0, 2.0, 4.0, 10.0)
PER_WORLD, PER_WORLD_FULL, PER_WORLD_QUICK = 200, 1000, 60
FEW = 10  # trainings whose steps are looked at
_SURELY = 1 - 0.05 / (3 * 6 * len(EPSILONS))  # of each bound, for all at 0.95
CANARIES, REPEATS = 500, 5
_COLOURS = (BLUE, ORANGE, GREEN, RED)
_SHORT = ("1\nAPI", "2\nstatic", "3\nall models", "4\nadaptive", "5\ngradient", "6\ndata set")

Progress = Callable[[str], None]

TITLE = "Six adversaries against DP-SGD"


@dataclass(frozen=True, eq=False)
class GameSetting:
    """What the adversaries play against.

    Attributes:
        name: of the data.
        data: what is trained on, and what the adversary has.
        n_classes: of the labels.

    """

    name: str
    data: Data
    n_classes: int

    @property
    def n_features(self) -> int:
        """The number of features of a record."""
        return self.data.records.X.shape[1]


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = np.asarray(X) / np.linalg.norm(X, axis=1, keepdims=True)
    return Dataset(X, np.asarray(y), X[:0], y[:0], 1.0, tuple(range(10)))


DATA: dict[str, tuple[str, Callable[[], Dataset]]] = {
    "mnist": ("MNIST", load_mnist),
    "digits": ("digits", _digits),
    "location30": ("Location-30", lambda: load_location30(n_train=5010)),
    "adult": ("Adult", load_adult),
    "cifar10": ("CIFAR-10", load_cifar10),
    "purchase100": ("Purchase-100", load_purchase100),
}


def usual_data() -> str:
    """MNIST where its folder is known, else digits."""
    return "mnist" if is_there("mnist") else "digits"


def is_there(data: str) -> bool:
    """Whether the folder of a data set is known: nothing is fetched."""
    root = os.environ.get(VARIABLE)
    return bool(root) and (Path(str(root)) / data).is_dir()


@lru_cache(maxsize=4)
def setting(data: str, n_records: int = 2000) -> GameSetting:
    """So many records of a data set, or nearly half of a small one; as many for the adversary."""
    name, load = DATA[_check.choice("data", data, tuple(DATA))]
    found = load()
    n = min(n_records, 800) if data == "digits" else n_records
    order = np.random.default_rng(0).permutation(len(found.y_train))[: 2 * n]
    X = found.X_train[order]
    X = X * (LENGTH / np.linalg.norm(X, axis=1).mean())
    y = np.asarray(found.y_train[order])
    own, others = (nets.Records(X[part], y[part]) for part in (slice(n), slice(n, None)))
    return GameSetting(name, Data(own, others), len(found.classes))


@lru_cache(maxsize=16)
def noise_multiplier(epsilon: float) -> float:
    """The least noise that is proved to meet (epsilon, 1e-5)-DP."""
    target = ApproxDP(epsilon, DELTA)
    return calibrate(lambda noise: dp_sgd_event(noise, RATE, STEPS), target=target)


@lru_cache(maxsize=16)
def curve(epsilon: float) -> PrivacyCurve:
    """What the accountant allows a training with that noise."""
    return account(dp_sgd_event(noise_multiplier(epsilon), RATE, STEPS))


def make_network(where: GameSetting, hidden: Hidden = 0) -> nets.Network:
    """A softmax model, one with so many hidden units, or convolutions on square images."""
    ends = where.n_features, where.n_classes
    if hidden == "cnn":
        side = math.isqrt(where.n_features)
        if side**2 != where.n_features or side < 8:
            raise InvalidArgument(
                f"cnn=True is for images of 8 x 8 pixels or more; {where.name} has none. Leave it "
                "out, or take --data mnist or digits."
            )
        return nets.cnn((side, side, 1), (8, 16), n_classes=where.n_classes)
    return nets.mlp([ends[0], hidden, ends[1]]) if hidden else nets.softmax(*ends)


def training(epsilon: float, where: GameSetting, hidden: Hidden = 0) -> nets.Training:
    """A training of one of the networks, calibrated to epsilon."""
    network = make_network(where, hidden)
    return nets.Training(
        network, STEPS, CLIP, noise_multiplier(epsilon), LEARNING_RATE, sampling_rate=RATE
    )


# The six.


@dataclass(frozen=True, eq=False)
class Played:
    """One adversary at one epsilon.

    Attributes:
        game: its trials.
        free: the bound that assumes nothing, at 0.95 like the next two.
        family: the one that takes the training for DP-SGD.
        steps: what few trainings show by their steps, where a gradient is inserted.
        surely: the largest that all games together show at 0.95; known only if one of the three
            is above epsilon.

    """

    game: PlayedGame
    free: LowerBound
    family: LowerBound
    steps: LowerBound | None
    surely: float = 0.0


def play_one(
    name: str,
    epsilon: float,
    where: GameSetting,
    *,
    per_world: int,
    hidden: Hidden = 0,
    store: Path | None = None,
    executor: Any = None,
) -> Played:
    """One adversary's game, its bounds at delta, and for gradients the bound from single steps.

    What is crafted has one seed, so that the natural example is the same at every epsilon; trials
    have another for each, so that their luck is independent.
    """
    adversary, plan, seed = ADVERSARIES[name], training(epsilon, where, hidden), int(1000 * epsilon)
    game = play(
        adversary,
        plan,
        where.data,
        trials=2 * per_world,
        choosing=max(per_world // 2, 4),
        crafted=craft_for(adversary, plan, where.data),
        store=store,
        executor=executor,
        rng=seed,
    )

    def bounds(confidence: float) -> list[LowerBound]:
        found = [*game.bounds(DELTA, confidence).values()]
        if game.crafted.hooks.gradient is not None:
            options: Any = {"trainings": FEW, "store": store, "rng": seed}
            stated: Any = {"delta": DELTA, "confidence": confidence}
            found.append(steps_bound(adversary, plan, where.data, **options, **stated))
        return found

    free, family, *few = bounds(0.95)
    surely = 0.0
    if max(bound.epsilon for bound in (free, family, *few)) > epsilon:
        surely = max(bound.epsilon for bound in bounds(_SURELY))
    return Played(game, free, family, few[0] if few else None, surely)


Grid = dict[tuple[str, float], Played]


def grid(
    where: GameSetting,
    epsilons: tuple[float, ...],
    progress: Progress | None = None,
    **options: Any,
) -> Grid:
    """All six at every epsilon."""
    found = {}
    for epsilon in epsilons:
        for name in ADVERSARIES:
            if progress is not None:
                progress(f"{name} at ε = {epsilon:g}, {_model(options.get('hidden', 0))}")
            found[name, epsilon] = play_one(name, epsilon, where, **options)
    return found


def none_above_claim(found: Grid) -> Claim:
    """Whether every bound is below the epsilon that was proved, and no curve was refuted."""
    n = len(found)
    by_chance = [
        key for key, p in found.items() if max(b.epsilon for b in _bounds(p).values()) > key[1]
    ]
    above = [f"{name} at ε = {e:g}" for (name, e), p in found.items() if p.surely > e]
    refuted = [
        (name, e)
        for (name, e), p in found.items()
        if p.game.verdict(curve(e), confidence=0.999).refuted
    ]
    measured = (
        f"{len(by_chance)} of {n} have a bound above ε at 0.95 each, {len(above)} at 0.95 shared "
        f"by all; the sequential test refutes the accountant's curve in {len(refuted)} of {n} "
        "games at 0.999." + "".join(f" Above: {name}." for name in above)
    )
    return claim_exactly(
        "no adversary shows more than was proved.",
        "no bound is above ε at 0.95 shared by all, and no curve is refuted at 0.999 each.",
        not above and not refuted,
        measured,
    )


def _stated_claims(found: Grid) -> tuple[Claim, ...]:
    games = {key: p.game for key, p in found.items()}
    return stated.claim_results(games, {key: p.free.epsilon for key, p in found.items()})


def _bounds(p: Played) -> dict[str, LowerBound]:
    found = {"clopper-pearson": p.free, "family": p.family, "steps": p.steps}
    return {how: bound for how, bound in found.items() if bound is not None}


def summary_picture(found: Grid, where: GameSetting, hidden: Hidden, per_world: int) -> Picture:
    """The six at each epsilon: what they prove, the most they could, and what was proved."""
    epsilons = sorted({epsilon for _, epsilon in found})
    names, facts = list(ADVERSARIES), {}
    for (name, e), p in found.items():
        facts |= {f"{name} at {e:g}, {how}": b.epsilon for how, b in _bounds(p).items()}
        area = auc(*p.game.evidence.sides(), method="delong")
        facts[f"{name} at {e:g}, auc"] = area.value
    with house_style():
        figure, axes = panels(len(epsilons), width=4.2, height=4.2)
        for ax, e in zip(axes, epsilons, strict=True):
            _draw_six(ax, [found[name, e] for name in names], e)
        axes[0].set(ylabel="ε")
        axes[0].legend(loc="upper left")
    title = f"What each adversary proves, {_model(hidden)} on {where.name}"
    curves = {
        f"{name} at {e:g}": {
            "distinguisher": p.game.distinguisher,
            "worlds": p.game.evidence.worlds,
            "scores": p.game.evidence.scores,
        }
        for (name, e), p in found.items()
    }
    return Picture(
        _name("six", hidden),
        title,
        _say(facts, per_world, epsilons),
        figure,
        facts,
        curves,
        (none_above_claim(found), *_stated_claims(found)),
    )


def order_picture(found: Grid, where: GameSetting, hidden: Hidden) -> Picture:
    """How well each tells the two worlds apart, beside the best that the proved curve allows."""
    epsilons, names = sorted({epsilon for _, epsilon in found}), list(ADVERSARIES)
    places, facts = np.arange(len(names)), {}
    with house_style():
        figure, (ax,) = panels(1, width=7.0, height=4.2)
        for e, colour in zip(epsilons, cycle(_COLOURS), strict=False):
            areas = [auc(*found[name, e].game.evidence.sides(), method="delong") for name in names]
            values = np.array([a.value for a in areas])
            spread = [values - [a.lower for a in areas], [a.upper for a in areas] - values]
            ax.errorbar(places, values, spread, color=colour, marker="o", label=f"ε = {e:g}")
            facts[f"most at {e:g}"] = most = largest_area(curve(e))
            ax.axhline(most, color=colour, ls=":", lw=1)
        ax.axhline(0.5, color=BLACK, lw=0.8)
        ax.set_xticks(places, _SHORT, fontsize=8)
        ax.set(ylabel="area under the ROC curve", ylim=(0.4, 1.0))
        ax.legend(loc="upper left", ncols=len(epsilons))
    caption = (
        "Areas with DeLong's 95 % intervals; 0.5 is a coin. Dotted: the most that any attack could "
        "reach under the curve that was proved for that ε. The fourth's fresh example is made to "
        "lower the loss of the third's query, and a step along the query's own gradient lowers it "
        "most: where that gradient is longer than the clipping norm, the two are nearly the same."
    )
    title = f"How well each tells the worlds apart, {_model(hidden)} on {where.name}"
    name = _name("order", hidden)
    claims = stated.claim_orders({key: p.game for key, p in found.items()})
    return Picture(name, title, caption, figure, facts, {}, claims)


RESTRICTIONS = {
    "natural example\nonly": ("API access", "static poison"),
    "last model\nonly": ("static poison", "intermediate poison"),
    "one example\nfor all steps": ("intermediate poison", "adaptive poison"),
    "examples,\nno gradients": ("adaptive poison", "gradient"),
    "ordinary\ndata set": ("gradient", "malicious data"),
}


def epsilon_of_area(area: float) -> float:
    """The epsilon at delta of the Gaussian trade-off with that area under its ROC curve.

    The area of μ-GDP is Φ(μ/√2). An estimate, not a bound.

    >>> round(epsilon_of_area(float(special.ndtr(0.9249309 / 2**0.5))), 3)
    4.0

    """
    mu = math.sqrt(2) * float(special.ndtri(min(max(area, 0.5), 1 - 1e-9)))
    return float(GDP(mu).epsilon(DELTA)) if mu > 1e-6 else 0.0


def restrictions_picture(found: Grid, where: GameSetting, hidden: Hidden) -> Picture:
    """What each single restriction of the adversary takes away, in epsilon."""
    epsilons = sorted({epsilon for _, epsilon in found})
    shown = {
        key: epsilon_of_area(auc(*p.game.evidence.sides(), method="delong").value)
        for key, p in found.items()
    }
    worth = {
        name: np.array([shown[strong, e] - shown[weak, e] for e in epsilons])
        for name, (weak, strong) in RESTRICTIONS.items()
    }
    with house_style():
        figure, (ax,) = panels(1, width=7.4, height=4.2)
        width, places = 0.8 / len(epsilons), np.arange(len(worth))
        for i, (e, colour) in enumerate(zip(epsilons, cycle(_COLOURS), strict=False)):
            heights = [row[i] for row in worth.values()]
            ax.bar(places + width * (i - 1), heights, width, color=colour, label=f"ε = {e:g}")
        ax.axhline(0, color=BLACK, lw=0.8)
        ax.set_xticks(places, list(worth), fontsize=8)
        ax.set(ylabel="ε that it takes away")
        ax.legend()
    facts = {
        f"{name.replace(chr(10), ' ')} at {e:g}": float(row[i])
        for name, row in worth.items()
        for i, e in enumerate(epsilons)
    }
    caption = (
        "The notes ask which further assumptions on the adversary are fruitful. Every bar is what "
        "the next stronger of the six shows more if that one restriction is lifted: ε at δ = 1e-5 "
        "of the Gaussian trade-off with the measured area under the ROC curve, an estimate. Bars "
        "below 0 are chance, or a distinguisher that loses by more to look at."
    )
    claims = (_claim_fruitful(found),)
    title = f"What each restriction is worth, {_model(hidden)} on {where.name}"
    return Picture(_name("restrictions", hidden), title, caption, figure, facts, {}, claims)


def _claim_fruitful(found: Grid) -> Claim:
    games = {key: p.game for key, p in found.items()}
    lifted = stated.compare_areas(games, "adaptive poison", "gradient")
    other = stated.compare_areas(games, "static poison", "intermediate poison")
    return Claim(
        "To restrict the adversary to examples instead of gradients is promising; to hide "
        "intermediate models is not.",
        "lifting the first adds more to the area under the ROC curve than lifting the second, "
        "intervals apart; fails if less.",
        decide(lifted.low > other.high, lifted.high < other.low),
        f"the first adds {lifted}, the second {other}.",
    )


QUERIES, QUERY_EPSILON = 12, 10.0


def play_query(
    where: GameSetting,
    per_world: int,
    number: int,
    *,
    store: Path | None = None,
    executor: Any = None,
) -> PlayedGame:
    """The first adversary's game at ε = 10 against a softmax model, with one of many queries."""
    adversary, plan = ADVERSARIES["API access"], training(QUERY_EPSILON, where)
    return play(
        adversary,
        plan,
        where.data,
        trials=2 * per_world,
        crafted=craft_for(adversary, plan, where.data, rng=100 + number),
        store=store,
        executor=executor,
        rng=200 + number,
    )


def queries_picture(
    where: GameSetting,
    per_world: int,
    *,
    queries: int = QUERIES,
    store: Path | None = None,
    executor: Any = None,
) -> Picture:
    """The first adversary with other queries: the area of each, and of all trials together."""
    sides = [
        play_query(where, per_world, i, store=store, executor=executor).evidence.sides()
        for i in range(queries)
    ]
    areas = np.array([auc(*both, method="delong").value for both in sides])
    pooled = auc(*(np.concatenate(part) for part in zip(*sides, strict=True)), method="delong")
    with house_style():
        figure, (ax,) = panels(1, width=6.0, height=3.6)
        ax.plot(np.arange(1, queries + 1), np.sort(areas), "o", color=BLUE, label="one query")
        ax.axhline(pooled.value, color=ORANGE, label="a query drawn for the trial")
        ax.axhspan(pooled.lower, pooled.upper, color=ORANGE, alpha=0.2, lw=0)
        ax.axhline(0.5, color=BLACK, lw=0.8)
        ax.set(xlabel="queries, sorted", ylabel="area under the ROC curve", ylim=(0, 1))
        ax.legend()
    facts = {"pooled": pooled.value, "least": float(areas.min()), "most": float(areas.max())}
    facts |= {"deviation": float(areas.std(ddof=1))}
    by_chance = math.sqrt((2 * per_world + 1) / (12 * per_world**2))
    caption = (
        f"{queries} held-out records as queries of the first adversary at ε = {QUERY_EPSILON:g}, "
        f"about {per_world} trainings of each world for each, softmax. Areas of single queries "
        f"deviate by {facts['deviation']:.3f} (by chance alone {by_chance:.3f}). The line: one "
        "threshold for the losses of all queries, as if each trial drew its own; every query "
        f"serves {2 * per_world} trials."
    )
    claim = Claim(
        "With a fresh query the adversary with API access does not fare better than chance.",
        f"the area of all trials together is 0.5 ± {stated.COIN:g}, with its 95 % interval; fails "
        "if the interval is outside.",
        decide(
            abs(pooled.lower - 0.5) <= stated.COIN and abs(pooled.upper - 0.5) <= stated.COIN,
            pooled.lower > 0.5 + stated.COIN or pooled.upper < 0.5 - stated.COIN,
        ),
        f"it is {pooled.value:.3f} in [{pooled.lower:.3f}, {pooled.upper:.3f}].",
    )
    title = "One query, and a fresh one for every trial"
    return Picture("queries", title, caption, figure, facts, {"areas": areas}, (claim,))


TASKS = ("adult", "mnist", "location30")  # of 2, 10 and 30 classes


def tasks_picture(
    per_world: int, n_records: int, *, store: Path | None = None, executor: Any = None
) -> Picture | None:
    """The first adversary on tasks of more and more classes; None with fewer than two data sets."""
    found = {}
    for data in filter(is_there, TASKS):
        where = setting(data, n_records)
        sides = [
            play_query(where, per_world, i, store=store, executor=executor).evidence.sides()
            for i in range(QUERIES)
        ]
        pooled = [np.concatenate(part) for part in zip(*sides, strict=True)]
        found[where] = auc(*pooled, confidence=0.99, method="delong")
    if len(found) < 2:
        return None
    with house_style():
        figure, (ax,) = panels(1, width=5.0, height=3.6)
        x = [where.n_classes for where in found]
        values = np.array([area.value for area in found.values()])
        spread = [values - [a.lower for a in found.values()], [a.upper for a in found.values()]]
        ax.errorbar(x, values, [spread[0], spread[1] - values], fmt="o", color=BLUE)
        for where, value in zip(found, values, strict=True):
            ax.annotate(where.name, (where.n_classes, value), (6, 6), textcoords="offset points")
        ax.axhline(0.5, color=BLACK, lw=0.8)
        ax.set(xscale="log", xlabel="classes", ylabel="area under the ROC curve")
    (first, low), *_, (last, high) = found.items()
    claim = Claim(
        "As the tasks get more complex, the leakage to the adversary with API access increases.",
        "its area under the ROC curve is larger on the task of most classes than on that of "
        "fewest, 99 % intervals apart; fails if smaller.",
        decide(high.lower > low.upper, high.upper < low.lower),
        f"{high.value:.3f} in [{high.lower:.3f}, {high.upper:.3f}] on {last.name} "
        f"({last.n_classes} classes), {low.value:.3f} in [{low.lower:.3f}, {low.upper:.3f}] on "
        f"{first.name} ({first.n_classes}).",
    )
    caption = (
        f"{QUERIES} queries on each data set at ε = {QUERY_EPSILON:g}, about {per_world} trainings "
        "of each world for each, softmax; one threshold for all. Complexity is taken as the number "
        "of classes; the data sets differ in more than that."
    )
    facts = {where.name: area.value for where, area in found.items()}
    title = "Leakage and the complexity of the task"
    return Picture("tasks", title, caption, figure, facts, {}, (claim,))


def largest_area(curve: PrivacyCurve) -> float:
    """The largest area under the ROC curve that a privacy curve allows, rounded up.

    1 less the integral of the trade-off function, which falls: its values at the right ends of a
    grid sum to less than the integral.
    """
    grid = np.linspace(0, 1, 1001)[1:]
    return 1 - float(np.mean(curve.tradeoff(grid)))


def _model(hidden: Hidden) -> str:
    if hidden == "cnn":
        return "a convolutional network"
    return f"a network with {hidden} hidden units" if hidden else "a softmax model"


def _name(name: str, hidden: Hidden) -> str:
    if hidden == "cnn":
        return f"{name}-cnn"
    return f"{name}-mlp{hidden}" if hidden else name


def _draw_six(ax: Any, six: list[Played], epsilon: float) -> None:
    places = np.arange(len(six))
    ax.bar(places, [p.free.epsilon for p in six], 0.6, color=BLUE, label="proved, nothing assumed")
    ax.plot(places, [p.family.epsilon for p in six], "D", color=ORANGE, label="if it is DP-SGD")
    few = [(i, p.steps.epsilon) for i, p in enumerate(six) if p.steps is not None]
    ax.plot(*zip(*few, strict=True), "*", ms=11, color=GREEN, label=f"steps of {FEW} trainings")
    ax.axhline(epsilon, color=RED, label="the accountant's ε")
    ax.axhline(six[0].free.ceiling, color=BLACK, ls=":", lw=1, label="most that bars could show")
    ax.set_xticks(places, _SHORT, fontsize=8)
    ax.set(title=f"ε = {epsilon:g}", ylim=(0, 1.45 * max(epsilon, six[0].free.ceiling)))


def _say(facts: dict[str, float], per_world: int, epsilons: list[float]) -> str:
    e = 4.0 if 4.0 in epsilons else epsilons[-1]
    last = "malicious data"
    return (
        f"About {per_world} trainings in each world for every bar. Bars: Clopper-Pearson at 95 %, "
        "every threshold paid for. Diamonds: the least noise that the scores leave possible, if "
        "the training is DP-SGD of this rate and length. Stars: the gradient "
        f"in half of the steps of {FEW} trainings, composed from below. At ε = {e:g} the last "
        "adversary shows "
        f"{facts[f'{last} at {e:g}, clopper-pearson']:.2f}, "
        f"{facts[f'{last} at {e:g}, family']:.2f} and {facts[f'{last} at {e:g}, steps']:.2f}. "
        "What is between bar and line is mostly the price of few trials at so small a δ, not the "
        "attack: the likelihood ratio of the last adversary is the best that there is."
    )


# One training.

_KINDS = {
    "Dirac canaries, every sum seen": (dirac_canaries, BLUE),
    "mislabelled examples, last model": (mislabelled_canaries, ORANGE),
}


def one_run_picture(
    where: GameSetting,
    epsilons: tuple[float, ...] = EPSILONS,
    canaries: int = CANARIES,
    repeats: int = 1,
    store: Path | None = None,
) -> Picture:
    """Bounds from single trainings with many canaries, against the epsilon that was proved."""
    found: dict[str, FloatArray] = {}
    for name, (make, _) in _KINDS.items():
        rows = []
        for epsilon in epsilons:
            game = make(training(epsilon, where), where.data, canaries)
            bounds = [game.bound(delta=DELTA, store=store, rng=seed) for seed in range(repeats)]
            rows.append([b.epsilon for b in bounds])
        found[name] = np.array(rows)
    with house_style():
        figure, (ax,) = panels(1, width=6.0, height=4.2)
        ax.plot(epsilons, epsilons, color=RED, label="the accountant's ε")
        for name, (_, colour) in _KINDS.items():
            ax.plot(epsilons, found[name].mean(axis=1), "o-", color=colour, label=name)
            ax.plot(epsilons, found[name], ".", ms=4, color=colour, alpha=0.6)
        ax.set(
            xscale="log", yscale="symlog", xlabel="ε", ylabel="ε̂ from one training", ylim=(0, 12)
        )
        ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        ax.legend()
    facts = {
        f"{name} at {e:g}": float(row.mean())
        for name, table in found.items()
        for e, row in zip(epsilons, table, strict=True)
    }
    caption = (
        f"Each point is one training with {canaries} canaries, each in by a fair coin (Steinke et "
        f"al. 2023, 95 %); lines are means of {repeats}. Who sees every noisy sum along canaries "
        "that nothing else touches proves most; who asks the last model for the losses of "
        "mislabelled examples proves little. One training cannot be tight here: all canaries are "
        "guessed at one level."
    )
    above = sum(int((table > np.array(epsilons)[:, None]).sum()) for table in found.values())
    n = 2 * len(epsilons) * repeats
    share = estimate_share(above, n)
    claim = Claim(
        "a bound from one training exceeds the proved ε no more often than it may.",
        "the share of them is at most 0.05, with its interval; fails if it is above.",
        judge_below(share, 0.05),
        f"{above} of {n} do, a share of {share}.",
    )
    title = "Many canaries in one training"
    return Picture("one-run", title, caption, figure, facts, {"bounds": found}, (claim,))


# All of it.


def run(
    folder: Path,
    *,
    image_format: str = "svg",
    data: str | None = None,
    full: bool = False,
    quick: bool = False,
    progress: Progress | None = None,
    epsilons: tuple[float, ...] = EPSILONS,
    hidden: tuple[Hidden, ...] | None = None,
    cnn: bool = False,
    per_world: int | None = None,
    n_records: int = 2000,
    canaries: int = CANARIES,
    workers: int | None = None,
    executor: Players = None,
) -> list[Path]:
    """The files written: the figures, ``capabilities.txt``, ``numbers.json`` and ``index.html``.

    Args:
        folder: where to; it also keeps the trainings, ``trials.db``.
        image_format: "svg" or "png".
        data: a name of ``DATA``; None for MNIST where it is there, else digits.
        full: 1000 trainings of each world instead of 200.
        quick: 60 of them, and the softmax model alone.
        progress: called with what is played next.
        epsilons: at which to play.
        hidden: hidden units of the networks, figures for each; None for 0 and 32, or 0 if quick.
        cnn: a convolutional network too, for images; hours on MNIST.
        per_world: trainings of each world, about; None for 200, 1000 or 60.
        n_records: of the data set.
        canaries: of one training.
        workers: processes; None for one per core, 1 plays in this one.
        executor: who plays instead, see :func:`dpassay.runs.play`.

    """
    where = setting(data or usual_data(), n_records)
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "trials.db"
    usual = PER_WORLD_FULL if full else PER_WORLD_QUICK if quick else PER_WORLD
    n = usual if per_world is None else per_world
    if hidden is None:
        hidden = HIDDEN[:1] if quick else HIDDEN
    hidden = (*hidden, "cnn") if cnn else hidden
    pictures = []
    with hire(executor, workers) as crew:  # through all games: what they compile is compiled once
        for units in hidden:
            options = {"per_world": n, "hidden": units, "store": store, "executor": crew}
            found = grid(where, epsilons, progress, **options)
            pictures.append(order_picture(found, where, units))
            pictures.append(summary_picture(found, where, units, n))
            pictures.append(restrictions_picture(found, where, units))
        if progress is not None:
            progress("fresh queries")
        few = max(n // 5, 10)
        pictures.append(queries_picture(where, few, store=store, executor=crew))
        if data is None:  # of the user's choice there is one task alone
            tasks = tasks_picture(few, n_records, store=store, executor=crew)
            pictures += [tasks] if tasks is not None else []
    pictures.append(one_run_picture(where, epsilons, canaries, REPEATS, store))
    files = save_all(
        pictures, folder, title=TITLE, introduction=_introduction(where), image_format=image_format
    )
    return [*files, _files.write(folder / "capabilities.txt", capabilities() + "\n")]


def _introduction(where: GameSetting) -> str:
    return (
        f"{len(where.data.records)} records of {where.name}, {STEPS} steps on Poisson batches of "
        f"rate {RATE}, noise calibrated to ε at δ = {DELTA:g}. The query of the first adversary "
        "is one held-out record, drawn once. What each may see and change is in "
        "capabilities.txt; the plotted numbers are in numbers.json."
    )
