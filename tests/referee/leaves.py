"""Every constructor of a loss, and what it promises, from its definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from flint import arb

from referee import patterns
from referee.balls import ONE, ZERO, ball, largest, normal_tail, within
from referee.brackets import joined_cells
from referee.finite import Finite, hull, meet, pair_of, tidy
from referee.lattice import DiscreteGaussian, DiscreteLaplace
from referee.mixtures import GaussianMixture
from referee.sides import BoundedRange, Gaussian, Laplace
from referee.worlds import Orders, Part, Truth, exact

LISTED_SHIFT = 40  # two-sided geometric noise up to this sensitivity is listed outcome by outcome


def _term(leaf: str, **given: Any) -> dict[str, Any]:
    return {"leaf": leaf, **given}


def response(epsilon: arb, choices: int = 2) -> Finite:
    """k-ary randomized response: the true answer with odds e^epsilon against each other one."""
    rest = (-epsilon).exp()
    total = 1 + (choices - 1) * rest
    outcomes = [(1 / total, rest / total), (rest / total, 1 / total)]
    if choices > 2:
        other = (choices - 2) * rest / total
        outcomes.append((other, other))
    return Finite(tidy(outcomes))


class Pure(Finite):
    """Randomized response that stands for a claim of its epsilon: replacing doubles that by name."""

    @property
    def epsilon(self) -> arb:
        return largest([(p / q).log() for p, q in self.outcomes])


def leaking(pair: Finite, delta: arb) -> Finite:
    """With probability delta everything is given away."""
    if delta.is_zero():
        return pair
    return Finite(tidy([(delta, ZERO), (ZERO, delta), *(((1 - delta) * p, (1 - delta) * q) for p, q in pair.outcomes)]))


def no_loss(*, replaced: bool = False) -> Truth:
    return Truth([((), ())], ((), ()), replaced) if replaced else _nothing()


def _nothing() -> Truth:
    orders: Orders = ((), ())
    return Truth([orders], orders, law=True)


def pure_dp(*, epsilon: float, replaced: bool = False) -> Truth:
    return exact(response(ball(epsilon)), None, _term("pure_dp", epsilon=epsilon), replaced=replaced)


def approx_dp(*, epsilon: float, delta: float, replaced: bool = False) -> Truth:
    side = leaking(response(ball(epsilon)), ball(delta))
    return exact(side, None, _term("approx_dp", epsilon=epsilon, delta=delta), replaced=replaced)


def gdp(*, mu: float, replaced: bool = False) -> Truth:
    if mu == 0:
        return no_loss(replaced=replaced)
    return exact(Gaussian(ball(mu)), None, _term("gdp", mu=mu), replaced=replaced)


def gaussian(*, sigma: float, replaced: bool = False) -> Truth:
    return exact(Gaussian(1 / ball(sigma)), None, _term("gaussian", sigma=sigma), replaced=replaced)


def gaussian_mixture(
    *, sigma: float, sensitivities: Sequence[float], probabilities: Sequence[float], replaced: bool = False
) -> Truth:
    """One number with Gaussian noise, which the unit moves by a random amount: the statement itself."""
    some = [(ball(s) / ball(sigma), ball(p)) for s, p in zip(sensitivities, probabilities, strict=True) if p > 0]
    if not any(mu > 0 for mu, _ in some):
        return no_loss(replaced=replaced)
    shifts, shares = tuple(mu for mu, _ in some), tuple(p for _, p in some)
    return exact(GaussianMixture(shifts, shares), GaussianMixture(shifts, shares, adding=True), replaced=replaced)


def laplace(*, scale: float, replaced: bool = False) -> Truth:
    return exact(Laplace(ball(scale)), None, _term("laplace", scale=scale), replaced=replaced)


def discrete_gaussian(*, sigma: float, sensitivity: int = 1, replaced: bool = False) -> Truth:
    if sensitivity == 0:
        return no_loss(replaced=replaced)
    term = _term("discrete_gaussian", sigma=sigma, sensitivity=sensitivity)
    return exact(DiscreteGaussian(ball(sigma), sensitivity), None, term, replaced=replaced)


def discrete_laplace(*, scale: float, sensitivity: int = 1, replaced: bool = False) -> Truth:
    if sensitivity == 0:
        return no_loss(replaced=replaced)
    law = DiscreteLaplace(ball(scale), sensitivity)
    term = _term("discrete_laplace", scale=scale, sensitivity=sensitivity)
    if sensitivity > LISTED_SHIFT:
        return exact(law, None, term, replaced=replaced)
    inside = [(law.mass(x - sensitivity), law.mass(x)) for x in range(1, sensitivity)]
    ends = [(law.tail(0), law.tail(sensitivity)), (law.tail(sensitivity), law.tail(0))]
    return exact(Finite(tidy(inside + ends)), None, term, replaced=replaced)


def randomized_response(
    *, epsilon: float | None = None, flip_prob: float | None = None, choices: int = 2, replaced: bool = True
) -> Truth:
    if epsilon is not None:
        side = response(ball(epsilon), choices)
    else:
        lie = ball(flip_prob)
        each = lie / (choices - 1)
        outcomes = [(1 - lie, each), (each, 1 - lie)] + ([((choices - 2) * each,) * 2] if choices > 2 else [])
        side = Finite(tidy(outcomes))
    return exact(side, None, None, replaced=replaced)


def two_point(epsilon: arb, top: arb) -> Finite:
    """Losses ``top`` and ``top - epsilon``: a mechanism of bounded range epsilon."""
    whole = -(-epsilon).expm1()
    q = (-epsilon).exp() * (epsilon - top).expm1() / whole
    p = -(top - epsilon).expm1() / whole
    return Finite(tidy([(p, q), (1 - p, 1 - q)]))


def exponential(*, epsilon: float, replaced: bool = False) -> Truth:
    """One release attains the hull at every point; several are bounded by it, and by two-point pairs from below."""
    if epsilon == 0:
        return no_loss(replaced=replaced)
    size = ball(epsilon)
    variants = []
    for share in (0.5, 0.3, 0.7, 0.9):
        pair = two_point(size, size * ball(share))
        variants.append(((Part(pair),), (Part(pair.swapped()),)))
    top = (Part(BoundedRange(size), 1, _term("exponential", epsilon=epsilon)),)
    return Truth(variants, (top, top), replaced, pointwise=(BoundedRange(size),))


def sparse_vector(
    *, threshold_scale: float, answer_scale: float, hits: int = 1, monotone: bool = False, replaced: bool = False
) -> Truth:
    """Below: one answer, at the threshold or one above it.  Above: any mechanism of that epsilon."""
    b, c = ball(threshold_scale), ball(answer_scale)

    def below(gap: arb) -> arb:
        """P(threshold noise - answer noise > gap), gap >= 0."""
        if threshold_scale == answer_scale:
            return (-gap / b).exp() * (1 + gap / (2 * b)) / 2
        return (b * b * (-gap / b).exp() - c * c * (-gap / c).exp()) / (2 * (b * b - c * c))

    side = Finite(tidy([(below(ZERO), below(ONE)), (1 - below(ZERO), 1 - below(ONE))]))
    says = _sparse_vector_says(threshold_scale=threshold_scale, answer_scale=answer_scale, hits=hits, monotone=monotone)
    return Truth([((Part(side),), (Part(side.swapped()),))], says.ceiling, replaced)


def _sparse_vector_says(
    *, threshold_scale: float, answer_scale: float, hits: int = 1, monotone: bool = False, replaced: bool = False
) -> Truth:
    """Pure, and nothing else: the response of that epsilon."""
    epsilon = 1 / ball(threshold_scale) + hits * (1 if monotone else 2) / ball(answer_scale)
    return exact(Pure(response(epsilon).outcomes), replaced=replaced)


def not_private(*, why: str, replaced: bool = False) -> Truth:
    """Two laws that share no outcome."""
    return exact(Finite.of([1, 0], [0, 1]), replaced=replaced)


def zcdp(*, rho: float, delta: float = 0.0, offset: float = 0.0, replaced: bool = False) -> Truth:
    """A Gaussian of that rho and a randomized response whose D_a/a never exceeds it (it is largest at a = 1).

    With an offset: a randomized response of that epsilon beside the Gaussian, whose divergences add.
    """
    if rho == 0 and delta == 0 and offset == 0:
        return no_loss(replaced=replaced)
    loud = (Part(leaking(Finite(((ONE, ONE),)), ball(delta))),) if delta else ()
    sides = []
    if offset > 0:
        loud = (Part(response(ball(offset))), *loud)
    if rho > 0:
        epsilon = _solve(lambda e: e * math.tanh(e / 2), rho)
        sides = [Part(Gaussian((2 * ball(rho)).sqrt() * (1 - arb(2) ** -60))), Part(response(ball(epsilon)))]
    variants = [((s, *loud), (s, *loud)) for s in sides] or [(loud, loud)]
    return Truth(variants, _at_least_nothing(), replaced)


def _at_least_nothing() -> Orders:
    """Nothing from below is known of a Renyi curve: a mechanism that satisfies it may release nothing."""
    return (), ()


def renyi_dp(curve: Mapping[float, float], *, replaced: bool = False) -> Truth:
    """A Gaussian and a randomized response that satisfy every line of the curve."""
    square = min(2 * Fraction(e) / Fraction(o) for o, e in curve.items())
    epsilon = min(_solve(lambda e, o=o: _response_renyi(e, o), value) for o, value in curve.items())
    parts = [Part(response(ball(epsilon)))]
    if square > 0:
        parts.append(Part(Gaussian(ball(square).sqrt() * (1 - arb(2) ** -60))))
    return Truth([((p,), (p,)) for p in parts], _at_least_nothing(), replaced)


def _response_renyi(epsilon: float, order: float) -> float:
    side = response(ball(epsilon))
    found = side.renyi(order)
    return float(found.upper()) if found is not None else math.inf


def _solve(increasing: Callable[[float], float], value: float) -> float:
    """A number just below where the function passes the value."""
    low, high = 0.0, 1.0
    while increasing(high) < value and high < 1e5:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) <= value else (low, middle)
    return low * (1 - 1e-12)


def from_tradeoff(knots: Sequence[tuple[float, float]], *, replaced: bool = False) -> Truth:
    """Both orders obey f, so each also obeys the inverse of f: the pair of max(f, f^-1) exists and is a witness."""
    claimed = pair_of([(ball(alpha), 1 - ball(beta)) for alpha, beta in knots])
    side = meet([claimed, claimed.swapped()])
    top: Orders = ((Part(claimed),), (Part(claimed),))
    if claimed.symmetric():
        return Truth([top], top, replaced)
    return Truth([((Part(side),), (Part(side),))], top, replaced)


def from_profile(knots: Sequence[tuple[float, float]], *, replaced: bool = False) -> Truth:
    """Every knot is a claim, and the pair that all of them allow exists.  Above: chords in a = e^epsilon."""
    pairs = [leaking(response(ball(e)), ball(d)) for e, d in knots]
    side = meet(pairs) if len(pairs) > 1 else pairs[0]
    top = majorant([(ball(e).exp(), ball(d)) for e, d in knots])
    return Truth([((Part(side),), (Part(side),))], ((Part(top),), (Part(top),)), replaced)


def majorant(points: list[tuple[arb, arb]]) -> Finite:
    """The pair whose H is piecewise linear through (0, 1) and the points, constant after the last."""
    line = [(ZERO, ONE), *points]
    slopes = [(h0 - h1) / (a1 - a0) for (a0, h0), (a1, h1) in itertools.pairwise(line)] + [ZERO]
    outcomes = [(points[-1][1], ZERO), (ZERO, _positive(1 - slopes[0]))]
    for (a, _), before, after in zip(points, slopes, slopes[1:], strict=False):
        q = _positive(before - after)
        outcomes.append((a * q, q))
    return Finite(tidy(outcomes))


def _positive(mass: arb) -> arb:
    return mass if mass > 0 else ZERO


def discrete_pair(p: Sequence[float], q: Sequence[float], *, replaced: bool = False) -> Truth:
    """The outcomes as given; where they do not sum to one exactly, the masses are known to that defect only."""
    defect = max(abs(float(sum(map(Fraction, x)) - 1)) for x in (p, q))
    side = Finite(tidy((_known(x, defect), _known(y, defect)) for x, y in zip(p, q, strict=True)))
    if not replaced:
        return exact(side, side.swapped())
    orders: Orders = ((Part(side),), (Part(side.swapped()),))
    both = hull(side, side.swapped())
    if side.symmetric():
        return Truth([orders], orders, True)
    return Truth([orders], ((Part(both),), (Part(both),)), True)


def _known(mass: float, defect: float) -> arb:
    exactly = ball(float(mass))
    return within(exactly, 2 * defect) if defect and mass else exactly


def objective_perturbation(*, sigma: float, ridge: float, replaced: bool = False) -> Truth:
    """A Gaussian of that sigma, and logistic regression of one record of one number against none, told in cells.

    With the record, x = y = 1, noise s(-t) - ridge t has t as its minimiser, s the logistic function; without it
    -ridge t has.  Both fall as t grows, so a cell of t has the normal mass between its ends.
    """
    s, strength = ball(sigma), ball(ridge)
    # Cells where the noise is within a few sigma of its middle, and where the record's gradient changes.
    ends = sorted({k / 2 for k in range(-12, 13)} | {k * sigma / ridge / 2 for k in range(-10, 11)})
    tails = [
        (normal_tail((1 / (1 + ball(t).exp()) - strength * ball(t)) / s), normal_tail(-strength * ball(t) / s))
        for t in ends
    ]
    steps = [(ZERO, ZERO), *tails, (ONE, ONE)]
    cells = [(p1 - p0, q1 - q0) for (p0, q0), (p1, q1) in itertools.pairwise(steps)]
    told = Finite(tidy(joined_cells(cells)))
    plain = Part(Gaussian(1 / s))
    return Truth([((plain,), (plain,)), ((Part(told),), (Part(told.swapped()),))], None, replaced)


def last_iterate(
    *, every: int, passes: int, after: int, contraction: float, sigma: float, diameter: float | None, replaced: bool
) -> Truth:
    """Above: every walk over listed steps, in fractions.  Below: X' = cX + u + noise, or one projected step in cells.

    The linear iteration ends in a Gaussian, whose mean moves by A and whose variance is V: mu^2 = A^2/V.
    """
    c, s = Fraction(contraction), Fraction(sigma)
    used, weights = _schedule(every, passes, after, c)
    above = _root(least_walk(used, weights, s, None if diameter is None else Fraction(diameter), c))
    top = _gaussian_part(max(above * (1 + arb(2) ** -60), arb("1e-29")).upper())  # nothing smaller is claimed
    first = max(k for k, use in enumerate(used) if use)
    if diameter is None:
        moved = sum(w for use, w in zip(used, weights, strict=True) if use)
        spread = s**2 * sum(w**2 for w in weights[: first + 1])
        below = _gaussian_part((_root(moved**2 / spread) * (1 - arb(2) ** -60)).lower())
        return Truth([((below,), (below,))], ((top,), (top,)), replaced)
    if after:
        return Truth([((), ())], ((top,), (top,)), replaced)
    told = Part(_projected_step(ball(sigma), diameter))
    return Truth([((told,), (told,))], ((top,), (top,)), replaced)


def last_iterate_says(
    *, every: int, passes: int, after: int, contraction: float, sigma: float, diameter: float | None, replaced: bool
) -> Truth:
    c = Fraction(contraction)
    used, weights = _schedule(every, passes, after, c)
    square = least_walk(used, weights, Fraction(sigma), None if diameter is None else Fraction(diameter), c)
    return _gaussian_of(_root(square), replaced)


def _schedule(every: int, passes: int, after: int, contraction: Fraction) -> tuple[list[int], list[Fraction]]:
    """Which steps use the unit, and how much of a step is left at the end; both count steps that are still to come."""
    used = [1 if (left - after) % every == 0 else 0 for left in range(every * passes)]
    return used, [contraction**k for k in range(len(used))]


def shift_walk(
    *, tail: int, steps: int, contraction: float, sigma: float, diameter: float | None, replaced: bool = False
) -> Truth:
    """Two iterations x -> cx + noise that start as far apart as the claim allows: two Gaussians of one variance."""
    mu = _walked(tail, steps, contraction, sigma, diameter)
    below = _gaussian_part((mu * (1 - arb(2) ** -60)).lower())
    top = _gaussian_part(max(mu * (1 + arb(2) ** -60), arb("1e-29")).upper())
    return Truth([((below,), (below,))], ((top,), (top,)), replaced)


def _walked(tail: int, steps: int, contraction: float, sigma: float, diameter: float | None) -> arb:
    c = Fraction(contraction)
    drift = sum((c**k for k in range(steps - tail)), Fraction(0))
    apart = drift if diameter is None else min(drift, Fraction(diameter))
    variance = Fraction(sigma) ** 2 * sum(c ** (2 * k) for k in range(tail))
    return _root((apart * c**tail) ** 2 / variance)


def _shift_walk_says(
    *, tail: int, steps: int, contraction: float, sigma: float, diameter: float | None, replaced: bool = False
) -> Truth:
    return _gaussian_of(_walked(tail, steps, contraction, sigma, diameter), replaced)


def _gaussian_of(mu: arb, replaced: bool) -> Truth:
    """The statement of a walk or of correlated noise: the Gaussian pair of the mu that is proved."""
    return exact(Gaussian(mu), replaced=replaced) if mu > 0 else no_loss(replaced=replaced)


def correlated(*, sigma: float, replaced: bool = False, **strategy: Any) -> Truth:
    """Below: the worst pattern and signs of contributions that are numbers.  Above: what the theorem states, listed."""
    below, above = _squares(**strategy)
    if below == 0:
        return no_loss(replaced=replaced)
    low, high = (_root(square / Fraction(sigma) ** 2) for square in (below, above))
    # A matrix is written as the Gaussian release of its sensitivity, rounded up by 1e-12: the loss is of that one.
    room = arb(2) ** (-36 if "matrix" in strategy else -60)
    part, top = _gaussian_part((low * (1 - arb(2) ** -60)).lower()), _gaussian_part((high * (1 + room)).upper())
    return Truth([((part,), (part,))], ((top,), (top,)), replaced)


def _correlated_says(*, sigma: float, replaced: bool = False, **strategy: Any) -> Truth:
    mu = _root(_squares(**strategy)[1] / Fraction(sigma) ** 2)
    if "matrix" not in strategy or not mu > 0:
        return _gaussian_of(mu, replaced)
    part, top = _gaussian_part(mu), _gaussian_part((mu * (1 + arb(2) ** -36)).upper())  # written rounded up, see above
    return Truth([((part,), (part,))], ((top,), (top,)), replaced)


def _squares(
    *,
    steps: int | None = None,
    coefficients: Sequence[float] | None = None,
    matrix: Sequence[Sequence[float]] | None = None,
    uses: int = 1,
    separation: int = 1,
) -> tuple[Fraction, Fraction]:
    """Squared sensitivities: what some pattern attains, and what the theorem states."""
    if matrix is not None:
        strategy = [[Fraction(x) for x in row] for row in matrix]
        above = patterns.stated(strategy, uses, separation)
    elif coefficients is None:
        strategy = patterns.tree(steps)
        count = min(uses, 1 + (steps - 1) // separation)
        above = Fraction(0)
        for level in range(len(bin(steps - 1)) - 1 if steps > 1 else 1):
            most = min(count, math.ceil(2**level / separation))
            above += (count // most) * most**2 + (count % most) ** 2
    else:
        strategy = patterns.toeplitz(coefficients, steps)
        most = patterns.decreasing(coefficients) if len(coefficients) > separation else coefficients
        above = patterns.stated(patterns.toeplitz(most, steps), 1, 1) * min(uses, 1 + (steps - 1) // separation)
        if len(coefficients) > separation:
            above = patterns.attained(patterns.toeplitz(most, steps), uses, separation)
    return patterns.attained(strategy, uses, separation), above


def least_walk(
    used: list[int], weights: list[Fraction], s: Fraction, diameter: Fraction | None, c: Fraction
) -> Fraction:
    """The least sum of squares over all walks, from every step at which a domain or the drift bounds the shift."""
    total, found = len(used), []
    for steps in range(1, total + 1) if diameter is not None else [total]:
        drift = sum((c ** (k - steps) for k in range(steps, total) if used[k]), Fraction(0))
        start = drift if diameter is None else min(drift, diameter)
        heights, widths = [weights[steps - 1] * c * start], [Fraction(0)]
        for k in reversed(range(steps)):
            heights.append(heights[-1] + used[k] * weights[k])
            widths.append(widths[-1] + (weights[k] * s) ** 2)
        heights[0] = Fraction(0)
        found.append(_gift_wrapped(widths, heights))
    return min(found)


def _gift_wrapped(widths: list[Fraction], heights: list[Fraction]) -> Fraction:
    """Along the greatest convex minorant: from each of its points the next is the one of least slope."""
    here, square = 0, Fraction(0)
    while here < len(widths) - 1 and widths[-1] > widths[here]:
        ahead = [k for k in range(here + 1, len(widths)) if widths[k] > widths[here]]
        slope, _, there = min(((heights[k] - heights[here]) / (widths[k] - widths[here]), -k, k) for k in ahead)
        square += slope * (heights[there] - heights[here])
        here = there
    return square


def _root(square: Fraction) -> arb:
    return (ball(square.numerator) / ball(square.denominator)).sqrt()


def _gaussian_part(mu: arb) -> Part:
    return Part(Gaussian(mu), 1, _term("gdp", mu=float(mu)))


def _projected_step(s: arb, diameter: float) -> Finite:
    """The last step alone: 0 or 1 plus noise, projected to a domain around them, told in cells."""
    ends = [0.5 + diameter * (k / 16 - 0.5) for k in range(17)][:-1]
    tails = [(normal_tail((ball(t) - 1) / s), normal_tail(ball(t) / s)) for t in reversed(ends)]
    steps = [(ZERO, ZERO), *tails[:-1], (ONE, ONE)]
    cells = [(p1 - p0, q1 - q0) for (p0, q0), (p1, q1) in itertools.pairwise(steps)]
    return Finite(tidy(joined_cells(cells)))


LEAVES: dict[str, Callable[..., Truth]] = {
    f.__name__: f
    for f in (
        no_loss,
        pure_dp,
        approx_dp,
        gdp,
        gaussian,
        gaussian_mixture,
        laplace,
        discrete_gaussian,
        discrete_laplace,
        randomized_response,
        exponential,
        sparse_vector,
        not_private,
        zcdp,
        renyi_dp,
        from_tradeoff,
        from_profile,
        discrete_pair,
        objective_perturbation,
        shift_walk,
        correlated,
        last_iterate,
    )
}

STATEMENTS: dict[str, Callable[..., Truth]] = {
    "sparse_vector": _sparse_vector_says,
    "shift_walk": _shift_walk_says,
    "correlated": _correlated_says,
}
"""Leaves that state more than the referee knows a mechanism to do: the pair of their theorem."""
