"""Write scores.csv and canaries.csv, which the documentation of ``dpassay bound`` uses.

Scores of 1000 trials with and 1000 without a canary, N(1, 1) against N(0, 1), whose true epsilon
at delta=1e-5 is 4.377; and the scores of 1000 canaries of one run, of the same shape.
Run it with ``python examples/make_scores.py``; it writes into the current folder.
"""

from pathlib import Path

import numpy as np


def write(name: str, column: str, scores: np.ndarray, labels: np.ndarray) -> None:
    rows = [f"{score:.4f},{label}" for score, label in zip(scores, labels, strict=True)]
    Path(name).write_text("\n".join([f"score,{column}", *rows, ""]), encoding="utf-8")
    print(f"{name}: {len(rows)} rows")


def main() -> None:
    rng = np.random.default_rng(0)
    worlds = np.repeat([1, 0], 1000)
    write("scores.csv", "world", rng.normal(worlds, 1.0), worlds)
    members = rng.integers(2, size=1000)
    write("canaries.csv", "member", rng.normal(members, 1.0), members)


if __name__ == "__main__":
    main()
