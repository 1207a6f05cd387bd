"""Find the parameter at which a loss just meets a goal, on the certified side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.digits import typed
from tallystick.errors import InvalidInput, Refused


@dataclass(frozen=True, slots=True)
class AttackGoal:
    """No test with false-alarm rate ``alpha`` finds more than a share ``power``; built by :func:`attack_goal`."""

    alpha: float
    power: float

    def met_by(self, loss: PrivacyLoss) -> bool:
        """True only when certified."""
        return self.power_of(loss) <= self.power

    def power_of(self, loss: PrivacyLoss) -> float:
        """A bound on the power: the least a alpha + H_a that was seen, by the lemma of Neyman and Pearson.

        H_a is at least 0 and 1 - a, so that a is between (1 - power)/(1 - alpha) and power/alpha where the goal is met.
        """
        if self.alpha == 0.0:
            return float(loss.power(alpha=0.0))

        def bound(a: float) -> float:
            return (a * self.alpha + float(loss.delta(epsilon=math.log(a)))) * (1.0 + 1e-15)

        low, high = (1.0 - self.power) / (1.0 - self.alpha), self.power / self.alpha
        # At the ends nothing is read: H_a is at most one.
        ends = (low, low * self.alpha + 1.0), (high, high * self.alpha + 1.0)
        return _least_seen(bound, *ends, level=self.power)


GOLDEN = 0.381966
"""The golden section: the share of an interval at which it is cut."""

Point = tuple[float, float]


def _least_seen(function: Callable[[float], float], left: Point, right: Point, level: float) -> float:
    """The least value of a convex function that was seen between two points, of which upper bounds are given.

    Left of the middle of three points the function is above the chord of the other two, extended, and likewise on the
    right. It is looked at until that is close, compared with how far the least value is from the level.
    """
    x = left[0] + GOLDEN * (right[0] - left[0])
    middle = x, function(x)
    for _ in range(60):
        before, after = middle[0] - left[0], right[0] - middle[0]
        fall = max((left[1] - middle[1]) / before * after, (right[1] - middle[1]) / after * before)
        if fall <= max(0.2 * abs(level - middle[1]), 1e-10 * level):
            break
        x = middle[0] + GOLDEN * after if after > before else middle[0] - GOLDEN * before
        tried = x, function(x)
        if tried[1] < middle[1]:
            left, middle, right = (middle, tried, right) if after > before else (left, tried, middle)
        elif after > before:
            right = tried
        else:
            left = tried
        if not left[0] < middle[0] < right[0]:
            break
    return middle[1]


@dataclass(frozen=True, slots=True)
class BeliefGoal:
    """A belief of ``prior`` grows to ``posterior`` at most, but with probability ``delta``; by :func:`belief_goal`."""

    prior: float
    posterior: float
    delta: float

    def met_by(self, loss: PrivacyLoss) -> bool:
        """True only when certified."""
        return loss.posterior(prior=self.prior, delta=self.delta) <= self.posterior  # type: ignore[no-any-return]


def attack_goal(*, alpha: float, power: float) -> AttackGoal:
    """A goal for ``calibrate``: an attacker who accuses a share ``alpha`` of the innocent finds ``power`` at most.

    >>> import tallystick as ts
    >>> sigma = calibrate(lambda s: ts.gaussian(sigma=s), attack_goal(alpha=0.01, power=0.05))
    >>> round(sigma, 3), ts.gaussian(sigma=sigma).power(alpha=0.01) <= 0.05
    (1.467, True)
    """
    level = check.probability("alpha", alpha)
    share = check.probability("power", power)
    if share <= level:
        raise InvalidInput("power", power, f"a number above alpha = {typed(level)}: guessing finds that many")
    return AttackGoal(level, share)


def belief_goal(*, prior: float, posterior: float, delta: float = 0.0) -> BeliefGoal:
    """A goal for ``calibrate``: a belief of ``prior`` grows to ``posterior`` at most, but with probability ``delta``.

    >>> import tallystick as ts
    >>> scale = calibrate(lambda s: ts.laplace(scale=s), belief_goal(prior=0.01, posterior=0.05))
    >>> round(scale, 3)
    0.606
    """
    before = check.inside("prior", prior)
    after = check.probability("posterior", posterior)
    if after <= before:
        raise InvalidInput("posterior", posterior, f"a number above prior = {typed(before)}")
    return BeliefGoal(before, after, check.probability("delta", delta))


def calibrate(
    f: Callable[[Any], PrivacyLoss],
    goal: PrivacyLoss | AttackGoal | BeliefGoal,
    *,
    low: float | None = None,
    high: float | None = None,
    integer: bool = False,
    relative: float = 1e-7,
) -> Any:
    """The least noise (or the most steps) whose certified loss is still ``<= goal``.

    The goal is a loss (any: ``approx_dp``, ``zcdp``, ``from_tradeoff``, ``from_profile``, ...), an attacker's operating
    point (``attack_goal``) or a belief (``belief_goal``).
    The loss must be monotone in the parameter; the direction is found by trying. With noise (larger is more
    private) the smallest parameter is returned; with steps (``integer=True``, larger is less private) the largest.

    >>> import tallystick as ts
    >>> goal = ts.approx_dp(epsilon=1, delta=1e-6)
    >>> sigma = ts.calibrate(lambda s: ts.gaussian(sigma=s), goal)
    >>> bool(ts.gaussian(sigma=sigma) <= goal), round(sigma, 4)
    (True, 4.2247)
    >>> ts.calibrate(lambda n: n * ts.gaussian(sigma=20), goal, integer=True)
    22
    """
    if not callable(f):
        raise InvalidInput("f", f, "a function from a parameter to a PrivacyLoss")
    if not isinstance(goal, PrivacyLoss | AttackGoal | BeliefGoal):
        raise InvalidInput(
            "goal", goal, "a PrivacyLoss such as approx_dp(epsilon=2, delta=1e-6), attack_goal(...) or belief_goal(...)"
        )
    bottom = check.positive("low", low) if low is not None else (1.0 if integer else 1e-4)
    top = check.positive("high", high) if high is not None else 1e9
    if not bottom < top:
        raise InvalidInput("low", low, "a number below high")
    width = check.positive("relative", relative, "a number > 0: how near to the best parameter")
    search = _Search(f, goal, integer)
    start = min(max(bottom, 1.0), top)
    good, bad = search.bracket(start, bottom, top)
    return search.narrow(good, bad, width)


NEAR = 1e-2
"""Logarithm of good over bad below which delta is read closely, and a line between both ends is the best guide."""


class _Search:
    """Bracketing and bisection (in the logarithm) on the certified predicate ``f(x) <= goal``."""

    def __init__(
        self, f: Callable[[Any], PrivacyLoss], goal: PrivacyLoss | AttackGoal | BeliefGoal, integer: bool
    ) -> None:
        self.f, self.goal, self.integer = f, goal, integer

    def meets(self, x: float) -> bool:
        loss = self._loss(x)
        return loss <= self.goal if isinstance(self.goal, PrivacyLoss) else self.goal.met_by(loss)

    def _loss(self, x: float) -> PrivacyLoss:
        loss = self.f(int(x) if self.integer else x)
        if not isinstance(loss, PrivacyLoss):
            raise InvalidInput("f", loss, "a function that returns a PrivacyLoss")
        return loss

    def bracket(self, start: float, bottom: float, top: float) -> tuple[float, float | None]:
        """A parameter that meets the goal, and the nearest tried one that does not (None: all do)."""
        inside = self.meets(start)
        # More noise is more private and more steps are less: the likelier way is tried first.
        first = inside == self.integer
        for upward in (first, not first):
            x, previous = start, start
            while (x < top) if upward else (x > bottom):
                x = min(x * 4.0, top) if upward else max(x / 4.0, bottom)
                if self.integer:
                    x = float(max(1, round(x)))
                if x == previous:
                    break
                try:
                    fine = self.meets(x)
                except InvalidInput:
                    break
                if fine != inside:
                    return (previous, x) if inside else (x, previous)
                previous = x
        if inside:
            ends = [x for x in (bottom, top) if self._safe(x)] or [start]
            least = ends[0] if self._loss(ends[-1]) <= self._loss(ends[0]) else ends[-1]
            return least, None
        raise Refused(f"no parameter between {typed(bottom)} and {typed(top)} meets the goal {self.goal}")

    def _safe(self, x: float) -> bool:
        try:
            return self.meets(x)
        except InvalidInput:
            return False

    def narrow(self, good: float, bad: float | None, relative: float) -> Any:
        if bad is None:
            return int(good) if self.integer else good
        if not self.integer:
            return self._closer(good, bad, relative)
        while abs(bad - good) > 1:
            middle = float(round(math.sqrt(good) * math.sqrt(bad)))
            if middle in (good, bad):
                middle = float((int(good) + int(bad)) // 2)
            good, bad = (middle, bad) if self.meets(middle) else (good, middle)
        return int(good)

    def _closer(self, good: float, bad: float, relative: float) -> float:
        """Bisection in the logarithm, or the secant where the distance to the goal is a number (``_judged``)."""
        heights: dict[bool, float | None] = {True: self._judged(good)[1], False: self._judged(bad)[1]}
        before = None
        while abs(bad - good) > relative * good:
            way = math.log(bad / good)
            middle = good * math.exp(_guess(way, heights[True], heights[False], relative))
            if not min(good, bad) < middle < max(good, bad):
                middle = math.sqrt(good) * math.sqrt(bad)
            if not min(good, bad) < middle < max(good, bad):
                break  # no number is between them
            near = abs(way) < NEAR
            fine, height = self._judged(middle, near)
            good, bad = (middle, bad) if fine else (good, middle)
            heights[fine], other = height, heights[not fine]
            if fine is before and other is not None and not near:
                heights[not fine] = 0.5 * other  # the same end twice: the next guess is pulled to the other one
            before = fine
        return good

    def _judged(self, x: float, closely: bool = False) -> tuple[bool, float | None]:
        """Whether the goal is met, and the logarithm of how far the loss is above it, where that is one number."""
        if isinstance(self.goal, AttackGoal):
            power = self.goal.power_of(self._loss(x))
            return power <= self.goal.power, math.log(max(power, 1e-300) / self.goal.power)
        return self.meets(x), None if isinstance(self.goal, BeliefGoal) else self._excess(self.goal, x, closely)

    def _excess(self, goal: PrivacyLoss, x: float, closely: bool) -> float | None:
        """log of delta over the goal's, roughly: the comparison before has read most of it."""
        from tallystick.accounting.order import goal_point
        from tallystick.accounting.readout import reader

        loss, point = self._loss(x), goal_point(goal)
        if point is None or point[1] == 0.0 or loss.group > 1:
            return None
        delta = reader(loss).rough_delta(point[0], closely)
        return math.log(delta) - math.log(point[1]) if delta > 0.0 else None


def _guess(way: float, good: float | None, bad: float | None, relative: float) -> float:
    """How far to go from the good end: half the way, or to where a line between the two heights is zero.

    There a little further from the nearer end, so that it comes to lie on the other side, where it is decided easily.
    """
    if good is None or bad is None or not -math.inf < good <= 0.0 < bad < math.inf:
        return 0.5 * way
    share = good / (good - bad)
    share += (0.45 if share < 0.5 else -0.45) * min(1.0, relative / abs(way))
    return min(max(share, 0.01), 0.99) * way
