"""Frank-Wolfe on a polytope, private through the choice of its vertices alone.

Every step moves towards one vertex, w <- (1 - g) w + g s, and the data enter only in which vertex
that is: the one with the best score -<gradient, s>, chosen by a noisy maximum. The released w, all
iterates and the whole sequence of vertices are covered by the composition of those selections. The
solver knows no models: an objective has a value and a gradient, a polytope has vertices.

**Sensitivity of the scores.** Let the objective be (1/N) sum_i l_i with N a public constant, every
l_i having ||gradient||_inf <= L0 on the polytope, and let C1 be the largest l1 norm of a vertex.
Given the selections so far, w is fixed. Under add-remove the neighbours' gradients at w differ by
one record's gradient over N, so a score moves by |<grad l, s>|/N <= L0 C1/N (Hölder). Under
replace-one they differ by two, so by 2 L0 C1/N. The divisor must not be the number of records in
hand, which differs between neighbours under add-remove. (Micali 2022 prints smoothness where this
L0 is meant.)

**Price.** A selection is made with noise of scale 2 · sensitivity/epsilon. Gumbel noise is the
exponential mechanism, epsilon²/8-zCDP, the cheapest to repeat; permute-and-flip and Laplace noise
are epsilon-DP, up to epsilon²/2-zCDP, composed exactly. Adaptive composition covers the dependence
of later scores on earlier choices.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np

from dpassay import _check
from dpassay._lazy import moved
from dpassay._rng import RngLike
from dpassay.errors import InvalidArgument
from dpassay.mechanisms import noise as noise_sources
from dpassay.mechanisms.noise import Source
from dpassay.mechanisms.selection import NoisyMaxName, report_noisy_max
from dpassay.optim.polytopes import Polytope
from dpassay.privacy import ApproxDP, PureDP, calibrate, events, excess_risk
from dpassay.types import FloatArray, Neighbouring, NoiseLevel

SelectionName = Literal["gumbel", "permute-and-flip", "laplace"]
SELECTIONS: dict[SelectionName, NoisyMaxName] = {
    "gumbel": "gumbel",
    "permute-and-flip": "exponential",
    "laplace": "laplace",
}
"""What a selection is called, and the noise that it adds to the scores."""
MAX_STEPS = 100_000
_HASTE = 5
ITERATES = ("last", "average")

StepRule = float | Callable[[int], float] | None


class Objective(Protocol):
    """A convex function of w; for privacy, a sum over records divided by a public number."""

    def gradient(self, w: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Selection:
    """How a vertex is chosen: ``epsilon``-DP for scores of this ``sensitivity``.

    Attributes:
        kind: "gumbel" (exponential mechanism), "permute-and-flip" or "laplace".
        sensitivity: the most that one record changes any one score (:func:`score_sensitivity`).
        epsilon: of one selection; the noise has scale 2 · sensitivity/epsilon.
        neighbouring: the relation that the sensitivity was taken under.

    """

    kind: SelectionName
    sensitivity: float
    epsilon: float
    neighbouring: Neighbouring = "add-remove"

    def __post_init__(self) -> None:
        _check.choice("kind", self.kind, tuple(SELECTIONS))
        _check.sensitivity(self.sensitivity)
        _check.epsilon(self.epsilon, finite=True, positive=True)
        _check.neighbouring(self.neighbouring)

    @property
    def scale(self) -> float:
        """The scale of the noise."""
        return 2 * self.sensitivity / self.epsilon

    @property
    def event(self) -> events.Event:
        """What one selection does to the data."""
        kind = events.BoundedRange if self.kind == "gumbel" else events.Pure
        return kind(self.epsilon, self.neighbouring)

    def error(self, n_vertices: int) -> float:
        """An upper bound on the expected shortfall of the chosen score."""
        return excess_risk.selection_error(SELECTIONS[self.kind], self.scale, n_vertices)

    def choose(self, scores: FloatArray, rng: RngLike) -> int:
        """The index of a (nearly) best score."""
        release = report_noisy_max(
            scores,
            sensitivity=self.sensitivity,
            epsilon=self.epsilon,
            noise=SELECTIONS[self.kind],
            rng=rng,
            neighbouring=self.neighbouring,
        )
        return release.value


@dataclass(frozen=True)
class FrankWolfePlan:
    """What a run will do, decided from public quantities: number of steps and selection.

    ``selection`` is None for a run without privacy.
    """

    steps: int
    selection: Selection | None
    neighbouring: Neighbouring = "add-remove"

    @property
    def event(self) -> events.Event:
        """What the whole run does to the data."""
        if self.selection is None:
            return events.NonPrivate(self.neighbouring)
        return events.Repeated(self.selection.event, self.steps)


@dataclass(frozen=True, eq=False)
class Solution:
    """Where Frank-Wolfe ended.

    Attributes:
        w: the last iterate, or their average.
        vertices: the index of the vertex of each step; covered by the event as w is.
        event: what was done to the data.
        noise: the level of the noise ("reproducible" is not private); None without noise.
        nonprivate_gaps: the Frank-Wolfe gap before each step, if asked for. It is computed from the
            data without noise and is not covered by the event: never release it.

    """

    w: FloatArray
    vertices: FloatArray
    event: events.Event
    noise: NoiseLevel | None
    nonprivate_gaps: FloatArray | None = None


def score_sensitivity(
    lipschitz: float, l1_norm: float, n_records: float, neighbouring: Neighbouring = "add-remove"
) -> float:
    """The most that one record changes a score -<gradient, s>: an upper bound, attained.

    L0 C1/N under add-remove, 2 L0 C1/N under replace-one; proof in the module.

    Args:
        lipschitz: L0, the largest entry of one record's gradient, anywhere on the polytope.
        l1_norm: C1, the largest l1 norm of a vertex.
        n_records: N, the public number that the sum of losses is divided by.
        neighbouring: "add-remove" or "replace-one".

    >>> score_sensitivity(1.0, 1.0, 1000, "replace-one")
    0.002

    """
    changes = {"add-remove": 1, "replace-one": 2}[_check.neighbouring(neighbouring)]
    L0 = _check.number("lipschitz", lipschitz, low=0, low_open=True, remedy=_BOUND)
    C1 = _check.number("l1_norm", l1_norm, low=0, low_open=True, remedy=_BOUND)
    N = _check.number("n_records", n_records, low=0, low_open=True, remedy="It is a public count.")
    return changes * L0 * C1 / N


_BOUND = "Derive it from declared bounds, never from the data."


def calibrate_selection(
    kind: SelectionName,
    *,
    sensitivity: float,
    steps: int,
    epsilon: float,
    delta: float,
    neighbouring: Neighbouring = "add-remove",
) -> Selection:
    """The selection with the least noise of which ``steps`` together are (epsilon, delta)-DP.

    Gumbel noise is priced by zCDP, or by the exact composition of pure epsilon-DP where that is
    better (few steps, large epsilon); the others by the latter. delta = 0 is basic composition.

    >>> s = calibrate_selection("gumbel", sensitivity=0.002, steps=100, epsilon=1.0, delta=1e-6)
    >>> round(s.epsilon, 6), round(s.scale, 6)
    (0.044142, 0.090618)

    """
    steps = _check.count("steps", steps, remedy="It is the number of selections.")
    epsilon = _check.epsilon(epsilon, finite=True, positive=True)
    _check.choice("kind", kind, tuple(SELECTIONS))
    each = _step_epsilon(kind, steps, epsilon, _check.delta(delta))
    return Selection(kind, sensitivity, each, neighbouring)


# Pricing takes tens of milliseconds, and an audit asks for the same answer at every trial.
@lru_cache(maxsize=256)
def _step_epsilon(kind: SelectionName, steps: int, epsilon: float, delta: float) -> float:
    target = ApproxDP(epsilon, delta) if delta > 0 else PureDP(epsilon)
    methods = ("basic",) if delta == 0 else ("optimal", "zcdp")[: 2 if kind == "gumbel" else 1]

    def repeat(noise: float) -> events.Event:
        return events.Repeated(Selection(kind, 1.0, 1 / noise).event, steps)

    return 1 / min(calibrate(repeat, target, method=method) for method in methods)


def plan(
    polytope: Polytope,
    *,
    n_records: int,
    lipschitz: float,
    smoothness: float,
    epsilon: float,
    delta: float,
    neighbouring: Neighbouring = "add-remove",
    selection: SelectionName = "gumbel",
    steps: int | str | None = None,
) -> FrankWolfePlan:
    """How many steps to take and how noisy to choose, from public quantities alone.

    Args:
        polytope: what to optimise over.
        n_records: N, the public number that the sum of losses is divided by.
        lipschitz: L0, the largest entry of one record's gradient, anywhere on the polytope.
        smoothness: L1, of the objective's gradient from the l1 to the l_inf norm.
        epsilon: the epsilon of the whole run; infinity for a run without privacy.
        delta: the delta of the whole run; 0 for pure epsilon-DP.
        neighbouring: "add-remove" or "replace-one".
        selection: "gumbel", "permute-and-flip" or "laplace".
        steps: how many; "bound" for the number that minimises the bound on the expected excess risk
            (:func:`~dpassay.privacy.excess_risk.frank_wolfe_excess_risk`); None for a fifth of
            that. The bound takes curvature at its worst, and on nine data sets at epsilon of .3 to
            3 the best number was 3 to 10 times smaller (``benchmarks/frank_wolfe.py``).

    Returns:
        The plan; its ``event`` is what a run will cost, known before any data are touched.

    Raises:
        InvalidArgument: a bound that is not positive; no steps given for a run without privacy.

    """
    _check.choice("selection", selection, tuple(SELECTIONS))
    if _check.epsilon(epsilon, positive=True) == math.inf:
        if steps is None or steps == "bound":
            raise InvalidArgument(
                f"steps={steps!r} must be a number when epsilon=inf; no bound ends it."
            )
        return FrankWolfePlan(_check.count("steps", steps), None, neighbouring)
    sensitivity = score_sensitivity(lipschitz, polytope.l1_norm, n_records, neighbouring)

    def select(T: int) -> Selection:
        return calibrate_selection(
            selection,
            sensitivity=sensitivity,
            steps=T,
            epsilon=epsilon,
            delta=delta,
            neighbouring=neighbouring,
        )

    return plan_with(select, polytope, smoothness, neighbouring, steps)


def plan_with(
    select: Callable[[int], Selection],
    polytope: Polytope,
    smoothness: float,
    neighbouring: Neighbouring,
    steps: int | str | None,
) -> FrankWolfePlan:
    """The plan whose selections for T steps are ``select(T)``; other arguments as in ``plan``."""
    if steps is None or steps == "bound":
        best = _best_steps(lambda T: select(T).error(polytope.n_vertices), smoothness, polytope)
        steps = best if steps else max(round(best / _HASTE), 1)
    steps = _check.count("steps", steps, remedy="Or leave it None for the rule.")
    return FrankWolfePlan(steps, select(steps), neighbouring)


def _best_steps(error: Callable[[int], float], smoothness: float, polytope: Polytope) -> int:
    """The T with the least bound; the error grows as √T once T is large, which 1000 is."""
    per_root = error(1000) / math.sqrt(1000)
    kwargs = {"smoothness": smoothness, "diameter": polytope.l1_diameter}
    about = min(max(excess_risk.optimal_steps(per_root, **kwargs), 1.0), MAX_STEPS)
    T = np.arange(1, math.ceil(2 * about) + 1)
    curvature = smoothness * polytope.l1_diameter**2 / 2
    bound = per_root * np.sqrt(T) + curvature * np.asarray(excess_risk.step_decay(T))
    return int(T[np.argmin(bound)])


def frank_wolfe(
    objective: Objective,
    polytope: Polytope,
    *,
    steps: int,
    selection: Selection | None = None,
    step: StepRule = None,
    iterate: Literal["last", "average"] = "last",
    start: FloatArray | None = None,
    gaps: bool = False,
    rng: RngLike = None,
) -> Solution:
    """A point of the polytope that (nearly) minimises the objective.

    Its privacy is ``steps`` times that of the selection, if the selection's sensitivity is right
    (see the module), and nothing without one.

    Args:
        objective: value and gradient; only the gradient is used.
        polytope: :class:`~dpassay.optim.polytopes.L1Ball`, ``Simplex``, ``Hull`` or another.
        steps: T, at least 1.
        selection: how a vertex is chosen; None takes the best one, which is not private.
        step: None for 2/(t + 2) from t = 0, a number in (0, 1] for fixed steps, or a function of t.
        iterate: "last" or "average" (of w_1 to w_T).
        start: a point of the polytope that does not depend on the data; None for its own. With the
            default steps it is forgotten at once, as the first step is 1.
        gaps: keep the Frank-Wolfe gaps, which are not private.
        rng: None for secure noise; a seed or generator for noise that can be replayed.

    Returns:
        The solution, with the event and the level of noise.

    Raises:
        InvalidArgument: a start or a step outside the polytope, where no sensitivity is proved.

    >>> from dpassay.optim.polytopes import L1Ball
    >>> class Distance:
    ...     def value(self, w): return float(((w - [2.0, 0.5]) ** 2).sum() / 2)
    ...     def gradient(self, w): return w - [2.0, 0.5]
    >>> frank_wolfe(Distance(), L1Ball(2, radius=1.0), steps=10).w
    array([1., 0.])

    """
    steps = _check.count("steps", steps, remedy="It is the number of steps.")
    _check.choice("iterate", iterate, ITERATES)
    rule, source = step_rule(step), noise_source(selection, rng)
    w = starting_point(polytope, start)
    mean, vertices, kept = np.zeros_like(w), np.empty(steps, np.intp), np.empty(steps)
    for t in range(steps):
        gradient = objective.gradient(w)
        products = polytope.products(gradient)
        if gaps:
            kept[t] = polytope.gap(w, products, gradient)
        vertices[t] = _choose(selection, -products, source)
        polytope.move(w, int(vertices[t]), rule(t))
        mean += (w - mean) / (t + 1)
    return Solution(
        w=mean if iterate == "average" else w,
        vertices=vertices,
        event=FrankWolfePlan(steps, selection).event,
        noise=source.level if source else None,
        nonprivate_gaps=kept if gaps else None,
    )


def nonprivate_gap(objective: Objective, polytope: Polytope, w: FloatArray) -> float:
    """The Frank-Wolfe gap max_s <gradient, w - s>: an upper bound on L(w) - min L. Not private.

    It is computed from the data without noise: for diagnosis, never to be released.
    """
    gradient = objective.gradient(w)
    return polytope.gap(w, polytope.products(gradient), gradient)


def starting_point(polytope: Polytope, start: FloatArray | None) -> FloatArray:
    """The given point, which must lie inside, or the polytope's own start; a new array."""
    own = polytope.start()
    if start is None:
        return own
    w = _check.array("start", start, remedy="It is a point of the polytope.").copy()
    if w.shape != own.shape:
        raise InvalidArgument(f"start has shape {w.shape}; a point has shape {own.shape}.")
    if not polytope.contains(w):
        raise InvalidArgument(
            "start must lie in the polytope, on which alone the sensitivity of the scores is "
            "proved. Leave it None for the polytope's own."
        )
    return w


def step_rule(step: StepRule) -> Callable[[int], float]:
    """The step size as a function of t = 0, 1, ...; None is 2/(t + 2)."""
    if step is None:
        return lambda t: 2.0 / (t + 2)
    if callable(step):
        # Outside [0, 1] a step leaves the polytope, on which alone the sensitivity is proved.
        return lambda t: _check.number("step", step(t), low=0, high=1, remedy=f"It is for t={t}.")
    size = _check.number("step", step, low=0, high=1, low_open=True, remedy="None is 2/(t + 2).")
    return lambda t: size


def noise_source(selection: Selection | None, rng: RngLike) -> Source | None:
    """Where the noise of a whole run comes from: one generator, made once."""
    return None if selection is None else noise_sources.source(rng)


def _choose(selection: Selection | None, scores: FloatArray, source: Source | None) -> int:
    if selection is None or source is None:
        return int(np.argmax(scores))
    return selection.choose(scores, source.generator)


_OLD_NAMES = {"Plan": "FrankWolfePlan", "calibrated_selection": "calibrate_selection"}


def __getattr__(name: str) -> Any:
    if name in _OLD_NAMES:
        return moved(f"{__name__}.{name}", f"{__name__}.{_OLD_NAMES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
