"""Pictures of error: the lines say what the library says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tallystick.errors import InvalidInput
from tallystick.mechanisms.noise.accuracy import gaussian_mean_error, laplace_mean_error
from tallystick.plots import mechanisms, save


def lines(figure) -> list[np.ndarray]:
    return [np.asarray(line.get_ydata()) for line in figure.axes[0].get_lines()]


def test_the_lines_in_dimension_are_the_theorems_numbers() -> None:
    figure = mechanisms.error_in_dimension(epsilon=1.0, delta=1e-6, count=1000, dimensions=(1, 10, 100))
    laplace, gaussian = lines(figure)
    assert laplace[1] == pytest.approx(laplace_mean_error(dimension=10, count=1000, epsilon=1.0))
    assert gaussian[2] == pytest.approx(gaussian_mean_error(dimension=100, count=1000, epsilon=1.0, delta=1e-6))
    assert laplace[0] < gaussian[0]
    assert laplace[2] > gaussian[2]


def test_local_error_stays_above_central_error_which_approaches_sampling() -> None:
    local, central, sampling = lines(mechanisms.error_in_people(epsilon=0.5, people=(100, 10_000, 1_000_000)))
    assert (local > central).all()
    assert central[-1] == pytest.approx(sampling[-1], rel=1e-4)
    assert local[-1] / sampling[-1] == pytest.approx(local[0] / sampling[0])


def test_rates_have_the_theorems_slopes() -> None:
    local, central, none = lines(mechanisms.rates_in_people(epsilon=1.0, moments=2, people=(10**3, 10**5)))
    assert math.log10(local[0] / local[1]) == pytest.approx(1)
    assert math.log10(central[0] / central[1]) == pytest.approx(2)
    assert math.log10(none[0] / none[1]) == pytest.approx(2)


def test_a_release_is_drawn_around_the_true_number_and_saved(tmp_path) -> None:
    figure = mechanisms.release(100.0, scale=2.0, half_width=6.0, published=97.0, unit="people")
    assert figure.axes[0].get_xlabel() == "published number (people)"
    peak = lines(figure)[0]
    assert peak.argmax() == peak.size // 2
    assert save(figure, tmp_path / "release.svg").stat().st_size > 1000


def test_noise_without_size_is_refused() -> None:
    with pytest.raises(InvalidInput):
        mechanisms.release(0.0, scale=0.0, half_width=1.0)
