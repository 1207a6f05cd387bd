"""log-moment-generating functions of sums of laws, for choosing a tilt (they choose, they do not certify)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import Array, Law


@dataclass(frozen=True, slots=True, eq=False)
class Cumulants:
    """S(theta) = mu^2 theta (theta + 1) / 2 + sum of count * log E[e^{theta X}], with two derivatives.

    All nodes of all laws lie in one array, so a sum of hundreds of unlike laws costs one pass.
    """

    values: Array
    logs: Array
    starts: npt.NDArray[np.int64]
    counts: Array
    mu: float

    @staticmethod
    def of(terms: Sequence[tuple[Law, int]], mu: float = 0.0) -> Cumulants:
        nodes = [_coarse_nodes(law) for law, _ in terms]
        sizes = np.array([0, *(v.size for v, _ in nodes)], dtype=np.int64)
        return Cumulants(
            np.concatenate([np.zeros(0), *(v for v, _ in nodes)]),
            np.concatenate([np.zeros(0), *(m for _, m in nodes)]),
            np.cumsum(sizes)[:-1],
            np.array([float(c) for _, c in terms]),
            mu,
        )

    def __call__(self, theta: float) -> float:
        return self.derivatives(theta)[0]

    def derivatives(self, theta: float) -> tuple[float, float, float]:
        """S, S' and S'' at theta: the tilted sum has mean S' and variance S''."""
        square = self.mu * self.mu
        base = (0.5 * square * theta * (theta + 1.0), square * (theta + 0.5), square)
        if not self.counts.size:
            return base
        exponent = theta * self.values + self.logs
        tops = np.maximum.reduceat(exponent, self.starts)
        sizes = np.diff(np.append(self.starts, self.values.size))
        weights = np.exp(exponent - np.repeat(tops, sizes))
        norms = np.add.reduceat(weights, self.starts)
        means = np.add.reduceat(weights * self.values, self.starts) / norms
        seconds = np.add.reduceat(weights * (self.values - np.repeat(means, sizes)) ** 2, self.starts) / norms
        return (
            base[0] + float(np.dot(self.counts, tops + np.log(norms))),
            base[1] + float(np.dot(self.counts, means)),
            base[2] + float(np.dot(self.counts, seconds)),
        )

    def moments(self, theta: float) -> tuple[float, float]:
        """Mean and variance of the tilted sum."""
        _, mean, variance = self.derivatives(theta)
        return mean, variance

    def tilt_for_threshold(self, epsilon: float) -> float:
        """argmin over theta > 0 of S(theta) - theta epsilon - log theta - log(1 + theta)."""

        def gradient(theta: float) -> tuple[float, float]:
            _, mean, variance = self.derivatives(theta)
            value = mean - epsilon - 1.0 / theta - 1.0 / (1.0 + theta)
            return value, variance + theta**-2 + (1.0 + theta) ** -2

        mean, variance = self.moments(0.0)
        guess = max(epsilon - mean, math.sqrt(max(variance, 0.0))) / max(variance, 1e-12)
        return self._moderate(_increasing_root(gradient, min(max(guess, 1e-5), 1e8)))

    def tilt_for_mass(self, log_delta: float) -> float:
        """argmin over theta > 0 of (S(theta) + log(theta^theta/(1+theta)^(1+theta)) - log delta) / theta."""

        def gradient(theta: float) -> tuple[float, float]:
            level, mean, variance = self.derivatives(theta)
            value = theta * mean - level + math.log1p(theta) + log_delta
            return value, theta * variance + 1.0 / (1.0 + theta)

        # A Gaussian of the same variance would have this tilt.
        guess = math.sqrt(max(-log_delta, 0.1) / max(0.5 * self.moments(0.0)[1], 1e-12))
        return self._moderate(_increasing_root(gradient, min(max(guess, 1e-5), 1e8)))

    def _moderate(self, theta: float) -> float:
        """Do not tilt so far that a bounded sum collapses onto its largest value: nothing is gained there."""
        least = 1e-4 * self.moments(0.0)[1]
        while theta > 1e-3 and self.moments(theta)[1] < least:
            theta *= 0.5
        return theta


@lru_cache(maxsize=1024)
def _coarse_nodes(law: Law) -> tuple[Array, Array]:
    return law.coarse_nodes()


def _increasing_root(
    function: Callable[[float], tuple[float, float]], guess: float, low: float = 1e-6, high: float = 1e9
) -> float:
    """Root of an increasing function of one positive variable: Newton, guarded by bisection in the logarithm."""
    theta = guess
    for _ in range(80):
        value, slope = function(theta)
        if value > 0.0:
            high = theta
        else:
            low = theta
        step = theta - value / slope if slope > 0.0 and math.isfinite(value) else -1.0
        theta = step if low < step < high else math.sqrt(low * high)
        if abs(value) < 1e-3 * max(1.0, abs(slope * theta)) or high / low < 1.0 + 1e-3:
            break
    return theta
