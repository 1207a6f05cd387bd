"""The two noise laws on the integers, with everything a mechanism must know about them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import losses
from tallystick.accounting.adjacency import Protects
from tallystick.mechanisms.exact.integer_noise import (
    Ladder,
    discrete_gaussian,
    discrete_laplace,
    gaussian_law,
    laplace_law,
)
from tallystick.mechanisms.exact.lattice import rounded_down, rounded_up
from tallystick.mechanisms.exact.randomness import Source

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_UP = 1 + 1e-12  # more than the roundings of the tail formulas
_MANY = 4096.0
_SUMMED_UP_TO = 256.0  # sigma below which tails of the discrete Gaussian are summed term by term

# Above these sizes (in lattice units) a continuous leaf is used. It dominates the lattice pair, is looser by at most a
# few parts in a thousand (in 10^12 on the default lattice), and composes in closed form: docs/theory/noise-lattice.md
SMOOTH_STEPS = 1024
SMOOTH_SIGMA = 256.0
SMOOTH_VECTOR_SIGMA = 32.0
SMOOTHING = 4
"""Variance, in squared steps, by which continuous Gaussian noise is turned into discrete noise: see the page."""


class NoiseLaw(ABC):
    """A symmetric log-concave law on the integers, made from its ``scale`` alone.

    ``order`` is that of the norm it protects: L1 or L2. ``currency`` is what ``cost`` counts: epsilon or rho.
    """

    __slots__ = ()
    name: ClassVar[str]
    order: ClassVar[int]
    currency: ClassVar[str]

    @property
    @abstractmethod
    def scale(self) -> float:
        """The one parameter, in lattice units."""

    @abstractmethod
    def cost(self, norm: Fraction) -> Fraction:
        """What it costs, exactly, to protect a vector; ``norm`` is as in ``norm_privacy``."""

    @classmethod
    @abstractmethod
    def that_costs(cls, norm: Fraction, most: Fraction) -> NoiseLaw:
        """The law of the least scale, to a rounding, whose ``cost`` is at most this."""

    @abstractmethod
    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """Independent exact draws."""

    @abstractmethod
    def one(self, source: Source) -> int:
        """A single exact draw, some five microseconds."""

    @abstractmethod
    def mass(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability of each integer: the law is public, so inference may use it (Remark 3.7). For pictures too."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Of one draw, in squared lattice units."""

    @abstractmethod
    def half_width(self, miss: float) -> int:
        """Least w (Laplace, summed Gaussian; otherwise at most one more) with P(|noise| > w) <= miss."""

    @abstractmethod
    def upper_tail(self, least: int) -> float:
        """P(noise >= least), from above."""

    @abstractmethod
    def deviations(self, confidence: float) -> float:
        """Standard deviations in a two-sided interval for a sum of several noises of this kind."""

    @abstractmethod
    def shift_privacy(self, steps: int, protects: Protects) -> PrivacyLoss:
        """The pair of the law against its shift by this many lattice points: exact, or a continuous pair above it."""

    @abstractmethod
    def norm_privacy(self, norm: Fraction, protects: Protects) -> PrivacyLoss:
        """A proven bound for vectors; ``norm`` is the norm of the law's order to the power of that order."""


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(NoiseLaw):
    """P(k) proportional to exp(-|k| / scale). It protects the L1 norm.

    >>> DiscreteLaplace(1.0).half_width(0.05)
    3
    """

    name: ClassVar[str] = "laplace"
    order: ClassVar[int] = 1
    currency: ClassVar[str] = "epsilon"
    scale: float = field()  # said, because otherwise the property above would become its default

    def cost(self, norm: Fraction) -> Fraction:
        """norm / scale: see ``norm_privacy``."""
        return norm / Fraction(self.scale)

    @classmethod
    def that_costs(cls, norm: Fraction, most: Fraction) -> DiscreteLaplace:
        return cls(rounded_up(norm / most))

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        return discrete_laplace(self.scale, size=size, source=source)

    def one(self, source: Source) -> int:
        return _laplace_sampler(self.scale).one(source)

    def mass(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        return math.tanh(0.5 / self.scale) * np.exp(-np.abs(points) / self.scale)

    @property
    def variance(self) -> float:
        # 2 e^-x / (1 - e^-x)^2 with x = 1 / scale, written without cancellation or overflow.
        x = 1.0 / self.scale
        return 2.0 * math.exp(-x) / math.expm1(-x) ** 2

    def tail(self, width: int) -> float:
        """P(|noise| > width) = 2 exp(-(width + 1) / scale) / (1 + exp(-1 / scale)).

        >>> round(DiscreteLaplace(1.0).tail(0), 6)          # 1 - tanh(1/2)
        0.537883
        """
        x = 1.0 / self.scale
        return 2.0 * math.exp(-(width + 1) * x) / (1.0 + math.exp(-x))

    def half_width(self, miss: float) -> int:
        x = 1.0 / self.scale
        start = (math.log(2.0 / miss) - math.log1p(math.exp(-x))) * self.scale - 1.0
        width = max(0, math.floor(start) - 1)
        while self.tail(width) > miss * (1.0 - 1e-12):  # in doubt one more: the interval never undercovers
            width += 1
        return width

    def upper_tail(self, least: int) -> float:
        """e^{-least/scale} / (1 + e^{-1/scale}) where least >= 1.

        >>> round(DiscreteLaplace(1.0).upper_tail(1), 6)
        0.268941
        """
        return math.exp(-least / self.scale) / (1 + math.exp(-1 / self.scale)) * _UP if least >= 1 else 1.0

    def deviations(self, confidence: float) -> float:
        """That of one Laplace variable, the widest of such sums at >= 90 %, where it is above the normal quantile."""
        return max(_normal_deviations(confidence), math.log(1.0 / (1.0 - confidence)) / math.sqrt(2.0))

    def shift_privacy(self, steps: int, protects: Protects) -> PrivacyLoss:
        about = protects.about
        if steps <= SMOOTH_STEPS:
            return losses.discrete_laplace(scale=self.scale, sensitivity=steps, **about)
        return losses.laplace(scale=rounded_down(Fraction(self.scale) / self.smooth_shift(steps)), **about)

    def smooth_shift(self, steps: int) -> Fraction:
        """Shift of continuous Laplace noise of the same scale that dominates a lattice shift: steps + 1 / (4 scale).

        >>> float(DiscreteLaplace(100.0).smooth_shift(10))
        10.0025
        """
        return steps + 1 / (4 * Fraction(self.scale))

    def norm_privacy(self, norm: Fraction, protects: Protects) -> PrivacyLoss:
        """pure_dp(norm / scale): the log-ratio of product laws is at most ||shift||_1 / scale (Theorem 3.2)."""
        return losses.pure_dp(epsilon=rounded_up(self.cost(norm)), **protects.about)


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
        return _gaussian_sampler(self.sigma).one(source)

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
            return (math.erfc(least / sigma / math.sqrt(2)) / 2 + first) * _UP
        last = least + math.ceil(40 * sigma) + 10
        with np.errstate(under="ignore"):
            terms = np.exp(-(np.arange(least, last, dtype=np.float64) ** 2) / (2 * sigma**2))
        ratio = math.exp(-(2 * last + 1) / (2 * sigma**2))
        rest = math.exp(-(last**2) / (2 * sigma**2)) / (1 - ratio)
        # by Poisson summation the normaliser is at least sigma sqrt(2 pi); for small sigma at least the sum near 0
        near = 1 + 2 * math.fsum(math.exp(-(x**2) / (2 * sigma**2)) for x in range(1, 20))
        return (float(terms.sum()) + rest) / max(sigma * math.sqrt(2 * math.pi), near) * _UP

    def deviations(self, confidence: float) -> float:
        return _normal_deviations(confidence)

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


def _normal_deviations(confidence: float) -> float:
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


# Found by the double itself: making and hashing the exact fraction would cost as much as the draw.
@lru_cache(maxsize=64)
def _laplace_sampler(scale: float) -> Ladder:
    return laplace_law(Fraction(scale))


@lru_cache(maxsize=64)
def _gaussian_sampler(sigma: float) -> Ladder:
    return gaussian_law(Fraction(sigma))


@lru_cache(maxsize=64)
def _point_masses(sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """k = 1, 2, ... and P(k), until doubles underflow; smallest terms are summed first by the callers."""
    k = np.arange(1, math.ceil(39.0 * sigma) + 2, dtype=np.float64)
    f = np.exp(-0.5 * (k / sigma) ** 2)
    return k, f / (1.0 + 2.0 * float(np.sum(f[::-1])))
