"""The verbs of noise: rounding, prices' parameters, errors, refusals."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.errors import InvalidInput
from tallystick.mechanisms import base, noise
from tallystick.mechanisms.base import Seeded, UnrecordedRelease
from tallystick.mechanisms.exact.lattice import FARTHEST, Lattice, default_lattice, lattice_of
from tallystick.mechanisms.exact.randomness import SeededSource, Source
from tallystick.mechanisms.noise import accuracy
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace

reals = st.floats(-1e6, 1e6)


class Forbidden(Source):
    """A source that fails the test when anything is drawn."""

    __slots__ = ()
    private = True

    def read(self, count: int) -> memoryview:
        raise AssertionError("randomness was drawn before the input was checked")


@given(reals, st.floats(0, 100), st.integers(-12, 8))
def test_rounding_moves_neighbours_apart_by_at_most_the_rounded_up_distance(x: float, d: float, exponent: int) -> None:
    lattice = Lattice(exponent)
    y = x + d
    distance = abs(Fraction(y) - Fraction(x))
    assert abs(lattice.nearest(y) - lattice.nearest(x)) <= math.ceil(distance / Fraction(2) ** exponent)


def test_rounding_half_to_even_would_break_that_bound() -> None:
    assert round(1.5) - round(0.5) == 2 > 1
    assert Lattice(0).nearest(1.5) - Lattice(0).nearest(0.5) == 1


@given(st.lists(reals | st.floats(allow_nan=True, allow_infinity=True), min_size=1), st.integers(-30, 30))
def test_rounding_an_array_is_rounding_each_number_exactly(values: list[float], exponent: int) -> None:
    lattice = Lattice(exponent)
    assert lattice.nearest_all(np.array(values)).tolist() == [lattice.nearest(v) for v in values]


def test_rounding_is_exact_where_adding_a_half_is_not() -> None:
    below_half = math.nextafter(0.5, 0.0)
    assert math.floor(below_half + 0.5) == 1
    assert Lattice(0).nearest_all(np.array([below_half, -0.5, -below_half, 2.0**52 + 1])).tolist() == [
        0,
        0,
        0,
        2**52 + 1,
    ]


def test_data_that_are_not_numbers_follow_a_fixed_public_rule() -> None:
    values = np.array([math.nan, math.inf, -math.inf, 1e300, -1e300])
    assert Lattice(0).nearest_all(values).tolist() == [0, FARTHEST, -FARTHEST, FARTHEST, -FARTHEST]


def test_the_default_lattice_is_public_fine_and_bounded() -> None:
    assert default_lattice(sensitivity=1.0, noise=10.0).granularity == 2.0**-20
    assert default_lattice(sensitivity=1.0, noise=1e-3).granularity < 2.0**-29
    far = default_lattice(sensitivity=1.0, noise=1e12)
    assert 1e12 / far.granularity <= 2.0**50


@pytest.mark.parametrize("granularity", [0.3, 0, -1, math.inf, math.nan, "fine", 3, True])
def test_a_granularity_must_be_a_power_of_two(granularity: object) -> None:
    with pytest.raises(InvalidInput, match="granularity"):
        lattice_of(granularity)  # type: ignore[arg-type]


def test_outputs_are_multiples_of_the_granularity() -> None:
    mechanism = noise.add_laplace(scale=1.0, sensitivity=1, granularity=0.25)
    outputs = [mechanism.release(0.1) for _ in range(200)]
    assert all(y % 0.25 == 0 for y in outputs)
    assert len(set(outputs)) > 5


def test_laplace_calibration_meets_epsilon_exactly_on_the_lattice() -> None:
    for sensitivity in (1.0, 0.1, 1 / 3, 7.3, 1e-9, 1e9):
        for epsilon in (1e-3, 0.1, 1.0, 12.5):
            mechanism = noise.add_laplace(epsilon=epsilon, sensitivity=sensitivity)
            assert mechanism.lattice is not None
            assert isinstance(mechanism.law, DiscreteLaplace)
            steps, scale = mechanism.lattice.steps(sensitivity), Fraction(mechanism.law.scale)
            assert steps <= Fraction(epsilon) * scale
            assert steps > Fraction(epsilon) * scale * (1 - Fraction(1, 10**12))
            assert float(scale) * mechanism.granularity <= sensitivity / epsilon * (1 + 3e-6)


def test_rho_calibration_meets_rho_exactly_on_the_lattice() -> None:
    for sensitivity, rho in ((1.0, 0.5), (0.1, 1e-4), (123.4, 2.0)):
        mechanism = noise.add_gaussian(rho=rho, sensitivity=sensitivity)
        assert mechanism.lattice is not None
        assert isinstance(mechanism.law, DiscreteGaussian)
        steps = mechanism.lattice.steps(sensitivity)
        assert steps**2 <= 2 * Fraction(rho) * Fraction(mechanism.law.sigma) ** 2
        assert mechanism.law.sigma * mechanism.granularity == pytest.approx(sensitivity / math.sqrt(2 * rho), rel=1e-5)


def test_a_vector_pays_for_rounding_in_every_coordinate_it_may_change() -> None:
    # The design's example: 100 coordinates moved by .01 have L2 .1, but on the integers L2 up to 10.
    from tallystick.mechanisms.noise.additive import Move, enlarged_norm

    move = Move(0.1, changed=100)
    assert float(enlarged_norm(DiscreteGaussian(1.0), Lattice(0), move)) ** 0.5 == pytest.approx(10.1)
    assert float(enlarged_norm(DiscreteLaplace(1.0), Lattice(0), Move(1.0, changed=100))) == 101
    assert enlarged_norm(DiscreteGaussian(1.0), None, Move(3.0, changed=9)) == 9


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0, 40.0])
def test_the_error_is_the_least_that_covers(scale: float, confidence: float) -> None:
    for law in (DiscreteLaplace(scale), DiscreteGaussian(scale)):
        k = np.arange(-int(40 * scale) - 60, int(40 * scale) + 61)
        weights = np.exp(-np.abs(k) / scale) if isinstance(law, DiscreteLaplace) else np.exp(-0.5 * (k / scale) ** 2)
        mass = weights / weights.sum()
        assert law.mass(k) == pytest.approx(mass, rel=1e-12)
        width = law.half_width(1 - confidence)
        assert mass[np.abs(k) <= width].sum() >= confidence - 1e-11
        assert width == 0 or mass[np.abs(k) <= width - 1].sum() < confidence
        assert law.variance == pytest.approx(float((k * k * mass).sum()), rel=1e-9)


def test_the_error_of_wide_gaussian_noise_is_at_most_one_step_too_large() -> None:
    law, narrow = DiscreteGaussian(1000.0), DiscreteGaussian(250.0)
    assert law.half_width(0.05) == pytest.approx(1959.96, abs=1.0)
    assert narrow.half_width(0.05) == pytest.approx(489.99, abs=1.0)


def test_the_density_is_the_law_per_data_unit() -> None:
    offsets = np.linspace(-60, 60, 120_001)
    for mechanism in (noise.add_laplace(scale=3, sensitivity=1), noise.add_gaussian(sigma=3, sensitivity=0.1)):
        density = mechanism.density(offsets)
        assert density.sum() * 0.001 == pytest.approx(1.0, rel=1e-3)
        assert (offsets**2 * density).sum() * 0.001 == pytest.approx(mechanism.variance, rel=1e-3)


def test_simultaneous_errors_are_larger_and_intervals_are_symmetric() -> None:
    mechanism = noise.add_discrete_gaussian(sigma=5, sensitivity=1, dimension=50, changed=1)
    assert mechanism.error(confidence=0.95, simultaneous=True) > mechanism.error(confidence=0.95)
    low, high = mechanism.interval(np.zeros(50), confidence=0.9)
    assert (high == -low).all()
    assert high[0] == mechanism.error(confidence=0.9)


def test_integer_noise_stays_integer_and_real_noise_stays_real() -> None:
    counts = noise.add_discrete_laplace(scale=3, sensitivity=1, dimension=4, changed=1)
    assert counts.release(np.arange(4)).dtype == np.int64  # type: ignore[union-attr]
    assert isinstance(noise.add_discrete_gaussian(sigma=3).release(10), int)
    assert isinstance(noise.add_gaussian(sigma=3, sensitivity=1).release(10), float)
    assert noise.add_gaussian(sigma=3, sensitivity=1).release(Fraction(1, 3)) != 0


def test_numbers_too_far_for_the_lattice_are_pulled_back_not_wrapped() -> None:
    mechanism = noise.add_discrete_laplace(scale=1)
    assert mechanism.release(10**30) == pytest.approx(FARTHEST, rel=1e-12)
    assert mechanism.release(-(10**30)) == pytest.approx(-FARTHEST, rel=1e-12)
    real = noise.add_laplace(scale=1, sensitivity=1)
    assert real.release(math.inf) > 1e12
    assert abs(real.release(math.nan)) < 1e3


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "one", None, [1], True])
def test_bad_parameters_are_refused_by_name(bad: object) -> None:
    for verb in (noise.add_laplace, noise.add_discrete_laplace):
        for name in ("scale", "epsilon"):
            with pytest.raises(InvalidInput, match=name):
                verb(**{name: bad}, sensitivity=1)  # type: ignore[arg-type]
    for verb in (noise.add_gaussian, noise.add_discrete_gaussian):
        for name in ("sigma", "rho", "mu"):
            with pytest.raises(InvalidInput, match="sigma" if bad is None else name):
                verb(**{name: bad}, sensitivity=1)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="delta"):
            verb(epsilon=1, delta=bad, sensitivity=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="sensitivity"):
        noise.add_laplace(scale=1, sensitivity=bad)  # type: ignore[arg-type]
    if bad is not None:
        with pytest.raises(InvalidInput, match="dimension"):
            noise.add_laplace(scale=1, sensitivity=1, dimension=bad)  # type: ignore[arg-type]


def test_contradictory_parameters_are_refused() -> None:
    for call in (
        lambda: noise.add_laplace(scale=1, epsilon=1, sensitivity=1),
        lambda: noise.add_laplace(sensitivity=1),
        lambda: noise.add_gaussian(sigma=1, rho=1, sensitivity=1),
        lambda: noise.add_gaussian(sigma=1, delta=1e-6, sensitivity=1),
        lambda: noise.add_gaussian(epsilon=1, sensitivity=1),
        lambda: noise.add_gaussian(epsilon=1, delta=1.0, sensitivity=1),
        lambda: noise.add_discrete_laplace(scale=1, sensitivity=1.5),  # type: ignore[arg-type]
        lambda: noise.add_gaussian(sigma=1, sensitivity=1, adjacency="sideways"),
        lambda: noise.add_laplace(scale=1, sensitivity=1, granularity=2.0**-60),
        lambda: noise.add_laplace(
            scale=1, sensitivity=noise.sensitivity_of("count", adjacency="replace"), adjacency="add_remove"
        ),
    ):
        with pytest.raises(InvalidInput):
            call()


SCALAR = noise.add_laplace(scale=1, sensitivity=1)
VECTOR = noise.add_gaussian(sigma=1, sensitivity=1, dimension=3)
WHOLE = noise.add_discrete_laplace(scale=1, dimension=2)


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (SCALAR, "3"), (SCALAR, None), (SCALAR, [1.0]), (SCALAR, np.ones(1)), (SCALAR, True), (SCALAR, 1j),
        (SCALAR, math.nan), (SCALAR, math.inf),
        (VECTOR, 1.0), (VECTOR, []), (VECTOR, np.ones(2)), (VECTOR, np.ones((3, 1))), (VECTOR, ["a", "b", "c"]),
        (VECTOR, [[1, 2], [3]]), (VECTOR, [1.0, math.nan, 0.0]), (VECTOR, [1.0, math.inf, 0.0]),
        (WHOLE, [1.5, 2.0]), (WHOLE, np.array([True, False])),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_before_anything_is_drawn(mechanism: noise.AdditiveNoise, value: object) -> None:
    with pytest.raises(InvalidInput, match="value"):
        mechanism(value, source=Forbidden())


def test_a_charged_release_raises_for_no_content_of_the_data() -> None:
    VECTOR.release([1.0, math.nan, math.inf])
    SCALAR.release(-math.inf)


def test_a_refusal_never_shows_the_value() -> None:
    with pytest.raises(InvalidInput) as caught:
        VECTOR(np.array([123456.789, math.nan, 0.0]))
    assert "123456" not in str(caught.value)


def test_a_seeded_release_repeats_and_is_marked_as_not_private() -> None:
    first, second = (SCALAR(1.0, source=SeededSource(8)) for _ in range(2))
    assert isinstance(first, Seeded)
    assert first == second
    assert not isinstance(SCALAR.release(1.0), Seeded)


def test_a_direct_release_warns_once_per_process_and_a_recorded_one_never() -> None:
    base.unrecorded.forget()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SCALAR.release(1.0)
        assert not caught
        SCALAR(1.0)
        SCALAR(1.0)
    assert [w.category for w in caught] == [UnrecordedRelease]


def test_mechanisms_are_frozen_values() -> None:
    assert noise.add_laplace(scale=1, sensitivity=1) == SCALAR
    assert len({SCALAR, noise.add_laplace(scale=1, sensitivity=1)}) == 1
    with pytest.raises(AttributeError):
        SCALAR.dimension = 3  # type: ignore[misc]


def test_the_tail_of_laplace_noise_agrees_with_simulation() -> None:
    draws = np.random.default_rng(1).laplace(scale=2.0, size=400_000)
    assert accuracy.laplace_tail(scale=2, width=3) == pytest.approx(np.mean(np.abs(draws) > 3), abs=0.005)


@pytest.mark.parametrize("scale", [10.0, 1e9])
def test_memory_stays_within_a_few_times_the_input(scale: float) -> None:
    mechanism = noise.add_discrete_gaussian(sigma=scale, dimension=10**6, changed=1)
    values = np.zeros(10**6, dtype=np.int64)
    mechanism.release(values)  # builds the table
    tracemalloc.start()
    mechanism.release(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * values.nbytes


def test_importing_noise_is_light() -> None:
    script = (
        "import sys, tallystick.mechanisms.noise; print([m for m in ('scipy', 'mpmath', 'duckdb') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"
