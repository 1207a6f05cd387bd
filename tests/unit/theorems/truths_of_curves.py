"""The same for theorems about pairs, trade-off functions and functions: exact fractions, enumeration, fifty digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import mpmath as mp

from tallystick.theorems import DiscreteLoss, FinitePair, LossMoments, PiecewiseProfile, PiecewiseTradeoff
from unit.theorems import hostile as draw
from unit.theorems.truths import (
    ESTIMATE,
    EXACT,
    LOWER,
    UPPER,
    Claim,
    M,
    moderate,
    rdp_epsilon,
    tail,
    tail_quantile,
)

Point = tuple[Fraction, Fraction]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def normalised(masses: Sequence[float]) -> list[Any]:
    """The law that is meant: what the total misses to one is put right by dividing."""
    total = sum(map(Fraction, masses))
    return [M(f.numerator) / M(f.denominator) for f in (Fraction(mass) / total for mass in masses)]


def above(answer: float, truth: Any, room: float = 1e-9) -> bool:
    """At least the truth, and not far from it."""
    return bool(M(answer) >= truth and M(answer) <= truth * (1 + room) + 4e-15)


def near(answer: Any, truth: Any, room: float = 1e-10) -> bool:
    return bool(abs(M(answer) - truth) <= room * max(1, abs(truth)))


# finite pairs


def stick(p: Sequence[float], q: Sequence[float], epsilon: Any) -> Any:
    ratio = mp.exp(M(epsilon))
    return mp.fsum(max(M(0), a - ratio * b) for a, b in zip(normalised(p), normalised(q), strict=True))


def divergence(p: Sequence[float], q: Sequence[float], order: float) -> Any:
    pairs = [(a, b) for a, b in zip(normalised(p), normalised(q), strict=True) if a > 0]
    if any(b == 0 for _, b in pairs):
        return mp.inf
    losses = [(a, mp.log(a / b)) for a, b in pairs]
    if math.isinf(order):
        return max(loss for _, loss in losses)
    if order == 1:
        return mp.fsum(a * loss for a, loss in losses)
    with mp.workdps(400):
        lam = M(order) - 1
        return mp.log1p(mp.fsum(a * mp.expm1(lam * loss) for a, loss in losses)) / lam


def tail_of(p: Sequence[float], q: Sequence[float], epsilon: Any) -> Any:
    pairs = zip(normalised(p), normalised(q), strict=True)
    return min(M(1), mp.fsum(a for a, b in pairs if a > 0 and (b == 0 or mp.log(a / b) >= epsilon)))


def drawn_pair(**more: Callable[[Any], Any]) -> Callable[[Any], Arguments]:
    return lambda rng: (draw.pair(rng), {name: maker(rng) for name, maker in more.items()})


def plain_masses(rng: Any, outcomes: int) -> list[float]:
    raw = [rng.uniform(0.02, 1.0) for _ in range(outcomes)]
    return [mass / math.fsum(raw) for mass in raw]


def plain_pair(rng: Any, most: int = 4) -> tuple[list[float], list[float]]:
    outcomes = rng.randint(2, most)
    first, second = plain_masses(rng, outcomes), plain_masses(rng, outcomes)
    if rng.random() < 0.4:
        gone = rng.randrange(outcomes)
        law = rng.choice([first, second])
        law[gone] = 0.0
        law[:] = [mass / math.fsum(law) for mass in law]
    return first, second


def mixed_pair_met(answer: Any, p: Sequence[float], q: Sequence[float], rate: Any) -> bool:
    (mix, base), (other, again) = answer
    truth = [(1 - M(rate)) * a + M(rate) * b for a, b in zip(normalised(p), normalised(q), strict=True)]
    return (
        all(near(x, t) for x, t in zip(mix, truth, strict=True))
        and all(near(x, t) for x, t in zip(base, normalised(p), strict=True))
        and (list(mix), list(base)) == (list(again), list(other))
    )


def reduced_met(answer: Any, p: Sequence[float], q: Sequence[float], epsilon: float) -> bool:
    ratio = mp.exp(M(epsilon))
    close = all(
        M(a) <= ratio * M(b) * (1 + 1e-12) + 1e-300 and M(b) <= ratio * M(a) * (1 + 1e-12) + 1e-300
        for a, b in zip(answer.p, answer.q, strict=True)
    )
    moved = max(
        mp.fsum(abs(M(x) - y) for x, y in zip(new, normalised(old), strict=True)) / 2
        for new, old in ((answer.p, p), (answer.q, q))
    )
    lost = max(stick(p, q, epsilon), stick(q, p, epsilon))
    return bool(close and moved <= answer.distance + 1e-15 and above(answer.delta, lost))


def unlike_delta(epsilons: Sequence[float], deltas: Sequence[float], counts: Sequence[int], total: Any) -> Any:
    """Every outcome of unlike randomized responses with leaks."""
    steps = [e for e, n in zip(epsilons, counts, strict=True) for _ in range(n)]
    inside = M(0)
    for signs in product((1, -1), repeat=len(steps)):
        mass = mp.fprod(1 / (1 + mp.exp(-s * M(e))) for s, e in zip(signs, steps, strict=True))
        loss = mp.fsum(s * M(e) for s, e in zip(signs, steps, strict=True))
        if loss > total:
            inside += mass * -mp.expm1(total - loss)
    kept = mp.fprod((1 - M(d)) ** n for d, n in zip(deltas, counts, strict=True))
    return 1 - kept * (1 - inside)


def unlike_arguments(rng: Any) -> Arguments:
    length = rng.randint(1, 3)
    return (), {
        "epsilons": [10 ** rng.uniform(-3, 1) for _ in range(length)],
        "deltas": [0.0 if rng.random() < 0.5 else 10 ** rng.uniform(-12, -3) for _ in range(length)],
        "counts": [rng.randint(1, 3) for _ in range(length)],
        "total_delta": 10 ** rng.uniform(-10, -0.3),
        "points": 4096,
    }


def unlike_met(answer: Any, epsilons: Any, deltas: Any, counts: Any, total_delta: float, points: int) -> bool:
    def at(total: float) -> Any:
        return unlike_delta(epsilons, deltas, counts, M(total))

    low_ok = answer.lower == 0 or at(answer.lower * (1 - 1e-9)) >= total_delta * (1 - 1e-9)
    return bool(low_ok and (math.isinf(answer.upper) or at(answer.upper) <= total_delta))


# trade-off functions


def corners(f: PiecewiseTradeoff) -> list[Point]:
    return [(Fraction(a), Fraction(b)) for a, b in zip(f.alphas, f.betas, strict=True)]


def at(points: Sequence[Point], x: Fraction) -> Fraction:
    """Linear between corners."""
    for (a, b), (c, d) in pairwise(points):
        if a <= x <= c:
            return b if c == a else b + (d - b) * (x - a) / (c - a)
    return Fraction(0)


def hull(points: Sequence[Point]) -> list[Point]:
    kept: list[Point] = []
    for x, y in sorted([*points, (Fraction(1), Fraction(0))]):
        if kept and kept[-1][0] == x:
            continue
        while len(kept) >= 2 and (kept[-1][1] - kept[-2][1]) * (x - kept[-2][0]) >= (y - kept[-2][1]) * (
            kept[-1][0] - kept[-2][0]
        ):
            kept.pop()
        kept.append((x, y))
    return kept


def inverse(f: PiecewiseTradeoff) -> list[Point]:
    """inf{t: f(t) <= a}: the corners with their axes exchanged."""
    return hull([(b, a) for a, b in corners(f)] + [(Fraction(1), Fraction(0))])


def of_pair(p: Sequence[Any], q: Sequence[Any]) -> list[Point]:
    """Neyman-Pearson in fractions: the largest ratio q/p first."""
    outcomes = sorted(
        ((Fraction(a), Fraction(b)) for a, b in zip(p, q, strict=True) if a or b),
        key=lambda pair: (0, 0) if pair[0] == 0 else (1, -pair[1] / pair[0]),
    )
    a, b, points = Fraction(0), sum((y for _, y in outcomes), Fraction(0)), []
    points.append((a, b))
    for x, y in outcomes:
        a, b = a + x, b - y
        points.append((a, b))
    return hull(points)


def curve_draw(rng: Any) -> PiecewiseTradeoff:
    kind = rng.random()
    if kind < 0.3:
        return PiecewiseTradeoff.of_approx_dp(epsilon=rng.uniform(0, 3), delta=rng.choice([0.0, rng.uniform(0, 0.5)]))
    if kind < 0.4:
        return PiecewiseTradeoff.identity()
    if kind < 0.6:
        return PiecewiseTradeoff.of_pair(*draw.pair(rng, 4))
    return PiecewiseTradeoff.of_pair(*plain_pair(rng))


def agrees(answer: PiecewiseTradeoff, truth: Callable[[Fraction], Fraction], *, room: float = 1e-11) -> bool:
    """Equal to rounding at every corner, between them, and on a grid; never above by more than rounding."""
    knots = sorted(set(answer.alphas))
    middles = [(a + b) / 2 for a, b in pairwise(knots)]
    places = [*knots, *middles, *(i / 37 for i in range(38)), *(10.0**-i for i in range(2, 300, 29))]
    return all(-room <= float(Fraction(float(answer(x))) - truth(Fraction(x))) <= 1e-11 for x in places)


def symmetric(f: PiecewiseTradeoff) -> Callable[[Fraction], Fraction]:
    back = inverse(f)
    return lambda x: max(at(corners(f), x), at(back, x))


def group_met(answer: PiecewiseTradeoff, f: PiecewiseTradeoff, size: int, both_orders: bool) -> bool:
    low = hull([*corners(f), *inverse(f)])
    step = symmetric(f) if both_orders else lambda x: at(low, x)

    def truth(x: Fraction) -> Fraction:
        for _ in range(size):
            x = 1 - step(x)
        return 1 - x

    # corners of a long chain may lie below every float: then less is claimed
    least = min(x for x in (*f.alphas, *f.betas) if x > 0)
    return agrees(answer, truth, room=1.0 if least < 1e-30 else 1e-11)


def replace_met(answer: PiecewiseTradeoff, remove: PiecewiseTradeoff, add: PiecewiseTradeoff) -> bool:
    first, second = corners(remove), corners(add)
    return agrees(answer, lambda x: max(at(second, 1 - at(first, x)), at(first, 1 - at(second, x))))


def subsampled_met(answer: PiecewiseTradeoff, f: PiecewiseTradeoff, rate: float) -> bool:
    q = Fraction(rate)
    mixed = [(a, q * b + (1 - q) * (1 - a)) for a, b in corners(f)]
    back = hull([(b, a) for a, b in mixed])
    low = hull([*mixed, *back])
    return agrees(answer, lambda x: at(low, x))


def curves(count: int, **more: Callable[[Any], Any]) -> Callable[[Any], Arguments]:
    return lambda rng: (tuple(curve_draw(rng) for _ in range(count)), {k: v(rng) for k, v in more.items()})


def masses_of(f: PiecewiseTradeoff) -> tuple[list[Fraction], list[Fraction]]:
    points = corners(f)
    p = [Fraction(0), *(c - a for (a, _), (c, _) in pairwise(points))]
    q = [1 - points[0][1], *(b - d for (_, b), (_, d) in pairwise(points))]
    return p, q


def products(first: Sequence[list[Fraction]], second: Sequence[list[Fraction]]) -> list[list[Fraction]]:
    return [[a * b for a in one for b in other] for one, other in zip(first, second, strict=True)]


def exact(f: Fraction) -> Any:
    return M(f.numerator) / M(f.denominator)


def divergence_of(f: PiecewiseTradeoff, order: float) -> Any:
    pairs = [(exact(a), exact(b)) for a, b in zip(*masses_of(f), strict=True) if a > 0]
    # a drop below 5e-16 cannot be told from rounding and counts as none
    if any(b <= 0 for _, b in pairs):
        return mp.inf
    losses = [(a, mp.log(a / b)) for a, b in pairs]
    if math.isinf(order):
        return max(loss for _, loss in losses)
    if order == 1:
        return mp.fsum(a * loss for a, loss in losses)
    lam = M(order) - 1
    return mp.log(mp.fsum(a * mp.exp(lam * loss) for a, loss in losses)) / lam


def renyi_met(answer: float, f: PiecewiseTradeoff, order: float) -> bool:
    truth = divergence_of(f, order)
    return bool(M(answer) >= truth and (mp.isinf(truth) or math.isinf(answer) or answer <= truth * (1 + 1e-6) + 1e-6))


def hellinger_met(answer: float, f: PiecewiseTradeoff) -> bool:
    """The squared Hellinger distance: F(t) = (sqrt(t) - 1)^2."""
    truth = mp.fsum((mp.sqrt(exact(a)) - mp.sqrt(exact(b))) ** 2 for a, b in zip(*masses_of(f), strict=True))
    return bool(M(answer) >= truth - M(10) ** -15 and answer <= truth + 1e-6)


def profile_draw(rng: Any) -> PiecewiseProfile:
    return PiecewiseProfile.of_points(points_draw(rng))


def points_draw(rng: Any) -> list[tuple[float, float]]:
    return [(rng.uniform(0, 4), rng.choice([0.0, 10 ** rng.uniform(-8, -0.3)])) for _ in range(rng.randint(1, 4))]


def sup_of_points(points: Sequence[tuple[float, float]], x: Any) -> Any:
    return max(max(M(0), 1 - M(d) - mp.exp(M(e)) * x, mp.exp(-M(e)) * (1 - M(d) - x)) for e, d in points)


def points_met(answer: PiecewiseTradeoff, points: Sequence[tuple[float, float]]) -> bool:
    """The best of the claims at every level."""
    return all(
        near(float(answer(x)), sup_of_points(points, M(x)), 1e-9)
        for x in (*answer.alphas, *(i / 23 for i in range(24)))
    )


def profile_met(answer: PiecewiseProfile, f: PiecewiseTradeoff) -> bool:
    """H(Q||P) at e^eps is the greatest 1 - f(a) - e^eps a over the corners."""
    for epsilon in (-2.0, -0.5, 0.0, 0.3, 1.0, 2.5):
        ratio = mp.exp(M(epsilon))
        truth = max(M(0), *(1 - exact(b) - ratio * exact(a) for a, b in corners(f)))
        if not above(answer.delta(epsilon=epsilon), truth, 1e-9):
            return False
    return True


def conjugate_met(answer: PiecewiseTradeoff, profile: PiecewiseProfile) -> bool:
    knots = [
        (Fraction(0), Fraction(1)),
        *((Fraction(a), Fraction(h)) for a, h in zip(profile.ratios, profile.deltas, strict=True)),
    ]
    return agrees(answer, lambda x: max(Fraction(0), *(1 - h - a * x for a, h in knots)))


def cdf_met(answer: float, f: PiecewiseTradeoff, x: float) -> bool:
    def mass(level: Any) -> Any:
        pairs = zip(*masses_of(f), strict=True)
        return mp.fsum(exact(a) for a, b in pairs if b > 0 and a > 0 and exact(b) >= exact(a) * mp.exp(-level))

    return bool(mass(M(x) - 1e-9) - 1e-12 <= answer <= mass(M(x) + 1e-9) + 1e-12)


# functions as arguments


def quadratic(rng: Any) -> Callable[[float], float]:
    """Log moments lambda (lambda + 1) c; ``scale`` remembers c for the oracle."""
    scale = draw.size(rng)

    def moment(lam: float) -> float:
        return lam * (lam + 1.0) * scale

    moment.scale = scale  # type: ignore[attr-defined]
    return moment


def linear(rng: Any) -> Callable[[float], float]:
    scale = moderate(rng)

    def curve(order: float) -> float:
        return order * scale

    return curve


def best_order_met(answer: tuple[float, float], curve: Any, delta: float) -> bool:
    epsilon, order = answer
    return bool(order > 1 and M(epsilon) >= rdp_epsilon(order, M(curve(order)), delta))


def cdfs_draw(rng: Any) -> Arguments:
    p, q = plain_pair(rng)
    forth, back = DiscreteLoss.of_pair(p, q), DiscreteLoss.of_pair(q, p)
    cdf = forth.cdf
    left = back.cdf_left
    return (_Known(cdf, p, q), _Known(left, p, q)), {"epsilon": rng.uniform(-2, 4)}


class _Known:
    """A function that remembers the pair it was made from."""

    def __init__(self, function: Callable[[float], float], p: Sequence[float], q: Sequence[float]) -> None:
        self.function, self.p, self.q = function, p, q

    def __call__(self, x: float) -> float:
        return self.function(x)


def normal_cdfs(rng: Any) -> Arguments:
    mu = rng.uniform(0.1, 4)

    def quantile(alpha: float) -> float:
        return float(mu * mu / 2 - mu * tail_quantile(alpha))

    def cdf(x: float) -> float:
        return float(tail(-(M(x) - mu * mu / 2) / mu))

    return (_Known(quantile, [mu], []), cdf), {"alpha": rng.uniform(1e-6, 1 - 1e-6)}


def exponential_tail(rng: Any) -> Arguments:
    scale = 10 ** rng.uniform(-3, 3)
    delta = 10 ** rng.uniform(-12, -0.1)
    return (_Known(lambda e: math.exp(-e / scale), [scale], []),), {"delta": delta, "highest": 100 * scale}


def moments_of(rng: Any) -> LossMoments:
    variance, kl = 10 ** rng.uniform(-6, 2), 10 ** rng.uniform(-6, 2)
    return LossMoments(kl=kl, k2=variance + kl * kl, k3=1.0, k3_bar=variance**1.5 * rng.uniform(1, 3))


def limit_met(answer: Any, moments: Sequence[LossMoments]) -> bool:
    variance = mp.fsum(M(step.k2) - M(step.kl) ** 2 for step in moments)
    mu = 2 * mp.fsum(M(step.kl) for step in moments) / mp.sqrt(variance)
    gamma = M("0.56") * mp.fsum(M(step.k3_bar) for step in moments) / variance ** M(1.5)
    return near(answer.mu, mu, 1e-6) and near(answer.gamma, min(M(1), gamma), 1e-6)


def gaussian_moments_met(answer: LossMoments, mu: float) -> bool:
    m = M(mu)
    kl = m * m / 2
    z = m / 2
    third = m**3 * (2 * (z * z + 2) * mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) + (z**3 + 3 * z) * mp.erf(z / mp.sqrt(2)))
    truths = (kl, m * m + kl * kl, third, 2 * mp.sqrt(2 / mp.pi) * m**3)
    found = (answer.kl, answer.k2, answer.k3, answer.k3_bar)
    return all(
        math.isinf(a) if t > 1e308 else abs(a - t) <= t * 1e-9 + 1e-300 for a, t in zip(found, truths, strict=True)
    )


def tradeoff_moments_met(answer: LossMoments, f: PiecewiseTradeoff) -> bool:
    pairs = [(exact(a), exact(b)) for a, b in zip(*masses_of(f), strict=True) if a > 0]
    logs = [(a, mp.log(b / a)) for a, b in pairs]
    kl = -mp.fsum(a * x for a, x in logs)
    truths = (
        kl,
        mp.fsum(a * x**2 for a, x in logs),
        mp.fsum(a * abs(x) ** 3 for a, x in logs),
        mp.fsum(a * abs(x + kl) ** 3 for a, x in logs),
    )
    found = (answer.kl, answer.k2, answer.k3, answer.k3_bar)
    return all(near(a, t, 1e-9) for a, t in zip(found, truths, strict=True))


def coin(rng: Any) -> FinitePair:
    if rng.random() < 0.5:
        return FinitePair.randomized_response(ratio=Fraction(rng.randint(1, 9), rng.randint(1, 1)))
    return FinitePair.leak(probability=Fraction(rng.randint(0, 7), 7))


def product_of(pair: FinitePair, rounds: int) -> tuple[list[Fraction], list[Fraction]]:
    p, q = [Fraction(1)], [Fraction(1)]
    for _ in range(rounds):
        p = [x * Fraction(a) for x in p for a in pair.zero]
        q = [x * Fraction(a) for x in q for a in pair.one]
    return p, q


def exact_delta(p: Sequence[Fraction], q: Sequence[Fraction], ratio: Fraction) -> Fraction:
    both = [
        sum((max(a - ratio * b, Fraction(0)) for a, b in zip(x, y, strict=True)), Fraction(0))
        for x, y in ((p, q), (q, p))
    ]
    return max(both)


def game_draw(rng: Any) -> Arguments:
    pair = coin(rng)
    return ((lambda view, pair=pair: pair),), {"rounds": rng.randint(1, 4)}


def game_met(answer: Any, adversary: Any, rounds: int) -> bool:
    p, q = product_of(adversary(()), rounds)
    return all(answer.delta(ratio=r) == exact_delta(p, q, r) for r in (Fraction(1), Fraction(3), Fraction(7, 2)))


def worst_met(answer: Any, choices: Sequence[FinitePair], rounds: int, ratio: Fraction) -> bool:
    return bool(answer == exact_delta(*product_of(choices[0], rounds), ratio))


def losses_draw(rng: Any) -> Arguments:
    pairs = [plain_pair(rng) for _ in range(rng.randint(1, 3))]
    return ([_Loss(p, q) for p, q in pairs],), {"t": rng.uniform(-20, 20)}


class _Loss:
    """A loss that remembers its pair; the theorem asks it only for its characteristic function."""

    def __init__(self, p: Sequence[float], q: Sequence[float]) -> None:
        self.p, self.q = p, q
        self.characteristic_function = DiscreteLoss.of_pair(p, q).characteristic_function


def characteristic_met(answer: complex, losses: Sequence[_Loss], t: float) -> bool:
    truth = mp.mpc(1)
    for loss in losses:
        pairs = zip(normalised(loss.p), normalised(loss.q), strict=True)
        truth *= mp.fsum(a * mp.expj(M(t) * mp.log(a / b)) for a, b in pairs if a > 0 and b > 0)
    return bool(abs(mp.mpc(answer) - truth) < 1e-12)


def gaussian_characteristic_met(answer: complex, mu: float, t: float) -> bool:
    with mp.workdps(700):
        m, x = M(mu), M(t)
        truth = mp.exp(-((m * x) ** 2) / 2) * mp.expj(x * m * m / 2) if (m * x) ** 2 < 1e5 else mp.mpc(0)
        return bool(abs(mp.mpc(answer) - truth) < 1e-6)


CLAIMS: dict[str, Claim] = {
    "hockey_stick": Claim(
        UPPER,
        met=lambda answer, p, q, epsilon: (
            above(answer, stick(p, q, epsilon)) or (epsilon > 700 and answer >= stick(p, q, epsilon))
        ),
        make=drawn_pair(epsilon=lambda rng: rng.choice([-1, 1]) * draw.size(rng)),
    ),
    "loss_tail_delta": Claim(
        UPPER,
        met=lambda answer, p, q, epsilon: bool(
            tail_of(p, q, M(epsilon)) <= answer <= tail_of(p, q, M(epsilon) - 1e-12 * (1 + epsilon)) + 1e-9
        ),
        make=drawn_pair(epsilon=draw.zero_or_size),
    ),
    "renyi_divergence": Claim(
        UPPER,
        met=lambda answer, p, q, order: bool(
            M(answer) >= divergence(p, q, order)
            and (math.isinf(answer) or answer <= divergence(p, q, order) * (1 + 1e-6) + 1e-12)
        ),
        make=drawn_pair(order=draw.order_or_limit),
    ),
    "log_moment": Claim(
        UPPER,
        met=lambda answer, p, q, moment: bool(
            M(answer) >= M(moment) * divergence(p, q, 1 + M(moment))
            and (
                math.isinf(answer)
                or answer <= M(moment) * (divergence(p, q, 1 + M(moment)) * (1 + 1e-6) + 1e-12) + 1e-320
            )
        ),
        make=drawn_pair(moment=draw.size),
    ),
    "poisson_pairs": Claim(
        EXACT,
        met=lambda answer, p, q, rate: mixed_pair_met(answer, p, q, rate),
        make=drawn_pair(rate=draw.probability),
    ),
    "subset_pairs": Claim(
        EXACT,
        met=lambda answer, p, q, batch, larger_population: mixed_pair_met(answer, p, q, M(batch) / larger_population),
        make=drawn_pair(batch=lambda rng: rng.randint(1, 50), larger_population=lambda rng: draw.count(rng) + 50),
    ),
    "reduce_to_pure": Claim(UPPER, met=reduced_met, make=drawn_pair(epsilon=lambda rng: 10 ** rng.uniform(-9, 2))),
    "heterogeneous_optimal_composition": Claim((LOWER, UPPER), met=unlike_met, make=unlike_arguments, effort=2),
    "play": Claim(EXACT, met=game_met, make=game_draw),
    "worst_delta": Claim(
        EXACT,
        met=worst_met,
        make=lambda rng: (([coin(rng)],), {"rounds": rng.randint(1, 3), "ratio": Fraction(rng.randint(1, 30), 4)}),
    ),
    # trade-off functions: exact up to the rounding of their corners
    "lower_hull": Claim(
        EXACT,
        met=lambda answer, alphas, betas: agrees(
            answer,
            lambda x: at(hull([(Fraction(a), Fraction(b)) for a, b in zip(alphas, betas, strict=True)]), x),
        ),
        make=lambda rng: (hull_points(rng), {}),
    ),
    "chained": Claim(
        EXACT,
        met=lambda answer, g, f: agrees(answer, lambda x: at(corners(g), 1 - at(corners(f), x))),
        make=curves(2),
    ),
    "hull_of_min": Claim(
        EXACT,
        met=lambda answer, f, g: agrees(answer, lambda x: at(hull([*corners(f), *corners(g)]), x)),
        make=curves(2),
    ),
    "parallel_tradeoff": Claim(
        EXACT,
        met=lambda answer, functions: agrees(answer, lambda x: at(hull([c for f in functions for c in corners(f)]), x)),
        make=lambda rng: (([curve_draw(rng) for _ in range(rng.randint(1, 4))],), {}),
    ),
    "mixed_with_identity": Claim(
        EXACT,
        met=lambda answer, f, rate: agrees(
            answer, lambda x: Fraction(rate) * at(corners(f), x) + (1 - Fraction(rate)) * (1 - x)
        ),
        make=curves(1, rate=draw.probability),
    ),
    "pointwise_max": Claim(
        EXACT,
        met=lambda answer, f, g: agrees(answer, lambda x: max(at(corners(f), x), at(corners(g), x))),
        make=curves(2),
    ),
    "symmetrised": Claim(EXACT, met=lambda answer, f: agrees(answer, symmetric(f)), make=curves(1)),
    "tensor_product": Claim(
        EXACT,
        met=lambda answer, f, g: agrees(
            answer,
            lambda x: at(of_pair(*products(masses_of(f), masses_of(g))), x),
        ),
        make=curves(2),
        effort=6,
    ),
    "group_tradeoff": Claim(
        EXACT,
        met=group_met,
        make=curves(1, size=lambda rng: rng.randint(1, 5), both_orders=lambda rng: rng.random() < 0.5),
    ),
    "replace_tradeoff": Claim(EXACT, met=replace_met, make=curves(2)),
    "subsampling_operator": Claim(EXACT, met=subsampled_met, make=curves(1, rate=draw.probability)),
    "profile_of_tradeoff": Claim(UPPER, met=profile_met, make=curves(1)),
    "tradeoff_of_profile": Claim(EXACT, met=conjugate_met, make=lambda rng: ((profile_draw(rng),), {})),
    "tradeoff_of_points": Claim(EXACT, met=points_met, make=lambda rng: ((points_draw(rng),), {})),
    "tradeoff_to_tv": Claim(
        UPPER,
        met=lambda answer, f: above(answer, max(1 - exact(a) - exact(b) for a, b in corners(f))),
        make=curves(1),
    ),
    "tradeoff_to_kl": Claim(UPPER, met=lambda answer, f: renyi_met(answer, f, 1.0), make=curves(1)),
    "tradeoff_to_renyi": Claim(
        UPPER, met=renyi_met, make=curves(1, order=lambda rng: rng.choice([1.0, math.inf, rng.uniform(1.01, 40)]))
    ),
    "tradeoff_to_f_divergence": Claim(
        UPPER,
        met=lambda answer, f, generator, at_zero, slope_at_infinity: hellinger_met(answer, f),
        make=lambda rng: (
            (curve_draw(rng), lambda t: (math.sqrt(t) - 1.0) ** 2),
            {"at_zero": 1.0, "slope_at_infinity": 1.0},
        ),
    ),
    "loss_cdf_of_tradeoff": Claim(EXACT, met=cdf_met, make=curves(1, x=lambda rng: rng.uniform(-4, 4))),
    "tradeoff_moments": Claim(ESTIMATE, met=tradeoff_moments_met, make=curves(1)),
    # functions of functions
    "moments_delta": Claim(
        UPPER,
        met=lambda answer, moment, epsilon: bool(
            M(answer)
            >= min(M(1), min(mp.exp(M(moment.scale) * lam * (lam + 1) - lam * M(epsilon)) for lam in range(1, 33)))
        ),
        make=lambda rng: ((quadratic(rng),), {"epsilon": draw.zero_or_size(rng)}),
    ),
    "moments_epsilon": Claim(
        UPPER,
        met=lambda answer, moment, delta: above(
            answer, min((M(moment.scale) * lam * (lam + 1) - mp.log(M(delta))) / lam for lam in range(1, 33))
        ),
        make=lambda rng: ((quadratic(rng),), {"delta": draw.open_probability(rng)}),
    ),
    "best_rdp_to_approx": Claim(
        (UPPER, ESTIMATE),
        met=best_order_met,
        make=lambda rng: ((linear(rng),), {"delta": draw.open_probability(rng)}),
    ),
    "delta_of_loss_cdfs": Claim(
        UPPER,
        met=lambda answer, cdf, reversed_left, epsilon: bool(
            stick(cdf.p, cdf.q, epsilon) <= M(answer) <= stick(cdf.p, cdf.q, epsilon) + 1e-9
        ),
        make=cdfs_draw,
    ),
    "tradeoff_of_loss_cdfs": Claim(
        ESTIMATE,
        met=lambda answer, quantile, reversed_cdf, alpha: near(
            answer, tail(quantile.p[0] - tail_quantile(alpha)), 1e-9
        ),
        make=normal_cdfs,
    ),
    "loss_tail_epsilon": Claim(
        UPPER,
        met=lambda answer, tail, delta, highest: above(answer, -M(tail.p[0]) * mp.log(M(delta))),
        make=exponential_tail,
    ),
    "composed_characteristic_function": Claim(EXACT, met=characteristic_met, make=losses_draw),
    "gaussian_characteristic_function": Claim(
        EXACT,
        met=gaussian_characteristic_met,
        make=lambda rng: ((), {"mu": draw.zero_or_size(rng), "t": rng.choice([-1, 1]) * draw.size(rng)}),
    ),
    "gaussian_limit": Claim(
        ESTIMATE, met=limit_met, make=lambda rng: (([moments_of(rng) for _ in range(rng.randint(1, 5))],), {})
    ),
    "gaussian_moments": Claim(ESTIMATE, met=gaussian_moments_met),
}


def hull_points(rng: Any) -> tuple[Any, Any]:
    """Points under 1 - alpha from alpha = 0 to 1."""
    import numpy as np

    alphas = sorted([0.0, 1.0, *(rng.random() for _ in range(rng.randint(0, 5)))])
    return np.array(alphas), np.array([(1 - a) * rng.random() for a in alphas])
