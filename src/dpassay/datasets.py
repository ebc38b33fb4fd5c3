"""The data sets of the experiments, with features prepared from public constants alone.

Looked for in a folder (the argument ``folder``, else the environment variable ``DPASSAY_DATA``), in
``adult/``, ``mnist/``, ``location30/``, ``cifar10/`` and ``purchase100/``, as their authors publish
them, gzipped or not; else downloaded through scikit-learn's OpenML client where it is there.
Nothing is bundled; where Location-30 is missing, :func:`made_up_profiles` can stand in for it.

Scaling uses ranges and categories that are published with the data, never the values in hand: a
range read off the data would leak its extremes.
"""

import gzip
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpassay._rng import RngLike, generator
from dpassay.errors import DatasetMissing
from dpassay.types import FloatArray

__all__ = [
    "ADULT_CATEGORIES",
    "ADULT_RANGES",
    "VARIABLE",
    "Dataset",
    "DatasetMissing",
    "adult_features",
    "load_adult",
    "load_adult_codes",
    "load_cifar10",
    "load_location30",
    "load_mnist",
    "load_purchase100",
    "made_up_profiles",
]

VARIABLE = "DPASSAY_DATA"
ADULT_RANGES = {
    "age": (17, 90),
    "education-num": (1, 16),
    "capital-gain": (0, 99999),
    "capital-loss": (0, 4356),
    "hours-per-week": (1, 99),
}
ADULT_CATEGORIES = {
    "workclass": "? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc "
    "State-gov Without-pay",
    "education": "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors "
    "Doctorate HS-grad Masters Preschool Prof-school Some-college",
    "marital-status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent "
    "Never-married Separated Widowed",
    "occupation": "? Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing "
    "Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty "
    "Protective-serv Sales Tech-support Transport-moving",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native-country": "? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador "
    "El-Salvador England France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong "
    "Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua "
    "Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South "
    "Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia",
}
_ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test records; every row of X has l2 norm ``data_norm`` at most."""

    X_train: FloatArray
    y_train: Any
    X_test: FloatArray
    y_test: Any
    data_norm: float
    classes: tuple[Any, ...]


def load_adult(folder: str | Path | None = None) -> Dataset:
    """Adult (census income, Becker and Kohavi 1996): 32 561 + 16 281 records, 107 columns.

    Five numbers scaled to [0, 1] by their published ranges and eight categories one-hot (missing
    values are one), all divided by sqrt(13), so that rows have norm 1 at most. The survey weight is
    left out. The label is whether the income exceeds 50 000. From OpenML the split is by its order.
    """
    found = _folder(folder, "adult", ("adult.data", "adult.test"))
    train, test = (
        [_adult_frame(found, "adult.data", 0), _adult_frame(found, "adult.test", 1)]
        if found
        else _adult_from_openml(folder)
    )
    (X, y), (X_test, y_test) = adult_features(train), adult_features(test)
    return Dataset(X, y, X_test, y_test, 1.0, (0, 1))


def load_adult_codes(folder: str | Path | None = None) -> tuple[dict[str, int], Any]:
    """Adult as the literature on synthetic data codes it: 48 842 records of 14 integer columns.

    How many values each column has, by name, and the records (McKenna et al. 2019; with the survey
    weight in bins). From ``adult/adult-discrete.csv`` and ``adult-discrete-domain.json`` alone.
    """
    import pandas as pd

    names = ("adult-discrete.csv", "adult-discrete-domain.json")
    found = _folder(folder, "adult", names)
    if found is None:
        raise _missing("adult", folder, f"{' and '.join(names)} are not on OpenML.")
    with _open(found, names[1]) as file:
        sizes = json.load(file)
    with _open(found, names[0]) as file:
        return sizes, pd.read_csv(file)[list(sizes)].to_numpy()


def adult_features(frame: Any) -> tuple[FloatArray, Any]:
    """The 107 columns and the label of a frame with Adult's columns."""
    parts = [
        np.clip((frame[name].to_numpy(float) - low) / (high - low), 0, 1)[:, None]
        for name, (low, high) in ADULT_RANGES.items()
    ]
    for name, categories in ADULT_CATEGORIES.items():
        values = frame[name].fillna("?").astype(str).to_numpy()
        parts.append((values[:, None] == np.array(categories.split())[None, :]).astype(float))
    X = np.hstack(parts) / math.sqrt(len(parts))
    return X, frame["income"].astype(str).str.startswith(">50K").to_numpy().astype(int)


def load_mnist(folder: str | Path | None = None) -> Dataset:
    """MNIST (LeCun et al. 1998): 60 000 + 10 000 images as rows of 784 pixels of l2 norm 1.

    In single precision.
    """
    names = [
        f"{part}-{kind}-ubyte"
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ]
    found = _folder(folder, "mnist", names)
    X, y, X_test, y_test = (
        [_idx(found, name) for name in names]
        if found
        else _images_from_openml("mnist", folder, 554, 60_000)
    )
    return Dataset(_unit_rows(X), y, _unit_rows(X_test), y_test, 1.0, tuple(range(10)))


def load_location30(folder: str | Path | None = None, n_train: int = 1600) -> Dataset:
    """Location-30 (Yang et al. 2016; Shokri et al. 2017): 5010 users, 446 binary features.

    The first ``n_train`` records, in the order of the file, are for training. Rows are divided by
    sqrt(446), so that their norm is 1 at most; the classes are 0 to 29.
    """
    return _profiles("location30", folder, n_train, n_classes=30)


def load_purchase100(folder: str | Path | None = None, n_train: int = 20_000) -> Dataset:
    """Purchase-100 (Shokri et al. 2017): 197 324 shoppers, 600 binary features, 100 classes.

    Made and split like Location-30, from ``purchase100.csv`` (class from 1 to 100, then the bits).
    """
    return _profiles("purchase100", folder, n_train, n_classes=100)


def _profiles(name: str, folder: str | Path | None, n_train: int, n_classes: int) -> Dataset:
    """Rows of bits after their class, which is counted from 1."""
    found = _folder(folder, name, (f"{name}.csv",))
    if found is None:
        raise _missing(name, folder, "It is not on OpenML.")
    with _open(found, f"{name}.csv") as file:
        table = np.array([line.replace(b'"', b"").split(b",") for line in file], dtype=np.int64)
    X, y = table[:, 1:] / math.sqrt(table.shape[1] - 1), table[:, 0] - 1
    classes = tuple(range(n_classes))
    return Dataset(X[:n_train], y[:n_train], X[n_train:], y[n_train:], 1.0, classes)


def load_cifar10(folder: str | Path | None = None) -> Dataset:
    """CIFAR-10 (Krizhevsky 2009): 50 000 + 10 000 images as rows of 3072 bytes of l2 norm 1.

    In single precision, from the files of its binary version, or from OpenML.
    """
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    found = _folder(folder, "cifar10", names)
    if found:
        *train, test = (_labelled_bytes(found, name) for name in names)
        X, y = (np.concatenate(part) for part in zip(*train, strict=True))
        X_test, y_test = test
    else:
        X, y, X_test, y_test = _images_from_openml("cifar10", folder, 40927, 50_000)
    return Dataset(_unit_rows(X), y, _unit_rows(X_test), y_test, 1.0, tuple(range(10)))


def made_up_profiles(
    n: int = 5010,
    n_features: int = 446,
    n_classes: int = 30,
    *,
    n_train: int = 1600,
    rng: RngLike = 0,
) -> Dataset:
    """Rows of bits of which some are likelier in each class: made up, of the kind of Location-30.

    As there, about one bit in eight is set, and a network that has learned 1000 records by heart is
    right about 0.6 of the others.
    """
    random = generator(rng)
    favoured = random.random((n_classes, n_features)) < 0.1
    y = random.integers(0, n_classes, n)
    bits = random.random((n, n_features)) < np.where(favoured[y], 0.3, 0.1)
    X = bits / math.sqrt(n_features)
    classes = tuple(range(n_classes))
    return Dataset(X[:n_train], y[:n_train], X[n_train:], y[n_train:], 1.0, classes)


def _unit_rows(images: Any) -> FloatArray:
    X = images.reshape(len(images), -1).astype(np.float32)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-6)


# Where the files are.


def _folder(folder: str | Path | None, name: str, files: Any) -> Path | None:
    """The folder that holds all files, gzipped or not; None where it is not there."""
    root = folder if folder is not None else os.environ.get(VARIABLE)
    if root is None:
        return None
    here = Path(root) / name
    return here if all(_path(here, file) for file in files) else None


def _path(folder: Path, name: str) -> Path | None:
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return path
    return None


def _open(folder: Path, name: str) -> Any:
    path = _path(folder, name)
    assert path is not None
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _adult_frame(folder: Path, name: str, skip: int) -> Any:
    import pandas as pd

    with _open(folder, name) as file:
        return pd.read_csv(file, names=_ADULT_COLUMNS, skipinitialspace=True, skiprows=skip)


def _idx(folder: Path, name: str) -> Any:
    """An array in MNIST's format: a magic number whose last byte is the number of dimensions."""
    with _open(folder, name) as file:
        data = file.read()
    n_dimensions = data[3]
    shape = np.frombuffer(data, ">i4", n_dimensions, 4)
    array = np.frombuffer(data, np.uint8, offset=4 + 4 * n_dimensions).reshape(shape)
    return array.astype(np.int64) if n_dimensions == 1 else array


def _labelled_bytes(folder: Path, name: str) -> tuple[Any, Any]:
    """Images in CIFAR-10's binary format: a byte for the class, then 3072 for the pixels."""
    with _open(folder, name) as file:
        table = np.frombuffer(file.read(), np.uint8).reshape(-1, 3073)
    return table[:, 1:], table[:, 0].astype(np.int64)


def _adult_from_openml(folder: str | Path | None) -> Any:
    frame = _openml("adult", folder, data_id=1590).rename(columns={"class": "income"})
    return frame.iloc[:32561], frame.iloc[32561:]


def _images_from_openml(name: str, folder: str | Path | None, data_id: int, n_train: int) -> Any:
    frame = _openml(name, folder, data_id=data_id)
    X, y = frame.iloc[:, :-1].to_numpy(np.uint8), frame.iloc[:, -1].to_numpy().astype(np.int64)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def _openml(name: str, folder: str | Path | None, data_id: int) -> Any:
    from sklearn.datasets import fetch_openml

    try:
        found: Any = fetch_openml(data_id=data_id, as_frame=True, parser="auto")
        return found.frame
    except Exception as error:
        raise _missing(name, folder, f"OpenML did not answer: {error}.") from error


def _missing(name: str, folder: str | Path | None, why: str) -> DatasetMissing:
    root = folder if folder is not None else os.environ.get(VARIABLE)
    looked = f"{Path(root) / name} does not hold it" if root else f"{VARIABLE} is not set"
    return DatasetMissing(
        f"the data set {name!r} is missing: {looked}. {why} Put its files into a folder {name}/ "
        f"and pass folder=, or set {VARIABLE} to the folder above it."
    )
