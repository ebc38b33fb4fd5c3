"""SARIF 2.1.0: required parts, closed objects and cross references of the published schema.

The schema closes its objects ("additionalProperties": false); the tables below hold the names that
it knows for the objects that are written, and its required ones.
"""

import json
import re
from urllib.parse import urlsplit

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing.sarif import as_sarif
from dpassay.replay.sites import Site

KNOWN = {
    "log": {"$schema", "version", "runs", "inlineExternalProperties", "properties"},
    "run": {"tool", "invocations", "conversion", "originalUriBaseIds", "artifacts", "results",
            "automationDetails", "columnKind", "properties", "taxonomies", "language"},
    "driver": {"name", "version", "semanticVersion", "informationUri", "rules", "fullName",
               "organization", "shortDescription", "fullDescription", "properties"},
    "rule": {"id", "name", "shortDescription", "fullDescription", "help", "helpUri",
             "defaultConfiguration", "messageStrings", "properties"},
    "result": {"ruleId", "ruleIndex", "level", "kind", "message", "locations", "relatedLocations",
               "partialFingerprints", "fingerprints", "properties", "rank", "guid"},
    "location": {"id", "physicalLocation", "logicalLocations", "message", "properties"},
    "physical": {"artifactLocation", "region", "contextRegion", "properties"},
    "artifact": {"uri", "uriBaseId", "index", "description", "properties"},
    "region": {"startLine", "startColumn", "endLine", "endColumn", "snippet", "message"},
    "invocation": {"executionSuccessful", "commandLine", "exitCode", "properties"},
}  # fmt: skip
REQUIRED = {"log": {"version", "runs"}, "run": {"tool"}, "driver": {"name"}, "rule": {"id"},
            "result": {"message"}, "invocation": {"executionSuccessful"}}  # fmt: skip
LEVELS, KINDS = {"none", "note", "warning", "error"}, {"fail", "open", "pass", "review"}


def check_object(kind, found):
    assert set(found) <= KNOWN[kind], (kind, set(found) - KNOWN[kind])
    assert REQUIRED.get(kind, set()) <= set(found), kind


def check_location(location):
    check_object("location", location)
    physical = location["physicalLocation"]
    check_object("physical", physical)
    check_object("artifact", physical["artifactLocation"])
    check_object("region", physical["region"])
    uri = physical["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", uri), uri
    assert not (urlsplit(uri).scheme and "uriBaseId" in physical["artifactLocation"])
    assert physical["region"]["startLine"] >= 1


def check_sarif(log):
    """Raise unless a log has what the schema asks for, and its references resolve."""
    check_object("log", log)
    assert log["version"] == "2.1.0"
    for run in log["runs"]:
        check_object("run", run)
        driver = run["tool"]["driver"]
        check_object("driver", driver)
        assert urlsplit(driver["informationUri"]).scheme
        rules = driver["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            check_object("rule", rule)
            assert rule["defaultConfiguration"]["level"] in LEVELS
            assert all(rule[name]["text"] for name in ("shortDescription", "help"))
        for invocation in run["invocations"]:
            check_object("invocation", invocation)
        for result in run["results"]:
            check_result(result, rules)


def check_result(result, rules):
    check_object("result", result)
    assert result["message"]["text"]
    assert result["level"] in LEVELS
    assert result["kind"] in KINDS
    assert (result["kind"] == "fail") or result["level"] == "none"  # section 3.27.10
    if "ruleId" in result:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    for location in (*result.get("locations", ()), *result.get("relatedLocations", ())):
        check_location(location)
    ids = [location["id"] for location in result.get("relatedLocations", ())]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(v, str) for v in result.get("partialFingerprints", {}).values())


VALUES = np.linspace(0, 1, 9)


def reused(x, rng):
    z = rng.laplace()
    return x.sum() + z, x.mean() + z


RELEASES = {
    "price": lambda x, rng: np.clip(x, 0, 1).sum() + rng.laplace(scale=0.5),
    "reused": reused,
    "outside": lambda x, rng: (x.sum() + rng.laplace(), len(x)),
    "warning": lambda x, rng: np.where(np.abs(x) > 1, 1.0, x).sum() + rng.laplace(scale=2.0),
    "open": lambda x, rng: x.sum() + float(rng.laplace()),
    "unpriced": lambda x, rng: x.sum() + rng.standard_cauchy(),
}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())
def test_logs_have_what_the_schema_asks_for(release):
    log = as_sarif(da.check(release, VALUES, "1"))
    check_sarif(json.loads(json.dumps(log)))
    assert log["runs"][0]["results"]


def test_paths_are_references_and_fingerprints_survive_moved_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = da.check(RELEASES["price"], VALUES, "1")
    finding = found.findings[0]
    logs = []
    for blank in (0, 3):
        file = tmp_path / "my folder" / f"träin {blank}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n" * blank + "x = 1 + noise\n")
        moved = type(finding)(**{**vars(finding), "site": Site(str(file), 1 + blank)})
        logs.append(as_sarif(type(found)(**{**vars(found), "findings": (moved,)})))
        check_sarif(logs[-1])
    marks = [log["runs"][0]["results"][0]["partialFingerprints"] for log in logs]
    assert marks[0] == marks[1]


def test_what_is_wrong_is_noticed():
    log = as_sarif(da.check(RELEASES["price"], VALUES, "1"))
    log["runs"][0]["results"][0]["ruleIndex"] = 0
    with pytest.raises(AssertionError):
        check_sarif(log)
