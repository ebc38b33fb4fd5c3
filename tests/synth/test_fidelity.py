"""Synthetic tables beside the true ones: for the owner in units of the table, for readers paid."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpassay import synth
from dpassay.errors import InvalidArgument
from dpassay.mechanisms.noise import source
from dpassay.privacy import Gaussian
from dpassay.synth import Categorical, Numeric, Schema, Workload, compare_tables
from dpassay.synth import readers as reading
from dpassay.synth.readers import count_cells, find_sensitivity, measure_quality

RELATIONS = ("add-remove", "replace-one")


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    return pd.DataFrame(
        {
            "debt": np.where(rng.random(n) < 0.83, 0, np.round(rng.lognormal(7, 1, n))),
            "pay": np.exp(z).round(2),
            "rent": (np.exp(z) * rng.uniform(0.5, 1, n)).round(2),
            "town": rng.choice(["Ulm", "Bonn", None], n, p=[0.6, 0.3, 0.1]),
        }
    )


# For the owner.


def test_a_table_is_like_itself():
    found = compare_tables(table(), table())
    assert [c.distance for c in found.columns] == [0, 0, 0, 0]
    assert all(pair.error == 0 for pair in found.pairs)
    assert found.faults == ()
    assert found.column("debt").atoms[0][0] == 0
    assert found.column("town").missing == (found.column("town").missing[0],) * 2
    assert len(found.table()) == 4


def test_numbers_are_those_of_other_libraries():
    one, other = table(), table(seed=1)
    found = compare_tables(one, other)
    assert found.column("pay").distance == pytest.approx(
        stats.ks_2samp(one["pay"], other["pay"]).statistic
    )
    assert found.column("pay").mean == (one["pay"].mean(), other["pay"].mean())
    assert found.column("pay").deviation[1] == pytest.approx(other["pay"].std(ddof=0))
    assert found.column("pay").quantiles[1] == (one["pay"].median(), other["pay"].median())
    pairs = {(pair.names, pair.measure): pair.strength for pair in found.pairs}
    assert pairs[("rent", "pay"), "pearson"][0] == pytest.approx(one["pay"].corr(one["rent"]))
    assert pairs[("rent", "pay"), "spearman"][1] == pytest.approx(
        stats.spearmanr(other["pay"], other["rent"]).statistic
    )
    assert pairs[("town", "pay"), "cramer"][0] < 0.1


def test_a_domain_that_destroys_a_column_is_named():
    """Debts of 1246 on average in a domain that ends at 2^-32: encoded, the two look alike."""
    frame = table()[["debt", "town"]]
    schema = Schema(
        {
            "debt": Numeric.between(0, 2.0**-32, bins=4, outside="nearest"),
            "town": Categorical(("Ulm",), nullable=True, outside="other"),
        }
    )
    fitted = synth.fit(frame, schema=schema, epsilon=3.0, rng=0)
    assert synth.quality(fitted, frame, Workload.marginals([("debt",)])).max_error < 0.05
    found = compare_tables(frame, fitted)
    debt = found.column("debt")
    assert debt.distance >= 0.8
    assert debt.outside == pytest.approx((frame["debt"] > 0).mean())
    assert found.column("town").outside == pytest.approx(1 / 3, abs=0.05)
    assert [name for name in ("debt", "town") if any(name in fault for fault in found.faults)]
    assert "declare its domain" in found.faults[0]


def test_rules_and_utility():
    frame = table()
    schema = Schema(
        {
            "debt": Numeric.between(0, 10**5),
            "pay": Numeric.between(0, 100),
            "rent": Numeric.between(0, 100),
            "town": Categorical(("Ulm", "Bonn"), nullable=True),
        },
        rules=["rent <= pay"],
    )
    worse = frame.assign(rent=frame["rent"] + 1)
    found = compare_tables(frame, worse, schema=schema, target="pay")
    ((text, shares),) = found.rules
    assert text == "rent <= pay"
    assert shares == (0, float((worse["rent"] > worse["pay"]).mean()))
    assert set(found.utility) == {"real", "synthetic"}
    with pytest.raises(InvalidArgument, match="share a column"):
        compare_tables(frame, frame.add_prefix("x"))
    with pytest.raises(InvalidArgument, match="name='z'"):
        found.column("z")


# For readers.

SCHEMA = Schema(
    {
        "a": Numeric.between(0, 10, bins=5, nullable=True, outside="nearest"),
        "b": Categorical(("x", "y"), nullable=True, outside="other"),
    },
    rules=["a < 9", "a > 1"],
)


def records():
    """Records of every kind: inside, outside, missing, breaking none, one or the other rule."""
    values = [(a, b) for a in (0.5, 5.0, 9.5, 99.0, None) for b in ("x", "z", None)]
    return pd.DataFrame(values, columns=["a", "b"])


def vector(row):
    counts = count_cells(SCHEMA, row.reset_index(drop=True))
    return np.concatenate(counts)


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_record_moves_the_counts_by_more_than_the_sensitivity(relation):
    rows = [vector(records().iloc[[i]]) for i in range(15)]
    moves = [np.linalg.norm(one) for one in rows]
    if relation == "replace-one":
        moves = [np.linalg.norm(one - other) for one in rows for other in rows]
    bound = find_sensitivity(SCHEMA, relation)
    assert max(moves) <= bound + 1e-12
    assert max(moves) > 0.8 * bound


@pytest.mark.parametrize("share", [1, 0.9])
@pytest.mark.parametrize("rng", [0, None])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_noise_is_that_of_the_event(relation, rng, share, monkeypatch):
    drawn = reading.noisy_counts
    monkeypatch.setattr(
        reading, "noisy_counts", lambda counts, sigma, *rest: drawn(counts, share * sigma, *rest)
    )
    schema = Schema({"a": Numeric.between(0, 1, bins=20_000)})
    frame, seen = pd.DataFrame({"a": np.full(100, 0.5)}), []
    event = Gaussian(7.0, relation)
    monkeypatch.setattr(reading, "_describe", lambda schema, name, true, *rest: seen.append(true))
    measure_quality(schema, frame, frame, event, source(rng), 100)
    noise = 100 * seen[0] - count_cells(schema, frame)[0]
    near = 6 / math.sqrt(2 * noise.size)
    stated = 7.0 * find_sensitivity(schema, relation)
    assert (abs(noise.std() / stated - 1) < near) == (share == 1)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("domain_epsilon", [None, 1.0])
def test_what_readers_are_told_is_paid_for(relation, domain_epsilon):
    frame = table(8000)
    schema = None
    if domain_epsilon is None:
        schema = Schema(
            {
                "debt": Numeric.between(0, 10**5, bins=8),
                "pay": Numeric.between(0, 4, bins=8, outside="nearest"),
                "rent": Numeric.between(0, 100, bins=8),
                "town": Categorical(("Ulm", "Bonn"), nullable=True),
            }
        )
    fitted = synth.fit(
        frame,
        schema=schema,
        domain_epsilon=domain_epsilon,
        epsilon=3.0,
        delta=1e-6,
        neighbouring=relation,
        reader_share=0.05,
        rng=0,
    )
    assert 3 * (1 - 1e-6) < fitted.privacy_.epsilon(1e-6) <= 3
    told = {column.name: column for column in fitted.reader_.columns}
    near = 6 * fitted.reader_.resolution
    assert told["town"].missing == pytest.approx(0.1, abs=0.02 + near)
    assert all(column.resolution > 0 for column in told.values())
    if domain_epsilon is None:
        assert told["pay"].outside == pytest.approx((frame["pay"] > 4).mean(), abs=near)
        assert told["town"].words.startswith("<")


def test_a_share_for_readers_needs_gaussian_noise():
    with pytest.raises(InvalidArgument, match=r"reader_share=0\.1 goes with methods"):
        synth.MWEM(SCHEMA, reader_share=0.1, delta=1e-6, rng=0).fit(records())
    with pytest.raises(InvalidArgument, match="reader_share=1"):
        synth.fit(records(), schema=SCHEMA, reader_share=1.0)


def test_a_number_that_is_lost_in_its_bin_is_said_to_need_an_atom():
    frame = pd.DataFrame({"fee": [0.0] * 600 + list(np.linspace(1, 100, 400))})
    spread = frame.assign(fee=np.linspace(0, 100, 1000))
    (fault,) = compare_tables(frame, spread).faults
    assert "one number has 60% of the true records" in fault
    assert "atoms" in fault
