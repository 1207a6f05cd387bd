"""Errata 1 and 21: a sampler with twice the epsilon, and noise added once per record instead of once per batch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts


def quantile_log_density(points, alpha, weight, width, at):
    """Log density of the interval sampler: each interval by its length and exp(-weight |rank - alpha k|)."""
    points = np.clip(np.sort(points), -width / 2, width / 2)
    edges = np.concatenate([[-width / 2], points, [width / 2]])
    count = len(points)
    masses = np.diff(edges) * np.exp(-weight * np.abs(np.arange(count + 1) - alpha * count))
    rank = np.searchsorted(points, at, side="right")
    return -weight * abs(rank - alpha * count) - math.log(masses.sum())


def worst_ratio(weight):
    """One record moved from the left end to the right end; a tiny interval gains what the wide one loses."""
    width, alpha, worst = 10.0, 4 / 9, 0.0
    for tiny in (1e-3, 1e-6):
        points = np.array([-5.0] * 4 + [5 - tiny] + [5.0] * 4)
        moved = points.copy()
        moved[0] = 5.0
        for at in (0.0, 5 - tiny / 2):
            first = quantile_log_density(points, alpha, weight, width, at)
            worst = max(worst, abs(first - quantile_log_density(moved, alpha, weight, width, at)))
    return worst


def test_erratum_1_the_printed_quantile_sampler_is_two_epsilon():
    epsilon = 1.0
    assert worst_ratio(epsilon) == pytest.approx(2.0, abs=1e-3)  # Algorithm 4 as printed
    assert worst_ratio(epsilon / 2) <= epsilon  # as Algorithm 3 has it


def test_erratum_21_noise_inside_the_loop_over_the_batch_is_a_release_per_record():
    sigma, batch, delta = 4.0, 16, 1e-5
    printed_claim = ts.gaussian(sigma=sigma).epsilon(delta=delta)
    what_it_does = (batch * ts.gaussian(sigma=sigma)).epsilon(delta=delta)
    assert what_it_does > 3 * printed_claim
    assert what_it_does == pytest.approx(ts.gdp(mu=math.sqrt(batch) / sigma).epsilon(delta=delta), rel=1e-6)
