"""A check as SARIF 2.1.0, the format in which code hosts show findings beside the lines.

Only what a code host reads is written: rules, results with their lines, and fingerprints that
survive moved lines. No value of a record is in it.
"""

import hashlib
from typing import Any
from urllib.parse import quote

from dpassay import __version__
from dpassay.auditing.findings import Check, Finding, Open
from dpassay.replay.obligations import RULES
from dpassay.replay.sites import Site, shorten

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_IDS = tuple(RULES)


def as_sarif(check: Check) -> dict[str, Any]:
    """The check as a SARIF log: findings fail, what is undecided or not checked is open."""
    results = [_finding_result(finding) for finding in (*check.findings, *check.warnings)]
    results += [_open_result(entry, "undecided") for entry in check.undecided]
    results += [_open_result(entry, "not checked") for entry in check.not_checked]
    run = {
        "tool": {"driver": _driver()},
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The working folder."}}},
        "invocations": [{"executionSuccessful": True}],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver() -> dict[str, Any]:
    return {
        "name": "dpassay check",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": "https://arxiv.org/abs/2602.17454",
        "rules": [_rule(name) for name in _IDS],
    }


def _rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    level = "warning" if name == "DPA601" else "error"
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": _sentence(rule.text)},
        "fullDescription": {"text": _sentence(rule.text)},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": level},
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _finding_result(finding: Finding) -> dict[str, Any]:
    numbers = {"epsilonSeen": finding.epsilon_seen, "epsilonClaimed": finding.epsilon_claimed}
    return {
        "ruleId": finding.rule,
        "ruleIndex": _IDS.index(finding.rule),
        "level": finding.level,
        "kind": "fail",
        "message": {"text": f"{_sentence(finding.title)} {finding.message}"},
        **_locations(finding.site),
        **_relate(finding.related),
        "partialFingerprints": {"dpassay/v1": _fingerprint(finding.rule, finding.site)},
        "properties": {
            **{name: value for name, value in numbers.items() if value is not None},
            "pair": finding.pair.how,
        },
    }


def _open_result(entry: Open, word: str) -> dict[str, Any]:
    named = {} if entry.rule is None else {"ruleId": entry.rule,
                                           "ruleIndex": _IDS.index(entry.rule)}  # fmt: skip
    return {
        **named,
        "level": "none",
        "kind": "open",
        "message": {"text": f"{word}: {entry.message}"},
        **_locations(entry.site),
    }


def _location(site: Site) -> dict[str, Any]:
    path = quote(shorten(site.file))
    artifact = {"uri": path, "uriBaseId": "%SRCROOT%"}
    if path.startswith("/"):  # outside of the working folder: absolute, without a base
        artifact = {"uri": f"file://{path}"}
    region = {"startLine": max(site.line, 1)}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _locations(site: Site | None) -> dict[str, Any]:
    return {} if site is None else {"locations": [_location(site)]}


def _relate(sites: tuple[Site, ...]) -> dict[str, Any]:
    if not sites:
        return {}
    return {"relatedLocations": [{"id": i, **_location(site)} for i, site in enumerate(sites)]}


def _fingerprint(rule: str, site: Site | None) -> str:
    """Names a finding by its rule and the text of its line, so that lines may move."""
    text = "" if site is None else site.source
    return hashlib.sha256(f"{rule}\n{text}".encode()).hexdigest()[:32]
