"""Tests on noisy numbers whose level counts the noise (docs/theory/inference.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.contrasts import same_sample
from tallystick.inference.interval import ASYMPTOTIC, FINITE, Holds
from tallystick.inference.means import Mean
from tallystick.inference.noise import Floats, Noise
from tallystick.inference.released import Released


@dataclass(frozen=True, slots=True)
class Verdict:
    """A p-value: under the hypothesis it is at most a with probability at most a.

    >>> Verdict(0.01, "two shares are equal", "asymptotic").rejects(level=0.05)
    True
    """

    p_value: float
    hypothesis: str
    holds: Holds

    def rejects(self, *, level: float = 0.05) -> bool:
        """True if the hypothesis is rejected at this level."""
        return self.p_value <= check.inside("level", level)

    def __str__(self) -> str:
        return f"p = {self.p_value:.4g} if {self.hypothesis} ({self.holds})"


def share_equals(answer: Released, share: float) -> Verdict:
    """Is the population share this one? Exact: twice the smaller tail of Binomial plus noise.

    >>> from tallystick.inference.noise import Noise
    >>> share_equals(Released(412, Noise.gaussian(sigma=10), of=10_000), 0.05).rejects()
    True
    """
    p = check.probability("share", share)
    tails = answer.law.at_most(answer.value, p), answer.law.at_least(answer.value, p)
    return Verdict(min(1.0, 2.0 * min(tails)), f"the share of {answer.about} is {p:g}", FINITE)


def mean_equals(answer: Mean, mean: float) -> Verdict:
    """Is the clamped mean of the population this one?

    >>> from tallystick.inference.noise import Noise
    >>> stay = Mean(Released(4000, Noise.gaussian(sigma=50)), count=1000, bounds=(0, 20))
    >>> mean_equals(stay, 4.0).p_value
    1.0
    """
    low, high = answer.bounds
    wanted = check.between("mean", mean, low, high)
    p = 1.0  # every mean is possible where the released count does not exclude 0
    if answer.has_value:
        gap = abs(answer.value - wanted) - answer.half_row
        p = _two_sided(gap, answer.standard_error(wanted), answer.noises)
    return Verdict(p, f"the {answer.described} is {wanted:g}", ASYMPTOTIC)


def same_share(left: Released, right: Released, *, draws: int = 999, seed: int = 0) -> Verdict:
    """Do two independent samples come from populations with one share? The null is simulated, noise and all.

    The common share is not known: the p-value is the largest over those that both samples allow, all but with chance
    1 / (draws + 1), which is added (Berger and Boos 1994). So it is never below 2 / (draws + 1).

    >>> from tallystick.inference.noise import Noise
    >>> noise = Noise.gaussian(sigma=5)
    >>> same_share(Released(300, noise, of=1000), Released(200, noise, of=1000)).rejects(level=0.01)
    True
    """
    for one in (left, right):
        if one.shown_from is not None:
            raise InvalidInput("shown_from", one.shown_from, "cells that are shown for every value")
    if same_sample(left, right) or left is right:
        raise Refused(
            "no test: two cells of one release may count the same units, and the test is about independent samples. "
            "Try: difference(left, right).population_interval(), which allows for it"
        )
    sizes, times = (left.law.n, right.law.n), check.count("draws", draws, least=99)
    noises = [(one.noise.deviation / size) ** 2 for one, size in zip((left, right), sizes, strict=True)]
    weights = [1.0 / (0.25 / size + noise) for size, noise in zip(sizes, noises, strict=True)]

    def statistic(first: Floats, second: Floats) -> Floats:
        shares = first / sizes[0], second / sizes[1]
        pooled = np.clip((weights[0] * shares[0] + weights[1] * shares[1]) / sum(weights), 0.0, 1.0)
        spread = pooled * (1.0 - pooled) * (1.0 / sizes[0] + 1.0 / sizes[1])
        return np.asarray((shares[0] - shares[1]) ** 2 / (spread + sum(noises)))

    found = float(statistic(np.array([left.value]), np.array([right.value]))[0])
    drawn = left.noise.drawn(times, seed), right.noise.drawn(times, seed + 1)
    left_out, worst = 1.0 / (times + 1), 0.0
    for share in _common_shares(left, right, left_out):
        random = np.random.default_rng(seed)  # the same for every share, so that the worst is not the luckiest
        null = statistic(
            random.binomial(sizes[0], share, times) + drawn[0], random.binomial(sizes[1], share, times) + drawn[1]
        )
        worst = max(worst, _rank(null, found))
    hypothesis = f"{left.about} and {right.about} have one share, in independent samples"
    return Verdict(min(1.0, worst + left_out), hypothesis, ASYMPTOTIC)


def _common_shares(left: Released, right: Released, miss: float) -> list[float]:
    """Shares over what both samples allow, each at half of ``miss``; the nearest one where they allow nothing."""
    first, second = (one.population_interval(confidence=1.0 - miss / 2.0) for one in (left, right))
    low, high = max(first.lower, second.lower), min(first.upper, second.upper)
    return np.linspace(low, high, 9).tolist() if low < high else [min(1.0, max(0.0, (low + high) / 2.0))]


def same_mean(left: Mean, right: Mean) -> Verdict:
    """Do two independent samples come from populations with one clamped mean?

    The difference is compared with its largest standard error over the common means between the two estimates.

    >>> from tallystick.inference.noise import Noise
    >>> a, b = (Mean(Released(total, Noise.gaussian(sigma=50)), count=1000, bounds=(0, 20)) for total in (4000, 7000))
    >>> same_mean(a, b).rejects(level=0.01)
    True
    """
    if left.bounds != right.bounds:
        raise InvalidInput("bounds", (left.bounds, right.bounds), "means of values clamped to the same bounds")
    hypothesis = f"the {left.described} and the {right.described} are equal, in independent samples"
    if not (left.has_value and right.has_value):
        return Verdict(1.0, hypothesis, ASYMPTOTIC)
    common = np.linspace(left.value, right.value, 65).tolist()
    error = max(math.hypot(left.standard_error(mean), right.standard_error(mean)) for mean in common)
    gap = abs(left.value - right.value) - left.half_row - right.half_row
    p = _two_sided(gap, error, (*left.noises, *right.noises))
    return Verdict(p, hypothesis, ASYMPTOTIC)


def _two_sided(gap: float, error: float, noises: Sequence[Noise]) -> float:
    if gap <= 0.0:
        return 1.0
    return max(noise.two_sided(gap / error if error > 0.0 else math.inf) for noise in noises)


def independent(table: Sequence[Sequence[float]], *, noise: object, draws: int = 999, seed: int = 0) -> Verdict:
    """Are the two attributes of a table of noisy counts independent? Chi-square against a simulated, noisy null.

    The null has the table's own margins and every cell's noise (Gaboardi, Lim, Rogers and Vadhan 2016). Cells are
    counted against their expectation and the variance of their noise, so that noise is not taken for dependence.

    >>> from tallystick.inference.noise import Noise
    >>> independent([[80, 20], [20, 80]], noise=Noise.gaussian(sigma=5)).rejects(level=0.01)
    True
    """
    allowed = "at least two rows of at least two noisy counts"
    try:
        counts = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("table", "not numbers", allowed) from None
    if counts.ndim != 2 or min(counts.shape) < 2 or not np.all(np.isfinite(counts)):
        raise InvalidInput("table", f"an array of shape {counts.shape}", allowed)
    law, times = Noise.of(noise), check.count("draws", draws, least=99)  # type: ignore[arg-type]
    size = round(float(counts.sum()))
    if size <= 3.0 * law.deviation * math.sqrt(counts.size):
        raise Refused("no test: the total is within its noise of zero. Try: more rows, or more budget")
    expected = _expected(counts[None])[0]
    random = np.random.default_rng(seed)
    null = random.multinomial(size, (expected / expected.sum()).ravel(), times).astype(np.float64)
    null += law.drawn(times * counts.size, seed).reshape(times, counts.size)
    simulated = _chi_square(null.reshape(times, *counts.shape), law.deviation**2)
    return Verdict(
        _rank(simulated, float(_chi_square(counts[None], law.deviation**2)[0])),
        "rows and columns are independent",
        ASYMPTOTIC,
    )


def _expected(tables: Floats) -> Floats:
    """Products of the margins, at least half a count each: a noisy margin may be negative."""
    rows = np.maximum(tables.sum(axis=2, keepdims=True), 0.5)
    columns = np.maximum(tables.sum(axis=1, keepdims=True), 0.5)
    total = np.maximum(tables.sum(axis=(1, 2), keepdims=True), 1.0)
    return np.asarray(rows * columns / total)


def _chi_square(tables: Floats, variance: float) -> Floats:
    expected = _expected(tables)
    return np.asarray(((tables - expected) ** 2 / (expected + variance)).sum(axis=(1, 2)))


def _rank(null: Floats, found: float) -> float:
    """The share of simulated and observed statistics that are at least as large as the observed one."""
    return float((1 + np.count_nonzero(null >= found * (1.0 - 1e-12))) / (1 + null.size))
