"""The SQL of row expressions: columns, constants, comparison, arithmetic, casts, dates, text, rounding. All are total.

Engines disagree on what casts, rounding and letters mean, and raise where a value does not fit. So each function is
made of the few things they agree on, guarded by a CASE that lets nothing through that could fail.
"""

from __future__ import annotations

import datetime
import string
from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from tallystick.tables.dialects import (
    HUGE,
    Tree,
    Words,
    alike,
    both,
    case,
    choices,
    compare,
    constant,
    fresh,
    missing,
    name,
    place,
    whole,
    wide,
)
from tallystick.tables.expressions import LONGEST_MADE, Call, Column, Expression, Literal, Missing
from tallystick.tables.schema import Schema

_LONGEST_SPAN: Final = (datetime.date.max - datetime.date.min).days
_ALL_WHOLE: Final = 2.0**53
"""Doubles from here on are whole numbers."""

_INTEGER: Final = "[ ]*[+-]?0*[0-9]{1,18}[ ]*"
_NUMBER: Final = "[ ]*[+-]?(?:[0-9]{1,200}[.]?|[0-9]{0,200}[.][0-9]{1,200})(?:[eE][+-]?[0-9]{1,2})?[ ]*"
"""Between 1e-299 and 1e299 in size, or 0: no engine overflows, and all of them round to the nearest double."""

_LEAP: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR: Final = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DAYS: Final = (
    "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])"
)
_DATE: Final = f"[ ]*(?:{_YEAR}-(?:{_DAYS})|{_LEAP}-02-29)[ ]*"


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
    return called(expression, words, values, kinds)


def nested(expression: Expression) -> list[Call]:
    """The innermost calls that their surroundings would write down several times.

    If separate columns hold them first, they are written once: SQL stays about as long as the expression.
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


def called(call: Call, words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    """A call as SQL; ``values`` are its arguments in SQL, ``kinds`` their types."""
    public = [argument.value if isinstance(argument, Literal) else None for argument in call.arguments[1:]]
    made: Tree
    if call.name in _OF_CONSTANTS:
        made = _OF_CONSTANTS[call.name](words, values[0], kinds[0], *public)
    else:
        made = _OF_VALUES[call.name](words, values, kinds)
    return made


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


def _function(name: str, *arguments: Tree) -> Tree:
    return exp.Anonymous(this=name, expressions=[fresh(argument) for argument in arguments])


def _plain(words: Words, value: Tree) -> Tree:
    """A double, with one zero instead of two."""
    return case([(compare(exp.EQ, value, words.double(0.0)), words.double(0.0))], fresh(value))


# ---- numbers


def _floor(words: Words, value: Tree) -> Tree:
    # Spark's FLOOR gives a 64-bit integer, so large numbers keep away from it
    small = compare(exp.LT, _function("ABS", value), words.double(_ALL_WHOLE))
    return case([(small, words.cast(_function("FLOOR", value), "number"))], fresh(value))


def _negative(words: Words, value: Tree) -> Tree:
    return compare(exp.Sub, words.double(0.0), value)


def _ceil(words: Words, value: Tree) -> Tree:
    return _negative(words, _floor(words, _negative(words, value)))


def _round(words: Words, value: Tree) -> Tree:
    """The nearest whole number, the half away from 0. |x| - floor(|x|) is exact, |x| + 0.5 is not."""
    size = _function("ABS", value)
    below = _floor(words, size)
    half = compare(exp.GTE, compare(exp.Sub, size, below), words.double(0.5))
    nearest = case([(half, compare(exp.Add, below, words.double(1.0)))], below)
    return case([(compare(exp.LT, value, words.double(0.0)), _negative(words, nearest))], fresh(nearest))


def _to_whole(rounded: Callable[[Words, Tree], Tree]) -> Any:
    def made(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
        return values[0] if kinds[0] == "integer" else _plain(words, rounded(words, values[0]))

    return made


def _absolute(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    """-2^63 is the one integer without a size."""
    [value] = values
    if kinds[0] == "number":
        return _function("ABS", value)
    value = wide(words, value)
    least = compare(exp.LT, value, whole(-(2**63 - 1)))
    return case([(least, exp.Null())], _function("ABS", value))


def _remainder(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    """With the sign of the left one, as engines have it; some raise at -2^63 % -1."""
    left, right = values
    special = [
        (compare(exp.EQ, right, whole(0)), exp.Null()),
        (compare(exp.EQ, right, whole(-1)), case([(missing(left), exp.Null())], words.cast(whole(0), "integer"))),
    ]
    return words.cast(case(special, compare(exp.Mod, left, right)), "integer")


# ---- choices


def _first(name: str) -> Any:
    return lambda words, values, kinds: _function(name, *choices(words, values, kinds))


def _nullif(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    return case([(compare(exp.EQ, *alike(words, values, kinds)), exp.Null())], wide(words, values[0].copy()))


# ---- casts


def _cast(words: Words, value: Tree, own: str, wanted: str) -> Tree:
    if own == wanted:
        return value
    if own == "text":
        return _of_text(words, value, wanted)
    if own == "boolean":
        truth = constant("true", words), constant("false", words)
        if wanted == "integer":
            truth = words.cast(whole(1), "integer"), words.cast(whole(0), "integer")
        return case([(missing(value), exp.Null()), (fresh(value), truth[0])], truth[1])
    if own == "number" and wanted == "integer":
        inside = compare(exp.LT, _function("ABS", value), words.double(2.0**63))
        return case([(inside, words.cast(_round(words, value), "integer"))], exp.Null())
    return words.read(value, "text") if wanted == "text" else words.cast(value, wanted)


def _of_text(words: Words, value: Tree, wanted: str) -> Tree:
    pattern = {"integer": _INTEGER, "number": _NUMBER, "date": _DATE}[wanted]
    read = words.cast(value if wanted != "date" else _function("TRIM", value), wanted)
    read = _plain(words, read) if wanted == "number" else read
    return case([(words.matches(value, pattern), read)], exp.Null())


# ---- dates


def _weekday(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    """The first of January of the year 1 is a Monday."""
    since = words.days_between(values[0], constant(datetime.date.min, words))
    return compare(exp.Add, compare(exp.Mod, since, whole(7)), whole(1))


def _date_trunc(words: Words, value: Tree, own: str, unit: str) -> Tree:
    return value if unit == "day" else words.first_day(value, unit)


def _add_days(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    date, days = values
    near = both(compare(exp.GTE, days, whole(-_LONGEST_SPAN)), compare(exp.LTE, days, whole(_LONGEST_SPAN)))
    later = words.days_later(date, case([(near, days)], exp.Null()))
    first, last = (constant(day, words) for day in (datetime.date.min, datetime.date.max))
    inside = both(compare(exp.GTE, later, first), compare(exp.LTE, later, last))
    return case([(inside, later)], exp.Null())


def _add_months(words: Words, value: Tree, own: str, months: int) -> Tree:
    """Only dates whose month stays within the calendar are moved: beyond it engines raise."""
    year, month = (exp.Extract(this=exp.var(part), expression=fresh(value)) for part in ("YEAR", "MONTH"))
    count = words.cast(compare(exp.Add, compare(exp.Mul, year, whole(12)), month), "integer")
    inside = both(compare(exp.GTE, count, whole(13 - months)), compare(exp.LTE, count, whole(12 * 10_000 - months)))
    return words.months_later(case([(inside, value)], exp.Null()), months)


# ---- text


def _trim(words: Words, value: Tree, own: str, side: str) -> Tree:
    for function, where in (("LTRIM", "start"), ("RTRIM", "end")):
        value = words.trimmed(value, function) if side in (where, "both") else value
    return value


def _letters(given: str, wanted: str) -> Any:
    def made(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
        return _function("TRANSLATE", values[0], exp.Literal.string(given), exp.Literal.string(wanted))

    return made


def _substr(words: Words, value: Tree, own: str, start: int, length: int) -> Tree:
    return _function("SUBSTR", value, whole(start), whole(length))


def _concat(words: Words, values: list[Tree], kinds: list[str]) -> Tree:
    """Cut at every place: doubled again and again, one long text would not fit in memory."""
    made, *rest = (_substr(words, value, "text", 1, LONGEST_MADE) for value in values)
    for value in rest:
        made = _substr(words, exp.Paren(this=exp.DPipe(this=made, expression=value)), "text", 1, LONGEST_MADE)
    return made


def _like(words: Words, value: Tree, own: str, pattern: str) -> Tree:
    # ! is escaped and escapes, since a backslash means something of its own to Spark and PostgreSQL
    written = pattern.replace("!", "!!").replace("\\\\", "\0").replace("\\", "!").replace("\0", "\\")
    like = exp.Like(this=fresh(value), expression=words.text(written))
    return exp.Paren(this=exp.Escape(this=like, expression=exp.Literal.string("!")))


def _ilike(words: Words, value: Tree, own: str, pattern: str) -> Tree:
    low = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
    return _like(words, _OF_VALUES["lower"](words, [value], [own]), own, pattern.translate(low))


_OF_CONSTANTS: Final[dict[str, Any]] = {
    "cast": _cast,
    "date_trunc": _date_trunc,
    "add_months": _add_months,
    "trim": _trim,
    "substr": _substr,
    "like": _like,
    "ilike": _ilike,
}
_OF_VALUES: Final[dict[str, Any]] = {
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
    "abs": _absolute,
    "floor": _to_whole(_floor),
    "ceil": _to_whole(_ceil),
    "round": _to_whole(_round),
    "mod": _remainder,
    "coalesce": _first("COALESCE"),
    "least": _first("LEAST"),
    "greatest": _first("GREATEST"),
    "nullif": _nullif,
    "weekday": _weekday,
    "add_days": _add_days,
    "days_since": lambda words, values, kinds: words.days_between(*values),
    "lower": _letters(string.ascii_uppercase, string.ascii_lowercase),
    "upper": _letters(string.ascii_lowercase, string.ascii_uppercase),
    "length": lambda words, values, kinds: words.cast(_function("LENGTH", values[0]), "integer"),
    "concat": _concat,
}

_ONCE: Final = (
    "<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "missing", "in", "year", "month", "day", "quarter",
    "when", "lower", "upper", "length", "trim", "substr", "like", "ilike", "days_since", "date_trunc", "coalesce",
    "least", "greatest",
)  # fmt: skip
"""Calls that write each argument down once; all others repeat some."""
