"""The public range of an expression from the public ranges of its columns, where it follows.

A range only says where values are clamped: a wrong one costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tallystick.tables.expressions import Call, Column, Expression, Literal, Missing
from tallystick.tables.schema import Schema

Range = tuple[float, float]


def range_of(made: Expression, declared: Mapping[str, Range], schema: Schema) -> Range | None:
    """Range of its values, or None where nothing public says so.

    >>> from tallystick.tables.expressions import col
    >>> schema = Schema.of({"price": "number", "discount": "number"})
    >>> range_of(col("price") * (1 - col("discount")), {"price": (0, 100), "discount": (0, 0.5)}, schema)
    (0.0, 100.0)
    """
    if isinstance(made, Literal):
        value = made.value
        return (float(value), float(value)) if type(value) in (int, float) else None  # type: ignore[arg-type]
    if isinstance(made, Column):
        return declared.get(made.name)
    if isinstance(made, Call) and made.name in _FIXED:
        return _FIXED[made.name]
    if isinstance(made, Missing):
        return None
    assert isinstance(made, Call)
    if made.name == "cast" and made.arguments[0].type_in(schema) == "boolean":
        return 0.0, 1.0
    if made.name not in _RULES and made.name not in _EXTREMES:
        return None
    arguments = (
        made.arguments[1:] if made.name == "when" else made.arguments[:1] if made.name == "cast" else made.arguments
    )
    arguments = tuple(each for each in arguments if not isinstance(each, Missing))
    ranges = [range_of(argument, declared, schema) for argument in arguments]
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges):
        return None
    if made.name in _EXTREMES:
        sure = [given for argument, given in zip(arguments, known, strict=True) if isinstance(argument, Literal)]
        return _EXTREMES[made.name](known, sure)
    found = _RULES[made.name](known)
    return found if found is not None and all(math.isfinite(end) for end in found) else None


def _corners(combine: Callable[[float, float], float]) -> Callable[[list[Range]], Range | None]:
    def rule(given: list[Range]) -> Range | None:
        if len(given) != 2:
            return None
        values = [combine(a, b) for a in given[0] for b in given[1]]
        return min(values), max(values)

    return rule


def _divided(given: list[Range]) -> Range | None:
    away = len(given) == 2 and not given[1][0] <= 0 <= given[1][1]
    return _corners(lambda a, b: a / b)(given) if away else None


def _union(given: list[Range]) -> Range:
    return min(low for low, _ in given), max(high for _, high in given)


def _absolute(given: list[Range]) -> Range:
    (low, high), *_ = given
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _least(given: list[Range], sure: list[Range]) -> Range:
    """Range of LEAST, which passes over missing values: only a value that cannot be missing keeps the others down."""
    return min(low for low, _ in given), min(high for _, high in sure) if sure else max(high for _, high in given)


def _greatest(given: list[Range], sure: list[Range]) -> Range:
    return max(low for low, _ in sure) if sure else min(low for low, _ in given), max(high for _, high in given)


_EXTREMES = {"least": _least, "greatest": _greatest}
_RULES: dict[str, Callable[[list[Range]], Range | None]] = {
    "+": _corners(lambda a, b: a + b),
    "-": _corners(lambda a, b: a - b),
    "*": _corners(lambda a, b: a * b),
    "/": _divided,
    "when": _union,
    "coalesce": _union,
    "nullif": lambda given: given[0],
    "abs": _absolute,
    "floor": lambda given: (float(math.floor(given[0][0])), float(math.floor(given[0][1]))),
    "ceil": lambda given: (float(math.ceil(given[0][0])), float(math.ceil(given[0][1]))),
    "round": lambda given: (float(math.floor(given[0][0])), float(math.ceil(given[0][1]))),
    "cast": lambda given: given[0],
}

_FIXED: dict[str, Range] = {"month": (1.0, 12.0), "quarter": (1.0, 4.0), "day": (1.0, 31.0), "weekday": (1.0, 7.0)}
