import subprocess
import sys
from pathlib import Path

import pytest

import lanes
import skips

HERE = Path(__file__).parent


@pytest.fixture
def pytester_run(tmp_path):
    """Run a test file of its own under the conftest that all tests share."""

    def run(text):
        (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
        (tmp_path / "test_it.py").write_text(text)
        options = ["-p", "no:cacheprovider", "-o", f"pythonpath={HERE}", "-q"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    "reason",
    [
        "Skipped: this user may write anywhere",
        "Skipped: needs the program chromium: apt-get install chromium",
        "SCIPY_ARRAY_API is not set: not checking array_api input",
    ],
)
def test_expected_whatever_is_installed(reason):
    assert skips.in_order(reason)


@pytest.mark.parametrize("installed", [True, False])
def test_a_package_that_is_there_is_no_reason(installed):
    reason = "Skipped: needs jax: pip install 'dpassay[lab]'"
    assert skips.in_order(reason, lambda name: installed) is not installed


@pytest.mark.parametrize("reason", ["", "flaky", "needs work", "could not import 'jax'"])
def test_anything_else_is_not_expected(reason):
    assert not skips.in_order(reason)


def test_they_are_counted():
    counts, strange = skips.count(["flaky", "signals of POSIX", "flaky"])
    assert counts == [("flaky", 2), ("signals of POSIX", 1)]
    assert strange == ["flaky"]


@pytest.mark.parametrize(("reason", "code"), [("signals of POSIX", 0), ("too slow", 1)])
def test_a_run_fails_for_a_strange_skip(pytester_run, reason, code):
    done = pytester_run(f"import pytest\ndef test_it():\n    pytest.skip({reason!r})\n")
    assert done.returncode == code, done.stdout
    assert "skips, counted" in done.stdout
    assert ("NOT EXPECTED" in done.stdout) == bool(code)


def test_every_slow_name_exists():
    """A test that moves takes its entry with it; parts of dpassay have folders of tests."""
    for name in lanes.SLOW:
        assert (HERE / name).is_dir() or (HERE / f"{name}.py").is_file(), name


def test_lanes():
    assert lanes.is_slow(HERE / "nets" / "test_dpsgd.py", HERE)
    assert lanes.is_slow(HERE / "bounds" / "test_sequential.py", HERE)
    assert not lanes.is_slow(HERE / "bounds" / "test_counts.py", HERE)
    src = HERE.parent / "src" / "dpassay"
    assert lanes.is_slow(src / "nets" / "network.py", HERE)
    assert not lanes.is_slow(src / "privacy" / "profiles.py", HERE)


def test_the_wide_lane():
    for name in lanes.WIDE:
        file, _, function = name.partition("::")
        assert f"def {function.partition('[')[0]}(" in (HERE / file).read_text(encoding="utf-8")
    assert lanes.is_wide("tests/learn/test_audits.py::test_lasso[gumbel]")
    assert lanes.is_wide("tests/learn/test_audits.py::test_objective_perturbation[less noise]")
    exact = "tests/learn/test_audits.py::test_objective_perturbation_by_its_exact_law[20]"
    assert not lanes.is_wide(exact)
    form = "tests/bounds/test_sequential.py::test_a_bound_is_the_same_in_any_batch"
    assert lanes.is_wide(f"{form}[pairs]")
    assert not lanes.is_wide(f"{form}[coin]")
