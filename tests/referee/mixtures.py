"""Mixtures of Gaussians against one at zero, from their definition: tails on the line where the ratio passes a."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from referee.balls import ONE, ZERO, ball, near, normal_tail
from referee.sides import MOST_FINE, MOST_NODES, Nodes, Smooth, Tails


def rough_quantile(means: Any, shares: Any, alpha: float) -> float:
    """A mixture of N(mean, 1) is above it with chance alpha."""
    low, high = float(means.min() - ndtri(alpha)), float(means.max() - ndtri(alpha))
    if not low < high:
        return low
    return float(brentq(lambda y: log_chance(means - y, shares) - math.log(alpha), low - 1e-9, high + 1e-9, xtol=1e-13))


def log_chance(places: Any, shares: Any) -> float:
    return float(np.logaddexp.reduce(np.log(shares) + log_ndtr(places)))


def quantile(law: list[Tails], alpha: arb) -> arb:
    """The same in balls: Newton's on the logarithm, certified by points beside it with more and with less."""
    means, shares = (np.array([near(pair[i]) for pair in law]) for i in (0, 1))
    y, root = ball(rough_quantile(means, shares, near(alpha))), (2 * arb.pi()).sqrt()

    def chance(y: arb) -> arb:
        return sum((p * normal_tail(y - mean) for mean, p in law), ZERO)

    for _ in range(5):
        here = chance(y)
        slope = sum((p * (-((y - mean) ** 2) / 2).exp() / root for mean, p in law), ZERO)
        y = (y + (here / alpha).log() * here / slope).mid()
    width = arb(2) ** -150 * (1 + abs(y))
    if chance(y - width) > alpha and chance(y + width) < alpha:
        return (y - width).union(y + width)
    raise ArithmeticError("a quantile that was not found")


@dataclass(frozen=True)
class GaussianMixture(Smooth):
    """sum of p_i N(mu_i, 1) against N(0, 1), mu_i >= 0, or the other order where ``adding``."""

    shifts: tuple[arb, ...]
    shares: tuple[arb, ...]
    adding: bool = False

    @property
    def absent(self) -> arb:
        """The chance that nothing moves."""
        return sum((p for mu, p in zip(self.shifts, self.shares, strict=True) if not mu > 0), ZERO)

    def ratio(self, x: arb) -> arb:
        return sum((p * (mu * x - mu * mu / 2).exp() for mu, p in zip(self.shifts, self.shares, strict=True)), ZERO)

    def where(self, a: arb) -> arb:
        """The x with that ratio, which grows with x: Newton's, certified by points beside it with less and with more.

        The search is for the logarithm, which is convex: from the right every step stays there.
        """
        level = a.log()
        parts = [(mu, p) for mu, p in zip(self.shifts, self.shares, strict=True) if mu > 0]
        start = min(near((level - p.log()) / mu + mu / 2) for mu, p in parts)
        x = ball(start)
        for _ in range(300):
            ratio = self.ratio(x)
            slope = sum((mu * p * (mu * x - mu * mu / 2).exp() for mu, p in parts), ZERO) / ratio
            step = (ratio.log() - level) / slope
            x = (x - step).mid()
            if abs(near(step)) < 1e-60 * (1 + abs(near(x))):
                break
        width = (arb(2) ** -190) * (1 + abs(x))
        if self.ratio(x - width) < a and self.ratio(x + width) > a:
            return (x - width).union(x + width)
        return self._halved(a)

    def _halved(self, a: arb) -> arb:
        low, high = ball(-1), ball(1)
        while not self.ratio(low) < a:
            low = low * 2
        while not self.ratio(high) > a:
            high = high * 2
        for _ in range(400):
            middle = ((low + high) / 2).mid()
            found = self.ratio(middle)
            if not (found < a or found > a):
                break
            low, high = (middle, high) if found < a else (low, middle)
        return low.union(high)

    def tails(self, a: arb) -> Tails:
        if self.adding:
            if not a > 0:
                return ONE, ONE
            if not 1 / a > self.absent:
                return ZERO, ZERO
            p, q = self._tails(1 / a)
            return 1 - q, 1 - p
        return (ONE, ONE) if not a > self.absent else self._tails(a)

    def _tails(self, a: arb) -> Tails:
        x = self.where(a)
        p = sum((p * normal_tail(x - mu) for mu, p in zip(self.shifts, self.shares, strict=True)), ZERO)
        return p, normal_tail(x)

    def profile(self, a: arb) -> arb:
        """1 - a + a H_{1/a} of the other order keeps the digits of a small delta: no tail is taken from one."""
        if not self.adding:
            return super().profile(a)
        if not 1 / a > self.absent:
            return ZERO
        x = self.where(1 / a)
        p = sum((p * normal_tail(mu - x) for mu, p in zip(self.shifts, self.shares, strict=True)), ZERO)
        return (normal_tail(-x) - a * p).nonnegative_part()

    def power(self, alpha: arb) -> arb:
        """The best test rejects above a point (where ``adding`` below it), and a point of level alpha is a quantile."""
        if not 1 - alpha > 1e-15:  # between the level itself and certainty
            return alpha.lower().min(ONE).union(ONE)
        if not alpha > 1e-300:
            return super().power(alpha)
        if alpha.rad() > ball(1e-60) * alpha:
            return self.power(alpha.lower()).union(self.power(alpha.upper()))
        law = list(zip(self.shifts, self.shares, strict=True))
        if self.adding:
            return normal_tail(quantile([(-mu, p) for mu, p in law], alpha))
        x = quantile([(ZERO, ONE)], alpha)
        return sum((p * normal_tail(x - mu) for mu, p in law), ZERO)

    def rough_power(self, alpha: float) -> float:
        """The same in doubles, to search with."""
        shifts, shares = (np.array([near(x) for x in xs]) for xs in (self.shifts, self.shares))
        if self.adding:
            return float(ndtr(-rough_quantile(-shifts, shares, alpha)))
        return float(shares @ ndtr(shifts + ndtri(alpha)))

    def top(self) -> arb | None:
        return -self.absent.log() if self.adding and self.absent > 0 else None

    def renyi(self, order: float) -> arb | None:
        return self.top() if math.isinf(order) else super().renyi(order)

    def nodes(self, order: float) -> Nodes | None:
        shifts, shares = [near(mu) for mu in self.shifts], [near(p) for p in self.shares]
        steep = max(shifts)
        step = 0.04 / max(1.0, steep)
        low, high = -12.0 - steep * (order if self.adding else 1.0), 12.0 + max(order, 1.0) * steep
        if (high - low) / step > MOST_NODES:
            return None
        x = np.arange(low, high, step)
        log_q = -x * x / 2 + math.log(step / math.sqrt(2 * math.pi))
        loss = np.logaddexp.reduce([math.log(p) + mu * x - mu * mu / 2 for mu, p in zip(shifts, shares, strict=True)])
        return (-loss, log_q, log_q + loss) if self.adding else (loss, log_q + loss, log_q)

    def fine(self, order: float) -> list[Tails] | None:
        """Trapezoids: analytic for |Im x| < pi/mu, and nothing beyond 20 sigma of what matters."""
        steep = max(near(mu) for mu in self.shifts)
        step = 0.04 / max(1.0, steep)
        first = int((-20 - steep * (order if self.adding else 1.0)) / step)
        last = int((20 + order * steep) / step)
        if last - first > MOST_FINE:
            return None
        size = ball(step) / (2 * arb.pi()).sqrt()
        result = []
        for i in range(first, last + 1):
            x = ball(step) * i
            q = size * (-(x * x) / 2).exp()
            p = q * self.ratio(x)
            result.append((q, p) if self.adding else (p, q))
        return result
