"""Dominating pairs, and the maps of pairs that amplification and symmetry need.

A pair (P, Q) is held as the law of L = log dP/dQ under P, with P's mass where Q = 0 at +infinity
and Q's mass where P = 0 remembered in ``zero``. Every map below is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tallystick.numerics.law import DUST, VALUE_ULPS, Array, Law, Segment, above_dust

NEAR = 300.0
"""Losses up to this are mixed by log1p and expm1: in logs log(rate) would lose the digits of a small result."""

TINY = 1e-290
"""Losses below this have few digits, and none of them matters."""

LEAF_ULPS = 4.0
"""What the atoms of a leaf are off by; VALUE_ULPS, which engines allow for, leaves room for maps of them."""

BEND: Array = np.linspace(-40.0, 40.0, 33)
"""Losses around the middle of a mixture between which it is resolved."""


@dataclass(frozen=True, slots=True, eq=False)
class DominatingPair:
    """Laws of the privacy loss that bound a mechanism from above and (as evidence of tightness) from below.

    ``upper`` dominates the mechanism. ``lower`` is dominated by what the expression stands for; it is
    the same object where the pair is known exactly.
    """

    upper: Law
    lower: Law
    close: bool = False
    """True if they differ by the rounding of a parameter alone."""

    @staticmethod
    def exact(law: Law) -> DominatingPair:
        """A pair that is known exactly."""
        return DominatingPair(law, law)

    def swapped(self) -> DominatingPair:
        """(Q, P) instead of (P, Q)."""
        return self._mapped(swapped)

    def mixed(self, rate: float) -> DominatingPair:
        """((1 - rate) Q + rate P, Q): Poisson sampling of a REMOVE pair."""
        under = _unraised(self.lower)
        pair = self if under is self.lower else replace(self, lower=under)
        return pair._mapped(lambda law: mixed(law, rate))

    def _mapped(self, change: Callable[[Law], Law]) -> DominatingPair:
        if self.lower is self.upper:
            return DominatingPair.exact(change(self.upper))
        return DominatingPair(change(self.upper), change(self.lower), self.close)


def _unraised(law: Law) -> Law:
    """From below, without a mass of Q alone that was raised above dust: sampling would make an atom of it."""
    return replace(law, zero=0.0) if DUST < law.zero <= 2.0 * DUST else law


def swapped(law: Law) -> Law:
    """The law of log dQ/dP under Q.

    >>> from tallystick.numerics.law import Law
    >>> import numpy as np
    >>> float(swapped(Law(np.array([1.0]), np.array([0.0]))).atoms[0])
    -1.0
    """
    return Law(
        atoms=-law.atoms[::-1],
        log_masses=law.others[::-1],
        segments=tuple(_swapped_segment(s) for s in law.segments),
        infinity=law.zero,
        zero=law.infinity,
        lattice=law.lattice,
        log_others=law.log_masses[::-1],
        orders=law.orders,
        value_ulps=law.value_ulps,
    )


def _swapped_segment(base: Segment) -> Segment:
    return Segment(
        low=-base.high,
        high=-base.low,
        log_density=lambda x: base.other(-x),
        loss=lambda x: -base.loss(-x),
        inverse=lambda value: -base.inverse(-value),
        panel=base.panel,
        line=None if base.line is None else replace(base.line, sign=-base.line.sign),
        exponential=base.exponential,
        log_other=lambda x: base.log_density(-x),
        bulk=tuple((-end, -start) for start, end in base.bulk[::-1]),
        knees=tuple(-x for x in base.knees[::-1]),
        slopes=(base.slopes[1], base.slopes[0]),
    )


def mixed_loss(loss: Array, rate: float) -> Array:
    """log(1 - rate + rate e^loss), accurate for small and for large losses, and for rates near one."""
    near = (loss > (-1.0 if rate > 0.5 else -math.inf)) & (loss < NEAR)
    mixed = np.empty(loss.shape)
    mixed[near] = np.log1p(rate * np.expm1(loss[near]))
    mixed[~near] = np.logaddexp(math.log1p(-rate), math.log(rate) + loss[~near])
    return mixed


def _magnified(ulps: float, rate: float, losses: Array, mixtures: Array) -> float:
    """The relative error of mixed losses, given that of the losses, all in units in the last place.

    With w = q e^x / (1 - q + q e^x) a mixture m moves by w per change of x: by w x / m of its size where x moves by one
    of its own. Small rates make that large, as m is then about q (e^x - 1) and forgets how large x was.
    """
    some = (losses != 0.0) & (np.abs(mixtures) > TINY)
    x, m = losses[some], mixtures[some]
    factors = np.exp(math.log(rate) + x - m) * np.abs(x / m)
    own = LEAF_ULPS if ulps == VALUE_ULPS else ulps
    return max(ulps, own * float(np.max(factors, initial=1.0)) + LEAF_ULPS)


def unmixed_loss(loss: Array, rate: float) -> Array:
    """The inverse of ``mixed_loss``; minus infinity at and below log(1 - rate)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.expm1(np.clip(loss, -1.0, 1.0)) / rate
        near = np.where(ratio > -1.0, np.log1p(np.maximum(ratio, -1.0)), -np.inf)
        # e^loss - (1 - rate) = e^loss (1 - e^{log(1 - rate) - loss})
        share = -np.expm1(np.minimum(math.log1p(-rate) - loss, 0.0))
        far = loss + np.log(share) - math.log(rate)
    return np.where(np.abs(loss) < 1.0, near, far)


def mixed(law: Law, rate: float) -> Law:
    """The law of the pair ((1 - rate) Q + rate P, Q), for 0 < rate < 1."""
    losses, others = mixed_loss(law.atoms, rate), law.others
    value_ulps = _magnified(law.value_ulps, rate, law.atoms, losses)
    # From both masses, not from one and the loss: where the measures hardly overlap their logs are huge and cancel.
    masses = np.logaddexp(math.log(rate) + law.log_masses, math.log1p(-rate) + others)
    # Numerical dust stays dust: as an atom it would be blown up by large tilts. At infinity it errs safely.
    dust = law.zero if law.zero <= DUST else 0.0
    if law.zero > DUST:
        losses = np.concatenate([[math.log1p(-rate)], losses])
        masses = np.concatenate([[math.log1p(-rate) + math.log(law.zero)], masses])
        others = np.concatenate([[math.log(law.zero)], others])
    lattice = float(losses[1] - losses[0]) if losses.size == 2 else None
    mass = product_above(rate, law.infinity)
    return Law(
        atoms=losses,
        log_masses=masses,
        segments=tuple(_mixed_segment(part, rate) for s in law.segments for part in _ends(s)),
        infinity=(above_dust(mass) if law.infinity > DUST else mass) + dust,
        zero=dust,
        lattice=lattice,
        log_others=others,
        orders=law.orders,
        value_ulps=value_ulps,
    )


def product_above(first: float, second: float) -> float:
    """The product, rounded up: mass at infinity must not be understated even by one unit."""
    product = first * second
    exact = Fraction(product) >= Fraction(first) * Fraction(second)
    return product if exact else math.nextafter(product, math.inf)


def _ends(base: Segment) -> tuple[Segment, ...]:
    """A long exponential piece as two, each in the distance from its end: beside a huge x that keeps its digits.

    A mixture has no closed form, and the exponential of a coordinate near 1e6 errs by 1e-10.
    """
    if not (base.exponential and base.bulk):
        return (base,)
    half = 0.5 * (base.high - base.low)
    return _from_end(base, base.low, 0.0, half), _from_end(base, base.high, -half, 0.0)


def _from_end(base: Segment, end: float, low: float, high: float) -> Segment:
    place = np.array([end])
    density, other = float(base.log_density(place)[0]), float(base.other(place)[0])
    return Segment(
        low=low,
        high=high,
        log_density=lambda x: density + 0.5 * x,
        loss=lambda x: end + x,
        inverse=lambda value: np.clip(value - end, low, high),
        panel=base.panel,
        log_other=lambda x: other - 0.5 * x,
        bulk=tuple((start - end, stop - end) for start, stop in base.bulk if start <= end <= stop),
    )


def _mixed_segment(base: Segment, rate: float) -> Segment:
    log_in, log_out = math.log(rate), math.log1p(-rate)

    def loss(x: Array) -> Array:
        return mixed_loss(base.loss(x), rate)

    def log_density(x: Array) -> Array:
        return np.logaddexp(log_in + base.log_density(x), log_out + base.other(x))

    def inverse(value: Array) -> Array:
        return base.inverse(unmixed_loss(value, rate))

    line = base.line
    # Only an unsampled Gaussian line becomes a sampled one; anything else is integrated by panels.
    mixed_line = replace(line, rate=rate) if line is not None and line.rate == 1.0 and line.sign == 1 else None
    return Segment(
        low=base.low,
        high=base.high,
        log_density=log_density,
        loss=loss,
        inverse=inverse,
        panel=base.panel,
        line=mixed_line,
        log_other=base.other,
        bulk=base.bulk,
        knees=tuple(sorted({*base.knees, *knees(base, log_out - log_in)})),
        slopes=base.slopes,
    )


def knees(base: Segment, middle: float) -> tuple[float, ...]:
    """Where the loss goes from ``middle`` - 40 to ``middle`` + 40, in steps of 2.5, if that is less than a few panels.

    There a mixture goes over from one measure to the other.
    """
    places = base.inverse(middle + BEND)
    gaps = places[1:] - places[:-1]
    if not np.any((gaps > 0.0) & (gaps < base.panel)):
        return ()
    return tuple(places[(places > base.low) & (places < base.high)].tolist())


def told(parts: Sequence[tuple[Law, float]]) -> Law:
    """The law of a release that is one of several, known which; the numbers are the logarithms of their shares."""
    atoms, masses, others = (
        np.concatenate(given)
        for given in (
            [law.atoms for law, _ in parts],
            [law.log_masses + log for law, log in parts],
            [law.others + log for law, log in parts],
        )
    )
    order = np.argsort(atoms, kind="stable")

    def mean(given: Sequence[float]) -> float:
        some = math.fsum(math.exp(log) * mass for mass, (_, log) in zip(given, parts, strict=True)) * (1.0 + 1e-15)
        return min(1.0, above_dust(some) if max(given) > DUST else some)

    return Law(
        atoms[order],
        masses[order],
        tuple(_scaled(segment, log) for law, log in parts for segment in law.segments),
        infinity=mean([law.infinity for law, _ in parts]),
        zero=mean([law.zero for law, _ in parts]),
        log_others=others[order],
        orders=min(law.orders for law, _ in parts),
        rounded=any(law.rounded for law, _ in parts),
        value_ulps=max(law.value_ulps for law, _ in parts),
    )


def _scaled(base: Segment, log: float) -> Segment:
    return replace(
        base, log_density=lambda x: base.log_density(x) + log, log_other=lambda x: base.other(x) + log, line=None
    )


def joined_at_zero(positive: Law, negative: Law) -> Law:
    """The law whose profile is ``positive``'s above loss 0 and ``negative``'s below.

    For two pairs whose profiles cross only at epsilon = 0 this is the pointwise worst of both
    (the per-step hull of subset sampling, erratum 4). The kink at 0 is an atom with the mass left over.
    """
    up, down = positive.atoms > 0.0, negative.atoms < 0.0
    above = [s.restricted(0.0, math.inf) for s in positive.segments]
    below = [s.restricted(-math.inf, 0.0) for s in negative.segments]
    segments = tuple(s for s in below + above if s is not None)
    atoms = np.concatenate([negative.atoms[down], positive.atoms[up]])
    logs = np.concatenate([negative.log_masses[down], positive.log_masses[up]])
    others = np.concatenate([negative.others[down], positive.others[up]])
    used = Law(atoms, logs, segments).tail(-math.inf) + positive.infinity
    kink = max(0.0, 1.0 - used)
    if kink > 0.0:
        split = int(np.count_nonzero(down))
        atoms, logs, others = (
            np.insert(a, split, v) for a, v in ((atoms, 0.0), (logs, math.log(kink)), (others, math.log(kink)))
        )
    infinity = positive.infinity
    return Law(
        atoms,
        logs,
        segments,
        infinity=infinity,
        zero=infinity,
        log_others=others,
        orders=min(positive.orders, negative.orders),
        value_ulps=max(positive.value_ulps, negative.value_ulps),
    )
