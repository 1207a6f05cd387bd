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
    """Where its values lie, or None where nothing public says so.

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
    rule = _RULES.get(made.name)
    if rule is None:
        return None
    arguments = (
        made.arguments[1:] if made.name == "when" else made.arguments[:1] if made.name == "cast" else made.arguments
    )
    known = [range_of(argument, declared, schema) for argument in arguments if not isinstance(argument, Missing)]
    if not known or any(each is None for each in known):
        return None
    found = rule([each for each in known if each is not None])
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


_RULES: dict[str, Callable[[list[Range]], Range | None]] = {
    "+": _corners(lambda a, b: a + b),
    "-": _corners(lambda a, b: a - b),
    "*": _corners(lambda a, b: a * b),
    "/": _divided,
    "when": _union,
    "coalesce": _union,
    "nullif": lambda given: given[0],
    "greatest": lambda given: (max(low for low, _ in given), max(high for _, high in given)),
    "least": lambda given: (min(low for low, _ in given), min(high for _, high in given)),
    "abs": _absolute,
    "floor": lambda given: (float(math.floor(given[0][0])), float(math.floor(given[0][1]))),
    "ceil": lambda given: (float(math.ceil(given[0][0])), float(math.ceil(given[0][1]))),
    "round": lambda given: (float(math.floor(given[0][0])), float(math.ceil(given[0][1]))),
    "cast": lambda given: given[0],
}

_FIXED: dict[str, Range] = {"month": (1.0, 12.0), "quarter": (1.0, 4.0), "day": (1.0, 31.0), "weekday": (1.0, 7.0)}
