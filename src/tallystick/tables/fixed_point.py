"""Public fixed point: how a bounded measure becomes a small non-negative integer, and how values fall into bins.

    q(x) = floor((clamp(x, lower, upper) - lower) / step),   0 <= q(x) <= top

The step is a power of two chosen from the bounds alone, and every operation is one IEEE double operation, so all
engines compute the same integer. Integer sums are exact and free of order, which float sums are not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tallystick.accounting import check
from tallystick.digits import typed
from tallystick.errors import InvalidInput

STEP_BITS = 24
"""A measure takes at most 2^24 values; flooring loses at most one step per row."""

LARGEST_BOUND = 1e15
DEFAULT_BINS = 256
MOST_BINS = 4096


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
        """Number of bins."""
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
        raise InvalidInput("edges", (steps[0], steps[-1]), f"numbers up to {typed(LARGEST_BOUND)}")
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
        raise InvalidInput("bounds", (low, high), f"bounds up to {typed(LARGEST_BOUND)}")
    if high - low < 1e-9 * max(1.0, abs(low), abs(high)):
        raise InvalidInput("bounds", (low, high), "bounds further apart")
    return low, high
