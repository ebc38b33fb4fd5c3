"""Whole scripts: their data is varied, their folder is not touched, their lines are named."""

import textwrap

import numpy as np
import pytest

from dpassay import probe
from dpassay.auditing.checking_script import check_script
from dpassay.errors import InvalidArgument, InvalidTarget

SCRIPT = """
import json, pathlib, sys
import numpy as np
from dpassay import probe
from beside import total

seen = pathlib.Path("seen.txt")
assert not seen.exists(), "an earlier run has left something"
seen.write_text("x")
pathlib.Path(__file__).with_name("settings.json").write_text("{}")
x = probe.data(np.loadtxt("values.csv"))
print("a line that must not be shown")
scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
released = total(x) + np.random.default_rng().laplace(scale=scale)  # here
probe.release(released)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt(tmp_path / "values.csv", np.linspace(0, 1, 15))
    (tmp_path / "settings.json").write_text('{"kept": true}')
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "beside.py").write_text(
        "import numpy as np\ndef total(x): return np.clip(x, 0, 1).sum()\n"
    )
    return tmp_path


def names(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_a_script_is_checked_and_its_folder_is_as_it_was(folder):
    before = names(folder)
    honest = check_script("train.py", claim="1")
    assert honest.findings == honest.undecided == honest.not_checked == ()
    assert honest.epsilon_seen == pytest.approx(1.0)
    broken = check_script("train.py", ["0.5"], claim="1")
    assert broken.findings[0].rule == "DPA202"
    assert broken.findings[0].site.file == str(folder / "train.py")
    assert "# here" in broken.findings[0].site.source
    assert names(folder) == before


def test_draws_before_the_data_is_ready_are_no_noise(folder):
    text = (folder / "train.py").read_text()
    made = "x = probe.data(np.random.default_rng(3).random(12))"
    (folder / "train.py").write_text(text.replace('x = probe.data(np.loadtxt("values.csv"))', made))
    found = check_script("train.py", claim="1")
    assert found.findings == found.undecided == found.not_checked == ()


def test_a_canary_is_tried_first(folder):
    text = (folder / "train.py").read_text()
    (folder / "train.py").write_text(text.replace('csv"))', 'csv"), canary=0.9)'))
    found = check_script("train.py", ["0.5"], claim="1", limit=1)
    assert found.findings[0].epsilon_seen == pytest.approx(1.8)
    assert "the one given" in found.findings[0].message


def test_without_probes_the_lines_to_add_are_said(folder):
    (folder / "bare.py").write_text("print(1)\n")
    with pytest.raises(InvalidTarget, match=r"probe\.data\(train_set\)"):
        check_script("bare.py", claim="1")
    (folder / "half.py").write_text("from dpassay import probe\nprobe.data([1.0])\n")
    with pytest.raises(InvalidTarget, match=r"never called probe\.release"):
        check_script("half.py", claim="1")
    (folder / "twice.py").write_text(
        "from dpassay import probe\nprobe.data([1]); probe.data([1])\n"
    )
    with pytest.raises(InvalidTarget, match="2 times"):
        check_script("twice.py", claim="1")


def test_without_torch_there_is_no_stand_in(folder, monkeypatch):
    """As on a core install: scripts with probes are checked, others are told what to add."""
    monkeypatch.setattr(
        "dpassay.auditing.checking_script.importlib.util.find_spec", lambda *_: None
    )
    (folder / "plain.py").write_text("print(1)\n")
    with pytest.raises(InvalidTarget, match="never makes a torch DataLoader"):
        check_script("plain.py", claim="1")
    (folder / "probed.py").write_text(
        "import numpy as np\nfrom dpassay import probe\ndata = probe.data([1.0, 2.0])\n"
        "probe.release(len(data) + np.random.laplace(scale=0.1))\n"
    )
    assert check_script("probed.py", claim="1").broken


def test_a_folder_that_is_too_large_is_refused(folder, monkeypatch):
    monkeypatch.setattr("dpassay.auditing.working_copy.MOST_BYTES", 10)
    with pytest.raises(InvalidArgument, match="holds more than"):
        check_script("train.py", claim="1")


def test_in_an_ordinary_run_probes_do_nothing():
    assert probe.data([1, 2]) == [1, 2]
    probe.release(object())
    with probe.playing(with_canary=True), pytest.raises(InvalidTarget, match="canary is missing"):
        probe.data([1, 2])


BARE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

X = torch.linspace(0, 1, 15)[:, None]
loader = DataLoader(TensorDataset(X, X), batch_size=5{options})
total = torch.zeros(())
for x, y in loader:
    total = total + x.clamp(0, 1).sum()
noisy = total + torch.distributions.Laplace(0.0, 0.5).sample()
torch.save({{"total": noisy}}, "model.pt")
"""


def test_the_first_loader_and_what_is_saved_last_stand_in(folder):
    pytest.importorskip("torch")
    (folder / "bare.py").write_text(BARE.format(options=""))
    found = check_script("bare.py", claim="1")
    assert found.findings[0].rule == "DPA202"
    assert found.findings[0].epsilon_seen == pytest.approx(2.0)
    assert "has no probes" in found.note
    assert "has no probes" in str(found)
    assert not (folder / "model.pt").exists()
    (folder / "own.py").write_text(BARE.format(options=", sampler=range(15)"))
    with pytest.raises(InvalidTarget, match="sampler of its own"):
        check_script("own.py", claim="1")
