"""The geometric law on 0, 1, 2, ..."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.exact.integer_exp import rational
from tallystick.mechanisms.exact.integer_noise import ONE_SIDED, Ladder, block_bits
from tallystick.mechanisms.exact.randomness import Source


def geometric(exponent: float | Fraction, *, size: int, source: Source) -> NDArray[np.int64]:
    """P(k) = (1 - exp(-exponent)) exp(-k exponent) for k >= 0, exactly.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> bool((geometric(2, size=100, source=SYSTEM) >= 0).all())
    True
    """
    return _law(rational("exponent", exponent, positive=True)).draw(size, source)


@lru_cache(maxsize=32)
def _law(exponent: Fraction) -> Ladder:
    return Ladder(ONE_SIDED, exponent, block_bits=block_bits(1 / exponent, argument="1/exponent", steps=16))
