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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]

UNIT = 2.0**-52
"""Spacing of doubles at one; every rounding bound is a multiple of it."""

REACH = 37.6
"""P(N(0,1) > 37.6) < 1e-305."""

NEGLIGIBLE = 1e-305
"""Mass that a leaf may leave outside its smooth pieces; ``upper`` bounds add it at infinity."""


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
    linear: tuple[float, float] | None = None
    """(intercept, slope) if loss(x) = x and log_density(x) = intercept + slope x: integrals are closed."""

    def restricted(self, low: float, high: float) -> Segment | None:
        """The part with ``low <= loss <= high``, or None where it is empty."""
        ends = self.inverse(np.array([low, high]))
        left, right = max(self.low, float(ends[0])), min(self.high, float(ends[1]))
        if not left < right:
            return None
        return Segment(left, right, self.log_density, self.loss, self.inverse, self.panel, None, self.linear)

    def edges(self) -> Array:
        """Panel boundaries that cover the segment."""
        count = max(1, math.ceil((self.high - self.low) / self.panel))
        return np.linspace(self.low, self.high, count + 1)

    def tilted_edges(self, order: float, last: float = 0.0) -> Array:
        """Panel boundaries for the density times e^{z loss}, Re z = order, |Im z| <= last.

        In no panel the exponential changes by more than 2.5 e-folds or radians: panels are short where the loss is
        steep. Ends that the tilt makes lighter than e^{-60} of the peak are left out.
        """
        low, high, count = self.low, self.high, max(400, 4 * self.edges().size)
        for _ in range(4):
            mesh = np.linspace(low, high, count)
            loss = self.loss(mesh)
            exponent = order * loss + self.log_density(mesh)
            heavy = np.flatnonzero(exponent > np.max(exponent) - 60.0)
            first, end = max(0, int(heavy[0]) - 1), min(count, int(heavy[-1]) + 2)
            low, high = float(mesh[first]), float(mesh[end - 1])
            if end - first > count // 4:
                break
        mesh, loss = mesh[first:end], loss[first:end]
        # Both the turns and the lengths, counted in panels, grow along the mesh; equal steps of their sum obey both.
        counted = (loss - loss[0]) * (math.hypot(order, last) / 2.5) + (mesh - mesh[0]) / self.panel
        panels = max(1, math.ceil(float(counted[-1])))
        edges: Array = np.interp(np.linspace(0.0, float(counted[-1]), panels + 1), counted, mesh)
        return edges


MAX_FOLLOWED = 5000.0
"""Standard deviations to which an unbounded line is followed; beyond, the answer is infinity (no bound)."""

MOST_COARSE = 30_000
"""Largest number of coarse nodes of one line."""

EMPTY: Array = np.zeros(0)


def _coarse_edges(segment: Segment) -> Array:
    if segment.panel >= 0.2:
        return segment.edges()
    count = max(1, math.ceil((segment.high - segment.low) / 0.5))
    return np.linspace(segment.low, segment.high, min(count, segment.edges().size - 1) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """A positive measure on the line: atoms, smooth segments, and ``infinity`` at plus infinity.

    ``zero`` is the mass that the *other* measure of a pair has where this one has none; it is not
    part of this law and is kept only so that reflection can bring it back.
    ``lattice`` is a step that divides the distance between any two atoms exactly, or None.

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

    def nodes(self) -> tuple[Array, Array]:
        """The finite part as weighted points (values, log-masses) for smooth integrands."""
        values, logs = [self.atoms], [self.log_masses]
        for segment in self.segments:
            x, log_weight = panel_nodes(segment.edges(), 8)
            values.append(segment.loss(x))
            logs.append(segment.log_density(x) + log_weight)
        return np.concatenate(values), np.concatenate(logs)

    def coarse_nodes(self, order: float = 0.0) -> tuple[Array, Array]:
        """Fewer weighted points, good for moments to about 1e-9 under tilts up to ``order``."""
        values, logs = [self.atoms], [self.log_masses]
        for segment in self.segments:
            if segment.line is not None:
                high = max(segment.high, segment.line.mu * (order + 1.0) + 12.0)
                # Steps too strong for this many points are not read by contour: it compares its own norm with this.
                spacing = max(min(0.25, 1.0 / segment.line.mu), (high - segment.low) / MOST_COARSE)
                x = np.arange(segment.low, high, spacing)
                log_weight = np.full(x.size, math.log(spacing))
            else:
                x, log_weight = panel_nodes(segment.tilted_edges(order) if order > 0.0 else _coarse_edges(segment), 8)
            values.append(segment.loss(x))
            logs.append(segment.log_density(x) + log_weight)
        return np.concatenate(values), np.concatenate(logs)

    @property
    def followed(self) -> float:
        """The largest tilt that the coarse nodes serve: further, lines leave them and panels are too long."""
        limits = [math.inf]
        for segment in self.segments:
            if segment.line is None:
                limits.append(4.0 / float(np.max(np.diff(segment.loss(_coarse_edges(segment))))))
            elif segment.line.sign > 0:
                limits.append((segment.high - 12.0) / segment.line.mu - 1.0)
        return min(limits)

    def too_far(self, order: float) -> bool:
        """True if nobody follows a Gaussian line so far."""
        return any(s.line is not None and s.line.reach(order) > MAX_FOLLOWED for s in self.segments)

    def log_mgf(self, order: Array) -> Array:
        """log of the integral of exp(order * value) over the finite part, for real orders.

        Lines are unbounded: they are followed as far as the tilted integrand reaches.
        """
        return np.array([self._log_mgf_at(float(t)) for t in np.atleast_1d(order)])

    def _log_mgf_at(self, order: float) -> float:
        if self.too_far(order):
            return math.inf
        parts = [order * self.atoms + self.log_masses]
        for segment in self.segments:
            if segment.linear is not None:
                parts.append(np.array([_log_exponential_integral(segment, order)]))
                continue
            if segment.line is None:
                x, log_weight = panel_nodes(segment.tilted_edges(order), 8)
            else:
                far = segment.line.reach(order)
                spacing = min(0.2, 0.5 / segment.line.mu)
                x = np.arange(-far, far + segment.line.mu, spacing)
                log_weight = np.full(x.size, math.log(spacing))
            parts.append(order * segment.loss(x) + segment.log_density(x) + log_weight)
        return log_sum(np.concatenate(parts))

    def excess(self, threshold: Array) -> Array:
        """E[(1 - exp(threshold - X))_+], infinity included; relative error below 1e-13."""
        return np.array([self._excess_at(float(t)) for t in np.atleast_1d(threshold)])

    def _excess_at(self, threshold: float) -> float:
        above = self.atoms > threshold
        total = float(np.sum(np.exp(self.log_masses[above]) * -np.expm1(threshold - self.atoms[above])))
        for segment in self.segments:
            part = segment.restricted(threshold, math.inf)
            if part is not None:
                x, log_weight = panel_nodes(part.edges(), 8)
                gain = -np.expm1(np.minimum(threshold - part.loss(x), 0.0))
                total += float(np.sum(np.exp(part.log_density(x) + log_weight) * gain))
        return total + self.infinity

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
        if gone <= 0.0 or not (kept.any() or segments):
            return self, 0.0
        return Law(self.atoms[kept], self.log_masses[kept], segments, self.infinity, self.zero, self.lattice), gone

    def tail(self, threshold: float) -> float:
        """Mass strictly above ``threshold``, infinity included."""
        total = float(np.sum(np.exp(self.log_masses[self.atoms > threshold])))
        for segment in self.segments:
            part = segment.restricted(threshold, math.inf)
            if part is not None:
                x, log_weight = panel_nodes(part.edges(), 8)
                total += float(np.sum(np.exp(part.log_density(x) + log_weight)))
        return total + self.infinity


def _log_exponential_integral(segment: Segment, order: float) -> float:
    """log of the integral of e^{intercept + (slope + order) x} over the segment."""
    assert segment.linear is not None
    rate, width = segment.linear[1] + order, segment.high - segment.low
    reach = abs(rate) * width
    # Factor out the larger end; (1 - e^{-reach}) / reach tends to one.
    top = segment.high if rate > 0.0 else segment.low
    share = -math.expm1(-reach) / reach if reach > 0.0 else 1.0
    return segment.linear[0] + rate * top + math.log(width * share)


@lru_cache(maxsize=8)
def _gauss_legendre(count: int) -> tuple[Array, Array]:
    points, weights = np.polynomial.legendre.leggauss(count)
    return points, weights


def panel_nodes(edges: Array, count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and log-weights on consecutive panels, flattened in order."""
    points, weights = _gauss_legendre(count)
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * points
    with np.errstate(divide="ignore"):
        log_weight = np.log(half * weights)
    return x.ravel(), log_weight.ravel()


def log_sum(logs: Array) -> float:
    """log of the sum of exponentials, without overflow; minus infinity for an empty sum."""
    if not logs.size:
        return -math.inf
    top = float(np.max(logs))
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.sum(np.exp(logs - top))))
