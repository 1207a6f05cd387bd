"""Do samples on two neighbours contradict a privacy claim? Exact binomial bounds, events chosen before looking.

The first fifth of the draws chooses the events (sets of outcomes sorted by how much likelier they are on one side);
the other four fifths are counted. Clopper-Pearson bounds hold for all events at once but once in 1e9 runs, so a
contradiction is a bug and the certified lower bound on epsilon is a lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from statistical.goodness import NEVER

Codes = NDArray[np.int64]
LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)  # parts of the claimed epsilon at which the whole profile is compared
PREFIXES = 60
SINGLES = 40
CELLS = 400


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lower`` is certified: no epsilon below it is true at this delta. ``draws`` is how many on each neighbour."""

    draws: int
    delta: float
    claimed: float
    lower: float
    contradicted: bool


def judge(left: NDArray[Any], right: NDArray[Any], claim: Any, *, delta: float = 0.0) -> Verdict:
    """Compare outputs (rows of numbers) on two neighbours with a loss, in both directions at several epsilons."""
    both = [np.atleast_2d(np.asarray(x, dtype=np.float64).T).T for x in (left, right)]
    looked = [x[: x.shape[0] // 5] for x in both]
    cells = Cells.of(np.concatenate(looked))
    ours, theirs = (cells.codes(x) for x in both)
    cut = [x.shape[0] // 5 for x in both]
    events = chosen_events(ours[: cut[0]], theirs[: cut[1]], cells.size)
    counted = [(x[n:], x.shape[0] - n) for x, n in zip((ours, theirs), cut, strict=True)]
    hits = [events @ np.bincount(part, minlength=cells.size) for part, _ in counted]
    low, high = bounds(hits[0], counted[0][1], len(events)), bounds(hits[1], counted[1][1], len(events))
    epsilon = float(claim.epsilon(delta=delta))
    levels = np.array(LEVELS) * epsilon
    profile = np.asarray(claim.delta(epsilon=levels), dtype=np.float64)
    contradicted, lower = False, 0.0
    for (at_least, _), (_, at_most) in ((low, high), (high, low)):
        contradicted |= bool((at_least[:, None] > np.exp(levels) * at_most[:, None] + profile).any())
        lower = max(lower, float(np.log(np.maximum(at_least - delta, 1e-300) / at_most).max()))
    return Verdict(draws=both[0].shape[0], delta=delta, claimed=epsilon, lower=lower, contradicted=contradicted)


def bounds(successes: NDArray[np.int64], trials: int, events: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Clopper-Pearson ends for every event, all right at once but with probability NEVER / 2."""
    tail = NEVER / (4 * events)
    low = np.where(successes > 0, betaincinv(np.maximum(successes, 1), trials - successes + 1, tail), 0.0)
    high = np.where(successes < trials, betaincinv(successes + 1, np.maximum(trials - successes, 1), 1 - tail), 1.0)
    return low, high


def chosen_events(ours: Codes, theirs: Codes, size: int) -> NDArray[np.int64]:
    """Indicator rows: the outcomes likeliest on one side, more and more of them, and the commonest alone."""
    counts = np.stack([np.bincount(x, minlength=size) for x in (ours, theirs)])
    ratio = np.log((counts[0] + 0.5) / (counts[1] + 0.5))
    order = np.argsort(-ratio, kind="stable")
    weight = np.cumsum(counts.sum(axis=0)[order])
    # prefixes that hold 1/PREFIXES, 2/PREFIXES, ... of the draws, and small ones at both ends
    shares = np.unique(np.concatenate((np.linspace(0, 1, PREFIXES + 1)[1:-1], 10.0 ** np.arange(-4, -1, 0.5))))
    shares = np.unique(np.concatenate((shares, 1 - shares)))
    places = np.unique(np.searchsorted(weight, shares * weight[-1]) + 1)
    prefixes = np.zeros((places.size, size), dtype=np.int64)
    for row, place in enumerate(places):
        prefixes[row, order[:place]] = 1
    common = np.argsort(-counts.sum(axis=0), kind="stable")[: min(SINGLES, size)]
    singles = np.zeros((common.size, size), dtype=np.int64)
    singles[np.arange(common.size), common] = 1
    return np.concatenate((prefixes, 1 - prefixes, singles))


@dataclass(frozen=True, slots=True)
class Cells:
    """A fixed map from rows of numbers to 0..size-1, made from the draws that were looked at."""

    points: tuple[NDArray[np.float64], ...]
    exact: tuple[bool, ...]

    @staticmethod
    def of(rows: NDArray[np.float64]) -> Cells:
        """Every value of a coordinate a cell if there are few of them, quantiles otherwise."""
        most = max(4, round(CELLS ** (1 / rows.shape[1])))
        points, exact = [], []
        for column in rows.T:
            seen = np.unique(column)
            exact.append(seen.size <= most)
            points.append(seen if exact[-1] else np.unique(np.quantile(column, np.linspace(0, 1, most + 1)[1:-1])))
        return Cells(tuple(points), tuple(exact))

    @property
    def size(self) -> int:
        return math.prod(points.size + 1 for points in self.points)

    def codes(self, rows: NDArray[np.float64]) -> Codes:
        code = np.zeros(rows.shape[0], dtype=np.int64)
        for column, points, exact in zip(rows.T, self.points, self.exact, strict=True):
            cell = np.searchsorted(points, column)
            if exact:  # a value that was not seen goes to the last cell
                cell = np.where(points[np.minimum(cell, points.size - 1)] == column, cell, points.size)
            code = code * (points.size + 1) + cell
        return code
