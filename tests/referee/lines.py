"""Sums of Gaussian mixtures, sampled or not, of any number: vertical contours, with every error counted.

One draw is x from N(0, 1) under Q, with ratio r(x) = sum of p_j e^{mu_j x - mu_j^2/2}.  R, the product of all ratios,
has the transform M(s) = E_Q[R^s], a product of integrals over one x each, and on the line s = c + iu

    E[(R - e^t)+] (c > 1) and E[(e^t - R)+] (c < 0)  are  e^{-(c-1)t}/(2 pi) int M(s) e^{-iut}/(s (s-1)) du,

with 1/(s-1) and 1/s instead for the masses of R > e^t (c > 1) or R < e^t (c < 0) under P and Q.  In steps of 2 pi/T
the sum over u is the value at t and, tilted, at t +- T, +- 2T, ...: all are positive, and Chernoff's bound limits them.
What lies beyond the last u is cut off smoothly, which only blurs the curve, and estimated by cutting sooner; the points
in x by every other one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from scipy.optimize import brentq
from scipy.special import erfc

from referee.balls import ONE, ZERO, ball, joined, near
from referee.mixtures import GaussianMixture
from referee.sides import Gaussian, Sampled, Side, Smooth, Tails

LEFT = 45.0
"""Exponents: what is left out of an integral over x, or comes in from t +- T, is e^-45 of what is kept."""
SIZES = (16, 28, 48, 80)
MOST_POINTS = 30_000
CUTS = (1.0, 0.8, 0.6)
"""Of the line: where it ends, and where else it could."""
ROUNDING = 1e-15
SMALLEST = 1e-290
CALL, P_TAIL, Q_TAIL = "call", "p", "q"


def line_of(side: Side) -> GaussianMixture | None:
    """The mixture that this side is; a sample of a mixture has one more shift, none."""
    if isinstance(side, GaussianMixture):
        return side
    if isinstance(side, Gaussian):
        return GaussianMixture((side.mu,), (ONE,))
    if isinstance(side, Sampled) and (base := line_of(side.base)) is not None:
        if isinstance(side.base, GaussianMixture) and side.base.adding != side.adding:
            return None
        shares = tuple(side.rate * p for p in base.shares)
        return GaussianMixture((ZERO, *base.shifts), (1 - side.rate, *shares), side.adding)
    return None


def summed(draws: list[tuple[Side, int]]) -> LineSum | None:
    """The composition, where all draws are mixtures in one order."""
    laws = [(line_of(side), count) for side, count in draws]
    orders = {law.adding for (law, _), (side, _) in zip(laws, draws, strict=True) if law and side.__class__ != Gaussian}
    if any(law is None for law, _ in laws) or len(orders) > 1:
        return None
    listed = tuple((One.of(law), law, count) for law, count in laws if law is not None)
    return LineSum(listed, orders == {True}) if all(one.steep < 200 for one, _, _ in listed) else None


@dataclass(frozen=True, eq=False)
class One:
    """One draw, in doubles."""

    shifts: Any
    shares: Any
    steep: float
    defect: float  # of the sum of the shares

    @classmethod
    def of(cls, law: GaussianMixture) -> One:
        shifts, shares = (np.array([near(x) for x in xs]) for xs in (law.shifts, law.shares))
        return cls(shifts, shares, float(shifts.max()), float((1 - sum(law.shares, ZERO)).abs_upper()))

    def loss(self, x: Any) -> Any:
        """log r, exact in relation to itself where it is small: the shares have the sum one."""
        powers = np.multiply.outer(self.shifts, x) - (self.shifts**2 / 2)[:, None]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            small = np.log1p((self.shares[:, None] * np.expm1(powers)).sum(axis=0))
            large = np.logaddexp.reduce(np.log(self.shares)[:, None] + powers, axis=0)
        return np.where(np.abs(large) < 1, small, large)

    def points(self, c: float, finest: float) -> tuple[Any, Any, float]:
        """Losses, weights whose sum is one, and the logarithm of what they were divided by, for r^c under Q."""
        far = 12 + self.steep * (1 + abs(c))
        if not far < 1e7:
            raise CannotSay
        low, high = -far, far
        for _ in range(4):  # once more, closer, until what is to be seen is seen by enough points
            x = np.linspace(low, high, 2001)
            height = c * self.loss(x) - x * x / 2
            inside = np.flatnonzero(height > height.max() - LEFT)
            low, high = float(x[max(inside[0] - 1, 0)]), float(x[min(inside[-1] + 1, len(x) - 1)])
            if len(inside) > 100:
                break
        step = min(0.25, 0.12 / max(self.steep, 1e-3), finest)
        if (high - low) / step > MOST_POINTS or len(inside) < 20:
            raise CannotSay
        x = np.arange(low, high + step, step)
        loss = self.loss(x)
        height = c * loss - x * x / 2
        most = float(height.max())
        weight = np.exp(height - most)
        total = float(weight.sum())
        return loss, weight / total, most + math.log(total * step / math.sqrt(2 * math.pi))


def turns(angle: Any, count: int) -> Any:
    """e^{ik angle} for k = 0, ..., count - 1, by doubling."""
    found = np.empty((count, len(angle)), dtype=complex)
    found[0], done = 1, 1
    while done < count:
        more = min(done, count - done)
        found[done : done + more] = found[:more] * np.exp(1j * done * angle)
        done += more
    return found


class CannotSay(Exception):
    """Too many points for this line."""


TURNS = 60.0
"""Radians that the end of a line turns by where cutting it sooner shows what is missing."""


@dataclass(frozen=True, eq=False)
class Line:
    """M(c + iu)/M(c) at u = 0, step, 2 step, ..., with a bound on its error, and log M(c)."""

    c: float
    step: float
    log_scale: float
    doubt: float
    values: Any
    errors: Any
    kernels: dict[str, Any]

    @property
    def period(self) -> float:
        return 2 * math.pi / self.step

    def at(self, kind: str, t: float) -> tuple[float, float]:
        """The value and its error, both divided by e^{log_scale - (c - d) t}."""
        kernel, count = self.kernels[kind], np.arange(len(self.values))
        terms = self.values * kernel
        turned = (terms * np.exp(-1j * self.step * t * count)).real
        width = self.step / math.pi  # two halves of the line, over 2 pi
        first, *sooner = (width * float(turned @ erfc(12 * (count / (cut * len(count)) - 0.5)) / 2) for cut in CUTS)
        turning = ROUNDING * np.abs(terms) * (1 + self.step * abs(t) * count)
        error = width * float((self.errors * np.abs(kernel) + turning).sum())
        return first, error + 2 * max(abs(first - other) for other in sooner) + self._missing(kind, t)

    def _missing(self, kind: str, t: float) -> float:
        """What lies beyond the last point where the transform neither dies away nor turns: cuts do not show that.

        Twice the largest of the last quarter stands for what is beyond: over 1/u^2 for E[(R - e^t)+], for masses as is.
        """
        last, many = self.values[3 * len(self.values) // 4 :], len(self.values)
        most = 2 * float(np.abs(last).max())
        turn = float(np.median(np.angle(last[1:] * last[:-1].conj() * np.exp(-1j * self.step * t))))
        if most < 1e-13 or abs(turn) * many > TURNS:
            return 0.0
        return most / math.pi / (self.step * many if kind == CALL else 1.0)


@dataclass(frozen=True)
class LineSum(Smooth):
    """Draws of mixtures against N(0, 1), or where ``adding`` of N(0, 1) against mixtures."""

    laws: tuple[tuple[One, GaussianMixture, int], ...]
    adding: bool

    # ---- the lines ----

    @cached_property
    def _lines(self) -> dict[float, Line | None]:
        return {}

    @cached_property
    def _logs(self) -> dict[float, tuple[float, float, float]]:
        return {}

    def log_moment(self, c: float) -> tuple[float, float, float]:
        """log M(c), and the mean and deviation of the loss under the law that is tilted by it."""
        if c not in self._logs:
            total, mean, square = 0.0, 0.0, 0.0
            for one, _, count in self.laws:
                loss, weight, scale = one.points(c, math.inf)
                middle = float(weight @ loss)
                total, mean = total + count * scale, mean + count * middle
                square += count * float(weight @ (loss - middle) ** 2)
            self._logs[c] = total, mean, math.sqrt(square)
        return self._logs[c]

    @cached_property
    def deviation(self) -> float:
        return max(self.log_moment(0.0)[2], 1e-280)

    def ladder(self, above: bool) -> Iterator[float]:
        """Where lines may stand: right of one (where R is above e^t) or left of zero, from near to far."""
        first = 0.25 / self.deviation
        for j in range(-4, 44):
            k = first * 2.0**j
            if 1e-9 < k < 1e9:
                yield 1 + k if above else -k

    def bound(self, c: float, kind: str, t: float) -> float:
        """The logarithm of Chernoff's bound: of E[(R - e^t)+], or of the mass under P or Q, at this t."""
        value = self.log_moment(c)[0] - (c - (kind != Q_TAIL)) * t
        less, more = (c - 1, c) if c > 1 else (-c, 1 - c)  # the most of (r - 1) r^-c, or of (1 - r) r^-c
        return value + less * math.log(less) - more * math.log(more) if kind == CALL else value

    def best(self, above: bool, kind: str, t: float) -> tuple[float, float]:
        """The least bound on the ladder (it is convex), and where; near a pole a line costs more.

        A line that has too many points is not taken again.
        """
        found = (math.inf, math.nan)
        for c in self.ladder(above):
            gap = c - 1 if above else -c
            try:
                here = self.bound(c, kind, t) + max(0.0, -math.log(gap * self.deviation))
            except CannotSay:
                break
            if here > found[0]:
                break
            if self._lines.get(c, self) is None:
                continue
            found = here, c
        return found

    def between(self, kind: str, t: float) -> float:
        """For c from 0 to 1: of E[min(R, e^t)], P(R <= e^t) and Q(R > e^t)."""
        return min(self.log_moment(k / 8)[0] - (k / 8 - (kind != Q_TAIL)) * t for k in range(1, 8))

    def line(self, c: float) -> Line | None:
        if c not in self._lines:
            try:
                self._lines[c] = self._drawn(c)
            except CannotSay:
                self._lines[c] = None
        return self._lines[c]

    def _drawn(self, c: float) -> Line:
        """More points in u until the transform has died away, or there are too many."""
        scale, mean, deviation = self.log_moment(c)
        gap = c - 1 if c > 1 else -c
        spent = max(0.0, -(scale - (c - (c > 1)) * mean))  # how small the values are for which this line is taken
        period = max(24 * deviation, (LEFT + spent) / gap)
        step = 2 * math.pi / period
        values, errors, doubt = self._transform(c, step, SIZES[0])
        for size in SIZES:
            try:
                values, errors, doubt = self._transform(c, step, size)
            except CannotSay:
                break
            last = float(np.abs(values)[len(values) // 4 :].max())
            if last < 1e-14:
                break
        values[0] /= 2  # the end of a half line
        errors[0] /= 2
        s = c + 1j * step * np.arange(len(values))
        sign = 1 if c > 1 else -1
        kernels = {CALL: 1 / (s * (s - 1)), P_TAIL: sign / (s - 1), Q_TAIL: sign / s}
        return Line(c, step, scale, doubt, values, errors, kernels)

    def _transform(self, c: float, step: float, size: int) -> tuple[Any, Any, float]:
        """All u = (size a + b) step at once, as one product of matrices over the points in x."""
        total, bounds = np.ones(size * size, dtype=complex), np.ones(size * size)
        u = step * np.arange(size * size)
        doubts, doubt = np.zeros(size * size), 0.0
        for one, _, count in self.laws:
            finest = math.pi / (u[-1] * max(one.steep, 1e-300) + 10)
            loss, weight, _ = one.points(c, finest)
            weigh = np.flatnonzero(weight > 1e-20)
            coarse, small = turns(step * size * loss, size), turns(step * loss, size) * weight
            even = (coarse[:, ::2] @ small[:, ::2].T).ravel()
            odd = (coarse[:, 1::2] @ small[:, 1::2].T).ravel()
            reach = float(np.abs(loss[weigh]).max())
            error = np.abs(even - odd) + one.defect + ROUNDING * (30 + reach * np.abs(c + 1j * u))
            value = even + odd
            doubt += count * error[0]
            most = np.minimum(np.abs(value) + error, 1.0)
            with np.errstate(divide="ignore"):
                total = total * np.exp(count * np.log(value))
                doubts += count * error / most
                bounds = bounds * np.exp(count * np.log(most))
        return total, np.minimum(doubts, 2.0) * bounds, doubt

    # ---- values ----

    def value(self, above: bool, kind: str, t: float) -> arb:
        """E[(R - e^t)+] (or of e^t - R), or a mass, from the line with the least bound."""
        least, c = self.best(above, kind, t)
        if not math.isfinite(least):
            return ball(0.5) + arb(0, 0.5) if kind != CALL or above else ball(t).exp() * (ball(0.5) + arb(0, 0.5))
        ceiling = ball(self.bound(c, kind, t)).exp() * (1 + ball(1e-6))
        line = self.line(c)
        if line is None:
            return self.value(above, kind, t).min(ceiling.upper())
        value, error = line.at(kind, t)
        shift = c - (kind != Q_TAIL)
        size = (ball(line.log_scale) - ball(shift) * ball(t)).exp()
        relative = line.doubt + 4e-16 * (abs(line.log_scale) + (1 + abs(c)) * (1 + abs(t)))
        total = error + 2 * abs(value) * relative + self.aliases(line, kind, t)
        found = size * ball(value) + arb(0, (size * ball(total) * (1 + ball(relative))).upper())
        if found > ceiling:
            raise ArithmeticError("a contour above Chernoff's bound")
        return found.max(ZERO).min(ceiling.upper())

    def aliases(self, line: Line, kind: str, t: float) -> float:
        """What t +- T, +- 2T, ... bring in, over e^{log_scale - (c - d) t}."""
        c, period = line.c, line.period
        gap = c - 1 if c > 1 else -c
        here = line.log_scale - (c - (kind != Q_TAIL)) * t
        near_side = (t if kind == CALL and c < 0 else 0.0) - here - gap * period
        rest, sign = [], 1 if c > 1 else -1
        for many in (0.5, 1.0, 2.0, 4.0, 8.0):
            move = many / max(self.log_moment(c)[2], SMALLEST)
            if move * period > 1:
                try:
                    more = self.log_moment(c + sign * move)[0] - (c + sign * move - (kind != Q_TAIL)) * t
                except CannotSay:
                    continue
                rest.append(more - here - move * period)
        far_side = min(rest, default=math.inf)
        return 2 * sum(math.exp(min(x, 300.0)) for x in (near_side, far_side))

    def _edge(self) -> arb | None:
        """The logarithm of the least R, where it is not zero."""
        total = ZERO
        for _, law, count in self.laws:
            if not law.absent > 0:
                return None
            total += count * law.absent.log()
        return total

    def _value(self, above: bool, kind: str, t: arb) -> arb:
        """At a ball, in which it only rises or falls; from the other side where that is better known."""
        edge = self._edge()
        if edge is not None and t <= edge:
            return (1 - t.exp() if kind == CALL else ONE) if above else ZERO
        if t.rad() > 1e-15 * (1 + abs(near(t))):
            return joined(self._value(above, kind, t.lower()), self._value(above, kind, t.upper()))
        at, other = near(t), not above
        if (little := self.between(kind, at)) < -200 + (min(0.0, at) if kind == CALL and not above else 0.0):
            whole, rest = ONE if above or kind != CALL else t.exp(), ball(little).exp() * 2
            itself = kind != CALL and above == (kind == Q_TAIL)
            return joined(ZERO, rest) if itself else joined((whole - rest).lower(), whole.upper())
        if self.best(above, kind, at)[0] <= self.best(other, kind, at)[0] + 1e-9:
            found = self.value(above, kind, at)
        else:
            whole = (1 - t.exp() if above else t.exp() - 1) if kind == CALL else ONE
            rest = self.value(other, kind, at)
            found = whole + rest if kind == CALL else whole - rest
            found += arb(0, sum(count * one.defect for one, _, count in self.laws))
        if kind == CALL and not above and edge is not None:  # no R is below the least one
            most = (t.exp() - edge.exp()).upper()
            found = joined(ZERO, most) if most < found.upper() else found
        return found.max(ZERO)

    # ---- what a side says ----

    def profile(self, a: arb) -> arb:
        if not a > 0:
            return ONE
        found = a * self._value(False, CALL, -a.log()) if self.adding else self._value(True, CALL, a.log())
        return found.min(ONE)

    def tails(self, a: arb) -> Tails:
        if not a > 0:
            return ONE, ONE
        if self.adding:
            p, q = (self._value(False, kind, -a.log()) for kind in (Q_TAIL, P_TAIL))
        else:
            p, q = (self._value(True, kind, a.log()) for kind in (P_TAIL, Q_TAIL))
        return p.min(ONE), q.min(ONE)

    def top(self) -> arb | None:
        edge = self._edge()
        return -edge if self.adding and edge is not None else None

    def power(self, alpha: arb) -> arb:
        """The least of phi(a) = a alpha + H_a, which is convex with slope alpha - Q(r > a): bounded by its tangent."""
        if not alpha > 0:
            return ZERO
        if alpha >= 1:
            return ONE
        centre = self._level(alpha)
        if centre is None:
            return joined(alpha.lower(), ONE)
        a = ball(centre).exp()
        value, slope = a * alpha + self.profile(a), alpha - self.tails(a)[1]
        for width in (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 1.0):
            low, high = (ball(centre + sign * width * self.deviation).exp() for sign in (-1, 1))
            if self.tails(low)[1] > alpha and self.tails(high)[1] < alpha:
                return joined((value - abs(slope) * (high - low)).lower(), value.upper()).min(ONE)
        return joined(alpha.lower(), value.upper().min(ONE))

    def _level(self, alpha: arb) -> float | None:
        """The logarithm of an a with about that Q(r > a)."""
        goal = near(alpha)

        def over(t: float) -> float:
            return math.log(max(near(self.tails(ball(t).exp())[1]), 1e-320)) - math.log(goal)

        low, high, step = 0.0, 0.0, self.deviation
        while over(high) > 0 and step < 1e12 * self.deviation:
            high, step = high + step, 2 * step
        step = self.deviation
        while over(low) < 0 and step < 1e12 * self.deviation:
            low, step = low - step, 2 * step
        if over(high) > 0 or over(low) < 0:
            return None
        return float(brentq(over, low, high, xtol=1e-13 * self.deviation)) if low < high else low
