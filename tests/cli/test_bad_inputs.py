"""Bad files and bad numbers: exit code 2, one line that names them, nothing written, at once."""

import os

import pytest

from cli import hostile

MARKERS = ("SECRET", "777123")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad")
    hostile.write_good(path)
    return path


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))


def _state():
    """What is in the folder, and what the good files hold; SQLite's own notes do not count."""
    names = {name for name in os.listdir() if not name.endswith(("-shm", "-wal"))}
    return names, {name: os.stat(name).st_mtime_ns for name in names if name.startswith("good")}


def _faults(cases):
    """What is wrong with the answers to bad inputs."""
    before = _state()
    for case in cases:
        code, out, err = hostile.run(case.words)
        ours = err.startswith("dpassay: ")  # the other form is that of options that are no numbers
        # Of a damaged log nothing can be said: 3, which `status` tells run by run.
        damaged = "the log is damaged" in out + err
        wrong = {
            f"exit code {code}": code != (3 if damaged else 2),
            "stdout": out != "" and not damaged,
            "not one line": ours and err.count("\n") != 1,
            "nothing said": not err.strip() and not damaged,
            "traceback": "Traceback" in err,
            "a record": any(marker in out + err for marker in MARKERS),
            "a long line": max(map(len, err.splitlines()), default=0) > 1500,
            "something was written": _state() != before,
        }
        yield from (f"{case.name}: {what}: {err[-200:]}" for what, bad in wrong.items() if bad)


@pytest.mark.parametrize("reader", hostile.READERS)
def test_bad_files_are_refused(folder, reader):
    cases = list(hostile.file_cases(folder, [reader]))
    assert len(cases) > 10
    assert list(_faults(cases)) == []


@pytest.mark.parametrize("command", hostile.LINES)
def test_bad_numbers_are_refused(command):
    cases = [case for case in hostile.number_cases() if case.name.startswith(f"{command}:")]
    assert cases
    assert list(_faults(cases)) == []


def test_every_option_of_numbers_is_tried():
    assert {command for command, *_ in hostile.number_options()} == set(hostile.LINES)
    assert len(list(hostile.number_cases())) > hostile.FEWEST_CASES


@pytest.mark.parametrize("reader", ["bound", "bound-npz", "attack", "status", "audit-command"])
def test_the_good_files_are_good(reader):
    command, good = hostile.READERS[reader]
    code, _, err = hostile.run(hostile.words_of(command, good))
    assert code in (0, 1), err


@pytest.mark.parametrize("command", ["bound", "explain", "status", "account gaussian", "work"])
def test_the_good_lines_are_good(command):
    assert hostile.run([*command.split(), *hostile.LINES[command].split()])[0] == 0
