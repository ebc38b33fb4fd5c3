"""What a check says: findings with their lines and pairs, and what stays open."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpassay.errors import InvalidArgument
from dpassay.privacy import events
from dpassay.privacy.curves import Curve
from dpassay.replay.obligations import RULES
from dpassay.replay.primitives import Primitive
from dpassay.replay.sites import Site
from dpassay.types import PrivacyCurve, Verdict


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets; records are kept here and never printed."""

    data: Any = field(repr=False)
    data_prime: Any = field(repr=False)
    how: str


@dataclass(frozen=True)
class Finding:
    """An obligation of the proof that a pair of executions broke.

    Attributes:
        rule: its number, "DPA202" for example; ``dpassay.replay.obligations.RULES`` has texts.
        site: the line, None if only the output is known.
        message: what was seen.
        pair: the data sets, shrunk where that was possible.
        n_records: how many records the data set D of the pair has.
        level: "error", or "warning" for records that an honest program may refuse to treat.
        epsilon_seen: accounted from what was played on the worst pair, None where that is not
            what broke.
        epsilon_claimed: the claim at the same delta.
        delta: where both are stated.
        related: other lines that matter.
        execution: after how many executions it was found.

    """

    rule: str
    site: Site | None
    message: str
    pair: Pair
    n_records: int | None = None
    level: str = "error"
    epsilon_seen: float | None = None
    epsilon_claimed: float | None = None
    delta: float | None = None
    related: tuple[Site, ...] = ()
    execution: int = 0

    @property
    def title(self) -> str:
        """The rule in words."""
        return RULES[self.rule].text

    @property
    def help(self) -> str:
        """How to repair it."""
        return RULES[self.rule].help


@dataclass(frozen=True)
class Open:
    """Something that a check could not decide, with the line and the reason."""

    message: str
    site: Site | None = None
    rule: str | None = None


@dataclass(frozen=True)
class Check:
    """What a check found; see :func:`check`.

    Attributes:
        claim: the curve that was checked, None if there was none.
        findings: broken obligations, the likely cause first.
        warnings: findings on records that are not finite, or that no honest input needs to cover.
        undecided: differences that may be protected by noise that was not followed.
        not_checked: what has no price here, or could not be played.
        event: what was really played on the worst pair, None if nothing that has a price moved.
        privacy: the curve of that event, an upper bound on what the *pair* costs.
        pair: the pair to audit: that of the first finding, else the dearest.
        epsilon_seen: the epsilon of ``privacy`` at ``delta``.
        delta: the claim's delta.
        executions: how often the mechanism was played.
        pairs: how many neighbours were tried.
        note: what the user must know about how it was checked, empty if there is nothing.
        refutation: the verdict on the claim itself by ``evidence``, if it was asked for.
        mechanism: what was checked.
        primitives: functions that were taken as primitives.

    """

    claim: PrivacyCurve | None
    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    undecided: tuple[Open, ...]
    not_checked: tuple[Open, ...]
    event: events.Event | None
    privacy: Curve | None
    pair: Pair | None
    epsilon_seen: float | None
    delta: float
    executions: int
    pairs: int
    note: str = ""
    refutation: Verdict | None = None
    mechanism: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    primitives: tuple[Primitive, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether an obligation broke."""
        return bool(self.findings)

    @property
    def refuted(self) -> bool:
        """Whether the claim itself was refuted."""
        return self.refutation is not None and self.refutation.refuted

    def evidence(
        self,
        trials: int = 100,
        *,
        confidence: float = 0.95,
        rng: int = 0,
        primitives: Sequence[Primitive] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Verdict:
        """The verdict on the claim from replayed likelihood ratios on :attr:`pair`.

        See :func:`dpassay.auditing.replayed.audit_by_replay`, also for what is raised; primitives
        are those of the check unless others are given.
        """
        from dpassay.auditing.replayed import audit_by_replay

        mechanism, pair, claim = self._parts()
        return audit_by_replay(mechanism, (pair.data, pair.data_prime), claim=claim,
                               trials=trials, confidence=confidence, delta=self.delta, rng=rng,
                               primitives=self.primitives if primitives is None else primitives,
                               progress=progress)  # fmt: skip

    def audit(self, trials: int = 1000, *, confidence: float = 0.95, rng: int = 0) -> Verdict:
        """The verdict of :func:`dpassay.audit` on :attr:`pair`: by outputs, without assumptions."""
        from dpassay.auditing.many import audit

        mechanism, pair, claim = self._parts()
        return audit(mechanism, (pair.data, pair.data_prime), claim=claim, trials=trials,
                     confidence=confidence, delta=self.delta, rng=rng)  # fmt: skip

    def _parts(self) -> tuple[Callable[..., Any], Pair, PrivacyCurve]:
        if self.mechanism is None or self.pair is None or self.claim is None:
            missing = "a claim" if self.claim is None else "a pair of data sets that moved anything"
            raise InvalidArgument(f"there is nothing to test: the check has not seen {missing}.")
        return self.mechanism, self.pair, self.claim

    @property
    def decided(self) -> bool:
        """Whether anything could be said: broken, or primitives were checked and none is open."""
        return self.broken or (self.event is not None and not self.undecided)

    def __str__(self) -> str:
        from dpassay.auditing.checking_text import text

        return text(self)
