"""What an audit by example canaries could and could not show, in sentences.

A canary is seen in the last model only if the model learns it. It does not where the canary is
drawn a few times, or where its gradient is that of many others: then clipping and learning hide it,
whatever the noise. A verdict without that sentence would read as if the noise had been looked at.
"""

import math
from dataclasses import replace

from dpassay.types import OneTraining, Verdict

FEW = 10.0  # draws of a canary; with fewer, models without any noise show next to nothing
EXERCISED = ("data path", "sampling", "clipping", "noise", "divisor")
NOT_EXERCISED = ("accountant", "the models before the last")
_MOST = 1e6  # canaries that anybody would insert
_WATCH = "watch the noise itself, which shows after a few steps: dpassay.probe.optimizer(optimizer)"
_OWN = "canaries with a direction or a token of their own (for_images, for_text, for_rows)"


def add_advice(verdict: Verdict, facts: OneTraining, *, shared: bool) -> Verdict:
    """The verdict with what is known of its training, and the next step that follows from it."""
    hidden = _describe_hiding(verdict, facts, shared)
    notes = facts.notes if hidden is None else (*facts.notes, hidden)
    step = verdict.next_step if verdict.refuted else _next_step(verdict, shared)
    return replace(
        verdict,
        next_step=step if hidden is None else f"{hidden} {step}",
        one_training=replace(facts, notes=notes),
    )


def _describe_hiding(verdict: Verdict, facts: OneTraining, shared: bool) -> str | None:
    """Why these canaries show little whatever the noise is; None where they show something."""
    assert verdict.power is not None
    few = facts.draws is not None and facts.draws < FEW
    if verdict.refuted or verdict.power.room_used > 0.5 or not (few or shared):
        return None
    causes = [f"each was drawn about {facts.draws:.0f} times"] if few else []
    causes += ["they share their gradients with other records"] if shared else []
    return (
        f"These canaries ({facts.canaries}) could hardly have shown anything: "
        f"{' and '.join(causes)}, so that the model does not learn them, with or without noise."
    )


def _next_step(verdict: Verdict, shared: bool) -> str:
    """What to do after a claim stood, in one sentence."""
    assert verdict.power is not None
    ceiling = verdict.bound.ceiling
    claimed = float(verdict.claim.epsilon(verdict.bound.delta))
    if shared:
        return f"Use {_OWN}, or {_WATCH}."
    if verdict.power.vacuous:
        return f"{_describe_ceiling(ceiling, claimed, 1 - verdict.confidence)}, or {_WATCH}."
    if verdict.tightness > 0.8:
        return f"The bound is at {verdict.tightness:.0%} of the claim: more would add little."
    return f"Insert more canaries, or {_WATCH}."


def _describe_ceiling(ceiling: float, claimed: float, alpha: float) -> str:
    """How many canaries it takes: with m right guesses of m, epsilon is at least log(m / log 1/a).

    The pure claim lets each guess be right with probability 1 / (1 + e^-eps), so that all of them
    are with probability at least alpha while m e^-eps <= log(1 / alpha), nearly.
    """
    shown = (
        f"Even perfect guesses of these canaries would show no more than epsilon >= {ceiling:.3g}"
    )
    needed = math.exp(min(claimed, 50.0)) * math.log(1 / alpha)
    if needed > _MOST:
        return f"{shown}, and no number of records could do much more for this claim"
    return f"{shown}: insert {math.ceil(needed):,} or more"
