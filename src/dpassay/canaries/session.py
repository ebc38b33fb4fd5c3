"""Whether this is an audit of one training: who flips the coins, and who hears the verdicts.

``dpassay audit train.py --one-run`` runs a script inside a session. In Python the training is put
into ``with dpassay.canaries.audit(rng=0):``. Outside of both, canaries stay out of the data.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.auditing.claims import Claim
from dpassay.auditing.reading import coins
from dpassay.types import Verdict


@dataclass
class Session:
    """One training that is audited.

    Attributes:
        seed: of the coins. They are the audit's own: no generator of the script is asked.
        claim: to be tested instead of what the script states; None for the script's own.
        confidence: instead of the script's; None likewise.
        verdicts: those that were given, in order.
        n_flips: how often coins were asked for.

    """

    seed: int
    claim: Claim | None = None
    confidence: float | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    n_flips: int = 0

    def flip(self, size: int) -> NDArray[np.bool_]:
        """So many fair coins, True for "in"; every call has a stream of its own."""
        self.n_flips += 1
        return coins(self.seed, self.n_flips - 1, size).astype(bool)


_SESSION: ContextVar[Session | None] = ContextVar("dpassay_one_training", default=None)


def current() -> Session | None:
    """The session that this code runs in; None outside of an audit."""
    return _SESSION.get()


@contextlib.contextmanager
def audit(
    *, rng: int = 0, claim: Claim | None = None, confidence: float | None = None
) -> Iterator[Session]:
    """Make what runs inside an audit of one training: canaries are inserted and judged.

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
