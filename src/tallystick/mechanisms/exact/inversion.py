"""Lazy inversion: draw just enough bits to know which cell of a cumulative distribution they fall in.

A law gives integer enclosures of its weights at any precision. The cumulative probabilities times 2^64 are then
enclosed between neighbouring integers, once. A draw takes 16 bits and looks in a guide table; if a boundary lies in
that 65536th it takes 48 more and searches; if it falls inside an enclosure (once in about 2^64 / cells) it takes 64
bits and 64 digits more, until certain. The law is exact with probability one.
Theory: docs/theory/noise-lazy-inversion.md
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.exact.integer_exp import ceil_div
from tallystick.mechanisms.exact.randomness import Source

_GUIDE_BITS = 16
_GUIDE_FROM = 2048  # below this many draws, building the guide costs more than it saves
_UNKNOWN = np.iinfo(np.int32).min
_CHUNK = 1 << 17  # keeps temporaries in cache and memory bounded


@dataclass(frozen=True, slots=True)
class Weights:
    """Enclosures of unnormalised weights: ``lower[i] <= 2^precision w(first + i) <= upper[i]``.

    ``left`` and ``right`` bound from above the total weight of everything before and after the list.
    """

    first: int
    lower: list[int]
    upper: list[int]
    left: int = 0
    right: int = 0


def boundaries(weights: Weights, bits: int) -> tuple[list[int], list[int]]:
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
    >>> coin = Inversion(lambda precision: Weights(0, [1, 3], [1, 3]))     # P(1) = 3/4
    >>> set(coin.draw(1000, SYSTEM).tolist())
    {0, 1}
    """

    __slots__ = ("_above", "_below", "_first", "_guide", "_listed", "_weights", "_word")

    def __init__(self, weights: Callable[[int], Weights], *, word: int = 64) -> None:
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
        for start in range(0, size, _CHUNK):
            self._guided(self._guide, out[start : start + _CHUNK], source)
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
