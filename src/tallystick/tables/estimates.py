"""Values with intervals from noisy integers. Everything here is post-processing and costs nothing.

Quantiles are read from a noisy binary tree of counts along a line, which has levels of 2, 4, ..., 2^h nodes, all with
the same noise. The leaves are those of least squares (``inference.linear.tree_leaves``). No unbiased estimate of a
prefix count has a smaller variance, in particular not the sum of at most h nodes, so h times the variance of a node
bounds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.inference.linear import half_width
from tallystick.inference.noise import Floats, Noise, Quotient
from tallystick.inference.suppressed import kept_values
from tallystick.mechanisms.noise.law import NoiseLaw
from tallystick.tables.parts import Integers


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

    @classmethod
    def around(cls, value: Floats, half: float) -> Estimate:
        """Return values with intervals of one half-width."""
        return cls(value, value - half, value + half)

    def map(self, function: Callable[[Floats], Any]) -> Estimate:
        """Return the estimate of an increasing function of the number."""
        return Estimate(function(self.value), function(self.lower), function(self.upper))

    def first(self) -> tuple[float, float, float]:
        """Return value and interval of the first group."""
        return float(self.value[0]), float(self.lower[0]), float(self.upper[0])

    def clipped(self, low: float, high: float) -> Estimate:
        """Return the estimate pulled into a public range; if the interval is outside, all of the range is open."""
        inside = self.map(lambda end: np.clip(end, low, high))
        # only noise can put the whole interval beyond what is possible: one end alone would read as certainty
        outside = (self.upper <= low) | (self.lower >= high)
        return Estimate(inside.value, np.where(outside, low, inside.lower), np.where(outside, high, inside.upper))

    def unless_hidden(self, low: float, high: float) -> Estimate:
        """Return the estimate without a value where its interval is all of the public bounds.

        >>> ages = Estimate(np.array([0.2, 40.0]), np.array([0.0, 31.0]), np.array([110.0, 52.0]))
        >>> ages.unless_hidden(0.0, 110.0).value.tolist()
        [nan, 40.0]
        """
        is_hidden = (self.lower <= low) & (self.upper >= high)
        return Estimate(np.where(is_hidden, np.nan, self.value), self.lower, self.upper)

    def whole(self) -> Estimate:
        """Return the estimate for people, of numbers that are whole in the data: the interval is rounded outward."""
        return Estimate(np.rint(self.value), np.floor(self.lower), np.ceil(self.upper))


def plain(noisy: Noisy, confidence: float) -> Estimate:
    """One noisy number and its own interval; where only large ones are shown, that of the law given that."""
    if noisy.shown_from is not None:
        return _survivors(noisy, noisy.shown_from, 1.0 - confidence)
    return Estimate.around(noisy.column, noisy.half_width(1.0 - confidence))


def cut_at_zero(value: float, lower: float, upper: float) -> tuple[float, float]:
    """Ends of a count's interval for a reader, cut at 0.

    A value below 0 is read as 0, with the same distance to the upper end. 0 is nearer to every count than the value is,
    so the cut interval holds the count whenever the uncut interval does.

    >>> cut_at_zero(-3, -23, 17), cut_at_zero(5, -15, 25), cut_at_zero(90, 70, 110)
    ((0, 20), (0, 25), (70, 110))
    """
    return max(lower, 0), upper - min(value, 0)


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
    errors, steps = (total.deviation, lower * present.deviation), 0.5 * (total.scale + abs(lower) * present.scale)
    return Estimate.around(value, half_width(total.law.deviations(confidence), errors, steps))


def ratio(top: Noisy, bottom: Noisy, most: float, confidence: float) -> Estimate:
    """top / bottom in [0, most] with an interval that holds for every count (docs/theory/noisy-quotients.md).

    Where the released denominator does not exclude 0 there is no value, and the interval is all of [0, most].
    """
    total, count = Noise(top.law, top.scale), Noise(bottom.law, bottom.scale)
    quotient = Quotient.of(total, count, confidence, 0.0, most)
    lower, upper = quotient.ends(top.column, bottom.column)
    known = quotient.excludes_zero(bottom.column)
    size = np.where(known, bottom.column, 1.0)
    value = np.where(known, np.clip(top.column / size, 0.0, most), np.nan)
    return Estimate(value, lower, upper)


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
