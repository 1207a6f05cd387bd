"""Gaussian noise: N(0, 1) against N(mu, 1) with mu = sensitivity / standard deviation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf, Limit, Read, rounded_by_constructor
from tallystick.accounting.leaves.substituted import SampledReplaced
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.errors import InvalidInput
from tallystick.numerics.law import APART, NEGLIGIBLE, REACH, Law, Line, Segment
from tallystick.rounding import as_written, times_up

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

LARGEST_MU = 1e6


def gaussian_pair(mu: float) -> DominatingPair:
    """N(mu, 1) against N(0, 1): L = mu x - mu^2 / 2. Symmetric, so both directions are this one."""
    if mu > APART:
        # The measures do not overlap: each has its own coordinate, so that nothing is lost beside a huge mu.
        law = Law(segments=(_around(mu, 0.0), _around(mu, mu)), infinity=NEGLIGIBLE, zero=NEGLIGIBLE)
        return DominatingPair.exact(law)
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
        log_other=lambda x: -0.5 * x * x - half,
        slopes=(mu, mu),
    )
    return DominatingPair.exact(Law(segments=(segment,), infinity=NEGLIGIBLE, zero=NEGLIGIBLE))


def gaussian_between(below: float, above: float) -> DominatingPair:
    """The pair of a mu that is computed: from above of one that is no smaller, from below of one that is no larger."""
    upper = gaussian_pair(above)
    return upper if below == above else DominatingPair(upper.upper, lower_law(below), below > 0.0)


def lower_law(mu: float) -> Law:
    """The law of a Gaussian pair from below; nothing is lost for certain at mu = 0."""
    return gaussian_pair(mu).lower if mu > 0.0 else Law(np.zeros(1), np.zeros(1))


def _around(mu: float, middle: float) -> Segment:
    """The part of the line around one of the two means, in the distance from it."""
    half, start = 0.5 * math.log(2.0 * math.pi), mu * middle - 0.5 * mu * mu
    return Segment(
        low=-REACH,
        high=REACH,
        log_density=lambda x: -0.5 * (x + (middle - mu)) ** 2 - half,
        loss=lambda x: mu * x + start,
        inverse=lambda value: np.clip((value - start) / mu, -REACH, REACH),
        panel=0.1,
        log_other=lambda x: -0.5 * (x + middle) ** 2 - half,
        slopes=(0.0, mu) if middle else (mu, 0.0),
    )


@dataclass(frozen=True, slots=True)
class Gaussian(Leaf):
    """Gaussian noise of standard deviation ``sigma`` in units of the sensitivity."""

    kind: ClassVar[str] = "gaussian"
    sigma: float
    rounded: bool = rounded_by_constructor()

    def __post_init__(self) -> None:
        check.keep(self, sigma=check.scale("sigma", self.sigma))

    def pair(self, direction: Direction) -> DominatingPair:
        return gaussian_pair(1.0 / self.sigma)

    @property
    def gaussian_mu(self) -> float:
        return 1.0 / self.sigma

    def replaced(self) -> Leaf:
        return Gaussian(self.sigma / 2.0, self.rounded)

    def grouped(self, size: int) -> Leaf | None:
        mu = math.nextafter(self.gaussian_mu, math.inf)
        return Gdp(mu).grouped(size) if mu <= LARGEST_MU else None

    def sampled_replaced(self, rate: float, rounded: bool) -> Leaf:
        return SampledReplaced(self.sigma, rate, self.rounded or rounded)

    def squared_mu(self, read: Read = as_written) -> Fraction:
        return 1 / read("sigma", self.sigma) ** 2

    @property
    def rounded_up(self) -> bool:
        return self.rounded

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.continuous import gaussian_law

        most = ask.ball(ask.unrounded(1.0) if self.rounded else 1.0)
        return gaussian_law(most / ask.ball(self.sigma), ask.rate, ask.removing)


@constructor
def gaussian(*, sigma: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Gaussian noise of standard deviation sigma times the sensitivity; 1/sigma-GDP exactly.

    >>> 4 * gaussian(sigma=2) <= gdp(mu=1)
    True
    """
    return loss_of(Gaussian(sigma), adjacency, unit)


@dataclass(frozen=True, slots=True)
class Gdp(Leaf):
    """mu-Gaussian differential privacy (Dong, Roth, Su 2019)."""

    kind: ClassVar[str] = "gdp"
    mu: float

    def __post_init__(self) -> None:
        check.keep(self, mu=check.between("mu", self.mu, 0.0, LARGEST_MU))
        if self.mu == 0.0:
            raise InvalidInput("mu", self.mu, "a number above 0; gdp(mu=0) loses nothing")

    def pair(self, direction: Direction) -> DominatingPair:
        return gaussian_pair(self.mu)

    @property
    def gaussian_mu(self) -> float:
        return self.mu

    def replaced(self) -> Leaf:
        return Gdp(2.0 * self.mu)

    def grouped(self, size: int) -> Leaf | None:
        mu = times_up(size, self.mu)
        return Gdp(mu) if mu <= LARGEST_MU else None

    def squared_mu(self, read: Read = as_written) -> Fraction:
        return read("mu", self.mu) ** 2

    def limit(self) -> Limit:
        return Limit("gdp", self.mu)

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.continuous import gaussian_law

        return gaussian_law(ask.ball(self.mu), ask.rate, ask.removing)


@constructor
def gdp(*, mu: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """mu-Gaussian differential privacy; mu = 0 loses nothing.

    >>> gdp(mu=0).delta(epsilon=0)
    0.0
    """
    number = check.between("mu", mu, 0.0, LARGEST_MU)
    return loss_of(Gdp(number) if number > 0 else None, adjacency, unit)
