"""Estimating a mean of people's own answers, E|X|^k <= 1, at the rate of Theorem 4.1 (``ts.theorems.local_rate``)."""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.errors import InvalidInput


def open_mean_rate(*, count: int) -> float:
    """Without privacy: 1/n (Definition 4.2).

    >>> open_mean_rate(count=100)
    0.01
    """
    return 1 / check.count("count", count, least=1)


def local_clamp(*, count: int, epsilon: float, moments: float) -> float:
    """Where to clamp so that local Laplace noise attains the rate of Theorem 4.1: (n eps^2)^{1/(2k)}.

    Clamping at T biases the mean by at most T^{1-k} and adds noise 8 T^2 / (n eps^2); both squared are of that rate.

    >>> round(local_clamp(count=10_000, epsilon=1.0, moments=2), 6)
    10.0
    """
    people, e = check.count("count", count, least=1), check.positive("epsilon", epsilon)
    if math.isinf(_moments(moments)):
        return 1.0
    return math.exp(max(0.0, math.log(people) + 2 * math.log(e)) / (2 * moments))


def local_clamp_error(*, count: int, epsilon: float, moments: float) -> float:
    """Mean squared error of that estimator, from above: bias T^{2-2k}, noise 8 T^2 / (n eps^2), sampling 1/n.

    >>> round(local_clamp_error(count=10_000, epsilon=1.0, moments=2), 4)
    0.0901
    """
    clamp = local_clamp(count=count, epsilon=epsilon, moments=moments)
    bias = 0.0 if math.isinf(moments) else clamp ** (2 - 2 * moments)
    noise = clamp / epsilon
    return bias + 8 * noise * noise / count + 1 / count


def _moments(moments: float) -> float:
    if isinstance(moments, bool) or not isinstance(moments, (int, float)) or not moments >= 2:
        raise InvalidInput("moments", moments, "a number k >= 2, or math.inf for bounded data")
    return float(moments)
