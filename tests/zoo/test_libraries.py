"""Programs of public packages: processes that draw, and what is said of those that cannot."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dpassay.cli import app
from dpassay.errors import CommandFailed, InvalidArgument, MissingDependency
from dpassay.privacy import PureDP
from dpassay.zoo import environments, libraries
from dpassay.zoo.libraries import PROGRAMS, Program, find_programs, try_programs

NOISY = """
import numpy
generator = numpy.random.default_rng()
print("a library that talks")
def draw(data, size): return data[0] + generator.laplace(scale=SCALE, size=size)
"""


def program(code, **options):
    given = {"claim": PureDP(1.0), "broken": False, "about": "", "trials": 600} | options
    return Program("a program", ("numpy",), code, ([0.0], [1.0]), **given)


@pytest.fixture
def here(monkeypatch):
    """This environment in place of one that is installed."""
    monkeypatch.setattr(libraries, "install", lambda *_: Path(sys.executable))


def test_a_process_draws_tells_exceptions_and_ends():
    with environments.process(Path(sys.executable), NOISY.replace("SCALE", "1.0")) as child:
        assert child.draw([0.0], 1000).shape == (1000,)
        assert np.unique(child.draw([0.0], 1000)).size == 1000
        with pytest.raises(CommandFailed, match="raised IndexError"):
            child.draw([], 1)
        assert child.draw([4.0], 3).shape == (3,)
    with pytest.raises(CommandFailed, match="ended"):
        child.draw([0.0], 1)


@pytest.mark.usefixtures("here")
def test_verdicts_and_what_has_none():
    good, bad, absent = (
        program(NOISY.replace("SCALE", "1.0")),
        program(NOISY.replace("SCALE", "0.2"), broken=True),
        program("import no_such_package"),
    )
    tried = [*try_programs([good, bad, absent])]
    assert [t.verdict and t.verdict.refuted for t in tried] == [False, True, None]
    assert "the library raised ModuleNotFoundError" in tried[2].why
    assert all(t.right for t in tried)


def test_what_cannot_be_installed_says_so(tmp_path):
    """Nothing is asked of a registry: pip refuses the name itself."""
    with pytest.raises(MissingDependency, match="no package, surely cannot be installed here"):
        environments.install(("no package, surely",), tmp_path)
    assert not (tmp_path / "no package, surely" / "installed").exists()


def test_faults_that_are_published_have_an_issue_upstream():
    for known in PROGRAMS:
        assert known.broken == known.source.startswith("https://github.com/")
        assert all("==" in requirement for requirement in known.requirements)
    with pytest.raises(InvalidArgument, match="is in no name"):
        find_programs(["nobody"])


@pytest.mark.usefixtures("here")
def test_the_command(monkeypatch):
    unlike = program(NOISY.replace("SCALE", "1.0"), broken=True)
    monkeypatch.setattr(libraries, "PROGRAMS", (unlike,))
    done = CliRunner().invoke(app, ["zoo", "--libraries", "--json"])
    assert done.exit_code == 1
    (one,) = json.loads(done.stdout)["programs"]
    assert (one["refuted"], one["broken"], one["packages"]) == (False, True, ["numpy"])
    shown = CliRunner().invoke(app, ["zoo", "--libraries"]).stdout
    assert "Other than expected: a program" in shown
