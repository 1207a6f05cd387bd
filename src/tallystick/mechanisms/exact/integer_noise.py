"""Exact discrete Laplace and discrete Gaussian noise: P(k) proportional to exp(-rate h(k)), h(k) = |k| or k^2.

Small scales: lazy inversion over single integers. Large scales: inversion over blocks of 2^j integers under a staircase
that lies above the law, a uniform point of the block, and rejection with the exact ratio. The staircase is fine enough
that about 98 of 100 proposals are accepted, nearly all of them by one 16-bit comparison.
Theory: docs/theory/noise-lazy-inversion.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.integer_exp import ceil_div, exp_enclosure, rational
from tallystick.mechanisms.exact.inversion import Inversion, Weights
from tallystick.mechanisms.exact.randomness import Source

LARGEST_SCALE = 1 << 50
_CHUNK = 1 << 16
_COIN = 16  # bits of the first acceptance comparison
_SPARE = 32  # digits kept beyond the asked precision, so that the neglected tail weighs less than 2^-precision
# exp and the products in its argument are trusted to this relative error only; in truth it is about 2^-50.
_TRUST = 2.0**-32


@dataclass(frozen=True, slots=True)
class Shape:
    """h on magnitudes: integer valued, increasing and convex; ``growth(a, b) = h(b) - h(a)`` in floats."""

    height: Callable[[int], int]
    growth: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


LINEAR = Shape(lambda m: m, lambda a, b: b - a)
SQUARE = Shape(lambda m: m * m, lambda a, b: (b - a) * (b + a))


class Ladder:
    """The law P(k) proportional to exp(-rate h(|k|)), with blocks of 2^block_bits magnitudes.

    Cell c >= 0 is the block of magnitudes from c 2^j with sign +; cell -1 - c is the same block with sign -, where
    minus zero is rejected. With single integers (j = 0) cell c is the integer c itself.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> Ladder(LINEAR, Fraction(1, 10), block_bits=0).draw(4, SYSTEM).shape
    (4,)
    """

    __slots__ = ("_bits", "_inversion", "_rate", "_shape", "_sure")

    def __init__(self, shape: Shape, rate: Fraction, *, block_bits: int, word: int = 64) -> None:
        self._shape, self._rate, self._bits = shape, rate, block_bits
        self._inversion = Inversion(self._weights, word=word)
        self._sure = self._surely_accepted() if block_bits else None

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """``size`` independent draws; int64 saturates, an event of probability below exp(-4000)."""
        if size == 1:
            return np.array([self.one(source)], dtype=np.int64)
        if self._sure is None:
            return self._inversion.draw(size, source)
        out = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            wanted = size - filled
            accepted = self._accepted(self._sure, min(_CHUNK, wanted + wanted // 16 + 4), source)[:wanted]
            out[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return out

    def one(self, source: Source) -> int:
        """A single draw by the same steps as :meth:`draw`, in plain integers: much faster than an array of one."""
        if self._sure is None:
            return self._inversion.one(source)
        while True:
            cell, word = self._inversion.one(source), source.bits(64)
            block = min(~cell if cell < 0 else cell, (1 << (62 - self._bits)) - 1)
            start, coin = block << self._bits, word >> (64 - _COIN)
            magnitude = start + (word & ((1 << self._bits) - 1))
            if magnitude == 0 and cell < 0:
                continue
            if coin >= int(self._sure[min(block, len(self._sure) - 1)]):
                rise = self._shape.height(magnitude) - self._shape.height(start)
                if not settle_exp(coin << 48 | source.bits(48), 64, rise * self._rate, source):
                    continue
            return -magnitude if cell < 0 else magnitude

    def _weights(self, precision: int) -> Weights:
        """Enclose exp(-rate h) at the start of each block, until the rest weighs less than 2^-precision."""
        rate, bits = self._rate, precision + _SPARE
        lower: list[int] = []
        upper: list[int] = []
        while True:
            height, following = (self._shape.height((len(lower) + i) << self._bits) for i in (0, 1))
            low, high = exp_enclosure(height * rate.numerator, rate.denominator, bits)
            if high < 1 << _SPARE:
                # h is convex, so ratios of neighbours decrease and the rest is below a geometric series.
                ratio = exp_enclosure((following - height) * rate.numerator, rate.denominator, bits)[1]
                rest = ceil_div(high << bits, max(1, (1 << bits) - ratio))
                if rest < 1 << _SPARE:
                    break
            lower.append(low)
            upper.append(high)
        mirrored = 0 if self._bits else 1  # a single zero has no sign
        left_lower, left_upper = lower[mirrored:][::-1], upper[mirrored:][::-1]
        return Weights(-len(left_lower), left_lower + lower, left_upper + upper, rest, rest)

    def _surely_accepted(self) -> NDArray[np.uint16]:
        """Per block, a 16-bit number certainly below 2^16 times the least acceptance probability in it."""
        blocks = len(self._weights(64).upper)  # for both signs: more than enough
        near = np.arange(blocks, dtype=np.float64) * 2.0**self._bits
        least = np.exp(-self._shape.growth(near, near + 2.0**self._bits) * float(self._rate))
        sure = np.floor(least * (1 - 2.0**-20) * ((1 << _COIN) - 1)).astype(np.uint16)
        sure[-1] = 0  # stands for every later block: nothing is sure there
        return sure

    def _accepted(self, sure: NDArray[np.uint16], size: int, source: Source) -> NDArray[np.int64]:
        cells = self._inversion.draw(size, source)
        words = source.words(size)
        negative = cells < 0
        blocks = np.minimum(np.where(negative, ~cells, cells), (1 << (62 - self._bits)) - 1)
        offsets = (words & np.uint64((1 << self._bits) - 1)).view(np.int64)
        magnitudes = (blocks << self._bits) + offsets
        coins = (words >> np.uint64(64 - _COIN)).astype(np.uint16)
        keep = coins < sure.take(blocks, mode="clip")
        doubtful = np.flatnonzero(~keep)
        if doubtful.size:
            keep[doubtful] = self._ratio_coins(blocks[doubtful], magnitudes[doubtful], coins[doubtful], source)
        keep &= ~negative | (magnitudes > 0)
        return np.where(negative, -magnitudes, magnitudes)[keep]

    def _ratio_coins(
        self, blocks: NDArray[np.int64], magnitudes: NDArray[np.int64], coins: NDArray[np.uint16], source: Source
    ) -> NDArray[np.bool_]:
        """Accept with probability exp(-rate (h(magnitude) - h(start))), given the first 16 bits of each coin."""
        starts = blocks << self._bits
        growth = self._shape.growth(starts.astype(np.float64), magnitudes.astype(np.float64))
        chance = np.exp(-growth * float(self._rate))
        tails = source.words(len(coins)) >> np.uint64(_COIN)
        words = tails | (coins.astype(np.uint64) << np.uint64(64 - _COIN))
        uniform = words.astype(np.float64) * 2.0**-64
        accept = uniform < chance * (1 - _TRUST)
        close = ~accept & (uniform <= chance * (1 + _TRUST) + 2.0**-62)
        for i in np.flatnonzero(close).tolist():
            rise = self._shape.height(int(magnitudes[i])) - self._shape.height(int(starts[i]))
            accept[i] = settle_exp(int(words[i]), 64, rise * self._rate, source)
        return accept


def settle_exp(drawn: int, bits: int, exponent: Fraction, source: Source) -> bool:
    """Is the uniform number that starts with these bits below exp(-exponent)? Takes more bits until certain."""
    while True:
        lower, upper = exp_enclosure(exponent.numerator, exponent.denominator, bits)
        if drawn < lower:
            return True
        if drawn >= upper:
            return False
        drawn = drawn << 64 | source.bits(64)
        bits += 64


def block_bits(scale: Fraction, *, argument: str, steps: int) -> int:
    """Block size that leaves between ``steps`` and 2 ``steps`` blocks per scale; 0 for small scales."""
    if scale > LARGEST_SCALE:
        raise InvalidInput(argument, float(scale) if scale < 1 << 1000 else math.inf, "at most 2^50 lattice units")
    return max(0, (math.floor(scale) // steps).bit_length() - 1)


def discrete_laplace(scale: float | Fraction, *, size: int, source: Source) -> NDArray[np.int64]:
    """P(k) = tanh(1 / (2 scale)) exp(-|k| / scale) on all integers, exactly, for scales up to 2^50.

    Ghosh, Roughgarden and Sundararajan 2009; sampled by lazy inversion (docs/theory/noise-lazy-inversion.md).

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> discrete_laplace(10, size=3, source=SYSTEM).dtype
    dtype('int64')
    """
    return laplace_law(rational("scale", scale, positive=True)).draw(size, source)


@lru_cache(maxsize=32)
def laplace_law(scale: Fraction, *, word: int = 64) -> Ladder:
    """The sampler of one scale, built once."""
    return Ladder(LINEAR, 1 / scale, block_bits=block_bits(scale, argument="scale", steps=16), word=word)


def discrete_gaussian(sigma: float | Fraction, *, size: int, source: Source) -> NDArray[np.int64]:
    """P(k) proportional to exp(-k^2 / (2 sigma^2)) on all integers, exactly, for sigma up to 2^50.

    ``sigma`` is the parameter of the law; for sigma below about 1 its standard deviation is smaller.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> discrete_gaussian(10, size=3, source=SYSTEM).dtype
    dtype('int64')
    """
    return gaussian_law(rational("sigma", sigma, positive=True)).draw(size, source)


@lru_cache(maxsize=32)
def gaussian_law(sigma: Fraction, *, word: int = 64) -> Ladder:
    """The sampler of one sigma, built once."""
    bits = block_bits(sigma, argument="sigma", steps=32)
    return Ladder(SQUARE, 1 / (2 * sigma**2), block_bits=bits, word=word)
