"""Number of units of a group that have a value in a column: SQL's COUNT(DISTINCT CASE WHEN ... THEN unit END)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sqlglot import exp

from tallystick.digits import plural
from tallystick.errors import InvalidInput
from tallystick.tables.aggregates import Bounds, Count, Measure
from tallystick.tables.dialects import Words, case, compare, whole
from tallystick.tables.parts import Caps, Integers, Part, Present
from tallystick.tables.schema import Schema


@dataclass(frozen=True, slots=True)
class UnitsWith(Present):
    """Units with a value in some row: a cell adds one, however many of its rows have a value."""

    kind: ClassVar[str] = "units with"

    @property
    def label(self) -> str:
        return f"units with {self.column}"

    @property
    def weight_bits(self) -> int:
        return 0

    @property
    def per_row(self) -> None:
        return None

    def peak(self, caps: Caps) -> int:
        return 1

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: exp.Expr) -> exp.Expr:
        return case([(compare(exp.GT, value, whole(0)), whole(1))], whole(0))

    def counted(self, value: Integers, rows: Integers, most: Integers) -> Integers:
        return (value > 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class CountUnitsWith(Count):
    """Units with a value in a column, in at least one row."""

    kind: ClassVar[str] = "count_units_with"
    limited: ClassVar[str] = "people"
    by_rows: ClassVar[bool] = False
    column: str

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        if schema.type_of(self.column) not in ("integer", "number"):
            raise InvalidInput("column", self.column, "a numeric column, such as derive(c=ts.when(condition, 1))")
        return self

    def said(self, who: str) -> str:
        return f"number of {plural(who)} with a value of {self.column} in some row, each counted once in a group"

    def parts(self) -> tuple[Part, ...]:
        return (UnitsWith(self.column),)
