"""A whole script as a mechanism: a trial depends on its number alone, and leaves nothing behind."""

import importlib
import os
import random
import subprocess
import sys
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import cloudpickle
import numpy as np
import pytest

import dpassay as da
from dpassay._rng import for_trial
from dpassay.auditing import AuditStopped, ScriptFailed, from_script
from dpassay.auditing.adapters import script as scripts
from dpassay.auditing.adapters.sources import local_modules
from dpassay.errors import InvalidArgument
from dpassay.runs import MemoryLog, run_key
from extras import needs

TRAIN = """
    import random, sys
    import numpy as np
    from dpassay import probe

    SCALE = 0.1 if "--bug" in sys.argv else 1.0

    if __name__ == "__main__":
        records = probe.data([0.0, 0.0], canary=1.0)
        noise = random.expovariate(1 / SCALE) - np.random.exponential(SCALE)
        model = sum(records) + noise
        probe.release(model)
        print("trained", model)
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="train.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


def played(script, trial, world=0):
    return script(script.worlds[world], for_trial(3, trial))


def test_an_audit(write):
    path = write(TRAIN)
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 200, "confidence": 1 - 1e-6}
    honest, broken = from_script(path), from_script(path, ["--bug"])
    assert not da.audit(honest, honest.worlds, **options).refuted
    assert da.audit(broken, broken.worlds, **options).refuted


def test_an_ordinary_run(write):
    done = subprocess.run(
        [sys.executable, str(write(TRAIN))], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("trained ")


def test_a_trial_depends_on_its_number_alone(write):
    script = from_script(write(TRAIN))
    forth = [played(script, trial) for trial in range(4)]
    random.random()
    back = [played(script, trial) for trial in reversed(range(4))]
    assert forth == back[::-1]
    assert len(set(forth)) == 4
    assert played(script, 0) - played(script, 0, world=1) == pytest.approx(1.0)


def test_it_does_not_depend_on_who_plays(write):
    script = from_script(write(TRAIN))
    options = {"claim": da.PureDP(1.0), "score": float, "trials": 40, "rng": 1}
    here = da.audit(script, script.worlds, **options)
    with ThreadPoolExecutor(3) as threads:
        spread = da.audit(script, script.worlds, **options, executor=threads)
    elsewhere = da.audit(script, script.worlds, **options, workers=2)
    for other in (spread, elsewhere):
        np.testing.assert_array_equal(here.evidence.scores, other.evidence.scores)


def test_without_a_generator_the_noise_is_new_each_time(write):
    script = from_script(write(TRAIN))
    assert len({script(script.worlds[0], None) for _ in range(5)}) == 5


def test_torch_is_seeded(write):
    torch = needs("torch")
    script = from_script(
        write("""
        import torch
        from dpassay import probe

        x, = probe.data((torch.zeros(2),), canary=(1.0,))
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_num_threads(2)
        probe.release(float(x.sum() + torch.randn(())))
        """)
    )
    before = torch.get_rng_state(), torch.get_num_threads()
    assert played(script, 1) == played(script, 1) != played(script, 2)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()


def test_what_a_trial_loads_first_makes_no_difference(write, tmp_path, monkeypatch):
    """A library that draws while it is imported, as the first trial of a worker finds it."""
    write("import random\nrandom.random()\n", "installed/draws_at_import.py")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    script = from_script(write(f"import draws_at_import\n{textwrap.dedent(TRAIN)}", "own/train.py"))

    def first():
        sys.modules.pop("draws_at_import", None)
        scripts._READY.discard(script)
        return played(script, 0)

    assert first() == played(script, 0) == first()
    monkeypatch.setattr(scripts.Script, "_rehearse", lambda *_: None)  # the mutant
    assert first() != played(script, 0)
    sys.modules.pop("draws_at_import")


def test_no_outcome_is_dropped_for_what_it_was(write):
    """Failures that load a module count like others: one rehearsal a process, whatever came."""
    counted = write("""
    import os
    from dpassay import probe

    probe.data([0.0], canary=1.0)
    with open(os.path.join(os.path.dirname(__file__), "runs"), "a") as log:
        log.write(".")
    import wave, a_package_that_is_missing
    """)
    script = from_script(counted, in_place=True)
    for _ in range(3):
        with pytest.raises(ModuleNotFoundError):
            played(script, 0)
    assert (counted.parent / "runs").read_text() == "...."


LEAKY = """
    import os, random, sys, warnings
    import numpy as np
    from dpassay import probe
    import beside

    beside.calls.append(1)
    records = probe.data([0.0], canary=1.0)
    assert __name__ == "__main__" and "seen" not in globals()
    seen = [len(beside.calls), len(sys.argv), os.environ.get("LEAK", ""), os.getcwd()]
    seen += [sys.argv[1:], sys.path[0] == os.path.dirname(__file__)]
    sys.argv.append("--more")
    sys.path.append("/nowhere")
    os.environ["LEAK"] = "yes"
    os.chdir("/")
    warnings.simplefilter("error")
    random.seed(1)
    np.random.seed(1)
    probe.release(seen)
"""


def test_nothing_leaks(write, monkeypatch):
    write("calls = []", "beside.py")
    script = from_script(write(LEAKY), ["--fast"])
    monkeypatch.delenv("LEAK", raising=False)

    def state():
        return (
            [list(sys.argv), list(sys.path), os.getcwd(), dict(os.environ)],
            [random.getstate(), str(np.random.get_state()), list(warnings.filters)],  # noqa: NPY002
            [sys.modules["__main__"], "beside" in sys.modules],
        )

    before = state()
    first = played(script, 0)
    assert state() == before
    assert first == played(script, 1)
    assert first[3] != os.getcwd()  # a scratch copy
    assert [*first[:3], *first[4:]] == [1, 2, "", ["--fast"], True]


def test_no_file_of_the_user_is_overwritten(write, tmp_path):
    """Checkpoints that a script writes are thrown away, and its next run finds the user's own."""
    script = from_script(
        write("""
        import os
        from dpassay import probe

        records = probe.data([0.0], canary=1.0)
        here = os.path.dirname(__file__)
        with open(os.path.join(here, "checkpoint"), "r+") as file:
            found = file.read()
            file.write("more")
        open(os.path.join(here, "log"), "a").close()
        probe.release([found, os.path.exists("checkpoint")])
        """)
    )
    (tmp_path / "checkpoint").write_text("mine")
    assert played(script, 0) == played(script, 1) == ["mine", True]
    assert (tmp_path / "checkpoint").read_text() == "mine"
    assert not (tmp_path / "log").exists()
    (tmp_path / "checkpoint").write_text("mine, later")
    assert played(script, 2) == ["mine, later", True]
    played(replace(script, in_place=True), 0)
    assert (tmp_path / "checkpoint").read_text().startswith("mine, latermore")
    assert (tmp_path / "log").exists()


def test_a_folder_that_is_too_large_is_refused(write, monkeypatch):
    monkeypatch.setattr("dpassay.auditing.working_copy.MOST_BYTES", 10)
    with pytest.raises(InvalidArgument, match=r"Run it in a folder .* or pass --in-place\.$"):
        played(from_script(write(TRAIN)), 0)


def test_a_module_that_was_loaded_before_is_put_back(write, tmp_path, monkeypatch):
    write("calls = [1, 2, 3]", "beside.py")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module("beside")
    loaded.calls.append(4)
    assert played(from_script(write(LEAKY)), 0)[0] == 4  # three, and that of the script
    assert sys.modules.pop("beside") is loaded
    assert len(loaded.calls) == 4


@pytest.mark.parametrize(
    ("last", "raised", "named"),
    [
        ("probe.data([1], canary=2)", InvalidArgument, "never called probe.release"),
        ("probe.release(1.0)", InvalidArgument, "never called probe.data"),
        (
            "probe.data([1], canary=2); probe.release(1.0); probe.release(1.0)",
            InvalidArgument,
            "probe.release 2 times",
        ),
        ("sys.exit(3)", ScriptFailed, "exit code 3"),
        ("sys.exit('no data')", ScriptFailed, "'no data'"),
        ("1 / 0", ZeroDivisionError, "division"),
    ],
)
def test_scripts_that_fail(write, last, raised, named):
    script = from_script(write(f"import sys\nfrom dpassay import probe\n{last}\n"))
    argv = list(sys.argv)
    with pytest.raises(raised, match=named):
        played(script, 0)
    assert sys.argv == argv


@pytest.mark.parametrize("code", ["", "0", "None"])
def test_a_script_may_leave_when_it_is_done(write, code):
    script = from_script(write(f"{textwrap.dedent(TRAIN)}\n    sys.exit({code})\n"))
    assert isinstance(played(script, 0), float)


def test_an_audit_says_what_is_missing(write):
    script = from_script(write("print('training')"))
    log = MemoryLog()
    for score in (float, None):
        options = {"claim": da.PureDP(1.0), "score": score, "store": log}
        with pytest.raises(
            AuditStopped, match=r"^train\.py never called probe\.data\. Add: train_set"
        ):
            da.audit(script, script.worlds, **options)
    assert [len(log.outcomes(run.key)) for run in log.runs()] == [1, 1]


def test_hangs(write):
    """A trial that runs out of time is an output, and leaves nothing behind either."""
    script = from_script(write(f"import time\ntime.sleep(60)\n{textwrap.dedent(TRAIN)}"))
    argv = list(sys.argv)
    with pytest.raises(AuditStopped, match="timeout"):
        da.audit(script, script.worlds, claim=da.PureDP(1.0), score=float, timeout=0.05, trials=20)
    assert sys.argv == argv
    assert not scripts._ONE_AT_A_TIME.locked()


def test_the_key_follows_the_text(write):
    write("SCALE = 1", "beside.py")
    write("", "package/__init__.py")
    write("from . import inner\nfrom .. import nothing", "package/part.py")
    write("", "package/inner.py")
    path = write("import beside\nfrom package.part import thing\nimport numpy, dpassay.probe\n")

    def key(path, arguments=()):
        return run_key({}, code=[from_script(path, arguments)])

    first = key(path)
    names = ["beside.py", "package/__init__.py", "package/inner.py", "package/part.py"]
    assert [str(p.relative_to(path.parent)) for p in local_modules(path)] == names
    assert key(path) == first != key(path, ["--bug"])
    keys = {first}
    for name in ["train.py", *names]:
        with (path.parent / name).open("a") as file:
            file.write("\n# changed\n")
        keys.add(key(path))
    assert len(keys) == 6


def test_the_key_does_not_follow_the_folder(write):
    one, two = write(TRAIN, "a/train.py"), write(TRAIN, "b/train.py")
    assert run_key({}, code=[from_script(one)]) == run_key({}, code=[from_script(two)])


def test_it_can_be_sent(write):
    script = from_script(write(TRAIN), ["--bug"])
    assert cloudpickle.loads(cloudpickle.dumps(script)) == script


def test_misuse(write):
    with pytest.raises(InvalidArgument, match=r"nowhere\.py"):
        from_script("nowhere.py")
    with pytest.raises(InvalidArgument, match="no Python"):
        from_script(write("these words are prose"))
    with pytest.raises(InvalidArgument, match="arguments"):
        from_script(write(TRAIN), "--bug")
    with pytest.raises(InvalidArgument, match="data='elsewhere'"):
        from_script(write(TRAIN))("elsewhere", None)
