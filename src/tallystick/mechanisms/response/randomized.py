"""k-ary randomized response: tell the truth, or answer at random (Theorem 3.1, Examples 3.2 and 4.2)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.coins import flip
from tallystick.mechanisms.exact.intervals import Digits, Enclosure
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.uniform import integers
from tallystick.mechanisms.response.choices import Codes, codes, labels
from tallystick.mechanisms.response.estimates import Estimate, from_ones, hoeffding

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(Mechanism[Codes, tuple[Hashable, ...]]):
    """k-ary randomized response; built by :func:`randomize`."""

    epsilon: float
    choices: tuple[Hashable, ...]
    unit: str | None

    @property
    def privacy(self) -> PrivacyLoss:
        """Exactly the randomized-response pair, per person."""
        return losses.randomized_response(
            epsilon=self.epsilon, choices=len(self.choices), adjacency=Adjacency.REPLACE, unit=self.unit
        )

    @property
    def truth_probability(self) -> float:
        """e^eps / (e^eps + k - 1): the chance that the report is the true answer."""
        return 1 / (1 + (len(self.choices) - 1) * math.exp(-self.epsilon))

    @property
    def lie_probability(self) -> float:
        """1 / (e^eps + k - 1): the chance of each other answer."""
        return math.exp(-self.epsilon) * self.truth_probability

    def prepare(self, value: Any, *, strict: bool) -> Codes:
        return codes("answers", value, self.choices, strict=strict)

    def draw(self, prepared: Codes, source: Source) -> tuple[Hashable, ...]:
        # Keep the answer with probability (e^eps - 1)/(e^eps + k - 1), otherwise report a uniform choice.
        kept = flip(self._keep, prepared.size, source)
        reported = np.where(kept, prepared, integers(len(self.choices), size=prepared.size, source=source))
        return tuple(self.choices[code] for code in reported)

    def _keep(self, digits: Digits) -> Enclosure:
        shrink = digits.exp(-digits.of(Fraction(self.epsilon)))
        others = digits.multiply(digits.of(len(self.choices) - 1), shrink)
        return digits.divide(digits.subtract(digits.of(1), shrink), digits.add(digits.of(1), others))

    def estimate(self, reports: Any, *, confidence: float = 0.95) -> Estimate:
        """Unbiased share of every choice among the people who reported."""
        found = codes("reports", reports, self.choices, strict=True)
        return from_ones(
            np.bincount(found, minlength=len(self.choices)),
            reports=int(found.size),
            if_true=self.truth_probability,
            if_false=self.lie_probability,
            confidence=confidence,
        )

    def variance(self, *, share: float, reports: int) -> float:
        """Variance of the estimated share: lambda (1 - lambda) / (n (p - q)^2), lambda the share of such reports.

        For two choices this is (e^eps / (e^eps - 1)^2 + theta (1 - theta)) / n of Example 3.2.
        """
        gain = self.truth_probability - self.lie_probability
        rate = self.lie_probability + gain * check.probability("share", share)
        return rate * (1 - rate) / (check.count("reports", reports, least=1) * gain**2)

    def error(self, *, confidence: float, reports: int) -> float:
        """Half-width that holds for any share at this confidence (Hoeffding)."""
        gain = self.truth_probability - self.lie_probability
        return hoeffding(confidence, reports) / gain


def randomize(*, epsilon: float, choices: int | Sequence[Hashable] = 2, unit: str | None = None) -> RandomizedResponse:
    """k-ary randomized response (Theorem 3.1, Example 4.2): the truth with probability e^eps / (e^eps + k - 1).

    docs/theory/local-response.md

    >>> survey = randomize(epsilon=1.0, choices=("yes", "no"))
    >>> len(survey.release(["yes", "no", "no"]))
    3
    """
    return RandomizedResponse(
        epsilon=check.positive("epsilon", epsilon), choices=labels(choices), unit=check.unit(unit)
    )
