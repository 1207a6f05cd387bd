"""Routes of the rigorous read-out that list outcomes or residues, in ball arithmetic (docs/theory/rigorous.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any

from flint import arb, arb_poly, ctx

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.laws import Ball, BallLaw, Point, look, point_work, work

MOST_STATES = 30_000
MOST_LENGTH = 60_000
"""Lattice points of a power that is multiplied out."""

MOST_RESIDUES = 60_000
"""Pieces of the expanded product of a residue sum."""


@dataclass(frozen=True, slots=True)
class States:
    """Atoms of a sum of discrete losses; ``dropped`` bounds the mass that is not listed."""

    points: list[Point]
    dropped: Ball

    def delta(self, epsilon: Ball) -> Ball:
        """Sum of mass (1 - e^{epsilon - loss})_+, plus what is not listed."""
        total = arb(0)
        for loss, mass in self.points:
            gap = epsilon - loss
            if gap >= 0:
                continue
            gain = -gap.expm1()
            total += mass * (gain if gap < 0 else gain.nonnegative_part())
        return total + arb(0).union(self.dropped)


def listed(laws: Sequence[tuple[BallLaw, int]], log_tiny: float, most: int = MOST_STATES) -> States:
    """Every joint outcome of the discrete terms; outcomes with less than e^log_tiny are dropped and counted."""
    states: list[Point] = [(arb(0), arb(1))]
    dropped = arb(0)
    for law, count in laws:
        step = power(law, count, log_tiny, most)
        if len(states) * len(step.points) > 20 * most:
            raise NotComputable("too many joint outcomes to list")
        dropped += step.dropped + count * law.missing
        kept = _merged(((a + loss, w * m) for a, w in states for loss, m in step.points), len(states) == 1)
        states, lost = _pruned(kept, log_tiny)
        dropped += lost
        if len(states) > most:
            raise NotComputable("too many joint outcomes to list")
    return States(states, dropped)


def power(law: BallLaw, count: int, log_tiny: float, most: int) -> States:
    """``count`` independent copies of a discrete law."""
    assert law.atoms is not None
    if law.lattice is not None and len(law.atoms) > 1:
        return _lattice_power(law, count, log_tiny)
    result, dropped = [(arb(0), arb(1))], arb(0)
    if comb(count + len(law.atoms) - 1, count) > 20 * most:
        raise NotComputable("too many joint outcomes to list")
    size = len(law.atoms)
    work(2 * size * min(comb(count + size - 1, size), count * most) * point_work())
    for _ in range(count):
        grown = _merged(((a + loss, w * m) for a, w in result for loss, m in law.atoms), False)
        result, lost = _pruned(grown, log_tiny)
        dropped += lost
        if len(result) > most:
            raise NotComputable("too many joint outcomes to list")
    return States(result, dropped)


def _lattice_power(law: BallLaw, count: int, log_tiny: float) -> States:
    assert law.lattice is not None
    assert law.atoms is not None
    offset, step = law.lattice
    if step.contains(0):
        raise NotComputable("losses so close that working precision does not tell them apart")
    index = [round(float((loss - offset) / step)) for loss, _ in law.atoms]
    low, high = min(index), max(index)
    if count * (high - low) > MOST_LENGTH:
        raise NotComputable("the lattice is too long to multiply out")
    row = [arb(0)] * (high - low + 1)
    for i, (_, mass) in zip(index, law.atoms, strict=True):
        row[i - low] += mass
    work(_power_work(row, count))
    start = (offset + step * low) * count
    raised = (arb_poly(row) ** count).coeffs()
    kept, lost = _pruned([(start + step * k, m) for k, m in enumerate(raised)], log_tiny)
    return States(kept, lost)


def _power_work(row: list[Ball], count: int) -> float:
    """Balls of very unlike sizes are multiplied in blocks, as many as their bits, over the length of the power."""
    sizes = [float(abs(mass).log()) for mass in row if mass > 0]
    spread = 1.5 * count * (max(sizes, default=0.0) - min(sizes, default=0.0)) + ctx.prec
    return 4e-9 * spread * count * len(row) * (1.0 + ctx.prec / 1e3)


def _merged(points: object, distinct: bool) -> list[Point]:
    """Outcomes whose losses agree to 80 bits are joined: the union of the two losses, the sum of the masses."""
    merged: list[Point] = list(points)  # type: ignore[call-overload]
    if distinct:
        return merged
    table: dict[str, Point] = {}
    for loss, mass in merged:
        key = loss.mid().str(24, radius=False)
        if key in table:
            table[key] = (table[key][0].union(loss), table[key][1] + mass)
        else:
            table[key] = (loss, mass)
    return list(table.values())


def _pruned(states: list[Point], log_tiny: float) -> tuple[list[Point], Ball]:
    limit = arb(log_tiny).exp()
    kept = [s for s in states if not s[1] < limit]
    lost = sum((m for _, m in states if m < limit), arb(0))
    return kept, arb(lost.abs_upper())


# ----------------------------------------------------------------------------------------------------------- residues


def residue_profile(laws: Sequence[tuple[BallLaw, int]], discrete: States) -> Callable[[Ball], Ball]:
    """delta of Laplace and bounded-range terms composed with listed outcomes.

    The product of their transforms is a sum of weight e^{z shift} (z+1)^a z^b / (z + 1/2)^m; a piece with shift
    above epsilon contributes its residues, any other nothing.
    """
    order = sum(count for _, count in laws)
    working = int(ctx.prec) + 8 * order
    pieces: list[tuple[Ball, Ball, int, int]] = [(arb(0), arb(1), 0, 0)]
    with ctx.workprec(working):
        for law, n in laws:
            assert law.rational is not None
            (s1, w1, a1, b1), (s2, w2, a2, b2) = law.rational
            if len(pieces) * (n + 1) * len(discrete.points) > MOST_RESIDUES:
                raise NotComputable("too many residues")
            raised = [
                (
                    s1 * (n - j) + s2 * j,
                    comb(n, j) * w1 ** (n - j) * w2**j,
                    a1 * (n - j) + a2 * j,
                    b1 * (n - j) + b2 * j,
                )
                for j in range(n + 1)
            ]
            pieces = [(s + t, w * v, a + c, b + d) for s, w, a, b in pieces for t, v, c, d in raised]

    def profile(epsilon: Ball) -> Ball:
        total = arb(0)
        with ctx.workprec(working):
            for loss, mass in discrete.points:
                for shift, weight, a, b in pieces:
                    gap = shift + loss - epsilon
                    if gap <= 0:
                        continue
                    look()
                    value = mass * weight * _inverse(gap, a, b, order)
                    total += value if gap > 0 else value.union(arb(0))
        return total + arb(0).union(discrete.dropped)

    return profile


def _inverse(y: Ball, a: int, b: int, m: int) -> Ball:
    """Sum of the residues of e^{zy} (z+1)^{a-1} z^{b-1} / (z+1/2)^m, y >= 0; continuous, and zero at y = 0."""
    total = arb(0)
    if b == 0:
        total += arb(2) ** m
    if a == 0:
        total += (-y).exp() * arb(-1) ** (b - 1) * arb(-2) ** m
    return total + (-y / 2).exp() * _residue(a - 1, b - 1, m, int(ctx.prec))(y)


@lru_cache(maxsize=4000)
def _residue(a: int, b: int, m: int, _bits: int) -> Any:
    """The residue of e^{sy} (s + 1/2)^a (s - 1/2)^b / s^m at s = 0, as a polynomial in y."""
    result = arb_poly([1])
    for exponent, root in ((a, arb(1) / 2), (b, -arb(1) / 2)):
        if exponent >= 0:
            factor = arb_poly([root, 1]) ** exponent
        else:
            factor = arb_poly([(-1) ** k / root ** (k + 1) for k in range(m)])
        result = arb_poly((result * factor).coeffs()[:m])
    row = result.coeffs() + [arb(0)] * m
    return arb_poly([row[m - 1 - k] * inverse for k, inverse in enumerate(_inverse_factorials(m, _bits))])


@lru_cache(maxsize=8)
def _inverse_factorials(count: int, _bits: int) -> list[Ball]:
    """1/k! for k below count: a product is several times as quick as a quotient."""
    found = [arb(1)]
    for k in range(1, count):
        found.append(found[-1] / k)
    return found


def log_tiny(log_delta: float, count: int) -> float:
    """Masses below this, ``count`` times over, do not matter at delta."""
    return log_delta - 45.0 - math.log(max(count, 1)) - 12.0
