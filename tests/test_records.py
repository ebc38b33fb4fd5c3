"""One meaning of "a record" in every container: what is added can be found, replaced and taken."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpassay._records import add, fresh, join, n_records, put, record_at, take

ARRAY = np.arange(6.0).reshape(3, 2)
FRAME = pd.DataFrame({"age": [1, 2, 3], "name": ["a", "b", "c"]}, index=[5, 9, 9])
KINDS = {
    "array": (ARRAY, [7.0, 8.0]),
    "numbers": (np.arange(3, dtype=np.int16), 7),
    "list": (["a", "b", "c"], "d"),
    "frame": (FRAME, (7, "d")),
    "frame by name": (FRAME, {"name": "d", "age": 7}),
    "column": (FRAME["age"], 7),
    "labelled": ((ARRAY, [0, 1, 0]), ([7.0, 8.0], 1)),
    "sparse": (sparse.csr_matrix(ARRAY), [7.0, 8.0]),
}


def plain(data):
    """The values of every record, as lists."""
    if isinstance(data, tuple):
        return list(zip(*map(plain, data), strict=True))
    data = data.toarray() if sparse.issparse(data) else data
    return np.asarray(data).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_added_replaced_and_taken(kind):
    data, record = KINDS[kind]
    before = plain(data)
    longer = add(data, record)
    new = plain(longer)[-1]
    assert n_records(data) == 3
    assert n_records(longer) == 4
    assert plain(longer) == [*before, new]
    assert plain(put(data, 1, record)) == [before[0], new, before[2]]
    assert plain(take(longer, [3, 0])) == [new, before[0]]
    assert plain(join(data, take(data, [2]))) == [*before, before[2]]
    assert plain(data) == before


@pytest.mark.parametrize("kind", ["array", "numbers", "column", "sparse"])
def test_a_new_record_takes_the_type_of_the_others(kind):
    data, record = KINDS[kind]
    assert add(data, record).dtype == data.dtype


def test_rows_of_a_frame_are_numbered_anew():
    record = record_at(FRAME, 1)
    for frame in (add(FRAME, record), put(FRAME, 0, record), take(FRAME, [2, 1])):
        assert frame.index.tolist() == list(range(len(frame)))
        assert frame.dtypes.to_dict() == FRAME.dtypes.to_dict()
    assert add(FRAME["age"], 3).name == "age"


@pytest.mark.parametrize("data", [3.0, "text", np.float64(1), (ARRAY, [0, 1]), (1, 2), {"a": 1}])
def test_no_records_are_seen_where_there_are_none(data):
    assert n_records(data) is None


def test_tensors():
    torch = pytest.importorskip("torch")
    data = torch.arange(6, dtype=torch.float32).reshape(3, 2)
    longer = add(data, [7, 8])
    assert longer.dtype == data.dtype
    assert put(data, 1, [7, 8]).tolist() == [[0, 1], [7, 8], [4, 5]]
    copied = fresh([data])
    copied[0][0] = -1.0
    assert data[0].tolist() == [0, 1]
