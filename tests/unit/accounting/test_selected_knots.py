"""Every knot of a selected loss is a bound by itself, on delta and on moments.

The oracle is a mechanism whose winner can be written down: randomized response, whose runs score by their answer and
then by an independent number in one of ``SLICES`` parts. Its probabilities are computed with 50 digits, from the
generating function of the number of runs alone. The foreign-looking answer scores best, which is the worst order.
"""

from __future__ import annotations

import bisect
import itertools
import random
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import tallystick as ts
from sweeps import share
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaves import selected
from tallystick.accounting.leaves.nested import Half, pair_of_halves

SLICES = 300
DIGITS = 50
RUNS: list[dict[str, float]] = [
    {"eta": 1.0, "gamma": 0.2},
    {"eta": 0.0, "gamma": 0.1},
    {"eta": -0.5, "gamma": 0.05},
    {"eta": 2.5, "gamma": 0.3},
    {"poisson": 0.4},
    {"poisson": 6.0},
]
CASES = [(epsilon, runs) for epsilon in (0.5, 2.0) for runs in RUNS]
Masses = list[mp.mpf]
Knots = list[tuple[float, float]]


def generating_function(runs: dict[str, float], x: mp.mpf) -> mp.mpf:
    """E[x^K]."""
    if "poisson" in runs:
        return mp.exp(mp.mpf(runs["poisson"]) * (x - 1))
    eta, gamma = mp.mpf(runs["eta"]), mp.mpf(runs["gamma"])
    inside = 1 - (1 - gamma) * x
    return mp.log(inside) / mp.log(gamma) if eta == 0 else (inside**-eta - 1) / (gamma**-eta - 1)


def winners(epsilon: float, runs: dict[str, float]) -> tuple[Masses, Masses]:
    """The laws of the winner on two neighbours; the last outcome is "no run"."""
    own = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    laws = []
    for part in (own, 1 - own):  # the own-looking answer scores less than the foreign-looking one
        marks = [part * i / SLICES for i in range(SLICES + 1)]
        marks += [part + (1 - part) * i / SLICES for i in range(1, SLICES + 1)]
        values = [generating_function(runs, mark) for mark in marks]
        laws.append([b - a for a, b in itertools.pairwise(values)] + [values[0]])
    return laws[0], laws[1]


@dataclass(frozen=True)
class Truth:
    """The winner's laws in one order of the neighbours, outcomes with large losses first."""

    losses: list[mp.mpf]
    """Negated, so that they increase."""
    own: Masses
    other: Masses
    """Sums of the masses of the first outcomes."""
    masses: list[tuple[mp.mpf, mp.mpf]]

    @classmethod
    def of(cls, p: Masses, q: Masses) -> Truth:
        outcomes = sorted(((mp.log(b / a), a, b) for a, b in zip(p, q, strict=True) if a > 0), key=lambda one: one[0])
        losses = [loss for loss, _, _ in outcomes]
        own = list(itertools.accumulate((a for _, a, _ in outcomes), initial=mp.mpf(0)))
        other = list(itertools.accumulate((b for _, _, b in outcomes), initial=mp.mpf(0)))
        return cls(losses, own, other, [(a, b) for _, a, b in outcomes])

    def delta(self, epsilon: float) -> mp.mpf:
        """The hockey-stick divergence: what outcomes with a larger loss have more of."""
        count = bisect.bisect_left(self.losses, -mp.mpf(epsilon))
        return self.own[count] - mp.exp(mp.mpf(epsilon)) * self.other[count]

    def divergence(self, order: float) -> mp.mpf:
        total = mp.fsum(a**order * b ** (1 - order) for a, b in self.masses)
        return mp.log(total) / (order - 1)

    @property
    def largest_loss(self) -> mp.mpf:
        return -self.losses[0]


def truths(epsilon: float, runs: dict[str, float]) -> tuple[Truth, Truth]:
    """The winner's laws in both orders of the neighbours."""
    p, q = winners(epsilon, runs)
    assert mp.almosteq(mp.fsum(p), 1)
    return Truth.of(p, q), Truth.of(q, p)


def leaf_of(epsilon: float, runs: dict[str, float]) -> Any:
    return ts.selected(ts.pure_dp(epsilon=epsilon), **runs).terms[0][0]


def knots_of(half: Half) -> Knots:
    return list(zip(half.epsilon.tolist(), half.upper.tolist(), strict=True))


def wrong_knots(knots: Knots, both: tuple[Truth, Truth]) -> Knots:
    """The knots at which a bound is below the truth, in either order of the neighbours."""
    return [knot for knot in knots if max(truth.delta(knot[0]) for truth in both) > mp.mpf(knot[1])]


def moment_bound(knots: Knots, order: float) -> mp.mpf:
    """The divergence that a set of knots allows, the last one at delta 0, by the law of their chords."""
    epsilon, upper = (np.array(values) for values in zip(*knots, strict=True))
    half = Half(epsilon, upper, np.zeros_like(upper))
    law = pair_of_halves(half, half).upper
    assert law.infinity == 0.0
    logs = zip(law.log_masses.tolist(), law.atoms.tolist(), strict=True)
    total = mp.fsum(mp.exp(mp.mpf(log) + (order - 1) * mp.mpf(atom)) for log, atom in logs)
    return mp.log(total) / (order - 1)


@pytest.fixture(autouse=True)
def many_digits() -> Any:
    with mp.workdps(DIGITS):
        yield


@pytest.mark.parametrize(("epsilon", "runs"), share(CASES, 2))
def test_every_knot_is_a_bound_and_a_knot_that_is_not_is_found(epsilon: float, runs: dict[str, float]) -> None:
    both = truths(epsilon, runs)
    knots = knots_of(selected._half(leaf_of(epsilon, runs), Direction.REMOVE))
    assert wrong_knots(knots, both) == []
    # A twin: the additional knot, at delta 0, is put before the largest loss instead of behind it.
    largest = max(float(truth.largest_loss) for truth in both)
    assert wrong_knots([(largest * 0.999, 0.0)], both) != []
    first = next(place for place, bound in knots if bound == 0.0)
    assert largest <= first
    if "poisson" not in runs:  # the oracle comes near, so the test can fail
        assert wrong_knots([(first * 0.98, 0.0)], both) != []


@pytest.mark.parametrize("place", [0.3, 0.9, 0.999, 1.0, 1.0 + 1e-12, 1.01, 1.2])
def test_the_place_of_the_additional_knot_does_not_matter(place: float, monkeypatch: pytest.MonkeyPatch) -> None:
    epsilon, runs = CASES[0]
    monkeypatch.setattr(selected, "BEYOND", place)
    half = selected._half.__wrapped__(leaf_of(epsilon, runs), Direction.REMOVE)
    assert wrong_knots(knots_of(half), truths(epsilon, runs)) == []


@pytest.mark.parametrize(("epsilon", "runs"), share(CASES[:6], 2))
def test_every_set_of_knots_bounds_moments_and_a_wrong_knot_does_not(epsilon: float, runs: dict[str, float]) -> None:
    both = truths(epsilon, runs)
    knots = knots_of(selected._half(leaf_of(epsilon, runs), Direction.REMOVE))
    orders = (1.1, 2.0, 8.0, 200.0, 1e6)
    least = {order: max(truth.divergence(order) for truth in both) * (1 - mp.mpf(10) ** -12) for order in orders}
    zero = next(index for index, (_, bound) in enumerate(knots) if bound == 0.0)
    draw = random.Random(f"{epsilon} {runs}")
    for size in (0, 1, 5, 50, 400):
        chosen = sorted(draw.sample(range(1, zero), min(size, zero - 1)))
        some = [(0.0, 1.0), *(knots[index] for index in chosen), knots[zero]]
        for order in orders:
            assert moment_bound(some, order) >= least[order], (size, order)
    for order in orders[:4]:
        assert ts.selected(ts.pure_dp(epsilon=epsilon), **runs).renyi(order=order) >= least[order]
    largest = max(float(truth.largest_loss) for truth in both)
    before = [knot for knot in knots[1:zero] if knot[0] < largest * 0.999]
    assert moment_bound([(0.0, 1.0), *before, (largest * 0.999, 0.0)], orders[-1]) < least[orders[-1]]


MANY = [
    ts.selected(ts.pure_dp(epsilon=1), poisson=1000.0),
    ts.selected(ts.pure_dp(epsilon=3), poisson=762.0),
    ts.selected(ts.gdp(mu=3), poisson=2000.0),
    ts.selected(ts.pure_dp(epsilon=1), eta=100, gamma=1e-6),
    ts.selected(ts.pure_dp(epsilon=0.5), eta=1, gamma=0.2),
    ts.selected(ts.pure_dp(epsilon=0.5), poisson=1e-6),
]


def weight(leaf: Any, rank: float) -> mp.mpf:
    """phi'(1 - rank), with the mean number of runs that the leaf has."""
    if isinstance(leaf, selected.SelectedPoisson):
        return mp.mpf(leaf.runs) * mp.exp(-mp.mpf(leaf.runs) * mp.mpf(rank))
    gamma = mp.mpf(leaf.gamma)
    return mp.mpf(leaf.mean) * (gamma / (gamma + (1 - gamma) * mp.mpf(rank))) ** (1 + mp.mpf(leaf.eta))


@pytest.mark.parametrize("loss", share(MANY, 2), ids=str)
def test_lines_are_outward_where_doubles_hardly_hold_a_weight(
    loss: ts.PrivacyLoss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weight of 1e-310 has few digits. Rounded up, it made a slope too steep and so a bound too small."""
    [(leaf, _)] = loss.terms
    seen: list[tuple[Any, Any]] = []
    asked: list[Any] = []
    real = selected._envelope
    monkeypatch.setattr(selected, "_envelope", lambda *lines: seen.append(lines) or real(*lines))
    weigh = type(leaf).weight
    monkeypatch.setattr(type(leaf), "weight", lambda self, rank: asked.append(rank) or weigh(self, rank))
    selected._half.__wrapped__(leaf, Direction.REMOVE)
    [(heights, slopes)] = seen
    own, other = sorted(asked, key=lambda ranks: float(ranks[-1]))
    assert float(own[0]) == 0.0
    above = [mp.mpf(float(height)) / weight(leaf, float(rank)) for height, rank in zip(heights, own, strict=True)]
    below = [mp.mpf(float(slope)) / weight(leaf, float(rank)) for slope, rank in zip(slopes, other, strict=True)]
    assert min(above) >= 1 >= max(below)
    assert min(above) < 1 + 1e-11  # by little, where doubles have their digits
    assert max(below) > 1 - 1e-11


def test_the_margins_are_those_of_the_derivation() -> None:
    """See docs/theory/selected.md, "Knots": in units of half an ulp."""
    half_ulp = 2.0**-53
    exponent = 690 * half_ulp + 8 * half_ulp  # of e^(epsilon - L), and the exponential itself
    power = (4 * 101 + 14 * 101 + 8) * half_ulp  # of a share to the power of up to 101
    total = (4000 + 745) * half_ulp  # a sum of 4,000 masses, each from its logarithm
    assert exponent + power < selected.ROUNDING
    assert total < selected.ROUNDING
    assert (2 * exponent + 2 * 745 * half_ulp) / 1e-3 < selected.BEYOND - 1.0
    assert selected.SUBNORMAL > 10 * 5e-324
