"""Objective perturbation of logistic regression: Gaussian noise in the objective, a minimiser out.

In units of the longest row: theta = argmin of loss + ridge/2 |theta|^2 + noise.theta, the noise being N(0, sigma^2).
A record's gradient has length c in [0, 1] and its curvature is at most c (1 - c), so with mu = 1/sigma and z ~ N(0, 1)

    adding it      loses at most   max(0, mu z + mu^2/2):                                     the Gaussian profile G
    removing it    loses at most   l(z) = max over c of mu c z + mu^2 c^2/2 + log(1 + c (1 - c)/ridge):    profile J

J is G from epsilon = 1/ridge - mu^2/2 on, and both directions have one total variation, so J(0) may be taken for G(0);
between the two a true profile, being convex, is below every chord. docs/theory/objective-perturbation.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.gaussian import gaussian_pair
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import UpperProfile, bridge
from tallystick.numerics.law import NEGLIGIBLE, REACH, UNIT, Array, Law
from tallystick.numerics.panels import panel_nodes

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

SMALLEST_RIDGE, LARGEST_RIDGE = 0.01, 1e15
SMALLEST_SIGMA, LARGEST_SIGMA = 0.05, 1e9
PIECES = 256
"""Pieces of z between which l, which is convex, is replaced by its chords."""
MARGIN = 10.0
"""Standard deviations between a tilted law and where it is not known any more."""

ROOM = 1e-11
"""What is added, relatively, for the rounding of J's two sums, which cancel."""


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation(Leaf):
    """``sigma`` is the noise in units of the longest row, ``ridge`` the regularization in units of its square."""

    kind: ClassVar[str] = "objective_perturbation"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE,)
    sigma: float
    ridge: float

    def __post_init__(self) -> None:
        check.keep(self, sigma=check.between("sigma", self.sigma, SMALLEST_SIGMA, LARGEST_SIGMA))
        check.keep(self, ridge=check.between("ridge", self.ridge, SMALLEST_RIDGE, LARGEST_RIDGE))

    def pair(self, direction: Direction) -> DominatingPair:
        pair = _removing(1.0 / self.sigma, self.ridge)
        return pair if direction is Direction.REMOVE else pair.swapped()

    @property
    def symmetric(self) -> bool:
        return free_from(1.0 / self.sigma, self.ridge) <= 0.0

    @property
    def gaussian_mu(self) -> float | None:
        return 1.0 / self.sigma if self.symmetric else None

    @property
    def gaussian_above(self) -> float:
        return _gaussian_above(1.0 / self.sigma, self.ridge)

    @property
    def enclosed(self) -> bool:
        return not self.symmetric

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.continuous import gaussian_law
        from tallystick.numerics.rigorous.objective import objective

        mu = 1 / ask.ball(self.sigma)
        if self.symmetric or not ask.upper:  # a record whose curvature is nothing is a Gaussian release
            return gaussian_law(mu, ask.rate, ask.removing)
        return ask.known_by(*objective(mu, ask.ball(self.ridge)))

    def concentrated(self) -> tuple[Fraction, Fraction]:
        return Fraction(self.gaussian_above) ** 2 / 2, Fraction(0)


@constructor
def objective_perturbation(
    *, sigma: float, ridge: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Gaussian objective perturbation of logistic regression with rows of norm at most 1 (scale both to the norm R:
    sigma = noise / R, ridge = regularization / R^2). From epsilon = 1/ridge on it costs one Gaussian release.

    >>> loss, plain = objective_perturbation(sigma=4.3, ridge=1), objective_perturbation(sigma=4.3, ridge=1e6)
    >>> round(loss.delta(epsilon=1) / plain.delta(epsilon=1), 6), loss.delta(epsilon=0.5) > plain.delta(epsilon=0.5)
    (1.0, True)
    """
    return loss_of(ObjectivePerturbation(sigma, ridge), adjacency, unit)


def free_from(mu: float, ridge: float) -> float:
    """The epsilon from which curvature costs nothing: J(epsilon) = G(epsilon)."""
    return max(0.0, 1.0 / ridge - 0.5 * mu * mu) * (1.0 + 4.0 * UNIT)


@lru_cache(maxsize=64)
def _removing(mu: float, ridge: float) -> DominatingPair:
    """The Gaussian pair, with the losses between 0 and ``free_from`` moved to the kinks of the chords between."""
    plain, start = gaussian_pair(mu), free_from(mu, ridge)
    if start <= 0.0:
        return plain
    profile = _between(mu, ridge, start)
    before, after = _tails(mu, 0.0)[1], math.exp(start) * _tails(mu, start)[1]
    masses = bridge(profile, before, after)
    kept = masses > 0.0
    parts = [
        part
        for segment in plain.upper.segments
        for part in (segment.restricted(-math.inf, 0.0), segment.restricted(start, math.inf))
        if part is not None
    ]
    # Where the Gaussian line begins again beyond the end of its segment, no tilt can follow it there.
    begins = (start - 0.5 * mu * mu) / mu
    orders = math.inf if begins < REACH else (begins - MARGIN) / mu
    law = Law(
        profile.epsilon[kept], np.log(masses[kept]), tuple(parts), infinity=NEGLIGIBLE, zero=NEGLIGIBLE, orders=orders
    )  # fmt: skip
    return DominatingPair(law, plain.lower)


def _between(mu: float, ridge: float, start: float) -> UpperProfile:
    """The hull of J from 0 to ``start``, with G at both ends."""
    # Below z_low c = 0 is best and l = 0; above z_high c = 1 is best and l = mu z + mu^2/2.
    low, high = -max(1.0 / ridge, 0.5 * mu * mu) / mu, start / mu - 0.5 * mu
    z = np.linspace(max(low, -REACH), min(high, REACH), PIECES + 1)
    loss = worst_loss(z, mu, ridge)
    tail, others = _sums(z, loss, mu)
    delta = tail - np.exp(loss) * others
    delta = np.minimum(1.0, np.maximum(delta, 0.0) + ROOM * tail + NEGLIGIBLE)
    inside = (loss > 1e-9 * start) & (loss < start * (1.0 - 1e-9))
    epsilon = np.concatenate([[0.0], loss[inside], [start]])
    heights = np.concatenate([[_gauss(mu, 0.0)], delta[inside], [_gauss(mu, start)]])
    distinct = np.concatenate([[True], np.diff(epsilon) > 1e-9 * start])
    distinct[-2], distinct[-1] = distinct[-2] and epsilon[-1] - epsilon[-2] > 1e-9 * start, True
    return UpperProfile(epsilon[distinct], np.minimum.accumulate(heights[distinct])).hull()


def worst_loss(z: Array, mu: float, ridge: float) -> Array:
    """l(z), rounded up: the largest value at the ends and at the stationary points, the roots of a cubic in c."""
    # d/dc = mu z + mu^2 c + (1 - 2c)/(ridge + c - c^2) = 0, times the denominator.
    slope, square = mu * z, mu * mu
    constants = [square - slope, slope + square * ridge - 2.0, slope * ridge + 1.0]
    companion = np.zeros((z.size, 3, 3))
    companion[:, 0, 0], companion[:, 0, 1], companion[:, 0, 2] = (constant / square for constant in constants)
    companion[:, 1, 0] = companion[:, 2, 1] = 1.0
    roots = np.clip(np.real(np.linalg.eigvals(companion)), 0.0, 1.0)
    c = np.column_stack([np.zeros(z.size), np.ones(z.size), roots])
    value = slope[:, None] * c + 0.5 * square * c * c + np.log1p(c * (1.0 - c) / ridge)
    largest: Array = np.max(value, axis=1)
    return np.maximum.accumulate(largest * (1.0 + 1e-12) + 1e-15 * (largest > 0.0))


def _sums(z: Array, loss: Array, mu: float) -> tuple[Array, Array]:
    """Of N(0,1) beyond each z: its mass, and that of e^{-l} with l replaced by its chords."""
    from scipy.special import ndtr

    x, log_weight = panel_nodes(z, 8)
    under = np.exp(log_weight - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi) - np.interp(x, z, loss))
    pieces = under.reshape(z.size - 1, -1).sum(axis=1)
    beyond = float(ndtr(-(z[-1] + mu)))
    return ndtr(-z), np.append(np.cumsum(pieces[::-1])[::-1] + beyond, beyond)


def _tails(mu: float, epsilon: float) -> tuple[float, float]:
    """P(L > epsilon) and Q(L > epsilon) of the Gaussian pair."""
    from scipy.special import ndtr

    level = epsilon / mu
    return float(ndtr(0.5 * mu - level)), float(ndtr(-0.5 * mu - level))


def _gauss(mu: float, epsilon: float) -> float:
    """G(epsilon), rounded up."""
    p, q = _tails(mu, epsilon)
    return min(1.0, max(0.0, p - math.exp(epsilon) * q) + ROOM * p + NEGLIGIBLE)


@lru_cache(maxsize=64)
def _gaussian_above(mu: float, ridge: float) -> float:
    """A mu whose Gaussian profile is nowhere below the chords: compared at points one step apart, which is enough."""
    start = free_from(mu, ridge)
    if start <= 0.0:
        return mu
    profile = _between(mu, ridge, start)
    epsilon = np.linspace(0.0, start, 2000)
    level = np.interp(np.exp(epsilon - start), np.exp(profile.epsilon - start), profile.delta) * (1.0 + ROOM)
    level = np.append(level[:1], level)[:-1]  # at the left neighbour, which is higher

    def enough(wide: float) -> bool:
        from scipy.special import ndtr

        place = epsilon / wide
        upper = ndtr(0.5 * wide - place)
        return bool(np.all(upper * (1.0 - ROOM) - np.exp(epsilon) * ndtr(-0.5 * wide - place) >= level))

    high = mu
    while not enough(high):
        high *= 2.0
    low = high / 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return max(mu, high)
