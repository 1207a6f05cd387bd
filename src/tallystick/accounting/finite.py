"""Finite pairs: their laws, the worse of both orders, and the pairs that trade-off polygons stand for.

Masses stay masses: nothing here is recovered from a cumulative sum, so an outcome of mass 1e-300 keeps its loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallystick.accounting.pair import told_from_dust
from tallystick.accounting.polygon import LowerTradeoff
from tallystick.numerics.law import UNIT, Array, Law

SAME = 1e-13
"""Profiles that differ by less than this share are taken for equal; what is read from them is kept at 1e-12."""


def law_of_pair(p: Array, q: Array) -> Law:
    """The loss law of a finite pair of mass vectors."""
    both = (p > 0) & (q > 0)
    return _law(_losses(p[both], q[both]), np.log(p[both]), float(np.sum(p[q == 0])), float(np.sum(q[p == 0])))


def _losses(p: Array, q: Array) -> Array:
    """log(p/q). p - q is exact where they are close, so the loss keeps its relative accuracy near zero."""
    near = np.abs(p - q) < 0.5 * q
    close = np.log1p(np.where(near, (p - q) / np.where(near, q, 1.0), 0.0))
    return np.where(near, close, np.log(p) - np.log(q))


def _law(losses: Array, logs: Array, infinity: float, zero: float) -> Law:
    order = np.argsort(losses, kind="stable")
    distinct = np.unique(losses)
    lattice = float(distinct[1] - distinct[0]) if distinct.size == 2 else None
    return Law(
        losses[order], logs[order], infinity=told_from_dust(infinity), zero=told_from_dust(zero), lattice=lattice
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Half:
    """One order of a pair at knots epsilon >= 0: masses, heights H, and e^epsilon times the Q-mass above."""

    p: Array
    q: Array
    heights: Array
    tails: Array
    infinity: float

    @staticmethod
    def of(losses: Array, p: Array, q: Array, infinity: float, knots: Array) -> _Half:
        """Sums of positive terms from the largest loss down: every height keeps its relative accuracy."""
        place = np.searchsorted(knots, losses)
        own_p, own_q = np.zeros(knots.size), np.zeros(knots.size)
        np.add.at(own_p, place, p)
        np.add.at(own_q, place, q)
        heights, tails = np.full(knots.size, infinity), np.zeros(knots.size)
        for k in range(knots.size - 2, -1, -1):
            gap = knots[k + 1] - knots[k]
            above = tails[k + 1] + own_p[k + 1]
            heights[k] = heights[k + 1] - above * math.expm1(-gap)
            tails[k] = above * math.exp(-gap)
        return _Half(own_p, own_q, heights, tails, infinity)


def worse_of_both_orders(p: Array, q: Array) -> tuple[Array, Array]:
    """The pair whose profile is, at every epsilon, the larger of H(P||Q) and H(Q||P): what REPLACE neighbours see.

    Kinks of the larger profile keep their masses as given. Where the profiles cross there is a new one; its level is
    rounded up and its mass too, which raises the profile below it.

    >>> p, q = worse_of_both_orders(np.array([1.0, 1e-18]), np.array([1.0, 0.0]))
    >>> bool(np.any((p > 0) & (q == 0)) and np.any((q > 0) & (p == 0)))
    True
    """
    both, infinity, zero = (p > 0) & (q > 0), float(np.sum(p[q == 0])), float(np.sum(q[p == 0]))
    u, v = p[both], q[both]
    losses = _losses(u, v)
    ahead, behind = losses > 0.0, losses < 0.0
    knots = np.unique(np.append(np.abs(losses), 0.0))
    first = _Half.of(losses[ahead], u[ahead], v[ahead], infinity, knots)
    second = _Half.of(-losses[behind], v[behind], u[behind], zero, knots)
    up, down = _larger(knots, first, second)
    given_away = max(infinity, zero)
    centre = max(0.0, 1.0 - math.fsum([*up, *down, given_away]))
    return np.array([*up, *down, centre, given_away, 0.0]), np.array([*down, *up, centre, 0.0, given_away])


def _larger(knots: Array, first: _Half, second: _Half) -> tuple[list[float], list[float]]:
    """P- and Q-masses of the kinks of the larger profile, at losses above 0."""
    gap = np.append(first.heights - second.heights, first.infinity - second.infinity)
    size = np.append(np.maximum(first.heights, second.heights), max(first.infinity, second.infinity))
    signs = np.where(np.abs(gap) <= SAME * size, 0.0, np.sign(gap))
    ties = signs == 0.0
    halves = {1.0: first, -1.0: second}
    for k in range(signs.size - 2, -1, -1):
        signs[k] = signs[k] or signs[k + 1]
    active = float(signs[0]) or 1.0
    up: list[float] = []
    down: list[float] = []
    for k in range(1, knots.size):
        here, coming = halves[active], float(signs[k]) or active
        if coming == active:
            up.append(float(here.p[k]))
            down.append(float(here.q[k]))
            continue
        after = halves[coming]
        if ties[k]:
            level, arrives, leaves = knots[k], here.tails[k] + here.p[k], after.tails[k]
        else:
            # They cross between two knots: both are lines there.
            share = gap[k - 1] / (gap[k - 1] - gap[k])
            back = math.log1p(share * math.expm1(knots[k] - knots[k - 1])) * (1.0 + 4.0 * UNIT)
            level = min(knots[k - 1] + back, knots[k])
            fade = math.exp(level - knots[k])
            arrives, leaves = (here.tails[k] + here.p[k]) * fade, (after.tails[k] + after.p[k]) * fade
            up.append(float(after.p[k]))
            down.append(float(after.q[k]))
        mass = float(arrives - leaves + 8.0 * UNIT * arrives)
        up.append(max(0.0, mass))
        down.append(max(0.0, mass * math.exp(-level) * (1.0 - 2.0 * UNIT)))
        active = coming
    return up, down


def law_of_polygon(polygon: LowerTradeoff) -> Law:
    """The pair of a trade-off polygon: a segment is wide as its mass of P and drops by that of Q, both exact."""
    alphas = [Fraction(0), *map(Fraction, polygon.alpha.tolist()), Fraction(1)]
    betas = [Fraction(1), *map(Fraction, polygon.beta.tolist()), Fraction(0)]
    atoms, logs, infinity, zero = [], [], Fraction(0), Fraction(0)
    for k in range(len(alphas) - 1):
        p, q = alphas[k + 1] - alphas[k], betas[k] - betas[k + 1]
        if p > 0 and q > 0:
            near = abs(p - q) < q / 2
            atoms.append(math.log1p(float((p - q) / q)) if near else math.log(float(p)) - math.log(float(q)))
            logs.append(math.log(float(p)))
        else:
            infinity, zero = infinity + max(p, Fraction(0)), zero + max(q, Fraction(0))
    return _law(np.array(atoms), np.array(logs), float(infinity), float(zero))
