"""Who flips the coins of canaries, and who hears the verdicts.

Canaries are live in the run that they stand in: ``python train.py`` inserts, trains and judges. An
audit around it, ``dpassay audit train.py --one-run`` or ``with dpassay.canaries.audit(rng=0):``,
has coins of its own, may ask another claim, and hears the verdicts.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpassay import _check, probe
from dpassay.auditing.claims import Claim
from dpassay.auditing.reading import coins
from dpassay.types import Verdict

if TYPE_CHECKING:
    from dpassay.canaries.watch import Watch


@dataclass(frozen=True)
class Asked:
    """What is asked of a training.

    Attributes:
        claim: None where the training states its own.
        delta: where epsilon is stated; None for that of the claim.
        confidence: of verdict and bound.

    """

    claim: Claim | None
    delta: float | None
    confidence: float


class Showing(Protocol):
    """What a training showed of its canaries: all that a verdict is made of."""

    def judge(self, asked: Asked) -> Verdict: ...
    def as_dict(self) -> dict[str, Any]: ...


@dataclass
class Session:
    """One training that is audited.

    Attributes:
        seed: of the coins. They are the audit's own: no generator of the script is asked.
        claim: to be tested instead of what the script states; None for the script's own.
        confidence: instead of the script's; None likewise.
        judged: what was judged, and what the script itself had asked, in order.
        verdicts: those that were given, in order.
        n_flips: how often coins were asked for.
        watches: those that were put on optimizers, in order.
        beside: how files begin in which these are kept as they go; None where nothing is.

    """

    seed: int
    claim: Claim | None = None
    confidence: float | None = None
    judged: list[tuple[Showing, Asked]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    n_flips: int = 0
    watches: list["Watch"] = field(default_factory=list)
    beside: Path | None = None

    def ask(self, asked: Asked) -> Asked:
        """What this session asks where the script asks that."""
        claim = asked.claim if self.claim is None else self.claim
        confidence = asked.confidence if self.confidence is None else self.confidence
        return replace(asked, claim=claim, confidence=confidence)

    def flip(self, size: int) -> NDArray[np.bool_]:
        """So many fair coins, True for "in"; every call has a stream of its own."""
        self.n_flips += 1
        return coins(self.seed, self.n_flips - 1, size).astype(bool)

    def judge(self, shown: Showing, asked: Asked) -> Verdict:
        """The verdict on this session's question, which is kept."""
        self.judged.append((shown, asked))  # Before: an unfit claim must not cost the training.
        verdict = shown.judge(self.ask(asked))
        self.verdicts.append(verdict)
        return verdict


_SESSION: ContextVar[Session | None] = ContextVar("dpassay_one_training", default=None)
_FLIPS: Counter[int] = Counter()  # of each seed in this process, outside of audits


def current() -> Session | None:
    """The session that this code runs in; None where no audit is around it."""
    return _SESSION.get()


def flip(seed: int, size: int) -> NDArray[np.bool_]:
    """So many fair coins: the audit's, or where none is around those of this seed.

    The same seed again gives other coins in the same process: two sets of canaries that shared
    their coins would be groups of two. A script that is run again has the same ones.
    """
    audit = current()
    if audit is not None:
        return audit.flip(size)
    if not probe.is_played():  # Trials and checks run a script many times as if each were the first
        _FLIPS[seed] += 1
    return coins(seed, max(_FLIPS[seed] - 1, 0), size).astype(bool)


def judge(shown: Showing, asked: Asked) -> Verdict:
    """The verdict on what was asked; the audit around it, if there is one, may ask otherwise."""
    audit = current()
    return shown.judge(asked) if audit is None else audit.judge(shown, asked)


@contextlib.contextmanager
def audit(
    *, rng: int = 0, claim: Claim | None = None, confidence: float | None = None
) -> Iterator[Session]:
    """Make what runs inside an audit of one training, which hears its verdicts.

    Args:
        rng: seed of the coins.
        claim: to be tested instead of what the code inside states.
        confidence: of the verdicts, instead of what the code inside states.

    >>> with audit(rng=0) as session:
    ...     pass
    >>> session.verdicts
    []

    """
    checked = None if confidence is None else _check.confidence(confidence)
    session = Session(_check.seed("rng", rng), claim, checked)
    token = _SESSION.set(session)
    try:
        yield session
    finally:
        _SESSION.reset(token)
