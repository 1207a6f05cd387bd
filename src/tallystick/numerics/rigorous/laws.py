"""Laws of the privacy loss in ball arithmetic (python-flint): every number is an interval that contains the truth.

Parameters are taken exactly as the doubles they are. A law offers the views that exist of it; what each view is worth
is proved in docs/theory/rigorous.md. Imported only where ``rigorous=True`` asks for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from flint import acb, arb, ctx, fmpq

from tallystick.errors import NotComputable

Ball = Any  # flint.arb; the package has no stubs
Complex = Any  # flint.acb
Point = tuple[Ball, Ball]
"""(loss, mass)"""


@dataclass(frozen=True, slots=True)
class Points:
    """Masses with |E[e^{zL}] - sum mass e^{z loss}| <= error for Re z = tilt and |Im z| <= frequency."""

    points: list[Point]
    error: Ball


def _zero() -> Ball:
    return arb(0)


@dataclass(frozen=True, eq=False)
class BallLaw:
    """The finite part of L = log dP/dQ under P in one direction, and P's mass where Q vanishes."""

    infinite: Ball = field(default_factory=_zero)
    total: Ball = field(default_factory=lambda: arb(1))
    """P's mass with that at infinity: above one where something was added to it."""
    highest: Ball | None = None
    """No finite loss is larger; None where losses are unbounded, or no such number is known."""
    reached: Ball | None = None
    """Losses certainly come as near to this as one likes, or are larger; None where no such number is known.

    It is at most ``highest``, and often less: a bound on losses is no loss.
    """
    atoms: list[Point] | None = None
    """All atoms of a purely discrete law but a mass of at most ``missing``."""
    missing: Ball = field(default_factory=_zero)
    lattice: tuple[Ball, Ball] | None = None
    """(offset, step) when every loss is offset + k * step."""
    closed: Callable[[Complex], Complex] | None = None
    """E[e^{zL}] in closed form."""
    points: Callable[[float, float], Points] | None = None
    """(tilt, frequency) -> quadrature or tilted atoms."""
    profile: Callable[[Ball], Ball] | None = None
    """delta of one step at any real epsilon."""
    far: Callable[[float, Ball], Ball] | None = None
    """(tilt, T) -> a bound, non-increasing in T, on |M(tilt + it)| / M(tilt) for all t >= T."""
    variance: Ball | None = None
    """mu squared, for a Gaussian."""
    rational: tuple[tuple[Ball, Ball, int, int], tuple[Ball, Ball, int, int]] | None = None
    """M(z) = sum of weight e^{z shift} (z+1)^a z^b / (z + 1/2), as (shift, weight, a, b)."""
    sketch: Callable[[float], tuple[Any, Any]] | None = None
    """tilt -> (losses, log masses) in doubles, to choose contours only."""
    above_only: bool = False
    """True if the upper ends of ``profile`` bound one that is not known."""
    log_moment: Callable[[Ball], Ball] | None = None
    """theta -> a bound on log E[e^{theta L}] over the finite part, of a law of which only its moments are known."""
    orders: tuple[float, tuple[float, ...]] = (math.inf, ())
    """The largest theta of those, and some that are known best."""

    _sums: dict[float, Ball] = field(default_factory=dict)

    def mgf(self, tilt: float) -> Ball:
        """E[e^{tilt L}] over the finite part; a law lives at one working precision."""
        if self.closed is not None:
            return self.closed(acb(tilt)).real
        assert self.points is not None
        if tilt not in self._sums:
            nodes = self.points(tilt, 0.0)
            work(0.3 * len(nodes.points) * point_work())
            total = sum((mass * (loss * tilt).exp() for loss, mass in nodes.points), arb(0))
            self._sums[tilt] = total + arb(0, nodes.error.upper())
        return self._sums[tilt]

    def rough(self, tilt: float) -> float:
        """log E[e^{tilt L}] in doubles, to choose contours only."""
        if self.sketch is None:
            return float(self.mgf(tilt).log())
        losses, logs = self.sketch(tilt)
        sizes = tilt * losses + logs
        top = float(sizes.max(initial=-math.inf))
        if top == -math.inf:
            return top  # no mass that doubles can tell
        return top + math.log(float(np.exp(sizes - top).sum()))


def bits() -> int:
    """The working precision."""
    return int(ctx.prec)


# A read-out answers or refuses in a few seconds. Work is counted before it is done, so that an answer hardly depends on
# the machine; the clock is for what was counted too low, and for slow machines.

MOST_WORK = 6.0
"""Work of one read-out from above, all its directions together (from below half as much): about half-seconds."""
PATIENCE = (3.0, 4.0)
"""Processor seconds after which a read-out from above is given up, and the one from below that follows it."""

_left: ContextVar[list[float] | None] = ContextVar("rigorous work", default=None)
_until: ContextVar[float] = ContextVar("rigorous deadline", default=math.inf)


@contextmanager
def bounded_work(share: float, until: float = math.inf) -> Iterator[None]:
    """What is read inside takes no more than this share of MOST_WORK, and ends by that time, or is not computable."""
    tokens = _left.set([share * MOST_WORK]), _until.set(until)
    try:
        yield
    finally:
        _left.reset(tokens[0])
        _until.reset(tokens[1])


def work(amount: float) -> None:
    """Count work before it is done."""
    left = _left.get()
    if left is not None:
        if amount > left[0] or time.thread_time() > _until.get():  # nothing is spent: a smaller piece may still fit
            raise NotComputable("a rigorous value of this composition takes too long")
        left[0] -= amount


def look() -> None:
    """Look at the clock, between pieces of work that are counted together: no such piece takes half a second."""
    work(0.0)


def point_work() -> float:
    """Of one quadrature point, a handful of functions of balls, at the working precision."""
    return 5e-6 + 4e-8 * bits()


# ----------------------------------------------------------------------------------------------------------- discrete


@dataclass(frozen=True, slots=True)
class Base:
    """A REMOVE pair of discrete laws: (loss, P-mass, Q-mass), and the masses where the other side vanishes."""

    points: list[tuple[Ball, Ball, Ball]]
    only_p: Ball
    only_q: Ball
    lattice: tuple[Ball, Ball] | None = None
    missing: Ball = field(default_factory=_zero)
    """P- and Q-mass left out (an infinite lattice)."""


def two_points(epsilon: Ball, delta: Ball, choices: int = 2) -> Base:
    """Randomized response among ``choices`` on the part 1 - delta."""
    if epsilon == 0:
        return Base([(arb(0), 1 - delta, 1 - delta)], delta, delta)
    total = epsilon.exp() + (choices - 1)
    points = [
        (epsilon, (1 - delta) * epsilon.exp() / total, (1 - delta) / total),
        (-epsilon, (1 - delta) / total, (1 - delta) * epsilon.exp() / total),
    ]
    if choices > 2:
        rest = (1 - delta) * (choices - 2) / total
        points.append((arb(0), rest, rest))
    return Base(points, delta, delta, (-epsilon, epsilon if choices > 2 else 2 * epsilon))


def listed_pair(outcomes: Sequence[tuple[Fraction, Fraction]]) -> Base:
    """Two probability vectors, exactly as given."""
    masses = [(arb(fmpq(*a.as_integer_ratio())), arb(fmpq(*b.as_integer_ratio()))) for a, b in outcomes]
    finite = [((a / b).log(), a, b) for a, b in masses if a > 0 and b > 0]
    only_p = sum((a for a, b in masses if b == 0), arb(0))
    only_q = sum((b for a, b in masses if a == 0), arb(0))
    lattice = (finite[0][0], finite[1][0] - finite[0][0]) if len(finite) == 2 else None
    # Two equal losses are not a lattice: its step would be zero.
    return Base(finite, only_p, only_q, None if lattice is None or lattice[1].contains(0) else lattice)


MOST_POINTS = 2**16
"""Lattice points whose masses are written out."""


def _check_few(points: int) -> None:
    if points > MOST_POINTS:
        raise NotComputable(f"no rigorous value of noise on {points:,} lattice points; at most {MOST_POINTS:,}")


def discrete_laplace_base(scale: Ball, shift: int) -> Base:
    """Two-sided geometric noise against its shift; everything outside the shift is two atoms."""
    _check_few(shift)
    alpha = (-1 / scale).exp()
    points = []
    for x in range(shift + 1):
        p = (1 - alpha) / (1 + alpha) * alpha ** (shift - x)
        p = 1 / (1 + alpha) if x == shift else alpha**shift / (1 + alpha) if x == 0 else p
        loss = arb(2 * x - shift) / scale
        points.append((loss, p, p * (-loss).exp()))
    return Base(points, arb(0), arb(0), (-arb(shift) / scale, 2 / scale))


def discrete_gaussian_base(sigma: Ball, shift: int, log_mass: float) -> Base:
    """The lattice cut where P and Q both have less than e^log_mass left."""
    reach = math.ceil(float(sigma) * math.sqrt(-2.0 * log_mass) * 1.01) + 2
    _check_few(2 * reach + shift)
    rate = -1 / (2 * sigma**2)
    half = [(rate * (k * k)).exp() for k in range(reach + shift + 2)]
    # Past k the terms fall at least by the ratio at k.
    dropped = half[reach + 1] / (1 - half[reach + 1] / half[reach])
    norm = half[0] + 2 * sum(half[1 : reach + 1], arb(0)) + 2 * arb(0, dropped.upper()) * 1
    step = arb(shift) / sigma**2
    points = []
    for x in range(-reach, reach + shift + 1):
        loss = step * x - step * shift / 2
        points.append((loss, half[abs(x - shift)] / norm, half[abs(x)] / norm))
    return Base(points, arb(0), arb(0), (-step * shift / 2, step), 2 * dropped / norm)


def discrete_law(base: Base, rate: Ball | None, removing: bool) -> BallLaw:
    """The law of a discrete pair, Poisson sampled where ``rate`` is given."""
    if rate is None:
        atoms = [(loss, p) if removing else (-loss, q) for loss, p, q in base.points]
        infinite = base.only_p if removing else base.only_q
        lattice = base.lattice if removing or base.lattice is None else (-base.lattice[0], base.lattice[1])
    else:
        atoms = []
        for loss, p, q in base.points:
            mixed = (1 + rate * loss.expm1()).log()
            atoms.append((mixed, (1 - rate) * q + rate * p) if removing else (-mixed, q))
        if not base.only_q.is_zero():
            edge = (1 - rate).log()
            atoms.append((edge, (1 - rate) * base.only_q) if removing else (-edge, base.only_q))
        infinite = rate * base.only_p if removing else arb(0)
        lattice = (atoms[0][0], atoms[1][0] - atoms[0][0]) if len(atoms) == 2 else None
        if lattice is not None and lattice[1].contains(0):  # two equal losses: its step would be zero
            lattice = None
    losses = np.array([float(loss) for loss, _ in atoms])
    logs = np.array([float(m.log()) for _, m in atoms])
    unbounded = not base.missing.is_zero()
    certain = [loss for loss, mass in atoms if mass > 0]
    reached = max(certain, key=lambda loss: float(loss.lower()), default=None)

    def points(_tilt: float, _frequency: float) -> Points:
        return Points(atoms, arb(0))

    return BallLaw(
        infinite=infinite,
        highest=None if unbounded else reduce(arb.max, (loss for loss, _ in atoms)) if atoms else arb(0),
        reached=arb.pos_inf() if unbounded and (removing or rate is None) else reached,
        atoms=atoms,
        missing=base.missing,
        lattice=lattice,
        points=points,
        sketch=lambda _tilt: (losses, logs),
    )


MOST_TERMS = 20_000
"""Of a binomial sum."""


def binomial_tail(trials: int, chance: Ball, least: int) -> Ball:
    """P(Binomial(trials, chance) >= least): the terms from the nearer end, and a geometric series for the rest."""
    if least <= 0 or least > trials:
        return arb(1) if least <= 0 else arb(0)
    if chance >= 1:
        return arb(1)
    if least <= trials * float(chance):
        return 1 - _upper_terms(trials, 1 - chance, trials - least + 1)
    return _upper_terms(trials, chance, least)


def _upper_terms(trials: int, chance: Ball, least: int) -> Ball:
    odds = chance / (1 - chance)
    ways = arb(trials + 1).lgamma() - arb(least + 1).lgamma() - arb(trials - least + 1).lgamma()
    term = (ways + least * chance.log() + (trials - least) * (1 - chance).log()).exp()
    total, tiny = term, arb(2) ** (-bits() - 8)
    for k in range(least, min(trials, least + MOST_TERMS)):
        ratio = odds * (trials - k) / (k + 1)  # it falls, so the rest is below a geometric series
        if ratio < 0.9 and term * ratio < tiny * total:
            return total + arb(0).union(term * ratio / (1 - ratio))
        term *= ratio
        total += term
    if least + MOST_TERMS < trials:
        raise NotComputable(f"a cut among so many units takes more than {MOST_TERMS:,} terms")
    return total
