"""K-norm noise: density proportional to exp(-(eps / D) ||z||), for sensitivity D in that same norm.

The noise is (D / eps) times a Gamma radius times a uniform point of the ball (Hardt and Talwar 2010). It is a real
vector: its bits are drawn as they are needed, and only value + noise *rounded to the public lattice* ever exists as a
number. Rounding comes after the noise, so it is post-processing: the law is that of exact real arithmetic, every output
is a lattice point whatever the data, and no sensitivity has to be enlarged (docs/theory/k-norm.md has the proof).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.intervals import ONE, Digits, Enclosure
from tallystick.mechanisms.exact.lazy_noise import LazyNoise, Noise
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import Number, budget, numbers

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

MOST_COORDINATES = 100_000
_FURTHEST = 1 << 52  # values are clamped to this many lattice steps, far inside exact arithmetic
_DOUBT = 2.0**-34  # bounds float64 errors of a coordinate per unit of dimension + length, with a factor 8 to spare
_RIM = 2.0**-10


class Norm(str, Enum):
    """The norm in which the sensitivity is measured and the noise is shaped."""

    L1 = "l1"
    L2 = "l2"
    LINF = "linf"


@dataclass(slots=True)
class _Uniform:
    """A uniform number in [-1, 1], known to some bits."""

    numerator: int
    bits: int = 64

    def near(self) -> float:
        """In float64, within 2^-51."""
        return (self.numerator >> (self.bits - 64)) * 2.0**-63 - 1.0

    def refine(self, source: Source) -> None:
        self.numerator, self.bits = (self.numerator << 64) | source.bits(64), self.bits + 64

    def enclose(self, digits: Digits) -> Enclosure:
        half = Decimal(1 << (self.bits - 1))
        low = digits.down.subtract(digits.down.divide(Decimal(self.numerator), half), ONE)
        high = digits.up.subtract(digits.up.divide(Decimal(self.numerator + 1), half), ONE)
        return Enclosure(low, high)


@dataclass(slots=True)
class _Shape:
    """The random bits of one noise vector; ``coordinates`` evaluates it at scale 1."""

    norm: Norm
    radius: list[LazyNoise] = field(default_factory=list)
    direction: list[_Uniform] = field(default_factory=list)

    @staticmethod
    def fresh(norm: Norm, dimension: int, source: Source) -> _Shape:
        if norm is Norm.L1:  # independent Laplace coordinates
            return _Shape(norm, [LazyNoise.fresh(Noise.LAPLACE, source) for _ in range(dimension)])
        if norm is Norm.LINF:  # Gamma(d + 1) times a uniform point of the cube
            radius = [LazyNoise.fresh(Noise.EXPONENTIAL, source) for _ in range(dimension + 1)]
            return _Shape(norm, radius, [_Uniform(source.bits(64)) for _ in range(dimension)])
        # Gamma(d) times a uniform direction: the same as Gamma(d + 1) times a uniform point of the ball
        radius = [LazyNoise.fresh(Noise.EXPONENTIAL, source) for _ in range(dimension)]
        pairs = [point for _ in range((dimension + 1) // 2) for point in _in_disk(source)]
        return _Shape(norm, radius, pairs)

    def refine(self, source: Source) -> None:
        for lazy in self.radius:
            lazy.refine(source)
        for uniform in self.direction:
            uniform.refine(source)

    def near(self, dimension: int) -> tuple[list[float], float] | None:
        """Coordinates in float64 and a bound on their errors, or None where one cannot be given.

        Exponentials are within 2^-40 (1 + size), uniforms within 2^-51, so length is within 2^-39 (d + 1 + length).
        Away from the centre and the rim a polar normal is within 2^-38 of itself, and so is the norm of several.
        """
        sizes = [lazy.near() for lazy in self.radius]
        length = math.fsum(abs(size) for size in sizes)
        doubt = _DOUBT * (dimension + 1 + length)
        if not doubt < 2.0**30:  # NaN too
            return None
        if self.norm is Norm.L1:
            return sizes, doubt
        if self.norm is Norm.LINF:
            return [length * uniform.near() for uniform in self.direction], doubt
        normals: list[float] = []
        for x, y in zip(self.direction[0::2], self.direction[1::2], strict=True):
            pair = _polar(x.near(), y.near())
            if pair is None:
                return None
            normals += pair
        norm = math.hypot(*normals[:dimension])
        if norm < 0.05 * math.sqrt(dimension):
            return None
        return [normal * (length / norm) for normal in normals[:dimension]], doubt

    def coordinates(self, digits: Digits, dimension: int) -> list[Enclosure]:
        if self.norm is Norm.L1:
            return [lazy.enclose() for lazy in self.radius]
        length = Enclosure(Decimal(0), Decimal(0))
        for lazy in self.radius:
            length = digits.add(length, lazy.enclose())
        if self.norm is Norm.LINF:
            return [digits.multiply(length, uniform.enclose(digits)) for uniform in self.direction]
        normals = self._normals(digits)[:dimension]
        square = Enclosure(Decimal(0), Decimal(0))
        for normal in normals:
            square = digits.add(square, _squared(digits, normal))
        stretch = digits.divide(length, digits.sqrt(square))
        return [digits.multiply(normal, stretch) for normal in normals]

    def _normals(self, digits: Digits) -> list[Enclosure]:
        """Marsaglia's polar method: (x, y) uniform in the disk times sqrt(-2 ln s / s) is a pair of normals."""
        normals = []
        for x, y in zip(self.direction[0::2], self.direction[1::2], strict=True):
            across, up = x.enclose(digits), y.enclose(digits)
            s = digits.add(_squared(digits, across), _squared(digits, up))
            log = -digits.ln(Enclosure(s.low, min(s.high, ONE)))
            factor = digits.sqrt(digits.divide(digits.add(log, log), s))
            normals += [digits.multiply(across, factor), digits.multiply(up, factor)]
        return normals


def _polar(x: float, y: float) -> list[float] | None:
    """The pair of normals of a point of the disk, within 2^-38, or None next to its centre or rim."""
    s = x * x + y * y
    if not _RIM < s < 1 - _RIM:
        return None
    factor = math.sqrt(-2 * math.log(s) / s)
    return [x * factor, y * factor]


NORMAL_ERROR = 2.0**-36
"""How far a double of ``near_normals`` is at most from the real number it stands for."""


def near_normals(count: int, source: Source) -> NDArray[np.float64]:
    """Independent standard normals: real numbers of exactly that law, each told in float64 within ``NORMAL_ERROR``.

    Never a release by themselves: for what is computed from real noise and covers the error (docs/theory/k-norm.md).

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> near_normals(3, SYSTEM).shape
    (3,)
    """
    normals: list[float] = []
    while len(normals) < count:
        x, y = _in_disk(source)
        normals += _polar(x.near(), y.near()) or _polar_in_decimals(_Shape(Norm.L2, [], [x, y]), source)
    return np.array(normals[:count])


def _polar_in_decimals(shape: _Shape, source: Source) -> list[float]:
    digits = 40
    while True:
        pair = shape._normals(Digits(digits))
        if all(end.high - end.low < Decimal(NORMAL_ERROR) / 4 for end in pair):
            return [float(end.low) for end in pair]
        shape.refine(source)
        digits += 25


def _in_disk(source: Source) -> tuple[_Uniform, _Uniform]:
    """A uniform point of the unit disk, by rejection from the square, decided exactly."""
    while True:
        x, y, digits = _Uniform(source.bits(64)), _Uniform(source.bits(64)), 40
        s_near = x.near() ** 2 + y.near() ** 2  # within 2^-48
        if s_near > 1 + _DOUBT:
            continue
        while s_near >= 1 - _DOUBT:
            arithmetic = Digits(digits)
            s = arithmetic.add(_squared(arithmetic, x.enclose(arithmetic)), _squared(arithmetic, y.enclose(arithmetic)))
            if s.high < ONE:
                return x, y
            if s.low > ONE:
                break
            x.refine(source)
            y.refine(source)
            digits += 40
        else:
            return x, y


def _squared(digits: Digits, value: Enclosure) -> Enclosure:
    ends = (digits.up.abs(value.low), digits.up.abs(value.high))
    least = Decimal(0) if value.low <= 0 <= value.high else min(ends)
    return Enclosure(digits.down.multiply(least, least), digits.up.multiply(max(ends), max(ends)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KNorm(Mechanism[list[Number], NDArray[np.float64]]):
    """A vector with K-norm noise on a public lattice; built by :func:`add_knorm`."""

    epsilon: float
    sensitivity: float
    norm: Norm
    granularity: float
    protects: Protects

    @property
    def privacy(self) -> PrivacyLoss:
        """Pure epsilon: by the triangle inequality the density changes by at most e^{(eps/D) ||v||} under a shift v."""
        return losses.pure_dp(epsilon=self.epsilon, **self.protects.about)

    @property
    def scale(self) -> float:
        """D / epsilon, the noise's unit of length."""
        return self.sensitivity / self.epsilon

    def prepare(self, value: Any, *, strict: bool) -> list[Number]:
        entries = numbers("value", value, strict=strict, most=MOST_COORDINATES)
        reach = _FURTHEST * self.granularity
        if strict and np.abs(entries.near).max() > reach:
            raise InvalidInput("value", "a number beyond the lattice", f"numbers up to {reach:g}, or coarser steps")
        return [min(max(entry, -reach), reach) for entry in entries.exact()]

    def draw(self, prepared: list[Number], source: Source) -> NDArray[np.float64]:
        shape = _Shape.fresh(self.norm, len(prepared), source)
        points = self.clear_points(prepared, shape)
        return self.values(self.certain_points(prepared, shape, source) if points is None else points)

    def values(self, points: list[int]) -> NDArray[np.float64]:
        """Lattice points as numbers, correctly rounded where a double cannot hold one (post-processing)."""
        return np.array([float(point) for point in points]) * self.granularity

    def clear_points(self, prepared: list[Number], shape: _Shape) -> list[int] | None:
        """The lattice points in float64, where rounding cannot decide them; None where it could."""
        near = shape.near(len(prepared))
        if near is None:
            return None
        coordinates, doubt = near
        stretch, points = self.scale / self.granularity, []
        for number, coordinate in zip(map(float, prepared), coordinates, strict=True):
            at = number / self.granularity + 0.5 + stretch * coordinate
            point = math.floor(at)
            slack = stretch * (doubt + 2.0**-50 * abs(coordinate))
            slack += 2.0**-50 * (1 + abs(at) + abs(number) / self.granularity)
            if not slack < at - point < 1 - slack:
                return None
            points.append(point)
        return points

    def certain_points(self, prepared: list[Number], shape: _Shape, source: Source) -> list[int]:
        """The rounded sum in decimals, with more bits and more digits until every coordinate is certain."""
        step = Fraction(self.granularity)
        stretch = Fraction(self.sensitivity) / Fraction(self.epsilon) / step
        offsets = [Fraction(number) / step + Fraction(1, 2) for number in prepared]
        digits = 40
        while True:
            arithmetic = Digits(digits)
            scale = arithmetic.of(stretch)
            ends = [
                arithmetic.add(arithmetic.of(offset), arithmetic.multiply(scale, coordinate))
                for offset, coordinate in zip(offsets, shape.coordinates(arithmetic, len(prepared)), strict=True)
            ]
            low = [end.low.to_integral_value(ROUND_FLOOR) for end in ends]
            if all(floor == end.high.to_integral_value(ROUND_FLOOR) for floor, end in zip(low, ends, strict=True)):
                return [int(floor) for floor in low]
            shape.refine(source)
            digits += 25

    def error(self, *, confidence: float, dimension: int) -> float:
        """With this confidence the noise is at most this long in the mechanism's own norm (Gamma(d) times D / eps)."""
        from scipy.special import gammaincinv

        size = check.count("dimension", dimension, least=1)
        corner = {Norm.L1: float(size), Norm.L2: math.sqrt(size), Norm.LINF: 1.0}[self.norm]
        radius = float(gammaincinv(size, check.inside("confidence", confidence)))
        return self.scale * radius * (1 + 1e-12) + corner * self.granularity / 2

    def variance(self, *, dimension: int) -> float:
        """Variance of the noise in each coordinate (without the lattice's own granularity^2 / 12)."""
        size = check.count("dimension", dimension, least=1)
        shape = {Norm.L1: 2.0, Norm.L2: size + 1.0, Norm.LINF: (size + 1) * (size + 2) / 3}[self.norm]
        return self.scale**2 * shape


def add_knorm(
    *,
    epsilon: float,
    norm: Norm | str,
    sensitivity: float,
    granularity: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> KNorm:
    """Pure-DP noise shaped by a norm: "l1" (independent Laplace), "l2" (sphere) or "linf" (cube).

    ``granularity`` is a power of two, by default about scale / 65536. docs/theory/k-norm.md

    >>> mechanism = add_knorm(epsilon=1.0, norm="linf", sensitivity=1.0, granularity=0.25)
    >>> mechanism.release([0.1, 0.2, 0.3]).shape
    (3,)
    """
    try:
        shape = Norm(norm)
    except ValueError:
        raise InvalidInput("norm", norm, "one of " + ", ".join(kind.value for kind in Norm)) from None
    price, size = budget(epsilon, sensitivity)
    scale = size / price
    step = granularity if granularity is not None else 2.0 ** (math.floor(math.log2(scale)) - 16)
    if math.frexp(check.positive("granularity", step))[0] != 0.5:
        raise InvalidInput("granularity", granularity, "a power of two, for instance 0.125")
    if not (2.0**-1000 <= step <= 2.0**900 and 2.0**-900 <= scale / step <= 2.0**900):
        allowed = "a power of two from 2^-1000 to 2^900, and from 2^-900 to 2^900 times sensitivity / epsilon"
        raise InvalidInput("granularity", granularity, allowed)  # beyond, a release could be no double
    return KNorm(
        epsilon=price,
        sensitivity=size,
        norm=shape,
        granularity=float(step),
        protects=Protects(adjacency, unit),
    )
