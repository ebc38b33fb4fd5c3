"""Measured domains: what they say, what they cost, and that they cost no less."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import special

from dpassay import synth
from dpassay.errors import BudgetExceeded, InvalidArgument
from dpassay.mechanisms.noise import source
from dpassay.privacy import Approx, Gaussian, account
from dpassay.privacy.budget import budget
from dpassay.privacy.events import Sequence
from dpassay.privacy.ledger import Ledger
from dpassay.synth import MWEM, Categorical, Date, Numeric, Schema, Workload, measure_domain
from dpassay.synth.recommended import fit_with_domain
from dpassay.synth.tables import measuring
from dpassay.synth.tables.domains import DomainWarning, Undeclared, make_noise, price_domain
from rates import assert_rate, assert_rate_at_most

BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def table(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "pay": rng.lognormal(7, 0.5, n),
            "town": rng.choice(["Ulm", "Bonn", "Köln"], n),
            "seen": pd.Timestamp("2001-03-05") + pd.to_timedelta(rng.integers(0, 1500, n), "D"),
            "smokes": rng.random(n) < 0.3,
            "grade": rng.choice([1.0, 2.5, np.nan], n),
        }
    )
    frame.loc[0, ["pay", "town", "grade"]] = [-1e30, "Nowhere", 77.0]
    return frame


def known(frame):
    kinds = ("integer", "numeric", "categorical", "date", [False, True], "categorical")
    return dict(zip(frame.columns, kinds, strict=True))


# What is found.


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_domains_hold_what_many_records_have_and_nothing_that_one_has(neighbouring):
    frame = table()
    found = measure_domain(frame, known(frame), neighbouring=neighbouring, rng=0, **BUDGET)
    columns = found.schema.columns
    assert 12 <= columns["age"].edges[0] <= 18
    assert 90 <= columns["age"].edges[-1] <= 128
    assert 128 <= columns["pay"].edges[0] <= 512
    assert 2048 <= columns["pay"].edges[-1] <= 8192
    assert columns["town"].values == ("Bonn", "Köln", "Ulm")
    assert columns["town"].listed == ("Bonn", "Köln", "Ulm", "other")
    assert columns["grade"].values == (1, 2.5)
    assert columns["seen"].edges[0] == "2001-01-01"
    assert columns["seen"].edges[-1] == "2006-01-01"
    assert found.measured == ("age", "pay", "town", "seen", "grade")
    codes = found.schema.encode(frame)  # the odd record has its place: an end, "other", missing
    assert codes[0, 1] == 0
    assert codes[0, 2] == 3
    assert codes[0, 5] == columns["grade"].n_values
    assert found.privacy.epsilon(1e-6) <= 2 * (1 + 1e-12)
    assert found.privacy.neighbouring == neighbouring


def test_kinds_come_from_types():
    frame = table().drop(columns="grade")
    found = measure_domain(frame, rng=0, **BUDGET)
    kinds = {name: (type(c), c.nullable) for name, c in found.schema.columns.items()}
    assert kinds == {
        "age": (Numeric, False),
        "pay": (Numeric, True),
        "town": (Categorical, True),
        "seen": (Date, True),
        "smokes": (Categorical, False),
    }
    assert "smokes" not in found.measured
    assert found.assumptions == ("the names and types of the columns", "the domains of smokes")
    assert measure_domain(frame, **BUDGET).noise == "exact"


@pytest.mark.parametrize(
    ("values", "kind", "domain"),
    [
        ([0], "integer", (0, 1)),
        ([1], "integer", (1, 2)),
        ([-1], "integer", (-1, 0)),
        ([-5, -4, 0], "integer", (-7, 1)),
        ([-5, 3], "integer", (-7, 4)),
        ([0.0], "numeric", (0, 2.0**-32)),
        ([-0.75, 0.0], "numeric", (-1, 0)),
        ([-0.75, 1.0], "numeric", (-1, 2)),
        ([-1.0, -0.5], "numeric", (-2, -0.5)),
        ([1e300, 3], "numeric", (2, 2.0**53)),
        ([10**400, -(10**400), "x", True], "integer", (1 - 2**53, 2**53)),
        ([np.inf, -np.inf], "numeric", (-(2.0**53), 2.0**53)),
        (["2024-12-31", "1999-01-01", "oops"], "date", ("1999-01-01", "2025-01-01")),
    ],
)
def test_bounds_are_ends_of_cells(values, kind, domain, monkeypatch):
    """Where no value is an atom, and the tree divides nothing."""
    monkeypatch.setattr(measuring, "_find_atoms", lambda x, noise: {})
    monkeypatch.setattr(measuring, "FINE", math.inf)
    frame = pd.DataFrame({"x": pd.Series(values * 1000, dtype=object)})
    found = measure_domain(frame, {"x": kind}, rng=1, **BUDGET).schema
    edges = found.columns["x"].edges
    assert (edges[0], edges[-1]) == domain
    codes = found.encode(frame)
    assert codes.min() >= 0


def test_what_is_written_does_not_depend_on_who_wrote_it():
    """Equal values of several types and any order of records give one and the same domain."""
    values = pd.Series([1, 1.0, np.float64(1), 2.5, np.int64(7)] * 500, dtype=object)
    texts = []
    for order in (values, values[::-1]):
        frame = pd.DataFrame({"x": order.reset_index(drop=True)})
        schema = measure_domain(frame, {"x": "categorical"}, rng=0, **BUDGET).schema
        texts.append(str(schema.as_dict()))
    assert texts[0] == texts[1]
    assert "[1, 2.5, 7]" in texts[0]


# What it costs.


def law(table, places, sigma, threshold):
    """The probability of every set of released values, of counts by (column, value)."""
    chances = [special.ndtr((table[p] - threshold) / sigma) if p in table else 0.0 for p in places]
    outcomes = itertools.product((False, True), repeat=len(places))
    return np.array(
        [
            math.prod(c if o else 1 - c for c, o in zip(chances, out, strict=True))
            for out in outcomes
        ]
    )


def excess(make, n_columns, neighbouring="add-remove", shrink=1.0, lower=0.0):
    """The largest enumerated delta(epsilon) over the event's, for two tables that ``make`` gives.

    ``make`` takes the threshold and the deviation. The mutants draw ``shrink`` times the noise, or
    have a threshold that is ``lower``.
    """
    given = {f"c{j}": Undeclared("categorical") for j in range(n_columns)}
    allowed = budget(1.0, 1e-3, neighbouring)
    noise, event = make_noise(given, allowed, source(0), 100), price_domain(given, allowed)
    tables = make(noise.threshold, noise.sigma)
    places = sorted({place for table in tables for place in table})
    p, q = (law(t, places, shrink * noise.sigma, noise.threshold - lower) for t in tables)
    epsilons = np.linspace(0.0, 1.5, 31)
    ratio = np.exp(epsilons)[:, None]
    found = [np.maximum(a - ratio * b, 0).sum(axis=1) for a, b in ((p, q), (q, p))]
    return float((np.max(found, axis=0) / account(event).delta(epsilons)).max())


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("at", [-2.5, 0.0, 2.0])
@pytest.mark.parametrize("n_rare", [0, 1, 3])
def test_no_pair_of_tables_gives_more_away_than_the_event_says(neighbouring, n_columns, at, n_rare):
    """The record is alone with its value in some columns, and one of many in the others."""

    def make(threshold, sigma):
        many = round(threshold + at * sigma)
        one, other = {}, {}
        for j in range(n_columns):
            one[j, "a"] = other[j, "a"] = many
            if j < n_rare:
                other[j, "b"] = 1
            else:
                other[j, "a"] += 1
            if neighbouring == "replace-one" and j < n_rare:
                one[j, "c"] = 1
            elif neighbouring == "replace-one":
                one[j, "c"], other[j, "c"] = many + 1, many
        return one, other

    assert excess(make, n_columns, neighbouring) <= 1 + 1e-9


def test_the_enumeration_sees_less_noise_and_a_lower_threshold():
    def common(threshold, sigma):  # a best test between the two counts for noise 0.8 sigma
        count = threshold - 0.64 * sigma**2 - 0.5
        return {(0, "a"): count}, {(0, "a"): count + 1}

    def rare(threshold, sigma):
        del threshold, sigma
        return {}, {(0, "b"): 1}

    assert 0.3 < excess(common, 1) <= 1
    assert excess(common, 1, shrink=0.8) > 1.5
    assert 0.3 < excess(rare, 1) <= 1
    assert excess(rare, 1, lower=1.0) > 1.5


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_the_noise_that_is_drawn_is_the_noise_that_is_stated(neighbouring):
    """Of 3000 values with one count each, as many are released as their probability says."""
    distance = {"add-remove": 1, "replace-one": 2}[neighbouring]
    allowed = budget(3.0, 1e-6, neighbouring)
    given = {name: Undeclared("categorical") for name in "xy"}
    noise, event = make_noise(given, allowed, source(0), 100), price_domain(given, allowed)
    assert isinstance(event, Sequence)
    gaussian, rare = event.events
    assert isinstance(gaussian, Gaussian)
    assert gaussian.noise_multiplier == pytest.approx(noise.sigma / math.sqrt(2 * distance))
    assert rare == Approx(0.0, 5e-7, neighbouring)
    assert 2 * special.ndtr((1 - noise.threshold) / noise.sigma) == pytest.approx(5e-7)
    count = round(noise.threshold - 1.5 * noise.sigma)
    frame = pd.DataFrame({"x": np.repeat(np.arange(3000), count), "y": "a"})
    schema = measure_domain(
        frame,
        {"x": "categorical", "y": "categorical"},
        epsilon=3.0,
        delta=1e-6,
        neighbouring=neighbouring,
        rng=0,
    ).schema
    chance = special.ndtr((count - noise.threshold) / noise.sigma)
    assert_rate(schema.columns["x"].n_values, 3000, chance)
    with pytest.raises(AssertionError):
        mutant = special.ndtr((count - noise.threshold) / (0.8 * noise.sigma))
        assert_rate(schema.columns["x"].n_values, 3000, mutant)


@pytest.mark.parametrize("rng", [0, None])
def test_noise_alone_gives_no_bound(rng):
    """2000 columns without a record: at most one in a thousand passes anywhere."""
    noise = measuring.ColumnNoise(3.0, math.inf, source(rng), "add-remove", 1000)
    runs = [
        measuring.outermost(dict(enumerate(noise.add(np.zeros(171)))), 3.0) for _ in range(2000)
    ]
    passed = sum(run is not None for run in runs)
    assert_rate_at_most(passed, 2000, measuring.FALSE_CELL)


# Together with a synthesizer.


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_domain_and_gaussian_noise_add_as_squares_and_spend_the_budget(neighbouring):
    frame = table(1000)
    found = synth.fit(
        frame, domain_epsilon=1.0, epsilon=3.0, delta=1e-5, neighbouring=neighbouring, rng=0
    )
    spent = found.privacy_.epsilon(1e-5)
    assert 3 * (1 - 1e-6) < spent <= 3
    own = measure_domain(
        frame, epsilon=1.0, delta=0.2 * 1e-5, neighbouring=neighbouring, rng=0
    ).event
    assert found.event_.events[0] == own  # 2e-6 is a fifth of 1e-5
    assert isinstance(found.event_.events[1], Gaussian)
    assert found.assumptions_[:2] == ("n=1000", "the names and types of the columns")
    assert (found.epsilon, found.delta) == (3.0, 1e-5)
    drawn = found.sample(50, rng=0)
    assert list(drawn.columns) == list(frame.columns)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (MWEM, {}),
        (synth.BLR, {"size": 2}),
        (synth.ProductMixture, {"workload": Workload.marginals([("town", "smokes", "b")])}),
    ],
)
def test_domain_and_other_noise_add_up(method, options):
    frame = table(2000)[["town", "smokes"]].assign(b=lambda f: ~f["smokes"])
    found = fit_with_domain(
        method, frame, domain_epsilon=0.8, epsilon=2.0, delta=1e-5, rng=0, **options
    )
    rest = found.event_.events[1]
    assert isinstance(rest, Approx)
    assert rest.epsilon == pytest.approx(1.2)
    assert rest.delta == pytest.approx(8e-6)
    assert 1.8 < found.privacy_.epsilon(1e-5) <= 2.0
    assert account(found.event_, "basic").epsilon(1e-5) <= 2.0
    assert found.sample(10, rng=0).shape == (10, 3)


class Spendthrift(MWEM):
    """One that ignores its budget, as a class of somebody else may."""

    def _plan(self, allowed, n_records):
        return super()._plan(budget(3 * allowed.epsilon, allowed.delta, "add-remove"), n_records)


class Loud(synth.Independent):
    def _plan(self, allowed, n_records):
        return super()._plan(budget(3 * allowed.epsilon, allowed.delta, "add-remove"), n_records)


@pytest.mark.parametrize("method", [Spendthrift, Loud])
def test_nothing_is_promised_of_a_method_that_spends_more(method):
    with pytest.raises(InvalidArgument, match=f"method={method.__name__} spends more"):
        fit_with_domain(
            method, table(2000)[["town", "smokes"]], domain_epsilon=0.8, epsilon=2.0, rng=0
        )


@pytest.mark.parametrize("method", [synth.DualQuery, synth.FEM, synth.FrankWolfe])
@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_every_method_keeps_its_promise(method, neighbouring):
    found = fit_with_domain(
        method,
        table(2000)[["town", "smokes"]],
        domain_epsilon=0.8,
        epsilon=2.0,
        delta=1e-5,
        neighbouring=neighbouring,
        rng=0,
    )
    assert found.privacy_.epsilon(1e-5) <= 2.0
    assert found.privacy_.neighbouring == neighbouring
    assert found.domain_.measured == ("town",)
    assert found.domain_.event == found.event_.events[0]


def test_saved_and_read_back(tmp_path):
    found = synth.fit(table(1000), domain_epsilon=1.0, epsilon=3.0, rng=0)
    back = synth.load(found.save(tmp_path / "m.npz"))
    assert back.schema == found.schema
    assert back.event_ == found.event_
    pd.testing.assert_frame_equal(back.sample(30, rng=1), found.sample(30, rng=1))


# What cannot be found.


@pytest.mark.parametrize("container", ["frame", "array"])
def test_a_column_of_which_nothing_stands_out_is_left_out_and_charged(container, tmp_path):
    frame = pd.DataFrame({"a": [1, 2] * 500, "b": np.arange(1000), "c": [0, 1] * 500})
    columns = {"a": "categorical", "b": "categorical", "c": [0, 1]}
    ledger = Ledger(tmp_path / "l.db", budget=budget(3.0, 1e-5, "add-remove").target)
    given = frame if container == "frame" else frame.to_numpy()
    workload = Workload.marginals([("a", "b"), ("a", "c")])
    with pytest.warns(DomainWarning, match="column 'b' is left out: nothing of it stands out"):
        found = synth.fit(
            given,
            schema=columns,
            domain_epsilon=1.0,
            epsilon=2.0,
            delta=1e-6,
            workload=workload,
            ledger=ledger,
            rng=0,
        )
    assert found.domain_.dropped == ("b",)
    assert found.schema.names == ("a", "c")
    assert found.workload.column_sets() == (("a", "c"),)
    both = measure_domain(frame.assign(b=1), columns, epsilon=1.0, delta=2e-7, rng=0).event
    assert found.event_.events[0] == both  # as if it had been found
    assert found.sample(5, rng=0).shape == (5, 2)
    (entry,) = ledger.entries()
    assert (entry.what, entry.event) == ("domain and ProductMixture", found.event_)


def test_a_ledger_without_room_for_both_is_not_charged_for_the_domain(tmp_path):
    ledger = Ledger(tmp_path / "l.db", budget=budget(0.8, 1e-5, "add-remove").target)
    with pytest.raises(BudgetExceeded, match="'domain and ProductMixture'"):
        synth.fit(table(), domain_epsilon=0.5, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert ledger.entries() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "aeg"}, "target='aeg'"),
        ({"resolution": -1.0}, "resolution=-1"),
        ({"schema": {"age": range(30), "city": "categorical"}}, "column 'age' has a value outside"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_spent(change, message, tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    frame = pd.DataFrame({"age": [20, 40] * 500, "city": ["Ulm", "Bonn"] * 500})
    with pytest.raises(InvalidArgument, match=message):
        synth.fit(frame, **{"domain_epsilon": 0.5, "epsilon": 1.0, "ledger": ledger} | change)
    assert ledger.entries() == []


def test_the_number_of_records_is_among_what_was_taken_as_public():
    frame = pd.DataFrame({"b": [0, 1] * 500})
    found = measure_domain(frame, {"b": "categorical"}, rng=0, **BUDGET)
    assert found.privacy.assumptions == ("n=1000", "the names and types of the columns")


def test_nothing_at_all_is_an_error_and_paid_for(tmp_path):
    ledger = Ledger(tmp_path / "l.db", budget=budget(3.0, 1e-5, "add-remove").target)
    frame = pd.DataFrame({"b": np.arange(1000)})
    with (
        pytest.warns(DomainWarning, match="'b' is left out"),
        pytest.raises(InvalidArgument, match="nothing of any column stands out"),
    ):
        measure_domain(frame, {"b": "categorical"}, ledger=ledger, rng=0, **BUDGET)
    assert len(ledger.entries()) == 1


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "must be finite and positive"),
        ({"delta": 0.0}, "delta=0 of a measured domain must be"),
        ({"neighbouring": "near"}, "neighbouring"),
        ({"columns": {"age": "number"}}, "kind of column 'age'='number' must be one of"),
        ({"columns": {"age": {"kind": "numeric", "bins": 0}}}, "bins=0"),
        ({"columns": {"age": range(120)}}, "nothing to measure"),
        ({"columns": {"shoes": "numeric"}}, "column 'shoes' is not in the table"),
        ({"columns": {"seen": "categorical"}}, "column 'seen' holds values of the type"),
        ({"table": np.zeros((3, 2))}, "the table is no frame"),
        ({"columns": ["age"]}, "must be a mapping from names"),
    ],
)
def test_measuring_is_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        measure_domain(**({"table": table(300), "rng": 0} | BUDGET | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"domain_epsilon": None},
            r"Reading the domain from the data would leak it.*domain_epsilon",
        ),
        ({"domain_epsilon": None, "schema": {"age": "integer"}}, "must be a Schema"),
        ({"domain_epsilon": 1.0}, "domain_epsilon=1 must lie in"),
        ({"domain_epsilon": math.nan}, "domain_epsilon=nan"),
        ({"schema": Schema({"age": range(120)})}, "is not needed: the schema declares"),
        ({"schema": {"age": range(120)}}, "nothing to measure"),
        ({"table": table(9)[:0]}, "the table is empty"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_fitting_is_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        synth.fit(**({"table": table(300), "domain_epsilon": 0.5, "rng": 0} | arguments))


@pytest.mark.parametrize("method", ["FEM", MWEM(Schema({"a": [0, 1]})), dict])
def test_a_method_is_a_class_of_ours(method):
    with pytest.raises(InvalidArgument, match="must be a class, such as"):
        fit_with_domain(method, table(300), domain_epsilon=0.5)


@pytest.mark.parametrize("wrong", [None, 3])
def test_a_table_has_rows(wrong):
    with pytest.raises(InvalidArgument, match="must be a frame or an array"):
        fit_with_domain(MWEM, wrong, domain_epsilon=0.5)


def test_the_table_may_still_be_called_frame():
    schema = Schema({"a": range(2)})
    with pytest.warns(DeprecationWarning, match="frame= of fit is now table="):
        fitted = synth.fit(frame=np.zeros((50, 1), int), schema=schema, delta=1e-5, rng=0)
    assert fitted.n_records_ == 50
    with pytest.raises(TypeError, match="both 'table' and 'frame'"):
        synth.fit(table=[[0]], frame=[[0]], schema=schema)
