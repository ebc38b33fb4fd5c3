"""Faults of the recorder itself: honest programs are then flagged, or stay open for a reason."""

import pytest

import dpassay as da
from dpassay.replay.tape import Tape
from replay import programs as suite


def checked(program):
    return da.check(program.honest, program.data, program.claim, **program.options)


def named(honest):
    return next(program for program in suite.PROGRAMS if program.honest is honest)


def freeze_nothing(monkeypatch):
    keep = Tape.keep

    def kept(self, entry):
        out = entry.out
        keep(self, entry).out = out
        return entry

    monkeypatch.setattr(Tape, "keep", kept)


def freeze_one_call_late(monkeypatch):
    found = Tape._counterpart

    def late(self, entry):
        then = found(self, entry)
        before = max(entry.chain - 1, 0)
        return None if then is None else self._then[before][-1]

    monkeypatch.setattr(Tape, "_counterpart", late)


def skip_alignment(monkeypatch):
    monkeypatch.setattr(Tape, "align", lambda self, value, law, shape: None)


@pytest.mark.parametrize(
    ("mutate", "honest"),
    [
        (freeze_nothing, suite.mean),
        (freeze_nothing, suite.sgd),
        (freeze_one_call_late, suite.sgd),
        (freeze_one_call_late, suite.poisson_sgd),
        (skip_alignment, suite.poisson_sgd),
    ],
)
def test_a_fault_of_the_recorder_shows_on_honest_programs(mutate, honest, monkeypatch):
    program = named(honest)
    assert checked(program).findings == ()
    mutate(monkeypatch)
    found = checked(program)
    if not found.findings:
        assert not found.decided
        assert any(entry.message for entry in (*found.undecided, *found.not_checked))
