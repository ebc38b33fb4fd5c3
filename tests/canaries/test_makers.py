"""Canaries as they are made: of what is public alone, each with something of its own."""

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.errors import InvalidArgument
from extras import needs

RNG = np.random.default_rng(3)


def gram(rows):
    return rows @ rows.T


def changed(value, other):
    """Whether two sets of canaries differ anywhere."""
    return any((np.asarray(a) != np.asarray(b)).any() for a, b in zip(value, other, strict=True))


# ------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 8, 8), (3, 8, 8), (8, 8, 3), (50,)])
def test_pictures_are_orthogonal_and_of_the_same_norm(shape):
    data = [(np.zeros(shape, np.float32), i % 10) for i in range(20)]
    canaries = da.canaries.for_images(data, n=20)
    pictures, labels = canaries.made.parts
    assert pictures.shape == (20, *shape)
    size = np.prod(shape)
    np.testing.assert_allclose(gram(pictures.reshape(20, -1)), size * np.eye(20), atol=1e-9 * size)
    assert set(labels) <= set(range(10))


def test_pictures_are_of_high_frequency():
    """Smooth pictures have little energy along them; random directions have their share."""
    from scipy.ndimage import gaussian_filter

    smooth = np.array([gaussian_filter(RNG.normal(size=(16, 16)), 1.5) for _ in range(50)])
    data = [(picture, i % 2) for i, picture in enumerate(smooth)]
    own = da.canaries.for_images(data, n=100, norm=1.0).made.parts[0].reshape(100, -1)
    flat = smooth.reshape(50, -1)
    share = ((flat @ own.T) ** 2).sum() / (flat**2).sum()
    assert share < 0.01 < 100 / 256
    known = da.canaries.for_images(data, n=100, norm=1.0, public=smooth).made.parts[0]
    assert ((flat @ known.reshape(100, -1).T) ** 2).sum() < 1e-20 * (flat**2).sum()


@pytest.mark.parametrize("make", [da.canaries.for_images, da.canaries.for_rows])
def test_no_value_of_a_record_is_read(make):
    """Other values, same shapes and labels: the same canaries, bit for bit."""
    labels = np.arange(30) % 3
    sets = [(RNG.normal(size=(30, 16)), labels) for _ in range(2)]
    first, second = (make(data, n=10).made.parts for data in sets)
    assert not changed(first, second)
    assert changed(first, make(sets[0], n=10, rng=1).made.parts)


def test_labels_may_be_declared_or_read():
    pictures = np.zeros((6, 9))
    read = da.canaries.for_images((pictures, np.array([2, 5, 5, 2, 7, 2])), n=9).made.parts[1]
    assert set(read) <= {2, 5, 7}
    given = da.canaries.for_images((pictures, np.zeros(6, int)), n=9, classes=4).made.parts[1]
    assert set(given) <= {0, 1, 2, 3}
    words = [(picture, "cat" if i % 2 else "dog") for i, picture in enumerate(pictures)]
    assert set(da.canaries.for_images(words, n=9).made.parts[1]) <= {"cat", "dog"}
    real = da.canaries.for_images((pictures, np.zeros(6)), n=9).made.parts[1]
    assert set(real) == {-1.0, 1.0}
    with pytest.raises(InvalidArgument, match="must be at least 2"):
        da.canaries.for_images((pictures, np.zeros(6, int)), n=9)


def test_labels_of_torch_data_sets():
    torch = needs("torch", "torch")

    class Quick(torch.utils.data.Dataset):
        targets = torch.arange(12) % 4

        def __len__(self):
            return 12

        def __getitem__(self, i):
            assert i == 0, "only the first record is read, for its shape"
            return torch.zeros(1, 4, 4), int(self.targets[i])

    canaries = da.canaries.for_images(Quick(), n=8)
    assert set(canaries.made.parts[1]) <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([("a picture", 1)], {}, "must be a picture as tensor or array"),
        ([(np.zeros((4, 4), np.uint8), 1)], {}, "must be in floating point"),
        ([(np.zeros((4, 4)), 1)], {"n": 17}, "A picture has 16 values"),
        ([(np.zeros((4, 4)), 1)], {"shape": (3, 5)}, "has another size"),
        ([(np.zeros((4, 4)), 1)], {"norm": -1.0}, "norm=-1 must lie in"),
        ([(np.zeros((4, 4)), 1)], {"public": np.zeros((3, 9))}, "9 values, the data set of 16"),
        ([(np.zeros((4, 4)), 1, "name")], {"classes": 2}, "records of 3 parts"),
    ],
)
def test_pictures_that_are_refused(data, options, message):
    with pytest.raises(InvalidArgument, match=message):
        da.canaries.for_images(data, **({"n": 8} | options))


# ----------------------------------------------------------------------------------------- text


def test_sequences_of_a_new_token_each():
    data = RNG.integers(30, size=(10, 7)).tolist()
    canaries = da.canaries.for_text(data, 30, n=4)
    np.testing.assert_array_equal(canaries.made.parts, np.repeat([[30], [31], [32], [33]], 7, 1))
    assert canaries.vocabulary_size == 35
    assert da.canaries.for_text(data, 30, n=4, new_tokens=False).vocabulary_size == 30
    random = da.canaries.for_text(data, 30, n=4, new_tokens=False, length=5).made.parts
    assert random.shape == (4, 5)
    assert random.max() < 30


class Tokenizer:
    """As those of Hugging Face: new tokens get the next numbers."""

    def __init__(self):
        self.numbers = {"the": 0, "cat": 1}

    def __len__(self):
        return len(self.numbers)

    def add_tokens(self, new_tokens):
        for token in new_tokens:
            self.numbers.setdefault(token, len(self.numbers))
        return len(new_tokens)

    def convert_tokens_to_ids(self, tokens):
        return [self.numbers[token] for token in tokens]


def test_a_tokenizer_is_extended():
    data = [{"text": "the cat", "label": i % 2} for i in range(6)]
    tokenizer = Tokenizer()
    with da.canaries.audit():
        canaries = da.canaries.for_text(data, tokenizer, n=3, length=2)
        assert len(tokenizer) == 5
        assert canaries.tokens.tolist() == [2, 3, 4]
        texts = [record["text"] for record in canaries.insert(data)][6:]
    assert texts
    assert set(texts) <= {f"<canary-{i}> <canary-{i}>" for i in range(3)}


def test_targets_of_the_shape_of_the_sequence_follow_it():
    torch = needs("torch", "torch")
    ids = torch.zeros(5, 6, dtype=torch.int64)
    data = torch.utils.data.TensorDataset(ids, ids)
    first, second = da.canaries.for_text(data, 10, n=3).made.parts
    np.testing.assert_array_equal(first, second)
    columns = {"input_ids": ids.tolist(), "labels": ids.tolist(), "kind": ids.tolist()}
    made = da.canaries.for_text(columns, 10, n=3).made.parts
    np.testing.assert_array_equal(made["labels"], made["input_ids"])
    assert not made["kind"].any()


def test_records_without_tokens_are_refused():
    with pytest.raises(InvalidArgument, match="needs sequences of token numbers"):
        da.canaries.for_text([np.zeros((3, 3))], 10, n=2)
    with pytest.raises(InvalidArgument, match="needs sequences of token numbers"):
        da.canaries.for_text([np.zeros(3)], 10, n=2)
    with pytest.raises(InvalidArgument, match="tokenizer is missing"):
        da.canaries.for_text([[1, 2]], n=2)


# ----------------------------------------------------------------------------------------- rows


def test_rows_along_unused_columns():
    X, y = RNG.normal(size=(20, 9)), np.arange(20) % 2
    rows, _ = da.canaries.for_rows(X, y, n=3, unused=[2, 5, 7], norm=4.0).made.parts
    assert not rows[:, [0, 1, 3, 4, 6, 8]].any()
    np.testing.assert_allclose(gram(rows), 16 * np.eye(3), atol=1e-12)
    with pytest.raises(InvalidArgument, match="3 columns are unused"):
        da.canaries.for_rows(X, y, n=4, unused=[2, 5, 7])


def test_rows_in_the_null_space_of_public_ones():
    public = RNG.normal(size=(40, 5)) @ RNG.normal(size=(5, 12))
    rows = da.canaries.for_rows(np.zeros((9, 12)), n=7, public=public).made.parts
    assert np.abs(public @ rows.T).max() < 1e-6
    np.testing.assert_allclose(gram(rows), 12 * np.eye(7), atol=1e-9)


def test_more_canaries_than_columns_overlap():
    rows = da.canaries.for_rows(np.zeros((9, 4)), n=30).made.parts
    np.testing.assert_allclose((rows**2).sum(axis=1), 4.0)


def test_levels_that_are_refused():
    frame = pd.DataFrame({"age": [1.0, 2.0], "town": ["a", "b"]})
    with pytest.raises(InvalidArgument, match="must be a column of a frame"):
        da.canaries.for_rows(frame, n=2, level="city")
    with pytest.raises(InvalidArgument, match="not of numbers"):
        da.canaries.for_rows(frame, n=2, level="age")
    with pytest.raises(InvalidArgument, match="Use for_images or for_text"):
        da.canaries.for_rows(np.zeros((3, 2, 2)), n=2)


def test_wrong_labels_need_classes():
    with pytest.raises(InvalidArgument, match="no classes"):
        da.canaries.mislabelled((np.zeros((5, 2)), np.zeros(5)), n=2)
    with pytest.raises(InvalidArgument, match="take the place of records"):
        da.canaries.mislabelled((np.zeros((5, 2)), np.arange(5)), n=6)
