"""One release beside listed outcomes: the truth by quadrature is inside, and no engine is contradicted."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import tallystick as ts
from sweeps import share
from tallystick.accounting import beside, routes
from tallystick.accounting.beside import Beside, Shifted
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.compose import Direct, enumerated
from tallystick.accounting.direction import OneDirection
from tallystick.numerics import panels
from tallystick.numerics.law import Law

MIXTURE = ts.gaussian_mixture(sigma=0.7, sensitivities=[0.5, 1.0, 1.5], probabilities=[0.375, 0.5, 0.125])
COIN = ts.randomized_response(epsilon=0.8, choices=2, adjacency="add_remove")
LEAKING = ts.approx_dp(epsilon=0.3, delta=1e-3)
DRAWN = ts.gaussian(sigma=1.0, adjacency="replace").subset(batch=10, population=10, replacement=True)
PAIR = ([0.5, 0.25, 0.25], [0.125, 0.25, 0.625])

LOSSES = {
    "a mixture": MIXTURE + COIN,
    "sampled": MIXTURE.sampled(rate=0.1) + COIN + ts.discrete_pair(*PAIR),
    "a sampled Gaussian": ts.gaussian(sigma=0.8).sampled(rate=0.2) + COIN,
    "atoms of its own": ts.laplace(scale=0.7) + COIN,
    "mass at infinity": MIXTURE + LEAKING,
    "huge losses": ts.gaussian_mixture(sigma=1.0, sensitivities=[1.0, 60.0], probabilities=[0.75, 0.25]) + 3 * COIN,
    "two laws": DRAWN + ts.discrete_pair(*PAIR, adjacency="replace"),
    "two laws cut": ts.gaussian(sigma=1.0).sampled(rate=0.1, largest=20, population=100, cut="ranked") + COIN,
    "two lists beside a Gaussian": (ts.laplace(scale=1) + COIN).sampled(rate=0.2) + ts.gaussian(sigma=1.5),
}


def sides(loss: ts.PrivacyLoss) -> list[OneDirection]:
    return [OneDirection(loss.terms, way) for way in ts.Direction]


@pytest.mark.parametrize("name", share(LOSSES, 4))
def test_engines_allow_what_it_says_and_are_no_narrower(name: str) -> None:
    for side in sides(LOSSES[name]):
        engines = OneDirection(side.terms, side.direction)
        engines.__dict__["beside"] = None
        assert isinstance(side.routes[-1], routes.BesideOutcomes)
        assert not any(isinstance(route, routes.BesideOutcomes) for route in engines.routes)
        for epsilon in (0.0, 2.0):
            found, other = side.delta_bounds(epsilon), engines.delta_bounds(epsilon)
            met = found.meet(other)  # raises where they exclude each other
            assert found.upper <= other.upper * (1.0 + 1e-11)
            assert met.lower >= other.lower
        delta = 2e-3
        found, other = side.epsilon_bounds(delta), engines.epsilon_bounds(delta)
        found.meet(other)
        assert found.upper <= other.upper * (1.0 + 1e-10) + 1e-12
        assert found.relative_width <= 1e-8 or not side.exact


def mixed_profile(epsilon: float, outcomes: list[tuple[float, float]]) -> float:
    """delta of MIXTURE beside these losses and masses, removing: by quadrature with 30 digits over the noise."""
    with mp.workdps(30):
        shifts = [mp.mpf(c) / mp.mpf("0.7") for c in ("0.5", "1", "1.5")]
        shares = [mp.mpf("0.375"), mp.mpf("0.5"), mp.mpf("0.125")]

        def ratio(x: mp.mpf) -> mp.mpf:
            return mp.fsum(p * mp.e ** (mu * x - mu * mu / 2) for mu, p in zip(shifts, shares, strict=True))

        total = mp.mpf(0)
        for loss, mass in outcomes:
            level = mp.e ** (mp.mpf(epsilon) - loss)
            root = mp.findroot(lambda x, level=level: mp.log(ratio(x)) - mp.log(level), mp.mpf(1))
            total += mass * mp.quad(
                lambda x, level=level: mp.npdf(x) * (ratio(x) - level), [root, root + 2, root + 6, root + 14, root + 30]
            )
        return float(total)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 9.0])
def test_the_truth_is_inside(epsilon: float) -> None:
    with mp.workdps(30):
        lie = 1 / (1 + mp.e ** mp.mpf("0.8"))
        truth = mixed_profile(epsilon, [(mp.mpf("0.8"), 1 - lie), (-mp.mpf("0.8"), lie)])
    found = OneDirection((MIXTURE + COIN).terms, ts.Direction.REMOVE).delta_bounds(epsilon)
    assert found.lower <= truth * (1 + 1e-15)
    assert truth * (1 - 1e-15) <= found.upper
    assert found.relative_width <= 1e-11


def test_nothing_is_listed_beyond_what_one_readout_can_integrate() -> None:
    many = [(Law(np.array([-0.1 * k, 0.1 * k]), np.log([0.25, 0.75])), 1) for k in range(1, 8)]
    law = OneDirection(MIXTURE.terms, ts.Direction.REMOVE).pairs[0][0].upper
    assert isinstance(beside.shifted([(law, 1), *many[:6]], 0.0), Shifted)
    assert beside.shifted([(law, 1), *many], 0.0) is None  # 128 outcomes
    assert beside.shifted([(law, 2), *many[:1]], 0.0) is None
    assert beside.shifted([(law, 1), *many[:1]], 0.5) is None
    assert isinstance(beside.shifted(many, 0.5), Direct)
    side = OneDirection((2 * MIXTURE + COIN).terms, ts.Direction.REMOVE)
    assert side.beside is None
    assert OneDirection((MIXTURE + ts.zcdp(rho=0.1)).terms, ts.Direction.REMOVE).beside is None


def test_an_outcome_that_is_off_by_its_rounding_is_charged() -> None:
    """The threshold is moved by the rounding of the listed losses, up for one end and down for the other."""
    law = OneDirection(MIXTURE.terms, ts.Direction.REMOVE).pairs[0][0].upper
    coin = Law(np.array([-0.8, 0.8]), np.log([0.25, 0.75]))
    listed = enumerated([(coin, 1)])
    assert listed is not None
    exact = Shifted(Direct.alone(law), listed)
    loose = Shifted(Direct.alone(law), Direct(listed.law, listed.error, 1e-3))
    assert loose.upper(1.0) > exact.upper(1.0 - 0.99e-3)
    assert loose.lower(1.0) < exact.lower(1.0 + 0.99e-3)
    wrong = Direct(listed.law, 1e-3, listed.location)
    assert Shifted(Direct.alone(law), wrong).upper(1.0) > 1.0009 * exact.upper(1.0)
    assert Shifted(Direct.alone(law), wrong).lower(1.0) < 0.9991 * exact.lower(1.0)


def test_both_ends_of_epsilon_without_a_largest_loss_at_this_delta() -> None:
    sums = Beside.of(OneDirection((MIXTURE + LEAKING).terms, ts.Direction.REMOVE).saddle_pairs, 0.0, 0.0)
    assert sums is not None
    assert sums.epsilon_bounds(1e-4).upper == math.inf  # less than what is given away
    assert sums.epsilon_bounds(1e-4).lower > 30.0
    assert sums.epsilon_bounds(0.99) == Bounds(0.0, 0.0)


def test_thresholds_that_are_read_together_are_those_read_one_by_one() -> None:
    law = OneDirection(MIXTURE.sampled(rate=0.3).terms, ts.Direction.ADD).pairs[0][0].upper
    places = np.array([-30.0, -2.0, -0.3, -0.1, 0.0, 0.05, 0.2, 0.3])
    together = law.excess(places, everywhere=True)
    alone = [float(law.excess(np.array([place]), everywhere=True)[0]) for place in places.tolist()]
    assert np.allclose(together, alone, rtol=1e-13, atol=0.0)
    parts = [(s.restricted(place, math.inf), place) for s in law.segments for place in places.tolist()]
    whole = [panels.excess_between(s, s.edges(), place) if s is not None else 0.0 for s, place in parts]
    assert np.allclose(together, np.array(whole) + law.infinity, rtol=2e-13, atol=0.0)
