"""Stability in total variation: the accounting of the adaptive-analysis lecture (003), constants corrected."""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import delta_up, up
from tallystick.theorems import require
from tallystick.theorems.conversions import approx_to_tv
from tallystick.theorems.optimal import optimal_composition_delta


def gaussian_answer_tv(*, samples: int, sigma: float) -> float:
    """TV of a statistical query on m samples answered with N(0, sigma^2) noise: 2 Phi(1/(2 m sigma)) - 1, exactly.

    At most 1/(sqrt(2 pi) m sigma). The adaptive-analysis lecture (003) sets the root over everything (erratum 41:
    .0564 for .0080 at m = 1000, sigma = .05); page ``theory/tv-stability.md``. Rounded up.

    >>> round(gaussian_answer_tv(samples=1000, sigma=0.05), 6)
    0.007979
    """
    return gaussian_answers_tv(samples=samples, sigma=sigma, queries=1)


def gaussian_answers_tv(*, samples: int, sigma: float, queries: int) -> float:
    """TV of k adaptive Gaussian answers: 2 Phi(sqrt(k)/(2 m sigma)) - 1 by Gaussian composition.

    The lecture adds k single distances, k/(sqrt(2 pi) m sigma): valid and larger by up to sqrt(k);
    page ``theory/tv-stability.md``. Rounded up; never above the sum.

    >>> round(gaussian_answers_tv(samples=1000, sigma=0.05, queries=100), 6)
    0.079656
    """
    m, s, k = require.steps("samples", samples), check.positive("sigma", sigma), require.steps("queries", queries)
    return delta_up(math.erf(math.sqrt(k / 8.0) / m / s), positive=True)


def gaussian_answers_tv_printed(*, samples: int, sigma: float, queries: int) -> float:
    """k/(sqrt(2 pi) m sigma), the lecture's bound with its root put right (erratum 41), through Theorem 0.1.

    >>> round(gaussian_answers_tv_printed(samples=1000, sigma=0.05, queries=100), 6)
    0.797885
    """
    m, s, k = require.steps("samples", samples), check.positive("sigma", sigma), require.steps("queries", queries)
    return delta_up(k / math.sqrt(2.0 * math.pi) / m / s, positive=True)


def pure_answers_tv(*, epsilon: float, queries: int) -> float:
    """The exact worst TV of k adaptive epsilon-DP answers: optimal composition read at epsilon = 0.

    The lecture goes through advanced composition; its last chain uses (e^x - 1)/2 <= x/2, false (erratum 42: .730
    against .450 at x = .9); page ``theory/tv-stability.md``. Rounded up.

    >>> round(pure_answers_tv(epsilon=0.01, queries=100), 6)
    0.039778
    """
    k = require.steps("queries", queries)
    return optimal_composition_delta(epsilon=epsilon, steps=k, total_epsilon=0.0)


def pure_answers_tv_advanced(*, epsilon: float, queries: int, delta_slack: float) -> float:
    """TV through advanced composition and (e, d') -> (e^e - 1 + 2 d')/(e^e + 1), the lecture's route made sharp.

    Page ``theory/tv-stability.md``. Rounded up.

    >>> round(pure_answers_tv_advanced(epsilon=0.01, queries=100, delta_slack=0.01), 6)
    0.161501
    """
    e, k = check.nonnegative("epsilon", epsilon), require.steps("queries", queries)
    slack = check.inside("delta_slack", delta_slack)
    total = up(e * math.sqrt(2.0 * k * -math.log(slack)) + k * e * math.tanh(e / 2.0))
    return approx_to_tv(epsilon=total, delta=slack)


def small_epsilon_tv(*, epsilon: float) -> float:
    """(e^x - 1)/2 <= (e - 1) x/2 for x <= 1: the linear bound the lecture needed (erratum 42). Rounded up.

    >>> round(small_epsilon_tv(epsilon=0.9), 4)
    0.7732
    """
    x = check.nonnegative("epsilon", epsilon)
    if x > 1.0:
        raise InvalidInput("epsilon", epsilon, "at most 1, where the linear bound holds")
    return delta_up(math.expm1(1.0) * x / 2.0, positive=x > 0.0)


def generalization_error(*, distance: float, samples: int, failure: float) -> float:
    """|E q_S(S) - q_S(D)| <= e + (2 e m + 1) sqrt(log(2/b)/(2 m)) with probability 1 - b, for e-TV stable analyses.

    McDiarmid with differences 2 e + 1/m; the adaptive-analysis lecture (003) misses the 2 under the root (erratum 45,
    wasteful); page ``theory/tv-stability.md``. Rounded up.

    >>> round(generalization_error(distance=0.001, samples=10_000, failure=0.05), 6)
    0.286201
    """
    e, m = check.probability("distance", distance), require.steps("samples", samples)
    b = check.inside("failure", failure)
    return up(e + (2.0 * e * m + 1.0) * math.sqrt((math.log(2.0) - math.log(b)) / (2.0 * m)))


def gaussian_answers_generalization(*, samples: int, sigma: float, queries: int, failure: float) -> float:
    """The two previous facts together: the error bound of k adaptive Gaussian answers.

    The lecture simplifies 2k/(sqrt(2 pi) sigma) + 1 to 3k/(sqrt(2 pi) sigma) "if sigma < 1"; it needs
    sigma <= k/sqrt(2 pi) (erratum 43), so nothing is simplified here; page ``theory/tv-stability.md``. Rounded up.

    >>> round(gaussian_answers_generalization(samples=10_000, sigma=0.5, queries=10, failure=0.05), 5)
    0.08237
    """
    distance = gaussian_answers_tv(samples=samples, sigma=sigma, queries=queries)
    return generalization_error(distance=distance, samples=samples, failure=failure)


def normal_tv(*, mu: float) -> float:
    """TV(N(0,1), N(mu,1)) = 2 Phi(mu/2) - 1. Rounded up.

    Used by Proposition 13.7 (Renyi order is not Blackwell order); page ``theory/renyi-not-blackwell.md``.

    >>> round(normal_tv(mu=1.0), 6)
    0.382925
    """
    m = check.nonnegative("mu", mu)
    return delta_up(math.erf(m / math.sqrt(8.0)), positive=m > 0.0)
