"""Leaves of which only a Renyi curve is known: zero-concentrated and Renyi differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import Leaf, Limit, shown, written_call
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import UpperProfile, law_above
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Array, Law
from tallystick.rounding import as_written

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask, Ball
    from tallystick.numerics.rigorous.laws import BallLaw

LARGEST_RHO = 1e12
LARGEST_ORDER = 1e9


def log_delta(log_mgf: Array, theta: Array) -> Array:
    """log of delta at epsilon 0, for each order by itself: K(theta) + theta log theta - (1 + theta) log(1 + theta).

    (Canonne, Kamath, Steinke 2020, Proposition 12, with theta = order - 1; ``theta epsilon`` is taken off for others.)
    """
    # without the difference of two large numbers
    return log_mgf - theta * np.log1p(1.0 / theta) - np.log1p(theta)


def delta_of(exponent: Any) -> Any:
    """e^exponent, rounded up and at most one."""
    return np.minimum(np.exp(np.minimum(0.0, exponent)) * (1.0 + 1e-12) + 1e-320, 1.0)


def best_delta(log_mgf: Array, theta: Array, epsilon: Array) -> Array:
    """inf over theta of e^{K(theta) - theta epsilon} theta^theta / (1 + theta)^{1 + theta}, capped at one.

    Any subset of thetas is valid.
    """
    exponents = log_delta(log_mgf, theta)[None, :] - theta[None, :] * np.atleast_1d(epsilon)[:, None]
    result: Array = delta_of(np.min(exponents, axis=1))
    return result


def renyi_pair(curve: Leaf, delta: float) -> DominatingPair:
    """The pair of the best (epsilon, delta) profile that follows from a Renyi curve.

    Lossy: the attainable profile is lower. From below only the trivial pair is certain.
    """
    theta = np.exp(np.linspace(math.log(1e-6), math.log(1e7), 1500))
    logs = curve.log_mgf_bound(theta)
    assert logs is not None
    known = np.isfinite(logs)
    if not known.any():  # an order of 1 and next to nothing
        theta = np.geomspace(1e-16, 1e-6, 200)
        logs = curve.log_mgf_bound(theta)
        assert logs is not None
        known = np.isfinite(logs)
        if not known.any():
            from tallystick.accounting.leaves.pure import two_point_law

            return DominatingPair(two_point_law(0.0, 1.0), Law(np.zeros(1), np.array([0.0])))
    theta, logs = theta[known], logs[known]
    top = float(np.min((logs + 690.0) / theta))
    grid = np.concatenate([np.linspace(0.0, top, 3000), top * np.geomspace(1e-6, 1.0, 400)])
    epsilon = np.unique(grid)
    # Rounded up: beyond the ladder something finite is left, so no epsilon has just ``delta``.
    heights = np.nextafter(delta + (1.0 - delta) * best_delta(logs, theta, epsilon), math.inf)
    profile = UpperProfile(epsilon, np.minimum(1.0, heights))
    # Good for no order at all: a conversion forgets the moments, and ``renyi_above`` has the curve itself.
    above = replace(law_above(profile, profile), orders=0.0)
    return DominatingPair(above, Law(np.zeros(1), np.array([0.0])))


@dataclass(frozen=True, slots=True)
class Zcdp(Leaf):
    """delta-approximate rho-zCDP (Bun and Steinke 2016): Renyi divergence at most rho * order, at every order.

    Loses: the profile is that of the best conversion, above any mechanism's own; bounds from below are trivial.
    """

    kind: ClassVar[str] = "zcdp"
    rho: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        rho, delta = check.between("rho", self.rho, 0.0, LARGEST_RHO), check.probability("delta", self.delta)
        if rho == 0.0 and delta == 0.0:
            raise InvalidInput("rho", self.rho, "a number above 0; zcdp(rho=0) loses nothing")
        check.keep(self, rho=rho, delta=delta)

    def pair(self, direction: Direction) -> DominatingPair:
        return renyi_pair(self, self.delta)

    def renyi_above(self, direction: Direction, order: float) -> float:
        return self.rho * order * (1.0 + 1e-15) if self.delta == 0.0 else math.inf

    @property
    def only_renyi(self) -> bool:
        return True

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        rho = ask.ball(self.rho)
        return ask.moments(lambda theta: rho * theta * (1 + theta), self.delta)

    def log_mgf_bound(self, theta: Array) -> Array:
        return self.rho * theta * (1.0 + theta)

    def concentrated(self) -> tuple[Fraction, Fraction]:
        return as_written("rho", self.rho), as_written("delta", self.delta)

    def limit(self) -> Limit:
        return Limit("zcdp", self.rho, self.delta)


@dataclass(frozen=True, slots=True)
class ZcdpOffset(Leaf):
    """delta-approximate (offset, rho)-zCDP: Renyi divergence at most offset + rho * order (Bun and Steinke 2016)."""

    kind: ClassVar[str] = "zcdp_offset"
    rho: float
    offset: float
    delta: float

    def __post_init__(self) -> None:
        check.keep(self, rho=check.between("rho", self.rho, 0.0, LARGEST_RHO))
        check.keep(self, offset=check.epsilon(check.positive("offset", self.offset)))
        check.keep(self, delta=check.probability("delta", self.delta))

    def pair(self, direction: Direction) -> DominatingPair:
        return renyi_pair(self, self.delta)

    def renyi_above(self, direction: Direction, order: float) -> float:
        return (self.offset + self.rho * order) * (1.0 + 1e-15) if self.delta == 0.0 else math.inf

    @property
    def only_renyi(self) -> bool:
        return True

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        rho, offset = ask.ball(self.rho), ask.ball(self.offset)
        return ask.moments(lambda theta: theta * (offset + rho * (1 + theta)), self.delta)

    def log_mgf_bound(self, theta: Array) -> Array:
        return theta * (self.offset + self.rho * (1.0 + theta)) * (1.0 + 1e-15)

    def concentrated(self) -> tuple[Fraction, Fraction]:
        """Orders are at least one, so the offset is at most itself times the order."""
        total = as_written("rho", self.rho) + as_written("offset", self.offset)
        return total, as_written("delta", self.delta)

    def concentrated_goal(self) -> tuple[Fraction, Fraction]:
        """Without its offset: what is under rho times the order is under the offset more."""
        return as_written("rho", self.rho), as_written("delta", self.delta)

    def text(self, protects: Protects) -> str:
        named = (("rho", self.rho), ("delta", self.delta), ("offset", self.offset))
        inner = [f"{name}={shown(value)}" for name, value in named]
        return f"zcdp({', '.join((*inner, *protects.arguments(self.relations[0])))})"


@constructor
def zcdp(
    *,
    rho: float,
    delta: float = 0.0,
    offset: float = 0.0,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """delta-approximate rho-zCDP. Only a Renyi curve is known, so values are conversions: upper bounds.

    With an ``offset`` xi it is (xi, rho)-zCDP: divergence at most xi + rho * order.

    >>> round(zcdp(rho=0.5).epsilon(delta=1e-6), 2)  # a Gaussian of that rho: 4.89
    5.22
    >>> zcdp(rho=0.5, offset=0.25).renyi(order=2) >= 1.25
    True
    """
    number, slack = check.between("rho", rho, 0.0, LARGEST_RHO), check.probability("delta", delta)
    if check.nonnegative("offset", offset) > 0.0:
        return loss_of(ZcdpOffset(number, offset, slack), adjacency, unit)
    return loss_of(Zcdp(number, slack) if number > 0 or slack > 0 else None, adjacency, unit)


@dataclass(frozen=True, slots=True)
class RenyiDp(Leaf):
    """(order, epsilon)-Renyi differential privacy at finitely many orders (Mironov 2017).

    Between the orders (order - 1) * divergence is convex, so chords (and the point 0 at order 1) are bounds.
    """

    kind: ClassVar[str] = "renyi_dp"
    orders: tuple[float, ...]
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        allowed = "orders above 1 and at most 1e9, increasing, each with an epsilon >= 0"
        if not isinstance(self.orders, tuple) or not isinstance(self.epsilons, tuple):
            raise InvalidInput("curve", (self.orders, self.epsilons), allowed)
        orders = tuple(check.between("order", order, 1.0, LARGEST_ORDER) for order in self.orders)
        increasing = all(low < high for low, high in pairwise((1.0, *orders)))
        if not orders or not increasing or len(orders) != len(self.epsilons):
            raise InvalidInput("curve", (self.orders, self.epsilons), allowed)
        check.keep(self, orders=orders)
        check.keep(
            self,
            epsilons=tuple(
                check.between("epsilon", epsilon, 0.0, check.LARGEST_DIVERGENCE) for epsilon in self.epsilons
            ),
        )

    def pair(self, direction: Direction) -> DominatingPair:
        return renyi_pair(self, 0.0)

    def renyi_above(self, direction: Direction, order: float) -> float:
        return float(self.log_mgf_bound(np.array([order - 1.0]))[0]) / (order - 1.0) * (1.0 + 1e-15)

    @property
    def only_renyi(self) -> bool:
        return True

    @property
    def known_orders(self) -> tuple[float, ...]:
        return self.orders

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        knots = [(ask.ball(0.0), ask.ball(0.0))]
        knots += [
            (t, t * ask.ball(e))
            for t, e in ((ask.ball(o) - 1, e) for o, e in zip(self.orders, self.epsilons, strict=True))
        ]

        def log_moment(theta: Ball) -> Ball:
            """A chord, or what the next order's divergence says, which is above that of a lower one."""
            place = next((j for j, (t, _) in enumerate(knots) if theta <= t), len(knots) - 1)
            (low, under), (high, over) = knots[place - 1], knots[place]
            return (under + (over - under) * (theta - low) / (high - low)).min(theta * over / high)

        exact = [float(t) for t, _ in knots[1:]]
        return ask.moments(log_moment, 0.0, exact[-1], exact)

    def log_mgf_bound(self, theta: Array) -> Array:
        x = np.concatenate([[0.0], np.array(self.orders) - 1.0])
        y = np.concatenate([[0.0], (np.array(self.orders) - 1.0) * np.array(self.epsilons)])
        result: Array = np.interp(theta, x, y)
        # Divergence grows with the order, so a higher order's value bounds a lower one too.
        for order, epsilon in zip(self.orders, self.epsilons, strict=True):
            result = np.where(theta <= order - 1.0, np.minimum(result, theta * epsilon), result)
        return np.where(theta > x[-1], math.inf, result)

    def limit(self) -> Limit:
        if len(self.orders) != 1:
            raise InvalidInput(
                "budget",
                f"renyi_dp at {len(self.orders)} orders",
                "one order: 'some order is under budget' is not a filter",
            )
        return Limit("rdp", self.epsilons[0], order=self.orders[0])

    def text(self, protects: Protects) -> str:
        inner = ", ".join(f"{o!r}: {e!r}" for o, e in zip(self.orders, self.epsilons, strict=True))
        return written_call(self, protects, f"{{{inner}}}")


@constructor
def renyi_dp(
    curve: Mapping[Any, Any], *, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Renyi differential privacy at the given ``{order: epsilon}``. Lossy in the same way as ``zcdp``.

    >>> renyi_dp({2: 0.1, 16: 0.9}).renyi(order=2) >= 0.1
    True
    """
    if not isinstance(curve, Mapping) or not curve:
        raise InvalidInput("curve", curve, "a dictionary {order > 1: epsilon >= 0} with at least one entry")
    table = sorted(
        (check.finite("order", order, "orders above 1"), check.nonnegative(f"curve[{order}]", value))
        for order, value in curve.items()
    )
    return loss_of(RenyiDp(tuple(o for o, _ in table), tuple(e for _, e in table)), adjacency, unit)
