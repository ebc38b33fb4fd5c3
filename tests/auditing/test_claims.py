import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import judge
from dpassay.auditing.claims import as_claim, parse_claim
from dpassay.errors import InvalidArgument
from dpassay.privacy import events


@pytest.mark.parametrize(
    ("text", "curve"),
    [
        ("3", da.PureDP(3.0)),
        (" 3,1e-5", da.ApproxDP(3.0, 1e-5)),
        ("gdp:1.0", da.GDP(1.0)),
        ("rho:0.1", da.ZCDP(0.1)),
    ],
)
def test_short_claims(text, curve):
    assert parse_claim(text) == curve


def test_dp_sgd():
    claim = parse_claim("dp-sgd:noise_multiplier=1,sampling_rate=.01,steps=1000")
    assert claim.method == "pld"
    assert claim.epsilon(1e-5) == pytest.approx(1.828, abs=1e-3)
    full = parse_claim("dp-sgd:noise_multiplier=2,sampling_rate=1,steps=4")
    assert full.mu == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("allocation:noise_multiplier=1,steps=100,epochs=10", events.allocation_event(1, 100, 10)),
        ("allocation:noise_multiplier=1,steps=9,k=2", events.allocation_event(1, 9, 1, 2)),
        ("shuffled:noise_multiplier=1,steps=9,epochs=2", events.shuffled_event(1, 9, 2)),
        (
            "bandmf:noise_multiplier=1,sampling_rate=.005,steps=2000,bands=10",
            events.bandmf_event(1, 0.005, 2000, 10),
        ),
    ],
)
def test_trainings_by_name(text, event):
    assert parse_claim(text).epsilon(1e-5) == da.account(event).epsilon(1e-5)


def test_trainings_say_what_they_are():
    (said, warning) = parse_claim("shuffled:noise_multiplier=2,steps=9").assumptions
    assert said == "the training is 1 × Gaussian(noise_multiplier=2) on 9 shuffled or fixed batches"
    assert "not Poisson samples" in warning
    allocated = parse_claim("allocation:noise_multiplier=2,steps=9,epochs=3").assumptions
    assert allocated == (
        "the training is 3 × Gaussian(noise_multiplier=2) on 9 batches, each record in 1 of them "
        "at random",
    )


def test_shuffled_batches_are_no_exact_price():
    assert parse_claim("shuffled:noise_multiplier=1,steps=9").kind == "upper bound"
    claim = parse_claim("shuffled:noise_multiplier=1,steps=9", neighbouring="replace-one")
    assert claim.neighbouring == "replace-one"


@pytest.mark.parametrize("word", ["allocation", "bandmf"])
def test_trainings_of_one_relation(word):
    options = "noise_multiplier=1,steps=9" + (",sampling_rate=.1,bands=2" * (word == "bandmf"))
    with pytest.raises(InvalidArgument, match=f"add-remove.*{word}:"):
        parse_claim(f"{word}:{options}", neighbouring="replace-one")


def test_neighbouring_is_kept():
    assert parse_claim("1,1e-5", neighbouring="replace-one").neighbouring == "replace-one"


BAD = """| x | 1,2,3 | -1 | 1,1 | nan | mu:1 | gdp: | gdp:-1 | rho:nan | dp-sgd:steps=3
| dp-sgd:noise_multiplier=0,sampling_rate=.1,steps=3
| dp-sgd:noise_multiplier=1,sampling_rate=2,steps=3
| allocation:noise_multiplier=1 | allocation:noise_multiplier=1,steps=3,bands=2
| allocation:noise_multiplier=1,steps=3,k=4 | shuffled:noise_multiplier=1,steps=2.5
| bandmf:noise_multiplier=1,sampling_rate=.2,steps=9,bands=9 | shuffled:noise_multiplier=1"""


@pytest.mark.parametrize("text", [part.strip() for part in BAD.split("|")])
def test_bad_claims(text):
    with pytest.raises(InvalidArgument):
        parse_claim(text)


FORMS = [(3, 1e-5), [3.0, np.float64(1e-5)], "3,1e-5", da.ApproxDP(3.0, 1e-5)]


@pytest.mark.parametrize("claim", FORMS)
def test_claims_as_people_write_them(claim, tmp_path):
    def count(data, rng):
        return len(data) + rng.laplace()

    options = {"claim": claim, "trials": 60, "store": tmp_path / "run.db"}
    verdict = da.audit(count, ([1, 2], [1]), score=float, **options)
    assert verdict.claim == da.ApproxDP(3.0, 1e-5)
    assert judge(tmp_path / "run.db", claim=claim).claim == verdict.claim
    one = da.audit_one_run(
        lambda data, rng: len(data), [0.0], [1.0] * 20, claim=claim, score=lambda m, c: c
    )
    assert one.claim == verdict.claim


def test_texts_of_a_claim():
    assert as_claim("gdp:1.0") == da.GDP(1.0)
    assert as_claim("3") == da.PureDP(3.0)
    assert as_claim((3, 1e-5), neighbouring="replace-one").neighbouring == "replace-one"


@pytest.mark.parametrize(
    "wrong", [3, None, (1, 2, 3), ("3", "1e-5"), (True, 1e-5), (-1, 1e-5), "x"]
)
def test_what_is_no_claim(wrong):
    with pytest.raises(InvalidArgument):
        as_claim(wrong)


def test_a_judged_text_is_about_the_same_neighbours(tmp_path):
    def count(data, rng):
        return sum(data) + rng.laplace()

    log, options = tmp_path / "run.db", {"score": float, "trials": 60}
    claim = da.PureDP(1.0, neighbouring="replace-one")
    da.audit(count, ([1, 0], [0, 0]), claim=claim, store=log, **options)
    assert judge(log, claim="2").claim.neighbouring == "replace-one"
