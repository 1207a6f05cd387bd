"""The rational number that a person wrote."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction

from tallystick.errors import InvalidInput

Number = int | float | Fraction | Decimal


def as_written(name: str, value: Number) -> Fraction:
    """The rational number a person wrote: the shortest decimal of a float, not its binary expansion.

    ``0.1`` means one tenth, so ten charges of 0.1 fit a limit of 1. A float that was *computed* as an
    upper bound must not be read this way (it could lose half a unit in the last place): use ``Fraction(value)``.

    >>> as_written("rho", 0.1)
    Fraction(1, 10)
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise InvalidInput(name, value, "a number")
    if not math.isfinite(value):
        raise InvalidInput(name, value, "a finite number")
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(value) if isinstance(value, Decimal) else Fraction(repr(float(value)))
