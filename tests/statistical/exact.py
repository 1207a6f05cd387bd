"""Output laws computed from the definitions, for mechanisms made of several steps: nothing of their code is used
but public numbers (rates, thresholds, the widened range)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Law = NDArray[np.float64]
REACH = 400


def quantile_law(data: NDArray[Any], alpha: float, rate: float, points: int) -> Law:
    """P(t) proportional to exp(-rate * distance of alpha k from [#below, #up to t]), t = 0..points-1."""
    target = alpha * data.size
    weight = [math.exp(-rate * max((data < t).sum() - target, target - (data <= t).sum(), 0.0)) for t in range(points)]
    return np.array(weight) / sum(weight)


def two_quantiles_law(mechanism: Any, data: NDArray[Any], *, part: float = 1.0, tie_bits: int = 1) -> Law:
    """Joint law (upper major) of two quantiles on 0..last: the upper first, the lower among the records up to it.

    Every way to give the records one of 2^tie_bits places within their lattice point is equally likely.
    """
    low, high = (Fraction(alpha) for alpha in mechanism.alphas)
    rates = [part * float(mechanism.rate(alpha)) for alpha in (high, low / high)]
    points, places = mechanism.lattice.points, 1 << tie_bits
    total = np.zeros((points, points))
    ways = list(itertools.product(range(places), repeat=data.size))
    for way in ways:
        fine = data * places + np.array(way, dtype=int)
        first = quantile_law(fine, float(high), rates[0], points * places)
        for upper, chance in enumerate(first):
            lower = quantile_law(fine[fine <= upper], float(low / high), rates[1], upper + 1) * chance / len(ways)
            np.add.at(total[upper // places], np.arange(upper + 1) // places, lower)
    return total.reshape(-1)


def noise_law(mechanism: Any, width: int, centre: int) -> Law:
    """Discrete noise of the winsorised mean's sum, at -REACH..REACH."""
    at = np.arange(-REACH, REACH + 1) - centre
    if mechanism.epsilon is not None:
        mass = np.exp(-np.abs(at) * mechanism.epsilon / (2 * width))
    else:
        mass = np.exp(-(at**2) * mechanism.rho / (2 * width**2))
    return mass / mass.sum()


def winsorized_law(mechanism: Any, numbers: Sequence[int]) -> Law:
    """The winsorised mean times the number of numbers, at -REACH..REACH, for a lattice 0, 1, ..., last."""
    data, points, rate = np.sort(np.array(numbers)), mechanism.lattice.last + 1, mechanism.quartile_epsilon / 2
    lows, highs = (quantile_law(data, alpha, rate, points) for alpha in (0.25, 0.75))
    law = np.zeros(2 * REACH + 1)
    for a, b in itertools.product(range(points), repeat=2):
        low, high = mechanism.widened(a, b, data.size)
        if low == high:
            law[REACH + low * data.size] += lows[a] * highs[b]
        else:
            law += lows[a] * highs[b] * noise_law(mechanism, high - low, int(np.clip(data, low, high).sum()))
    return law


def subsampled_law(mechanism: Any, records: Sequence[int]) -> Law:
    """Five records in four blocks, statistic max: every pair is equally likely to share the block of two."""
    pairs = list(itertools.combinations(range(5), 2))
    law = np.zeros(2 * REACH + 1)
    for pair in pairs:
        rest = [records[i] for i in range(5) if i not in pair]
        law += winsorized_law(mechanism.means[0], [max(records[i] for i in pair), *rest]) / len(pairs)
    return clamped_law(law, 0, mechanism.means[0].lattice.last * mechanism.blocks)


def clamped_law(law: Law, low: int, high: int) -> Law:
    """The law at -REACH..REACH with everything below ``low`` moved to it, and above ``high`` likewise."""
    places = np.clip(np.arange(-REACH, REACH + 1), low, high) + REACH
    return np.bincount(places, weights=law, minlength=law.size)


def heaviest_law(counts: dict[int, int], scale: float, threshold: int) -> dict[int | None, float]:
    """Which bin has the largest count + discrete Laplace noise, among those at least ``threshold``; None: no bin."""
    top = max(counts.values()) + threshold + math.ceil(40 * scale)
    levels = np.arange(threshold, top)

    def mass(k: NDArray[np.int64]) -> Law:
        return math.tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale)

    def below(k: NDArray[np.int64]) -> Law:  # P(noise < k)
        tail = np.exp(-np.abs(k) / scale) / (1 + math.exp(-1 / scale))
        return np.where(k <= 0, tail * math.exp(-1 / scale), 1 - tail)

    found: dict[int | None, float] = {}
    ordered = sorted(counts, key=repr)  # of equal counts the first in public order
    for place, bin_ in enumerate(ordered):
        wins = mass(levels - counts[bin_])
        for other_place, other in enumerate(ordered):
            if other != bin_:
                wins = wins * below(levels - counts[other] + (other_place > place))
        found[bin_] = float(wins.sum())
    found[None] = 1 - sum(found.values())
    return found


def placed_law(mechanism: Any, numbers: Sequence[float]) -> dict[tuple[int | None, int | None], float]:
    """Scale and place that the winsorised mean of an unknown range finds: two noisy histograms, one after the other."""
    data, half = np.array(numbers), len(numbers) // 2
    sizes = [math.frexp(abs(a - b))[1] for a, b in zip(data[:half], data[half : 2 * half], strict=True)]
    scale, threshold = mechanism.histogram.scale, mechanism.histogram.threshold
    found: dict[tuple[int | None, int | None], float] = {}
    for size, chance in heaviest_law({s: sizes.count(s) for s in sizes}, scale, threshold).items():
        if size is None:
            found[None, None] = chance
            continue
        bins = np.floor(data / 2.0 ** (size + 1)).astype(int).tolist()
        for place, share in heaviest_law({b: bins.count(b) for b in bins}, scale, threshold).items():
            found[size, place] = chance * share
    return found
