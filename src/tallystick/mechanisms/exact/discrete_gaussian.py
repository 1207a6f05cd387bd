"""The discrete Gaussian law of Canonne, Kamath and Steinke 2020."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.exact.integer_exp import rational
from tallystick.mechanisms.exact.integer_noise import SQUARE, Ladder, block_bits
from tallystick.mechanisms.exact.randomness import Source


def discrete_gaussian(sigma: float | Fraction, *, size: int, source: Source) -> NDArray[np.int64]:
    """P(k) proportional to exp(-k^2 / (2 sigma^2)) on all integers, exactly, for sigma up to 2^50.

    ``sigma`` is the parameter of the law; for sigma below about 1 its standard deviation is smaller.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> discrete_gaussian(10, size=3, source=SYSTEM).dtype
    dtype('int64')
    """
    return law(rational("sigma", sigma, positive=True)).draw(size, source)


@lru_cache(maxsize=32)
def law(sigma: Fraction, *, word: int = 64) -> Ladder:
    """The sampler of one sigma, built once."""
    bits = block_bits(sigma, argument="sigma", steps=32)
    return Ladder(SQUARE, 1 / (2 * sigma**2), block_bits=bits, word=word)
