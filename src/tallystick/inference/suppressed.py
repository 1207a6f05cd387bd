"""The value behind a noisy number that is shown only from a threshold on.

Given K the number K + N, N log-concave, grows with K in the likelihood-ratio order, and so it does given K + N >= T.
{K : Pr[K + N <= y | >= T] >= a/2 and Pr[K + N >= y | >= T] >= a/2} is therefore an interval that holds the value with
probability at least 1 - a among the cells that are shown. Near the threshold it reaches far down: a small survivor may
have been almost anything below.
"""

from __future__ import annotations

import math

import numpy as np

from tallystick.inference.noise import Noise
from tallystick.inference.shares import SLACK, bisected

_FAR = 20.0  # deviations below the threshold at which the search gives up: the end is then minus infinity


def kept_values(y: float, noise: Noise, shown_from: float, miss: float) -> tuple[float, float]:
    """The ends of the values that a test of level ``miss`` keeps."""
    wanted = miss / 2.0 / SLACK

    def tail(offset: float) -> float:
        return float(noise.at_least(np.array([offset]))[0])

    def shown(value: float) -> float:
        return max(tail(shown_from + 2.0 * noise.rounding - value), 1e-300)

    def at_least(value: float) -> float:
        return tail(y - value) / shown(value)

    def at_most(value: float, seen: float) -> float:
        return 1.0 - tail(seen + noise.step + 2.0 * noise.rounding - value) / shown(value)

    # The upper end grows with y, so y may be read as the median of a cell whose value is the threshold.
    far = shown_from + _FAR * noise.deviation + noise.step
    usual = bisected(lambda seen: at_most(shown_from, seen) < 0.5, shown_from - noise.step, far, steps=80)[1]
    seen = max(y, usual)
    upper = bisected(lambda value: at_most(value, seen) >= wanted, shown_from, seen + far - shown_from, steps=200)[1]
    lowest = shown_from - _FAR * noise.deviation
    if at_least(lowest) >= wanted:
        return -math.inf, upper
    return bisected(lambda value: at_least(value) < wanted, lowest, y, steps=200)[0], upper
