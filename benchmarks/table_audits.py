"""Audits of synthesizers: planted bugs must fall, honest code must stand.

Run with ``python -m benchmarks.table_audits`` (``--honest 0:100 --seeds 3`` by default, some
fifteen minutes of one core; ``--seeds 0 --honest 30:40`` plays a piece of the honest audits alone).
Two bugs are planted into the recommended synthesizer: its domain is read off the data, and its
noise has 70 % or 50 % of what it states. Each is audited at its default settings, at confidence
1 - 1e-6. Then honest synthesizers, at several epsilons, both neighbouring relations and both bases,
in two views and every tenth time in all: no alarm is allowed.
"""

import argparse
import dataclasses
import itertools
import time
from typing import Any

import dpassay as da
from dpassay.auditing.table_plays import VIEWS
from dpassay.privacy import gaussian_noise_multiplier
from dpassay.synth import Independent, ProductMixture, Schema, Workload

SCHEMA = Schema({name: ["x", "y", "z"] for name in "abcd"})
LIGHT: dict[str, Any] = {"components": 2, "steps": 10}
HONEST_TRIALS = {"support": 45, "measurements": 2000, "answers": 60, "rows": 60}


class LessNoise(ProductMixture):
    """States its event and adds a share of the noise that the event has."""

    share = 0.7

    def _plan(self, allowed: Any, n_records: int) -> Any:
        mu = 1 / gaussian_noise_multiplier(allowed.epsilon, allowed.delta)
        wrong = float(da.GDP(mu / self.share).epsilon(allowed.delta))
        plan: Any = super()._plan(dataclasses.replace(allowed, epsilon=wrong), n_records)
        return dataclasses.replace(plan, event=super()._plan(allowed, n_records).event)


class HalfNoise(LessNoise):
    """Half of the noise."""

    share = 0.5


class DomainFromData(ProductMixture):
    """Reads the values of every column off the table."""

    def _fit(self, table: Any, remainder: Any) -> Any:
        self.schema = Schema({name: sorted(table[name].unique()) for name in table.columns})
        self.workload = Workload.all_marginals(self.schema, 2)
        return super()._fit(table, remainder)


def show_bugs(seeds: int) -> None:
    """Plays until each bug fell, by seed."""
    cases: list[tuple[str, Any, list[Any], int]] = [
        ("domain from data", DomainFromData(SCHEMA, epsilon=1.0, delta=1e-5), ["support"], 50),
        ("noise 70 %, eps 1", LessNoise(SCHEMA, epsilon=1.0, delta=1e-5), ["measurements"], 35_000),
        ("noise 70 %, eps 10", LessNoise(SCHEMA, epsilon=10.0, delta=1e-5), ["measurements"], 3000),
        ("noise 50 %, eps 10", HalfNoise(SCHEMA, epsilon=10.0, delta=1e-5), ["measurements"], 3000),
    ]
    for name, synthesizer, views, trials in cases:
        for seed in range(seeds):
            began = time.process_time()
            found = da.audit_table(synthesizer, views=views, trials=trials, rng=seed)
            seconds = time.process_time() - began
            word = "refuted" if found.refuted else "STANDS"
            plays = found.verdict.trials
            print(
                f"{name:20s} seed {seed}: {word} after {plays} plays, {seconds:.1f} CPU s",
                flush=True,
            )


def count_alarms(audits: range) -> None:
    """Honest synthesizers that were refuted, of the audits with these numbers."""
    settings = list(
        itertools.product((0.5, 1.0, 4.0, 10.0), ("add-remove", "replace-one"), ("filled", "empty"))
    )
    alarms, began = 0, time.process_time()
    for seed in audits:
        epsilon, relation, base = settings[seed % len(settings)]
        given: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "neighbouring": relation}
        make = (
            ProductMixture(SCHEMA, **LIGHT, **given) if seed % 3 else Independent(SCHEMA, **given)
        )
        found = da.audit_table(
            make,
            views=VIEWS if seed % 10 == 0 else VIEWS[:2],
            n_records=300,
            rows=300,
            base=base,
            trials=HONEST_TRIALS,
            rng=seed,
        )
        alarms += found.refuted
        if seed % 10 == 9 or seed == audits[-1]:
            seconds, played = time.process_time() - began, f"{audits[0]} to {seed}"
            print(f"honest: {alarms} alarms in audits {played}, {seconds:.0f} CPU s", flush=True)


def main(quick: bool = False) -> None:
    """Bugs, then honest code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1 if quick else 3)
    parser.add_argument("--honest", default="0:8" if quick else "0:100", help="first:end")
    chosen, _ = parser.parse_known_args()
    show_bugs(chosen.seeds)
    count_alarms(range(*map(int, chosen.honest.split(":"))))


if __name__ == "__main__":
    main()
