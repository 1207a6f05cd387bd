"""The privacy loss random variable: chapters 9 and 14, on finite pairs and through cdfs.

PLRV(P|Q) is L = log p/q under P, with an atom at +infinity where Q has no mass. F is its cdf, G the cdf
of PLRV(Q|P). Errata 5, 6, 28 and 32 are applied throughout.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import delta_up, exp, up
from tallystick.theorems import require
from tallystick.theorems.piecewise import PiecewiseTradeoff
from tallystick.theorems.require import Floats


@dataclass(frozen=True, slots=True)
class DiscreteLoss:
    """Atoms of PLRV(P|Q): finite ``losses`` with their P-masses, and the mass at +infinity.

    Definition 14.1 of the lecture notes; page ``theory/privacy-loss-variable.md``.

    >>> loss = DiscreteLoss.of_pair([0.75, 0.25], [0.25, 0.75])
    >>> [round(value, 4) for value in loss.losses], loss.masses, loss.infinite
    ([-1.0986, 1.0986], (0.25, 0.75), 0.0)
    """

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float

    @staticmethod
    def of_pair(p: Sequence[float] | Floats, q: Sequence[float] | Floats) -> DiscreteLoss:
        """Sorted, equal losses merged."""
        first, second = require.pair(p, q)
        finite = (first > 0.0) & (second > 0.0)
        values = np.log(first[finite]) - np.log(second[finite])
        losses, where = np.unique(values, return_inverse=True)
        masses = np.bincount(where.ravel(), weights=first[finite], minlength=losses.size)
        infinite = float(np.sum(first[second == 0.0]))
        return DiscreteLoss(tuple(losses.tolist()), tuple(masses.tolist()), infinite)

    def cdf(self, x: float) -> float:
        """F(x) = P[L <= x]."""
        return math.fsum(m for value, m in zip(self.losses, self.masses, strict=True) if value <= x)

    def cdf_left(self, x: float) -> float:
        """F(x-) = P[L < x]: atoms matter."""
        return math.fsum(m for value, m in zip(self.losses, self.masses, strict=True) if value < x)

    def reversed_cdf(self, x: float) -> float:
        """G(x) = P_Q[PLRV(Q|P) <= x] = integral over t >= -x of e^-t dF(t): Lemma 14 as corrected (erratum 5).

        >>> round(DiscreteLoss.of_pair([0.75, 0.25], [0.25, 0.75]).reversed_cdf(0.0), 9)
        0.25
        """
        return math.fsum(m * math.exp(-t) for t, m in zip(self.losses, self.masses, strict=True) if t >= -x)

    def characteristic_function(self, t: float) -> complex:
        """E[e^(+itL)] over the finite part (erratum 32: the notes' integral has the other sign)."""
        return sum((m * cmath.exp(1j * t * value) for value, m in zip(self.losses, self.masses, strict=True)), start=0j)


def hockey_stick(p: Sequence[float] | Floats, q: Sequence[float] | Floats, *, epsilon: float) -> float:
    """H_{e^eps}(P||Q) = sum (p - e^eps q)_+: the exact delta of the pair (Theorem 9.1; Remark 14.4(3)).

    A P-expectation, so mass outside the support of Q counts in full; page ``theory/hockey-stick.md``. Rounded up.

    >>> round(hockey_stick([0.75, 0.25], [0.25, 0.75], epsilon=0.5), 6)
    0.33782
    """
    first, second = require.pair(p, q)
    ratio = math.exp(min(check.finite("epsilon", epsilon), 709.0))
    # a difference within rounding of zero counts with its rounding error, so that no positive mass is dropped
    excess = first - ratio * second + 4e-16 * first
    return delta_up(math.fsum(np.maximum(excess, 0.0).tolist()))


def delta_of_loss_cdfs(
    cdf: Callable[[float], float], reversed_left: Callable[[float], float], *, epsilon: float
) -> float:
    """delta(eps) = 1 - F(eps) - e^eps G((-eps)-), with ``reversed_left(x)`` = G(x-), the left limit.

    Remark 14.4(2) of the lecture notes prints 1 - e^eps + e^eps F(eps), too small at small epsilon (erratum 6:
    .1756 for .2384); page ``theory/delta-three-ways.md``. Rounded up, with 4e-16 for the cancellation.

    >>> loss, back = DiscreteLoss.of_pair([0.75, 0.25], [0.25, 0.75]), DiscreteLoss.of_pair([0.25, 0.75], [0.75, 0.25])
    >>> round(delta_of_loss_cdfs(loss.cdf, back.cdf_left, epsilon=0.5), 6)
    0.33782
    """
    e = check.finite("epsilon", epsilon)
    ratio = math.exp(min(e, 709.0))
    taken = ratio * reversed_left(-e)
    # the difference of numbers up to 1 carries a few of their ulps
    return delta_up(max(0.0, 1.0 - cdf(e) - taken) + 4e-16 * (1.0 + taken))


def tradeoff_of_loss_cdfs(
    quantile: Callable[[float], float], reversed_cdf: Callable[[float], float], *, alpha: float
) -> float:
    """T(P, Q)(alpha) = G(-F^-1(alpha)) for continuous losses: Corollary 14.1 as corrected.

    The printed G(F^-1(1 - alpha)) returns 1 - alpha, perfect privacy, for every mechanism (erratum 5);
    page ``theory/privacy-loss-variable.md``. As accurate as the two functions given; not rounded.

    >>> from tallystick.theorems.normal import cdf, quantile
    >>> round(tradeoff_of_loss_cdfs(lambda a: 0.5 + quantile(a), lambda x: cdf(x - 0.5), alpha=0.05), 5)
    0.74049
    """
    return reversed_cdf(-quantile(check.inside("alpha", alpha)))


def loss_cdf_of_tradeoff(f: PiecewiseTradeoff, *, x: float) -> float:
    """F(x): the P-mass of the segments of f = T(P, Q) with slope at most -e^-x (Lemma 15, corrected).

    The printed version uses slope -e^x and one minus the abscissa (erratum 5); page
    ``theory/privacy-loss-variable.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> round(loss_cdf_of_tradeoff(f, x=0.0), 6)
    0.268941
    """
    a, b = np.asarray(f.alphas), np.asarray(f.betas)
    widths, drops = np.diff(a), -np.diff(b)
    steep = drops >= widths * exp(-check.finite("x", x)) * (1.0 - 1e-12)
    return math.fsum(widths[steep & (drops > 0.0)].tolist())


def composed_characteristic_function(losses: Iterable[DiscreteLoss], *, t: float) -> complex:
    """The product of the characteristic functions: that of the composed loss (Proposition 14.2).

    Losses of independent releases add (Proposition 14.1). Finite parts only: the masses at +infinity combine as
    1 - prod(1 - d_i); page ``theory/characteristic-functions.md``.

    >>> step = DiscreteLoss.of_pair([0.75, 0.25], [0.25, 0.75])
    >>> abs(composed_characteristic_function([step, step], t=0.7) - step.characteristic_function(0.7) ** 2) < 1e-15
    True
    """
    value = 1 + 0j
    for loss in losses:
        value *= loss.characteristic_function(check.finite("t", t))
    return value


def gaussian_characteristic_function(*, mu: float, t: float) -> complex:
    """exp(i t mu^2/2 - mu^2 t^2/2): the loss of mu-GDP is N(mu^2/2, mu^2).

    Page ``theory/characteristic-functions.md``.

    >>> gaussian_characteristic_function(mu=1.0, t=0.0)
    (1+0j)
    """
    m, at = check.nonnegative("mu", mu), check.finite("t", t)
    width = abs(m * at)
    if width > 40.0:
        # the modulus e^(-width^2/2) is below every float
        return 0j
    phase = m * width / 2.0
    if phase > 1e8:
        raise InvalidInput("t", t, f"at most {2e8 / m / m:g} in size (beyond it the phase has no digits left)")
    return cmath.rect(math.exp(-width * width / 2.0), math.copysign(phase, at))


def loss_tail_delta(p: Sequence[float] | Floats, q: Sequence[float] | Floats, *, epsilon: float) -> float:
    """P[L >= eps], a valid delta at epsilon that is never below the exact one (Lemma 6).

    Crude by Remark 9.2: it counts every bad outcome in full; page ``theory/loss-tail.md``. Rounded up.

    >>> round(loss_tail_delta([0.75, 0.25], [0.25, 0.75], epsilon=0.5), 9)
    0.75
    """
    loss = DiscreteLoss.of_pair(p, q)
    e = check.nonnegative("epsilon", epsilon)
    # a loss within rounding of epsilon counts as reaching it
    reach = e - 4e-16 * (1.0 + e)
    hits = [m for value, m in zip(loss.losses, loss.masses, strict=True) if value >= reach]
    return delta_up(math.fsum([*hits, loss.infinite]))


def loss_tail_epsilon(tail: Callable[[float], float], *, delta: float, highest: float) -> float:
    """The least epsilon in [0, highest] with P[L >= eps] <= delta, for a non-increasing ``tail``; Lemma 6 solved.

    Page ``theory/loss-tail.md``. Rounded up; raises when even ``highest`` is not enough.

    >>> from tallystick.theorems.normal import cdf
    >>> round(loss_tail_epsilon(lambda e: cdf(0.5 - e), delta=1e-5, highest=100.0), 4)
    4.7649
    """
    d, high = check.inside("delta", delta), check.positive("highest", highest)
    if tail(high) > d:
        raise InvalidInput("highest", highest, f"an epsilon whose tail is at most {d:g}")
    low = 0.0
    if tail(0.0) <= d:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if high - low <= 1e-14 * high or middle in (low, high):
            break
        low, high = (low, middle) if tail(middle) <= d else (middle, high)
    return up(high)
