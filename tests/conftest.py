"""What all tests share: Hypothesis without randomness, markers, Ctrl-C that is heard, skips."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

import lanes
import skips

collect_ignore = ["typing"]  # scripts for a type checker, half of them wrong

settings.register_profile("dpassay", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("dpassay")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it in what it puts into the background, and so would the processes that tests
    # start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    config.addinivalue_line("markers", "golden: a published or independently computed number")
    config.addinivalue_line(
        "markers", "training: trains models, plays many trials or starts processes: not quick"
    )


def pytest_addoption(parser):
    text = "Run the long simulations as well, see tests/lanes.py."
    parser.addoption("--wide", action="store_true", help=text)


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--wide"):
        wide = [item for item in items if lanes.is_wide(item.nodeid)]
        # One that was asked for by name is run.
        if wide and not any("::" in str(argument) for argument in config.args):
            config.hook.pytest_deselected(items=wide)
            items[:] = [item for item in items if item not in set(wide)]
    here = Path(__file__).parent
    for item in items:
        if lanes.is_slow(item.path, here):
            item.add_marker(pytest.mark.training)


def _skipped(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    found = reporter.stats.get("skipped", []) if reporter else []
    return [report.longrepr[2] if isinstance(report.longrepr, tuple) else "" for report in found]


def pytest_terminal_summary(terminalreporter, config):
    counts, strange = skips.count(_skipped(config))
    if counts:
        terminalreporter.section("skips, counted")
    for reason, number in counts:
        note = "   NOT EXPECTED: see tests/skips.py" if reason in strange else ""
        terminalreporter.write_line(f"{number:5d}  {reason}{note}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    # Workers of xdist have no reporter; the process that started them sees all skips.
    _, strange = skips.count(_skipped(session.config))
    if strange and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
