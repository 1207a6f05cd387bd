"""Differences and ratios of two independent releases, from their own intervals (docs/theory/inference.md).

The method of variance estimates recovery (Zou and Donner 2008; ratios: Donner and Zou 2012): the distance from an
estimate to an end of its interval is the standard deviation near that end, so skewed and exact intervals keep their
shape. It works on every two answers; both kinds of interval stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tallystick.errors import Refused
from tallystick.inference.interval import ASYMPTOTIC, Interval
from tallystick.inference.released import Answer

Ends = tuple[float, float, float]  # lower end, estimate, upper end


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference or a ratio; made by :func:`difference` and :func:`ratio`."""

    left: Answer
    right: Answer
    word: str
    rule: Callable[[Ends, Ends], Ends]

    @property
    def value(self) -> float:
        """For the table's own quantities."""
        return _of(self.word, self.left.value, self.right.value)

    @property
    def population_value(self) -> float:
        """For the population's quantities."""
        return _of(self.word, self.left.population_value, self.right.population_value)

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """Over the two noises."""
        first = self.left.noise_interval(confidence=confidence)
        second = self.right.noise_interval(confidence=confidence)
        return self._joined(first, self.left.value, second, self.right.value)

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """Over sampling and noise; the two samples are independent."""
        first = self.left.population_interval(confidence=confidence)
        second = self.right.population_interval(confidence=confidence)
        return self._joined(first, self.left.population_value, second, self.right.population_value)

    def _joined(self, first: Interval, left: float, second: Interval, right: float) -> Interval:
        low, _, high = self.rule(_ends(first, left), _ends(second, right))
        about = f"{self.word} of ({first.about}) and ({second.about})"
        return Interval(low, high, first.confidence, about, first.kind, ASYMPTOTIC, (*first.notes, *second.notes))


def difference(left: Answer, right: Answer) -> Contrast:
    """left - right, for two independent answers.

    >>> from tallystick.inference import Noise, Released
    >>> noise = Noise.gaussian(sigma=5)
    >>> low, high = difference(Released(300, noise, of=1000), Released(250, noise, of=1000)).population_interval()
    >>> round(low, 3), round(high, 3)
    (0.008, 0.091)
    """
    return Contrast(left, right, "difference", _difference)


def ratio(left: Answer, right: Answer) -> Contrast:
    """left / right, for two independent answers that are positive; refused where the denominator may be 0.

    >>> from tallystick.inference import Noise, Released
    >>> noise = Noise.gaussian(sigma=5)
    >>> low, high = ratio(Released(300, noise, of=1000), Released(250, noise, of=1000)).population_interval()
    >>> round(low, 2), round(high, 2)
    (1.03, 1.4)
    """
    return Contrast(left, right, "ratio", _ratio)


def _of(word: str, left: float, right: float) -> float:
    if word == "difference":
        return left - right
    if right == 0.0:
        raise Refused("no ratio: the denominator is 0. Works: a difference, or more budget for the denominator")
    return left / right


def _ends(interval: Interval, estimate: float) -> Ends:
    return interval.lower, min(max(estimate, interval.lower), interval.upper), interval.upper


def _difference(left: Ends, right: Ends) -> Ends:
    (l1, m1, u1), (l2, m2, u2) = left, right
    found = m1 - m2
    return found - math.hypot(m1 - l1, u2 - m2), found, found + math.hypot(u1 - m1, m2 - l2)


def _ratio(left: Ends, right: Ends) -> Ends:
    (l1, m1, u1), (l2, m2, u2) = left, right
    if not (l2 > 0.0 and l1 >= 0.0 and 2.0 * m2 > u2 and math.isfinite(u1)):
        raise Refused(
            "no interval for a ratio: it needs positive numbers, the denominator clearly above 0. Works: a difference, "
            "larger groups, or more budget for the denominator"
        )
    product = m1 * m2
    low = product - math.sqrt(max(0.0, product**2 - l1 * u2 * (2.0 * m1 - l1) * (2.0 * m2 - u2)))
    high = product + math.sqrt(max(0.0, product**2 - u1 * l2 * (2.0 * m1 - u1) * (2.0 * m2 - l2)))
    return max(0.0, low / (u2 * (2.0 * m2 - u2))), m1 / m2, high / (l2 * (2.0 * m2 - l2))
