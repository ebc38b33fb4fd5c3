"""Where a value that is released without noise comes from, and what no draw can have hidden."""

from typing import Any

import numpy as np

from dpassay.replay.outputs import numbers_of
from dpassay.replay.playing import Played
from dpassay.replay.sites import Site
from dpassay.replay.tape import Tape


def find_released(first: Played, played: Played) -> Site | None:
    """The line that made what differs in the release, None where that is not seen.

    It read a number of the release out of a library, or drew as many values as are released, or
    met a noisy value, or is the only one that read a private value.
    """
    known = {hash(np.asarray(number).tobytes()) for number in numbers_of(played.output)}
    for site in played.tape.private_reads:
        if known & {*played.tape.reads[site]}:
            return site
    if is_length_private(first, played):
        return _first_of_length(played.tape, len(played.output))
    reads = played.tape.private_reads
    return played.tape.met_at or (reads[0] if len(reads) == 1 else None)


def is_length_private(first: Played, played: Played) -> bool:
    """Whether the lengths of the releases differ in a way that no lost draw can have hidden.

    Every draw that was not followed has as many entries as are released. So before the first of
    them was drawn its length was known, and nothing random that is lost can have chosen it.
    """
    sides = first, played
    if played.error is not None or not all(_has_length(part.output) for part in sides):
        return False
    if len(first.output) == len(played.output):
        return False
    return not any(part.tape.unseen for part in sides) and all(
        np.shape(draw.value)[:1] == (len(part.output),) for part in sides for draw in part.tape.lost
    )


def _has_length(output: Any) -> bool:
    return isinstance(output, list) or (isinstance(output, np.ndarray) and output.ndim > 0)


def _first_of_length(tape: Tape, length: int) -> Site | None:
    sizes = ((np.shape(draw.value), draw.site) for draw in tape.draws)
    return next((site for shape, site in sizes if shape[:1] == (length,)), None)
