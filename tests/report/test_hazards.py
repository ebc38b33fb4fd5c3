import math
from dataclasses import replace

import pytest

from dpassay.privacy import GDP, ApproxDP, PureDP, account, dp_sgd_event
from dpassay.report import Disclosure
from dpassay.report.hazards import HAZARDS, checklist, facts_of
from report.verdicts import CASES, verdict

PASS, FAIL, OPEN = "pass", "fail", "not checked"
STATED = ApproxDP(1.0, 1e-5)
ACCOUNTED = account(dp_sgd_event(2.0, 1.0, 1), "best")


def status(name, found=None, proof=None, **declared):
    facts = facts_of(found or verdict(), proof, Disclosure(**declared))
    (item,) = [item for item in checklist(facts) if item["name"].startswith(name)]
    return item["status"], item["grounds"]


def test_nothing_passes_without_grounds():
    """With nothing declared, what only a person can know is not checked."""
    for case in ("standing", "refuted", "one run", "nothing", "epsilon inf"):
        found = checklist(facts_of(CASES[case](), None, None))
        assert len(found) == len(HAZARDS)
        for item in found:
            assert (item["status"] == OPEN) == (item["grounds"] == "none")
            assert item["grounds"] != "declared"
            assert item["why"].endswith(".")


@pytest.mark.parametrize(
    ("claim", "epsilon", "refuted", "expected"),
    [
        (ApproxDP(10.0, 1e-5), 0.1, False, PASS),
        (ApproxDP(10.1, 1e-5), 0.1, False, FAIL),
        (ApproxDP(math.inf, 1e-5), 0.1, False, FAIL),
        (ApproxDP(1.0, 1e-5), 10.5, True, FAIL),
        (ApproxDP(1.0, 1e-5), 2.0, True, OPEN),  # false, so that the truth is not known
    ],
)
def test_large_epsilon(claim, epsilon, refuted, expected):
    found = verdict(claim=claim, epsilon=epsilon, refuted=refuted)
    assert status("Epsilon above", found)[0] == expected


@pytest.mark.parametrize(
    ("delta", "n", "expected"),
    [
        (1e-5, None, OPEN),
        (1e-5, 99_999, PASS),
        (1e-5, 100_000, FAIL),
        (1e-5, 10**7, FAIL),
        (0.0, None, PASS),
    ],
)
def test_large_delta(delta, n, expected):
    found = verdict(claim=PureDP(1.0), delta=delta)
    assert status("Delta", found, n_records=n)[0] == expected


def test_the_number_of_records_may_stand_in_the_claim():
    found = verdict(claim=GDP(1.0, assumptions=("labels",), n_records=200))
    assert status("Delta", found) == (PASS, "computed")
    assert status("Delta", found, n_records=10**6) == (FAIL, "declared")


@pytest.mark.parametrize(
    ("unit", "most", "expected"),
    [
        ("person", None, PASS),
        ("User", None, PASS),
        ("record", None, FAIL),
        ("record", 3, FAIL),
        ("record", 1, PASS),
        (None, 1, OPEN),
    ],
)
def test_unit(unit, most, expected):
    assert status("Unit", unit=unit, records_per_person=most)[0] == expected


@pytest.mark.parametrize(
    ("claim", "proof", "declared", "expected"),
    [
        (STATED, None, None, (OPEN, "none")),
        (STATED, None, "add-remove", (PASS, "declared")),
        (STATED, None, "replace-one", (FAIL, "declared")),
        (STATED, PureDP(1.0), None, (PASS, "computed")),
        (STATED, PureDP(1.0, neighbouring="replace-one"), None, (FAIL, "computed")),
        (STATED, PureDP(1.0), "replace-one", (FAIL, "computed")),
        (ACCOUNTED, None, None, (PASS, "computed")),
    ],
)
def test_neighbours(claim, proof, declared, expected):
    assert status("Proof and", verdict(claim=claim), proof, proof_neighbouring=declared) == expected


@pytest.mark.parametrize(
    ("claim", "proof", "refuted", "expected"),
    [
        (STATED, None, False, OPEN),
        (STATED, PureDP(0.9), False, PASS),
        (STATED, STATED, False, PASS),
        (STATED, PureDP(1.1), False, FAIL),
        (STATED, PureDP(0.5, kind="estimate"), False, FAIL),
        (STATED, PureDP(0.5), True, FAIL),  # a proof of what is false is no ground
        (ACCOUNTED, None, False, PASS),
        (GDP(0.1, kind="estimate", method="gdp-clt"), None, False, FAIL),
    ],
)
def test_proof(claim, proof, refuted, expected):
    assert status("Claim not", verdict(claim=claim, refuted=refuted), proof)[0] == expected


@pytest.mark.parametrize(
    ("ceiling", "refuted", "expected"),
    [(0.9, False, FAIL), (1.0, False, FAIL), (1.1, False, PASS), (0.9, True, PASS)],
)
def test_power(ceiling, refuted, expected):
    found = verdict(claim=PureDP(1.0), delta=0.0, refuted=refuted, bound={"ceiling": ceiling})
    assert status("Audit too small", found)[0] == expected


@pytest.mark.parametrize(
    ("name", "declared", "expected"),
    [
        ("Sampling", {"sampling_accounted": "poisson"}, OPEN),
        ("Sampling", {"sampling_accounted": "poisson", "sampling_used": "poisson"}, PASS),
        ("Sampling", {"sampling_accounted": "poisson", "sampling_used": "shuffled"}, FAIL),
        ("Hyper", {}, OPEN),
        ("Hyper", {"search_accounted": True}, PASS),
        ("Hyper", {"search_accounted": False}, FAIL),
        ("Bounds", {}, OPEN),
        ("Bounds", {"bounds_from_data": False}, PASS),
        ("Bounds", {"bounds_from_data": True}, FAIL),
        ("Reproducible", {}, OPEN),
        ("Reproducible", {"noise": "exact"}, PASS),
        ("Reproducible", {"noise": "cryptographic"}, PASS),
        ("Reproducible", {"noise": "reproducible"}, FAIL),
        ("Noise", {}, OPEN),
        ("Noise", {"noise": "exact"}, PASS),
        ("Noise", {"noise": "cryptographic"}, FAIL),
        ("Noise", {"noise": "reproducible"}, FAIL),
        ("Checkpoints", {"checkpoints_accounted": True}, OPEN),
        ("Checkpoints", {"checkpoints_released": False}, PASS),
        ("Checkpoints", {"checkpoints_released": True}, FAIL),
        ("Checkpoints", {"checkpoints_released": True, "checkpoints_accounted": True}, PASS),
        ("Metrics", {"metrics_released": True}, FAIL),
        ("Metrics", {"metrics_released": False}, PASS),
        ("Raw", {}, OPEN),
        ("Raw", {"raw_data_retention": "deleted"}, PASS),
        ("Raw", {"raw_data_retention": "restricted"}, PASS),
        ("Raw", {"raw_data_retention": "unrestricted"}, FAIL),
    ],
)
def test_what_is_declared(name, declared, expected):
    grounds = "none" if expected == OPEN else "declared"
    assert status(name, **declared) == (expected, grounds)


def test_which_noise_was_audited_is_said():
    seeded = CASES["standing"]()
    secure = replace(seeded, evidence=replace(seeded.evidence, seed=None))
    for found, words in ((seeded, "seeded noise"), (secure, "secure noise")):
        why = [item["why"] for item in checklist(facts_of(found, None, None))]
        assert any(words in text for text in why)
