"""What a noisy maximum does, exactly and for any noise: its law, what it loses, and why noise on a price is no way out.

Planning on public scores: nothing here is private, and nothing here draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import up

Floats = NDArray[np.float64]
_REACH, _NODES = 45.0, 12
_CELLS = 100_000


class Law(Protocol):
    """A continuous law of mean size about 1, such as a frozen one of scipy.stats."""

    def pdf(self, x: Any) -> Any:
        """Its density."""

    def cdf(self, x: Any) -> Any:
        """Its distribution function."""


@dataclass(frozen=True, slots=True)
class _Known:
    pdf: Callable[[Floats], Floats]
    cdf: Callable[[Floats], Floats]


def _laplace_cdf(x: Floats) -> Floats:
    small = np.exp(-np.abs(x)) / 2
    return np.asarray(np.where(x < 0, small, 1 - small))


_LAWS: dict[str, _Known] = {
    "laplace": _Known(lambda x: np.exp(-np.abs(x)) / 2, _laplace_cdf),
    "gaussian": _Known(lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi), ndtr),
    "gumbel": _Known(
        lambda x: np.exp(-x - np.exp(np.minimum(-x, 700))), lambda x: np.exp(-np.exp(np.minimum(-x, 700)))
    ),
    "exponential": _Known(lambda x: np.where(x > 0, np.exp(-np.abs(x)), 0.0), lambda x: -np.expm1(-np.maximum(x, 0.0))),
}


def noisy_max_law(scores: Sequence[float], *, noise: str | Law = "laplace", scale: float) -> Floats:
    """How likely each candidate is to have the largest score + scale * noise, to about 1e-9.

    ``noise`` is "laplace", "gaussian", "gumbel", "exponential", or a law with ``pdf`` and ``cdf``. One integral over
    the winning value: candidate i wins at x if its noise is x - s_i and everybody else's is less (Example 5.2;
    docs/theory/selection-noisy-max.md).

    >>> chances = noisy_max_law([100.0] + [90.0] * 999, scale=2.0)
    >>> round(float(chances[0]), 4), round(float(chances.sum()), 9)
    (0.1467, 1.0)
    >>> noisy_max_law([0.0, 2.0], noise="gumbel", scale=2.0).round(4).tolist()  # the exponential mechanism
    [0.2689, 0.7311]
    """
    given = _scores(scores)
    law, step = _law(noise), check.positive("scale", scale)
    each, place, counts = np.unique((given - given.max()) / step, return_inverse=True, return_counts=True)
    nodes, weights = _panels(each[each > -2 * _REACH])
    own = nodes[:, None] - each[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.asarray(law.cdf(own), dtype=np.float64)
        logs = np.log(below)
        together = logs @ counts
        others = np.exp(together[:, None] - logs)
    density = np.asarray(law.pdf(own), dtype=np.float64)
    chances = weights @ np.where(below > 0, density * others, 0.0)
    total = float(chances @ counts)
    if not abs(total - 1.0) < 1e-7:  # what is promised, and more is not hidden by dividing by it
        raise InvalidInput(
            "noise", "a law", "a continuous one with tails no heavier than exponential: pdf and cdf agree"
        )
    return np.asarray((chances / total)[place])


def noisy_max_gap(*, candidates: int, scale: float, noise: str | Law = "laplace") -> float:
    """Lemma 2 for any continuous symmetric noise: the expected loss of score is at most E|r_1| + E max_{2..k} |r_i|.

    E max of m sizes is the integral of 1 - G(x)^m, G the law of one size: a decreasing function, so that a sum of left
    ends is above it. Releasing all counts of m conditions and taking the largest has scale m/epsilon, the noisy
    maximum 2/epsilon (Example 5.1). docs/theory/selection-noisy-max.md

    >>> round(noisy_max_gap(candidates=1000, scale=2.0), 2), round(noisy_max_gap(candidates=1000, scale=1000.0))
    (16.97, 8485)
    >>> round(noisy_max_gap(candidates=1000, scale=2.0, noise="gaussian"), 2)
    8.47
    """
    count = check.count("candidates", candidates, least=1, most=1 << 62)
    step, law = check.positive("scale", scale), _law(noise)
    if isinstance(noise, str) and noise in ("gumbel", "exponential"):
        raise InvalidInput("noise", noise, "symmetric noise: 'laplace', 'gaussian', or a law with pdf and cdf")
    sizes = np.geomspace(1e-3, 1e3, 61)
    if not np.allclose(np.asarray(law.cdf(sizes)) + np.asarray(law.cdf(-sizes)), 1.0, atol=1e-9):
        raise InvalidInput("noise", "a law that is not symmetric around 0", "symmetric noise")
    if count == 1:
        return 0.0
    return up(step * (_mean_largest_size(law, 1) + _mean_largest_size(law, count - 1)), slack=1e-9)


def _mean_largest_size(law: _Known | Law, count: int) -> float:
    """E max of ``count`` sizes of a symmetric law, from above up to the mass beyond the last cell."""
    far = 1.0
    while count * 2.0 * float(law.cdf(np.array(-far))) > 1e-14:
        far *= 1.25
        if far > 1e6:
            raise InvalidInput("noise", "a law", "one whose largest size has a mean that can be computed")
    edges = np.linspace(0.0, far, _CELLS + 1)[:-1]
    beyond = 2.0 * np.asarray(law.cdf(-edges), dtype=np.float64)  # Pr[|r| > x]
    with np.errstate(divide="ignore"):
        heights = -np.expm1(count * np.log1p(-np.minimum(beyond, 1.0)))
    return float(heights.sum()) * far / _CELLS


@dataclass(frozen=True, slots=True)
class PumpkinPrices:
    """Example 7.1: the price of pumpkins, by the exponential mechanism and by noise on the best price."""

    prices: Floats
    revenue: Floats
    chances: Floats
    """of each price under the exponential mechanism"""
    noisy: Floats
    """of each price if Laplace noise is added to the best one; what falls outside sells nothing"""

    @property
    def best(self) -> float:
        """The largest revenue."""
        return float(self.revenue.max())

    @property
    def expected(self) -> float:
        """What the exponential mechanism earns on average."""
        return float(self.chances @ self.revenue)

    @property
    def expected_by_noise(self) -> float:
        """What noise on the best price earns on average."""
        return float(self.noisy @ self.revenue)


def pumpkin_prices(
    buyers: Sequence[float], *, epsilon: float, highest: float = 5.0, step: float = 0.01
) -> PumpkinPrices:
    """A price p earns p times the buyers who would pay it: a staircase with cliffs, which noise falls off.

    One buyer moves the revenue by at most ``highest``, the sensitivity of the exponential mechanism's score, and the
    best price by up to ``highest``, so noise on it has scale highest/epsilon. docs/theory/selection-exponential.md

    >>> sale = pumpkin_prices([1.0, 1.0, 1.0, 4.01] * 250, epsilon=1.0)
    >>> round(sale.best), round(sale.expected), round(sale.expected_by_noise)
    (1002, 994, 176)
    """
    values, top = np.sort(_scores(buyers)), check.positive("highest", highest)
    cells = math.floor(top / check.positive("step", step) + 0.5)
    if not 1 <= cells <= _CELLS:
        raise InvalidInput("step", step, f"one that cuts the range into 1 to {_CELLS} prices")
    prices: Floats = np.arange(cells + 1, dtype=np.float64) * (top / cells)
    # a price in cents is met by a buyer who would pay just that, whatever floats make of it
    revenue: Floats = prices * (values.size - np.searchsorted(values, prices - top / cells * 1e-6, side="left"))
    rate = check.positive("epsilon", epsilon) / (2 * top)
    weight = np.exp(rate * (revenue - revenue.max()))
    edges = (np.append(prices, prices[-1] + top / cells) - top / cells / 2 - prices[revenue.argmax()]) * (epsilon / top)
    return PumpkinPrices(prices, revenue, weight / weight.sum(), np.diff(_laplace_cdf(edges)))


def _scores(values: Sequence[float]) -> Floats:
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("scores", values, "a list of numbers") from None
    if given.ndim != 1 or given.size == 0 or not np.isfinite(given).all():
        raise InvalidInput("scores", values, "a list of finite numbers, at least one")
    return given


def _law(noise: str | Law) -> _Known | Law:
    if isinstance(noise, str):
        if noise not in _LAWS:
            raise InvalidInput("noise", noise, f"one of {', '.join(_LAWS)}, or a law with pdf and cdf")
        return _LAWS[noise]
    if not (callable(getattr(noise, "pdf", None)) and callable(getattr(noise, "cdf", None))):
        raise InvalidInput("noise", type(noise).__name__, "a law with pdf and cdf")
    return noise


def _panels(kinks: Floats) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes on short panels whose ends are the scores, where a density may have a kink."""
    grid = np.union1d(np.linspace(-_REACH, 2 * _REACH, 541), np.clip(kinks, -_REACH, 0.0))
    at, weight = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(grid) / 2
    nodes = (grid[:-1] + half)[:, None] + half[:, None] * at[None, :]
    return nodes.ravel(), (half[:, None] * weight[None, :]).ravel()
