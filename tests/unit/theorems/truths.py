"""What every theorem about plain numbers says, at fifty digits and more, from the statement and not from the code.

A ``Claim`` names the safe side of a function, draws hostile arguments, and judges an answer: by the true number where
the statement is a formula, by asking whether the statement is met where the answer solves one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
from scipy.special import ndtri

from tallystick.accounting.adjacency import Adjacency
from unit.theorems import hostile as draw

UPPER, LOWER, EXACT, ESTIMATE = "upper", "lower", "exact", "estimate"
M = mp.mpf


@dataclass(frozen=True)
class Claim:
    """``side`` of each number returned; ``truth`` of the arguments, or ``met`` of the answer and the arguments."""

    side: str | tuple[str, ...]
    truth: Callable[..., Any] | None = None
    met: Callable[..., bool] | None = None
    draws: dict[str, Any] = field(default_factory=dict)
    make: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    effort: int = 1
    """Draw so many times fewer: a slow oracle."""
    near: float = 1e-9
    """How far a bound may be from the truth, relative: a bound that says nothing is not a pass."""


def expm1_ratio(a: Any, b: Any) -> Any:
    return mp.expm1(M(a)) / mp.expm1(M(b))


def density(x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def tail(x: Any) -> Any:
    """1 - Phi(x); far out by its asymptotic series, whose terms fall by 1e-12 each."""
    if x < 1e6:
        return mp.erfc(x / mp.sqrt(2)) / 2 if x > -1e6 else M(1)
    term, whole, n = M(1), M(0), 0
    while abs(term) > mp.eps * mp.eps:
        whole, n = whole + term, n + 1
        term *= -(2 * n - 1) / (x * x)
    return density(x) / x * whole


def tail_quantile(p: float) -> Any:
    """x with 1 - Phi(x) = p, by Newton's method on the logarithm."""
    exact = M(p)
    if exact > 0.5:
        return -tail_quantile_of(1 - exact)
    return tail_quantile_of(exact)


def tail_quantile_of(p: Any) -> Any:
    x = M(-float(ndtri(float(p)))) if float(p) > 1e-307 else mp.sqrt(-2 * mp.log(p))
    for _ in range(60):
        value = tail(x)
        step = (mp.log(value) - mp.log(p)) * value / density(x)
        x += step
        if abs(step) <= abs(x) * mp.eps * 100 + mp.eps:
            break
    return x


def approx_transfer(epsilon: float, delta: float, failure: float) -> Any:
    """The least root of t = theta (1 + t^2)/2 + d (1 - theta), capped at 1."""
    with mp.workdps(800):
        theta, d = mp.tanh(M(epsilon) / 2) if epsilon < 1e3 else M(1), M(delta) / M(failure)
        if d >= 1 or theta == 1:
            return M(1)
        if theta == 0:
            return d
        return min(M(1), (1 - mp.sqrt((1 - theta) * (1 + theta - 2 * theta * d))) / theta)


def gaussian_transfer(mu: Any, failure: Any) -> Any:
    """t at the c >= 0 with (Phi(-c + mu/2) - Phi(-c - mu/2))/t = failure, t a quarter of the log-ratio through tanh."""
    half = M(mu) / 2
    if half < 1e-25:  # the limit, up to mu^2
        return half / 2 * density(tail_quantile_of(M(failure) / 4)) / (M(failure) / 4)

    def at(c: Any) -> tuple[Any, Any]:
        more, less = tail(c - half), tail(c + half)
        t = mp.tanh(mp.log(more / less) / 4)
        return t, (more - less) / t

    low, high = M(0), M(1)
    if at(low)[1] <= failure:
        return at(low)[0]
    while at(high)[1] > failure:
        low, high = high, 2 * high
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] > failure else (low, middle)
    return at(low)[0]


def curve_met(answer: float, mu: float, failure: float) -> bool:
    """Not below the truth, and near it unless it says 1, which is true of everything, where the pair is far apart."""
    if mu == 0:
        return answer == 0
    if answer == 1:
        return mu > 0.2 or failure < 1e-100
    truth = gaussian_transfer(mu, M(failure))
    return bool(truth <= answer <= truth * (1 + M(10) ** -6) + M(10) ** -12)


def answers_met(answer: float, samples: int, sigma: float, queries: int, failure: float) -> bool:
    """Some split of the failure has an error that is not above the answer; of 24 coarse ones none is far below."""
    mu = mp.sqrt(queries) / (samples * M(sigma))
    if mu > 30:
        return answer >= 1

    def error(share: Any) -> Any:
        b = M(failure) * (1 - share) / (2 * queries)
        return M(sigma) * density(tail_quantile_of(b)) / b + gaussian_transfer(mu, M(failure) * share)

    coarse = min(error(M(i) / 24) for i in range(1, 24))
    return bool(answer <= coarse * (1 + M(10) ** -6) + M(10) ** -10 and answer >= coarse * M("0.95"))


def pass_mu(after: int, contraction: float, sigma: float) -> Any:
    """A record used once, with so many steps to come: its weight over the spread of the noise from there on."""
    c = M(contraction)
    return c**after / (M(sigma) * mp.sqrt(sum(c ** (2 * k) for k in range(after + 1))))


def descent(rng: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    given = {"smoothness": rng.uniform(0.1, 10), "lipschitz": rng.expovariate(1), "noise": rng.uniform(0.01, 10)}
    share = {"step_size": rng.uniform(0.01, 2.2) / given["smoothness"], "batch_size": rng.randint(1, 1000)}
    convex = {"strong_convexity": rng.choice([0.0, given["smoothness"] * rng.random()]), "steps": rng.randint(1, 40)}
    return (), {**given, **share, **convex}


def descends(answer: Any, **given: Any) -> bool:
    """Descent on a quadratic of the least or of the largest curvature, from its recursion."""
    bound = M(answer.gdp_bound())
    found = []
    for curvature in (given["strong_convexity"], given["smoothness"]):
        factor = abs(1 - M(given["step_size"]) * M(curvature))
        apart = spread = M(0)
        for _ in range(given["steps"]):
            apart = factor * apart + M(given["lipschitz"]) / given["batch_size"]
            spread = factor**2 * spread + M(given["noise"]) ** 2
        found.append(apart / mp.sqrt(spread))
    return max(found) <= bound <= max(found) * (1 + M(10) ** -9)


def moved_laws(rng: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = rng.randint(1, 6)
    laws = []
    for _ in range(2):
        masses = [rng.choice([0.0, 1e-12, rng.random(), 1.0]) for _ in range(size)]
        masses[rng.randrange(size)] += 1.0
        laws.append([mass / math.fsum(masses) for mass in masses])
    return tuple(laws), {"points": [float(rng.randint(-3, 3)) / 2 for _ in range(size)]}


def shifted_laws(rng: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    laws, given = moved_laws(rng)
    return laws, {
        **given,
        "order": rng.choice([1.0, 1.5, 2.0, 40.0, math.inf]),
        "shift": rng.choice([0.0, 0.5, 1.0, 2.0]),
    }


def exactly(p: Any, q: Any) -> tuple[list[Any], list[Any]]:
    """Both laws as numbers that sum to one at this precision."""
    first, second = ([M(mass) for mass in law] for law in (p, q))
    return [mass / mp.fsum(first) for mass in first], [mass / mp.fsum(second) for mass in second]


def within(p: Any, q: Any, points: Any, distance: Any) -> bool:
    """Hall's condition for intervals: F_p(x) <= F_q(x + r) and F_q(x) <= F_p(x + r)."""

    def below(law: Any, x: Any) -> Any:
        return mp.fsum(mass for mass, place in zip(law, points, strict=True) if place <= x)

    slack = M(10) ** -15  # the masses were normalised in doubles
    pairs = ((p, q), (q, p))
    return all(below(a, M(x)) <= below(b, x + distance) + slack for a, b in pairs for x in points)


def quantile_distance(p: Any, q: Any, points: Any) -> Any:
    first, second = exactly(p, q)
    apart = sorted({abs(M(x) - M(y)) for x in points for y in points})
    return next(distance for distance in apart if within(first, second, points, distance))


def least_shifted(answer: float, p: Any, q: Any, points: Any, order: float, shift: float) -> bool:
    """Frank-Wolfe over couplings reaches a divergence no smaller, and its duality gap allows none that is."""
    first, second = exactly(p, q)
    places = sorted({float(x) for x in points})
    p, q = (
        [float(mp.fsum(m for m, x in zip(law, points, strict=True) if x == at)) for at in places]
        for law in (first, second)
    )
    near = [[j for j, y in enumerate(places) if abs(x - y) <= shift and q[j] > 0] for x in places]
    if any(mass > 0 and not ways for mass, ways in zip(p, near, strict=True)):
        return math.isinf(answer)
    if order in (1.0, math.inf) or order > 2:
        # no quadratic bound for these; order 2 is above order 1 and below infinity
        return answer >= 0.0
    y = [0.0] * len(places)
    for mass, ways in zip(p, near, strict=True):
        for j in ways:
            y[j] += mass / len(ways)
    value = gap = 0.0
    for step in range(600):
        value = math.fsum(a**order * b ** (1 - order) for a, b in zip(y, q, strict=True) if b > 0)
        slope = [order * (a / b) ** (order - 1) if b > 0 else math.inf for a, b in zip(y, q, strict=True)]
        target = [0.0] * len(places)
        for mass, ways in zip(p, near, strict=True):
            if mass > 0:
                target[min(ways, key=slope.__getitem__)] += mass
        moves = [b - a for a, b in zip(y, target, strict=True)]
        gap = -math.fsum(s * m for s, m in zip(slope, moves, strict=True) if m)
        y = [a + 2 / (step + 2) * m for a, m in zip(y, moves, strict=True)]
    low, high = (math.log(max(total, 1.0)) / (order - 1) for total in (value - gap, value))
    return low - 1e-9 <= answer <= high + 1e-9


def laplace_resistance(noise: str, order: float, scale: float, shift: float) -> Any:
    a, s = M(order), M(shift) / M(scale)
    if noise == "gaussian":
        return a * s * s / 2
    with mp.workdps(400):
        inside = a / (2 * a - 1) * mp.exp((a - 1) * s) + (a - 1) / (2 * a - 1) * mp.exp(-a * s)
        return mp.log(inside) / (a - 1)


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), with as many digits as the cancellation eats."""
    m, e = M(mu), M(epsilon)
    if m == 0:
        return M(0)
    # the two terms differ by a relative mu (b - a)-ish part of themselves: b/a - 1 = mu/a
    scale = abs(mp.log10(m)) + abs(mp.log10(e / m + m))
    with mp.workdps(int(60 + 3 * scale)):
        a, b = e / m - m / 2, e / m + m / 2
        return tail(a) - mp.exp(e) * tail(b)


def gaussian_met(mu: Any, epsilon: Any, delta: Any) -> bool:
    return bool(gaussian_delta(mu, epsilon) <= M(delta))


def azuma(e: Any, k: Any, slack: Any) -> Any:
    return M(e) * mp.sqrt(2 * M(k) * -mp.log(M(slack)))


def spent(e: Any, k: Any, slack: Any) -> Any:
    return azuma(e, k, slack) + M(k) * M(e) * mp.tanh(M(e) / 2)


def largest_step(total: float, k: int, slack: float) -> Any:
    """The root of ``spent`` = total."""
    low, high = M(0), M(total) / mp.sqrt(2 * M(k) * -mp.log(M(slack)))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle, k, slack) <= total else (low, middle)
    return low


def solves(increasing: Callable[[Any], Any], level: Any, answer: float, *, side: str, near: float = 1e-8) -> bool:
    """``answer`` is on the safe side of the root of an increasing function, and near it."""
    if side == LOWER:
        return bool(increasing(M(answer)) <= level < increasing(M(answer) * (1 + near) + M(2) ** -1070))
    return bool(increasing(M(answer)) >= level and (answer == 0 or increasing(M(answer) * (1 - near)) <= level))


def optimal_delta(epsilon: float, steps: int, total: Any, delta: float = 0.0) -> Any:
    """Kairouz, Oh, Viswanath: 1 - (1-d)^k (1 - sum C(k,i) p^i (1-p)^(k-i) (1 - e^(E-(2i-k)e))_+)."""
    with mp.workdps(60 + (700 if 0 < epsilon < 1e-30 or 0 < delta < 1e-30 else 0)):
        e, d, t = M(epsilon), M(delta), M(total)
        p = 1 / (1 + mp.exp(-e))
        inside = M(0)
        for i in range(steps + 1):
            loss = (2 * i - steps) * e
            if loss > t:
                inside += mp.binomial(steps, i) * p**i * (1 - p) ** (steps - i) * -mp.expm1(t - loss)
        lost = -mp.expm1(steps * mp.log1p(-d)) if d < 1 else M(1)
        return lost + (1 - lost) * inside


def sampled_gaussian_moment(moment: int, rate: float, sigma: float) -> Any:
    with mp.workdps(1300 if sigma > 1e6 or rate < 1e-20 else 120):
        n, q, s = moment + 1, M(rate), M(sigma)
        lift = sum(
            (
                mp.binomial(n, k) * (1 - q) ** (n - k) * q**k * mp.expm1(k * (k - 1) / (2 * s * s))
                for k in range(2, n + 1)
            ),
            start=M(0),
        )
        return mp.log1p(lift)


def moments_noise_met(answer: tuple[float, float], *, rate: float, steps: int, epsilon: float, delta: float) -> bool:
    """Some whole moment up to 128 proves epsilon; the ones near the best order of a Gaussian are tried first."""
    sigma, constant = answer
    cost = -mp.log(M(delta))
    likely = mp.sqrt(2 * cost / steps) * sigma / rate
    met = any(
        (steps * sampled_gaussian_moment(lam, rate, sigma) + cost) / lam <= epsilon
        for lam in sorted(range(1, 129), key=lambda lam: abs(mp.log(lam / likely)))
    )
    return met and bool(abs(constant * rate * mp.sqrt(steps * cost) / (M(sigma) * M(epsilon)) - 1) < 1e-9)


def rdp_epsilon(order: Any, divergence: Any, delta: Any) -> Any:
    a = M(order)
    return M(divergence) + mp.log1p(-1 / a) - (mp.log(M(delta)) + mp.log(a)) / (a - 1)


def rdp_delta(order: Any, divergence: Any, epsilon: Any) -> Any:
    a = M(order)
    exponent = (a - 1) * (M(divergence) - M(epsilon) + mp.log1p(-1 / a)) - mp.log(a)
    return M(1) if exponent >= 0 else mp.exp(exponent)


def least_over_orders(function: Callable[[Any], Any], low: float, high: float) -> Any:
    """The minimum over log(order - 1), by a scan and golden sections; a true value at every point."""
    points = [M(low) + (M(high) - M(low)) * i / 200 for i in range(201)]
    values = [function(1 + mp.exp(x)) for x in points]
    best = min(range(201), key=values.__getitem__)
    left, right = points[max(0, best - 1)], points[min(200, best + 1)]
    golden = (mp.sqrt(5) - 1) / 2
    for _ in range(90):
        inner, outer = right - golden * (right - left), left + golden * (right - left)
        left, right = (left, outer) if function(1 + mp.exp(inner)) <= function(1 + mp.exp(outer)) else (inner, right)
    return min(values[best], function(1 + mp.exp((left + right) / 2)))


def zcdp_epsilon(rho: float, delta: float) -> Any:
    if rho == 0:
        return M(0)
    # between this and 0 the printed form is the least that is asked for; the search reaches a little less
    found = least_over_orders(lambda a: rdp_epsilon(a, M(rho) * a, delta), -150, 730)
    return max(M(0), found)


def zcdp_delta(rho: float, epsilon: float) -> Any:
    return M(0) if rho == 0 else least_over_orders(lambda a: rdp_delta(a, M(rho) * a, epsilon), -150, 730)


def curve_at(alpha: Any, epsilon: Any, delta: Any) -> Any:
    a, e, d = M(alpha), M(epsilon), M(delta)
    return max(M(0), 1 - d - mp.exp(e) * a, mp.exp(-e) * (1 - d - a))


def power(alpha: float, epsilon: float, delta: float) -> Any:
    a, e, d = M(alpha), M(epsilon), M(delta)
    return min(M(1), mp.exp(e) * a + d, -mp.expm1(-e) + mp.exp(-e) * (d + a))


def amplified_epsilon(epsilon: Any, rate: Any) -> Any:
    return mp.log1p(M(rate) * mp.expm1(M(epsilon)))


def pure_gdp_met(mu: float, *, epsilon: float) -> bool:
    """Phi(-mu/2) <= 1/(1 + e^eps), and no longer at a slightly smaller mu."""

    def reaches(m: Any) -> bool:
        x = M(m) / 2
        if epsilon < 1:
            return bool(mp.erf(x / mp.sqrt(2)) >= mp.tanh(M(epsilon) / 2))
        return bool(tail(x) <= 1 / (1 + mp.exp(M(epsilon))))

    return reaches(mu) and (mu < 1e-320 or not reaches(mu * (1 - 1e-9)))


def answers(samples: int, sigma: float, queries: int = 1) -> Any:
    return mp.erf(mp.sqrt(queries) / (2 * M(samples) * M(sigma)) / mp.sqrt(2))


def stable_error(distance: Any, samples: int, failure: float) -> Any:
    return M(distance) + (2 * M(distance) * samples + 1) * mp.sqrt(mp.log(2 / M(failure)) / (2 * M(samples)))


def group(epsilon: float, delta: float, size: int) -> tuple[Any, Any]:
    e, d, k = M(epsilon), M(delta), M(size)
    if d == 0:
        return k * e, M(0)
    return k * e, min(M(1), d * (k if e == 0 else mp.expm1(k * e) / mp.expm1(e)))


def wins(queries: Any, epsilon: float, delta: float) -> bool:
    """Is the advanced step larger than epsilon/k? spent(epsilon/k) < epsilon, divided by epsilon."""
    k = M(queries)
    return bool(mp.sqrt(2 * -mp.log(M(delta)) / k) < 2 / (1 + mp.exp(M(epsilon) / k)))


def variance_advanced_met(variance: float, *, epsilon: float, delta: float, queries: int, delta_slack: float) -> bool:
    if delta_slack >= delta:
        return math.isinf(variance)
    if math.isinf(variance):
        return True
    each = (M(delta) - M(delta_slack)) / queries
    return gaussian_met(1 / mp.sqrt(M(variance)), largest_step(epsilon, queries, delta_slack), each)


def sensitivity(lower: float, upper: float, adjacency: Adjacency) -> Any:
    return M(upper) - M(lower) if adjacency is Adjacency.REPLACE else max(abs(M(lower)), abs(M(upper)))


def range_of(rng: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    ends = sorted(rng.choice([-1, 1]) * draw.size(rng) for _ in range(2))
    return (), {"lower": ends[0], "upper": ends[1], "adjacency": rng.choice(list(Adjacency))}


def lists(**makers: Any) -> Any:
    """Lists of equal length, one for each name, next to single numbers."""

    def make(rng: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        length = rng.randint(1, 6)
        return (), {
            name.removesuffix("_each"): [maker(rng) for _ in range(length)] if name.endswith("_each") else maker(rng)
            for name, maker in makers.items()
        }

    return make


def square(x: Any) -> Any:
    return M(x) * M(x)


def some(rng: Any) -> int:
    return draw.count(rng, 60)


def moderate(rng: Any) -> float:
    """Numbers for which the oracle is quick."""
    return float(10 ** rng.uniform(-12, 2.5))


def moderate_delta(rng: Any) -> float:
    return float(10 ** rng.uniform(-120, -0.05))


SEARCH = {"epsilon": moderate, "delta": moderate_delta, "mu": moderate, "sigma": moderate, "rho": moderate}
OPEN = {"delta": draw.open_probability}


def ridge_of(epsilon: float, share: float, curvature: float) -> Any:
    return M(curvature) / mp.expm1(min(M(epsilon) * (1 - M(share)), M(700)))


def two_errors(
    rows: int, dimension: int, epsilon: float, share: float, sensitivity: float, curvature: float, bound: float,
    inverse: float = 1.0,
) -> tuple[Any, Any]:  # fmt: skip
    bias = M(inverse) * ridge_of(epsilon, share, curvature) * M(bound) / rows
    return bias, M(inverse) * dimension * M(sensitivity) / (M(epsilon) * M(share)) / rows


def splits_best(
    found: float, epsilon: float, dimension: int, sensitivity: float, curvature: float, bound: float
) -> bool:
    """No share of a grid makes the two errors together smaller."""

    def total(share: Any) -> Any:
        return sum(two_errors(1, dimension, epsilon, share, sensitivity, curvature, bound))

    return all(total(found) <= total(M(k) / 200) * (1 + M(10) ** -6) for k in range(1, 200))


def logistic_densities(rng: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows = [rng.uniform(-1, 1) for _ in range(rng.randint(0, 4))]
    labels = [rng.choice([-1.0, 1.0]) for _ in rows]
    given = {"ridge": rng.choice([0.01, 1.0, 30.0]), "scale": rng.choice([0.1, 1.0, 20.0])}
    return ([rng.uniform(-3, 3)], rows, labels), {**given, "noise": rng.choice(["laplace", "gaussian"])}


def is_density(found: Any, theta: Any, rows: Any, labels: Any, *, ridge: float, scale: float, noise: str) -> bool:
    """The noise that leads to theta, and how fast it changes there: both from the objective itself."""

    def tilt(t: Any) -> Any:
        return -mp.diff(
            lambda u: sum(mp.log1p(mp.exp(-u * M(x) * M(y))) for x, y in zip(rows, labels, strict=True)), t
        ) - M(ridge) * t  # fmt: skip

    b, slope = tilt(M(theta[0])), abs(mp.diff(tilt, M(theta[0])))
    law = mp.exp(-abs(b) / scale) / (2 * M(scale)) if noise == "laplace" else density(b / scale) / scale
    return bool(abs(M(float(found[0])) - law * slope) <= 1e-9 * law * slope + M(10) ** -300)


def softmax_delta(epsilon: float, classes: int, sigma: float, ridge: float) -> Any:
    rest = M(epsilon) - (classes - 1) * mp.log1p(1 / (classes * M(ridge)))
    return M(1) if rest < 0 else min(M(1), (classes - 1) * gaussian_delta(mp.sqrt(2) / M(sigma), rest))


def tame(rng: Any) -> float:
    return float(rng.choice([0.1, 1.0, 3.0, rng.uniform(0.05, 20.0)]))


def a_share(rng: Any) -> float:
    return float(rng.choice([0.5, 1e-3, 1 - 1e-6, rng.uniform(0.001, 0.999)]))


def few(rng: Any) -> int:
    return int(rng.randint(1, 1000))


CLAIMS: dict[str, Claim] = {
    "perturbation_ridge": Claim(UPPER, ridge_of, draws={"share": a_share, "curvature": draw.size, "epsilon": tame}),
    "perturbation_error": Claim(
        (ESTIMATE, ESTIMATE),
        two_errors,
        draws={"share": a_share, "bound": tame, "rows": few, "dimension": few, "inverse": tame, "epsilon": tame}
        | {"sensitivity": tame, "curvature": tame},
    ),
    "best_split": Claim(
        ESTIMATE,
        met=splits_best,
        draws={"bound": tame, "dimension": few, "epsilon": tame, "sensitivity": tame, "curvature": tame},
        effort=20,
    ),
    "perturbed_density": Claim(ESTIMATE, met=is_density, make=logistic_densities, effort=10),
    "softmax_perturbation_delta": Claim(
        UPPER,
        lambda epsilon, classes, sigma, ridge: softmax_delta(epsilon, classes, sigma, ridge),
        draws={
            "epsilon": lambda rng: rng.uniform(0, 4),
            "classes": lambda rng: rng.randint(2, 20),
            "sigma": lambda rng: rng.choice([0.5, 1.0, 3.0]),
            "ridge": tame,
        },
        near=1e-6,
    ),
    # chapters 3 and 4
    "randomized_response_epsilon": Claim(UPPER, lambda coin: mp.log1p(2 * (1 - M(coin)) / M(coin)) if coin else mp.inf),
    "randomized_response_coin": Claim(UPPER, lambda epsilon: 2 / (1 + mp.exp(M(epsilon)))),
    "randomized_response_variance": Claim(
        EXACT,
        lambda epsilon, people, proportion: (
            (1 / (4 * mp.sinh(M(epsilon) / 2) ** 2) + M(proportion) * (1 - M(proportion))) / people
        ),
        draws={"epsilon": draw.size},
    ),
    "laplace_proportion_variance": Claim(
        EXACT,
        lambda epsilon, people, proportion: (
            M(proportion) * (1 - M(proportion)) / people + 2 / square(M(people) * M(epsilon))
        ),
        draws={"epsilon": draw.size},
    ),
    "laplace_scale": Claim(
        UPPER, lambda epsilon, sensitivity: M(sensitivity) / M(epsilon), draws={"epsilon": draw.size}
    ),
    "counts_sensitivity": Claim(EXACT, lambda queries: M(queries)),
    "histogram_sensitivity": Claim(
        EXACT,
        lambda adjacency: M(2 if adjacency is Adjacency.REPLACE else 1),
        draws={"adjacency": lambda rng: rng.choice(list(Adjacency))},
    ),
    "clamped_sum_sensitivity": Claim(UPPER, sensitivity, make=range_of),
    "regression_statistics": Claim(
        EXACT,
        lambda covariates, intercept: M(2 * covariates + math.comb(covariates, 2) + intercept * (covariates + 1)),
        draws={"intercept": lambda rng: rng.random() < 0.5},
    ),
    "local_rate": Claim(
        ESTIMATE,
        lambda people, epsilon, moments: (1 / (people * square(epsilon))) ** (1 - 1 / M(moments)),
        draws={"epsilon": draw.size},
    ),
    "central_rate": Claim(
        ESTIMATE,
        lambda people, epsilon, moments: 1 / M(people) + (1 / square(people * M(epsilon))) ** (1 - 1 / M(moments)),
        draws={"epsilon": draw.size},
    ),
    # composition
    "basic_composition": Claim(
        (UPPER, UPPER),
        lambda epsilons, deltas: (mp.fsum(map(M, epsilons)), min(M(1), mp.fsum(map(M, deltas)))),
        make=lists(epsilons_each=draw.zero_or_size, deltas_each=draw.probability),
    ),
    "advanced_composition": Claim(
        (UPPER, UPPER),
        lambda epsilon, steps, delta_slack, delta: (
            azuma(epsilon, steps, delta_slack) + steps * M(epsilon) * mp.expm1(M(epsilon)),
            min(M(1), steps * M(delta) + M(delta_slack)),
        ),
    ),
    "advanced_composition_quadratic": Claim(
        (UPPER, UPPER),
        lambda epsilon, steps, delta_slack, delta: (
            azuma(epsilon, steps, delta_slack) + steps * square(epsilon) / 2,
            min(M(1), steps * M(delta) + M(delta_slack)),
        ),
    ),
    "advanced_composition_tight_mean": Claim(
        (UPPER, UPPER),
        lambda epsilons, counts, deltas, delta_slack: (
            mp.fsum(n * M(e) * mp.tanh(M(e) / 2) for e, n in zip(epsilons, counts, strict=True))
            + mp.sqrt(
                2 * -mp.log(M(delta_slack)) * mp.fsum(n * square(e) for e, n in zip(epsilons, counts, strict=True))
            ),
            min(M(1), mp.fsum(n * M(d) for d, n in zip(deltas, counts, strict=True)) + M(delta_slack)),
        ),
        make=lists(
            epsilons_each=draw.zero_or_size,
            counts_each=draw.count,
            deltas_each=draw.probability,
            delta_slack=draw.open_probability,
        ),
    ),
    "step_epsilon": Claim(
        LOWER,
        met=lambda answer, total_epsilon, steps, delta_slack: solves(
            lambda e: spent(e, steps, delta_slack), total_epsilon, answer, side=LOWER
        ),
    ),
    "step_epsilon_printed": Claim(
        LOWER,
        met=lambda answer, total_epsilon, steps, delta_slack: bool(
            spent(answer, steps, delta_slack) <= total_epsilon
            and spent(answer, steps, delta_slack) > M(total_epsilon) * 0.4
        ),
        draws={
            "total_epsilon": lambda rng: rng.uniform(1e-9, 1) if rng.random() < 0.5 else 10 ** rng.uniform(-300, -1)
        },
    ),
    "tv_composition": Claim(
        UPPER,
        lambda distances: (
            M(1) if 1.0 in distances else -mp.expm1(mp.fsum(mp.log1p(-M(distance)) for distance in distances))
        ),
        make=lists(distances_each=draw.probability),
    ),
    "rdp_composition": Claim(
        UPPER, lambda epsilons: mp.fsum(map(M, epsilons)), make=lists(epsilons_each=draw.zero_or_size)
    ),
    "zcdp_composition": Claim(UPPER, lambda rhos: mp.fsum(map(M, rhos)), make=lists(rhos_each=draw.zero_or_size)),
    "gdp_composition": Claim(
        UPPER, lambda mus: mp.sqrt(mp.fsum(map(square, mus))), make=lists(mus_each=draw.zero_or_size)
    ),
    "parallel_composition": Claim(
        (UPPER, UPPER),
        lambda epsilons, deltas, split_by_record: (M(max(epsilons)), M(max(deltas))),
        make=lists(epsilons_each=draw.zero_or_size, deltas_each=draw.probability, split_by_record=lambda rng: True),
    ),
    "optimal_composition_delta": Claim(
        UPPER,
        lambda epsilon, steps, total_epsilon, delta: optimal_delta(epsilon, steps, total_epsilon, delta),
        make=lambda rng: ((), optimal_arguments(rng)),
        near=math.inf,
    ),
    "optimal_composition_epsilon": Claim(
        UPPER,
        met=lambda answer, epsilon, steps, total_delta, delta: (
            optimal_delta(epsilon, steps, 1e400, delta) >= M(total_delta) * (1 - 1e-9)
            if math.isinf(answer)
            else bool(optimal_delta(epsilon, steps, answer, delta) <= total_delta)
        ),
        draws={"steps": lambda rng: draw.count(rng, 25), "delta": draw.probability},
    ),
    "optimal_composition_points": Claim(
        UPPER,
        met=lambda answer, epsilon, steps, delta: (
            all(optimal_delta(epsilon, steps, at, delta) <= slip for at, slip in answer)
            and len(answer) == steps // 2 + 1
        ),
        draws={"steps": lambda rng: draw.count(rng, 12)},
    ),
    # conversions
    "pure_to_zcdp": Claim(UPPER, lambda epsilon: M(epsilon) * mp.tanh(M(epsilon) / 2)),
    "pure_to_kl": Claim(UPPER, lambda epsilon: M(epsilon) * mp.tanh(M(epsilon) / 2)),
    "pure_to_kl_printed": Claim(UPPER, lambda epsilon: M(epsilon) * mp.expm1(M(epsilon))),
    "pure_to_zcdp_printed": Claim(UPPER, lambda epsilon: square(epsilon) / 2),
    "bounded_range_to_zcdp": Claim(UPPER, lambda epsilon: square(epsilon) / 8),
    "gdp_to_zcdp": Claim(UPPER, lambda mu: square(mu) / 2),
    "pure_to_gdp": Claim(UPPER, met=pure_gdp_met),
    "gaussian_renyi": Claim(UPPER, lambda order, sigma, sensitivity: M(order) * square(M(sensitivity) / M(sigma)) / 2),
    "pure_to_renyi_printed": Claim(UPPER, lambda order, epsilon: M(order) * square(epsilon) / 2),
    "randomized_response_renyi": Claim(
        UPPER,
        lambda order, epsilon: (
            M(epsilon)
            if math.isinf(order)
            else M(epsilon) * mp.tanh(M(epsilon) / 2)
            if order == 1
            else rr_renyi(order, epsilon)
        ),
        draws={"order": draw.order_or_limit},
        near=1e-6,
    ),
    "rdp_to_approx": Claim(
        UPPER, lambda order, epsilon, delta: max(M(0), rdp_epsilon(order, epsilon, delta)), draws=OPEN, near=math.inf
    ),
    "rdp_to_approx_printed": Claim(
        UPPER, lambda order, epsilon, delta: M(epsilon) - mp.log(M(delta)) / (M(order) - 1), draws=OPEN
    ),
    "rdp_to_delta": Claim(UPPER, rdp_delta, near=math.inf),
    "zcdp_to_approx": Claim(UPPER, zcdp_epsilon, draws=SEARCH | OPEN, near=1e-4, effort=3),
    "zcdp_to_approx_printed": Claim(
        UPPER, lambda rho, delta: M(rho) + 2 * mp.sqrt(M(rho) * -mp.log(M(delta))), draws=OPEN
    ),
    "zcdp_to_delta": Claim(UPPER, zcdp_delta, near=math.inf, effort=3),
    "approx_to_tv": Claim(
        UPPER, lambda epsilon, delta: min(M(1), mp.tanh(M(epsilon) / 2) + 2 * M(delta) / (mp.exp(M(epsilon)) + 1))
    ),
    "approx_to_tv_printed": Claim(UPPER, lambda epsilon, delta: min(M(1), mp.expm1(M(epsilon)) / 2 + M(delta))),
    # the Gaussian mechanism
    "gdp_delta": Claim(UPPER, gaussian_delta, near=1e-9),
    "gdp_epsilon": Claim(
        UPPER,
        met=lambda answer, mu, delta: (
            (not gaussian_met(mu, 1.7e308, delta) if math.isinf(answer) else gaussian_met(mu, answer, delta))
            and (
                answer in (0.0, math.inf)
                or not 1e-300 < delta < 1 - 1e-9
                or not gaussian_met(mu, answer * (1 - 1e-7), delta)
            )
        ),
        draws={"delta": draw.open_probability},
    ),
    "gdp_from_approx": Claim(
        LOWER,
        met=lambda answer, epsilon, delta: (
            gaussian_met(answer, epsilon, delta)
            and (delta > 1 - 1e-6 or not gaussian_met(answer * (1 + 1e-6), epsilon, delta))
        ),
        draws=OPEN,
    ),
    "gaussian_tradeoff": Claim(
        LOWER,
        lambda mu, alpha: 1 - M(alpha) if alpha in (0.0, 1.0) else tail(M(mu) - tail_quantile(alpha)),
        draws={"mu": draw.zero_or_size},
        near=1e-7,
    ),
    "gaussian_mu": Claim(UPPER, lambda sigma, sensitivity: M(sensitivity) / M(sigma)),
    "classical_gaussian_sigma": Claim(
        UPPER,
        met=lambda answer, epsilon, delta, sensitivity, constant: (
            gaussian_met(M(sensitivity) / M(answer), epsilon, delta)
            and answer >= M(sensitivity) / M(epsilon) * mp.sqrt(2 * mp.log(M(constant) / M(delta)))
        ),
        draws={
            "epsilon": lambda rng: min(1.0, draw.size(rng)),
            "delta": draw.open_probability,
            "constant": lambda rng: rng.choice([1.25, 1.32]),
        },
    ),
    "analytic_gaussian_sigma": Claim(
        UPPER,
        met=lambda answer, epsilon, delta, sensitivity: (
            gaussian_met(M(sensitivity) / M(answer), epsilon, delta)
            and (delta > 1 - 1e-6 or not gaussian_met(M(sensitivity) / M(answer) * (1 + 1e-6), epsilon, delta))
        ),
        draws=OPEN | {"sensitivity": moderate},
    ),
    "gaussian_mechanism_delta": Claim(
        UPPER, lambda sigma, epsilon, sensitivity: gaussian_delta(M(sensitivity) / M(sigma), epsilon), near=1e-8
    ),
    "count_vector_noise": Claim(
        (UPPER, UPPER),
        met=lambda answer, dimension, epsilon, delta: bool(
            answer[0] >= mp.sqrt(2) * dimension / M(epsilon)
            and gaussian_met(mp.sqrt(dimension) / M(answer[1]), epsilon, delta)
        ),
        draws=SEARCH,
    ),
    "mean_release_error": Claim(
        (UPPER, UPPER),
        met=lambda answer, dimension, records, epsilon, delta: bool(
            answer[0] >= mp.sqrt(2 * M(dimension)) * dimension / (records * M(epsilon))
            and gaussian_met(mp.sqrt(dimension) / records / (M(answer[1]) / mp.sqrt(dimension)), epsilon, delta)
        ),
        draws=SEARCH,
    ),
    # the moments accountant
    "gaussian_log_moment": Claim(UPPER, lambda moment, sigma: M(moment) * (M(moment) + 1) / (2 * square(sigma))),
    "sampled_gaussian_log_moment": Claim(
        UPPER,
        sampled_gaussian_moment,
        draws={"moment": lambda rng: draw.count(rng, 40)},
        near=1e-8,
    ),
    "moments_noise": Claim(
        (UPPER, ESTIMATE),
        met=moments_noise_met,
        effort=20,
        draws={
            "rate": lambda rng: 10 ** rng.uniform(-5, 0),
            "steps": lambda rng: draw.count(rng, 1e5),
            "epsilon": lambda rng: 10 ** rng.uniform(-1, 2),
            "delta": lambda rng: 10 ** rng.uniform(-12, -1),
        },
    ),
    # noise for queries
    "laplace_variance_basic": Claim(
        UPPER, lambda epsilon, queries: 2 * square(queries / M(epsilon)), draws={"epsilon": draw.size}
    ),
    "laplace_variance_advanced": Claim(
        UPPER,
        met=lambda answer, epsilon, delta, queries: (
            math.isinf(answer) or bool(spent(mp.sqrt(2 / M(answer)), queries, delta) <= epsilon)
        ),
        draws=SEARCH | OPEN,
    ),
    "queries_where_advanced_wins": Claim(
        EXACT,
        met=lambda answer, epsilon, delta: (
            wins(answer, epsilon, delta) and (answer == 1 or not wins(answer - 1, epsilon, delta))
            if answer < 1e9
            # no float knows the last digit of so many queries
            else wins(M(answer) * (1 + M(1e-9)), epsilon, delta) and not wins(M(answer) * (1 - M(1e-9)), epsilon, delta)
        ),
        draws=OPEN | {"epsilon": draw.size},
    ),
    "gaussian_variance_advanced": Claim(
        UPPER,
        met=variance_advanced_met,
        draws=SEARCH | {"delta_slack": lambda rng: 10 ** rng.uniform(-120, -0.05)},
    ),
    "best_delta_slack": Claim(
        (ESTIMATE, UPPER),
        met=lambda answer, epsilon, delta, queries: variance_advanced_met(
            answer[1], epsilon=epsilon, delta=delta, queries=queries, delta_slack=answer[0]
        ),
        draws=SEARCH,
        effort=6,
    ),
    "gaussian_variance_tight": Claim(
        UPPER,
        met=lambda answer, epsilon, delta, queries: gaussian_met(mp.sqrt(queries / M(answer)), epsilon, delta),
        draws=SEARCH,
    ),
    # groups
    "group_pure": Claim(UPPER, lambda epsilon, size: size * M(epsilon)),
    "group_gdp": Claim(UPPER, lambda mu, size: size * M(mu)),
    "contraction_reduction": Claim(
        UPPER,
        lambda shift, contraction, displacement: M(contraction) * M(shift) + M(displacement),
        draws={"shift": draw.zero_or_size, "contraction": draw.probability, "displacement": draw.zero_or_size},
    ),
    "shift_reduction": Claim(
        UPPER,
        lambda divergence, order, hidden, sigma: M(divergence) + M(order) * square(M(hidden) / M(sigma)) / 2,
        draws={"hidden": draw.zero_or_size},
    ),
    "w_infinity": Claim(UPPER, quantile_distance, make=moved_laws, effort=2),
    "shifted_renyi": Claim(UPPER, met=least_shifted, make=shifted_laws, effort=4),
    "noise_resistance": Claim(
        UPPER,
        laplace_resistance,
        draws={
            "noise": lambda rng: rng.choice(["gaussian", "laplace"]),
            "order": lambda rng: 1 + rng.choice([2**-52, 1e-7, 1e-6, 0.5, 1.0, 1e3, rng.expovariate(1)]),
            "scale": lambda rng: rng.choice([1.0, 1e-3, 1e9, rng.expovariate(1)]),
            "shift": lambda rng: rng.choice([0.0, 1e-100, 1e-9, 1.0, 1e4, rng.expovariate(1)]),
        },
        near=1e-3,
    ),
    "noisy_descent_excess_loss": Claim(
        UPPER,
        lambda steps, step_size, lipschitz, diameter, noise, dimension: (
            M(diameter) ** 2 / (2 * M(step_size) * steps)
            + M(step_size) * (M(lipschitz) ** 2 + dimension * M(noise) ** 2) / 2 * (1 + mp.harmonic(steps - 1))
        ),
        draws={
            "steps": lambda rng: rng.choice([1, 2, 100, 101, 10**6, rng.randint(1, 1000)]),
            "step_size": lambda rng: rng.choice([1e-3, 1.0, rng.expovariate(1) + 1e-9]),
            "lipschitz": lambda rng: rng.choice([1.0, rng.expovariate(1) + 1e-9]),
            "diameter": lambda rng: rng.choice([1.0, 1e3, rng.expovariate(1) + 1e-9]),
            "noise": lambda rng: rng.choice([0.0, rng.expovariate(1)]),
            "dimension": lambda rng: rng.randint(1, 1000),
        },
        near=0.2,
    ),
    "gaussian_shifted_renyi": Claim(
        UPPER,
        lambda order, sigma, distance, shift: M(order) * square(max(M(0), M(distance) - M(shift)) / M(sigma)) / 2,
        draws={"distance": draw.zero_or_size, "shift": draw.zero_or_size},
    ),
    "shuffled_pass_delta": Claim(
        UPPER,
        lambda epsilon, steps, contraction, sigma: (
            sum(gaussian_delta(pass_mu(k, contraction, sigma), epsilon) for k in range(steps)) / steps
        ),
        draws={
            "epsilon": lambda rng: rng.choice([0.0, 0.1, 1.0, rng.expovariate(1)]),
            "steps": lambda rng: rng.randint(1, 12),
            "contraction": lambda rng: rng.choice([1.0, 0.5, 1 - 1e-12, rng.random()]),
            "sigma": lambda rng: rng.choice([0.5, 1.0, 5.0, 100.0]),
        },
        near=1e-6,
    ),
    "noisy_gradient_descent": Claim(UPPER, met=descends, make=descent),
    "group_zcdp": Claim(UPPER, lambda rho, size: size * size * M(rho)),
    "group_approx": Claim((UPPER, UPPER), group),
    "group_approx_printed": Claim(
        (UPPER, UPPER),
        lambda epsilon, delta, size: (
            size * M(epsilon),
            M(0) if delta == 0 else min(M(1), size * mp.exp((size - 1) * M(epsilon)) * M(delta)),
        ),
    ),
    "replace_from_add_remove": Claim((UPPER, UPPER), lambda epsilon, delta: group(epsilon, delta, 2)),
    # amplification
    "amplified": Claim(
        (UPPER, UPPER), lambda epsilon, rate, delta: (amplified_epsilon(epsilon, rate), M(rate) * M(delta))
    ),
    "amplified_one_dp": Claim(
        (UPPER, UPPER, UPPER), lambda rate: (amplified_epsilon(1, rate), (mp.e - 1) * M(rate), 2 * M(rate))
    ),
    "sampling_rate_for": Claim(
        LOWER, lambda epsilon, base_epsilon: M(1) if epsilon >= base_epsilon else expm1_ratio(epsilon, base_epsilon)
    ),
    "base_epsilon_for": Claim(
        LOWER,
        lambda epsilon, rate: mp.log1p(mp.expm1(M(epsilon)) / M(rate)),
        draws={"rate": draw.open_probability},
    ),
    "subsampled_approx_tradeoff": Claim(
        LOWER,
        lambda alpha, epsilon, delta, rate: max(
            curve_at(alpha, amplified_epsilon(epsilon, rate), M(rate) * M(delta)),
            1 - M(rate) * M(delta) - M(rate) * (1 - M(delta)) * mp.tanh(M(epsilon) / 2) - M(alpha),
        ),
        near=math.inf,
    ),
    # tests and events
    "power_bound": Claim(UPPER, power),
    "least_type_two_error": Claim(LOWER, curve_at, near=math.inf),
    "event_probability_bounds": Claim(
        (LOWER, UPPER),
        lambda probability, order, epsilon: (
            (M(0), M(0))
            if probability == 0
            else (
                mp.exp(-M(epsilon) + mp.log(M(probability)) * M(order) / (M(order) - 1)),
                mp.exp(min(M(0), (M(epsilon) + mp.log(M(probability))) * (M(order) - 1) / M(order))),
            )
        ),
        near=math.inf,
    ),
    # stability
    "gaussian_answer_tv": Claim(UPPER, answers),
    "gaussian_answers_tv": Claim(UPPER, answers),
    "gaussian_answers_tv_printed": Claim(
        UPPER, lambda samples, sigma, queries: min(M(1), queries / (mp.sqrt(2 * mp.pi) * samples * M(sigma)))
    ),
    "pure_answers_tv": Claim(
        UPPER, lambda epsilon, queries: optimal_delta(epsilon, queries, 0), draws={"queries": some}, near=1e-6
    ),
    "pure_answers_tv_advanced": Claim(
        UPPER,
        lambda epsilon, queries, delta_slack: (
            mp.tanh(spent(epsilon, queries, delta_slack) / 2)
            + 2 * M(delta_slack) / (mp.exp(spent(epsilon, queries, delta_slack)) + 1)
        ),
    ),
    "small_epsilon_tv": Claim(
        UPPER, lambda epsilon: (mp.e - 1) * M(epsilon) / 2, draws={"epsilon": lambda rng: min(1.0, draw.size(rng))}
    ),
    "generalization_error": Claim(UPPER, stable_error),
    "gaussian_answers_generalization": Claim(
        UPPER,
        lambda samples, sigma, queries, failure: stable_error(answers(samples, sigma, queries), samples, failure),
    ),
    "normal_tv": Claim(UPPER, lambda mu: mp.erf(M(mu) / mp.sqrt(8))),
    # generalization
    "curve_deviation": Claim(UPPER, met=curve_met, effort=3),
    "approx_deviation": Claim(UPPER, approx_transfer, near=1e-5),
    "transfer_error": Claim(
        UPPER,
        lambda accuracy, slack, epsilon, delta, failure: (
            M(accuracy) + M(slack) + approx_transfer(epsilon, delta, failure)
        ),
        draws={"slack": draw.probability},
        near=1e-5,
    ),
    "normal_mean_tail": Claim(UPPER, lambda failure: density(tail_quantile(failure)) / M(failure), near=0.01),
    "laplace_mean_tail": Claim(UPPER, lambda failure: max(M(1), 1 - mp.log(2 * M(failure)))),
    "gaussian_answers_error": Claim(UPPER, met=answers_met, effort=20),
    # approximations
    "sampled_gaussian_limit_mu": Claim(
        ESTIMATE, lambda rate, sigma, steps: M(rate) * mp.sqrt(steps * mp.expm1(1 / square(sigma)))
    ),
}


def rr_renyi(order: float, epsilon: float) -> Any:
    with mp.workdps(1400 if epsilon < 1e-20 else 400):
        a, e = M(order), M(epsilon)
        u, w = e / 2, (a - 1) * e
        return (w + mp.log1p(mp.expm1(-2 * w) / (mp.exp(2 * u) + 1))) / (a - 1)


def optimal_arguments(rng: Any) -> dict[str, Any]:
    epsilon, steps = draw.zero_or_size(rng), some(rng)
    kind = rng.random()
    total = (
        steps * epsilon
        if kind < 0.2
        else rng.randint(0, steps) * epsilon
        if kind < 0.4
        else rng.random() * steps * epsilon
    )
    return {
        "epsilon": epsilon,
        "steps": steps,
        "total_epsilon": min(total if kind < 0.9 else draw.size(rng), 1e308),
        "delta": draw.probability(rng) if rng.random() < 0.7 else 0.0,
    }
