"""One order of the neighbours, negative epsilon, the least share of wrong guesses, and goals that are attacks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts

P, Q = [0.5, 0.3, 0.15, 0.05], [0.1, 0.3, 0.25, 0.35]


def stick(p: list[float], q: list[float], epsilon: float) -> float:
    return sum(max(0.0, x - math.exp(epsilon) * y) for x, y in zip(p, q, strict=True))


@pytest.mark.parametrize("epsilon", [-5.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0])
def test_each_order_by_itself(epsilon: float) -> None:
    loss = ts.discrete_pair(P, Q)
    for way, one, two in (("remove", P, Q), ("add", Q, P)):
        truth = stick(one, two, epsilon)
        bounds = loss.delta_bounds(epsilon=epsilon, direction=way)
        assert bounds.lower <= truth * (1 + 1e-15) + 1e-16
        assert truth * (1 - 1e-15) <= bounds.upper <= truth * (1 + 1e-9) + 1e-12
        assert loss.delta(epsilon=epsilon, direction=ts.Direction(way)) == bounds.upper
    worst = max(stick(P, Q, epsilon), stick(Q, P, epsilon))
    assert loss.delta(epsilon=epsilon) == pytest.approx(worst, rel=1e-9, abs=1e-12)


def test_epsilon_of_each_order() -> None:
    loss = 100 * ts.gaussian(sigma=1).sampled(rate=0.1)
    both = [loss.epsilon(delta=1e-6, direction=way) for way in ("remove", "add")]
    assert both[0] > both[1]
    assert max(both) == loss.epsilon(delta=1e-6)


def test_negative_epsilon_of_arrays_and_extremes() -> None:
    loss = ts.gdp(mu=1)
    assert loss.delta(epsilon=np.array([-1e300, -800.0])).tolist() == [1.0, 1.0]
    assert ts.no_loss().delta(epsilon=-1.0) >= 1 - math.exp(-1)
    assert 0 < loss.delta(epsilon=-1e-300) - loss.delta(epsilon=0.0) < 1e-12


@pytest.mark.parametrize("prior", [1e-9, 0.1, 0.4, 0.5, 0.6, 0.95])
def test_the_best_guess_is_wrong_this_often(prior: float) -> None:
    truth = sum(min(prior * x, (1 - prior) * y) for x, y in zip(P, Q, strict=True))
    swapped = sum(min(prior * y, (1 - prior) * x) for x, y in zip(P, Q, strict=True))
    claim = ts.discrete_pair(P, Q).bayes_risk(prior=prior)
    assert min(truth, swapped) * (1 - 1e-9) <= claim <= min(truth, swapped)


def test_the_best_guess_without_a_release_and_without_privacy() -> None:
    assert ts.no_loss().bayes_risk(prior=0.25) == pytest.approx(0.25, rel=1e-14)
    assert ts.not_private(why="names").bayes_risk(prior=0.25) == 0.0
    assert ts.gdp(mu=1).bayes_risk(prior=[0.0, 1.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "asked",
    [
        lambda: ts.gdp(mu=1).delta(epsilon=1, direction="left"),
        lambda: ts.gdp(mu=1).for_groups(2).delta(epsilon=1, direction="add"),
        lambda: ts.gdp(mu=1, adjacency="replace").epsilon(delta=1e-5, direction="add"),
        lambda: ts.gdp(mu=1).delta_bounds(epsilon=1, direction="add", rigorous=True),
        lambda: ts.gdp(mu=1).delta(epsilon=math.nan),
        lambda: ts.gdp(mu=1).bayes_risk(prior=1.5),
        lambda: ts.attack_goal(alpha=0.1, power=0.05),
        lambda: ts.belief_goal(prior=0.5, posterior=0.4),
        lambda: ts.calibrate(lambda s: ts.gaussian(sigma=s), 3),
    ],
)
def test_what_has_no_meaning_is_refused(asked: object) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        asked()  # type: ignore[operator]


def test_an_operating_point_is_met_and_hardly_more() -> None:
    from scipy.stats import norm

    sigma = ts.calibrate(lambda s: ts.gaussian(sigma=s), ts.attack_goal(alpha=0.01, power=0.05))
    assert 1 / sigma == pytest.approx(norm.ppf(0.05) - norm.ppf(0.01), rel=1e-6)
    assert ts.gaussian(sigma=sigma).power(alpha=0.01) <= 0.05
    steps = lambda s: 100 * ts.gaussian(sigma=s).sampled(rate=0.05)  # noqa: E731
    found = ts.calibrate(steps, ts.attack_goal(alpha=0.001, power=0.01), relative=1e-4)
    assert steps(found).power(alpha=0.001) <= 0.01 * (1 + 2e-3)
    assert steps(found * 0.98).power(alpha=0.001) > 0.01


def test_a_belief_is_met_and_hardly_more() -> None:
    scale = ts.calibrate(lambda s: ts.laplace(scale=s), ts.belief_goal(prior=0.01, posterior=0.05))
    assert 1 / scale == pytest.approx(math.log(0.05 / 0.95 * 0.99 / 0.01), rel=1e-6)
    goal = ts.belief_goal(prior=0.1, posterior=0.5, delta=1e-3)
    sigma = ts.calibrate(lambda s: ts.gaussian(sigma=s), goal)
    assert ts.gaussian(sigma=sigma).posterior(prior=0.1, delta=1e-3) <= 0.5


@pytest.mark.parametrize(
    "goal",
    [
        ts.zcdp(rho=0.5),
        ts.zcdp(rho=0.5, offset=0.1),
        ts.renyi_dp({2: 1, 8: 4}),
        ts.from_profile([(0, 0.5), (1, 0.0625), (4, 1e-6)]),
        ts.from_tradeoff([(0, 1), (0.25, 0.25), (1, 0)]),
    ],
    ids=str,
)
def test_goals_that_are_curves(goal: ts.PrivacyLoss) -> None:
    scale = ts.calibrate(lambda s: ts.laplace(scale=s), goal, relative=1e-4)
    assert ts.laplace(scale=scale) <= goal
    assert not ts.laplace(scale=scale * 0.999) <= goal
