"""What is measured of a column: atoms, octaves, the tree, decimals, their noise, what is used."""

import math

import numpy as np
import pandas as pd
import pytest

from dpassay import synth
from dpassay.mechanisms.noise import source
from dpassay.privacy.budget import budget
from dpassay.synth import Categorical, Date, Numeric, Schema, TimeOfDay, measure_domain
from dpassay.synth.methods import product_mixture
from dpassay.synth.methods.descent import column_shares
from dpassay.synth.models import Mixture
from dpassay.synth.tables import measuring, tree
from dpassay.synth.tables.domains import Undeclared, make_noise, price_domain
from dpassay.synth.tables.tree import Leaves

RELATIONS = ("add-remove", "replace-one")
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "rng": 0}


def distance(true, column, rng=0):
    """The largest difference of distribution functions, after encoding and decoding."""
    series = pd.Series(true)
    drawn, _ = column.decode(column.encode("x", series), np.random.default_rng(rng))
    at = np.sort(np.concatenate([true, drawn.astype(float)]))
    ours, theirs = (
        np.searchsorted(np.sort(v), at, side="right") / len(true) for v in (true, drawn)
    )
    return float(np.abs(ours - theirs).max())


# What is found.


def test_a_column_of_mostly_zeros_keeps_its_zeros_and_its_tail():
    rng = np.random.default_rng(0)
    debt = np.where(rng.random(8000) < 0.83, 0, np.round(rng.lognormal(7, 1, 8000)))
    found = measure_domain(pd.DataFrame({"x": debt.astype(int)}), **BUDGET).schema.columns["x"]
    assert found.atoms[0] == 0
    assert distance(debt, found) < 0.03
    drawn, _ = found.decode(found.encode("x", pd.Series(debt)), np.random.default_rng(0))
    assert np.mean(drawn == 0) == pytest.approx(np.mean(debt == 0), abs=1e-3)
    assert drawn.mean() == pytest.approx(debt.mean(), rel=0.2)


def test_a_narrow_column_inside_of_one_octave_is_resolved():
    """Latitudes of a city: all in [32, 64), with a deviation of .03."""
    x = 44.97 + 0.03 * np.random.default_rng(0).normal(size=30_000)
    found = measure_domain(pd.DataFrame({"x": x}), **BUDGET).schema.columns["x"]
    assert distance(x, found) < 0.05
    drawn, _ = found.decode(found.encode("x", pd.Series(x)), np.random.default_rng(0))
    assert drawn.std() == pytest.approx(0.03, rel=0.1)
    assert found.decimals is None


def test_an_instrument_with_a_largest_value_and_two_decimals():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(15_000) < 0.9, 45.0, np.round(rng.uniform(15, 40, 15_000), 2))
    found = measure_domain(pd.DataFrame({"x": x}), **BUDGET).schema.columns["x"]
    assert 45.0 in found.atoms
    assert found.decimals == 2
    drawn, _ = found.decode(found.encode("x", pd.Series(x)), np.random.default_rng(0))
    np.testing.assert_array_equal(np.round(drawn, 2), drawn)
    assert distance(x, found) < 0.03


def test_few_records_keep_bins_of_equal_width():
    """Below 100 records over the noise: the bounds of octaves, as they were, and atoms."""
    x = np.random.default_rng(0).normal(1460, 600, 4000).clip(130, 4000).astype(int)
    given = {"epsilon": 0.06, "delta": 1e-6, "rng": 0}
    found = measure_domain(pd.DataFrame({"x": x}), **given).schema.columns["x"]
    noise = make_noise(
        {"x": Undeclared("integer")}, budget(0.06, 1e-6, "add-remove"), source(0), 4000
    )
    assert 4000 / noise.sigma < 100
    assert len({*np.diff(found.edges)}) <= 2
    assert np.log2(found.edges[-1]) % 1 == 0
    assert distance(x, found) < 0.07


def test_rare_texts_are_other_and_missing_ones_stay_missing():
    frame = pd.DataFrame({"x": ["a", "b"] * 1000 + [f"rare{i}" for i in range(500)] + [None] * 200})
    column = measure_domain(frame, **BUDGET).schema.columns["x"]
    assert column.listed == ("a", "b", "other")
    codes = column.encode("x", frame["x"])
    assert np.bincount(codes).tolist() == [1000, 1000, 500, 200]
    values, missing = column.decode(codes, np.random.default_rng(0))
    assert (values[2000:2500] == "other").all()
    assert missing.sum() == 200
    named = measure_domain(frame, {"x": {"kind": "categorical", "other": "rest"}}, **BUDGET)
    assert named.schema.columns["x"].listed[-1] == "rest"
    assert named.schema.columns["x"].where("x", "rest").tolist() == [False, False, True, False]
    back = Schema.from_dict(named.schema.as_dict())
    assert back == named.schema


def test_a_value_that_is_called_other_takes_in_all_others():
    column = Categorical(("a", "other"), outside="other")
    assert column.encode("x", pd.Series(["a", "other", "z"])).tolist() == [0, 1, 1]
    assert column.size == 2


def test_timestamps_keep_their_time_of_day(tmp_path):
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2017-01-01") + pd.to_timedelta(rng.integers(0, 365, 4000), "D")
    hour = rng.choice([8, 9, 22], 4000, p=[0.5, 0.3, 0.2])
    when = day + pd.to_timedelta(3600 * hour + rng.integers(0, 3600, 4000), "s")
    frame = pd.DataFrame({"when": when, "late": np.where(hour == 22, "yes", "no")})
    frame.loc[:99, "when"] = pd.NaT
    fitted = synth.fit(frame, domain_epsilon=1.0, epsilon=4.0, rng=0)
    assert fitted.schema.names == ("when", "when time", "late")
    assert isinstance(fitted.schema.columns["when"], Date)
    assert fitted.schema.columns["when time"] == TimeOfDay("when", nullable=True)
    drawn = synth.load(fitted.save(tmp_path / "m.npz")).sample(4000, rng=0)
    assert list(drawn.columns) == ["when", "late"]
    assert drawn["when"].dtype == frame["when"].dtype
    hours = drawn["when"].dt.hour
    assert (hours == 8).mean() == pytest.approx(0.5, abs=0.05)
    assert (drawn["late"][hours == 22] == "yes").mean() > 0.8
    assert (hours.isin([8, 9, 22]) | drawn["when"].isna()).mean() > 0.9


def test_days_without_times_stay_days_and_texts_keep_their_clock():
    frame = pd.DataFrame({"d": pd.to_datetime(["2020-01-01", "2021-05-05"] * 1000)})
    assert measure_domain(frame, **BUDGET).schema.names == ("d",)
    texts = pd.Series(
        ["2020-02-03T04:05:06Z", "2020-02-03 23:59", "2020-02-03", "2020-02-03 07+02"]
    )
    assert TimeOfDay("x", 24).encode("x", texts).tolist() == [4, 23, 0, 7]
    drawn, _ = TimeOfDay("x", 96).decode(np.arange(96), np.random.default_rng(0))
    assert (drawn.astype(int) // 900).tolist() == list(range(96))


# Columns with atoms.


def test_numbers_with_atoms():
    column = Numeric((0, 10, 20), True, atoms=(0, 7), outside="nearest")
    assert column.size == 4
    assert column.encode("x", pd.Series([0, 7, 3, 15, 99, -5])).tolist() == [2, 3, 0, 1, 1, 2]
    assert column.order().tolist() == [0, 2, 3, 1]
    drawn, _ = column.decode(np.repeat([0, 2, 3], 200), np.random.default_rng(0))
    assert not {*drawn[:200]} & {0, 7}
    assert {*drawn[200:]} == {0, 7}
    only = Numeric((), atoms=(1.5, 4.0), outside="nearest", nullable=True)
    assert only.encode("x", pd.Series([0.0, 2.0, 99.0, np.inf, None])).tolist() == [0, 0, 1, 1, 2]
    assert Schema.from_dict(Schema({"x": only}).as_dict()).columns["x"] == only


# The tree.


class Quiet:
    """Noise of a stated deviation of which nothing is seen."""

    sigma = 10.0

    def add(self, counts):
        return np.asarray(counts, float)


def test_the_tree_divides_where_many_are_and_leaves_even_cells_alone():
    x = np.concatenate([np.linspace(0, 1, 1000, endpoint=False), np.full(500, 5.3)])
    start = Leaves(np.array([0.0, 1.0, 8.0]), np.array([1000.0, 500.0]), np.full(2, 10.0))
    found = tree.grow(x, start, Quiet(), 2, integer=False)
    assert found.edges[:2].tolist() == [0.0, 1.0]  # even: not divided
    width = np.diff(found.edges)[np.searchsorted(found.edges, 5.3, side="right") - 1]
    assert width == pytest.approx(7 / 64)
    assert found.counts.sum() == pytest.approx(1500)
    whole = tree.grow(
        np.repeat([3, 4], 500), start._replace(edges=np.array([0, 1, 8])), Quiet(), 3, integer=True
    )
    assert (found.edges[1:] > found.edges[:-1]).all()
    assert (whole.edges == np.round(whole.edges)).all()


def test_a_level_is_one_histogram():
    """Cells that are divided at one level are disjoint: a record is in one of them at most."""
    seen = []

    class Watched(Quiet):
        def add(self, counts):
            seen.append(np.sum(counts))
            return super().add(counts)

    x = np.random.default_rng(0).lognormal(3, 1, 5000)
    start = Leaves(np.array([0.0, 32.0, 512.0]), np.array([2500.0, 2500.0]), np.full(2, 10.0))
    tree.grow(x, start, Watched(), 5, integer=False)
    assert len(seen) == 5
    assert max(seen) <= 5000


# Noise.


@pytest.mark.parametrize("share", [1, 0.9])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("levels", [0, 1, measuring.LEVELS])
@pytest.mark.parametrize("kind", ["numeric", "integer", "categorical", "date"])
def test_the_stages_of_a_column_cost_what_it_is_charged(kind, levels, relation, share, monkeypatch):
    """The deviations that are asked for, over all stages, spend µ/√d and no more.

    A mutant that draws 10 % less noise spends more.
    """
    asked, drawn = [], measuring.noisy_counts

    def watched(counts, sigma, chosen, neighbouring):
        asked.append(share * sigma)
        return drawn(counts, share * sigma, chosen, neighbouring)

    monkeypatch.setattr(measuring, "noisy_counts", watched)
    given = {name: Undeclared(kind) for name in "xyz"}
    allowed = budget(5.0, 1e-6, relation)
    n = 10**6 if levels > 1 else 3000
    noise, event = make_noise(given, allowed, source(0), n), price_domain(given, allowed)
    if levels < measuring.LEVELS:
        noise = noise._replace(n_records=round(noise.sigma * (50 if levels == 0 else 200)))
    else:
        noise = noise._replace(n_records=round(noise.sigma * 1000))
    rng = np.random.default_rng(0)
    values = {
        "numeric": rng.lognormal(5, 1, 3000),
        "integer": rng.lognormal(5, 1, 3000).astype(int),
        "categorical": rng.choice(["a", "b"], 3000),
        "date": rng.integers(0, 3000, 3000).astype("datetime64[D]").astype(str),
    }[kind]
    measuring.MEASURES[kind](pd.Series(values), noise, given["x"])
    parts = getattr(event, "events", (event,))
    distance = {"add-remove": 1, "replace-one": math.sqrt(2)}[relation]
    spent = distance**2 * sum(sigma**-2 for sigma in asked)
    charged = parts[0].noise_multiplier ** -2 / 3
    assert (spent <= charged * (1 + 1e-12)) == (share == 1)
    assert spent > 0.99 * charged


@pytest.mark.parametrize("rng", [0, None])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_noise_of_a_stage_has_its_deviation(relation, rng):
    noise = measuring.ColumnNoise(4.0, 5.0, source(rng), relation, 100).part(0.25)
    found = noise.add(np.zeros(20_000))
    assert found.std() == pytest.approx(8, rel=6 / math.sqrt(40_000))
    assert abs(0.9 * found.std() / 8 - 1) > 6 / math.sqrt(40_000)
    assert noise.threshold == pytest.approx(41)


def test_atoms_of_one_record_pass_as_often_as_they_are_charged():
    """With a z of 1.5 instead of 5: of 20 000 values that occur once, so many are released."""
    from scipy import special

    from rates import assert_rate

    noise = measuring.ColumnNoise(3.0, 1.5, source(1), "add-remove", 100)
    found = measuring._find_atoms(np.arange(20_000.0), noise)
    assert_rate(len(found), 20_000, special.ndtr(-1.5))
    with pytest.raises(AssertionError):
        assert_rate(len(found), 20_000, special.ndtr(-1.5 / 0.9))


# What was counted is used.


def test_the_fit_gets_what_the_domain_counted(monkeypatch):
    seen = []

    def kept(schema, found, **rest):
        seen[:] = found
        return Mixture(schema, np.ones(1), np.concatenate(column_shares(schema, found))[None])

    monkeypatch.setattr(product_mixture, "fit_mixture", kept)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.lognormal(5, 1, 9000), "y": rng.choice(["a", "b", None], 9000)})
    fitted = synth.fit(frame, domain_epsilon=2.0, epsilon=3.0, rng=0)
    extra = {m.columns[0]: m for m in seen if m.weights is not None}
    assert set(extra) == {"x", "y"}
    data = fitted.schema.encode(frame)
    for place, name in enumerate(fitted.schema.names):
        m = extra[name]
        true = np.bincount(data[:, place], minlength=fitted.schema.sizes[place]) / 9000
        known = m.weights > 0
        errors = (m.shares - true)[known] * np.sqrt(m.weights[known]) / m.deviation
        assert np.abs(errors).max() < 6
        assert np.abs(errors).max() > 0.05  # with noise
    assert extra["y"].weights.tolist() == [1, 1, 0, 1]  # "other" was not counted


def test_shares_are_averaged_by_their_precision():
    from dpassay.synth.measurements import Measurement

    schema = Schema({"x": range(3)})
    one = Measurement(("x",), np.array([0.2, 0.3, 0.5]), 0.1)
    more = Measurement.of_counts("x", np.array([40.0, 0, 50]), np.array([10, np.inf, 20]), 100)
    found = column_shares(schema, [one, more])[0] * 1.1 - 0.1 / 3
    raw = np.array([0.3, 0.3, 0.5])
    np.testing.assert_allclose(found, raw - (raw.sum() - 1) / 3, atol=1e-12)
    assert Measurement.of_counts("x", np.zeros(3), np.full(3, np.inf), 100) is None
