"""The SQL of row expressions: columns, constants, comparison and arithmetic here, other calls in ``functions``."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from tallystick.tables.dialects import (
    HUGE,
    Tree,
    Words,
    alike,
    case,
    choices,
    compare,
    constant,
    fresh,
    missing,
    name,
    place,
    whole,
)
from tallystick.tables.expressions import Call, Column, Expression, Literal, Missing
from tallystick.tables.functions import called
from tallystick.tables.schema import Schema


def row_value(expression: Expression, schema: Schema, words: Words, of: str) -> Tree:
    """A row expression as SQL; ``of`` is the alias of the rows."""
    if isinstance(expression, Column):
        return name(place(schema, expression.name), of)
    if isinstance(expression, Literal):
        return constant(expression.value, words)
    if isinstance(expression, Missing):
        return words.cast(exp.Null(), expression.kind)
    assert isinstance(expression, Call)
    kinds = [argument.type_in(schema) for argument in expression.arguments]
    values = [row_value(argument, schema, words, of) for argument in expression.arguments]
    if expression.name in _CALLS:
        made: Tree = _CALLS[expression.name](words, values, kinds)
        return made
    return called(expression, words, values, kinds)


def nested(expression: Expression) -> list[Call]:
    """The innermost calls that their surroundings would write down several times.

    Given columns of their own first, they are written once: SQL stays about as long as the expression.
    """
    if not isinstance(expression, Call):
        return []
    inside = [call for argument in expression.arguments for call in nested(argument)]
    if inside or expression.name in _ONCE:
        return inside
    return [argument for argument in expression.arguments if isinstance(argument, Call)]


def exchanged(expression: Expression, columns: dict[int, Column]) -> Expression:
    """The expression with calls (by identity) replaced by columns."""
    if id(expression) in columns:
        return columns[id(expression)]
    if not isinstance(expression, Call):
        return expression
    return Call(expression.name, tuple(exchanged(argument, columns) for argument in expression.arguments))


def _operand(words: Words, value: Tree, kind: str) -> Tree:
    """A number that arithmetic cannot overflow with."""
    number = words.number(value, kind)
    absolute = exp.Anonymous(this="ABS", expressions=[fresh(number)])
    return case(
        [
            (compare(exp.GT, number, words.double(HUGE)), words.double(HUGE)),
            (compare(exp.LT, number, words.double(-HUGE)), words.double(-HUGE)),
            (compare(exp.LT, absolute, words.double(1 / HUGE)), words.double(0.0)),
        ],
        number,
    )


def _arithmetic(kind: type[exp.Binary]) -> Any:
    def made(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
        left, right = (_operand(words, value, k) for value, k in zip(values, kinds, strict=True))
        if kind is exp.Div:
            zero = compare(exp.EQ, right, words.double(0.0))
            return case([(zero, exp.Null())], compare(kind, left, right))
        return compare(kind, left, right)

    return made


def _compared(kind: type[exp.Binary]) -> Any:
    return lambda words, values, kinds: compare(kind, *alike(words, values, kinds))


def _logic(kind: type[exp.Binary]) -> Any:
    return lambda words, values, kinds: compare(kind, values[0], values[1])


def _in(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    value, *chosen = alike(words, values, kinds)
    return exp.Paren(this=exp.In(this=value, expressions=chosen))


def _cut(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    number, *edges = (words.number(value, kind) for value, kind in zip(values, kinds, strict=True))
    steps = [(compare(exp.LT, number, edge), whole(i)) for i, edge in enumerate(edges)]
    return words.cast(case([(missing(number), exp.Null()), *steps], whole(len(edges))), "integer")


def _part(unit: str) -> Any:
    def made(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
        return words.cast(exp.Extract(this=exp.var(unit), expression=values[0]), "integer")

    return made


def _when(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    then, *otherwise = choices(words, values[1:], kinds[1:])
    return case([(values[0], then)], otherwise[0] if otherwise else exp.Null())


_ONCE: Final = (
    "<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "missing", "in", "year", "month", "day", "quarter",
    "when", "lower", "upper", "length", "trim", "substr", "like", "ilike", "days_since", "date_trunc", "coalesce",
    "least", "greatest",
)  # fmt: skip
"""Calls that write each argument down once; all others repeat some."""

_CALLS: Final[dict[str, Any]] = {
    "+": _arithmetic(exp.Add),
    "-": _arithmetic(exp.Sub),
    "*": _arithmetic(exp.Mul),
    "/": _arithmetic(exp.Div),
    "<": _compared(exp.LT),
    "<=": _compared(exp.LTE),
    ">": _compared(exp.GT),
    ">=": _compared(exp.GTE),
    "==": _compared(exp.EQ),
    "!=": _compared(exp.NEQ),
    "and": _logic(exp.And),
    "or": _logic(exp.Or),
    "not": lambda words, values, kinds: exp.Paren(this=exp.Not(this=values[0])),
    "missing": lambda words, values, kinds: missing(values[0]),
    "in": _in,
    "cut": _cut,
    **{unit: _part(unit.upper()) for unit in ("year", "month", "day", "quarter")},
    "when": _when,
}
