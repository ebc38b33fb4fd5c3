"""What ``dpassay check`` says about every mechanism that an example or a page of the docs audits.

``python -m benchmarks.checks_of_docs`` runs the examples and the snippets of the pages, notes which
mechanism they hand to ``da.audit`` on which pair, with which verdict, and checks each on that pair.
What was not refuted is honest, so that a finding there is a fault of the check. Scripts with probes
are checked whole.
"""

import contextlib
import io
import os
import re
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpassay as da
from dpassay.auditing.checking_script import check_script

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPTS = {  # with probes: their claim, and whether they are honest
    "examples/train_with_a_bug.py": (da.dp_sgd_event(1.0, 0.1, 20), False),
    "examples/opacus_mnist.py": (None, True),
}
SKIPPED = {"examples/csv_script.py"}  # it takes files, and is audited as a program


@dataclass(frozen=True)
class Audited:
    """One call of ``da.audit``: where, on what, and what came of it."""

    where: str
    mechanism: Callable[..., Any]
    pair: tuple[Any, Any]
    claim: Any
    refuted: bool


@contextlib.contextmanager
def noting(where: str, found: list[Audited]) -> Iterator[None]:
    """Write down every audit of a pair until the end."""
    audit = da.audit

    def noted(mechanism: Any, pair: Any = None, **options: Any) -> Any:
        verdict = audit(mechanism, pair, **options)
        if pair is not None:
            claim = options["claim"]
            found.append(Audited(where, mechanism, pair, claim, verdict.refuted))
        return verdict

    da.audit = noted
    try:
        yield
    finally:
        da.audit = audit


def audited() -> list[Audited]:
    """All audits of the examples and of the pages, README included."""
    found: list[Audited] = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        name = f"examples/{path.name}"
        if name not in SCRIPTS and name not in SKIPPED:
            try:
                with _quiet_folder(), noting(name, found):
                    runpy.run_path(str(path), run_name="__main__")
            except ModuleNotFoundError as missing:
                print(f"{name:32} left out: {missing.name} is not installed")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        namespace: dict[str, Any] = {"__name__": "page"}
        with _quiet_folder(), noting(path.name, found):
            for block in FENCE.findall(path.read_text(encoding="utf-8")):
                with contextlib.suppress(Exception):  # some need what the tests prepare
                    exec(compile(block, path.name, "exec"), namespace)
    return found


@contextlib.contextmanager
def _quiet_folder() -> Iterator[None]:
    here, arguments = os.getcwd(), sys.argv
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.callback(os.chdir, here)
        stack.callback(setattr, sys, "argv", arguments)
        os.chdir(folder)
        sys.argv = ["example"]
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


def main() -> None:
    """Print one line each, and how many honest ones were flagged."""
    n_honest = n_flagged = 0
    for one in audited():
        try:
            check = da.check(one.mechanism, one.pair[0], one.claim, neighbours=[one.pair[1]])
            word = "BROKEN" if check.broken else "nothing broken" if check.decided else "open"
        except Exception as error:
            word = f"{type(error).__name__}: {str(error)[:80]}"
        n_honest += not one.refuted
        n_flagged += not one.refuted and word == "BROKEN"
        verdict = "refuted" if one.refuted else "not refuted"
        print(f"{one.where:32} audit: {verdict:12} check: {word}")
    for name, (claim, honest) in SCRIPTS.items():
        with _quiet_folder():
            check = check_script(ROOT / name, claim=claim, limit=12)
        n_honest += honest
        n_flagged += honest and check.broken
        print(f"{name:32} {'honest' if honest else 'broken'}; check: "
              f"{[f.rule for f in check.findings] or 'nothing broken'}")  # fmt: skip
    print(f"{n_flagged} of {n_honest} honest ones flagged")


if __name__ == "__main__":
    main()
