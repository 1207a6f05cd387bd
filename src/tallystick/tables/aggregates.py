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
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference import means
from tallystick.inference.noise import Noise
from tallystick.inference.released import Answer
from tallystick.inference.suppressed import kept_values
from tallystick.mechanisms.noise.law import NoiseLaw
from tallystick.tables.answers import Cell, Spread, TreeQuantile
from tallystick.tables.parts import (
    Bins,
    FixedPoint,
    Integers,
    Outside,
    Part,
    Present,
    Rows,
    Squares,
    Total,
    Tree,
    Units,
    bounds,
    histogram_bins,
    level_sizes,
    quantile_bins,
)
from tallystick.tables.schema import Schema

# Values with intervals from noisy integers. Everything here is post-processing and costs nothing.
#
# Quantiles are read from a noisy binary tree of counts along a line, which has levels of 2, 4, ..., 2^h nodes, all with
# the same noise. Least squares makes parents equal the sum of their children (Hay, Rastogi, Miklau and Suciu 2010); by
# Gauss and Markov no unbiased estimate of a prefix count has a smaller variance, in particular not the sum of at most h
# nodes, so h times the variance of a node bounds it.

Floats = NDArray[np.float64]

INTERVALS = (
    "95 % interval for the capped and clamped table's own value (privacy noise only; not the caps' bias, not sampling)"
)
"""What every interval of a table is about; whatever shows one shows this too."""


@dataclass(frozen=True, slots=True)
class Noisy:
    """Noisy integers of one part (groups x width), their law, and the size of one step.

    ``shown_from`` is the least of them that was published, where they decided themselves which groups are shown.
    """

    values: NDArray[np.int64]
    law: NoiseLaw
    scale: float
    shown_from: int | None = None

    @property
    def table(self) -> Floats:
        """All numbers of each group, in the units of the data."""
        return self.values.astype(np.float64) * self.scale

    @property
    def column(self) -> Floats:
        """The only number of each group, in the units of the data."""
        return self.table[:, 0]

    @property
    def deviation(self) -> float:
        """Standard deviation of one number, in the units of the data."""
        return math.sqrt(self.law.variance) * self.scale

    def half_width(self, miss: float) -> float:
        """P(|noise| > this) <= miss, in the units of the data."""
        return self.law.half_width(miss) * self.scale


@dataclass(frozen=True, slots=True)
class Estimate:
    """A column of the release: value and interval per group. NaN is "no value"."""

    value: Floats
    lower: Floats
    upper: Floats

    def clipped(self, low: float, high: float) -> Estimate:
        """The same, pulled into a public range."""
        return Estimate(*(np.clip(a, low, high) for a in (self.value, self.lower, self.upper)))


def plain(noisy: Noisy, confidence: float) -> Estimate:
    """One noisy number and its own interval; where only large ones are shown, that of the law given that."""
    if noisy.shown_from is not None:
        return _survivors(noisy, noisy.shown_from, 1.0 - confidence)
    half = noisy.half_width(1.0 - confidence)
    return Estimate(noisy.column, noisy.column - half, noisy.column + half)


def _survivors(noisy: Noisy, shown_from: int, miss: float) -> Estimate:
    """Counts that were shown because they reached the threshold: their noise is likelier to be positive than not."""
    seen, groups = np.unique(noisy.column, return_inverse=True)
    low, high = kept_values(seen, Noise(noisy.law, noisy.scale), shown_from, miss)
    # What is counted is a whole number and at least 0.
    lower, upper = np.ceil(np.maximum(low, 0.0) - 1e-9), np.floor(high + 1e-9)
    return Estimate(noisy.column, np.minimum(lower, seen)[groups], np.maximum(upper, seen)[groups])


def shifted_total(total: Noisy, present: Noisy, lower: float, confidence: float) -> Estimate:
    """Total of shifted values plus lower bound times the noisy count (the exact count would leak)."""
    value = total.column + lower * present.column
    spread = math.hypot(total.deviation, lower * present.deviation)
    half = total.law.deviations(confidence) * spread + 0.5 * (total.scale + abs(lower) * present.scale)
    return Estimate(value, value - half, value + half)


def ratio(top: Noisy, bottom: Noisy, most: float, confidence: float) -> Estimate:
    """top / bottom in [0, most] with the joint interval of Fieller (1954): all r with |top - r bottom| small.

    Where the denominator may be zero the interval is everything, and without a positive denominator there is no value.
    """
    a, b = top.column, bottom.column
    z = top.law.deviations(confidence)
    lead = b**2 - (z * bottom.deviation) ** 2
    inside = a**2 * b**2 - lead * (a**2 - (z * top.deviation) ** 2)
    known = (lead > 0) & (b > 0) & (inside >= 0)
    safe = np.where(known, lead, 1.0)
    root = np.sqrt(np.where(known, inside, 0.0))
    lower = np.where(known, (a * b - root) / safe, 0.0)
    upper = np.where(known, (a * b + root) / safe, most)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(b > 0, a / np.where(b > 0, b, 1.0), np.nan)
    return Estimate(value, lower, upper).clipped(0.0, most)


def consistent(nodes: Floats, height: int) -> Floats:
    """Least-squares leaf counts from noisy levels of equal variance.

    >>> consistent(np.array([[3.0, 3.0, 1.0, 2.0, 3.0, 0.0]]), 2).tolist()
    [[1.0, 2.0, 3.0, 0.0]]
    """
    sizes = level_sizes(height)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    levels = [nodes[:, starts[i] : starts[i + 1]] for i in range(height)]
    # Upwards: the best estimate of a node from itself and its subtree; k levels below and with it.
    best = [levels[-1]]
    for i in range(height - 2, -1, -1):
        k = height - i
        children = best[0][:, 0::2] + best[0][:, 1::2]
        own = (2.0**k - 2.0 ** (k - 1)) / (2.0**k - 1.0)
        best.insert(0, own * levels[i] + (1.0 - own) * children)
    # Downwards: what the parent knows better is shared by its two children. There is no noisy root above level 0.
    settled = best[0]
    for i in range(1, height):
        gap = settled - (best[i][:, 0::2] + best[i][:, 1::2])
        settled = best[i] + np.repeat(gap, 2, axis=1) / 2.0
    return settled


def quantile_positions(leaves: Floats, p: float, margin: float) -> tuple[NDArray[np.int64], Integers, Integers]:
    """For each group the first leaf at which a share ``p`` is reached, and the first and last that noise allows.

    The first leaf whose running count reaches p * total is monotone in p. ``margin`` is the half-width of
    running count - p * total; true leaves have it >= 0 at the leaf and < 0 before, hence the two ends.
    """
    running = np.cumsum(leaves, axis=1)
    total = running[:, -1:]
    rest = running - p * total
    last = leaves.shape[1] - 1

    def first(holds: NDArray[np.bool_]) -> Integers:
        leaf: Integers = np.where(holds.any(axis=1), holds.argmax(axis=1), last).astype(np.int64)
        return leaf

    reached = first(rest >= 0)
    lower = first(rest > -margin)
    before = np.concatenate([np.full((len(leaves), 1), -np.inf), rest[:, :-1]], axis=1)
    upper = last - first((before < margin)[:, ::-1])
    return reached, np.minimum(lower, reached), np.maximum(upper, reached)


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
        """Whether the true value is never negative, so that a negative release is due to noise only."""
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

    @abstractmethod
    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        """Predicted half-width for a group with that many rows; ``numbers`` carry laws only."""

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        """One of its cells with both intervals of ``ts.inference``, where those are known."""
        raise Refused(f"a {self.kind} has no answer of its own. Works: the measures of ts, sums from 0")

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


def measure_from_data(data: Any) -> Measure:
    """The measure that ``to_data`` wrote; its numbers are checked, like any others, when it is asked of a table."""
    from tallystick.tables import measures  # noqa: F401  (it sees to it that all are defined)

    try:
        values = dict(data)
        return KINDS[values.pop("kind")].from_data(values)
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidInput("measure", type(problem).__name__, f"one of {', '.join(KINDS)}") from None


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
        return (plain(numbers[self.parts()[0]], confidence),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        return numbers[self.parts()[0]].half_width(1.0 - confidence)

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.count(numbers[self.parts()[0]])


@dataclass(frozen=True, slots=True)
class CountUnits(Count):
    """Units with at least one row."""

    kind: ClassVar[str] = "count_units"

    def parts(self) -> tuple[Part, ...]:
        return (Units(),)

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.compared(numbers[Units()])


_PUBLIC_BOUNDS = (
    "public bounds, such as mean({0},0,100), or once for every measure: --bounds {0}=0:100 or .bounds({0}=(0, 100))"
)


@dataclass(frozen=True, slots=True)
class ColumnMeasure(Measure):
    """A measure of one bounded numeric column. ``missing`` stands in for absent values; None leaves them out."""

    column: str
    lower: float | None = None
    upper: float | None = None
    missing: float | None = None
    whole: bool | None = None

    def bound(self, schema: Schema, declared: Bounds) -> Measure:
        kind = schema.numeric(self.column)
        own = (self.lower, self.upper)
        given = own if own != (None, None) else declared.get(self.column, own)
        if given == (None, None):
            raise InvalidInput(f"bounds of {self.column}", None, _PUBLIC_BOUNDS.format(self.column))
        low, high = bounds(*given)
        if self.missing is not None and not low <= check.finite("missing", self.missing) <= high:
            raise InvalidInput("missing", self.missing, f"None, or a value from {low:g} to {high:g}")
        return replace(self, lower=low, upper=high, whole=kind == "integer")

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


@dataclass(frozen=True, slots=True)
class Sum(ColumnMeasure):
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
            return (plain(numbers[self.total], confidence),)
        return (shifted_total(numbers[self.total], numbers[self.present], self.limits[0], confidence),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        total = numbers[self.total]
        if self.limits[0] == 0.0:
            return total.half_width(1.0 - confidence)
        spread = math.hypot(total.deviation, self.limits[0] * numbers[self.present].deviation)
        return total.law.deviations(confidence) * spread

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.total(numbers[self.total]) if self.limits[0] == 0.0 else ColumnMeasure.answer(self, numbers, cell)


@dataclass(frozen=True, slots=True)
class Mean(ColumnMeasure):
    """Noisy total over noisy count."""

    kind: ClassVar[str] = "mean"

    def parts(self) -> tuple[Part, ...]:
        return (self.total, self.present)

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        low, high = self.limits
        estimate = ratio(numbers[self.total], numbers[self.present], high - low, confidence)
        return (Estimate(low + estimate.value, low + estimate.lower, low + estimate.upper),)

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
    root: bool | None = None

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
            estimate = Estimate(np.sqrt(estimate.value), np.sqrt(estimate.lower), np.sqrt(estimate.upper))
        return (estimate,)

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

    def _leaves(self, nodes: Floats) -> Floats:
        cut = self.tree.bins
        return consistent(nodes, cut.height)[:, : cut.count]

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
        schema.numeric(self.column)
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
        # counts are shown as whole numbers, and their intervals rounded outward
        return tuple(
            Estimate(np.rint(column), np.floor(column - half), np.ceil(column + half)) for column in noisy.table.T
        )

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        return numbers[self.parts()[0]].half_width(1.0 - confidence)

    def answer(self, numbers: Numbers, cell: Cell) -> Answer:
        return cell.count(numbers[self.parts()[0]])
