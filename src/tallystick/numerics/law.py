"""The law of a real random variable: atoms, smooth pieces, and mass at plus infinity.

Everything the engines need is here and nothing else: a piece is an interval of a coordinate x
with a log-density and an increasing function ``loss(x)``. The pieces are closed under the maps
that accounting applies to them (reflection, mixing, restriction), so no engine ever asks which
mechanism a law came from.

Accuracy: masses are sums of positive terms, so they carry a small *relative* error. ``UNIT``
times a stated multiple bounds it, and the engines add it on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import NewType

import numpy as np
import numpy.typing as npt

from tallystick.numerics.panels import Panels, excess_between, excesses_of, panel_nodes

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]

Above = NewType("Above", float)
Below = NewType("Below", float)
"""Bounds of one number from either side, as engines return them: floats to the machine, and mypy tells them apart."""

VALUE_ULPS = 16.0
"""Error of one value of a law, in units of UNIT times its size."""

UNIT = 2.0**-52
"""Spacing of doubles at one; every rounding bound is a multiple of it."""

REACH = 37.6
"""P(N(0,1) > 37.6) < 1e-305."""

APART = 2.2 * REACH
"""Two Gaussians of unit variance at this distance have no mass in common that a double can hold."""

NEGLIGIBLE = 1e-305
"""Mass that a leaf may leave outside its smooth pieces; ``upper`` bounds add it at infinity."""

DUST = 1e-304
"""Mass up to this is what a leaf left out numerically (NEGLIGIBLE), not a feature of the mechanism."""


def above_dust(mass: float) -> float:
    """A mass that is a feature of the mechanism, however small: raised above what is taken for dust.

    >>> above_dust(0.0), above_dust(0.25), above_dust(1e-305) > DUST
    (0.0, 0.25, True)
    """
    return max(mass, 2.0 * DUST) if mass > 0.0 else 0.0


def certain(infinity: float) -> float:
    """Mass at infinity that a lower bound may count: dust that a leaf left out numerically may not exist."""
    return infinity if infinity > 1e-290 else 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A segment that is a whole Gaussian line: x ~ N(0, 1) and B(x) = 1 - rate + rate e^{mu x - mu^2/2}.

    ``sign`` 1: density phi(x) B(x), value log B(x). ``sign`` -1: the same reflected, density phi(x), value
    -log B(-x). Its moment-generating function is E[B^{1+z}] or E[B^{-z}]: analytic in a strip, so the
    trapezoid rule converges geometrically with a bound in closed form (numerics.contour).
    """

    mu: float
    rate: float
    sign: int

    def reach(self, order: float) -> float:
        """|x| beyond which the line tilted by ``order`` holds less than 1e-290 of its mass.

        B^{1+z} grows at most like e^{mu |1+z| |x|}, which moves the peak by mu |1+z|. Under a positive order the
        reflected line has B^{-order}, whose pull towards small B ends where order mu q/(1-q) e^{-mu |x|} is below |x|.
        """
        moved = self.mu * (abs(order) + 2.0)
        if self.sign < 0 and order > 0.0 and self.rate < 1.0:
            moved = min(moved, (math.log1p(order * self.mu**2 * self.rate / (1.0 - self.rate)) + 2.0) / self.mu)
        return moved + REACH


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A smooth piece: density ``exp(log_density(x))`` on ``[low, high]``, value ``loss(x)`` increasing in x.

    ``panel`` is a length of x over which eight Gauss-Legendre nodes integrate the density, times any
    exponential of the loss that matters, to a relative error below 1e-14.
    """

    low: float
    high: float
    log_density: Function
    loss: Function
    inverse: Function
    panel: float
    line: Line | None = None
    exponential: bool = False
    """True if loss(x) = x and the density is proportional to e^{x/2}: integrals are closed."""
    log_other: Function | None = None
    """log-density of the pair's other measure, given where log_density - loss would cancel."""
    bulk: tuple[tuple[float, float], ...] = ()
    """Where panels are needed, if not everywhere: elsewhere neither measure has mass that matters."""
    knees: tuple[float, ...] = ()
    """More panel boundaries, where the density or the loss bends within less than a panel."""
    slopes: tuple[float, float] = (0.0, 0.0)
    """How steep the loss is at most beyond either end of a Gaussian tail that was cut there; 0 where nothing was."""

    def other(self, x: Array) -> Array:
        """log-density of the other measure of the pair."""
        return self.log_density(x) - self.loss(x) if self.log_other is None else self.log_other(x)

    def restricted(self, low: float, high: float) -> Segment | None:
        """The part with ``low <= loss <= high``, or None where it is empty."""
        ends = self.inverse(np.array([low, high]))
        left, right = max(self.low, float(ends[0])), min(self.high, float(ends[1]))
        if not left < right:
            return None
        slopes = (self.slopes[0] if low == -math.inf else 0.0, self.slopes[1] if high == math.inf else 0.0)
        return replace(self, low=left, high=right, line=None, slopes=slopes)

    def followed(self, order: float) -> Segment:
        """The segment with its cut tails as far as a tilt by ``order`` moves them."""
        low, high = self.low + min(order, 0.0) * self.slopes[0], self.high + max(order, 0.0) * self.slopes[1]
        return self if (low, high) == (self.low, self.high) else replace(self, low=low, high=high, bulk=())

    @property
    def endless(self) -> bool:
        """True if it is too long for panels."""
        return not self.bulk and self.high - self.low > MOST_PANELS * self.panel

    def edges(self, panel: float | None = None) -> Array:
        """Panel boundaries that cover the segment."""
        panel = self.panel if panel is None else panel
        if not self.bulk and not self.knees:
            return np.linspace(self.low, self.high, max(1, math.ceil((self.high - self.low) / panel)) + 1)
        parts = [np.array([self.low, self.high])]
        for start, end in self.bulk or ((self.low, self.high),):
            left, right = max(start, self.low), min(end, self.high)
            if left < right:
                parts.append(np.linspace(left, right, max(1, math.ceil((right - left) / panel)) + 1))
        knees = np.array(self.knees)
        parts.append(knees[(knees > self.low) & (knees < self.high)])
        return np.unique(np.concatenate(parts))

    def tilted_edges(self, order: float, last: float = 0.0, least: float | None = None) -> Array | None:
        """Panel boundaries for the density times e^{z loss}, Re z = order, |Im z| <= last; None if far too many.

        In no panel that matters the exponential changes by more than 2.5 e-folds or radians: panels are short where
        the loss is steep. What the tilt makes lighter than e^{-60} of the peak gets no panels of its own. With
        ``least`` they serve every real tilt from that one to ``order``: the peak moves from where it is under the one
        to where it is under the other.
        """
        if self.endless:
            return None
        edges = self.edges()
        mesh: Array = np.interp(
            np.linspace(0.0, edges.size - 1.0, max(400, 4 * edges.size)), np.arange(edges.size), edges
        )
        for _ in range(4):
            loss = self.loss(mesh)
            exponent = order * loss + self.log_density(mesh)
            heavy = exponent > np.max(exponent) - 60.0
            if least is not None:
                exponent += (least - order) * loss
                places = np.flatnonzero(heavy | (exponent > np.max(exponent) - 60.0))
                heavy[places[0] : places[-1] + 1] = True
            first, end = max(0, int(np.argmax(heavy)) - 1), min(mesh.size, mesh.size - int(np.argmax(heavy[::-1])) + 1)
            if end - first > mesh.size // 4:
                break
            mesh = np.linspace(float(mesh[first]), float(mesh[end - 1]), mesh.size)
        else:
            first, end, loss = 0, mesh.size, self.loss(mesh)
            heavy = np.ones(mesh.size, dtype=np.bool_)
        mesh, loss, heavy = mesh[first:end], loss[first:end], heavy[first:end]
        if mesh[-1] - mesh[0] < NARROW * float(np.max(np.abs(mesh))):
            return None
        needed = heavy[1:] | heavy[:-1]
        # Turns and lengths, both counted in panels, grow along the mesh; equal steps of their sum obey both.
        steps = np.diff(loss) * (math.hypot(order, last) / 2.5) + np.diff(np.interp(mesh, edges, np.arange(edges.size)))
        counted = np.concatenate([[0.0], np.cumsum(np.where(needed, steps, 0.0))])
        total = float(counted[-1])
        if not total < MOST_PANELS:
            return None
        tilted: Array = np.interp(np.linspace(0.0, total, max(1, math.ceil(total)) + 1), counted, mesh)
        # Panels end where the light parts begin, each of which is one panel.
        borders = mesh[1:-1][needed[1:] != needed[:-1]]
        return np.union1d(tilted, borders) if borders.size else tilted


MOST_PANELS = 30_000.0
"""Largest number of panels of one segment under one tilt; beyond, nothing is claimed."""

NARROW = 1e-9
"""Share of x itself: a tilt that leaves a shorter piece than this has no room for nodes between doubles."""

MAX_FOLLOWED = 5000.0
"""Standard deviations to which an unbounded line is followed; beyond, the answer is infinity (no bound)."""

MOST_COARSE = 30_000
"""Largest number of coarse nodes of one line."""

FEW_SEGMENTS = 6
"""Up to so many segments none is left out of a moment."""

KEPT_FROM = -1e-6
"""Thresholds from here on are read from nodes that are kept: an epsilon, less what losses are rounded by."""

EMPTY: Array = np.zeros(0)


def _line_points(segment: Segment, line: Line, order: float) -> tuple[Array, Array]:
    """Points of a Gaussian line and the logs of their weights, as far as a tilt by ``order`` leads."""
    high = max(segment.high, line.mu * (order + 1.0) + 12.0)
    # Steps too strong for this many points are not read by contour: it compares its own norm with this.
    spacing = max(min(0.25, 1.0 / line.mu), (high - segment.low) / MOST_COARSE)
    x: Array = np.arange(segment.low, high, spacing)
    return x, np.full(x.size, math.log(spacing))


def _coarse_edges(segment: Segment) -> Array:
    if segment.panel >= 0.2:
        return segment.edges()
    return segment.edges(max(segment.panel, 0.5))


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """A positive measure on the line: atoms, smooth segments, and ``infinity`` at plus infinity.

    ``zero`` is the mass that the *other* measure of a pair has where this one has none; it is not
    part of this law and is kept only so that reflection can bring it back.
    ``lattice`` is a step that divides the distance between any two atoms exactly, or None.
    ``log_others`` are the atoms' log-masses under the other measure, given where log_masses - atoms would cancel.
    ``orders``: up to this tilt what a leaf left out of the *atoms* (see NEGLIGIBLE) stays below 1e-15 of what is
    there. Untilted read-outs charge what was left out at infinity; a moment generating function cannot.

    >>> coin = Law(np.array([-1.0, 1.0]), np.log([0.25, 0.75]))
    >>> bool(abs(coin.log_mgf(np.array([0.0]))[0]) < 1e-15)
    True
    """

    atoms: Array = field(default_factory=lambda: EMPTY)
    log_masses: Array = field(default_factory=lambda: EMPTY)
    segments: tuple[Segment, ...] = ()
    infinity: float = 0.0
    zero: float = 0.0
    lattice: float | None = None
    log_others: Array | None = None
    orders: float = math.inf
    rounded: bool = True
    """False if the largest value is exact, or rounded up already."""
    value_ulps: float = VALUE_ULPS
    """Error of an atom's value in units of UNIT times its size: sampling at a small rate magnifies it."""

    @property
    def others(self) -> Array:
        """log-masses of the atoms under the other measure of the pair."""
        return self.log_masses - self.atoms if self.log_others is None else self.log_others

    @property
    def lowest(self) -> float:
        """Smallest finite value in the support."""
        ends = [float(self.atoms.min())] if self.atoms.size else []
        ends += [float(s.loss(np.array([s.low]))[0]) for s in self.segments]
        return min(ends, default=0.0)

    @property
    def highest(self) -> float:
        """Largest finite value in the support."""
        ends = [float(self.atoms.max())] if self.atoms.size else []
        ends += [float(s.loss(np.array([s.high]))[0]) for s in self.segments]
        return max(ends, default=0.0)

    @property
    def highest_above(self) -> float:
        """The largest finite value, rounded up."""
        return self.highest + self.value_ulps * UNIT * abs(self.highest) if self.rounded else self.highest

    def without_segments(self) -> Law:
        """The atoms alone: less mass, so a bound from below."""
        return replace(self, segments=()) if self.segments else self

    def nodes(self) -> tuple[Array, Array]:
        """The finite part as weighted points (values, log-masses) for smooth integrands."""
        values, logs = [self.atoms], [self.log_masses]
        for segment in self.segments:
            x, log_weight = panel_nodes(segment.edges(), 8)
            values.append(segment.loss(x))
            logs.append(segment.log_density(x) + log_weight)
        return np.concatenate(values), np.concatenate(logs)

    def coarse_nodes(self, order: float = 0.0) -> tuple[Array, Array]:
        """Fewer weighted points, good for moments to about 1e-9 under the tilt ``order``, or small ones."""
        values, logs = [self.atoms], [self.log_masses]
        heavy = _heaviest(self.segments, order) if order > 0.0 else self.segments
        for segment in self.segments if any(part.endless for part in heavy) else heavy:
            if segment.line is not None:
                x, log_weight = _line_points(segment, segment.line, order)
            else:
                edges = segment.followed(order).tilted_edges(order) if order > 0.0 else None
                x, log_weight = panel_nodes(_coarse_edges(segment) if edges is None else edges, 8)
            values.append(segment.loss(x))
            logs.append(segment.log_density(x) + log_weight)
        return np.concatenate(values), np.concatenate(logs)

    def nodes_between(self, least: float, most: float) -> tuple[Array, Array] | None:
        """Points as good as ``coarse_nodes`` under every tilt from ``least`` to ``most``; None if far too many."""
        if self.too_far(most) or any(segment.followed(most).endless for segment in self.segments):
            return None
        heavy = {s for order in (least, 0.5 * (least + most), most) for s in _heaviest(self.segments, order)}
        values, logs = [self.atoms], [self.log_masses]
        for segment in (s for s in self.segments if s in heavy):
            if segment.line is not None:
                x, log_weight = _line_points(segment, segment.line, most)
            else:
                edges = segment.followed(most).tilted_edges(most, least=least)
                if edges is None:
                    return None
                x, log_weight = panel_nodes(edges, 8)
            values.append(segment.loss(x))
            logs.append(segment.log_density(x) + log_weight)
        return np.concatenate(values), np.concatenate(logs)

    @property
    def followed(self) -> float:
        """The largest tilt that the coarse nodes serve: further, lines leave them and panels are too long."""
        limits = [math.inf]
        for segment in self.segments:
            if segment.line is None:
                limits.append(4.0 / max(float(np.max(np.diff(segment.loss(_coarse_edges(segment))))), 1e-300))
            elif segment.line.sign > 0:
                limits.append((segment.high - 12.0) / segment.line.mu - 1.0)
        return min(limits)

    def too_far(self, order: float) -> bool:
        """True if a Gaussian line is not followed up to this order."""
        return any(s.line is not None and s.line.reach(order) > MAX_FOLLOWED for s in self.segments)

    def log_mgf(self, order: Array) -> Array:
        """log of the integral of exp(order * value) over the finite part, for real orders; infinite if not followed.

        Lines and cut tails are unbounded: they are followed as far as the tilted integrand reaches. Atoms that a leaf
        left out are not: ``orders`` says how far they do not matter.
        """
        return np.array([self._log_mgf_at(float(t)) for t in np.atleast_1d(order)])

    def _log_mgf_at(self, order: float) -> float:
        if self.too_far(order):
            return math.inf
        parts = [order * self.atoms + self.log_masses]
        for segment in _heaviest(self.segments, order):
            if segment.exponential:
                parts.append(np.array([_log_exponential_integral(segment, order)]))
                continue
            if segment.line is None:
                segment = segment.followed(order)
                edges = segment.tilted_edges(order)
                if edges is None:
                    return math.inf
                x, log_weight = panel_nodes(edges, 8)
            else:
                far = segment.line.reach(order)
                spacing = min(0.2, 0.5 / segment.line.mu)
                x = np.arange(-far, far + segment.line.mu, spacing)
                log_weight = np.full(x.size, math.log(spacing))
            parts.append(order * segment.loss(x) + segment.log_density(x) + log_weight)
        return log_sum(np.concatenate(parts))

    def excess(self, threshold: Array, *, everywhere: bool = False) -> Array:
        """E[(1 - exp(threshold - X))_+], infinity included; relative error below 1e-13.

        Nodes are kept for thresholds from about 0 on, or ``everywhere``.
        """
        places, floor = np.atleast_1d(threshold), -math.inf if everywhere else KEPT_FROM
        total = np.array([self._closed_at(t, t >= floor) for t in places.tolist()])
        if self.segments:
            kept = places >= floor
            total[kept] += excesses_of(_panels(self, floor), places[kept])
        return total + self.infinity

    def _closed_at(self, threshold: float, kept: bool) -> float:
        """The atoms and the exponential pieces, and the other ones too where their nodes are not kept."""
        above = self.atoms > threshold
        total = float(np.sum(np.exp(self.log_masses[above]) * -np.expm1(threshold - self.atoms[above])))
        for segment in self.segments:
            if kept and not segment.exponential:
                continue
            part = segment.restricted(threshold, math.inf)
            if part is not None:
                closed = part.exponential
                total += (
                    _exponential_excess(part, threshold) if closed else excess_between(part, part.edges(), threshold)
                )
        return total

    def trimmed(self, mass: float) -> tuple[Law, float]:
        """The law without its largest values, and a bound on the mass that went, about ``mass`` (infinity stays).

        >>> law, gone = Law(np.array([0.0, 1.0, 9.0]), np.log([0.5, 0.5 - 1e-20, 1e-20])).trimmed(1e-18)
        >>> law.highest, 0.99e-20 < gone < 1.01e-20
        (1.0, True)
        """
        values, logs = self.coarse_nodes()
        order = np.argsort(values)
        tails = np.cumsum(np.exp(logs[order])[::-1])[::-1]
        top = float(values[order][max(0, int(np.searchsorted(-tails, -mass)) - 1)])
        kept = self.atoms <= top
        segments = tuple(part for part in (s.restricted(-math.inf, top) for s in self.segments) if part is not None)
        gone = (self.tail(top) - self.infinity) * (1.0 + 1e-12)
        # A whole piece may lie between two doubles: then a cut takes far more than was meant.
        if not 0.0 < gone <= 100.0 * mass or not (kept.any() or segments):
            return self, 0.0
        others = None if self.log_others is None else self.log_others[kept]
        atoms, logs = self.atoms[kept], self.log_masses[kept]
        return replace(self, atoms=atoms, log_masses=logs, segments=segments, log_others=others), gone

    def tail(self, threshold: float) -> float:
        """Mass strictly above ``threshold``, infinity included."""
        total = float(np.sum(np.exp(self.log_masses[self.atoms > threshold])))
        for segment in self.segments:
            part = segment.restricted(threshold, math.inf)
            if part is not None:
                x, log_weight = panel_nodes(part.edges(), 8)
                total += float(np.sum(np.exp(part.log_density(x) + log_weight)))
        return total + self.infinity


def _heaviest(segments: tuple[Segment, ...], order: float) -> tuple[Segment, ...]:
    """The segments without those that a tilt makes lighter than e^{-50} of another one, where there are many.

    Within a panel the loss is between its values at the ends, and the density no more than e^4 away from those.
    """
    if len(segments) <= FEW_SEGMENTS or any(s.exponential or s.line is not None for s in segments):
        return segments
    followed = [segment.followed(order) for segment in segments]
    endless = [part for part in followed if part.endless]
    if endless:
        return tuple(endless)  # which is never integrated
    most, least = [], []
    for segment in followed:
        edges = segment.edges()
        tilted, logs = order * segment.loss(edges), segment.log_density(edges)
        widths = np.log(np.maximum(np.diff(edges), 1e-300))
        most.append(log_sum(np.maximum(tilted[1:], tilted[:-1]) + np.maximum(logs[1:], logs[:-1]) + widths) + 4.0)
        least.append(log_sum(np.minimum(tilted[1:], tilted[:-1]) + np.minimum(logs[1:], logs[:-1]) + widths) - 4.0)
    return tuple(s for s, top in zip(segments, most, strict=True) if top >= max(least) - 50.0)


def _exponential_excess(part: Segment, threshold: float) -> float:
    """Integral of density (1 - e^{threshold - x}) over an exponential piece, all of it above the threshold.

    From the upper end down, so that nothing is lost beside a huge loss: with width = high - low and gap = low -
    threshold it is the density at the upper end times 2 (1 - e^{-width/2}) (1 - e^{-gap - width/2}).
    """
    half, gap = 0.5 * (part.high - part.low), max(0.0, part.low - threshold)
    scale = math.exp(float(part.log_density(np.array([part.high]))[0]))
    return 2.0 * scale * math.expm1(-half) * math.expm1(-gap - half)


def _log_exponential_integral(segment: Segment, order: float) -> float:
    """log of the integral of density times e^{order x} over the segment."""
    rate, width = 0.5 + order, segment.high - segment.low
    reach = abs(rate) * width
    # Factor out the larger end; (1 - e^{-reach}) / reach tends to one.
    top = segment.high if rate > 0.0 else segment.low
    share = -math.expm1(-reach) / reach if reach > 0.0 else 1.0
    return float(segment.log_density(np.array([top]))[0]) + order * top + math.log(width * share)


@lru_cache(maxsize=32)
def _panels(law: Law, floor: float) -> tuple[Panels, ...]:
    """The smooth pieces of a law that have no closed form, at losses from ``floor`` on."""
    parts = (segment.restricted(floor, math.inf) for segment in law.segments if not segment.exponential)
    return tuple(Panels.of(part) for part in parts if part is not None)


def log_sum(logs: Array) -> float:
    """log of the sum of exponentials, without overflow; minus infinity for an empty sum."""
    if not logs.size:
        return -math.inf
    top = float(np.max(logs))
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.sum(np.exp(logs - top))))


# Mass at infinity of a composition, and whether a delta covers it: decided exactly where doubles cannot tell.

Masses = Sequence[tuple[float | Fraction, int]]
"""What each mechanism loses, and how often it is used."""

EDGE = 1e-12
"""Relative distance within which the rounded mass does not decide."""

MOST_BITS = 40_000
"""Bits of an exact product that are written out."""


FEW_DIGITS = 1e-290
"""Below this the rounding of a double is no longer small beside it."""


def exact_bits(masses: Masses) -> int:
    """How long the denominator of the exact product would be."""
    return sum(count * Fraction(mass).denominator.bit_length() for mass, count in masses)


def lost_mass(masses: Masses) -> float:
    """1 - prod (1 - mass)^count, to a few units in the last place.

    >>> lost_mass([(0.5, 2)])
    0.75
    """
    total = 0.0
    for mass, count in masses:
        rounded = float(mass)
        total += count * math.log1p(-rounded) if rounded < 1.0 else -math.inf
    return -math.expm1(total) if total < 0.0 else 0.0


def lost_above(masses: Masses) -> float:
    """The same, rounded up."""
    return min(1.0, lost_mass(masses) * (1.0 + 2.0**-49))


def covers(delta: float, masses: Masses) -> bool:
    """True if delta is at least the mass at infinity; False too where 30 digits beyond the doubles do not tell.

    >>> covers(0.75, [(0.5, 2)]), covers(math.nextafter(0.75, 0), [(0.5, 2)])
    (True, False)
    """
    rounded = lost_mass(masses)
    if abs(delta - rounded) > EDGE * rounded and rounded > FEW_DIGITS:
        return delta > rounded
    some = [(Fraction(mass), count) for mass, count in masses if mass > 0.0]
    if exact_bits(some) <= MOST_BITS:
        return math.prod(((1 - Fraction(m)) ** n for m, n in some), start=Fraction(1)) >= 1 - Fraction(delta)
    smallest = min(mass for mass, _ in some)
    digits = 50 + smallest.denominator.bit_length() // 3 + math.ceil(math.log10(sum(n for _, n in some) + 1.0))
    with localcontext() as context:
        context.prec = digits
        left = [((1 - m).numerator / Decimal((1 - m).denominator), n) for m, n in some]
        kept = math.prod((share**n for share, n in left), start=Decimal(1))
        return Decimal(delta) - (1 - kept) > Decimal(rounded) * Decimal(10) ** -30
