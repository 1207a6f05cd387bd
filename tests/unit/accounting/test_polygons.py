"""Chords, vertices and hulls: groups, replace and trade-off read-outs against exact rational chains of finite pairs.

The oracle (exact_chains.py) is in fractions: a power curve is the Neyman-Pearson curve of a pair, a
chain of neighbours is the composition of power curves, a delta is the largest power minus e^epsilon times the level.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

import tallystick as ts
from sweeps import ALL
from tallystick.accounting.finite import law_of_outcomes, law_of_pair, worse_of_both_orders
from tallystick.accounting.polygon import (
    LowerProfile,
    LowerTradeoff,
    UpperPower,
    UpperProfile,
    law_above,
    law_below,
)
from tallystick.cards.meaning import meaning
from tallystick.numerics.law import UNIT
from unit.accounting.exact_chains import Pair, at, chain, delta, exact, hostile_pair, largest, least, power_curve

pytestmark = pytest.mark.filterwarnings("error")

LEVELS = [0.0, 0.1, 1.0, 5.0]
CASES = [hostile_pair(random.Random(seed)) for seed in range(40)]
SLACK = Fraction(10) ** -15  # masses given as doubles sum to one only to this


# ---- what was wrong ----


def test_the_vertex_where_power_reaches_one() -> None:
    """f(alpha) = max(0, 1 - delta - alpha) for (0, delta): the polygon's last vertex was clipped to one, .35 for .2."""
    loss = ts.approx_dp(epsilon=0, delta=0.3)
    assert 0.2 - 1e-9 < loss.tradeoff(alpha=0.5) <= 0.2
    assert 0.8 <= loss.power(alpha=0.5) < 0.8 + 1e-9
    one = ts.approx_dp(epsilon=1, delta=1e-5)
    truth = math.exp(-1) * (1 - 1e-5 - 0.5)
    assert truth - 1e-9 < one.tradeoff(alpha=0.5) <= truth


def test_groups_of_a_loss_that_gives_everything_away() -> None:
    """Two steps of (0, .3): an outcome of mass .3 each time, together .6."""
    pair = ts.approx_dp(epsilon=0, delta=0.3).for_groups(2)
    assert 0.6 <= pair.delta(epsilon=0) < 0.6 + 1e-9
    assert pair.epsilon(delta=0.55) == math.inf
    assert meaning(pair).hit_rates[0.01] >= 0.61


def test_replace_of_a_loss_that_gives_everything_away() -> None:
    found = ts.discrete_pair([0.7, 0.3, 0], [0.7, 0, 0.3]).as_replace().delta(epsilon=0)
    assert 0.6 <= found < 0.6 + 1e-9


@pytest.mark.parametrize(
    ("p", "q", "truth"),
    [
        ([1, 1e-18], [1, 0], math.inf),
        ([0.5, 0.5, 1e-17], [0.5, 0.5, 1e-20], math.log(1000)),
        ([1, 1e-300], [1, 1e-305], math.log(1e5)),
    ],
)
def test_rare_outcomes_keep_their_loss_under_replace(p: list[float], q: list[float], truth: float) -> None:
    found = ts.discrete_pair(p, q, adjacency="replace").epsilon(delta=0)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-12)


def test_replace_takes_the_better_chain() -> None:
    """Sampled Laplace at rate .1: one step is .0393 apart, and two by the better chain .1 (1 - e^{-1}) = .0632."""
    found = ts.laplace(scale=1).sampled(rate=0.1).as_replace().delta(epsilon=0)
    assert 0.06320 < found < 0.06322


# ---- the same against exact chains ----


@pytest.mark.parametrize("case", range(len(CASES)))
def test_replace_and_groups_against_exact_chains(case: int) -> None:
    p, q = CASES[case]
    u, v = exact(p, q)
    there, back = power_curve(u, v), power_curve(v, u)
    loss = ts.discrete_pair(p, q)
    replaced, group = least(chain(there, back), chain(back, there)), chain(*(largest(there, back),) * 2)
    for epsilon in LEVELS:
        level = Fraction(math.exp(epsilon))
        for found, curve in ((loss.as_replace(), replaced), (loss.for_groups(2), group)):
            truth = delta(curve, level)
            assert Fraction(found.delta(epsilon=epsilon)) >= truth - SLACK
            assert found.delta(epsilon=epsilon) <= float(truth) * (1 + 1e-6) + 1e-11
    for alpha in (0.0, 1e-12, 0.05, 0.5, 1 - 1e-9):
        for found, curve in ((loss.as_replace(), replaced), (loss.for_groups(2), group), (loss, largest(there, back))):
            best = at(curve, Fraction(alpha))
            assert best - SLACK <= Fraction(found.power(alpha=alpha))
            # At tiny levels outcomes of mass 1e-300 are not told from those of mass 0, and delta is read to 1e-15.
            assert alpha < 1e-9 or Fraction(found.power(alpha=alpha)) <= best + Fraction(1, 10**9)
            assert Fraction(found.tradeoff(alpha=alpha)) <= 1 - best + SLACK


@pytest.mark.parametrize("case", range(len(CASES)))
def test_both_orders_of_a_finite_pair(case: int) -> None:
    p, q = CASES[case]
    u, v = exact(p, q)
    worse = ts.discrete_pair(p, q, adjacency="replace")
    for epsilon in LEVELS:
        level = Fraction(math.exp(epsilon))
        truth = max(delta(power_curve(v, u), level), delta(power_curve(u, v), level))
        bounds = worse.delta_bounds(epsilon=epsilon)
        assert Fraction(bounds.upper) >= truth - SLACK
        assert Fraction(bounds.lower) <= truth + SLACK
    lost = max(sum(a for a, b in zip(u, v, strict=True) if not b), sum(b for a, b in zip(u, v, strict=True) if not a))
    largest_loss = max((abs(math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True) if a and b), default=0.0)
    found = worse.epsilon(delta=0)
    assert found == math.inf if lost else found >= largest_loss * (1 - 1e-12)


@pytest.mark.parametrize("size", [3, 5, 16])
def test_larger_groups_against_exact_chains(size: int) -> None:
    p, q = [0.5, 0.3, 0.2, 0.0], [0.4, 0.35, 0.2, 0.05]
    u, v = exact(p, q)
    step = largest(power_curve(u, v), power_curve(v, u))
    whole = step
    for _ in range(size - 1):
        whole = chain(whole, step)
    group = ts.discrete_pair(p, q).for_groups(size)
    for epsilon in (0.0, 0.3, 2.0):
        truth = delta(whole, Fraction(math.exp(epsilon)))
        assert truth - SLACK <= Fraction(group.delta(epsilon=epsilon)) <= truth + Fraction(1, 10**9)
    for alpha in (0.001, 0.3):
        assert Fraction(group.tradeoff(alpha=alpha)) <= 1 - at(whole, Fraction(alpha)) + SLACK


def test_a_group_of_a_million_is_read_quickly_and_never_below_its_pair() -> None:
    loss = ts.laplace(scale=1e6)
    one = loss.for_groups(10**6)
    assert loss.for_groups(1000).delta(epsilon=0) <= one.delta(epsilon=0) <= 1.0
    assert 1.0 <= one.epsilon(delta=0) <= 1.0 + 1e-15
    # The total variation of a million steps is at least that of the explicit mechanism: one Laplace of scale 1.
    assert one.delta(epsilon=0) >= -math.expm1(-0.5) * (1 - 1e-12)


# ---- the core by itself ----


def random_profile(draw: random.Random) -> tuple[np.ndarray, np.ndarray, Pair]:
    size = draw.randint(2, 8)
    p = [draw.random() ** 4 for _ in range(size)]
    q = [draw.random() ** 4 for _ in range(size)]
    u, v = exact([m / sum(p) for m in p], [m / sum(q) for m in q])
    knots = np.array(sorted({0.0, *(draw.random() * 4 for _ in range(12))}))
    return knots, np.array([float(delta(power_curve(v, u), Fraction(math.exp(e)))) for e in knots]), (u, v)


@pytest.mark.parametrize("seed", range(25))
def test_laws_above_and_below_a_profile(seed: int) -> None:
    draw = random.Random(seed)
    knots, heights, (u, v) = random_profile(draw)
    behind = np.array([float(delta(power_curve(u, v), Fraction(math.exp(e)))) for e in knots])
    above = law_above(UpperProfile(knots, heights * (1 + 1e-15)), UpperProfile(knots, behind * (1 + 1e-15)))
    below = law_below(LowerProfile.between(knots, heights, heights), LowerProfile.between(knots, behind, behind))
    for epsilon in np.linspace(-3.0, 5.0, 60):
        truth = float(delta(power_curve(v, u), Fraction(math.exp(epsilon))))
        assert above.excess(np.array([epsilon]))[0] >= truth * (1 - 1e-14) - 1e-15
        assert below.excess(np.array([epsilon]))[0] <= truth * (1 + 1e-14) + 1e-15


@pytest.mark.parametrize("seed", range(25 if ALL else 10))
def test_power_curves_stay_above_what_they_stand_for(seed: int) -> None:
    draw = random.Random(1000 + seed)
    knots, heights, (u, v) = random_profile(draw)
    behind = np.array([float(delta(power_curve(u, v), Fraction(math.exp(e)))) for e in knots])
    ahead, back = UpperProfile(knots, heights * (1 + 1e-15)), UpperProfile(knots, behind * (1 + 1e-15))
    one, other = UpperPower.under(ahead, back), UpperPower.under(back, ahead)
    there, home = power_curve(v, u), power_curve(u, v)
    for alpha in np.linspace(0.0, 1.0, 41):
        x = Fraction(float(alpha))
        assert Fraction(one.at(float(alpha))) >= at(there, x) - SLACK
        assert Fraction(one.then(other).at(float(alpha))) >= at(chain(there, home), x) - SLACK
        assert Fraction(one.meet(other).at(float(alpha))) >= at(least(there, home), x) - SLACK
    thick = one
    for _ in range(12):
        thick = thick.then(other)
    assert thick.alpha.size <= 1500
    assert np.all(np.diff(thick.power) >= 0.0)
    assert thick.power[-1] == 1.0


def test_a_tradeoff_and_its_mirror() -> None:
    """The larger of f and its inverse, at and between corners, in fractions."""
    f = LowerTradeoff(np.array([0.0, 0.1, 0.6, 1.0]), np.array([0.95, 0.5, 0.1, 0.0]))
    both = f.larger(f.inverse())

    def value(curve: LowerTradeoff, x: Fraction) -> Fraction:
        return at(
            [(Fraction(a), Fraction(b)) for a, b in zip(curve.alpha.tolist(), curve.beta.tolist(), strict=True)], x
        )

    for k in range(101):
        x = Fraction(k, 100)
        truth = max(value(f, x), value(f.inverse(), x))
        assert truth - Fraction(1, 10**12) <= value(both, x) <= truth


def test_masses_of_the_worse_order_are_given_ones() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    outcomes = worse_of_both_orders(p, q)
    assert sorted(float(own) for own, _ in outcomes if own) == pytest.approx([0.2, 0.3, 0.5], abs=1e-15)
    assert law_of_outcomes(outcomes).highest == pytest.approx(math.log(2.5), rel=1e-15)


@pytest.mark.parametrize("seed", range(20))
def test_the_worse_of_both_orders_is_exact(seed: int) -> None:
    """By the definition of delta at every kink, between them and beyond them, in fractions."""
    rng = random.Random(seed)
    whole, size = rng.choice([16, 64, 10**6]), rng.choice([2, 3, 5, 8])

    def masses() -> list[Fraction]:
        cuts = [0, *sorted(rng.choices(range(whole + 1), k=size - 1)), whole]
        return [Fraction(b - a, whole) for a, b in pairwise(cuts)]

    def hockey(pairs: list[tuple[Fraction, Fraction]], level: Fraction) -> Fraction:
        return sum((max(Fraction(0), own - level * other) for own, other in pairs), Fraction(0))

    p, q = masses(), masses()
    outcomes = worse_of_both_orders(p, q)
    assert sum(own for own, _ in outcomes) == sum(other for _, other in outcomes) == 1
    there, back = list(zip(p, q, strict=True)), list(zip(q, p, strict=True))
    levels = sorted({own / other for own, other in [*there, *back, *outcomes] if other} | {Fraction(1)})
    levels = [*levels, *((a + b) / 2 for a, b in pairwise(levels)), 2 * levels[-1]]
    for level in (one for one in levels if one >= 1):
        assert hockey(outcomes, level) == max(hockey(there, level), hockey(back, level))


def test_ratios_beyond_the_doubles_have_their_logarithm() -> None:
    loss = ts.discrete_pair([1.0, 5e-324], [5e-324, 1.0], adjacency="replace")
    assert loss.epsilon(delta=0.0) == pytest.approx(float(mpmath.log(mpmath.mpf(2) ** 1074)), rel=1e-14)


def test_the_losses_of_tiny_masses_keep_their_digits() -> None:
    """log p - log q of masses near 1e-300 is a difference of two numbers near 690: 1e-13 off where 1e-15 is said."""
    p, q = np.array([0.5, 3.3e-300, 1e-310, 0.5]), np.array([0.5, 1.1e-300, 4e-311, 0.5])
    law = law_of_pair(p, q)
    with mpmath.workdps(50):
        for own, other in zip(p.tolist(), q.tolist(), strict=True):
            truth = mpmath.log(mpmath.mpf(own) / mpmath.mpf(other))
            assert min(abs(atom - truth) for atom in law.atoms.tolist()) <= law.value_ulps * UNIT * abs(truth)


def test_a_group_whose_loss_is_no_double_is_rounded_up() -> None:
    """Found by the referee: 5 * 1e-12 is above the double 5e-12, and delta there is not 0."""
    loss = ts.pure_dp(epsilon=1e-12).for_groups(5)
    assert loss.delta(epsilon=5e-12) > 0.0
    assert Fraction(loss.epsilon(delta=1e-300)) >= 5 * Fraction(1e-12)
    assert ts.pure_dp(epsilon=0.5).for_groups(2).delta(epsilon=1.0) == 0.0


@pytest.mark.parametrize("q", [[0.2, 0.8], [0.1, 0.9], [0.3, 0.7]])
def test_masses_that_sum_to_one_but_for_a_rounding_keep_their_sum_in_the_worse_of_both_orders(q) -> None:
    """0.2 and 0.8 sum to 1 + 5e-17 as exact numbers; the crossing next to level one had 0.3 of mass too much."""
    outcomes = worse_of_both_orders([0.5, 0.5], q)
    assert sum(own for own, _ in outcomes) == sum(other for _, other in outcomes) == 1


def test_both_measures_of_a_polygon_keep_their_digits_where_losses_are_huge():
    """Found by the referee: masses of the other measure were log-masses less losses of a million, 1e-10 too small.

    Two releases of very large rho may show everything; a unit that is added then stays out with probability .9.
    """
    for rho in (1e4, 1e5, 1e6):
        loss = (2 * ts.zcdp(rho=rho)).sampled(rate=0.1)
        assert (
            loss.delta(epsilon=0.1, direction="add")
            >= 0.0053461737319171
            > 0.9999 * loss.delta(epsilon=0.1, direction="add")
        )


def test_the_power_of_an_epoch_is_not_thinned_below_the_truth() -> None:
    """0.99881162 for 0.99881182: two steps of mu = 2.69, integrated to 1e-13 (its best test adds)."""
    epoch = ts.gaussian(sigma=1 / 2.692582403572638).allocated(steps=2)
    assert 0.998811816094 <= epoch.power(alpha=0.7080340277642051) <= 0.99882


def test_a_law_from_below_has_no_more_mass_than_one() -> None:
    """1 + 9e-13: the chord across 0 was rounded up, which left less than nothing for a loss of 0, and 0 was taken."""
    told = ts.discrete_pair([0.5, 0.3, 0.2, 0.0], [0.25, 0.3, 0.0, 0.45]) + ts.laplace(scale=1)
    leaf = ts.worst(ts.approx_dp(epsilon=0, delta=0.1), told).terms[0][0]
    for way in ts.Direction:
        law = leaf.pair(way).lower
        for masses, rest in ((law.log_masses, law.infinity), (law.others, law.zero)):
            assert math.fsum([*np.exp(masses).tolist(), rest]) <= 1.0
