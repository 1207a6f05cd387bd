"""Exact choice of an index with probability proportional to multiplicities[i] * exp(factor * scores[i]).

This is the exponential mechanism's sampler, and by the Gumbel-max identity also noisy max with Gumbel noise and the
race of exponential clocks. A few candidates are drawn by lazy inversion. With many, weights are first enclosed between
integers made from floats that are trusted to 2^-32 only; a draw that falls inside such an enclosure (a share of about
candidates * 2^-31) is settled with multiprecision integers.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallystick.errors import InvalidInput
from tallystick.mechanisms.randomness import Source
from tallystick.mechanisms.samplers.enclosure import ceil_div, exp_enclosure, rational
from tallystick.mechanisms.samplers.inversion import Inversion, Weights

LARGEST = 1 << 24  # candidates: sums of 38-bit weights stay below 2^63, memory below a gigabyte
_FEW = 256
_TRUST = 2.0**-32
_FIXED = 38  # bits after the point of the float enclosures

Scores = ArrayLike | Sequence[Fraction]
Counts = Sequence[int] | NDArray[np.int64]


def choose(scores: Scores, *, factor: float | Fraction, multiplicities: Counts | None = None, source: Source) -> int:
    """One index i with probability exactly proportional to multiplicities[i] exp(factor scores[i]).

    ``scores`` are integers, floats (read exactly) or Fractions; ``factor`` is one of these, >= 0.
    ``multiplicities`` are integers >= 0, not all zero.

    >>> from tallystick.mechanisms.randomness import SYSTEM
    >>> choose([0, 1000], factor=1, source=SYSTEM)
    1
    """
    return int(choose_many(scores, factor=factor, multiplicities=multiplicities, size=1, source=source)[0])


def choose_many(
    scores: Scores, *, factor: float | Fraction, multiplicities: Counts | None = None, size: int, source: Source
) -> NDArray[np.int64]:
    """``size`` independent such choices from one set of scores.

    >>> from tallystick.mechanisms.randomness import SYSTEM
    >>> choose_many([0, 0], factor=1, multiplicities=[0, 5], size=3, source=SYSTEM).tolist()
    [1, 1, 1]
    """
    exact, values = rational("factor", factor), _checked_scores(scores)
    counts = np.ones(len(values), dtype=np.int64) if multiplicities is None else _checked_counts(multiplicities)
    if len(counts) != len(values):
        raise InvalidInput("multiplicities", f"{len(counts)} numbers", f"one for each of the {len(values)} scores")
    choice = _Choice(values, exact, counts)
    if len(values) <= _FEW or size > len(values):
        return Inversion(choice.weights).draw(size, source)
    return choice.draw(size, source)


def _checked_scores(scores: Scores) -> NDArray[Any]:
    allowed = "a non-empty one-dimensional sequence of finite numbers"
    try:
        array = np.asarray(scores)
    except ValueError:
        raise InvalidInput("scores", "a ragged sequence", allowed) from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidInput("scores", f"an array of shape {array.shape}", allowed)
    if array.size > LARGEST:
        raise InvalidInput("scores", f"{array.size} candidates", f"at most {LARGEST} candidates")
    kind = array.dtype.kind
    if kind == "O" and all(isinstance(s, (int, Fraction)) for s in array):
        return array
    if kind == "u" or kind == "b":
        return array.astype(object) if array.dtype == np.uint64 else array.astype(np.int64)
    if kind == "i" or (kind == "f" and array.dtype.itemsize <= 8 and bool(np.isfinite(array).all())):
        return array.astype(np.int64 if kind == "i" else np.float64)
    raise InvalidInput("scores", f"an array of {array.dtype} holding something else", allowed)


def _checked_counts(multiplicities: Counts) -> NDArray[Any]:
    counts = np.asarray(multiplicities)
    if counts.dtype.kind == "u":
        counts = counts.astype(object)
    integral = counts.dtype.kind == "i" or (counts.dtype.kind == "O" and all(isinstance(c, int) for c in counts))
    if not integral or counts.ndim != 1 or bool((counts < 0).any()) or not bool((counts > 0).any()):
        raise InvalidInput("multiplicities", f"an array of {counts.dtype}", "integers >= 0, not all zero")
    return counts


class _Choice:
    """One set of weights, relative to the best score of a candidate with positive multiplicity."""

    __slots__ = ("_best", "_counts", "_factor", "_values")

    def __init__(self, values: NDArray[Any], factor: Fraction, counts: NDArray[Any]) -> None:
        self._values, self._factor, self._counts = values, factor, counts
        self._best = Fraction(values[counts > 0].max(keepdims=True).tolist()[0])

    def weights(self, precision: int) -> Weights:
        """Multiprecision enclosures of every weight."""
        lower: list[int] = []
        upper: list[int] = []
        for value, count in zip(self._values.tolist(), self._counts.tolist(), strict=True):
            low = high = 0
            if count:
                exponent = (self._best - Fraction(value)) * self._factor
                low, high = exp_enclosure(exponent.numerator, exponent.denominator, precision)
            lower.append(low * count)
            upper.append(high * count)
        return Weights(0, lower, upper)

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        below, above = self._float_enclosures()
        least, greatest = int(below[-1]), int(above[-1])
        chosen = np.empty(size, dtype=np.int64)
        for position, word in enumerate(source.words(size).tolist()):
            # The uniform number is in [word, word + 1) / 2^64 and F(i) in [below[i] / greatest, above[i] / least].
            passed = np.searchsorted(above, np.uint64(word * least >> 64), side="right")
            perhaps = np.searchsorted(below, np.uint64(ceil_div((word + 1) * greatest, 1 << 64)), side="left")
            chosen[position] = passed if passed == perhaps else self._settle(word, source)
        return chosen

    def _float_enclosures(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        logs = self._log_weights()
        weight = np.exp(logs - logs.max())
        low = np.floor(np.ldexp(weight * (1 - _TRUST), _FIXED)).astype(np.uint64)
        high = np.floor(np.ldexp(weight * (1 + _TRUST), _FIXED)).astype(np.uint64) + np.uint64(1)
        high[self._counts == 0] = 0
        return np.cumsum(low, dtype=np.uint64), np.cumsum(high, dtype=np.uint64)

    def _log_weights(self) -> NDArray[np.float64]:
        """log multiplicity - exponent; absolute error far below 2^-32 wherever the weight is not negligible."""
        if self._values.dtype.kind == "f":
            with np.errstate(over="ignore"):
                gaps = float(self._best) - self._values
        elif self._values.dtype.kind == "i" and int(self._best) - int(self._values.min()) < 1 << 62:
            gaps = (int(self._best) - self._values).astype(np.float64)
        else:
            gaps = np.full(len(self._values), np.inf)
        factor = float(self._factor) if self._factor < 1 << 1000 else np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            exponents = np.where(gaps == 0, 0.0, gaps * factor)
        for i in np.flatnonzero(~np.isfinite(exponents)).tolist():
            exact = (self._best - Fraction(self._values[i : i + 1].tolist()[0])) * self._factor
            exponents[i] = float(exact) if abs(exact) < 1 << 40 else math.inf
        if self._counts.dtype.kind == "i":
            with np.errstate(divide="ignore"):
                logs: NDArray[np.float64] = np.log(self._counts.astype(np.float64))
        else:
            logs = np.array([math.log(c) if c else -math.inf for c in self._counts.tolist()])
        return np.where(self._counts == 0, -np.inf, logs - exponents)

    def _settle(self, drawn: int, source: Source) -> int:
        """All weights again in integers, with bits and precision added until the cell is certain."""
        bits = 64
        while True:
            bits += 64
            drawn = drawn << 64 | source.bits(64)
            exact = self.weights(bits + 64)
            below, above = list(accumulate(exact.lower)), list(accumulate(exact.upper))
            passed = bisect_right(above, drawn * below[-1] >> bits)
            if passed == bisect_left(below, ceil_div((drawn + 1) * above[-1], 1 << bits)):
                return passed
