# ruff: noqa: NPY002  (functions of np.random are what is tested)
"""Following draws: bits, patterns, what is lost, and that nothing stays patched."""

import json
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpassay.replay.draws import mark_of, strip
from dpassay.replay.entries import Edit
from dpassay.replay.generator import Recorder, recorder
from dpassay.replay.outputs import first_difference, settle
from dpassay.replay.patches import recording
from dpassay.replay.playing import Player
from dpassay.replay.tape import Tape, current

DATA = np.arange(5.0)


def played(mechanism, data=DATA, seed=1):
    return Player(mechanism, seed).record(data, len(data))


def everything(data, rng):
    x = data.copy()
    x += rng.normal(size=5)
    kept = list(data)
    rng.shuffle(kept)
    turned = data.copy()
    rng.shuffle(turned)
    total = rng.laplace()
    for value in data:
        total += value
    return {
        "scalar": data.sum() + rng.laplace(scale=2.0),
        "vector": rng.normal(0, 3, size=3) + data[:3],
        "int": np.int64(3) + rng.geometric(0.3) - rng.geometric(0.3),
        "python int": 3 + rng.geometric(0.3),
        "list": np.argmax([v + rng.laplace() for v in data]),
        "argmax": (data + rng.gumbel(size=5)).argmax(),
        "located": float(rng.laplace(data.sum(), 2.0)),
        "in place": x,
        "coins": rng.random(5) < 0.5,
        "coin": rng.random() < 0.3,
        "bits": rng.binomial(1, 0.4, 5),
        "shuffled": (kept, turned, rng.permutation(data), rng.permutation(5)),
        "shuffled rows": rng.permutation(np.arange(12.0).reshape(6, 2)),
        "chosen": (rng.choice(data, 3, replace=False), rng.choice(5), rng.choice(4, p=[0.25] * 4)),
        "integers": (
            rng.integers(10),
            rng.integers(2, 9, size=4),
            rng.integers(0, 3, endpoint=True),
        ),
        "float64": (np.float64(3.0) + rng.laplace(), rng.laplace() + np.float64(3.0)),
        "one by one": total,
        "negative": -2 * rng.standard_normal(3) - data[:3],
        "post-processed": np.maximum(np.sqrt(np.abs(data + rng.normal(size=5))), 1.0).sum(),
        "spawned": rng.spawn(1)[0].normal() + 1,
        "unpriced": rng.standard_t(3, size=2) + data[:2],
        "poisson": rng.poisson(3.0),
        "multivariate": rng.multivariate_normal(np.zeros(2), np.eye(2)) + data[:2],
        "uniform": (rng.uniform(), rng.uniform(-1, 1, 3), rng.random(3) - 0.5),
        "json": json.dumps(rng.normal() + 1),
        "text": f"{rng.normal() + 1:.17g}",
        "mean": (data + rng.normal(size=5)).mean(),
        "float32": rng.standard_normal(4, dtype=np.float32) + np.ones(4, np.float32),
        "sliced": (data + rng.normal(size=5))[1:3].reshape(2, 1).T,
        "pandas": pd.Series(data) + rng.normal(size=5),
        "scipy": stats.laplace.rvs(loc=data, scale=2.0, random_state=rng),
        "scalar methods": (
            np.clip(np.median(data) + rng.laplace(), 0, 1),
            (data.sum() + rng.normal()).round(2),
            np.sum(data.max() + rng.normal()),
            (np.int64(4) + rng.geometric(0.5)).astype(float),
        ),
        "exponential": rng.exponential(2.0, 3) + data[:3],
        "where": np.where(data > 2, data + rng.normal(size=5), 0.0),
        "stacked": np.concatenate([rng.normal(size=2), rng.normal(size=3)]) + data,
        "compared": data + rng.laplace(size=5) > 2,
    }


def test_recording_changes_no_bit_and_no_type():
    tape = played(everything)
    plain = everything(DATA, np.random.default_rng(1))
    assert first_difference(tape.output, plain) is None


def hidden(data):
    return (
        data.sum() + np.random.laplace(),
        np.random.randn(3) + data[:3],
        np.random.rand(5) < 0.5,
        np.random.permutation(5),
        np.random.choice(5, 2, replace=False),
        np.random.normal(data[0], 2.0),
        random.gauss(0, 1) + 2,
        random.random() < 0.5,
        random.sample(range(9), 3),
        random.choice([1, 2, 3]),
    )


def test_hidden_generators_have_the_same_bits():
    output = played(hidden, seed=4).output
    random.seed(4)
    np.random.seed(4)
    assert first_difference(output, hidden(DATA)) is None


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**32), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6))
def test_bits_for_any_seed_and_query(seed, query):
    def release(data, rng):
        return (
            data + rng.laplace(0, 2.0, len(data)),
            rng.normal(data, 3.0),
            data.sum() - rng.normal(),
        )

    data = np.array(query)
    output = played(release, data, seed).output
    assert first_difference(output, release(data, np.random.default_rng(seed))) is None


def test_replay_of_d_on_d_is_exact_and_of_another_frozen():
    player = Player(everything, 1)
    first = player.record(DATA, 5)
    again = player.replay(first, DATA, Edit("same", -1, 5, 5))
    assert first_difference(first.output, again.output) is None
    other = player.replay(first, DATA + 1.0, Edit("given", -1, 5, 5))
    for name in ("scalar", "vector", "in place", "located", "argmax", "one by one", "float64",
                 "negative", "post-processed", "json", "pandas", "compared"):  # fmt: skip
        assert first_difference(first.output[name], other.output[name]) is None, name
    back = player.replay(other, DATA, Edit("given", -1, 5, 5))
    assert [e.query.tolist() for e in back.tape.entries] == [
        e.query.tolist() for e in first.tape.entries
    ]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.floats(0.01, 100), st.integers(0, 1000))
def test_a_draw_scaled_then_added_is_one_of_that_scale(c, seed):
    def entry(draw):
        return played(lambda data, rng: data.sum() + draw(rng), seed=seed).tape.entries[-1]

    left, right = entry(lambda rng: c * rng.laplace()), entry(lambda rng: rng.laplace(scale=c))
    assert (left.law, left.kind) == (right.law, right.kind)
    np.testing.assert_allclose(left.scale, right.scale)
    np.testing.assert_allclose(left.out, right.out, rtol=1e-12)


FOLLOWED = {
    "plus": lambda d, rng: d.sum() + rng.laplace(),
    "minus": lambda d, rng: d.sum() - rng.laplace(),
    "divided": lambda d, rng: d.sum() + rng.laplace() / 2,
    "add with out": lambda d, rng: np.add(d, rng.normal(size=5), out=d.copy()),
    "sum of draws": lambda d, rng: d.sum() + rng.normal(size=4).sum(),
    "two draws": lambda d, rng: d.sum() + rng.normal() + rng.normal(),
    "zipped": lambda d, rng: [c + z for c, z in zip(d, rng.laplace(size=5), strict=True)],
    "indexed": lambda d, rng: (lambda z: [d[i] + z[i] for i in range(5)])(rng.laplace(size=5)),
    "reshaped": lambda d, rng: d.reshape(5, 1) + rng.laplace(size=5)[:, None],
    "array of list": lambda d, rng: d + np.array([rng.laplace() for _ in range(5)]),
}


@pytest.mark.parametrize("release", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_followed(release):
    tape = played(release).tape
    assert tape.lost == []
    assert any(entry.counts for entry in tape.entries)


LOST = {
    "float": lambda d, rng: d.sum() + float(rng.normal()),
    "triangle": lambda d, rng: np.triu(rng.normal(size=(5, 5))) + d,
    "wider": lambda d, rng: rng.normal(size=5)[:, None] * np.ones((5, 5)) + d,
    "uniform": lambda d, rng: d.sum() + rng.random(),
    "projection": lambda d, rng: d @ rng.normal(size=(5, 2)),
    "square": lambda d, rng: d.sum() + rng.normal() ** 2,
}


@pytest.mark.parametrize("release", LOST.values(), ids=LOST.keys())
def test_lost_is_known_to_be_lost(release):
    assert played(release).tape.lost


def test_uses_and_merged_laws():
    def release(d, rng):
        return (
            (d + rng.laplace(size=5)).argmax(),
            np.argsort(d + rng.laplace(size=5)),
            d.sum() + rng.laplace() > d[0] + rng.laplace(),
            d.sum() + rng.exponential() - rng.exponential(),
            d.sum() + 3 * rng.normal() + 4 * rng.normal(),
        )

    counted = [entry for entry in played(release).tape.entries if entry.counts]
    uses = [set(entry.uses) for entry in counted]
    assert uses[:4] == [{"argmax"}, {"order"}, {"noisy comparison"}, {"noisy comparison"}]
    assert [entry.law for entry in counted[4:]] == ["laplace", "normal"]
    assert float(counted[-1].scale) == pytest.approx(5.0)


def test_coins_are_aligned_by_record():
    def release(d, rng):
        return rng.random(len(d)) < 0.5

    player = Player(release, 3)
    first = player.record(DATA, 5)
    for kind, index, n_prime in (("remove", 0, 4), ("remove", 2, 4), ("remove", 4, 4)):
        data = np.delete(DATA, index)
        now = player.replay(first, data, Edit(kind, index, 5, n_prime)).output
        np.testing.assert_array_equal(now, np.delete(first.output, index))
    for index in (0, 3, 5):
        now = player.replay(first, np.insert(DATA, index, 9.0), Edit("add", index, 5, 6)).output
        assert now[index]
        np.testing.assert_array_equal(np.delete(now, index), first.output)


def test_numbers_drawn_for_every_record_are_aligned():
    """Each record keeps its own; nothing is served in the shape of the other data set."""

    def shifted(data, rng):
        return data + rng.integers(0, 100, len(data)), rng.integers(0, 9, 3)

    player = Player(shifted, 0)
    first = player.record(DATA, len(DATA))
    n = len(DATA)
    less = player.replay(first, np.delete(DATA, 1, axis=0), Edit("remove", 1, n, n - 1))
    more = player.replay(first, np.append(DATA, DATA[:1], axis=0), Edit("add", n, n, n + 1))
    assert less.error is more.error is None
    np.testing.assert_array_equal(less.output[0], np.delete(first.output[0], 1, axis=0))
    np.testing.assert_array_equal(more.output[0][:n], first.output[0])
    np.testing.assert_array_equal(less.output[1], first.output[1])


def names_in_place():
    parts = (np.random, random, np)
    return [{name: id(getattr(part, name)) for name in dir(part)} for part in parts]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_patches_and_states_are_put_back_after_errors(error):
    def release(data, rng):
        np.random.laplace()
        random.random()
        raise error

    np.random.seed(5)
    random.seed(5)
    before = names_in_place()
    with pytest.raises(error):
        played(release)
    assert names_in_place() == before
    assert current() is None
    assert (np.random.laplace(), random.random()) == reference_draws(5)


def reference_draws(seed):
    np.random.seed(seed)
    random.seed(seed)
    return np.random.laplace(), random.random()


def test_names_imported_by_the_module_are_followed_and_put_back(tmp_path, monkeypatch):
    (tmp_path / "imports_early.py").write_text(
        "from numpy.random import laplace\ndef release(d): return d.sum() + laplace()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import imports_early

    original = imports_early.laplace
    tape = played(imports_early.release).tape
    assert [entry.law for entry in tape.entries] == ["laplace"]
    assert imports_early.laplace is original


def test_without_a_tape_a_recorder_is_a_generator():
    rng = recorder(3)
    assert isinstance(rng, np.random.Generator)
    value = rng.laplace(size=3)
    assert type(value) is np.ndarray
    np.testing.assert_array_equal(value, np.random.default_rng(3).laplace(size=3))
    assert isinstance(rng.spawn(1)[0], Recorder)


def test_a_thread_without_the_tape_draws_plainly():
    import threading

    seen = []
    with recording(Tape(5), 0):
        thread = threading.Thread(target=lambda: seen.append(np.random.laplace()))
        thread.start()
        thread.join()
    assert type(seen[0]) is float


def test_settled_outputs_have_no_marks():
    with recording(Tape(1), 0):
        noisy = 1.0 + recorder(0).laplace()
        assert mark_of(noisy) is not None
        out = settle({"a": [noisy, (noisy,)]})
    assert type(out["a"][0]) is float
    assert type(out["a"][1][0]) is float
    assert strip(noisy) == out["a"][0]


def test_equal_discrete_draws_are_not_one_noise():
    def release(d, rng):
        return [d.sum() + rng.geometric(0.999) - rng.geometric(0.999) for _ in range(3)]

    ids = [e.ids.item() for e in played(release).tape.entries if e.counts]
    assert len(set(ids)) == 3
