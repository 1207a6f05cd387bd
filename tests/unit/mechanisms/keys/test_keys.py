"""Groups from the data: the optimal rule satisfies its recursion, beats thresholds, and delta is what it says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tallystick.accounting import losses as accounting
from tallystick.errors import InvalidInput
from tallystick.mechanisms.keys.counts import StableCounts, stable_counts
from tallystick.mechanisms.keys.partition import StableKeys, in_public_order, stable, units_per_key
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from unit.mechanisms.coverage import ENUMERATION, checks
from unit.mechanisms.neighbours import FEW, holds, profile, refuses


def recursion(epsilon: float, delta: float, count: int) -> list[float]:
    chances = [0.0]
    for _ in range(count):
        last = chances[-1]
        chances.append(min(math.exp(epsilon) * last + delta, 1 - math.exp(-epsilon) * (1 - last - delta), 1.0))
    return chances


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-6), (3.0, 0.01), (0.01, 0.3), (1e-3, 1e-3)])
def test_the_closed_form_is_the_recursion(epsilon: float, delta: float) -> None:
    mechanism = stable(epsilon=epsilon, delta=delta)
    sizes = 200
    found = [mechanism.keep_probability(n) for n in range(sizes)]
    assert found == pytest.approx(recursion(epsilon, delta, sizes - 1), rel=1e-9, abs=1e-15)


@checks(ENUMERATION, StableKeys)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.2, 1e-2)])
def test_the_price_holds_for_every_size_and_is_attained(epsilon: float, delta: float) -> None:
    mechanism = stable(epsilon=epsilon, delta=delta)
    chances = [mechanism.keep_probability(n) for n in range(60)]
    laws = [np.array([p, 1 - p]) for p in chances]
    pairs = list(itertools.pairwise(laws))
    assert holds(mechanism.privacy, pairs, scale=epsilon)
    at = np.array([epsilon])
    worst = max(float(max(profile(a, b, at)[0], profile(b, a, at)[0])) for a, b in pairs)
    assert worst == pytest.approx(delta, rel=1e-6)


def test_a_slightly_more_generous_rule_is_contradicted() -> None:
    mechanism = stable(epsilon=1.0, delta=1e-3)
    chances = np.array([min(1.0, 1.1 * mechanism.keep_probability(n)) for n in range(40)])
    laws = [np.array([p, 1 - p]) for p in chances]
    assert not holds(mechanism.privacy, itertools.pairwise(laws))


def test_the_optimal_rule_keeps_more_than_laplace_thresholding_of_the_same_price() -> None:
    optimal, noisy = stable(epsilon=1.0, delta=1e-5), stable_counts(epsilon=1.0, delta=1e-5)
    for size in range(1, 40):
        passes = (
            1 - DiscreteLaplace(1.0).upper_tail(size - noisy.threshold + 1)
            if size >= noisy.threshold
            else DiscreteLaplace(1.0).upper_tail(noisy.threshold - size)
        )
        assert optimal.keep_probability(size) >= passes - 1e-9


def test_groups_nobody_has_are_never_shown_and_large_ones_always() -> None:
    mechanism = stable(epsilon=1.0, delta=0.5)
    for _ in range(50):
        assert mechanism.release({"empty": 0, "large": 10**6}) == ("large",)


def test_several_groups_per_unit_split_the_price() -> None:
    mechanism = stable(epsilon=1.0, delta=1e-6, max_keys=4)
    assert mechanism.privacy == 4 * accounting.approx_dp(epsilon=0.25, delta=2.5e-7)
    assert float(mechanism.privacy.delta(epsilon=1.0)) <= 1e-6


def test_the_smallest_sure_size_is_where_the_chance_reaches_one() -> None:
    mechanism = stable(epsilon=0.5, delta=1e-4)
    size = mechanism.smallest_sure()
    assert mechanism.keep_probability(size) == 1.0
    assert mechanism.keep_probability(size - 1) < 1.0


def test_many_groups_of_different_sizes_are_all_judged() -> None:
    sizes = {i: i for i in range(300_000)}
    mechanism = stable(epsilon=0.5, delta=1e-6)
    shown = mechanism.release(sizes)
    assert len(shown) >= 300_000 - mechanism.smallest_sure()


def test_output_order_says_nothing_about_input_order() -> None:
    sizes = {f"g{i}": 10**6 for i in range(30)}
    backwards = dict(reversed(list(sizes.items())))
    mechanism = stable(epsilon=1.0, delta=0.1)
    assert mechanism.release(sizes) == mechanism.release(backwards)
    assert in_public_order({"b", "a"}) == ("a", "b")


def discrete_law(tail, limit: int) -> np.ndarray:
    """Mass function on -limit..limit of a symmetric law from its upper tail."""
    upper = np.array([tail(m) for m in range(1, limit + 2)])
    mass = upper[:-1] - upper[1:]
    return np.concatenate((mass[::-1], [1 - 2 * upper[0]], mass))


def shown_law(size: int, noise: np.ndarray, threshold: int) -> np.ndarray:
    """Law of the output for one group: hidden, or a noisy size (cells from threshold on)."""
    limit = noise.size // 2
    cells = 2 * limit + 40
    out = np.zeros(cells)
    if size == 0:
        out[0] = 1.0
        return out
    for i, p in enumerate(noise):
        value = size + i - limit
        out[value - threshold + 1 if value >= threshold else 0] += p
    return out


@checks(ENUMERATION, StableCounts)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noisy_sizes_keep_their_price_on_every_pair_and_delta_is_attained(kind: str) -> None:
    if kind == "laplace":
        mechanism = stable_counts(epsilon=0.5, delta=1e-3)
        noise = discrete_law(lambda m: DiscreteLaplace(2.0).upper_tail(m), 100)
    else:
        mechanism = stable_counts(rho=0.1, delta=1e-3)
        noise = discrete_law(lambda m: DiscreteGaussian(mechanism.sigma).upper_tail(m), 60)
    laws = [shown_law(size, noise, mechanism.threshold) for size in range(mechanism.threshold + 6)]
    assert holds(mechanism.privacy, itertools.pairwise(laws), scale=0.5, levels=FEW)
    lone = profile(laws[1], laws[0], np.array([5.0]))[0]
    assert lone == pytest.approx(mechanism.lone_probability, rel=1e-6)
    assert lone <= 1e-3


def test_moving_one_unit_between_groups_costs_two_groups() -> None:
    # REPLACE on one number moves it from one bin to another: the price the unbounded mean uses for its histograms.
    mechanism = stable_counts(epsilon=1.0, delta=1e-2, max_keys=2)
    noise = discrete_law(lambda m: DiscreteLaplace(mechanism.scale).upper_tail(m), 30)
    one = [shown_law(size, noise, mechanism.threshold) for size in range(5)]
    lone = accounting.approx_dp(epsilon=0.0, delta=mechanism.lone_probability)
    claim = 2 * accounting.discrete_laplace(scale=mechanism.scale) + 2 * lone
    pairs = [
        (np.outer(one[n], one[m]).ravel(), np.outer(one[n - 1], one[m + 1]).ravel())
        for n, m in itertools.product((1, 2, 4), (0, 1, 3))
    ]
    assert holds(claim, pairs, levels=FEW)


@pytest.mark.parametrize("max_keys", [1, 3, 20])
def test_the_threshold_is_the_least_that_keeps_delta(max_keys: int) -> None:
    mechanism = stable_counts(epsilon=1.0, delta=1e-4, max_keys=max_keys)
    assert -math.expm1(max_keys * math.log1p(-mechanism.lone_probability)) <= 1e-4
    lower = DiscreteLaplace(mechanism.scale).upper_tail(mechanism.threshold - 2)
    assert -math.expm1(max_keys * math.log1p(-lower)) > 1e-4
    assert float(mechanism.privacy.delta(epsilon=1.0)) <= 1.0001e-4


def test_the_discrete_gaussian_tail_is_an_upper_bound_within_a_billionth() -> None:
    import mpmath

    for sigma, least in ((0.4, 1), (1.0, 5), (3.3, 9), (50.0, 120)):
        with mpmath.workdps(40):
            weight = lambda x, s=sigma: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(s) ** 2))  # noqa: E731
            reach = int(60 * sigma) + 40
            total = mpmath.fsum(weight(x) for x in range(-reach, reach + 1))
            true = float(mpmath.fsum(weight(x) for x in range(least, reach + 1)) / total)
        assert true <= DiscreteGaussian(sigma).upper_tail(least) <= true * (1 + 1e-9)


def test_the_tail_of_a_wide_law_is_an_upper_bound_close_to_the_sum() -> None:
    sigma, least = 5000.0, 12_000
    at = np.arange(-60_000, 60_001, dtype=float)
    mass = np.exp(-(at**2) / (2 * sigma**2))
    true = float(mass[at >= least].sum() / mass.sum())
    assert true <= DiscreteGaussian(sigma).upper_tail(least) <= true * 1.001


def test_shown_sizes_pass_the_threshold_and_absent_groups_stay_absent() -> None:
    mechanism = stable_counts(epsilon=0.2, delta=0.3)
    for _ in range(100):
        shown = mechanism.release({"a": 0, "b": 1, "c": 50})
        assert "a" not in shown
        assert all(size >= mechanism.threshold for size in shown.values())


def test_units_are_counted_once_per_group_and_in_few_groups() -> None:
    rows = [("u1", g) for g in "abcdef"] + [("u2", "a"), ("u2", "a")]
    counts = units_per_key(rows, max_keys=2)
    assert sum(counts.values()) == 3
    assert max(counts.values()) <= 2


@pytest.mark.parametrize("value", [[], None, {"a": -1}, {"a": 1.5}, {"a": True}, {"a": "many"}, {"a": 1 << 70}])
def test_bad_sizes_are_refused_before_randomness_is_drawn(value) -> None:
    assert refuses(stable(epsilon=1.0, delta=1e-5), value)
    assert refuses(stable_counts(epsilon=1.0, delta=1e-5), value)


def test_after_a_charge_bad_sizes_count_as_none() -> None:
    assert stable(epsilon=1.0, delta=0.9).release({"a": math.nan}) == ()


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0}, {"delta": 0.0}, {"delta": 1.0}, {"delta": math.nan}, {"max_keys": 0}]
)
def test_bad_parameters_are_refused(wrong) -> None:
    for build in (stable, stable_counts):
        with pytest.raises(InvalidInput):
            build(**{"epsilon": 1.0, "delta": 1e-5, **wrong})


def test_noise_too_large_to_draw_is_refused_before_a_charge() -> None:
    for wrong in ({"epsilon": 1e-15}, {"rho": 1e-30}):
        with pytest.raises(InvalidInput):
            stable_counts(delta=1e-5, **wrong)


def test_sizes_need_exactly_one_kind_of_noise() -> None:
    for wrong in ({}, {"epsilon": 1.0, "rho": 0.5}):
        with pytest.raises(InvalidInput):
            stable_counts(delta=1e-5, **wrong)
