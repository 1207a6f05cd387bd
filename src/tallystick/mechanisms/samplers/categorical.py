"""Exact choice of an index with probability proportional to multiplicities[i] * exp(factor * scores[i]).

This is the exponential mechanism's sampler, and by the Gumbel-max identity also noisy max with Gumbel noise and the
race of exponential clocks. Weights are first enclosed between integers made from floats that are trusted to 2^-32 only;
a draw that falls inside such an enclosure (about candidates * 2^-31 of them) is settled with multiprecision integers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallystick.errors import InvalidInput
from tallystick.mechanisms.randomness import Source
from tallystick.mechanisms.samplers.enclosure import ceil_div, exp_enclosure, rational
from tallystick.mechanisms.samplers.uniform import integers

LARGEST = 1 << 24  # candidates; keeps the sums of 40-bit weights below 2^64 and memory near half a gigabyte
_TRUST = 2.0**-32
_FIXED = 38  # bits after the point of the float enclosures

Scores = ArrayLike | Sequence[Fraction]


def choose(
    scores: Scores, *, factor: float | Fraction, multiplicities: Sequence[int] | None = None, source: Source
) -> int:
    """One index i with probability exactly proportional to multiplicities[i] exp(factor scores[i]).

    ``scores`` are integers, floats (read exactly) or Fractions; ``factor`` is the same, and >= 0.
    ``multiplicities`` are integers >= 0, not all zero.

    >>> from tallystick.mechanisms.randomness import SYSTEM
    >>> choose([0, 1000], factor=1, source=SYSTEM)
    1
    """
    return int(choose_many(scores, factor=factor, multiplicities=multiplicities, size=1, source=source)[0])


def choose_many(
    scores: Scores,
    *,
    factor: float | Fraction,
    multiplicities: Sequence[int] | None = None,
    size: int,
    source: Source,
) -> NDArray[np.int64]:
    """``size`` independent such choices from one set of scores.

    >>> from tallystick.mechanisms.randomness import SYSTEM
    >>> choose_many([0, 0], factor=1, multiplicities=[0, 5], size=3, source=SYSTEM).tolist()
    [1, 1, 1]
    """
    exact = rational("factor", factor)
    values, counts = _scores(scores), None if multiplicities is None else _counts(multiplicities)
    if counts is not None and len(counts) != len(values):
        raise InvalidInput("multiplicities", f"{len(counts)} numbers", f"one for each of the {len(values)} scores")
    if exact == 0 and counts is None:
        return integers(len(values), size=size, source=source)
    return _Choice(values, exact, counts).draw(size, source)


def _scores(scores: Scores) -> NDArray[Any]:
    allowed = "a non-empty one-dimensional sequence of finite numbers"
    try:
        array = np.asarray(scores)
    except ValueError:
        raise InvalidInput("scores", "a ragged sequence", allowed) from None
    if array.ndim != 1 or not 1 <= array.size:
        raise InvalidInput("scores", f"an array of shape {array.shape}", allowed)
    if array.size > LARGEST:
        raise InvalidInput("scores", f"{array.size} candidates", f"at most {LARGEST} candidates")
    if array.dtype.kind == "O":
        if not all(isinstance(s, (int, Fraction)) for s in array):
            raise InvalidInput("scores", "an array of objects", allowed)
        return array
    if array.dtype.kind in "bui":
        wide = array.dtype == np.uint64 and bool((array > np.uint64(1 << 62)).any())
        return array.astype(object) if wide else array.astype(np.int64)
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        raise InvalidInput("scores", f"an array of {array.dtype} with values that are not finite numbers", allowed)
    return array.astype(np.float64)


def _counts(multiplicities: Sequence[int]) -> list[int]:
    counts = [int(m) for m in multiplicities]
    if any(c != m for c, m in zip(counts, multiplicities, strict=True)) or min(counts, default=0) < 0 or not any(counts):
        raise InvalidInput("multiplicities", "given list", "integers >= 0, not all zero")
    return counts


class _Choice:
    """Cumulative enclosures of one set of weights, relative to the heaviest candidate of positive multiplicity."""

    __slots__ = ("_above", "_below", "_best", "_counts", "_factor", "_greatest", "_least", "_values")

    def __init__(self, values: NDArray[Any], factor: Fraction, counts: list[int] | None) -> None:
        self._values, self._factor, self._counts = values, factor, counts
        if counts is None:
            self._best = values.max()
        else:
            self._best = max(v for v, c in zip(values, counts, strict=True) if c)
        gaps = (self._best - values).astype(np.float64) if values.dtype.kind != "i" else self._integer_gaps()
        with np.errstate(over="ignore", under="ignore"):
            weight = np.exp(np.maximum(-gaps * float(factor), -800.0)) if factor else np.ones(len(values))
        if counts is not None:
            largest = max(counts)
            share = np.array([c / largest for c in counts])
            weight = np.where(share > 0, np.minimum(weight, 1.0) * share, 0.0)
        low = np.floor(np.ldexp(weight * (1 - _TRUST), _FIXED)).astype(np.uint64)
        high = np.floor(np.ldexp(weight * (1 + _TRUST), _FIXED)).astype(np.uint64) + np.uint64(1)
        if counts is not None:
            high[share == 0] = 0
        self._below, self._above = np.cumsum(low, dtype=np.uint64), np.cumsum(high, dtype=np.uint64)
        self._least, self._greatest = int(self._below[-1]), int(self._above[-1])

    def _integer_gaps(self) -> NDArray[np.float64]:
        if int(self._best) - int(self._values.min()) < 1 << 62:
            return (self._best - self._values).astype(np.float64)
        return np.array([float(int(self._best) - int(v)) for v in self._values])

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        chosen = np.empty(size, dtype=np.int64)
        for position, word in enumerate(source.words(size).tolist()):
            # The uniform number lies in [word, word + 1) / 2^64; cell i is certain if it lies past F(i-1) and before F(i).
            index = int(np.searchsorted(self._above, ceil_div(word * self._greatest, 1 << 64), side="right"))
            chosen[position] = index if self._certain(index, word) else self._settle(word, source)
        return chosen

    def _certain(self, index: int, word: int) -> bool:
        before = int(self._above[index - 1]) << 64 if index else 0
        if index >= len(self._values) or self._least == 0:
            return False
        # F(index - 1) <= above / least and F(index) >= below / greatest.
        past = before <= word * self._least
        last = index == len(self._values) - 1 and self._counts is None
        return past and (last or (word + 1) * self._greatest <= int(self._below[index]) << 64)

    def _settle(self, drawn: int, source: Source) -> int:
        """All weights again in integers, with bits and precision added until the cell is certain."""
        bits = 64
        while True:
            bits += 64
            drawn = drawn << 64 | source.bits(64)
            lower, upper = self._exact_weights(bits + 64)
            below, above = list(accumulate(lower)), list(accumulate(upper))
            least, greatest = below[-1], above[-1]
            # Cells whose right end is certainly at or before the number, and cells whose right end may be.
            passed = bisect_right(above, drawn * least >> bits)
            possibly = bisect_right(below, ((drawn + 1) * greatest - 1) >> bits)
            if passed == possibly and passed < len(below):
                return passed

    def _exact_weights(self, precision: int) -> tuple[list[int], list[int]]:
        lower, upper = [], []
        best = Fraction(self._best.item() if isinstance(self._best, np.generic) else self._best)
        for i, value in enumerate(self._values.tolist()):
            count = 1 if self._counts is None else self._counts[i]
            exponent = (best - Fraction(value)) * self._factor
            low, high = (0, 0)
            if count:
                # A multiplicity of 0 contributes exactly nothing, so a lone candidate's score cannot matter.
                sign_safe = max(exponent, Fraction(0))
                low, high = exp_enclosure(sign_safe.numerator, sign_safe.denominator, precision)
            lower.append(low * count)
            upper.append(high * count)
        return lower, upper
