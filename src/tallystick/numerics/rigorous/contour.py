"""Contours of the rigorous read-out: trapezoid sums on a vertical line, or over the period of a lattice.

Doubles only choose the tilt, the window and the cut; every number in a sum is a ball and every truncation is added as
one (docs/theory/rigorous.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flint import acb, acb_mat, acb_poly, arb, ctx

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.laws import Ball, BallLaw, Complex, point_work, work

Laws = Sequence[tuple[BallLaw, int]]
Profile = Callable[[Ball], Ball]

MOST_NODES = 40_000


@dataclass(frozen=True, slots=True)
class Guess:
    """S(theta) = sum n_i log E[e^{theta L_i}] in doubles."""

    laws: Laws

    def __call__(self, theta: float) -> float:
        if not 0.0 < theta < 3e4:
            return math.inf
        try:
            return math.fsum(count * law.rough(theta) for law, count in self.laws)
        except (OverflowError, ValueError):
            return math.inf

    def variance(self, theta: float) -> float:
        """Of the tilted law."""
        step = theta * 1e-2
        curve = (self(theta + step) - 2 * self(theta) + self(theta - step)) / step**2
        return curve if 1e-12 < curve < math.inf else 1e-12

    def threshold(self, epsilon: float) -> float:
        """The tilt whose contour is best for delta at epsilon."""
        return smallest(lambda t: self(t) - t * epsilon - math.log(t) - math.log1p(t))

    def mass(self, log_delta: float) -> tuple[float, float]:
        """(tilt, epsilon) near the answer to epsilon(delta): a Chernoff bound with its usual prefactor."""

        def bound(t: float) -> float:
            return (self(t) + t * math.log(t) - (1 + t) * math.log1p(t) - log_delta) / t

        theta = smallest(bound)
        return theta, max(0.0, bound(theta))


def smallest(objective: Callable[[float], float]) -> float:
    """argmin over theta > 0: walk downhill in log theta, then golden section."""
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in seen:
            value = objective(math.exp(x))
            seen[x] = value if math.isfinite(value) else math.inf
        return seen[x]

    x = 0.0
    way = 0.5 if at(0.5) < at(0.0) else -0.5
    while at(x + way) < at(x) and abs(x) < 9.5:
        x += way
    low, high = x - 0.5, x + 0.5
    for _ in range(14):
        left, right = low + 0.382 * (high - low), low + 0.618 * (high - low)
        low, high = (low, right) if at(left) < at(right) else (left, high)
    return math.exp((low + high) / 2)


# ------------------------------------------------------------------------------------------------------------- contour


def decay(law: BallLaw, theta: float, cut: Ball) -> Ball:
    """A bound on |M(theta + it)| / M(theta) for all t >= cut.

    The law's own bound far out, carried inwards by 1 - |f(2t)|^2 <= 4 (1 - |f(t)|^2), true of every characteristic
    function f.
    """
    if law.variance is not None:
        return (-law.variance * cut**2 / 2).exp()
    if law.far is None:
        return arb(1)
    best = arb(1)
    for doublings in range(40):
        outside = law.far(theta, cut * 2**doublings)
        if outside < 1:
            candidate = (1 - (1 - outside**2) / arb(4) ** doublings).sqrt()
            if float(candidate.upper()) > float(best.upper()):
                break
            best = candidate
    return arb(best.upper())


def transform(law: BallLaw, theta: float, dt: Ball, count: int) -> list[Complex]:
    """M(theta + i k dt) for k = 0 .. count."""
    if law.closed is not None:
        return [law.closed(acb(arb(theta), dt * k)) for k in range(count + 1)]
    assert law.points is not None
    nodes = law.points(theta, float((dt * (count + 1)).upper()) * (1 + 1e-9))
    work(3e-9 * len(nodes.points) * count * ctx.prec + 2.0 * len(nodes.points) * point_work())
    inner = max(1, math.isqrt(count + 1))
    outer = (count + 1) // inner + 1
    unit = [acb(arb(0), dt * loss).exp() for loss, _ in nodes.points]
    rows = [[acb(mass * (loss * theta).exp()) for loss, mass in nodes.points]]
    powers = [[acb(1)] * len(unit)]
    for _ in range(inner - 1):
        powers.append([a * b for a, b in zip(powers[-1], unit, strict=True)])
    stride = [a * b for a, b in zip(powers[-1], unit, strict=True)]
    for _ in range(outer - 1):
        rows.append([a * b for a, b in zip(rows[-1], stride, strict=True)])
    left = acb_mat(outer, len(unit), [v for row in rows for v in row])
    right = acb_mat(inner, len(unit), [v for row in powers for v in row]).transpose()
    product = left * right
    slack = acb(arb(0, nodes.error), arb(0, nodes.error))
    return [product[k // inner, k % inner] + slack for k in range(count + 1)]


@dataclass(frozen=True, eq=False)
class ContourPlan:
    """Tilt, window and aliases of a contour near one epsilon."""

    laws: Laws
    theta: float
    log_scale: float
    """S(theta) - theta epsilon."""
    window: float
    above: float
    """The tilt at which aliases above are bounded."""
    aim: float
    """log of the absolute error that is wanted."""

    @staticmethod
    def of(laws: Laws, epsilon: float, log_delta: float, asked: float) -> ContourPlan:
        guess = Guess(laws)
        theta = guess.threshold(epsilon)
        aim = log_delta - asked
        tilts = [theta * f + g for f in (1.003, 1.01, 1.03, 1.1, 1.25, 1.5, 2.0, 3.0, 6.0) for g in (0.0, 0.5, 3.0)]
        window, above = min(((guess(s) - s * epsilon - aim) / (s - theta), s) for s in tilts if s > theta)
        if not math.isfinite(window):
            raise NotComputable("no tilt bounds the tail of this composition")
        spread = math.sqrt(guess.variance(theta))
        window = max(window, -aim / theta, 8.0 * spread)
        return ContourPlan(laws, theta, guess(theta) - theta * epsilon, window, above, aim)

    def aliases(self, epsilon: Ball, window: Ball) -> Ball:
        """What the trapezoid rule counts too much: between 0 and this (Poisson summation, Markov)."""
        below = 1 / (window * self.theta).expm1()
        log_top = sum((count * law.mgf(self.above).log() for law, count in self.laws), arb(0))
        gap = (arb(self.above) - arb(self.theta)) * window
        return below + (log_top - arb(self.above) * epsilon).exp() / gap.expm1()

    def log_decay(self, cut: Ball) -> Ball:
        """log of a bound on the integrand past the cut, relative to its value at t = 0 (kernel apart)."""
        total = arb(0)
        for law, count in self.laws:
            total += count * decay(law, self.theta, cut).log()
        return total

    def cut(self) -> float:
        """The least power-of-1.2 cut past which the dropped part is below the aim."""
        t = 1.0 / math.sqrt(max(Guess(self.laws).variance(self.theta), 1e-12))
        limit = 6.28 * MOST_NODES / self.window
        while t < limit:
            if self.log_scale + float(self.log_decay(arb(t)).upper()) - math.log(math.pi * t) < self.aim:
                return t
            t *= 1.2
        raise NotComputable("the characteristic function decays too slowly (few terms or atoms)")


def contour_profile(laws: Laws, epsilon: float, log_delta: float, asked: float) -> Profile:
    """delta near epsilon by the trapezoid rule on a vertical line, every error enclosed."""
    missing = arb(sum((count * law.missing for law, count in laws), arb(0)).abs_upper())
    plan = ContourPlan.of(laws, epsilon, log_delta, asked)
    theta, window = arb(plan.theta), arb(plan.window)
    dt = 2 * arb.pi() / window
    count = math.ceil(plan.cut() / float(dt)) + 1
    values = [acb(1)] * (count + 1)
    for law, times in laws:
        values = [v * m**times for v, m in zip(values, transform(law, plan.theta, dt, count), strict=True)]
    scale = values[0].real
    kernels = []
    for k, value in enumerate(values):
        z = acb(theta, dt * k)
        kernels.append((value if k == 0 else 2 * value) / (z * (z + 1)))
    series = acb_poly(kernels)
    last = dt * (count + 1)
    tail = scale * plan.log_decay(last).exp() / (arb.pi() * dt * count)

    def profile(at: Ball) -> Ball:
        front = (-theta * at).exp()
        total = series(acb(arb(0), -dt * at).exp()).real * front * dt / (2 * arb.pi())
        dropped = tail * front
        total += arb(0, dropped.abs_upper()) + arb(0).union(missing)
        return total - arb(0).union(plan.aliases(at, window))

    return profile


def lattice_profile(law: BallLaw, count: int, epsilon: float, log_delta: float, asked: float) -> Profile:
    """``count`` copies of one lattice law by the trapezoid rule over the whole period: a finite sum, no truncation."""
    assert law.lattice is not None
    offset, step = law.lattice
    if float(step) < 0:
        step = -step
    plan = ContourPlan.of([(law, count)], epsilon, log_delta, asked)
    size = 2 * math.ceil(plan.window / float(step) / 2) + 2
    if size > MOST_NODES:
        raise NotComputable("the lattice is too fine for a sum over its period")
    window = step * size
    dt = 2 * arb.pi() / window
    theta = arb(plan.theta)
    values = [v**count for v in transform(law, plan.theta, dt, size // 2)]
    near, far = [], []
    for k, value in enumerate(values):
        z = acb(theta, dt * k)
        weight = value if k in (0, size // 2) else 2 * value
        near.append(weight / (1 - (-z * step).exp()))
        far.append(weight / (1 - (-(z + 1) * step).exp()))
    first, second = acb_poly(near), acb_poly(far)
    start = offset * count

    def profile(at: Ball) -> Ball:
        index = math.floor(float((at - start) / step))
        while not start + step * index > at:
            index += 1
        point = start + step * index
        phase = acb(arb(0), -dt * point).exp()
        total = first(phase).real - (at - point).exp() * second(phase).real
        below = start + step * (index - 1)
        # A lattice point that may or may not lie above epsilon gains at most this.
        seam = arb(0) if below <= at else arb(0, (at - below).expm1().abs_upper())
        return total * (-theta * point).exp() / size + seam - arb(0).union(plan.aliases(at, window))

    return profile
