"""Curves made of others: given by a function, or the minimum of several proofs."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from dpassay._special.margins import CLOSED_FORM, LEAST, allow_request, up
from dpassay._special.search import first_true
from dpassay.errors import InvalidArgument
from dpassay.privacy.curves import GDP, ApproxDP, Curve, PureDP
from dpassay.privacy.tradeoff import Lines, supporting_lines
from dpassay.types import FloatArray, Kind, PrivacyCurve


@dataclass(frozen=True, repr=False, eq=False)
class Numeric(Curve):
    """A curve given by a function: from delta to epsilon, or from epsilon to delta."""

    name: str
    epsilon_at: Callable[[FloatArray], FloatArray] | None = None
    delta_at: Callable[[FloatArray], FloatArray] | None = None
    kind: Kind = field(default="upper bound", kw_only=True)

    def __repr__(self) -> str:
        return self.name

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        if self.epsilon_at is None:
            return super()._epsilon(delta)
        return self.epsilon_at(delta)

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        if self.delta_at is not None:
            return self.delta_at(epsilon)
        return self.delta_below(epsilon, np.ones_like(epsilon))

    @property
    def is_searched(self) -> bool:
        """Whether delta has to be searched for, which is slow."""
        return self.delta_at is None

    def delta_below(self, epsilon: FloatArray, known: FloatArray) -> FloatArray:
        """The lesser of delta(epsilon) and ``known``; searched for only where it is lesser.

        There epsilon(known) is less than epsilon: one look, where a search takes a hundred. A gain
        of less than one part in 10^9 is not worth the search.
        """
        # delta(inf) is the limit of delta at finite epsilons: what is infinite does not meet it.
        finite = np.minimum(epsilon, np.finfo(float).max)
        result = known.copy()
        lesser = np.flatnonzero(self._epsilon(known * (1 - 1e-9)) <= finite)
        if lesser.size:
            x, high = finite[lesser], known[lesser]
            found = first_true(
                lambda d: self._epsilon(d) <= x, np.zeros_like(x), np.maximum(high, LEAST)
            )
            # ``epsilon_at`` may answer a request with a delta that is larger by so much.
            result[lesser] = np.minimum(up(allow_request(found)), high)
        return result


@dataclass(frozen=True, repr=False, eq=False)
class Best(Curve):
    """The smallest of several valid curves, point by point: a minimum of proofs is a proof.

    All curves must be about the same neighbouring relation, which is the one of the result.
    """

    curves: tuple[PrivacyCurve, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "curves", tuple(self.curves))
        if not self.curves:
            raise InvalidArgument("curves is empty; it must hold at least one privacy curve.")
        check_same_relation("neighbouring", self.neighbouring, "curves", self.curves)

    def __repr__(self) -> str:
        return f"Best({', '.join(repr(curve) for curve in self.curves)})"

    def _delta(self, epsilon: FloatArray) -> FloatArray:
        return self._delta_down_to(0.0, epsilon)

    def _delta_down_to(self, enough: float, epsilon: FloatArray) -> FloatArray:
        """An upper bound on delta, not improved by a search where it is at most ``enough``."""
        searched = [c for c in self.curves if isinstance(c, Numeric) and c.is_searched]
        known = np.ones_like(epsilon)
        for curve in self.curves:
            known = known if curve in searched else np.minimum(known, curve.delta(epsilon))
        for curve in searched:
            asked = np.flatnonzero(known > enough)
            if asked.size:
                known[asked] = curve.delta_below(epsilon[asked], known[asked])
        return known

    @functools.cached_property
    def _lines(self) -> Lines:
        # Far out the numeric methods end at a floor below rounding, and searches beneath it would
        # take most of the time, to move lines by less than they are rounded down.
        return supporting_lines(functools.partial(self._delta_down_to, CLOSED_FORM))

    def _epsilon(self, delta: FloatArray) -> FloatArray:
        return functools.reduce(np.minimum, (curve.epsilon(delta) for curve in self.curves))

    def _tradeoff(self, fpr: FloatArray) -> FloatArray:
        # The lines see every curve; a closed form is closer where there is one.
        closed = [c.tradeoff(fpr) for c in self.curves if isinstance(c, PureDP | ApproxDP | GDP)]
        return functools.reduce(np.maximum, [self._lines(fpr), *closed])


def check_same_relation(
    name: str, relation: str, others: str, curves: Iterable[PrivacyCurve]
) -> None:
    """Refuse curves about another neighbouring relation: their numbers mean different things."""
    for i, curve in enumerate(curves):
        if curve.neighbouring != relation:
            raise InvalidArgument(
                f"{others}[{i}].neighbouring={curve.neighbouring!r} must be {name}={relation!r}. "
                "Curves of different relations cannot be compared; state all under one, or see "
                "dpassay.privacy.replace_one_from_add_remove."
            )
