"""Interval of a quotient x = T / n from a noisy total T and a noisy count n (docs/theory/noisy-quotients.md).

At the true x the number S - x N has no part of the data left: it is (noise of S) - x (noise of N), and sampling where
the population is meant. The interval is the hull of all x for which that number is no larger than its law allows
(Fieller 1954). It holds for every n, also n = 0, because nothing in the argument depends on n. Where the released count
does not exclude 0 every x is possible, and the interval is all of the public bounds: it is never left out, because
intervals that are given only for counts that look large hold less often than they say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallystick.inference.noise import Floats, Noise

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
