"""How fast a characteristic function must decay: a bound that holds for every larger t.

Let f be the density of a law tilted by theta. Cut f from below into layers, f >= sum of h_j 1[a_j, b_j], around its
mode. A uniform law on an interval of length l has |characteristic function| = |sinc(t l / 2)|, so

    |M(theta + i t)| / M(theta)  <=  rho(t) = rest + sum of w_j env(t (b_j - a_j) / 2),   w_j = h_j (b_j - a_j),

with env a non-increasing majorant of |sin x / x| and rest = 1 - sum of w_j (atoms, second modes). Since env does not
increase, rho(t) bounds the ratio at every t' >= t too: no sampling of |M| is involved.

Gaussian lines have a better bound. For a line with B(x) = 1 - q + q e^{mu x - mu^2/2}, M(z) = int phi(x) B(x)^{1+z} dx
may be integrated along x + ia for any 0 < a < pi/mu. There B has an argument in [0, mu a], and with z = theta + it

    |M(theta + it)|  <=  e^{a^2/2} int phi(x) |B(x + ia)|^{1 + theta} e^{-t arg B(x + ia)} dx,

a real integral that does not increase with t. The reflected line, M(z) = int phi(x) B(x)^{-z} dx, is moved the other
way and has |B|^{-theta} instead. The integral is a trapezoid sum; its error is bounded in closed form (``_error``), so
the result is a bound at every larger t, and it falls faster than any power of t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import Array, Law, Line, Segment, panel_nodes

Index = npt.NDArray[np.int64]

LEVELS = 120
MODES = 4
SAFETY = 0.97
"""Share of the smallest mean density of a cell and its neighbours that is counted on inside the cell."""


@dataclass(frozen=True, slots=True, eq=False)
class Decay:
    """Layers of one tilted law: lengths and weights; ``rest`` has no decay; ``size`` and ``turns`` tell the cost.

    Gaussian lines have a bound of their own, each with its share of the tilted mass.
    """

    lengths: Array
    weights: Array
    rest: float
    lines: tuple[tuple[LineDecay, float], ...]
    size: int
    turns: float
    _kept: dict[float, float] = field(default_factory=dict)

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(law: Law, theta: float) -> Decay:
        lines = [LineDecay.of(s.line, theta) for s in law.segments if s.line is not None]
        meshes = [_mesh(s, theta) for s in law.segments if s.line is None]
        logs = [theta * law.atoms + law.log_masses, *(masses for _, masses in meshes)]
        logs.append(np.array([line.log_norm for line in lines]))
        top = max(float(np.max(part)) for part in logs if part.size)
        total = float(sum(np.sum(np.exp(part - top)) for part in logs))
        shares = tuple((line, math.exp(line.log_norm - top) / total) for line in lines)
        lengths, weights = [np.zeros(0)], [np.zeros(0)]
        for edges, masses in meshes:
            found = _layers(edges, np.exp(masses - top) / total)
            lengths.append(found[0])
            weights.append(found[1])
        all_weights = np.concatenate(weights)
        smooth = float(np.sum(all_weights)) + sum(share for _, share in shares)
        # Without atoms and meshes nothing is left over, and nothing is known to be missing.
        rest = max(0.0, 1.0 - smooth) + 1e-12 if law.atoms.size or meshes else 0.0
        size, turns = law.atoms.size, 0.0
        for segment in law.segments:
            if segment.line is not None:
                size, turns = size + 200, turns + 3.5 * segment.line.mu
            elif not segment.exponential:
                reach = float(np.ptp(segment.loss(np.array([segment.low, segment.high]))))
                size, turns = size + 8 * segment.edges().size, turns + 3.0 * reach
        return Decay(np.concatenate(lengths), all_weights, rest, shares, max(size, 1), turns)

    def log_bound(self, time: float) -> float:
        """log of rho at ``time``, which holds for every larger one; never above zero."""
        found = self._kept.get(time)
        if found is None:
            total = self.rest + sum(share * line.bound(time) for line, share in self.lines)
            if self.lengths.size:
                total += float(np.dot(envelope(0.5 * time * self.lengths), self.weights))
            found = self._kept[time] = min(0.0, math.log(total)) if total > 0.0 else -math.inf
        return found

    def cost(self, last: float) -> float:
        """About how many exponentials one node at the largest t costs."""
        return self.size + last * self.turns


def envelope(x: Array) -> Array:
    """A non-increasing majorant of |sin x / x| on x >= 0.

    >>> import numpy as np
    >>> x = np.linspace(1e-9, 60, 100001)
    >>> bool(np.all(envelope(x) + 1e-15 >= np.abs(np.sin(x) / x))) and bool(np.all(np.diff(envelope(x)) <= 1e-15))
    True
    """
    square = x * x
    near = np.maximum(1.0 - square / 6.0 + square * square / 120.0, 0.5)
    with np.errstate(divide="ignore"):
        return np.where(x <= 2.0, near, 1.0 / x)


def _mesh(segment: Segment, theta: float) -> tuple[Array, Array]:
    """Cell edges in the value and log of the tilted mass of each cell, on a fine mesh of x."""
    low, high = segment.low, segment.high
    edges = np.linspace(low, high, max(800, min(3000, math.ceil((high - low) / 0.02))) + 1)
    x, log_weight = panel_nodes(edges, 4)
    exponent = (theta * segment.loss(x) + segment.log_density(x) + log_weight).reshape(-1, 4)
    top = exponent.max(axis=1)
    masses: Array = top + np.log(np.sum(np.exp(exponent - top[:, None]), axis=1))
    return segment.loss(edges), masses


def _layers(edges: Array, masses: Array) -> tuple[Array, Array]:
    """Lengths and weights of the layers under a density given by cell masses, mode after mode."""
    widths = np.diff(edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(widths > 0, masses / widths, 0.0)
    padded = np.concatenate([density[:1], density, density[-1:]])
    # Where the density is monotone over three cells, the smallest of their means is below it in the middle one;
    # at an extremum the difference is of second order in the mesh, which SAFETY covers.
    free = SAFETY * np.minimum(np.minimum(padded[:-2], padded[1:-1]), padded[2:])
    lengths, weights = [], []
    for _ in range(MODES):
        mode = int(np.argmax(free * widths))
        if free[mode] <= 0.0:
            break
        starts, ends, heights = _around(free, mode)
        length = edges[ends] - edges[starts]
        lengths.append(length)
        weights.append(heights * length)
        used = np.zeros(free.size + 1)
        np.add.at(used, starts, heights)
        np.add.at(used, ends, -heights)
        free = np.maximum(free - np.cumsum(used)[:-1] * (1.0 + 1e-12), 0.0)
    if not lengths:
        return np.zeros(0), np.zeros(0)
    return np.concatenate(lengths), np.concatenate(weights)


def _around(free: Array, mode: int) -> tuple[Index, Index, Array]:
    """Cells [start, end) of the level sets around a mode, and the height of each layer."""
    left = np.minimum.accumulate(free[: mode + 1][::-1])
    right = np.minimum.accumulate(free[mode:])
    levels = free[mode] * np.exp(-np.linspace(0.0, 18.0, LEVELS))
    starts = mode - np.searchsorted(-left, -levels, side="right") + 1
    ends = mode + np.searchsorted(-right, -levels, side="right")
    return starts, ends, levels - np.append(levels[1:], 0.0)


SHIFTS: Array = np.geomspace(0.005, 1.0, 16)
"""Shifts that are tried, relative to the largest: four, or three fifths of the way to where B vanishes."""

MOST = 40_000
"""Largest number of points on one path."""

NARROWEST = 0.9
"""The strip in which the integrand is followed, in units of pi/mu, both shifts together."""


@dataclass(frozen=True, slots=True, eq=False)
class LineDecay:
    """log-moduli and arguments of the integrand along several shifted paths, one after another."""

    log_sizes: Array
    arguments: Array
    starts: npt.NDArray[np.int64]
    errors: Array
    log_norm: float

    @staticmethod
    def of(line: Line, theta: float) -> LineDecay:
        power = 1.0 + theta if line.sign > 0 else -theta
        far = line.reach(theta)
        sizes, arguments, errors = [], [], []
        log_norm = 0.0
        for shift in (0.0, *(min(4.0, 0.6 * math.pi / line.mu) * SHIFTS).tolist()):
            strip = min(max(shift, 0.7), NARROWEST * math.pi / line.mu - shift)
            spacing = 2.0 * math.pi * strip / 48.0
            if shift > 0.0 and 2.0 * far > MOST * spacing:
                continue
            x = spacing * np.arange(math.floor(-far / spacing), math.ceil((far + line.mu) / spacing) + 1)
            modulus, argument = _moved(line, x, shift)
            size = power * modulus - 0.5 * x * x + math.log(spacing) - 0.5 * math.log(2.0 * math.pi)
            top = float(np.max(size))
            kept = size > top - 50.0
            size, argument = size[kept] + 0.5 * shift * shift, argument[kept]
            if shift == 0.0:
                log_norm = top + math.log(float(np.sum(np.exp(size - top))))
                continue
            sizes.append(size - log_norm)
            arguments.append(argument)
            # What is left out is lighter than its number times e^{-50} of the peak.
            light = math.log(x.size) + top + 0.5 * shift * shift - 50.0 - log_norm
            errors.append(math.exp(_error(line, theta, shift, strip, spacing)) + math.exp(min(light, 0.0)))
        if not sizes:
            # Too strong a step to follow: no decay is claimed.
            return LineDecay(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1), log_norm)
        return LineDecay(
            np.concatenate(sizes),
            np.concatenate(arguments),
            np.cumsum([0, *(part.size for part in sizes[:-1])]),
            np.array(errors),
            log_norm,
        )

    def bound(self, time: float) -> float:
        """Upper bound on |M(theta + it)| / M(theta) for every t >= ``time``."""
        # Whatever is above one says nothing, so it need not be followed to where it overflows.
        exponents = np.minimum(self.log_sizes - time * self.arguments, 100.0)
        sums = np.add.reduceat(np.exp(exponents), self.starts)
        return min(1.0, float(np.min(sums * (1.0 + 1e-12) + self.errors)))


def _moved(line: Line, x: Array, shift: float) -> tuple[Array, Array]:
    """log |B(x + i shift)| and its argument, without overflow."""
    log_rest = math.log1p(-line.rate) if line.rate < 1.0 else -math.inf
    log_part = math.log(line.rate) + line.mu * x - 0.5 * line.mu**2
    top = np.maximum(log_part, log_rest)
    part = np.exp(log_part - top)
    real = np.exp(log_rest - top) + part * math.cos(line.mu * shift)
    imaginary = part * math.sin(line.mu * shift)
    return top + np.log(np.hypot(real, imaginary)), np.arctan2(imaginary, real)


def _error(line: Line, theta: float, shift: float, strip: float, spacing: float) -> float:
    """log of the trapezoid error relative to M(theta), at every t.

    On x + iy, |y| <= strip, the integrand is phi(x + iy) (B(x + iy + ia) B(x + iy - ia))^{power / 2} times
    e^{-t (arg B(x + iy + ia) - arg B(x + iy - ia)) / 2}. The argument of B increases with the imaginary part, so the
    last factor is at most one. |B| is at most B on the real line, and at least cos(mu (a + strip) / 2) times that.
    """
    growth = 0.5 * (shift**2 + strip**2)
    if line.sign < 0:
        growth -= theta * math.log(math.cos(0.5 * line.mu * (shift + strip)))
    return math.log(4.0) + min(growth - 2.0 * math.pi * strip / spacing, 0.0)
