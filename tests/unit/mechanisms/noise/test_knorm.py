"""K-norm noise on a lattice: support, price by integration, coverage, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tallystick.accounting import losses
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.intervals import Digits
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource
from tallystick.mechanisms.noise import knorm
from tallystick.mechanisms.noise.knorm import KNorm, Norm, _Shape, add_knorm
from unit.mechanisms.coverage import ENUMERATION, INTERVAL, checks
from unit.mechanisms.neighbours import refuses

NORMS = list(Norm)
LENGTH = {
    Norm.L1: lambda z: np.abs(z).sum(axis=-1),
    Norm.L2: lambda z: np.sqrt((z**2).sum(axis=-1)),
    Norm.LINF: lambda z: np.abs(z).max(axis=-1),
}


def draws(mechanism, value, count: int) -> np.ndarray:
    return np.array([mechanism.release(value) for _ in range(count)])


@pytest.mark.parametrize("norm", NORMS)
def test_every_output_is_a_lattice_point_whatever_the_value(norm: Norm) -> None:
    mechanism = add_knorm(epsilon=1.0, norm=norm, sensitivity=1.0, granularity=2.0**-6)
    for value in ([0.1, 0.2], [1.0, 0.0], [math.pi, -1e-9]):
        out = draws(mechanism, value, 30)
        assert (out * 2**6 == np.round(out * 2**6)).all()


@pytest.mark.parametrize("norm", NORMS)
def test_the_low_bits_say_nothing(norm: Norm) -> None:
    # Mironov's attack looks for outputs possible from 0 but not from 1: bits finer than 2^-52. There are none.
    mechanism = add_knorm(epsilon=1.0, norm=norm, sensitivity=1.0)
    for value in (0.0, 1.0):
        out = draws(mechanism, [value], 200) / mechanism.granularity
        assert (out == np.round(out)).all()


@checks(ENUMERATION, KNorm)
@pytest.mark.parametrize("norm", NORMS)
def test_the_price_holds_by_integrating_the_density_over_lattice_cells(norm: Norm) -> None:
    # Two dimensions: mass of each rounding cell under the value and a neighbour at distance D, by fine quadrature.
    epsilon, step, fine = 1.0, 1.0, 8
    at = (np.arange(-14 * fine, 14 * fine) + 0.5) / fine
    x, y = np.meshgrid(at, at, indexing="ij")
    shifts = {Norm.L1: [(1, 0), (0.5, -0.5)], Norm.L2: [(1, 0), (0.6, 0.8)], Norm.LINF: [(1, 1), (1, -0.3)]}[norm]

    def cells(shift):
        density = np.exp(-epsilon * LENGTH[norm](np.stack((x - shift[0], y - shift[1]), axis=-1)))
        blocks = density.reshape(28, fine, 28, fine).sum(axis=(1, 3))
        return blocks / (density.sum())

    home = cells((0, 0))
    for shift in shifts:
        # the density ratio is at most e^eps pointwise, hence on every cell; normalisers agree up to the cut-off
        assert np.abs(np.log(cells(shift) / home))[4:-4, 4:-4].max() <= epsilon * step + 1e-3
    assert add_knorm(epsilon=1.0, norm=norm, sensitivity=1.0).privacy == losses.pure_dp(epsilon=1.0)


@checks(INTERVAL, KNorm)
@pytest.mark.parametrize(("norm", "dimension"), list(itertools.product(NORMS, (1, 2, 5))))
def test_the_length_of_the_noise_covers_at_its_nominal_rate_and_has_the_stated_variance(norm, dimension) -> None:
    mechanism = add_knorm(epsilon=0.5, norm=norm, sensitivity=2.0, granularity=2.0**-4)
    count = 600
    out = draws(mechanism, [0.0] * dimension, count)
    inside = (LENGTH[norm](out) <= mechanism.error(confidence=0.8, dimension=dimension)).sum()
    assert abs(inside - 0.8 * count) < 6.5 * math.sqrt(0.16 * count) + 10
    spread = (out**2).mean()
    assert 0.4 < spread / mechanism.variance(dimension=dimension) < 2.1


def test_a_longer_vector_and_extreme_scales_work() -> None:
    assert add_knorm(epsilon=1.0, norm="l2", sensitivity=1.0).release(np.zeros(201)).shape == (201,)
    for size in (1e-12, 1e12):
        out = add_knorm(epsilon=1.0, norm="linf", sensitivity=size).release([0.0, 0.0])
        assert np.abs(out).max() < 1000 * size


def test_doubtful_roundings_are_settled_with_more_bits() -> None:
    # A lattice 2^-100 finer than the noise needs far more than the first 63 bits of every number.
    mechanism = add_knorm(epsilon=1.0, norm="l2", sensitivity=1.0, granularity=2.0**-140)
    out = mechanism.release([0.0, 0.0, 0.0])
    assert np.isfinite(out).all()
    assert (out != 0).all()


@pytest.mark.parametrize("dimension", [1, 2, 3, 40])
@pytest.mark.parametrize("norm", NORMS)
def test_points_found_in_floats_are_those_of_decimals_on_the_same_bits(norm: Norm, dimension: int) -> None:
    mechanism = add_knorm(epsilon=1.0, norm=norm, sensitivity=1.0)  # a fine lattice: some roundings are in doubt
    value = np.linspace(-3.0, 1e4, dimension).tolist()
    clear = 0
    for seed in range(30):
        shape = _Shape.fresh(norm, dimension, SeededSource(seed))
        points = mechanism.clear_points(value, shape)
        if points is not None:
            clear += 1
            assert points == mechanism.certain_points(value, shape, SYSTEM)
    assert clear >= 20


def test_float_coordinates_are_within_their_stated_error() -> None:
    digits = Digits(60)
    for norm, seed in itertools.product(NORMS, range(40)):
        shape = _Shape.fresh(norm, 3, SeededSource(seed))
        near = shape.near(3)
        if near is not None:
            # a fine decimal enclosure of the same bits: at most 2^-60 wide
            for coordinate, exact in zip(near[0], shape.coordinates(digits, 3), strict=True):
                assert abs(Fraction(coordinate) - Fraction(exact.low)) < Fraction(near[1]) / 8


def test_the_same_bits_give_the_same_noise_on_a_finer_lattice() -> None:
    coarse = add_knorm(epsilon=1.0, norm="l2", sensitivity=1.0, granularity=2.0**-4)
    fine = add_knorm(epsilon=1.0, norm="l2", sensitivity=1.0, granularity=2.0**-20)
    for seed in range(20):
        a, b = (m([0.3, 0.1], source=SeededSource(seed)).value for m in (coarse, fine))
        assert np.abs(a - b).max() <= 2.0**-5 + 2.0**-21


@pytest.mark.parametrize("value", [[], "x", [math.nan], [math.inf], None, 1.0, [[1.0]], np.zeros(100_001)])
def test_bad_values_are_refused_before_randomness_is_drawn(value) -> None:
    assert refuses(add_knorm(epsilon=1.0, norm="l2", sensitivity=1.0), value)


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0}, {"norm": "l3"}, {"sensitivity": 0}, {"granularity": 0.3}, {"granularity": -1.0}]
)
def test_bad_parameters_are_refused(wrong) -> None:
    with pytest.raises(InvalidInput):
        add_knorm(**{"epsilon": 1.0, "norm": "l2", "sensitivity": 1.0, **wrong})


def test_near_normals_are_normal_and_both_ways_of_telling_them_agree(monkeypatch):
    from scipy.special import ndtr

    drawn = np.sort(knorm.near_normals(4001, SeededSource(8)))
    places = (np.arange(4001) + 0.5) / 4001
    assert np.max(np.abs(ndtr(drawn) - places)) < 0.03  # Kolmogorov: probability of more is below 2e-3
    assert np.max(np.abs(ndtr(2 * drawn) - places)) > 0.1
    fast = knorm.near_normals(400, SeededSource(9))
    monkeypatch.setattr(knorm, "_polar", lambda x, y: None)
    slow = knorm.near_normals(400, SeededSource(9))
    # The slow way may draw more bits; until it first does, the two see the same points.
    assert np.max(np.abs(fast[:100] - slow[:100])) <= 2 * knorm.NORMAL_ERROR
