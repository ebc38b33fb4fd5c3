"""False refutations: audits of mechanisms that just keep their claim, watched at every trial.

Run with ``python -m benchmarks.honest`` (10 000 audits, 15 minutes of one core; ``--audits 50``
plays 50 of each of the ten). With ``--kept parts.jsonl`` what was played is kept, a hundred audits
a line, and the next run goes on from there. Outputs go through the referee of
:func:`dpassay.audit` without a score, the default: the attack is learned while the claim is bet
against, and the audit ends at the first trial at which the claim falls. Only the bound, which an
audit computes after its last trial, is left out. Each mechanism is at the boundary: its claim is
exactly what it has. So at confidence .95 at most one audit in twenty may refute; the number that is
allowed stands beside that seen. The last five try to fool the learner: by failures alone, by values
that are no numbers, by what they remember of earlier trials, by a leak of probability delta, by
sampling.
"""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpassay.attacks.features import features, stack
from dpassay.auditing.account import Account
from dpassay.auditing.referee import Referee, Rules, claimed_delta
from dpassay.privacy import GDP, ApproxDP, PureDP, account, events
from dpassay.types import PrivacyCurve

TRIALS, BATCH, ALLOWED, PART = 300, 300, 0.05, 100
LEAK = 0.05
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


def silent(data: list[int], rng: np.random.Generator) -> float:
    """Answers by failing or by a constant, and by nothing else."""
    if _respond(data, rng):
        raise ValueError("a failure is an output")
    return 0.0


def no_number(data: list[int], rng: np.random.Generator) -> Any:
    """NaN, infinities, zeros with a sign, entries that are missing; each says as much as it may."""
    kinds = ((np.nan, np.inf), (-np.inf, 1e308), (-0.0, 0.0), ([1.0, None], [1.0]))
    return kinds[int(rng.integers(4))][_respond(data, rng)]


class Remembers:
    """Answers by the data of the call before, too, and turns round after every 50 calls.

    Whatever came before, an answer tells no more than epsilon = 1 of the data of its own call. What
    it tells of the call before is about another coin.
    """

    __name__ = "remembers"

    def __init__(self) -> None:
        self.calls, self.before = 0, False

    def __call__(self, data: list[int], rng: np.random.Generator) -> Any:
        self.calls += 1
        turned = (self.calls // 50) % 2 == 1
        answer = _respond(data, rng) != turned
        answer, self.before = (answer, self.before), bool(data)
        return answer


def leaking(data: list[int], rng: np.random.Generator) -> Any:
    """The data itself with probability delta, else an answer by epsilon = 1."""
    return f"{data}" if rng.random() < LEAK else _respond(data, rng)


def sampled(data: list[int], rng: np.random.Generator) -> float:
    """Gaussian noise on a record that takes part in every other trial."""
    return len(data) * float(rng.integers(2)) + rng.normal()


@dataclass(frozen=True)
class Case:
    """A mechanism and the claim that it just keeps; one that has a state begins anew each audit."""

    make: Callable[[], Mechanism]
    claim: PrivacyCurve
    text: str

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return self.make().__name__


CASES = (
    *(Case(lambda m=m: m, PureDP(1.0), "pure, 1") for m in (laplace, geometric)),
    Case(lambda: gaussian, GDP(1.0), "Gaussian, mu = 1"),
    *(Case(lambda m=m: m, PureDP(1.0), "pure, 1") for m in (mixed, failing, silent, no_number)),
    Case(Remembers, PureDP(1.0), "pure, 1"),
    Case(lambda: leaking, ApproxDP(1.0, LEAK), f"(1, {LEAK})"),
    Case(
        lambda: sampled,
        account(events.Sampled(events.Gaussian(1.0), 0.5, "poisson"), "pld"),
        "its curve (PLD)",
    ),
)


def row_of(mechanism: Mechanism, world: int, rng: np.random.Generator) -> Any:
    """What a log keeps of a trial: features of its output; nothing if it failed."""
    try:
        return features(mechanism(DATA[world], rng))
    except ValueError:
        return np.empty(0)


def is_refuted(case: Case, seed: int, trials: int = TRIALS) -> bool:
    """Whether the audit of this seed refutes a claim that holds."""
    delta, account = claimed_delta(case.claim, None), Account.begin(trials, sequential=True)
    referee = Referee(Rules(case.claim, delta, 1 - ALLOWED, False, account, online=True))
    mechanism, rng = case.make(), np.random.default_rng(seed)
    worlds = rng.integers(0, 2, trials)
    for start in range(0, trials, BATCH):
        some = worlds[start : start + BATCH]
        rows = [row_of(mechanism, int(world), rng) for world in some]
        if referee.take(some, stack(rows)):
            return True
    return False


def main() -> None:
    """Plays what is not kept yet, in parts, then shows one row per mechanism and their sum."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--audits", type=int, default=1000, help="of each mechanism")
    options.add_argument("--kept", type=Path, help="a file of what was played, to be gone on with")
    chosen = options.parse_args()
    kept: Path | None = chosen.kept
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    refuted = {(row["name"], row["first"]): row["refuted"] for row in map(json.loads, lines)}
    for first in range(0, chosen.audits, PART):
        for case in (case for case in CASES if (case.name, first) not in refuted):
            seeds = range(first, min(first + PART, chosen.audits))
            refuted[case.name, first] = sum(is_refuted(case, seed) for seed in seeds)
            row = {"name": case.name, "first": first, "refuted": refuted[case.name, first]}
            if kept is not None and len(seeds) == PART:
                with kept.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    show(refuted, chosen.audits)


def show(refuted: dict[tuple[str, int], int], audits: int) -> None:
    """Counts of refutations beside those that are allowed, as a table in Markdown."""
    print("| mechanism | claim | refuted | audits | allowed |\n|---|---|---|---|---|")
    total = 0
    for case in CASES:
        found = sum(refuted[case.name, first] for first in range(0, audits, PART))
        print(f"| {case.name} | {case.text} | {found} | {audits} | {ALLOWED * audits:.0f} |")
        total += found
    n = audits * len(CASES)
    print(f"| all | | {total} | {n} | {ALLOWED * n:.0f} |", flush=True)


if __name__ == "__main__":
    main()
