"""Algorithm 5, the adaptive composition game, played out in full on finite mechanisms.

The adversary sees the outputs so far and names the next mechanism together with two neighbouring inputs, that is, a
pair of output distributions. Enumerating every transcript gives the exact pair (view under experiment 0, view under
experiment 1), so any claimed bound on adaptive composition can be refuted or confirmed to the last digit.
Probabilities may be ``Fraction``: then every number is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from tallystick.errors import InvalidInput
from tallystick.theorems import require
from tallystick.theorems.piecewise import PiecewiseTradeoff

_MOST_ROUNDS = 300
_MOST_VIEWS = 100_000

Number = float | Fraction
View = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FinitePair:
    """One mechanism on two neighbouring inputs: P[output = i] under experiment 0 and under experiment 1.

    >>> FinitePair.randomized_response(ratio=Fraction(5, 4)).zero
    (Fraction(5, 9), Fraction(4, 9))
    """

    zero: tuple[Number, ...]
    one: tuple[Number, ...]

    def __post_init__(self) -> None:
        for name, masses in (("zero", self.zero), ("one", self.one)):
            total = sum(masses, start=Fraction(0))
            if not masses or min(masses) < 0 or not abs(float(total) - 1.0) <= 1e-9:
                raise InvalidInput(name, masses, "non-negative numbers that sum to one")
        if len(self.zero) != len(self.one):
            raise InvalidInput("one", self.one, f"as many outputs as zero has ({len(self.zero)})")

    @staticmethod
    def randomized_response(*, ratio: Number) -> FinitePair:
        """Binary randomized response with e^epsilon = ``ratio``: the worst epsilon-DP mechanism."""
        if not ratio >= 1:
            raise InvalidInput("ratio", ratio, "e^epsilon, at least 1")
        truth, lie = ratio / (1 + ratio), 1 / (1 + ratio)
        return FinitePair((truth, lie), (lie, truth))

    @staticmethod
    def leak(*, probability: Number) -> FinitePair:
        """With ``probability`` the input is revealed, otherwise nothing is said: (0, delta)-DP, exactly."""
        if not 0 <= probability <= 1:
            raise InvalidInput("probability", probability, "a number between 0 and 1")
        return FinitePair(
            (probability, 0 * probability, 1 - probability), (0 * probability, probability, 1 - probability)
        )

    def delta(self, *, ratio: Number) -> Number:
        """H_ratio(zero || one), exact."""
        return sum((max(p - ratio * q, 0 * p) for p, q in zip(self.zero, self.one, strict=True)), start=Fraction(0))


Adversary = Callable[[View], FinitePair | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Every complete view with its probability under both experiments.

    >>> coin = FinitePair.randomized_response(ratio=Fraction(3))
    >>> play(lambda view: coin, rounds=2).delta(ratio=Fraction(3))
    Fraction(3, 8)
    """

    views: tuple[tuple[View, Number, Number], ...]

    def delta(self, *, ratio: Number) -> Number:
        """The exact delta at e^epsilon = ``ratio``: the larger of the two directions."""
        forward = sum((max(p - ratio * q, 0 * p) for _, p, q in self.views), start=Fraction(0))
        backward = sum((max(q - ratio * p, 0 * q) for _, p, q in self.views), start=Fraction(0))
        return max(forward, backward)

    def total_variation(self) -> Number:
        """delta at epsilon = 0."""
        return self.delta(ratio=Fraction(1))

    def tradeoff(self) -> PiecewiseTradeoff:
        """T(experiment 0, experiment 1) of the whole view."""
        zero, one = [float(p) for _, p, _ in self.views], [float(q) for _, _, q in self.views]
        return PiecewiseTradeoff.of_pair(zero, one)


def play(adversary: Adversary, *, rounds: int) -> Outcome:
    """Run Algorithm 5 for at most ``rounds`` rounds against ``adversary``; ``None`` stops early.

    Algorithm 5 and Definition 10.1 of the lecture notes; page ``theory/adaptive-game.md``. Exact: the cost is the
    number of views.

    >>> play(lambda view: None, rounds=3).views
    (((), Fraction(1, 1), Fraction(1, 1)),)
    """
    limit = require.steps("rounds", rounds, most=_MOST_ROUNDS)
    views = tuple(islice(_views(adversary, (), Fraction(1), Fraction(1), limit), _MOST_VIEWS + 1))
    if len(views) > _MOST_VIEWS:
        raise InvalidInput("rounds", rounds, f"so few that there are at most {_MOST_VIEWS} views")
    return Outcome(views)


def worst_delta(
    choices: Sequence[FinitePair],
    *,
    rounds: int,
    ratio: Number,
    admits: Callable[[tuple[int, ...], int], bool] = lambda spent, choice: True,
) -> Number:
    """The greatest delta at e^epsilon = ``ratio`` over **all** adaptive adversaries who pick from ``choices``.

    ``admits(spent, choice)`` is a privacy filter: may mechanism number ``choice`` follow the mechanisms ``spent``?
    The sum over views splits at every node, so the best adversary is found by a recursion, not by trying
    strategies. Definition 10.1 of the lecture notes; page ``theory/adaptive-game.md``. Exact.

    >>> coin = FinitePair.randomized_response(ratio=Fraction(3))
    >>> worst_delta([coin], rounds=2, ratio=Fraction(3))
    Fraction(3, 8)
    """
    limit = require.steps("rounds", rounds, most=_MOST_ROUNDS)
    if not choices:
        raise InvalidInput("choices", choices, "at least one mechanism")
    if sum(len(pair.zero) for pair in choices) ** limit > _MOST_VIEWS:
        raise InvalidInput("rounds", rounds, f"so few that there are at most {_MOST_VIEWS} views")
    forward = [tuple(zip(pair.zero, pair.one, strict=True)) for pair in choices]
    backward = [tuple(zip(pair.one, pair.zero, strict=True)) for pair in choices]
    return max(_best(outputs, ratio, admits, Fraction(1), Fraction(1), (), limit) for outputs in (forward, backward))


def _best(
    outputs: Sequence[tuple[tuple[Number, Number], ...]],
    ratio: Number,
    admits: Callable[[tuple[int, ...], int], bool],
    p: Number,
    q: Number,
    spent: tuple[int, ...],
    left: int,
) -> Number:
    """The most that the part of the sum under a node with probabilities ``p`` and ``q`` can become."""
    value: Number = max(p - ratio * q, 0 * p)
    if left == 0:
        return value
    for number, branches in enumerate(outputs):
        if admits(spent, number):
            below = (_best(outputs, ratio, admits, p * a, q * b, (*spent, number), left - 1) for a, b in branches)
            value = max(value, sum(below, start=Fraction(0)))
    return value


def _views(
    adversary: Adversary, view: View, zero: Number, one: Number, left: int
) -> Iterator[tuple[View, Number, Number]]:
    pair = adversary(view) if left > 0 else None
    if pair is None:
        yield view, zero, one
        return
    for output, (p, q) in enumerate(zip(pair.zero, pair.one, strict=True)):
        if p > 0 or q > 0:
            yield from _views(adversary, (*view, output), zero * p, one * q, left - 1)
