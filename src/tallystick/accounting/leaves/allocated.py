"""Random allocation: in an epoch of t steps each unit takes part in exactly one, drawn uniformly and independently.

With (P, Q) the REMOVE pair of one step, the epoch's REMOVE pair is (mean over i of P at step i and Q elsewhere,
Q at every step). Its likelihood ratio is B = (V_1 + ... + V_t)/t with V_i = dP/dQ independent under Q, so the
profile is H_a = E_Q[(B - a)_+] plus P's mass at infinity, and the ADD profile is E_Q[(1 - a B)_+]
(docs/theory/random-allocation.md). Both are computed two-sided by ``numerics.stoploss`` at a ladder of knots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.compose import Direct, repeated
from tallystick.accounting.leaf import End, Leaf, Wrapper, check_inside
from tallystick.accounting.leaves.nested import Half, divergence, pair_of_halves
from tallystick.accounting.loss import PrivacyLoss, as_leaf
from tallystick.accounting.pair import DominatingPair, swapped
from tallystick.accounting.polygon import LONGEST
from tallystick.errors import InvalidInput
from tallystick.numerics.law import UNIT, Array, Law
from tallystick.numerics.stoploss import MeanOfRatios, Wanted
from tallystick.rounding import double_above

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

LOG_DEEPEST = math.log(1e-24)
"""The profile is followed to this delta; the rest counts as mass at infinity."""

SPACING = 0.008
"""Distance of the knots: relative to epsilon, or to two standard deviations of the loss where that is more."""

BLOCK = 16
"""Knots of which only the last is compared with one unamplified step, unless that is near."""

LISTED = 2**14
"""Joint outcomes of an epoch that are listed one by one."""

MOST_LISTED = 180
"""Outcomes of one step beyond which even two steps have more."""

LARGEST = 40.0
"""Largest epsilon that is followed; a step that loses more (sigma below about 0.3) is charged unamplified."""

MOST_STEPS = 10**6
"""Steps of an epoch up to which random allocation is computed."""

Profile = tuple[Array, Array, Array]


@dataclass(frozen=True, slots=True)
class Allocated(Wrapper):
    """One epoch of ``steps`` steps in which each unit takes part exactly once, add/remove neighbours.

    Never above the loss of one unamplified step (joint convexity), which is also what is charged where the loss
    is too large to follow (LARGEST).
    """

    kind: ClassVar[str] = "allocated"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE,)
    base: Leaf
    steps: int

    def __post_init__(self) -> None:
        check.keep(self, steps=check.count("steps", self.steps, least=2, most=MOST_STEPS))
        check_inside(self.base, Adjacency.ADD_REMOVE)

    def pair(self, direction: Direction) -> DominatingPair:
        return _allocated_pair(self.base, self.steps, direction)

    @property
    def symmetric(self) -> bool:
        return False

    def end(self, direction: Direction) -> End:
        """Never above one unamplified step (joint convexity)."""
        return self.base.end(direction)

    def ceiling(self, direction: Direction) -> float:
        end = self.end(direction)
        return end.loss if end.mass == 0 else math.inf

    def renyi_above(self, direction: Direction, order: float) -> float:
        """Never above one unamplified step: divergences are jointly quasi-convex (van Erven and Harremoes 2014)."""
        return divergence(((self.base, 1),), direction, order)

    @property
    def unamplified(self) -> Leaf:
        return self.base.unamplified

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.allocated(self.base, self.steps) if ask.upper else ask.nothing()

    def text(self, protects: Protects) -> str:
        return f"{self.base.text(protects)}.allocated(steps={self.steps})"


@lru_cache(maxsize=64)
def _allocated_pair(base: Leaf, steps: int, direction: Direction) -> DominatingPair:
    alone = base.pair(direction)
    if steps == 1 or float(alone.upper.excess(np.zeros(1))[0]) == 0.0:
        return alone
    listed = _listed_pair(base.pair(Direction.REMOVE), steps)
    if listed is not None:
        return listed if direction is Direction.REMOVE else listed.swapped()
    mean = MeanOfRatios(base.pair(Direction.REMOVE).upper, steps)
    if base.only_renyi or any(_log_delta(mean, way, LARGEST) > _deepest(mean, way) for way in Direction):
        # Valid (joint convexity), and nothing is claimed from below.
        return DominatingPair(alone.upper, trivial_law())
    ahead, back = allocated_profile(base, steps, direction), allocated_profile(base, steps, direction.other)
    return pair_of_halves(Half(*ahead), Half(*back))


def _listed_pair(pair: DominatingPair, steps: int) -> DominatingPair | None:
    """The epoch's REMOVE pair outcome by outcome, where each step has finitely many and all together are few."""
    upper = _listed_law(pair.upper, steps, 1.0)
    return None if upper is None else DominatingPair(upper, _listed_law(pair.lower, steps, -1.0) or trivial_law())


def _listed_law(law: Law, steps: int, side: float) -> Law | None:
    """log B under the epoch's P, and Q's masses, with every rounding on one side."""
    size = law.atoms.size + (law.zero > 0.0)
    if law.segments or not 0 < size <= MOST_LISTED or math.comb(steps + size - 1, steps) > LISTED:
        return None
    if law.highest > LONGEST:
        return None  # ratios that are not doubles
    logs = law.others
    ratios = np.exp(law.atoms)
    if law.zero > 0.0:
        ratios, logs = np.append(ratios, 0.0), np.append(logs, math.log(law.zero))
    sums, weights = repeated(ratios, logs, steps)
    gains = repeated(np.expm1(np.append(law.atoms, -math.inf)[:size]), logs, steps)[0]
    order = np.argsort(sums, kind="stable")
    means, weights, gains = sums[order] / steps, weights[order], gains[order] / steps
    some = means > 0.0
    # Under Q the masses are multinomial; P's are B times those. Where B is near one only B - 1 knows its logarithm.
    near = np.abs(gains[some]) < 0.5
    losses = np.where(near, np.log1p(np.where(near, gains[some], 0.0)), np.log(means[some]))
    error = side * 8.0 * UNIT * (3.0 * math.lgamma(steps + 2.0) + steps * float(np.max(np.abs(logs))) + 8.0)
    zero = float(np.sum(np.exp(weights[~some])))
    # A loss x is off by its units times x, so e^x by that share, and so is each part of B; then the sum is rounded.
    farthest = float(np.max(np.abs(law.atoms), initial=0.0))
    return Law(
        losses,
        weights[some] + losses + error,
        infinity=law.infinity,
        zero=zero,
        log_others=weights[some] + error,
        # (V + s)^a / V^a falls as V grows: what a leaf leaves out weighs no more beside the other steps than alone.
        orders=law.orders,
        value_ulps=(law.value_ulps + size) * (2.0 + 0.1 * farthest),
    )


def trivial_law() -> Law:
    """Nothing is lost for certain."""
    return Law(np.zeros(1), np.zeros(1))


@lru_cache(maxsize=128)
def allocated_profile(base: Leaf, steps: int, direction: Direction) -> Profile:
    """Knots epsilon >= 0 with certified upper and lower bounds on delta of one epoch, in one direction."""
    pair = base.pair(Direction.REMOVE)
    most = MeanOfRatios(pair.upper, steps)
    epsilon = _ladder(most, direction)
    if pair.lower is pair.upper:
        upper, lower = _read(most, direction, epsilon)
    else:
        upper = _read(most, direction, epsilon, Wanted.UPPER)[0]
        lower = _read_below(pair.lower, steps, direction, epsilon)
    top = np.minimum(_at_most_alone(base.pair(direction).upper, epsilon, upper), 1.0)
    return _ended(base.end(direction), epsilon, top, np.minimum(lower, top))


def _ended(end: End, epsilon: Array, upper: Array, lower: Array) -> Profile:
    """The profile with its end: beyond the largest loss of one step an epoch has no more than that step (joint
    convexity), which is what one step gives away."""
    if not 0.0 < end.loss < math.inf:
        return epsilon, upper, lower
    inside = epsilon < end.loss
    rest = min(double_above(end.mass), float(upper[inside][-1]))
    return np.append(epsilon[inside], end.loss), np.append(upper[inside], rest), np.append(lower[inside], 0.0)


def _read_below(law: Law, steps: int, direction: Direction, epsilon: Array) -> Array:
    """Lower bounds on delta of an epoch of the law from below, outcome by outcome where they are few."""
    listed = _listed_law(law, steps, -1.0)
    if listed is None:
        return _read(MeanOfRatios(law, steps), direction, epsilon, Wanted.LOWER)[1]
    whole = Direct.alone(listed if direction is Direction.REMOVE else swapped(listed))
    return np.array([whole.lower(float(e)) for e in epsilon])


def _at_most_alone(law: Law, epsilon: Array, upper: Array) -> Array:
    """The smaller of these bounds and delta of one unamplified step, which is integrated only where it may matter."""
    ends = np.minimum(np.arange(epsilon.size) // BLOCK * BLOCK + BLOCK, epsilon.size - 1)
    later = law.excess(epsilon[ends[::BLOCK]])[np.arange(epsilon.size) // BLOCK]
    near = upper > later  # delta falls, so elsewhere one step alone has more
    result = upper.copy()
    result[near] = np.minimum(upper[near], law.excess(epsilon[near]) * (1.0 + 1e-12))
    return result


def _read(
    mean: MeanOfRatios, direction: Direction, epsilon: Array, wanted: Wanted = Wanted.BOTH
) -> tuple[Array, Array]:
    levels = np.exp(epsilon)
    if direction is Direction.REMOVE:
        upper, lower = mean.above(levels, wanted)
        return upper + mean.law.infinity, lower + mean.law.infinity
    # E_Q[(1 - a B)_+] = a E_Q[(1/a - B)_+]
    upper, lower = (half[::-1] * levels for half in mean.below(1.0 / levels[::-1], wanted))
    return upper, lower


def _ladder(mean: MeanOfRatios, direction: Direction) -> Array:
    """Knots from 0 to where delta is about 1e-24, denser where the loss has its mass."""
    side = 1 if direction is Direction.REMOVE else -1
    low, high = 0.0, LARGEST
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_delta(mean, direction, middle) > _deepest(mean, direction) else (low, middle)
    scale = 2.0 * min(max(mean.spread(1.0, side), 1e-9), 1.0)
    reach = math.asinh(high / scale)
    count = max(2, math.ceil(reach / SPACING))
    ladder: Array = scale * np.sinh(np.linspace(0.0, reach, count + 1))
    return ladder


def _log_delta(mean: MeanOfRatios, direction: Direction, epsilon: float) -> float:
    """A rough logarithm of delta of the finite part."""
    if direction is Direction.REMOVE:
        return mean.log_size(math.exp(epsilon), 1)
    return epsilon + mean.log_size(math.exp(-epsilon), -1)


def _deepest(mean: MeanOfRatios, direction: Direction) -> float:
    """The log of delta to follow: when adding, delta never falls below the chance that P misses every step."""
    if direction is Direction.REMOVE or mean.law.zero <= 0.0:
        return LOG_DEEPEST
    return max(LOG_DEEPEST, mean.count * math.log(mean.law.zero) + 0.05)


def allocated(loss: PrivacyLoss, steps: int) -> PrivacyLoss:
    """Random allocation of a loss (see ``PrivacyLoss.allocated``)."""
    number = check.count("steps", steps, least=1, most=MOST_STEPS)
    if loss.adjacency is not Adjacency.ADD_REMOVE:
        raise InvalidInput("adjacency", loss.adjacency.value, "an add/remove loss for random allocation")
    if not loss.terms:
        return loss
    leaf = as_leaf(loss, "allocated")
    if number == 1:
        return loss
    return PrivacyLoss(((Allocated(leaf, number), 1),), loss.protects)
