"""Composition of losses if all that is known of each step is one pair (epsilon, delta).

Every function returns a bound: rounded up, never below what its theorem states.
The tight answer for a known mechanism is ``(n * loss).epsilon(delta=...)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import delta_up, down, expm1, fsum, up
from tallystick.theorems import require


def basic_composition(*, epsilons: Iterable[float], deltas: Iterable[float] = ()) -> tuple[float, float]:
    """Epsilons add and deltas add, for adaptively chosen steps too.

    Theorem 3.3 of the lecture notes; page ``theory/basic-composition.md``. Optimal for pure DP read at
    delta = 0, far from it otherwise. Rounded up.

    >>> epsilon, delta = basic_composition(epsilons=[0.5, 1.0], deltas=[0.0, 1e-6])
    >>> round(epsilon, 9), round(delta, 12)
    (1.5, 1e-06)
    """
    parts = require.numbers("epsilons", epsilons)
    slips = [check.probability("deltas", delta) for delta in deltas]
    return up(fsum(parts)), delta_up(fsum(slips))


def advanced_composition(*, epsilon: float, steps: int, delta_slack: float, delta: float = 0.0) -> tuple[float, float]:
    """k steps of (epsilon, delta)-DP are (epsilon sqrt(2k log(1/d')) + k epsilon (e^epsilon - 1), k delta + d')-DP.

    Theorem 10.1 of the lecture notes, Theorem 0.3 of the adaptive-analysis lecture (Dwork, Rothblum, Vadhan
    2010); page ``theory/advanced-composition.md``. The composition notes (000) type the square root without its 2
    (erratum 17): that is not a bound. Rounded up.

    >>> epsilon, delta = advanced_composition(epsilon=0.1, steps=100, delta_slack=1e-6)
    >>> round(epsilon, 4), round(delta, 12)
    (6.3082, 1e-06)
    """
    e, k, slack, d = _step(epsilon, steps, delta_slack, delta)
    return up(_azuma(e, k, slack) + k * e * expm1(e), positive=e > 0.0), _total_delta(k, d, slack)


def advanced_composition_quadratic(
    *, epsilon: float, steps: int, delta_slack: float, delta: float = 0.0
) -> tuple[float, float]:
    """The other printed form: k epsilon^2 / 2 + epsilon sqrt(2k log(1/d')), always the smaller one.

    Composition notes (000); the mean of one loss is at most epsilon tanh(epsilon/2) <= epsilon^2/2;
    page ``theory/advanced-composition.md``. Rounded up.

    >>> epsilon, _ = advanced_composition_quadratic(epsilon=0.1, steps=100, delta_slack=1e-6)
    >>> round(epsilon, 4)
    5.7565
    """
    e, k, slack, d = _step(epsilon, steps, delta_slack, delta)
    return up(_azuma(e, k, slack) + k * e * e / 2.0, positive=e > 0.0), _total_delta(k, d, slack)


def advanced_composition_tight_mean(
    *,
    epsilons: Iterable[float],
    delta_slack: float,
    deltas: Iterable[float] = (),
    counts: Iterable[int] | None = None,
) -> tuple[float, float]:
    """Unlike steps: sum e_i tanh(e_i/2) + sqrt(2 log(1/d') sum e_i^2), with delta = sum d_i + d'.

    ``counts[i]`` repeats step i.

    Azuma's inequality with the exact greatest mean of a loss bounded by epsilon (Kairouz, Oh, Viswanath 2015,
    section 3.3); page ``theory/advanced-composition.md``. Rounded up.

    >>> epsilon, _ = advanced_composition_tight_mean(epsilons=[0.1] * 100, delta_slack=1e-6)
    >>> round(epsilon, 4)
    5.7561
    """
    parts = require.numbers("epsilons", epsilons)
    slack = check.inside("delta_slack", delta_slack)
    times = [require.steps("counts", count) for count in counts] if counts is not None else [1] * len(parts)
    slips = [check.probability("deltas", delta) for delta in deltas] or [0.0] * len(parts)
    if not len(times) == len(slips) == len(parts):
        raise InvalidInput("counts", times, f"as many counts and deltas as epsilons ({len(parts)})")
    mean = fsum(n * e * math.tanh(e / 2.0) for e, n in zip(parts, times, strict=True))
    # the root of the sum of squares, without squaring what a float cannot square
    size = math.hypot(*(math.sqrt(n) * e for e, n in zip(parts, times, strict=True)))
    epsilon = up(mean + math.sqrt(-2.0 * math.log(slack)) * size, positive=max(parts) > 0.0)
    return epsilon, delta_up(fsum(n * d for d, n in zip(slips, times, strict=True)) + slack)


def step_epsilon_printed(*, total_epsilon: float, steps: int, delta_slack: float) -> float:
    """The step size of Corollary 10.1: total / (2 sqrt(2k log(1/d'))), for totals below 1.

    Lecture notes, Corollary 10.1; page ``theory/advanced-composition.md``. The corollary holds with
    ``delta_slack`` alone; its extra delta'/(2k) per step is only room for the steps' own delta. Rounded down
    (a smaller step is safer). ``step_epsilon`` is the largest step that the theorem allows.

    >>> round(step_epsilon_printed(total_epsilon=0.5, steps=100, delta_slack=1e-6), 6)
    0.004756
    """
    total = check.inside("total_epsilon", total_epsilon)
    k, slack = require.steps("steps", steps), check.inside("delta_slack", delta_slack)
    root = math.sqrt(2.0 * k * -math.log(slack))
    # The proof needs k e (e^e - 1) <= total/2, which fails only for a slack near 1: then solve instead.
    step = total / (2.0 * root)
    if _azuma(step, k, slack) + k * step * expm1(step) > total:
        return step_epsilon(total_epsilon=total, steps=k, delta_slack=slack)
    return down(step)


def step_epsilon(*, total_epsilon: float, steps: int, delta_slack: float) -> float:
    """The largest epsilon per step with k e tanh(e/2) + e sqrt(2k log(1/d')) <= total.

    The composition notes (000) drop the first term ("ignore it when k epsilon^2 is small", erratum 18) and overspend:
    at k=50, epsilon=1, delta=1e-3 the true delta is 253 times the target. Here the whole equation is solved; page
    ``theory/advanced-composition.md``. Rounded down.

    >>> round(step_epsilon(total_epsilon=1.0, steps=100, delta_slack=1e-6), 6)
    0.018692
    """
    total = check.positive("total_epsilon", total_epsilon)
    k, slack = require.steps("steps", steps), check.inside("delta_slack", delta_slack)

    def spent(step: float) -> float:
        return _azuma(step, k, slack) + k * step * math.tanh(step / 2.0)

    low, high = 0.0, total / math.sqrt(2.0 * k * -math.log(slack))
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if spent(middle) <= total else (low, middle)
    return down(low)


def azuma_tail(*, steps: int, bound: float, mean: float, threshold: float) -> float:
    """Pr[Y_1 + ... + Y_k > threshold] where every |Y_i| <= bound and E[Y_i | the earlier ones] <= mean.

    e^(-t^2/2) at threshold = k mean + t sqrt(k) bound: the lemma behind advanced composition, of the composition notes
    (000); page ``theory/advanced-composition.md``. Rounded up.

    >>> round(azuma_tail(steps=100, bound=0.1, mean=0.005, threshold=5.7565), 9)
    1e-06
    """
    k, a = require.steps("steps", steps), Fraction(check.positive("bound", bound))
    far = Fraction(check.finite("threshold", threshold))
    excess = far - k * Fraction(check.finite("mean", mean))
    if excess <= 0:
        return 1.0
    if far >= k * a:
        return 0.0
    try:
        exponent = float(excess**2 / (2 * k * a * a))
    except OverflowError:
        return delta_up(0.0, positive=True)
    return delta_up(math.exp(-exponent * (1.0 - 1e-15)), positive=True)


def tv_composition(*, distances: Iterable[float]) -> float:
    """Adaptive steps that are e_i-TV stable are together (1 - prod(1 - e_i))-TV stable, at most sum e_i.

    Theorem 0.1 of the adaptive-analysis lecture (003) has the sum; the product is what its coupling
    gives and is attained; page ``theory/tv-composition.md``. Rounded up.

    >>> round(tv_composition(distances=[0.1, 0.2]), 9)
    0.28
    """
    parts = [check.probability("distances", distance) for distance in distances]
    if any(part == 1.0 for part in parts):
        return 1.0
    return delta_up(-math.expm1(math.fsum(math.log1p(-part) for part in parts)))


def rdp_composition(*, epsilons: Iterable[float]) -> float:
    """At one order the Renyi epsilons of adaptive steps add.

    Theorem 12.3 of the lecture notes, RDP notes (001), amplification note (004), Lemma 2.1 (all state one order for
    every step); page ``theory/rdp-composition.md``. Rounded up.

    >>> round(rdp_composition(epsilons=[0.25, 0.5]), 9)
    0.75
    """
    return up(fsum(require.numbers("epsilons", epsilons)))


def zcdp_composition(*, rhos: Iterable[float]) -> float:
    """Concentrated DP adds: rho_1 + ... + rho_k.

    RDP notes (001), last theorem (Bun, Steinke 2016); page ``theory/rdp-composition.md``. Rounded up.

    >>> round(zcdp_composition(rhos=[0.1, 0.02]), 9)
    0.12
    """
    return up(fsum(require.numbers("rhos", rhos)))


def gdp_composition(*, mus: Iterable[float]) -> float:
    """Gaussian DP composes to sqrt(mu_1^2 + ... + mu_k^2), exactly.

    Section 13.8 of the lecture notes, after Theorem 13.4 (Dong, Roth, Su 2022);
    page ``theory/gdp-composition.md``. Rounded up.

    >>> round(gdp_composition(mus=[3.0, 4.0]), 9)
    5.0
    """
    return up(math.hypot(*require.numbers("mus", mus)))


def _step(epsilon: float, steps: int, delta_slack: float, delta: float) -> tuple[float, int, float, float]:
    return (
        check.nonnegative("epsilon", epsilon),
        require.steps("steps", steps),
        check.inside("delta_slack", delta_slack),
        check.probability("delta", delta),
    )


def _azuma(epsilon: float, steps: int, delta_slack: float) -> float:
    return epsilon * math.sqrt(2.0 * steps * -math.log(delta_slack))


def _total_delta(steps: int, delta: float, slack: float) -> float:
    return delta_up(steps * delta + slack)
