"""Optimal composition of unlike (epsilon_i, delta_i) steps: exactly #P-complete, so an enclosure.

Each step's worst pair is randomized response (plus a leak). Its losses are moved to a common grid, up for the upper
bound and down for the lower one; convolutions are direct sums of positive numbers, which lose no digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.bounds import Bounds
from tallystick.errors import InvalidInput
from tallystick.rounding import SLACK, down, up
from tallystick.theorems import require
from tallystick.theorems.optimal import binomial_window
from tallystick.theorems.require import Floats

_POINTS = 2**15


@dataclass(frozen=True, slots=True)
class _Sum:
    """P-masses of losses ``(start + i) step``; ``above`` is mass beyond the last, counted as infinite or not at all."""

    start: int
    masses: Floats
    above: float

    def excess(self, epsilon: float, step: float) -> float:
        losses = (self.start + np.arange(self.masses.size)) * step
        over = losses > epsilon
        return float(np.sum(self.masses[over] * -np.expm1(epsilon - losses[over]))) + self.above


def heterogeneous_optimal_composition(
    *,
    epsilons: Iterable[float],
    deltas: Iterable[float],
    total_delta: float,
    counts: Iterable[int] | None = None,
    points: int = _POINTS,
) -> Bounds:
    """Certified enclosure of the least epsilon of unlike (epsilon_i, delta_i)-DP steps at ``total_delta``.

    Theorem 10.2 of the lecture notes: computing it exactly is #P-complete (Murtagh, Vadhan 2016); page
    ``theory/optimal-composition.md``. ``counts[i]`` repeats step i; more ``points`` make the enclosure narrower.

    >>> bounds = heterogeneous_optimal_composition(epsilons=[0.1, 0.2], deltas=[0.0, 1e-7], total_delta=1e-6)
    >>> 0.2999 < bounds.lower <= bounds.upper < 0.30001
    True
    """
    parts = require.numbers("epsilons", epsilons)
    slips = [check.probability("deltas", delta) for delta in deltas]
    times = [require.steps("counts", count) for count in counts] if counts is not None else [1] * len(parts)
    if len(slips) != len(parts) or len(times) != len(parts):
        raise InvalidInput("deltas", slips, f"as many deltas and counts as epsilons ({len(parts)})")
    target = check.inside("total_delta", total_delta)
    size = check.count("points", points, least=64, most=2**20)
    logs = math.fsum(n * math.log1p(-d) if d < 1.0 else -math.inf for n, d in zip(times, slips, strict=True))
    leak = -math.expm1(logs)
    if up(leak) >= target:
        return Bounds(math.inf if down(leak) > target else 0.0, math.inf)
    merged: dict[float, int] = {}
    for e, n in zip(parts, times, strict=True):
        merged[e] = merged.get(e, 0) + n
    # delta = leak + (1 - leak) x, so the randomized responses may use up the rest
    left = (target - leak) / (1.0 - leak)
    step = _step(merged, left, size)
    if step == 0.0:
        return Bounds(0.0, 0.0)
    top = math.fsum(n * e for e, n in merged.items())
    higher, lower = (_total(merged, left, step, upward) for upward in (True, False))
    slack = SLACK + 1e-15 * sum(merged.values())
    return Bounds(
        down(_crossing(lambda e: lower.excess(e, step) * (1.0 - slack), left, top)[0]),
        min(up(top), up(_crossing(lambda e: higher.excess(e, step) * (1.0 + slack), left, top)[1])),
    )


def _reach(parts: dict[float, int], delta: float) -> float:
    """Hoeffding: beyond this distance from its mean the sum has mass below 1e-9 delta."""
    size = math.hypot(*(math.sqrt(n) * e for e, n in parts.items()))
    return math.sqrt(2.0 * (math.log(1e9) - math.log(delta))) * size


def _step(parts: dict[float, int], delta: float, points: int) -> float:
    spread = min(_reach(parts, delta), math.fsum(n * e for e, n in parts.items()))
    return 2.0 * spread / points


def _total(parts: dict[float, int], delta: float, step: float, upward: bool) -> _Sum:
    whole = _Sum(0, np.ones(1), 0.0)
    done: dict[float, int] = {}
    mean = 0.0
    for e, n in sorted(parts.items()):
        done[e] = n
        own, width = n * e * math.tanh(e / 2.0), _reach({e: n}, delta)
        mean += own
        reach = _reach(done, delta)
        one = _cut(_rounded(e, n, step, upward), (own - width) / step, (own + width) / step, upward)
        masses = _convolved(whole.masses, one.masses)
        # infinite mass stays infinite; (1 - a)(1 - b) <= 1 - above keeps the sum of the parts' shares on the safe side
        above = whole.above + one.above
        whole = _cut(_Sum(whole.start + one.start, masses, above), (mean - reach) / step, (mean + reach) / step, upward)
    return whole


def _rounded(epsilon: float, count: int, step: float, upward: bool) -> _Sum:
    """n-fold randomized response on the grid.

    Upper end: each atom is split between its two neighbours so that its P-mass and its Q-mass both stay, which is
    easier to tell apart and costs only step^2. Lower end: each atom is moved down to the next point.
    """
    wins, masses, outside = binomial_window(epsilon, count)
    losses = (2.0 * wins - count) * epsilon
    if not upward:
        # a loss within rounding of a grid point goes one point further down
        places = np.floor(losses / step - 1e-9).astype(np.int64)
        start = int(places[0])
        return _Sum(start, _piled(places - start, masses, int(places[-1]) - start + 1), 0.0)
    places = np.floor(losses / step).astype(np.int64)
    rest = np.clip(losses - places * step, 0.0, step)
    share = np.expm1(-rest) / math.expm1(-step)
    start = int(places[0])
    size = int(places[-1]) - start + 2
    near = _piled(places - start, masses * (1.0 - share), size)
    return _Sum(start, near + _piled(places - start + 1, masses * share, size), outside)


def _piled(places: NDArray[np.int64], masses: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, weights=masses, minlength=size), dtype=np.float64)


def _convolved(first: Floats, second: Floats) -> Floats:
    """Direct convolution; by shifts where one of the two has few atoms."""
    few = np.flatnonzero(second)
    if few.size > 64:
        return np.convolve(first, second)
    total = np.zeros(first.size + second.size - 1)
    for index in few.tolist():
        total[index : index + first.size] += second[index] * first
    return total


def _cut(total: _Sum, low: float, high: float, upward: bool) -> _Sum:
    """Keep a window: mass above becomes infinite (upper end) or joins the top (lower end); mass below likewise."""
    first = max(0, min(total.masses.size - 1, math.floor(low) - total.start))
    last = max(first, min(total.masses.size - 1, math.ceil(high) - total.start))
    masses = total.masses[first : last + 1].copy()
    under, over = float(total.masses[:first].sum()), float(total.masses[last + 1 :].sum())
    if upward:
        masses[0] += under
        return _Sum(total.start + first, masses, total.above + over)
    masses[-1] += over
    return _Sum(total.start + first, masses, 0.0)


def _crossing(function: Callable[[float], float], level: float, top: float) -> tuple[float, float]:
    """An interval of relative width 1e-12 in [0, top + 1] where a decreasing function falls to ``level``."""
    if function(0.0) <= level:
        return 0.0, 0.0
    low, high = 0.0, top * (1.0 + 1e-9) + 1.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (low, middle) if function(middle) <= level else (middle, high)
    return low, high
