"""What makes a read-out slow is work that its answer does not need: each cause here, by the work that is not done."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from pace import Clock
from sweeps import campaign_only, share
from tallystick.accounting import calibrate, compose, direction, gdp, routes
from tallystick.accounting.direction import OneDirection
from tallystick.accounting.leaves import nested
from tallystick.accounting.leaves.gaussian import gaussian_pair
from tallystick.accounting.polygon import lower_corners
from tallystick.accounting.readout import reader
from tallystick.accounting.routes import PATIENCE, Patience
from tallystick.cards import meaning
from tallystick.numerics import contour, ratio_grid, saddle, stoploss
from tallystick.numerics import law as law_module
from tallystick.numerics.law import Law
from tallystick.numerics.panels import Panels, excess_between, panel_nodes
from tallystick.numerics.ratio_grid import RatioCells, _hull_slopes
from tallystick.numerics.saddle import Remembered
from tallystick.numerics.stoploss import MeanOfRatios, Wanted

LIMIT = 5.0
"""Seconds of processor time in which anything answers or refuses."""

CUT = ts.gaussian(sigma=1.0).sampled(rate=0.1, largest=20, population=100, cut="ranked")
"""Known from two sides only: what is from below is another law."""

TESTED = ts.propose_test_release(
    ts.gaussian_mixture(sigma=0.5, sensitivities=[0.25, 1.0], probabilities=[0.265625, 0.734375]), scale=1.0, delta=0.01
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Count the calls of a function or method."""

    def counted(owner: Any, name: str) -> list[Any]:
        calls: list[Any] = []
        inner = getattr(owner, name)

        def outer(*arguments: Any, **options: Any) -> Any:
            calls.append(arguments)
            return inner(*arguments, **options)

        monkeypatch.setattr(owner, name, outer)
        return calls

    return counted


def test_an_upper_end_is_read_without_the_work_of_the_lower_one(asked: Any) -> None:
    grids = asked(routes.Grid, "delta")
    loss = 11 * CUT
    upper = loss.delta(epsilon=0.31)
    assert not grids
    loss.power(alpha=0.99)
    # Here and there along the curve the contour has no answer.
    assert len(grids) < 10
    bounds = loss.delta_bounds(epsilon=0.31)
    assert bounds.lower <= upper <= bounds.upper * (1 + 1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        3 * ts.laplace(scale=1.3) + ts.gaussian(sigma=2),
        7 * ts.laplace(scale=0.9).sampled(rate=0.2),
        ts.worst(2 * ts.laplace(scale=2), 3 * ts.gaussian(sigma=3), ts.approx_dp(epsilon=0, delta=1e-3)),
    ],
)
def test_upper_ends_alone_are_those_of_both(loss: ts.PrivacyLoss) -> None:
    for epsilon in share((0.0, 0.2, 1.0), 2):
        bounds = loss.delta_bounds(epsilon=epsilon)
        assert bounds.lower <= loss.delta(epsilon=epsilon) <= bounds.upper * (1 + 1e-6)
    # The best of some lines above the power; the polygon has other lines, a few per cent away from the best.
    lines = [math.exp(e) * 0.01 + loss.delta(epsilon=e) for e in (0.2 * k for k in range(16))]
    assert 0.97 * min(lines) <= loss.power(alpha=0.01) <= 1.03 * min(lines)


def test_the_worst_of_several_is_read_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_: Any) -> Any:
        raise AssertionError("a polygon that stands for them in sums")

    monkeypatch.setattr(nested, "_worst_pair", built)
    clock = Clock()
    found = meaning(TESTED)
    assert clock.seconds < LIMIT
    assert found.beliefs[0.01] == 1.0
    assert TESTED.epsilon(delta=0.0) == math.inf
    assert ts.worst(ts.pure_dp(epsilon=1), 2 * ts.pure_dp(epsilon=0.75)).epsilon(delta=0.0) == 1.5


def test_the_worst_of_what_is_the_same_both_ways_is_read_once(asked: Any) -> None:
    readings = asked(nested, "read_at")
    leaf = ts.worst(2 * ts.laplace(scale=2.5), 3 * ts.gaussian(sigma=3.5)).terms[0][0]
    pair = leaf.pair(ts.Direction.REMOVE)
    assert len(readings) == 2  # one for each member, not one for each direction too
    grid = np.linspace(0.0, 0.8, 5)
    assert np.allclose(pair.upper.excess(grid), pair.swapped().upper.excess(grid), rtol=1e-9)


def test_a_belief_is_split_where_it_is_best(asked: Any) -> None:
    loss = 3 * ts.laplace(scale=1.7) + ts.gaussian(sigma=1.9)
    sharp = asked(OneDirection, "epsilon_upper")
    belief = loss.posterior(prior=0.01, delta=1e-4)
    assert len(sharp) <= 3
    # Each of the seven splits is a bound, and none is better.
    each = [loss.epsilon(delta=-1e-4 * math.expm1(-s)) + s for s in (0.01, 0.03, 0.1, 0.3, math.log(2.0), 1.5, 3.0)]
    odds = math.log(0.01 / 0.99) + min(each)
    assert belief == pytest.approx(1 / (1 + math.exp(-odds)), rel=1e-6)


def test_a_divergence_is_integrated_once(asked: Any) -> None:
    loss = ts.gaussian(sigma=1.37, adjacency="replace").subset(batch=50, population=60, replacement=True)
    integrals = asked(Law, "log_mgf")
    first = loss.renyi(order=2.5)
    assert (3 * loss).renyi(order=2.5) == pytest.approx(3 * first)
    assert loss.renyi(order=2.5) == first
    assert len(integrals) == 1


@campaign_only
def test_an_operating_point_is_found_in_time() -> None:
    clock = Clock()
    goal = ts.attack_goal(alpha=0.01, power=0.05)
    steps = lambda s: 10 * ts.gaussian(sigma=s).sampled(rate=0.1, largest=20, population=100, cut="ranked")  # noqa: E731
    sigma = ts.calibrate(steps, goal, relative=1e-6)
    assert clock.seconds < LIMIT
    assert goal.met_by(steps(sigma))
    assert not goal.met_by(steps(0.999 * sigma))


def test_noise_that_is_enough_is_lessened_first(asked: Any) -> None:
    tried = asked(calibrate._Search, "meets")
    ts.calibrate(lambda s: ts.gaussian(sigma=s), ts.approx_dp(epsilon=60, delta=1e-6))
    assert all(x <= 1.0 for _, x in tried)
    tried.clear()
    ts.calibrate(lambda n: n * ts.gaussian(sigma=20), ts.approx_dp(epsilon=1, delta=1e-6), integer=True)
    assert all(x >= 1.0 for _, x in tried)


@pytest.mark.parametrize("least", [0.05, 1.0, 1.7])
def test_the_least_value_of_a_convex_function_is_seen(least: float) -> None:
    looked: list[float] = []

    def curve(x: float) -> float:
        looked.append(x)
        return least + (x - 0.7) ** 2

    seen = calibrate._least_seen(curve, (0.0, 10.0), (3.0, 10.0), level=1.0)
    assert least == 1.0 or (seen <= 1.0) == (least <= 1.0)
    assert least <= seen <= least + max(0.2 * abs(1.0 - seen), 1e-9)
    assert len(looked) < (60 if least == 1.0 else 20)


def test_a_costly_route_is_asked_at_its_share_of_a_curve() -> None:
    route = routes.Trimmed(OneDirection.of((2 * ts.laplace(scale=1)).terms, ts.Direction.REMOVE))
    assert route.most is not None
    patience, asks = Patience(), []
    for _ in range(5 * route.most):
        asks.append(patience.asks(route))
        if asks[-1]:
            patience.saw(route, helped=True)
    assert all(asks[: route.most])
    assert sum(asks[route.most :]) == 4 * route.most // route.seldom
    idle = Patience()
    for _ in range(PATIENCE):
        idle.saw(route, helped=False)
    assert not idle.asks(route)
    assert idle.asks(routes.Markov(route.whole))


def test_an_engine_that_does_not_answer_is_asked_now_and_then() -> None:
    """Of two mixtures the contour had no answer at 160 points, and took 40 % of the time to say so."""
    route = routes.Contour(OneDirection.of((2 * ts.laplace(scale=1)).terms, ts.Direction.REMOVE))
    patience, asks = Patience(), []
    for _ in range(40):
        asks.append(patience.asks(route))
        if asks[-1]:
            patience.saw(route, helped=False)
    assert all(asks[:PATIENCE])
    assert sum(asks[PATIENCE:]) == (40 - PATIENCE) // route.seldom
    patience.saw(route, helped=True)  # nearer to zero it may converge, and then it is asked again everywhere
    assert all(patience.asks(route) for _ in range(10))


def test_a_card_reads_each_number_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, read = ts.gaussian(sigma=2.0), []
    plain = ts.PrivacyLoss.epsilon
    monkeypatch.setattr(ts.PrivacyLoss, "epsilon", lambda self, **given: read.append(given) or plain(self, **given))
    assert meaning(loss).delta == 1e-6
    assert read == [{"delta": 0.0}, {"delta": 1e-6}]


def test_what_compositions_keep_is_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Remembered(most=100_000)
    monkeypatch.setattr(compose, "REMEMBERED", few)
    answers = []
    for scale in (1.31, 1.32, 1.33):
        loss = 3 * ts.laplace(scale=scale) + ts.gaussian(sigma=2)
        answers += [loss.power(alpha=0.01), loss.delta(epsilon=0.3)]
        assert few.held <= few.most or len(few.entries) == 1
    assert few.entries
    monkeypatch.undo()
    # What was forgotten is computed again.
    assert (3 * ts.laplace(scale=1.33) + ts.gaussian(sigma=2)).delta(epsilon=0.3) == answers[-1]


def test_knots_are_chosen_by_a_rough_number() -> None:
    side = OneDirection.of((3 * ts.laplace(scale=1.1) + ts.gaussian(sigma=1.4)).terms, ts.Direction.REMOVE)
    sharp = side.epsilon_bounds(1e-40)
    assert sharp.lower <= side.epsilon_near(1e-40) <= sharp.upper * (1 + 10 * direction.NEARBY_WIDTH)
    assert side.epsilon_about(1e-40) == pytest.approx(sharp.upper, rel=1e-2)
    assert reader(ts.gaussian(sigma=2)).epsilon_upper(0.3) <= side.epsilon_near(1e-40)


def test_the_upper_end_of_a_gaussian_epsilon_is_all_that_is_looked_for(asked: Any) -> None:
    both = asked(gdp, "epsilon_bounds")
    loss = 100 * ts.gaussian(sigma=10.5)
    found = loss.epsilon(delta=1e-30)
    assert not both
    assert found == loss.epsilon_bounds(delta=1e-30).upper


def test_of_an_epoch_that_two_laws_bound_each_is_read_from_one_side(asked: Any) -> None:
    lower = asked(RatioCells, "lower")
    epoch = ts.exponential(epsilon=6.0).allocated(steps=3)
    assert 0.0 < epoch.kl() <= ts.exponential(epsilon=6.0).kl()
    assert not lower
    # From below an epoch of randomized response, whose few outcomes are listed.
    found = epoch.delta_bounds(epsilon=1.0)
    least = ts.pure_dp(epsilon=3.0).allocated(steps=3).delta_bounds(epsilon=1.0)
    assert 0.9 * least.lower <= found.lower <= least.upper <= found.upper


def test_one_side_is_the_same_bound_from_a_coarser_grid() -> None:
    mean = MeanOfRatios(gaussian_pair(1.0).upper, 5)
    levels = np.exp(np.linspace(0.0, 2.0, 5))
    for read in (mean.above, mean.below):
        upper, lower = read(levels)
        assert np.all((read(levels, Wanted.UPPER)[0] >= lower) & (read(levels, Wanted.UPPER)[0] <= 1.001 * upper))
        assert np.all((read(levels, Wanted.LOWER)[1] <= upper) & (read(levels, Wanted.LOWER)[1] >= 0.98 * lower))


DRAWN = ts.gaussian(sigma=0.7, adjacency="replace").subset(batch=300, population=300, replacement=True)


@pytest.mark.parametrize(
    "loss", [DRAWN, ts.gaussian(sigma=0.03).sampled(rate=0.2), ts.laplace(scale=0.1).sampled(rate=0.3)]
)
def test_the_nodes_of_a_law_are_made_once(loss: ts.PrivacyLoss, asked: Any) -> None:
    law = loss.terms[0][0].pair(ts.Direction.REMOVE).upper
    made = asked(Panels, "of")
    for threshold in (0.0, 1e-9, 0.3, 2.0, 11.0, 60.0):
        parts = [s.restricted(threshold, math.inf) for s in law.segments]
        whole = [excess_between(part, part.edges(), threshold) for part in parts if part is not None]
        at = law.atoms > threshold
        rest = float(np.sum(np.exp(law.log_masses[at]) * -np.expm1(threshold - law.atoms[at])))
        assert float(law.excess(np.array([threshold]))[0]) == pytest.approx(
            math.fsum(whole) + rest + law.infinity, rel=2e-13
        )
    assert 0 < len(made) <= len(law.segments)


def test_parts_that_a_tilt_makes_nothing_of_are_not_integrated(monkeypatch: pytest.MonkeyPatch) -> None:
    law = DRAWN.terms[0][0].pair(ts.Direction.REMOVE).upper
    orders = np.array([0.1, 1.0, 8.0])
    kept = [len(law_module._heaviest(law.segments, float(order))) for order in orders]
    found = law.log_mgf(orders)
    monkeypatch.setattr(law_module, "FEW_SEGMENTS", 10**6)
    assert np.allclose(found, law.log_mgf(orders), rtol=1e-14, atol=1e-14)
    assert max(kept) <= len(law.segments) // 2


def test_knots_of_a_curve_are_chosen_without_an_engine(asked: Any) -> None:
    blurs = asked(routes.Blurred, "epsilon")
    loss = ts.gaussian(sigma=1.1).sampled(rate=0.1) + ts.pure_dp(epsilon=1)
    found = loss.tradeoff(alpha=0.05)
    assert not blurs
    # Every (epsilon, delta) is a line under the trade-off function, which is their largest.
    lines = [1.0 - math.exp(e) * 0.05 - loss.delta(epsilon=e) for e in (0.25 * k for k in range(9))]
    assert found == pytest.approx(max(lines), rel=2e-3)


def test_a_hull_with_a_kink_between_two_arcs_is_not_left_point_by_point(asked: Any) -> None:
    """Two convex arcs that meet in a peak: sweeps take one point of each arc at a time."""
    x = np.linspace(-1.0, 1.0, 20_001)
    heights = np.minimum((x + 0.6) ** 2, (x - 0.6) ** 2 + 0.01)
    left = asked(ratio_grid, "_chain")
    slopes = _hull_slopes(heights, 1.0)
    ((_, corners),) = left
    first = np.diff(heights[corners]) / np.diff(corners)
    assert np.all(np.diff(first) > 0.0)  # nothing was left to do
    hull = heights[0] - np.concatenate([[0.0], np.cumsum(slopes)])
    # Minus the slopes are never negative: the hull of a law's stop-loss function falls.
    chain = np.array(lower_corners(x, heights))
    falling = x < x[np.argmin(heights)]
    assert np.allclose(hull[falling], np.interp(x[falling], chain[:, 0], chain[:, 1]), atol=1e-12)


@pytest.mark.parametrize("loss", [ts.exponential(epsilon=1e6), ts.laplace(scale=1e-6)])
def test_an_epoch_has_nodes_only_where_there_is_mass(loss: ts.PrivacyLoss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty million panels, all but a few of them empty, took seven seconds in each direction."""
    sizes = []

    def counted(edges: Any, count: int) -> Any:
        sizes.append(edges.size)
        assert edges.size < 10**5
        return panel_nodes(edges, count)

    monkeypatch.setattr(stoploss, "panel_nodes", counted)
    epoch = loss.allocated(steps=3)
    assert epoch.delta(epsilon=800.0) == 1.0
    assert epoch.epsilon(delta=1e-6) <= 1e6
    assert sizes


def test_a_narrow_law_beside_a_gaussian_needs_no_fine_grid() -> None:
    """Losses of 1e-13 beside Gaussian ones of 0.2 asked for two million points, and a cdf for five seconds."""
    loss = ts.laplace(scale=1e12).sampled(rate=0.1) + ts.gaussian(sigma=5)
    variable = loss.privacy_loss(ts.Direction.ADD)
    assert variable.cdf(0.0) == pytest.approx(ts.gaussian(sigma=5).privacy_loss().cdf(0.0), abs=1e-4)
    assert variable._table[0].size < 10**5


def test_where_a_renyi_curve_ends_is_known_without_its_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """A price asked 180 times where the curve inside an epoch ends, and each time its pair was made: 14 seconds."""
    epoch = ts.zcdp(rho=2.5).allocated(steps=2)
    ((leaf, _),) = epoch.terms
    monkeypatch.setattr(type(ts.zcdp(rho=1).terms[0][0]), "pair", lambda *_: pytest.fail("a pair was made"))
    for way in ts.Direction:
        assert leaf.end(way) == (0, math.inf)
        assert leaf.ceiling(way) == math.inf


@pytest.mark.parametrize(("root", "near"), [(0.36, 0.0), (0.36, 0.4), (7.0, 6.9), (2e9, 1.9e9)])
def test_a_claim_is_found_in_few_proofs(root: float, near: float) -> None:
    """Each is a sum over tens of thousands of balls: 34 of them were asked at every lattice, and 100 beyond 1e9."""
    arb = pytest.importorskip("flint").arb
    from tallystick.accounting.certificate import LEAST, NARROW, least_epsilon

    asked = []

    def delta_at(epsilon: Fraction) -> Any:
        asked.append(epsilon)
        return (-(arb(float(epsilon)) / root)).exp()

    found = least_epsilon(delta_at, math.exp(-1.0), near)
    assert root * (1.0 - 1e-15) <= found <= root + 2.0 * max(min(NARROW * root, LEAST), 8.0 * math.ulp(root))
    assert len(asked) < 25


def test_a_tilted_law_of_many_pieces_keeps_those_that_weigh_something() -> None:
    """A unit drawn twenty times is a piece of mass 1e-30; each was integrated anew for every tilt that was tried."""
    drawn = ts.gaussian(sigma=0.5, adjacency="replace").subset(batch=333, population=1000, replacement=True)
    law = drawn.terms[0][0].pair(ts.Direction.REMOVE).upper
    pieces = [Law(segments=(segment,)).coarse_nodes(3.0)[0].size for segment in law.segments]
    values, logs = law.coarse_nodes(3.0)
    assert len(pieces) > 20
    assert values.size < 0.7 * sum(pieces)
    assert law_module.log_sum(3.0 * values + logs) == pytest.approx(float(law.log_mgf(np.array([3.0]))[0]), rel=1e-9)


def test_errors_beyond_all_numbers_are_left_to_others_without_a_warning() -> None:
    loss = 1000 * ts.discrete_laplace(scale=1e-4, sensitivity=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loss.power(alpha=1e-6) == 1.0


QUICK = 2.5
"""Seconds for what is read often: half of LIMIT, as slow machines take nearly twice as long."""

DRAWS = ts.gaussian(sigma=1.0, adjacency="replace")
BETS = ts.discrete_pair([0.140625, 0.859375], [0.421875, 0.578125], adjacency="replace")
STEPS = [0.0, 0.5, 1.0, 1.5]
RARE = ts.gaussian_mixture(
    sigma=1.0, sensitivities=[1e-14, 79.0], probabilities=[0.9999999999990905, 9.094947017729282e-13]
)


BESIDE_FEW_OUTCOMES: dict[str, Any] = {
    "drawn with replacement": lambda: meaning(
        DRAWS.subset(batch=1000, population=1000, replacement=True)
        + ts.randomized_response(epsilon=0.460620314356785, choices=2, adjacency="replace")
    ),
    "drawn beside a pair": lambda: meaning(DRAWS.subset(batch=10, population=10, replacement=True) + BETS),
    "a belief": lambda: (DRAWS.subset(batch=11, population=11, replacement=True) + BETS).posterior(
        prior=0.3, delta=0.01
    ),
    "a sampled sum": lambda: meaning(
        (
            ts.gaussian_mixture(
                sigma=0.4691655918040172,
                sensitivities=STEPS,
                probabilities=[0.109375, 0.3125, 0.484375, 0.09375],
            )
            + ts.randomized_response(epsilon=1.0, choices=2, adjacency="add_remove")
        ).sampled(rate=0.1)
    ),
    "a curve of one": lambda: (
        (
            ts.gaussian_mixture(sigma=0.5, sensitivities=[0.0, 1.0, 2.0], probabilities=[0.46875, 0.140625, 0.390625])
            + ts.pure_dp(epsilon=2.0)
        ).sampled(rate=0.2732665230923079)
        + ts.gaussian(sigma=0.5)
    ).tradeoff(alpha=0.05),
    "rare losses": lambda: (
        RARE.sampled(rate=0.25, largest=105, population=100, cut="random")
        + ts.randomized_response(epsilon=0.5, choices=2, adjacency="add_remove")
    ).posterior(prior=0.01, delta=1e-6),
}


@pytest.mark.parametrize("name", share(BESIDE_FEW_OUTCOMES, 3))
def test_one_release_beside_few_outcomes_is_read_from_its_own_law(name: str, asked: Any) -> None:
    """Beside atoms contours hardly decay and grids must be fine: six to nine seconds for one law and a coin."""
    engines = [asked(routes.Grid, "epsilon"), asked(routes.Grid, "delta"), asked(routes.Blurred, "delta")]
    clock = Clock()
    BESIDE_FEW_OUTCOMES[name]()
    assert clock.seconds < QUICK
    assert not any(engines)


def test_nodes_that_cannot_agree_are_not_made(asked: Any) -> None:
    """The tilt of one law led the line of another one beyond all numbers: four seconds for points of nothing."""
    lines = asked(contour.LineDecay, "of")
    clock = Clock()
    found = ts.calibrate(
        lambda n: n * ts.objective_perturbation(sigma=2.0, ridge=0.1).sampled(rate=1e-12),
        ts.approx_dp(epsilon=1.2e-06, delta=1e-3),
        integer=True,
        high=2,
    )
    assert found == 2
    assert clock.seconds < QUICK
    assert all(line.reach(theta) <= law_module.MAX_FOLLOWED for line, theta in lines)


SELDOM = ts.gaussian_mixture(sigma=1.0, sensitivities=[0.0, 1e-10, 1.0], probabilities=[0.09375, 0.890625, 0.015625])


def test_far_tilts_between_two_rungs_share_their_nodes(asked: Any) -> None:
    """A search tries ten tilts, and each had nodes of its own: half the time of a card."""
    law = SELDOM.sampled(rate=0.01).terms[0][0].pair(ts.Direction.REMOVE).upper
    tilts = np.geomspace(2.0 * law.followed, 12.0 * law.followed, 100)
    made = [asked(Law, "nodes_between"), asked(Law, "coarse_nodes")]
    found = [saddle._far(law, theta)[0] for theta in tilts.tolist()]
    assert sum(len(calls) for calls in made) <= 12
    assert np.allclose(found, law.log_mgf(tilts), rtol=1e-9, atol=1e-9)


def test_many_pieces_share_their_nodes_too() -> None:
    law = DRAWN.terms[0][0].pair(ts.Direction.REMOVE).upper
    tilts = share(np.geomspace(0.3, 5.0, 40).tolist(), 4)
    found = [saddle._far(law, theta)[0] for theta in tilts]
    assert np.allclose(found, law.log_mgf(np.array(tilts)), rtol=1e-9)


@campaign_only
def test_a_tilt_that_leads_a_piece_beyond_all_panels_is_not_taken_for_none() -> None:
    """Of a unit that is drawn a thousand times nobody integrates the piece, and nodes without it are no nodes."""
    drawn = ts.gaussian(sigma=1.0, adjacency="replace").subset(batch=1000, population=1000, replacement=True)
    law = drawn.terms[0][0].pair(ts.Direction.REMOVE).upper
    for theta in (0.1, 1.0, 4.0, 7.45, 40.0):
        values, logs = law.coarse_nodes(theta)
        found = saddle._far(law, theta)
        assert found == saddle.TOO_FAR or found[0] >= 0.999 * law_module.log_sum(theta * values + logs)


def test_where_a_loss_is_flat_its_inverse_is_found_without_going_on_for_ever(asked: Any) -> None:
    """There rounding alone moves Newton's method, and every other place went on with it: a hundred rounds each time."""
    flat = ts.gaussian_mixture(sigma=1.0, sensitivities=[1e-10, 1.0], probabilities=[0.984375, 0.015625])
    segment = flat.terms[0][0].pair(ts.Direction.REMOVE).upper.segments[0]
    values = segment.loss(np.linspace(-20.0, 0.0, 2001))
    rounds = asked(np, "clip")
    x = segment.inverse(values)
    assert len(rounds) < 60
    assert np.allclose(segment.loss(x), values, rtol=1e-13, atol=1e-17)
