"""The options of ``dpassay audit`` whose help takes more than a line."""

from pathlib import Path
from typing import Annotated

import typer

from dpassay.cli.options import option

Target = Annotated[
    str | None,
    typer.Argument(
        help="my_train.py:train, module:train, example:honest or example:broken; train.py for "
        "a whole script with probes."
    ),
]
Command = Annotated[
    str | None, option("Instead of a target: 'python train.py {data} {output}.npy {seed}'.")
]
DataFile = Annotated[
    Path | None,
    option(
        "NPZ with the arrays data and data_prime, or data alone: then the pair is "
        "searched. Of a command also a CSV.",
        dir_okay=False,
    ),
]
DataPrime = Annotated[Path | None, option("The other CSV of a command.", dir_okay=False)]
InPlace = Annotated[
    bool, option("Run a script where it is, not in a scratch copy of the folder.", "--in-place")
]
Input = Annotated[
    str | None,
    option(
        "What the target is given, instead of data: vector:10 for answers to queries "
        "(vector:10,moves=all,low=0,high=2,by=1), value:0,100, schema:table.toml for tables. "
        "The pair is searched.",
        "--input",
    ),
]
ScoreOf = Annotated[
    str | None,
    option(
        "A function of one output, like the target; else learned, but of a "
        "script the number that it releases, unless you say: learned."
    ),
]
Secure = Annotated[bool, option("Pass rng=None: audit the noise that is shipped.", "--secure")]
Workers = Annotated[
    int | None,
    option(
        "Processes that play, 1 by default. 0 plays in this one, where a trial that hangs "
        "or exits takes the audit with it; --timeout needs at least 1."
    ),
]
Store = Annotated[
    Path | None,
    option("File that keeps the trials; the same command goes on. Or the folder of --describe."),
]
Describe = Annotated[
    bool,
    option(
        "Write the audit down in the folder --store and play nothing: its parts are then played "
        "by dpassay work, under any scheduler.",
        "--describe",
    ),
]
Trust = Annotated[
    str,
    option(
        "checked, or trusted for data sets whose entries are not records, such as query answers."
    ),
]
FixedSeed = Annotated[
    bool,
    option(
        "Judge a target whose outputs never change; else there is no verdict on it.",
        "--fixed-seed-is-a-leak",
    ),
]
Timeout = Annotated[float | None, option("Seconds for one trial, after which it has failed.")]
Recycle = Annotated[
    int | None, option("Replace workers after so many trials, if the target leaks memory.")
]
Fixed = Annotated[bool, option("Play all trials and test once, not sequentially.", "--fixed")]
Measure = Annotated[bool, option("After a refutation go on, to say how bad it is.", "--measure")]
Anyway = Annotated[bool, option("Play even if not even a perfect attack could refute.", "--anyway")]
DryRun = Annotated[
    bool, option("Run each world twice, say what to expect, and leave.", "--dry-run")
]
ReportFile = Annotated[Path | None, option("Write a report: FILE.html, with FILE.json beside it.")]
EvidenceKind = Annotated[
    str, option("trials, or replay: likelihood ratios of replayed executions.")
]
OneTraining = Annotated[
    bool,
    option(
        "Run a script once: it inserts and judges canaries (dpassay.canaries) or watches "
        "its optimizer (probe.optimizer). --claim is then what the script says unless given.",
        "--one-run",
    ),
]
