"""Options that several commands share: one name, one meaning, one line of help."""

from typing import Annotated

import typer

NoiseMultiplier = Annotated[
    float,
    typer.Option(help="Noise in units of the sensitivity (for DP-SGD, of the clipping norm)."),
]
SamplingRate = Annotated[
    float, typer.Option(help="Probability that a record is in a batch, in (0, 1].")
]
Steps = Annotated[int, typer.Option(help="Number of updates.")]
Count = Annotated[int, typer.Option(help="How often it is done, each time with fresh noise.")]
EpsilonEach = Annotated[float, typer.Option(help="Epsilon of each of them.")]
Scheme = Annotated[str, typer.Option(help="How batches are drawn: poisson or without-replacement.")]
Neighbours = Annotated[
    str,
    typer.Option(
        "--neighbouring",
        "--neighboring",
        help="What neighbouring data sets differ by: add-remove or replace-one.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
