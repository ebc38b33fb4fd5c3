"""Data sets: features from public constants, files as published, a clear word where they lack."""

import gzip
import struct

import numpy as np
import pandas as pd
import pytest

from dpassay import datasets
from dpassay.datasets import (
    DatasetMissing,
    load_adult,
    load_adult_codes,
    load_cifar10,
    load_location30,
    load_mnist,
    load_purchase100,
    made_up_profiles,
)

ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K\n"
)
OTHER = (
    "120, ?, 1, Masters, 14, Widowed, ?, Wife, Black, Female, 0, 0, 40, ?, >50K.\n"  # age too large
)


def write(path, data, zipped):
    path.parent.mkdir(exist_ok=True)
    if zipped:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(data))
    else:
        path.write_bytes(data)


@pytest.mark.parametrize("zipped", [True, False])
def test_adult(tmp_path, monkeypatch, zipped):
    write(tmp_path / "adult" / "adult.data", ROW.encode(), zipped)
    write(tmp_path / "adult" / "adult.test", ("|header\n" + OTHER).encode(), zipped)
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    data = load_adult()
    assert data.X_train.shape == (1, 107)
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0], [1])
    row = data.X_train[0] * np.sqrt(13)
    np.testing.assert_allclose(row[:5], [22 / 73, 12 / 15, 2174 / 99999, 0, 39 / 98])
    assert row[5:].sum() == pytest.approx(8)  # one of each category
    assert data.X_test[0, 0] * np.sqrt(13) == pytest.approx(1)  # clipped to the published range
    assert np.linalg.norm(data.X_test, axis=1).max() <= data.data_norm


def test_adult_codes(tmp_path):
    folder = tmp_path / "adult"
    folder.mkdir()
    (folder / "adult-discrete-domain.json").write_text('{"sex": 2, "age": 85}')
    with pytest.raises(DatasetMissing, match="adult-discrete"):
        load_adult_codes(tmp_path)
    (folder / "adult-discrete.csv").write_text("age,sex\n23,1\n34,0\n")
    sizes, codes = load_adult_codes(tmp_path)
    assert sizes == {"sex": 2, "age": 85}
    np.testing.assert_array_equal(codes, [[1, 23], [0, 34]])  # in the order of the domain


def test_adult_marks_what_is_missing():
    frame = pd.DataFrame([ROW.strip().split(", ")], columns=list(datasets._ADULT_COLUMNS))
    frame["workclass"] = None
    X, _ = datasets.adult_features(frame)
    first = datasets.ADULT_CATEGORIES["workclass"].split().index("?")
    assert X[0, 5 + first] > 0


def test_mnist(tmp_path):
    rng = np.random.default_rng(0)
    for part, n in (("train", 3), ("t10k", 2)):
        images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        head = struct.pack(">iiii", 0x803, n, 28, 28)
        write(tmp_path / "mnist" / f"{part}-images-idx3-ubyte", head + images.tobytes(), True)
        labels = struct.pack(">ii", 0x801, n) + bytes(range(n))
        write(tmp_path / "mnist" / f"{part}-labels-idx1-ubyte", labels, True)
    data = load_mnist(tmp_path)
    assert data.X_train.shape == (3, 784)
    assert data.y_test.tolist() == [0, 1]
    np.testing.assert_allclose(np.linalg.norm(data.X_train, axis=1), 1, rtol=1e-5)
    direction = (
        images.reshape(2, -1) / np.linalg.norm(images.reshape(2, -1).astype(float), axis=1)[:, None]
    )
    np.testing.assert_allclose(data.X_test, direction, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "load", "n_features", "n_classes"),
    [("location30", load_location30, 446, 30), ("purchase100", load_purchase100, 600, 100)],
)
def test_rows_of_bits(tmp_path, name, load, n_features, n_classes):
    lines = b"".join(b'"%d",' % (i + 1) + b",".join([b"1"] * n_features) + b"\n" for i in range(4))
    write(tmp_path / name / f"{name}.csv", lines, True)
    data = load(tmp_path, n_train=3)
    assert data.X_train.shape == (3, n_features)
    assert data.y_test.tolist() == [3]
    assert data.classes == tuple(range(n_classes))
    np.testing.assert_allclose(np.linalg.norm(data.X_train, axis=1), 1)


def test_cifar10(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (12, 3072), dtype=np.uint8)
    files = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    for i, name in enumerate(files):
        parts = (bytes([j]) + images[j].tobytes() for j in (2 * i % 10, (2 * i + 1) % 10))
        write(tmp_path / "cifar10" / name, b"".join(parts), i % 2)
    data = load_cifar10(tmp_path)
    assert (data.y_train.tolist(), data.y_test.tolist()) == (list(range(10)), [0, 1])
    rows = images[:10] / np.linalg.norm(images[:10].astype(float), axis=1, keepdims=True)
    np.testing.assert_allclose(data.X_train, rows, rtol=1e-5)
    np.testing.assert_allclose(data.X_test, rows[:2], rtol=1e-5)


def test_made_up_profiles_are_of_the_kind_of_location30():
    data = made_up_profiles()
    assert (data.X_train.shape, data.X_test.shape) == ((1600, 446), (3410, 446))
    bits = data.X_train * np.sqrt(446)
    assert set(np.unique(bits).round(9)) == {0, 1}
    assert bits.mean() == pytest.approx(0.121, abs=0.005)  # as in Location-30
    assert set(data.y_train) == set(data.classes)
    centers = np.array([data.X_train[data.y_train == c].mean(axis=0) for c in data.classes])
    centers -= (centers**2).sum(axis=1, keepdims=True) / 2 / data.X_train.sum(axis=1).mean()
    guesses = (data.X_test @ centers.T).argmax(axis=1)
    assert 0.4 < (guesses == data.y_test).mean() < 0.95  # classes can be told, not perfectly
    np.testing.assert_array_equal(made_up_profiles().X_test, data.X_test)
    assert not np.array_equal(made_up_profiles(rng=1).X_test, data.X_test)


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    with pytest.raises(DatasetMissing, match="DPASSAY_DATA is not set"):
        load_location30()

    def offline(**_):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    for load in (load_adult, load_mnist, load_cifar10):
        with pytest.raises(DatasetMissing, match=r"no network.*pass folder="):
            load(tmp_path)
