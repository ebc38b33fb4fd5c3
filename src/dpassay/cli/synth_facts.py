"""What is said of a synthetic table, as JSON holds it: promise, domain, quality."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpassay.synth import Fidelity, Quality, ReaderQuality, Synthesizer


def state_promise(fitted: "Synthesizer") -> dict[str, Any]:
    """What was promised, from the event alone."""
    curve = fitted.privacy_
    delta = fitted.budget_.delta
    return {
        "method": fitted.method_,
        "epsilon": float(curve.epsilon(delta)),
        "delta": delta,
        "neighbouring": curve.neighbouring,
        "public": list(fitted.assumptions_),
        "noise": fitted.noise_,
        "private": fitted.noise_ != "reproducible",
    }


def describe_domain(fitted: "Synthesizer") -> dict[str, Any]:
    """The columns and their kinds; which were measured, which dropped, and what that cost."""
    domain = fitted.domain_
    measured = () if domain is None else domain.measured
    columns = [
        {"column": name, "kind": column.kind, "size": column.size, "measured": name in measured}
        for name, column in fitted.schema.columns.items()
    ]
    price = None if domain is None else float(domain.privacy.epsilon(fitted.budget_.delta))
    dropped = [] if domain is None else list(domain.dropped)
    return {"columns": columns, "dropped": dropped, "epsilon": price}


def describe_quality(errors: "Quality", both: "Fidelity") -> dict[str, Any]:
    """The owner's numbers as JSON holds them; no number is NaN."""
    columns = [
        row | {"quantiles": column.quantiles, "atoms": [[str(v), s] for v, s in column.atoms]}
        for row, column in zip(both.table().to_dict(orient="records"), both.columns, strict=True)
    ]
    pairs = [
        {"columns": list(pair.names), "measure": pair.measure, "strength": list(pair.strength)}
        for pair in sorted(both.pairs, key=lambda pair: -pair.error)
    ]
    found = {
        "max_error": errors.max_error,
        "mean_total_variation": errors.mean_total_variation,
        "by_columns": errors.table().to_dict(orient="records"),
        "columns": columns,
        "pairs": pairs,
        "rules": [{"rule": text, "broken": list(shares)} for text, shares in both.rules],
        "utility": both.utility,
        "faults": list(both.faults),
    }
    return _without_nan(found)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_quality(told: "ReaderQuality") -> dict[str, Any]:
    """What readers may know, as JSON holds it."""
    columns = [
        {
            "column": column.name,
            "distance": column.distance,
            "resolution": column.resolution,
            "words": column.words,
            "missing": column.missing,
            "outside": column.outside,
        }
        for column in told.columns
    ]
    rules = [{"rule": text, "broken": share} for text, share in told.rules]
    return {"columns": columns, "rules": rules, "resolution": told.resolution}
