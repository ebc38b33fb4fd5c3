"""The one account of alpha that a run has, whatever is asked of its trials, and in which order.

A run may be asked again: its budget extended, its log judged. Every answer is a pair, verdict and
bound, and the chance that *any* of the answers to one question (a claim at a confidence) is wrong
must stay below alpha = 1 - confidence. So alpha is divided when the run begins, and what was spent
is kept in the log.

**Bets** get a share. By Ville's inequality it covers every look and every extension.

**Counts** share the rest. A count fixes a rule of guessing on the trials before its first one, and
counts guesses on trials that no count has used (``dpassay.auditing.counting``). Count j gets
``FIRST_COUNT`` (1 - FIRST_COUNT)^j of what is left for counts, which sums to it. *Proof.* When
count j is ordered, its trials have not been counted, and whatever made the user order it is a
function of the trials before. Given those, rule, number and level are fixed and the new trials are
independent of them; so the count errs with its own level at most. Union over the counts and the
bets. ∎ Counting old trials again together with new ones would not be covered by this proof: the
user saw the old result before the number of trials was chosen.

A run that begins with at most ``BETTING_LIMIT`` trials gives everything to the bets, which go on
for as long as the run is extended. A longer run gives them one fifth, for gross failures, and
counts once at its end: from hundreds of thousands of trials a count shows far more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpassay.errors import InvalidArgument

BETTING_LIMIT = 20_000
BETTING_SHARE = 0.2
FIRST_COUNT = 0.8
CHOOSING = 0.2  # of the trials, at least, choose the rule of the first count


@dataclass(frozen=True)
class Account:
    """How alpha is divided, and what was spent.

    Attributes:
        betting: the share of alpha that the bets have.
        n_betting: the trials that are bet on, the first ones; None for all.
        counts: the first trial and the end of each count that was ordered, in order.

    """

    betting: float
    n_betting: int | None
    counts: tuple[tuple[int, int], ...] = ()

    @classmethod
    def begin(cls, budget: int, sequential: bool) -> "Account":
        """The account of a new run of so many trials."""
        if not sequential:
            return cls(0.0, 0)
        if budget <= BETTING_LIMIT:
            return cls(1.0, None)
        return cls(BETTING_SHARE, BETTING_LIMIT)

    def share(self, count: int) -> float:
        """The share of alpha that a count has, by its number from 0 on."""
        return (1 - self.betting) * FIRST_COUNT * (1 - FIRST_COUNT) ** count

    def bets_on(self, trials: int) -> int:
        """How many of so many trials are bet on."""
        return trials if self.n_betting is None else min(self.n_betting, trials)

    def due(self, trials: int) -> bool:
        """Whether a run that ends after so many trials has some that a count could use."""
        return self.betting < 1 and trials > self._first(trials)

    def order(self, trials: int) -> "Account":
        """The account with one more count, of all trials that no count has used."""
        if not self.due(trials):
            return self
        return replace(self, counts=(*self.counts, (self._first(trials), trials)))

    def _first(self, trials: int) -> int:
        """The first trial of the next count."""
        if self.counts:
            return self.counts[-1][1]
        return max(self.bets_on(trials), int(CHOOSING * trials), 1)

    def list_counts(self, trials: int) -> list[tuple[int, int, float]]:
        """First trial, end and share of the counts that lie within so many trials."""
        numbered = enumerate(self.counts)
        return [(first, end, self.share(j)) for j, (first, end) in numbered if end <= trials]

    def allow(self, sequential: bool, key: str) -> None:
        """Raise if a question needs a share of alpha that this account does not have."""
        if not sequential and self.betting == 1:
            raise InvalidArgument(
                f"sequential=False asks for a count, but run {key[:12]} began with sequential=True "
                "and gave its whole error probability to the bets: a count would spend it twice. "
                "Ask with sequential=True, or begin another run with another rng=."
            )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the log."""
        return {
            "betting": self.betting,
            "n_betting": self.n_betting,
            "counts": [list(count) for count in self.counts],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Account":
        """The account that :meth:`to_json` wrote."""
        counts = tuple((int(first), int(end)) for first, end in stored["counts"])
        n_betting = stored["n_betting"]
        return cls(float(stored["betting"]), None if n_betting is None else int(n_betting), counts)
