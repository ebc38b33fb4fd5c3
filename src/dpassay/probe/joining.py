"""A data set and one record more, whatever the data set is made of."""

from collections.abc import Callable, Mapping
from typing import Any

from dpassay.errors import InvalidTarget
from dpassay.probe.kinds import is_tensor, torch_class


def join(records: Any, canary: Any, keep: bool) -> Any:
    """The records followed by the canary, which is dropped again unless it is to be kept."""
    for fits, join_kind in _KINDS:
        if fits(records):
            return join_kind(records, canary, keep)
    raise InvalidTarget(
        f"records is a {type(records).__qualname__}, which probe.data cannot add a canary to. Pass "
        "a data set with a length, tensors, arrays, a frame, a list, or a tuple or dict of these."
    )


def _tuple(records: Any, canary: Any, keep: bool) -> Any:
    _same_length(len(records), canary)
    pairs = zip(records, canary, strict=True)
    return tuple(join(part, value, keep) for part, value in pairs)


def _mapping(records: Any, canary: Any, keep: bool) -> Any:
    if not isinstance(canary, Mapping) or set(canary) != set(records):
        raise InvalidTarget(f"canary must be a dict with the keys {sorted(records)}.")
    return {name: join(part, canary[name], keep) for name, part in records.items()}


def _plain(records: Any, canary: Any, keep: bool) -> Any:
    """A list, an array, a tensor, a frame or a column: in both worlds made in the same way."""
    from dpassay import _records

    _refuse_unlike(records, canary)
    longer = _records.add(records, canary)
    return longer if keep else _records.take(longer, range(len(records)))


def _refuse_unlike(records: Any, canary: Any) -> None:
    """Refuse a canary that is no record of this kind."""
    if hasattr(records, "columns"):
        named = isinstance(canary, Mapping) or (
            hasattr(canary, "index") and hasattr(canary, "iloc")
        )
        if not named:
            _same_length(len(records.columns), canary)
        elif set(dict(canary)) != set(records.columns):
            raise InvalidTarget(f"canary must have the columns {list(records.columns)}.")
    elif hasattr(records, "shape") and not hasattr(records, "iloc"):
        import numpy as np

        _same_shape(tuple(np.shape(canary)), tuple(records.shape[1:]))


def _tensor_dataset(records: Any, canary: Any, keep: bool) -> Any:
    return type(records)(*_tuple(records.tensors, canary, keep))


def _dataset(records: Any, canary: Any, keep: bool) -> Any:
    from torch.utils.data import ConcatDataset, Subset

    last = _like(records[0], canary)
    both = ConcatDataset([records, [last]])  # type: ignore[list-item]
    return Subset(both, range(len(records) + keep))


def _like(example: Any, canary: Any) -> Any:
    """The canary, with tensors where the example has them, so that both can be in one batch."""
    if isinstance(example, tuple | list):
        _same_length(len(example), canary)
        return type(example)(_like(*pair) for pair in zip(example, canary, strict=True))
    if is_tensor(example):
        return _plain(example[None], canary, True)[-1]
    return canary


def _same_length(n_parts: int, canary: Any) -> None:
    if not hasattr(canary, "__len__") or len(canary) != n_parts:
        raise InvalidTarget(
            f"canary has {len(canary) if hasattr(canary, '__len__') else 'no'} parts, while a "
            f"record has {n_parts}. Pass one record, such as canary=(x, y)."
        )


def _same_shape(canary: tuple[int, ...], record: tuple[int, ...]) -> None:
    if canary != record:
        raise InvalidTarget(
            f"canary has shape {canary}, while a record has shape {record}. Pass one record, "
            "without the dimension of the batch."
        )


def _is_plain(value: Any) -> bool:
    from dpassay import _records

    return not isinstance(value, tuple) and _records.n_records(value) is not None


def _is_dataset(value: Any) -> bool:
    return isinstance(value, torch_class("utils.data.Dataset")) and hasattr(value, "__len__")


# How records of each kind are joined with a canary; the first that fits.
_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, bool], Any]], ...] = (
    (lambda value: isinstance(value, torch_class("utils.data.TensorDataset")), _tensor_dataset),
    (_is_dataset, _dataset),
    (lambda value: isinstance(value, Mapping), _mapping),
    (lambda value: isinstance(value, tuple), _tuple),
    (_is_plain, _plain),
)
