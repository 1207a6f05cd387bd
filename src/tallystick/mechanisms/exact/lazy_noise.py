"""The largest of score + scale * noise, with continuous noise, exactly.

Adding floating-point Laplace noise and taking the maximum leaks through the noise's holes and gaps. Here each noise
is a real number whose bits are drawn when they are needed: 63 bits enclose all of them in float64, and the few that
could still win get more bits and more digits until the order is certain. Ties have probability zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.exact.intervals import ZERO, Digits, Enclosure
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.weighted_choice import Scores

_ROUND = 2.0**-48  # bounds a dozen float64 roundings and a log right to 8 ulp, relatively


class Noise(str, Enum):
    """Noise of scale 1: Laplace, exponential (one-sided) or Gumbel."""

    LAPLACE = "laplace"
    EXPONENTIAL = "exponential"
    GUMBEL = "gumbel"


@dataclass(slots=True)
class LazyNoise:
    """One noise variable of scale 1, known to ``bits`` bits of its uniform V; -ln(1 - V) is exponential.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> coarse = LazyNoise.fresh(Noise.LAPLACE, SYSTEM)
    >>> before = coarse.enclose(); coarse.refine(SYSTEM); after = coarse.enclose()
    >>> before.low <= after.low <= after.high <= before.high
    True
    """

    noise: Noise
    negative: bool
    numerator: int
    bits: int = 63
    _known: Enclosure | None = field(default=None, repr=False)

    @staticmethod
    def fresh(noise: Noise, source: Source) -> LazyNoise:
        """A new variable with its first 63 bits and its sign."""
        return LazyNoise.of_word(noise, source.bits(64))

    @staticmethod
    def of_word(noise: Noise, word: int) -> LazyNoise:
        """The variable whose first bits are the upper 63 of ``word`` and whose sign is the lowest."""
        return LazyNoise(noise, noise is Noise.LAPLACE and bool(word & 1), word >> 1)

    def refine(self, source: Source) -> None:
        """Draw 64 more bits."""
        self.numerator, self.bits, self._known = (self.numerator << 64) | source.bits(64), self.bits + 64, None

    def near(self) -> float:
        """Laplace or exponential noise in float64, within 2^-40 (1 + size); NaN where 63 bits do not give that.

        >>> LazyNoise.of_word(Noise.EXPONENTIAL, 1 << 63).near() == math.log(2)
        True
        """
        drawn = self.numerator >> (self.bits - 63)
        rest = (1 << 63) - drawn
        if rest < 1 << 42:  # the next bit could move -ln(1 - V) by more than 2^-42
            return math.nan
        size = -math.log1p(-drawn * 2.0**-63) if drawn < rest else -math.log(rest * 2.0**-63)
        return -size if self.negative else size

    def enclose(self) -> Enclosure:
        """The interval the bits drawn so far allow, to matching precision."""
        if self._known is None:
            self._known = self._enclosed(Digits(self.bits // 2))
        return self._known

    def _enclosed(self, digits: Digits) -> Enclosure:
        rest, one = (1 << self.bits) - self.numerator, Decimal(1 << self.bits)
        least, most = digits.down.divide(Decimal(rest - 1), one), digits.up.divide(Decimal(rest), one)
        minus_log = -digits.ln(Enclosure(most, most))
        # -ln(least) <= -ln(most) + (most - least) / least: one logarithm is enough for both ends
        width = digits.up.divide(digits.up.subtract(most, least), least) if least > 0 else Decimal("Infinity")
        exponential = Enclosure(max(minus_log.low, ZERO), digits.up.add(minus_log.high, width))
        if self.noise is Noise.GUMBEL:
            return -digits.ln(exponential)
        return -exponential if self.negative else exponential


def largest(scores: Scores, *, scale: Fraction, noise: Noise, how_many: int = 1, source: Source) -> NDArray[np.int64]:
    """Indices of the ``how_many`` largest noisy scores, largest first.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> largest(Scores.of(np.array([0.0, 1e9])), scale=Fraction(1), noise=Noise.LAPLACE, source=SYSTEM).tolist()
    [1]
    """
    words = source.words(scores.behind.size)
    low, high = _noisy_bounds(scores.behind, words, float(scale), noise)
    # a candidate that certainly trails how_many others is out
    bar = -np.partition(-low, how_many - 1)[how_many - 1]
    left = np.flatnonzero(high >= bar)
    order = left[np.argsort(-low[left], kind="stable")]
    ceiling = np.maximum.accumulate(high[order][::-1])[::-1]  # highest any later one may be
    settled = low[order[:how_many]][: order.size - 1] > ceiling[1 : how_many + 1]
    if settled.all():
        return order[:how_many].astype(np.int64)
    return _settle(order, scores, words, scale, noise, how_many, source)


def _noisy_bounds(
    behind: NDArray[np.float64], words: NDArray[np.uint64], scale: float, noise: Noise
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper noisy scores, shifted so that the best score is 0."""
    drawn = words >> np.uint64(1)
    rest = (np.uint64(1 << 63) - drawn).astype(np.float64)  # 2^63 (1 - V), between 1 and 2^63
    uniform = drawn.astype(np.float64) * 2.0**-63
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.where(uniform < 0.5, -np.log1p(-uniform), -np.log(rest * 2.0**-63))
        width = value * _ROUND + 2.0 / (rest - 1)  # the next 2^-63 of V moves -ln(1 - V) by at most 1/(rest - 1)
        low, high = np.maximum(value - width, 0.0), value + width
        if noise is Noise.GUMBEL:
            low, high = -np.log(high), -np.log(low)
            low, high = low - np.abs(low) * _ROUND, high + np.abs(high) * _ROUND
            low, high = low - _ROUND, high + _ROUND
        elif noise is Noise.LAPLACE:
            minus = (words & np.uint64(1)) == 1
            low, high = np.where(minus, -high, low), np.where(minus, -low, high)
        slack = behind * _ROUND
        low, high = scale * low - behind, scale * high - behind
        low -= slack + np.abs(low) * _ROUND
        high += slack + np.abs(high) * _ROUND
    return np.nan_to_num(low, nan=-math.inf, neginf=-math.inf), np.nan_to_num(high, nan=math.inf, posinf=math.inf)


def _settle(
    left: NDArray[np.int64],
    scores: Scores,
    words: NDArray[np.uint64],
    scale: Fraction,
    noise: Noise,
    how_many: int,
    source: Source,
) -> NDArray[np.int64]:
    """Refine the contenders until the first ``how_many`` places are certain."""
    contenders = {int(i): LazyNoise.of_word(noise, int(words[i])) for i in left}
    lead = {i: -scores.exact(i) for i in contenders}
    while True:
        at = {i: _noisy(lead[i], scale, lazy) for i, lazy in contenders.items()}
        order = sorted(at, key=lambda i: at[i].low, reverse=True)
        unclear = {
            pair
            for place in range(min(how_many, len(order) - 1))
            for other in order[place + 1 :]
            if not at[other].below(at[order[place]])
            for pair in (order[place], other)
        }
        if not unclear:
            return np.array(order[:how_many], dtype=np.int64)
        for i in unclear:
            contenders[i].refine(source)


def _noisy(lead: Fraction, scale: Fraction, lazy: LazyNoise) -> Enclosure:
    digits = Digits(lazy.bits // 2)
    return digits.add(digits.of(lead), digits.multiply(digits.of(scale), lazy.enclose()))
