"""False refutations: audits of mechanisms that just keep their claim, watched at every trial.

Run with ``python -m benchmarks.honest`` (10 000 audits, half an hour of one core; ``--audits 50``
plays 50 of each of the five). Outputs go through the referee of :func:`dpassay.audit` without a
score, the default: the attack is learned while the claim is bet against, and the audit ends at the
first trial at which the claim falls. Only the bound, which an audit computes after its last trial,
is left out. Each mechanism is at the boundary: its claim is exactly what it has. So at confidence
.95 at most one audit in twenty may refute; the number that is allowed stands beside that seen.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.attacks.features import features, stack
from dpassay.auditing.account import Account
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.privacy import GDP, PureDP
from dpassay.types import PrivacyCurve

TRIALS, BATCH, ALLOWED, SHOWN = 300, 25, 0.05, 100
DATA = ([], [1])  # of world 0 and of world 1
Mechanism = Callable[[list[int], np.random.Generator], Any]


def laplace(data: list[int], rng: np.random.Generator) -> float:
    """A count with Laplace noise of scale 1."""
    return len(data) + rng.laplace()


def geometric(data: list[int], rng: np.random.Generator) -> int:
    """A count with two-sided geometric noise: a whole number."""
    p = -math.expm1(-1.0)
    return len(data) + int(rng.geometric(p)) - int(rng.geometric(p))


def gaussian(data: list[int], rng: np.random.Generator) -> Any:
    """Ten numbers that are all moved by one record, with a norm of 1 in all."""
    return len(data) / math.sqrt(10) + rng.normal(size=10)


def _respond(data: list[int], rng: np.random.Generator) -> bool:
    """Whether there is a record, with the odds of a lie that epsilon = 1 asks for."""
    lies = rng.random() < 1 / (1 + math.e)
    return bool(data) != lies


def mixed(data: list[int], rng: np.random.Generator) -> Any:
    """A number, a text, a list, a dictionary or nothing; each says as much as it may."""
    kind = int(rng.integers(5))
    answer = _respond(data, rng)
    if kind == 0:
        return laplace(data, rng)
    if kind == 1:
        return "yes" if answer else "no"
    if kind == 2:
        return [rng.normal(), float(answer), rng.normal()]
    if kind == 3:
        return {"answer": answer, "noise": rng.normal()}
    return None if answer else 0.0


def failing(data: list[int], rng: np.random.Generator) -> float:
    """Fails e times as often with the record as without it."""
    if rng.random() < (0.27 if data else 0.27 / math.e):
        raise ValueError("a failure is an output")
    return rng.normal()


@dataclass(frozen=True)
class Case:
    """A mechanism and the claim that it just keeps."""

    mechanism: Mechanism
    claim: PrivacyCurve


CASES = (
    Case(laplace, PureDP(1.0)),
    Case(geometric, PureDP(1.0)),
    Case(gaussian, GDP(1.0)),
    Case(mixed, PureDP(1.0)),
    Case(failing, PureDP(1.0)),
)


def row_of(case: Case, world: int, rng: np.random.Generator) -> Any:
    """What a log keeps of a trial: features of its output; nothing if it failed."""
    try:
        return features(case.mechanism(DATA[world], rng))
    except ValueError:
        return np.empty(0)


def is_refuted(case: Case, seed: int, trials: int = TRIALS) -> bool:
    """Whether the audit of this seed refutes a claim that holds."""
    delta, account = claimed_delta(case.claim, None), Account.begin(trials, sequential=True)
    referee = Referee(Rules(case.claim, delta, 1 - ALLOWED, False, account, online=True))
    rng = np.random.default_rng(seed)
    worlds = rng.integers(0, 2, trials)
    for start in range(0, trials, BATCH):
        some = worlds[start : start + BATCH]
        rows = [row_of(case, int(world), rng) for world in some]
        if referee.take(some, stack(rows)):
            return True
    return False


def main() -> None:
    """One row per mechanism, and all of them together; every 100 audits of each the rows so far."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--audits", type=int, default=2000, help="of each mechanism")
    audits, began = options.parse_args().audits, time.process_time()
    refuted = [0] * len(CASES)
    for start in range(0, audits, SHOWN):
        seeds = range(start, min(start + SHOWN, audits))
        for i, case in enumerate(CASES):
            refuted[i] += sum(is_refuted(case, seed) for seed in seeds)
        show(refuted, seeds.stop, time.process_time() - began)


def show(refuted: list[int], audits: int, seconds: float) -> None:
    """Counts of refutations beside those that are allowed."""
    print(f"\n{'mechanism':12s} {'claim':18s} {'refuted':>8s} {'audits':>8s} {'allowed':>8s}")
    for case, found in zip(CASES, refuted, strict=True):
        name = f"{case.mechanism.__name__:12s} {case.claim!r:18s}"
        print(f"{name} {found:8d} {audits:8d} {ALLOWED * audits:8.0f}")
    total, n = sum(refuted), audits * len(CASES)
    print(f"{'all':31s} {total:8d} {n:8d} {ALLOWED * n:8.0f}   {seconds:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
