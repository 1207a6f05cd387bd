"""Where to put a contour: log-moment-generating functions of sums (they choose a tilt, they do not certify), and root
searches that keep the side they promised."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import Array, Law

Key = TypeVar("Key")
Value = TypeVar("Value")

# Root search that keeps the side it promised.


def bisect_decreasing(
    function: Callable[[float], float], level: float, low: float, high: float, *, relative: float = 1e-14
) -> tuple[float, float]:
    """``(below, above)`` with function(below) > level >= function(above), or equal ends where there is no crossing.

    The secant on the logarithm, guarded by bisection: ``function`` is decreasing up to rounding. Where
    function(low) <= level both ends are ``low``; where function(high) > level, ``above`` is
    infinite.

    >>> below, above = bisect_decreasing(lambda x: math.exp(-x), 0.5, 0.0, 10.0)
    >>> below <= math.log(2) <= above
    True
    """
    start, end = function(low), function(high)
    if start <= level:
        return low, low
    if end > level:
        return high, math.inf
    log_level = math.log(level) if level > 0.0 else -745.0

    def height(value: float) -> float:
        return math.log(max(value, 1e-320)) - log_level  # it guesses; below 1e-320 it is wrong

    before, now = (low, height(start)), (high, height(end))
    for step in range(200):
        width = high - low
        if width <= relative * abs(high):
            break
        rise = now[1] - before[1]
        middle = now[0] - now[1] * (now[0] - before[0]) / rise if rise != 0.0 else math.inf
        # The secant converges to the root from one side; a nudge past it by the tolerance closes the bracket.
        nudge = 0.4 * relative * abs(high)
        middle += nudge if now[1] > 0.0 else -nudge
        if step % 8 == 7 or not low < middle < high:
            middle = low + 0.5 * width
        value = function(middle)
        before, now = now, (middle, height(value))
        if value > level:
            low = middle
        else:
            high = middle
    return low, high


TOO_FAR = (1e280, 1e290, 1.0)
"""Level, mean and variance under a tilt that is not followed: finite, so that root searches turn back."""

NO_ROOT = 3e8
"""A search that ends here has found no best tilt: the sum is bounded and its largest value is likely enough."""

RUNGS = 4.0
"""Rungs to an octave of the ladder of far tilts: between two of them the same nodes serve."""

KEPT = 512
"""Tilts whose cumulants are remembered for each set of laws: online use asks for the same ones at every step."""


@dataclass(slots=True)
class Remembered:
    """What is remembered in many places, together no more than so many numbers: the oldest is forgotten first.

    >>> places, few = {}, Remembered(most=1000)
    >>> for k in range(9):
    ...     _ = few.put(places, k, "value", 100)
    >>> sorted(places)
    [4, 5, 6, 7, 8]
    """

    most: int
    held: int = 0
    entries: deque[tuple[dict[Any, Any], Any, int]] = field(default_factory=deque)

    def put(self, place: dict[Key, Value], key: Key, value: Value, size: int) -> Value:
        """Remember a value of about so many numbers in its place."""
        place[key] = value
        self.entries.append((place, key, size + 100))
        self.held += size + 100
        while self.held > self.most and len(self.entries) > 1:
            old, name, freed = self.entries.popleft()
            old.pop(name, None)
            self.held -= freed
        return value


REMEMBERED = Remembered(most=2**25)
"""Nodes and sums of all compositions: a quarter of a gigabyte."""


@dataclass(frozen=True, slots=True, eq=False)
class _Laws:
    """All nodes of all laws in one array, so a sum of hundreds of unlike laws costs one pass; counts come later."""

    laws: tuple[Law, ...]
    followed: Array
    values: Array
    logs: Array
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    _kept: dict[float, tuple[Array, Array, Array]] = field(default_factory=dict)

    @staticmethod
    @lru_cache(maxsize=256)
    def of(laws: tuple[Law, ...]) -> _Laws:
        nodes = [_coarse_nodes(law) for law in laws]
        sizes = np.array([values.size for values, _ in nodes], dtype=np.int64)
        return _Laws(
            laws,
            np.array([law.followed for law in laws]),
            np.concatenate([np.zeros(0), *(values for values, _ in nodes)]),
            np.concatenate([np.zeros(0), *(logs for _, logs in nodes)]),
            np.cumsum(sizes) - sizes,
            sizes,
        )

    def at(self, theta: float) -> tuple[Array, Array, Array]:
        """log-mgf, mean and variance of each tilted law."""
        laws = self._kept.get(theta)
        if laws is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            laws = self._kept[theta] = self._compute(theta)
        return laws

    def _compute(self, theta: float) -> tuple[Array, Array, Array]:
        if len(self.laws) == 1:
            far = float(self.followed[0]) < theta
            alone = _far(self.laws[0], theta) if far else _tilted(self.values, self.logs, theta)
            return np.array(alone[:1]), np.array(alone[1:2]), np.array(alone[2:])
        exponent = theta * self.values + self.logs
        tops = np.maximum.reduceat(exponent, self.starts)
        weights = np.exp(exponent - tops.repeat(self.sizes))
        norms = np.add.reduceat(weights, self.starts)
        means = np.add.reduceat(weights * self.values, self.starts) / norms
        seconds = np.add.reduceat(weights * (self.values - means.repeat(self.sizes)) ** 2, self.starts) / norms
        levels = tops + np.log(norms)
        # Under a large tilt a Gaussian line's mass lies beyond its untilted nodes, and other panels are too long.
        for index in np.flatnonzero(self.followed < theta).tolist():
            levels[index], means[index], seconds[index] = _far(self.laws[index], theta)
        return levels, means, seconds


@dataclass(frozen=True, slots=True, eq=False)
class Cumulants:
    """S(theta) = mu^2 theta (theta + 1) / 2 + sum of count * log E[e^{theta X}], with two derivatives."""

    laws: _Laws
    counts: Array
    mu: float

    @staticmethod
    def of(terms: Sequence[tuple[Law, int]], mu: float = 0.0) -> Cumulants:
        return Cumulants(_Laws.of(tuple(law for law, _ in terms)), np.array([float(c) for _, c in terms]), mu)

    def __call__(self, theta: float) -> float:
        return self.derivatives(theta)[0]

    def derivatives(self, theta: float) -> tuple[float, float, float]:
        """S, S' and S'' at theta: the tilted sum has mean S' and variance S''."""
        square = self.mu * self.mu
        base = (0.5 * square * theta * (theta + 1.0), square * (theta + 0.5), square)
        if not self.counts.size:
            return base
        levels, means, seconds = self.laws.at(theta)
        return (
            base[0] + float(np.dot(self.counts, levels)),
            base[1] + float(np.dot(self.counts, means)),
            base[2] + float(np.dot(self.counts, seconds)),
        )

    def moments(self, theta: float) -> tuple[float, float]:
        """Mean and variance of the tilted sum."""
        _, mean, variance = self.derivatives(theta)
        return mean, variance

    def tilt_for_threshold(self, epsilon: float) -> float:
        """argmin over theta > 0 of S(theta) - theta epsilon - log theta - log(1 + theta)."""

        def gradient(theta: float) -> tuple[float, float]:
            _, mean, variance = self.derivatives(theta)
            value = mean - epsilon - 1.0 / theta - 1.0 / (1.0 + theta)
            return value, variance + theta**-2 + (1.0 + theta) ** -2

        mean, variance = self.moments(0.0)
        guess = max(epsilon - mean, math.sqrt(max(variance, 0.0))) / max(variance, 1e-12)
        return self._moderate(_increasing_root(gradient, min(max(guess, 1e-5), 1e8)))

    def tilt_for_mass(self, log_delta: float) -> float:
        """argmin over theta > 0 of (S(theta) + log(theta^theta/(1+theta)^(1+theta)) - log delta) / theta."""

        def gradient(theta: float) -> tuple[float, float]:
            level, mean, variance = self.derivatives(theta)
            value = theta * mean - level + math.log1p(theta) + log_delta
            return value, theta * variance + 1.0 / (1.0 + theta)

        # A Gaussian of the same variance would have this tilt.
        guess = math.sqrt(max(-log_delta, 0.1) / max(0.5 * self.moments(0.0)[1], 1e-12))
        return self._moderate(_increasing_root(gradient, min(max(guess, 1e-5), 1e8)))

    def _moderate(self, theta: float) -> float:
        """Tilt no further than lines are followed, nor so far that a bounded sum collapses onto its largest value."""
        while self(theta) >= TOO_FAR[0]:
            theta *= 0.5
        if theta < NO_ROOT:
            return theta
        least = 1e-4 * self.moments(0.0)[1]
        while theta > 1e-3 and self.moments(theta)[1] < least:
            theta *= 0.5
        return theta


def _far(law: Law, theta: float) -> tuple[float, float, float]:
    """log-mgf, mean and variance of one law, its lines followed as far as the tilt takes them."""
    if law.too_far(theta):
        return TOO_FAR
    nodes = _nodes_of_rung(law, math.floor(RUNGS * math.log2(theta)))
    return _tilted(*(law.coarse_nodes(theta) if nodes is None else nodes), theta)


@lru_cache(maxsize=128)
def _nodes_of_rung(law: Law, rung: int) -> tuple[Array, Array] | None:
    """The nodes of one law for all tilts between two rungs: a search for a tilt stays between few of them."""
    return law.nodes_between(2.0 ** (rung / RUNGS), 2.0 ** ((rung + 1) / RUNGS))


def _tilted(values: Array, logs: Array, theta: float) -> tuple[float, float, float]:
    """log-mgf, mean and variance of weighted points."""
    exponent = theta * values + logs
    top = float(exponent.max())
    if not math.isfinite(top):
        return TOO_FAR  # losses times tilts that are not numbers: the search leaves them out
    weights = np.exp(exponent - top)
    norm = float(weights.sum())
    mean = float(weights @ values) / norm
    away = values - mean
    return top + math.log(norm), mean, float(weights @ (away * away)) / norm


@lru_cache(maxsize=1024)
def _coarse_nodes(law: Law) -> tuple[Array, Array]:
    return law.coarse_nodes()


def _increasing_root(
    function: Callable[[float], tuple[float, float]], guess: float, low: float = 1e-6, high: float = 1e9
) -> float:
    """Root of an increasing function of one positive variable: Newton, guarded by bisection in the logarithm."""
    theta = guess
    for _ in range(80):
        value, slope = function(theta)
        if value > 0.0:
            high = theta
        else:
            low = theta
        step = theta - value / slope if slope > 0.0 and math.isfinite(value) else -1.0
        theta = step if low < step < high else math.sqrt(low * high)
        if abs(value) < 1e-3 * max(1.0, abs(slope * theta)) or high / low < 1.0 + 1e-3:
            break
    return theta


def log_peak_weight(theta: float) -> float:
    """log of the maximum over y >= 0 of e^{-theta y}(1 - e^{-y})."""
    return -theta * math.log1p(1.0 / theta) - math.log1p(theta) if theta > 0 else 0.0
