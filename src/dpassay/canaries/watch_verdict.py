"""The verdict on a watched training: claim, both labels, and what was and was not exercised."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay.auditing.claims import Claim, as_claim
from dpassay.auditing.power import with_power
from dpassay.auditing.referee import claimed_delta
from dpassay.bounds import DPSGDForm, one_run
from dpassay.bounds.onerun.dpsgd import join_phases
from dpassay.canaries.session import Asked
from dpassay.canaries.texts import read_array, write_array
from dpassay.canaries.watch_blocks import KAPPA
from dpassay.canaries.watch_sums import ResidualSums
from dpassay.errors import InvalidArgument
from dpassay.privacy import account, dp_sgd_event, events
from dpassay.types import Evidence, FloatArray, LowerBound, OneTraining, PrivacyCurve, Verdict

History = list[tuple[float, float, int]]
"""Phases of a training: noise multiplier, sampling rate, steps."""
_DP_SGD: Final = "dp-sgd:"
_NONE = 1e-3  # stated noise that is as good as none
_CLEAR = 0.1  # of the level: smaller p-values are no close calls
_DELTA = 1e-5  # where epsilon is stated for a claim of delta = 0


@dataclass(frozen=True, eq=False)
class Seen:
    """What a watch has seen of a training.

    Attributes:
        scores: one per canary.
        coins: True for those that were in.
        history: of the steps that were seen, as they were told.
        accounted: what the accountant was told in all; None without one.
        residuals: of the noise; None if the data were not subtracted, or no noise was stated.
        where: the canaries were put in.
        known: whether the other records were subtracted.
        n_parameters: of the model.
        notes: what else to say.

    """

    scores: FloatArray
    coins: NDArray[np.bool_]
    history: History
    accounted: History | None
    residuals: ResidualSums | None
    where: Literal["noise", "clipping"]
    known: bool
    n_parameters: int
    notes: tuple[str, ...] = ()

    def judge(self, asked: Asked) -> Verdict:
        """The verdict on what was seen; see :meth:`dpassay.canaries.watch.Watch.judge`."""
        return _judge(self, asked.delta, asked.claim, asked.confidence)

    def with_note(self, note: str) -> "Seen":
        """The same, with one more thing to say."""
        return replace(self, notes=(*self.notes, note))

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        residuals = None if self.residuals is None else self.residuals.numbers()
        arrays = {"scores": write_array(self.scores), "coins": write_array(self.coins)}
        return kept | arrays | {"residuals": residuals}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> "Seen":
        """Read back what :meth:`as_dict` wrote."""
        residuals, accounted = kept["residuals"], kept["accounted"]
        return cls(
            **kept
            | {
                "scores": read_array(kept["scores"], np.float64),
                "coins": read_array(kept["coins"], np.bool_),
                "history": read_history(kept["history"]),
                "accounted": None if accounted is None else read_history(accounted),
                "residuals": None if residuals is None else ResidualSums.read(residuals),
                "notes": tuple(kept["notes"]),
            }
        )


def read_history(phases: Iterable[Any]) -> History:
    """Phases that were kept as plain lists."""
    return [(float(noise), float(rate), int(steps)) for noise, rate, steps in phases]


def _judge(seen: Seen, delta: float | None, claim: Claim | None, confidence: float) -> Verdict:
    _check.confidence(confidence)
    described = _describe_claim(seen, claim)
    curve = _price(described) if claim is None else as_claim(claim)
    if curve.neighbouring != "add-remove":
        raise InvalidArgument(
            f"claim.neighbouring={curve.neighbouring!r}: a canary is put in or left out, which is "
            "add-remove. State the claim for that relation."
        )
    # Gaussian noise is never pure, so that a pure claim is judged by what it says at another delta.
    delta = claimed_delta(curve, delta) or (_DELTA if delta is None else 0.0)
    refuted, bound = _test(seen, described, curve, delta, confidence)
    plain = one_run(seen.scores, seen.coins, delta=delta, confidence=confidence, method="exact")
    facts = _describe(seen, described, curve, (bound, plain))
    if refuted and (chance := _describe_chance(bound)) is not None:
        facts = replace(facts, notes=(chance, *facts.notes))
    verdict = Verdict(
        claim=curve,
        bound=bound,
        refuted=refuted,
        confidence=confidence,
        trials=1,
        ended="refuted" if refuted else "budget spent",
        evidence=Evidence(seen.coins.astype(int), seen.scores),
        attack=f"{seen.coins.size} canary gradients in one training",
        kind="one run",
        p_value=bound.p_value,
        one_training=facts,
    )
    vacuous = not refuted and bound.ceiling <= float(curve.epsilon(delta))
    verdict = with_power(verdict, vacuous=vacuous, both_ways=False)
    return replace(verdict, next_step=_next_step(verdict, seen))


def _describe_chance(bound: LowerBound) -> str | None:
    """What to think of a refutation near the level; None where chance hardly makes one.

    Whoever judges a training a day sees an honest one refuted every few weeks.
    """
    level = 1 - bound.confidence
    if bound.p_value is None or bound.p_value <= level * _CLEAR:
        return None
    return (
        f"A close call, p = {bound.p_value:.2g}: at confidence {bound.confidence:.6g} one honest "
        f"training in {round(1 / level)} is refuted by chance. Judge another training before you "
        "look for a fault; where one is judged every day pass confidence=0.9999."
    )


def _next_step(verdict: Verdict, seen: Seen) -> str:
    """What to do now, in one sentence."""
    if verdict.refuted:
        return (
            "Look where noise is added: its scale against the clipping norm, whether each "
            "parameter gets it at each step, and whether the accountant is told of every step."
        )
    if verdict.tightness > 0.8:
        return (
            f"The bound is at {verdict.tightness:.0%} of the claim: the noise is there. Put "
            "canaries into the data as well (dpassay.canaries), for what was not exercised."
        )
    if seen.coins.size < seen.n_parameters:
        return f"Use more canaries: up to {seen.n_parameters}, one per parameter."
    return "There is a canary in every parameter: average the bounds of a few trainings."


def _describe_claim(seen: Seen, claim: Claim | None) -> History | None:
    """The phases of DP-SGD that are claimed; None if the claim says nothing of a mechanism."""
    if claim is None:
        return seen.history if seen.accounted is None else seen.accounted
    if isinstance(claim, str) and claim.strip().startswith(_DP_SGD):
        parts = claim.strip().removeprefix(_DP_SGD).split(",")
        given = dict(part.split("=", 1) for part in parts if "=" in part)
        given = {name.strip(): value for name, value in given.items()}
        as_claim(claim)  # Refuses what it cannot read, by name.
        noise, rate, steps = (
            float(given[name]) for name in ("noise_multiplier", "sampling_rate", "steps")
        )
        return [(noise, rate, int(steps))]
    return None


def _price(phases: History | None) -> PrivacyCurve:
    """What the accountant was told, priced by the library's own accountant; from above."""
    if not phases:
        raise InvalidArgument(
            "claim is missing and the accountant was told of no step. Pass the claim, such as "
            "claim=(3, 1e-5), or attach the accountant of the privacy engine."
        )
    if any(not noise > 0 for noise, _, _ in phases):
        raise InvalidArgument(
            "claim is missing and the optimizer says noise_multiplier=0, which promises nothing. "
            "Pass the claim, such as claim=(3, 1e-5)."
        )
    joined = join_phases(phases, private=False)
    parts = [dp_sgd_event(noise, rate, steps) for noise, rate, steps in joined]
    return account(parts[0] if len(parts) == 1 else events.Sequence(tuple(parts)))


def _test(
    seen: Seen, described: History | None, curve: PrivacyCurve, delta: float, confidence: float
) -> tuple[bool, LowerBound]:
    """Verdict and bound: one statement, wrong with 1 - confidence at most.

    Where the claim is DP-SGD with the steps that were seen, and noise of any scale, it is a member
    of the bound's family, and one p-value decides both. Where steps differ (the accountant missed
    some, or the watch came late), the claim and the family are tested with half of the level each.
    A claim that describes no mechanism is compared with the bound.
    """
    if described is None:
        bound = _bound(seen, seen.history, delta, confidence)
        return bound.epsilon > float(curve.epsilon(delta)), replace(bound, p_value=None)
    if _is_scaled(described, seen.history):
        bound = _bound(seen, described, delta, confidence)
        assert bound.p_value is not None
        return bound.p_value <= 1 - confidence, bound
    half = 1 - (1 - confidence) / 2
    tested = _bound(seen, described, delta, half)
    bound = _bound(seen, seen.history, delta, half)
    assert tested.p_value is not None
    refuted = tested.p_value <= 1 - half
    return refuted, replace(bound, confidence=confidence, p_value=tested.p_value)


def _is_scaled(described: History, history: History) -> bool:
    """Whether two histories have the same steps, and noise that differs by one factor."""
    if [part[1:] for part in described] != [part[1:] for part in history]:
        return False
    pairs = [(one[0], other[0]) for one, other in zip(described, history, strict=True)]
    first, second = pairs[0]
    return all(one * second == other * first for one, other in pairs)


def _bound(seen: Seen, phases: History, delta: float, confidence: float) -> LowerBound:
    """The bound in the family of DP-SGD with these phases and all noise scaled by one factor."""
    # The family has members of every scale, so that the stated one does not matter; but it cannot
    # be written as a multiple of no noise.
    phases = [(noise if noise > _NONE else 1.0, rate, steps) for noise, rate, steps in phases]
    return one_run(
        seen.scores,
        seen.coins,
        delta=delta,
        confidence=confidence,
        method="product",
        family=DPSGDForm(phases=tuple(phases), kappa=KAPPA),
        centre=0.0,
    )


# ------------------------------------------------------------------------- what is said of it


def _describe(
    seen: Seen, described: History | None, curve: PrivacyCurve, bounds: tuple[LowerBound, ...]
) -> OneTraining:
    one = len(seen.history) == 1
    noise, rate, _ = seen.history[0]
    return OneTraining(
        canaries=f"{seen.coins.size} disjoint signed blocks of {seen.n_parameters} parameters",
        view="noisy sums of gradients" + (", the other data known" if seen.known else ""),
        unit="record",
        exercised=_EXERCISED[seen.where],
        not_exercised=_NOT_EXERCISED[seen.where],
        bounds=bounds,
        draws=sum(rate * steps for _, rate, steps in seen.history),
        kappa=KAPPA,
        noise_multiplier=noise if one else None,
        sampling_rate=rate if one else None,
        steps=sum(steps for _, _, steps in seen.history),
        residuals=None if seen.residuals is None else seen.residuals.summary(),
        notes=tuple(_notes(seen, described, curve, bounds)),
    )


_NOISE = "noise: its scale against the clipping norm, in every parameter"
_CLIPPING = "clipping: rows of a hundred times the clipping norm"
_REST = (
    "sampling: canaries are drawn by the watch, with the rate that the accountant was told",
    "the accountant's arithmetic: steps are priced by dpassay",
    "the data path: loading, augmentation, and what is computed from the number of records",
)
_EXERCISED = {"noise": (_NOISE,), "clipping": (_NOISE, _CLIPPING)}
_NOT_EXERCISED = {
    "noise": ("clipping: canaries were added behind it (where='clipping' tests it)", *_REST),
    "clipping": _REST,
}


def _notes(
    seen: Seen, described: History | None, curve: PrivacyCurve, bounds: tuple[LowerBound, ...]
) -> list[str]:
    """Sentences that the reader needs."""
    notes = list(seen.notes)
    plain = bounds[-1]
    notes.append(_meaning(described is not None))
    if plain.epsilon > float(curve.epsilon(plain.delta)):
        notes.append("The bound that assumes nothing is above the claim as well.")
    if len(seen.history) > 1:
        notes.append(f"Noise or sampling rate changed on the way: {_phases(seen.history)}.")
    if seen.accounted is not None and seen.accounted != seen.history:
        notes.append(
            f"The watch saw {_phases(seen.history)}; the accountant was told "
            f"{_phases(seen.accounted) or 'nothing'}."
        )
    if seen.residuals is not None:
        notes.append(_noise_found(seen.residuals))
    notes.append(
        "The unit is what the optimizer clips: one row of its per-example gradients, a record "
        "unless your loop clips users or windows."
    )
    return notes


def _meaning(mechanism: bool) -> str:
    if mechanism:
        return (
            "Refuted or not is said of 'this training is the DP-SGD that was described' and "
            "assumes nothing; a bound on epsilon assumes what stands beside it."
        )
    return "The verdict compares the claim with the first bound and assumes what that assumes."


def _phases(history: History) -> str:
    return "; ".join(
        f"{steps} steps with noise {noise:.4g} at rate {rate:.4g}" for noise, rate, steps in history
    )


def _noise_found(residuals: ResidualSums) -> str:
    """How much of the stated noise was there; an estimate."""
    share = residuals.deviation()
    error = 2 * share / np.sqrt(2 * residuals.count)
    text = f"The noise has {share:.3f} (+- {error:.3f}) of the stated deviation, by estimate"
    if share + 2 * error < 1:
        return f"{text}: too little noise was added."
    return f"{text}."
