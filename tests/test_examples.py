"""Every file in examples/ is run as a reader would run it, and says what it is there to show."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import dpassay as da
from dpassay.auditing import from_command, from_script
from extras import needs

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"
TABLE = "age,income\n" + "".join(f"{20 + i % 60},{300 * i}\n" for i in range(99))


class Example(NamedTuple):
    says: str  # a pattern of what it prints
    module: str = "dpassay"  # that it needs,
    extra: str = ""  # and where it comes from
    arguments: str = ""
    warnings: str = "error"  # what third parties warn of is theirs
    beside: str = ""  # a package that no extra has; without it the example is skipped


EXAMPLES = {
    "attack_a_model.py": Example(r"lira .*(\n.*)+epsilon >= "),
    "audit_a_mechanism.py": Example("honest: .* not refuted .*\nbroken: .* refuted"),
    "csv_script.py": Example("model.json: 99 rows, 2 means", arguments="data.csv model.json"),
    "in_ten_lines.py": Example("^refuted: epsilon >= 1.*\n1.828"),
    "jax_training.py": Example("honest: not refuted.*\nbroken: refuted", "jax", "lab"),
    "make_scores.py": Example("canaries.csv"),
    "one_run_audit.py": Example("ceiling"),
    "one_training_adapters.py": Example(
        r"1616 of \d+ parameters(.*\n)+.*not refuted(.*\n)+.*kappa 1",
        "opacus",
        "torch",
        warnings="ignore",
    ),
    "one_training_jax.py": Example("not refuted(.*\n)+.*exercised: noise", "jax", "lab"),
    "one_training_lightning.py": Example(
        "not refuted(.*\n)+.*exercised: noise",
        "opacus",
        "torch",
        warnings="ignore",
        beside="lightning",
    ),
    "one_training_opacus.py": Example(
        "as it is: not refuted(.*\n)+half the noise: refuted(.*\n)+.*too little noise was added",
        "opacus",
        "torch",
        warnings="ignore",
    ),
    "one_training_trainer.py": Example(
        "not refuted(.*\n)+.*exercised: noise",
        "opacus",
        "torch",
        warnings="ignore",
        beside="transformers",
    ),
    "one_training_transformer.py": Example(
        "noise: not refuted(.*\n)+clipping: not refuted(.*\n)+.*clipping: rows",
        "opacus",
        "torch",
        warnings="ignore",
    ),
    "one_training_sklearn.py": Example("private: not refuted.*\nno noise: refuted"),
    "one_training_text.py": Example(
        r"loss \d.*\nnot refuted.*1 trial", "opacus", "torch", warnings="ignore"
    ),
    "opacus_canary.py": Example(
        "honest: not refuted.*\nhalf the noise: refuted", "opacus", "torch", warnings="ignore"
    ),
    "opacus_mnist.py": Example(r"accuracy 0\.[3-9]", "opacus", "torch", warnings="ignore"),
    "price_a_training.py": Example("noise multiplier"),
    "private_release.py": Example("exact"),
    "white_box_jax.py": Example("within its interval: True", "jax", "lab"),
    "white_box_torch.py": Example("within its interval: True", "torch", "torch"),
    "sklearn_estimator.py": Example("honest: not refuted.*\nbroken: refuted"),
    "train_with_a_bug.py": Example("accuracy", "torch", "torch"),  # its bug is for dpassay check
}


def test_all_are_listed():
    assert {path.name for path in FOLDER.glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path):
    example = EXAMPLES[name]
    needs(example.module, example.extra)
    if example.beside and importlib.util.find_spec(example.beside) is None:
        pytest.skip(f"could not import '{example.beside}'")
    (tmp_path / "data.csv").write_text(TABLE)
    command = [sys.executable, "-W", example.warnings, str(FOLDER / name)]
    done = subprocess.run(
        command + shlex.split(example.arguments),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(example.says, done.stdout), done.stdout


def test_the_readme_shows_one_of_them():
    text = (FOLDER / "in_ten_lines.py").read_text(encoding="utf-8")
    code = text.split('"""', 2)[2].strip()
    assert f"```python\n{code}\n```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_scores_are_those_that_the_example_writes(tmp_path):
    command = [sys.executable, str(FOLDER / "make_scores.py")]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    for name in ("scores.csv", "canaries.csv"):
        written, kept = (
            np.loadtxt(folder / name, delimiter=",", skiprows=1) for folder in (tmp_path, FOLDER)
        )
        np.testing.assert_allclose(written, kept, atol=1e-4)


# ------------------------------------------------------------------------------------- Opacus

OPACUS_CLAIM = da.dp_sgd_event(noise_multiplier=3.0, sampling_rate=1 / 4, steps=8)


@pytest.mark.parametrize(("arguments", "refuted"), [((), False), (("--bug",), True)])
def test_opacus_script(arguments, refuted):
    """A true claim is refuted once in 10^6; the optimizer that is not private falls soon."""
    needs("opacus", "torch")
    script = from_script(FOLDER / "opacus_mnist.py", arguments)
    verdict = da.audit(
        script,
        script.worlds,
        claim=da.account(OPACUS_CLAIM),
        score=float,
        trials=100 if refuted else 60,
        confidence=0.999 if refuted else 1 - 1e-6,
    )
    assert verdict.evidence.n_failed == 0
    assert verdict.refuted == refuted
    assert np.std(verdict.evidence.scores) > 1  # the noise is not that of one seed


@pytest.mark.parametrize(("arguments", "refuted"), [((), False), (("--bug",), True)])
def test_one_training_of_a_language_model(arguments, refuted):
    """By canaries of a new token each; a true claim is refuted once in 10^4."""
    needs("opacus", "torch")
    from dpassay.canaries.script import audit_script

    script = FOLDER / "one_training_text.py"
    (verdict,) = audit_script(script, arguments, confidence=0.95 if refuted else 0.9999)
    assert verdict.refuted == refuted
    assert verdict.bound.assumes_nothing
    assert len(re.findall(r"# \d", script.read_text(encoding="utf-8"))) <= 6  # added lines


@pytest.mark.filterwarnings("ignore:Secure RNG")
def test_opacus_script_has_the_same_rate_and_divisor_in_both_worlds():
    """Opacus takes them from n; what the claim prices is what is played."""
    needs("opacus", "torch")
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    text = (FOLDER / "opacus_mnist.py").read_text(encoding="utf-8")
    records, batch, epochs = map(int, re.search(r"= (\d+), (\d+), (\d+)", text).groups())
    seen = set()
    for n in (records, records + 1):
        model = torch.nn.Linear(1, 1)
        _, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            data_loader=DataLoader(TensorDataset(torch.zeros(n, 1)), batch_size=batch),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        seen.add((loader.sample_rate, len(loader) * epochs, optimizer.expected_batch_size))
    assert seen == {(1 / 4, 8, 250)}


# ------------------------------------------------------------------------------------- a command


@pytest.mark.parametrize(("option", "refuted"), [("", False), ("--bug", True)])
def test_csv_script(option, refuted):
    import pandas as pd

    script = shlex.quote(str(FOLDER / "csv_script.py"))
    command = from_command(f"python {script} {{data}} {{output}}.json --seed {{seed}} {option}")
    rows = [line.split(",") for line in TABLE.split()]
    data_prime = pd.DataFrame(rows[1:], columns=rows[0])
    data = pd.concat([data_prime, pd.DataFrame({"age": ["1980"], "income": ["0"]})])
    verdict = da.audit(
        command,
        (data, data_prime),
        claim=da.PureDP(1.0),
        score=lambda model: model["age"],
        trials=80,
        confidence=1 - 1e-6,
    )
    assert verdict.evidence.n_failed == 0
    assert verdict.refuted == refuted
