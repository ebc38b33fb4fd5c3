"""The checklist of hazards: what has undone guarantees that were proved and audited.

Each item is "pass" (the hazard is absent), "fail" (it is present) or "not checked", with one
sentence why and its grounds: *computed* from the claim, the proof and the trials, or *declared* by
a person. Without grounds nothing passes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dpassay.privacy.curves import Curve
from dpassay.report.disclosure import Disclosure
from dpassay.report.words import down, small, up
from dpassay.types import PrivacyCurve, Verdict

LARGE_EPSILON = 10.0
PASS, FAIL, OPEN = "pass", "fail", "not checked"
COMPUTED, DECLARED, NOTHING = "computed", "declared", "none"


class Finding(NamedTuple):
    """What was found of one hazard."""

    status: str
    why: str
    grounds: str = NOTHING


@dataclass(frozen=True)
class Facts:
    """What the checklist is decided from."""

    verdict: Verdict
    proof: PrivacyCurve | None
    declared: Disclosure
    claimed: float
    proved: float | None

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""
        return self.verdict.bound.delta

    @property
    def n_records(self) -> tuple[int, str] | None:
        """The public number of records, and the grounds: declared, or stated by a curve."""
        if self.declared.n_records is not None:
            return self.declared.n_records, DECLARED
        curves = [self.verdict.claim, *([self.proof] if self.proof is not None else [])]
        for curve in curves:
            if isinstance(curve, Curve) and curve.n_records is not None:
                return curve.n_records, COMPUTED
        return None


Decision = Callable[[Facts], Finding]


def _large_epsilon(facts: Facts) -> Finding:
    seen = facts.verdict.bound.epsilon
    if seen > LARGE_EPSILON:
        return Finding(FAIL, f"At least {down(seen)} was measured.", COMPUTED)
    if facts.claimed > LARGE_EPSILON:
        why = f"Claimed: {up(facts.claimed)}. So large a number limits hardly any attack."
        return Finding(FAIL, why, COMPUTED)
    if facts.verdict.refuted:
        return Finding(OPEN, "The claim is refuted, so that the true epsilon is not known.")
    return Finding(PASS, f"Claimed: {up(facts.claimed)} at delta {small(facts.delta)}.", COMPUTED)


def _large_delta(facts: Facts) -> Finding:
    if facts.delta == 0:
        return Finding(PASS, "Delta is 0.", COMPUTED)
    if facts.n_records is None:
        return Finding(OPEN, "The number of records was not declared.")
    n, grounds = facts.n_records
    if facts.delta * n >= 1:
        why = (
            f"Delta is {small(facts.delta)}, 1/n is {1 / n:.3g}: to publish one record in full, "
            "picked at random, would be allowed."
        )
        return Finding(FAIL, why, grounds)
    return Finding(PASS, f"Delta is {small(facts.delta)}, 1/n is {1 / n:.3g}.", grounds)


def _unit(facts: Facts) -> Finding:
    unit, most = facts.declared.unit, facts.declared.records_per_person
    if unit is None:
        return Finding(OPEN, "The unit of privacy was not declared.")
    if unit.strip().lower() in ("person", "user", "individual", "patient", "customer"):
        return Finding(PASS, f"The unit is the {unit.strip().lower()}.", DECLARED)
    if most == 1:
        return Finding(PASS, f"The unit is the {unit}; nobody has more than one.", DECLARED)
    many = "an unknown number" if most is None else f"up to {most}"
    why = f"The unit is the {unit}; one person may have {many}, and is protected less."
    return Finding(FAIL, why, DECLARED)


def _neighbours(facts: Facts) -> Finding:
    audited, declared = facts.verdict.claim.neighbouring, facts.declared.proof_neighbouring
    if facts.proof is not None:
        proved, grounds = facts.proof.neighbouring, COMPUTED
    elif declared is not None:
        proved, grounds = declared, DECLARED
    elif _is_accounted(facts.verdict.claim):
        proved, grounds = audited, COMPUTED
    else:
        return Finding(OPEN, f"The audit is about {audited}; no proof was given.")
    if declared not in (None, proved):
        return Finding(FAIL, f"The proof is about {proved}; {declared} was declared.", COMPUTED)
    if proved != audited:
        return Finding(FAIL, f"The proof is about {proved}, the audit about {audited}.", grounds)
    return Finding(PASS, f"Both are about {audited}.", grounds)


def _is_accounted(claim: PrivacyCurve) -> bool:
    """Whether the claim is itself the result of accounting."""
    return claim.method != "stated"


def _proof(facts: Facts) -> Finding:
    proof = facts.proof
    if proof is None:
        if not _is_accounted(facts.verdict.claim):
            return Finding(OPEN, "No proof was given.")
        proof = facts.verdict.claim
    if proof.kind == "estimate":
        return Finding(FAIL, f"What {proof.method} gives is an estimate, not a proof.", COMPUTED)
    if facts.verdict.refuted:
        why = "The claim is refuted: the code is not what was proved, or the proof is wrong."
        return Finding(FAIL, why, COMPUTED)
    if facts.proved is None:
        return Finding(PASS, f"The claim is what {proof.method} proved.", COMPUTED)
    if facts.proved > facts.claimed * (1 + 1e-9):
        why = f"Only {up(facts.proved)} is proved, {up(facts.claimed)} is claimed."
        return Finding(FAIL, why, COMPUTED)
    why = f"{up(facts.proved)} is proved, {up(facts.claimed)} is claimed."
    return Finding(PASS, why, COMPUTED)


def _power(facts: Facts) -> Finding:
    most = facts.verdict.bound.ceiling
    if facts.verdict.refuted:
        return Finding(PASS, "The claim was refuted.", COMPUTED)
    if most <= facts.claimed:
        why = (
            f"A perfect attack would have shown {down(most)} in as many trials, no more than the "
            f"{up(facts.claimed)} claimed."
        )
        return Finding(FAIL, why, COMPUTED)
    return Finding(PASS, f"A perfect attack would have shown {down(most)}.", COMPUTED)


def _sampling(facts: Facts) -> Finding:
    accounted, used = facts.declared.sampling_accounted, facts.declared.sampling_used
    if accounted is None or used is None:
        return Finding(OPEN, "Not both of sampling accounted and sampling used were declared.")
    if accounted != used:
        return Finding(FAIL, f"Accounted: {accounted}; used: {used}.", DECLARED)
    return Finding(PASS, f"Accounted and used: {used}.", DECLARED)


def _decide_by(field: str, wanted: bool, unknown: str, good: str, bad: str) -> Decision:
    """Decides by one declared fact: good where it is as wanted, open where it was not declared."""

    def decide(facts: Facts) -> Finding:
        value = getattr(facts.declared, field)
        if value is None:
            return Finding(OPEN, unknown)
        return Finding(PASS, good, DECLARED) if value is wanted else Finding(FAIL, bad, DECLARED)

    return decide


def _reproducible(facts: Facts) -> Finding:
    noise = facts.declared.noise
    if noise is None:
        audited = facts.verdict.evidence.seed
        seeded = "secure noise" if audited is None else "seeded noise"
        return Finding(OPEN, f"The noise of the release was not declared; {seeded} was audited.")
    if noise == "reproducible":
        return Finding(FAIL, "Whoever has the seed can take the noise away again.", DECLARED)
    return Finding(PASS, "Keyed by the operating system; no seed is kept.", DECLARED)


def _floating_point(facts: Facts) -> Finding:
    noise = facts.declared.noise
    if noise is None:
        return Finding(OPEN, "The noise of the release was not declared.")
    if noise == "exact":
        return Finding(PASS, "Sampled exactly, on a grid, by integer arithmetic.", DECLARED)
    why = (
        "Drawn in floating point: the proof is about real numbers, and the last digits of a "
        "released number may tell more (Mironov 2012)."
    )
    return Finding(FAIL, why, DECLARED)


def _beside(what: str) -> Decision:
    def decide(facts: Facts) -> Finding:
        released = getattr(facts.declared, f"{what}_released")
        accounted = getattr(facts.declared, f"{what}_accounted")
        if released is None:
            return Finding(OPEN, f"It was not declared whether {what} are released.")
        if not released:
            return Finding(PASS, f"No {what} are released.", DECLARED)
        if accounted:
            return Finding(PASS, f"The guarantee covers the {what} that are released.", DECLARED)
        return Finding(FAIL, f"The guarantee does not cover the {what} released.", DECLARED)

    return decide


_KEPT = {
    None: Finding(OPEN, "It was not declared what becomes of the raw data."),
    "deleted": Finding(PASS, "They are deleted.", DECLARED),
    "restricted": Finding(PASS, "They are kept for a stated time; few have access.", DECLARED),
    "unrestricted": Finding(FAIL, "No privacy of outputs protects data that are kept.", DECLARED),
}

HAZARDS: dict[str, Decision] = {
    "Epsilon above 10": _large_epsilon,
    "Delta at or above 1/n": _large_delta,
    "Unit of privacy is not the person": _unit,
    "Proof and audit differ in the neighbouring relation": _neighbours,
    "Claim not reached by a proof": _proof,
    "Audit too small to reach the claim": _power,
    "Sampling accounted is not sampling used": _sampling,
    "Hyper-parameter search not accounted": _decide_by(
        "search_accounted",
        wanted=True,
        unknown="It was not declared how hyper-parameters were found.",
        good="The guarantee covers how hyper-parameters were found.",
        bad="The guarantee is that of the last training alone.",
    ),
    "Bounds or domain read off the data": _decide_by(
        "bounds_from_data",
        wanted=False,
        unknown="It was not declared where bounds and domain come from.",
        good="Bounds and domain were fixed without looking at the data.",
        bad="Bounds or domain were read off the data, which leaks.",
    ),
    "Reproducible noise in the release": _reproducible,
    "Noise drawn in floating point": _floating_point,
    "Checkpoints released beside the model": _beside("checkpoints"),
    "Metrics of the private data released": _beside("metrics"),
    "Raw data kept without limit": lambda facts: _KEPT[facts.declared.raw_data_retention],
}


def checklist(facts: Facts) -> list[dict[str, str]]:
    """Every hazard with its status, why, and the grounds."""
    found = {name: decide(facts) for name, decide in HAZARDS.items()}
    return [{"name": name, **finding._asdict()} for name, finding in found.items()]


def facts_of(verdict: Verdict, proof: PrivacyCurve | None, declared: Disclosure | None) -> Facts:
    """The facts, with epsilon of claim and proof at the delta of the bound."""
    at = verdict.bound.delta
    proved = None if proof is None else float(proof.epsilon(at))
    claimed = float(verdict.claim.epsilon(at))
    return Facts(verdict, proof, declared or Disclosure(), claimed, proved)
