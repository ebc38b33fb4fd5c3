"""Private selection: which candidate has (nearly) the highest score. Only the index is released.

Every rule here is "largest score plus noise", with noise of scale 2·sensitivity/epsilon; they
differ in the noise, in accuracy and in what they cost when repeated:

=============== ================================ ===================================================
noise           the same as                      cost
=============== ================================ ===================================================
``gumbel``      the exponential mechanism        ``BoundedRange(epsilon)``: epsilon-DP and
                                                 epsilon²/8-zCDP, the cheapest to repeat
``exponential`` permute-and-flip                 ``NoisyMax(epsilon)``; the best single choice
``laplace``     report noisy max as first stated ``Pure(epsilon)``; neither
=============== ================================ ===================================================

**Monotone scores.** ``monotone=True`` declares that a neighbour moves all scores in one direction
(counts under add-remove do so, under replace-one they do not). Then half the noise, of scale
sensitivity/epsilon, is enough. Proof for the exponential mechanism with weights
exp(score/scale): the privacy loss of candidate i is (u_i - u'_i)/scale + log(Z'/Z). Its first term
lies in an interval of width 2·sensitivity/scale in general, since u_i - u'_i is in [-sensitivity,
sensitivity], and of width sensitivity/scale if all differences have one sign; the second term is
the same for all i. Both choices of scale make the width epsilon: the loss has *bounded range*
epsilon, monotone or not. A loss that lies in [b - epsilon, b] and has E[exp(-loss)] = 1 has 0 in
that interval, so it is within +-epsilon, which is epsilon-DP (Durfee and Rogers 2019).
Proof for the other two: given the noise of the others, i wins if its own noise exceeds
max_j (u_j + noise_j) - u_i. A neighbour moves this threshold by at most 2·sensitivity, and by at
most the sensitivity if all scores move one way, and moving it by c changes the survival function of
Laplace or exponential noise by a factor of at most exp(c/scale).
"""

from fractions import Fraction
from typing import Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dpassay import _check
from dpassay.mechanisms import choosing
from dpassay.mechanisms.additive import noise_scale
from dpassay.mechanisms.noise import Rng, source
from dpassay.privacy import events
from dpassay.types import FloatArray, Neighbouring, Release

NoisyMaxName = Literal["laplace", "exponential", "gumbel"]
"""The noise that is added to every score; the largest sum wins."""
_EVENTS: dict[NoisyMaxName, type[events.Pure | events.NoisyMax | events.BoundedRange]] = {
    "laplace": events.Pure,
    "exponential": events.NoisyMax,
    "gumbel": events.BoundedRange,
}


def exponential(
    scores: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float,
    monotone: bool = False,
    rng: Rng = None,
    neighbouring: Neighbouring = "add-remove",
) -> Release[int]:
    """The index of a candidate, drawn with weight exp(epsilon · score/(2 sensitivity)): epsilon-DP.

    The exponential mechanism (McSherry and Talwar 2007), drawn as the largest score plus Gumbel
    noise. With ``monotone`` the weight is exp(epsilon · score/sensitivity).

    Args:
        scores: one score per candidate, higher is better; 1-D, finite, not empty. The candidates
            must not depend on the data.
        sensitivity: the most that one record changes any one score.
        epsilon: the privacy parameter, positive and finite.
        monotone: declares that a neighbour never raises one score and lowers another.
        rng: None for an exact draw (:mod:`dpassay.mechanisms.noise`); a seed or generator gives a
            release that can be replayed and is not private.
        neighbouring: the relation that the sensitivity was taken under.

    Returns:
        A release with the index and the event ``BoundedRange(epsilon)``, monotone or not (proof in
        the module). How far it falls short: :func:`~dpassay.mechanisms.exponential_accuracy`.

    Raises:
        InvalidArgument: a NaN, an infinity, no candidate, a parameter that is not positive.

    >>> exponential([0.0, 50.0, 1.0], sensitivity=1.0, epsilon=1.0, rng=0).value
    1

    """
    return report_noisy_max(
        scores,
        sensitivity=sensitivity,
        epsilon=epsilon,
        noise="gumbel",
        monotone=monotone,
        rng=rng,
        neighbouring=neighbouring,
    )


class Choosing(TypedDict, total=False):
    """Options of a selection that :func:`permute_and_flip` hands on; see :func:`exponential`."""

    monotone: bool
    rng: Rng
    neighbouring: Neighbouring


def permute_and_flip(
    scores: ArrayLike, *, sensitivity: float, epsilon: float, **options: Unpack[Choosing]
) -> Release[int]:
    """The index of a candidate, never a worse choice than the exponential mechanism's: epsilon-DP.

    Visits the candidates in random order and takes the first whose coin of probability
    exp(epsilon · (score - best)/(2 sensitivity)) comes up (McKenna and Sheldon 2020). That is the
    largest score plus exponential noise (Ding et al. 2021), which is how it is drawn. Its expected
    shortfall is at most that of the exponential mechanism, but its event is ``NoisyMax(epsilon)``:
    it does not have bounded range and costs about twice the epsilon when repeated.

    Arguments and errors are those of :func:`exponential`.

    >>> permute_and_flip([0.0, 50.0, 1.0], sensitivity=1.0, epsilon=1.0, rng=0).event
    NoisyMax(epsilon=1.0, neighbouring='add-remove')

    """
    return report_noisy_max(
        scores, sensitivity=sensitivity, epsilon=epsilon, noise="exponential", **options
    )


def report_noisy_max(
    scores: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float,
    noise: NoisyMaxName = "laplace",
    monotone: bool = False,
    rng: Rng = None,
    neighbouring: Neighbouring = "add-remove",
) -> Release[int]:
    """The index of the largest score plus noise of scale 2·sensitivity/epsilon: epsilon-DP.

    The noisy maximum itself is not covered and not released. With ``monotone`` the scale is
    sensitivity/epsilon.

    Args:
        scores: one score per candidate, higher is better; 1-D, finite, not empty. The candidates
            must not depend on the data.
        sensitivity: the most that one record changes any one score.
        epsilon: the privacy parameter, positive and finite.
        noise: "laplace", "exponential" (permute-and-flip) or "gumbel" (exponential mechanism).
        monotone: declares that a neighbour never raises one score and lowers another.
        rng: None for an exact draw (:mod:`dpassay.mechanisms.noise`); a seed or generator gives a
            release that can be replayed and is not private.
        neighbouring: the relation that the sensitivity was taken under.

    Returns:
        A release with the index; its event is ``BoundedRange(epsilon)`` for Gumbel noise,
        ``NoisyMax(epsilon)`` for exponential and ``Pure(epsilon)`` for Laplace noise, which is
        drawn on a lattice.

    Raises:
        InvalidArgument: a NaN, an infinity, no candidate, a parameter that is not positive.

    """
    kind = _check.choice("noise", noise, tuple(_EVENTS))
    u = _check.array("scores", scores, ndim=1, empty=False, remedy="One number per candidate.")
    sensitivity = _check.sensitivity(sensitivity)
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    against = 1 if monotone else 2
    scale = noise_scale(against / Fraction(epsilon), sensitivity)
    event = _EVENTS[kind](epsilon, neighbouring)
    chosen = source(rng)
    if chosen.is_exact:
        moved = against * Fraction(sensitivity)
        index = choosing.choose(kind, u, scale, moved, chosen.generator)
    else:
        index = _noisy_argmax(kind, u, scale, chosen.generator)
    return Release(int(index), event, sensitivity, chosen.level)


def _noisy_argmax(
    kind: str, scores: FloatArray, scale: float, generator: np.random.Generator
) -> np.intp:
    draw = {
        "laplace": generator.laplace,
        "exponential": generator.exponential,
        "gumbel": generator.gumbel,
    }[kind]
    # Relative to the best, so that large scores neither overflow nor swallow the noise.
    with np.errstate(over="ignore"):
        behind = (scores - scores.max()) / scale
    return np.argmax(behind + draw(size=scores.size))
