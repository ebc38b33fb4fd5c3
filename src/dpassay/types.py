"""The result types and Protocols that every part of dpassay speaks.

A *claim* is a :class:`PrivacyCurve`; a mechanism returns a :class:`Release`; statistics return a
:class:`LowerBound`. They are frozen and checked when they are made.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._card import card
from dpassay._special.margins import ARITHMETIC
from dpassay.errors import InvalidArgument

__all__ = [
    "NO_ASSUMPTION",
    "Evidence",
    "FloatArray",
    "Floats",
    "GameKind",
    "Kind",
    "LowerBound",
    "Neighbouring",
    "NeighboursSeen",
    "NoiseLevel",
    "OneTraining",
    "Power",
    "PrivacyCurve",
    "Release",
    "Residuals",
    "Verdict",
]

Neighbouring = Literal["add-remove", "replace-one"]
NeighboursSeen = Literal["checked", "trusted", "unseen"]
GameKind = Literal["many trials", "one run", "single steps"]
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
        event: what was done to the data (:mod:`dpassay.privacy.events`), to be accounted. None for
            "cryptographic" noise: an event is proved for real numbers, and the bits of a float that
            such noise was added to say more. The training that the value comes from states its own.
        sensitivity: the declared sensitivity that the noise was scaled to.
        noise: "exact" (lattice noise: the event holds for the bits that are released),
            "cryptographic" (floating-point noise of a training) or "reproducible" (research only,
            not private).

    """

    value: T
    event: Any
    sensitivity: float
    noise: NoiseLevel

    def __post_init__(self) -> None:
        if self.noise == "cryptographic" and self.event is not None:
            raise InvalidArgument(
                f"event={self.event!r} must be None for noise='cryptographic': floating-point "
                "noise does not keep the promise of an event. Release it with exact noise "
                "(dpassay.mechanisms), or keep the event with the training."
            )

    def map(self, function: Callable[[T], U]) -> "Release[U]":
        """The release of ``function(value)``: post-processing costs nothing and keeps the event."""
        return replace(self, value=function(self.value))  # type: ignore[return-value]


NO_ASSUMPTION = "none"
"""The assumption of a bound that holds whatever the mechanism does."""


def _round_down(x: float, digits: int = 5) -> str:
    """So many digits, never above x: a lower bound must stay one in print."""
    if not 0 < x < math.inf:
        return f"{x:g}"
    place = 10.0 ** (digits - 1 - math.floor(math.log10(x)))
    return f"{math.floor(x * place * (1 + ARITHMETIC)) / place:.{digits}g}"


def _show_above(x: float, claimed: float) -> str:
    """A lower bound with as many digits as it takes to see that it is above the claim."""
    texts = (_round_down(x, digits) for digits in range(5, 12))
    return next((text for text in texts if float(text) > claimed), _round_down(x))


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
        details: further numbers behind the bound (counts, rates, limits), by name.
        p_value: of a claim that was tested beside the bound; None if there was none.
        valid: False for a number that is *not* a lower bound with this confidence, such as the
            largest of several bounds that nobody paid for; it is there for comparison alone.
        mu_lower: where the method assumes a Gaussian trade-off, the lower bound on its mu that
            ``epsilon`` was computed from; None elsewhere.

    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    assumption: str = NO_ASSUMPTION
    ceiling: float = math.inf
    threshold: float | tuple[int, int] | None = None
    selection: str = "fixed in advance"
    details: dict[str, float] | None = None
    p_value: float | None = None
    valid: bool = True
    mu_lower: float | None = None

    def __post_init__(self) -> None:
        _check.epsilon(self.epsilon)
        _check.delta(self.delta)
        _check.confidence(self.confidence)

    @property
    def assumes_nothing(self) -> bool:
        """Whether the bound holds whatever the mechanism does."""
        return self.assumption == NO_ASSUMPTION

    def __str__(self) -> str:
        text = (
            f"epsilon >= {_round_down(self.epsilon)} at delta={self.delta:g} "
            f"(confidence {self.confidence:.10g}, {self.method}"
        )
        text += "" if self.assumes_nothing else f", assuming {self.assumption}"
        text += f"; ceiling {self.ceiling:.4g})"
        return text if self.valid else f"NOT A BOUND: {text}"

    def _repr_html_(self) -> str:
        shown = f"epsilon ≥ {_round_down(self.epsilon)} at delta = {self.delta:g}"
        rows = [
            ("Confidence", f"{self.confidence:.10g}"),
            ("Method", self.method),
            ("Assumption", "" if self.assumes_nothing else self.assumption),
            ("Ceiling", f"{self.ceiling:.4g}"),
        ]
        return card(shown if self.valid else f"NOT A BOUND: {shown}", rows)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What an attack saw, in the order of trial numbers, and where it came from.

    Attributes:
        worlds: 1 for trials with the canary, 0 without.
        scores: one per trial; higher says "with". A trial that failed has -inf: it is an output.
        run: the key of the run in its log.
        seed: of the attack; None if it was drawn by the operating system.
        n_failed: how many trials raised, hung or returned NaN.

    """

    worlds: NDArray[Any]
    scores: FloatArray
    run: str = ""
    seed: int | None = None
    n_failed: int = 0

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.worlds)

    def sides(self) -> tuple[FloatArray, FloatArray]:
        """The scores with and without the canary."""
        inside = self.worlds == 1
        return self.scores[inside], self.scores[~inside]


@dataclass(frozen=True)
class Fall:
    """The point of a claimed curve at which it was exceeded.

    Attributes:
        epsilon: where on the curve.
        delta_seen: the delta that the attack showed there.
        delta_allowed: the delta that the claim allows there.
        kind: "lower bound": delta is at least ``delta_seen``, with the confidence of the verdict.
            "estimate": the share that was seen, at the point where the claim looks exceeded most;
            bets refute a curve as a whole and single no point out.

    """

    epsilon: float
    delta_seen: float
    delta_allowed: float
    kind: Literal["lower bound", "estimate"]

    def __str__(self) -> str:
        sign = ">=" if self.kind == "lower bound" else "about"
        return (
            f"delta {sign} {_round_down(self.delta_seen)} at epsilon={self.epsilon:.4g}, "
            f"where the claim allows {self.delta_allowed:.4g}"
        )


@dataclass(frozen=True)
class Power:
    """What an attack reached, beside the most that the claim allows.

    Attributes:
        auc: the area under the ROC curve of the scores; 0.5 is a coin, 1 a perfect attack.
        auc_lower: of an approximate 95 % interval.
        auc_upper: its other end.
        auc_allowed: the largest area that the claim allows.
        ceiling: the largest bound on epsilon that a perfect attack would have shown.
        vacuous: even a perfect attack would not have refuted the claim, or all outputs were equal.

    """

    auc: float
    auc_lower: float
    auc_upper: float
    auc_allowed: float
    ceiling: float
    vacuous: bool

    @property
    def room_used(self) -> float:
        """The share of the room between a coin and what the claim allows; above 1 beyond it."""
        room = self.auc_allowed - 0.5
        return (self.auc - 0.5) / room if room > 0 else math.inf

    @property
    def saw_nothing(self) -> bool:
        """Whether the attack may have been a coin."""
        return self.auc_lower <= 0.5 <= self.auc_upper

    def __str__(self) -> str:
        text = (
            f"AUC {self.auc:.3g} where the claim allows {self.auc_allowed:.3g}, ceiling "
            f"{self.ceiling:.3g}"
        )
        return f"vacuous; {text}" if self.vacuous else text


@dataclass(frozen=True)
class Residuals:
    """How Gaussian what is left of the scores of gradients looks, once the canaries are taken off.

    A diagnostic, not part of a proof: of noise as claimed the mean is 0, the variance 1 and the
    kurtosis 3.

    Attributes:
        mean: of the residuals, in units of the claimed noise.
        variance: of them.
        kurtosis: of them.
        largest_correlation: in absolute value, between sums over blocks.

    """

    mean: float
    variance: float
    kurtosis: float
    largest_correlation: float | None = None

    def __str__(self) -> str:
        text = f"mean {self.mean:.2g}, variance {self.variance:.4g}, kurtosis {self.kurtosis:.3g}"
        if self.largest_correlation is None:
            return text
        return f"{text}, largest correlation {self.largest_correlation:.2g}"


@dataclass(frozen=True)
class OneTraining:
    """What is known of the audit of one training, beside its verdict and bound.

    Attributes:
        canaries: what they are, in a few words.
        view: what the attack saw: "the last model", "noisy sums of gradients".
        unit: whose presence a canary's coin decides: "record" or "user".
        records_per_unit: records of each.
        exercised: the parts of the training that the canaries went through.
        not_exercised: those that they did not, which this audit says nothing about.
        bounds: one for each label, the verdict's own first.
        draws: how often a canary was drawn on average, in or out; None where nobody counted.
        kappa: the largest eigenvalue of the Gram matrix of the canaries' gradients in units of the
            clip, an upper bound; None where it is not known.
        noise_multiplier: of the training, as read from it; None where it was not read.
        sampling_rate: likewise.
        steps: likewise.
        residuals: how Gaussian the noise looks; None where it was not seen.
        notes: what the reader must know, in sentences.

    """

    canaries: str
    view: str
    unit: Literal["record", "user"] = "record"
    records_per_unit: int = 1
    exercised: tuple[str, ...] = ()
    not_exercised: tuple[str, ...] = ()
    bounds: tuple[LowerBound, ...] = ()
    draws: float | None = None
    kappa: float | None = None
    noise_multiplier: float | None = None
    sampling_rate: float | None = None
    steps: int | None = None
    residuals: Residuals | None = None
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """All of it in a few lines, each with its name."""
        overlap = "" if self.kappa is None else f" (kappa {self.kappa:.4g})"
        unit = self.unit if self.records_per_unit == 1 else f"{self.unit}, {self.records_per_unit}"
        rows = [
            *(("bound", str(bound)) for bound in self.bounds),
            ("canaries", f"{self.canaries}{overlap}; unit: {unit}; seen: {self.view}"),
            ("training", self._settings()),
            ("residuals", "" if self.residuals is None else str(self.residuals)),
            ("exercised", "; ".join(self.exercised)),
            ("not exercised", "; ".join(self.not_exercised)),
            *(("note", note) for note in self.notes),
        ]
        return "\n".join(f"  {name}: {text}" for name, text in rows if text)

    def _settings(self) -> str:
        parts = [
            "" if self.steps is None else f"{self.steps} steps",
            ""
            if self.noise_multiplier is None
            else f"noise multiplier {self.noise_multiplier:.4g}",
            "" if self.sampling_rate is None else f"sampling rate {self.sampling_rate:.4g}",
            "" if self.draws is None else f"a canary that is in is drawn {self.draws:.4g} times",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, eq=False)
class Verdict:
    """A claim beside what an attack showed: refuted, or not refuted; never "private".

    Verdict and bound are one statement: both hold together with ``confidence``. A bound above the
    claimed epsilon is a refutation; a curve may also fall elsewhere, see ``fell_at``.

    Attributes:
        claim: the privacy curve that was tested.
        bound: a lower bound on epsilon at the claim's delta.
        refuted: the claim is false, with ``confidence``.
        confidence: the probability that the pair of verdict and bound is right, at least: a true
            claim is not refuted, and the bound does not exceed the truth.
        trials: how many were played, those that a score was learned from included.
        ended: why: "refuted", "budget spent", "interrupted" or "too many failures".
        evidence: the trials.
        attack: how outputs became scores.
        replay: a line that runs the same audit again.
        log_wealth: of the bet against the claim, after each trial that was bet on; the claim falls
            where it reaches ``wealth_needed``. None where nothing was bet.
        fell_at: where on its curve the claim was exceeded; None if it was not refuted.
        neighbours: "checked": the two data sets are neighbours in the claim's relation. "trusted":
            the caller says so and nobody checked. "unseen": nobody could, since what a record is
            cannot be seen in them. None where there is no pair of data sets.
        pair: how the two data sets were made, if they were searched; it tells nothing of a record.
        pair_before: how they were made before they were adjusted (shrunk to the simplest that still
            refutes, or exchanged for a pair nearby that shows more); empty if they were not.
        curve: the claim text of the curve that the audited training states of itself (by an
            accountant, or by its event), where the claim is a pair (epsilon, delta); else empty.
        cannot_see: faults that such a game lets through whatever it shows, one sentence each; the
            report lists them. Empty where nothing is known of that.
        power: what the attack reached, beside the most that the claim allows.
        next_step: what to do now, in one sentence.
        kind: what was played: "many trials", each with a world of its own; "one run", a training
            with many canaries; or "single steps" of few trainings.
        n_learning: trials that a score was learned from or chosen by; they do not count.
        n_deaths: how often a worker died. What it played was played again or, where noise cannot
            be replayed (``evidence.seed`` is None), counts as failed.
        p_value: of the claim, where it was tested as a whole curve beside the bound.
        wealth_needed: the log wealth at which the claim falls; None where nothing was bet.
        n_executions: how often the mechanism ran, where a trial takes more than one execution;
            None where it takes one.
        one_training: what was put into the one training and what it went through; None elsewhere.

    """

    claim: PrivacyCurve
    bound: LowerBound
    refuted: bool
    confidence: float
    trials: int
    ended: str
    evidence: Evidence
    attack: str = ""
    replay: str = ""
    log_wealth: FloatArray | None = None
    fell_at: Fall | None = None
    neighbours: NeighboursSeen | None = None
    pair: str = ""
    pair_before: str = ""
    curve: str = ""
    cannot_see: tuple[str, ...] = ()
    power: Power | None = None
    next_step: str = ""
    kind: GameKind = "many trials"
    n_learning: int = 0
    n_deaths: int = 0
    p_value: float | None = None
    wealth_needed: float | None = None
    n_executions: int | None = None
    one_training: OneTraining | None = None

    def __post_init__(self) -> None:
        if not self.bound.valid:
            raise InvalidArgument(
                "bound.valid=False must be True: a number that is no lower bound refutes nothing."
            )

    @property
    def details(self) -> dict[str, float]:
        """Numbers that have fields of their own now: ``n_learning``, ``p_value``, and so on."""
        warnings.warn(
            "verdict.details is now verdict.n_learning, verdict.p_value, verdict.log_wealth and "
            "verdict.wealth_needed; the old name will go.",
            DeprecationWarning,
            stacklevel=2,
        )
        numbers = {"learning_trials": self.n_learning, "wealth_needed": self.wealth_needed}
        numbers |= {"p_value": self.p_value}
        return {name: float(value) for name, value in numbers.items() if value is not None}

    @property
    def pair_in_words(self) -> str:
        """The pair that was searched, and what it was before it was adjusted."""
        return f"{self.pair} (found as: {self.pair_before})" if self.pair_before else self.pair

    @property
    def n_counted(self) -> int:
        """The trials that count: all that were not for learning."""
        return self.trials - self.n_learning

    @property
    def tightness(self) -> float:
        """The lower bound over the claimed epsilon at the same delta; 1 is tight, more a bug."""
        claimed = float(self.claim.epsilon(self.bound.delta))
        return self.bound.epsilon / claimed if 0 < claimed < math.inf else math.nan

    @property
    def headline(self) -> str:
        """Verdict and bound in one line."""
        claimed = float(self.claim.epsilon(self.bound.delta))
        head = "refuted" if self.refuted else "not refuted"
        seen = _show_above(self.bound.epsilon, claimed)
        shown = f"epsilon >= {seen} at delta={self.bound.delta:g}"
        what = "the search" if self.pair else "learning"
        learned = f" ({self.n_learning} for {what})" if self.n_learning else ""
        if self.fell_at is not None and not self.bound.epsilon > claimed:
            shown = f"{self.fell_at}; {shown}"
        return (
            f"{head}: {shown} (confidence {self.confidence:.10g}), claimed {claimed:.4g}; "
            f"{self.trials} trial{'' if self.trials == 1 else 's'}{learned}, {self.ended}"
            f"{'' if self.power is None else f'; {self.power}'}"
        )

    def __str__(self) -> str:
        facts = self.one_training
        several = facts is not None and len(facts.bounds) > 1  # a bound is shown with its label
        return f"{self.headline}\n{facts.describe()}" if facts and several else self.headline

    def _repr_html_(self) -> str:
        claimed = float(self.claim.epsilon(self.bound.delta))
        seen = _show_above(self.bound.epsilon, claimed)
        rows = [
            ("Claimed", f"epsilon {claimed:.4g} at delta = {self.bound.delta:g}"),
            ("Measured", f"epsilon ≥ {seen}, confidence {self.confidence:.10g}"),
            ("Fell", "" if self.fell_at is None else str(self.fell_at)),
            ("Power", "" if self.power is None else str(self.power)),
            ("Trials", f"{self.trials}, {self.ended}"),
            ("Pair", self.pair_in_words),
            ("Next", self.next_step),
        ]
        head = ("Refuted", "#b3261e") if self.refuted else ("Not refuted", "#0072b2")
        return card(head[0], rows, head[1])
