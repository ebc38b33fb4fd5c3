"""What the pages show is what happens: snippets, their output, commands, links, examples."""

import ast
import contextlib
import importlib
import inspect
import io
import re
import shlex
import shutil
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import dpassay
from dpassay import bounds, mechanisms, privacy
from dpassay.auditing import describe_audit
from dpassay.cli import app
from dpassay.errors import UnsupportedEvent
from dpassay.privacy import accounting, events
from extras import needs

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "docs" / "_build"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
PAGES = [page for page in PAGES if BUILT not in page.parents]

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def relative(path):
    return str(path.relative_to(ROOT))


class Block(NamedTuple):
    language: str
    text: str
    output: str | None  # of the block of text that follows at once


def blocks(page):
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for match, following in zip_longest(found, found[1:]):
        at_once = following and not text[match.end() : following.start()].strip()
        shown = following[2] if at_once and following[1] == "text" else None
        yield Block(match[1], match[2], shown)


def without_code(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"<!--.*?-->", "", text, flags=re.S)


# Comparing what is shown with what is seen.


def last_digit(number):
    """The unit of the last digit that is shown: 0.01 for 3.14, 1e-8 for 5.93e-06."""
    mantissa, _, exponent = number.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def close(shown, seen):
    room = max(last_digit(shown) * 1.001, 1e-9 * abs(float(shown)))
    return abs(float(shown) - float(seen)) <= room


def alike(shown, seen):
    """The same words and the same numbers, up to a unit of the last digit shown."""
    words = [" ".join(NUMBER.sub(" # ", text).split()) for text in (shown, seen)]
    numbers = [NUMBER.findall(text) for text in (shown, seen)]
    return words[0] == words[1] and all(map(close, *numbers))


@pytest.mark.parametrize(
    ("shown", "seen", "agree"),
    [
        ("epsilon 1.828", "epsilon  1.8282436", True),
        ("epsilon 1.828", "epsilon 1.831", False),
        ("epsilon 1.828", "delta 1.828", False),
        ("p=5.93e-06", "p=5.932e-06", True),
        ("p=5.93e-06", "p=5.99e-06", False),
        ("of 100", "of 102", False),
        ("1 2", "1", False),
    ],
)
def test_comparison(shown, seen, agree):
    assert alike(shown, seen) == agree


# Snippets.


def run(code, namespace, name):
    """Run statement by statement; yields the last line of each with what it printed."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module([statement], []), name, "exec"), namespace)
        yield lines[statement.end_lineno - 1], printed.getvalue()


def check_comment(line, printed):
    """``print(x)  # 1.828`` must have printed that number."""
    shown = re.search(r"^print\(.*\)\s+# (\S+?)(?:[:,]? .*)?$", line)
    if shown and NUMBER.fullmatch(shown[1]):
        assert close(shown[1], printed), f"{line!r} printed {printed!r}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.language == "python" for b in blocks(p))], ids=relative
)
def test_snippets(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "snippet"}
    for block in blocks(page):
        if block.language != "python":
            continue
        output = ""
        for line, printed in run(block.text, namespace, relative(page)):
            check_comment(line, printed)
            output += printed
        if block.output is not None:
            assert alike(block.output, output), f"shown:\n{block.output}\nseen:\n{output}"


def test_a_wrong_comment_is_noticed():
    check_comment("print(x)  # 1.828: proved, an upper bound", "1.82824\n")
    with pytest.raises(AssertionError, match=r"1\.828"):
        check_comment("print(x)  # 1.828: proved, an upper bound", "1.9\n")


# Commands.


def commands():
    """(command line, output shown) of every console block; the first that shows one counts."""
    found = {}
    for page in PAGES:
        for block in blocks(page):
            if block.language != "console":
                continue
            text = block.text.replace("\\\n", " ")
            for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
                command, _, output = part.partition("\n")
                found[command] = found.get(command) or output.strip()
    return found


SHOWN = commands()
TRAIN = """
def train(data, rng):
    return data.sum(axis=0) + rng.normal(0.0, 2.0, data.shape[1])
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """An audit's log, for the commands that read one."""
    path = tmp_path_factory.mktemp("log") / "run.db"
    options = {"claim": dpassay.PureDP(1.0), "score": float, "trials": 40, "store": path}
    dpassay.audit(lambda data, rng: data + rng.laplace(), (1.0, 0.0), **options)
    return path


SCRIPT = """
import numpy as np
from dpassay import probe
data = probe.data(np.zeros(9), canary=1.0)
probe.release(data.sum() + np.random.normal(0, 100))
"""


def prepare(folder, log):
    """What the commands find where they are run: examples, a training of one's own, logs."""
    for name in ("run.db", "monday.db", "tuesday.db"):
        shutil.copy(log, folder / name)
    shutil.copytree(ROOT / "examples", folder / "examples")
    dpassay.Ledger(folder / "project.db", budget=dpassay.ApproxDP(3.0, 1e-6))
    (folder / "my_train.py").write_text(TRAIN, encoding="utf-8")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    np.savez(folder / "d.npz", data=np.eye(3), data_prime=np.eye(3)[:2])
    pair = (np.eye(3), np.eye(3)[:2])
    describe_audit(release, pair, claim="1", score=float, trials=640, store=folder / "runs/laplace")


def release(data, rng):
    """What the described audit plays."""
    return data.sum() + rng.laplace()


# Seconds of work, of which the pages show nothing: run in tests/cli and tests/reproduce.
ELSEWHERE = {"dpassay demo", "dpassay reproduce slides"}


@pytest.mark.parametrize("command", [c for c in SHOWN if c not in ELSEWHERE])
def test_command(command, tmp_path, monkeypatch, log):
    prepare(tmp_path, log)
    if command.startswith("dpassay ledger new"):
        (tmp_path / "project.db").unlink()  # others find it made
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", shlex.split(command))  # an audit says how to replay it
    monkeypatch.delitem(sys.modules, "my_train", raising=False)  # that of the command before
    env = {"NO_COLOR": "1", "COLUMNS": "88"}
    result = CliRunner().invoke(app, shlex.split(command)[1:], env=env)
    refused = SHOWN[command].startswith("dpassay: ")
    assert result.exit_code in ((2,) if refused else (0, 1)), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    if SHOWN[command]:
        # What is said on a slow machine while it works goes to standard error.
        seen = result.output if refused else result.stdout
        assert alike(SHOWN[command], seen), seen


def test_commands_are_found():
    assert len(SHOWN) >= 10
    assert all(command.split()[0] == "dpassay" for command in SHOWN)
    assert not [command for command in ELSEWHERE if SHOWN[command]]


def test_every_command_has_an_example():
    program = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "88", "NO_COLOR": "1"}).output
    names = set(re.findall(r"^│ ([a-z]+) ", program, flags=re.M))
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert names >= {"account", "bound"}
    assert not [name for name in names if f"$ dpassay {name}" not in page]


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.M))
    named = {
        name
        for page in PAGES
        for name in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.M)
    }
    assert {"demo", "test"} <= named <= targets


# Links, paths and names.


def anchors(page):
    """What MyST calls the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", without_code(page), flags=re.M)
    plain = [re.sub(r"[^\w\- ]", "", head.lower()) for head in heads]
    return {head.replace(" ", "-") for head in plain}


def broken_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / path).resolve() if path else page
        if not there.is_file() or (anchor and anchor not in anchors(there)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links(page):
    assert not list(broken_links(page, without_code(page)))


def test_a_broken_link_is_noticed():
    page = ROOT / "docs" / "index.md"
    text = "[a](nowhere.md) [b](bounds.md#nowhere) [c](bounds.md) [d](https://example.org)"
    assert list(broken_links(page, text)) == ["nowhere.md", "bounds.md#nowhere"]


def exists(name):
    """Whether a dotted name below dpassay can be reached."""
    parts = name.split(".")
    try:
        found = importlib.import_module(parts[0])
        for i, part in enumerate(parts[1:], start=2):
            if not hasattr(found, part):
                importlib.import_module(".".join(parts[:i]))
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_paths_and_names_exist(page):
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:docs|src|tests|benchmarks|examples)/[\w./-]*)`", text)
    assert not [path for path in paths if not (ROOT / path).exists()]
    names = re.findall(r"(?<![\w.'-])dpassay(?:\.[A-Za-z_]\w*)+", text)
    names = [name for name in names if not name.endswith((".css", ".md", ".py"))]
    assert not [name for name in names if not exists(name)]


def test_a_wrong_name_is_noticed():
    assert exists("dpassay.bounds.bands")
    assert exists("dpassay.privacy.PLD.smallest_delta")
    assert not exists("dpassay.bounds.nothing")


@pytest.mark.parametrize("module", [dpassay, privacy, mechanisms, bounds])
def test_every_public_name_is_in_the_reference(module):
    text = "".join(p.read_text(encoding="utf-8") for p in ROOT.glob("docs/reference/*.md"))
    documented = set(re.findall(r"[\w.]+", text))
    names = set(module.__all__) - {"__version__"}
    assert not [name for name in names if f"{module.__name__}.{name}" not in documented]


# The table of what each accounting method prices.

PRICED = {
    "Gaussian": events.Gaussian(4.0),
    "Laplace": events.Laplace(10.0),
    "Pure": events.Pure(0.1),
    "Approx": events.Approx(0.1, 1e-8),
    "BoundedRange": events.BoundedRange(0.1),
    "ZeroConcentrated": events.ZeroConcentrated(0.01),
    "RandomizedResponse": events.RandomizedResponse(0.5),
    "Sampled(Gaussian)": events.Sampled(events.Gaussian(1.0), 0.01),
    "Repeated(Sampled(Gaussian), 100)": events.dp_sgd_event(1.0, 0.01, 100),
    "Sampled(Laplace)": events.Sampled(events.Laplace(1.0), 0.01),
    "Sampled(Pure)": events.Sampled(events.Pure(1.0), 0.01),
    "Sampled(Approx)": events.Sampled(events.Approx(1.0, 1e-6), 0.01),
    "Sampled(ZeroConcentrated)": events.Sampled(events.ZeroConcentrated(0.1), 0.01),
    "Selected(Gaussian)": events.Selected(events.Gaussian(4.0), 10.0),
}


def prices(event, method):
    try:
        accounting.account(event, method)
    except UnsupportedEvent:
        return False
    return True


def test_table_of_prices():
    rows = re.findall(r"^\| `(.+?)` \|(.*)\|$", (ROOT / "docs/accounting.md").read_text(), re.M)
    table = {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}
    methods = [*accounting.PROVING, "gdp-clt"]
    for name, event in PRICED.items():
        assert table[name] == ["yes" if prices(event, m) else "·" for m in methods]


# The built pages.


@pytest.fixture
def pages(tmp_path):
    """The folder of the pages, with a figure that was drawn before: tests of it play the games."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build"))
    drawn = tmp_path / "docs" / "drawn" / "adversaries"
    drawn.mkdir(parents=True)
    picture = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    (drawn / "order.svg").write_text(picture, encoding="utf-8")
    return tmp_path / "docs"


def test_figures_that_a_build_draws_are_asked_for_as_they_can_be(monkeypatch):
    needs("sphinx", "docs")
    monkeypatch.syspath_prepend(ROOT / "docs")
    reproduced = importlib.import_module("reproduced")
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = re.findall(r"^```\{reproduced\} (\w+) ", text, flags=re.M)
    assert set(shown) == set(reproduced.REDUCED)
    for name, options in reproduced.REDUCED.items():
        inspect.signature(reproduced.experiment(name).run).bind(Path(), **options)


def test_pages_build_and_fetch_nothing(pages, tmp_path):
    needs("sphinx", "docs")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    options = ["-D", "reproduced_from=drawn", "-d", str(tmp_path / "trees")]
    folders = [str(pages), str(tmp_path / "html")]
    done = subprocess.run([*command, *options, *folders], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    built = list(tmp_path.glob("html/**/*.html"))
    assert len(built) >= len(PAGES) - 1
    fetched = r"<(?:script|img|iframe)[^>]*\bsrc=\"(?:https?:)?//|<link[^>]*\bhref=\"(?:https?:)?//"
    assert not [page for page in built if re.search(fetched, page.read_text(encoding="utf-8"))]
    styles = [sheet.read_text(encoding="utf-8") for sheet in tmp_path.glob("html/**/*.css")]
    assert styles
    assert not [sheet for sheet in styles if re.search(r"url\([\"']?(?:https?:)?//", sheet)]
    page = (tmp_path / "html" / "adversaries.html").read_text(encoding="utf-8")
    drawn = re.search(r'<img[^>]*src="(_images/order\.svg)"', page)
    assert drawn
    assert "<svg" in (tmp_path / "html" / drawn[1]).read_text(encoding="utf-8")


def test_every_experiment_is_on_its_page():
    from dpassay_reproduce import EXPERIMENTS

    page = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `dpassay reproduce ([\w-]+)`", page, re.MULTILINE))
    assert listed == set(EXPERIMENTS)
