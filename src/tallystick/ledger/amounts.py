"""Amounts are integers: how a number becomes one, and which way it rounds.

An amount is two 64-bit integers: ``a0`` counts units of 1e-12 (of rho, epsilon,
mu squared or epsilon at an order) and ``a1`` counts units of 1e-18 (of delta).
Charges round up, limits round down, and no float ever reaches the database.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from tallystick.accounting.written import Number as Number
from tallystick.accounting.written import as_written as as_written
from tallystick.errors import InvalidInput

UNITS_0: Final = 10**12
UNITS_1: Final = 10**18
LARGEST: Final = 2**62 - 1  # used + asked then never overflows int64 in SQL


def _near(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def charge_units(name: str, value: Fraction, units: int) -> int:
    """Integer units of a charge, rounded up: a positive charge costs at least one unit.

    >>> charge_units("rho", Fraction(1, 3), UNITS_0)
    333333333334
    >>> charge_units("rho", Fraction(1, 10**30), UNITS_0)
    1
    """
    if value < 0:
        raise InvalidInput(name, _near(value), "a number >= 0")
    amount = math.ceil(value * units)
    if amount > LARGEST:
        raise InvalidInput(name, _near(value), f"at most {LARGEST / units:.6g}")
    return amount


def limit_units(name: str, value: Fraction, units: int) -> int:
    """Integer units of a limit, rounded down.

    >>> limit_units("rho", Fraction(1, 3), UNITS_0)
    333333333333
    """
    if value < 0:
        raise InvalidInput(name, _near(value), "a number >= 0")
    amount = math.floor(value * units)
    if amount > LARGEST:
        raise InvalidInput(name, _near(value), f"at most {LARGEST / units:.6g}")
    return amount


def first_limit(name: str, value: Number) -> int:
    """A limit on the first coordinate: it must be positive after rounding down.

    >>> first_limit("rho", 0.5)
    500000000000
    """
    amount = limit_units(name, as_written(name, value), UNITS_0)
    if amount == 0:
        raise InvalidInput(name, value, "a limit of at least 1e-12")
    return amount


def second_limit(name: str, value: Number) -> int:
    """A limit on delta: zero is normal and means that no delta may be spent; one or more is refused.

    >>> second_limit("delta", 1e-6)
    1000000000000
    """
    amount = limit_units(name, as_written(name, value), UNITS_1)
    if amount >= UNITS_1:
        raise InvalidInput(name, value, "a number in [0, 1)")
    return amount
