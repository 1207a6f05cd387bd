"""Mechanisms broken on purpose, each beside the honest one it was made from: what the auditor must and must not catch.

A twin is a pair of functions of (data, rng), the neighbours on which it is attacked and the privacy that both claim.
Honest noise is rounded to a lattice that both data sets share. ``tests/campaigns/audit_twins.py`` attacks all of them
and writes docs/reference/broken-twins.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import tallystick as ts

Rng = np.random.Generator
Release = Callable[[Any, Rng], Any]


@dataclass(frozen=True, slots=True)
class Twin:
    """``fault`` in a few words; ``draws`` is what the quick test needs on each data set."""

    fault: str
    neighbours: tuple[Any, Any]
    claim: ts.PrivacyLoss
    broken: Release
    honest: Release
    draws: int = 6000


LATTICE = 64
PURE, GDP = ts.pure_dp(epsilon=1), ts.gdp(mu=1)
NINE, TEN = [1.0] * 9, [1.0] * 10
EIGHT = range(8)


def lap(rng: Rng, scale: float = 1.0) -> float:
    return round(LATTICE * rng.laplace(scale=scale)) / LATTICE


def gau(rng: Rng, sigma: float = 1.0) -> float:
    return round(LATTICE * rng.normal(scale=sigma)) / LATTICE


def laps(values: Any, rng: Rng, scale: float = 1.0) -> list[float]:
    return [x + lap(rng, scale) for x in values]


def gaus(values: Any, rng: Rng, sigma: float = 1.0) -> list[float]:
    return [x + gau(rng, sigma) for x in values]


def clamped(values: Any, low: float = 0.0, high: float = 1.0) -> float:
    return sum(min(max(x, low), high) for x in values)


def count(data: Any, rng: Rng) -> float:
    return len(data) + lap(rng)


def total(data: Any, rng: Rng) -> float:
    return clamped(data) + lap(rng)


def several(values: int, scale: float) -> Release:
    """The same count several times, noise of this scale on each."""
    return lambda data, rng: laps([len(data)] * values, rng, scale)


def scaled() -> list[Twin]:
    """Noise that is too small."""
    vector = ((0.0,) * 4, (1.0,) * 4)
    return [
        Twin("half the noise (Laplace)", (NINE, TEN), PURE, lambda d, r: len(d) + lap(r, 0.5), count),
        Twin("half the noise (Gaussian)", (0.0, 1.0), GDP, lambda d, r: d + gau(r, 0.5), lambda d, r: d + gau(r)),
        Twin("epsilon for epsilon/2: two answers, one cost", (NINE, TEN), PURE, several(2, 1.0), several(2, 2.0)),
        Twin("four queries charged as one", (NINE, TEN), PURE, several(4, 1.0), several(4, 4.0)),
        Twin(
            "variance for standard deviation",
            (0.0, 0.5),
            GDP,
            lambda d, r: d + gau(r, 0.25),
            lambda d, r: d + gau(r, 0.5),
        ),
        Twin(
            "scale turned upside down",
            (NINE, TEN),
            ts.pure_dp(epsilon=0.5),
            lambda d, r: len(d) + lap(r, 0.5),
            lambda d, r: len(d) + lap(r, 2.0),
        ),
        Twin("Laplace noise for the L2 norm", vector, PURE, lambda d, r: laps(d, r, 2.0), lambda d, r: laps(d, r, 4.0)),
        Twin(
            "Gaussian noise for the largest coordinate",
            vector,
            GDP,
            lambda d, r: gaus(d, r),
            lambda d, r: gaus(d, r, 2.0),
        ),
        Twin(
            "values to 3, noise for values to 1",
            ([1.0], [1.0, 3.0]),
            PURE,
            lambda d, r: clamped(d, 0, 3) + lap(r),
            lambda d, r: clamped(d, 0, 3) + lap(r, 3.0),
        ),
        Twin("noise for the mean added to the sum", (NINE, TEN), PURE, lambda d, r: sum(d) + lap(r, 0.1), total),
        Twin(
            "uniform noise", (NINE, TEN), PURE, lambda d, r: len(d) + round(LATTICE * r.uniform(-3, 3)) / LATTICE, count
        ),
        Twin("noise cut off at 3", (NINE, TEN), PURE, lambda d, r: len(d) + max(-3.0, min(3.0, lap(r))), count, 20_000),
        Twin("noise that is never negative", (NINE, TEN), PURE, lambda d, r: len(d) + abs(lap(r)), count),
        Twin(
            "a tree with noise for one level",
            ([1] * 4, [1] * 5),
            PURE,
            lambda d, r: laps(levels(d), r),
            lambda d, r: laps(levels(d), r, 4.0),
        ),
    ]


def levels(data: Any) -> list[float]:
    """One person is counted on every level of the tree: the nodes above the last leaf."""
    return [len(data), len(data) - 1, len(data) - 2, len(data) - 3]


def adjacent() -> list[Twin]:
    """Noise for other neighbours than those that were promised."""
    replaced = ts.pure_dp(epsilon=1, adjacency="replace")
    cells = ((5, 4), (4, 5))
    return [
        Twin(
            "wrong adjacency: histogram, replace",
            cells,
            replaced,
            lambda d, r: laps(d, r),
            lambda d, r: laps(d, r, 2.0),
        ),
        Twin(
            "wrong adjacency: values from -1 to 1, replace",
            ([-1.0], [1.0]),
            replaced,
            lambda d, r: clamped(d, -1) + lap(r),
            lambda d, r: clamped(d, -1) + lap(r, 2.0),
        ),
        Twin("a row is not a person", ([1.0] * 5, [1.0] * 9), PURE, count, lambda d, r: min(len(d), 5) + lap(r)),
        Twin(
            "divided by the private count",
            ([1.0] * 4, [1.0] * 5),
            PURE,
            lambda d, r: (clamped(d) + lap(r)) / len(d),
            total,
        ),
    ]


def reused() -> list[Twin]:
    """Noise that is known, or used twice."""
    pair, groups, both = ((3.0, 7.0), (4.0, 7.0)), ((3.0, 7.0), (3.0, 8.0)), ts.pure_dp(epsilon=1)

    def same(data: Any, rng: Rng) -> list[float]:
        noise = lap(rng)
        return [x + noise for x in data]

    def margins(data: Any, rng: Rng) -> list[float]:
        one, two = lap(rng, 2.0), lap(rng, 2.0)
        return [data[0] + one, data[1] + two, sum(data) + one]

    def sums(data: Any, rng: Rng) -> list[float]:
        return laps([data[0], data[1], sum(data)], rng, 2.0)

    pool = [lap(np.random.default_rng(seed)) for seed in range(16)]
    return [
        Twin("reused noise", pair, both, same, lambda d, r: laps(d, r)),
        Twin("noise of a group reused in the total", groups, both, margins, sums),
        Twin("seed reused", (NINE, TEN), PURE, lambda d, r: len(d) + lap(np.random.default_rng(7)), count),
        Twin("seed from a small pool", (NINE, TEN), PURE, lambda d, r: len(d) + pool[int(r.integers(16))], count),
        Twin("zeros are exact", ([], [1.0]), PURE, lambda d, r: len(d) and len(d) + lap(r), count),
        Twin(
            "rounded to fives in place of noise",
            ([1.0] * 2, [1.0] * 3),
            PURE,
            lambda d, r: 5 * round(len(d) / 5),
            count,
        ),
    ]


def bounded() -> list[Twin]:
    """Records that move an answer further than was paid for."""

    def by_coordinate(data: Any, rng: Rng) -> list[float]:
        return gaus(np.clip(data, -1, 1).sum(axis=0).tolist(), rng)

    def by_norm(data: Any, rng: Rng) -> list[float]:
        rows = np.asarray(data, dtype=float)
        norms = np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        return gaus((np.floor(rows / norms * LATTICE) / LATTICE).sum(axis=0).tolist(), rng)

    def line(cap: float) -> Release:
        def fitted(data: Any, rng: Rng) -> list[float]:
            slope = sum(max(-1.0, min(1.0, x * y)) for x, y in data)
            return [slope + lap(rng, 2.0), sum(max(-cap, min(cap, y)) for _, y in data) + lap(rng, 2.0)]

        return fitted

    def micro(data: Any, rng: Rng) -> float:
        return max(-1.0, min(1.0, sum(data))) + gau(rng)

    long_gradients = ([[0.0] * 4], [[0.0] * 4, [1.0] * 4])
    points = ([(0.5, 1.0)], [(0.5, 1.0), (0.0, 40.0)])
    nan = math.nan
    return [
        Twin("unclamped sum", ([1.0], [1.0, 8.0]), PURE, lambda d, r: sum(d) + lap(r), total),
        Twin(
            "clamped after the noise",
            ([1.0], [1.0, 4.0]),
            PURE,
            lambda d, r: max(0.0, min(5.0, sum(d) + lap(r))),
            total,
        ),
        Twin(
            "not a number passes",
            ([1.0], [1.0, nan]),
            PURE,
            lambda d, r: sum(d) + lap(r),
            lambda d, r: clamped(x for x in d if x == x) + lap(r),
        ),
        Twin(
            "clip forgotten",
            ([0.5], [0.5, 5.0]),
            GDP,
            lambda d, r: sum(d) + gau(r),
            lambda d, r: clamped(d, -1) + gau(r),
        ),
        Twin("clipped by coordinate", long_gradients, GDP, by_coordinate, by_norm),
        Twin("clipped by micro-batch", ([-1.0], [-1.0, 2.0]), GDP, micro, lambda d, r: clamped(d, -1) + gau(r)),
        Twin("unbounded intercept", points, PURE, line(math.inf), line(1.0)),
    ]


def leaking() -> list[Twin]:
    """Something beside the noisy answer."""
    keys = ts.approx_dp(epsilon=1, delta=0.01)
    names = ({"a": 30}, {"a": 30, "b": 1})

    def labels(threshold: float | None) -> Release:
        def found(data: Any, rng: Rng) -> dict[str, float]:
            noisy = {key: size + lap(rng) for key, size in sorted(data.items())}
            return noisy if threshold is None else {key: size for key, size in noisy.items() if size > threshold}

        return found

    def true_threshold(data: Any, rng: Rng) -> list[str]:
        return [key for key, size in sorted(data.items()) if size > 0]

    def kept(data: Any, rng: Rng) -> list[str]:
        return list(labels(6.0)(data, rng))

    def failing(data: Any, rng: Rng) -> float:
        if max(data) > 1.0:
            raise ValueError("out of bounds")
        return total(data, rng)

    def steps(data: Any, rng: Rng) -> tuple[float, int]:
        return total(data, rng), math.ceil(math.log2(1 + sum(data)))

    few, enough = [1.0] * 4, [1.0] * 5
    return [
        Twin("forgotten count", (NINE, TEN), PURE, lambda d, r: (clamped(d) + lap(r), len(d)), total),
        Twin("labels learned from the data", names, keys, labels(None), labels(6.0)),
        Twin("threshold too low", names, keys, labels(2.0), labels(6.0)),
        Twin("threshold on the true counts", names, keys, true_threshold, kept),
        Twin(
            "empty groups left out",
            ({"x": 1}, {}),
            PURE,
            lambda d, r: {k: v + lap(r) for k, v in d.items()},
            lambda d, r: {"x": d.get("x", 0) + lap(r)},
        ),
        Twin("fails on a value out of bounds", ([1.0], [1.0, 9.0]), PURE, failing, total),
        Twin(
            "no answer for fewer than five",
            (few, enough),
            PURE,
            lambda d, r: total(d, r) if len(d) >= 5 else None,
            total,
        ),
        Twin("number of iterations told", ([1.0] * 7, [1.0] * 8), PURE, steps, total),
        Twin(
            "training loss told",
            (NINE, [*NINE, 0.0]),
            PURE,
            lambda d, r: (total(d, r), sum((x - 1) ** 2 for x in d)),
            total,
        ),
        Twin("as many rows as people", ([1.0] * 3, [1.0] * 4), PURE, lambda d, r: laps([0.0] * len(d), r), count),
    ]


def floating() -> list[Twin]:
    """Floating-point numbers and lattices."""
    return [
        Twin("low bits (Laplace)", (0.0, 1.0), PURE, lambda d, r: d + r.laplace(), lambda d, r: d + lap(r)),
        Twin("low bits (Gaussian)", (0.0, 1.0), GDP, lambda d, r: d + r.normal(), lambda d, r: d + gau(r)),
        Twin(
            "noise on the lattice, data off it",
            (0.25, 0.75),
            PURE,
            lambda d, r: d + round(r.laplace()),
            lambda d, r: round(2 * d - 0.5) / 2 + lap(r),
        ),
        Twin(
            "rounded to a lattice that the data choose",
            (NINE, TEN),
            PURE,
            lambda d, r: round((len(d) + lap(r)) * len(d)) / len(d),
            count,
        ),
    ]


def sampled() -> list[Twin]:
    """Batches: one record is there (1) or not (0); eight steps, or one."""
    sigma = 0.3
    eighth = ts.gaussian(sigma=1).sampled(rate=0.125)
    run = 8 * ts.gaussian(sigma=sigma).sampled(rate=0.125)

    def epoch(data: int, rng: Rng) -> list[float]:
        mine = rng.integers(8)
        return [gau(rng, sigma) + (data if step == mine else 0) for step in EIGHT]

    def poisson(rate: float, steps: int, noise: float) -> Release:
        return lambda data, rng: [gau(rng, noise) + data * (rng.random() < rate) for _ in range(steps)]

    def batch(data: Any, rng: Rng, told: bool) -> Any:
        inside = [x for x in data if rng.random() < 0.5]
        noisy = clamped(inside, -1) + gau(rng)
        return (noisy, len(inside)) if told else noisy

    def divided(data: Any, rng: Rng) -> float:
        inside = [x for x in data if rng.random() < 0.5]
        return (clamped(inside, -1) + gau(rng)) / max(1, len(inside))

    def repeated(data: int, rng: Rng) -> list[float]:
        return [gau(rng, sigma) + data * int(rng.binomial(8, 1 / 8)) for _ in EIGHT]

    half = ts.gaussian(sigma=1).sampled(rate=0.5)
    people = ([0.0] * 3, [0.0] * 4)
    honest_batch: Release = lambda d, r: batch(d, r, False)  # noqa: E731
    return [
        Twin("shuffled as Poisson", (0, 1), run, epoch, poisson(0.125, 8, sigma), 10_000),
        Twin("sampled with replacement as Poisson", (0, 1), run, repeated, poisson(0.125, 8, sigma), 10_000),
        Twin("amplification claimed, nothing sampled", (0, 1), eighth, poisson(1.0, 1, 1.0), poisson(0.125, 1, 1.0)),
        Twin("half of the true rate claimed", (0, 1), run, poisson(0.25, 8, sigma), poisson(0.125, 8, sigma), 10_000),
        Twin("batch size leaked", people, half, lambda d, r: batch(d, r, True), honest_batch, 20_000),
        Twin("divided by the realised batch", ([1.0] * 2, [1.0] * 3), half, divided, honest_batch),
        Twin("noise for the mean, sum released", (0, 1), run, poisson(0.125, 8, sigma / 8), poisson(0.125, 8, sigma)),
    ]


def chosen() -> list[Twin]:
    """Selection and local answers."""
    scores = ((0, 3, 3, 3), (1, 2, 2, 2))
    stream, turned = ((0,) * 16, (1,) * 16), ((0,) * 8 + (1,) * 8, (1,) * 8 + (0,) * 8)

    def exponential(rate: float) -> Release:
        def pick(data: Any, rng: Rng) -> int:
            cumulative = weights(tuple(data), rate)
            return int(np.searchsorted(cumulative, rng.random(), side="right"))

        return pick

    def noisy_max(told: bool) -> Release:
        def pick(data: Any, rng: Rng) -> Any:
            noisy = laps(data, rng, 2.0)
            best = int(np.argmax(noisy))
            return (best, *noisy) if told else best

        return pick

    def above(threshold_noise: float, hits: int, told: bool = False) -> Release:
        def answers(data: Any, rng: Rng) -> list[Any]:
            threshold, found, left = 0.5 + threshold_noise * rng.laplace(), [], hits
            for value in data:
                noisy = value + rng.laplace(scale=4.0)
                found.append(round(noisy, 1) if told and noisy >= threshold else bool(noisy >= threshold))
                left -= noisy >= threshold
                if left == 0:
                    break
            return found

        return answers

    def truthful(probability: float, times: int = 1) -> Release:
        return lambda data, rng: [data if rng.random() < probability else 1 - data for _ in range(times)]

    def best_of(runs: int) -> Release:
        return lambda data, rng: max(len(data) + lap(rng) for _ in range(runs))

    tell = math.e / (1 + math.e)
    return [
        Twin("exponential mechanism without the half", scores, PURE, exponential(1.0), exponential(0.5)),
        Twin("noisy maximum, all scores told", scores, PURE, noisy_max(True), noisy_max(False)),
        Twin("sparse vector without noise on the threshold", stream, PURE, above(0.0, 99), above(2.0, 1), 20_000),
        Twin("sparse vector, every hit for one cost", turned, PURE, above(2.0, 99), above(2.0, 1), 20_000),
        Twin("randomized response, too truthful", (0, 1), PURE, truthful(0.85), truthful(tell)),
        Twin("randomized response, asked again", (0, 1), PURE, truthful(tell, 2), truthful(tell)),
        Twin("best of ten runs for the cost of one", (NINE, TEN), PURE, best_of(10), count, 20_000),
    ]


@lru_cache
def weights(scores: tuple[float, ...], rate: float) -> Any:
    values = np.exp(rate * np.array(scores, dtype=float))
    return np.cumsum(values / values.sum())


TWINS = [*scaled(), *adjacent(), *reused(), *bounded(), *leaking(), *floating(), *sampled(), *chosen()]


HEAD = """# Broken twins

{count} mechanisms that were broken on purpose, each beside an honest one that makes the same claim
(`tests/unit/audit/twins.py`, from which this page is written). `make test` attacks a part of them with fixed seeds;
`make campaign-audit` attacks all of them again and again, and counts honest ones that were rejected
([results](../../benchmarks/results/audit.md)).

| what is wrong | claimed | neighbours |
|---|---|---|
"""


def page() -> str:
    """docs/reference/broken-twins.md."""
    rows = [f"| {twin.fault} | `{twin.claim}` | {_short(twin.neighbours)} |\n" for twin in TWINS]
    return HEAD.format(count=len(TWINS)) + "".join(rows)


def _short(neighbours: tuple[Any, Any]) -> str:
    first, second = (str(data) for data in neighbours)
    return f"`{first}`, `{second}`" if len(first) + len(second) < 60 else "one record more"
