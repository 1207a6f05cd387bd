"""The discrete Laplace law, also called two-sided geometric."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.exact.integer_exp import rational
from tallystick.mechanisms.exact.integer_noise import LINEAR, Ladder, block_bits
from tallystick.mechanisms.exact.randomness import Source


def discrete_laplace(scale: float | Fraction, *, size: int, source: Source) -> NDArray[np.int64]:
    """P(k) = tanh(1 / (2 scale)) exp(-|k| / scale) on all integers, exactly, for scales up to 2^50.

    Ghosh, Roughgarden and Sundararajan 2009; sampled by lazy inversion (docs/theory/noise-lazy-inversion.md).

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> discrete_laplace(10, size=3, source=SYSTEM).dtype
    dtype('int64')
    """
    return law(rational("scale", scale, positive=True)).draw(size, source)


@lru_cache(maxsize=32)
def law(scale: Fraction, *, word: int = 64) -> Ladder:
    """The sampler of one scale, built once."""
    return Ladder(LINEAR, 1 / scale, block_bits=block_bits(scale, argument="scale", steps=16), word=word)
