"""Every planted bug is found on its line, and no honest twin is flagged."""

import statistics

import pytest

import dpassay as da
from replay.programs import PROGRAMS, VALUES

FOUND = [program for program in PROGRAMS if program.rules]
OPEN = [program for program in PROGRAMS if not program.rules]
HONEST = list({id(program.honest): program for program in PROGRAMS}.values())
NO_LINE = "DPA301"  # only the output is known


def name_of(program):
    return program.name


@pytest.mark.parametrize("program", FOUND, ids=name_of)
def test_the_bug_is_found_on_its_line(program):
    found = da.check(program.broken, program.data, program.claim, **program.options)
    first = found.findings[0]
    assert first.rule in program.rules
    assert first.execution <= 20
    if first.rule != NO_LINE:
        assert "# here" in first.site.source
    assert not found.undecided


@pytest.mark.parametrize("program", HONEST, ids=name_of)
def test_the_honest_twin_is_not_flagged(program):
    found = da.check(program.honest, program.data, program.claim, **program.options)
    assert found.findings == ()
    if program.rules:
        assert found.undecided == ()
        assert found.event is not None or found.not_checked


@pytest.mark.parametrize("program", OPEN, ids=name_of)
def test_noise_that_is_not_followed_leaves_the_check_open(program):
    found = da.check(program.broken, program.data, program.claim)
    assert found.findings == ()
    assert found.undecided
    assert not found.decided


def test_denominators():
    """45 bugs to be found, 2 that cannot be followed, 27 different honest twins."""
    assert (len(FOUND), len(OPEN), len(HONEST)) == (45, 2, 27)


def test_few_executions_are_enough():
    quick = [program for program in FOUND if program.data is VALUES]
    counts = [da.check(p.broken, p.data, p.claim, **p.options).findings[0].execution for p in quick]
    assert statistics.median(counts) <= 7
