"""The law of the privacy loss of one leaf, in ball arithmetic and from the specification alone.

Nothing here imports tallystick: this is the other side of the comparison.  A leaf is written as data,

    {"leaf": "gaussian", "sigma": 1.0, "count": 10000, "rate": 0.01}

and becomes a ``Law``: the distribution of L = log dP/dQ under P in one direction, after Poisson sampling
(``rate``) or subset sampling under REPLACE (``subset = [batch, population]``, the per-step hull).
REMOVE: P is with the record.  ADD: P is without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from flint import acb, arb, ctx

ctx.prec = 192
DIGITS = 85.0  # natural logarithm of the relative accuracy asked of every quadrature: about 37 decimals

Node = tuple[arb, arb]  # (loss, mass): the moment generating function is the sum of mass * exp(z * loss)


@dataclass
class Law:
    """The loss of one step in one direction; every view that exists of it is filled in."""

    count: int
    infinite: arb = field(default_factory=lambda: arb(0))  # P-mass where Q vanishes
    closed: Callable[[acb], acb] | None = None  # closed form of E_P[e^{zL}; L finite]
    atoms: Callable[[float], list[Node]] | None = None  # purely discrete law (tilt -> points that matter)
    lattice: tuple[arb, arb] | None = None  # (offset, step) when all losses are offset + k * step
    nodes: Callable[[float, float], list[Node]] | None = None  # (tilt, largest |Im z|) -> quadrature of the law
    rational: tuple[list[tuple[arb, arb, int, int]], int] | None = (
        None  # shift, weight, powers of z+1 and z; pole order
    )
    profile: Callable[[arb], arb] | None = None  # delta of one step at any real epsilon, where closed
    variance: arb | None = None  # set for a plain Gaussian (mu squared)
    far: Callable[[float, float], float] | None = None  # (tilt, T) -> bound on |M(tilt + it)| / M(tilt) for all t > T
    key: str = ""


def exact(value: float | int | str) -> arb:
    """The number as given: a float is taken to be exactly the double it is, a string a fraction."""
    if isinstance(value, str):
        ratio = Fraction(value)
        return arb(ratio.numerator) / arb(ratio.denominator)
    return arb(value)


def survival(x: arb) -> arb:
    return (x / arb(2).sqrt()).erfc() / 2


# ---------------------------------------------------------------------------------------------------- discrete bases

Triple = tuple[arb, arb, arb]  # (loss, P-mass, Q-mass) of the REMOVE pair


@dataclass
class Discrete:
    points: Callable[[float], list[Triple]]  # tilt -> points
    only_p: arb = field(default_factory=lambda: arb(0))
    only_q: arb = field(default_factory=lambda: arb(0))
    lattice: tuple[arb, arb] | None = None


def two_point(epsilon: arb, rest: arb | None = None, middle: arb | None = None) -> Discrete:
    """Mass ``rest`` (default 1) split in odds e^epsilon, and ``middle`` at loss zero."""
    total = arb(1) if rest is None else rest
    high = total / (1 + (-epsilon).exp())
    low = total - high
    points = [(epsilon, high, low), (-epsilon, low, high)]
    step = 2 * epsilon
    if middle is not None:
        points.append((arb(0), middle, middle))
        step = epsilon
    return Discrete(points=lambda _tilt: points, lattice=(-epsilon, step))


def discrete_gaussian(sigma: arb, sensitivity: int) -> Discrete:
    """P is centred at the sensitivity, Q at zero: the loss is linear in x, so it lives on a lattice."""
    spread = float(sigma) * (2 * DIGITS + 60) ** 0.5 + 2
    reach = int(spread) + 1
    normaliser = arb(1)
    for x in range(1, reach + 1):
        normaliser += 2 * (-arb(x * x) / (2 * sigma**2)).exp()

    @lru_cache(maxsize=8)
    def points(tilt: float) -> list[Triple]:
        top = int(sensitivity * (1 + tilt) + spread) + 1
        bottom = int(min(0.0, sensitivity * (1 + tilt)) - spread) - 1
        out = []
        for x in range(bottom, top + 1):
            loss = arb(2 * x * sensitivity - sensitivity**2) / (2 * sigma**2)
            mass = (-(arb(x - sensitivity) ** 2) / (2 * sigma**2)).exp() / normaliser
            out.append((loss, mass, (-(arb(x) ** 2) / (2 * sigma**2)).exp() / normaliser))
        return out

    step = arb(sensitivity) / sigma**2
    return Discrete(points=points, lattice=(-step * sensitivity / 2, step))


def discrete_laplace(scale: arb, sensitivity: int) -> Discrete:
    alpha = (-1 / scale).exp()
    inner = (1 - alpha) / (1 + alpha)
    points = []
    for x in range(sensitivity + 1):
        p = inner * alpha ** (sensitivity - x) if 0 < x < sensitivity else arb(0)
        p = 1 / (1 + alpha) if x == sensitivity else (alpha**sensitivity / (1 + alpha) if x == 0 else p)
        loss = arb(2 * x - sensitivity) / scale
        points.append((loss, p, p * (-loss).exp()))
    return Discrete(points=lambda _tilt: points, lattice=(-arb(sensitivity) / scale, 2 / scale))


def discrete_pair(p: list[float], q: list[float]) -> Discrete:
    finite = [((exact(a) / exact(b)).log(), exact(a), exact(b)) for a, b in zip(p, q, strict=True) if a > 0 and b > 0]
    only_p = sum((exact(a) for a, b in zip(p, q, strict=True) if b == 0), arb(0))
    only_q = sum((exact(b) for a, b in zip(p, q, strict=True) if a == 0), arb(0))
    lattice = (finite[0][0], finite[1][0] - finite[0][0]) if len(finite) == 2 else None
    return Discrete(points=lambda _tilt: finite, only_p=only_p, only_q=only_q, lattice=lattice)


def discrete_law(base: Discrete, count: int, direction: str, rate: arb | None, subset: bool) -> Law:
    remove = _sampled_points(base, "remove", rate)
    add = _sampled_points(base, "add", rate)
    if not subset:
        chosen = remove if direction == "remove" else add
        infinite = base.only_p if direction == "remove" else base.only_q
        if rate is not None:
            infinite = rate * base.only_p if direction == "remove" else arb(0)
        lattice = base.lattice if direction == "remove" or base.lattice is None else (-base.lattice[0], base.lattice[1])
        if rate is not None:
            lattice = _two_point_lattice(chosen(0.0))
        return Law(count=count, infinite=infinite, atoms=chosen, lattice=lattice)

    def hull(tilt: float) -> list[Node]:
        kept = [n for n in remove(tilt) if float(n[0]) > 0] + [n for n in add(tilt) if float(n[0]) < 0]
        rest = 1 - sum((m for _, m in kept), arb(0)) - infinite_hull
        return [*kept, (arb(0), rest)]

    infinite_hull = (rate if rate is not None else arb(1)) * base.only_p
    points = hull(0.0)
    lattice = (points[0][0], -points[0][0]) if len(points) == 3 else None
    return Law(count=count, infinite=infinite_hull, atoms=hull, lattice=lattice)


def _sampled_points(base: Discrete, direction: str, rate: arb | None) -> Callable[[float], list[Node]]:
    def view(tilt: float) -> list[Node]:
        points = base.points(tilt if direction == "remove" else (-1.0 - tilt if rate is None else 0.0))
        if rate is None:
            return [(l, p) for l, p, _ in points] if direction == "remove" else [(-l, q) for l, _, q in points]
        out = []
        for loss, p, q in points:
            mixed = (1 - rate + rate * loss.exp()).log()
            out.append((mixed, (1 - rate) * q + rate * p) if direction == "remove" else (-mixed, q))
        if float(base.only_q) > 0:
            edge = (1 - rate).log()
            out.append((edge, (1 - rate) * base.only_q) if direction == "remove" else (-edge, base.only_q))
        return out

    return lru_cache(maxsize=16)(view)


def _two_point_lattice(points: list[Node]) -> tuple[arb, arb] | None:
    return (points[0][0], points[1][0] - points[0][0]) if len(points) == 2 else None


# ------------------------------------------------------------------------------------------------ continuous bases


@lru_cache(maxsize=8)
def legendre(order: int) -> list[tuple[arb, arb]]:
    return [arb.legendre_p_root(order, k, weight=True) for k in range(order)]


def panels(low: arb, high: arb, pieces: int, order: int = 48) -> list[Node]:
    """Composite Gauss-Legendre nodes (x, weight)."""
    width = (high - low) / pieces
    return [
        (low + width * (k + (1 + x) / 2), weight * width / 2) for k in range(pieces) for x, weight in legendre(order)
    ]


def interval_law(spec: str, scale: arb, count: int, direction: str, rate: arb | None, subset: bool) -> Law:
    """Laplace and the bounded-range hull: P-density c e^{l/2} on [-E, E], atoms at the two ends (Laplace only)."""
    if spec == "laplace":
        end = 1 / scale
        top, bottom, c = arb(1) / 2, (-end).exp() / 2, (-end / 2).exp() / 4
        rational = ([(end, arb(1) / 2, 1, 0), (-end, (-end).exp() / 2, 0, 1)], 1)
    else:
        end = scale
        top, bottom, c = arb(0), arb(0), (end / 2).exp() / (2 * (end.exp() - 1))
        rational = ([(end, c * (end / 2).exp(), 0, 0), (-end, -c * (-end / 2).exp(), 0, 0)], 1)

    def plain(epsilon: arb) -> arb:
        level = float(epsilon)
        if level >= float(end):
            return arb(0)
        if level <= -float(end):
            return 1 - epsilon.exp()
        if spec == "laplace":
            return 1 - ((epsilon - end) / 2).exp()
        return ((end / 2).exp() - (epsilon / 2).exp()) ** 2 / (end.exp() - 1)

    if rate is None and not subset:

        def mgf(z: acb) -> acb:
            s = z + arb(1) / 2
            return top * (z * end).exp() + bottom * (-z * end).exp() + c * ((s * end).exp() - (-s * end).exp()) / s

        def far(tilt: float, cut: float) -> float:
            """The atoms come back in phase at multiples of pi / E, while the continuous part decays like 1/t."""
            first = max(1, int(cut * float(end) / 3.1415927))
            peaks = [abs(mgf(acb(arb(tilt), arb.pi() * k / end))) for k in range(first, first + 12)]
            return max(float(p / mgf(acb(tilt)).real) for p in peaks)

        return Law(count=count, closed=mgf, rational=rational, profile=plain, far=far)
    q = arb(1) if rate is None else rate

    @lru_cache(maxsize=6)
    def nodes(_tilt: float, frequency: float) -> list[Node]:
        low = arb(0) if subset else -end
        steepest = float(q * end.exp() / (1 - q + q * end.exp()))
        pieces = 1 + int(float(end - low) * (0.6 + frequency * steepest / 20.0))
        spread = panels(low, end, pieces)
        base = [(l, w * c * (l / 2).exp()) for l, w in spread] + [(end, top)] + ([] if subset else [(-end, bottom)])
        plus = [((1 - q + q * l.exp()).log(), ((1 - q) * (-l).exp() + q) * p) for l, p in base]
        minus = [(-(1 - q + q * l.exp()).log(), (-l).exp() * p) for l, p in base]
        if not subset:
            return plus if direction == "remove" else minus
        rest = 1 - sum((m for _, m in plus + minus), arb(0))
        return [*plus, *minus, (arb(0), rest)]

    def far_of_mixture(tilt: float, _cut: float) -> float:
        """The tilted share of the atoms, and (a generous guess) six tenths of the rest."""
        raw = nodes(tilt, 0.0)
        sizes = [float((l * tilt).exp() * m) for l, m in raw]
        atoms = sum(sizes[-1:] if subset else sizes[-2:]) if spec == "laplace" else (sizes[-1] if subset else 0.0)
        share = atoms / sum(sizes)
        return share + 0.6 * (1 - share)

    profile = None if subset else _sampled_profile(plain, q, direction)
    return Law(count=count, nodes=nodes, profile=profile, far=far_of_mixture)


def gaussian_law(mu: arb, count: int, direction: str, rate: arb | None, subset: bool) -> Law:
    def plain(epsilon: arb) -> arb:
        return survival(epsilon / mu - mu / 2) - epsilon.exp() * survival(epsilon / mu + mu / 2)

    if rate is None and not subset:
        return Law(count=count, closed=lambda z: ((z * z + z) * mu**2 / 2).exp(), profile=plain, variance=mu**2)
    q = arb(1) if rate is None else rate
    size = float(mu)
    reach = (2 * DIGITS + 40) ** 0.5

    def loss(x: arb) -> arb:
        return (1 - q + q * (mu * x - mu**2 / 2).exp()).log()

    def density(x: arb) -> arb:
        return (-(x**2) / 2).exp() / (2 * arb.pi()).sqrt()

    @lru_cache(maxsize=6)
    def nodes(tilt: float, frequency: float) -> list[Node]:
        top = (tilt + 1) * size + reach if direction == "remove" or subset else reach
        if subset:
            width = min(1.0, 1.0 / size, 16.0 / (1e-9 + frequency * size))
            low = mu / 2
            spread = [(loss(x), w * density(x)) for x, w in panels(low, low + arb(top), 1 + int(top / width))]
            plus = [(l, m * l.exp()) for l, m in spread]
            minus = [(-l, m) for l, m in spread]
            return [*plus, *minus, (arb(0), 1 - sum((m for _, m in plus + minus), arb(0)))]
        # Trapezoid: the integrand is analytic for |Im x| < pi / mu; see accounting.md 3.1 for the growth in the strip.
        limit = 3.1 if direction == "remove" else 2.0
        strip = min(limit / size, 8.0)
        loss_of_cosine = 0.62 * tilt if direction == "add" else 0.0
        gain = DIGITS + frequency * size * strip + strip**2 / 2 + loss_of_cosine
        dx = 6.28 * strip / gain
        first, last = -reach, top
        step = arb(dx)
        grid = [arb(first) + step * k for k in range(int((last - first) / dx) + 1)]
        if direction == "remove":
            return [(l, step * density(x) * l.exp()) for x in grid for l in [loss(x)]]
        return [(-loss(x), step * density(x)) for x in grid]

    return Law(count=count, nodes=nodes, profile=None if subset else _sampled_profile(plain, q, direction))


def _sampled_profile(plain: Callable[[arb], arb], rate: arb, direction: str) -> Callable[[arb], arb]:
    def remove(epsilon: arb) -> arb:
        a = epsilon.exp()
        inner = 1 + (a - 1) / rate
        return 1 - a if float(inner) <= 0 else rate * plain(inner.log())

    return remove if direction == "remove" else lambda e: 1 - e.exp() + e.exp() * remove(-e)


# --------------------------------------------------------------------------------------------------------- the table


def law_of(term: dict[str, Any], direction: str) -> Law:
    """The law of one term; ``count`` copies of it are composed by the caller."""
    name, count = term["leaf"], int(term.get("count", 1))
    rate = exact(term["rate"]) if "rate" in term else None
    subset = "subset" in term
    if subset:
        rate = exact(f"{term['subset'][0]}/{term['subset'][1]}")
    if name in ("gaussian", "gdp"):
        mu = exact(term["mu"]) if name == "gdp" else 1 / exact(term["sigma"])
        law = gaussian_law(mu, count, direction, rate, subset)
    elif name in ("laplace", "exponential"):
        scale = exact(term["scale"] if name == "laplace" else term["epsilon"])
        law = interval_law(name, scale, count, direction, rate, subset)
    else:
        law = discrete_law(_discrete_base(term), count, direction, rate, subset)
    law.key = repr((sorted((k, str(v)) for k, v in term.items() if k != "count"), direction))
    return law


def _discrete_base(term: dict[str, Any]) -> Discrete:
    name = term["leaf"]
    if name == "pure_dp":
        return two_point(exact(term["epsilon"]))
    if name == "approx_dp":
        base = two_point(exact(term["epsilon"]), rest=1 - exact(term["delta"]))
        base.only_p = base.only_q = exact(term["delta"])
        return base
    if name == "randomized_response":
        if "flip_prob" in term:
            flip = exact(term["flip_prob"])
            return two_point(((1 - flip) / flip).log())
        epsilon, choices = exact(term["epsilon"]), int(term.get("choices", 2))
        total = epsilon.exp() + choices - 1
        pair = (epsilon.exp() + 1) / total
        return two_point(epsilon, rest=pair, middle=arb(choices - 2) / total if choices > 2 else None)
    if name == "discrete_gaussian":
        return discrete_gaussian(exact(term["sigma"]), int(term.get("sensitivity", 1)))
    if name == "discrete_laplace":
        return discrete_laplace(exact(term["scale"]), int(term.get("sensitivity", 1)))
    if name == "discrete_pair":
        return discrete_pair(term["p"], term["q"])
    raise KeyError(name)
