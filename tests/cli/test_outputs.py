"""Every option that names an output refuses what is no regular file, and leaves it as it was."""

import os
import stat

import numpy as np
import pytest

import dpassay as da
from dpassay.synth import Schema, Workload

pytestmark = pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a\n0\n1\n1\n")
    (tmp_path / "s.toml").write_text("[columns.a]\nvalues = [0, 1]\n")
    data = np.array([[1.0], [0.0]])
    np.savez(tmp_path / "d.npz", data=data, data_prime=data[1:])
    da.audit(
        lambda x, rng: x + rng.laplace(),
        (1.0, 0.0),
        claim=da.PureDP(1.0),
        score=float,
        trials=30,
        store=tmp_path / "run.db",
    )
    return tmp_path


SYNTH = "synth t.csv --schema s.toml --method independent --epsilon 1 --ways 1"
WRITERS = {
    "explain --epsilon 1 --svg {odd}.svg": ".svg",
    "plan --claim 1,1e-5 --true 4 --svg {odd}.svg": ".svg",
    "report run.db -o {odd}.html": ".html",
    "report run.db -o {odd}.html #": ".json",  # the data beside the page
    "audit example:honest --trials 20 --report {odd}.html --quiet": ".html",
    SYNTH + " -o {odd}": "",
    SYNTH + " -o out.csv --model {odd}": "",
    SYNTH + " -o out.csv --report {odd}": "",
}


@pytest.mark.parametrize("words", WRITERS)
def test_pipes_are_refused_and_left(dpassay, place, words):
    odd = place / f"odd{WRITERS[words]}"
    os.mkfifo(odd)
    before = sorted(path.name for path in place.iterdir())
    done = dpassay(words.removesuffix(" #").format(odd=place / "odd"))
    assert done.code == 2, done.err
    assert "it is a pipe" in done.err
    assert stat.S_ISFIFO(odd.lstat().st_mode)
    assert sorted(path.name for path in place.iterdir()) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_the_full_device_stays_a_device(dpassay, place):
    """Through a link, so that a program that fails here harms nothing outside its folder."""
    (place / "full").symlink_to("/dev/full")
    done = dpassay(f"{SYNTH} -o full")
    assert done.code == 2
    assert "it is a device" in done.err
    assert (place / "full").is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_part_file_of_somebody_else_is_left(dpassay, place):
    (place / "treasure").write_text("gold")
    (place / "out.csv.part").symlink_to(place / "treasure")
    assert dpassay(f"{SYNTH} -o out.csv").code == 0
    assert (place / "treasure").read_text() == "gold"
    assert (place / "out.csv.part").is_symlink()


def test_saved_models_are_refused_too(place):
    schema = Schema({"a": [0, 1]})
    made = da.synth.Independent(schema, Workload.marginals([("a",)]), epsilon=1.0, rng=0)
    fitted = made.fit(np.array([[0], [1]]))
    os.mkfifo(place / "pipe")
    with pytest.raises(da.InvalidArgument, match="it is a pipe"):
        fitted.save(place / "pipe")
