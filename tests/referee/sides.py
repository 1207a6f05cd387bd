"""One order of two data sets: everything the definitions say about a pair of laws (P, Q) with ratio r = dP/dQ.

A ``Side`` answers in balls.  ``Smooth`` sides know their tails (P(r > a), Q(r > a)) in closed form; the rest follows:

    H_a = P(r > a) - a Q(r > a)                  and the most power at level alpha, between
    chords of (Q(r > a), P(r > a))               (concave, so a chord is below) and
    a alpha + H_a                                (for any a, by the lemma of Neyman and Pearson).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb
from scipy.optimize import minimize_scalar

from referee.balls import ONE, ZERO, ball, joined, near, normal_tail, within

Tails = tuple[arb, arb]
Nodes = tuple[Any, Any, Any]  # losses, log of P's weights, log of Q's weights
MOST_NODES = 400_000
MOST_FINE = 6000
FINE_ERROR = 1e-25
NODE_ERROR = 1e-11


class Side:
    """What can be asked of (P, Q); None where this side cannot say."""

    def profile(self, a: arb) -> arb:
        """H_a = sup over events of P - a Q."""
        raise NotImplementedError

    def power(self, alpha: arb) -> arb:
        """The most P-mass of an event of Q-mass alpha."""
        raise NotImplementedError

    def infinite(self) -> arb:
        """P's mass where Q has none."""
        return ZERO

    def top(self) -> arb | None:
        """The largest finite loss; None if there is none."""
        return None

    def renyi(self, order: float) -> arb | None:
        """The divergence of that order (1 is Kullback-Leibler) where it is finite and known."""
        return None

    def cdf(self, x: arb) -> tuple[arb, arb] | None:
        """Enclosures of P(L < x) and P(L <= x)."""
        return None

    def moments(self) -> tuple[arb, arb] | None:
        """Mean and variance of L under P, where infinity has no mass."""
        return None

    def transform(self, t: float) -> complex | None:
        """E[e^{itL}] over the finite losses."""
        return None


class Smooth(Side):
    """A side with closed-form tails."""

    def tails(self, a: arb) -> Tails:
        """P(r > a) and Q(r > a), a >= 0."""
        raise NotImplementedError

    def nodes(self, order: float) -> Nodes | None:
        """Points whose weighted sums are integrals against P and Q, good for e^{(order - 1) L}."""
        return None

    def fine(self, order: float) -> list[Tails] | None:
        """The same points in balls, few enough to add up: sums of P^n Q^(1-n), n <= order, are good to FINE_ERROR."""
        return None

    def profile(self, a: arb) -> arb:
        p, q = self.tails(a)
        return (p - a * q).nonnegative_part()

    def power(self, alpha: arb) -> arb:
        if not alpha > 0:
            return self.infinite()
        low, high = self._bracket(alpha)
        for _ in range(200):
            middle = (low + high) / 2
            if self.tails(middle.exp())[1] <= alpha:
                high = middle
            else:
                low = middle
            if high - low < 1e-17 * (1 + abs(near(high))):
                break
        a = high.mid().exp()
        (p1, q1), (p0, q0) = self.tails(a), self.tails(low.mid().exp())
        above = a * alpha + self.profile(a)
        width = q0 - q1
        below = p1 + (p0 - p1) * (alpha - q1) / width if width > 0 and q1 <= alpha else p1
        return joined(below.lower(), above.upper()).min(ONE)

    def _bracket(self, alpha: arb) -> tuple[arb, arb]:
        """Logarithms of a between which Q(r > a) passes alpha."""
        step = 1.0
        high = ZERO
        while not self.tails(high.exp())[1] <= alpha:
            high, step = high + step, step * 2
        low, step = high - 1, 1.0
        while self.tails(low.exp())[1] <= alpha and step < 1e15:
            low, step = low - step, step * 2
        return low, high

    def cdf(self, x: arb) -> tuple[arb, arb] | None:
        above = 1 - self.tails(x.exp())[0]
        nudge = (arb(2) ** -200) * (1 + abs(x))
        below = 1 - self.tails((x - nudge).exp())[0]
        return below, above

    def renyi(self, order: float) -> arb | None:
        if math.isinf(order):
            return None
        if order <= 100 and (listed := self.fine(order)) is not None:
            return _divergence(listed, order)
        found = self.nodes(order)
        if found is None:
            return None
        loss, log_p, _ = found
        if order == 1:
            return within(ball(float(np.dot(np.exp(log_p), loss))), NODE_ERROR, 1e-13 * (1 + _spread(loss, log_p)))
        exponent = (order - 1) * loss + log_p
        most = float(exponent.max())
        value = (most + math.log(float(np.exp(exponent - most).sum()))) / (order - 1)
        # Doubles of the size of the losses round: the masses at the nodes are that much off.
        rounding = 4e-15 * float(np.abs(loss).max())
        return within(ball(value), NODE_ERROR, (NODE_ERROR + rounding) / (order - 1))

    def moments(self) -> tuple[arb, arb] | None:
        if (listed := self.fine(1.0)) is not None:
            losses = [(p, (p / q).log()) for p, q in listed]
            mean = sum((p * loss for p, loss in losses), ZERO)
            variance = sum((p * (loss - mean) * (loss - mean) for p, loss in losses), ZERO)
            return within(mean, FINE_ERROR, 1e-32), within(variance, FINE_ERROR, 1e-32)
        found = self.nodes(1.0)
        if found is None:
            return None
        loss, log_p, _ = found
        weight = np.exp(log_p)
        mean = float(np.dot(weight, loss))
        variance = float(np.dot(weight, (loss - mean) ** 2))
        return within(ball(mean), 1e-10, 1e-13), within(ball(variance), 1e-10, 1e-13)

    def transform(self, t: float) -> complex | None:
        found = self.nodes(1.0)
        if found is None:
            return None
        loss, log_p, _ = found
        return complex(np.dot(np.exp(log_p), np.exp(1j * t * loss)))


def _divergence(listed: list[Tails], order: float) -> arb:
    if order == 1:
        return within(sum((p * (p / q).log() for p, q in listed), ZERO), FINE_ERROR, 1e-32)
    rest = ball(order) - 1
    total = sum((p * (rest * (p / q).log()).exp() for p, q in listed), ZERO)
    return within((total - 1).log1p() / rest, FINE_ERROR, 1e-32 / (order - 1))


def _spread(loss: Any, log_p: Any) -> float:
    return float(np.dot(np.exp(log_p), np.abs(loss)))


def mills(z: arb) -> arb:
    """P(N > z)/phi(z) for large z, between two partial sums of its alternating series."""
    term, total = 1 / z, ZERO
    for k in range(1, 12):
        total, term = total + term, -term * (2 * k - 1) / (z * z)
    return joined(total, total + term)


@dataclass(frozen=True)
class Gaussian(Smooth):
    """N(mu, 1) against N(0, 1)."""

    mu: arb

    def tails(self, a: arb) -> Tails:
        if not a > 0:
            return ONE, ONE
        x = a.log() / self.mu
        return normal_tail(x - self.mu / 2), normal_tail(x + self.mu / 2)

    def profile(self, a: arb) -> arb:
        """Far out a Q(r > a) is phi(x - mu/2) times the ratio of Mills at x + mu/2: neither overflows."""
        if not a > 0 or not a.log() / self.mu + self.mu / 2 > 1000:
            return super().profile(a)
        far = a.log() / self.mu + self.mu / 2
        density = (-((far - self.mu) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()
        return (normal_tail(far - self.mu) - density * mills(far)).nonnegative_part()

    def renyi(self, order: float) -> arb | None:
        return None if math.isinf(order) else ball(order) * self.mu**2 / 2

    def moments(self) -> tuple[arb, arb] | None:
        return self.mu**2 / 2, self.mu**2

    def transform(self, t: float) -> complex | None:
        square = near(self.mu) ** 2
        return complex(np.exp(1j * t * square / 2 - t * t * square / 2))

    def nodes(self, order: float) -> Nodes | None:
        mu = near(self.mu)
        step = 0.04 / max(1.0, mu)
        low, high = -12.0 - mu, 12.0 + max(order, 1.0) * mu
        if (high - low) / step > MOST_NODES:
            return None
        x = np.arange(low, high, step)  # Q = N(0, 1)
        log_q = -x * x / 2 + math.log(step / math.sqrt(2 * math.pi))
        loss = mu * x - mu * mu / 2
        return loss, log_q + loss, log_q

    def fine(self, order: float) -> list[Tails] | None:
        """Trapezoids: the integrand, sampled or not, is analytic for |Im x| < pi/mu, and nothing beyond 20 sigma."""
        mu = near(self.mu)
        step = 0.04 / max(1.0, mu)
        first, last = int(-20 / step), int((20 + order * mu) / step)
        if last - first > MOST_FINE:
            return None
        size = ball(step) / (2 * arb.pi()).sqrt()
        points = [ball(step) * i for i in range(first, last + 1)]
        return [(size * (-((x - self.mu) ** 2) / 2).exp(), size * (-(x * x) / 2).exp()) for x in points]


@dataclass(frozen=True)
class Laplace(Smooth):
    """Laplace of scale b around 1 against around 0: losses run from -1/b to 1/b, with atoms at both ends."""

    scale: arb

    def tails(self, a: arb) -> Tails:
        if not a > 0:
            return ONE, ONE
        reach = 1 / self.scale
        loss = a.log()
        if loss >= reach:
            return ZERO, ZERO
        if loss < -reach:
            return ONE, ONE
        x = (1 + loss * self.scale) / 2  # L = (|x| - |x - 1|)/b
        return 1 - (-(1 - x) / self.scale).exp() / 2, (-x / self.scale).exp() / 2

    def top(self) -> arb | None:
        return 1 / self.scale

    def renyi(self, order: float) -> arb | None:
        reach = 1 / self.scale
        if math.isinf(order):
            return reach
        if order == 1:
            return reach + (-reach).exp() - 1
        n = ball(order)
        total = n / (2 * n - 1) * ((n - 1) * reach).exp() + (n - 1) / (2 * n - 1) * (-n * reach).exp()
        return total.log() / (n - 1)

    def moments(self) -> tuple[arb, arb] | None:
        b, reach = self.scale, 1 / self.scale
        gone = (-reach).exp()
        mean = reach + gone - 1
        inside = (1 - gone) - 4 * b * (1 - (1 + reach) * gone) + 4 * b * b * (2 - (2 + 2 * reach + reach**2) * gone)
        return mean, (1 + gone + inside) / (2 * b * b) - mean * mean

    def transform(self, t: float) -> complex | None:
        reach = 1 / near(self.scale)
        turn, gone = np.exp(1j * t * reach), math.exp(-reach)
        between = turn * (1 - gone / turn**2) / (1 + 2j * t)
        return complex((turn + gone / turn + between) / 2)

    def nodes(self, order: float) -> Nodes | None:
        b = near(self.scale)
        if 1 / b > 2000 or order / b > 1e5:
            return None
        panels = max(8, int(4 / b * (1 + order)))
        if panels * 16 > MOST_NODES:
            return None
        base, weight = np.polynomial.legendre.leggauss(16)
        edges = np.linspace(0.0, 1.0, panels + 1)
        half = (edges[1:] - edges[:-1]) / 2
        x = ((edges[1:] + edges[:-1]) / 2)[:, None] + half[:, None] * base
        w = np.log(np.broadcast_to(half[:, None] * weight, x.shape)).ravel()
        x = x.ravel()
        log_p, log_q = w - (1 - x) / b - math.log(2 * b), w - x / b - math.log(2 * b)
        ends = np.array([-1 / b, 1 / b])
        end_p, end_q = np.array([-1 / b, 0.0]) - math.log(2), np.array([0.0, -1 / b]) - math.log(2)
        return (
            np.concatenate([(2 * x - 1) / b, ends]),
            np.concatenate([log_p, end_p]),
            np.concatenate([log_q, end_q]),
        )

    def fine(self, order: float) -> list[Tails] | None:
        """Twenty Gauss nodes in panels of a quarter of the scale (for high orders a sixteenth), and the two atoms."""
        b = self.scale
        panels = max(1, math.ceil((4 if order <= 16 else 16) / near(b)))
        if panels * 20 > MOST_FINE:
            return None
        gone = (-1 / b).exp()
        result = [(ONE / 2, gone / 2), (gone / 2, ONE / 2)]
        half = ONE / (2 * panels)
        for node, weight in gauss_nodes():
            for i in range(panels):
                x = (2 * i + 1 + node) * half
                size = weight * half / (2 * b)
                result.append((size * (-(1 - x) / b).exp(), size * (-x / b).exp()))
        return result


@lru_cache(maxsize=1)
def gauss_nodes() -> list[Tails]:
    return [arb.legendre_p_root(20, k, weight=True) for k in range(20)]


@dataclass(frozen=True)
class BoundedRange(Smooth):
    """The hull of all pairs whose losses lie in an interval of length epsilon (the exponential mechanism).

    A pair with losses t and t - epsilon has H_a = (1 - e^{t - epsilon} - a e^{-t} + a e^{-epsilon})/(1 - e^{-epsilon}),
    largest at t = (epsilon + log a)/2: (1 - sqrt(a) e^{-epsilon/2})^2/(1 - e^{-epsilon}).
    """

    epsilon: arb

    def tails(self, a: arb) -> Tails:
        if not a > 0 or a.log() <= -self.epsilon:
            return ONE, ONE
        if a.log() >= self.epsilon:
            return ZERO, ZERO
        gap = (self.epsilon - a.log()) / 2
        whole = -(-self.epsilon).expm1()
        q = (-self.epsilon).exp() * gap.expm1() / whole
        short = -(-gap).expm1()
        p = short * short / whole + a * q  # a ball around zero has no power, but a square
        return p, q

    def top(self) -> arb | None:
        return self.epsilon

    def renyi(self, order: float) -> arb | None:
        return self.epsilon if math.isinf(order) else None


@dataclass(frozen=True)
class Sampled(Smooth):
    """Poisson sampling: ((1-q) Q + q P, Q) of a removal, (P, (1-q) P + q Q) of an addition."""

    base: Smooth
    rate: arb
    adding: bool

    def tails(self, a: arb) -> Tails:
        rate = self.rate
        if self.adding:
            rest = 1 - a * (1 - rate)
            if not rest > 0:
                return ZERO, ZERO
            p, q = self.base.tails(a * rate / rest)
            return p, (1 - rate) * p + rate * q
        inner = (a - 1 + rate) / rate
        if inner < 0:
            return ONE, ONE
        p, q = self.base.tails(inner)
        return (1 - rate) * q + rate * p, q

    def profile(self, a: arb) -> arb:
        if self.adding:
            rest = 1 - a * (1 - self.rate)
            return rest * self.base.profile(a * self.rate / rest) if rest > 0 else super().profile(a)
        inner = (a - 1 + self.rate) / self.rate
        return self.rate * self.base.profile(inner) if inner > 0 else super().profile(a)

    def infinite(self) -> arb:
        if self.adding:
            return ZERO if self.rate < 1 else self.base.infinite()
        return self.rate * self.base.infinite()

    def top(self) -> arb | None:
        most = self.base.top()
        if self.adding:
            if most is None or self.base.infinite() > 0:
                return -(1 - self.rate).log() if self.rate < 1 else most
            return -(1 - self.rate + self.rate * (-most).exp()).log()
        return None if most is None else (1 - self.rate + self.rate * most.exp()).log()

    def renyi(self, order: float) -> arb | None:
        if math.isinf(order):
            return self.top() if not self.infinite() > 0 else None
        return super().renyi(order)

    def nodes(self, order: float) -> Nodes | None:
        found = self.base.nodes(1.0 if self.adding else order)
        if found is None:
            return None
        loss, log_p, log_q = found
        rate = near(self.rate)
        rest = near(1 - self.rate)
        mix = np.logaddexp(math.log(rest) if rest > 0 else -math.inf, math.log(rate) + (-loss if self.adding else loss))
        if self.adding:
            return -mix, log_p, log_p + mix
        return mix, log_q + mix, log_q

    def fine(self, order: float) -> list[Tails] | None:
        found = self.base.fine(order)
        if found is None or not self.rate > 1e-20:
            return None
        rest = 1 - self.rate
        if self.adding:
            return [(p, rest * p + self.rate * q) for p, q in found]
        return [(rest * q + self.rate * p, q) for p, q in found]


@dataclass(frozen=True)
class Swapped(Smooth):
    """The other order of the two laws: r becomes 1/r (for sides whose ratio has no atom at a)."""

    base: Smooth

    def tails(self, a: arb) -> Tails:
        if not a > 0:
            return ONE, ONE
        p, q = self.base.tails(1 / a)
        return 1 - q, 1 - p


@dataclass(frozen=True)
class Largest(Side):
    """The worst of several sides at every a: a hull, so its profile is a maximum and its power an envelope."""

    members: tuple[Side, ...]

    def profile(self, a: arb) -> arb:
        values = [side.profile(a) for side in self.members]
        most = values[0]
        for value in values[1:]:
            most = most.max(value)
        return most

    def infinite(self) -> arb:
        most = ZERO
        for side in self.members:
            most = most.max(side.infinite())
        return most

    def top(self) -> arb | None:
        tops = [side.top() for side in self.members]
        if any(t is None for t in tops):
            return None
        most = tops[0]
        for value in tops[1:]:
            most = most.max(value)
        return most


@dataclass(frozen=True)
class Searched(Side):
    """A side known by its profile only, from an oracle with an error estimate."""

    curve: Callable[[arb], arb]
    mass: arb = ZERO
    end: arb | None = None
    rough: Callable[[float], float] | None = None  # the same in doubles, to search with

    def profile(self, a: arb) -> arb:
        return self.curve(a)

    def infinite(self) -> arb:
        return self.mass

    def top(self) -> arb | None:
        return self.end

    def power(self, alpha: arb) -> arb:
        """a alpha + H_a is convex in a: its least value is at most any value, at least where two outer chords meet."""
        if not alpha > 0:
            return self.infinite()
        centre = self._lowest(near(alpha))
        known = joined(self.infinite().lower(), ONE)
        for width in (2e-4, 2e-3, 1.2e-2):  # the curve's own error hides what is too near
            at = [ball(centre + width * shift).exp() for shift in (-1, -0.3, 0.3, 1)]
            values = [a * alpha + self.curve(a) for a in at]
            above = min((v.upper() for v in values), key=near)
            falling = (values[1] - values[0]) / (at[1] - at[0])
            rising = (values[3] - values[2]) / (at[3] - at[2])
            if falling < 0 and rising > 0:
                meet = (values[2] - values[1] + falling * at[1] - rising * at[2]) / (falling - rising)
                return joined((values[1] + falling * (meet - at[1])).lower(), above)
            known = joined(known.lower(), above) if above < known.upper() else known
        return known

    def _lowest(self, alpha: float) -> float:
        """The logarithm of the a with the least a alpha + H_a."""
        rough = self.rough or (lambda a: near(self.curve(ball(a))))
        found = minimize_scalar(
            lambda s: math.exp(s) * alpha + rough(math.exp(s)),
            bounds=(-8.0, 12.0),
            method="bounded",
            options={"xatol": 2e-5},
        )
        return float(found.x)
