"""How far off: the accuracy theorems of selection, quantiles and means as functions.

All of them bound the error from above. Names of theorems are those of the lecture notes (docs/theory).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import up


def laplace_max_gap(*, candidates: int, epsilon: float, sensitivity: float = 1.0) -> float:
    """Expected loss of score of the Laplace noisy maximum: (2 D / eps)(1 + 2 ln(k - 1) + 2 ln 2) (Proposition 5.2).

    :func:`laplace_max_gap_sharp` is never larger.

    >>> round(laplace_max_gap(candidates=1000, epsilon=1.0), 2)
    32.4
    """
    count = check.count("candidates", candidates, least=1, most=1 << 62)
    scale = 2 * check.positive("sensitivity", sensitivity) / check.positive("epsilon", epsilon)
    return 0.0 if count == 1 else scale * (1 + 2 * math.log(count - 1) + 2 * math.log(2))


def laplace_max_gap_sharp(*, candidates: int, epsilon: float, sensitivity: float = 1.0) -> float:
    """Expected loss of score of the Laplace noisy maximum: (2 D / eps)(1 + H_{k-1}).

    By Lemma 2, and E max of m exponentials = H_m.

    >>> round(laplace_max_gap_sharp(candidates=1000, epsilon=1.0), 2)
    16.97
    """
    count = check.count("candidates", candidates, least=1, most=1 << 62)
    scale = 2 * check.positive("sensitivity", sensitivity) / check.positive("epsilon", epsilon)
    return 0.0 if count == 1 else scale * (1 + harmonic(count - 1))


def laplace_max_gap_at(*, candidates: int, scale: float, confidence: float) -> float:
    """With this confidence the Laplace noisy maximum loses at most this much score.

    The loss is at most r_j - r_best for some j, so at most the sum of the two largest sizes of noise: a union bound
    gives 2 scale ln(k / (1 - confidence)).

    >>> round(laplace_max_gap_at(candidates=10, scale=2.0, confidence=0.95), 2)
    21.19
    """
    count = check.count("candidates", candidates, least=1, most=1 << 62)
    failure = 1 - check.inside("confidence", confidence)
    return 0.0 if count == 1 else 2 * check.positive("scale", scale) * math.log(count / failure)


def mean_largest(*, count: int, log_moments: Callable[[float], float], limit: float = math.inf) -> float:
    """Lemma 3: E max of ``count`` variables <= (ln count + ln M(t)) / t, at the best t in (0, limit).

    ``log_moments`` is ln M, the log of the moment generating function, finite for 0 < t < limit. Every t gives a
    valid bound, so an imperfect search only makes it larger.

    >>> exponential = lambda t: -math.log1p(-t)
    >>> round(mean_largest(count=999, log_moments=exponential, limit=1.0), 3)  # against 2 ln 999 + 2 ln 2 = 15.2
    10.232
    """
    start = math.log(check.count("count", count, least=1))
    top = limit if math.isfinite(limit) else 1e3

    def bound(t: float) -> float:
        return (start + log_moments(t)) / t

    # t log-spaced, then a golden-section polish: the bound is unimodal in t
    tries = [top * 2.0 ** (-i / 4) for i in range(1, 120)]
    best = min(range(len(tries)), key=lambda i: bound(tries[i]))
    low, high = tries[min(best + 1, len(tries) - 1)], tries[best - 1] if best else top
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if bound(left) < bound(right) else (left, high)
    return min(bound(tries[best]), bound((low + high) / 2))


def harmonic(count: int) -> float:
    """H_n = 1 + 1/2 + ... + 1/n, from above for large n.

    >>> harmonic(3)
    1.8333333333333333
    """
    if count <= 10_000:
        return math.fsum(1 / i for i in range(1, count + 1))
    return math.log(count) + 0.57721566490153287 + 1 / (2 * count)


def exponential_gap(
    *, candidates: int, epsilon: float, confidence: float, sensitivity: float = 1.0, optimal: int = 1
) -> float:
    """Theorem 7.2: with this confidence the exponential mechanism loses less than this much score.

    (2 D / eps)(ln(candidates / optimal) + ln(1 / (1 - confidence))), ``optimal`` candidates sharing the best score;
    optimal = 1 is Corollary 7.1.

    >>> round(exponential_gap(candidates=100, epsilon=1.0, confidence=0.95), 3)
    15.202
    """
    count, best = check.count("candidates", candidates, least=1, most=1 << 62), check.count("optimal", optimal, least=1)
    if best > count:
        raise InvalidInput("optimal", optimal, f"at most candidates = {count}")
    scale = 2 * check.positive("sensitivity", sensitivity) / check.positive("epsilon", epsilon)
    return scale * (math.log(count / best) - math.log1p(-check.inside("confidence", confidence)))


def exponential_mean_gap(*, candidates: int, epsilon: float, sensitivity: float = 1.0) -> float:
    """Example 7.3: expected loss of score with Gumbel noise, that is of the exponential mechanism: (2 D / eps) ln k.

    The law p that is proportional to e^{r u} makes r E[u] + H(p) = ln sum e^{r u} >= r max u, and the entropy H is at
    most ln k. Against (2 D / eps)(1 + H_{k-1}) for Laplace noise.

    >>> round(exponential_mean_gap(candidates=1000, epsilon=1.0), 2)
    13.82
    """
    count = check.count("candidates", candidates, least=1, most=1 << 62)
    return up(2 * check.positive("sensitivity", sensitivity) / check.positive("epsilon", epsilon) * math.log(count))


def order_statistic_gap(*, count: int, first: int, second: int, confidence: float) -> tuple[float, float]:
    """Lemma 5: mean and upper limit of U_(s) - U_(r), the s-th less the r-th smallest of n uniforms.

    It has the law Beta(s - r, n - s + r + 1), mean (s - r)/(n + 1); order statistics are dependent, not independent as
    the notes' proof has it (erratum 60). Ranks become probabilities by it, and data units where the density is known.

    >>> mean, limit = order_statistic_gap(count=999, first=500, second=520, confidence=0.95)
    >>> round(mean, 6), round(limit, 4)
    (0.02, 0.0278)
    """
    from scipy.special import betaincinv

    n = check.count("count", count, least=1)
    r, s = check.count("first", first, least=1, most=n), check.count("second", second, least=1, most=n)
    if not r < s:
        raise InvalidInput("second", second, f"a rank above the first ({r})")
    level = check.inside("confidence", confidence)
    return (s - r) / (n + 1), min(1.0, up(float(betaincinv(s - r, n - s + r + 1, level)), slack=1e-9))


def wrong_choice(*, gap: float, epsilon: float, sensitivity: float = 1.0) -> float:
    """Example 7.2: the chance that the exponential mechanism takes the worse of two candidates, exactly.

    1 / (1 + e^{eps gap / (2 D)}); the notes bound it by 2 e^{-eps gap / (2 D)}.

    >>> round(wrong_choice(gap=10, epsilon=1.0), 6)
    0.006693
    """
    exponent = check.positive("epsilon", epsilon) * check.nonnegative("gap", gap)
    exponent /= 2 * check.positive("sensitivity", sensitivity)
    return math.exp(-exponent) / (1 + math.exp(-exponent))


def quantile_rank_error(*, points: int, epsilon: float, confidence: float) -> float:
    """Theorem 7.6, first display: the private quantile's rank is off by at most this many records (REPLACE).

    ``points`` is the number of lattice points in the bounds, 10^d Lambda in the notes: (2 / eps)(ln points + t).
    Some lattice point must attain rank error 0, which holds for data rounded to that lattice.

    >>> round(quantile_rank_error(points=1000, epsilon=1.0, confidence=0.95), 2)
    19.81
    """
    return exponential_gap(candidates=points, epsilon=epsilon, confidence=confidence)


def quantile_error(*, points: int, epsilon: float, confidence: float, count: int, density: float) -> float:
    """Theorem 7.6: the same in data units when the data have this density around the quantile (asymptotic in count).

    >>> round(quantile_error(points=1000, epsilon=1.0, confidence=0.95, count=10_000, density=0.4), 4)
    0.005
    """
    rank = quantile_rank_error(points=points, epsilon=epsilon, confidence=confidence)
    return rank / (check.count("count", count, least=1) * check.positive("density", density))
