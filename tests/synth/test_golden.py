"""Fits with a fixed seed keep their numbers: one of every synthesizer, as first released.

Whoever changes one of these changes what users' seeds mean: say so in CHANGELOG.md.
"""

import numpy as np
import pandas as pd
import pytest

from dpassay import synth

RNG = np.random.default_rng(7)
TABLE = pd.DataFrame({"a": RNG.integers(0, 3, 600), "b": RNG.integers(0, 2, 600)})
TABLE["c"] = (TABLE.a + TABLE.b + (RNG.random(600) < 0.3)) % 4
SCHEMA = synth.Schema({"a": range(3), "b": [0, 1], "c": range(4)})
PAIRS = synth.Workload.all_marginals(SCHEMA, 2)
TRIPLES = synth.Workload.all_marginals(SCHEMA, 3)
SMALL = {"steps": 20, "components": 5}

# Name, workload, arguments, the first four answers on pairs, and epsilon at a delta of 1e-6.
GOLDEN = [
    (
        "ProductMixture",
        PAIRS,
        SMALL | {"delta": 1e-6},
        [0.212587120213, 0.140993943, 0.177186034518, 0.145073219445],
        1.9999999999999991,
    ),
    (
        "ProductMixture",
        PAIRS,
        SMALL | {"delta": 1e-6, "resolution": None},
        [0.207767175511, 0.139042632134, 0.161421100853, 0.153932269479],
        1.9999999999999991,
    ),
    (
        "ProductMixture",
        TRIPLES,
        SMALL | {"delta": 1e-6, "picks": 1},
        [0.194491749669, 0.137792611271, 0.155323716726, 0.166027398474],
        1.99999900342123,
    ),
    (
        "Independent",
        PAIRS,
        {"delta": 1e-6},
        [0.175173002974, 0.162038049739, 0.159490399224, 0.147531370723],
        1.9999999999999991,
    ),
    (
        "NoisyMarginals",
        PAIRS,
        {"delta": 1e-6},
        [0.193940212512, 0.123750929745, 0.16749633714, 0.16518580275],
        1.9999999999999991,
    ),
    ("BLR", PAIRS, {"size": 3}, [0.333333333333, 0.0, 0.333333333333, 0.0], 1.9981400328361556),
    (
        "BLR",
        PAIRS,
        {"size": 20, "candidates": 500, "counting": "sequences"},
        [0.2, 0.05, 0.15, 0.2],
        1.9981400328361556,
    ),
    (
        "MWEM",
        PAIRS,
        {"delta": 0.0},
        [0.22093732611, 0.149468139442, 0.169807285026, 0.113461218925],
        1.7696904372682722,
    ),
    (
        "MWEM",
        PAIRS,
        {"delta": 1e-6, "rounds": 8},
        [0.151676572247, 0.153225519966, 0.16470570785, 0.141162235081],
        1.9999985160682805,
    ),
    (
        "DualQuery",
        PAIRS,
        {"delta": 0.0},
        [0.2, 0.066666666667, 0.133333333333, 0.266666666667],
        0.5949059154436008,
    ),
    (
        "DualQuery",
        PAIRS,
        {"delta": 1e-6, "rounds": 8},
        [0.125, 0.25, 0.0, 0.125],
        1.9999999999899996,
    ),
    (
        "DQRS",
        PAIRS,
        {"delta": 0.0},
        [0.2, 0.066666666667, 0.1, 0.166666666667],
        0.38088532307868606,
    ),
    ("DQRS", PAIRS, {"delta": 1e-6, "rounds": 8}, [0.125, 0.0, 0.125, 0.25], 1.9999999999900004),
    (
        "FEM",
        PAIRS,
        {"delta": 0.0},
        [0.124285714286, 0.137142857143, 0.211428571429, 0.158571428571],
        1.6283768251828863,
    ),
    (
        "FEM",
        PAIRS,
        {"delta": 1e-6, "rounds": 8},
        [0.1325, 0.15375, 0.205, 0.16],
        1.9999990412345905,
    ),
    (
        "SepFEM",
        PAIRS,
        {"delta": 0.0},
        [0.162857142857, 0.152857142857, 0.132857142857, 0.122857142857],
        1.6283768251828863,
    ),
    (
        "SepFEM",
        PAIRS,
        {"delta": 1e-6, "rounds": 8},
        [0.1625, 0.1475, 0.135, 0.135],
        1.9999990412345905,
    ),
    (
        "FrankWolfe",
        PAIRS,
        {"delta": 0.0},
        [0.21585724759, 0.135804473114, 0.173285477737, 0.129816193165],
        1.3743813014623176,
    ),
    (
        "FrankWolfe",
        PAIRS,
        {"delta": 1e-6},
        [0.223359415728, 0.114816201373, 0.141771006797, 0.176436634238],
        1.9999999999898104,
    ),
    (
        "FrankWolfe",
        PAIRS,
        {"delta": 1e-6, "steps": 5, "universe": "followed"},
        [0.132555555556, 0.145222222222, 0.160222222222, 0.163666666667],
        1.999999014775803,
    ),
    (
        "FrankWolfe",
        PAIRS,
        {"delta": 1e-6, "steps": 5, "batches": "disjoint"},
        [0.150994520824, 0.150994520824, 0.196769908346, 0.196769908346],
        1.9981411738224768,
    ),
    (
        "FrankWolfe",
        PAIRS,
        {"delta": 1e-6, "steps": 5, "release": "last"},
        [0.290932183909, 0.042401149424, 0.290932183909, 0.042401149424],
        1.7845991072303622,
    ),
]


def fit(name, workload, options):
    common = {"epsilon": 2.0, "neighbouring": "replace-one", "rng": 3}
    return getattr(synth, name)(SCHEMA, workload, **common, **options).fit(TABLE)


@pytest.mark.parametrize(
    ("name", "workload", "options", "answers", "epsilon"),
    GOLDEN,
    ids=lambda x: x if type(x) is str else "",
)
def test_a_fit_keeps_its_numbers(name, workload, options, answers, epsilon):
    fitted = fit(name, workload, options)
    # The descent of a mixture is in single precision, whose sums differ between processors.
    near = 2e-3 if name == "ProductMixture" else 1e-9
    assert fitted.answer(PAIRS)[:4] == pytest.approx(answers, abs=near)
    assert fitted.privacy_.epsilon(1e-6) == pytest.approx(epsilon, rel=1e-9)


def test_a_fit_with_a_measured_domain_keeps_its_numbers():
    fitted = synth.fit_with_domain(
        synth.FEM, TABLE, domain_epsilon=0.7, epsilon=2.0, delta=1e-6, rng=3
    )
    assert fitted.answer(PAIRS)[:4] == pytest.approx(
        [0.16652173913, 0.147391304348, 0.198695652174, 0.169130434783], abs=1e-9
    )
    assert fitted.privacy_.epsilon(1e-6) == pytest.approx(1.9924424899382804, rel=1e-9)
    assert (fitted.epsilon, fitted.delta) == (2.0, 1e-6)


def test_samples_keep_their_rows():
    found = fit("Independent", PAIRS, {"delta": 1e-6}).sample(4, rng=1)
    assert found.to_numpy().tolist() == [[0, 1, 3], [2, 0, 0], [0, 0, 2], [1, 1, 1]]
