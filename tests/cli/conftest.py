import json
import re
import shlex

import pytest
from typer.testing import CliRunner

from dpassay.cli import app


def _refuse(token):
    raise AssertionError(f"{token} is not JSON")


class Result:
    def __init__(self, result):
        self.code = result.exit_code
        self.out = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
        self.err = re.sub(r"\x1b\[[0-9;]*m", "", result.stderr)
        self.exception = result.exception

    @property
    def words(self):
        """What was printed on stdout, without boxes and line breaks."""
        return " ".join(re.sub(r"[│┃╭╮╰╯─━┏┓┗┛┡┩┳╇┴└┘]", " ", self.out).split())

    @property
    def data(self):
        """The JSON on stdout; NaN and Infinity are refused."""
        assert self.code in (0, 1), self.err
        return json.loads(self.out, parse_constant=_refuse)


@pytest.fixture
def dpassay():
    """Runs a command line, given as one string, in this process."""

    def run(command):
        env = {"COLUMNS": "100", "NO_COLOR": "1"}
        return Result(CliRunner().invoke(app, shlex.split(command), env=env))

    return run
