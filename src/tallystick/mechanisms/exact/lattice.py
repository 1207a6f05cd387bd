"""The public lattice on which real values are released, and exact rounding to it.

A released number is a multiple of g = 2^exponent chosen from public parameters alone. Rounding is half-up, which
commutes with translation by g, so two values at distance D round to lattice points at most ceil(D / g) apart; rounding
half to even would not (0.5 and 1.5 round to 0 and 2). Theory: docs/theory/noise-lattice.md

:class:`BoundedLattice` is the part between public bounds, on which data are counted: they are clamped and rounded
record by record before anything else, so no output can carry the low bits of a record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput

RESOLUTION_BITS = 20
"""The default lattice is about 2^20 times finer than the sensitivity, so rounding costs at most a millionth."""

FARTHEST = (1 << 62) - 1
"""Lattice points beyond this are pulled back to it, so that adding noise cannot overflow int64."""

_LARGEST_NOISE = 1 << 48
_COARSEST = 900  # 2^62 such steps are still a double
COARSEST_NOISY = 2.0**_COARSEST
"""Noise on a coarser lattice could reach beyond the largest double."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """The multiples of 2^exponent.

    >>> Lattice(-1).granularity
    0.5
    """

    exponent: int

    @property
    def granularity(self) -> float:
        """The distance between neighbouring points."""
        return math.ldexp(1.0, self.exponent)

    def steps(self, distance: float) -> int:
        """ceil(distance / g): how far apart the rounded images of two values at this distance can be.

        >>> Lattice(-3).steps(0.3)
        3
        """
        return math.ceil(self.scaled(distance))

    def scaled(self, length: float) -> Fraction:
        """A length in lattice units, exactly."""
        return Fraction(length) / _power_of_two(self.exponent)

    def nearest(self, value: float | int | Fraction) -> int:
        """The lattice point of one value: half-up, exact; NaN is 0 and what is too far is pulled back.

        >>> [Lattice(0).nearest(v) for v in (0.5, 1.5, -0.5, float("nan"))]
        [1, 2, 0, 0]
        """
        if isinstance(value, float):
            if math.isnan(value):
                return 0
            if abs(value) >= math.ldexp(1.0, 62 + self.exponent):  # also the infinities
                return FARTHEST if value > 0 else -FARTHEST
            scaled = math.ldexp(value, -self.exponent)  # exact, or so small that it rounds to 0
            floor = math.floor(scaled)
            return floor + (scaled - floor >= 0.5)  # exact for the reason given in nearest_all
        if self.exponent == 0 and isinstance(value, int):
            point = value
        else:
            point = math.floor(Fraction(value) / _power_of_two(self.exponent) + Fraction(1, 2))
        return max(-FARTHEST, min(FARTHEST, point))

    def nearest_all(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the nearest points of an array of doubles. Every step is exact: see the comment.

        >>> Lattice(0).nearest_all(np.array([0.49999999999999994, -1e-300, np.inf])).tolist()[:2]
        [0, 0]
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scaled = np.ldexp(values, -self.exponent)  # a power of two: exact, or so small that it rounds to 0
            floor = np.floor(scaled)
            # scaled - floor is exact, or scaled is in (-1/2, 0) where it cannot fall below 1/2.
            rounded = floor + (scaled - floor >= 0.5)
        far = float(FARTHEST + 1)
        inside = np.abs(rounded) < far  # False for NaN
        points = np.where(inside, rounded, 0.0).astype(np.int64)
        points = np.where(rounded >= far, FARTHEST, np.where(rounded <= -far, -FARTHEST, points))
        return points.astype(np.int64, copy=False)

    def value(self, point: int) -> float:
        """The real number of a lattice point, correctly rounded where a double cannot hold it (post-processing)."""
        return math.ldexp(float(point), self.exponent)  # rounds once: the exponents of a lattice never underflow

    def values(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the real numbers of an array of lattice points."""
        return np.asarray(np.ldexp(points.astype(np.float64), self.exponent), dtype=np.float64)


@lru_cache(maxsize=64)
def _power_of_two(exponent: int) -> Fraction:
    """2^exponent, exactly. Making the fraction takes as long as a division by it."""
    return Fraction(2) ** exponent


def lattice_of(granularity: float) -> Lattice:
    """The lattice with this public granularity, which must be a power of two.

    >>> lattice_of(0.25)
    Lattice(exponent=-2)
    """
    allowed = "a power of two between 2^-1000 and 2^900, such as 0.25"
    mantissa, exponent = math.frexp(check.positive("granularity", granularity, allowed))
    if mantissa != 0.5 or not -1000 <= exponent - 1 <= _COARSEST:
        raise InvalidInput("granularity", granularity, allowed)
    return Lattice(exponent - 1)


def default_lattice(*, sensitivity: float, noise: float) -> Lattice:
    """Fine enough that rounding is negligible, coarse enough that the sampler's integers fit.

    Depends on public parameters only. ``noise`` is the scale of the noise, or a rough guess of it.

    >>> default_lattice(sensitivity=1.0, noise=10.0).granularity == 2.0**-20
    True
    """
    exponent = math.frexp(min(sensitivity, noise))[1] - 1 - RESOLUTION_BITS
    coarsest_needed = math.frexp(max(noise, sensitivity))[1] - _LARGEST_NOISE.bit_length()
    chosen = max(exponent, coarsest_needed, -1000)
    if chosen > _COARSEST:  # a release could be beyond the largest double, after the charge
        raise InvalidInput("sensitivity", sensitivity, "sensitivity and noise below 1e270")
    return Lattice(chosen)


def rounded_up(exact: Fraction) -> float:
    """The least double that is not below an exact number.

    >>> rounded_up(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def root_up(square: Fraction) -> float:
    """The least double whose square is at least this.

    >>> root_up(Fraction(2)) ** 2 >= 2
    True
    """
    root = math.sqrt(square)
    for _ in range(4):
        root = math.nextafter(root, 0.0)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def rounded_down(exact: Fraction) -> float:
    """The greatest double that is not above an exact number.

    >>> rounded_down(Fraction(1, 3)) <= Fraction(1, 3)
    True
    """
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


_EXACT = 1 << 53  # a float64 holds every integer up to here
_DEFAULT_POINTS = 20


@dataclass(frozen=True, slots=True)
class BoundedLattice:
    """The multiples of ``granularity`` (a power of two) in [lower, upper], numbered first..last.

    >>> lattice = BoundedLattice.over((0, 10), granularity=0.5)
    >>> lattice.points, lattice.indices(np.array([0.1, 9.8, 99.0])).tolist()
    (21, [0, 20, 20])
    """

    granularity: float
    first: int
    last: int

    @staticmethod
    def over(bounds: tuple[float, float], *, granularity: float | None = None, outward: bool = False) -> BoundedLattice:
        """The lattice of some bounds; by default about a million points. ``outward`` takes one more point at each end
        that is not on the lattice, so that every number within the bounds is at most half a step from a point.
        """
        lower, upper = lower_and_upper("bounds", bounds)
        if granularity is None:
            # bounds far from 0 get a coarser lattice, so that every point has an exact number
            far = math.ceil(math.log2(max(abs(lower), abs(upper)))) - 52
            granularity = 2.0 ** max(math.floor(math.log2(upper - lower)) - _DEFAULT_POINTS, far)
        step = check.positive("granularity", granularity)
        if math.frexp(step)[0] != 0.5:
            raise InvalidInput("granularity", granularity, "a power of two, for instance 0.125")
        low, high = Fraction(lower) / Fraction(step), Fraction(upper) / Fraction(step)
        first, last = (math.floor(low), math.ceil(high)) if outward else (math.ceil(low), math.floor(high))
        if first > last:
            raise InvalidInput(
                "granularity", granularity, f"a power of two with a multiple between {lower} and {upper}"
            )
        if max(abs(first), abs(last)) > _EXACT:
            raise InvalidInput("granularity", granularity, "at least 2^-53 of the larger bound")
        return BoundedLattice(step, first, last)

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


def lower_and_upper(argument: str, bounds: Any) -> tuple[float, float]:
    """Two finite numbers, the lower first.

    >>> lower_and_upper("bounds", (0, 1))
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
