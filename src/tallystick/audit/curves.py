"""A claim as tangents of its curve: what an attacker's success is at most, whatever the false alarms.

(epsilon, delta(epsilon)) holds for every epsilon, so power <= delta + e^epsilon alarm and power <= 1 - e^-epsilon (1 -
delta - alarm). Fewer tangents only make a claim weaker, so a claim is never refuted for want of them. They are the
symmetrised curve's: both orders of the neighbours.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting.loss import PrivacyLoss

Floats = NDArray[np.float64]
Lines = tuple[Floats, Floats]
LINES = 120
LARGEST_EPSILON = 700.0


@lru_cache(maxsize=64)
def tangents(claim: PrivacyLoss) -> Lines:
    """(e^epsilon, delta) at a hundred epsilons, delta from above."""
    top = float(claim.epsilon(delta=1e-15))
    if not math.isfinite(top):  # mass at infinity: up to where little else is left
        rest = float(claim.delta(epsilon=600.0))
        top = float(claim.epsilon(delta=min(0.999, rest * (1.0 + 1e-6) + 1e-9)))
    epsilons = np.linspace(0.0, min(LARGEST_EPSILON, top if math.isfinite(top) else LARGEST_EPSILON), LINES)
    deltas = np.asarray(claim.delta(epsilon=epsilons), dtype=np.float64)
    return np.exp(epsilons), deltas


def ceiling(lines: Lines, alarm: float) -> float:
    """g(alarm) = 1 - f(alarm): the largest power that the claim allows at this probability of a false alarm.

    >>> from tallystick.accounting.losses import pure_dp
    >>> round(ceiling(tangents(pure_dp(epsilon=1)), 0.1), 6)
    0.271828
    """
    slopes, deltas = lines
    return float(min(1.0, np.min(deltas + slopes * alarm), np.min(1.0 - (1.0 - deltas - alarm) / slopes)))


def ceiling_and_slope(lines: Lines, alarms: Floats) -> tuple[Floats, Floats]:
    """``ceiling`` at many places, and how fast it rises there."""
    slopes, deltas = lines
    rising = np.concatenate([slopes, 1.0 / slopes])
    start = np.concatenate([deltas, 1.0 - (1.0 - deltas) / slopes])
    values = start[None, :] + rising[None, :] * alarms[:, None]
    at = np.argmin(values, axis=1)
    return np.minimum(1.0, values[np.arange(alarms.size), at]), rising[at]


def least_alarm(lines: Lines, power: float) -> float:
    """g^-1(power): the least probability of a false alarm at which the claim allows this power.

    >>> from tallystick.accounting.losses import pure_dp
    >>> round(least_alarm(tangents(pure_dp(epsilon=1)), 0.271828), 6)
    0.1
    """
    slopes, deltas = lines
    return float(max(0.0, np.max((power - deltas) / slopes), np.max(1.0 - deltas - (1.0 - power) * slopes)))
