"""Rigorous read-outs of leaves inside leaves: judged by the referee's own laws, close to the usual enclosure, and wrong
where one of their steps is spoilt on purpose."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

import pytest

import tallystick as ts
from pace import Clock
from sweeps import share

flint = pytest.importorskip("flint")

from flint import arb, ctx  # noqa: E402

from referee import readouts  # noqa: E402
from referee.expressions import Expression, leaf  # noqa: E402
from tallystick.accounting import ask, rigorous  # noqa: E402
from tallystick.accounting.adjacency import Direction  # noqa: E402
from tallystick.numerics.rigorous import (  # noqa: E402
    allocation,
    exact,
    gathered,
    heights,
    laws,
    moments,
    objective,
    readout,
    selection,
)
from tallystick.numerics.rigorous.mixtures import mixture  # noqa: E402

PAIR = leaf("discrete_pair", [0.5, 0.3, 0.2], [0.2, 0.3, 0.5])
LEAKY = leaf("approx_dp", epsilon=0.5, delta=1e-4)
GAUSS, LAPLACE, PURE = leaf("gaussian", sigma=1.0), leaf("laplace", scale=1.0), leaf("pure_dp", epsilon=1.0)
REPLACED = leaf("gaussian", sigma=1.0, replaced=True)

CASES: dict[str, tuple[Expression, float]] = {
    "a sampled sum of listed outcomes": (PAIR.times(3).sampled(0.3), 1e-9),
    "a sampled sum": (LAPLACE.plus(leaf("laplace", scale=2.0)).sampled(0.1), 1e-4),
    "a sampled sum that leaks": (LEAKY.plus(LAPLACE).sampled(0.2), 1e-3),
    "the worst": (GAUSS.worst(leaf("pure_dp", epsilon=4.0)), 1e-9),
    "tested": (LAPLACE.tested(2.0, 1e-6), 1e-4),
    "cut anyhow": (GAUSS.truncated(0.1, 30, 100, "anyhow"), 1e-9),
    "cut by rank": (LAPLACE.truncated(0.1, 16, 100, "ranked"), 1e-3),
    "cut at random": (GAUSS.truncated(0.1, 16, 100, "random"), 1e-3),
    "two shifts": (leaf("gaussian_mixture", sigma=1.0, sensitivities=[0.5, 2.0], probabilities=[0.9, 0.1]), 1e-9),
    "replaced in a sample": (GAUSS.sampled(0.1).as_replace(), 1e-9),
    "replaced": (PAIR.sampled(0.3).times(2).as_replace(), 2e-3),
    "a group": (LAPLACE.for_groups(2), 1e-6),
    "a group of listed outcomes": (PAIR.for_groups(3), 1e-6),
    "a group that leaks": (LEAKY.for_groups(2), 1e-6),
    "a group in a sample": (GAUSS.sampled(0.1).for_groups(2), 1e-3),
    "with replacement": (REPLACED.replacement(4, 20), 1e-9),
    "a trade-off": (leaf("from_tradeoff", [(0.0, 1.0), (0.2, 0.3), (1.0, 0.0)]), 1e-9),
    "a profile": (leaf("from_profile", [(0.0, 0.25), (1.0, 0.03), (3.0, 0.0)]).times(2), 1e-9),
    "concentrated": (leaf("zcdp", rho=0.5, delta=1e-7), 1e-6),
    "with an offset": (leaf("zcdp", rho=0.5, offset=0.3), 1e-6),
    "a Renyi curve": (leaf("renyi_dp", {2.0: 0.4, 8.0: 1.6}).times(2), 1e-6),
    "concentrated beside others": (leaf("zcdp", rho=0.1).plus(LAPLACE), 1e-3),
    "a sampled curve": (leaf("zcdp", rho=0.5).sampled(0.1), 1e-3),
    "an epoch": (GAUSS.allocated(3), 1e-3),
    "an epoch of listed outcomes": (PAIR.allocated(2), 1e-3),
    "an epoch of answers": (PURE.allocated(3), 1e-3),
    "the best of several": (PURE.selected(eta=1.0, gamma=0.1), 1e-2),
    "the best of a Poisson number": (LAPLACE.selected(poisson=3.0), 1e-2),
    "an epoch that may tell all, beside others": (
        leaf("approx_dp", epsilon=0.1, delta=0.3).allocated(2).plus(leaf("pure_dp", epsilon=2.0)),
        1e-2,
    ),
    "seldom any run, beside others": (PURE.selected(poisson=0.001).plus(leaf("pure_dp", epsilon=2.0)), 1e-2),
    "objective perturbation": (leaf("objective_perturbation", sigma=4.3, ridge=0.3), 1e-6),
    "not private": (leaf("not_private", why="names").sampled(0.5), 1e-9),
}
"""And how far above the usual enclosure the proved end may be, relatively."""
DELTA, EPSILON = 1e-3, 0.4


@pytest.mark.parametrize("name", share(CASES, 3, always=["a sampled sum that leaks"]))
def test_it_is_proved_on_the_safe_side_and_close(name: str) -> None:
    made, far = CASES[name]
    proved, known = made.loss.epsilon_bounds(delta=DELTA, rigorous=True), made.loss.epsilon_bounds(delta=DELTA)
    assert readouts.epsilon_upper(made.truth, DELTA, proved.upper).verdict != readouts.WRONG
    assert readouts.epsilon_lower(made.truth, DELTA, proved.lower).verdict != readouts.WRONG
    assert known.lower <= proved.upper * (1 + 1e-12)
    assert proved.upper <= known.upper * (1 + far)
    assert proved.lower <= known.upper * (1 + 1e-12)
    at = made.loss.delta_bounds(epsilon=EPSILON, rigorous=True)
    assert readouts.delta_upper(made.truth, EPSILON, at.upper).verdict != readouts.WRONG
    assert readouts.delta_lower(made.truth, EPSILON, at.lower).verdict != readouts.WRONG


@pytest.mark.parametrize("name", share(CASES, 3))
def test_no_law_forgets_that_all_outcomes_are_an_event(name: str) -> None:
    """H(x) >= 1 - e^x: what is left out of H below zero is missing from every sum that the law is a part of."""
    for part, _ in CASES[name][0].loss.terms:
        for removing in (True, False):
            with ctx.workprec(160):
                try:
                    height = heights.whole(part.ball_law(ask.Ask(None, removing, -60.0, True)))
                except ts.errors.NotComputable:
                    continue  # known in other ways than by its H
                for x in (-3.0, -0.5, -0.01):
                    assert not height(arb(x)) < -arb(x).expm1() - arb(2) ** -60


def test_an_epoch_beside_a_release_keeps_the_losses_of_steps_that_tell_all() -> None:
    """Adding: a ratio of 0 in one step and not in the other halves the mean, so losses reach log 2 further."""
    likely = math.exp(0.1) / (1 + math.exp(0.1))
    step = [(0.7 * likely, 0.7 * (1 - likely)), (0.7 * (1 - likely), 0.7 * likely), (0.3, 0.0), (0.0, 0.3)]
    coin = [(c / (1 + math.exp(2)), d / (1 + math.exp(2))) for c, d in ((math.exp(2), 1), (1, math.exp(2)))]
    outcomes = [
        ((p[0] * q[1] + p[1] * q[0]) / 2 * one, p[1] * q[1] * two) for p in step for q in step for one, two in coin
    ]
    made = ts.approx_dp(epsilon=0.1, delta=0.3).allocated(steps=2) + ts.pure_dp(epsilon=2)
    for epsilon in (0.0, 0.5, 1.3, 2.2, 2.6):
        truth = max(
            math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in pairs)
            for pairs in (outcomes, [(b, a) for a, b in outcomes])
        )
        upper = made.delta_bounds(epsilon=epsilon, rigorous=True).upper
        assert truth * (1 - 1e-12) <= upper <= truth * 1.01 + 1e-9


@pytest.mark.parametrize("mean", [1e-3, 0.5])
def test_a_release_beside_runs_that_may_not_be_is_no_less_than_alone(mean: float) -> None:
    """The part of H without a run was forgotten: a rigorous epsilon of 0 where one release alone has 1.998."""
    runs, alone = ts.selected(ts.pure_dp(epsilon=1e-3), poisson=mean), ts.pure_dp(epsilon=2)
    assert (alone + runs).delta_bounds(epsilon=0, rigorous=True).upper >= math.tanh(1) * (1 - 1e-15)
    assert (alone + runs).epsilon_bounds(delta=1e-3, rigorous=True).upper >= 1.99886
    replaced = runs.as_replace() + ts.pure_dp(epsilon=4, adjacency="replace")
    assert replaced.delta_bounds(epsilon=0, rigorous=True).upper >= 0.96402


TOLD = leaf("approx_dp", epsilon=0.1, delta=0.3)
ONE_WAY = leaf("discrete_pair", [0.5, 0.3, 0.2, 0.0], [0.25, 0.3, 0.0, 0.45])
TWO = leaf("pure_dp", epsilon=2.0)
LEAKS = {
    "told": TOLD,
    "epoch": TOLD.allocated(2),
    "uneven epoch": ONE_WAY.allocated(2),
    "sample": ONE_WAY.sampled(0.3),
    "cut": ONE_WAY.truncated(0.3, 2, 4, "anyhow"),
    "cut at random": TOLD.truncated(0.3, 2, 4, "random"),
    "worse": TOLD.worst(ONE_WAY),
    "tested": ONE_WAY.tested(1.0, 0.1),
    "few runs": TOLD.selected(poisson=0.001),
    "runs": ONE_WAY.selected(poisson=0.5),
    "many runs": TOLD.selected(eta=1.0, gamma=0.5),
    "sum in a sample": ONE_WAY.plus(TOLD).sampled(0.5),
}
"""What gives something away with positive probability, adding, removing or both."""


@pytest.mark.parametrize("name", share(LEAKS, 3))
def test_what_is_far_out_is_not_forgotten_in_a_sum(name: str) -> None:
    """A largest loss that is too small, or a mass at infinity that is not named, is harmless alone and not in a sum."""
    made = LEAKS[name].plus(TWO)
    for epsilon in (0.0, 0.5, 1.3, 2.4):
        found = made.loss.delta_bounds(epsilon=epsilon, rigorous=True)
        assert readouts.delta_upper(made.truth, epsilon, found.upper).verdict != readouts.WRONG
        assert readouts.delta_lower(made.truth, epsilon, found.lower).verdict != readouts.WRONG
        assert made.loss.delta_bounds(epsilon=epsilon).lower <= found.upper * (1 + 1e-12)


def test_the_largest_loss_of_an_epoch_whose_step_may_be_impossible() -> None:
    """All outcomes of two answers and one of a two-step epoch, by hand: it was .5746."""
    loss = ts.approx_dp(epsilon=0.1, delta=0.3).allocated(steps=2) + ts.pure_dp(epsilon=2)
    assert loss.delta_bounds(epsilon=1.3, rigorous=True).upper >= 0.5853517217
    assert loss.epsilon_bounds(delta=0.5, rigorous=True).upper >= 1.54589


def test_a_sum_in_which_everything_is_given_away() -> None:
    """The mean number of runs times what one gives away is above one; a sketch of nothing was NaN."""
    loss = ts.pure_dp(epsilon=2) + 2 * ts.selected(ts.approx_dp(epsilon=0.1, delta=0.3), eta=-0.5, gamma=0.01)
    assert loss.delta_bounds(epsilon=0.0, rigorous=True).upper == 1.0
    assert loss.epsilon_bounds(delta=0.5, rigorous=True).upper == math.inf


# ---- twins that are wrong on purpose ----


def narrower(function: Callable[..., Any], share: float = 0.9) -> Callable[..., Any]:
    """The same, with an H that is too small: by a tenth, or more where the theorem leaves room."""

    def spoilt(*given: Any) -> Any:
        found = function(*given)
        every = found if isinstance(found, tuple) else (found,)
        less = tuple((lambda x, one=one: one(x) * share) if callable(one) else one for one in every)
        return less if isinstance(found, tuple) else less[0]

    return spoilt


def forgetful(points: Any, outside: Any, upper: bool) -> Any:
    """A gathered sum that forgets what is given away."""
    return laws.Base([(loss, mass, mass * (-loss).exp()) for loss, mass in points], arb(0), arb(0))


def flat(z: Any, mu: Any, ridge: Any) -> Any:
    """Curvature for nothing."""
    return arb(0)


def halved(height: Callable[..., Any], swapped: Any = None) -> Callable[..., Any]:
    """No mirror image: what is known at x >= 0 is taken for all of H."""
    return height


TWINS: dict[str, tuple[Expression, Any, str, Any]] = {
    "a gathered sum without its leak": (LEAKY.times(2).sampled(0.5), gathered, "_base", forgetful),
    "a chain": (PAIR.for_groups(2), rigorous, "chained", narrower(heights.chained)),
    "a replaced unit": (PAIR.as_replace(), ask, "chained", narrower(heights.chained)),
    "an epoch": (PAIR.allocated(2), ask, "allocated", narrower(allocation.allocated)),
    "the larger of two": (PAIR.worst(LEAKY), ask, "largest", narrower(heights.largest)),
    "the best of several": (PAIR.selected(eta=1.0, gamma=0.5), ask, "selected", narrower(selection.selected, 1e-5)),
    "a mixture that is told": (PAIR.truncated(0.5, 1, 2, "random"), ask, "told", narrower(heights.told, 0.01)),
    "runs that may not be": (PURE.selected(poisson=0.001).plus(leaf("pure_dp", epsilon=2.0)), ask, "mirrored", halved),
    "moments": (leaf("zcdp", rho=0.5), moments, "log_factor", lambda theta: -3 * (1 + theta)),
    "curvature": (leaf("objective_perturbation", sigma=4.3, ridge=0.3), objective, "worst_loss", flat),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_spoilt_step_is_convicted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, place, what, wrong = TWINS[name]
    epsilon = made.loss.epsilon_bounds(delta=DELTA, rigorous=True).upper
    assert readouts.epsilon_upper(made.truth, DELTA, epsilon).verdict != readouts.WRONG
    monkeypatch.setattr(place, what, wrong)
    spoilt = made.loss.epsilon_bounds(delta=DELTA, rigorous=True).upper
    assert readouts.epsilon_upper(made.truth, DELTA, spoilt).verdict == readouts.WRONG


# ---- the parts ----


def test_a_binomial_tail_is_the_sum_of_its_terms() -> None:
    for trials, chance, least in ((5, 0.3, 2), (10, 0.5, 5), (60, 0.01, 3), (60, 0.99, 58), (1, 0.5, 1), (4, 0.5, 5)):
        share = Fraction(chance)
        terms = (comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(least, trials + 1))
        exact = sum(terms, Fraction(0))
        with ctx.workprec(160):
            found = laws.binomial_tail(trials, arb(chance), least)
            assert found.contains(flint.fmpq(exact.numerator, exact.denominator))
            assert found.rad() < 1e-30


def test_the_h_of_a_mixture_is_an_integral() -> None:
    with ctx.workprec(120):
        remove, add = mixture([arb(0.5), arb(2)], [arb(0.9), arb(0.1)], 0.0)

        def density(z: Any, shift: float) -> Any:
            return (-((z - shift) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()

        grid = [arb(-12) + arb(k) / 200 for k in range(4800)]
        p = [0.9 * density(z, 0.5) + 0.1 * density(z, 2) for z in grid]
        q = [density(z, 0) for z in grid]
        for x in (-0.7, 0.0, 0.8):
            for height, (one, two) in ((remove, (p, q)), (add, (q, p))):
                summed = sum(((a - arb(x).exp() * b).max(arb(0)) for a, b in zip(one, two, strict=True)), arb(0)) / 200
                assert float(height(arb(x))) == pytest.approx(float(summed), abs=2e-5)


def test_knots_of_a_mixture_are_found_at_any_precision() -> None:
    for bits in (160, 1300, 2200):
        with ctx.workprec(bits):
            remove, _ = mixture([arb(1), arb(2)], [arb(1) / 2, arb(1) / 2], 0.0)
            assert remove(arb(1.3)).rad() < arb(2) ** (60 - bits)


def test_levels_that_are_no_doubles_are_answered() -> None:
    """e^800 was turned into a whole number of octaves."""
    for loss in (ts.gdp(mu=1.9).allocated(steps=2), ts.renyi_dp({2.0: 2.75}).allocated(steps=2)):
        assert loss.delta_bounds(epsilon=800.0, rigorous=True).upper < 1e-300


def test_an_epoch_of_a_mass_that_is_zero_up_to_rounding_is_answered() -> None:
    """Its power was no number, and no double is above or below that: the search for one never ended."""
    epoch = ts.from_profile([(0.0, 0.5), (1.0, 0.0625), (3.0, 0.0)]).allocated(steps=2)
    ((made, _),) = epoch.terms
    for bits in (53, 228, 400):
        with ctx.workprec(bits):
            assert made.ball_law(ask.Ask(None, False, -100.0, upper=True)).infinite < 1e-12
    assert epoch.delta_bounds(epsilon=0.1, rigorous=True).upper == pytest.approx(epoch.delta(epsilon=0.1), rel=1e-9)


def test_what_is_no_number_is_refused() -> None:
    nothing = arb("nan")
    for side in (readout._down, readout._up):
        with pytest.raises(ts.errors.NotComputable):
            side(nothing)


@pytest.mark.parametrize(
    "loss",
    share(
        [
            1000 * ts.discrete_gaussian(sigma=0.5, sensitivity=3),
            ts.zcdp(rho=0.27, offset=0.5).as_replace(),
            ts.selected(ts.gaussian(sigma=1), eta=0.5, gamma=0.1),
        ],
        3,
    ),
)
def test_what_was_counted_too_low_ends_in_time(loss: ts.PrivacyLoss) -> None:
    """Fifteen, eight and eight seconds."""
    clock = Clock()
    with contextlib.suppress(ts.errors.NotComputable):
        loss.delta_bounds(epsilon=800.0, rigorous=True)
    assert clock.seconds < 5.0


@pytest.mark.parametrize("way", [Direction.REMOVE, Direction.ADD])
def test_a_lattice_from_below_is_neither_swapped_nor_mixed(way: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Q has more than mass one: added to a sample, the sum had 0.042503 from below for 0.042495."""
    monkeypatch.setattr(gathered, "SIZES", (2**9,))
    loss = (ts.gaussian(sigma=1.0) + ts.approx_dp(epsilon=0.5, delta=1e-5)).sampled(rate=0.1)
    below, known = rigorous.RigorousReader(loss)._side(way, upper=False), loss.total_variation()
    assert 0.99 * known < below.delta(0.0)[0] <= known  # at zero both directions are the distance itself


def test_many_residues_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps took five seconds and more: their residues were neither counted nor timed."""
    exact._residue.cache_clear()
    monkeypatch.setattr(laws, "PATIENCE", (0.02, 0.02))
    with pytest.raises(ts.errors.NotComputable):
        (400 * ts.laplace(scale=1e-4)).delta_bounds(epsilon=1e-9, rigorous=True)


def test_a_long_lattice_of_few_knots_is_as_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "PATIENCE", (30.0, 40.0))  # a slow machine would refuse; this is about the answer
    loss = 2 * ts.gaussian(sigma=1).sampled(rate=0.1)
    proved, known = loss.delta_bounds(epsilon=1.5, rigorous=True), loss.delta_bounds(epsilon=1.5)
    assert known.lower <= proved.upper <= known.upper * 1.001
    assert known.lower * 0.98 <= proved.lower <= known.upper


def test_a_sum_that_cannot_be_told_from_what_is_given_away_is_infinite() -> None:
    """Where delta is inside the ball of the mass at infinity, the largest loss is no answer."""
    with ctx.workprec(100):
        wide = laws.BallLaw(infinite=arb(1e-5, 1e-6), atoms=[(arb(0.5), 1 - arb(1e-5))], highest=arb(0.5))
        assert readout.BallSum(lambda _: [(wide, 1)], 1).epsilon(1e-5)[1] > 0.5
        known = laws.BallLaw(infinite=arb(1e-5), atoms=[(arb(0.5), 1 - arb(1e-5))], highest=arb(0.5))
        assert readout.BallSum(lambda _: [(known, 1)], 1).epsilon(1e-5)[1] == 0.5


def test_at_a_delta_that_is_given_away_the_larger_of_two_is_read_as_a_whole() -> None:
    loss = ts.propose_test_release(ts.gaussian(sigma=2), scale=2, delta=1e-6)
    proved, known = loss.epsilon_bounds(delta=1e-6, rigorous=True), loss.epsilon_bounds(delta=1e-6)
    assert known.lower <= proved.upper <= known.upper * (1 + 1e-3)
