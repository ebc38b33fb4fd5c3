"""Single releases from all of the data: noise on numbers, selections, stated guarantees."""

from dataclasses import dataclass

from dpassay import _check
from dpassay.errors import InvalidArgument
from dpassay.privacy.events.base import Leaf
from dpassay.types import Neighbouring


@dataclass(frozen=True)
class Gaussian(Leaf):
    """Gaussian noise; ``noise_multiplier`` is its deviation over the l2 sensitivity."""

    noise_multiplier: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class Laplace(Leaf):
    """Laplace noise; ``noise_multiplier`` is its scale over the l1 sensitivity, 1/epsilon."""

    noise_multiplier: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class Pure(Leaf):
    """Anything that is epsilon-DP: Laplace noisy max, permute-and-flip, a stated guarantee."""

    epsilon: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class Approx(Leaf):
    """Anything that is (epsilon, delta)-DP."""

    epsilon: float
    delta: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class BoundedRange(Leaf):
    """The exponential mechanism: for any pair its privacy loss lies in an interval of this width.

    It is ``epsilon``-DP and epsilon²/8-zCDP (Cesar and Rogers 2021). Only the exponential mechanism
    (Gumbel noise) has this property; other noisy-max rules are :class:`NoisyMax`.
    """

    epsilon: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class NoisyMax(Leaf):
    """The index of the largest score after noise on the line: permute-and-flip, Laplace noisy max.

    It has the privacy curve of Laplace noise at ``epsilon``, which says more than epsilon-DP.
    Proof: let the noise have a hazard rate f <= r (1 - F), r = epsilon/(2 sensitivity), or
    epsilon/sensitivity if all scores move in one direction; exponential, Laplace and Gumbel noise
    of these scales have. For a set S of indices let D be the largest noisy score in S less the
    largest outside it, and G(d) = P(D > d). The density of the largest in S is a sum over its
    members of f times the chance that the others lie below, hence at most r times the chance that
    the largest exceeds; so is that of the largest outside. So |G'| <= r min(G, 1 - G), with
    equality for the Laplace law, and a neighbour moves D by at most epsilon/r. Both equations start
    at the same G(0): no set is told apart better than by Laplace noise.
    """

    epsilon: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class ZeroConcentrated(Leaf):
    """Anything that is rho-zCDP."""

    rho: float
    neighbouring: Neighbouring = "add-remove"


@dataclass(frozen=True)
class RandomizedResponse(Leaf):
    """A category is reported: with ``noise_probability`` a uniform one, else the true one.

    A record's answer is replaced, never absent, so the relation is replace-one.
    """

    noise_probability: float
    n_categories: int = 2
    neighbouring: Neighbouring = "replace-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.number(
            "noise_probability",
            self.noise_probability,
            low=0,
            high=1,
            low_open=True,
            remedy="It is the chance of a uniform answer; without noise use NonPrivate().",
        )
        _check.count("n_categories", self.n_categories, low=2)
        if self.neighbouring != "replace-one":
            raise InvalidArgument(
                f"neighbouring={self.neighbouring!r} must be 'replace-one' for RandomizedResponse. "
                "The answer of a respondent is replaced by another; nobody is added or removed."
            )


@dataclass(frozen=True)
class NonPrivate(Leaf):
    """Something that has no guarantee: every price is infinite."""

    neighbouring: Neighbouring = "add-remove"
