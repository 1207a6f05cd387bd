"""The law of the noise in one released number and in the quotient of two, in the units of the data.

The law is public, so inference may use it. :class:`Quotient` is the interval of x = T / n from a noisy total T and a
noisy count n (docs/theory/noisy-quotients.md). At the true x the number S - x N has no part of the data left. It is
(noise of S) - x (noise of N), and sampling where the population is meant. The interval is the hull of all x for which
that number is at most as large as its law allows (Fieller 1954). It holds for every n, also n = 0, because nothing in
the argument depends on n. Where the released count does not exclude 0 the interval is all of the public bounds. It is
never left out: intervals that are given only for counts that look large hold less often than they say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.mechanisms.noise.additive import AdditiveNoise
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.mechanisms.noise.law import NoiseLaw

Floats = NDArray[np.float64]

_FINE = 4096.0  # a law wider than so many steps is summed in blocks, each as large as its middle times its width
_REACH = 60.0  # scales after which a tail (below 1e-26) is no longer followed down
_CONTINUOUS = 2.0**20  # steps per scale of a lattice that stands for continuous noise


@dataclass(frozen=True, slots=True)
class Noise:
    """Symmetric noise ``step * law``; ``rounding`` is how far the value itself may have been rounded first.

    Made from a mechanism by ``Noise.of``; for other people's releases by ``Noise.laplace`` and ``Noise.gaussian``.

    >>> Noise(DiscreteLaplace(1.0)).half_width(0.05)
    3.0
    """

    law: NoiseLaw
    step: float = 1.0
    rounding: float = 0.0

    @staticmethod
    def of(given: Noise | NoiseLaw | Mechanism[object, object]) -> Noise:
        """The noise of a law on the integers or of an additive mechanism.

        >>> from tallystick.mechanisms.noise import add_discrete_laplace
        >>> Noise.of(add_discrete_laplace(epsilon=1)).law
        DiscreteLaplace(scale=1.0)
        """
        if isinstance(given, Noise):
            return given
        if isinstance(given, NoiseLaw):
            return Noise(given)
        if isinstance(given, AdditiveNoise):
            # A lattice of step 1 or finer (a power of two) holds whole numbers, but what a user calls a number
            # need not be whole: half a step for the rounding of the value.
            half = 0.0 if given.lattice is None else given.granularity / 2.0
            return Noise(given.law, given.granularity, half)
        raise InvalidInput("noise", type(given).__name__, "a mechanism of ts.noise, its law, or a Noise")

    @classmethod
    def laplace(cls, *, scale: float) -> Noise:
        """Continuous Laplace noise of another tool's release.

        >>> round(Noise.laplace(scale=2.0).half_width(0.05), 3)
        5.991
        """
        step = check.positive("scale", scale) / _CONTINUOUS
        return cls(DiscreteLaplace(_CONTINUOUS), step, step / 2.0)

    @classmethod
    def gaussian(cls, *, sigma: float) -> Noise:
        """Continuous Gaussian noise of another tool's release.

        >>> round(Noise.gaussian(sigma=2.0).half_width(0.05), 3)
        3.92
        """
        step = check.positive("sigma", sigma) / _CONTINUOUS
        return cls(DiscreteGaussian(_CONTINUOUS), step, step / 2.0)

    @property
    def deviation(self) -> float:
        """Standard deviation; what rounding can add is added to it."""
        return math.sqrt(self.law.variance) * self.step + self.rounding

    @property
    def continuous_deviation(self) -> float:
        """Standard deviation of the continuous Gaussian or Laplace law of the same scale: at least that on the lattice.

        >>> Noise(DiscreteLaplace(2.0)).continuous_deviation == 2.0 * math.sqrt(2.0)
        True
        """
        each = math.sqrt(2.0) if isinstance(self.law, DiscreteLaplace) else 1.0
        return each * self.law.scale * self.step

    def half_width(self, miss: float) -> float:
        """P(|released - value| > this) <= miss."""
        return self.law.half_width(miss) * self.step + self.rounding

    def deviations(self, confidence: float) -> float:
        """Standard deviations in a two-sided interval for a sum in which this noise has a part."""
        return self.law.deviations(confidence)

    def two_sided(self, deviations: float) -> float:
        """The p-value that goes with so many standard deviations: the inverse of ``deviations``, at least 1e-15.

        >>> round(Noise.gaussian(sigma=3).two_sided(1.96), 4)
        0.05
        """
        low, high = 1e-15, 1.0 - 1e-15
        if deviations <= self.deviations(1.0 - high):
            return 1.0
        for _ in range(80):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.deviations(1.0 - middle) <= deviations else (middle, high)
        return high

    def at_most(self, offsets: Floats) -> Floats:
        """P(released - value <= offset); where rounding leaves it open, the larger answer."""
        steps = np.floor((offsets + self.rounding) / self.step + 1e-9)
        return np.where(steps < 0, _upper_tails(self.law, -steps), 1.0 - _upper_tails(self.law, steps + 1.0))

    def at_least(self, offsets: Floats) -> Floats:
        """P(released - value >= offset); where rounding leaves it open, the larger answer."""
        return self.at_most(-offsets)

    def summed(self, copies: int) -> Noise | None:
        """The law of a sum of independent copies, where it is known: that of Gaussian noise of two steps or more.

        The sum of discrete Gaussian laws is within 10 exp(-pi^2 sigma^2) < 1e-15 of one of the summed variance.
        """
        if copies == 1:
            return self
        if isinstance(self.law, DiscreteGaussian) and self.law.sigma >= 2.0:
            return Noise(DiscreteGaussian(self.law.sigma * math.sqrt(copies)), self.step, self.rounding * copies)
        return None

    def drawn(self, size: int, seed: int) -> Floats:
        """Independent draws for simulations; seeded, so nothing made from them is private."""
        return self.law.draw(size, SeededSource(seed)).astype(np.float64) * self.step


TOTAL_STEPS, COUNT_STEPS = 1.5, 0.5
"""Lattice steps by which the noise of the total and of the count may exceed the continuous noise beside it."""

NO_VALUE = (
    "no value: the released count does not exclude 0, so the interval is all of the public bounds. "
    "Use larger groups, or more budget for the count"
)


@dataclass(frozen=True, slots=True)
class Quotient:
    """The inequality |S - x N| <= z sqrt(q(x)) + e_S + e_N |x| that x = T / n satisfies with ``confidence``.

    q(x) = total^2 + x^2 count^2 + N (worst (x - low)(high - x) + known) is the variance: that of the two noises, and of
    a sample of N values in [low, high] where ``worst`` or ``known`` is positive. e_S and e_N cover the lattice.
    """

    z: float
    total: float
    count: float
    total_extra: float
    count_extra: float
    low: float
    high: float
    worst: float = 0.0
    known: float = 0.0

    @staticmethod
    def of(total: Noise, count: Noise | None, confidence: float, low: float, high: float) -> Quotient:
        """The inequality over the noise alone; ``count`` is None where the count is public."""
        z = max(noise.deviations(confidence) for noise in (total, count) if noise is not None)
        extra = TOTAL_STEPS * total.step + total.rounding
        if count is None:
            return Quotient(z, total.continuous_deviation, 0.0, extra, 0.0, low, high)
        beside = COUNT_STEPS * count.step + count.rounding
        return Quotient(z, total.continuous_deviation, count.continuous_deviation, extra, beside, low, high)

    def excludes_zero(self, count: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """True where a count of 0 would not have been released as this number, at the confidence of the interval."""
        return np.asarray(count > self.z * self.count + self.count_extra)

    def ends(self, total: Floats, count: Floats) -> tuple[Floats, Floats]:
        """Lower and upper ends; both bounds where the count does not exclude 0."""
        known = self.excludes_zero(count)
        size = np.where(known, count, 1.0 + self.z * self.count + self.count_extra)
        # A total beyond its range is read as the end of it. That is nearer to every x within, so no x is lost, and
        # the interval is as wide as the noise, where otherwise it would shrink to one end.
        seen = np.clip(total, self.low * size, self.high * size)
        lower = np.where(known, self._end(seen, size, -1.0), self.low)
        upper = np.where(known, self._end(seen, size, 1.0), self.high)
        estimate = np.clip(seen / size, self.low, self.high)
        return np.where(known, np.minimum(lower, estimate), lower), np.where(known, np.maximum(upper, estimate), upper)

    def _end(self, total: Floats, count: Floats, side: float) -> Floats:
        """The largest x (``side`` = 1) or the least (-1) within the bounds that satisfies the inequality."""
        bound = self.high if side > 0 else self.low
        # |x| is x or -x: of the two roots the one on its own side of 0 is the end.
        above, below = (self._root(total, count, side, sign) for sign in (1.0, -1.0))
        root = np.where(above >= 0.0, above, np.minimum(below, 0.0))
        if not np.isfinite(bound):
            return root
        return np.where(self._holds_at(bound, total, count, side), bound, np.clip(root, self.low, self.high))

    def _holds_at(
        self, x: float, total: Floats, count: Floats, side: float
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        beyond = side * (x * count - total) - self.total_extra - abs(x) * self.count_extra
        noise = self.total**2 + (x * self.count) ** 2
        sampling = count * (self.worst * (x - self.low) * (self.high - x) + self.known)
        return np.asarray(beyond <= self.z * np.sqrt(noise + sampling))

    def _root(self, total: Floats, count: Floats, side: float, sign: float) -> Floats:
        """A root of (N' x - S')^2 = z^2 q(x), N' and S' moved by what the lattice may add for x of this sign."""
        size, seen = count - side * sign * self.count_extra, total + side * self.total_extra
        square = self.z * self.z
        spread = count * self.worst
        low, high = (self.low, self.high) if self.worst > 0.0 else (0.0, 0.0)
        lead = size**2 + square * (spread - self.count**2)
        half = size * seen + square * spread * (low + high) / 2.0
        constant = seen**2 - square * (self.total**2 + count * self.known - spread * low * high)
        inside = np.maximum(0.0, half * half - lead * constant)
        return np.asarray((half + side * np.sqrt(inside)) / lead)


def difference_half_width(first: Noise, second: Noise, miss: float) -> float:
    """P(|first - second| > this) <= miss, from both laws: on their lattice, or on a grid that rounds outwards.

    >>> noise = Noise(DiscreteLaplace(0.5))
    >>> noise.half_width(0.05), difference_half_width(noise, noise, 0.05)
    (1.0, 2.0)
    """
    wide = max(first.deviation, second.deviation)
    common = first.step == second.step and wide <= 500.0 * first.step
    step = first.step if common else max(wide / 200.0, first.step, second.step)
    left, right = (_outward(noise, step, miss * 1e-3) for noise in (first, second))
    mass = np.convolve(left, right)
    middle = mass.size // 2
    beyond = 2.0 * np.concatenate([np.cumsum(mass[:middle:-1])[::-1], [0.0]])  # of |k| > 0, 1, 2, ...
    steps = int(np.argmax(beyond <= miss * (1.0 - 4e-3)))
    return steps * step + first.rounding + second.rounding


def _outward(noise: Noise, step: float, beyond: float) -> Floats:
    """The masses of the noise rounded away from 0 to multiples of ``step``, as far as less than ``beyond`` is left."""
    places = np.arange(math.ceil(noise.half_width(beyond) / step) + 1, dtype=np.float64)
    tails = noise.at_least(places * step + noise.step)
    side = tails[:-1] - tails[1:]
    return np.concatenate([side[::-1], [max(0.0, 1.0 - 2.0 * float(tails[0]))], side])


def _upper_tails(law: NoiseLaw, least: Floats) -> Floats:
    """P(noise >= least) for integers least >= 1, to a relative 1e-6; past the table, its last (larger) value."""
    edges, logs = _tail_table(law)
    return np.asarray(np.exp(np.interp(least, edges, logs)))


@lru_cache(maxsize=64)
def _tail_table(law: NoiseLaw) -> tuple[Floats, Floats]:
    """Points m and ln P(noise >= m). Blocks of odd width h have mass h * P(middle) to second order in h / scale."""
    width = 2 * int(law.scale / _FINE / 2.0) + 1
    firsts = 1 + width * np.arange(math.ceil(_REACH * law.scale / width) + 64, dtype=np.int64)
    with np.errstate(under="ignore"):
        masses = width * law.mass(firsts + width // 2)
    tails = np.cumsum(masses[::-1])[::-1]
    if width > 1:  # blocks are right to second order; together they have what 0 leaves
        tails *= (1.0 - float(law.mass(np.zeros(1, dtype=np.int64))[0])) / 2.0 / tails[0]
    seen = tails > 1e-280
    if not seen.any():  # noise that is 0 in doubles
        return np.array([1.0]), np.array([-math.inf])
    return firsts[seen].astype(np.float64), np.log(tails[seen])
