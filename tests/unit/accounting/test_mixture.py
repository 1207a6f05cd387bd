"""Mixtures of Gaussians: vectors in the plane, another project's values, sampling as a special case."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.readout import reader


def directions(loss: ts.PrivacyLoss, epsilon: float) -> dict[str, ts.Bounds]:
    return {side.direction.value: side.delta_bounds(epsilon) for side in reader(loss).sides}


@pytest.mark.parametrize(
    ("shifts", "shares", "remove", "add"),
    [
        ([0, 1], [0.2, 0.8], 0.0816951786585355, 0.0231362104090899),
        ([0, 3], [0.3, 0.7], 0.5356298793262404, 0.1195051215523554),
        ([0, 1, 2], [0.2, 0.6, 0.2], 0.15768284088654105, 0.036691263832032806),
        ([1, 2], [0.2, 0.8], 0.433276675545065, 0.3894964356580768),
    ],
)
def test_values_of_dp_accountings_own_tests(shifts: list, shares: list, remove: float, add: float) -> None:
    found = directions(ts.gaussian_mixture(sigma=1, sensitivities=shifts, probabilities=shares), 1.0)
    for name, value in (("remove", remove), ("add", add)):
        assert found[name].lower - 1e-7 <= value <= found[name].upper + 1e-7
        assert found[name].relative_width < 1e-10


def test_a_composition_of_dp_accountings_own_tests() -> None:
    one = ts.gaussian_mixture(sigma=1, sensitivities=[0, 1, 2], probabilities=[0.2, 0.6, 0.2])
    two = ts.gaussian_mixture(sigma=2, sensitivities=[0, 2, 3], probabilities=[0.33, 0.34, 0.33])
    assert (3 * one + 2 * two).epsilon(delta=1e-6) == pytest.approx(17.193115, abs=1e-5)


def test_no_vectors_in_the_plane_are_told_apart_better() -> None:
    """Random directions and lengths, by quadrature in the plane, both orders."""
    rng = np.random.default_rng(7)
    line = np.linspace(-9.0, 11.0, 801)
    x, y = np.meshgrid(line, line)
    cell = (line[1] - line[0]) ** 2
    q = np.exp(-0.5 * (x * x + y * y)) / (2 * math.pi)
    shifts, shares = np.array([0.5, 1.0, 2.5]), np.array([0.5, 0.3, 0.2])
    loss = ts.gaussian_mixture(sigma=1, sensitivities=shifts, probabilities=shares)
    limits = {epsilon: directions(loss, epsilon) for epsilon in (0.0, 0.3, 1.0, 2.0)}
    nearest = 0.0
    for trial in range(12):
        lengths = shifts if trial < 6 else shifts * rng.uniform(0.2, 1.0, 3)
        turns = rng.uniform(0.0, 0.1 if trial == 0 else 2 * math.pi, 3)
        p = sum(
            share * np.exp(-0.5 * ((x - r * math.cos(t)) ** 2 + (y - r * math.sin(t)) ** 2)) / (2 * math.pi)
            for share, r, t in zip(shares, lengths, turns, strict=True)
        )
        for epsilon, limit in limits.items():
            a = math.exp(epsilon)
            for name, one, two in (("remove", p, q), ("add", q, p)):
                found = float(np.sum(np.maximum(0.0, one - a * two))) * cell
                assert found <= limit[name].upper * (1 + 1e-4)
                nearest = max(nearest, found / limit[name].upper)
    assert nearest > 0.98


def test_zero_or_one_contribution_is_sampling() -> None:
    assert ts.gaussian_mixture(sigma=2, sensitivities=[0, 1], probabilities=[0.75, 0.25]) == ts.gaussian(
        sigma=2
    ).sampled(rate=0.25)
    assert ts.gaussian_mixture(sigma=2, sensitivities=[4], probabilities=[1]) == ts.gaussian(sigma=0.5)
    assert ts.gaussian_mixture(sigma=2, sensitivities=[0, 0], probabilities=[0.5, 0.5]) == ts.no_loss()
    assert ts.gaussian_mixture(sigma=1, sensitivities=[2, 1, 2], probabilities=[0.25, 0.5, 0.25]) == (
        ts.gaussian_mixture(sigma=1, sensitivities=[1, 2], probabilities=[0.5, 0.5])
    )


def test_rounded_shares_never_make_a_part_less_likely() -> None:
    from fractions import Fraction

    given = {1.0: 0.1, 2.0: 1 / 3, 3.0: 0.07}
    loss = ts.gaussian_mixture(
        sigma=1, sensitivities=[0, *given], probabilities=[1 - math.fsum(given.values()), *given.values()]
    )
    leaf = loss.terms[0][0]
    for shift, share in zip(leaf.base.sensitivities, leaf.base.probabilities, strict=True):
        assert Fraction(leaf.rate) * Fraction(share) >= Fraction(given[shift])


@pytest.mark.parametrize(
    "bad",
    [
        {"sigma": 1, "sensitivities": [1, 2], "probabilities": [0.5, 0.6]},
        {"sigma": 1, "sensitivities": [1, -2], "probabilities": [0.5, 0.5]},
        {"sigma": 1, "sensitivities": [1], "probabilities": [0.5, 0.5]},
        {"sigma": 0, "sensitivities": [1, 2], "probabilities": [0.5, 0.5]},
        {"sigma": 1, "sensitivities": [1, 100], "probabilities": [0.5, 0.5]},
        {"sigma": 1, "sensitivities": [], "probabilities": []},
        {"sigma": 1, "sensitivities": [1, math.inf], "probabilities": [0.5, 0.5]},
    ],
)
def test_what_is_no_mixture_is_refused(bad: dict) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        ts.gaussian_mixture(**bad)
