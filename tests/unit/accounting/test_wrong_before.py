"""Numbers that were once on the wrong side, or crashed, or hung: each against closed forms, mpmath or fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest

import tallystick as ts
from pace import Clock
from sweeps import share
from tallystick.accounting.adjacency import ANY_UNIT
from tallystick.accounting.foreign import from_dp_accounting
from tallystick.errors import InvalidInput
from tallystick.ledger.filters import Filter
from tallystick.ledger.pricing import price

pytestmark = pytest.mark.filterwarnings("error")

mp.mp.dps = 40


def phi(x: mp.mpf) -> mp.mpf:
    """The distribution function of the standard normal law."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


@lru_cache
def lattice_norm(sigma: float) -> mp.mpf:
    """The sum of exp(-k^2 / (2 sigma^2)) over all integers."""
    reach = int(20 * sigma) + 3
    return mp.fsum(mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(sigma) ** 2)) for k in range(-reach, reach + 1))


def lattice_delta(sigma: float, shift: int, epsilon: float) -> mp.mpf:
    """delta of discrete Gaussian noise, term by term over the points of positive gain."""
    s, e = mp.mpf(sigma), mp.mpf(epsilon)
    # loss(k) = shift (shift + 2k) / (2 sigma^2) > e
    first = int(mp.floor(e * s * s / shift - mp.mpf(shift) / 2)) - 1
    reach = int(20 * sigma) + 3
    result = mp.mpf(0)
    for k in range(max(first, -reach), reach + 1):
        loss = mp.mpf(shift) * (shift + 2 * k) / (2 * s * s)
        if loss > e:
            result += mp.exp(-(mp.mpf(k) ** 2) / (2 * s * s)) * (1 - mp.exp(e - loss))
    return result / lattice_norm(sigma)


@pytest.mark.parametrize(
    ("sigma", "shift"),
    [(1.0, 10**7), (5.0, 66_000), (0.5, 10**6), (30.0, 10**7), (1.0, 10**9), (0.01, 3), (2.0, 10**5)],
)
def test_discrete_noise_far_from_its_shift(sigma: float, shift: int) -> None:
    found = ts.discrete_gaussian(sigma=sigma, sensitivity=shift).epsilon_bounds(delta=1e-6)
    assert lattice_delta(sigma, shift, found.upper) <= mp.mpf(1e-6) <= lattice_delta(sigma, shift, found.lower)
    assert 0 < found.lower <= found.upper <= found.lower * (1 + 1e-9)


def test_discrete_noise_at_one_of_its_losses() -> None:
    truth = lattice_delta(1.0, 10**5, 5e9)
    found = ts.discrete_gaussian(sigma=1, sensitivity=10**5).delta_bounds(epsilon=5e9)
    assert found.lower <= truth <= found.upper <= truth * (1 + mp.mpf(1e-4))


@pytest.mark.parametrize(
    ("sigma", "shift"), [(500.0, 40_000), (500.0, 10**8), (5000.0, 10**9), (5000.0, 400), (900.0, 3)]
)
def test_wide_discrete_noise_lies_between_continuous_ones(sigma: float, shift: int) -> None:
    """The resampling argument of docs/theory/noise-lattice.md, from both sides."""
    found = ts.discrete_gaussian(sigma=sigma, sensitivity=shift).epsilon_bounds(delta=1e-6)
    above = ts.gaussian(sigma=math.sqrt(sigma**2 - 4) / shift).epsilon_bounds(delta=1e-6)
    below = ts.gaussian(sigma=math.sqrt(sigma**2 + 4) / shift).epsilon_bounds(delta=1e-6)
    assert below.lower * (1 - 1e-12) <= found.upper
    assert found.lower <= above.upper * (1 + 1e-12)
    assert found.upper <= above.upper * (1 + 3e-5) + 1e-12


def test_what_follows_from_a_discrete_price() -> None:
    loss = ts.discrete_gaussian(sigma=1, sensitivity=10**7)
    assert loss.delta(epsilon=1e12) == pytest.approx(1.0, rel=1e-11)
    assert ts.PrivacyLoss.from_json(loss.to_json()).epsilon(delta=1e-6) > 5e13
    assert (3 * loss).epsilon(delta=1e-6) >= 3 * 4.9e13
    event = {"class_name": "DiscreteGaussianDpEvent", "sigma": 1.0, "sensitivity": 10**7, "dimension": 1}
    assert from_dp_accounting(event) == loss
    mechanism = ts.noise.add_discrete_gaussian(sigma=1.0, sensitivity=10**7)
    assert lattice_delta(1.0, 10**7, mechanism.privacy.epsilon(delta=1e-6)) <= 1e-6


def test_no_bound_on_discrete_noise_is_below_the_truth() -> None:
    found = ts.compare(ts.discrete_gaussian(sigma=1, sensitivity=10**7), delta=1e-6)
    bounds = [row for row in found if row.epsilon is not None and row.kind == "bound"]
    assert len(bounds) == 8
    for row in bounds:
        assert lattice_delta(1.0, 10**7, row.epsilon) <= 1e-6, row.method


def test_discrete_noise_is_calibrated_to_its_lattice() -> None:
    """The answer was 4.1. So wide a lattice is continuous up to a factor 1 + 2/sigma^2, and that is in closed form."""
    sigma = ts.calibrate(
        lambda s: ts.discrete_gaussian(sigma=s, sensitivity=10**7), ts.approx_dp(epsilon=1, delta=1e-6)
    )
    mu = mp.mpf(10**7) / mp.mpf(sigma)
    assert mp.ncdf(mu / 2 - 1 / mu) - mp.e * mp.ncdf(-mu / 2 - 1 / mu) <= 1e-6
    assert 4.22e7 < sigma < 4.23e7


@pytest.mark.parametrize("currency", ["approx", "zcdp", "rdp@4"])
def test_discrete_noise_is_priced_at_what_it_loses(currency: str) -> None:
    """Prices were 0. What costs more than an account can hold is refused, and the refusal says how much it is."""
    delta = 1e-6 if currency == "approx" else None
    found = price(ts.discrete_gaussian(sigma=100, sensitivity=66_000), Filter.named(currency), ANY_UNIT, delta=delta)
    rho = Fraction(66_000) ** 2 / (2 * Fraction(100) ** 2)
    if currency == "approx":
        assert lattice_delta(100.0, 66_000, float(found.first)) <= 1e-6
    assert found.first >= {"approx": rho, "zcdp": rho, "rdp@4": 4 * rho}[currency]
    assert found.first <= {"approx": 1.02 * rho, "zcdp": rho * (1 + 1e-6), "rdp@4": 4 * rho * (1 + 1e-6)}[currency]
    with pytest.raises(InvalidInput, match="000"):
        price(ts.discrete_gaussian(sigma=1, sensitivity=10**7), Filter.named(currency), ANY_UNIT, delta=delta)


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 10**9), (0.3, 10**7), (5.0, 70_001), (1e3, 70_000), (1e9, 10**9)])
def test_discrete_laplace_far_from_its_shift(scale: float, shift: int) -> None:
    """delta(e) = 1 - (e^{-(m+1)/t} + e^{e-(s-m)/t}) / (1 + e^{-1/t}) for the best m (docs/theory/noise-lattice.md)."""
    t, delta = mp.mpf(scale), mp.mpf(1e-6)

    def truth(e: mp.mpf) -> mp.mpf:
        place = (shift - e * t) / 2 - 1
        guesses = {max(0, int(mp.floor(place)) + step) for step in range(-2, 4)}
        norm = 1 + mp.exp(-1 / t)
        return max(1 - (mp.exp(-(m + 1) / t) + mp.exp(e - (shift - m) / t)) / norm for m in guesses if m < shift)

    loss = ts.discrete_laplace(scale=scale, sensitivity=shift)
    epsilon = loss.epsilon(delta=1e-6)
    assert truth(mp.mpf(epsilon)) <= delta * (1 + mp.mpf(1e-9))
    lower = loss.epsilon_bounds(delta=1e-6).lower
    assert lower == 0.0 or truth(mp.mpf(lower)) >= delta * (1 - mp.mpf(1e-9))
    assert Fraction(loss.epsilon(delta=0)) >= shift / Fraction(scale)


@pytest.mark.parametrize(
    ("sigma", "shift", "order"),
    [(1.0, 1, 100), (0.3, 2, 30), (1.0, 1, 2.5), (0.5, 3, 7.25), (1.0, 1, 1e5), (50, 2, 1e4)],
)
def test_renyi_of_discrete_noise(sigma: float, shift: int, order: float) -> None:
    """Order * shift^2 / (2 sigma^2) at whole orders; term by term at others."""
    theta, s = mp.mpf(order) - 1, mp.mpf(sigma)
    centre, reach = int(theta * shift), int(40 * sigma) + 3
    total = mp.fsum(mp.exp(-(mp.mpf(k) ** 2) / (2 * s * s)) for k in range(-reach, reach + 1))
    moved = mp.fsum(
        mp.exp(-((k - theta * shift) ** 2) / (2 * s * s)) for k in range(centre - reach, centre + reach + 1)
    )
    truth = mp.mpf(order) * shift**2 / (2 * s * s) + mp.log(moved / total) / theta
    found = ts.discrete_gaussian(sigma=sigma, sensitivity=shift).renyi(order=order)
    assert truth <= found <= truth * (1 + mp.mpf(1e-9)) + mp.mpf(1e-12)


@pytest.mark.parametrize(("mu", "rate", "order"), [(1.0, 0.1, 100), (1.0, 0.01, 100), (0.5, 0.3, 200), (3.0, 0.5, 20)])
def test_renyi_of_sampled_noise_under_replace(mu: float, rate: float, order: int) -> None:
    """Trapezoid sums of entire functions: the step's error is below e^-150."""
    m, q = mp.mpf(mu), mp.mpf(rate)
    replaced, removed = [], []
    for i in range(-200, int(8 * (order * mu + 25))):
        x = mp.mpf(i) / 8
        base, up, down = mp.exp(-x * x / 2), mp.exp(-((x - m) ** 2) / 2), mp.exp(-((x + m) ** 2) / 2)
        mixture = (1 - q) * base + q * up
        replaced.append(mixture**order * ((1 - q) * base + q * down) ** (1 - order))
        removed.append(mixture**order * base ** (1 - order))
    norm = 8 * mp.sqrt(2 * mp.pi)
    truth, one = (mp.log(mp.fsum(part) / norm) / (order - 1) for part in (replaced, removed))
    found = ts.gaussian(sigma=1 / mu).sampled(rate=rate).as_replace().renyi(order=order)
    assert truth * (1 - mp.mpf(1e-13)) <= found <= truth * (1 + mp.mpf(1e-6))
    subset = ts.gaussian(sigma=1 / mu, adjacency="replace").subset(batch=int(1000 * rate), population=1000)
    assert subset.renyi(order=order) >= one * (1 - mp.mpf(1e-13))


@pytest.mark.parametrize("order", [2, 50, 1e4, 1e5])
@pytest.mark.parametrize("sigma", [1e-3, 0.1, 1.0, 100.0])
def test_renyi_of_a_sampled_gaussian_at_any_order(order: float, sigma: float) -> None:
    """Never infinite: at least q^order times the unsampled moment, at most Minkowski's bound."""
    rate, plain = mp.mpf(0.01), mp.mpf(order) / (2 * mp.mpf(sigma) ** 2)
    found = ts.gaussian(sigma=sigma).sampled(rate=0.01).renyi(order=order)
    lowest = plain + mp.mpf(order) / (order - 1) * mp.log(rate)
    norm = mp.mpf(order) / (order - 1) * mp.log(1 - rate + rate * mp.exp((order - 1) * plain / order))
    assert max(lowest, 0) * (1 - mp.mpf(1e-13)) <= found <= norm * (1 + mp.mpf(1e-9)) + mp.mpf(1e-12)


@pytest.mark.parametrize(("scale", "count"), [(1e-5, 2), (1e-6, 5), (1e-4, 3), (1e-6, 2)])
def test_few_steps_of_little_laplace_noise(scale: float, count: int) -> None:
    """The atom of 2^-count at the largest loss alone gives this much."""
    top = count * (1 / Fraction(scale))
    least = mp.mpf(top.numerator) / top.denominator + mp.log(1 - mp.mpf(1e-5) * 2**count)
    found = (count * ts.laplace(scale=scale)).epsilon_bounds(delta=1e-5)
    assert least <= found.upper <= top * (1 + Fraction(1, 10**14))
    assert found.lower <= found.upper


@pytest.mark.parametrize("sigma", [1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 1.0])
@pytest.mark.parametrize("rate", [1e-9, 0.5, 1 - 1e-12])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1.0, 30.0])
def test_one_sampled_gaussian_of_any_size(sigma: float, rate: float, epsilon: float) -> None:
    """delta(e) = q delta_0(log(1 + (e^e - 1)/q)) removing, and the mirror image adding."""
    mu, q, e = 1 / mp.mpf(sigma), mp.mpf(rate), mp.mpf(epsilon)

    def plain(x: mp.mpf) -> mp.mpf:
        return phi(mu / 2 - x / mu) - mp.exp(x) * phi(-mu / 2 - x / mu)

    removing = q * plain(mp.log(1 + mp.expm1(e) / q))
    inner = mp.exp(-e) - (1 - q)
    # H_a(Q||P') = 1 - a + a H_{1/a}(P'||Q), and H_b(P'||Q) = q H_{(b - 1 + q)/q}(P||Q) where that level is positive.
    adding = 1 - mp.exp(e) + mp.exp(e) * q * plain(mp.log(inner / q)) if inner > 0 else mp.mpf(0)
    truth = max(removing, adding, mp.mpf(0))
    found = ts.gaussian(sigma=sigma).sampled(rate=rate).delta_bounds(epsilon=epsilon)
    assert found.lower <= truth + mp.mpf(1e-300)
    assert truth * (1 - mp.mpf(1e-25)) <= found.upper <= truth * (1 + mp.mpf(1e-4)) + mp.mpf(1e-300)


@pytest.mark.parametrize("rate", [1 - 1e-12, 1 - 1e-15, 0.5, 1e-12, 1e-300])
@pytest.mark.parametrize("epsilon", [0.0, 1e-13, 0.3, 20.0, 28.0])
def test_sampling_a_very_unequal_pair(rate: float, epsilon: float) -> None:
    """Both directions in exact arithmetic: the masses are rational, only e^epsilon is not."""
    p, q = [0.75, 0.25 - 2.0**-50, 2.0**-50], [2.0**-52, 0.25, 0.75 - 2.0**-52]
    rational = [[Fraction(x) for x in side] for side in (p, q)]
    assert sum(rational[0]) == sum(rational[1]) == 1
    mixture = [Fraction(rate) * a + (1 - Fraction(rate)) * b for a, b in zip(*rational, strict=True)]
    with mp.workdps(700):
        power = mp.exp(mp.mpf(epsilon))
        level = Fraction(int(power * 2**2000), 2**2000)

    def hockey(first: list[Fraction], second: list[Fraction]) -> mp.mpf:
        total = sum((max(a - level * b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))
        return mp.mpf(total.numerator) / total.denominator

    truth = max(hockey(mixture, rational[1]), hockey(rational[1], mixture))
    found = ts.discrete_pair(p, q).sampled(rate=rate).delta_bounds(epsilon=epsilon)
    assert found.lower <= truth <= found.upper <= truth * (1 + mp.mpf(1e-6)) + mp.mpf(1e-13)


def exactly_lost(delta: float, count: int) -> Fraction:
    return 1 - (1 - Fraction(delta)) ** count


@pytest.mark.parametrize(
    ("delta", "count"), [(7.482151860811336e-07, 3), (0.22442526991137884, 1), (0.3, 7), (1e-9, 40)]
)
def test_the_edge_of_the_mass_at_infinity(delta: float, count: int) -> None:
    loss = count * ts.approx_dp(epsilon=0.5, delta=delta)
    middle = float(exactly_lost(delta, count))
    for step in range(-3, 4):
        probe = middle
        for _ in range(abs(step)):
            probe = math.nextafter(probe, math.inf if step > 0 else -math.inf)
        finite = Fraction(probe) >= exactly_lost(delta, count)
        assert math.isfinite(loss.epsilon(delta=probe)) == finite
        bounds = loss.epsilon_bounds(delta=probe)
        assert bounds.lower <= count * 0.5 or not finite
        if finite:
            assert bounds.upper == count * 0.5


def test_the_edge_where_fractions_would_be_huge() -> None:
    loss = 10**9 * ts.approx_dp(epsilon=1e-9, delta=1e-12)
    truth = 1 - (1 - mp.mpf(1e-12)) ** (10**9)
    for probe in (math.nextafter(float(truth), 0.0), float(truth), math.nextafter(float(truth), 1.0)):
        assert math.isfinite(loss.epsilon(delta=probe)) == (mp.mpf(probe) >= truth)


@pytest.mark.parametrize("scale", [3.0, 7.0, 0.1, 1e-3, 49.0, 1e9])
@pytest.mark.parametrize("count", [1, 3, 1000, 10**9])
def test_the_largest_loss_is_rounded_up(scale: float, count: int) -> None:
    found = (count * ts.laplace(scale=scale)).epsilon(delta=0)
    truth = count / Fraction(scale)
    assert truth <= Fraction(found) <= truth * (1 + Fraction(1, 10**15))
    discrete = (count * ts.discrete_laplace(scale=scale, sensitivity=3)).epsilon(delta=0)
    assert 3 * truth <= Fraction(discrete) <= 3 * truth * (1 + Fraction(1, 10**14))
    pure = (count * ts.pure_dp(epsilon=scale)).epsilon(delta=0) if scale < 100 else 0.0
    assert scale >= 100 or count * Fraction(scale) <= Fraction(pure) <= count * Fraction(scale) * (
        1 + Fraction(1, 2**52)
    )


def test_sampled_largest_loss_is_rounded_up() -> None:
    for rate in (0.1, 0.3, 1e-9, 1 - 1e-12):
        found = ts.laplace(scale=0.7).sampled(rate=rate).epsilon(delta=0)
        truth = mp.log(1 + mp.mpf(rate) * mp.expm1(1 / mp.mpf(0.7)))
        assert truth <= found <= truth * (1 + mp.mpf(1e-13))


def test_everyone_takes_part_and_batches_are_cut() -> None:
    cut = ts.gaussian(sigma=1).sampled(rate=1.0, largest=10, population=100, cut="anyhow")
    assert cut.delta(epsilon=1.0) == 1.0
    assert ts.gaussian(sigma=1).sampled(rate=1.0, largest=100, population=100, cut="anyhow").delta(epsilon=1.0) < 0.13


ANSWERS = {"epsilon": 3, "choices": 5, "adjacency": "add_remove"}


@pytest.mark.parametrize(
    "read",
    [
        lambda: ts.gaussian(sigma=1e-6).sampled(rate=0.5).epsilon_bounds(delta=1e-300),
        lambda: (ts.exponential(epsilon=1) + ts.exponential(epsilon=2)).delta(epsilon=3),
        lambda: (ts.exponential(epsilon=1) + ts.exponential(epsilon=2)).delta(epsilon=2.5),
        lambda: ts.randomized_response(epsilon=1, adjacency="add_remove").allocated(steps=2).delta(epsilon=0.3),
        lambda: ts.randomized_response(**ANSWERS).allocated(steps=7).delta(epsilon=1),
        lambda: (5 * ts.laplace(scale=1e-6)).epsilon(delta=1e-5),
    ],
)  # fmt: skip
def test_answers_in_five_seconds(read) -> None:
    clock = Clock()
    read()
    assert clock.seconds < 5.0


@pytest.mark.parametrize("steps", [2, 3, 9])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3, 0.9])
def test_random_allocation_of_two_answers(steps: int, epsilon: float) -> None:
    """The mean of the ratios of ``steps`` coins, every outcome listed in 40 digits."""
    strength = mp.mpf(1)
    truth, lie = 1 / (1 + mp.exp(-strength)), 1 / (1 + mp.exp(strength))
    level, removing, adding = mp.exp(mp.mpf(epsilon)), mp.mpf(0), mp.mpf(0)
    for ups in range(steps + 1):
        mass = mp.binomial(steps, ups) * lie**ups * truth ** (steps - ups)
        mean = (ups * mp.exp(strength) + (steps - ups) * mp.exp(-strength)) / steps
        removing += mass * max(mean - level, 0)
        adding += mass * max(1 - level * mean, 0)
    loss = ts.randomized_response(epsilon=1.0, adjacency="add_remove").allocated(steps=steps)
    found = loss.delta_bounds(epsilon=epsilon)
    assert found.lower <= max(removing, adding) <= found.upper
    assert found.upper - found.lower <= mp.mpf(1e-10)


def test_a_tiny_mass_at_infinity_is_not_dust() -> None:
    pair = ts.discrete_pair([0.796875, 0.140625, 0.0625, 1e-300], [0.015625, 0.34375, 0.640625, 0.0])
    assert pair.sampled(rate=0.25).renyi(order=3.0) == math.inf
    assert pair.sampled(rate=0.25).kl() == math.inf


def test_the_largest_loss_after_sampling_is_rounded_up() -> None:
    found = ts.approx_dp(epsilon=0.215457224471649, delta=0.125).sampled(rate=0.5).epsilon(delta=0.0625)
    assert mp.log(1 + mp.expm1(mp.mpf(0.215457224471649)) / 2) <= found < 0.1135201499166


def test_masses_at_infinity_add_upwards() -> None:
    found = (ts.zcdp(rho=0.0017473962409987572, delta=0.3) + ts.approx_dp(epsilon=0.5, delta=1e-05)).delta(epsilon=1.0)
    assert Fraction(found) >= 1 - (1 - Fraction(0.3)) * (1 - Fraction(1e-05))


def test_bounds_do_not_underflow_to_nothing() -> None:
    assert ts.zcdp(rho=0.0228).delta(epsilon=800.0) > 0.0
    assert ts.renyi_dp({16.0: 0.858}).delta(epsilon=800.0) > 0.0
    assert ts.discrete_gaussian(sigma=1).delta(epsilon=1e4) > 0.0


def test_a_mechanism_that_loses_everything_is_read() -> None:
    """Every batch is cut, so nothing is promised; the products used to take the logarithm of zero."""
    steps = ts.from_profile([(0.0, 0.25), (1.0, 0.03125)]).sampled(
        rate=1 - 1e-12, largest=26, population=100, cut="anyhow"
    )
    assert (3 * steps).epsilon(delta=1e-3) == math.inf
    assert (3 * steps).delta(epsilon=2.0) == 1.0


def test_a_point_just_below_the_end_of_the_circle() -> None:
    """A remainder that rounds to one fell off the grid of the transform."""
    steps = 13 * ts.gaussian(sigma=0.11319268818188417).sampled(rate=5.449893831193431e-11)
    found = steps.delta_bounds(epsilon=1e-9)
    assert found.lower <= found.upper <= 13 * 5.449893831193431e-11 * (1 + 1e-9)


def test_shares_of_a_grid_cell_are_not_negative() -> None:
    rare = ts.pure_dp(epsilon=1.125757492005643, adjacency="replace").subset(batch=6, population=1000)
    whole = 3405 * rare + ts.approx_dp(epsilon=25.73857680010305, delta=6.5532777995236215e-245, adjacency="replace")
    assert whole.epsilon(delta=1 - 1e-15) >= 0.0


def test_renyi_of_a_sampled_curve_is_no_less_than_of_a_gaussian_with_that_curve() -> None:
    """By Jensen at least q^order times the unsampled moment (order * rho unsampled)."""
    found = ts.zcdp(rho=2.3732035432802876).sampled(rate=0.01).renyi(order=30.0)
    assert 30 * mp.mpf(2.3732035432802876) + mp.mpf(30) / 29 * mp.log(mp.mpf(0.01)) <= found < 66.5
    beyond = ts.renyi_dp({1.5: 2.25, 32.0: 48.0}).sampled(rate=0.001).renyi(order=100.0)
    assert beyond == math.inf


def test_what_rounding_leaves_of_nothing_is_no_lower_bound() -> None:
    loss = ts.zcdp(rho=0.0, delta=1e-05, offset=0.32703389077665) + ts.pure_dp(epsilon=2.0)
    assert loss.delta_bounds(epsilon=2.3247068568858733).lower == 0.0


@pytest.mark.filterwarnings("error")
def test_losses_whose_tilts_are_no_numbers_are_left_to_the_next_route() -> None:
    loss = 10 * ts.gaussian(sigma=1e-05).sampled(rate=0.023261012875318638)
    assert 1 - (1 - 0.023261012875318638) ** 10 <= loss.delta(epsilon=0.0) <= 0.2327


@pytest.mark.parametrize(
    ("loss", "truth"),
    [(ts.gaussian(sigma=1), 39.09), (2000 * ts.randomized_response(epsilon=0.1), 168.1)],
)
def test_lower_ends_at_a_delta_that_has_lost_its_digits(loss, truth):
    """The least float is no longer 4.94e-324 to the engines: lower ends were above the truth, and one was NaN."""
    for delta in (5e-324, 1e-320, 1e-310):
        assert loss.epsilon_bounds(delta=delta).lower < truth
    found = (5 * ts.gaussian(sigma=1).sampled(rate=0.1)).epsilon_bounds(delta=5e-324)
    assert 0.0 < found.lower < found.upper < 92.0


def test_masses_that_give_everything_away_are_added_up_and_not_to_the_nearest() -> None:
    """A mass of 1e-18 beside 3/32 vanished in the sum, and with it the truth that epsilon is infinite."""
    pair = ts.discrete_pair([0.109375, 0.09375, 0.546875, 0.25, 1e-18], [0.171875, 0.0, 0.234375, 0.59375, 0.0])
    other = ts.discrete_pair([0.171875, 0.671875, 0.15625], [0.78125, 0.203125, 0.015625])
    for loss in (pair, ts.worst(pair, other)):
        assert math.isinf(loss.epsilon(delta=0.09375))
        assert math.isfinite(loss.epsilon(delta=math.nextafter(0.09375, 1.0)))


@pytest.mark.parametrize("beside", [ts.gaussian(sigma=1), ts.gaussian(sigma=3) + ts.laplace(scale=1.3)])
def test_a_lower_end_takes_the_mass_at_infinity_rounded_down(beside: ts.PrivacyLoss) -> None:
    """Far out nothing else is left of delta, and a few units too many were above it."""
    for delta in (0.0004021099314647685, 0.03, 1e-6, 0.07, 0.0123):
        given = 1 - (1 - Fraction(delta)) ** 7
        bounds = (7 * ts.approx_dp(epsilon=0.1, delta=delta) + beside).delta_bounds(epsilon=60.0)
        assert bounds.lower <= given <= bounds.upper
        assert bounds.lower >= given * (1 - Fraction(1, 10**12))


def _mixed(epsilon: float, rate: float) -> float:
    return math.log1p(rate * math.expm1(epsilon))


PAIR = ts.discrete_pair([0.625, 0.375], [0.5, 0.5])
NEAR = ts.discrete_pair([0.5 + 2**-45, 0.5 - 2**-45], [0.5, 0.5])
LARGEST = {
    "a sampled sum": ((2 * ts.pure_dp(epsilon=0.1)).sampled(rate=0.5), _mixed(0.2, 0.5)),
    "of pairs": ((2 * PAIR).sampled(rate=0.125), 0.067950661908507749),  # adding: 1/(1 - q + q (3/4)^2)
    "of next to nothing": (
        (2 * ts.discrete_pair([0.5 + 2**-45, 0.5 - 2**-45], [0.5, 0.5])).sampled(rate=0.125),
        1.4210854715202304e-14,
    ),
    "three of them": (3 * (2 * ts.pure_dp(epsilon=0.1)).sampled(rate=0.5), 3 * _mixed(0.2, 0.5)),
    "and another": ((2 * ts.pure_dp(epsilon=0.1)).sampled(rate=0.5) + ts.laplace(scale=10), _mixed(0.2, 0.5) + 0.1),
    "of noise": ((2 * ts.laplace(scale=3)).sampled(rate=0.1), _mixed(2 / 3, 0.1)),
    "of choices": ((2 * ts.exponential(epsilon=1)).sampled(rate=0.2), _mixed(2, 0.2)),
    "twice": ((2 * ts.pure_dp(epsilon=0.1)).sampled(rate=0.5).sampled(rate=0.9), _mixed(0.2, 0.45)),
    "the worst": (ts.worst(ts.pure_dp(epsilon=0.1), ts.laplace(scale=20)).sampled(rate=0.99), _mixed(0.1, 0.99)),
    "cut": ((2 * ts.pure_dp(epsilon=0.1)).sampled(rate=0.9, largest=6, population=10, cut="ranked"), 0.2),
}


@pytest.mark.parametrize("name", share(LARGEST, 2))
def test_a_bound_on_losses_is_no_loss_to_a_rigorous_lower_end(name: str) -> None:
    """At delta 0 it was -log(1 - rate), what no loss of a sample is above when adding: 4.6 for 0.099."""
    loss, truth = LARGEST[name]
    found = loss.epsilon_bounds(delta=0, rigorous=True)
    assert found.lower <= truth * (1 + 1e-12) + 1e-16
    assert found.upper >= loss.epsilon_bounds(delta=0).lower
    assert max(truth * (1 - 1e-12), found.lower) <= loss.epsilon(delta=0)


def test_rigorous_lower_ends_at_delta_zero_are_what_losses_reach() -> None:
    assert math.isinf(ts.gaussian(sigma=1).sampled(rate=0.1).epsilon_bounds(delta=0, rigorous=True).lower)
    assert math.isinf(ts.discrete_gaussian(sigma=2).epsilon_bounds(delta=0, rigorous=True).lower)
    tight = (2 * PAIR).sampled(rate=0.125).epsilon_bounds(delta=0, rigorous=True)
    assert tight.upper - tight.lower < 1e-16
    assert tight.lower <= 0.067950661908507749 <= tight.upper


@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("delta", [5e-324, 1e-322])
def test_a_search_below_the_least_delta_with_digits_ends_on_its_own_side(sigma: float, delta: float) -> None:
    """The lower end of epsilon was 25,000 for 5,000, and two routes excluded each other."""
    noise = ts.discrete_gaussian(sigma=sigma)
    largest = 1 + math.floor(sigma * 38.6)  # the farthest outcome whose mass is a double
    most = (2 * largest - 1) / (2 * sigma * sigma)
    for loss, times in ((noise, 1), (2 * noise, 2), (noise + ts.pure_dp(epsilon=1), 1), (noise.sampled(rate=0.1), 1)):
        found = loss.epsilon_bounds(delta=delta)
        assert found.lower <= times * most + 1.0
        assert found.lower <= found.upper


@pytest.mark.parametrize("orders", [{1.000000001: 0.1}, {1.000000001: 0.0}, {1 + 2.3e-16: 1e-300}])
def test_a_curve_at_an_order_next_to_one_is_read(orders: dict[float, float]) -> None:
    curve = ts.renyi_dp(orders)
    for loss in (curve, 2 * curve, curve + ts.pure_dp(epsilon=1)):
        assert math.isinf(loss.epsilon(delta=0))
        assert 0.0 < loss.epsilon(delta=1e-5) < math.inf
        assert loss.posterior(prior=0.1) == 1.0


@pytest.mark.parametrize("value", [Fraction(1, 3), 2**53 + 1, Fraction(1, 10)])
def test_a_number_that_no_double_holds_is_not_rounded_to_the_nearest(value: Fraction) -> None:
    """pure_dp(epsilon=Fraction(1, 3)) had an epsilon below a third, and proved it."""
    with pytest.raises(ts.errors.InvalidInput, match="double"):
        ts.laplace(scale=value)
    if value < 1:
        with pytest.raises(ts.errors.InvalidInput, match="double"):
            ts.pure_dp(epsilon=value)
        with pytest.raises(ts.errors.InvalidInput, match="double"):
            ts.gaussian(sigma=1).epsilon(delta=value)
    assert ts.pure_dp(epsilon=Fraction(3, 4)).epsilon(delta=Fraction(0)) == 0.75


@pytest.mark.parametrize("wrong", ["0.3", True, ["0.3"], [True], None, 0.3j])
def test_read_outs_take_numbers_as_constructors_do(wrong: object) -> None:
    loss = ts.gaussian(sigma=1)
    for name, given in (("epsilon", "delta"), ("delta", "epsilon"), ("tradeoff", "alpha"), ("power", "alpha")):
        with pytest.raises(ts.errors.InvalidInput):
            getattr(loss, name)(**{given: wrong})
    with pytest.raises(ts.errors.InvalidInput):
        loss.privacy_loss().cdf(wrong)


def test_masses_of_a_law_that_bounds_are_not_taken_for_one_below_a_loss_of_zero() -> None:
    """0.3045608181969 for 0.3045608181984: beside another release levels below zero are asked of it."""
    loss = ts.objective_perturbation(sigma=1e9, ridge=1000.0) + ts.approx_dp(epsilon=0.5, delta=0.125)
    assert 0.30456081819839988997 <= loss.delta(epsilon=0.1, direction="add") <= 0.3045608184


def test_a_sampled_pair_of_equals_has_a_rigorous_read_out() -> None:
    """Its lattice had a step of zero."""
    same = ts.discrete_pair([0.5, 0.5], [0.5, 0.5]).sampled(rate=0.5)
    assert same.epsilon_bounds(delta=0.1, rigorous=True).upper == 0.0
    found = (ts.pure_dp(epsilon=1) + same).delta_bounds(epsilon=0.1, rigorous=True)
    assert found.lower <= ts.pure_dp(epsilon=1).delta(epsilon=0.1)
    assert found.upper >= ts.pure_dp(epsilon=1).delta_bounds(epsilon=0.1).lower


@pytest.mark.filterwarnings("error")
def test_sums_of_gaussians_whose_squares_are_no_doubles_have_a_mu() -> None:
    loss = (2 * ts.gdp(mu=1e-300)).sampled(rate=0.5)
    assert loss.delta(epsilon=0) >= 0.5 * math.sqrt(2) * 1e-300 / math.sqrt(2 * math.pi) * 0.999999
    assert loss.delta(epsilon=-1e-9, direction="remove") >= 9.99999999e-10


def test_long_doubles_are_not_rounded_past_a_knife_edge() -> None:
    delta = np.longdouble(0.5) - np.longdouble(2) ** -60
    if delta != 0.5:  # where there are such
        with pytest.raises(ts.errors.InvalidInput, match="double"):
            ts.approx_dp(epsilon=1, delta=0.5).epsilon(delta=delta)


def listed(pair: tuple[list[float], list[float]], count: int, epsilon: float) -> mp.mpf:
    """The larger delta of both orders of ``count`` draws of two outcomes, listed in 60 digits."""
    with mp.workdps(60):
        (p0, p1), (q0, q1) = ([mp.mpf(x) for x in side] for side in pair)
        sums = []
        for (a0, a1), (b0, b1) in (((p0, p1), (q0, q1)), ((q0, q1), (p0, p1))):
            rows = (mp.binomial(count, k) for k in range(count + 1))
            parts = [
                c * (a0**k * a1 ** (count - k) - mp.e**epsilon * b0**k * b1 ** (count - k)) for k, c in enumerate(rows)
            ]
            sums.append(mp.fsum(part for part in parts if part > 0))
        return max(sums)


def test_masses_of_the_second_measure_are_not_those_of_the_first_less_a_huge_loss() -> None:
    """delta(22) was 1.4e-13 too low and epsilon 3.6 for 282.5: rounding of a loss of 315 sat in a mass of .76."""
    pair = ([6.872798334127222e-138, 1.0], [0.7623106363972186, 0.23768936360278137])
    loss, delta = 20 * ts.discrete_pair(*pair), 0.9999999999996
    truth = listed(pair, 20, 22.0)
    bounds = loss.delta_bounds(epsilon=22)
    assert bounds.lower <= truth <= bounds.upper
    assert truth > delta
    assert loss.epsilon(delta=delta) >= 282.524
    assert not loss <= ts.approx_dp(epsilon=22, delta=delta)
    assert loss.bayes_risk(prior=0.5) <= (1 - listed(pair, 20, 0.0)) / 2


def test_sampled_masses_keep_their_digits_beside_huge_losses() -> None:
    """4e-14 of delta too low."""
    p, q = ([8.145899263171102e-260, 1.0], [0.9995719800966808, 0.0004280199033191989])
    rate, epsilon = 1.012295323919041e-06, 8.93306233472832e-05
    loss = 60 * ts.discrete_pair(p, q).sampled(rate=rate)
    with mp.workdps(60):
        removed = [(1 - mp.mpf(rate)) * mp.mpf(y) + mp.mpf(rate) * mp.mpf(x) for x, y in zip(p, q, strict=True)]
        added = [(1 - mp.mpf(rate)) * mp.mpf(x) + mp.mpf(rate) * mp.mpf(y) for x, y in zip(q, p, strict=True)]
        sums = []
        for one, other in ((removed, q), (q, added)):
            a, b = ([mp.mpf(x) for x in side] for side in (one, other))
            parts = (
                mp.binomial(60, k) * (a[0] ** k * a[1] ** (60 - k) - mp.e**epsilon * b[0] ** k * b[1] ** (60 - k))
                for k in range(61)
            )
            sums.append(mp.fsum(part for part in parts if part > 0))
    bounds = loss.delta_bounds(epsilon=epsilon)
    assert bounds.lower <= max(sums) <= bounds.upper


def test_randomized_response_of_very_many_buckets_keeps_its_difference_when_imported() -> None:
    """epsilon 10.52 for 20.22: one less a product near one had no digits of the rest."""
    noise, buckets, count = 0.9999999999999999, 182130138, 10**9
    event = {"class_name": "RandomizedResponseDpEvent", "noise_parameter": noise, "num_buckets": buckets}
    whole = {"class_name": "SelfComposedDpEvent", "count": count, "event": event}
    loss = from_dp_accounting(whole, adjacency="replace_special")
    truth = count * mp.log1p((buckets - 1) * (1 - mp.mpf(noise)))
    assert truth <= loss.epsilon(delta=0) <= truth * (1 + mp.mpf("1e-6"))


def test_draws_with_replacement_from_a_billion_are_charged_what_their_theorem_says() -> None:
    """(1 - 1/n)^n in doubles was 2e-8 too low."""
    people = 999_999_937
    event = {
        "class_name": "SampledWithReplacementDpEvent",
        "source_dataset_size": people,
        "sample_size": people,
        "event": {"class_name": "GaussianDpEvent", "noise_multiplier": 4.0},
    }
    loss = from_dp_accounting(event, adjacency="replace")
    with mp.workdps(40):
        n = mp.mpf(people)
        stated = mp.fsum(
            mp.binomial(n, k) / n**k * (1 - 1 / n) ** (n - k) * (2 * phi(mp.mpf(k) / 4) - 1) for k in range(1, 30)
        )
    assert loss.delta(epsilon=0) >= stated * (1 - mp.mpf("1e-12"))


def test_a_positive_loss_is_never_charged_nothing() -> None:
    """epsilon^2/2 of 1e-170 is no double."""
    for loss in (ts.pure_dp(epsilon=1e-170), ts.approx_dp(epsilon=1e-200, delta=0.25)):
        assert price(loss, Filter("zcdp"), ANY_UNIT).a0 > 0


def test_a_loss_for_one_unit_is_not_compared_with_a_goal_for_another() -> None:
    goal = ts.approx_dp(epsilon=5, delta=1e-3, unit="patient")
    with pytest.raises(ts.errors.UnitMismatch, match="visit with patient"):
        assert ts.gaussian(sigma=10, unit="visit") <= goal
    with pytest.raises(ts.errors.UnitMismatch):
        ts.calibrate(lambda s: ts.gaussian(sigma=s, unit="visit"), goal)
    assert ts.gaussian(sigma=10) <= goal
    assert ts.gaussian(sigma=10, unit="patient") <= goal


@pytest.mark.parametrize(
    "loss",
    share(
        [
            (10**6 * ts.laplace(scale=1)).sampled(rate=0.01),
            (10**6 * ts.approx_dp(epsilon=0.1, delta=1e-3)).for_groups(2),
            (10**6 * ts.approx_dp(epsilon=0.1, delta=1e-3)).sampled(rate=0.01),
            (10**6 * ts.discrete_pair([0.5, 0.5, 0], [0.4, 0.595, 0.005])).as_replace(),
            ts.from_tradeoff([(0, 0), (1, 0)]),
            2 * ts.from_tradeoff([(0, 0), (1, 0)]).sampled(rate=0.1),
            ts.selected(ts.pure_dp(epsilon=1), gamma=1 - 2**-53),
            ts.selected(ts.gaussian(sigma=1), gamma=1 - 2**-52),
            ts.selected(2 * ts.pure_dp(epsilon=2), poisson=1000),
        ],
        3,
    ),
    ids=str,
)
def test_rigorous_read_outs_at_the_ends_answer_or_refuse(loss: ts.PrivacyLoss) -> None:
    """Windows of no width, a curve without a knot and ranks that run together: untyped errors and a warning."""
    clock, plain = Clock(), loss.delta_bounds(epsilon=0.1)
    try:
        found = loss.delta_bounds(epsilon=0.1, rigorous=True)
    except ts.errors.NotComputable:
        found = plain
    assert max(found.lower, plain.lower) <= min(found.upper, plain.upper)
    assert clock.seconds < 5.0


def test_an_upper_bound_one_double_below_the_largest_loss_is_not_zero() -> None:
    """The truth is 2e-341, which is no double; the largest loss had been rounded down."""
    pair = [0.2163099410058166, 0.7836900589941834], [0.47045947499070384, 0.5295405250092962]
    assert (1000 * ts.discrete_pair(*pair)).delta(epsilon=776.9975322758411) > 0


def test_what_is_not_seen_below_is_not_at_infinity() -> None:
    """cdf(1e6) was .9998 and the quantile infinite: rare large negative losses were off the grid."""
    pair = ts.discrete_pair([1e-6, 1 - 1e-6], [2e-10, 1 - 2e-10])
    variable = (10**6 * pair).privacy_loss(ts.Direction.ADD)
    assert variable.cdf(1e6) == pytest.approx(1, abs=1e-9)
    assert variable.quantile(0.9999) == pytest.approx(0.9998, abs=1e-3)
    assert variable.cdf(0.9) == pytest.approx(1 - (1 - 2e-10) ** 10**6, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "x"),
    share(
        [
            (ts.gaussian(sigma=0.38).sampled(rate=2.8e-7) + ts.pure_dp(epsilon=3.07).sampled(rate=0.0132), 0.69),
            (ts.gaussian(sigma=1000) + ts.laplace(scale=0.01), -0.9),
            (ts.laplace(scale=1e6) + ts.randomized_response(flip_prob=0.25, choices=4, adjacency="add_remove"), 0.0),
        ],
        3,
    ),
    ids=str,
)
def test_one_narrow_law_beside_a_wide_one_is_read_in_time(loss: ts.PrivacyLoss, x: float) -> None:
    clock = Clock()
    assert 0 <= loss.privacy_loss(ts.Direction.REMOVE).cdf(x) <= 1
    assert clock.seconds < 5.0  # the first case takes about 3 seconds on two cores


def test_one_release_beside_few_outcomes_has_its_own_distribution_function() -> None:
    """.2344 for .1667: losses of 1e-6 beside some of 2.2 were narrower than the step of a grid."""
    response = ts.randomized_response(flip_prob=0.25, choices=4, adjacency="add_remove")
    variable = (ts.laplace(scale=1e6) + response).privacy_loss(ts.Direction.REMOVE)
    assert variable.cdf(0.0) == pytest.approx(1 / 12 + 1 / 6 * 0.5, abs=1e-6)
    assert variable.quantile(0.1) == pytest.approx(0.0, abs=2e-6)
    assert variable.quantile(1.0) == pytest.approx(math.log(9) + 1e-6, abs=1e-9)


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1.5e-304])
def test_masses_that_were_raised_above_dust_are_nobodys_evidence(delta: float) -> None:
    """A lower end of 26.9 for 2: sampling made an atom of a mass that had been raised from 5e-324 to 2e-304."""
    loss = ts.approx_dp(epsilon=2, delta=delta).sampled(rate=0.999999999999)
    assert loss.epsilon_bounds(delta=delta).lower <= 2
    assert loss.delta_bounds(epsilon=3).lower <= delta
    pair = ts.discrete_pair([0.75, 0.25, delta, 0], [0.25, 0.75, 0, delta]).sampled(rate=0.5)
    assert pair.delta_bounds(epsilon=2).lower <= delta
    assert pair.delta(epsilon=2) >= delta / 2


def test_means_of_next_to_nothing_keep_their_digits() -> None:
    """3e-7 of itself too large: sums of losses of either sign cancel, those of L - 1 + e^-L do not."""
    scale = 6798507728.815636
    with mp.workdps(40):
        epsilon = 1 / mp.mpf(scale)
        truth = 10**9 * epsilon * mp.tanh(epsilon / 2)
    mean = (10**9 * ts.discrete_laplace(scale=scale)).privacy_loss().mean
    assert abs(mean - truth) <= 1e-12 * truth
    pair = ts.discrete_pair([0.7, 0.3, 0], [0.6, 0.3, 0.1]).privacy_loss(ts.Direction.REMOVE)
    assert pair.mean == pytest.approx(0.7 * math.log(7 / 6), rel=1e-13)
