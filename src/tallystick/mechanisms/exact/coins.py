"""Coins with any computable probability, exactly.

64 random bits decide almost every coin; a coin whose bits agree with the probability that far takes more bits and
asks for the probability with more digits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.exact.intervals import Digits, Enclosure
from tallystick.mechanisms.exact.randomness import Source

Probability = Callable[[Digits], Enclosure]
"""A probability: for the asked digits, an enclosure of it."""

_CHUNK = 1 << 20
_ROUND = 2.0**-49  # bounds an exp right to 8 ulp and two roundings, relatively


def exp_probability(exponent: Fraction) -> Probability:
    """The probability e^-exponent, exponent >= 0.

    >>> exp_probability(Fraction(1))(Digits(8)).high > Decimal("0.36787944")
    True
    """
    return lambda digits: digits.exp(-digits.of(exponent))


def flip(probability: Probability, size: int, source: Source) -> NDArray[np.bool_]:
    """Independent coins that are True with exactly this probability.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> bool(flip(lambda digits: digits.of(1), 3, SYSTEM).all())
    True
    """
    least, most = word_bounds(probability)
    heads = np.empty(size, dtype=np.bool_)
    for start in range(0, size, _CHUNK):  # eight bytes of randomness per coin are held for one chunk at a time
        words = source.words(min(_CHUNK, size - start))
        part = words < least
        for i in np.flatnonzero(~part & (words <= most)):
            part[i] = _falls_heads(probability, int(words[i]), source)
        heads[start : start + part.size] = part
    return heads


def word_bounds(probability: Probability) -> tuple[np.uint64, np.uint64]:
    """A 64-bit word below the first number certainly means True, above the second certainly False.

    >>> word_bounds(lambda digits: digits.of(Fraction(1, 2))) == (2**63, 2**63)
    True
    """
    arithmetic = Digits(40)
    limit = probability(arithmetic)
    scale, top = Decimal(1 << 64), (1 << 64) - 1
    low = arithmetic.down.multiply(limit.low, scale).to_integral_value(ROUND_FLOOR)
    high = arithmetic.up.multiply(limit.high, scale).to_integral_value(ROUND_CEILING)
    return np.uint64(min(max(int(low), 0), top)), np.uint64(min(max(int(high), 0), top))


def exp_word_bounds(
    exponents: NDArray[np.float64], error: NDArray[np.float64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """:func:`word_bounds` of e^-x for many x known to within ``error``, in float64 rounded outward.

    >>> import math
    >>> least, most = exp_word_bounds(np.array([0.5]), np.zeros(1))
    >>> float(least[0]) < math.exp(-0.5) * 2**64 < float(most[0])
    True
    """
    scale, top = 2.0**64, 2.0**64 - 2.0**12
    with np.errstate(under="ignore"):
        low = np.exp(-(exponents + error)) * (scale * (1 - _ROUND))
        high = np.exp(-(exponents - error)) * (scale * (1 + _ROUND)) + 1
    least = np.floor(np.minimum(low, top)).astype(np.uint64)
    most = np.ceil(np.minimum(high, top)).astype(np.uint64)
    most[high >= top] = np.uint64((1 << 64) - 1)
    return least, most


def flip_words(
    least: NDArray[np.uint64], most: NDArray[np.uint64], probability: Callable[[int], Probability], source: Source
) -> NDArray[np.bool_]:
    """One coin per entry of the bounds of :func:`word_bounds`; ``probability(i)`` settles the doubtful ones."""
    words = source.words(least.size)
    heads = words < least
    for i in np.flatnonzero(~heads & (words <= most)):
        heads[i] = _falls_heads(probability(int(i)), int(words[i]), source)
    return heads


def _falls_heads(probability: Probability, word: int, source: Source) -> bool:
    numerator, bits, digits = word, 64, 40
    while True:
        arithmetic = Digits(digits)
        limit = probability(arithmetic)
        one = Decimal(1 << bits)
        if arithmetic.up.divide(Decimal(numerator + 1), one) <= limit.low:
            return True
        if arithmetic.down.divide(Decimal(numerator), one) >= limit.high:
            return False
        numerator, bits, digits = (numerator << 64) | source.bits(64), bits + 64, digits + 25
