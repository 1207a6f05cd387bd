"""What a privacy loss says about overfitting: how far answers can be from the population behind the records.

n records are drawn independently, an analyst asks adaptively for averages of functions with values in [0, 1], and the
whole transcript loses g = 1 - f when one record is replaced. Proofs: docs/theory/transfer.md.

    posterior      |E[q(S) | transcript] - q(population)| <= t for all queries at once, except with probability a:
                   t = tanh(log(g(y)/y)/4), a = (g(y) - y)/t, for any y with y + g(y) <= 1
    noise          E[Z | transcript] is a conditional mean of the noise, so that its tail is the mean of Z's tail

An answer q(S) + Z is then within the sum of the two. Everything is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tallystick.accounting import check, gdp
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput
from tallystick.rounding import down, up

Curve = Callable[[float], float]
"""The largest probability of an event on one data set, given its probability on a neighbour: concave, symmetric."""

_SMALLEST = 1e-290  # of y; below, a deviation of 1 is answered
_NEAR = 1e-11
_STEPS = 60


def deviation(curve: Curve, failure: float) -> float:
    """The least t found with a <= failure; ``curve`` may be above the true one. At most 1, which is always true.

    Larger y give smaller t and larger a, so the largest y that is allowed is looked for, by false position in the
    logarithms of y and of a; the y that is found is checked, so nothing depends on the search.

    >>> round(deviation(lambda y: 2 * y, 0.05), 4) == round(math.tanh(math.log(2) / 4), 4)      # pure DP, e^eps = 2
    True
    """

    def look(exponent: float) -> tuple[float, float]:
        """Return t at this log y, and by how much log a is above log failure: above 0 where y is not allowed."""
        y = math.exp(exponent)
        event = curve(y) if y >= _SMALLEST else 1.0
        if event + y > 1.0 - 1e-15:
            return 1.0, math.inf
        if event <= y:
            return 0.0, -math.inf
        t = math.tanh(math.log1p((event - y) / y) / 4.0)
        above = math.log((event - y) / (failure * t)) + 2.0 * _NEAR
        is_allowed = event - y <= down(failure * t, slack=_NEAR)
        return up(t, slack=_NEAR), above if is_allowed or above > 0.0 else _NEAR

    high, step = math.log(failure), 1.0
    low, over = high - step, math.inf
    t, under = look(low)
    while under > 0.0:
        high, low, step, over = low, low - step, 2.0 * step, under
        if low < math.log(_SMALLEST):
            return 1.0
        t, under = look(low)
    return min(1.0, t, _nearer(look, (low, under), (high, over)))


def _nearer(look: Callable[[float], tuple[float, float]], low: tuple[float, float], high: tuple[float, float]) -> float:
    """The least t that is allowed between an end that is and one that is not, each with its height above 0.

    The height of an end that has stayed is halved (the Illinois rule), so that both ends move.
    """
    best, last_is_allowed = 1.0, None
    for _ in range(_STEPS):
        at = high[0] - high[1] * (high[0] - low[0]) / (high[1] - low[1])
        at = at if low[0] < at < high[0] else 0.5 * (low[0] + high[0])  # also where a height is infinite
        t, above = look(at)
        is_allowed = above <= 0.0
        if is_allowed:
            best = min(best, t)
            low, high = (at, above), (high[0], high[1] / (2.0 if last_is_allowed else 1.0))
        else:
            low, high = (low[0], low[1] / (2.0 if last_is_allowed is False else 1.0)), (at, above)
        if -_NEAR < above <= 0.0:
            break
        last_is_allowed = is_allowed
    return best


def loss_deviation(loss: PrivacyLoss, *, failure: float) -> float:
    """How far the posterior mean of any query can be from the population, all queries at once, by the accountant.

    The loss is that of the whole transcript under REPLACE; the number of records is public. Page
    ``theory/transfer.md``.

    >>> from tallystick.accounting.losses import pure_dp
    >>> round(loss_deviation(pure_dp(epsilon=0.4, adjacency="replace"), failure=0.05), 4)
    0.0997
    """
    if loss.adjacency is not Adjacency.REPLACE:
        raise InvalidInput("loss", str(loss), "a loss under adjacency='replace': the number of records is public")
    chance = check.inside("failure", failure)
    return deviation(lambda y: math.nextafter(1.0 - loss.tradeoff(alpha=y), 2.0), chance)


def curve_deviation(*, mu: float, failure: float) -> float:
    """Return the bound for mu-GDP: y = Phi(-c - mu/2) and g = Phi(-c + mu/2) for some c >= 0.

    About mu/4 times the mean of the tail of failure/4. Page ``theory/transfer.md``; rounded up.

    >>> round(curve_deviation(mu=0.1, failure=0.05), 5)
    0.06465
    """
    size, chance = check.nonnegative("mu", mu), check.inside("failure", failure)
    if size == 0.0:
        return 0.0
    return deviation(lambda y: gdp.power(size, y), chance)


def approx_deviation(*, epsilon: float, delta: float, failure: float) -> float:
    """Return the bound for (epsilon, delta)-DP: the root of t = theta (1 + t^2)/2 + d (1 - theta), d = delta/failure.

    theta = tanh(epsilon/2); tanh(epsilon/4) for delta = 0, d for epsilon = 0 (Markov's inequality for a TV-stable
    analysis). Never above Jung et al.'s e^epsilon - 1 + 2 d. Page ``theory/transfer.md``; rounded up, at most 1.

    >>> round(approx_deviation(epsilon=0.1, delta=1e-4, failure=0.05), 6)
    0.026897
    """
    e, chance = check.nonnegative("epsilon", epsilon), check.inside("failure", failure)
    d = up(check.probability("delta", delta) / chance)
    if d >= 1.0:
        return 1.0
    theta = up(math.tanh(e / 2.0))
    if theta >= 1.0:
        return 1.0
    # t = (1 - root)/theta with root^2 = 1 - theta s, s = theta + 2 d (1 - theta), and 1 - root = theta s/(1 + root)
    s = theta + 2.0 * d * (1.0 - theta)
    return min(1.0, up(s / (1.0 + math.sqrt(max(0.0, 1.0 - theta * s))), slack=1e-11))


def transfer_error(*, accuracy: float, slack: float, epsilon: float, delta: float, failure: float) -> float:
    """The transfer theorem: accuracy + slack + t, except with probability inaccurate/slack + failure.

    Answers in [0, 1] are within ``accuracy`` of the sample except with probability ``inaccurate``, and the transcript
    is (epsilon, delta)-DP. Jung et al. (2020) have e^epsilon - 1 + 2 delta/failure in place of t
    (:func:`approx_deviation`), which is at most a quarter of it for delta = 0. Page ``theory/transfer.md``; rounded up.

    >>> round(transfer_error(accuracy=0.05, slack=0.001, epsilon=0.1, delta=1e-4, failure=0.04), 5)
    0.07837
    """
    far, more = check.nonnegative("accuracy", accuracy), check.probability("slack", slack)
    return up(far + more + approx_deviation(epsilon=epsilon, delta=delta, failure=failure))


def normal_mean_tail(*, failure: float) -> float:
    """x with Pr[E[Z | anything] > x] <= p for Z ~ N(0, 1): phi(z)/p with 1 - Phi(z) = p, the mean of Z beyond z.

    Page ``theory/transfer.md``; rounded up. Lattice noise of s steps has at most 1 + 1/s times as much.

    >>> round(normal_mean_tail(failure=0.025), 4)
    2.3378
    """
    p = check.inside("failure", failure)
    if p < 1e-290:
        return up(math.sqrt(-2.0 * math.log(p)))  # Chernoff's bound holds for a conditional mean, too
    from scipy.special import ndtri

    z = -float(ndtri(p))
    return up(math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) / p, slack=1e-10)


def laplace_mean_tail(*, failure: float) -> float:
    """x with Pr[E[Z | anything] > x] <= p for Laplace noise of scale 1: 1 + log(1/(2p)) for p <= 1/2.

    Page ``theory/transfer.md``; rounded up.

    >>> round(laplace_mean_tail(failure=0.025), 4)
    3.9957
    """
    p = check.inside("failure", failure)
    return up(1.0 - math.log(2.0) - math.log(p)) if p <= 0.5 else 1.0


def answers_error(tail: Curve, posterior: Curve, *, failure: float) -> float:
    """tail(b) + posterior(a) with a + b = failure, at the best split found; any split is valid, and public."""

    def total(share: float) -> float:
        a = failure * share
        b = math.nextafter(failure - a, 0.0)
        return tail(b) + posterior(a)

    from scipy.optimize import minimize_scalar

    best = minimize_scalar(total, bounds=(1e-3, 0.999), method="bounded", options={"xatol": 1e-4})
    return up(float(best.fun))


def gaussian_answers_error(*, samples: int, sigma: float, queries: int, failure: float) -> float:
    """How far k adaptive answers q_j(S) + N(0, sigma^2) can be from the population, all at once.

    sigma x(b/(2k)) + t(a) with a + b = failure and mu = sqrt(k)/(n sigma). Page ``theory/transfer.md``; rounded up.

    >>> round(gaussian_answers_error(samples=20_000, sigma=0.02, queries=202, failure=0.05), 3)
    0.106
    """
    n, k = check.count("samples", samples, least=1), check.count("queries", queries, least=1)
    s, chance = check.positive("sigma", sigma), check.inside("failure", failure)
    mu = up(math.sqrt(k) / n / s, positive=True)
    return answers_error(
        lambda b: s * normal_mean_tail(failure=b / (2 * k)),
        lambda a: curve_deviation(mu=mu, failure=a),
        failure=chance,
    )
