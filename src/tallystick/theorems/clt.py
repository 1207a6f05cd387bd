"""The central limit theorem of f-DP and its Berry-Esseen band: an **approximation**, and a band around it.

Nothing here is ever returned by ``PrivacyLoss.epsilon``: the limit can be far from a bound (a well-known
accountant built on it reports 2.324 where the truth is 2.3816: ``tallystick theorem 13.6`` computes both).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import exp, up
from tallystick.theorems import normal, require
from tallystick.theorems.gaussian import gaussian_tradeoff, gdp_delta, gdp_epsilon
from tallystick.theorems.piecewise import PiecewiseTradeoff

_ROUNDING = 4e-16
"""What a loss of one step may be wrong by: its masses are differences of corners."""
_DUST = 1e-10
"""A deviation per step below which the digits of the losses are rounding, and no limit is claimed."""

_LARGEST_MU = 1e50


@dataclass(frozen=True, slots=True)
class LossMoments:
    """Moments of one step's log-likelihood ratio log q/p under P: kl = -mean, k2, k3, and the centred third k3_bar.

    Section 13.9 of the lecture notes with erratum 12: k3_bar = integral of |log|f'| + kl|^3 (plus, because
    the mean of log|f'| is -kl); page ``theory/clt.md``.
    """

    kl: float
    k2: float
    k3: float
    k3_bar: float

    @property
    def variance(self) -> float:
        """k2 - kl^2."""
        return max(0.0, self.k2 - self.kl * self.kl)


@dataclass(frozen=True, slots=True)
class GaussianLimit:
    """G_mu as the limit of a composition, and gamma, the half-width of its Berry-Esseen band.

    >>> limit = gaussian_limit([tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=0.1))] * 400)
    >>> round(limit.mu, 4), round(limit.gamma, 4)
    (2.0008, 0.0281)
    """

    mu: float
    gamma: float

    def epsilon(self, *, delta: float) -> float:
        """The limit's epsilon at ``delta``: an approximation that may be too small."""
        return gdp_epsilon(mu=self.mu, delta=delta)

    def tradeoff_band(self, *, alpha: float) -> tuple[float, float]:
        """G_mu(alpha + gamma) - gamma and G_mu(alpha - gamma) + gamma, for alpha in [gamma, 1 - gamma].

        Theorem 13.5 of the lecture notes; outside that range the band says nothing beyond [0, 1 - alpha].
        """
        a = check.probability("alpha", alpha)
        if self.gamma >= 0.5 or not self.gamma <= a <= 1.0 - self.gamma:
            return 0.0, 1.0 - a
        low = gaussian_tradeoff(mu=self.mu, alpha=min(1.0, a + self.gamma)) - self.gamma
        high = gaussian_tradeoff(mu=self.mu, alpha=max(0.0, a - self.gamma)) + self.gamma
        return max(0.0, low), min(1.0 - a, high)

    def delta_band(self, *, epsilon: float) -> tuple[float, float]:
        """Bounds on delta at ``epsilon`` from the band: 1 - min(f + e^eps alpha) over it.

        Inside the band the shift by gamma costs gamma (1 + e^eps); left of alpha = gamma only f >= f(gamma) is known.
        """
        e = check.nonnegative("epsilon", epsilon)
        if self.gamma >= 0.5:
            return 0.0, 1.0
        centre = gdp_delta(mu=self.mu, epsilon=e)
        spread = self.gamma * (1.0 + math.exp(min(e, 700.0)))
        corner = 1.0 - gaussian_tradeoff(mu=self.mu, alpha=2.0 * self.gamma) + self.gamma
        # the lower end needs the best test's alpha + gamma, at most 1/2 + gamma, inside [gamma, 1 - gamma]
        low = max(0.0, centre - spread) if self.gamma <= 0.25 else 0.0
        return low, min(1.0, max(centre + spread, corner))

    def epsilon_band(self, *, delta: float) -> tuple[float, float]:
        """The epsilons at ``delta`` that the band allows; (0, inf) when gamma is not small against delta."""
        d = check.inside("delta", delta)
        top = gdp_epsilon(mu=self.mu, delta=min(d, 1e-12)) + 50.0
        return (
            _crossing(lambda e: self.delta_band(epsilon=e)[0], d, top),
            _crossing(lambda e: self.delta_band(epsilon=e)[1], d, top, beyond=math.inf),
        )


@dataclass(frozen=True, slots=True)
class LossBand:
    """Berry-Esseen for the loss itself: normal under P (mean m, deviation s, error g) and, reversed, under Q.

    delta(eps) = P[L > eps] - e^eps Q[L > eps] lies within g_p + e^eps g_q of its normal version, for any steps;
    Theorem 13.5 is the symmetric case read as a trade-off function. Page ``theory/clt.md``.

    >>> step = gaussian_moments(mu=0.1)
    >>> band = LossBand.of([step] * 100, [step] * 100)
    >>> low, high = band.delta_band(epsilon=0.0)
    >>> low <= 0.382925 <= high
    True
    """

    forward: tuple[float, float, float]
    backward: tuple[float, float, float]

    @staticmethod
    def of(forward: Iterable[LossMoments], backward: Iterable[LossMoments]) -> LossBand:
        """From the steps' moments in the direction that is read and in the other one."""
        sums = []
        for steps in (list(forward), list(backward)):
            totals = (math.fsum(step.kl for step in steps), math.fsum(step.variance for step in steps))
            sums.append(normal_sum(*totals, math.fsum(step.k3_bar for step in steps), steps=len(steps)))
        return LossBand(sums[0], sums[1])

    def delta_band(self, *, epsilon: float) -> tuple[float, float]:
        """Both ends are proven, and wide: the spread grows like e^epsilon."""
        e = check.nonnegative("epsilon", epsilon)
        (mean, deviation, error), (other_mean, other_deviation, other_error) = self.forward, self.backward
        if deviation == 0.0 or other_deviation == 0.0:
            return 0.0, 1.0
        ratio = math.exp(min(e, 700.0))
        centre = normal.cdf((mean - e) / deviation) - ratio * normal.cdf((-e - other_mean) / other_deviation)
        spread = error + ratio * other_error + 1e-15 * (1.0 + ratio)
        return max(0.0, centre - spread), min(1.0, max(0.0, centre) + spread)

    def epsilon_band(self, *, delta: float) -> tuple[float, float]:
        """Bounds on epsilon at ``delta`` from the band: (0, inf) unless the errors are small against it."""
        d = check.inside("delta", delta)
        ladder = [self.forward[0] * i / 50.0 + self.forward[1] * i / 10.0 for i in range(201)]
        above = [e for e in ladder if self.delta_band(epsilon=e)[0] > d]
        below = [e for e in ladder if self.delta_band(epsilon=e)[1] <= d]
        return max(above, default=0.0), min(below, default=math.inf)


def tradeoff_moments(f: PiecewiseTradeoff) -> LossMoments:
    """kl, k2, k3 and k3_bar of f = T(P, Q); needs f(0) = 1 and f > 0 before 1 (finite losses).

    Section 13.9 of the lecture notes; page ``theory/clt.md``. Exact up to rounding for piecewise-linear f.

    >>> round(tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=1.0)).kl, 6)
    0.462117
    """
    p, q = f.pair()
    p, q = p[1:], q[1:]
    if f.betas[0] < 1.0 - 1e-12 or bool(np.any(q <= 0.0)):
        raise InvalidInput("f", f, "a trade-off function of finite losses: f(0) = 1 and f > 0 before 1")
    ratio = np.log(q) - np.log(p)
    kl = -float(np.dot(p, ratio))
    return LossMoments(
        kl=kl,
        k2=float(np.dot(p, ratio**2)),
        k3=float(np.dot(p, np.abs(ratio) ** 3)),
        k3_bar=float(np.dot(p, np.abs(ratio + kl) ** 3)),
    )


def gaussian_moments(*, mu: float) -> LossMoments:
    """The moments of G_mu itself: kl = mu^2/2, variance mu^2, k3_bar = 2 sqrt(2/pi) mu^3.

    >>> round(gaussian_moments(mu=0.5).k3_bar, 5)
    0.19947
    """
    m = check.nonnegative("mu", mu)
    if m > _LARGEST_MU:
        raise InvalidInput("mu", mu, f"at most {_LARGEST_MU:g} (beyond it the third moment is not a float)")
    kl = m * m / 2.0
    # third absolute moment of N(-kl, mu^2), in closed form
    z = kl / m if m > 0.0 else 0.0
    tail = math.erf(z / math.sqrt(2.0))
    density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    cube = m * m * m
    third = cube * (2.0 * (z * z + 2.0) * density + (z * z * z + 3.0 * z) * tail)
    return LossMoments(kl=kl, k2=m * m + kl * kl, k3=third, k3_bar=cube * 2.0 * math.sqrt(2.0 / math.pi))


def gaussian_limit(moments: Iterable[LossMoments]) -> GaussianLimit:
    """mu = 2 |kl|_1/sqrt(|k2|_1 - |kl|_2^2), gamma = 0.56 |k3_bar|_1/(|k2|_1 - |kl|_2^2)^(3/2).

    Theorem 13.5 of the lecture notes (Dong, Roth, Su 2022, Theorem 3.4) for symmetric trade-off functions; gamma
    uses k3_bar, not k3 (erratum 12), and Theorem 13.6 is the limit, not Berry-Esseen; page ``theory/clt.md``.

    >>> gaussian_limit([gaussian_moments(mu=0.3)] * 4).mu
    0.6
    """
    steps = list(moments)
    if not steps:
        raise InvalidInput("moments", moments, "at least one step")
    kl = math.fsum(step.kl for step in steps)
    variance = math.fsum(step.variance for step in steps)
    third = math.fsum(step.k3_bar for step in steps)
    _, deviation, gamma = normal_sum(kl, variance, third, steps=len(steps))
    if deviation == 0.0:
        # the mean of small losses is half their variance; if all are zero they are so up to their rounding
        known = kl == variance == third == 0.0
        return GaussianLimit(math.sqrt(variance), _ROUNDING * len(steps) if known else 1.0)
    return GaussianLimit(2.0 * kl / deviation, gamma)


def sampled_gaussian_limit_mu(*, rate: float, sigma: float, steps: int) -> float:
    """mu = q sqrt(T (e^(1/sigma^2) - 1)), the limit of Poisson-sampled Gaussians: an approximation, often too small.

    Bu, Dong, Long, Su 2020; after Theorem 13.6 of the lecture notes; page ``theory/clt.md``.

    >>> mu = sampled_gaussian_limit_mu(rate=256 / 60000, sigma=1.1, steps=14062)
    >>> round(gdp_epsilon(mu=mu, delta=1e-5), 3)  # the truth is 2.3816, see theorem 13.6
    2.324
    """
    q, s = check.probability("rate", rate), check.positive("sigma", sigma)
    if q == 0.0:
        return 0.0
    width = 1.0 / s
    # sqrt(e^x - 1) is the square root of x for small x, where x itself may vanish, and e^(x/2) for large x
    root = width if width < 1e-8 else math.sqrt(math.expm1(width * width)) if width < 20.0 else exp(width * width / 2.0)
    return q * math.sqrt(require.steps("steps", steps)) * root


def _crossing(function: Callable[[float], float], level: float, top: float, *, beyond: float = 0.0) -> float:
    """The least argument in [0, top] where ``function`` falls to ``level``."""
    if function(0.0) <= level:
        return 0.0
    if function(top) > level:
        return max(top, beyond)
    low, high = 0.0, top
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (low, middle) if function(middle) <= level else (middle, high)
    return high


def normal_sum(mean: float, variance: float, third: float, *, steps: int) -> tuple[float, float, float]:
    """Mean, deviation and Berry-Esseen error 0.56 third/variance^(3/2) of a sum of independent losses.

    The losses are known to ``_ROUNDING``, which moves the mean and the deviation: that much is added to the error. A
    deviation of 0 says that nothing is known.

    >>> mean, deviation, error = normal_sum(1.0, 4.0, 0.0, steps=1)
    >>> mean, deviation, error < 1e-14
    (1.0, 2.0, True)
    """
    deviation = math.sqrt(variance)
    if deviation <= _DUST * math.sqrt(steps):
        return max(0.0, mean), 0.0, 1.0
    error = 0.56 * third / (variance * deviation) + 5.0 * _ROUNDING * steps / deviation
    return max(0.0, mean), deviation, min(1.0, up(error))
