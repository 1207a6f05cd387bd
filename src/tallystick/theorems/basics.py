"""The numbers of chapters 3 and 4: randomized response, Laplace, sensitivities, rates of estimation."""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.rounding import delta_up, exp, up
from tallystick.theorems import require


def randomized_response_epsilon(*, coin: float) -> float:
    """epsilon = log((2 - p)/p) when with probability p a fair coin answers instead; infinite at p = 0.

    Theorem 3.1 of the lecture notes (the chance of a lie is p/2); page ``theory/randomized-response.md``. Rounded up.

    >>> round(randomized_response_epsilon(coin=0.5), 6)
    1.098612
    """
    p = check.probability("coin", coin)
    if p < 0.5:
        return math.inf if p == 0.0 else up(math.log(2.0 - p) - math.log(p))
    # 1 - p is exact here, and so close to 1 the logarithm of the ratio is not
    return up(math.log1p(2.0 * (1.0 - p) / p))


def randomized_response_coin(*, epsilon: float) -> float:
    """p = 2/(1 + e^epsilon), rounded up (more coin, more privacy).

    Remark 3.2 of the lecture notes; page ``theory/randomized-response.md``.

    >>> round(randomized_response_coin(epsilon=math.log(3)), 6)
    0.5
    """
    e = check.nonnegative("epsilon", epsilon)
    # a coin too rare for a float is still tossed: no coin is no privacy
    return delta_up(2.0 * math.exp(-e) / (1.0 + math.exp(-e)), positive=True)


def randomized_response_variance(*, epsilon: float, people: int, proportion: float) -> float:
    """Variance of the unbiased estimate of a proportion: (e^eps/(e^eps - 1)^2 + t (1 - t))/n.

    Example 3.2 of the lecture notes; page ``theory/randomized-response.md``. Exact up to rounding.

    >>> round(randomized_response_variance(epsilon=1.0, people=100, proportion=0.5), 6)
    0.011707
    """
    e, n = check.positive("epsilon", epsilon), require.steps("people", people)
    t = check.probability("proportion", proportion)
    root = 0.5 / math.sinh(min(e, 1400.0) / 2.0) if e > 1e-300 else 1.0 / e
    return (root * root + t * (1.0 - t)) / n


def laplace_proportion_variance(*, epsilon: float, people: int, proportion: float) -> float:
    """Variance of a proportion released with Laplace noise: t (1 - t)/n + 2/(n epsilon)^2.

    Example 3.5 of the lecture notes (the count has sensitivity 1); page ``theory/laplace-mechanism.md``.

    >>> round(laplace_proportion_variance(epsilon=1.0, people=100, proportion=0.5), 6)
    0.0027
    """
    e, n = check.positive("epsilon", epsilon), require.steps("people", people)
    t = check.probability("proportion", proportion)
    scale = 1.0 / e / n
    return t * (1.0 - t) / n + 2.0 * scale * scale


def laplace_scale(*, epsilon: float, sensitivity: float) -> float:
    """Laplace noise of scale sensitivity/epsilon is epsilon-DP; sensitivity in l1. Rounded up.

    Theorem 3.2 of the lecture notes; page ``theory/laplace-mechanism.md``.

    >>> round(laplace_scale(epsilon=0.5, sensitivity=2.0), 9)
    4.0
    """
    return up(check.positive("sensitivity", sensitivity) / check.positive("epsilon", epsilon), positive=True)


def counts_sensitivity(*, queries: int) -> float:
    """m counting queries have l1-sensitivity at most m, for add/remove and for replace (Example 3.3).

    >>> counts_sensitivity(queries=7)
    7.0
    """
    return float(require.steps("queries", queries))


def histogram_sensitivity(*, adjacency: Adjacency = Adjacency.REPLACE) -> float:
    """A histogram has l1-sensitivity 2 under replace and 1 under add/remove, however many cells.

    Example 3.4 of the lecture notes (their default is replace); page ``theory/laplace-mechanism.md``.

    >>> histogram_sensitivity(), histogram_sensitivity(adjacency=Adjacency.ADD_REMOVE)
    (2.0, 1.0)
    """
    return 2.0 if check.adjacency(adjacency) is Adjacency.REPLACE else 1.0


def clamped_sum_sensitivity(*, lower: float, upper: float, adjacency: Adjacency = Adjacency.REPLACE) -> float:
    """A sum of values clamped to [L, U]: U - L under replace, max(|L|, |U|) under add/remove. Rounded up.

    Remark 3.9 of the lecture notes states the first; page ``theory/adjacency.md``.

    >>> round(clamped_sum_sensitivity(lower=10, upper=50), 6)
    40.0
    >>> round(clamped_sum_sensitivity(lower=10, upper=50, adjacency=Adjacency.ADD_REMOVE), 6)
    50.0
    """
    low, high = check.finite("lower", lower), check.finite("upper", upper)
    if low > high:
        raise InvalidInput("upper", upper, f"at least lower ({low})")
    both = check.adjacency(adjacency) is Adjacency.REPLACE
    return up(high - low) if both else up(max(abs(low), abs(high)))


def regression_statistics(*, covariates: int, intercept: bool = True) -> int:
    """Number of sums of a private linear regression: 3p + C(p, 2) + 1 with an intercept, 2p + C(p, 2) without.

    Section 3.8 of the lecture notes leaves the sum of y out (erratum 35: released but not budgeted), and without an
    intercept the sums of x are not needed (erratum 58); where the number of rows is private it is one more;
    page ``theory/laplace-mechanism.md``. Noise scale per sum of values in [0, 1]: this number over epsilon.

    >>> regression_statistics(covariates=3), regression_statistics(covariates=3, intercept=False)
    (13, 9)
    """
    p = require.steps("covariates", covariates)
    return 2 * p + p * (p - 1) // 2 + (p + 1 if intercept else 0)


def local_rate(*, people: int, epsilon: float, moments: float = math.inf) -> float:
    """(1/(n eps^2))^((k-1)/k): the minimax rate of mean estimation under local DP, up to a constant.

    Theorem 4.1 of the lecture notes (Duchi, Jordan, Wainwright 2013; epsilon <= 1): an order of magnitude, not a bound,
    for E|X|^k <= 1 and squared error; page ``theory/minimax-rates.md``.

    >>> round(local_rate(people=10_000, epsilon=1.0, moments=2), 6)
    0.01
    """
    n, e, k = _rate(people, epsilon, moments)
    return exp((math.log(n) + 2.0 * math.log(e)) * (1.0 / k - 1.0))


def central_rate(*, people: int, epsilon: float, moments: float = math.inf) -> float:
    """1/n + (1/(n^2 eps^2))^((k-1)/k): the minimax rate of mean estimation under central DP, up to a constant.

    Theorem 4.2 of the lecture notes (Barber, Duchi 2014): an order of magnitude, not a bound;
    page ``theory/minimax-rates.md``.

    >>> round(central_rate(people=10_000, epsilon=1.0, moments=2), 6)
    0.0002
    """
    n, e, k = _rate(people, epsilon, moments)
    return 1.0 / n + exp(2.0 * (math.log(n) + math.log(e)) * (1.0 / k - 1.0))


def effective_people(*, people: int, epsilon: float, moments: float = math.inf, local: bool = False) -> float:
    """Number of people without privacy who give an equally good mean, up to a constant: 1 over the minimax rate.

    Section 4.2.2 of the lecture notes: at k = 2 moments sqrt(n) eps of n people are left in the local model; with
    bounded data n eps^2. An order of magnitude, not a bound; page ``theory/minimax-rates.md``.

    >>> [round(effective_people(people=10_000, epsilon=1.0, moments=k, local=True)) for k in (2, math.inf)]
    [100, 10000]
    >>> round(effective_people(people=10_000, epsilon=1.0, moments=2))
    5000
    """
    rate = (local_rate if local else central_rate)(people=people, epsilon=epsilon, moments=moments)
    return 1.0 / max(rate, 1.0 / people)


def _rate(people: int, epsilon: float, moments: float) -> tuple[int, float, float]:
    k = math.inf if moments == math.inf else check.positive("moments", moments)
    if k < 2.0:
        raise InvalidInput("moments", moments, "a number of moments >= 2, infinite for bounded data")
    return require.steps("people", people), check.positive("epsilon", epsilon), k
