"""Poisson-sampled Gaussian noise under replace-one neighbours, by its own tight pair.

With the changed record left out of a batch both data sets give N(s, 1); with it they give N(s + u, 1) and N(s + v, 1),
|u|, |v| <= mu. The worst u, v are opposite and of full length (docs/theory/poisson-replace.md has the proof), so
((1-q) N(0,1) + q N(mu,1), (1-q) N(0,1) + q N(-mu,1)) dominates and is attained (Lebeda, Regehr, Kamath, Steinke 2024
discuss the pair). The general rule for replace, f_ADD(1 - f_REMOVE), loses about as much as doubling the sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import Leaf, shown
from tallystick.accounting.pair import DominatingPair, mixed_loss
from tallystick.numerics.law import NEGLIGIBLE, REACH, Array, Law, Segment


@dataclass(frozen=True, slots=True)
class SampledReplaced(Leaf):
    """Gaussian noise of ``sigma`` (in units of one record's norm) on a Poisson sample, replace-one neighbours."""

    kind: ClassVar[str] = "sampled_replaced"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE,)
    sigma: float
    rate: float

    def __post_init__(self) -> None:
        check.keep(self, sigma=check.scale("sigma", self.sigma), rate=check.strict_rate(self.rate))

    def pair(self, direction: Direction) -> DominatingPair:
        return _pair(1.0 / self.sigma, self.rate)

    def text(self, protects: Protects) -> str:
        inner = ", ".join((f"sigma={shown(self.sigma)}", *protects.arguments(protects.adjacency)))
        return f"gaussian({inner}).sampled(rate={shown(self.rate)}).as_replace()"


@lru_cache(maxsize=256)
def _pair(mu: float, rate: float) -> DominatingPair:
    centre, half = 0.5 * mu * mu, 0.5 * math.log(2.0 * math.pi)

    def loss(x: Array) -> Array:
        return mixed_loss(mu * x - centre, rate) - mixed_loss(-mu * x - centre, rate)

    def inverse(value: Array) -> Array:
        # With t = e^{mu x}, c = q e^{-mu^2/2}, r = 1 - q and y = e^|value|: c t^2 - r (y - 1) t - y c = 0.
        size = np.abs(value)
        rest, log_c = 1.0 - rate, math.log(rate) - centre
        gap = rest * -np.expm1(-size)
        root = gap + np.sqrt(gap * gap + 4.0 * np.exp(2.0 * log_c - size))
        return np.clip(np.sign(value) * (size + np.log(root) - math.log(2.0) - log_c) / mu, low, high)

    low, high = -REACH, REACH + mu
    segment = Segment(
        low=low,
        high=high,
        log_density=lambda x: -0.5 * x * x - half + mixed_loss(mu * x - centre, rate),
        loss=loss,
        inverse=inverse,
        panel=min(0.1, 0.3 / mu),
    )
    return DominatingPair.exact(Law(segments=(segment,), infinity=NEGLIGIBLE, zero=NEGLIGIBLE))
