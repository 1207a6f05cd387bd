"""Values that may be computed from one row: columns, public constants, and functions of them. Nodes are data, not SQL.

A filter or derived column sees the unit's own row and nothing else, so it cannot carry information from one unit to
another. Arithmetic is in doubles and total: a division by zero, NaN or a value that is not there gives "missing".
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.tables.schema import TYPES, Schema, column_name, constant, day, said, type_of_constant

_DEEPEST = 64
_LARGEST = 20_000
_MOST_CALLS = 500
"""Constants in a list cost little; an engine takes seconds for a thousand functions inside each other."""
LONGEST_MADE = 10_000
"""Characters of a text that is put together from others."""


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
        """Number of the public, rising ``edges`` that are <= the value: 0 below the first. For grouping numbers."""
        return Call("cut", (self, *(lift(check.finite("edges", edge)) for edge in edges)))

    def year(self) -> Expression:
        """The year of a date."""
        return self._op("year")

    def month(self) -> Expression:
        """The month of a date, 1 to 12."""
        return self._op("month")

    def day(self) -> Expression:
        """The day of a date in its month, 1 to 31."""
        return self._op("day")

    def quarter(self) -> Expression:
        """The quarter of a date, 1 to 4."""
        return self._op("quarter")

    def weekday(self) -> Expression:
        """The day of the week of a date: Monday is 1, Sunday 7."""
        return self._op("weekday")

    def date_trunc(self, unit: str) -> Expression:
        """The first day of the year, quarter, month or week (from Monday) that a date is in; ``day`` is itself."""
        return self._op("date_trunc", unit)

    def add_days(self, days: Any) -> Expression:
        """The date that many whole days later; missing outside the years 1 to 9999."""
        return self._op("add_days", days)

    def add_months(self, months: int) -> Expression:
        """The date that many months later, on the last day of a month that is too short; missing beyond 1 to 9999.

        >>> col("day").add_months(-3).to_data()
        ['add_months', ['col', 'day'], ['lit', -3]]
        """
        return self._op("add_months", months)

    def days_since(self, other: Any) -> Expression:
        """Whole days from another date to this one; negative where this one is earlier."""
        return self._op("days_since", other)

    def cast(self, kind: str) -> Expression:
        """The value as ``kind``: integer, number, text or date; missing where it is not one. A number is never text.

        Text counts as an integer of up to 18 digits, a decimal number, or a date such as 2026-02-28, with spaces around
        it or not. A number becomes the nearest integer, the half away from 0.
        """
        return self._op("cast", kind)

    def fill_missing(self, *others: Any) -> Expression:
        """The value, or where it is missing the first of the others that is there: COALESCE."""
        return self._op("coalesce", *others)

    def null_if(self, other: Any) -> Expression:
        """The value, and missing where it equals the other: NULLIF."""
        return self._op("nullif", other)

    def least(self, *others: Any) -> Expression:
        """The smallest of the values that are there."""
        return self._op("least", *others)

    def greatest(self, *others: Any) -> Expression:
        """The largest of the values that are there."""
        return self._op("greatest", *others)

    def __abs__(self) -> Expression:
        return self._op("abs")

    def __mod__(self, other: Any) -> Expression:
        return self._op("mod", other)

    def __rmod__(self, other: Any) -> Expression:
        return lift(other)._op("mod", self)

    def floor(self) -> Expression:
        """The largest whole number that is not above."""
        return self._op("floor")

    def ceil(self) -> Expression:
        """The smallest whole number that is not below."""
        return self._op("ceil")

    def round(self, digits: int = 0) -> Expression:
        """The nearest whole number, the half away from 0; with ``digits``, round(x * 10^digits) / 10^digits."""
        if not check.count("digits", digits, least=0, most=15):
            return self._op("round")
        return (self * 10.0**digits)._op("round") / 10.0**digits

    def lower(self) -> Expression:
        """Text with A to Z as a to z; other letters stay as they are, since engines disagree on them."""
        return self._op("lower")

    def upper(self) -> Expression:
        """Text with a to z as A to Z; other letters stay as they are."""
        return self._op("upper")

    def trim(self, side: str = "both") -> Expression:
        """Text without the spaces (no other blanks) at its "start", its "end" or "both"."""
        return self._op("trim", side)

    def length(self) -> Expression:
        """Number of characters (code points) of a text."""
        return self._op("length")

    def substr(self, start: int, length: int = LONGEST_MADE) -> Expression:
        """Characters of a text from place ``start`` (the first is 1), at most ``length`` of them."""
        return self._op("substr", start, length)

    def concat(self, *others: Any) -> Expression:
        """This text and the others behind it, cut after 10,000 characters; missing where one of them is."""
        return self._op("concat", *others)

    def like(self, pattern: str, *, escape: str | None = "\\", ignore_case: bool = False) -> Expression:
        """True where a text fits: ``%`` stands for any characters, ``_`` for one, after ``escape`` for themselves.

        >>> col("code").like("C5_.%").to_data()
        ['like', ['col', 'code'], ['lit', 'C5_.%']]
        """
        return self._op("ilike" if ignore_case else "like", _pattern(pattern, escape))


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expression):
    """A column of the row."""

    name: str

    def to_data(self) -> list[Any]:
        return ["col", self.name]

    def type_in(self, schema: Schema) -> str:
        kind = schema.type_of(self.name)
        if kind == "unsupported":
            allowed = f"a column of numbers, text, booleans or dates ({self.name} is {said(kind)})"
            raise InvalidInput("column", self.name, allowed)
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
class Missing(Expression):
    """No value, of a type."""

    kind: str

    def to_data(self) -> list[Any]:
        return ["null", self.kind]

    def type_in(self, schema: Schema) -> str:
        return self.kind


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """One of the allowed functions, applied."""

    name: str
    arguments: tuple[Expression, ...]
    depth: int = field(init=False, repr=False)
    size: int = field(init=False, repr=False)
    calls: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_call(self.name, self.arguments)
        calls = [argument for argument in self.arguments if isinstance(argument, Call)]
        object.__setattr__(self, "depth", 1 + max((call.depth for call in calls), default=0))
        object.__setattr__(self, "size", 1 + len(self.arguments) + sum(call.size for call in calls))
        object.__setattr__(self, "calls", 1 + sum(call.calls for call in calls))
        if self.depth > _DEEPEST or self.size > _LARGEST or self.calls > _MOST_CALLS:
            raise InvalidInput(
                "expression",
                f"{self.depth} levels, {self.calls} functions, {self.size} nodes",
                f"at most {_DEEPEST} levels, {_MOST_CALLS} functions and {_LARGEST} nodes: name intermediate results "
                "with derive(...)",
            )

    def to_data(self) -> list[Any]:
        return [self.name, *(argument.to_data() for argument in self.arguments)]

    def type_in(self, schema: Schema) -> str:
        types = [argument.type_in(schema) for argument in self.arguments]
        if self.name == "cast":
            return _cast_type(types[0], self.arguments[1])
        return result_type(self.name, types)


def col(name: str) -> Column:
    """A column, by name.

    >>> col("age").to_data()
    ['col', 'age']
    """
    return Column(column_name(name))


def columns_of(made: Expression) -> set[str]:
    """The columns that an expression is about.

    >>> sorted(columns_of(col("price") * (1 - col("discount"))))
    ['discount', 'price']
    """
    if isinstance(made, Column):
        return {made.name}
    return {name for each in made.arguments for name in columns_of(each)} if isinstance(made, Call) else set()


def constants_of(made: Expression) -> tuple[float, ...] | None:
    """Every number that an expression can be, where it is a choice among constants; None where it is not.

    >>> constants_of(when(col("age") > 40, 1, 0)), constants_of(when(col("age") > 40, col("age"), 0))
    ((1.0, 0.0), None)
    """
    if isinstance(made, Missing):
        return ()
    if isinstance(made, Literal):
        return (float(made.value),) if type(made.value) in (int, float) else None  # type: ignore[arg-type]
    if not isinstance(made, Call) or made.name != "when":
        return None
    found = [constants_of(each) for each in made.arguments[1:]]
    known = [values for values in found if values is not None]
    return tuple(value for values in known for value in values) if len(known) == len(found) else None


def when(condition: Expression, then: Any, otherwise: Any = None) -> Expression:
    """``then`` where the condition holds, else ``otherwise`` (also where the condition is missing), or missing.

    >>> when(col("age") >= 18, 1, 0).to_data()[0]
    'when'
    """
    last = () if otherwise is None else (lift(otherwise),)
    return Call("when", (lift(condition), lift(then), *last))


def missing(kind: str) -> Missing:
    """No value, of type ``kind``.

    >>> missing("number").to_data()
    ['null', 'number']
    """
    if kind not in TYPES:
        raise InvalidInput("missing", kind, f"one of {', '.join(TYPES)}")
    return Missing(kind)


def lift(value: Any) -> Expression:
    """A public constant as an expression; an expression as it is."""
    return value if isinstance(value, Expression) else Literal(constant(value))


_NUMERIC = ("integer", "number")


def result_type(name: str, types: list[str]) -> str:
    """The type of a function's result; wrong argument types are refused with the function named."""
    numeric = all(kind in _NUMERIC for kind in types)
    alike = numeric or len(set(types)) == 1
    common = types[0] if len(set(types)) == 1 else "number"
    rules = {
        "arithmetic": (numeric, "number"),
        "order": (alike and types[0] != "boolean", "boolean"),
        "equality": (alike, "boolean"),
        "logic": (set(types) == {"boolean"}, "boolean"),
        "missing": (True, "boolean"),
        "cut": (numeric, "integer"),
        "part": (types == ["date"], "integer"),
        "first": (alike, common),
        "nullif": (alike, types[0]),
        "extreme": (alike and types[0] != "boolean", common),
        "whole": (numeric, types[0]),
        "mod": (types == ["integer", "integer"], "integer"),
        "date_trunc": (types == ["date", "text"], "date"),
        "add_days": (types == ["date", "integer"], "date"),
        "add_months": (types == ["date", "integer"], "date"),
        "days_since": (types == ["date", "date"], "integer"),
        "text": (set(types) == {"text"}, "text"),
        "length": (types == ["text"], "integer"),
        "substr": (types == ["text", "integer", "integer"], "text"),
        "like": (types == ["text", "text"], "boolean"),
    }
    if name == "when":
        return _when_type(types)
    fits, kind = rules[KINDS[name]]
    if not fits:
        raise InvalidInput(
            f"arguments of {name}", ", ".join(types), "arguments of types that fit each other", code="types_differ"
        )
    return kind


def _when_type(types: list[str]) -> str:
    condition, *values = types
    if condition == "boolean" and len(set(values)) == 1:
        return values[0]
    if condition == "boolean" and all(kind in _NUMERIC for kind in values):
        return "number"
    raise InvalidInput("arguments of when", ", ".join(types), "a condition and two values of one type")


CASTS = {
    "integer": ("integer", "number", "text"),
    "number": ("number", "integer"),
    "text": ("text", "integer", "number", "date"),
    "boolean": ("boolean", "integer", "text"),
    "date": ("date", "text"),
}
"""What a value of a type may be cast to."""


def _cast_type(own: str, wanted: Expression) -> str:
    kind = wanted.value if isinstance(wanted, Literal) else None
    if kind not in CASTS[own]:
        raise InvalidInput(f"cast of {own}", kind, f"one of {', '.join(CASTS[own])}")
    return str(kind)


KINDS = {
    **dict.fromkeys(("+", "-", "*", "/"), "arithmetic"),
    **dict.fromkeys(("<", "<=", ">", ">="), "order"),
    **dict.fromkeys(("==", "!=", "in"), "equality"),
    **dict.fromkeys(("and", "or", "not"), "logic"),
    "missing": "missing",
    "cut": "cut",
    **dict.fromkeys(("year", "month", "day", "quarter", "weekday"), "part"),
    "coalesce": "first",
    "nullif": "nullif",
    **dict.fromkeys(("least", "greatest"), "extreme"),
    **dict.fromkeys(("abs", "floor", "ceil", "round"), "whole"),
    **{name: name for name in ("mod", "date_trunc", "add_days", "days_since", "length", "substr", "cast")},
    "add_months": "add_months",
    **dict.fromkeys(("lower", "upper", "concat", "trim"), "text"),
    **dict.fromkeys(("like", "ilike"), "like"),
}


_MOST = {"in": 10_001, "cut": 1_001, "coalesce": 101, "least": 101, "greatest": 101, "concat": 101}
_ONE = ("not", "lower", "upper", "length")
_BY_KIND = {"missing": 1, "part": 1, "whole": 1, "substr": 3}
MOST_MONTHS = 12 * 9999
SIDES = ("both", "start", "end")
UNITS_OF_TIME = ("year", "quarter", "month", "week", "day")


def _check_call(name: str, arguments: tuple[Expression, ...]) -> None:
    """A known function with as many arguments as it takes; lists of constants are constants."""
    if name not in KINDS and name != "when":
        raise InvalidInput("function", name, f"one of {', '.join(sorted([*KINDS, 'when']))}")
    if name in ("in", "cut"):
        _check_list(name, arguments)
        return
    one = 1 if name in _ONE else _BY_KIND.get(KINDS.get(name, ""), 2)
    least, most = (2, 3) if name == "when" else (2, _MOST[name]) if name in _MOST else (one, one)
    if not least <= len(arguments) <= most:
        raise InvalidInput(
            f"arguments of {name}", len(arguments), f"{least}" if least == most else f"{least} to {most}"
        )
    if name in _PUBLIC:
        given = [a.value if isinstance(a, Literal) else None for a in arguments[1:]]
        fits, wanted = _PUBLIC[name]
        if not fits(*given):
            raise InvalidInput(f"arguments of {name}", given, wanted)


def _check_list(name: str, arguments: tuple[Expression, ...]) -> None:
    if not 2 <= len(arguments) <= _MOST[name] or not all(isinstance(a, Literal) for a in arguments[1:]):
        raise InvalidInput(f"arguments of {name}", len(arguments) - 1, f"1 to {_MOST[name] - 1} public constants")
    edges = [argument.value for argument in arguments[1:] if isinstance(argument, Literal)]
    numeric = all(type_of_constant(edge) in _NUMERIC for edge in edges)
    if name == "cut" and not (numeric and all(a < b for a, b in itertools.pairwise(edges))):  # type: ignore[operator]
        raise InvalidInput("edges", edges[:10], "1 to 1000 rising numbers")


def _is_pattern(pattern: Any) -> bool:
    """A text whose every backslash stands before %, _ or another one."""
    return isinstance(pattern, str) and re.sub(r"\\[\\%_]", "", pattern).count("\\") == 0


def _is_piece(start: Any, length: Any) -> bool:
    return type(start) is int and 1 <= start <= 1 << 30 and type(length) is int and 0 <= length <= LONGEST_MADE


_PATTERN = (_is_pattern, "a public pattern; a backslash stands before %, _ or a backslash")
_PUBLIC: dict[str, tuple[Callable[..., bool], str]] = {
    "cast": (lambda kind: kind in TYPES, f"one of {', '.join(TYPES)}"),
    "add_months": (
        lambda months: type(months) is int and abs(months) <= MOST_MONTHS,
        f"a whole public number of months, at most {MOST_MONTHS} either way",
    ),
    "trim": (lambda side: side in SIDES, f"one of {', '.join(SIDES)}"),
    "date_trunc": (lambda unit: unit in UNITS_OF_TIME, f"one of {', '.join(UNITS_OF_TIME)}"),
    "like": _PATTERN,
    "ilike": _PATTERN,
    "substr": (_is_piece, f"a first place from 1 and a length up to {LONGEST_MADE}, both public"),
}
"""Functions whose arguments behind the first are public constants: what these may be."""


def _pattern(pattern: Any, escape: Any) -> str:
    """A pattern with backslash as its escape."""
    if not isinstance(pattern, str) or not (escape is None or (isinstance(escape, str) and len(escape) == 1)):
        raise InvalidInput("like", pattern, "a public pattern, and one character as escape")
    written, rest = "", iter(pattern)
    for letter in rest:
        if letter == escape:
            letter = next(rest, "")
            if letter not in ("%", "_", escape):
                raise InvalidInput("like", pattern, f"{escape!r} only before %, _ or itself")
            letter = f"\\{letter}" if letter in ("%", "_", "\\") else letter
        elif letter == "\\":
            letter = "\\\\"
        written += letter
    return written


def from_data(data: Any, depth: int = 0) -> Expression:
    """The expression that ``to_data`` wrote; anything else is refused.

    >>> from_data(["<", ["col", "age"], ["lit", 18]]).to_data()
    ['<', ['col', 'age'], ['lit', 18]]
    """
    if not isinstance(data, list) or not data or not isinstance(data[0], str) or depth > _DEEPEST:
        raise InvalidInput("expression", type(data).__name__, "a list such as ['<', ['col', 'age'], ['lit', 18]]")
    head, rest = data[0], data[1:]
    if head in ("col", "lit", "date", "null"):
        if len(rest) != 1:
            raise InvalidInput(f"arguments of {head}", len(rest), "1")
        if head == "null":
            return missing(rest[0])
        return col(rest[0]) if head == "col" else lift(rest[0] if head == "lit" else day(rest[0]))
    return Call(head, tuple(from_data(item, depth + 1) for item in rest))
