"""Numbers with noise added by their owner (Example 4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.integer_noise import discrete_laplace
from tallystick.mechanisms.exact.lattice import COARSEST_NOISY, BoundedLattice, lower_and_upper
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import records
from tallystick.mechanisms.response.estimates import Estimate, mean_laplace_width

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLaplace(Mechanism[Codes, Any]):
    """Numbers with noise added by their owner (Example 4.2); built by :func:`laplace`."""

    epsilon: float
    bounds: tuple[float, float]
    lattice: BoundedLattice
    unit: str | None

    @property
    def privacy(self) -> PrivacyLoss:
        """The discrete Laplace pair at the width of the bounds, per person."""
        return losses.discrete_laplace(
            scale=float(self.steps), sensitivity=self.lattice.points - 1, adjacency=Adjacency.REPLACE, unit=self.unit
        )

    @property
    def steps(self) -> float:
        """Scale of the noise in lattice steps, rounded up to a float."""
        return math.nextafter((self.lattice.points - 1) / self.epsilon, math.inf)

    def prepare(self, value: Any, *, strict: bool) -> Codes:
        return self.lattice.indices(np.clip(records("answers", value, strict=strict), *self.bounds))

    def draw(self, prepared: Codes, source: Source) -> NDArray[np.float64]:
        noisy = prepared + discrete_laplace(self.steps, size=prepared.size, source=source)
        return np.asarray(noisy * self.lattice.granularity, dtype=np.float64)

    def estimate(self, reports: Any, *, confidence: float = 0.95) -> Estimate:
        """Unbiased mean of the people who reported; the interval is a Chernoff bound, so it never covers too seldom."""
        numbers = records("reports", reports, strict=True)
        mean, count = float(numbers.mean()), int(numbers.size)
        width = self.error(confidence=confidence, reports=count)
        lower, upper = self.bounds
        spread = self.steps * self.lattice.granularity * math.sqrt(2 / count)
        return Estimate(
            values=np.array([mean]),
            standard_errors=np.array([spread]),
            lower=np.clip(np.array([mean - width]), lower, upper),
            upper=np.clip(np.array([mean + width]), lower, upper),
            confidence=confidence,
            reports=count,
        )

    def error(self, *, confidence: float, reports: int) -> float:
        """Half-width of the mean's noise, plus half a lattice step of rounding."""
        count = check.count("reports", reports, least=1)
        scale = self.steps * self.lattice.granularity
        return mean_laplace_width(scale, reports=count, confidence=confidence) + self.lattice.granularity / 2


def laplace(
    *, epsilon: float, bounds: tuple[float, float], granularity: float | None = None, unit: str | None = None
) -> LocalLaplace:
    """Numbers in public bounds, each with discrete Laplace noise of scale (b - a) / eps (Example 4.2).

    >>> len(laplace(epsilon=1.0, bounds=(0, 1)).release([0.2, 0.4]))
    2
    """
    price, ends = check.positive("epsilon", epsilon), lower_and_upper("bounds", bounds)
    # The lattice reaches past both bounds, so that a number at a bound is rounded like any other.
    lattice = BoundedLattice.over(ends, granularity=granularity, outward=True)
    if lattice.granularity > COARSEST_NOISY:
        raise InvalidInput("bounds", bounds, "bounds below 1e270: noise must not reach infinity")
    if not lattice.points / price <= 2.0**49:
        raise InvalidInput("granularity", granularity, "coarser steps: the noise would exceed 2^49 of these")
    if lattice.points == 1 or (lattice.points - 1) / price < 1e-6:
        raise InvalidInput("epsilon", epsilon, "a smaller number, or finer steps: there would be no noise")
    return LocalLaplace(epsilon=price, bounds=ends, lattice=lattice, unit=check.unit(unit))
