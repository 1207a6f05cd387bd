"""The Gaussian mechanism: the classical noise of chapter 9, the exact noise, and Gaussian DP."""

from __future__ import annotations

import math

from tallystick.accounting import check, gdp
from tallystick.errors import InvalidInput, Refused
from tallystick.rounding import TINY, delta_up, up
from tallystick.theorems import require


def gdp_delta(*, mu: float, epsilon: float) -> float:
    """delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), the exact profile of mu-GDP.

    Section 13.6 of the lecture notes with G_mu; Balle, Wang 2018, Theorem 8; page ``theory/gdp-profile.md``.
    The accountant's own enclosure, rounded up, far into the tail too.

    >>> round(gdp_delta(mu=1.0, epsilon=1.0), 9)
    0.126936738
    """
    return gdp.delta_bounds(check.nonnegative("mu", mu), check.nonnegative("epsilon", epsilon)).upper


def gdp_epsilon(*, mu: float, delta: float) -> float:
    """The least epsilon of mu-GDP at ``delta``; infinite at delta = 0 unless mu = 0.

    Page ``theory/gdp-profile.md``. The accountant's own enclosure, rounded up.

    >>> round(gdp_epsilon(mu=1.0, delta=1e-5), 7)
    4.3771781
    """
    m, d = check.nonnegative("mu", mu), check.probability("delta", delta)
    return gdp.epsilon_bounds(m, d).upper


def gdp_from_approx(*, epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian pair meets (epsilon, delta): the budget as Gaussian DP. Rounded down.

    Page ``theory/gdp-profile.md``. It does **not** say that an (epsilon, delta)-DP mechanism is mu-GDP.

    >>> round(gdp_from_approx(epsilon=4.3771781, delta=1e-5), 6)
    1.0
    """
    e, d = check.nonnegative("epsilon", epsilon), check.inside("delta", delta)
    if d < TINY:
        raise InvalidInput("delta", delta, f"a probability from {TINY} to 1")
    # delta(eps) <= delta(0) <= mu/sqrt(2 pi), so twice the target is within reach
    low, high = 2.0 * d, 4.0
    while gdp_delta(mu=high, epsilon=e) <= d:
        low, high = high, 2.0 * high
    for _ in range(200):
        # the magnitude first, then the digits
        middle = math.sqrt(low) * math.sqrt(high) if high > 4.0 * low else (low + high) / 2.0
        if high - low <= 1e-15 * high or middle in (low, high):
            break
        low, high = (middle, high) if gdp_delta(mu=middle, epsilon=e) <= d else (low, middle)
    return low


def gaussian_tradeoff(*, mu: float, alpha: float) -> float:
    """G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu), the least type-II error. Rounded down.

    Example 13.3 and section 13.3 of the lecture notes; page ``theory/gdp-profile.md``.

    >>> round(gaussian_tradeoff(mu=1.0, alpha=0.05), 6)
    0.740489
    """
    m, a = check.nonnegative("mu", mu), check.probability("alpha", alpha)
    return gdp.tradeoff(m, a)


def gaussian_mu(*, sigma: float, sensitivity: float = 1.0) -> float:
    """Noise N(0, sigma^2) on a statistic of l2-sensitivity d is (d/sigma)-GDP, exactly.

    Theorem 13.1 of the lecture notes; page ``theory/gdp-profile.md``. Rounded up.

    >>> round(gaussian_mu(sigma=4.0, sensitivity=2.0), 9)
    0.5
    """
    width = check.nonnegative("sensitivity", sensitivity)
    return up(width / check.positive("sigma", sigma), positive=width > 0.0)


def classical_gaussian_sigma(
    *, epsilon: float, delta: float, sensitivity: float = 1.0, constant: float = 1.25
) -> float:
    """sigma = c d/epsilon with c^2 = 2 log(constant/delta), c >= 3/2; only for epsilon <= 1.

    Theorem 9.3 of the lecture notes (constant 1.32, proved there once c >= 3/2 is read for the printed
    c^2 >= 3/2, erratum 27) and Dwork, Roth 2014 (1.25). Beyond epsilon = 1 it is false (145 times the delta at
    epsilon = 20), so it is refused; page ``theory/gaussian-mechanism.md``. The result is checked against the exact
    profile before it is returned. Rounded up. Prefer ``analytic_gaussian_sigma``.

    >>> round(classical_gaussian_sigma(epsilon=1.0, delta=1e-5), 5)
    4.84481
    """
    e, d = check.positive("epsilon", epsilon), check.inside("delta", delta)
    width = check.positive("sensitivity", sensitivity)
    if constant not in (1.25, 1.32):
        raise InvalidInput("constant", constant, "1.25 (Dwork, Roth) or 1.32 (the lecture notes)")
    if e > 1.0:
        raise Refused(
            f"the classical Gaussian noise is not private for epsilon > 1 (asked {e:g}); use analytic_gaussian_sigma"
        )
    c = max(1.5, math.sqrt(2.0 * math.log(constant / d)))
    sigma = up(c * width / e)
    if gdp_delta(mu=gaussian_mu(sigma=sigma, sensitivity=width), epsilon=e) > d:
        raise Refused(f"the classical noise misses delta = {d:g} at epsilon = {e:g}; use analytic_gaussian_sigma")
    return sigma


def analytic_gaussian_sigma(*, epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least sigma that makes the Gaussian mechanism (epsilon, delta)-DP, for every epsilon >= 0.

    Balle, Wang 2018; page ``theory/gaussian-mechanism.md``. Rounded up.

    >>> round(analytic_gaussian_sigma(epsilon=1.0, delta=1e-5), 5)
    3.73063
    """
    width = check.positive("sensitivity", sensitivity)
    sigma = width / gdp_from_approx(epsilon=epsilon, delta=delta)
    if math.isinf(sigma):
        raise InvalidInput("sensitivity", sensitivity, "one whose noise is a number")
    return up(sigma, positive=True)


def gaussian_mechanism_delta(*, sigma: float, epsilon: float, sensitivity: float = 1.0) -> float:
    """The exact delta of the Gaussian mechanism at ``epsilon``. Rounded up.

    Page ``theory/gaussian-mechanism.md``.

    >>> round(gaussian_mechanism_delta(sigma=1.0, epsilon=1.0), 6)
    0.126937
    """
    return delta_up(gdp_delta(mu=gaussian_mu(sigma=sigma, sensitivity=sensitivity), epsilon=epsilon))


def count_vector_noise(*, dimension: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Standard deviation per coordinate for d counts: Laplace at epsilon, Gaussian at (epsilon, delta).

    Example 9.1 of the lecture notes: l1-sensitivity d against l2-sensitivity sqrt(d), so sqrt(2) d/epsilon against
    O(sqrt(d log(1/delta))/epsilon); page ``theory/gaussian-mechanism.md``. Rounded up.

    >>> laplace, gauss = count_vector_noise(dimension=100, epsilon=1.0, delta=1e-6)
    >>> round(laplace, 2), round(gauss, 2)
    (141.42, 42.25)
    """
    d, e = require.steps("dimension", dimension), check.positive("epsilon", epsilon)
    gauss = analytic_gaussian_sigma(epsilon=e, delta=delta, sensitivity=math.sqrt(d))
    return up(math.sqrt(2.0) * d / e), gauss
