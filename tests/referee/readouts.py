"""The judgement of one number: which side of the truth is it on, and is that certain?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flint import arb

from referee.balls import ONE, ZERO, ball, largest, near, within
from referee.brackets import coarse
from referee.finite import Finite
from referee.sides import Gaussian, Side, Smooth
from referee.worlds import Part, Truth, World, resolved

OK, WRONG, LOOSE, INFINITE, UNDECIDED = "ok", "WRONG", "loose", "infinite", "undecided"
TIGHT = 1e-60
LOOSENESS = 0.05


@dataclass(frozen=True)
class Verdict:
    """``truth`` says what it is judged by, with its certainty; ``excess`` how far on the safe side it is."""

    verdict: str
    truth: str = ""
    excess: float = 0.0


def shown(value: arb | float | None) -> str:
    return str(value) if not isinstance(value, arb) else value.str(20)


def _number(printed: float) -> bool:
    return isinstance(printed, float | int) and not math.isnan(printed)


def same(found: arb, number: arb) -> bool:
    """A ball this small around the number itself is the number itself."""
    return found.contains(number) and found.rad() < TIGHT * (1 if number.is_zero() else abs(number))


def at_least(printed: float, truth: arb, exact: bool = True) -> Verdict:
    """An upper bound must not be below the truth."""
    if not _number(printed):
        return Verdict(WRONG, f"a number >= {shown(truth)}")
    if math.isinf(printed):
        return Verdict(WRONG if printed < 0 else INFINITE if exact else OK, shown(truth), math.inf)
    claimed = ball(float(printed))
    if claimed < truth:
        return Verdict(WRONG, f">= {shown(truth)}")
    if claimed >= truth or same(truth, claimed):
        excess = near((claimed - truth) / truth.abs_upper()) if truth > 0 else near(claimed - truth)
        loose = exact and excess > LOOSENESS and near(claimed - truth) > 1e-12
        return Verdict(LOOSE if loose else OK, f">= {shown(truth)}", excess)
    return Verdict(UNDECIDED, f">= {shown(truth)}")


def at_most(printed: float, ceiling: arb | None, floor: arb | None) -> Verdict:
    """A lower bound must not be above the truth, which lies between floor and ceiling."""
    if not _number(printed) or printed == math.inf:
        return Verdict(WRONG, "a finite number")
    claimed = ball(float(printed))
    if ceiling is not None and claimed > ceiling:
        return Verdict(WRONG, f"<= {shown(ceiling)}")
    if floor is not None and (claimed <= floor or same(floor, claimed)):
        return Verdict(OK, f"<= {shown(floor)}")
    return Verdict(UNDECIDED, f"<= {shown(ceiling)}")


def near_to(printed: float, truth: arb, tolerance: float) -> Verdict:
    """An estimate must be within its documented error."""
    if not _number(printed):
        return Verdict(WRONG, shown(truth))
    if math.isinf(printed):
        return Verdict(WRONG, f"{shown(truth)} +- {tolerance:g}")
    gap = abs(ball(float(printed)) - truth)
    if gap > tolerance:
        return Verdict(WRONG, f"{shown(truth)} +- {tolerance:g}")
    return Verdict(OK if gap <= tolerance else UNDECIDED, shown(truth))


# ---------------------------------------------------------------------------------------------------- the profile


def profile_of(sides: list[Side] | None, a: arb) -> arb | None:
    if not sides:
        return None
    return largest([side.profile(a) for side in sides])


def delta_upper(truth: Truth, epsilon: float, printed: float) -> Verdict:
    found = profile_of(truth.low(), ball(epsilon).exp())
    if found is None:
        return Verdict(UNDECIDED)
    if _number(printed) and not 0 <= printed <= 1:
        return Verdict(WRONG, "a number in [0, 1]")
    return at_least(printed, found.min(ONE), truth.exact)


def delta_directed(truth: Truth, index: int, epsilon: float, printed: float) -> Verdict:
    """The same in one order of the neighbours, at any real epsilon."""
    verdict, a = Verdict(UNDECIDED), ball(epsilon).exp()
    for orders in truth.variants:
        side = resolved(orders[index], False, ("remove", "add")[index])
        if isinstance(side, Smooth | Finite):
            verdict = at_least(printed, side.profile(a).min(ONE), truth.exact)
            if verdict.verdict == WRONG:
                return verdict
    return verdict


def bayes_lower(truth: Truth, prior: float, printed: float) -> Verdict:
    """Nobody who guesses is wrong less often than prior (1 - H_a), a = (1 - prior)/prior, with the unit first."""
    if not _number(printed) or not 0 <= printed <= min(prior, 1 - prior) + 1e-15:
        return Verdict(WRONG, "a number from 0 to the rarer case")
    if not 0 < prior < 1 or printed == 0:
        return Verdict(OK)
    verdict, chance = Verdict(UNDECIDED), ball(prior)
    for orders in truth.variants:
        side = resolved(orders[0], False, "remove")
        if isinstance(side, Smooth | Finite):
            risk = chance * (1 - side.profile((1 - chance) / chance))
            if ball(printed) > risk:
                return Verdict(WRONG, f"<= {shown(risk)}")
            verdict = Verdict(OK if ball(printed) <= risk else UNDECIDED, f"<= {shown(risk)}")
    return verdict


def delta_lower(truth: Truth, epsilon: float, printed: float) -> Verdict:
    a = ball(epsilon).exp()
    if printed == 0:
        return Verdict(OK, "<= anything")
    return at_most(printed, profile_of(truth.roof(), a), profile_of(truth.reach(), a))


def epsilon_upper(truth: Truth, delta: float, printed: float) -> Verdict:
    low = truth.low()
    if not low:
        return Verdict(UNDECIDED)
    if not _number(printed) or printed < 0:
        return Verdict(WRONG, "a number >= 0")
    target = ball(delta)
    if math.isinf(printed):
        return _infinite(truth, target)
    found = profile_of(low, ball(printed).exp())
    if found > target:
        return Verdict(WRONG, f"H at the printed epsilon is {shown(found)} > delta")
    if found <= target or same(found, target):
        return _looseness(truth, target, printed)
    return Verdict(UNDECIDED, f"H at the printed epsilon is {shown(found)}")


def _infinite(truth: Truth, target: arb) -> Verdict:
    """Infinite only where it is true, as the docstring says."""
    unknown = Verdict(UNDECIDED, "whether it is infinite")
    low, high = truth.low(), truth.high()
    for side in low:
        endless = isinstance(side, Smooth) and side.top() is None
        if side.infinite() > target or (
            endless and (side.infinite() >= target or (side.infinite() - target).is_zero())
        ):
            return Verdict(OK, "infinite")
    if high is None or (not truth.exact and any(not side.infinite() < target for side in low)):
        return unknown
    for side in high:
        mass = side.infinite()
        ends = truth.exact and isinstance(side, Smooth) and side.top() is not None
        if not (mass < target or (ends and (mass <= target or (mass - target).is_zero()))):
            return unknown
    return Verdict(INFINITE, "finite: the mass at infinity is not above delta", math.inf)


def _looseness(truth: Truth, target: arb, printed: float) -> Verdict:
    if printed > 0 and truth.exact:
        less = profile_of(truth.high(), ball(printed * (1 - LOOSENESS)).exp())
        if less is not None and less <= target:
            return Verdict(LOOSE, "a smaller epsilon is true", LOOSENESS)
    return Verdict(OK)


def epsilon_lower(truth: Truth, delta: float, printed: float) -> Verdict:
    if printed == 0:
        return Verdict(OK)
    if not _number(printed) or printed < 0:
        return Verdict(WRONG, "a number >= 0")
    target, high = ball(delta), truth.roof()
    if math.isinf(printed):
        if high is None:
            return Verdict(UNDECIDED, "infinite")
        masses = largest([side.infinite() for side in high])
        if masses < target:
            return Verdict(WRONG, f"finite: infinity has mass {shown(masses)}")
        bounded = all(isinstance(side, Smooth) and side.top() is not None for side in high)
        if bounded and masses <= target:
            return Verdict(WRONG, "finite: the loss is bounded and delta is the mass at infinity")
        return Verdict(OK if masses > target or (target.is_zero() and not bounded) else UNDECIDED, "infinite")
    a = ball(printed).exp()
    over, under = profile_of(high, a), profile_of(truth.reach(), a)
    # epsilon is the least e with H <= delta: a lower end is right where H just below it is still above delta
    if over is not None and over < target:
        return Verdict(WRONG, f"H at the printed lower end is {shown(over)} < delta")
    if target.is_zero() and high is not None:
        bounded = [isinstance(side, Smooth) and side.infinite().is_zero() for side in high]
        tops = [side.top() if ends else None for side, ends in zip(high, bounded, strict=True)]
        if all(t is not None for t in tops) and ball(printed) > largest([t for t in tops if t is not None]):
            return Verdict(WRONG, "above the largest loss")
    if under is not None and (under >= target or same(under, target)):
        return Verdict(OK)
    return Verdict(UNDECIDED, f"H at the printed lower end is {shown(under)}")


def power_upper(truth: Truth, alpha: float, printed: float) -> Verdict:
    found = [side.power(ball(alpha)) for side in truth.low()]
    if not found:
        return Verdict(UNDECIDED)
    if _number(printed) and not 0 <= printed <= 1:
        return Verdict(WRONG, "a number in [0, 1]")
    return at_least(printed, largest(found).min(ONE), truth.exact)


def tradeoff_lower(truth: Truth, alpha: float, printed: float) -> Verdict:
    found = [side.power(ball(alpha)) for side in truth.low()]
    if not found:
        return Verdict(UNDECIDED)
    if not _number(printed) or not 0 <= printed <= 1:
        return Verdict(WRONG, "a number in [0, 1]")
    limit = (1 - largest(found)).max(ZERO)
    return at_most(printed, limit, limit)


def even_handed(truth: Truth, printed: float, hit: float) -> Verdict:
    """The false-alarm rate a of the test with as many misses must not be above the true one: f(a) >= a."""
    found = [side.power(ball(printed)) for side in truth.low()]
    if not found:
        return Verdict(UNDECIDED)
    misses = 1 - largest(found)
    if ball(printed) > misses:
        return Verdict(WRONG, f"the attacker misses only {shown(misses)} at that false-alarm rate")
    if hit < 1 - printed:
        return Verdict(WRONG, "hit below one minus the false-alarm rate")
    return Verdict(OK if ball(printed) <= misses or misses.rad() < TIGHT else UNDECIDED)


def posterior_upper(truth: Truth, prior: float, delta: float, printed: float) -> Verdict:
    """Outcomes that convince beyond the printed belief have together at most probability delta."""
    if not _number(printed) or not 0 <= printed <= 1:
        return Verdict(WRONG, "a number in [0, 1]")
    if printed == 1 or not 0 < prior < 1:
        return Verdict(OK if printed >= prior else WRONG, f">= {prior}")
    belief, start = ball(printed), ball(prior)
    a = belief / (1 - belief) * (1 - start) / start
    verdict = UNDECIDED
    for orders in truth.variants:
        side = resolved(orders[0], False, "remove")
        if isinstance(side, Smooth):
            p, q = side.tails(a * (1 + arb(2) ** -200))
            chance = start * p + (1 - start) * q
            if chance > ball(delta):
                return Verdict(WRONG, f"{shown(chance)} of the results convince more")
            verdict = OK if chance <= ball(delta) else verdict
    return Verdict(verdict)


# ------------------------------------------------------------------------------------------------- divergences


def renyi_of(world: World, order: float) -> arb | float | None:
    """The divergence of a composition is the sum of its parts'; inf where true, None where unknown."""
    total = ZERO
    for part in world:
        if part.side.infinite() > 0:
            return math.inf
        value = part.side.renyi(order)
        if value is None:
            unbounded = isinstance(part.side, Smooth) and part.side.top() is None
            if math.isinf(order):
                return math.inf if unbounded and not isinstance(part.side, Finite) else None
            if not isinstance(part.side, Smooth):
                return None
            value = merged_renyi(part.side, order)
        total += part.count * value
    return total


def merged_renyi(side: Smooth, order: float) -> arb:
    """Of merged outcomes: nothing that is processed has the larger divergence, so this is below the truth."""
    found = coarse(side, 60).renyi(order)
    return ZERO if found is None else found.lower()


def renyi_upper(truth: Truth, order: float, printed: float) -> Verdict:
    values = [renyi_of(world, order) for orders in truth.variants for world in orders]
    known = [v for v in values if v is not None]
    if not known:
        return Verdict(UNDECIDED)
    if math.inf in known:
        right = printed == math.inf
        return Verdict(OK if right else WRONG, "infinite")
    return at_least(printed, largest([v for v in known if isinstance(v, arb)]).max(ZERO), truth.exact)


def gaussian_dominates(truth: Truth, mu: float, points: list[float]) -> Verdict:
    """No H of the loss may exceed that of N(mu, 1) against N(0, 1)."""
    if mu == math.inf:
        return Verdict(OK)
    if not _number(mu) or mu < 0:
        return Verdict(WRONG, "a number >= 0")
    claim = Gaussian(ball(mu)) if mu > 0 else None
    return curve_dominates(truth, lambda a: claim.profile(a) if claim else (1 - a).max(ZERO), points)


def curve_dominates(truth: Truth, claim: Any, points: list[float]) -> Verdict:
    """No H of the loss may exceed the claimed curve, at these losses."""
    low = truth.low()
    if not low:
        return Verdict(UNDECIDED)
    for loss in points:
        a = ball(loss).exp()
        found = profile_of(low, a)
        if found is not None and found > claim(a):
            return Verdict(WRONG, f"at epsilon {loss!r} the loss has {shown(found)}, the claim {shown(claim(a))}")
    return Verdict(OK)


def zcdp_holds(truth: Truth, rho: arb, delta: arb, orders: list[float], points: list[float]) -> Verdict:
    """rho: D_a <= rho a at every order; with delta: H <= delta + the least conversion of (a, rho a)."""
    if delta.is_zero():
        for order in orders:
            verdict = at_least(math.inf, ZERO)
            for world in (w for pair in truth.variants for w in pair):
                found = renyi_of(world, order)
                if found == math.inf or (isinstance(found, arb) and found > rho * ball(order)):
                    return Verdict(WRONG, f"order {order}: divergence {shown(found)} > {shown(rho * ball(order))}")
        del verdict
    return curve_dominates(truth, lambda a: delta + concentrated(rho, a), points)


def concentrated(rho: arb, a: arb) -> arb:
    """An upper bound on H_a of anything rho-zCDP: the least over orders of e^{(n-1)(n rho - e)} (1-1/n)^n/(n-1)."""
    loss = a.log()
    size, level = max(near(rho), 1e-300), near(loss)
    best = ONE
    for n in {1.0 + 10.0 ** (k / 4) for k in range(-8, 25)} | {max(1.0001, (level + size) / (2 * size))}:
        order = ball(n)
        exponent = (order - 1) * (order * rho - loss) + order * (1 - 1 / order).log() - (order - 1).log()
        best = best.min(exponent.exp()) if exponent < 0 else best
    return best.upper()


# ------------------------------------------------------------------------------------------------- the variable


def law_of(truth: Truth, direction: int) -> tuple[Side | None, World] | None:
    """The law of L is defined where one mechanism attains the loss."""
    if not truth.exact or not truth.law:
        return None
    world = truth.variants[0][direction]
    side = resolved(world, True, ("remove", "add")[direction])
    listed = isinstance(side, Finite) and not all(isinstance(part.side, Finite) for part in world)
    return (None if listed else side), world  # outcomes that only bracket a smooth law are not its law


def cdf_near(truth: Truth, direction: int, x: float, printed: float) -> Verdict:
    found = law_of(truth, direction)
    if found is None or found[0] is None:
        return Verdict(UNDECIDED)
    at, nudge = ball(x), ball(1e-9 * (1 + abs(x)))
    here, below, above = found[0].cdf(at), found[0].cdf(at - nudge), found[0].cdf(at + nudge)
    if here is None or below is None or above is None:
        return Verdict(UNDECIDED)
    low = here[1] if here[1] > here[0] and _exactly(found[0], at) else below[0]
    truth_ball = low.union(above[1])
    if not _number(printed) or ball(float(printed)) < low - 1e-4 or ball(float(printed)) > above[1] + 1e-4:
        return Verdict(WRONG, f"{shown(here[1])} +- 1e-4")
    return Verdict(OK, shown(truth_ball))


def _exactly(side: Side, x: arb) -> bool:
    """Is x one of the losses, to the last of 256 bits?  Losses so near zero that they run together do not count."""
    if not isinstance(side, Finite):
        return False
    losses = [loss for _, loss in side._finite()]
    known = [loss for loss in losses if loss.rad().is_zero() or loss.rad() < 1e-40 * abs(loss.mid())]
    return max(abs(near(loss)) for loss in losses) > 1e-20 and any(loss.contains(x) for loss in known)


def quantile_near(truth: Truth, direction: int, share: float, printed: float) -> Verdict:
    found = law_of(truth, direction)
    if found is None or found[0] is None:
        return Verdict(UNDECIDED)
    side, world = found
    if not _number(printed):
        return Verdict(WRONG, "a number")
    if printed == math.inf:
        rest = 1 - side.infinite()
        return Verdict(WRONG if rest > ball(share) + 1e-3 else OK, f"finite losses have mass {shown(rest)}")
    printed = max(printed, -1e300)
    width = 1e-9 * (1 + abs(printed)) + 2e-3 * spread_of(side, world)
    low, high = side.cdf(ball(printed) - ball(width)), side.cdf(ball(printed) + ball(width))
    if low is None or high is None:
        return Verdict(UNDECIDED)
    if low[0] > ball(share) + 1e-3 or high[1] < ball(share) - 1e-3:
        return Verdict(WRONG, f"P(L <= printed) is in [{shown(low[0])}, {shown(high[1])}]")
    return Verdict(OK)


def spread_of(side: Side, world: World) -> float:
    """The standard deviation, or the range of the finite losses: quantiles are estimates to a small part of it."""
    found = moments_of(world)
    if found is not None:
        return math.sqrt(max(near(found[1]), 0.0))
    if isinstance(side, Finite):
        losses = [near(loss) for _, loss in side._finite()]
        return max(losses, default=0.0) - min(losses, default=0.0)
    most = side.top()
    return 2 * near(most) if most is not None else 0.0


def moments_of(world: World) -> tuple[arb, arb] | None:
    mean, variance = ZERO, ZERO
    for part in world:
        found = part.side.moments()
        if found is None:
            return None
        mean, variance = mean + part.count * found[0], variance + part.count * found[1]
    return mean, variance


def moment_near(truth: Truth, direction: int, which: int, printed: float) -> Verdict:
    if not truth.exact or not truth.law:
        return Verdict(UNDECIDED)
    world = truth.variants[0][direction]
    if any(part.side.infinite() > 0 for part in world):
        return Verdict(OK if printed == math.inf else WRONG, "infinite")
    found = moments_of(world)
    if found is None:
        return Verdict(UNDECIDED)
    size = max(abs(near(found[which])), 1e-12)
    return near_to(printed, found[which], 1e-8 * size)


def transform_near(truth: Truth, direction: int, t: float, printed: complex) -> Verdict:
    if not truth.exact or not truth.law:
        return Verdict(UNDECIDED)
    value = complex(1)
    turns = 0.0
    for part in truth.variants[0][direction]:
        one = part.side.transform(t)
        if one is None or part.count > 10**6:
            return Verdict(UNDECIDED)
        value *= one**part.count
        turns += abs(t) * part.count * 1e-9
    if not abs(printed - value) <= 1e-6 + turns:
        return Verdict(WRONG, f"{value} +- 1e-6")
    return Verdict(OK, str(value))


__all__ = ["Part", "Verdict", "within"]
