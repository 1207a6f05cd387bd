"""The figures of the notes show the numbers of the theorems they belong to."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.stats import norm

import tallystick as ts
from tallystick import plots
from tallystick.errors import InvalidInput
from tallystick.mechanisms.select.noisy_law import pumpkin_prices
from tallystick.theorems import PiecewiseTradeoff, profile_of_tradeoff, tradeoff_of_points


def longest(figure):
    return max((line.get_xydata() for line in figure.axes[0].lines), key=len)


def number(figure) -> float:
    texts = [text.get_text() for text in figure.axes[0].texts]
    (found,) = (text for text in texts if "delta" in text)
    return float(re.findall(r"[\d.]+(?:e-\d+)?$", found)[0])


def test_the_shaded_part_of_two_densities_is_delta() -> None:
    figure = plots.pair(norm(1).pdf, norm(0).pdf, epsilon=0.5, between=(-9, 10))
    assert number(figure) == pytest.approx(ts.gdp(mu=1).delta(epsilon=0.5), rel=5e-3)


def test_supporting_lines_hold_up_the_theorems_curve() -> None:
    promises = [(0.0, 0.3), (1.0, 0.05), (2.0, 0.0)]
    figure = plots.supporting_lines(promises)
    curve = figure.axes[0].lines[-1].get_xydata()
    assert curve[:, 1] == pytest.approx(tradeoff_of_points(promises)(curve[:, 0]), abs=1e-9)
    assert len(figure.axes[0].lines) == 2 + 2 * len(promises)


def test_the_tangent_meets_the_axis_at_one_minus_delta() -> None:
    curve = PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.05)
    found = number(plots.tangent(curve, epsilon=0.5))
    assert 1 - found == pytest.approx(profile_of_tradeoff(curve).delta(epsilon=0.5), abs=1e-3)


def test_a_tilt_moves_the_minimum_of_a_parabola_by_half_of_itself() -> None:
    figure = plots.tilted(lambda x: x**2, tilts=[1.0, -1.0], between=(-2, 2))
    places = [line.get_xdata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert places == pytest.approx([0.0, -0.5, 0.5], abs=1e-2)


def test_the_other_figures_can_be_saved(tmp_path) -> None:
    sale = pumpkin_prices([1.0, 1.0, 1.0, 4.01] * 25, epsilon=1.0)
    assert f"of {sale.best:.0f}" in plots.revenue(sale).axes[0].get_legend_handles_labels()[1][1]
    figures = [
        plots.revenue(sale),
        plots.noise_for_queries({"basic": [2, 200], "advanced": [50, 500]}, queries=[1, 10]),
        plots.staircase([1, 2, 2, 7], points=[0, 2, 5], chances=[0.1, 0.7, 0.2]),
        plots.densities({"n = 5": norm(0, 2).pdf, "limit": norm.pdf}, between=(-5, 5)),
    ]
    for place, figure in enumerate(figures):
        assert plots.save(figure, tmp_path / f"{place}.png").stat().st_size > 5_000
    assert longest(figures[3])[:, 1].max() == pytest.approx(1 / math.sqrt(2 * math.pi) / 2, rel=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: plots.pair(norm.pdf, norm.pdf, epsilon=1.0, between=(1, 1)),
        lambda: plots.supporting_lines([]),
        lambda: plots.noise_for_queries({"basic": [1.0]}, queries=[1, 2]),
        lambda: plots.staircase([1.0], points=[0.0], chances=[]),
        lambda: plots.densities({}, between=(0, 1)),
        lambda: plots.tilted(np.square, tilts=[1.0], between=(0, math.inf)),
    ],
)
def test_bad_numbers_are_refused(call) -> None:
    with pytest.raises(InvalidInput):
        call()
