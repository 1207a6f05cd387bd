"""The privacy-loss random variable L = log dP/dQ under P, of a whole composition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tallystick.accounting import check
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.direction import OneDirection
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput
from tallystick.numerics.convolve import sum_of_laws
from tallystick.numerics.grid import discretise
from tallystick.numerics.law import Array


@dataclass(frozen=True)
class PrivacyLossVariable:
    """Estimates (not bounds) of the law of L: moments and characteristic function to about 1e-12, cdf to 1e-4.

    Mass at plus infinity counts in ``cdf`` (which then stays below one) and makes mean and variance infinite.

    >>> import tallystick as ts
    >>> L = (4 * ts.gaussian(sigma=2)).privacy_loss(ts.Direction.REMOVE)
    >>> round(L.mean, 9), round(L.variance, 9), round(L.cdf(0.5), 3)
    (0.5, 1.0, 0.5)
    """

    loss: PrivacyLoss
    direction: Direction

    @cached_property
    def _side(self) -> OneDirection:
        if self.loss.group != 1:
            raise InvalidInput("privacy_loss", str(self.loss), "a loss for single units")
        side = OneDirection.of(self.loss.terms, self.direction)
        if side.curves:
            raise InvalidInput("privacy_loss", str(self.loss), "a loss whose pair is known (not zcdp or renyi_dp)")
        return side

    @cached_property
    def _nodes(self) -> list[tuple[Array, Array, int]]:
        return [(*pair.upper.nodes(), count) for pair, count in self._side.pairs]

    @property
    def mean(self) -> float:
        """E[L], the Kullback-Leibler divergence."""
        if self._side.infinity > 0.0:
            return math.inf
        return math.fsum(c * float(np.dot(np.exp(m), v)) for v, m, c in self._nodes)

    @property
    def variance(self) -> float:
        """Variance of L."""
        if self._side.infinity > 0.0:
            return math.inf
        total = 0.0
        for values, logs, count in self._nodes:
            weight = np.exp(logs)
            centre = float(np.dot(weight, values))
            total += count * float(np.dot(weight, (values - centre) ** 2))
        return total

    def characteristic_function(self, t: Any) -> Any:
        """E[e^{itL}] over the finite part; products over terms (Proposition 14.2)."""
        points = check.numbers_in("t", t, -math.inf, math.inf, "finite numbers")
        flat = points.ravel()
        out: npt.NDArray[np.complex128] = np.ones(flat.size, dtype=np.complex128)
        for values, logs, count in self._nodes:
            weight = np.exp(logs)
            out *= np.array([np.dot(weight, np.exp(1j * x * values)) for x in flat]) ** count
        return complex(out[0]) if points.ndim == 0 else out.reshape(points.shape)

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        if not self._side.pairs:
            return np.zeros(1), np.ones(1)
        deviation = math.sqrt(max(self._finite_variance, 1e-30))
        step = deviation / 2000.0
        laws = []
        for pair, count in self._side.pairs:
            law = pair.upper
            low = max(law.lowest, -60.0 * deviation)
            high = min(law.highest, 60.0 * deviation)
            laws.append((discretise(law, step=step, offset=0.0, low=min(low, 0.0), high=max(high, 0.0))[0], count))
        total = sum_of_laws(laws, theta=0.0, reach=14.0 * deviation)
        masses = np.maximum(total.tilted, 0.0) * math.exp(total.log_scale)
        return total.values, np.cumsum(masses)

    @property
    def _finite_variance(self) -> float:
        total = 0.0
        for values, logs, count in self._nodes:
            weight = np.exp(logs - logs.max())
            weight /= weight.sum()
            centre = float(np.dot(weight, values))
            total += count * float(np.dot(weight, (values - centre) ** 2))
        return total

    def cdf(self, x: Any) -> Any:
        """P(L <= x)."""
        points = check.numbers_in("x", x, -math.inf, math.inf, "numbers")
        values, below = self._table
        if len(self._side.pairs) == 1 and self._side.pairs[0][1] == 1:
            law = self._side.pairs[0][0].upper
            found = np.array([1.0 - law.tail(float(v)) for v in points.ravel()])
        else:
            index = np.searchsorted(values, points.ravel(), side="right") - 1
            found = np.where(index < 0, 0.0, below[np.maximum(index, 0)])
        found = np.clip(found, 0.0, 1.0)
        return float(found[0]) if points.ndim == 0 else found.reshape(points.shape)

    def quantile(self, probability: Any) -> Any:
        """The smallest x with P(L <= x) >= probability (infinite beyond the finite mass)."""
        points = check.numbers_in("probability", probability, 0.0, 1.0, "numbers between 0 and 1")
        values, below = self._table
        index = np.searchsorted(below, points.ravel() * (1 - 1e-12), side="left")
        found = np.where(index < values.size, values[np.minimum(index, values.size - 1)], math.inf)
        return float(found[0]) if points.ndim == 0 else found.reshape(points.shape)
