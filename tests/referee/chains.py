"""Chains of neighbouring data sets: real mechanisms for groups and for replacing, each step with the loss's pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb
from scipy.optimize import minimize_scalar

from referee import lattice, sides
from referee.balls import ONE, ZERO, ball, near, within
from referee.brackets import joined_cells
from referee.finite import Finite, TooMany, chained, group_of, tidy
from referee.leaves import Pure, leaking, response
from referee.mixtures import GaussianMixture
from referee.sides import BoundedRange, Gaussian, Laplace, Sampled, Side, Smooth
from referee.worlds import Orders, Part, Truth, Unknown, World


def grouped(truth: Truth, size: int) -> Truth:
    """M depends on how many of ``size`` units are present; each step of the chain has the trade-off of the pair.

    The chain is monotone in the likelihood ratio, so its ends have power g(g(...)): a real mechanism.  Where a pair is
    its own swap, additions and removals are alike and nothing exceeds the chain.
    """
    if size == 1:
        return truth

    def change(world: World, _: int) -> World:
        return tuple(replace(p, side=group_side(p.side, size), term=None) for p in world)

    balanced = truth.exact and all(balanced_side(p.side) for p in truth.variants[0][0])
    result = truth.mapped(change)
    told = [(told_world(a), told_world(b)) for a, b in result.variants]
    more = [(a, b) for a, b in told if a is not None and b is not None]
    return result if balanced else Truth(result.variants + more, None, truth.replace)


def told_world(world: World) -> World | None:
    """The same world told in few outcomes, where a chain of mixtures is one of its parts: what it has no answer for."""
    if not any(isinstance(p.side, Chain) and p.side.mixed for p in world):
        return None
    return tuple(replace(p, side=polygon(p.side)) if isinstance(p.side, Chain) and p.side.mixed else p for p in world)


def polygon(chain: Chain) -> Finite:
    """Outcomes between these levels merged: its power is on chords of the chain's, so no divergence is larger."""
    levels = [
        10.0**-k for k in (30, 20, 14, 11, 9, 7, 6, 5, 4.5, 4, 3.5, 3, 2.5, 2, 1.7, 1.4, 1.1, 0.8, 0.6, 0.4, 0.25)
    ]
    ends = [ball(x) for x in levels] + [1 - ball(x) for x in reversed(levels) if 1e-10 < x < 0.4]
    known = [(x, y) for x, y in ((x, chain.power(x)) for x in ends) if 1 - y > 1e-13 and y.rad() < 1e-20]
    points = [(ZERO, ZERO), *known, (ONE, ONE)]
    return Finite(tidy(joined_cells([(q1 - q0, x1 - x0) for (x0, q0), (x1, q1) in pairwise(points)])))


def balanced_side(side: Side) -> bool:
    """Is the pair its own swap?"""
    if isinstance(side, Finite):
        return side.symmetric()
    return isinstance(side, Gaussian | Laplace | BoundedRange | lattice.DiscreteGaussian | lattice.DiscreteLaplace)


def group_side(side: Side, size: int) -> Side:
    if isinstance(side, Gaussian):
        return Gaussian(side.mu * size)
    if isinstance(side, Laplace):
        return Laplace(side.scale / size)
    if isinstance(side, BoundedRange):
        return BoundedRange(side.epsilon * size)
    if isinstance(side, lattice.DiscreteGaussian | lattice.DiscreteLaplace):
        return replace(side, shift=side.shift * size)
    if isinstance(side, Finite):
        try:
            return group_of(side, size)
        except TooMany:
            return Unknown()
    longest = 6 if isinstance(side, GaussianMixture) else 3
    return Chain(tuple([side] * size)) if size <= longest and isinstance(side, Smooth) else Unknown()


@dataclass(frozen=True)
class Chain(Side):
    """Power g_k(... g_1(level)) of a chain of neighbours; the profile is searched, so it is known from below."""

    links: tuple[Side, ...]

    @property
    def mixed(self) -> bool:
        return all(isinstance(side, GaussianMixture) for side in self.links)

    def power(self, alpha: arb) -> arb:
        for side in self.links:
            alpha = side.power(alpha.min(ONE).max(ZERO))
        return alpha

    def infinite(self) -> arb:
        return self.power(ZERO)

    def profile(self, a: arb) -> arb:
        if self.mixed:
            return self._searched(a)
        size = near(a)
        best = max((near(self.power(ball(x))) - size * x, x) for x in (10.0**-k for k in range(0, 13, 2)))[1]
        low, high = best / 100, min(1.0, best * 100)
        for _ in range(24):
            one, two = low ** (2 / 3) * high ** (1 / 3), low ** (1 / 3) * high ** (2 / 3)
            if near(self.power(ball(one))) - size * one >= near(self.power(ball(two))) - size * two:
                high = two
            else:
                low = one
        level = ball((low * high) ** 0.5)
        found = self.power(level) - a * level
        return within(found.max(self.infinite()), 1e-6).max(ZERO)

    def _roughly(self, level: float) -> float:
        for side in self.links:
            level = side.rough_power(min(level, 1 - 1e-16)) if isinstance(side, GaussianMixture) else level
        return level

    @cached_property
    def _table(self) -> tuple[Any, Any]:
        """Logarithms of levels and their powers, in doubles, to begin a search with."""
        near_one = [-1e-12, -1e-6, -1e-3, -0.03, -0.2]
        logs = np.array(sorted([*near_one, *(-0.7 * k for k in range(1, 60)), *(-45.0 - 10 * k for k in range(60))]))
        return logs, np.array([self._roughly(math.exp(x)) for x in logs])

    def _searched(self, a: arb) -> arb:
        """The level found in doubles, its power in balls: below H for certain, and not above by more than rounding."""
        size = near(a)
        logs, powers = self._table
        place = int(np.argmax(powers - size * np.exp(logs)))
        low, high = logs[max(place - 1, 0)], logs[min(place + 1, len(logs) - 1)]

        def short(log_level: float) -> float:
            return size * math.exp(log_level) - self._roughly(math.exp(log_level))

        found = minimize_scalar(short, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
        level = ball(math.exp(float(found.x)))
        reached = self.power(level)
        return within((reached - a * level).max(self.infinite()).max((1 - a).max(ZERO)), 1e-9, 1e-13 * near(reached))


def replaced(truth: Truth) -> Truth:
    """Data sets D + x and D + y: M(D + x) and M(D + y) are the pair's P, arranged against each other over Q = M(D).

    Where the pair is its own swap M(D + x + y) may be Q again, so the chain over D is a real mechanism; with Poisson
    sampling in front the witness is ((1-q) Q + q P, (1-q) Q + q P').  Elsewhere P against Q is one (let y do nothing).
    """
    if truth.replace:
        return truth

    def change(world: World, _: int) -> World:
        return tuple(replace(p, side=replaced_side(p.side), term=None) for p in world)

    plain = truth.exact and all(
        balanced_side(p.side) or (isinstance(p.side, Sampled) and isinstance(p.side.base, Gaussian))
        for p in truth.variants[0][0]
    )
    result = truth.mapped(change)
    ceiling: Orders | None = result.variants[0] if plain else None
    if ceiling and any(named(p) for p in truth.variants[0][0]):
        world = tuple(replace(p, side=doubled(p)) for p in truth.variants[0][0])
        ceiling = world, world
        if len(world) == 1 and world[0].count == 1:  # the claim that was written down; it is attained by its own pair
            return Truth(result.variants, ceiling, True, pointwise=(world[0].side,))
    return Truth(result.variants, ceiling, True)


def doubled(part: Part) -> Side:
    """(epsilon, delta) is converted by name, to (2 epsilon, (1 + e^epsilon) delta): a wider claim than the chain."""
    claim = named(part)
    if claim is None:
        return replaced_side(part.side)
    epsilon, delta = claim
    return leaking(response(2 * epsilon), ((1 + epsilon.exp()) * delta).min(ONE))


def named(part: Part) -> tuple[arb, arb] | None:
    """The epsilon and delta of a claim that has them for its name."""
    if isinstance(part.side, Pure):
        return part.side.epsilon, ZERO
    if not part.term or part.term["leaf"] not in ("pure_dp", "approx_dp"):
        return None
    return ball(part.term["epsilon"]), ball(part.term.get("delta", 0.0))


def replaced_side(side: Side) -> Side:
    if isinstance(side, Finite):
        return chained(side, side) if side.symmetric() else side
    if balanced_side(side):
        return group_side(side, 2)
    if isinstance(side, Sampled) and isinstance(side.base, Gaussian):
        return OppositeGaussians(side.base.mu, side.rate)
    return side


@dataclass(frozen=True)
class OppositeGaussians(Smooth):
    """(1-q) N(0) + q N(mu) against (1-q) N(0) + q N(-mu)."""

    mu: arb
    rate: arb

    def tails(self, a: arb) -> sides.Tails:
        if not a > 0:
            return ONE, ONE
        # the ratio exceeds a where c z^2 + (1-q)(1-a) z - a c > 0, z = e^{mu x}, c = q e^{-mu^2/2}
        c = self.rate * (-(self.mu**2) / 2).exp()
        b = (1 - self.rate) * (1 - a)
        root = (b * b + 4 * a * c * c).sqrt()
        z = 2 * a * c / (b + root) if b >= 0 else (root - b) / (2 * c)
        x = z.log() / self.mu
        tail = sides.normal_tail
        rest = (1 - self.rate) * tail(x)
        return rest + self.rate * tail(x - self.mu), rest + self.rate * tail(x + self.mu)

    def fine(self, order: float) -> list[sides.Tails] | None:
        """As of one Gaussian, and shifted once more."""
        mu, rest = near(self.mu), 1 - self.rate
        step = 0.04 / max(1.0, mu)
        first, last = int((-20 - mu) / step), int((20 + (1 + 2 * order) * mu) / step)
        if last - first > sides.MOST_FINE:
            return None
        size, result = ball(step) / (2 * arb.pi()).sqrt(), []
        for i in range(first, last + 1):
            x = ball(step) * i
            up, here, down = (size * (-((x - at) ** 2) / 2).exp() for at in (self.mu, ZERO, -self.mu))
            result.append((rest * here + self.rate * up, rest * here + self.rate * down))
        return result

    def nodes(self, order: float) -> sides.Nodes | None:
        mu, q = near(self.mu), near(self.rate)
        step = 0.02 / max(1.0, mu)
        low, high = -12.0 - mu, 12.0 + (1 + 2 * order) * mu
        if (high - low) / step > sides.MOST_NODES or q >= 1:
            return None
        x = np.arange(low, high, step)
        base = -x * x / 2 + np.log(step / np.sqrt(2 * np.pi))
        up = np.logaddexp(np.log1p(-q), np.log(q) + mu * x - mu * mu / 2)
        down = np.logaddexp(np.log1p(-q), np.log(q) - mu * x - mu * mu / 2)
        return up - down, base + up, base + down
