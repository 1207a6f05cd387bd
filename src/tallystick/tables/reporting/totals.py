"""Totals of a whole table, of which the numbers that caps leave out are a share: its units and its rows that count.

Each is a number with its own noise (docs/theory/query-removed.md). A part knows its SQL.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sqlglot import exp

from tallystick.tables.capping import ROWS, SIGN, UNIT, most_of
from tallystick.tables.dialects import SATURATED_TOTAL, Tree, Words, case, compare, name, table, whole
from tallystick.tables.parts import WEIGHT_BITS, Caps, OfTable, Rows, SortedCells


@dataclass(frozen=True, slots=True)
class Seen(OfTable):
    """A total of the whole table."""

    @abstractmethod
    def asked(self, words: Words, cells: Tree, signed: bool, caps: Caps) -> exp.Query:
        """Its number in one line; ``cells`` are those that count, with a sign where some are subtracted again."""

    @abstractmethod
    def of_unit(self, words: Words, out: Tree, caps: Caps) -> Tree:
        """Amount that a unit adds to it, from all its cells; ``out`` says of a cell that it does not count."""


@dataclass(frozen=True, slots=True)
class UnitsSeen(Seen):
    """Units with a row in some group, kept or not: each adds 1."""

    kind: ClassVar[str] = "units seen"

    @property
    def label(self) -> str:
        return "units in all"

    def peak(self, caps: Caps) -> int:
        return 1 << WEIGHT_BITS

    def asked(self, words: Words, cells: Tree, signed: bool, caps: Caps) -> exp.Query:
        units = exp.select(name(UNIT)).from_(table("_cells")).group_by(name(UNIT))
        return exp.select(words.sum(whole(self.peak(caps)), SATURATED_TOTAL, self.peak(caps))).from_(
            units.subquery("_u")
        )

    def of_unit(self, words: Words, out: Tree, caps: Caps) -> Tree:
        return whole(self.peak(caps))

    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        return (len(cells.start) << WEIGHT_BITS,)


@dataclass(frozen=True, slots=True)
class RowsCounted(Seen):
    """Rows that count after all caps: of each unit at most K groups with L rows in each, and R rows in all."""

    kind: ClassVar[str] = "rows counted"

    @property
    def label(self) -> str:
        return "rows that count"

    def peak(self, caps: Caps) -> int:
        return caps.most_added(1) << WEIGHT_BITS

    def asked(self, words: Words, cells: Tree, signed: bool, caps: Caps) -> exp.Query:
        counted = self._of_cell(words, caps)
        fine = compare(exp.Mul, counted, name(SIGN)) if signed else counted
        return exp.select(words.sum(fine, SATURATED_TOTAL, self.peak(caps))).from_(cells.copy())

    def of_unit(self, words: Words, out: Tree, caps: Caps) -> Tree:
        counted = case([(out, whole(0))], self._of_cell(words, caps))
        return words.sum(counted, SATURATED_TOTAL, self.peak(caps))

    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        counted = 0
        for rows, most, _ in cells.counted():
            counted += int(Rows().counted(rows, rows, most).sum())
        return (counted << WEIGHT_BITS,)

    def _of_cell(self, words: Words, caps: Caps) -> Tree:
        counted = Rows().contribution(words, name(ROWS), name(ROWS), most_of(caps))
        return compare(exp.Mul, counted, whole(1 << WEIGHT_BITS))


@dataclass(frozen=True, slots=True)
class UnitsBeyond(Seen):
    """Units with more rows in all groups together than count, kept or not: each adds 1."""

    kind: ClassVar[str] = "units beyond"
    cap: int

    @property
    def label(self) -> str:
        return f"units with more than {self.cap} row{'s' * (self.cap > 1)} in all"

    def peak(self, caps: Caps) -> int:
        return 1 << WEIGHT_BITS

    def asked(self, words: Words, cells: Tree, signed: bool, caps: Caps) -> exp.Query:
        more = compare(exp.GT, exp.Sum(this=name(ROWS)), whole(self.cap))
        units = exp.select(name(UNIT)).from_(table("_cells")).group_by(name(UNIT)).having(more)
        added = words.sum(whole(self.peak(caps)), SATURATED_TOTAL, self.peak(caps))
        return exp.select(added).from_(units.subquery("_u"))

    def of_unit(self, words: Words, out: Tree, caps: Caps) -> Tree:
        more = compare(exp.GT, exp.Sum(this=name(ROWS)), whole(self.cap))
        return case([(more, whole(self.peak(caps)))], whole(0))

    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        rows = np.add.reduceat(cells.rows, cells.start) if len(cells.start) else cells.rows
        return (int((rows > self.cap).sum()) << WEIGHT_BITS,)
