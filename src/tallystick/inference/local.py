"""Intervals from answers that people randomized themselves (docs/theory/local-response.md, inference.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.inference.interval import FINITE, Interval
from tallystick.inference.means import Mean
from tallystick.inference.noise import Noise
from tallystick.inference.released import Released
from tallystick.inference.shares import SLACK, binomial, clopper_pearson
from tallystick.mechanisms.response.choices import RandomizedResponse, UnaryEncoding
from tallystick.mechanisms.response.numbers import LocalLaplace


@dataclass(frozen=True, slots=True)
class LocalShare:
    """A share behind ``ones`` of so many reports; a report is 1 with probability ``if_true``, or ``if_false``.

    >>> answer = LocalShare(600, 1000, if_true=0.75, if_false=0.25, about="yes")
    >>> print(answer.population_interval())
    0.63 to 0.77: share of yes (95 % population interval: sampling and privacy noise, finite-sample)
    """

    ones: int
    reports: int
    if_true: float
    if_false: float
    about: str = "the answer"

    def __post_init__(self) -> None:
        check.count("reports", self.reports, least=1)
        check.count("ones", self.ones, most=self.reports)
        if not 0.0 <= self.if_false < self.if_true <= 1.0:
            raise InvalidInput("if_true", self.if_true, "a probability above if_false")

    @property
    def value(self) -> float:
        """The unbiased estimate (Example 3.2), pulled into [0, 1]."""
        return min(1.0, max(0.0, (self.ones / self.reports - self.if_false) / (self.if_true - self.if_false)))

    @property
    def population_value(self) -> float:
        """The value, which also estimates the population."""
        return self.value

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """The share among the people who reported: exact inversion of Binomial(K, .) + Binomial(n - K, .) over K."""
        wanted = (1.0 - check.inside("confidence", confidence)) / 2.0 / SLACK
        few, many = self._usual
        low, high = 0, self.reports
        while low < high:  # the least K that could give so many ones; more people, more ones
            middle = (low + high) // 2
            low, high = (low, middle) if self._at_least(few, middle) >= wanted else (middle + 1, high)
        least, low, high = low, 0, self.reports
        while low < high:  # the largest K that could give so few
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._at_most(many, middle) >= wanted else (low, middle - 1)
        ends = min(least, low) / self.reports, max(least, low) / self.reports
        about = f"share of {self.about} among those who reported"
        return Interval(*ends, confidence, about, "noise", FINITE, limits=(0.0, 1.0))

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """Reports of a random sample are Binomial(n, if_false + gain * share): Clopper and Pearson, mapped."""
        miss = 1.0 - check.inside("confidence", confidence)
        few, many = self._usual
        ends = clopper_pearson(few, self.reports, miss)[0], clopper_pearson(many, self.reports, miss)[1]
        low, high = (min(1.0, max(0.0, (end - self.if_false) / (self.if_true - self.if_false))) for end in ends)
        return Interval(low, high, confidence, f"share of {self.about}", "population", FINITE, limits=(0.0, 1.0))

    @property
    def _usual(self) -> tuple[int, int]:
        """The ones: for the lower end at most what is usual if all have the answer, for the upper at least if none has.

        Both ends grow with the ones, so this only widens the interval; lies alone never make it empty.
        """
        nobody, everybody = math.ceil(self.reports * self.if_false), math.floor(self.reports * self.if_true)
        return min(self.ones, everybody), max(self.ones, nobody)

    def _at_most(self, ones: int, people: int) -> float:
        """Pr[so many ones or fewer] if so many people have the answer."""
        a, first = binomial(people, self.if_true)
        b, second = binomial(self.reports - people, self.if_false)
        places = np.searchsorted(b, ones - a, side="right")
        return float(first @ np.concatenate([[0.0], np.cumsum(second)])[places])

    def _at_least(self, ones: int, people: int) -> float:
        a, first = binomial(people, self.if_true)
        b, second = binomial(self.reports - people, self.if_false)
        places = np.searchsorted(b, ones - a, side="left")
        return float(first @ np.concatenate([np.cumsum(second[::-1])[::-1], [0.0]])[places])


@dataclass(frozen=True, slots=True)
class LocalMean:
    """The mean behind numbers to which their owners added noise; made by :func:`from_reports`."""

    mean: float
    reports: int
    mechanism: LocalLaplace
    about: str

    @property
    def value(self) -> float:
        """The mean of the reports, pulled into the bounds."""
        return min(max(self.mean, self.mechanism.bounds[0]), self.mechanism.bounds[1])

    @property
    def population_value(self) -> float:
        """The value, which also estimates the population."""
        return self.value

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """The mean of the people who reported, by the mechanism's own Chernoff bound."""
        half = self.mechanism.error(confidence=confidence, reports=self.reports)
        return self._pulled(half, confidence, "among those who reported", "noise", FINITE)

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """The mean of clamped values (:class:`Mean`) with the noise that all reports have together.

        What the reports spread says too little where there are few of them, or where rare answers are large.
        """
        granularity = self.mechanism.lattice.granularity
        scale = self.mechanism.steps * granularity * math.sqrt(self.reports)
        noise = replace(Noise.laplace(scale=scale), rounding=self.reports * granularity / 2.0)
        total = Released(self.mean * self.reports, noise)
        found = Mean(total, count=self.reports, bounds=self.mechanism.bounds, about=self.about)
        return found.population_interval(confidence=confidence)

    def _pulled(self, half: float, confidence: float, who: str, kind: Any, holds: Any) -> Interval:
        low, high = self.mechanism.bounds
        about = f"mean of {self.about} clamped to [{low:g}, {high:g}] {who}".rstrip()
        ends = [min(max(end, low), high) for end in (self.mean - half, self.mean + half)]
        return Interval(ends[0], ends[1], confidence, about, kind, holds, limits=(low, high))


def from_reports(
    mechanism: RandomizedResponse | UnaryEncoding | LocalLaplace, reports: Any, *, about: str | None = None
) -> Any:
    """The answers behind local reports: one :class:`LocalShare` per choice, or one :class:`LocalMean` of numbers.

    >>> from tallystick.mechanisms.response import randomize
    >>> survey = randomize(epsilon=1.0, choices=("yes", "no"))
    >>> [share.ones for share in from_reports(survey, ["yes", "no", "yes"])]
    [2, 1]
    """
    if isinstance(mechanism, LocalLaplace):
        found = mechanism.estimate(reports)
        return LocalMean(float(found.values[0]), found.reports, mechanism, about or "the numbers")
    if isinstance(mechanism, RandomizedResponse):
        rates = mechanism.truth_probability, mechanism.lie_probability
    elif isinstance(mechanism, UnaryEncoding):
        rates = 0.5, 1.0 / (math.exp(mechanism.epsilon) + 1.0) if mechanism.epsilon < 700 else 0.0
    else:
        raise InvalidInput("mechanism", type(mechanism).__name__, "what ts.response made: randomize, laplace ...")
    found = mechanism.estimate(reports)
    shares = (found.values * (rates[0] - rates[1]) + rates[1]) * found.reports
    return tuple(
        LocalShare(round(float(ones)), found.reports, *rates, about=about or str(choice))
        for ones, choice in zip(shares, mechanism.choices, strict=True)
    )
