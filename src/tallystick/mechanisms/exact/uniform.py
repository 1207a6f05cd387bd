"""Uniform integers and uniform dyadic rationals, by masking and rejection: no modulo, hence no bias."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.randomness import Source


def integers(upper: int, *, size: int, source: Source) -> NDArray[np.int64]:
    """Uniform on 0, ..., upper - 1, for upper up to 2^63.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> sorted(set(integers(3, size=1000, source=SYSTEM).tolist()))
    [0, 1, 2]
    """
    if isinstance(upper, bool) or not isinstance(upper, (int, np.integer)) or not 1 <= upper <= 1 << 63:
        raise InvalidInput("upper", upper, "an integer from 1 to 2^63")
    width = (int(upper) - 1).bit_length()
    if width == 0:
        return np.zeros(size, dtype=np.int64)
    out = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        drawn = (source.words(size - filled) >> np.uint64(64 - width)).view(np.int64)
        kept = drawn[drawn < upper] if upper < 1 << 63 else drawn
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out


def integer(upper: int, source: Source) -> int:
    """One uniform integer on 0, ..., upper - 1, of any size.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> 0 <= integer(10**40, SYSTEM) < 10**40
    True
    """
    if upper < 1:
        raise InvalidInput("upper", upper, "an integer >= 1")
    width = (upper - 1).bit_length()
    while (drawn := source.bits(width) if width else 0) >= upper:
        pass
    return drawn


def dyadics(
    lower: float | Fraction, upper: float | Fraction, *, bits: int, size: int, source: Source
) -> NDArray[np.float64]:
    """Uniform on the multiples of 2^-bits in [lower, upper).

    Exact when those multiples are doubles (fewer than 53 significant bits); otherwise correctly rounded afterwards.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> sorted(set(dyadics(0, 1, bits=1, size=100, source=SYSTEM).tolist()))
    [0.0, 0.5]
    """
    first, end = -(-(Fraction(lower) * 2**bits) // 1), -(-(Fraction(upper) * 2**bits) // 1)
    if end <= first:
        raise InvalidInput("upper", upper, f"a bound with a multiple of 2^-{bits} between lower and it")
    if max(abs(first), abs(end)) > 1 << 62:
        raise InvalidInput("bits", bits, "fewer bits: the range holds more than 2^62 lattice points")
    points = (integers(end - first, size=size, source=source) + first).astype(np.float64)
    return np.asarray(np.ldexp(points, -bits), dtype=np.float64)
