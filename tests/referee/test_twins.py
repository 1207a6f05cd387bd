"""The referee convicts accountants that are wrong on purpose, and acquits the truth itself."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import tallystick as ts
from referee import readouts
from referee.balls import above_float, ball, below_float
from referee.expressions import Expression, leaf
from referee.twins import ClipsTheVertex, Drifts, ForgetsInfinity, ForgetsOne, HalfTheNoise, Inward, MissesTheTail

EPSILONS = (0.0, 0.3, 1.0, 2.5)


@pytest.mark.parametrize(
    ("made", "charged"),
    [
        (leaf("gaussian", sigma=1.0), ts.gaussian(sigma=2.0)),
        (leaf("laplace", scale=0.5).times(2), 2 * ts.laplace(scale=1.0)),
        (leaf("discrete_gaussian", sigma=1.0, sensitivity=10**7), ts.discrete_gaussian(sigma=2.0)),
        (leaf("gaussian", sigma=1.0).sampled(0.1), ts.gaussian(sigma=2.0).sampled(rate=0.1)),
    ],
    ids=lambda value: value.text if isinstance(value, Expression) else "",
)
def test_noise_of_half_the_size_is_convicted(made: Expression, charged: ts.PrivacyLoss) -> None:
    twin = HalfTheNoise(made.loss, charged)
    for epsilon in EPSILONS[:3]:
        assert readouts.delta_upper(made.truth, epsilon, twin.delta(epsilon=epsilon)).verdict == "WRONG"
    assert readouts.epsilon_upper(made.truth, 1e-5, twin.epsilon(delta=1e-5)).verdict == "WRONG"
    assert readouts.tradeoff_lower(made.truth, 0.1, twin.tradeoff(alpha=0.1)).verdict == "WRONG"


@pytest.mark.parametrize(
    "made",
    [
        leaf("gaussian", sigma=1.3),
        leaf("pure_dp", epsilon=0.5).times(3),
        leaf("laplace", scale=1.3),
        leaf("discrete_pair", [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]),
        leaf("gaussian", sigma=1.3, replaced=True).subset(3, 10),
    ],
    ids=lambda made: made.text,
)
def test_rounding_inward_by_one_part_in_a_thousand_million_is_convicted(made: Expression) -> None:
    twin = Inward(made.loss)
    for epsilon in (0.3, 0.5):
        assert readouts.delta_upper(made.truth, epsilon, twin.delta(epsilon=epsilon)).verdict == "WRONG"
        lower = twin.delta_bounds(epsilon=epsilon).lower
        assert readouts.delta_lower(made.truth, epsilon, lower).verdict == "WRONG"
    assert readouts.epsilon_upper(made.truth, 0.01, twin.epsilon(delta=0.01)).verdict == "WRONG"


STATED = [
    leaf("sparse_vector", threshold_scale=2.0, answer_scale=3.0, hits=3),
    leaf("shift_walk", tail=2, steps=5, contraction=0.9, sigma=2.0, diameter=None),
    leaf("correlated", steps=7, coefficients=[1.0, -0.5, 0.25], sigma=2.0, uses=3, separation=3).for_groups(2),
    leaf("gaussian", sigma=2.0).tested(1.0, 1e-6),
]


@pytest.mark.parametrize("made", STATED, ids=lambda made: made.text)
def test_lower_ends_of_what_is_only_stated_are_acquitted_up_to_the_statement_and_convicted_above(
    made: Expression,
) -> None:
    for rigorous in (False, True):
        for epsilon in (0.1, 0.5):
            lower = made.loss.delta_bounds(epsilon=epsilon, rigorous=rigorous).lower
            assert readouts.delta_lower(made.truth, epsilon, lower).verdict == "ok"
            assert readouts.delta_lower(made.truth, epsilon, lower * (1 + 1e-3)).verdict == "WRONG"
        lower = made.loss.epsilon_bounds(delta=0.05, rigorous=rigorous).lower
        assert readouts.epsilon_lower(made.truth, 0.05, lower).verdict == "ok"
        assert readouts.epsilon_lower(made.truth, 0.05, lower * (1 + 1e-3)).verdict == "WRONG"


def test_a_delta_without_the_mass_at_infinity_is_convicted() -> None:
    for mass in (0.25, 1e-5, 1e-300):
        made = leaf("approx_dp", epsilon=1.0, delta=mass)
        twin = ForgetsInfinity(made.loss, mass * 2)
        assert readouts.delta_upper(made.truth, 3.0, twin.delta(epsilon=3.0)).verdict == "WRONG"
    made = leaf("approx_dp", epsilon=1.0, delta=0.25)
    assert (
        readouts.tradeoff_lower(made.truth, 0.1, ForgetsInfinity(made.loss, 0.25).tradeoff(alpha=0.1)).verdict
        == "WRONG"
    )
    assert readouts.epsilon_upper(made.truth, 0.2, 1.0).verdict == "WRONG"
    assert readouts.epsilon_upper(made.truth, 0.25, 1.0).verdict == "ok"
    assert readouts.epsilon_upper(made.truth, 0.25, math.inf).verdict == "infinite"
    assert readouts.epsilon_upper(made.truth, math.nextafter(0.25, 0), math.inf).verdict == "ok"


def test_a_clipped_vertex_is_convicted() -> None:
    made = leaf("approx_dp", epsilon=0.0, delta=0.25)  # the true curve runs from (0, .75) to (.75, 0)
    twin = ClipsTheVertex(made.loss, ((0.0, 0.75), (1.0, 0.0)))
    assert readouts.tradeoff_lower(made.truth, 0.5, twin.tradeoff(alpha=0.5)).verdict == "WRONG"
    assert readouts.tradeoff_lower(made.truth, 0.5, 0.25).verdict == "ok"


def test_a_missing_tail_is_convicted() -> None:
    made = leaf("gaussian", sigma=1.0)
    assert readouts.renyi_upper(made.truth, 2.0, MissesTheTail(made.loss).renyi(order=2.0) * (1 + 1e-9)).verdict == "ok"
    assert readouts.renyi_upper(made.truth, 30.0, MissesTheTail(made.loss).renyi(order=30.0)).verdict == "WRONG"


def test_a_chain_of_neighbours_convicts_a_group_of_one() -> None:
    for made in (leaf("approx_dp", epsilon=0.0, delta=0.25), leaf("laplace", scale=2.0), leaf("gaussian", sigma=3.0)):
        single = float(made.loss.delta(epsilon=0.1))
        assert readouts.delta_upper(made.for_groups(2).truth, 0.1, single).verdict == "WRONG"
        assert readouts.delta_upper(made.as_replace().truth, 0.1, single).verdict == "WRONG"


def test_the_better_half_of_a_parallel_composition_is_convicted() -> None:
    small, large = leaf("pure_dp", epsilon=0.5), leaf("gaussian", sigma=0.7)
    both = small.worst(large)
    assert readouts.delta_upper(both.truth, 1.0, float(small.loss.delta(epsilon=1.0))).verdict == "WRONG"


def test_the_price_of_one_run_for_the_best_of_several_is_convicted() -> None:
    for base, epsilon in (
        (leaf("gaussian", sigma=1.0), 0.3),
        (leaf("pure_dp", epsilon=1.0), 1.2),
        (leaf("discrete_pair", [0.5, 0.5], [0.25, 0.75]), 0.6),
    ):
        made = base.selected(eta=1.0, gamma=0.1)
        one, several = (float(loss.delta(epsilon=epsilon)) for loss in (base.loss, made.loss))
        assert readouts.delta_upper(made.truth, epsilon, one).verdict == "WRONG"
        assert readouts.delta_upper(made.truth, epsilon, several).verdict != "WRONG"


def test_the_truth_rounded_outward_by_one_unit_is_acquitted() -> None:
    for made in (
        leaf("gaussian", sigma=1.3).sampled(0.1),
        leaf("pure_dp", epsilon=0.5).times(7),
        leaf("laplace", scale=2.0),
    ):
        for epsilon in EPSILONS:
            found = readouts.profile_of(made.truth.low(), ball(epsilon).exp())
            assert found is not None
            assert readouts.delta_upper(made.truth, epsilon, max(0.0, above_float(found))).verdict == "ok"
            assert readouts.delta_lower(made.truth, epsilon, max(0.0, below_float(found))).verdict == "ok"


def test_prices_that_are_too_low_are_convicted() -> None:
    made = leaf("gaussian", sigma=2.0)
    fair, low = ball(Fraction(1, 8)), ball(Fraction(1, 9))
    assert readouts.zcdp_holds(made.truth, fair, ball(0), [1.0, 8.0], [0.0, 1.0]).verdict == "ok"
    assert readouts.zcdp_holds(made.truth, low, ball(0), [1.0, 8.0], [0.0, 1.0]).verdict == "WRONG"
    assert readouts.gaussian_dominates(made.truth, 0.49, [0.0, 1.0]).verdict == "WRONG"
    assert readouts.gaussian_dominates(made.truth, 0.5000001, [0.0, 1.0]).verdict == "ok"


MIXED = leaf("gaussian_mixture", sigma=1.0, sensitivities=[0.0, 0.5, 2.0], probabilities=[0.25, 0.25, 0.5])


@pytest.mark.parametrize("count", [2, 3, 50])
def test_a_sum_of_mixtures_convicts_one_release_too_few(count: int) -> None:
    made = MIXED.times(count)
    twin = ForgetsOne(made.loss, (count - 1) * MIXED.loss)
    for epsilon in (0.0, 1.0):
        honest = float(made.loss.delta(epsilon=epsilon))
        assert readouts.delta_upper(made.truth, epsilon, twin.delta(epsilon=epsilon)).verdict == "WRONG"
        assert readouts.delta_upper(made.truth, epsilon, honest).verdict == "ok"
    assert readouts.epsilon_upper(made.truth, 1e-5, twin.epsilon(delta=1e-5)).verdict == "WRONG"
    assert readouts.tradeoff_lower(made.truth, 0.01, twin.tradeoff(alpha=0.01)).verdict == "WRONG"


def test_a_sum_of_mixtures_convicts_a_part_in_ten_thousand_million() -> None:
    for count in (2, 5):
        truth = MIXED.times(count).truth
        for epsilon in (0.3, 3.0):
            found = readouts.profile_of(truth.low(), ball(epsilon).exp())
            assert found is not None
            low, high = float(found.mid()) * (1 - 1e-10), float(found.mid()) * (1 + 1e-10)
            assert readouts.delta_upper(truth, epsilon, low).verdict == "WRONG"
            assert readouts.delta_lower(truth, epsilon, high).verdict == "WRONG"
            assert readouts.delta_upper(truth, epsilon, high).verdict == "ok"
            assert readouts.delta_lower(truth, epsilon, low).verdict == "ok"


def test_quantiles_that_drift_are_convicted() -> None:
    made = MIXED.times(1000)
    for share in (0.3, 0.9):
        assert (
            readouts.quantile_near(made.truth, 0, share, Drifts(made.loss, 0.0, 1000).quantile(share)).verdict == "ok"
        )
        drifted = Drifts(made.loss, 0.01, 1000).quantile(share)
        assert readouts.quantile_near(made.truth, 0, share, drifted).verdict == "WRONG"


def test_a_chain_of_mixtures_convicts_a_group_of_one() -> None:
    for size in (2, 5):
        grouped = MIXED.for_groups(size)
        for epsilon in (0.1, 2.0):
            one, many = (float(loss.delta(epsilon=epsilon)) for loss in (MIXED.loss, grouped.loss))
            assert readouts.delta_upper(grouped.truth, epsilon, one).verdict == "WRONG"
            assert readouts.delta_upper(grouped.truth, epsilon, many).verdict != "WRONG"
        assert readouts.tradeoff_lower(grouped.truth, 0.01, float(MIXED.loss.tradeoff(alpha=0.01))).verdict == "WRONG"
