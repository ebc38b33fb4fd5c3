"""What ``dpassay check`` says about programs of OpenDP, diffprivlib and mbi, with their versions.

``python -m benchmarks.checks_of_libraries`` prints one line each for those that are installed:
diffprivlib is no part of any extra, because it wants an older scikit-learn; neither is mbi.
"""

import importlib.util
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

import dpassay as da

VALUES = np.linspace(0, 1, 40)
CLAIM = da.ApproxDP(1.0, 1e-5)
Release = Callable[..., Any]


def total(x: Any) -> float:
    """A sum that one record moves by 1."""
    return float(np.clip(x, 0, 1).sum())


def of_opendp() -> dict[str, tuple[Release, Any, Any]]:
    """By name: a release, its data and its claim."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    number = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    records = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    laplace, gauss = dp.m.make_laplace(*number, 1.0), dp.m.make_gaussian(*number, 1.0)
    chain = records >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum() >> dp.m.then_laplace(1.01)
    return {
        "laplace": (lambda x: laplace(total(x)), VALUES, CLAIM),
        "gaussian": (lambda x: gauss(total(x)), VALUES, da.ZCDP(0.5)),
        "clamp, sum, laplace": (lambda x: chain([*map(float, x)]), VALUES, CLAIM),
    }


def of_diffprivlib() -> dict[str, tuple[Release, Any, Any]]:
    """The same; the regression is that of its issue 105."""
    made: Any = importlib.import_module("diffprivlib.mechanisms")
    models: Any = importlib.import_module("diffprivlib.models")
    one, ends = {"epsilon": 1.0, "sensitivity": 1.0}, {"lower": 0.0, "upper": 40.0}
    kinds = {
        "Laplace": one, "LaplaceTruncated": one | ends, "LaplaceFolded": one | ends,
        "LaplaceBoundedDomain": one | ends, "LaplaceBoundedNoise": one | {"delta": 1e-5},
        "Staircase": one, "Snapping": one | ends, "Gaussian": one | {"delta": 1e-5},
        "GaussianAnalytic": one | {"delta": 1e-5},
    }  # fmt: skip
    found: dict[str, tuple[Release, Any, Any]] = {
        name: (lambda x, name=name: getattr(made, name)(**kinds[name]).randomise(total(x)), VALUES,
               CLAIM) for name in kinds
    }  # fmt: skip
    for name in ("Exponential", "PermuteAndFlip"):
        found[name] = (lambda x, name=name: getattr(made, name)(**one, utility=_votes(x))
                       .randomise(), VALUES, CLAIM)  # fmt: skip
    rng = np.random.default_rng(0)
    data = np.abs(rng.normal(size=(40, 2)).clip(-1, 1)), (rng.random(40) > 0.5).astype(float)
    found["LinearRegression, bounds (0, 2)"] = (
        lambda d: models.LinearRegression(
            epsilon=1, bounds_X=(0, 2), bounds_y=(0, 1), fit_intercept=False
        ).fit(*d).coef_, data, CLAIM,
    )  # fmt: skip
    return found


def of_mbi() -> dict[str, tuple[Release, Any, Any]]:
    """Noisy marginals and the model that mbi estimates from them; and the same with half the noise.

    Its marginals are arrays of JAX. NumPy's noise is followed where it meets NumPy's arrays.
    """
    mbi: Any = importlib.import_module("mbi")
    domain = mbi.Domain(("a", "b"), (3, 3))
    cliques = ("a",), ("b",), ("a", "b")

    def measure(data: Any, rng: Any, deviation: float, convert: Callable[[Any], Any]) -> Any:
        table = mbi.Dataset(dict(zip("ab", data.astype(int).T, strict=True)), domain)
        exact = [convert(table.project(clique).datavector()) for clique in cliques]
        noisy = [x + rng.normal(scale=deviation, size=np.shape(x)) for x in exact]
        measured = [
            mbi.LinearMeasurement(y, clique, deviation)
            for y, clique in zip(noisy, cliques, strict=True)
        ]
        model = mbi.estimation.MirrorDescent().estimate(domain, measured, iters=20)
        return np.asarray(model.project(("a", "b")).datavector())

    data, claim = np.stack([np.arange(40) % 3, np.arange(40) % 2], axis=1), da.GDP(mu=3**0.5 / 2)
    return {
        "marginals and model": (lambda d, rng: measure(d, rng, 2.0, np.asarray), data, claim),
        "with half the noise": (lambda d, rng: measure(d, rng, 1.0, np.asarray), data, claim),
        "noise on arrays of JAX": (lambda d, rng: measure(d, rng, 2.0, lambda x: x), data, claim),
    }


def _votes(x: Any) -> list[float]:
    return [float(v) for v in np.histogram(x, 3, (0, 1))[0]]


def main() -> None:
    """Print what the check says about each."""
    libraries = {"opendp": of_opendp, "diffprivlib": of_diffprivlib, "mbi": of_mbi}
    for library, subjects in libraries.items():
        if importlib.util.find_spec(library) is None:
            print(f"{library} is not installed")
            continue
        print(library, version(library))
        for name, (release, data, claim) in subjects().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check = da.check(release, data, claim, bounds=(0, 2), limit=10)
            word = "nothing broken" if check.decided else "open"
            if check.broken:
                first = check.findings[0]
                word = f"{first.rule} after {first.execution} executions at {first.site}"
            print(f"  {name:32} epsilon seen {check.epsilon_seen}: {word}")


if __name__ == "__main__":
    main()
