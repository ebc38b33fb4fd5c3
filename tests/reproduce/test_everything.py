"""All experiments: each once, a table of every claim, and what is finished is not run again."""

import json

import pytest

from dpassay.errors import InvalidArgument
from dpassay_reproduce import EXPERIMENTS, everything
from dpassay_reproduce.claims import Picture, claim_exactly

FEW = ("lecture", "hw3")


@pytest.fixture
def played(monkeypatch):
    """The experiments that were run, in place of running them."""
    runs = []

    def fake(name):
        def run(folder, *, image_format="svg", quick=False):
            runs.append((name, quick))
            folder.mkdir(parents=True)
            claim = claim_exactly(f"{name} <holds>.", "it does.", name == "lecture", "seen.")
            picture = Picture("one", "One", "", None, claims=(claim,))
            text = json.dumps({"one": {"claims": picture.numbers["claims"]}, "two": {}})
            (folder / "numbers.json").write_text(text, encoding="utf-8")
            return []

        return run

    for name in FEW:
        monkeypatch.setattr(f"dpassay_reproduce.{name}.run", fake(name))
    return runs


def test_every_claim_is_in_the_table(played, tmp_path):
    said = []
    options = {"quick": True, "experiments": FEW, "progress": said.append}
    files = everything.run(tmp_path / "all", **options)
    assert [file.name for file in files] == ["claims.json", "index.html"]
    found = json.loads(files[0].read_text(encoding="utf-8"))
    assert found["quick"]
    assert [(c["experiment"], c["verdict"]) for c in found["claims"]] == [
        ("lecture", "holds"),
        ("hw3", "fails"),
    ]
    page = files[1].read_text(encoding="utf-8")
    assert "2 claims: 1 holds, 1 fails, 0 not decided" in page
    assert "lecture &lt;holds&gt;." in page
    assert played == [("lecture", True), ("hw3", True)]
    assert said == ["lecture", "hw3"]


def test_what_is_finished_is_not_run_again(played, tmp_path):
    everything.run(tmp_path, quick=True, experiments=FEW[:1])
    everything.run(tmp_path, quick=True, experiments=FEW)
    assert played == [("lecture", True), ("hw3", True)]
    (tmp_path / "lecture" / "done.json").unlink()
    (tmp_path / "lecture" / "numbers.json").unlink()
    (tmp_path / "lecture").rmdir()
    everything.run(tmp_path, quick=True, experiments=FEW)
    assert played[2:] == [("lecture", True)]


def test_all_experiments_are_among_them():
    assert set(everything.SOURCES) == set(EXPERIMENTS) - {"all"}


def test_quick_and_full_cannot_both_be_given(tmp_path):
    from dpassay_reproduce import command

    with pytest.raises(InvalidArgument, match="--full and --quick"):
        command.reproduce("synth", out=tmp_path, full=True, quick=True)
