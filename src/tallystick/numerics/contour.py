"""Sums of laws by a contour integral: near machine precision, at a cost that does not depend on the counts.

With M_i(z) = E[e^{zX_i}] over the finite part and S(z) = sum of n_i log M_i(z), for any theta > 0

    excess(e) = E[(1 - e^{e - X})_+] = (1 / 2 pi i) int over Re z = theta of exp(S(z) - z e) / (z (z + 1)) dz.

The trapezoid rule with step dt is *exact* up to aliases that are all >= 0 (Poisson summation), so it errs upward.
What is left is bounded term by term and added on the safe side (docs/theory/certification.md names them):

    truncation   the dropped nodes, by ``Decay``'s bound on |M_i| that holds for every larger t
    quadrature   of M_i, by analyticity in a strip (lines) or by the panel rule's stated error
    rounding     a stated multiple of machine epsilon per node, raised to the power n_i like the node itself
    aliases      below and above, subtracted from the lower bound only
    location     rounding of the values themselves
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tallystick.numerics.convolve import ABOVE
from tallystick.numerics.law import (
    UNIT,
    VALUE_ULPS,
    Above,
    Array,
    Below,
    Function,
    Law,
    Line,
    Segment,
    certain,
    log_sum,
    lost_mass,
)
from tallystick.numerics.nufft import SPREAD, direct_transform, nonuniform_transform
from tallystick.numerics.panels import panel_nodes
from tallystick.numerics.saddle import Cumulants, log_peak_weight

# How fast a characteristic function must decay: bounds that hold for every larger t, by layers of the density and, for
# Gaussian lines, along a moved path (both derived in docs/theory/certification.md, "Contour").

Index = npt.NDArray[np.int64]

LEVELS, MODES = 120, 4
SAFETY = 0.97
"""Share of the smallest mean density of a cell and its neighbours that is counted on inside the cell."""
LEAST_CELL = 1e-290


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
    @lru_cache(maxsize=256)
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
            layers = _layers(edges, np.exp(masses - top) / total)
            lengths.append(layers[0])
            weights.append(layers[1])
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
        bound = self._kept.get(time)
        if bound is None:
            total = self.rest + sum(share * line.bound(time) for line, share in self.lines)
            if self.lengths.size:
                total += float(np.dot(envelope(0.5 * time * self.lengths), self.weights))
            bound = self._kept[time] = min(0.0, math.log(total)) if total > 0.0 else -math.inf
        return bound

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
    # Cells that doubles hardly hold have a density that they do not: no decay is claimed there.
    density = np.where(widths > LEAST_CELL, masses / np.maximum(widths, LEAST_CELL), 0.0)
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

LIGHT = 56.0
"""What is by e^{-LIGHT} lighter than the peak is left out of a path, and charged."""


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
        far = line.reach(theta)
        low, high, peak, log_norm = _where_heavy(line, theta, far)
        shifts = min(4.0, 0.6 * math.pi / line.mu) * SHIFTS
        strips = np.minimum(np.maximum(shifts, 0.7), NARROWEST * math.pi / line.mu - shifts)
        followed = 2.0 * far <= MOST * _spacing(strips)
        shifts, strips = shifts[followed], strips[followed]
        # Spacings on a ladder, so that most paths share their points.
        spacings = _spacing(2.0 ** np.floor(np.log2(strips / 0.7)) * 0.7)
        sizes, arguments, lengths, errors = [], [], [], []
        for spacing in np.unique(spacings).tolist():
            shift, strip = shifts[spacings == spacing], strips[spacings == spacing]
            x = spacing * np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1)
            modulus, argument = _moved(line, x, shift[:, None])
            log_weight = 0.5 * shift**2 + (math.log(spacing) - 0.5 * math.log(2.0 * math.pi) - log_norm)
            sizes.append((_power(line, theta) * modulus - 0.5 * x * x + log_weight[:, None]).ravel())
            arguments.append(argument.ravel())
            lengths += [x.size] * shift.size
            # What is left out is lighter than its number times e^{-LIGHT} of the peak.
            light = np.exp(np.minimum(log_weight + (math.log(2.0 * far / spacing) + peak - LIGHT + 0.1), 0.0))
            errors.append(np.exp(_error(line, theta, shift, strip, spacing)) + light)
        if not sizes:
            # Too strong a step to follow: no decay is claimed.
            return LineDecay(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1), log_norm)
        starts = np.cumsum([0, *lengths[:-1]])
        return LineDecay(np.concatenate(sizes), np.concatenate(arguments), starts, np.concatenate(errors), log_norm)

    def bound(self, time: float) -> float:
        """Upper bound on |M(theta + it)| / M(theta) for every t >= ``time``."""
        # Whatever is above one says nothing, so it need not be followed to where it overflows.
        exponents = np.minimum(self.log_sizes - time * self.arguments, 100.0)
        sums = np.add.reduceat(np.exp(exponents), self.starts)
        return min(1.0, float(np.min(sums * (1.0 + 1e-12) + self.errors)))


def _power(line: Line, theta: float) -> float:
    return 1.0 + theta if line.sign > 0 else -theta


def _spacing(strip: Array) -> Array:
    """The step of a trapezoid rule that leaves e^{-48} of a function bounded in the strip."""
    return 2.0 * math.pi * strip / 48.0


def _log_parts(line: Line, x: Array) -> tuple[float, Array]:
    """Logs of the two terms of B(x)."""
    log_rest = math.log1p(-line.rate) if line.rate < 1.0 else -math.inf
    return log_rest, math.log(line.rate) + line.mu * x - 0.5 * line.mu**2


def _where_heavy(line: Line, theta: float, far: float) -> tuple[float, float, float, float]:
    """Where any of the paths matters, the peak of the integrand on the real line, and the log of its integral.

    At the same x a path is at most as heavy as the real line, or by cos(mu a / 2)^{-theta} heavier if reflected. On the
    real line log B^power - x^2/2 is concave for negative powers and nowhere bends down by more than x^2/2 for positive
    ones, so between points that are light nothing is heavier than by a thousandth.
    """
    spacing = 2.0 * math.pi * min(0.7, NARROWEST * math.pi / line.mu) / 48.0
    first, end = math.floor(-far / spacing), math.ceil((far + line.mu) / spacing)
    x: Array = spacing * np.arange(first, end + 1, dtype=np.float64)
    log_size = _power(line, theta) * np.logaddexp(*_log_parts(line, x)) - 0.5 * x * x
    peak = float(np.max(log_size))
    gain = 0.0 if line.sign > 0 else -theta * math.log(math.cos(0.5 * min(4.0 * line.mu, 0.6 * math.pi)))
    heavy = np.flatnonzero(log_size > peak - LIGHT - gain)
    log_norm = log_sum(log_size) + math.log(spacing) - 0.5 * math.log(2.0 * math.pi)
    return float(x[heavy[0]]) - spacing, float(x[heavy[-1]]) + spacing, peak, log_norm


def _moved(line: Line, x: Array, shift: Array) -> tuple[Array, Array]:
    """log |B(x + i shift)| and its argument, without overflow."""
    log_rest, log_part = _log_parts(line, x)
    top = np.maximum(log_part, log_rest)
    part = np.exp(log_part - top)
    real = np.exp(log_rest - top) + part * np.cos(line.mu * shift)
    imaginary = part * np.sin(line.mu * shift)
    return top + np.log(np.hypot(real, imaginary)), np.arctan2(imaginary, real)


def _error(line: Line, theta: float, shift: Array, strip: Array, spacing: float) -> Array:
    """log of the trapezoid error relative to M(theta), at every t.

    On x + iy, |y| <= strip, the integrand is phi(x + iy) (B(x + iy + ia) B(x + iy - ia))^{power / 2} times
    e^{-t (arg B(x + iy + ia) - arg B(x + iy - ia)) / 2}. The argument of B increases with the imaginary part, so the
    last factor is at most one. |B| is at most B on the real line, and at least cos(mu (a + strip) / 2) times that.
    """
    growth = 0.5 * (shift**2 + strip**2)
    if line.sign < 0:
        growth = growth - theta * np.log(np.cos(0.5 * line.mu * (shift + strip)))
    return math.log(4.0) + np.minimum(growth - 2.0 * math.pi * strip / spacing, 0.0)


Complex = npt.NDArray[np.complex128]

NODE_ULPS = 48.0
"""Rounding of one node of one M_i relative to M_i(theta): pairwise summation, exponentials, weights."""

PANEL_ERROR = 1e-14
"""Relative quadrature error of eight-point panels in which the exponential changes by at most 2.5."""

LADDER: Array = np.unique(np.rint(np.geomspace(8.0, 4e5, 140)))
"""Numbers of nodes that are tried, smallest first."""

MAX_WORK = 20_000_000
"""Largest number of elementary steps that the transforms of one read-out may cost; beyond, the grid is cheaper."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The integrand at theta + i k dt without its e^{-z e}: everything a read-out needs near one place.

    ``integrand`` is folded into rows (padded with zeros); ``moments`` are the sums of its moduli and of k times them.
    """

    theta: float
    spacing: float
    log_scale: float
    count: int
    integrand: Complex
    moments: tuple[float, float]
    error: float
    tail: float
    scale_error: float
    below: float
    above: tuple[Array, Array]
    location: float
    lost: float
    infinity: float

    @property
    def blur(self) -> float:
        """No Gaussian was added (``numerics.smoothing`` has the nodes with one)."""
        return 0.0

    def upper(self, threshold: float) -> Above:
        """Upper bound of the excess: aliases err upward, every other error is added."""
        value, scale, slack = self._sum(threshold - self.location, 1.0)
        total = value + slack + self.error + self.tail
        most = total * scale + self.infinity * (1.0 + 8.0 * UNIT) + self.lost + 1e-320
        return Above(min(1.0, most) if total > 0.0 else 1.0)  # a bound of a positive quantity is positive

    def lower(self, threshold: float) -> Below:
        """Lower bound of the excess: every error and both aliases are subtracted."""
        shifted = threshold + self.location
        value, scale, slack = self._sum(shifted, -1.0)
        other, level = self.above
        width = 2.0 * math.pi / self.spacing
        # In logs until the end: where the tilted mean is far above the threshold both factors overflow.
        gap = (other - self.theta) * width
        high = math.exp(min(700.0, float(np.min(level - other * shifted - gap - np.log(-np.expm1(-gap))))))
        finite = (value - slack - self.error - self.tail) * scale
        return Below(max(0.0, finite - self.below - high) + certain(self.infinity) * (1.0 - 8.0 * UNIT))

    def _sum(self, threshold: float, side: float) -> tuple[float, float, float]:
        """The trapezoid sum, its scale rounded to this side, and the rounding of the phases at this threshold."""
        turn = -1j * (self.spacing * threshold)
        rows, columns = self.integrand.shape
        # Node k = i * columns + j turns by both factors: few exponentials, then one product with a matrix.
        inner = self.integrand @ np.exp(turn * np.arange(columns))
        outer = np.exp(turn * columns * np.arange(rows))
        total = float(np.dot(inner, outer).real) - 0.5 * float(self.integrand[0, 0].real)
        turned = self.moments[1] * self.spacing * abs(threshold) + (rows + columns) * self.moments[0]
        exponent = self.log_scale - self.theta * threshold
        rounding = 8.0 * UNIT * (abs(self.log_scale) + self.theta * abs(threshold) + 4.0)
        scale = math.exp(min(700.0, exponent + side * (2.0 * self.scale_error + rounding)))
        return total * self.spacing / math.pi, scale, 2.0 * UNIT * turned * self.spacing / math.pi


@dataclass(frozen=True, slots=True, eq=False)
class ContourSum:
    """A sum of ``count`` copies of each law and one Gaussian of variance mu^2, mean mu^2/2."""

    terms: tuple[tuple[Law, int], ...]
    mu: float
    cumulants: Cumulants
    lost: float = 0.0
    """Bound on mass that the laws leave out: only upper bounds count it, at infinity."""

    @staticmethod
    def of(terms: Sequence[tuple[Law, int]], mu: float, cumulants: Cumulants, lost: float = 0.0) -> ContourSum:
        return ContourSum(tuple(terms), mu, cumulants, lost)

    def blurred(self, blur: float) -> ContourSum:
        """Return the sum with one more Gaussian of mu = blur."""
        mu = math.hypot(self.mu, blur)
        return replace(self, mu=mu, cumulants=replace(self.cumulants, mu=mu))

    def nodes(self, theta: float, log_target: float, tolerance: float) -> Nodes | None:
        """Nodes for thresholds near the saddle of ``theta``, or None where the integrand decays too slowly.

        ``log_target`` is about the log of the excess to be read; ``tolerance`` its wanted relative error.
        """
        spacing, above = self._spacing(theta, log_target, tolerance)
        decays = [Decay.of(law, theta) for law, _ in self.terms]
        level, mean, _ = self.cumulants.derivatives(theta)
        # exp(level - theta e) is the size of the integrand; the answer is log_target.
        drop = math.log(tolerance) + log_target - (level - theta * _threshold(theta, mean)) - math.log(10.0)
        count = self._cut(decays, spacing, drop)
        return None if count is None else self._assembled(theta, spacing, count + 1, decays, above)

    def like(self, nodes: Nodes, log_target: float, tolerance: float) -> Nodes | None:
        """Nodes at the same places as those of another sum of the same laws, so that transforms are shared."""
        decays = [Decay.of(law, nodes.theta) for law, _ in self.terms]
        above = self._spacing(nodes.theta, log_target, tolerance)[1]
        return self._assembled(nodes.theta, nodes.spacing, nodes.count, decays, above)

    def _spacing(self, theta: float, log_target: float, tolerance: float) -> tuple[float, tuple[Array, Array]]:
        """The step in t, and the tilts with their levels that bound the alias from above."""
        _, mean, variance = self.cumulants.derivatives(theta)
        deviation = math.sqrt(max(variance, 1e-300))
        width = max(24.0 * deviation, (math.log(10.0 / tolerance) - min(log_target, 0.0)) / theta)
        other = theta * ABOVE
        levels = np.array([self.cumulants(float(s)) for s in other])
        # So wide that the alias from above is below the target (Chernoff at larger tilts).
        reaches = (levels - other * _threshold(theta, mean) - log_target - math.log(tolerance)) / (other - theta)
        width = max(width, float(np.min(reaches)))
        # Widths and cuts lie on ladders, so that neighbouring read-outs find their transforms computed.
        spacing = 2.0 * math.pi / 2.0 ** (math.ceil(4.0 * math.log2(width)) / 4.0)
        return spacing, (other, levels)

    def _cut(self, decays: Sequence[Decay], spacing: float, drop: float) -> int | None:
        """The first number of nodes on the ladder beyond which all others together are below exp(drop) of the scale."""
        low, high = 0, LADDER.size
        while low < high:
            middle = (low + high) // 2
            # The bound does not increase with t, so the first good rung can be bisected for.
            good = self._log_tail(decays, spacing * float(LADDER[middle])) <= drop
            low, high = (low, middle) if good else (middle + 1, high)
        if low == LADDER.size:
            return None
        count = int(LADDER[low])
        work = sum(_work(decay.cost(spacing * count), count) for decay in decays)
        return count if work <= MAX_WORK else None

    def _log_tail(self, decays: Sequence[Decay], last: float) -> float:
        """log of a bound on all nodes beyond ``last`` together, relative to the scale."""
        bound = -0.5 * (self.mu * last) ** 2 - math.log(math.pi * last)
        for decay, (_, count) in zip(decays, self.terms, strict=True):
            bound += count * decay.log_bound(last)
        return bound

    def _assembled(
        self, theta: float, spacing: float, count_of_nodes: int, decays: Sequence[Decay], above: tuple[Array, Array]
    ) -> Nodes | None:
        times = spacing * np.arange(count_of_nodes, dtype=np.float64)
        z: Complex = theta + 1j * times.astype(np.complex128)
        log_ratio: Complex = 0.5 * self.mu**2 * (z * (z + 1.0) - theta * (theta + 1.0))
        size, blurred = log_ratio.real.copy(), log_ratio.real.copy()
        log_scale = 0.5 * self.mu**2 * theta * (theta + 1.0)
        scale_error, location, total = 1e-14, VALUE_ULPS * self.mu * self.mu, 1
        for law, count in self.terms:
            term = transform(law, theta, spacing, count_of_nodes)
            if term is None:
                return None
            log_scale += count * term.log_norm
            scale_error += count * float(term.errors[0])
            location += count * law.value_ulps * term.typical
            total += count
            # A transform may vanish; what takes its place is far below the error of the node.
            absolute = np.maximum(np.abs(term.ratios), 1e-300)
            modulus = count * np.log(absolute)
            size += modulus
            blurred += count * np.log(absolute + term.errors)
            log_ratio = log_ratio + (modulus + 1j * (count * np.angle(term.ratios)))
        if float(blurred.max()) > 600.0:  # an error that is of no use to anybody, and is still a number
            return None
        factor = 1.0 / (z * (z + 1.0))
        integrand: Complex = np.exp(log_ratio) * factor
        # Error of each node: that of the powers, and the rounding of count * log (phase and modulus).
        spread = np.exp(blurred) - np.exp(size) + UNIT * (16.0 + 8.0 * total) * np.exp(size)
        error = float(np.sum(spread * np.abs(factor))) * spacing / math.pi
        columns = math.ceil(math.sqrt(count_of_nodes))
        folded = np.zeros((-(-count_of_nodes // columns), columns), dtype=np.complex128)
        folded.ravel()[:count_of_nodes] = integrand
        moduli = np.abs(integrand)
        width = 2.0 * math.pi / spacing
        return Nodes(
            theta=theta,
            spacing=spacing,
            log_scale=log_scale,
            count=count_of_nodes,
            integrand=folded,
            moments=(float(np.sum(moduli)), float(np.dot(np.arange(count_of_nodes), moduli))),
            error=error,
            tail=math.exp(self._log_tail(decays, float(times[-1]))),
            scale_error=math.expm1(min(1.0, scale_error)),
            below=1.0 / math.expm1(min(700.0, theta * width)),
            above=(above[0], above[1] + np.array([log_peak_weight(float(s)) for s in above[0]]) + 0.01),
            location=UNIT * location,
            lost=self.lost,
            infinity=lost_mass([(law.infinity, count) for law, count in self.terms]),
        )


def _threshold(theta: float, mean: float) -> float:
    """The threshold whose best tilt is theta."""
    return mean - 1.0 / theta - 1.0 / (1.0 + theta)


@dataclass(frozen=True, slots=True, eq=False)
class Transform:
    """M(theta + it) / M(theta) at many t, log M(theta), the error of each ratio, and E|X| under the tilt."""

    ratios: Complex
    log_norm: float
    errors: Array
    typical: float


@lru_cache(maxsize=256)
def transform(law: Law, theta: float, spacing: float, count: int) -> Transform | None:
    """The tilted characteristic function of one law with its certified error, or None if it costs too much."""
    times: Array = spacing * np.arange(count, dtype=np.float64)
    values, logs, errors = [law.atoms], [theta * law.atoms + law.log_masses], np.zeros(count)
    closed = [s for s in law.segments if s.exponential]
    for segment in law.segments:
        if segment.exponential:
            continue
        if segment.line is not None:
            x, log_weight, line_error = _line_nodes(segment, theta, float(times[-1]))
            errors = errors + line_error(times)
        else:
            edges = segment.tilted_edges(theta, float(times[-1]))
            if edges is None:
                return None
            x, log_weight = panel_nodes(edges, 8)
            errors = errors + PANEL_ERROR
        values.append(segment.loss(x))
        logs.append(theta * values[-1] + segment.log_density(x) + log_weight)
    points, exponents = np.concatenate(values), np.concatenate(logs)
    top = max([_log_end(s) + theta * s.high for s in closed], default=-math.inf)
    top = max(top, float(np.max(exponents))) if exponents.size else top
    weights = np.exp(exponents - top)
    # Nodes too light to matter are dropped; what they weigh is part of the error.
    heavy = weights > 1e-22 * weights.max(initial=0.0)
    dropped = float(np.sum(weights[~heavy]))
    points, weights = points[heavy], weights[heavy]
    if _work(points.size, count) > 4 * MAX_WORK:
        return None
    if points.size * count <= _work(points.size, count):
        total: Complex = direct_transform(points, weights, spacing, count)
    else:
        total, spread_error = nonuniform_transform(points, weights, spacing, count)
        errors = errors + spread_error + 4.0 * UNIT * times * _mean_size(points, weights)
    for segment in closed:
        total += _exponential_piece(segment, theta + 1j * times.astype(np.complex128), top)
    norm = float(total[0].real)
    typical = float(np.dot(weights, np.abs(points))) / norm + max((abs(s.high) for s in closed), default=0.0)
    errors = errors + NODE_ULPS * UNIT + UNIT * times * typical + dropped / norm
    return Transform(total / norm, top + math.log(norm), errors, typical)


def _work(points: float, count: int) -> float:
    """About how many elementary steps a transform costs: directly, or by spreading the points on a grid."""
    return min(points * count, 2.0 * SPREAD * (points + 8.0 * count) + 5e4)


def _mean_size(points: Array, weights: Array) -> float:
    return float(np.dot(weights, np.abs(points)) / np.sum(weights)) if points.size else 0.0


def _exponential_piece(segment: Segment, z: Complex, top: float) -> Complex:
    """Integral of density times e^{z x - top} over the segment, in closed form, from its heavier (upper) end."""
    rate = 0.5 + z
    share = -np.expm1(-rate * (segment.high - segment.low)) / rate
    result: Complex = np.exp(_log_end(segment) - top + z * segment.high) * share
    return result


def _log_end(segment: Segment) -> float:
    """log-density at the upper end."""
    return float(segment.log_density(np.array([segment.high]))[0])


def _line_nodes(segment: Segment, theta: float, last: float) -> tuple[Array, Array, Function]:
    """Trapezoid nodes on a Gaussian line, and the bound of their quadrature error relative to M(theta).

    On the lines Im x = +-a the integrand grows at most by e^{a^2/2 + t mu a} (and by cos(mu a / 2)^{-theta} for
    the reflected line), so the error is at most 2 e^{...} / (e^{2 pi a / dx} - 1).
    """
    line = segment.line
    assert line is not None
    mu, reflected = line.mu, line.sign < 0
    strip = min(4.0, (0.5 if reflected else 0.95) * math.pi / mu)
    growth = 0.5 * strip**2 + last * mu * strip
    growth += -theta * math.log(math.cos(0.5 * mu * strip)) if reflected else 0.0
    spacing = 2.0 * math.pi * strip / (growth + 37.0)
    far = line.reach(theta)
    coarse: Array = np.arange(-far, far + mu, 0.25)
    exponent = theta * segment.loss(coarse) + segment.log_density(coarse)
    inside = coarse[exponent > np.max(exponent) - 60.0]
    first, end = math.floor((inside[0] - 0.25) / spacing), math.ceil((inside[-1] + 0.25) / spacing)
    x: Array = spacing * np.arange(first, end + 1, dtype=np.float64)

    def error(times: Array) -> Array:
        exponent = 0.5 * strip**2 + times * mu * strip - 2.0 * math.pi * strip / spacing
        if reflected:
            exponent = exponent - theta * math.log(math.cos(0.5 * mu * strip))
        return 3.0 * np.exp(exponent) + 1e-22

    return x, np.full(x.size, math.log(spacing)), error
