"""Pictures of what is made of trade-off functions: the lines are on the sides that the theorems promise."""

from __future__ import annotations

import numpy as np

from tallystick import plots
from tallystick.theorems.piecewise import PiecewiseTradeoff


def lines(figure) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in figure.axes[0].get_lines()]


def test_the_exact_curve_is_in_the_band_of_the_limit() -> None:
    figure = plots.limit_band(epsilon=0.1, steps=400)
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    _, (alpha, exact), *_ = lines(figure)
    for place in range(20, 400, 20):
        at = band[np.isclose(band[:, 0], alpha[place]), 1]
        assert at.min() - 1e-9 <= exact[place] <= at.max() + 1e-9
    assert band[:, 1].max() <= 1.0


def test_sampling_and_symmetry_are_on_their_sides() -> None:
    _, (_, f), (_, hull), (_, mixed), (_, inverse) = lines(
        plots.sampling(PiecewiseTradeoff.of_approx_dp(epsilon=2.0), rate=0.5)
    )
    assert np.all(f <= hull + 1e-12)
    assert np.all(hull <= np.minimum(mixed, inverse) + 1e-12)
    _, (_, larger), (_, f), (_, inverse) = lines(plots.symmetry(PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])))
    assert np.allclose(larger, np.maximum(f, inverse))
    assert not np.allclose(f, inverse)
