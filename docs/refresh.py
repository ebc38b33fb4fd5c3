"""Put real output into the pages: python docs/refresh.py [page.md ...].

Under a command (``$ dpassay ...``) that shows output, and into the block of text that follows a
block of Python. The tests compare; this rewrites. Read the difference before you commit it.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path

from typer.testing import CliRunner

from dpassay.cli import app

DOCS = Path(__file__).parent.resolve()
COLUMNS = 88
COMMAND = re.compile(r"^```console\n\$ (dpassay [^\n]*)\n(.*?)^```$", re.M | re.S)


def output_of(command):
    """What the command prints; long prose is wrapped."""
    env = {"NO_COLOR": "1", "COLUMNS": str(COLUMNS)}
    sys.argv = shlex.split(command)  # an audit says how to replay it
    printed = CliRunner().invoke(app, sys.argv[1:], env=env).output
    lines = (line.rstrip() for line in printed.rstrip().splitlines())
    return "\n".join(_wrapped(line) for line in lines)


def _wrapped(line):
    prose = len(line) > COLUMNS and line[0] not in "│┃{ "
    return textwrap.fill(line, COLUMNS) if prose else line


def with_commands(text):
    def fresh(block):
        shown = block[2].strip()
        return f"```console\n$ {block[1]}\n{output_of(block[1])}\n```" if shown else block[0]

    return COMMAND.sub(fresh, text)


def with_snippets(text):
    """Snippets of a page share a namespace and are run in order."""
    parts = re.split(r"(^```python\n.*?^```$)", text, flags=re.M | re.S)
    namespace = {"__name__": "snippet"}
    for i in range(1, len(parts), 2):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(parts[i][len("```python\n") : -len("```")], namespace)
        follows = re.match(r"\n\n```text\n.*?^```$", parts[i + 1], re.M | re.S)
        if follows:
            rest = parts[i + 1][follows.end() :]
            parts[i + 1] = f"\n\n```text\n{printed.getvalue().rstrip()}\n```{rest}"
    return "".join(parts)


def main():
    pages = [Path(name).resolve() for name in sys.argv[1:]] or sorted(DOCS.glob("*.md"))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(DOCS.parent / "examples", Path(folder) / "examples")
        os.chdir(folder)
        for page in pages:
            text = page.read_text(encoding="utf-8")
            new = with_snippets(with_commands(text))
            if new != text:
                page.write_text(new, encoding="utf-8")
                print(f"{page.name} has changed")
        os.chdir(DOCS)


if __name__ == "__main__":
    main()
