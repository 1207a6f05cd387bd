"""Numbers that were wrong when certification began: each line as it was written, and where else it is tested.

``ROWS`` reads every expression of the list again and holds it against the truth that the list gives; ``ELSEWHERE``
names the test that looks at the cause with an oracle of its own, and a name that is gone fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import tallystick as ts

pytestmark = pytest.mark.filterwarnings("error")
UNIT = Path(__file__).resolve().parents[1]
EDGE = 0.22442526991137884
UNEQUAL = [0.5, 0.5, 1e-17], [0.5, 0.5, 1e-20]

ROWS: list[tuple[Callable[[], float], float, float]] = [
    # what is read, the truth, and how far on the safe side of it
    (lambda: 1 - ts.approx_dp(epsilon=0, delta=0.3).tradeoff(alpha=0.5), 0.8, 1e-9),
    (lambda: ts.approx_dp(epsilon=0, delta=0.3).power(alpha=0.5), 0.8, 1e-9),
    (lambda: 1 - ts.approx_dp(epsilon=1, delta=1e-5).tradeoff(alpha=0.5), 1 - (0.5 - 1e-5) / math.e, 1e-9),
    (lambda: ts.approx_dp(epsilon=0, delta=0.3).for_groups(2).delta(epsilon=0), 0.6, 1e-9),
    (lambda: ts.approx_dp(epsilon=0, delta=0.3).for_groups(2).epsilon(delta=0.55), math.inf, 0.0),
    (lambda: ts.discrete_pair([0.7, 0.3, 0], [0.7, 0, 0.3]).as_replace().delta(epsilon=0), 0.6, 1e-9),
    (lambda: ts.discrete_gaussian(sigma=1).renyi(order=100), 50.0, 1e-9),
    (lambda: ts.discrete_gaussian(sigma=0.3, sensitivity=2).renyi(order=30), 2000 / 3, 1e-9),
    (lambda: (2 * ts.laplace(scale=1e-5)).epsilon(delta=1e-5), 199999.9999, 1e-9),
    (lambda: (5 * ts.laplace(scale=1e-6)).epsilon(delta=1e-5), 4999999.999, 1e-9),
    (lambda: ts.discrete_gaussian(sigma=1, sensitivity=10**7).epsilon(delta=1e-6), 5e13, 1e-5),
    (lambda: ts.discrete_gaussian(sigma=1, sensitivity=10**7).delta(epsilon=1e12), 1 - 1e-12, 1e-9),
    (lambda: ts.discrete_gaussian(sigma=5, sensitivity=66000).delta(epsilon=1.0), 1 - 1e-12, 1e-9),
    (lambda: ts.discrete_pair([1, 1e-18], [1, 0], adjacency="replace").epsilon(delta=0), math.inf, 0.0),
    (lambda: ts.discrete_pair(*UNEQUAL).epsilon(delta=0), math.log(1000) * (1 - 1e-12), 1e-9),
    (lambda: ts.gaussian(sigma=1e-4).sampled(rate=0.5).delta(epsilon=1), 0.5, 1e-9),
    (lambda: (3 * ts.approx_dp(epsilon=0.5, delta=7.482151860811336e-07)).epsilon(delta=2.2446438787659255e-06),
     math.inf, 0.0),
    (lambda: ts.approx_dp(epsilon=1, delta=EDGE).epsilon(delta=EDGE), 1.0, 0.0),
    (
        lambda: ts.gaussian(sigma=1).sampled(rate=1.0, largest=10, population=100, cut="anyhow").delta(epsilon=1),
        1.0,
        0.0,
    ),
    (lambda: (ts.exponential(epsilon=1) + ts.exponential(epsilon=2)).delta(epsilon=3), 0.0, 0.0),
    (lambda: ts.laplace(scale=1).sampled(rate=0.1).as_replace().delta(epsilon=0), 0.1 * (1 - 1 / math.e), 1e-6),
    (lambda: ts.theorems.base_epsilon_for(epsilon=690, rate=1e-10), 713.0258, 1e-6),
]  # fmt: skip


@pytest.mark.parametrize(("read", "truth", "far"), ROWS)
def test_the_line_is_on_the_safe_side_and_close(read: Callable[[], float], truth: float, far: float) -> None:
    found = read()
    assert found == truth or truth <= found <= truth * (1 + far) or truth * (1 - 1e-15) <= found <= truth


ELSEWHERE = {
    "a polygon that ends in a clipped vertex": "accounting/test_polygons.py::test_the_vertex_where_power_reaches_one",
    "groups with mass at infinity": "accounting/test_polygons.py::test_groups_of_a_loss_that_gives_everything_away",
    "replace with mass at infinity": "accounting/test_polygons.py::test_replace_of_a_loss_that_gives_everything_away",
    "high orders of discrete noise": "accounting/test_wrong_before.py::test_renyi_of_discrete_noise",
    "high orders of samples": "accounting/test_wrong_before.py::test_renyi_of_sampled_noise_under_replace",
    "few steps of little noise": "accounting/test_wrong_before.py::test_few_steps_of_little_laplace_noise",
    "discrete noise far away": "accounting/test_wrong_before.py::test_discrete_noise_far_from_its_shift",
    "its price": "accounting/test_wrong_before.py::test_discrete_noise_is_priced_at_what_it_loses",
    "its calibration": "accounting/test_wrong_before.py::test_discrete_noise_is_calibrated_to_its_lattice",
    "its comparison": "accounting/test_wrong_before.py::test_no_bound_on_discrete_noise_is_below_the_truth",
    "texts no constructor allows": "accounting/test_hostile_json.py::test_what_no_constructor_allows_is_refused",
    "imports": "accounting/test_hostile_json.py::test_an_import_with_two_meanings_or_none_is_refused",
    "rare outcomes": "accounting/test_polygons.py::test_rare_outcomes_keep_their_loss_under_replace",
    "tiny noise, sampled, both ends": "accounting/test_wrong_before.py::test_one_sampled_gaussian_of_any_size",
    "rates near one": "accounting/test_wrong_before.py::test_sampling_a_very_unequal_pair",
    "knife edges": "accounting/test_wrong_before.py::test_the_edge_of_the_mass_at_infinity",
    "the loss variable": "accounting/test_loss_variable.py::test_a_sum_of_atoms_is_not_smeared",
    "the largest loss": "accounting/test_wrong_before.py::test_the_largest_loss_is_rounded_up",
    "everyone sampled, batches cut": "accounting/test_wrong_before.py::test_everyone_takes_part_and_batches_are_cut",
    "gdp_bound that overflowed":
        "accounting/test_order.py::test_the_smallest_gaussian_of_huge_losses_is_finite_and_quick",
    "minutes, hangs and warnings": "accounting/test_wrong_before.py::test_answers_in_five_seconds",
    "relative=0": "accounting/test_order.py::test_calibrate_takes_every_goal_and_returns",
    "moments_noise": "theorems/test_safe_side.py::test_moments_noise_says_when_no_noise_is_enough",
    "analytic_gaussian_sigma":
        "theorems/test_safe_side.py::test_the_noise_for_a_delta_far_below_the_reach_of_a_linear_search",
    "advanced_composition, gaussian_renyi":
        "theorems/test_safe_side.py::test_a_bound_that_no_float_can_hold_is_infinite",
    "PiecewiseProfile": "theorems/test_safe_side.py::test_a_profile_far_out",
    "local_rate": "theorems/test_safe_side.py::test_rates_far_out_are_estimates_and_not_errors",
    "pure_to_gdp": "theorems/test_safe_side.py::test_pure_dp_as_gaussian_dp_for_small_epsilon",
    "coins near one": "theorems/test_safe_side.py::test_randomized_response_near_a_coin_that_always_answers",
    "optimal_composition_delta":
        "theorems/test_safe_side.py::test_optimal_composition_where_the_product_is_rounded_below_the_largest_loss",
    "gdp_delta": "theorems/test_safe_side.py::test_gaussian_dp_with_little_noise",
    "base_epsilon_for": "theorems/test_safe_side.py::test_the_base_of_a_rare_sample",
    "randomized_response_coin": "theorems/test_safe_side.py::test_a_coin_too_rare_for_a_float_is_still_a_coin",
    "deltas that underflow": "theorems/test_safe_side.py::test_a_positive_delta_is_never_zero",
    "renyi_divergence at infinity": "theorems/test_safe_side.py::test_the_largest_loss_of_a_close_pair",
    "the central-limit band": "theorems/test_safe_side.py::test_the_central_limit_band_holds_the_truth_for_tiny_steps",
    "meaning(...).hit": "test_digits.py::test_the_even_handed_test_of_weak_losses",
    "amounts printed outward": "test_digits.py::test_amounts_of_budget_are_rounded_outward",
    "statements printed outward": "test_digits.py::test_nothing_is_nearest_where_it_is_a_bound",
    "a denial's order": "test_digits.py::test_a_denial_names_the_order_of_the_account",
    "str of a replace loss": "accounting/test_texts_read_back.py::",
    "more goals": "accounting/test_order.py::test_concentrated_goals",
    "polygon and profile goals": "accounting/test_order.py::test_renyi_polygon_and_profile_goals",
    "the better chain": "accounting/test_polygons.py::test_replace_takes_the_better_chain",
    "replace_tradeoff": "theorems/test_safe_side.py::test_replace_takes_the_better_of_two_chains",
    "group_tradeoff": "theorems/test_safe_side.py::test_a_group_does_not_waste_a_claim_on_both_orders",
    "each direction compared": "accounting/test_order.py::test_directions_are_not_mixed_up",
    "a comparison that may be multiplied":
        "accounting/test_order.py::test_a_certified_order_is_true_in_each_direction_and_survives_composition",
}  # fmt: skip


@pytest.mark.parametrize("line", ELSEWHERE)
def test_the_cause_has_a_test_of_its_own(line: str) -> None:
    file, _, name = ELSEWHERE[line].partition("::")
    assert f"def {name or 'test_'}" in (UNIT / file).read_text(encoding="utf-8")
