"""Gaussian noise: N(0, 1) against N(mu, 1) with mu = sensitivity / standard deviation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.substituted import SampledReplaced
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import NEGLIGIBLE, REACH, Law, Line, Segment


def gaussian_pair(mu: float) -> DominatingPair:
    """N(mu, 1) against N(0, 1): L = mu x - mu^2 / 2. Symmetric, so both directions are this one."""
    centre, half = 0.5 * mu * mu, 0.5 * math.log(2.0 * math.pi)
    low, high = -REACH, REACH + mu
    segment = Segment(
        low=low,
        high=high,
        log_density=lambda x: -0.5 * (x - mu) ** 2 - half,
        loss=lambda x: mu * x - centre,
        inverse=lambda value: np.clip((value + centre) / mu, low, high),
        panel=0.1,
        line=Line(mu, 1.0, 1),
    )
    return DominatingPair.exact(Law(segments=(segment,), infinity=NEGLIGIBLE, zero=NEGLIGIBLE))


@dataclass(frozen=True, slots=True)
class Gaussian(Leaf):
    """Gaussian noise of standard deviation ``sigma`` in units of the sensitivity."""

    kind: ClassVar[str] = "gaussian"
    sigma: float

    def pair(self, direction: Direction) -> DominatingPair:
        return gaussian_pair(1.0 / self.sigma)

    @property
    def gaussian_mu(self) -> float:
        return 1.0 / self.sigma

    def replaced(self) -> Leaf:
        return Gaussian(self.sigma / 2.0)

    def sampled_replaced(self, rate: float) -> Leaf:
        return SampledReplaced(self.sigma, rate)


@dataclass(frozen=True, slots=True)
class Gdp(Leaf):
    """mu-Gaussian differential privacy (Dong, Roth, Su 2019)."""

    kind: ClassVar[str] = "gdp"
    mu: float

    def pair(self, direction: Direction) -> DominatingPair:
        return gaussian_pair(self.mu)

    @property
    def gaussian_mu(self) -> float:
        return self.mu

    def replaced(self) -> Leaf:
        return Gdp(2.0 * self.mu)
