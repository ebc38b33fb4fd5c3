"""The largest one-run bound over the number of guesses, which nothing pays for: no bound at all."""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpassay._rng import RngLike, generator
from dpassay.bounds.onerun.guesses import Audit
from dpassay.bounds.onerun.pvalues import Steinke, largest_epsilon, pure_epsilon
from dpassay.bounds.onerun.ranking import IntArray
from dpassay.types import LowerBound

__all__ = ["ASSUMED", "naive_one_run"]

ASSUMED = "a number of guesses fixed in advance, which it was not"
MOST_GUESSES = 1000  # the homework stops at 500 of each kind


def naive_one_run(
    scores: ArrayLike,
    members: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    sides: Literal["both", "top", "bottom"] = "both",
    max_guesses: int = MOST_GUESSES,
    rng: RngLike = 0,
) -> LowerBound:
    """The largest of the bounds of :func:`dpassay.one_run` over every number of guesses.

    Not a lower bound: at epsilon = 0 it exceeds the truth with probability .32 instead of .05 (500
    numbers of each kind, exact). The result says so in its assumption.

    Args:
        scores: one per canary; higher says "in".
        members: the coins, True for "in".
        delta: the delta at which epsilon is bounded.
        confidence: what each of the bounds has for itself, and their maximum has not.
        sides: "both" kinds of guess, or only the "top" or the "bottom" scores.
        max_guesses: the most guesses; the homework stops at 500 of each kind.
        rng: breaks ties between equal scores.

    """
    audit = Audit(
        scores=np.asarray(scores, float),
        members=np.asarray(members, bool),
        delta=delta,
        level=1 - confidence,
        sides=sides,
        max_guesses=max_guesses,
        rng=generator(rng),
    )
    most = min(max_guesses, MOST_GUESSES * audit.per_unit // 2)
    audit = replace(audit, max_guesses=most)
    candidates = audit.candidates(np.arange(1, audit.most_units + 1))
    ranking = audit.rank(candidates)
    correct = ranking.correct(candidates.top, candidates.bottom)
    epsilon, at = _largest(audit, candidates.guesses, correct)
    ceiling, _ = _largest(
        audit, candidates.guesses, ranking.perfect(candidates.top, candidates.bottom)
    )
    guessed = {"guesses": float(candidates.guesses[at]), "correct": float(correct[at])}
    return LowerBound(
        epsilon=epsilon,
        delta=delta,
        confidence=1 - audit.level,
        method="naive",
        assumption=ASSUMED,
        valid=False,
        ceiling=ceiling,
        threshold=(int(candidates.top[at]), int(candidates.bottom[at])),
        selection=f"largest over {candidates.top.size} numbers of guesses, not paid for",
        details={"looks": float(candidates.top.size), **guessed},
    )


def _largest(audit: Audit, guesses: IntArray, correct: IntArray) -> tuple[float, int]:
    """The largest bound among the candidates, each at the whole level, and which one that is."""
    if audit.delta > 0:
        p_value = Steinke(audit.canaries, audit.delta)
        return largest_epsilon(p_value, guesses, correct, audit.level)
    epsilons = pure_epsilon(guesses, correct, audit.level)
    at = int(np.argmax(epsilons))
    return max(float(epsilons[at]), 0.0), at
