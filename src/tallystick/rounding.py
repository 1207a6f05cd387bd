"""Which way is safe: a bound that claims less privacy may be rounded, one that claims more may not.

A closed form evaluated in double precision has a relative error of a few units in the last place, so stretching by
``SLACK`` (about 4500 units) covers it with room to spare. Below the least normal number an error is absolute, and a
positive number may vanish: ``up`` then adds a few units of the least float, and ``positive`` says that the true number
is above zero, so that what vanished becomes the least float again.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tallystick.digits import typed
from tallystick.errors import InvalidInput

SLACK = 1e-12
TINY = 1e-300
LEAST = math.ulp(0.0)
"""The least positive float."""
NORMAL = sys.float_info.min
"""The least one that has all its digits."""


def up(value: float, *, slack: float = SLACK, positive: bool = False) -> float:
    """``value`` moved towards infinity: never below the real number it stands for.

    >>> up(2.0) > 2.0, up(0.0), up(float("inf")), up(0.0, positive=True)
    (True, 0.0, inf, 5e-324)
    """
    if value == 0.0:
        return LEAST if positive else 0.0
    return value if math.isinf(value) else math.nextafter(value + abs(value) * slack + 4.0 * LEAST, math.inf)


def down(value: float, *, slack: float = SLACK) -> float:
    """``value`` moved towards minus infinity: never above the real number it stands for.

    >>> down(2.0) < 2.0, down(0.0)
    (True, 0.0)
    """
    if value == 0.0 or math.isinf(value):
        return value
    lower = math.nextafter(value - abs(value) * slack - 4.0 * LEAST, -math.inf)
    return lower if value < 0.0 else max(0.0, lower)


def times_up(count: int, value: float) -> float:
    """count times value, exact where a double can be, else rounded up.

    >>> times_up(2, 0.5), times_up(3, 0.1) >= 3 * Fraction(0.1)
    (1.0, True)
    """
    return value if math.isinf(value) else double_above(count * Fraction(value))


def double_above(value: Fraction) -> float:
    """The least float that is not below an exact number; infinite beyond the largest.

    >>> double_above(Fraction(1, 2)), double_above(Fraction(1, 3)) > Fraction(1, 3)
    (0.5, True)
    """
    try:
        double = float(value)
    except OverflowError:
        return math.inf
    return double if Fraction(double) >= value else math.nextafter(double, math.inf)


def delta_up(value: float, *, slack: float = SLACK, positive: bool = False) -> float:
    """A probability of failure rounded up and kept inside [0, 1].

    >>> delta_up(0.25) > 0.25, delta_up(1.5), delta_up(-1e-18), delta_up(0.0, positive=True) > 0
    (True, 1.0, 0.0, True)
    """
    return min(1.0, up(max(0.0, value), slack=slack, positive=positive))


def delta_down(value: float, *, slack: float = SLACK) -> float:
    """A least error (type II, say) rounded down and kept inside [0, 1].

    >>> delta_down(0.25) < 0.25, delta_down(-0.1)
    (True, 0.0)
    """
    return min(1.0, max(0.0, down(value, slack=slack)))


def exp(value: float) -> float:
    """e^value, infinite where no float is large enough.

    >>> exp(0.0), exp(800.0), exp(-800.0)
    (1.0, inf, 0.0)
    """
    return math.exp(value) if value < 709.7 else math.inf


def expm1(value: float) -> float:
    """e^value - 1 without cancellation, infinite where no float is large enough.

    >>> expm1(1e-20), expm1(800.0)
    (1e-20, inf)
    """
    return math.expm1(value) if value < 709.7 else math.inf


def fsum(numbers: Iterable[float]) -> float:
    """The sum of non-negative numbers, exact until its last rounding, infinite where no float is large enough.

    >>> fsum([0.1] * 10), fsum([1e308, 1e308])
    (1.0, inf)
    """
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


# The rational number that a person wrote.

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
    # math.isfinite raises for a Decimal that signals, so a Decimal is asked itself
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        raise InvalidInput(name, value, "a finite number")
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(value) if isinstance(value, Decimal) else Fraction(repr(float(value)))


# The units in which the ledger adds up amounts.

UNITS_0 = 10**12
"""Units in one of rho, epsilon, mu squared or epsilon at an order. Charges round up to a unit, limits down."""
UNITS_1 = 10**18
"""Units in a delta of one."""


def units_below(value: Fraction, units: int) -> float:
    """The float nearest below ``value`` that a ledger charges without rounding up beyond ``value``.

    Its shortest decimal is at most the largest whole number of units that is not above ``value``.

    >>> units_below(Fraction(1, 24), UNITS_0)
    0.041666666666
    """
    most = Fraction(math.floor(value * units), units)
    double = float(most)
    while Fraction(repr(double)) > most:
        double = math.nextafter(double, -math.inf)
    return double


def root_below(value: Fraction, units: int) -> float:
    """The largest float whose square, as written, is at most ``value`` rounded down to a unit.

    >>> root_below(Fraction(1, 4), UNITS_0)
    0.5
    """
    most = Fraction(math.floor(value * units), units)
    double = math.nextafter(math.sqrt(most), math.inf)
    while Fraction(repr(double)) ** 2 > most:
        double = math.nextafter(double, -math.inf)
    return double


def read_amount(name: str, text: str) -> float:
    """A cost that was typed: a number, which is kept, or a fraction, which is rounded down to the ledger's unit.

    Twelve charges of ``1/24`` then fit a limit of 0.5.

    >>> read_amount("rho", "1/24"), read_amount("rho", "0.1"), read_amount("delta", "1e-6/12")
    (0.041666666666, 0.1, 8.3333333333e-08)
    """
    number = _number_of(name, text)
    return _whole_units(name, number) if isinstance(number, Fraction) else number


def fraction_down(name: str, value: Any) -> Any:
    """A fraction, or the text of one, rounded down to the ledger's unit; any other value as it is.

    >>> fraction_down("rho", Fraction(1, 24)), fraction_down("rho", "1/24"), fraction_down("rho", 0.5)
    (0.041666666666, 0.041666666666, 0.5)
    """
    if isinstance(value, Fraction):
        return _whole_units(name, value)
    return read_amount(name, value) if isinstance(value, str) and "/" in value else value


def _whole_units(name: str, value: Fraction) -> float:
    """A fraction rounded down to units of delta, or of any other amount."""
    units = UNITS_1 if name.lstrip("-") == "delta" else UNITS_0
    if not abs(value) < LARGEST_AMOUNT:
        raise InvalidInput(name, "a larger fraction", f"a number below {typed(LARGEST_AMOUNT)}")
    amount = units_below(value, units)
    if amount == 0 < value:
        raise InvalidInput(name, str(value), f"at least {1 / units:g}, the unit of the ledger")
    return amount


LARGEST_AMOUNT = 1e18
"""Fractions of this size or more are not amounts. The limit keeps their exact arithmetic short."""


def _number_of(name: str, text: str) -> float | Fraction:
    """A float, or an exact fraction if the text has a slash."""
    problem = InvalidInput(name, text, "a number, such as 0.01, or a fraction, such as 1/24")
    try:
        sides = [float(side) for side in text.split("/")]
        if len(sides) == 1:
            return sides[0]
        if not all(1 / LARGEST_AMOUNT <= abs(side) < LARGEST_AMOUNT for side in sides):
            raise problem
        top, bottom = text.split("/")
        return Fraction(top.strip()) / Fraction(bottom.strip())
    except (ValueError, ZeroDivisionError):
        raise problem from None
