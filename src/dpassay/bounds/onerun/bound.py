"""The bound of a one-run audit: methods, rules and what may go with what."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay.bounds.onerun import fdp, independent
from dpassay.bounds.onerun import guesses as rules
from dpassay.bounds.onerun.dpsgd import DPSGDForm
from dpassay.bounds.onerun.guesses import Audit, Bound, Found, Guesses, GuessRule, Sides
from dpassay.bounds.onerun.pvalues import (
    Chosen,
    Exact,
    PValue,
    Steinke,
    hoeffding_epsilon,
    largest_epsilon,
    pure_epsilon,
)
from dpassay.bounds.onerun.ranking import IntArray
from dpassay.errors import InvalidArgument
from dpassay.privacy.events import Event
from dpassay.types import NO_ASSUMPTION, FloatArray, LowerBound, PrivacyCurve


def _by_p_value(make: Callable[[Audit], PValue]) -> Bound:
    def bound(audit: Audit, n: IntArray, v: IntArray, level: float) -> tuple[float, int]:
        if audit.delta == 0:
            return _largest(pure_epsilon(n, v, level))
        p_value = make(audit)
        if audit.chosen:
            p_value = Chosen(p_value, audit.leak, level, audit.canaries)
        return largest_epsilon(p_value, n, v, level)

    return bound


def _hoeffding(audit: Audit, n: IntArray, v: IntArray, level: float) -> tuple[float, int]:
    looks = round(audit.level / level)
    return _largest(hoeffding_epsilon(n, v, audit.leak, audit.level, looks))


def _largest(epsilons: FloatArray) -> tuple[float, int]:
    index = int(np.argmax(epsilons))
    return max(float(epsilons[index]), 0.0), index


_STEINKE = _by_p_value(lambda audit: Steinke(audit.canaries, audit.delta))
_EXACT = _by_p_value(lambda audit: Exact(audit.leak))

_RULES: dict[str, Callable[[Audit, Any], Found]] = {
    # Not by the published p-value: by its price of delta bounds would fall with m.
    "automatic": lambda audit, _: rules.automatic(audit, _EXACT),
    "uniform": rules.uniform,
    "split": rules.split,
    "grid": rules.grid,
    "bonferroni": rules.bonferroni,
    "betting": rules.betting,
}


@dataclass(frozen=True)
class OneRunMethod:
    """Which rule "auto" stands for, which others there is a proof for, and the bound itself."""

    automatic: str
    proven: tuple[str, ...] = ()
    bound: Bound | None = None


MethodName = Literal["steinke", "exact", "hoeffding", "fdp", "betting", "product"]
"""How a bound is made from the guesses; see :func:`one_run`."""

_METHODS: dict[MethodName, OneRunMethod] = {
    "steinke": OneRunMethod(
        "automatic", ("fixed", "uniform", "split", "grid", "bonferroni"), _STEINKE
    ),
    "exact": OneRunMethod("automatic", ("fixed", "uniform", "split", "grid", "bonferroni"), _EXACT),
    "hoeffding": OneRunMethod("split", ("fixed", "split", "grid", "bonferroni"), _hoeffding),
    "fdp": OneRunMethod("grid", ("fixed", "grid")),  # its bound depends on the family
    "betting": OneRunMethod("betting"),
    "product": OneRunMethod("weighted", ("fixed",)),  # as is that of this one
}


def one_run(
    scores: ArrayLike,
    members: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    method: MethodName = "steinke",
    guesses: Guesses = "auto",
    sides: Sides = "both",
    max_guesses: int | None = None,
    claim: PrivacyCurve | Event | None = None,
    family: str | fdp.Family | DPSGDForm = "gdp",
    centre: float | None = None,
    rng: RngLike = 0,
) -> LowerBound:
    """A lower bound on epsilon at ``delta`` from a single run with many canaries.

    Every canary must have been put in by a fair coin of its own (not: exactly half of them), and
    the scores may depend on the coins through the run's output alone. The canaries that score
    highest are guessed to be in, those that score lowest to be out.

    Args:
        scores: one per canary; higher says "in". Infinities are allowed, NaN is not.
        members: the coins, True for "in".
        delta: the delta at which epsilon is bounded.
        confidence: the probability that the statement holds, over coins, run and ties.
        method: "steinke", the published p-value; "exact", the smallest valid one (larger bounds,
            same assumptions; see :mod:`dpassay.bounds.onerun.pvalues`); "fdp", whole trade-off
            functions, larger still if the ``family`` is right; "product", the same for canaries
            that are independent given the coins, much larger (see
            :mod:`dpassay.bounds.onerun.product`, which also proves that those of DP-SGD are);
            "betting", an e-process; "hoeffding", a closed form.
        guesses: how many. A number is the total, half of each kind (the odd one "in"); a pair
            counts the highest and the lowest scores. Or a rule that looks at the data and pays for
            it: "uniform" (all numbers, calibrated exactly), "split", "grid" (powers of two),
            "bonferroni". "auto" is the one with the largest bounds in our benchmark: for "steinke"
            and "exact" alike "uniform" and, if m delta is large, the better of that and of 0.3 %
            of the canaries by the exact p-value; "grid" for "fdp", "split" for "hoeffding"; for
            "product" all canaries are guessed and the most certain weigh most. Given numbers must
            not depend on these scores.
        sides: "both" kinds of guess, or only the "top" or the "bottom" scores. One kind is
            better when, say, a few members stand out and non-members never do.
        max_guesses: the most guesses that a rule may consider; all by default.
        claim: a privacy curve to be tested as well (methods "fdp" and "product"), whose p-value
            is then that of the result; for "product" also an event.
        family: for "fdp" and "product": "gdp"; "approx", (epsilon, delta)-DP, which for "fdp"
            assumes nothing; or a function from a positive number to a curve, larger meaning less
            private, such as ``GDP``. For "product" also a :class:`dpassay.bounds.DPSGDForm`, which
            is then the claim as well, unless another is given.
        centre: for "product": scores above it say "in", those below it "out", and those that are
            farthest from it are the most certain. 0 for log-likelihood ratios; by default the
            median. A canary whose score is the centre is guessed last, by a coin.
        rng: breaks ties between equal scores, makes the split and draws null laws.

    Returns:
        The bound. Its ceiling is what perfect guesses would have given under the same rule; its
        threshold is the pair of numbers of guesses behind it.

    Raises:
        InvalidArgument: if an argument is out of range, or no proof covers the combination.

    >>> import numpy as np
    >>> coins = np.arange(1000) % 3 > 0
    >>> round(one_run(coins, coins, delta=1e-5, guesses=(100, 0)).epsilon, 4)
    3.4654

    """
    _check.choice("method", method, tuple(_METHODS))
    audit = _audit(scores, members, delta, confidence, sides, max_guesses, rng)
    if method == "product":
        return _product(audit, guesses, family, claim, centre)
    if centre is not None:
        raise InvalidArgument(
            f"centre={centre!r} must be None for method={method!r}, which guesses the highest and "
            "lowest scores. Pass method='product'."
        )
    if method == "fdp":
        return _fdp(audit, guesses, family, claim)
    if claim is not None or family != "gdp":
        raise InvalidArgument(
            f"method={method!r} takes no claim or family. Pass method='fdp' or method='product' "
            "to test curves."
        )
    found = _find(audit, method, guesses, _METHODS[method].bound)
    return _result(found, method, NO_ASSUMPTION, {})


def _audit(
    scores: ArrayLike,
    members: ArrayLike,
    delta: float,
    confidence: float,
    sides: Sides,
    max_guesses: int | None,
    rng: RngLike,
) -> Audit:
    values = _check.array("scores", scores, finite=False, ndim=1, empty=False)
    most = values.size if max_guesses is None else _check.count("max_guesses", max_guesses, low=1)
    return Audit(
        scores=values,
        members=_coins(members, values.size),
        delta=_check.delta(delta),
        level=1 - _check.confidence(confidence),
        sides=_check.choice("sides", sides, tuple(rules.SIDES)),
        max_guesses=most,
        rng=generator(rng),
    )


def _coins(members: ArrayLike, size: int) -> NDArray[np.bool_]:
    remedy = "Pass True for the canaries that were put in, False for the others."
    coins = np.asarray(members)
    if coins.dtype != bool:
        values = _check.array("members", members, low=0, high=1, remedy=remedy)
        if not np.all((values == 0) | (values == 1)):
            raise InvalidArgument(f"members must hold 0 and 1 alone. {remedy}")
        coins = values == 1
    if coins.shape != (size,):
        raise InvalidArgument(
            f"members has shape {coins.shape} for {size} scores; give one coin per canary. {remedy}"
        )
    return coins


def _find(audit: Audit, method: MethodName, guesses: Guesses, bound: Bound | None) -> Found:
    """What the rule named by ``guesses`` finds."""
    if isinstance(guesses, str):
        _check.choice("guesses", guesses, get_args(GuessRule))
    numbers = None if isinstance(guesses, str) else _numbers(guesses, audit)
    rule = "fixed" if numbers else str(guesses)
    how = _METHODS[method]
    if rule not in ("auto", *how.proven):
        known = ", ".join(["'auto'", *(repr(name) for name in how.proven if name != "fixed")])
        raise InvalidArgument(
            f"guesses={guesses!r} has no proof with method={method!r}. Pass one of {known}"
            f"{' or numbers' if 'fixed' in how.proven else ''}."
        )
    if numbers and bound:
        return rules.fixed(audit, bound, *numbers)
    return _RULES[how.automatic if rule == "auto" else rule](audit, bound)


def _numbers(guesses: Any, audit: Audit) -> tuple[int, int]:
    """How many of the highest and of the lowest scores are guessed."""
    remedy = f"There are {audit.canaries} canaries."
    if isinstance(guesses, tuple | list):
        pair = cast(Sequence[Any], guesses)
        if len(pair) != 2:
            raise InvalidArgument(
                f"guesses={guesses!r} must be a pair: how many of the highest scores are guessed "
                "to be in, how many of the lowest to be out."
            )
        top, bottom = (_check.count("guesses", k, low=0, remedy=remedy) for k in pair)
    else:
        total = _check.count("guesses", guesses, low=1, remedy=remedy)
        split = {"both": (total - total // 2, total // 2), "top": (total, 0), "bottom": (0, total)}
        top, bottom = split[audit.sides]
    _check.count("guesses", top + bottom, low=1, high=audit.canaries, remedy=remedy)
    return top, bottom


def _product(
    audit: Audit,
    guesses: Guesses,
    family: str | fdp.Family | DPSGDForm,
    claim: PrivacyCurve | Event | None,
    centre: float | None,
) -> LowerBound:
    """The bound for independent canaries, by the weighted count or by a fixed number of guesses."""
    if isinstance(guesses, str) and guesses != "auto":
        raise InvalidArgument(
            f"guesses={guesses!r} has no proof with method='product'. Pass 'auto' or numbers."
        )
    if audit.max_guesses < audit.canaries:
        raise InvalidArgument(
            f"max_guesses={audit.max_guesses} has no meaning with method='product', whose rule "
            "does not look for a number of guesses. Pass guesses= instead."
        )
    if centre is not None:
        centre = _check.number("centre", centre, remedy="It is 0 for log-likelihood ratios.")
    numbers = None if isinstance(guesses, str) else _numbers(guesses, audit)
    if numbers and centre is not None and not isinstance(guesses, tuple | list):
        numbers = sum(numbers)  # the most certain, of whichever kind
    return independent.find_bound(audit, numbers, family, claim, centre)


def _fdp(
    audit: Audit,
    guesses: Guesses,
    family: str | fdp.Family | DPSGDForm,
    claim: PrivacyCurve | Event | None,
) -> LowerBound:
    """The largest member of the family that is refuted, as an epsilon at delta."""
    if isinstance(family, DPSGDForm) or isinstance(claim, Event):
        raise InvalidArgument(
            "method='fdp' takes curves: pass method='product' for a form of DP-SGD, or "
            "claim=account(event)."
        )
    member, assumption = fdp.family_member(family, audit.delta)
    if audit.delta == 0 and family == "gdp":
        raise InvalidArgument(
            "delta=0 gives every Gaussian trade-off an infinite epsilon. Pass delta > 0 or "
            "family=PureDP."
        )
    p_values: list[float] = []

    def epsilon_of(theta: float) -> float:
        return fdp.epsilon_lower(member(theta), audit.delta) if theta > 0 else 0.0

    def bound(audit: Audit, n: IntArray, v: IntArray, level: float) -> tuple[float, int]:
        theta, index = fdp.largest_refuted(n, v, audit.effective, level, member)
        if claim is not None and not p_values:  # of the data; perfect guesses come second
            pairs = zip(n.tolist(), v.tolist(), strict=True)
            each = [fdp.p_value(*pair, audit.effective, claim) for pair in pairs]
            p_values.append(min(1.0, min(each) * len(each)))
        return epsilon_of(theta), index

    found = _find(audit, "fdp", guesses, bound)
    if claim is None:
        return _result(found, "fdp", assumption, {})
    p_value = p_values[0] if p_values else 1.0
    result = _result(found, "fdp", assumption, {"claim_p_value": p_value})
    return replace(result, p_value=p_value)


def _result(found: Found, method: str, assumption: str, extra: dict[str, float]) -> LowerBound:
    details = {
        "canaries": float(found.audit.canaries),
        "guesses": float(found.top + found.bottom),
        "correct": float(found.correct),
        "looks": float(found.looks),
        "level": found.level,
        "leak": found.audit.leak,
    }
    return LowerBound(
        epsilon=found.epsilon,
        delta=found.audit.delta,
        confidence=1 - found.audit.level,
        method=method,
        assumption=assumption,
        ceiling=found.ceiling,
        threshold=(found.top, found.bottom),
        selection=found.selection,
        details=details | extra,
    )
