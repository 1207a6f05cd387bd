"""Renyi divergence and Renyi DP: chapter 12 and the RDP/zCDP notes, with their misprints put right."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.theorems import require
from tallystick.theorems.require import Floats
from tallystick.theorems.rounding import delta_down, delta_up, up


def renyi_divergence(p: Sequence[float] | Floats, q: Sequence[float] | Floats, *, order: float) -> float:
    """D_order(P||Q) of a finite pair, orders 1 (Kullback-Leibler) and infinity (max-divergence) included.

    Definition 12.1 and Remark 12.1 of the lecture notes. Erratum 15: order 1 is E_P[log p/q], not E_P[p/q], and
    the supremum at infinity runs over the support of **P**, so P-mass where Q has none makes it infinite;
    page ``theory/renyi-divergence.md``. Rounded up.

    >>> round(renyi_divergence([0.5, 0.5], [0.25, 0.75], order=2), 6)
    0.287682
    >>> renyi_divergence([0.5, 0.5], [1.0, 0.0], order=math.inf)
    inf
    """
    first, second = require.pair(p, q)
    order = require.order_or_limit("order", order)
    seen = first > 0.0
    if bool(np.any(second[seen] == 0.0)):
        return math.inf
    losses = np.log(first[seen]) - np.log(second[seen])
    # the worst rounding error is absolute in the losses; the divergence itself is never negative
    noise = 4e-16 * float(np.max(np.abs(losses), initial=0.0) + 1.0)
    if math.isinf(order):
        return up(max(0.0, float(np.max(losses)) + noise))
    if order == 1.0:
        return up(max(0.0, math.fsum((first[seen] * losses).tolist()) + noise))
    exponent = (order - 1.0) * losses
    peak = float(np.max(exponent))
    log_moment = peak + math.log(math.fsum((first[seen] * np.exp(exponent - peak)).tolist()))
    return up(max(0.0, log_moment / (order - 1.0) + noise * (1.0 + 1.0 / (order - 1.0))))


def gaussian_renyi(*, order: float, sigma: float, sensitivity: float = 1.0) -> float:
    """D_order(N(0, s^2) || N(d, s^2)) = order d^2 / (2 s^2).

    Proposition 12.2 of the lecture notes; seed 001 types epsilon for order (erratum 16); Definition 1.6 of seed 004
    is its supremum over shifts; page ``theory/gaussian-renyi.md``. Rounded up.

    >>> round(gaussian_renyi(order=4, sigma=2), 9)
    0.5
    """
    a, s = check.positive("order", order), check.positive("sigma", sigma)
    if a < 1.0:
        raise InvalidInput("order", order, "a Renyi order >= 1")
    return up(a * (check.nonnegative("sensitivity", sensitivity) / s) ** 2 / 2.0)


def randomized_response_renyi(*, order: float, epsilon: float) -> float:
    """log(cosh((order - 1/2) eps)/cosh(eps/2))/(order - 1): the exact, greatest Renyi divergence of epsilon-DP.

    Orders 1 and infinity give eps tanh(eps/2) and eps. Page ``theory/pure-to-renyi.md``. Rounded up.

    >>> round(randomized_response_renyi(order=2, epsilon=1.0), 6)
    0.735326
    """
    e = check.nonnegative("epsilon", epsilon)
    order = require.order_or_limit("order", order)
    if e == 0.0 or math.isinf(order):
        return up(e)
    if order - 1.0 < 1e-6:
        # increasing in the order, with derivative at most eps^2/2 there
        return up(min(e, e * math.tanh(e / 2.0) + (order - 1.0) * e * e))
    x = order - 1.0
    # log cosh(u + w) - log cosh(u), u = eps/2, w = x eps, as w + log1p((e^(-2w) - 1)/(e^(2u) + 1)): nothing overflows
    inner = math.expm1(-2.0 * x * e) / (math.exp(min(e, 700.0)) + 1.0)
    # for small epsilon the two parts cancel: their rounding is a few ulps of epsilon
    return up(min(e, (x * e + math.log1p(inner)) / x + 1e-15 * e))


def pure_to_renyi_printed(*, order: float, epsilon: float) -> float:
    """order epsilon^2 / 2, the form of Theorem 12.1: valid, weaker than ``randomized_response_renyi``.

    >>> round(pure_to_renyi_printed(order=2, epsilon=1.0), 9)
    1.0
    """
    a = check.positive("order", order)
    return up(a * check.nonnegative("epsilon", epsilon) ** 2 / 2.0)


def event_probability_bounds(*, probability: float, order: float, epsilon: float) -> tuple[float, float]:
    """If M(X') lands in S with ``probability``, bounds on the probability that M(X) does, under (order, epsilon)-RDP.

    e^-eps p^(a/(a-1)) <= P[M(X) in S] <= (e^eps p)^((a-1)/a). Proposition 12.1 of the lecture notes; page
    ``theory/renyi-event.md``. The lower end is rounded down, the upper one up.

    >>> low, high = event_probability_bounds(probability=0.1, order=2, epsilon=0.5)
    >>> round(low, 6), round(high, 6)
    (0.006065, 0.406044)
    """
    p, a = check.probability("probability", probability), require.order("order", order)
    e = check.nonnegative("epsilon", epsilon)
    if p == 0.0:
        return 0.0, 0.0
    low = math.exp(-e + math.log(p) * a / (a - 1.0))
    high = math.exp(min(0.0, (e + math.log(p)) * (a - 1.0) / a))
    return delta_down(low), delta_up(high)
