"""Report on what the cap on rows left out of each group: units with more rows there than count, and those rows.

Of the cells of a unit that count, so at most max_groups of them: what one cell adds is bounded, and noise is that of a
count (docs/theory/query-removed.md). What the cap on groups left out of a group cannot be bounded, and is not reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sqlglot import exp

from tallystick.accounting import check
from tallystick.digits import plural
from tallystick.inference.released import Answer
from tallystick.tables.aggregates import Bounds, Count, Measure, Numbers
from tallystick.tables.answers import Cell
from tallystick.tables.dialects import Words, case, compare, whole
from tallystick.tables.parts import Caps, Integers, Part
from tallystick.tables.schema import Schema

MOST_SEEN = 1 << 30


@dataclass(frozen=True, slots=True)
class CellsOver(Part):
    """Units with more rows in the group than count."""

    kind: ClassVar[str] = "units over here"

    @property
    def label(self) -> str:
        return "units over the cap on rows, in each group"

    @property
    def per_row(self) -> None:
        return None

    def peak(self, caps: Caps) -> int:
        return 1

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: exp.Expr) -> exp.Expr:
        return case([(compare(exp.GT, rows, most), whole(1))], whole(0))

    def counted(self, value: Integers, rows: Integers, most: Integers) -> Integers:
        return (rows > most).astype(np.int64)


@dataclass(frozen=True, slots=True)
class CellRowsOver(Part):
    """Rows of the group over the cap on rows, of each unit up to ``seen_to``."""

    kind: ClassVar[str] = "rows over here"
    reference: ClassVar[float] = 2.0
    seen_to: int

    @property
    def label(self) -> str:
        return f"rows over the cap on rows, in each group, of each unit up to {self.seen_to}"

    @property
    def per_row(self) -> None:
        return None

    def peak(self, caps: Caps) -> int:
        return self.seen_to

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: exp.Expr) -> exp.Expr:
        over = compare(exp.Sub, rows, most)
        far = compare(exp.GT, over, whole(self.seen_to))
        return case([(far, whole(self.seen_to)), (compare(exp.GT, rows, most), over)], whole(0))

    def counted(self, value: Integers, rows: Integers, most: Integers) -> Integers:
        over: Integers = np.clip(rows - most, 0, self.seen_to)
        return over


@dataclass(frozen=True, slots=True)
class UnitsOverCap(Count):
    """Units of a group with more rows in it than count."""

    kind: ClassVar[str] = "units_over_cap"
    by_rows: ClassVar[bool] = False

    def said(self, who: str) -> str:
        return f"number of {plural(who)} with more rows in the group than count there"

    def parts(self) -> tuple[Part, ...]:
        return (CellsOver(),)


@dataclass(frozen=True, slots=True)
class RowsOverCap(Count):
    """Rows of a group that the cap on rows leaves out, of each unit up to ``most``."""

    kind: ClassVar[str] = "rows_over_cap"
    by_rows: ClassVar[bool] = False
    most: int

    def said(self, who: str) -> str:
        return f"number of rows over the limit, at most {self.most:,} counted per {who}"

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        return replace(self, most=check.count("most", self.most, least=1, most=MOST_SEEN))

    def parts(self) -> tuple[Part, ...]:
        return (CellRowsOver(self.most),)

    def span(self, group_size: float) -> float:
        return group_size * self.most

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.total(numbers[CellRowsOver(self.most)])
