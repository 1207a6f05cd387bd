"""Exact coins: rational probability, or exp(-exponent)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.integer_exp import exp_enclosure, rational
from tallystick.mechanisms.exact.inversion import Inversion, Weights
from tallystick.mechanisms.exact.randomness import Source


def bernoulli(probability: float | Fraction, *, size: int, source: Source) -> NDArray[np.bool_]:
    """True with exactly this rational probability: compares its binary digits with random ones.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> bernoulli(Fraction(1, 3), size=4, source=SYSTEM).shape
    (4,)
    """
    exact = rational("probability", probability)
    if exact > 1:
        raise InvalidInput("probability", probability, "a number between 0 and 1")
    if exact == 1:
        return np.ones(size, dtype=np.bool_)
    digits = (exact.numerator << 64) // exact.denominator
    words = source.words(size)
    result = words < np.uint64(digits)
    for tied in np.flatnonzero(words == np.uint64(digits)).tolist():
        result[tied] = _continue_rational(exact * (1 << 64) - digits, source)
    return result


def _continue_rational(rest: Fraction, source: Source) -> bool:
    """The first 64 digits tied; decide on the digits of the remainder."""
    while rest:
        digits, word = (rest.numerator << 64) // rest.denominator, source.bits(64)
        if word != digits:
            return word < digits
        rest = rest * (1 << 64) - digits
    return False


def bernoulli_exp(exponent: float | Fraction, *, size: int, source: Source) -> NDArray[np.bool_]:
    """True with probability exactly exp(-exponent).

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> bool(bernoulli_exp(0, size=3, source=SYSTEM).all())
    True
    """
    exact = rational("exponent", exponent)
    if exact == 0:
        return np.ones(size, dtype=np.bool_)
    return np.equal(_coin(exact).draw(size, source), 0)


@lru_cache(maxsize=64)
def _coin(exponent: Fraction) -> Inversion:
    def weights(precision: int) -> Weights:
        lower, upper = exp_enclosure(exponent.numerator, exponent.denominator, precision)
        return Weights(0, [lower, (1 << precision) - upper], [upper, (1 << precision) - lower])

    return Inversion(weights)
