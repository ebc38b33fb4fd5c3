"""Tables that the tests of several synthesizers are fitted to."""

import numpy as np
import pandas as pd

from dpassay.synth import Categorical, Schema, Workload


def with_impossible_cells():
    """A schema with a rule and a nullable column, a table, and queries that are no marginals."""
    schema = Schema(
        {"a": range(3), "b": Categorical(("x", "y"), nullable=True)},
        impossible=[{"a": 2, "b": "x"}],
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 3, 4000)})
    frame["b"] = np.where(frame["a"] == 2, "y", rng.choice(["x", "y"], 4000))
    workload = Workload.prefixes([("a",)]) + Workload.parities([("a", "b")])
    workload += Workload.conjunctions([{"b": None}])
    return schema, frame, workload


def copying_bits(n=10_000, seed=0):
    """Ten bits that copy their left neighbour, flipped now and then."""
    rng = np.random.default_rng(seed)
    first, flips = rng.random((n, 1)) < 0.4, rng.random((n, 9)) < 0.15
    return np.cumsum(np.concatenate([first, flips], axis=1), axis=1) % 2
