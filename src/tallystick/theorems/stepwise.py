"""A leaf's profile, tabulated once to *search* for the best delta0; the result is then computed exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tallystick.accounting.loss import PrivacyLoss

_KNOTS = 36
_FLOOR = 1e-40


@dataclass(frozen=True)
class StepProfile:
    """One release of one leaf: its pure epsilon (infinite if it is not pure) and, when asked, a table of its profile.

    >>> import tallystick as ts
    >>> step = step_profile(ts.pure_dp(epsilon=1))
    >>> round(step.pure, 9), round(step.estimate(0.0), 9), round(step.exact_epsilon(0.2), 6)
    (1.0, 1.0, 0.680379)
    """

    loss: PrivacyLoss
    pure: float

    @cached_property
    def table(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Knots (epsilons, deltas), deltas strictly falling from delta(0)."""
        top = self.pure if math.isfinite(self.pure) and self.pure > 0.0 else self._where_delta_vanishes()
        ladder = np.concatenate([[0.0], np.geomspace(top * 1e-3, top, _KNOTS)]).tolist() if top > 0.0 else [0.0]
        deltas = [float(self.loss.delta(epsilon=e)) for e in ladder]
        if math.isfinite(self.pure):
            deltas[-1] = 0.0
        falling = [0, *(j for j in range(1, len(deltas)) if deltas[j] < min(deltas[:j]))]
        return tuple(ladder[j] for j in falling), tuple(deltas[j] for j in falling)

    @property
    def leak(self) -> float:
        """The smallest delta that the table reaches: zero, almost zero, or what gives everything away."""
        return self.table[1][-1]

    def estimate(self, delta: float) -> float:
        """About the epsilon at ``delta``, linear in log delta between knots: a guide for a search, not a bound."""
        epsilons, deltas = self.table
        if delta >= deltas[0]:
            return 0.0
        for j in range(1, len(deltas)):
            high, low = deltas[j - 1], deltas[j]
            if low <= delta < high:
                share = math.log(high / delta) / math.log(high / low) if low > 0.0 else 1.0 - delta / high
                return epsilons[j - 1] + share * (epsilons[j] - epsilons[j - 1])
        return self.pure

    def exact_epsilon(self, delta: float) -> float:
        """The certified epsilon at ``delta``."""
        return float(self.loss.epsilon(delta=delta))

    def _where_delta_vanishes(self) -> float:
        """An epsilon where delta is tiny, or no longer falls (mass that gives everything away)."""
        epsilon, last = 1.0, math.inf
        for _ in range(14):
            delta = float(self.loss.delta(epsilon=epsilon))
            if delta <= _FLOOR or delta >= last * 0.999:
                return epsilon
            epsilon, last = 2.0 * epsilon, delta
        return epsilon


@lru_cache(maxsize=512)
def step_profile(loss: PrivacyLoss) -> StepProfile:
    """The profile of a single release; ``loss`` is one leaf with count one.

    >>> import tallystick as ts
    >>> 4.2 < step_profile(ts.gaussian(sigma=1)).estimate(1e-5) < 4.5
    True
    """
    return StepProfile(loss, float(loss.epsilon(delta=0.0)))
