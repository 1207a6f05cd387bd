"""The privacy-loss variable against exact enumeration, in both directions, with atoms and mass at infinity."""

from __future__ import annotations

import cmath
import itertools
import math
import random
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import tallystick as ts
from pace import Clock
from sweeps import share
from tallystick.errors import InvalidInput, NotComputable

pytestmark = pytest.mark.filterwarnings("error")

Outcomes = list[tuple[float, float]]  # (loss, mass)


def joint(pairs: list[tuple[list[float], list[float]]]) -> Outcomes:
    """Every joint outcome of independent finite pairs under P; a loss is infinite where Q has no mass."""
    found = []
    for chosen in itertools.product(*(list(zip(p, q, strict=True)) for p, q in pairs)):
        mass = math.prod(a for a, _ in chosen)
        if mass > 0.0:
            loss = math.inf if any(b == 0.0 for _, b in chosen) else math.fsum(math.log(a / b) for a, b in chosen)
            found.append((loss, mass))
    return found


def response(epsilon: float, delta: float = 0.0) -> tuple[list[float], list[float]]:
    """The pair of (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2015)."""
    lie = 1.0 / (1.0 + math.exp(epsilon))
    middle = [(1 - delta) * (1 - lie), (1 - delta) * lie]
    return [delta, *middle, 0.0], [0.0, *middle[::-1], delta]


def check(found: ts.PrivacyLoss, direction: ts.Direction, outcomes: Outcomes) -> None:
    variable = found.privacy_loss(direction)
    finite = [(loss, mass) for loss, mass in outcomes if math.isfinite(loss)]
    for x in [*(loss for loss, _ in finite), -50.0, 0.0, 0.1, 50.0]:
        truth = math.fsum(mass for loss, mass in finite if loss <= x + 1e-9)
        assert variable.cdf(x) == pytest.approx(truth, abs=1e-12)
    lost = math.fsum(mass for loss, mass in outcomes if math.isinf(loss))
    for level in (0.01, 0.3, 0.77, 0.999):
        ordered = sorted(finite)
        below = np.cumsum([mass for _, mass in ordered])
        index = int(np.searchsorted(below, level * (1 - 1e-11)))
        truth = ordered[index][0] if index < len(ordered) else math.inf
        assert variable.quantile(level) == pytest.approx(truth, abs=1e-9)
    t = 0.7
    spun = sum(mass * cmath.exp(1j * t * loss) for loss, mass in finite)
    assert variable.characteristic_function(t) == pytest.approx(spun, abs=1e-12)
    if lost:
        assert variable.mean == variable.variance == variable.quantile(1.0) == math.inf
        return
    mean = math.fsum(mass * loss for loss, mass in finite)
    assert variable.mean == pytest.approx(mean, rel=1e-10, abs=1e-12)
    assert variable.variance == pytest.approx(math.fsum(m * (x - mean) ** 2 for x, m in finite), rel=1e-10, abs=1e-12)


def test_a_sum_of_atoms_is_not_smeared() -> None:
    """P(L <= 0) = 1 - e^2/(1 + e)^2 and P(L <= 2) = 1 were read off a grid: .384 and .735."""
    found = (2 * ts.pure_dp(epsilon=1)).privacy_loss().cdf([0, 2])
    truth = 1 - (math.e / (1 + math.e)) ** 2
    assert found == pytest.approx([truth, 1.0], abs=1e-12)


@pytest.mark.parametrize("direction", list(ts.Direction))
@pytest.mark.parametrize("seed", range(12))
def test_finite_sums_against_enumeration(seed: int, direction: ts.Direction) -> None:
    draw = random.Random(seed)
    p = np.array([draw.random() for _ in range(3)])
    q = np.array([draw.random() for _ in range(3)])
    p, q = p / p.sum(), q / q.sum()
    epsilon, delta = draw.choice([0.25, 1.0]), draw.choice([0.0, 1e-3, 0.2])
    loss = 2 * ts.discrete_pair(p, q) + 3 * ts.approx_dp(epsilon=epsilon, delta=delta)
    one = (p.tolist(), q.tolist()) if direction is ts.Direction.REMOVE else (q.tolist(), p.tolist())
    check(loss, direction, joint([one] * 2 + [response(epsilon, delta)] * 3))


@pytest.mark.parametrize("direction", list(ts.Direction))
def test_a_sampled_pair_in_both_directions(direction: ts.Direction) -> None:
    p, q, rate = [0.5, 0.3, 0.2, 0.0], [0.2, 0.3, 0.4, 0.1], 0.25
    mixed = [rate * a + (1 - rate) * b for a, b in zip(p, q, strict=True)]
    pair = (mixed, q) if direction is ts.Direction.REMOVE else (q, mixed)
    check(2 * ts.discrete_pair(p, q).sampled(rate=rate), direction, joint([pair] * 2))


@pytest.mark.parametrize("mu", [1e-4, 1.0, 1e6])
def test_gaussians_are_normal(mu: float) -> None:
    variable = ts.gdp(mu=mu).privacy_loss()
    assert (variable.mean, variable.variance) == pytest.approx((mu * mu / 2, mu * mu), rel=1e-12)
    for z in (-3.0, 0.0, 1.5):
        x = mu * (mu / 2 + z)
        assert variable.cdf(x) == pytest.approx(float(mp.ncdf(z)), abs=1e-9)
        assert variable.quantile(variable.cdf(x)) == pytest.approx(x, rel=1e-6)


def test_laplace_noise_and_its_atoms() -> None:
    """L = |x| - |x - 1| under P centred at 1: P(L = 1) = 1/2, P(L = -1) = e^-1/2."""
    variable = ts.laplace(scale=1).privacy_loss()
    assert variable.cdf([-1.0, 0.0, 1.0]) == pytest.approx([math.exp(-1) / 2, math.exp(-0.5) / 2, 1.0], abs=1e-12)
    assert variable.quantile([0.0, 0.1, 0.5, 0.9, 1.0]).tolist() == [-1.0, -1.0, 1.0, 1.0, 1.0]


def test_a_smooth_sum_on_a_grid() -> None:
    """A Gaussian and Laplace noise, by quadrature over the Laplace loss."""
    variable = (ts.gaussian(sigma=2) + ts.laplace(scale=1)).privacy_loss()
    for x in (-1.0, 0.0, 0.4, 2.0):
        with mp.workdps(20):

            def below(loss: mp.mpf, x: float = x) -> mp.mpf:
                return mp.ncdf((x - loss - mp.mpf(1) / 8) * 2)

            smooth = mp.quad(lambda v: mp.e ** (-(1 - v) / 2) / 4 * below(v), [-1, 0, 1])
            truth = smooth + below(mp.mpf(1)) / 2 + below(mp.mpf(-1)) * mp.e**-1 / 2
        assert variable.cdf(x) == pytest.approx(float(truth), abs=1e-3)
    far = (ts.gaussian(sigma=1e-3) + ts.laplace(scale=1)).privacy_loss()
    assert far.cdf(5e5) == pytest.approx(0.5, abs=1e-3)


def test_hostile_losses_are_read_or_refused() -> None:
    assert ts.pure_dp(epsilon=750.0).sampled(rate=0.01).privacy_loss(ts.Direction.ADD).cdf(0.0) == 0.0
    assert ts.discrete_laplace(scale=100.0, sensitivity=100000).privacy_loss().cdf(0.0) < 1e-200
    rare = ts.discrete_pair([1 - 1e-18, 1e-18], [1, 0]).privacy_loss()
    assert rare.quantile([0.5, 1.0]).tolist() == [0.0, math.inf]
    assert rare.mean == math.inf
    assert ts.no_loss().privacy_loss().cdf([-1.0, 0.0]).tolist() == [0.0, 1.0]
    with pytest.raises(InvalidInput, match="pair is known"):
        ts.zcdp(rho=1).privacy_loss().cdf(0.0)
    with pytest.raises(InvalidInput, match="finite"):
        ts.gdp(mu=1).privacy_loss().characteristic_function(math.inf)


@pytest.mark.parametrize(("sigma", "shift"), [(5000.0, 2), (2417.19, 1), (5000.0, 10**9)])
def test_moments_of_wide_discrete_noise_are_those_of_its_linear_loss(sigma: float, shift: int) -> None:
    """Noise too wide to list was held in blocks, 1e-7 of the moments off; the loss is linear in noise of mean 0."""
    found = ts.discrete_gaussian(sigma=sigma, sensitivity=shift).privacy_loss(ts.Direction.ADD)
    exact = Fraction(shift) ** 2 / Fraction(sigma) ** 2
    assert found.mean == pytest.approx(float(exact / 2), rel=1e-14)
    assert found.variance == pytest.approx(float(exact), rel=1e-14)


def test_moments_in_closed_form_are_those_of_the_listed_points() -> None:
    sigma, shift = 3.5, 2
    weight = {k: mp.exp(-mp.mpf(k * k) / (2 * sigma * sigma)) for k in range(-200, 201)}
    norm = sum(weight.values())
    square = sum(k * k * w for k, w in weight.items()) / norm
    found = ts.discrete_gaussian(sigma=sigma, sensitivity=shift).privacy_loss()
    assert found.variance == pytest.approx(float(square * shift**2 / mp.mpf(sigma) ** 4), rel=1e-13)


@pytest.mark.parametrize("x", [-1.0, -0.3566, -0.1, 0.0, 0.235, 0.236, 0.5, 0.766, 0.767, math.inf])
def test_a_sampled_sum_has_the_distribution_of_the_mixed_outcomes(x: float) -> None:
    p, q, rate = [0.55, 0.3, 0.15, 0.0], [0.2, 0.35, 0.4, 0.05], 0.3
    outcomes = [(a * c, b * d) for (a, b), (c, d) in itertools.product(zip(p, q, strict=True), repeat=2)]
    mixed = [(rate * a + (1 - rate) * b, b) for a, b in outcomes]
    loss = (2 * ts.discrete_pair(p, q)).sampled(rate=rate)
    truth = math.fsum(a for a, b in mixed if math.log(a / b) <= x)
    mirrored = math.fsum(b for a, b in mixed if math.log(b / a) <= x)
    assert loss.privacy_loss(ts.Direction.REMOVE).cdf(x) == pytest.approx(truth, abs=1e-12)
    assert loss.privacy_loss(ts.Direction.ADD).cdf(x) == pytest.approx(mirrored, abs=1e-12)


def test_a_sampled_sum_of_laplace_noise_is_as_good_as_the_sum() -> None:
    """.3071 when it was held at knots; the truth is the referee's, by quadrature with 20 digits."""
    loss = (2 * ts.laplace(scale=0.5)).sampled(rate=0.5)
    assert loss.privacy_loss(ts.Direction.ADD).cdf(0.5) == pytest.approx(0.30982894103407391489, abs=1e-4)
    # The loss is 0 where both noises are above 1 or below 0, one each: an atom.
    jump = loss.privacy_loss(ts.Direction.REMOVE).cdf([-1e-9, 0.0])
    assert jump[1] - jump[0] == pytest.approx(0.5 * math.exp(-2.0), abs=2e-4)
    assert loss.privacy_loss(ts.Direction.ADD).quantile(0.30982894103407391489) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "loss",
    [
        (2 * ts.discrete_gaussian(sigma=0.5, sensitivity=2)).sampled(rate=0.999999),
        (ts.laplace(scale=1) + ts.gaussian(sigma=1)).sampled(rate=0.1).as_replace(),
        ts.worst(ts.gaussian(sigma=1), ts.laplace(scale=1)) + ts.gaussian(sigma=1),
    ],
)
def test_moments_that_are_known_at_knots_only_are_refused(loss: ts.PrivacyLoss) -> None:
    """The first had an infinite mean where 16 is true, and a characteristic function off by 0.03."""
    variable = loss.privacy_loss(ts.Direction.REMOVE)
    for read in (lambda: variable.mean, lambda: variable.variance, lambda: variable.characteristic_function(0.5)):
        with pytest.raises(NotComputable, match="moments"):
            read()


def test_moments_of_narrow_noise_with_a_huge_shift_do_not_cancel() -> None:
    """The variance was that of rounded losses of 5e18, a part in 10^8 off; the noise itself has few points."""
    mp.mp.dps = 40
    weights = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * mp.mpf(0.3) ** 2)) for x in range(-20, 21)}
    second = mp.fsum(w * x * x for x, w in weights.items()) / mp.fsum(weights.values())
    truth = mp.mpf(10) ** 9 * (mp.mpf(10) ** 9 / mp.mpf(0.3) ** 2) ** 2 * second
    found = (10**9 * ts.discrete_gaussian(sigma=0.3, sensitivity=10**9)).privacy_loss(ts.Direction.REMOVE)
    assert found.variance == pytest.approx(float(truth), rel=1e-13)


def test_a_narrow_smooth_part_beside_atoms_keeps_the_distribution_function_in_its_stated_error() -> None:
    # found by the referee: the grid was as fine as the whole is wide, and four times the stated error off
    mixture = ts.gaussian_mixture(sigma=8.986861906385938, sensitivities=[1.0, 2.0], probabilities=[0.0625, 0.9375])
    loss = mixture + ts.randomized_response(flip_prob=0.125, choices=2, adjacency="add_remove")
    assert loss.privacy_loss(ts.Direction.REMOVE).cdf(2.0) == pytest.approx(0.61281781909326, abs=1e-4)


def test_no_grid_is_made_for_dust() -> None:
    """Sixty deviations of a law that is all but one point took fifty seconds; the sign is that of the answer."""
    mixture = ts.gaussian_mixture(sigma=1e6, sensitivities=[1e-8, 7.9e7], probabilities=[0.71875, 0.28125])
    variable = (mixture + ts.pure_dp(epsilon=0.847)).privacy_loss(ts.Direction.ADD)
    clock = Clock()
    assert variable.cdf(0.0) == pytest.approx(1 / (1 + math.exp(0.847)), abs=1e-10)
    assert variable.cdf(1.2) == pytest.approx(1.0, abs=1e-10)
    assert clock.seconds < 5.0


def test_huge_losses_do_not_blur_those_near_zero():
    """Rounding of losses of 5e17, some 1,800, was allowed for everywhere: the cdf at -1 was 0.75 for 0."""
    loss = ts.discrete_gaussian(sigma=1.0, sensitivity=10**9).sampled(rate=0.25)
    variable = loss.privacy_loss(ts.Direction.REMOVE)
    assert [round(variable.cdf(x), 6) for x in (-1.0, -0.3, math.log(0.75), 0.0, 1e9, 1e18)] == [
        0,
        0,
        0.75,
        0.75,
        0.75,
        1,
    ]


def test_losses_that_differ_in_their_last_digits_alone_have_a_distribution() -> None:
    """Without the unit nearly every result says so: the loss of a sample is then -log(1 - rate), ten times."""
    found = (10 * ts.gdp(mu=100).sampled(rate=0.5)).privacy_loss(ts.Direction.ADD)
    at = 10 * math.log(2)
    assert found.cdf([at - 1e-6, at + 1e-6]).tolist() == pytest.approx([0, 1], abs=1e-4)
    assert found.quantile([0.001, 0.5, 0.999]).tolist() == pytest.approx([at] * 3, abs=1e-6)


@pytest.mark.parametrize(
    ("loss", "direction", "truth"),
    share(
        [
            (
                2
                * ts.gaussian_mixture(
                    sigma=1.0, sensitivities=[0.0, 1e-10, 1.0], probabilities=[0.25, 0.203125, 0.546875]
                ),
                ts.Direction.REMOVE,
                0.407447,
            ),
            (
                2
                * ts.gaussian_mixture(
                    sigma=2.0, sensitivities=[0.0, 0.5, 1.0, 1.5], probabilities=[0.09375, 0.34375, 0.203125, 0.359375]
                ).sampled(rate=0.010318674391733876),
                ts.Direction.ADD,
                0.4093263,
            ),
        ],
        2,
    ),
    ids=share(["a mixture", "sampled"], 2),
)
def test_half_a_step_of_a_steep_sum_is_not_counted_twice(
    loss: ts.PrivacyLoss, direction: ts.Direction, truth: float
) -> None:
    """Half of what a grid point stands for is beyond it: where losses crowd that was more than 1e-4."""
    assert loss.privacy_loss(direction).cdf(0.0) == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("mu", share([0.3, 1.5], 2))
def test_between_grid_points_a_distribution_function_grows(mu: float) -> None:
    """Two sampled Gaussian releases against quadrature over the first; the steps of the grid were up to 1e-4 high."""
    rate = 0.25
    variable = (2 * ts.gdp(mu=mu).sampled(rate=rate)).privacy_loss(ts.Direction.ADD)

    def loss(x: mp.mpf) -> mp.mpf:
        return -mp.log(1 - rate + rate * mp.e ** (mu * x - mu * mu / 2))

    def least(level: mp.mpf) -> mp.mpf:
        """The noise from which on one loss is at most this."""
        ratio = (mp.e**-level - 1 + rate) / rate
        return -mp.inf if ratio <= 0 else (mp.log(ratio) + mu * mu / 2) / mu

    for x in (0.01, 0.1, 0.2345):
        truth = mp.quad(lambda z, x=x: mp.npdf(z) * mp.ncdf(-least(x - loss(z))), mp.linspace(-9, 9, 25))
        assert variable.cdf(x) == pytest.approx(float(truth), abs=2e-6)


def test_an_atom_between_smooth_losses_is_counted_whole() -> None:
    """Two losses of Laplace noise: P(both are 1) = 1/4, and just below 2 there is next to nothing else."""
    variable = (2 * ts.laplace(scale=1)).privacy_loss()
    just, at = variable.cdf([2.0 - 1e-9, 2.0])
    assert at == pytest.approx(1.0, abs=1e-9)
    assert just == pytest.approx(0.75, abs=1e-6)


LONG = ts.gaussian_mixture(sigma=2, sensitivities=[0, 0.5, 1, 1.5], probabilities=[0.3125, 0.0625, 0.171875, 0.453125])


@pytest.mark.parametrize(
    ("count", "x", "truth", "near"),
    [(1000, 100.0, 0.49849966, 1e-7), (10**5, 1e4, 0.47165868, 1e-7), (10**6, 1e5, 0.410677, 1e-6)],
)
def test_a_long_sum_is_not_moved_by_its_grid(count: int, x: float, truth: float, near: float) -> None:
    """The median of 10^9 releases was 12.8 times too large: each was rounded to a step wider than its losses.

    The truths are the referee's, from contours of the moment generating function.
    """
    assert (count * LONG).privacy_loss(ts.Direction.REMOVE).cdf(x) == pytest.approx(truth, abs=near)


@pytest.mark.parametrize("direction", list(ts.Direction))
@pytest.mark.parametrize("one", [LONG, ts.laplace(scale=1), ts.discrete_pair([0.2, 0.3, 0.5], [0.25, 0.35, 0.4])])
def test_very_long_sums_are_normal(one: ts.PrivacyLoss, direction: ts.Direction) -> None:
    loss = (10**8 * one).privacy_loss(direction)
    deviation = math.sqrt(loss.variance)
    for level, place in ((0.01, -2.326348), (0.5, 0.0), (0.9, 1.281552)):
        assert loss.quantile(level) == pytest.approx(loss.mean + place * deviation, abs=1e-3 * deviation)
        assert loss.cdf(loss.mean + place * deviation) == pytest.approx(level, abs=1e-3)
    assert loss.cdf(loss.mean - 30 * deviation) == 0.0
    assert loss.cdf(loss.mean + 30 * deviation) == 1.0
    assert loss.quantile(0.0) == -math.inf or loss.quantile(0.0) <= loss.mean


def test_a_long_sum_with_mass_at_infinity_has_its_finite_part_alone() -> None:
    loss = (10**6 * (ts.laplace(scale=1) + ts.approx_dp(epsilon=0.1, delta=1e-7))).privacy_loss()
    finite = (1 - 1e-7) ** 10**6
    assert loss.cdf(1e9) == pytest.approx(finite, abs=1e-9)
    assert loss.quantile(0.95) == math.inf
    assert loss.quantile(0.5) < math.inf


def test_rare_large_losses_are_not_folded_back_into_a_long_sum() -> None:
    """One of a thousand sums has a jump of a hundred deviations: waves of forty of them would bring it back."""
    loss = 10**6 * ts.gaussian(sigma=0.2).sampled(rate=1e-9) + ts.gaussian(sigma=147.0)
    assert loss.privacy_loss(ts.Direction.REMOVE)._waves is None
