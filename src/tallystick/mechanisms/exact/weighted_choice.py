"""Draw an index with probability proportional to count * exp(-exponent), exactly.

The cumulative weights are enclosed in float64 with a proved error; 64 random bits enclose the uniform. When both
enclosures agree on one index, that is the index infinitely many bits and digits would give. Otherwise (probability
about 1e-12 per candidate) more bits and more digits are taken. So the law is the stated one, not an approximation of
it; the only assumption is that the platform's ``exp`` is right to 8 units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.intervals import ZERO, Digits, Enclosure
from tallystick.mechanisms.exact.randomness import Source

MOST_CANDIDATES = 50_000_000
"""More candidates than this are refused: a selection holds about 100 bytes for each."""

_ROUND = 2.0**-50  # bounds a handful of float64 roundings and an exp right to 8 ulp, relatively
_FAR = 1e6
_FEW = 1024
_TINY = 1e-300  # more than any weight that underflowed


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights count * exp(-exponent), in float64 with a bound on the exponents' error, and exactly on demand.

    ``counts`` are nonnegative integers stored as floats (relative error at most 2^-52), ``exact(i)`` is the true
    (count, exponent) of candidate i.
    """

    counts: NDArray[np.float64]
    exponents: NDArray[np.float64]
    error: NDArray[np.float64]
    exact: Callable[[int], tuple[int, Fraction]]


@dataclass(frozen=True, slots=True)
class Scores:
    """How far every candidate is behind the best: in doubles (each within 2^-52 of itself), and exactly on demand."""

    behind: NDArray[np.float64]
    exact: Callable[[int], Fraction]

    @staticmethod
    def of(scores: NDArray[np.float64]) -> Scores:
        """Scores that are doubles.

        >>> Scores.of(np.array([0.0, 1.5])).behind
        array([1.5, 0. ])
        """
        best = float(scores.max())
        exact_best = Fraction(best)
        return Scores(best - scores, lambda i: exact_best - Fraction(float(scores[i])))

    @staticmethod
    def exactly(scores: Sequence[int | float | Fraction]) -> Scores:
        """Scores that no double holds, such as integers beyond 2^53."""
        fractions = [Fraction(score) for score in scores]
        best = max(fractions)
        behind = [best - score for score in fractions]
        return Scores(np.array([float(gap) for gap in behind]), behind.__getitem__)

    def weights(self, rate: Fraction) -> Weights:
        """Weights exp(-rate * behind).

        >>> Scores.of(np.array([0.0, 1.0])).weights(Fraction(1, 2)).exponents
        array([0.5, 0. ])
        """
        with np.errstate(over="ignore"):
            exponents = np.minimum(float(rate) * self.behind, 1e300)
        error = exponents * 2.0**-50
        return Weights(np.ones(self.behind.size), exponents, error, lambda i: (1, rate * self.exact(i)))


def candidates(argument: str, size: int) -> int:
    """Refuse an empty or an unreasonably large choice before anything is allocated.

    >>> candidates("scores", 3)
    3
    """
    if not 1 <= size <= MOST_CANDIDATES:
        raise InvalidInput(argument, f"{size} candidates", f"between 1 and {MOST_CANDIDATES} candidates")
    return size


def choose(weights: Weights, source: Source) -> int:
    """One index, with probability exactly proportional to its weight.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> only = Weights(np.array([0.0, 3.0]), np.zeros(2), np.zeros(2), lambda i: (3 * i, Fraction(0)))
    >>> choose(only, SYSTEM)
    1
    """
    return int(choose_many(weights, 1, source)[0])


def choose_many(weights: Weights, size: int, source: Source) -> NDArray[np.int64]:
    """Independent draws of :func:`choose`."""
    low, high = _cumulative(weights)
    words = source.words(size)
    uniform = words.astype(np.float64) * 2.0**-64
    first = np.searchsorted(high, uniform * (low[-1] * (1 - _ROUND)) - _TINY, side="right")
    last = np.searchsorted(low, (uniform + 2.0**-64) * (high[-1] * (1 + _ROUND)) + _TINY, side="right")
    chosen: NDArray[np.int64] = first.astype(np.int64)
    for draw in np.flatnonzero(first != last):
        chosen[draw] = _refined(weights, int(words[draw]), source)
    return chosen


def _cumulative(weights: Weights) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper cumulative weights, scaled by the common factor of the largest."""
    present = weights.counts > 0
    offset = weights.exponents - float(np.min(weights.exponents[present]))
    offset[~present] = 0.0  # absent candidates weigh nothing whatever their exponent
    offset = np.minimum(offset, _FAR)  # such weights are below every float anyway
    doubt = np.minimum(weights.error, _FAR / 2) + offset * _ROUND
    with np.errstate(under="ignore", over="ignore"):
        low = weights.counts * np.exp(-(offset + doubt)) * (1 - 4 * _ROUND)
        high = weights.counts * np.exp(-(offset - doubt)) * (1 + 4 * _ROUND)
    high = np.where(present, high + _TINY, 0.0)
    slack = _ROUND * (2 + (low.size if low.size <= _FEW else 2 * int(np.sqrt(low.size))))
    return _running_total(low) * (1 - slack), _running_total(high) * (1 + slack)


def _running_total(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sum, of many in blocks of sqrt(n) so that its error grows like sqrt(n), not n; never decreasing."""
    if values.size <= _FEW:
        return np.cumsum(values)  # of nonnegative numbers: rounding keeps the order
    width = int(np.sqrt(values.size)) + 1
    rows = -(-values.size // width)
    table = np.zeros(rows * width)
    table[: values.size] = values
    inside = np.cumsum(table.reshape(rows, width), axis=1)
    before = np.concatenate(([0.0], np.cumsum(inside[:-1, -1])))
    total = (inside + before[:, None]).reshape(-1)[: values.size]
    return np.maximum.accumulate(total)


def _refined(weights: Weights, word: int, source: Source) -> int:
    """Settle one draw whose first 64 bits are ``word`` with more bits and more digits."""
    numerator, bits, digits = word, 64, 40
    size = weights.counts.size
    exact = [weights.exact(i) for i in range(size)]
    least = min(exponent for count, exponent in exact if count)
    while True:
        arithmetic = Digits(digits)
        total = Enclosure(ZERO, ZERO)
        ends: list[Enclosure] = []
        for count, exponent in exact:
            if count:
                weight = arithmetic.exp(-arithmetic.of(exponent - least))
                total = arithmetic.add(total, arithmetic.multiply(arithmetic.of(count), weight))
            ends.append(total)
        target = arithmetic.multiply(
            Enclosure(
                arithmetic.down.divide(Decimal(numerator), Decimal(1 << bits)),
                arithmetic.up.divide(Decimal(numerator + 1), Decimal(1 << bits)),
            ),
            total,
        )
        first = next(i for i, end in enumerate(ends) if end.high > target.low)
        last = next((i for i, end in enumerate(ends) if end.low > target.high), size)
        if first == last:
            return first
        numerator, bits, digits = (numerator << 64) | source.bits(64), bits + 64, digits + 25
