"""The exponential mechanism on a continuum, released on a public lattice (Theorem 7.1 with a base measure).

Two samplers, both exact. :func:`on_line` takes a score that is constant between breakpoints: every run of lattice
points with one score is one candidate, weighted by the base measure of the run. :func:`by_rejection` takes any score
on any space from which the base measure can be drawn: proposals are kept with probability exp(-rate (top - score)),
decided exactly; the public range of the score bounds how many proposals that takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.coins import exp_probability, flip
from tallystick.mechanisms.exact.lattice import BoundedLattice, lower_and_upper
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.uniform import integer
from tallystick.mechanisms.exact.weighted_choice import Scores, Weights, choose
from tallystick.mechanisms.inputs import Number, Numbers, budget, length, number, numbers, records
from tallystick.mechanisms.select import accuracy

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Point = TypeVar("Point")
MOST_PROPOSALS = 10_000_000


@dataclass(frozen=True, slots=True)
class Steps:
    """A function that is scores[0] below breaks[0], scores[j] on [breaks[j-1], breaks[j]), scores[-1] from there on.

    >>> Steps([1.0], [0.0, 5.0]).at(np.array([0.5, 1.0])).tolist()
    [0.0, 5.0]
    """

    breaks: Sequence[float] | NDArray[np.float64]
    scores: Sequence[float] | NDArray[np.float64]

    def at(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its values."""
        return np.asarray(self.scores, dtype=np.float64)[np.searchsorted(np.asarray(self.breaks), points, side="right")]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Runs of lattice points: ``counts`` from ``starts``, each point with base weight ``base`` and a score."""

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    base: tuple[int, ...]
    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class LineExponential(Mechanism[Pieces, float]):
    """Exponential mechanism for piecewise-constant scores on an interval; built by :func:`on_line`."""

    epsilon: float
    sensitivity: float
    lattice: BoundedLattice
    base_breaks: tuple[float, ...]
    base_weights: tuple[int, ...]
    protects: Protects

    @property
    def privacy(self) -> PrivacyLoss:
        """Bounded range epsilon, whatever the base measure."""
        return losses.exponential(epsilon=self.epsilon, **self.protects.about)

    def prepare(self, value: Any, *, strict: bool) -> Pieces:
        allowed = "Steps(breaks, scores) with one score more than breaks"
        if type(value) is not Steps:
            raise InvalidInput("value", type(value).__name__, allowed)
        breaks = records("breaks", value.breaks, strict=strict, least=0)
        if strict and (np.diff(breaks) < 0).any():
            raise InvalidInput("breaks", "a decrease", "breaks in increasing order")
        breaks = np.maximum.accumulate(breaks)  # the public rule for breaks out of order
        scores = numbers("scores", value.scores, strict=strict)
        if scores.near.size != breaks.size + 1:
            raise InvalidInput("value", f"{breaks.size} breaks and {scores.near.size} scores", allowed)
        step, first, last = self.lattice.granularity, self.lattice.first, self.lattice.last
        # lattice point i has the score of the run its value lies in, so a run starts at the first point >= its break
        cuts = _ceil_index(np.concatenate((breaks, np.asarray(self.base_breaks))), step, first, last + 1)
        starts = np.unique(np.concatenate(([first], cuts[cuts <= last])))
        at = starts * step
        base = np.searchsorted(np.asarray(self.base_breaks), at, side="right")
        return Pieces(
            starts=starts,
            counts=np.diff(np.append(starts, last + 1)),
            base=tuple(self.base_weights[i] for i in base),
            scores=_taken(scores, np.searchsorted(breaks, at, side="right")),
        )

    def draw(self, prepared: Pieces, source: Source) -> float:
        piece = choose(self.weights(prepared), source)
        return self.lattice.value(int(prepared.starts[piece]) + integer(int(prepared.counts[piece]), source))

    def error(self, *, confidence: float) -> float:
        """With this confidence the score of the result is at most this far below the best where the base has weight.

        Theorem 7.2, as if only one point of the least weight had the best score.
        """
        everywhere = self.prepare(Steps([], [0.0]), strict=True)
        total = sum(int(count) * weight for count, weight in zip(everywhere.counts, everywhere.base, strict=True))
        least = min(weight for weight in everywhere.base if weight)
        return accuracy.exponential_gap(
            candidates=-(-total // least),
            epsilon=self.epsilon,
            sensitivity=self.sensitivity,
            confidence=check.inside("confidence", confidence),
        )

    def weights(self, prepared: Pieces) -> Weights:
        """Base measure of every run times exp(rate score)."""
        rate = Fraction(self.epsilon) / Fraction(self.sensitivity) / 2
        masses = [int(count) * weight for count, weight in zip(prepared.counts, prepared.base, strict=True)]
        each = prepared.scores.weights(rate)
        return Weights(
            np.array([float(mass) for mass in masses]),
            each.exponents,
            each.error,
            lambda i: (masses[i], each.exact(i)[1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionExponential(Mechanism[Callable[[Any], Number], Point], Generic[Point]):
    """Exponential mechanism by rejection from its base measure; built by :func:`by_rejection`."""

    takes_function: ClassVar[bool] = True
    epsilon: float
    sensitivity: float
    propose: Callable[[Source], Point]
    score_bounds: tuple[float, float]
    protects: Protects

    @property
    def privacy(self) -> PrivacyLoss:
        """Bounded range epsilon: clamping the score to public bounds keeps its sensitivity."""
        return losses.exponential(epsilon=self.epsilon, **self.protects.about)

    @property
    def proposals(self) -> float:
        """No data set needs more proposals than this on average: e^{eps (top - bottom) / (2 D)}."""
        return most_proposals(self.epsilon, self.sensitivity, self.score_bounds)

    def prepare(self, value: Any, *, strict: bool) -> Callable[[Any], Number]:
        if not callable(value):
            raise InvalidInput("value", type(value).__name__, "a function from a point to its score")
        bottom, top = self.score_bounds

        def clamped(point: Any) -> Number:
            try:
                score = number(value(point))
            except (Exception, SystemExit):
                # After a charge an error that depends on the data would be an answer; the worst score is not.
                if strict:
                    raise
                return bottom
            return bottom if score is None or score != score else min(max(score, bottom), top)

        return clamped

    def draw(self, prepared: Callable[[Any], Number], source: Source) -> Point:
        rate = Fraction(self.epsilon) / Fraction(self.sensitivity) / 2
        top = Fraction(self.score_bounds[1])
        while True:
            point = self.propose(source)
            if flip(exp_probability(rate * (top - Fraction(prepared(point)))), 1, source)[0]:
                return point

    def error(self, *, confidence: float, share: float) -> float:
        """With this confidence the result scores at most this far below what a ``share`` of the base measure reaches.

        Theorem 7.2: (2 D / eps)(ln(1 / share) + ln(1 / (1 - confidence))).
        """
        part = check.probability("share", share, "a share of the base measure in (0, 1]")
        if part == 0:
            raise InvalidInput("share", share, "a share of the base measure in (0, 1]")
        miss = 1 - check.inside("confidence", confidence)
        return 2 * self.sensitivity / self.epsilon * (-math.log(part) - math.log(miss))


def most_proposals(epsilon: float, sensitivity: float, score_bounds: tuple[float, float]) -> float:
    """The bound on the average number of proposals.

    >>> most_proposals(2.0, 1.0, (0.0, 1.0)) == math.e
    True
    """
    exponent = epsilon * (score_bounds[1] - score_bounds[0]) / (2 * sensitivity)
    return math.exp(exponent) if exponent < 700 else math.inf


def uniform_box(
    bounds: Sequence[tuple[float, float]], *, granularity: float | None = None
) -> Callable[[Source], tuple[float, ...]]:
    """The uniform base measure on the lattice points of a box, for :func:`by_rejection`.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> uniform_box([(0, 0.5), (1, 1.5)], granularity=1.0)(SYSTEM)
    (0.0, 1.0)
    """
    length("bounds", bounds, "a list of pairs (lower, upper), one per side")
    lattices = tuple(BoundedLattice.over(side, granularity=granularity) for side in bounds)
    return lambda source: tuple(lattice.value(lattice.first + integer(lattice.points, source)) for lattice in lattices)


def on_line(
    *,
    epsilon: float,
    sensitivity: float,
    bounds: tuple[float, float],
    granularity: float | None = None,
    base: tuple[Sequence[float], Sequence[int]] | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> LineExponential:
    """Exponential mechanism on an interval for scores that are constant between breakpoints (such as a cut-off).

    ``base`` is an optional public prior (breaks, whole weights); without it every lattice point counts the same.
    Example 7.1, docs/theory/selection-exponential.md.

    >>> price = on_line(epsilon=1.0, sensitivity=4.01, bounds=(0, 5), granularity=2**-7)
    >>> 0 <= price.release(Steps([1.0, 4.01], [3.0, 4.0, 0.0])) <= 5
    True
    """
    price, step = budget(epsilon, sensitivity)
    breaks, whole = _base(base)
    mechanism = LineExponential(
        epsilon=price,
        sensitivity=step,
        lattice=BoundedLattice.over(bounds, granularity=granularity),
        base_breaks=breaks,
        base_weights=whole,
        protects=Protects(adjacency, unit),
    )
    if not any(mechanism.prepare(Steps([], [0.0]), strict=True).base):
        raise InvalidInput("base", base, "a base measure with some weight inside the bounds")
    return mechanism


def _base(base: Any) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Breaks and whole weights of a base measure; without one every point counts the same."""
    allowed = "(increasing breaks, one whole weight more than breaks, not all 0)"
    try:
        breaks, weights = base if base is not None else ((), (1,))
        given = tuple(weights)
    except (TypeError, ValueError):
        raise InvalidInput("base", base, allowed) from None
    ends = tuple(records("base", breaks, strict=True, least=0).tolist())
    whole = tuple(check.count("base", weight, most=1 << 40) for weight in given)
    if len(whole) != len(ends) + 1 or list(ends) != sorted(set(ends)) or not any(whole):
        raise InvalidInput("base", base, allowed)
    return ends, whole


def by_rejection(
    *,
    epsilon: float,
    sensitivity: float,
    propose: Callable[[Source], Point],
    score_bounds: tuple[float, float],
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> RejectionExponential[Point]:
    """Exponential mechanism with any base measure that can be drawn, for scores within public bounds.

    Refused when the bounds allow more than ten million proposals on average. The time a release takes depends on the
    data; hide it where timing can be observed.

    >>> mechanism = by_rejection(epsilon=1.0, sensitivity=1.0, propose=uniform_box([(0, 1)]), score_bounds=(0, 4))
    >>> round(mechanism.proposals, 1)
    7.4
    """
    low, high = lower_and_upper("score_bounds", score_bounds)
    if not callable(propose):
        raise InvalidInput("propose", propose, "a function that draws one point from the base measure")
    price, step = budget(epsilon, sensitivity)
    expected = most_proposals(price, step, (low, high))
    if expected > MOST_PROPOSALS:
        raise InvalidInput(
            "score_bounds", score_bounds, f"bounds that need at most {MOST_PROPOSALS} proposals, not {expected:.3g}"
        )
    return RejectionExponential(
        epsilon=price,
        sensitivity=step,
        propose=propose,
        score_bounds=(low, high),
        protects=Protects(adjacency, unit),
    )


def _ceil_index(values: NDArray[np.float64], step: float, first: int, last: int) -> NDArray[np.int64]:
    """Number of the first lattice point not below each value, kept within first..last."""
    with np.errstate(over="ignore", under="ignore"):
        points = np.clip(np.ceil(values / step), first, last)
        # the quotient of a tiny value can be rounded to the point below it; points times step are exact
        points += (points * step < values) & (points < last)
    return points.astype(np.int64)


def _taken(entries: Numbers, places: NDArray[np.int64]) -> Scores:
    """The scores at these places."""
    if entries.given is None:
        return Scores.of(entries.near[places])
    return Scores.exactly([entries.given[index] for index in places])
