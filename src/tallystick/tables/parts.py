"""The integers a plan asks an engine for: what each is in SQL, and how far one unit can move it.

Every aggregate is made of parts; equal parts of two aggregates are computed, noised and paid once. After capping, one
(unit, group) cell adds a non-negative integer of at most ``peak`` to a part, so with G groups per unit

    L1 = G * levels * peak        L2^2 = G * levels * peak^2

where ``levels`` counts how often the same rows are added up again (the levels of a tree; otherwise 1). A limit on the
rows of a unit in all makes both smaller for parts that count rows: see ``Caps.most_added``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from tallystick.accounting.adjacency import Adjacency
from tallystick.tables.dialects import SATURATED_CELL, Words, case, compare, fresh, missing, whole
from tallystick.tables.fixed_point import STEP_BITS, Binning, FixedPoint

Integers = NDArray[np.int64]
MOST_NUMBERS = 2_000_000
"""A release has at most this many noisy numbers; they are kept in the ledger."""

WEIGHT_BITS = 16
"""Rows within the limits are counted in steps of up to 2^-16, rounded down: a cell of 2^36 rows still fits."""

_PACKED = 28
"""Two counts of a cell in one integer: engines carry a column less through the limit on groups."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Part of the table that one unit can touch: at most this many groups, and rows in each."""

    max_groups: int
    max_rows: int
    """Rows in each group."""
    in_all: int | None = None
    """Rows in all groups together; None if the other two limits allow no more than that."""

    @property
    def cuts_first(self) -> bool:
        """True if L limits the rows of a group before R does: where L is R, no group has more of the R rows anyway."""
        return self.in_all is not None and self.max_rows < self.in_all

    def most_added(self, order: int) -> int:
        """Return the largest sum of l^order over the groups of a unit, if l rows count in a group.

        At most K groups have l >= 1, every l is at most L, and their sum is at most R. The sum of powers is convex, so
        it is largest where as many l as possible are L, and one more is the rest (docs/theory/query-rows-in-all.md).

        >>> Caps(4, 5).most_added(2), Caps(4, 5, in_all=12).most_added(2), Caps(4, 5, in_all=12).most_added(1)
        (100, 54, 12)
        """
        in_one = int(self.max_rows**order)
        if self.in_all is None:
            return self.max_groups * in_one
        full, rest = divmod(self.in_all, self.max_rows)
        if full >= self.max_groups:
            return self.max_groups * in_one
        return full * in_one + int(rest**order)


@dataclass(frozen=True, slots=True)
class Part(ABC):
    """One family of integers per group. ``kind`` is its name for people and tests."""

    kind: ClassVar[str]
    reference: ClassVar[float] = 1.0
    """Peak over typical value, with values spread evenly over the declared range."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A short name for people."""

    @property
    def levels(self) -> int:
        """Number of times that one row is counted."""
        return 1

    @property
    def width(self) -> int:
        """Number of noisy numbers of each group."""
        return 1

    @property
    def weight_bits(self) -> int:
        """By how many bits it is finer than the numbers of its cells: otherwise rounding would eat small weights."""
        return 0

    @property
    def scale(self) -> float:
        """The size of one integer step in the units of the data."""
        return 2.0**-self.weight_bits

    @property
    def per_row(self) -> int | None:
        """The most one row adds to its cell, at one level; None if a cell adds as much for any number of rows."""
        return 1 << self.weight_bits

    def peak(self, caps: Caps) -> int:
        """The most one (unit, group) cell adds, at one level."""
        assert self.per_row is not None
        return caps.max_rows * self.per_row

    def peak_of(self, most: Integers, caps: Caps) -> Integers:
        """The most that cells add of which ``most`` rows count."""
        if self.per_row is None:
            return np.full_like(most, self.peak(caps))
        return most * self.per_row

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: exp.Expr) -> exp.Expr:
        """Amount that a cell of ``rows`` rows adds if ``most`` of them count; ``value`` is its number before the cap.

        value * most / rows, rounded down to a step, where there are more rows than that.
        """
        scaled = words.divide(compare(exp.Mul, value, shifted(most, self.weight_bits)), rows)
        full = compare(exp.Mul, value, whole(1 << self.weight_bits)) if self.weight_bits else value
        return case([(compare(exp.GT, rows, most), scaled)], full)

    def counted(self, value: Integers, rows: Integers, most: Integers) -> Integers:
        """Amounts that many cells add, outside of SQL."""
        full = value << self.weight_bits
        over = rows > most
        full[over] = value[over] * (most[over] << self.weight_bits) // rows[over]
        return full

    def norm(self, caps: Caps, adjacency: Adjacency, order: int) -> int:
        """The norm of that order of what one unit moves, to the power of that order, in integer steps.

        Replacing a unit moves what the old one and the new one add, at most twice as much to that power.
        """
        units = 2 if adjacency is Adjacency.REPLACE else 1
        if self.per_row is None:  # a number of cells, which the limit on rows in all does not change
            return units * self.levels * caps.max_groups * int(self.peak(caps) ** order)
        return units * self.levels * caps.most_added(order) * int(self.per_row**order)

    def l1(self, caps: Caps, adjacency: Adjacency) -> int:
        """L1 sensitivity in integer steps."""
        return self.norm(caps, adjacency, 1)

    def l2_squared(self, caps: Caps, adjacency: Adjacency) -> int:
        """Squared L2 sensitivity in integer steps: of a row count K L^2, of a tree of height h K h L^2.

        >>> Rows().l2_squared(Caps(4, 5), Adjacency.ADD_REMOVE)
        100
        """
        return self.norm(caps, adjacency, 2)


@dataclass(frozen=True, slots=True)
class Rows(Part):
    """Rows."""

    kind: ClassVar[str] = "rows"

    @property
    def label(self) -> str:
        return "rows"

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: exp.Expr) -> exp.Expr:
        return case([(compare(exp.GT, rows, most), most)], rows)

    def counted(self, value: Integers, rows: Integers, most: Integers) -> Integers:
        return np.minimum(rows, most)


@dataclass(frozen=True, slots=True)
class Units(Part):
    """Units with a row."""

    kind: ClassVar[str] = "units"

    @property
    def label(self) -> str:
        return "units"

    @property
    def per_row(self) -> None:
        return None

    def peak(self, caps: Caps) -> int:
        return 1

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: exp.Expr) -> exp.Expr:
        return whole(1)

    def counted(self, value: Integers, rows: Integers, most: Integers) -> Integers:
        return np.ones_like(rows)


UNITS = Units()


@dataclass(frozen=True, slots=True)
class ColumnPart(Part):
    """A part made of the values of one column; ``missing`` stands in for absent ones, None leaves them out."""

    column: str
    missing: float | None


@dataclass(frozen=True, slots=True)
class Added(ColumnPart):
    """A number of each row, added up in every cell before the cap."""

    @abstractmethod
    def in_row(self, words: Words, value: exp.Expr) -> exp.Expr:
        """The integer of a row that is a cell by itself; 0 without a value."""

    @abstractmethod
    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        """The integers of the rows of a cell together."""

    @abstractmethod
    def in_word(self, words: Words, value: exp.Expr) -> tuple[tuple[exp.Expr, int], ...]:
        """Integer of a row as numbers of so many bits, to be added up one by one."""

    def of_sums(self, sums: Sequence[Integers]) -> Integers:
        """Result of ``in_cell``, from the sums of these numbers over the rows of every cell."""
        return sums[0]


@dataclass(frozen=True, slots=True)
class Present(Added):
    """Rows with a value, at the weight the cap leaves them."""

    kind: ClassVar[str] = "present"
    missing: float | None = None

    @property
    def weight_bits(self) -> int:
        return WEIGHT_BITS

    @property
    def label(self) -> str:
        return f"rows with {self.column}"

    def in_row(self, words: Words, value: exp.Expr) -> exp.Expr:
        return words.cast(case([(missing(value), whole(0))], whole(1)), "integer")

    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        return exp.Count(this=value)

    def in_word(self, words: Words, value: exp.Expr) -> tuple[tuple[exp.Expr, int], ...]:
        return ((self.in_row(words, value), 1),)


@dataclass(frozen=True, slots=True)
class Gridded(Added):
    """An integer of each value, counted in steps of the grid above its lower end."""

    grid: FixedPoint

    @property
    @abstractmethod
    def most(self) -> int:
        """The largest integer of a value."""

    @property
    def weight_bits(self) -> int:
        """As many as fit where values are few: a whole number from 0 to 1 has no other steps to be weighted in."""
        return max(0, min(WEIGHT_BITS, STEP_BITS - self.most.bit_length()))

    @property
    def per_row(self) -> int:
        return self.most << self.weight_bits

    def in_row(self, words: Words, value: exp.Expr) -> exp.Expr:
        return exp.Coalesce(this=self._small(words, value), expressions=[whole(0)])

    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        return words.sum(self._small(words, value), SATURATED_CELL >> self.weight_bits, 1 << STEP_BITS)

    def in_word(self, words: Words, value: exp.Expr) -> tuple[tuple[exp.Expr, int], ...]:
        return ((words.cast(self.in_row(words, value), "integer"), self.most.bit_length()),)

    def of_sums(self, sums: Sequence[Integers]) -> Integers:
        return np.minimum(sums[0], SATURATED_CELL >> self.weight_bits)

    def _small(self, words: Words, value: exp.Expr) -> exp.Expr:
        grid = self.grid
        floor = _steps(words, value, grid.lower, grid.inverse)
        integer = _clamped(words, value, (grid.lower, grid.upper), grid.top, floor)
        # at most 2^24: engines add up 32-bit integers in 64 bits, and 64-bit ones in something slower
        return words.cast(self.of_steps(words, integer), "small")

    def of_steps(self, words: Words, steps: exp.Expr) -> exp.Expr:
        """Amount that a value counts, that many steps above the lower end."""
        return steps


@dataclass(frozen=True, slots=True)
class Total(Gridded):
    """Total of the values."""

    kind: ClassVar[str] = "total"
    reference: ClassVar[float] = 2.0

    @property
    def label(self) -> str:
        return f"total of {self.column}"

    @property
    def most(self) -> int:
        return self.grid.top

    @property
    def scale(self) -> float:
        return self.grid.step * 2.0**-self.weight_bits


@dataclass(frozen=True, slots=True)
class Squares(Gridded):
    """Total of the squares, each divided by a power of two where it would be too large."""

    kind: ClassVar[str] = "squares"
    reference: ClassVar[float] = 3.0

    @property
    def label(self) -> str:
        return f"squares of {self.column}"

    @property
    def most(self) -> int:
        return self.grid.square_top

    @property
    def scale(self) -> float:
        return self.grid.step**2 * 2.0 ** (self.grid.square_shift - self.weight_bits)

    def of_steps(self, words: Words, steps: exp.Expr) -> exp.Expr:
        square, shift = compare(exp.Mul, steps, steps), self.grid.square_shift
        return words.divide(square, whole(1 << shift)) if shift else square


@dataclass(frozen=True, slots=True)
class Fine(Part):
    """Numbers of rows at the weight the cap leaves them, in steps of 2^-16, rounded down."""

    @property
    def weight_bits(self) -> int:
        return WEIGHT_BITS


@dataclass(frozen=True, slots=True)
class Binned(ColumnPart, Fine):
    """Rows in bins: a separate query."""

    bins: Binning

    def bin_of(self, words: Words, value: exp.Expr) -> exp.Expr:
        """The bin of a row, or NULL where it is in none."""
        bins, last = self.bins, self.bins.count - 1
        if not bins.clamp:
            branches: list[tuple[exp.Expr, exp.Expr]] = [
                (missing(value), exp.Null()),
                (compare(exp.LT, value, words.double(bins.edges[0])), exp.Null()),
                (compare(exp.GT, value, words.double(bins.edges[-1])), exp.Null()),
            ]
            branches += [
                (compare(exp.LT, value, words.double(edge)), whole(i)) for i, edge in enumerate(bins.edges[1:-1])
            ]
            return words.cast(case(branches, whole(last)), "integer")
        lower, upper = bins.edges[0], bins.edges[-2 if bins.whole else -1]
        floor = _steps(words, value, lower, 1.0 if bins.whole else bins.count / (upper - lower))
        inside = case([(compare(exp.GT, floor, whole(last)), whole(last))], fresh(floor))
        return _clamped(words, value, (lower, upper), last, inside)

    def numbers(self, leaves: Integers) -> Integers:
        """All integers of each group, from those of its bins."""
        return leaves


@dataclass(frozen=True, slots=True)
class Bins(Binned):
    """Rows per bin."""

    kind: ClassVar[str] = "bins"

    @property
    def label(self) -> str:
        return f"{self.bins.count} bins of {self.column}"

    @property
    def width(self) -> int:
        return self.bins.count


@dataclass(frozen=True, slots=True)
class Tree(Binned):
    """Rows per node of a binary tree over the bins."""

    kind: ClassVar[str] = "tree"

    @property
    def label(self) -> str:
        return f"tree of {self.bins.height} levels over {self.column}"

    @property
    def levels(self) -> int:
        return self.bins.height

    @property
    def width(self) -> int:
        return sum(level_sizes(self.bins.height))

    def numbers(self, leaves: Integers) -> Integers:
        return stack(leaves, self.bins.height)


class SortedCells(Protocol):
    """The cells of a table as arrays, those of one unit beside each other."""

    @property
    def caps(self) -> Caps:
        """Limits on how much of a unit counts."""

    @property
    def rows(self) -> Integers:
        """The rows of every cell."""

    @property
    def most(self) -> Integers:
        """The number of rows of every cell that count, at most; of cells that are left out it says nothing."""

    @property
    def start(self) -> Integers:
        """The first cell of every unit."""

    @property
    def out(self) -> NDArray[np.bool_]:
        """True for a cell that the cap on groups leaves out."""

    def units(self, places: NDArray[np.intp]) -> Integers:
        """The units of some cells, as numbers in order."""

    def counted(self, part: Added | None = None) -> Iterator[tuple[Integers, Integers, list[Integers]]]:
        """The rows of cells that count, how many of them count, and what these add to a part; some cells at a time."""


@dataclass(frozen=True, slots=True)
class OfTable(Fine):
    """Numbers of the whole table: what the caps and bounds of a plan did to its rows.

    A unit adds non-negative integers whose sum is at most ``peak``. A unit more or less moves them by at most that in
    either norm; another one in its place moves one number by at most that, and two of them by twice that, or its
    square (docs/theory/query-removed.md). That bounds cells, which all belong to a unit: a number of rows that belong
    to none is not bounded by ``peak``, and must not be one of these.
    """

    @abstractmethod
    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        """Return its numbers from sorted cells: those of its SQL, before they are cut off at the largest total."""

    @property
    def told(self) -> tuple[str, ...]:
        """Words for what each number counts."""
        return (self.label,)

    def norm(self, caps: Caps, adjacency: Adjacency, order: int) -> int:
        return int(self.peak(caps) ** order) * (min(2, self.width) if adjacency is Adjacency.REPLACE else 1)


@dataclass(frozen=True, slots=True)
class UnitsOver(OfTable):
    """Units with more groups, or more rows in some group, than count."""

    kind: ClassVar[str] = "units over"
    cap: int
    groups: bool

    @property
    def label(self) -> str:
        plural, where = "s" * (self.cap > 1), "" if self.groups else " in a group"
        return f"units with more than {self.cap} {'group' if self.groups else 'row'}{plural}{where}"

    def peak(self, caps: Caps) -> int:
        return 1 << WEIGHT_BITS

    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        is_over = cells.out if self.groups else cells.rows > cells.caps.max_rows
        units = cells.units(np.flatnonzero(is_over))
        return (len(_first_cells(units)) << WEIGHT_BITS,)


@dataclass(frozen=True, slots=True)
class RowsOver(OfTable):
    """Rows that the caps leave out, of each unit up to ``seen_to``."""

    kind: ClassVar[str] = "rows over"
    reference: ClassVar[float] = 2.0
    seen_to: int

    @property
    def label(self) -> str:
        return f"rows over the caps, of each unit up to {self.seen_to}"

    def peak(self, caps: Caps) -> int:
        return self.seen_to << WEIGHT_BITS

    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        touched = np.flatnonzero(cells.out | (cells.rows > cells.most))
        if not len(touched):
            return (0,)
        rows = cells.rows[touched]
        lost = np.where(cells.out[touched], rows, rows - cells.most[touched])
        lost_by_unit = np.add.reduceat(lost, _first_cells(cells.units(touched)))
        return (int(np.minimum(lost_by_unit, self.seen_to).sum()) << WEIGHT_BITS,)


def _first_cells(units: Integers) -> NDArray[np.intp]:
    """Return the places at which another unit begins, among units in order."""
    return np.flatnonzero(np.diff(units, prepend=-1))


@dataclass(frozen=True, slots=True)
class Outside(Added, OfTable):
    """Counted rows with a value below, and those with one above the bounds; capped cells weigh as in a histogram."""

    kind: ClassVar[str] = "outside"
    lower: float
    upper: float

    @property
    def label(self) -> str:
        return f"values of {self.column} beyond {self.lower:g} and {self.upper:g}"

    @property
    def told(self) -> tuple[str, ...]:
        return f"values of {self.column} below {self.lower:g}", f"values of {self.column} above {self.upper:g}"

    @property
    def width(self) -> int:
        return 2

    def peak(self, caps: Caps) -> int:
        return caps.most_added(1) << WEIGHT_BITS

    def in_row(self, words: Words, value: exp.Expr) -> exp.Expr:
        below, above = self._are(words, value)
        return words.cast(case([(below, whole(1)), (above, whole(1 << _PACKED))], whole(0)), "integer")

    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        below, above = (exp.Count(this=case([(is_, whole(1))], exp.Null())) for is_ in self._are(words, value))
        return compare(exp.Add, below, compare(exp.Mul, above, whole(1 << _PACKED)))

    def in_word(self, words: Words, value: exp.Expr) -> tuple[tuple[exp.Expr, int], ...]:
        one, none = whole(1), whole(0)
        return tuple((words.cast(case([(is_, one)], none), "integer"), 1) for is_ in self._are(words, value))

    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        ends = [0] * self.width
        for rows, most, sums in cells.counted(self):
            for end, values in enumerate(sums):
                if values.any():
                    ends[end] += int(self.counted(values, rows, most).sum())
        return ends

    def unpacked(self, words: Words, value: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """Values below and above in a cell; together no more than its rows, however many there are."""
        return compare(exp.Mod, value, whole(1 << _PACKED)), words.divide(value, whole(1 << _PACKED))

    def _are(self, words: Words, value: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        below = compare(exp.LT, value, words.double(self.lower))
        return below, compare(exp.GT, value, words.double(self.upper))


def shifted(number: exp.Expr, bits: int) -> exp.Expr:
    """A whole number times 2^bits."""
    if isinstance(number, exp.Literal):
        return whole(int(number.this) << bits)
    return compare(exp.Mul, number, whole(1 << bits)) if bits else number


def level_sizes(height: int) -> list[int]:
    """Nodes per level of a binary tree without its root, from the top: 2, 4, ..., 2^height.

    >>> level_sizes(3)
    [2, 4, 8]
    """
    return [1 << level for level in range(1, height + 1)]


def stack(leaves: Integers, height: int) -> Integers:
    """All levels of the tree above the leaf counts of each group, from the top, side by side.

    >>> stack(np.array([[1, 2, 3]]), 2).tolist()
    [[3, 3, 1, 2, 3, 0]]
    """
    groups, count = leaves.shape
    level = np.zeros((groups, 1 << height), dtype=np.int64)
    level[:, :count] = leaves
    levels = [level]
    while levels[0].shape[1] > 2:
        below = levels[0]
        levels.insert(0, below[:, 0::2] + below[:, 1::2])
    return np.concatenate(levels, axis=1)


def _steps(words: Words, value: exp.Expr, lower: float, per_unit: float) -> exp.Expr:
    """floor((value - lower) * per_unit) as an integer."""
    shifted = compare(exp.Sub, value, words.double(lower))
    scaled = compare(exp.Mul, shifted, words.double(per_unit))
    return words.cast(exp.Anonymous(this="FLOOR", expressions=[scaled]), "integer")


def _clamped(words: Words, value: exp.Expr, ends: tuple[float, float], last: int, inside: exp.Expr) -> exp.Expr:
    """0 up to the first end, ``last`` from the second one, and ``inside`` between them."""
    return case(
        [
            (missing(value), exp.Null()),
            (compare(exp.LTE, value, words.double(ends[0])), words.cast(whole(0), "integer")),
            (compare(exp.GTE, value, words.double(ends[1])), words.cast(whole(last), "integer")),
        ],
        inside,
    )
