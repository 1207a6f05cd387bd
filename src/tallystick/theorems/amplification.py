"""Hiding who is in the sample: chapters 11, 13 and 14, with the pairs put right.

``PrivacyLoss.sampled`` and ``.subset`` do this for whole pairs; here are the statements about numbers and the
finite pairs on which they can be checked by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import TINY, delta_down, delta_up, double_above, down, exp, expm1, up
from tallystick.theorems import require
from tallystick.theorems.piecewise import (
    PiecewiseTradeoff,
    hull_of_min,
    mixed_with_identity,
)
from tallystick.theorems.plrv import hockey_stick
from tallystick.theorems.require import Floats
from tallystick.theorems.testing import least_type_two_error

Pair = tuple[Floats, Floats]
_MOST_STEPS, _MOST_TYPES = 1000, 100_000


def amplified(*, epsilon: float, rate: float, delta: float = 0.0) -> tuple[float, float]:
    """(log(1 + q (e^eps - 1)), q delta): Poisson sampling under add/remove, subset sampling under replace.

    Section 11.1 and Corollary 13.2 of the lecture notes (Li, Qardaji, Su 2012; Balle, Barthe, Gaboardi 2018);
    page ``theory/amplification.md``. Rounded up.

    >>> epsilon, delta = amplified(epsilon=1.0, rate=0.01, delta=1e-5)
    >>> round(epsilon, 6), round(delta, 9)
    (0.017037, 1e-07)
    """
    e, q = check.nonnegative("epsilon", epsilon), check.probability("rate", rate)
    d = check.probability("delta", delta)
    if q == 0.0:
        return 0.0, 0.0
    # for large epsilon: log(1 + q (e^eps - 1)) = eps + log(q + (1 - q) e^-eps)
    value = math.log1p(q * math.expm1(e)) if e < 700.0 else e + math.log(q + (1.0 - q) * math.exp(-e)) + 1e-13
    return up(min(e, max(value, 0.0)), positive=e > 0.0), delta_up(q * d, positive=d > 0.0)


def survey_amplified(*, epsilon: float, sample: int, population: int, delta: float = 0.0) -> tuple[float, float]:
    """Epsilon and delta of a survey if no one learns who was asked: amplification at the rate sample/population.

    The second reading of Proposition 11.1 (Remark 11.2 of the lecture notes), for people who are included independently
    of each other and whose inclusion stays secret, also from those who ask them; page ``theory/amplification.md``.
    Rounded up.

    >>> epsilon, _ = survey_amplified(epsilon=1.0, sample=1000, population=100_000)
    >>> round(epsilon, 6)
    0.017037
    """
    asked, people = require.steps("sample", sample), require.steps("population", population)
    if asked > people:
        raise InvalidInput("sample", sample, f"at most the population ({people})")
    return amplified(epsilon=epsilon, rate=min(1.0, double_above(Fraction(asked, people))), delta=delta)


def amplified_one_dp(*, rate: float) -> tuple[float, float, float]:
    """A 1-DP mechanism on a Poisson sample: exact log(1 + (e-1) q), then (e-1) q, then 2 q.

    Proposition 11.1 of the lecture notes and Remark 13.10 as corrected (erratum 11); each number is a valid
    epsilon, increasing; page ``theory/amplification.md``. Rounded up.

    >>> [round(value, 6) for value in amplified_one_dp(rate=0.1)]
    [0.158565, 0.171828, 0.2]
    """
    q = check.probability("rate", rate)
    return amplified(epsilon=1.0, rate=q)[0], up(math.expm1(1.0) * q, positive=q > 0.0), up(2.0 * q)


def sampling_rate_for(*, epsilon: float, base_epsilon: float) -> float:
    """The largest rate at which a ``base_epsilon``-DP mechanism becomes ``epsilon``-DP; at least epsilon e^-base.

    Remark 11.1 of the lecture notes keeps elements with probability about epsilon e^-c; the exact rate is
    (e^eps - 1)/(e^c - 1); page ``theory/amplification.md``. Rounded down.

    >>> round(sampling_rate_for(epsilon=0.1, base_epsilon=2.0), 6), round(0.1 * math.exp(-2), 6)
    (0.016461, 0.013534)
    """
    e, c = check.nonnegative("epsilon", epsilon), check.positive("base_epsilon", base_epsilon)
    if e >= c:
        return 1.0
    # (e^e - 1)/(e^c - 1) with the large exponential divided out
    return delta_down(math.exp(e - c) * -math.expm1(-e) / -math.expm1(-c))


def base_epsilon_for(*, epsilon: float, rate: float) -> float:
    """The largest epsilon a mechanism may have so that its Poisson-sampled version is ``epsilon``-DP. Rounded down.

    Page ``theory/amplification.md``.

    >>> round(base_epsilon_for(epsilon=0.1, rate=0.01), 6)
    2.443832
    """
    e, q = check.nonnegative("epsilon", epsilon), check.positive("rate", check.probability("rate", rate))
    odds = expm1(e) / q
    # beyond the largest float the one under the logarithm is lost in rounding
    return down(math.log1p(odds) if odds < math.inf else (math.log(expm1(e)) if e < 700.0 else e) - math.log(q))


def poisson_pairs(
    without: Sequence[float] | Floats, present: Sequence[float] | Floats, *, rate: float
) -> tuple[Pair, Pair]:
    """The REMOVE pair ((1-q) W + q V, W) and the ADD pair (W, (1-q) W + q V); W without the record, V with it.

    Theorem 14.3 and Remark 11.6 of the lecture notes with errata 2 and 3 applied: the printed remove pairs are
    wrong as soon as T(W, V) is not symmetric; page ``theory/poisson-sampling.md``.

    >>> remove, add = poisson_pairs([1.0, 0.0], [0.5, 0.5], rate=0.1)
    >>> remove[0].round(3).tolist(), remove[1].tolist()
    ([0.95, 0.05], [1.0, 0.0])
    """
    w, v = require.pair(without, present)
    q = check.probability("rate", rate)
    mix = (1.0 - q) * w + q * v
    return (mix, w), (w, mix)


def subset_pairs(
    p: Sequence[float] | Floats, q: Sequence[float] | Floats, *, batch: int, larger_population: int
) -> tuple[Pair, Pair]:
    """Subset sampling seen through add/remove: remove ((1-g) P + g Q, P), add (P, (1-g) P + g Q).

    (P, Q) dominates the mechanism under **replace**, P for the sample without the record. g = batch/n with n the size
    of the **larger** dataset (erratum 34). Theorem 14.3(2) of the lecture notes; page ``theory/subset-sampling.md``.

    >>> remove, add = subset_pairs([1.0, 0.0], [0.5, 0.5], batch=1, larger_population=10)
    >>> remove[0].round(3).tolist()
    [0.95, 0.05]
    """
    m, n = require.steps("batch", batch), require.steps("larger_population", larger_population)
    if m > n:
        raise InvalidInput("batch", batch, f"at most the population ({n})")
    return poisson_pairs(p, q, rate=m / n)


def subsampling_operator(f: PiecewiseTradeoff, *, rate: float) -> PiecewiseTradeoff:
    """C_q(f) = hull(min(f_q, f_q^-1)), f_q = q f + (1 - q) Id: subset sampling under replace.

    Definition 13.6 and Theorem 13.7 of the lecture notes (f-DP on the samples, replace adjacency, erratum 13). Apply
    it per step, then compose; the maximum after composition is not proved (erratum 4);
    page ``theory/subset-sampling.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> float(subsampling_operator(f, rate=0.5)(0.0))
    1.0
    """
    mixed = mixed_with_identity(f, rate=rate)
    return hull_of_min(mixed, mixed.inverse())


def subsampled_approx_tradeoff(*, alpha: float, epsilon: float, delta: float, rate: float) -> float:
    """C_q(f_{eps,delta})(alpha) in closed form: max of f_{eps',q delta} and a middle line of slope -1.

    The middle line is 1 - q delta - q (1 - delta)(e^eps - 1)/(e^eps + 1) - alpha. Corollary 13.2 of the lecture notes
    prints it without (1 - delta) (erratum 10: safe but not equal); page ``theory/subset-sampling.md``. Rounded down.

    >>> round(subsampled_approx_tradeoff(alpha=0.3, epsilon=1.0, delta=0.05, rate=0.3), 6)
    0.553297
    """
    a, d, q = (check.probability(n, v) for n, v in (("alpha", alpha), ("delta", delta), ("rate", rate)))
    e = check.nonnegative("epsilon", epsilon)
    small, slip = amplified(epsilon=e, rate=q, delta=d)
    outer = max(0.0, least_type_two_error(alpha=a, epsilon=small, delta=slip))
    middle = math.fsum((1.0, -slip, -up(q * (1.0 - d) * math.tanh(e / 2.0)), -a))
    return delta_down(max(outer, middle))


def composed_directions_delta(pairs: Sequence[Pair], *, epsilon: float, steps: int = 1) -> float:
    """max over directions of H_{e^eps} of pairs composed ``steps`` times: right for add/remove only (section 14.5).

    A record is present or absent for the whole run, so each direction is composed on its own and the worse one counts
    (erratum 4 is about replace); page ``theory/poisson-sampling.md``. Rounded up.

    >>> both = poisson_pairs([0.25, 0.75], [0.75, 0.25], rate=0.5)
    >>> [round(composed_directions_delta(both, epsilon=0.1, steps=k), 6) for k in (1, 10)]
    [0.223707, 0.585924]
    """
    e, k = check.nonnegative("epsilon", epsilon), require.steps("steps", steps, most=_MOST_STEPS)
    if not pairs:
        raise InvalidInput("pairs", pairs, "at least one (P, Q)")
    if k == 1:
        return max(hockey_stick(p, q, epsilon=e) for p, q in pairs)
    return max(_repeated(*require.pair(p, q), e, k) for p, q in pairs)


def _repeated(p: Floats, q: Floats, epsilon: float, steps: int) -> float:
    """H_{e^eps} of k equal pairs: outcomes that were seen equally often are one outcome of the composition."""
    if math.comb(steps + p.size - 1, p.size - 1) > _MOST_TYPES or p.size**steps > 10**300:
        raise InvalidInput("steps", steps, f"at most {_MOST_TYPES} ways in which {p.size} outcomes can be counted")
    # one ulp for every factor of a product, and for every power one for each time that its base was rounded
    off = (2 * p.size + steps + 4) * 2.3e-16
    ratio, total = exp(epsilon), []
    for seen in _counts(steps, p.size):
        times = float(math.factorial(steps) // math.prod(math.factorial(n) for n in seen))
        masses = [times * math.prod(float(law[i]) ** n for i, n in enumerate(seen) if n) for law in (p, q)]
        # a mass of P that vanished still counts, one of Q may be forgotten: both on the safe side
        mine = masses[0] * (1.0 + off) + TINY * all(p[i] > 0.0 for i, n in enumerate(seen) if n)
        theirs = masses[1] * (1.0 - off) * ratio if masses[1] > 0.0 else 0.0
        total.append(max(0.0, mine - theirs))
    return delta_up(math.fsum(total))


def _counts(steps: int, outcomes: int) -> Iterator[tuple[int, ...]]:
    """Every way in which ``steps`` outcomes can be counted."""
    if outcomes == 1:
        yield (steps,)
        return
    for first in range(steps + 1):
        for rest in _counts(steps - first, outcomes - 1):
            yield (first, *rest)
