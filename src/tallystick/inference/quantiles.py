"""Quantiles from a noisy histogram (docs/theory/inference.md).

At an edge e the question is F(e) < p or not. Walking from the left, edges are passed while a test of level a/2 rejects
F(e) >= p; the walk misses the quantile only if the test at the first edge at or beyond it rejects, which happens with
probability at most a/2, however many edges there are. The same from the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.interval import ASYMPTOTIC, FINITE, Holds, Interval, Kind
from tallystick.inference.released import Released
from tallystick.inference.shares import SLACK, NoisyBinomial, noise_then_sampling


@dataclass(frozen=True, slots=True)
class Quantile:
    """The p-quantile of values whose noisy counts between ``edges`` are ``bins``; values outside count at the ends.

    ``of`` is the public number of values. Without it the number is the noisy total.

    >>> from tallystick.inference.released import cells
    >>> from tallystick.inference.noise import Noise
    >>> bins = cells([10, 40, 40, 10], noise=Noise.gaussian(sigma=1))
    >>> ages = Quantile(bins, edges=(0, 20, 40, 60, 80), p=0.5, of=100)
    >>> tuple(ages.noise_interval()), tuple(ages.population_interval())
    ((20.0, 60.0), (20.0, 60.0))
    """

    bins: Sequence[Released]
    edges: Sequence[float]
    p: float = 0.5
    of: int | None = None
    about: str = "the values"

    def __post_init__(self) -> None:
        edges = check.vector("edges", self.edges, "increasing numbers, one more than bins")
        if len(edges) != len(self.bins) + 1 or not np.all(np.diff(edges) > 0):
            raise InvalidInput("edges", f"{len(edges)} edges", "increasing numbers, one more than bins")
        first = self.bins[0].noise
        if any(one.noise != first or one.shown_from is not None for one in self.bins):
            raise InvalidInput("bins", "unequal or suppressed", "bins with one noise law, all of them shown")
        check.keep(self, edges=tuple(edges.tolist()), p=check.inside("p", self.p), bins=tuple(self.bins))
        if self.of is not None:
            check.keep(self, of=check.count("of", self.of, least=1))

    @property
    def value(self) -> float:
        """Value at which the running count reaches p of the total, on a line within its bin."""
        counts = np.array([max(0.0, one.value) for one in self.bins])
        if counts.sum() <= 0.0:
            raise Refused("no quantile: no bin has a positive count. Try: more budget, or wider bins")
        running = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
        return float(np.interp(self.p, running, self.edges))

    @property
    def population_value(self) -> float:
        """The value, which also estimates the population."""
        return self.value

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """The quantile of the rows in the table."""
        return self._walked(confidence, "noise", self._margins(confidence, sampled=False), ASYMPTOTIC)

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """The quantile of the population: exact tests where ``of`` is public, normal ones otherwise."""
        if self.of is None:
            return self._walked(confidence, "population", self._margins(confidence, sampled=True), ASYMPTOTIC)
        miss = 1.0 - check.inside("confidence", confidence)
        return self._walked(confidence, "population", lambda bins: self._tested(bins, miss), FINITE)

    def _walked(
        self,
        confidence: float,
        kind: Kind,
        side: Callable[[int], int],
        holds: Holds,
    ) -> Interval:
        """``side(j)`` at the upper edge of bin j - 1: -1 where F < p is shown, 1 where F >= p is, 0 where neither."""
        inner = range(1, len(self.bins))
        below = next((j for j in inner if side(j) >= 0), len(self.bins))
        above = next((j for j in reversed(inner) if side(j) <= 0), 0)
        about = f"{self.p:g}-quantile of {self.about}, to the edges of its bins"
        ends = self.edges[below - 1], self.edges[above + 1]
        return Interval(min(ends), max(ends), confidence, about, kind, holds)

    def _margins(self, confidence: float, *, sampled: bool) -> Callable[[int], int]:
        """(1 - p) below - p above, which has mean 0 at the quantile, against z deviations."""
        counts = np.array([one.value for one in self.bins])
        noise = self.bins[0].noise
        z = noise.deviations(check.inside("confidence", confidence))
        total = float(counts.sum()) if self.of is None else float(self.of)
        if total - z * math.sqrt(len(counts)) * noise.deviation <= 0.0:
            raise Refused("no interval: the noisy total is within its noise of zero. Try: more budget or more rows")

        def side(bins: int) -> int:
            below, above = float(counts[:bins].sum()), float(counts[bins:].sum())
            if self.of is None:
                found = (1.0 - self.p) * below - self.p * above
                noisy = bins * (1.0 - self.p) ** 2 + (len(counts) - bins) * self.p**2
            else:
                found, noisy = below - self.p * total, float(bins)
            spread = noisy * noise.deviation**2 + (total * self.p * (1.0 - self.p) if sampled else 0.0)
            # The least width of a step keeps a tie, where the quantile is an edge, on both sides.
            return 0 if abs(found) <= z * math.sqrt(spread) + 1e-9 * total else (1 if found > 0 else -1)

        return side

    def _tested(self, bins: int, miss: float) -> int:
        """The exact test of F = p from the count below an edge: Binomial(n, p) plus the noise of so many bins."""
        assert self.of is not None
        found = float(sum(one.value for one in self.bins[:bins]))
        noise = self.bins[0].noise.summed(bins)
        if noise is None:  # no law for the sum: its deviations, then Clopper and Pearson
            one = self.bins[0].noise
            half = one.deviations(1.0 - miss / 5.0) * one.deviation * math.sqrt(bins) + one.step  # a lattice is coarse
            low, high = noise_then_sampling(found, half, self.of, miss)
            return -1 if high < self.p else (1 if low > self.p else 0)
        law = NoisyBinomial(self.of, noise)
        if law.at_most(found, self.p) < miss / 2.0 / SLACK:
            return -1
        return 1 if law.at_least(found, self.p) < miss / 2.0 / SLACK else 0
