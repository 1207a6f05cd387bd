"""The whole trade-off curve against the claimed one: a band that holds at every threshold together.

docs/theory/two-sample-audit.md: half of the draws choose a score and its thresholds; the other half count false alarms
and misses at each. Clopper-Pearson limits, each at the significance over four times their number, hold all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.curves import Floats, ceiling_and_slope, tangents
from tallystick.audit.events import best_event
from tallystick.audit.evidence import Evidence
from tallystick.audit.two_sample import (
    DRAWS,
    LEAST_DRAWS,
    catchable,
    drawn_from,
    epsilon_refuted,
    mu_refuted,
    outputs_on,
    upper_limit,
    worth_against,
)
from tallystick.errors import InvalidInput, NotComputable

THRESHOLDS = 40
_UP = 1.0 + 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Band(Evidence):
    """A confidence band of the trade-off of one score: misses and false accusations counted at every threshold.

    No test of the mechanism can be better than its trade-off curve, so ``upper`` (points that the curve is not above)
    refutes a claim that is above it anywhere. ``lower`` bounds this score only: another might tell more.
    """

    loss: PrivacyLoss
    score: str
    draws: int
    false_alarms: tuple[int, ...]
    misses: tuple[int, ...]

    @property
    def upper(self) -> tuple[tuple[float, float], ...]:
        """(false accusations, misses): upper limits that hold at every threshold together, with ``lower``."""
        return tuple(zip(*(self._limits(counts) for counts in (self.false_alarms, self.misses)), strict=True))

    @property
    def lower(self) -> tuple[tuple[float, float], ...]:
        """(false accusations, misses): lower limits of this score, that hold together with ``upper``."""
        others = (tuple(self.draws - count for count in counts) for counts in (self.false_alarms, self.misses))
        one, two = ([1.0 - limit for limit in self._limits(counts)] for counts in others)
        return tuple(zip(one, two, strict=True))

    def _limits(self, counts: tuple[int, ...]) -> list[float]:
        return limits(counts, self.draws, self.significance)

    def epsilon_at_least(self, *, delta: float) -> float:
        level = check.probability("delta", delta)
        return max(epsilon_refuted(a, b, level) for a, b in self.upper)

    def to_dict(self) -> dict[str, Any]:
        own = {"score": self.score, "draws": self.draws, "upper": self.upper, "lower": self.lower}
        return {**Evidence.to_dict(self), **own}


def limits(counts: tuple[int, ...], draws: int, significance: float) -> list[float]:
    """Upper limits of many probabilities that hold together, with as many others and with their lower limits."""
    each = significance / (4.0 * len(counts))
    return [upper_limit(count, draws, each) for count in counts]


def tradeoff_band(
    f: Any,
    *,
    neighbours: tuple[Any, Any],
    claim: PrivacyLoss | None = None,
    draws: int = DRAWS,
    significance: float = 0.05,
    score: Callable[[Any], float] | None = None,
    thresholds: int = THRESHOLDS,
) -> Band:
    """A confidence band of the trade-off between false accusations and misses, against the claimed curve.

    As :func:`tallystick.audit.mechanism`, but at many thresholds of one score (``score``, larger on the first
    dataset; learned from half of the draws unless given), so that it shows where a claim fails. Falsified if the
    claimed curve is above the upper limits anywhere; one event alone is the stronger test.

    >>> from tallystick.accounting.losses import gdp
    >>> rng = np.random.default_rng(1)
    >>> found = tradeoff_band(lambda x: x + rng.normal(), neighbours=(2.0, 0.0), claim=gdp(mu=1), draws=4000,
    ...     score=lambda y: y)
    >>> found.verdict, found.mu_at_least > 1
    ('FALSIFIED', True)
    """
    draw, promised = drawn_from(f, claim)
    if not isinstance(neighbours, tuple) or len(neighbours) != 2:
        raise InvalidInput("neighbours", type(neighbours).__name__, "a pair of datasets (a, b)")
    level = check.inside("significance", significance)
    count = check.count("draws", draws, least=LEAST_DRAWS)
    cuts = check.count("thresholds", thresholds, least=2, most=1000)
    if score is not None and not callable(score):
        raise InvalidInput("score", score, "a function from an output to a number")
    training = count // 2
    first, second = outputs_on(draw, neighbours, training)
    name, score_of, turned = _score(first, second, promised, score)
    learned = [score_of(outputs) for outputs in (first, second)]
    at = np.unique(np.quantile(np.concatenate(learned), np.linspace(0.0, 1.0, cuts), method="nearest"))
    pair = (neighbours[1], neighbours[0]) if turned else neighbours
    one, two = (np.sort(score_of(outputs)) for outputs in outputs_on(draw, pair, count - training))
    misses = np.searchsorted(one, at)
    return banded(promised, name, count - training, len(two) - np.searchsorted(two, at), misses, level)


def banded(claim: PrivacyLoss, score: str, draws: int, false_alarms: Any, misses: Any, significance: float) -> Band:
    """The band of counts at thresholds that were chosen beforehand.

    >>> from tallystick.accounting.losses import pure_dp
    >>> banded(pure_dp(epsilon=1), "x", 1000, [10, 100], [300, 40], 0.05).falsified
    True
    """
    alarms, missed = (tuple(int(count) for count in counts) for counts in (false_alarms, misses))
    points = list(zip(*(limits(counts, draws, significance) for counts in (alarms, missed)), strict=True))
    return Band(
        attack=f"trade-off at {len(alarms)} thresholds of {score}, {draws} draws each",
        claim=str(claim),
        significance=significance,
        p_value=_p_value(claim, draws, alarms, missed),
        mu_at_least=max(mu_refuted(a, b) for a, b in points),
        assumes=("that the draws are independent, and the two datasets are neighbours of the claim's kind",),
        detects=catchable(claim, draws, significance / (2.0 * len(alarms))),
        loss=claim,
        score=score,
        draws=draws,
        false_alarms=alarms,
        misses=missed,
    )


def _p_value(claim: PrivacyLoss, draws: int, alarms: tuple[int, ...], misses: tuple[int, ...]) -> float:
    """The least significance at which some point is below the claim, rounded up."""
    lines = tangents(claim)

    def refuted(level: float) -> bool:
        a, b = (np.array(limits(counts, draws, level)) for counts in (alarms, misses))
        return bool((1.0 - b > ceiling_and_slope(lines, a)[0] * _UP).any())

    if not refuted(1.0):
        return 1.0
    low, high = math.log(1e-100), 0.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (low, middle) if refuted(math.exp(middle)) else (middle, high)
    return min(1.0, math.exp(high) * (1.0 + 1e-9))


def _score(
    first: list[Any], second: list[Any], claim: PrivacyLoss, score: Callable[[Any], float] | None
) -> tuple[str, Callable[[list[Any]], Floats], bool]:
    """The score, its name, and whether it is larger on the second data set."""
    if score is not None:
        given, name = score, getattr(score, "__name__", "the caller's score")
        return name, lambda outputs: np.array([_number(given(x)) for x in outputs]), False
    lines = tangents(claim)
    found = best_event(first, second, lambda hits, alarms, asked: worth_against(lines, hits, alarms, asked))
    if found is None:
        raise NotComputable("no score can be made from these outputs: give score=")
    _, event, swapped = found
    return event.name, event.score, swapped == event.above


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise InvalidInput("score", f"a value of type {type(value).__name__}", "a function from an output to a number")
    return number
