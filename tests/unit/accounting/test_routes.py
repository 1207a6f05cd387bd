"""Routes share one protocol, their certified answers never exclude each other, and what ran is what is said."""

from __future__ import annotations

import itertools
import math

import pytest

import tallystick as ts
from sweeps import share
from tallystick.accounting import routes
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.direction import OneDirection
from tallystick.errors import Contradiction

ROUTES = [kind for kind in vars(routes).values() if isinstance(kind, type) and issubclass(kind, routes.Route)]
LOSSES = {
    "sampled": 1000 * ts.gaussian(sigma=1).sampled(rate=0.01),
    "Laplace": 3 * ts.laplace(scale=2),
    "a lattice": 40 * ts.discrete_laplace(scale=3, sensitivity=2),
    "discrete Gaussians": 50 * ts.discrete_gaussian(sigma=40),
    "bounded range": 10 * ts.exponential(epsilon=0.3),
    "a curve and more": ts.zcdp(rho=0.1) + ts.laplace(scale=2),
    "mass at infinity": 30 * ts.approx_dp(epsilon=0.1, delta=1e-4) + 3 * ts.laplace(scale=2),
    "rare huge losses": 2000 * ts.gaussian(sigma=0.4).sampled(rate=1e-4),
    "unlike": 5 * ts.gaussian(sigma=2).sampled(rate=0.2) + 3 * ts.laplace(scale=5) + 2 * ts.pure_dp(epsilon=0.2),
}


def sides(loss: ts.PrivacyLoss) -> list[OneDirection]:
    return [OneDirection(loss.terms, direction) for direction in ts.Direction]


@pytest.mark.parametrize("name", share(LOSSES, 3))
def test_every_route_that_answers_allows_what_the_others_allow(name: str) -> None:
    for side, delta in itertools.product(sides(LOSSES[name]), (0.2, 1e-3, 1e-9)):  # what a side keeps serves all three
        if delta <= side.infinity:
            continue
        answers = [found for route in side.routes if (found := route.epsilon(delta, 1e-6)) is not None]
        assert max(found.lower for found in answers) <= min(found.upper for found in answers)
        epsilon = side.epsilon_bounds(delta).upper
        answers = [found for route in side.routes if (found := route.delta(epsilon, 1e-6)) is not None]
        assert max(found.lower for found in answers) <= min(found.upper for found in answers)


def test_every_route_has_words_of_its_own() -> None:
    kinds = [kind for kind in ROUTES if kind is not routes.Route]
    assert len({kind.words for kind in kinds}) == len(kinds) >= 14


def test_what_contradicts_itself_raises() -> None:
    with pytest.raises(Contradiction, match="defect"):
        Bounds(0.0, 1.0).meet(Bounds(1.5, 2.0))
    assert Bounds(0.0, 1.0).meet(Bounds(1.0, 2.0)) == Bounds(1.0, 1.0)


class Liar(routes.Route):
    """A route whose lower bound is too high."""

    words = "a lie"
    __slots__ = ()

    def epsilon(self, delta: float, width: float) -> Bounds:
        return Bounds(100.0, 101.0)

    def delta(self, epsilon: float, width: float) -> Bounds:
        return Bounds(0.9, 1.0)


@pytest.mark.parametrize("first", [True, False])
def test_a_wrong_route_is_not_hidden(first: bool) -> None:
    side = OneDirection(LOSSES["unlike"].terms, ts.Direction.REMOVE)
    lie = Liar(side)
    honest = tuple(route for route in side.routes if not isinstance(route, routes.Contour))
    side.__dict__["routes"] = (lie, *side.routes) if first else (*honest[:3], lie, *honest[3:])
    with pytest.raises(Contradiction):
        side.epsilon_bounds(1e-6)
    with pytest.raises(Contradiction):
        side.delta_bounds(3.0)


def test_cheap_routes_come_first_and_dear_ones_are_not_asked_in_vain() -> None:
    side = OneDirection(LOSSES["sampled"].terms, ts.Direction.REMOVE)
    side.epsilon_bounds(1e-6)
    assert side.last_routes == [routes.Contour.words]
    assert "grid" not in vars(side) or not side.grid._kept


def test_what_is_said_is_what_ran() -> None:
    loss = LOSSES["Laplace"]
    side = OneDirection(loss.terms, ts.Direction.REMOVE)
    assert routes.Blurred.words in side.explain()
    side.epsilon_bounds(0.0)
    assert "largest loss" in side.explain()
    side.delta_bounds(0.5)
    assert routes.Blurred.words in side.explain()
    assert "no loss" in ts.no_loss().explain_computation()
    assert "groups of 3" in LOSSES["sampled"].for_groups(3).explain_computation()
    curve = OneDirection(ts.zcdp(rho=1).terms, ts.Direction.REMOVE)
    curve.epsilon_bounds(1e-6)
    assert curve.last_routes == [routes.RenyiCurve.words]


def test_wide_blurs_claim_nothing_from_below() -> None:
    """Blurs so wide that both look alike once gave 5e10 + 8193 as a lower bound on what is 5e10 at most."""
    loss = 10**9 * ts.pure_dp(epsilon=50.0)
    for delta in (1e-300, 1e-6, 0.5, 1 - 1e-9):
        bounds = loss.epsilon_bounds(delta=delta)
        assert bounds.lower <= 5e10
        assert bounds.upper <= 5e10


def test_cut_batches_are_not_bounded_by_what_is_uncut() -> None:
    """Sampling never hurts; cutting the batch may."""
    leaf = ts.gaussian(sigma=1).sampled(rate=0.5, largest=60, population=100, cut="anyhow").terms[0][0]
    assert leaf.unamplified is leaf
    assert math.isinf(
        (20 * ts.gaussian(sigma=1).sampled(rate=0.5, largest=55, population=100, cut="anyhow")).epsilon(delta=1e-3)
    )


def test_a_certain_loss_is_not_listed_a_billion_times() -> None:
    """A lower pair of one atom once asked for the logarithms of a billion factorials: 23 GB."""
    loss = 10**9 * ts.zcdp(rho=1.3e-7).sampled(rate=0.9999996)
    assert loss.delta_bounds(epsilon=0.0).lower == 0.0
    assert 130.0 < loss.epsilon(delta=1e-9) < 1300.0


def test_a_grid_far_beyond_64_bits_is_wide_and_no_crash() -> None:
    loss = 10**9 * ts.discrete_laplace(scale=0.045, sensitivity=100_000)
    assert loss.epsilon_bounds(delta=1e-150).upper <= 1e9 * 100_000 / 0.045 * (1 + 1e-12)


@pytest.mark.parametrize("loss", [5 * ts.exponential(epsilon=1).sampled(rate=0.1), 3 * ts.exponential(epsilon=2)])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_epsilon_of_a_bracketed_sum_is_not_above_where_its_own_delta_is_smaller(
    loss: ts.PrivacyLoss, delta: float
) -> None:
    # The grid put the mass beyond the last node of each law at infinity: .7928 where .5251 is certain.
    epsilon = loss.epsilon(delta=delta)
    assert delta * 0.99 <= loss.delta(epsilon=epsilon * 0.999) <= delta * 50
    side = OneDirection.of(loss.terms, Direction.REMOVE)
    assert side.grid.delta_bounds(epsilon).upper <= 1.4 * delta  # of plain sums the worst two losses prove less


@pytest.mark.parametrize("delta", [1e-14, 1e-20, 1e-200])
def test_just_below_the_largest_loss_no_engine_is_asked(delta: float) -> None:
    """All five losses are the largest with probability 2^-5, so delta is 2^-5 (1 - e^{epsilon - 4}) up to squares."""
    loss = 3 * ts.laplace(scale=1) + 2 * ts.laplace(scale=2)
    found = loss.epsilon_bounds(delta=delta)
    assert found.lower <= 4.0 + math.log1p(-32.0 * delta) <= found.upper == loss.epsilon(delta=delta) == 4.0
    assert found.upper - found.lower < 1e-11
    assert loss.explain_computation() == "remove: no loss is larger than the sum of the largest"


def test_a_search_needs_few_losses_and_ends_on_the_safe_side() -> None:
    goal, tried = ts.approx_dp(epsilon=1, delta=1e-4), set()

    def queries(scale: float) -> ts.PrivacyLoss:
        tried.add(scale)
        return 20 * ts.laplace(scale=scale)

    scale = ts.calibrate(queries, goal)
    assert queries(scale) <= goal
    assert not queries(scale * (1 - 2e-6)) <= goal
    assert len(tried) <= 20  # halving needs 28


def test_a_delta_that_is_rarer_than_any_double_is_compared_in_logarithms() -> None:
    """All 2000 responses are the likelier ones with probability about e^-1288: far rarer than this delta."""
    loss = 2000 * ts.randomized_response(epsilon=0.1)
    assert OneDirection.of(loss.terms, Direction.REMOVE).just_below(1e-310) == 0.0
    assert loss.epsilon(delta=1e-310) < 165
