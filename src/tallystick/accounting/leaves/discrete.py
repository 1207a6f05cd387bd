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
from tallystick.accounting.leaf import Leaf, LossLattice
from tallystick.accounting.leaves.gaussian import gaussian_pair
from tallystick.accounting.leaves.laplace import FAR, reciprocal_above
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair, product_above
from tallystick.numerics.law import NEGLIGIBLE, REACH, Array, Law, log_sum
from tallystick.rounding import as_written

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

MAX_POINTS = 2**15
"""More lattice points than this are grouped; the grouped pair is bracketed from both sides."""

MOST_LISTED = 2**19
"""Beyond this many (sigma is then above 3,400) discrete noise is bracketed by continuous noise."""

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

    def moments(self) -> tuple[float, float] | None:
        """The loss is linear in noise of mean 0, of variance sigma^2 up to e^-177 beyond 3 (Poisson summation)."""
        shift = self.sensitivity / self.sigma
        if self.sigma > 3.0:
            return 0.5 * shift * shift, shift * shift
        points = range(1, math.ceil(REACH * self.sigma) + 2)
        weights = [math.exp(-0.5 * (x / self.sigma) ** 2) for x in points]
        second = 2.0 * math.fsum(w * x * x for w, x in zip(weights, points, strict=True))
        spread = second / (1.0 + 2.0 * math.fsum(weights)) / self.sigma**2
        return 0.5 * shift * shift, shift * shift * spread

    def replaced(self) -> Leaf | None:
        return self.grouped(2)

    def grouped(self, size: int) -> Leaf | None:
        """The laws are log-concave: of all shifts up to this one the largest is the worst."""
        most = size * self.sensitivity
        return DiscreteGaussian(self.sigma, most) if most <= LARGEST_SENSITIVITY else None

    def renyi_above(self, direction: Direction, order: float) -> float:
        """Exact: with theta = order - 1 completing the square leaves the lattice sum at the offset theta * sensitivity.

        That sum is largest at whole offsets, where the divergence is that of continuous noise.
        """
        offset = math.fmod((order - 1.0) * self.sensitivity, 1.0) if order * self.sensitivity < 2.0**30 else 0.0
        log_share = _log_theta(self.sigma, offset) - _log_theta(self.sigma) if self.sigma < 3.0 else 0.0
        continuous = 0.5 * order * (self.sensitivity / self.sigma) ** 2
        return continuous * (1.0 + 1e-14) + (min(0.0, log_share + 1e-13)) / (order - 1.0)

    def concentrated(self) -> tuple[Fraction, Fraction]:
        """The Gaussian's concentrated privacy (Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return self.sensitivity**2 / (2 * as_written("sigma", self.sigma) ** 2), Fraction(0)

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        step = self.sensitivity / self.sigma**2
        far = math.ceil(14.0 * self.sigma) + self.sensitivity
        return (0.5 * self.sensitivity - far) * step, step, True

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.laws import discrete_gaussian_base

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

    def replaced(self) -> Leaf | None:
        return self.grouped(2)

    def grouped(self, size: int) -> Leaf | None:
        """The laws are log-concave: of all shifts up to this one the largest is the worst."""
        most = size * self.sensitivity
        return DiscreteLaplace(self.scale, most) if most <= LARGEST_SENSITIVITY else None

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        step = (1.0 + 2.0**-50) / self.scale  # a loss that rounding puts behind its knot would count as the next one
        return -self.sensitivity * step, 2.0 * step, True

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.laws import discrete_laplace_base

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
    # Outside of these stretches neither measure has mass that a double can hold.
    stretches = ((-shift - reach, -shift + reach), (-reach, reach)) if shift > 2 * reach else ((-shift - reach, reach),)
    size = sum(last - first + 1 for first, last in stretches)
    if size > MOST_LISTED:
        return _smooth_pair(sigma, shift)
    k = np.concatenate([np.arange(first, last + 1, dtype=np.float64) for first, last in stretches])
    norm = _log_theta(sigma)
    logs, others = (-0.5 * (point / sigma) ** 2 - norm for point in (k, k + shift))
    losses = shift * (shift + 2.0 * k) / (2.0 * sigma * sigma)
    # A tilt by theta moves the mass by theta * shift; nine standard deviations before the end it is all there.
    orders = 28.0 * sigma / shift if shift else math.inf
    if size < 2 * MAX_POINTS:
        step = shift / (sigma * sigma)
        law = Law(losses, logs, (), NEGLIGIBLE, NEGLIGIBLE, step, log_others=others, orders=orders)
        return DominatingPair.exact(law)
    ahead = 2.0 * k > -shift
    middle = (
        np.full(1, -0.5 * (0.5 * shift / sigma) ** 2 - norm) if 2.0 * np.min(np.abs(k + 0.5 * shift)) == 0.0 else None
    )
    return _mirrored(_points_in_blocks(losses[ahead], logs[ahead], MAX_POINTS // 2), middle, NEGLIGIBLE, orders)


def _smooth_pair(sigma: float, shift: int) -> DominatingPair:
    """Continuous noise of variance sigma^2 - 4 above and sigma^2 + 4 below, where that is less than 1e-6 apart.

    docs/theory/noise-lattice.md: discrete noise is slightly less continuous noise, resampled; and with continuous noise
    of variance 4 added it *is* slightly more continuous noise, up to a factor 1 + 1e-33.
    """
    above = shift / math.sqrt(sigma * sigma - 4.0) * (1.0 + 1e-14)
    below = shift / math.sqrt(sigma * sigma + 4.0) * (1.0 - 1e-14)
    return DominatingPair(gaussian_pair(above).upper, gaussian_pair(below).lower)


def _log_theta(sigma: float, offset: float = 0.0) -> float:
    """log of the sum over all integers k of exp(-(k - offset)^2 / (2 sigma^2)); an offset only for sigma < 3."""
    if sigma > 3.0:
        # Poisson summation; the next term is exp(-8 pi^2 sigma^2) < 1e-300.
        return (
            math.log(sigma) + 0.5 * math.log(2.0 * math.pi) + math.log1p(2.0 * math.exp(-2.0 * (math.pi * sigma) ** 2))
        )
    reach = math.ceil(REACH * sigma) + 2
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    return log_sum(-0.5 * ((k - offset) / sigma) ** 2)


@lru_cache(maxsize=64)
def _discrete_laplace_pair(scale: float, shift: int) -> DominatingPair:
    step = reciprocal_above(scale)
    log_end = -math.log1p(math.exp(-step))  # P(X <= 0)
    log_point = math.log(-math.expm1(-step)) + log_end  # P(X = 0)
    top = product_above(float(shift), step)
    if shift <= 2 * MAX_POINTS:
        k = np.arange(shift - 1, 0, -1, dtype=np.float64)
        losses = np.concatenate([[-top], (shift - 2.0 * k) * step, [top]])
        logs = np.concatenate([[log_end - top], log_point - k * step, [log_end]])
        # Points at distance one differ by two steps in loss; so do the ends and their neighbours.
        return DominatingPair.exact(Law(losses, logs, lattice=2.0 * step, log_others=logs[::-1], rounded=False))
    half = (shift - 1) // 2
    near = min(half, math.ceil(FAR * scale))
    edges = np.unique(np.rint(np.linspace(1, near + 1, min(near, MAX_POINTS // 2) + 1)))
    # Beyond FAR scales there is hardly any mass: one block will do.
    edges = np.append(edges, half + 1.0) if near < half else edges
    first, last = edges[:-1], edges[1:] - 1.0
    log_p = log_point - first * step + np.log(np.expm1(-(last - first + 1.0) * step) / math.expm1(-step))
    low, high = (shift - 2.0 * last) * step, (shift - 2.0 * first) * step
    # In a geometric block log p/q is half-way between the ends, exactly.
    blocks = _Blocks(*(np.append(part[::-1], end) for part, end in (
        (log_p, log_end), (low, top), (high, top), (0.5 * (high - low), 0.0))))  # fmt: skip
    middle = np.full(1, log_point - 0.5 * shift * step) if shift % 2 == 0 else None
    return _mirrored(blocks, middle, 0.0, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """Outcomes of positive loss, grouped by it: P-mass, range [low, high] of the loss, log p/q minus ``low``."""

    log_p: Array
    low: Array
    high: Array
    gap: Array


def _points_in_blocks(losses: Array, logs: Array, most: int) -> _Blocks:
    """Consecutive lattice points, of which P has more than Q, in at most ``most`` blocks."""
    starts = np.unique(np.rint(np.linspace(0, losses.size, most + 1)))[:-1].astype(np.int64)
    sizes = np.diff(np.append(starts, losses.size))
    tops = np.maximum.reduceat(logs, starts)
    weights = np.exp(logs - np.repeat(tops, sizes))
    low, whole = losses[starts], np.add.reduceat(weights, starts)
    # Relative to the lower end, so that nothing is lost beside a huge loss.
    share = np.add.reduceat(weights * np.exp(np.repeat(low, sizes) - losses), starts) / whole
    high = losses[starts + sizes - 1]
    return _Blocks(tops + np.log(whole), low, high, np.clip(-np.log(share), 0.0, high - low))


def _mirrored(blocks: _Blocks, middle: Array | None, outside: float, orders: float) -> DominatingPair:
    """The symmetric pair of blocks of positive loss, their mirror images, and a point of loss 0 (log-mass ``middle``).

    Merging outcomes is post-processing, so merged blocks are dominated (lower). Moving a block's mass to its two end
    losses with both masses kept is the chord of its profile, so that dominates (upper). log p/q is known to about
    1e-14 of its size, like every loss of a law (VALUE_ULPS in numerics.law).
    """
    width, gap = blocks.high - blocks.low, blocks.gap
    wide = width > 0.0
    with np.errstate(divide="ignore"):
        right = np.where(wide, np.log(np.expm1(-gap) / np.where(wide, np.expm1(-width), -1.0)), 0.0)
        left = np.where(wide, np.log(np.expm1(gap - width) / np.where(wide, np.expm1(-width), -1.0)) - gap, -np.inf)
    log_q = blocks.log_p - blocks.low - gap
    ends = (blocks.low, blocks.log_p + left, log_q + left + gap), (
        blocks.high, blocks.log_p + right, log_q + right + gap - width)  # fmt: skip
    atoms, masses, others = (np.stack([a, b], axis=1).ravel() for a, b in zip(*ends, strict=True))
    kept = np.isfinite(masses)
    upper = _with_mirror(atoms[kept], masses[kept], others[kept], middle, outside, orders)
    return DominatingPair(upper, _with_mirror(blocks.low + gap, blocks.log_p, log_q, middle, 0.0, orders))


def _with_mirror(
    atoms: Array, masses: Array, others: Array, middle: Array | None, outside: float, orders: float
) -> Law:
    zero, point = (np.zeros(0), np.zeros(0)) if middle is None else (np.zeros(1), middle)
    return Law(
        np.concatenate([-atoms[::-1], zero, atoms]),
        np.concatenate([others[::-1], point, masses]),
        infinity=outside,
        zero=outside,
        log_others=np.concatenate([masses[::-1], point, others]),
        orders=orders,
    )
