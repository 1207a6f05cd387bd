"""The integers a plan asks an engine for: what each is in SQL, and how far one unit can move it.

Every aggregate is made of parts; equal parts of two aggregates are computed, noised and paid once. After capping, one
(unit, group) cell adds a non-negative integer of at most ``peak`` to a part, so with G groups per unit

    L1 = G * levels * peak        L2^2 = G * levels * peak^2

where ``levels`` counts how often the same rows are added up again (the levels of a tree; otherwise 1).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.tables.dialects import SATURATED_CELL, Words, case, compare, fresh, missing, whole

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of the table one unit can touch: at most this many groups, and rows in each.

    >>> Caps(4, 5).groups_moved(Adjacency.REPLACE)
    8
    """

    max_groups: int
    max_rows: int

    def groups_moved(self, adjacency: Adjacency) -> int:
        """Groups in which neighbouring tables can differ: adding a unit touches K, replacing one 2K."""
        return 2 * self.max_groups if adjacency is Adjacency.REPLACE else self.max_groups


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
        """How often one row is counted."""
        return 1

    @property
    def width(self) -> int:
        """How many noisy numbers each group has."""
        return 1

    @property
    def scale(self) -> float:
        """The size of one integer step in the units of the data."""
        return 1.0

    def peak(self, caps: Caps) -> int:
        """The most one (unit, group) cell adds, at one level."""
        return caps.max_rows

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: int) -> exp.Expr:
        """What a cell of ``rows`` rows adds under the cap of ``most``; ``value`` is its number before the cap.

        value * most / rows, rounded down, where there are more rows than that.
        """
        scaled = words.divide(compare(exp.Mul, value, whole(most)), rows)
        return case([(compare(exp.GT, rows, whole(most)), scaled)], value)

    def norm(self, caps: Caps, adjacency: Adjacency, order: int) -> int:
        """The norm of that order of what one unit moves, to the power of that order, in integer steps."""
        return caps.groups_moved(adjacency) * self.levels * int(self.peak(caps) ** order)

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

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: int) -> exp.Expr:
        return case([(compare(exp.GT, rows, whole(most)), whole(most))], rows)


@dataclass(frozen=True, slots=True)
class Units(Part):
    """Units with a row."""

    kind: ClassVar[str] = "units"

    @property
    def label(self) -> str:
        return "units"

    def peak(self, caps: Caps) -> int:
        return 1

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: int) -> exp.Expr:
        return whole(1)


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
        """The integer of a row that is a cell of its own; 0 without a value."""

    @abstractmethod
    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        """The integers of the rows of a cell together."""


@dataclass(frozen=True, slots=True)
class Present(Added):
    """Rows with a value."""

    kind: ClassVar[str] = "present"
    missing: float | None = None

    @property
    def label(self) -> str:
        return f"rows with {self.column}"

    def in_row(self, words: Words, value: exp.Expr) -> exp.Expr:
        return words.cast(case([(missing(value), whole(0))], whole(1)), "integer")

    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        return exp.Count(this=value)


@dataclass(frozen=True, slots=True)
class Gridded(Added):
    """An integer of each value, counted in steps of the grid above its lower end."""

    grid: FixedPoint

    def in_row(self, words: Words, value: exp.Expr) -> exp.Expr:
        return exp.Coalesce(this=self._small(words, value), expressions=[whole(0)])

    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        return words.sum(self._small(words, value), SATURATED_CELL, 1 << STEP_BITS)

    def _small(self, words: Words, value: exp.Expr) -> exp.Expr:
        grid = self.grid
        floor = _steps(words, value, grid.lower, grid.inverse)
        integer = _clamped(words, value, (grid.lower, grid.upper), grid.top, floor)
        # at most 2^24: engines add up 32-bit integers in 64 bits, and 64-bit ones in something slower
        return words.cast(self.of_steps(words, integer), "small")

    def of_steps(self, words: Words, steps: exp.Expr) -> exp.Expr:
        """What a value that many steps above the lower end counts."""
        return steps


@dataclass(frozen=True, slots=True)
class Total(Gridded):
    """Total of the values."""

    kind: ClassVar[str] = "total"
    reference: ClassVar[float] = 2.0

    @property
    def label(self) -> str:
        return f"total of {self.column}"

    def peak(self, caps: Caps) -> int:
        return caps.max_rows * self.grid.top

    @property
    def scale(self) -> float:
        return self.grid.step


@dataclass(frozen=True, slots=True)
class Squares(Gridded):
    """Total of the squares, each divided by a power of two where it would be too large."""

    kind: ClassVar[str] = "squares"
    reference: ClassVar[float] = 3.0

    @property
    def label(self) -> str:
        return f"squares of {self.column}"

    def peak(self, caps: Caps) -> int:
        return caps.max_rows * self.grid.square_top

    @property
    def scale(self) -> float:
        return self.grid.step**2 * 2.0**self.grid.square_shift

    def of_steps(self, words: Words, steps: exp.Expr) -> exp.Expr:
        square, shift = compare(exp.Mul, steps, steps), self.grid.square_shift
        return words.divide(square, whole(1 << shift)) if shift else square


@dataclass(frozen=True, slots=True)
class Fine(Part):
    """Numbers of rows at the weight the cap leaves them, in steps of 2^-8, rounded down."""

    @property
    def scale(self) -> float:
        return 2.0**-WEIGHT_BITS

    def contribution(self, words: Words, value: exp.Expr, rows: exp.Expr, most: int) -> exp.Expr:
        scaled = words.divide(compare(exp.Mul, value, whole(most << WEIGHT_BITS)), rows)
        full = compare(exp.Mul, value, whole(1 << WEIGHT_BITS))
        return case([(compare(exp.GT, rows, whole(most)), scaled)], full)


@dataclass(frozen=True, slots=True)
class Binned(ColumnPart, Fine):
    """Rows in bins: a query of its own."""

    bins: Binning

    def peak(self, caps: Caps) -> int:
        return caps.max_rows << WEIGHT_BITS

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


@dataclass(frozen=True, slots=True)
class OfTable(Fine):
    """Numbers of the whole table: what the caps and bounds of a plan did to its rows.

    A unit adds non-negative integers whose sum is at most ``peak``. A unit more or less moves them by at most that in
    either norm; another one in its place moves one number by at most that, and two of them by twice that, or its
    square (docs/theory/query-removed.md).
    """

    @property
    def told(self) -> tuple[str, ...]:
        """What each number counts, in words."""
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
        return caps.max_groups * caps.max_rows << WEIGHT_BITS

    def in_row(self, words: Words, value: exp.Expr) -> exp.Expr:
        below, above = self._are(words, value)
        return words.cast(case([(below, whole(1)), (above, whole(1 << _PACKED))], whole(0)), "integer")

    def in_cell(self, words: Words, value: exp.Expr) -> exp.Expr:
        below, above = (exp.Count(this=case([(is_, whole(1))], exp.Null())) for is_ in self._are(words, value))
        return compare(exp.Add, below, compare(exp.Mul, above, whole(1 << _PACKED)))

    def unpacked(self, words: Words, value: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """Values below and above in a cell; together no more than its rows, however many there are."""
        return compare(exp.Mod, value, whole(1 << _PACKED)), words.divide(value, whole(1 << _PACKED))

    def _are(self, words: Words, value: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        below = compare(exp.LT, value, words.double(self.lower))
        return below, compare(exp.GT, value, words.double(self.upper))


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


# Public fixed point: how a bounded measure becomes a small non-negative integer, and how values fall into bins.
#
#     q(x) = floor((clamp(x, lower, upper) - lower) / step),   0 <= q(x) <= top
#
# The step is a power of two chosen from the bounds alone, and every operation is one IEEE double operation, so all
# engines compute the same integer. Integer sums are exact and free of order, which float sums are not.

STEP_BITS = 24
"""A measure takes at most 2^24 values; flooring loses at most one step per row."""

LARGEST_BOUND = 1e15
DEFAULT_BINS = 256
MOST_BINS = 4096
WEIGHT_BITS = 8
"""Weights of capped rows in bins are multiples of 2^-8, rounded down."""
_PACKED = 28
"""Two counts of a cell in one integer: engines carry a column less through the cap on groups."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The fixed point of one measure: value = lower + q * 2^exponent.

    >>> FixedPoint.of(0, 110, integer=True)
    FixedPoint(lower=0.0, upper=110.0, exponent=0)
    >>> FixedPoint.of(0.0, 5000.0, integer=False).top <= 2**24
    True
    """

    lower: float
    upper: float
    exponent: int

    @classmethod
    def of(cls, lower: Any, upper: Any, *, integer: bool) -> FixedPoint:
        """The finest allowed grid for these bounds; whole numbers stay whole while there are at most 2^24."""
        low, high = bounds(lower, upper)
        exponent = math.ceil(math.log2(high - low)) - STEP_BITS
        if integer and low == int(low):
            exponent = max(0, exponent)
        grid = cls(low, high, exponent)
        return grid if grid.top <= 1 << STEP_BITS else cls(low, high, exponent + 1)

    @property
    def step(self) -> float:
        """The distance between neighbouring values."""
        return math.ldexp(1.0, self.exponent)

    @property
    def inverse(self) -> float:
        """One over the step, exactly."""
        return math.ldexp(1.0, -self.exponent)

    @property
    def top(self) -> int:
        """The integer of the upper bound: the largest there is. Computed as the engines compute it."""
        return math.floor((self.upper - self.lower) * self.inverse)

    @property
    def square_shift(self) -> int:
        """Squares are divided by 2^this (rounding down) so that they stay below 2^24 too."""
        return max(0, 2 * self.top.bit_length() - STEP_BITS)

    @property
    def square_top(self) -> int:
        """The largest squared integer after that division."""
        return (self.top * self.top) >> self.square_shift


@dataclass(frozen=True, slots=True)
class Binning:
    """Rising public edges; the last bin includes its right edge.

    ``clamp`` puts values outside the edges into the first or last bin; without it they are not counted.
    """

    edges: tuple[float, ...]
    clamp: bool
    whole: bool = False

    @property
    def count(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1

    @property
    def height(self) -> int:
        """Levels of the binary tree over the bins, the leaves included and the root not.

        >>> Binning(tuple(range(9)), clamp=True).height
        3
        """
        return max(1, math.ceil(math.log2(self.count)))


def quantile_bins(lower: Any, upper: Any, *, integer: bool, bins: Any = None) -> Binning:
    """Equal bins for a tree; one per whole number where that is possible.

    >>> quantile_bins(0, 110, integer=True).count, quantile_bins(0, 1, integer=False).count
    (111, 256)
    """
    low, high = bounds(lower, upper)
    if integer and bins is None and low == int(low) and high == int(high) and high - low < 1024:
        return Binning(tuple(float(edge) for edge in range(int(low), int(high) + 2)), clamp=True, whole=True)
    number = check.count("bins", DEFAULT_BINS if bins is None else bins, least=2, most=MOST_BINS)
    width = (high - low) / number
    return Binning((*(low + i * width for i in range(number)), high), clamp=True)


def histogram_bins(edges: Sequence[Any]) -> Binning:
    """Bins with the edges that were given.

    >>> histogram_bins([0, 18, 65, 110]).count
    3
    """
    try:
        steps = tuple(check.finite("edges", edge) for edge in edges)
    except TypeError:
        raise InvalidInput("edges", type(edges).__name__, "rising numbers") from None
    if not 2 <= len(steps) <= MOST_BINS + 1 or not all(a < b for a, b in itertools.pairwise(steps)):
        raise InvalidInput("edges", list(steps[:8]), f"2 to {MOST_BINS + 1} rising numbers")
    if max(abs(steps[0]), abs(steps[-1])) > LARGEST_BOUND:
        raise InvalidInput("edges", (steps[0], steps[-1]), f"numbers up to {LARGEST_BOUND:g}")
    return Binning(steps, clamp=False)


def bounds(lower: Any, upper: Any) -> tuple[float, float]:
    """Two finite public bounds, the first below the second.

    >>> bounds(0, 5000)
    (0.0, 5000.0)
    """
    if lower is None or upper is None:
        raise InvalidInput("bounds", (lower, upper), "lower and upper, or declare them with table.bounds(...)")
    low, high = check.finite("lower", lower), check.finite("upper", upper)
    if not low < high:
        raise InvalidInput("bounds", (low, high), "a lower bound below the upper bound")
    if max(abs(low), abs(high)) > LARGEST_BOUND:
        raise InvalidInput("bounds", (low, high), f"bounds up to {LARGEST_BOUND:g}")
    if high - low < 1e-9 * max(1.0, abs(low), abs(high)):
        raise InvalidInput("bounds", (low, high), "bounds further apart")
    return low, high
