"""Files of scores: what is in them, or a line that says what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np

from dpassay import _check, _handed
from dpassay.errors import InvalidArgument

_LAYOUT = (
    "A CSV needs the columns 'score' and 'world' (or 'member'; 1 is with the canary); an NPZ the "
    "arrays scores_in and scores_out, or scores and members."
)
_WORLDS = ("world", "worlds", "member", "members")
_SCORES = ("score", "scores")


def two_worlds(path: Path) -> tuple[Any, Any]:
    """The scores of trials with and without the canary."""
    columns = read_columns(path, "scores", _LAYOUT)
    if {"scores_in", "scores_out"} <= set(columns):
        return columns["scores_in"], columns["scores_out"]
    scores, members = _read_labelled(path, columns)
    return scores[members], scores[~members]


def canaries(path: Path) -> tuple[Any, Any]:
    """The scores of the canaries of one training, and which of them were in it."""
    return _read_labelled(path, read_columns(path, "scores", _LAYOUT))


def _read_labelled(path: Path, columns: dict[str, Any]) -> tuple[Any, Any]:
    scores, worlds = (_first(path, columns, names) for names in (_SCORES, _WORLDS))
    remedy = "A trial that failed is an output too: give it a fixed score below all others (-inf)."
    scores = _check.array("score", scores, finite=False, ndim=1, empty=False, remedy=remedy)
    worlds = _check.array("world", worlds, ndim=1, remedy="It is 1 with the canary, 0 without.")
    if scores.size != worlds.size:
        raise InvalidArgument(f"{path}: {scores.size} scores for {worlds.size} worlds.")
    wrong = np.flatnonzero((worlds != 0) & (worlds != 1))
    if wrong.size:
        raise InvalidArgument(
            f"world[{int(wrong[0])}] must be 0 or 1. It is 1 with the canary, 0 without."
        )
    return scores, worlds == 1


def _first(path: Path, columns: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in columns:
            return columns[name]
    raise InvalidArgument(
        f"{path} has no {names[0]!r} but {_handed.list_names(columns)}. {_LAYOUT}"
    )


def read_columns(path: Path, name: str, layout: str) -> dict[str, Any]:
    """The columns of a CSV or the arrays of an NPZ; errors name the argument and the layout."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _handed.load_npz(name, path, layout)
    if suffix != ".csv":
        raise InvalidArgument(f"{name}={str(path)!r} must end in .csv or .npz. {layout}")
    frame = _handed.load_csv(name, path, layout, skipinitialspace=True)
    return {str(column).strip(): frame[column].to_numpy() for column in frame}
