"""``dpassay check``: text, JSON, SARIF, exit codes, and no record in any of them."""

import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from dpassay.cli import output
from dpassay.cli.check import _as_npz
from dpassay.errors import InvalidArgument

CANARY = 71828.4375
SOURCE = """
import numpy as np

def honest(x, rng):
    return np.clip(x, 0, 1).sum() + rng.laplace(scale=1.0)

def half(x, rng):
    return np.clip(x, 0, 1).sum() + rng.laplace(scale=0.5)

def leaks(x, rng):
    return np.clip(x, 0, 1).sum() + rng.laplace(scale=1.0), len(x)

def unseen(x, rng):
    return x.sum() + float(rng.normal())

def raises(x, rng):
    raise ValueError(f"bad record {x[0]}")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    name = f"checked_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    np.savez("d.npz", data=np.full(9, CANARY))
    return name


def run(dpassay, name, function, options="--claim 1"):
    return dpassay(f"check {name}.py:{function} --data d.npz {options}")


def test_text_and_exit_codes(dpassay, folder):
    done = run(dpassay, folder, "half")
    assert done.code == 1
    for part in ("DPA202", f"{folder}.py:8", "rng.laplace(scale=0.5)", "claimed 1",
                 "Smallest data that shows it: 1 record"):  # fmt: skip
        assert part in done.words
    done = run(dpassay, folder, "honest")
    assert done.code == 0
    assert "nothing broken on" in done.words
    assert run(dpassay, folder, "unseen").code == 3


@pytest.mark.parametrize("function", ["half", "leaks", "honest", "unseen", "raises"])
def test_no_record_in_any_output(dpassay, folder, tmp_path, function):
    for options in ("--claim 1 --sarif out.sarif", "--claim 1 --json", ""):
        done = run(dpassay, folder, function, options)
        assert "71828" not in done.out + done.err
    written = tmp_path / "out.sarif"
    assert not written.exists() or "71828" not in written.read_text()


def test_json(dpassay, folder):
    data = run(dpassay, folder, "half", "--claim 1 --json").data
    finding = data["findings"][0]
    assert (finding["rule"], finding["kind"], finding["line"]) == ("DPA202", "broken", 8)
    assert finding["file"] == f"{folder}.py"
    assert "moves by 1" in finding["message"]
    assert data["epsilon_seen"] == pytest.approx(2.0)
    assert {"warnings", "undecided", "not_checked", "executions", "pairs"} <= set(data)
    honest = run(dpassay, folder, "honest", "--claim 1 --json").data
    assert honest["findings"] == []
    assert honest["event"]["kind"] == "Laplace"


def test_a_mechanism_that_raises_says_where_but_not_what(dpassay, folder):
    done = run(dpassay, folder, "raises")
    assert done.code == 3
    assert f"ValueError on the data itself, at {folder}.py:17" in done.err


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("check {name}.py --data d.npz", "is a whole script"),
        ("check {name}.py:honest", "data is missing"),
        ("check {name}.py:nothing --data d.npz", "no function"),
        ("check {name}.py:honest --data d.npz --bounds 1", "two numbers"),
        ("check {name}.py:honest --data d.npz --claim many", "must be a number"),
        ("check {name}.py:honest --data none.npz", "is not a file"),
    ],
)
def test_misuse(dpassay, folder, command, says):
    done = dpassay(command.format(name=folder))
    assert done.code == 2
    assert says in done.err


def test_the_pair_goes_on_to_an_audit(dpassay, folder):
    done = run(dpassay, folder, "half", "--claim 1 --pair pair.npz")
    assert f"dpassay audit {folder}.py:half --claim 1 --data pair.npz" in done.words
    with np.load("pair.npz") as arrays:
        assert abs(len(arrays["data"]) - len(arrays["data_prime"])) == 1


def test_a_pair_that_was_written_is_played_again(dpassay, folder, tmp_path):
    command = f"check {folder}.py:half --claim 1 --pair p.npz"
    written = dpassay(f"{command} --data d.npz")
    assert (written.code, "was written to p.npz" in written.words) == (1, True)
    before = pathlib.Path("p.npz").read_bytes()
    again = dpassay(f"{command} --json")
    assert (again.code, again.data["pairs"], again.data["findings"][0]["rule"]) == (1, 1, "DPA202")
    assert "The pair of p.npz was played." in dpassay(command).words
    assert pathlib.Path("p.npz").read_bytes() == before
    (tmp_path / "train.py").write_text(SCRIPT)
    script = dpassay("check train.py --claim 1 --arguments 0.25 --pair p.npz --evidence 20 --json")
    assert (script.code, script.data["pairs"], script.data["refuted"]) == (1, 1, True)
    np.savez("p.npz", data=np.ones(3))
    assert dpassay(command).code == 2


def test_a_claim_of_dp_sgd_declares_its_sampling(dpassay, folder, tmp_path):
    (tmp_path / f"{folder}_sgd.py").write_text(
        "import numpy as np\n"
        "def train(x, rng):\n"
        "    batch = x[rng.permutation(len(x))[:3]]\n"
        "    return np.clip(batch, 0, 1).sum() + rng.normal(0, 2.0)\n"
    )
    claim = "dp-sgd:noise_multiplier=2,sampling_rate=0.5,steps=1"
    done = dpassay(f"check {folder}_sgd.py:train --data d.npz --claim {claim} --json")
    assert [finding["rule"] for finding in done.data["findings"]] == ["DPA501"]


LEVELS, KINDS = {"none", "note", "warning", "error"}, {"fail", "open"}


def check_sarif(log):
    """The parts of the SARIF 2.1.0 schema that concern what is written."""
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert isinstance(driver["name"], str)
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["defaultConfiguration"]["level"] in LEVELS
        for name in ("shortDescription", "fullDescription", "help"):
            assert rule[name]["text"]
    assert run["invocations"] == [{"executionSuccessful": True}]
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in LEVELS
        assert result["kind"] in KINDS
        assert (result["level"] == "none") == (result["kind"] != "fail")  # section 3.27.9
        if "ruleId" in result:
            assert ids[result["ruleIndex"]] == result["ruleId"]
        for location in result.get("locations", []) + result.get("relatedLocations", []):
            place = location["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            assert not place["artifactLocation"]["uri"].startswith("/")


def test_sarif(dpassay, folder, tmp_path):
    logs = {}
    for function in ("half", "leaks", "honest", "unseen"):
        run(dpassay, folder, function, "--claim 1 --sarif out.sarif")
        logs[function] = json.loads((tmp_path / "out.sarif").read_text())
        check_sarif(logs[function])
    (result,) = [r for r in logs["half"]["runs"][0]["results"] if r["kind"] == "fail"]
    assert result["ruleId"] == "DPA202"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": f"{folder}.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"]["startLine"] == 8
    assert result["properties"]["epsilonSeen"] == pytest.approx(2.0)
    kinds = {r["kind"] for r in logs["unseen"]["runs"][0]["results"]}
    assert kinds == {"open"}


def test_a_fingerprint_survives_moved_lines(dpassay, folder, tmp_path):
    moved = f"{folder}_moved"
    (tmp_path / f"{moved}.py").write_text("\n\n\n" + SOURCE)
    prints = []
    for name in (folder, moved):
        run(dpassay, name, "half", "--claim 1 --sarif out.sarif")
        log = json.loads((tmp_path / "out.sarif").read_text())
        prints.append(log["runs"][0]["results"][0]["partialFingerprints"])
    assert prints[0] == prints[1]


SCRIPT = """
import sys
import numpy as np
from dpassay import probe

x = probe.data(np.linspace(0, 1, 15))
print("a line that must not be shown")
scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
probe.release(np.clip(x, 0, 1).sum() + np.random.default_rng().laplace(scale=scale))
"""


def test_a_whole_script(dpassay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    broken = dpassay("check train.py --claim 1 --arguments 0.5")
    assert broken.code == 1
    assert "train.py:9" in broken.out
    assert "must not be shown" not in broken.out
    assert dpassay("check train.py --claim 1 --json").data["note"] == ""
    (tmp_path / "bare.py").write_text("x = 1\n")
    bare = dpassay("check bare.py --claim 1")
    assert bare.code == 2
    assert "probe.data(train_set)" in bare.err


def test_the_command_that_is_named_refutes_the_claim(folder, monkeypatch, dpassay):
    line = f"check {folder}.py:half --data d.npz --claim 1 --limit 6"
    monkeypatch.setattr(sys, "argv", ["dpassay", *line.split()])
    said = dpassay(line).out.splitlines()
    named = [text.split("itself: dpassay ")[1] for text in said if text.startswith("To refute")]
    assert f"Replay: dpassay {line}" in said
    done = dpassay(named[0])
    assert done.code == 1
    assert "refuted" in done.words


def test_a_script_that_raises_on_its_own_data_is_named_by_its_line(dpassay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(f"x = 1\nraise ValueError('record {CANARY}')\n")
    done = dpassay("check train.py --claim 1")
    assert done.code == 3
    assert "ValueError on its own data, at train.py:2" in done.err
    assert str(CANARY) not in done.err + done.out


def test_a_script_is_audited_by_replays(dpassay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    broken = dpassay("audit train.py --claim 1 --evidence replay --arguments 0.25 --json")
    assert broken.code == 1
    assert (broken.data["refuted"], broken.data["trials"] < 50) == (True, True)
    dpassay("audit train.py --claim 1 --evidence replay --arguments 0.25 --report page.html")
    assert "What a check of the code found" in pathlib.Path("page.html").read_text()
    honest = dpassay("audit train.py --claim 1 --evidence replay --trials 5")
    assert honest.code == 0
    assert "assuming noise as stated" in honest.words
    (tmp_path / "still.py").write_text(SCRIPT.replace("np.clip(x, 0, 1).sum()", "0 * x.sum()"))
    still = dpassay("audit still.py --claim 1 --evidence replay --trials 5")
    assert still.code == 3
    assert "no query moved on any pair" in still.err


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_in_one_line_and_leaves_nothing(tmp_path):
    place, scratch = tmp_path / "place", tmp_path / "scratch"
    place.mkdir()
    scratch.mkdir()
    begun = tmp_path / "begun"
    slow = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(0.2)\n"
    (place / "train.py").write_text(slow + SCRIPT)
    command = [sys.executable, "-m", "dpassay", "check", "train.py", "--claim", "1", "--pair", "p"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(command, cwd=place, env=environment, **pipes)
    deadline = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, err.count("\n")) == ("", 1)
    assert [path.name for path in place.iterdir()] == ["train.py"]
    assert not [path for path in scratch.rglob("*") if path.is_file()]


def test_progress_is_told_and_can_be_silenced(monkeypatch):
    times = iter(range(0, 1000, 6))
    monkeypatch.setattr(output.time, "monotonic", lambda: next(times))
    for quiet, lines in ((False, 2), (True, 0)):
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        with output.Counting(quiet) as counting:
            for number in range(1, 5):
                counting(number)
        said = sys.stderr.getvalue()
        assert said.count("\n") == said.count("dpassay: execution") == lines


def test_pairs_of_torch_data_sets_are_written_as_arrays():
    torch = pytest.importorskip("torch")
    tensors = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 1])
    data = torch.utils.data.TensorDataset(*tensors)
    more = torch.utils.data.TensorDataset(*(part[:2] for part in tensors))
    with np.load(io.BytesIO(_as_npz(data, more))) as arrays:
        assert {name: arrays[name].shape for name in arrays} == {
            "data_X": (3, 2), "data_y": (3,), "data_prime_X": (2, 2), "data_prime_y": (2,)
        }  # fmt: skip
    with pytest.raises(InvalidArgument, match="mixed kinds"):
        _as_npz([{"a": 1}], [{"a": 1}, {"a": 2}])
