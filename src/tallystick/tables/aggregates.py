"""The aggregates of a group. Each names its parts and reads its value back from their noisy integers.

A measure registers its kind by being defined, and the function that makes it is a word of the command line under
``word``. Adding one is a new file and its name in ``tables/measures.py`` and ``tallystick/__init__.py``;
``tests/contracts/test_adding_an_aggregate.py`` does it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from tallystick.accounting import check
from tallystick.digits import plural, typed
from tallystick.errors import InvalidInput, Refused, Remedy
from tallystick.inference import means
from tallystick.inference.linear import tree_leaves
from tallystick.inference.noise import Floats
from tallystick.inference.released import Answer
from tallystick.tables.answers import Cell, Spread, TreeQuantile
from tallystick.tables.estimates import (
    Estimate,
    Noisy,
    plain,
    quantile_positions,
    ratio,
    shifted_total,
)
from tallystick.tables.fixed_point import FixedPoint, bounds, histogram_bins, quantile_bins
from tallystick.tables.parts import Bins, Outside, Part, Present, Rows, Squares, Total, Tree, Units, level_sizes
from tallystick.tables.schema import Schema

Numbers = Mapping[Part, Noisy]
Bounds = Mapping[str, tuple[float, float]]


KINDS: dict[str, type[Measure]] = {}
"""Every measure that was defined, by its kind; ``tables.measures`` sees to it that all are."""

WORDS: dict[str, Callable[..., Measure]] = {}
"""What makes a measure, by its word on the command line."""

Maker = TypeVar("Maker", bound=Callable[..., "Measure"])


def word(function: Maker) -> Maker:
    """Make a function that returns a measure a word of the command line: a column first, then numbers."""
    WORDS[function.__name__] = function
    return function


class Measure(ABC):
    """One aggregate of a group. Built by ``ts.count``, ``ts.sum`` and their like; subclasses are frozen dataclasses."""

    __slots__ = ()
    kind: ClassVar[str]
    """Its name in JSON."""
    error_needs_size: ClassVar[bool] = True
    """Whether the size of the group must be assumed to predict the error."""
    assumed: ClassVar[str] = ""
    """What the predicted error assumes of the values, beside the size of the group."""
    moved_by_clamping: ClassVar[bool] = False
    """Whether a single value far beyond the bounds would move it; quantiles and bins stay where they are."""
    stays_in_bounds: ClassVar[bool] = False
    """True if the value lies in the bounds of its column, so that an interval can be most of them."""
    counts: ClassVar[bool] = False
    """True if its columns are numbers of rows or people. A reader sees their intervals cut at 0."""
    limited: ClassVar[str] = ""
    """What limits per person change in its columns: rows, sums or people, or its plural if rows have weights."""
    by_rows: ClassVar[bool] = True
    """True if the rows of a unit count, up to the limit; False if only the unit itself does."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in vars(cls):
            return  # what several measures share
        # A dataclass with slots is defined twice, under one name.
        known = KINDS.setdefault(cls.kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"two measures of kind {cls.kind}: {known.__qualname__} and {cls.__qualname__}")
        KINDS[cls.kind] = cls

    @property
    def never_negative(self) -> bool:
        """True if the true value is never negative, so that a negative release is due to noise only."""
        return False

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The integer families it needs; known once ``bound``."""

    @property
    def outside(self) -> Outside | None:
        """The counts of values beyond its bounds, which are clamped or left out."""
        return None

    @abstractmethod
    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        """Its column or columns."""

    def published(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        """Its column or columns as a table has them. NaN is "no value": the noise hides it."""
        return self.read(numbers, confidence)

    @abstractmethod
    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        """Predicted half-width for a group with that many rows; ``numbers`` carry laws only."""

    def deviation(self, numbers: Numbers) -> float | None:
        """Standard deviation of the noise of its columns; None if that depends on the numbers of the group."""
        return None

    def span(self, group_size: float) -> float:
        """Width of the numbers that it can be in a group with that many rows, or people; infinite if not known."""
        return math.inf

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        """One of its cells with both intervals of ``ts.inference``, where those are known."""
        raise Refused(f"a {self.kind} alone has no answer. Try: the measures of ts, sums from 0")

    def said(self, who: str) -> str:
        """Return what it is and what is done to its values; ``who`` is the word for one person."""
        return self.kind.replace("_", " ")

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        """Return the measure with bounds, and the type of its column checked."""
        return self

    def fields(self, name: str) -> tuple[str, ...]:
        """The names of its columns."""
        return (name,)

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        fields = asdict(self)  # type: ignore[call-overload]
        return {"kind": self.kind, **{key: value for key, value in fields.items() if value is not None}}

    @classmethod
    def from_data(cls, values: Mapping[str, Any]) -> Measure:
        """The measure of this kind with these fields."""
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Count(Measure):
    """Rows."""

    kind: ClassVar[str] = "count"
    limited: ClassVar[str] = "rows"
    counts: ClassVar[bool] = True
    error_needs_size: ClassVar[bool] = False
    says_limited: bool | None = field(default=None, kw_only=True)
    """True if its column says in its name that limits per person touch it; None if the name says nothing of limits."""

    @property
    def never_negative(self) -> bool:
        return True

    def under(self, *, is_limited: bool) -> Count:
        """Return the measure in a question whose limits per person can, or cannot, touch its column."""
        return self if self.says_limited is None else replace(self, says_limited=is_limited)

    def fields(self, name: str) -> tuple[str, ...]:
        return (f"{name}_limited",) if self.says_limited else (name,)

    def said(self, who: str) -> str:
        return f"number of rows, up to the limits per {who}" if self.says_limited else "number of rows"

    def parts(self) -> tuple[Part, ...]:
        return (Rows(),)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        return (plain(numbers[self.parts()[0]], confidence),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        return numbers[self.parts()[0]].half_width(1.0 - confidence)

    def span(self, group_size: float) -> float:
        return group_size

    def deviation(self, numbers: Numbers) -> float | None:
        return numbers[self.parts()[0]].deviation

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.count(numbers[self.parts()[0]])


@dataclass(frozen=True, slots=True)
class CountUnits(Count):
    """Units with at least one row."""

    kind: ClassVar[str] = "count_units"
    limited: ClassVar[str] = "people"
    by_rows: ClassVar[bool] = False

    def said(self, who: str) -> str:
        number = f"number of {plural(who)} with at least one row, each counted once in a group"
        return f"{number} and up to the limit on groups" if self.says_limited else number

    def parts(self) -> tuple[Part, ...]:
        return (Units(),)

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.compared(numbers[Units()])


@dataclass(frozen=True, slots=True)
class ColumnMeasure(Measure):
    """A measure of one bounded numeric column. ``missing`` stands in for absent values; None leaves them out."""

    column: str
    lower: float | None = None
    upper: float | None = None
    missing: float | None = None
    whole: bool | None = None

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        own = (self.lower, self.upper)
        kind = schema.numeric(self.column, self.kind, is_bounded=own != (None, None))
        given = own if own != (None, None) else declared.get(self.column, own)
        if given == (None, None):
            raise InvalidInput(
                f"bounds of {self.column}",
                None,
                "",
                code="no_bounds",
                remedies=[Remedy("declare_bounds", column=self.column, lower=0, upper=100)],
                problem=f"{self.column} has no public bounds",
            )
        low, high = bounds(*given)
        if self.missing is not None and not low <= check.finite("missing", self.missing) <= high:
            raise InvalidInput("missing", self.missing, f"None, or a value from {low:g} to {high:g}")
        return replace(self, lower=low, upper=high, whole=kind == "integer")

    def span(self, group_size: float) -> float:
        low, high = self.limits
        return high - low

    def said(self, who: str) -> str:
        low, high = (typed(end) for end in self.limits)
        empty = "skipped" if self.missing is None else f"counted as {typed(self.missing)}"
        return f"{self.named}; values below {low} count as {low}, above {high} as {high}; missing values are {empty}"

    @property
    def named(self) -> str:
        """Words for the measure where nothing is done to its values."""
        return f"{self.called} of {self.column}"

    @property
    def called(self) -> str:
        """Name that stands before "of" its column."""
        return {"sum": "total"}.get(self.kind, self.kind)

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds, once bound."""
        return bounds(self.lower, self.upper)

    @property
    def outside(self) -> Outside | None:
        return Outside(self.column, self.missing, *self.limits)

    @property
    def grid(self) -> FixedPoint:
        """The fixed point of the column."""
        low, high = self.limits
        return FixedPoint.of(low, high, integer=bool(self.whole))

    @property
    def total(self) -> Part:
        """Total of shifted values."""
        return Total(self.column, self.missing, self.grid)

    @property
    def squares(self) -> Part:
        """Total of squared shifted values."""
        return Squares(self.column, self.missing, self.grid)

    @property
    def present(self) -> Part:
        """Rows that have a value: all of them where a missing value has a stand-in."""
        return Rows() if self.missing is not None else Present(self.column)


MIDDLE: Final = "values with a mean in the middle of the bounds"
"""Assumption of the error of a ratio. A mean at the upper bound has an error up to twice as large."""


@dataclass(frozen=True, slots=True)
class Sum(ColumnMeasure):
    """Total of a clamped column."""

    kind: ClassVar[str] = "sum"
    limited: ClassVar[str] = "sums"
    moved_by_clamping: ClassVar[bool] = True
    error_needs_size: ClassVar[bool] = False

    @property
    def never_negative(self) -> bool:
        return self.limits[0] >= 0

    def parts(self) -> tuple[Part, ...]:
        return (self.total,) if self.limits[0] == 0.0 else (self.total, self.present)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        if self.limits[0] == 0.0:
            found = plain(numbers[self.total], confidence)
        else:
            found = shifted_total(numbers[self.total], numbers[self.present], self.limits[0], confidence)
        return (found.whole() if self.whole else found,)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        total = numbers[self.total]
        if self.limits[0] == 0.0:
            return total.half_width(1.0 - confidence)
        return total.law.deviations(confidence) * self.deviation(numbers)

    def deviation(self, numbers: Numbers) -> float:
        total = numbers[self.total].deviation
        if self.limits[0] == 0.0:
            return total
        return math.hypot(total, self.limits[0] * numbers[self.present].deviation)

    def span(self, group_size: float) -> float:
        low, high = self.limits
        return group_size * (high - low)

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.total(numbers[self.total]) if self.limits[0] == 0.0 else ColumnMeasure.answer(self, numbers, cell)


@dataclass(frozen=True, slots=True)
class Mean(ColumnMeasure):
    """Noisy total over noisy count."""

    kind: ClassVar[str] = "mean"
    assumed: ClassVar[str] = MIDDLE
    limited: ClassVar[str] = "means"
    moved_by_clamping: ClassVar[bool] = True
    stays_in_bounds: ClassVar[bool] = True

    def parts(self) -> tuple[Part, ...]:
        return (self.total, self.present)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        low, high = self.limits
        estimate = ratio(numbers[self.total], numbers[self.present], high - low, confidence)
        return (estimate.map(lambda end: low + end),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        low, high = self.limits
        total, present = numbers[self.total], numbers[self.present]
        spread = math.hypot(total.deviation, 0.5 * (high - low) * present.deviation)
        return min(high - low, total.law.deviations(confidence) * spread / group_size)

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        total, count = cell.total(numbers[self.total]), cell.total(numbers[self.present])
        return means.Mean(
            total, count, self.limits, origin=self.limits[0], about=cell.about, rows_per_unit=cell.rows_per_unit
        )


@dataclass(frozen=True, slots=True)
class Variance(ColumnMeasure):
    """Mean of squares less square of the mean; ``root`` gives the standard deviation."""

    kind: ClassVar[str] = "variance"
    assumed: ClassVar[str] = MIDDLE
    limited: ClassVar[str] = "variances"
    moved_by_clamping: ClassVar[bool] = True
    root: bool | None = None

    @property
    def called(self) -> str:
        return "standard deviation" if self.root else "variance"

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        if self.root not in (None, True):
            raise InvalidInput("root", self.root, "true, or nothing")
        return ColumnMeasure.bound(self, schema, declared)

    def parts(self) -> tuple[Part, ...]:
        return (self.total, self.squares, self.present)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        low, high = self.limits
        reach = high - low
        # Each of the two ratios misses with at most half the probability, so both hold together.
        sure = (1.0 + confidence) / 2.0
        mean = ratio(numbers[self.total], numbers[self.present], reach, sure)
        square = ratio(numbers[self.squares], numbers[self.present], reach**2, sure)
        estimate = Estimate(
            square.value - mean.value**2, square.lower - mean.upper**2, square.upper - mean.lower**2
        ).clipped(0.0, reach**2 / 4.0)
        if self.root:
            estimate = estimate.map(np.sqrt)
        return (estimate,)

    def span(self, group_size: float) -> float:
        reach = self.limits[1] - self.limits[0]
        return reach / 2.0 if self.root else reach**2 / 4.0

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        reach = self.limits[1] - self.limits[0]
        total, squares, count = (cell.total(numbers[part]) for part in self.parts())
        mean = means.Mean(total, count, (0.0, reach), about=cell.about, rows_per_unit=cell.rows_per_unit)
        square = means.Mean(squares, count, (0.0, reach**2), about=cell.about, rows_per_unit=cell.rows_per_unit)
        return Spread(mean, square, bool(self.root), f"{cell.about} clamped to [{self.lower:g}, {self.upper:g}]")

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        low, high = self.limits
        reach = high - low
        total, squares, present = (numbers[part] for part in self.parts())
        spread = math.hypot(squares.deviation, reach * total.deviation, reach**2 / 4.0 * present.deviation)
        variance = total.law.deviations(confidence) * spread / group_size
        half = min(reach**2 / 4.0, variance)
        return half / (2.0 * reach / math.sqrt(12.0)) if self.root else half


@dataclass(frozen=True, slots=True)
class Quantile(ColumnMeasure):
    """A quantile from a noisy tree; several quantiles of one column share the tree."""

    kind: ClassVar[str] = "quantile"
    assumed: ClassVar[str] = "values spread evenly between the bounds"
    limited: ClassVar[str] = "quantiles"
    stays_in_bounds: ClassVar[bool] = True
    p: float = 0.5
    bins: int | None = None

    @property
    def called(self) -> str:
        return "median" if self.p == 0.5 else f"{self.p:g}-quantile"

    @property
    def tree(self) -> Tree:
        """The tree of the column."""
        low, high = self.limits
        cut = quantile_bins(low, high, integer=bool(self.whole), bins=self.bins)
        return Tree(self.column, self.missing, cut)

    def parts(self) -> tuple[Part, ...]:
        return (self.tree,)

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        bound = ColumnMeasure.bound(self, schema, declared)
        check.probability("p", self.p)
        quantile_bins(0, 1, integer=False, bins=self.bins)
        return bound

    def _margin(self, noisy: Noisy, confidence: float) -> float:
        height = self.tree.levels
        share = math.hypot(self.p, 1.0 - self.p)
        return noisy.law.deviations(confidence) * noisy.deviation * math.sqrt(height) * share

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        noisy = numbers[self.tree]
        return (self._within(self._leaves(noisy.table), self._margin(noisy, confidence)),)

    def published(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        (estimate,) = self.read(numbers, confidence)
        return (estimate.unless_hidden(*self.limits),)

    def _leaves(self, nodes: Floats) -> Floats:
        cut = self.tree.bins
        ends = np.cumsum(level_sizes(cut.height))[:-1]
        return tree_leaves(np.split(nodes, ends, axis=1))[:, : cut.count]

    def _within(self, leaves: Floats, margin: float) -> Estimate:
        """The quantile of each group, and what a margin of rows leaves open."""
        edges = np.array(self.tree.bins.edges)
        at, first, last = quantile_positions(leaves, self.p, margin)
        if self.tree.bins.whole:
            return Estimate(edges[at], edges[first], edges[last])
        return Estimate((edges[at] + edges[at + 1]) / 2.0, edges[first], edges[last + 1])

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        noise = cell.total(numbers[self.tree]).noise
        leaves = self._leaves(numbers[self.tree].table[cell.row : cell.row + 1])

        def ends(margin: float) -> tuple[float, float, float]:
            found = self._within(leaves, margin)
            return float(found.value[0]), float(found.lower[0]), float(found.upper[0])

        about = f"{cell.about} clamped to [{self.lower:g}, {self.upper:g}]"
        return TreeQuantile(self.p, about, noise, self.tree.levels, float(leaves.sum()), cell.rows_per_unit, ends)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        low, high = self.limits
        cut = self.tree.bins
        # Rank error over rows per unit of value, if the values were spread evenly.
        rank = self._margin(numbers[self.tree], confidence) / group_size
        return min(high - low, rank * (high - low) + (high - low) / cut.count)


@dataclass(frozen=True, slots=True)
class Histogram(Measure):
    """Rows per bin of public edges; values outside the edges and missing ones are not counted."""

    kind: ClassVar[str] = "histogram"
    limited: ClassVar[str] = "rows"
    counts: ClassVar[bool] = True
    error_needs_size: ClassVar[bool] = False
    column: str
    edges: tuple[float, ...]

    def said(self, who: str) -> str:
        low, high = typed(self.edges[0]), typed(self.edges[-1])
        return f"rows with {self.column} in each bin; values below {low}, above {high}, or missing are not counted"

    @classmethod
    def from_data(cls, values: Mapping[str, Any]) -> Measure:
        return cls(**{**values, "edges": histogram_bins(values["edges"]).edges})

    @property
    def never_negative(self) -> bool:
        return True

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        schema.numeric(self.column, self.kind, is_bounded=True)
        return replace(self, edges=histogram_bins(self.edges).edges)

    def parts(self) -> tuple[Part, ...]:
        return (Bins(self.column, None, histogram_bins(self.edges)),)

    @property
    def outside(self) -> Outside | None:
        return Outside(self.column, None, self.edges[0], self.edges[-1])

    def fields(self, name: str) -> tuple[str, ...]:
        shown = [f"{edge:g}" for edge in self.edges]
        closing = [")"] * (len(shown) - 2) + ["]"]
        return tuple(f"{name}[{a},{b}{end}" for a, b, end in zip(shown, shown[1:], closing, strict=False))

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        noisy = numbers[self.parts()[0]]
        half = noisy.half_width(1.0 - confidence)
        return tuple(Estimate.around(column, half).whole() for column in noisy.table.T)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        return numbers[self.parts()[0]].half_width(1.0 - confidence)

    def deviation(self, numbers: Numbers) -> float | None:
        return numbers[self.parts()[0]].deviation

    def span(self, group_size: float) -> float:
        return group_size

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.count(numbers[self.parts()[0]])


def public_bounds(measures: Mapping[str, Measure | None]) -> dict[str, tuple[float, float]]:
    """Return the bounds of the columns whose value lies in them, by the name of the column."""
    found = {}
    for name, measure in measures.items():
        if isinstance(measure, ColumnMeasure) and measure.stays_in_bounds:
            found[name] = measure.limits
    return found
