"""The grid's upper and lower laws lie on their sides of the law they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting import gdp
from tallystick.accounting.leaf import Leaf
from tallystick.numerics.grid import GridLaw, discretise

LOSSES = {
    "gaussian": ts.gaussian(sigma=1.3),
    "sampled gaussian": ts.gaussian(sigma=0.8).sampled(rate=0.02),
    "laplace": ts.laplace(scale=1.7),
    "sampled laplace": ts.laplace(scale=0.7).sampled(rate=0.1),
    "two points": ts.pure_dp(epsilon=0.9),
    "mass at infinity": ts.approx_dp(epsilon=0.5, delta=0.01),
    "bounded range": ts.exponential(epsilon=2),
    "lattice": ts.discrete_gaussian(sigma=3, sensitivity=2),
    "asymmetric": ts.discrete_pair([0.5, 0.4, 0.1], [0.2, 0.7, 0.1]),
}


def excess(grid: GridLaw, threshold: float) -> float:
    above = grid.values > threshold
    return grid.infinity + float(np.sum(grid.masses[above] * -np.expm1(threshold - grid.values[above])))


def only_leaf(loss: ts.PrivacyLoss) -> Leaf:
    return loss.terms[0][0]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("step", [0.3, 0.07, 0.004])
def test_the_law_lies_between_its_grids(name: str, step: float) -> None:
    for direction in ts.Direction:
        law = only_leaf(LOSSES[name]).pair(direction).upper
        low, high = max(law.lowest, -25.0), min(law.highest, 25.0)
        upper, lower = discretise(law, step=step, offset=0.013, low=low, high=high)
        for threshold in np.linspace(-4.0, 6.0, 41):
            truth = float(law.excess(np.array([threshold]))[0])
            assert excess(lower, threshold) <= truth * (1 + 1e-12) + 1e-300
            assert excess(upper, threshold) >= truth * (1 - 1e-12)


def test_refining_the_grid_closes_the_gap_quadratically() -> None:
    law = only_leaf(LOSSES["gaussian"]).pair(ts.Direction.REMOVE).upper
    gaps = []
    for step in (0.1, 0.01):
        upper, lower = discretise(law, step=step, offset=0.0, low=-25.0, high=25.0)
        # A threshold between grid points on both grids; on the points the upper law is exact.
        gaps.append(excess(upper, 0.5432) - excess(lower, 0.5432))
    assert gaps[1] < gaps[0] / 50


@pytest.mark.parametrize("threshold", [20.0, 28.0, 33.0])
def test_the_lower_grid_is_lowered_where_masses_are_tiny_too(threshold: float) -> None:
    """The product of two masses below 1e-154 was nothing, and with it what chords are lowered by: 9e-5 too much."""
    law = only_leaf(ts.gaussian(sigma=1)).pair(ts.Direction.REMOVE).upper
    upper, lower = discretise(law, step=0.00123, offset=0.0, low=-1.0, high=threshold + 3.0)
    truth = gdp.delta_bounds(1.0, threshold)
    assert (1.0 - 1e-3) * truth.lower < excess(lower, threshold) <= truth.upper
    assert truth.lower <= excess(upper, threshold) < (1.0 + 1e-3) * truth.upper


def test_no_mass_below_zero_lifts_the_end_of_the_lower_grid() -> None:
    """Next to the largest point a lower mass of minus 1e-175 was taken for rounding: a value was lifted by 15 %."""
    law = only_leaf(ts.gaussian(sigma=1)).pair(ts.Direction.REMOVE).upper
    upper, lower = (
        replace(grid, infinity=0.0) for grid in discretise(law, step=0.001, offset=0.0, low=-2.0, high=27.4)
    )
    for threshold in upper.values[-200:-1]:
        assert excess(lower, threshold) <= excess(upper, threshold)


def test_a_halved_noise_would_not_lie_between() -> None:
    right = only_leaf(ts.gaussian(sigma=1)).pair(ts.Direction.REMOVE).upper
    wrong = only_leaf(ts.gaussian(sigma=0.5)).pair(ts.Direction.REMOVE).upper
    upper, _ = discretise(right, step=0.01, offset=0.0, low=-25.0, high=25.0)
    assert excess(upper, 0.5) < float(wrong.excess(np.array([0.5]))[0])
