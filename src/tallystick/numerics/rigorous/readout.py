"""delta(epsilon) and epsilon(delta) of a composition as proved enclosures, in ball arithmetic.

Doubles only *choose* (tilt, window, cut, number of terms); every number that enters the result is a ball, every
truncation is added as one, and a bad choice gives a wide ball, never a wrong one. The proof is docs/theory/rigorous.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from flint import arb, ctx

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.chords import chords_profile
from tallystick.numerics.rigorous.continuous import gaussian_law
from tallystick.numerics.rigorous.contour import Guess, Laws, Profile, contour_profile, lattice_profile
from tallystick.numerics.rigorous.exact import listed, log_tiny, residue_profile
from tallystick.numerics.rigorous.heights import known_by, whole
from tallystick.numerics.rigorous.laws import Ball
from tallystick.numerics.rigorous.moments import moments_profile

ASKED = (36.0, 25.0, 16.0)
"""-log of the relative error that a contour is planned for: 15, 11 or 7 digits, the first that is affordable."""

EVERYWHERE = ("listed", "closed form", "residues")
"""Routes that are as good at one epsilon as at another."""


def working_bits(count: int, log_delta: float) -> int:
    """Bits so that powers of ``count`` and answers near e^log_delta keep fifteen digits."""
    return 140 + math.ceil(math.log2(count + 1)) + math.ceil(min(2000.0, -log_delta * 1.45))


# -------------------------------------------------------------------------------------------------------------- routes


def finite_profile(laws: Laws, epsilon: float, log_delta: float) -> tuple[Profile, str]:
    """delta of the finite part, good near the given point, and the name of its route."""
    variance = sum((law.variance * count for law, count in laws if law.variance is not None), arb(0))
    discrete = [(law, count) for law, count in laws if law.atoms is not None]
    continuous = [(law, count) for law, count in laws if law.atoms is None and law.variance is None]
    if not variance.is_zero():
        continuous.append((gaussian_law(variance.sqrt(), None, True), 1))
    draws = sum(count for _, count in continuous)
    tiny = log_tiny(log_delta, sum(count for _, count in laws))
    reasons = []
    if any(law.log_moment is not None for law, _ in laws):
        return _moments_route(laws, epsilon, log_delta), "moments"
    attempts: list[Callable[[], tuple[Profile, str] | None]] = [
        lambda: _listed_route(continuous, discrete, tiny, draws),
        lambda: _residue_route(continuous, discrete, tiny, 60),
        lambda: _integral_route(continuous, discrete, epsilon, log_delta, ASKED[0], tiny),
        lambda: _residue_route(continuous, discrete, tiny, 1200),
        *(
            lambda asked=asked: _integral_route(continuous, discrete, epsilon, log_delta, asked, tiny)
            for asked in ASKED[1:]
        ),
        lambda: (chords_profile([*continuous, *discrete], epsilon, log_delta), "chords"),
    ]
    for attempt in attempts:
        try:
            bounds = attempt()
            if bounds is not None:
                return bounds
        except NotComputable as error:
            reasons.append(str(error))
    raise NotComputable("no rigorous route for this composition: " + "; ".join(dict.fromkeys(reasons)))


def _listed_route(continuous: Laws, discrete: Laws, tiny: float, draws: int) -> tuple[Profile, str] | None:
    if draws > 1:
        return None
    states = listed(discrete, tiny)
    if not continuous:
        return states.delta, "listed"
    single = continuous[0][0].profile
    if single is None:
        return None

    def profile(at: Ball) -> Ball:
        total = sum((mass * single(at - loss) for loss, mass in states.points), arb(0))
        return total + arb(0).union(states.dropped)

    return profile, "closed form"


def _moments_route(laws: Laws, epsilon: float, log_delta: float) -> Profile:
    """Moments add where all are known; what one term's say of its delta can be summed like any other's."""
    known = all(law.closed or law.points or law.log_moment for law, _ in laws)
    orders = moments_profile(laws) if known else None
    try:
        chords = None if len(laws) == 1 and orders else chords_profile(laws, epsilon, log_delta)
    except NotComputable:
        chords = None
    if orders is None and chords is None:
        raise NotComputable("a sum with terms of which only moments are known, and others of which they are not")
    if orders is None or chords is None:
        return orders or chords  # type: ignore[return-value]
    return lambda at: orders(at).min(chords(at))


def _integral_route(
    continuous: Laws, discrete: Laws, epsilon: float, log_delta: float, asked: float, tiny: float
) -> tuple[Profile, str]:
    if any(law.closed is None and law.points is None for law, _ in continuous):
        raise NotComputable("only the profile of one step is known")
    if continuous:
        return contour_profile([*continuous, *discrete], epsilon, log_delta, asked), "contour"
    return _period_route(discrete, epsilon, log_delta, asked, tiny), "lattice"


def _residue_route(continuous: Laws, discrete: Laws, tiny: float, most: int) -> tuple[Profile, str] | None:
    draws = sum(count for _, count in continuous)
    if not 0 < draws <= most or any(law.rational is None for law, _ in continuous):
        return None
    return residue_profile(continuous, listed(discrete, tiny, most=3000)), "residues"


def _period_route(discrete: Laws, epsilon: float, log_delta: float, asked: float, tiny: float) -> Profile:
    """The longest lattice by its period, all other discrete terms listed."""
    lattices = [term for term in discrete if term[0].lattice is not None]
    if not lattices:
        raise NotComputable("many steps of a discrete law that is not a lattice")
    inner = max(lattices, key=lambda term: term[1] * len(term[0].atoms or ()))
    rest = listed([term for term in discrete if term is not inner], tiny, most=3000)
    law, count = inner
    lost = arb(count * law.missing.abs_upper())
    if len(rest.points) == 1:
        shift = rest.points[0][0]
        alone = lattice_profile(law, count, epsilon - float(shift), log_delta, asked)
        return lambda at: rest.points[0][1] * alone(at - shift) + arb(0).union(rest.dropped + lost)
    theta = Guess(discrete).threshold(epsilon)
    own = Guess([inner])
    level = (own(theta * 1.001) - own(theta * 0.999)) / (0.002 * theta)
    alone = lattice_profile(law, count, level, min(0.0, own(theta) - theta * level) - 4.0, asked)

    def profile(at: Ball) -> Ball:
        total = sum((mass * alone(at - loss) for loss, mass in rest.points), arb(0))
        return total + arb(0).union(rest.dropped + lost)

    return profile


# ----------------------------------------------------------------------------------------------------------- read-outs


@dataclass(frozen=True, eq=False)
class BallSum:
    """A composition in one direction. ``laws`` builds its terms at the working precision, for a log delta."""

    laws: Callable[[float], Laws]
    count: int

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) doubles around delta at epsilon."""
        log_delta = -60.0
        for _ in range(3):
            with ctx.workprec(working_bits(self.count, log_delta)):
                laws = self.laws(log_delta)
                infinite = infinite_mass(laws)
                if arb(epsilon) >= highest_loss(laws) or infinite >= 1:
                    return _down(infinite), min(1.0, _up(infinite))
                guess = Guess(laws)
                theta = guess.threshold(epsilon)
                aim = max(-2000.0, min(0.0, guess(theta) - theta * epsilon - 6.0))
                if aim < log_delta - 5.0:
                    log_delta = aim - 10.0
                    continue
                profile, _ = finite_profile(laws, epsilon, min(aim, -1e-9))
                delta = infinite + profile(arb(epsilon)).nonnegative_part()
                return _down(delta), min(1.0, _up(delta))
        raise NotComputable("delta is too small for a rigorous value")

    def epsilon(self, delta: float) -> tuple[float, float]:
        """(lower, upper) doubles around the least epsilon with delta(epsilon) <= delta."""
        if delta >= 1.0:
            return 0.0, 0.0
        log_delta = math.log(delta) if delta > 0.0 else -60.0
        with ctx.workprec(working_bits(self.count, log_delta)):
            laws = self.laws(log_delta)
            left = arb(delta) - infinite_mass(laws)
            if left < 0:
                return math.inf, math.inf
            if not left > 0:
                return _at_the_edge(laws, arb(delta), certain=delta == 0.0, even=bool(left >= 0))
            if delta == 0.0:
                return _highest(laws, certain=True)
            low, high = _crossing(laws, left)
            return low, max(low, min(high, _highest(laws, certain=False)[1]))


def infinite_mass(laws: Laws) -> Ball:
    """prod total_i^{n_i} - prod (total_i - infinite_i)^{n_i}."""
    if all(law.infinite.is_zero() for law, _ in laws):
        return arb(0)
    everything, finite = arb(1), arb(1)
    for law, count in laws:
        everything *= law.total**count
        finite *= (law.total - law.infinite) ** count
    return (everything - finite).min(arb(1))


def highest_loss(laws: Laws) -> Ball:
    """The largest finite loss of the sum, infinite where a term has none."""
    total = arb(0)
    for law, count in laws:
        total += arb.pos_inf() if law.highest is None else law.highest * count
    return total


def _at_the_edge(laws: Laws, delta: Ball, *, certain: bool, even: bool) -> tuple[float, float]:
    """Return epsilon where delta is the mass at infinite loss, up to rounding: the largest loss (``even``), or nothing.

    One law whose H is at delta before its end, as the larger of two may be, is read as a whole.
    """
    low, high = _highest(laws, certain=certain) if even else (0.0, math.inf)
    if certain or len(laws) > 1 or laws[0][1] > 1:
        return low, high
    try:
        return low, min(high, _crossing([(known_by(whole(laws[0][0]), like=laws[0][0]), 1)], delta)[1])
    except NotComputable:
        return low, high


def reached_loss(laws: Laws) -> Ball:
    """What losses of the sum certainly come near to; each term, if nothing is known of it, has losses from 0 on."""
    total = arb(0)
    for law, count in laws:
        total += arb(0) if law.reached is None else law.reached.max(arb(0)) * count
    return total


def _highest(laws: Laws, *, certain: bool) -> tuple[float, float]:
    """No loss is above the second, and if ``certain``, losses come as near to the first as one likes."""
    top, low = highest_loss(laws), reached_loss(laws) if certain else arb(0)
    least = _down(low) if low.is_finite() else math.inf
    return least, max(0.0, _up(top)) if top.is_finite() else math.inf


def _crossing(laws: Laws, target: Ball) -> tuple[float, float]:
    """Doubles e1 < e2 with delta(e1) > target >= delta(e2), both proved; delta never rises."""
    log_target = float(target.log())
    _, near = Guess(laws).mass(log_target)
    for _ in range(4):
        profile, route = finite_profile(laws, near, log_target)
        root = _root(profile, target, near)
        moved, near = abs(root - near), root
        if moved <= 0.05 * (near + 1e-3) or route in EVERYWHERE:
            break
    for gap in (4e-16, 4e-15, 4e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
        low, high = near * (1 - gap), near * (1 + gap) + 1e-300
        if profile(arb(high)) <= target:
            break
    else:
        raise NotComputable("the enclosure of delta is too wide to bracket epsilon")
    for gap in (4e-16, 4e-15, 4e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5):
        low = near * (1 - gap)
        if profile(arb(low)) > target:
            return low, high
    return 0.0, 0.0 if profile(arb(0)) <= target else high


def _root(profile: Profile, target: Ball, near: float) -> float:
    """A double near the crossing, by bisection and secants on log delta; nothing is proved here."""

    def g(e: float) -> float:
        value = profile(arb(e)).upper()
        return float((value / target).log()) if value > 0 else -1e9

    near = max(near, 1e-6)
    low, high, step = near, near, 0.02 * near
    while g(high) > 0.0 and high < 1e8:
        low, high, step = high, high + step, step * 2
    while g(low) <= 0.0:
        if low == 0.0:
            return 0.0
        high, low, step = low, max(0.0, low - step), step * 2
    a, b, fa, fb = low, high, g(low), g(high)
    for turn in range(100):
        if b - a <= 3e-16 * b:
            break
        c = (a * fb - b * fa) / (fb - fa) if turn % 3 != 2 and fa > fb else (a + b) / 2
        if not a < c < b:
            c = (a + b) / 2
        fc = g(c)
        if c in (a, b):
            return c
        if fc > 0:
            a, fa = c, fc
        else:
            b, fb = c, fc
    return (a + b) / 2


def _down(value: Ball) -> float:
    """A double at or below every point of the ball."""
    number = _told(float(value.lower()))
    while not arb(number) <= value:
        number = math.nextafter(number, -math.inf)
    return max(0.0, number)


def _up(value: Ball) -> float:
    """A double at or above every point of the ball."""
    number = _told(float(value.upper()))
    while not arb(number) >= value:
        number = math.nextafter(number, math.inf)
    return number


def _told(number: float) -> float:
    """An operation that ball arithmetic has no answer to is no number, which is on no side of anything."""
    if math.isnan(number):
        raise NotComputable("working precision does not tell the answer from what is undefined")
    return number
