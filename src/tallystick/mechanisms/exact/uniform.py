"""Uniform integers, by masking and rejection: no modulo, hence no bias."""

from __future__ import annotations

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
