"""Checks a certificate of privacy: reads one JSON text and proves its claim again in ball arithmetic, or rejects it.

It shares no code with the accountant that wrote the certificate, needs Python and python-flint only, and can be copied
and run alone: ``python checker.py FILE``. What it stands on (docs/theory/certificates.md has the proofs):

* H(x) = sup over events S of P(S) - e^x Q(S) says all about one mechanism; below, each from its definition;
* a pair whose H is nowhere smaller reveals more, alone and in any sum with others;
* chords of H, which is convex in e^x, between the knots of a lattice are the H of a pair on that lattice;
* every number is a ball that contains the truth, and only the upper end of the last one counts.

So a route's parameters (step, tilt, size, knots, bits) decide how close the bound is, never whether it is one, and
those that would take long are refused before any work.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from itertools import pairwise
from typing import Any

from flint import acb, arb, arb_poly, ctx, fmpq

FORMAT, LOSS = "tallystick.certificate/1", "tallystick.loss/1"
LONGEST, DEEPEST, MOST_TERMS, MOST_COUNT, MOST_LISTED, MOST_POINTS = 1_000_000, 20, 400, 10**12, 1000, 2**13
MOST_WORK = 2**22  # knots and points of transforms in all terms and directions, in 128 bits: about half a minute
SPARSE = 32  # steps between the knots at both ends of a lattice, where there is little mass

Ball = Any
Height = Callable[[Ball], Ball]
Point = tuple[Ball, Ball]


class Malformed(ValueError):
    """The text is not a certificate of this format, is about what is not covered, or asks for too much work."""


class Unproved(ValueError):
    """The certificate is well formed and does not prove what it claims."""


def _only(fine: bool, what: str) -> None:
    if not fine:
        raise Malformed(what)


# ---------------------------------------------------------------------------------------- what one mechanism reveals


@dataclass(frozen=True)
class Mechanism:
    """H with the unit against without it (``remove``), and reversed (``add``)."""

    remove: Height
    add: Height
    total: Ball = 1  # H far to the left: P's mass, above one where something was added to it
    mu: Ball = None  # set for N(mu, 1) against N(0, 1): such mechanisms merge
    divergence: Height | None = None  # Renyi divergence of an order, both ways, on the part ``1 - leak``
    leak: Ball = 0


def _both(height: Height) -> Mechanism:
    return Mechanism(height, height)


def _largest(heights: Sequence[Height]) -> Height:
    return lambda x: reduce(arb.max, (height(x) for height in heights))


def _tail(x: Ball) -> Ball:
    return (x / arb(2).sqrt()).erfc() / 2


def gdp(mu: Ball) -> Mechanism:
    height = _both(lambda x: _tail(x / mu - mu / 2) - x.exp() * _tail(x / mu + mu / 2))
    return replace(height, mu=mu, divergence=lambda order: order * mu * mu / 2)


def gaussian(sigma: Ball) -> Mechanism:
    return gdp(1 / sigma)


def _series(ratio: Ball, count: int) -> Ball:
    return arb(count) if ratio == 1 else (1 - ratio**count) / (1 - ratio)  # 1 + ratio + ... + ratio^(count - 1)


def _walked(own: Ball, tail: int, steps: int, contraction: Ball, sigma: Ball, diameter: Ball | None) -> Ball:
    """mu of walking to zero, evenly in the tail, what was displaced before (or the domain's width) and its own."""
    drift = _series(contraction, steps - tail)
    apart = drift if diameter is None else drift.min(diameter)
    return (apart * contraction**tail + own) / (sigma * _series(contraction**2, tail).sqrt())


def shift_walk(tail: int, steps: int, contraction: Ball, sigma: Ball, diameter: Ball | None) -> Mechanism:
    _only(tail < steps, "a tail that is shorter than the walk")
    return gdp(_walked(arb(0), tail, steps, contraction, sigma, diameter))


def last_iterate(steps: int, contraction: Ball, sigma: Ball, diameter: Ball | None, batches: None) -> Mechanism:
    """Full batches: every step displaces by one, and any tail may be walked."""
    _only(batches is None, "last_iterate of other than full batches is not covered")
    tails = {steps, *(min(steps, round(1.02**k)) for k in range(1100))}
    found = [_walked(_series(contraction, n), n, steps, contraction, sigma, diameter) for n in tails]
    return gdp(min(found, key=lambda mu: float(mu.upper())))


def zcdp(rho: Ball, delta: Ball) -> Mechanism:
    """Nothing but its divergences is known, so only the route by an order can prove anything about it."""
    return replace(_both(_unknown), divergence=lambda order: rho * order, leak=delta)


def renyi_dp(orders: Sequence[Ball], epsilons: Sequence[Ball]) -> Mechanism:
    """Divergence grows with the order, so any higher order's value bounds it."""
    known = [*zip(orders, epsilons, strict=True), (arb.pos_inf(), arb.pos_inf())]
    return replace(_both(_unknown), divergence=lambda order: next(e for at, e in known if at >= order))


def _unknown(x: Ball) -> Ball:
    raise Malformed("only divergences are known of this mechanism")


def laplace(scale: Ball) -> Mechanism:
    """1 - e^{(x - 1/scale)/2} between the ends; at the right of them 0 is larger, at the left 1 - e^x."""
    top = 1 / scale
    return _both(lambda x: arb(0) if x >= top else (1 - x.exp()).max(arb(0)).max(-((x - top) / 2).expm1()))


def exponential(epsilon: Ball) -> Mechanism:
    """The largest H of all two-point pairs whose losses are epsilon apart (Dong, Durfee, Rogers 2020)."""

    total = -(-epsilon).expm1()
    return _both(lambda x: (1 - x.exp()).max(arb(0)) if abs(x) >= epsilon else ((x - epsilon) / 2).expm1() ** 2 / total)


def _finite(outcomes: Iterable[Point], infinite: Ball) -> Height:
    """Outcomes as (loss, mass under P); ``infinite`` is P's mass where Q has no mass."""
    listed = sorted(((loss.lower(), loss, p, p * (-loss).exp()) for loss, p in outcomes), key=lambda one: -one[0])
    above, tops = [(infinite, arb(0))], [loss.upper() for _, loss, _, _ in listed]
    for _, _, p, q in listed:
        above.append((above[-1][0] + p, above[-1][1] + q))
    for i in range(len(tops) - 2, -1, -1):
        tops[i] = tops[i].max(tops[i + 1])

    def height(x: Ball) -> Ball:
        start = bisect_left(listed, True, key=lambda one: not one[0] > x)  # all before it are surely above x
        total = above[start][0] - x.exp() * above[start][1]
        for i in range(start, len(listed)):
            if tops[i] <= x:  # this one and all after it surely are not
                break
            total += (listed[i][2] - x.exp() * listed[i][3]).max(arb(0))
        return total

    return height


def _response(epsilon: Ball, delta: Ball, choices: int) -> Mechanism:
    """The truth with odds e^epsilon over each other answer; with probability delta everything is given away."""
    each = (1 - delta) / (epsilon.exp() + choices - 1)
    outcomes = [(epsilon, each * epsilon.exp()), (-epsilon, each), (arb(0), each * (choices - 2))]
    return _both(_finite(outcomes, delta))


def discrete_gaussian(sigma: Ball, sensitivity: int) -> Mechanism:
    """e^{-k^2/(2 sigma^2)} on the integers; what is beyond the reach counts as given away."""
    reach, width = math.ceil(float(sigma) * math.sqrt(1.5 * ctx.prec)) + 2, 2 * sigma * sigma
    _only(2 * reach + sensitivity <= MOST_POINTS, "discrete noise on too many points")
    weight = [(-arb(k * k) / width).exp() for k in range(reach + 2)]
    left = weight[reach + 1] / (1 - weight[reach + 1] / weight[reach])  # on one side: the ratio only falls
    listed = weight[0] + 2 * sum(weight[1 : reach + 1], arb(0))
    norm = listed.union(listed + 2 * left)
    shifts = {k: arb(sensitivity) * (sensitivity + 2 * k) / width for k in range(-reach, reach + 1)}
    return _both(_finite(((loss, weight[abs(k)] / norm) for k, loss in shifts.items()), arb(0).union(2 * left / norm)))


def discrete_laplace(scale: Ball, sensitivity: int) -> Mechanism:
    """Two-sided geometric noise; beyond both centres the loss is constant."""
    _only(sensitivity <= MOST_POINTS, "discrete noise on too many points")
    alpha = (-1 / scale).exp()
    inside = [((sensitivity - 2 * k) / scale, (1 - alpha) / (1 + alpha) * alpha**k) for k in range(1, sensitivity)]
    ends = [(sensitivity / scale, 1 / (1 + alpha)), (-sensitivity / scale, alpha**sensitivity / (1 + alpha))]
    return _both(_finite([*inside, *ends], arb(0)))


def discrete_pair(p: Sequence[Ball], q: Sequence[Ball], both: bool) -> Mechanism:
    """Two probability vectors; with ``both`` either may be the changed dataset."""
    _only(all(abs(sum(one, arb(0)) - 1) < 1e-8 for one in (p, q)), "masses of sum one")

    def ordered(one: Sequence[Ball], two: Sequence[Ball]) -> Height:
        shares = [(a / sum(one, arb(0)), b / sum(two, arb(0))) for a, b in zip(one, two, strict=True) if a > 0]
        infinite = sum((a for a, b in shares if not b > 0), arb(0))  # also where nobody can tell
        return _finite([((a / b).log(), a) for a, b in shares if b > 0], infinite)

    there, back = ordered(p, q), ordered(q, p)
    return _both(_largest([there, back])) if both else Mechanism(there, back)


def _lines(points: Iterable[Point]) -> Mechanism:
    """The largest of lines h - e^x s, 0 and 1 - e^x."""
    listed = [(arb(0), arb(0)), (arb(1), arb(1)), *points]
    return _both(lambda x: reduce(arb.max, (h - x.exp() * s for h, s in listed)))


def from_tradeoff(alpha: Sequence[Ball], beta: Sequence[Ball]) -> Mechanism:
    """sup of 1 - beta - e^x alpha over the curve, which is attained at a knot."""
    _only(alpha[0] == 0 and alpha[-1] == 1 and all(x < y for x, y in pairwise(alpha)), "a curve not from 0 to 1")
    _only(all(x + y <= 1 + 2**-50 for x, y in zip(alpha, beta, strict=True)), "a curve above that of guessing")
    return _lines((1 - y, x) for x, y in zip(alpha, beta, strict=True))


def from_profile(epsilon: Sequence[Ball], delta: Sequence[Ball]) -> Mechanism:
    """Chords from (0, 1) through the knots (e^epsilon, delta); one not surely below its neighbours' chord goes."""
    _only(
        all(x < y for x, y in pairwise(epsilon)) and all(height <= 1 for height in delta),
        "epsilons that do not increase, or a delta above 1",
    )
    _only(all(later <= earlier for earlier, later in pairwise(delta)), "deltas that increase with epsilon")
    kept: list[Point] = [(arb(0), arb(1))]
    for a, h in zip([e.exp() for e in epsilon], delta, strict=True):
        while len(kept) > 1 and not _fall(kept[-2], kept[-1]) > _fall(kept[-1], (a, h)):
            kept.pop()
        kept.append((a, h))
    chords = [(one[1] + one[0] * _fall(one, two), _fall(one, two)) for one, two in pairwise(kept)]
    return _lines([*chords, (kept[-1][1], arb(0))])


def _fall(one: Point, two: Point) -> Ball:
    return (one[1] - two[1]) / (two[0] - one[0])


# ---------------------------------------------------------------------------------------------------------- sampling


def _mixed(height: Height, rate: Ball) -> Height:
    """((1-q) Q + q P, Q): q H at 1 + (e^x - 1)/q, and 1 - e^x where that is not positive."""

    def mixed(x: Ball) -> Ball:
        inside = x.expm1() / rate + 1
        if inside > 0:
            return rate * height(inside.log())
        return 1 - x.exp() if inside <= 0 else (1 - x.exp()).union(arb(1))

    return mixed


def _missed(height: Height, rate: Ball) -> Height:
    """(P, (1-q) P + q Q): r H at e^x q/r with r = 1 - (1-q) e^x, and 0 where that is not positive."""

    def missed(x: Ball) -> Ball:
        rest = rate - (1 - rate) * x.expm1()
        if rest > 0:
            return rest * height(x + (rate / rest).log())
        return arb(0) if rest <= 0 else arb(0).union(abs(rest))

    return missed


def sampled(base: Mechanism, rate: Ball) -> Mechanism:
    _only(base.total == 1, "a truncated sample inside another")
    return Mechanism(_mixed(base.remove, rate), _missed(base.add, rate))


def truncated(base: Mechanism, rate: Ball, largest: int, population: int) -> Mechanism:
    """Poisson sampling; where the unit is drawn and the batch is too large and cut, all is given away."""
    _only(largest < population, "a batch smaller than the population")
    cut = rate * rate.beta_lower(arb(largest), arb(population - largest), regularized=True)
    plain = sampled(base, rate)
    return Mechanism(lambda x: plain.remove(x) + cut, lambda x: plain.add(x) + cut, 1 + cut)


def subset(base: Mechanism, batch: int, population: int) -> Mechanism:
    """The larger of both orders' H (Dong, Roth, Su 2019, Theorem 4.2: the hull of a trade-off and its inverse)."""
    _only(batch < population and base.add is base.remove, "a part of the population")
    rate = arb(batch) / population
    return _both(_largest([_mixed(base.remove, rate), _missed(base.add, rate)]))


def sampled_replaced(sigma: Ball, rate: Ball) -> Mechanism:
    """(1-q) N(0,1) + q N(mu,1) against (1-q) N(0,1) + q N(-mu,1); the ratio grows, so the best events are z > t."""
    mu = 1 / sigma
    share = rate * (-mu * mu / 2).exp()

    def ahead(x: Ball) -> Ball:
        gap = (1 - rate) * x.expm1()
        t = ((gap + (gap * gap + 4 * x.exp() * share * share).sqrt()) / (2 * share)).log() / mu
        return rate * (_tail(t - mu) - x.exp() * _tail(t + mu)) - gap * _tail(t)

    return _both(lambda x: ahead(x) if x >= 0 else 1 - x.exp() + x.exp() * ahead(-x))  # Q against P is the same


def worst(members: Sequence[Mechanism]) -> Mechanism:
    remove = _largest([one.remove for one in members])
    same = all(one.add is one.remove for one in members)
    total = reduce(arb.max, (arb(one.total) for one in members))
    return Mechanism(remove, remove if same else _largest([one.add for one in members]), total)


# -------------------------------------------------------------------------------------------------- reading the loss

LEAVES: dict[str, Callable[..., Mechanism]] = {leaf.__name__: leaf for leaf in (
    gdp, gaussian, shift_walk, last_iterate, zcdp, renyi_dp, laplace, exponential, discrete_gaussian, discrete_laplace,
    discrete_pair, from_tradeoff, from_profile, sampled, truncated, subset, sampled_replaced, worst,
)} | {
    "pure_dp": lambda epsilon: _response(epsilon, arb(0), 2),
    "approx_dp": lambda epsilon, delta: _response(epsilon, delta, 2),
    "randomized_response": lambda epsilon, choices: _response(epsilon, arb(0), choices),
}  # fmt: skip
RELATIONS = {"sampled": "add_remove", "truncated": "add_remove", "worst": "add_remove", "subset": "replace",
             "sampled_replaced": "replace"}  # fmt: skip
LIMITS: dict[str, tuple[float, float]] = {
    "sigma": (1e-6, 1e15), "scale": (1e-6, 1e15), "mu": (1e-300, 1e6), "epsilon": (0.0, 1e9), "delta": (0.0, 1.0),
    "rate": (1e-300, 1 - 2**-53), "contraction": (0.0, 1.0), "rho": (0.0, 1e12), "order": (1 + 1e-9, 1e9),
    "step": (1e-9, 1e6), "tilt": (1e-6, 1e6), "origin": (-1e6, 1e6)}  # fmt: skip
WHOLE = {
    "count": (1, MOST_COUNT), "group": (1, 10**6), "sensitivity": (1, 10**9), "bits": (64, 1024), "size": (2, 2**19),
    "tail": (1, 10**9), "largest": (1, 10**12), "batch": (1, 10**12), "population": (2, 10**12), "steps": (1, 10**9),
    "choices": (2, 10**9), "before": (0, 2**19), "dense": (2, 2**19), "after": (0, 2**19)}  # fmt: skip
POINTS = {"discrete_gaussian": ("sigma", 80), "discrete_laplace": ("sensitivity", 1), "last_iterate": ("steps", 1)}
ROUTES = {"formula": set(), "order": {"order"}, "lattice": {"step", "tilt", "size", "terms"}}

Terms = list[tuple[Mechanism, int]]


def _number(name: str, value: Any) -> Ball:
    """A number inside its limits: whole ones as they are, others as the balls of radius zero that they are."""
    low, high = WHOLE[name] if name in WHOLE else LIMITS.get(name, (0.0, 1e6))
    known = type(value) is int or (type(value) is float and name not in WHOLE)
    _only(known and low <= value <= high, f"{name} = {value!r}")
    return value if name in WHOLE else arb(value)


def _value(name: str, value: Any, relation: str, depth: int) -> Any:
    if value is None and name in ("diameter", "batches"):
        return None
    if name == "base":
        return _mechanism(value, relation, depth + 1)
    if name == "both":
        _only(value is (relation == "replace"), "both orders of a pair, where either can occur, and only there")
        return value
    if isinstance(value, list):
        _only(0 < len(value) <= MOST_LISTED, f"{name}: 1 to {MOST_LISTED} of them")
        return [_alone(one, relation, depth) if name == "members" else _number(name, one) for one in value]
    return _number(name, value)


def _mechanism(record: Any, relation: str, depth: int) -> Mechanism:
    _only(isinstance(record, dict) and depth < DEEPEST, "a record of a mechanism")
    kind, given = record.get("kind"), {name: value for name, value in record.items() if name != "kind"}
    if kind == "composed" and set(given) == {"terms"}:
        return _alone(given["terms"], relation, depth)
    _only(kind in LEAVES and RELATIONS.get(kind, relation) == relation, f"{kind} is not covered for {relation}")
    _only(set(given) == set(inspect.signature(LEAVES[kind]).parameters), f"{kind} with other fields")
    _only(len({len(value) for value in given.values() if isinstance(value, list)}) <= 1, "lists of unequal length")
    return LEAVES[kind](**{name: _value(name, value, relation, depth) for name, value in given.items()})


def _merged(terms: Any, relation: str, depth: int) -> Terms:
    """The mechanisms of a sum with their counts; Gaussians are one, the first."""
    _only(isinstance(terms, list) and len(terms) <= MOST_TERMS, f"a list of at most {MOST_TERMS} terms")
    _only(all(isinstance(term, list) and len(term) == 2 for term in terms), "terms of a mechanism and a count")
    found = [(_mechanism(record, relation, depth + 1), _number("count", count)) for record, count in terms]
    square = sum((count * one.mu * one.mu for one, count in found if one.mu is not None), arb(0))
    rest = [(one, count) for one, count in found if one.mu is None]
    return [(gdp(square.sqrt()), 1), *rest] if len(rest) < len(found) else rest


def _alone(terms: Any, relation: str, depth: int) -> Mechanism:
    found = _merged(terms, relation, depth)
    _only(len(found) == 1 and found[0][1] == 1, "a sum of other than Gaussian noise inside a mechanism")
    return found[0][0]


def terms_of(loss: Any) -> Terms:
    """The mechanisms of a loss as the accountant writes it."""
    _only(isinstance(loss, dict) and set(loss) == {"format", "adjacency", "unit", "group", "terms"}, "a loss")
    _only(loss["format"] == LOSS and loss["adjacency"] in ("add_remove", "replace"), f"a loss of format {LOSS}")
    found, group = _merged(loss["terms"], loss["adjacency"], 0), _number("group", loss["group"])
    _only(group == 1 or all(one.mu is not None for one, _ in found), "groups of other than Gaussian noise")
    return found if group == 1 else [(gdp(one.mu * group), 1) for one, _ in found]


# ------------------------------------------------------------------------------------------------ adding many losses


@dataclass(frozen=True)
class Lattice:
    """A sum of losses start + n step, tilted by e^{tilt loss} and known modulo the number of its masses."""

    start: Fraction
    step: Fraction
    tilt: Ball
    last: int  # no finite loss has a larger n
    log_moment: Ball  # log E[e^{tilt loss}] of the finite part
    infinite: Ball
    masses: list[Ball]  # tilted, of sum one; each is of all n that are equal modulo their number: none is too small

    def delta(self, epsilon: Fraction) -> Ball:
        """A ball whose upper end is at least delta: the losses above epsilon in one period, and all beyond it."""
        size, first = len(self.masses), math.floor((epsilon - self.start) / self.step)
        if first >= self.last:
            return self.infinite
        at = arb_poly([0, *(self.masses[(first + n) % size] for n in range(1, size))])
        below, step = _ball(self.start + first * self.step), _ball(self.step)
        fall = (-self.tilt * step).exp()
        inside = at(fall) - (_ball(epsilon) - below).exp() * at(fall * (-step).exp())
        beyond = (-self.tilt * step * size).exp() if self.last >= first + size else arb(0)
        return self.infinite + (self.log_moment - self.tilt * below).exp() * (inside + beyond)


def _ball(value: Fraction) -> Ball:
    return arb(fmpq(value.numerator, value.denominator))


def chords(height: Height, total: Ball, losses: Sequence[Ball]) -> tuple[list[Ball], Ball]:
    """P's masses at these losses of the pair whose H runs through them in chords, and its mass at infinity."""
    ratios, heights = [x.exp() for x in losses], [height(x) for x in losses]
    falls = [_fall(one, two) for one, two in pairwise([(arb(0), total), *zip(ratios, heights, strict=True)])]
    return [a * (s - t) for a, s, t in zip(ratios, falls, [*falls[1:], arb(0)], strict=True)], heights[-1]


def lattice(terms: Terms, way: str, route: Mapping[str, Any]) -> Lattice:
    """The sum in one direction, by a route's parameters."""
    step, size, tilt = arb(route["step"]), route["size"], arb(route["tilt"])
    start, last, log_moment, log_kept, whole = Fraction(0), 0, arb(0), arb(0), arb(1)
    spectrum = [acb(1)] * (size // 2 + 1)
    for (one, count), (origin, before, dense, after) in zip(terms, route["terms"], strict=True):
        places = [SPARSE * n for n in range(before)] + [SPARSE * before + n for n in range(dense)]
        places += [places[-1] + SPARSE * n for n in range(1, after + 1)]
        losses = [arb(origin) + n * step for n in places]
        masses, infinite = chords(getattr(one, way), arb(one.total), losses)
        fold = [arb(0)] * size
        for n, loss, mass in zip(places, losses, masses, strict=True):
            fold[n % size] += mass * (tilt * loss).exp()
        moment = sum(fold, arb(0))
        if not moment > 0:
            raise Unproved("the masses of a term are lost in rounding")
        found = acb.dft([acb(mass / moment) for mass in fold])
        spectrum = [old * new**count for old, new in zip(spectrum, found, strict=False)]
        start, last = start + count * Fraction(origin), last + count * places[-1]
        log_moment, log_kept = log_moment + count * moment.log(), log_kept + count * (-infinite / one.total).log1p()
        whole *= arb(one.total) ** count
    both = [*spectrum, *(value.conjugate() for value in spectrum[-2:0:-1])]  # the masses are real
    masses = [value.real for value in acb.dft(both, inverse=True)]
    return Lattice(start, Fraction(route["step"]), tilt, last, log_moment, -log_kept.expm1() * whole, masses)


def delta_by(terms: Terms, way: str, route: Mapping[str, Any], epsilon: Fraction) -> Ball:
    """A ball whose upper end is at least delta at epsilon in one direction."""
    if route["by"] == "lattice":
        return lattice(terms, way, route).delta(epsilon)
    if route["by"] == "order":
        return _by_order(terms, arb(route["order"]), _ball(epsilon))
    return getattr(terms[0][0], way)(_ball(epsilon)) if terms else arb(0)


def _by_order(terms: Terms, order: Ball, epsilon: Ball) -> Ball:
    """Divergences add; one converts to e^{t (D - epsilon)} t^t/(1+t)^{1+t} with t = order - 1 (Canonne et al. 2020)."""
    _only(all(one.divergence is not None for one, _ in terms), "mechanisms whose divergences are known")
    t, kept = order - 1, math.prod(((1 - arb(one.leak)) ** count for one, count in terms), start=arb(1))
    total = sum((count * one.divergence(order) for one, count in terms if one.divergence), arb(0))
    found = (t * (total - epsilon) + t * t.log() - (1 + t) * (1 + t).log()).exp()
    return 1 - kept + kept * found if any(one.leak > 0 for one, _ in terms) else found


# --------------------------------------------------------------------------------------------------- the certificate


def read(text: str) -> dict[str, Any]:
    """The parts of a certificate, of the right shape and affordable; nothing is computed."""
    _only(len(text) <= LONGEST, f"at most {LONGEST} characters")
    try:
        body: dict[str, Any] = json.loads(text, object_pairs_hook=_object, parse_constant=partial(_only, False))
    except (ValueError, RecursionError) as problem:
        raise Malformed(f"no JSON: {problem}") from None
    _only(isinstance(body, dict) and set(body) == {"format", "loss", "claim", "route"}, "format, loss, claim, route")
    claim, routes = body["claim"], body["route"]
    _only(body["format"] == FORMAT and isinstance(claim, dict) and isinstance(routes, dict), f"format {FORMAT}")
    _only(set(claim) == {"epsilon", "delta", "adjacency", "unit"}, "a claim of epsilon, delta, adjacency and unit")
    _number("epsilon", claim["epsilon"]), _number("delta", claim["delta"])
    _only(set(routes) in ({"remove"}, {"remove", "add"}), "a route for remove, or for remove and add")
    _only(claim["unit"] is None or isinstance(claim["unit"], str), "a unit that is a text or null")
    _only(isinstance(body["loss"], dict) and isinstance(body["loss"].get("terms"), list), "a loss with its terms")
    written = [json.dumps(term) for term in body["loss"]["terms"]]
    # A line for each number that is listed is read at every knot, and a subset reads its base twice.
    reading = max((1 + one.count(",") // 16 << min(one.count('"subset"'), 64) for one in written), default=1)
    work = sum(_work(route) for route in routes.values()) * reading
    work += sum(route["bits"] for route in routes.values()) * _building(body["loss"]["terms"]) // 128
    _only(work <= MOST_WORK, f"work of at most {MOST_WORK} points, not {work}")
    return body


def _building(part: Any, depth: int = 0) -> int:
    """About how many points the mechanisms of a record have before anything is asked of them."""
    _only(depth < 4 * DEEPEST, "records inside each other")
    inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    name, each = POINTS.get(str(part.get("kind")), ("", 0)) if isinstance(part, dict) else ("", 0)
    own = each * min(MOST_POINTS, math.ceil(float(_number(name, part.get(name))))) if each else 16
    return own + sum(_building(one, depth + 1) for one in inside)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _only(len(dict(pairs)) == len(pairs), "a field twice")
    return dict(pairs)


def _work(route: Any) -> int:
    """The size of a route, every parameter inside its limits."""
    _only(isinstance(route, dict) and route.get("by") in list(ROUTES), f"a route by one of {', '.join(ROUTES)}")
    names = {"by", "bits"} | ROUTES[route["by"]]
    _only(set(route) == names, f"{route['by']} with other parameters")
    for name in names - {"by", "terms"}:
        _number(name, route[name])
    terms, size = route.get("terms", []), route.get("size", 2)
    _only(size & (size - 1) == 0 and isinstance(terms, list) and len(terms) <= MOST_TERMS, "a power of two, and terms")
    for term in terms:
        _only(isinstance(term, list) and len(term) == 4, "terms of an origin and three numbers of knots")
        _number("origin", term[0])
        size += route["size"] + sum(map(_number, ("before", "dense", "after"), term[1:]))
    return int(size) * int(route["bits"]) // 128


def check(text: str) -> str:
    """Words for what the certificate proves; ``Malformed`` or ``Unproved`` if it does not."""
    body = read(text)
    loss, claim = body["loss"], body["claim"]
    for way, route in body["route"].items():
        with ctx.workprec(route["bits"]):
            try:
                terms = terms_of(loss)
                same = all(one.add is one.remove for one, _ in terms)
                _only(set(body["route"]) == ({"remove"} if same else {"remove", "add"}), "a route for each direction")
                short = len(terms) <= 1 and all(count == 1 for _, count in terms)
                fits = short if route["by"] == "formula" else 0 < len(terms) == len(route.get("terms", terms))
                _only(fits, "a route with a place for every term")
                _only((claim["adjacency"], claim["unit"]) == (loss["adjacency"], loss["unit"]), "a claim about others")
                found = delta_by(terms, way, route, Fraction(claim["epsilon"]))
            except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as problem:
                raise Malformed(f"not to be read: {type(problem).__name__}") from None
            if not found <= arb(claim["delta"]):
                raise Unproved(f"{way}: delta is only shown to be at most {found.upper().str(12, radius=False)}")
    return f"epsilon {claim['epsilon']!r} at delta {claim['delta']!r}, {claim['adjacency']}, unit {claim['unit']!r}"


if __name__ == "__main__":
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            print("proved:", check(file.read(LONGEST + 1)))
    except (Malformed, Unproved, OSError, UnicodeError) as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")
