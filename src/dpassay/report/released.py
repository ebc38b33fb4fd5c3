"""Attacks on a released table as a part of a page, from plain data: rates, risks, and their limits.

The data hold no record: numbers of records, rates with intervals, names of columns.
"""

import math
from collections.abc import Mapping
from typing import Any

from dpassay.report.page import NOTHING_FETCHED, document, paragraphs, table

OWNERS_EYES = (
    "Not private: these rates were computed from the true records without noise. For the owner's "
    "eyes; do not publish them with the table."
)


def page_of_attack(data: Mapping[str, Any]) -> str:
    """One page on the attacks on a released table; ``data`` is what ``--json`` prints."""
    return document("Attacks on a released table", describe_attack(data), head=NOTHING_FETCHED)


def describe_attack(data: Mapping[str, Any]) -> str:
    """The markup of the section: membership first, then the three risks, then what they miss."""
    parts = [paragraphs(OWNERS_EYES), _membership(data)]
    if data["drift"] is not None and data["drifted"]:
        parts.append(paragraphs(data["drift_in_words"]))
    parts.append(paragraphs(data["epsilon_in_words"]))
    if data["risks"]:
        parts.append(_risks(data))
    return "\n".join([*parts, paragraphs(data["copying"])])


def _membership(data: Mapping[str, Any]) -> str:
    rows = [
        (
            name,
            interval(found["auc"]),
            interval(next(iter(found["tpr_at"].values()))),
            "yes" if found["significant"] else "no",
            found["finds"],
        )
        for name, found in data["attacks"].items()
    ]
    n = data["records"]
    caption = (
        f"{n['members']} members and {n['others']} others against {n['released']} released rows, "
        f"with a reference of {n['reference']}. All intervals hold together with confidence "
        f"{data['confidence']:.10g}."
    )
    fpr = f"TPR at FPR {data['fpr']:g}"
    return table(rows, head=("attack", "AUC", fpr, "found", "what it finds"), caption=caption)


def _risks(data: Mapping[str, Any]) -> str:
    rows = [
        (
            risk["name"] + (f" of {risk['secret']}" if risk["secret"] else ""),
            interval(risk["risk"], signed=True),
            interval(risk["attack"]),
            interval(risk["control"]),
        )
        for risk in data["risks"]
    ]
    caption = "What the data add to the rate of the control group; 0 is no risk."
    return table(
        rows, head=("risk", "risk", "on the data", "on the control group"), caption=caption
    )


def interval(found: Mapping[str, Any], signed: bool = False) -> str:
    """The value and its limits, rounded outwards to two digits."""
    sign = "+" if signed else ""
    low, high = float(found["lower"]), float(found["upper"])
    low = math.floor(100 * low) / 100 if math.isfinite(low) else low
    high = math.ceil(100 * high) / 100
    return f"{found['value']:{sign}.3f} [{low:{sign}.2f}, {high:{sign}.2f}]"
