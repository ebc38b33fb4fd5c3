"""What a new user does wrong, and the sentence that each of these mistakes ends with."""

import shlex
import sys
import textwrap
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import dpassay as da
from dpassay.auditing import AuditStopped
from dpassay.cli import app

SCRIPT = """
    import random
    from pathlib import Path
    from dpassay import probe

    Path("runs.txt").open("a").write("run\\n")
    {seed}
    records = {data}
    {fail}
    noise = random.expovariate(1) - random.expovariate(1)
    Path("checkpoint.pt").write_text(str(sum(records) + noise))
    {release}
"""
LINES = {
    "seed": "",
    "data": "probe.data([0.0], canary=1.0)",
    "fail": "",
    "release": "probe.release(sum(records) + noise)",
}
TARGET = """
    import itertools
    import numpy as np

    class Model:
        pass

    def count(data, rng):
        return len(data) + rng.laplace()

    def narrow(data, rng):
        return len(data) + rng.laplace(scale=0.1)

    def model(data, rng):
        return Model()

    def fails(data, rng):
        raise ValueError(f"record {data}")

    def fails_with(data, rng):
        if len(data) == 3:
            raise ValueError(f"record {data}")
        return rng.laplace()

    def no_noise(data, rng):
        return len(data) + 0.5

    def repeats(data, rng, seeds=itertools.cycle(range(10))):
        return len(data) + np.random.default_rng(next(seeds)).laplace()

    def constant(data, rng):
        return 7.0

    def largest(answers, rng):
        return 0.0 * sum(answers) + rng.laplace()
"""
FIXED = (
    "dpassay: every output was the same in each of the two worlds: your code fixes its seed, or "
    "adds no noise. Take the seed out (torch.manual_seed, np.random.seed, random_state=) or draw "
    "from the generator that is passed."
)
VACUOUS = (
    "dpassay: this audit is vacuous: even a perfect attack could not refute the claim in 20 "
    "trials. Play at least 154 trials."
)
STRANGERS = (
    "data and data_prime are not neighbours: 5 record(s) are only in the first, 0 only in the "
    "second, while the claim is about add-remove of 1. Make them differ by one record, state the "
    "claim's neighbouring, or pass group= (--group)."
)
FAULT = (
    "Look for the fault: sensitivity, noise scale, clipping, and what is computed from the number "
    "of records"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_new_target.py").write_text(textwrap.dedent(TARGET))
    np.savez(tmp_path / "pair.npz", data=np.arange(3), data_prime=np.arange(2))
    np.savez(tmp_path / "strangers.npz", data=np.arange(6), data_prime=np.arange(1))
    (tmp_path / "checkpoint.pt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_new_target", None)


@pytest.fixture
def script(folder):
    """Writes a training script with these lines in the place of good ones; returns its path."""

    def write(**lines):
        path = folder / "train.py"
        path.write_text(textwrap.dedent(SCRIPT.format(**LINES | lines)))
        return path

    return write


def run(line):
    """Output, what was said on the side, and the exit code; everything in this process."""
    command = shlex.split(f"audit {line} --workers 0")
    done = CliRunner().invoke(app, command, env={"COLUMNS": "100", "NO_COLOR": "1"})
    return done.stdout, " ".join(done.stderr.split()), done.exit_code


def test_a_script_with_a_fixed_seed(script):
    script(seed="random.seed(42)")
    out, said, code = run("train.py --claim 1 --trials 100 --quiet")
    assert (out, code) == ("", 3)
    assert said.startswith(FIXED)


def test_a_vacuous_claim_is_told_before_a_minute_is_spent_on_timing(script, folder):
    script()
    out, said, code = run("train.py --claim 3 --trials 20 --in-place")
    assert (out, code) == ("", 3)
    assert said == f"{VACUOUS} Or play it all the same: --anyway."
    assert not (folder / "runs.txt").exists()


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            {"data": "[0.0]"},
            "train.py never called probe.data. Add: train_set = probe.data(train_set, "
            "canary=(x, y))",
        ),
        ({"release": ""}, "train.py never called probe.release. Add: probe.release(model)"),
        (
            {"release": "probe.release([1.0])"},
            "the script released a list, not a number. Say how to score it, "
            "probe.release(model, score=...), or have a score learned: --score learned.",
        ),
    ],
)
@pytest.mark.parametrize("option", ["", "--quiet", "--dry-run"])
def test_a_script_that_cannot_be_audited(script, lines, sentence, option):
    script(**lines)
    assert run(f"train.py --claim 1 --trials 100 {option}") == ("", f"dpassay: {sentence}", 3)


def test_a_script_that_fails_is_named_by_its_own_path(script, folder):
    path = script(fail='raise RuntimeError("12 Main Street")')
    out, said, code = run("train.py --claim 1 --trials 100 --quiet")
    assert (out, code) == ("", 3)
    assert said == (
        "dpassay: 25 of 25 trials failed, too many to say anything. The first error was: "
        f"RuntimeError {path.resolve()}:9 in <module> Its words are left out, since they may quote "
        "a record; with DPASSAY_DEBUG=1 they are shown."
    )


def test_checkpoints_are_not_overwritten(script, folder):
    script()
    out, _, code = run("train.py --claim 1 --trials 40 --quiet")
    assert (out.startswith("not refuted: "), code) == (True, 0)
    assert (folder / "checkpoint.pt").read_text() == "mine"
    assert not (folder / "runs.txt").exists()


def test_a_function_that_fails(folder):
    out, said, code = run("my_new_target.py:fails --claim 1 --data pair.npz --trials 60 --dry-run")
    assert (out, code) == ("", 3)
    assert said == (
        "dpassay: 4 of 4 trials failed. The first error was: ValueError "
        f"{folder.resolve() / 'my_new_target.py'}:18 in fails Its words are left out, since they "
        "may quote a record; with DPASSAY_DEBUG=1 they are shown."
    )


def test_an_output_without_numbers(folder):
    out, said, code = run("my_new_target.py:model --claim 1 --data pair.npz --trials 60 --quiet")
    assert (out, code) == ("", 3)
    assert said == (
        "dpassay: the output is of type 'Model', in which no numbers, texts or arrays are found. "
        "Return what is published, such as numbers or a fitted model, or pass a score of your own "
        "that makes a number of it."
    )


def test_data_sets_that_are_no_neighbours(folder):
    out, said, code = run("my_new_target.py:count --claim 1 --data strangers.npz --quiet")
    assert (out, code) == ("", 2)
    assert said.startswith(f"dpassay: {STRANGERS}")
    _, said, code = run("my_new_target.py:count --claim 1 --data strangers.npz")
    assert code == 2
    assert said.startswith(f"dpassay: {STRANGERS}")  # before a trial is played to be timed
    pairs = [([1, 2, 3, 4, 5, 6], [1]), ("abcdef", "a"), (dict.fromkeys("abcdef"), {"a": None})]
    for pair in pairs:
        with pytest.raises(da.errors.InvalidArgument) as refused:
            da.audit(lambda data, rng: len(data) + rng.laplace(), pair, claim=(1, 0))
        assert str(refused.value).startswith(STRANGERS)


def line(out, start):
    return next(line for line in out.splitlines() if line.startswith(start))


@pytest.mark.parametrize(
    ("call", "code", "power", "step"),
    [
        (
            "count --data pair.npz --trials 200",
            0,
            "AUC 0.684 where the claim allows 0.731, ceiling 3.6",
            "Play more trials, 800 for example: the attack sees something.",
        ),
        (
            "narrow --data pair.npz --trials 200",
            1,
            "where the claim allows 0.731, ceiling 1.",
            f"{FAULT}; measure=True (--measure) shows how bad it is.",
        ),
        (
            "narrow --data pair.npz --trials 200 --measure",
            1,
            "where the claim allows 0.731, ceiling 3.6",
            f"{FAULT}.",
        ),
        (
            "fails_with --data pair.npz --trials 200",
            1,
            "where the claim allows 0.731, ceiling 1.",
            "Find out why it fails: 13 trials failed on the first data set and 0 on the second, "
            "and a failure is an output too.",
        ),
        (
            "largest --input vector:4 --trials 300",
            0,
            "where the claim allows 0.731, ceiling 3.",
            "The attack saw nothing on any pair that was tried: play more trials, give a data set "
            "or an input that allows more (low, high, moves=all), or pass a score of your own.",
        ),
    ],
)
def test_every_verdict_shows_its_power_and_ends_with_one_step(folder, call, code, power, step):
    out, _, left = run(f"my_new_target.py:{call} --claim 1 --quiet")
    assert left == code
    assert power in out.splitlines()[0]
    assert line(out, "Next: ") == f"Next: {step}"


def test_an_input_says_what_a_neighbour_is(folder):
    out, _, _ = run("my_new_target.py:largest --input vector:4 --trials 100 --claim 1 --quiet")
    assert "100 trials (40 for the search), budget spent" in out
    assert line(out, "Neighbours are ") == (
        "Neighbours are what the input says they are; nobody checked that one record of yours "
        "moves no more."
    )
    assert "Nobody checked that the two data sets" not in out


def test_an_interrupted_audit_is_to_be_gone_on_with():
    calls = iter(range(1000))

    def interrupted(data, rng):
        if next(calls) == 60:
            raise KeyboardInterrupt
        return len(data) + rng.laplace()

    verdict = da.audit(interrupted, ([1, 2], [1]), claim=(1, 0), trials=400)
    assert verdict.ended == "interrupted"
    assert verdict.next_step == (
        "Go on to the end: the same audit with the same store= (--store) resumes where it stopped."
    )


def test_a_seed_that_is_fixed_in_python():
    with pytest.raises(AuditStopped, match="your code fixes its seed, or adds no noise"):
        da.audit(lambda data, rng: len(data), ([1, 2], [1]), claim="1", trials=60)


@pytest.mark.parametrize(
    ("target", "claim", "trials", "sentence"),
    [
        ("no_noise", "1", 60, FIXED.removeprefix("dpassay: ")),
        (
            "repeats",
            "1",
            200,
            "outputs came back bit for bit, and not at random: trials are not independent, so that "
            "no bound on them would hold. Look for a seed that is used again (a counter, the time) "
            "or a cache.",
        ),
        (
            "count",
            "3",
            20,
            "this audit is vacuous: even a perfect attack could not refute the claim in 20 trials. "
            "Play at least 152 trials.",
        ),
        (
            "constant",
            "1",
            60,
            "Every output was the same, in both worlds: return what depends on the data, and see "
            "that the pair differs in what the target uses.",
        ),
    ],
)
def test_python_and_the_command_line_say_the_same(folder, target, claim, trials, sentence):
    call = f"my_new_target.py:{target} --data pair.npz --claim {claim} --trials {trials}"
    out, said, code = run(f"{call} --quiet")
    assert code == 3
    assert sentence in said + " ".join(out.split())
    assert sentence in _said_in_python(target, claim, trials)


def _said_in_python(target, claim, trials):
    """The warning, the error or the next step of the same audit."""
    space = {}
    exec(textwrap.dedent(TARGET), space)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            pair = np.arange(3), np.arange(2)
            verdict = da.audit(space[target], pair, claim=claim, trials=trials)
    except AuditStopped as stopped:
        return str(stopped)
    assert verdict.power.vacuous
    return " ".join([*(str(one.message) for one in warned), verdict.next_step])
