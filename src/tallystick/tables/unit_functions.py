"""Values that may be computed from all rows of one unit: the words ``ts.unit_count``, ``ts.row_number`` and their like.

Each is a function of the unit's rows as a bag: it gives the same on every run, engine and number of threads. So sums
are of whole steps of a public grid, exact in any order, and orders end with all columns of the row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Final

from sqlglot import exp

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.tables.dialects import SATURATED_TOTAL, Tree, Words, case, compare, missing, name, place, whole
from tallystick.tables.fixed_point import bounds
from tallystick.tables.keyset import GROUPABLE
from tallystick.tables.schema import Schema, column_name

MOST_COUNTED: Final = 1_000_000
MOST_APART: Final = 1_000
GRID_BITS: Final = 40
"""Steps from 0 to the larger bound of a sum: a row loses at most one of them, 2^-40 of that bound."""

RANKS: Final = ("rank", "dense_rank")
"""Places that rows which tie in the order share."""

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class OfUnit:
    """One function of a unit's rows; ``most`` is the largest count, or how many rows away ``lag`` looks."""

    kind: str
    column: str | None = None
    lower: float | None = None
    upper: float | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        """Wherever it comes from: the arguments of that function, and no others."""
        if self.kind not in _ARGUMENTS:
            raise InvalidInput("function of a unit", self.kind, f"one of {', '.join(_ARGUMENTS)}")
        wanted = _ARGUMENTS[self.kind]
        for field in fields(self)[1:]:
            given = getattr(self, field.name) is not None
            optional = self.kind == "count" and field.name == "column"
            if given != (field.name in wanted) and not optional:
                raise InvalidInput(f"unit_{self.kind}", field.name, f"these arguments: {', '.join(wanted) or 'none'}")
        if self.column is not None:
            column_name(self.column)
        if "lower" in wanted:
            bounds(self.lower, self.upper)
        if "most" in wanted:
            most = MOST_APART if self.kind in ("lag", "lead") else MOST_COUNTED
            check.count("most", self.most, least=1, most=most)

    @property
    def ordered(self) -> bool:
        """True if it means nothing without an order of the rows."""
        return self.kind in ("row_number", "lag", "lead", *RANKS)

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: value for key, value in data.items() if value is not None}

    @classmethod
    def from_data(cls, data: Any) -> OfUnit:
        """The function that ``to_data`` wrote."""
        if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
            raise InvalidInput("function of a unit", type(data).__name__, "what to_data wrote")
        if set(data) - {field.name for field in fields(cls)}:
            raise InvalidInput("function of a unit", data["kind"], "what to_data wrote, and nothing else")
        return cls(**data)

    def type_in(self, schema: Schema) -> str:
        """The type of its values."""
        kind = None if self.column is None else schema.type_of(self.column)
        allowed = _COLUMNS.get(self.kind)
        if kind is not None and allowed is not None and kind not in allowed:
            raise InvalidInput(f"unit_{self.kind}", self.column, f"a column of type {' or '.join(allowed)}")
        if self.kind in ("min", "max", "lag", "lead"):
            assert kind is not None
            return kind
        exact = self.kind == "sum" and kind == "integer" and self._exponent(schema) == 0
        counts = ("count", "count_distinct", "row_number", *RANKS)
        return "integer" if exact or self.kind in counts else "number"

    def bounds_in(self, declared: dict[str, Bounds]) -> Bounds | None:
        """Public bounds of its values, where they follow."""
        if self.kind in ("count", "count_distinct"):
            assert self.most is not None
            return 0.0, float(self.most)
        if self.kind in ("sum", "mean"):
            return bounds(self.lower, self.upper)
        return None if self.column is None else declared.get(self.column)

    # -- SQL

    def sql(self, words: Words, schema: Schema, over: exp.Window | None) -> Tree:
        """Its value from rows called ``_t``: as an aggregate, or for every row where ``over`` says over which rows."""

        def within(made: Tree) -> Tree:
            if over is None:
                return made
            window = over.copy()
            window.set("this", made)
            return window

        value = None if self.column is None else plain(words, schema, self.column, "_t")
        if self.kind == "row_number" or self.kind in RANKS:
            return words.cast(within(exp.Anonymous(this=self.kind.upper())), "integer")
        if self.kind in ("lag", "lead"):
            assert value is not None
            assert self.most is not None
            return within(exp.Anonymous(this=self.kind.upper(), expressions=[value, whole(self.most)]))
        if self.kind in ("min", "max"):
            return within((exp.Min if self.kind == "min" else exp.Max)(this=value))
        if self.kind in ("count", "count_distinct"):
            assert self.most is not None
            counted: Tree = exp.Star() if value is None else value
            if self.kind == "count_distinct":
                counted = exp.Distinct(expressions=[counted])
            return words.cast(_between(within(exp.Count(this=counted)), 0, self.most), "integer")
        assert value is not None
        return self._total(words, schema, value, within)

    def _exponent(self, schema: Schema) -> int:
        assert self.column is not None
        exponent = math.ceil(math.log2(max(map(abs, bounds(self.lower, self.upper))))) - GRID_BITS
        return max(0, exponent) if schema.type_of(self.column) == "integer" else exponent

    def _total(self, words: Words, schema: Schema, value: Tree, within: Any) -> Tree:
        """Whole steps of every value, added up exactly in decimals, and back.

        A value counts as the nearest of what it may be: from -b to b with b the larger bound of a sum, whose total is
        then pulled between the bounds; between the bounds for a mean.
        """
        assert self.column is not None
        (low, high), exponent = bounds(self.lower, self.upper), self._exponent(schema)
        inverse = math.ldexp(1.0, -exponent)
        largest = max(abs(low), abs(high))
        least, most = (low, high) if self.kind == "mean" else (-largest, largest)
        number = words.number(value, schema.type_of(self.column))
        scaled = exp.Anonymous(this="FLOOR", expressions=[compare(exp.Mul, number, words.double(inverse))])
        steps = case(
            [
                (missing(number), exp.Null()),
                (compare(exp.LTE, number, words.double(least)), whole(math.ceil(least * inverse))),
                (compare(exp.GTE, number, words.double(most)), whole(math.floor(most * inverse))),
            ],
            words.cast(scaled, "integer"),
        )
        # decimals: a 64-bit sum wraps around on Spark. Doubles are added in whatever order rows come
        total = within(exp.Sum(this=exp.Cast(this=steps, to=exp.DataType.build("DECIMAL(20, 0)"))))
        if self.kind == "sum":
            inside = _between(total, math.ceil(low * inverse), math.floor(high * inverse))
        else:
            inside = _between(total, -SATURATED_TOTAL, SATURATED_TOTAL)
        whole_steps = words.cast(inside, "integer")
        if self.type_in(schema) == "integer":
            return whole_steps
        made = compare(exp.Mul, words.cast(whole_steps, "number"), words.double(math.ldexp(1.0, exponent)))
        if self.kind == "sum":
            return made
        rows = exp.Anonymous(this="NULLIF", expressions=[within(exp.Count(this=value.copy())), whole(0)])
        return compare(exp.Div, made, words.cast(rows, "number"))


_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "count": ("most",),
    "count_distinct": ("column", "most"),
    "sum": ("column", "lower", "upper"),
    "mean": ("column", "lower", "upper"),
    "min": ("column",),
    "max": ("column",),
    "row_number": (),
    "rank": (),
    "dense_rank": (),
    "lag": ("column", "most"),
    "lead": ("column", "most"),
}
_ORDERED: Final = ("integer", "number", "text", "date")
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "count_distinct": GROUPABLE,
    "sum": ("integer", "number"),
    "mean": ("integer", "number"),
    "min": _ORDERED,
    "max": _ORDERED,
    "count": (*GROUPABLE, "number"),
    "lag": (*GROUPABLE, "number"),
    "lead": (*GROUPABLE, "number"),
}


def plain(words: Words, schema: Schema, column: str, of: str) -> Tree:
    """A column in the one form that its value has: of the two zeros of a double, one."""
    value = name(place(schema, column), of)
    if schema.type_of(column) != "number":
        return value
    return case([(compare(exp.EQ, value, words.double(0.0)), words.double(0.0))], value)


def _between(value: Tree, low: int, high: int) -> Tree:
    return case(
        [(compare(exp.LT, value, whole(low)), whole(low)), (compare(exp.GT, value, whole(high)), whole(high))], value
    )


def unit_count(column: str | None = None, *, most: int = 100) -> OfUnit:
    """Number of rows of a unit, or of its rows with a value in a column; more than ``most`` count as that.

    >>> unit_count().to_data()
    {'kind': 'count', 'most': 100}
    """
    return OfUnit("count", column, most=most)


def unit_count_distinct(column: str, *, most: int = 100) -> OfUnit:
    """Number of different values of a column that a unit has; more than ``most`` count as that."""
    return OfUnit("count_distinct", column, most=most)


def unit_sum(column: str, lower: float, upper: float) -> OfUnit:
    """A unit's total of a column, pulled between public bounds of the total; missing where it has no value.

    Values are rounded down to 2^-40 of the larger bound, and count as at most that bound.

    >>> unit_sum("cost", 0, 5_000).to_data()
    {'kind': 'sum', 'column': 'cost', 'lower': 0, 'upper': 5000}
    """
    return OfUnit("sum", column, lower, upper)


def unit_mean(column: str, lower: float, upper: float) -> OfUnit:
    """A unit's mean of a column, every value pulled between public bounds; missing where the unit has no value."""
    return OfUnit("mean", column, lower, upper)


def unit_min(column: str) -> OfUnit:
    """The smallest value that a unit has; texts are compared byte by byte."""
    return OfUnit("min", column)


def unit_max(column: str) -> OfUnit:
    """The largest value that a unit has."""
    return OfUnit("max", column)


def row_number() -> OfUnit:
    """The place of a row among its unit's, from 1."""
    return OfUnit("row_number")


def rank() -> OfUnit:
    """One more than the rows of the unit that come before; rows that tie in ``order_by`` have one rank.

    >>> rank().to_data()
    {'kind': 'rank'}
    """
    return OfUnit("rank")


def dense_rank() -> OfUnit:
    """One more than the different places before: rows that tie have one rank, and none is left out."""
    return OfUnit("dense_rank")


def lag(column: str, rows: int = 1) -> OfUnit:
    """The value of a column that many rows earlier; missing where the unit has no such row."""
    return OfUnit("lag", column, most=rows)


def lead(column: str, rows: int = 1) -> OfUnit:
    """The value of a column that many rows later; missing where the unit has no such row."""
    return OfUnit("lead", column, most=rows)
