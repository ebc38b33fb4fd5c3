"""CSCI 699's debugging case at its own size: canaries, preliminary runs, a threshold, two tests.

As in Tramèr et al. 2022: about 25 canaries (a pattern on an image, a wrong label) are tried on
preliminary trainings, the one that shows most is kept, a threshold is picked on trainings of its
own and frozen, and then (a) the sequential test and (b) errors counted at that threshold decide.
The paper trained 200 000 models that each started elsewhere; here all start from the same public
weights, which an adversary may know, and a few hundred trainings are enough.

``full`` is on MNIST, 60 000 images, for hours; otherwise scikit-learn's digits, for seconds. On so
few digits noise for (0.21, 1e-5) leaves nothing to be learned, so that the fixed version is at
chance there; test accuracies of both are printed. What was trained is kept in a file.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _files, _rng
from dpassay.auditing import audit
from dpassay.bounds import lower_bound_from_counts
from dpassay.datasets import load_mnist
from dpassay.report.figures import BLACK, BLUE, ORANGE, house_style, panels
from dpassay.runs import run_key
from dpassay.types import FloatArray, LowerBound, Verdict
from dpassay_reproduce import backpropagation
from dpassay_reproduce.backpropagation import CLAIM, CLASSES, ClippedCNN, Data, Weights
from dpassay_reproduce.claims import Claim, Picture, claim_exactly, decide

__all__ = ["Canary", "CaseStudy", "Scores", "draw_canaries", "picture", "study"]

CANARIES, DELTA = 25, 1e-5
CONFIDENCE, PAPER_CONFIDENCE = 1 - 1e-6, 1 - 1e-10
PATTERNS = ("checkerboard", "stripes", "cross", "noise", "blank")
Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Canary:
    """An image with a pattern, and a label that is not its own."""

    name: str
    image: FloatArray
    label: int


@dataclass(frozen=True, eq=False)
class CaseStudy:
    """What is trained, on what, and how often.

    Attributes:
        name: of the data.
        network: how training is done; whether it is broken is set for each version.
        data: the records without a canary.
        test: records that accuracies are measured on.
        spare: images that canaries are made of.
        preliminary: trainings with each canary, and as many without any.
        choosing: trainings of each world that the threshold is picked on.
        counting: trainings of each world that errors are counted on.
        sequential: most trainings of the sequential test.

    """

    name: str
    network: ClippedCNN
    data: Data
    test: Data
    spare: Data
    preliminary: int = 2
    choosing: int = 10
    counting: int = 60
    sequential: int = 60


def study(full: bool) -> CaseStudy:
    """MNIST at full size, or digits."""
    return _mnist() if full else _digits()


def _mnist() -> CaseStudy:
    found = load_mnist()
    y, y_test = (np.asarray(part, np.int64) for part in (found.y_train, found.y_test))
    return CaseStudy(
        "MNIST",
        ClippedCNN(),
        (found.X_train, y),
        (found.X_test[:-100], y_test[:-100]),
        (found.X_test[-100:], y_test[-100:]),
        preliminary=1,
    )


def _digits() -> CaseStudy:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = np.asarray(X, float), np.asarray(y, np.int64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    network = ClippedCNN(side=8, n_records=1200, size=3, stride=1, steps=10)
    own, test, spare = (slice(1200), slice(1200, 1700), slice(1700, None))
    parts = (X[own], y[own]), (X[test], y[test]), (X[spare], y[spare])
    return CaseStudy("digits", network, *parts)


def draw_canaries(case: CaseStudy, number: int = CANARIES) -> list[Canary]:
    """Every pattern on a few spare images, each with the label after its own."""
    side, found = case.network.side, []
    for i in range(number):
        pattern = PATTERNS[i % len(PATTERNS)]
        image = np.array(case.spare[0][i // len(PATTERNS)], float).reshape(side, side)
        image = _draw_pattern(image, pattern, np.random.default_rng(i))
        image /= np.linalg.norm(image)
        label = int(case.spare[1][i // len(PATTERNS)] + 1) % CLASSES
        found.append(Canary(f"{pattern} {i // len(PATTERNS)}", image.ravel(), label))
    return found


def _draw_pattern(image: FloatArray, pattern: str, rng: np.random.Generator) -> FloatArray:
    side, top = len(image), float(image.max())
    rows, columns = np.indices(image.shape)
    corner = (rows < side // 2) & (columns < side // 2)
    if pattern == "blank":
        return np.where(corner, top, 0.0)
    marks = {
        "checkerboard": (rows + columns) % 2 == 0,
        "stripes": rows % 2 == 0,
        "cross": (rows == columns) | (rows + columns == side // 2 - 1),
        "noise": rng.random(image.shape) < 0.5,
    }[pattern]
    return np.where(corner, np.where(marks, top, 0.0), image)


@dataclass(frozen=True, eq=False)
class Score:
    """Minus the loss of the canary."""

    network: ClippedCNN
    canary: Canary

    def __call__(self, weights: Weights) -> float:
        """Higher says that the canary was there."""
        return -self.network.loss(weights, self.canary.image, self.canary.label)


@dataclass(frozen=True, eq=False)
class Train:
    """One training, as an audit calls it."""

    network: ClippedCNN

    def __call__(self, data: Data, rng: np.random.Generator) -> Weights:
        """The weights."""
        return self.network.train(data, rng)


class Scores:
    """Scores of trainings by name, in a file that is whole at any time."""

    def __init__(self, path: Path, case: CaseStudy) -> None:
        self.path, self.case = path, case
        configuration = {"data": case.name, "network": repr(case.network)}
        code = [Path(backpropagation.__file__), Path(__file__)]
        self.key = run_key(configuration, code=code)
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.known: dict[str, list[float]] = found["scores"] if found.get("key") == self.key else {}

    def get(self, name: str, number: int, measure: Callable[[int], float]) -> FloatArray:
        """So many numbers of a name; those that are not there are measured now and kept."""
        known = self.known.setdefault(name, [])
        while len(known) < number:
            known.append(measure(len(known)))
            _files.write(self.path, json.dumps({"key": self.key, "scores": self.known}))
        return np.array(known[:number])


@dataclass(frozen=True, eq=False)
class Tested:
    """One version under test.

    Attributes:
        inside: scores with the canary, at the frozen threshold's count.
        outside: scores without.
        threshold: frozen before them.
        bound: from their counts.
        verdict: of the sequential test.
        accuracy: on the test set, of one training without the canary.

    """

    inside: FloatArray
    outside: FloatArray
    threshold: float
    bound: LowerBound
    verdict: Verdict
    accuracy: float


def add(data: Data, canary: Canary) -> Data:
    """The data set with the canary as its last record."""
    return np.vstack([data[0], canary.image]).astype(data[0].dtype), np.append(
        data[1], canary.label
    )


def choose_canary(
    case: CaseStudy, kept: Scores, canaries: list[Canary], progress: Progress
) -> tuple[Canary, dict[str, float]]:
    """The canary whose loss falls most, in deviations, on preliminary trainings of the bug."""
    network = replace(case.network, broken=True)
    plain = [
        _plain_losses(case, kept, canaries, network, i) for i in range(max(case.preliminary, 3))
    ]
    spread = np.std(plain, axis=0, ddof=1) + 1e-12
    found = {}
    for place, canary in enumerate(canaries):
        progress(f"{case.name}: preliminary trainings, canary {place + 1} of {len(canaries)}")
        data = add(case.data, canary)

        def measure(i: int, data: Data = data, canary: Canary = canary) -> float:
            weights = network.train(data, _rng.for_trial(11, i, 1))
            return Score(network, canary)(weights)

        inside = kept.get(f"preliminary {canary.name}", case.preliminary, measure)
        found[canary.name] = float((inside.mean() - np.mean(plain, axis=0)[place]) / spread[place])
    best = max(found, key=lambda name: found[name])
    return next(c for c in canaries if c.name == best), found


def _plain_losses(
    case: CaseStudy, kept: Scores, canaries: list[Canary], network: ClippedCNN, i: int
) -> FloatArray:
    """The scores of all canaries in one training without any."""
    weights: list[Weights] = []

    def measure(place: int) -> float:
        if not weights:
            weights.append(network.train(case.data, _rng.for_trial(10, i, 0)))
        return Score(network, canaries[place])(weights[0])

    return kept.get(f"preliminary, none {i}", len(canaries), measure)


def judge_version(
    case: CaseStudy, kept: Scores, canary: Canary, broken: bool, store: Path, progress: Progress
) -> Tested:
    """Pick a threshold, freeze it, count errors on other trainings, and bet in sequence."""
    network = replace(case.network, broken=broken)
    score, pair = Score(network, canary), (add(case.data, canary), case.data)
    version = "broken" if broken else "fixed"

    def scores(what: str, world: int, number: int, seed: int) -> FloatArray:
        def measure(i: int) -> float:
            progress(f"{case.name}, {version}: {what}, {i + 1} of {number}")
            return score(network.train(pair[world], _rng.for_trial(seed, i, world)))

        return kept.get(f"{version} {what} {world} {canary.name}", number, measure)

    chosen = [scores("choosing", world, case.choosing, 12) for world in (0, 1)]
    threshold = pick_threshold(*chosen)
    inside, outside = (scores("counting", world, case.counting, 13) for world in (0, 1))
    progress(f"{case.name}, {version}: the sequential test")
    verdict = audit(
        Train(network),
        pair,
        claim=CLAIM,
        score=score,
        trials=case.sequential,
        confidence=CONFIDENCE,
        store=store,
        rng=14,
    )
    measured = kept.get(
        f"{version} accuracy",
        1,
        lambda i: network.accuracy(network.train(case.data, _rng.for_trial(15, i, 0)), case.test),
    )
    bound = count_errors(inside, outside, threshold, PAPER_CONFIDENCE)
    return Tested(inside, outside, threshold, bound, verdict, float(measured[0]))


def pick_threshold(inside: FloatArray, outside: FloatArray) -> float:
    """The middle of the gap between the worlds, or the threshold with the fewest errors."""
    cuts = np.sort(np.concatenate([inside, outside]))
    middles = (cuts[1:] + cuts[:-1]) / 2
    errors = [(inside < c).sum() + (outside >= c).sum() for c in middles]
    return float(middles[int(np.argmin(errors))])


def count_errors(
    inside: FloatArray, outside: FloatArray, threshold: float, confidence: float
) -> LowerBound:
    """Clopper-Pearson at a threshold that was frozen before these models were trained."""
    tp, fp = int((inside >= threshold).sum()), int((outside >= threshold).sum())
    return lower_bound_from_counts(
        tp=tp,
        fn=len(inside) - tp,
        fp=fp,
        tn=len(outside) - fp,
        delta=DELTA,
        confidence=confidence,
    )


def picture(case: CaseStudy, folder: Path, progress: Progress) -> Picture:
    """The case from canaries to verdicts, for the broken version and the fixed one."""
    kept = Scores(folder / f"cnn-{case.name}.json", case)
    canaries = draw_canaries(case)
    canary, found = choose_canary(case, kept, canaries, progress)
    tested = {
        name: judge_version(case, kept, canary, name == "broken", folder / "trials.db", progress)
        for name in ("broken", "fixed")
    }
    with house_style():
        figure, axes = panels(3, width=4.2, height=4.0)
        axes[0].plot(np.sort(list(found.values())), "o", color=BLUE)
        axes[0].set(xlabel="canaries, sorted", ylabel="fall of the loss, deviations")
        for ax, (name, t) in zip(axes[1:], tested.items(), strict=True):
            draw_losses(ax, t, f"{name}: ε ≥ {t.bound.epsilon:.2f}")
    facts: dict[str, float] = {"canaries": len(canaries)}
    for name, t in tested.items():
        facts |= {f"{name}_bound": t.bound.epsilon, f"{name}_accuracy": t.accuracy}
        facts |= {f"{name}_trainings": float(t.verdict.trials)}
        facts |= {f"{name}_refuted": float(t.verdict.refuted)}
    curves = {f"{name}_in": -t.inside for name, t in tested.items()}
    curves |= {f"{name}_out": -t.outside for name, t in tested.items()}
    return Picture(
        f"cnn-{case.name}",
        f"The case at its own size: a convolutional network on {case.name}",
        _say(case, canary, tested),
        figure,
        facts,
        curves | {"canaries": np.array(list(found.values()))},
        _claims(case, tested),
    )


def draw_losses(ax: Any, tested: Tested, title: str) -> None:
    """Histograms of the canary's loss in both worlds, and the frozen threshold."""
    inside, outside = -tested.inside, -tested.outside
    edges = np.linspace(min(inside.min(), outside.min()), max(inside.max(), outside.max()), 31)
    ax.hist(inside, edges, color=ORANGE, alpha=0.6, label="trained with the canary")
    ax.hist(outside, edges, color=BLUE, alpha=0.6, label="without")
    ax.axvline(-tested.threshold, color=BLACK, ls=":", label="threshold, from other models")
    ax.set(title=title, xlabel="loss of the canary", ylabel="models")
    ax.legend(fontsize=7)


def _say(case: CaseStudy, canary: Canary, tested: dict[str, Tested]) -> str:
    broken, fixed = tested["broken"], tested["fixed"]
    return (
        f"{case.network.n_records} images of {case.name}, one record more in the other world, "
        f"claim (0.21, 1e-5). Of {CANARIES} canaries tried on preliminary trainings of the bug the "
        f"best is {canary.name}, labelled {canary.label}. Errors at a frozen threshold on "
        f"{case.counting} trainings of each world at 1 - 1e-10: ε ≥ {broken.bound.epsilon:.2f} for "
        f"the published noise (a perfect attack could show {broken.bound.ceiling:.2f}), "
        f"{fixed.bound.epsilon:.2f} put right. The sequential test at 1 - 1e-6: "
        f"{_verdict(broken.verdict)}; {_verdict(fixed.verdict)} put right. Test accuracy "
        f"{broken.accuracy:.3f} and {fixed.accuracy:.3f}."
    )


def _verdict(verdict: Verdict) -> str:
    said = "refuted" if verdict.refuted else "not refuted"
    return f"{said} in {verdict.trials} trainings"


def _claims(case: CaseStudy, tested: dict[str, Tested]) -> tuple[Claim, ...]:
    broken, fixed = tested["broken"], tested["fixed"]
    return (
        Claim(
            "The published back-propagation clipping is (0.21, 1e-5)-DP.",
            "the sequential test does not refute it at 1 - 1e-6 while it refutes nothing put "
            "right; fails if it refutes it. (Not refuted is not proved: not decided.)",
            decide(False, broken.verdict.refuted),
            f"{_verdict(broken.verdict)}, against 200 000 of the paper.",
        ),
        claim_exactly(
            "(Correction) with the sensitivity put right the claim stands.",
            "neither test refutes it.",
            not fixed.verdict.refuted and fixed.bound.epsilon <= 0.21,
            f"{_verdict(fixed.verdict)}; counts show {fixed.bound.epsilon:.2f}.",
        ),
        Claim(
            "It has an accuracy of 0.98 at (0.21, 1e-5).",
            "the fixed version's test accuracy is 0.97 or more; fails if it is below 0.95.",
            decide(fixed.accuracy >= 0.97, fixed.accuracy < 0.95),
            f"{fixed.accuracy:.3f} put right, {broken.accuracy:.3f} as published, for this small "
            f"network on {case.name}.",
        ),
    )
