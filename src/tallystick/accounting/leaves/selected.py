"""The best of a random number of runs: what choosing by a private score among fresh runs of one mechanism costs.

K is drawn from a public law with generating function phi, every run is the base mechanism with its own randomness, and
the run with the best score comes out (the score is part of what a run releases). The winner's density is
q(y) phi'(Q(y)), Q the share of runs that score no better. With t = 1 - Q, and g(t) the largest probability under the
neighbour of what has probability t here,

    delta(epsilon)  <=  E max over t of (phi'(1 - t) - phi'(1 - g(t)) e^{epsilon - L})_+ ,

L the base's loss: the profile of the base, mixed over shifts of epsilon with total weight E[K]. Proof, and the Renyi
form that is met with it: docs/theory/selected.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import Leaf, Terms, Wrapper, check_inside, shown
from tallystick.accounting.leaves.nested import Composed, Half, ladder, pair_of_halves, read_at
from tallystick.accounting.leaves.renyi import best_delta
from tallystick.accounting.loss import PrivacyLoss, as_leaf, constructor
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import UpperPower, law_above
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Array, Law, above_dust, log_sum

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask, Ball
    from tallystick.numerics.rigorous.laws import BallLaw

LARGEST_MEAN = 1e6
SMALLEST_GAMMA = 1e-6
LARGEST_SHAPE = 100.0

BINS = 3000
"""Ranks are cut into this many parts by this data set's law, and as many by the neighbour's."""

BALL_BINS = 800
"""Of these the rigorous read-out uses so many."""

FINER = 2
"""A single release is read at this many times the usual knots: here that costs little."""

KNOTS = 600
"""Knots of the result."""

ROUNDING = 1e-12
"""Relative rounding of a weight and of a sum of them, outward. It pays for the errors that docs/theory/selected.md
lists under "Knots": at most 5e-13 each.
"""

SUBNORMAL = 1e-322
"""Absolute rounding of a power or an exponential that doubles hardly hold (20 steps of 2^-1074), before it is scaled.
Lines are moved outward by it: heights up, slopes down.
"""

BEYOND = 1.0 + 1e-9
"""A knot is put as far beyond the largest loss that the curve has. Every place gives a bound; at this one rounding, of
3e-13 at most, leaves nothing if the largest loss is above 3e-4.
"""

THETAS: Array = np.exp(np.linspace(math.log(0.02), math.log(2000.0), 48))
"""Orders minus one of the Renyi form; any subset gives a bound."""


class _Best(Wrapper):
    """What the two laws of the number of runs share."""

    __slots__ = ()
    base: Leaf

    @property
    @abstractmethod
    def mean(self) -> float:
        """E[K], rounded up."""

    @property
    @abstractmethod
    def nothing(self) -> float:
        """The probability of no run at all, rounded up."""

    @abstractmethod
    def ball_weight(self, ask: Ask) -> Callable[[Ball], Ball]:
        """``weight`` in ball arithmetic."""

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        if not ask.upper:  # a score that is the same for every run leaves the base's own release, if there is a run
            return self.base.ball_law(ask) if self.nothing == 0.0 else ask.nothing()
        ranks = np.unique(self.ranks())  # next to one run few are left
        places = np.unique(np.linspace(0.0, ranks.size - 1.0, BALL_BINS + 1).astype(int))
        return ask.selected(self.base, self.ball_weight(ask), ranks[places])

    @abstractmethod
    def weight(self, rank: Array) -> Array:
        """phi'(1 - rank), decreasing."""

    @abstractmethod
    def ranks(self) -> Array:
        """Ranks from 0 to 1 between which the weight changes by about one part in BINS of its logarithm."""

    @abstractmethod
    def most(self, ahead: float, behind: float, variation: float) -> float:
        """The largest loss, from the largest losses of the base in both orders and its total variation."""

    @abstractmethod
    def added(self, direction: Direction, order: float = math.inf) -> float:
        """What the Renyi form adds to the base's divergence beside the mean number of runs; grows with the order."""

    def covers_adjacency(self, adjacency: Adjacency) -> bool:
        return self.base.covers_adjacency(adjacency)

    @property
    def symmetric(self) -> bool:
        return self.base.symmetric

    @property
    def terms(self) -> Terms:
        """The base as the sum it is."""
        return self.base.terms if isinstance(self.base, Composed) else ((self.base, 1),)

    def _check_base(self) -> None:
        if not isinstance(self.base, Leaf) or not any(self.base.covers_adjacency(r) for r in self.relations):
            raise InvalidInput("base", self.base, "a loss of one run")
        check_inside(self.base, next(r for r in self.relations if self.base.covers_adjacency(r)))

    def pair(self, direction: Direction) -> DominatingPair:
        return _pair(self, direction)

    def ceiling(self, direction: Direction) -> float:
        from tallystick.accounting.direction import OneDirection

        ahead, behind = (OneDirection.of(self.terms, way) for way in (direction, direction.other))
        if not (ahead.bounded and behind.bounded):
            return math.inf
        return self.most(ahead.highest, behind.highest, ahead.delta_bounds(0.0).upper) * (1.0 + 1e-15)

    def renyi_above(self, direction: Direction, order: float) -> float:
        """The least of the curve, integrated, and of the Renyi form from here on, as a divergence grows with its order.

        Near order 1 the form alone says log E[K]/(order - 1), which is nothing.
        """
        further = THETAS[order - 1.0 < THETAS].tolist()
        forms = [self.renyi_form(direction, order)] + [_form(self, direction, theta) for theta in further]
        return min(*forms, _integrated(self, direction, order - 1.0))

    def concentrated(self) -> tuple[Fraction, Fraction] | None:
        """The largest of the Renyi form over the order, where the base is concentrated itself.

        Between two orders the divergence is at most the one at the next; past the last it is the base's rho times the
        order and what the form adds, which falls.
        """
        known = [(leaf.concentrated(), count) for leaf, count in self.terms]
        each = [(one[0], count) for one, count in known if one is not None and one[1] == 0]
        if len(each) < len(known) or math.isfinite(self.ceiling(Direction.REMOVE)):
            return None  # what is bounded is concentrated by its largest loss, which a price looks for itself
        rho, orders = float(sum(one * count for one, count in each)), (1.0 + THETAS).tolist()
        largest = 0.0
        for way in Direction:
            within = max(self.renyi_above(way, b) / a for a, b in pairwise([1.0, *orders]))
            runs = (max(0.0, math.log(self.mean)) + math.log(2.0)) / float(THETAS[-1])
            largest = max(largest, within, rho + (self.added(way) + runs) / orders[-1])
        return Fraction(largest * (1.0 + ROUNDING)), Fraction(0)

    def renyi_form(self, direction: Direction, order: float) -> float:
        """log(E[K] e^{(order - 1)(D + added)}) / (order - 1), D the base's divergence."""
        theta = order - 1.0
        each = _divergence(self.terms, direction, order) + self.added(direction, order)
        return max(0.0, math.log(self.mean) + theta * each) / theta * (1.0 + ROUNDING)


@dataclass(frozen=True, slots=True)
class Selected(_Best):
    """The best of K runs, K truncated negative binomial (eta, gamma): eta = 1 geometric, eta = 0 logarithmic."""

    kind: ClassVar[str] = "selected"
    base: Leaf
    eta: float
    gamma: float

    def __post_init__(self) -> None:
        eta = check.finite("eta", self.eta, f"a number above -1, at most {typed(LARGEST_SHAPE)}")
        gamma = check.between("gamma", self.gamma, SMALLEST_GAMMA, 1.0)
        if not -1.0 < eta <= LARGEST_SHAPE:
            raise InvalidInput("eta", self.eta, f"a number above -1, at most {typed(LARGEST_SHAPE)}")
        if gamma == 1.0:
            raise InvalidInput("gamma", self.gamma, "a number below 1; with 1 there is one run, which is the base")
        check.keep(self, eta=eta, gamma=gamma)
        self._check_base()

    @property
    def mean(self) -> float:
        return mean_runs(self.eta, self.gamma) * (1.0 + ROUNDING)

    @property
    def nothing(self) -> float:
        return 0.0

    def weight(self, rank: Array) -> Array:
        # phi'(x) = E[K] (gamma / (1 - (1 - gamma) x))^(1 + eta)
        share = self.gamma / (self.gamma + (1.0 - self.gamma) * rank)
        weights: Array = self.mean * share ** (1.0 + self.eta)
        return weights

    def ball_weight(self, ask: Ask) -> Callable[[Ball], Ball]:
        eta, gamma = ask.ball(self.eta), ask.ball(self.gamma)
        if self.eta == 0.0:
            mean = (1 / gamma - 1) / -gamma.log()
        else:
            mean = eta * (1 - gamma) / (gamma * -(eta * gamma.log()).expm1())
        return lambda rank: mean * (gamma / (gamma + (1 - gamma) * rank)) ** (1 + eta)

    def ranks(self) -> Array:
        scale = self.gamma ** (1.0 - np.linspace(0.0, 1.0, BINS))
        return np.clip((scale - self.gamma) / (1.0 - self.gamma), 0.0, 1.0)

    def most(self, ahead: float, behind: float, variation: float) -> float:
        return ahead + (1.0 + self.eta) * min(behind, math.log(1.0 / self.gamma))

    def added(self, direction: Direction, order: float = math.inf) -> float:
        return (1.0 + self.eta) * _slack(self.terms, direction.other, self.gamma)

    def text(self, protects: Protects) -> str:
        return f"selected({_inside(self.base, protects)}, eta={shown(self.eta)}, gamma={shown(self.gamma)})"


@dataclass(frozen=True, slots=True)
class SelectedPoisson(_Best):
    """The best of K runs, K Poisson; nothing comes out where K is 0."""

    kind: ClassVar[str] = "selected_poisson"
    base: Leaf
    runs: float

    def __post_init__(self) -> None:
        check.keep(self, runs=check.between("poisson", self.runs, 1e-6, LARGEST_MEAN))
        self._check_base()

    @property
    def mean(self) -> float:
        return self.runs

    @property
    def nothing(self) -> float:
        return math.exp(-self.runs) * (1.0 + ROUNDING)

    def weight(self, rank: Array) -> Array:
        weights: Array = self.runs * np.exp(-self.runs * rank)
        return weights

    def ball_weight(self, ask: Ask) -> Callable[[Ball], Ball]:
        runs = ask.ball(self.runs)
        return lambda rank: runs * (-runs * rank).exp()

    def ranks(self) -> Array:
        return np.unique(np.concatenate([np.linspace(0.0, 1.0, BINS), np.geomspace(1e-12, 1.0, BINS // 4)]))

    def most(self, ahead: float, behind: float, variation: float) -> float:
        return ahead + self.runs * variation

    def added(self, direction: Direction, order: float = math.inf) -> float:
        from tallystick.accounting.direction import OneDirection

        ratio = math.log1p(1.0 / (order - 1.0)) * (1.0 - 1e-15)
        side = OneDirection.of(self.terms, direction.other)
        if not side.composed and not any(each.composed for each in side.members):
            return self.runs * side.delta_bounds(ratio).upper * (1.0 + ROUNDING)
        half = _read(self.terms, direction.other)
        # Chords in e^epsilon are above the profile, and so is the last knot for all that is beyond it.
        index = int(np.searchsorted(half.epsilon, ratio, side="right")) - 1
        left, here = float(half.epsilon[index]), float(half.upper[index])
        if index + 1 == half.epsilon.size:
            return self.runs * here
        share = math.expm1(ratio - left) / math.expm1(min(700.0, float(half.epsilon[index + 1]) - left))
        return self.runs * (here + (float(half.upper[index + 1]) - here) * share) * (1.0 + ROUNDING)

    def renyi_form(self, direction: Direction, order: float) -> float:
        """log(1 + m e^{(order - 1) added} (e^{(order - 1) D} - 1)) / (order - 1), D the base's divergence."""
        theta = order - 1.0
        moment = theta * _divergence(self.terms, direction, order)
        if math.isinf(moment):
            return math.inf
        less_one = moment + math.log(-math.expm1(-max(moment, 1e-300)))
        total = float(np.logaddexp(0.0, math.log(self.runs) + theta * self.added(direction, order) + less_one))
        return total / theta * (1.0 + ROUNDING)

    def text(self, protects: Protects) -> str:
        return f"selected({_inside(self.base, protects)}, poisson={shown(self.runs)})"


def mean_runs(eta: float, gamma: float) -> float:
    """E[K] of the truncated negative binomial law.

    >>> round(mean_runs(1.0, 0.1), 3), round(mean_runs(0.0, 0.1), 3)
    (10.0, 3.909)
    """
    if abs(eta) < 1e-8:
        # Increasing in eta, and flat to this accuracy: the value a little further is above.
        return (1.0 / gamma - 1.0) / math.log(1.0 / gamma) * (1.0 + 1e-7 * (eta != 0.0) * math.log(1.0 / gamma))
    return eta * (1.0 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))


def _inside(base: Leaf, protects: Protects) -> str:
    text = base.text(protects)
    return text[1:-1] if isinstance(base, Composed) else text


# ---- the profile ----


def _pair(leaf: _Best, direction: Direction) -> DominatingPair:
    if leaf.symmetric:
        half = _half(leaf, Direction.REMOVE)
        return pair_of_halves(half, half)
    return pair_of_halves(_half(leaf, direction), _half(leaf, direction.other))


@lru_cache(maxsize=128)
def _half(leaf: _Best, direction: Direction) -> Half:
    """One order of the best of K, from above by the curve and the Renyi form, from below by the base itself."""
    ahead, behind = _read(leaf.terms, direction), _read(leaf.terms, direction.other)
    law = law_above(ahead.above, behind.above)
    lines = _Lines.of(leaf, UpperPower.under(behind.above, ahead.above))
    top = float(ahead.epsilon[-1]) + lines.longest
    end = leaf.ceiling(direction)
    knots = min(top, end) * np.linspace(0.0, 1.0, KNOTS) ** 1.25
    # At the top itself the curve is zero but for rounding, of either sign; a little further it is zero on all machines.
    further = [top * BEYOND, end if end < top * 2.0 else top]
    epsilon = np.unique(np.append(knots, [place for place in further if place <= end]))
    masses = np.exp(law.log_masses)
    upper = np.array([float(np.dot(masses, lines.at(np.exp(np.minimum(e - law.atoms, 690.0))))) for e in epsilon])
    upper = (upper + law.infinity * leaf.mean) * (1.0 + ROUNDING)
    upper = np.minimum(np.minimum(upper, 1.0), _renyi_delta(leaf, direction, epsilon))
    if math.isfinite(end):
        upper[epsilon >= end] = 0.0
    if upper[-1] > 0.0:
        upper = np.maximum(upper, above_dust(float(upper[-1])))
    # A score that is the same for every run leaves the base's own release, unless there was no run.
    some = max(0.0, 1.0 - leaf.nothing) * (1.0 - ROUNDING)
    below = _lowered(ahead, epsilon)
    return Half(epsilon, upper, np.minimum(below * some, upper), ahead.infinity * some)


def _lowered(half: Half, epsilon: Array) -> Array:
    """Lower bounds at other knots: delta decreases, so the value at the next knot to the right is one."""
    places = np.searchsorted(half.epsilon, epsilon, side="left")
    return np.append(half.lower, half.infinity)[places]


@lru_cache(maxsize=64)
def _read(terms: Terms, direction: Direction) -> Half:
    from tallystick.accounting.direction import OneDirection

    epsilon = ladder(terms, direction)
    if not OneDirection.of(terms, direction).composed and epsilon.size > 2:
        places = np.linspace(0.0, epsilon.size - 1.0, FINER * (epsilon.size - 1) + 1)
        epsilon = np.union1d(epsilon, np.interp(places, np.arange(epsilon.size), epsilon))
    return read_at(terms, direction, epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """The largest of height - slope z over all ranks, and 0: a convex polygon in z = e^{epsilon - L}."""

    heights: Array
    slopes: Array
    starts: Array

    @staticmethod
    def of(leaf: _Best, power: UpperPower) -> _Lines:
        """One line per bin of ranks: the weight at its left end, the neighbour's at its right end, both outward."""
        own = leaf.ranks()
        met = np.interp(own, power.power, power.alpha)
        rank = np.unique(np.concatenate([own, met, [0.0, 1.0]]))
        other = np.minimum(1.0, np.interp(rank[1:], power.alpha, power.power) * (1.0 + ROUNDING))
        lost = (1.0 + leaf.mean) * SUBNORMAL
        height = leaf.weight(rank[:-1]) * (1.0 + ROUNDING) + lost
        slope = leaf.weight(other) * (1.0 - ROUNDING) - lost
        return _envelope(height, np.maximum(slope, 0.0))

    def at(self, z: Array) -> Array:
        """Its values at z >= 0."""
        index = np.searchsorted(self.starts, z, side="right") - 1
        heights: Array = np.maximum(0.0, self.heights[index] - self.slopes[index] * z)
        return heights

    @property
    def longest(self) -> float:
        """The largest log of height over slope: how much further than the base's the losses reach.

        It only says where knots are put, so slopes that are too small for a double may count as the smallest.
        """
        seen = np.maximum(self.slopes, np.finfo(np.float64).tiny)
        return float(np.max(np.log(self.heights) - np.log(seen)))


def _envelope(heights: Array, slopes: Array) -> _Lines:
    """The lines that are the largest somewhere on z >= 0, steepest first."""
    kept: list[tuple[float, float, float]] = []
    for index in np.lexsort((slopes, -heights)):
        height, slope = float(heights[index]), float(slopes[index])
        start = 0.0
        while kept:
            before, steeper, since = kept[-1]
            if slope >= steeper:
                start = math.inf
                break
            start = (before - height) / (steeper - slope)
            if start > since:
                break
            kept.pop()
            start = 0.0
        if math.isfinite(start):
            kept.append((height, slope, start))
    table = np.array(kept)
    return _Lines(table[:, 0], table[:, 1], table[:, 2])


# ---- the Renyi form ----


def _divergence(terms: Terms, direction: Direction, order: float) -> float:
    same = all(leaf.symmetric for leaf, _ in terms)
    return _divergence_of(terms, Direction.REMOVE if same else direction, order)


@lru_cache(maxsize=4096)
def _divergence_of(terms: Terms, direction: Direction, order: float) -> float:
    from tallystick.accounting.direction import OneDirection

    return OneDirection.of(terms, direction).renyi(order)


@lru_cache(maxsize=128)
def _slack(terms: Terms, direction: Direction, gamma: float) -> float:
    """The least over orders a of (1 - 1/a) D_a + log(1/gamma)/a, and the largest loss, which is its limit."""
    best, thetas = min(_divergence(terms, direction, math.inf), math.log(1.0 / gamma)), THETAS
    for _ in range(4):  # closer and closer around the best order: any is a bound
        orders = 1.0 + thetas
        divergence = np.array([_divergence(terms, direction, float(order)) for order in orders])
        each = (1.0 - 1.0 / orders) * divergence + math.log(1.0 / gamma) / orders
        at = int(np.argmin(each))
        best = min(best, float(each[at]))
        thetas = np.geomspace(thetas[max(0, at - 1)], thetas[min(at + 1, thetas.size - 1)], 9)
    return best


@lru_cache(maxsize=4096)
def _form(leaf: _Best, direction: Direction, theta: float) -> float:
    return leaf.renyi_form(direction, 1.0 + theta)


@lru_cache(maxsize=64)
def _curve(leaf: _Best, direction: Direction) -> tuple[Law, float]:
    """The law of the curve, and the epsilon from which on it only says that delta is not above its last value."""
    return _pair(leaf, direction).upper, float(_half(leaf, direction).epsilon[-1])


def _integrated(leaf: _Best, direction: Direction, theta: float) -> float:
    """The divergence of order 1 + theta from the curve.

    E e^{theta L} = 1 + theta (theta + 1) times the integral of e^{theta e} delta(e) + e^{-(theta + 1) e} delta'(e), e
    from 0 on, delta' in the other order: up to the last knot the curve's own; beyond, delta(e) <= e^{t (D_t - e)} with
    the Renyi form D_t of any order 1 + t > 1 + theta.
    """
    law, end = _curve(leaf, direction)
    parts = [log_sum(theta * law.atoms + law.log_masses)]
    if law.infinity > 0.0:
        further = THETAS[1.01 * theta < THETAS].tolist()
        logs = [t * _form(leaf, direction, t) - (t - theta) * end - math.log(t - theta) for t in further]
        beyond = min(logs, default=math.inf) + math.log(theta) + math.log1p(theta)
        parts += [beyond, math.log(law.infinity) + math.log1p(theta) + theta * end]
    total = log_sum(np.array(parts)) if max(parts) < math.inf else math.inf
    return max(0.0, total + ROUNDING) / theta


def _renyi_delta(leaf: _Best, direction: Direction, epsilon: Array) -> Array:
    """delta by the Renyi form."""
    logs = np.array([theta * _form(leaf, direction, theta) for theta in THETAS.tolist()])
    known = np.isfinite(logs)
    return best_delta(logs[known], THETAS[known], epsilon) if known.any() else np.ones(epsilon.size)


def _of_runs(base: Leaf, eta: Any, gamma: Any, poisson: Any) -> Leaf:
    """The leaf for the law of the number of runs that was named."""
    if poisson is not None and eta is None and gamma is None:
        return SelectedPoisson(base, poisson)
    if poisson is not None or gamma is None:
        raise InvalidInput("runs", (eta, gamma, poisson), "eta= and gamma=, or poisson=: one law of the number of runs")
    return Selected(base, 0.0 if eta is None else eta, gamma)


@constructor
def selected(
    loss: PrivacyLoss, *, eta: float | None = None, gamma: float | None = None, poisson: float | None = None
) -> PrivacyLoss:
    """The loss of the best of K runs of a mechanism, chosen by a score that the mechanism itself releases.

    K is random, with a public law, and stays secret: truncated negative binomial with shape ``eta`` (default 0, the
    logarithmic law; 1 is geometric) and ``gamma``, or Poisson with mean ``poisson``. Every run has fresh randomness
    and draws what it tries from one public law (docs/theory/selected.md).

    >>> import tallystick as ts
    >>> round(ts.selected(ts.pure_dp(epsilon=1), eta=1, gamma=1e-6).epsilon(delta=0), 3)
    3.0
    >>> round(ts.selected(ts.gdp(mu=1), gamma=0.1).epsilon(delta=1e-6), 2)  # one run: 4.89
    5.94
    """
    if not isinstance(loss, PrivacyLoss):
        raise InvalidInput("loss", loss, "the PrivacyLoss of one run")
    if not loss.terms:
        return loss
    leaf = _of_runs(as_leaf(loss, "selected"), eta, gamma, poisson)
    return PrivacyLoss(((leaf, 1),), loss.protects)
