"""The distribution function of a long sum in which rare releases lose much: small losses, and jumps by their size.

No grid serves both: its step would be wider than what all the small losses make together, or its points too many. Of
each release the losses near its median are summed by their characteristic function (``waves``); the few beyond are
jumps, sorted by size into levels, each of which has a grid of its own. With F_0 the distribution function of the small
losses, S the law of the sum of a level's smooth jumps, p the chance that there is none, and a_j the sums of its atoms,
of chance A_j,

    F_i(x) = sum over j of A_j p F_{i-1}(x - a_j) + G_i(x),   G_i = (S - p at 0) * sum over j of A_j F_{i-1}(. - a_j).

The law of a level's jumps is taken to be wider than a 256th of the smallest, so that G_i is smooth and can be kept in
a table. An estimate, on either side. The number of jumps is taken for a Poisson one, so that levels are independent: of
n releases of which m jump on average that is off by at most (1 - e^-m) m/n (Barbour and Hall 1984).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallystick.accounting.waves import PERIOD, Cumulants, Term, Waves
from tallystick.numerics.law import Array, Law
from tallystick.numerics.panels import panel_nodes

WIDER, FINE = 16.0, 256
"""Each level reaches so many times further than the one before, with so many grid points to its smallest jump."""
SHARE = 3e-2
"""(1 - e^-m) m/n, at most."""
ALIKE = 1e-10
"""Losses that differ by less, in deviations of the sum, are one."""
MOST_LEVELS, MOST_POINTS, MOST_SUMS, MOST_READ = 24, 2**20, 256, 10**7
"""Levels, points of a grid, sums of atoms of all levels together, and readings of what is below for one level."""
RARE, MOST_JUMPS = 1e-13, 100.0
"""Chances that are left out, and jumps of one kind on average."""


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """Heights at places, straight between them, 0 before the first and constant after the last."""

    places: Array
    heights: Array

    def at(self, x: Array) -> Array:
        if self.places.size == 1:  # a step, within rounding of its place
            return np.where(x >= self.places[0] - 1e-12 * abs(self.places[0]), self.heights[0], 0.0)
        inside: Array = np.interp(x, self.places, self.heights, left=0.0)
        return inside

    def area(self, x: Array) -> Array:
        """What is under the curve up to x."""
        steps = 0.5 * (self.heights[1:] + self.heights[:-1]) * np.diff(self.places)
        sums: Array = np.concatenate((np.zeros(1), np.cumsum(steps)))
        beyond: Array = np.maximum(x - self.places[-1], 0.0) * self.heights[-1]
        inside: Array = np.interp(x, self.places, sums, left=0.0)
        return inside + beyond


NOTHING = _Curve(np.zeros(1), np.zeros(1))


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """``sums`` of atoms with their ``chances``, that of no smooth jump included; ``more``: what smooth jumps add."""

    sums: Array
    chances: Array
    more: _Curve


_Reading = Callable[[_Curve, Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Jumps:
    """Small losses, and on them levels of jumps, of what is finite."""

    small: _Curve
    levels: tuple[_Level, ...] = ()
    share: float = 0.0
    """(1 - e^-m) m/n: by how much a number of jumps may be off that is taken for a Poisson one."""

    @staticmethod
    def of(laws: Sequence[tuple[Law, int]], mu: float) -> Jumps | None:
        """None where losses do not part into small ones and few jumps."""
        terms = [_Term.of(law, count) for law, count in laws]
        alike = ALIKE * math.sqrt(Cumulants.of([(t.values, t.masses, t.count) for t in terms], mu).variance)
        tried = ((cut, _small([term.within(cut) for term in terms], mu, alike)) for cut in _cuts(terms, mu, alike))
        cut, small = next(((cut, small) for cut, small in tried if small is not None), (0.0, None))
        if small is None:
            return None
        found, share = Jumps(small), _share(terms, cut)
        middles = [term.middle(cut) for term in terms]
        farthest = max(float(np.max(np.abs(term.values - term.median))) for term in terms)
        for _ in range(MOST_LEVELS):
            if cut >= farthest:
                return replace(found, share=share)
            level = _level(found, terms, middles, cut)
            if level is None:
                return None
            found = Jumps(small, (*found.levels, level))
            cut *= WIDER
        return None

    @property
    def width(self) -> float:
        """About the deviation of the small losses, where they are not all alike."""
        return float(self.small.places[-1] - self.small.places[0]) / (0.9 * PERIOD)

    @property
    def reach(self) -> tuple[float, float]:
        """What lies outside is as good as impossible."""
        low, high = float(self.small.places[0]), float(self.small.places[-1])
        for level in self.levels:
            low, high = low + float(np.min(level.sums)), high + float(np.max(level.sums))
            if level.more.heights[-1] > 0.0:
                low, high = min(low, float(level.more.places[0])), max(high, float(level.more.places[-1]))
        return low, high

    def below(self, x: float) -> float:
        """P(L <= x)."""
        if x >= self.reach[1]:
            return 1.0
        return min(1.0, max(0.0, float(self._read(np.array([x]), _Curve.at)[0])))

    def area(self, x: Array) -> Array:
        """Its integral up to x."""
        return self._read(x, _Curve.area)

    def _read(self, x: Array, read: _Reading) -> Array:
        if not self.levels:
            return read(self.small, x)
        level, before = self.levels[-1], Jumps(self.small, self.levels[:-1])
        found = read(level.more, x)
        for place, chance in zip(level.sums.tolist(), level.chances.tolist(), strict=True):
            found = found + chance * before._read(x - place, read)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """One law and how often; ``values`` and ``masses`` are its nodes, in order, ``median`` is where most of it is."""

    law: Law
    count: int
    values: Array
    masses: Array
    mass: float
    median: float

    @staticmethod
    def of(law: Law, count: int) -> _Term:
        values, logs = law.nodes()
        order = np.argsort(values)
        values, masses = values[order], np.exp(logs[order])
        mass = float(np.sum(masses))
        median = float(values[int(np.searchsorted(np.cumsum(masses), 0.5 * mass))])
        return _Term(law, count, values, masses / mass, mass, median)

    def within(self, cut: float) -> Term:
        """What is nearer to the median than this, as if no release jumped: a jump takes the place of one of these."""
        near = np.abs(self.values - self.median) <= cut
        return self.values[near], self.masses[near] / float(np.sum(self.masses[near])), self.count

    def jumping(self, cut: float) -> float:
        """The share of releases that jump further than this."""
        return float(np.sum(self.masses[np.abs(self.values - self.median) > cut]))

    def middle(self, cut: float) -> float:
        """The mean of what is nearer than this."""
        values, masses, _ = self.within(cut)
        return float(np.dot(masses, values))

    def smooth_jumps(self, low: float, high: float, edges: Array) -> Array:
        """Masses between these edges, of the smooth losses between these distances from the median."""
        found = np.zeros(edges.size - 1)
        for first, last in ((self.median + low, self.median + high), (self.median - high, self.median - low)):
            for part in (segment.restricted(first, last) for segment in self.law.segments):
                if part is None:
                    continue
                inner = part.inverse(edges[(edges > first) & (edges < last)])
                ends = np.unique(np.concatenate((part.edges(), inner)))
                points, log_weight = panel_nodes(ends[(ends >= part.low) & (ends <= part.high)], 8)
                bins = np.clip(np.searchsorted(edges, part.loss(points)) - 1, 0, found.size - 1)
                found += np.bincount(bins, np.exp(part.log_density(points) + log_weight), found.size)
        return found / self.mass

    def atoms(self, low: float, high: float) -> tuple[Array, Array]:
        """Places and masses of the atoms between these distances from the median."""
        away = np.abs(self.law.atoms - self.median)
        kept = (away > low) & (away <= high)
        return self.law.atoms[kept], np.exp(self.law.log_masses[kept]) / self.mass


def _cuts(terms: Sequence[_Term], mu: float, alike: float) -> Iterator[float]:
    """Distances that are no more than the deviation of all that is nearer, and one below which losses are alike."""
    away = np.concatenate([np.abs(term.values - term.median) for term in terms])
    if not np.any(away > alike):
        return
    cut, least = float(np.max(away)), max(alike, 0.5 * float(np.min(away[away > alike])))
    while cut > 0.0:
        if _share(terms, cut) > SHARE:
            return
        if cut == least or cut * cut <= Cumulants.of([term.within(cut) for term in terms], mu).variance:
            yield cut
        cut = 0.0 if cut == least else max(least, 0.5 * cut)


def _share(terms: Sequence[_Term], cut: float) -> float:
    shares = [(term.jumping(cut), term.count) for term in terms]
    return sum(-share * math.expm1(-count * share) for share, count in shares)


def _small(terms: Sequence[Term], mu: float, alike: float) -> _Curve | None:
    whole = Cumulants.of(terms, mu)
    if whole.variance <= alike * alike:
        return _Curve(np.array([whole.mean]), np.ones(1))
    waves = Waves.of(terms, mu, heavy=math.inf, most=256)  # what is nearly normal dies away at once
    if waves is None:
        return None
    places = waves.mean + waves.deviation * np.linspace(-0.45 * PERIOD, 0.45 * PERIOD, 3601)
    heights = np.array([waves.below(x) for x in places.tolist()])
    return _Curve(places, np.maximum.accumulate(heights))


def _level(before: Jumps, terms: Sequence[_Term], middles: Sequence[float], low: float) -> _Level | None:
    """The jumps from this distance on, on top of what is nearer; a jump takes the place of a small loss."""
    step, size = low / FINE, int((WIDER + 2.0) * FINE)
    edges = step * np.arange(-size - 0.5, size + 1.0, dtype=np.float64)
    parts: list[tuple[Array, int]] = []
    atoms: list[tuple[float, float, int]] = []
    for term, middle in zip(terms, middles, strict=True):
        parts.append((term.smooth_jumps(low, WIDER * low, middle + edges), term.count))
        where, masses = term.atoms(low, WIDER * low)
        atoms += [(p - middle, m, term.count) for p, m in zip(where.tolist(), masses.tolist(), strict=True)]
    mean = sum(count * float(np.sum(masses)) for masses, count in parts)
    if mean > MOST_JUMPS or any(mass * count > MOST_JUMPS for _, mass, count in atoms):
        return None
    sums, chances = _sums(atoms)
    readings = math.prod(level.sums.size for level in before.levels) * sums.size
    if readings > MOST_SUMS:
        return None
    if mean < RARE:
        return _Level(sums, chances, NOTHING)
    smooth = _compound(parts, size, mean)
    if smooth is None:
        return None
    masses, none, lowest = smooth
    cells = Jumps(before.small, (*before.levels, _Level(sums, chances, NOTHING)))
    start, end = cells.reach
    if (end - start) / step > min(MOST_POINTS, MOST_READ / readings):
        return None
    # Averages over cells: a peak far narrower than a step counts where it is.
    bounds = start + step * np.arange(-1.0, math.ceil((end - start) / step) + 2.0, dtype=np.float64)
    rises = np.diff(np.diff(cells.area(bounds)) / step, prepend=0.0)
    points = masses.size + rises.size - 1
    length = 1 << points.bit_length()
    product = np.fft.irfft(np.fft.rfft(masses, length) * np.fft.rfft(rises, length), length)[:points]
    grown = _Curve(bounds[0] + step * (np.arange(product.size) + 0.5 + lowest), np.cumsum(product))
    return _Level(sums, chances * none, grown)


def _sums(atoms: Sequence[tuple[float, float, int]]) -> tuple[Array, Array]:
    """All sums of atoms that are likely enough, with their chances: Poisson numbers of each."""
    sums, chances = np.zeros(1), np.ones(1)
    for place, mass, count in atoms:
        chance, numbers = math.exp(-count * mass), []
        for k in range(MOST_SUMS + 1):
            numbers.append((k * place, chance))
            chance *= count * mass / (k + 1.0)
            if chance < RARE and k > count * mass:
                break
        more = np.array(numbers)
        sums = np.add.outer(sums, more[:, 0]).ravel()
        chances = np.multiply.outer(chances, more[:, 1]).ravel()
        sums, chances = sums[chances > RARE], chances[chances > RARE]
        if sums.size > MOST_SUMS:
            break
    return sums, chances


def _compound(parts: Sequence[tuple[Array, int]], size: int, mean: float) -> tuple[Array, float, int] | None:
    """The sum of a Poisson number of smooth jumps without that of none, the chance of none, and its first index."""
    used = np.flatnonzero(sum(masses for masses, _ in parts))
    left, right = min(int(used[0]) - size, 0), max(int(used[-1]) - size, 0)
    most = 1
    term = mean
    while term > RARE or most < mean:  # of that many jumps, at most
        most += 1
        term *= mean / most
    length = 1 << (most * (right - left)).bit_length()
    if length > MOST_POINTS:
        return None
    ring = np.zeros(length)
    for masses, count in parts:
        ring[np.arange(left, right + 1) % length] += count * masses[left + size : right + size + 1]
    total = np.fft.irfft(np.exp(np.fft.rfft(ring) - mean), length)
    none = math.exp(-mean)
    total[0] -= none
    first = most * left
    return np.roll(total, -first)[: most * (right - left) + 1], none, first
