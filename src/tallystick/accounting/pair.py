"""Dominating pairs, and the maps of pairs that amplification and symmetry need.

A pair (P, Q) is held as the law of L = log dP/dQ under P, with P's mass where Q = 0 at +infinity
and Q's mass where P = 0 remembered in ``zero``. Every map below is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tallystick.numerics.law import Array, Law, Segment

DUST = 1e-300
"""Mass up to this is what a leaf left out numerically, not a feature of the mechanism."""


@dataclass(frozen=True, slots=True, eq=False)
class DominatingPair:
    """Laws of the privacy loss that bound a mechanism from above and (as evidence of tightness) from below.

    ``upper`` dominates the mechanism. ``lower`` is dominated by what the expression stands for; it is
    the same object where the pair is known exactly.
    """

    upper: Law
    lower: Law

    @staticmethod
    def exact(law: Law) -> DominatingPair:
        """A pair that is known exactly."""
        return DominatingPair(law, law)

    def swapped(self) -> DominatingPair:
        """(Q, P) instead of (P, Q)."""
        return self._mapped(swapped)

    def mixed(self, rate: float) -> DominatingPair:
        """((1 - rate) Q + rate P, Q): Poisson sampling of a REMOVE pair."""
        return self._mapped(lambda law: mixed(law, rate))

    def _mapped(self, change: Callable[[Law], Law]) -> DominatingPair:
        if self.lower is self.upper:
            return DominatingPair.exact(change(self.upper))
        return DominatingPair(change(self.upper), change(self.lower))


def swapped(law: Law) -> Law:
    """The law of log dQ/dP under Q.

    >>> from tallystick.numerics.law import Law
    >>> import numpy as np
    >>> float(swapped(Law(np.array([1.0]), np.array([0.0]))).atoms[0])
    -1.0
    """
    return Law(
        atoms=-law.atoms[::-1],
        log_masses=(law.log_masses - law.atoms)[::-1],
        segments=tuple(_swapped_segment(s) for s in law.segments),
        infinity=law.zero,
        zero=law.infinity,
        lattice=law.lattice,
    )


def _swapped_segment(base: Segment) -> Segment:
    return Segment(
        low=-base.high,
        high=-base.low,
        log_density=lambda x: base.log_density(-x) - base.loss(-x),
        loss=lambda x: -base.loss(-x),
        inverse=lambda value: -base.inverse(-value),
        panel=base.panel,
        line=None if base.line is None else replace(base.line, sign=-base.line.sign),
        linear=None if base.linear is None else (base.linear[0], 1.0 - base.linear[1]),
    )


def mixed_loss(loss: Array, rate: float) -> Array:
    """log(1 - rate + rate e^loss), accurate for small and for large losses."""
    small = np.log1p(rate * np.expm1(np.minimum(loss, 1.0)))
    large = np.logaddexp(math.log1p(-rate), math.log(rate) + loss)
    return np.where(loss < 1.0, small, large)


def unmixed_loss(loss: Array, rate: float) -> Array:
    """The inverse of ``mixed_loss``; minus infinity at and below log(1 - rate)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.expm1(np.minimum(loss, 1.0)) / rate
        small = np.where(ratio > -1.0, np.log1p(np.maximum(ratio, -1.0)), -np.inf)
        large = loss + np.log1p(-(1.0 - rate) * np.exp(-np.maximum(loss, 1.0))) - math.log(rate)
    return np.where(loss < 1.0, small, large)


def mixed(law: Law, rate: float) -> Law:
    """The law of the pair ((1 - rate) Q + rate P, Q), for 0 < rate < 1."""
    losses = mixed_loss(law.atoms, rate)
    masses = law.log_masses - law.atoms + losses
    # Numerical dust stays dust: as an atom it would be blown up by large tilts. At infinity it errs safely.
    dust = law.zero if law.zero <= DUST else 0.0
    if law.zero > DUST:
        losses = np.concatenate([[math.log1p(-rate)], losses])
        masses = np.concatenate([[math.log1p(-rate) + math.log(law.zero)], masses])
    lattice = float(losses[1] - losses[0]) if losses.size == 2 else None
    return Law(
        atoms=losses,
        log_masses=masses,
        segments=tuple(_mixed_segment(s, rate) for s in law.segments),
        infinity=rate * law.infinity + dust,
        zero=dust,
        lattice=lattice,
    )


def _mixed_segment(base: Segment, rate: float) -> Segment:
    def loss(x: Array) -> Array:
        return mixed_loss(base.loss(x), rate)

    def log_density(x: Array) -> Array:
        inner = base.loss(x)
        return base.log_density(x) - inner + mixed_loss(inner, rate)

    def inverse(value: Array) -> Array:
        return base.inverse(unmixed_loss(value, rate))

    line = base.line
    # Only an unsampled Gaussian line becomes a sampled one; anything else is integrated by panels.
    mixed_line = replace(line, rate=rate) if line is not None and line.rate == 1.0 and line.sign == 1 else None
    return Segment(base.low, base.high, log_density, loss, inverse, base.panel, mixed_line)


def joined_at_zero(positive: Law, negative: Law) -> Law:
    """The law whose profile is ``positive``'s above loss 0 and ``negative``'s below.

    For two pairs whose profiles cross only at epsilon = 0 this is the pointwise worst of both
    (the per-step hull of subset sampling, errata 4). The kink at 0 is an atom with the mass left over.
    """
    up, down = positive.atoms > 0.0, negative.atoms < 0.0
    above = [s.restricted(0.0, math.inf) for s in positive.segments]
    below = [s.restricted(-math.inf, 0.0) for s in negative.segments]
    segments = tuple(s for s in below + above if s is not None)
    atoms = np.concatenate([negative.atoms[down], positive.atoms[up]])
    logs = np.concatenate([negative.log_masses[down], positive.log_masses[up]])
    rest = Law(atoms, logs, segments)
    used = rest.tail(-math.inf) + positive.infinity
    kink = max(0.0, 1.0 - used)
    if kink > 0.0:
        place = int(np.count_nonzero(down))
        atoms = np.insert(atoms, place, 0.0)
        logs = np.insert(logs, place, math.log(kink))
    return Law(atoms, logs, segments, infinity=positive.infinity, zero=positive.infinity)
