"""The noisy widened winsorised mean: an average of a few numbers whose spread is not known (Smith 2011).

Two private quartiles say where the numbers lie; the range is widened, the numbers clamped to it, and their mean gets
noise of the size one clamped number can move it. Everything happens in whole lattice steps, so sums are exact. The
neighbouring relation is REPLACE of one number; how many there are (k) is public.

Without public bounds, for (epsilon, delta) (Remark 8.3): a histogram of the size of the numbers' differences (powers of
two) gives a scale, a histogram in bins of that scale a place. Both have infinitely many bins, so they need a delta
(:mod:`tallystick.mechanisms.keys.counts`). When no bin is heavy enough the release is None, an outcome like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.digits import typed
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.integer_noise import discrete_gaussian, discrete_laplace
from tallystick.mechanisms.exact.lattice import COARSEST_NOISY, BoundedLattice, root_up
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import records
from tallystick.mechanisms.keys.counts import StableCounts, stable_counts
from tallystick.mechanisms.keys.partition import proper_delta
from tallystick.mechanisms.noise.sensitivity import whole_sum
from tallystick.mechanisms.select.order_statistics import Cells, Indices

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_QUARTER = Fraction(1, 4)
_QUARTILES = 2 * 0.6744897501960817  # the distance of a normal law's, in its deviations
_WIDENING = 10.0
_WIDEST = 2.0**49  # lattice steps of noise the exact samplers can make


@dataclass(frozen=True, slots=True, kw_only=True)
class WinsorizedMean(Mechanism[Indices, float]):
    """The noisy widened winsorised mean of a *public* number of numbers; built by :func:`winsorized_mean` only.

    Exactly one of ``epsilon`` (Laplace noise, pure) and ``rho`` (Gaussian noise, zCDP) is set. A quarter of it goes
    to each quartile, half to the mean.
    """

    epsilon: float | None
    rho: float | None
    lattice: BoundedLattice
    widening: float
    protects: Protects

    @property
    def quartile_epsilon(self) -> float:
        """Epsilon of each quartile's exponential mechanism: eps/4, or sqrt(2 rho) so that its zCDP is rho/4."""
        return self.epsilon / 4 if self.epsilon is not None else math.sqrt(2 * (self.rho or 0.0))

    @property
    def privacy(self) -> PrivacyLoss:
        """Two exponential mechanisms and the noise on the mean."""
        about = self.protects.about
        quartile = losses.exponential(epsilon=self.quartile_epsilon, **about)
        if self.epsilon is not None:
            return 2 * quartile + losses.pure_dp(epsilon=self.epsilon / 2, **about)
        assert self.rho is not None
        return 2 * quartile + losses.zcdp(rho=self.rho / 2, **about)

    def prepare(self, value: Any, *, strict: bool) -> Indices:
        return np.sort(self.lattice.indices(records("value", value, strict=strict)))

    def draw(self, prepared: Indices, source: Source) -> float:
        return float(self.draw_exactly(prepared, source) * Fraction(self.lattice.granularity))

    def draw_exactly(self, prepared: Indices, source: Source) -> Fraction:
        """One release in lattice steps."""
        rate = Fraction(self.quartile_epsilon) / 2
        cells = Cells.of(prepared, self.lattice.first, self.lattice.last)
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
        low = min(max(math.floor(middle - radius), self.lattice.first), self.lattice.last)
        high = max(min(math.ceil(middle + radius), self.lattice.last), self.lattice.first)
        return low, high

    def _noise(self, width: int, source: Source) -> int:
        """Whole lattice steps of noise on the sum, which one number can move by ``width``."""
        if self.epsilon is not None:
            return int(discrete_laplace(2 * width / Fraction(self.epsilon), size=1, source=source)[0])
        assert self.rho is not None
        sigma = root_up(Fraction(width) ** 2 / Fraction(self.rho))  # width^2 / (2 sigma^2) is at most rho / 2
        return int(discrete_gaussian(sigma, size=1, source=source)[0])

    def error(self, *, confidence: float, count: int, width: float) -> float:
        """Half-width of the mean's own noise when the widened range is ``width`` long; falls as 1/count.

        The width is not known in advance: about 8 count^{1/3 + eta} quartile distances, at most the bounds.
        """
        failure = 1 - check.inside("confidence", confidence)
        reach = check.nonnegative("width", width) / check.count("count", count, least=1)
        if self.epsilon is not None:
            return 2 * reach / self.epsilon * math.log(1 / failure) + self.lattice.granularity
        assert self.rho is not None
        return reach * math.sqrt(2 * math.log(2 / failure) / self.rho) + self.lattice.granularity


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
    lattice = BoundedLattice.over(bounds, granularity=granularity)
    if not 2 * lattice.points / min(budget, math.sqrt(budget)) <= _WIDEST:
        raise InvalidInput("granularity", lattice.granularity, "coarser steps: the noise would exceed 2^49 of these")
    if lattice.granularity > COARSEST_NOISY:
        raise InvalidInput("bounds", bounds, "bounds below 1e270: noise must not reach infinity")
    if not check.nonnegative("widening", widening) <= _WIDENING:
        raise InvalidInput("widening", widening, f"a number from 0 to {typed(_WIDENING)}")
    return WinsorizedMean(
        epsilon=None if epsilon is None else budget,
        rho=None if rho is None else budget,
        lattice=lattice,
        widening=float(widening),
        protects=Protects(Adjacency.REPLACE, unit),
    )


def noise_over_sampling(
    *, count: int, widening: float, epsilon: float | None = None, rho: float | None = None
) -> float:
    """The mean's noise over the deviation of one of ``count`` normal numbers over sqrt(count), if the bounds are wide.

    The range is 8 k^{1/3 + eta} quartile distances, each 1.349 deviations: 30.5/epsilon k^{eta - 1/6} for Laplace and
    10.8/sqrt(rho) k^{eta - 1/6} for Gaussian noise, which falls so slowly that it is large for every real number of
    records.

    >>> round(noise_over_sampling(count=251, widening=0.1, epsilon=1.0), 1)
    21.1
    """
    unit = 8.0 * _QUARTILES * math.pow(count, widening - 1.0 / 6.0)
    return unit * (2.0 * math.sqrt(2.0) / epsilon if epsilon is not None else 1.0 / math.sqrt(rho or math.inf))


_EXPONENTS = (-960, 900)  # sizes outside these powers of two are counted at the end, so that ranges stay finite
_FARTHEST = 2.0**900
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
        about = Protects(Adjacency.REPLACE, self.unit).about
        histogram = self.histogram
        assert histogram.scale is not None
        bins = 4 * losses.discrete_laplace(scale=histogram.scale, **about)
        reveals = 4 * losses.approx_dp(epsilon=0.0, delta=histogram.lone_probability, **about)
        mean = winsorized_mean(bounds=(0.0, 1.0), epsilon=self.epsilon / 2, unit=self.unit)  # bounds have no price
        return bins + reveals + mean.privacy

    def prepare(self, value: Any, *, strict: bool) -> NDArray[np.float64]:
        numbers = records("value", value, strict=strict, least=2)
        if strict and np.abs(numbers).max() > _FARTHEST:
            raise InvalidInput("value", "a number beyond 8e270", "smaller numbers: beyond, no bin is fine enough")
        return np.clip(numbers, -_FARTHEST, _FARTHEST)

    def draw(self, prepared: NDArray[np.float64], source: Source) -> float | None:
        half = prepared.size // 2
        exponent = self._heaviest(_sizes(prepared[:half], prepared[half : 2 * half]), source)
        if exponent is None:
            return None
        width = 2.0 ** (exponent + 1)
        with np.errstate(over="ignore"):
            bins = np.clip(np.floor(prepared / width), -_BINS, _BINS)
        centre_bin = self._heaviest(bins, source)
        if centre_bin is None:
            return None
        mean = self.near(centre_bin, width)
        return mean.draw(mean.prepare(prepared, strict=False), source)

    def error(self, *, confidence: float, count: int, width: float) -> float:
        """Half-width of the mean's noise over ``count`` numbers when the range found is at most ``width`` long."""
        unit = self.near(0, 1.0).error(confidence=confidence, count=count, width=1.0)
        return check.nonnegative("width", width) * unit

    def _heaviest(self, bins: NDArray[Any], source: Source) -> int | None:
        """The bin with the largest noisy count among those that may be shown."""
        occupied, counts = np.unique(bins, return_counts=True)
        sizes = {int(bin_): int(count) for bin_, count in zip(occupied, counts, strict=True)}
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
        raise InvalidInput("epsilon", epsilon, f"a number from {typed(_LEAST)} to {1 / _LEAST:g}")
    mechanism = UnboundedWinsorizedMean(epsilon=price, delta=proper_delta(delta), unit=check.unit(unit))
    mechanism.near(0, 1.0)  # what a release will build must be buildable: nothing may fail after a charge
    _ = mechanism.histogram
    return mechanism
