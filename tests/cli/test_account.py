import math

import pytest

from dpassay.cli.account import NOTES, Query, prices
from dpassay.errors import InvalidArgument
from dpassay.privacy import accounting, events
from dpassay.privacy.events.words import in_words

SGD = "--noise-multiplier 1 --sampling-rate .01 --steps 1000 --delta 1e-5"


@pytest.mark.golden
def test_dp_sgd(dpassay):
    """Issue 2: PLD 1.828, RDP 2.101."""
    data = dpassay(f"account dp-sgd {SGD} --json").data
    assert data["methods"]["pld"] == pytest.approx(1.828, abs=5e-4)
    assert data["methods"]["rdp"] == pytest.approx(2.101, abs=5e-4)
    assert data["kinds"]["pld"] == "upper bound"
    assert data["kinds"]["gdp-clt"] == "estimate"
    assert data["best"] == {"method": "pld", "epsilon": data["epsilon"], "kind": "upper bound"}
    assert data["epsilon"] == data["methods"]["pld"]
    assert data["delta"] == 1e-5
    assert set(data["refused"]) == {"gdp", "zcdp", "optimal", "exponential"}
    assert data["neighbouring"] == "add-remove"


def test_an_estimate_is_never_the_answer(dpassay):
    """The central limit theorem lies below the proofs here and must neither win nor come first."""
    data = dpassay(f"account dp-sgd {SGD} --json").data
    assert data["methods"]["gdp-clt"] < data["epsilon"]
    text = dpassay(f"account dp-sgd {SGD}").out
    assert text.index("pld") < text.index("basic") < text.index("gdp-clt")


def test_the_table_speaks_as_a_report(dpassay):
    words = dpassay(f"account dp-sgd {SGD}").words
    assert "(1.8283, 1e-05)-DP, an upper bound by pld" in words  # rounded up from 1.82824
    assert "one record added or removed" in words
    for method, note in NOTES.items():
        assert method in words
        assert note in words or method in ("gdp", "zcdp", "optimal", "exponential")


@pytest.mark.golden
def test_pure_and_zcdp(dpassay):
    """Computed apart from this code: exact composition, and the conversion of zCDP."""
    pure = dpassay("account pure --epsilon-each .1 --count 100 --delta 1e-3 --json").data
    assert pure["methods"]["optimal"] == pytest.approx(3.1156, abs=5e-5)
    zcdp = dpassay("account zcdp --rho .024355970 --delta 1e-6 --json").data
    assert zcdp["epsilon"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.golden
def test_gaussian_both_ways(dpassay):
    """By hand: delta(1) = .126937 at mu = 1."""
    data = dpassay("account gaussian --noise-multiplier 1 --epsilon 1 --json").data
    assert data["methods"]["gdp"] == pytest.approx(0.126937, abs=1e-6)
    assert data["quantity"] == "delta"
    assert data["delta"] == data["methods"]["gdp"]
    back = dpassay(f"account gaussian --noise-multiplier 1 --delta {data['delta']!r} --json").data
    assert back["methods"]["gdp"] == pytest.approx(1.0, abs=1e-9)
    assert back["best"]["kind"] == "exact"


def test_the_exponential_mechanism_is_cheaper_than_pure(dpassay):
    same = "--epsilon-each .1 --count 100 --delta 1e-6 --json"
    bounded = dpassay(f"account exponential {same}").data["epsilon"]
    assert bounded < dpassay(f"account pure {same}").data["epsilon"]


def test_infinity_is_a_string_that_float_reads(dpassay):
    data = dpassay("account gaussian --noise-multiplier 1 --delta 0 --json").data
    assert float(data["epsilon"]) == math.inf


def test_one_method_alone(dpassay):
    data = dpassay(f"account dp-sgd {SGD} --method rdp --json").data
    assert list(data["methods"]) == ["rdp"]
    assert data["best"]["method"] == "rdp"


def test_one_estimate_alone_is_called_one(dpassay):
    data = dpassay(f"account dp-sgd {SGD} --method gdp-clt --json").data
    assert "ESTIMATE" in data["sentence"]


def test_best_by_name_is_the_best_of_all(dpassay):
    every = dpassay(f"account dp-sgd {SGD} --json").data
    best = dpassay(f"account dp-sgd {SGD} --method best --json").data
    assert best["epsilon"] == pytest.approx(every["epsilon"], rel=1e-12)


def test_every_method_has_a_note_and_is_in_help(dpassay):
    methods = set(accounting.METHODS) - {"best"}
    assert set(NOTES) == methods
    shown = dpassay("account dp-sgd --help").words
    assert all(method in shown for method in methods)


def test_without_replacement(dpassay):
    given = "--scheme without-replacement --neighbouring replace-one --json"
    data = dpassay(f"account dp-sgd {SGD} {given}").data
    assert data["neighbouring"] == "replace-one"
    assert "replaced" in data["sentence"]


def test_a_query_asks_one_thing():
    with pytest.raises(InvalidArgument, match="exactly one"):
        Query(None, None)
    assert Query(1e-5, None).pair("2") == "(2, 1e-05)"
    assert Query(None, 2.0).pair("0.1") == "(2, 0.1)"


def test_prices_are_sorted_within_proofs():
    found = prices(events.Repeated(events.Laplace(10.0), 50), Query(1e-6, None))
    values = [p.value for p in found if p.kind in ("exact", "upper bound")]
    assert values == sorted(values)
    assert len(values) >= 5


def test_events_in_words():
    event = events.Repeated(events.RandomizedResponse(0.5, 4), 3)
    assert in_words(event) == "3 × RandomizedResponse(noise_probability=0.5, n_categories=4)"


def test_batches_of_an_epoch(dpassay):
    """Allocated batches cost less than shuffled ones, of which the lower bound is known too."""
    options = "--noise-multiplier 1 --steps 20 --epochs 2 --delta 1e-5 --json"
    found = {name: dpassay(f"account {name} {options}").data for name in ("allocation", "shuffled")}
    allocated, shuffled = found["allocation"], found["shuffled"]
    assert allocated["epsilon_lower"] <= allocated["epsilon"] < shuffled["epsilon"]
    assert shuffled["epsilon_lower"] == pytest.approx(allocated["epsilon_lower"], rel=0.05)
    assert "the truth lies between" in shuffled["sentence"]


def test_bandmf(dpassay):
    options = "--sampling-rate .005 --steps 2000 --bands 10 --delta 1e-6 --json"
    data = dpassay(f"account bandmf --noise-multiplier 1 --method pld {options}").data
    assert data["epsilon"] == pytest.approx(5.485859, rel=1e-4)


def test_a_bracket_without_replacement(dpassay):
    batches = "--scheme without-replacement --neighbouring replace-one --method best"
    options = f"--noise-multiplier 1 --sampling-rate .1 --steps 20 --delta 1e-5 {batches}"
    data = dpassay(f"account dp-sgd {options} --json").data
    assert 0.8 * data["epsilon"] < data["epsilon_lower"] < data["epsilon"]
