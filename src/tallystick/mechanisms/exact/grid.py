"""The public lattice on which data are counted and from which a private quantile is taken.

Bounds and granularity are public constants. Data are clamped to the bounds and rounded to the lattice, record by
record, before anything else, so no output can carry the low bits of a record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput

_EXACT = 1 << 53  # a float64 holds every integer up to here
_DEFAULT_POINTS = 20


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of ``granularity`` (a power of two) in [lower, upper], numbered first..last.

    >>> grid = Grid.over((0, 10), granularity=0.5)
    >>> grid.points, grid.indices(np.array([0.1, 9.8, 99.0])).tolist()
    (21, [0, 20, 20])
    """

    granularity: float
    first: int
    last: int

    @staticmethod
    def over(bounds: tuple[float, float], *, granularity: float | None = None) -> Grid:
        """The lattice of some bounds; by default about a million points."""
        lower, upper = ordered("bounds", bounds)
        if granularity is None:
            # bounds far from 0 get a coarser lattice, so that every point has an exact number
            far = math.ceil(math.log2(max(abs(lower), abs(upper)))) - 52
            granularity = 2.0 ** max(math.floor(math.log2(upper - lower)) - _DEFAULT_POINTS, far)
        step = check.positive("granularity", granularity)
        if math.frexp(step)[0] != 0.5:
            raise InvalidInput("granularity", granularity, "a power of two, for instance 0.125")
        first, last = math.ceil(Fraction(lower) / Fraction(step)), math.floor(Fraction(upper) / Fraction(step))
        if first > last:
            raise InvalidInput(
                "granularity", granularity, f"a power of two with a multiple between {lower} and {upper}"
            )
        if max(abs(first), abs(last)) > _EXACT:
            raise InvalidInput("granularity", granularity, "at least 2^-53 of the larger bound")
        return Grid(step, first, last)

    @property
    def points(self) -> int:
        """How many lattice points the bounds hold."""
        return self.last - self.first + 1

    def indices(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Numbers of the nearest lattice points, after clamping."""
        clamped = np.clip(values, self.first * self.granularity, self.last * self.granularity)
        return np.clip(np.rint(clamped / self.granularity), self.first, self.last).astype(np.int64)

    def value(self, index: int) -> float:
        """The lattice point with this number, exactly."""
        return index * self.granularity


def ordered(argument: str, bounds: Any) -> tuple[float, float]:
    """Two finite numbers, the lower first.

    >>> ordered("bounds", (0, 1))
    (0.0, 1.0)
    """
    allowed = "two finite numbers (lower, upper) with lower < upper"
    try:
        lower, upper = bounds
    except (TypeError, ValueError):
        raise InvalidInput(argument, bounds, allowed) from None
    low, high = check.finite(argument, lower, allowed), check.finite(argument, upper, allowed)
    if not low < high or not math.isfinite(high - low):
        raise InvalidInput(argument, bounds, allowed)
    return low, high
