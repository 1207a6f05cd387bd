"""Integers around exp(-x): the only transcendental function the samplers need, with a proven error.

Everything is Python integers, so a sampler's law rests on no floating-point library.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Rational

from tallystick.errors import InvalidInput

_GUARD = 96
_SLACK = 1 << 60  # bound on the accumulated error in units of 2^-(bits + _GUARD); see exp_enclosure


def rational(name: str, value: object, *, positive: bool = False) -> Fraction:
    """Read a parameter at its exact value: floats are dyadic rationals.

    >>> rational("scale", 0.5)
    Fraction(1, 2)
    """
    allowed = "a finite number > 0" if positive else "a finite number >= 0"
    if isinstance(value, bool) or not isinstance(value, (float, Rational)):
        raise InvalidInput(name, value, allowed)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(name, value, allowed)
        exact = Fraction(value)
    else:  # NumPy integers count as Rational but overflow inside a Fraction, hence int().
        exact = Fraction(int(value.numerator), int(value.denominator))
    if exact < 0 or (positive and exact == 0):
        raise InvalidInput(name, value, allowed)
    return exact


@lru_cache(maxsize=8)
def _log_two(width: int) -> int:
    """2^width ln 2 within ``width`` units: Machin-like 18 atanh(1/26) - 2 atanh(1/4801) + 8 atanh(1/8749)."""

    def atanh_inverse(n: int) -> int:
        power = (1 << (width + 32)) // n
        total, k, square = 0, 1, n * n
        while power:
            total += power // k
            power //= square
            k += 2
        return total

    return (18 * atanh_inverse(26) - 2 * atanh_inverse(4801) + 8 * atanh_inverse(8749)) >> 32


def exp_enclosure(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Integers (lower, upper) with lower <= 2^bits exp(-numerator/denominator) <= upper and upper - lower <= 2.

    Reduce by multiples of ln 2, halve the rest eight times, sum Taylor's series, square eight times. With width
    w = bits + 96, reduction errs by at most 2 + n * w units of 2^-w (n < 2 bits), each of fewer than w Taylor terms by
    two, and eight squarings multiply by 2^8 and add 2^9: together below 2^60 units for bits < 2^24.

    >>> exp_enclosure(1, 1, 16)     # 65536 / e = 24109.3
    (24109, 24110)
    """
    if numerator >= bits * denominator:  # exp(-x) <= e^-bits < 2^-bits
        return 0, 1
    width = bits + _GUARD
    log_two = _log_two(width)
    halvings, rest = divmod((numerator << width) // denominator, log_two)
    small = rest >> 8
    total = term = 1 << width
    k = 1
    while term:
        term = (term * small >> width) // k
        total += term if k % 2 == 0 else -term
        k += 1
    for _ in range(8):
        total = total * total >> width
    shift = halvings + _GUARD
    return max(0, total - _SLACK) >> shift, (total + _SLACK >> shift) + 1


def ceil_div(numerator: int, denominator: int) -> int:
    """Quotient rounded up.

    >>> ceil_div(7, 2)
    4
    """
    return -(-numerator // denominator)
