"""Lattices above and below a pair: both are bounds for any knots, and sums of them enclose what is known otherwise."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tallystick as ts
from pace import Clock
from sweeps import share

flint = pytest.importorskip("flint")
from flint import arb, ctx  # noqa: E402

from tallystick.numerics.rigorous.continuous import gaussian_law, laplace_law  # noqa: E402
from tallystick.numerics.rigorous.polygon import masses_above, masses_below  # noqa: E402

LAWS = {
    "gaussian": lambda: gaussian_law(arb(1), None, True),
    "sampled gaussian, removing": lambda: gaussian_law(arb(2), arb(0.1), True),
    "sampled gaussian, adding": lambda: gaussian_law(arb(2), arb(0.1), False),
    "laplace": lambda: laplace_law(arb(1), None, True),
    "sampled laplace": lambda: laplace_law(arb(1), arb(0.3), True),
}


def profile_of(losses: list[Any], masses: list[Any], infinite: Any, x: Any) -> Any:
    return infinite + sum((m * -(x - loss).expm1() for loss, m in zip(losses, masses, strict=True) if loss > x), arb(0))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("seed", range(4))
def test_the_pairs_of_any_knots_are_above_and_below(name: str, seed: int) -> None:
    draw = random.Random(f"{name}/{seed}")
    with ctx.workprec(160):
        height = LAWS[name]().profile
        low, high, count = draw.uniform(-4, 0.2), draw.uniform(0.25, 5), draw.choice([3, 6, 15, 40, 200])
        levels = [arb(low + (high - low) * k / count) for k in range(count + 1)]
        heights, ratios = [height(x) for x in levels], [x.exp() for x in levels]
        above, infinite = masses_above(heights, ratios, arb(1))
        below = masses_below(heights, ratios, arb(1))
        for _ in range(60):
            x = arb(draw.uniform(low - 0.5, high + 0.5))
            truth = height(x)
            assert not profile_of(levels, above, infinite, x) < truth
            assert not profile_of(levels, below, arb(0), x) > truth
        x = arb(0)
        gap = profile_of(levels, above, infinite, x) - profile_of(levels, below, arb(0), x)
        if count == 200:
            assert gap < 0.01  # and not far apart


@pytest.mark.parametrize(
    ("loss", "delta", "width"),
    share(
        [
            (2 * ts.gaussian(sigma=1).sampled(rate=0.1), 1e-5, 2e-2),
            (20 * ts.laplace(scale=1).sampled(rate=0.01), 1e-5, 2e-2),
            (3 * ts.gaussian(sigma=1, adjacency="replace").subset(batch=5, population=100), 1e-5, 2e-2),
            (ts.gaussian(sigma=1, adjacency="replace").subset(batch=5, population=100), 1e-5, 1e-12),
            (2 * ts.gdp(mu=0.5).for_groups(3), 1e-5, 1e-12),
        ],
        2,
    ),
)
def test_few_sampled_steps_subsets_and_groups_are_proved(loss: ts.PrivacyLoss, delta: float, width: float) -> None:
    clock = Clock()
    proved, known = loss.epsilon_bounds(delta=delta, rigorous=True), loss.epsilon_bounds(delta=delta)
    assert proved.lower <= known.upper
    assert known.lower <= proved.upper
    assert proved.upper - proved.lower <= width * proved.upper
    assert clock.seconds < 6.0


def test_what_takes_too_long_is_refused_in_time() -> None:
    clock = Clock()
    with pytest.raises(ts.errors.NotComputable):
        ts.discrete_gaussian(sigma=1e6).epsilon_bounds(delta=1e-5, rigorous=True)
    assert clock.seconds < 6.0


def test_many_steps_of_a_law_that_is_no_lattice_are_proved() -> None:
    loss = 1000 * ts.discrete_pair([0.5, 0.3, 0.2], [0.4, 0.35, 0.25])
    proved, known = loss.epsilon_bounds(delta=1e-5, rigorous=True), loss.epsilon_bounds(delta=1e-5)
    assert known.lower <= proved.upper <= known.upper * 1.001
