"""Peers on all triples of Adult: MST and AIM on the graphical models of mbi, beside ours.

    pip install mbi
    DPASSAY_DATA=folder python -m benchmarks.synth_peers [--seeds 2] [--epsilon 1] [--only MST]

Both are written here from their papers on mbi's estimator (its package has none of its mechanisms):
MST (McKenna, Miklau and Sheldon 2021) as published; AIM (McKenna et al. 2022) with models of half a
megabyte at most instead of 80 and 100 mirror steps a round instead of 1000, which is what fits into
minutes. Neighbours by add or remove, delta = 1/n², the same epsilon for all. Peers spend rho, as
their papers do; ours is priced more tightly, which at epsilon = 1 is worth some 5 % of the noise.
Errors are those of as many sampled rows as the table has: the largest over all cells, and the mean
total variation.
"""

import argparse
import itertools
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.synth import adult, row
from dpassay.privacy.budget import budget
from dpassay.synth import ProductMixture, Schema, Workload, compare
from dpassay.synth.measurements import on_simplex
from dpassay.synth.models import Records

Names = tuple[str, ...]
MODEL_SIZE = 0.5  # megabytes
STEPS = 100  # of mirror descent in a round of AIM
LAST_STEPS = 1000


def noisy(data: Records, names: Names, sigma: float, rng: np.random.Generator) -> Any:
    """Counts of a marginal with Gaussian noise."""
    counts = data.counts(names)
    return counts + sigma * rng.standard_normal(counts.shape)


def chosen(scores: Any, epsilon: float, rng: np.random.Generator) -> int:
    """The exponential mechanism for scores of sensitivity 1."""
    return int(np.argmax(epsilon / 2 * np.asarray(scores) + rng.gumbel(size=len(scores))))


class Graphical:
    """mbi's model of noisy marginals, with answers by NumPy: JAX would compile every one."""

    def __init__(self, sizes: dict[str, int], n: int) -> None:
        import mbi

        self.mbi, self.n = mbi, n
        self.domain = mbi.Domain.fromdict(sizes)
        self.measured: list[Any] = []
        self.model: Any = None

    def add(self, names: Names, counts: Any, sigma: float, weights: Any = None) -> None:
        """One more noisy marginal; cells may have weights, in units of 1/sigma."""
        given, query = counts.reshape(-1), {}
        if weights is not None:
            given, query = weights * given, {"query": self.mbi.WeightedQuery(weights)}
        self.measured.append(self.mbi.LinearMeasurement(given, names, sigma, **query))

    def fit(self, steps: int) -> None:
        """Mirror descent from where the model is."""
        solver = self.mbi.estimation.MirrorDescent()
        self.model = solver.estimate(
            self.domain, self.measured, known_total=self.n, iters=steps, warm_start=self.model
        )
        self.factors = []
        for clique in self.model.potentials.cliques:
            logs = np.asarray(self.model.potentials[clique].values, float)
            self.factors.append((clique, np.exp(logs - logs.max())))

    def answer(self, names: Names) -> Any:
        """Counts of a marginal, by summing everything else out of the product of the factors."""
        import opt_einsum

        label = {name: i for i, name in enumerate(self.domain.attributes)}
        parts: list[Any] = []
        for clique, factor in self.factors:
            parts += [factor, [label[name] for name in clique]]
        for name in names:
            parts += [np.ones(self.domain[name]), [label[name]]]
        table = opt_einsum.contract(*parts, [label[name] for name in names], optimize="greedy")
        return np.asarray(table) * (self.n / table.sum())

    def size(self, more: Names) -> float:
        """Megabytes of the model if one more marginal were measured."""
        cliques = [m.clique for m in self.measured] + [more]
        return self.mbi.junction_tree.hypothetical_model_size(self.domain, cliques)

    def rows(self, names: Sequence[str], rng: np.random.Generator) -> Any:
        """As many records as there were; mbi draws from NumPy's global generator."""
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002
        drawn = self.model.synthetic_data(rows=self.n)
        return np.stack([np.asarray(drawn.to_dict()[name]) for name in names], axis=1)


# MST.


def mst(data: Records, workload: Workload, rho: float, rng: np.random.Generator) -> Any:
    """Synthetic rows by MST: columns, then a tree of pairs; a third of rho for each step."""
    del workload
    names, n, d = data.schema.names, len(data.codes), len(data.schema.names)
    sigma = math.sqrt(3 * d / (2 * rho))
    singles = {name: noisy(data, (name,), sigma, rng) for name in names}
    kept = {name: np.flatnonzero(counts >= 3 * sigma) for name, counts in singles.items()}
    codes, sizes = merged(data, kept)
    small = Records(Schema({name: range(size) for name, size in sizes.items()}), codes)
    model = Graphical(sizes, n)
    for name, counts in singles.items():
        own, rest = counts[kept[name]], np.delete(counts, kept[name])
        weights = np.ones(sizes[name])
        if len(rest):  # the merged value has the noise of all that it stands for
            own, weights[-1] = np.append(own, rest.sum()), len(rest) ** -0.5
        model.add((name,), own, sigma, weights)
        singles[name] = own
    tree = spanning_tree(small, singles, math.sqrt(8 * rho / 3 / (d - 1)), rng)
    late = math.sqrt(3 * (d - 1) / (2 * rho))
    for pair in tree:
        model.add(pair, noisy(small, pair, late, rng), late)
    model.fit(LAST_STEPS * 2)
    return spread(model.rows(names, rng), names, data.schema, kept, rng)


def merged(data: Records, kept: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """Codes with all values that are not kept made one, and how many values there are then."""
    codes, sizes = np.empty_like(data.codes), {}
    for j, (name, size) in enumerate(zip(data.schema.names, data.schema.sizes, strict=True)):
        new = np.full(size, len(kept[name]))
        new[kept[name]] = np.arange(len(kept[name]))
        codes[:, j] = new[data.codes[:, j]]
        sizes[name] = len(kept[name]) + (len(kept[name]) < size)
    return codes, sizes


def spread(
    codes: Any, names: Names, schema: Schema, kept: dict[str, Any], rng: np.random.Generator
) -> Any:
    """The codes of the true schema; merged values are drawn uniformly."""
    out = np.empty(codes.shape, np.int64)
    for j, name in enumerate(names):
        column = codes[:, j].astype(int)
        rest = np.setdiff1d(np.arange(schema.sizes[j]), kept[name])
        back = np.append(kept[name], 0)
        out[:, j] = back[np.minimum(column, len(kept[name]))]
        rare = column == len(kept[name])
        if rare.any():
            out[rare, j] = rng.choice(rest, rare.sum())
    return out


def spanning_tree(
    data: Records, singles: dict[str, Any], epsilon: float, rng: np.random.Generator
) -> list[Names]:
    """Edge by edge, of those that join two parts, the pair that is least like independence."""
    n = len(data.codes)
    shares = {name: on_simplex(counts / n) for name, counts in singles.items()}
    score = {
        (a, b): np.abs(data.counts((a, b)) - n * np.outer(shares[a], shares[b])).sum()
        for a, b in itertools.combinations(data.schema.names, 2)
    }
    part = {name: i for i, name in enumerate(data.schema.names)}
    tree: list[Names] = []
    while len(tree) < len(part) - 1:
        free = [pair for pair in score if part[pair[0]] != part[pair[1]]]
        a, b = free[chosen([score[pair] for pair in free], epsilon, rng)]
        tree.append((a, b))
        old, new = part[b], part[a]
        part = {name: new if p == old else p for name, p in part.items()}
    return tree


# AIM.


def aim(data: Records, workload: Workload, rho: float, rng: np.random.Generator) -> Any:
    """Synthetic rows by AIM: the marginal that is most wrong beyond noise, again and again."""
    names, d = data.schema.names, len(data.schema.names)
    model = Graphical(dict(zip(names, data.schema.sizes, strict=True)), len(data.codes))
    weights = closure(workload)
    sigma, epsilon = math.sqrt(16 * d / (1.8 * rho)), math.sqrt(0.8 * rho / (16 * d))
    for name in names:
        model.add((name,), noisy(data, (name,), sigma, rng), sigma)
    spent = d / (2 * sigma**2)
    model.fit(STEPS)
    last = False
    while not last:
        if rho - spent < 2 * (1 / (2 * sigma**2) + epsilon**2 / 8):
            sigma, epsilon = math.sqrt(1 / (1.8 * (rho - spent))), math.sqrt(0.8 * (rho - spent))
            last = True
        spent += 1 / (2 * sigma**2) + epsilon**2 / 8
        limit = MODEL_SIZE * spent / rho
        allowed = [r for r in weights if model.size(r) <= limit]
        before = {r: model.answer(r) for r in allowed}
        score = [
            weights[r] * (np.abs(data.counts(r) - before[r]).sum() - expected(before[r], sigma))
            for r in allowed
        ]
        most = max(weights[r] for r in allowed)
        picked = allowed[chosen(np.array(score) / most, epsilon, rng)]
        model.add(picked, noisy(data, picked, sigma, rng), sigma)
        model.fit(LAST_STEPS if last else STEPS)
        moved = np.abs(model.answer(picked) - before[picked]).sum()
        if moved <= expected(before[picked], sigma):
            sigma, epsilon = sigma / 2, epsilon * 2
    return model.rows(names, rng)


def expected(table: Any, sigma: float) -> float:
    """The l1 norm of noise on a table."""
    return math.sqrt(2 / math.pi) * sigma * table.size


def closure(workload: Workload) -> dict[Names, float]:
    """All subsets of the workload's sets, and how many columns of the workload they have."""
    sets = workload.column_sets()
    subsets = dict.fromkeys(
        part for s in sets for k in range(1, len(s) + 1) for part in itertools.combinations(s, k)
    )
    return {r: float(sum(len({*r} & {*s}) for s in sets)) for r in subsets}


# Side by side.


def ours(data: Records, workload: Workload, epsilon: float, seed: int) -> Any:
    """Synthetic rows by ours."""
    fitted = ProductMixture(data.schema, workload, epsilon=epsilon, rng=seed).fit(data.codes)
    return fitted.model_.sample(len(data.codes), np.random.default_rng(seed))


def scored(make: Callable[[], Any], data: Records, workload: Workload) -> tuple[float, ...]:
    """Errors of rows and CPU seconds, in the places that the table of benchmarks has."""
    start = time.process_time()
    drawn = Records(data.schema, make())
    seconds = time.process_time() - start
    found = compare(data, drawn, workload)
    nothing = (math.nan, math.nan)
    return (*nothing, found.max_error, found.mean_total_variation, seconds)


def main(arguments: Iterable[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--only", choices=("ours", "MST", "AIM"))
    options = parser.parse_args(None if arguments is None else list(arguments))
    if "DPASSAY_DATA" not in os.environ:
        print("Adult: set DPASSAY_DATA to the folder of data sets")
        return
    schema, codes = adult()
    data, workload = Records(schema, codes), Workload.all_marginals(schema, 3)
    rho = budget(options.epsilon, len(codes) ** -2.0, "add-remove").rho
    print(f"all {len(workload.blocks)} triples, epsilon {options.epsilon:g}: worst of the seeds")
    peers = {"MST": mst, "AIM": aim}
    seeds = range(options.seeds)
    if options.only in (None, "ours"):
        cases = [
            scored(lambda s=s: ours(data, workload, options.epsilon, s), data, workload)
            for s in seeds
        ]
        row("ProductMixture", cases)
    try:
        warnings.simplefilter("ignore")
        import mbi  # noqa: F401
    except ImportError:
        print("MST and AIM: left out, since mbi is not installed (pip install mbi)")
        return
    for name in [name for name in peers if options.only in (None, name)]:
        cases = [
            scored(
                lambda m=peers[name], s=s: m(data, workload, rho, np.random.default_rng(s)),
                data,
                workload,
            )
            for s in seeds
        ]
        row(name, cases)


if __name__ == "__main__":
    main()
