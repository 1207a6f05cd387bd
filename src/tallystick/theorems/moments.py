"""The moments accountant of 2016: log moments of the privacy loss add, and Chernoff turns them into (epsilon, delta).

Kept because the lecture notes are about it and ``compare`` shows it; ``PrivacyLoss.epsilon`` is tighter.
Lemma 7's bound with its O(.) remainder is asymptotic and is not here at all (erratum 40).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tallystick.accounting import check
from tallystick.errors import Refused
from tallystick.rounding import delta_up, up
from tallystick.theorems import require
from tallystick.theorems.amplification import base_epsilon_for
from tallystick.theorems.composition import step_epsilon
from tallystick.theorems.gaussian import analytic_gaussian_sigma
from tallystick.theorems.renyi import renyi_divergence
from tallystick.theorems.require import Floats

HISTORICAL_MOMENTS = 32
_MOMENTS_TRIED = 128
_MOST = 100_000


def log_moment(p: Sequence[float] | Floats, q: Sequence[float] | Floats, *, moment: float) -> float:
    """alpha(lambda) = log E_P[(p/q)^lambda] = lambda D_{lambda + 1}(P||Q) of a finite pair.

    Definition 11.1 of the lecture notes; page ``theory/moments-accountant.md``. Rounded up.

    >>> round(log_moment([0.75, 0.25], [0.25, 0.75], moment=1), 6)
    0.847298
    """
    lam = check.positive("moment", moment)
    divergence = renyi_divergence(p, q, order=1.0 + lam)
    return up(lam * divergence, positive=divergence > 0.0)


def gaussian_log_moment(*, moment: float, sigma: float) -> float:
    """lambda (lambda + 1)/(2 sigma^2) for the Gaussian mechanism of sensitivity 1.

    Page ``theory/moments-accountant.md``. Rounded up.

    >>> round(gaussian_log_moment(moment=2, sigma=2.0), 9)
    0.75
    """
    lam, s = check.positive("moment", moment), check.positive("sigma", sigma)
    return up(lam / s * ((lam + 1.0) / s) / 2.0, positive=True)


def sampled_gaussian_log_moment(*, moment: int, rate: float, sigma: float) -> float:
    """The exact log moment, whole lambda, of the Poisson-sampled Gaussian mechanism, worse direction.

    log sum_k C(l+1, k) (1-q)^(l+1-k) q^k e^(k(k-1)/(2 sigma^2)), l = lambda. The remove direction is the worse one
    (Mironov, Talwar, Zhang 2019, Theorem 5); page ``theory/moments-accountant.md``. Rounded up.

    >>> round(sampled_gaussian_log_moment(moment=1, rate=0.01, sigma=1.0), 9)
    0.000171813
    """
    lam, q = require.steps("moment", moment, most=_MOST), check.probability("rate", rate)
    s = check.positive("sigma", sigma)
    if q in (0.0, 1.0):
        return gaussian_log_moment(moment=lam, sigma=s) if q == 1.0 else 0.0
    n = lam + 1
    # sum_k C(n,k)(1-q)^(n-k) q^k = 1, so the excess over 1 is a sum of positive terms: nothing cancels
    log_rate, log_rest = math.log(q), math.log1p(-q)
    logs = []
    for k in range(2, n + 1):
        weight = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + (n - k) * log_rest + k * log_rate
        lift = k / s * ((k - 1) / s) / 2.0
        if lift > 1e-3:
            logs.append(weight + lift + math.log1p(-math.exp(-lift)))
        else:
            # log(e^x - 1) <= log x + x/2 + x^2/24, also where x itself is too small for a float
            logs.append(weight + math.log(k * (k - 1) / 2.0) - 2.0 * math.log(s) + lift / 2.0 + lift * lift / 24.0)
    peak = max(logs)
    if math.isinf(peak):
        return math.inf
    excess = peak + math.log(math.fsum(math.exp(value - peak) for value in logs))
    value = excess + math.log1p(math.exp(-excess)) if excess > 0.0 else math.log1p(math.exp(excess))
    # the logarithms that were added up are known to a few ulps of the largest of them
    wrong = 1e-14 * n + 1e-15 * max(abs(k * log_rate + (n - k) * log_rest) for k in (2, n)) + 4e-15 * abs(math.log(s))
    return up(value, slack=1e-12 + wrong, positive=True)


def moments_delta(moment: Callable[[int], float], *, epsilon: float, largest: int = HISTORICAL_MOMENTS) -> float:
    """min over whole lambda of exp(alpha(lambda) - lambda epsilon).

    Theorem 11.2(2) of the lecture notes; page ``theory/moments-accountant.md``. Rounded up.

    >>> round(moments_delta(lambda l: gaussian_log_moment(moment=l, sigma=1.0), epsilon=4.0), 6)
    0.002479
    """
    e, top = check.nonnegative("epsilon", epsilon), require.steps("largest", largest, most=_MOST)
    exponents = [(moment(lam), lam * e) for lam in range(1, top + 1)]
    best = min(alpha - cost + 1e-15 * (abs(alpha) + cost) for alpha, cost in exponents)
    return 1.0 if best >= 0.0 else delta_up(math.exp(best), positive=True)


def moments_epsilon(moment: Callable[[int], float], *, delta: float, largest: int = HISTORICAL_MOMENTS) -> float:
    """min over whole lambda of (alpha(lambda) + log(1/delta))/lambda: the tail bound solved for epsilon.

    Theorem 11.2(2) of the lecture notes (Abadi et al. 2016); page ``theory/moments-accountant.md``. Rounded up.

    >>> round(moments_epsilon(lambda l: gaussian_log_moment(moment=l, sigma=1.0), delta=1e-5), 6)
    5.302585
    """
    d, top = check.inside("delta", delta), require.steps("largest", largest, most=_MOST)
    return up(min((moment(lam) - math.log(d)) / lam for lam in range(1, top + 1)))


def moments_noise(*, rate: float, steps: int, epsilon: float, delta: float) -> tuple[float, float]:
    """The least sigma the moments accountant accepts for DP-SGD, and c2 = sigma eps/(q sqrt(T log(1/delta))).

    Theorem 11.3 of the lecture notes says that such a constant exists for small epsilon; this computes it;
    page ``theory/moments-accountant.md``. sigma is rounded up. Refused where no noise reaches epsilon.

    >>> sigma, constant = moments_noise(rate=0.01, steps=10_000, epsilon=1.0, delta=1e-5)
    >>> round(sigma, 3), round(constant, 3)
    (4.974, 1.466)
    """
    q, t = check.between("rate", rate, 1e-150, 1.0), require.steps("steps", steps)
    e, d = check.between("epsilon", epsilon, 1e-150, 1e150), check.inside("delta", delta)

    def met(sigma: float) -> bool:
        moment = lambda lam: up(t * sampled_gaussian_log_moment(moment=lam, rate=q, sigma=sigma))  # noqa: E731
        return moments_epsilon(moment, delta=d, largest=_MOMENTS_TRIED) <= e

    least = -math.log(d) / _MOMENTS_TRIED
    if least >= e:
        raise Refused(
            f"no noise reaches epsilon = {e:g} at delta = {d:g}: {_MOMENTS_TRIED} moments alone cost log(1/delta)/"
            f"{_MOMENTS_TRIED} = {least:g}; use ts.calibrate"
        )
    high = 1.0
    while not met(high):
        high *= 2.0
        if high > 1e150:
            raise Refused(f"no noise that a float can hold reaches epsilon = {e:g} at delta = {d:g}; use ts.calibrate")
    low = 0.0 if high == 1.0 else high / 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if high - low <= 1e-9 * high:
            break
        low, high = (low, middle) if middle > 1e-3 and met(middle) else (middle, high)
    return high, high * e / (q * math.sqrt(t * -math.log(d)))


def advanced_noise(*, rate: float, steps: int, epsilon: float, delta: float) -> float:
    """The sigma that advanced composition asks for in DP-SGD: of order q sqrt(T log(1/delta) log(T/delta))/eps.

    What Theorem 11.3 of the lecture notes saves a logarithm against: the Gaussian mechanism amplified by the sampling,
    T steps by advanced composition, half of delta for each; page ``theory/moments-accountant.md``. Rounded up.

    >>> advanced = advanced_noise(rate=0.01, steps=10_000, epsilon=1.0, delta=1e-5)
    >>> round(advanced, 3), round(moments_noise(rate=0.01, steps=10_000, epsilon=1.0, delta=1e-5)[0], 3)
    (24.305, 4.974)
    """
    q, t = check.between("rate", rate, 1e-150, 1.0), require.steps("steps", steps)
    e, d = check.between("epsilon", epsilon, 1e-100, 1e100), check.between("delta", delta, 1e-100, 1.0 - 1e-9)
    each = base_epsilon_for(epsilon=step_epsilon(total_epsilon=e, steps=t, delta_slack=d / 2.0), rate=q)
    return analytic_gaussian_sigma(epsilon=each, delta=min(0.5, d / 2.0 / t / q * (1.0 - 1e-12)))
