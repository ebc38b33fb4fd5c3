"""Attacks on released tables: codings, distances, scores, and what they may and may not say."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpassay.attacks.tables import COPYING, NO_EPSILON, attack_table, measure_risks
from dpassay.attacks.tables import distances as distances_module
from dpassay.attacks.tables import scores as scores_module
from dpassay.attacks.tables.coding import harmonise, learn_coding
from dpassay.attacks.tables.distances import find_nearest
from dpassay.attacks.tables.risks import is_guessed, state_risk
from dpassay.attacks.tables.scores import Scene, count_in, score_pair_ratio
from dpassay.errors import InvalidArgument
from dpassay.privacy import PureDP
from rates import assert_rate_at_most


def people(n, seed):
    """A table with numbers, texts, days and missing values."""
    rng = np.random.default_rng(seed)
    wealth = rng.normal(size=n)
    income = np.round(100 + 40 * wealth)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    return pd.DataFrame(
        {
            "home": np.array(["rent", "own", "other"])[rng.integers(0, 3, n)],
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "job": np.where(rng.random(n) < 0.1, None, np.where(wealth > 0, "fixed", "free")),
            "since": days.astype(str),
            "age": rng.integers(18, 80, n),
        }
    )


def copy(table, seed=0):
    rows = np.random.default_rng(seed).integers(0, len(table), len(table))
    return table.iloc[rows].reset_index(drop=True)


# Codings and distances.


def test_types_are_those_of_all_tables_together():
    """A column is one of numbers only if all tables say so; days are numbers; texts keep zeros."""
    first = pd.DataFrame({"a": ["1", "2.5", None], "b": ["01", "02", "x"], "c": ["2024-01-02"] * 3})
    second = pd.DataFrame({"a": [3.0, 4.0, 5.0], "b": [1, 2, 3], "c": ["2024-01-01T12:00"] * 3})
    one, two = harmonise([first, second])
    assert [one[n].dtype.kind for n in "ac"] == ["f", "f"]
    assert one["b"].tolist() == ["01", "02", "x"]
    assert two["b"].tolist() == ["1", "2", "3"]
    assert one["c"][0] - two["c"][0] == 0.5
    assert one["a"].isna().tolist() == [False, False, True]


def test_unseen_and_missing_have_codes_of_their_own():
    known = pd.DataFrame({"t": ["a", "b", "b"], "x": [0.0, 1.0, 2.0]})
    other = pd.DataFrame({"t": ["b", "zz", None], "x": [1.0, 99.0, np.nan]})
    known, other = harmonise([known, other])
    coding = learn_coding(known, known)
    coded = coding.apply(other)
    assert coded.texts[:, 0].tolist() == [1, 2, 3]
    assert coding.n_codes == (4, 5)
    assert coded.bins[:, 1].tolist() == [1, 2, 4]
    assert coded.numbers[2, 0] == -1  # a whole range away from every number


@pytest.mark.parametrize("block", [2**21, 700])
def test_nearest_rows_are_those_of_a_plain_search(monkeypatch, block):
    """Also in small blocks; the distance is a sum over columns."""
    monkeypatch.setattr(distances_module, "BLOCK", block)
    monkeypatch.setattr(distances_module, "_MOST_QUERIES", 13)
    released, asked = harmonise([people(150, 1), people(40, 2)])
    coding = learn_coding(released, released)
    table, records = coding.apply(released), coding.apply(asked)
    found = find_nearest(records, table)
    for i in range(len(records)):
        plain = np.abs(table.numbers - records.numbers[i]).sum(axis=1)
        plain = plain + (table.texts != records.texts[i]).sum(axis=1)
        assert found.rows[i] == plain.argmin()
        assert found.distances[i] == pytest.approx(plain.min())
    itself = find_nearest(table, table, leave_out_itself=True)
    assert (itself.rows != np.arange(len(table))).all()


def test_pair_ratio_is_its_formula(monkeypatch):
    released, reference, asked = harmonise([people(80, 1), people(60, 2), people(15, 3)])
    coding = learn_coding(released, reference)
    scene = Scene(coding, *(coding.apply(t) for t in (asked, released, reference)), seed=0)
    expected = np.zeros(15)
    for i, (a, b) in itertools.product(range(15), itertools.combinations(range(5), 2)):
        m = coding.n_codes[a] * coding.n_codes[b]
        for sign, part in ((1, scene.released), (-1, scene.reference)):
            same = (part.bins[:, [a, b]] == scene.candidates.bins[i, [a, b]]).all(axis=1).sum()
            expected[i] += sign * math.log((same + 1) / (len(part) + m))
    assert score_pair_ratio(scene) == pytest.approx(expected)
    monkeypatch.setattr(scores_module, "_MOST_CELLS", 1)  # counted by sorting
    assert score_pair_ratio(scene) == pytest.approx(expected)


def test_counts_by_both_ways(monkeypatch):
    rng = np.random.default_rng(0)
    table, wanted = rng.integers(0, 50, 300), rng.integers(0, 50, 40)
    plain = [(table == w).sum() for w in wanted]
    assert count_in(table, wanted, 50).tolist() == plain
    monkeypatch.setattr(scores_module, "_MOST_CELLS", 10)
    assert count_in(table, wanted, 50).tolist() == plain


# Membership.


def test_a_copy_is_found_and_bounds_no_epsilon():
    data, holdout = people(300, 0), people(600, 1)
    found = attack_table(copy(data), data, holdout)
    assert found.best.method == "dcr"
    assert found.best.auc.value > 0.75
    assert found.significant
    assert not found.drifted
    assert found.bound is None
    assert not found.refutes(PureDP(0.01))
    assert NO_EPSILON in str(found)
    assert COPYING in str(found)
    assert (found.n_members, found.n_others, found.n_reference) == (300, 300, 300)


def test_a_fresh_table_shows_nothing():
    """Twenty releases that tell nothing: each interval covers a half."""
    missed = 0
    for seed in range(20):
        tables = [people(150, 1000 + 3 * seed + k) for k in range(3)]
        found = attack_table(*tables, methods=("pair-ratio", "dcr", "dcr-diff"), rng=seed)
        missed += found.significant or found.drifted
    assert_rate_at_most(missed, 20, 0.1)


def test_another_population_is_called_drift():
    data, holdout = people(400, 0), people(800, 1)
    holdout["age"] += 25
    found = attack_table(people(300, 2), data, holdout)
    assert found.drifted
    assert "Drift" in str(found)


def respond(candidates, inside, epsilon, rng):
    """Each candidate is released with odds e^epsilon if in, and e^-epsilon if not: epsilon-DP."""
    lies = rng.random(len(candidates)) < 1 / (1 + math.exp(epsilon))
    return candidates[inside != lies].reset_index(drop=True)


@pytest.mark.parametrize(("epsilon", "truth", "errs"), [(1.0, 1.0, False), (2.5, 1.0, True)])
def test_coins_bound_epsilon(epsilon, truth, errs):
    """The bound of a table that is exactly epsilon-DP exceeds it as seldom as it says."""
    above, most = 0, 0.0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        candidates = pd.DataFrame({"number": rng.normal(size=500), "other": rng.normal(size=500)})
        inside = rng.random(500) < 0.5
        released = respond(candidates, inside, epsilon, rng)
        found = attack_table(
            released,
            candidates[inside],
            candidates[~inside],
            membership="randomised",
            delta=0.0,
            methods=("dcr", "pair-ratio"),
            rng=seed,
        )
        above += found.bound.epsilon > truth
        most = max(most, found.bound.epsilon)
        assert found.drift is None
    if errs:
        assert above >= 20  # the same test sees a synthesizer that is worse than it says
    else:
        assert_rate_at_most(above, 25, 0.05)
        assert most > 0.2  # it has something to say


def test_a_copy_with_coins_reaches_the_ceiling():
    """All guesses about tested candidates are right: Steinke et al., with one of four attacks."""
    table = people(600, 0)
    table["key"] = np.arange(600) * 1.5
    inside = np.random.default_rng(1).random(600) < 0.5
    found = attack_table(
        table[inside],
        table[inside],
        table[~inside],
        membership="randomised",
        delta=0.0,
        methods=("dcr",),
    )
    assert found.bound.epsilon == pytest.approx(found.bound.ceiling, rel=0.02)
    assert found.refutes(PureDP(1.0))
    assert not found.refutes(PureDP(1.0, neighbouring="replace-one"))  # coins add or leave out


def test_coins_that_are_none_are_refused():
    table = people(600, 0)
    with pytest.raises(InvalidArgument, match="fair coins"):
        attack_table(table, table[:500], table[500:], membership="randomised")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ((people(50, 0), people(50, 1), people(10, 2)), "too few records"),
        ((people(5, 0), people(50, 1), people(90, 2)), "has 5 rows"),
        ((people(50, 0), people(50, 1), people(90, 2).add_suffix("_")), "no column in common"),
        (([1, 2], people(50, 1), people(90, 2)), "must be frames"),
    ],
)
def test_tables_that_cannot_be_attacked(tables, message):
    with pytest.raises(InvalidArgument, match=message):
        attack_table(*tables)


def test_columns_that_only_some_have_are_named_and_ignored():
    data = people(100, 0).assign(secret="x")
    found = attack_table(people(100, 1), data, people(200, 2), methods=("pair-ratio",))
    assert found.ignored == ("secret",)
    assert "secret" not in found.columns


def test_constant_scores_are_skipped():
    flat = pd.DataFrame({"a": ["x", "y"] * 100, "b": ["u", "v"] * 100})
    found = attack_table(flat, flat, flat, methods=("pair-ratio", "dcr"))
    assert list(found.skipped) == ["dcr"]


# The three risks.


@pytest.mark.parametrize(("p", "q"), [(0.02, 0.02), (0.6, 0.5), (0.1, 0.4), (1.0, 0.3), (0.5, 1.0)])
def test_risk_intervals_cover_by_exact_binomials(p, q):
    """Summed over all outcomes of 25 attacks on each group: at most 5 % miss the true risk."""
    n = 25
    truth = (p - q) / (1 - q) if q < 1 else -math.inf
    misses = 0.0
    for a, c in itertools.product(range(n + 1), repeat=2):
        weight = stats.binom.pmf(a, n, p) * stats.binom.pmf(c, n, q)
        if weight > 1e-12:
            risk = state_risk("inference", (a, c), (n, n), 0.95).risk
            misses += weight * (not risk.lower - 1e-9 <= truth <= risk.upper + 1e-9)
    assert misses <= 0.05


def test_rates_are_clopper_pearsons():
    risk = state_risk("linkability", (7, 2), (50, 60), 0.9)
    for found, (k, n) in zip((risk.attack, risk.control), ((7, 50), (2, 60)), strict=True):
        assert found.lower == pytest.approx(stats.beta.ppf(0.025, k, n - k + 1), rel=1e-6)
        assert found.upper == pytest.approx(stats.beta.ppf(0.975, k + 1, n - k), rel=1e-6)


def test_a_copy_is_at_risk_and_a_fresh_table_is_not():
    data, control = people(400, 0), people(400, 1)
    risks = measure_risks(copy(data), data, control, secrets=["home"], n_attacks=300)
    assert [r.name for r in risks] == ["singling-out", "linkability", "inference"]
    assert all(r.found for r in risks)
    fresh = measure_risks(people(400, 2), data, control, secrets=["home"], n_attacks=300)
    assert all(r.risk.lower <= 0 <= r.risk.upper for r in fresh)


def test_risks_of_harmless_tables_have_both_signs():
    signs = set()
    for seed in range(12):
        tables = [people(120, 500 + 3 * seed + k) for k in range(3)]
        risks = measure_risks(
            *tables, risks=("inference",), secrets=["job"], n_attacks=100, rng=seed
        )
        assert risks[0].risk.lower <= 0 <= risks[0].risk.upper
        signs.add(np.sign(risks[0].risk.value))
    assert {-1.0, 1.0} <= signs


def test_guesses():
    assert is_guessed(np.array(["a", None]), np.array(["a", None], object)).tolist() == [True, True]
    assert is_guessed(np.array([0.0, 1.1]), np.array([0.0, 1.0])).tolist() == [True, False]


def test_unknown_columns_are_refused():
    tables = [people(50, k) for k in range(3)]
    with pytest.raises(InvalidArgument, match="secrets"):
        measure_risks(*tables, secrets=["salary"])
    with pytest.raises(InvalidArgument, match="known"):
        measure_risks(*tables, known=(["age"], ["salary"]))
