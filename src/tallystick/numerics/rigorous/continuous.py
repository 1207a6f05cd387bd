"""Continuous laws of the privacy loss in ball arithmetic: Gaussian, Laplace and bounded range, sampled or not.

Quadratures carry a proved error, characteristic functions a proved bound far out (docs/theory/rigorous.md).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from flint import acb, arb

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.laws import Ball, BallLaw, Complex, Point, Points, bits, look, point_work, work

MOST_POINTS = 60_000
"""Quadrature points of one law; past this the answer is "not computable"."""

ORDER = 48
"""Points of one Gauss-Legendre panel."""

RHO = 4
"""Bernstein ellipse of a panel: semi-axes 2.125 and 1.875 half-widths."""


# ----------------------------------------------------------------------------------------------------------- Gaussian


def normal_tail(x: Ball) -> Ball:
    """P(N(0, 1) > x)."""
    look()  # counted where it is asked for
    return (x / arb(2).sqrt()).erfc() / 2


def gaussian_profile(mu: Ball, epsilon: Ball) -> Ball:
    """Balle and Wang (2018)."""
    return normal_tail(epsilon / mu - mu / 2) - epsilon.exp() * normal_tail(epsilon / mu + mu / 2)


def gaussian_law(mu: Ball, rate: Ball | None, removing: bool) -> BallLaw:
    """N(mu, 1) against N(0, 1), Poisson sampled where ``rate`` is given."""
    if rate is None:
        variance = mu**2
        return BallLaw(
            closed=lambda z: ((z * z + z) * variance / 2).exp(),
            profile=lambda e: gaussian_profile(mu, e),
            variance=variance,
            reached=arb.pos_inf() if mu > 0 else arb(0),
        )
    q, size, share = rate, float(mu), float(rate)

    def ratio(x: Ball) -> Ball:
        return 1 + q * (mu * x - mu**2 / 2).expm1()

    def density(x: Ball) -> Ball:
        return (-(x**2) / 2).exp() / (2 * arb.pi()).sqrt()

    def sketch(tilt: float) -> tuple[Any, Any]:
        top = (1 + tilt) * size if removing else 0.0
        x = np.linspace(-12.0 - (0 if removing else min(tilt, 60.0) * size), 12.0 + top, 2000)
        loss = np.logaddexp(math.log1p(-share), math.log(share) + size * x - size * size / 2)
        logs = -x * x / 2 + math.log(x[1] - x[0]) - 0.9189385332046727
        return (loss, logs + loss) if removing else (-loss, logs)

    @lru_cache(maxsize=8)
    def points(tilt: float, frequency: float) -> Points:
        return _line_points(mu, q, removing, tilt, frequency, ratio, density)

    def log_loss_density(x: Ball, tilt: float) -> Ball:
        """log of the tilted density of L at L(x), not normalised: phi(x) B^(1+tilt) / L'(x), or phi(x) B^-tilt / L'."""
        mixed = ratio(x)
        slope = q * mu * (mu * x - mu**2 / 2).exp() / mixed
        power = 1 + tilt if removing else -tilt
        return -(x**2) / 2 - (2 * arb.pi()).sqrt().log() + power * mixed.log() - slope.log()

    @lru_cache(maxsize=64)
    def variation(tilt: float) -> Ball:
        """Four times the largest tilted density of L, over M(tilt): at most two modes, so a bound on its variation."""
        low, high = (-size, (1 + tilt) * size) if removing else (-max(1.0, tilt) * size, 0.0)
        top = greatest(lambda x: log_loss_density(x, tilt), low * (1 + 1e-12), high * (1 + 1e-12))
        return 4 * top.exp() / law.mgf(tilt)

    def plain(epsilon: Ball) -> Ball:
        return gaussian_profile(mu, epsilon)

    law = BallLaw(
        points=points,
        profile=sampled_profile(plain, q, removing),
        far=lambda tilt, cut: variation(tilt) / cut,
        sketch=sketch,
        reached=arb(0) if not mu > 0 else arb.pos_inf() if removing or q >= 1 else -(1 - q).log(),
    )
    return law


def greatest(log_density: Callable[[Ball], Ball], low: float, high: float) -> Ball:
    """An upper bound on max log_density over [low, high], within about a tenth: branch and bound on intervals."""

    def over(a: float, b: float) -> float:
        middle = (a + b) / 2
        height = float(log_density(arb(middle, (b - a) * 0.5000001 + abs(middle) * 1e-15)).upper())
        return math.inf if math.isnan(height) else height

    pieces = 64
    ends = [low + (high - low) * k / pieces for k in range(pieces)] + [high]
    heap = [(-over(a, b), a, b) for a, b in itertools.pairwise(ends)]
    heapq.heapify(heap)
    for _ in range(600):
        top, a, b = heap[0]
        middle = (a + b) / 2
        if -top <= float(log_density(arb(middle)).lower()) + 0.1:
            break
        heapq.heapreplace(heap, (-over(a, middle), a, middle))
        heapq.heappush(heap, (-over(middle, b), middle, b))
    # The doubles were rounded to nearest: give back more than they may have lost.
    return arb(-heap[0][0]) + (abs(arb(heap[0][0])) + 1) * arb(2) ** -50


def _line_points(mu: Ball, q: Ball, removing: bool, tilt: float, frequency: float, ratio: Any, density: Any) -> Points:
    """Trapezoid rule on the real line; the error by analyticity in a strip and Gaussian tails outside the range."""
    size, wanted = float(mu), 0.6931472 * bits()
    strip = min((3.0 if removing else 2.0) / size, 8.0)
    growth = strip**2 / 2 + frequency * size * strip
    if not removing:
        growth -= tilt * math.log(math.cos(size * strip / 2))
    step = arb(6.2831853 * strip / (wanted + growth + 2.0))
    mean = (1 + tilt) * size if removing else 0.0
    # How far the right tail's bound may lie above M(tilt) >= max(1, q^(1+tilt) times it).
    lift = min(mean**2 / 2 - (1 + tilt) * size**2 / 2, -(1 + tilt) * math.log(float(q))) if removing else 0.0
    left = math.sqrt(2 * (wanted + (0.0 if removing else -tilt * math.log1p(-float(q))))) + 1 + size
    right = mean + math.sqrt(2 * (wanted + max(0.0, lift))) + 1 + size
    first, last = math.floor(-left / float(step)), math.ceil(right / float(step))
    if last - first > MOST_POINTS:
        raise NotComputable("a rigorous value of this composition needs too many quadrature points")
    work((last - first) * point_work())
    points = []
    for k in range(first, last + 1):
        x = step * k
        mixed = ratio(x)
        loss, weight = mixed.log(), step * density(x)
        points.append((loss, weight * mixed) if removing else (-loss, weight))
    # Dropped nodes: below, B <= 1 or B >= 1 - q; above, B <= e^(mu x - mu^2/2) or B >= 1 (both for x >= mu / 2).
    a, b = -step * (first - 1), step * (last + 1)
    below = density(a) * (step + 1 / a)
    above = density(b - mean) * (step + 1 / (b - mean))
    if removing:
        m = (1 + arb(tilt)) * mu
        gap = b - m
        above = density(gap) * (step + 1 / gap) * (m**2 / 2 - (1 + arb(tilt)) * mu**2 / 2).exp()
    else:
        below *= (1 - q) ** (-arb(tilt))
    height = arb(strip)
    up = height**2 / 2 + arb(frequency) * mu * height
    if not removing:
        up -= arb(tilt) * (mu * height / 2).cos().log()
    still = height**2 / 2 - (0 if removing else arb(tilt) * (mu * height / 2).cos().log())
    gain = (2 * arb.pi() * height / step).expm1()
    kappa, calm = 2 * up.exp() / gain, 2 * still.exp() / gain
    # M(tilt) <= (sum + dropped) / (1 - calm).
    total = sum((mass * (loss * tilt).exp() for loss, mass in points), arb(0))
    size_bound = (total + below + above) / (1 - calm)
    return Points(points, (below + above + kappa * size_bound).upper())


def sampled_profile(plain: Callable[[Ball], Ball], rate: Ball, removing: bool) -> Callable[[Ball], Ball]:
    """delta of ((1-q) Q + q P, Q) is q delta_plain(log(1 + (e^eps - 1) / q)); ADD by its own map."""

    def remove(epsilon: Ball) -> Ball:
        inner = 1 + epsilon.expm1() / rate
        if inner > 0:
            return rate * plain(inner.log())
        edge = -epsilon.expm1()
        # For inner <= 0 it is 1 - e^eps; a ball around the seam takes the hull: delta >= 1 - e^eps and is 1-Lipschitz.
        return edge if inner <= 0 else edge + arb(0, 2 * inner.abs_upper())

    def add(epsilon: Ball) -> Ball:
        """rest * delta_plain at e^eps q / rest with rest = 1 - (1-q) e^eps: the pair is symmetric when not sampled."""
        rest = rate - (1 - rate) * epsilon.expm1()
        if rest > 0:
            return rest * plain(epsilon + (rate / rest).log())
        return arb(0) if rest <= 0 else arb(0).union(abs(rest))

    return remove if removing else add


# ---------------------------------------------------------------------------------------------- Laplace, bounded range


def interval_law(
    end: Ball, top: Ball, bottom: Ball, scale: Ball, plain: Callable[[Ball], Ball], rate: Ball | None, removing: bool
) -> BallLaw:
    """P-density scale e^{l/2} on [-end, end], atoms ``top`` and ``bottom`` at its ends; symmetric when not sampled."""
    atomic = not top.is_zero()
    if rate is None:

        def closed(z: Complex) -> Complex:
            s = z + arb(1) / 2
            atoms = top * (z * end).exp() + bottom * (-z * end).exp()
            return atoms + 2 * scale * (s * end).sinh() / s

        def far(tilt: float, cut: Ball) -> Ball:
            s = arb(tilt) + arb(1) / 2
            atoms = top * (end * tilt).exp() + bottom * (-end * tilt).exp()
            return (atoms + 2 * scale * (s * end).cosh() / cut) / closed(acb(tilt)).real

        half = scale * (end / 2).exp()
        rational = ((end, arb(1) / 2, 1, 0), (-end, (-end).exp() / 2, 0, 1)) if atomic else None
        if not atomic:
            rational = ((end, half, 0, 0), (-end, -scale * (-end / 2).exp(), 0, 0))
        return BallLaw(highest=end, reached=end, closed=closed, profile=plain, far=far, rational=rational)
    return _sampled_interval(end, top, bottom, scale, plain, rate, removing)


def _sampled_interval(
    end: Ball, top: Ball, bottom: Ball, scale: Ball, plain: Callable[[Ball], Ball], q: Ball, removing: bool
) -> BallLaw:
    def view(loss: Ball, mass: Ball) -> Point:
        mixed = 1 + q * loss.expm1()
        return (mixed.log(), mass * (-loss).exp() * mixed) if removing else (-mixed.log(), mass * (-loss).exp())

    atoms = [view(end, top), view(-end, bottom)] if not top.is_zero() else []

    @lru_cache(maxsize=8)
    def points(tilt: float, frequency: float) -> Points:
        length = 2 * float(end)
        half = min(1.0, 20.0 / (frequency + 1e-9), 12.0 / (1.0 + tilt), length / 2)
        count = math.ceil(length / (2 * half))
        if count * ORDER > MOST_POINTS:
            raise NotComputable("a rigorous value of this composition needs too many quadrature points")
        work(count * ORDER * point_work())
        r = end / count
        found, error = list(atoms), arb(0)
        for k in range(count):
            centre = -end + r * (2 * k + 1)
            found += [view(centre + r * x, w * r * scale * ((centre + r * x) / 2).exp()) for x, w in legendre(bits())]
            error += r * 8 * _panel_bound(centre, r, scale, q, removing, tilt, frequency) / arb(RHO) ** (2 * ORDER - 1)
        return Points(found, (error / (RHO - 1)).upper())

    def far(tilt: float, cut: Ball) -> Ball:
        """Atoms, and twice the density of L at both ends over T: it is monotone or falls, then rises."""
        total = sum((mass * (loss * tilt).exp() for loss, mass in atoms), arb(0))
        for edge in (-end, end):
            mixed, mass = view(edge, scale * (edge / 2).exp())
            slope = q * edge.exp() / (1 + q * edge.expm1())
            total += 2 * mass * (mixed * tilt).exp() / slope / cut
        return total / law.mgf(tilt)

    high = (1 + q * end.expm1()).log() if removing else -(1 + q * (-end).expm1()).log()

    @lru_cache(maxsize=8)
    def rounded(rung: float) -> tuple[Any, Any]:
        found = points(rung, 0.0).points
        return np.array([float(loss) for loss, _ in found]), np.array([float(m.log()) for _, m in found])

    def sketch(tilt: float) -> tuple[Any, Any]:
        return rounded(2.0 ** math.ceil(math.log2(max(tilt, 1.0))))

    law = BallLaw(
        highest=high, reached=high, points=points, profile=sampled_profile(plain, q, removing), far=far, sketch=sketch
    )
    return law


@lru_cache(maxsize=8)
def legendre(_bits: int) -> list[Point]:
    """Gauss-Legendre nodes and weights at the working precision."""
    return [arb.legendre_p_root(ORDER, k, weight=True) for k in range(ORDER)]


def _panel_bound(centre: Ball, r: Ball, scale: Ball, q: Ball, removing: bool, tilt: float, frequency: float) -> Ball:
    """A bound on the integrand over the panel's ellipse: scale e^{-l/2} B^(1+z) or scale e^{-l/2} B^-z."""
    width, height = r * arb(17) / 8, r * arb(15) / 8
    weight = scale * ((width - centre) / 2).exp() * (arb(frequency) * height).exp()
    if removing:
        return weight * (1 + q * (centre + width).expm1()) ** (1 + arb(tilt))
    return weight * ((height / 2).cos() * (1 + q * (centre - width).expm1())) ** (-arb(tilt))


def laplace_law(scale: Ball, rate: Ball | None, removing: bool) -> BallLaw:
    """Laplace noise of the given scale."""
    end = 1 / scale

    def plain(epsilon: Ball) -> Ball:
        if epsilon >= end:
            return arb(0)
        if epsilon <= -end:
            return -epsilon.expm1()
        value = -((epsilon - end) / 2).expm1()
        # A ball across an end: both formulas agree there and are 1-Lipschitz.
        return value if -end < epsilon < end else value + arb(0, 2 * arb(epsilon.rad()) + 2 * arb(end.rad()))

    return interval_law(end, arb(1) / 2, (-end).exp() / 2, (-end / 2).exp() / 4, plain, rate, removing)


def bounded_range_law(epsilon: Ball, rate: Ball | None, removing: bool) -> BallLaw:
    """The hull of all mechanisms of bounded range epsilon (exponential mechanism)."""
    end = epsilon

    def plain(at: Ball) -> Ball:
        if at >= end:
            return arb(0)
        if at <= -end:
            return -at.expm1()
        value = ((end / 2).exp() - (at / 2).exp()) ** 2 / end.expm1()
        return value if -end < at < end else value + arb(0, 2 * arb(at.rad()) + 2 * arb(end.rad()))

    scale = (end / 2).exp() / (2 * end.expm1())
    return interval_law(end, arb(0), arb(0), scale, plain, rate, removing)
