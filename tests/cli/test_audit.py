"""dpassay audit: targets, data, exit codes, resume."""

import json
import sys
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

from dpassay.cli import app

TARGET = """
    import time
    import numpy as np

    def honest(data, rng):
        return data.sum() + rng.laplace(scale=1.0)

    def broken(data, rng):
        return data.sum() + rng.laplace(scale=0.05)

    def slow(data, rng):
        time.sleep(0.01)
        return data.sum() + rng.laplace(scale=1.0)

    def fails(data, rng):
        raise RuntimeError("the disk is on fire")

    def leaves(data, rng):
        raise SystemExit(7)

    def shapes(data, rng):
        return rng.normal(size=rng.integers(1, 4))

    def chatty(data, rng):
        print("training ...")
        return data.sum() + rng.laplace(scale=1.0)

    def fixed(data, rng):
        return data.sum() + np.random.default_rng(42).laplace(scale=1.0)

    def whole(data, rng):
        return int(data.sum())

    def same(data, rng):
        return 7.0

    def fails_with(data, rng):
        if data.sum():
            raise RuntimeError("no record may be here")
        return rng.laplace()

    def score(output):
        return float(output)

    not_a_function = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_audit_target.py").write_text(textwrap.dedent(TARGET))
    data = np.array([[1.0], [0.0], [0.0]])
    np.savez(tmp_path / "d.npz", data=data, data_prime=data[1:])
    np.save(tmp_path / "one.npy", data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_audit_target", None)


TESTED = "--claim 1 --data d.npz --score my_audit_target.py:score --trials 150 --quiet"
COMMON = f"{TESTED} --workers 0"  # in this process, which spares starting others


def test_exit_codes_and_json(dpassay, folder):
    good = dpassay(f"audit my_audit_target.py:honest {COMMON} --json")
    assert good.code == 0
    assert good.data["refuted"] is False
    bad = dpassay(f"audit my_audit_target.py:broken {COMMON} --json")
    assert bad.code == 1
    data = bad.data
    assert data["refuted"] is True
    assert data["epsilon_lower"] >= 1.0
    assert data["trials"] < 150
    assert data["claim"]["epsilon"] == 1.0
    assert data["ceiling"] >= data["epsilon_lower"]
    assert "audit" in data["replay"] or data["replay"].startswith("dpassay")


def test_a_fixed_seed(dpassay, folder):
    done = dpassay(f"audit my_audit_target.py:fixed {COMMON} --json")
    assert done.code == 3
    assert "your code fixes its seed, or adds no noise" in done.err
    assert dpassay(f"audit my_audit_target.py:fixed {COMMON} --fixed-seed-is-a-leak").code == 1


VACUOUS = "this audit is vacuous: even a perfect attack could not refute the claim in 20 trials"


def test_a_vacuous_audit(dpassay, folder):
    few = COMMON.replace("--trials 150", "--trials 20").replace("--claim 1", "--claim 6")
    done = dpassay(f"audit my_audit_target.py:honest {few}")
    assert done.code == 3
    assert VACUOUS in done.err
    assert "Play at least" in done.err
    assert "--anyway" in done.err
    assert dpassay(f"audit my_audit_target.py:honest {few} --dry-run").code == 3
    anyway = dpassay(f"audit my_audit_target.py:honest {few} --anyway --json")
    assert anyway.code == 0
    assert anyway.data["power"]["vacuous"] is True
    assert anyway.data["next_step"].startswith("Play more trials")


def test_trusted_neighbours(dpassay, folder):
    np.savez(folder / "answers.npz", data=np.ones(5), data_prime=np.zeros(5))
    common = COMMON.replace("d.npz", "answers.npz")
    done = dpassay(f"audit my_audit_target.py:honest {common}")
    assert done.code == 2
    assert 'neighbours="trusted"' in done.err
    trusted = dpassay(f"audit my_audit_target.py:honest {common} --neighbours trusted")
    assert trusted.code == 1
    assert "Nobody checked that the two data sets are neighbours" in trusted.out


def test_words(dpassay, folder):
    bad = dpassay("audit my_audit_target.py:broken --claim 1 --data d.npz --trials 200")
    assert bad.code == 1
    for part in (
        "refuted: epsilon >=",
        "One trial takes",
        "Replay: dpassay",
        "learned while betting",
    ):
        assert part in bad.out
    good = dpassay(f"audit my_audit_target.py:chatty {COMMON}")
    assert "does not mean private" in good.out


def test_modules_and_examples(dpassay, folder):
    assert dpassay(f"audit my_audit_target:honest {COMMON}").code == 0
    assert dpassay("audit example:broken --trials 200 --quiet").code == 1


def test_exit_codes_of_the_bundled_learners(dpassay):
    options = "--confidence 0.999999 --trials 80 --seed 7 --json"
    for target, code in (("honest", 0), ("broken", 1)):
        done = dpassay(f"audit example:{target} {options}")
        assert (done.code, done.data["refuted"]) == (code, bool(code))


def test_dry_run(dpassay, folder):
    data = dpassay(f"audit my_audit_target.py:honest {COMMON} --dry-run --json").data
    assert data["seconds_per_trial"] > 0
    assert data["ceiling"] == pytest.approx(2.9875, abs=1e-3)  # 75 perfect trials of each world


@pytest.mark.parametrize(
    ("target", "options", "code", "said"),
    [
        ("fixed", "", 3, "your code fixes its seed"),
        ("whole", "", 3, "your code fixes its seed"),
        ("fails", "", 3, "4 of 4 trials failed. The first error was:"),
        ("fails_with", "", 3, "2 of 4 trials failed. The first error was:"),
        ("honest", "--data far.npz", 2, "are not neighbours"),
        ("honest", "--trials 20 --claim 6", 3, VACUOUS),
        ("fixed", "--fixed-seed-is-a-leak", 0, ""),
    ],
)
def test_a_dry_run_fails_on_what_would_fail(dpassay, folder, target, options, code, said):
    np.savez(folder / "far.npz", data=np.ones((5, 1)), data_prime=np.zeros((3, 1)))
    done = dpassay(f"audit my_audit_target.py:{target} {COMMON} {options} --dry-run")
    assert done.code == code
    assert said in done.err
    if target != "fails_with":  # one world of two: the audit goes on for a while
        real = dpassay(f"audit my_audit_target.py:{target} {COMMON} {options}")
        assert real.code == code or code == 0


def test_outputs_that_are_all_the_same_say_nothing(dpassay, folder):
    done = dpassay(f"audit my_audit_target.py:same {COMMON}")
    assert done.code == 3
    assert "Next: Every output was the same, in both worlds" in done.out
    assert dpassay(f"audit my_audit_target.py:same {COMMON} --anyway").code == 0


def test_a_refutation_of_a_curve_says_where_it_fell(dpassay, folder):
    common = COMMON.replace("--claim 1", "--claim gdp:0.5")
    done = dpassay(f"audit my_audit_target.py:broken {common}")
    assert done.code == 1
    assert "where the claim allows" in done.out.split("AUC")[1].partition("\n")[2]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("audit nothing.py:f --claim 1 --data d.npz", "nothing.py"),
        ("audit my_audit_target.py --claim 1 --data d.npz", "target="),
        ("audit my_audit_target.py:missing --claim 1 --data d.npz", "missing"),
        ("audit my_audit_target.py:not_a_function --claim 1 --data d.npz", "not_a_function"),
        ("audit no_such_module:f --claim 1 --data d.npz", "no_such_module"),
        ("audit example:other --claim 1", "example:other"),
        ("audit my_audit_target.py:honest --data d.npz", "claim"),
        ("audit my_audit_target.py:honest --claim 1", "data"),
        ("audit my_audit_target.py:honest --claim 1 --data other.npz", "other.npz"),
        ("audit my_audit_target.py:honest --claim 1 --data one.npy", "is not an NPZ archive"),
        ("audit my_audit_target.py:honest --claim 1 --data my_audit_target.py", "is not an NPZ"),
        ("audit my_audit_target.py:honest --claim x --data d.npz", "x"),
        ("audit my_audit_target.py:honest --claim 1 --data d.npz --confidence 1", "confidence"),
        ("audit my_audit_target.py:honest --claim 1 --data d.npz --trials 0", "trials"),
        (
            "audit my_audit_target.py:honest --claim 1 --data d.npz --neighbouring replace-one",
            "neighbours",
        ),
        (f"audit my_audit_target.py:honest {COMMON} --store .", "."),
    ],
)
def test_misuse(dpassay, folder, words, named):
    done = dpassay(words)
    assert done.code == 2
    assert named in done.err


def test_too_many_failures_stop_it(dpassay, folder):
    done = dpassay(f"audit my_audit_target.py:fails {COMMON}")
    assert done.code == 3
    assert "my_audit_target.py:" in done.err  # where it failed, but not its words
    assert "the disk is on fire" not in done.err
    assert dpassay(f"audit my_audit_target.py:leaves {COMMON}").code == 3


def test_the_exit_code_of_a_target_is_not_ours(dpassay, folder):
    """1 means refuted; a target that leaves with 1 has refuted nothing."""
    (folder / "leaves_early.py").write_text("raise SystemExit(1)")
    assert dpassay("audit leaves_early.py:f --claim 1 --data d.npz").code == 2
    (folder / "leaves_late.py").write_text("def f(data, rng):\n    raise SystemExit(1)\n")
    done = dpassay("audit leaves_late.py:f --claim 1 --data d.npz --trials 150")
    assert done.code == 3
    assert "SystemExit" in done.err


def test_outputs_of_different_shapes(dpassay, folder):
    done = dpassay("audit my_audit_target.py:shapes --claim 1 --data d.npz --trials 200 --quiet")
    assert done.code == 0


def test_report(dpassay, folder):
    (folder / "about.toml").write_text('unit = "person"\n')
    options = "--report out/page.html --about about.toml --proof 2"
    done = dpassay(f"audit my_audit_target.py:broken {COMMON} {options}")
    assert done.code == 1
    assert "Written: out/page.html" in done.out
    page = (folder / "out" / "page.html").read_text(encoding="utf-8")
    assert "Audit of my_audit_target.py:broken" in page
    assert json.loads((folder / "out" / "page.json").read_text())["schema"] == "dpassay-report"


@pytest.mark.parametrize("as_json", ["", "--json"])
def test_a_report_that_cannot_be_written_loses_no_verdict(dpassay, folder, as_json, monkeypatch):
    stored = f"audit my_audit_target.py:broken {COMMON} --store run.db {as_json}"
    (folder / "page.json").mkdir()  # where the data of the page belong
    done = dpassay(f"{stored} --report page.html")
    assert done.code == 2
    assert done.out == ""  # said before anything is played
    assert "page.json" in done.err

    def broken(*_, **__):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("dpassay.report.audit_report", broken)
    done = dpassay(f"{stored} --report other.html")
    assert done.code == 2
    assert "refuted" in done.out
    assert "RuntimeError at " in done.err
    assert dpassay("status run.db --json").data["runs"][0]["refuted"] is True


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--report page.txt", "page.txt"),
        ("--report my_audit_target.py/page.html", "my_audit_target.py/page.html"),
        ("--proof 3", "report"),
        ("--report page.html --about nothing.toml", "nothing.toml"),
        ("--report page.html --proof x", "x"),
    ],
)
def test_a_report_that_cannot_be_is_told_before_anything_is_played(dpassay, folder, options, named):
    done = dpassay(f"audit my_audit_target.py:slow {COMMON} --store run.db {options}")
    assert done.code == 2
    assert named in done.err
    assert not (folder / "run.db").exists()


SEARCHED = """
import numpy as np

def noisy_max(answers, rng, size):
    return (np.asarray(answers) + rng.laplace(0.0, 2.0, size=(size, len(answers)))).max(axis=1)

def leaky_mean(data, rng):
    return float(np.mean(data)) + rng.laplace(scale=0.05)
"""


@pytest.mark.parametrize(
    "options",
    [
        ["noisy_max", "--input", "vector:6,moves=all,low=0,high=2", "--trials", "60000"],
        ["leaky_mean", "--data", "alone.npz", "--trials", "900"],
    ],
    ids=["input", "data alone"],
)
def test_the_pair_is_searched_and_named(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "searched_target", raising=False)
    (tmp_path / "searched_target.py").write_text(SEARCHED)
    np.savez(tmp_path / "alone.npz", data=np.linspace(0, 1, 20))
    target, *rest = options
    asked = ["audit", f"searched_target.py:{target}", *rest, "--claim", "1,0", "--workers", "0"]
    result = CliRunner().invoke(app, [*asked, "--json"])
    assert result.exit_code == 1, result.output
    assert json.loads(result.stdout)["pair"]


def test_an_input_is_instead_of_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["audit", "example:honest", "--input", "vector:3", "--data", "d.npz", "--claim", "1,0"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2
    assert "leave --data out" in result.stderr
