"""A leaf's profile, tabulated once and then read at any delta: what basic, advanced and optimal composition start from.

delta is convex in e^epsilon, so a chord between two valid points lies above the truth: reading the table backwards
gives a valid epsilon, a little too large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tallystick.accounting.loss import PrivacyLoss

_KNOTS = 48
_FLOOR = 1e-40


@dataclass(frozen=True)
class StepProfile:
    """One release of one leaf: its pure epsilon (infinite if it has none) and knots (epsilon_j, delta_j).

    >>> import tallystick as ts
    >>> step = step_profile(ts.pure_dp(epsilon=1))
    >>> round(step.pure, 9), round(step.epsilon(0.0), 9), round(step.exact_epsilon(0.2), 6)
    (1.0, 1.0, 0.680379)
    """

    loss: PrivacyLoss
    pure: float
    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    def epsilon(self, delta: float) -> float:
        """A valid epsilon at ``delta`` from the chords; infinite below what the table reaches, unless pure."""
        if delta >= self.deltas[0]:
            return 0.0
        for j in range(1, len(self.deltas)):
            high, low = self.deltas[j - 1], self.deltas[j]
            if low <= delta < high:
                share = (high - delta) / (high - low)
                left, width = self.epsilons[j - 1], self.epsilons[j] - self.epsilons[j - 1]
                return self.epsilons[j] if width > 700.0 else left + math.log1p(math.expm1(width) * share)
        return self.pure

    def exact_epsilon(self, delta: float) -> float:
        """The certified epsilon at ``delta``."""
        return float(self.loss.epsilon(delta=delta))


@lru_cache(maxsize=512)
def step_profile(loss: PrivacyLoss) -> StepProfile:
    """Tabulate a single release; ``loss`` is one leaf with count one.

    >>> import tallystick as ts
    >>> step = step_profile(ts.gaussian(sigma=1))
    >>> 4.377 < step.epsilon(1e-5) < 4.7
    True
    """
    pure = float(loss.epsilon(delta=0.0))
    top = pure if math.isfinite(pure) and pure > 0.0 else _where_delta_vanishes(loss)
    if top == 0.0:
        return StepProfile(loss, pure, (0.0,), (float(loss.delta(epsilon=0.0)),))
    ladder = np.concatenate([[0.0], np.geomspace(top * 1e-3, top, _KNOTS)])
    deltas = [float(loss.delta(epsilon=e)) for e in ladder.tolist()]
    if math.isfinite(pure):
        deltas[-1] = 0.0
    falling = [0, *(j for j in range(1, len(deltas)) if deltas[j] < min(deltas[:j]))]
    return StepProfile(loss, pure, tuple(float(ladder[j]) for j in falling), tuple(deltas[j] for j in falling))


def _where_delta_vanishes(loss: PrivacyLoss) -> float:
    """An epsilon where delta is tiny, or no longer falls (mass that gives everything away)."""
    epsilon, last = 1.0, math.inf
    for _ in range(14):
        delta = float(loss.delta(epsilon=epsilon))
        if delta <= _FLOOR or delta >= last * 0.999:
            return epsilon
        epsilon, last = 2.0 * epsilon, delta
    return epsilon
