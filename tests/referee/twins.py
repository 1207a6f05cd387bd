"""Accountants that are wrong on purpose.  A referee that lets one of them pass is worth nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tallystick as ts


@dataclass(frozen=True)
class Twin:
    """A loss whose read-outs are spoilt in one way."""

    true: ts.PrivacyLoss

    def epsilon(self, *, delta: float) -> float:
        return float(self.true.epsilon(delta=delta))

    def delta(self, *, epsilon: float) -> float:
        return float(self.true.delta(epsilon=epsilon))

    def tradeoff(self, *, alpha: float) -> float:
        return float(self.true.tradeoff(alpha=alpha))

    def delta_bounds(self, *, epsilon: float, rigorous: bool = False) -> Any:
        return self.true.delta_bounds(epsilon=epsilon, rigorous=rigorous)

    def renyi(self, *, order: float) -> float:
        return float(self.true.renyi(order=order))


@dataclass(frozen=True)
class HalfTheNoise(Twin):
    """Charges for twice the noise that is added."""

    charged: ts.PrivacyLoss

    def epsilon(self, *, delta: float) -> float:
        return float(self.charged.epsilon(delta=delta))

    def delta(self, *, epsilon: float) -> float:
        return float(self.charged.delta(epsilon=epsilon))

    def tradeoff(self, *, alpha: float) -> float:
        return float(self.charged.tradeoff(alpha=alpha))


@dataclass(frozen=True)
class Inward(Twin):
    """Rounds towards less privacy loss by one part in a thousand million."""

    def epsilon(self, *, delta: float) -> float:
        return super().epsilon(delta=delta) * (1 - 1e-9)

    def delta(self, *, epsilon: float) -> float:
        return super().delta(epsilon=epsilon) * (1 - 1e-9)

    def delta_bounds(self, *, epsilon: float, rigorous: bool = False) -> Any:
        found = super().delta_bounds(epsilon=epsilon)
        return ts.Bounds(found.lower * (1 + 1e-9), found.upper * (1 + 2e-9))


@dataclass(frozen=True)
class ForgetsInfinity(Twin):
    """Leaves out the outcomes that give everything away."""

    mass: float

    def delta(self, *, epsilon: float) -> float:
        return max(0.0, super().delta(epsilon=epsilon) - self.mass)

    def tradeoff(self, *, alpha: float) -> float:
        return min(1.0, super().tradeoff(alpha=alpha) + self.mass)


@dataclass(frozen=True)
class ClipsTheVertex(Twin):
    """Joins (0, power at 0) and the corner that lies at level 1, instead of where the last line reaches power 1."""

    points: tuple[tuple[float, float], ...]

    def tradeoff(self, *, alpha: float) -> float:
        for (x0, y0), (x1, y1) in zip(self.points, self.points[1:], strict=False):
            if x0 <= alpha <= x1:
                return y0 + (y1 - y0) * (alpha - x0) / (x1 - x0)
        return 0.0


@dataclass(frozen=True)
class MissesTheTail(Twin):
    """Ends the law of a Gaussian of mu = 1 at ten standard deviations, whatever the order."""

    def renyi(self, *, order: float) -> float:
        if math.isinf(order) or order <= 1:
            return super().renyi(order=order)
        total = sum(math.exp((order - 1) * (k / 50 - 0.5) - (k / 50 - 1) ** 2 / 2) / 50 for k in range(-500, 501))
        return math.log(total / math.sqrt(2 * math.pi)) / (order - 1)


@dataclass(frozen=True)
class ForgetsOne(Twin):
    """Charges for one release less than there are."""

    charged: ts.PrivacyLoss

    def epsilon(self, *, delta: float) -> float:
        return float(self.charged.epsilon(delta=delta))

    def delta(self, *, epsilon: float) -> float:
        return float(self.charged.delta(epsilon=epsilon))

    def tradeoff(self, *, alpha: float) -> float:
        return float(self.charged.tradeoff(alpha=alpha))


@dataclass(frozen=True)
class Drifts(Twin):
    """Rounds every loss up to the next point of a grid before it adds them: the sum drifts by half a step for each."""

    step: float
    releases: int

    def quantile(self, share: float) -> float:
        return float(self.true.privacy_loss().quantile(share)) + self.releases * self.step / 2
