"""Probes: nothing happens in an ordinary run; in a trial the worlds differ by the canary alone."""

import math

import numpy as np
import pandas as pd
import pytest

from dpassay import probe
from dpassay.errors import InvalidArgument
from extras import needs


def both(records, canary):
    """The records with and without the canary."""
    for with_canary in (True, False):
        with probe.playing(with_canary):
            yield probe.data(records, canary=canary)


def test_an_ordinary_run():
    records = object()
    assert probe.data(records, canary="anything") is records
    assert probe.release(object(), score=lambda _: 1 / 0) is None


def test_a_trial_ends():
    with pytest.raises(KeyError), probe.playing(True):
        raise KeyError
    records = [1]
    assert probe.data(records, canary=2) is records


X = np.arange(6, dtype=np.int16).reshape(3, 2)
FRAME = pd.DataFrame({"age": [1, 2], "name": ["a", "b"]}, index=[5, 9])


@pytest.mark.parametrize(
    ("records", "canary", "read"),
    [
        ([1, 2], 3, list),
        (X, [7.0, 8.0], np.asarray),
        (X[:, 0], 7, np.asarray),
        ((X, [0, 1, 0]), ([7, 8], 1), lambda pair: np.column_stack(pair)),
        ({"x": X, "y": X[:, 0]}, {"y": 3, "x": [7, 8]}, lambda d: np.column_stack([*d.values()])),
        (FRAME, {"name": "c", "age": 3}, lambda frame: frame.to_numpy()),
        (FRAME, (3, "c"), lambda frame: frame.to_numpy()),
        (FRAME["age"], 3, lambda series: series.to_numpy()),
    ],
)
def test_kinds_of_records(records, canary, read):
    here, gone = both(records, canary)
    assert type(here) is type(gone) is type(records)
    assert len(read(here)) == len(read(gone)) + 1
    np.testing.assert_array_equal(read(gone), read(records))
    np.testing.assert_array_equal(read(here)[:-1], read(records))
    assert getattr(here, "dtype", None) is getattr(gone, "dtype", None)


def test_the_canary_is_what_was_passed():
    here, _ = both((X, ["a", "b", "c"]), ([7.0, 8.0], "d"))
    assert here[0][-1].tolist() == [7, 8]
    assert here[1][-1] == "d"
    frame, _ = both(FRAME, {"name": "c", "age": 3})
    assert frame.iloc[-1].to_dict() == {"age": 3, "name": "c"}
    assert frame.dtypes.to_dict() == FRAME.dtypes.to_dict()


@pytest.mark.parametrize(
    ("records", "canary", "named"),
    [
        (X, [1.0], "shape"),
        (X, [[1, 2]], "shape"),
        ((X, X), (X[0],), "parts"),
        ((X, X), 3, "parts"),
        ({"x": X}, {"z": X[0]}, "keys"),
        (FRAME, {"age": 3}, "columns"),
        (FRAME, (3,), "parts"),
        (iter([1]), 1, "list_iterator"),
        ("text", "t", "str"),
    ],
)
def test_what_does_not_fit_fails_in_both_worlds(records, canary, named):
    """In one world only it would look like a leak."""
    for with_canary in (True, False):
        with probe.playing(with_canary), pytest.raises(InvalidArgument, match=named):
            probe.data(records, canary=canary)


def test_release_hands_over_a_copy_or_a_score():
    weights = [1.0, 2.0]
    with probe.playing(True) as trial:
        probe.data([1], canary=2)
        probe.release(weights)
        weights.append(3.0)
    assert trial.output("train.py") == [1.0, 2.0]
    with probe.playing(True) as trial:
        probe.data([1], canary=2)
        probe.release(weights, score=len)
    assert trial.output("train.py") == 3.0


@pytest.mark.parametrize(
    ("n_data", "n_released", "named"),
    [
        (0, 1, "never called probe.data"),
        (1, 0, "never called probe.release"),
        (2, 1, "probe.data 2 times"),
        (1, 3, "probe.release 3 times"),
    ],
)
def test_missing_or_repeated_probes(n_data, n_released, named):
    trial = probe.Trial(True, n_data=n_data, released=[1.0] * n_released)
    with pytest.raises(InvalidArgument, match=f"train.py.*{named}"):
        trial.output("train.py")


# ------------------------------------------------------------------------------------- torch


def test_torch_data_sets():
    torch = needs("torch")
    from torch.utils.data import DataLoader, Dataset, TensorDataset

    features, labels = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0])

    class Rows(Dataset):
        targets = labels

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return features[i], int(labels[i])

    for records in (TensorDataset(features, labels), Rows(), (features, labels)):
        here, gone = both(records, ([7, 8], 1))
        assert type(here) is type(gone)
        if isinstance(records, tuple):
            here, gone = TensorDataset(*here), TensorDataset(*gone)
        assert (len(here), len(gone)) == (4, 3)
        x, y = next(iter(DataLoader(here, batch_size=4)))
        assert x.tolist() == [*features.tolist(), [7.0, 8.0]]
        assert y.tolist() == [0, 1, 0, 1]
        assert x.dtype == features.dtype
        assert next(iter(DataLoader(gone, batch_size=4)))[0].tolist() == features.tolist()
        assert not hasattr(here, "targets")
        assert not hasattr(gone, "targets")
    with probe.playing(False), pytest.raises(InvalidArgument, match="shape"):
        probe.data(Rows(), canary=([1.0], 0))


def test_torch_models_are_scored_at_the_canary():
    torch = needs("torch")
    canary = ([1.0, -2.0], 2)

    def score(model, canary):
        with probe.playing(True) as trial:
            probe.data([canary], canary=canary)
            probe.release(model)
        return trial.output("train.py")

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout(0.5))
    model[0].eval()
    p = float(torch.softmax(model[0](torch.tensor([canary[0]])), dim=1)[0, 2].detach())
    assert score(model, canary) == pytest.approx(math.log(p / (1 - p)), rel=1e-5)
    assert [module.training for module in model.modules()] == [True, False, True]
    logs = torch.nn.Sequential(model[0], torch.nn.LogSoftmax(dim=1))
    assert score(logs, canary) == pytest.approx(math.log(p / (1 - p)), rel=1e-5)
    one = torch.nn.Linear(2, 1)
    z = float(one(torch.tensor(canary[0])).detach())
    assert score(one, (canary[0], 1)) == pytest.approx(z, rel=1e-6)
    assert score(one, (canary[0], 0)) == pytest.approx(-z, rel=1e-6)
    assert score(one, (canary[0], 0.25)) == pytest.approx(-((z - 0.25) ** 2), rel=1e-5)
    with torch.no_grad():
        model[0].weight[2] *= 1e4  # sure beyond what a loss can tell
    sure = score(model, ([1.0, 0.0], 2)), score(model, ([2.0, 0.0], 2))
    assert abs(sure[1]) > abs(sure[0]) > 100
    with pytest.raises(InvalidArgument, match="score="):
        score(torch.nn.Linear(2, 3), (torch.ones(2), torch.tensor([1, 2])))
