"""Baselines, and through them what every synthesizer shares: budget, form, files."""

import math

import numpy as np
import pandas as pd
import pytest

from dpassay.errors import InvalidArgument
from dpassay.privacy import account
from dpassay.synth import (
    Categorical,
    Independent,
    NoisyMarginals,
    Schema,
    Workload,
    compare,
    load,
    quality,
    train_on_synthetic,
)
from dpassay.synth.measurements import measure, measurement_event, on_simplex
from dpassay.synth.models import Records
from rates import assert_rate

SCHEMA = Schema({"a": range(4), "b": Categorical(("x", "y"), nullable=True), "c": range(3)})


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, n)
    b = np.where(rng.random(n) < 0.1, None, np.where(a + rng.integers(0, 2, n) > 2, "x", "y"))
    return pd.DataFrame({"c": rng.binomial(2, 0.3, n), "a": a, "b": b})


PAIRS = Workload.all_marginals(SCHEMA, 2)


@pytest.mark.parametrize("method", [Independent, NoisyMarginals])
@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
def test_the_statement_meets_the_budget_and_wastes_nothing(method, neighbouring):
    fitted = method(SCHEMA, PAIRS, epsilon=0.7, delta=1e-6, neighbouring=neighbouring, rng=0)
    fitted.fit(table())
    assert fitted.privacy_.epsilon(1e-6) == pytest.approx(0.7, rel=1e-6)
    assert fitted.privacy_.epsilon(1e-6) <= 0.7 * (1 + 1e-9)
    assert fitted.privacy_.neighbouring == neighbouring
    assert "n=3000" in fitted.privacy_.assumptions
    assert fitted.noise_ == "reproducible"


def test_noise_is_secure_by_default_and_delta_is_of_the_public_n():
    fitted = Independent(SCHEMA, n_records=2000).fit(table())
    assert fitted.noise_ == "exact"
    assert fitted.privacy_.epsilon(1 / 2000**2) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(("neighbouring", "distance"), [("add-remove", 1), ("replace-one", 2**0.5)])
def test_the_noise_that_is_drawn_is_the_noise_that_is_stated(neighbouring, distance):
    """The deviation over the sensitivity, within 2 %: 20 000 draws know it to .5 %."""
    codes = np.zeros((50, 1), np.int64)
    schema = Schema({"a": range(20_000)})
    fitted = NoisyMarginals(schema, Workload.marginals([("a",)]), epsilon=1.0, delta=1e-6)
    fitted.neighbouring = neighbouring
    plan = fitted._plan(_budget(1.0, 1e-6, neighbouring), 50)
    from dpassay.mechanisms.noise import source

    found = measure(Records(schema, codes, 50), [("a",)], [plan.sigma], source(0), neighbouring)
    noise = found[0].shares.reshape(-1)[1:] * 50
    needed = _budget(1.0, 1e-6, neighbouring)
    multiplier = np.std(noise) / distance
    stated = account(plan.event).epsilon(1e-6)
    assert stated <= 1.0
    from dpassay.privacy import gaussian_noise_multiplier

    assert multiplier == pytest.approx(
        gaussian_noise_multiplier(needed.epsilon, needed.delta), rel=0.02
    )


def _budget(epsilon, delta, neighbouring):
    from dpassay.privacy.budget import budget

    return budget(epsilon, delta, neighbouring)


def test_one_record_moves_a_table_by_its_sensitivity():
    """Add one, remove one, replace one: the l2 distance of the counts, over all pairs of cells."""
    for cell in range(4):
        base = np.array([[0], [1], [2], [3], [3]])
        more = np.vstack([base, [[cell]]])
        schema = Schema({"a": range(4)})
        before, after = (Records(schema, codes).counts(("a",)) for codes in (base, more))
        assert np.linalg.norm(before - after) == 1.0
        replaced = base.copy()
        replaced[0] = cell
        distance = np.linalg.norm(before - Records(schema, replaced).counts(("a",)))
        assert distance <= math.sqrt(2)


def test_events_add_up_as_one_table_of_all():
    event = measurement_event([3.0, 3.0, 3.0, 3.0], "add-remove")
    single = measurement_event([1.5], "add-remove")
    assert account(event).epsilon(1e-5) == pytest.approx(account(single).epsilon(1e-5))


def test_independent_columns_have_the_right_shares():
    fitted = Independent(SCHEMA, epsilon=5.0, delta=1e-6, rng=1).fit(table())
    found = quality(fitted, table(), Workload.marginals([("a",), ("b",), ("c",)]))
    assert found.max_error < 0.01
    joint = quality(fitted, table(), PAIRS)
    assert joint.max_error > 0.03  # a and b depend on each other
    assert joint.table().shape == (3, 4)
    assert 0 < found.mean_total_variation < 0.01


def test_samples_have_the_form_of_the_table_and_follow_the_model():
    fitted = Independent(SCHEMA, epsilon=5.0, delta=1e-6, rng=1).fit(table())
    drawn = fitted.sample(5000, rng=3)
    assert list(drawn.columns) == ["c", "a", "b"]
    assert drawn.dtypes.tolist() == table().dtypes.tolist()
    assert len(fitted.sample(rng=0)) == 3000
    share = fitted.answer(Workload.conjunctions([{"b": None}]))[0]
    assert_rate(int(drawn["b"].isna().sum()), 5000, float(share))
    again = fitted.sample(5000, rng=3)
    pd.testing.assert_frame_equal(drawn, again)
    assert set(fitted.sample(50, rng=0, where={"b": "x", "a": [1, 2]})["a"]) <= {1, 2}


def test_noisy_marginals_answer_but_do_not_sample():
    fitted = NoisyMarginals(SCHEMA, PAIRS, epsilon=2.0, delta=1e-6, rng=0).fit(table())
    assert compare(Records(SCHEMA, SCHEMA.encode(table())), fitted.model_, PAIRS).max_error < 0.02
    margin = fitted.answer(Workload.marginals([("c",), ("b", "a")]))
    assert margin[:3].sum() == pytest.approx(1)
    with pytest.raises(InvalidArgument, match="only answer"):
        fitted.sample(5)
    with pytest.raises(InvalidArgument, match="were not measured"):
        fitted.answer(Workload.marginals([("a", "b", "c")]))


@pytest.mark.parametrize("method", [Independent, NoisyMarginals])
def test_files_give_the_same_model(method, tmp_path):
    fitted = method(SCHEMA, PAIRS, epsilon=2.0, delta=1e-6, rng=0).fit(table())
    back = load(fitted.save(tmp_path / "model.npz"))
    np.testing.assert_array_equal(back.answer(PAIRS), fitted.answer(PAIRS))
    assert back.event_ == fitted.event_
    assert back.method_ == method.__name__
    assert back.privacy_.epsilon(1e-6) == fitted.privacy_.epsilon(1e-6)
    if method is Independent:
        pd.testing.assert_frame_equal(back.sample(20, rng=1), fitted.sample(20, rng=1))


def test_files_that_are_none(tmp_path):
    with pytest.raises(InvalidArgument, match="is not a file"):
        load(tmp_path / "none.npz")
    path = Independent(SCHEMA, rng=0).fit(table()).save(tmp_path / "m.npz")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidArgument, match="damaged"):
        load(path)
    np.savez(path, codes=np.zeros(3))
    with pytest.raises(InvalidArgument, match="damaged"):
        load(path)
    with pytest.raises(InvalidArgument, match="cannot be written"):
        Independent(SCHEMA, rng=0).fit(table()).save(tmp_path / "no" / "m.npz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "no privacy"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 0.0}, "delta=0 must be positive"),
        ({"neighbouring": "next-door"}, "neighbouring"),
        ({"n_records": 0}, "n_records"),
    ],
)
def test_budgets_that_are_none(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        Independent(SCHEMA, **arguments).fit(table())


def test_nothing_before_a_fit_and_no_schema_from_data():
    with pytest.raises(InvalidArgument, match="not fitted"):
        Independent(SCHEMA).sample(3)
    with pytest.raises(InvalidArgument, match="leak"):
        Independent({"a": [1]})
    with pytest.raises(InvalidArgument, match="not in the schema"):
        Independent(SCHEMA, Workload.marginals([("z",)]))


def test_projection_is_nearest():
    rng = np.random.default_rng(0)
    for _ in range(50):
        v = rng.normal(size=6)
        nearest = on_simplex(v)
        assert nearest.min() >= 0
        assert nearest.sum() == pytest.approx(1)
        others = rng.dirichlet(np.full(6, 0.5), 200)
        assert (np.linalg.norm(others - v, axis=1) >= np.linalg.norm(nearest - v) - 1e-12).all()


def test_train_on_synthetic():
    frame = table().dropna()
    scores = train_on_synthetic(frame, frame.sample(500, random_state=0), "b", test=frame)
    assert scores["synthetic"] == pytest.approx(scores["real"], abs=0.05)
    with pytest.raises(InvalidArgument, match="target"):
        train_on_synthetic(frame, frame, "z", test=frame)


def test_records_without_a_target_are_left_out_of_training_and_test():
    frame = pd.DataFrame({"a": [0, 1] * 100, "b": ["x", "y"] * 100})
    missing = frame.assign(b=frame["b"].where(np.arange(200) % 10 > 1))
    assert train_on_synthetic(frame, missing, "b", test=missing) == {"real": 1.0, "synthetic": 1.0}
    with pytest.raises(InvalidArgument, match="missing in every record"):
        train_on_synthetic(frame, frame.assign(b=None), "b", test=frame)


def test_a_model_is_trained_on_many_of_its_records(monkeypatch):
    """Fifty thousand, or as many as the true table has: they cost nothing."""
    frame = pd.DataFrame({"a": [0, 1, 2, 3] * 30, "b": ["x", "y"] * 60})
    schema = Schema({"a": range(4), "b": ["x", "y"]})
    fitted, asked = Independent(schema, delta=1e-5, rng=0).fit(frame), []
    draw = fitted.sample
    monkeypatch.setattr(fitted, "sample", lambda n, rng: asked.append(n) or draw(n // 100, rng))
    train_on_synthetic(frame, fitted, "b", test=frame)
    assert asked == [50_000]


def test_what_is_no_workload_or_condition_is_refused():
    schema = Schema({"a": [0, 1]})
    with pytest.raises(InvalidArgument, match=r"workload=.* must be a Workload"):
        Independent(schema, [("a",)])
    fitted = Independent(schema, delta=1e-5, rng=0).fit(np.zeros((50, 1), int))
    with pytest.raises(InvalidArgument, match=r"workload=.* must be a Workload"):
        fitted.answer([("a",)])
    with pytest.raises(InvalidArgument, match=r"where=.* must be a mapping"):
        fitted.sample(3, rng=0, where=["a"])
