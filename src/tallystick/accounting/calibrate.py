"""Find the parameter at which a loss just meets a goal, on the certified side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput, Refused


@dataclass(frozen=True, slots=True)
class AttackGoal:
    """No test with false-alarm rate ``alpha`` finds more than a share ``power``; built by :func:`attack_goal`."""

    alpha: float
    power: float

    def met_by(self, loss: PrivacyLoss) -> bool:
        """True only when certified: some a has a alpha + H_a <= power, by the lemma of Neyman and Pearson."""
        if self.alpha == 0.0:
            return loss.power(alpha=0.0) <= self.power  # type: ignore[no-any-return]
        low, high = -40.0, 40.0 - math.log(self.alpha)

        def bound(log: float) -> float:
            a = math.exp(log)
            return (a * self.alpha + float(loss.delta(epsilon=log))) * (1.0 + 1e-15)

        for _ in range(60):  # convex in a, so the better of two points tells where the least value is not
            left, right = low + 0.382 * (high - low), high - 0.382 * (high - low)
            values = bound(left), bound(right)
            if min(values) <= self.power:
                return True
            low, high = (low, right) if values[0] <= values[1] else (left, high)
        return False


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
        raise InvalidInput("power", power, f"a number above alpha = {level:g}: guessing finds that many")
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
        raise InvalidInput("posterior", posterior, f"a number above prior = {before:g}")
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
        for upward in (True, False):
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
        raise Refused(f"no parameter between {bottom:g} and {top:g} meets the goal {self.goal}")

    def _safe(self, x: float) -> bool:
        try:
            return self.meets(x)
        except InvalidInput:
            return False

    def narrow(self, good: float, bad: float | None, relative: float) -> Any:
        if bad is None:
            return int(good) if self.integer else good
        while (abs(bad - good) > 1) if self.integer else abs(bad - good) > relative * good:
            middle = math.sqrt(good) * math.sqrt(bad)
            if self.integer:
                middle = float(round(middle))
                if middle in (good, bad):
                    middle = float((int(good) + int(bad)) // 2)
            if not min(good, bad) < middle < max(good, bad):
                break  # no number is between them
            if self.meets(middle):
                good = middle
            else:
                bad = middle
        return int(good) if self.integer else good
