"""Private quantiles: the exponential mechanism on a public lattice, in time of the data, not of the lattice.

The score of a lattice point t is minus the distance of alpha k from the interval [#{z < t}, #{z <= t}], k records.
Between records this is -|i - alpha k|, i records below; at a tie the whole jump counts, so all-equal data give their
value. Weight exp(-(eps/2) distance) under REPLACE (not exp(-eps distance): erratum 1). Under ADD_REMOVE one record
changes the distance by at most max(alpha, 1 - alpha), which the weight uses.

Several quantiles at once, in increasing order, by halving (Kaplan, Schnapp and Stemmer 2022): the middle quantile is
released first and splits the records in two; each side goes on with its own quantiles. Sides share no record, so a
whole level costs what one quantile costs: log2(m) + 1 levels instead of m quantiles. Equal records are put in a random
order first, each by a place it draws for itself, so that a cut can go through the middle of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.lattice import BoundedLattice
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.uniform import integer, integers
from tallystick.mechanisms.exact.weighted_choice import Weights, choose
from tallystick.mechanisms.inputs import records
from tallystick.mechanisms.select import accuracy

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cells:
    """Runs of lattice points of one score: ``counts[c]`` points from ``starts[c]``, above ``below[c]`` records."""

    starts: Indices
    counts: Indices
    below: Indices
    through: Indices
    size: int

    @staticmethod
    def of(data: Indices, first: int, last: int) -> Cells:
        """The cells of sorted lattice numbers within first..last: gap, tie, gap, tie, ..., gap.

        >>> Cells.of(np.array([2, 2, 5]), 0, 9).counts.tolist()
        [2, 1, 2, 1, 4]
        """
        ties, sizes = np.unique(data, return_counts=True)
        upto = np.concatenate(([0], np.cumsum(sizes)))
        starts = np.empty(2 * ties.size + 1, dtype=np.int64)
        starts[0], starts[1::2], starts[2::2] = first, ties, ties + 1
        counts = np.diff(np.append(starts, last + 1))
        below, through = np.empty_like(starts), np.empty_like(starts)
        below[0::2], through[0::2] = upto, upto
        below[1::2], through[1::2] = upto[:-1], upto[1:]
        return Cells(starts, counts, below, through, int(data.size))

    def weights(self, alpha: Fraction, rate: Fraction) -> Weights:
        """Number of points times exp(-rate * distance)."""
        target = alpha * self.size
        near = float(target)
        distances = np.maximum(np.maximum(self.below - near, near - self.through), 0.0)

        def exact(cell: int) -> tuple[int, Fraction]:
            distance = max(int(self.below[cell]) - target, target - int(self.through[cell]), Fraction(0))
            return int(self.counts[cell]), rate * distance

        exponents = float(rate) * distances
        error = exponents * 2.0**-50 + float(rate) * self.size * 2.0**-50
        return Weights(self.counts.astype(np.float64), exponents, error, exact)

    def draw(self, alpha: Fraction, rate: Fraction, source: Source) -> int:
        """The number of one lattice point, by the exponential mechanism."""
        cell = choose(self.weights(alpha, rate), source)
        return int(self.starts[cell]) + integer(int(self.counts[cell]), source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(Mechanism[Indices, float]):
    """A private quantile; built by :func:`quantile` and :func:`median`."""

    alpha: float
    epsilon: float
    lattice: BoundedLattice
    protects: Protects

    def __post_init__(self) -> None:
        level("alpha", self.alpha)
        check.positive("epsilon", self.epsilon)

    @property
    def privacy(self) -> PrivacyLoss:
        """An exponential mechanism: bounded range epsilon."""
        return losses.exponential(epsilon=self.epsilon, **self.protects.about)

    @property
    def rate(self) -> Fraction:
        """Exponent per record of rank error."""
        return Fraction(self.epsilon) / 2 / step(Fraction(self.alpha), self.protects.adjacency)

    def prepare(self, value: Any, *, strict: bool) -> Indices:
        return np.sort(self.lattice.indices(records("data", value, strict=strict, least=1 if strict else 0)))

    def draw(self, prepared: Indices, source: Source) -> float:
        cells = Cells.of(prepared, self.lattice.first, self.lattice.last)
        return self.lattice.value(cells.draw(Fraction(self.alpha), self.rate, source))

    def error(self, *, confidence: float) -> float:
        """With this confidence the result's rank is off by at most this many records (Theorem 7.6)."""
        return accuracy.exponential_gap(
            candidates=self.lattice.points,
            epsilon=2 * float(self.rate),
            confidence=check.inside("confidence", confidence),
        )


def level(argument: str, value: Any) -> float:
    """A quantile level, in [0, 1].

    >>> level("alpha", 0.25)
    0.25
    """
    return check.probability(argument, value)


def step(alpha: Fraction, adjacency: Adjacency) -> Fraction:
    """The most one record can change the distance of any lattice point.

    >>> step(Fraction(1, 2), Adjacency.ADD_REMOVE)
    Fraction(1, 2)
    """
    return Fraction(1) if adjacency is Adjacency.REPLACE else max(alpha, 1 - alpha)


def quantile(
    *,
    alpha: float,
    epsilon: float,
    bounds: tuple[float, float],
    granularity: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> Quantile:
    """One private quantile of data clamped to public bounds and rounded to a public lattice.

    Exact exponential mechanism (Algorithm 3 of the notes, corrected; docs/theory/quantile.md).

    >>> income = quantile(alpha=0.5, epsilon=1.0, bounds=(0, 100), granularity=0.5)
    >>> round(income.error(confidence=0.95), 1)  # records of rank
    8.3
    """
    return Quantile(
        alpha=alpha,
        epsilon=epsilon,
        lattice=BoundedLattice.over(bounds, granularity=granularity),
        protects=Protects(adjacency, unit),
    )


def median(
    *,
    epsilon: float,
    bounds: tuple[float, float],
    granularity: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> Quantile:
    """The private median: :func:`quantile` at 1/2.

    >>> median(epsilon=1.0, bounds=(0, 1)).alpha
    0.5
    """
    return quantile(alpha=0.5, epsilon=epsilon, bounds=bounds, granularity=granularity, adjacency=adjacency, unit=unit)


_MOST_LEVELS = 10_000
_TIE_BITS = 20  # equal records get one of 2^20 places each
_MOST_POINTS = 62 - _TIE_BITS  # as a power of two: places are numbered in int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(Mechanism[Indices, tuple[float, ...]]):
    """Several private quantiles; built by :func:`quantiles`."""

    alphas: tuple[float, ...]
    epsilon: float
    lattice: BoundedLattice
    tie_bits: int
    protects: Protects

    @property
    def levels(self) -> int:
        """Depth of the halving: one more than log2 of the number of quantiles, rounded down."""
        return len(self.alphas).bit_length()

    @property
    def privacy(self) -> PrivacyLoss:
        """One exponential mechanism per level; under REPLACE two of half the size, for the record may change sides."""
        uses = self.levels * (2 if self.protects.adjacency is Adjacency.REPLACE else 1)
        return uses * losses.exponential(epsilon=self.epsilon / uses, **self.protects.about)

    def rate(self, alpha: Fraction) -> Fraction:
        """Exponent per record of rank error, for one quantile inside its part of the data."""
        if self.protects.adjacency is Adjacency.REPLACE:
            return Fraction(self.epsilon / (2 * self.levels)) / 2
        return Fraction(self.epsilon / self.levels) / 2 / step(alpha, self.protects.adjacency)

    def prepare(self, value: Any, *, strict: bool) -> Indices:
        return np.sort(self.lattice.indices(records("data", value, strict=strict, least=1 if strict else 0)))

    def draw(self, prepared: Indices, source: Source) -> tuple[float, ...]:
        exact = [Fraction(alpha) for alpha in self.alphas]
        data = self.without_ties(prepared, source)
        ends = (0, (self.lattice.points << self.tie_bits) - 1)
        points = self._halve(data, exact, (Fraction(0), Fraction(1)), ends, source)
        return tuple(self.lattice.value(self.lattice.first + (point >> self.tie_bits)) for point in points)

    def without_ties(self, data: Indices, source: Source) -> Indices:
        """Each record at a random place of its own within its lattice step, in order.

        A cut between equal records then takes the share of them that its level asks for. The places are drawn record
        by record, whatever the others are, so for every outcome of them neighbours stay neighbours.
        """
        places = integers(1 << self.tie_bits, size=data.size, source=source)
        return np.sort(((data - self.lattice.first) << self.tie_bits) + places)

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
        point = Cells.of(data, *ends).draw(inside, self.rate(inside), source)
        cut = int(np.searchsorted(data, point, side="right"))
        at = alphas[middle]
        left = self._halve(data[:cut], alphas[:middle], (low, at), (ends[0], point), source)
        right = self._halve(data[cut:], alphas[middle + 1 :], (at, high), (point, ends[1]), source)
        return [*left, point, *right]

    def error(self, *, confidence: float) -> float:
        """With this confidence every result's rank is off by at most this many records.

        Each level adds its own error, and all quantiles must hold at once (union bound): levels * (2 s / eps_level)
        (ln places + ln(m / (1 - confidence))), with s = 1; ``places`` are the 2^tie_bits places of every lattice point.
        Records that draw the same place, 2^-tie_bits of all that are equal, come on top.
        """
        failure = (1 - check.inside("confidence", confidence)) / len(self.alphas)
        uses = self.levels * (2 if self.protects.adjacency is Adjacency.REPLACE else 1)
        one = accuracy.exponential_gap(
            candidates=self.lattice.points << self.tie_bits, epsilon=self.epsilon / uses, confidence=1 - failure
        )
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
    """Several private quantiles at once, at a cost that grows with the logarithm of their number.

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
    lattice = BoundedLattice.over(bounds, granularity=granularity)
    if (lattice.points - 1).bit_length() > _MOST_POINTS:
        raise InvalidInput("granularity", granularity, f"coarser steps: at most 2^{_MOST_POINTS} lattice points")
    return Quantiles(
        alphas=levels,
        epsilon=float(epsilon),
        lattice=lattice,
        tie_bits=_TIE_BITS,
        protects=Protects(adjacency, unit),
    )
