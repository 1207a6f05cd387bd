"""The order of losses, goals of every kind, the smallest Gaussian: against enumeration and 40-digit arithmetic."""

from __future__ import annotations

import math
import random

import mpmath as mp
import numpy as np
import pytest

import tallystick as ts
from pace import Clock
from sweeps import share
from tallystick.errors import InvalidInput

pytestmark = pytest.mark.filterwarnings("error")


def dominated(p: np.ndarray, q: np.ndarray, r: np.ndarray, s: np.ndarray) -> bool:
    """H(p||q) <= H(r||s) at every level, from the definition: at every ratio that occurs in either pair, and ends."""
    levels = [0.0, *(a / b for a, b in zip([*p, *r], [*q, *s], strict=True) if b > 0.0), 1e12]
    return all(
        np.maximum(p - level * q, 0.0).sum() <= np.maximum(r - level * s, 0.0).sum() * (1 + 1e-13) + 1e-15
        for level in levels
    )


def products(p: np.ndarray, q: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.ones(1), np.ones(1)
    for _ in range(count):
        first, second = np.outer(first, p).ravel(), np.outer(second, q).ravel()
    return first, second


def random_pair(draw: random.Random) -> tuple[np.ndarray, np.ndarray]:
    size = draw.randint(2, 4)
    p, q = (np.array([draw.random() ** 2 for _ in range(size)]) for _ in range(2))
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("seed", range(60))
def test_a_certified_order_is_true_in_each_direction_and_survives_composition(seed: int) -> None:
    """The maximum of both directions was compared once: then a <= b did not give 2 a <= 2 b."""
    draw = random.Random(seed)
    (p, q), (r, s) = random_pair(draw), random_pair(draw)
    a, b = ts.discrete_pair(p, q), ts.discrete_pair(r, s)
    truth = dominated(p, q, r, s) and dominated(q, p, s, r)
    if a <= b:
        assert truth
        assert 3 * a <= 3 * b
        assert a + ts.laplace(scale=1) <= b + ts.laplace(scale=1)
        u, v = products(p, q, 3)
        x, y = products(r, s, 3)
        assert dominated(u, v, x, y)
        assert dominated(v, u, y, x)
    shrunk = ts.discrete_pair(0.9 * p + 0.1 * q, q)
    assert shrunk <= a


def test_directions_are_not_mixed_up() -> None:
    """The two orders of one pair have the same worse direction, and neither is below the other."""
    p, q = [0.05, 0.95], [0.3, 0.7]
    a, b = ts.discrete_pair(p, q), ts.discrete_pair(q, p)
    assert a.delta(epsilon=0.3) == pytest.approx(b.delta(epsilon=0.3))
    assert not a <= b
    assert not b <= a
    assert a <= a


def test_gaussians_are_compared_exactly() -> None:
    assert 4 * ts.gaussian(sigma=2) <= ts.gaussian(sigma=1)
    assert ts.gaussian(sigma=1) <= 4 * ts.gaussian(sigma=2)
    assert not ts.gdp(mu=1.0000000000000002) <= ts.gaussian(sigma=1)
    assert ts.gdp(mu=0.5).for_groups(2) <= ts.gdp(mu=1)
    assert (9 * ts.gaussian(sigma=3)).gdp_bound() == 1.0


def test_concentrated_goals() -> None:
    """The supremum over orders of D/order: mu^2/2 for the Gaussian, by 40 digits for Laplace noise."""
    assert ts.gaussian(sigma=1) <= ts.zcdp(rho=0.5)
    assert not ts.gaussian(sigma=1) <= ts.zcdp(rho=0.4999999)
    assert ts.zcdp(rho=0.1) + ts.zcdp(rho=0.2, delta=1e-9) <= ts.zcdp(rho=0.3, delta=1e-9)
    assert not ts.zcdp(rho=0.1, delta=1e-9) <= ts.zcdp(rho=1)
    assert ts.gaussian(sigma=1).for_groups(3) <= ts.zcdp(rho=4.5)

    def laplace_ratio(order: mp.mpf) -> mp.mpf:
        # E[e^{(a-1) L}] of Laplace noise of scale 1, sensitivity 1 (Mironov 2017, Table II).
        value = order / (2 * order - 1) * mp.e ** (order - 1) + (order - 1) / (2 * order - 1) * mp.e ** (-order)
        return mp.log(value) / (order - 1) / order

    with mp.workdps(40):
        best = max(laplace_ratio(1 + mp.mpf(k) / 1000) for k in range(1, 6000))
    assert ts.laplace(scale=1) <= ts.zcdp(rho=float(best) * 1.001)
    assert not ts.laplace(scale=1) <= ts.zcdp(rho=float(best) * 0.9999)


def test_renyi_polygon_and_profile_goals() -> None:
    assert ts.gaussian(sigma=1) <= ts.renyi_dp({2: 1.0, 10: 5.0})
    assert not ts.gaussian(sigma=1) <= ts.renyi_dp({2: 1.0, 10: 4.99})
    # randomized response of strength log 4 has the corner (.2, .2)
    corner = ts.from_tradeoff([(0, 1), (0.2, 0.2), (1, 0)])
    assert ts.laplace(scale=1 / math.log(4) + 1e-12) <= corner
    assert not ts.pure_dp(epsilon=math.log(4) + 1e-9) <= corner
    profile = ts.from_profile([(0.0, 0.4), (1.0, 0.13), (2.0, 0.03), (4.0, 1e-3)])
    assert ts.gaussian(sigma=1) <= profile  # .3829, .1269, .0209, 1e-4
    assert not ts.gaussian(sigma=0.9) <= profile


def test_calibrate_takes_every_goal_and_returns() -> None:
    assert ts.calibrate(lambda s: ts.gaussian(sigma=s), ts.zcdp(rho=0.1)) == pytest.approx(math.sqrt(5), rel=1e-6)
    corner = ts.from_tradeoff([(0, 1), (0.2, 0.2), (1, 0)])
    assert ts.calibrate(lambda s: ts.laplace(scale=s), corner) == pytest.approx(1 / math.log(4), rel=1e-6)
    profile = ts.from_profile([(0.0, 0.3), (1.0, 0.1)])
    sigma = ts.calibrate(lambda s: ts.gaussian(sigma=s), profile)
    assert ts.gaussian(sigma=sigma).delta(epsilon=0) <= 0.3
    with pytest.raises(InvalidInput, match="relative"):
        ts.calibrate(lambda s: ts.gaussian(sigma=s), profile, relative=0)
    nearest = ts.calibrate(lambda s: ts.gaussian(sigma=s), ts.zcdp(rho=0.1), relative=1e-300)
    assert ts.gaussian(sigma=nearest) <= ts.zcdp(rho=0.1)


LOSSES = {
    "pure": ts.pure_dp(epsilon=1),
    "tiny": ts.pure_dp(epsilon=1e-5),
    "laplace": ts.laplace(scale=0.7),
    "response": 40 * ts.pure_dp(epsilon=0.2),
    "sampled": 10 * ts.laplace(scale=1).sampled(rate=0.2),
    "pair": ts.discrete_pair([0.6, 0.1, 0.3], [0.3, 0.3, 0.4]),
    "group": ts.laplace(scale=2).for_groups(3),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_smallest_gaussian_is_above(name: str) -> None:
    loss = LOSSES[name]
    mu = loss.gdp_bound()
    with mp.workdps(40):
        for part in share(np.linspace(0.0, 0.999, 60).tolist(), 4):
            epsilon = part * loss.epsilon(delta=0)
            low = loss.delta_bounds(epsilon=epsilon).lower
            e, m = mp.mpf(epsilon), mp.mpf(mu)
            gaussian = mp.ncdf(m / 2 - e / m) - mp.e**e * mp.ncdf(-m / 2 - e / m)
            assert gaussian >= mp.mpf(low)
    assert mu <= 1.3 * loss.epsilon(delta=0)


def test_the_smallest_gaussian_of_huge_losses_is_finite_and_quick() -> None:
    """It overflowed. One step is 2 Phi^{-1}(1/(1 + e^-eps)), nearly 2 sqrt(2 eps); a million are 1000 times that."""
    clock = Clock()
    mu = (10**6 * ts.pure_dp(epsilon=1e6)).gdp_bound()
    assert clock.seconds < 5.0
    assert 2.8284e6 < mu < 2.8285e6
    with mp.workdps(40):
        one = ts.pure_dp(epsilon=1).gdp_bound()
        assert mp.mpf(one) >= 2 * mp.sqrt(2) * mp.erfinv(2 / (1 + mp.e**-1) - 1)


@pytest.mark.parametrize("inner", [2 * ts.renyi_dp({2.0: 0.6, 8.0: 2.4}), ts.pure_dp(epsilon=1) + ts.gaussian(sigma=1)])
def test_a_sample_of_several_releases_is_compared_and_not_refused(inner: ts.PrivacyLoss) -> None:
    """It was refused with words about tuples wherever the answer was no."""
    drawn = inner.sampled(rate=0.5)
    assert not drawn <= ts.gdp(mu=1e-3)
    assert not drawn <= ts.approx_dp(epsilon=1e-3, delta=1e-6)
    assert drawn <= inner
    assert 2 * drawn <= 2 * inner


def test_the_offset_of_a_concentrated_goal_is_not_added_to_its_rho() -> None:
    assert not ts.gaussian(sigma=0.5) <= ts.zcdp(rho=0, offset=2.0)
    assert not ts.zcdp(rho=0.3) <= ts.zcdp(rho=0.1, offset=0.2)
    assert not ts.laplace(scale=0.5) <= ts.zcdp(rho=0, offset=1.5)
    assert not 3 * ts.gaussian(sigma=1) <= ts.zcdp(rho=0.5, offset=1)
    assert not ts.gaussian(sigma=1.3) <= ts.zcdp(rho=0.05) + ts.zcdp(rho=0.05, offset=0.2)
    assert ts.zcdp(rho=0.1) <= ts.zcdp(rho=0.1, offset=0.2)
    sigma = ts.calibrate(lambda s: ts.gaussian(sigma=s), ts.zcdp(rho=0.1, offset=0.2))
    assert sigma >= math.sqrt(5) * (1 - 1e-12)
