"""Workloads: every kind of query against a loop over records, on every kind of model."""

import itertools

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.synth.models import Distribution, Mixture, Records, universe
from dpassay.synth.queries.blocks import Conjunction, Marginal, Parity, Predicate, Prefix
from dpassay.synth.queries.workload import Workload
from dpassay.synth.tables.columns import Categorical
from dpassay.synth.tables.schema import Schema

SCHEMA = Schema({"a": range(3), "b": Categorical(("x", "y"), nullable=True), "c": range(2)})
RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, size, 200) for size in SCHEMA.sizes], axis=1)
BLOCKS = [
    Marginal(("a", "c")),
    Marginal(("c", "a")),
    Marginal(("b",)),
    Prefix(("c", "a")),
    Parity(("a", "c")),
    Conjunction.of(a=[0, 2], b="x"),
    Conjunction.of(b=None),
    Predicate(("a", "c"), lambda frame: (frame["a"] * frame["c"]) / 2),
]


def query_values(block):
    """The value of every query on every record, by a loop that knows nothing of tables."""
    places = SCHEMA.positions(block.columns)
    sub = CODES[:, places]
    shape = SCHEMA.shape(block.columns)
    cells = list(itertools.product(*(range(size) for size in shape)))
    if isinstance(block, Marginal):
        return np.array([[float(tuple(row) == cell) for cell in cells] for row in sub])
    if isinstance(block, Prefix):
        return np.array([[float((row <= cell).all()) for cell in cells] for row in sub])
    if isinstance(block, Parity):
        return np.array([[float(row.sum() % 2 == 0)] for row in sub])
    if isinstance(block, Predicate):
        return np.array([[row[0] * row[1] / 2] for row in sub])
    if block.columns == ("b",):
        return np.array([[float(row[0] == 2)] for row in sub])
    return np.array([[float(row[0] in (0, 2) and row[1] == 0)] for row in sub])


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{type(b).__name__}-{'-'.join(b.columns)}")
def test_answers_and_their_transpose_by_a_loop(block):
    values = query_values(block)
    workload = Workload((block,))
    assert workload.n_queries(SCHEMA) == values.shape[1]
    np.testing.assert_allclose(workload.answers(Records(SCHEMA, CODES)), values.mean(axis=0))
    coefficients = RNG.normal(size=values.shape[1])
    spread = block.spread(SCHEMA, coefficients)
    places = SCHEMA.positions(block.columns)
    at_records = spread[tuple(CODES[:, place] for place in places)]
    np.testing.assert_allclose(at_records, values @ coefficients)
    assert isinstance(block.label(SCHEMA, 0), str)


def test_all_models_of_one_distribution_agree():
    parts = [RNG.dirichlet(np.ones(size), 4) for size in SCHEMA.sizes]
    weights = RNG.dirichlet(np.ones(4))
    joint = np.einsum("k,ka,kb,kc->abc", weights, *parts)
    mixture = Mixture(SCHEMA, weights, np.concatenate(parts, axis=1))
    workload = Workload(tuple(BLOCKS))
    explicit = workload.answers(Distribution(SCHEMA, joint))
    np.testing.assert_allclose(workload.answers(mixture), explicit)
    cells = universe(SCHEMA, 100)
    assert len(cells) == SCHEMA.n_cells
    by_cells = np.zeros_like(explicit)
    for cell, p in zip(cells, joint.reshape(-1), strict=True):
        by_cells += p * workload.answers(Records(SCHEMA, cell[None]))
    np.testing.assert_allclose(by_cells, explicit)


def test_counts_are_divided_by_the_public_number():
    table = Records(SCHEMA, CODES, 400).marginal(("a",))
    assert table.sum() == pytest.approx(0.5)


@pytest.mark.parametrize("kind", ["records", "distribution", "mixture"])
def test_samples_follow_the_model_also_under_a_condition(kind):
    schema = Schema({"a": range(3), "b": range(2)}, impossible=[{"a": 2, "b": 1}])
    rng = np.random.default_rng(3)
    parts = [rng.dirichlet(np.ones(size), 5) for size in schema.sizes]
    weights = rng.dirichlet(np.ones(5))
    mixture = Mixture(schema, weights, np.concatenate(parts, axis=1))
    joint = np.einsum("k,ka,kb->ab", weights, *parts)
    codes = np.array([[0, 0], [0, 1], [1, 1], [2, 0], [2, 1], [1, 0]])
    model = {
        "records": Records(schema, codes),
        "distribution": Distribution(schema, joint),
        "mixture": mixture,
    }[kind]
    truth = np.full((3, 2), 1 / 6) if kind == "records" else joint.copy()
    truth[2, 1] = 0
    for where, allowed in (({}, [0, 1, 2]), ({"a": [1, 2]}, [1, 2])):
        given = np.zeros_like(truth)
        given[allowed] = truth[allowed]
        given /= given.sum()
        drawn = model.sample(40_000, np.random.default_rng(1), schema.conditions(where))
        shares = Records(schema, drawn).marginal(("a", "b"))
        # Each share is binomial: six deviations in six cells, a false alarm of 1e-8.
        assert (np.abs(shares - given) <= 6 * np.sqrt(given * (1 - given) / 40_000)).all()
        assert shares[2, 1] == 0


def test_conditions_that_cannot_be_met():
    schema = Schema({"a": range(3), "b": range(2)})
    joint = np.zeros((3, 2))
    joint[0] = 0.5
    rng = np.random.default_rng(0)
    condition = schema.conditions({"a": 2})
    factors = np.array([[1.0, 0, 0, 0.5, 0.5]])
    for model in (
        Records(schema, np.zeros((3, 2), np.int64)),
        Distribution(schema, joint),
        Mixture(schema, np.ones(1), factors),
    ):
        with pytest.raises(InvalidArgument, match="condition"):
            model.sample(5, rng, condition)
    with pytest.raises(InvalidArgument, match="not in the schema"):
        schema.conditions({"z": 1})
    with pytest.raises(InvalidArgument, match="outside"):
        schema.conditions({"a": 7})


def test_a_mixture_with_nothing_possible_ends():
    schema = Schema({"a": range(2)}, impossible=[{"a": 1}])
    model = Mixture(schema, np.ones(1), np.array([[0.0, 1.0]]))
    with pytest.raises(InvalidArgument, match="impossible"):
        model.sample(3, np.random.default_rng(0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Workload(()),
        lambda: Workload.marginals([("a", "a")]),
        lambda: Workload.marginals([()]),
        lambda: Workload.marginals([("a", "nobody")]).check(SCHEMA),
        lambda: Workload.all_marginals(SCHEMA, 4),
        lambda: Workload((Conjunction(("a", "b"), (1,)),)),
        lambda: Workload.predicates([(("a",), lambda f: f["a"])]).answers(Records(SCHEMA, CODES)),
    ],
)
def test_workloads_that_are_none(make):
    with pytest.raises(InvalidArgument):
        make()


def test_all_marginals_leaves_out_large_ones():
    assert len(Workload.all_marginals(SCHEMA, 2).blocks) == 3
    assert len(Workload.all_marginals(SCHEMA, 2, most_cells=6).blocks) == 2


def test_a_predicate_on_too_many_cells_says_so():
    schema = Schema({name: range(100) for name in "abcd"})
    workload = Workload.predicates([(tuple("abcd"), lambda f: np.ones(len(f)))])
    with pytest.raises(InvalidArgument, match="too many"):
        workload.answers(Mixture(schema, np.ones(1), np.full((1, 400), 0.01)))


def test_one_workload_serves_schemas_of_the_same_shape():
    """The values of a condition are looked up in each schema, not kept from the first."""
    workload = Workload.conjunctions([{"a": "x"}])
    for values in (["x", "y"], ["y", "x"]):
        schema = Schema({"a": values})
        data = Records(schema, np.full((5, 1), values.index("x")))
        assert workload.answers(data).tolist() == [1.0]
