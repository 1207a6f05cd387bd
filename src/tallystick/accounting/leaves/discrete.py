"""Noise on the integers: exact lattice pairs, grouped into blocks where there are too many points."""

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
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.written import as_written
from tallystick.numerics.law import NEGLIGIBLE, REACH, Array, Law, panel_nodes

if TYPE_CHECKING:
    from tallystick.accounting.rigorous import Ask
    from tallystick.numerics.rigorous_laws import BallLaw

MAX_POINTS = 2**15
"""More lattice points than this are grouped; the grouped pair is bracketed from both sides."""

LARGEST_SENSITIVITY = 10**15


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Leaf):
    """The discrete Gaussian of Canonne, Kamath and Steinke (2020) against its shift by ``sensitivity``.

    p(k) is proportional to exp(-k^2 / (2 sigma^2)); the loss is linear in k, so losses form a lattice.
    It is *not* a function of sigma / sensitivity alone.
    """

    kind: ClassVar[str] = "discrete_gaussian"
    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        shift = check.count("sensitivity", self.sensitivity, least=1, most=LARGEST_SENSITIVITY)
        check.keep(self, sigma=check.scale("sigma", self.sigma), sensitivity=shift)

    def pair(self, direction: Direction) -> DominatingPair:
        return _discrete_gaussian_pair(self.sigma, self.sensitivity)

    @property
    def gaussian_above(self) -> float | None:
        """Discrete noise is continuous noise of variance sigma^2 - 4, resampled (docs/theory/noise-lattice.md).

        The resampling is exact up to a factor 1 + 1e-33, far below the rounding allowed for here.
        """
        if self.sigma < 32.0:
            return None
        return self.sensitivity / math.sqrt(self.sigma**2 - 4.0) * (1.0 + 1e-14)

    def concentrated(self) -> tuple[Fraction, Fraction]:
        """The Gaussian's concentrated privacy (Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return self.sensitivity**2 / (2 * as_written("sigma", self.sigma) ** 2), Fraction(0)

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous_laws import discrete_gaussian_base

        return ask.discrete(discrete_gaussian_base(ask.ball(self.sigma), self.sensitivity, ask.log_tiny))


@constructor
def discrete_gaussian(
    *, sigma: float, sensitivity: int = 1, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Discrete Gaussian noise on the integers, sigma and sensitivity in lattice steps; the exact lattice pair.

    >>> round(discrete_gaussian(sigma=1).delta(epsilon=1), 4)  # a continuous Gaussian has 0.1269
    0.1414
    """
    leaf = DiscreteGaussian(sigma, _shift(sensitivity) or 1)
    return loss_of(leaf if sensitivity else None, adjacency, unit)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Leaf):
    """Two-sided geometric noise, p(k) proportional to e^{-|k|/scale}, against its shift by ``sensitivity``."""

    kind: ClassVar[str] = "discrete_laplace"
    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        shift = check.count("sensitivity", self.sensitivity, least=1, most=LARGEST_SENSITIVITY)
        check.keep(self, scale=check.scale("scale", self.scale), sensitivity=shift)

    def pair(self, direction: Direction) -> DominatingPair:
        return _discrete_laplace_pair(self.scale, self.sensitivity)

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous_laws import discrete_laplace_base

        return ask.discrete(discrete_laplace_base(ask.ball(self.scale), self.sensitivity))


@constructor
def discrete_laplace(
    *, scale: float, sensitivity: int = 1, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Two-sided geometric noise on the integers, scale and sensitivity in lattice steps; the exact lattice pair.

    >>> discrete_laplace(scale=4, sensitivity=2).epsilon(delta=0)
    0.5
    """
    leaf = DiscreteLaplace(scale, _shift(sensitivity) or 1)
    return loss_of(leaf if sensitivity else None, adjacency, unit)


def _shift(sensitivity: Any) -> int:
    """Checked; zero is allowed in a constructor, where it means no loss."""
    return check.count("sensitivity", sensitivity, most=LARGEST_SENSITIVITY)


@lru_cache(maxsize=64)
def _discrete_gaussian_pair(sigma: float, shift: int) -> DominatingPair:
    reach = math.ceil(REACH * sigma) + 1
    low, high = -shift - reach, reach
    if high - low < 2 * MAX_POINTS:
        k = np.arange(low, high + 1, dtype=np.float64)
        logs = -0.5 * (k / sigma) ** 2 - _log_theta(sigma)
        losses = shift * (shift + 2.0 * k) / (2.0 * sigma * sigma)
        law = Law(losses, logs, infinity=NEGLIGIBLE, zero=NEGLIGIBLE, lattice=shift / (sigma * sigma))
        return DominatingPair.exact(law)
    edges = np.unique(np.rint(np.linspace(low, high + 1, MAX_POINTS + 1)))
    centred = _smooth_block_masses(edges - 0.5, sigma, 0.0)
    shifted = _smooth_block_masses(edges - 0.5, sigma, -float(shift))
    first, last = edges[:-1], edges[1:] - 1.0
    ends = [shift * (shift + 2.0 * k) / (2.0 * sigma * sigma) for k in (first, last)]
    return _bracketed(centred, shifted, ends[0], ends[1], NEGLIGIBLE)


def _log_theta(sigma: float) -> float:
    """log of the sum over all integers k of exp(-k^2 / (2 sigma^2))."""
    if sigma > 3.0:
        # Poisson summation; the next term is exp(-8 pi^2 sigma^2) < 1e-300.
        return (
            math.log(sigma) + 0.5 * math.log(2.0 * math.pi) + math.log1p(2.0 * math.exp(-2.0 * (math.pi * sigma) ** 2))
        )
    k = np.arange(1, math.ceil(REACH * sigma) + 2, dtype=np.float64)
    return math.log1p(2.0 * float(np.sum(np.exp(-0.5 * (k / sigma) ** 2))))


def _smooth_block_masses(edges: Array, sigma: float, centre: float) -> Array:
    """log of the lattice mass between consecutive half-integer edges, for sigma > 800.

    Euler-Maclaurin at half-integers: the sum of f equals the integral of f - f''/24 + 7 f''''/5760, and the
    next term is below 1e-14 of it for |k| <= 38 sigma.
    """
    x, log_weight = panel_nodes(edges, 8)
    z2 = ((x - centre) / sigma) ** 2
    s2 = 1.0 / (sigma * sigma)
    second = (z2 - 1.0) * s2
    fourth = (z2 * z2 - 6.0 * z2 + 3.0) * s2 * s2
    logs = -0.5 * z2 - _log_theta(sigma) + np.log1p(-second / 24.0 + 7.0 * fourth / 5760.0) + log_weight
    table = logs.reshape(-1, 8)
    top = table.max(axis=1)
    result: Array = top + np.log(np.sum(np.exp(table - top[:, None]), axis=1))
    return result


@lru_cache(maxsize=64)
def _discrete_laplace_pair(scale: float, shift: int) -> DominatingPair:
    step = 1.0 / scale
    log_end = -math.log1p(math.exp(-step))  # P(X <= 0)
    log_point = math.log(-math.expm1(-step)) + log_end  # P(X = 0)
    ends = np.array([-shift * step, shift * step])
    end_logs = np.array([log_end - shift * step, log_end])
    if shift <= 2 * MAX_POINTS:
        k = np.arange(shift - 1, 0, -1, dtype=np.float64)
        losses = np.concatenate([ends[:1], (shift - 2.0 * k) * step, ends[1:]])
        logs = np.concatenate([end_logs[:1], log_point - k * step, end_logs[1:]])
        # Points at distance one differ by two steps in loss; so do the ends and their neighbours.
        return DominatingPair.exact(Law(losses, logs, lattice=2.0 * step))
    edges = np.unique(np.rint(np.linspace(1, shift, MAX_POINTS + 1)))[::-1]
    last, first = edges[1:], edges[:-1] - 1.0  # block holds last <= k <= first
    size = first - last + 1.0
    centred = log_point - last * step + np.log(np.expm1(-size * step) / math.expm1(-step))
    shifted = log_point - (shift - first) * step + np.log(np.expm1(-size * step) / math.expm1(-step))
    inner = _bracketed(centred, shifted, (shift - 2.0 * first) * step, (shift - 2.0 * last) * step, 0.0)
    return DominatingPair(_with_atoms(inner.upper, ends, end_logs), _with_atoms(inner.lower, ends, end_logs))


def _with_atoms(law: Law, atoms: Array, logs: Array) -> Law:
    order = np.argsort(np.concatenate([law.atoms, atoms]), kind="stable")
    return Law(
        np.concatenate([law.atoms, atoms])[order],
        np.concatenate([law.log_masses, logs])[order],
        infinity=law.infinity,
        zero=law.zero,
    )


def _bracketed(log_p: Array, log_q: Array, low: Array, high: Array, outside: float) -> DominatingPair:
    """Blocks of outcomes with masses p, q and losses in [low, high]: merged (lower), spread to the ends (upper).

    The ratio p/q is known to about 1e-14, like every loss of a law (LOCATION_ULPS in numerics.convolve).

    Merging outcomes is post-processing, so the merged pair is dominated; moving each block's mass to its
    two end losses with both masses kept is the chord of its profile, so it dominates.
    """
    width = high - low
    ratio = np.clip(log_p - log_q, low, high)
    with np.errstate(invalid="ignore", divide="ignore"):
        right = np.where(width > 0, np.expm1(low - ratio) / np.expm1(-width), 1.0)
    right = np.clip(right, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        left_logs, right_logs = log_p + np.log1p(-right), log_p + np.log(right)
    atoms = np.stack([low, high], axis=1).ravel()
    logs = np.stack([left_logs, right_logs], axis=1).ravel()
    kept = np.isfinite(logs)
    upper = Law(atoms[kept], logs[kept], infinity=outside, zero=outside)
    return DominatingPair(upper, Law(ratio, log_p))
