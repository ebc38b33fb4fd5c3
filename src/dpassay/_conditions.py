"""Conditions on one record, such as ``age >= 60 and sex == "F"``, and rules, read from texts.

A condition is decided record by record. Whether a column is compared as numbers or as texts
follows from what it is compared with, never from the column as a whole, so that one record cannot
change what the condition says of another: a query with a condition keeps its sensitivity.

- Comparisons ``== != < <= > >=``, also chained; ``column in ["a", "b"]``, ``not in``; ``and``,
  ``or``, ``not``, brackets. Names with spaces stand in backticks.
- With a number, a value is compared as a number; one that is no number fulfils no comparison.
- With a text, it is compared as a text; days such as ``"2024-05-01"`` are in order that way.
- Two columns of days or moments are compared by their time.
- Two other columns are compared as numbers where both values are, as texts where neither is; a
  number beside a text fulfils no comparison.
- A missing value fulfils no comparison, ``!=`` included.
"""

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray

Truths = NDArray[np.bool_]
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LONGEST = 10_000  # characters


@dataclass(frozen=True)
class Condition:
    """A condition on one record; see the module for what may stand in it.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [70, 20, None], "sex": ["F", "F", "M"]})
    >>> read_condition("age >= 60 and sex == 'F'").holds(people)
    array([ True, False, False])

    """

    text: str
    columns: tuple[str, ...]
    _tree: ast.expr
    _names: dict[str, str]

    def holds(self, table: Any) -> Truths:
        """For every record of a frame, whether the condition holds.

        Raises:
            InvalidArgument: a column of the condition is not in the table.

        """
        for name in self.columns:
            if name not in table.columns:
                raise InvalidArgument(
                    f"where={self.text!r}: there is no column {name!r} in the table."
                )
        return _Evaluation(table, self._names).truths(self._tree)


def read_condition(text: str) -> Condition:
    """The condition that a text states.

    Raises:
        InvalidArgument: it is none; what was not understood is named.

    """
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise InvalidArgument(
            f'where must be a condition of at most {_LONGEST} characters, e.g. "age >= 60".'
        )
    names: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        return names.setdefault(match[1], f"_column_{len(names)}_")

    plain = re.sub(r"`([^`]+)`", stand_in, text)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
        meant = {short: name for name, short in names.items()}
        found = tuple(dict.fromkeys(_check(tree, meant)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _not_understood(text, "it is no expression") from None
    except _Strange as error:
        raise _not_understood(text, str(error)) from None
    return Condition(text, found, tree, meant)


@dataclass(frozen=True)
class Rule:
    """A condition that every record meets, ``a``, or meets if it meets another one, ``b -> a``.

    A record of which a column of the rule is missing meets it.

    >>> import pandas as pd
    >>> tests = pd.DataFrame({"result": ["positive", "negative"], "ct": [45, 45]})
    >>> read_rule("result == 'positive' -> ct < 45").holds(tests)
    array([False,  True])

    """

    text: str
    condition: Condition
    given: Condition | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rule names."""
        given = () if self.given is None else self.given.columns
        return tuple(dict.fromkeys([*given, *self.condition.columns]))

    def holds(self, table: Any) -> Truths:
        """For every record of a frame, whether it meets the rule."""
        fine = self.condition.holds(table)
        if self.given is not None:
            fine |= ~self.given.holds(table)
        return fine | table[list(self.columns)].isna().any(axis=1).to_numpy()


def read_rule(text: str) -> Rule:
    """The rule that a text states; see :func:`read_condition` for its parts.

    Raises:
        InvalidArgument: it is none; what was not understood is named.

    """
    parts = text.split("->") if isinstance(text, str) else []
    if len(parts) > 2:
        raise InvalidArgument(f"rules: {text!r} has more than one arrow; one says 'if -> then'.")
    if len(parts) < 2:
        return Rule(text, read_condition(text))
    return Rule(text, read_condition(parts[1].strip()), read_condition(parts[0].strip()))


class _Strange(Exception):
    """A part of a condition that has no meaning here."""


def _not_understood(text: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"where={text!r} is not understood: {why}. Compare columns with numbers, texts in quotes "
        "or other columns, e.g. \"age >= 60 and sex == 'F'\"."
    )


def _check(node: ast.expr, meant: dict[str, str]) -> list[str]:
    """The columns that a condition names; what it may not hold is refused."""
    if isinstance(node, ast.BoolOp):
        return [name for part in node.values for name in _check(part, meant)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _check(node.operand, meant)
    if not isinstance(node, ast.Compare):
        raise _Strange(f"{ast.unparse(node)!r} is no comparison")
    sides = [node.left, *node.comparators]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        _check_pair(op, left, right)
    found = [meant.get(side.id, side.id) for side in sides if isinstance(side, ast.Name)]
    if not found:
        raise _Strange(f"{ast.unparse(node)!r} names no column")
    return found


def _check_pair(op: ast.cmpop, left: ast.expr, right: ast.expr) -> None:
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(left, ast.Name) or not isinstance(right, ast.List | ast.Tuple | ast.Set):
            raise _Strange("`in` stands between a column and a list such as ['a', 'b']")
        for part in right.elts:
            _constant(part)
        return
    if type(op) not in _COMPARISONS:
        raise _Strange("comparisons are == != < <= > >= and in")
    for side in (left, right):
        if not isinstance(side, ast.Name):
            _constant(side)


def _constant(node: ast.expr) -> float | str:
    """A number or a text that stands in a condition."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    value = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    known = getattr(value, "value", None) if isinstance(value, ast.Constant) else None
    if isinstance(known, bool) or not isinstance(known, int | float | str):
        raise _Strange(f"{ast.unparse(node)!r} is neither a column nor a number nor a text")
    if isinstance(known, str):
        if negative:
            raise _Strange(f"{ast.unparse(node)!r} is no number")
        return known
    return -float(known) if negative else float(known)


def read_numbers(column: Any) -> FloatArray:
    """Every value of a column as a number; NaN where it is none.

    One by one: to convert a whole column at once may give other digits, depending on what else is
    in it.
    """
    return np.fromiter(map(_number, column), float, count=len(column))


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


class _Evaluation:
    """A condition on the records of one table."""

    def __init__(self, table: Any, meant: dict[str, str]) -> None:
        self.table, self.meant = table, meant

    def truths(self, node: ast.expr) -> Truths:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return join.reduce([self.truths(part) for part in node.values])
        if isinstance(node, ast.UnaryOp):
            return ~self.truths(node.operand)
        assert isinstance(node, ast.Compare)
        sides = [node.left, *node.comparators]
        pairs = zip(node.ops, sides, sides[1:], strict=False)
        return np.logical_and.reduce([self._pair(op, a, b) for op, a, b in pairs])

    def _pair(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Truths:
        if isinstance(op, ast.In | ast.NotIn):
            values = [_constant(part) for part in right.elts]  # type: ignore[attr-defined]
            hits = [self._compare(operator.eq, left, value) for value in values]
            found = np.logical_or.reduce([np.zeros(len(self.table), bool), *hits])
            return found if isinstance(op, ast.In) else ~found & self._texts(left)[1]
        return self._compare(_COMPARISONS[type(op)], left, right)

    def _compare(self, compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Truths:
        sides = [side if isinstance(side, ast.Name) else _plain(side) for side in (left, right)]
        if any(isinstance(side, float) for side in sides):
            return self._apply(compare, sides, self._numbers)
        if all(self._is_moment(side) for side in sides):
            return self._apply(compare, sides, self._moments)
        as_texts = self._apply(compare, sides, self._texts)
        if any(isinstance(side, str) for side in sides):
            return as_texts
        a, b = (self._numbers(side)[1] for side in sides)
        return np.where(a | b, self._apply(compare, sides, self._numbers), as_texts)

    def _apply(self, compare: Callable[[Any, Any], Any], sides: list[Any], view: Any) -> Truths:
        (a, a_known), (b, b_known) = view(sides[0]), view(sides[1])
        return np.asarray(compare(a, b), bool) & a_known & b_known

    def _numbers(self, side: Any) -> tuple[Any, Any]:
        """Values as numbers, and which of them are numbers."""
        if isinstance(side, str):
            return np.nan, np.False_
        if isinstance(side, float):
            return side, np.True_
        values = read_numbers(self._column(side))
        return values, ~np.isnan(values)

    def _is_moment(self, side: Any) -> bool:
        return isinstance(side, ast.Name) and self._column(side).dtype.kind == "M"

    def _moments(self, side: ast.Name) -> tuple[Any, Any]:
        """Values of a column of days or moments (in UTC), and which of them are not missing."""
        column = self._column(side)
        if column.dt.tz is not None:
            column = column.dt.tz_convert(None)
        return column.to_numpy(), column.notna().to_numpy()

    def _texts(self, side: Any) -> tuple[Any, Any]:
        """Values as texts, moments by their day, and which of them are not missing."""
        if isinstance(side, str):
            return side, np.True_
        column = self._column(side)
        days = column.dt.strftime("%Y-%m-%d") if column.dtype.kind == "M" else column
        # A text for missing values as well: they are never counted, but have to be comparable.
        return days.astype(object).map(str).to_numpy(object), column.notna().to_numpy()

    def _column(self, side: ast.Name) -> Any:
        return self.table[self.meant.get(side.id, side.id)]


def _plain(side: Any) -> float | str:
    return _constant(side) if isinstance(side, ast.expr) else side
