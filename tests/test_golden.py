"""Verdicts, bounds and fits with a fixed seed keep their values: a dozen golden ones.

The numbers below were printed by this file (``python tests/test_golden.py``) before audits,
adversaries and one-run games came to share one engine. They change only where a fault in them is
fixed, and then the changelog says so.

NumPy's exp and log have other last bits on processors with AVX-512, and the steps that optimise a
bet multiply such a bit, up to 2e-4 in a bound; both bounds are valid, for the reasons given in
``dpassay.bounds.betting.log_optimal``. There the numbers are computed in a process without.
"""

import contextlib
import functools
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

import dpassay as da
from dpassay.auditing import judge
from dpassay.bounds.sequential import sequential_bound
from dpassay.runs import MemoryLog
from extras import needs

PAIR = (1.0, 0.0)
CLOSE = 1e-12  # beside which only the last bits of exp and log of another machine may differ
WIDE = [name for name in __cpu_dispatch__ if name.startswith(("AVX512", "X86_V4"))]
WIDE = [name for name in WIDE if __cpu_features__[name]]


def laplace(scale):
    return lambda data, rng: data + rng.laplace(scale=scale)


def many_laplace(data, rng, size):
    return data + rng.laplace(scale=0.9, size=size)


def sometimes_fails(data, rng):
    return 1 / 0 if rng.random() < 0.05 else data + rng.laplace(scale=0.5)


def of_verdict(verdict):
    """What must not change of a verdict, as numbers."""
    path = verdict.log_wealth
    return [
        float(verdict.refuted),
        float(verdict.evidence.trials),
        float(verdict.evidence.n_failed),
        verdict.bound.epsilon,
        verdict.bound.ceiling,
        0.0 if path is None or not len(path) else float(path[-1]),
        0.0 if verdict.fell_at is None else verdict.fell_at.delta_seen,
    ]


def audited(mechanism, claim, **options):
    return lambda: of_verdict(da.audit(mechanism, PAIR, claim=claim, **options))


@functools.cache
def canaries():
    return np.random.default_rng(0).normal(size=(120, 400))


def one_training(claim):
    def train(records, rng):
        return records.sum(axis=0) + rng.normal(0.0, 5.0, 400)

    verdict = da.audit_one_run(
        train,
        np.zeros((1, 400)),
        canaries(),
        claim=claim,
        score=lambda model, points: points @ model,
        guesses=(20, 20),
    )
    return of_verdict(verdict)


@functools.cache
def scores():
    rng = np.random.default_rng(5)
    worlds = rng.integers(0, 2, 400)
    return worlds, rng.normal(size=400) + 1.5 * worlds


def bounds():
    worlds, values = scores()
    inside, outside = values[worlds == 1], values[worlds == 0]
    found = [
        da.lower_bound(inside, outside, delta=1e-5),
        da.lower_bound(inside, outside, delta=1e-5, method="gdp"),
        da.one_run(values, worlds == 1, delta=1e-5, guesses=(60, 60)),
        sequential_bound(worlds, values, delta=1e-5),
    ]
    return [number for bound in found for number in (bound.epsilon, bound.ceiling)]


def ridge():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (80, 3))
    model = da.learn.PrivateRidge(
        epsilon=1.0, delta=1e-5, data_norm=2.0, target_bound=3.0, random_state=0
    )
    return model.fit(X, np.clip(X @ [1.0, -2.0, 0.5], -3, 3)).coef_.tolist()


CASES = {
    "audit, refuted": audited(laplace(0.2), da.PureDP(1.0), score=float, trials=120),
    "audit, learned": audited(laplace(1.0), da.ApproxDP(1.0, 1e-6), trials=160, rng=3),
    "audit, counted": audited(
        laplace(0.5), da.ZCDP(0.5), score=float, trials=90, sequential=False, delta=1e-3
    ),
    "audit, blocks": audited(many_laplace, da.PureDP(1.0), score=float, trials=25_000),
    "audit, failures": audited(
        sometimes_fails, da.PureDP(1.0), score=float, trials=200, confidence=0.99
    ),
    "audit, gaussian": audited(laplace(1.0), da.GDP(0.7), score=float, trials=40),
    "one training": lambda: one_training(da.ApproxDP(0.5, 1e-5)),
    "one training, curve": lambda: one_training(da.GDP(0.3)),
    "bounds": bounds,
    "ridge": ridge,
}


def small_game():
    from adversaries.small import DATA, training
    from dpassay.adversaries import ADVERSARIES, dirac_canaries, play, steps_bound

    plan = training(sampling_rate=0.5, steps=12, noise_multiplier=1.5)
    full = training(steps=4, noise_multiplier=0.8)
    third, last = ADVERSARIES["intermediate poison"], ADVERSARIES["malicious data"]
    log = MemoryLog()
    watched = play(last, full, DATA, trials=60, claim=da.GDP(0.9), rng=2, store=log)
    plain = play(last, full, DATA, trials=60, rng=2, store=log)
    chosen = play(third, plan, DATA, trials=60, choosing=20)
    few = steps_bound(last, plan, DATA, trainings=9, estimator="location")
    run = dirac_canaries(plan, DATA, 40)
    return {
        "watched": of_verdict(watched.verdict(da.GDP(0.9))),
        "chosen": of_verdict(chosen.verdict()),
        "bounds": [b.epsilon for b in plain.bounds(1e-3).values()],
        "steps": [few.epsilon, few.ceiling],
        "dirac": [run.bound(delta=1e-5).epsilon],
    }


GOLDEN = {
    "audit, refuted": [
        1.0,
        47.0,
        0.0,
        1.0097700662713143,
        1.8356937662778685,
        3.1187879524535416,
        0.793228046202999,
    ],
    # Learned while betting: all 160 trials count, where 60 were set aside before.
    "audit, learned": [
        0.0,
        160.0,
        0.0,
        0.18473260212117104,
        3.3645591038536313,
        -0.5878608679309569,
        0.0,
    ],
    "audit, counted": [0.0, 90.0, 0.0, 0.3434544637961685, 2.667381573199372, 0.0, 0.0],
    "audit, blocks": [
        1.0,
        25000.0,
        0.0,
        1.012164578528857,
        7.28079063680117,
        -3.6291338089386507,
        0.002629355208757013,
    ],
    "audit, failures": [
        1.0,
        161.0,
        5.0,
        1.002161243658563,
        2.986182485908105,
        4.698677205016772,
        0.5737926587483941,
    ],
    "audit, gaussian": [0.0, 40.0, 0.0, 0.0, 9.336291997935666, -0.9715656494759806, 0.0],
    "one training": [1.0, 120.0, 0.0, 2.55055004547772, 2.55055004547772, 0.0, 0.0],
    "one training, curve": [1.0, 120.0, 0.0, 2.0955283787696612, 2.0955283787696612, 0.0, 0.0],
    "bounds": [
        1.6928959018447298,
        3.382829497307531,
        3.967650391802976,
        21.39131332170619,
        1.7553033231058075,
        3.6668419785187374,
        1.4943569955429172,
        4.3292649935063094,
    ],
    "ridge": [1.119717725182588, -1.680895322811196, 0.5142287561422765],
}
GAMES = {
    "watched": [
        1.0,
        34.0,
        0.0,
        3.892647361655312,
        8.817670722900177,
        3.0214253751957623,
        0.8235294117647058,
    ],
    "chosen": [0.0, 60.0, 0.0, 0.0, 2.0639167886857304, -0.4726077671944521, 0.0],
    "bounds": [1.1523449711528342, 4.525861848100817],
    "steps": [2.719056839217841, math.inf],
    "dirac": [0.4193499193738474],
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_computed_before(name):
    assert compute(name) == pytest.approx(GOLDEN[name], rel=CLOSE)


def test_games_against_dp_sgd():
    """To fewer digits: trainings are in single precision."""
    needs("jax", "lab")
    found = compute("games")
    for name, numbers in GAMES.items():
        assert found[name] == pytest.approx(numbers, rel=1e-3), name


LOGGED = {
    "cec8e0d07715": [
        1.0,
        47.0,
        0.0,
        1.0097700662713143,
        1.8356937662778685,
        3.1187879524535416,
        0.793228046202999,
    ],
    "7955148aaa56": [
        1.0,
        30.0,
        0.0,
        1.0210353874542246,
        1.4591887326580595,
        3.164149916339809,
        0.8333333333333334,
    ],
    "58422a64596a": [1.0, 20.0, 0.0, 0.5344309164896366, 0.5344309164896366, 0.0, 0.0],
}
VERSION_2 = Path(__file__).parent / "auditing" / "version_2.sql"


def judge_old(run):
    """The verdict on a run of a log that was written before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(VERSION_2.read_text(encoding="utf-8"))
            connection.execute("PRAGMA application_id = 0x64705F61")
            connection.execute("PRAGMA user_version = 2")
        return of_verdict(judge(path, run))


@pytest.mark.parametrize("run", LOGGED)
def test_a_log_that_was_written_before(run):
    """An audit with a given score, one that learned its score, and one training."""
    assert compute(run) == pytest.approx(LOGGED[run], rel=CLOSE)


def compute(name):
    """The numbers of a case or of a logged run, computed without AVX-512."""
    if not WIDE:
        return compute_here(name)
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(WIDE)}
    command = [sys.executable, __file__, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def compute_here(name):
    if name == "games":
        return small_game()
    return CASES[name]() if name in CASES else judge_old(name)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(compute_here(sys.argv[1])))
    else:
        print({name: compute(name) for name in CASES})
        print(compute("games"))
