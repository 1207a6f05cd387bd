"""From one definition of privacy to another, in every direction that is a theorem.

Absent directions are absent because they are false: (epsilon, delta) says nothing finite about Renyi divergence,
and a Renyi curve does not determine the trade-off function (Proposition 13.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tallystick.accounting import check, gdp
from tallystick.rounding import delta_up, exp, expm1, up
from tallystick.theorems import require
from tallystick.theorems.minimise import least


def pure_to_zcdp(*, epsilon: float) -> float:
    """epsilon-DP is (epsilon tanh(epsilon/2))-zCDP, the least rho possible; below epsilon^2/2.

    tanh is concave on the right, so log cosh grows slower than its quadratic chord: D_a <= a eps tanh(eps/2), with
    equality at order 1. Page ``theory/pure-to-zcdp.md``. Rounded up.

    >>> round(pure_to_zcdp(epsilon=1.0), 6)
    0.462117
    """
    e = check.nonnegative("epsilon", epsilon)
    return up(e * math.tanh(e / 2.0), positive=e > 0.0)


def pure_to_zcdp_printed(*, epsilon: float) -> float:
    """epsilon^2/2, the usual form (Theorem 12.1; Bun, Steinke 2016): valid, never better than ``pure_to_zcdp``.

    >>> round(pure_to_zcdp_printed(epsilon=1.0), 9)
    0.5
    """
    e = check.nonnegative("epsilon", epsilon)
    return up(e * (e / 2.0), positive=e > 0.0)


def bounded_range_to_zcdp(*, epsilon: float) -> float:
    """A mechanism of range epsilon (the exponential mechanism) is epsilon^2/8-zCDP.

    Cesar, Rogers 2021; Dong, Durfee, Rogers 2020; page ``theory/bounded-range.md``. Rounded up.

    >>> round(bounded_range_to_zcdp(epsilon=1.0), 9)
    0.125
    """
    e = check.nonnegative("epsilon", epsilon)
    return up(e * (e / 8.0), positive=e > 0.0)


def gdp_to_zcdp(*, mu: float) -> float:
    """mu-GDP is mu^2/2-zCDP.

    Corollary 13.1 of the lecture notes; page ``theory/gaussian-renyi.md``. Rounded up.

    >>> round(gdp_to_zcdp(mu=1.0), 9)
    0.5
    """
    m = check.nonnegative("mu", mu)
    return up(m * (m / 2.0), positive=m > 0.0)


def pure_to_gdp(*, epsilon: float) -> float:
    """epsilon-DP is mu-GDP with mu = -2 Phi^-1(1/(1 + e^epsilon)), the least mu possible.

    The corner of f_{eps,0} lies on G_mu, and G_mu is convex; page ``theory/pure-to-gdp.md``. Rounded up.

    >>> round(pure_to_gdp(epsilon=1.0), 5)
    1.23204
    """
    e = check.nonnegative("epsilon", epsilon)
    return up(gdp.mu_of_pure(e), positive=e > 0.0)


def rdp_to_approx_printed(*, order: float, epsilon: float, delta: float) -> float:
    """Mironov's epsilon + log(1/delta)/(order - 1): valid, always above ``rdp_to_approx``.

    Theorem 12.2 of the lecture notes, RDP notes (001), amplification note (004) (Mironov 2017); page
    ``theory/rdp-to-dp.md``. Rounded up.

    >>> round(rdp_to_approx_printed(order=10, epsilon=1.0, delta=1e-5), 6)
    2.279214
    """
    a, e = require.order("order", order), check.nonnegative("epsilon", epsilon)
    return up(e - math.log(check.inside("delta", delta)) / (a - 1.0))


def rdp_to_approx(*, order: float, epsilon: float, delta: float) -> float:
    """epsilon + log((a-1)/a) - (log delta + log a)/(a-1), and never below 0.

    Balle, Barthe, Gaboardi, Hsu, Sato 2020; Canonne, Kamath, Steinke 2020, Proposition 12; page
    ``theory/rdp-to-dp.md``. Rounded up.

    >>> round(rdp_to_approx(order=10, epsilon=1.0, delta=1e-5), 6)
    1.918011
    """
    a, e = require.order("order", order), check.nonnegative("epsilon", epsilon)
    d = check.inside("delta", delta)
    parts = (e, math.log(a - 1.0) - math.log(a), -math.log(d) / (a - 1.0), -math.log(a) / (a - 1.0))
    # the sum may cancel: the slack is relative to its largest part, and to that of the logarithms
    return max(0.0, up(math.fsum(parts) + 1e-14 * max(abs(part) for part in parts) + 4e-16 * math.log(a)))


def rdp_to_delta(*, order: float, divergence: float, epsilon: float) -> float:
    """The delta at ``epsilon`` that a Renyi ``divergence`` at ``order`` implies: the better conversion, read back.

    e^((a-1)(D - eps)) (1 - 1/a)^(a-1) / a; page ``theory/rdp-to-dp.md``. Rounded up.

    >>> round(rdp_to_delta(order=10, divergence=1.0, epsilon=1.918011), 8)
    1e-05
    """
    a, xi = require.order("order", order), check.nonnegative("divergence", divergence)
    e = check.nonnegative("epsilon", epsilon)
    exponent = (a - 1.0) * (xi - e + math.log1p(-1.0 / a)) - math.log(a)
    size = (a - 1.0) * (xi + e + 1.0)
    # what the exponent may be wrong by; where that is everything, nothing is claimed
    wrong = 1e-15 * size
    return 1.0 if exponent + wrong >= 0.0 or math.isinf(size) else delta_up(math.exp(exponent + wrong), positive=True)


def best_rdp_to_approx(
    curve: Callable[[float], float],
    *,
    delta: float,
    convert: Callable[..., float] = rdp_to_approx,
    largest_order: float = 1e6,
) -> tuple[float, float]:
    """The least epsilon over real orders, and the order that gives it.

    ``curve(order)`` is an upper bound on the Renyi divergence. Each order alone gives a true statement, so a search
    that misses the minimum is only wasteful, never unsafe; page ``theory/rdp-to-dp.md``.

    >>> epsilon, order = best_rdp_to_approx(lambda a: a / 2, delta=1e-5)
    >>> round(epsilon, 4), round(order, 1)
    (4.7284, 5.4)
    """
    d = check.inside("delta", delta)

    def at(log_gap: float) -> float:
        order = 1.0 + math.exp(log_gap)
        divergence = curve(order)
        if not math.isfinite(divergence) or divergence < 0.0:
            return math.inf
        return convert(order=order, epsilon=divergence, delta=d)

    # the best order is near 1 when delta is: about 1 - log(delta) there
    best = least(at, math.log(min(1e-6, -0.1 * math.log(d))), math.log(largest_order))
    return at(best), 1.0 + math.exp(best)


def zcdp_to_approx_printed(*, rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)), Mironov's conversion at its best order.

    Bun, Steinke 2016, Proposition 1.3; page ``theory/zcdp-to-dp.md``. Rounded up.

    >>> round(zcdp_to_approx_printed(rho=0.5, delta=1e-5), 6)
    5.298526
    """
    r = check.nonnegative("rho", rho)
    # Root by root: the product of a tiny rho and a tiny logarithm may be no double.
    return up(r + 2.0 * (math.sqrt(r) * math.sqrt(-math.log(check.inside("delta", delta)))))


def zcdp_to_approx(*, rho: float, delta: float) -> float:
    """The better conversion of the curve rho * order, minimised over real orders.

    Page ``theory/zcdp-to-dp.md``. Rounded up; at most ``zcdp_to_approx_printed``.

    >>> round(zcdp_to_approx(rho=0.5, delta=1e-5), 4)
    4.7284
    """
    r = check.nonnegative("rho", rho)
    d = check.inside("delta", delta)
    if r == 0.0:
        return 0.0
    epsilon, _ = best_rdp_to_approx(lambda order: up(r * order), delta=d, largest_order=max(1e6, 1e3 / math.sqrt(r)))
    return min(epsilon, zcdp_to_approx_printed(rho=r, delta=d))


def zcdp_to_delta(*, rho: float, epsilon: float) -> float:
    """The delta of rho-zCDP at ``epsilon``, minimised over real orders.

    Page ``theory/zcdp-to-dp.md``. Rounded up.

    >>> round(zcdp_to_delta(rho=0.5, epsilon=4.7284), 7)
    1e-05
    """
    r, e = check.nonnegative("rho", rho), check.nonnegative("epsilon", epsilon)
    if r == 0.0:
        return 0.0

    def at(log_gap: float) -> float:
        order = 1.0 + math.exp(log_gap)
        return rdp_to_delta(order=order, divergence=up(r * order), epsilon=e)

    return at(least(at, math.log(1e-6), math.log(1e9)))


def approx_to_tv(*, epsilon: float, delta: float = 0.0) -> float:
    """(epsilon, delta)-DP has total variation at most (e^eps - 1 + 2 delta)/(e^eps + 1), attained.

    The adaptive-analysis lecture (003) prints (e^eps - 1)/2 + delta: valid, wasteful (erratum 46); page
    ``theory/dp-to-tv.md``. Rounded up.

    >>> round(approx_to_tv(epsilon=1.0, delta=0.01), 6)
    0.467496
    """
    e, d = check.nonnegative("epsilon", epsilon), check.probability("delta", delta)
    half = math.tanh(e / 2.0)
    return delta_up(half + 2.0 * d / (1.0 + exp(e)), positive=d > 0.0 or e > 0.0)


def approx_to_tv_printed(*, epsilon: float, delta: float = 0.0) -> float:
    """(e^eps - 1)/2 + delta, the form of the adaptive-analysis lecture (003); never better than ``approx_to_tv``.

    >>> round(approx_to_tv_printed(epsilon=1.0, delta=0.01), 6)
    0.869141
    """
    e, d = check.nonnegative("epsilon", epsilon), check.probability("delta", delta)
    return delta_up(expm1(e) / 2.0 + d, positive=e > 0.0)


def pure_to_kl(*, epsilon: float) -> float:
    """epsilon-DP has Kullback-Leibler divergence at most epsilon tanh(epsilon/2), attained.

    Page ``theory/kl-of-pure.md``. Rounded up.

    >>> round(pure_to_kl(epsilon=1.0), 6)
    0.462117
    """
    return pure_to_zcdp(epsilon=epsilon)


def pure_to_kl_printed(*, epsilon: float) -> float:
    """epsilon (e^epsilon - 1), the second lemma of the composition notes (000); never better than ``pure_to_kl``.

    >>> round(pure_to_kl_printed(epsilon=1.0), 6)
    1.718282
    """
    e = check.nonnegative("epsilon", epsilon)
    return up(e * expm1(e), positive=e > 0.0)
