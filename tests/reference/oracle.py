"""Independent high-precision truth for delta(epsilon) and epsilon(delta) of compositions.

    >>> terms = [{"leaf": "gaussian", "sigma": 1.0, "count": 10000, "rate": 0.01}]
    >>> print(f"{epsilon(terms, delta='1e-5', direction='remove').value:.8f}")
    6.18771239

Routes, none of them an FFT of a grid, chosen by what the terms are:

- ``closed``    Gaussians only, or one continuous draw plus an enumerable discrete part;
- ``lattice``   all losses discrete: the largest lattice term by its periodic contour integral (geometric
                convergence), the others enumerated exactly;
- ``contour``   delta = 1/(2 pi i) int exp(S(z) - z epsilon) / (z (z+1)) dz by the trapezoid rule, when the
                integrand decays;
- ``residue``   Laplace, bounded range and discrete terms: every term of the expanded product is an exponential
                times a rational function of z, integrated exactly by its residue at z = -1/2.

All sums are in ball arithmetic (python-flint) at 58 digits.  Contours are run twice with unlike windows, steps and
quadratures; ``Answer.error`` is the relative disagreement plus the ball radius plus any measured tail.
Where no route is trustworthy ``OracleCannot`` is raised: silence is better than a wrong witness.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import acb, acb_mat, arb, arb_poly, ctx

from reference.oracle_laws import DIGITS, Law, Node, exact, gaussian_law, law_of
from reference.oracle_residue import residue_profile

ctx.prec = 192
Terms = list[dict[str, Any]]
Profile = Callable[[arb], arb]
MOST_NODES = 30_000  # raised by the script that stores reference values
MOST_WORK = 1.5e8
MOST_POINTS = 16_000


class OracleCannot(Exception):
    """No route of the oracle is trustworthy for this composition."""


@dataclass(frozen=True)
class Answer:
    value: float  # the nearest double
    digits: str  # the same to 25 digits
    error: float  # relative error estimate
    route: str


# ------------------------------------------------------------------------------------------------- moments in doubles


class Moments:
    """S(theta) = sum n_i log E[e^{theta L_i}] in doubles, to place contours; never used as a value."""

    def __init__(self, laws: list[Law]) -> None:
        self.laws = laws
        self.cache: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def nodes(self, index: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
        law = self.laws[index]
        rung = math.ceil(2 * math.log2(max(theta, 0.5)))
        if (index, rung) not in self.cache:
            reach = 2.0 ** (rung / 2)
            raw = law.atoms(reach) if law.atoms else law.nodes(reach, 0.0) if law.nodes else []
            loss = np.array([float(l) for l, _ in raw])
            with np.errstate(divide="ignore"):
                logs = np.array([float(m.log()) if float(m) > 0 else -np.inf for _, m in raw])
            self.cache[index, rung] = loss, logs
        return self.cache[index, rung]

    def __call__(self, theta: float) -> float:
        total = 0.0
        for index, law in enumerate(self.laws):
            if law.closed is not None:
                total += law.count * float(law.closed(acb(theta)).real.log())
                continue
            loss, logs = self.nodes(index, theta)
            peak = theta * loss + logs
            top = peak.max()
            total += law.count * (top + math.log(np.exp(peak - top).sum()))
        return total

    def variance(self, theta: float) -> float:
        step = max(theta, 1e-3) * 1e-3
        return max((self(theta + step) - 2 * self(theta) + self(theta - step)) / step**2, 1e-300)


def smallest(objective: Callable[[float], float]) -> float:
    """argmin over theta > 0 of a quasi-convex function: walk downhill in log theta, then golden section."""
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in seen:
            value = objective(math.exp(x))
            seen[x] = value if math.isfinite(value) else math.inf
        return seen[x]

    x, step = 0.0, 0.5
    direction = step if at(step) < at(0.0) else -step
    while at(x + direction) < at(x) and abs(x) < 15:
        x += direction
    a, b = x - step, x + step
    golden = (math.sqrt(5) - 1) / 2
    c, d = b - golden * (b - a), a + golden * (b - a)
    for _ in range(16):
        if at(c) < at(d):
            b, d = d, c
            c = b - golden * (b - a)
        else:
            a, c = c, d
            d = a + golden * (b - a)
    return math.exp((a + b) / 2)


def guarded(moments: Moments, theta: float) -> float:
    try:
        return moments(theta) if theta < 3e4 else math.inf
    except (OverflowError, ValueError):
        return math.inf


# ----------------------------------------------------------------------------------------------------------- contours


def points_of(law: Law, theta: float, frequency: float) -> list[Node]:
    if law.atoms is not None:
        return law.atoms(theta)
    assert law.nodes is not None
    slow = len(law.nodes(theta, 0.0))
    if frequency > 100.0 and slow + (len(law.nodes(theta, 100.0)) - slow) * frequency / 100.0 > MOST_POINTS:
        raise OracleCannot("too many quadrature points")
    return law.nodes(theta, frequency)


class Contour:
    """M(z) of every term on the nodes theta + i k dt, and the trapezoid sum of any kernel against them."""

    def __init__(
        self,
        laws: list[Law],
        moments: Moments,
        epsilon: float,
        log_delta: float,
        *,
        widen: float,
        accuracy: float = 0.75,
    ) -> None:
        self.laws = laws
        self.asked = asked = DIGITS * accuracy * widen
        period = laws[0].lattice[1] if len(laws) == 1 and laws[0].atoms and laws[0].lattice else None
        self.period = period
        self.theta = theta = smallest(lambda t: guarded(moments, t) - t * epsilon - math.log(t) - math.log1p(t))
        tilts = [theta * f + g for f in (1.1, 1.25, 1.5, 2.0, 3.0, 5.0) for g in (0.0, 0.5)]
        chernoff = [(guarded(moments, s) - s * epsilon - log_delta + asked) / (s - theta) for s in tilts if s > theta]
        window = max(min(chernoff), (asked - log_delta) / theta, 10 * math.sqrt(moments.variance(theta)))
        window *= widen
        if period is not None:
            window = float(period) * math.ceil(window / float(period))
            self.dt = 2 * arb.pi() / (period * round(window / float(period)))
        else:
            self.dt = arb(2 * math.pi / window)
        self.frequency, self.tail = self._decay(moments, theta, asked)
        self.count = int(self.frequency / float(self.dt)) + 1
        if period is not None:
            self.count = min(self.count, round(window / float(period)) // 2)
        if self.count > MOST_NODES:
            raise OracleCannot(f"{self.count} nodes")
        self.full = period is not None and 2 * self.count >= round(window / float(period))
        self.values = self._values(widen)

    def _decay(self, moments: Moments, theta: float, asked: float) -> tuple[float, float]:
        """The least T past which every scanned |exp(S(theta+it) - S(theta))| / t^2 is negligible."""
        spread = math.sqrt(moments.variance(theta))
        limit = math.pi / float(self.period) if self.period is not None else math.inf
        reach = 3.0 * math.sqrt(2 * asked) / spread
        for _ in range(14):
            reach = min(reach, limit)
            smooth = all(law.atoms is None for law in self.laws)
            counts = (160, 60) if smooth else (700, 300)
            grid = np.unique(
                np.concatenate([np.linspace(0, reach, counts[0]), np.geomspace(reach / 1e4, reach, counts[1])])
            )
            decay = self._scan(theta, grid)
            below = decay < -asked
            cut = grid[~below][-1] * 1.02 if not below[-1] or (~below).any() else grid[1]
            if limit <= reach:
                return limit if not below[-1] else cut, 0.0
            if below[-1] and cut < 0.6 * reach:
                if self.period is not None:
                    return (limit if self._sublattice(theta, limit, cut, asked) else cut), 0.0
                return cut, self._far(theta, cut) * min(1.0, theta * (theta + 1) / cut**2)
            reach *= 2.2
        raise OracleCannot("the integrand does not decay")

    def _scan(self, theta: float, grid: np.ndarray, *, only: list[Law] | None = None) -> np.ndarray:
        total = np.zeros(len(grid))
        for law in self.laws if only is None else only:
            if law.variance is not None:
                total -= law.count * float(law.variance) * grid**2 / 2
                continue
            if law.closed is not None:
                base = float(law.closed(acb(theta)).real.log())
                values = [float(abs(law.closed(acb(theta, float(t)))).log()) - base for t in grid]
                total += law.count * np.array(values)
                continue
            raw = points_of(law, theta, float(grid[-1]))
            loss = np.array([float(l) for l, _ in raw])
            logs = np.array([float(m.log()) if float(m) > 0 else -np.inf for _, m in raw]) + theta * loss
            weights = np.exp(logs - logs.max())
            weights /= weights.sum()
            keep = weights > 1e-17
            sums = np.concatenate(
                [
                    np.abs(np.exp(1j * np.outer(part, loss[keep])) @ weights[keep])
                    for part in np.array_split(grid, 1 + len(grid) * len(loss) // 2_000_000)
                ]
            )
            total += law.count * np.log(np.maximum(sums, 1e-16))
        return total

    def _sublattice(self, theta: float, limit: float, cut: float, asked: float) -> bool:
        """Does the law nearly live on a coarser lattice?  Then the integrand revives inside the period."""
        grid = np.array([2 * limit * k / m for m in range(2, 41) for k in range(1, m // 2 + 1)])
        grid = grid[grid > cut]
        return bool(len(grid) and self._scan(theta, grid).max() > -asked)

    def _far(self, theta: float, cut: float) -> float:
        """Revivals of laws with atoms beyond the cut, as a relative error: bounds where known, else a long scan."""
        known = sum(law.count * math.log(law.far(theta, cut)) for law in self.laws if law.far is not None)
        smooth = [law for law in self.laws if law.far is None and law.atoms is None]
        known += float(self._scan(theta, np.array([cut, 1.2 * cut, 1.5 * cut]), only=smooth).max())
        atoms = [law for law in self.laws if law.atoms is not None]
        if not atoms:
            return math.exp(known) if len(smooth) < len(self.laws) else 0.0
        grid = np.concatenate([np.linspace(cut, 12 * cut, 3001), np.geomspace(cut, 1e4 * cut, 3001)])
        return float(np.exp(self._scan(theta, grid, only=atoms).max() + known))

    def _values(self, widen: float) -> list[acb]:
        """exp(S(z_k)) for k = 0 .. count."""
        total = [acb(1)] * (self.count + 1)
        for law in self.laws:
            if law.closed is not None:
                column = [law.closed(acb(arb(self.theta), self.dt * k)) for k in range(self.count + 1)]
            else:
                frequency = self.frequency * widen
                raw = points_of(law, self.theta, frequency)
                if len(raw) * self.count > MOST_WORK:
                    raise OracleCannot("too much work")
                column = transform(raw, self.theta, self.dt, self.count)
            total = [a * c**law.count for a, c in zip(total, column, strict=True)]
        return total

    def delta(self, epsilon: arb) -> arb:
        """The trapezoid sum; for a lattice the geometric kernel of the points above epsilon."""
        total = arb(0)
        first = None
        if self.period is not None:
            offset = self.laws[0].lattice[0] * self.laws[0].count  # type: ignore[index]
            steps = ((epsilon - offset) / self.period).floor() + 1
            first = offset + self.period * arb(int(float(steps)))
        for k, value in enumerate(self.values):
            z = acb(arb(self.theta), self.dt * k)
            if first is None:
                term = value * (-z * epsilon).exp() / (z * (z + 1))
            else:
                near = (-z * first).exp() / (1 - (-z * self.period).exp())
                term = value * (near - (epsilon - first - z * first).exp() / (1 - (-(z + 1) * self.period).exp()))
            single = k == 0 or (self.full and k == self.count)
            total += term.real if single else 2 * term.real
        scale = self.dt / (2 * arb.pi())
        return total * scale * (self.period if first is not None else 1)


def transform(raw: list[Node], theta: float, dt: arb, count: int) -> list[acb]:
    """sum of mass * exp((theta + i k dt) loss) for k = 0 .. count, as one product of two thin matrices."""
    inner = max(1, math.isqrt(count + 1))
    outer = (count + 1) // inner + 1
    unit = [acb(arb(0), dt * loss).exp() for loss, _ in raw]
    weight = [acb(mass * (loss * theta).exp()) for loss, mass in raw]
    powers = [[acb(1)] * len(raw)]
    for _ in range(inner - 1):
        powers.append([a * b for a, b in zip(powers[-1], unit, strict=True)])
    stride = [a * b for a, b in zip(powers[-1], unit, strict=True)]
    rows = [weight]
    for _ in range(outer - 1):
        rows.append([a * b for a, b in zip(rows[-1], stride, strict=True)])
    left = acb_mat(outer, len(raw), [v for row in rows for v in row])
    right = acb_mat(inner, len(raw), [v for row in powers for v in row]).transpose()
    product = left * right
    return [product[k // inner, k % inner] for k in range(count + 1)]


# ---------------------------------------------------------------------------------------------------------- enumeration


def enumerated(laws: list[Law], theta: float, most: int = 40_000) -> list[Node]:
    """The law of a sum of discrete terms, atom by atom; atoms whose tilted weight is below 1e-30 are dropped."""
    states: list[Node] = [(arb(0), arb(1))]
    for law in laws:
        step = _power(law, theta, most)
        if len(states) * len(step) > most:
            raise OracleCannot("too many combinations")
        states = [(a + l, w * m) for a, w in states for l, m in step]
    return states


def _power(law: Law, theta: float, most: int) -> list[Node]:
    assert law.atoms is not None
    points = law.atoms(theta)
    if law.lattice is not None:
        offset, step = law.lattice
        index = [round(float((l - offset) / step)) for l, _ in points]
        low, high = min(index), max(index)
        if law.count * (high - low) > 2 * most:
            raise OracleCannot("lattice power too long")
        coefficients = [arb(0)] * (high - low + 1)
        for i, (_, mass) in zip(index, points, strict=True):
            coefficients[i - low] += mass
        raised = (arb_poly(coefficients) ** law.count).coeffs()
        start = offset * law.count + step * low * law.count
        return _pruned([(start + step * k, m) for k, m in enumerate(raised)], theta)
    result: list[Node] = [(arb(0), arb(1))]
    if len(points) ** min(law.count, 3) > 4 * most and law.count > 1:
        raise OracleCannot("too many points")
    for _ in range(law.count):
        merged: dict[float, Node] = {}
        for a, w in result:
            for l, m in points:
                key = float(f"{float(a + l):.13g}")
                old = merged.get(key)
                merged[key] = (a + l, w * m + (old[1] if old else 0))
        result = _pruned(list(merged.values()), theta)
        if len(result) > most:
            raise OracleCannot("too many combinations")
    return result


def _pruned(states: list[Node], theta: float) -> list[Node]:
    sizes = [float(m.log()) + theta * float(l) if float(m) > 0 else -math.inf for l, m in states]
    top = max(sizes)
    return [s for s, size in zip(states, sizes, strict=True) if size > top - 75.0]


# --------------------------------------------------------------------------------------------------------------- routes


def profile(
    terms: Terms, direction: str, epsilon_near: float, log_delta: float, widen: float
) -> tuple[Profile, str, float]:
    """A function delta(epsilon), good near the given point; the route's name; a measured extra relative error."""
    laws = merged_laws(terms, direction)
    finite = arb(1)
    for law in laws:
        finite *= (1 - law.infinite) ** law.count
    infinite = 1 - finite
    function, route, extra = finite_profile(laws, epsilon_near, log_delta, widen)
    return (lambda e: infinite + function(e)), route, extra


def merged_laws(terms: Terms, direction: str) -> list[Law]:
    by_key: dict[str, Law] = {}
    for term in terms:
        law = law_of(term, direction)
        if law.key in by_key:
            by_key[law.key].count += law.count
        elif law.count:
            by_key[law.key] = law
    return list(by_key.values())


def finite_profile(laws: list[Law], epsilon: float, log_delta: float, widen: float) -> tuple[Profile, str, float]:
    gaussian = [law for law in laws if law.variance is not None]
    discrete = [law for law in laws if law.atoms is not None]
    others = [law for law in laws if law.variance is None and law.atoms is None]
    if gaussian:  # Gaussians add to one Gaussian
        total = sum((law.variance * law.count for law in gaussian), arb(0))  # type: ignore[operator]
        gaussian = [gaussian_law(total.sqrt(), 1, "remove", None, False)]
    laws = [*gaussian, *discrete, *others]
    moments = Moments(laws)
    theta = smallest(lambda t: guarded(moments, t) - t * epsilon - math.log(t) - math.log1p(t))
    continuous = [*gaussian, *others]
    if not continuous:
        return discrete_route(discrete, moments, theta, epsilon, log_delta, widen)
    reasons = []
    if len(continuous) == 1 and continuous[0].count == 1 and continuous[0].profile is not None:
        try:
            states = enumerated(discrete, theta)
            single = continuous[0].profile
            return (lambda e: sum((w * single(e - l) for l, w in states), arb(0))), "closed", 1e-25
        except OracleCannot as error:
            reasons.append(str(error))
    rational = not gaussian and all(law.rational for law in others)
    draws = sum(law.count for law in others)
    if rational and draws <= 60:
        try:
            return residue_profile(others, enumerated(discrete, theta)), "residue", 1e-25
        except (OracleCannot, OverflowError) as error:
            reasons.append(str(error))
    for accuracy in (0.75, 0.4):  # 27 decimals of the integrand, or 14 where that costs too much
        try:
            contour = Contour(laws, moments, epsilon, log_delta, widen=widen, accuracy=accuracy)
        except OracleCannot as error:
            reasons.append(str(error))
            continue
        if contour.tail < 1e-11 or not rational or draws > 1200:
            return contour.delta, "contour", contour.tail
    if rational and draws <= 1200:
        return residue_profile(others, enumerated(discrete, theta)), "residue", 1e-25
    raise OracleCannot("; ".join(reasons))


def discrete_route(
    discrete: list[Law], moments: Moments, theta: float, epsilon: float, log_delta: float, widen: float
) -> tuple[Profile, str, float]:
    lattices = sorted((law for law in discrete if law.lattice), key=lambda law: -law.count)
    try:
        states = enumerated(discrete, theta, most=40_000 if not lattices else 3000)
        return (lambda e: above(states, e)), "enumeration", 1e-25
    except OracleCannot:
        if not lattices:
            contour = Contour(discrete, moments, epsilon, log_delta, widen=widen)
            return contour.delta, "contour", contour.tail
    inner = lattices[0]
    rest = [law for law in discrete if law is not inner]
    states = enumerated(rest, theta, most=3000)
    alone = Moments([inner])
    # The tilt that is right for the sum is right for the part: its own mean under the tilt is the level to aim at.
    step = theta * 1e-4
    level = (alone(theta + step) - alone(theta - step)) / (2 * step)
    scale = alone(theta) - theta * level
    contour = Contour([inner], alone, level, min(scale, 0.0), widen=widen)
    if contour.count * len(states) > 400_000:
        raise OracleCannot("too much work")

    def total(e: arb) -> arb:
        return sum((w * contour.delta(e - l) for l, w in states), arb(0))

    return total, "lattice", 1e-25


def above(states: list[Node], e: arb) -> arb:
    level = float(e)
    return sum((m * (1 - (e - l).exp()) for l, m in states if float(l) > level), arb(0))


# ------------------------------------------------------------------------------------------------------------ read-outs


def delta(terms: Terms, *, epsilon: str | float, direction: str) -> Answer:
    """delta(epsilon) in one direction ("remove", "add")."""
    target = arb(epsilon) if isinstance(epsilon, str) else exact(epsilon)
    guess = _log_chernoff(terms, direction, float(target))
    results = []
    route = ""
    extra = 0.0
    for widen in (1.0, 1.21):
        function, route, tail = profile(terms, direction, float(target), guess, widen)
        results.append(function(target))
        extra = max(extra, tail)
    return _answer(results, route, extra)


def epsilon(terms: Terms, *, delta: str | float, direction: str) -> Answer:
    """The least epsilon >= 0 with delta(epsilon) <= delta in one direction."""
    target = arb(delta) if isinstance(delta, str) else exact(delta)
    log_delta = float(target.log())
    near = _first_guess(terms, direction, target, log_delta)
    if math.isinf(near):
        return Answer(math.inf, "inf", 0.0, "infinite mass")
    roots = []
    route = ""
    extra = 0.0
    for widen in (1.0, 1.21):
        for _ in range(3):
            function, route, tail = profile(terms, direction, near, log_delta, widen)
            root = _root(function, target, near)
            moved = abs(float(root) - near)
            near = float(root)
            if moved < 0.02 * (1 + near):
                break
        roots.append(root)
        extra = max(extra, tail)
    if float(roots[0]) == 0.0 and float(roots[1]) == 0.0:
        return Answer(0.0, "0", 0.0, route)
    return _answer(roots, route, extra)


def _answer(values: list[arb], route: str, extra: float) -> Answer:
    value = values[1]
    size = abs(float(value)) or 1e-300
    disagreement = abs(float(values[0] - value)) / size + float(value.rad()) / size
    return Answer(float(value), value.mid().str(25, radius=False), disagreement + extra, route)


def _log_chernoff(terms: Terms, direction: str, level: float) -> float:
    moments = Moments(merged_laws(terms, direction))
    theta = smallest(lambda t: guarded(moments, t) - t * level - math.log(t) - math.log1p(t))
    return min(0.0, moments(theta) - theta * level - 3.0)


def _first_guess(terms: Terms, direction: str, target: arb, log_delta: float) -> float:
    laws = merged_laws(terms, direction)
    finite = arb(1)
    for law in laws:
        finite *= (1 - law.infinite) ** law.count
    left = target - (1 - finite)
    if float(left) <= 0:
        return math.inf
    moments = Moments(laws)
    aim = float(left.log())

    # Chernoff with the kernel's factor theta^theta / (1+theta)^(1+theta), then a Gaussian correction of its prefactor.
    def bound(t: float) -> float:
        return (guarded(moments, t) + t * math.log(t) - (1 + t) * math.log1p(t) - aim) / t

    theta = smallest(bound)
    level = bound(theta)
    spread = math.sqrt(moments.variance(theta))
    gain = math.log(1 + theta * spread * math.sqrt(2 * math.pi)) / theta * 0.5
    return max(level - gain, 0.0)


def _root(function: Profile, target: arb, near: float) -> arb:
    """Bracket, then safeguarded secant on log delta at full precision."""

    def g(e: arb) -> arb:
        value = function(e)
        return (value / target).log() if value > 0 else arb(-1e9)  # certainly positive, or as good as zero

    at_zero = g(arb(0)) if near < 2.0 else arb(1)
    if float(at_zero) <= 0:
        return arb(0)
    step = 0.02 * (near + 0.01)
    low = high = arb(near)
    value = g(low)
    if float(value) > 0:
        while float(g(high)) > 0:
            low, high = high, high + step
            step *= 2
            if step > 1e7:
                raise OracleCannot("no root")
    else:
        while float(g(low)) <= 0:
            high, low = low, low - step
            step *= 2
            if float(low) <= 0:
                low = arb(0)
                break
    a, b = low, high
    fa, fb = g(a), g(b)
    side = 0
    for turn in range(400):
        width = float(b - a)
        if width <= 1e-27 * (abs(float(b)) + 1e-6):
            break
        c = ((a * fb - b * fa) / (fb - fa)).mid()
        if not float(a) <= float(c) <= float(b) or width > 1e3 or turn % 4 == 3:
            c = ((a + b) / 2).mid()
        fc = g(c)
        if float(abs(fc)) < 1e-26 or fc.contains(0):
            return c
        if float(fc) > 0:
            a, fa = c, fc
            fb = fb / 2 if side == 1 else fb
            side = 1
        else:
            b, fb = c, fc
            fa = fa / 2 if side == -1 else fa
            side = -1
    return ((a + b) / 2).mid()
