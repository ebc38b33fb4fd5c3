"""How often the best guesses at a fair coin err, the most certain first.

A canary's coin S is fair; what is seen of it has law P if S = 1 and Q if S = 0, with loss L = log
dP/dQ. Given what is seen, S = 1 has odds e^L, so that the best guess errs with probability 1 / (1 +
exp(abs(L))). Put all outcomes in the order of falling abs(L) and let C(g) be the mass of wrong
guesses among the most certain share g. C is convex, from 0 to the error of the best test.

**From the privacy curve alone.** With H(t) the profile of (P, Q), H'(t) that of (Q, P), and their
mean D(t) = (H(t) + H'(t)) / 2, which for a symmetric pair is delta(t),

    C(g) = max over t >= 0 of  (g - D(t)) / (1 + e^t).

*Proof.* C has slope 1 / (1 + e^t) at the share g(t) that has abs(L) > t, and is the upper envelope
of its tangents. Let R be the mass of right and W that of wrong guesses with abs(L) > t; g(t) = R +
W. The tangent there is W + (g - R - W) / (1 + e^t) = (g - (R - e^t W)) / (1 + e^t), and R - e^t W =
(P(L > t) - e^t Q(L > t) + Q(L < -t) - e^t P(L < -t)) / 2 = D(t). QED

If all guesses say "in", outcomes come in the order of falling L, t is any real number, and in the
same way C(g) = max over t of (g - H(t) / 2) / (1 + e^t).

So an upper bound on the profile, and any finite set of t, give a lower bound on C: rounding always
favours the claim. A set of lines is itself the C of a pair (with finitely many losses) that
dominates the true one: C_1 <= C_2 everywhere says that the posterior of the first is more spread in
the convex order, which is Blackwell's order for two hypotheses.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from dpassay._special.margins import CLOSED_FORM
from dpassay.bounds.onerun.fdp import epsilon_grid
from dpassay.types import FloatArray, PrivacyCurve

FARTHEST = 60.0  # losses beyond this are as good as infinite: an error has probability 1e-26


@dataclass(frozen=True, eq=False)
class Certainty:
    """C(g) from below, as the upper envelope of lines rate_k (g - start_k).

    Attributes:
        rates: slopes of the lines, rising: probabilities that a guess errs.
        starts: the shares at which they are 0.
        breaks: the shares from which on the next line is used.

    """

    rates: FloatArray
    starts: FloatArray
    breaks: FloatArray

    @classmethod
    def of_lines(cls, losses: FloatArray, starts: FloatArray) -> "Certainty":
        """The envelope of (g - start) / (1 + e^loss), the losses falling."""
        rates, starts = np.append(0.0, special.expit(-losses)), np.append(0.0, starts)
        apart = np.append(True, np.diff(rates) > 0)  # rates near 1 may be one float
        rates, starts = rates[apart], starts[apart]
        heights = rates * starts
        breaks = np.diff(heights) / np.diff(rates)
        # Every line is a lower bound, so that a break that rounding has moved does no harm.
        return cls(rates, starts, np.maximum.accumulate(breaks))

    @classmethod
    def of_profiles(cls, grid: FloatArray, remove: FloatArray, add: FloatArray) -> "Certainty":
        """From upper bounds on both profiles at losses of a rising grid that begins at 0."""
        return cls.of_lines(grid[::-1], ((remove + add) / 2)[::-1])

    @classmethod
    def of_one_kind(cls, grid: FloatArray, profile: FloatArray, other: FloatArray) -> "Certainty":
        """The same if all guesses say "in": ``profile`` is that of (P, Q), ``other`` of (Q, P)."""
        below = -np.expm1(-grid) + np.exp(-grid) * other  # the profile of (P, Q) at -grid
        losses = np.concatenate([grid[::-1], -grid[1:]])
        return cls.of_lines(losses, np.concatenate([profile[::-1], below[1:]]) / 2)

    @classmethod
    def of_curve(cls, curve: PrivacyCurve, sides: str = "both") -> "Certainty":
        """For a pair that is as the curve allows in both directions."""
        grid = np.unique(epsilon_grid(curve))
        profile = np.asarray(curve.delta(grid))
        make = cls.of_profiles if sides == "both" else cls.of_one_kind
        return make(grid, profile, profile)

    def errors(self, share: FloatArray) -> FloatArray:
        """C(share), rounded down."""
        return self.errors_and_rates(share)[0]

    def errors_and_rates(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """C(share), rounded down, and its slope."""
        k = np.searchsorted(self.breaks, share)
        rate, start = self.rates[k], self.starts[k]
        return np.maximum(rate * (share - start - CLOSED_FORM * (share + start)), 0.0), rate

    def rate(self, share: FloatArray) -> FloatArray:
        """e(share) = C(share) / share: how often the most certain guesses err; 0 at 0."""
        return self.errors(share) / np.maximum(share, np.finfo(float).tiny)

    def rate_at(self, share: FloatArray) -> FloatArray:
        """C'(share): how often the guess errs that is as certain as this."""
        return self.rates[np.searchsorted(self.breaks, share)]

    def loss_at(self, share: FloatArray) -> FloatArray:
        """|L| of the guess that is as certain as this, at most FARTHEST; 0 if it is a coin."""
        with np.errstate(divide="ignore"):
            return np.clip(-special.logit(self.rate_at(share)), 0.0, FARTHEST)
