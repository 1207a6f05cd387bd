"""Noise is as private as it says: by enumeration, by support, by low bits, and by trying to refute it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from statistical.goodness import NEVER, at_least, at_most, g_test
from tallystick.accounting.adjacency import ANY_UNIT, Adjacency
from tallystick.mechanisms import noise
from tallystick.mechanisms.noise.additive import AdditiveNoise
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.mechanisms.noise.law import NoiseLaw
from unit.mechanisms.coverage import ENUMERATION, INTERVAL, checks

DRAWS = 1_000_000
LEVELS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.5)


def masses(law: NoiseLaw, reach: int) -> NDArray[np.float64]:
    """P(-reach), ..., P(reach) straight from the definition."""
    k = np.arange(-reach, reach + 1)
    weights = (
        np.exp(-np.abs(k) / law.scale) if isinstance(law, DiscreteLaplace) else np.exp(-0.5 * (k / law.sigma) ** 2)
    )  # type: ignore[attr-defined]
    return weights / weights.sum()


def worst_delta(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    """sup over events of P - e^epsilon Q, in the worse direction."""
    one, other = p - math.exp(epsilon) * q, q - math.exp(epsilon) * p
    return max(float(one[one > 0].sum()), float(other[other > 0].sum()))


def shifted_delta(law: NoiseLaw, steps: int, epsilon: float) -> float:
    reach = 1500
    mass = masses(law, reach)
    p, q = np.zeros(len(mass) + steps), np.zeros(len(mass) + steps)
    p[: len(mass)], q[steps:] = mass, mass  # with steps = 0 the two are the same law
    return worst_delta(p, q, epsilon)


SCALARS = {
    "integer Laplace": noise.add_discrete_laplace(scale=1.5, sensitivity=1),
    "integer Laplace, far": noise.add_discrete_laplace(scale=4, sensitivity=3),
    "integer Gaussian": noise.add_discrete_gaussian(sigma=1.0, sensitivity=1),
    "integer Gaussian, far": noise.add_discrete_gaussian(sigma=3.3, sensitivity=4),
    "real Laplace": noise.add_laplace(scale=1.0, sensitivity=0.7, granularity=0.25),
    "real Gaussian": noise.add_gaussian(sigma=1.0, sensitivity=0.7, granularity=0.25),
}


@checks(ENUMERATION, AdditiveNoise)
@pytest.mark.parametrize("name", SCALARS)
def test_enumerating_all_outputs_gives_the_stated_privacy(name: str) -> None:
    mechanism = SCALARS[name]
    steps = math.ceil(mechanism.move.norm / mechanism.granularity)
    for epsilon in LEVELS:
        truth = shifted_delta(mechanism.law, steps, epsilon)
        stated = mechanism.privacy.delta(epsilon=epsilon)
        assert truth <= stated * (1 + 1e-12) + 1e-14
        assert stated <= truth * (1 + 1e-4) + 1e-9, "the price is not tight"


def test_a_continuous_price_would_have_been_too_low() -> None:
    from tallystick.accounting.losses import gaussian

    truth = shifted_delta(SCALARS["integer Gaussian"].law, 1, 1.0)
    assert truth == pytest.approx(0.1414, abs=1e-4)
    assert gaussian(sigma=1.0).delta(epsilon=1.0) == pytest.approx(0.1269, abs=1e-4)


def test_values_between_lattice_points_cost_what_rounding_can_add() -> None:
    # 0.1 and 0.4 are 0.3 apart but round to lattice points two steps of 0.25 apart.
    mechanism = noise.add_laplace(scale=1.0, sensitivity=0.3, granularity=0.25)
    assert mechanism.lattice is not None
    assert mechanism.lattice.nearest(0.4) - mechanism.lattice.nearest(0.1) == 2
    assert mechanism.privacy.epsilon(delta=0) >= 0.5 - 1e-12


@pytest.mark.parametrize("name", ["real Laplace", "real Gaussian"])
def test_every_pair_of_real_neighbours_is_within_the_price(name: str) -> None:
    mechanism = SCALARS[name]
    assert mechanism.lattice is not None
    stated = {epsilon: mechanism.privacy.delta(epsilon=epsilon) for epsilon in LEVELS}
    apart = set()
    for x in np.linspace(-0.25, 0.25, 41).tolist():
        for distance in np.linspace(-0.7, 0.7, 57).tolist():
            apart.add(abs(mechanism.lattice.nearest(x + distance) - mechanism.lattice.nearest(x)))
    assert apart == {0, 1, 2, 3}
    for steps in apart:
        assert all(shifted_delta(mechanism.law, steps, e) <= delta + 1e-13 for e, delta in stated.items())


@pytest.mark.parametrize("sigma", [2.2, 3.0, 5.0, 12.0])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_continuous_gaussian_noise_dominates_slightly_wider_discrete_noise(sigma: float, steps: int) -> None:
    # The theorem behind the price on fine lattices, at sizes small enough to enumerate.
    law = DiscreteGaussian(sigma)
    bound = law.smooth_privacy(Fraction(steps**2), ANY_UNIT)
    for epsilon in np.linspace(0.0, 3.0, 31):
        assert shifted_delta(law, steps, epsilon) <= bound.delta(epsilon=float(epsilon)) * (1 + 1e-9) + 1e-13


def test_continuous_gaussian_noise_does_not_dominate_discrete_noise_of_its_own_size() -> None:
    from tallystick.accounting.losses import gaussian

    law = DiscreteGaussian(3.0)
    gaps = [shifted_delta(law, 1, e) - gaussian(sigma=3.0).delta(epsilon=e) for e in np.linspace(0.0, 1.0, 50).tolist()]
    assert max(gaps) > 1e-4


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_continuous_laplace_noise_of_a_slightly_larger_shift_dominates_discrete_noise(scale: float, steps: int) -> None:
    from tallystick.accounting.losses import laplace

    law = DiscreteLaplace(scale)
    for epsilon in np.linspace(0.0, steps / scale, 40).tolist():
        truth = shifted_delta(law, steps, epsilon)
        assert (
            truth <= laplace(scale=scale / float(law.smooth_shift(steps))).delta(epsilon=epsilon) * (1 + 1e-9) + 1e-12
        )
    between = (steps - 1) / scale  # halfway between two knots, where the lattice pair is strictly worse
    assert shifted_delta(law, steps, between) > laplace(scale=scale / steps).delta(epsilon=between) + 1e-5


@pytest.mark.parametrize("shift", [(1, 1), (1, 0), (0, 1)])
@pytest.mark.parametrize("verb", [noise.add_discrete_laplace, noise.add_discrete_gaussian])
def test_enumerating_two_coordinates_stays_within_the_vector_price(verb, shift: tuple[int, int]) -> None:  # type: ignore[no-untyped-def]
    histogram = noise.sensitivity_of("histogram", adjacency="replace")
    size = {"scale": 1.3} if verb is noise.add_discrete_laplace else {"sigma": 1.3}
    exact = verb(**size, sensitivity=histogram, dimension=2)
    normed = verb(
        **size, sensitivity=2 if verb is noise.add_discrete_laplace else math.nextafter(2**0.5, 2), dimension=2
    )
    reach = 60
    mass = masses(exact.law, reach)
    padded = [np.pad(mass, (0, 1)), np.pad(mass, (1, 0))]
    p, q = np.outer(padded[0], padded[0]), np.outer(padded[shift[0]], padded[shift[1]])
    for epsilon in LEVELS:
        truth = worst_delta(p, q, epsilon)
        assert truth <= exact.privacy.delta(epsilon=epsilon) + 1e-12
        assert truth <= normed.privacy.delta(epsilon=epsilon) + 1e-12
        if shift == (1, 1):
            assert exact.privacy.delta(epsilon=epsilon) <= truth * (1 + 1e-3) + 1e-6


def test_a_vector_priced_as_one_gaussian_of_its_norm_would_have_been_refuted() -> None:
    from tallystick.accounting.losses import gaussian

    mass = masses(noise.add_discrete_gaussian(sigma=0.6).law, 40)
    padded = [np.pad(mass, (0, 1)), np.pad(mass, (1, 0))]
    p, q = np.outer(padded[0], padded[0]), np.outer(padded[1], padded[1])
    claim = gaussian(sigma=0.6 / 2**0.5)
    assert any(worst_delta(p, q, e) > claim.delta(epsilon=e) * 1.02 for e in np.linspace(0, 6, 61))
    stated = noise.add_discrete_gaussian(sigma=0.6, sensitivity=math.nextafter(2**0.5, 2), dimension=2).privacy
    assert all(worst_delta(p, q, e) <= stated.delta(epsilon=e) for e in np.linspace(0, 6, 13))


@pytest.mark.parametrize(
    ("mechanism", "goal"),
    [
        (noise.add_laplace(epsilon=0.7, sensitivity=0.1), {"epsilon": 0.7, "delta": 0.0}),
        (noise.add_discrete_laplace(epsilon=2.0, sensitivity=3), {"epsilon": 2.0, "delta": 0.0}),
    ],
)
def test_laplace_calibration_meets_its_goal(mechanism: AdditiveNoise, goal: dict[str, float]) -> None:
    assert mechanism.privacy.epsilon(delta=0.0) <= goal["epsilon"] * (1 + 1e-9)


@pytest.mark.parametrize("whole", [True, False])
def test_gaussian_calibration_meets_epsilon_and_delta_on_the_lattice_and_is_not_wasteful(whole: bool) -> None:
    verb = noise.add_discrete_gaussian if whole else noise.add_gaussian
    mechanism = verb(epsilon=1.0, delta=1e-6, sensitivity=1)
    stated = mechanism.privacy.delta(epsilon=1.0)
    assert 0.999e-6 <= stated <= 1e-6
    assert math.sqrt(mechanism.variance) == pytest.approx(4.2247, rel=0.002)  # the analytic Gaussian of Balle and Wang
    narrower = verb(sigma=math.sqrt(mechanism.variance) * 0.99, sensitivity=1)
    assert narrower.privacy.delta(epsilon=1.0) > 1e-6


def test_mu_and_vector_calibration_meet_their_goals() -> None:
    from tallystick.accounting.losses import approx_dp, gdp

    for mu in (0.5, 0.3, 1.7):
        assert noise.add_gaussian(mu=mu, sensitivity=2.0).privacy <= gdp(mu=mu)
        assert noise.add_gaussian(mu=mu, sensitivity=2.0, dimension=7).privacy <= gdp(mu=mu)
    vector = noise.add_gaussian(epsilon=1.0, delta=1e-5, sensitivity=1.0, dimension=10)
    assert vector.privacy <= approx_dp(epsilon=1.0, delta=1e-5)
    assert math.sqrt(vector.variance) == pytest.approx(3.7306, rel=1e-3)  # no dearer than continuous noise


def test_the_price_carries_adjacency_and_unit() -> None:
    mechanism = noise.add_laplace(scale=1, sensitivity=1, adjacency="replace", unit="patient")
    assert mechanism.privacy.adjacency is Adjacency.REPLACE
    assert mechanism.privacy.unit == "patient"


def repeat(mechanism_of_dimension, value: float) -> NDArray[np.float64]:  # type: ignore[no-untyped-def]
    return np.asarray(mechanism_of_dimension.release(np.full(DRAWS, value)), dtype=np.float64)


REALS = {
    "Laplace": noise.add_laplace(scale=1.0, sensitivity=1.0, dimension=DRAWS, changed=1),
    "Gaussian": noise.add_gaussian(sigma=1.0, sensitivity=1.0, dimension=DRAWS, changed=1),
}


@pytest.mark.parametrize("name", REALS)
def test_neighbours_have_the_same_support(name: str) -> None:
    g = REALS[name].granularity
    for value in (0.0, 1.0, 1 / 3):
        sample = repeat(REALS[name], value)
        assert (np.mod(sample, g) == 0).all()
        # Every residue of the lattice occurs alike, wherever the value is.
        residues = np.rint(sample / g).astype(np.int64) % 32
        assert g_test(np.bincount(residues, minlength=32), np.full(32, 1 / 32)) > NEVER
    coarse = noise.add_laplace(scale=1.0, sensitivity=1.0, granularity=0.5, dimension=DRAWS, changed=1)
    seen = [set(np.unique(np.clip(repeat(coarse, value), -6, 6)).tolist()) for value in (0.0, 1.0, 1 / 3)]
    assert seen[0] == seen[1] == seen[2]


@checks(INTERVAL, AdditiveNoise)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(
    "mechanism",
    [
        noise.add_laplace(scale=3.0, sensitivity=1, dimension=DRAWS, changed=1),
        noise.add_gaussian(sigma=3.0, sensitivity=1, dimension=DRAWS, changed=1),
        noise.add_discrete_laplace(scale=20, dimension=DRAWS, changed=1),
        noise.add_discrete_gaussian(sigma=20, dimension=DRAWS, changed=1),
    ],
    ids=["Laplace", "Gaussian", "discrete Laplace", "discrete Gaussian"],
)
def test_the_error_covers_at_its_nominal_rate(mechanism: AdditiveNoise, confidence: float) -> None:
    value = 7 if mechanism.lattice is None else 7.3
    error = mechanism.error(confidence=confidence)
    covered = int((np.abs(np.asarray(mechanism.release(np.full(DRAWS, value))) - value) <= error).sum())
    assert at_most(covered, DRAWS) >= confidence
    # Not wasteful either: an integer step more than needed at most.
    step = float(masses(mechanism.law, 400).max()) * 2 if mechanism.lattice is None else 1e-3
    assert at_least(covered, DRAWS) <= confidence + step
