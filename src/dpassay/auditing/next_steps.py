"""What to do after a verdict, in one sentence that fits what was seen."""

import math
from dataclasses import dataclass

from dpassay.auditing.claims import parse_claim
from dpassay.auditing.plan import trials_to_refute
from dpassay.privacy import GDP, ApproxDP, account, events
from dpassay.privacy.curves import Curve
from dpassay.types import Power, PrivacyCurve, Verdict

_FAULT = (
    "Look for the fault: sensitivity, noise scale, clipping, and what is computed from the number "
    "of records{how_bad}."
)
_HOW_BAD = "; measure=True (--measure) shows how bad it is"
_SAME = (
    "Every output was the same, in both worlds: return what depends on the data, and see that the "
    "pair differs in what the target uses."
)
_NOTHING = (
    "The attack saw nothing: choose a pair that differs more (a stronger canary), or pass a score "
    "of your own."
)
_NOTHING_FOUND = (
    "The attack saw nothing on any pair that was tried: play more trials, give a data set or an "
    "input that allows more (low, high, moves=all), or pass a score of your own."
)
_GO_ON = "Go on to the end: the same audit with the same store= (--store) resumes where it stopped."
_FEWEST_FAILED = 5


@dataclass(frozen=True)
class Circumstances:
    """What a next step depends on beside the verdict and its power.

    Attributes:
        same: whether every output was one and the same.
        would_do: trials with which a vacuous audit would not be; None if it is not.
        curve: the text of the curve that a training states of itself; empty where it is not known.
        stopped: whether trials ended where the claim fell, so that the bound is just above it.
        failed: trials that failed on the first data set, and on the second.

    """

    same: bool = False
    would_do: float | None = None
    curve: str = ""
    stopped: bool = False
    failed: tuple[int, int] = (0, 0)


def choose_next_step(verdict: Verdict, power: Power, seen: Circumstances) -> str:
    """The sentence for what is most worth doing now."""
    if verdict.refuted:
        return _look_for_fault(seen)
    if verdict.ended == "interrupted":
        return _GO_ON
    if seen.same:
        return _SAME
    if seen.curve and (advice := advise_curve(verdict.claim, seen.curve, verdict.confidence)):
        return advice
    if power.vacuous:
        return _play_enough(seen.would_do)
    if power.saw_nothing:
        return _NOTHING_FOUND if verdict.pair else _NOTHING
    if power.room_used < 0.2:
        return (
            f"The attack used {power.room_used:.0%} of the room that the claim leaves: choose a "
            "stronger canary, or release more to the attack, such as gradients (a white-box probe)."
        )
    return _of_tightness(verdict)


def _look_for_fault(seen: Circumstances) -> str:
    """Where to look: at failures, if they alone tell the data sets apart."""
    few, many = sorted(seen.failed)
    if many >= _FEWEST_FAILED and many > 4 * few:
        return (
            f"Find out why it fails: {seen.failed[0]} trials failed on the first data set and "
            f"{seen.failed[1]} on the second, and a failure is an output too."
        )
    return _FAULT.format(how_bad=_HOW_BAD if seen.stopped else "")


def _play_enough(would_do: float | None) -> str:
    reason = "nothing could have refuted this one"
    if would_do is None or would_do == math.inf:
        return f"State a smaller claim: {reason}."
    return f"Play more trials, {math.ceil(would_do)} at least, or state a smaller claim: {reason}."


def _of_tightness(verdict: Verdict) -> str:
    claim, tightness = verdict.claim, verdict.tightness
    if isinstance(claim, ApproxDP) and claim.delta_upper > 0 and not tightness > 0.8:
        return (
            "If an accountant gave this pair (epsilon, delta), state its curve (gdp: or dp-sgd:); "
            "fewer trials can refute it."
        )
    if tightness > 0.8:
        return f"The bound is at {tightness:.0%} of the claim: more trials would add little."
    return f"Play more trials, {4 * verdict.trials} for example: the attack sees something."


def advise_curve(claim: PrivacyCurve, text: str, confidence: float) -> str:
    """To claim the curve that a training states instead of a pair; empty if that gains nothing.

    The gain is an estimate: trainings to refute either, if the noise were half of what is stated.
    """
    if not isinstance(claim, ApproxDP):
        return ""
    delta, curve = claim.delta_upper, parse_claim(text, neighbouring=claim.neighbouring)
    stated = float(curve.epsilon(delta))
    state = f"state its curve, --claim {text}"
    if stated > claim.epsilon_upper * (1 + 1e-3):
        return (
            f"The training itself states epsilon {stated:.4g} at delta={delta:g}, more than the "
            f"claimed {claim.epsilon_upper:.4g}: {state}."
        )
    true = float(_with_half_the_noise(text).epsilon(delta))
    few, many = (
        trials_to_refute(one, true, delta=delta, confidence=confidence) for one in (curve, claim)
    )
    if not few < many:
        return ""
    costs = "no number of them" if many == math.inf else f"about {many:.0f}"
    return (
        f"This training states more than a pair (epsilon, delta): {state}. Had it half the noise, "
        f"about {few:.0f} trainings would refute the curve and {costs} the pair."
    )


def _with_half_the_noise(text: str) -> Curve:
    """The curve of the same training with half of its noise."""
    kind, _, rest = text.partition(":")
    if kind == "gdp":
        return GDP(2 * float(rest))
    stated = dict(part.split("=") for part in rest.split(","))
    noise, rate = float(stated["noise_multiplier"]), float(stated["sampling_rate"])
    return account(events.dp_sgd_event(noise / 2, rate, int(stated["steps"])), "pld")
