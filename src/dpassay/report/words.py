"""What a report says in sentences; each is right for its case or is not said."""

import math
from typing import Any

from dpassay.privacy.curves import GDP, ApproxDP, PureDP
from dpassay.report import numbers
from dpassay.types import PrivacyCurve, Verdict

KINDS = {
    "exact": "exact: neither above nor below what the statement implies",
    "upper bound": "an upper bound: never below the truth, it errs on the safe side",
    "estimate": "an estimate: it may lie below the truth and proves nothing",
}
RELATIONS = {
    "add-remove": "add or remove one: two data sets are neighbours if one has a record more",
    "replace-one": "replace one: two data sets are neighbours if they differ in one record",
}


def up(x: float) -> str:
    """An upper bound in print, rounded up."""
    return numbers.up(x).replace("inf", "∞")


def down(x: float) -> str:
    """A lower bound in print, rounded down."""
    return numbers.down(x).replace("inf", "∞")


def is_one_run(verdict: Verdict) -> bool:
    """Whether many canaries of one training were scored, rather than many trainings."""
    return verdict.trials == 1 and verdict.evidence.trials > 1


def statement(claim: PrivacyCurve, epsilon: float, delta: float) -> str:
    """The claim in one line."""
    if isinstance(claim, PureDP):
        return f"ε = {up(claim.epsilon_upper)}"
    if isinstance(claim, ApproxDP):
        return f"ε = {up(claim.epsilon_upper)}, δ = {small(claim.delta_upper)}"
    point = f"ε = {up(epsilon)} at δ = {small(delta)}"
    return f"μ = {up(claim.mu)}, that is {point}" if isinstance(claim, GDP) else point


def percent(confidence: float) -> str:
    """A confidence, never rounded up to certainty.

    >>> percent(0.95), percent(1 - 1e-6)
    ('95 %', '99.9999 %')

    """
    return f"{100 * confidence:.10g} %"


def one_in(share: float) -> str:
    """A small share as "1 in so many", rounded to the cautious side.

    >>> one_in(0.05), one_in(1e-6)
    ('1 in 20', '1 in 1 000 000')

    """
    return f"1 in {math.floor(1 / share * (1 + 1e-9)):,}".replace(",", " ")


def small(x: float) -> str:
    """A small number without idle zeros.

    >>> small(1e-5), small(0.0), small(0.25)
    ('1e-5', '0', '0.25')

    """
    return f"{x:g}".replace("e-0", "e-")


def headline(verdict: Verdict) -> str:
    """The verdict in two words."""
    if verdict.refuted:
        return "Refuted"
    return "Not refuted so far" if verdict.ended == "interrupted" else "Not refuted"


def verdict_sentence(verdict: Verdict, claimed: float) -> str:
    """The verdict in one sentence; "not refuted" is never "private"."""
    claim = statement(verdict.claim, claimed, verdict.bound.delta)
    if verdict.refuted:
        return f"The claim ({claim}) is false, with confidence {percent(verdict.confidence)}."
    played = _describe_trials(verdict)
    if verdict.ended == "interrupted":
        return (
            f"The audit was stopped after {played}; until then nothing refuted the claim ({claim})."
        )
    return f"In {played} the attack did not refute the claim ({claim}); that does not prove it."


def _describe_trials(verdict: Verdict) -> str:
    if is_one_run(verdict):
        return f"one training with {group_digits(verdict.evidence.trials)} canaries"
    return f"{group_digits(verdict.trials)} trial{'' if verdict.trials == 1 else 's'}"


def group_digits(n: float) -> str:
    """A count with thin groups of three.

    >>> group_digits(1234567)
    '1 234 567'

    """
    return f"{n:,.0f}".replace(",", " ")


def verdict_details(verdict: Verdict, claimed: float) -> list[str]:
    """What else must be known beside the sentence."""
    bound = verdict.bound
    shown = f"ε ≥ {down(bound.epsilon)} at δ = {small(bound.delta)}"
    believed = f", assuming {bound.assumption}" if bound.assumption != "none" else ""
    said = [
        f"Measured: {shown}, with confidence {percent(bound.confidence)}{believed}. "
        f"Claimed: ε = {up(claimed)} there."
    ]
    if verdict.refuted:
        risk = one_in(1 - verdict.confidence)
        said.append(f"A true claim would be refuted in this way with a chance of at most {risk}.")
        if bound.epsilon <= claimed:
            said.append(
                "The claim fell at another point of its curve, or by the sharper test of the "
                "verdict; the measured ε is a statement of its own."
            )
        return said
    said.append(_power(bound.ceiling, claimed))
    if bound.epsilon > claimed:
        said.append(
            "Taken by itself the measured ε is above the claim; the test that decides this verdict "
            "was not passed. Run more trials."
        )
    return said


def _power(ceiling: float, claimed: float) -> str:
    most = "no limit" if math.isinf(ceiling) else f"ε ≥ {down(ceiling)}"
    text = f"The most that this audit could have shown, with a perfect attack: {most}."
    return text + (" That is below the claim." if ceiling < claimed else "")


def limits(verdict: Verdict) -> list[str]:
    """What the report does not show."""
    said = [
        "An audit can refute a claim, it cannot confirm one. A stronger attack, another pair of "
        "data sets or more trials may refute what this one did not.",
        "It is about the code that was run, on the machine and with the data sets named here, not "
        "about what is deployed elsewhere.",
        "It is about what the audited function returns. Running time, memory, logs and error "
        "messages are not looked at.",
        "Differential privacy limits what is learned from one unit's taking part. It does not hide "
        "what is true of a whole group, and does not protect data before they reach the algorithm.",
    ]
    if verdict.bound.assumption != "none":
        said.append(f"The measured ε rests on an assumption: {verdict.bound.assumption}.")
    if verdict.evidence.seed is not None:
        said.append(
            "The trials were run with seeded noise so that they can be replayed; the secure source "
            "of noise of a release was not what was audited."
        )
    if is_one_run(verdict):
        said.append(
            "One training was run. Its canaries are not independent, so that rates over canaries "
            "have no interval of their own; the bound accounts for that."
        )
    return said


_NEIGHBOURS = {
    "checked": "checked: the two data sets are neighbours in the claim's relation",
    "trusted": "nobody checked: they were trusted to be neighbours",
    "unseen": "nobody checked: what a record is cannot be seen in them",
    None: "not said",
}


def attack_rows(verdict: Verdict, view: str | None) -> list[tuple[str, str]]:
    """Who attacked, with what view, how often, and what went wrong."""
    details, evidence = verdict.details or {}, verdict.evidence
    n_in = int((evidence.worlds == 1).sum())
    unit = "canaries" if is_one_run(verdict) else "trials"
    rows: list[tuple[str, Any]] = [
        ("Attack", verdict.attack or "not said"),
        ("What the attacker saw", view or "what the audited function returned, and nothing else"),
        ("Trainings or runs counted", group_digits(verdict.trials)),
        (
            f"{unit.capitalize()} with and without",
            f"{group_digits(n_in)} with, {group_digits(evidence.trials - n_in)} without",
        ),
        ("Spent to learn the attack", _learning(int(details.get("learning_trials", 0)))),
        ("Failed", _describe_failures(verdict)),
        ("Workers that died", _describe_deaths(details.get("deaths"))),
        ("Neighbouring data sets", _NEIGHBOURS[verdict.neighbours]),
        ("Ended", verdict.ended),
    ]
    return [(name, str(value)) for name, value in rows]


def _describe_failures(verdict: Verdict) -> str:
    if not verdict.evidence.n_failed:
        return "none"
    return f"{group_digits(verdict.evidence.n_failed)}; each is an output, with the lowest score"


def _learning(n: int) -> str:
    return f"{group_digits(n)} trials, which do not count" if n else "none: the score was given"


def _describe_deaths(n: float | None) -> str:
    if n is None:
        return "not recorded; what a worker loses is played again and changes nothing"
    return f"{group_digits(n)}; their trials were played again" if n else "none"
