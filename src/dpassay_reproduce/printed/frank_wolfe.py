"""Frank-Wolfe with the Laplace noise of Micali 2022, theorem 25.

Private under replace-one, with far more noise than it takes. The learners here are those of
:mod:`dpassay.learn` with this noise in place of theirs.
"""

import math
from dataclasses import dataclass
from typing import Any

from dpassay import _check
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.learn import PrivateLasso
from dpassay.learn import logistic_frank_wolfe as tight
from dpassay.optim import frank_wolfe as fw
from dpassay.optim.polytopes import Polytope
from dpassay.privacy import Event
from dpassay.types import Neighbouring

__all__ = ["PrintedFrankWolfe", "PrintedLasso", "noise_scale", "plan"]


def noise_scale(
    *,
    steps: int,
    n_records: int,
    lipschitz: float,
    radius: float,
    epsilon: float,
    delta: float,
    form: int = 16,
) -> float:
    """The Laplace scale: form · L0 C1 sqrt(2 T log(1/delta)) / (N epsilon).

    ``form=16`` is what the proof of theorem 25 gives, ``form=8`` what its statement prints. Both
    are private under replace-one, with a real epsilon far below the nominal one (.1775 and .3719
    for 1 at N = 1000, T = 100, delta = 1e-6): 9.281 and 4.641 times the noise that Gumbel selection
    under zCDP needs.

    >>> kwargs = dict(steps=100, n_records=1000, lipschitz=1, radius=1, epsilon=1, delta=1e-6)
    >>> round(noise_scale(**kwargs), 6), round(noise_scale(**kwargs, form=8), 6)
    (0.841043, 0.420522)

    """
    form = int(_check.choice("form", str(form), ("16", "8")))
    T, N = _check.count("steps", steps), _check.count("n_records", n_records)
    size = _check.number("lipschitz", lipschitz, low=0, low_open=True)
    size *= _check.number("radius", radius, low=0, low_open=True)
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    delta = _check.number("delta", delta, low=0, high=1, low_open=True, high_open=True)
    return form * size * math.sqrt(2 * T * math.log(1 / delta)) / (N * epsilon)


def plan(
    polytope: Polytope,
    *,
    n_records: int,
    lipschitz: float,
    smoothness: float,
    epsilon: float,
    delta: float,
    neighbouring: Neighbouring = "add-remove",
    steps: int | str | None = None,
    form: int = 16,
) -> fw.FrankWolfePlan:
    """:func:`dpassay.optim.frank_wolfe.plan` with Laplace selections of :func:`noise_scale`.

    Raises:
        InvalidArgument: delta is 0, or epsilon above 8 log(1/delta), where theorem 20 fails.

    """
    if not _check.delta(delta) > 0:
        raise InvalidArgument(f"delta={delta:g} must be positive for the printed noise.")
    if epsilon > 8 * math.log(1 / delta):
        raise InvalidArgument(
            f"epsilon={epsilon:g} must be at most 8 log(1/delta) for the printed noise: theorem 20 "
            "of Micali 2022 fails above."
        )
    sensitivity = fw.score_sensitivity(lipschitz, polytope.l1_norm, n_records, neighbouring)

    def select(T: int) -> fw.Selection:
        scale = noise_scale(
            steps=T,
            n_records=n_records,
            lipschitz=lipschitz,
            radius=polytope.l1_norm,
            epsilon=epsilon,
            delta=delta,
            form=form,
        )
        return fw.Selection("laplace", sensitivity, 2 * sensitivity / scale, neighbouring)

    return fw.plan_with(select, polytope, smoothness, neighbouring, steps)


class PrintedLasso(PrivateLasso):
    """:class:`dpassay.learn.PrivateLasso` with the printed noise; ``selection`` is ignored."""

    def _make_plan(self, polytope: Polytope, **public: Any) -> fw.FrankWolfePlan:
        return plan(polytope, steps=self.steps, **public)


@dataclass(frozen=True)
class PrintedFrankWolfe(tight.FrankWolfe):
    """Logistic regression on an l1 ball, in units of the row bound: no selection chooses a unit."""

    def _make_plan(self, ball: Polytope, **public: Any) -> fw.FrankWolfePlan:
        return plan(ball, **public)

    @property
    def _epsilon(self) -> float:
        """The epsilon of one selection."""
        assert self._plan.selection is not None
        return self._plan.selection.epsilon

    @property
    def event(self) -> Event:
        """One selection per step."""
        return self._plan.event

    def unit(self, X: Any, rng: RngLike) -> float:
        """The row bound, which is public."""
        return self.facts.row_bound

    def _is_sparse(self, X: Any) -> bool:
        """Never: Laplace selections are not sampled in less than one operation per vertex."""
        return False
