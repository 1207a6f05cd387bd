"""Verbs that add noise: ``add_laplace``, ``add_gaussian``, and their twins for integer data.

``scale``, ``sigma`` and ``sensitivity`` are in data units. A vector needs ``dimension``; its sensitivity is the L1 norm
for Laplace noise and the L2 norm for Gaussian noise, and ``changed`` is in how many coordinates one unit can appear.
``sensitivity`` may also be what ``sensitivity_of`` returns. Calibration is on the lattice law that is released, never
by the classical formula (docs/theory/noise-calibration.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.accounting.calibrate import calibrate
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.lattice import Lattice, default_lattice, lattice_of, root_up
from tallystick.mechanisms.noise.additive import AdditiveNoise, Move, enlarged_norm, price
from tallystick.mechanisms.noise.laws import (
    SMOOTH_STEPS,
    SMOOTH_VECTOR_SIGMA,
    SMOOTHING,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
)
from tallystick.mechanisms.noise.sensitivity import Sensitivity

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_LONGEST = 10**9


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
    scalar, (L1 + changed g) / scale for a vector. The price errs upwards, by about a millionth.

    >>> count = add_laplace(epsilon=0.5, sensitivity=1)
    >>> round(count.error(confidence=0.95), 3)
    5.991
    """
    target = _only_one("scale", scale=scale, epsilon=epsilon)
    size = check.positive(target, scale if target == "scale" else epsilon)
    site = _site(sensitivity, 1, dimension, changed, adjacency, unit)
    guess = size if target == "scale" else site.move.norm / size
    return site.laplace(site.lattice(granularity, 1, guess), size, target)


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
    target = _only_one("scale", scale=scale, epsilon=epsilon)
    size = check.positive(target, scale if target == "scale" else epsilon)
    return _site(sensitivity, 1, dimension, changed, adjacency, unit, whole=True).laplace(None, size, target)


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
    fine lattice scalar and vector are priced by a Gaussian pair proved to dominate it, looser by a part in 10^12; on a
    coarse one a scalar by the exact lattice pair and a vector by zCDP.

    >>> add_gaussian(sigma=10, sensitivity=2).variance
    100.0
    """
    goal = _goal(sigma, epsilon, delta, rho, mu)
    site = _site(sensitivity, 2, dimension, changed, adjacency, unit)
    return site.gaussian(site.lattice(granularity, 2, goal.rough_sigma(site.move.norm)), goal)


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
    return _site(sensitivity, 2, dimension, changed, adjacency, unit, whole=True).gaussian(None, goal)


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


@dataclass(frozen=True, slots=True)
class _Site:
    """Where noise is added: everything but the noise."""

    move: Move
    dimension: int | None
    protects: Protects

    def lattice(self, granularity: float | None, order: int, noise: float) -> Lattice:
        """The lattice asked for, or one whose rounding adds about a millionth to the norm."""
        if granularity is not None:
            return lattice_of(granularity)
        return default_lattice(sensitivity=self.move.norm / self.move.changed ** (1 / order), noise=noise)

    def laplace(self, lattice: Lattice | None, size: float, target: str) -> AdditiveNoise:
        if target == "scale":
            return self.with_law(lattice, DiscreteLaplace(_in_units(lattice, "scale", size)))
        norm, budget = self.norm(lattice, DiscreteLaplace(1.0)), Fraction(size)
        rough = _drawable(target, size, norm / budget)
        if norm <= SMOOTH_STEPS:
            return self.with_law(lattice, DiscreteLaplace(_least_float(lambda s: norm <= budget * s, rough)))
        # The continuous pair shifts each changed coordinate by 1 / (4 scale) more.
        extra = Fraction(self.move.changed, 4)
        scale = _least_float(lambda s: norm + extra / s <= budget * s, (norm + extra / rough) / budget)
        return self.with_law(lattice, DiscreteLaplace(scale))

    def gaussian(self, lattice: Lattice | None, goal: _Goal) -> AdditiveNoise:
        if goal.name == "sigma":
            return self.with_law(lattice, DiscreteGaussian(_in_units(lattice, "sigma", goal.value)))
        norm = self.norm(lattice, DiscreteGaussian(1.0))
        if goal.name == "epsilon":
            unit = math.sqrt(_drawable("sensitivity", self.move.norm, norm, order=2))
            target = goal.loss(self.protects)
            ratio = calibrate(lambda r: price(DiscreteGaussian(r * unit), lattice, self.move, self.protects), target)
            return self.with_law(
                lattice, DiscreteGaussian(float(_drawable("epsilon", goal.value, Fraction(ratio * unit))))
            )
        square = 1 / (2 * Fraction(goal.value)) if goal.name == "rho" else 1 / Fraction(goal.value) ** 2
        _drawable(goal.name, goal.value, norm * square, order=2)
        if goal.name == "rho" and norm * square <= Fraction(SMOOTH_VECTOR_SIGMA) ** 2:
            # Exact pairs and zCDP of small sigma: norm / (2 sigma^2) <= rho.
            return self.with_law(lattice, DiscreteGaussian(root_up(norm * square)))
        # The leaf will be gaussian(sqrt((sigma^2 - smoothing) / norm)), which must be at least this double.
        ratio = Fraction(root_up(square))
        return self.with_law(lattice, DiscreteGaussian(root_up(norm * ratio**2 + SMOOTHING)))

    def norm(self, lattice: Lattice | None, law: NoiseLaw) -> Fraction:
        """What the law's norm can be after rounding, to the power of its order."""
        if self.move.changed == 1:
            return Fraction((lattice or Lattice(0)).steps(self.move.norm)) ** law.order
        return enlarged_norm(law, lattice, self.move)

    def with_law(self, lattice: Lattice | None, law: NoiseLaw) -> AdditiveNoise:
        return AdditiveNoise(law, lattice, self.move, self.dimension, self.protects)


def _site(
    sensitivity: float | Sensitivity,
    order: int,
    dimension: int | None,
    changed: int | None,
    adjacency: Adjacency | str | None,
    unit: str | None,
    *,
    whole: bool = False,
) -> _Site:
    size = None if dimension is None else check.count("dimension", dimension, least=1, most=_LONGEST)
    wanted = None if adjacency is None else check.adjacency(adjacency)
    if isinstance(sensitivity, Sensitivity):
        if wanted not in (None, sensitivity.adjacency):
            raise InvalidInput("adjacency", wanted, f"{sensitivity.adjacency}, which the sensitivity is for")
        wanted, each = sensitivity.adjacency, sensitivity.each
        norm, affected = (sensitivity.l1 if order == 1 else sensitivity.l2), sensitivity.changed
    else:
        norm, each, affected = check.positive("sensitivity", sensitivity), None, size or 1
    least = min(affected, size or 1) if isinstance(sensitivity, Sensitivity) else 1
    if changed is not None:
        affected = check.count("changed", changed, least=1, most=_LONGEST)
        if affected < least:
            raise InvalidInput("changed", changed, f"at least {least}: in so many coordinates this sensitivity appears")
    affected = min(affected, size or 1)
    if whole and affected == 1 and norm != int(norm):
        raise InvalidInput("sensitivity", norm, "a whole number >= 1 for integer data")
    if affected == 1:
        norm = norm if each is None else each
    return _Site(Move(norm, affected, each), size, Protects(wanted or Adjacency.ADD_REMOVE, unit))


def _goal(
    sigma: float | None, epsilon: float | None, delta: float | None, rho: float | None, mu: float | None
) -> _Goal:
    name = _only_one("sigma", sigma=sigma, epsilon=epsilon, rho=rho, mu=mu)
    given = {"sigma": sigma, "epsilon": epsilon, "rho": rho, "mu": mu}[name]
    if name != "epsilon":
        if delta is not None:
            raise InvalidInput("delta", delta, f"nothing: delta goes with epsilon, not with {name}")
        return _Goal(name, check.positive(name, given))
    chance = check.positive("delta", delta, "a number strictly between 0 and 1, beside epsilon")
    if chance >= 1:
        raise InvalidInput("delta", delta, "a number strictly between 0 and 1, beside epsilon")
    return _Goal(name, check.positive(name, given), chance)


def _only_one(default: str, **numbers: float | None) -> str:
    given = [name for name, value in numbers.items() if value is not None]
    if len(given) != 1:
        raise InvalidInput(default, " and ".join(given) or None, "exactly one of " + ", ".join(numbers))
    return given[0]


def _in_units(lattice: Lattice | None, argument: str, size: float) -> float:
    """A noise size in lattice units; exact, because the lattice is a power of two."""
    return float(_drawable(argument, size, Fraction(size) / (Fraction(2) ** lattice.exponent if lattice else 1)))


def _drawable(argument: str, given: float, steps: Fraction, *, order: int = 1) -> Fraction:
    """A noise size in lattice units (or its square), if the exact samplers can make it."""
    if not Fraction(2) ** -1000 <= steps <= Fraction(2) ** (50 * order):
        allowed = "a value that needs noise between 2^-1000 and 2^50 lattice steps, or another granularity"
        raise InvalidInput(argument, given, allowed)
    return steps


def _least_float(enough: Callable[[Fraction], bool], rough: Fraction) -> float:
    """The least double near ``rough`` that is exactly enough."""
    size = float(rough)
    for _ in range(4):
        size = math.nextafter(size, 0.0)
    while not enough(Fraction(size)):
        size = math.nextafter(size, math.inf)
    return size
