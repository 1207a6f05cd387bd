"""Private choice of which groups may appear, when the groups themselves come from the data.

A group that only one person has must almost never be shown: with probability at most delta. :func:`stable` is the
best such rule (Desfontaines, Voss, Gipson and Mandayam 2022): no rule with the same (epsilon, delta) keeps any group
more often. :func:`stable_counts` also releases the noisy size of every group it keeps. Input: for each group, how
many units have it, every unit in at most ``max_keys`` groups (:func:`units_per_key` counts that way).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.coins import Probability, flip_words, word_bounds
from tallystick.mechanisms.exact.intervals import ONE, ZERO, Digits, Enclosure
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from tallystick.mechanisms.exact.uniform import integer
from tallystick.mechanisms.exact.weighted_choice import candidates
from tallystick.mechanisms.inputs import number
from tallystick.numerics.search import first_where

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Sizes = tuple[tuple[Hashable, ...], NDArray[np.int64]]
_LARGEST = 1 << 62
_NOBODY = "a unit without a name"


@dataclass(frozen=True, slots=True, kw_only=True)
class StableKeys(Mechanism[Sizes, tuple[Hashable, ...]]):
    """The groups that may be shown; built by :func:`stable`."""

    epsilon: float
    delta: float
    max_keys: int
    unit: str | None

    @property
    def privacy(self) -> PrivacyLoss:
        """max_keys independent (epsilon/max_keys, delta/max_keys) choices, ADD_REMOVE."""
        epsilon, delta = self.per_key
        one = losses.approx_dp(epsilon=epsilon, delta=delta, adjacency=Adjacency.ADD_REMOVE, unit=self.unit)
        return self.max_keys * one

    @property
    def per_key(self) -> tuple[float, float]:
        """Epsilon and delta of each group's own choice."""
        return self.epsilon / self.max_keys, self.delta / self.max_keys

    def keep_probability(self, size: int) -> float:
        """The chance that a group of this many units is shown.

        >>> stable(epsilon=1.0, delta=1e-5).keep_probability(1)
        1e-05
        """
        enclosure = _keep(*self.per_key, check.count("size", size))(Digits(30))
        return float(enclosure.high)

    def smallest_sure(self) -> int:
        """The least size that is certainly always shown."""
        return _sure(*self.per_key)

    def error(self, *, confidence: float) -> int:
        """Groups of at least this many units are shown with at least this probability.

        >>> stable(epsilon=1.0, delta=1e-5).error(confidence=0.95)
        14
        """
        level = Decimal(check.inside("confidence", confidence))
        digits = Digits(60)
        return first_where(lambda size: _keep(*self.per_key, size)(digits).low >= level)

    def prepare(self, value: Any, *, strict: bool) -> Sizes:
        return sizes(value, strict=strict)

    def draw(self, prepared: Sizes, source: Source) -> tuple[Hashable, ...]:
        keys, counts = prepared
        if not keys:
            return ()
        distinct, where = np.unique(np.minimum(counts, min(self.smallest_sure(), _LARGEST)), return_inverse=True)
        chances = [_keep(*self.per_key, int(count)) for count in distinct]
        bounds = [word_bounds(chance) for chance in chances]
        least, most = np.array([b[0] for b in bounds])[where], np.array([b[1] for b in bounds])[where]
        shown = flip_words(least, most, lambda i: chances[int(where[i])], source)
        return in_public_order(keys[i] for i in np.flatnonzero(shown))


def stable(*, epsilon: float, delta: float, max_keys: int = 1, unit: str | None = None) -> StableKeys:
    """Optimal private partition selection: which groups may be shown (docs/theory/partition-selection.md).

    >>> wards = stable(epsilon=1.0, delta=1e-6)
    >>> wards.release({"north": 1000, "south": 500})
    ('north', 'south')
    >>> wards.smallest_sure()
    28
    """
    return StableKeys(
        epsilon=check.positive("epsilon", epsilon),
        delta=proper_delta(delta),
        max_keys=check.count("max_keys", max_keys, least=1),
        unit=check.unit(unit),
    )


@lru_cache(maxsize=256)
def _sure(epsilon: float, delta: float) -> int:
    digits = Digits(60)
    return first_where(lambda n: _keep(epsilon, delta, n)(digits).low >= 1)


@lru_cache(maxsize=4096)
def _keep(epsilon: float, delta: float, size: int) -> Probability:
    """pi_n of Theorem 1: pi_0 = 0, pi_{n+1} = min(e^eps pi_n + delta, 1 - e^-eps (1 - pi_n - delta), 1).

    The first branch holds while pi_n <= (1 - delta) / (e^eps + 1); solved in closed form on both sides.
    """
    exact_epsilon, exact_delta = Fraction(epsilon), Fraction(delta)

    def probability(digits: Digits) -> Enclosure:
        rises = _rising_steps(exact_epsilon, exact_delta)
        if size <= rises:
            return _capped(_risen(digits, exact_epsilon, exact_delta, size))
        steps = size - rises
        shrink = digits.exp(-digits.of(steps * exact_epsilon))
        start = digits.subtract(digits.of(1), _risen(digits, exact_epsilon, exact_delta, rises))
        # 1 - pi shrinks by e^-eps and loses delta e^-eps at every step
        pull = digits.divide(digits.of(exact_delta), _expm1(digits, exact_epsilon))
        lost = digits.multiply(digits.multiply(_expm1(digits, steps * exact_epsilon), shrink), pull)
        rest = digits.subtract(digits.multiply(shrink, start), lost)
        return _capped(digits.subtract(digits.of(1), rest))

    return probability


@lru_cache(maxsize=256)
def _rising_steps(epsilon: Fraction, delta: Fraction) -> int:
    """How many steps take the first branch: 1 + the largest n with pi_n <= (1 - delta) / (e^eps + 1)."""
    digits = Digits(60)
    turn = digits.divide(digits.of(1 - delta), digits.add(digits.of(1), digits.exp(digits.of(epsilon))))
    return first_where(lambda n: turn.below(_risen(digits, epsilon, delta, n)))


def _risen(digits: Digits, epsilon: Fraction, delta: Fraction, steps: int) -> Enclosure:
    """delta (e^{n eps} - 1) / (e^eps - 1)."""
    grown = digits.divide(_expm1(digits, steps * epsilon), _expm1(digits, epsilon))
    return digits.multiply(digits.of(delta), grown)


def _expm1(digits: Digits, exponent: Fraction) -> Enclosure:
    # more digits inside, so that the subtraction of 1 keeps the digits asked for even for tiny exponents
    wide = Digits(digits.digits + 30 + max(0, -math.floor(math.log10(exponent or 1))))
    return wide.subtract(wide.exp(wide.of(exponent)), wide.of(1))


def _capped(value: Enclosure) -> Enclosure:
    return Enclosure(min(max(value.low, ZERO), ONE), min(max(value.high, ZERO), ONE))


def proper_delta(delta: Any) -> float:
    """A delta strictly between 0 and 1: without it no group from the data may ever be shown.

    >>> proper_delta(1e-6)
    1e-06
    """
    allowed = "a number between 1e-300 and 1, without the ends"
    number = check.probability("delta", delta, allowed)
    if not 1e-300 < number < 1:
        raise InvalidInput("delta", delta, allowed)
    return number


def sizes(value: Any, *, strict: bool) -> Sizes:
    """Check a mapping from group to number of units, each by itself.

    Unless strict, sizes are rounded down and clamped to 0..2^62, and anything that is not a number counts as 0.
    """
    allowed = "a mapping from group to a whole number of units >= 0"
    if not isinstance(value, Mapping):
        raise InvalidInput("value", type(value).__name__, allowed)
    if value:
        candidates("value", len(value))
    counts = np.zeros(len(value), dtype=np.int64)
    for i, size in enumerate(value.values()):
        if strict and not (
            isinstance(size, (int, np.integer)) and not isinstance(size, bool) and 0 <= size <= _LARGEST
        ):
            raise InvalidInput("value", "a group's size", allowed)
        exact = number(size)
        counts[i] = 0 if exact is None or exact != exact else math.floor(min(max(exact, 0), _LARGEST))
    return tuple(value), counts


def in_public_order(keys: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Sorted by type and text, so that the order of the output says nothing about the order of the data.

    >>> in_public_order(["b", 1, "a"])
    (1, 'a', 'b')
    """
    return tuple(sorted(keys, key=lambda key: (type(key).__name__, _text(key))))


def _text(key: Hashable) -> str:
    try:
        return repr(key)
    except Exception:  # a group whose text cannot be made must not fail the release of all
        return ""


def units_per_key(
    pairs: Iterable[tuple[Hashable, Hashable]], *, max_keys: int, source: Source = SYSTEM
) -> dict[Hashable, int]:
    """Count units per group from (unit, group) pairs, a uniform sample of ``max_keys`` groups of each unit.

    Which groups of a unit count depends on that unit alone, so one unit changes at most ``max_keys`` counts by one. All
    rows whose unit is NaN are one unit.

    >>> units_per_key([("ann", "x"), ("ann", "x"), ("bob", "x")], max_keys=1)
    {'x': 2}
    """
    limit = check.count("max_keys", max_keys, least=1)
    owned: dict[Hashable, dict[Hashable, None]] = {}
    try:
        for unit, key in pairs:
            # NaN is unequal to itself: every missing name would be a unit of its own
            owned.setdefault(_NOBODY if unit != unit else unit, {})[key] = None
    except (TypeError, ValueError):
        raise InvalidInput("pairs", f"a value of type {type(pairs).__name__}", "pairs (unit, group)") from None
    counts: dict[Hashable, int] = {}
    for groups in owned.values():
        left = list(groups)
        for _ in range(min(limit, len(left))):
            picked = left.pop(integer(len(left), source))
            counts[picked] = counts.get(picked, 0) + 1
    return counts
