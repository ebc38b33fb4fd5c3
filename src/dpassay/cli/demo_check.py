"""The first stop of ``dpassay demo``: a training script with a bug, and the line that has it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpassay import _files
from dpassay._scratch import temporary_folder

if TYPE_CHECKING:
    from dpassay.auditing.findings import Check

NAME = "training.py"
CLAIM = "dp-sgd:noise_multiplier=1,sampling_rate=.1,steps=20"
SCRIPT = '''"""A logistic regression by DP-SGD: noise 1, rate 0.1, 20 steps. It has a bug."""

import numpy as np

from dpassay import probe

CLIP, NOISE, RATE, STEPS, BATCH = 1.0, 1.0, 0.1, 20, 30

made = np.random.default_rng(0)
X = made.normal(size=(300, 8)) / 3
y = (X[:, 0] + X[:, 1] > 0).astype(float)
X, y = probe.data((X, y))

rng = np.random.default_rng()
weights = np.zeros(8)
for _ in range(STEPS):
    batch = rng.random(len(X)) < RATE
    errors = 1 / (1 + np.exp(-X[batch] @ weights)) - y[batch]
    gradients = errors[:, None] * X[batch]
    norms = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-12)
    total = (gradients * np.minimum(1.0, CLIP / norms)).sum(axis=0)
    total = total + rng.normal(scale=NOISE * CLIP / BATCH, size=8)
    weights = weights - 2.0 * total / BATCH

probe.release(weights)
'''


@dataclass(frozen=True)
class Checked:
    """What the check said, in words about the file that will be written."""

    check: "Check"
    words: str
    command: str

    def as_data(self) -> dict[str, Any]:
        """The result of the check as what ``--json`` prints."""
        finding = self.check.findings[0]
        return {
            "rule": finding.rule,
            "line": None if finding.site is None else finding.site.line,
            "epsilon_seen": finding.epsilon_seen,
            "epsilon_claimed": finding.epsilon_claimed,
            "executions": self.check.executions,
        }


def check_training(folder: Path) -> Checked:
    """Check the script; it is played in a temporary folder, and nothing is written here."""
    from dpassay.auditing import parse_claim
    from dpassay.auditing.checking_script import check_script

    with temporary_folder() as scratch:
        _files.write(scratch / NAME, SCRIPT)
        found = check_script(scratch / NAME, claim=parse_claim(CLAIM), sampling_rate=0.1)
        # The line is read from the file, so the words are made while it is there.
        words = re.sub(rf"\S*{re.escape(scratch.name)}(?=/)", lambda _: str(folder), str(found))
    return Checked(found, words, f"dpassay check {folder / NAME} --claim {CLAIM}")
