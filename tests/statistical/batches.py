"""Many independent releases of one value at once, for counting: each uses the mechanism's own parts.

Mechanisms that act on arrays are given arrays. For private quantiles and the winsorised mean the draws that saw the
same earlier outcome go on together; ``test_mechanism_claims.py`` checks that batches have the law of single releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.aggregate.winsorized import _sizes
from tallystick.mechanisms.exact import lazy_noise
from tallystick.mechanisms.exact.coins import exp_probability, exp_word_bounds, flip, flip_words
from tallystick.mechanisms.exact.integer_noise import discrete_gaussian, discrete_laplace
from tallystick.mechanisms.exact.randomness import SYSTEM
from tallystick.mechanisms.exact.uniform import integers
from tallystick.mechanisms.exact.weighted_choice import choose_many
from tallystick.mechanisms.keys.partition import in_public_order
from tallystick.mechanisms.select.order_statistics import Cells

Numbers = NDArray[Any]
Batch = Callable[[Any, Any, int], Numbers]


def one_by_one(mechanism: Any, value: Any, size: int) -> Numbers:
    """``size`` single releases, as rows of numbers."""
    prepared = mechanism.prepare(value, strict=False)
    return np.array([mechanism.draw(prepared, SYSTEM) for _ in range(size)], dtype=np.float64)


def scalars(mechanism: Any, value: Any, size: int) -> Numbers:
    """Additive noise on one number."""
    points = np.repeat(mechanism.prepare(value, strict=False), size)
    return np.asarray(replace(mechanism, dimension=size).draw(points, SYSTEM))


def vectors(mechanism: Any, value: Any, size: int) -> Numbers:
    """Additive noise on a vector."""
    points = np.tile(mechanism.prepare(value, strict=False), size)
    return np.asarray(mechanism.draw(points, SYSTEM)).reshape(size, mechanism.dimension)


def choices(mechanism: Any, value: Any, size: int) -> Numbers:
    """The exponential mechanism."""
    return choose_many(mechanism.prepare(value, strict=False).weights(mechanism.rate), size, SYSTEM)


def races(mechanism: Any, value: Any, size: int) -> Numbers:
    """Noisy maxima, and the best k in order: rows that floats leave in doubt are settled as single ones are."""
    scores = mechanism.prepare(value, strict=False)
    noise, places = getattr(mechanism, "noise", lazy_noise.Noise.GUMBEL), getattr(mechanism, "k", 1)
    words = SYSTEM.words(size * scores.behind.size)
    bounds = lazy_noise._noisy_bounds(np.tile(scores.behind, size), words, float(1 / mechanism.rate), noise)
    low, high = (bound.reshape(size, -1) for bound in bounds)
    words, rows = words.reshape(size, -1), np.arange(size)
    order = np.argsort(-low, axis=1)
    clear = np.ones(size, dtype=bool)
    for place in range(places):
        later = np.take_along_axis(high, order[:, place + 1 :], axis=1).max(axis=1)
        clear &= low[rows, order[:, place]] > later
    for row in np.flatnonzero(~clear):
        candidates = np.arange(scores.behind.size)
        order[row, :places] = lazy_noise._settle(
            candidates, scores, words[row], 1 / mechanism.rate, noise, places, SYSTEM
        )
    return order[:, :places]


def flips(mechanism: Any, value: Any, size: int) -> Numbers:
    """Permute-and-flip: every candidate's coin, then a uniform one of the taken."""
    chances = mechanism.prepare(value, strict=False).weights(mechanism.rate)
    count = chances.exponents.size
    least, most = (np.tile(bound, size) for bound in exp_word_bounds(chances.exponents, chances.error))
    heads = flip_words(least, most, lambda i: exp_probability(chances.exact(i % count)[1]), SYSTEM)
    taken = heads.reshape(size, count)
    totals = taken.sum(axis=1)
    rank = np.empty(size, dtype=np.int64)
    for total in np.unique(totals):
        rows = np.flatnonzero(totals == total)
        rank[rows] = integers(int(total), size=rows.size, source=SYSTEM)
    return np.argmax(np.cumsum(taken, axis=1) == rank[:, None] + 1, axis=1)


def streams(mechanism: Any, value: Any, size: int) -> Numbers:
    """Sparse vector, as the binary number of its answers after a 1: comparisons in doubt are settled as single ones."""
    answers = mechanism.prepare(value, strict=False)
    words = SYSTEM.words(size * (len(answers) + 1)).reshape(size, -1)
    scales = (mechanism.threshold_scale, mechanism.answer_scale)

    def noises(drawn: NDArray[np.uint64], scale: Fraction) -> tuple[Numbers, Numbers]:
        return lazy_noise._noisy_bounds(np.zeros(size), drawn, float(scale), lazy_noise.Noise.LAPLACE)

    low, high = noises(words[:, 0], scales[0])
    above = np.zeros((size, len(answers)), dtype=bool)
    for i, answer in enumerate(answers):
        least, most = (noise + (answer - mechanism.threshold) for noise in noises(words[:, i + 1], scales[1]))
        above[:, i] = least > high
        for row in np.flatnonzero((least <= high) & (most >= low)):
            mine, theirs = (
                lazy_noise.LazyNoise.of_word(lazy_noise.Noise.LAPLACE, int(words[row, j])) for j in (i + 1, 0)
            )
            comparison = replace(mechanism._comparison(SYSTEM), noise=theirs)
            above[row, i] = comparison._compare(Fraction(answer) - comparison.threshold, mine)
    code, left = np.ones(size), np.full(size, mechanism.hits)
    for column in above.T:
        code, left = np.where(left > 0, 2 * code + column, code), left - column
    return code


def proposals(mechanism: Any, value: Any, size: int) -> Numbers:
    """The exponential mechanism by rejection: a coin for every proposal, those of one score together."""
    score, (_, top) = mechanism.prepare(value, strict=False), mechanism.score_bounds
    rate = Fraction(mechanism.epsilon) / Fraction(mechanism.sensitivity) / 2
    known: dict[Any, float] = {}
    kept: list[Any] = []
    while len(kept) < size:
        points = [mechanism.propose(SYSTEM) for _ in range(size)]
        scores = np.array([known[p] if p in known else known.setdefault(p, score(p)) for p in points])
        heads = np.empty(size, dtype=bool)
        for level in np.unique(scores):
            rows = np.flatnonzero(scores == level)
            heads[rows] = flip(exp_probability(rate * (Fraction(top) - Fraction(float(level)))), rows.size, SYSTEM)
        kept += [point for point, taken in zip(points, heads, strict=True) if taken]
    return np.array(kept[:size])


def people(mechanism: Any, value: Any, size: int) -> Numbers:
    """A local mechanism: everybody gives the same answer."""
    return np.asarray(mechanism.draw(np.repeat(mechanism.prepare([value], strict=False), size), SYSTEM))


def points(cells: Cells, alpha: Fraction, rate: Fraction, size: int) -> NDArray[np.int64]:
    """Lattice points of private quantiles of the same data."""
    return inside(cells.starts, cells.counts, choose_many(cells.weights(alpha, rate), size, SYSTEM))


def inside(starts: NDArray[np.int64], counts: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """A uniform point of each run that was found."""
    out = starts[found]
    for run in np.unique(found):
        rows = np.flatnonzero(found == run)
        out[rows] += integers(int(counts[run]), size=rows.size, source=SYSTEM)
    return out


def line_points(mechanism: Any, value: Any, size: int) -> Numbers:
    """The exponential mechanism on a line."""
    pieces = mechanism.prepare(value, strict=False)
    return inside(pieces.starts, pieces.counts, choose_many(mechanism.weights(pieces), size, SYSTEM))


def quantile_points(mechanism: Any, value: Any, size: int) -> Numbers:
    cells = Cells.of(mechanism.prepare(value, strict=False), mechanism.lattice.first, mechanism.lattice.last)
    return points(cells, Fraction(mechanism.alpha), mechanism.rate, size)


def two_quantiles(mechanism: Any, value: Any, size: int) -> Numbers:
    """Two levels at once: the higher first, then the lower among the records up to it. For few places of ties."""
    data, bits, first = mechanism.prepare(value, strict=False), mechanism.tie_bits, mechanism.lattice.first
    low, high = (Fraction(alpha) for alpha in mechanism.alphas)
    drawn = integers(1 << bits, size=size * data.size, source=SYSTEM).reshape(size, data.size)
    ways, which = np.unique(np.sort(((data - first) << bits) + drawn, axis=1), axis=0, return_inverse=True)
    out = np.empty((size, 2), dtype=np.int64)
    for number, way in enumerate(ways):
        mine = np.flatnonzero(which == number)
        cells = Cells.of(way, 0, (mechanism.lattice.points << bits) - 1)
        out[mine, 1] = points(cells, high, mechanism.rate(high), mine.size)
        for found in np.unique(out[mine, 1]):
            rows = mine[out[mine, 1] == found]
            left = Cells.of(way[way <= found], 0, int(found))
            out[rows, 0] = points(left, low / high, mechanism.rate(low / high), rows.size)
    return (out >> bits) + float(first)


def winsorized(mechanism: Any, value: Any, size: int) -> Numbers:
    """The mean in units of lattice step / count: a whole number."""
    data = mechanism.prepare(value, strict=False)
    cells, rate = (
        Cells.of(data, mechanism.lattice.first, mechanism.lattice.last),
        Fraction(mechanism.quartile_epsilon) / 2,
    )
    lower, upper = (points(cells, alpha, rate, size) for alpha in (Fraction(1, 4), Fraction(3, 4)))
    out, span = np.empty(size), mechanism.lattice.points
    pairs = (lower - mechanism.lattice.first) * span + upper - mechanism.lattice.first
    for pair in np.unique(pairs):
        rows = np.flatnonzero(pairs == pair)
        low, high = mechanism.widened(int(lower[rows[0]]), int(upper[rows[0]]), data.size)
        if low == high:
            out[rows] = low * data.size
            continue
        if mechanism.epsilon is not None:
            noise = discrete_laplace(2 * (high - low) / Fraction(mechanism.epsilon), size=rows.size, source=SYSTEM)
        else:
            sigma = np.nextafter((high - low) / np.sqrt(mechanism.rho), np.inf)
            noise = discrete_gaussian(float(sigma), size=rows.size, source=SYSTEM)
        out[rows] = int(np.clip(data, low, high).sum()) + noise
    return out


def groups(mechanism: Any, value: tuple[int, ...], size: int) -> Numbers:
    """Private choice of groups, with sizes where they are released: many data sets side by side, each its own groups.

    Every group is judged by itself, so data set i has the groups (i, 0), (i, 1), ... A group that is not shown is -1.
    """
    out = np.full((size, len(value)), -1.0)
    flat = {i * len(value) + j: count for i in range(size) for j, count in enumerate(value)}
    shown = mechanism.draw(mechanism.prepare(flat, strict=False), SYSTEM)
    found = np.fromiter(shown, dtype=np.int64, count=len(shown))
    sizes = np.fromiter(shown.values(), dtype=np.int64) if isinstance(shown, dict) else 1.0
    out.reshape(-1)[found] = sizes
    return out


def blocks(mechanism: Any, value: Any, size: int) -> Numbers:
    """Subsample and aggregate: releases whose blocks gave the same numbers go on together."""
    records, mean = np.asarray(value), mechanism.means[0]
    known: dict[bytes, tuple[float, ...]] = {}
    seen: dict[tuple[float, ...], list[int]] = {}
    for row in range(size):
        dealt = mechanism._deal(records.shape[0], SYSTEM)
        if dealt.tobytes() not in known:
            numbers = (mechanism._on(records[dealt == block], strict=False)[0] for block in range(mechanism.blocks))
            known[dealt.tobytes()] = tuple(sorted(float(number) for number in numbers))
        seen.setdefault(known[dealt.tobytes()], []).append(row)
    out = np.empty(size)
    for numbers_, rows in seen.items():
        out[rows] = winsorized(mean, numbers_, len(rows))
    return np.clip(out, mean.lattice.first * mechanism.blocks, mean.lattice.last * mechanism.blocks)


def heaviest(mechanism: Any, bins: NDArray[Any], size: int) -> list[Any]:
    """For each release the bin with the largest noisy count among those shown, or None."""
    found, counts = np.unique(bins, return_counts=True)
    ordered = in_public_order(int(bin_) for bin_ in found)
    sizes = dict(zip(found.astype(int).tolist(), counts.tolist(), strict=True))
    noisy = groups(mechanism.histogram, tuple(sizes[bin_] for bin_ in ordered), size)  # type: ignore[index]
    best = np.argmax(noisy, axis=1)
    return [ordered[i] if shown else None for i, shown in zip(best, (noisy >= 0).any(axis=1), strict=True)]


def placed(mechanism: Any, value: Any, size: int) -> Numbers:
    """Scale and place that the winsorised mean without bounds finds; None is far from every number."""
    data = mechanism.prepare(value, strict=False)
    half, out = data.size // 2, np.full((size, 2), -1e6)
    scales = np.array(heaviest(mechanism, _sizes(data[:half], data[half : 2 * half]), size), dtype=object)
    for scale in {scale for scale in scales.tolist() if scale is not None}:
        rows = np.flatnonzero(scales == scale)
        places = heaviest(mechanism, np.floor(data / 2.0 ** (scale + 1)), rows.size)
        out[rows, 0] = scale
        out[rows, 1] = [-1e6 if place is None else place for place in places]
    return out


def unknown_range(mechanism: Any, value: Any, size: int) -> Numbers:
    """Scale, place and the mean there."""
    data = mechanism.prepare(value, strict=False)
    where = placed(mechanism, data, size)
    out = np.column_stack((where, np.full(size, -1e6)))
    for scale, place in np.unique(where[where[:, 1] != -1e6], axis=0):
        rows = np.flatnonzero((where[:, 0] == scale) & (where[:, 1] == place))
        mean = mechanism.near(int(place), 2.0 ** (scale + 1))
        out[rows, 2] = winsorized(mean, data, rows.size) * mean.lattice.granularity / data.size
    return out
