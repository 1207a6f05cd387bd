"""Renyi divergence and Renyi DP: chapter 12 and the RDP/zCDP notes, with their misprints put right."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import SLACK, delta_down, delta_up, up
from tallystick.theorems import require
from tallystick.theorems.require import Floats


def renyi_divergence(p: Sequence[float] | Floats, q: Sequence[float] | Floats, *, order: float) -> float:
    """D_order(P||Q) of a finite pair, orders 1 (Kullback-Leibler) and infinity (max-divergence) included.

    Definition 12.1 and Remark 12.1 of the lecture notes. Erratum 15: order 1 is E_P[log p/q], not E_P[p/q], and
    the supremum at infinity runs over the support of **P**, so P-mass outside the support of Q makes it infinite;
    page ``theory/renyi-divergence.md``. Rounded up.

    >>> round(renyi_divergence([0.5, 0.5], [0.25, 0.75], order=2), 6)
    0.287682
    >>> renyi_divergence([0.5, 0.5], [1.0, 0.0], order=math.inf)
    inf
    """
    return divergence_of_masses(*require.pair(p, q), order=order)


def renyi_of_joint(
    p: Sequence[float] | Floats,
    q: Sequence[float] | Floats,
    *,
    p_given: Sequence[Sequence[float]],
    q_given: Sequence[Sequence[float]],
    order: float,
) -> tuple[float, float]:
    """The divergence of two joint laws, and its bound by the chain rule: D(P||Q) + the worst D(P_x||Q_x).

    ``p_given[x]`` is the law of the second part where the first one is x. The chain rule of the composition notes (000;
    Bun and Steinke 2016, Lemma 2.2), an equality for independent parts; that epsilons of Renyi DP add is read off it.
    Page ``theory/rdp-composition.md``. Both rounded up.

    >>> exact, chained = renyi_of_joint([0.5, 0.5], [0.25, 0.75], p_given=[[1, 0], [0.5, 0.5]],
    ...     q_given=[[0.5, 0.5], [0.5, 0.5]], order=2)
    >>> round(exact, 6), round(chained, 6)
    (0.847298, 0.980829)
    """
    first, second = require.pair(p, q)
    if not len(p_given) == len(q_given) == first.size:
        raise InvalidInput(
            "p_given", f"{len(p_given)} and {len(q_given)} laws", f"one for each of {first.size} outcomes"
        )
    pairs = [require.pair(one, other) for one, other in zip(p_given, q_given, strict=True)]
    seen = [i for i in range(first.size) if first[i] > 0.0]
    joint = [np.concatenate([law[i] * pairs[i][k] for i in range(first.size)]) for k, law in enumerate((first, second))]
    # a mass of Q that vanishes in floating point makes the divergence infinite, which is the safe side
    whole = divergence_of_masses(*joint, order=order)
    worst = max(divergence_of_masses(*pairs[i], order=order) for i in seen)
    return whole, up(divergence_of_masses(first, second, order=order) + worst)


def divergence_of_masses(first: Floats, second: Floats, *, order: float) -> float:
    """Return the divergence of masses as they are: they are not normalised.

    >>> round(divergence_of_masses(np.array([0.5, 0.5]), np.array([0.25, 0.75]), order=2), 6)
    0.287682
    """
    order = require.order_or_limit("order", order)
    seen = first > 0.0
    if bool(np.any(second[seen] == 0.0)):
        return math.inf
    losses, rounding = _losses(first[seen], second[seen])
    if math.isinf(order):
        return up(max(0.0, float(np.max(losses)) + rounding))
    if order == 1.0:
        return up(max(0.0, math.fsum((first[seen] * losses).tolist()) + rounding))
    return up(max(0.0, log_moment_of(first[seen], losses, order - 1.0) / (order - 1.0) + rounding))


def log_moment_of(masses: Floats, losses: Floats, moment: float) -> float:
    """log E[e^(moment L)], rounded up; the losses themselves count as exact.

    >>> round(log_moment_of(np.array([0.5, 0.5]), np.array([0.0, 1.0]), 1.0), 6)
    0.620115
    """
    peak = float(np.max(losses))
    if moment * float(np.max(np.abs(losses))) < 1.0:
        # near one, what exceeds it is summed: 1 + S, with S known to a few ulps of its largest part
        parts = masses * np.expm1(moment * losses)
        lift = math.fsum(parts.tolist()) + 1e-15 * float(np.max(np.abs(parts)))
        return math.log1p(max(lift, -0.5))
    with np.errstate(over="ignore", under="ignore"):
        below = np.exp(moment * (losses - peak))
    return up(moment * peak + math.log(math.fsum((masses * below).tolist())) + 4e-15 + 1e-15 * moment * abs(peak))


def gaussian_renyi(*, order: float, sigma: float, sensitivity: float = 1.0) -> float:
    """D_order(N(0, s^2) || N(d, s^2)) = order d^2 / (2 s^2).

    Proposition 12.2 of the lecture notes; the RDP notes (001) type epsilon for order (erratum 16); Definition 1.6 of
    the amplification note (004) is its supremum over shifts; page ``theory/gaussian-renyi.md``. Rounded up.

    >>> round(gaussian_renyi(order=4, sigma=2), 9)
    0.5
    """
    a, s = check.positive("order", order), check.positive("sigma", sigma)
    if a < 1.0:
        raise InvalidInput("order", order, "a Renyi order >= 1")
    shift = check.nonnegative("sensitivity", sensitivity) / s
    return up(a * shift * shift / 2.0, positive=sensitivity > 0.0)


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
        return up(min(e, e * math.tanh(e / 2.0) + (order - 1.0) * e * e), positive=True)
    x = order - 1.0
    # log cosh(u + w) - log cosh(u), u = eps/2, w = x eps, as w + log1p((e^(-2w) - 1)/(e^(2u) + 1)): nothing overflows
    inner = math.expm1(-2.0 * x * e) / (math.exp(min(e, 700.0)) + 1.0)
    # for small epsilon the two parts cancel: their rounding is a few ulps of epsilon
    exact = (x * e + math.log1p(inner)) / x if x * e < math.inf else e
    return up(min(e, order * e * e / 2.0, exact + 1e-15 * e + 1e-15 / x), positive=True)


def pure_to_renyi_printed(*, order: float, epsilon: float) -> float:
    """order epsilon^2 / 2, the form of Theorem 12.1: valid, weaker than ``randomized_response_renyi``.

    >>> round(pure_to_renyi_printed(order=2, epsilon=1.0), 9)
    1.0
    """
    a = check.positive("order", order)
    e = check.nonnegative("epsilon", epsilon)
    return up(a * e * e / 2.0, positive=e > 0.0)


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
    # what the exponents may be wrong by
    wrong = min(1.0, SLACK + 1e-15 * (e - math.log(p) * a / (a - 1.0)))
    low = math.exp(-e + math.log(p) * a / (a - 1.0))
    high = math.exp(min(0.0, (e + math.log(p)) * (a - 1.0) / a))
    return delta_down(low, slack=wrong), delta_up(high, slack=wrong, positive=True)


def _losses(p: Floats, q: Floats) -> tuple[Floats, float]:
    """log p/q of positive masses, and how far it may be from the logarithm of the true ratio, all outcomes alike."""
    with np.errstate(over="ignore", under="ignore"):
        ratio = p / q
    plain = (ratio > 1e-300) & (ratio < 1e300)
    losses = np.where(plain, np.log(np.where(plain, ratio, 1.0)), np.log(p) - np.log(q))
    # masses are divided by their total: one ulp each, one for the ratio, and those of the logarithm
    logs = 0.0 if bool(np.all(plain)) else float(np.max(np.abs(np.log(p)) + np.abs(np.log(q))))
    return losses, 1e-15 + 4e-16 * (float(np.max(np.abs(losses))) + logs)
