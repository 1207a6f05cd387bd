"""What may be computed from one row: columns, public constants, and functions of them. Nodes are data, not SQL.

A filter or derived column sees the unit's own row and nothing else, so it cannot carry information from one unit to
another. Arithmetic is in doubles and total: a division by zero, NaN or a value that is not there gives "missing".
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.tables.schema import Schema, column_name, constant, day, type_of_constant

_DEEPEST = 64
_LARGEST = 20_000


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
        return Call("in", (self, *(lift(value) for value in values)))

    def between(self, lower: Any, upper: Any) -> Expression:
        """True from ``lower`` to ``upper``, both included."""
        return Call("and", (self >= lower, self <= upper))

    def cut(self, edges: Iterable[float]) -> Expression:
        """How many of the public, rising ``edges`` are <= the value: 0 below the first. For grouping numbers."""
        return Call("cut", (self, *(lift(check.finite("edges", edge)) for edge in edges)))

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
        return type_of_constant(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """One of the allowed functions, applied."""

    name: str
    arguments: tuple[Expression, ...]
    depth: int = field(init=False, repr=False)
    size: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_call(self.name, self.arguments)
        calls = [argument for argument in self.arguments if isinstance(argument, Call)]
        object.__setattr__(self, "depth", 1 + max((call.depth for call in calls), default=0))
        object.__setattr__(self, "size", 1 + len(self.arguments) + sum(call.size for call in calls))
        if self.depth > _DEEPEST or self.size > _LARGEST:
            raise InvalidInput(
                "expression",
                f"{self.depth} levels, {self.size} nodes",
                f"at most {_DEEPEST} levels and {_LARGEST} nodes: name intermediate results with derive(...)",
            )

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
    return value if isinstance(value, Expression) else Literal(constant(value))


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


_ARITY = {"arithmetic": 2, "order": 2, "equality": 2, "logic": 2, "missing": 1, "part": 1}
_MOST = {"in": 10_001, "cut": 1_001}


def _check_call(name: str, arguments: tuple[Expression, ...]) -> None:
    """A known function with as many arguments as it takes; lists of constants are constants."""
    if name not in KINDS and name != "when":
        raise InvalidInput("function", name, f"one of {', '.join(sorted([*KINDS, 'when']))}")
    if name in _MOST:
        if not 2 <= len(arguments) <= _MOST[name] or not all(isinstance(a, Literal) for a in arguments[1:]):
            raise InvalidInput(f"arguments of {name}", len(arguments) - 1, f"1 to {_MOST[name] - 1} public constants")
        edges = [argument.value for argument in arguments[1:] if isinstance(argument, Literal)]
        numeric = all(type_of_constant(edge) in _NUMERIC for edge in edges)
        if name == "cut" and not (numeric and all(a < b for a, b in itertools.pairwise(edges))):  # type: ignore[operator]
            raise InvalidInput("edges", edges[:10], "1 to 1000 rising numbers")
        return
    wanted = 3 if name == "when" else 1 if name == "not" else _ARITY[KINDS[name]]
    if len(arguments) != wanted:
        raise InvalidInput(f"arguments of {name}", len(arguments), f"{wanted}")


def from_data(data: Any, depth: int = 0) -> Expression:
    """The expression that ``to_data`` wrote; anything else is refused.

    >>> from_data(["<", ["col", "age"], ["lit", 18]]).to_data()
    ['<', ['col', 'age'], ['lit', 18]]
    """
    if not isinstance(data, list) or not data or not isinstance(data[0], str) or depth > _DEEPEST:
        raise InvalidInput("expression", type(data).__name__, "a list such as ['<', ['col', 'age'], ['lit', 18]]")
    head, rest = data[0], data[1:]
    if head in ("col", "lit", "date"):
        if len(rest) != 1:
            raise InvalidInput(f"arguments of {head}", len(rest), "1")
        return col(rest[0]) if head == "col" else lift(rest[0] if head == "lit" else day(rest[0]))
    return Call(head, tuple(from_data(item, depth + 1) for item in rest))
