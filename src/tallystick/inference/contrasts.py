"""Differences and ratios of two independent releases, from their own intervals (docs/theory/inference.md).

The method of variance estimates recovery (Zou and Donner 2008; ratios: Donner and Zou 2012): the distance from an
estimate to an end of its interval is the standard deviation near that end, so skewed and exact intervals keep their
shape. It works on every two answers; both kinds of interval stay what they are. The ratio of two noisy numbers has a
finite-sample interval over the noise (docs/theory/noisy-quotients.md). A ratio whose denominator does not exclude 0 has
an interval that says so: leaving it out would leave the intervals that are given less reliable than they say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.interval import ASYMPTOTIC, FINITE, Holds, Interval
from tallystick.inference.noise import Quotient, difference_half_width
from tallystick.inference.released import Answer, Released

INDEPENDENT = "if the two are independent"
ONE_SAMPLE = "two cells of one release: they may count the same units, and the worst dependence is allowed for"
OPEN = (
    "the released denominator does not exclude 0, so every ratio is possible and this interval says nothing. "
    "Pass bounds=(least, most) if the ratio has public bounds, or use difference(left, right)"
)

Ends = tuple[float, float, float]  # lower end, estimate, upper end


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference or a ratio; made by :func:`difference` and :func:`ratio`."""

    left: Answer
    right: Answer
    word: str
    rule: Callable[[Ends, Ends, float], Ends | None]
    bounds: tuple[float, float] | None = None
    """Public bounds of a ratio, where the caller knows them."""

    def __post_init__(self) -> None:
        for name, answer in (("left", self.left), ("right", self.right)):
            if not hasattr(answer, "noise_interval") or not hasattr(answer, "population_interval"):
                raise InvalidInput(name, type(answer).__name__, "a released answer with its two intervals")
        if self.left is self.right:
            raise InvalidInput("right", "the same answer", "two answers")

    @property
    def value(self) -> float:
        """For the table's own quantities."""
        return _of(self.word, self.left.value, self.right.value)

    @property
    def population_value(self) -> float:
        """For the population's quantities."""
        return _of(self.word, self.left.population_value, self.right.population_value)

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """Over the two noises, which are independent also in one table."""
        first = self.left.noise_interval(confidence=confidence)
        second = self.right.noise_interval(confidence=confidence)
        if not (_plain(self.left) and _plain(self.right)):
            return self._joined(first, self.left.value, second, self.right.value)
        if self.word == "ratio":
            return self._noisy_ratio(self.left, self.right, first, second)
        half = difference_half_width(self.left.noise, self.right.noise, 1.0 - confidence)
        half += math.ulp(max(abs(self.left.value), abs(self.right.value)))
        found, about = self.left.value - self.right.value, f"difference of ({first.about}) and ({second.about})"
        least, most = first.limits[0] - second.limits[1], first.limits[1] - second.limits[0]
        low, high = (min(max(end, least), most) for end in (found - half, found + half))
        return Interval(low, high, confidence, about, "noise", FINITE, limits=(least, most))

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """Over sampling and noise; the two samples are independent, or the answers are cells of one release."""
        dependent = same_sample(self.left, self.right)
        if dependent and self.word == "ratio":
            raise Refused(
                "no interval for a ratio of two cells of one release, which may count the same units. Try: "
                "difference(left, right)"
            )
        first = self.left.population_interval(confidence=confidence)
        second = self.right.population_interval(confidence=confidence)
        shares = self.left.population_value, self.right.population_value
        if dependent:
            return self._joined(first, shares[0], second, shares[1], least_correlation(*shares), note=ONE_SAMPLE)
        return self._joined(first, shares[0], second, shares[1], note=INDEPENDENT)

    def _joined(
        self,
        first: Interval,
        left: float,
        second: Interval,
        right: float,
        correlation: float = 0.0,
        *,
        note: str = "",
    ) -> Interval:
        joined = self.rule(_ends(first, left), _ends(second, right), correlation)
        about = f"{self.word} of ({first.about}) and ({second.about})"
        notes = tuple(filter(None, (*first.notes, *second.notes, note)))
        if joined is None:
            return self._whole(first, second, about, notes)
        low, _, high = joined
        if self.word == "ratio":
            least, most = self._limits(first, second)
            low, high = min(max(low, least), most), max(min(high, most), least)
            limits = least, most
            return Interval(low, high, first.confidence, about, first.kind, ASYMPTOTIC, notes, limits)
        if self.word == "difference":
            low = max(low, first.limits[0] - second.limits[1])
            high = min(high, first.limits[1] - second.limits[0])
        return Interval(low, high, first.confidence, about, first.kind, ASYMPTOTIC, notes)

    def _limits(self, first: Interval, second: Interval) -> tuple[float, float]:
        """Range of a ratio that is known before anything is released."""
        if self.bounds is not None:
            return self.bounds
        positive = min(first.limits[0], second.limits[0]) >= 0.0
        return (0.0 if positive else -math.inf), math.inf

    def _whole(self, first: Interval, second: Interval, about: str, notes: tuple[str, ...]) -> Interval:
        """Every ratio that is possible, said in words: ``informative`` is False."""
        limits = self._limits(first, second)
        return Interval(*limits, first.confidence, about, first.kind, ASYMPTOTIC, (*notes, OPEN), limits)

    def _noisy_ratio(self, left: Released, right: Released, first: Interval, second: Interval) -> Interval:
        """Interval for two noisy numbers: the set of Fieller, which holds for every pair of numbers."""
        low, high = self._limits(first, second)
        quotient = Quotient.of(left.noise, right.noise, first.confidence, low, high)
        values = np.array([left.value]), np.array([right.value])
        about = f"ratio of ({first.about}) and ({second.about})"
        if not quotient.excludes_zero(values[1])[0]:
            return self._whole(first, second, about, ())
        lower, upper = (float(end[0]) for end in quotient.ends(*values))
        holds: Holds = FINITE if type(left.noise.law) is type(right.noise.law) else ASYMPTOTIC
        return Interval(lower, upper, first.confidence, about, "noise", holds, limits=(low, high))


def _plain(answer: Answer) -> TypeGuard[Released]:
    """A number plus noise that is shown for every value."""
    return isinstance(answer, Released) and answer.shown_from is None


def same_sample(left: object, right: object) -> bool:
    """True if both are cells of one release."""
    return isinstance(left, Released) and isinstance(right, Released) and left.sample == right.sample != ""


def least_correlation(first: float, second: float) -> float:
    """No two events of these shares are more negatively correlated (Frechet): they exclude each other, or what is
    left of them does. Noise is independent, so that the errors as a whole are less correlated still.

    >>> least_correlation(0.5, 0.5)
    -1.0
    """
    both, neither = first * second, (1.0 - first) * (1.0 - second)
    larger = max(both, neither)
    return 0.0 if larger <= 0.0 else -math.sqrt(min(both, neither) / larger)


def difference(left: Answer, right: Answer) -> Contrast:
    """left - right, for two independent answers.

    >>> from tallystick.inference import Noise, Released
    >>> noise = Noise.gaussian(sigma=5)
    >>> low, high = difference(Released(300, noise, of=1000), Released(250, noise, of=1000)).population_interval()
    >>> round(low, 3), round(high, 3)
    (0.008, 0.091)
    """
    return Contrast(left, right, "difference", _difference)


def ratio(left: Answer, right: Answer, *, bounds: tuple[float, float] | None = None) -> Contrast:
    """left / right, for two independent answers that are positive.

    Where the released denominator does not exclude 0 the interval is all of ``bounds``, the public bounds of the ratio.
    Without ``bounds`` it is then infinite, its ``informative`` is False, and its text says why.

    >>> from tallystick.inference import Noise, Released
    >>> noise = Noise.gaussian(sigma=5)
    >>> low, high = ratio(Released(300, noise, of=1000), Released(250, noise, of=1000)).population_interval()
    >>> round(low, 2), round(high, 2)
    (1.03, 1.4)
    """
    if bounds is not None:
        least, most = (check.finite("bounds", end) for end in bounds)
        if not least < most:
            raise InvalidInput("bounds", bounds, "a lower bound below an upper bound")
        bounds = least, most
    return Contrast(left, right, "ratio", _ratio, bounds)


def _of(word: str, left: float, right: float) -> float:
    if word == "difference":
        return left - right
    if right == 0.0:
        raise Refused("no ratio: the denominator is 0. Try: a difference, or more budget for the denominator")
    return left / right


def _ends(interval: Interval, estimate: float) -> Ends:
    """The ends as far from the estimate as it may be off: one that was cut off is taken as far as the other."""
    if math.isnan(estimate):  # there is no value, and the interval is everything that is possible
        estimate = (interval.lower + interval.upper) / 2.0
    middle = min(max(estimate, interval.lower), interval.upper)
    down, up = middle - interval.lower, interval.upper - middle
    low_cut, high_cut = interval.lower <= interval.limits[0], interval.upper >= interval.limits[1]
    if low_cut and high_cut and math.isfinite(down + up):  # it says nothing, and how little was cut off too
        return -math.inf, middle, math.inf
    return middle - (max(down, up) if low_cut else down), middle, middle + (max(down, up) if high_cut else up)


def _difference(left: Ends, right: Ends, correlation: float) -> Ends:
    (l1, m1, u1), (l2, m2, u2) = left, right
    found = m1 - m2

    def reach(first: float, second: float) -> float:
        if math.isinf(first + second):
            return math.inf
        return math.sqrt(first * first + second * second - 2.0 * correlation * first * second)

    return found - reach(m1 - l1, u2 - m2), found, found + reach(u1 - m1, m2 - l2)


def _ratio(left: Ends, right: Ends, correlation: float) -> Ends | None:
    """The roots of Donner and Zou, or None where the numbers may be 0 and no root is an end."""
    assert correlation == 0.0
    (l1, m1, u1), (l2, m2, u2) = left, right
    if not (l2 > 0.0 and l1 >= 0.0 and 2.0 * m2 > u2 and math.isfinite(u1)):
        return None
    product = m1 * m2
    low = product - math.sqrt(max(0.0, product**2 - l1 * u2 * (2.0 * m1 - l1) * (2.0 * m2 - u2)))
    high = product + math.sqrt(max(0.0, product**2 - u1 * l2 * (2.0 * m1 - u1) * (2.0 * m2 - l2)))
    return max(0.0, low / (u2 * (2.0 * m2 - u2))), m1 / m2, high / (l2 * (2.0 * m2 - l2))
