"""``for_rows`` and ``mislabelled``: canaries for tables, and natural records with wrong labels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay import _check, _records
from dpassay._rng import for_trial
from dpassay.canaries import forms
from dpassay.canaries.canaries import Canaries, Made
from dpassay.canaries.directions import null_directions, random_directions
from dpassay.canaries.forms import Form
from dpassay.canaries.labels import pick_labels
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

CANARY, STAND_IN = "canary", "stand-in"  # how levels begin that are in no other record


def for_rows(
    dataset: Any,
    y: Any = None,
    *,
    n: int = 100,
    rng: int = 0,
    norm: float | None = None,
    unused: Sequence[int] | None = None,
    public: Any = None,
    level: str | None = None,
    classes: int | Sequence[Any] | None = None,
    records_per_user: int = 1,
) -> Canaries:
    """Canaries for rows of numbers or of a frame: a direction or a level that others do not use.

    **What is read of the data**: the number of columns and their types, the number of records, and
    the label set (unless ``classes`` is given); no value of a row. Which directions the rows leave
    free is a property of the data, so it must come from what is public, in this order:

    - ``level``: the name of a column of categories, in which every canary has a level of its own;
      its numbers are zero.
    - ``unused``: columns that are zero in every record by the way in which the table is made.
    - ``public``: public rows of the same form; canaries lie along the directions in which these
      have the least energy. Private rows in their place would carry what they are into the
      training past its noise; do not release the model of such an audit.
    - else random directions, orthogonal to each other if there are at least as many columns as
      canaries; they share what they are with other records, and show less.

    Args:
        dataset: rows as an array, a tensor or a frame, or a pair (X, y), or a data set of them.
        y: the labels, if the first argument is X alone; canaries are then inserted into (X, y).
        n: how many canaries.
        rng: seed of what is drawn; the coins are the audit's.
        norm: of a canary's numbers, by default the square root of their number, which is the norm
            of a row of standardised columns. A learner that declares a norm wants this one here.
        unused: numbers of columns, as above.
        public: rows, as above.
        level: a column, as above.
        classes: the label set, or how many labels there are from 0 on; by default it is read. Real
            labels are plus or minus one.
        records_per_user: more than 1 makes every canary a user with so many rows of one direction;
            the claim is then about users.

    Raises:
        InvalidArgument: an argument out of range, or a column that is not there.

    """
    n, k = _check.count("n", n), _check.count("records_per_user", records_per_user)
    seed = _check.seed("rng", rng)
    form = forms.read_form(dataset if y is None else (dataset, y))
    random = for_trial(seed, 0, 1)
    labels, others = pick_labels(form, classes, n * k, random)
    table = form.data[0] if isinstance(form.data, tuple) else form.data
    shared, mirrored = False, -1.0 if labels is None else 1.0
    if level is not None:
        rows = _rows_of_levels(table, level, n, k)
        stand = rows if labels is not None else _rows_of_levels(table, level, n, k, STAND_IN)
    else:
        size = _n_columns(table if form.kind == "whole" else form.input())
        directions = _choose_directions(n, size, unused, public, random)
        shared = unused is None and public is None
        length = math.sqrt(size) if norm is None else _check.number("norm", norm, low=0)
        signs = random.choice([-1.0, 1.0], (n, 1))
        rows = np.repeat(length * directions * signs, k, axis=0)
        stand = mirrored * rows
    return Canaries(
        Made(
            form=form,
            parts=forms.as_columns(form, rows, labels),
            stand_ins=forms.as_columns(form, stand, others),
            what=f"rows {_describe_rows(level, unused, public)}",
            shared=shared,
            seed=seed,
            records_per_user=k,
        )
    )


def _describe_rows(level: str | None, unused: Any, public: Any) -> str:
    if level is not None:
        return "with a level of their own"
    if unused is not None:
        return "in columns that no other row uses"
    return "along random directions" if public is None else "where public rows have least energy"


def _n_columns(table: Any) -> int:
    shape: tuple[int, ...] = tuple(
        np.shape(table) if not _records.is_sparse(table) else table.shape
    )
    if len(shape) not in (1, 2):
        raise InvalidArgument(
            f"dataset has rows of shape {shape[1:]}; for_rows needs rows of numbers. Use "
            "for_images or for_text."
        )
    return shape[1] if len(shape) == 2 else shape[0]


def _choose_directions(
    n: int, size: int, unused: Sequence[int] | None, public: Any, random: np.random.Generator
) -> FloatArray:
    if unused is not None:
        columns = [_check.count("unused", column, low=0, high=size - 1) for column in unused]
        remedy = f"{len(columns)} columns are unused, and every canary needs one."
        _check.count("n", n, high=len(columns), remedy=remedy)
        rows = np.zeros((n, size))
        rows[:, columns] = random_directions(n, len(columns), random)
        return rows
    if public is not None:
        return null_directions(_records.as_array(public), n, size)
    return random_directions(n, size, random)


def _rows_of_levels(table: Any, level: str, n: int, k: int, word: str = CANARY) -> Any:
    """A frame of rows that are zero but for a level of their own, "canary-3" or "stand-in-3"."""
    import pandas as pd

    if not hasattr(table, "columns") or level not in table.columns:
        raise InvalidArgument(f"level={level!r} must be a column of a frame.")
    if pd.api.types.is_numeric_dtype(table[level]):
        raise InvalidArgument(f"level={level!r} must be a column of categories, not of numbers.")
    levels = {w: [f"{w}-{i}" for i in range(n)] for w in (CANARY, STAND_IN)}
    columns: dict[Any, Any] = {}
    for name, dtype in table.dtypes.items():
        own = name == level
        values = np.repeat(levels[word], k) if own else np.full(n * k, CANARY)
        if pd.api.types.is_numeric_dtype(dtype):
            columns[name] = np.zeros(n * k, dtype)
        elif isinstance(dtype, pd.CategoricalDtype):
            # All levels that any coins could bring: their list must not tell the coins.
            new = [*levels[CANARY], *levels[STAND_IN]] if own else [CANARY]
            columns[name] = pd.Categorical(values, [*dtype.categories, *new], dtype.ordered)
        else:
            columns[name] = pd.Series(values).astype(dtype)
    return pd.DataFrame(columns)


def mislabelled(
    dataset: Any, *, n: int = 400, rng: int = 0, classes: int | Sequence[Any] | None = None
) -> Canaries:
    """Canaries that are records of the data set, each with a wrong label.

    They *take the place* of these records, so that nobody's record is in the training twice: each
    canary depends on one record alone, and the claim covers it like any other. The data set has n
    right records fewer in an audit.

    Such canaries share their gradients with all other records. Under clipping and noise a model
    hardly learns them, and the audit may show nothing even of a training without noise; the
    verdict says so. Canaries with a direction or a token of their own show more.

    Args:
        dataset: records with labels: a torch data set, dicts, or a pair (X, y).
        n: how many canaries, at most the number of records.
        rng: seed of the choice and of the labels; the coins are the audit's.
        classes: the label set, or how many labels there are from 0 on; by default it is read.

    Raises:
        InvalidArgument: records without labels, or with labels that are real numbers.

    """
    seed, form = _check.seed("rng", rng), forms.read_form(dataset)
    n = _check.count("n", n, high=form.n_records, remedy="They take the place of records.")
    found = forms.read_labels(form, classes)
    if found is None:
        raise InvalidArgument("dataset has no classes; a label can be wrong only among classes.")
    random = for_trial(seed, 0, 1)
    places = np.sort(random.permutation(form.n_records)[:n])
    records = _stack(form, places)
    right = _labels_of(form, records)
    at = np.searchsorted(found, right)
    wrong = found[(at + random.integers(1, len(found), size=n)) % len(found)]
    return Canaries(
        Made(
            form=form,
            parts=_with_labels(form, records, wrong),
            stand_ins=records,
            what="records with wrong labels",
            shared=True,
            seed=seed,
            places=places,
        )
    )


def _stack(form: Form, places: NDArray[np.int64]) -> Any:
    """Some records of the data set, as columns."""
    if form.kind == "whole":
        return [_records.take(column, places) for column in form.data]
    records = [form.data[int(i)] for i in places]

    def stack(*leaves: Any) -> NDArray[Any]:
        return np.stack([_records.as_array(leaf) for leaf in leaves])

    return forms.map_parts(stack, *records)


def _labels_of(form: Form, records: Any) -> NDArray[Any]:
    if isinstance(records, Mapping):
        return np.asarray(next(v for k, v in records.items() if k in forms.LABELS))
    return _records.as_array(records[-1])


def _with_labels(form: Form, records: Any, labels: NDArray[Any]) -> Any:
    if isinstance(records, Mapping):
        return {k: labels if k in forms.LABELS else v for k, v in records.items()}
    like = form.data[-1] if form.kind == "whole" else None
    return [*records[:-1], labels if like is None else forms.as_column(like, labels)]
