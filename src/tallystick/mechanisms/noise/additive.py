"""Additive noise on a lattice: the mechanism behind every verb of ``noise``.

The value is rounded to the lattice, exact integer noise is added, and the point is turned back into a number. The
price is that of the integer law with the sensitivity enlarged by what rounding can add (docs/theory/noise-lattice.md):
a scalar moves by at most ceil(D / g) points; a vector with d changed coordinates by L1 / g + d or L2 / g + sqrt d.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.lattice import FARTHEST, Lattice, default_lattice, lattice_of
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import Numbers, array_or_list, length, numbers, scalar
from tallystick.mechanisms.noise.law import NoiseLaw
from tallystick.mechanisms.noise.sensitivity import Sensitivity

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Noisy = float | int | NDArray[np.float64] | NDArray[np.int64]
Points = NDArray[np.int64]
_INTEGERS = Lattice(0)
_LONGEST = 10**9


@dataclass(frozen=True, slots=True)
class Move:
    """How far neighbouring values can be apart, in data units: ``norm`` is L1 for Laplace noise and L2 for Gaussian.

    ``changed`` coordinates can differ, each by at most ``each`` where that is known.
    """

    norm: float
    changed: int = 1
    each: float | None = None


@dataclass(frozen=True, slots=True)
class AdditiveNoise(Mechanism[Points, Noisy]):
    """value + noise, on the lattice (``lattice`` is None for integer data, which needs no rounding)."""

    law: NoiseLaw
    lattice: Lattice | None
    move: Move
    dimension: int | None
    protects: Protects

    @property
    def privacy(self) -> PrivacyLoss:
        """The pair of the lattice law, or one proved to dominate it (docs/theory/noise-lattice.md): an upper bound."""
        return _privacy(self.law, self.lattice, self.move, self.protects)

    @property
    def granularity(self) -> float:
        """Distance of neighbouring outputs."""
        return 1.0 if self.lattice is None else self.lattice.granularity

    @property
    def variance(self) -> float:
        """Variance of the noise of one coordinate, in squared data units; rounding adds at most granularity^2 / 4."""
        return self.law.variance * self.granularity**2

    def density(self, offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the density of the noise at each offset from the value, per data unit, for a picture."""
        return self.law.mass(np.rint(offsets / self.granularity).astype(np.int64)) / self.granularity

    def error(self, *, confidence: float = 0.95, simultaneous: bool = False) -> float:
        """Half-width: |output - value| is at most this with at least the given probability.

        Exact for the lattice law (half a granule is added for the rounding of the value), for outputs within 2^53
        lattice steps of 0; what a double loses beyond is in :meth:`interval`. With ``simultaneous`` it holds for all
        coordinates at once, which are independent.
        """
        miss = 1.0 - check.inside("confidence", confidence)
        if simultaneous and self.dimension is not None:
            miss = -math.expm1(math.log1p(-miss) / self.dimension)
        width = self.law.half_width(miss)
        return float(width) if self.lattice is None else (width + 0.5) * self.granularity

    def interval(self, output: Any, *, confidence: float = 0.95) -> tuple[Any, Any]:
        """Ends of an interval that contains the true value with at least this probability.

        An end that reaches the edge of the lattice is infinite: values beyond it were pulled back to it.
        """
        half: Any = self.error(confidence=confidence)
        if self.lattice is None:
            half = int(half)  # integers stay exact beyond 2^53
        else:  # beyond 2^53 lattice steps an output is a rounded point
            half += math.ulp(output) / 2 if isinstance(output, float) else np.spacing(np.abs(output)) / 2
        edge = FARTHEST if self.lattice is None else math.ldexp(1.0, 62) * self.granularity * (1.0 - 2.0**-50)
        low, high = output - half, output + half
        if isinstance(output, np.ndarray):
            if not (np.any(low <= -edge) or np.any(high >= edge)):
                return low, high
            return np.where(low <= -edge, -math.inf, low), np.where(high >= edge, math.inf, high)
        return (-math.inf if low <= -edge else low), (math.inf if high >= edge else high)

    def prepare(self, value: Any, *, strict: bool) -> Points:
        if self.dimension is None:
            return np.array([self._point(value, strict=strict)], dtype=np.int64)
        return self._points(value, self.dimension, strict=strict)

    def draw(self, prepared: Points, source: Source) -> Noisy:
        if self.dimension is None:
            point = int(prepared[0]) + self.law.one(source)
            return point if self.lattice is None else self.lattice.value(point)
        noisy = prepared + self.law.draw(len(prepared), source)
        return noisy if self.lattice is None else self.lattice.values(noisy)

    def _point(self, value: Any, *, strict: bool) -> int:
        number = scalar("value", value, strict=strict)
        typed = number if isinstance(value, np.ndarray) else value  # a Decimal is not an integer, whichever it is
        if self.lattice is None and not isinstance(typed, (int, np.integer)):
            raise InvalidInput("value", f"a value of type {type(value).__name__}", "an integer")
        point = (self.lattice or _INTEGERS).nearest(number)
        if strict and abs(point) == FARTHEST:
            raise InvalidInput("value", "a number beyond the lattice", self._within)
        return point

    def _points(self, value: Any, dimension: int, *, strict: bool) -> Points:
        kind, dtypes = ("integers", "iuO") if self.lattice is None else ("numbers", "iufO")
        allowed = f"a one-dimensional array of {dimension} finite {kind}"
        if length("value", value, allowed) != dimension:  # before an array is made of it
            raise InvalidInput("value", f"{len(value)} entries", allowed)
        value = array_or_list(value)
        if isinstance(value, np.ndarray) and (value.ndim != 1 or value.dtype.kind not in dtypes):
            raise InvalidInput("value", f"an array of {value.dtype} of shape {value.shape}", allowed)
        if self.lattice is None and isinstance(value, np.ndarray) and value.dtype.kind == "i":
            points: Points = np.clip(value, -FARTHEST, FARTHEST).astype(np.int64, copy=False)
        else:
            points = self._rounded(numbers("value", value, strict=strict, most=dimension), allowed, strict=strict)
        if strict and (np.abs(points) == FARTHEST).any():
            raise InvalidInput("value", "an array with a number beyond the lattice", self._within)
        return points

    def _rounded(self, entries: Numbers, allowed: str, *, strict: bool) -> Points:
        """Every number's lattice point, exactly: an integer beyond 2^53 is never a double on the way."""
        near, given = entries.near, entries.given
        if self.lattice is None:  # what is not an integer counts as 0 after a charge
            whole = (
                near == np.floor(near) if given is None else np.array([entry == math.floor(entry) for entry in given])
            )
            if strict and not whole.all():
                raise InvalidInput("value", "a number that is not an integer", allowed)
            near = np.where(whole, near, 0.0)
            given = None if given is None else [entry if fine else 0 for entry, fine in zip(given, whole, strict=True)]
        lattice = self.lattice or _INTEGERS
        if given is None:
            return lattice.nearest_all(near)
        return np.array([lattice.nearest(entry) for entry in given], dtype=np.int64)

    @property
    def _within(self) -> str:
        reach = math.ldexp(1.0, 62) * self.granularity
        return f"numbers below {reach:g}, which the lattice holds, or a coarser granularity"


def price(law: NoiseLaw, lattice: Lattice | None, move: Move, protects: Protects) -> PrivacyLoss:
    """The privacy of adding ``law`` to lattice points of values that move by ``move``."""
    points = lattice or Lattice(0)
    if move.changed == 1:
        return law.shift_privacy(points.steps(move.norm), protects)
    norm = enlarged_norm(law, lattice, move)
    if move.each is not None:
        steps = points.steps(move.each)
        if move.changed * steps**law.order <= norm:
            # Independent coordinates that each move by at most ``steps``: a composition of exact pairs. A smaller
            # shift of a log-concave law is dominated by a larger one.
            return move.changed * law.shift_privacy(steps, protects)
    return law.norm_privacy(norm, protects)


_privacy = lru_cache(maxsize=32)(price)
"""The privacy of the last mechanisms: a service makes the same one for each release."""


def enlarged_norm(law: NoiseLaw, lattice: Lattice | None, move: Move) -> Fraction:
    """The norm in lattice units to the power of its order (L1, or L2 squared), after rounding. Errs upwards."""
    if lattice is None:
        return Fraction(move.norm) ** law.order
    # Each changed coordinate gains less than one step: d of them gain d in L1 and sqrt d in L2.
    rounding = move.changed if law.order == 1 else math.nextafter(math.sqrt(move.changed), math.inf)
    return (lattice.scaled(move.norm) + Fraction(rounding)) ** law.order


# What a verb says of the place where noise is added: everything but the law.


@dataclass(frozen=True, slots=True)
class Site:
    """Everything but the noise law."""

    move: Move
    dimension: int | None
    protects: Protects

    def lattice(self, granularity: float | None, order: int, noise: float) -> Lattice:
        """The lattice asked for, or one whose rounding adds about a millionth to the norm."""
        if granularity is not None:
            return lattice_of(granularity)
        return default_lattice(sensitivity=self.move.norm / self.move.changed ** (1 / order), noise=noise)

    def norm(self, lattice: Lattice | None, law: NoiseLaw) -> Fraction:
        """What the law's norm can be after rounding, to the power of its order."""
        if self.move.changed == 1:
            return Fraction((lattice or Lattice(0)).steps(self.move.norm)) ** law.order
        return enlarged_norm(law, lattice, self.move)

    def with_law(self, lattice: Lattice | None, law: NoiseLaw) -> AdditiveNoise:
        """The mechanism."""
        return AdditiveNoise(law, lattice, self.move, self.dimension, self.protects)


def site_of(
    sensitivity: float | Sensitivity,
    order: int,
    dimension: int | None,
    changed: int | None,
    adjacency: Adjacency | str | None,
    unit: str | None,
    *,
    whole: bool = False,
) -> Site:
    """The checked arguments of a verb; ``order`` is that of the law's norm, ``whole`` data are integers."""
    size = None if dimension is None else check.count("dimension", dimension, least=1, most=_LONGEST)
    wanted = None if adjacency is None else check.adjacency(adjacency)
    if isinstance(sensitivity, Sensitivity):
        if wanted not in (None, sensitivity.adjacency):
            raise InvalidInput("adjacency", wanted, f"{sensitivity.adjacency}, which the sensitivity is for")
        wanted, each = sensitivity.adjacency, sensitivity.each
        norm, affected = (sensitivity.l1 if order == 1 else sensitivity.l2), sensitivity.changed
    else:
        norm, each, affected = check.positive("sensitivity", sensitivity), None, size or 1
    least = min(affected, size or 1) if isinstance(sensitivity, Sensitivity) else 1
    if changed is not None:
        affected = check.count("changed", changed, least=1, most=_LONGEST)
        if affected < least:
            raise InvalidInput("changed", changed, f"at least {least}: this sensitivity needs that many coordinates")
    affected = min(affected, size or 1)
    if whole and affected == 1 and norm != int(norm):
        raise InvalidInput("sensitivity", norm, "a whole number >= 1 for integer data")
    if affected == 1:
        norm = norm if each is None else each
    return Site(Move(norm, affected, each), size, Protects(wanted or Adjacency.ADD_REMOVE, unit))


def only_one(default: str, **numbers: float | None) -> str:
    """The name of the one number that was given."""
    given = [name for name, value in numbers.items() if value is not None]
    if len(given) != 1:
        raise InvalidInput(default, " and ".join(given) or None, "exactly one of " + ", ".join(numbers))
    return given[0]


@lru_cache(maxsize=64)
def in_units(lattice: Lattice | None, argument: str, size: float) -> float:
    """A noise size in lattice units; exact, because the lattice is a power of two."""
    return float(drawable(argument, size, lattice.scaled(size) if lattice else Fraction(size)))


_LEAST_STEPS = Fraction(1, 2**1000)
_MOST_STEPS = Fraction(2**50)


def drawable(argument: str, given: float, steps: Fraction, *, order: int = 1) -> Fraction:
    """A noise size in lattice units (or its square), if the exact samplers can make it."""
    if not _LEAST_STEPS <= steps <= _MOST_STEPS**order:
        allowed = "a value that needs noise between 2^-1000 and 2^50 lattice steps, or another granularity"
        raise InvalidInput(argument, given, allowed)
    return steps


def least_float(enough: Callable[[Fraction], bool], rough: Fraction) -> float:
    """The least double near ``rough`` that is exactly enough."""
    size = float(rough)
    for _ in range(4):
        size = math.nextafter(size, 0.0)
    while not enough(Fraction(size)):
        size = math.nextafter(size, math.inf)
    return size
