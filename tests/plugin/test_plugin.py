"""The plugin, in pytest runs of its own."""

import subprocess
import sys
import textwrap
from xml.etree import ElementTree

import pytest

SUITE = """
    import dpassay as da
    import pytest

    def release(scale):
        def mechanism(data, rng):
            return sum(data) + rng.laplace(scale=scale)
        return mechanism

    PAIR = ([1.0, 0.0], [0.0])

    def test_honest(dpassay):
        verdict = dpassay(release(1.0), PAIR, claim="1", score=float)
        assert not verdict.refuted

    @pytest.mark.dpassay(trials=400, false_alarm=1e-4)
    def test_broken(dpassay):
        dpassay(release(0.05), PAIR, claim=da.PureDP(1.0), score=float)

    def test_nothing_to_do_with_it():
        assert True
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_suite.py").write_text(textwrap.dedent(SUITE))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dpassay-trials", "300"]
    command += [f"--junitxml={folder / 'junit.xml'}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    done.junit = ElementTree.parse(folder / "junit.xml")
    return done


def test_junit_has_the_numbers(ran):
    """Of the refuted claim as of the honest one; a test without an audit has none."""
    broken, honest, other = (
        {p.get("name"): float(p.get("value")) for p in case.iter("property")}
        for name in ("test_broken", "test_honest", "test_nothing_to_do_with_it")
        for case in ran.junit.iter("testcase")
        if case.get("name") == name
    )
    assert broken["dpassay_epsilon_lower"] > broken["dpassay_epsilon_claimed"] == 1
    assert honest["dpassay_epsilon_lower"] < 1 < honest["dpassay_ceiling"]
    assert broken["dpassay_trials"] < honest["dpassay_trials"] == 300
    assert other == {}


def test_only_the_refuted_claim_fails(ran):
    assert ran.returncode == 1
    assert "1 failed, 2 passed" in ran.stdout


def test_the_message_says_what_why_and_how_to_replay(ran):
    for part in (
        "Privacy claim refuted: PureDP(epsilon=1)",
        "epsilon >= ",
        "probability at most 0.0001",
        "sensitivity",
        "--dpassay-seed=0 --dpassay-trials=300\n",
        "test_suite.py::test_broken",
    ):
        assert part in ran.stdout


def test_the_summary_adds_up_the_false_alarms(ran):
    assert "dpassay: 2 audit(s)" in ran.stdout
    assert "at most 0.0001" in ran.stdout


MISUSED = """
    import dpassay as da
    import pytest

    PAIR = ([1.0, 0.0], [0.0])

    def release(data, rng):
        return sum(data)

    @pytest.mark.dpassay(trails=400)
    def test_typo(dpassay):
        dpassay(release, PAIR, claim=da.PureDP(1.0), score=float)

    def test_level(dpassay):
        dpassay(release, PAIR, claim=da.PureDP(1.0), score=float, false_alarm=0)

    def test_vacuous(dpassay):
        dpassay(release, PAIR, claim="9", score=float, trials=50, fixed_seed="leak")

    def test_same(dpassay):
        dpassay(lambda data, rng: 5.0, PAIR, claim="1", score=float, trials=100)

    def test_fixed(dpassay):
        dpassay(release, PAIR, claim="1", score=float, trials=100)

    def test_searched(dpassay):
        def narrow(data, rng):
            return sum(data) + rng.laplace(scale=0.01)

        dpassay(narrow, data=[0.0, 1.0, 1.0], claim="1", trials=400)

    def test_strangers(dpassay):
        dpassay(release, ([1, 2, 3, 4, 5, 6], [1]), claim="1", score=float, trials=100)

    def test_no_seed(dpassay):
        dpassay(release, PAIR, claim="1", score=float, rng=None, fixed_seed="leak")
"""


def test_what_would_be_ignored_is_refused_and_no_seed_is_not_replayed(tmp_path):
    (tmp_path / "test_suite.py").write_text(textwrap.dedent(MISUSED))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "does not take trails; it takes trials, false_alarm, seed" in ran
    assert "false_alarm=0 must lie in (0, 1)" in ran
    assert "A test that cannot fail: this audit is vacuous: even a perfect attack could" in ran
    assert "A test that cannot fail. Every output was the same, in both worlds" in ran
    assert "No verdict: every output was the same in each of the two worlds" in ran
    assert "  pair:   1 record(s), one more" in ran
    assert "Misuse of the fixture dpassay: data and data_prime are not neighbours: 5 rec" in ran
    assert "1, 2, 3" not in ran
    assert "During handling of the above exception" not in ran
    assert "Traceback" not in ran
    assert "replay: pytest 'test_suite.py::test_no_seed'\n" in ran


def test_pytest_starts_without_dpassay():
    code = "import sys, _dpassay_pytest; sys.exit('dpassay' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


CHECKS = """
    import numpy as np
    import pytest

    DATA = np.linspace(0, 1, 9)

    def release(data, rng):
        return np.clip(data, 0, 1).sum() + rng.laplace(scale=0.5)  # the line

    def test_broken(dpassay):
        dpassay.check(release, DATA, claim="1")

    def test_honest(dpassay_check):
        assert dpassay_check(release, DATA, claim="2").epsilon_seen == pytest.approx(2.0)

    def test_script(dpassay_check):
        dpassay_check("train.py", claim="2")

    def unseen(data, rng):
        return data.sum() + float(rng.laplace())

    def test_undecided(dpassay_check):
        dpassay_check(unseen, DATA, claim="1", undecided="pass")
        dpassay_check(unseen, DATA, claim="1")
"""
TRAIN = """
import numpy as np
from dpassay import probe
x = probe.data(np.linspace(0, 1, 9))
probe.release(np.clip(x, 0, 1).sum() + np.random.laplace(scale=0.5))
"""


def test_checks_fail_tests_and_name_the_line(tmp_path):
    (tmp_path / "test_checks.py").write_text(textwrap.dedent(CHECKS))
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "2 failed, 2 passed" in ran.stdout
    for part in ("DPA202", "test_checks.py:8", "# the line", "epsilon 2 at delta 0; claimed 1",
                 "A test that cannot fail", "undecided: "):  # fmt: skip
        assert part in ran.stdout
