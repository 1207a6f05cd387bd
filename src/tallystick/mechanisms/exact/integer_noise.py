"""Exact discrete Laplace and discrete Gaussian noise: P(k) proportional to exp(-rate h(k)), h(k) = |k| or k^2.

Small scales: lazy inversion over single integers. Large scales: inversion over blocks of 2^j integers under a staircase
that lies above the law, a uniform point of the block, and rejection with the exact ratio. The staircase is fine enough
that about 98 of 100 proposals are accepted, nearly all of them by one 16-bit comparison.

Lazy inversion draws just enough bits to know which cell of a cumulative distribution they fall in. A law gives integer
enclosures of its weights at any precision. The cumulative probabilities times 2^64 are then enclosed between
neighbouring integers, once. A draw takes 16 bits and looks in a guide table; if a boundary lies in that 65536th it
takes 48 more and searches; if it falls inside an enclosure (once in about 2^64 / cells) it takes 64 bits and 64 digits
more, until certain. The law is exact with probability one.

The only transcendental function is exp(-x), between Python integers with a proven error, so that a law rests on no
floating-point library. Theory: docs/theory/noise-lazy-inversion.md
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.randomness import Source

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


_GUIDE_BITS = 16
_GUIDE_FROM = 2048  # below this many draws, building the guide costs more than it saves
_UNKNOWN = np.iinfo(np.int32).min
_GUIDED_AT_ONCE = 1 << 17  # keeps temporaries in cache and memory bounded


@dataclass(frozen=True, slots=True)
class WeightEnclosures:
    """Enclosures of unnormalised weights: ``lower[i] <= 2^precision w(first + i) <= upper[i]``.

    ``left`` and ``right`` bound from above the total weight of everything before and after the list.
    """

    first: int
    lower: list[int]
    upper: list[int]
    left: int = 0
    right: int = 0


def boundaries(weights: WeightEnclosures, bits: int) -> tuple[list[int], list[int]]:
    """Enclosures (below, above) of 2^bits F at the right end of the left tail and of each listed cell.

    Errs outwards only: ``below`` divides the least possible mass by the greatest total, ``above`` the reverse.
    """
    least, greatest = sum(weights.lower), weights.left + sum(weights.upper) + weights.right
    below = [(mass << bits) // greatest for mass in accumulate(weights.lower, initial=0)]
    above = [ceil_div(mass << bits, least) for mass in accumulate(weights.upper, initial=weights.left)]
    if weights.right == 0:  # the last cell ends at 1: nothing to enclose
        below.pop(), above.pop()
    return below, above


class Inversion:
    """A law on the integers, ready to draw from.

    ``weights(precision)`` returns enclosures whose tails weigh less than about 2^-precision.
    ``word`` is how many bits are compared before asking for more precision; tests lower it to reach that path often.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> coin = Inversion(lambda precision: WeightEnclosures(0, [1, 3], [1, 3]))     # P(1) = 3/4
    >>> set(coin.draw(1000, SYSTEM).tolist())
    {0, 1}
    """

    __slots__ = ("_above", "_below", "_first", "_guide", "_listed", "_weights", "_word")

    def __init__(self, weights: Callable[[int], WeightEnclosures], *, word: int = 64) -> None:
        self._weights, self._word = weights, word
        listed = weights(word + 32)
        below, above = boundaries(listed, word)
        limit = 1 << word
        # A boundary enclosed up to the very end can never be certainly passed, so it is not stored on that side.
        self._below = np.array([b for b in below if b < limit], dtype=np.uint64)
        self._above = np.array([a for a in above if a < limit], dtype=np.uint64)
        self._first = listed.first - 1  # cell 0 is the left tail
        self._guide: NDArray[np.int32] | None = None
        self._listed: tuple[list[int], list[int]] | None = None

    @property
    def cells(self) -> int:
        """Integers that are distinguished before more precision is needed."""
        return len(self._below) + 1

    def one(self, source: Source) -> int:
        """A single draw in plain integers: an array of one would cost more to handle than to draw."""
        if self._listed is None:
            self._listed = self._above.tolist(), self._below.tolist()
        above, below = self._listed
        word = source.bits(self._word)
        cell = bisect_right(above, word)
        return cell + self._first if cell == bisect_right(below, word) else self._settle(word, source)

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """``size`` independent draws."""
        if size < _GUIDE_FROM or self._word != 64:
            words = source.words(size) >> np.uint64(64 - self._word)
            return self._located(words, source)
        if self._guide is None:
            self._guide = self._make_guide()
        out = np.empty(size, dtype=np.int64)
        for start in range(0, size, _GUIDED_AT_ONCE):
            self._guided(self._guide, out[start : start + _GUIDED_AT_ONCE], source)
        return out

    def _guided(self, guide: NDArray[np.int32], out: NDArray[np.int64], source: Source) -> None:
        heads = source.array(len(out), np.uint16)
        cells = guide.take(heads)
        out[:] = cells
        unknown = np.flatnonzero(cells == _UNKNOWN)
        if unknown.size:
            rest = source.words(unknown.size) >> np.uint64(_GUIDE_BITS)
            words = rest | (heads[unknown].astype(np.uint64) << np.uint64(64 - _GUIDE_BITS))
            out[unknown] = self._located(words, source)

    def _located(self, words: NDArray[np.uint64], source: Source) -> NDArray[np.int64]:
        # Both sides are uint64: comparing with a signed type would go through float64 and lose bits.
        cells = np.searchsorted(self._above, words, side="right").astype(np.int64)
        most = np.searchsorted(self._below, words, side="right")
        for position in np.flatnonzero(cells != most).tolist():
            cells[position] = self._settle(int(words[position]), source) - self._first
        cells += self._first
        return cells

    def _settle(self, drawn: int, source: Source) -> int:
        """Add bits and precision until the cell of ``drawn`` is certain."""
        bits = self._word
        while True:
            bits += 64
            drawn = drawn << 64 | source.bits(64)
            listed = self._weights(bits + 32)
            below, above = boundaries(listed, bits)
            cell = bisect_right(above, drawn)
            if cell == bisect_right(below, drawn):
                return listed.first - 1 + cell

    def _make_guide(self) -> NDArray[np.int32]:
        starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
        ends = starts | np.uint64((1 << (64 - _GUIDE_BITS)) - 1)
        cells = np.searchsorted(self._above, starts, side="right")
        certain = cells == np.searchsorted(self._below, ends, side="right")
        return np.where(certain, cells + self._first, _UNKNOWN).astype(np.int32)


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

    def _weights(self, precision: int) -> WeightEnclosures:
        """Enclose exp(-rate h) at the start of each block, until the rest weighs less than 2^-precision."""
        rate, bits = self._rate, precision + _SPARE
        lower: list[int] = []
        upper: list[int] = []
        while True:
            height = self._shape.height(len(lower) << self._bits)
            low, high = exp_enclosure(height * rate.numerator, rate.denominator, bits)
            if high < 1 << _SPARE:
                following = self._shape.height((len(lower) + 1) << self._bits)
                # h is convex, so ratios of neighbours decrease and the rest is below a geometric series.
                ratio = exp_enclosure((following - height) * rate.numerator, rate.denominator, bits)[1]
                rest = ceil_div(high << bits, max(1, (1 << bits) - ratio))
                if rest < 1 << _SPARE:
                    break
            lower.append(low)
            upper.append(high)
        mirrored = 0 if self._bits else 1  # a single zero has no sign
        left_lower, left_upper = lower[mirrored:][::-1], upper[mirrored:][::-1]
        return WeightEnclosures(-len(left_lower), left_lower + lower, left_upper + upper, rest, rest)

    def _surely_accepted(self) -> NDArray[np.uint16]:
        """Per block, a 16-bit number certainly below 2^16 times the least acceptance probability in it."""
        blocks = self._inversion.cells  # for both signs: more than enough
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
