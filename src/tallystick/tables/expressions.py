"""What may be computed from one row: columns, public constants, and functions of them. Nodes are data, not SQL.

A filter or derived column sees the unit's own row and nothing else, so it cannot carry information from one unit to
another. Arithmetic is in doubles and total: a division by zero, NaN or a value that is not there gives "missing".
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tallystick.errors import InvalidInput
from tallystick.tables.schema import Schema, column_name

_DEEPEST = 64
_LONGEST_TEXT = 10_000


class Expression:
    """A function of one row. Write with ``ts.col``, operators and ``ts.when``.

    >>> from tallystick.tables.expressions import col
    >>> (col("year") == 2026).to_data()
    ['==', ['col', 'year'], ['lit', 2026]]
    """

    __slots__ = ()

    def to_data(self) -> list[Any]:
        """The expression as plain JSON data."""
        raise NotImplementedError

    def type_in(self, schema: Schema) -> str:
        """Its type in a table, or an error about what does not fit."""
        raise NotImplementedError

    def _op(self, name: str, *others: Any) -> Expression:
        return Call(name, (self, *(lift(other) for other in others)))

    def __eq__(self, other: object) -> Any:
        return self._op("==", other)

    def __ne__(self, other: object) -> Any:
        return self._op("!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self._op("<", other)

    def __le__(self, other: Any) -> Expression:
        return self._op("<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._op(">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._op(">=", other)

    def __and__(self, other: Any) -> Expression:
        return self._op("and", other)

    def __or__(self, other: Any) -> Expression:
        return self._op("or", other)

    def __invert__(self) -> Expression:
        return self._op("not")

    def __add__(self, other: Any) -> Expression:
        return self._op("+", other)

    def __sub__(self, other: Any) -> Expression:
        return self._op("-", other)

    def __mul__(self, other: Any) -> Expression:
        return self._op("*", other)

    def __truediv__(self, other: Any) -> Expression:
        return self._op("/", other)

    def __radd__(self, other: Any) -> Expression:
        return lift(other)._op("+", self)

    def __rsub__(self, other: Any) -> Expression:
        return lift(other)._op("-", self)

    def __rmul__(self, other: Any) -> Expression:
        return lift(other)._op("*", self)

    def __rtruediv__(self, other: Any) -> Expression:
        return lift(other)._op("/", self)

    def __bool__(self) -> bool:
        raise InvalidInput("expression", "and/or/not", "&, | and ~ (with brackets) between conditions")

    __hash__ = None  # type: ignore[assignment]  # == builds a condition, so expressions cannot be dictionary keys

    def is_missing(self) -> Expression:
        """True where there is no value."""
        return self._op("missing")

    def isin(self, values: Iterable[Any]) -> Expression:
        """True where the value is one of the given public constants."""
        chosen = [lift(value) for value in values]
        if not chosen or len(chosen) > 10_000:
            raise InvalidInput("isin", f"{len(chosen)} values", "1 to 10000 public constants")
        return Call("in", (self, *chosen))

    def between(self, lower: Any, upper: Any) -> Expression:
        """True from ``lower`` to ``upper``, both included."""
        return Call("and", (self >= lower, self <= upper))

    def cut(self, edges: Iterable[float]) -> Expression:
        """How many of the public, rising ``edges`` are <= the value: 0 below the first. For grouping numbers."""
        steps = [float(edge) for edge in edges]
        if not 1 <= len(steps) <= 1000 or not all(a < b for a, b in itertools.pairwise(steps)):
            raise InvalidInput("edges", steps[:10], "1 to 1000 rising numbers")
        return Call("cut", (self, *(Literal(step) for step in steps)))

    def year(self) -> Expression:
        """The year of a date."""
        return self._op("year")

    def month(self) -> Expression:
        """The month of a date, 1 to 12."""
        return self._op("month")


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expression):
    """A column of the row."""

    name: str

    def to_data(self) -> list[Any]:
        return ["col", self.name]

    def type_in(self, schema: Schema) -> str:
        kind = schema.type_of(self.name)
        if kind == "unsupported":
            raise InvalidInput("column", self.name, "a column of numbers, text, booleans or dates")
        return kind


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A public constant."""

    value: int | float | str | bool | datetime.date

    def to_data(self) -> list[Any]:
        if isinstance(self.value, datetime.date):
            return ["date", self.value.isoformat()]
        return ["lit", self.value]

    def type_in(self, schema: Schema) -> str:
        return literal_type(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """One of the allowed functions, applied."""

    name: str
    arguments: tuple[Expression, ...]

    def to_data(self) -> list[Any]:
        return [self.name, *(argument.to_data() for argument in self.arguments)]

    def type_in(self, schema: Schema) -> str:
        return result_type(self.name, [argument.type_in(schema) for argument in self.arguments])


def col(name: str) -> Column:
    """A column, by name.

    >>> col("age").to_data()
    ['col', 'age']
    """
    return Column(column_name(name))


def when(condition: Expression, then: Any, otherwise: Any) -> Expression:
    """``then`` where the condition holds, else ``otherwise`` (also where the condition is missing).

    >>> when(col("age") >= 18, 1, 0).to_data()[0]
    'when'
    """
    return Call("when", (lift(condition), lift(then), lift(otherwise)))


def lift(value: Any) -> Expression:
    """A public constant as an expression; an expression as it is."""
    if isinstance(value, Expression):
        return value
    allowed = "a column expression or a public constant (number, text, boolean or date)"
    if isinstance(value, datetime.datetime) or not isinstance(value, bool | int | float | str | datetime.date):
        raise InvalidInput("constant", value, allowed)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("constant", value, "a finite number")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise InvalidInput("constant", value, "a number below 2^63")
    if isinstance(value, str) and (len(value) > _LONGEST_TEXT or "\0" in value or not _encodable(value)):
        raise InvalidInput("constant", f"text of {len(value)} characters", f"valid text up to {_LONGEST_TEXT}")
    return Literal(value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def literal_type(value: Any) -> str:
    """The type of a constant.

    >>> literal_type(True), literal_type(3), literal_type("a")
    ('boolean', 'integer', 'text')
    """
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text", datetime.date: "date"}
    return kinds[type(value)]


_NUMERIC = ("integer", "number")


def result_type(name: str, types: list[str]) -> str:
    """The type of a function's result; wrong argument types are refused with the function named."""
    numeric = all(kind in _NUMERIC for kind in types)
    alike = numeric or len(set(types)) == 1
    rules = {
        "arithmetic": (numeric, "number"),
        "order": (alike and types[0] != "boolean", "boolean"),
        "equality": (alike, "boolean"),
        "logic": (set(types) == {"boolean"}, "boolean"),
        "missing": (True, "boolean"),
        "cut": (numeric, "integer"),
        "part": (types == ["date"], "integer"),
    }
    if name == "when":
        return _when_type(types)
    if name not in KINDS:
        raise InvalidInput("function", name, f"one of {', '.join(sorted([*KINDS, 'when']))}")
    fits, kind = rules[KINDS[name]]
    if not fits:
        raise InvalidInput(f"arguments of {name}", ", ".join(types), "arguments of types that fit each other")
    return kind


def _when_type(types: list[str]) -> str:
    condition, then, otherwise = types
    if condition == "boolean" and then == otherwise:
        return then
    if condition == "boolean" and then in _NUMERIC and otherwise in _NUMERIC:
        return "number"
    raise InvalidInput("arguments of when", ", ".join(types), "a condition and two values of one type")


KINDS = {
    **dict.fromkeys(("+", "-", "*", "/"), "arithmetic"),
    **dict.fromkeys(("<", "<=", ">", ">="), "order"),
    **dict.fromkeys(("==", "!=", "in"), "equality"),
    **dict.fromkeys(("and", "or", "not"), "logic"),
    "missing": "missing",
    "cut": "cut",
    "year": "part",
    "month": "part",
}


def from_data(data: Any, depth: int = 0) -> Expression:
    """The expression that ``to_data`` wrote; anything else is refused.

    >>> from_data(["<", ["col", "age"], ["lit", 18]]).to_data()
    ['<', ['col', 'age'], ['lit', 18]]
    """
    if not isinstance(data, list) or not data or not isinstance(data[0], str) or depth > _DEEPEST:
        raise InvalidInput("expression", type(data).__name__, "a list such as ['<', ['col', 'age'], ['lit', 18]]")
    head, rest = data[0], data[1:]
    if head == "col" and len(rest) == 1:
        return col(rest[0])
    if head == "lit" and len(rest) == 1:
        return lift(rest[0])
    if head == "date" and len(rest) == 1:
        return Literal(datetime.date.fromisoformat(rest[0]))
    if head not in KINDS and head != "when":
        raise InvalidInput("function", head, "a known function")
    arity = {"arithmetic": 2, "order": 2, "logic": 1 if head == "not" else 2, "missing": 1, "part": 1}
    wanted = 3 if head == "when" else 2 if head in ("==", "!=") else arity.get(KINDS.get(head, ""))
    if (wanted is not None and len(rest) != wanted) or not rest:
        raise InvalidInput(f"arguments of {head}", len(rest), "as many arguments as it takes")
    return Call(head, tuple(from_data(item, depth + 1) for item in rest))
