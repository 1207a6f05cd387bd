"""Noise on the integers: tails of the discrete Gaussian and the two-sided geometric law at any size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from flint import arb, arb_poly, fmpz

from referee.balls import ONE, ZERO, ball, near, within
from referee.finite import Endless
from referee.sides import MOST_FINE, Smooth, Tails

MOST_SUMS = 3000
SMALLEST = arb(2) ** -300


def next_integer(x: arb) -> int:
    """The least integer above x (where x may be one, the one above it)."""
    return int((x + arb(2) ** -150 * (1 + abs(x))).mid().floor().unique_fmpz()) + 1


def theta(centre: arb, sigma: arb) -> arb:
    """The sum over the integers of e^{-(x - centre)^2/(2 sigma^2)}."""
    if sigma >= 1:
        total, m = ONE, 1
        while True:
            term = (-2 * (arb.pi() * sigma * m) ** 2).exp()
            if term < SMALLEST:
                return sigma * (2 * arb.pi()).sqrt() * (total + arb(0, 3 * SMALLEST))
            total, m = total + 2 * term * (2 * arb.pi() * m * centre).cos(), m + 1
    middle = int(centre.mid().floor().unique_fmpz())
    return sum(
        (-(x - centre) * (x - centre) / (2 * sigma**2)).exp() for x in (arb(middle + k) for k in range(-24, 26))
    ) * (1 + arb(0, SMALLEST))


@dataclass(frozen=True)
class DiscreteGaussian(Smooth):
    """e^{-(x - shift)^2/(2 sigma^2)} against e^{-x^2/(2 sigma^2)} on the integers."""

    sigma: arb
    shift: int

    @cached_property
    def _norm(self) -> arb:
        return theta(ZERO, self.sigma)

    def tail(self, k: int) -> arb:
        """P(X >= k) around zero."""
        if k <= 0:
            return 1 - self.tail(1 - k)
        x = arb(k)
        first = (-(x**2) / (2 * self.sigma**2)).exp()
        if float(220 * self.sigma.mid() ** 2 / x) < 6000 or float(self.sigma.mid()) < 60:
            return first * self._falling(x) / self._norm
        return (self._integral(x) + first * self._endpoint(x / self.sigma)) / self._norm

    def _falling(self, x: arb) -> arb:
        """The sum from x on over its first term, each term made from the last."""
        ratio = (-(2 * x + 1) / (2 * self.sigma**2)).exp()
        shrink = (-1 / self.sigma**2).exp()
        total, term = ONE, ONE
        while term > SMALLEST:
            term, ratio = term * ratio, ratio * shrink
            total += term
        return total + arb(0, (term * ratio / (1 - ratio)).upper())

    def _integral(self, x: arb) -> arb:
        return (x / (self.sigma * arb(2).sqrt())).erfc() * self.sigma * (arb.pi() / 2).sqrt()

    def _endpoint(self, y: arb) -> arb:
        """Euler and Maclaurin: the half of the first term and its odd derivatives, over the first term."""
        hermite = [ONE, y]
        while len(hermite) < 32:
            n = len(hermite) - 1
            hermite.append(y * hermite[-1] - n * hermite[-2])
        total, last = arb(0.5), ZERO
        for j in range(1, 15):
            last = arb.bernoulli(2 * j) / arb(fmpz.fac_ui(2 * j)) * hermite[2 * j - 1] / self.sigma ** (2 * j - 1)
            total += last
        return total + arb(0, (4 * abs(last)).upper())

    def tails(self, a: arb) -> Tails:
        if not a > 0:
            return ONE, ONE
        threshold = self.sigma**2 * a.log() / self.shift + arb(self.shift) / 2
        k = next_integer(threshold)
        return self.tail(k - self.shift), self.tail(k)

    def renyi(self, order: float) -> arb | None:
        if math.isinf(order):
            return None
        size = arb(self.shift) ** 2 / (2 * self.sigma**2)
        if order == 1:
            return size
        n = ball(order)
        return (n * (n - 1) * size + (theta(n * self.shift, self.sigma) / self._norm).log()) / (n - 1)

    def fine(self, order: float) -> list[Tails] | None:
        reach = int(20 * near(self.sigma)) + 2
        last = int(reach + order * self.shift)
        if last + reach > MOST_FINE:
            return None
        masses = {x: self._mass(x) for x in range(-reach - self.shift, last + 1)}
        return [(masses[x - self.shift], masses[x]) for x in range(-reach, last + 1)]

    def _mass(self, x: int) -> arb:
        return (-(arb(x) ** 2) / (2 * self.sigma**2)).exp() / self._norm

    def added(self, count: int) -> Endless | None:
        """The ratio of several draws depends on their sum alone: the masses of the sums, and of shifted sums."""
        reach, moved = int(20 * near(self.sigma)) + 2, count * self.shift
        middle = count * reach
        if count > 6 or 2 * middle + moved > MOST_SUMS:
            return None
        law = arb_poly([self._mass(x) for x in range(-reach, reach + 1)]) ** count
        outcomes = []
        for s in range(middle + moved, -middle - 1, -1):
            loss = (2 * s - moved) * arb(self.shift) / (2 * self.sigma**2)
            if loss > 0:  # the larger mass from the list, the other from the ratio
                p = law[s - moved + middle]
                outcomes.append((p, p * (-loss).exp()))
            else:
                q = law[s + middle]
                outcomes.append((q * loss.exp(), q))
        return Endless(tuple(outcomes))

    def moments(self) -> tuple[arb, arb] | None:
        size = arb(self.shift) ** 2 / (2 * self.sigma**2)
        sigma = near(self.sigma)
        if sigma > 20:
            spread = within(self.sigma**2, 1e-30)
        else:
            reach = int(40 * sigma) + 3
            weights = [(x, (-(arb(x) ** 2) / (2 * self.sigma**2)).exp()) for x in range(1, reach)]
            spread = 2 * sum((arb(x) ** 2 * w for x, w in weights), ZERO) / self._norm
        return size, arb(self.shift) ** 2 / self.sigma**4 * spread


@dataclass(frozen=True)
class DiscreteLaplace(Smooth):
    """e^{-|x - shift|/scale} against e^{-|x|/scale} on the integers."""

    scale: arb
    shift: int

    def tail(self, k: int) -> arb:
        """P(X >= k) around zero."""
        if k <= 0:
            return 1 - self.tail(1 - k)
        return (-arb(k) / self.scale).exp() / (1 + (-1 / self.scale).exp())

    def mass(self, k: int) -> arb:
        """P(X = k) around zero."""
        one = (-1 / self.scale).exp()
        return (-arb(abs(k)) / self.scale).exp() * (1 - one) / (1 + one)

    def tails(self, a: arb) -> Tails:
        if not a > 0:
            return ONE, ONE
        loss, reach = a.log(), arb(self.shift) / self.scale
        if loss >= reach:
            return ZERO, ZERO
        if loss < -reach:
            return ONE, ONE
        k = min(max(next_integer((loss * self.scale + self.shift) / 2), 1), self.shift)
        return self.tail(k - self.shift), self.tail(k)

    def top(self) -> arb | None:
        return arb(self.shift) / self.scale

    def renyi(self, order: float) -> arb | None:
        reach = arb(self.shift) / self.scale
        if math.isinf(order):
            return reach
        if order == 1:
            return self._mean()
        n = ball(order)
        ends = self.tail(0) * ((n - 1) * reach).exp() + self.tail(self.shift) * (-(n - 1) * reach).exp()
        step = (2 * n - 1) / self.scale  # P(x) e^{(n-1)(2x - shift)/scale} grows by e^step per integer
        first = (
            self.mass(self.shift - 1) * ((n - 1) * (2 - arb(self.shift)) / self.scale).exp() if self.shift > 1 else ZERO
        )
        middle = first * ((self.shift - 1) * step).expm1() / step.expm1() if self.shift > 1 else ZERO
        return (ends + middle).log() / (n - 1)

    def _mean(self) -> arb | None:
        """E[L], from E[L] = sum over levels of P(x >= k) steps of 2/scale, above the lowest loss."""
        # sum over k = 1..shift of P(X >= k) with X around shift: a geometric sum of tails below zero.
        one = (-1 / self.scale).exp()
        lost = sum_geometric(one, self.shift) / (1 + one)  # sum over j = 1..shift of P(X >= j)
        kept = arb(self.shift) - lost + 0
        return (2 * (kept) - self.shift) / self.scale if self.shift else ZERO


def sum_geometric(ratio: arb, count: int) -> arb:
    """ratio + ratio^2 + ... + ratio^count."""
    return ratio * (1 - ratio**count) / (1 - ratio)
