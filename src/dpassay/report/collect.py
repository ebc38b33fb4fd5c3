"""From a verdict to the data of a report: every number and sentence that is shown, as plain JSON.

No drawing here, and never a record: scores enter as counts and rates only.
"""

from dataclasses import asdict
from typing import Any

from dpassay.privacy.curves import GDP, Curve
from dpassay.report import plotted, words
from dpassay.report.disclosure import Disclosure
from dpassay.report.hazards import checklist, facts_of
from dpassay.report.odds import explain
from dpassay.types import LowerBound, PrivacyCurve, Verdict

_TEXTS = ("exercised", "not_exercised", "notes")
_LONGEST = 1000  # characters of a text that was given; a report stays small


def collect(
    verdict: Verdict,
    *,
    title: str,
    proof: PrivacyCurve | None,
    disclosure: Disclosure | None,
    command: str,
    versions: dict[str, str],
) -> dict[str, Any]:
    """The data of one audit."""
    facts = facts_of(verdict, proof, disclosure)
    claimed, bound = facts.claimed, verdict.bound
    return {
        "title": _clip(title),
        "verdict": _verdict(verdict, claimed),
        "epsilon": {
            "delta": bound.delta,
            "proved_upper": facts.proved,
            "claimed": claimed,
            "measured_lower": bound.epsilon,
            "ceiling": bound.ceiling,
        },
        "odds": [asdict(odds) for odds in explain(verdict.claim).odds.values()],
        "claim": _curve(verdict.claim, claimed, bound.delta),
        "proof": None if facts.proved is None else _curve(proof, facts.proved, bound.delta),
        "bound": _bound(bound),
        "attack": _attack(verdict, facts.declared.view),
        "evidence": _evidence(verdict),
        "one_training": _one_training(verdict),
        "disclosure": {name: _clip(value) for name, value in asdict(facts.declared).items()},
        "hazards": [{k: _clip(v) for k, v in item.items()} for item in checklist(facts)],
        "limits": words.limits(verdict),
        "replay": _replay(verdict, command, versions),
    }


def _clip(value: Any) -> Any:
    """The value with long texts cut, so that a report stays small."""
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    return value[:_LONGEST] + " …"


def _round_threshold(threshold: Any) -> Any:
    """A threshold may be the score of one trial: four digits of it are enough."""
    return float(f"{threshold:.4g}") if isinstance(threshold, float) else threshold


def _bound(bound: LowerBound) -> dict[str, Any]:
    shown = {"threshold": _round_threshold(bound.threshold)}
    return asdict(bound) | shown | {"assumes_nothing": bound.assumes_nothing}


def _verdict(verdict: Verdict, claimed: float) -> dict[str, Any]:
    return {
        "refuted": verdict.refuted,
        "headline": words.headline(verdict),
        "sentence": words.verdict_sentence(verdict, claimed),
        "remarks": words.verdict_details(verdict, claimed),
        "confidence": verdict.confidence,
        "kind": verdict.kind,
        "trials": verdict.trials,
        "n_learning": verdict.n_learning,
        "n_deaths": verdict.n_deaths,
        "ended": verdict.ended,
        "tightness": verdict.tightness,
        "p_value": verdict.p_value,
        "fell_at": None if verdict.fell_at is None else asdict(verdict.fell_at),
        "power": None if verdict.power is None else asdict(verdict.power),
        "next_step": _clip(verdict.next_step),
    }


def _curve(curve: Any, epsilon: float, delta: float) -> dict[str, Any]:
    return {
        "statement": words.statement(curve, epsilon, delta),
        "curve": _clip(repr(curve)),
        "epsilon": epsilon,
        "delta": delta,
        "mu": curve.mu if isinstance(curve, GDP) else None,
        "neighbouring": curve.neighbouring,
        "method": _clip(curve.method),
        "kind": curve.kind,
        "assumptions": [_clip(text) for text in curve.assumptions],
        "n_records": curve.n_records if isinstance(curve, Curve) else None,
        "profile": plotted.privacy_profile(curve),
        "table": plotted.profile_table(curve, epsilon),
        "allowed": plotted.allowed_region(curve),
    }


def _attack(verdict: Verdict, view: str | None) -> dict[str, Any]:
    evidence = verdict.evidence
    n_in = int((evidence.worlds == 1).sum())
    rows = words.attack_rows(verdict, view)
    return {
        "attack": _clip(verdict.attack),
        "n_in": n_in,
        "n_out": evidence.trials - n_in,
        "n_failed": evidence.n_failed,
        "neighbours": verdict.neighbours,
        "rows": [[name, _clip(value)] for name, value in rows],
    }


def _one_training(verdict: Verdict) -> dict[str, Any] | None:
    """What was put into the one training and what it went through; None for other audits."""
    facts = verdict.one_training
    if facts is None:
        return None
    texts = {name: [_clip(text) for text in getattr(facts, name)] for name in _TEXTS}
    return asdict(facts) | texts | {"bounds": [_bound(bound) for bound in facts.bounds]}


def _evidence(verdict: Verdict) -> dict[str, Any]:
    """What is drawn of the scores; intervals of rates only where trials are independent."""
    evidence, bound = verdict.evidence, verdict.bound
    one_run = verdict.kind == "one run"
    stated = evidence, bound.delta, bound.confidence
    return {
        "roc": plotted.roc(evidence),
        "roc_band": None if one_run else plotted.roc_band(evidence, verdict.confidence),
        "histogram": plotted.histogram(evidence),
        "thresholds": None if one_run else plotted.thresholds(*stated),
        "guesses": plotted.guesses(*stated) if one_run else None,
        "wealth": plotted.wealth(verdict),
    }


def _replay(verdict: Verdict, command: str, versions: dict[str, str]) -> dict[str, Any]:
    return {
        "command": _clip(command or verdict.replay),
        "run": verdict.evidence.run,
        "seed": verdict.evidence.seed,
        "versions": {str(name): _clip(str(text)) for name, text in versions.items()},
    }


def find_versions() -> dict[str, str]:
    """What the numbers were computed with."""
    import platform
    from importlib.metadata import version

    from dpassay import __version__

    packages = {name: version(name) for name in ("numpy", "scipy")}
    return {
        "dpassay": __version__,
        "python": platform.python_version(),
        **packages,
        "platform": f"{platform.system()} {platform.machine()}",
    }
