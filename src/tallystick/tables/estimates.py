"""Values with intervals from noisy integers. Everything here is post-processing and costs nothing.

An interval covers the capped, clamped and quantised quantity at its nominal rate over the privacy noise alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.noise.laws import NoiseLaw

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Noisy:
    """Noisy integers of one part (groups x width), their law, and the size of one step."""

    values: NDArray[np.int64]
    law: NoiseLaw
    scale: float

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
    """One noisy number and its own interval."""
    half = noisy.half_width(1.0 - confidence)
    return Estimate(noisy.column, noisy.column - half, noisy.column + half)


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
