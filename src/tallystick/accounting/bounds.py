"""A certified two-sided bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tallystick.errors import Contradiction, InvalidInput
from tallystick.numerics.law import Above, Below

WIDTH = 1e-6
"""Relative width of an enclosure that is good enough."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The truth lies in ``[lower, upper]``; both ends are certified.

    >>> Bounds(1.0, 1.5).width
    0.5
    >>> 1.2 in Bounds(1.0, 1.5)
    True
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper) or self.lower > self.upper:
            raise InvalidInput("bounds", (self.lower, self.upper), "lower <= upper")

    @staticmethod
    def between(below: Below, above: Above) -> Bounds:
        """Return the bounds of an engine: the one way in for its numbers, which a swap does not type-check."""
        return Bounds(min(below, above), above)

    @property
    def width(self) -> float:
        """Upper minus lower."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """Width over the upper end; zero where both ends agree."""
        return 0.0 if self.lower == self.upper else self.width / self.upper

    def __iter__(self) -> Iterator[float]:
        """Yield the lower end, then the upper one.

        >>> low, high = Bounds(1.0, 1.5)
        """
        yield self.lower
        yield self.upper

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def meet(self, other: Bounds) -> Bounds:
        """Return what both enclosures allow. Both are certified, so if they exclude each other one of them is wrong.

        >>> Bounds(1.0, 2.0).meet(Bounds(1.5, 3.0))
        Bounds(lower=1.5, upper=2.0)
        """
        low, high = max(self.lower, other.lower), min(self.upper, other.upper)
        if low > high:
            raise Contradiction(
                f"two certified computations exclude each other: [{self.lower!r}, {self.upper!r}] and "
                f"[{other.lower!r}, {other.upper!r}]; this is a defect of tallystick, please report the loss"
            )
        return Bounds(low, high)
