"""Laplace noise: the discrete law, and the verbs ``add_laplace`` and, for integer data, ``add_discrete_laplace``.

``scale`` and ``sensitivity`` are in data units. A vector needs ``dimension``; its sensitivity is the L1 norm, and
``changed`` is in how many coordinates one unit can appear. ``sensitivity`` may also be what ``sensitivity_of`` returns.
Calibration is on the lattice law that is released, never by the classical formula (docs/theory/noise-calibration.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.mechanisms.exact.integer_noise import Ladder, discrete_laplace, laplace_law
from tallystick.mechanisms.exact.lattice import Lattice, rounded_down, rounded_up
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise.additive import AdditiveNoise, Site, drawable, in_units, least_float, only_one, site_of
from tallystick.mechanisms.noise.law import UP, NoiseLaw, normal_deviations
from tallystick.mechanisms.noise.sensitivity import Sensitivity

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

SMOOTH_STEPS = 1024
"""Above this many lattice steps a continuous leaf is used. It dominates the lattice pair, is looser by at most a few
parts in a thousand (in 10^12 on the default lattice), and composes in closed form: docs/theory/noise-lattice.md
"""


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
        return _sampler(self.scale).one(source)

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
        return math.exp(-least / self.scale) / (1 + math.exp(-1 / self.scale)) * UP if least >= 1 else 1.0

    def deviations(self, confidence: float) -> float:
        """That of one Laplace variable, the widest of such sums at >= 90 %, where it is above the normal quantile."""
        return max(normal_deviations(confidence), math.log(1.0 / (1.0 - confidence)) / math.sqrt(2.0))

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


# Found by the double itself: making and hashing the exact fraction would cost as much as the draw.
@lru_cache(maxsize=64)
def _sampler(scale: float) -> Ladder:
    return laplace_law(Fraction(scale))


def add_laplace(
    *,
    scale: float | None = None,
    epsilon: float | None = None,
    sensitivity: float | Sensitivity,
    dimension: int | None = None,
    changed: int | None = None,
    granularity: float | None = None,
    adjacency: Adjacency | str | None = None,
    unit: str | None = None,
) -> AdditiveNoise:
    """Laplace noise on a public power-of-two lattice: give its ``scale``, or the ``epsilon`` it must satisfy.

    Theorem 3.2 of the notes for the discrete Laplace law (Ghosh et al. 2009): epsilon = ceil(D / g) g / scale for a
    scalar, (L1 + changed g) / scale for a vector. The cost errs upwards, by about a millionth.

    >>> count = add_laplace(epsilon=0.5, sensitivity=1)
    >>> round(count.error(confidence=0.95), 3)
    5.991
    """
    target = only_one("scale", scale=scale, epsilon=epsilon)
    size = check.positive(target, scale if target == "scale" else epsilon)
    site = site_of(sensitivity, 1, dimension, changed, adjacency, unit)
    guess = size if target == "scale" else site.move.norm / size
    return _laplace(site, site.lattice(granularity, 1, guess), size, target)


def add_discrete_laplace(
    *,
    scale: float | None = None,
    epsilon: float | None = None,
    sensitivity: int | Sensitivity = 1,
    dimension: int | None = None,
    changed: int | None = None,
    adjacency: Adjacency | str | None = None,
    unit: str | None = None,
) -> AdditiveNoise:
    """Two-sided geometric noise for integer data; outputs are integers.

    >>> add_discrete_laplace(epsilon=1).law.scale
    1.0
    """
    target = only_one("scale", scale=scale, epsilon=epsilon)
    size = check.positive(target, scale if target == "scale" else epsilon)
    site = site_of(sensitivity, 1, dimension, changed, adjacency, unit, whole=True)
    return _laplace(site, None, size, target)


def _laplace(site: Site, lattice: Lattice | None, size: float, target: str) -> AdditiveNoise:
    if target == "scale":
        return site.with_law(lattice, DiscreteLaplace(in_units(lattice, "scale", size)))
    norm, budget = site.norm(lattice, DiscreteLaplace(1.0)), Fraction(size)
    rough = drawable(target, size, norm / budget)
    if norm <= SMOOTH_STEPS:
        return site.with_law(lattice, DiscreteLaplace(least_float(lambda s: norm <= budget * s, rough)))
    # The continuous pair shifts each changed coordinate by 1 / (4 scale) more.
    extra = Fraction(site.move.changed, 4)
    scale = least_float(lambda s: norm + extra / s <= budget * s, (norm + extra / rough) / budget)
    return site.with_law(lattice, DiscreteLaplace(scale))
