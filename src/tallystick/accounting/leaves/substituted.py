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
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import Leaf, rounded_by_constructor, shown
from tallystick.accounting.leaves.sampled import sampled_renyi
from tallystick.accounting.pair import DominatingPair, mixed_loss
from tallystick.numerics.law import APART, NEGLIGIBLE, REACH, Array, Law, Segment

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

PANEL = 0.1


@dataclass(frozen=True, slots=True)
class SampledReplaced(Leaf):
    """Gaussian noise of ``sigma`` (in units of one record's norm) on a Poisson sample, replace-one neighbours."""

    kind: ClassVar[str] = "sampled_replaced"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE,)
    sigma: float
    rate: float
    rounded: bool = rounded_by_constructor()

    def __post_init__(self) -> None:
        check.keep(self, sigma=check.scale("sigma", self.sigma), rate=check.strict_rate(self.rate))

    def pair(self, direction: Direction) -> DominatingPair:
        return _pair(1.0 / self.sigma, self.rate)

    def renyi_above(self, direction: Direction, order: float) -> float:
        """Q is at least (1 - q) times the shared part, against which P is a sampled Gaussian."""
        plain = sampled_renyi(0.5 * order / self.sigma**2, self.rate, order)
        return plain - math.log1p(-self.rate) if self.rate < 1.0 else math.inf

    @property
    def rounded_up(self) -> bool:
        return self.rounded

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.mixtures import two_mixtures

        most = ask.ball(ask.unrounded(1.0) if self.rounded else 1.0)
        height = two_mixtures(most / ask.ball(self.sigma), most * ask.ball(self.rate))
        return ask.known_by(height, height, exact=True)

    def text(self, protects: Protects) -> str:
        inner = ", ".join((f"sigma={shown(self.sigma)}", *protects.arguments(protects.adjacency)))
        return f"gaussian({inner}).sampled(rate={shown(self.rate)}).as_replace()"


@lru_cache(maxsize=256)
def _pair(mu: float, rate: float) -> DominatingPair:
    if mu > APART:
        segments = tuple(_segment(mu, rate, middle, -REACH, REACH) for middle in (-mu, 0.0, mu))
    else:
        segments = (_segment(mu, rate, 0.0, -REACH - mu, REACH + mu),)
    return DominatingPair.exact(Law(segments=segments, infinity=NEGLIGIBLE, zero=NEGLIGIBLE))


def _segment(mu: float, rate: float, middle: float, low: float, high: float) -> Segment:
    """The pair where x - middle is in [low, high], in that coordinate: nothing is lost beside a huge mu."""
    half = 0.5 * math.log(2.0 * math.pi)
    log_in, log_out = math.log(rate), math.log1p(-rate)
    up, down = mu * middle - 0.5 * mu * mu, -mu * middle - 0.5 * mu * mu

    def log_mixture(x: Array, side: float) -> Array:
        return np.logaddexp(log_out - 0.5 * (x + middle) ** 2, log_in - 0.5 * (x + (middle - side * mu)) ** 2) - half

    def inverse(value: Array) -> Array:
        # With t = e^{mu x}, c = q e^{-mu^2/2}, r = 1 - q and y = e^|value|: c t^2 - r (y - 1) t - y c = 0.
        size = np.abs(value)
        log_c = log_in - 0.5 * mu * mu
        with np.errstate(divide="ignore"):
            log_gap = log_out + np.log(-np.expm1(-size))
        # log of gap + sqrt(gap^2 + 4 c^2 e^-size)
        log_root = np.logaddexp(log_gap, 0.5 * np.logaddexp(2.0 * log_gap, math.log(4.0) + 2.0 * log_c - size))
        return np.clip(np.sign(value) * (size + log_root - math.log(2.0) - log_c) / mu - middle, low, high)

    # Where x is beyond mu/2 + log((1-q)/q)/mu, on either side, a mixture goes over from one measure to the other.
    bend = 0.5 * mu + (log_out - log_in) / mu
    around = np.linspace(-40.0, 40.0, 33) / mu if 2.5 / mu < PANEL else np.zeros(0)
    knees = np.concatenate([-bend + around, bend + around]) - middle
    return Segment(
        low=low,
        high=high,
        log_density=lambda x: log_mixture(x, 1.0),
        loss=lambda x: mixed_loss(mu * x + up, rate) - mixed_loss(-mu * x + down, rate),
        inverse=inverse,
        panel=PANEL,
        log_other=lambda x: log_mixture(x, -1.0),
        knees=tuple(knees[(knees > low) & (knees < high)].tolist()),
        slopes=(0.0 if middle > 0.0 else 2.0 * mu, 0.0 if middle < 0.0 else 2.0 * mu),
    )
