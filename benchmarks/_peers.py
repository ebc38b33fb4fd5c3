"""Synthesizers of other people, each called as its authors' page says; run inside its environment.

    python _peers.py NAME problem.npz rows.npy MINUTES

It imports nothing of dpassay: :mod:`benchmarks.synth_peers` starts it with the interpreter of the
peer's environment. The problem has the codes of a table, the sizes of its columns, epsilon, delta,
a seed and the megabytes that a graphical model may have; the codes of a synthetic table come out,
and the CPU seconds are printed. After so many minutes of CPU time the system ends it.
"""

import itertools
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

Problem = dict[str, Any]


def _named(problem: Problem) -> dict[str, Any]:
    codes = problem["codes"]
    return {f"c{j}": codes[:, j].astype(int) for j in range(codes.shape[1])}


def _sizes(problem: Problem) -> dict[str, int]:
    return {f"c{j}": int(size) for j, size in enumerate(problem["sizes"])}


def _pairs(problem: Problem) -> list[tuple[str, ...]]:
    return list(itertools.combinations(_sizes(problem), 2))


def _graphical(problem: Problem) -> Any:
    import mbi

    return mbi.Dataset(_named(problem), mbi.Domain.fromdict(_sizes(problem)))


def _columns(drawn: Any, problem: Problem) -> Any:
    """The columns of one of mbi's data sets, side by side."""
    found = drawn.to_dict()
    return np.stack([np.asarray(found[name]) for name in _sizes(problem)], axis=1)


def mbi_mst(problem: Problem) -> Any:
    """MST of mbi's folder ``mechanisms``."""
    from mst import MST  # pyright: ignore[reportMissingImports]

    np.random.seed(problem["seed"])  # noqa: NPY002
    return _columns(MST(_graphical(problem), problem["epsilon"], problem["delta"]), problem)


def mbi_aim(problem: Problem) -> Any:
    """AIM of the same folder, for all pairs."""
    from aim import AIM  # pyright: ignore[reportMissingImports]

    prng = np.random.RandomState(problem["seed"])
    limits = {"max_model_size": problem["megabytes"], "prng": prng}
    mechanism = AIM(problem["epsilon"], problem["delta"], **limits)
    _, drawn = mechanism.run(
        _graphical(problem),
        [(pair, 1.0) for pair in _pairs(problem)],
        num_synth_rows=len(problem["codes"]),
    )
    return _columns(drawn, problem)


def _of_dpsynth(problem: Problem, inner: Any) -> Any:
    from dpsynth.discrete_mechanisms import DiscreteConfig  # pyright: ignore

    calibrated = DiscreteConfig(mechanism=inner, compress_columns=True).calibrate(
        epsilon=problem["epsilon"], delta=problem["delta"]
    )
    result = calibrated(np.random.default_rng(problem["seed"]), _graphical(problem))
    return _columns(result.synthetic_data, problem)


def dpsynth_aim(problem: Problem) -> Any:
    """AIM under Gaussian privacy, for all pairs."""
    from dpsynth.discrete_mechanisms import AIMGDPConfig  # pyright: ignore

    inner = AIMGDPConfig(workload=_pairs(problem), max_model_size=problem["megabytes"])
    return _of_dpsynth(problem, inner)


def dpsynth_swift(problem: Problem) -> Any:
    """SWIFT for all pairs."""
    from dpsynth.discrete_mechanisms import SWIFTConfig  # pyright: ignore

    return _of_dpsynth(problem, SWIFTConfig(workload=_pairs(problem)))


def _of_dpmm(problem: Problem, pipeline: Any) -> Any:
    import pandas as pd

    made = pipeline(
        epsilon=problem["epsilon"],
        delta=problem["delta"],
        max_model_size=problem["megabytes"],
        n_jobs=1,
        disable_processing=True,
    )
    made.fit(pd.DataFrame(_named(problem)), domain=_sizes(problem), random_state=problem["seed"])
    drawn = made.generate(n_records=len(problem["codes"]), random_state=problem["seed"])
    return drawn[list(_sizes(problem))].to_numpy()


def dpmm_mst(problem: Problem) -> Any:
    """MST of dpmm."""
    from dpmm.pipelines import MSTPipeline  # pyright: ignore

    return _of_dpmm(problem, MSTPipeline)


def dpmm_aim(problem: Problem) -> Any:
    """AIM of dpmm."""
    from dpmm.pipelines import AIMPipeline  # pyright: ignore

    return _of_dpmm(problem, AIMPipeline)


def _of_smartnoise(problem: Problem, name: str, **options: Any) -> Any:
    """The domain is declared by a transformer that has seen every code once, and no record."""
    import pandas as pd
    from snsynth import Synthesizer  # pyright: ignore
    from snsynth.transform import LabelTransformer, TableTransformer  # pyright: ignore

    sizes = _sizes(problem)
    np.random.seed(problem["seed"])  # noqa: NPY002
    every = [[i % size for size in sizes.values()] for i in range(max(sizes.values()))]
    known = TableTransformer([LabelTransformer(nullable=False) for _ in sizes])
    known.fit(every)
    made = Synthesizer.create(name, epsilon=problem["epsilon"], delta=problem["delta"], **options)
    made.fit(pd.DataFrame(_named(problem)), transformer=known)
    return np.asarray(made.sample(len(problem["codes"])), float)


def smartnoise_mst(problem: Problem) -> Any:
    """MST of smartnoise-synth."""
    return _of_smartnoise(problem, "mst")


def smartnoise_aim(problem: Problem) -> Any:
    """AIM of smartnoise-synth."""
    return _of_smartnoise(problem, "aim", max_model_size=problem["megabytes"])


CALLS = {
    "mbi MST": mbi_mst,
    "mbi AIM": mbi_aim,
    "dpsynth AIM-GDP": dpsynth_aim,
    "dpsynth SWIFT": dpsynth_swift,
    "dpmm MST": dpmm_mst,
    "dpmm AIM": dpmm_aim,
    "smartnoise MST": smartnoise_mst,
    "smartnoise AIM": smartnoise_aim,
}


def main(name: str, problem_file: str, rows_file: str, minutes: str) -> None:
    """One synthetic table."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (round(60 * float(minutes)), most))
    with np.load(problem_file) as stored:
        problem = {key: stored[key] for key in stored.files}
    for key in ("epsilon", "delta", "megabytes"):
        problem[key] = float(problem[key])
    problem["seed"] = int(problem["seed"])
    start = time.process_time()
    rows = CALLS[name](problem)
    np.save(Path(rows_file), np.asarray(rows).astype(np.int64))
    print(f"CPU seconds: {time.process_time() - start:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
