"""Pairs of decimals that provably contain a real number, as tight as asked.

A lattice release or a selection is a *decision* about real numbers (is the uniform below exp(-x)?). Here the real
number is known between two decimals; when the decision is not yet certain the caller asks for more digits. ``decimal``
of the standard library rounds ``+ - * /`` in the direction asked, and ``exp``, ``ln`` and ``sqrt`` correctly, so one
step outward from its answer is a proof.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

ZERO, ONE = Decimal(0), Decimal(1)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number known to lie in [low, high].

    >>> Enclosure(Decimal(1), Decimal(2)).below(Enclosure(Decimal(3), Decimal(4)))
    True
    """

    low: Decimal
    high: Decimal

    def below(self, other: Enclosure) -> bool:
        """Certainly smaller than ``other``."""
        return self.high < other.low

    def __neg__(self) -> Enclosure:
        return Enclosure(self.high.copy_negate(), self.low.copy_negate())


UNBOUNDED = Enclosure(Decimal("-Infinity"), Decimal("Infinity"))


class Digits:
    """Interval arithmetic with a given number of decimal digits.

    >>> third = Digits(10).of(Fraction(1, 3))
    >>> third.low < Fraction(1, 3) < third.high
    True
    """

    __slots__ = ("digits", "down", "up")

    def __init__(self, digits: int) -> None:
        self.digits = digits
        self.down, self.up = _context(digits, decimal.ROUND_FLOOR), _context(digits, decimal.ROUND_CEILING)

    def of(self, value: Fraction | int) -> Enclosure:
        """Enclose a rational number."""
        numerator, denominator = Decimal(value.numerator), Decimal(value.denominator)
        return Enclosure(self.down.divide(numerator, denominator), self.up.divide(numerator, denominator))

    def add(self, left: Enclosure, right: Enclosure) -> Enclosure:
        """left + right."""
        return Enclosure(self.down.add(left.low, right.low), self.up.add(left.high, right.high))

    def subtract(self, left: Enclosure, right: Enclosure) -> Enclosure:
        """left - right."""
        return self.add(left, -right)

    def multiply(self, left: Enclosure, right: Enclosure) -> Enclosure:
        """left * right, any signs."""
        corners = [(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        if any((a.is_infinite() and b == 0) or (b.is_infinite() and a == 0) for a, b in corners):
            return UNBOUNDED
        return Enclosure(
            min(self.down.multiply(a, b) for a, b in corners), max(self.up.multiply(a, b) for a, b in corners)
        )

    def divide(self, left: Enclosure, right: Enclosure) -> Enclosure:
        """left / right for right > 0; unbounded when right may be 0."""
        if right.low <= 0:
            return UNBOUNDED
        low_by = right.high if left.low >= 0 else right.low
        high_by = right.low if left.high >= 0 else right.high
        return Enclosure(self.down.divide(left.low, low_by), self.up.divide(left.high, high_by))

    def exp(self, value: Enclosure) -> Enclosure:
        """e^value."""
        low, high = self.down.exp(value.low), self.up.exp(value.high)
        return Enclosure(max(ZERO, self.down.next_minus(low)), self.up.next_plus(high))

    def ln(self, value: Enclosure) -> Enclosure:
        """Natural logarithm for value >= 0; unbounded below when value may be 0."""
        low = self.down.next_minus(self.down.ln(value.low)) if value.low > 0 else Decimal("-Infinity")
        high = self.up.next_plus(self.up.ln(value.high)) if value.high > 0 else Decimal("-Infinity")
        return Enclosure(low, high)

    def sqrt(self, value: Enclosure) -> Enclosure:
        """Square root for value >= 0."""
        low, high = self.down.sqrt(max(value.low, ZERO)), self.up.sqrt(value.high)
        return Enclosure(max(ZERO, self.down.next_minus(low)), self.up.next_plus(high))


@lru_cache(maxsize=256)
def _context(digits: int, rounding: str) -> decimal.Context:
    # The widest exponents decimal has, and no traps: an underflow must become an enclosure of 0, not an error.
    return decimal.Context(
        prec=digits, rounding=rounding, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[], clamp=0
    )
