"""The winsorised mean without public bounds, for (epsilon, delta) (Remark 8.3).

Where the numbers lie is found privately first: a histogram of the size of their differences (powers of two) gives a
scale, a histogram in bins of that scale a place. Both have infinitely many bins, so they need a delta
(:mod:`tallystick.mechanisms.keys.counts`). When no bin is heavy enough the release is None: an outcome like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.aggregate.winsorized import WinsorizedMean, winsorized_mean
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import vector
from tallystick.mechanisms.keys.counts import StableCounts, stable_counts
from tallystick.mechanisms.keys.partition import proper_delta

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_EXPONENTS = (-960, 900)  # sizes outside these powers of two are counted at the end, so that ranges stay finite
_BINS = 2.0**48
_LEAST = 1e-6  # less needs more noise than the exact samplers make
_MARGIN = 4  # bins on each side of the heaviest that the mean may use
_FINE = 16  # lattice steps per bin, as a power of two


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundedWinsorizedMean(Mechanism[NDArray[np.float64], "float | None"]):
    """Winsorised mean with a privately found range; built by :func:`unbounded_winsorized_mean`."""

    epsilon: float
    delta: float
    unit: str | None

    @property
    def histogram(self) -> StableCounts:
        """Each of the two histograms: replacing a number moves one unit from one bin to another, so two bins change."""
        return stable_counts(epsilon=self.epsilon / 4, delta=self.delta / 2, max_keys=2, unit=self.unit)

    @property
    def privacy(self) -> PrivacyLoss:
        """Two histograms of (epsilon/4, delta/2) and a winsorised mean of epsilon/2, REPLACE of one number."""
        about: dict[str, Any] = {"adjacency": Adjacency.REPLACE, "unit": self.unit}
        histogram = self.histogram
        assert histogram.scale is not None
        bins = 4 * losses.discrete_laplace(scale=histogram.scale, **about)
        reveals = 4 * losses.approx_dp(epsilon=0.0, delta=histogram.lone_probability, **about)
        mean = winsorized_mean(bounds=(0.0, 1.0), epsilon=self.epsilon / 2, unit=self.unit)  # bounds have no price
        return bins + reveals + mean.privacy

    def prepare(self, value: Any, *, strict: bool) -> NDArray[np.float64]:
        return vector("value", value, strict=strict, least=2)

    def draw(self, prepared: NDArray[np.float64], source: Source) -> float | None:
        half = prepared.size // 2
        exponent = self._heaviest(_sizes(prepared[:half], prepared[half : 2 * half]), source)
        if exponent is None:
            return None
        width = 2.0 ** (exponent + 1)
        with np.errstate(over="ignore"):
            bins = np.clip(np.floor(prepared / width), -_BINS, _BINS)
        place = self._heaviest(bins, source)
        if place is None:
            return None
        mean = self.near(place, width)
        return mean.draw(mean.prepare(prepared, strict=False), source)

    def error(self, *, confidence: float, count: int, width: float) -> float:
        """Half-width of the mean's noise over ``count`` numbers when the range found is at most ``width`` long."""
        unit = self.near(0, 1.0).error(confidence=confidence, count=count, width=1.0)
        return check.nonnegative("width", width) * unit

    def _heaviest(self, bins: NDArray[Any], source: Source) -> int | None:
        """The bin with the largest noisy count among those that may be shown."""
        found, counts = np.unique(bins, return_counts=True)
        sizes = {int(bin_): int(count) for bin_, count in zip(found, counts, strict=True)}
        histogram = self.histogram
        shown = histogram.draw(histogram.prepare(sizes, strict=False), source)
        return max(shown, key=lambda bin_: shown[bin_]) if shown else None  # type: ignore[return-value]

    def near(self, place: int, width: float) -> WinsorizedMean:
        """The winsorised mean on the bins around a place."""
        low, high = (place - _MARGIN) * width, (place + 1 + _MARGIN) * width
        # at most 2^52 lattice steps to the farther bound: a place far from 0 gets a coarser lattice
        coarsest = 2.0 ** (math.ceil(math.log2(max(abs(low), abs(high)))) - 52)
        granularity = max(width * 2.0**-_FINE, coarsest)
        return winsorized_mean(bounds=(low, high), epsilon=self.epsilon / 2, granularity=granularity, unit=self.unit)


def _sizes(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.int64]:
    """Power of two of each pair's distance, at least 2^-40 of the numbers (equal ones have no distance)."""
    largest = np.frexp(np.maximum(np.abs(left), np.abs(right)))[1].astype(np.int64) - 40
    apart = np.abs(left - right)
    sizes = np.where(apart > 0, np.maximum(np.frexp(apart)[1], largest), largest)
    nothing = (left == 0) & (right == 0)
    return np.where(nothing, _EXPONENTS[0], np.clip(sizes, *_EXPONENTS))


def unbounded_winsorized_mean(*, epsilon: float, delta: float, unit: str | None = None) -> UnboundedWinsorizedMean:
    """A private mean of numbers with no public bounds, or None when they are too few or too scattered to place.

    docs/theory/winsorized-mean.md

    >>> import numpy as np
    >>> mechanism = unbounded_winsorized_mean(epsilon=50.0, delta=1e-6)
    >>> abs(mechanism.release(1e6 + np.linspace(-1, 1, 999)) - 1e6) < 1
    True
    """
    price = check.positive("epsilon", epsilon)
    if not _LEAST <= price <= 1 / _LEAST:
        raise InvalidInput("epsilon", epsilon, f"a number from {_LEAST:g} to {1 / _LEAST:g}")
    mechanism = UnboundedWinsorizedMean(epsilon=price, delta=proper_delta(delta), unit=check.unit(unit))
    mechanism.near(0, 1.0)  # what a release will build must be buildable: nothing may fail after a charge
    _ = mechanism.histogram
    return mechanism
