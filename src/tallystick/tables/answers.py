"""A cell of a release for ``ts.inference``: which one, and what the plan knows about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.interval import ASYMPTOTIC, Interval, Kind
from tallystick.inference.means import Mean
from tallystick.inference.noise import Noise
from tallystick.inference.released import SELECTED, Answer, Released

if TYPE_CHECKING:
    from tallystick.tables.estimates import Noisy
    from tallystick.tables.release import Release


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a group. ``threshold`` chose the groups by their noisy number of units, if they were chosen."""

    row: int
    place: int
    about: str
    of: int | None
    threshold: int | None
    rows_per_unit: int
    sample: str

    def count(self, noisy: Noisy) -> Released:
        """A count, or a share of ``of`` units."""
        if self.of is not None and self.threshold is not None:
            raise Refused(SELECTED)
        return self._released(noisy, self.of, None)

    def compared(self, noisy: Noisy) -> Released:
        """The number of units that was compared with the threshold itself."""
        return self._released(noisy, self.of, self.threshold)

    def total(self, noisy: Noisy) -> Released:
        """A number that is not a count."""
        if self.of is not None:
            raise InvalidInput("of", self.of, "nothing: it is for counts")
        return self._released(noisy, None, None)

    def _released(self, noisy: Noisy, of: int | None, least: int | None) -> Released:
        value = float(noisy.table[self.row, self.place])
        return Released(value, Noise(noisy.law, noisy.scale), self.about, of, least, self.sample)


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance, or its root, from the means of a clamped column and of its square, both less the lower bound.

    Each mean misses with at most half the probability, so both hold together (Bonferroni).
    """

    mean: Mean
    square: Mean
    root: bool
    about: str

    @property
    def value(self) -> float:
        """Mean of squares less square of the mean, at least 0."""
        return self._read(self.square.value - self.mean.value**2)

    @property
    def population_value(self) -> float:
        """The released number."""
        return self.value

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """Interval for the rows that are in the table."""
        sure = (1.0 + check.inside("confidence", confidence)) / 2.0
        ends = self.mean.noise_interval(confidence=sure), self.square.noise_interval(confidence=sure)
        return self._between(*ends, confidence)

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """Interval for the clamped population, if the units are independent draws from it."""
        sure = (1.0 + check.inside("confidence", confidence)) / 2.0
        ends = self.mean.population_interval(confidence=sure), self.square.population_interval(confidence=sure)
        return self._between(*ends, confidence)

    def _between(self, mean: Interval, square: Interval, confidence: float) -> Interval:
        low, high = square.lower - mean.upper**2, square.upper - mean.lower**2
        if high <= 0.0 or low >= self.mean.bounds[1] ** 2 / 4.0:
            low, high = 0.0, math.inf  # only noise contradicts itself so, and one end alone would read as certainty
        return Interval(self._read(low), self._read(high), confidence, self.about, mean.kind, ASYMPTOTIC)

    def _read(self, variance: float) -> float:
        if math.isnan(variance):
            return variance  # the released count does not exclude 0: there is no value
        inside = min(max(0.0, variance), self.mean.bounds[1] ** 2 / 4.0)
        return math.sqrt(inside) if self.root else inside


@dataclass(frozen=True, slots=True)
class TreeQuantile:
    """A quantile from a noisy tree of ``height`` levels; ``ends`` finds it, and what a margin of rows leaves open.

    At the quantile, rows below less p times all of them have mean 0 over sampling; their variance is at most
    k N p (1 - p) where a unit has up to k rows (Cauchy and Schwarz), and the noise adds its own
    (docs/theory/query-intervals.md).
    """

    p: float
    about: str
    noise: Noise
    height: int
    total: float
    rows_per_unit: int
    ends: Callable[[float], tuple[float, float, float]]

    @property
    def value(self) -> float:
        """Value at which the running count reaches p of the total."""
        return self.ends(0.0)[0]

    @property
    def population_value(self) -> float:
        """The released number."""
        return self.value

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """The quantile of the rows in the table."""
        z = self.noise.deviations(check.inside("confidence", confidence))
        return self._within(z * self._noise, confidence, "noise")

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """The quantile of the clamped population, if the units are independent draws from it."""
        z = self.noise.deviations(check.inside("confidence", confidence))
        most = self.total + z * math.sqrt(2.0) * self.noise.deviation  # the total is a sum of two nodes
        sampled = self.rows_per_unit * most * self.p * (1.0 - self.p)
        # half a unit: a count of few is as skew as a Poisson one
        margin = z * math.sqrt(self._noise**2 + sampled) + self.rows_per_unit / 2.0
        return self._within(margin, confidence, "population")

    def share_margin(self, *, confidence: float = 0.95) -> float:
        """Largest distance from ``p`` of the share of rows below the quantile that the noise allows; at most 1.

        The running count and the total are both noisy, and each of their margins misses with half the probability.
        """
        z = self.noise.deviations((1.0 + check.inside("confidence", confidence)) / 2.0)
        least = self.total - z * math.sqrt(2.0) * self.noise.deviation
        return min(1.0, z * self._noise / least) if least > 0.0 else 1.0

    @property
    def _noise(self) -> float:
        return self.noise.deviation * math.sqrt(self.height) * math.hypot(self.p, 1.0 - self.p)

    def _within(self, margin: float, confidence: float, kind: Kind) -> Interval:
        if self.total <= self.noise.deviations(confidence) * math.sqrt(2.0) * self.noise.deviation:
            raise Refused("no interval: the noisy total is within its noise of zero. Try: more budget or more rows")
        _, low, high = self.ends(margin)
        return Interval(low, high, confidence, f"{self.p:g}-quantile of {self.about}", kind, ASYMPTOTIC)


def answers_of(release: Release, field: str, of: int | None) -> dict[tuple[Any, ...], Answer]:
    """One column, group by group."""
    plan, query = release.plan, release.plan.query
    fields = {one: (measure, i) for name, measure in query.measures for i, one in enumerate(measure.fields(name))}
    if field not in fields:
        raise InvalidInput("field", field, f"one of {', '.join(fields)}")
    measure, place = fields[field]
    once = query.caps.max_groups == 1 and query.caps.max_rows == 1
    if of is not None and not once:
        raise Refused("no public share: of= needs a count in which a unit counts once (limits of 1 group and 1 row)")
    sample = plan.hash if release.receipt is None else str(release.receipt.charge)
    cells = (
        Cell(row, place, " ".join([field, *map(str, key)]), of, plan.threshold, query.caps.max_rows, sample)
        for row, key in enumerate(release.keys)
    )
    return {key: measure.answer(release.numbers, cell) for key, cell in zip(release.keys, cells, strict=True)}
