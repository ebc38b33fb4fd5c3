"""A plain script that reads a CSV file and writes a "model": the mean age and income, with noise.

    python examples/csv_script.py data.csv model.json

It claims epsilon = 1 (half for each mean) for one record added or removed; the number of records is
public, and values are clamped to declared bounds. ``--bug`` leaves the clamping out. The script
needs no change to be audited: the audit runs it as a command, on two tables that differ by a row.

    dpassay audit --command "python examples/csv_script.py {data} {output}.json --seed {seed}" \
        --claim 1 --data with.csv --data-prime without.csv
"""

import argparse
import csv
import json
import random
from pathlib import Path

BOUNDS = {"age": (0.0, 100.0), "income": (0.0, 200_000.0)}
PUBLIC_N, EPSILON = 100, 0.5  # of each mean


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, help="for audits; without it noise differs each time")
    parser.add_argument("--bug", action="store_true")
    options = parser.parse_args()
    draw = random.Random(options.seed) if options.seed is not None else random.SystemRandom()
    with options.data.open(newline="") as file:
        rows = list(csv.DictReader(file))
    model = {}
    for name, (low, high) in BOUNDS.items():
        values = [float(row[name]) for row in rows]
        if not options.bug:
            values = [min(max(value, low), high) for value in values]
        rate = EPSILON * PUBLIC_N / (high - low)
        laplace = draw.expovariate(rate) - draw.expovariate(rate)
        model[name] = sum(values) / PUBLIC_N + laplace
    options.output.write_text(json.dumps(model))
    print(f"{options.output.name}: {len(rows)} rows, {len(model)} means")


if __name__ == "__main__":
    main()
