"""The aggregates of a group. Each names its parts and reads its value back from their noisy integers.

A measure registers its kind by being defined, and the function that makes it is a word of the command line under
``word``. Adding one is a new file and its name in ``tables/measures.py`` and ``tallystick/__init__.py``;
``tests/contracts/test_adding_an_aggregate.py`` does it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.tables import estimates
from tallystick.tables.estimates import Estimate, Noisy, consistent, quantile_positions
from tallystick.tables.grid import Grid, bounds, histogram_bins, quantile_bins
from tallystick.tables.parts import Bins, Part, Present, Rows, Squares, Total, Tree, Units
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
        """Whether a value below 0 can come from the noise alone."""
        return False

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The integer families it needs; known once ``bound``."""

    @abstractmethod
    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        """Its column or columns."""

    @abstractmethod
    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        """Predicted half-width for a group with that many rows; ``numbers`` carry laws only."""

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        """The same with bounds, and the type of its column checked."""
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
    error_needs_size: ClassVar[bool] = False

    @property
    def never_negative(self) -> bool:
        return True

    def parts(self) -> tuple[Part, ...]:
        return (Rows(),)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        return (estimates.plain(numbers[self.parts()[0]], confidence),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        return numbers[self.parts()[0]].half_width(1.0 - confidence)


@dataclass(frozen=True, slots=True)
class CountUnits(Count):
    """Units with at least one row."""

    kind: ClassVar[str] = "count_units"

    def parts(self) -> tuple[Part, ...]:
        return (Units(),)


@dataclass(frozen=True, slots=True)
class OfColumn(Measure):
    """A measure of one bounded numeric column. ``missing`` stands in for absent values; None leaves them out."""

    column: str
    lower: float | None = None
    upper: float | None = None
    missing: float | None = None
    whole: bool | None = None

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        kind = schema.type_of(self.column)
        if kind not in ("integer", "number"):
            raise InvalidInput("column", self.column, f"a numeric column ({self.column} is {kind})")
        own = (self.lower, self.upper)
        given = own if own != (None, None) else declared.get(self.column, own)
        low, high = bounds(*given)
        if self.missing is not None and not low <= check.finite("missing", self.missing) <= high:
            raise InvalidInput("missing", self.missing, f"None, or a value from {low:g} to {high:g}")
        return replace(self, lower=low, upper=high, whole=kind == "integer")

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds, once bound."""
        return bounds(self.lower, self.upper)

    @property
    def grid(self) -> Grid:
        """The fixed point of the column."""
        low, high = self.limits
        return Grid.of(low, high, integer=bool(self.whole))

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


@dataclass(frozen=True, slots=True)
class Sum(OfColumn):
    """Total of a clamped column."""

    kind: ClassVar[str] = "sum"
    error_needs_size: ClassVar[bool] = False

    @property
    def never_negative(self) -> bool:
        return self.limits[0] >= 0

    def parts(self) -> tuple[Part, ...]:
        return (self.total,) if self.limits[0] == 0.0 else (self.total, self.present)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        if self.limits[0] == 0.0:
            return (estimates.plain(numbers[self.total], confidence),)
        return (estimates.shifted_total(numbers[self.total], numbers[self.present], self.limits[0], confidence),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        total = numbers[self.total]
        if self.limits[0] == 0.0:
            return total.half_width(1.0 - confidence)
        spread = math.hypot(total.deviation, self.limits[0] * numbers[self.present].deviation)
        return total.law.deviations(confidence) * spread


@dataclass(frozen=True, slots=True)
class Mean(OfColumn):
    """Noisy total over noisy count."""

    kind: ClassVar[str] = "mean"

    def parts(self) -> tuple[Part, ...]:
        return (self.total, self.present)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        low, high = self.limits
        found = estimates.ratio(numbers[self.total], numbers[self.present], high - low, confidence)
        return (Estimate(low + found.value, low + found.lower, low + found.upper),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        low, high = self.limits
        total, present = numbers[self.total], numbers[self.present]
        spread = math.hypot(total.deviation, 0.5 * (high - low) * present.deviation)
        return min(high - low, total.law.deviations(confidence) * spread / group_size)


@dataclass(frozen=True, slots=True)
class Variance(OfColumn):
    """Mean of squares less square of the mean; ``root`` gives the standard deviation."""

    kind: ClassVar[str] = "variance"
    root: bool | None = None

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        if self.root not in (None, True):
            raise InvalidInput("root", self.root, "true, or nothing")
        return OfColumn.bound(self, schema, declared)

    def parts(self) -> tuple[Part, ...]:
        return (self.total, self.squares, self.present)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        low, high = self.limits
        reach = high - low
        # Each of the two ratios misses with at most half the probability, so both hold together.
        sure = (1.0 + confidence) / 2.0
        mean = estimates.ratio(numbers[self.total], numbers[self.present], reach, sure)
        square = estimates.ratio(numbers[self.squares], numbers[self.present], reach**2, sure)
        found = Estimate(
            square.value - mean.value**2, square.lower - mean.upper**2, square.upper - mean.lower**2
        ).clipped(0.0, reach**2 / 4.0)
        if self.root:
            found = Estimate(np.sqrt(found.value), np.sqrt(found.lower), np.sqrt(found.upper))
        return (found,)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        low, high = self.limits
        reach = high - low
        total, squares, present = (numbers[part] for part in self.parts())
        spread = math.hypot(squares.deviation, reach * total.deviation, reach**2 / 4.0 * present.deviation)
        variance = total.law.deviations(confidence) * spread / group_size
        half = min(reach**2 / 4.0, variance)
        return half / (2.0 * reach / math.sqrt(12.0)) if self.root else half


@dataclass(frozen=True, slots=True)
class Quantile(OfColumn):
    """A quantile from a noisy tree; several quantiles of one column share the tree."""

    kind: ClassVar[str] = "quantile"
    p: float = 0.5
    bins: int | None = None

    @property
    def tree(self) -> Tree:
        """The tree of the column."""
        low, high = self.limits
        cut = quantile_bins(low, high, integer=bool(self.whole), bins=self.bins)
        return Tree(self.column, self.missing, cut)

    def parts(self) -> tuple[Part, ...]:
        return (self.tree,)

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        found = OfColumn.bound(self, schema, declared)
        check.probability("p", self.p)
        quantile_bins(0, 1, integer=False, bins=self.bins)
        return found

    def _margin(self, noisy: Noisy, confidence: float) -> float:
        height = self.tree.levels
        share = math.hypot(self.p, 1.0 - self.p)
        return noisy.law.deviations(confidence) * noisy.deviation * math.sqrt(height) * share

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        noisy, cut = numbers[self.tree], self.tree.bins
        leaves = consistent(noisy.table, cut.height)[:, : cut.count]
        at, first, last = quantile_positions(leaves, self.p, self._margin(noisy, confidence))
        edges = np.array(cut.edges)
        if cut.whole:
            return (Estimate(edges[at], edges[first], edges[last]),)
        return (Estimate((edges[at] + edges[at + 1]) / 2.0, edges[first], edges[last + 1]),)

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
    error_needs_size: ClassVar[bool] = False
    column: str
    edges: tuple[float, ...]

    @classmethod
    def from_data(cls, values: Mapping[str, Any]) -> Measure:
        return cls(**{**values, "edges": histogram_bins(values["edges"]).edges})

    @property
    def never_negative(self) -> bool:
        return True

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        kind = schema.type_of(self.column)
        if kind not in ("integer", "number"):
            raise InvalidInput("column", self.column, f"a numeric column ({self.column} is {kind})")
        return replace(self, edges=histogram_bins(self.edges).edges)

    def parts(self) -> tuple[Part, ...]:
        return (Bins(self.column, None, histogram_bins(self.edges)),)

    def fields(self, name: str) -> tuple[str, ...]:
        shown = [f"{edge:g}" for edge in self.edges]
        closing = [")"] * (len(shown) - 2) + ["]"]
        return tuple(f"{name}[{a},{b}{end}" for a, b, end in zip(shown, shown[1:], closing, strict=False))

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        noisy = numbers[self.parts()[0]]
        half = noisy.half_width(1.0 - confidence)
        columns = noisy.table.T
        return tuple(Estimate(column, column - half, column + half) for column in columns)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        return numbers[self.parts()[0]].half_width(1.0 - confidence)
