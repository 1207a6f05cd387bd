"""Writes certificates: a claim about a loss, with the parameters by which a stranger's checker proves it.

The number claimed is what the checker itself proves with these parameters (``tallystick.certificate``), so it is a
rounding above what it would not accept. Doubles and the accountant's own number only choose the parameters and tell
when to stop: a bad choice makes the claim weaker, never wrong. docs/theory/certificates.md has the proof.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf, LossLattice
from tallystick.digits import typed
from tallystick.errors import InvalidInput, NotComputable, Refused, Unavailable
from tallystick.regular_file import write_whole

try:
    from flint import arb, ctx

    from tallystick.certificate import checker
    from tallystick.numerics.rigorous.sketch import KNOTS, LEFT_OUT, Sketch, sketched, tilt_and_period
except ImportError as problem:
    raise Unavailable(
        "certificates need ball arithmetic, which is not installed: pip install '.[rigorous]'"
    ) from problem

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

FIRST_SIZE, LAST_SIZE = 2**11, 2**18
"""Points of the lattices that are tried."""
MOST_SECONDS, KNOT_SECONDS, POINT_SECONDS = 3.0, 3.5e-5, 6e-6
"""Processor time that is planned, and that of a knot and of a point of a transform; the checker accepts more."""
LARGEST_EPSILON = checker.LIMITS["epsilon"][1]
"""Of a claim that the checker reads."""
STEEPEST = 20.0
"""The most by which a tilt may raise the next knot of a lattice: e to this power."""
CLOSE = 3e-7
"""Relative distance from the accountant's own number at which a finer lattice is not worth its time."""
NARROW = 1e-11
"""Relative distance of the claim from what the checker would not prove."""
LEAST = 1e-7
"""The same, absolute: a claim that is lowered by 1e-6 is not proved, however large it is."""
SPARE = 1e-6
"""Tilted mass at each end that may stand on sparse knots: what its chords add is less than what all others do."""

Ball = Any
Route = dict[str, Any]
Term = tuple["Sketch", LossLattice | None]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A claim (epsilon, delta) about a loss and the route of its proof; ``tallystick certificate check`` verifies it.

    >>> import tallystick as ts
    >>> proof = ts.gaussian(sigma=1).certificate(delta=1e-5)
    >>> round(proof.epsilon, 6), proof.verify()[:7]
    (4.377178, 'epsilon')
    """

    text: str

    def _read(self) -> dict[str, Any]:
        try:
            return checker.read(self.text)
        except checker.Malformed as found:
            raise InvalidInput("certificate", str(found), f"a certificate of format {checker.FORMAT}") from None

    @property
    def epsilon(self) -> float:
        """The epsilon that is claimed."""
        return float(self._read()["claim"]["epsilon"])

    @property
    def delta(self) -> float:
        """The delta that is claimed."""
        return float(self._read()["claim"]["delta"])

    @property
    def loss(self) -> PrivacyLoss:
        """The loss that the claim is about."""
        from tallystick.accounting.loss import PrivacyLoss

        return PrivacyLoss.from_json(json.dumps(self._read()["loss"]))

    @property
    def about(self) -> str:
        """The loss as an expression, and whom it protects."""
        return f"{self.loss} ({self.loss.adjacency}{'' if self.loss.unit is None else f', one {self.loss.unit}'})"

    @property
    def hash(self) -> str:
        """SHA-256 of the text, by which a card or a receipt names it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def write(self, path: str | Path) -> Path:
        """Write the JSON file that a stranger checks."""
        return write_whole(path, self.text)

    def verify(self) -> str:
        """What the checker proves of it, in words. It reads the text alone.

        InvalidInput if the text is not a certificate, Refused if it does not prove its claim.
        """
        try:
            return checker.check(self.text)
        except checker.Malformed as found:
            raise InvalidInput("certificate", str(found), f"a certificate of format {checker.FORMAT}") from None
        except checker.Unproved as found:
            raise Refused(f"the certificate does not prove its claim: {found}") from None


def certificate(loss: PrivacyLoss, *, epsilon: float | None, delta: float | None) -> Certificate:
    """A certificate at one of the two (see ``PrivacyLoss.certificate``)."""
    if (epsilon is None) == (delta is None):
        raise InvalidInput("delta", delta, "either delta= or epsilon=, and not both")
    if epsilon is None:
        at = check.probability("delta", delta)
        if at == 1.0:
            raise InvalidInput("delta", delta, "a delta below 1: at 1 every release is allowed")
        near = loss.epsilon(delta=at)
        goal = Goal(near, at, at, True)
    else:
        at = check.nonnegative("epsilon", epsilon)
        near = loss.delta(epsilon=at)
        goal = Goal(at, near, None, False)
    if not math.isfinite(goal.epsilon):
        raise NotComputable("no epsilon is enough at this delta, so there is nothing to certify")
    if goal.epsilon > LARGEST_EPSILON:
        raise NotComputable(f"the checker reads no epsilon above {typed(LARGEST_EPSILON)}")
    record = json.loads(loss.to_json())
    try:
        text = _text(record, *_refined(_sides(loss, record, goal), goal))
        checker.read(text)  # parameters beyond its limits are not written either
        return Certificate(text)
    except (checker.Malformed, checker.Unproved) as found:
        raise NotComputable(f"no certificate for this loss: {found}") from None


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be claimed: epsilon and delta as the accountant has them, one of them given."""

    epsilon: float
    delta: float
    given_delta: float | None
    for_epsilon: bool

    @property
    def near(self) -> float:
        """The accountant's own number."""
        return self.epsilon if self.for_epsilon else self.delta


def _text(record: Mapping[str, Any], epsilon: float, delta: float, routes: Mapping[str, Route]) -> str:
    claim = {"epsilon": epsilon, "delta": delta, "adjacency": record["adjacency"], "unit": record["unit"]}
    body = {"format": checker.FORMAT, "loss": record, "claim": claim, "route": routes}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _refined(sides: list[Side], goal: Goal) -> tuple[float, float, dict[str, Route]]:
    """The claim, once the direction that decides it is close to the accountant's number or as fine as may be."""
    left = MOST_SECONDS
    for side in sides:
        left -= side.refine(left / len(sides)) or 0.0
    while True:
        worst = max(sides, key=lambda side: side.value)
        if worst.value <= goal.near * (1.0 + CLOSE):
            break
        if goal.for_epsilon and 0.0 < 1e3 * goal.near < worst.value:
            raise NotComputable("too many releases: the chords of a lattice say nothing about their sum")
        spent = worst.refine(left if len(sides) == 1 else 0.75 * left)
        if spent is None:
            break
        left -= spent
    if not math.isfinite(worst.value):
        raise NotComputable("no lattice that is small enough proves an epsilon for this loss")
    epsilon, delta = (worst.value, goal.delta) if goal.for_epsilon else (goal.epsilon, worst.value)
    if epsilon > LARGEST_EPSILON:
        raise NotComputable(f"the checker reads no epsilon above {typed(LARGEST_EPSILON)}")
    if not all(side.proves(epsilon, delta) for side in sides):
        raise NotComputable("the lattices of both directions do not prove one claim")
    return epsilon, delta, {side.way: side.route for side in sides}


def _sides(loss: PrivacyLoss, record: Mapping[str, Any], goal: Goal) -> list[Side]:
    with ctx.workprec(128):
        terms = checker.terms_of(record)
    ways = ("remove",) if all(one.add is one.remove for one, _ in terms) else ("remove", "add")
    leaves = [leaf for leaf, _ in loss.terms if leaf.gaussian_mu is None]
    return [Side(record, way, goal, [None] * (len(terms) - len(leaves)) + leaves) for way in ways]


# ------------------------------------------------------------------------------------------------------ one direction


@dataclass
class Side:
    """One direction of the loss, on a lattice that can be made finer."""

    record: Mapping[str, Any]
    way: str
    goal: Goal
    leaves: list[Leaf | None]
    """Of the checker's terms; None where they merged."""
    value: float = math.inf
    """What is proved of the claimed number so far."""
    route: Route = field(default_factory=dict)
    delta_at: Callable[[Fraction], Ball] = field(default=lambda epsilon: arb(1))
    """What the route proves of delta."""
    size: int = 0
    """Points of the last lattice."""
    stretch: float = 1.0
    """Periods in which the tilted law is told, in units of the planned one."""

    def refine(self, seconds: float) -> float | None:
        """Prove the number on the next finer lattice; the seconds planned for it, or None where there is none."""
        if self.route.get("by") in ("formula", "order"):
            return None
        digits = -math.log2(max(self.goal.delta, 1e-300))
        bits = 128 if digits < 80.0 else min(128 + math.ceil(digits), checker.WHOLE["bits"][1])
        with ctx.workprec(bits):
            terms = checker.terms_of(self.record)
            if any(one.mu is None for one, _ in terms) and all(one.divergence is not None for one, _ in terms):
                best = _best_order(terms, self.leaves, bits, Fraction(self.goal.epsilon))
                self._take(best, partial(checker.delta_by, terms, self.way, best))
                return 0.0
            if len(terms) <= 1 and all(count == 1 for _, count in terms):
                formula = {"by": "formula", "bits": bits}
                self._take(formula, partial(checker.delta_by, terms, self.way, formula))
                return 0.0
            sketches = self._sketches(terms)
            size = self._next_size()
            while size > self.size:
                route: Route = {"by": "lattice", "bits": bits, **_planned(sketches, self.goal, size, self.stretch)}
                cost = _seconds(route)
                if cost <= seconds and route["step"] >= 1e-9:
                    expected = (self.value - self.goal.near) * (self.size / size) ** 2
                    self._take(route, checker.lattice(terms, self.way, route).delta)
                    # What does not fall with the step's square comes from a period that is too short.
                    stalled = self.size > 0 and self.value - self.goal.near > 8.0 * expected
                    self.size, self.stretch = (size // 2, 2.0 * self.stretch) if stalled else (size, self.stretch)
                    return cost
                size //= 2
            return None

    def _take(self, route: Route, delta_at: Callable[[Fraction], Ball]) -> None:
        """Use a route unless an earlier one proves more."""
        if self.goal.given_delta is None:
            value = _double_above(delta_at(Fraction(self.goal.epsilon)))
        else:
            near = self.value if math.isfinite(self.value) else self.goal.epsilon
            value = least_epsilon(delta_at, self.goal.given_delta, near)
        if value < self.value or not self.route:
            self.value, self.route, self.delta_at = value, route, delta_at

    def proves(self, epsilon: float, delta: float) -> bool:
        """Whether the checker will accept the claim in this direction."""
        with ctx.workprec(self.route["bits"]):
            return bool(arb(delta) >= self.delta_at(Fraction(epsilon)))

    def _sketches(self, terms: checker.Terms) -> list[Term]:
        tiny = LEFT_OUT / sum(count for _, count in terms)
        found = []
        for (one, count), leaf in zip(terms, self.leaves, strict=True):
            height, natural = getattr(one, self.way), None if leaf is None else leaf.loss_lattice(Direction(self.way))
            infinite = float(height(arb(1e6)).upper()) * (1.0 + 1e-9)
            sketch = sketched(height, one.total, count, tiny, self.goal.delta, infinite)
            found.append((sketch if natural is None else replace(sketch, low=min(sketch.low, natural[0])), natural))
        return found

    def _next_size(self) -> int:
        """What chords add falls with the square of the step: as many points as bring it close, or may be."""
        if self.size == 0:
            return FIRST_SIZE
        far = (self.value - self.goal.near) / max(CLOSE * self.goal.near, 1e-300)
        wanted = self.size * 2 ** math.ceil(0.5 * math.log2(far) + 0.5) if 1.0 < far < 1e12 else 4 * self.size
        return min(max(wanted, 2 * self.size), LAST_SIZE)


def _best_order(terms: checker.Terms, leaves: list[Leaf | None], bits: int, epsilon: Fraction) -> Route:
    """The order whose conversion gives the least delta at epsilon, as far as doubles can tell."""

    def route(order: float) -> Route:
        return {"by": "order", "bits": bits, "order": order}

    def log_delta(order: float) -> float:
        return float(checker.delta_by(terms, "remove", route(order), epsilon).log())

    given = [leaf.known_orders for leaf in leaves if leaf is not None]
    listed = [order for orders in given for order in orders]
    most = min((max(orders) for orders in given if orders), default=1e7)
    grid = [1.0 + step for step in np.geomspace(1e-6, most - 1.0, 300).tolist()]
    best = min((order for order in [*grid, *listed] if order <= most), key=log_delta)
    width = math.log(grid[-1] / grid[-2]) * (best - 1.0)
    for _ in range(60):
        best = min((best, best - width, best + width), key=lambda at: log_delta(at) if 1.0 < at <= most else math.inf)
        width *= 0.7
    return route(best)


def _double_above(ball: Ball) -> float:
    found = float(ball.upper())
    if math.isnan(found):
        raise NotComputable("working precision does not tell delta from what is undefined")
    while not arb(found) >= ball:
        found = math.nextafter(found, math.inf)
    return max(0.0, found)


def least_epsilon(delta_at: Callable[[Fraction], Ball], delta: float, near: float) -> float:
    """A double at which delta is proved, and not proved a little below; infinity where there is none in reach."""

    def excess(epsilon: float) -> float:
        """Positive where delta is not proved; about its logarithm over the target's."""
        found = delta_at(Fraction(epsilon))
        proved = found <= arb(delta)
        size = float(found.upper())
        log = math.log(min(size / delta, 1e300)) if delta > 0.0 and size > 0.0 else 0.0
        return min(log, -1e-16) if proved else max(log, 1e-16)

    high, step = near * (1.0 + NARROW), max(1e-3 * near, 1e-9)
    low, over, under = high, math.inf, excess(high)
    for _ in range(40):
        if under <= 0.0:
            break
        low, over, high, step = high, under, high + step, 8.0 * step
        under = excess(high)
    else:
        return math.inf
    while math.isinf(over):
        if low == 0.0:
            return 0.0
        low, step = max(0.0, low - step), 3.0 * step
        found = excess(low)
        if found > 0.0:
            over = found
        else:
            high, under = low, found
    last = 0.0
    for turn in range(100):
        apart = min(NARROW * max(high, 1e-3), LEAST)
        # Where a line meets zero, and a little to the other side, so that both ends come close to it.
        middle = low + over / (over - under) * (high - low) + (0.4 * apart if turn % 2 == 0 else -0.4 * apart)
        if turn % 6 == 5 or not low + 0.1 * apart < middle < high - 0.1 * apart:
            middle = 0.5 * (low + high)
        if high - low <= apart or not low < middle < high:
            break
        found = excess(middle)
        # An end that stays counts half as much (the Illinois rule): a convex curve is met from one side only.
        if found <= 0.0:
            high, under, over = middle, found, 0.5 * over if last < 0.0 else over
        else:
            low, over, under = middle, found, 0.5 * under if last > 0.0 else under
        last = found
    return high


# ------------------------------------------------------------------------------------------------- choice of a lattice


def _planned(terms: list[Term], goal: Goal, size: int, stretch: float) -> Route:
    """Parameters of a lattice of this size, except for its bits."""
    sketches = [sketch for sketch, _ in terms]
    tilt, period, _ = tilt_and_period(sketches, goal.epsilon, goal.delta)
    reach = sum(one.count * (one.high - one.low) for one in sketches)
    step = min(stretch * period, reach) / (size - 4.0 - len(sketches))
    leading = max(terms, key=lambda one: one[0].count)[1]
    if leading is not None and leading[1] >= step:
        step = leading[1] / (1.0 if len(sketches) == 1 and leading[2] else math.floor(leading[1] / step))
    # Near the largest loss no tilt is too far, but the rounding of a knot that has no mass grows with it.
    tilt = min(tilt, STEEPEST / step)
    return {"step": step, "tilt": tilt, "size": size, "terms": [_place(*one, step, tilt) for one in terms]}


def _seconds(route: Route) -> float:
    knots = sum(sum(term[1:]) for term in route["terms"])
    points = (len(route["terms"]) + 1) * route["size"]
    return float(route["bits"] / 128.0 * (KNOT_SECONDS * knots + POINT_SECONDS * points))


def _place(sketch: Sketch, natural: LossLattice | None, step: float, tilt: float) -> list[float]:
    """Origin and knots: up to the largest loss, which rounding may have put behind the knot that meant it."""
    if natural is not None and abs(natural[1] / step - round(natural[1] / step)) < 1e-9:
        low = natural[0]
    else:
        low = math.floor(sketch.low / step) * step
    knots = max(2, math.ceil((sketch.high - low) / step - 1e-9) + 1)
    if Fraction(low) + (knots - 1) * Fraction(step) < Fraction(sketch.high):
        knots += 1
    if natural is not None or knots < 1000:
        return [low, 0, knots, 0]
    share = sketch.tilted(tilt)[3]
    first = sketch.losses[max(0, int(np.searchsorted(share, SPARE)) - 1)]
    last = sketch.losses[min(int(np.searchsorted(share, 1.0 - SPARE)) + 1, KNOTS - 1)]
    before = max(0, int((first - low) / step) // checker.SPARSE)
    after = max(0, int((low + knots * step - last) / step) // checker.SPARSE)
    dense = max(2, knots - checker.SPARSE * (before + after))
    return [low, before, dense, after]
