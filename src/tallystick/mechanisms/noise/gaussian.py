"""Gaussian noise: the discrete law, and the verbs ``add_gaussian`` and, for integer data, ``add_discrete_gaussian``.

``sigma`` and ``sensitivity`` are in data units. A vector needs ``dimension``; its sensitivity is the L2 norm, and
``changed`` is in how many coordinates one unit can appear. ``sensitivity`` may also be what ``sensitivity_of`` returns.
Calibration is on the lattice law that is released, never by the classical formula (docs/theory/noise-calibration.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.accounting.calibrate import calibrate
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.integer_noise import Ladder, discrete_gaussian, gaussian_law
from tallystick.mechanisms.exact.lattice import Lattice, root_up, rounded_up
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise.additive import AdditiveNoise, Site, drawable, in_units, only_one, price, site_of
from tallystick.mechanisms.noise.law import UP, NoiseLaw, normal_deviations
from tallystick.mechanisms.noise.sensitivity import Sensitivity

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_MANY = 4096.0
_SUMMED_UP_TO = 256.0  # sigma below which tails are summed term by term

# Above these sizes (in lattice units) a continuous leaf is used. It dominates the lattice pair, is looser by at most a
# few parts in a thousand (in 10^12 on the default lattice), and composes in closed form: docs/theory/noise-lattice.md
SMOOTH_SIGMA = 256.0
SMOOTH_VECTOR_SIGMA = 32.0
SMOOTHING = 4
"""Variance, in squared steps, by which continuous Gaussian noise is turned into discrete noise: see the page."""


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(NoiseLaw):
    """P(k) proportional to exp(-k^2 / (2 sigma^2)). It protects the L2 norm.

    >>> DiscreteGaussian(1.0).half_width(0.05)
    2
    """

    name: ClassVar[str] = "gaussian"
    order: ClassVar[int] = 2
    currency: ClassVar[str] = "rho"
    sigma: float

    @property
    def scale(self) -> float:
        return self.sigma

    def cost(self, norm: Fraction) -> Fraction:
        """norm / (2 sigma^2): zCDP of discrete Gaussian noise on an integer vector (Canonne, Kamath, Steinke 2020)."""
        return norm / (2 * Fraction(self.sigma) ** 2)

    @classmethod
    def that_costs(cls, norm: Fraction, most: Fraction) -> DiscreteGaussian:
        square = norm / (2 * most)
        sigma = math.sqrt(square)
        while Fraction(sigma) ** 2 < square:
            sigma = math.nextafter(sigma, math.inf)
        return cls(sigma)

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return discrete_gaussian(self.sigma, size=size, source=source)

    def one(self, source: Source) -> int:
        return _sampler(self.sigma).one(source)

    def mass(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        total = self.sigma * math.sqrt(2.0 * math.pi)  # within exp(-2 pi^2 sigma^2) relatively (Poisson summation)
        if self.sigma <= 3.0:
            k, _ = _point_masses(self.sigma)
            total = 1.0 + 2.0 * float(np.sum(np.exp(-0.5 * (k / self.sigma) ** 2)))
        return np.exp(-0.5 * (points / self.sigma) ** 2) / total

    @property
    def variance(self) -> float:
        if self.sigma > 3.0:
            return self.sigma**2  # within exp(-2 pi^2 sigma^2) (2 pi sigma)^2 < 1e-70 relatively (Poisson summation)
        k, mass = _point_masses(self.sigma)
        return float(2.0 * np.sum(k * k * mass))

    def half_width(self, miss: float) -> int:
        if self.sigma > _SUMMED_UP_TO:
            # sum_{k > w} f(k) <= integral_w^inf f and sum f >= sigma sqrt(2 pi), so the normal quantile suffices.
            return math.ceil(-NormalDist().inv_cdf(miss / 2.0) * self.sigma * (1.0 + 1e-12))
        _, mass = _point_masses(self.sigma)
        beyond = 2.0 * np.cumsum(mass[::-1])[::-1]  # beyond[w] = P(|noise| > w)
        return int(np.count_nonzero(beyond > miss * (1.0 - 1e-12)))

    def upper_tail(self, least: int) -> float:
        """A sum, its rest bounded by a geometric series; for wide laws the integral, too large by one part in sigma.

        >>> round(DiscreteGaussian(1.0).upper_tail(5), 10)
        1.4928e-06
        """
        sigma = self.sigma
        if least < 1:
            return 1.0
        if sigma > _MANY:  # the sum is at most its first term plus the integral, the normaliser >= sigma sqrt(2 pi)
            first = math.exp(-((least / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
            return (math.erfc(least / sigma / math.sqrt(2)) / 2 + first) * UP
        last = least + math.ceil(40 * sigma) + 10
        with np.errstate(under="ignore"):
            terms = np.exp(-(np.arange(least, last, dtype=np.float64) ** 2) / (2 * sigma**2))
        ratio = math.exp(-(2 * last + 1) / (2 * sigma**2))
        rest = math.exp(-(last**2) / (2 * sigma**2)) / (1 - ratio)
        # by Poisson summation the normaliser is at least sigma sqrt(2 pi); for small sigma at least the sum near 0
        near = 1 + 2 * math.fsum(math.exp(-(x**2) / (2 * sigma**2)) for x in range(1, 20))
        return (float(terms.sum()) + rest) / max(sigma * math.sqrt(2 * math.pi), near) * UP

    def deviations(self, confidence: float) -> float:
        return normal_deviations(confidence)

    def shift_privacy(self, steps: int, protects: Protects) -> PrivacyLoss:
        if self.sigma <= SMOOTH_SIGMA:
            return losses.discrete_gaussian(sigma=self.sigma, sensitivity=steps, **protects.about)
        return self.smooth_privacy(Fraction(steps * steps), protects)

    def norm_privacy(self, norm: Fraction, protects: Protects) -> PrivacyLoss:
        """Small sigma: zcdp(norm / (2 sigma^2)), because coordinate i is s_i^2 / (2 sigma^2)-zCDP (Canonne et al.)."""
        if self.sigma <= SMOOTH_VECTOR_SIGMA:
            return losses.zcdp(rho=rounded_up(self.cost(norm)), **protects.about)
        return self.smooth_privacy(norm, protects)

    def smooth_privacy(self, norm: Fraction, protects: Protects) -> PrivacyLoss:
        """gaussian(sqrt((sigma^2 - 4) / norm)): discrete noise is continuous noise resampled to the lattice, up to a
        factor 1 +- 10^-33. Needs sigma > 2.

        >>> DiscreteGaussian(1000.0).smooth_privacy(Fraction(10**6), Protects()).epsilon(delta=1e-5).__round__(3)
        4.377
        """
        square = (Fraction(self.sigma) ** 2 - SMOOTHING) / norm
        ratio = math.nextafter(math.sqrt(square), math.inf)
        while Fraction(ratio) ** 2 > square:
            ratio = math.nextafter(ratio, 0.0)
        return losses.gaussian(sigma=ratio, **protects.about)


# Found by the double itself: making and hashing the exact fraction would cost as much as the draw.
@lru_cache(maxsize=64)
def _sampler(sigma: float) -> Ladder:
    return gaussian_law(Fraction(sigma))


@lru_cache(maxsize=64)
def _point_masses(sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """k = 1, 2, ... and P(k), until doubles underflow; smallest terms are summed first by the callers."""
    k = np.arange(1, math.ceil(39.0 * sigma) + 2, dtype=np.float64)
    f = np.exp(-0.5 * (k / sigma) ** 2)
    return k, f / (1.0 + 2.0 * float(np.sum(f[::-1])))


def add_gaussian(
    *,
    sigma: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    sensitivity: float | Sensitivity,
    dimension: int | None = None,
    changed: int | None = None,
    granularity: float | None = None,
    adjacency: Adjacency | str | None = None,
    unit: str | None = None,
) -> AdditiveNoise:
    """Gaussian noise on a public power-of-two lattice: give ``sigma``, ``epsilon`` and ``delta``, ``rho``, or ``mu``.

    The noise is discrete Gaussian (Canonne, Kamath and Steinke 2020), its sensitivity enlarged by the rounding. On a
    fine lattice the cost of scalar and vector is that of a Gaussian pair proved to dominate it, looser by a part in
    10^12. On a coarse one a scalar has the cost of the exact lattice pair, and a vector that of zCDP.

    >>> add_gaussian(sigma=10, sensitivity=2).variance
    100.0
    """
    goal = _goal(sigma, epsilon, delta, rho, mu)
    site = site_of(sensitivity, 2, dimension, changed, adjacency, unit)
    return _gaussian(site, site.lattice(granularity, 2, goal.rough_sigma(site.move.norm)), goal)


def add_discrete_gaussian(
    *,
    sigma: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    sensitivity: float | Sensitivity = 1,
    dimension: int | None = None,
    changed: int | None = None,
    adjacency: Adjacency | str | None = None,
    unit: str | None = None,
) -> AdditiveNoise:
    """Discrete Gaussian noise for integer data; outputs are integers.

    >>> add_discrete_gaussian(rho=0.5).law.sigma
    1.0
    """
    goal = _goal(sigma, epsilon, delta, rho, mu)
    site = site_of(sensitivity, 2, dimension, changed, adjacency, unit, whole=True)
    return _gaussian(site, None, goal)


@dataclass(frozen=True, slots=True)
class _Goal:
    """Which number was given for Gaussian noise."""

    name: str
    value: float
    delta: float = 0.0

    def rough_sigma(self, norm: float) -> float:
        """Good enough to choose a lattice."""
        if self.name == "sigma":
            return self.value
        if self.name == "rho":
            return norm / math.sqrt(2 * self.value)
        if self.name == "mu":
            return norm / self.value
        return norm * math.sqrt(2 * math.log(1.25 / self.delta)) / self.value

    def loss(self, protects: Protects) -> PrivacyLoss:
        """The goal (epsilon, delta) as a loss."""
        return losses.approx_dp(epsilon=self.value, delta=self.delta, **protects.about)


def _gaussian(site: Site, lattice: Lattice | None, goal: _Goal) -> AdditiveNoise:
    if goal.name == "sigma":
        return site.with_law(lattice, DiscreteGaussian(in_units(lattice, "sigma", goal.value)))
    norm = site.norm(lattice, DiscreteGaussian(1.0))
    if goal.name == "epsilon":
        unit = math.sqrt(drawable("sensitivity", site.move.norm, norm, order=2))
        target = goal.loss(site.protects)
        ratio = calibrate(lambda r: price(DiscreteGaussian(r * unit), lattice, site.move, site.protects), target)
        return site.with_law(lattice, DiscreteGaussian(float(drawable("epsilon", goal.value, Fraction(ratio * unit)))))
    square = 1 / (2 * Fraction(goal.value)) if goal.name == "rho" else 1 / Fraction(goal.value) ** 2
    drawable(goal.name, goal.value, norm * square, order=2)
    if goal.name == "rho" and norm * square <= Fraction(SMOOTH_VECTOR_SIGMA) ** 2:
        # Exact pairs and zCDP of small sigma: norm / (2 sigma^2) <= rho.
        return site.with_law(lattice, DiscreteGaussian(root_up(norm * square)))
    # The leaf will be gaussian(sqrt((sigma^2 - smoothing) / norm)), which must be at least this double.
    ratio = Fraction(root_up(square))
    return site.with_law(lattice, DiscreteGaussian(root_up(norm * ratio**2 + SMOOTHING)))


def _goal(
    sigma: float | None, epsilon: float | None, delta: float | None, rho: float | None, mu: float | None
) -> _Goal:
    numbers = {"sigma": sigma, "epsilon": epsilon, "rho": rho, "mu": mu}
    name = only_one("sigma", **numbers)
    given = numbers[name]
    if name != "epsilon":
        if delta is not None:
            raise InvalidInput("delta", delta, f"nothing: delta goes with epsilon, not with {name}")
        return _Goal(name, check.positive(name, given))
    chance = check.positive("delta", delta, "a number strictly between 0 and 1, beside epsilon")
    if chance >= 1:
        raise InvalidInput("delta", delta, "a number strictly between 0 and 1, beside epsilon")
    return _Goal(name, check.positive(name, given), chance)
