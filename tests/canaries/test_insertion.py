"""Canaries inside data sets: who gets them, and that the length never tells the coins."""

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.canaries.insertion import WithCanaries
from dpassay.errors import InvalidArgument, InvalidTarget
from extras import needs

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(30, 12)), np.arange(30) % 3


class Pictures:
    """A data set of pictures in the manner of torch, which reads record by record."""

    def __len__(self):
        return 20

    def __getitem__(self, i):
        if not 0 <= i < 20:
            raise IndexError(i)
        return np.full((4, 4), float(i), np.float32), i % 4


def inserted(make, dataset, seed, **how):
    with da.canaries.audit(rng=seed):
        canaries = make()
        return canaries, canaries.insert(dataset, **how)


def coins_of(canaries):
    return canaries._inserted.coins


def test_canaries_are_live_without_an_audit_around_them():
    """What a user's script does: insert, train, judge. The next training has other coins."""
    dataset, coins = [np.zeros(64)] * 20, []
    canaries = da.canaries.for_rows(dataset, n=60, rng=11, norm=1.0)
    with pytest.raises(InvalidTarget, match=r"insert was never called. Add: train_set ="):
        canaries.judge(lambda x: x @ np.ones(64), claim="1,1e-5")
    for noise in (1e-3, 10.0):
        data = canaries.insert(dataset)
        with pytest.raises(InvalidTarget, match="called twice"):
            canaries.insert(dataset)
        model = sum(data) + noise * RNG.normal(size=64)
        verdict = canaries.judge(lambda x, model=model: x @ model, claim="1,1e-5")
        assert (verdict.refuted, verdict.trials) == (noise < 1, 1)
        coins.append(coins_of(canaries))
    assert (coins[0] != coins[1]).any()


def test_two_sets_of_canaries_with_one_seed_do_not_share_their_coins():
    """If they did, coin i would decide on two records, and a claim about one would fall."""
    sets = [da.canaries.for_rows(X, n=200, rng=12) for _ in range(2)]
    for canaries in sets:
        canaries.insert(X)
    assert 60 < (coins_of(sets[0]) != coins_of(sets[1])).sum() < 140


def test_trials_and_checks_find_the_same_coins_each_time():
    def insert():
        canaries = da.canaries.for_rows(X, n=50, rng=13)
        canaries.insert(X)
        return coins_of(canaries).tolist()

    found = []
    for with_canary in (True, False):
        with da.probe.playing(with_canary):
            found.append(insert())
    assert found[0] == found[1] == insert()


@pytest.mark.parametrize("seed", range(3))
def test_a_canary_that_is_out_is_given_to_nobody(seed):
    dataset = Pictures()
    canaries, data = inserted(lambda: da.canaries.for_images(dataset, n=8), dataset, seed)
    coins, records = coins_of(canaries), canaries.made.parts
    assert len(data) == 28
    got = data.__getitems__(list(range(28)))
    assert len(got) == 20 + coins.sum() == len(list(data))
    for x, y in got:
        assert x.dtype == np.float32
        assert type(y) is int
    for canary, present in enumerate(coins):
        if present:
            np.testing.assert_allclose(data[20 + canary][0], records[0][canary], rtol=1e-6)
        else:
            with pytest.raises(InvalidTarget, match="canary that is out"):
                data[20 + canary]
    np.testing.assert_array_equal(data.draws, 3)  # both ways of reading, and one by one


def test_batches_of_a_loader_and_of_a_subset():
    torch = needs("torch", "torch")
    from torch.utils.data import DataLoader, Subset, TensorDataset

    dataset = TensorDataset(torch.tensor(X), torch.tensor(Y))
    make = lambda: da.canaries.for_rows(dataset, n=10)  # noqa: E731
    canaries, data = inserted(make, dataset, 1)
    coins = coins_of(canaries)
    seen = torch.cat([x for x, _ in DataLoader(data, batch_size=16, shuffle=True)])
    assert len(seen) == 30 + coins.sum()
    part = Subset(data, list(range(25, 40)))
    assert sum(len(x) for x, _ in DataLoader(part, batch_size=15)) == 5 + coins.sum()
    assert all(type(x) is torch.Tensor for x in data.__getitems__([0])[0])


@pytest.mark.filterwarnings("ignore")
def test_opacus_has_the_same_rate_and_divisor_whatever_the_coins():
    """And a batch in which no record is left does not end the training."""
    torch = needs("torch", "torch")
    needs("opacus", "torch")
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    dataset = TensorDataset(torch.tensor(X).float(), torch.tensor(Y))
    seen, sizes = set(), set()
    for seed in range(4):
        make = lambda: da.canaries.for_rows(dataset, n=12)  # noqa: E731
        canaries, data = inserted(make, dataset, seed)
        sizes.add(int(coins_of(canaries).sum()))
        model = torch.nn.Linear(12, 3)
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=DataLoader(data, batch_size=2),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        seen.add((loader.sample_rate, len(loader), optimizer.expected_batch_size))
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert len(seen) == 1
    assert len(sizes) > 1


def test_a_batch_in_which_every_record_is_out():
    """A plain loader cannot make a batch of none, and says what to do; with stand-ins it can."""
    torch = needs("torch", "torch")
    from torch.utils.data import DataLoader, TensorDataset

    dataset = TensorDataset(torch.tensor(X), torch.tensor(Y))
    make = lambda: da.canaries.for_rows(dataset, n=10)  # noqa: E731
    _, data = inserted(make, dataset, 1)
    assert len(data.__getitems__([])) == 0
    with pytest.raises(InvalidTarget, match=r"every record of this batch.*out='replaced'"):
        list(DataLoader(data, batch_size=1))
    canaries, data = inserted(make, dataset, 1, out="replaced")
    rows, labels = (torch.cat(part) for part in zip(*DataLoader(data, batch_size=1), strict=True))
    (own, right), (_, wrong) = parts(canaries)
    np.testing.assert_allclose(rows[30:], own, rtol=1e-6)
    np.testing.assert_array_equal(labels[30:], np.where(coins_of(canaries), right, wrong))


def test_canaries_of_two_kinds_in_one_data_set():
    dataset = [*zip(X, Y, strict=True)]
    with da.canaries.audit(rng=3):
        first, second = (da.canaries.for_rows(dataset, n=6, rng=rng) for rng in (1, 2))
        data = second.insert(first.insert(dataset))
    n_in = int(coins_of(first).sum() + coins_of(second).sum())
    assert len(data) == 42
    assert len(data.__getitems__(range(42))) == 30 + n_in
    assert [y for _, y in data.__getitems__([29, *range(30, 36), 0])][-1] == Y[0]


def test_draws_are_counted_in_the_workers_of_a_loader():
    torch = needs("torch", "torch")
    from torch.utils.data import DataLoader, TensorDataset

    dataset = TensorDataset(torch.tensor(X), torch.tensor(Y))
    canaries, data = inserted(lambda: da.canaries.for_rows(dataset, n=10), dataset, 1)
    for _ in range(2):
        list(DataLoader(data, batch_size=20, num_workers=1))
    np.testing.assert_array_equal(data.draws, 2)
    assert canaries._inserted.draws() == 2


def test_dicts_in_the_manner_of_hugging_face():
    columns = {
        "input_ids": RNG.integers(50, size=(9, 6)).tolist(),
        "attention_mask": np.ones((9, 6), int).tolist(),
        "labels": [0, 1, 1] * 3,
    }
    records = [{name: values[i] for name, values in columns.items()} for i in range(9)]
    for dataset in (columns, records):
        make = lambda d=dataset: da.canaries.for_text(d, 50, n=5)  # noqa: E731
        canaries, data = inserted(make, dataset, 2)
        coins = coins_of(canaries)
        assert (len(data), data.column_names) == (14, list(columns))
        canary = int(np.flatnonzero(coins)[0])
        record = data[9 + canary]
        assert record["input_ids"] == [50 + canary] * 6
        assert record["attention_mask"] == [1] * 6
        assert record["labels"] in (0, 1)
        assert data[3] == records[3]


def test_a_tuple_of_arrays_has_a_stand_in_with_another_label():
    for seed in range(3):
        make = lambda: da.canaries.for_rows(X, Y, n=7)  # noqa: E731
        canaries, (rows, labels) = inserted(make, (X, Y), seed)
        coins, (own, right), (_, wrong) = coins_of(canaries), *parts(canaries)
        assert rows.shape == (37, 12)
        np.testing.assert_array_equal(rows[:30], X)
        np.testing.assert_array_equal(rows[30:], own)
        np.testing.assert_array_equal(labels[30:], np.where(coins, right, wrong))
        assert not (right == wrong).any()


def parts(canaries):
    return canaries.made.parts, canaries.made.stand_ins


def test_rows_without_labels_have_mirror_images():
    canaries, rows = inserted(lambda: da.canaries.for_rows(X, n=5), X, 0)
    signs = np.where(coins_of(canaries), 1.0, -1.0)[:, None]
    np.testing.assert_array_equal(rows[30:], signs * canaries.made.parts)


def test_removed_canaries_change_the_length():
    make = lambda: da.canaries.for_rows(X, Y, n=7)  # noqa: E731
    canaries, (rows, labels) = inserted(make, (X, Y), 0, out="removed")
    assert len(rows) == len(labels) == 30 + coins_of(canaries).sum()


def test_frames():
    frame = pd.DataFrame({"age": np.arange(6.0), "town": list("abcabc")})
    y = pd.Series([0, 1] * 3, name="ill")
    make = lambda: da.canaries.for_rows(frame, y, n=4, level="town")  # noqa: E731
    canaries, (rows, labels) = inserted(make, (frame, y), 1)
    assert list(rows.columns) == ["age", "town"]
    assert rows["town"].tolist()[6:] == [f"canary-{i}" for i in range(4)]
    assert rows["age"].tolist() == [*range(6), 0, 0, 0, 0]
    assert rows.dtypes.equals(frame.dtypes)
    assert labels.name == "ill"
    right, wrong = canaries.made.parts[1], canaries.made.stand_ins[1]
    np.testing.assert_array_equal(labels[6:], np.where(coins_of(canaries), right, wrong))
    whole, data = inserted(lambda: da.canaries.for_rows(frame, n=4, level="town"), frame, 1)
    expected = [f"{'canary' if c else 'stand-in'}-{i}" for i, c in enumerate(coins_of(whole))]
    assert data["town"].tolist()[6:] == expected


def test_levels_of_a_category_are_the_same_whatever_the_coins():
    frame = pd.DataFrame({"town": pd.Categorical(list("aab"))})
    seen = set()
    for seed in range(3):
        make = lambda: da.canaries.for_rows(frame, n=4, level="town")  # noqa: E731
        _, data = inserted(make, frame, seed)
        assert data["town"].dtype == "category"
        seen.add(tuple(data["town"].cat.categories))
    assert len(seen) == 1


def test_mislabelled_records_take_the_place_of_the_right_ones():
    for dataset in ((X, Y), list(zip(X, Y, strict=True))):
        make = lambda d=dataset: da.canaries.mislabelled(d, n=11, rng=3)  # noqa: E731
        canaries, data = inserted(make, dataset, 4)
        coins, places = coins_of(canaries), canaries.made.places
        wrong = np.asarray(canaries.made.parts[1])
        assert not (wrong == Y[places]).any()
        assert len(data[0] if isinstance(data, tuple) else data) == 30
        if isinstance(data, tuple):  # the right record stands for a canary that is out
            np.testing.assert_array_equal(data[1][19:], np.where(coins, wrong, Y[places]))
            np.testing.assert_array_equal(data[0][19:], X[places])
            continue
        got = {tuple(x): y for x, y in data}
        assert len(got) == 30 - (~coins).sum()
        for place, label, present in zip(places, wrong, coins, strict=True):
            assert got.get(tuple(X[place])) == (label if present else None)


def test_users_are_in_or_out_with_all_their_records():
    dataset = Pictures()
    make = lambda: da.canaries.for_images(dataset, n=6, records_per_user=3)  # noqa: E731
    canaries, data = inserted(make, dataset, 2)
    assert (len(canaries), len(data)) == (6, 20 + 18)
    np.testing.assert_array_equal(data.present, np.repeat(coins_of(canaries), 3))


def test_coins_are_the_audits_own():
    """Neither the script's generators nor the seed of the canaries matter."""
    found = []
    for seed, rng in ((0, 0), (0, 9), (1, 0)):
        np.random.seed(rng)  # noqa: NPY002
        make = lambda rng=rng: da.canaries.for_rows(X, n=200, rng=rng)  # noqa: E731
        found.append(coins_of(inserted(make, X, seed)[0]))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    with da.canaries.audit(rng=0) as session:  # two sets of canaries have coins of their own
        assert (session.flip(200) != session.flip(200)).any()


def test_what_is_refused():
    dataset = Pictures()
    with da.canaries.audit():
        canaries = da.canaries.for_images(dataset, n=4)
        with pytest.raises(InvalidTarget, match=r"never called in this audit"):
            canaries.judge(lambda x, y: x, claim="1")
        with pytest.raises(InvalidArgument, match="out='removed' must be one of 'undrawn'"):
            canaries.insert(dataset, out="removed")
        with pytest.raises(InvalidArgument, match="another kind"):
            canaries.insert((X, Y))
        canaries.insert(dataset)
        with pytest.raises(InvalidTarget, match="called twice"):
            canaries.insert(dataset)
    with pytest.raises(InvalidArgument, match="must be a data set with a length"):
        da.canaries.for_images(7)
    with pytest.raises(InvalidArgument, match="dataset is empty"):
        da.canaries.for_images([])
    with pytest.raises(InvalidArgument, match=r"lengths \[1, 2\]"):
        da.canaries.for_text({"input_ids": [[1], [2]], "labels": [1]}, 5)


def test_a_data_set_with_canaries_can_be_sent_to_the_workers_of_a_loader():
    import pickle

    canaries, data = inserted(lambda: da.canaries.for_rows([*X], n=4), [*X], 0)
    again = pickle.loads(pickle.dumps(data))
    assert isinstance(again, WithCanaries)
    assert len(list(again)) == 30 + coins_of(canaries).sum()
