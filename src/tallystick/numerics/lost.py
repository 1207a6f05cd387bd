"""Mass at infinity of a composition, and whether a delta covers it: decided exactly where doubles cannot tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

Masses = Sequence[tuple[float, int]]
"""What each mechanism loses, and how often it is used."""

EDGE = 1e-12
"""Relative distance within which the rounded mass does not decide."""

MOST_BITS = 40_000
"""Bits of an exact product that are written out."""


def lost_mass(masses: Masses) -> float:
    """1 - prod (1 - mass)^count, to a few units in the last place.

    >>> lost_mass([(0.5, 2)])
    0.75
    """
    total = 0.0
    for mass, count in masses:
        total += count * math.log1p(-mass) if mass < 1.0 else -math.inf
    return -math.expm1(total) if total < 0.0 else 0.0


def lost_above(masses: Masses) -> float:
    """The same, rounded up."""
    return min(1.0, lost_mass(masses) * (1.0 + 2.0**-49))


def covers(delta: float, masses: Masses) -> bool:
    """True if delta is at least the mass at infinity; False too where 30 digits beyond the doubles do not tell.

    >>> covers(0.75, [(0.5, 2)]), covers(math.nextafter(0.75, 0), [(0.5, 2)])
    (True, False)
    """
    rounded = lost_mass(masses)
    if abs(delta - rounded) > EDGE * rounded:
        return delta > rounded
    some = [(mass, count) for mass, count in masses if mass > 0.0]
    bits = sum(count * Fraction(mass).denominator.bit_length() for mass, count in some)
    if bits <= MOST_BITS:
        return math.prod(((1 - Fraction(m)) ** n for m, n in some), start=Fraction(1)) >= 1 - Fraction(delta)
    smallest = min(mass for mass, _ in some)
    digits = 50 + math.ceil(-math.log10(smallest)) + math.ceil(math.log10(sum(n for _, n in some) + 1.0))
    with localcontext() as context:
        context.prec = digits
        kept = math.prod(((1 - Decimal(m)) ** n for m, n in some), start=Decimal(1))
        return Decimal(delta) - (1 - kept) > Decimal(rounded) * Decimal(10) ** -30
