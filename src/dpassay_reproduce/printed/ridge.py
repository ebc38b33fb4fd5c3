"""Output perturbation of ridge regression as HW3 has it: unsafe, for its premise cannot be met."""

from dataclasses import dataclass
from typing import Any

from dpassay.errors import InvalidArgument
from dpassay.learn import PrivateRidge
from dpassay.learn.huber import plain_ridge
from dpassay.learn.ridge_plans import OutputPerturbation, RidgeFacts
from dpassay.privacy import GDP, Event, NonPrivate
from dpassay.types import FloatArray, PrivacyCurve

__all__ = ["PrintedPerturbation", "PrintedRidge"]


class PrintedRidge(PrivateRidge):
    """:class:`dpassay.learn.PrivateRidge` by :class:`PrintedPerturbation`; ``solver`` is ignored.

    ``privacy_`` is an estimate and ``event_`` that of no privacy, for nothing bounds the residuals.
    """

    def _make_plan(self, facts: RidgeFacts) -> "PrintedPerturbation":
        if self.ledger is not None:
            raise InvalidArgument(
                "ledger: the printed ridge has no guarantee that a ledger could add up. Use "
                "PrivateRidge(solver='output'), which has the same noise and a proof, or "
                "ledger=None."
            )
        self.solver_, self._stated_mu = "printed", facts.mu
        return PrintedPerturbation(facts)

    @property
    def privacy_(self) -> PrivacyCurve:
        """What the homework states; an estimate, not a bound."""
        return GDP(
            self._stated_mu,
            kind="estimate",
            method="stated by HW3",
            neighbouring=self.neighbouring,
            assumptions=(*self.assumptions_, "all residuals of all data sets within the bound"),
        )


@dataclass(frozen=True)
class PrintedPerturbation(OutputPerturbation):
    """The plain ridge, with the noise that residuals below M would need.

    Unsafe. Nothing makes the residuals of *every* data set at most M: with M = 2Y, n copies of
    x = sqrt(alpha/n), y = Y pull the minimiser to sqrt(n) Y/(2 sqrt(alpha)), and one more record
    moves it by 17 instead of 2 for n = 10⁴, alpha = R = Y = 1. As nothing is proved, its
    event is that of no privacy.
    """

    @property
    def event(self) -> Event:
        """Not a Gaussian one: that would price a sensitivity which is believed."""
        return NonPrivate(self.facts.budget.neighbouring)

    @property
    def threshold(self) -> float:
        """The bound on residuals, M, which is believed."""
        s = self.facts
        return 2 * s.target_bound if s.residual_bound is None else s.residual_bound

    @property
    def sensitivity(self) -> float:
        """M R̄/alpha, as in questions 1.5 and 1.6 of HW3."""
        s = self.facts
        return s.budget.record_changes * self.threshold * s.full_bound / self.alpha

    def minimiser(self, A: Any, y: FloatArray) -> FloatArray:
        """The ridge in closed form."""
        return plain_ridge(A, y, self.alpha)
