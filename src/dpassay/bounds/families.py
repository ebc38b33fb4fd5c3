"""Nested families of claims, any member of which a sequence of trials may refute."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay import _check
from dpassay._special.margins import ARITHMETIC, NUMERICAL, down, round_up
from dpassay.bounds.labels import epsilon_label
from dpassay.errors import InvalidArgument
from dpassay.privacy import gaussian
from dpassay.privacy.combined import check_same_relation
from dpassay.privacy.curves import GDP, ApproxDP, PureDP
from dpassay.types import NO_ASSUMPTION, FloatArray, PrivacyCurve

EPSILONS = tuple(float(epsilon) for epsilon in np.geomspace(0.1, 12, 40))
_GDP_DELTA = "Gaussian noise has no finite epsilon at delta=0; a common value is 1e-5."


def check_curve(name: str, value: Any) -> PrivacyCurve:
    """The value, if it is a privacy curve."""
    if not isinstance(value, PrivacyCurve):
        raise InvalidArgument(
            f"{name}={_check.shown(value)} must be a privacy curve, such as "
            "ApproxDP(epsilon=1, delta=1e-5)."
        )
    return value


@dataclass(frozen=True, eq=False)
class Family:
    """Privacy curves from strong to weak, each allowing all that the one before it does.

    Attributes:
        curves: the members.
        epsilons: epsilon(delta) of each; increasing.
        delta: where they are compared.
        assumption: what turns "is none of these" into a bound on epsilon(delta); "none" if nothing.
        member: for families with a member at every value of a parameter: the curve at a value; a
            larger value is less private everywhere. None if there are only ``curves``.
        parameters: the value of each of the ``curves``.

    """

    curves: tuple[PrivacyCurve, ...]
    epsilons: tuple[float, ...]
    delta: float
    assumption: str = NO_ASSUMPTION
    member: Callable[[float], PrivacyCurve] | None = None
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check.delta(self.delta)
        for i, curve in enumerate(self.curves):
            check_curve(f"curves[{i}]", curve)
        epsilons = _check.array("epsilons", self.epsilons, low=0, ndim=1, empty=False)
        if len(self.curves) != epsilons.size or np.any(np.diff(epsilons) <= 0):
            raise InvalidArgument(
                f"epsilons={self.epsilons} must increase, one for each of {len(self.curves)} "
                "curves. Leave out members that are alike."
            )
        check_same_relation("curves[0]", self.curves[0].neighbouring, "curves", self.curves)
        self._check_labels(epsilons)
        middle = float(np.median(epsilons))
        deltas = [(curve.delta(0.0), curve.delta(middle)) for curve in self.curves]
        if np.any(np.diff(deltas, axis=0) < -NUMERICAL):
            raise InvalidArgument(
                "curves are not nested: delta falls from one to the next. Order them by loss."
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> "Family":
        return self  # nothing in it changes, and the books on its members are kept for this object

    def _check_labels(self, epsilons: FloatArray) -> None:
        """A refuted member must speak for its epsilon, and for all algorithms if it says so."""
        labels: list[float] = epsilons.tolist()
        for label, curve in zip(labels, self.curves, strict=True):
            # Where more than delta leaks just below the label, epsilon(delta) is not smaller. This
            # is asked first: a curve's delta is cheaper than its inverse.
            leaks = curve.delta(label * (1 - ARITHMETIC)) > self.delta
            if not leaks and not label <= round_up(float(curve.epsilon(self.delta))):
                raise InvalidArgument(
                    f"epsilons={label:g} must not exceed epsilon(delta={self.delta:g}) of its "
                    f"curve, {curve!r}."
                )
        points = all(
            (isinstance(c, ApproxDP) and c.delta_upper == self.delta)
            or (isinstance(c, PureDP) and self.delta == 0)
            for c in self.curves
        )
        if self.assumption == NO_ASSUMPTION and not points:
            raise InvalidArgument(
                "assumption='none' must be more unless all members are (epsilon, delta)-DP: say "
                "what turns a refuted curve into a bound, such as 'Gaussian trade-off'."
            )

    @classmethod
    def approx_dp(cls, delta: float, epsilons: Iterable[float] = EPSILONS) -> "Family":
        """(epsilon, delta)-DP for each epsilon: the bound then assumes nothing."""
        values = tuple(epsilons)
        member = functools.partial(ApproxDP, delta=delta)
        return cls(tuple(map(member, values)), values, delta, member=member, parameters=values)

    @classmethod
    def gdp(cls, delta: float, epsilons: Iterable[float] = EPSILONS) -> "Family":
        """Gaussian DP with each epsilon at delta > 0: larger bounds, for Gaussian mechanisms."""
        delta = _check.number("delta", delta, low=0, high=1, low_open=True, remedy=_GDP_DELTA)
        values = _check.array("epsilons", tuple(epsilons), low=0, low_open=True, ndim=1)
        curves = tuple(GDP(float(mu)) for mu in gaussian.mu_of(values, np.float64(delta)))
        # mu was rounded down, so that its epsilon is a little below what was asked for.
        below = tuple(float(e) for e in down(values, ARITHMETIC))
        return cls(curves, below, delta, "Gaussian trade-off", GDP, tuple(c.mu for c in curves))

    @classmethod
    def of(
        cls,
        curves: Iterable[PrivacyCurve] | Callable[[float], PrivacyCurve],
        *,
        delta: float,
        noise_multipliers: Iterable[float] | None = None,
        epsilons: Iterable[float] | None = None,
        assumption: str = "privacy curve of the family",
    ) -> "Family":
        """Any curves, or those of a mechanism at several noise levels, sorted by epsilon(delta).

        ``epsilons`` are lower bounds on epsilon(delta), one for each curve. They may be left out
        where curves are exact. An accountant's curve is an upper bound, whose own epsilon would
        label a refuted member too high: without ``epsilons`` it is refused. For DP-SGD, with
        ``noise = np.geomspace(4, 0.5, 40)``: ``Family.of(lambda sigma: account(dp_sgd_event(sigma,
        0.01, 1000), "pld"), noise_multipliers=noise, epsilons=[epsilon_of_steps(1 / sigma, 0.01,
        1000, 1e-5) for sigma in noise], delta=1e-5)``, by ``dpassay.bounds.steps``.
        """
        delta = _check.delta(delta)
        if callable(curves):
            levels = noise_multipliers if noise_multipliers is not None else ()
            members = [curves(_check.noise_multiplier(level)) for level in levels]
        else:
            members = list(curves)
        members = [check_curve("curves", member) for member in members]
        labels = (
            [epsilon_label(member, delta) for member in members]
            if epsilons is None
            else _check.array("epsilons", tuple(epsilons), low=0, ndim=1).tolist()
        )
        if len(labels) != len(members):
            raise InvalidArgument(
                f"epsilons has {len(labels)} entries for {len(members)} curves; give one for each."
            )
        labelled = sorted((label, i) for i, label in enumerate(labels))
        ordered = tuple(members[i] for _, i in labelled)
        return cls(ordered, tuple(epsilon for epsilon, _ in labelled), delta, assumption)


FAMILIES = {"approx-dp": Family.approx_dp, "gdp": Family.gdp}
