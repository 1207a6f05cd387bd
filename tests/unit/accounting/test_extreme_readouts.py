"""Read-outs at the ends of the doubles, against exact fractions, closed forms and mpmath: numbers the referee found."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

import tallystick as ts
from pace import Clock
from tallystick.accounting.order import _root_up

ADD = ts.Direction.ADD


@pytest.mark.parametrize(
    "square", [Fraction(1, 10**600), Fraction(2), Fraction(9, 4), Fraction(10) ** 500, Fraction(0)]
)
def test_a_root_is_rounded_up_by_one_unit_at_most(square: Fraction) -> None:
    root = _root_up(square)
    assert Fraction(root) ** 2 >= square
    assert root == 0.0 or Fraction(math.nextafter(root, 0.0)) ** 2 < square


def test_a_tiny_loss_is_compared_at_once() -> None:
    clock = Clock()
    assert ts.pure_dp(epsilon=1e-300) <= ts.gdp(mu=3.0)
    # The corner of randomized response: mu is sqrt(pi / 2) epsilon as epsilon goes to 0.
    assert 1.2533141373155e-300 <= ts.pure_dp(epsilon=1e-300).gdp_bound() <= 1.2533141374e-300
    assert clock.seconds < 5.0


def test_the_smallest_gaussian_above_a_tiny_sample_takes_no_time() -> None:
    clock = Clock()
    sampled = ts.randomized_response(epsilon=0.25, adjacency="add_remove").sampled(rate=1e-300)
    # Total variation is rate tanh(epsilon / 2), and that of a Gaussian mu / sqrt(2 pi) for small mu.
    least = 1e-300 * math.tanh(0.125) * math.sqrt(2.0 * math.pi)
    assert least * (1 - 1e-12) <= sampled.gdp_bound() < math.inf
    assert clock.seconds < 2.0


def test_squares_that_underflow_leave_a_bound() -> None:
    tiny = ts.gdp(mu=1e-300)
    assert tiny.kl() > 0.0
    assert tiny.renyi(order=2.0) > 0.0
    # 2 Phi(mu / 2) - 1 is mu / sqrt(2 pi) for small mu.
    assert 3.98942280401e-301 <= tiny.delta(epsilon=0.0) <= 3.9894228041e-301
    assert (4 * tiny).delta(epsilon=0.0) >= 2 * 3.98942280401e-301


@pytest.mark.parametrize("scale", [1e-6, 3e-5, 1e-3])
def test_the_mean_loss_of_little_laplace_noise_is_not_understated(scale: float) -> None:
    with mpmath.workdps(40):
        reach = 1 / mpmath.mpf(scale)
        truth = reach + mpmath.exp(-reach) - 1
        assert truth <= ts.laplace(scale=scale).kl() <= truth * (1 + mpmath.mpf(10) ** -8)


def test_outcomes_beside_a_gaussian_have_an_exact_distribution() -> None:
    loss = ts.gaussian(sigma=9.0, adjacency="replace") + ts.randomized_response(epsilon=1.5, choices=3)
    law, mu, norm = loss.privacy_loss(ADD), 1 / 9, math.exp(1.5) + 2
    for x in (-0.4, 0.0, 1.4):
        below = [mpmath.ncdf((x - atom) / mu - mu / 2) for atom in (1.5, -1.5, 0.0)]
        truth = (math.exp(1.5) * below[0] + below[1] + below[2]) / norm
        assert law.cdf(x) == pytest.approx(float(truth), rel=1e-12)
        assert law.quantile(float(truth)) == pytest.approx(x, abs=1e-9)


def test_a_loss_without_a_finite_part_has_a_distribution() -> None:
    for loss in (ts.approx_dp(epsilon=1.0, delta=1.0), 4 * ts.approx_dp(epsilon=1.0, delta=1.0)):
        assert loss.privacy_loss(ADD).cdf(0.0) == 0.0
        assert loss.privacy_loss(ADD).quantile(0.5) == math.inf


def test_no_loss_among_others_is_no_loss_rigorously() -> None:
    pytest.importorskip("flint")
    found = (ts.pure_dp(epsilon=0.0) + ts.pure_dp(epsilon=1.0)).delta_bounds(epsilon=0.0, rigorous=True)
    assert found.lower <= math.tanh(0.5) <= found.upper
    assert ts.exponential(epsilon=0.0).epsilon_bounds(delta=0.1, rigorous=True).upper == 0.0
    same = ts.discrete_pair([0.796875, 0.203125], [0.796875, 0.203125]) + ts.discrete_pair([0.75, 0.25], [0.25, 0.75])
    assert 0.5 in same.delta_bounds(epsilon=0.0, rigorous=True)


def test_a_parameter_that_was_rounded_up_proves_nothing_from_below() -> None:
    pytest.importorskip("flint")
    # Told the truth with 5/8 and each of nine other answers with 1/24.
    told = ts.randomized_response(flip_prob=0.375, choices=10).delta_bounds(epsilon=0.0, rigorous=True)
    assert Fraction(told.lower) <= Fraction(5, 8) - Fraction(1, 24) <= Fraction(told.upper)
    with mpmath.workdps(40):
        truth = (1 + mpmath.exp(mpmath.mpf(1) / 4)) / 8
        replaced = ts.approx_dp(epsilon=0.25, delta=0.125).as_replace().delta_bounds(epsilon=800.0, rigorous=True)
        assert replaced.lower <= truth <= replaced.upper


def test_the_smallest_gaussian_above_a_group_takes_seconds() -> None:
    clock = Clock()
    mu = (2 * ts.exponential(epsilon=2.0)).for_groups(2).gdp_bound()
    assert clock.seconds < 5.0
    # Randomized response of strength 1, twice, has bounded range 2 twice and total variation tanh(1/2) for one unit.
    assert math.tanh(0.5) <= math.erf(mu / math.sqrt(8.0)) < 1.0


@pytest.mark.parametrize("order", [30.0, 100.0, 1e5])
def test_the_worst_of_an_unbounded_loss_has_no_finite_end(order: float) -> None:
    loss = ts.worst(ts.discrete_gaussian(sigma=1.0), ts.pure_dp(epsilon=1.0))
    # Shifting a discrete Gaussian by one has the divergence of the continuous one, order / 2.
    # M - 1 of the worst is at most the sum over its members, so below twice the larger of e^{(order - 1) D}.
    assert order / 2 <= loss.renyi(order=order) <= (order / 2 + math.log(2.0) / (order - 1)) * (1 + 1e-9)
    replaced = (ts.discrete_gaussian(sigma=1.0) + ts.pure_dp(epsilon=1.0)).as_replace()
    assert replaced.renyi(order=order) >= order / 2


def test_the_least_mass_at_infinity_is_bounded_from_both_sides() -> None:
    least = ts.approx_dp(epsilon=700.0, delta=5e-324)
    assert 700.0 in least.epsilon_bounds(delta=5e-324)
    assert least.epsilon_bounds(delta=0.0).lower == math.inf
    assert 5e-324 in least.delta_bounds(epsilon=700.0)


def test_noise_on_too_many_lattice_points_is_refused_before_it_is_listed() -> None:
    pytest.importorskip("flint")
    for loss in (ts.discrete_gaussian(sigma=5.0, sensitivity=10**7), ts.discrete_laplace(scale=5.0, sensitivity=10**7)):
        with pytest.raises(ts.errors.NotComputable, match="lattice points"):
            loss.delta_bounds(epsilon=800.0, rigorous=True)


def test_the_curve_of_a_loud_composition_takes_seconds() -> None:
    clock = Clock()
    loud = 2 * ts.exponential(epsilon=1e6)
    # Randomized response of strength 5e5 has bounded range 1e6: it errs with e^-500000, which no double holds.
    assert loud.tradeoff(alpha=0.05) == 0.0
    assert clock.seconds < 5.0


def test_a_third_is_not_a_double_and_a_sample_of_a_third_gives_a_third_away() -> None:
    loss = ts.approx_dp(epsilon=1.0, delta=2.0**-12, adjacency="replace").subset(batch=1, population=3)
    share = Fraction(1, 3 * 2**12)
    below, above = float(share), math.nextafter(float(share), 1.0)
    assert Fraction(below) < share < Fraction(above)
    assert loss.epsilon(delta=below) == math.inf
    assert Fraction(loss.delta(epsilon=700.0)) >= share


def test_replacing_under_a_bounded_loss_is_bounded() -> None:
    loss = ts.from_tradeoff([(0.0, 1.0), (0.421875, 0.421875), (1.0, 0.0)])
    # Its two slopes are 37/27 and 27/37: a record less and a record more make at most twice the logarithm.
    with mpmath.workdps(30):
        most = 2 * mpmath.log(mpmath.mpf(37) / 27)
    assert loss.as_replace().epsilon(delta=0.0) == pytest.approx(float(most), rel=1e-12)
    assert loss.as_replace().epsilon(delta=1e-30) <= float(most) * (1 + 1e-12)


def test_a_sample_of_perturbed_objectives_has_no_end_that_its_law_has() -> None:
    """The Gaussian line begins again 1,300 standard deviations out: a tilt of that order moves all mass there."""
    base = ts.objective_perturbation(sigma=13.382212737883409, ridge=0.01)
    for made in (base.sampled(rate=0.5), base.sampled(rate=0.5, largest=2, population=1, cut="random")):
        # removing a record whose curvature is nothing: a sample of a Gaussian release, log(rate) / (order - 1) off
        assert made.renyi(order=1e5) >= 1e5 / (2 * 13.382212737883409**2) + math.log(0.5) * 1e5 / (1e5 - 1)
        assert made.renyi(order=1e4) < 100


def test_rare_losses_that_are_huge_are_not_reached_for() -> None:
    """A tilt that reached for losses of 5e9 had no spread, and nothing was proved: whoever takes part is told apart."""
    pytest.importorskip("flint")
    found = (3 * ts.gaussian(sigma=1e-5).sampled(rate=0.01)).delta_bounds(epsilon=0.1, rigorous=True)
    assert found.lower <= 1.0 - 0.99**3 <= found.upper <= 0.02971
