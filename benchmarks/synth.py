"""Private synthetic data: errors of the recommended method and of its peers, and CPU seconds.

    DPASSAY_DATA=folder python -m benchmarks.synth [--quick]

Adult (the discretisation of the synthetic-data literature: 48 842 rows, 14 columns; the folder
holds adult/adult-discrete.csv.gz and adult-discrete-domain.json) with 64 sets of three columns, as
the FEM and GEM repositories choose them, delta = 1/n²; then all 91 pairs and all 364 triples; and
tiny universes of ten bits. Errors are shares of the records: the largest over all queries, and the
mean total variation of a marginal. The peers' rows were measured once, by their authors' code with
settings that fit into a minute (MST: mbi 1.3; AIM: its NumPy form of 2024, .5 MB models).
"""

import itertools
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from dpassay.datasets import load_adult_codes
from dpassay.synth import (
    MWEM,
    FrankWolfe,
    Independent,
    NoisyMarginals,
    ProductMixture,
    Schema,
    Workload,
    compare,
)
from dpassay.synth.models import Records
from dpassay_reproduce.synth.adult import PEERS
from dpassay_reproduce.synth.cells import bits, tiny, triples

EPSILONS = (0.1, 0.25, 0.5, 1.0)
GOALS = {0.1: (0.025, 0.17), 0.25: (0.011, 0.13), 0.5: (0.0075, 0.094), 1.0: (0.0055, 0.066)}


def adult() -> tuple[Schema, Any]:
    """The schema and the codes."""
    sizes, codes = load_adult_codes()
    return Schema({name: range(size) for name, size in sizes.items()}), codes


def measured(method: Any, data: Records, workload: Workload, **options: Any) -> tuple[float, ...]:
    """Largest error and mean total variation of the model, the same of rows, CPU seconds."""
    start = time.process_time()
    fitted = method(data.schema, workload, **options).fit(data.codes)
    seconds = time.process_time() - start
    found = compare(data, fitted.model_, workload)
    errors = (found.max_error, found.mean_total_variation)
    if method is NoisyMarginals:
        return (*errors, np.nan, np.nan, seconds)
    rows = fitted.model_.sample(len(data.codes), np.random.default_rng(options["rng"]))
    drawn = compare(data, Records(data.schema, rows), workload)
    return (*errors, drawn.max_error, drawn.mean_total_variation, seconds)


def row(name: str, cases: Iterable[tuple[float, ...]]) -> None:
    """The worst of several seeds."""
    worst = np.max(list(cases), axis=0)
    print(
        f"{name:>28}  model {worst[0]:.4f}/{worst[1]:.4f}  rows {worst[2]:.4f}/{worst[3]:.4f}"
        f"  {worst[4]:6.1f} s",
        flush=True,
    )


def on_adult(seeds: range) -> None:
    """The 64 triples at every epsilon, then all pairs and all triples."""
    schema, codes = adult()
    data, workload = Records(schema, codes), triples(schema, len(codes))
    print("64 triples: largest error/mean total variation, worst of the seeds")
    for i, epsilon in enumerate(EPSILONS):
        print(f"epsilon {epsilon:g}, goal {GOALS[epsilon][0]}/{GOALS[epsilon][1]}")
        for peer, (largest, variation) in PEERS.items():
            cells = ["-".join(f"{x:.4f}" for x in both[i]) for both in (largest, variation)]
            print(f"{peer:>28}  model {'/'.join(cells)}")
        for method in (Independent, NoisyMarginals, FrankWolfe, ProductMixture):
            options = {"epsilon": epsilon}
            cases = [measured(method, data, workload, rng=seed, **options) for seed in seeds]
            row(method.__name__, cases)
    for k in (2, 3):
        every = Workload.all_marginals(schema, k)
        print(f"all {len(every.blocks)} sets of {k} columns, epsilon 1")
        row("ProductMixture", [measured(ProductMixture, data, every, epsilon=1.0, rng=0)])


def on_tiny_universes(seeds: range) -> None:
    """All triples of ten bits, epsilon = 1, delta = 1/n²."""
    schema = bits(10)
    workload = Workload.all_marginals(schema, 3)
    for kind, method in itertools.product(
        ("product", "mixture", "chain"), (NoisyMarginals, MWEM, FrankWolfe, ProductMixture)
    ):
        cases = [
            measured(method, Records(schema, tiny(kind, seed)), workload, epsilon=1.0, rng=seed)
            for seed in seeds
        ]
        row(f"{kind}, {method.__name__}", cases)


def main(quick: bool = False) -> None:
    """Print all tables."""
    print("ten bits, 960 queries: worst of the seeds")
    on_tiny_universes(range(1 if quick else 3))
    if "DPASSAY_DATA" not in os.environ:
        print("Adult: set DPASSAY_DATA to the folder of data sets")
        return
    on_adult(range(1 if quick else 3))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
