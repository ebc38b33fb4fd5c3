"""The result types and Protocols that every part of dpassay speaks.

A *claim* is a :class:`PrivacyCurve`; a mechanism returns a :class:`Release`; statistics return a
:class:`LowerBound`. They are frozen and checked when they are made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpassay import _check

Neighbouring = Literal["add-remove", "replace-one"]
Kind = Literal["exact", "upper bound", "estimate"]
NoiseLevel = Literal["exact", "cryptographic", "reproducible"]
FloatArray = NDArray[Any]  # of float64; NumPy's stubs lose that in most expressions
Floats = FloatArray | np.float64 | float
T = TypeVar("T")
U = TypeVar("U")


@runtime_checkable
class PrivacyCurve(Protocol):
    """A full statement of privacy: delta for every epsilon, and what it rests on.

    ``kind`` is "exact", "upper bound" (never below the truth) or "estimate" (no guarantee;
    calibration and learners refuse it). ``assumptions`` lists what was taken as public.
    """

    @property
    def neighbouring(self) -> Neighbouring: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def method(self) -> str: ...
    @property
    def assumptions(self) -> tuple[str, ...]: ...

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: FloatArray) -> FloatArray: ...
    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: FloatArray) -> FloatArray: ...
    @overload
    def tradeoff(self, fpr: float) -> float: ...
    @overload
    def tradeoff(self, fpr: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Release(Generic[T]):
    """A released value with what it cost.

    Attributes:
        value: what may be published.
        event: what was done to the data (:mod:`dpassay.privacy.events`), to be accounted.
        sensitivity: the declared sensitivity that the noise was scaled to.
        noise: "exact", "cryptographic" or "reproducible" (research only, not private).

    """

    value: T
    event: Any
    sensitivity: float
    noise: NoiseLevel

    def map(self, function: Callable[[T], U]) -> "Release[U]":
        """The release of ``function(value)``: post-processing costs nothing and keeps the event."""
        return replace(self, value=function(self.value))  # type: ignore[return-value]


def _rounded_down(x: float) -> str:
    """Four digits, never above x: a lower bound must stay one in print."""
    if not 0 < x < math.inf:
        return f"{x:g}"
    place = 10.0 ** (3 - math.floor(math.log10(x)))
    return f"{math.floor(x * place * (1 + 1e-12)) / place:.4g}"


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on epsilon, with everything needed to judge it.

    Attributes:
        epsilon: epsilon(delta) of the audited algorithm is at least this, with ``confidence``.
        delta: the delta that the bound is stated at.
        confidence: the probability (over the trials) that the statement holds.
        method: the statistic, for example "clopper-pearson".
        assumption: "none", or what must be believed, for example "Gaussian trade-off".
        ceiling: the most that this audit could have shown, had the attack been perfect.
        threshold: the decision threshold or the number of guesses, where there is one.
        selection: how that was chosen and how the choice was paid for.
        details: numbers behind the bound (counts, rates, limits), by name.

    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    assumption: str = "none"
    ceiling: float = math.inf
    threshold: float | tuple[int, int] | None = None
    selection: str = "fixed in advance"
    details: dict[str, float] | None = None

    def __post_init__(self) -> None:
        _check.epsilon(self.epsilon)
        _check.delta(self.delta)
        _check.confidence(self.confidence)

    def __str__(self) -> str:
        text = (
            f"epsilon >= {_rounded_down(self.epsilon)} at delta={self.delta:g} "
            f"(confidence {self.confidence:.10g}, {self.method}"
        )
        text += f", assuming {self.assumption}" if self.assumption != "none" else ""
        return text + f"; ceiling {self.ceiling:.4g})"
