"""The mean of clamped values from a noisy total and a count that is noisy or public (docs/theory/inference.md).

Values lie in [L, U] after clamping; the total is of values less ``origin``. At the true mean m the number
S - (m - origin) N has mean 0 and variance N v + s_S^2 + (m - origin)^2 s_N^2, v the variance of a value. All m whose
square is at most z^2 times that form the interval (Fieller 1954). Without a released second moment v is replaced by
(m - L)(U - m), which no law on [L, U] with mean m exceeds (Bhatia and Davis 2000), inside the inequality: the plug-in
at the estimate fails near the ends. For the population half a row, (U - L) / 2N, is added on both sides: values that
pile up at a bound are as skew as a Poisson count. Where a unit has up to k rows the sampling part is k times that of
independent rows, by Cauchy and Schwarz. Where the released count does not exclude 0 the interval is all of the bounds
and the mean has no value (docs/theory/noisy-quotients.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.inference.interval import ASYMPTOTIC, FINITE, Holds, Interval
from tallystick.inference.noise import NO_VALUE, Noise, Quotient
from tallystick.inference.released import Released


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of values clamped to ``bounds``: ``total`` of (value - origin) over ``count``, released or a public int.

    ``squares``, where released, is the total of (value - origin)^2; it makes the population interval shorter.
    ``rows_per_unit`` is how many rows one unit may have: units are sampled, not rows, and their rows may be alike.

    >>> from tallystick.inference.noise import NO_VALUE, Noise, Quotient
    >>> stay = Mean(Released(4000, Noise.gaussian(sigma=50)), count=1000, bounds=(0, 20), about="days in hospital")
    >>> print(stay.noise_interval())
    3.90 to 4.10: mean of days in hospital clamped to [0, 20] (95 % noise interval: privacy noise only, finite-sample)
    >>> stay.population_interval().about
    'mean of days in hospital clamped to [0, 20]'
    """

    total: Released
    count: Any
    bounds: tuple[float, float]
    origin: float = 0.0
    squares: Released | None = None
    about: str = "the values"
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        low, high = (check.finite("bounds", end) for end in self.bounds)
        if not low < high:
            raise InvalidInput("bounds", self.bounds, "a lower bound below an upper bound")
        for name, part in (("total", self.total), ("squares", self.squares), ("count", self.count)):
            if isinstance(part, Released) and part.shown_from is not None:
                raise InvalidInput(name, "a suppressed cell", "numbers that are shown for every value")
        if not isinstance(self.total, Released) or not isinstance(self.squares, Released | None):
            raise InvalidInput("total", self.total, "a Released total (and a Released total of squares, or none)")
        if not isinstance(self.count, Released):
            check.keep(self, count=check.count("count", self.count, least=1))
        check.count("rows_per_unit", self.rows_per_unit, least=1)
        check.keep(self, bounds=(low, high), origin=check.finite("origin", self.origin))

    @property
    def value(self) -> float:
        """Origin plus total over count, pulled into the bounds; NaN where the released count does not exclude 0."""
        return self._clamped(self._size) if self.has_value else math.nan

    @property
    def has_value(self) -> bool:
        """True if the released count excludes 0 at 95 %; a public count always does."""
        return self._excludes_zero(0.95)

    @property
    def population_value(self) -> float:
        """The released number, which estimates the mean of the clamped population."""
        return self.value

    @property
    def described(self) -> str:
        """Subject of every interval here; the mean before clamping is another number."""
        low, high = self.bounds
        return f"mean of {self.about} clamped to [{low:g}, {high:g}]"

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """The clamped mean of the rows that are in the table. It is valid for every number of rows."""
        check.inside("confidence", confidence)
        if isinstance(self.count, Released):
            ends = self._ends(self._quotient(confidence))
        else:  # the noise of the total is all there is, and its law is known
            half = self.total.noise.half_width(1.0 - confidence) / self.count
            least, most = self.value - half - math.ulp(self.value), self.value + half + math.ulp(self.value)
            ends = max(least, self.bounds[0]), min(most, self.bounds[1])
        one_kind = len({type(noise.law) for noise in self.noises}) == 1
        holds: Holds = FINITE if one_kind else ASYMPTOTIC
        notes = self._notes(confidence)
        return Interval(*ends, confidence, self.described, "noise", holds, notes, limits=self.bounds)

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """The clamped mean of the population, if the units are independent draws from it."""
        check.inside("confidence", confidence)
        noise = self._quotient(confidence)
        half_unit = self.rows_per_unit * (self.bounds[1] - self.bounds[0]) / 2.0
        sampled = replace(noise, total_extra=noise.total_extra + half_unit)
        low, high = self._ends(replace(sampled, worst=float(self.rows_per_unit)))
        if self.squares is not None and self._excludes_zero(confidence):
            # v <= min(released, Bhatia-Davis) inside the inequality: what both sets hold.
            variance = self._variance(self._size, noise.z)
            shorter = self._ends(replace(sampled, known=self.rows_per_unit * variance))
            low, high = max(low, shorter[0]), min(high, shorter[1])
        ends = min(low, high), max(low, high)
        notes = self._notes(confidence)
        return Interval(*ends, confidence, self.described, "population", ASYMPTOTIC, notes, limits=self.bounds)

    def standard_error(self, mean: float) -> float:
        """Standard error of the estimate at this clamped mean of the population; the variance of a value is bounded."""
        size, (low, high) = self._size, self.bounds
        spread = max(0.0, (mean - low) * (high - mean))
        if self.squares is not None:
            spread = min(spread, self._variance(size, 3.0))
        noise = self.total.noise.deviation**2 + ((mean - self.origin) * self._count_deviation) ** 2
        return math.sqrt(self.rows_per_unit * spread / size + noise / size**2)

    @property
    def half_row(self) -> float:
        """Distance by which half a unit can move the mean."""
        return self.rows_per_unit * (self.bounds[1] - self.bounds[0]) / 2.0 / self._size

    @property
    def noises(self) -> tuple[Noise, ...]:
        """The noises in it."""
        return tuple(part.noise for part in (self.total, self.count) if isinstance(part, Released))

    def _quotient(self, confidence: float) -> Quotient:
        low, high = (end - self.origin for end in self.bounds)
        count = self.count.noise if isinstance(self.count, Released) else None
        return Quotient.of(self.total.noise, count, confidence, low, high)

    def _ends(self, quotient: Quotient) -> tuple[float, float]:
        """Both ends of the mean; all of the bounds where the count does not exclude 0."""
        lower, upper = quotient.ends(np.array([self.total.value]), np.array([self._size]))
        low, high = self.bounds
        # Moving by the origin rounds: an end that is a bound stays that bound, and others move out by one ulp.
        least = self.origin + float(lower[0])
        most = self.origin + float(upper[0])
        least, most = least - math.ulp(least), most + math.ulp(most)
        return max(low, least), min(high, most)

    def _excludes_zero(self, confidence: float) -> bool:
        return bool(self._quotient(confidence).excludes_zero(np.array([self._size]))[0])

    def _notes(self, confidence: float) -> tuple[str, ...]:
        return () if self._excludes_zero(confidence) else (NO_VALUE,)

    @property
    def _count_deviation(self) -> float:
        return float(self.count.noise.deviation) if isinstance(self.count, Released) else 0.0

    @property
    def _size(self) -> float:
        return float(self.count.value if isinstance(self.count, Released) else self.count)

    def _clamped(self, size: float) -> float:
        return min(max(self.origin + self.total.value / size, self.bounds[0]), self.bounds[1])

    def _variance(self, size: float, z: float) -> float:
        """The released variance plus one deviation of its noise and z of its sampling: less would undercover.

        (x - m)^2 lies in [0, W^2] and has mean v, so its variance is at most v W^2: v - z W sqrt(v / N) = what was
        seen. With one deviation, values that are rare and large and by chance not there took their spread with them.
        """
        assert self.squares is not None
        shift, square = self.total.value / size, self.squares.value / size
        noise = math.hypot(
            self.squares.noise.deviation,
            2.0 * shift * self.total.noise.deviation,
            (2.0 * shift**2 - square) * self._count_deviation,
        )
        seen = max(0.0, square - shift**2) + noise / size
        reach = z * (self.bounds[1] - self.bounds[0]) / 2.0 * math.sqrt(self.rows_per_unit / size)
        return (reach + math.sqrt(reach**2 + seen)) ** 2
