"""Several private quantiles at once, in increasing order, by halving (Kaplan, Schnapp and Stemmer 2022).

The middle quantile is released first and splits the records in two; each side goes on with its own quantiles. Sides
share no record, so a whole level costs what one quantile costs: log2(m) + 1 levels instead of m quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism, confidence_level
from tallystick.mechanisms.exact.grid import Grid
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import vector
from tallystick.mechanisms.select import accuracy
from tallystick.mechanisms.select.order_statistics import Cells, Indices, level, step

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_MOST_LEVELS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(Mechanism[Indices, tuple[float, ...]]):
    """Several private quantiles; built by :func:`quantiles`."""

    alphas: tuple[float, ...]
    epsilon: float
    grid: Grid
    adjacency: Adjacency
    unit: str | None

    @property
    def levels(self) -> int:
        """Depth of the halving: one more than log2 of the number of quantiles, rounded down."""
        return len(self.alphas).bit_length()

    @property
    def privacy(self) -> PrivacyLoss:
        """One exponential mechanism per level; under REPLACE two of half the size, for the record may change sides."""
        uses = self.levels * (2 if self.adjacency is Adjacency.REPLACE else 1)
        return uses * losses.exponential(epsilon=self.epsilon / uses, adjacency=self.adjacency, unit=self.unit)

    def rate(self, alpha: Fraction) -> Fraction:
        """Exponent per record of rank error, for one quantile inside its part of the data."""
        if self.adjacency is Adjacency.REPLACE:
            return Fraction(self.epsilon / (2 * self.levels)) / 2
        return Fraction(self.epsilon / self.levels) / 2 / step(alpha, self.adjacency)

    def prepare(self, value: Any, *, strict: bool) -> Indices:
        return np.sort(self.grid.indices(vector("data", value, strict=strict, least=1 if strict else 0)))

    def draw(self, prepared: Indices, source: Source) -> tuple[float, ...]:
        exact = [Fraction(alpha) for alpha in self.alphas]
        found = self._halve(prepared, exact, (Fraction(0), Fraction(1)), (self.grid.first, self.grid.last), source)
        return tuple(self.grid.value(index) for index in found)

    def _halve(
        self,
        data: Indices,
        alphas: list[Fraction],
        share: tuple[Fraction, Fraction],
        ends: tuple[int, int],
        source: Source,
    ) -> list[int]:
        """Quantiles ``alphas`` of the whole data, of which ``data`` is the part between the levels ``share``."""
        if not alphas:
            return []
        middle = len(alphas) // 2
        low, high = share
        inside = (alphas[middle] - low) / (high - low) if high > low else Fraction(1, 2)
        found = Cells.of(data, *ends).draw(inside, self.rate(inside), source)
        cut = int(np.searchsorted(data, found, side="right"))
        at = alphas[middle]
        left = self._halve(data[:cut], alphas[:middle], (low, at), (ends[0], found), source)
        right = self._halve(data[cut:], alphas[middle + 1 :], (at, high), (found, ends[1]), source)
        return [*left, found, *right]

    def error(self, *, confidence: float) -> float:
        """With this confidence every result's rank is off by at most this many records.

        Each level adds its own error, and all quantiles must hold at once (union bound): levels * (2 s / eps_level)
        (ln points + ln(m / (1 - confidence))), with s = 1.
        """
        failure = (1 - confidence_level(confidence)) / len(self.alphas)
        uses = self.levels * (2 if self.adjacency is Adjacency.REPLACE else 1)
        one = accuracy.exponential_gap(candidates=self.grid.points, epsilon=self.epsilon / uses, confidence=1 - failure)
        return self.levels * one


def quantiles(
    *,
    alphas: Sequence[float],
    epsilon: float,
    bounds: tuple[float, float],
    granularity: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> Quantiles:
    """Several private quantiles at once, at a price that grows with the logarithm of their number.

    docs/theory/quantile.md

    >>> deciles = quantiles(alphas=[i / 10 for i in range(1, 10)], epsilon=1.0, bounds=(0, 1))
    >>> deciles.levels
    4
    """
    allowed = f"between 1 and {_MOST_LEVELS} increasing levels in [0, 1]"
    try:
        given = tuple(alphas)
    except TypeError:
        raise InvalidInput("alphas", alphas, allowed) from None
    if not 1 <= len(given) <= _MOST_LEVELS:
        raise InvalidInput("alphas", f"{len(given)} levels", allowed)
    levels = tuple(level("alphas", alpha) for alpha in given)
    if any(left >= right for left, right in pairwise(levels)):
        raise InvalidInput("alphas", levels, allowed)
    check.positive("epsilon", epsilon)
    return Quantiles(
        alphas=levels,
        epsilon=float(epsilon),
        grid=Grid.over(bounds, granularity=granularity),
        adjacency=check.adjacency(adjacency),
        unit=check.unit(unit),
    )
