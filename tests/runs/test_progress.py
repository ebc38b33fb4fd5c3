"""What a run shows while it is played."""

import datetime
import io
import sys

import pytest
from rich.console import Console

from dpassay.runs import play
from dpassay.runs.progress import Bar, Lines, Quiet, duration, progress_for
from dpassay.runs.writer import Writer


def numbers(trials):
    return [float("nan") if trial == 3 else float(trial) for trial in trials]


def test_one_line_per_tenth():
    stream = io.StringIO()
    shown = Lines(lambda: "epsilon >= 1.5", stream)
    shown.begin(1000, 0)
    for done in range(1001):
        shown.update(done, done // 500)
    shown.end()
    text = stream.getvalue().splitlines()
    assert len(text) == 10
    assert text[0].startswith("100 of 1000 trials (10 %), ")
    assert text[0].endswith(" left, epsilon >= 1.5")
    assert "1 failed" in text[5]
    assert "left" not in text[-1]
    assert text[-1].startswith("1000 of 1000 trials (100 %), 2 failed")


def test_lines_of_a_resumed_run():
    stream = io.StringIO()
    shown = Lines(stream=stream)
    shown.begin(100, 55)
    shown.update(56, 0)
    shown.update(61, 0)
    assert len(stream.getvalue().splitlines()) == 1


def test_a_run_in_lines(capfd):
    play(numbers, 40, key="k", workers=1, progress="lines", note=lambda: "all is well")
    captured = capfd.readouterr()
    assert captured.out == ""
    last = captured.err.splitlines()[-1]
    assert last.startswith("40 of 40 trials (100 %), 1 failed")
    assert last.endswith("all is well")


def test_a_quiet_run(capfd):
    play(numbers, 40, key="k", workers=1)
    assert capfd.readouterr() == ("", "")


def test_a_bar():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    note = "epsilon >= 1.5 [claimed 1]"
    played = play(numbers, 40, key="k", workers=1, progress=Bar(lambda: note, console))
    assert played.ended == "done"
    assert "40/40" in stream.getvalue()
    assert f"1 failed  {note}" in stream.getvalue()


@pytest.mark.parametrize(("terminal", "kind"), [(True, Bar), (False, Lines)])
def test_auto(monkeypatch, terminal, kind):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert isinstance(progress_for("auto"), kind)


def test_own_progress():
    class Mine(Quiet):
        def __init__(self):
            self.calls = []

        def begin(self, total, done):
            self.calls.append(("begin", total, done))

        def end(self):
            self.calls.append("end")

    mine = Mine()
    play(numbers, 5, key="k", workers=1, progress=mine, max_failed_share=1)
    assert mine.calls == [("begin", 5, 0), "end"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (7500, "2 h 5 min"),
        (86400 * 2 + 3600 * 3 + 59, "2 d 3 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_rate_of_a_writer_whose_clock_was_set_back():
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    for began, rate in ((now - hour, 2 / 3600), (now + hour, 0.0)):
        writer = Writer({"since": began.isoformat(), "n_logged": 5}, 7, 1)
        assert writer.per_second == pytest.approx(rate, rel=0.01)
