import pytest

from dpassay.errors import InvalidArgument
from dpassay.report import Disclosure, read_disclosure

WHOLE = """
target = "a linear model"
n_records = 5000
unit = "person"
setting = "central"
sampling_accounted = "poisson"
search_accounted = true
noise = "exact"
date = 2026-11-16
"""


def written(tmp_path, text):
    path = tmp_path / "about.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read(tmp_path):
    found = read_disclosure(written(tmp_path, WHOLE))
    assert (found.n_records, found.noise, found.date) == (5000, "exact", "2026-11-16")
    assert found.search_accounted is True
    assert found.contact is None
    assert read_disclosure(written(tmp_path, "")) == Disclosure()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilon = 1\nunits = 2", "epsilon, units: no such field. The fields are target"),
        ("n_records = 0", "n_records=0 must lie in"),
        ("n_records = true", "n_records=True must be a whole number"),
        ("n_records = 'many'", "n_records='many' must be a whole number"),
        ("noise = 'good'", "noise='good' must be one of 'exact'"),
        ("sampling_used = 'random'", "sampling_used='random' must be one of"),
        ("proof_neighbouring = 'both'", "proof_neighbouring='both' must be one of"),
        ("search_accounted = 'yes'", "search_accounted='yes' must be true or false"),
        ("search_accounted = 1", "search_accounted=1 must be true or false"),
        ("unit = 3", "unit=3 must be text"),
        ("unit = ''", "unit='' must be text"),
        ("unit = ", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(InvalidArgument) as raised:
        read_disclosure(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InvalidArgument, match="is not a file"):
        read_disclosure(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="is not text in UTF-8"):
        read_disclosure(tmp_path / "bytes.toml")


def test_what_is_made_in_code_is_checked_too():
    with pytest.raises(InvalidArgument, match="records_per_person=-1"):
        Disclosure(records_per_person=-1)
