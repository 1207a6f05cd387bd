"""The noisy widened winsorised mean: an average of a few numbers whose spread is not known (Smith 2011).

Two private quartiles say where the numbers lie; the range is widened, the numbers clamped to it, and their mean gets
noise of the size one clamped number can move it. Everything happens in whole lattice steps, so sums are exact. The
neighbouring relation is REPLACE of one number; how many there are (k) is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.base import Mechanism, confidence_level
from tallystick.mechanisms.exact.discrete_gaussian import discrete_gaussian
from tallystick.mechanisms.exact.discrete_laplace import discrete_laplace
from tallystick.mechanisms.exact.grid import Grid
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import vector
from tallystick.mechanisms.noise.sensitivity import whole_sum
from tallystick.mechanisms.select.order_statistics import Cells, Indices

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_QUARTER = Fraction(1, 4)
_WIDEST = 2.0**49  # lattice steps of noise the exact samplers can make


@dataclass(frozen=True, slots=True, kw_only=True)
class WinsorizedMean(Mechanism[Indices, float]):
    """The noisy widened winsorised mean of a *public* number of numbers; built by :func:`winsorized_mean` only.

    Exactly one of ``epsilon`` (Laplace noise, pure) and ``rho`` (Gaussian noise, zCDP) is set. A quarter of it goes
    to each quartile, half to the mean.
    """

    epsilon: float | None
    rho: float | None
    grid: Grid
    widening: float
    adjacency: Adjacency
    unit: str | None

    @property
    def quartile_epsilon(self) -> float:
        """Epsilon of each quartile's exponential mechanism: eps/4, or sqrt(2 rho) so that its zCDP is rho/4."""
        return self.epsilon / 4 if self.epsilon is not None else math.sqrt(2 * (self.rho or 0.0))

    @property
    def privacy(self) -> PrivacyLoss:
        """Two exponential mechanisms and the noise on the mean."""
        about: dict[str, Any] = {"adjacency": self.adjacency, "unit": self.unit}
        quartile = losses.exponential(epsilon=self.quartile_epsilon, **about)
        if self.epsilon is not None:
            return 2 * quartile + losses.pure_dp(epsilon=self.epsilon / 2, **about)
        assert self.rho is not None
        return 2 * quartile + losses.zcdp(rho=self.rho / 2, **about)

    def prepare(self, value: Any, *, strict: bool) -> Indices:
        return np.sort(self.grid.indices(vector("value", value, strict=strict)))

    def draw(self, prepared: Indices, source: Source) -> float:
        return float(self.draw_exactly(prepared, source) * Fraction(self.grid.granularity))

    def draw_exactly(self, prepared: Indices, source: Source) -> Fraction:
        """One release in lattice steps."""
        rate = Fraction(self.quartile_epsilon) / 2
        cells = Cells.of(prepared, self.grid.first, self.grid.last)
        lower = cells.draw(_QUARTER, rate, source)
        upper = cells.draw(1 - _QUARTER, rate, source)
        low, high = self.widened(lower, upper, int(prepared.size))
        if low == high:  # nothing a number can move; its scale would be 0
            return Fraction(low)
        total = whole_sum(np.clip(prepared, low, high))
        return Fraction(total + self._noise(high - low, source), int(prepared.size))

    def widened(self, lower: int, upper: int, count: int) -> tuple[int, int]:
        """The range to clamp to: the middle of the quartiles plus or minus 4 k^{1/3 + eta} of their distance.

        A public function of released numbers, kept within the bounds.
        """
        radius = Fraction(4 * count ** (1 / 3 + self.widening)) * abs(upper - lower)
        middle = Fraction(lower + upper, 2)
        low = min(max(math.floor(middle - radius), self.grid.first), self.grid.last)
        high = max(min(math.ceil(middle + radius), self.grid.last), self.grid.first)
        return low, high

    def _noise(self, width: int, source: Source) -> int:
        """Whole lattice steps of noise on the sum, which one number can move by ``width``."""
        if self.epsilon is not None:
            return int(discrete_laplace(2 * width / Fraction(self.epsilon), size=1, source=source)[0])
        assert self.rho is not None
        return int(discrete_gaussian(math.nextafter(width / math.sqrt(self.rho), math.inf), size=1, source=source)[0])

    def error(self, *, confidence: float, count: int, width: float) -> float:
        """Half-width of the mean's own noise when the widened range is ``width`` long; falls as 1/count.

        The width is not known in advance: about 8 count^{1/3 + eta} quartile distances, at most the bounds.
        """
        failure = 1 - confidence_level(confidence)
        reach = check.nonnegative("width", width) / check.count("count", count, least=1)
        if self.epsilon is not None:
            return 2 * reach / self.epsilon * math.log(1 / failure) + self.grid.granularity
        assert self.rho is not None
        return reach * math.sqrt(2 * math.log(2 / failure) / self.rho) + self.grid.granularity


def winsorized_mean(
    *,
    bounds: tuple[float, float],
    epsilon: float | None = None,
    rho: float | None = None,
    granularity: float | None = None,
    widening: float = 0.1,
    adjacency: Adjacency = Adjacency.REPLACE,
    unit: str | None = None,
) -> WinsorizedMean:
    """Noisy widened winsorised mean (Algorithm 2 of the notes; docs/theory/winsorized-mean.md).

    >>> mechanism = winsorized_mean(bounds=(-100, 100), epsilon=1000.0)
    >>> abs(mechanism.release([4.9, 5.0, 5.0, 5.1] * 100) - 5) < 0.1
    True
    """
    if (epsilon is None) == (rho is None):
        raise InvalidInput("epsilon", epsilon, "either epsilon (Laplace) or rho (Gaussian), one of them")
    if check.adjacency(adjacency) is not Adjacency.REPLACE:
        raise Refused(
            "a mean of a private number of numbers is not private: it divides by that number; use adjacency='replace' "
            "with a public number of numbers, or subsample_and_aggregate, whose number of blocks is public"
        )
    budget = check.positive("epsilon", epsilon) if epsilon is not None else check.positive("rho", rho)
    grid = Grid.over(bounds, granularity=granularity)
    if not 2 * grid.points / min(budget, math.sqrt(budget)) <= _WIDEST:
        raise InvalidInput("granularity", grid.granularity, "coarser steps: the noise would exceed 2^49 of these")
    return WinsorizedMean(
        epsilon=None if epsilon is None else budget,
        rho=None if rho is None else budget,
        grid=grid,
        widening=check.nonnegative("widening", widening),
        adjacency=Adjacency.REPLACE,
        unit=check.unit(unit),
    )
