"""Infinite only where it is true: at the edge of the mass at infinity, decided by exact fractions and mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest

import tallystick as ts
from tallystick.accounting.leaves.pure import grouped_delta
from tallystick.numerics.law import covers

pytestmark = pytest.mark.filterwarnings("error")


def test_a_delta_that_is_all_of_a_tiny_mass_leaves_the_largest_loss() -> None:
    assert ts.approx_dp(epsilon=700, delta=5e-324).epsilon(delta=5e-324) == 700.0
    assert ts.approx_dp(epsilon=700, delta=1e-323).epsilon(delta=5e-324) == math.inf


@pytest.mark.parametrize("delta", [1e-317, math.nextafter(1e-317, 0.0), math.nextafter(1e-317, 1.0)])
def test_the_mass_of_a_sample_is_compared_exactly(delta: float) -> None:
    loss = ts.approx_dp(epsilon=1e-12, delta=1e-17).sampled(rate=1e-300)
    # log(1 + q (e^epsilon - 1)) = q epsilon (1 + 5e-13)
    truth = 1e-312 if Fraction(delta) >= Fraction(1e-17) * Fraction(1e-300) else math.inf
    found = loss.epsilon(delta=delta)
    assert truth <= found
    assert math.isinf(truth) or found < 1e-299


@pytest.mark.parametrize("ulps", range(-3, 4))
def test_the_mass_of_a_sampled_sum_is_compared_exactly(ulps: int) -> None:
    delta = 0.50999949 + ulps * math.ulp(0.5)
    found = (2 * ts.approx_dp(epsilon=2.0, delta=0.3)).sampled(rate=0.999999).epsilon(delta=delta)
    if Fraction(delta) < Fraction(0.999999) * (1 - (1 - Fraction(0.3)) ** 2):
        assert found == math.inf
    else:
        with mpmath.workdps(40):
            truth = mpmath.log1p(mpmath.mpf(0.999999) * mpmath.expm1(4))
        assert truth <= found <= float(truth) * (1 + 1e-14)


def test_many_samples_are_compared_with_digits_enough() -> None:
    tiny = Fraction(1e-200) * Fraction(1e-100)
    assert covers(1e-294, [(tiny, 10**5)])
    assert not covers(9.9e-296, [(tiny, 10**5)])


def test_a_mass_that_is_one_up_to_rounding_is_no_error() -> None:
    loss = (2 * ts.approx_dp(epsilon=1.0, delta=1.0 - 1e-9)).sampled(rate=0.5)
    assert loss.epsilon(delta=0.5) < math.inf
    assert loss.epsilon(delta=math.nextafter(0.5, 0.0)) == math.inf
    assert (loss + loss).epsilon(delta=0.7) == math.inf
    assert (2 * ts.discrete_pair([1 - 2.0**-30, 2.0**-30], [0.0, 1.0])).epsilon(delta=1.0 - 2.0**-40) == math.inf


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-9, 0.5, 40.0])
def test_what_a_group_loses_is_rounded_to_the_next_double(size: int, epsilon: float) -> None:
    delta = 0.0048555862973545 if epsilon < 1.0 else 1e-110
    with mpmath.workdps(700):
        exact = mpmath.mpf(delta) * sum(mpmath.exp(i * mpmath.mpf(epsilon)) for i in range(size))
        found = grouped_delta(epsilon, delta, size)
        assert found >= exact
        assert math.nextafter(found, 0.0) < exact


@pytest.mark.parametrize("ulps", range(-2, 3))
def test_a_group_is_decided_at_the_edge(ulps: int) -> None:
    delta = 0.12861094707523194 + ulps * math.ulp(0.125)
    found = ts.approx_dp(epsilon=0.5, delta=0.04855586297354595).for_groups(2).epsilon(delta=delta)
    with mpmath.workdps(50):
        mass = mpmath.mpf(0.04855586297354595) * (1 + mpmath.exp(0.5))
    assert found == (1.0 if delta >= mass else math.inf)


def test_a_group_of_several_releases_is_read_release_by_release() -> None:
    """The chain of the whole composition has mass .95 at infinity; each release alone gives a group 2.2e-3."""
    epsilon, delta = 3.525448056241578, 1.850405838316748e-06
    found = (2 * ts.approx_dp(epsilon=epsilon, delta=delta)).for_groups(3).epsilon(delta=0.1)
    with mpmath.workdps(50):
        step = 3 * mpmath.mpf(epsilon)
        lost = mpmath.mpf(delta) * sum(mpmath.exp(i * mpmath.mpf(epsilon)) for i in range(3))
        hit = (1 - lost) / (1 + mpmath.exp(-step))
        # Two such releases at a threshold between the losses 0 and 2 steps.
        left = 1 - (1 - lost) ** 2 + hit**2 * -mpmath.expm1(found - 2 * step)
        assert 0.0 < found < 2 * step
        assert 0.1 * (1 - 1e-9) < left <= 0.1


def test_a_group_of_gaussians_beside_something_else_is_read_release_by_release() -> None:
    loss = (ts.gaussian(sigma=0.5) + ts.pure_dp(epsilon=1.0)).for_groups(4)
    apart = ts.gdp(mu=8.0) + ts.pure_dp(epsilon=4.0)
    assert loss.epsilon(delta=1e-6) <= apart.epsilon(delta=1e-6) * (1 + 1e-9)
    assert loss.delta(epsilon=60.0) <= apart.delta(epsilon=60.0) * (1 + 1e-9)
    assert loss.renyi(order=2.0) <= apart.renyi(order=2.0) * (1 + 1e-9)


@pytest.mark.parametrize("mu", [1e-300, 5e-324])
def test_a_gaussian_of_almost_no_width_beside_outcomes_makes_no_noise(mu: float) -> None:
    loss = ts.gdp(mu=mu) + ts.pure_dp(epsilon=0.25)
    assert 1.0 - 1e-15 <= loss.tradeoff(alpha=0.0) <= 1.0
    truth = float((mpmath.exp(0.25) - mpmath.exp(0.1)) / (1 + mpmath.exp(0.25)))
    assert truth <= loss.delta(epsilon=0.1) <= truth * (1 + 1e-11)


def test_ratios_that_are_no_doubles_are_not_listed() -> None:
    found = ts.discrete_laplace(scale=1e-6, sensitivity=7).allocated(steps=3).epsilon(delta=0.0)
    # The unit takes part in one of three steps: log(e^7e6 / 3) at least.
    assert 7e6 - math.log(3.0) <= found <= 7e6 * (1 + 1e-12)


def test_a_sampled_sum_is_read_from_the_sum_however_small_delta_is() -> None:
    """Its knots end at 1e-40; by the definition, over all pairs of lattice points, with 60 digits."""
    found = (2 * ts.discrete_gaussian(sigma=0.5, sensitivity=2)).sampled(rate=0.999999).epsilon(delta=1e-300)
    with mpmath.workdps(60):
        points = range(-40, 41)
        weight = {k: mpmath.exp(-2 * mpmath.mpf(k) ** 2) for k in range(-40, 44)}
        norm = sum(weight.values())
        one = [(weight[k] / norm, weight[k + 2] / norm) for k in points]
        rate = mpmath.mpf(0.999999)

        def delta(epsilon: mpmath.mpf) -> mpmath.mpf:
            level, total = mpmath.exp(epsilon), mpmath.mpf(0)
            for p, q in one:
                for u, v in one:
                    total += max(mpmath.mpf(0), rate * p * u + (1 - rate - level) * q * v)
            return total

        assert delta(mpmath.mpf(found)) <= 1e-300
        assert delta(mpmath.mpf(found) * (1 - mpmath.mpf(10) ** -8)) > 1e-300


def test_the_worst_of_several_is_the_worst_of_their_numbers() -> None:
    """delta of the worst is the largest delta, by definition, and so is epsilon."""
    loud, quiet = ts.gaussian(sigma=0.05), ts.laplace(scale=1.0) + ts.pure_dp(epsilon=0.5)
    both = ts.worst(loud, quiet)
    for delta in (1e-100, 1e-6):
        assert both.epsilon_bounds(delta=delta) == loud.epsilon_bounds(delta=delta)
    for epsilon in (0.0, 1.0, 300.0):
        assert both.delta_bounds(epsilon=epsilon).upper == max(one.delta(epsilon=epsilon) for one in (loud, quiet))


def test_divergences_of_a_chain_are_finite_where_those_of_its_steps_are() -> None:
    """Steps of sampled discrete noise are unbounded. A record may be replaced by one that changes nothing."""
    step = ts.discrete_gaussian(sigma=1.0).sampled(rate=0.1)
    whole = step.as_replace()
    for order in (1.0, 2.0, 30.0):
        # From above: unsampled noise of twice the shift.
        assert step.renyi(order=order) <= whole.renyi(order=order) < math.inf
    assert whole.kl() <= 0.5 * 2.0**2


@pytest.mark.parametrize("leaf", [ts.discrete_gaussian, ts.discrete_laplace])
def test_discrete_noise_of_a_group_is_noise_of_a_larger_shift(leaf: Callable[..., ts.PrivacyLoss]) -> None:
    width = "sigma" if leaf is ts.discrete_gaussian else "scale"
    one = leaf(**{width: 2.0, "sensitivity": 3})
    assert one.as_replace() == leaf(**{width: 2.0, "sensitivity": 6}, adjacency="replace")
    group, larger = one.for_groups(5), leaf(**{width: 2.0, "sensitivity": 15})
    for delta in (1e-300, 1e-6):
        assert group.epsilon(delta=delta) <= larger.epsilon(delta=delta) * (1 + 1e-9)


@pytest.mark.parametrize("ulps", range(-2, 3))
def test_a_cut_batch_is_decided_at_the_edge(ulps: int) -> None:
    """More than 101 of 399 others are always sampled, says the bound, so that a half is given away."""
    loss = ts.laplace(scale=1.0).sampled(rate=0.5, largest=101, population=400, cut="anyhow")
    found = loss.epsilon(delta=0.5 + ulps * math.ulp(0.25))
    assert (found < math.inf) == (ulps >= 0)
    assert found >= math.log(2.0) * (1 - 1e-12)  # the largest loss when adding


@pytest.mark.parametrize("delta", [1e-12, 1e-30, 1e-300])
def test_an_epoch_never_loses_more_than_one_of_its_steps(delta: float) -> None:
    """Its profile is followed to 1e-24 only; by joint convexity one step that is always taken is above it."""
    found = ts.exponential(epsilon=2.0).allocated(steps=3).epsilon_bounds(delta=delta)
    # The unit takes part in one of three steps, and that step alone may have the largest loss.
    assert found.lower <= found.upper <= 2.0
    assert found.upper >= math.log((2.0 + math.exp(1.0)) / 3.0)


@pytest.mark.parametrize(
    ("loss", "plain"),
    [
        (ts.gaussian(sigma=0.5).allocated(steps=2), ts.gaussian(sigma=0.5)),
        (
            ts.discrete_gaussian(sigma=5.5, sensitivity=2).allocated(steps=2),
            ts.discrete_gaussian(sigma=5.5, sensitivity=2),
        ),
        (ts.gdp(mu=1.0).sampled(rate=1e-6).as_replace(), ts.gdp(mu=2.0, adjacency="replace")),
        (2 * ts.gaussian(sigma=0.5).allocated(steps=2), 2 * ts.gaussian(sigma=0.5)),
    ],
)
def test_what_is_followed_to_some_delta_is_below_the_same_without_sampling(
    loss: ts.PrivacyLoss, plain: ts.PrivacyLoss
) -> None:
    """Curves end at deltas of about 1e-24 or 1e-40, and the rest was infinite."""
    found = loss.epsilon_bounds(delta=1e-250)
    assert 0.1 * plain.epsilon(delta=1e-250) < found.upper <= plain.epsilon(delta=1e-250) * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-200])
def test_the_best_of_a_million_loud_runs_has_a_finite_epsilon(delta: float) -> None:
    """No curve follows it; its divergences are finite, and each of them is a bound."""
    loss = ts.selected(ts.gaussian(sigma=0.3), poisson=1e6)
    found = loss.epsilon(delta=delta)
    theta = 2.0  # order 3, from the definition of the conversion
    each = (
        loss.renyi(order=1.0 + theta)
        + math.log(1 / delta) / theta
        + math.log(theta / (1 + theta))
        - math.log(3) / theta
    )
    assert 1e5 < found <= each * (1 + 1e-9)


@pytest.mark.parametrize("steps", [2, 7])
@pytest.mark.parametrize("base", [ts.laplace(scale=0.2), ts.exponential(epsilon=5.0)])
def test_an_epoch_of_bounded_losses_is_bounded(base: ts.PrivacyLoss, steps: int) -> None:
    epoch = base.allocated(steps=steps)
    assert epoch.epsilon(delta=0.0) == base.epsilon(delta=0.0) == pytest.approx(5.0)
    assert 0.0 < epoch.kl() <= base.kl() * (1 + 1e-9)
    # B >= V_i / steps: the largest ratio of one step is seen, less the logarithm of the steps.
    assert base.renyi(order=200.0) - math.log(steps) <= epoch.renyi(order=200.0) * (1 + 1e-9) <= 5.0 * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "rate"), [(1e-300, 1e-300), (1e-300, 1.5e-24), (1e-300, 1e-12), (1e-12, 1e-300)])
@pytest.mark.parametrize("count", [1, 10**9])
def test_a_rate_times_a_loss_that_vanishes_is_not_nothing(epsilon: float, rate: float, count: int) -> None:
    """Products below 1e-308 were 0, or rounded to nearest: "<= pure_dp(epsilon=0)" was True."""
    loss = count * ts.pure_dp(epsilon=epsilon).sampled(rate=rate)
    truth = count * Fraction(epsilon) * Fraction(rate)  # and less than this share more
    assert Fraction(loss.epsilon(delta=0)) > truth * (1 + Fraction(1, 10**9))
    assert Fraction(loss.delta(epsilon=0)) > truth / 3
    assert Fraction(loss.delta_bounds(epsilon=0).lower) <= truth / 2
    assert not loss <= ts.pure_dp(epsilon=float(truth / 2))
    assert loss.renyi(order=math.inf) > 0


@pytest.mark.parametrize("ulps", [-1, 0, 1])
@pytest.mark.parametrize(("rate", "largest", "population"), [(0.1, 1, 2), (0.01, 1, 100), (0.1, 3, 10), (0.1, 26, 100)])
def test_the_chance_of_a_cut_is_compared_exactly(rate: float, largest: int, population: int, ulps: int) -> None:
    """All binomial terms in fractions, against the double on either side."""
    chance, trials = Fraction(rate), population - 1
    terms = (math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(largest, trials + 1))
    mass = chance * sum(terms, Fraction(0))
    delta = float(mass)
    delta = math.nextafter(delta, ulps * math.inf) if ulps else delta
    found = (
        ts.pure_dp(epsilon=0.25)
        .sampled(rate=rate, largest=largest, population=population, cut="anyhow")
        .epsilon(delta=delta)
    )
    assert math.isfinite(found) == (Fraction(delta) >= mass)
