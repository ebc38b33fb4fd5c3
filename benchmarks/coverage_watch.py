"""How often the watch errs in real trainings: p-values of a claim that is exactly true.

``python -m benchmarks coverage_watch`` trains a perceptron by Opacus 200 times for each of two
epsilons (a quarter of an hour of one core; ``--quick``: three times each). Each training is judged
twice, with the other data subtracted and from the released sums alone. Nominal are 5 % of bounds
above epsilon and of p-values at most .05. To play in pieces, on several days or machines:
``python -m benchmarks.coverage_watch --epsilon 4 --seeds 1000:1050 --to found.jsonl`` appends a
line for each training, ``python -m benchmarks.coverage_watch --read found.jsonl`` counts them.
"""

import argparse
import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.one_training import DELTA, load, mu_of, train
from dpassay.bounds import DPSGDForm, one_run

LEVEL, STEPS, CANARIES = 0.05, 25, 50_000
VIEWS = ("known", "released")
SEEDS = {4.0: 1000, 1.0: 2000}  # the first seed for each epsilon; no two trainings share noise


def judge_both(data, epsilon, seed):
    """One training: p-value at the true noise and bound, for each view."""
    settings = {"noise": STEPS**0.5 / mu_of(epsilon), "batch": len(data[0]), "steps": STEPS}
    watch, _ = train(data, canaries=CANARIES, seed=seed, **settings)
    form, found = DPSGDForm(phases=tuple(watch.history)), {}
    for view in VIEWS:
        bound = one_run(
            watch.scores(view),
            watch.coins,
            delta=DELTA,
            confidence=1 - LEVEL,
            method="product",
            family=form,
            centre=0.0,
        )
        found[view] = [bound.p_value, bound.epsilon]
    return {"epsilon": epsilon, "records": len(data[0]), "seed": seed} | found


def play(epsilon, seeds, records, to=None):
    """All of these trainings; appended to a file as they end, where one is given."""
    warnings.filterwarnings("ignore")
    data, lines = load(records), []
    for seed in seeds:
        lines.append(judge_both(data, epsilon, seed))
        if to is not None:
            with Path(to).open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    return lines


def count(lines):
    """Print one row for each epsilon, number of records and view."""
    groups = defaultdict(list)
    for line in lines:
        for view in VIEWS:
            groups[line["epsilon"], line["records"], view].append(line[view])
    for (epsilon, records, view), pairs in sorted(groups.items()):
        p, bounds = np.array(pairs).T
        above = int(np.sum(bounds > epsilon))
        chance = stats.binom.sf(above - 1, len(p), LEVEL)
        print(
            f"epsilon {epsilon:g}, {records} records, {view:8}: {above} of {len(p)} bounds above "
            f"epsilon (chance of as many at 5 %: {chance:.2g}), {np.sum(p <= LEVEL)} p-values at "
            f"most .05, smallest {p.min():.2g}, mean {p.mean():.3f}, Kolmogorov-Smirnov p "
            f"{stats.kstest(p, 'uniform').pvalue:.2g}; mean bound {bounds.mean() / epsilon:.3f}",
            flush=True,
        )


def main(quick=False):
    """Play and count everything."""
    for epsilon, first in SEEDS.items():
        count(play(epsilon, range(first, first + (3 if quick else 200)), 40))


def parse(arguments):
    """A piece to play, or files to count."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage_watch", description=__doc__)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", default="1000:1003", help="first:end")
    parser.add_argument("--records", type=int, default=40)
    parser.add_argument("--to", help="file to append to")
    parser.add_argument("--read", nargs="*", help="files to count instead")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asked = parse(sys.argv[1:])
    if asked.read:
        count(
            json.loads(line) for name in asked.read for line in Path(name).read_text().splitlines()
        )
    else:
        first, end = map(int, asked.seeds.split(":"))
        count(play(asked.epsilon, range(first, end), asked.records, asked.to))
