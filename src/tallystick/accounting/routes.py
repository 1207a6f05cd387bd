"""The ways to a number. Each route bounds delta and epsilon of one composition from both sides, or does not apply.

``OneDirection`` asks them in order, cheapest first, meets their answers and stops where they are narrow enough. A route
knows nothing of the others; a new one is a class here and its place in ``routes_of``.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from tallystick.accounting import gdp
from tallystick.accounting.beside import Beside
from tallystick.accounting.bounds import WIDTH, Bounds
from tallystick.accounting.compose import Direct
from tallystick.accounting.leaves.renyi import delta_of, log_delta
from tallystick.rounding import NORMAL

if TYPE_CHECKING:
    from tallystick.accounting.direction import OneDirection


@dataclass(frozen=True, slots=True)
class Route:
    """One way to bound a composition; None where it has no answer."""

    whole: OneDirection
    words: ClassVar[str]
    """What ``explain_computation`` says of it."""
    decisive: ClassVar[bool] = False
    """True if no other route runs once it has answered."""
    most: ClassVar[int | None] = None
    """Points of one curve at which it is asked every time, where each costs as much as the first; then now and then."""
    seldom: ClassVar[int] = 4
    """Then it is asked at one point in this many."""
    engine: ClassVar[bool] = False
    """True if it reads the composed law itself."""

    def delta(self, epsilon: float, width: float) -> Bounds | None:
        """Bounds on delta at epsilon >= 0, about as narrow as ``width``."""
        return None

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        """Bounds on epsilon at a delta between the mass at infinity and one."""
        return None

    def wanted(self, best: Bounds) -> bool:
        """True if it may still help, given what the routes before it found."""
        return True

    def sharp_above(self, epsilon: float, width: float) -> bool:
        """True if its last upper bound is as good as it gets, for every lower bound.

        Between two laws of a bracketed pair no other engine says more about the upper one.
        """
        return self.engine and not self.whole.close


class NoRelease(Route):
    """No release."""

    words = "there is nothing to compute: no loss"
    decisive = True
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds:
        return Bounds(0.0, 0.0)

    def epsilon(self, delta: float, width: float) -> Bounds:
        return Bounds(0.0, 0.0)


class Gaussian(Route):
    """All terms are Gaussian."""

    words = "closed form: all terms are Gaussian and merge into one"
    decisive = True
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds:
        bounds = gdp.delta_bounds(self.whole.mu, epsilon)
        below = bounds if self.exact else gdp.delta_bounds(self.whole.mu_below, epsilon)
        return Bounds(min(below.lower, bounds.upper), bounds.upper)

    def epsilon(self, delta: float, width: float) -> Bounds:
        if self.exact:
            return gdp.epsilon_bounds(self.whole.mu, delta)
        upper = gdp.epsilon_upper(self.whole.mu, delta)
        return Bounds(min(gdp.epsilon_bounds(self.whole.mu_below, delta).lower, upper), upper)

    @property
    def exact(self) -> bool:
        """False if mu was computed and rounded up: then its lower ends are of one that was rounded down."""
        return self.whole.mu_below == self.whole.mu


@dataclass(frozen=True, slots=True)
class SingleRelease(Route):
    """One release, by its own law."""

    law: Direct
    words: ClassVar[str] = "closed form: one release, its profile is integrated directly"
    decisive: ClassVar[bool] = True

    def delta(self, epsilon: float, width: float) -> Bounds:
        return self.law.delta_bounds(epsilon)

    def epsilon(self, delta: float, width: float) -> Bounds:
        return self.law.epsilon_bounds(delta, width)


class Enumerated(SingleRelease):
    """Few joint outcomes."""

    words = "exact: every joint outcome is listed"
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BesideOutcomes(Route):
    """One release, by its own law, at each outcome of the others."""

    sums: Beside
    words: ClassVar[str] = "closed form: one release is integrated directly, at each joint outcome of the others"
    decisive: ClassVar[bool] = True

    def delta(self, epsilon: float, width: float) -> Bounds:
        return self.sums.delta_bounds(epsilon)

    def epsilon(self, delta: float, width: float) -> Bounds:
        return self.sums.epsilon_bounds(delta, width)


class LargestLoss(Route):
    """No finite loss is larger."""

    words = "no loss is larger than the sum of the largest"
    __slots__ = ()

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        return Bounds(self.whole.just_below(delta), self.whole.highest)


class TotalVariation(Route):
    """Total variation distances add at most, and delta is never above their sum."""

    words = "total variation distances add at most"
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds:
        return Bounds(0.0, self.whole.total_variation)


class RenyiCurve(Route):
    """The best order of the curves' sum."""

    words = "conversion of a Renyi curve, optimised over the order (only an upper bound is known)"
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds:
        best = self.whole.best_order(lambda theta, level: log_delta(level, theta) - theta * epsilon)
        return Bounds(0.0, min(1.0, self.whole.infinity * (1.0 + 1e-15) + float(delta_of(best))))

    def epsilon(self, delta: float, width: float) -> Bounds:
        left = math.log(delta - self.whole.infinity)
        best = self.whole.best_order(lambda theta, level: (log_delta(level, theta) - left) / theta)
        return Bounds(0.0, max(0.0, best * (1.0 + 1e-12)))


class GaussianAbove(Route):
    """Every leaf is under a Gaussian, and Gaussians merge."""

    words = "a Gaussian that dominates every term"
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds:
        return Bounds(0.0, gdp.delta_bounds(self.whole.mu_above, epsilon).upper)

    def epsilon(self, delta: float, width: float) -> Bounds:
        return Bounds(0.0, gdp.epsilon_bounds(self.whole.mu_above, delta).upper)


class CertainlyZero(Route):
    """delta at epsilon 0 is small enough."""

    words = "delta is not above this even at epsilon 0"
    decisive = True
    __slots__ = ()

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        return Bounds(0.0, 0.0) if self.whole.saddle.surely_zero(delta) else None


class Grid(Route):
    """The tilted grid."""

    words = "tilted grid: losses on a small lattice, or a contour that decays too slowly; added by FFT"
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds:
        grid = self.whole.grid
        return grid.delta_nearby(epsilon) if self._shared(width) else grid.delta_bounds(epsilon)

    def _shared(self, width: float) -> bool:
        return width > WIDTH and not self.whole.grid.small_lattice

    def sharp_above(self, epsilon: float, width: float) -> bool:
        return self._shared(width) and self.whole.grid.sharp_nearby(epsilon, 100.0 * width)

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        return None if delta < NORMAL else self.whole.grid.epsilon_bounds(delta, width)


class GridForCurves(Grid):
    """The grid for a whole curve: one grid serves many points, and each blur only one."""

    words = "one tilted grid for the whole curve; losses added by FFT"
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds | None:  # type: ignore[override]
        return Grid.delta(self, epsilon, width) if width > WIDTH else None

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        return None


class Contour(Route):
    """The contour integral where it converges by itself."""

    words = "contour integral of the characteristic function, every error bounded and added"
    engine = True
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds | None:
        return self.whole.saddle.plain_delta(epsilon)

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        return self.whole.saddle.plain_epsilon(delta)


class Blurred(Route):
    """The contour integral of a profile that is blurred a little, from both sides."""

    words = "contour integrals of two slightly blurred profiles, which bound the profile from both sides"
    engine = True
    most = 60
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds | None:
        return self.whole.saddle.blurred_delta(epsilon, width)

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        return self.whole.saddle.blurred_epsilon(delta, width)


class Markov(Route):
    """Markov's inequality under one tilt: rough, and the end of it where delta is smaller than doubles can say."""

    words = "Markov's inequality under one tilt"
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds:
        return Bounds(0.0, self.whole.markov(epsilon))


class Trimmed(Route):
    """The contour without the rarest losses, which are charged as mass at infinity."""

    words = "contour integral without the rarest losses, which are added to delta"
    most = 4
    seldom = 8
    __slots__ = ()

    def delta(self, epsilon: float, width: float) -> Bounds | None:
        saddle = self.whole.saddle
        plain = saddle.delta_bounds(epsilon, width)
        best = Bounds(0.0, min(self.whole.markov(epsilon), 1.0 if plain is None else plain.upper))
        answered = False
        for _ in range(2):
            # Once the rarest losses are gone the estimate of delta falls, and more can go.
            trimmed = saddle.trimmed(best.upper)
            bounds = None if trimmed is None else trimmed.delta_bounds(epsilon, width)
            if bounds is None:
                break
            best, answered = best.meet(bounds), True
            if self.whole.enough(best, 30.0 * width):
                break
        return best if answered else None

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        trimmed = self.whole.saddle.trimmed(delta)
        return None if trimmed is None else trimmed.epsilon_bounds(delta)


class OutcomesBelow(Route):
    """The lower pairs outcome by outcome: a bound from below where no engine has one."""

    words = "the outcomes that are certain, listed: a bound from below"
    __slots__ = ()

    def wanted(self, best: Bounds) -> bool:
        return best.lower == 0.0

    def delta(self, epsilon: float, width: float) -> Bounds | None:
        listed = self.whole.listed_below
        return None if listed is None else Bounds(listed.lower(epsilon), 1.0)

    def epsilon(self, delta: float, width: float) -> Bounds | None:
        listed = self.whole.listed_below
        return None if listed is None else Bounds(listed.epsilon_bounds(delta).lower, math.inf)


PATIENCE = 4
"""Points of a curve in a row at which a costly route may bring nothing, before it is left out."""


@dataclass(slots=True)
class Patience:
    """Which costly routes are asked at a point of one curve: chords reach over the points where they were not."""

    idle: Counter[str] = field(default_factory=Counter)
    """Points in a row at which each route brought nothing."""
    points: Counter[str] = field(default_factory=Counter)
    """Points at which it was wanted."""

    def asks(self, route: Route) -> bool:
        if route.most is None and not route.engine:
            return True
        self.points[route.words] += 1
        idle, points = self.idle[route.words] >= PATIENCE, self.points[route.words]
        if route.most is None:
            return not idle or points % route.seldom == 0  # it may converge nearer to zero
        return not idle and (points <= route.most or (points - route.most) % route.seldom == 0)

    def saw(self, route: Route, helped: bool) -> None:
        self.idle[route.words] = 0 if helped else self.idle[route.words] + 1


def routes_of(whole: OneDirection) -> tuple[Route, ...]:
    """The routes that apply to a composition, cheapest first."""
    if not whole.terms:
        return (NoRelease(whole),)
    if whole.gaussian:
        return (Gaussian(whole),)
    if whole.single is not None:
        return (LargestLoss(whole), SingleRelease(whole, whole.single))
    if whole.listed is not None:
        return (LargestLoss(whole), Enumerated(whole, whole.listed))
    rough: list[Route] = [LargestLoss(whole), TotalVariation(whole)] if whole.composed else []
    if whole.bracketed:
        rough.append(RenyiCurve(whole))
    if not whole.composed:
        return tuple(rough)
    if math.isfinite(whole.mu_above):
        rough.append(GaussianAbove(whole))
    if whole.beside is not None:
        return (*rough, BesideOutcomes(whole, whole.beside))
    sharp: list[Route] = [Blurred(whole), Markov(whole), Trimmed(whole)]
    if whole.grid.small_lattice:
        engines = [Grid(whole), Contour(whole), *sharp]
    elif whole.close:
        engines = [Contour(whole), GridForCurves(whole), *sharp, Grid(whole)]
    else:
        # Between the two laws of a bracketed pair there is nothing to sharpen, and the grid is quicker than a blur.
        engines = [Contour(whole), Grid(whole), *sharp]
    return (*rough, CertainlyZero(whole), *engines, OutcomesBelow(whole))
