"""Before anything is released: what a budget can show, what a question needs, and what a sample is still worth.

Normal approximations (their error is a few points of power at worst; tests compare them with simulations), made from
public numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.noise import Noise
from tallystick.mechanisms.response.choices import RandomizedResponse, UnaryEncoding

_LEAST, _MOST = 1e-4, 1e3  # budgets that are looked at


def effective_sample_size(noise: Any, *, of: int, share: float) -> float:
    """Number of answers without noise that would estimate the share as well as ``of`` answers with it do.

    ``noise`` is a central mechanism for the count, or a local one (``ts.response``) for every answer.

    >>> from tallystick.mechanisms.noise import add_discrete_laplace
    >>> from tallystick.mechanisms.response import randomize
    >>> round(effective_sample_size(add_discrete_laplace(epsilon=1), of=1000, share=0.5))
    993
    >>> round(effective_sample_size(randomize(epsilon=1), of=1000, share=0.5))
    214
    """
    size, p = check.count("of", of, least=1), check.inside("share", share)
    return p * (1.0 - p) / _variance(noise, size, p)


def power(noise: Any, *, difference: float, share: float, of: int, level: float = 0.05) -> float:
    """About the chance that two groups of ``of`` people each, whose shares differ by this much, are distinguished.

    By the normal approximation: right to a few points where many people or Gaussian noise decide, too high where
    Laplace noise does or a share is near 0 or 1 (0.40 for a true 0.24 at the worst seen).

    >>> from tallystick.mechanisms.noise import add_discrete_laplace
    >>> round(power(add_discrete_laplace(epsilon=0.1), difference=0.02, share=0.3, of=10_000), 3)
    0.833
    """
    size = check.count("of", of, least=1)
    first, second = _shares(share, difference)
    z = NormalDist().inv_cdf(1.0 - check.inside("level", level) / 2.0)
    middle = (first + second) / 2.0
    usual = math.sqrt(2.0 * _variance(noise, size, middle))
    real = math.sqrt(_variance(noise, size, first) + _variance(noise, size, second))
    gap = abs(second - first)
    return NormalDist().cdf((gap - z * usual) / real) + NormalDist().cdf((-gap - z * usual) / real)


def least_budget(
    make: Callable[[float], Any], *, difference: float, share: float, of: int, power: float = 0.8, level: float = 0.05
) -> float:
    """Least budget to detect this difference; ``make`` turns a budget into the mechanism of one group's count.

    Rounded up to a part in 10,000. Refused where no budget is enough: then more people are needed.

    >>> from tallystick.mechanisms.noise import add_discrete_laplace
    >>> make = lambda epsilon: add_discrete_laplace(epsilon=epsilon)
    >>> round(least_budget(make, difference=0.02, share=0.3, of=10_000), 3)
    0.07
    """
    wanted = check.inside("power", power)
    if not callable(make):
        raise InvalidInput("make", make, "a function of a budget that makes the noise: see the example")
    question = {"difference": difference, "share": share, "of": of, "level": level}
    if _power(None, question) < wanted:
        raise Refused(
            f"no budget is enough: {of} people in each group would not show this without noise. Try: about "
            f"{least_samples(None, difference=difference, share=share, power=power, level=level)} people in each group"
        )
    high = _LEAST
    while _power(make(high), question) < wanted:
        high *= 2.0
        if high > _MOST:
            raise Refused("no budget below 1000 is enough. Try: more people, or a larger difference")
    low = high / 2.0
    while high - low > 1e-4 * low:
        middle = (low + high) / 2.0
        low, high = (low, middle) if _power(make(middle), question) >= wanted else (middle, high)
    return high


def least_samples(noise: Any, *, difference: float, share: float, power: float = 0.8, level: float = 0.05) -> int:
    """Least number of people in each group to detect this difference through this noise (None: without noise).

    >>> least_samples(None, difference=0.02, share=0.3)
    8394
    """
    wanted, (first, second) = check.inside("power", power), _shares(share, difference)
    if first == second:
        raise InvalidInput("difference", difference, "a number that is not 0")
    low, high = 1, 2
    question = {"difference": difference, "share": share, "level": level}
    while _power(noise, {**question, "of": high}) < wanted:
        low, high = high, 2 * high
        if high > check.MAX_COUNT:
            raise Refused("more than a billion people would be needed. Try: a larger difference, or more budget")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(noise, {**question, "of": middle}) >= wanted else (middle, high)
    return high


def _power(noise: Any, question: dict[str, Any]) -> float:
    return power(noise, **question)


def _shares(share: float, difference: float) -> tuple[float, float]:
    first = check.probability("share", share)
    second = first + check.finite("difference", difference)
    if not 0.0 <= second <= 1.0:
        raise InvalidInput("difference", difference, f"one that leads from {first:g} to another share in [0, 1]")
    return first, second


def _variance(noise: Any, size: int, share: float) -> float:
    """Variance of the estimated share, over sampling and noise; never 0."""
    if isinstance(noise, RandomizedResponse | UnaryEncoding):
        return noise.variance(share=share, reports=size)
    deviation = 0.0 if noise is None else Noise.of(noise).deviation
    return max(share * (1.0 - share) / size + (deviation / size) ** 2, 1e-300)
