"""What exact oracles share: one problem for each row of noise, and a limit on the time."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.synth.oracles.base import Found, price, state_found
from dpassay.synth.oracles.search import LocalSearch
from dpassay.synth.queries.terms import Terms
from dpassay.types import FloatArray


class Solved(NamedTuple):
    """What a solver says: a record or None, whether it is proved best, and a bound on every one."""

    codes: Any
    proved: bool
    upper: float


@dataclass(frozen=True)
class Exact(ABC):
    """An exact solver; up to ``seconds`` a call.

    After that the best record so far is taken, or that of local search where it is better, and
    the gap says what is left open.
    """

    seconds: float = 60.0

    def __post_init__(self) -> None:
        _check.number("seconds", self.seconds, low=0, low_open=True, finite=False)

    def __call__(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        """The best records, one problem for each row of noise."""
        found = [self._one(goal, row[None], rng) for row in noise]
        return Found(
            *(np.concatenate([getattr(f, k) for f in found]) for k in Found.__annotations__)
        )

    @property
    def limit(self) -> float:
        """Seconds, as solvers want them: finite."""
        return min(self.seconds, 1e9)

    def _one(self, goal: Terms, noise: FloatArray, rng: np.random.Generator) -> Found:
        solved = self._solve(goal, noise[0])
        if solved is None:
            raise InvalidArgument("`impossible` rules out every record.")
        tried = [] if solved.proved else [*LocalSearch()(goal, noise, rng).codes]
        tried += [] if solved.codes is None else [solved.codes]
        codes = np.array(tried, np.int64)
        values = goal.values(codes) - price(goal.schema, np.repeat(noise, len(codes), 0), codes)
        upper = np.minimum(goal.upper(noise), solved.upper)
        return state_found(goal, noise, codes[[values.argmax()]], upper)

    @abstractmethod
    def _solve(self, goal: Terms, noise: FloatArray) -> Solved | None:
        """What the solver says for one row of noise; None if no record is possible."""
