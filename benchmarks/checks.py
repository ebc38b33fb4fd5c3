"""What ``dpassay check`` says about dpassay's mechanisms, learners and synthesizers.

``python -m benchmarks.checks`` prints one line each. All of them are honest, so a finding is a
fault of the check or of the method: none may be flagged.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import dpassay as da

N, EPSILON, DELTA = 60, 1.0, 1e-5
_RNG = np.random.default_rng(1)
X = np.clip(_RNG.normal(size=(N, 3)) / 3, -1, 1)
Y = np.clip(X[:, 0], -1, 1)
CLASSES = (Y > 0).astype(int)
FRAME = pd.DataFrame({"a": _RNG.integers(0, 3, N), "b": _RNG.integers(0, 2, N)})
SCHEMA = da.synth.Schema({"a": range(3), "b": range(2)})
BOUNDS = (-np.ones(3), np.ones(3))

LEARNERS: dict[str, Callable[..., Any]] = {
    "ridge": lambda rng: da.learn.PrivateRidge(
        EPSILON, DELTA, bounds=BOUNDS, target_bound=1.0, n_records=N, random_state=rng
    ),
    "lasso": lambda rng: da.learn.PrivateLasso(
        EPSILON, DELTA, bounds=BOUNDS, target_bound=1.0, n_records=N, random_state=rng, steps=5
    ),
    "logistic": lambda rng: da.learn.PrivateLogisticRegression(
        EPSILON, DELTA, bounds=BOUNDS, classes=[0, 1], n_records=N, random_state=rng, max_iter=5
    ),
}
SYNTHESIZERS: dict[str, dict[str, Any]] = {
    "MWEM": {"rounds": 3},
    "DualQuery": {"rounds": 3, "samples": 5},
    "FEM": {},
    "SepFEM": {},
    "DQRS": {"rounds": 3, "samples": 5},
    "FrankWolfe": {"steps": 4},
    "BLR": {"size": 3},
    "NoisyMarginals": {},
}


def _total(data: Any) -> float:
    return float(np.clip(data, 0, 1).sum())


def _votes(data: Any) -> Any:
    return np.histogram(data, 4, (-1, 1))[0]


MECHANISMS: dict[str, Callable[..., Any]] = {
    "laplace": lambda x, rng: da.mechanisms.laplace(
        _total(x), sensitivity=1, epsilon=EPSILON, rng=rng
    ),
    "gaussian": lambda x, rng: da.mechanisms.gaussian(
        _total(x), sensitivity=1, epsilon=EPSILON, delta=DELTA, rng=rng
    ),
    **{
        name: lambda x, rng, name=name: getattr(da.mechanisms, name)(
            _votes(x), sensitivity=1, epsilon=EPSILON, rng=rng
        )
        for name in ("exponential", "report_noisy_max", "permute_and_flip")
    },
    "randomized_response": lambda x, rng: da.mechanisms.randomized_response(
        (np.asarray(x) > 0).astype(int), n_categories=2, epsilon=EPSILON, rng=rng
    ),
}


def subjects() -> dict[str, tuple[Callable[..., Any], Any, Any]]:
    """By name: a mechanism, its data, and its bounds."""
    found: dict[str, tuple[Callable[..., Any], Any, Any]] = {}
    for name, release in MECHANISMS.items():
        found[name] = (release, Y, (-1.0, 1.0))
        found[f"{name}, exact"] = (_exact(release), Y, (-1.0, 1.0))
    for name, make in LEARNERS.items():
        data = (X, CLASSES if name == "logistic" else Y)
        found[name] = (_learning(make), data, (-1.0, 1.0))
    for name, options in SYNTHESIZERS.items():
        found[name] = (_synthesizing(name, options), FRAME, None)
    return found


def _exact(release: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: release(x, None)


def _learning(make: Callable[..., Any]) -> Callable[..., Any]:
    def train(data: Any, rng: Any) -> Any:
        model = make(rng).fit(*data)
        return model.coef_, model.intercept_

    return train


def _synthesizing(name: str, options: dict[str, Any]) -> Callable[..., Any]:
    def fit(frame: Any, rng: Any) -> Any:
        workload = da.synth.Workload.marginals([("a", "b")])
        more = {} if name == "BLR" else {"delta": DELTA}
        method = getattr(da.synth, name)(
            SCHEMA, workload, epsilon=EPSILON, rng=rng, n_records=N, **more, **options
        )
        return method.fit(frame).answer(workload)

    return fit


def check_one(name: str, limit: int = 8) -> Any:
    """The check of one method against its own claim."""
    mechanism, data, bounds = subjects()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Randomized response answers for every record: who answers is public.
        relation = "replace-one" if name.startswith("randomized") else "add-remove"
        claim = da.ApproxDP(EPSILON, DELTA, neighbouring=relation)
        return da.check(mechanism, data, claim, bounds=bounds, limit=limit)


def main() -> None:
    """Print what the check says, one line per method, and how many were flagged."""
    words: list[str] = []
    for name in subjects():
        begun = time.perf_counter()
        try:
            found = check_one(name)
        except Exception as error:
            print(f"{name:12} {type(error).__name__}: {error}")
            continue
        word = "FLAGGED" if found.broken else "nothing broken" if found.decided else "open"
        seen = "-" if found.epsilon_seen is None else f"{found.epsilon_seen:.4g}"
        words.append(word)
        print(f"{name:26} {word:15} epsilon seen {seen:8} claimed {EPSILON:g}  "
              f"{found.executions} executions, {time.perf_counter() - begun:.1f} s")  # fmt: skip
        if word != "nothing broken":
            print(f"    {str(found)[:600]}")
    counts = {word: words.count(word) for word in dict.fromkeys(words)}
    print(f"{len(words)} honest methods: {counts}")


if __name__ == "__main__":
    main()
