"""Every read-out of sums, samples, worst cases, groups and replace of hostile finite pairs, against exact enumeration.

The oracle lists joint outcomes in fractions. For groups and replace the pair itself is the witness: a record may be
replaced by one that changes nothing, so no read-out may be below what the pair shows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import pytest

import tallystick as ts
from sweeps import ALL
from unit.accounting.exact_chains import at, exact, hostile_pair, power_curve

pytestmark = pytest.mark.filterwarnings("error")

Masses = list[Fraction]
Pairs = list[tuple[Masses, Masses]]
TINY = Fraction(1, 10**15)
SHARE = Fraction(1, 10**12)


def together(first: Masses, second: Masses) -> Masses:
    return [a * b for a in first for b in second]


def excess(pairs: Pairs, level: Fraction) -> Fraction:
    return max(
        sum((max(p - level * q, Fraction(0)) for p, q in zip(*pair, strict=True)), Fraction(0)) for pair in pairs
    )


def real(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / mp.mpf(value.denominator)


def divergence(pairs: Pairs, order: float) -> mp.mpf:
    found = []
    for p, q in pairs:
        if any(a and not b for a, b in zip(p, q, strict=True)):
            return mp.inf
        both = [(real(a), real(b)) for a, b in zip(p, q, strict=True) if a]
        if order == 1.0:
            found.append(sum(a * mp.log(a / b) for a, b in both))
        else:
            found.append(mp.log(sum(a**order * b ** (1 - mp.mpf(order)) for a, b in both)) / (order - 1))
    return max(found)


def belief(pairs: Pairs, prior: Fraction) -> Fraction:
    return max(prior * a / (prior * a + (1 - prior) * b) for p, q in pairs for a, b in zip(p, q, strict=True) if a)


def sampled(p: Masses, q: Masses, rate: float) -> Pairs:
    mixed = [Fraction(rate) * a + (1 - Fraction(rate)) * b for a, b in zip(p, q, strict=True)]
    return [(mixed, q), (q, mixed)]


def cases(seed: int) -> tuple[ts.PrivacyLoss, Pairs, bool]:
    """A loss, its pairs in both directions, and whether they are all of it."""
    draw = random.Random(seed)
    first, second = hostile_pair(draw), hostile_pair(draw)
    (p, q), (u, v) = exact(*first), exact(*second)
    a, b = ts.discrete_pair(*first), ts.discrete_pair(*second)
    x, y = together(p, u), together(q, v)
    rate = draw.choice([0.5, 0.01, 1e-6, 1 - 1e-12])
    kinds: list[Callable[[], tuple[ts.PrivacyLoss, Pairs, bool]]] = [
        lambda: (ts.worst(a, b), [(p, q), (q, p), (u, v), (v, u)], True),
        lambda: ((a + b).sampled(rate=rate), sampled(x, y, rate), True),
        lambda: (2 * a + b, [(together(p, x), together(q, y)), (together(q, y), together(p, x))], True),
        lambda: ((a + b).as_replace(), [(x, y), (y, x)], False),
        lambda: ((a + b).for_groups(2), [(x, y), (y, x)], False),
    ]
    return kinds[seed % len(kinds)]()


@pytest.mark.parametrize("seed", range(50 if ALL else 20))
def test_no_read_out_is_on_the_wrong_side(seed: int) -> None:
    loss, pairs, whole = cases(seed)
    for epsilon in (0.0, 0.3, 3.0, 40.0):
        least, bounds = excess(pairs, Fraction(math.exp(epsilon))), loss.delta_bounds(epsilon=epsilon)
        assert Fraction(bounds.upper) >= least * (1 - SHARE) - TINY / 1000
        assert not whole or Fraction(bounds.lower) <= least * (1 + SHARE) + TINY
    for delta in (0.0, 1e-12, 1e-3, 0.2):
        epsilon = loss.epsilon(delta=delta)
        if epsilon < 300:
            with mp.workdps(60):
                level = Fraction(int(mp.e ** mp.mpf(epsilon) * 10**40), 10**40)
            assert excess(pairs, level) <= Fraction(delta) * (1 + SHARE) + TINY / 1000
    for alpha in (1e-9, 0.05, 0.5, 0.999):
        best = max(at(power_curve(q, p), Fraction(alpha)) for p, q in pairs)
        assert Fraction(loss.power(alpha=alpha)) >= best - TINY
        assert Fraction(loss.tradeoff(alpha=alpha)) <= 1 - best + TINY
    with mp.workdps(50):
        for order in (1.0, 1.5, 2.0, 30.0):
            assert (
                mp.mpf(loss.renyi(order=order))
                >= divergence(pairs, order) * (1 - mp.mpf(10) ** -13) - mp.mpf(10) ** -15
            )
    assert Fraction(loss.posterior(prior=0.01)) >= belief(pairs, Fraction(0.01)) * (1 - SHARE)
    assert Fraction(loss.total_variation()) >= excess(pairs, Fraction(1)) * (1 - SHARE)


def test_the_rarest_outcomes_are_no_dust() -> None:
    """Mass of 1e-300 at infinity was taken for what a quadrature leaves out: 1.83 for infinity."""
    pair = ts.discrete_pair([0.796875, 0.140625, 0.0625, 1e-300], [0.015625, 0.34375, 0.640625, 0.0])
    assert pair.sampled(rate=0.25).renyi(order=3.0) == math.inf
    profile = ts.from_profile([(0.0, 0.5), (1.0, 0.0625), (3.0, 1e-300)], adjacency="replace")
    assert profile.kl() == math.inf
    assert profile.posterior(prior=0.01) == 1.0
    assert ts.approx_dp(epsilon=1, delta=1e-310).epsilon(delta=0) == math.inf


def test_a_loss_that_gives_everything_away_composes() -> None:
    """Nothing finite was left to read: an IndexError."""
    everything = ts.approx_dp(epsilon=1, delta=1) + ts.pure_dp(epsilon=1)
    assert everything.delta(epsilon=3) == 1.0
    assert everything.tradeoff(alpha=0.1) == 0.0
    assert (ts.discrete_pair([1, 0], [0, 1]) + ts.laplace(scale=1)).epsilon(delta=0.5) == math.inf
