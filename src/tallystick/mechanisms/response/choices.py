"""Answers to a question with finitely many choices, randomized by the person who gives them.

k-ary randomized response: tell the truth, or answer at random (Theorem 3.1, Examples 3.2 and 4.2). Optimised unary
encoding: one noisy bit per choice, better for questions with many choices (Wang et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.coins import flip
from tallystick.mechanisms.exact.intervals import Digits, Enclosure
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.uniform import integers
from tallystick.mechanisms.inputs import array_or_list, length, list_length
from tallystick.mechanisms.response.estimates import Estimate, from_ones, hoeffding

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Codes = NDArray[np.int64]
MOST_CHOICES = 10_000_000


def codes(argument: str, value: Any, choices: tuple[Hashable, ...], *, strict: bool) -> Codes:
    """Number the answers; an answer that is not a choice is refused when strict and counts as the first otherwise.

    >>> codes("answers", ["no", "yes"], ("yes", "no"), strict=True)
    array([1, 0])
    """
    allowed = f"a non-empty sequence of answers, each one of {choices if len(choices) < 6 else len(choices)}"
    size = list_length(argument, value, allowed)
    value = array_or_list(value)
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise InvalidInput(argument, f"array of shape {value.shape}", allowed)
    code = {choice: index for index, choice in enumerate(choices)}

    def looked_up(answer: Any) -> int:
        try:
            return code.get(answer, -1)
        except Exception:  # an answer without a hash is no choice; what one person says must not fail for all
            return -1

    items = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        indices = np.fromiter((code.get(answer, -1) for answer in items), dtype=np.int64, count=size)
    except Exception:
        indices = np.fromiter((looked_up(answer) for answer in items), dtype=np.int64, count=size)
    if strict and (indices < 0).any():
        raise InvalidInput(argument, "an answer that is not a choice", allowed)
    return np.maximum(indices, 0)


def labels(choices: int | Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Choices as labels: a number k stands for 0, ..., k - 1.

    >>> labels(2)
    (0, 1)
    """
    allowed = "a number of choices >= 2, or at least two different labels"
    if isinstance(choices, (int, np.integer)) and not isinstance(choices, bool):
        return tuple(range(check.count("choices", choices, least=2, most=MOST_CHOICES)))
    if isinstance(choices, (str, bytes)) or length("choices", choices, allowed) > MOST_CHOICES:
        raise InvalidInput("choices", choices, allowed)
    named: tuple[Hashable, ...] = tuple(choices)  # type: ignore[arg-type]
    try:
        different = len(set(named))
    except TypeError:
        raise InvalidInput("choices", "an unhashable label", allowed) from None
    if len(named) < 2 or different != len(named):
        raise InvalidInput("choices", choices, allowed)
    return named


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
        indices = codes("reports", reports, self.choices, strict=True)
        return from_ones(
            np.bincount(indices, minlength=len(self.choices)),
            reports=int(indices.size),
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


_MOST_BITS = 400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryEncoding(Mechanism[Codes, NDArray[np.bool_]]):
    """Optimised unary encoding (Wang et al. 2017); built by :func:`unary_encoding`. Reports are rows of bits."""

    epsilon: float
    choices: tuple[Hashable, ...]
    unit: str | None

    @property
    def privacy(self) -> PrivacyLoss:
        """Two of the bits tell the two answers apart: half the reports say nothing, the other half are a coin of eps.

        With q = 1 / (e^eps + 1): (true bit, other bit) is (1, 0) with probability (1 - q)/2 against q/2, (0, 1) the
        other way round, and equal bits are equally likely either way.
        """
        return unary_privacy(self.epsilon, self.unit)

    def prepare(self, value: Any, *, strict: bool) -> Codes:
        indices = codes("answers", value, self.choices, strict=strict)
        if indices.size * len(self.choices) > _MOST_BITS:
            raise InvalidInput(
                "answers", f"{indices.size} answers", f"at most {_MOST_BITS // len(self.choices)} at a time"
            )
        return indices

    def draw(self, prepared: Codes, source: Source) -> NDArray[np.bool_]:
        bits = flip(self._other, prepared.size * len(self.choices), source).reshape(prepared.size, len(self.choices))
        bits[np.arange(prepared.size), prepared] = flip(_half, prepared.size, source)
        return bits

    def _other(self, digits: Digits) -> Enclosure:
        shrink = digits.exp(-digits.of(Fraction(self.epsilon)))
        return digits.divide(shrink, digits.add(digits.of(1), shrink))

    def estimate(self, reports: Any, *, confidence: float = 0.95) -> Estimate:
        """Unbiased share of every choice among the people who reported."""
        allowed = f"rows of {len(self.choices)} bits, one row per person"
        table = np.asarray(reports)
        if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] != len(self.choices) or table.dtype.kind != "b":
            raise InvalidInput("reports", f"array of {table.dtype}, shape {table.shape}", allowed)
        return from_ones(
            table.sum(axis=0), reports=table.shape[0], if_true=0.5, if_false=self._low, confidence=confidence
        )

    @property
    def _low(self) -> float:
        return low_probability(self.epsilon)

    def variance(self, *, share: float, reports: int) -> float:
        """Variance of the estimated share; about 4 e^eps / (n (e^eps - 1)^2) for rare answers, whatever k."""
        gain = 0.5 - self._low
        rate = self._low + gain * check.probability("share", share)
        return rate * (1 - rate) / (check.count("reports", reports, least=1) * gain**2)

    def error(self, *, confidence: float, reports: int) -> float:
        """Half-width that holds for any share at this confidence (Hoeffding)."""
        return hoeffding(confidence, reports) / (0.5 - self._low)


def low_probability(epsilon: float) -> float:
    """1 / (e^eps + 1): the chance that a bit which should be 0 is 1.

    >>> low_probability(1e300)
    0.0
    """
    shrink = math.exp(-epsilon)
    return shrink / (1 + shrink)


def unary_privacy(epsilon: float, unit: str | None) -> PrivacyLoss:
    """The pair of optimised unary encoding, merged to three outcomes; see :class:`UnaryEncoding`."""
    low = low_probability(epsilon) * (1 - 2.0**-50)  # a little too telling rather than too little
    law = [(1 - low) / 2, 0.5, low / 2]
    return losses.discrete_pair(law, law[::-1], adjacency=Adjacency.REPLACE, unit=unit)


def _half(digits: Digits) -> Enclosure:
    return digits.of(Fraction(1, 2))


def unary_encoding(*, epsilon: float, choices: int | Sequence[Hashable], unit: str | None = None) -> UnaryEncoding:
    """Optimised unary encoding: better than :func:`randomize` when there are more than 3 e^eps + 2 choices.

    >>> unary_encoding(epsilon=1.0, choices=4).release([2]).shape
    (1, 4)
    """
    return UnaryEncoding(epsilon=check.positive("epsilon", epsilon), choices=labels(choices), unit=check.unit(unit))
