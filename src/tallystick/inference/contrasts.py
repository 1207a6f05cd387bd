"""Differences and ratios of two independent releases, from their own intervals (docs/theory/inference.md).

The method of variance estimates recovery (Zou and Donner 2008; ratios: Donner and Zou 2012): the distance from an
estimate to an end of its interval is the standard deviation near that end, so skewed and exact intervals keep their
shape. It works on every two answers; both kinds of interval stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from tallystick.errors import InvalidInput, Refused
from tallystick.inference.interval import ASYMPTOTIC, FINITE, Interval
from tallystick.inference.noise import difference_half_width
from tallystick.inference.released import Answer, Released

INDEPENDENT = "if the two are independent"
ONE_SAMPLE = "two cells of one release: they may count the same units, and the worst dependence is allowed for"

Ends = tuple[float, float, float]  # lower end, estimate, upper end


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference or a ratio; made by :func:`difference` and :func:`ratio`."""

    left: Answer
    right: Answer
    word: str
    rule: Callable[[Ends, Ends, float], Ends]

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
        if self.word != "difference" or not (_plain(self.left) and _plain(self.right)):
            return self._joined(first, self.left.value, second, self.right.value)
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
                "no interval for a ratio of two cells of one release, which may count the same units. Works: "
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
        low, _, high = self.rule(_ends(first, left), _ends(second, right), correlation)
        if self.word == "difference":
            low = max(low, first.limits[0] - second.limits[1])
            high = min(high, first.limits[1] - second.limits[0])
        about = f"{self.word} of ({first.about}) and ({second.about})"
        notes = tuple(filter(None, (*first.notes, *second.notes, note)))
        return Interval(low, high, first.confidence, about, first.kind, ASYMPTOTIC, notes)


def _plain(answer: Answer) -> TypeGuard[Released]:
    """A number plus noise that is shown whatever it is."""
    return isinstance(answer, Released) and answer.shown_from is None


def same_sample(left: object, right: object) -> bool:
    """Whether both are cells of one release."""
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
    """The ends as far from the estimate as it may be off: one that was cut off is taken as far as the other."""
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


def _ratio(left: Ends, right: Ends, correlation: float) -> Ends:
    assert correlation == 0.0
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
