"""What a report says in sentences; each is right for its case or is not said."""

import math
from typing import Any

from dpassay.privacy.curves import GDP, ApproxDP, PureDP
from dpassay.report import numbers
from dpassay.types import Fall, Power, PrivacyCurve, Verdict

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


UNITS = {"many trials": "trials", "one run": "canaries", "single steps": "steps"}
"""What has a world of its own, by the kind of game."""


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
    seen = group_digits(verdict.evidence.trials)
    if verdict.kind == "one run":
        return f"one training with {seen} canaries"
    played = f"{group_digits(verdict.n_counted)} "
    if verdict.kind == "single steps":
        return f"{played}training{'' if verdict.n_counted == 1 else 's'} of {seen} steps in all"
    return f"{played}trial{'' if verdict.n_counted == 1 else 's'}"


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
    believed = "" if bound.assumes_nothing else f", assuming {bound.assumption}"
    said = [
        f"Measured: {shown}, with confidence {percent(bound.confidence)}{believed}. "
        f"Claimed: ε = {up(claimed)} there."
    ]
    if verdict.refuted:
        risk = one_in(1 - verdict.confidence)
        said.append(f"A true claim would be refuted in this way with a chance of at most {risk}.")
        if verdict.fell_at is not None:
            said.append(_describe_fall(verdict.fell_at))
        elif bound.epsilon <= claimed:
            said.append(
                "The claim fell by the test of its whole curve; the measured ε is a statement of "
                "its own."
            )
        return said
    said.append(_power(bound.ceiling, claimed))
    if bound.epsilon > claimed:
        said.append(
            "Taken by itself the measured ε is above the claim; the test that decides this verdict "
            "was not passed. Run more trials."
        )
    return said


def _describe_fall(fall: Fall) -> str:
    """Where on its curve the claim was exceeded; a bound that is shown is rounded down."""
    if fall.kind == "estimate":
        seen = f"about δ = {fall.delta_seen:.3g} was seen, an estimate"
    else:
        seen = f"δ ≥ {numbers.down(fall.delta_seen)} was shown"
    return (
        f"It fell at ε = {fall.epsilon:.4g}: there {seen}, and the claim allows "
        f"δ = {numbers.up(fall.delta_allowed)}."
    )


def power_rows(power: Power | None) -> list[tuple[str, str]]:
    """How well the attack told the worlds apart, beside the most that the claim allows."""
    if power is None:
        return []
    rows = [
        (
            "Area under the ROC curve",
            f"{power.auc:.3f} (about {power.auc_lower:.3f} to {power.auc_upper:.3f}); 0.5 is a "
            "coin, 1 a perfect attack",
        ),
        ("The largest area that the claim allows", f"{power.auc_allowed:.3f}"),
    ]
    if power.vacuous:
        rows.append(("Power", "none: nothing could have refuted the claim in this audit"))
    return rows


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
    if not verdict.bound.assumes_nothing:
        said.append(f"The measured ε rests on an assumption: {verdict.bound.assumption}.")
    if verdict.evidence.seed is not None:
        said.append(
            "The trials were run with seeded noise so that they can be replayed; the secure source "
            "of noise of a release was not what was audited."
        )
    if verdict.kind == "one run":
        said.append(
            "One training was run. Its canaries are not independent, so that rates over canaries "
            "have no interval of their own; the bound accounts for that."
        )
    return said + [f"This game cannot see: {fault}" for fault in verdict.cannot_see]


_NEIGHBOURS = {
    "checked": "checked: the two data sets are neighbours in the claim's relation",
    "trusted": "nobody checked: they were trusted to be neighbours",
    "unseen": "nobody checked: what a record is cannot be seen in them",
    None: "not said",
}


def attack_rows(verdict: Verdict, view: str | None) -> list[tuple[str, str]]:
    """Who attacked, with what view, how often, and what went wrong."""
    evidence, unit = verdict.evidence, UNITS[verdict.kind]
    n_in = int((evidence.worlds == 1).sum())
    rows: list[tuple[str, Any]] = [
        ("Attack", verdict.attack or "not said"),
        ("What the attacker saw", view or "what the audited function returned, and nothing else"),
        ("Trainings or runs counted", group_digits(verdict.n_counted)),
        (
            f"{unit.capitalize()} with and without",
            f"{group_digits(n_in)} with, {group_digits(evidence.trials - n_in)} without",
        ),
        ("Spent to learn the attack", _learning(verdict.n_learning)),
        ("Failed", _describe_failures(verdict)),
        ("Workers that died", _describe_deaths(verdict.n_deaths, evidence.seed is not None)),
        ("Neighbouring data sets", _NEIGHBOURS[verdict.neighbours]),
        *([("The pair that was searched", verdict.pair_in_words)] if verdict.pair else []),
        ("Ended", verdict.ended),
        *power_rows(verdict.power),
    ]
    if verdict.p_value is not None:
        rows.append(("P-value of the claim as a whole", f"{verdict.p_value:.3g}"))
    return [(name, str(value)) for name, value in rows]


def _describe_failures(verdict: Verdict) -> str:
    if not verdict.evidence.n_failed:
        return "none"
    return f"{group_digits(verdict.evidence.n_failed)}; each is an output, with the lowest score"


def _learning(n: int) -> str:
    return f"{group_digits(n)} trials, which do not count" if n else "none: the score was given"


def _describe_deaths(n: int, replayable: bool) -> str:
    if not n:
        return "none"
    if replayable:
        return f"{group_digits(n)}; their trials were played again"
    return f"{group_digits(n)}; their trials, which cannot be replayed, count as failed"


def one_training_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """What is known of the one training that was audited: a row for each fact that there is."""
    k = facts["records_per_unit"]
    unit = "one record" if facts["unit"] == "record" else f"one user, who has {k} records"
    rows = [
        ("Unit that was audited", f"{unit}: a canary's coin decides on it, and the claim is of it"),
        ("Canaries", facts["canaries"]),
        ("What the attack saw", facts["view"]),
        ("Went through", ", ".join(facts["exercised"]) or "not said"),
        ("Did not go through", ", ".join(facts["not_exercised"]) or "not said"),
    ]
    rows += [
        (label, f"{float(facts[name]):.5g}")
        for name, label in _READ.items()
        if facts[name] is not None
    ]
    if facts["residuals"] is not None:
        rows.append(
            ("Noise that was seen, in units of the claimed", _residuals(facts["residuals"]))
        )
    return rows


_READ = {
    "draws": "How often a canary was drawn, on average",
    "kappa": "κ: overlap of the canaries' gradients, at most",
    "noise_multiplier": "Noise multiplier, as read from the training",
    "sampling_rate": "Sampling rate, as read",
    "steps": "Steps, as read",
}


def _residuals(found: dict[str, Any]) -> str:
    text = (
        f"mean {found['mean']:.3g}, variance {found['variance']:.3g}, kurtosis "
        f"{found['kurtosis']:.3g}; 0, 1 and 3 of Gaussian noise as claimed"
    )
    largest = found["largest_correlation"]
    return text if largest is None else f"{text}; largest correlation {largest:.3g}"
