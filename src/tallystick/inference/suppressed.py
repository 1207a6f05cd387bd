"""The value behind a noisy number that is shown only from a threshold on.

Given K the number K + N, N log-concave, grows with K in the likelihood-ratio order, and so it does given K + N >= T.
{K : Pr[K + N <= y | >= T] >= a/2 and Pr[K + N >= y | >= T] >= a/2} is therefore an interval that holds the value with
probability at least 1 - a among the cells that are shown. Near the threshold it reaches far down: a small survivor may
have been almost anything below.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tallystick.inference.noise import Floats, Noise
from tallystick.inference.shares import SLACK

_FAR = 20.0  # deviations below the threshold at which the search gives up: the end is then minus infinity


def kept_values(y: Floats, noise: Noise, shown_from: float, miss: float) -> tuple[Floats, Floats]:
    """For every number that was shown the ends of the values that a test of level ``miss`` keeps."""
    wanted = miss / 2.0 / SLACK
    tail = noise.at_least

    def shown(value: Floats) -> Floats:
        return np.maximum(tail(shown_from + 2.0 * noise.rounding - value), 1e-300)

    def at_most(value: Floats, seen: Floats) -> Floats:
        return 1.0 - tail(seen + noise.step + 2.0 * noise.rounding - value) / shown(value)

    # The upper end grows with y, so y may be read as the median of a cell whose value is the threshold.
    start, reach = np.array([shown_from]), _FAR * noise.deviation + noise.step
    usual = _turns(lambda seen: at_most(start, seen) < 0.5, start - noise.step, start + reach)[1]
    seen = np.maximum(y, usual)
    upper = _turns(lambda value: at_most(value, seen) >= wanted, np.full_like(seen, shown_from), seen + reach)[1]
    lowest = np.full_like(seen, shown_from - _FAR * noise.deviation)
    lower = _turns(lambda value: tail(y - value) / shown(value) < wanted, lowest, y)[0]
    return np.where(tail(y - lowest) / shown(lowest) >= wanted, -np.inf, lower), upper


def _turns(holds: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """``shares.bisected`` for many at once: neighbours between which ``holds`` turns from true to false."""
    for _ in range(200):
        middle = (low + high) / 2.0
        if not np.any((low < middle) & (middle < high)):
            break
        true = holds(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return low, high
