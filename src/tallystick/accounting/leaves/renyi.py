"""Leaves of which only a Renyi curve is known: zero-concentrated and Renyi differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import law_of_profile, profile_minorant
from tallystick.numerics.law import Array, Law


def best_delta(log_mgf: Array, theta: Array, epsilon: Array) -> Array:
    """inf over theta of e^{K(theta) - theta epsilon} theta^theta / (1 + theta)^{1 + theta}, capped at one.

    (Canonne, Kamath, Steinke 2020, Proposition 12, with theta = order - 1.) Any subset of thetas is valid.
    """
    factor = log_mgf + theta * np.log(theta) - (1.0 + theta) * np.log1p(theta)
    exponents = factor[None, :] - theta[None, :] * np.atleast_1d(epsilon)[:, None]
    result: Array = np.exp(np.minimum(0.0, np.min(exponents, axis=1))) * (1.0 + 1e-12)
    return np.minimum(result, 1.0)


def renyi_pair(curve: Leaf, delta: float) -> DominatingPair:
    """The pair of the best (epsilon, delta) profile that follows from a Renyi curve.

    Lossy: the attainable profile is lower. From below only the trivial pair is certain.
    """
    theta = np.exp(np.linspace(math.log(1e-6), math.log(1e7), 1500))
    logs = curve.log_mgf_bound(theta)
    assert logs is not None
    known = np.isfinite(logs)
    theta, logs = theta[known], logs[known]
    top = float(np.min((logs + 690.0) / theta))
    grid = np.concatenate([np.linspace(0.0, top, 3000), top * np.geomspace(1e-6, 1.0, 400)])
    epsilon = np.unique(np.minimum(grid, 600.0))
    levels, heights, last = profile_minorant(epsilon, best_delta(logs, theta, epsilon))
    law = law_of_profile(levels, heights * (1.0 - delta), last * (1.0 - delta))
    upper = Law(law.atoms, law.log_masses, infinity=law.infinity + delta, zero=law.zero + delta)
    return DominatingPair(_rescaled(upper), Law(np.zeros(1), np.array([0.0])))


def _rescaled(law: Law) -> Law:
    """Put the rounding of the knots back into the kink at 0 so that the masses sum to one."""
    missing = 1.0 - float(np.sum(np.exp(law.log_masses))) - law.infinity
    place = int(np.argmin(np.abs(law.atoms)))
    masses = np.exp(law.log_masses)
    masses[place] = max(0.0, masses[place] + missing)
    with np.errstate(divide="ignore"):
        return Law(law.atoms, np.log(masses), infinity=law.infinity, zero=law.zero)


@dataclass(frozen=True, slots=True)
class Zcdp(Leaf):
    """delta-approximate rho-zCDP (Bun and Steinke 2016): Renyi divergence at most rho * order, at every order.

    Loses: the profile is that of the best conversion, above any mechanism's own; bounds from below are trivial.
    """

    kind: ClassVar[str] = "zcdp"
    rho: float
    delta: float = 0.0

    def pair(self, direction: Direction) -> DominatingPair:
        return renyi_pair(self, self.delta)

    @property
    def only_renyi(self) -> bool:
        return True

    def log_mgf_bound(self, theta: Array) -> Array:
        return self.rho * theta * (1.0 + theta)


@dataclass(frozen=True, slots=True)
class RenyiDp(Leaf):
    """(order, epsilon)-Renyi differential privacy at finitely many orders (Mironov 2017).

    Between the orders (order - 1) * divergence is convex, so chords (and the point 0 at order 1) are bounds.
    """

    kind: ClassVar[str] = "renyi_dp"
    orders: tuple[float, ...]
    epsilons: tuple[float, ...]

    def pair(self, direction: Direction) -> DominatingPair:
        return renyi_pair(self, 0.0)

    @property
    def only_renyi(self) -> bool:
        return True

    def log_mgf_bound(self, theta: Array) -> Array:
        x = np.concatenate([[0.0], np.array(self.orders) - 1.0])
        y = np.concatenate([[0.0], (np.array(self.orders) - 1.0) * np.array(self.epsilons)])
        result: Array = np.interp(theta, x, y)
        # Divergence grows with the order, so a higher order's value bounds a lower one too.
        for order, epsilon in zip(self.orders, self.epsilons, strict=True):
            result = np.where(theta <= order - 1.0, np.minimum(result, theta * epsilon), result)
        return np.where(theta > x[-1], math.inf, result)

    def __str__(self) -> str:
        inner = ", ".join(f"{o!r}: {e!r}" for o, e in zip(self.orders, self.epsilons, strict=True))
        return f"renyi_dp({{{inner}}})"
