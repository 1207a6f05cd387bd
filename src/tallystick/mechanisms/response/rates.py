"""How much the local model costs: minimax rates of estimating a mean (Theorems 4.1 and 4.2).

The class: E|X|^k <= 1. Each function gives the rate of the mean squared error without its constant: ratios and growth
mean something, single values do not.
"""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.errors import InvalidInput


def local_mean_rate(*, count: int, epsilon: float, moments: float = math.inf) -> float:
    """Theorem 4.1 (Duchi, Jordan and Wainwright 2018): (1 / (n eps^2))^{(k-1)/k} under eps-LDP, for eps <= 1.

    >>> local_mean_rate(count=10_000, epsilon=1.0, moments=2)
    0.01
    """
    power = _power(moments)
    return float((1 / (check.count("count", count, least=1) * check.positive("epsilon", epsilon) ** 2)) ** power)


def central_mean_rate(*, count: int, epsilon: float, moments: float = math.inf) -> float:
    """Theorem 4.2 (Barber and Duchi 2014): 1/n + (1 / (n eps)^2)^{(k-1)/k} under eps-DP.

    >>> round(central_mean_rate(count=10_000, epsilon=1.0, moments=2), 6)
    0.0002
    """
    power = _power(moments)
    size = check.count("count", count, least=1)
    return float(1 / size + (1 / (size * check.positive("epsilon", epsilon)) ** 2) ** power)


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
    effective = check.count("count", count, least=1) * check.positive("epsilon", epsilon) ** 2
    return 1.0 if math.isinf(_moments(moments)) else float(max(effective, 1.0) ** (1 / (2 * moments)))


def local_clamp_error(*, count: int, epsilon: float, moments: float) -> float:
    """Mean squared error of that estimator, from above: bias T^{2-2k}, noise 8 T^2 / (n eps^2), sampling 1/n.

    >>> round(local_clamp_error(count=10_000, epsilon=1.0, moments=2), 4)
    0.0901
    """
    clamp = local_clamp(count=count, epsilon=epsilon, moments=moments)
    bias = 0.0 if math.isinf(moments) else clamp ** (2 - 2 * moments)
    return bias + 8 * clamp**2 / (count * epsilon**2) + 1 / count


def _moments(moments: float) -> float:
    if isinstance(moments, bool) or not isinstance(moments, (int, float)) or not moments >= 2:
        raise InvalidInput("moments", moments, "a number k >= 2, or math.inf for bounded data")
    return float(moments)


def _power(moments: float) -> float:
    order = _moments(moments)
    return 1.0 if math.isinf(order) else (order - 1) / order
