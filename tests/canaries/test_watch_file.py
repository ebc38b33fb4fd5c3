"""What is left of a watched training that was stopped before its verdict."""

import json
import sys

import numpy as np
import pytest

from dpassay.canaries import Watch, watch_file
from dpassay.canaries.script import audit_script
from dpassay.canaries.session import Asked
from dpassay.canaries.watch_file import WatchFile, follow, judge_so_far, read_watch
from dpassay.errors import InvalidArgument
from extras import needs

ASKED = Asked(None, 1e-5, 0.95)


def trained(steps=8, added=1.0, file=None):
    """A watch after so many steps of noise 3, of which a part was added."""
    watch, rng = Watch(600, 600), np.random.default_rng(7)
    watch.file = file
    for _ in range(steps):
        drawn = watch.draw(1.0)
        seen = drawn + added * 3 * rng.standard_normal(600)
        watch.take(seen, drawn, 3.0, 1.0, known=seen)
    return watch


def test_the_file_gives_the_verdict_that_the_watch_would_have_given(tmp_path):
    watch = trained()
    watch.accounted = lambda: [(3.0, 1.0, 9)]
    WatchFile(tmp_path / "w.json").write(watch)
    read = read_watch(tmp_path / "w.json")
    assert read.steps == 8
    assert read.accounted() == [(3.0, 1.0, 9)]
    assert read.seen().as_dict() == watch.seen().as_dict()


def test_too_little_noise_is_found_in_the_steps_that_were_taken(tmp_path):
    WatchFile(tmp_path / "w.json").write(trained(added=0.5))
    verdict = judge_so_far(read_watch(tmp_path / "w.json"), ASKED)
    assert verdict.refuted
    assert any("stopped after 8 steps" in note for note in verdict.one_training.notes)


def test_it_is_written_at_the_first_step_and_at_intervals(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(watch_file.time, "monotonic", lambda: now[0])
    file = WatchFile(tmp_path / "w.json")
    watch = trained(3, file=file)
    assert file.steps == 1  # no time has passed
    now[0] += 5
    file.note(watch)
    assert file.steps == 3
    assert read_watch(file.path).steps == 3


def test_an_earlier_file_is_moved_aside(tmp_path):
    WatchFile(tmp_path / "w.json").write(trained(5))
    WatchFile(tmp_path / "w.json").write(trained(2))
    assert read_watch(tmp_path / "w.json").steps == 2
    assert read_watch(tmp_path / "w.json.before").steps == 5


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"kind": "dpassay watch"})])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "w.json").write_text(text)
    with pytest.raises(InvalidArgument, match="no watch was kept in it"):
        read_watch(tmp_path / "w.json")
    with pytest.raises(InvalidArgument, match="No such file"):
        read_watch(tmp_path / "v.json")


def test_a_step_that_is_cut_off_is_claimed_and_shows_nothing(monkeypatch):
    """Ctrl-C inside of a step must not leave more seen than is claimed."""
    watch = trained(2)
    before = watch.scores("released")

    def interrupt(*unused):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpassay.canaries.watch._add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        watch.take(np.zeros(600), np.zeros(600), 3.0, 1.0)
    assert watch.steps == 3
    assert np.array_equal(watch.scores("released"), before)


def test_an_error_that_ends_the_program_is_followed_by_the_verdict(monkeypatch, capsys, tmp_path):
    watch = follow(trained(), WatchFile(tmp_path / "w.json"))
    monkeypatch.setattr(watch_file, "_LIVE", [watch])
    monkeypatch.setattr(sys, "last_type", None, raising=False)
    watch_file._tell_at_exit()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "last_type", KeyboardInterrupt)
    watch_file._tell_at_exit()
    said = capsys.readouterr().err
    assert "ended after 8 steps, before watch.judge()" in said
    assert "not refuted" in said
    assert read_watch(tmp_path / "w.json").steps == 8
    watch.judge(delta=1e-5)
    watch_file._tell_at_exit()
    assert capsys.readouterr().err == ""


SCRIPT = """
import torch, dpassay
torch.manual_seed(0)
weights = torch.nn.Parameter(torch.zeros(300))
optimizer = torch.optim.SGD([weights], lr=0.1)
watch = dpassay.probe.optimizer(
    optimizer, noise_multiplier=4.0, sampling_rate=1.0, clip=1.0, divisor=1
)
for step in range(9):
    weights.grad = ADDED * torch.randn(300)
    optimizer.step()
    if step == LAST:
        raise KeyboardInterrupt
watch.judge(delta=1e-5)
"""


def test_a_script_that_is_interrupted_tells_what_it_saw(tmp_path, monkeypatch):
    needs("torch")
    monkeypatch.chdir(tmp_path)
    script, store, told = tmp_path / "train.py", tmp_path / "run.db", []

    def tell(verdict, file):
        told.append((verdict, file))

    def stop(verdict, file):
        assert file == told[0][1]
        raise KeyboardInterrupt

    script.write_text(SCRIPT.replace("ADDED", "1.0").replace("LAST", "5"))
    with pytest.raises(KeyboardInterrupt):
        audit_script(script, store=store, tell=tell)
    [(verdict, file)] = told
    assert verdict.refuted
    assert read_watch(file).steps == 6
    with pytest.raises(KeyboardInterrupt):  # the same again: what was left is told before it trains
        audit_script(script, store=store, tell=stop)
    script.write_text(SCRIPT.replace("ADDED", "4.0").replace("LAST", "99"))
    audit_script(script, store=store, tell=tell)
    assert len(told) == 1
    assert len(list(tmp_path.glob("run.db.*.json"))) == 1
