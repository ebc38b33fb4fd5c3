"""Two baselines that a better method must beat: independent columns, and noisy answers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import Source
from dpassay.privacy import Event, gaussian_noise_multiplier
from dpassay.privacy.budget import Budget
from dpassay.synth.base import Synthesizer
from dpassay.synth.measurements import (
    SENSITIVITY,
    Measurement,
    measure,
    measurement_event,
    on_simplex,
)
from dpassay.synth.models import Mixture, Model, Records, Tables


@dataclass(frozen=True)
class OneShotPlan:
    """Some marginals, all measured at once with equal noise on their counts."""

    columns: tuple[tuple[str, ...], ...]
    sigma: float
    event: Event


def one_shot(columns: Sequence[tuple[str, ...]], allowed: Budget) -> OneShotPlan:
    """The least noise with which all these marginals meet the budget.

    k tables together have l2 sensitivity √k times that of one, and Gaussian noise has an exact
    curve: no composition theorem is lossy here.
    """
    if not allowed.delta > 0:
        raise InvalidArgument("delta=0 must be positive: the noise of marginals is Gaussian.")
    count, distance = len(columns), SENSITIVITY[allowed.neighbouring]
    sigma = gaussian_noise_multiplier(allowed.epsilon, allowed.delta) * distance * count**0.5
    return OneShotPlan(
        tuple(columns), sigma, measurement_event([sigma] * count, allowed.neighbouring)
    )


class Independent(Synthesizer):
    """Every column by itself: noisy shares of its values, and no relation between columns.

    The model is one product distribution, fitted to the one-way marginals by Gaussian noise. It
    ignores the workload. Arguments are those of :class:`~dpassay.synth.Synthesizer`.

    >>> import pandas as pd
    >>> from dpassay.synth import Schema, Workload
    >>> table = pd.DataFrame({"sex": ["F", "M"] * 500, "smokes": [0, 0, 0, 0, 1] * 200})
    >>> schema = Schema({"sex": ["F", "M"], "smokes": [0, 1]})
    >>> fitted = Independent(schema, epsilon=1.0, delta=1e-6, rng=0).fit(table)
    >>> fitted.answer(Workload.marginals([("smokes",)])).round(1)
    array([0.8, 0.2])
    >>> fitted.privacy_.epsilon(1e-6)
    1.0

    """

    @property
    def adds_gaussian_noise_only(self) -> bool:
        """True: all noise of this method is Gaussian."""
        return True

    def _plan(self, allowed: Budget, n_records: int) -> OneShotPlan:
        del n_records
        return one_shot([(name,) for name in self.schema.names], allowed)

    def _run(self, data: Records, plan: OneShotPlan, chosen: Source) -> Model:
        found = self._measure(data, plan, chosen)
        factors = np.concatenate([on_simplex(m.shares) for m in found])
        return Mixture(self.schema, np.ones(1), factors[None])

    def _measure(self, data: Records, plan: OneShotPlan, chosen: Source) -> list[Measurement]:
        sigmas = [plan.sigma] * len(plan.columns)
        return measure(data, plan.columns, sigmas, chosen, self.neighbouring)


class NoisyMarginals(Synthesizer):
    """Every marginal of the workload plus Gaussian noise, made a distribution: answers only.

    What one gets without any model: the error that a synthesizer should undercut. Arguments are
    those of :class:`~dpassay.synth.Synthesizer`; ``sample`` is refused.
    """

    @property
    def adds_gaussian_noise_only(self) -> bool:
        """True: all noise of this method is Gaussian."""
        return True

    def _plan(self, allowed: Budget, n_records: int) -> OneShotPlan:
        del n_records
        return one_shot(self.workload.column_sets(), allowed)

    def _run(self, data: Records, plan: OneShotPlan, chosen: Source) -> Model:
        found = self._measure(data, plan, chosen)
        return Tables(self.schema, {m.columns: on_simplex(m.shares) for m in found})

    def _measure(self, data: Records, plan: OneShotPlan, chosen: Source) -> list[Measurement]:
        sigmas = [plan.sigma] * len(plan.columns)
        return measure(data, plan.columns, sigmas, chosen, self.neighbouring)
