"""What the runs of a private search may cost, settled before any data are touched.

A fit's event rests on public quantities alone, so that a fit on made-up records with the same
public side (number of features, of records, label set, settings) has the event that the fit on the
data will have. Every setting of a grid is tried so, and gets the largest epsilon at which its fit
is within what a run may cost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from dpassay import _check
from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.learn.base import Budget, PrivateMixin
from dpassay.learn.scorings import private_part
from dpassay.learn.search_data import Blank
from dpassay.privacy import (
    GDP,
    Event,
    Gaussian,
    NonPrivate,
    Selected,
    Sequence,
    account,
    calibrate,
)

_SHARES = tuple(0.95**k for k in range(20))  # of epsilon, that a fit is tried with


@dataclass(frozen=True)
class SearchPlan:
    """What a search will do, and the noise over sensitivity that its parts may cost (0 for none).

    Attributes:
        event: of the whole.
        run_noise: of the Gaussian release that a run costs at the most.
        fit_noise: of the one that the last fit, on all records, costs at the most; None without.

    """

    event: Event
    run_noise: float
    fit_noise: float | None


@lru_cache(maxsize=256)
def plan_search(
    budget: Budget, n_runs: float, law: str, shape: float, share: float = 1.0
) -> SearchPlan:
    """The runs of a search within ``share`` of epsilon, and a last fit with what is left.

    The last fit is one more release after the search, so that they compose; its noise is the least
    with which both together meet the target. With a share of 1 there is none.
    """

    def select(noise: float) -> Event:
        return Selected(Gaussian(noise, budget.neighbouring), n_runs, law, shape)

    def with_fit(noise: float) -> Event:
        return Sequence((select(run_noise), Gaussian(noise, budget.neighbouring)))

    select(1.0)  # refuses what is out of range
    if not budget.is_private:
        return SearchPlan(NonPrivate(budget.neighbouring), 0.0, 0.0 if share < 1 else None)
    remedy = "Gaussian noise is never pure; take delta below 1/n."
    _check.number("delta", budget.delta, low=0, high=1, low_open=True, remedy=remedy)
    part = replace(budget, epsilon=share * budget.epsilon)
    run_noise = calibrate(select, part.target, method="rdp")
    if share == 1:
        return SearchPlan(select(run_noise), run_noise, None)
    fit_noise = calibrate(with_fit, budget.target, method="rdp")
    return SearchPlan(with_fit(fit_noise), run_noise, fit_noise)


@lru_cache(maxsize=256)
def run_epsilon(delta: float, noise: float) -> float:
    """The epsilon at delta of one Gaussian release with this noise; infinite without noise."""
    return GDP(1 / noise).epsilon(delta) if noise else math.inf


def candidate(estimator: Any, params: Mapping[str, Any], public: Mapping[str, Any]) -> Any:
    """A clone with the setting of a grid, and then with what the search decides.

    Raises:
        InvalidArgument: it is no private estimator; it has a ledger; a step before it learns.

    """
    model: Any = clone(estimator)
    model.set_params(**params)
    _refuse_steps_that_learn(model)
    last = private_part(model)
    # A search inside a search would be paid for as if it were one fit.
    if not isinstance(last, PrivateMixin) or hasattr(last, "param_grid"):
        raise InvalidArgument(
            f"estimator={last!r} must be a private estimator of dpassay.learn, or a pipeline that "
            "ends in one; the search cannot pay for others."
        )
    if last.ledger is not None:
        raise InvalidArgument(
            "the estimator has a ledger of its own, which would count every run of a search "
            "that is paid for as a whole. Pass ledger= to the search instead."
        )
    for name in ("rho", "risk"):
        if (value := getattr(last, name, None)) is not None:
            raise InvalidArgument(
                f"{name}={value!r} of the estimator would be spent whatever the search decides. "
                "Leave it None; the search sets epsilon."
            )
    last.set_params(**public)  # type: ignore[attr-defined]
    return model


def _refuse_steps_that_learn(model: Any) -> None:
    if not isinstance(model, Pipeline):
        return
    for name, step in model.steps[:-1]:
        if step is not None and step != "passthrough" and get_tags(step).requires_fit:
            raise InvalidArgument(
                f"estimator: the step {name!r}, {step!r}, learns from the data, which the search "
                "does not pay for. Use the declared bounds= of the last step, or a transformer "
                "that learns nothing, such as FunctionTransformer or Normalizer."
            )


def affordable_epsilon(
    model: Any, blank: Blank, most: float, noise: float, law: str, params: Mapping[str, Any]
) -> float:
    """The largest epsilon tried, of ``most``, at which a fit costs no more than a run may.

    Full-batch Gaussian fits get all of it. Selections (lasso, Frank-Wolfe) that meet the same
    (epsilon, delta) have smaller Rényi divergences but, at small epsilon, larger deltas, which the
    Poisson law asks for too: they get 5 to 15 % less.

    Raises:
        InvalidArgument: none will do.

    """
    for share in _SHARES:
        fitted = _fit_to_made_up_records(model, blank, share * most)
        refuse_estimates(fitted, params)
        if is_within(fitted.event_, noise, law):
            return share * most
        if not np.isfinite(_divergences(fitted.event_)).all():
            break  # and no smaller epsilon changes that
    raise too_dear(fitted.event_, params)


def _fit_to_made_up_records(model: Any, blank: Blank, epsilon: float) -> Any:
    model = clone(model)
    last = private_part(model).set_params(epsilon=epsilon, random_state=0)
    labels = getattr(last, "classes", None)
    y = np.zeros(2) if labels is None else np.asarray(labels)
    try:
        model.fit(blank(len(y)), y)
    except Exception as error:
        error.add_note("This was a fit on made-up records (all entries 0.5), to learn its price.")
        raise
    return last


def refuse_estimates(fitted: Any, params: Mapping[str, Any]) -> None:
    """Raise for a fit whose privacy is no bound."""
    if fitted.privacy_.kind == "estimate":
        raise InvalidArgument(
            f"param_grid: a fit with {params!r} has an estimate for its privacy, no bound that "
            "a search could add to. Use another solver."
        )


def too_dear(event: Event, params: Mapping[str, Any]) -> InvalidArgument:
    """The error for a fit that a run cannot pay for."""
    return InvalidArgument(
        f"param_grid: a fit with {params!r} has the event {event!r}, which is dearer than a "
        "Gaussian release at some Rényi order (or has none), though not at the (epsilon, delta) it "
        "was given. Use a solver with Gaussian noise on full batches ('gd', 'output', 'adassp') or "
        "with selections ('frank-wolfe', PrivateLasso)."
    )


@lru_cache(maxsize=256)
def is_within(event: Event, noise: float, law: str) -> bool:
    """Whether the event costs what a Gaussian release with this noise does, or less, everywhere.

    At every Rényi order; for the Poisson law also in delta at log(1 + 1/(order - 1)).
    """
    gaussian_event = Gaussian(noise, event.neighbouring)
    allowed: Any = account(gaussian_event, "rdp")
    within = bool((_divergences(event) <= allowed.epsilons).all())
    if law != "poisson" or not within:
        return within
    points = -np.log1p(-1 / allowed.orders)
    return bool((account(event).delta(points) <= account(gaussian_event).delta(points)).all())


@lru_cache(maxsize=256)
def _divergences(event: Event) -> Any:
    """Rényi divergences at the accountant's orders; infinite where there is no bound."""
    try:
        curve: Any = account(event, "rdp")
    except UnsupportedEvent:
        return np.array([math.inf])
    return curve.epsilons
