"""Rules between columns: never broken by what is sampled, never an error for what is true."""

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument
from dpassay.synth import Schema
from dpassay.synth.models import Mixture
from rates import assert_rate

COLUMNS = {
    "price": {"low": 0, "high": 100, "bins": 4},
    "amount": {"low": 0, "high": 100, "bins": 4, "nullable": True},
    "start": {"kind": "date", "first": "2024-01-01", "end": "2024-03-01", "bins": 3},
    "end": {"kind": "date", "first": "2024-01-01", "end": "2024-03-01", "bins": 3},
    "result": ["positive", "negative"],
}
RULES = ["amount <= price", "start < end", "result == 'positive' -> amount < 40"]


def table(n=400):
    rng = np.random.default_rng(0)
    first = pd.Timestamp("2024-01-01")
    days = [first + pd.to_timedelta(rng.integers(0, 55, n), "D") for _ in range(2)]
    return pd.DataFrame(
        {
            "price": rng.uniform(0, 100, n),
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 100, n)),
            "start": days[0],
            "end": days[1],
            "result": rng.choice(["positive", "negative"], n),
        }
    )


def test_no_sampled_record_breaks_a_rule():
    fitted = da.synth.fit(
        table(), schema=Schema(COLUMNS, rules=RULES), epsilon=5.0, delta=1e-6, rng=0
    )
    drawn = fitted.sample(2000, rng=1)
    known = drawn["amount"].notna()
    assert (drawn["amount"] <= drawn["price"])[known].all()
    assert (drawn["start"] < drawn["end"]).all()
    assert (drawn["amount"] < 40)[known & (drawn["result"] == "positive")].all()
    assert 0.02 < (~known).mean() < 0.3  # a missing value breaks nothing
    assert 0.5 < fitted.share_given_up() < 0.95
    where = fitted.sample(200, rng=1, where={"result": "positive"})
    assert set(where["result"]) == {"positive"}


def test_what_is_sampled_has_the_law_of_the_model_given_the_rules():
    """Two uniform columns of two bins; given a <= b both in one bin have a chance of 1/8 of 1/2."""
    schema = Schema({name: {"low": 0, "high": 2, "bins": 2} for name in "ab"}, rules=["a <= b"])
    fitted = da.synth.ProductMixture(schema, epsilon=1.0, delta=1e-6, rng=0).fit(
        pd.DataFrame({"a": [0.5, 1.5] * 200, "b": [1.5, 0.5] * 200})
    )
    fitted.model_ = Mixture(schema, np.ones(1), np.full((1, 4), 0.5))
    drawn = fitted.sample(8000, rng=2)
    low = (drawn["a"] < 1) & (drawn["b"] < 1)
    assert_rate(int(low.sum()), 8000, 0.25)
    assert_rate(int(((drawn["a"] < 1) & (drawn["b"] >= 1)).sum()), 8000, 0.5)
    assert fitted.share_given_up() == pytest.approx(0.5, abs=0.03)


def test_a_true_record_that_breaks_a_rule_is_kept():
    rules = Schema(COLUMNS, rules=RULES)
    assert not rules.keeps_rules(table()).all()
    assert np.array_equal(rules.encode(table()), Schema(COLUMNS).encode(table()))
    ruled_out = Schema({"a": range(2), "b": range(2)}, impossible=[{"a": 0, "b": 0}])
    broken = pd.DataFrame({"a": [0, 1] * 50, "b": [0, 1] * 50})
    for method in (da.synth.MWEM, da.synth.ProductMixture, da.synth.FEM):
        fitted = method(ruled_out, epsilon=2.0, delta=1e-4, rng=0).fit(broken)
        drawn = fitted.sample(200, rng=0)
        assert not ((drawn["a"] == 0) & (drawn["b"] == 0)).any()


def test_rules_are_saved_and_go_with_measured_domains(tmp_path):
    schema = Schema(COLUMNS, rules=RULES)
    assert Schema.from_dict(schema.as_dict()) == schema
    assert "rules" not in Schema(COLUMNS).as_dict()
    numbers = table(3000)[["price", "amount"]].dropna()
    fitted = da.synth.fit_with_domain(
        da.synth.ProductMixture, numbers, domain_epsilon=2.0, rules=RULES[:1], epsilon=6.0,
        delta=1e-6, rng=0,
    )  # fmt: skip
    fitted.save(tmp_path / "model.npz")
    drawn = da.synth.load(tmp_path / "model.npz").sample(500, rng=0).dropna()
    assert len(drawn) > 300
    assert (drawn["amount"] <= drawn["price"]).all()


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["amount <= cost"], "names 'cost', which is not a column"),
        ("amount <= price", "must be a list of texts"),
        ([3], "must be a list of texts"),
        (["price > 1 -> amount > 1 -> start < end"], "more than one arrow"),
        (["price +"], "not understood"),
    ],
)
def test_misuse(rules, words):
    with pytest.raises(InvalidArgument, match=words):
        Schema(COLUMNS, rules=rules)


def test_rules_that_leave_nothing():
    schema = Schema({"a": range(2), "b": range(2)}, rules=["a > 5"])
    fitted = da.synth.MWEM(schema, epsilon=1.0, delta=1e-4, rng=0).fit(
        pd.DataFrame({"a": [0, 1] * 100, "b": [1, 0] * 100})
    )
    with pytest.raises(InvalidArgument, match="leave the model next to nothing"):
        fitted.sample(3, rng=0)
